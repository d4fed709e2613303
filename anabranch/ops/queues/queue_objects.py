"""Queues: the objects behind the handles of ``FIFOQueue`` and its kin.

Rules, which are TensorFlow's. Enqueues stand in one line and dequeues in another; only the first of a line acts. An
enqueue of many rows puts in as many as there is room for and waits for more; a dequeue of many rows takes out what
there is and waits for the rest, so that it may want more rows than the capacity. A dequeue that fails or is cancelled
puts back what it took. Closing stands in the line of enqueues: those that wait before it still get in, those after it
are refused; ``cancel`` closes at once and refuses all. A closed queue gives out what it has; a dequeue that wants
more than that fails with OutOfRangeError. Whoever changes the queue also moves those that wait for the change.

All waiting goes through a step's cancellation token. Rows are immutable: what is put in is copied if its owner could
still write to it.
"""

from __future__ import annotations

import collections
import contextlib
import heapq
import itertools
import secrets
import threading
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import conditions, errors, interrupts
from anabranch.core.cancellation import CancellationToken
from anabranch.core.values import dtypes, shapes

Row = tuple[Any, ...]


class _Ticket:
    """A place in a line: what its operation still wants, and how it ended."""

    __slots__ = ("cancelled", "done", "error", "op", "present", "token")

    def __init__(self, op: Any, token: CancellationToken | None) -> None:
        self.op = op
        self.token = token
        self.present = threading.Lock()
        """Held by its owner as long as that waits for it."""
        self.cancelled = False
        self.done = False
        self.error: errors.OpError | None = None

    def stopped(self) -> bool:
        """Whether it must not act any more, its owner having been told to stop."""
        gone = self.cancelled or not self.present.locked()
        return gone or (self.token is not None and self.token.cancelled)

    def act(self, queue: Queue) -> bool:
        """Go as far as the queue allows, setting ``done`` at the end; whether anything changed."""
        raise NotImplementedError

    def undo(self, queue: Queue) -> None:
        """Give back what it holds, as it will not end well."""


class _Enqueue(_Ticket):
    __slots__ = ("rows",)

    def __init__(self, rows: list[Row], op: Any, token: CancellationToken | None) -> None:
        super().__init__(op, token)
        self.rows = collections.deque(rows)

    def act(self, queue: Queue) -> bool:
        if queue.closed:
            self.error = errors.CancelledError(None, self.op, f"{queue.kind} '{queue.name}' is closed.")
            self.done = True
            return False
        before = len(self.rows)
        while self.rows and len(queue._rows) < queue.capacity:
            queue._put(self.rows.popleft())
        self.done = not self.rows
        return len(self.rows) < before


class _Dequeue(_Ticket):
    __slots__ = ("allow_fewer", "count", "taken")

    def __init__(self, count: int, allow_fewer: bool, op: Any, token: CancellationToken | None) -> None:
        super().__init__(op, token)
        self.count = count
        self.allow_fewer = allow_fewer
        self.taken: list[Row] = []

    def act(self, queue: Queue) -> bool:
        wanted, size = self.count - len(self.taken), len(queue._rows)
        if queue.draining and self.allow_fewer and not queue.closed and size < wanted and (size or self.taken):
            self.count, wanted = len(self.taken) + size, size
        if queue.closed and size < wanted:
            if not (self.allow_fewer and (size or self.taken)):
                self.error = errors.OutOfRangeError(
                    None,
                    self.op,
                    f"{queue.kind} '{queue.name}' is closed and has insufficient elements (requested "
                    f"{wanted}, current size {size})",
                )
                self.done = True
                self.undo(queue)
                return False
            self.count, wanted = len(self.taken) + size, size
        moved = max(0, min(wanted, queue._available()))
        if queue.sorts and moved < wanted:
            return False
        for _ in range(moved):
            self.taken.append(queue._take())
        self.done = len(self.taken) == self.count
        return moved > 0

    def undo(self, queue: Queue) -> None:
        queue._put_back(self.taken)
        self.taken = []


class _Close(_Ticket):
    __slots__ = ()

    def act(self, queue: Queue) -> bool:
        self.done = True
        if queue.closed:
            self.error = errors.CancelledError(None, self.op, f"Queue '{queue.name}' is already closed.")
            return False
        queue.closed = True
        return True


