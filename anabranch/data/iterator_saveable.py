"""The place of an iterator as something that savers and checkpoints by object save."""

from __future__ import annotations

from typing import Any

from anabranch.core.contract.roles import Role
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import builder_of
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.ops.data.iterators import makers_of
from anabranch.train.saving.saveable import SaveableObject, SaveSpec


class IteratorSaveable(SaveableObject):
    """The place of an iterator as something that a saver saves."""

    def __init__(self, handle: Tensor, name: str | None = None) -> None:
        with builder_of([handle]).device(handle.device):
            place = build("SerializeIterator", handle)
        label = name or f"{handle.name}-state"
        super().__init__(handle, [SaveSpec(place, "", label)], name or handle.name)

    def restore(self, restored_tensors: list[Tensor], restored_shapes: list[Any] | None) -> Any:
        builder = builder_of([self.op])
        with builder.device(self.op.device), builder.control_dependencies(_initializers(self.op)):
            return build("DeserializeIterator", self.op, restored_tensors[0])


def _initializers(handle: Tensor) -> list[Operation]:
    """What makes the iterator, if that is certain: one operation that needs nothing to be fed."""
    if handle.has_value:
        return []
    makers = makers_of(handle)
    return makers if len(makers) == 1 and not _is_fed(makers[0]) else []


def _is_fed(op: Operation) -> bool:
    seen, waiting = {op}, [op]
    while waiting:
        for tensor in waiting.pop()._inputs:
            source = tensor.op
            if source not in seen:
                if source.role is Role.PLACEHOLDER and source.definition.effect.kind == "feed":
                    return True
                seen.add(source)
                waiting.append(source)
    return False
