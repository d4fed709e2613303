"""Strategies by the words of TensorFlow 1.8: towers, where later versions say replicas.

The same strategies with other methods: functions get their arguments one by one (``call_for_each_tower(fn, x)``, not
``args=(x,)``), reductions are named by strings, ``fetch`` and ``distribute_dataset`` are methods. Where a name stayed
and its meaning changed (``reduce``, whose third argument was a place and is an axis), the argument's type tells which.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.distribute import inputs, reductions, replicas
from anabranch.distribute.reductions import ReduceOp
from anabranch.distribute.reductions import reduce_op as as_reduce_op
from anabranch.distribute.strategy import Strategy
from anabranch.distribute.values import PerReplica
from anabranch.distribute.variables import MirroredVariable
from anabranch.variables import replica_frames
from anabranch.variables.scope_state import VariableAggregation, VariableSynchronization
from anabranch.variables.variable import variable_creator_scope


class TowerStrategy(Strategy):
    """A strategy with the methods of 1.8 beside its own."""

    @property
    def num_towers(self) -> int:
        """How many towers there are."""
        return self.num_replicas_in_sync

    @property
    def is_single_tower(self) -> bool:
        """Whether there is one tower."""
        return self.num_towers == 1

    @property
    def worker_devices(self) -> list[str]:
        """The devices of the towers."""
        return list(self.extended.worker_devices)

    @property
    def parameter_devices(self) -> list[str]:
        """The devices of variables."""
        return list(self.extended.parameter_devices)

    @property
    def worker_device_index(self) -> Any:
        """The number of each tower, as an argument for :meth:`call_for_each_tower`."""
        count = len(self.extended.worker_devices)
        return PerReplica(range(count)) if count > 1 else 0

    def non_slot_devices(self, var_list: Sequence[Any]) -> Any:
        """Where variables of an optimizer are that belong to no other."""
        return self.extended.non_slot_devices(var_list)

    def call_for_each_tower(self, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call a function for each tower with its own values.

        Args:
            fn: the function.
            args: its arguments.
            kwargs: the same by name; ``run_concurrently`` is not one of them, and changes nothing.
        """
        kwargs.pop("run_concurrently", None)
        _require_scope(self)
        return self.extended.call_for_each_replica(fn, args, kwargs)

    def distribute_dataset(self, dataset_fn: Callable[[], Any]) -> inputs.DistributedDataset:
        """The dataset that a function makes, of which each tower gets elements of its own."""
        return inputs.DistributedDataset(len(self.extended.worker_devices), dataset_fn(), False)

    def broadcast(self, tensor: Any, destinations: Any = None) -> Any:
        """A tensor on devices: those of the towers, if none are named."""
        where = self.extended.worker_devices if destinations is None else destinations
        return _single(self.extended.broadcast_to(tensor, where))

    def reduce(self, reduce_op: Any, value: Any, axis: Any = None, destinations: Any = None) -> Any:
        """The sum or mean of a value of each tower.

        Args:
            reduce_op: ``"sum"``, ``"mean"``, or a ``tf.distribute.ReduceOp``.
            value: a value of each tower, or what :meth:`map` gives.
            axis: an axis to reduce as well; or, as in 1.8, what ``destinations`` is.
            destinations: where the result is: a device, several, or a variable.
        """
        if axis is not None and not isinstance(axis, int):
            axis, destinations = None, axis
        if isinstance(value, _Mapped):
            how = as_reduce_op(reduce_op)
            result = reductions.reduced(how, [convert.convert_to_tensor(part) for part in value.values])
            if axis is not None:
                result = build("Sum" if how is ReduceOp.SUM else "Mean", result, [axis])
            if destinations is None:
                return result
            copies = reductions.copied(result, reductions.devices_of(destinations))
            return _single(copies)
        if destinations is None:
            return super().reduce(reduce_op, value, axis)
        return self.extended.reduce_to(reduce_op, value, destinations)

    def batch_reduce(self, method_string: Any, value_destination_pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
        """:meth:`reduce` of each pair of a value and its destinations."""
        return self.extended.batch_reduce_to(method_string, value_destination_pairs)

    def update(self, var: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call ``fn(variable, *args)`` for each copy of a variable, on its device; the results of all."""
        return self.extended.update(var, fn, args, kwargs, group=False)

    def update_non_slot(self, colocate_with: Any, fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call ``fn(*args)`` where variables of an optimizer are that belong to no other; the results of all."""
        return self.extended.update_non_slot(colocate_with, fn, args, kwargs, group=False)

    def fetch(self, val: Any, destination: str = "/device:CPU:0", fn: Callable[[Any], Any] = lambda x: x) -> Any:
        """One value of a variable or of what towers share, on a device."""
        parts = self.experimental_local_results(val)
        value = convert.convert_to_tensor(fn(val if isinstance(val, MirroredVariable) else parts[0]))
        with current_builder().device(destination):
            return reductions.copied(value, ["", destination]).values[1]

    def map(self, map_over: Sequence[Any], fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call ``fn(element, *args)`` for each element of a list, all on the first tower's device."""
        _require_scope(self)
        with current_builder().device(self.worker_devices[0]):
            return _Mapped([fn(element, *args, **kwargs) for element in map_over])

    def unwrap(self, value: Any) -> list[Any]:  # type: ignore[override]
        """The values of all towers."""
        return list(value.values) if isinstance(value, _Mapped) else list(self.experimental_local_results(value))

    def tower_local_var_scope(self, reduce_method: str) -> Any:
        """A block in which each tower writes its own copy of the variables that are made; read as their aggregate."""

        def create(next_creator: Callable[..., Any], **arguments: Any) -> Any:
            arguments["synchronization"] = VariableSynchronization.ON_READ
            arguments["aggregation"] = VariableAggregation[as_reduce_op(reduce_method).name]
            return next_creator(**arguments)

        _require_scope(self)
        return variable_creator_scope(create)


class _Mapped:
    """What :meth:`TowerStrategy.map` gives."""

    def __init__(self, values: Sequence[Any]) -> None:
        self.values = values


def _single(value: Any) -> Any:
    return value.values[0] if isinstance(value, PerReplica) and len(value.values) == 1 else value


def _require_scope(strategy: Strategy) -> None:
    frame = replica_frames.top()
    if frame is None or frame.strategy is not strategy:
        raise RuntimeError(
            f'Need to be inside "with distribution_strategy.scope()" for {strategy}\n'
            + errors.message("towers outside the scope of their strategy", "a call in its scope", "strategy.scope()")
        )


@public("contrib.distribute.TowerContext")
class TowerContext:
    """What the function of a tower asks who it is, and by which it meets the others.

    Args:
        context: the same as replicas have it.
    """

    def __init__(self, context: replicas.ReplicaContext) -> None:
        self._context = context

    def merge_call(self, merge_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Wait for all towers, and call ``merge_fn(strategy, *args, **kwargs)`` once with the values of all."""
        return self._context.merge_call(merge_fn, args, kwargs)

    def tower_local_var_scope(self, reduce_method: str) -> Any:
        """A block in which each tower writes its own copy of the variables that are made."""
        return self.distribution_strategy.tower_local_var_scope(reduce_method)

    @property
    def distribution_strategy(self) -> Any:
        """The strategy."""
        return self._context.strategy

    @property
    def tower_id(self) -> int:
        """The number of the tower."""
        return self._context.replica_id_in_sync_group

    @property
    def num_towers(self) -> int:
        """How many towers there are."""
        return self._context.num_replicas_in_sync

    @property
    def is_single_tower(self) -> bool:
        """Whether there is one tower."""
        return self.num_towers == 1

    @property
    def device(self) -> str:
        """The device of the tower."""
        return self._context.devices[0]


@public("contrib.distribute.get_tower_context")
def get_tower_context() -> TowerContext | None:
    """The context of the tower whose function runs; None between towers."""
    context = replicas.get_replica_context()
    if context is not None and context.tower is None:
        context.tower = TowerContext(context)
    tower: TowerContext | None = None if context is None else context.tower
    return tower


@public("contrib.distribute.get_cross_tower_context", "contrib.distribute.get_cross_replica_context")
def get_cross_tower_context() -> Any:
    """The strategy in force, where no function of a tower runs; else None."""
    return replicas.get_strategy() if replicas.in_cross_replica_context() else None


@public("contrib.distribute.require_tower_context")
def require_tower_context(tower_ctx: TowerContext) -> None:
    """Raise unless a tower's function runs.

    Raises:
        RuntimeError: it does not, or another one does.
    """
    own = get_tower_context()
    if own is None or own._context is not tower_ctx._context:
        raise RuntimeError(
            "Need to be inside `call_for_each_tower()`\n"
            + errors.message("a context of no tower, or of another one", "that of the tower", "get_tower_context()")
        )


def in_cross_tower_context() -> bool:
    """Whether a strategy is in force and no function of a tower runs."""
    return replicas.in_cross_replica_context()
