"""Variables with a copy in each worker of a cluster, kept alike by updates with gradients summed over all.

Policy. Each worker builds the same graph, with variables and replicas on its own devices. What its replicas have is
added up there, and over the workers by TensorFlow's collective ops, one for all gradients of a dtype; the members of
other workers are found by their keys (:mod:`anabranch.cluster.company`), which are numbers in the order in which the
program asks for them. A variable begins with the value of the first worker.

When a worker dies the step of all others fails with AbortedError, and all begin anew from the last checkpoint, which
each of them restores. Statistics that replicas write by themselves are each worker's own; checkpoints have the chief's.
"""

from __future__ import annotations

import enum
import itertools
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.values import dtypes
from anabranch.distribute import inputs, reductions
from anabranch.distribute.cluster_resolvers import ClusterResolver, TFConfigClusterResolver
from anabranch.distribute.mirrored import local_devices
from anabranch.distribute.reductions import ReduceOp
from anabranch.distribute.reductions import reduce_op as as_reduce_op
from anabranch.distribute.strategy import Strategy, StrategyExtended
from anabranch.distribute.values import PerReplica
from anabranch.train.cluster_spec import ClusterSpec

_WORKERS = ("chief", "master", "worker")
_GROUP = 1
"""The key of the group of all workers."""
_CARRIERS: dict[Any, tuple[str, Any] | None] = {
    **dict.fromkeys((dtypes.bool_, dtypes.float16, dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64)),
    **dict.fromkeys((dtypes.int8, dtypes.uint8, dtypes.int16, dtypes.uint16), ("Cast", dtypes.int32)),
    dtypes.bfloat16: ("Bitcast", dtypes.float16),
    dtypes.uint32: ("Bitcast", dtypes.int32),
    dtypes.uint64: ("Bitcast", dtypes.int64),
    dtypes.complex64: ("Bitcast", dtypes.int64),
    dtypes.complex128: ("Bitcast", dtypes.float64),
}
"""As what the values of a dtype are sent for which TensorFlow's broadcasts are not defined; None for as they are."""


