"""Meetings: where the values of several tasks come together at one of them.

Policy. A task brings a value, waits, and gets what has become of all, which are taken in the order of the tasks, so
that all get the same bits. A *whole* value meets at the first worker, a *part* of one at any task
(:mod:`anabranch.cluster.company` says which). The value that completes a meeting is added up by the thread that brought
it, without a lock.

*Lives* are known at the first worker. Who has failed, or was started again, no longer counts its meetings like the
others. So a task has a life, which ends when one of its meetings fails; when a life ends, or its process goes away,
those of all others end, too. From one such end to the next is a *generation*; parts meet by its number, so that who
comes late from an older one meets nobody. A generation ends at a task when one that attends there goes away or fails.
"""

from __future__ import annotations

import logging
import secrets
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.cluster import transport, wire
from anabranch.cluster.deliveries import Deliveries, own_pid
from anabranch.core import conditions, errors
from anabranch.core import device as device_names
from anabranch.core.values import spare_arrays

FIRST_JOBS = ("chief", "master", "worker")
SAY_AFTER = 30.0
"""Seconds after which a meeting says for whom it waits."""
MOST_ENDED = 10_000
"""Lives and generations of which it is known that they have ended."""
_log = logging.getLogger("anabranch")
ELEMENTWISE: dict[str, Callable[..., Any]] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}
"""By name the ways in which values become one of the same shape, element by element."""


class Member(NamedTuple):
    """A task that has come to a meeting, and the size of what it has brought."""

    task: str
    size: int


class Outcome(NamedTuple):
    """What has become of a meeting."""

    value: np.ndarray | None
    """None for who has not waited."""
    generation: str
    members: list[Member]
    """In the order in which their values were taken."""


class _Meeting:
    def __init__(self, how: str, size: int) -> None:
        self.how, self.size = how, size
        self.values: dict[str, tuple[int, bool, np.ndarray, Sequence[int]]] = {}
        self.members: list[Member] = []
        self.result: np.ndarray | None = None
        self.problem: errors.OpError | None = None

    def settle(self) -> None:
        """Compute what becomes of the values, in the order of the tasks."""
        self.members = [Member(task, self.values[task][2].nbytes) for task in sorted(self.values, key=_place)]
        parts = [self.values.pop(task) for task, _ in self.members]
        arrays = [array for _, sends, array, _ in parts if sends]
        shapes = {tuple(shape)[self.how == "concat" :] for _, sends, _, shape in parts if sends}
        if not arrays or (self.how != "first" and len(shapes) > 1):
            given = f"values of shapes {sorted(shapes)}" if arrays else "nobody who sends"
            self.problem = errors.InvalidArgumentError(
                None,
                None,
                errors.message(f"{given} in a collective", "values of one shape", "the same model on all tasks"),
            )
        elif self.how == "first":
            self.result = arrays[0]
        elif self.how == "concat":
            self.result = np.concatenate(arrays)
        else:
            self.result = _reduced(ELEMENTWISE[self.how], arrays)


def _reduced(function: Callable[..., Any], arrays: Sequence[np.ndarray]) -> np.ndarray:
    """What a function of two makes of values of one shape, from the first on; does not write to any of them."""
    if len(arrays) == 1:
        return arrays[0]
    total = np.asarray(spare_arrays.arithmetic(function, *arrays[:2]))
    for array in arrays[2:]:
        total = np.asarray(
            function(total, array, out=total) if total.dtype == array.dtype and total.ndim else function(total, array)
        )
    return total


def _place(task: str) -> tuple[int, str, int]:
    fields = device_names.parse(task)
    job = fields.job or ""
    return FIRST_JOBS.index(job) if job in FIRST_JOBS else len(FIRST_JOBS), job, fields.task or 0


