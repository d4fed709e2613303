"""What is called around each run of a monitored session: the hooks' base and what they are given."""

from __future__ import annotations

from typing import Any, NamedTuple

from anabranch.core.contract.api import public


@public("train.SessionRunArgs")
class SessionRunArgs(NamedTuple):
    """What a hook adds to a run: fetches (a tensor, an op, or a structure of such), feeds, RunOptions."""

    fetches: Any
    feed_dict: Any = None
    options: Any = None


@public("train.SessionRunValues")
class SessionRunValues(NamedTuple):
    """What a run gave a hook: values of its fetches, the options, the metadata."""

    results: Any
    options: Any
    run_metadata: Any


@public("train.SessionRunContext")
class SessionRunContext:
    """A run, as hooks see it: what was asked for, the session, and a way to stop the loop."""

    def __init__(self, original_args: Any, session: Any) -> None:
        self._args, self._session, self._stop = original_args, session, False

    @property
    def original_args(self) -> Any:
        """What the program asked to run."""
        return self._args

    @property
    def session(self) -> Any:
        """The session that runs it."""
        return self._session

    @property
    def stop_requested(self) -> bool:
        """Whether a hook asked for the end of the loop."""
        return self._stop

    def request_stop(self) -> None:
        """Ask for the end of the loop: ``should_stop()`` of the monitored session becomes true."""
        self._stop = True


@public("train.SessionRunHook")
class SessionRunHook:
    """Base of hooks; each method does nothing by default."""

    def begin(self) -> None:
        """Called once before the graph is finalised: the last chance to add ops."""

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Called after a session was made, and again after it was made anew."""

    def before_run(self, run_context: SessionRunContext) -> Any:
        """Called before each run; gives :class:`SessionRunArgs` to run beside, or None."""
        return None

    def after_run(self, run_context: SessionRunContext, run_values: Any) -> None:
        """Called after each run with the values of what :meth:`before_run` asked for."""

    def end(self, session: Any) -> None:
        """Called at the end if no exception ended the loop; may use the session."""
