"""Barriers: the objects behind ``Barrier``, which gather the components of values by key.

Components of a key's value come in any order; a value whose last component has come is ready, and ready values are
taken in the order in which their keys came first. What is ready stands in a :class:`PriorityQueue`. A closed barrier
takes no new keys but lets begun values be completed; closed by ``cancel``, not even that. When it is closed and nothing
is left to complete, who waits for more values than there are is told so with OutOfRangeError.

An interrupt waits until an insertion is over: no value is between the incomplete ones and those that are ready when it
comes.
"""

from __future__ import annotations

import threading
from typing import Any

import numpy as np

from anabranch.core import errors, interrupts
from anabranch.core.cancellation import CancellationToken
from anabranch.core.values import dtypes, shapes
from anabranch.ops.queues.queue_objects import PriorityQueue, owned

FIRST = -(2**63)
"""The index of the first insertion of a new key."""


class Barrier:
    """Values by key, complete and incomplete ones."""

    def __init__(self, name: str, attrs: dict[str, Any]) -> None:
        self.name = name
        self._types = tuple(attrs["component_types"])
        self._lock = threading.Lock()
        self._incomplete: dict[bytes, tuple[int, list[Any]]] = {}
        self._next = FIRST
        self._closed = False
        self._cancelled = False
        self._queue_closed = False
        component_shapes = self._shapes = tuple(attrs["shapes"])
        self.ready = PriorityQueue(
            f"{name}_queue",
            {
                "component_types": (dtypes.string, *self._types),
                "shapes": ((), *component_shapes) if component_shapes else (),
                "capacity": -1,
            },
        )

    def check_maker(self, type_name: str, attrs: dict[str, Any], op: Any) -> None:
        """Refuse a second maker (by ``shared_name``) that wants another barrier than this one."""
        types, own_shapes = tuple(attrs["component_types"]), tuple(attrs["shapes"])
        if types != self._types:
            given, own = ([dtype.name for dtype in each] for each in (types, self._types))
            self._refuse(op, f"Shared barrier '{self.name}' has component types {own} but requested were {given}")
        if own_shapes != self._shapes:
            asked, own = ([shapes.show(shape) for shape in each] for each in (own_shapes, self._shapes))
            self._refuse(op, f"Shared barrier '{self.name}' has component shapes {own} but requested were {asked}")

    def incomplete_size(self) -> int:
        """How many values lack a component."""
        with self._lock:
            return len(self._incomplete)

    def insert(self, keys: Any, component: int, values: Any, op: Any = None) -> None:
        """Set component number ``component`` of the values of ``keys`` ``[n]`` to ``values`` ``[n, ...]``."""
        if not 0 <= component < len(self._types):
            self._refuse(op, f"The component ID is out of range {component} > num_components (= {len(self._types)})")
        if keys.ndim != 1:
            self._refuse(op, f"Expected a vector of keys, but received shape {shapes.show(keys.shape)}")
        if values.ndim == 0 or len(values) != len(keys):
            self._refuse(
                op,
                f"Expected as many values as keys: {shapes.show(values.shape)} for {len(keys)} keys, in dimension 0",
            )
        if len(keys) and not values.size:
            self._refuse(
                op,
                "Tensors with no elements are not supported for insert_many: received shape "
                f"{shapes.show(values.shape)}",
            )
        wanted = self._types[component]
        if values.dtype != wanted.np:
            self._refuse(op, f"Type mismatch in component {component}. Expected {wanted.name}, got {values.dtype}")
        values = owned(values)
        with self._lock, interrupts.held():
            if self._closed and (self._cancelled or (len(keys) and not self._incomplete)):
                raise errors.CancelledError(
                    None,
                    op,
                    f"Barrier {self.name} is closed.  Pending enqueues cancelled: {int(self._cancelled)}.  Number of "
                    f"new insertions: {len(keys)}.  Number of incomplete keys: {len(self._incomplete)}.",
                )
            complete: list[tuple[Any, ...]] = []
            try:
                self._insert(keys, component, values, complete, op)
            finally:
                # Values that are complete go on even if a later key is refused: they are no longer incomplete.
                for row in complete:
                    self.ready.enqueue(row, None, op)
                self._close_if_done()

    def _insert(self, keys: Any, component: int, values: Any, complete: list[tuple[Any, ...]], op: Any) -> None:
        index, fresh = self._next, False
        for i, key in enumerate(keys.tolist()):
            entry = self._incomplete.get(key)
            if entry is None:
                if self._closed:
                    raise errors.CancelledError(
                        None,
                        op,
                        f"Barrier {self.name} is closed, but attempted to insert a brand new key: {key.decode()}.  "
                        f"Pending enqueues cancelled: {int(self._cancelled)}.  Insertion index: {i}.  Number of "
                        f"incomplete keys: {len(self._incomplete)}.",
                    )
                entry = self._incomplete[key] = (index, [None] * len(self._types))
                if not fresh:
                    self._next, fresh = index + 1, True
            if entry[1][component] is not None:
                self._refuse(
                    op, f"Key {key.decode()} already has a value for component {component} in barrier {self.name}"
                )
            entry[1][component] = values[i, ...]
            if all(part is not None for part in entry[1]):
                del self._incomplete[key]
                name = np.empty((), object)
                name[()] = key
                complete.append((np.array(entry[0], np.int64), name, *entry[1]))

    def take(self, count: int, allow_fewer: bool, token: CancellationToken, op: Any = None) -> list[Any]:
        """Indices ``[n]``, keys ``[n]`` and components ``[n, ...]`` of ready values, waiting for ``count``."""
        with self._lock:
            if self._closed:
                there = self.ready.size()
                if allow_fewer:
                    count = min(count, there)
                else:
                    there += len(self._incomplete)
                if there < max(count, 1):
                    raise errors.OutOfRangeError(
                        None,
                        op,
                        f"Barrier '{self.name}' is closed and has insufficient elements (requested {count}, total size "
                        f"{there})",
                    )
        return self.ready.dequeue_many(count, allow_fewer, token, op)

    def close(self, cancel: bool, op: Any = None) -> None:
        """Take no new keys; ``cancel`` also drops values that are not complete."""
        with self._lock, interrupts.held():
            if self._closed and (self._cancelled or not cancel):
                raise errors.CancelledError(None, op, f"Barrier '{self.name}' is already closed.")
            self._closed, self._cancelled = True, cancel
            if cancel:
                self._incomplete.clear()
            # What is incomplete may wait for the very step that waits here for more than there is.
            self.ready.drain()
            self._close_if_done()

    def shutdown(self) -> None:
        """Let everybody who waits go (the barrier's owner goes away)."""
        self.ready.shutdown()

    def _close_if_done(self) -> None:
        """Close the queue of ready values when no more can come; the caller holds the lock."""
        if self._closed and not self._incomplete and not self._queue_closed:
            self._queue_closed = True
            self.ready.close(cancel=True)  # nobody waits to put in: the queue has no bound

    def _refuse(self, op: Any, text: str) -> None:
        raise errors.InvalidArgumentError(None, op, text)
