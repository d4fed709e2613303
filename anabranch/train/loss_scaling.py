"""``tf.train.experimental``: losses scaled so that gradients in half precision do not vanish."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes
from anabranch.ops.control.public_cond import cond
from anabranch.ops.control.public_dependencies import group
from anabranch.train.optimizer import Optimizer
from anabranch.variables.variable import make_variable

_CLASS = "MixedPrecisionLossScaleOptimizer"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@public("train.experimental.LossScale")
class LossScale(abc.ABC):
    """What a loss is multiplied with before it is differentiated; the base of the others.

    A class of one's own says with ``__call__`` what the scale is, with ``update`` how gradients change it, and with
    ``get_config`` its arguments.
    """

    @abc.abstractmethod
    def __call__(self) -> Tensor:
        """The scale, a float32 scalar."""

    @abc.abstractmethod
    def update(self, grads: Sequence[Any]) -> tuple[Any, Any]:
        """An op that changes the scale after a step, and whether the step's gradients are to be applied.

        Args:
            grads: gradients, already divided by the scale; those that are None do not count.
        """

    @property
    def variables(self) -> list[Any]:
        """The variables that it has of its own."""
        return []

    @abc.abstractmethod
    def get_config(self) -> dict[str, Any]:
        """The arguments."""

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> LossScale:
        """The loss scale that a config describes."""
        return cls(**config)


@public("train.experimental.FixedLossScale")
class FixedLossScale(LossScale):
    """A scale that stays.

    Args:
        loss_scale_value: the scale, at least 1.

    Raises:
        ValueError: another value.

    Example:
        >>> import anabranch as tf
        >>> tf.Session().run(tf.train.experimental.FixedLossScale(128)())
        np.float32(128.0)
    """

    def __init__(self, loss_scale_value: float) -> None:
        if not _is_number(loss_scale_value):
            raise ValueError(
                "loss_scale_value must be a Python int or float.\n"
                + errors.message(f"loss_scale_value={loss_scale_value!r}", "a number", "FixedLossScale(128)")
            )
        if loss_scale_value < 1:
            raise ValueError(
                "loss_scale_value must be at least 1.\n"
                + errors.message(
                    f"loss_scale_value={loss_scale_value}", "a number of at least 1", "FixedLossScale(128)"
                )
            )
        self._value = float(loss_scale_value)

    def __call__(self) -> Tensor:
        return constant(self._value, dtypes.float32)

    def update(self, grads: Sequence[Any]) -> tuple[Any, Any]:
        """No change; gradients are always applied."""
        return build("NoOp"), True

    def get_config(self) -> dict[str, Any]:
        """The scale."""
        return {"loss_scale_value": self._value}


@public("train.experimental.DynamicLossScale")
class DynamicLossScale(LossScale):
    """A scale that grows while gradients are finite, and shrinks when they are not.

    Args:
        initial_loss_scale: the first scale.
        increment_period: steps with finite gradients in a row after which the scale is multiplied.
        multiplier: what it is multiplied with, and divided by after a step whose gradients are not finite; it stays
            at 1 or above, and finite.

    Example:
        >>> import anabranch as tf
        >>> tf.train.experimental.DynamicLossScale(1024).multiplier
        2.0
    """

    def __init__(
        self, initial_loss_scale: float = 2**15, increment_period: int = 2000, multiplier: float = 2.0
    ) -> None:
        self._initial, self._period = float(initial_loss_scale), int(increment_period)
        self._multiplier = float(multiplier)
        self._scale = _counter("current_loss_scale", self._initial, dtypes.float32)
        self._good_steps = _counter("good_steps", 0, dtypes.int64)

    @property
    def variables(self) -> list[Any]:
        """The scale, and the number of steps since it changed."""
        return [self._scale, self._good_steps]

    @property
    def initial_loss_scale(self) -> float:
        """The first scale."""
        return self._initial

    @property
    def increment_period(self) -> int:
        """Steps after which the scale is multiplied."""
        return self._period

    @property
    def multiplier(self) -> float:
        """What the scale is multiplied with or divided by."""
        return self._multiplier

    def __call__(self) -> Tensor:
        return convert_to_tensor(self._scale.read_value())

    def update(self, grads: Sequence[Any]) -> tuple[Any, Any]:
        """Grow or shrink; gradients are applied if all are finite."""
        finite = all_finite(grads)

        def grown() -> Any:
            scale = self._scale.read_value()
            more = build("Mul", scale, constant(self._multiplier, dtypes.float32))
            following = build("Select", build("IsFinite", more), more, scale)
            return group(self._scale.assign(following), self._good_steps.assign(constant(0, dtypes.int64)))

        def counted() -> Any:
            return group(self._good_steps.assign_add(constant(1, dtypes.int64)))

        def good() -> Any:
            steps = build("AddV2", self._good_steps.read_value(), constant(1, dtypes.int64))
            return group(cond(build("GreaterEqual", steps, constant(self._period, dtypes.int64)), grown, counted))

        def bad() -> Any:
            less = build("RealDiv", self._scale.read_value(), constant(self._multiplier, dtypes.float32))
            following = build("Maximum", less, constant(1.0, dtypes.float32))
            return group(self._scale.assign(following), self._good_steps.assign(constant(0, dtypes.int64)))

        return cond(finite, good, bad), finite

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {
            "initial_loss_scale": self._initial,
            "increment_period": self._period,
            "multiplier": self._multiplier,
        }


def _counter(name: str, value: float, dtype: dtypes.DType) -> Any:
    return make_variable(value, trainable=False, name=name, dtype=dtype, use_resource=True)


def all_finite(grads: Sequence[Any]) -> Tensor:
    """Whether all elements of gradients are finite, a bool scalar; those that are None do not count."""
    parts = [grad.values if isinstance(grad, IndexedSlices) else grad for grad in grads if grad is not None]
    each = [build("All", build("IsFinite", part), build("Range", 0, build("Rank", part), 1)) for part in parts]
    return build("All", build("Pack", each), [0]) if each else constant(True, dtypes.bool_)


def loss_scale_of(given: Any) -> LossScale:
    """The scale that a program asks for: a `LossScale`, a number, or ``"dynamic"``; ValueError for anything else."""
    if isinstance(given, LossScale):
        return given
    if _is_number(given):
        return FixedLossScale(given)
    if given == "dynamic":
        return DynamicLossScale()
    raise ValueError(
        f"Could not interpret loss scale identifier: {given}\n"
        + errors.message(f"loss_scale={given!r}", "'dynamic', a number or a LossScale", "loss_scale='dynamic'")
    )


@public("train.experimental.MixedPrecisionLossScaleOptimizer")
class MixedPrecisionLossScaleOptimizer(Optimizer):
    """An optimizer that differentiates the loss times a scale, and divides gradients by it.

    A step whose gradients the scale refuses changes neither variables nor the global step.

    Args:
        opt: the optimizer that updates variables.
        loss_scale: a `LossScale`, a number, or ``"dynamic"``.

    Raises:
        ValueError: something else.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     v = tf.Variable(1.0)
        ...     descent = tf.train.GradientDescentOptimizer(0.25)
        ...     train = tf.train.experimental.MixedPrecisionLossScaleOptimizer(descent, 1024).minimize(v * v)
        ...     session.run(tf.global_variables_initializer())
        ...     session.run(train)
        ...     session.run(v)
        np.float32(0.5)
    """

    def __init__(self, opt: Optimizer, loss_scale: Any) -> None:
        if not isinstance(opt, Optimizer):
            raise ValueError(
                f'"opt" must be an instance of Optimizer, but got: {type(opt)}\n'
                + errors.message(f"opt={opt!r}", "a tf.train.Optimizer", "tf.train.AdamOptimizer()")
            )
        self._optimizer, self._loss_scale = opt, loss_scale_of(loss_scale)
        super().__init__(use_locking=opt._use_locking, name=opt._name)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = Optimizer.GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[Any]:
        """Gradients of the scaled loss, scaled back; the arguments are those of any optimizer."""
        scale = self._loss_scale()

        def scaled(value: Any) -> Any:
            return build("Mul", value, _as(scale, value.dtype.base))

        factor = build("Reciprocal", scale)
        pairs = self._optimizer.compute_gradients(
            (lambda: scaled(convert_to_tensor(loss()))) if callable(loss) else scaled(convert_to_tensor(loss)),
            var_list,
            gate_gradients,
            aggregation_method,
            colocate_gradients_with_ops,
            grad_loss,
        )
        return [(None if grad is None else times(grad, factor), variable) for grad, variable in pairs]

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """An op that updates the variables if the scale says so, and then the scale."""
        pairs = list(grads_and_vars)
        update, wanted = self._loss_scale.update([grad for grad, _ in pairs])

        def apply() -> Any:
            return self._optimizer.apply_gradients(pairs, global_step, name or self._name)

        applied = apply() if wanted is True else cond(wanted, lambda: group(apply()), lambda: build("NoOp"))
        return group(applied, update, name=name or self._name)

    def get_slot(self, var: Any, name: str) -> Any:
        """A slot of the optimizer within."""
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Names of the slots of the optimizer within."""
        return self._optimizer.get_slot_names()

    def variables(self) -> list[Any]:
        """Variables of the optimizer within."""
        return self._optimizer.variables()


