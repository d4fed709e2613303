"""``tf.contrib.distributions.bijectors``: invertible functions, and how they stretch a density.

Policy. A bijector works on the last ``min_event_ndims`` dimensions of its argument. The logarithm of its Jacobian's
determinant is summed over the further dimensions of an event. A class gives ``_forward``, ``_inverse`` and one of the
two determinants; the other one follows.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.contrib.distributions.bijector_base import _HOME, Bijector
from anabranch.contrib.distributions.families import softplus_inverse
from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public

__getattr__, __dir__ = api.module_attributes("contrib.distributions.bijectors")


class _Elementwise(Bijector):
    """A function of each element, without parameters."""

    def __init__(self, validate_args: bool, name: str) -> None:
        super().__init__(validate_args=validate_args, forward_min_event_ndims=0, name=name)


@public(_HOME + "Identity")
class Identity(Bijector):
    """``x``."""

    def __init__(self, validate_args: bool = False, name: str = "identity") -> None:
        super().__init__(is_constant_jacobian=True, validate_args=validate_args, forward_min_event_ndims=0, name=name)

    def _forward(self, x: Any) -> Any:
        return x

    def _inverse(self, y: Any) -> Any:
        return y

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return tf.constant(0.0, x.dtype.base_dtype)


@public(_HOME + "Exp")
class Exp(_Elementwise):
    """``exp(x)``."""

    def __init__(self, validate_args: bool = False, name: str = "exp") -> None:
        super().__init__(validate_args, name)

    def _forward(self, x: Any) -> Any:
        return tf.exp(x)

    def _inverse(self, y: Any) -> Any:
        return tf.log(y)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return x

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return -tf.log(y)


def checked(x: Any, *checks: tuple[Any, str]) -> Any:
    """A tensor behind checks of it, each a function of the tensor and ``message=``, and the message."""
    with tf.control_dependencies([check(x, message=message) for check, message in checks]):
        return tf.identity(x)


def below(bound: float, strictly: bool = False) -> Any:
    """A check that a tensor is at most a number, or below it."""
    compare = tf.assert_less if strictly else tf.assert_less_equal
    return lambda x, message: compare(x, tf.constant(bound, x.dtype.base_dtype), message=message)


def above(bound: float) -> Any:
    """A check that a tensor is greater than a number."""
    return lambda x, message: tf.assert_greater(x, tf.constant(bound, x.dtype.base_dtype), message=message)


def other_than(value: float) -> Any:
    """A check that no element is a number."""
    return lambda x, message: tf.assert_none_equal(x, tf.constant(value, x.dtype.base_dtype), message=message)


@public(_HOME + "Sigmoid")
class Sigmoid(_Elementwise):
    """``1 / (1 + exp(-x))``."""

    def __init__(self, validate_args: bool = False, name: str = "sigmoid") -> None:
        super().__init__(validate_args, name)

    def _forward(self, x: Any) -> Any:
        return tf.sigmoid(x)

    def _inverse(self, y: Any) -> Any:
        return tf.log(y) - tf.log1p(-y)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return -tf.nn.softplus(-x) - tf.nn.softplus(x)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return -tf.log(y) - tf.log1p(-y)


@public(_HOME + "Softplus")
class Softplus(Bijector):
    """``c * log(1 + exp(x / c))``, with ``c = hinge_softness`` or 1."""

    def __init__(self, hinge_softness: Any = None, validate_args: bool = False, name: str = "softplus") -> None:
        self._softness = None if hinge_softness is None else tf.convert_to_tensor(hinge_softness, name="hinge_softness")
        if validate_args and self._softness is not None:
            self._softness = checked(self._softness, (other_than(0.0), "hinge_softness must be non-zero"))
        super().__init__(validate_args=validate_args, forward_min_event_ndims=0, name=name)

    @property
    def hinge_softness(self) -> Any:
        """``c``."""
        return self._softness

    def _forward(self, x: Any) -> Any:
        return tf.nn.softplus(x) if self._softness is None else self._softness * tf.nn.softplus(x / self._softness)

    def _inverse(self, y: Any) -> Any:
        return softplus_inverse(y) if self._softness is None else self._softness * softplus_inverse(y / self._softness)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return -tf.nn.softplus(-x if self._softness is None else -x / self._softness)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return -tf.log(-tf.expm1(-y if self._softness is None else -y / self._softness))


@public(_HOME + "Softsign")
class Softsign(_Elementwise):
    """``x / (1 + |x|)``."""

    def __init__(self, validate_args: bool = False, name: str = "softsign") -> None:
        super().__init__(validate_args, name)

    def _forward(self, x: Any) -> Any:
        return x / (1.0 + tf.abs(x))

    def _inverse(self, y: Any) -> Any:
        y = self._of_y(y)
        return y / (1.0 - tf.abs(y))

    def _of_y(self, y: Any) -> Any:
        if not self._validate_args:
            return y
        return checked(
            y,
            (above(-1.0), "Inverse transformation input must be greater than -1."),
            (below(1.0, strictly=True), "Inverse transformation input must be less than 1."),
        )

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return -2.0 * tf.log1p(-tf.abs(self._of_y(y)))

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return -2.0 * tf.log1p(tf.abs(x))


@public(_HOME + "Square")
class Square(_Elementwise):
    """``x ** 2`` of numbers that are not negative."""

    def __init__(self, validate_args: bool = False, name: str = "square") -> None:
        super().__init__(validate_args, name)

    def _forward(self, x: Any) -> Any:
        return tf.square(self._of(x))

    def _inverse(self, y: Any) -> Any:
        return tf.sqrt(self._of(y))

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return math.log(2.0) + tf.log(self._of(x))

    def _of(self, t: Any) -> Any:
        if not self._validate_args:
            return t
        return checked(t, (tf.assert_non_negative, "All elements must be non-negative."))


@public(_HOME + "AffineScalar")
class AffineScalar(Bijector):
    """``shift + scale * x``."""

    def __init__(
        self, shift: Any = None, scale: Any = None, validate_args: bool = False, name: str = "affine_scalar"
    ) -> None:
        self._shift = None if shift is None else tf.convert_to_tensor(shift, name="shift")
        self._scale = None if scale is None else tf.convert_to_tensor(scale, name="scale")
        if validate_args and self._scale is not None:
            self._scale = checked(self._scale, (other_than(0.0), "Argument scale was zero"))
        super().__init__(is_constant_jacobian=True, validate_args=validate_args, forward_min_event_ndims=0, name=name)

    @property
    def shift(self) -> Any:
        """What is added."""
        return self._shift

    @property
    def scale(self) -> Any:
        """The factor."""
        return self._scale

    def _forward(self, x: Any) -> Any:
        x = x if self._scale is None else x * self._scale
        return x if self._shift is None else x + self._shift

    def _inverse(self, y: Any) -> Any:
        y = y if self._shift is None else y - self._shift
        return y if self._scale is None else y / self._scale

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        if self._scale is None:
            return tf.constant(0.0, x.dtype.base_dtype)
        return tf.log(tf.abs(self._scale))


@public(_HOME + "PowerTransform")
class PowerTransform(Bijector):
    """``(1 + x * power) ** (1 / power)``, and ``exp(x)`` for a power of 0."""

    def __init__(self, power: float = 0.0, validate_args: bool = False, name: str = "power_transform") -> None:
        if power < 0:
            raise ValueError(
                "`power` must be a non-negative TF constant.\n"
                + errors.message(f"power={power}", "a number that is not negative", "power=0.5")
            )
        self._power = power
        super().__init__(validate_args=validate_args, forward_min_event_ndims=0, name=name)

    @property
    def power(self) -> float:
        """The power of the inverse."""
        return self._power

    def _forward(self, x: Any) -> Any:
        return tf.exp(x) if self._power == 0 else tf.exp(tf.log1p(x * self._power) / self._power)

    def _inverse(self, y: Any) -> Any:
        return tf.log(y) if self._power == 0 else tf.expm1(tf.log(y) * self._power) / self._power

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return (self._power - 1.0) * tf.log(y)


@public(_HOME + "SoftmaxCentered")
class SoftmaxCentered(Bijector):
    """``n`` numbers to ``n + 1`` probabilities: the softmax of them and a 0."""

    def __init__(self, validate_args: bool = False, name: str = "softmax_centered") -> None:
        super().__init__(validate_args=validate_args, forward_min_event_ndims=1, name=name)

    def _forward_event_shape(self, shape: Any) -> Any:
        return shape if shape.ndims is None else shape[:-1].concatenate([shape[-1] + 1])

    def _inverse_event_shape(self, shape: Any) -> Any:
        return shape if shape.ndims is None else shape[:-1].concatenate([shape[-1] - 1])

    def _forward_event_shape_tensor(self, shape: Any) -> Any:
        return tf.concat([shape[:-1], shape[-1:] + 1], 0)

    def _inverse_event_shape_tensor(self, shape: Any) -> Any:
        return tf.concat([shape[:-1], shape[-1:] - 1], 0)

    def _forward(self, x: Any) -> Any:
        return tf.nn.softmax(tf.concat([x, tf.zeros_like(x[..., :1])], -1))

    def _inverse(self, y: Any) -> Any:
        logarithms = tf.log(y)
        return logarithms[..., :-1] - logarithms[..., -1:]

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return -tf.reduce_sum(tf.log(y), -1)


@public(_HOME + "Invert")
class Invert(Bijector):
    """The inverse of a bijector."""

    def __init__(self, bijector: Bijector, validate_args: bool = False, name: str | None = None) -> None:
        self._bijector = bijector
        super().__init__(
            bijector.graph_parents,
            bijector.is_constant_jacobian,
            validate_args,
            bijector.dtype,
            bijector.inverse_min_event_ndims,
            bijector.forward_min_event_ndims,
            name or f"invert_{bijector.name}",
        )

    @property
    def bijector(self) -> Bijector:
        """The bijector."""
        return self._bijector

    def _forward(self, x: Any) -> Any:
        return self._bijector.inverse(x)

    def _inverse(self, y: Any) -> Any:
        return self._bijector.forward(y)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return self._bijector.inverse_log_det_jacobian(x, self._bijector.inverse_min_event_ndims)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return self._bijector.forward_log_det_jacobian(y, self._bijector.forward_min_event_ndims)

    def _forward_event_shape(self, shape: Any) -> Any:
        return self._bijector.inverse_event_shape(shape)

    def _inverse_event_shape(self, shape: Any) -> Any:
        return self._bijector.forward_event_shape(shape)

    def _forward_event_shape_tensor(self, shape: Any) -> Any:
        return self._bijector.inverse_event_shape_tensor(shape)

    def _inverse_event_shape_tensor(self, shape: Any) -> Any:
        return self._bijector.forward_event_shape_tensor(shape)


def _dimensions(bijectors: Sequence[Bijector]) -> tuple[int, int]:
    """How many last dimensions bijectors work on that are applied in this order, and how many they add to those."""
    needed = gained = 0
    for one in bijectors:
        needed = max(needed, one.forward_min_event_ndims - gained)
        gained += one.inverse_min_event_ndims - one.forward_min_event_ndims
    return needed, gained


@public(_HOME + "Chain")
class Chain(Bijector):
    """Bijectors one after the other, the last one of the list first: ``Chain([f, g])(x) = f(g(x))``."""

    def __init__(
        self, bijectors: Sequence[Bijector] | None = None, validate_args: bool = False, name: str | None = None
    ) -> None:
        self._bijectors = list(bijectors or ())
        forward, gained = _dimensions(self._bijectors[::-1])
        super().__init__(
            [parent for one in self._bijectors for parent in one.graph_parents],
            all(one.is_constant_jacobian for one in self._bijectors),
            validate_args,
            None,
            forward,
            forward + gained,
            name=name
            or "_of_".join(["chain", *(one.name for one in self._bijectors)] if self._bijectors else ["identity"]),
        )

    @property
    def bijectors(self) -> list[Bijector]:
        """The bijectors."""
        return list(self._bijectors)

    def _forward(self, x: Any) -> Any:
        for one in reversed(self._bijectors):
            x = one.forward(x)
        return x

    def _inverse(self, y: Any) -> Any:
        for one in self._bijectors:
            y = one.inverse(y)
        return y

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        total, ndims = tf.constant(0.0, x.dtype.base_dtype), self._forward_min_event_ndims
        for one in reversed(self._bijectors):
            total += one.forward_log_det_jacobian(x, ndims)
            x = one.forward(x)
            ndims += one.inverse_min_event_ndims - one.forward_min_event_ndims
        return total

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        total, ndims = tf.constant(0.0, y.dtype.base_dtype), self._inverse_min_event_ndims
        for one in self._bijectors:
            total += one.inverse_log_det_jacobian(y, ndims)
            y = one.inverse(y)
            ndims += one.forward_min_event_ndims - one.inverse_min_event_ndims
        return total

    def _forward_event_shape(self, shape: Any) -> Any:
        for one in reversed(self._bijectors):
            shape = one.forward_event_shape(shape)
        return shape

    def _inverse_event_shape(self, shape: Any) -> Any:
        for one in self._bijectors:
            shape = one.inverse_event_shape(shape)
        return shape

    def _forward_event_shape_tensor(self, shape: Any) -> Any:
        for one in reversed(self._bijectors):
            shape = one.forward_event_shape_tensor(shape)
        return shape

    def _inverse_event_shape_tensor(self, shape: Any) -> Any:
        for one in self._bijectors:
            shape = one.inverse_event_shape_tensor(shape)
        return shape


@public(_HOME + "Inline")
class Inline(Bijector):
    """A bijector of functions.

    Args:
        forward_fn: function of ``x``.
        inverse_fn: function of ``y``.
        inverse_log_det_jacobian_fn: function of ``y``.
        forward_log_det_jacobian_fn: function of ``x``.
        forward_event_shape_fn, forward_event_shape_tensor_fn: functions of the shape of ``x``.
        inverse_event_shape_fn, inverse_event_shape_tensor_fn: functions of the shape of ``y``.
    """

    def __init__(
        self,
        forward_fn: Callable[..., Any] | None = None,
        inverse_fn: Callable[..., Any] | None = None,
        inverse_log_det_jacobian_fn: Callable[..., Any] | None = None,
        forward_log_det_jacobian_fn: Callable[..., Any] | None = None,
        forward_event_shape_fn: Callable[..., Any] | None = None,
        forward_event_shape_tensor_fn: Callable[..., Any] | None = None,
        inverse_event_shape_fn: Callable[..., Any] | None = None,
        inverse_event_shape_tensor_fn: Callable[..., Any] | None = None,
        is_constant_jacobian: bool = False,
        validate_args: bool = False,
        forward_min_event_ndims: int | None = None,
        inverse_min_event_ndims: int | None = None,
        name: str = "inline",
    ) -> None:
        given = {
            "_forward": forward_fn,
            "_inverse": inverse_fn,
            "_inverse_log_det_jacobian": inverse_log_det_jacobian_fn,
            "_forward_log_det_jacobian": forward_log_det_jacobian_fn,
            "_forward_event_shape": forward_event_shape_fn,
            "_forward_event_shape_tensor": forward_event_shape_tensor_fn,
            "_inverse_event_shape": inverse_event_shape_fn,
            "_inverse_event_shape_tensor": inverse_event_shape_tensor_fn,
        }
        self.__dict__.update({key: function for key, function in given.items() if function is not None})
        super().__init__(
            None,
            is_constant_jacobian,
            validate_args,
            None,
            forward_min_event_ndims,
            inverse_min_event_ndims,
            name,
        )
