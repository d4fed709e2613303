"""Sessions, and hooks of monitored sessions, whose runs are kept for inspection or browsed at a prompt."""

from __future__ import annotations

import os
import re
import shutil
import sys
import tempfile
import threading
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

from anabranch.core import errors
from anabranch.core.protos.config_pb2 import RunOptions
from anabranch.debug import dumping
from anabranch.debug.dump_dir import DebugDumpDir
from anabranch.debug.numerics import has_inf_or_nan
from anabranch.debug.prompt import Exit, Prompt, RunRequest
from anabranch.session import _Default
from anabranch.train.session_run_hook import SessionRunArgs, SessionRunHook


class WatchOptions:
    """Which tensors are kept.

    Args:
        debug_ops: ``DebugIdentity``, or a list of such.
        node_name_regex_whitelist: of names of ops; all if None.
        op_type_regex_whitelist: of types of ops; all if None.
        tensor_dtype_regex_whitelist: of dtypes; all if None.
        tolerate_debug_op_creation_failures: written into the options of the run.
    """

    def __init__(
        self,
        debug_ops: Any = None,
        node_name_regex_whitelist: str | None = None,
        op_type_regex_whitelist: str | None = None,
        tensor_dtype_regex_whitelist: str | None = None,
        tolerate_debug_op_creation_failures: bool = False,
    ) -> None:
        self.debug_ops = debug_ops if debug_ops else dumping.IDENTITY
        self.node_name_regex_whitelist = node_name_regex_whitelist
        self.op_type_regex_whitelist = op_type_regex_whitelist
        self.tensor_dtype_regex_whitelist = tensor_dtype_regex_whitelist
        self.tolerate_debug_op_creation_failures = tolerate_debug_op_creation_failures

    def add_to(self, options: Any, graph: Any, urls: list[str]) -> None:
        """Have a run with these RunOptions keep them."""
        dumping.watch_graph(
            options,
            graph,
            self.debug_ops,
            urls,
            self.node_name_regex_whitelist,
            self.op_type_regex_whitelist,
            self.tensor_dtype_regex_whitelist,
            self.tolerate_debug_op_creation_failures,
        )

    def __repr__(self) -> str:
        return f"WatchOptions({vars(self)})"


