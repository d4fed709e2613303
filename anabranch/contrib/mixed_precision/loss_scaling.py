"""Scales of losses (Micikevicius et al., 2018), fixed or found while training, and the optimizer that uses them."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.train.loss_scaling import LossScale, MixedPrecisionLossScaleOptimizer, all_finite


@public("contrib.mixed_precision.LossScaleManager")
class LossScaleManager(abc.ABC):
    """What an optimizer asks for the scale of its loss."""

    @abc.abstractmethod
    def get_loss_scale(self) -> Any:
        """The scale, a scalar of 32 bits."""

    @abc.abstractmethod
    def update_loss_scale(self, finite_grads: Any) -> Any:
        """An op that changes the scale after a step.

        Args:
            finite_grads: a scalar, whether all gradients of the step were finite.
        """


@public("contrib.mixed_precision.FixedLossScaleManager")
class FixedLossScaleManager(LossScaleManager):
    """A scale that stays the same.

    Args:
        loss_scale: 1 or more.

    Raises:
        ValueError: the scale is below 1.
    """

    def __init__(self, loss_scale: float) -> None:
        if loss_scale < 1:
            raise ValueError(
                "loss scale must be at least 1.\n"
                + errors.message(f"loss_scale={loss_scale}", "a scale of 1 or more", "loss_scale=128")
            )
        self._loss_scale = tf.convert_to_tensor(loss_scale, dtype=tf.float32)

    def get_loss_scale(self) -> Any:
        """The scale."""
        return self._loss_scale

    def update_loss_scale(self, finite_grads: Any) -> Any:
        """An op without effect."""
        return tf.no_op()


@public("contrib.mixed_precision.ExponentialUpdateLossScaleManager")
class ExponentialUpdateLossScaleManager(LossScaleManager):
    """A scale that grows after some steps with finite gradients, and shrinks after some without.

    Args:
        init_loss_scale: the first scale.
        incr_every_n_steps: consecutive good steps after which it grows; not beyond what 32 bits hold.
        decr_every_n_nan_or_inf: bad steps after which it shrinks; not below 1.
        incr_ratio: factor of growth.
        decr_ratio: factor of shrinking.
    """

    def __init__(
        self,
        init_loss_scale: float,
        incr_every_n_steps: int,
        decr_every_n_nan_or_inf: int = 2,
        incr_ratio: float = 2,
        decr_ratio: float = 0.8,
    ) -> None:
        self._growth = incr_every_n_steps, incr_ratio
        self._shrinking = decr_every_n_nan_or_inf, decr_ratio
        self._loss_scale = tf.Variable(float(init_loss_scale), trainable=False, dtype=tf.float32, name="loss_scale")
        self._good = tf.Variable(0, trainable=False, dtype=tf.int32, name="good_steps")
        self._bad = tf.Variable(0, trainable=False, dtype=tf.int32, name="bad_steps")

    def get_loss_scale(self) -> Any:
        """The scale, a variable."""
        return self._loss_scale

    def _set(self, scale: Any) -> Any:
        return tf.group(self._loss_scale.assign(scale), self._good.assign(0), self._bad.assign(0))

    def update_loss_scale(self, finite_grads: Any) -> Any:
        """An op that counts the step, and changes the scale when it is time.

        Args:
            finite_grads: a scalar, whether all gradients of the step were finite.
        """

        def good() -> Any:
            steps, ratio = self._growth
            grown = self._loss_scale * ratio
            kept = tf.cond(tf.is_finite(grown), lambda: grown, lambda: tf.identity(self._loss_scale))
            return tf.cond(self._good + 1 >= steps, lambda: self._set(kept), lambda: tf.group(self._good.assign_add(1)))

        def bad() -> Any:
            steps, ratio = self._shrinking
            return tf.cond(
                self._bad + 1 >= steps,
                lambda: self._set(tf.maximum(1.0, self._loss_scale * ratio)),
                lambda: tf.group(self._bad.assign_add(1), self._good.assign(0)),
            )

        return tf.cond(finite_grads, good, bad)


class _Managed(LossScale):
    """The scale that a manager keeps."""

    def __init__(self, manager: LossScaleManager) -> None:
        self._manager = manager

    def __call__(self) -> Any:
        return self._manager.get_loss_scale()

    def update(self, grads: Sequence[Any]) -> tuple[Any, Any]:
        finite = all_finite(grads)
        return self._manager.update_loss_scale(finite), finite

    def get_config(self) -> dict[str, Any]:
        return {"manager": self._manager}


@public("contrib.mixed_precision.LossScaleOptimizer")
class LossScaleOptimizer(MixedPrecisionLossScaleOptimizer):
    """An optimizer that scales the loss, and gradients back; a step whose gradients are not finite changes nothing.

    Args:
        opt: the optimizer within.
        loss_scale_manager: a :class:`LossScaleManager`.

    >>> manager = tf.contrib.mixed_precision.FixedLossScaleManager(1024)
    >>> optimizer = tf.contrib.mixed_precision.LossScaleOptimizer(tf.train.AdamOptimizer(), manager)
    """

    def __init__(self, opt: Any, loss_scale_manager: LossScaleManager) -> None:
        super().__init__(opt, _Managed(loss_scale_manager))
