"""Collective ops: members on several devices, each with one value, of which each gives what they make of all values.

No member computes anything by itself: a step that needs one is planned with the op that takes the values of all members
instead (:mod:`anabranch.runtime.collectives`), which several devices compute as one collective of XLA; what the members
of one process have is brought to those of others by ``AnabranchExchange``. ``NcclReduce`` and ``NcclBroadcast`` take
all that they need, and are ops like others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.inference import RawShape, ShapeContext
from anabranch.core.contract.meetings import Meeting
from anabranch.core.contract.opdef import (
    PURE,
    Bool,
    Float,
    Int,
    List,
    NotDifferentiable,
    Op,
    Shape,
    String,
    Type,
    channel,
    define,
)
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.static_value import constant_value
from anabranch.core.values import shapes

_HINTS = {"communication_hint": String("auto"), "timeout_seconds": Float(0.0)}
_GROUP = {"group_size": Int(), "group_key": Int(), "instance_key": Int()}
_ORDERED = {"is_stateless": Bool(False), "Nordering_token": Int(0, minimum=0)}
_REDUCED = "bfloat16 float half double int32 int64"
_GATHERED = "float half double int32 int64"
_SENT = "bool float half double int32 int64"
_NCCL = "half float double int32 int64"
_KEYS = "group_size: int32, group_key: int32, instance_key: int32"
_OF_A_KEY = dict.fromkeys(_GROUP, 0)
"""The ranks of what says which members meet."""
_TOKENS = "ordering_token: Nordering_token * resource"
_NO_GRADIENT = NotDifferentiable("TensorFlow has no gradient of it; tf.contrib.nccl.all_sum has one")


def _alone(ctx, inputs, attrs):
    """Fail: whoever runs a member by itself has not found the others."""
    ctx.check(
        False,
        errors.UnimplementedError,
        f"{ctx.op.type} in the body of a function, conditional or loop, whose members cannot be found",
    )


# ------------------------------------------------------------------------------------------------ what members compute
def _sum(values: Sequence[Any]) -> Any:
    return build("AddN", list(values)) if len(values) > 1 else build("Identity", values[0])


def _stacked(type_name: str, values: Sequence[Any]) -> Any:
    return build(type_name, build("Pack", list(values)), 0)


_REDUCTIONS: dict[str, Callable[[Sequence[Any]], Any]] = {
    "sum": _sum,
    "prod": functools.partial(_stacked, "Prod"),
    "min": functools.partial(_stacked, "Min"),
    "max": functools.partial(_stacked, "Max"),
}
_OF_MERGE = {"Add": "sum", "Mul": "prod", "Min": "min", "Max": "max"}


def _divided(size: int, total: Any) -> Any:
    whole = total.dtype.is_integer
    return build("TruncateDiv" if whole else "RealDiv", total, convert.constant(size, total.dtype))


def _gathered(values: Sequence[Any]) -> Any:
    return build("ConcatV2", list(values), 0) if len(values) > 1 else build("Identity", values[0])


def _sent(values: Sequence[Any]) -> Any:
    if len(values) != 1:
        raise errors.InvalidArgumentError(
            None,
            None,
            errors.message(
                f"{len(values)} members that send, of one broadcast", "one that sends", "another instance_key for each"
            ),
        )
    return build("Identity", values[0])


# ---------------------------------------------------------------------------------------------------- who they meet by
def _group(op: Any) -> tuple[int, tuple[Any, ...]]:
    """The size and the key of a member's group: attributes, or inputs that are known while the graph is built."""
    names = tuple(_GROUP)
    if names[0] in op._attrs:
        size, *key = [op._attrs[name] for name in names]
        return size, tuple(key)
    values = []
    for name in names:
        tensor = op._inputs[op.definition.input_range(name, op._attrs).start]
        value = constant_value(tensor)
        if value is None:
            raise errors.UnimplementedError(
                None,
                op,
                errors.message(
                    f"{name} of {op.name!r}, which only a step knows", "a constant", f"{name}=tf.constant(1)"
                ),
            )
        if np.ndim(value):
            shape = shapes.show(np.shape(value))
            raise errors.InvalidArgumentError(
                None,
                op,
                f"Unexpected dimensions on input {name}\n"
                + errors.message(f"{name} of {op.name!r} of shape {shape}", "a scalar", f"{name}=tf.constant(1)"),
            )
        values.append(int(value))
    return values[0], tuple(values[1:])


