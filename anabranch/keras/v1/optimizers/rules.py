"""The optimizers of version 1: slots, and a rule on arrays each, which the base applies."""

from __future__ import annotations

from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.keras.v1 import state
from anabranch.keras.v1.optimizers.base import Optimizer, epsilon_of, initialize, registry


@registry.add("sgd")
class SGD(Optimizer):
    """Gradient descent, with momentum if it is not 0."""

    def __init__(
        self, learning_rate: Any = 0.01, momentum: float = 0.0, nesterov: bool = False, name: str = "SGD", **kwargs: Any
    ) -> None:
        initialize(self, name, kwargs, {"learning_rate": learning_rate, "momentum": momentum}, nesterov=nesterov)
        self._has_momentum = not isinstance(momentum, (int, float)) or momentum > 0
        if isinstance(momentum, (int, float)) and not 0 <= momentum <= 1:
            raise ValueError(
                "`momentum` must be between [0, 1].\n"
                + errors.message(f"momentum={momentum}", "a number from 0 to 1", "SGD(0.01, momentum=0.9)")
            )

    def _slot_names(self) -> list[str]:
        return ["momentum"] if self._has_momentum else []

    def rule(self, gradient: Any, rate: Any, slots: dict[str, Any], kind: Any, var: Any) -> tuple[Any, dict[str, Any]]:
        """What is taken off a weight, and its new momentum."""
        if not slots:
            return rate * gradient, {}
        momentum = self._number("momentum", kind)
        moving = slots["momentum"] * momentum - rate * gradient
        return (rate * gradient - moving * momentum if self.nesterov else -moving), {"momentum": moving}


@registry.add("rmsprop")
class RMSprop(Optimizer):
    """Gradients divided by the root of their running mean square."""

    sparse = "slots"

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.9,
        momentum: float = 0.0,
        epsilon: float | None = 1e-7,
        centered: bool = False,
        name: str = "RMSprop",
        **kwargs: Any,
    ) -> None:
        hypers = {"learning_rate": learning_rate, "rho": rho, "momentum": momentum}
        initialize(self, name, kwargs, hypers, epsilon=epsilon_of(epsilon), centered=centered)
        self._has_momentum = not isinstance(momentum, (int, float)) or momentum > 0

    def _slot_names(self) -> list[str]:
        return ["rms", *["momentum"] * self._has_momentum, *["mg"] * self.centered]

    def rule(self, gradient: Any, rate: Any, slots: dict[str, Any], kind: Any, var: Any) -> tuple[Any, dict[str, Any]]:
        """What is taken off a weight, and its new running means."""
        rho = self._number("rho", kind)
        after = {"rms": rho * slots["rms"] + (1 - rho) * tf.square(gradient)}
        spread = after["rms"]
        if self.centered:
            after["mg"] = rho * slots["mg"] + (1 - rho) * gradient
            spread = spread - tf.square(after["mg"])
        if not self._has_momentum:
            return rate * gradient / (tf.sqrt(spread) + self.epsilon), after
        step = rate * gradient / tf.sqrt(spread + self.epsilon)
        after["momentum"] = self._number("momentum", kind) * slots["momentum"] + step
        return after["momentum"], after


