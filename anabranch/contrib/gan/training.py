"""Losses of a model together, their training ops, and hooks and loops that run generator and discriminator in turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import anabranch as tf
from anabranch.contrib.gan import model_losses, models
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor


@public("contrib.gan.GANLoss")
class GANLoss(NamedTuple):
    """Losses of a generator and a discriminator."""

    generator_loss: Any
    discriminator_loss: Any


@public("contrib.gan.CycleGANLoss")
class CycleGANLoss(NamedTuple):
    """Losses of the two models of a CycleGAN."""

    loss_x2y: Any
    loss_y2x: Any


@public("contrib.gan.GANTrainOps")
class GANTrainOps(NamedTuple):
    """Ops that train a generator and a discriminator, and one that counts steps."""

    generator_train_op: Any
    discriminator_train_op: Any
    global_step_inc_op: Any


@public("contrib.gan.GANTrainSteps")
class GANTrainSteps(NamedTuple):
    """How many steps the generator and the discriminator make in turn."""

    generator_train_steps: int
    discriminator_train_steps: int


_ONE_EACH = GANTrainSteps(1, 1)


# -------------------------------------------------------------------------------------------------------------- losses
def _checked_weight(weight: Any, name: str) -> Any:
    """A weight that is not below 0, a tensor's when it is used."""
    if isinstance(weight, Tensor):
        weight.shape.assert_is_compatible_with([])
        with tf.control_dependencies([tf.assert_greater_equal(weight, 0.0)]):
            return tf.identity(weight)
    if weight is not None and weight < 0:
        raise ValueError(
            f"`{name}` must be greater than 0. Instead, was {weight}\n"
            + errors.message(f"{name}={weight}", "a weight of 0 or more", f"{name}=None")
        )
    return weight


def _counts(weight: Any) -> bool:
    return weight is not None and (isinstance(weight, Tensor) or weight > 0)


def _tensor_pool_adjusted_model(model: Any, tensor_pool_fn: Callable[..., Any] | None) -> Any:
    """The model whose discriminator sees generated data from a pool."""
    if tensor_pool_fn is None:
        return model
    changed: dict[type, tuple[str, ...]] = {
        models.GANModel: ("discriminator_gen_outputs",),
        models.ACGANModel: ("discriminator_gen_outputs", "discriminator_gen_classification_logits"),
        models.InfoGANModel: ("discriminator_gen_outputs", "predicted_distributions"),
    }
    if type(model) not in changed:
        raise ValueError(
            f"Tensor pool does not support `model`: {type(model)}.\n"
            + errors.message(
                f"a {type(model).__name__}", "a GANModel, ACGANModel or InfoGANModel", "tensor_pool_fn=None"
            )
        )
    fields = changed[type(model)]
    data, inputs = tensor_pool_fn((model.generated_data, model.generator_inputs))
    judge = model.discriminator_and_aux_fn if isinstance(model, models.InfoGANModel) else model.discriminator_fn
    with tf.variable_scope(model.discriminator_scope, reuse=True):
        outputs = judge(data, inputs)
    return model._replace(**dict(zip(fields, (outputs,) if len(fields) == 1 else outputs, strict=True)))


def _needs(model: Any, kind: type, weights: dict[str, Any]) -> None:
    """Refuse a model of another kind than the losses that are asked for need."""
    names = " or ".join(f"`{name}`" for name in weights)
    if any(_counts(weight) for weight in weights.values()) and not isinstance(model, kind):
        raise ValueError(
            f"When {names} is provided, `model` must be an `{kind.__name__}`. Instead, was {type(model)}.\n"
            + errors.message(
                f"a {type(model).__name__}",
                f"a model of class {kind.__name__}",
                f"tf.contrib.gan.{kind.__name__.removesuffix('Model').lower()}_model(...)",
            )
        )


