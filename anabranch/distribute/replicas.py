"""The functions of replicas, run one after the other and together at the points where they merge.

Policy. Each replica has a thread, of which one runs at a time: a replica runs until it ends or merges
(``ReplicaContext.merge_call``); when all have come to that point the function that merges is called once, in the thread
of the caller, with the values of all. So what replicas build has one order, that of their numbers. A thread begins with
what surrounds the caller: default graph, scopes, control dependencies. Replica 0 makes the variables; the others get
those of the same names, in the same order.
"""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from anabranch.core import errors, thread_context
from anabranch.core.contract.api import public
from anabranch.core.graph.default_graph import get_default_graph
from anabranch.distribute import values
from anabranch.distribute.reductions import reduce_op as as_reduce_op
from anabranch.variables import replica_frames, variable
from anabranch.variables.replica_frames import Frame
from anabranch.variables.scope import variable_scope
from anabranch.variables.scope_state import get_variable_scope, scope_store


@public("distribute.ReplicaContext")
class ReplicaContext:
    """What the function of a replica asks who it is, and by which it meets the others.

    Args:
        strategy: whose replica.
        replica_id_in_sync_group: its number.
    """

    def __init__(self, strategy: Any, replica_id_in_sync_group: int) -> None:
        self._strategy, self._number = strategy, replica_id_in_sync_group
        self.tower: Any = None
        """The same as a tower of TensorFlow 1.8, once somebody has asked (:mod:`anabranch.distribute.towers`)."""
        self._merge: Callable[..., Any] | None = None

    @property
    def strategy(self) -> Any:
        """The strategy."""
        return self._strategy

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas there are."""
        count: int = self._strategy.num_replicas_in_sync
        return count

    @property
    def replica_id_in_sync_group(self) -> int:
        """The number of the replica."""
        return self._number

    @property
    def devices(self) -> tuple[str, ...]:
        """The device of the replica, as a tuple."""
        return (self._strategy.extended.worker_devices[self._number],)

    def merge_call(self, merge_fn: Callable[..., Any], args: Any = (), kwargs: Any = None) -> Any:
        """Wait for all replicas, and call ``merge_fn(strategy, *args, **kwargs)`` once with the values of all.

        Args:
            merge_fn: a function of the strategy and of values of all replicas; the first replica's is called.
            args: arguments; where replicas differ in one, the function gets all.
            kwargs: the same by name.

        Returns:
            Its result, of which each replica gets its own part.
        """
        if self._merge is not None:
            return self._merge(merge_fn, tuple(args), dict(kwargs or {}))
        with replica_frames.within(Frame(self._strategy)):
            return values.select(self._number, merge_fn(self._strategy, *args, **(kwargs or {})))

    def all_reduce(self, reduce_op: Any, value: Any) -> Any:
        """The sum or mean of the values of all replicas."""
        how = as_reduce_op(reduce_op)

        def merge(strategy: Any, value: Any) -> Any:
            return strategy.extended.batch_reduce_to(how, [(part, strategy.extended.worker_devices) for part in value])

        flat = values.nest.flatten(value)
        return values.nest.pack_sequence_as(value, self.merge_call(merge, args=(flat,)))


class _Merge(NamedTuple):
    function: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    scopes: dict[str, Any]


def _scopes_of(graph: Any) -> dict[str, Any]:
    return dict(vars(graph._scopes))


class _Replica:
    def __init__(self, strategy: Any, number: int, work: Callable[[], Any], shared: dict[Any, list[Any]]) -> None:
        self._graph = get_default_graph()
        self._context = ReplicaContext(strategy, number)
        self._context._merge = self._meet
        self._frame = Frame(strategy, self._context)
        self._work, self.shared = work, shared
        self.taken: dict[Any, int] = {}
        """By name how many variables of that name it has made, or taken from the first."""
        self._surrounded = thread_context.capture()
        self._scopes = _scopes_of(self._graph)
        self._store = copy.deepcopy(scope_store(self._graph).counts), scope_store(self._graph).current_scope
        self._creators = list(variable._creators.stack)
        self.counts: dict[str, int] = {}
        self._turn, self._back = threading.Semaphore(0), threading.Semaphore(0)
        self.merge: _Merge | None = None
        self.result: Any = None
        self.problem: BaseException | None = None
        self.ended = self._given_up = False
        self._answer: Any = None
        self._thread = threading.Thread(target=self._run, name=f"anabranch replica {number}", daemon=True)
        self._thread.start()

    def resume(self, answer: Any = None) -> None:
        """Let it run until it ends or merges."""
        self._answer, self.merge = answer, None
        self._turn.release()
        self._back.acquire()

    def give_up(self) -> None:
        """End its thread, as another replica has failed."""
        if not self.ended:
            self._given_up = True
            self.resume()
        self._thread.join()

    def _meet(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        self.merge = _Merge(function, args, kwargs, _scopes_of(self._graph))
        self._back.release()
        self._turn.acquire()
        if self._given_up:
            raise _GivenUp
        return self._answer

    def _run(self) -> None:
        self._turn.acquire()
        try:
            if not self._given_up:
                self.result = self._surrounded(self._build)
        except _GivenUp:
            pass
        except BaseException as problem:
            self.problem = problem
        finally:
            self.ended = True
            self._back.release()

    def _build(self) -> Any:
        graph, number = self._graph, self._context.replica_id_in_sync_group
        vars(graph._scopes).update(self._scopes)
        store = scope_store(graph)
        store.counts, store.current_scope = self._store
        variable._creators.stack[:] = self._creators
        device = self._frame.strategy.extended.worker_devices[number]
        with replica_frames.within(self._frame), graph.device(device):
            try:
                if not number:
                    return self._work()
                scope = get_variable_scope()
                with graph.name_scope(f"replica_{number}"):
                    with variable_scope(scope, reuse=True, auxiliary_name_scope=False):
                        return self._work()
            finally:
                self.counts = store.counts


class _GivenUp(BaseException):
    """Another replica has failed."""


def current() -> _Replica | None:
    """The replica that runs now."""
    frame = replica_frames.top()
    merge = None if frame is None or frame.replica is None else frame.replica._merge
    return None if merge is None else merge.__self__


def run(strategy: Any, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a function for each replica with its values; the results of all.

    Raises:
        RuntimeError: some replicas merge where others have ended.
    """
    count = len(strategy.extended.worker_devices)
    shared: dict[Any, list[Any]] = {}
    graph = get_default_graph()

    def work(number: int) -> Callable[[], Any]:
        own_args, own_kwargs = values.select(number, tuple(args)), values.select(number, kwargs)
        return lambda: function(*own_args, **own_kwargs)

    replicas = [_Replica(strategy, number, work(number), shared) for number in range(count)]
    try:
        for replica in replicas:
            _resume(replica, None)
        while not all(replica.ended for replica in replicas):
            merges = [replica.merge for replica in replicas]
            if any(merge is None for merge in merges):
                raise RuntimeError(
                    "Some replicas called merge_call() and others did not.\n"
                    + errors.message(
                        "replicas that do different things",
                        "functions that merge (apply gradients, update variables) equally often on each replica",
                        "no branches on replica_id_in_sync_group around such calls",
                    )
                )
            results = _merged(strategy, graph, [merge for merge in merges if merge is not None])
            for number, replica in enumerate(replicas):
                _resume(replica, values.select(number, results))
    finally:
        for replica in replicas:
            replica.give_up()
    scope_store(graph).counts = replicas[0].counts
    return values.regroup([replica.result for replica in replicas])


