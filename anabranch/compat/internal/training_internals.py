"""Names that TensorFlow's modules of training keep to themselves.

Evaluation, sessions with hooks, event files, gradients, and matrices of checkpoints for other vocabularies.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import time
from collections.abc import Sequence
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.compat.v2 import gradients
from anabranch.contrib.training import evaluation
from anabranch.core import errors
from anabranch.core.protos import event_pb2
from anabranch.summary.session_events import SessionEventWriter
from anabranch.train import monitored_session
from anabranch.train.optimizer import deduplicated
from anabranch.train.saving import vocabulary_changes
from anabranch.train.saving.checkpoint_state import write_state

_StopAfterNEvalsHook = evaluation.StopAfterNEvalsHook
_evaluate_once = evaluation.evaluate_once
_get_or_create_eval_step = evaluation.get_or_create_eval_step
gradients_v2 = gradients
_deduplicate_indexed_slices = deduplicated
_load_and_remap_matrix = vocabulary_changes.load_and_remap_matrix
_load_and_remap_matrix_initializer = vocabulary_changes.load_and_remap_matrix_initializer
_load_embedding_initializer = vocabulary_changes.load_embedding_initializer


STANDARD_PS_OPS = tuple(
    [
        "Variable",
        "VariableV2",
        "AutoReloadVariable",
        "MutableHashTable",
        "MutableHashTableV2",
        "MutableHashTableOfTensors",
        "MutableHashTableOfTensorsV2",
        "MutableDenseHashTable",
        "MutableDenseHashTableV2",
        "VarHandleOp",
        "BoostedTreesEnsembleResourceHandleOp",
    ]
)
_update_checkpoint_state = update_checkpoint_state_internal = write_state
_PLUGINS_DIR = "plugins"
EventFileWriterV2 = SessionEventWriter
text_summary = tf.summary.text
PLUGIN_NAME = "text"


class _RoundRobinStrategy:
    """Tasks one after the other, as ``replica_device_setter`` gives them out.

    Args:
        num_tasks: number of tasks.
    """

    def __init__(self, num_tasks: int) -> None:
        self._tasks = itertools.cycle(range(num_tasks))

    def __call__(self, op: Any) -> int:
        """The task of the next operation."""
        return next(self._tasks)


def _ready(op: Any, sess: Any, msg: str) -> tuple[bool, str | None]:
    """Whether an op gives no names of variables that are not initialised, and a text with those that it gives."""
    if op is None:
        return True, None
    try:
        names = sess.run(op)
    except tf.errors.FailedPreconditionError as problem:
        if "uninitialized" not in str(problem):
            tf.logging.warning("%s : error [%s]", msg, problem)
            raise
        return False, str(problem)
    if names is None or names.dtype == np.int32 or not names.size:
        return True, None
    return False, "Variables not initialized: " + ", ".join(name.decode() for name in names)


class EventsWriter:
    """A file of events: ``PREFIX.out.tfevents.SECONDS.HOST``, made at the first event.

    Args:
        file_prefix: path and beginning of the file's name, text or bytes.
    """

    def __init__(self, file_prefix: str | bytes) -> None:
        self._prefix = os.fsdecode(file_prefix)
        self._suffix = ""
        self._path = ""
        self._writer: Any = None

    def InitWithSuffix(self, suffix: str | bytes) -> None:
        """Give the file's name an end."""
        self._suffix = os.fsdecode(suffix)

    def _open(self) -> Any:
        if self._writer is None:
            seconds = time.time()
            self._path = f"{self._prefix}.out.tfevents.{int(seconds):010d}.{socket.gethostname()}{self._suffix}"
            self._writer = tf.python_io.TFRecordWriter(self._path)
            first = event_pb2.Event(wall_time=seconds, file_version="brain.Event:2")
            self._writer.write(first.SerializeToString())
        return self._writer

    def FileName(self) -> bytes:
        """The path of the file, which is made if it is not there."""
        self._open()
        return os.fsencode(self._path)

    def WriteEvent(self, event: Any) -> None:
        """Append an event."""
        if getattr(getattr(event, "DESCRIPTOR", None), "name", "") != "Event":
            raise TypeError(
                f"Expected an event_pb2.Event proto,  but got {type(event)}\n"
                + errors.message(f"event={event!r}", "an Event", "tf.Event(step=1)")
            )
        self._open().write(event.SerializeToString())

    def _WriteSerializedEvent(self, event_str: bytes) -> None:
        """Append an event that is serialised."""
        self._open().write(event_str)

    WriteSerializedEvent = _WriteSerializedEvent

    def Flush(self) -> bool:
        """Hand what was written to the operating system."""
        if self._writer is not None:
            self._writer.flush()
        return True

    def Close(self) -> bool:
        """Close the file; another event opens a new one."""
        if self._writer is not None:
            self._writer.close()
            self._writer = None
        return True


