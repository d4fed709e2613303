"""How the sign counts less and less in `AddSignOptimizer` and `PowerSignOptimizer` (Bello et al., 2017).

Programs import these from ``tensorflow.contrib.opt.python.training.sign_decay``.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.core import errors

Decay = Callable[[Any], Any]


def _part(global_step: Any, decay_steps: Any, name: str) -> Any:
    """The share of the steps that are done, at most 1."""
    if global_step is None:
        raise ValueError(
            f"global_step is required for {name}.\n"
            + errors.message("no global step", "a step", "optimizer.minimize(loss, global_step=step)")
        )
    return tf.cast(tf.minimum(global_step, decay_steps), tf.float32) / tf.cast(decay_steps, tf.float32)


def _before(end: Any, value: Any, decayed: Any) -> Any:
    if end is None:
        return decayed
    return tf.where(value >= end, tf.zeros_like(decayed), decayed)


def get_linear_decay_fn(decay_steps: Any) -> Decay:
    """A function of the step that falls in a line from 1 to 0 in ``decay_steps``."""
    return lambda global_step: tf.maximum(0.0, 1.0 - _part(global_step, decay_steps, "linear_decay"))


def get_cosine_decay_fn(decay_steps: Any, num_periods: float = 0.5, zero_after: float | None = None) -> Decay:
    """A function of the step that follows a cosine from 1 for ``num_periods`` periods in ``decay_steps``.

    It is 0 after ``zero_after`` periods, if given.
    """

    def decay(global_step: Any) -> Any:
        turns = num_periods * _part(global_step, decay_steps, "cosine_decay")
        return _before(zero_after, turns, 0.5 * (1.0 + tf.cos(2.0 * math.pi * turns)))

    return decay


def get_restart_decay_fn(decay_steps: Any, num_periods: float = 1, zero_after: float | None = None) -> Decay:
    """A function of the step that falls along half a cosine from 1 to 0, ``num_periods`` times in ``decay_steps``.

    It is 0 after ``zero_after`` of these, if given (Loshchilov and Hutter, 2017).
    """

    def decay(global_step: Any) -> Any:
        turns = num_periods * _part(global_step, decay_steps, "cosine_decay")
        length = tf.cast(decay_steps, tf.float32)
        within = tf.floormod(num_periods * tf.cast(tf.minimum(global_step, decay_steps), tf.float32), length) / length
        return _before(zero_after, turns, 0.5 * (1.0 + tf.cos(math.pi * within)))

    return decay
