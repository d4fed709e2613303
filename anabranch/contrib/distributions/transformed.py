"""``TransformedDistribution``: what a bijector makes of a distribution."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.distributions.bijectors import Bijector, Identity
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.distributions.base import Distribution


@public("contrib.distributions.TransformedDistribution")
class TransformedDistribution(Distribution):
    """The function of a random number.

    Args:
        distribution: of the number.
        bijector: the function; the identity if None.
        batch_shape: must be None: shapes are those of the distribution.
        event_shape: must be None.
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
        if batch_shape is not None or event_shape is not None:
            raise NotImplementedError(
                errors.message(
                    f"batch_shape={batch_shape}, event_shape={event_shape}",
                    "the shapes of the distribution",
                    "tf.contrib.distributions.Independent of a larger batch",
                )
            )
        self._of, self._bijector = distribution, Identity() if bijector is None else bijector
        super().__init__(
            distribution.dtype,
            distribution.reparameterization_type,
            validate_args,
            distribution.allow_nan_stats,
            parameters,
            distribution._graph_parents,
            name or self._bijector.name + distribution.name,
        )

    @property
    def distribution(self) -> Distribution:
        """Of the number."""
        return self._of

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
        return self._bijector.forward(self._of._sample_n(n, seed))

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