def _vectors(value: Any) -> list[Any]:
    """The vectors that a value joins; itself if it is anything else."""
    parts = value.op._inputs[:-1] if value.op.type == "ConcatV2" else ()
    return (
        list(parts) if all(part._shape is not None and len(part._shape) == 1 for part in parts) and parts else [value]
    )


def _meets_to_reduce(op: Any) -> Meeting:
    how = _OF_MERGE[op._attrs["merge_op"]]
    size, key = _group(op)
    finish = functools.partial(_divided, size) if op._attrs["final_op"] == "Div" else None
    return Meeting(("reduce", *key), size, 0, how, _REDUCTIONS[how], finish, _vectors)


def _meets_to_gather(op: Any) -> Meeting:
    size, key = _group(op)
    return Meeting(("gather", *key), size, 0, "concat", _gathered)


def _meets_to_send(op: Any) -> Meeting:
    size, key = _group(op)
    return Meeting(("broadcast", *key), size, 0, "first", _sent)


def _meets_to_receive(op: Any) -> Meeting:
    size, key = _group(op)
    return Meeting(("broadcast", *key), size, None, "first", _sent)


def _meets_by_name(op: Any) -> Meeting:
    attrs, how = op._attrs, op._attrs["reduction"]
    size = attrs["num_devices"]
    return Meeting(("nccl", attrs["shared_name"]), size, 0, how, _REDUCTIONS[how], vectors=_vectors)


# -------------------------------------------------------------------------------------------------------------- shapes
def _same(c: ShapeContext) -> RawShape:
    return c.shape(0)


def _gathered_shape(c: ShapeContext) -> RawShape:
    if "shape" in c.attrs:
        return c.attrs["shape"]
    own, size = c.shape(0), c.value("group_size")
    if own is None or not own:
        return None
    first = None if own[0] is None or size is None else own[0] * int(size)
    return (first, *own[1:])


def _received_shape(c: ShapeContext) -> RawShape:
    if "shape" in c.attrs:
        return c.attrs["shape"]
    sizes = c.vector("shape")
    return None if sizes is None else tuple(sizes)


_FINAL = {"merge_op": String(allowed="Min Max Mul Add"), "final_op": String(allowed="Id Div")}
# type, signature, attributes, shape rule, whom it meets, what it does
_MEMBERS: tuple[tuple[str, str, dict[str, Any], Any, Any, str], ...] = (
    (
        "CollectiveReduce",
        "input: T -> data: T",
        {"T": Type(_REDUCED), **_GROUP, **_FINAL, "subdiv_offsets": List("int"), "wait_for": List("int", ()), **_HINTS},
        _same,
        _meets_to_reduce,
        "The sum, product, least or greatest of the values of all members, or that divided by their number.",
    ),
    (
        "CollectiveReduceV2",
        f"input: T, {_KEYS}, {_TOKENS} -> data: T",
        {"T": Type(_REDUCED), **_FINAL, **_HINTS, **_ORDERED, "max_subdivs_per_device": Int(-1)},
        _same,
        _meets_to_reduce,
        "The sum, product, least or greatest of the values of all members, or that divided by their number.",
    ),
    (
        "CollectiveGather",
        "input: T -> data: T",
        {"T": Type(_GATHERED), **_GROUP, "shape": Shape(), **_HINTS},
        _gathered_shape,
        _meets_to_gather,
        "The rows of the values of all members, in the order of their devices.",
    ),
    (
        "CollectiveGatherV2",
        f"input: T, {_KEYS}, {_TOKENS} -> data: T",
        {"T": Type(_GATHERED), **_HINTS, **_ORDERED},
        _gathered_shape,
        _meets_to_gather,
        "The rows of the values of all members, in the order of their devices.",
    ),
    (
        "CollectiveBcastSend",
        "input: T -> data: T",
        {"T": Type(_SENT), **_GROUP, "shape": Shape(), **_HINTS},
        _same,
        _meets_to_send,
        "Gives its value, which all other members of the group receive.",
    ),
    (
        "CollectiveBcastSendV2",
        f"input: T, {_KEYS} -> data: T",
        {"T": Type(_SENT), **_HINTS},
        _same,
        _meets_to_send,
        "Gives its value, which all other members of the group receive.",
    ),
    (
        "CollectiveBcastRecv",
        "-> data: T",
        {"T": Type(_SENT), **_GROUP, "shape": Shape(), **_HINTS},
        _received_shape,
        _meets_to_receive,
        "The value of the member of the group that sends.",
    ),
    (
        "CollectiveBcastRecvV2",
        f"{_KEYS}, shape: Tshape -> data: T",
        {"T": Type(_SENT), "Tshape": Type("int32 int64", "int32"), **_HINTS},
        _received_shape,
        _meets_to_receive,
        "The value of the member of the group that sends.",
    ),
)
for _type, _signature, _attributes, _shape, _meets, _doc in _MEMBERS:
    define(
        _type,
        _doc,
        signature=_signature,
        attrs=_attributes,
        effect=channel(),
        shape=_shape,
        host_kernel=_alone,
        meets=_meets,
        ranks=_OF_A_KEY if _KEYS in _signature else {},
        gradient=_NO_GRADIENT,
    )


