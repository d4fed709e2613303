"""Members of collectives in several tasks: how their values come together.

Policy. Members find each other at the first worker of the cluster (the chief, if it has one). There each task brings
what its own members have, and gets, with what has become of all, the list of those who have come
(:mod:`anabranch.cluster.meetings`). From then on large values of the same key go without the first worker: a sum is
cut into as many *parts* as there are tasks, each task adds up one part of all values and gives it to the others, so
that each sends and gets the size of a value twice, however many tasks there are (a reduce-scatter and an all-gather);
values that are joined go from each to each. What is small stays at the first worker, which is one round trip. A part
has the same bits as it would have in the whole: it is added up in the order of the tasks, too. Between processes of
one machine parts go by memory that both see (:mod:`anabranch.cluster.deliveries`); if all tasks are on one machine,
values are added up where they stand, in memory that all of them see (:mod:`anabranch.cluster.shared_sums`).

A task counts how often it has come for each key, and meets those who come for the same time. When a meeting fails, or a
task goes away, all begin anew: their next meeting, or the one that they wait in, fails with AbortedError, all restore
the last checkpoint (``tf.train.MonitoredTrainingSession`` does so by itself) and begin to count from nothing. XLA's own
collectives over processes allow nothing else either.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.cluster import transport
from anabranch.cluster.deliveries import Deliveries
from anabranch.cluster.meetings import ELEMENTWISE, FIRST_JOBS, Meetings, Member, Outcome, aborted
from anabranch.cluster.shared_sums import MOST_TABLES, MOST_TASKS, Table
from anabranch.cluster.tasks import task_name
from anabranch.core import device as device_names
from anabranch.core import errors
from anabranch.core.values import spare_arrays
from anabranch.train.cluster_spec import ClusterSpec

LEAST = 1 << 16
"""Bytes of a value from which on it goes without the first worker."""


def leader_of(cluster: ClusterSpec) -> tuple[str, int]:
    """The task at which the members of a cluster find each other."""
    jobs = [job for job in FIRST_JOBS if job in cluster.jobs]
    job = jobs[0] if jobs else cluster.jobs[0]
    return job, cluster.task_indices(job)[0]


class _Life:
    """What a task has in common with the others since it last began anew."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.counts: dict[str, int] = {}
        """By key how often the task has come."""
        self.companies: dict[str, tuple[str, list[str]]] = {}
        """By key the generation and the tasks that meet without the first worker."""
        self.tables: dict[str, Table | None] = {}
        """By key what the tasks that meet share, if they are on one machine."""
        self.attended: dict[tuple[str, str | None], Callable[[], None]] = {}
        """By task, and generation of parts, what ends the call by which it hears that this life ends."""
        self.problem: errors.OpError | None = None


