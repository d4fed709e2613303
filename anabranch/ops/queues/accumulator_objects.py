"""Conditional accumulators: the objects behind ``ConditionalAccumulator`` and its sparse kin.

A gradient counts if it was computed at the accumulator's time step or later, otherwise it is stale and dropped. Taking
waits, first come first served, until there are enough gradients; it gets the mean (or the sum) of *all* there are, sets
the accumulator back and moves its time step on by one.

Rows of sparse gradients are added where their indices agree, walking through both lists as they are, which are sorted
in the usual case; the mean of a row is over the gradients that have it.
"""

from __future__ import annotations

import collections
import logging
import threading
from typing import Any

import numpy as np

from anabranch.core import conditions, errors, interrupts
from anabranch.core.cancellation import CancellationToken
from anabranch.core.values import shapes
from anabranch.ops.queues.queue_objects import owned

_log = logging.getLogger("anabranch")


class Accumulator:
    """A dense accumulator; base of the sparse one."""

    def __init__(self, name: str, attrs: dict[str, Any]) -> None:
        self.name = name
        self._dtype = attrs["dtype"]
        self._shape = attrs["shape"]
        self._mean = attrs["reduction_type"] in ("MEAN", b"MEAN")
        self._changed = conditions.Condition()
        self._line: collections.deque[Any] = collections.deque()
        """Who waits to take: locks, each held by its owner as long as that waits."""
        self._step = 0
        self._gone = False
        self._clear()

    def _clear(self) -> None:
        self.count = 0
        self._sum: Any = None

    kind = "ConditionalAccumulator"

    def check_maker(self, type_name: str, attrs: dict[str, Any], op: Any) -> None:
        """Refuse a second maker (by ``shared_name``) that wants another accumulator than this one."""
        wanted = (type_name.removeprefix("Resource"), attrs["dtype"], attrs["shape"])
        own = (self.kind, self._dtype, self._shape)
        if wanted != own:
            shown = [
                f"a {kind} of dtype {dtype.name}, shape {shapes.show(shape)}" for kind, dtype, shape in (own, wanted)
            ]
            self._refuse(op, f"Shared accumulator '{self.name}' is {shown[0]} but {shown[1]} was requested")

    # -- what kinds do differently ------------------------------------------------------------------------------------
    def _checked(self, gradient: Any, op: Any) -> Any:
        """A gradient as it is added; InvalidArgumentError if it does not fit."""
        dims = np.shape(gradient)
        wanted = np.shape(self._sum) if self.count else self._shape
        if not shapes.is_compatible(dims, wanted):
            self._refuse(op, f"Shape mismatch: expected {shapes.show(wanted)}, got {shapes.show(dims)}")
        return owned(gradient)

    def _added(self, gradient: Any) -> tuple[Any, ...]:
        """What is kept once a gradient is added, as :meth:`_keep` takes it."""
        return (self._sum + gradient if self.count else gradient,)

    def _keep(self, total: Any) -> None:
        self._sum = total

    def _result(self) -> Any:
        return _divided(self._sum, self.count) if self._mean else np.array(self._sum)

    # -- operations ---------------------------------------------------------------------------------------------------
    def apply(self, gradient: Any, local_step: int, op: Any = None) -> None:
        """Add a gradient, unless it is stale."""
        self._check_dtype(gradient[1] if isinstance(gradient, tuple) else gradient, op)
        with self._changed:
            if local_step < self._step:
                return
            added = self._added(self._checked(gradient, op))
            with interrupts.held():  # counted if it is added
                self._keep(*added)
                self.count += 1
                self._changed.notify_all()

    def take(self, required: int, token: CancellationToken, op: Any = None) -> Any:
        """The mean (or sum) of the gradients, once there are ``required`` of them."""
        if required <= 0:
            self._refuse(op, f"Argument num_required must be positive, but was {required}")
        place = threading.Lock()
        with self._changed:
            try:
                with place:
                    self._line.append(place)
                    token.wait_for(
                        self._changed,
                        lambda: self._gone or (self._first() is place and self.count >= required),
                        op,
                    )
            finally:
                self._changed.notify_all()
            if self._gone:
                raise errors.CancelledError(None, op, f"Accumulator '{self.name}' is gone: its session was closed")
            with np.errstate(all="ignore"):
                result = self._result()
            with interrupts.held():
                self._clear()
                self._step += 1
            return result

    def _first(self) -> Any:
        """The first in the line who has not gone away."""
        while self._line and not self._line[0].locked():
            self._line.popleft()
        return self._line[0] if self._line else None

    def set_step(self, step: int) -> None:
        """Set the time step."""
        with self._changed:
            if step < self._step:
                _log.warning("Accumulator '%s' goes back from global step %d to %d", self.name, self._step, step)
            self._step = step

    def shutdown(self) -> None:
        """Let everybody who waits go (the accumulator's owner goes away)."""
        with self._changed:
            self._gone = True
            self._changed.notify_all()

    # -- parts --------------------------------------------------------------------------------------------------------
    def _check_dtype(self, values: Any, op: Any) -> None:
        if self._dtype.np != values.dtype:
            self._refuse(op, f"Wrong dtype of a gradient. Expected {self._dtype.name}, got {values.dtype}")

    def _refuse(self, op: Any, text: str) -> None:
        raise errors.InvalidArgumentError(None, op, text)


