"""The protocol of a step: claim, read, take, call, wait, check, publish, advance.

Whatever runs (a segment item by item, the fast path, a step in flight, tokens) goes through the same stages, which are
written here once; ``docs/notes/0005-transactions.md`` says why.

=========  ============================================================================================================
claim      :meth:`Transaction.claim`: what is written exclusively, what is only read shared; nobody else commits to it
read       :meth:`Transaction.read`: the committed versions, of what is not claimed pinned. From here on they can not
           change, so this is when it is asked whether the shapes that were decided upon still hold
take       :meth:`Call.begin`: a program is given the buffers of the variables that it replaces, unless pinned
call       the compiled function. What can fail for want of memory on the host is allocated before
           (:func:`anabranch.runtime.results.reserve`) where the program replaces variables, as nothing undoes that
wait       for the flags of the program's checks, or for its results (:meth:`Call.end`). Programs on several devices, of
           which none needs another, are all called before any is waited for (:func:`run_wave`)
check      the first check that failed, in effect order, raises its error; nothing has been published, or only what the
           program itself held back
publish    :meth:`Transaction.commit`: all new versions become current together. What is fetched has been copied by then
advance    and random streams move by what was drawn
=========  ============================================================================================================

Then :meth:`Transaction.end` lets go, whatever happened. Ctrl-C is held back from *take* until the new versions are
current. A step that is cancelled, or past its deadline, does not publish. One that has a deadline may be left by its
caller at any time (:mod:`anabranch.runtime.step_threads`): it pins what it reads, so that programs get copies of the
variables that they replace, and only its commit publishes.
"""

from __future__ import annotations

import contextlib
import dataclasses
import gc
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.operation import Operation
from anabranch.core.interrupts import Interrupts
from anabranch.placement.devices import LOCAL_TASK
from anabranch.runtime.state import spare_buffers
from anabranch.runtime.state.resources import ResourceManager
from anabranch.runtime.state.slots import Claim, Layout, RandomCounter, Slot, Version
from anabranch.xla import engine
from anabranch.xla.loops import loop_limits

NO_RNG = np.zeros((0, 6), np.uint32)
MAX_EARLY_COPY = 1 << 20
"""Bytes of a result under which its copy to the host begins before anybody asks for it."""
_NOTHING: frozenset[Any] = frozenset()


class OtherLayout(Exception):
    """Variables of the plan appeared, vanished or changed their shapes before the segment began to read."""


class ItemTime(NamedTuple):
    """What ran as one piece, a host op or a program of several ops, and when (seconds since the epoch)."""

    ops: tuple[Operation, ...]
    is_program: bool
    start: float
    end: float
    device: str = f"{LOCAL_TASK}/device:CPU:0"
    note: str = ""
    """What else there is to say of it."""


@dataclasses.dataclass
class Step:
    """What one ``run`` brings along."""

    manager: ResourceManager
    token: CancellationToken
    read_committed: bool = False
    stats: list[ItemTime] | None = None
    """Where to note what ran and when, if somebody asked for it."""
    nested_cost: list[float] = dataclasses.field(default_factory=lambda: [0.0])
    """Modelled microseconds of the interpreted runs of nested bodies, shared by the steps inside this one."""


