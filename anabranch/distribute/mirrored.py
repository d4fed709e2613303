"""Strategies for several devices: a copy of the variables on each, or one copy for all."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.distribute.strategy import Strategy, StrategyExtended
from anabranch.xla import engine


def local_devices(devices: Sequence[str] | None) -> list[str]:
    """The devices that are given; all GPUs, or the CPU, if None.

    Raises:
        ValueError: there is none, or one is there twice.
    """
    if devices is None:
        kind = engine.default_platform()
        return ["/cpu:0"] if kind == "cpu" else [f"/gpu:{i}" for i in range(len(engine.devices(kind)))]
    names = [str(device) for device in devices]
    if not names or len(set(names)) < len(names):
        raise ValueError(
            errors.message(f"devices={names}", "at least one device, and none twice", 'devices=["/gpu:0", "/gpu:1"]')
        )
    return names


@public("distribute.MirroredStrategy")
class MirroredStrategy(Strategy):
    """A copy of the variables on each of several devices of this process, kept alike by updates with summed gradients.

    Replicas that do the same are one program over the devices (:mod:`anabranch.runtime.plans.replicas`).

    Args:
        devices: names of devices; all GPUs, or the CPU, if None.
        cross_device_ops: how values are reduced.

    Example:
        >>> import anabranch as tf
        >>> strategy = tf.distribute.MirroredStrategy(["/cpu:0"])
        >>> with strategy.scope():
        ...     w = tf.get_variable("w", [], initializer=tf.zeros_initializer())
        ...     optimizer = tf.train.GradientDescentOptimizer(0.5)
        >>> def step(x):
        ...     return optimizer.minimize(tf.square(w - x))
        >>> train = strategy.experimental_run_v2(step, args=(3.0,))
        >>> with tf.Session() as session:
        ...     session.run(w.initializer)
        ...     session.run(train)
        ...     print(session.run(w))
        3.0
    """

    def __init__(self, devices: Sequence[str] | None = None, cross_device_ops: Any = None) -> None:
        names = local_devices(devices)
        super().__init__(StrategyExtended(self, names, True, names[0], cross_device_ops))


@public("distribute.experimental.CentralStorageStrategy")
class CentralStorageStrategy(Strategy):
    """One copy of the variables, and several devices of this process that compute.

    Args:
        compute_devices: names of devices; all GPUs, or the CPU, if None.
        parameter_device: where the variables are; the CPU, or the only device that computes.
    """

    def __init__(self, compute_devices: Sequence[str] | None = None, parameter_device: str | None = None) -> None:
        names = local_devices(compute_devices)
        place = parameter_device or (names[0] if len(names) == 1 else "/cpu:0")
        super().__init__(StrategyExtended(self, names, False, place))
