"""``tf.distribute.Strategy``: where variables are and which devices compute, apart from the program that trains.

A program builds its variables in ``strategy.scope()`` and hands the function of a step to ``experimental_run_v2``. The
function is called once for each replica, as if it were alone: its optimizer's ``apply_gradients`` sums the gradients of
all and updates every copy of the variables (:func:`apply_merged`). All of it is ops of one graph, placed on the devices
of the replicas; nothing here runs.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.values import nest
from anabranch.data.dataset import Dataset
from anabranch.distribute import inputs, reductions, replicas, values
from anabranch.distribute.reductions import ReduceOp
from anabranch.distribute.reductions import reduce_op as as_reduce_op
from anabranch.distribute.values import PerReplica
from anabranch.distribute.variables import MirroredVariable, SyncOnReadVariable
from anabranch.ops.control.public_dependencies import group
from anabranch.variables import replica_frames
from anabranch.variables.replica_frames import Frame
from anabranch.variables.scope_state import VariableAggregation, VariableSynchronization
from anabranch.variables.variable import variable_creator_scope

_OF_A_REPLICA = re.compile(r"_\d+(/|$)")
"""Numbers at the ends of names, by which replicas do not tell variables apart: a replica may give them its own."""


@public("distribute.StrategyExtended")
class StrategyExtended:
    """What libraries use of a strategy.

    Args:
        container_strategy: the strategy.
        devices: the devices of the replicas.
        mirrors: whether each replica has a copy of the variables; otherwise there is one.
        variable_device: where variables are that have no copies: a device, a function of ops, or None.
        cross_device_ops: how values are reduced.
    """

    experimental_between_graph = False
    experimental_should_init = True
    experimental_require_static_shapes = False
    should_checkpoint = True
    should_save_summary = True

    def __init__(
        self,
        container_strategy: Any,
        devices: Sequence[str] = ("",),
        mirrors: bool = False,
        variable_device: Any = None,
        cross_device_ops: Any = None,
    ) -> None:
        self._strategy = container_strategy
        self._devices = tuple(devices)
        self._mirrors = mirrors and len(self._devices) > 1
        self._variable_device = variable_device
        self._cross = cross_device_ops or reductions.CrossDeviceOps()
        self._colocates = False

    @property
    def worker_devices(self) -> tuple[str, ...]:
        """The devices of the replicas."""
        return self._devices

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        """The devices of variables."""
        if self._mirrors or self._variable_device is None:
            return self._devices
        return (self._variable_device,) if isinstance(self._variable_device, str) else ()

    # -------------------------------------------------------------------------------------------------------- variables
    def create(self, next_creator: Callable[..., Any], **arguments: Any) -> Any:
        """Make a variable as the strategy wants it: a resource, as all are in TensorFlow's strategies."""
        frame = replica_frames.top()
        by_proto = arguments.get("variable_def") is not None
        if not by_proto:
            arguments["use_resource"] = True
        if by_proto or (frame is not None and frame.updates is not None) or self._colocates:
            return next_creator(**arguments)
        running = replicas.current()
        if running is None:
            return self._made(next_creator, arguments)
        name = _OF_A_REPLICA.sub(r"\1", arguments.get("name") or "Variable")
        place = running.taken[name] = running.taken.get(name, 0) + 1
        known = running.shared.setdefault(name, [])
        if len(known) < place:
            if frame is not None and frame.replica.replica_id_in_sync_group:
                raise RuntimeError(
                    "Tried to create variable with mismatching name on device\n"
                    + errors.message(
                        f"a variable {name!r} that only a later replica makes",
                        "the same variables in each replica",
                        "make variables in strategy.scope(), or without regard to the replica's number",
                    )
                )
            known.append(self._made(next_creator, arguments))
        return known[place - 1]

    @staticmethod
    def _is_colocated(builder: Any) -> bool:
        """Whether something around says already where variables are: beside another one, as slots."""
        return bool(builder.defers and builder._scopes.colocation)

    def _made(self, next_creator: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        builder = current_builder()
        if not self._mirrors:
            if self._variable_device is None or self._is_colocated(builder):
                return next_creator(**arguments)
            with builder.device(self._variable_device):
                return next_creator(**arguments)
        if not builder.defers:
            raise errors.UnimplementedError(
                None,
                None,
                errors.message(
                    "variables on several replicas where ops run at once",
                    "a graph",
                    "build the step in a tf.Graph, or tf.distribute.OneDeviceStrategy",
                ),
            )
        aggregation = VariableAggregation(arguments.get("aggregation") or VariableAggregation.NONE)
        synchronization = VariableSynchronization(arguments.get("synchronization") or VariableSynchronization.AUTO)
        collections = arguments.get("collections")
        with builder.colocate_with(None, ignore_existing=True):
            copies: list[Any] = []
            for number, device in enumerate(self._devices):
                own = {**arguments, "collections": [], "use_resource": True, "caching_device": None}
                own["trainable"] = False
                if number:
                    first = copies[0]
                    own |= {"name": f"{first._shared_name}/replica_{number}", "initial_value": first._initial_value}
                    own |= {"dtype": None, "expected_shape": None}
                with contextlib.ExitStack() as scopes:
                    if number:
                        scopes.enter_context(builder.name_scope(None))
                    scopes.enter_context(builder.device(device))
                    copies.append(next_creator(**own))
        kind = SyncOnReadVariable if synchronization is VariableSynchronization.ON_READ else MirroredVariable
        variable = kind(self._strategy, copies, aggregation)
        trainable = arguments.get("trainable")
        is_read = synchronization is VariableSynchronization.ON_READ
        variable._trainable = (not is_read) if trainable is None else bool(trainable)
        variable._synchronization = synchronization
        variable._add_to_collections(collections)
        return variable

    @contextlib.contextmanager
    def colocate_vars_with(self, colocate_with_variable: Any) -> Iterator[None]:
        """Make variables beside another one: where that has copies they have, too."""
        with current_builder().colocate_with(colocate_with_variable):
            yield

    def variable_created_in_scope(self, v: Any) -> bool:
        """Whether a variable is one of the strategy."""
        return getattr(v, "_strategy", self._strategy if not self._mirrors else None) is self._strategy

    def read_var(self, v: Any) -> Any:
        """The value of a variable."""
        return v.read_value()

    def value_container(self, value: Any) -> Any:
        """The object that stands for a copy of a variable and its like."""
        return value

    def non_slot_devices(self, var_list: Any) -> Any:
        """Where variables of an optimizer are that belong to no other."""
        return min(var_list, key=lambda variable: variable.name)

    # --------------------------------------------------------------------------------------------------------- replicas
    def call_for_each_replica(self, fn: Callable[..., Any], args: Any = (), kwargs: Any = None) -> Any:
        """Call a function for each replica with its own values; the results of all."""
        with contextlib.ExitStack() as scopes:
            frame = replica_frames.top()
            if frame is None or frame.strategy is not self._strategy:
                scopes.enter_context(self._strategy.scope())
            elif frame.replica is not None or frame.updates is not None:
                raise RuntimeError(
                    "Method requires being in cross-replica context, use get_replica_context().merge_call()\n"
                    + errors.message(
                        "replicas called for within a replica", "a call from no replica", "call the function itself"
                    )
                )
            if len(self._devices) > 1:
                return replicas.run(self._strategy, fn, args, dict(kwargs or {}))
            context = replicas.ReplicaContext(self._strategy, 0)
            own_args, own_kwargs = values.select(0, tuple(args)), values.select(0, dict(kwargs or {}))
            with replica_frames.within(Frame(self._strategy, context)):
                if not self._devices[0]:
                    return fn(*own_args, **own_kwargs)
                with current_builder().device(self._devices[0]):
                    return fn(*own_args, **own_kwargs)

    # ------------------------------------------------------------------------------------------------ between replicas
    def reduce_to(self, reduce_op: Any, value: Any, destinations: Any) -> Any:
        """The sum or mean of a value of each replica, on devices."""
        result = self._cross.reduce(as_reduce_op(reduce_op), value, destinations)
        return result.values[0] if isinstance(result, PerReplica) and len(result.values) == 1 else result

    def batch_reduce_to(self, reduce_op: Any, value_destination_pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
        """:meth:`reduce_to` of each pair."""
        return [self.reduce_to(reduce_op, value, where) for value, where in value_destination_pairs]

    def broadcast_to(self, tensor: Any, destinations: Any) -> Any:
        """A tensor on devices."""
        return self._cross.broadcast(tensor, destinations)

    def update(self, var: Any, fn: Callable[..., Any], args: Any = (), kwargs: Any = None, group: bool = True) -> Any:
        """Call ``fn(variable, *args)`` for each copy of a variable, on its device, with the values for it."""
        count = len(var.values) if isinstance(var, MirroredVariable) else 1
        results = []
        for number in range(count):
            with replica_frames.within(Frame(self._strategy, None, number)), current_builder().colocate_with(var):
                own = values.select(number, (tuple(args), dict(kwargs or {})))
                results.append(fn(var, *own[0], **own[1]))
        return _grouped(results) if group else values.regroup(results)

    def update_non_slot(
        self, colocate_with: Any, fn: Callable[..., Any], args: Any = (), kwargs: Any = None, group: bool = True
    ) -> Any:
        """Call ``fn(*args)`` where variables of an optimizer are that belong to no other."""
        return self.update(colocate_with, lambda _, *a, **k: fn(*a, **k), args, kwargs, group)

    def experimental_make_numpy_dataset(self, numpy_input: Any, session: Any = None) -> Any:
        """A dataset of the rows of arrays."""
        return Dataset.from_tensor_slices(numpy_input)


def _grouped(results: Sequence[Any]) -> Any:
    return group(*[getattr(item, "op", item) for result in results for item in nest.flatten(result)])


@public("distribute.Strategy")
class Strategy:
    """Base of strategies: variables made in :meth:`scope` and functions of replicas.

    Args:
        extended: a :class:`StrategyExtended`.
    """

    def __init__(self, extended: Any) -> None:
        self._extended = extended

    @property
    def extended(self) -> Any:
        """What libraries use."""
        return self._extended

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas there are."""
        return len(self._extended.worker_devices)

    @contextlib.contextmanager
    def scope(self) -> Iterator[Any]:
        """Make variables as the strategy wants them, inside the block."""
        frame = replica_frames.top()
        if frame is not None and frame.strategy is not self:
            raise RuntimeError(
                "Mixing different tf.distribute.Strategy objects\n"
                + errors.message("the scope of a second strategy", "one strategy", "leave the first scope before")
            )
        if frame is not None:
            yield self
            return
        with replica_frames.within(Frame(self)), variable_creator_scope(self._extended.create):
            yield self

    def experimental_run_v2(self, fn: Callable[..., Any], args: Any = (), kwargs: Any = None) -> Any:
        """Call a function for each replica; where replicas have values of their own it gets these.

        Returns:
            The results of all: what differs as a value of each replica (:meth:`experimental_local_results`).
        """
        return self._extended.call_for_each_replica(fn, args, kwargs)

    run = experimental_run_v2

    def experimental_run(self, fn: Callable[..., Any], input_iterator: Any = None) -> Any:
        """Call a function for each replica with the next values of an iterator."""
        with self.scope():
            args = () if input_iterator is None else (input_iterator.get_next(),)
        return self.experimental_run_v2(fn, args)

    def reduce(self, reduce_op: Any, value: Any, axis: int | None = None) -> Any:
        """The sum or mean of the values of all replicas, and of an axis of each if one is given."""
        how = as_reduce_op(reduce_op)
        parts = [convert.convert_to_tensor(part) for part in self.experimental_local_results(value)]
        if axis is None:
            return reductions.reduced(how, parts)
        sums = [build("Sum", part, [axis]) for part in parts]
        total = reductions.reduced(ReduceOp.SUM, sums)
        if how is ReduceOp.SUM:
            return total
        counts = [build("Cast", build("GatherV2", build("Shape", p), axis, 0), DstT=total.dtype) for p in parts]
        return build("RealDiv", total, reductions.reduced(ReduceOp.SUM, counts))

    def experimental_local_results(self, value: Any) -> tuple[Any, ...]:
        """The values of all replicas."""
        if isinstance(value, PerReplica | MirroredVariable):
            return tuple(value.values)
        return (value,)

    unwrap = experimental_local_results

    def group(self, value: Any, name: str | None = None) -> Any:
        """An operation that runs after the values of all replicas."""
        flat = [part for item in nest.flatten(value) for part in self.experimental_local_results(item)]
        return group(*flat, name=name)

    def make_dataset_iterator(self, dataset: Any) -> inputs.DistributedIterator:
        """An iterator that cuts each element of a dataset, a global batch, into parts for the replicas."""
        return self.experimental_distribute_dataset(dataset).make_initializable_iterator()

    def make_input_fn_iterator(
        self, input_fn: Callable[..., Any], replication_mode: Any = inputs.InputReplicationMode.PER_WORKER
    ) -> inputs.DistributedIterator:
        """An iterator of the dataset that ``input_fn(input_context)`` makes: each replica has elements of its own."""
        return inputs.of_function(self.num_replicas_in_sync, input_fn)

    def experimental_distribute_dataset(self, dataset: Any) -> inputs.DistributedDataset:
        """A dataset of global batches, of which each replica gets its part."""
        return inputs.DistributedDataset(self.num_replicas_in_sync, dataset, True)

    def experimental_distribute_datasets_from_function(self, dataset_fn: Callable[..., Any]) -> Any:
        """A dataset of batches for each replica."""
        dataset = dataset_fn(inputs.InputContext(1, 0, self.num_replicas_in_sync))
        return inputs.DistributedDataset(self.num_replicas_in_sync, dataset, False)

    def experimental_make_numpy_dataset(self, numpy_input: Any, session: Any = None) -> Any:
        """A dataset of the rows of arrays."""
        return self._extended.experimental_make_numpy_dataset(numpy_input, session)

    def colocate_vars_with(self, colocate_with_variable: Any) -> Any:
        """Make variables beside another one."""
        return self._extended.colocate_vars_with(colocate_with_variable)

    def configure(
        self, session_config: Any = None, cluster_spec: Any = None, task_type: Any = None, task_id: Any = None
    ) -> None:
        """Adapt a ConfigProto to the strategy: nothing is to be done."""

    def update_config_proto(self, config_proto: Any) -> Any:
        """A copy of a ConfigProto, adapted to the strategy."""
        copied = type(config_proto)()
        copied.CopyFrom(config_proto)
        return copied


def apply_gradients(optimizer: Any, pairs: list[tuple[Any, Any]], global_step: Any, name: str | None) -> Any:
    """Apply gradients in the way of the strategy in force; NotImplemented where there is none, or one replica.

    Raises:
        RuntimeError: no function of a replica runs.
    """
    frame = replica_frames.top()
    if frame is None or frame.updates is not None:
        return NotImplemented
    if frame.replica is not None and frame.strategy.num_replicas_in_sync == 1:
        return NotImplemented
    if frame.replica is None:
        raise RuntimeError(
            "apply_gradients() cannot be called in cross-replica context. Use `tf.distribute.Strategy."
            "experimental_run_v2` to enter replica context.\n"
            + errors.message(
                "gradients between replicas",
                "a function of a replica that computes and applies them",
                "strategy.experimental_run_v2(step_fn, args=(batch,))",
            )
        )
    gradients, variables = [grad for grad, _ in pairs], [variable for _, variable in pairs]

    def merge(strategy: Any, *args: Any) -> Any:
        return apply_merged(strategy, optimizer, *args)  # each replica may have made an optimizer: the first one's

    return frame.replica.merge_call(merge, args=(gradients, variables, global_step, name))


def apply_merged(
    strategy: Any, optimizer: Any, gradients: list[Any], variables: list[Any], global_step: Any, name: str | None
) -> Any:
    """Sum the gradients of all replicas, and update each copy of the variables; those without copies once."""
    builder = current_builder()
    devices = strategy.extended.worker_devices
    kept = [i for i, gradient in enumerate(gradients) if gradient is not None]
    variables = [variables[i] for i in kept]
    wide = [devices if isinstance(v, MirroredVariable) else devices[:1] for v in variables]
    pairs = [(gradients[i], where) for i, where in zip(kept, wide, strict=True)]
    summed = strategy.extended.batch_reduce_to(ReduceOp.SUM, pairs)
    with builder.init_scope():
        optimizer._create_slots(variables)
    updates = []
    for number, device in enumerate(devices):
        own = [
            (values.select(number if isinstance(v, MirroredVariable) else 0, total), v)
            for total, v in zip(summed, variables, strict=True)
            if isinstance(v, MirroredVariable) or not number
        ]
        step = global_step if isinstance(global_step, MirroredVariable) or not number else None
        if own:
            with replica_frames.within(Frame(strategy, None, number)), builder.device(device):
                updates.append(optimizer.apply_gradients(own, step, name))
    return group(*updates)


hooks.fill("apply_in_replicas", apply_gradients)


@public("distribute.OneDeviceStrategy")
class OneDeviceStrategy(Strategy):
    """One replica, with its variables on its device.

    Args:
        device: its name.

    Example:
        >>> import anabranch as tf
        >>> strategy = tf.distribute.OneDeviceStrategy("/cpu:0")
        >>> with strategy.scope():
        ...     w = tf.Variable(2.0)
        >>> tripled = strategy.experimental_run_v2(lambda x: x * w, args=(3.0,))
        >>> with tf.Session() as session:
        ...     session.run(w.initializer)
        ...     print(session.run(tripled))
        6.0
    """

    def __init__(self, device: str) -> None:
        super().__init__(StrategyExtended(self, [device], variable_device=device))


class _NoStrategy(Strategy):
    """What is in force where nothing is."""

    def __init__(self) -> None:
        super().__init__(StrategyExtended(self))

    @contextlib.contextmanager
    def scope(self) -> Iterator[Any]:
        """Change nothing."""
        yield self


replicas._default.append(_NoStrategy())
