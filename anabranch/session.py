"""Sessions: from fetches and feeds to a plan, and the plan run.

A session binds a graph to a resource manager. ``run`` finds the plan for (fetches, fed tensors with their shapes,
changes of the graph) and runs it; on a hit Python only binds feeds, calls, commits and unpacks. Operations that are
added to the graph change no plan, see :mod:`anabranch.core.graph.graph`. Values that come back are
the caller's own; feeds may be changed as soon as ``run`` returns. Everything that a run waits for, it waits for
through one cancellation token, which a timeout, ``close`` and Ctrl-C end.
"""

from __future__ import annotations

import contextlib
import dataclasses
import threading
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from anabranch.core import cache, errors, sites
from anabranch.core import device as device_names
from anabranch.core.cache import Cache
from anabranch.core.cancellation import CancellationToken
from anabranch.core.contract import hooks
from anabranch.core.contract.api import public
from anabranch.core.graph.graph import Graph, get_default_graph
from anabranch.core.graph.operation import GraphTensor, Operation, Tensor
from anabranch.core.live_set import LiveSet
from anabranch.placement.placer import LOCAL_TASK, Placer
from anabranch.runtime import executor, fast_path, fetching, interrupts, pipeline, step_stats
from anabranch.runtime.interpreter import nested
from anabranch.runtime.plans import shape_families
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.state.resources import ResourceHandle, ResourceManager
from anabranch.runtime.step import Step
from anabranch.runtime.v1 import plans as version_one
from anabranch.xla import engine, memory, single_op
from anabranch.xla import program as programs

TIERS = ("auto", "interpreted", "compiled")
ISOLATION = ("serializable", "read_committed")


@public("SessionOptions")
@dataclasses.dataclass(frozen=True)
class SessionOptions:
    """Options of a session that TensorFlow's ConfigProto has no field for; pass as ``config=``.

    Args:
        tier: ``auto`` (the policy picks, see ``Session.explain``), ``interpreted`` or ``compiled``.
        isolation: ``serializable``, or ``read_committed``: a step does not insist that what it read is still current
            when it commits (Hogwild).
        recoverable: never give variables' buffers to a program, so that a device failure loses nothing; costs memory.
        seed: entropy for ops without a seed; random if None (the environment variable ANABRANCH_SEED is a default).
        precision: matmul and convolution precision: None (platform default), ``"highest"``, ``"high"`` or
            ``"default"``.
        plan_cache_size: how many plans are kept.
        config: a ConfigProto beside these options.
    """

    tier: str = "auto"
    isolation: str = "serializable"
    recoverable: bool = False
    seed: int | None = None
    precision: str | None = None
    plan_cache_size: int = 256
    config: Any = None

    def __post_init__(self) -> None:
        for name, allowed in (
            ("tier", TIERS),
            ("isolation", ISOLATION),
            ("precision", (None, "highest", "high", "default")),
        ):
            if getattr(self, name) not in allowed:
                raise ValueError(
                    errors.message(
                        f"SessionOptions({name}={getattr(self, name)!r})", f"one of {allowed}", f"{name}={allowed[0]!r}"
                    )
                )


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


def handle_of(maker: Operation) -> ResourceHandle:
    """The resource that a handle op names."""
    attrs = maker._attrs
    assert maker.definition.makes is not None
    return ResourceHandle(
        maker.definition.makes,
        attrs.get("container", "") or "",
        attrs.get("shared_name", "") or maker.name,
        device_names.merge_names(LOCAL_TASK, maker._device),
    )


class _Planning(NamedTuple):
    """What plans of nested bodies share with those of the session."""

    handle_of: Callable[[Operation], ResourceHandle]
    placer: Placer
    options: SessionOptions


