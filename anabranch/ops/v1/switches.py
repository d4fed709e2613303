"""Control flow as TensorFlow 1 wrote it: ``Switch`` and ``Merge``, loops made of frames, and their hand-made builders.

Policy. These ops stay in the user's graph as they are. They have no meaning one by one: a ``Switch`` makes one of its
outputs *dead*, and what is dead makes dead what takes it, up to a ``Merge``; an ``Enter`` opens a frame in which ops
run once per iteration. A session therefore never plans them. It plans the functional view of the graph
(:mod:`anabranch.rewrite.functional_view`), in which they have become conditionals and loops, or runs the graph by
tokens (:mod:`anabranch.runtime.v1.tokens`), which needs of them only what their contracts say. Gradients pass through
the conditionals and loops of that view, too; a switch or merge that belongs to none has a rule of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.api import public
from anabranch.core.contract.inference import ShapeContext
from anabranch.core.contract.opdef import PURE, Bool, Int, NotDifferentiable, Op, Role, String, Type, define
from anabranch.core.graph import composites
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import shapes

TYPES = frozenset(
    (
        *("Switch", "RefSwitch", "_SwitchN", "Merge", "RefMerge", "LoopCond", "ControlTrigger"),
        *("Enter", "RefEnter", "Exit", "RefExit", "NextIteration", "RefNextIteration"),
    )
)
"""Op types that run only in a functional view or by tokens."""

_BY_REGION = NotDifferentiable("its gradient is that of the conditional or loop that it belongs to")
_FRAME = {"T": Type(), "frame_name": String(), "is_constant": Bool(False), "parallel_iterations": Int(10)}


def _never(ctx: Any, inputs: Sequence[Any], attrs: Any) -> Any:
    raise errors.InternalError(None, ctx.op, "control flow of version 1 met outside its region")


def _same(ctx: Any, inputs: Sequence[Any], attrs: Any) -> Any:
    return inputs[0]


def _pass_handle(c: ShapeContext, count: int) -> None:
    handle = c.handle(0)
    if handle is not None:
        for i in range(count):
            c.set_handle(i, handle.dtype, handle.shape)


def _switch_shapes(c: ShapeContext) -> list[Any]:
    c.with_rank(1, 0)
    count = int(c.attrs.get("num_outs", 2))
    _pass_handle(c, count)
    return [c.shapes[0]] * count


def _merge_shapes(c: ShapeContext) -> list[Any]:
    dims = c.shapes[0]
    for other in c.shapes[1:]:
        dims = shapes.generalize(dims, other)
    handles = [c.handle(i) for i in range(len(c.shapes))]
    if handles[0] is not None and all(handle == handles[0] for handle in handles):
        c.set_handle(0, handles[0].dtype, handles[0].shape)
    return [dims, ()]


def _kept_shape(c: ShapeContext) -> Any:
    _pass_handle(c, 1)
    return c.shapes[0]


def _dense_unless_alike(grads: Sequence[Any]) -> list[Any]:
    """Gradients that can be merged: IndexedSlices stay so if all are."""
    if all(composites.is_composite(grad) for grad in grads):
        return list(grads)
    return [convert_to_tensor(grad) for grad in grads]


def _switch_gradient(op: Any, *grads: Any) -> list[Any]:
    """Of a switch that belongs to no conditional: the gradient of the side that is not dead."""
    if op.inputs[1].op.type == "LoopCond":
        return [None, None]  # that of a loop is the loop's
    sides = _dense_unless_alike(grads)
    chosen = [switch(side, op.inputs[1])[i] for i, side in enumerate(sides)]
    return [merge(chosen)[0], None]


def _merge_gradient(op: Any, grad: Any, _: Any) -> list[Any]:
    """Of a merge that belongs to no conditional: the gradient goes to the input that was not dead."""
    if any(tensor.op.type in _CLOSES_LOOPS for tensor in op.inputs):
        return [None] * len(op.inputs)
    places = [build("Equal", op.outputs[1], constant(i, op.outputs[1].dtype)) for i in range(len(op.inputs))]
    return [switch(grad, place)[1] for place in places]


_CLOSES_LOOPS = ("NextIteration", "RefNextIteration")
_OUTSIDE_REGIONS = {
    "Switch": _switch_gradient,
    "RefSwitch": _switch_gradient,
    "Merge": _merge_gradient,
    "RefMerge": _merge_gradient,
}


def _define(
    name: str, doc: str, signature: str, attrs: dict[str, Any], shape: Any, kernel: Any, passes: str | None = None
) -> None:
    define(
        name,
        doc,
        signature=signature,
        attrs=attrs,
        effect=PURE,
        shape=shape,
        gradient=_OUTSIDE_REGIONS.get(name, _BY_REGION),
        host_kernel=kernel,
        passes=passes,
        role=Role.FLOW,
        allows_uninitialized=name == "RefSwitch",
    )


for _ref, _kind, _told in (("", "T", ""), ("Ref", "Ref(T)", " As a reference.")):
    _define(
        f"{_ref}Switch",
        f"Hands ``data`` to ``output_true`` if the scalar ``pred`` holds, otherwise to ``output_false``; the other "
        f"output is dead.{_told}",
        f"data: {_kind}, pred: bool -> output_false: {_kind}, output_true: {_kind}",
        {"T": Type()},
        _switch_shapes,
        _never,
        passes="data",
    )
    _define(
        f"{_ref}Merge",
        f"The one of its inputs that is not dead, and its index.{_told}",
        f"inputs: N * {_kind} -> output: {_kind}, value_index: int32",
        {"T": Type(), "N": Int(minimum=1)},
        _merge_shapes,
        _never,
    )
    _define(
        f"{_ref}Enter",
        f"Hands ``data`` into the frame ``frame_name``: to its first iteration, or, if ``is_constant``, to "
        f"each.{_told}",
        f"data: {_kind} -> output: {_kind}",
        _FRAME,
        _kept_shape,
        _same,
        passes="data",
    )
    _define(
        f"{_ref}Exit",
        f"Hands ``data`` out of its frame.{_told}",
        f"data: {_kind} -> output: {_kind}",
        {"T": Type()},
        _kept_shape,
        _same,
    )
    _define(
        f"{_ref}NextIteration",
        f"Hands ``data`` to the next iteration of its frame.{_told}",
        f"data: {_kind} -> output: {_kind}",
        {"T": Type()},
        _kept_shape,
        _same,
    )

_define(
    "_SwitchN",
    "Hands ``data`` to output number ``output_index``, to the last one if it is out of range; the others are dead.",
    "data: T, output_index: int32 -> outputs: num_outs * T",
    {"num_outs": Int(minimum=1), "T": Type()},
    _switch_shapes,
    _never,
    passes="data",
)
_define(
    "LoopCond",
    "Marks the scalar that says whether the loop of its frame goes on.",
    "input: bool -> output: bool",
    {},
    inference.unchanged,
    _same,
)
_define(
    "ControlTrigger",
    "Does nothing, once all its control inputs have run or are dead; it is never dead itself.",
    "->",
    {},
    inference.no_outputs,
    lambda ctx, inputs, attrs: None,
)


class Abort(Op):
    """End the step with ``error_msg``, or, if ``exit_without_error``, the program."""

    signature = "->"
    attrs = {"error_msg": String(""), "exit_without_error": Bool(False)}
    effect = PURE
    shape = inference.no_outputs
    gradient = NotDifferentiable("it has no outputs")

    def host_kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        if attrs["exit_without_error"]:
            raise SystemExit(0)
        text = attrs["error_msg"]
        text = text.decode("utf-8", "replace") if isinstance(text, bytes) else text
        raise errors.AbortedError(None, ctx.op, text or "Abort")


# ------------------------------------------------------------------------------------------------------- built by hand
def _ref_or_tensor(data: Any) -> Tensor:
    return convert_to_tensor(data, as_ref=True, name="data")


@public("control_flow_ops.switch")
def switch(data: Any, pred: Any, dtype: Any = None, name: str | None = None) -> tuple[Any, Any]:
    """``(output_false, output_true)``: ``data`` comes out of the one that the scalar ``pred`` names, the other is dead.

    ``data`` may be IndexedSlices or a sparse tensor: each of its tensors goes the same way.

    Example:
        >>> import anabranch as tf
        >>> from anabranch.control_flow_ops import merge, switch
        >>> with tf.Session() as session:
        ...     if_false, if_true = switch(tf.constant(3.0), tf.constant(True))
        ...     session.run(merge([if_false * 10.0, if_true * 2.0]).output)
        np.float32(6.0)
    """
    if composites.is_composite(data):
        sides = zip(*(switch(part, pred, name=name) for part in composites.parts(data)), strict=True)
        if_false, if_true = (composites.rebuilt(data, side) for side in sides)
        return if_false, if_true
    tensor = data if isinstance(data, Tensor) else convert_to_tensor(data, dtype=dtype, name="data")
    outputs = build("Switch", tensor, convert_to_tensor(pred, name="pred"), name=name or "Switch")
    return outputs.output_false, outputs.output_true


@public("control_flow_ops.ref_switch")
def ref_switch(data: Any, pred: Any, dtype: Any = None, name: str = "RefSwitch") -> tuple[Tensor, Tensor]:
    """Like ``switch``, of a variable's reference."""
    outputs = build("RefSwitch", _ref_or_tensor(data), convert_to_tensor(pred, name="pred"), name=name)
    return outputs.output_false, outputs.output_true


