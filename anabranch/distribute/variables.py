"""Variables with a copy on the device of each replica.

A mirrored variable is one object for all copies, which are ordinary variables behind handles. For the function of a
replica it stands for the replica's copy, for an update on a device for the copy there, otherwise for the first
(:mod:`anabranch.variables.replica_frames`). Optimizers, slots and layers see a resource variable and need not know.

Copies begin with the value of the first, and each update is made on all. One whose copies are brought together when
they are read (``VariableSynchronization.ON_READ``, as for moving averages of statistics) lets each replica write its
own copy; read between replicas it is their sum or mean. A checkpoint has one entry, that of the first name.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.distribute import reductions
from anabranch.distribute.values import PerReplica
from anabranch.ops.control.public_dependencies import group
from anabranch.variables import replica_frames
from anabranch.variables.resource_variable import ResourceVariable
from anabranch.variables.scope_state import VariableAggregation


def _of_copy(name: str) -> Any:
    return property(lambda self: getattr(self._copy, name))


class MirroredVariable(ResourceVariable):
    """A variable with a copy for each replica.

    Args:
        strategy: whose replicas.
        copies: a variable on the device of each.
        aggregation: how updates that replicas make become one.
    """

    def __init__(self, strategy: Any, copies: Sequence[ResourceVariable], aggregation: VariableAggregation) -> None:
        first = copies[0]
        self._strategy = strategy
        self._copies = tuple(copies)
        self._name, self._dtype, self._trainable = first._name, first._dtype, first._trainable
        self._synchronization, self._aggregation = first._synchronization, aggregation
        self._constraint = first._constraint
        self._initializers: Operation | None = None

    _handle = _of_copy("_handle")
    _graph_element = _of_copy("_graph_element")
    _snapshot = _of_copy("_snapshot")
    _cached = _of_copy("_cached")
    _is_initialized_op = _of_copy("_is_initialized_op")
    _initial_value = _of_copy("_initial_value")

    @property
    def _copy(self) -> ResourceVariable:
        return self._copies[replica_frames.copies()]

    @property
    def _initializer_op(self) -> Any:
        if self._initializers is None:
            graph = self._copies[0].graph
            with graph.as_default(), graph.name_scope(None), graph.control_dependencies(None):
                self._initializers = group(*[copy.initializer for copy in self._copies])
        return self._initializers

    @property
    def values(self) -> tuple[ResourceVariable, ...]:
        """The copies."""
        return self._copies

    @property
    def devices(self) -> tuple[str, ...]:
        """The devices of the copies."""
        return tuple([copy.device for copy in self._copies])

    @property
    def primary(self) -> ResourceVariable:
        """The first copy."""
        return self._copies[0]

    @property
    def distribute_strategy(self) -> Any:
        """The strategy whose replicas have the copies."""
        return self._strategy

    def get(self, device: Any = None) -> ResourceVariable:
        """The copy in force, or that of a device."""
        if device is None:
            return self._copy
        return next((copy for copy in self._copies if copy.device.endswith(str(device).lower())), self._copy)

    def _identity(self) -> Tensor:
        return self._copies[0]._handle

    def load(self, value: Any, session: Any = None) -> None:
        """Give all copies a value in a session."""
        feeds = {copy.initializer._inputs[1]: value for copy in self._copies}
        hooks.evaluate(self._initializer_op, feeds, self._copies[0].graph, session)

    def _restored(self, value: Tensor) -> Operation:
        return group(*[self._assigned(copy, value) for copy in self._copies])

    @staticmethod
    def _assigned(copy: ResourceVariable, value: Tensor) -> Any:
        with copy.graph.device(copy.device):
            return build("AssignVariableOp", copy.handle, build("Identity", value))

    # ----------------------------------------------------------------------------------------------------------- writes
    def _write(self, type_name: str, value: Any, name: str | None, read_value: bool) -> Any:
        def write(copy: ResourceVariable, value: Any) -> Any:
            return copy._write(type_name, value, name, False)

        op = self._everywhere(write, value)
        return self._after(op) if read_value else op

    def _scatter(self, mode: str, indices: Any, updates: Any, use_locking: bool, name: str | None) -> Any:
        frame = replica_frames.top()
        if frame is not None and frame.replica is not None:
            raise self._unaggregated()
        copies = self._copies if frame is None or frame.updates is None else (self._copy,)
        op = group(*[copy._scatter(mode, indices, updates, use_locking, name).op for copy in copies])
        return self._after(op)

    def _everywhere(self, write: Callable[[ResourceVariable, Any], Any], value: Any) -> Any:
        """Write in the way of the context: this copy, or all with the aggregate of what replicas give."""
        frame = replica_frames.top()
        if frame is not None and frame.updates is not None:
            return write(self._copy, value)
        if frame is None or frame.replica is None:
            return group(*[write(copy, value) for copy in self._copies])
        if self._aggregation is VariableAggregation.NONE:
            raise self._unaggregated()
        return frame.replica.merge_call(self._write_merged, args=(write, value))

    def _write_merged(self, strategy: Any, write: Callable[[ResourceVariable, Any], Any], value: Any) -> Any:
        write = write.values[0] if isinstance(write, PerReplica) else write
        values = list(value.values) if isinstance(value, PerReplica) else [value] * len(self._copies)
        if self._aggregation is VariableAggregation.ONLY_FIRST_REPLICA:
            each = reductions.copied(values[0], self.devices).values if isinstance(value, PerReplica) else values
        else:
            how = reductions.ReduceOp.from_variable_aggregation(self._aggregation)
            each = reductions.on_each(how, values, self.devices).values
        return group(*[write(copy, item) for copy, item in zip(self._copies, each, strict=True)])

    def _unaggregated(self) -> ValueError:
        return ValueError(
            "You must specify an aggregation method to update a MirroredVariable in Replica Context.\n"
            + errors.message(
                f"an update of {self._name!r} by a replica, which says nothing of how those of all become one",
                "a variable with an aggregation",
                "tf.Variable(..., aggregation=tf.VariableAggregation.SUM)",
            )
        )


class SyncOnReadVariable(MirroredVariable):
    """A variable of which each replica writes its own copy, and which is their aggregate when it is read by others."""

    _total: Tensor | None = None

    def _is_read_whole(self) -> bool:
        frame = replica_frames.top()
        return frame is None or (frame.replica is None and frame.updates is None)

    def _aggregate(self) -> Tensor:
        if self._aggregation is VariableAggregation.ONLY_FIRST_REPLICA:
            return self._copies[0].value()
        if self._aggregation is VariableAggregation.NONE:
            raise ValueError(
                "Could not convert from `tf.VariableAggregation` NONE to `tf.distribute.ReduceOp` type\n"
                + errors.message(
                    f"a read of {self._name!r} between replicas, of which each has its own value",
                    "a variable with an aggregation",
                    "tf.Variable(..., aggregation=tf.VariableAggregation.MEAN)",
                )
            )
        how = reductions.ReduceOp.from_variable_aggregation(self._aggregation)
        first = self._copies[0]
        with first.graph.as_default(), first.graph.device(first.device):
            return reductions.reduced(how, [copy.value() for copy in self._copies])

    @property
    def _graph_element(self) -> Any:  # type: ignore[override]
        if not self._is_read_whole():
            return self._copy._graph_element
        if self._total is None:
            graph = self._copies[0].graph
            with graph.control_dependencies(None), graph.name_scope(None):
                self._total = self._aggregate()
        return self._total

    def value(self) -> Tensor:
        """The replica's value; between replicas the aggregate of all."""
        return self._aggregate() if self._is_read_whole() else self._copy.value()

    def read_value(self) -> Tensor:
        """A read that happens here."""
        return self._aggregate() if self._is_read_whole() else self._copy.read_value()

    def _everywhere(self, write: Callable[[ResourceVariable, Any], Any], value: Any) -> Any:
        frame = replica_frames.top()
        if frame is not None and (frame.replica is not None or frame.updates is not None):
            return write(self._copy, value)
        if self._aggregation is VariableAggregation.SUM:
            value = self._share(value)
        return group(*[write(copy, value) for copy in self._copies])

    def _share(self, value: Any) -> Tensor:
        """What each copy has of a value that is their sum."""
        tensor = convert.convert_to_tensor(value, self._dtype)
        return build("RealDiv", tensor, convert.constant(len(self._copies), self._dtype))

    def _restored(self, value: Tensor) -> Operation:
        if self._aggregation is VariableAggregation.SUM:
            value = self._share(value)
        return super()._restored(value)
