"""Training steps from losses and optimizers, and the loop that runs them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor
from anabranch.ops.control.public_dependencies import with_dependencies

# The global step of the graph, which is made if it is not there.
USE_GLOBAL_STEP = 0


@public("contrib.training.add_gradients_summaries")
def add_gradients_summaries(grads_and_vars: Sequence[Any]) -> list[Any]:
    """A histogram and the norm of each gradient, as summaries."""
    summaries = []
    for gradient, variable in grads_and_vars:
        if gradient is None:
            tf.logging.info("Var %s has no gradient", variable.op.name)
            continue
        values = getattr(gradient, "values", gradient)
        summaries.append(tf.summary.histogram(variable.op.name + "_gradient", values))
        summaries.append(tf.summary.scalar(variable.op.name + "_gradient_norm", tf.global_norm([values])))
    return summaries


@public("contrib.training.clip_gradient_norms")
def clip_gradient_norms(gradients_to_variables: Sequence[Any], max_norm: Any) -> list[Any]:
    """Gradients of which each is scaled down to a norm of at most ``max_norm``."""
    clipped = []
    for gradient, variable in gradients_to_variables:
        if isinstance(gradient, tf.IndexedSlices):
            values = tf.clip_by_norm(gradient.values, max_norm)
            gradient = tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
        elif gradient is not None:
            gradient = tf.clip_by_norm(gradient, max_norm)
        clipped.append((gradient, variable))
    return clipped


@public("contrib.training.clip_gradient_norms_fn")
def clip_gradient_norms_fn(max_norm: Any) -> Callable[[Sequence[Any]], list[Any]]:
    """:func:`clip_gradient_norms` with a norm, as a ``transform_grads_fn``."""
    return lambda pairs: clip_gradient_norms(pairs, max_norm)


@public("contrib.training.multiply_gradients")
def multiply_gradients(grads_and_vars: Sequence[Any], gradient_multipliers: dict[Any, Any]) -> list[Any]:
    """Gradients times factors, which are found by the variable or by the name of its op.

    Raises:
        ValueError: there are no factors, or one for a variable without gradient.
    """
    if not isinstance(grads_and_vars, list):
        raise ValueError(
            "`grads_and_vars` must be a list.\n"
            + errors.message(
                f"a {type(grads_and_vars).__name__}", "a list of pairs", "optimizer.compute_gradients(loss)"
            )
        )
    if not gradient_multipliers or not isinstance(gradient_multipliers, dict):
        problem = (
            "`gradient_multipliers` must be a dict." if gradient_multipliers else "`gradient_multipliers` is empty."
        )
        raise ValueError(
            f"{problem}\n" + errors.message(f"{gradient_multipliers!r}", "variable -> factor", "{'w': 2.0}")
        )
    by_op = {key.op: factor for key, factor in gradient_multipliers.items() if not isinstance(key, str)}
    scaled = []
    for gradient, variable in grads_and_vars:
        factor = by_op.get(variable.op, gradient_multipliers.get(variable.op.name))
        if factor is not None:
            if gradient is None:
                raise ValueError(
                    "Requested multiple of `None` gradient.\n"
                    + errors.message(
                        f"a factor for {variable.op.name}, which has none",
                        "factors for variables with gradients",
                        "leave it out of the dictionary",
                    )
                )
            if isinstance(gradient, tf.IndexedSlices):
                values = gradient.values * tf.cast(factor, gradient.dtype)
                gradient = tf.IndexedSlices(values, gradient.indices, gradient.dense_shape)
            else:
                gradient = gradient * tf.cast(factor, gradient.dtype)
        scaled.append((gradient, variable))
    return scaled


@public("contrib.training.create_train_op")
def create_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = USE_GLOBAL_STEP,
    update_ops: Any = None,
    variables_to_train: Any = None,
    transform_grads_fn: Callable[[Any], Any] | None = None,
    summarize_gradients: bool = False,
    gate_gradients: int = tf.train.Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    check_numerics: bool = True,
) -> Tensor:
    """A tensor whose evaluation makes one step of an optimizer, and gives the loss.

    Args:
        total_loss: a scalar.
        optimizer: an Optimizer.
        global_step: the step to count; that of the graph by default, none with None.
        update_ops: what runs before the loss is used; the collection UPDATE_OPS by default.
        variables_to_train: the trainable variables by default.
        transform_grads_fn: function from pairs of gradient and variable to such pairs.
        summarize_gradients: make summaries of gradients.
        gate_gradients: see ``Optimizer.compute_gradients``.
        aggregation_method: see ``Optimizer.compute_gradients``.
        colocate_gradients_with_ops: see ``Optimizer.compute_gradients``.
        check_numerics: fail where the loss is infinite or not a number.
    """
    total_loss = tf.convert_to_tensor(total_loss)
    if isinstance(global_step, int) and global_step == USE_GLOBAL_STEP:
        global_step = tf.train.get_or_create_global_step()
    collected = set(tf.get_collection(tf.GraphKeys.UPDATE_OPS))
    updates = collected if update_ops is None else set(update_ops)
    if not collected <= updates:
        tf.logging.warning("update_ops in create_train_op does not contain all the update_ops in GraphKeys.UPDATE_OPS")
    if updates:
        with tf.control_dependencies(list(updates)):
            barrier = tf.no_op(name="update_barrier")
        total_loss = with_dependencies([barrier], total_loss)
    variables = tf.trainable_variables() if variables_to_train is None else variables_to_train
    known = tf.trainable_variables()
    for variable in variables:
        if not any(variable is other for other in known):
            raise ValueError(
                errors.message(f"{variable.name}", "a trainable variable", "trainable=True where it is made")
            )
    if not variables:
        raise ValueError(errors.message("no variable to train", "one at least", "tf.get_variable before the step"))
    pairs = optimizer.compute_gradients(
        total_loss,
        variables,
        gate_gradients=gate_gradients,
        aggregation_method=aggregation_method,
        colocate_gradients_with_ops=colocate_gradients_with_ops,
    )
    if transform_grads_fn:
        pairs = transform_grads_fn(pairs)
    if summarize_gradients:
        with tf.name_scope("summarize_grads"):
            add_gradients_summaries(pairs)
    step = optimizer.apply_gradients(pairs, global_step=global_step)
    with tf.name_scope("train_op"):
        if check_numerics:
            total_loss = tf.check_numerics(total_loss, "LossTensor is inf or nan")
        train_op: Tensor = with_dependencies([step], total_loss)
    if not any(train_op is other for other in tf.get_collection(tf.GraphKeys.TRAIN_OP)):
        tf.add_to_collection(tf.GraphKeys.TRAIN_OP, train_op)
    return train_op


@public("contrib.training.train")
def train(
    train_op: Any,
    logdir: Any,
    master: str = "",
    is_chief: bool = True,
    scaffold: Any = None,
    hooks: Any = None,
    chief_only_hooks: Any = None,
    save_checkpoint_secs: Any = 600,
    save_summaries_steps: Any = 100,
    config: Any = None,
    max_wait_secs: float = 7200,
    run_metadata: Any = None,
) -> Any:
    """Run a training step until a hook asks for the end; the last loss, or None if there was no step.

    Raises:
        ValueError: there is no folder, but checkpoints or summaries were asked for.
    """
    if logdir is None and is_chief:
        for name, value in (
            ("save_summaries_steps", save_summaries_steps),
            ("save_checkpoint_secs", save_checkpoint_secs),
        ):
            if value:
                raise ValueError(
                    f"logdir cannot be None when {name} is not None\n"
                    + errors.message(f"{name}={value} without logdir", "a folder", f"{name}=None")
                )
    with tf.train.MonitoredTrainingSession(
        master=master,
        is_chief=is_chief,
        checkpoint_dir=logdir,
        scaffold=scaffold,
        hooks=hooks,
        chief_only_hooks=chief_only_hooks,
        save_checkpoint_secs=save_checkpoint_secs,
        save_summaries_steps=save_summaries_steps,
        config=config,
        max_wait_secs=max_wait_secs,
    ) as session:
        loss = None
        while not session.should_stop():
            loss = session.run(train_op, run_metadata=run_metadata)
    return loss
