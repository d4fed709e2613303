"""Distributions over all real numbers: Normal, Laplace, Student's t."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import count_more
from anabranch.distributions import checks
from anabranch.distributions.base import (
    FULLY_REPARAMETERIZED,
    Distribution,
    broadcast_shape,
    drawn_shape,
    floats,
    new_seed,
    number,
)
from anabranch.distributions.checks import checked
from anabranch.ops.random.public import random_gamma, random_normal, random_uniform


class LocationScale(Distribution):
    """A standard distribution stretched by ``scale`` and moved by ``loc``."""

    _loc: Any
    _scale: Any

    def _prepare(self, name: str, validate_args: bool, **values: Any) -> dict[str, Any]:
        with name_scope(name, values=list(values.values())):
            parameters = floats(type(self).__name__, **values)
            scale = parameters["scale"]
            parameters["scale"] = checked(scale, validate_args, checks.positive(scale, "scale must be positive"))
            count_more(len(parameters))  # each passed on
            return parameters

    @property
    def loc(self) -> Any:
        """Where it is."""
        return self._loc

    @property
    def scale(self) -> Any:
        """How wide it is."""
        return self._scale

    def _batch(self) -> Any:
        return broadcast_shape(self._loc, self._scale)

    def _z(self, x: Any) -> Any:
        return (x - self._loc) / self._scale

    def _spread(self, value: Any) -> Any:
        """A statistic broadcast to the shape of the batch."""
        return value * build("OnesLike", self._loc + self._scale)

    def _mean(self) -> Any:
        return self._loc * build("OnesLike", self._scale)

    def _mode(self) -> Any:
        return self._mean()


@public("distributions.Normal", "contrib.distributions.Normal")
class Normal(LocationScale):
    """The normal distribution of mean ``loc`` and standard deviation ``scale``.

    Example:
        >>> import anabranch as tf
        >>> weights = tf.distributions.Normal(loc=[0.0, 1.0], scale=2.0)
        >>> y = weights.log_prob(weights.sample([100], seed=1))
    """

    _shaped = ("loc", "scale")

    def __init__(
        self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Normal"
    ) -> None:
        parameters = dict(locals())
        tensors = self._prepare(name, validate_args, loc=loc, scale=scale)
        self._loc, self._scale = tensors["loc"], tensors["scale"]
        super().__init__(
            self._scale.dtype.base,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            parameters,
            [self._loc, self._scale],
            name,
        )

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        drawn = random_normal(drawn_shape(n, self._loc, self._scale), 0.0, 1.0, self._dtype, seed)
        return drawn * self._scale + self._loc

    def _log_prob(self, x: Any) -> Any:
        return -0.5 * build("Square", self._z(x)) - (0.5 * math.log(2 * math.pi) + build("Log", self._scale))

    def _cdf(self, x: Any) -> Any:
        return normal_cdf(self._z(x))

    def _log_cdf(self, x: Any) -> Any:
        return log_normal_cdf(self._z(x))

    def _survival_function(self, x: Any) -> Any:
        return normal_cdf(-self._z(x))

    def _log_survival_function(self, x: Any) -> Any:
        return log_normal_cdf(-self._z(x))

    def _quantile(self, p: Any) -> Any:
        return self._loc + self._scale * normal_quantile(p)

    def _entropy(self) -> Any:
        return self._spread(0.5 * math.log(2 * math.pi * math.e) + build("Log", self._scale))

    def _stddev(self) -> Any:
        return self._spread(self._scale)


def normal_quantile(p: Any) -> Any:
    """Where the standard normal distribution's function is ``p``; beyond (0, 1) its gradient is 0, not infinite."""
    inside = build("LogicalAnd", build("Greater", p, number(0, p)), build("Less", p, number(1, p)))
    between = build("Ndtri", build("SelectV2", inside, p, number(0.5, p)))
    return build("SelectV2", inside, between, build("StopGradient", build("Ndtri", p)))


def normal_cdf(z: Any) -> Any:
    """The standard normal distribution's function, from the complementary error function."""
    return 0.5 * build("Erfc", z * -math.sqrt(0.5))


def log_normal_cdf(z: Any) -> Any:
    """By the function itself where it does not vanish, by its asymptotic series in the lower tail."""
    upper, lower = (8.0, -20.0) if z.dtype.base.size == 8 else (5.0, -10.0)
    far = build("Minimum", z, number(lower, z))
    square = build("Square", far)
    series = 1.0 - 1.0 / square + 3.0 / build("Square", square) - 15.0 / (square * square * square)
    tail = -0.5 * square - build("Log", -far) - 0.5 * math.log(2 * math.pi) + build("Log", series)
    middle = build("Log", normal_cdf(build("Maximum", z, number(lower, z))))
    near_one = -normal_cdf(-build("Maximum", z, number(lower, z)))
    inner = build("SelectV2", build("Greater", z, number(upper, z)), near_one, middle)
    return build("SelectV2", build("Less", z, number(lower, z)), tail, inner)


