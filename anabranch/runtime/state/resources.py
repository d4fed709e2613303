"""State and channels: who owns them, and how steps read and change them.

A :class:`ResourceManager` owns what the handles of a session point to, keyed by (kind, container, name). A
variable is a :class:`Slot` holding one immutable :class:`Version`. The rules that everything above relies on:

1. A version is never changed in place while anybody can see it. Readers *pin* the version that they use; a writer may
   give an unpinned version's buffer to XLA (``take``), which makes it invisible until the writer publishes the next
   one. An interpreted step may take it for itself, to write some of its rows (``interpreter/rows_in_place.py``).
2. Writers of overlapping variables queue: a segment that writes holds its variables (those it reads shared, those it
   writes exclusively) from its first read to its commit. All of them are taken at once, so that no cycle of waits can
   form. Read-only segments take no part in this and never wait for a writer's computation.
3. A segment that calls Python functions in its middle holds nothing while they run; it validates at its commit that
   what it read is still current, and runs again otherwise.
4. All versions of one segment are published together under one short lock, so every snapshot is a state between
   segments.

5. Whoever decides something from which variables are there and which shapes they have (a plan's binding, the program
   compiled for it) hands in a :class:`Layout` when it looks them up. It holds until one of *these* variables gets its
   first value, changes its shape, is lost or vanishes; what happens to others is none of its business. Asked after the
   versions are pinned or claimed, it says whether what was decided fits them.

6. A transaction over several tasks holds variables for the steps of it (:mod:`anabranch.runtime.state.held`): a claim
   that lasts longer than a segment. For its own steps it is not in the way; and as what these publish may be undone
   yet, others do not see it: they wait, readers too.

Counters of random ops are state too; they are Python integers here and never leave the host.
"""

from __future__ import annotations

import contextlib
import contextvars
import gc
import logging
import os
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.core import conditions, errors, interrupts
from anabranch.core.cancellation import CancellationToken
from anabranch.core.values.dtypes import DType
from anabranch.runtime.state.slots import DEFAULT_CONTAINER, Claim, Layout, RandomCounter, ResourceHandle, Slot, Version
from anabranch.runtime.state.spare_buffers import Spares

_log = logging.getLogger("anabranch")
_watching: contextvars.ContextVar[tuple[tuple[Any, set[Any]], ...]] = contextvars.ContextVar("watching", default=())
"""The managers whose claims are noted, and where."""


