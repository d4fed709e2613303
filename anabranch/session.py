"""Sessions: from fetches and feeds to a step, and the step run.

A session binds a graph to a worker (:mod:`anabranch.runtime.worker`), which owns plans and resources. What is here is
what a program sees: the structure of fetches, names and conversion of feeds, defaults. ``run`` finds the step for
(fetches, fed tensors) and has the worker run it; on a hit Python only binds feeds, calls, commits and unpacks. Values
that come back are the caller's own; feeds may be changed as soon as ``run`` returns. All that a run waits for, it waits
for through one cancellation token, which a timeout, ``close`` and Ctrl-C end.
"""

from __future__ import annotations

import contextlib
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable, Sequence
from typing import Any, ClassVar, NamedTuple

from anabranch.core import cache, errors, interrupts, sites, thread_context
from anabranch.core.cache import Cache
from anabranch.core.contract import hooks
from anabranch.core.contract.api import public
from anabranch.core.graph.graph import Graph, get_default_graph
from anabranch.core.graph.operation import GraphTensor, Tensor
from anabranch.core.live_set import LiveSet
from anabranch.runtime import fetching, partial_run, pipeline, session_tensors
from anabranch.runtime.options import SessionOptions
from anabranch.runtime.registered_step import LocalStep, RegisteredStep
from anabranch.runtime.state.resources import ResourceManager
from anabranch.runtime.state.slots import DEFAULT_CONTAINER
from anabranch.runtime.watching import Watcher
from anabranch.runtime.worker import OnToken, Worker
from anabranch.xla import program as programs
from anabranch.xla import single_op, startup

__all__ = ["BaseSession", "DeviceAttributes", "InteractiveSession", "Session", "SessionOptions", "get_default_session"]


class DeviceAttributes(NamedTuple):
    """A device of a session, as ``Session.list_devices`` shows it."""

    name: str
    device_type: str
    memory_limit_bytes: int
    incarnation: int


class _SessionStack(threading.local):
    def __init__(self) -> None:
        self.sessions: list[BaseSession] = []


_stack = _SessionStack()


def _write_stack(sessions: list[BaseSession]) -> None:
    _stack.sessions = sessions


thread_context.keep(lambda: list(_stack.sessions), _write_stack)


@public("get_default_session")
def get_default_session() -> BaseSession | None:
    """The innermost session of the thread whose ``with`` block (or ``as_default``) is active, or None."""
    return _stack.sessions[-1] if _stack.sessions else None


class _Default:
    """Context of ``Session.as_default``."""

    def __init__(self, session: BaseSession):
        self._session = session

    def __enter__(self) -> BaseSession:
        _stack.sessions.append(self._session)
        return self._session

    def __exit__(self, *exc: Any) -> None:
        if not _stack.sessions or _stack.sessions[-1] is not self._session:
            raise AssertionError(
                "Nesting violated for the default session: exit contexts in the reverse order of entering them."
            )
        _stack.sessions.pop()