@public("contrib.gan.gan_loss")
def gan_loss(
    model: Any,
    generator_loss_fn: Callable[..., Any] = model_losses.wasserstein_generator_loss,
    discriminator_loss_fn: Callable[..., Any] = model_losses.wasserstein_discriminator_loss,
    gradient_penalty_weight: Any = None,
    gradient_penalty_epsilon: float = 1e-10,
    gradient_penalty_target: Any = 1.0,
    gradient_penalty_one_sided: bool = False,
    mutual_information_penalty_weight: Any = None,
    aux_cond_generator_weight: Any = None,
    aux_cond_discriminator_weight: Any = None,
    tensor_pool_fn: Callable[..., Any] | None = None,
    add_summaries: bool = True,
) -> GANLoss:
    """Losses of a model: the adversarial ones, penalties with weights, and regularization of both parts' variables.

    Args:
        model: a GANModel, InfoGANModel or ACGANModel.
        generator_loss_fn: function from the model and ``add_summaries`` to a scalar.
        discriminator_loss_fn: likewise.
        gradient_penalty_weight: weight of the gradient penalty, a number or a scalar tensor.
        gradient_penalty_epsilon: see ``losses.wargs.wasserstein_gradient_penalty``.
        gradient_penalty_target: likewise.
        gradient_penalty_one_sided: likewise.
        mutual_information_penalty_weight: weight of the penalty of an InfoGAN, in both losses.
        aux_cond_generator_weight: weight of the generator's loss of an ACGAN's classes.
        aux_cond_discriminator_weight: weight of the discriminator's.
        tensor_pool_fn: function from generated data and inputs to older ones, as
            ``tf.contrib.gan.features.tensor_pool``; the discriminator's loss is of what it gives.
        add_summaries: make summaries.

    Raises:
        ValueError: a weight is below 0, or needs a model of another kind.
    """
    penalty = _checked_weight(gradient_penalty_weight, "gradient_penalty_weight")
    information = _checked_weight(mutual_information_penalty_weight, "infogan_weight")
    of_classes = _checked_weight(aux_cond_generator_weight, "aux_cond_generator_weight")
    judged_classes = _checked_weight(aux_cond_discriminator_weight, "aux_cond_discriminator_weight")
    _needs(model, models.InfoGANModel, {"mutual_information_penalty_weight": information})
    weights = {"aux_cond_generator_weight": of_classes, "aux_cond_discriminator_weight": judged_classes}
    _needs(model, models.ACGANModel, weights)

    of_generator = generator_loss_fn(model, add_summaries=add_summaries)
    of_discriminator = discriminator_loss_fn(
        _tensor_pool_adjusted_model(model, tensor_pool_fn), add_summaries=add_summaries
    )
    if _counts(penalty):
        of_discriminator += penalty * model_losses.wasserstein_gradient_penalty(
            model,
            epsilon=gradient_penalty_epsilon,
            target=gradient_penalty_target,
            one_sided=gradient_penalty_one_sided,
            add_summaries=add_summaries,
        )
    if _counts(information):
        loss = model_losses.mutual_information_penalty(model, add_summaries=add_summaries)
        of_discriminator += information * loss
        of_generator += information * loss
    if _counts(of_classes):
        of_generator += of_classes * model_losses.acgan_generator_loss(model, add_summaries=add_summaries)
    if _counts(judged_classes):
        of_discriminator += judged_classes * model_losses.acgan_discriminator_loss(model, add_summaries=add_summaries)
    if model.generator_scope:
        of_generator += tf.losses.get_regularization_loss(model.generator_scope.name)
    if model.discriminator_scope:
        of_discriminator += tf.losses.get_regularization_loss(model.discriminator_scope.name)
    return GANLoss(of_generator, of_discriminator)


@public("contrib.gan.cyclegan_loss")
def cyclegan_loss(
    model: Any,
    generator_loss_fn: Callable[..., Any] = model_losses.least_squares_generator_loss,
    discriminator_loss_fn: Callable[..., Any] = model_losses.least_squares_discriminator_loss,
    cycle_consistency_loss_fn: Callable[..., Any] = model_losses.cycle_consistency_loss,
    cycle_consistency_loss_weight: Any = 10.0,
    **kwargs: Any,
) -> CycleGANLoss:
    """Losses of both models of a CycleGAN; the loss of data made there and back is in both generators'.

    Args:
        model: a :class:`tf.contrib.gan.CycleGANModel`.
        generator_loss_fn: function from a model and ``add_summaries`` to a scalar.
        discriminator_loss_fn: likewise.
        cycle_consistency_loss_fn: function from the CycleGAN and ``add_summaries`` to a scalar.
        cycle_consistency_loss_weight: its weight.
        kwargs: other arguments of :func:`tf.contrib.gan.gan_loss`.

    Raises:
        ValueError: the model is of another kind, or the weight is below 0.
    """
    model_losses.check_cycle(model, "model")
    around = cycle_consistency_loss_fn(model, add_summaries=kwargs.get("add_summaries", True))
    around = _checked_weight(cycle_consistency_loss_weight, "cycle_consistency_loss_weight") * around
    losses = []
    for way, partial in (("x2y", model.model_x2y), ("y2x", model.model_y2x)):
        with tf.name_scope(f"cyclegan_loss_{way}"):
            loss = gan_loss(partial, generator_loss_fn, discriminator_loss_fn, **kwargs)
            losses.append(loss._replace(generator_loss=loss.generator_loss + around))
    return CycleGANLoss(*losses)


