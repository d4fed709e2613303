"""Threads that end together: ``tf.train.Coordinator``, threads that loop, threads that fill queues.

A thread asks ``should_stop`` and ends when it says so; any thread may ask all to stop, with the exception that ended
it. Who joins the threads gets that exception.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from anabranch.core import conditions, errors
from anabranch.core.cancellation import CancellationToken
from anabranch.core.contract.api import public
from anabranch.core.graph.collections import GraphKeys, register_proto_function
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.protos import training_pb2
from anabranch.platform import logging
from anabranch.session import BaseSession, Session, get_default_session

PATIENCE = 1.0
"""Seconds that a queue runner's threads have to end when its queue was cancelled, before their steps are."""


@public("train.Coordinator")
class Coordinator:
    """Stop a number of threads together.

    Args:
        clean_stop_exception_types: exceptions that mean a normal end; ``tf.errors.OutOfRangeError`` by default.
    """

    def __init__(self, clean_stop_exception_types: Sequence[type[BaseException]] | None = None) -> None:
        self._clean = tuple(clean_stop_exception_types or (errors.OutOfRangeError,))
        self._lock = threading.Lock()
        self._stop = conditions.Event()
        self._raised: BaseException | None = None
        self._joined = False
        self._threads: set[Any] = set()

    def request_stop(self, ex: Any = None) -> None:
        """Ask all threads to stop. The first exception given is raised by :meth:`join`, unless it means a normal end.

        Args:
            ex: an exception, or what ``sys.exc_info()`` gives.
        """
        problem = ex[1] if isinstance(ex, tuple) else ex
        with self._lock:
            if self._joined and problem is not None and not isinstance(problem, self._clean):
                raise problem
            if not self._stop.is_set() and problem is not None and not isinstance(problem, self._clean):
                self._raised = problem
            self._stop.set()

    def clear_stop(self) -> None:
        """Forget that a stop was asked for."""
        with self._lock:
            self._joined, self._raised = False, None
            self._stop.clear()

    def should_stop(self) -> bool:
        """Whether a stop was asked for."""
        return self._stop.is_set()

    @contextlib.contextmanager
    def stop_on_exception(self) -> Iterator[None]:
        """A block whose exceptions ask for a stop instead of leaving it."""
        try:
            yield
        except BaseException:
            self.request_stop(sys.exc_info())

    def wait_for_stop(self, timeout: float | None = None) -> bool:
        """Wait until a stop is asked for, or for ``timeout`` seconds; whether one was."""
        return self._stop.wait(timeout)

    @property
    def _registered_threads(self) -> set[threading.Thread]:
        return self._threads

    def register_thread(self, thread: threading.Thread) -> None:
        """Add a thread to those that :meth:`join` waits for."""
        with self._lock:
            self._threads.add(thread)

    def join(
        self,
        threads: Iterable[threading.Thread] | None = None,
        stop_grace_period_secs: float = 120,
        ignore_live_threads: bool = False,
    ) -> None:
        """Wait until threads have ended, and raise the exception that one asked for the stop with.

        Args:
            threads: threads beside the registered ones.
            stop_grace_period_secs: how long threads may run on after a stop was asked for.
            ignore_live_threads: raise nothing if some run on.

        Raises:
            RuntimeError: some run on, and no other exception is there to raise.
        """
        with self._lock:
            waiting = list(self._threads.union(threads or ()))
        while any(thread.is_alive() for thread in waiting) and not self.wait_for_stop(1.0):
            pass
        end = time.monotonic() + stop_grace_period_secs
        for thread in waiting:
            if thread.ident is not None:  # one that never started has ended
                thread.join(max(0.0, end - time.monotonic()))
        late = [thread.name for thread in waiting if thread.is_alive()]
        with self._lock:
            self._joined = True
            self._threads = set()
            problem = self._raised
        if problem is not None:
            raise problem
        if late and not ignore_live_threads:
            raise RuntimeError(
                f"Coordinator stopped with threads still running: {' '.join(late)}\n"
                + errors.message(
                    f"{len(late)} threads that run on",
                    "threads that ask should_stop()",
                    "while not coord.should_stop():",
                )
            )

    @property
    def joined(self) -> bool:
        """Whether threads were joined."""
        return self._joined

    def raise_requested_exception(self) -> None:
        """Raise the exception that a stop was asked for with, if there is one."""
        with self._lock:
            if self._raised is not None:
                raise self._raised