class Transaction:
    """What one attempt at a segment holds of a manager's state, from its first read to its end."""

    __slots__ = (
        "_claim",
        "_pinned",
        "_row_slots",
        "interrupts",
        "manager",
        "may_be_left",
        "old_rows",
        "shown",
        "taken",
        "token",
    )

    def __init__(self, manager: ResourceManager, token: CancellationToken) -> None:
        self.manager = manager
        self.token = token
        self.may_be_left = token.deadline is not None
        """Whether the caller may go away while the step runs, as it has a deadline: then nothing of what it reads may
        be given away, and nothing is published but by its commit.
        """
        self.shown = False
        """Whether a program that owns all that is written has returned: that is published, and cannot be undone."""
        self.interrupts = Interrupts()
        self.taken: Sequence[Slot] = ()
        """Variables whose buffers a program may have been given."""
        self._claim: Claim | None = None
        self._pinned: list[Version] = []
        self._row_slots: list[Slot] = []
        self.old_rows: list[tuple[np.ndarray, Any, np.ndarray]] = []
        """What was overwritten where it stood: arrays, indices of rows, and these."""

    @property
    def claims(self) -> bool:
        """Whether variables are held."""
        return self._claim is not None

    def take_rows(self, slot: Slot) -> bool:
        """Take a variable whose rows are to be written where they are; whether nobody has it pinned."""
        self.interrupts.hold()
        self._row_slots.append(slot)
        return self.manager.take_all([slot.version])  # type: ignore[list-item]

    def claim(self, reads: frozenset[Any], writes: frozenset[Any], by: Any = None) -> None:
        """Wait until nobody else holds these variables and streams, and holds them."""
        self._claim = Claim(reads, writes)  # known before it is made: an interrupt may come in between
        self.manager.begin(self._claim, self.token, by)

    def read(self, slots: Sequence[Slot], op: Any = None, by: Any = None) -> list[Version]:
        """The committed versions of variables that are not claimed: one state between segments, pinned."""
        if not slots:
            return []
        versions = self.manager.pin(slots, op, by, self.token)
        self._pinned += versions
        return versions

    @staticmethod
    def require(layout: Layout) -> None:
        """Asked once the versions that a segment reads can no longer change.

        Raises:
            OtherLayout: what was decided from their shapes does not hold.
        """
        if not layout.holds:
            raise OtherLayout

    def commit(
        self,
        updates: Sequence[tuple[Slot, Any]],
        advances: Iterable[tuple[RandomCounter, int]],
        same_shapes: bool = False,
    ) -> None:
        """Make new values current, all at once, and moves random streams; nothing may fail any more.

        Args:
            updates: variables with their new values.
            advances: random streams, and how far they move.
            same_shapes: whether these variables are known to have values of these shapes.

        Raises:
            OpError: the step was cancelled, or is past its deadline.
        """
        positions = [(counter, counter.position + amount) for counter, amount in advances]
        if updates or self._claim is not None:
            self.interrupts.hold()  # until :meth:`end`, too: a claim that it does not come to let go of stays for good
        if not self.shown and (self.may_be_left or not self.taken):  # else it is too late for the step to be cancelled
            self.token.begin_commit()
        if updates:
            self.manager.publish(updates, same_shapes)
        for counter, position in positions:
            counter.position = position
        self.token.end_commit()

    @property
    def too_late(self) -> bool:
        """Whether the step can no longer be undone: a program was given variables' buffers, and has returned."""
        return bool(self.taken)

    def fail(self) -> None:
        """Note that the attempt has failed: buffers that were given away and not replaced are lost."""
        self.interrupts.hold()  # a second Ctrl-C does not keep :meth:`end` from letting go
        for array, rows, old in reversed(self.old_rows):
            array[rows] = old
        if self._row_slots:
            self.manager.settle(self._row_slots)
        if self.taken:
            self.manager.settle(self.taken)

    def end(self) -> None:
        """Let go of everything; also of a claim that an interrupt kept from being made."""
        if self._pinned:
            self.manager.unpin(self._pinned)
            self._pinned = []
        if self._claim is not None:
            self.manager.end(self._claim)
            self._claim = None
        self.interrupts.release()


def random_words(counters: Sequence[RandomCounter]) -> np.ndarray:
    """Keys and positions of streams as a program takes them."""
    if not counters:
        return NO_RNG
    words = np.empty((len(counters), 6), np.uint32)
    for row, counter in enumerate(counters):
        words[row, :2], words[row, 2:] = counter.words()
    return words