class BaseSession:
    """What all sessions share; see :class:`Session`."""

    _watcher: Watcher | None = None
    """Who is told of each op that runs, if somebody debugs this session, or all."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None):
        if target not in ("", None) and not isinstance(target, (str, bytes)):
            raise TypeError(f"target must be a string, but got {target!r}")
        if graph is not None and not isinstance(graph, Graph):
            raise TypeError(f"graph must be a tf.Graph, but got {type(graph)}")
        self._graph = graph if graph is not None else get_default_graph()
        self._options, self._config = _read_config(config)
        self._target = target.decode() if isinstance(target, bytes) else target or ""
        self._worker: Any = (
            hooks.session_worker(self._target, self._options, self._config)
            if self._target
            else Worker(self._options, self._config)
        )
        bound = self._options.plan_cache_size
        self._fetch_plans: Cache[Any, fetching.FetchPlan] = Cache("structures of fetches", bound)
        self._steps: Cache[Any, RegisteredStep] = Cache("steps", bound)
        self._callables: LiveSet[fetching.FetchPlan] = LiveSet()
        """What callables fetch: each knows a step."""
        self._dead_handles: list[str] = []
        """Strings of kept tensors whose objects are gone; the next run that keeps one lets the session forget them."""
        self._partial_runs: dict[str, partial_run.PartialRun] = {}
        timeout = getattr(self._config, "operation_timeout_in_ms", 0)
        self._default_timeout = timeout / 1000 if timeout else None
        _sessions.add(self)

    # ------------------------------------------------------------------------------------------------------ properties
    @property
    def _manager(self) -> ResourceManager:
        return self._worker.manager

    @property
    def _closed(self) -> bool:
        return self._worker.closed

    @property
    def graph(self) -> Graph:
        """The graph launched in this session."""
        return self._graph

    @property
    def graph_def(self) -> Any:
        """The graph as a GraphDef, with shapes if the session's ``graph_options`` say ``infer_shapes``."""
        shapes = self._config is not None and self._config.graph_options.infer_shapes
        return self._graph.as_graph_def(add_shapes=shapes)

    @property
    def sess_str(self) -> str:
        """Target string."""
        return self._target

    def list_devices(self) -> list[Any]:
        """The devices that the session can use."""
        if self._target:
            return [DeviceAttributes(name, "CPU", 0, 0) for name in self._worker.devices_of_tasks()]
        return [
            DeviceAttributes(str(device), device.platform.upper(), 0, 0) for device in self._worker.devices.listed()
        ]

    def as_default(self) -> _Default:
        """A context in which this is the default session of the thread."""
        return _Default(self)

    # -------------------------------------------------------------------------------------------------------------- run
    @sites.filtered_traceback
    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Run what ``fetches`` need and returns their values in the same structure.

        Args:
            fetches: a tensor, operation, name, or a list, tuple, dict, named tuple of such.
            feed_dict: values for tensors, by tensor or name.
            options: RunOptions (``timeout_in_ms``, ``trace_level``).
            run_metadata: RunMetadata to fill in.

        Returns:
            NumPy arrays (scalars for rank 0), None for operations, which the caller owns.

        Raises:
            RuntimeError: the session is closed. TypeError, ValueError: bad fetches or feeds. tf.errors.OpError: the
            step failed; no variable has changed in the segment that failed.

        Example:
            >>> import anabranch as tf
            >>> x = tf.placeholder(tf.float32)
            >>> with tf.Session() as session:
            ...     session.run({"twice": x * 2}, {x: 3.0})
            {'twice': np.float32(6.0)}
        """
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        fetch_plan = self._fetch_plan(fetches)
        last = fetch_plan.last
        plainly = options is None and run_metadata is None and self._watcher is None
        if last is not None and plainly and not self._graph._unfeedable:
            plain = last.plain(feed_dict)
            if plain is not None:
                results = self._worker.repeat(last, plain, self._default_timeout)
                if results is not None:
                    return fetch_plan.build(results)
        if feed_dict:
            if not hasattr(feed_dict, "items"):
                raise TypeError(f"feed_dict must be a dictionary, but got {type(feed_dict)}")
            names, values = self._bind(feed_dict)
        else:
            names, values = (), ()
        return fetch_plan.build(self._run(fetch_plan, names, values, options, run_metadata))

    @sites.filtered_traceback
    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> str:
        """Prepare a step that runs in parts: what will be fetched from what, and a handle for :meth:`partial_run`.

        Args:
            fetches: all that will be fetched, in a structure that ``run`` takes.
            feeds: a list of all tensors that will be fed, or None.

        Raises:
            RuntimeError: the session is closed. InvalidArgumentError: nothing is to be fetched.

        Example:
            >>> import anabranch as tf
            >>> a, b = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
            >>> total, product = a + 1.0, (a + 1.0) * b
            >>> with tf.Session() as session:
            ...     handle = session.partial_run_setup([total, product], [a, b])
            ...     first = session.partial_run(handle, total, {a: 1.0})
            ...     float(session.partial_run(handle, product, {b: 10.0 * first}))
            40.0
        """
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        fetch_plan = self._new_fetch_plan(fetches)
        tensors = fetching.feed_keys(self._graph, feeds)
        part = partial_run.PartialRun(self._worker, self._graph, fetch_plan.unique, tensors)
        self._partial_runs[part.handle] = part
        return part.handle

    @sites.filtered_traceback
    def partial_run(self, handle: str, fetches: Any, feed_dict: Any = None) -> Any:
        """Go on with a step that runs in parts: feed some of what is missing, and fetch some of what was not fetched.

        Every operation that can run by now does, once; each tensor is fed once, and fetched once.

        Args:
            handle: what :meth:`partial_run_setup` gave.
            fetches: part of what was named there, in any structure.
            feed_dict: values for part of the tensors that were named there.

        Raises:
            RuntimeError: the session is closed. InvalidArgumentError: something was not named, or was fed or fetched
                before, or cannot be computed yet.
        """
        if self._closed:
            raise RuntimeError("Attempted to use a closed Session.")
        part = self._partial_runs.get(handle)
        if part is None:
            raise errors.InvalidArgumentError(
                None,
                None,
                errors.message(f"the handle {handle!r}", "one of a run that is not over", "session.partial_run_setup")
                + "\nMust run 'setup' before performing partial runs!",
            )
        fetch_plan = self._new_fetch_plan(fetches)
        names, values = self._bind(feed_dict) if feed_dict else ((), ())
        results = part.run(fetch_plan.unique, list(zip(names, values, strict=True)), self._default_timeout)
        if part.is_over:
            del self._partial_runs[handle]
        return fetch_plan.build(results)

    def _fetch_plan(self, fetches: Any) -> fetching.FetchPlan:
        key = fetching.key_of(fetches)
        if key is None:
            return self._new_fetch_plan(fetches)
        fetch_plan = self._fetch_plans.get(key)
        return self._fetch_plans.add(key, self._new_fetch_plan(fetches)) if fetch_plan is None else fetch_plan

    def _new_fetch_plan(self, fetches: Any) -> fetching.FetchPlan:
        if not self._graph._operations:
            raise RuntimeError("The Session graph is empty.  Add operations to the graph before calling run().")
        # Plans are kept by the session: what they build of its tensors' strings must not keep it in turn.
        own = weakref.ref(self)
        return fetching.FetchPlan(self._graph, fetches, lambda tensor, handle: own()._keep_handle(tensor, handle))  # type: ignore[union-attr]

    def _keep_handle(self, tensor: Tensor, handle: Any) -> session_tensors.TensorHandle:
        """The object for the string of a tensor that the session keeps; tensors of objects that are gone go."""
        kept = session_tensors.TensorHandle(handle, tensor.op.inputs[0].dtype.base, self)
        while self._dead_handles and not self._graph.finalized:
            session_tensors.forget(self, [self._dead_handles.pop()])
        return kept

    def _register_dead_handle(self, handle: str) -> None:
        self._dead_handles.append(handle)

    def _bind(self, feed_dict: Any) -> tuple[tuple[Tensor, ...], tuple[Any, ...]]:
        graph = self._graph
        names: list[Tensor] = []
        values: list[Any] = []
        for key, value in feed_dict.items():
            if type(key) is GraphTensor and key.op.graph is graph:
                names.append(key)
                values.append(fetching.feed_value(key, value, graph))
            else:
                for tensor, part in fetching.flat_feeds(graph, {key: value}):
                    names.append(tensor)
                    values.append(fetching.feed_value(tensor, part, graph))
        return tuple(names), tuple(values)

    def _registered(self, fetch_plan: fetching.FetchPlan, names: tuple[Tensor, ...]) -> RegisteredStep:
        """The step that computes what is fetched from what is fed."""
        fetches = tuple(fetch_plan.unique)
        return self._steps.get_or_make(
            (fetches, names), lambda: self._worker.register(LocalStep(self._graph, fetches, names))
        )

    def _run(
        self,
        fetch_plan: fetching.FetchPlan,
        names: tuple[Tensor, ...],
        values: tuple[Any, ...],
        options: Any = None,
        run_metadata: Any = None,
        on_token: OnToken | None = None,
    ) -> list[Any]:
        timeout = self._default_timeout
        if options is not None and getattr(options, "timeout_in_ms", None):
            timeout = options.timeout_in_ms / 1000
        traced = run_metadata if getattr(options, "trace_level", 0) else None
        if run_metadata is not None:
            run_metadata.Clear()
        fetch_plan.last = registered = self._registered(fetch_plan, names)
        try:
            watcher = self._watcher
            if options is not None and options.HasField("debug_options"):
                watcher = hooks.debug_watcher(options, f"{self._worker.task}/device:CPU:0")
            if watcher is not None:
                return self._worker.watch(registered, values, watcher, timeout, traced)
            results: list[Any] = self._worker.run(registered, values, timeout, traced, on_token)
            return results
        except RecursionError as problem:
            raise errors.ResourceExhaustedError(None, None, errors.nested_too_deep("run")) from problem
        finally:
            if run_metadata is not None and getattr(options, "output_partition_graphs", False):
                self._worker.describe_partitions(registered, values, run_metadata)

    def _start(
        self,
        line: pipeline.Pipeline,
        fetch_plan: fetching.FetchPlan,
        names: tuple[Tensor, ...],
        values: tuple[Any, ...],
    ) -> pipeline.StepInFlight | None:
        """Start a step of an asynchronous callable; None if it must run at once."""
        registered = self._registered(fetch_plan, names)
        return self._worker.start(line, registered, values, fetch_plan.build, self._default_timeout)

    def explain(self, fetches: Any, feed_dict: Any = None) -> str:
        """Say what ``run`` with these fetches and feeds does: segments, programs, host ops, the tier and why."""
        fetch_plan = self._new_fetch_plan(fetches)
        names, values = self._bind(feed_dict) if feed_dict else ((), ())
        return self._worker.explain(self._registered(fetch_plan, names), values)

    def explain_caches(self) -> str:
        """Say what is kept so that it need not be made again: a line for each kind of entries.

        A line tells how many entries there are, how many there may be (of entries that lie in several caches, how many
        caches that is), how often one was found and how often it was not. First come those of the session, which end
        with it, then those of the process.

        Example:
            >>> import anabranch as tf
            >>> with tf.Session() as session:
            ...     two = session.run(tf.constant(1.0) + 1.0)
            ...     "plans" in session.explain_caches()
            True
        """
        own: list[cache.Listed] = [self._fetch_plans, self._steps, *self._worker.caches]
        shared = [*programs.caches(), *single_op.caches(), *cache.memos()]
        return f"caches of the session\n{cache.report(own)}\ncaches of the process\n{cache.report(shared)}"

    # -------------------------------------------------------------------------------------------------------- callables
    def make_callable(
        self,
        fetches: Any,
        feed_list: Sequence[Any] | None = None,
        accept_options: bool = False,
        *,
        asynchronous: bool = False,
        in_flight: int = 2,
    ) -> Callable[..., Any]:
        """A function of the values of ``feed_list`` that runs ``fetches``; the structure is looked at once.

        With ``asynchronous`` the function returns a promise (``result()``, ``exception()``, ``done()``) as soon as the
        step is in the device, where that can be undone: one compiled program that updates variables. Other steps run
        at once, after those in flight. When a step fails, those in flight behind it change nothing and give
        AbortedError; its own error comes from its ``result()`` or, if nobody asks, from the next call, from the
        function's ``wait()``, or from ``close``. Feeds may be changed as soon as the function returns. On a CPU a step
        is in flight only if this is called before anything is compiled, or with ANABRANCH_CPU_DISPATCH=threads in the
        environment: else programs run in the thread that calls them.

        Args:
            fetches: as for ``run``.
            feed_list: tensors (or names) whose values are the function's positional arguments.
            accept_options: let the function take ``options=`` and ``run_metadata=``.
            asynchronous: keep steps in flight.
            in_flight: how many at most; a further call waits for the first.
        """
        if feed_list is not None and not isinstance(feed_list, (list, tuple)):
            raise TypeError("`feed_list` must be a list or tuple.")
        graph = self._graph
        fetch_plan = self._new_fetch_plan(fetches)
        self._callables.add(fetch_plan)
        names = tuple(graph.as_graph_element(item, allow_operation=False) for item in feed_list or ())

        def bind(args: Sequence[Any]) -> tuple[Any, ...]:
            if self._closed:
                raise RuntimeError("Attempted to use a closed Session.")
            if len(args) != len(names):
                raise TypeError(
                    f"This callable takes {len(names)} argument(s) for {[name.name for name in names]}, "
                    f"{len(args)} given"
                )
            return tuple([fetching.feed_value(tensor, value, graph) for tensor, value in zip(names, args, strict=True)])

        if asynchronous:
            startup.let_steps_fly()
            if accept_options or in_flight < 1:
                raise ValueError(
                    errors.message(
                        f"make_callable(asynchronous=True, {accept_options=}, {in_flight=})",
                        "no options per call, and at least one step in flight",
                        "leave accept_options out, or asynchronous",
                    )
                )
            asynchronous_callable = pipeline.AsynchronousCallable(self, fetch_plan, names, bind, in_flight)
            self._worker.add_pipeline(asynchronous_callable.pipeline)
            return asynchronous_callable

        def call(*args: Any, options: Any = None, run_metadata: Any = None) -> Any:
            values = bind(args)
            if (options is not None or run_metadata is not None) and not accept_options:
                raise TypeError("make the callable with accept_options=True to pass options or run_metadata")
            last = fetch_plan.last
            plainly = options is None and run_metadata is None and self._watcher is None
            if last is not None and plainly and last.fits(names, values):
                results = self._worker.repeat(last, values, self._default_timeout)
                if results is not None:
                    return fetch_plan.build(results)
            return fetch_plan.build(self._run(fetch_plan, names, values, options, run_metadata))

        return call

    def _make_callable_from_options(self, callable_options: Any) -> Callable[..., list[Any]]:
        """:meth:`make_callable` of what a ``CallableOptions`` message names; its function gives a list.

        The message's ``run_options`` hold for each run; the function takes ``run_metadata=``. Tensors that the message
        connects to others are evaluated first, in a step of their own, and stand for both in the step that follows.
        """
        fetches, targets = list(callable_options.fetch), list(callable_options.target)
        feeds, connections = list(callable_options.feed), list(callable_options.tensor_connection)
        options = callable_options.run_options if callable_options.HasField("run_options") else None
        sources = list(dict.fromkeys(one.from_tensor for one in connections))
        evaluate = self.make_callable(sources, feeds) if sources else None
        connected = [*sources, *(one.to_tensor for one in connections)]
        run = self.make_callable([*fetches, *targets], [*feeds, *connected], accept_options=True)

        def call(*values: Any, run_metadata: Any = None) -> list[Any]:
            if evaluate is not None:
                by_name = dict(zip(sources, evaluate(*values), strict=True))
                values = (*values, *by_name.values(), *(by_name[one.from_tensor] for one in connections))
            return run(*values, options=options, run_metadata=run_metadata)[: len(fetches)]

        return call

    def _callable_with_token(self, fetches: Any, on_token: OnToken) -> Callable[[], Any]:
        """A function that runs ``fetches`` without feeds; ``on_token`` is told the token of each run."""
        fetch_plan = self._new_fetch_plan(fetches)
        self._callables.add(fetch_plan)

        def call() -> Any:
            if self._closed:
                raise RuntimeError("Attempted to use a closed Session.")
            last = fetch_plan.last
            if last is not None and last.fits((), ()):
                results = self._worker.repeat(last, (), self._default_timeout, on_token)
                if results is not None:
                    return fetch_plan.build(results)
            return fetch_plan.build(self._run(fetch_plan, (), (), on_token=on_token))

        return call

    # ---------------------------------------------------------------------------------------------------------- closing
    def close(self) -> None:
        """Cancel running steps and frees the session's variables. Steps in flight end.

        Raises:
            tf.errors.OpError: one of these failed, and nobody has been told.
        """
        if self._closed:
            return
        try:
            self._worker.close()
        finally:
            for fetch_plan in (*self._callables, *self._fetch_plans.values()):
                fetch_plan.last = None
            self._fetch_plans.close()
            self._steps.close()
            _sessions.discard(self)
            if not list(_sessions):
                interrupts.restore()

    def __repr__(self) -> str:
        return f"<tf.{type(self).__name__} of {self._graph!r}{' (closed)' if self._closed else ''}>"


_sessions: LiveSet[BaseSession] = LiveSet()
"""Live sessions of the process, for ``Session.reset``."""


@public("Session")
class Session(BaseSession):
    """Run a graph's operations; owns its variables.

    Args:
        target: '' for this process, or ``tf.train.Server.target`` for a cluster.
        graph: the graph to run; the default graph if None.
        config: a ConfigProto, or :class:`SessionOptions`.

    Example:
        >>> import anabranch as tf
        >>> with tf.Session() as session:
        ...     print(session.run(tf.constant(1.5) + 2))
        3.5
    """

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None):
        super().__init__(target, graph, config)
        self._contexts: list[tuple[Any, Any]] = []

    def __enter__(self) -> Session:
        if self._contexts:
            raise RuntimeError(
                "Session context managers are not re-entrant. Use `Session.as_default()` if you want to enter a "
                "session multiple times.\n"
                + errors.message("a session in its own with-block", "one with-block", "with session.as_default():")
            )
        graph_context = self.graph.as_default()
        graph_context.__enter__()
        session_context = self.as_default()
        session_context.__enter__()
        self._contexts.append((graph_context, session_context))
        return self

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        graph_context, session_context = self._contexts.pop()
        session_context.__exit__(kind, value, trace)
        graph_context.__exit__(kind, value, trace)
        if value is None:
            self.close()
        else:
            with contextlib.suppress(errors.OpError):  # of steps in flight: the block's own exception goes on
                self.close()

    @staticmethod
    def reset(target: str, containers: Iterable[str] | None = None, config: Any = None) -> None:
        """Clear the given containers, or the default one, which holds what was made in no ``tf.container``: on all
        tasks of a target's cluster, or, for the target '', in every live session of this process.
        """
        if isinstance(containers, (str, bytes)):
            raise TypeError("containers must be a list of strings")
        if target:
            hooks.reset_target(target, containers, config)
            return
        for session in _sessions:
            if not session._target:
                session._manager.clear(containers or [DEFAULT_CONTAINER])


@public("InteractiveSession")
class InteractiveSession(BaseSession):
    """A session that makes itself the default on construction, for shells; ``close`` undoes it."""

    _active_session_count: ClassVar[int] = 0
    """How many have not been closed."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None):
        super().__init__(target, graph, config)
        if InteractiveSession._active_session_count:
            warnings.warn(
                "An interactive session is already active. This can cause out-of-memory errors in some cases. You must "
                "explicitly call `InteractiveSession.close()` to release resources held by the other session(s).",
                stacklevel=2,
            )
        InteractiveSession._active_session_count += 1
        self._default = self.as_default()
        self._default.__enter__()
        self._graph_context = graph.as_default() if graph is not None else None
        if self._graph_context is not None:
            self._graph_context.__enter__()

    def close(self) -> None:
        """Close the session and stops being the default."""
        if self._closed:
            return
        super().close()
        InteractiveSession._active_session_count -= 1
        if self._graph_context is not None:
            self._graph_context.__exit__(None, None, None)
        if self in _stack.sessions:
            _stack.sessions.remove(self)


