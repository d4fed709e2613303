"""Points, mixtures of distributions, and classes that are almost chosen (the Concrete distribution)."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.contrib.distributions.bijectors import Exp, Sigmoid
from anabranch.contrib.distributions.families import Logistic
from anabranch.contrib.distributions.parameters import keep_parameters
from anabranch.contrib.distributions.transformed import TransformedDistribution
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.random_seed import count_more
from anabranch.distributions import checks
from anabranch.distributions.base import (
    FULLY_REPARAMETERIZED,
    NOT_REPARAMETERIZED,
    Distribution,
    broadcast_shape,
    floats,
    new_seed,
    vector,
)
from anabranch.distributions.checks import checked
from anabranch.distributions.counted import Categorical, logits_and_probs


def _count(n: Any) -> Any:
    return [n] if isinstance(n, int) else tf.expand_dims(n, 0)


@public("contrib.distributions.SeedStream")
class SeedStream:
    """Seeds for the parts of a computation: calls give different numbers that depend on the first seed and ``salt``.

    Args:
        seed: an int, None (each call gives None) or another stream, whose first seed is taken.
        salt: text, different in each place that is given the same seed.
    """

    def __init__(self, seed: Any, salt: str) -> None:
        self._seed = seed.original_seed if isinstance(seed, SeedStream) else seed
        self._salt, self._counter = salt, 0

    def __call__(self) -> int | None:
        """The next seed."""
        self._counter += 1
        if self._seed is None:
            return None
        text = str((self._seed, self._counter, self._salt)).encode()
        return int(hashlib.sha512(text).hexdigest(), 16)

    @property
    def original_seed(self) -> int | None:
        """The first seed."""
        return self._seed

    @property
    def salt(self) -> str:
        """The salt."""
        return self._salt


# -------------------------------------------------------------------------------------------------------------- points
class _Point(Distribution):
    _event_ndims = 0

    def __init__(
        self,
        loc: Any,
        atol: Any = None,
        rtol: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "",
    ) -> None:
        parameters = dict(locals())
        parameters.pop("__class__", None)
        with tf.name_scope(name, values=[loc, atol, rtol]):
            self._loc = tf.convert_to_tensor(loc, name="loc")
            kind = self._loc.dtype.base_dtype
            self._atol = tf.convert_to_tensor(0 if atol is None else atol, kind, name="atol")
            self._rtol = tf.convert_to_tensor(0 if rtol is None else rtol, kind, name="rtol")
            for tolerance in (self._atol, self._rtol):
                self._loc = checked(
                    self._loc, validate_args, checks.not_negative(tolerance, "Argument 'tol' must be non-negative")
                )
            self._slack = self._atol if rtol is None else self._atol + self._rtol * tf.abs(self._loc)
        super().__init__(
            kind, FULLY_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, [self._loc, self._slack], name
        )

    @property
    def loc(self) -> Any:
        """The point."""
        return self._loc

    @property
    def atol(self) -> Any:
        """How far a value may be from the point to count as it."""
        return self._atol

    @property
    def rtol(self) -> Any:
        """How far it may be besides, in sizes of the point."""
        return self._rtol

    def _parts(self, event: bool) -> Any:
        raw, dynamic = broadcast_shape(self._loc)
        cut = (None if raw is None else len(raw) - self._event_ndims) if raw is not None else None
        place = slice(-self._event_ndims, None) if event else slice(None, -self._event_ndims or None)
        if event and not self._event_ndims:
            return (), []
        if raw is None or cut is None:
            return None, tf.shape(self._loc)[place]
        return (raw[cut:] if event else raw[:cut]), dynamic[place]

    def _batch(self) -> Any:
        return self._parts(False)

    def _event(self) -> Any:
        return self._parts(True)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        return tf.broadcast_to(self._loc, vector(_count(n), broadcast_shape(self._loc)[1]))

    def _mean(self) -> Any:
        return tf.identity(self._loc)

    def _mode(self) -> Any:
        return self._mean()

    def _variance(self) -> Any:
        return tf.zeros_like(self._loc)

    def _near(self, x: Any) -> Any:
        return tf.less_equal(tf.abs(x - self._loc), self._slack)


@public("contrib.distributions.Deterministic")
class Deterministic(_Point):
    """Always ``loc``: values within ``atol + rtol * abs(loc)`` of it have probability 1."""

    def __init__(
        self,
        loc: Any,
        atol: Any = None,
        rtol: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "Deterministic",
    ) -> None:
        super().__init__(loc, atol, rtol, validate_args, allow_nan_stats, name)

    def _prob(self, x: Any) -> Any:
        return tf.cast(self._near(x), self._dtype)

    def _cdf(self, x: Any) -> Any:
        return tf.cast(tf.greater_equal(x, self._loc - self._slack), self._dtype)

    def _entropy(self) -> Any:
        return tf.zeros_like(self._loc)


@public("contrib.distributions.VectorDeterministic")
class VectorDeterministic(_Point):
    """Always the vector ``loc``: vectors within ``atol + rtol * abs(loc)`` of it have probability 1."""

    _event_ndims = 1

    def __init__(
        self,
        loc: Any,
        atol: Any = None,
        rtol: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "VectorDeterministic",
    ) -> None:
        super().__init__(loc, atol, rtol, validate_args, allow_nan_stats, name)

    def _prob(self, x: Any) -> Any:
        return tf.cast(tf.reduce_all(self._near(x), -1), self._dtype)

    def _entropy(self) -> Any:
        return tf.zeros_like(self._loc[..., 0])


# ------------------------------------------------------------------------------------------------------------ mixtures
class _Mixed(Distribution):
    """What mixtures share. The components' axis of what `_each` gives is -1 behind the batch, before the event."""

    _event_ndims = 0

    def _weights(self) -> Any:
        """Logarithms of the weights ``[*batch, components]``."""
        raise NotImplementedError

    def _each(self, method: str, *values: Any) -> Any:
        """A statistic of each component, with the components' axis before the event."""
        raise NotImplementedError

    def _log_prob(self, x: Any) -> Any:
        return tf.reduce_logsumexp(self._each("log_prob", x) + self._weights(), -1)

    def _cdf(self, x: Any) -> Any:
        return tf.reduce_sum(self._each("cdf", x) * tf.exp(self._weights()), -1)

    def _over_events(self, weights: Any) -> Any:
        for _ in range(self._event_ndims):
            weights = weights[..., tf.newaxis]
        return weights

    def _averaged(self, values: Any) -> Any:
        return tf.reduce_sum(values * self._over_events(tf.exp(self._weights())), -1 - self._event_ndims)

    def _mean(self) -> Any:
        return self._averaged(self._each("mean"))

    def _variance(self) -> Any:
        means = self._each("mean")
        squares = self._averaged(tf.square(means)) - tf.square(self._averaged(means))
        return self._averaged(self._each("variance")) + squares


