"""Staging areas: the objects behind ``Stage``, ``MapStage`` and their kin.

A staging area holds tuples of tensors between two steps: in order of arrival, or under int64 keys. A capacity bounds
the tuples in it and a memory limit their bytes; who puts in waits for room, who takes out or looks waits for what it
wants. Under keys a tuple may come and go in parts: it counts as there (and against the capacity) once it is complete,
and is gone when its last part has been taken. A complete tuple for a key that is there already is dropped.

All waiting goes through a step's cancellation token; an area whose session ends lets its waiters go. An interrupt waits
while tuples move: a tuple is there with all that counts it, or gone.
"""

from __future__ import annotations

import collections
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import conditions, errors, interrupts
from anabranch.core.cancellation import CancellationToken

Parts = dict[int, Any]
"""Tensors of a tuple by their position."""


def size_of(values: Sequence[Any]) -> int:
    """Bytes of tensors; of strings, their lengths."""
    return sum(
        sum(len(item) for item in value.ravel().tolist()) if value.dtype == object else value.nbytes for value in values
    )


class _Area:
    """What both kinds share: the bounds, and waiting."""

    def __init__(self, attrs: dict[str, Any]) -> None:
        self._capacity: int = attrs["capacity"]
        self._limit: int = attrs["memory_limit"]
        self._bytes = 0
        self._changed = conditions.Condition()
        self._gone = False

    def _complete(self) -> int:
        """How many tuples are there."""
        raise NotImplementedError

    def _wait(self, ready: Callable[[], Any], token: CancellationToken, op: Any) -> None:
        """Wait until ``ready()``; the caller holds the lock."""
        token.wait_for(self._changed, lambda: ready() or self._gone, op)
        if self._gone:
            raise errors.CancelledError(None, op, "The staging area is gone: its session was closed or reset")

    def _wait_for_room(self, size: int, counts: bool, token: CancellationToken, op: Any) -> None:
        """Wait until ``size`` bytes fit, and one tuple more if it ``counts``; the caller holds the lock."""
        if self._limit and size > self._limit:
            raise errors.ResourceExhaustedError(
                None,
                op,
                f"Attempted to insert tensors with combined size of '{size}' bytes into Staging Area with a memory "
                f"limit of '{self._limit}'.",
            )

        def room() -> bool:
            full = counts and self._capacity and self._complete() >= self._capacity
            return not full and not (self._limit and self._bytes + size > self._limit)

        self._wait(room, token, op)

    def size(self) -> int:
        """How many (complete) tuples it holds."""
        with self._changed:
            return self._complete()

    def shutdown(self) -> None:
        """Let everybody who waits go (the area's owner goes away)."""
        with self._changed:
            self._gone = True
            self._changed.notify_all()


class Area(_Area):
    """Tuples in order of arrival."""

    def __init__(self, attrs: dict[str, Any]) -> None:
        super().__init__(attrs)
        self._tuples: collections.deque[tuple[list[Any], int]] = collections.deque()

    def _complete(self) -> int:
        return len(self._tuples)

    def put(self, values: list[Any], token: CancellationToken, op: Any = None) -> None:
        """Add a tuple, waiting for room."""
        size = size_of(values)
        with self._changed:
            self._wait_for_room(size, True, token, op)
            with interrupts.held():
                self._tuples.append((values, size))
                self._bytes += size
                self._changed.notify_all()

    def get(self, token: CancellationToken, op: Any = None) -> list[Any]:
        """Take out the first tuple, waiting for one."""
        with self._changed:
            self._wait(lambda: self._tuples, token, op)
            with interrupts.held():
                values, size = self._tuples.popleft()
                self._bytes -= size
                self._changed.notify_all()
            return values

    def peek(self, index: int, token: CancellationToken, op: Any = None) -> list[Any]:
        """The tuple at a place, waiting until there are enough."""
        with self._changed:
            self._wait(lambda: len(self._tuples) > index, token, op)
            return self._tuples[index][0]

    def clear(self) -> None:
        """Drop all tuples."""
        with self._changed, interrupts.held():
            self._tuples.clear()
            self._bytes = 0
            self._changed.notify_all()


