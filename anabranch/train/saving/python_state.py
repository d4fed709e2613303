"""State of Python objects in checkpoints by object: `tf.train.experimental.PythonState`."""

from __future__ import annotations

import abc
from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import constant
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes
from anabranch.ops.control.python_functions import py_func
from anabranch.train.saving.saveable import SaveableObject, SaveSpec
from anabranch.variables.tracking import Trackable


class PythonStateSaveable(SaveableObject):
    """A state as a string: taken when the checkpoint is written, given back when one is restored.

    Args:
        state: what is saved.
        name: its key.
    """

    def __init__(self, state: PythonState, name: str) -> None:
        self._state = state
        spec = SaveSpec(self._serialized, "", name, dtype=dtypes.string, device="/device:CPU:0")
        super().__init__(self._serialized, [spec], name)

    def _serialized(self) -> Tensor:
        if not current_builder().defers:
            return constant(self._state.serialize(), dtypes.string)
        text: Tensor = py_func(lambda: self._state.serialize(), [], dtypes.string)
        text.set_shape([])
        return text

    def restore(self, restored_tensors: list[Tensor], restored_shapes: list[Any] | None) -> Any:
        if not current_builder().defers:
            self._state.deserialize(restored_tensors[0].numpy())  # type: ignore[attr-defined]
            return build("NoOp")
        return py_func(lambda text: self._state.deserialize(text), restored_tensors, []).op


@public("train.experimental.PythonState", "contrib.checkpoint.PythonStateWrapper")
class PythonState(Trackable, abc.ABC):
    """A Python object whose state is part of checkpoints by object.

    Derive from it, and define both methods.

    Example:
        >>> import anabranch as tf
        >>> class Epoch(tf.train.experimental.PythonState):
        ...     number = 3
        ...     def serialize(self):
        ...         return str(self.number)
        ...     def deserialize(self, string_value):
        ...         self.number = int(string_value)
        >>> checkpoint = tf.train.Checkpoint(epoch=Epoch())
    """

    @abc.abstractmethod
    def serialize(self) -> str | bytes:
        """The state, as a string."""

    @abc.abstractmethod
    def deserialize(self, string_value: bytes) -> None:
        """Take the state from a string."""

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        """What saves it."""
        return {"py_state": lambda name: PythonStateSaveable(self, name)}


__all__ = ["PythonState", "PythonStateSaveable"]
