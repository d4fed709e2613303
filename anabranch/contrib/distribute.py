"""``tf.contrib.distribute``: strategies under their names of before ``tf.distribute``.

They differ in their input: ``make_dataset_iterator`` gives each replica an element of its own, where ``tf.distribute``
cuts one element into parts.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import module_attributes, public, publish_as
from anabranch.distribute import inputs, multi_worker, parameter_server, reductions, replicas, towers
from anabranch.distribute import strategy as strategies
from anabranch.distribute.mirrored import local_devices

__getattr__, __dir__ = module_attributes("contrib.distribute")

publish_as("contrib.distribute.DistributionStrategy", strategies.Strategy)
publish_as("contrib.distribute.ReplicaContext", replicas.ReplicaContext)
publish_as("contrib.distribute.CrossDeviceOps", reductions.CrossDeviceOps)
publish_as("contrib.distribute.CrossTowerOps", reductions.CrossDeviceOps)
publish_as("contrib.distribute.ReductionToOneDeviceCrossTowerOps", reductions.ReductionToOneDevice)
publish_as("contrib.distribute.get_distribution_strategy", replicas.get_strategy)
publish_as("contrib.distribute.get_strategy", replicas.get_strategy)
publish_as("contrib.distribute.get_replica_context", replicas.get_replica_context)
publish_as("contrib.distribute.has_distribution_strategy", replicas.has_strategy)
publish_as("contrib.distribute.has_strategy", replicas.has_strategy)
publish_as("contrib.distribute.in_cross_replica_context", replicas.in_cross_replica_context)


class _OwnBatches(towers.TowerStrategy):
    def experimental_distribute_dataset(self, dataset: Any) -> inputs.DistributedDataset:
        """A dataset of batches for each replica."""
        return inputs.DistributedDataset(len(self.extended.worker_devices), dataset, False)


@public("contrib.distribute.MirroredStrategy")
class MirroredStrategy(_OwnBatches):
    """A copy of the variables on each of several devices; see ``tf.distribute.MirroredStrategy``.

    Args:
        devices: names of devices.
        num_gpus: how many GPUs, instead.
        num_gpus_per_worker: the same.
        cross_device_ops: how values are reduced.
        auto_shard_dataset: must be False: there is one worker.
        cross_tower_ops: the same as ``cross_device_ops``.
        prefetch_on_device: kept for compatibility: a step's feeds and elements go to its devices before it runs.
    """

    def __init__(
        self,
        devices: Sequence[str] | None = None,
        num_gpus: int | None = None,
        num_gpus_per_worker: int | None = None,
        cross_device_ops: Any = None,
        auto_shard_dataset: bool = False,
        cross_tower_ops: Any = None,
        prefetch_on_device: bool | None = None,
    ) -> None:
        count = num_gpus if num_gpus is not None else num_gpus_per_worker
        if (devices is not None and count is not None) or auto_shard_dataset:
            raise ValueError(
                errors.message(
                    f"devices={devices!r}, num_gpus={count!r}, auto_shard_dataset={auto_shard_dataset!r}",
                    "devices, or a number of GPUs, on one worker",
                    'devices=["/gpu:0", "/gpu:1"]',
                )
            )
        if devices is None and count is not None:
            devices = [f"/gpu:{i}" for i in range(count)] or ["/cpu:0"]
        names = local_devices(devices)
        cross = cross_device_ops or cross_tower_ops
        super().__init__(strategies.StrategyExtended(self, names, True, names[0], cross))


@public("contrib.distribute.OneDeviceStrategy")
class OneDeviceStrategy(towers.TowerStrategy, tf.distribute.OneDeviceStrategy):
    """One replica, with its variables on its device.

    Args:
        device: its name.
    """


@public("contrib.distribute.ParameterServerStrategy")
class ParameterServerStrategy(towers.TowerStrategy, parameter_server.ParameterServerStrategy):
    """Variables on parameter servers; see ``tf.distribute.experimental.ParameterServerStrategy``.

    Args:
        num_gpus_per_worker: kept for compatibility: a worker is one replica.
    """

    def __init__(self, num_gpus_per_worker: int = 0) -> None:
        super().__init__()


@public("contrib.distribute.CollectiveAllReduceStrategy")
class CollectiveAllReduceStrategy(_OwnBatches, multi_worker.MultiWorkerMirroredStrategy):
    """A copy of the variables on each GPU of each worker.

    See ``tf.distribute.experimental.MultiWorkerMirroredStrategy``.

    Args:
        num_gpus_per_worker: how many GPUs; the CPU if 0.
        communication: kept for compatibility.
    """

    def __init__(self, num_gpus_per_worker: int = 0, communication: Any = None) -> None:
        super().__init__(devices=[f"/gpu:{i}" for i in range(num_gpus_per_worker)] or ["/cpu:0"])


@public("contrib.distribute.AllReduceCrossDeviceOps", "contrib.distribute.AllReduceCrossTowerOps")
class AllReduceCrossDeviceOps(reductions.CrossDeviceOps):
    """Reduce like all others here.

    Args:
        all_reduce_alg: kept for compatibility.
        num_packs: kept for compatibility.
        agg_small_grads_max_bytes: kept for compatibility.
        agg_small_grads_max_group: kept for compatibility.
    """

    def __init__(
        self,
        all_reduce_alg: str = "nccl",
        num_packs: int = 1,
        agg_small_grads_max_bytes: int = 0,
        agg_small_grads_max_group: int = 10,
    ) -> None:
        self.all_reduce_alg, self.num_packs = all_reduce_alg, num_packs
        self.agg_small_grads_max_bytes = agg_small_grads_max_bytes
        self.agg_small_grads_max_group = agg_small_grads_max_group


@public("contrib.distribute.Step")
class Step:
    """A step of training as a callable: what comes in, and what is done with it.

    Args:
        distribution: the strategy that it runs under.
    """

    def __init__(self, distribution: Any) -> None:
        self._distribution = distribution

    @property
    def distribution(self) -> Any:
        """The strategy."""
        return self._distribution

    def __call__(self) -> Any:
        """Make the step from its inputs."""
        return self.step(self.inputs())

    def inputs(self) -> Any:
        """The values that the step takes; a class of one's own defines them."""
        raise NotImplementedError(
            errors.message(type(self).__name__, "a class that has inputs()", "StandardInputStep, of a dataset")
        )

    def step(self, inputs: Any) -> Any:
        """What is done with them; a class of one's own defines it."""
        raise NotImplementedError(
            errors.message(type(self).__name__, "a class that has step(inputs)", "StandardSingleLossStep, of a loss")
        )