class AnabranchExchange(Op):
    """What becomes of the values of the members of a collective in several tasks of a cluster, of which this task has
    `mine`; waits for the others. Several inputs are vectors that follow each other in one value.
    """

    signature = "input: N * T -> output: T"
    attrs = {
        "N": Int(minimum=1),
        "T": Type("bool bfloat16 half float double int32 int64"),
        "key": String(),
        "how": String(allowed="sum prod min max concat first"),
        "size": Int(minimum=1),
        "mine": Int(minimum=1),
        "sends": Bool(True),
    }
    effect = channel()
    may_block = True
    gradient = NotDifferentiable("the members of other tasks have gradients of their own")

    def shape(c):
        if c.attrs["N"] > 1:
            sizes = [c.with_rank(i, 1)[0] for i in range(c.attrs["N"])]
            return (None if None in sizes else sum(sizes),)
        if c.attrs["how"] == "concat":
            own = c.shape(0)
            return None if own is None else (None, *own[1:])
        return c.shape(0) if c.attrs["sends"] else None

    def host_kernel(ctx, inputs, attrs):
        company = None if ctx.manager is None else ctx.manager.shared.company
        ctx.check(
            company is not None,
            errors.UnimplementedError,
            f"a collective of {attrs['size']} members, of which {attrs['mine']} are in the graph, in a session of no "
            "cluster; instead: tf.Session(server.target) in each process, or all members in one graph",
        )
        return company.meet(attrs, inputs, ctx.cancellation)


# ---------------------------------------------------------------------------------------------------------------- NCCL
_BY_NAME = {"sum": "add", "prod": "multiply", "min": "minimum", "max": "maximum"}


def _refuse_other_gradients(op: Any) -> None:
    if op.get_attr("reduction") != b"sum":
        raise LookupError(
            f"No gradient defined for {op.type} except all_sum.\n"
            + errors.message(f"{op.name!r}, a {op.get_attr('reduction')!r}", "a sum", "reduction='sum'")
        )


class NcclAllReduce(Op):
    """The sum, product, least or greatest of the values of all members, which `shared_name` tells from others."""

    signature = "input: T -> data: T"
    attrs = {
        "reduction": String(allowed="min max prod sum"),
        "T": Type(_NCCL),
        "num_devices": Int(),
        "shared_name": String(),
    }
    effect = channel()
    host_kernel = _alone
    meets = _meets_by_name

    def shape(c):
        return c.shape(0)

    def gradient(op, grad):
        _refuse_other_gradients(op)
        return build(
            "NcclAllReduce",
            grad,
            reduction="sum",
            num_devices=op.get_attr("num_devices"),
            shared_name=op.get_attr("shared_name").decode() + "_grad",
        )


class NcclReduce(Op):
    """The sum, product, least or greatest of tensors of one shape, one from each device."""

    signature = "input: num_devices * T -> data: T"
    attrs = {"reduction": String(allowed="min max prod sum"), "T": Type(_NCCL), "num_devices": Int(minimum=1)}
    effect = PURE
    shape = inference.merged

    def kernel(ctx, inputs, attrs):
        if ctx.host:
            for value in inputs[1:]:
                ctx.check(
                    value.shape == inputs[0].shape,
                    errors.InvalidArgumentError,
                    f"shapes {list(inputs[0].shape)} and {list(value.shape)} of tensors to be reduced",
                )
        return functools.reduce(getattr(ctx.xp, _BY_NAME[attrs["reduction"]]), inputs)

    def gradient(op, grad):
        _refuse_other_gradients(op)
        return [grad] * len(op.inputs)


class NcclBroadcast(Op):
    """Its operand, of the shape `shape`, for ops on several devices."""

    signature = "input: T -> output: T"
    attrs = {"T": Type(_NCCL), "shape": Shape()}
    effect = PURE

    def shape(c):
        return shapes.merge(c.shape(0), c.attrs["shape"])

    def kernel(ctx, inputs, attrs):
        return inputs[0]

    def gradient(op, grad):
        return grad
