"""Dtypes and shapes of what is read from a GraphDef: those that a file gives, and those that are inferred."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.inference import HandleData
from anabranch.core.graph.operation import Operation
from anabranch.core.graphdef import import_nodes
from anabranch.core.graphdef.import_nodes import Node
from anabranch.core.values import dtypes, shapes


def listed_shape(attrs: Any, key: str) -> shapes.RawShape:
    """The first shape of an attribute that is a list of shapes, or None."""
    return shapes.as_raw(attrs[key].list.shape[0]) if key in attrs and attrs[key].list.shape else None


def arg_dtypes(arg: Any, given: dict[str, Any]) -> list[dtypes.DType]:
    """Dtypes of the tensors that an argument of a function's signature stands for."""

    def of_call(key: str, kind: type, expected: str) -> Any:
        value = given.get(key)
        if isinstance(value, kind):
            return value
        raise ValueError(
            errors.message(f"a call with {key} = {value!r} for the argument {arg.name!r}", expected, "give it a value")
        )

    if arg.type_list_attr:
        return list(of_call(arg.type_list_attr, tuple, "a list of types"))
    dtype = of_call(arg.type_attr, dtypes.DType, "a type") if arg.type_attr else dtypes.as_dtype(int(arg.type))
    if arg.is_ref:
        dtype = dtype._as_ref
    count = of_call(arg.number_attr, int, "a number") if arg.number_attr else 1
    if not 0 <= count <= import_nodes.MOST_TENSORS:
        raise ValueError(
            errors.message(
                f"{arg.number_attr} = {count} tensors for the argument {arg.name!r}",
                f"a number up to {import_nodes.MOST_TENSORS}",
                "as many as the call gives",
            )
        )
    return [dtype] * count


class _EntryContext(inference.ShapeContext):
    """See nothing of the inputs that back edges bring."""

    __slots__ = ("hidden",)
    hidden: tuple[int, ...]

    def _partial(self, position: int) -> Any:
        return None if position in self.hidden else super()._partial(position)

    def _handle(self, position: int) -> HandleData | None:
        return None if position in self.hidden else super()._handle(position)


def infer_entry(op: Operation, hidden: tuple[int, ...]) -> None:
    """Shapes of an op whose back edges are not there yet: what comes over them may have any shape."""
    known = [None if i in hidden else tensor._shape for i, tensor in enumerate(op._inputs)]
    context = _EntryContext(op.definition, op._attrs, op._inputs, known)
    context.hidden = hidden
    for output, raw in zip(op._outputs, inference.infer(op.definition, context, len(op._outputs)), strict=True):
        output._shape = raw
        output._known = None  # a value that changes from one iteration to the next


def merge_shapes(node: Node, op: Operation) -> None:
    """Refine static shapes by the ``_output_shapes`` that the file gives."""
    listed = [shapes.as_raw(shape) for shape in node.output_shapes or ()]
    if not listed:
        return
    problem = f"{len(listed)} shapes for {len(op._outputs)} outputs" if len(listed) != len(op._outputs) else ""
    for tensor, shape in zip(op._outputs, listed, strict=False):
        if not shapes.is_compatible(tensor._shape, shape):
            problem = f"{shapes.show(shape)} for output {tensor.value_index}, which is {shapes.show(tensor._shape)}"
        elif not problem:
            tensor._shape = shapes.merge(tensor._shape, shape)
    if problem:
        raise import_nodes.refuse(
            node.proto,
            f"_output_shapes {problem}",
            "shapes that agree with the op's",
            "delete the attribute: del node.attr['_output_shapes']",
            f"Node {node.name!r} has an _output_shapes attribute inconsistent with the GraphDef",
        )