# ----------------------------------------------------------------------------------------------------------------- ops
def _updates(given: Any, scopes: Sequence[str], check: bool) -> list[list[Any]]:
    """The updates that belong to the generator and to the discriminator."""
    collected = tf.get_collection(tf.GraphKeys.UPDATE_OPS) if given is None else given
    parts = [
        [op for op in tf.get_collection(tf.GraphKeys.UPDATE_OPS, scope) if any(op is other for other in collected)]
        for scope in scopes
    ]
    unused = [op for op in collected if not any(op is other for part in parts for other in part)]
    if check and unused:
        names = ", ".join(op.name for op in unused)
        raise ValueError(
            f"There are unused update ops: {names}\n"
            + errors.message(
                f"updates of neither {' nor '.join(scopes)}",
                "updates in the scope of the generator or the discriminator",
                "check_for_unused_update_ops=False",
            )
        )
    return parts


@public("contrib.gan.gan_train_ops")
def gan_train_ops(
    model: Any,
    loss: Any,
    generator_optimizer: Any,
    discriminator_optimizer: Any,
    check_for_unused_update_ops: bool = True,
    **kwargs: Any,
) -> GANTrainOps:
    """Ops that make a step of the generator, of the discriminator, and of the global step.

    Args:
        model: the model; of a CycleGAN both models are trained together.
        loss: what :func:`tf.contrib.gan.gan_loss` gives, of a CycleGAN ``cyclegan_loss``.
        generator_optimizer: an Optimizer.
        discriminator_optimizer: an Optimizer.
        check_for_unused_update_ops: refuse updates outside both scopes.
        kwargs: other arguments of ``tf.contrib.training.create_train_op``.

    Raises:
        ValueError: there are updates outside both scopes.
    """
    if isinstance(model, models.CycleGANModel):
        both = []
        for way, partial, partial_loss in (
            ("x2y", model.model_x2y, loss.loss_x2y),
            ("y2x", model.model_y2x, loss.loss_y2x),
        ):
            with tf.name_scope(f"cyclegan_{way}_train"):
                both.append(
                    gan_train_ops(
                        partial,
                        partial_loss,
                        generator_optimizer,
                        discriminator_optimizer,
                        check_for_unused_update_ops,
                        **kwargs,
                    )
                )
        return GANTrainOps(
            tuple(ops.generator_train_op for ops in both),
            tuple(ops.discriminator_train_op for ops in both),
            tf.train.get_or_create_global_step().assign_add(1),
        )
    step = tf.train.get_or_create_global_step()
    counted = step.assign_add(1)
    scopes = [model.generator_scope.name, model.discriminator_scope.name]
    updates = _updates(kwargs.pop("update_ops", None), scopes, check_for_unused_update_ops)
    trained: list[Any] = []
    for kind, optimizer, part_loss, variables, update_ops in (
        ("generator", generator_optimizer, loss.generator_loss, model.generator_variables, updates[0]),
        ("discriminator", discriminator_optimizer, loss.discriminator_loss, model.discriminator_variables, updates[1]),
    ):
        own_step = None
        if isinstance(optimizer, tf.train.SyncReplicasOptimizer):
            # It counts with the step that it is given; the true one is counted once for both.
            own_step = tf.get_variable(
                f"dummy_global_step_{kind}",
                shape=[],
                dtype=step.dtype.base_dtype,
                initializer=tf.zeros_initializer(),
                trainable=False,
                collections=[tf.GraphKeys.GLOBAL_VARIABLES],
            )
            update_ops = [*update_ops, own_step.assign(step)]
        with tf.name_scope(f"{kind}_train"):
            trained.append(
                tf.contrib.training.create_train_op(
                    part_loss,
                    optimizer,
                    variables_to_train=variables,
                    global_step=own_step,
                    update_ops=update_ops,
                    **kwargs,
                )
            )
    return GANTrainOps(trained[0], trained[1], counted)