def _resume(replica: _Replica, answer: Any) -> None:
    replica.resume(answer)
    if replica.problem is not None:
        raise replica.problem


def _merged(strategy: Any, graph: Any, merges: Sequence[_Merge]) -> Any:
    args = values.regroup([merge.args for merge in merges])
    kwargs = values.regroup([merge.kwargs for merge in merges])
    before = _scopes_of(graph)
    first = merges[0].scopes
    try:
        graph._scopes.name, graph._scopes.controls = first["name"], first["controls"]
        with replica_frames.within(Frame(strategy)):
            return merges[0].function(strategy, *args, **kwargs)
    finally:
        vars(graph._scopes).update(before)


@public("distribute.get_replica_context")
def get_replica_context() -> ReplicaContext | None:
    """The context of the replica whose function runs; None between them; without a strategy that of the only one."""
    frame = replica_frames.top()
    if frame is None:
        if not _outside:
            _outside.append(ReplicaContext(get_strategy(), 0))
        return _outside[0]
    context: ReplicaContext | None = frame.replica
    return context


@public("distribute.in_cross_replica_context")
def in_cross_replica_context() -> bool:
    """Whether a strategy is in force and no function of a replica runs."""
    frame = replica_frames.top()
    return frame is not None and frame.replica is None


@public("distribute.has_strategy")
def has_strategy() -> bool:
    """Whether a strategy is in force."""
    frame = replica_frames.top()
    return frame is not None and frame.strategy is not _default[0]


_default: list[Any] = []
_outside: list[ReplicaContext] = []
"""The context without a strategy: always the same one."""


@public("distribute.get_strategy")
def get_strategy() -> Any:
    """The strategy in force; one that does nothing if there is none."""
    frame = replica_frames.top()
    return _default[0] if frame is None else frame.strategy
