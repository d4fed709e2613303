"""``tf.train.Supervisor``: a session with threads that save checkpoints, write summaries and count steps.

It is older than ``MonitoredTrainingSession``, which programs for TensorFlow 1.3 and later use.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from anabranch.core import conditions, errors
from anabranch.core.contract.api import public
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.protos import event_pb2, summary_pb2
from anabranch.core.values import dtypes
from anabranch.ops.control.public_dependencies import group
from anabranch.ops.lookup.public_tables import tables_initializer
from anabranch.platform import logging
from anabranch.summary import writer as event_writers
from anabranch.summary.collected import merge_all
from anabranch.train import coordinator, session_manager
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
        if not current_builder().defers:
            raise RuntimeError(
                "Supervisors are not compatible with eager execution.\n"
                + errors.message(
                    "a Supervisor where operations run at once", "a graph", "with tf.Graph().as_default():"
                )
            )
        self._graph = graph if graph is not None else get_default_graph()
        self._is_chief, self._init_feed_dict, self._init_fn = is_chief, init_feed_dict, init_fn
        self._logdir = os.fspath(logdir) if logdir is not None and is_chief else None
        self._save_path = os.path.join(self._logdir, checkpoint_basename) if self._logdir else None
        self._summary_secs = save_summaries_secs if is_chief else None
        self._model_secs = save_model_secs if is_chief else None
        self._grace = stop_grace_secs
        self._graph_is_written = False
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
            self._global_step = part(global_step, GraphKeys.GLOBAL_STEP, self._step_of_graph)
        self._writer = summary_writer if is_chief else None
        if self._writer is USE_DEFAULT:
            self._writer = event_writers.FileWriter(self._logdir) if self._logdir else None
        self._manager = session_manager or _manager(
            self._local_init_op,
            self._ready_op,
            self._local_ready_op,
            self._graph,
            recovery_wait_secs,
            local_init_run_options,
        )
        if not is_chief:
            self._check_devices()
        self._graph.finalize()

    def _step_of_graph(self) -> Any:
        """``global_step:0`` of the graph, if there is one that counts in integers."""
        try:
            step = self._graph.get_tensor_by_name("global_step:0")
        except KeyError:
            return None
        if step.dtype.base in (dtypes.int32, dtypes.int64):
            return step
        logging.warning("Found 'global_step' is not an int type: %s", step.dtype)
        return None

    def _check_devices(self) -> None:
        for op in self._graph.get_operations():
            if op.definition.makes == "variable" and op.outputs[0].dtype.is_ref and not op.device:
                raise ValueError(
                    f"When using replicas, all Variables must have their device set: {op}\n"
                    + errors.message(
                        f"variable {op.name!r} without a device, in a process that is not the chief",
                        "variables with a device, which all processes share",
                        "with tf.device(tf.train.replica_device_setter(cluster=cluster)):",
                        at=op.user_site,
                    )
                )

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
    ready_for_local_init_op = property(
        lambda self: self._local_ready_op, doc="Names of variables that ``local_init_op`` waits for."
    )
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
        if self._writer is not None:
            self._writer.reopen()
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
            writer = None if self._graph_is_written else self._writer
            write_graph_of_training(self._graph, self._logdir, writer, saver_def)
            self._graph_is_written = self._writer is not None
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

    def start_standard_services(self, sess: Any) -> list[Any] | None:
        """Start and return threads that count steps, write summaries and save; None without a folder for them."""
        if not self._is_chief:
            raise RuntimeError(
                "Only chief supervisor can start standard services. Because only chief supervisors can write events."
            )
        if not self._logdir:
            logging.warning("Standard services need a 'logdir' passed to the Supervisor")
            return None
        if self._global_step is not None and self._writer is not None:
            self._writer.add_session_log(
                event_pb2.SessionLog(status=event_pb2.SessionLog.START), int(sess.run(self._global_step))
            )
        threads: list[coordinator.LooperThread] = []
        if self._summary_secs and self._writer is not None:
            if self._summary_op is not None:
                threads.append(SVSummaryThread(self, sess))
            if self._global_step is not None:
                threads.append(SVStepCounterThread(self, sess))
        if self._saver is not None and self._model_secs:
            threads.append(SVTimerCheckpointThread(self, sess))
        for thread in threads:
            conditions.start(thread)
        return threads

    StartStandardServices = start_standard_services

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
            if self._writer is not None and not close_summary_writer:
                self._writer.flush()
            elif self._writer is not None:
                with contextlib.suppress(OSError):
                    self._writer.add_session_log(event_pb2.SessionLog(status=event_pb2.SessionLog.STOP))
                self._writer.close()
                self._graph_is_written = False

    Stop = stop


class SVSummaryThread(coordinator.LooperThread):
    """A thread that writes summaries every ``save_summaries_secs``.

    Args:
        sv: the `Supervisor`.
        sess: the session that computes them.
    """

    def __init__(self, sv: Any, sess: Any) -> None:
        super().__init__(sv.coord, sv.save_summaries_secs)
        self._sv, self._sess = sv, sess

    def run_loop(self) -> None:
        """Compute and write summaries."""
        sv = self._sv
        results = self._sess.run([sv.summary_op] + ([] if sv.global_step is None else [sv.global_step]))
        if sv.summary_writer is not None:
            sv.summary_writer.add_summary(results[0], int(results[1]) if len(results) > 1 else None)


class SVStepCounterThread(coordinator.LooperThread):
    """A thread that writes how many steps a second were taken, every ``save_summaries_secs``.

    Args:
        sv: the `Supervisor`.
        sess: the session that the step is read in.
        step_counter: the step, if it is not that of the supervisor.
    """

    def __init__(self, sv: Any, sess: Any, step_counter: Any = None) -> None:
        super().__init__(sv.coord, sv.save_summaries_secs)
        self._sv, self._sess = sv, sess
        self._counter = sv.global_step if step_counter is None else step_counter
        self._tag = f"{self._counter.op.name}/sec"
        self._last = (0.0, 0)

    def _now(self) -> tuple[float, int]:
        return time.monotonic(), int(self._sess.run(self._counter))

    def start_loop(self) -> None:
        """Note where the counting begins."""
        self._last = self._now()

    def run_loop(self) -> None:
        """Write the steps a second since the last time."""
        now = self._now()
        elapsed, added = now[0] - self._last[0], now[1] - self._last[1]
        self._last = now
        speed = added / elapsed if elapsed > 0 else float("inf")
        if self._sv.summary_writer is not None:
            value = summary_pb2.Summary.Value(tag=self._tag, simple_value=speed)
            self._sv.summary_writer.add_summary(summary_pb2.Summary(value=[value]), now[1])
        logging.log_first_n(logging.INFO, "%s: %g", 10, self._tag, speed)


class SVTimerCheckpointThread(coordinator.LooperThread):
    """A thread that saves every ``save_model_secs``, and notes it among the events.

    Args:
        sv: the `Supervisor`.
        sess: the session whose variables are saved.
    """

    def __init__(self, sv: Any, sess: Any) -> None:
        super().__init__(sv.coord, sv.save_model_secs)
        self._sv, self._sess = sv, sess

    def run_loop(self) -> None:
        """Save."""
        sv = self._sv
        logging.info("Saving checkpoint to path %s", sv.save_path)
        sv.saver.save(self._sess, sv.save_path, global_step=sv.global_step)
        if sv.summary_writer is not None and sv.global_step is not None:
            log = event_pb2.SessionLog(status=event_pb2.SessionLog.CHECKPOINT, checkpoint_path=sv.save_path)
            sv.summary_writer.add_session_log(log, int(self._sess.run(sv.global_step)))


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
