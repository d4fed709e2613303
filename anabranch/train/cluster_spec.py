"""Which jobs a cluster has, and the address of each of their tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.protos.cluster_pb2 import ClusterDef

_EXPECTED = "a dict of job names to lists of 'host:port', or to dicts of numbers to 'host:port', or a ClusterDef"
_INSTEAD = "tf.train.ClusterSpec({'ps': ['ps0:2222'], 'worker': ['worker0:2222', 'worker1:2222']})"


def _text(name: Any, what: str, words: str) -> str:
    if isinstance(name, bytes):
        return name.decode()
    if not isinstance(name, str):
        raise TypeError(
            f"{words} {name!r} must be bytes or unicode\n" + errors.message(f"{name!r} as {what}", "a string", _INSTEAD)
        )
    return name


@public("train.ClusterSpec")
class ClusterSpec:
    """The jobs of a cluster, each a set of tasks with a number and a network address.

    Args:
        cluster: a dictionary of job names to lists of addresses, or to dictionaries of task numbers to addresses; a
            ClusterDef; or a ClusterSpec.

    Raises:
        TypeError: it is none of these.

    Example:
        >>> import anabranch as tf
        >>> cluster = tf.train.ClusterSpec({"ps": ["ps0:2222"], "worker": {1: "worker1:2222"}})
        >>> cluster.num_tasks("ps"), cluster.task_address("worker", 1)
        (1, 'worker1:2222')
    """

    def __init__(self, cluster: Any) -> None:
        self._tasks: dict[str, dict[int, str]] = {}
        if isinstance(cluster, ClusterSpec):
            cluster = cluster.as_cluster_def()
        if isinstance(cluster, ClusterDef):
            cluster = {job.name: dict(job.tasks) for job in cluster.job}
        if not isinstance(cluster, Mapping):
            raise TypeError(
                "`cluster` must be a dictionary mapping one or more job names to lists of network addresses, or a "
                "`ClusterDef` protocol buffer\n" + errors.message(f"ClusterSpec({cluster!r})", _EXPECTED, _INSTEAD)
            )
        for job, tasks in cluster.items():
            if isinstance(tasks, (list, tuple)):
                tasks = dict(enumerate(tasks))
            if not isinstance(tasks, Mapping) or not all(isinstance(number, int) for number in tasks):
                raise TypeError(
                    f"The tasks for job {job!r} must be a list or a dictionary from integers to strings.\n"
                    + errors.message(f"{tasks!r} as the tasks of job {job!r}", _EXPECTED, _INSTEAD)
                )
            self._tasks[_text(job, "a job's name", "Job name")] = {
                number: _text(address, f"the address of task {number} of job {job!r}", "Task address")
                for number, address in sorted(tasks.items())
            }

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ClusterSpec) and self._tasks == other._tasks

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"ClusterSpec({self.as_dict()!r})"

    __str__ = __repr__

    def as_dict(self) -> dict[str, Any]:
        """The dictionary of the jobs: to lists of addresses where the numbers are 0, 1, ..., else to dictionaries."""
        return {
            job: list(tasks.values()) if list(tasks) == list(range(len(tasks))) else dict(tasks)
            for job, tasks in self._tasks.items()
        }

    def as_cluster_def(self) -> Any:
        """The cluster as a ClusterDef."""
        message = ClusterDef()
        for job in sorted(self._tasks):
            message.job.add(name=job).tasks.update(self._tasks[job])
        return message

    @property
    def jobs(self) -> list[str]:
        """The names of the jobs."""
        return list(self._tasks)

    def _of(self, job_name: str) -> dict[int, str]:
        tasks = self._tasks.get(job_name)
        if tasks is None:
            raise ValueError(
                f"No such job in cluster: {job_name!r}\n"
                + errors.message(f"job {job_name!r}", f"one of {self.jobs}", "cluster.jobs")
            )
        return tasks

    def num_tasks(self, job_name: str) -> int:
        """How many tasks a job has."""
        return len(self._of(job_name))

    def task_indices(self, job_name: str) -> list[int]:
        """The numbers of a job's tasks, in order."""
        return list(self._of(job_name))

    def task_address(self, job_name: str, task_index: int) -> str:
        """The address of a task."""
        tasks = self._of(job_name)
        if task_index not in tasks:
            raise ValueError(
                f"No task with index {task_index!r} in job {job_name!r}\n"
                + errors.message(f"task {task_index!r}", f"one of {list(tasks)}", f"cluster.task_indices({job_name!r})")
            )
        return tasks[task_index]

    def job_tasks(self, job_name: str) -> list[str | None]:
        """The addresses of a job's tasks by number; None for numbers without a task."""
        tasks = self._of(job_name)
        return [tasks.get(number) for number in range(max(tasks, default=-1) + 1)]