@registry.add("adagrad")
class Adagrad(Optimizer):
    """Gradients divided by the root of the sum of their squares."""

    slots = {"accumulator": 0.1}

    def __init__(
        self,
        learning_rate: Any = 0.001,
        initial_accumulator_value: float = 0.1,
        epsilon: float | None = 1e-7,
        name: str = "Adagrad",
        **kwargs: Any,
    ) -> None:
        initialize(self, name, kwargs, {"learning_rate": learning_rate}, epsilon=epsilon_of(epsilon))
        self._options["initial_accumulator_value"] = initial_accumulator_value
        self.slots = {"accumulator": initial_accumulator_value}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The optimizer that a config describes, in TensorFlow 1.15 from 0 where it does not say: so by name, too."""
        return super().from_config({"initial_accumulator_value": 0.0, **config}, custom_objects)

    def rule(self, gradient: Any, rate: Any, slots: dict[str, Any], kind: Any, var: Any) -> tuple[Any, dict[str, Any]]:
        """What is taken off a weight, and its new sum."""
        total = slots["accumulator"] + tf.square(gradient)
        return rate * gradient / (tf.sqrt(total) + self.epsilon), {"accumulator": total}


@registry.add("adadelta")
class Adadelta(Optimizer):
    """Gradients scaled by running means of past steps and gradients."""

    slots = {"accum_grad": 0.0, "accum_var": 0.0}

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: float = 0.95,
        epsilon: float | None = 1e-7,
        name: str = "Adadelta",
        **kwargs: Any,
    ) -> None:
        initialize(self, name, kwargs, {"learning_rate": learning_rate, "rho": rho}, epsilon=epsilon_of(epsilon))

    def rule(self, gradient: Any, rate: Any, slots: dict[str, Any], kind: Any, var: Any) -> tuple[Any, dict[str, Any]]:
        """What is taken off a weight, and its new running means."""
        rho = self._number("rho", kind)
        squares = rho * slots["accum_grad"] + (1 - rho) * tf.square(gradient)
        step = tf.sqrt(slots["accum_var"] + self.epsilon) * gradient / tf.sqrt(squares + self.epsilon)
        steps = rho * slots["accum_var"] + (1 - rho) * tf.square(step)
        return rate * step, {"accum_grad": squares, "accum_var": steps}


class _OfMoments(Optimizer):
    """What keeps running means of gradients and of their squares."""

    slots = {"m": 0.0, "v": 0.0}

    def _betas(self, kind: Any) -> tuple[Any, Any, Any, Any]:
        step = tf.cast(self.iterations + 1, kind)
        first, second = self._number("beta_1", kind), self._number("beta_2", kind)
        return first, second, tf.pow(first, step), tf.pow(second, step)


@registry.add("adam")
class Adam(_OfMoments):
    """Steps by running means of gradients and of their squares (Kingma and Ba, 2014)."""

    sparse = "dense"

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float | None = 1e-7,
        amsgrad: bool = False,
        name: str = "Adam",
        **kwargs: Any,
    ) -> None:
        hypers = {"learning_rate": learning_rate, "beta_1": beta_1, "beta_2": beta_2}
        initialize(self, name, kwargs, hypers, epsilon=epsilon_of(epsilon), amsgrad=amsgrad)

    def _slot_names(self) -> list[str]:
        return ["m", "v", *["vhat"] * self.amsgrad]

    def rule(self, gradient: Any, rate: Any, slots: dict[str, Any], kind: Any, var: Any) -> tuple[Any, dict[str, Any]]:
        """What is taken off a weight, and its new running means."""
        first, second, first_power, second_power = self._betas(kind)
        rate = rate * tf.sqrt(1 - second_power) / (1 - first_power)
        m = slots["m"] + (gradient - slots["m"]) * (1 - first)
        v = slots["v"] + (tf.square(gradient) - slots["v"]) * (1 - second)
        after = {"m": m, "v": v}
        if self.amsgrad:
            after["vhat"] = v = tf.maximum(slots["vhat"], v)
        return rate * m / (tf.sqrt(v) + self.epsilon), after


@registry.add("adamax")
class Adamax(_OfMoments):
    """Adam by the greatest norm."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float | None = 1e-7,
        name: str = "Adamax",
        **kwargs: Any,
    ) -> None:
        hypers = {"learning_rate": learning_rate, "beta_1": beta_1, "beta_2": beta_2}
        initialize(self, name, kwargs, hypers, epsilon=epsilon_of(epsilon))

    def rule(self, gradient: Any, rate: Any, slots: dict[str, Any], kind: Any, var: Any) -> tuple[Any, dict[str, Any]]:
        """What is taken off a weight, and its new running means."""
        first, second, first_power, _ = self._betas(kind)
        m = slots["m"] + (gradient - slots["m"]) * (1 - first)
        v = tf.maximum(second * slots["v"], tf.abs(gradient))
        return rate / (1 - first_power) * m / (v + self.epsilon), {"m": m, "v": v}