class Company:
    """A task's way to the members of other tasks.

    Args:
        name: of the task.
        incarnation: which process it is.
        cluster: gives the cluster, once it is known.
        meetings: those at this task.
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
        self._begun = 0
        self._life = _Life(f"{name}/{incarnation}/0")

    def meet(self, attrs: dict[str, Any], values: Sequence[Any], token: Any) -> np.ndarray:
        """Bring a value, as one array or as vectors that follow each other, to a meeting; what has become of all.

        Raises:
            OpError: the meeting has failed, or a task is gone.
        """
        key = attrs["key"]
        with self._lock:
            life = self._life
            number = life.counts.get(key, 0)
            life.counts[key] = number + 1
            company = life.companies.get(key)
        header = {name: attrs[name] for name in ("key", "how", "size", "mine", "sends")}
        header |= {"task": self._name, "life": life.name, "number": number}
        try:
            if life.problem is not None:
                raise life.problem
            with _Ending(token) as ending:
                if company is None:
                    return self._at_first_worker(life, header, _joined(values), ending.append)
                generation, tasks = company
                for task in tasks:
                    self._attend(life, task, generation)
                if header["how"] in ELEMENTWISE:
                    total = self._in_table(life, header, [np.asarray(value) for value in values], ending.append)
                    if total is not None:
                        return total
                value = _joined(values)
                header |= {"generation": generation, "shape": value.shape}
                bring = self._by_parts if header["how"] in ELEMENTWISE else self._each_to_each
                return bring(header, value, tasks, ending.append)
        except errors.OpError as problem:
            self._end(life, problem.message.splitlines()[0])
            raise (token.error() if token.cancelled else None) or problem from None
        except BaseException as problem:  # of Python: an interrupt, no memory
            self._end(life, type(problem).__name__)
            raise

    # ------------------------------------------------------------------------------------------------------- the ways
    def _at_first_worker(self, life: _Life, header: dict[str, Any], value: Any, when_gone: Any) -> np.ndarray:
        cluster = self._cluster()
        leader = task_name(*leader_of(cluster))
        if leader == self._name:
            outcome = self._meetings.bring(header, value, when_gone)
        else:
            self._attend(life, leader, None)
            answer, (result,) = self._deliveries.asked(self._address(leader), "Meet", header, [value], when_gone)
            outcome = Outcome(result, answer["generation"], [Member(*member) for member in answer["members"]])
        if len(outcome.members) > 1 and header["how"] != "first" and max(m.size for m in outcome.members) >= LEAST:
            life.companies[header["key"]] = outcome.generation, [member.task for member in outcome.members]
        assert outcome.value is not None
        return np.asarray(outcome.value)

    def _in_table(
        self, life: _Life, header: dict[str, Any], values: Sequence[np.ndarray], when_gone: Any
    ) -> np.ndarray | None:
        """What has become of all values, in memory that all tasks share; None if they do not, or not this time."""
        key = header["key"]
        if key not in life.tables:
            life.tables[key] = self._agreed_table(life, header, values, when_gone)
        table = life.tables[key]
        if table is None:
            return None
        when_gone(lambda: table.end(f"{self._name} has given up"))
        shape = values[0].shape if len(values) == 1 else (sum(map(len, values)),)
        return table.meet(header["number"], ELEMENTWISE[header["how"]], values if header["sends"] else (), shape)

    def _agreed_table(
        self, life: _Life, header: dict[str, Any], values: Sequence[np.ndarray], when_gone: Any
    ) -> Table | None:
        """A table that all tasks of a key have opened; None if one could not."""
        generation, tasks = life.companies[header["key"]]
        if len(tasks) > MOST_TASKS:
            return None
        few = header["sends"] and sum(table is not None for table in life.tables.values()) < MOST_TABLES
        table = Table(tasks, self._name, sum(value.nbytes for value in values)) if few else None
        header = {**header, "key": f"{header['key']} table", "how": "concat", "sends": True}

        def rows(number: int, own: Sequence[int]) -> list[list[int]]:
            row = np.asarray([own], np.int64)
            return self._at_first_worker(life, {**header, "number": number}, row, when_gone).tolist()

        is_open = False
        try:
            shown = rows(0, [0] * 4 if table is None else table.shown())
            is_open = table is not None and table.open(shown)
            by_all = all(flag for (flag,) in rows(1, [is_open]))
            is_open = table is not None and table.settle(by_all)
        finally:
            if table is not None and not is_open:
                table.close()
        if table is None or not is_open:
            return None
        self._meetings.when_over(generation, table.end)
        return table

    def _by_parts(self, header: dict[str, Any], value: np.ndarray, tasks: Sequence[str], when_gone: Any) -> np.ndarray:
        flat = np.ascontiguousarray(value).reshape(-1)
        bounds = [len(flat) * i // len(tasks) for i in range(len(tasks) + 1)]
        parts = {task: slice(*bounds[i : i + 2]) for i, task in enumerate(tasks)}
        asked = {
            task: self._deliveries.asking(self._address(task), "Meet", header, [flat[parts[task]]], when_gone)
            for task in _others(tasks, self._name)
        }
        own = self._meetings.bring(header, flat[parts[self._name]], when_gone).value
        result = spare_arrays.empty(value.shape, value.dtype)
        joined = result.reshape(-1)
        joined[parts[self._name]] = own
        for task, answer in asked.items():
            _, (part,) = answer()
            joined[parts[task]] = part
        return result

    def _each_to_each(
        self, header: dict[str, Any], value: np.ndarray, tasks: Sequence[str], when_gone: Any
    ) -> np.ndarray:
        sent = {**header, "waits": False}
        asked = [
            self._deliveries.asking(self._address(task), "Meet", sent, [value], when_gone)
            for task in _others(tasks, self._name)
        ]
        result = self._meetings.bring(header, value, when_gone).value
        for answer in asked:
            answer()
        assert result is not None
        return result

    def _address(self, task: str) -> str:
        fields = device_names.parse(task)
        assert fields.job is not None
        assert fields.task is not None
        return self._cluster().task_address(fields.job, fields.task)

    # ------------------------------------------------------------------------------------------------------------ lives
    def _attend(self, life: _Life, task: str, generation: str | None) -> None:
        """Have a task hear of it when this life ends, and this one when that task goes away."""
        at = task, generation
        with self._lock:
            if at in life.attended or task == self._name:
                return
            life.attended[at] = lambda: None
        header = {"task": self._name, "life": life.name}
        if generation is not None:
            header["generation"] = generation
        lost = functools.partial(self._note_lost, life, task)
        cancel = transport.connection(self._address(task)).start("Attend", header, (), None, lost)
        with self._lock:
            life.attended[at] = cancel
            ended = self._life is not life
        if ended:
            cancel()

    def _note_lost(self, life: _Life, task: str, answer: Any) -> None:
        why = f"{task} has failed, or is gone"
        life.problem = life.problem or aborted(why)
        self._end_meetings(life, why)

    def _end(self, life: _Life, why: str) -> None:
        """Begin a new life, and let the others know."""
        why = f"{self._name} has failed: {why}"
        with self._lock:
            if self._life is not life:
                return
            self._begun += 1
            self._life = _Life(f"{self._name}/{self._incarnation}/{self._begun}")
        life.problem = life.problem or aborted(why)
        for cancel in list(life.attended.values()):
            cancel()
        self._end_meetings(life, why)

    def _end_meetings(self, life: _Life, why: str) -> None:
        self._meetings.end(self._name, life.name, why)
        for generation, _ in list(life.companies.values()):
            self._meetings.end_generation(generation, why)


def _joined(values: Sequence[Any]) -> np.ndarray:
    """One array of vectors that follow each other; of one array, that."""
    arrays = [np.asarray(value) for value in values]
    if len(arrays) == 1:
        return arrays[0]
    return np.concatenate(arrays, out=spare_arrays.empty([sum(map(len, arrays))], arrays[0].dtype))


def _others(tasks: Sequence[str], own: str) -> list[str]:
    """The tasks that come behind one, then those before it: not all ask the same one first."""
    at = tasks.index(own)
    return [*tasks[at + 1 :], *tasks[:at]]


class _Ending:
    """What is to be called when a step is cancelled, or fails, while it waits."""

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

    def __exit__(self, kind: Any, *problem: Any) -> None:
        self._linked.__exit__(kind, *problem)
        if kind is not None:
            self._end()