class Queue:
    """First in, first out; base of the others."""

    sorts = False
    """Whether what one dequeue gives is sorted: it then takes its rows together, once there are as many."""

    kind = "FIFOQueue"

    def __init__(self, name: str, attrs: dict[str, Any]) -> None:
        self.name = name
        self.types: tuple[dtypes.DType, ...] = tuple(attrs["component_types"])
        self.shapes: tuple[Any, ...] = tuple(attrs["shapes"])
        self.capacity: float = attrs["capacity"] if attrs["capacity"] >= 0 else float("inf")
        self.closed = False
        self.draining = False
        """Whether a dequeue that allows fewer rows gets what there is although the queue is open."""
        self.changed = conditions.Condition()
        self._enqueuers: collections.deque[_Ticket] = collections.deque()
        self._dequeuers: collections.deque[_Ticket] = collections.deque()
        if self.shapes and len(self.shapes) != len(self.types):
            raise errors.InvalidArgumentError(
                None, None, f"{self.kind} '{name}' has {len(self.shapes)} shapes for {len(self.types)} components"
            )
        self._start()

    # -- how rows are kept; overridden by other kinds -----------------------------------------------------------------
    def _start(self) -> None:
        self._rows: Any = collections.deque()

    def _put(self, row: Row) -> None:
        self._rows.append(row)

    def _take(self) -> Row:
        return self._rows.popleft()

    def _put_back(self, rows: list[Row]) -> None:
        self._rows.extendleft(reversed(rows))

    def _available(self) -> int:
        """How many rows a dequeue may take now."""
        return len(self._rows)

    def _fits(self, dims: tuple[int, ...], wanted: Any) -> bool:
        return dims == wanted

    # -- operations ---------------------------------------------------------------------------------------------------
    def size(self) -> int:
        """How many rows it holds."""
        with self.changed:
            return len(self._rows)

    def enqueue(self, components: Sequence[Any], token: CancellationToken | None = None, op: Any = None) -> None:
        """Put in one row, waiting for room."""
        self._check_types([dtype_of(value) for value in components], op)
        row = tuple(owned(value) for value in components)
        for i, wanted in enumerate(self.shapes):
            self._check_shape(i, np.shape(row[i]), wanted, op)
        self._enqueue_rows([row], token, op)

    def enqueue_many(self, components: Sequence[Any], token: CancellationToken | None = None, op: Any = None) -> None:
        """Put in row i of all ``components`` ``[n, ...]`` for each i, in order."""
        self._check_types([dtype_of(value) for value in components], op)
        for i, value in enumerate(components):
            if np.ndim(value) == 0:
                self._refuse(
                    op, f"Component {i} of an enqueue of many rows is a scalar, and should be at least a vector"
                )
        count = len(components[0])
        for i, value in enumerate(components):
            if self.shapes:
                wanted = None if self.shapes[i] is None else (count, *self.shapes[i])
                self._check_shape(i, np.shape(value), wanted, op)
            elif len(value) != count:
                self._refuse(
                    op,
                    f"All input tensors must have the same size in the 0th dimension. Component {i} has "
                    f"{len(value)}, and should have {count}",
                )
        kept = [owned(value) for value in components]
        self._enqueue_rows([tuple(value[i, ...] for value in kept) for i in range(count)], token, op)

    def dequeue(self, token: CancellationToken | None = None, op: Any = None) -> Row:
        """Take out one row, waiting for it."""
        return self._dequeue_rows(1, False, token, op)[0]

    def dequeue_many(
        self, count: int, allow_fewer: bool = False, token: CancellationToken | None = None, op: Any = None
    ) -> list[Any]:
        """Take out ``count`` rows as one batch; ``allow_fewer`` is content with what a closed queue still has."""
        if not self.shapes and self.types:
            self._refuse(
                op, f"{self.kind}'s DequeueMany and DequeueUpTo require the components to have specified shapes."
            )
        if count < 0:
            self._refuse(op, f"{'DequeueUpToOp' if allow_fewer else 'DequeueManyOp'} requested {count} < 0 elements")
        rows = self._dequeue_rows(count, allow_fewer, token, op) if count else []
        return [self._batch(i, [row[i] for row in rows]) for i in range(len(self.types))]

    def close(self, cancel: bool = False, token: CancellationToken | None = None, op: Any = None) -> None:
        """Refuse further rows; ``cancel`` also refuses those that wait for room."""
        with self.changed:
            if cancel:
                self.closed = True
                for ticket in self._enqueuers:
                    ticket.cancelled = True
                self._serve()
                return
        self._stand(self._enqueuers, _Close(op, token), "Close")

    def drain(self) -> None:
        """Let dequeues that allow fewer rows, also those that wait, have what there is."""
        with self.changed:
            self.draining = True
            self._serve()

    def shutdown(self) -> None:
        """Close the queue and cancel everything that waits for it (its owner goes away)."""
        with self.changed:
            self.closed = True
            for ticket in [*self._enqueuers, *self._dequeuers]:
                ticket.cancelled = True
            self._serve()

    def check_maker(self, type_name: str, attrs: dict[str, Any], op: Any) -> None:
        """Refuse a second maker (by ``shared_name``) that wants another queue than this one."""
        other = (dict(attrs), type_name.removesuffix("V2"))
        capacity = attrs["capacity"] if attrs["capacity"] >= 0 else float("inf")
        difference = None
        if other[1] != self.kind:
            difference = f"is a {self.kind} but a {other[1]} was requested"
        elif capacity != self.capacity:
            difference = f"has capacity {self.capacity} but requested capacity was {capacity}"
        elif self._maker_types(attrs) != self.types:
            asked = _names(self._maker_types(attrs))
            difference = f"has component types {_names(self.types)} but requested component types were {asked}"
        elif not self._same_shapes(self._maker_shapes(attrs)):
            asked = _shown(self._maker_shapes(attrs))
            difference = f"has component shapes {_shown(self.shapes)} but requested component shapes were {asked}"
        else:
            difference = self._own_difference(attrs)
        if difference is not None:
            self._refuse(op, f"Shared queue '{self.name}' {difference}")

    def _own_difference(self, attrs: dict[str, Any]) -> str | None:
        """What another maker wants differently of what only this kind of queue has; None if nothing."""
        return None

    def _same_shapes(self, asked: tuple[Any, ...]) -> bool:
        return asked == self.shapes

    def _maker_types(self, attrs: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(attrs["component_types"])

    def _maker_shapes(self, attrs: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(attrs["shapes"])

    # -- parts --------------------------------------------------------------------------------------------------------
    def _refuse(self, op: Any, text: str) -> None:
        raise errors.InvalidArgumentError(None, op, text)

    def _check_types(self, given: list[Any], op: Any) -> None:
        if len(given) != len(self.types):
            self._refuse(op, f"Wrong number of components in tuple. Expected {len(self.types)}, got {len(given)}")
        for i, (dtype, wanted) in enumerate(zip(given, self.types, strict=True)):
            if dtype is not None and wanted.np is not None and dtype != wanted.np:
                self._refuse(op, f"Type mismatch in tuple component {i}. Expected {wanted.name}, got {dtype}")

    def _check_shape(self, i: int, dims: tuple[int, ...], wanted: Any, op: Any) -> None:
        if not self._fits(dims, wanted):
            self._refuse(
                op, f"Shape mismatch in tuple component {i}. Expected {shapes.show(wanted)}, got {shapes.show(dims)}"
            )

    def _serve(self) -> None:
        """Let the first of each line act for as long as anything changes; the caller holds ``changed``.

        Whoever changes the queue moves those that wait, before it goes on: a program that has dequeued a row sees the
        row that took its place. An interrupt waits meanwhile: no row is between the queue and a ticket when it comes.
        """
        with interrupts.held():
            self._move()

    def _move(self) -> None:
        moved, ended = True, False
        while moved:
            moved = False
            for line in (self._enqueuers, self._dequeuers):
                while line:
                    first = line[0]
                    if first.stopped():
                        first.cancelled = True
                        first.undo(self)
                    else:
                        moved |= first.act(self)
                        if not first.done:
                            break
                    line.popleft()
                    ended = True
        if ended:  # who wants many rows is not woken for each of them
            self.changed.notify_all()

    def _stand(self, line: collections.deque[_Ticket], ticket: _Ticket, word: str) -> None:
        """Wait in ``line`` until ``ticket`` is done; raise its error."""
        with self.changed, ticket.present:
            try:
                line.append(ticket)
                self._serve()
                (ticket.token or CancellationToken()).wait_for(
                    self.changed, lambda: ticket.done or ticket.cancelled, ticket.op
                )
            except errors.CancelledError:
                pass  # said below, in the words of the operation
            finally:
                with interrupts.held():
                    if not ticket.done and not ticket.cancelled:
                        ticket.cancelled = True
                        ticket.undo(self)
                        with contextlib.suppress(ValueError):  # an interrupt came before it stood there
                            line.remove(ticket)
                        self._serve()
        if ticket.error is not None:
            raise ticket.error
        if not ticket.done:
            if ticket.token is not None:
                with contextlib.suppress(errors.CancelledError):
                    ticket.token.raise_if_cancelled(ticket.op)  # a deadline that has passed, whoever noticed it first
            raise errors.CancelledError(None, ticket.op, f"{word} operation was cancelled")

    def _enqueue_rows(self, rows: list[Row], token: CancellationToken | None, op: Any) -> None:
        if rows and not (len(rows) == 1 and self._put_now(rows[0], token)):
            self._stand(self._enqueuers, _Enqueue(rows, op, token), "Enqueue")

    def _put_now(self, row: Row, token: CancellationToken | None) -> bool:
        """Put in a row if nobody stands before it and there is room: most enqueues wait for nothing."""
        if token is not None and token.cancelled:
            return False
        held = interrupts.Interrupts()
        held.hold()
        try:
            with self.changed:
                if self._enqueuers or self.closed or len(self._rows) >= self.capacity:
                    return False
                self._put(row)
                if self._dequeuers:
                    self._move()
                return True
        finally:
            held.release()

    def _take_now(self, count: int, token: CancellationToken | None) -> list[Row] | None:
        """Take out rows if nobody stands before and there are as many; else None, and nothing has happened."""
        if token is not None and token.cancelled:
            return None
        held = interrupts.Interrupts()
        held.hold()
        try:
            with self.changed:
                if self._dequeuers or len(self._rows) < count or self._available() < count:
                    return None
                rows = [self._take() for _ in range(count)]
                if self._enqueuers:
                    self._move()
                return rows
        finally:
            held.release()

    def _dequeue_rows(self, count: int, allow_fewer: bool, token: CancellationToken | None, op: Any) -> list[Row]:
        rows = self._take_now(count, token)
        if rows is not None:
            return rows
        ticket = _Dequeue(count, allow_fewer, op, token)
        self._stand(self._dequeuers, ticket, "Dequeue")
        return ticket.taken

    def _batch(self, i: int, values: list[Any]) -> Any:
        dtype = self.types[i].np or np.dtype(object)
        if not values:
            return np.zeros((0, *(size or 0 for size in self.shapes[i] or ())), dtype)
        if self.types[i].np is None:
            result = np.empty(len(values), object)
            result[:] = values
            return result
        if dtype.kind == "O":
            return np.stack(values)
        return np.array(values, dtype)  # a fifth of what np.stack takes for small rows


def dtype_of(value: Any) -> Any:
    """NumPy dtype of a component; None for handles."""
    return getattr(value, "dtype", None)


def _names(types: Sequence[dtypes.DType]) -> str:
    return ", ".join(dtype.name for dtype in types)


def _shown(raw: Sequence[Any]) -> str:
    return "[" + ", ".join(shapes.show(shape) for shape in raw) + "]"


def owned(value: Any) -> Any:
    """``value`` itself if nobody can write to it, else a copy."""
    if isinstance(value, np.ndarray):
        return value.copy() if value.flags.writeable or value.base is not None else value
    return np.asarray(value) if isinstance(value, np.generic) else value


class PaddingFIFOQueue(Queue):
    """A FIFO queue whose components may vary in size; batches are padded with zeros, or empty strings."""

    kind = "PaddingFIFOQueue"

    def _start(self) -> None:
        super()._start()
        if len(self.shapes) != len(self.types):
            self._refuse(
                None,
                "Shapes must be provided for all components, but received "
                f"{len(self.shapes)} shapes and {len(self.types)} types",
            )
        if None in self.shapes:
            self._refuse(None, f"component {self.shapes.index(None)} of {self.kind} '{self.name}' has unknown rank")

    def _fits(self, dims: tuple[int, ...], wanted: Any) -> bool:
        return shapes.is_compatible(dims, wanted)

    def _same_shapes(self, asked: tuple[Any, ...]) -> bool:
        return len(asked) == len(self.shapes) and all(map(shapes.is_compatible, asked, self.shapes))

    def _batch(self, i: int, values: list[Any]) -> Any:
        if not values or all(value.shape == values[0].shape for value in values):
            return super()._batch(i, values)
        largest = tuple(max(sizes) for sizes in zip(*(value.shape for value in values), strict=True))
        dtype = values[0].dtype
        result = np.full((len(values), *largest), b"" if dtype.kind == "O" else dtype.type(0), dtype)
        for row, value in zip(result, values, strict=True):
            row[tuple(slice(size) for size in value.shape)] = value
        return result


class RandomShuffleQueue(Queue):
    """Give out rows at random, keeping ``min_after_dequeue`` while it is open. TensorFlow's order for a given seed."""

    kind = "RandomShuffleQueue"

    def __init__(self, name: str, attrs: dict[str, Any]) -> None:
        self._kept = attrs["min_after_dequeue"]
        if self._kept < 0 or 0 < attrs["capacity"] <= self._kept:
            raise errors.InvalidArgumentError(
                None,
                None,
                f"min_after_dequeue {self._kept} must be >= 0, and < capacity {attrs['capacity']}\n"
                + errors.message(
                    f"min_after_dequeue={self._kept}, capacity={attrs['capacity']} of queue {name!r}",
                    "some rows to choose from, and room for more",
                    "min_after_dequeue=0, or a larger capacity",
                ),
            )
        self._seeds = seed, seed2 = attrs["seed"], attrs["seed2"]
        if seed == 0 and seed2 == 0:
            seed, seed2 = secrets.randbits(64), secrets.randbits(64)
        self._random = philox_words(seed & (2**64 - 1), seed2 & (2**64 - 1))
        super().__init__(name, attrs)

    def _own_difference(self, attrs: dict[str, Any]) -> str | None:
        least, seeds = attrs["min_after_dequeue"], (attrs["seed"], attrs["seed2"])
        if least != self._kept:
            return f"has min_after_dequeue {self._kept} but requested min_after_dequeue was {least}."
        if any(seeds) and seeds != self._seeds:
            return f"has random seeds {self._seeds} but requested seeds are {seeds}."
        return None

    def _start(self) -> None:
        self._rows = []

    def _take(self) -> Row:
        index = next(self._random) % len(self._rows)
        row, self._rows[index] = self._rows[index], self._rows[-1]
        self._rows.pop()
        return row

    def _put_back(self, rows: list[Row]) -> None:
        self._rows.extend(rows)

    def _available(self) -> int:
        return len(self._rows) if self.closed else len(self._rows) - self._kept


def philox_words(key: int, stream: int) -> Any:
    """Endless 32-bit words of Philox4x32-10 (Salmon et al., 2011): a 64-bit key, the stream in the counter's top."""
    for low in itertools.count():
        word = [low & 0xFFFFFFFF, low >> 32 & 0xFFFFFFFF, stream & 0xFFFFFFFF, stream >> 32]
        k0, k1 = key & 0xFFFFFFFF, key >> 32
        for _ in range(10):
            a, b = word[0] * 0xD2511F53, word[2] * 0xCD9E8D57
            word = [(b >> 32) ^ word[1] ^ k0, b & 0xFFFFFFFF, (a >> 32) ^ word[3] ^ k1, a & 0xFFFFFFFF]
            k0, k1 = (k0 + 0x9E3779B9) & 0xFFFFFFFF, (k1 + 0xBB67AE85) & 0xFFFFFFFF
        yield from word


def priority_shapes(attrs: dict[str, Any]) -> tuple[Any, ...]:
    """Component shapes of a priority queue, whose attributes leave out the priority."""
    return ((), *attrs["shapes"]) if attrs["shapes"] or not attrs["component_types"] else ()


class PriorityQueue(Queue):
    """Give out the row with the smallest first component, an int64 scalar; equal ones in order of arrival."""

    kind = "PriorityQueue"
    sorts = True

    def __init__(self, name: str, attrs: dict[str, Any]) -> None:
        own = {**attrs, "component_types": self._maker_types(attrs), "shapes": self._maker_shapes(attrs)}
        super().__init__(name, own)

    def _maker_types(self, attrs: dict[str, Any]) -> tuple[Any, ...]:
        return (dtypes.int64, *attrs["component_types"])

    def _maker_shapes(self, attrs: dict[str, Any]) -> tuple[Any, ...]:
        return priority_shapes(attrs)

    def _start(self) -> None:
        self._rows = []
        self._arrivals = itertools.count()
        self._first = 0

    def enqueue(self, components: Sequence[Any], token: CancellationToken | None = None, op: Any = None) -> None:
        """Put in one row, waiting for room."""
        if components and np.ndim(components[0]) != 0 and not self.shapes:
            shown = shapes.show(np.shape(components[0]))
            self._refuse(op, f"Expected the priority element to be a scalar, but received shape: {shown}")
        super().enqueue(components, token, op)

    def _put(self, row: Row) -> None:
        heapq.heappush(self._rows, (int(row[0]), next(self._arrivals), row))

    def _take(self) -> Row:
        return heapq.heappop(self._rows)[2]

    def _put_back(self, rows: list[Row]) -> None:
        # They were the smallest, in order: numbers below all others keep them before equal ones.
        for row in reversed(rows):
            self._first -= 1
            heapq.heappush(self._rows, (int(row[0]), self._first, row))


KINDS: dict[str, type[Queue]] = {
    kind.kind: kind for kind in (Queue, PaddingFIFOQueue, RandomShuffleQueue, PriorityQueue)
}
