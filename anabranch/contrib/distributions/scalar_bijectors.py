"""Bijectors of numbers: absolute values, Gumbel's, Kumaraswamy's and Weibull's distribution functions, sinh-arcsinh."""

from __future__ import annotations

import math
from typing import Any

import anabranch as tf
from anabranch.contrib.distributions.bijectors import _HOME, Bijector, below, checked
from anabranch.core.contract.api import public

_PROBABILITY = (
    (tf.assert_non_negative, "Inverse transformation input must be greater than 0."),
    (below(1.0), "Inverse transformation input must be less than or equal to 1."),
)
_SAMPLE = (tf.assert_non_negative, "sample must be non-negative"), (below(1.0), "sample must be no larger than `1`.")


@public(_HOME + "AbsoluteValue")
class AbsoluteValue(Bijector):
    """``|x|``, whose inverse is a pair: ``(-y, y)``."""

    def __init__(self, validate_args: bool = False, name: str = "absolute_value") -> None:
        super().__init__(is_constant_jacobian=True, validate_args=validate_args, forward_min_event_ndims=0, name=name)

    def _forward(self, x: Any) -> Any:
        return tf.abs(x)

    def _inverse(self, y: Any) -> Any:
        y = self._of_y(y)
        return -y, y

    def _of_y(self, y: Any) -> Any:
        return checked(y, (tf.assert_non_negative, "Argument y was negative")) if self._validate_args else y

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        zero = tf.constant(0.0, y.dtype.base_dtype)
        if self._validate_args:
            with tf.control_dependencies([self._of_y(y)]):
                zero = tf.identity(zero)
        return zero, zero

    @property
    def _is_injective(self) -> bool:
        return False


@public(_HOME + "Gumbel")
class Gumbel(Bijector):
    """``exp(-exp(-(x - loc) / scale))``: the distribution function of Gumbel's extremes."""

    def __init__(self, loc: Any = 0.0, scale: Any = 1.0, validate_args: bool = False, name: str = "gumbel") -> None:
        self._loc = tf.convert_to_tensor(loc, name="loc")
        self._scale = tf.convert_to_tensor(scale, self._loc.dtype.base_dtype, name="scale")
        if validate_args:
            self._scale = checked(self._scale, (tf.assert_positive, "Argument scale was not positive"))
        super().__init__(validate_args=validate_args, forward_min_event_ndims=0, name=name)

    @property
    def loc(self) -> Any:
        """Where the density is greatest."""
        return self._loc

    @property
    def scale(self) -> Any:
        """How wide it is."""
        return self._scale

    def _forward(self, x: Any) -> Any:
        return tf.exp(-tf.exp(-(x - self._loc) / self._scale))

    def _inverse(self, y: Any) -> Any:
        return self._loc - self._scale * tf.log(-tf.log(self._of_y(y)))

    def _of_y(self, y: Any) -> Any:
        return checked(y, *_PROBABILITY) if self._validate_args else y

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        z = (x - self._loc) / self._scale
        return -z - tf.exp(-z) - tf.log(self._scale)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        y = self._of_y(y)
        return tf.log(self._scale / (-tf.log(y) * y))


@public(_HOME + "Kumaraswamy")
class Kumaraswamy(Bijector):
    """``(1 - (1 - x) ** (1 / b)) ** (1 / a)``, with ``a = concentration1`` and ``b = concentration0``."""

    def __init__(
        self,
        concentration1: Any = None,
        concentration0: Any = None,
        validate_args: bool = False,
        name: str = "kumaraswamy",
    ) -> None:
        self._a = tf.convert_to_tensor(concentration1, name="concentration1")
        self._b = tf.convert_to_tensor(concentration0, self._a.dtype.base_dtype, name="concentration0")
        if validate_args:
            positive = tf.assert_positive, "Concentration parameter must be positive."
            self._a, self._b = checked(self._a, positive), checked(self._b, positive)
        super().__init__(validate_args=validate_args, forward_min_event_ndims=0, name=name)

    @property
    def concentration1(self) -> Any:
        """``a``."""
        return self._a

    @property
    def concentration0(self) -> Any:
        """``b``."""
        return self._b

    def _forward(self, x: Any) -> Any:
        return tf.exp(tf.log1p(-tf.exp(tf.log1p(-self._of(x)) / self._b)) / self._a)

    def _of(self, sample: Any) -> Any:
        return checked(sample, *_SAMPLE) if self._validate_args else sample

    def _inverse(self, y: Any) -> Any:
        return -tf.expm1(self._b * tf.log1p(-(self._of(y) ** self._a)))

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        a, b, y = self._a, self._b, self._of(y)
        return tf.log(a) + tf.log(b) + (a - 1) * tf.log(y) + (b - 1) * tf.log1p(-(y**a))