@public("train.LooperThread")
class LooperThread(threading.Thread):
    """A thread that calls a function again and again until a coordinator stops it.

    Args:
        coord: the coordinator, which it registers with.
        timer_interval_secs: seconds between calls; None: without a pause.
        target: the function; :meth:`run_loop` by default.
        args: its arguments.
        kwargs: its keyword arguments.
    """

    def __init__(
        self,
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any] | None = None,
        args: Any = None,
        kwargs: Any = None,
    ) -> None:
        if not isinstance(coord, Coordinator):
            raise ValueError(
                errors.message(f"coord={coord!r}", "a tf.train.Coordinator", "LooperThread(tf.train.Coordinator(), 60)")
            )
        super().__init__(daemon=True)
        self._coord, self._interval = coord, timer_interval_secs
        self._call = (target, tuple(args or ()), dict(kwargs or {}))
        coord.register_thread(self)

    @staticmethod
    def loop(
        coord: Coordinator,
        timer_interval_secs: float | None,
        target: Callable[..., Any],
        args: Any = None,
        kwargs: Any = None,
    ) -> LooperThread:
        """Make and start a thread that calls a function until the coordinator stops it."""
        looper = LooperThread(coord, timer_interval_secs, target, args, kwargs)
        conditions.start(looper)
        return looper

    def run(self) -> None:
        """Call the function until a stop is asked for."""
        with self._coord.stop_on_exception():
            self.start_loop()
            if self._interval is None:
                while not self._coord.should_stop():
                    self.run_loop()
            else:
                following = time.monotonic()
                while not self._coord.wait_for_stop(max(0.0, following - time.monotonic())):
                    following += self._interval
                    self.run_loop()
            self.stop_loop()

    def start_loop(self) -> None:
        """Called before the first call; nothing by default."""

    def stop_loop(self) -> None:
        """Called after the last call; nothing by default."""

    def run_loop(self) -> None:
        """Call the function."""
        target, args, kwargs = self._call
        if target is not None:
            target(*args, **kwargs)


def _are_error_types(given: Any) -> bool:
    return (
        isinstance(given, tuple)
        and bool(given)
        and all(isinstance(kind, type) and issubclass(kind, errors.OpError) for kind in given)
    )