def _as(scale: Tensor, dtype: dtypes.DType) -> Tensor:
    return scale if dtype is dtypes.float32 else build("Cast", scale, DstT=dtype)


def times(grad: Any, factor: Tensor) -> Any:
    """A gradient times a number, in the gradient's dtype."""
    if isinstance(grad, IndexedSlices):
        return IndexedSlices(times(grad.values, factor), grad.indices, grad.dense_shape)
    return build("Mul", grad, _as(factor, grad.dtype.base))


@public("train.experimental.enable_mixed_precision_graph_rewrite")
def enable_mixed_precision_graph_rewrite(opt: Optimizer, loss_scale: Any = "dynamic") -> Any:
    """The optimizer with a scaled loss, as programs ask for that are to train in half precision on GPUs.

    Operations keep their dtypes here, as they do in TensorFlow on CPUs: what is in float32 is computed in float32, on
    every device. To compute in half precision, cast to tf.bfloat16 or tf.float16 in the program.

    Args:
        opt: an optimizer of ``tf.train`` or ``tf.keras``.
        loss_scale: a `LossScale`, a number, or ``"dynamic"``.

    Raises:
        ValueError: no optimizer, or one whose loss is scaled already.
    """
    of_keras = getattr(opt, "_with_loss_scale", None)
    if of_keras is not None:
        return of_keras(loss_scale)
    if not isinstance(opt, Optimizer):
        raise ValueError(
            f'"opt" must be an instance of a tf.train.Optimizer or a tf.keras.optimizers.Optimizer, but got: {opt}\n'
            + errors.message(f"opt={opt!r}", "a tf.train.Optimizer", "tf.train.AdamOptimizer()")
        )
    if isinstance(opt, MixedPrecisionLossScaleOptimizer):
        raise ValueError(
            f'"opt" must not already be an instance of a {_CLASS}. `enable_mixed_precision_graph_rewrite` will '
            f"automatically wrap the optimizer with a {_CLASS}.\n"
            + errors.message(f"opt of {_CLASS}", "the optimizer within", "tf.train.AdamOptimizer()")
        )
    return MixedPrecisionLossScaleOptimizer(opt, loss_scale)


@public("train.experimental.disable_mixed_precision_graph_rewrite")
def disable_mixed_precision_graph_rewrite() -> None:
    """Nothing: :func:`enable_mixed_precision_graph_rewrite` changes no operation that would be changed back."""
