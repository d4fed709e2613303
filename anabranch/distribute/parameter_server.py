"""A strategy for clusters: variables on parameter servers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.distribute.cluster_resolvers import ClusterResolver, TFConfigClusterResolver
from anabranch.distribute.strategy import Strategy, StrategyExtended
from anabranch.train.cluster_spec import ClusterSpec
from anabranch.train.device_setter import replica_device_setter


class _OfTask(StrategyExtended):
    experimental_between_graph = True

    def __init__(self, strategy: Any, servers: Sequence[str], task_type: str | None, task_id: int | None) -> None:
        super().__init__(strategy)
        self._servers = tuple(servers)
        self._is_chief = task_type in (None, "chief", "master") or (task_type == "worker" and not task_id)

    @property
    def parameter_devices(self) -> tuple[str, ...]:
        """The parameter servers."""
        return self._servers

    @property
    def experimental_should_init(self) -> bool:  # type: ignore[override]
        """Whether this process initialises the variables."""
        return self._is_chief

    @property
    def should_checkpoint(self) -> bool:  # type: ignore[override]
        """Whether this process writes checkpoints."""
        return self._is_chief

    @property
    def should_save_summary(self) -> bool:  # type: ignore[override]
        """Whether this process writes summaries."""
        return self._is_chief


@public("distribute.experimental.ParameterServerStrategy")
class ParameterServerStrategy(Strategy):
    """Variables on the parameter servers of a cluster, in turn; each worker is one replica and trains by itself.

    Args:
        cluster_resolver: knows the cluster and the task of this process; ``TF_CONFIG`` does if None.

    Example:
        >>> import anabranch as tf
        >>> cluster = tf.train.ClusterSpec({"ps": ["a:1", "b:1"], "worker": ["c:1"]})
        >>> resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(cluster, task_type="worker", task_id=0)
        >>> with tf.distribute.experimental.ParameterServerStrategy(resolver).scope():
        ...     [tf.get_variable(name, [2]).device for name in "vw"]
        ['/job:ps/task:0', '/job:ps/task:1']
    """

    def __init__(self, cluster_resolver: ClusterResolver | None = None) -> None:
        super().__init__(StrategyExtended(self))
        resolver = cluster_resolver or TFConfigClusterResolver()
        if resolver.cluster_spec():
            self.configure(None, resolver.cluster_spec(), resolver.task_type, resolver.task_id)

    def configure(
        self, session_config: Any = None, cluster_spec: Any = None, task_type: Any = None, task_id: Any = None
    ) -> None:
        """Say which cluster it is, and which of its tasks this process.

        Raises:
            ValueError: the task is not said.
        """
        if not cluster_spec:
            return
        if task_type is None or task_id is None:
            raise ValueError(
                "When `cluster_spec` is given, you must also specify `task_type` and `task_id`.\n"
                + errors.message(
                    "a cluster without a task", "the task of this process", 'task_type="worker", task_id=0'
                )
            )
        cluster = ClusterSpec(cluster_spec)
        worker = f"/job:{task_type}/task:{task_id}"
        servers = [f"/job:ps/task:{i}" for i in (cluster.task_indices("ps") if "ps" in cluster.jobs else ())]
        extended = _OfTask(self, servers, task_type, task_id)
        extended._devices = (worker,)
        extended._variable_device = replica_device_setter(worker_device=worker, cluster=cluster)
        self._extended = extended
