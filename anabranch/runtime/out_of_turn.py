"""Channel ops that run before their turn, while one before them waits.

Policy. The effects of a step run in the order of their creation, which makes it repeat. But one that has to wait, for
an element or for room, would keep back those behind it, and one of these may be what it waits for: a step that puts
into a full queue and takes out of the same. In TensorFlow they run beside each other. So when a channel op begins to
wait (all waiting goes through the step's token), those behind it that can run by what is there already are run on a
thread beside, one after the other as long as somebody waits: each needs only feeds, constants, results of channel ops
that have ended, variables as they are committed, and what pure ops make of these. Two ops of one type on one resource
keep their order. What an op gives is kept until its turn; what it raises ends the step. A step in which nothing waits
has no such thread.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from anabranch.core import conditions, errors
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.operation import Operation
from anabranch.core.graph.state_key import StateKey
from anabranch.runtime import host_ops
from anabranch.runtime.values import to_host

if TYPE_CHECKING:
    from anabranch.runtime.plans.plan import Plan
    from anabranch.runtime.runner import Runner


def candidates(plan: Plan) -> tuple[Operation, ...]:
    """The channel ops of a step that may run out of their turn; none if there are not two that wait for each other."""
    if plan.nested:
        return ()
    waiting = [op for op in plan.analysis.order if op.definition.passable]
    return tuple(waiting) if len(waiting) > 1 and any(op.definition.may_block for op in waiting) else ()


def _resource(op: Operation) -> Any:
    """What tells ops of one type that stand in one line."""
    return op.type, op._inputs[0] if op._inputs and op._inputs[0].op.definition.makes else op._attrs.get("shared_name")


class _Early:
    """An op that runs, or has run, out of its turn."""

    def __init__(self) -> None:
        self.thread = 0
        self.ended = False
        self.values: list[Any] | None = None
        self.problem: errors.OpError | None = None


class OutOfTurn:
    """What can run beside the waiting of one step.

    Args:
        runner: runs the step.
        ops: those that may.
        feeds: of the step.
        token: of the step.
    """

    def __init__(
        self, runner: Runner, ops: Sequence[Operation], feeds: Sequence[Any], token: CancellationToken
    ) -> None:
        self._runner, self._token = runner, token
        self._changed = conditions.Condition()
        self._ops = frozenset(ops)
        self._behind: list[Operation] = list(ops)
        """Those whose turn has not come, and that do not run yet."""
        self._waiting: list[Any] = []
        self._started = False
        """Whether anything has waited yet."""
        self._early: dict[Operation, _Early] = {}
        self._ended: set[Operation] = set()
        self._taken: set[Operation] = set()
        """Those that ran out of their turn, whose turn has come."""
        self._feeds = feeds
        self._values: dict[Any, Any] = {}
        """What channel ops have given; from the first wait on also what was there from the start or is computed."""
        self._threads: list[threading.Thread] = []

    @property
    def problem(self) -> errors.OpError | None:
        """The first that an op out of its turn has raised."""
        return next((early.problem for early in self._early.values() if early.problem is not None), None)

    def tell_what_stands(self, problem: errors.OpError) -> None:
        """Add to an error which ops have run though the step did not come to their turn."""
        done = [op for op, early in self._early.items() if early.values is not None and op not in self._taken]
        if done:
            names = ", ".join(f"{op.type} {op.name!r}" for op in done)
            problem._message = f"{problem._message}\nDone while the step waited, and kept: {names}"

    # ---------------------------------------------------------------------------------------------------------- in turn
    def begins(self, op: Operation) -> list[Any] | None:
        """What an op whose turn it is has given before; None if it is to run now."""
        with self._changed:
            early = self._early.get(op)
            if early is None:
                if op in self._behind:
                    self._behind.remove(op)
                return None
            if early.thread == threading.get_ident():
                return None  # it is this thread that runs it
            self._token.wait_for(self._changed, lambda: early.ended, op)
        if early.problem is not None:
            raise early.problem
        self._taken.add(op)
        return early.values

    def ends(self, op: Operation, values: Sequence[Any]) -> None:
        """Note what a channel op has given."""
        fed = self._runner.plan.fed
        given = {output: value for output, value in zip(op._outputs, values, strict=True) if output not in fed}
        with self._changed:
            self._values.update(given)
            self._ended.add(op)

    # ------------------------------------------------------------------------------------------------------ out of turn
    def waits(self, op: Any) -> None:
        """Note that an op begins to wait: one behind it may run."""
        if op not in self._ops:  # it waits for what no op of the step can give: a dataset, a program
            return
        with self._changed:
            if not self._started:
                self._started = True
                self._values = {**self._runner.plan.start(self._feeds), **self._values}
            self._waiting.append(op)
            chosen = self._next()
            if chosen is None:
                return
            thread = threading.Thread(target=self._run, args=(chosen,), name="anabranch-out-of-turn", daemon=True)
            try:
                conditions.start(thread)
            except BaseException:  # no thread is left: its turn will come
                del self._early[chosen]
                self._behind = sorted([*self._behind, chosen], key=self._runner.plan.analysis.position.__getitem__)
                raise
            self._threads.append(thread)

    def goes_on(self, op: Any) -> None:
        """Note that an op waits no longer."""
        with self._changed:
            if op in self._waiting:
                self._waiting.remove(op)

    def _next(self) -> Operation | None:
        """The first op that can run, which then does; the lock is held."""
        lines = [_resource(op) for op in self._waiting]
        lines += [_resource(op) for op, early in self._early.items() if not early.ended]
        for op in self._behind:
            within = {op}
            if _resource(op) not in lines and self._is_there(op, within) and self._reads_alone(within):
                self._behind.remove(op)
                self._early[op] = _Early()
                return op
            lines.append(_resource(op))
        return None

    def _is_there(self, op: Operation, seen: set[Operation]) -> bool:
        """Whether all that an op needs is there, or can be computed; ``seen`` takes what computes it."""
        for control in op._control_inputs:
            if control not in self._ended and not self._is_pure(control, seen):
                return False
        for key in self._runner.plan.sources(op):
            if key is None or (key in self._values and key not in self._runner.plan.constants):
                continue  # (a constant may have to wait for what controls it)
            if isinstance(key, StateKey):
                if not self._is_committed(key):
                    return False
            elif not self._is_pure(key.op, seen):
                return False
        return True

    def _reads_alone(self, within: set[Operation]) -> bool:
        """Whether nobody else takes what ops see of variables: all in a step see one value of each."""
        plan = self._runner.plan
        read: set[Any] = {key for op in within for key in plan.sources(op) if isinstance(key, StateKey)}
        if not read:
            return True
        made = {output for op in within for output in op._outputs}
        if made & plan.fetched:
            return False
        for op in plan.analysis.order:
            if op not in within:
                # What a write replaces is not a value that the step computes with.
                writes = op.definition.effect.kind == "write"
                if any(key in made or (key in read and not writes) for key in plan.sources(op)):
                    return False
        return True

    def _is_committed(self, key: StateKey) -> bool:
        """Whether a version of a variable is what is committed now: no part of the step writes it before."""
        plan = self._runner.plan
        before = plan.segments[: key.segment]
        return plan.producer(key) is None and not any(key.maker in segment.written for segment in before)

    def _is_pure(self, op: Operation, seen: set[Operation]) -> bool:
        if op in seen:
            return True
        seen.add(op)
        effect = op.definition.effect
        if effect.presence or op.definition.allows_uninitialized:  # it does without a value
            return False
        pure = effect.kind in ("pure", "read") and op in self._runner.plan.analysis.position
        return pure and self._is_there(op, seen)

    def _value(self, key: Any) -> Any:
        if key is None:
            return None
        if isinstance(key, StateKey):
            manager = self._runner.manager
            (version,) = versions = manager.pin([self._runner.slot(key.maker)], None, None, self._token)
            try:
                return version.host()
            finally:
                manager.unpin(versions)
        if key not in self._values:
            values = host_ops.call(self._runner, key.op, self._operands(key.op), self._token)
            for output, value in zip(key.op._outputs, values, strict=True):
                self._values.setdefault(output, value)
        return to_host(self._values[key])

    def _operands(self, op: Operation) -> list[Any]:
        return [self._value(key) for key in self._runner.plan.sources(op)]

    def _run(self, chosen: Operation | None) -> None:
        """Run ops, on a thread of its own, as long as somebody waits."""
        while chosen is not None:
            early = self._early[chosen]
            early.thread = threading.get_ident()
            try:
                early.values = host_ops.call(self._runner, chosen, self._operands(chosen), self._token)
            except errors.OpError as problem:
                early.problem = problem
            except BaseException as problem:
                early.problem = errors.InternalError(None, chosen, f"{type(problem).__name__}: {problem}")
            with self._changed:
                early.ended, early.thread = True, 0
                self._changed.notify_all()
                chosen = self._next() if self._waiting and early.problem is None else None
            if early.problem is not None:
                self._token.cancel(early.problem)  # whoever waits hears of it

    def close(self) -> None:
        """The step is over: end what still waits beside it."""
        if any(not early.ended for early in self._early.values()):
            self._token.cancel(errors.CancelledError(None, None, "The step has failed"))
        for thread in self._threads:
            thread.join()