@public("distributions.Laplace", "contrib.distributions.Laplace")
class Laplace(LocationScale):
    """The Laplace distribution: densities fall by ``e`` with each ``scale`` away from ``loc``."""

    _shaped = ("loc", "scale")

    def __init__(
        self, loc: Any, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Laplace"
    ) -> None:
        parameters = dict(locals())
        tensors = self._prepare(name, validate_args, loc=loc, scale=scale)
        self._loc, self._scale = tensors["loc"], tensors["scale"]
        super().__init__(
            self._scale.dtype.base,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            parameters,
            [self._loc, self._scale],
            name,
        )

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        # Open at -1, where the logarithm would be infinite.
        real: Any = self._dtype.np
        least = float(np.nextafter(real.type(-1.0), real.type(0.0)))
        shape = drawn_shape(n, self._loc, self._scale)
        drawn = random_uniform(shape, least, 1.0, self._dtype, seed)
        return self._loc - self._scale * build("Sign", drawn) * build("Log1p", -build("Abs", drawn))

    def _log_prob(self, x: Any) -> Any:
        return -build("Abs", self._z(x)) - (math.log(2.0) + build("Log", self._scale))

    def _cdf(self, x: Any) -> Any:
        z = self._z(x)
        return 0.5 + 0.5 * build("Sign", z) * (1.0 - build("Exp", -build("Abs", z)))

    def _log_cdf(self, x: Any) -> Any:
        return log_laplace_cdf(self._z(x))

    def _log_survival_function(self, x: Any) -> Any:
        return log_laplace_cdf(-self._z(x))

    def _entropy(self) -> Any:
        return self._spread(math.log(2.0) + 1.0 + build("Log", self._scale))

    def _stddev(self) -> Any:
        return self._spread(math.sqrt(2.0) * self._scale)


def log_laplace_cdf(z: Any) -> Any:
    """The logarithm of the standard Laplace distribution's function, without loss in either tail."""
    lower = z - math.log(2.0)
    upper = build("Log1p", -0.5 * build("Exp", -build("Abs", z)))
    return build("SelectV2", build("Less", z, number(0, z)), lower, upper)


@public("distributions.StudentT", "contrib.distributions.StudentT")
class StudentT(LocationScale):
    """Student's t distribution of ``df`` degrees of freedom."""

    _shaped = ("df", "loc", "scale")

    def __init__(
        self,
        df: Any,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "StudentT",
    ) -> None:
        parameters = dict(locals())
        tensors = self._prepare(name, validate_args, df=df, loc=loc, scale=scale)
        self._loc, self._scale = tensors["loc"], tensors["scale"]
        self._df = checked(tensors["df"], validate_args, checks.positive(tensors["df"], "df must be positive"))
        super().__init__(
            self._scale.dtype.base,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            parameters,
            [self._df, self._loc, self._scale],
            name,
        )

    @property
    def df(self) -> Any:
        """Degrees of freedom."""
        return self._df

    def _batch(self) -> Any:
        return broadcast_shape(self._df, self._loc, self._scale)

    def _spread(self, value: Any) -> Any:
        return value * build("OnesLike", self._df + self._loc + self._scale)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        count = [n] if isinstance(n, int) else build("ExpandDims", n, 0)
        normal = random_normal(drawn_shape(n, self._df, self._loc, self._scale), 0.0, 1.0, self._dtype, seed)
        df = self._spread(self._df)
        gamma = random_gamma(count, 0.5 * df, 0.5, self._dtype, new_seed(seed, "student_t"))
        return normal * build("Rsqrt", gamma / df) * self._scale + self._loc

    def _log_prob(self, x: Any) -> Any:
        return -0.5 * (self._df + 1.0) * build("Log1p", build("Square", self._z(x)) / self._df) - self._log_normalizer()

    def _log_normalizer(self) -> Any:
        half = 0.5 * self._df
        ratio = build("Lgamma", half) - build("Lgamma", half + 0.5)
        return build("Log", build("Abs", self._scale)) + 0.5 * (build("Log", self._df) + math.log(math.pi)) + ratio

    def _cdf(self, x: Any) -> Any:
        z = self._z(x) * build("Sign", self._scale)  # a negative scale is as good as a positive one
        df = self._df * build("OnesLike", z)
        below = 0.5 * build(
            "Betainc", 0.5 * df, number(0.5, df) * build("OnesLike", df), df / (build("Square", z) + df)
        )
        return build("SelectV2", build("Less", z, number(0, z)), below, 1.0 - below)

    def _entropy(self) -> Any:
        half = 0.5 * self._df
        part = build("Lgamma", half) + math.lgamma(0.5) - build("Lgamma", half + 0.5) + 0.5 * build("Log", self._df)
        change = (half + 0.5) * (build("Digamma", half + 0.5) - build("Digamma", half))
        return self._spread(build("Log", build("Abs", self._scale)) + part + change)

    def _mean(self) -> Any:
        value = self._spread(self._loc)
        defined = build("Greater", self._df * build("OnesLike", value), number(1, value))
        return self._undefined(defined, value, "mean not defined for components of df <= 1")

    def _mode(self) -> Any:
        return self._spread(self._loc)

    def _variance(self) -> Any:
        df = self._spread(self._df)
        finite = build("Greater", df, number(2, df))
        safe = build("SelectV2", finite, df - 2.0, build("OnesLike", df))
        value = build("Square", self._spread(self._scale)) * df / safe
        value = build("SelectV2", finite, value, np.array(np.inf, self._dtype.np))
        return self._undefined(
            build("Greater", df, number(1, df)), value, "variance not defined for components of df <= 1"
        )
