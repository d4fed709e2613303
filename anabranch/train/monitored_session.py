"""Sessions that prepare themselves, call hooks, and recover: ``tf.train.MonitoredTrainingSession`` and its kin.

A session is made when the object is: hooks begin, the graph is finalised, variables are restored or initialised,
queue runners start. If a run fails because a task was lost (``AbortedError``, ``UnavailableError``), the session is
made anew from the last checkpoint and the run is tried again. At the end hooks end, threads are joined, and the
exception of whichever failed is raised.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import os
import types
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.protos import config_pb2
from anabranch.platform import logging
from anabranch.train import basic_session_run_hooks, coordinator, session_manager, session_run_hook, termination
from anabranch.train.session_manager import Scaffold
from anabranch.variables import replica_frames

LOST = (errors.AbortedError, errors.UnavailableError)


@public("train.SessionCreator")
class SessionCreator:
    """Base of what makes sessions."""

    def create_session(self) -> Any:
        """A session whose variables are there."""
        raise NotImplementedError(
            errors.message(f"{type(self).__name__} without create_session", "a way to make a session", "override it")
        )


class _Creator(SessionCreator):
    def __init__(self, scaffold: Scaffold | None, master: str, config: Any) -> None:
        self._scaffold = scaffold or Scaffold()
        self._master, self._config = master, config
        self._manager: session_manager.SessionManager | None = None

    def _get_manager(self) -> session_manager.SessionManager:
        if self._manager is None:
            self._scaffold.finalize()
            self._manager = session_manager.SessionManager(
                local_init_op=self._scaffold.local_init_op,
                ready_op=self._scaffold.ready_op,
                ready_for_local_init_op=self._scaffold.ready_for_local_init_op,
                graph=get_default_graph(),
            )
        return self._manager


@public("train.ChiefSessionCreator")
class ChiefSessionCreator(_Creator):
    """Make sessions of the process that initialises or restores the variables.

    Args:
        scaffold: ops and helpers.
        master: the target.
        config: a ConfigProto.
        checkpoint_dir: a folder with checkpoints, of which the latest is restored.
        checkpoint_filename_with_path: the checkpoint to restore, instead of the latest of a folder.
    """

    def __init__(
        self,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: Any = None,
        checkpoint_filename_with_path: Any = None,
    ) -> None:
        super().__init__(scaffold, master, config)
        self._folder, self._filename = checkpoint_dir, checkpoint_filename_with_path

    def create_session(self) -> Any:
        """A session that is restored or initialised."""
        manager = self._get_manager()
        part = self._scaffold
        session = manager.prepare_session(
            self._master,
            saver=part.saver,
            checkpoint_dir=self._folder,
            checkpoint_filename_with_path=self._filename,
            config=self._config,
            init_op=part.init_op,
            init_feed_dict=part.init_feed_dict,
            init_fn=part.init_fn,
        )
        check = getattr(getattr(session, "_worker", None), "check_folder", None)
        if check is not None and self._folder:
            check(os.fspath(self._folder))
        return session


@public("train.WorkerSessionCreator")
class WorkerSessionCreator(_Creator):
    """Make sessions of processes that wait until the chief has initialised the variables.

    Args:
        scaffold: ops and helpers.
        master: the target.
        config: a ConfigProto.
        max_wait_secs: how long to wait.
    """

    def __init__(
        self, scaffold: Scaffold | None = None, master: str = "", config: Any = None, max_wait_secs: float = 30 * 60
    ) -> None:
        super().__init__(scaffold, master, config)
        self._wait = max_wait_secs

    def create_session(self) -> Any:
        """A session, once the chief is ready."""
        return self._get_manager().wait_for_session(self._master, config=self._config, max_wait_secs=self._wait)


class StepContext:
    """What ``run_step_fn`` gives its function: the session, a run with hooks, a way to stop."""

    def __init__(self, session: Any, run_with_hooks: Callable[..., Any]) -> None:
        self._session, self._run = session, run_with_hooks

    @property
    def session(self) -> Any:
        """The session, without hooks."""
        return self._session

    def run_with_hooks(self, *args: Any, **kwargs: Any) -> Any:
        """A run that hooks see."""
        return self._run(*args, **kwargs)

    def request_stop(self) -> None:
        """End the loop."""
        raise StopIteration("step_fn has requested the iterations to stop.")


class _Layer:
    """One of the sessions that TensorFlow puts around each other, the innermost being the ``tf.Session``."""

    def __init__(self, inner: Any, whole: _Monitored, run: Callable[..., Any]) -> None:
        self._sess, self.run, self.graph = inner, run, whole.graph


def run_with_hooks(
    session: Any,
    hooks: Sequence[Any],
    fetches: Any,
    feed_dict: Any = None,
    options: Any = None,
    run_metadata: Any = None,
) -> tuple[Any, bool]:
    """Run a step of a session in which hooks take part; return its results, and whether one of them asked to stop."""
    args = session_run_hook.SessionRunArgs(fetches, feed_dict, options)
    context = session_run_hook.SessionRunContext(args, session)
    asked: dict[int, Any] = {}
    fed: dict[Any, Any] = {}
    for number, hook in enumerate(hooks):
        request = hook.before_run(context)
        if request is None:
            continue
        if request.fetches is not None:
            asked[number] = request.fetches
        for key, value in (request.feed_dict or {}).items():
            if any(key is known for known in (*fed, *(feed_dict or ()))):
                raise RuntimeError(
                    f"Same tensor is fed by two hooks, or by a hook and the run: {key}\n"
                    + errors.message(f"{key} fed twice", "one value for each tensor", "drop one of the feeds")
                )
            fed[key] = value
        options = _merged(options, request.options)
    if run_metadata is None and options is not None:  # hooks that ask for statistics read them here
        run_metadata = config_pb2.RunMetadata()
    shown = options or config_pb2.RunOptions(), run_metadata or config_pb2.RunMetadata()
    results = session.run(
        {"caller": [] if fetches is None else fetches, "hooks": asked},
        feed_dict={**feed_dict, **fed} if feed_dict and fed else fed or feed_dict,
        options=options,
        run_metadata=run_metadata,
    )
    for number, hook in enumerate(hooks):
        values = session_run_hook.SessionRunValues(results["hooks"].get(number), *shown)
        hook.after_run(context, values)
    return None if fetches is None else results["caller"], context.stop_requested


class _Monitored:
    """What MonitoredSession and SingularMonitoredSession share."""

    StepContext = StepContext

    def __init__(
        self, creator: SessionCreator, hooks: Sequence[Any] | None, should_recover: bool, grace: float
    ) -> None:
        self._creator, self._recover, self._grace = creator, should_recover, grace
        self._hooks = list(hooks or [])
        self._graph_was_finalized = get_default_graph().finalized
        self._session: Any = None
        self._closed = False
        self._stop = False
        try:
            for hook in self._hooks:
                hook.begin()
            self._create()
        except BaseException:
            self._release()
            raise

    def _release(self) -> None:
        """Leave the signals of the process to others."""
        for hook in self._hooks:
            if isinstance(hook, termination.TerminationHook):
                hook.release()

    def _create(self) -> None:
        while True:
            try:
                self._session = self._creator.create_session()
                self._coord = coordinator.Coordinator(clean_stop_exception_types=())
                coordinator.start_queue_runners(sess=self._session, coord=self._coord)
                for hook in self._hooks:
                    hook.after_create_session(self._session, self._coord)
                return
            except LOST as problem:
                if not self._recover:
                    raise
                logging.info(
                    "An error was raised while a session was being created: %s. It will be made anew.", problem
                )
                self._drop()

    def _drop(self) -> None:
        """Let go of a session that was lost."""
        if self._session is None:
            return
        with contextlib.suppress(Exception):
            self._coord.request_stop()
            self._session.close()
            self._coord.join(stop_grace_period_secs=self._grace, ignore_live_threads=True)
        self._session = None

    @property
    def graph(self) -> Any:
        """The graph of the session; None once it is closed."""
        return None if self._session is None else self._session.graph

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Like ``Session.run``, with hooks."""
        while True:
            self._check()
            if self._session is None:
                self._create()
            try:
                return self._call(lambda: self._run_once(fetches, feed_dict, options, run_metadata))
            except LOST as problem:
                if not self._recover:
                    raise
                logging.info("A task was lost (%s). The session is made anew, and the run is tried again.", problem)
                self._drop()

    def _check(self) -> None:
        if self._closed:
            raise RuntimeError("Run called even after should_stop requested.\nwhile not session.should_stop():")

    def _run_once(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        results, stop = run_with_hooks(self._session, self._hooks, fetches, feed_dict, options, run_metadata)
        self._stop = self._stop or stop
        return results

    def _call(self, run: Callable[[], Any]) -> Any:
        try:
            return run()
        except LOST:
            raise
        except Exception:
            # What a thread failed with says more than what its end did to the run.
            self._coord.raise_requested_exception()
            raise

    def run_step_fn(self, step_fn: Callable[..., Any]) -> Any:
        """Call ``step_fn(step_context)``, in which some runs may go without hooks.

        Raises:
            ValueError: the function takes other arguments.
            StopIteration: it asked for the end.
        """
        names = list(inspect.signature(step_fn).parameters)
        if names not in (["step_context"], ["self", "step_context"]):
            raise ValueError(
                "`step_fn` may either have one `step_context` argument, or two arguments, `self` and `step_context`.\n"
                + errors.message(f"arguments {names}", "step_context", "def step_fn(step_context):")
            )
        while True:
            self._check()
            if self._session is None:
                self._create()
            # What is lost in a run with hooks ends the step, which is tried again as a whole.
            context = StepContext(self._tf_sess(), self._run_once)
            try:
                return self._call(functools.partial(step_fn, *([context] if len(names) == 1 else [self, context])))
            except LOST as problem:
                if not self._recover:
                    raise
                logging.info("A task was lost (%s). The session is made anew, and the step is tried again.", problem)
                self._drop()

    def should_stop(self) -> bool:
        """Whether the loop ought to end. If a thread has lost a task, it goes on: the session is made anew."""
        if self._closed or self._stop:
            return True
        if self._session is None:
            return False
        problem = self._coord._raised
        if self._recover and isinstance(problem, LOST):
            logging.info("A thread has lost a task (%s). The session is made anew.", problem)
            self._drop()
            self._create()
            return False
        return self._coord.should_stop()

    # What programs that look behind a monitored session find in TensorFlow.
    def _is_closed(self) -> bool:
        return self._closed

    def _tf_sess(self) -> Any:
        """The session, without hooks; None once it is closed."""
        return self._session

    @property
    def _coordinated_creator(self) -> Any:
        return types.SimpleNamespace(tf_sess=self._session, coord=self._coord)

    @property
    def _sess(self) -> Any:
        """The first of the sessions around the session, for programs that go from ``_sess`` to ``_sess``."""
        layer = self._session
        if layer is None:
            return None
        runs = {"_HookedSession": self._run_once, "_CoordinatedSession": self._run_coordinated}
        if self._recover:
            runs["_RecoverableSession"] = self.run
        for kind, run in runs.items():
            layer = type(kind, (_Layer,), {})(layer, self, run)
        return layer

    def _run_coordinated(self, *args: Any, **kwargs: Any) -> Any:
        """Run with hooks; what a thread failed with comes first."""
        return self._call(functools.partial(self._run_once, *args, **kwargs))

    def close(self) -> None:
        """End hooks, threads and the session.

        Raises:
            RuntimeError: it is closed already.
        """
        self._close(None)

    def _close(self, problem: BaseException | None) -> None:
        if self._closed:
            raise RuntimeError(
                "Session is already closed.\n"
                + errors.message(
                    "a second close", "one: the end of the with block closes the session", "no close() in the block"
                )
            )
        self._closed = True
        session, self._session = self._session, None
        self._release()
        if session is None:
            return
        try:
            if problem is None and not isinstance(self._coord._raised, BaseException):
                for hook in self._hooks:
                    hook.end(session)
        finally:
            try:
                self._coord.request_stop()
                self._coord.join(stop_grace_period_secs=self._grace, ignore_live_threads=True)
            finally:
                session.close()
                if not self._graph_was_finalized:
                    session.graph._unsafe_unfinalize()

    def __enter__(self) -> Any:
        return self

    def __exit__(self, kind: Any, problem: BaseException | None, trace: Any) -> bool:
        clean = isinstance(problem, errors.OutOfRangeError | StopIteration)
        if clean:
            problem = None
        try:
            self._close(problem)
        except Exception:
            if problem is None:
                raise
        return clean


def _merged(ours: Any, theirs: Any) -> Any:
    """RunOptions of a run and a hook: the higher trace level, the longer timeout, what either of them asks for."""
    if theirs is None:
        return ours
    if ours is None:
        return theirs
    merged = type(ours)()
    merged.CopyFrom(ours)
    merged.trace_level = max(ours.trace_level, theirs.trace_level)
    merged.timeout_in_ms = max(ours.timeout_in_ms, theirs.timeout_in_ms)
    merged.inter_op_thread_pool = max(ours.inter_op_thread_pool, theirs.inter_op_thread_pool)
    merged.output_partition_graphs = ours.output_partition_graphs or theirs.output_partition_graphs
    if theirs.HasField("debug_options"):
        merged.debug_options.debug_tensor_watch_opts.extend(theirs.debug_options.debug_tensor_watch_opts)
    return merged


@public("train.MonitoredSession")
class MonitoredSession(_Monitored):
    """A session with hooks that is made anew when a task is lost.

    ``OutOfRangeError`` ends a ``with`` block without an error: the input has ended.

    Args:
        session_creator: makes sessions; a :class:`ChiefSessionCreator` by default.
        hooks: :class:`SessionRunHook` objects.
        stop_grace_period_secs: how long threads may run on at the end.
    """

    def __init__(
        self,
        session_creator: SessionCreator | None = None,
        hooks: Sequence[Any] | None = None,
        stop_grace_period_secs: float = 120,
    ) -> None:
        super().__init__(session_creator or ChiefSessionCreator(), hooks, True, stop_grace_period_secs)


@public("train.SingularMonitoredSession")
class SingularMonitoredSession(_Monitored):
    """A session with hooks that is made once; :meth:`raw_session` gives the session itself.

    Args:
        hooks: :class:`SessionRunHook` objects.
        scaffold: ops and helpers.
        master: the target.
        config: a ConfigProto.
        checkpoint_dir: a folder with checkpoints.
        stop_grace_period_secs: how long threads may run on at the end.
        checkpoint_filename_with_path: the checkpoint to restore.
    """

    def __init__(
        self,
        hooks: Sequence[Any] | None = None,
        scaffold: Scaffold | None = None,
        master: str = "",
        config: Any = None,
        checkpoint_dir: Any = None,
        stop_grace_period_secs: float = 120,
        checkpoint_filename_with_path: Any = None,
    ) -> None:
        creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir, checkpoint_filename_with_path)
        super().__init__(creator, hooks, False, stop_grace_period_secs)

    def raw_session(self) -> Any:
        """The session, without hooks."""
        return self._session