class ResourceManager:
    """Owner of the variables, random counters and channel objects of a session (or of several that share it)."""

    def __init__(self, seed: int | None = None) -> None:
        self._lock = threading.Lock()
        self.changed = conditions.Condition(self._lock)
        """Waited on for claims and for versions about to be published; steps that nobody waits for take the lock."""
        self._waiting_for_versions = 0
        self._slots: dict[ResourceHandle, Slot] = {}
        self._objects: dict[ResourceHandle, Any] = {}
        self._being_made: set[ResourceHandle] = set()
        self._times_cleared = 0
        self._counters: dict[str, RandomCounter] = {}
        self._active: list[Claim] = []
        self._waiting: list[Claim] = []
        self.held: list[Claim] = []
        """The claims of transactions over several tasks, which others may not look behind."""
        self._watched = 0
        self.spares = Spares()
        self.company: Any = None
        """What meets the members of collectives in other processes, where the resources are those of a task."""
        self.in_flight: list[Any] = []
        """Pipelines with steps whose checks nobody has read yet (runtime/pipeline.py)."""
        entropy = os.environ.get("ANABRANCH_SEED") if seed is None else seed
        self.entropy = int.from_bytes(os.urandom(8), "little") if entropy is None else int(entropy)
        self._unseeded = 0

    @property
    def shared(self) -> ResourceManager:
        """The manager whose state is committed: what those see that are not part of a step."""
        return self

    # -- lookup -------------------------------------------------------------------------------------------------------
    def slot(
        self,
        handle: ResourceHandle,
        dtype: DType,
        shape: tuple[int | None, ...] | None,
        initial: Callable[[], Any] | None = None,
        layout: Layout | None = None,
    ) -> Slot:
        """The variable of ``handle``, made uninitialised on first use.

        Args:
            initial: gives what is there from the start (an empty table).
            layout: what it becomes part of.
        """
        first = np.asarray(initial()) if initial is not None and handle not in self._slots else None
        with self.changed:
            slot = self._slots.get(handle)
            if slot is None:
                slot = self._slots[handle] = Slot(handle, dtype, shape)
                if first is not None:
                    slot.version = Version(first)
            elif slot.dtype != dtype:
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    errors.message(
                        f"variable {handle.name!r} used with dtype {dtype.name}",
                        f"{slot.dtype.name}, as it was made",
                        "use one dtype per name and container",
                    ),
                )
            slot.join(layout)
            return slot

    def find(self, handle: ResourceHandle) -> Slot | None:
        """The variable of ``handle`` if it exists."""
        return self._slots.get(handle)

    def object(self, handle: ResourceHandle, create: Callable[[], Any]) -> Any:
        """The channel object (queue, reader, ...) of ``handle``, made on first use.

        Making one may take long (a file is read): meanwhile only those who want this object wait.
        """
        known = self._objects.get(handle)  # it is there once it is made, so that nobody need be asked
        if known is not None:
            return known
        while True:
            with self.changed:
                while handle in self._being_made:
                    self.changed.wait()
                existing = self._objects.get(handle)
                if existing is not None:
                    return existing
                self._being_made.add(handle)
                times_cleared = self._times_cleared
            resource = None
            try:
                resource = create()
            finally:
                with self.changed:
                    self._being_made.discard(handle)
                    belongs = resource is not None and times_cleared == self._times_cleared
                    if belongs:
                        self._objects[handle] = resource
                    self.changed.notify_all()
            if belongs:
                return resource
            if hasattr(resource, "shutdown"):  # resources were cleared meanwhile, and it would have been among them
                resource.shutdown()

    def counter(self, name: str, seed: int, seed2: int, layout: Layout | None = None) -> RandomCounter:
        """The stream of the random op called ``name``, which becomes part of ``layout``. Both seeds 0 draw a key from
        the manager's entropy.
        """
        with self.changed:
            counter = self._counters.get(name)
            if counter is None:
                counter = self._counters[name] = self._new_counter(seed, seed2)
            counter.join(layout)
            return counter

    def new_counter(self, seed: int, seed2: int) -> RandomCounter:
        """A stream that no op of the session has; both seeds 0 draw a key from the manager's entropy."""
        with self.changed:
            return self._new_counter(seed, seed2)

    def _new_counter(self, seed: int, seed2: int) -> RandomCounter:
        if seed == 0 and seed2 == 0:
            self._unseeded += 1
            mixed = np.random.SeedSequence([self.entropy & (2**64 - 1), self._unseeded]).generate_state(2, np.uint64)
            return RandomCounter(int(mixed[0]), int(mixed[1]) << 64)
        return RandomCounter(seed & (2**64 - 1), (seed2 & (2**64 - 1)) << 64)

    def clear(self, containers: Iterable[str] | None = None) -> None:
        """Drop the resources of the given containers, all if None. Without one they are in ``DEFAULT_CONTAINER``."""
        chosen = None if containers is None else {container or DEFAULT_CONTAINER for container in containers}
        with self.changed:
            self._times_cleared += 1
            ended = self._dropped(
                [
                    handle
                    for table in (self._slots, self._objects)
                    for handle in table
                    if chosen is None or (handle.container or DEFAULT_CONTAINER) in chosen
                ]
            )
            if chosen is None or DEFAULT_CONTAINER in chosen:
                for counter in self._counters.values():
                    counter.end_layouts()
                self._counters.clear()
            self.spares.clear()
        _finish(ended)

    def drop(self, handles: Iterable[ResourceHandle]) -> None:
        """Drop resources that nobody uses any more, and random streams that are called like them."""
        with self.changed:
            if not self._being_made.isdisjoint(handles):  # such a one goes as soon as it is there
                self._times_cleared += 1
            ended = self._dropped(list(handles))
            for handle in handles:
                self._counters.pop(handle.name, None)
        _finish(ended)

    def _dropped(self, handles: Sequence[ResourceHandle]) -> list[Any]:
        """Resources that are dropped and told so; the lock is held. What has threads is to be finished without it."""
        ended = []
        for handle in handles:
            for table in (self._slots, self._objects):
                closing: Any = table.pop(handle, None)
                if isinstance(closing, Slot):
                    closing.version = None
                    closing.end_layouts()
                if hasattr(closing, "shutdown"):
                    closing.shutdown()
                    ended.append(closing)
        return ended

    def remove(self, handle: ResourceHandle) -> bool:
        """Drop one resource; whether it existed."""
        with self.changed:
            return self._remove(handle)

    def _remove(self, handle: ResourceHandle) -> bool:
        slot = self._slots.pop(handle, None)
        if slot is not None:
            slot.version = None
            slot.end_layouts()
        return slot is not None or self._objects.pop(handle, None) is not None

    def removed_at_once(self, handle: ResourceHandle) -> bool:
        """Drop a variable, if that needs no waiting; whether it is gone. For callbacks of the garbage collector, which
        may run in a thread that holds the lock.
        """
        held = interrupts.Interrupts()
        held.hold()
        try:
            if handle in self._objects or not self._lock.acquire(blocking=False):
                return False
            try:
                self._remove(handle)
            finally:
                self._lock.release()
            return True
        finally:
            held.release()

    def slots(self) -> list[Slot]:
        """All variables."""
        with self.changed:
            return list(self._slots.values())

    def queue_sizes(self) -> dict[str, int]:
        """How many rows each queue holds, by name."""
        with self.changed:
            queues = [(handle.name, item) for handle, item in self._objects.items() if handle.kind == "queue"]
        return {name: item.size() for name, item in queues}

    # -- transactions -------------------------------------------------------------------------------------------------
    def begin(self, claim: Claim, token: CancellationToken | None = None, by: Any = None) -> None:
        """Hold variables for a writing segment, first come first served; the caller must :meth:`end` it in any case.
        Steps in flight that touch them are settled first, those of the pipeline ``by`` excepted.

        (An interrupt may come in the moment in which this returns: the claim is the caller's before it is made.)
        """
        claim.token = token
        if token is not None and token.holder is not None:
            claim.holder = token.holder
        # What is held for a step is its own already: those who wait for it are not ahead of the step.
        is_part = token is not None and token.holder is not None
        with self._lock:
            if self._waiting or self._active:
                self._tell_of_left(claim)
                self._waiting.append(claim)
                try:

                    def ready() -> bool:
                        ahead = () if is_part else self._waiting[: self._waiting.index(claim)]
                        return not any(claim.conflicts(other) for other in self._active) and not any(
                            claim.conflicts(other) for other in ahead
                        )

                    if token is None:
                        self.changed.wait_for(ready)
                    else:
                        token.wait_for(self.changed, ready)
                finally:
                    self._waiting.remove(claim)
                    self.changed.notify_all()
            self._active.append(claim)
            if self._watched:
                for manager, touched in _watching.get():
                    if manager is self:
                        touched |= claim.writes
        if self.in_flight:
            self.settle_in_flight(claim.reads | claim.writes, by)

    @contextlib.contextmanager
    def watched(self) -> Iterator[set[Any]]:
        """A set that fills with what segments of this thread, or of one that works for it, claim to write inside the
        block.
        """
        touched: set[Any] = set()
        outside = _watching.set((*_watching.get(), (self, touched)))
        with self._lock:
            self._watched += 1
        try:
            yield touched
        finally:
            with self._lock:
                self._watched -= 1
            _watching.reset(outside)

    def give_up(self, token: CancellationToken) -> None:
        """Releases what a step holds that has been left and will never commit."""
        with self._lock:
            self._active = [claim for claim in self._active if claim.token is not token]
            self.changed.notify_all()

    def _tell_of_left(self, wanted: Claim) -> None:
        """Say which steps, left by their callers, somebody waits for."""
        for claim in self._active:
            if claim.token is not None and claim.token.left is not None and claim.conflicts(wanted):
                _log.warning("A step waits for variables that are held by %s", claim.token.left)

    def reserve(self, draws: Sequence[tuple[RandomCounter, int]]) -> list[RandomCounter] | None:
        """Move streams by their numbers of blocks, for a segment that does nothing else; streams that stand where these
        stood. None if somebody holds one of them: then it is to be claimed.
        """
        with self._lock:
            if self.in_flight or self._watched:
                return None
            if self._active or self._waiting:
                wanted = {counter for counter, _ in draws}
                for claim in (*self._active, *self._waiting):
                    if not (claim.writes.isdisjoint(wanted) and claim.reads.isdisjoint(wanted)):
                        return None
            streams = []
            for counter, blocks in draws:
                streams.append(RandomCounter(counter.key, counter.position))
                counter.position += blocks
            return streams

    def give_back(self, draws: Sequence[tuple[RandomCounter, int]], streams: Sequence[RandomCounter]) -> None:
        """Move streams back to where :meth:`reserve` found them, and where its ``streams`` stand again, as nothing was
        drawn; those from which others have drawn since stay.
        """
        with self._lock:
            for (counter, blocks), stream in zip(draws, streams, strict=True):
                if counter.position == stream.position + blocks:
                    counter.position = stream.position

    def settle_in_flight(self, touched: frozenset[Any], by: Any = None) -> None:
        """Waits for the steps in flight that write any of ``touched``."""
        for pipeline in list(self.in_flight):
            if pipeline is not by and pipeline.writes_any(touched):
                pipeline.settle()

    def end(self, claim: Claim) -> None:
        """Releases what :meth:`begin` holds, if it came so far."""
        with self._lock:
            if claim in self._active:
                self._active.remove(claim)
            elif claim in self._waiting:  # an interrupt came as it began to wait
                self._waiting.remove(claim)
            if self._waiting:
                self.changed.notify_all()

    def pin(
        self, slots: Sequence[Slot], op: Any = None, by: Any = None, token: CancellationToken | None = None
    ) -> list[Version]:
        """A consistent snapshot of ``slots``; the caller must :meth:`unpin` it."""
        if self.in_flight:
            self.settle_in_flight(frozenset(slots), by)
        with self._lock:
            while True:
                versions = [slot.version or slot.current(op) for slot in slots]
                for version in versions:
                    if version.taken:
                        break
                else:
                    if not self.held or not self._is_held(slots, token):
                        break
                self._wait_for_versions(slots, token if token is not None else CancellationToken())
            for version in versions:
                version.pins += 1
            return versions

    def _wait_for_versions(self, slots: Sequence[Slot], token: CancellationToken) -> None:
        """Wait until none of the variables' buffers is with a program."""
        self._tell_of_left(Claim(frozenset(slots), frozenset()))
        self._waiting_for_versions += 1
        try:
            token.wait_for(
                self.changed,
                lambda: (
                    not any(slot.version is not None and slot.version.taken for slot in slots)
                    and not self._is_held(slots, token)
                ),
            )
        finally:
            self._waiting_for_versions -= 1

    def _is_held(self, slots: Sequence[Slot], token: CancellationToken | None) -> bool:
        """Whether a transaction over several tasks that the step is not part of may have written a variable."""
        holder = None if token is None else token.holder
        return any(claim.holder is not holder and not claim.writes.isdisjoint(slots) for claim in self.held)

    def outdated(self, slot: Slot, version: Version) -> bool:
        """Whether nobody can see a version any more that its variable had."""
        with self._lock:
            return version.pins == 0 and slot.version is not version and slot.version is not None

    def unpin(self, versions: Iterable[Version]) -> None:
        """Releases a snapshot."""
        with self._lock:
            for version in versions:
                version.pins -= 1

    def take(self, versions: Sequence[Version]) -> list[bool]:
        """Marks each unpinned version as given to a program; True where the buffer may be donated."""
        with self._lock:
            granted = [version.pins == 0 for version in versions]
            for version, free in zip(versions, granted, strict=True):
                version.taken = free
            return granted

    def take_all(self, versions: Sequence[Version]) -> bool:
        """Marks all versions as given to a program if none of them is pinned; whether it did."""
        with self._lock:
            for version in versions:
                if version.pins:
                    return False
            for version in versions:
                version.taken = True
            return True

    def publish(self, updates: Sequence[tuple[Slot, Any]], same_shapes: bool = False) -> None:
        """Make new values current, all at once: what can fail for want of memory comes first.

        Args:
            updates: variables with their new values.
            same_shapes: whether these variables are known to have values of these shapes.
        """
        versions = _versions([value for _, value in updates])
        with self.changed:
            reshaped: list[Slot] = []
            if not same_shapes:
                reshaped += [
                    slot
                    for slot, value in updates
                    if slot.version is None or slot.version.unexposed.shape != value.shape
                ]
            for slot in reshaped:  # whoever asks a layout in vain looks again: no harm if nothing follows
                slot.end_layouts()
            for (slot, _), version in zip(updates, versions, strict=True):
                slot.version = version
                slot.lost = False
            self.changed.notify_all()

    def replace(self, slots: Sequence[Slot], values: Sequence[Any]) -> None:
        """Make new values of unchanged shapes current, all at once."""
        versions = _versions(values)
        with self._lock:
            for slot, version in zip(slots, versions, strict=True):
                slot.version = version
            if self._waiting_for_versions:
                self.changed.notify_all()

    def settle(self, slots: Iterable[Slot]) -> None:
        """After a failure: versions given to a program and not replaced are lost if their buffers are gone."""
        with self.changed:
            for slot in slots:
                version = slot.version
                if version is not None and version.taken:
                    version.taken = False
                    if getattr(version.unexposed, "is_deleted", lambda: False)():
                        self._lose(slot)
            self.changed.notify_all()

    def lose(self, slots: Iterable[Slot]) -> None:
        """Marks variables whose buffers were destroyed by a failure in the device."""
        with self.changed:
            for slot in slots:
                self._lose(slot)
            self.changed.notify_all()

    def _lose(self, slot: Slot) -> None:
        slot.version = None
        slot.lost = True
        slot.end_layouts()


def _versions(values: Sequence[Any]) -> list[Version]:
    """Versions of values that may be where the old ones were: not given up for want of memory at once."""
    try:
        return [Version(value) for value in values]
    except MemoryError:
        gc.collect()
        return [Version(value) for value in values]


def _finish(ended: Iterable[Any]) -> None:
    """Wait for threads and functions of resources that are dropped; these may need the manager's lock for that."""
    for resource in ended:
        if hasattr(resource, "finish"):
            resource.finish()
