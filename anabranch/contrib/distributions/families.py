"""Distributions that only ``tf.contrib.distributions`` has: of counts, over the positive numbers, with heavy tails."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.random_seed import count_more, counted_as
from anabranch.distributions import checks
from anabranch.distributions.base import (
    FULLY_REPARAMETERIZED,
    NOT_REPARAMETERIZED,
    Distribution,
    broadcast_shape,
    drawn_shape,
    floats,
    new_seed,
)
from anabranch.distributions.bounded import Gamma
from anabranch.distributions.checks import checked
from anabranch.distributions.counted import logits_and_probs
from anabranch.distributions.unbounded import LocationScale


def _lead(n: Any) -> Any:
    return [n] if isinstance(n, int) else tf.expand_dims(n, 0)


def _uniform(n: Any, like: Distribution, seed: int | None, *parameters: Any) -> Any:
    """Uniform numbers above 0 and below 1, for ``n`` draws of a batch of parameters."""
    least = float(np.finfo(like.dtype.np).tiny)
    return tf.random_uniform(drawn_shape(n, *parameters), least, 1.0, like.dtype, seed)


@public("contrib.distributions.softplus_inverse")
def softplus_inverse(x: Any, name: str | None = None) -> Any:
    """``y`` such that ``softplus(y) = x``, for ``x`` above 0: ``x + log(1 - exp(-x))``."""
    with tf.name_scope(name, "softplus_inverse", [x]):
        x = tf.convert_to_tensor(x, name="x")
        return x + tf.log(-tf.expm1(-x))


# -------------------------------------------------------------------------------------------------------------- counts
class _ByOdds(Distribution):
    """A distribution of counts with a number and a probability, given as such or by log-odds."""

    _logits: Any
    _probs: Any

    @property
    def logits(self) -> Any:
        """Log-odds."""
        return self._logits

    @property
    def probs(self) -> Any:
        """Probability."""
        return self._probs

    def _begin(self, parents: list[Any], parameters: dict[str, Any]) -> None:
        Distribution.__init__(
            self,
            self._probs.dtype,
            NOT_REPARAMETERIZED,
            parameters["validate_args"],
            parameters["allow_nan_stats"],
            parameters,
            [*parents, self._logits, self._probs],
            parameters["name"],
        )


class _CountsOfMany(_ByOdds):
    _total: Any

    @property
    def total_count(self) -> Any:
        """How many trials, or failures."""
        return self._total

    def _take(self, total_count: Any, logits: Any, probs: Any, parameters: dict[str, Any], kind: str) -> None:
        with tf.name_scope(parameters["name"], values=[total_count, logits, probs]):
            self._logits, self._probs = logits_and_probs(logits, probs, False, parameters["validate_args"], kind)
            total = tf.convert_to_tensor(total_count, self._probs.dtype.base_dtype, name="total_count")
            self._total = checked(total, parameters["validate_args"], *self._assertions(total))
        self._begin([self._total], parameters)

    def _assertions(self, total: Any) -> Sequence[checks.Assertion]:
        """What a number of trials, or failures, must be."""
        raise NotImplementedError

    def _batch(self) -> Any:
        return broadcast_shape(self._total, self._probs)


@public("contrib.distributions.Binomial")
class Binomial(_CountsOfMany):
    """How many of ``total_count`` trials succeed, each with probability ``probs`` or log-odds ``logits``."""

    def __init__(
        self,
        total_count: Any,
        logits: Any = None,
        probs: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Binomial",
    ) -> None:
        self._take(total_count, logits, probs, dict(locals()), "Binomial")

    def _assertions(self, total: Any) -> Sequence[checks.Assertion]:
        return checks.counts(total, "total_count")

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        # As many uniform numbers as the largest number of trials; those beyond a batch member's own do not count.
        most = tf.cast(tf.reduce_max(self._total), tf.int32)
        shape = tf.concat(
            [tf.constant(_lead(n)) if isinstance(n, int) else _lead(n), self.batch_shape_tensor(), [most]], 0
        )
        drawn = tf.random_uniform(shape, 0.0, 1.0, self._dtype, seed)
        counts = tf.cast(tf.range(most), self._dtype) < self._total[..., tf.newaxis]
        return tf.reduce_sum(tf.cast(tf.logical_and(drawn < self._probs[..., tf.newaxis], counts), self._dtype), -1)

    def _log_prob(self, counts: Any) -> Any:
        few = functools.partial(
            tf.assert_less_equal, counts, self._total, message="counts are not less than or equal to n."
        )
        counts = checked(counts, self._validate_args, *checks.counts(counts), few)
        failures = self._total - counts
        ways = tf.lgamma(1.0 + failures) + tf.lgamma(1.0 + counts) - tf.lgamma(1.0 + self._total)
        return -counts * tf.nn.softplus(-self._logits) - failures * tf.nn.softplus(self._logits) - ways

    def _cdf(self, counts: Any) -> Any:
        counts = tf.floor(checked(counts, self._validate_args, *checks.counts(counts)))
        inside = tf.maximum(tf.minimum(counts, self._total - 1.0), 0.0)
        zero = 0.0 * (inside + self._total + self._probs)
        below = tf.betainc(self._total - inside + zero, inside + 1.0 + zero, 1.0 - self._probs + zero)
        return tf.where_v2(counts < 0, zero, tf.where_v2(counts >= self._total, zero + 1.0, below))

    def _mean(self) -> Any:
        return self._total * self._probs

    def _variance(self) -> Any:
        return self._mean() * (1.0 - self._probs)

    def _mode(self) -> Any:
        return tf.minimum(tf.floor((1.0 + self._total) * self._probs), self._total)


@public("contrib.distributions.NegativeBinomial")
class NegativeBinomial(_CountsOfMany):
    """How many trials succeed, with probability ``probs`` each, before ``total_count`` of them fail."""

    def __init__(
        self,
        total_count: Any,
        logits: Any = None,
        probs: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "NegativeBinomial",
    ) -> None:
        self._take(total_count, logits, probs, dict(locals()), "NegativeBinomial")

    def _assertions(self, total: Any) -> Sequence[checks.Assertion]:
        return [checks.positive(total, "total_count must be positive")]

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        rate = tf.random_gamma(_lead(n), self._total + 0.0 * self._logits, tf.exp(-self._logits), self._dtype, seed)
        return tf.random_poisson(rate, [], self._dtype, new_seed(seed, "negative_binom"))

    def _log_prob(self, x: Any) -> Any:
        x = checked(x, self._validate_args, *checks.counts(x))
        ways = tf.lgamma(1.0 + x) + tf.lgamma(self._total) - tf.lgamma(self._total + x)
        return -self._total * tf.nn.softplus(self._logits) - x * tf.nn.softplus(-self._logits) - ways

    def _cdf(self, x: Any) -> Any:
        x = checked(x, self._validate_args, *checks.counts(x))  # not floored: between counts it is TensorFlow's curve
        zero = 0.0 * (x + self._total + self._probs)
        below = tf.betainc(self._total + zero, tf.maximum(1.0 + x, 1.0) + zero, 1.0 - self._probs + zero)
        return tf.where_v2(x < 0, zero, below)

    def _mean(self) -> Any:
        return self._total * tf.exp(self._logits)

    def _variance(self) -> Any:
        return self._mean() / (1.0 - self._probs)

    def _mode(self) -> Any:
        return tf.maximum(0.0, tf.floor((self._total - 1.0) * tf.exp(self._logits)))


@public("contrib.distributions.Geometric")
class Geometric(_ByOdds):
    """How many trials fail before the first success, of probability ``probs`` or log-odds ``logits``."""

    def __init__(
        self,
        logits: Any = None,
        probs: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Geometric",
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[logits, probs]):
            self._logits, self._probs = logits_and_probs(logits, probs, False, validate_args, "Geometric")
            count_more(1)  # passed on
        self._begin([], parameters)

    def _batch(self) -> Any:
        return broadcast_shape(self._probs)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        return tf.floor(tf.log(_uniform(n, self, seed, self._probs)) / tf.log1p(-self._probs))

    def _log_prob(self, counts: Any) -> Any:
        counts = checked(counts, self._validate_args, *checks.counts(counts))
        # -log(1 + exp(logits)) is the logarithm of a failure's probability.
        failures = tf.where_v2(
            tf.equal(counts, 0.0), 0.0, -tf.nn.softplus(self._logits)
        )  # none, also of a sure success
        return tf.log(self._probs) + counts * failures

    def _cdf(self, counts: Any) -> Any:
        counts = tf.floor(checked(counts, self._validate_args, *checks.counts(counts)))
        return tf.where_v2(counts < 0, 0.0 * self._probs, -tf.expm1((counts + 1.0) * tf.log1p(-self._probs)))

    def _entropy(self) -> Any:
        return (-tf.log(self._probs) * self._probs - tf.log1p(-self._probs) * (1.0 - self._probs)) / self._probs

    def _mean(self) -> Any:
        return tf.exp(-self._logits)

    def _variance(self) -> Any:
        return self._mean() / self._probs

    def _mode(self) -> Any:
        return tf.zeros_like(self._probs)


@public("contrib.distributions.OneHotCategorical")
class OneHotCategorical(Distribution):
    """One of several classes as a vector with a 1 in its place, by probabilities or log-probabilities."""

    def __init__(
        self,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = tf.int32,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "OneHotCategorical",
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[logits, probs]):
            self._logits, self._probs = logits_and_probs(logits, probs, True, validate_args, "OneHotCategorical")
            count_more(3 if logits is None else 6)  # numbers of axes and classes
        super().__init__(
            dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, [self._logits, self._probs], name
        )

    @property
    def logits(self) -> Any:
        """Log-probabilities ``[..., classes]``."""
        return self._logits

    @property
    def probs(self) -> Any:
        """Probabilities ``[..., classes]``."""
        return self._probs

    def _batch(self) -> Any:
        raw = self._logits._shape
        return (None if raw is None else raw[:-1]), tf.shape(self._logits)[:-1]

    def _event(self) -> Any:
        raw = self._logits._shape
        return ((None,) if raw is None else raw[-1:]), tf.shape(self._logits)[-1:]

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        with counted_as(7 if self._logits.shape.ndims == 1 else 4, captures=False):
            classes = tf.shape(self._logits)[-1]
            rows = tf.reshape(self._logits, [-1, classes])
        drawn = tf.transpose(tf.one_hot(tf.multinomial(rows, n, seed), classes, dtype=self._dtype), [1, 0, 2])
        count_more(-4)  # the shape, of which TensorFlow has the sizes already
        return tf.reshape(drawn, tf.concat([[n], tf.shape(self._logits)], 0))

    def _log_prob(self, x: Any) -> Any:
        x = tf.cast(x, self._logits.dtype.base_dtype)
        return tf.reduce_sum(x * tf.nn.log_softmax(self._logits), -1)

    def _entropy(self) -> Any:
        return -tf.reduce_sum(self._probs * tf.nn.log_softmax(self._logits), -1)

    def _mode(self) -> Any:
        return tf.one_hot(tf.argmax(self._logits, -1), tf.shape(self._logits)[-1], dtype=self._dtype)

    def _mean(self) -> Any:
        return tf.identity(self._probs)

    def _covariance(self) -> Any:
        return tf.matrix_diag(self._probs) - self._probs[..., :, tf.newaxis] * self._probs[..., tf.newaxis, :]

    def _variance(self) -> Any:
        return self._probs * (1.0 - self._probs)


# --------------------------------------------------------------------------------------------------- positive numbers
@public("contrib.distributions.Chi2")
class Chi2(Gamma):
    """The sum of the squares of ``df`` normal numbers."""

    def __init__(self, df: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "Chi2") -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[df]):
            given = floats("Chi2", df=df)["df"]
            self._df = checked(given, validate_args, checks.positive(given, "df must be positive"))
            self._concentration = 0.5 * self._df
            self._rate = tf.convert_to_tensor(0.5, self._df.dtype.base_dtype, name="rate")
            count_more(3)  # each passed on
        self._begin(validate_args, allow_nan_stats, parameters, name)

    @property
    def df(self) -> Any:
        """How many numbers."""
        return self._df


@public("contrib.distributions.InverseGamma")
class InverseGamma(Gamma):
    """The reciprocal of a gamma number: density proportional to ``x^(-concentration - 1) exp(-rate / x)``."""

    def __init__(
        self,
        concentration: Any,
        rate: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "InverseGamma",
    ) -> None:
        super().__init__(concentration, rate, validate_args, allow_nan_stats, name)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        return 1.0 / super()._sample_n(n, seed)

    def _log_prob(self, x: Any) -> Any:
        a, b, x = self._concentration, self._rate, self._checked(x)
        return a * tf.log(b) - tf.lgamma(a) - (1.0 + a) * tf.log(x) - b / x

    def _cdf(self, x: Any) -> Any:
        x = self._checked(x)
        ones = tf.ones_like(x + self._concentration + self._rate)
        return tf.igammac(self._concentration * ones, self._rate / x * ones)

    def _entropy(self) -> Any:
        a = self._concentration
        return a + tf.log(self._rate) + tf.lgamma(a) - (1.0 + a) * tf.digamma(a)

    def _mean(self) -> Any:
        value = self._rate / (self._concentration - 1.0)
        return self._undefined(
            self._concentration + 0.0 * value > 1, value, "mean undefined when any concentration <= 1"
        )

    def _variance(self) -> Any:
        a = self._concentration
        value = tf.square(self._rate) / (tf.square(a - 1.0) * (a - 2.0))
        return self._undefined(a + 0.0 * value > 2, value, "variance undefined when any concentration <= 2")

    def _stddev(self) -> Any:
        return tf.sqrt(self._variance())

    def _mode(self) -> Any:
        return self._rate / (1.0 + self._concentration)


@public("contrib.distributions.HalfNormal")
class HalfNormal(Distribution):
    """The size of a normal number of mean 0."""

    def __init__(
        self, scale: Any, validate_args: bool = False, allow_nan_stats: bool = True, name: str = "HalfNormal"
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[scale]):
            given = floats("HalfNormal", scale=scale)["scale"]
            self._scale = checked(given, validate_args, checks.positive(given, "scale must be positive"))
            count_more(1)  # passed on
        super().__init__(
            self._scale.dtype, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, [self._scale], name
        )

    @property
    def scale(self) -> Any:
        """The deviation of the normal number."""
        return self._scale

    def _batch(self) -> Any:
        return broadcast_shape(self._scale)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        return tf.abs(tf.random_normal(drawn_shape(n, self._scale), 0.0, 1.0, self._dtype, seed) * self._scale)

    def _log_prob(self, x: Any) -> Any:
        inside = 0.5 * math.log(2 / math.pi) - tf.log(self._scale) - 0.5 * tf.square(x / self._scale)
        return tf.where_v2(x >= 0, inside, -np.inf)

    def _cdf(self, x: Any) -> Any:
        return tf.erf(tf.maximum(x, 0.0) / self._scale * math.sqrt(0.5))

    def _entropy(self) -> Any:
        return 0.5 * tf.log(math.pi / 2 * tf.square(self._scale)) + 0.5

    def _mean(self) -> Any:
        return self._scale * math.sqrt(2 / math.pi)

    def _variance(self) -> Any:
        return tf.square(self._scale) * (1 - 2 / math.pi)

    def _mode(self) -> Any:
        return tf.zeros_like(self._scale)


# --------------------------------------------------------------------------------------------------------- heavy tails
def _begin_located(own: LocationScale, parameters: dict[str, Any]) -> None:
    name, validate_args = parameters["name"], parameters["validate_args"]
    given = own._prepare(name, validate_args, loc=parameters["loc"], scale=parameters["scale"])
    own._loc, own._scale = given["loc"], given["scale"]
    Distribution.__init__(
        own,
        own._loc.dtype.base,
        FULLY_REPARAMETERIZED,
        validate_args,
        parameters["allow_nan_stats"],
        parameters,
        [own._loc, own._scale],
        name,
    )


@public("contrib.distributions.Logistic")
class Logistic(LocationScale):
    """With the logistic function of ``(x - loc) / scale`` as the probability below ``x``."""

    def __init__(
        self,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Logistic",
    ) -> None:
        parameters = dict(locals())
        _begin_located(self, parameters)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        drawn = _uniform(n, self, seed, self._loc, self._scale)
        count_more(1)  # the factor -1
        return self._loc + self._scale * (tf.log(drawn) - tf.log1p(-drawn))

    def _log_prob(self, x: Any) -> Any:
        z = self._z(x)
        return -z - tf.log(self._scale) - 2.0 * tf.nn.softplus(-z)

    def _log_cdf(self, x: Any) -> Any:
        return -tf.nn.softplus(-self._z(x))

    def _cdf(self, x: Any) -> Any:
        return tf.sigmoid(self._z(x))

    def _entropy(self) -> Any:
        return self._spread(2.0 + tf.log(self._scale))

    def _stddev(self) -> Any:
        return self._spread(self._scale * (math.pi / math.sqrt(3)))


@public("contrib.distributions.Cauchy")
class Cauchy(LocationScale):
    """With density proportional to ``1 / (1 + ((x - loc) / scale) ** 2)``; it has no mean."""

    def __init__(
        self,
        loc: Any,
        scale: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Cauchy",
    ) -> None:
        parameters = dict(locals())
        _begin_located(self, parameters)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        return self._quantile(_uniform(n, self, seed, self._loc, self._scale))

    def _log_prob(self, x: Any) -> Any:
        return -math.log(math.pi) - tf.log(self._scale) - tf.log1p(tf.square((x - self._loc) / self._scale))

    def _cdf(self, x: Any) -> Any:
        return tf.atan((x - self._loc) / self._scale) / math.pi + 0.5

    def _entropy(self) -> Any:
        return self._spread(math.log(4 * math.pi) + tf.log(self._scale))

    def _quantile(self, p: Any) -> Any:
        return self._loc + self._scale * tf.tan(math.pi * (p - 0.5))

    def _mode(self) -> Any:
        return self._loc + 0.0 * self._scale

    def _mean(self) -> Any:
        value = tf.fill(self.batch_shape_tensor(), tf.constant(np.nan, self._dtype))
        return value if self._allow_nan_stats else self._no_mean()

    def _no_mean(self) -> Any:
        raise ValueError(
            "`mean` is undefined for Cauchy distribution.\n"
            + errors.message("the mean of Cauchy", "a statistic that it has", "mode(), or allow_nan_stats=True")
        )

    _stddev = _mean


# ------------------------------------------------------------------------------------------------------------- events
@public("contrib.distributions.Independent")
class Independent(Distribution):
    """Distributions of a batch as one distribution: their last batch dimensions are dimensions of the outcome.

    Args:
        distribution: the batch.
        reinterpreted_batch_ndims: how many of its batch dimensions; all but the first if None.
        validate_args: has no effect.
        name: name of the scope of its ops.
    """

    def __init__(
        self,
        distribution: Any,
        reinterpreted_batch_ndims: int | None = None,
        validate_args: bool = False,
        name: str | None = None,
    ) -> None:
        parameters = dict(locals())
        ndims = distribution.batch_shape.ndims
        if reinterpreted_batch_ndims is None:
            if ndims is None:
                raise NotImplementedError(
                    errors.message("a batch of unknown rank", "a number of dimensions", "reinterpreted_batch_ndims=1")
                )
            reinterpreted_batch_ndims = max(0, ndims - 1)
        if ndims is not None and reinterpreted_batch_ndims > ndims:
            raise ValueError(
                f"reinterpreted_batch_ndims({reinterpreted_batch_ndims}) cannot exceed distribution.batch_ndims"
                f"({ndims})\n"
                + errors.message(f"{reinterpreted_batch_ndims} dimensions", f"at most {ndims}", "a smaller number")
            )
        self._inner, self._taken = distribution, int(reinterpreted_batch_ndims)
        super().__init__(
            distribution.dtype,
            distribution.reparameterization_type,
            validate_args,
            distribution.allow_nan_stats,
            parameters,
            name=name or f"Independent{distribution.name}",
        )

    @property
    def distribution(self) -> Any:
        """The batch."""
        return self._inner

    @property
    def reinterpreted_batch_ndims(self) -> int:
        """How many dimensions of the batch are dimensions of the outcome."""
        return self._taken

    def _split(self) -> Any:
        raw, dynamic = self._inner._batch()
        size = tf.size(dynamic) - self._taken
        cut = None if raw is None else len(raw) - self._taken
        dynamic = tf.convert_to_tensor(dynamic, tf.int32)
        return (None, None) if raw is None else (raw[:cut], raw[cut:]), dynamic[:size], dynamic[size:]

    def _batch(self) -> Any:
        (raw, _), dynamic, _ = self._split()
        return raw, dynamic

    def _event(self) -> Any:
        (_, raw), _, dynamic = self._split()
        own, own_dynamic = self._inner._event()
        joined = None if raw is None or own is None else (*raw, *own)
        return joined, tf.concat([dynamic, tf.convert_to_tensor(own_dynamic, tf.int32)], 0)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        return self._inner._sample_n(n, seed)

    def _sum(self, x: Any) -> Any:
        return tf.reduce_sum(x, list(range(-self._taken, 0))) if self._taken else x

    def _log_prob(self, x: Any) -> Any:
        return self._sum(self._inner.log_prob(x))

    def _entropy(self) -> Any:
        return self._sum(self._inner.entropy())

    def _mean(self) -> Any:
        return self._inner.mean()

    def _variance(self) -> Any:
        return self._inner.variance()

    def _stddev(self) -> Any:
        return self._inner.stddev()

    def _mode(self) -> Any:
        return self._inner.mode()