class BaseSession:
    """What all sessions share; see :class:`Session`."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None):
        if target not in ("", None) and not isinstance(target, (str, bytes)):
            raise TypeError(f"target must be a string, but got {target!r}")
        if target:
            raise errors.UnimplementedError(
                None,
                None,
                errors.message(
                    f"session target {target!r}",
                    "'' (in-process)",
                    "leave target out; remote sessions are not there yet",
                ),
            )
        if graph is not None and not isinstance(graph, Graph):
            raise TypeError(f"graph must be a tf.Graph, but got {type(graph)}")
        self._graph = graph if graph is not None else get_default_graph()
        self._options, self._config = _read_config(config)
        self._manager = ResourceManager(self._options.seed)
        bound = self._options.plan_cache_size
        self._fetch_plans: Cache[Any, fetching.FetchPlan] = Cache("structures of fetches", bound)
        self._plans: Cache[Any, shape_families.Planned] = Cache("plans", bound)
        self._families: Cache[Any, shape_families.Family | None] = Cache("families of shapes", bound)
        self._callables: LiveSet[fetching.FetchPlan] = LiveSet()
        """What callables fetch: each knows a plan."""
        self._placer = Placer(
            lambda platform: len(engine.devices(platform)),
            engine.default_platform,
            bool(getattr(self._config, "allow_soft_placement", False)),
        )
        self._bodies = nested.BodyPlans(_Planning(handle_of, self._placer, self._options))
        self._lock = threading.Lock()
        self._read_committed = self._options.isolation == "read_committed"
        self._closed = False
        self._running: set[CancellationToken] = set()
        self._pipelines: LiveSet[pipeline.Pipeline] = LiveSet()
        timeout = getattr(self._config, "operation_timeout_in_ms", 0)
        self._default_timeout = timeout / 1000 if timeout else None
        _sessions.add(self)

    # ------------------------------------------------------------------------------------------------------ properties
    @property
    def graph(self) -> Graph:
        """The graph launched in this session."""
        return self._graph

    @property
    def graph_def(self) -> Any:
        """The graph as a GraphDef."""
        return self._graph.as_graph_def(add_shapes=True)

    @property
    def sess_str(self) -> str:
        """Target string."""
        return ""

    def list_devices(self) -> list[Any]:
        """The devices that the session can use."""
        found = []
        for platform in dict.fromkeys(("cpu", engine.default_platform())):
            for i, _ in enumerate(engine.devices(platform)):
                found.append(
                    DeviceAttributes(
                        f"/job:localhost/replica:0/task:0/device:{platform.upper()}:{i}", platform.upper(), 0, 0
                    )
                )
        return found

    def as_default(self) -> _Default:
        """A context in which this is the default session of the thread."""
        return _Default(self)

    # -------------------------------------------------------------------------------------------------------------- run
    @sites.filtered_traceback
    def run(self, fetches: Any, feed_dict: Any = None, options: Any = None, run_metadata: Any = None) -> Any:
        """Runs what ``fetches`` need and returns their values in the same structure.

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
        hot = fetch_plan.hot
        if hot is not None and options is None and run_metadata is None and not self._graph._unfeedable:
            known = hot.values(feed_dict)
            if known is not None:
                results = self._run_hot(hot, known)
                if results is not None:
                    return fetch_plan.build(results)
        if feed_dict:
            if not hasattr(feed_dict, "items"):
                raise TypeError(f"feed_dict must be a dictionary, but got {type(feed_dict)}")
            names, values = self._bind(feed_dict)
        else:
            names, values = (), ()
        return fetch_plan.build(self._run(fetch_plan, names, values, options, run_metadata))

    def _fetch_plan(self, fetches: Any) -> fetching.FetchPlan:
        kind = type(fetches)
        key: Any
        if kind is GraphTensor or kind is Operation:
            key = fetches
        elif kind is list or kind is tuple:
            key = (kind, *fetches)
        else:
            return self._new_fetch_plan(fetches)
        try:
            found = self._fetch_plans.get(key)
        except TypeError:  # a list among them
            return self._new_fetch_plan(fetches)
        if found is None:
            if key is not fetches and not all(type(item) is GraphTensor or type(item) is Operation for item in fetches):
                return self._new_fetch_plan(fetches)
            found = self._fetch_plans.add(key, self._new_fetch_plan(fetches))
        return found

    def _new_fetch_plan(self, fetches: Any) -> fetching.FetchPlan:
        if not self._graph._operations:
            raise RuntimeError("The Session graph is empty. Add operations to the graph before calling run().")
        return fetching.FetchPlan(self._graph, fetches)

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

    def _run_hot(self, hot: fast_path.Repetition, values: Sequence[Any]) -> list[Any] | None:
        """Runs a step that is like one before it; None if that one no longer tells how."""
        step = hot.runner.fast
        if step is None or step is not hot.fast or hot.changes != self._graph._changes:
            return None
        token = self._entered(self._default_timeout)
        try:
            results = step.run(values, token, self._read_committed)
            hot.plan.runs += results is not None
            return results
        finally:
            self._left(token)

    def _entered(self, timeout: float | None) -> CancellationToken:
        """The token of a step that begins; `_left` must follow."""
        token = CancellationToken(timeout)
        self._running.add(token)
        if self._closed:
            self._left(token)
            raise RuntimeError("Attempted to use a closed Session.")
        return token

    def _left(self, token: CancellationToken) -> None:
        self._running.discard(token)
        if self._closed and not self._running:
            self._free()

    def _run(
        self,
        fetch_plan: fetching.FetchPlan,
        names: tuple[Tensor, ...],
        values: tuple[Any, ...],
        options: Any = None,
        run_metadata: Any = None,
    ) -> list[Any]:
        changes = self._graph._changes
        plan, runner = self._plan(fetch_plan.unique, names, values)
        if plan.tier not in ("compiled", "tokens"):
            with self._lock:
                plan.spent = self._bodies.spent(plan)
                executor.prepare(plan, self._options.tier)
                plan.runs += 1
        else:
            plan.runs += 1
        timeout = self._default_timeout
        if options is not None and getattr(options, "timeout_in_ms", None):
            timeout = options.timeout_in_ms / 1000
        token = self._entered(timeout)
        try:
            step = Step(self._manager, token, self._read_committed)
            if run_metadata is None or not getattr(options, "trace_level", 0):
                results = runner.run(values, step)
                if step.nested_cost[0]:
                    self._bodies.spend(plan, step.nested_cost[0])
                if plan.tier == "compiled":
                    fetch_plan.hot = fast_path.repetition(changes, names, values, plan, runner)
                return results
            step.stats = []
            results = runner.run(values, step)
            step_stats.fill_metadata(run_metadata, step.stats)
            return results
        finally:
            self._left(token)

    def _start(
        self,
        line: pipeline.Pipeline,
        fetches: Sequence[Any],
        names: tuple[Tensor, ...],
        values: tuple[Any, ...],
        build: Callable[[list[Any]], Any],
    ) -> pipeline.StepInFlight | None:
        """Starts a step of an asynchronous callable; None if it must run at once."""
        plan, runner = self._plan(fetches, names, values)
        fast = getattr(runner, "fast", None)
        if plan.tier != "compiled" or fast is None:
            return None
        token = self._entered(self._default_timeout)
        try:
            step = line.start(fast, values, build, token, self._read_committed)
            plan.runs += step is not None
            return step
        finally:
            self._left(token)

    def _plan(
        self, fetches: Sequence[Any], names: tuple[Tensor, ...], values: tuple[Any, ...]
    ) -> shape_families.Planned:
        key = (tuple(fetches), names, tuple([getattr(value, "shape", value) for value in values]))
        family_key = shape_families.family_of(fetches, names, values)
        changes = self._graph._changes
        found: shape_families.Planned | None = self._plans.get(key, changes)
        if found is not None:
            if found.plan.tier != "interpreted" or family_key is None:
                return found
            family = self._families.get(family_key, changes)
            if family is None or not family.is_compiled:
                return found
            # What the other shapes run is better than a program for this one, to be compiled yet.
        shapes = [getattr(value, "shape", None) for value in values]
        runs = 0

        def make_plan(fetches: Sequence[Any], names: Sequence[Tensor]) -> Plan:
            return Plan(fetches, names, handle_of, self._placer, self._options, shapes)

        with self._graph._lock:
            changes = self._graph._stamp()
            if found is None:
                found = self._plans.peek(key, changes)  # another thread may have made it meanwhile
                if found is not None:
                    return found
            family = None
            if family_key is not None:  # the steps that this one shares a plan with if shapes of feeds keep changing
                family = self._families.get_or_make(
                    family_key,
                    lambda: None if version_one.occurs(fetches, names) else shape_families.Family(),
                    changes,
                )
            if family is not None:
                shared, runs = family.choose(names, values, lambda: self._planned(make_plan(fetches, names)))
                if shared is not None:
                    return shared
            if family is None and version_one.occurs(fetches, names):
                planning = _Planning(handle_of, self._placer, self._options)
                found = shape_families.Planned(
                    *version_one.planned(self._graph, fetches, names, planning, self._manager, self._bodies, make_plan)
                )
                self._bodies.expect(found.plan)
            else:
                found = self._planned(make_plan(fetches, names))
                found.plan.runs = runs
            self._plans.put(key, found, changes)
        return found

    def _planned(self, plan: Plan) -> shape_families.Planned:
        self._bodies.expect(plan)
        return shape_families.Planned(plan, executor.Executor(plan, self._manager, self._bodies))

    def explain(self, fetches: Any, feed_dict: Any = None) -> str:
        """Says what ``run`` with these fetches and feeds does: segments, programs, host ops, the tier and why."""
        unique = fetching.FetchPlan(self._graph, fetches).unique
        names, values = self._bind(feed_dict) if feed_dict else ((), ())
        plan, _ = self._plan(unique, names, values)
        if not plan.tier:
            with self._lock:
                executor.prepare(plan, self._options.tier)
        return plan.explain()

    def explain_caches(self) -> str:
        """Says what is kept so that it need not be made again: a line for each kind of entries.

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
        own: list[cache.Listed] = [self._fetch_plans, self._plans, self._families, *self._bodies.caches]
        for plan, runner in self._plans.values():
            fast = getattr(runner, "fast", None)
            own += [*plan.caches, *(fast.caches if fast is not None else ())]
        for family in self._families.values():
            own += family.caches if family is not None else ()
        for line in self._pipelines:
            own += line.caches
        own += self._placer.caches
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
            engine.let_steps_fly()
            if accept_options or in_flight < 1:
                raise ValueError(
                    errors.message(
                        f"make_callable(asynchronous=True, {accept_options=}, {in_flight=})",
                        "no options per call, and at least one step in flight",
                        "leave accept_options out, or asynchronous",
                    )
                )
            made = pipeline.AsynchronousCallable(self, fetch_plan, names, bind, in_flight)
            self._pipelines.add(made.pipeline)
            return made

        def call(*args: Any, options: Any = None, run_metadata: Any = None) -> Any:
            values = bind(args)
            if (options is not None or run_metadata is not None) and not accept_options:
                raise TypeError("make the callable with accept_options=True to pass options or run_metadata")
            hot = fetch_plan.hot
            if hot is not None and options is None and run_metadata is None and hot.fits(names, values):
                results = self._run_hot(hot, values)
                if results is not None:
                    return fetch_plan.build(results)
            return fetch_plan.build(self._run(fetch_plan, names, values, options, run_metadata))

        return call

    def partial_run_setup(self, fetches: Any, feeds: Any = None) -> Any:
        """Not supported: a step is a transaction."""
        raise NotImplementedError(
            errors.message(
                "partial_run_setup", "one run per step", "split the graph at the tensors that you wanted to feed later"
            )
        )

    def partial_run(self, handle: Any, fetches: Any, feed_dict: Any = None) -> Any:
        """Not supported: a step is a transaction."""
        raise NotImplementedError(
            errors.message(
                "partial_run", "one run per step", "split the graph at the tensors that you wanted to feed later"
            )
        )

    # ---------------------------------------------------------------------------------------------------------- closing
    def close(self) -> None:
        """Cancels running steps and frees the session's variables. Steps in flight end.

        Raises:
            tf.errors.OpError: one of these failed, and nobody has been told.
        """
        if self._closed:
            return
        self._closed = True
        lines = list(self._pipelines)
        for line in lines:
            line.settle()
        for token in list(self._running):
            token.cancel(errors.CancelledError(None, None, "Session was closed."))
        if not self._running:  # else the last step that ends does it
            self._free()
        _sessions.discard(self)
        if not list(_sessions):
            interrupts.restore()
        for line in lines:
            line.raise_failure()

    def _free(self) -> None:
        for fetch_plan in self._callables:
            fetch_plan.hot = None
        for kept in (self._fetch_plans, self._plans, self._families, self._bodies, *self._pipelines):
            kept.close()
        self._manager.clear()
        memory.release_memory()

    def __repr__(self) -> str:
        return f"<tf.{type(self).__name__} of {self._graph!r}{' (closed)' if self._closed else ''}>"


_sessions: LiveSet[BaseSession] = LiveSet()
"""Live sessions of the process, for ``Session.reset``."""


@public("Session")
class Session(BaseSession):
    """Runs a graph's operations; owns its variables.

    Args:
        target: '' for this process.
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
        """Clears the given containers (all if None) in every live session of this process, as ``target=''`` means."""
        if target:
            raise errors.UnimplementedError(
                None, None, errors.message(f"reset of target {target!r}", "''", "remote sessions are not there yet")
            )
        if isinstance(containers, (str, bytes)):
            raise TypeError("containers must be a list of strings")
        for session in _sessions:
            session._manager.clear(containers)


@public("InteractiveSession")
class InteractiveSession(BaseSession):
    """A session that makes itself the default on construction, for shells; ``close`` undoes it."""

    def __init__(self, target: str = "", graph: Graph | None = None, config: Any = None):
        super().__init__(target, graph, config)
        self._default = self.as_default()
        self._default.__enter__()
        self._graph_context = graph.as_default() if graph is not None else None
        if self._graph_context is not None:
            self._graph_context.__enter__()

    def close(self) -> None:
        """Closes the session and stops being the default."""
        if self._closed:
            return
        super().close()
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
