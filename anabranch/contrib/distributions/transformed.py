"""``TransformedDistribution``: what a bijector makes of a distribution."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.distributions.bijectors import Bijector, Identity
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.random_seed import count_more
from anabranch.core.graph.static_value import constant_value_as_shape
from anabranch.distributions.base import Distribution


class _Repeated(Distribution):
    """Independent numbers of a distribution as a batch of distributions, or as the elements of an outcome."""

    def __init__(self, distribution: Distribution, batch_shape: Any, event_shape: Any) -> None:
        self._base = distribution
        self._shapes = {"batch": _override(batch_shape), "event": _override(event_shape)}
        for what, given in self._shapes.items():
            own = getattr(distribution, f"{what}_shape")
            if given is not None and own.ndims not in (None, 0):
                raise ValueError(
                    f"base distribution not scalar: {what}_shape override of a distribution of {what} shape {own}\n"
                    + errors.message(
                        f"{what}_shape={given[0]} for a distribution of {what} shape {own}",
                        "a distribution of scalars where a shape is given",
                        "tf.distributions.Normal(0.0, 1.0)",
                    )
                )
        super().__init__(
            distribution.dtype,
            distribution.reparameterization_type,
            distribution.validate_args,
            distribution.allow_nan_stats,
            name=distribution.name,
        )

    def _shape(self, what: str) -> Any:
        given = self._shapes[what]
        return getattr(self._base, f"_{what}")() if given is None else given

    def _batch(self) -> Any:
        return self._shape("batch")

    def _event(self) -> Any:
        return self._shape("event")

    def _turned(self, x: Any, back: bool) -> Any:
        """``x`` with the axes of its outcome first, or put back to its end."""
        ndims = len(self._event()[0] or ())
        order = tf.range(tf.rank(x))
        parts = [order[ndims:], order[:ndims]] if back else [order[-ndims:], order[:-ndims]]
        return tf.transpose(x, tf.concat(parts, 0))

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        lead = [tf.reshape(tf.convert_to_tensor(n, tf.int32), [1])]
        lead += [tf.convert_to_tensor(given[1], tf.int32) for given in self._shapes.values() if given is not None]
        samples = self._base.sample(tf.concat(lead, 0), seed=seed)
        event, batch = self._shapes["event"], self._base.batch_shape.ndims
        if event is None or batch == 0:
            return samples
        ndims, order = len(event[0]), tf.range(tf.rank(samples))
        return tf.transpose(samples, tf.concat([order[:1], order[1 + ndims :], order[1 : 1 + ndims]], 0))

    def _log_prob(self, x: Any) -> Any:
        event = self._shapes["event"]
        if event is None:
            return self._base.log_prob(x)
        ndims = len(event[0])
        if self._base.batch_shape.ndims == 0:
            return tf.reduce_sum(self._base.log_prob(x), list(range(-ndims, 0)))
        return tf.reduce_sum(self._base.log_prob(self._turned(x, False)), list(range(ndims)))

    def _elements(self, value: Any) -> Any:
        """A statistic of the distribution for each element of the batch and of the outcome."""
        event, own = self._shapes["event"], len(self._base.event_shape.as_list())
        if event is not None:
            value = tf.reshape(value, tf.concat([tf.shape(value), tf.ones([len(event[0]) - own], tf.int32)], 0))
        shape = tf.concat([self.batch_shape_tensor(), self.event_shape_tensor()], 0)
        return value + tf.zeros(shape, value.dtype)

    def _mean(self) -> Any:
        return self._elements(self._base.mean())

    def _entropy(self) -> Any:
        entropy = self._base.entropy()
        if self._shapes["event"] is not None:
            entropy *= tf.cast(tf.reduce_prod(self.event_shape_tensor()), entropy.dtype)
        return entropy + tf.zeros(self.batch_shape_tensor(), entropy.dtype)

    def _cdf(self, x: Any) -> Any:
        return self._whole("cdf")(x)

    def _quantile(self, p: Any) -> Any:
        return self._whole("quantile")(p)

    def _whole(self, what: str) -> Any:
        if self._shapes["event"] is not None:
            raise NotImplementedError(
                f"{what} is not implemented when overriding event_shape\n"
                + errors.message(f"the {what} of outcomes of many numbers", "log_prob, or samples", "log_prob(value)")
            )
        return getattr(self._base, what)


def _override(shape: Any) -> Any:
    """What is known of a shape that is given, and the shape as a value; None if none is given."""
    if shape is None:
        return None
    given = shape.as_list() if isinstance(shape, tf.TensorShape) else shape
    tensor = tf.convert_to_tensor(given, tf.int32)
    known = constant_value_as_shape(tensor)
    if known.ndims is None:
        raise NotImplementedError(
            errors.message("a shape of unknown rank", "a shape of known rank", "shape.set_shape([n])")
        )
    raw = tuple(known.as_list())
    return raw, list(raw) if None not in raw else tensor


@public("contrib.distributions.TransformedDistribution")
class TransformedDistribution(Distribution):
    """The function of a random number.

    Args:
        distribution: of the number.
        bijector: the function; the identity if None.
        batch_shape: of a batch of independent numbers of one distribution, which has none of its own then.
        event_shape: of outcomes that are independent numbers of one distribution, whose own are scalars then.
        validate_args: has no effect of its own.
        name: name of the scope of its ops.
    """

    def __init__(
        self,
        distribution: Distribution,
        bijector: Bijector | None = None,
        batch_shape: Any = None,
        event_shape: Any = None,
        validate_args: bool = False,
        name: str | None = None,
    ) -> None:
        parameters = dict(locals())
        self._given, self._bijector = distribution, Identity() if bijector is None else bijector
        repeated = batch_shape is not None or event_shape is not None
        self._of = _Repeated(distribution, batch_shape, event_shape) if repeated else distribution
        super().__init__(
            distribution.dtype,
            distribution.reparameterization_type,
            validate_args,
            distribution.allow_nan_stats,
            parameters,
            distribution._graph_parents,
            name or self._bijector.name + distribution.name,
        )
        count_more(29)  # shapes, of which TensorFlow asks whether they are overridden

    @property
    def distribution(self) -> Distribution:
        """Of the number."""
        return self._given

    @property
    def bijector(self) -> Bijector:
        """The function."""
        return self._bijector

    def _event_ndims(self) -> int:
        ndims = self._of.event_shape.ndims
        if ndims is None:
            raise NotImplementedError(
                errors.message("outcomes of unknown rank", "a distribution of known rank", "set_shape its parameters")
            )
        return max(ndims, self._bijector.forward_min_event_ndims)

    def _batch(self) -> Any:
        lost = self._event_ndims() - (self._of.event_shape.ndims or 0)
        raw, dynamic = self._of._batch()
        if not lost:
            return raw, dynamic
        return (None if raw is None else raw[: len(raw) - lost]), tf.convert_to_tensor(dynamic, tf.int32)[:-lost]

    def _event(self) -> Any:
        raw, dynamic = self._of._event()
        lost = self._event_ndims() - (self._of.event_shape.ndims or 0)
        if lost:
            batch, batch_dynamic = self._of._batch()
            raw = None if raw is None or batch is None else (*batch[len(batch) - lost :], *raw)
            dynamic = tf.concat(
                [tf.convert_to_tensor(batch_dynamic, tf.int32)[-lost:], tf.convert_to_tensor(dynamic, tf.int32)], 0
            )
        shape = self._bijector.forward_event_shape(raw)
        known = None if shape.ndims is None else tuple(shape.as_list())
        return known, self._bijector.forward_event_shape_tensor(dynamic)

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        return self._mapped(self._unmapped_sample_n(n, seed))

    def _unmapped_sample_n(self, n: Any, seed: int | None) -> Any:
        count_more(2)  # the sample of another distribution, whose shape is TensorFlow's again
        return self._of._sample_n(n, seed)

    def _mapped(self, drawn: Any) -> Any:
        count_more(8)
        return self._bijector.forward(drawn)

    def _log_prob(self, y: Any) -> Any:
        x = self._bijector.inverse(y)
        ndims = self._event_ndims()
        density = self._of.log_prob(x)
        lost = ndims - (self._of.event_shape.ndims or 0)
        if lost:
            density = tf.reduce_sum(density, list(range(-lost, 0)))
        after = ndims - self._bijector.forward_min_event_ndims + self._bijector.inverse_min_event_ndims
        return density + self._bijector.inverse_log_det_jacobian(y, after)

    def _cdf(self, y: Any) -> Any:
        return self._of.cdf(self._bijector.inverse(y))

    def _quantile(self, p: Any) -> Any:
        return self._bijector.forward(self._of.quantile(p))

    def _constant(self, what: str) -> None:
        if not self._bijector.is_constant_jacobian:
            raise NotImplementedError(
                f"{what} is not implemented\n"
                + errors.message(
                    f"the {what} of {self._name}", "a bijector that stretches alike everywhere", "samples of it"
                )
            )

    def _mean(self) -> Any:
        self._constant("mean")
        return self._bijector.forward(self._of.mean())

    def _entropy(self) -> Any:
        self._constant("entropy")
        zeros = tf.zeros(tf.concat([self._of.batch_shape_tensor(), self._of.event_shape_tensor()], 0), self._dtype)
        return self._of.entropy() + self._bijector.forward_log_det_jacobian(zeros, self._event_ndims())
