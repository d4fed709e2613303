"""Members of collectives in several tasks: how their values come together.

Policy. The first worker of the cluster (the chief, if it has one) is where members meet. Each task brings what its own
members have, waits, and gets what has become of all values, which are taken in the order of the tasks, so that all get
the same bits. A task counts how often it has come for each key, and meets those who come for the same time.

*Lives.* Who has failed, or was started again, no longer counts like the others. So a task has a life, which ends when
one of its meetings fails; when a life ends, or its process goes away, those of all others end, too: their next meeting,
or the one that they wait in, fails with AbortedError. Then all restore the last checkpoint
(``tf.train.MonitoredTrainingSession`` does so by itself) and begin to count anew. XLA's own collectives over processes
allow nothing else either.
"""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.cluster import transport, wire
from anabranch.cluster.deliveries import Deliveries, own_pid
from anabranch.core import conditions, errors
from anabranch.core.values import spare_arrays
from anabranch.train.cluster_spec import ClusterSpec

FIRST_JOBS = ("chief", "master", "worker")
SAY_AFTER = 30.0
"""Seconds after which a meeting says for whom it waits."""
_log = logging.getLogger("anabranch")
_BY_NAME: dict[str, Callable[..., Any]] = {
    "sum": np.add,
    "prod": np.multiply,
    "min": np.minimum,
    "max": np.maximum,
}


def leader_of(cluster: ClusterSpec) -> tuple[str, int]:
    """The task at which the members of a cluster meet."""
    jobs = [job for job in FIRST_JOBS if job in cluster.jobs]
    job = jobs[0] if jobs else cluster.jobs[0]
    return job, cluster.task_indices(job)[0]


class _Meeting:
    def __init__(self, how: str, size: int) -> None:
        self.how, self.size = how, size
        self.values: dict[str, tuple[int, bool, np.ndarray]] = {}
        self.result: np.ndarray | None = None
        self.problem: errors.OpError | None = None
        self.left = 0

    def settle(self) -> None:
        """Compute what becomes of the values, in the order of the tasks."""
        parts = [self.values[task] for task in sorted(self.values, key=_place)]
        arrays = [array for _, sends, array in parts if sends]
        shapes = {array.shape[self.how == "concat" :] for array in arrays}
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
            arithmetic = functools.partial(spare_arrays.arithmetic, _BY_NAME[self.how])
            self.result = functools.reduce(arithmetic, arrays[1:], arrays[0])


def _place(task: str) -> tuple[int, int]:
    job, _, rest = task.removeprefix("/job:").partition("/")
    return FIRST_JOBS.index(job) if job in FIRST_JOBS else len(FIRST_JOBS), int(rest.rpartition(":")[2])


class Meetings:
    """The meetings at the first worker."""

    def __init__(self) -> None:
        self._changed = conditions.Condition()
        self._lives: dict[str, str] = {}
        """By task its life, of those that have come."""
        self._over: dict[str, str] = {}
        """By life that has ended why."""
        self._meetings: dict[tuple[str, int], _Meeting] = {}

    def bring(
        self, header: dict[str, Any], value: np.ndarray, when_gone: Callable[[Callable[[], None]], Any]
    ) -> np.ndarray:
        """Bring a value and wait for those of the others.

        Raises:
            AbortedError: a life has ended. OpError: the members disagree.
        """
        task, life = header["task"], header["life"]
        key = header["key"], header["number"]
        waits = [True]  # (a caller whose call has ended counts as gone, too)
        when_gone(lambda: self.end(task, life, f"{task} has given up") if waits else None)
        try:
            return self._bring(header, task, life, key, value)
        except errors.OpError as problem:  # nobody waits for one who does not come again
            self.end(task, life, f"{task} has failed: {problem.message.splitlines()[0]}")
            raise
        finally:
            waits.clear()

    def _bring(
        self, header: dict[str, Any], task: str, life: str, key: tuple[str, int], value: np.ndarray
    ) -> np.ndarray:
        with self._changed:
            self._admit(task, life)
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
            meeting.values[task] = header["mine"], header["sends"], value
            present = sum(mine for mine, _, _ in meeting.values.values())
            if present == meeting.size:
                meeting.settle()
                self._changed.notify_all()
            self._wait(key, meeting, life)
            meeting.left += 1
            if meeting.left == len(meeting.values):
                self._meetings.pop(key, None)
        if meeting.problem is not None:
            raise meeting.problem
        assert meeting.result is not None
        return meeting.result

    def _wait(self, key: tuple[str, int], meeting: _Meeting, life: str) -> None:
        say_at = time.monotonic() + SAY_AFTER
        while meeting.result is None and meeting.problem is None:
            why = self._over.get(life)
            if why is not None:
                raise _aborted(why)
            self._changed.wait(1.0)
            if time.monotonic() > say_at:
                say_at += SAY_AFTER
                _log.warning(
                    "%s wait in collective %s for others, %d in all", sorted(meeting.values), key[0], meeting.size
                )

    def _admit(self, task: str, life: str) -> None:
        why = self._over.get(life)
        if why is not None:
            raise _aborted(why)
        known = self._lives.get(task)
        if known is not None and known != life:
            self._end_all(f"{task} begins anew")
        self._lives[task] = life

    def end(self, task: str, life: str, why: str) -> None:
        """Note that a life has ended: so have all others."""
        with self._changed:
            if self._lives.get(task) == life:
                self._end_all(why)

    def _end_all(self, why: str) -> None:
        self._over.update(dict.fromkeys(self._lives.values(), why))
        while len(self._over) > 10_000:
            self._over.pop(next(iter(self._over)))
        self._lives.clear()
        self._meetings.clear()
        self._changed.notify_all()


