"""Distributions over a part of the real numbers: Uniform, Beta, Gamma, Exponential."""

from __future__ import annotations

from typing import Any, ClassVar

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
    nan,
    new_seed,
    number,
)
from anabranch.distributions.checks import checked
from anabranch.ops.random.public import random_gamma, random_uniform


def _count(n: Any) -> Any:
    return [n] if isinstance(n, int) else build("ExpandDims", n, 0)


@public("distributions.Uniform", "contrib.distributions.Uniform")
class Uniform(Distribution):
    """All numbers from ``low`` to ``high``, ``high`` excluded, equally likely."""

    _shaped = ("low", "high")

    def __init__(
        self,
        low: Any = 0.0,
        high: Any = 1.0,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Uniform",
    ) -> None:
        parameters = dict(locals())
        with name_scope(name, values=[low, high]):
            tensors = floats("Uniform", low=low, high=high)
            self._low = tensors["low"]
            self._high = checked(
                tensors["high"],
                validate_args,
                checks.less(tensors["low"], tensors["high"], "uniform not defined when low >= high."),
            )
            count_more(2)  # each passed on
        super().__init__(
            self._low.dtype.base,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            parameters,
            [self._low, self._high],
            name,
        )

    @property
    def low(self) -> Any:
        """The lower bound."""
        return self._low

    @property
    def high(self) -> Any:
        """The upper bound."""
        return self._high

    def range(self, name: str = "range") -> Any:
        """``high - low``."""
        with self._scope(name):
            return self._high - self._low

    def _batch(self) -> Any:
        return broadcast_shape(self._low, self._high)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        drawn = random_uniform(drawn_shape(n, self._low, self._high), 0.0, 1.0, self._dtype, seed)
        return self._low + self.range() * drawn

    def _prob(self, x: Any) -> Any:
        x = x * build("OnesLike", self._low + self._high)
        outside = build("LogicalOr", build("Less", x, self._low), build("GreaterEqual", x, self._high))
        inside = build("SelectV2", outside, build("ZerosLike", x), build("OnesLike", x) / self.range())
        return build("SelectV2", build("IsNan", x), nan(x), inside)

    def _cdf(self, x: Any) -> Any:
        part = (x - self._low) / self.range()
        return build("Minimum", build("Maximum", part, number(0, part)), number(1, part))

    def _quantile(self, p: Any) -> Any:
        return self._low + self.range() * p

    def _entropy(self) -> Any:
        return build("Log", self.range())

    def _mean(self) -> Any:
        return (self._low + self._high) / 2.0

    def _variance(self) -> Any:
        return build("Square", self.range()) / 12.0

    def _stddev(self) -> Any:
        return self.range() / float(np.sqrt(12.0))


@public("distributions.Beta", "contrib.distributions.Beta")
class Beta(Distribution):
    """Over (0, 1), with density proportional to ``x^(concentration1 - 1) (1 - x)^(concentration0 - 1)``."""

    _shaped = ("concentration1", "concentration0")

    def __init__(
        self,
        concentration1: Any = None,
        concentration0: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Beta",
    ) -> None:
        parameters = dict(locals())
        self._one: Any
        self._zero: Any
        with name_scope(name, values=[concentration1, concentration0]):
            tensors = floats("Beta", concentration1=concentration1, concentration0=concentration0)
            self._one, self._zero = (
                checked(item, validate_args, checks.positive(item, "Concentration parameter must be positive."))
                for item in (tensors["concentration1"], tensors["concentration0"])
            )
            self._total = self._one + self._zero
        super().__init__(
            self._total.dtype.base,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            parameters,
            [self._one, self._zero],
            name,
        )

    @property
    def concentration1(self) -> Any:
        """What weighs towards 1."""
        return self._one

    @property
    def concentration0(self) -> Any:
        """What weighs towards 0."""
        return self._zero

    @property
    def total_concentration(self) -> Any:
        """The sum of both."""
        return self._total

    def _batch(self) -> Any:
        return broadcast_shape(self._total)

    def _both(self) -> tuple[Any, Any]:
        ones = build("OnesLike", self._total)
        count_more(5)  # once for each
        return self._one * ones, self._zero * ones

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        one, zero = self._both()
        first: Any = random_gamma(_count(n), one, None, self._dtype, seed)
        second: Any = random_gamma(_count(n), zero, None, self._dtype, new_seed(seed, "beta"))
        return first / (first + second)

    def log_normalizer(self) -> Any:
        """The logarithm of the beta function of the concentrations."""
        one, zero, total = (build("Lgamma", item) for item in (self._one, self._zero, self._total))
        return one + zero - total

    def _log_prob(self, x: Any) -> Any:
        x = self._checked(x)
        return build("Xlogy", self._one - 1.0, x) + (self._zero - 1.0) * build("Log1p", -x) - self.log_normalizer()

    def _cdf(self, x: Any) -> Any:
        x = self._checked(x)
        ones = build("OnesLike", x + self._total)
        return build("Betainc", self._one * ones, self._zero * ones, x * ones)

    def _checked(self, x: Any) -> Any:
        below = checks.less(x, number(1, x), "sample must be less than `1`.")
        return checked(x, self._validate_args, checks.positive(x, "sample must be positive"), below)

    def _entropy(self) -> Any:
        digamma_one, digamma_zero, digamma = (build("Digamma", item) for item in (self._one, self._zero, self._total))
        change = (self._one - 1.0) * digamma_one + (self._zero - 1.0) * digamma_zero
        return self.log_normalizer() - change + (self._total - 2.0) * digamma

    def _mean(self) -> Any:
        return self._one / self._total

    def _variance(self) -> Any:
        mean = self._mean()
        return mean * (1.0 - mean) / (1.0 + self._total)

    def _mode(self) -> Any:
        one, zero = self._both()
        defined = build("LogicalAnd", build("Greater", one, number(1, one)), build("Greater", zero, number(1, zero)))
        return self._undefined(
            defined, (one - 1.0) / (self._total - 2.0), "Mode undefined for concentration1 <= 1 or concentration0 <= 1"
        )


