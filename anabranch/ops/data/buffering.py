"""Stages that keep elements: cache (in memory here, in a file in :mod:`~anabranch.ops.data.file_cache`), prefetch.

Prefetching never changes what comes, and an error comes at its place. Elements are made ahead, by a thread, only where
that pays: work that takes less than :data:`WORTH_A_THREAD` is done when it is asked for, as two threads of Python that
wait for each other cost more than it does. What decides is a running mean (:class:`_Slowness`), not single elements: on
a busy machine any work is interrupted now and then.

A thread belongs to its iterator: closing the iterator ends it, and so does dropping it.
"""

from __future__ import annotations

import collections
import threading
import time
import weakref
from typing import Any

import numpy as np

from anabranch.core import conditions, errors
from anabranch.core.contract.opdef import Bool, Int
from anabranch.core.paths import local
from anabranch.ops.data.elements.stacks import Element
from anabranch.ops.data.file_cache import FileCached
from anabranch.ops.data.pipeline import ELEMENTS, METADATA, Context, Dataset, Iterator, Worker, number, stage

WORTH_A_THREAD = 0.0005
"""Seconds that making an element takes at least if it is worth a thread."""
WEIGHT = 1 / 8
"""How much an element counts in the running mean of what elements take."""
MOST_OF_ONE = 3.0
"""As how many slow elements a single one counts at most, however long it takes."""
AUTOTUNED_SIZE = 2
"""How many elements are held at first if the buffer's size is left to us."""
MOST_AUTOTUNED = 16
MOST_AUTOTUNED_BYTES = 1 << 26
"""How many elements, and bytes, are held at most then, where whoever asks has had to wait."""


# ---------------------------------------------------------------------------------------------------------------- cache
class _Cached(Iterator):
    fields = ("position",)

    def start(self) -> None:
        self.position = 0
        self._memory: Memory = self.dataset.memory(self.context)
        if self._memory.complete:
            self._elements = self._memory.elements
        else:
            self._elements = []

    def next(self) -> Element | None:
        memory = self._memory
        if memory.complete and self._elements is memory.elements:
            if self.position == len(self._elements):
                return None
            self.position += 1
            return self._elements[self.position - 1]
        element = self.inputs[0].next()
        if element is None:
            memory.elements, memory.complete = self._elements, True
            return None
        self._elements.append(element)
        self.position += 1
        return element

    def save(self) -> dict[str, Any]:
        return {**super().save(), "elements": list(self._elements), "complete": self._memory.complete}

    def restore(self, state: dict[str, Any]) -> None:
        super().restore(state)
        self._elements = list(state["elements"])
        if state["complete"]:
            self._memory.elements, self._memory.complete = self._elements, True


class Memory:
    """What a cache holds, for all passes of a pipeline."""

    def __init__(self, dataset: Dataset | None = None) -> None:
        self.dataset = dataset
        """Held, where its number is the key."""
        self.elements: list[Element] = []
        self.complete = False


@stage("CacheDataset", "input_dataset: variant, filename: string")
class Cache(Dataset):
    """The elements of the input, which is gone through once; ``filename`` is empty for a cache in memory.

    See :mod:`anabranch.ops.data.file_cache` for a cache in a file.
    """

    iterator = _Cached
    keeps_number = True

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        name = np.asarray(operands["filename"], object).item()
        self.filename = local(name, self.op)

    def memory(self, context: Context) -> Memory:
        """What is held in memory, for a pipeline."""
        memory: Memory = context.keep(("cache", id(self)), lambda: Memory(self))
        return memory

    def iterate(self, context: Context) -> Iterator:
        """An iterator over what is kept in memory, or in the file."""
        return FileCached(self, context) if self.filename else super().iterate(context)


# ------------------------------------------------------------------------------------------------------------- prefetch
class _Ahead(Worker):
    """Elements that a thread makes ahead."""

    def __init__(self, source: Iterator, limit: int, changed: conditions.Condition) -> None:
        self._source = weakref.ref(source)
        """Held by its iterator: a thread that waits keeps nothing of a pipeline that nobody holds."""
        self.limit = limit
        self.changed = changed
        self.working = threading.Lock()
        """Held while the source is asked, and while places are saved."""
        self.items: collections.deque[Element | BaseException | None] = collections.deque()
        self.ended = False
        self.thread = threading.Thread(target=self._work, daemon=True, name="anabranch prefetch")

    def _work(self) -> None:
        with np.errstate(all="ignore"):
            while True:
                with self.changed:
                    self.changed.wait_for(lambda: self.ended or len(self.items) < self.limit)
                    if self.ended:
                        return
                with self.working:
                    source = self._source()
                    item: Element | BaseException | None
                    try:
                        item = source.next() if source is not None else None
                    except BaseException as problem:  # told to whoever asks for this element
                        item = problem
                    del source
                    with self.changed:
                        self.items.append(item)
                        self.ended |= item is None
                        self.changed.notify_all()
                    del item

    def close(self) -> None:
        """Let the thread end."""
        with self.changed:
            self.ended = True
            self.changed.notify_all()

    def join(self) -> None:
        """Wait until the thread has ended."""
        if self.thread is not threading.current_thread() and self.thread.ident is not None:
            self.thread.join()

    def pause(self) -> None:
        """Wait until it makes nothing, and keep it from going on."""
        self.working.acquire()

    def resume(self) -> None:
        """Let it go on."""
        self.working.release()


def _given(item: Element | BaseException | None) -> Element | None:
    if isinstance(item, BaseException):
        raise item
    return item


