"""Who may begin a training step, and when its updates may be made: bounded staleness and synchronous rounds.

Policy. One task of the cluster keeps the count (:func:`keeper`): the first parameter server, or the first task where
there is none. *Members* are the other tasks that train: each task of a job other than ``ps`` and ``evaluator``, known
by its name. Until a member has come, the others wait for it as for one that is slow. A session that closes retires its
member, and nobody waits for it. One that is gone without having closed is waited for until the task is back (its new
session takes the place), apart from the backup workers of a synchronous round.

*Bounded staleness.* A member's clock is the number of its training steps that have ended. It begins a step if its clock
is at most ``k`` ahead of the slowest.

*Rounds.* A member enters a round, reads, computes, and *arrives* before its first update. When all have arrived but
``b``, the round closes: those that have arrived make their updates, and when all of them are done the next round
begins. Who comes too late has computed with old values; its updates are dropped, and it begins anew in the next round.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

from anabranch.cluster.tasks import task_name
from anabranch.core import conditions, errors
from anabranch.train.cluster_spec import ClusterSpec

POLL = 1.0
"""Seconds after which a question is answered with whom it waits for."""
_NOT_MEMBERS = ("ps", "evaluator")


def keeper(cluster: ClusterSpec) -> str:
    """The task that keeps the count of a cluster."""
    job = "ps" if "ps" in cluster.jobs else cluster.jobs[0]
    return task_name(job, cluster.task_indices(job)[0])


def members(cluster: ClusterSpec) -> list[str]:
    """The tasks that make training steps."""
    return [task_name(job, i) for job in cluster.jobs if job not in _NOT_MEMBERS for i in cluster.task_indices(job)]


class _Member:
    def __init__(self, session: str, clock: int) -> None:
        self.session = session
        self.clock = clock
        self.retired = False
        self.ended = 0
        """The number of the last step that is done or has failed: who gave up may be heard late."""


class Rounds:
    """The count of training steps of a cluster, on the task that keeps it."""

    def __init__(self) -> None:
        self._changed = conditions.Condition()
        self._mode: list[Any] | None = None
        self._expected: list[str] = []
        self._members: dict[str, _Member] = {}
        self._round = 0
        self._arrived: set[str] = set()
        self._closed = False
        """Whether enough have arrived, and they make their updates."""

    def ask(
        self, what: str, task: str, session: str, mode: list[Any], expected: Sequence[str], number: int, step: int
    ) -> Any:
        """Answer a member.

        Args:
            what: ``enter`` a step, ``arrive`` before its updates, ``done``, ``withdraw`` (the step has failed).
            task: the name of the member.
            session: its session.
            mode: ``['stale', k]`` or ``['sync', b]``.
            expected: the names of all members.
            number: the round that it has entered.
            step: the number of its step, which grows.

        Returns:
            The number of the round; -1 if it came too late; the names of those who are waited for, if it has to ask
            again.

        Raises:
            FailedPreconditionError: others have another mode or cluster. AbortedError: another session took the place.
        """
        with self._changed:
            member = self._member(what, task, session, mode, list(expected))
            if what == "enter":
                return self._wait(lambda: self._entered(task, member))
            if what == "arrive":
                return self._wait(lambda: self._passed(task, number) if step > member.ended else -1)
            member.ended = max(member.ended, step)
            if what == "done" and mode[0] == "stale":
                member.clock += 1
            elif mode[0] == "sync" and number == self._round:
                self._arrived.discard(task)
                self._advance()
            self._changed.notify_all()
            return number

    def leave(self, session: str, retires: bool) -> None:
        """Note that a session has closed, or is gone."""
        with self._changed:
            for task, member in self._members.items():
                if member.session == session:
                    member.retired = retires
                    self._drop(task)
                    member.session = ""
            if self._members and all(member.retired for member in self._members.values()):
                self._mode, self._members = None, {}  # the next program may have another mode
            self._changed.notify_all()

    def _member(self, what: str, task: str, session: str, mode: list[Any], expected: list[str]) -> _Member:
        if self._mode is None:
            self._mode, self._expected = mode, expected
        if mode != self._mode or expected != self._expected:
            raise errors.FailedPreconditionError(
                None,
                None,
                errors.message(
                    f"a training step of {task} with consistency {tuple(mode)} among {expected}",
                    f"{tuple(self._mode)} among {self._expected}, as the others have",
                    "the same SessionOptions(consistency=...) and cluster in all tasks",
                ),
            )
        member = self._members.get(task)
        if member is None or (member.session != session and what == "enter"):
            self._drop(task)
            clock = 0 if member is None else member.clock
            if member is not None and member.retired:
                clock = max([clock, *self._clocks(task)[:1]])
            member = self._members[task] = _Member(session, clock)
        elif member.session != session:
            raise errors.AbortedError(
                None,
                None,
                errors.message(
                    f"a training step of a session of {task} that counts as gone, or was replaced by another",
                    "one session that trains for each task, without interruption",
                    "a new tf.Session; tf.train.MonitoredTrainingSession makes one and restores",
                ),
            )
        return member

    def _drop(self, task: str) -> None:
        """Forget what a member was about to do in the round."""
        if task in self._arrived:
            self._arrived.discard(task)
        self._advance()

    def _advance(self) -> None:
        if self._closed and not self._arrived:
            self._round += 1
            self._closed = False

    def _clocks(self, besides: str = "") -> list[int]:
        """The clocks of those that are waited for, in order; 0 of who has not come yet."""
        known = [(name, self._members.get(name)) for name in self._expected if name != besides]
        return sorted(0 if m is None else m.clock for _, m in known if m is None or not m.retired)

    def _entered(self, task: str, member: _Member) -> Any:
        assert self._mode is not None
        kind, bound = self._mode
        if kind == "sync":
            ready = not self._closed and task not in self._arrived
            return self._round if ready else sorted(self._arrived)
        slowest = self._clocks(task)[:1]
        if not slowest or member.clock - slowest[0] <= bound:
            return 0
        return [
            name
            for name in self._expected
            if name != task
            and member.clock - (0 if (other := self._members.get(name)) is None else other.clock) > bound
            and not (other is not None and other.retired)
        ]

    def _passed(self, task: str, number: int) -> Any:
        assert self._mode is not None
        if number != self._round or (self._closed and task not in self._arrived):
            return -1
        self._arrived.add(task)
        if not self._closed:
            present = [name for name in self._expected if not (m := self._members.get(name)) or not m.retired]
            if len(self._arrived) >= max(1, len(present) - self._mode[1]):
                self._closed = True
                self._changed.notify_all()
        return number if self._closed else [name for name in present if name not in self._arrived]

    def _wait(self, look: Any) -> Any:
        """What ``look`` returns, once it is a number; what it returns after a while."""
        end = time.monotonic() + POLL
        answer = look()
        while isinstance(answer, list) and (rest := end - time.monotonic()) > 0:
            self._changed.wait(rest)
            answer = look()
        return answer
