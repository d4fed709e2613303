"""Calls of a stage's function on several threads at a time, in the order of the elements.

Whoever asks for an element tops up what is under way: it takes elements of the input, which no thread but its own ever
touches, and hands them to threads that call the function. Results are given out in order, and so are errors, of calls
and of the input. So neither the values nor their order depend on how many threads there are.

Threads are begun only where they pay: calls that take less than :data:`WORTH_A_THREAD` are made when they are asked
for, and where threads turn out to be no faster (the function holds the interpreter lock), they are ended. A function
that draws has its place in each stream reserved when its element is taken, so that it draws what it would draw in turn.
One whose draws are not always as many, or that has effects, is called by one thread, one element after the other.

A function that calls Python is called on threads if the program says how many (``num_parallel_calls``, not
``AUTOTUNE``) and the session is not one that is to repeat: results come in order, but not the calls, as in TensorFlow.
There may be more of these threads than cores, as Python may wait for files and networks. Where the program has a
thread pool for the pipeline, which says how many, they are begun with the first element, and stay.
"""

from __future__ import annotations

import collections
import os
import threading
import time
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import conditions
from anabranch.core.cancellation import CancellationToken
from anabranch.ops.data.elements.stacks import Element
from anabranch.ops.data.pipeline import THREADS, Context, Worker

WORTH_A_THREAD = 0.0005
"""Seconds that a call takes at least if it is worth a thread."""
SLOW_BEFORE_THREADS = 4
"""How many calls must have taken so long."""
TRIED = 24
"""Calls on threads after which it is looked whether they are faster."""
GAIN = 0.9
"""What calls on threads must take at most of the time of calls one by one."""
MOST_THREADS = 16
TOGETHER = 4
"""Elements that a function is called for line by line, where whoever asks wants as many."""


class _Call:
    """An element and, once a thread has called the function for it, what it gave."""

    __slots__ = ("done", "element", "function", "outcome")

    def __init__(self, element: Element | None, outcome: Any = None, function: Any = None) -> None:
        self.element = element
        self.function: Any = function
        self.outcome: Any = outcome
        self.done = outcome is not None


class _Calls:
    """Calls for several elements that one thread makes (:meth:`PreparedFunction.outcomes`)."""

    __slots__ = ("calls", "function")

    def __init__(self, calls: Sequence[_Call], function: Any) -> None:
        self.calls = calls
        self.function = function

    def outcomes(self) -> list[Any]:
        """What they give."""
        try:
            return self.function([call.element for call in self.calls])  # type: ignore[no-any-return]
        except BaseException as problem:
            return [problem] * len(self.calls)


class _Threads(Worker):
    """Threads that call functions for elements.

    Idle ones hold nothing of the pipeline, which would keep them: they end when the iterator is collected.
    """

    def __init__(self, count: int) -> None:
        self.changed = conditions.Condition()
        self._waiting: collections.deque[_Call | _Calls] = collections.deque()
        self._ended = False
        self.threads = [
            threading.Thread(target=self._work, daemon=True, name="anabranch parallel call") for _ in range(count)
        ]
        for thread in self.threads:
            thread.start()

    def submit(self, call: _Call | _Calls) -> None:
        """Let a thread make a call, or several."""
        with self.changed:
            self._waiting.append(call)
            self.changed.notify()

    def _work(self) -> None:
        with np.errstate(all="ignore"):
            while True:
                with self.changed:
                    self.changed.wait_for(lambda: self._ended or self._waiting)
                    if self._ended:
                        return
                    call = self._waiting.popleft()
                calls: Sequence[_Call]
                if isinstance(call, _Calls):
                    calls, outcomes = call.calls, call.outcomes()
                else:
                    calls, outcomes = (call,), [outcome_of(call.function, call.element)]
                with self.changed:
                    for each, outcome in zip(calls, outcomes, strict=True):
                        each.outcome, each.done = outcome, True
                    self.changed.notify_all()
                del call, calls, outcomes, each, outcome

    def wait(self, call: _Call, token: CancellationToken, op: Any) -> None:
        """Wait until a call has been made."""
        if not call.done:
            with self.changed:
                token.wait_for(self.changed, lambda: call.done or self._ended, op)

    def close(self) -> None:
        """Let the threads end."""
        with self.changed:
            self._ended = True
            self.changed.notify_all()

    def join(self) -> None:
        """Wait until they have ended."""
        for thread in self.threads:
            if thread is not threading.current_thread():
                thread.join()

    def pause(self) -> None:
        """Nothing: the threads touch no place; whoever saves one waits for the calls under way."""

    def resume(self) -> None:
        """Nothing either."""


def outcome_of(call: Callable[[Element], Any], element: Any) -> Any:
    """What a call gives, as a tuple, or the error that it raises."""
    try:
        return tuple(call(element))
    except BaseException as problem:  # told to whoever asks for this element
        return problem


