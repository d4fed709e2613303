"""Stacks and tensor arrays of version 1 as lists of tensors that are handed on from op to op, for functional views.

A handle is never a value of the view: what it leads to is found in the user's graph, and the list that it stands for is
one of the things that a place knows. A conditional or loop that changes a list takes it and returns it. So the order of
changes is that in which the ops are built, and the flows of tensor arrays, which told it, are plain numbers. An array
of gradients is a list beside that of the array; it exists from the first element on that touches it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.core.contract.inference import HandleData
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.regions import ENTERS, EXITS, MERGES, SWITCHES, IrregularError
from anabranch.core.values import dtypes, shapes
from anabranch.ops.v1 import tensor_arrays
from anabranch.rewrite.view_place import Key, Place

if TYPE_CHECKING:
    from anabranch.rewrite.functional_view import Builder

_CHANGES = ("Write", "Scatter", "Split", "Unpack", "Push", "Pop")


_POPS = frozenset(("StackPop", "StackPopV2"))


def _kind(op: Operation) -> str:
    """An op type without family and generation."""
    return op.type.removeprefix("TensorArray").removeprefix("Stack").removesuffix("V2").removesuffix("V3")


class Lists:
    """What a builder of views does about stacks and arrays."""

    def __init__(self, builder: Builder) -> None:
        self.builder = builder
        self._keys: dict[Tensor, Key | None] = {}

    # ------------------------------------------------------------------------------------------------------------- keys
    def key_of(self, tensor: Tensor, place: Place) -> Key | None:
        """The stack or array that a tensor is the handle of; None for other tensors."""
        if tensor.dtype.base.name not in ("resource", "string") or tensor in self.builder.fed:
            return None
        if tensor not in self._keys:
            self._keys[tensor] = self._find_key(tensor, place)
        return self._keys[tensor]

    def _find_key(self, tensor: Tensor, place: Place) -> Key | None:
        op = tensor.op
        kind = op.type
        if kind in tensor_arrays.MAKERS:
            return (op, None)
        if kind in _POPS:
            return self._popped(op, place)
        if kind.startswith("TensorArrayGrad"):
            above = self.key_of(op._inputs[0], place)
            if above is None or above[1] is not None:
                raise IrregularError(f"the array whose gradients {op.name!r} asks for is not known")
            return (above[0], op._attrs["source"])
        if kind in SWITCHES | ENTERS | EXITS or kind in ("Identity", "RefIdentity"):
            return self.key_of(op._inputs[0], place)
        if kind in MERGES:
            self._keys[tensor] = None
            keys = {self.key_of(source, place) for source in op._inputs}
            if len(keys) > 1:
                raise IrregularError(f"the stack or array behind {tensor.name!r} is chosen while the step runs")
            return keys.pop()
        return None

    def _touched(self, op: Operation, place: Place) -> Key | None:
        if op.type not in tensor_arrays.TYPES:
            return None
        if op.type in tensor_arrays.MAKERS:
            return (op, None)
        key = self.key_of(op._outputs[0] if op.type.startswith("TensorArrayGrad") else op._inputs[0], place)
        if key is None:
            raise IrregularError(f"the stack or array of {op.name!r} is not known")
        return key

    def _popped(self, op: Operation, place: Place) -> Key:
        """The array of an iteration whose handle comes off a stack; the first of several stacks stands for all."""
        regions = place.regions
        maker = self.origin((op, None), place)
        same = [
            pop
            for pop in regions.ops
            if pop.type in _POPS
            and pop._outputs[0].dtype.base.name in ("resource", "string")
            and (pop is op or self.origin((pop, None), place) is maker)
        ]
        if len({(regions.loop_of[pop], regions.item_paths[pop]) for pop in same}) > 1:
            raise IrregularError(f"the array behind {op.name!r} comes off several stacks in different places")
        return (same[0], None)

    def origin(self, key: Key, place: Place) -> Operation:
        """The op that made a stack or array; of one that comes off a stack, of those that were put there."""
        op = key[0]
        if op.type in tensor_arrays.MAKERS:
            return op
        stack = self.key_of(op._inputs[0], place)
        for push in place.regions.ops:
            if push.type in ("StackPush", "StackPushV2") and self.key_of(push._inputs[0], place) == stack:
                inner = self.key_of(push._inputs[1], place)
                if inner is not None and inner[1] is None:
                    return self.origin(inner, place)
        raise IrregularError(f"the stack or array behind {op.name!r} is not known")

    def prepare(self, ops: Iterable[Operation], place: Place) -> None:
        """Make the arrays of gradients that ``ops`` are about, where they outlive ``ops``."""
        touched = {key: op for op in ops if (key := self._touched(op, place)) is not None}
        for key, op in touched.items():
            for part in dict.fromkeys(((key[0], None), key)):
                self.take(part, place)
            if key[1] is not None and place.holds_list((key[0], None)):
                self._ensure(key, place, op)

    def take(self, key: Key, place: Place) -> None:
        """Make a list of what an earlier region left of a stack or array."""
        optional = None if place.holds_list(key) else place.left_list(key)
        if optional is not None:
            with self.builder.graph.building(place.body):
                (value,) = build(
                    "OptionalGetValue", optional, output_types=[dtypes.variant], output_shapes=[()],
                    name=f"{key[0].name}_value",
                )  # fmt: skip
            value._handle = optional._handle
            place.lists[key] = value

    def touched_later(self, keys: Iterable[Key], members: Iterable[Operation], place: Place) -> list[Key]:
        """Those of ``keys`` that ops outside of ``members`` are about."""
        inside = set(members)
        about = {
            self._touched(op, place)
            for op in place.regions.ops
            if op.type in tensor_arrays.TYPES
            and op not in inside
            and not op.type.startswith(("StackClose", "TensorArrayClose"))
        }
        about |= {(key[0], None) for key in about if key is not None}
        return [key for key in keys if key in about or (key[1] is not None and (key[0], None) in about)]

    def written(self, ops: Iterable[Operation], place: Place) -> list[Key]:
        """The stacks and arrays that ``ops`` change."""
        keys: dict[Key, None] = {}
        for op in ops:
            if op.type in tensor_arrays.TYPES and _kind(op) in _CHANGES:
                key = self._touched(op, place)
                assert key is not None
                keys[key] = None
        return list(keys)

    def _ensure(self, key: Key, place: Place, op: Operation) -> None:
        self.take(key, place)
        if place.holds_list(key):
            return
        whole = (key[0], None)
        if not place.has_list(whole):
            raise IrregularError(f"{op.name!r} stands before the array whose gradients it is about")
        maker = self.origin(key, place)
        with self.builder.graph.building(place.body):
            place.lists[key] = build(
                "TensorListReserve",
                _shape_operand(None if op.type == "TensorArrayGradWithShape" else maker._attrs["element_shape"]),
                build("TensorListLength", place.list_of(whole)),
                element_dtype=maker._attrs["dtype"],
                name=f"{maker.name}_gradients",
            )

    # -------------------------------------------------------------------------------------------------------------- ops
    def emit(self, op: Operation, place: Place) -> None:
        """Build what an op on a stack or array does."""
        builder = self.builder
        key = self._touched(op, place)
        assert key is not None
        kind = _kind(op)
        if op.type not in tensor_arrays.MAKERS:
            self.take((key[0], None), place)
            self.take(key, place)
            if kind in ("Grad", "GradWithShape"):
                self._ensure(key, place, op)
            elif kind != "Close" and not place.has_list(key):
                raise IrregularError(f"the stack or array of {op.name!r} does not exist there")
        inputs = [None if self.key_of(tensor, place) is not None else builder.get(tensor, place)
                  for tensor in op._inputs]  # fmt: skip
        graph = builder.graph
        start = len(graph._operations)
        controls = builder.controls(op._control_inputs, place)
        with graph.building(place.body), graph.control_dependencies(controls), graph.name_scope(op.name + "/"):
            results = self._build(op, kind, key, inputs, place)
        for output, value in zip(op._outputs, results, strict=True):
            if value is not None:
                if shapes.is_compatible(output._shape, value._shape):
                    value._shape = shapes.merge(output._shape, value._shape)
                place.env[output] = value
        for emitted in graph._operations[start:]:
            builder.user[emitted] = op
            emitted.user_site, emitted.original = op.user_site, op.original
            if emitted.body is place.body:
                builder.emitted[op] = emitted

    def _build(self, op: Operation, kind: str, key: Key, inputs: Sequence[Any], place: Place) -> list[Any]:
        attrs = self.origin(key, place)._attrs
        if op.type in tensor_arrays.MAKERS:
            if op.type.startswith("Stack"):
                place.lists[key] = build("EmptyTensorList", -1, -1, element_dtype=_kept(attrs["elem_type"]))
                return [None]
            shape = _shape_operand(attrs["element_shape"])
            place.lists[key] = build("TensorListReserve", shape, inputs[0], element_dtype=attrs["dtype"])
            return [None, constant(np.float32(0.0))][: len(op._outputs)]
        if kind == "Close":
            return []
        if kind in ("Grad", "GradWithShape"):
            return [None, inputs[1]][: len(op._outputs)]
        current = place.list_of(key)
        if kind == "Size":
            return [build("TensorListLength", current)]
        if kind == "Push":
            inner = self.key_of(op._inputs[1], place)
            value = inputs[1] if inner is None else place.list_of(inner)  # a handle: what it stands for now
            place.lists[key] = build("TensorListPushBack", current, value)
            return [inputs[1]]
        if kind == "Pop":
            if "elem_type" not in attrs:
                raise IrregularError(f"what {op.name!r} takes is not a stack")
            dtype = _kept(attrs["elem_type"])
            inner = self.key_of(op._outputs[0], place)
            popped = () if inner is not None else op._outputs[0]._shape
            place.lists[key], item = build("TensorListPopBack", current, _shape_operand(popped), element_dtype=dtype)
            if inner is None:
                return [item]
            attrs_of_list = self.origin(inner, place)._attrs
            item._handle = HandleData(attrs_of_list["dtype"], attrs_of_list["element_shape"])
            place.lists.setdefault(inner, item)
            return [None]
        if "dtype" not in attrs:
            raise IrregularError(f"what {op.name!r} takes is not an array")
        dtype = attrs["dtype"]
        if kind in _CHANGES:
            changed = self._changed(kind, key, current, inputs, attrs)
            if changed._handle is None:
                changed._handle = current._handle
            place.lists[key] = changed
            return [inputs[-1]]
        if kind == "Read":
            shape = self._element_shape(op, key, inputs, place, kind)
            return [build("TensorListGetItem", current, inputs[1], shape, element_dtype=dtype)]
        if kind == "Gather":
            shape = self._element_shape(op, key, inputs, place, kind)
            return [build("TensorListGather", current, inputs[1], shape, element_dtype=dtype)]
        if kind == "Pack":
            shape = self._element_shape(op, key, inputs, place, kind)
            return [build("TensorListStack", current, shape, element_dtype=dtype)]
        assert kind == "Concat"
        rest = op._attrs["element_shape_except0"]
        shape = _shape_operand(None if rest is None else (None, *rest))
        return list(build("TensorListConcatV2", current, shape, constant(np.zeros(0, np.int64)), element_dtype=dtype))

    def _changed(self, kind: str, key: Key, current: Tensor, inputs: Sequence[Any], attrs: Any) -> Tensor:
        source = key[1]
        dynamic = bool(attrs["dynamic_size"]) and source is None
        sums = source is not None
        if kind == "Write":
            index, value = inputs[1], inputs[2]
            if sums:
                old = build("TensorListGetItem", current, index, build("Shape", value), element_dtype=attrs["dtype"])
                value = build("AddV2", old, value)
            changed: Tensor = build("TensorListSetItem", current, index, value, resize_if_index_out_of_bounds=dynamic)
            return changed
        if kind == "Scatter":
            indices, value = inputs[1], inputs[2]
            if sums:
                element = build("Slice", build("Shape", value), [1], [-1])
                old = build("TensorListGather", current, indices, element, element_dtype=attrs["dtype"])
                value = build("AddV2", old, value)
            elif dynamic:
                most = build("AddV2", build("Max", indices, [0]), np.int32(1))
                size = build("Maximum", build("TensorListLength", current), most)
                current = build("TensorListResize", current, size)
            changed = build("TensorListScatterIntoExistingList", current, value, indices)
            return changed
        shape = _shape_operand(attrs["element_shape"])
        if kind == "Split":
            changed = build("TensorListSplit", inputs[1], _rows(attrs["element_shape"]), inputs[2])
        else:
            changed = build("TensorListFromTensor", inputs[1], shape)
        return build("AddN", [current, changed]) if sums else changed

    def _element_shape(self, op: Operation, key: Key, inputs: Sequence[Any], place: Place, kind: str) -> Any:
        """The shape that an element has which nobody wrote."""
        maker, source = self.origin(key, place), key[1]
        declared = maker._attrs["element_shape"]
        own = op._outputs[0]._shape
        if kind != "Read":
            own = None if own is None else own[1:]
        shape = shapes.merge(declared, own) if shapes.is_compatible(declared, own) else own
        if source is None or shapes.is_static(shape):
            return _shape_operand(shape)
        whole = place.list_of((key[0], None))
        dtype = maker._attrs["dtype"]
        if kind == "Read":
            return build("Shape", build("TensorListGetItem", whole, inputs[1], -1, element_dtype=dtype))
        if kind == "Gather":
            rows = build("TensorListGather", whole, inputs[1], -1, element_dtype=dtype)
        else:
            rows = build("TensorListStack", whole, -1, element_dtype=dtype)
        return build("Slice", build("Shape", rows), [1], [-1])


def _kept(dtype: dtypes.DType) -> dtypes.DType:
    """What a stack of a dtype keeps: lists, if it is one of handles."""
    return dtypes.variant if dtype.base.name in ("resource", "string") else dtype


def _shape_operand(shape: Any) -> Tensor:
    """A partly known shape as an operand: -1 where it is not known."""
    if shape is None:
        return constant(np.int32(-1))
    return constant(np.array([-1 if size is None else size for size in shape], np.int32))


def _rows(shape: Any) -> Tensor:
    """The shape of pieces of any number of rows."""
    return _shape_operand(None if shape is None or not shape else (None, *shape[1:]))