@public(_HOME + "Weibull")
class Weibull(Bijector):
    """``1 - exp(-(x / scale) ** concentration)``, from numbers above 0 to probabilities.

    Args:
        scale: above 0.
        concentration: above 0.
        validate_args: whether arguments are checked when they are used.
        name: name of the scope of its ops.
    """

    def __init__(
        self, scale: Any = 1.0, concentration: Any = 1.0, validate_args: bool = False, name: str = "weibull"
    ) -> None:
        self._scale = tf.convert_to_tensor(scale, name="scale")
        self._concentration = tf.convert_to_tensor(concentration, name="concentration")
        tf.assert_same_float_dtype([self._scale, self._concentration])
        if validate_args:
            self._scale = checked(self._scale, (tf.assert_positive, "Argument scale was not positive"))
            self._concentration = checked(
                self._concentration, (tf.assert_positive, "Argument concentration was not positive")
            )
        super().__init__(validate_args=validate_args, forward_min_event_ndims=0, name=name)

    @property
    def scale(self) -> Any:
        """The scale."""
        return self._scale

    @property
    def concentration(self) -> Any:
        """The concentration."""
        return self._concentration

    def _of_x(self, x: Any) -> Any:
        text = "Forward transformation input must be at least 0."
        return checked(x, (tf.assert_non_negative, text)) if self._validate_args else x

    def _of_y(self, y: Any) -> Any:
        return checked(y, *_PROBABILITY) if self._validate_args else y

    def _forward(self, x: Any) -> Any:
        return -tf.expm1(-((self._of_x(x) / self._scale) ** self._concentration))

    def _inverse(self, y: Any) -> Any:
        return self._scale * (-tf.log1p(-self._of_y(y))) ** (1 / self._concentration)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        missing = -tf.log1p(-self._of_y(y))
        power = 1 / self._concentration
        return missing + (power - 1) * tf.log(missing) + tf.log(self._scale * power)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        x, power = self._of_x(x), self._concentration
        return -((x / self._scale) ** power) + (power - 1) * tf.log(x) + tf.log(power) - power * tf.log(self._scale)


@public(_HOME + "SinhArcsinh")
class SinhArcsinh(Bijector):
    """``sinh((asinh(x) + skewness) * tailweight)``."""

    def __init__(
        self, skewness: Any = None, tailweight: Any = None, validate_args: bool = False, name: str = "SinhArcsinh"
    ) -> None:
        first = next((part for part in (skewness, tailweight) if part is not None), 0.0)
        dtype = tf.convert_to_tensor(first).dtype.base_dtype
        self._skewness = tf.convert_to_tensor(0.0 if skewness is None else skewness, dtype, name="skewness")
        self._tailweight = tf.convert_to_tensor(1.0 if tailweight is None else tailweight, dtype, name="tailweight")
        if validate_args:
            self._tailweight = checked(self._tailweight, (tf.assert_positive, "Argument tailweight was not positive"))
        super().__init__(validate_args=validate_args, forward_min_event_ndims=0, name=name)

    @property
    def skewness(self) -> Any:
        """How far the function leans."""
        return self._skewness

    @property
    def tailweight(self) -> Any:
        """How heavy it makes tails."""
        return self._tailweight

    def _forward(self, x: Any) -> Any:
        return tf.sinh((tf.asinh(x) + self._skewness) * self._tailweight)

    def _inverse(self, y: Any) -> Any:
        return tf.sinh(tf.asinh(y) / self._tailweight - self._skewness)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        turned = (tf.asinh(x) + self._skewness) * self._tailweight
        return _log_cosh(turned) + tf.log(self._tailweight) - _log_hypotenuse(x)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        turned = tf.asinh(y) / self._tailweight - self._skewness
        return _log_cosh(turned) - tf.log(self._tailweight) - _log_hypotenuse(y)


def _log_cosh(x: Any) -> Any:
    return tf.abs(x) + tf.log1p(tf.exp(-2.0 * tf.abs(x))) - math.log(2.0)


def _log_hypotenuse(x: Any) -> Any:
    """``log(sqrt(1 + x ** 2))``, of large numbers, too."""
    larger = tf.maximum(tf.abs(x), 1.0)
    return tf.log(larger) + 0.5 * tf.log((1.0 / larger) ** 2 + (x / larger) ** 2)
