"""How a session gets its variables: initialised, restored, or waited for. ``Scaffold`` holds the ops for it."""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.protos.config_pb2 import RunOptions
from anabranch.ops.control.public_dependencies import group
from anabranch.ops.lookup.public_tables import tables_initializer
from anabranch.session import Session
from anabranch.summary.collected import merge_all
from anabranch.train.saving import checkpoint_state
from anabranch.train.saving.saver import Saver, settle
from anabranch.variables import listing


def _from_collection(key: str, make: Callable[[], Any]) -> Any:
    """The one item of a collection, made and added if there is none; RuntimeError if there are several."""
    graph = get_default_graph()
    items = graph.get_collection(key)
    if len(items) > 1:
        raise RuntimeError(
            f"More than one item in the collection {key!r}. Please indicate which one to use by passing it to the "
            "constructor.\n" + errors.message(f"{len(items)} items", "exactly one item", "Scaffold(...) with it")
        )
    if items:
        return items[0]
    item = make()
    if item is not None:
        graph.add_to_collection(key, item)
    return item


@public("train.Scaffold")
class Scaffold:
    """Ops and helpers of a training session, those that are not given made at :meth:`finalize`.

    Args:
        init_op: initialises the global variables.
        init_feed_dict: what it is fed.
        init_fn: called with (scaffold, session) after it.
        ready_op: gives names of variables that are not initialised; empty when all are.
        ready_for_local_init_op: the same, before local initialisation.
        local_init_op: initialises local variables and tables.
        summary_op: makes the summaries.
        saver: saves and restores.
        copy_from_scaffold: another one, whose parts hold where none is given here.
    """

    def __init__(
        self,
        init_op: Any = None,
        init_feed_dict: Any = None,
        init_fn: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        local_init_op: Any = None,
        summary_op: Any = None,
        saver: Any = None,
        copy_from_scaffold: Scaffold | None = None,
    ) -> None:
        other = copy_from_scaffold
        if other is not None and not isinstance(other, Scaffold):
            raise TypeError(
                f"copy_from_scaffold is not a Scaffold instance: {other}\n"
                + errors.message(f"a {type(other).__name__}", "a tf.train.Scaffold", "leave it out")
            )

        def part(given: Any, name: str) -> Any:
            return given if given is not None or other is None else getattr(other, name)

        self._init_op = part(init_op, "init_op")
        self._init_feed_dict = part(init_feed_dict, "init_feed_dict")
        self._user_init_fn = init_fn if init_fn is not None else getattr(other, "_user_init_fn", None)
        self._ready_op = part(ready_op, "ready_op")
        self._ready_for_local_init_op = part(ready_for_local_init_op, "ready_for_local_init_op")
        self._local_init_op = part(local_init_op, "local_init_op")
        self._summary_op = part(summary_op, "summary_op")
        self._saver = part(saver, "saver")

    def finalize(self) -> Scaffold:
        """Make what is not given, and finalise the graph."""
        if self._init_op is None:
            self._init_op = _from_collection(
                GraphKeys.INIT_OP,
                lambda: group(listing.global_variables_initializer(), *_resource_initializers(), name="init_all"),
            )
        if self._ready_op is None:
            self._ready_op = _from_collection(GraphKeys.READY_OP, listing.report_uninitialized_variables)
        if self._ready_for_local_init_op is None:
            self._ready_for_local_init_op = _from_collection(
                GraphKeys.READY_FOR_LOCAL_INIT_OP,
                lambda: listing.report_uninitialized_variables(
                    listing.global_variables(), name="report_uninitialized_variables_for_local_init"
                ),
            )
        if self._local_init_op is None:
            self._local_init_op = _from_collection(GraphKeys.LOCAL_INIT_OP, Scaffold.default_local_init_op)
        if self._summary_op is None:
            self._summary_op = _from_collection(GraphKeys.SUMMARY_OP, merge_all)
        if self._saver is None:
            self._saver = _from_collection(
                GraphKeys.SAVERS,
                lambda: Saver(sharded=True, allow_empty=True, write_version=2),
            )
        if self._saver is not None and hasattr(self._saver, "build"):
            self._saver.build()
        get_default_graph().finalize()
        return self

    @property
    def init_fn(self) -> Callable[[Any], Any] | None:
        """The function of a session that is called after the initialisation, or None."""
        function = self._user_init_fn
        return None if function is None else lambda session: function(self, session)

    init_op = property(lambda self: self._init_op, doc="Initialises the global variables.")
    init_feed_dict = property(lambda self: self._init_feed_dict, doc="What ``init_op`` is fed.")
    ready_op = property(lambda self: self._ready_op, doc="Names of variables that are not initialised.")
    ready_for_local_init_op = property(lambda self: self._ready_for_local_init_op, doc="The same for global ones.")
    local_init_op = property(lambda self: self._local_init_op, doc="Initialises local variables and tables.")
    summary_op = property(lambda self: self._summary_op, doc="Makes the summaries.")
    saver = property(lambda self: self._saver, doc="Saves and restores.")

    @staticmethod
    def get_or_default(arg_name: str, collection_key: str, default_constructor: Callable[[], Any]) -> Any:
        """The one item of a collection, or what ``default_constructor`` makes, which is added to it."""
        return _from_collection(collection_key, default_constructor)

    @staticmethod
    def default_local_init_op() -> Any:
        """Initialise local variables and tables."""
        return group(listing.local_variables_initializer(), tables_initializer())