@public("distributions.Gamma", "contrib.distributions.Gamma")
class Gamma(Distribution):
    """Over the positive numbers, with density proportional to ``x^(concentration - 1) exp(-rate x)``."""

    _shaped: ClassVar[tuple[str, ...]] = ("concentration", "rate")

    _concentration: Any
    _rate: Any

    def __init__(
        self,
        concentration: Any,
        rate: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Gamma",
    ) -> None:
        parameters = dict(locals())
        with name_scope(name, values=[concentration, rate]):
            tensors = floats("Gamma", concentration=concentration, rate=rate)
            self._concentration, self._rate = (
                checked(tensors[key], validate_args, checks.positive(tensors[key], f"{key} must be positive"))
                for key in ("concentration", "rate")
            )
            count_more(2)  # each passed on
        self._begin(validate_args, allow_nan_stats, parameters, name)

    def _begin(self, validate_args: bool, allow_nan_stats: bool, parameters: dict[str, Any], name: str) -> None:
        Distribution.__init__(
            self,
            self._rate.dtype.base,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            parameters,
            [self._concentration, self._rate],
            name,
        )

    @property
    def concentration(self) -> Any:
        """The shape parameter."""
        return self._concentration

    @property
    def rate(self) -> Any:
        """The inverse of the scale."""
        return self._rate

    def _batch(self) -> Any:
        return broadcast_shape(self._concentration, self._rate)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        return random_gamma(_count(n), self._concentration, self._rate, self._dtype, seed)

    def _log_normalizer(self) -> Any:
        return build("Lgamma", self._concentration) - self._concentration * build("Log", self._rate)

    def _log_prob(self, x: Any) -> Any:
        x = self._checked(x)
        return build("Xlogy", self._concentration - 1.0, x) - self._rate * x - self._log_normalizer()

    def _checked(self, x: Any) -> Any:
        return checked(x, self._validate_args, checks.positive(x, "sample must be positive"))

    def _cdf(self, x: Any) -> Any:
        x = self._checked(x)
        ones = build("OnesLike", x + self._concentration + self._rate)
        return build("Igamma", self._concentration * ones, self._rate * x * ones)

    def _entropy(self) -> Any:
        a = self._concentration
        return a - build("Log", self._rate) + build("Lgamma", a) + (1.0 - a) * build("Digamma", a)

    def _mean(self) -> Any:
        return self._concentration / self._rate

    def _variance(self) -> Any:
        return self._concentration / build("Square", self._rate)

    def _stddev(self) -> Any:
        return build("Sqrt", self._concentration) / self._rate

    def _mode(self) -> Any:
        value = (self._concentration - 1.0) / self._rate
        defined = build("Greater", self._concentration * build("OnesLike", value), number(1, value))
        return self._undefined(defined, value, "mode not defined when any concentration <= 1")


@public("distributions.Exponential", "contrib.distributions.Exponential")
class Exponential(Gamma):
    """Over the positive numbers, with density ``rate exp(-rate x)``."""

    _shaped = ("rate",)

    def __init__(
        self, rate: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Exponential"
    ) -> None:
        parameters = dict(locals())
        with name_scope(name, values=[rate]):
            rate_tensor = floats("Exponential", rate=rate)["rate"]
            self._rate = checked(rate_tensor, validate_args, checks.positive(rate_tensor, "rate must be positive"))
            self._concentration = build("OnesLike", self._rate)
            count_more(2)  # each passed on
        self._begin(validate_args, allow_nan_stats, parameters, name)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        # Open at 0, where the logarithm would be infinite.
        least = float(np.finfo(self._dtype.np).tiny)
        drawn = random_uniform(drawn_shape(n, self._rate), least, 1.0, self._dtype, seed)
        return -build("Log", drawn) / self._rate

    def _log_prob(self, x: Any) -> Any:
        return build("Log", self._rate) - self._rate * self._checked(x)

    def _mode(self) -> Any:
        return build("ZerosLike", self._rate)

    def _cdf(self, x: Any) -> Any:
        return -build("Expm1", -self._rate * self._checked(x))

    def _log_survival_function(self, x: Any) -> Any:
        return -self._rate * self._checked(x)

    def _quantile(self, p: Any) -> Any:
        return -build("Log1p", -p) / self._rate