class _Wrapper:
    """A session whose runs go through :meth:`run`; all else is the session's."""

    def __init__(self, sess: Any, thread_name_filter: str | None = None) -> None:
        if not hasattr(sess, "run") or not hasattr(sess, "graph"):
            raise TypeError(f"Expected type tf.Session for sess, but got type {type(sess)}")
        self._sess = sess
        self._thread_name = re.compile(thread_name_filter) if thread_name_filter else None
        self._run_count = 0
        self._defaults: list[_Default] = []

    @property
    def session(self) -> Any:
        """The session that is wrapped."""
        return self._sess

    @property
    def run_call_count(self) -> int:
        """How often :meth:`run` was called."""
        return self._run_count

    def _passes_thread(self) -> bool:
        return self._thread_name is None or self._thread_name.match(threading.current_thread().name) is not None

    def make_callable(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Not supported: a callable does not go through the wrapper."""
        raise errors.UnimplementedError(
            None,
            None,
            errors.message("make_callable of a session that is debugged", "run", "sess.run(fetches, feed_dict)"),
        )

    partial_run_setup = partial_run = make_callable

    def as_default(self) -> Any:
        """A context in which ``eval`` and ``Operation.run`` go through this session."""
        return _Default(self)  # type: ignore[arg-type]

    def __enter__(self) -> Any:
        default = _Default(self)  # type: ignore[arg-type]
        self._sess.__enter__()
        default.__enter__()
        self._defaults.append(default)
        return self

    def __exit__(self, *error: Any) -> Any:
        self._defaults.pop().__exit__(*error)
        return self._sess.__exit__(*error)

    def __getattr__(self, name: str) -> Any:
        if name == "_sess":
            raise AttributeError(name)
        return getattr(self._sess, name)


def _checked_root(dump_root: str | None) -> str:
    """A folder for dumps: the given one if it is new or empty, else one of its own.

    Raises:
        ValueError: it is a file, or holds something.
    """
    if not dump_root:
        return tempfile.mkdtemp(prefix="tfdbg_")
    if os.path.isfile(dump_root):
        raise ValueError(f"dump_root path points to a file: {dump_root}")
    if os.path.isdir(dump_root) and os.listdir(dump_root):
        raise ValueError(f"dump_root path points to a non-empty directory: {dump_root}")
    return dump_root


def _copied(options: Any) -> Any:
    copy = RunOptions()
    if options is not None:
        copy.CopyFrom(options)
    return copy


def _names(fetches: Any) -> str:
    if isinstance(fetches, dict):
        fetches = list(fetches.values())
    if isinstance(fetches, (list, tuple)):
        return ", ".join(_names(item) for item in fetches)
    return str(getattr(fetches, "name", fetches))


def _feeds(feed_dict: Any) -> dict[str, Any]:
    return {_names(key): value for key, value in (feed_dict or {}).items()}


def _describe(folder: str, sess: Any, fetches: Any, feed_dict: Any, count: int) -> None:
    dumping.write_description(
        folder, _names(fetches), ", ".join(_feeds(feed_dict)), count, sess.graph.as_graph_def().SerializeToString()
    )


class DumpingDebugWrapperSession(_Wrapper):
    """A session that keeps the tensors of each run in a folder of its own.

    Args:
        sess: the session.
        session_root: the folder in which each run gets its folder; new, or empty.
        watch_fn: (fetches, feed_dict) -> which tensors are kept, a :class:`WatchOptions`; all if None.
        thread_name_filter: a regular expression of names of threads whose runs are kept; all if None.
        pass_through_operrors: nothing changes: errors of a run are always raised.
        log_usage: nothing is logged.

    Raises:
        ValueError: ``session_root`` is a file, or holds something.
    """

    def __init__(
        self,
        sess: Any,
        session_root: str,
        watch_fn: Callable[[Any, Any], Any] | None = None,
        thread_name_filter: str | None = None,
        pass_through_operrors: bool | None = None,
        log_usage: bool = True,
    ) -> None:
        del pass_through_operrors, log_usage
        super().__init__(sess, thread_name_filter)
        if watch_fn is not None and not callable(watch_fn):
            raise TypeError("watch_fn is not callable")
        self._root = _checked_root(session_root)
        os.makedirs(self._root, exist_ok=True)
        self._watch = watch_fn
        self.last_dump: str | None = None
        """The folder of the last run."""

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Run as ``Session.run`` does, and keep the tensors."""
        self._run_count += 1
        if not self._passes_thread():
            return self._sess.run(fetches, feed_dict, options, run_metadata)
        self.last_dump = folder = tempfile.mkdtemp(prefix=f"run_{self._run_count}_", dir=self._root)
        watch = self._watch(fetches, feed_dict) if self._watch is not None else WatchOptions()
        if isinstance(watch, tuple):  # (debug ops, names, types), as the first versions had it
            watch = WatchOptions(*watch)
        options = _copied(options)
        watch.add_to(options, self._sess.graph, [f"file://{folder}"])
        _describe(folder, self._sess, fetches, feed_dict, self._run_count)
        return self._sess.run(fetches, feed_dict, options, run_metadata)


class _Dialogue:
    """What is asked before and after runs: shared by the session and the hook."""

    def __init__(self, dump_root: str | None, ui_type: str, stdin: TextIO | None, stdout: TextIO | None) -> None:
        if ui_type not in ("curses", "readline"):
            raise ValueError(f"ui_type must be 'curses' or 'readline', but got {ui_type!r}")
        self._root = _checked_root(dump_root)
        self._stdin, self._stdout = stdin, stdout
        self._filters: dict[str, Callable[..., bool]] = {"has_inf_or_nan": has_inf_or_nan}
        self._plain_runs = 0
        self._request = RunRequest("ask")

    def add_filter(self, name: str, tensor_filter: Callable[..., bool]) -> None:
        if not name:
            raise ValueError("Input argument filter_name cannot be empty.")
        if not callable(tensor_filter):
            raise TypeError("Expected input argument tensor_filter to be callable, but is not.")
        self._filters[name] = tensor_filter

    def _ask(self, title: str, feeds: dict[str, Any], dump: DebugDumpDir | None = None) -> RunRequest:
        prompt = Prompt(title, feeds, self._filters, dump, self._stdin, self._stdout)
        try:
            prompt.cmdloop()
        except Exit:
            sys.exit(1)
        assert prompt.request is not None
        return prompt.request

    def before(self, count: int, fetches: Any, feed_dict: Any) -> bool:
        """Whether the coming run is to be looked into."""
        if self._plain_runs:
            self._plain_runs -= 1
            if self._plain_runs:
                return False
            self._request = RunRequest("debug")  # the last of `run -t` comes back
        elif self._request.mode == "ask":
            self._request = self._ask(f"run {count}: fetches {_names(fetches)}", _feeds(feed_dict))
            if self._request.times > 1:
                self._plain_runs = self._request.times - 1
        return self._request.mode == "debug"

    def folder(self) -> str:
        """A folder for a run."""
        os.makedirs(self._root, exist_ok=True)
        return tempfile.mkdtemp(prefix="run_", dir=self._root)

    def plain_run_done(self) -> None:
        """Ask again before the next run, unless several were asked for."""
        if not self._plain_runs:
            self._request = RunRequest("ask")

    def after(self, count: int, folder: str, graph: Any, feeds: dict[str, Any], problem: BaseException | None) -> None:
        """Show what a run has left, unless a filter waits for another one; the answer is for the next run."""
        dump = DebugDumpDir(folder)
        dump.set_python_graph(graph)
        title = f"run {count} is over: {dump.size} tensors"
        if problem is not None:
            title += f"\nit failed: {problem}"
        name = self._request.filter_name
        if name is not None:
            passing = dump.find(self._filters[name], first_n=1)
            if not passing and problem is None:
                shutil.rmtree(folder, ignore_errors=True)
                return
            if passing:
                title += f"\n{name} passes {passing[0].tensor_name} first; lt -f {name} lists them"
        try:
            self._request = self._ask(title, feeds, dump)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        if self._request.times > 1:
            self._plain_runs = self._request.times


class LocalCLIDebugWrapperSession(_Wrapper):
    """A session that asks at a prompt before a run, and shows what it has left after it.

    ``run`` runs and comes back; ``run -n`` does not come back; ``run -f has_inf_or_nan`` comes back after the first
    run with a NaN or an infinity; ``lt`` lists tensors, ``pt`` shows one, ``ni -t`` the lines that made an op; ``help``
    lists all commands.

    Args:
        sess: the session.
        dump_root: a folder for what runs leave, new or empty; one that is temporary if None. Emptied after each prompt.
        log_usage: nothing is logged.
        ui_type: ``curses`` or ``readline``; both are the prompt of lines.
        thread_name_filter: a regular expression of names of threads whose runs are looked into; all if None.
        stdin: where commands come from; the terminal if None.
        stdout: where answers go; the terminal if None.

    Raises:
        ValueError: ``dump_root`` is a file, or holds something.
    """

    def __init__(
        self,
        sess: Any,
        dump_root: str | None = None,
        log_usage: bool = True,
        ui_type: str = "curses",
        thread_name_filter: str | None = None,
        *,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
    ) -> None:
        del log_usage
        super().__init__(sess, thread_name_filter)
        self._dialogue = _Dialogue(dump_root, ui_type, stdin, stdout)

    def add_tensor_filter(self, filter_name: str, tensor_filter: Callable[..., bool]) -> None:
        """Make a filter known: ``tensor_filter(datum, array)`` says whether a tensor passes."""
        self._dialogue.add_filter(filter_name, tensor_filter)

    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Run as ``Session.run`` does, with prompts around it."""
        self._run_count += 1
        dialogue, count = self._dialogue, self._run_count
        if not self._passes_thread():
            return self._sess.run(fetches, feed_dict, options, run_metadata)
        if not dialogue.before(count, fetches, feed_dict):
            result = self._sess.run(fetches, feed_dict, options, run_metadata)
            dialogue.plain_run_done()
            return result
        folder = dialogue.folder()
        options = _copied(options)
        WatchOptions().add_to(options, self._sess.graph, [f"file://{folder}"])
        _describe(folder, self._sess, fetches, feed_dict, count)
        problem: errors.OpError | None = None
        try:
            return self._sess.run(fetches, feed_dict, options, run_metadata)
        except errors.OpError as failure:
            problem = failure
            raise
        finally:
            error = sys.exc_info()[1]
            if error is None or problem is not None:
                dialogue.after(count, folder, self._sess.graph, _feeds(feed_dict), problem)


class _DebugHook(SessionRunHook):
    """A hook whose runs keep their tensors in a folder."""

    def __init__(self, thread_name_filter: str | None) -> None:
        self._thread_name = re.compile(thread_name_filter) if thread_name_filter else None
        self._count = 0

    def _skips(self) -> bool:
        return self._thread_name is not None and not self._thread_name.match(threading.current_thread().name)

    def _keep(self, run_context: Any, folder: str, watch: WatchOptions) -> SessionRunArgs:
        graph = run_context.session.graph
        options = RunOptions()
        watch.add_to(options, graph, [f"file://{folder}"])
        original = run_context.original_args
        _describe(folder, run_context.session, original.fetches, original.feed_dict, self._count)
        return SessionRunArgs(None, None, options)


class LocalCLIDebugHook(_DebugHook):
    """A hook of monitored sessions with the prompts of :class:`LocalCLIDebugWrapperSession`; arguments as there."""

    def __init__(
        self,
        ui_type: str = "curses",
        dump_root: str | None = None,
        thread_name_filter: str | None = None,
        *,
        stdin: TextIO | None = None,
        stdout: TextIO | None = None,
    ) -> None:
        super().__init__(thread_name_filter)
        self._dialogue = _Dialogue(dump_root, ui_type, stdin, stdout)
        self._folder: str | None = None
        self._feeds: dict[str, Any] = {}

    def add_tensor_filter(self, filter_name: str, tensor_filter: Callable[..., bool]) -> None:
        """Make a filter known: ``tensor_filter(datum, array)`` says whether a tensor passes."""
        self._dialogue.add_filter(filter_name, tensor_filter)

    def before_run(self, run_context: Any) -> SessionRunArgs | None:
        """Ask; have the run keep its tensors if it is to be looked into."""
        self._count += 1
        self._folder = None
        if self._skips():
            return None
        original = run_context.original_args
        if not self._dialogue.before(self._count, original.fetches, original.feed_dict):
            self._dialogue.plain_run_done()
            return None
        self._folder = self._dialogue.folder()
        self._feeds = _feeds(original.feed_dict)
        return self._keep(run_context, self._folder, WatchOptions())

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Show what the run has left."""
        if self._folder is not None:
            self._dialogue.after(self._count, self._folder, run_context.session.graph, self._feeds, None)


class DumpingDebugHook(_DebugHook):
    """A hook of monitored sessions that keeps the tensors of each run; see :class:`DumpingDebugWrapperSession`."""

    def __init__(
        self,
        session_root: str,
        watch_fn: Callable[[Any, Any], Any] | None = None,
        thread_name_filter: str | None = None,
        log_usage: bool = True,
    ) -> None:
        del log_usage
        super().__init__(thread_name_filter)
        self._root = _checked_root(session_root)
        self._watch = watch_fn

    def before_run(self, run_context: Any) -> SessionRunArgs | None:
        """Have the run keep its tensors."""
        self._count += 1
        if self._skips():
            return None
        os.makedirs(self._root, exist_ok=True)
        folder = tempfile.mkdtemp(prefix=f"run_{self._count}_", dir=self._root)
        original = run_context.original_args
        watch = self._watch(original.fetches, original.feed_dict) if self._watch is not None else WatchOptions()
        return self._keep(run_context, folder, watch)


def _refused(name: str) -> type:
    def refuse(self: Any, *args: Any, **kwargs: Any) -> NoReturn:
        raise errors.UnimplementedError(
            None,
            None,
            errors.message(
                f"tf_debug.{name}: a debugger at another address",
                "one in this process",
                "tf_debug.LocalCLIDebugWrapperSession(sess), DumpingDebugWrapperSession(sess, folder), or "
                "tf.debugging.StepDebugger(session)",
            ),
        )

    doc = f"{name} sends tensors to another process, which is not supported; making one raises UnimplementedError."
    return type(name, (), {"__init__": refuse, "__doc__": doc})


GrpcDebugWrapperSession = _refused("GrpcDebugWrapperSession")
TensorBoardDebugWrapperSession = _refused("TensorBoardDebugWrapperSession")
GrpcDebugHook = _refused("GrpcDebugHook")
TensorBoardDebugHook = _refused("TensorBoardDebugHook")