class _Slowness:
    """Whether elements take so long that a thread pays: two slow ones at the beginning, or half of them later.

    An element is slow if it takes long by the clock, and counts for more if it keeps the processor busy for longer.
    """

    def __init__(self) -> None:
        self._mean = 0.5
        self._slow = 0

    @staticmethod
    def begin() -> tuple[float, float]:
        """The times at which an element is asked for."""
        return time.perf_counter(), time.thread_time()

    def note(self, began: tuple[float, float]) -> None:
        """Take note of an element that has been made."""
        weight = 0.0
        if time.perf_counter() - began[0] > WORTH_A_THREAD:
            self._slow += 1
            busy = time.thread_time() - began[1]
            weight = MOST_OF_ONE if busy >= MOST_OF_ONE * WORTH_A_THREAD else max(1.0, busy / WORTH_A_THREAD)
        self._mean += (weight - self._mean) * WEIGHT

    @property
    def pays(self) -> bool:
        """Whether a thread pays."""
        return self._slow > 1 and self._mean > 0.5


class _Prefetched(Iterator):
    def start(self) -> None:
        self._ahead: _Ahead | None = None
        self._slowness = _Slowness()
        self.kept: collections.deque[Element | errors.OpError] = collections.deque()
        """Elements, or what failed, that were made ahead before the place was saved."""
        if self.dataset.begins_at_once:
            self._begin()

    @property
    def gives_without_waiting(self) -> bool:
        """Whether no thread has to make the next element yet, or to find the end."""
        ahead = self._ahead
        return ahead is None or bool(self.kept) or bool(ahead.items) or ahead.ended

    def next(self) -> Element | None:
        if self.kept:
            return _given(self.kept.popleft())
        ahead = self._ahead
        if ahead is None:
            if self.dataset.limit and (self.dataset.begins_at_once or self._slowness.pays):
                ahead = self._begin()
            else:
                began = self._slowness.begin()
                element = self.inputs[0].next()
                self._slowness.note(began)
                return element
        with ahead.changed:
            if not ahead.items:
                ahead.limit = self.dataset.wider(ahead.limit)
                self.context.pipeline.current_token.wait_for(
                    ahead.changed, lambda: bool(ahead.items) or ahead.ended, self.dataset.op
                )
            if not ahead.items or ahead.items[0] is None:
                return None
            item = ahead.items.popleft()
            ahead.changed.notify_all()
        return _given(item)

    def form(self) -> str:
        if self._ahead is None:
            return f"no thread: an element takes less than {WORTH_A_THREAD * 1e6:.0f} us"
        return f"a thread, {len(self._ahead.items)} of {self._ahead.limit} ready"

    def ready(self) -> tuple[int, int] | None:
        ahead = self._ahead
        return (0, self.dataset.limit) if ahead is None else (len(ahead.items), ahead.limit)

    def _begin(self) -> _Ahead:
        ahead = self._ahead = _Ahead(self.inputs[0], self.dataset.limit, self.dataset.changed or conditions.Condition())
        weakref.finalize(self, ahead.close)
        self.context.pipeline.add_worker(ahead, self.context)
        conditions.start(ahead.thread)
        return ahead

    def save(self) -> dict[str, Any]:
        made = [] if self._ahead is None else [item for item in self._ahead.items if item is not None]
        for item in made:
            if isinstance(item, BaseException) and not isinstance(item, errors.OpError):
                raise item
        return {**super().save(), "kept": [*self.kept, *made]}

    def restore(self, state: dict[str, Any]) -> None:
        self._stop()
        super().restore(state)
        self.kept = collections.deque(state["kept"])

    def _stop(self) -> None:
        if self._ahead is not None:
            self._ahead.close()
            self._ahead.join()
            self._ahead = None

    def close(self) -> None:
        self._stop()
        super().close()


@stage(
    "PrefetchDataset",
    "input_dataset: variant, buffer_size: int64",
    {
        **ELEMENTS,
        "slack_period": Int(0),
        "legacy_autotune": Bool(True),
        "buffer_size_min": Int(0),
        **METADATA,
    },
)
class Prefetch(Dataset):
    """The elements of the input, up to ``buffer_size`` of which may be made before they are asked for."""

    iterator = _Prefetched
    keeps_number = True
    begins_at_once = False
    """Whether a thread makes elements before it is known what they take."""
    changed: conditions.Condition | None = None
    """What is notified when an element has been made; None for a condition of the iterator's own."""
    free = Dataset.free | {"buffer_size", "slack_period", "legacy_autotune", "buffer_size_min"}

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        size = number(ctx, operands["buffer_size"], "buffer_size")
        ctx.check(
            size >= -1,
            errors.InvalidArgumentError,
            "buffer_size must be >= 0 or set buffer_size to be -1 for auto-tuning",
        )
        self.limit = AUTOTUNED_SIZE if size < 0 else size
        self.autotuned = size < 0

    def wider(self, limit: int) -> int:
        """How many elements may be held once somebody had to wait although there was room for ``limit``."""
        if not self.autotuned:
            return limit
        bytes_ = self.row_bytes if self.row_bytes < float("inf") else MOST_AUTOTUNED_BYTES / 4
        return max(limit, int(min(2 * limit, MOST_AUTOTUNED, MOST_AUTOTUNED_BYTES // max(1, bytes_))))


class Ahead(Prefetch):
    """The elements of a dataset that a stage has opened, some of which may be made before they are asked for."""

    def __init__(
        self, dataset: Dataset, limit: int, changed: conditions.Condition, begins_at_once: bool = False
    ) -> None:
        self.op = dataset.op
        self.types, self.shapes = dataset.types, dataset.shapes
        self.inputs = (dataset,)
        self.limit = limit
        self.autotuned = False
        self.changed = changed
        self.begins_at_once = begins_at_once