@public("contrib.distributions.Mixture")
class Mixture(_Mixed):
    """One of several distributions, by the classes of another.

    Args:
        cat: a ``Categorical`` over the components, of their batch shape.
        components: distributions of one dtype, batch shape and event shape.
        validate_args: has no effect of its own.
        allow_nan_stats: whether a statistic that is not defined is NaN and not an error.
        use_static_graph: taken for TensorFlow's sake: all components are drawn from in any case.
        name: name of the scope of its ops.

    Raises:
        TypeError: ``cat`` is not a Categorical, or a component is not a distribution of the others' dtype.
        ValueError: there are no components, or their number is not that of the classes.
    """

    def __init__(
        self,
        cat: Any,
        components: Sequence[Any],
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        use_static_graph: bool = False,
        name: str = "Mixture",
    ) -> None:
        parameters = dict(locals())
        if not isinstance(cat, Categorical):
            raise TypeError(
                f"cat must be a Categorical distribution, but saw: {cat}\n"
                + errors.message(
                    f"a {type(cat).__name__}", "a Categorical", "tf.distributions.Categorical(probs=[...])"
                )
            )
        if not components:
            raise ValueError(
                "components must be a non-empty list or tuple\n"
                + errors.message("no components", "a list of distributions", "components=[a, b]")
            )
        if not all(isinstance(one, Distribution) for one in components):
            raise TypeError(
                f"all entries in components must be Distribution instances but saw: {components}\n"
                + errors.message("other things", "distributions", "tf.distributions.Normal(0.0, 1.0)")
            )
        if any(one.dtype != components[0].dtype for one in components):
            raise TypeError(
                "All components must have the same dtype\n"
                + errors.message(f"{[one.dtype.name for one in components]}", "one dtype", "tf.cast of parameters")
            )
        size = cat.logits.shape[-1:].as_list()[0]
        if size is not None and size != len(components):
            raise ValueError(
                f"cat.num_classes ({size}) must be the number of components ({len(components)})\n"
                + errors.message(f"{size} classes", f"{len(components)} classes", "one probability a component")
            )
        self._cat, self._components = cat, list(components)
        self._event_ndims = components[0].event_shape.ndims or 0
        parents = [parent for one in (cat, *components) for parent in one._graph_parents]
        super().__init__(
            components[0].dtype, NOT_REPARAMETERIZED, validate_args, allow_nan_stats, parameters, parents, name
        )

    @property
    def cat(self) -> Any:
        """The distribution of classes."""
        return self._cat

    @property
    def components(self) -> list[Any]:
        """The components."""
        return self._components

    @property
    def num_components(self) -> int:
        """How many there are."""
        return len(self._components)

    def _weights(self) -> Any:
        return tf.nn.log_softmax(self._cat.logits)

    def _each(self, method: str, *values: Any) -> Any:
        parts = [getattr(one, method)(*values) for one in self._components]
        return tf.stack(parts, axis=-1 if values else -1 - self._event_ndims)

    def _batch(self) -> Any:
        return self._components[0]._batch()

    def _event(self) -> Any:
        return self._components[0]._event()

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        classes = self._cat._sample_n(n, new_seed(seed, "mixture"))
        drawn = [one._sample_n(n, new_seed(seed, f"component {number}")) for number, one in enumerate(self._components)]
        chosen = tf.one_hot(classes, len(drawn), dtype=tf.bool, on_value=True, off_value=False)
        values = tf.stack(drawn, axis=-1 - self._event_ndims)
        kept = tf.where_v2(self._over_events(chosen), values, tf.zeros_like(values))
        return tf.reduce_sum(kept, -1 - self._event_ndims)

    def entropy_lower_bound(self, name: str = "entropy_lower_bound") -> Any:
        """The mean of the components' entropies, which that of the mixture is not below (by Jensen's inequality)."""
        with self._scope(name):
            entropies = tf.stack([one.entropy() for one in self._components], -1)
            return tf.reduce_sum(entropies * tf.exp(self._weights()), -1)