def _divided(total: np.ndarray, count: Any) -> np.ndarray:
    """A sum by a number, in the dtype of the sum; integers are cut towards zero."""
    if total.dtype.kind in "iu":
        quotient = np.abs(total) // count
        return np.asarray(np.where(total < 0, -quotient, quotient)).astype(total.dtype)
    return np.asarray(total / np.asarray(count).astype(total.dtype)).astype(total.dtype)


class SparseAccumulator(Accumulator):
    """An accumulator of gradients given as indices ``[n]``, rows ``[n, ...]`` and a dense shape, or ``[]`` for none."""

    kind = "SparseConditionalAccumulator"

    def _clear(self) -> None:
        super()._clear()
        self._indices: Any = None
        self._counts: Any = None

    def _checked(self, gradient: Any, op: Any) -> Any:
        indices, rows, dense, has_shape = gradient
        if indices.ndim != 1:
            self._refuse(op, f"Input indices should be vector but received shape: {shapes.show(indices.shape)}")
        if rows.ndim == 0:
            self._refuse(op, "Values cannot be 0-dimensional.")
        if len(indices) != len(rows):
            self._refuse(op, f"Expected {len(indices)} non-empty input values, got {len(rows)}")
        if has_shape:
            if dense.ndim != 1:
                self._refuse(op, f"Input shape should be vector but received shape: {shapes.show(dense.shape)}")
            if len(dense) != rows.ndim:
                self._refuse(op, f"Shape mismatch: expected values rank {len(dense)}, got {rows.ndim}")
        if self.count:
            known = self._sum.shape
            if len(known) != rows.ndim:
                self._refuse(op, f"Shape mismatch: expected values rank {len(known)}, got {rows.ndim}")
            for i in range(1, rows.ndim):
                if known[i] != rows.shape[i]:
                    self._refuse(op, f"Shape mismatch: expected values dim {i} to be {known[i]}, got {rows.shape[i]}")
        wanted = self._shape or ()
        given = dense if has_shape else [None, *rows.shape[1:]]
        if len(wanted) > len(given):
            self._refuse(op, f"Shape mismatch: expected shape rank at least {len(wanted)}, got {len(given)}")
        for i, (size, own) in enumerate(zip(wanted, given, strict=False)):
            if size is not None and own is not None and size != own:
                what = "shape" if has_shape else "values"
                self._refuse(op, f"Shape mismatch: expected {what} dim {i} to be {size}, got {own}")
        bound = wanted[0] if wanted else None
        if has_shape and len(dense):
            bound = int(dense[0])
        if bound is not None and len(indices) and not (indices.min() >= 0 and indices.max() < bound):
            at = int(np.argmax((indices < 0) | (indices >= bound)))
            self._refuse(
                op,
                f"Shape mismatch: index of slice {at} exceeded limits of shape; "
                f"index is {indices[at]} exceeded {bound}",
            )
        return owned(indices), owned(rows)

    def _added(self, gradient: Any) -> tuple[Any, ...]:
        indices, rows = gradient
        if not self.count:
            return indices, rows, np.ones(len(indices), np.int64)
        from_sum, from_rows = _walk(self._indices, indices)
        merged = np.zeros((len(from_sum), *rows.shape[1:]), rows.dtype)
        counts = np.zeros(len(from_sum), np.int64)
        own, new = from_sum >= 0, from_rows >= 0
        merged[own] = self._sum[from_sum[own]]
        merged[new] += rows[from_rows[new]]
        counts[own] = self._counts[from_sum[own]]
        counts[new] += 1
        places = np.empty(len(from_sum), np.int64)
        places[own] = self._indices[from_sum[own]]
        places[new] = indices[from_rows[new]]
        return places, merged, counts

    def _keep(self, indices: Any, total: Any, counts: Any) -> None:  # type: ignore[override]
        self._indices, self._sum, self._counts = indices, total, counts

    def _result(self) -> Any:
        rows = self._sum
        if self._mean:
            rows = _divided(rows, self._counts.reshape(-1, *[1] * (rows.ndim - 1)))
        first = self._shape[0] if self._shape else None
        dense = np.array([-1 if first is None else first, *rows.shape[1:]], np.int64)
        return np.array(self._indices), np.array(rows), dense


def _walk(first: np.ndarray, second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of two lists of indices merged: where each entry comes from in either, -1 for not from there."""
    if all(len(each) < 2 or bool(np.all(np.diff(each) > 0)) for each in (first, second)):
        merged = np.union1d(first, second)
        sources = []
        for each in (first, second):
            source = np.full(len(merged), -1)
            source[np.searchsorted(merged, each)] = np.arange(len(each))
            sources.append(source)
        return sources[0], sources[1]
    pairs = []
    i = j = 0
    while i < len(first) and j < len(second):
        a, b = first[i], second[j]
        pairs.append((i if a <= b else -1, j if b <= a else -1))
        i, j = i + bool(a <= b), j + bool(b <= a)
    pairs += [(at, -1) for at in range(i, len(first))] + [(-1, at) for at in range(j, len(second))]
    both = np.array(pairs, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]