class Call:
    """A program and the variables that it owns: what of calling it is the same in each step.

    Args:
        slots: the variables whose buffers it may have.
        owns_all: whether these are all that the segment writes: then what it returns for them is current once the call
            returns, as it is right whether or not its checks hold.
        whole: whether nothing but its arguments was known when it was compiled.
        waits: whether it is waited for although it has no checks.
        wide: whether it takes values of 64 bits.
        gated: whether it takes the first flag of the program before it.
    """

    __slots__ = (
        "constants",
        "executable",
        "far",
        "gated",
        "limited",
        "program",
        "shows",
        "slots",
        "waits",
        "whole",
        "wide",
    )

    def __init__(
        self,
        program: Any,
        executable: Any,
        slots: Sequence[Slot],
        owns_all: bool,
        whole: bool = True,
        waits: bool = True,
        wide: bool = True,
        gated: bool = False,
    ) -> None:
        self.program = program
        self.executable = executable
        self.slots = slots
        self.shows = bool(slots) and owns_all
        self.whole = whole
        self.waits = waits
        self.wide = wide
        self.gated = gated
        self.far = program.platform != "cpu"
        self.constants = program.device_constants()
        self.limited = executable.facts.budget is not None and not gated
        """Whether it has loops that may last, which the step's token ends."""

    def run(
        self, transaction: Transaction, arguments: tuple[Any, ...], rng: np.ndarray, gate: tuple[Any, ...] = ()
    ) -> tuple[Any, Any, Any]:
        """Take, calls, waits and checks; what the program returns: results, new values of ``slots``, flags.

        A gated call does not wait: its flags are looked at later.

        Raises:
            OpError: a check failed, or the device did. TooLong: a step that is to be brief has a loop that lasts.
        """
        if self.limited and transaction.token.brief:  # as `limits` does, at half the price
            constants = (*self.constants[:-1], loop_limits.fixed(self.executable.facts.budget))
            return self.end(transaction, arguments, self.begin(transaction, arguments, rng, (), constants))
        if self.limited:
            with self.limits(transaction.token) as constants:
                returned = self.begin(transaction, arguments, rng, (), constants)
                return self.end(transaction, arguments, returned)
        returned = self.begin(transaction, arguments, rng, gate, self.constants)
        return returned if self.gated else self.end(transaction, arguments, returned)

    @contextlib.contextmanager
    def limits(self, token: CancellationToken) -> Iterator[tuple[Any, ...]]:
        """Its constants, with a limit of loops that holds in the block: a budget for a step that is to be brief,
        else one that ends when the step is cancelled.
        """
        if not self.limited:
            yield self.constants
        elif token.brief:
            yield (*self.constants[:-1], loop_limits.fixed(self.executable.facts.budget))
        else:
            with loop_limits.ended_by(token) as limit:
                yield (*self.constants[:-1], limit)

    def begin(
        self,
        transaction: Transaction,
        arguments: tuple[Any, ...],
        rng: np.ndarray,
        gate: tuple[Any, ...],
        constants: tuple[Any, ...],
    ) -> tuple[Any, Any, Any]:
        """Takes and calls; what the program returns, as soon as it is dispatched.

        Raises:
            OpError: the device failed.
        """
        executable, slots, manager = self.executable, self.slots, transaction.manager
        try:
            function = executable.function
            donated: tuple[Any, ...] = ()
            if slots:
                transaction.interrupts.hold()
                transaction.taken = [*transaction.taken, *slots] if transaction.taken else slots
                versions: list[Any] = [slot.version for slot in slots]
                if spare_buffers.unexpected() and not engine.other_devices_used() and manager.take_all(versions):
                    donated = tuple([version.unexposed for version in versions])  # gone once the program has them
                else:
                    function, donated = self._handed(manager, versions, arguments, rng)
            if self.wide:
                with engine.x64():
                    returned = function(donated, arguments, constants, rng, *gate)
            else:
                engine.refuse_after_fork()
                returned = function(donated, arguments, constants, rng, *gate)
        except Exception as problem:
            self._raise_if_in_device(problem)
            raise
        if self.shows and not transaction.may_be_left:
            manager.replace(slots, returned[1])
            transaction.shown = True
        return returned

    def end(
        self, transaction: Transaction, arguments: tuple[Any, ...], returned: tuple[Any, Any, Any]
    ) -> tuple[Any, Any, Any]:
        """Waits for a program that was begun, and checks.

        Raises:
            OpError: a check failed, or the device did.
        """
        results, finals, flags = returned
        slots = self.slots
        try:
            if self.far:  # all small copies to the host at once: one wait instead of one for each
                _copy_early((*(flags[:1] if flags is not None else ()), *results))
            if flags is not None:
                flags = (_read(flags[0], transaction.too_late), flags[1])
            elif self.waits:
                for done in (finals or results)[:1]:
                    engine.wait_for(done)
        except Exception as problem:
            self._raise_if_in_device(problem, transaction)
            raise
        if flags is not None and flags[0] >= 0:
            if slots and not transaction.shown and not transaction.may_be_left:  # what it owned is current again
                transaction.manager.publish(list(zip(slots, finals, strict=True)))
            batch = self.executable.facts.batch
            size = () if batch is None else tuple(map(int, arguments[-len(batch.capacity) :]))
            failure = self.program.failure(self.executable, int(flags[0]), np.asarray(flags[1]), size)
            if isinstance(failure, loop_limits.Stopped):
                failure = transaction.token.error(failure.op) or loop_limits.TooLong()
            raise failure
        return results, finals, flags

    def _raise_if_in_device(self, problem: Exception, transaction: Transaction | None = None) -> None:
        """Raise the error for a failure of the device; what the program has published is lost."""
        failure = device_failure(problem, len(self.program.group.ops))
        if failure is not None:
            if transaction is not None and transaction.shown:
                transaction.manager.lose(self.slots)
            raise failure from problem

    def _handed(
        self, manager: ResourceManager, versions: list[Any], arguments: tuple[Any, ...], rng: np.ndarray
    ) -> tuple[Any, tuple[Any, ...]]:
        program = self.program
        old = engine.moved([version.value for version in versions], program.device)
        with engine.x64():
            return spare_buffers.handed(
                manager, program, self.executable, versions, old, arguments, rng, self.whole, self.gated
            )