@public("contrib.distributions.MixtureSameFamily")
class MixtureSameFamily(_Mixed):
    """One of the last batch dimension of a distribution, by the classes of another.

    Args:
        mixture_distribution: a ``Categorical``, of one batch, or of the components' batch without its last dimension.
        components_distribution: a distribution whose last batch dimension are the components.
        validate_args: has no effect of its own.
        allow_nan_stats: whether a statistic that is not defined is NaN and not an error.
        name: name of the scope of its ops.

    Raises:
        ValueError: the classes are of another number than the components.
    """

    def __init__(
        self,
        mixture_distribution: Any,
        components_distribution: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MixtureSameFamily",
    ) -> None:
        parameters = dict(locals())
        self._chooser, self._of = mixture_distribution, components_distribution
        self._event_ndims = components_distribution.event_shape.ndims or 0
        classes = mixture_distribution.logits.shape[-1:].as_list()
        sizes = components_distribution.batch_shape[-1:].as_list()
        if classes and sizes and None not in (*classes, *sizes) and classes != sizes:
            raise ValueError(
                f"`mixture_distribution` components ({classes[0]}) does not equal "
                f"`components_distribution.batch_shape[-1]` ({sizes[0]})\n"
                + errors.message(f"{classes[0]} classes", f"{sizes[0]} classes", "one probability a component")
            )
        super().__init__(
            components_distribution.dtype,
            NOT_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            parameters,
            [*mixture_distribution._graph_parents, *components_distribution._graph_parents],
            name,
        )
        self._known = mixture_distribution.logits.shape.is_fully_defined()
        count_more(1 if self._known else -4)  # sizes of the classes

    @property
    def mixture_distribution(self) -> Any:
        """The distribution of classes."""
        return self._chooser

    @property
    def components_distribution(self) -> Any:
        """The components."""
        return self._of

    def _weights(self) -> Any:
        return tf.nn.log_softmax(self._chooser.logits)

    def _each(self, method: str, *values: Any) -> Any:
        spread = [tf.expand_dims(value, -1 - self._event_ndims) for value in values]
        return getattr(self._of, method)(*spread)

    def _batch(self) -> Any:
        raw, dynamic = self._of._batch()
        return (None if raw is None else raw[:-1]), dynamic[:-1]

    def _covariance(self) -> Any:
        """Of vectors: the components' covariances, and that of their means."""
        shares = tf.exp(self._weights())[..., None, None]
        apart = self._of.mean() - tf.expand_dims(self.mean(), -2)
        return tf.reduce_sum(shares * (self._of.covariance() + apart[..., :, None] * apart[..., None, :]), -3)

    def _event(self) -> Any:
        return self._of._event()

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        count_more(2)  # the sample of another distribution
        values = self._of._sample_n(n, new_seed(seed, "components"))
        count_more(10 if self._known else 1)  # its shape, and that of the classes
        raw, dynamic = self._batch()
        classes = self._chooser._sample_n(n, new_seed(seed, "mixture"))
        if self._chooser.batch_shape.ndims == 0 and (raw is None or raw):
            # One distribution of classes for all of the batch: each member draws its own.
            shape = vector(_count(n), dynamic)
            classes = tf.reshape(self._chooser.sample(shape, new_seed(seed, "mixture")), shape)
        size = tf.shape(self._chooser.logits)[-1]
        chosen = tf.one_hot(classes, size, dtype=tf.bool, on_value=True, off_value=False)
        count_more(25 if self._known else 20)  # as many axes as events have
        kept = tf.where_v2(self._over_events(chosen), values, tf.zeros_like(values))
        return tf.reduce_sum(kept, -1 - self._event_ndims)