def _read_config(config: Any) -> tuple[SessionOptions, Any]:
    if config is None:
        return SessionOptions(), None
    if isinstance(config, SessionOptions):
        return config, config.config
    if hasattr(config, "DESCRIPTOR") and config.DESCRIPTOR.name == "ConfigProto":
        return SessionOptions(), config
    raise TypeError(
        f"config must be a tf.ConfigProto, but got {type(config)}\n"
        + errors.message(
            f"config={config!r}", "a tf.ConfigProto or tf.SessionOptions", "tf.Session(config=tf.ConfigProto(...))"
        )
    )


def _evaluate(element: Any, feed_dict: Any, graph: Graph, session: Any) -> Any:
    if session is None:
        session = get_default_session()
        if session is None:
            what = "evaluate tensor" if isinstance(element, Tensor) else "execute operation"
            call = "eval(session=sess)" if isinstance(element, Tensor) else "run(session=sess)"
            raise ValueError(
                f"Cannot {what} using `{call.split('(')[0]}()`: No default session is registered. "
                "Use `with sess.as_default()` "
                f"or pass an explicit session to `{call}`"
            )
    if session.graph is not graph:
        raise ValueError(
            "Cannot use the given session to evaluate tensor: the tensor's graph is different from the session's graph."
            if isinstance(element, Tensor)
            else "Cannot use the given session to execute operation: the operation's graph is different from the "
            "session's graph."
        )
    return session.run(element, feed_dict)


hooks.fill("evaluate", _evaluate)
