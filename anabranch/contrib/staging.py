"""``tf.contrib.staging``: an area that holds tensors between two steps, to load the next while one is computed."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import module_attributes, public

__getattr__, __dir__ = module_attributes("contrib.staging")


@public("contrib.staging.StagingArea")
class StagingArea:
    """A queue of tuples of tensors, of which the first in is the first out.

    Args:
        dtypes: dtypes of the tensors of a tuple.
        shapes: their shapes, if they are known.
        names: names, for dictionaries in place of tuples.
        shared_name: name under which sessions share the area.
        capacity: most tuples that it holds; 0 for no bound.
        memory_limit: 0.
    """

    def __init__(
        self,
        dtypes: Sequence[Any],
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        if memory_limit:
            raise NotImplementedError(
                errors.message(f"memory_limit={memory_limit}", "no limit of memory: memory_limit=0", "capacity=2")
            )
        if capacity < 0:
            raise ValueError(errors.message(f"capacity={capacity}", "a capacity of 0 or more", "capacity=0"))
        self._dtypes = [tf.as_dtype(dtype) for dtype in dtypes]
        self._shapes = [tf.TensorShape(shape) for shape in shapes] if shapes is not None else None
        self._names = [names] if isinstance(names, str) else names
        self._capacity = capacity
        self._queue = tf.FIFOQueue(
            capacity or 2**31 - 1, self._dtypes, self._shapes, self._names, shared_name, "staging_area"
        )

    dtypes = property(lambda self: self._dtypes, doc="Dtypes of the tensors of a tuple.")
    names = property(lambda self: self._names, doc="Their names, or None.")
    capacity = property(lambda self: self._capacity, doc="Most tuples that it holds; 0 for no bound.")
    name = property(lambda self: self._queue.name, doc="The name.")

    @property
    def shapes(self) -> list[Any]:
        """Their shapes."""
        return self._shapes or [tf.TensorShape(None)] * len(self._dtypes)

    def put(self, values: Any, name: str | None = None) -> Any:
        """An operation that adds a tuple (a dictionary, if there are names); it waits while the area is full."""
        return self._queue.enqueue(values, name=name)

    def get(self, name: str | None = None) -> Any:
        """The first tuple, as a list (or dictionary), taken out; it waits while the area is empty."""
        values = self._queue.dequeue(name=name)
        return values if isinstance(values, (dict, list)) else [values]

    def size(self, name: str | None = None) -> Any:
        """How many tuples there are."""
        return self._queue.size(name=name)