# ------------------------------------------------------------------------------------------------------ almost classes
@public("contrib.distributions.RelaxedBernoulli")
class RelaxedBernoulli(TransformedDistribution):
    """Numbers between 0 and 1, near to either the lower the temperature (Maddison et al., 2017; Jang et al., 2017).

    Args:
        temperature: above 0.
        logits: log-odds of 1.
        probs: the probability of 1, in place of ``logits``.
        validate_args: whether arguments are checked when the distribution is used.
        allow_nan_stats: whether a statistic that is not defined is NaN and not an error.
        name: name of the scope of its ops.
    """

    def __init__(
        self,
        temperature: Any,
        logits: Any = None,
        probs: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "RelaxedBernoulli",
    ) -> None:
        parameters = dict(locals())
        parameters.pop("__class__", None)
        with tf.name_scope(name, values=[temperature, logits, probs]):
            self._logits, self._probs = logits_and_probs(logits, probs, False, validate_args, name)
            given = tf.convert_to_tensor(temperature, self._logits.dtype.base_dtype, name="temperature")
            self._temperature = checked(given, validate_args, checks.positive(given, "temperature must be positive"))
            numbers = Logistic(
                self._logits / self._temperature,
                1.0 / self._temperature,
                validate_args,
                allow_nan_stats,
                name=f"{name}/Logistic",
            )
        super().__init__(numbers, Sigmoid(), validate_args=validate_args, name=name)
        keep_parameters(self, parameters)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self._temperature

    @property
    def logits(self) -> Any:
        """Log-odds."""
        return self._logits

    @property
    def probs(self) -> Any:
        """The probability of 1 at temperature 0."""
        return self._probs