class _OfWorkers(StrategyExtended):
    """What libraries use of a strategy over workers.

    Args:
        strategy: the strategy.
        devices: of the replicas of this worker.
        count: how many workers there are.
        index: the number of this one.
    """

    experimental_between_graph = True

    def __init__(self, strategy: Any, devices: Sequence[str], count: int, index: int) -> None:
        super().__init__(strategy, devices, True, devices[0])
        self.count, self.index = count, index
        self.should_checkpoint = self.should_save_summary = index == 0
        self._keys = itertools.count(1)

    def _group(self) -> dict[str, Any]:
        return {"group_size": self.count, "group_key": _GROUP, "instance_key": next(self._keys)}

    # -------------------------------------------------------------------------------------------------------- variables
    def _made(self, next_creator: Callable[..., Any], arguments: dict[str, Any]) -> Any:
        given = arguments.get("initial_value")
        if given is not None:
            keys = self._group()

            def initial() -> Any:
                return self._of_first_worker(convert.convert_to_tensor(given() if callable(given) else given), keys)

            arguments = {**arguments, "initial_value": initial}
        return super()._made(next_creator, arguments)

    def _of_first_worker(self, value: Any, keys: dict[str, Any]) -> Any:
        own = value.dtype.base
        if own not in _CARRIERS:  # strings, which nobody draws
            return value
        carrier = _CARRIERS[own]
        with current_builder().device(self._devices[0]):
            if carrier is not None:
                value = _carried(value, *carrier)
            if self.index:
                value = build("CollectiveBcastRecv", T=value.dtype.base, shape=value._shape, **keys)
            else:
                value = build("CollectiveBcastSend", value, shape=value._shape, **keys)
            return value if carrier is None else _carried(value, carrier[0], own)

    # ------------------------------------------------------------------------------------------------- between replicas
    def reduce_to(self, reduce_op: Any, value: Any, destinations: Any) -> Any:
        """The sum or mean of a value of each replica of all workers, on devices."""
        return self.batch_reduce_to(reduce_op, [(value, destinations)])[0]

    def batch_reduce_to(self, reduce_op: Any, value_destination_pairs: Sequence[tuple[Any, Any]]) -> list[Any]:
        """:meth:`reduce_to` of each pair: one exchange for all that are dense and of one dtype."""
        how = as_reduce_op(reduce_op)
        with current_builder().device(self._devices[0]):
            values = [
                value.values if isinstance(value, PerReplica) else [value] * len(self._devices)
                for value, _ in value_destination_pairs
            ]
            totals = self.over_workers([reductions.reduced(ReduceOp.SUM, parts) for parts in values])
            if how is ReduceOp.MEAN:
                totals = [self._divided(total) for total in totals]
        results = []
        for total, (_, destinations) in zip(totals, value_destination_pairs, strict=True):
            result = reductions.copied(total, reductions.devices_of(destinations))
            results.append(result.values[0] if len(result.values) == 1 else result)
        return results

    def _divided(self, total: Any) -> Any:
        count = self.count * len(self._devices)
        if isinstance(total, IndexedSlices):
            rows = build("RealDiv", total.values, convert.constant(count, total.values.dtype))
            return IndexedSlices(rows, total.indices, total.dense_shape)
        return reductions.divided(total, count)

    def over_workers(self, totals: Sequence[Any]) -> list[Any]:
        """The sums of values over all workers."""
        results = list(totals)
        by_dtype: dict[Any, list[int]] = {}
        for i, total in enumerate(totals):
            if isinstance(total, IndexedSlices):
                rows, indices = [self._gathered(part) for part in (total.values, total.indices)]
                results[i] = IndexedSlices(rows, indices, total.dense_shape)
            else:
                by_dtype.setdefault(total.dtype.base, []).append(i)
        for places in by_dtype.values():
            flat = [build("Reshape", totals[i], [-1]) for i in places]
            joined = build("ConcatV2", flat, 0) if len(flat) > 1 else flat[0]
            keys = self._group()
            summed = build("CollectiveReduce", joined, merge_op="Add", final_op="Id", subdiv_offsets=[0], **keys)
            sizes = [build("Size", part) for part in flat]
            parts = build("SplitV", summed, build("Pack", sizes), 0, num_split=len(flat)) if len(flat) > 1 else [summed]
            for i, part in zip(places, parts, strict=True):
                results[i] = build("Reshape", part, build("Shape", totals[i]))
        return results

    def _gathered(self, value: Any) -> Any:
        shape = None if value._shape is None else (None, *value._shape[1:])
        return build("CollectiveGather", value, shape=shape, **self._group())


@public("distribute.experimental.CollectiveCommunication")
class CollectiveCommunication(enum.Enum):
    """How workers sum gradients: here always as the devices do it best, whatever is asked for."""

    AUTO = "AUTO"
    RING = "RING"
    NCCL = "NCCL"