class Merged(NamedTuple):
    """What :func:`merge` gives for values of several tensors."""

    output: Any
    value_index: Tensor


@public("control_flow_ops.merge")
def merge(inputs: Sequence[Any], name: str | None = None) -> Any:
    """``(output, value_index)``: the one of ``inputs`` that is not dead. ValueError if one of them is None.

    IndexedSlices and sparse tensors are merged with their like.
    """
    if any(item is None for item in inputs):
        raise ValueError(
            f"At least one of the merge inputs is None: {inputs}\n"
            + errors.message(f"{inputs!r} to merge", "tensors only", "leave out what is None")
        )
    forms = {(type(item), len(composites.parts(item))) for item in inputs if composites.is_composite(item)}
    if forms:
        if len(forms) > 1 or not all(composites.is_composite(item) for item in inputs):
            raise TypeError(
                errors.message(
                    f"{', '.join(type(item).__name__ for item in inputs)} to merge",
                    "tensors, or IndexedSlices (sparse tensors) with the same parts",
                    "tf.convert_to_tensor of each",
                )
            )
        rows = zip(*(composites.parts(item) for item in inputs), strict=True)
        merged = [merge(row, name) for row in rows]
        return Merged(composites.rebuilt(inputs[0], [item.output for item in merged]), merged[0].value_index)
    tensors = [_ref_or_tensor(item) for item in inputs]
    kind = "RefMerge" if all(tensor.dtype.is_ref for tensor in tensors) else "Merge"
    return build(kind, tensors, name=name or "Merge")


