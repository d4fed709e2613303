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


class _Cosine(LearningRateSchedule):
    """A schedule that a function of ``tf.train`` computes, of the rate, the number of updates and these arguments."""

    function: str

    def __call__(self, step: Any) -> Any:
        rate, *others = (getattr(self, name) for name in self._names[:-1])
        computed = getattr(tf.train, self.function)(rate, step, *others)
        return computed() if callable(computed) else computed  # a function of the step where ops run at once


@registry.add()
class CosineDecay(_Cosine):
    """Half a cosine from the rate to ``alpha`` times it, over ``decay_steps`` updates."""

    _names = ("initial_learning_rate", "decay_steps", "alpha", "name")
    function = "cosine_decay"

    def __init__(
        self, initial_learning_rate: float, decay_steps: float, alpha: float = 0.0, name: str | None = None
    ) -> None:
        self.initial_learning_rate, self.decay_steps, self.alpha, self.name = (
            initial_learning_rate,
            decay_steps,
            alpha,
            name,
        )


@registry.add()
class CosineDecayRestarts(_Cosine):
    """Cosine decay that starts again, each period ``t_mul`` times longer and ``m_mul`` times lower."""

    _names = ("initial_learning_rate", "first_decay_steps", "t_mul", "m_mul", "alpha", "name")
    function = "cosine_decay_restarts"

    def __init__(
        self,
        initial_learning_rate: float,
        first_decay_steps: float,
        t_mul: float = 2.0,
        m_mul: float = 1.0,
        alpha: float = 0.0,
        name: str | None = None,
    ) -> None:
        self.initial_learning_rate, self.first_decay_steps = initial_learning_rate, first_decay_steps
        self.t_mul, self.m_mul, self.alpha, self.name = t_mul, m_mul, alpha, name


@registry.add()
class LinearCosineDecay(_Cosine):
    """A falling line times a cosine, over ``decay_steps`` updates."""

    _names = ("initial_learning_rate", "decay_steps", "num_periods", "alpha", "beta", "name")
    function = "linear_cosine_decay"

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: float,
        num_periods: float = 0.5,
        alpha: float = 0.0,
        beta: float = 0.001,
        name: str | None = None,
    ) -> None:
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.num_periods, self.alpha, self.beta, self.name = num_periods, alpha, beta, name


@registry.add()
class NoisyLinearCosineDecay(_Cosine):
    """Linear cosine decay with noise on the line, whose variance falls."""

    _names = (
        *("initial_learning_rate", "decay_steps", "initial_variance", "variance_decay"),
        *("num_periods", "alpha", "beta", "name"),
    )
    function = "noisy_linear_cosine_decay"

    def __init__(
        self,
        initial_learning_rate: float,
        decay_steps: float,
        initial_variance: float = 1.0,
        variance_decay: float = 0.55,
        num_periods: float = 0.5,
        alpha: float = 0.0,
        beta: float = 0.001,
        name: str | None = None,
    ) -> None:
        self.initial_learning_rate, self.decay_steps = initial_learning_rate, decay_steps
        self.initial_variance, self.variance_decay = initial_variance, variance_decay
        self.num_periods, self.alpha, self.beta, self.name = num_periods, alpha, beta, name