def run_wave(
    calls: Sequence[tuple[Call, tuple[Any, ...], np.ndarray]],
    transaction: Transaction,
    rank: Callable[[errors.OpError], float],
) -> list[tuple[Any, Any, Any]]:
    """Call programs that do not need each other, with arguments and random words, and waits for all; what they return.

    Raises:
        OpError: one failed; of several that did, that which comes first by ``rank``.
    """
    failures: list[Exception] = []
    begun = []
    with contextlib.ExitStack() as limits:
        try:
            for call, arguments, rng in calls:
                constants = limits.enter_context(call.limits(transaction.token))
                begun.append(call.begin(transaction, arguments, rng, (), constants))
        except Exception as problem:
            failures.append(problem)
        returned = []
        for (call, arguments, _), values in zip(calls, begun, strict=False):
            try:
                returned.append(call.end(transaction, arguments, values))
            except Exception as problem:  # the others own variables, which are to be current again
                failures.append(problem)
    if failures:
        raise min(failures, key=lambda problem: rank(problem) if isinstance(problem, errors.OpError) else -1.0)
    return returned


def _read(flag: Any, too_late: bool) -> Any:
    """A flag on the host; if the step can no longer be undone it is not given up for want of memory at once."""
    try:
        return np.asarray(flag)
    except MemoryError:
        if not too_late:
            raise
        gc.collect()
        return np.asarray(flag)


def _copy_early(values: Sequence[Any]) -> None:
    """Begin to copy what is small to the host."""
    for value in values:
        if getattr(value, "nbytes", MAX_EARLY_COPY) < MAX_EARLY_COPY:
            value.copy_to_host_async()


def device_failure(problem: BaseException, ops: int) -> errors.OpError | None:
    """The error for one of XLA's; None if it is none."""
    if type(problem).__name__ not in ("XlaRuntimeError", "JaxRuntimeError"):
        return None
    kind = errors.ResourceExhaustedError if "RESOURCE_EXHAUSTED" in str(problem) else errors.InternalError
    error = kind(None, None, f"a program of {ops} ops failed in the device: {problem}")
    error.__cause__ = problem
    return error
