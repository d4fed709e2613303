"""``tf.keras.optimizers.schedules``: learning rates as functions of the number of updates."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.keras.v1.objects import Registry

registry = Registry("decay")


class LearningRateSchedule:
    """Base of schedules: an object that is called with the number of updates."""

    _names: tuple[str, ...] = ()

    def __call__(self, step: Any) -> Any:
        raise NotImplementedError("Learning rate schedule must override __call__")

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {name: getattr(self, name) for name in self._names}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The schedule that a config describes."""
        return cls(**config)


@registry.add()
class ExponentialDecay(LearningRateSchedule):
    """The rate times ``decay_rate`` for every ``decay_steps`` updates."""

    _names = ("initial_learning_rate", "decay_steps", "decay_rate", "staircase", "name")

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: float,
        decay_rate: float,
        staircase: bool = False,
        name: str | None = None,
    ) -> None:
        self.initial_learning_rate, self.decay_steps, self.decay_rate = initial_learning_rate, decay_steps, decay_rate
        self.staircase, self.name = staircase, name

    def __call__(self, step: Any) -> Any:
        part = tf.cast(step, tf.float32) / self.decay_steps
        return self.initial_learning_rate * tf.pow(self.decay_rate, tf.floor(part) if self.staircase else part)


@registry.add()
class InverseTimeDecay(ExponentialDecay):
    """The rate divided by ``1 + decay_rate`` times the updates in units of ``decay_steps``."""

    def __call__(self, step: Any) -> Any:
        part = tf.cast(step, tf.float32) / self.decay_steps
        return self.initial_learning_rate / (1 + self.decay_rate * (tf.floor(part) if self.staircase else part))


@registry.add()
class PiecewiseConstantDecay(LearningRateSchedule):
    """One rate up to each boundary."""

    _names = ("boundaries", "values", "name")

    def __init__(self, boundaries: Any, values: Any, name: str | None = None) -> None:
        if len(boundaries) != len(values) - 1:
            raise ValueError(
                "The length of boundaries should be 1 less than the length of values\n"
                f"Given: {len(boundaries)} boundaries and {len(values)} values\nExpected: one "
                "boundary less than values\n"
                "Instead: PiecewiseConstantDecay([100], [0.1, 0.01])"
            )
        self.boundaries, self.values, self.name = boundaries, values, name

    def __call__(self, step: Any) -> Any:
        place = tf.reduce_sum(tf.cast(tf.cast(step, tf.float32) > tf.constant(self.boundaries, tf.float32), tf.int32))
        return tf.gather(tf.constant(self.values, tf.float32), place)


@registry.add()
class PolynomialDecay(LearningRateSchedule):
    """The rate down to its end by a power of the share of updates that remain."""

    _names = ("initial_learning_rate", "decay_steps", "end_learning_rate", "power", "cycle", "name")

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: float,
        end_learning_rate: float = 0.0001,
        power: float = 1.0,
        cycle: bool = False,
        name: str | None = None,
    ) -> None:
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.end_learning_rate, self.power, self.cycle, self.name = end_learning_rate, power, cycle, name

    def __call__(self, step: Any) -> Any:
        step = tf.cast(step, tf.float32)
        steps: Any = float(self.decay_steps)
        if self.cycle:
            steps = steps * tf.maximum(1.0, tf.ceil(step / steps))
        else:
            step = tf.minimum(step, steps)
        difference = self.initial_learning_rate - self.end_learning_rate
        return difference * tf.pow(1 - step / steps, self.power) + self.end_learning_rate


serialize, deserialize = registry.serialize, registry.deserialize