def TF_TryEvaluateConstant_wrapper(graph: Any, tensor: Any) -> Any:
    """The value of a tensor of a graph as an array, if it is known while the graph is built, or None.

    Args:
        graph: ``tf.Graph._c_graph``.
        tensor: what ``tensor._as_tf_output()`` gives.
    """
    del graph  # the tensor knows it
    return tf.get_static_value(tensor)


class _WrappedSession:
    """A session around another one.

    Args:
        sess: a session, or one of these.
    """

    def __init__(self, sess: Any) -> None:
        self._sess = sess

    @property
    def graph(self) -> Any:
        """The graph of the session."""
        return self._sess.graph

    @property
    def sess_str(self) -> Any:
        """The target of the session."""
        return self._sess.sess_str

    def should_stop(self) -> bool:
        """Whether the loop of steps should end: it was asked to, here or in a session inside, or all is closed."""
        if self._check_stop() or self._sess is None:
            return True
        return isinstance(self._sess, _WrappedSession) and self._sess.should_stop()

    def _check_stop(self) -> bool:
        return False

    def close(self) -> None:
        """Close the session inside; a task that is lost there need not be told."""
        if self._sess is None:
            return
        try:
            self._sess.close()
        except monitored_session.LOST as problem:
            tf.logging.info("A task was lost before its session was closed: %s", problem)
        finally:
            self._sess = None

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run a step."""
        return self._sess.run(*args, **kwargs)

    def run_step_fn(self, step_fn: Any, raw_session: Any, run_with_hooks: Any) -> Any:
        """Call a function of a step with its context."""
        return step_fn(monitored_session.StepContext(raw_session, run_with_hooks or self.run))


class _HookedSession(_WrappedSession):
    """A session in whose steps hooks take part; their ``begin`` and ``after_create_session`` are the caller's affair.

    Args:
        sess: a session, or one around it.
        hooks: ``SessionRunHook`` objects.
    """

    def __init__(self, sess: Any, hooks: Sequence[Any]) -> None:
        super().__init__(sess)
        self._hooks = hooks
        self._should_stop = False

    def _check_stop(self) -> bool:
        return self._should_stop

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Like ``Session.run``, with hooks."""
        if self.should_stop():
            raise RuntimeError("Run called even after should_stop requested.")
        results, stop = monitored_session.run_with_hooks(
            self._sess, self._hooks, fetches, feed_dict, options, run_metadata
        )
        self._should_stop = self._should_stop or stop
        return results


class _CoordinatedSession(_WrappedSession):
    """A session whose loop ends when a coordinator says so; closing it ends and joins the coordinator's threads.

    Args:
        sess: a session, or one around it.
        coord: a ``tf.train.Coordinator``.
        stop_grace_period_secs: for how long closing waits for threads.
    """

    def __init__(self, sess: Any, coord: Any, stop_grace_period_secs: float = 120) -> None:
        super().__init__(sess)
        self._coord = coord
        self._stop_grace_period_secs = stop_grace_period_secs

    def _check_stop(self) -> bool:
        self._coord.raise_requested_exception()
        return self._coord.should_stop()

    def close(self) -> None:
        """End the threads, and close the session inside."""
        self._coord.request_stop()
        try:
            self._coord.join(stop_grace_period_secs=self._stop_grace_period_secs, ignore_live_threads=True)
        finally:
            with contextlib.suppress(Exception):  # what a thread or a run has said matters more
                super().close()

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run a step; what a thread failed with says more than what its end did to the step."""
        try:
            return super().run(*args, **kwargs)
        except monitored_session.LOST:
            raise
        except Exception:
            self._coord.raise_requested_exception()
            raise


class _RecoverableSession(_WrappedSession):
    """A session that is made anew, and whose step is tried again, when a task is lost.

    Args:
        sess_creator: an object with ``create_session()``.
    """

    def __init__(self, sess_creator: Any) -> None:
        self._sess_creator = sess_creator
        super().__init__(self._create_session())

    def _create_session(self) -> Any:
        while True:
            try:
                return self._sess_creator.create_session()
            except monitored_session.LOST as problem:
                tf.logging.info("An error was raised while a session was being created: %s. It is made anew.", problem)

    def _make_anew(self, problem: Exception) -> None:
        tf.logging.info("A task was lost (%s). The session is made anew.", problem)
        self.close()
        self._sess = self._create_session()

    def _check_stop(self) -> bool:
        if not isinstance(self._sess, _WrappedSession):
            return False
        try:
            return self._sess._check_stop()
        except monitored_session.LOST as problem:
            self._make_anew(problem)
        except Exception as problem:  # the next step raises it
            tf.logging.debug("%s", problem)
        return False

    def run(self, *args: Any, **kwargs: Any) -> Any:
        """Run a step, as often as it takes."""
        while True:
            if self._sess is None:
                self._sess = self._create_session()
            try:
                return self._sess.run(*args, **kwargs)
            except monitored_session.LOST as problem:
                self._make_anew(problem)