@registry.add("nadam")
class Nadam(_OfMoments):
    """Adam with Nesterov's momentum."""

    sparse = "slots"

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta_1: float = 0.9,
        beta_2: float = 0.999,
        epsilon: float | None = 1e-7,
        name: str = "Nadam",
        **kwargs: Any,
    ) -> None:
        decay = kwargs.pop("schedule_decay", 0.004)
        kwargs.setdefault("decay", decay)
        hypers = {"learning_rate": learning_rate, "beta_1": beta_1, "beta_2": beta_2}
        initialize(self, name, kwargs, hypers, epsilon=epsilon_of(epsilon))
        self._schedule: Any = None

    def _rate(self, kind: Any) -> Any:
        rate = self._get_hyper("learning_rate")
        return tf.cast(rate(tf.cast(self.iterations, kind)) if callable(rate) else rate, kind)

    def _create_slots(self, var_list: Any) -> None:
        self._create_hypers()
        if self._schedule is None:
            with tf.init_scope():
                self._schedule = self._variable("momentum_cache", np.float32(1))
            self._weights.append(self._schedule)
        super()._create_slots(var_list)

    def _apply_all(self, pairs: list[Any]) -> list[Any]:
        self._cache = tf.identity(self._schedule)
        now, _ = self._momenta(tf.float32)
        after = self._cache * now
        ops = super()._apply_all(pairs)
        with tf.control_dependencies([] if state.is_eager() else ops):
            kept = tf.assign(self._schedule, after)
            return [*ops, kept if state.is_eager() else tf.group(kept)]

    def _momenta(self, kind: Any) -> tuple[Any, Any]:
        step = tf.cast(self.iterations + 1, kind)
        first, decay = self._number("beta_1", kind), self._number("decay", kind)
        now, following = (first * (1 - 0.5 * tf.pow(tf.cast(0.96, kind), decay * s)) for s in (step, step + 1))
        return now, following

    def rule(self, gradient: Any, rate: Any, slots: dict[str, Any], kind: Any, var: Any) -> tuple[Any, dict[str, Any]]:
        """What is taken off a weight, and its new running means."""
        first, second, _, second_power = self._betas(kind)
        now, following = self._momenta(kind)
        product = tf.cast(self._cache, kind) * now
        scaled = gradient / (1 - product)
        m = first * slots["m"] + (1 - first) * gradient
        v = second * slots["v"] + (1 - second) * tf.square(gradient)
        mean = (1 - now) * scaled + following * m / (1 - product * following)
        return rate * mean / (tf.sqrt(v / (1 - second_power)) + self.epsilon), {"m": m, "v": v}


@registry.add("ftrl")
class Ftrl(Optimizer):
    """Follow the regularized leader (McMahan et al., 2013)."""

    def __init__(
        self,
        learning_rate: Any = 0.001,
        learning_rate_power: float = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        name: str = "Ftrl",
        l2_shrinkage_regularization_strength: float = 0.0,
        **kwargs: Any,
    ) -> None:
        hypers = {
            "learning_rate": learning_rate,
            "learning_rate_power": learning_rate_power,
            "l1_regularization_strength": l1_regularization_strength,
            "l2_regularization_strength": l2_regularization_strength,
        }
        options = {
            "initial_accumulator_value": initial_accumulator_value,
            "l2_shrinkage_regularization_strength": l2_shrinkage_regularization_strength,
        }
        initialize(self, name, kwargs, hypers, **options)
        self.slots = {"accumulator": initial_accumulator_value, "linear": 0.0}

    def _reads_weights(self) -> bool:
        return True

    def _create_slots(self, var_list: Any) -> None:
        self._create_hypers()
        for var in var_list:  # both of a weight together, the order of `get_weights` in files
            for slot in self._slot_names():
                self.add_slot(var, slot)

    def rule(self, gradient: Any, rate: Any, slots: dict[str, Any], kind: Any, var: Any) -> tuple[Any, dict[str, Any]]:
        """What is taken off a weight, and its new sums."""
        power = self._number("learning_rate_power", kind)
        l1, l2 = (self._number(f"{norm}_regularization_strength", kind) for norm in ("l1", "l2"))
        total = slots["accumulator"] + tf.square(gradient)
        shrunk = gradient + 2 * self.l2_shrinkage_regularization_strength * var
        scale = (tf.pow(total, -power) - tf.pow(slots["accumulator"], -power)) / rate
        linear = slots["linear"] + shrunk - scale * var
        quadratic = tf.pow(total, -power) / rate + 2 * l2
        wanted = tf.where(tf.abs(linear) > l1, (tf.sign(linear) * l1 - linear) / quadratic, tf.zeros_like(var))
        return var - wanted, {"accumulator": total, "linear": linear}