@public("contrib.distribute.StandardInputStep")
class StandardInputStep(Step):
    """A step that takes the next elements of a dataset, one for each tower.

    Args:
        dataset_fn: a function that makes the dataset.
        distribution: the strategy.
    """

    def __init__(self, dataset_fn: Callable[[], Any], distribution: Any) -> None:
        super().__init__(distribution)
        self._distributed_input = distribution.distribute_dataset(dataset_fn).make_one_shot_iterator()

    def inputs(self) -> Any:
        """The next elements."""
        return self._distributed_input.get_next()


@public("contrib.distribute.StandardSingleLossStep")
class StandardSingleLossStep(StandardInputStep):
    """A step that makes a loss smaller: the sum of its gradients over the towers goes to an optimizer.

    Args:
        dataset_fn: a function that makes the dataset.
        loss_fn: the loss of a tower, given its element; a tuple of several is one argument.
        optimizer: a ``tf.train.Optimizer``.
        distribution: the strategy, of ``tf.contrib.distribute``.

    Example:
        >>> import anabranch as tf
        >>> strategy = tf.contrib.distribute.OneDeviceStrategy("/cpu:0")
        >>> with tf.Graph().as_default(), tf.Session() as session, strategy.scope():
        ...     v = tf.get_variable("v", initializer=4.0)
        ...     step = tf.contrib.distribute.StandardSingleLossStep(
        ...         lambda: tf.data.Dataset.from_tensors(1.0).repeat(3),
        ...         lambda x: tf.square(v - x),
        ...         tf.train.GradientDescentOptimizer(0.5),
        ...         strategy,
        ...     )
        ...     tf.contrib.distribute.Monitor(step, session).run_steps()
        ...     float(session.run(v))
        1.0
    """

    def __init__(
        self, dataset_fn: Callable[[], Any], loss_fn: Callable[..., Any], optimizer: Any, distribution: Any
    ) -> None:
        super().__init__(dataset_fn, distribution)
        self._loss_fn, self._optimizer = loss_fn, optimizer

    def step(self, inputs: Any) -> Any:
        """The update of all variables that the loss depends on."""
        gradients = tf.contrib.eager.implicit_gradients(self._loss_fn)

        def train(element: Any) -> Any:
            return self._optimizer.apply_gradients([pair for pair in gradients(element) if pair[0] is not None])

        with self.distribution.scope():
            return self.distribution.group(self.distribution.call_for_each_tower(train, inputs))


@public("contrib.distribute.Monitor")
class Monitor:
    """Run a step of training again and again.

    Args:
        step_callable: the step, such as a :class:`StandardSingleLossStep`.
        session: what runs it in graph mode, where the variables are initialised now; None in eager mode.

    Raises:
        ValueError: a session is given in eager mode, or none in graph mode.
    """

    def __init__(self, step_callable: Callable[[], Any], session: Any = None) -> None:
        if tf.executing_eagerly():
            if session is not None:
                raise ValueError(
                    "Should not provide a `session` in Eager mode.\n"
                    + errors.message("a session", "None in eager mode", "tf.contrib.distribute.Monitor(step)")
                )
            self._run_step = step_callable
            return
        if session is None:
            raise ValueError(
                "Should provide a `session` in Graph mode.\n"
                + errors.message("no session", "a session of the step's graph", "Monitor(step, tf.Session())")
            )
        self._run_step = session.make_callable(step_callable())
        session.run(tf.global_variables_initializer())

    def run_steps(self, num_steps: int | None = None) -> None:
        """Run the step.

        Args:
            num_steps: how often; until the input ends if None, and never beyond that.
        """
        for _ in itertools.count() if num_steps is None else range(num_steps):
            try:
                self._run_step()
            except errors.OutOfRangeError:
                return