@public("contrib.distributions.ExpRelaxedOneHotCategorical")
class ExpRelaxedOneHotCategorical(Distribution):
    """The logarithms of :class:`RelaxedOneHotCategorical`'s vectors, which do not underflow.

    Args:
        temperature: above 0.
        logits: log-probabilities ``[..., classes]``, which need no normalisation.
        probs: probabilities, in place of ``logits``.
        dtype: of samples; that of the parameters if None.
        validate_args: whether arguments are checked when the distribution is used.
        allow_nan_stats: whether a statistic that is not defined is NaN and not an error.
        name: name of the scope of its ops.
    """

    def __init__(
        self,
        temperature: Any,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "ExpRelaxedOneHotCategorical",
    ) -> None:
        parameters = dict(locals())
        parameters.pop("__class__", None)
        with tf.name_scope(name, values=[temperature, logits, probs]):
            given = floats(name, dtype, **({"logits": logits} if probs is None else {"probs": probs}))
            self._logits, self._probs = logits_and_probs(
                given.get("logits"), given.get("probs"), True, validate_args, name
            )
            given = tf.convert_to_tensor(temperature, self._logits.dtype.base_dtype, name="temperature")
            self._temperature = checked(given, validate_args, checks.positive(given, "temperature must be positive"))
            count_more(9 if probs is None else 6)  # numbers of axes and classes
        super().__init__(
            self._logits.dtype.base_dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            parameters,
            [self._logits, self._probs, self._temperature],
            name,
        )

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self._temperature

    @property
    def logits(self) -> Any:
        """Log-probabilities."""
        return self._logits

    @property
    def probs(self) -> Any:
        """Probabilities at temperature 0."""
        return self._probs

    @property
    def event_size(self) -> Any:
        """The number of classes."""
        raw = self._logits._shape
        known = None if raw is None else raw[-1]
        return tf.shape(self._logits)[-1] if known is None else tf.constant(known, tf.int32)

    def _batch(self) -> Any:
        raw = self._logits._shape
        return (None if raw is None else raw[:-1]), vector(broadcast_shape(self._logits)[1][:-1])

    def _event(self) -> Any:
        raw = self._logits._shape
        return ((None,) if raw is None else raw[-1:]), vector(broadcast_shape(self._logits)[1][-1:])

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        shape = vector(_count(n), broadcast_shape(self._logits)[1])
        count_more(10 if self._logits.shape.is_fully_defined() else 5)  # logits spread over the batch
        uniform = tf.random_uniform(shape, float(np.finfo(self._dtype.np).tiny), 1.0, self._dtype, seed)
        count_more(-3)
        gumbel = -tf.log(-tf.log(uniform))
        return tf.nn.log_softmax((gumbel + self._logits) / self._temperature[..., tf.newaxis])

    def _log_prob(self, x: Any) -> Any:
        size = tf.cast(tf.shape(self._logits)[-1], self._dtype)
        temperature = self._temperature
        constant = tf.lgamma(size) + (size - 1.0) * tf.log(temperature)
        weights = tf.nn.log_softmax(self._logits - x * temperature[..., tf.newaxis])
        return tf.reduce_sum(weights, -1) + constant


@public("contrib.distributions.RelaxedOneHotCategorical")
class RelaxedOneHotCategorical(TransformedDistribution):
    """Vectors of positive numbers with sum 1, near to one class the lower the temperature.

    Args are those of :class:`ExpRelaxedOneHotCategorical`, whose exponential it is.
    """

    def __init__(
        self,
        temperature: Any,
        logits: Any = None,
        probs: Any = None,
        dtype: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "RelaxedOneHotCategorical",
    ) -> None:
        parameters = dict(locals())
        parameters.pop("__class__", None)
        numbers = ExpRelaxedOneHotCategorical(temperature, logits, probs, dtype, validate_args, allow_nan_stats)
        super().__init__(numbers, Exp(validate_args=validate_args), validate_args=validate_args, name=name)
        keep_parameters(self, parameters)

    @property
    def temperature(self) -> Any:
        """The temperature."""
        return self._of.temperature  # type: ignore[attr-defined]

    @property
    def logits(self) -> Any:
        """Log-probabilities."""
        return self._of.logits  # type: ignore[attr-defined]

    @property
    def probs(self) -> Any:
        """Probabilities at temperature 0."""
        return self._of.probs  # type: ignore[attr-defined]

    @property
    def event_size(self) -> Any:
        """The number of classes."""
        return self._of.event_size  # type: ignore[attr-defined]