def _aborted(why: str) -> errors.OpError:
    return errors.AbortedError(
        None,
        None,
        errors.message(
            f"a collective whose members begin anew, as {why}",
            "members that are there all the time",
            "a new tf.Session for each; tf.train.MonitoredTrainingSession makes one and restores the last checkpoint",
        ),
    )


class Company:
    """A task's way to the members of other tasks.

    Args:
        name: of the task.
        incarnation: which process it is.
        cluster: gives the cluster, once it is known.
        meetings: of this task, if it is the one at which all meet.
        deliveries: what the task shares with others of its machine.
    """

    def __init__(
        self,
        name: str,
        incarnation: int,
        cluster: Callable[[], ClusterSpec],
        meetings: Meetings,
        deliveries: Deliveries,
    ) -> None:
        self._name, self._incarnation, self._cluster = name, incarnation, cluster
        self._meetings, self._deliveries = meetings, deliveries
        self._lock = threading.Lock()
        self._epoch = 0
        self._counts: dict[str, int] = {}
        self._attends = False

    def meet(self, attrs: dict[str, Any], value: np.ndarray, token: Any) -> np.ndarray:
        """Bring a value to a meeting; what has become of all.

        Raises:
            OpError: the meeting has failed, or a task is gone.
        """
        cluster = self._cluster()
        job, index = leader_of(cluster)
        key = attrs["key"]
        with self._lock:
            number = self._counts.get(key, 0)
            self._counts[key] = number + 1
            epoch = self._epoch
            life = f"{self._name}/{self._incarnation}/{epoch}"
            first, self._attends = not self._attends, True
        header = {name: attrs[name] for name in ("key", "how", "size", "mine", "sends")}
        header |= {"task": self._name, "life": life, "number": number}
        try:
            with _Ending(token) as ending:
                if self._name.startswith(f"/job:{job}/") and self._name.endswith(f"/task:{index}"):
                    return self._meetings.bring(header, value, ending.append)
                address = cluster.task_address(job, index)
                if first:
                    attending = {"task": self._name, "life": life}
                    transport.connection(address).start("Attend", attending, (), None, lambda answer: None)
                (result,) = self._deliveries.asked(address, "Meet", header, [value], ending.append)
                return np.asarray(result)
        except errors.OpError as problem:
            with self._lock:
                if self._epoch == epoch:
                    self._epoch, self._counts, self._attends = epoch + 1, {}, False
            raise (token.error() if token.cancelled else None) or problem from None


class _Ending:
    """What is to be called when a step is cancelled, while it waits."""

    def __init__(self, token: Any) -> None:
        self._token = token
        self._calls: list[Callable[[], None]] = []

    def append(self, call: Callable[[], None]) -> None:
        """Add what is to be called."""
        self._calls.append(call)
        if self._token.cancelled:
            call()

    def _end(self) -> None:
        for call in list(self._calls):
            call()

    def __enter__(self) -> _Ending:
        self._linked = self._token.on_cancel(self._end)
        self._linked.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._linked.__exit__(*problem)


def handlers(meetings: Meetings, deliveries: Deliveries) -> dict[str, Callable[..., bytes]]:
    """What answers the calls of members in other processes."""

    def meet(header: dict[str, Any], values: Sequence[Any], caller: transport.Caller) -> bytes:
        exchange, (value,) = deliveries.received(header, values)
        result = meetings.bring(header, value, caller.when_gone)
        answer = {"pid": own_pid()}
        return wire.encode(answer, [result]) if exchange is None else exchange.encode(answer, [result])

    def attend(header: dict[str, Any], values: Sequence[Any], caller: transport.Caller) -> bytes:
        gone = conditions.Event()
        caller.when_gone(gone.set)
        gone.wait()
        meetings.end(header["task"], header["life"], f"{header['task']} is gone")
        return wire.encode({})

    return {"Meet": meet, "Attend": attend}