class ParallelCalls:
    """The outcomes of a function for the elements that ``pull`` gives, in order.

    Args:
        call: the function.
        pull: the next element of the input; None at the end.
        dataset: the stage; its ``calls`` says how many there may be at a time, -1 leaves it to us.
        context: where the iterator stands.
        ahead: how many outcomes may be ready or under way at least.
    """

    def __init__(
        self, call: Any, pull: Callable[[], Element | None], dataset: Any, context: Context, ahead: int = 0
    ) -> None:
        function, calls = call.function, dataset.calls
        self._call = call
        self._pull = pull
        self._context = context
        self._op = dataset.op
        most = context.said_behind(THREADS) or MOST_THREADS
        python = calls > 1 and not function.alike_in_parallel and dataset.effects_are_python and not function.repeats
        automatic = max(1, min(MOST_THREADS, most if python else os.cpu_count() or 1, most))
        self._count = min(automatic, calls if calls > 0 else automatic)
        self._limit = max(calls if calls > 0 else automatic, ahead)
        self._allowed = self._count > 1 and (function.alike_in_parallel or function.reserves or python)
        self._pooled = self._allowed and python and context.said_behind(THREADS) is not None
        """Whether a pool was asked for, in whose threads, and in no others, Python functions are called."""
        self._slow = 0.0
        self._alone = 0.0
        """Seconds that a call took when they were made one by one."""
        self._made = 0
        self._waited = 0.0
        """Seconds that whoever asked has spent here for calls on threads."""
        self.pending: collections.deque[_Call] = collections.deque()
        self.threads: _Threads | None = None
        self.wanted = 1
        """How many outcomes whoever asks is going to take."""

    def next(self) -> Any:
        """The next outcome: a tuple, an exception, or None at the end of the input."""
        if self._pooled and self.threads is None:
            self._begin()
        if self.threads is None and not self.pending:
            return self._next_alone()
        started = time.perf_counter()
        self._top_up()
        if not self.pending:
            return None
        first = self.pending[0]
        if self.threads is not None:
            self.threads.wait(first, self._context.pipeline.current_token, self._op)
        if not first.done:  # the threads were ended
            first.outcome = outcome_of(first.function or self._call, first.element)
        self.pending.popleft()
        self._judge(time.perf_counter() - started)
        return first.outcome

    def _next_alone(self) -> Any:
        try:
            element = self._pull()
        except BaseException as problem:  # an outcome like what a call raises
            return problem
        if element is None:
            return None
        more = self._pulled(TOGETHER - 1) if self._takes_several else []
        calls = [_Call(element), *(call for call in more if call.element is not None)]
        started = time.perf_counter()
        if len(calls) > 1:
            outcomes = _Calls(calls, self._call.outcomes).outcomes()
        else:
            outcomes = [outcome_of(self._call, element)]
        for call, outcome in zip(calls, outcomes, strict=True):
            call.outcome, call.done = outcome, True
        self.pending.extend(more)
        if self._allowed:
            took = (time.perf_counter() - started) / len(calls)
            if took > WORTH_A_THREAD:
                self._slow += 1
                self._alone = min(took, self._alone or took)
                if self._slow >= SLOW_BEFORE_THREADS:
                    self._begin()
            else:  # a call that took long now and then was a busy machine
                self._slow = max(0.0, self._slow - 0.25)
        return calls[0].outcome

    @property
    def _takes_several(self) -> bool:
        return self.wanted >= TOGETHER and self._call.function.takes_several  # type: ignore[no-any-return]

    def _pulled(self, count: int) -> list[_Call]:
        """The next elements of the input, without what calls for them give; an error of the input is the last."""
        calls: list[_Call] = []
        for _ in range(count):
            try:
                element = self._pull()
            except BaseException as problem:  # comes in its turn
                calls.append(_Call(None, problem))
                break
            if element is None:
                break
            calls.append(_Call(element))
        return calls

    def _begin(self) -> None:
        self.threads = threads = _Threads(self._count)
        weakref.finalize(self, threads.close)
        self._context.pipeline.add_worker(threads, self._context)
        self._waited = 0.0
        self._made = 0

    def _top_up(self) -> None:
        several = self._takes_several
        most = max(self._limit, min(self.wanted, TOGETHER * self._count)) if several else self._limit
        while self.threads is not None and len(self.pending) < most:
            if self.pending and self.pending[-1].element is None:  # behind the end, or an error of the input
                return
            if several and self.pending and most - len(self.pending) < TOGETHER:
                return
            calls = self._pulled(TOGETHER if several else 1)
            if not calls:
                return
            self.pending.extend(calls)
            if calls[-1].element is None:
                calls.pop()
            if len(calls) > 1:
                self.threads.submit(_Calls(calls, self._call.reserved(len(calls))))
            for call in calls if len(calls) == 1 else ():
                call.function = self._call.reserved()
                self.threads.submit(call)

    def _judge(self, waited: float) -> None:
        """End the threads if waiting for them takes no less than calls one by one."""
        self._made += 1
        self._waited += waited
        tried = self._made == TRIED and not self._pooled
        if tried and self.threads is not None and self._waited / TRIED > GAIN * self._alone:
            self._allowed = False
            self._finish()

    def _finish(self) -> None:
        """Let calls under way come to their end, and the threads."""
        threads, self.threads = self.threads, None
        if threads is not None:
            for call in self.pending:
                threads.wait(call, self._context.pipeline.token, self._op)
            threads.close()

    def outcomes(self) -> list[Any]:
        """The outcomes of all calls under way, once they have been made."""
        for call in self.pending:
            if self.threads is not None:
                self.threads.wait(call, self._context.pipeline.current_token, self._op)
        return [call.outcome for call in self.pending]

    def go_to(self, outcomes: list[Any]) -> None:
        """Forget what is under way, and give these out next."""
        self.pending.clear()
        for outcome in outcomes:
            self.pending.append(_Call(None, outcome))

    def close(self) -> None:
        """Let the threads end."""
        if self.threads is not None:
            self.threads.close()
            self.threads.join()
            self.threads = None