# --------------------------------------------------------------------------------------------------------------- loops
@public("contrib.gan.RunTrainOpsHook")
class RunTrainOpsHook(tf.train.SessionRunHook):
    """A hook that runs ops before each step of a session.

    Args:
        train_ops: an op, or a list of them.
        train_steps: how many times they run.
    """

    def __init__(self, train_ops: Any, train_steps: int) -> None:
        self._train_ops = train_ops if isinstance(train_ops, list | tuple) else [train_ops]
        self._train_steps = train_steps

    def before_run(self, run_context: Any) -> None:
        """Run the ops."""
        for _ in range(self._train_steps):
            run_context.session.run(self._train_ops)


@public("contrib.gan.get_sequential_train_hooks")
def get_sequential_train_hooks(train_steps: GANTrainSteps = _ONE_EACH) -> Callable[[GANTrainOps], list[Any]]:
    """A function from training ops to hooks: steps of the generator, then steps of the discriminator.

    Args:
        train_steps: how many of each.
    """

    def hooks(train_ops: GANTrainOps) -> list[Any]:
        return [
            RunTrainOpsHook(train_ops.generator_train_op, train_steps.generator_train_steps),
            RunTrainOpsHook(train_ops.discriminator_train_op, train_steps.discriminator_train_steps),
        ]

    return hooks


_IN_TURN = get_sequential_train_hooks()


@public("contrib.gan.get_joint_train_hooks")
def get_joint_train_hooks(train_steps: GANTrainSteps = _ONE_EACH) -> Callable[[GANTrainOps], list[Any]]:
    """A function from training ops to hooks: steps of both at once, then those that one of them has left.

    Both read what the other had before the step. Give the optimizers ``use_locking=True``.

    Args:
        train_steps: how many of each.
    """
    generators, discriminators = train_steps
    joint = min(generators, discriminators)

    def hooks(train_ops: GANTrainOps) -> list[Any]:
        generator, discriminator = train_ops.generator_train_op, train_ops.discriminator_train_op
        return [
            RunTrainOpsHook([generator, discriminator], joint),
            RunTrainOpsHook(generator, generators - joint),
            RunTrainOpsHook(discriminator, discriminators - joint),
        ]

    return hooks


@public("contrib.gan.gan_train")
def gan_train(
    train_ops: GANTrainOps,
    logdir: str | None,
    get_hooks_fn: Callable[[GANTrainOps], Sequence[Any]] = _IN_TURN,
    master: str = "",
    is_chief: bool = True,
    scaffold: Any = None,
    hooks: Any = None,
    chief_only_hooks: Any = None,
    save_checkpoint_secs: float | None = 600,
    save_summaries_steps: int | None = 100,
    config: Any = None,
) -> Any:
    """Train until a hook asks for the end; the global step, or None if there was no step.

    Args:
        train_ops: what :func:`tf.contrib.gan.gan_train_ops` gives.
        logdir: folder of checkpoints and event files.
        get_hooks_fn: function from the ops to the hooks that run them.
        master: address of the session's server.
        is_chief: whether this task initialises and saves.
        scaffold: a ``tf.train.Scaffold``.
        hooks: other hooks, which come first.
        chief_only_hooks: hooks of the chief alone.
        save_checkpoint_secs: seconds between checkpoints; none with None.
        save_summaries_steps: steps between summaries; none with None.
        config: a ``tf.ConfigProto``.
    """
    return tf.contrib.training.train(
        train_ops.global_step_inc_op,
        logdir,
        master=master,
        is_chief=is_chief,
        scaffold=scaffold,
        hooks=[*(hooks or ()), *get_hooks_fn(train_ops)],
        chief_only_hooks=chief_only_hooks,
        save_checkpoint_secs=save_checkpoint_secs,
        save_summaries_steps=save_summaries_steps,
        config=config,
    )


@public("contrib.gan.get_sequential_train_steps")
def get_sequential_train_steps(train_steps: GANTrainSteps = _ONE_EACH) -> Callable[..., tuple[Any, bool]]:
    """A ``train_step_fn`` of ``slim.learning.train``: steps of the generator, then steps of the discriminator.

    Args:
        train_steps: how many of each.
    """

    def train_step(session: Any, train_ops: GANTrainOps, global_step: Any, train_step_kwargs: dict[str, Any]) -> Any:
        # Whether training ought to end is asked once, when the step has been counted.
        options = {key: value for key, value in train_step_kwargs.items() if key != "should_stop"}
        total = 0.0
        for op, count in zip(train_ops, train_steps, strict=False):
            for _ in range(count):
                total += tf.contrib.slim.learning.train_step(session, op, global_step, options)[0]
        session.run(train_ops.global_step_inc_op)
        stop = train_step_kwargs.get("should_stop")
        return total, False if stop is None else session.run(stop)

    return train_step
