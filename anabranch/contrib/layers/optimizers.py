"""One function that makes a training step, and a norm to clip by that follows the gradients' norms."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any, cast

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor

OPTIMIZER_CLS_NAMES: dict[str, Callable[..., Any]] = {
    "Adagrad": tf.train.AdagradOptimizer,
    "Adam": tf.train.AdamOptimizer,
    "Ftrl": tf.train.FtrlOptimizer,
    "Momentum": lambda learning_rate: tf.train.MomentumOptimizer(learning_rate, momentum=0.9),
    "RMSProp": tf.train.RMSPropOptimizer,
    "SGD": tf.train.GradientDescentOptimizer,
}
OPTIMIZER_SUMMARIES = ["learning_rate", "loss", "gradients", "gradient_norm", "global_gradient_norm"]
public("contrib.layers.OPTIMIZER_CLS_NAMES")(OPTIMIZER_CLS_NAMES)
public("contrib.layers.OPTIMIZER_SUMMARIES")(OPTIMIZER_SUMMARIES)


def _learning_rate(given: Any, decay: Any, global_step: Any, shown: Sequence[str]) -> Any:
    if given is None:
        return None
    if isinstance(given, Tensor) and given.shape.ndims == 0:
        rate: Any = given
    elif isinstance(given, (int, float)):
        if given < 0.0:
            raise ValueError(
                f"Invalid learning_rate {given}.\n"
                + errors.message(f"{given}", "a rate of 0 or more", "learning_rate=0.01")
            )
        rate = tf.get_variable("learning_rate", [], trainable=False, initializer=tf.constant_initializer(float(given)))
    else:
        raise ValueError(
            "Learning rate should be 0d Tensor or float. "
            f"Got {given} of type {type(given)}\n"
            + errors.message(f"a {type(given).__name__}", "a number or a scalar tensor", "learning_rate=0.01")
        )
    if decay is not None:
        if global_step is None:
            raise ValueError(
                "global_step is required for learning_rate_decay_fn.\n"
                + errors.message("no global step", "a graph with a global step", "tf.train.get_or_create_global_step()")
            )
        rate = decay(rate, global_step)
        if "learning_rate" in shown:
            tf.summary.scalar("learning_rate", rate)
    return rate


def _optimizer(given: Any, rate: Any) -> Any:
    if isinstance(given, str):
        if given not in OPTIMIZER_CLS_NAMES:
            raise ValueError(
                f"Optimizer name should be one of [{', '.join(OPTIMIZER_CLS_NAMES)}], you provided {given}.\n"
                + errors.message(f"optimizer={given!r}", "one of these names", "optimizer='Adam'")
            )
        if rate is None:
            raise ValueError(
                f"Learning rate is None, but should be specified if optimizer is string ({given}).\n"
                + errors.message("learning_rate=None", "a rate", "learning_rate=0.01")
            )
        return OPTIMIZER_CLS_NAMES[given](learning_rate=rate)
    if inspect.isclass(given) and issubclass(given, tf.train.Optimizer):
        if rate is None:
            raise ValueError(
                f"Learning rate is None, but should be specified if optimizer is class ({given.__name__}).\n"
                + errors.message("learning_rate=None", "a rate", "learning_rate=0.01")
            )
        return cast(Any, given)(learning_rate=rate)
    optimizer = given
    if callable(given) and not isinstance(given, tf.train.Optimizer):
        optimizer = given() if rate is None else given(rate)
    if not isinstance(optimizer, tf.train.Optimizer):
        raise ValueError(
            f"Unrecognized optimizer: function should return subclass of Optimizer. Got {optimizer}.\n"
            + errors.message(f"{given!r}", "a name, an Optimizer, its class, or a function of the rate", "'Adam'")
        )
    return optimizer


def _with_values(pairs: Sequence[Any], change: Callable[[Any, Any], Any]) -> list[Any]:
    """Pairs of gradient and variable with other gradients; slices stay slices."""
    changed = []
    for gradient, variable in pairs:
        if isinstance(gradient, tf.IndexedSlices):
            values = change(gradient.values, variable)
            gradient = tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        elif gradient is not None:
            gradient = change(gradient, variable)
        changed.append((gradient, variable))
    return changed


def _times(factor: Any) -> Callable[[Any, Any], Any]:
    return lambda gradient, _: gradient * tf.cast(factor, gradient.dtype)


def multiplied(pairs: Sequence[Any], multipliers: dict[Any, Any]) -> list[Any]:
    """Gradients times factors, which are found by the variable or by its name (``w:0``); None stays None."""
    by_op = {key.op: value for key, value in multipliers.items() if not isinstance(key, str)}
    scaled: list[Any] = []
    for gradient, variable in pairs:
        factor = by_op.get(variable.op, multipliers.get(variable.name, multipliers.get(variable.op.name)))
        scaled += (
            [(gradient, variable)]
            if factor is None or gradient is None
            else _with_values([(gradient, variable)], _times(factor))
        )
    return scaled


@public("contrib.layers.optimize_loss")
def optimize_loss(
    loss: Any,
    global_step: Any,
    learning_rate: Any,
    optimizer: Any,
    gradient_noise_scale: float | None = None,
    gradient_multipliers: Any = None,
    clip_gradients: Any = None,
    learning_rate_decay_fn: Any = None,
    update_ops: Any = None,
    variables: Any = None,
    name: str | None = None,
    summaries: Sequence[str] | None = None,
    colocate_gradients_with_ops: bool = False,
    increment_global_step: bool = True,
) -> Tensor:
    """A tensor whose evaluation makes one step of an optimizer, and gives the loss.

    Args:
        loss: a scalar.
        global_step: the step to count; that of the graph, if there is one, by default.
        learning_rate: a number (a variable ``learning_rate`` holds it), a scalar tensor, or None.
        optimizer: a name of ``OPTIMIZER_CLS_NAMES``, an Optimizer, its class, or a function of the learning rate.
        gradient_noise_scale: deviation of noise that is added to gradients.
        gradient_multipliers: dictionary from variables, or their names, to factors of their gradients.
        clip_gradients: a global norm, or a function of the pairs of gradient and variable.
        learning_rate_decay_fn: function of the learning rate and the global step.
        update_ops: what runs before the loss is used; the collection UPDATE_OPS by default.
        variables: what to train; the trainable variables by default.
        name: name of the variable scope.
        summaries: which of ``OPTIMIZER_SUMMARIES`` to make; loss, learning rate and global norms by default.
        colocate_gradients_with_ops: place gradients where their ops are.
        increment_global_step: whether the step is counted.
    """
    loss = tf.convert_to_tensor(loss)
    if loss.shape.ndims not in (None, 0):
        raise ValueError(errors.message(f"a loss of shape {loss.shape}", "a scalar", "tf.reduce_mean(loss)"))
    if global_step is None:
        global_step = tf.train.get_global_step()
    else:
        tf.train.assert_global_step(global_step)
    with tf.variable_scope(name, "OptimizeLoss", [loss, global_step]):
        updates = set(tf.get_collection(tf.GraphKeys.UPDATE_OPS)) if update_ops is None else set(update_ops)
        if updates:
            with tf.control_dependencies(list(updates)):
                loss = tf.identity(loss, name="control_dependency")
        shown = ["loss", "learning_rate", "global_gradient_norm"] if summaries is None else summaries
        for each in shown:
            if each not in OPTIMIZER_SUMMARIES:
                raise ValueError(
                    f"Summaries should be one of [{', '.join(OPTIMIZER_SUMMARIES)}], you provided {each}.\n"
                    + errors.message(f"summaries={list(shown)}", "names of these", "summaries=['loss']")
                )
        opt = _optimizer(optimizer, _learning_rate(learning_rate, learning_rate_decay_fn, global_step, shown))
        if variables is None:
            variables = tf.trainable_variables()
        pairs = opt.compute_gradients(loss, variables, colocate_gradients_with_ops=colocate_gradients_with_ops)
        if gradient_noise_scale is not None:
            pairs = _with_values(pairs, lambda g, _: g + gradient_noise_scale * tf.truncated_normal(tf.shape(g)))
        if gradient_multipliers is not None:
            pairs = multiplied(pairs, gradient_multipliers)
        if "global_gradient_norm" in shown or "gradient_norm" in shown:
            tf.summary.scalar("global_norm/gradient_norm", tf.global_norm([g for g, _ in pairs]))
        pairs = _clipped(pairs, clip_gradients)
        if "loss" in shown:
            tf.summary.scalar("loss", loss)
        for gradient, variable in pairs:
            if gradient is not None:
                values = getattr(gradient, "values", gradient)
                tag = variable.name.replace(":", "_")
                if "gradients" in shown:
                    tf.summary.histogram(f"gradients/{tag}", values)
                if "gradient_norm" in shown:
                    tf.summary.scalar(f"gradient_norm/{tag}", tf.global_norm([values]))
        if clip_gradients is not None and ("global_gradient_norm" in shown or "gradient_norm" in shown):
            tf.summary.scalar("global_norm/clipped_gradient_norm", tf.global_norm([g for g, _ in pairs]))
        step = opt.apply_gradients(pairs, global_step=global_step if increment_global_step else None, name="train")
        with tf.control_dependencies([step]):
            done: Tensor = tf.identity(loss, name="control_dependency")
        return done


def _clipped(pairs: list[Any], clip: Any) -> list[Any]:
    if clip is None:
        return pairs
    if isinstance(clip, float):
        clipped, _ = tf.clip_by_global_norm([gradient for gradient, _ in pairs], clip)
        return [(gradient, variable) for gradient, (_, variable) in zip(clipped, pairs, strict=True)]
    if callable(clip):
        return list(clip(pairs))
    raise ValueError(
        f"Unknown type {type(clip)} for clip_gradients\n"
        + errors.message(f"clip_gradients={clip!r}", "a float or a function of pairs", "clip_gradients=5.0")
    )


@public("contrib.layers.adaptive_clipping_fn")
def adaptive_clipping_fn(
    std_factor: float = 2.0,
    decay: float = 0.95,
    static_max_norm: float | None = None,
    global_step: Any = None,
    report_summary: bool = False,
    epsilon: float = 1e-8,
    name: str | None = None,
) -> Callable[[Any], Any]:
    """A function that scales gradients down whose global norm is unusually large.

    A norm is unusual if its logarithm exceeds the moving average of logarithms by ``std_factor`` deviations.

    Args:
        std_factor: how many deviations.
        decay: of the moving averages.
        static_max_norm: a further bound of the norm.
        global_step: with it, early averages follow faster.
        report_summary: make summaries of norm and bound.
        epsilon: keeps logarithm and root away from 0.
        name: name of the variable scope, "AdaptiveMaxNorm" by default.
    """

    def clip(pairs: Any) -> list[Any]:
        norm = tf.global_norm([gradient for gradient, _ in pairs])
        bound, log_mean = _adaptive_bound(norm, std_factor, decay, global_step, epsilon, name)
        if report_summary:
            tf.summary.scalar("global_norm/adaptive_max_gradient_norm", bound)
        factor = tf.where(norm < bound, tf.ones_like(norm), tf.exp(log_mean) / norm)
        if static_max_norm is not None:
            factor = tf.minimum(static_max_norm / norm, factor)
        return _with_values(pairs, lambda g, _: g * factor)

    return clip


def _adaptive_bound(norm: Any, factor: float, decay: Any, step: Any, epsilon: float, name: Any) -> tuple[Any, Any]:
    with tf.variable_scope(name, "AdaptiveMaxNorm", [norm]):
        if step is not None:
            n = tf.cast(step, tf.float32)
            decay = tf.minimum(decay, n / (n + 1.0))
        log = tf.log(norm + epsilon)
        means = []
        for moment, value in (("mean", log), ("sq_mean", tf.square(log))):
            average = tf.get_variable(moment, value.shape, value.dtype, tf.zeros_initializer(), trainable=False)
            means.append(average.assign(average * decay + value * (1.0 - decay)))
        mean, squares = (tf.convert_to_tensor(each) for each in means)
        deviation = tf.sqrt(tf.maximum(epsilon, squares - tf.square(mean)))
        return tf.exp(mean + factor * deviation), mean