def _resource_initializers() -> list[Any]:
    return [item.create for item in get_default_graph().get_collection("resources") if hasattr(item, "create")]


FIRST_PAUSE = 1.0
"""Seconds before the second look whether the chief is ready."""


@contextlib.contextmanager
def _closed_on_failure(session: Any) -> Iterator[None]:
    """Close a session that nobody will get."""
    try:
        yield
    except BaseException:
        with contextlib.suppress(Exception):
            session.close()
        raise


@public("train.SessionManager")
class SessionManager:
    """Make sessions whose variables are there.

    Args:
        local_init_op: run in each new session.
        ready_op: names of variables that are not initialised.
        ready_for_local_init_op: the same, asked before ``local_init_op``.
        graph: the graph; the default one otherwise.
        recovery_wait_secs: longest pause between two looks while waiting; the first is of a second, and each twice as
            long as the one before.
        local_init_run_options: RunOptions for ``local_init_op``.
    """

    def __init__(
        self,
        local_init_op: Any = None,
        ready_op: Any = None,
        ready_for_local_init_op: Any = None,
        graph: Any = None,
        recovery_wait_secs: float = 30,
        local_init_run_options: Any = None,
    ) -> None:
        if ready_for_local_init_op is not None and local_init_op is None:
            raise ValueError(
                "If you pass a ready_for_local_init_op you must also pass a local_init_op , ready_for_local_init_op "
                f"[{ready_for_local_init_op}]\n"
                + errors.message("one of the two operations", "both, or neither", "local_init_op=tf.no_op()")
            )
        self._local_init_op, self._ready_op, self._local_ready_op = local_init_op, ready_op, ready_for_local_init_op
        self._graph = graph if graph is not None else get_default_graph()
        self._pause, self._options = recovery_wait_secs, local_init_run_options

    def _restored(self, session: Any, saver: Any, folder: Any, filename: Any, wait: bool, longest: float) -> bool:
        if folder and filename:
            raise ValueError(
                "Can not provide both checkpoint_dir and checkpoint_filename_with_path.\n"
                + errors.message(f"{folder!r} and {filename!r}", "a folder or a checkpoint", "checkpoint_dir=None")
            )
        if not (folder or filename) or saver is None:
            return False
        settle(saver)  # a session before this one may have begun to write
        if filename:
            saver.restore(session, filename)
            return True
        end = time.monotonic() + longest
        state = checkpoint_state.get_checkpoint_state(folder)
        while not state or not state.model_checkpoint_path:
            if not wait or time.monotonic() >= end:
                return False
            time.sleep(min(self._pause, 1.0))
            state = checkpoint_state.get_checkpoint_state(folder)
        saver.restore(session, state.model_checkpoint_path)
        saver.recover_last_checkpoints(state.all_model_checkpoint_paths)
        return True

    def prepare_session(
        self,
        master: str,
        init_op: Any = None,
        saver: Any = None,
        checkpoint_dir: Any = None,
        checkpoint_filename_with_path: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
        init_feed_dict: Any = None,
        init_fn: Callable[[Any], Any] | None = None,
    ) -> Any:
        """A session that is restored from a checkpoint if there is one, initialised otherwise.

        Raises:
            RuntimeError: there is neither a checkpoint nor a way to initialise, or variables are not initialised then.
        """
        session = Session(master, graph=self._graph, config=config)
        with _closed_on_failure(session):
            restored = self._restored(
                session, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint, max_wait_secs
            )
            if not restored:
                if init_op is None and init_fn is None and self._local_init_op is None:
                    raise RuntimeError(
                        "Model is not initialized and no init_op or init_fn or local_init_op was given\n"
                        + errors.message(
                            "no checkpoint and no init_op",
                            "a checkpoint, or an op that initialises the variables",
                            "init_op=tf.global_variables_initializer()",
                        )
                    )
                if init_op is not None:
                    session.run(init_op, feed_dict=init_feed_dict)
                if init_fn is not None:
                    init_fn(session)
            problem = self._local_init(session)
            local = problem is not None
            if problem is None:
                problem = self._not_ready(session, self._ready_op)
            if problem is not None:
                stage = " for local_init" if local else ""
                raise RuntimeError(f"Init operations did not make model ready{stage}. {problem}")
        return session

    def recover_session(
        self,
        master: str,
        saver: Any = None,
        checkpoint_dir: Any = None,
        checkpoint_filename_with_path: Any = None,
        wait_for_checkpoint: bool = False,
        max_wait_secs: float = 7200,
        config: Any = None,
    ) -> tuple[Any, bool]:
        """A session, and whether it was restored and its variables are there."""
        session = Session(master, graph=self._graph, config=config)
        restored = self._restored(
            session, saver, checkpoint_dir, checkpoint_filename_with_path, wait_for_checkpoint, max_wait_secs
        )
        problem = self._local_init(session) or self._not_ready(session, self._ready_op)
        return session, restored and problem is None

    def wait_for_session(self, master: str, config: Any = None, max_wait_secs: float = float("inf")) -> Any:
        """A session whose variables another process initialises; DeadlineExceededError after ``max_wait_secs``."""
        end = time.monotonic() + max_wait_secs
        pause = min(self._pause, FIRST_PAUSE)
        while True:
            session = Session(master, graph=self._graph, config=config)
            with _closed_on_failure(session):
                problem = self._local_init(session, end) or self._not_ready(session, self._ready_op, end)
            if problem is None:
                return session
            session.close()
            if time.monotonic() + pause > end:
                raise errors.DeadlineExceededError(
                    None, None, f"Session was not ready after waiting {max_wait_secs} secs. {problem}"
                )
            time.sleep(pause)
            pause = min(self._pause, 2.0 * pause)

    def _local_init(self, session: Any, end: float = math.inf) -> str | None:
        if self._local_init_op is None:
            return None
        problem = self._not_ready(session, self._local_ready_op, end)
        if problem is None:
            session.run(self._local_init_op, options=self._options)
        return problem

    @staticmethod
    def _not_ready(session: Any, op: Any, end: float = math.inf) -> str | None:
        """Why a session is not ready, None if it is; a task that has not come by ``end`` is a reason, too."""
        if op is None:
            return None
        options = None
        if end < math.inf:
            options = RunOptions(timeout_in_ms=max(1, int(1000 * (end - time.monotonic()))))
        try:
            names = session.run(op, options=options)
        except errors.FailedPreconditionError as problem:
            return str(problem)
        except errors.DeadlineExceededError as problem:
            if options is None:
                raise
            return str(problem)
        # What `assert_variables_initialized` gives is a number, or some: it has failed if a variable is missing.
        if names is None or np.size(names) == 0 or np.asarray(names).dtype == np.int32:
            return None
        return f"Variables not initialized: {', '.join(name.decode() for name in names.ravel().tolist())}"
