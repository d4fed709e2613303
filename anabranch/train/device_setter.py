"""The device function of replicated training: variables to parameter servers, everything else to workers."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.device import DeviceSpec
from anabranch.train.cluster_spec import ClusterSpec

STANDARD_PS_OPS = (
    "Variable",
    "VariableV2",
    "AutoReloadVariable",
    "MutableHashTable",
    "MutableHashTableV2",
    "MutableHashTableOfTensors",
    "MutableHashTableOfTensorsV2",
    "MutableDenseHashTable",
    "MutableDenseHashTableV2",
    "VarHandleOp",
    "BoostedTreesEnsembleResourceHandleOp",
)
"""Types of the ops whose values parameter servers hold."""


class _ReplicaDeviceChooser:
    """The device function; it is asked for each new op."""

    def __init__(
        self,
        ps_device: str,
        worker_device: str,
        merge_devices: bool,
        ps_ops: Sequence[str],
        ps_strategy: Callable[[Any], int],
    ) -> None:
        self._ps = DeviceSpec.from_string(ps_device or "")
        self._has_ps = bool(ps_device)
        self._worker = DeviceSpec.from_string(worker_device or "")
        self._merge = merge_devices
        self._ps_ops = frozenset(ps_ops)
        self._strategy = ps_strategy

    def __call__(self, op: Any) -> str:
        """The device of an op."""
        if not self._merge and op.device:
            return str(op.device)
        current = DeviceSpec.from_string(op.device or "")
        device = self._worker
        if self._has_ps and op.type in self._ps_ops:
            device = self._ps
            if device.job and current.job in (None, device.job):
                device = device.replace(task=self._strategy(op))
        return device.make_merged_spec(current).to_string()


@public("train.replica_device_setter")
def replica_device_setter(
    ps_tasks: int = 0,
    ps_device: str = "/job:ps",
    worker_device: str = "/job:worker",
    merge_devices: bool = True,
    cluster: Any = None,
    ps_ops: Sequence[str] | None = None,
    ps_strategy: Callable[[Any], int] | None = None,
) -> Callable[[Any], str] | None:
    """A device function for ``tf.device`` that spreads variables over parameter servers.

    Args:
        ps_tasks: how many parameter servers there are; if ``cluster`` is given, it says that.
        ps_device: the device of the servers. Which task takes a variable is chosen if it names a job.
        worker_device: the device of all other ops.
        merge_devices: whether parts of a device that an op has already stand, and these ones fill in what is missing;
            if not, an op that has a device keeps it as it is.
        cluster: a ClusterSpec, a ClusterDef, or a dictionary of jobs.
        ps_ops: types of the ops that go to servers; variables and mutable tables if None.
        ps_strategy: the task for an op of these; one after the other if None. See
            ``tf.contrib.training.GreedyLoadBalancingStrategy``.

    Returns:
        The device function; None if there are no parameter servers.

    Raises:
        TypeError: ``cluster`` is not a cluster, or ``ps_strategy`` is not callable.

    Example:
        >>> import anabranch as tf
        >>> with tf.device(tf.train.replica_device_setter(ps_tasks=2)):
        ...     v, w = tf.Variable(1.0), tf.Variable(2.0)
        ...     total = v + w
        >>> v.device, w.device, total.device
        ('/job:ps/task:0', '/job:ps/task:1', '/job:worker')
    """
    if cluster is not None:
        job = DeviceSpec.from_string(ps_device).job
        servers = ClusterSpec(cluster)
        ps_tasks = servers.num_tasks(job) if job is not None and job in servers.jobs else 0
    if ps_tasks == 0:
        return None
    if ps_strategy is None:
        turns = itertools.cycle(range(ps_tasks))

        def one_after_the_other(op: Any) -> int:
            return next(turns)

        ps_strategy = one_after_the_other
    if not callable(ps_strategy):
        raise TypeError(
            "ps_strategy must be callable\n"
            + errors.message(
                f"ps_strategy={ps_strategy!r}",
                "a function of an op that gives the number of a task",
                "tf.contrib.training.GreedyLoadBalancingStrategy(2, tf.contrib.training.byte_size_load_fn)",
            )
        )
    return _ReplicaDeviceChooser(
        ps_device, worker_device, merge_devices, STANDARD_PS_OPS if ps_ops is None else ps_ops, ps_strategy
    )