class Meetings:
    """The meetings at a task."""

    def __init__(self) -> None:
        self._changed = conditions.Condition()
        self._lives: dict[str, str] = {}
        """By task its life, of those that have come with whole values."""
        self._generation = secrets.token_hex(8)
        """That of these lives."""
        self._over: dict[str, str] = {}
        """By life, or generation, that has ended why."""
        self._told: dict[str, list[Callable[[str], None]]] = {}
        """By generation what is called, with the reason, when it ends."""
        self._meetings: dict[tuple[str, str, int], _Meeting] = {}
        """By generation, key and number, those that are not complete."""

    def bring(
        self, header: dict[str, Any], value: np.ndarray, when_gone: Callable[[Callable[[], None]], Any]
    ) -> Outcome:
        """Bring a value and wait for those of the others.

        Args:
            header: who brings what: ``task``, ``life``, ``key``, ``number``, ``how``, ``size``, ``mine``, ``sends``;
                for a part ``generation``, and ``shape``, that of the whole; ``waits``, if the result is wanted.
            value: the value.
            when_gone: is told what ends the wait.

        Raises:
            AbortedError: a life, or the generation, has ended. OpError: the members disagree.
        """
        task = header["task"]
        waits = [True]  # (a caller whose call has ended counts as gone, too)
        when_gone(lambda: self._give_up(header, f"{task} has given up") if waits else None)
        try:
            return self._bring(header, task, value)
        except errors.OpError as problem:  # nobody waits for one who does not come again
            self._give_up(header, f"{task} has failed: {problem.message.splitlines()[0]}")
            raise
        except BaseException as problem:  # of Python: an interrupt, no memory
            self._give_up(header, f"{task} has failed: {type(problem).__name__}")
            raise
        finally:
            waits.clear()

    def _bring(self, header: dict[str, Any], task: str, value: np.ndarray) -> Outcome:
        with self._changed:
            generation = self._admit(header, task)
            key = generation, header["key"], header["number"]
            meeting = self._meetings.setdefault(key, _Meeting(header["how"], header["size"]))
            if (meeting.how, meeting.size) != (header["how"], header["size"]):
                raise errors.FailedPreconditionError(
                    None,
                    None,
                    errors.message(
                        f"{header['how']} of {header['size']} members by {task}",
                        f"{meeting.how} of {meeting.size}, as the others have it",
                        "the same program in all tasks",
                    ),
                )
            meeting.values[task] = header["mine"], header["sends"], value, header.get("shape", value.shape)
            complete = sum(mine for mine, *_ in meeting.values.values()) == meeting.size
            if complete:
                del self._meetings[key]
        if complete:
            meeting.settle()
        with self._changed:
            if complete:
                self._changed.notify_all()
            elif header.get("waits", True):
                self._wait(meeting, header["key"], (header["life"], generation))
            else:
                return Outcome(None, generation, [])
        if meeting.problem is not None:
            raise meeting.problem
        return Outcome(meeting.result, generation, meeting.members)

    def _wait(self, meeting: _Meeting, key: str, ends: Sequence[str]) -> None:
        say_at = time.monotonic() + SAY_AFTER
        while meeting.result is None and meeting.problem is None:
            for end in ends:
                if end in self._over:
                    raise aborted(self._over[end])
            self._changed.wait(1.0)
            if time.monotonic() > say_at:
                say_at += SAY_AFTER
                _log.warning(
                    "%s wait in collective %s for others, %d in all", sorted(meeting.values), key, meeting.size
                )

    def _admit(self, header: dict[str, Any], task: str) -> str:
        """The generation of a task that comes."""
        life, generation = header["life"], header.get("generation")
        why = self._over.get(life if generation is None else generation)
        if why is not None:
            raise aborted(why)
        if generation is not None:
            return str(generation)
        known = self._lives.get(task)
        if known is not None and known != life:
            self._end_lives(f"{task} begins anew")
        self._lives[task] = life
        return self._generation

    def _give_up(self, header: dict[str, Any], why: str) -> None:
        if header.get("generation") is None:
            self.end(header["task"], header["life"], why)
        else:
            self.end_generation(header["generation"], why)

    def end(self, task: str, life: str, why: str) -> None:
        """Note that a life has ended: so have all others."""
        with self._changed:
            if self._lives.get(task) == life:
                self._end_lives(why)

    def end_generation(self, generation: str, why: str) -> None:
        """Note that the parts of a generation meet no more."""
        with self._changed:
            if generation == self._generation:
                self._end_lives(why)
            elif generation not in self._over:
                self._note_over([generation], why)

    def when_over(self, generation: str, call: Callable[[str], None]) -> None:
        """Have something called with the reason when a generation ends; at once if it has."""
        with self._changed:
            why = self._over.get(generation)
            if why is None:
                self._told.setdefault(generation, []).append(call)
        if why is not None:
            call(why)

    def _end_lives(self, why: str) -> None:
        self._note_over([*self._lives.values(), self._generation], why)
        self._lives.clear()
        self._generation = secrets.token_hex(8)

    def _note_over(self, ended: Sequence[str], why: str) -> None:
        self._over.update(dict.fromkeys(ended, why))
        while len(self._over) > MOST_ENDED:
            self._over.pop(next(iter(self._over)))
        for key in [key for key in self._meetings if key[0] in ended]:
            del self._meetings[key]
        for call in [call for generation in ended for call in self._told.pop(generation, ())]:
            call(why)
        self._changed.notify_all()


def aborted(why: str) -> errors.OpError:
    """The error of who meets, or waits for, those that begin anew."""
    return errors.AbortedError(
        None,
        None,
        errors.message(
            f"a collective whose members begin anew, as {why}",
            "members that are there all the time",
            "a new tf.Session for each; tf.train.MonitoredTrainingSession makes one and restores the last checkpoint",
        ),
    )


def handlers(meetings: Meetings, deliveries: Deliveries) -> dict[str, Callable[..., bytes]]:
    """What answers the calls of members in other processes."""

    def meet(header: dict[str, Any], values: Sequence[Any], caller: transport.Caller) -> bytes:
        exchange, (value,) = deliveries.received(header, values)
        outcome = meetings.bring(header, value, caller.when_gone)
        answer = {"pid": own_pid(), "generation": outcome.generation, "members": outcome.members}
        results = [] if outcome.value is None else [outcome.value]
        return wire.encode(answer, results) if exchange is None else exchange.encode(answer, results)

    def attend(header: dict[str, Any], values: Sequence[Any], caller: transport.Caller) -> bytes:
        gone = conditions.Event()
        caller.when_gone(gone.set)
        gone.wait()
        why = f"{header['task']} has failed, or is gone"
        if "generation" in header:
            meetings.end_generation(header["generation"], why)
        else:
            meetings.end(header["task"], header["life"], why)
        return wire.encode({})

    return {"Meet": meet, "Attend": attend}
