"""Stacks and tensor arrays as TensorFlow 1 wrote them: ops on a handle, in three generations.

Policy. As :mod:`anabranch.ops.v1.switches`: these ops stay in the graph as they are, and are lists of tensors
(``TensorList*``) in its functional view. Their kernels work on the objects of :mod:`anabranch.ops.v1.array_objects`
and run only by tokens, where the value of a handle is the object. The generations differ in what a handle is (a
reference to a string, a string, a resource) and in what they return.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.inference import ShapeContext
from anabranch.core.contract.kernels import of_kind
from anabranch.core.contract.opdef import PURE, Bool, Effect, NotDifferentiable, Shape, String, Type, channel, define
from anabranch.core.values import shapes
from anabranch.ops.v1 import array_objects

_BY_VIEW = NotDifferentiable("its gradient is that of the list which it is in the functional view")

_RANKS = {"size": 0, "max_size": 0, "index": 0, "indices": 1, "lengths": 1, "shape_to_prepend": 1}
"""What kernels count on, by the names of operands."""
TYPES: set[str] = set()
"""Op types that run only in a functional view or by tokens."""
MAKERS: dict[str, Callable[[Any, Any, str], Any]] = {}
"""Op type -> function of (inputs, attrs, name) that makes the object that its handle stands for."""


def _define(
    name: str,
    doc: str,
    signature: str,
    attrs: dict[str, Any],
    shape: Callable[[ShapeContext], Any],
    kernel: Callable[..., Any] | None = None,
    *,
    makes: str | None = None,
    stateful: bool = True,
) -> None:
    TYPES.add(name)
    effect: Effect = PURE if makes or not stateful else channel("handle")
    fields: dict[str, Any] = {"makes": makes, "create": _create} if makes else {"host_kernel": kernel}
    operands = re.findall(r"(\w+):", signature.partition("->")[0])
    fields["ranks"] = {operand: _RANKS[operand] for operand in operands if operand in _RANKS}
    define(name, doc, signature=signature, attrs=attrs, effect=effect, shape=shape, gradient=_BY_VIEW, **fields)


def _create(attrs: Any, name: str) -> Any:
    raise NotImplementedError(
        errors.message(
            f"{name!r}, a stack or array of version 1, used in the body of a conditional or loop",
            "such objects in graphs with frames, as TensorFlow 1 wrote them",
            "tf.TensorArray(dtype, size)",
        )
    )


# --------------------------------------------------------------------------------------------------------------- stacks
def _nothing(c: ShapeContext) -> list[Any]:
    return []


def _second(c: ShapeContext) -> Any:
    return c.shapes[1]


def _unknown(c: ShapeContext) -> Any:
    return None


def _make_stack(inputs: Any, attrs: Any, name: str) -> array_objects.Stack:
    return array_objects.Stack(attrs["elem_type"], int(inputs[0]) if inputs else -1)


def _stack(ctx: Any, inputs: Sequence[Any]) -> array_objects.Stack:
    stack: array_objects.Stack = of_kind(ctx, ctx.resource(inputs[0]), array_objects.Stack, "a stack")
    return stack


def _push(ctx: Any, inputs: Sequence[Any], attrs: Any) -> Any:
    _stack(ctx, inputs).push(ctx.op, inputs[1])
    return inputs[1]


def _pop(ctx: Any, inputs: Sequence[Any], attrs: Any) -> Any:
    return _stack(ctx, inputs).pop(ctx.op)


def _close(ctx: Any, inputs: Sequence[Any], attrs: Any) -> Any:
    _stack(ctx, inputs).close()
    return []


_STACK = {"elem_type": Type(), "stack_name": String("")}
for _suffix, _handle, _size in (("", "Ref(string)", ""), ("V2", "resource", "max_size: int32")):
    _define(
        f"Stack{_suffix}",
        "A stack that lives as long as the step.",
        f"{_size} -> handle: {_handle}",
        _STACK,
        lambda c: (2,),  # also of a resource, as files say in `_output_shapes`
        makes="stack",
    )
    MAKERS[f"Stack{_suffix}"] = _make_stack
    _define(
        f"StackPush{_suffix}",
        "Puts ``elem`` on top of the stack and hands it on.",
        f"handle: {_handle}, elem: T -> output: T",
        {"T": Type(), "swap_memory": Bool(False)},
        _second,
        _push,
    )
    _define(
        f"StackPop{_suffix}",
        "Takes the top element off the stack.",
        f"handle: {_handle} -> elem: elem_type",
        {"elem_type": Type()},
        _unknown,
        _pop,
    )
    _define(f"StackClose{_suffix}", "Drops the stack.", f"handle: {_handle} ->", {}, _nothing, _close)


# -------------------------------------------------------------------------------------------------------- tensor arrays
def _make_array(inputs: Any, attrs: Any, name: str) -> array_objects.TensorArray:
    return array_objects.TensorArray(
        attrs["dtype"],
        int(inputs[0]),
        element_shape=attrs["element_shape"],
        dynamic_size=attrs["dynamic_size"],
        clear_after_read=attrs["clear_after_read"],
    )


def _element_shape(c: ShapeContext) -> Any:
    handle = c.handle(0)
    return None if handle is None else handle.shape


def _array_shapes(c: ShapeContext) -> list[Any]:
    c.set_handle(0, c.attrs["dtype"], c.attrs["element_shape"])
    return [(2,), ()][: len(c.definition.outputs)]


def _grad_shapes(c: ShapeContext) -> list[Any]:
    handle = c.handle(0)
    if handle is not None:
        shape = handle.shape
        if "shape_to_prepend" in [spec.name for spec in c.definition.inputs] and shape is not None:
            more = c.vector("shape_to_prepend")
            shape = None if more is None else (*more, *shape)
        c.set_handle(0, handle.dtype, shape)
    return [c.shapes[0], ()][: len(c.definition.outputs)]


def _flow_shape(c: ShapeContext) -> Any:
    return ()


def _read_shape(c: ShapeContext) -> Any:
    return _element_shape(c)


def _gather_shape(c: ShapeContext) -> Any:
    element = shapes.merge(_element_shape(c), c.attrs["element_shape"])
    if element is None:
        return None
    indices = c.with_rank("indices", 1)
    return (indices[0] if indices is not None else None, *element)


def _pack_shape(c: ShapeContext) -> Any:
    element = shapes.merge(_element_shape(c), c.attrs["element_shape"])
    return None if element is None else (None, *element)


def _concat_shapes(c: ShapeContext) -> list[Any]:
    row_shape = c.attrs["element_shape_except0"]
    return [None if row_shape is None else (None, *row_shape), (None,)]


def _object(ctx: Any, inputs: Sequence[Any]) -> array_objects.TensorArray:
    kind = array_objects.TensorArray
    array: array_objects.TensorArray = of_kind(ctx, ctx.resource(inputs[0]), kind, "a TensorArray")
    return array


def _rows(ctx: Any, value: Any) -> None:
    ctx.check(np.ndim(value) > 0, errors.InvalidArgumentError, "value must have rows, but is a scalar")


def _write(ctx: Any, inputs: Sequence[Any], attrs: Any) -> Any:
    _object(ctx, inputs).write(ctx.op, int(inputs[1]), inputs[2])
    return inputs[3]


def _read(ctx: Any, inputs: Sequence[Any], attrs: Any) -> Any:
    return _object(ctx, inputs).read(ctx.op, int(inputs[1]))


def _gather(ctx: Any, inputs: Sequence[Any], attrs: Any) -> Any:
    return _object(ctx, inputs).gather(ctx.op, inputs[1], attrs["element_shape"])


def _scatter(ctx: Any, inputs: Sequence[Any], attrs: Any) -> Any:
    _rows(ctx, inputs[2])
    _object(ctx, inputs).scatter(ctx.op, inputs[1], inputs[2])
    return inputs[3]


def _pack(ctx: Any, inputs: Sequence[Any], attrs: Any) -> Any:
    array = _object(ctx, inputs)
    return array.gather(ctx.op, range(array.size(ctx.op)), attrs["element_shape"])


def _unpack(ctx: Any, inputs: Sequence[Any], attrs: Any) -> Any:
    _rows(ctx, inputs[1])
    _object(ctx, inputs).scatter(ctx.op, range(inputs[1].shape[0]), inputs[1])
    return inputs[2]


def _concat(ctx: Any, inputs: Sequence[Any], attrs: Any) -> Any:
    return _object(ctx, inputs).concat(ctx.op, attrs["element_shape_except0"])


def _split(ctx: Any, inputs: Sequence[Any], attrs: Any) -> Any:
    _rows(ctx, inputs[1])
    _object(ctx, inputs).split(ctx.op, inputs[1], inputs[2])
    return inputs[3]


def _close_array(ctx: Any, inputs: Sequence[Any], attrs: Any) -> Any:
    _object(ctx, inputs).close()
    return []


def _size_of(ctx: Any, inputs: Sequence[Any], attrs: Any) -> Any:
    return np.int32(_object(ctx, inputs).size(ctx.op))


def _grad(ctx: Any, inputs: Sequence[Any], attrs: Any) -> Any:
    prepended = tuple(int(item) for item in inputs[2]) if len(inputs) > 2 else ()
    gradients: list[Any] = [_object(ctx, inputs).gradient(attrs["source"], prepended)]
    return [*gradients, inputs[1]][: len(ctx.op._outputs)]


for _suffix, _handle in (("", "Ref(string)"), ("V2", "string"), ("V3", "resource")):
    _v3 = _suffix == "V3"
    _stateful = _suffix != "V2"
    _array = {
        "dtype": Type(),
        "element_shape": Shape(None),
        "dynamic_size": Bool(False),
        "clear_after_read": Bool(True),
        **({"identical_element_shapes": Bool(False)} if _v3 else {}),
        "tensor_array_name": String(""),
    }
    if not _suffix:  # the order in which files of that time have them
        _array["element_shape"] = _array.pop("element_shape")
    _out = f"handle: {_handle}" + (", flow: float" if _v3 else "")
    _define(
        f"TensorArray{_suffix}",
        "A list of ``size`` tensors that lives as long as the step.",
        f"size: int32 -> {_out}",
        _array,
        _array_shapes,
        makes="tensor_array",
    )
    MAKERS[f"TensorArray{_suffix}"] = _make_array
    _taken = f"handle: {_handle if _v3 else 'string'}, flow_in: float"
    _out = f"grad_handle: {_handle}" + (", flow_out: float" if _v3 else "")
    _define(
        f"TensorArrayGrad{_suffix}",
        "The array of gradients of another one that ``source`` names; made when first asked for.",
        f"{_taken} -> {_out}",
        {"source": String()},
        _grad_shapes,
        _grad,
    )
    _in = f"handle: {_handle}"
    for _name, _doc, _signature, _attrs, _shape, _kernel in (
        (
            "Write",
            "Sets element ``index``.",
            f"{_in}, index: int32, value: T, flow_in: float -> flow_out: float",
            {"T": Type()},
            _flow_shape,
            _write,
        ),
        (
            "Read",
            "Element ``index``.",
            f"{_in}, index: int32, flow_in: float -> value: dtype",
            {"dtype": Type()},
            _read_shape,
            _read,
        ),
        (
            "Gather",
            "The elements ``indices``, stacked along a new first dimension.",
            f"{_in}, indices: int32, flow_in: float -> value: dtype",
            {"dtype": Type(), "element_shape": Shape(None)},
            _gather_shape,
            _gather,
        ),
        (
            "Scatter",
            "Sets the elements ``indices`` to the rows of ``value``.",
            f"{_in}, indices: int32, value: T, flow_in: float -> flow_out: float",
            {"T": Type()},
            _flow_shape,
            _scatter,
        ),
        (
            "Concat",
            "All elements joined along their first dimension, and their sizes there.",
            f"{_in}, flow_in: float -> value: dtype, lengths: int64",
            {"dtype": Type(), "element_shape_except0": Shape(None)},
            _concat_shapes,
            _concat,
        ),
        (
            "Split",
            "Sets the elements to consecutive pieces of ``value``, of ``lengths`` rows.",
            f"{_in}, value: T, lengths: int64, flow_in: float -> flow_out: float",
            {"T": Type()},
            _flow_shape,
            _split,
        ),
        ("Size", "The number of elements.", f"{_in}, flow_in: float -> size: int32", {}, _flow_shape, _size_of),
        ("Close", "Drops the array.", f"{_in} ->", {}, _nothing, _close_array),
    ):
        _define(f"TensorArray{_name}{_suffix}", _doc, _signature, _attrs, _shape, _kernel, stateful=_stateful)

_define(
    "TensorArrayPack",
    "All elements, stacked along a new first dimension.",
    "handle: Ref(string), flow_in: float -> value: dtype",
    {"dtype": Type(), "element_shape": Shape(None)},
    _pack_shape,
    _pack,
)
_define(
    "TensorArrayUnpack",
    "Sets all elements to the rows of ``value``.",
    "handle: Ref(string), value: T, flow_in: float -> flow_out: float",
    {"T": Type()},
    _flow_shape,
    _unpack,
)
_define(
    "TensorArrayGradWithShape",
    "Like ``TensorArrayGradV3``, of elements that have ``shape_to_prepend`` before their own shape.",
    "handle: resource, flow_in: float, shape_to_prepend: int32 -> grad_handle: resource, flow_out: float",
    {"source": String()},
    _grad_shapes,
    _grad,
)