class KeyedArea(_Area):
    """Tuples under keys; ``ordered`` ones are taken by the smallest key when nobody names one."""

    def __init__(self, attrs: dict[str, Any], count: int, ordered: bool) -> None:
        super().__init__(attrs)
        self._count = count
        self._ordered = ordered
        self._tuples: dict[int, Parts] = {}
        self._incomplete: dict[int, Parts] = {}

    def _complete(self) -> int:
        return len(self._tuples)

    def _refuse(self, op: Any, text: str) -> None:
        raise errors.InvalidArgumentError(None, op, text)

    def _check_positions(self, key: int, positions: list[int], op: Any) -> None:
        if any(later <= earlier for earlier, later in itertools.pairwise(positions)):
            self._refuse(op, f"Indices are not strictly ordered: {positions}")
        for position in positions:
            if not 0 <= position < self._count:
                self._refuse(op, f"Index '{position}' for key '{key}' was out of bounds '{self._count}'.")

    def put(self, key: int, positions: list[int], values: list[Any], token: CancellationToken, op: Any = None) -> None:
        """Add a tuple, or a part of one, under a key; waits for room."""
        size = size_of(values)
        parts = dict(zip(positions, values, strict=True))
        with self._changed:
            self._check_positions(key, positions, op)
            whole = len(positions) == self._count
            self._wait_for_room(size, whole, token, op)
            if not whole:
                present = self._incomplete.get(key, {})
                for position in positions:
                    if position in present:
                        text = f"The tensor for index '{position}' for key '{key}' was already initialized"
                        self._refuse(op, f"{text} '{self._count}'.")
                parts = {**present, **parts}
            with interrupts.held():
                if not whole or key not in self._tuples:
                    self._bytes += size
                if len(parts) < self._count:
                    self._incomplete[key] = parts
                    return
                self._incomplete.pop(key, None)
                self._tuples.setdefault(key, parts)
                self._changed.notify_all()

    def _found(self, key: int, positions: list[int], op: Any) -> list[Any]:
        self._check_positions(key, positions, op)
        parts = self._tuples[key]
        for position in positions:
            if position not in parts:
                self._refuse(op, f"Tensor at index '{position}' for key '{key}' has already been removed.")
        return [parts[position] for position in positions]

    def _taken(self, key: int, positions: list[int], op: Any) -> list[Any]:
        values = self._found(key, positions, op)
        parts, size = self._tuples[key], size_of(values)
        with interrupts.held():
            for position in positions:
                del parts[position]
            if not parts:
                del self._tuples[key]
            self._bytes -= size
            self._changed.notify_all()
        return values

    def peek(self, key: int, positions: list[int], token: CancellationToken, op: Any = None) -> list[Any]:
        """Parts of the tuple of a key, waiting for it."""
        with self._changed:
            self._wait(lambda: key in self._tuples, token, op)
            return self._found(key, positions, op)

    def get(self, key: int, positions: list[int], token: CancellationToken, op: Any = None) -> list[Any]:
        """Take out parts of the tuple of a key, waiting for it."""
        with self._changed:
            self._wait(lambda: key in self._tuples, token, op)
            values = self._taken(key, positions, op)
        return values

    def get_any(self, positions: list[int], token: CancellationToken, op: Any = None) -> tuple[int, list[Any]]:
        """Take out parts of some tuple, waiting for one; its key, and the parts."""
        with self._changed:
            self._wait(lambda: self._tuples, token, op)
            key = min(self._tuples) if self._ordered else next(iter(self._tuples))
            return key, self._taken(key, positions, op)

    def incomplete_size(self) -> int:
        """How many tuples are there in part."""
        with self._changed:
            return len(self._incomplete)

    def clear(self) -> None:
        """Drop all tuples."""
        with self._changed, interrupts.held():
            self._tuples.clear()
            self._incomplete.clear()
            self._bytes = 0
            self._changed.notify_all()