@public("train.QueueRunner", "train.queue_runner.QueueRunner")
class QueueRunner:
    """Threads that run enqueue ops of a queue until it is closed or its source has ended, and close it then.

    Args:
        queue: the queue.
        enqueue_ops: one op for each thread.
        close_op: closes the queue; what waits in it can still be taken out.
        cancel_op: closes it and cancels what waits for it.
        queue_closed_exception_types: exceptions that mean that the queue was closed.
        queue_runner_def: a QueueRunnerDef to make it of, instead of the others.
        import_scope: where the graph of ``queue_runner_def`` was imported to.
    """

    def __init__(
        self,
        queue: Any = None,
        enqueue_ops: Sequence[Any] | None = None,
        close_op: Any = None,
        cancel_op: Any = None,
        queue_closed_exception_types: Sequence[type[BaseException]] | None = None,
        queue_runner_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        if queue_runner_def is not None:
            if queue is not None or enqueue_ops:
                raise ValueError(
                    "queue_runner_def and queue are mutually exclusive.\n"
                    + errors.message(
                        "a queue and queue_runner_def", "one of the two arguments", "QueueRunner(queue_runner_def=...)"
                    )
                )
            graph = get_default_graph()

            def element(name: str) -> Any:
                return graph.as_graph_element(f"{import_scope}/{name}" if import_scope else name)

            self._queue = element(queue_runner_def.queue_name)
            self._enqueue_ops = [element(name) for name in queue_runner_def.enqueue_op_name]
            self._close_op = element(queue_runner_def.close_op_name)
            self._cancel_op = element(queue_runner_def.cancel_op_name)
            kinds: list[type[BaseException]] = [
                errors.exception_type_from_error_code(code) for code in queue_runner_def.queue_closed_exception_types
            ]
            self._closed: tuple[type[BaseException], ...] = tuple(kinds) or (errors.OutOfRangeError,)
        else:
            if queue is None or not enqueue_ops:
                raise ValueError(
                    "Must provide queue and enqueue_ops.\n"
                    + errors.message(
                        f"queue={queue!r}, enqueue_ops={enqueue_ops!r}",
                        "both a queue and its enqueue ops",
                        "QueueRunner(queue, [enqueue])",
                    )
                )
            kinds_given = queue_closed_exception_types
            if kinds_given is not None and not _are_error_types(kinds_given):
                raise TypeError(
                    "queue_closed_exception_types, when provided, must be a tuple of tf.error types, but saw: "
                    f"{kinds_given}\n"
                    + errors.message(
                        f"queue_closed_exception_types={kinds_given!r}",
                        "a tuple of subclasses of tf.errors.OpError",
                        "queue_closed_exception_types=(tf.errors.OutOfRangeError,)",
                    )
                )
            self._queue, self._enqueue_ops = queue, list(enqueue_ops)
            self._close_op = queue.close() if close_op is None else close_op
            self._cancel_op = queue.close(cancel_pending_enqueues=True) if cancel_op is None else cancel_op
            self._closed = tuple(queue_closed_exception_types or (errors.OutOfRangeError,))
        self._lock = threading.Lock()
        self._runs: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self._problems: list[BaseException] = []
        self._tokens: weakref.WeakKeyDictionary[Any, dict[int, CancellationToken]] = weakref.WeakKeyDictionary()
        """Per session the last step of each thread."""

    @property
    def queue(self) -> Any:
        """The queue."""
        return self._queue

    @property
    def enqueue_ops(self) -> list[Any]:
        """The ops, one for each thread."""
        return self._enqueue_ops

    @property
    def close_op(self) -> Any:
        """The op that closes the queue."""
        return self._close_op

    @property
    def cancel_op(self) -> Any:
        """The op that closes the queue and cancels what waits."""
        return self._cancel_op

    @property
    def queue_closed_exception_types(self) -> tuple[type[BaseException], ...]:
        """Exceptions that mean that the queue was closed."""
        return self._closed

    @property
    def exceptions_raised(self) -> list[BaseException]:
        """Exceptions of threads that have no coordinator to give them to."""
        return self._problems

    @property
    def name(self) -> str:
        """The name of the queue."""
        return self._queue.name

    def _run(self, sess: Any, op: Any, coord: Coordinator | None) -> None:
        ended = False
        try:
            run = self._callable(sess, op)
            while not (coord and coord.should_stop()):
                try:
                    run()
                except self._closed:
                    with self._lock:
                        self._runs[sess] -= 1
                        ended = True
                        last = self._runs[sess] == 0
                    if last:
                        try:
                            sess.run(self._close_op)
                        except (errors.OpError, RuntimeError):
                            pass  # it is closed already, or the session is
                    return
        except Exception as problem:
            if coord:
                coord.request_stop(problem)
            else:
                logging.error("Exception in QueueRunner: %s", problem)
                with self._lock:
                    self._problems.append(problem)
        finally:
            if not ended:
                with self._lock:
                    self._runs[sess] -= 1

    def _callable(self, sess: Any, op: Any) -> Callable[[], Any]:
        """What runs an op; the token of the run is noted, so that it can be cancelled."""
        if not isinstance(sess, BaseSession):
            return sess.make_callable(op)
        tokens = self._tokens.setdefault(sess, {})

        def note(token: CancellationToken) -> None:
            tokens[threading.get_ident()] = token

        return sess._callable_with_token(op, note)

    def _cancel_when_stopped(self, sess: Any, cancel_op: Any, coord: Coordinator) -> None:
        """Cancel what waits for the queue, and then what the threads wait for besides: a source that gives no more."""
        coord.wait_for_stop()
        try:
            sess.run(cancel_op)
        except (errors.OpError, RuntimeError):
            pass  # the session is closed
        patience = time.monotonic() + PATIENCE
        while self._runs.get(sess, 0) > 0 and time.monotonic() < patience:
            time.sleep(0.05)
        if self._runs.get(sess, 0) > 0:
            for token in list(self._tokens.get(sess, {}).values()):
                token.cancel(errors.CancelledError(None, None, "The coordinator of the step's thread has stopped."))

    def create_threads(
        self, sess: Any, coord: Coordinator | None = None, daemon: bool = False, start: bool = False
    ) -> list[threading.Thread]:
        """Threads for the ops, and one that cancels when the coordinator stops; none if they run in this session."""
        with self._lock:
            if self._runs.get(sess, 0) > 0:
                return []
            self._runs[sess] = len(self._enqueue_ops)
            self._problems = []
        prefix = f"QueueRunnerThread-{self.name}-"
        threads = [
            threading.Thread(target=self._run, args=(sess, op, coord), name=prefix + op.name)
            for op in self._enqueue_ops
        ]
        if coord:
            arguments = (sess, self._cancel_op, coord)
            threads.append(
                threading.Thread(target=self._cancel_when_stopped, args=arguments, name=f"{prefix}close_on_stop")
            )
        for thread in threads:
            thread.daemon = daemon
            if coord:
                coord.register_thread(thread)
            if start:
                conditions.start(thread)
        return threads

    def to_proto(self, export_scope: str | None = None) -> Any:
        """A QueueRunnerDef; None if the queue is not under ``export_scope``."""

        def name(item: Any) -> str:
            text = item.name
            return text[len(export_scope) + 1 :] if export_scope else text

        if export_scope and not self._queue.name.startswith(export_scope + "/"):
            return None
        proto = training_pb2.QueueRunnerDef(queue_name=name(self._queue))
        proto.enqueue_op_name.extend(name(op) for op in self._enqueue_ops)
        proto.close_op_name, proto.cancel_op_name = name(self._close_op), name(self._cancel_op)
        proto.queue_closed_exception_types.extend(errors.error_code_from_exception_type(kind) for kind in self._closed)
        return proto

    @staticmethod
    def from_proto(queue_runner_def: Any, import_scope: str | None = None) -> QueueRunner:
        """The runner that a QueueRunnerDef describes."""
        return QueueRunner(queue_runner_def=queue_runner_def, import_scope=import_scope)


@public("train.add_queue_runner", "train.queue_runner.add_queue_runner")
def add_queue_runner(qr: QueueRunner, collection: str = GraphKeys.QUEUE_RUNNERS) -> None:
    """Add a runner to a collection of the graph."""
    get_default_graph().add_to_collection(collection, qr)


@public("train.start_queue_runners", "train.queue_runner.start_queue_runners")
def start_queue_runners(
    sess: Any = None,
    coord: Coordinator | None = None,
    daemon: bool = True,
    start: bool = True,
    collection: str = GraphKeys.QUEUE_RUNNERS,
) -> list[threading.Thread]:
    """Start the threads of all runners of the graph.

    Args:
        sess: the session; the default one otherwise.
        coord: stops them.
        daemon: threads that do not keep the process alive.
        start: start them, or only make them.
        collection: where the runners are.

    Raises:
        ValueError: there is no session.
        TypeError: ``sess`` is none.
    """
    sess = sess if sess is not None else get_default_session()
    if sess is None:
        raise ValueError(
            "Cannot start queue runners: No default session is registered. Use `with sess.as_default()` or pass an "
            "explicit session to tf.start_queue_runners(sess=sess)"
        )
    if not isinstance(sess, Session) and not hasattr(sess, "graph"):
        raise TypeError(f"sess must be a `tf.Session` object. Given class: {type(sess)}")
    with sess.graph.as_default():
        runners = sess.graph.get_collection(collection)
    return [thread for runner in runners for thread in runner.create_threads(sess, coord, daemon, start)]


register_proto_function(
    GraphKeys.QUEUE_RUNNERS, training_pb2.QueueRunnerDef, QueueRunner.to_proto, QueueRunner.from_proto
)
