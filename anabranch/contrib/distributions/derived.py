"""Distributions made of others: reshaped batches, sequences, rounded numbers, and such that take conditions."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.contrib.distributions.families import Independent
from anabranch.contrib.distributions.transformed import TransformedDistribution
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.distributions.base import Distribution, new_seed


@public("contrib.distributions.ConditionalDistribution")
class ConditionalDistribution(Distribution):
    """A distribution whose methods take conditions by name, which it hands to ``_sample_n``, ``_log_prob`` ..."""

    _CONDITIONED = (
        *("_sample_n", "_log_prob", "_prob", "_log_cdf", "_cdf"),
        *("_log_survival_function", "_survival_function"),
    )

    def _under(self, conditions: dict[str, Any]) -> Any:
        """The distribution under conditions."""
        if not conditions:
            return self
        bound = copy.copy(self)
        for method in self._CONDITIONED:
            own = getattr(self, method, None)
            if own is not None:
                setattr(bound, method, functools.partial(own, **conditions))
        return bound

    def sample(self, sample_shape: Any = (), seed: int | None = None, name: str = "sample", **conditions: Any) -> Any:
        """Samples under conditions."""
        return Distribution.sample(self._under(conditions), sample_shape, seed, name)

    def log_prob(self, value: Any, name: str = "log_prob", **conditions: Any) -> Any:
        """The logarithm of the density or probability under conditions."""
        return Distribution.log_prob(self._under(conditions), value, name)

    def prob(self, value: Any, name: str = "prob", **conditions: Any) -> Any:
        """The density or probability under conditions."""
        return Distribution.prob(self._under(conditions), value, name)

    def log_cdf(self, value: Any, name: str = "log_cdf", **conditions: Any) -> Any:
        """The logarithm of the probability of at most ``value`` under conditions."""
        return Distribution.log_cdf(self._under(conditions), value, name)

    def cdf(self, value: Any, name: str = "cdf", **conditions: Any) -> Any:
        """The probability of at most ``value`` under conditions."""
        return Distribution.cdf(self._under(conditions), value, name)

    def log_survival_function(self, value: Any, name: str = "log_survival_function", **conditions: Any) -> Any:
        """The logarithm of the probability of more than ``value`` under conditions."""
        return Distribution.log_survival_function(self._under(conditions), value, name)

    def survival_function(self, value: Any, name: str = "survival_function", **conditions: Any) -> Any:
        """The probability of more than ``value`` under conditions."""
        return Distribution.survival_function(self._under(conditions), value, name)


class _Conditioned:
    """A bijector, or a distribution, whose methods are called with conditions."""

    def __init__(self, of: Any, conditions: dict[str, Any], methods: tuple[str, ...]) -> None:
        self._of, self._conditions, self._methods = of, conditions, methods

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._of, name)
        return functools.partial(value, **self._conditions) if name in self._methods else value


@public("contrib.distributions.ConditionalTransformedDistribution")
class ConditionalTransformedDistribution(ConditionalDistribution, TransformedDistribution):
    """What a bijector makes of a distribution; methods take conditions for the one and the other.

    ``sample(n, bijector_kwargs={"shift": x}, distribution_kwargs={})``, and so for all methods.
    """

    def _under(self, conditions: dict[str, Any]) -> Any:
        if not conditions:
            return self
        others = conditions.keys() - {"bijector_kwargs", "distribution_kwargs"}
        if others:
            raise TypeError(
                errors.message(
                    f"the conditions {sorted(others)}", "bijector_kwargs, distribution_kwargs", "a dictionary"
                )
            )
        bound: Any = copy.copy(self)
        bound._bijector = _Conditioned(
            self._bijector,
            conditions.get("bijector_kwargs") or {},
            ("forward", "inverse", "forward_log_det_jacobian", "inverse_log_det_jacobian"),
        )
        bound._of = _Conditioned(
            self._of,
            conditions.get("distribution_kwargs") or {},
            ("sample", "log_prob", "prob", "cdf", *self._CONDITIONED),
        )
        return bound


@tf.distributions.RegisterKL(Independent, Independent)
def _between_independent(a: Any, b: Any, name: str | None = None) -> Any:
    """The divergence of products of distributions: the sum of those of the factors."""
    ours, theirs = a.distribution, b.distribution
    if a.event_shape.as_list() != b.event_shape.as_list():
        raise ValueError(
            "Event shapes do not match.\n"
            + errors.message(
                f"outcomes of shapes {a.event_shape} and {b.event_shape}",
                "two of one shape",
                "reinterpreted_batch_ndims",
            )
        )
    if ours.event_shape.as_list() != theirs.event_shape.as_list():
        raise NotImplementedError(
            "KL between Independents with different event shapes not supported.\n"
            + errors.message(
                f"factors of shapes {ours.event_shape} and {theirs.event_shape}",
                "factors of one shape",
                "Independent of distributions of the same family",
            )
        )
    axes = list(range(-(a.event_shape.ndims - ours.event_shape.ndims), 0))
    return tf.reduce_sum(tf.distributions.kl_divergence(ours, theirs, name=name), axis=axes)


@public("contrib.distributions.Autoregressive")
class Autoregressive(Distribution):
    """A distribution of vectors each element of which depends on those before it.

    Args:
        distribution_fn: what gives the distribution for a vector; element ``i`` of it must depend on those before only.
        sample0: the vector to begin with; ``distribution_fn()`` begins if None.
        num_steps: how often a sample is made again; once for each element if None.
        validate_args: whether arguments are checked when they are used.
        allow_nan_stats: whether a statistic that is not defined is NaN and not an error.
        name: name of the scope of its ops.
    """

    def __init__(
        self,
        distribution_fn: Callable[..., Distribution],
        sample0: Any = None,
        num_steps: int | None = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Autoregressive",
    ) -> None:
        parameters = dict(locals())
        self._distribution_fn, self._sample0 = distribution_fn, sample0
        self._distribution0 = distribution_fn() if sample0 is None else distribution_fn(sample0)
        steps = self._distribution0.event_shape.num_elements() if num_steps is None else num_steps
        if steps is None:
            raise ValueError(
                "distribution_fn must generate a distribution with fully known `event_shape`.\n"
                + errors.message("outcomes of unknown shape", "a known shape, or a number of steps", "num_steps=n")
            )
        if steps < 1:
            raise ValueError(
                f"num_steps ({steps}) must be at least 1.\n"
                + errors.message(f"num_steps={steps}", "a number above 0", "num_steps=1")
            )
        self._num_steps = steps
        super().__init__(
            self._distribution0.dtype,
            self._distribution0.reparameterization_type,
            validate_args,
            allow_nan_stats,
            parameters,
            self._distribution0._graph_parents,
            name,
        )

    @property
    def distribution_fn(self) -> Any:
        """What gives the distribution for a vector."""
        return self._distribution_fn

    @property
    def sample0(self) -> Any:
        """The vector to begin with, or None."""
        return self._sample0

    @property
    def num_steps(self) -> int:
        """How often a sample is made again."""
        return self._num_steps

    @property
    def distribution0(self) -> Distribution:
        """The distribution to begin with."""
        return self._distribution0

    def _batch(self) -> Any:
        return self._distribution0._batch()

    def _event(self) -> Any:
        return self._distribution0._event()

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        if seed is None:
            seed = new_seed(np.random.randint(2**31 - 1), "autoregressive")
        samples = self._distribution0.sample(n, seed=seed)
        for _ in range(self._num_steps):
            samples = self._distribution_fn(samples).sample(seed=seed)
        return samples

    def _log_prob(self, value: Any) -> Any:
        return self._distribution_fn(value).log_prob(value)

    def _prob(self, value: Any) -> Any:
        return self._distribution_fn(value).prob(value)


@public("contrib.distributions.BatchReshape")
class BatchReshape(Distribution):
    """A batch of distributions in another shape.

    Args:
        distribution: the batch.
        batch_shape: its new shape; one size may be -1.
        validate_args: whether arguments are checked when they are used.
        allow_nan_stats: whether a statistic that is not defined is NaN and not an error.
        name: name of the scope of its ops.
    """

    def __init__(
        self,
        distribution: Distribution,
        batch_shape: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str | None = None,
    ) -> None:
        parameters = dict(locals())
        self._inner = distribution
        given = batch_shape.as_list() if isinstance(batch_shape, tf.TensorShape) else batch_shape
        self._wanted = tf.convert_to_tensor(given, tf.int32, name="batch_shape")
        if self._wanted.shape.ndims not in (None, 1):
            raise ValueError(
                f"`batch_shape` must be a vector (saw rank: {self._wanted.shape.ndims}).\n"
                + errors.message(f"batch_shape of shape {self._wanted.shape}", "a vector of sizes", "batch_shape=[-1]")
            )
        self._checks: list[Any] = []
        known = tf.contrib.util.constant_value(self._wanted)
        old = distribution.batch_shape
        sizes = None if known is None else [int(size) for size in known]
        if sizes is not None:
            if any(size < 1 and size != -1 for size in sizes):
                raise self._refused("`batch_shape` elements must be >=-1.", sizes)
            if sizes.count(-1) > 1:
                raise self._refused("At most one dimension can be unknown.", sizes)
            if old.is_fully_defined():
                count = int(np.prod([size for size in sizes if size != -1]))
                total = int(old.num_elements() or 0)
                if (total % count if -1 in sizes and count else total != count) or (-1 in sizes and not count):
                    text = f"`batch_shape` size ({count}) must match `distribution.batch_shape` size ({total})."
                    raise self._refused(text, sizes)
                sizes = [total // count if size == -1 else size for size in sizes]
        elif validate_args:
            one = tf.assert_less_equal(
                tf.reduce_sum(tf.cast(self._wanted < 0, tf.int32)),
                1,
                message="At most one dimension can be unknown.",
            )
            positive = tf.assert_positive(tf.abs(self._wanted), message="Shape elements must be >=-1.")
            self._checks = [one, positive]
        self._raw = (
            None
            if self._wanted.shape.ndims is None or sizes is None
            else tuple(None if size == -1 else size for size in sizes)
        )
        if self._raw is None and self._wanted.shape.is_fully_defined():
            self._raw = (None,) * self._wanted.shape.as_list()[0]
        super().__init__(
            distribution.dtype,
            distribution.reparameterization_type,
            validate_args,
            allow_nan_stats,
            parameters,
            [self._wanted, *distribution._graph_parents],
            name or f"BatchReshape{distribution.name}",
        )

    def _refused(self, text: str, sizes: list[int]) -> ValueError:
        return ValueError(
            f"{text}\n"
            + errors.message(
                f"batch_shape={sizes} for a batch of shape {self._inner.batch_shape}",
                "sizes with the same product, one of them -1 at most",
                "batch_shape=[-1]",
            )
        )

    @property
    def distribution(self) -> Distribution:
        """The batch in its own shape."""
        return self._inner

    def _batch(self) -> Any:
        if self._raw is not None and None not in self._raw:
            return self._raw, list(self._raw)
        total = tf.reduce_prod(self._inner.batch_shape_tensor())
        free = tf.equal(self._wanted, -1)
        rest = tf.reduce_prod(tf.where(free, tf.ones_like(self._wanted), self._wanted))
        with tf.control_dependencies(self._checks):
            dynamic = tf.where(free, tf.fill(tf.shape(self._wanted), total // tf.maximum(rest, 1)), self._wanted)
        if self._validate_args:
            fits = tf.assert_equal(tf.reduce_prod(dynamic), total, message="Shape sizes do not match.")
            with tf.control_dependencies([fits]):
                dynamic = tf.identity(dynamic)
        return self._raw, dynamic

    def _event(self) -> Any:
        return self._inner._event()

    def _shapes(self) -> tuple[Any, Any, Any]:
        """The old and the new shape of the batch, and the shape of an outcome, as vectors."""
        parts = (self._inner.batch_shape_tensor(), self._batch()[1], self._event()[1])
        old, new, event = (tf.convert_to_tensor(part, tf.int32) for part in parts)
        return old, new, event

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        _, new, event = self._shapes()
        lead = tf.reshape(tf.convert_to_tensor(n, tf.int32), [1])
        return tf.reshape(self._inner.sample(n, seed=seed), tf.concat([lead, new, event], 0))

    def _at(self, what: str, x: Any) -> Any:
        """A function of an outcome for each distribution of the batch."""
        old, new, event = self._shapes()
        ndims = tf.size(new) + tf.size(event)
        if self._raw is not None and x.shape.ndims is not None and self.event_shape.ndims is not None:
            tail = x.shape.as_list()[max(0, x.shape.ndims - len(self._raw) - self.event_shape.ndims) :]
            wanted = [*self._raw, *self.event_shape.as_list()]
            if len(tail) != len(wanted) or any(
                None not in (one, other) and one != other for one, other in zip(tail, wanted, strict=True)
            ):
                raise NotImplementedError(
                    "Broadcasting is not supported; unexpected batch and event shape\n"
                    + errors.message(
                        f"a value of shape {x.shape}",
                        f"a value of shape [..., {wanted}]",
                        "tf.broadcast_to(value, shape)",
                    )
                )
        lead = tf.shape(x)[: tf.rank(x) - ndims]
        result = getattr(self._inner, what)(tf.reshape(x, tf.concat([lead, old, event], 0)))
        result = tf.reshape(result, tf.concat([lead, new], 0))
        if x.shape.ndims is not None and self._raw is not None and self.event_shape.ndims is not None:
            samples = x.shape.as_list()[: x.shape.ndims - len(self._raw) - self.event_shape.ndims]
            result.set_shape([*samples, *self._raw])
        return result

    def _of(self, what: str, *tail: Any) -> Any:
        """A statistic of each distribution of the batch."""
        _, new, _ = self._shapes()
        result = tf.reshape(getattr(self._inner, what)(), tf.concat([new, *tail], 0))
        if self._raw is not None and self.event_shape.is_fully_defined():
            result.set_shape([*self._raw, *(self.event_shape.as_list() * len(tail))])
        return result

    def _log_prob(self, x: Any) -> Any:
        return self._at("log_prob", x)

    def _prob(self, x: Any) -> Any:
        return self._at("prob", x)

    def _log_cdf(self, x: Any) -> Any:
        return self._at("log_cdf", x)

    def _cdf(self, x: Any) -> Any:
        return self._at("cdf", x)

    def _log_survival_function(self, x: Any) -> Any:
        return self._at("log_survival_function", x)

    def _survival_function(self, x: Any) -> Any:
        return self._at("survival_function", x)

    def _entropy(self) -> Any:
        return self._of("entropy")

    def _mean(self) -> Any:
        return self._of("mean", self._shapes()[2])

    def _mode(self) -> Any:
        return self._of("mode", self._shapes()[2])

    def _stddev(self) -> Any:
        return self._of("stddev", self._shapes()[2])

    def _variance(self) -> Any:
        return self._of("variance", self._shapes()[2])

    def _covariance(self) -> Any:
        event = self._shapes()[2]
        return self._of("covariance", event, event)


def _log_difference(larger: Any, smaller: Any) -> Any:
    """``log(exp(larger) - exp(smaller))``."""
    gap = larger - smaller
    return larger + tf.where(gap < np.log(2.0), tf.log(-tf.expm1(-gap)), tf.log1p(-tf.exp(-gap)))


@public("contrib.distributions.QuantizedDistribution")
class QuantizedDistribution(Distribution):
    """Numbers of a distribution rounded up to whole ones, and kept between two bounds.

    Args:
        distribution: of scalars.
        low: the least outcome; none if None.
        high: the greatest outcome; none if None.
        validate_args: whether values are checked to be whole.
        name: name of the scope of its ops.
    """

    def __init__(
        self,
        distribution: Distribution,
        low: Any = None,
        high: Any = None,
        validate_args: bool = False,
        name: str = "QuantizedDistribution",
    ) -> None:
        parameters = dict(locals())
        self._inner = distribution
        self._low = None if low is None else tf.convert_to_tensor(low, distribution.dtype, name="low")
        self._high = None if high is None else tf.convert_to_tensor(high, distribution.dtype, name="high")
        if validate_args:
            self._low, self._high = (self._whole(bound, "bound") for bound in (self._low, self._high))
            if self._low is not None and self._high is not None:
                ordered = tf.assert_less(self._low, self._high, message="low must be strictly less than high")
                with tf.control_dependencies([ordered]):
                    self._high = tf.identity(self._high)
        super().__init__(
            distribution.dtype,
            tf.distributions.NOT_REPARAMETERIZED,
            validate_args,
            distribution.allow_nan_stats,
            parameters,
            distribution._graph_parents,
            name,
        )

    @staticmethod
    def _whole(x: Any, name: str) -> Any:
        if x is None:
            return None
        check = tf.assert_equal(x, tf.floor(x), message=f"{name} has non-integer components.")
        with tf.control_dependencies([check]):
            return tf.identity(x)

    @property
    def distribution(self) -> Distribution:
        """Of the numbers before they are rounded."""
        return self._inner

    def _batch(self) -> Any:
        return self._inner._batch()

    def _event(self) -> Any:
        return self._inner._event()

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        x = tf.ceil(self._inner.sample(n, seed=seed))
        if self._low is not None:
            x = tf.maximum(x, self._low)
        return x if self._high is None else tf.minimum(x, self._high)

    def _bounded(self, what: str, rounded: Any, below: float, above: float) -> Any:
        """A function of the rounded value, with the values that it has beyond the bounds."""
        value = getattr(self._inner, what)(rounded)
        rounded += tf.zeros_like(value)
        if self._low is not None:
            value = tf.where(rounded < self._low, tf.fill(tf.shape(value), tf.constant(below, value.dtype)), value)
        if self._high is not None:
            value = tf.where(rounded >= self._high, tf.fill(tf.shape(value), tf.constant(above, value.dtype)), value)
        return value

    def _cdf(self, y: Any) -> Any:
        return self._bounded("cdf", tf.floor(y), 0.0, 1.0)

    def _log_cdf(self, y: Any) -> Any:
        return self._bounded("log_cdf", tf.floor(y), -np.inf, 0.0)

    def _survival_function(self, y: Any) -> Any:
        return self._bounded("survival_function", tf.ceil(y), 1.0, 0.0)

    def _log_survival_function(self, y: Any) -> Any:
        return self._bounded("log_survival_function", tf.ceil(y), 0.0, -np.inf)

    def _checked(self, y: Any) -> Any:
        return self._whole(y, "value") if self._validate_args else y

    def _prob(self, y: Any) -> Any:
        y = self._checked(y)
        above, below = self._survival_function(y), self._cdf(y)
        from_above = self._survival_function(y - 1) - above
        return tf.where(above < below, from_above, below - self._cdf(y - 1))

    def _log_prob(self, y: Any) -> Any:
        y = self._checked(y)
        above, below = self._log_survival_function(y), self._log_cdf(y)
        upper = above < below  # the tail that is smaller has more digits
        larger = tf.where(upper, self._log_survival_function(y - 1), below)
        return _log_difference(larger, tf.where(upper, above, self._log_cdf(y - 1)))
