"""``tf.keras.mixed_precision.experimental``: optimizers that differentiate a scaled loss."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.keras.v1 import state
from anabranch.keras.v1.optimizers.base import Optimizer
from anabranch.train import loss_scaling


class LossScaleOptimizer(Optimizer):
    """An optimizer of ``tf.keras`` whose loss is multiplied by a scale, and whose gradients are divided by it.

    `minimize`, `get_gradients` and models scale the loss by themselves; a loop with a tape calls
    :meth:`get_scaled_loss` and :meth:`get_unscaled_gradients`. A step whose gradients the scale refuses changes neither
    weights nor `iterations`.

    Args:
        opt: the optimizer that changes weights.
        loss_scale: a `tf.train.experimental.LossScale`, a number, or ``"dynamic"``.

    Raises:
        ValueError: ``opt`` is not an optimizer of ``tf.keras``, or clips gradients, or ``loss_scale`` is another thing.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default():
        ...     model = tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,), kernel_initializer="zeros")])
        ...     sgd = tf.keras.optimizers.SGD(0.25)
        ...     model.compile(tf.keras.mixed_precision.experimental.LossScaleOptimizer(sgd, 1024), "mse")
        ...     history = model.fit([[1.0, 0.0]], [2.0], verbose=0)
        ...     model.get_weights()[0].ravel().tolist()
        [1.0, 0.0]
    """

    def __init__(self, opt: Any, loss_scale: Any) -> None:
        if not isinstance(opt, Optimizer) or isinstance(opt, LossScaleOptimizer):
            raise ValueError(
                f'"opt" must be an instance of OptimizerV2, but got: {opt}\n'
                + errors.message(f"opt={opt!r}", "an optimizer of tf.keras", "tf.keras.optimizers.Adam()")
            )
        for clip in ("clipnorm", "clipvalue"):
            if getattr(opt, clip) is not None:
                raise ValueError(
                    f"LossScaleOptimizer does not support wrapping optimizers with a {clip}. Optimizer {opt} has "
                    f"{clip} {getattr(opt, clip)}\n"
                    + errors.message(f"{clip}={getattr(opt, clip)}", "an optimizer without it", f"leave {clip} out")
                )
        super().__init__(opt._name)
        self._hyper.clear()  # those of the optimizer within are meant
        self._optimizer, self._loss_scale = opt, loss_scaling.loss_scale_of(loss_scale)
        for variable in self._loss_scale.variables:
            state.track_variable(variable)

    # ------------------------------------------------------------------------------------------------------- the scale
    @property
    def loss_scale(self) -> Any:
        """The `tf.train.experimental.LossScale`."""
        return self._loss_scale

    def get_scaled_loss(self, loss: Any) -> Any:
        """``loss``, a tensor or a function that gives one, times the scale."""
        if callable(loss) and not isinstance(loss, (tf.Tensor, tf.Variable)):
            return lambda: self.get_scaled_loss(loss())
        loss = tf.convert_to_tensor(loss)
        return loss * tf.cast(self._loss_scale(), loss.dtype)

    def get_unscaled_gradients(self, grads: Any) -> list[Any]:
        """Gradients divided by the scale; those that are None stay so."""
        factor = tf.reciprocal(self._loss_scale())
        return [None if grad is None else loss_scaling.times(grad, factor) for grad in grads]

    # --------------------------------------------------------------------------------------------------------- updates
    def get_gradients(self, loss: Any, params: Any) -> list[Any]:
        """Gradients of a loss, computed from the scaled one."""
        return self.get_unscaled_gradients(self._optimizer.get_gradients(self.get_scaled_loss(loss), params))

    def minimize(self, loss: Any, var_list: Any, grad_loss: Any = None, name: str | None = None) -> Any:
        """Take one step down the loss: an operation; where ops run at once ``loss`` is a function."""
        if callable(loss):
            with tf.GradientTape() as tape:
                value = self.get_scaled_loss(loss())
            variables = list(var_list() if callable(var_list) else var_list)
            gradients = tape.gradient(value, variables, grad_loss)
        else:
            variables = list(var_list() if callable(var_list) else var_list)
            gradients = tf.gradients(self.get_scaled_loss(loss), variables, grad_loss)
        pairs = zip(self.get_unscaled_gradients(gradients), variables, strict=True)
        return self.apply_gradients(pairs, name=name)

    def apply_gradients(self, grads_and_vars: Any, name: str | None = None) -> Any:
        """Change weights by gradients that are scaled back, if the scale takes them, and then the scale."""
        pairs = list(grads_and_vars)
        self._optimizer._create_slots([var for grad, var in pairs if grad is not None])
        update, wanted = self._loss_scale.update([grad for grad, _ in pairs])

        def apply() -> Any:
            return tf.group(self._optimizer.apply_gradients(pairs, name))

        if wanted is True or (state.is_eager() and bool(wanted)):
            applied = apply()
        elif state.is_eager():
            return None
        else:
            applied = tf.cond(wanted, apply, tf.no_op)
        return None if state.is_eager() else tf.group(applied, update, name=name or self._name)

    # ------------------------------------------------------------------------------------------- the optimizer within
    @property
    def iterations(self) -> Any:
        """Number of updates so far, a variable."""
        return self._optimizer.iterations

    @iterations.setter
    def iterations(self, variable: Any) -> None:
        self._optimizer.iterations = variable

    @property
    def learning_rate(self) -> Any:
        """The learning rate of the optimizer within."""
        return self._optimizer.learning_rate

    @learning_rate.setter
    def learning_rate(self, value: Any) -> None:
        self._optimizer.learning_rate = value

    lr = learning_rate

    @property
    def weights(self) -> list[Any]:
        """Variables of the optimizer within."""
        return self._optimizer.weights

    def variables(self) -> list[Any]:
        """Variables of the optimizer within."""
        return self._optimizer.variables()

    def get_weights(self) -> list[Any]:
        """Values of its variables."""
        return self._optimizer.get_weights()

    def set_weights(self, weights: Any) -> None:
        """Give its variables values."""
        self._optimizer.set_weights(weights)

    def get_slot_names(self) -> list[str]:
        """Names of its slots."""
        return self._optimizer.get_slot_names()

    def get_slot(self, var: Any, slot_name: str) -> Any:
        """The variable of that name that belongs to a weight."""
        return self._optimizer.get_slot(var, slot_name)

    def add_slot(self, var: Any, slot_name: str, initializer: Any = "zeros") -> Any:
        """The variable of that name that belongs to a weight, made if it is not there."""
        return self._optimizer.add_slot(var, slot_name, initializer)

    def _existing_slot(self, var: Any, slot_name: str) -> Any:
        return self._optimizer._existing_slot(var, slot_name)

    def _restored_slot(self, var: Any, slot_name: str, value: Any) -> Any:
        return self._optimizer._restored_slot(var, slot_name, value)

    def _create_slots(self, var_list: Any) -> None:
        self._optimizer._create_slots(var_list)

    def get_config(self) -> dict[str, Any]:
        """Not there, as in TensorFlow 1.15: files of models do not hold it."""
        raise NotImplementedError(
            "get_config() is not yet implemented for LossScaleOptimizers\n"
            + errors.message(
                "the config of an optimizer with a loss scale",
                "that of the optimizer within",
                "model.save(path, include_optimizer=False), or model.save_weights(path)",
            )
        )


def with_loss_scale(opt: Any, loss_scale: Any) -> LossScaleOptimizer:
    """What `tf.train.experimental.enable_mixed_precision_graph_rewrite` makes of an optimizer of ``tf.keras``."""
    return LossScaleOptimizer(opt, loss_scale)


Optimizer._with_loss_scale = with_loss_scale  # type: ignore[attr-defined]
