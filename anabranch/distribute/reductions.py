"""Sums and means over the values of replicas, on each of several devices."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.distribute.values import PerReplica
from anabranch.variables.scope_state import VariableAggregation


@public("distribute.ReduceOp")
class ReduceOp(enum.Enum):
    """How values of replicas become one."""

    SUM = "SUM"
    MEAN = "MEAN"

    @staticmethod
    def from_variable_aggregation(aggregation: VariableAggregation) -> ReduceOp:
        """The reduction that an aggregation of variables stands for."""
        if aggregation is VariableAggregation.SUM:
            return ReduceOp.SUM
        return ReduceOp.MEAN


def reduce_op(given: Any) -> ReduceOp:
    """A ReduceOp by itself, by its name, or by an aggregation of variables."""
    if isinstance(given, VariableAggregation):
        return ReduceOp.from_variable_aggregation(given)
    try:
        return given if isinstance(given, ReduceOp) else ReduceOp(str(given).upper())
    except ValueError:
        raise ValueError(
            errors.message(f"reduce_op={given!r}", "a tf.distribute.ReduceOp", "tf.distribute.ReduceOp.SUM")
        ) from None


def reduced(how: ReduceOp, values: Sequence[Any]) -> Any:
    """One value, where the scopes around the call say: tensors of one shape and dtype, or IndexedSlices."""
    if isinstance(values[0], IndexedSlices):
        rows = build("ConcatV2", [v.values for v in values], 0) if len(values) > 1 else values[0].values
        indices = build("ConcatV2", [v.indices for v in values], 0) if len(values) > 1 else values[0].indices
        if how is ReduceOp.MEAN and len(values) > 1:
            rows = build("RealDiv", rows, convert.constant(len(values), rows.dtype))
        return IndexedSlices(rows, indices, values[0].dense_shape)
    tensors = [convert.convert_to_tensor(value) for value in values]
    if len(tensors) == 1:
        return build("Identity", tensors[0])
    total = build("AddN", tensors)
    return total if how is ReduceOp.SUM else divided(total, len(tensors))


def divided(total: Any, count: int) -> Any:
    """The mean of ``count`` values by their sum, in its dtype."""
    type_name = "RealDiv" if total.dtype.is_floating or total.dtype.is_complex else "FloorDiv"
    return build(type_name, total, convert.constant(count, total.dtype))


def on_each(how: ReduceOp, values: Sequence[Any], devices: Sequence[str]) -> PerReplica:
    """The reduction of values, on each of some devices.

    Where each device has one of the values all of them compute it, which is one collective to the compiled tier
    (:mod:`anabranch.runtime.plans.replicas`); otherwise the first does, and the others take the result from there.
    """
    builder = current_builder()
    if len(values) == len(devices) > 1 and len(set(map(id, values))) > 1:
        results = []
        for device in devices:
            with builder.device(device):
                results.append(reduced(how, values))
        return PerReplica(results)
    with builder.device(devices[0]):
        result = reduced(how, values)
    return copied(result, devices)


def copied(value: Any, devices: Sequence[str]) -> PerReplica:
    """A value on each of some devices; on the first as it is."""
    builder = current_builder()
    results = [value]
    for device in devices[1:]:
        with builder.device(device):
            if isinstance(value, IndexedSlices):
                results.append(
                    IndexedSlices(build("Identity", value.values), build("Identity", value.indices), value.dense_shape)
                )
            else:
                results.append(build("Identity", value))
    return PerReplica(results)


@public("distribute.CrossDeviceOps")
class CrossDeviceOps:
    """How replicas reduce values: each computes the sum of all, which is one collective (:func:`on_each`).

    Subclasses may override :meth:`reduce_implementation`.
    """

    def reduce(self, reduce_op: Any, per_replica_value: Any, destinations: Any) -> Any:
        """Reduce a value of each replica to where ``destinations`` are: devices, or a value that is there."""
        return self.reduce_implementation(reduce_op, per_replica_value, destinations)

    def batch_reduce(self, reduce_op: Any, value_destination_pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
        """:meth:`reduce` of each pair."""
        return self.batch_reduce_implementation(reduce_op, value_destination_pairs)

    def broadcast(self, tensor: Any, destinations: Any) -> Any:
        """Copy a tensor to devices."""
        return self.broadcast_implementation(tensor, destinations)

    def reduce_implementation(self, reduce_op_given: Any, per_replica_value: Any, destinations: Any) -> Any:
        """What :meth:`reduce` does."""
        values = per_replica_value.values if isinstance(per_replica_value, PerReplica) else [per_replica_value]
        return on_each(reduce_op(reduce_op_given), values, devices_of(destinations))

    def batch_reduce_implementation(
        self, reduce_op_given: Any, value_destination_pairs: Sequence[tuple[Any, Any]]
    ) -> list[Any]:
        """What :meth:`batch_reduce` does."""
        return [self.reduce_implementation(reduce_op_given, value, where) for value, where in value_destination_pairs]

    def broadcast_implementation(self, tensor: Any, destinations: Any) -> Any:
        """What :meth:`broadcast` does."""
        return copied(convert.convert_to_tensor(tensor), devices_of(destinations))


@public("distribute.ReductionToOneDevice")
class ReductionToOneDevice(CrossDeviceOps):
    """Reduce on one device.

    Args:
        reduce_to_device: kept for compatibility: the first of the destinations.
        accumulation_fn: kept for compatibility: ``tf.add_n``.
    """

    def __init__(self, reduce_to_device: Any = None, accumulation_fn: Any = None) -> None:
        self.reduce_to_device, self.accumulation_fn = reduce_to_device, accumulation_fn


@public("distribute.NcclAllReduce")
class NcclAllReduce(CrossDeviceOps):
    """Reduce like all others here.

    Args:
        num_packs: kept for compatibility.
    """

    def __init__(self, num_packs: int = 1) -> None:
        self.num_packs = num_packs


@public("distribute.HierarchicalCopyAllReduce")
class HierarchicalCopyAllReduce(CrossDeviceOps):
    """Reduce like all others here.

    Args:
        num_packs: kept for compatibility.
    """

    def __init__(self, num_packs: int = 1) -> None:
        self.num_packs = num_packs


def devices_of(destinations: Any) -> list[str]:
    """The devices that a device, a value on devices, a variable, or a list of devices names."""
    if isinstance(destinations, str):
        return [destinations]
    devices = getattr(destinations, "devices", None)
    if devices is not None:
        return list(devices)
    if isinstance(destinations, PerReplica):
        return [value.device for value in destinations.values]
    if isinstance(destinations, Sequence):
        return [device for item in destinations for device in devices_of(item)]
    return [destinations.device]