@public("distribute.experimental.MultiWorkerMirroredStrategy")
class MultiWorkerMirroredStrategy(Strategy):
    """A copy of the variables on each device of each worker of a cluster, kept alike by updates with summed gradients.

    Each worker runs the same program with a ``tf.train.Server``, and trains in a session of its server's target. For
    one worker it is :class:`MirroredStrategy`.

    Args:
        communication: a `CollectiveCommunication`, kept for compatibility.
        cluster_resolver: knows the cluster and the task of this process; ``TF_CONFIG`` does if None.
        devices: names of the worker's devices; all its GPUs, or the CPU, if None.

    Example:
        >>> import anabranch as tf
        >>> cluster = tf.train.ClusterSpec({"worker": ["a:1", "b:1"]})
        >>> resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, task_type="worker", task_id=1)
        >>> strategy = tf.distribute.experimental.MultiWorkerMirroredStrategy(cluster_resolver=resolver)
        >>> strategy.num_replicas_in_sync
        2
    """

    def __init__(
        self,
        communication: Any = CollectiveCommunication.AUTO,
        cluster_resolver: ClusterResolver | None = None,
        devices: Sequence[str] | None = None,
    ) -> None:
        self._local = local_devices(devices)
        super().__init__(StrategyExtended(self, self._local, True, self._local[0]))
        resolver = cluster_resolver or TFConfigClusterResolver()
        if resolver.cluster_spec():
            self.configure(None, resolver.cluster_spec(), resolver.task_type, resolver.task_id)

    def configure(
        self, session_config: Any = None, cluster_spec: Any = None, task_type: Any = None, task_id: Any = None
    ) -> None:
        """Say which cluster it is, and which of its tasks this process.

        Raises:
            ValueError: the task is not said, or is not a worker.
        """
        if not cluster_spec:
            return
        cluster = ClusterSpec(cluster_spec)
        workers = [(job, i) for job in _WORKERS if job in cluster.jobs for i in cluster.task_indices(job)]
        if len(workers) < 2:
            return
        if (task_type, task_id) not in workers:
            raise ValueError(
                errors.message(
                    f"the task {task_type!r} {task_id!r} of this process",
                    f"one of the workers {workers}",
                    'task_type="worker", task_id=0',
                )
            )
        own = f"/job:{task_type}/task:{task_id}"
        devices = [own + _on_task(device) for device in self._local]
        self._extended = _OfWorkers(self, devices, len(workers), workers.index((task_type, task_id)))

    @property
    def _workers(self) -> tuple[int, int]:
        extended = self._extended
        return (extended.count, extended.index) if isinstance(extended, _OfWorkers) else (1, 0)

    @property
    def num_replicas_in_sync(self) -> int:
        """How many replicas all workers have."""
        return len(self._extended.worker_devices) * self._workers[0]

    def reduce(self, reduce_op: Any, value: Any, axis: int | None = None) -> Any:
        """The sum or mean of the values of all replicas of all workers, and of an axis of each if one is given."""
        if not isinstance(self._extended, _OfWorkers):
            return super().reduce(reduce_op, value, axis)
        how = as_reduce_op(reduce_op)
        parts = [convert.convert_to_tensor(part) for part in self.experimental_local_results(value)]
        if axis is None:
            return self._extended.reduce_to(how, PerReplica(parts), self._extended.worker_devices[0])
        sums = reductions.reduced(ReduceOp.SUM, [build("Sum", part, [axis]) for part in parts])
        counts = [build("Cast", build("GatherV2", build("Shape", p), axis, 0), DstT=sums.dtype) for p in parts]
        total, count = self._extended.over_workers([sums, reductions.reduced(ReduceOp.SUM, counts)])
        return total if how is ReduceOp.SUM else build("RealDiv", total, count)

    def experimental_distribute_dataset(self, dataset: Any) -> inputs.DistributedDataset:
        """A dataset of global batches, of which each replica of each worker gets its part."""
        count, index = self._workers
        return inputs.DistributedDataset(len(self._extended.worker_devices), dataset, True, count, index)

    def make_input_fn_iterator(
        self, input_fn: Callable[..., Any], replication_mode: Any = inputs.InputReplicationMode.PER_WORKER
    ) -> inputs.DistributedIterator:
        """An iterator of the dataset that ``input_fn(input_context)`` makes, called on each worker."""
        count, index = self._workers
        context = inputs.InputContext(count, index, self.num_replicas_in_sync)
        return inputs.of_function(len(self._extended.worker_devices), input_fn, context)

    def experimental_distribute_datasets_from_function(self, dataset_fn: Callable[..., Any]) -> Any:
        """A dataset of batches for each replica."""
        count, index = self._workers
        dataset = dataset_fn(inputs.InputContext(count, index, self.num_replicas_in_sync))
        return inputs.DistributedDataset(len(self._extended.worker_devices), dataset, False)


def _carried(value: Any, by: str, dtype: Any) -> Any:
    """A value as another dtype: cast, or bit by bit."""
    return build("Cast", value, DstT=dtype) if by == "Cast" else build("Bitcast", value, type=dtype)


def _on_task(device: str) -> str:
    """A device of this process as the end of a name, ``/device:CPU:0``."""
    kind, _, number = device.rpartition("/")[2].removeprefix("device:").partition(":")
    return f"/device:{kind.upper()}:{number or 0}"