@public("control_flow_ops.enter")
def enter(
    data: Any, frame_name: str, is_constant: bool = False, parallel_iterations: int = 10, name: str | None = None
) -> Tensor:
    """``data`` inside the frame ``frame_name``: in its first iteration, or in each if ``is_constant``."""
    tensor = _ref_or_tensor(data)
    kind = "RefEnter" if tensor.dtype.is_ref else "Enter"
    tensor_inside: Tensor = build(
        kind,
        tensor,
        frame_name=frame_name,
        is_constant=is_constant,
        parallel_iterations=parallel_iterations,
        name=name or "Enter",
    )
    return tensor_inside


@public("control_flow_ops.exit")
def exit(data: Any, name: str | None = None) -> Tensor:
    """``data`` outside its frame."""
    tensor = _ref_or_tensor(data)
    tensor_outside: Tensor = build("RefExit" if tensor.dtype.is_ref else "Exit", tensor, name=name or "Exit")
    return tensor_outside


@public("control_flow_ops.next_iteration")
def next_iteration(data: Any, name: str | None = None) -> Tensor:
    """``data`` in the next iteration of its frame; close the loop with ``merge.op._update_input(1, next)``."""
    tensor = _ref_or_tensor(data)
    kind = "RefNextIteration" if tensor.dtype.is_ref else "NextIteration"
    next_value: Tensor = build(kind, tensor, name=name or "NextIteration")
    return next_value


@public("control_flow_ops.loop_cond")
def loop_cond(pred: Any, name: str | None = None) -> Tensor:
    """The scalar ``pred`` as what says whether the loop of its frame goes on."""
    condition: Tensor = build("LoopCond", convert_to_tensor(pred, name="input"), name=name or "LoopCond")
    return condition
