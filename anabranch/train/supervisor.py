"""``tf.train.Supervisor``: a session with threads that save checkpoints, write summaries and count steps.

It is older than ``MonitoredTrainingSession``, which programs for TensorFlow 1.3 and later use.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.protos import event_pb2, summary_pb2
from anabranch.ops.control.public_dependencies import group
from anabranch.ops.lookup.public_tables import tables_initializer
from anabranch.platform import logging
from anabranch.summary import writer as event_writers
from anabranch.summary.collected import merge_all
from anabranch.train import coordinator, session_manager, step_counter
from anabranch.train.meta_graph import write_graph_of_training
from anabranch.train.saving.saver import Saver, settle
from anabranch.variables import listing

USE_DEFAULT = 0


@public("train.Supervisor")
class Supervisor:
    """Prepare a session, and run threads beside the training loop.

    Args:
        graph: the graph; the default one otherwise.
        ready_op: names of variables that are not initialised. ``USE_DEFAULT`` (0) makes this and the ops below.
        ready_for_local_init_op: the same, asked before ``local_init_op``.
        is_chief: initialise or restore, and save; otherwise wait for the chief.
        init_op: initialises the variables.
        init_feed_dict: what it is fed.
        local_init_op: initialises local variables and tables.
        logdir: a folder for checkpoints and summaries; None: neither is written.
        summary_op: makes summaries.
        saver: writes checkpoints.
        global_step: the step; that of the graph by default.
        save_summaries_secs: seconds between summaries.
        save_model_secs: seconds between checkpoints.
        recovery_wait_secs: pause between two looks for the chief.
        stop_grace_secs: how long threads may run on at the end.
        checkpoint_basename: the name of checkpoints before the step.
        session_manager: makes sessions.
        summary_writer: writes summaries; None for none.
        init_fn: called with a session that ``init_op`` has initialised.
        local_init_run_options: RunOptions of ``local_init_op``.
    """

    USE_DEFAULT = USE_DEFAULT

    def __init__(
        self, graph: Any = None, ready_op: Any = USE_DEFAULT, ready_for_local_init_op: Any = USE_DEFAULT,
        is_chief: bool = True, init_op: Any = USE_DEFAULT, init_feed_dict: Any = None, local_init_op: Any = USE_DEFAULT,
        logdir: Any = None, summary_op: Any = USE_DEFAULT, saver: Any = USE_DEFAULT, global_step: Any = USE_DEFAULT,
        save_summaries_secs: float = 120, save_model_secs: float = 600, recovery_wait_secs: float = 30,
        stop_grace_secs: float = 120, checkpoint_basename: str = "model.ckpt", session_manager: Any = None,
        summary_writer: Any = USE_DEFAULT, init_fn: Callable[[Any], Any] | None = None,
        local_init_run_options: Any = None,
    ) -> None:  # fmt: skip
        self._graph = graph if graph is not None else get_default_graph()
        self._is_chief, self._init_feed_dict, self._init_fn = is_chief, init_feed_dict, init_fn
        self._logdir = None if logdir is None else os.fspath(logdir)
        self._save_path = os.path.join(self._logdir, checkpoint_basename) if self._logdir else None
        self._summary_secs, self._model_secs, self._grace = save_summaries_secs, save_model_secs, stop_grace_secs
        self._coord = coordinator.Coordinator()
        with self._graph.as_default():

            def part(given: Any, key: str | None, make: Callable[[], Any]) -> Any:
                if given is not USE_DEFAULT:
                    return given
                items = self._graph.get_collection(key) if key else []
                item = items[0] if items else make()
                if not items and key and item is not None:
                    self._graph.add_to_collection(key, item)
                return item

            self._ready_op = part(ready_op, GraphKeys.READY_OP, listing.report_uninitialized_variables)
            self._local_ready_op = part(ready_for_local_init_op, GraphKeys.READY_FOR_LOCAL_INIT_OP, lambda: None)
            self._init_op = part(init_op, GraphKeys.INIT_OP, listing.global_variables_initializer)
            self._local_init_op = part(
                local_init_op,
                GraphKeys.LOCAL_INIT_OP,
                lambda: group(listing.local_variables_initializer(), tables_initializer()),
            )
            self._saver = part(saver, GraphKeys.SAVERS, lambda: Saver() if listing.global_variables() else None)
            self._summary_op = part(summary_op, GraphKeys.SUMMARY_OP, merge_all)
            self._global_step = part(global_step, None, lambda: step_counter.get_global_step(self._graph))
        self._writer = summary_writer
        if summary_writer is USE_DEFAULT:
            self._writer = event_writers.FileWriter(self._logdir) if self._logdir and is_chief else None
        self._manager = session_manager or _manager(
            self._local_init_op,
            self._ready_op,
            self._local_ready_op,
            self._graph,
            recovery_wait_secs,
            local_init_run_options,
        )
        self._graph.finalize()

    coord = property(lambda self: self._coord, doc="The coordinator of the threads.")
    is_chief = property(lambda self: self._is_chief, doc="Whether this process initialises and saves.")
    session_manager = property(lambda self: self._manager, doc="Makes the sessions.")
    saver = property(lambda self: self._saver, doc="Writes checkpoints.")
    global_step = property(lambda self: self._global_step, doc="The step.")
    summary_op = property(lambda self: self._summary_op, doc="Makes summaries.")
    summary_writer = property(lambda self: self._writer, doc="Writes summaries.")
    init_op = property(lambda self: self._init_op, doc="Initialises the variables.")
    init_feed_dict = property(lambda self: self._init_feed_dict, doc="What ``init_op`` is fed.")
    ready_op = property(lambda self: self._ready_op, doc="Names of variables that are not initialised.")
    save_path = property(lambda self: self._save_path, doc="Where checkpoints are written, before the step.")
    save_model_secs = property(lambda self: self._model_secs, doc="Seconds between checkpoints.")
    save_summaries_secs = property(lambda self: self._summary_secs, doc="Seconds between summaries.")

    def prepare_or_wait_for_session(
        self,
        master: str = "",
        config: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        start_standard_services: bool = True,
    ) -> Any:
        """A session whose variables are there, with threads beside it."""
        self._coord.clear_stop()
        if not self._is_chief:
            session = self._manager.wait_for_session(master, config=config, max_wait_secs=max_wait_secs)
        else:
            session = self._manager.prepare_session(
                master,
                init_op=self._init_op,
                saver=self._saver,
                checkpoint_dir=self._logdir,
                wait_for_checkpoint=wait_for_checkpoint,
                max_wait_secs=max_wait_secs,
                config=config,
                init_feed_dict=self._init_feed_dict,
                init_fn=self._init_fn,
            )
            saver_def = None if self._saver is None else self._saver.saver_def
            write_graph_of_training(self._graph, self._logdir, self._writer, saver_def)
            if start_standard_services:
                self.start_standard_services(session)
        if start_standard_services:
            self.start_queue_runners(session)
        return session

    PrepareSession = prepare_or_wait_for_session

    @contextlib.contextmanager
    def managed_session(
        self,
        master: str = "",
        config: Any = None,
        start_standard_services: bool = True,
        close_summary_writer: bool = True,
    ) -> Iterator[Any]:
        """A block with a session as default session; what a thread failed with is raised at its end."""
        session = None
        try:
            session = self.prepare_or_wait_for_session(master, config, start_standard_services=start_standard_services)
            with session.as_default():
                yield session
        except Exception as problem:
            self.request_stop(problem)
        finally:
            try:
                self.stop(close_summary_writer=close_summary_writer)
            finally:
                if session is not None:
                    session.close()

    def start_standard_services(self, sess: Any) -> list[Any]:
        """Threads that count steps, write summaries and save."""
        if not self._is_chief:
            raise RuntimeError(
                "Only chief supervisor can start standard services. Because only chief supervisors can write events."
            )
        if not self._logdir:
            logging.warning("Standard services need a 'logdir' passed to the Supervisor")
            return []
        if self._global_step is not None and self._writer is not None:
            self._writer.add_session_log(
                event_pb2.SessionLog(status=event_pb2.SessionLog.START), int(sess.run(self._global_step))
            )
        threads = []
        if self._summary_secs and self._writer is not None:
            if self._summary_op is not None:
                threads.append(self.loop(self._summary_secs, self._write_summary, (sess,)))
            if self._global_step is not None:
                threads.append(self.loop(self._summary_secs, self._count_steps(), (sess,)))
        if self._saver is not None and self._model_secs:
            threads.append(self.loop(self._model_secs, self._save, (sess,)))
        return threads

    def _write_summary(self, sess: Any) -> None:
        ops = [self._summary_op] + ([] if self._global_step is None else [self._global_step])
        results = sess.run(ops)
        self._writer.add_summary(results[0], int(results[1]) if len(results) > 1 else None)

    def _count_steps(self) -> Callable[[Any], None]:
        last: list[tuple[float, int]] = []

        def count(sess: Any) -> None:
            now, step = time.monotonic(), int(sess.run(self._global_step))
            if last and now > last[0][0]:
                speed = (step - last[0][1]) / (now - last[0][0])
                tag = f"{self._global_step.op.name}/sec"
                self._writer.add_summary(
                    summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=tag, simple_value=speed)]), step
                )
            last[:] = [(now, step)]

        return count

    def _save(self, sess: Any) -> None:
        self._saver.save(sess, self._save_path, global_step=self._global_step)

    def start_queue_runners(self, sess: Any, queue_runners: Sequence[Any] | None = None) -> list[Any]:
        """Start the threads of queue runners, of all of the graph by default."""
        if queue_runners is None:
            queue_runners = self._graph.get_collection(GraphKeys.QUEUE_RUNNERS)
        return [t for runner in queue_runners for t in runner.create_threads(sess, self._coord, True, True)]

    StartQueueRunners = start_queue_runners

    def loop(
        self, timer_interval_secs: float | None, target: Callable[..., Any], args: Any = None, kwargs: Any = None
    ) -> Any:
        """A thread that calls a function every so many seconds until the end."""
        return coordinator.LooperThread.loop(self._coord, timer_interval_secs, target, args, kwargs)

    Loop = loop

    def summary_computed(self, sess: Any, summary: Any, global_step: int | None = None) -> None:
        """Write a summary that the program has computed."""
        if self._writer is None:
            raise RuntimeError(
                "Writing a summary requires a summary writer.\n"
                + errors.message("no writer", "a logdir, in the chief", "Supervisor(logdir=...)")
            )
        if global_step is None and self._global_step is not None:
            global_step = int(sess.run(self._global_step))
        self._writer.add_summary(summary, global_step)

    SummaryComputed = summary_computed

    def request_stop(self, ex: Any = None) -> None:
        """Ask all threads to stop."""
        self._coord.request_stop(ex)

    RequestStop = request_stop

    def should_stop(self) -> bool:
        """Whether the loop ought to end."""
        return self._coord.should_stop()

    ShouldStop = should_stop

    def stop_on_exception(self) -> Any:
        """A block whose exceptions ask for the end."""
        return self._coord.stop_on_exception()

    StopOnException = stop_on_exception

    def wait_for_stop(self) -> None:
        """Wait until a stop is asked for."""
        self._coord.wait_for_stop()

    WaitForStop = wait_for_stop

    def stop(
        self, threads: Iterable[Any] | None = None, close_summary_writer: bool = True, ignore_live_threads: bool = False
    ) -> None:
        """Stop the threads, and raise what one failed with."""
        self._coord.request_stop()
        try:
            self._coord.join(threads, self._grace, ignore_live_threads)
        finally:
            settle(self._saver)
            if self._writer is not None:
                with contextlib.suppress(OSError):
                    self._writer.add_session_log(event_pb2.SessionLog(status=event_pb2.SessionLog.STOP))
                (self._writer.close if close_summary_writer else self._writer.flush)()

    Stop = stop


@public("train.basic_train_loop")
def basic_train_loop(
    supervisor: Supervisor,
    train_step_fn: Callable[..., Any],
    args: Sequence[Any] | None = None,
    kwargs: dict[str, Any] | None = None,
    master: str = "",
) -> None:
    """Call ``train_step_fn(session, *args, **kwargs)`` until a stop is asked for.

    A session that is aborted, as when a server of a cluster starts again, is followed by a new one.

    Args:
        supervisor: what makes the sessions, and says when to stop.
        train_step_fn: runs a training step, as a rule.
        args: its arguments behind the session.
        kwargs: its keyword arguments.
        master: target of the sessions.
    """
    while True:
        with contextlib.suppress(errors.AbortedError), supervisor.managed_session(master) as session:
            while not supervisor.should_stop():
                train_step_fn(session, *(args or ()), **(kwargs or {}))
            return


def _manager(*given: Any) -> Any:
    return session_manager.SessionManager(*given)