_UNSET = object()


def _has_own_variables() -> bool:
    """Whether a strategy is in force by which each worker has variables of its own, chief or not."""
    frame = replica_frames.top()
    extended = None if frame is None else frame.strategy.extended
    return extended is not None and extended.experimental_between_graph and extended.experimental_should_init


@public("train.MonitoredTrainingSession")
def MonitoredTrainingSession(
    master: str = "",
    is_chief: bool = True,
    checkpoint_dir: Any = None,
    scaffold: Scaffold | None = None,
    hooks: Sequence[Any] | None = None,
    chief_only_hooks: Sequence[Any] | None = None,
    save_checkpoint_secs: Any = _UNSET,
    save_summaries_steps: Any = _UNSET,
    save_summaries_secs: Any = _UNSET,
    config: Any = None,
    stop_grace_period_secs: float = 120,
    log_step_count_steps: int | None = 100,
    max_wait_secs: float = 7200,
    save_checkpoint_steps: Any = _UNSET,
    summary_dir: Any = None,
) -> MonitoredSession:
    """A :class:`MonitoredSession` with the usual hooks: checkpoints, summaries, steps per second.

    On a cluster SIGTERM ends training after the step, with a checkpoint, and ``checkpoint_dir`` must be a folder that
    all tasks see.

    Args:
        master: the target.
        is_chief: initialise or restore, and save; otherwise wait for the chief, unless a strategy whose scope this is
            gives each worker variables of its own: then each initialises or restores them.
        checkpoint_dir: a folder to restore from and save to.
        scaffold: ops and helpers.
        hooks: hooks beside those.
        chief_only_hooks: hooks of the chief.
        save_checkpoint_secs: seconds between checkpoints; 600 by default. None: none.
        save_summaries_steps: steps between summaries; 100 by default. None: none.
        save_summaries_secs: seconds between summaries.
        config: a ConfigProto.
        stop_grace_period_secs: how long threads may run on at the end.
        log_step_count_steps: steps between two lines of speed.
        max_wait_secs: how long to wait for the chief.
        save_checkpoint_steps: steps between checkpoints, instead of seconds.
        summary_dir: a folder for summaries; ``checkpoint_dir`` by default.
    """
    if save_summaries_steps is _UNSET and save_summaries_secs is _UNSET:
        save_summaries_steps, save_summaries_secs = 100, None
    save_summaries_steps = None if save_summaries_steps is _UNSET else save_summaries_steps
    save_summaries_secs = None if save_summaries_secs is _UNSET else save_summaries_secs
    if save_checkpoint_secs is _UNSET and save_checkpoint_steps is _UNSET:
        save_checkpoint_secs, save_checkpoint_steps = 600, None
    save_checkpoint_secs = None if save_checkpoint_secs is _UNSET else save_checkpoint_secs
    save_checkpoint_steps = None if save_checkpoint_steps is _UNSET else save_checkpoint_steps
    scaffold = scaffold or Scaffold()
    all_hooks: list[Any] = [termination.TerminationHook(is_chief)] if master else []
    if not is_chief:
        creator: SessionCreator = WorkerSessionCreator(scaffold, master, config, max_wait_secs)
        if _has_own_variables():
            creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
        return MonitoredSession(creator, [*all_hooks, *(hooks or [])], stop_grace_period_secs)
    all_hooks += chief_only_hooks or []
    creator = ChiefSessionCreator(scaffold, master, config, checkpoint_dir)
    summaries = summary_dir or checkpoint_dir
    if summaries:
        summaries = os.fspath(summaries)
        if log_step_count_steps:
            all_hooks.append(
                basic_session_run_hooks.StepCounterHook(output_dir=summaries, every_n_steps=log_step_count_steps)
            )
        if save_summaries_steps or save_summaries_secs:
            all_hooks.append(
                basic_session_run_hooks.SummarySaverHook(
                    scaffold=scaffold,
                    save_steps=save_summaries_steps,
                    save_secs=save_summaries_secs,
                    output_dir=summaries,
                )
            )
    if checkpoint_dir and (save_checkpoint_secs or save_checkpoint_steps):
        all_hooks.append(
            basic_session_run_hooks.CheckpointSaverHook(
                os.fspath(checkpoint_dir),
                save_secs=save_checkpoint_secs,
                save_steps=save_checkpoint_steps,
                scaffold=scaffold,
            )
        )
    return MonitoredSession(creator, all_hooks + list(hooks or []), stop_grace_period_secs)
