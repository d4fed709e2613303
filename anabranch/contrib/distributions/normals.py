"""Vectors of normal numbers that depend on each other, by a triangular factor of their covariance."""

from __future__ import annotations

import math
from typing import Any

import anabranch as tf
from anabranch.contrib.distributions.parameters import keep_parameters
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.random_seed import OperationCount
from anabranch.distributions.base import FULLY_REPARAMETERIZED, Distribution, RegisterKL, floats, vector
from anabranch.distributions.multivariate import MultivariateNormalDiag


def _count(n: Any) -> Any:
    return [n] if isinstance(n, int) else tf.expand_dims(n, 0)


def _times(matrix: Any, x: Any) -> Any:
    """``matrix @ x`` of vectors, with dimensions before them broadcast."""
    return tf.reduce_sum(matrix * x[..., tf.newaxis, :], -1)


def _solved(tril: Any, x: Any) -> Any:
    """``z`` such that ``tril @ z = x``, with dimensions before them broadcast."""
    columns = x[..., tf.newaxis]
    shape = tf.broadcast_dynamic_shape(tf.shape(tril)[:-1], tf.shape(x))
    size = shape[-1:]
    whole = tf.broadcast_to(tril, tf.concat([shape, size], 0))
    columns = tf.broadcast_to(columns, tf.concat([shape, [1]], 0))
    return tf.squeeze(tf.linalg.triangular_solve(whole, columns), [-1])


@public("contrib.distributions.MultivariateNormalTriL")
class MultivariateNormalTriL(Distribution):
    """Vectors ``loc + scale_tril @ z`` of standard normal ``z``: their covariance is ``scale_tril scale_tril^T``.

    Args:
        loc: the mean ``[..., k]``; 0 if None.
        scale_tril: ``[..., k, k]``, of which the lower triangle counts; the identity if None.
        validate_args: whether the diagonal is checked to be nowhere 0 when the distribution is used.
        allow_nan_stats: whether a statistic that is not defined is NaN and not an error.
        name: name of the scope of its ops.

    Raises:
        ValueError: neither ``loc`` nor ``scale_tril`` is given.
    """

    def __init__(
        self,
        loc: Any = None,
        scale_tril: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MultivariateNormalTriL",
    ) -> None:
        parameters = dict(locals())
        if loc is None and scale_tril is None:
            raise ValueError(
                "Must pass one or both of `loc`, `scale_tril`.\n"
                + errors.message(f"{name} without both", "loc, scale_tril, or both", f"{name}(loc=[0.0, 0.0])")
            )
        with tf.name_scope(name, values=[loc, scale_tril]):
            tensors = floats(name, loc=loc, scale_tril=scale_tril)
            counted = OperationCount()
            if scale_tril is None:
                self._loc = tensors["loc"]
                self._tril = tf.matrix_diag(tf.ones_like(self._loc))
            else:
                self._tril = tf.matrix_band_part(tensors["scale_tril"], -1, 0)
                diagonal = tf.matrix_diag_part(self._tril)
                if validate_args:
                    with tf.control_dependencies([tf.Assert(tf.reduce_all(tf.not_equal(diagonal, 0)), [diagonal])]):
                        self._tril = tf.identity(self._tril)
                self._loc = tensors.get("loc", tf.zeros_like(diagonal))
            self._diagonal = tf.matrix_diag_part(self._tril)
            counted.set(40 if self._tril.shape.is_fully_defined() else 51)  # an operator, and a flow of shapes
        super().__init__(
            self._tril.dtype.base_dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            allow_nan_stats,
            parameters,
            [self._loc, self._tril],
            name,
        )

    @property
    def loc(self) -> Any:
        """The mean ``[..., k]``, as it was given."""
        return self._loc

    @property
    def scale(self) -> Any:
        """The triangular factor, a linear operator."""
        return tf.linalg.LinearOperatorLowerTriangular(self._tril, is_non_singular=True)

    def _whole(self) -> tuple[Any, Any]:
        known = tf.broadcast_static_shape(self._loc.shape, self._diagonal.shape)
        raw = None if known.ndims is None else tuple(known.as_list())
        return raw, tf.broadcast_dynamic_shape(tf.shape(self._loc), tf.shape(self._diagonal))

    def _batch(self) -> Any:
        raw, dynamic = self._whole()
        return (None, dynamic[:-1]) if raw is None else (raw[:-1], dynamic[:-1])

    def _event(self) -> Any:
        raw, dynamic = self._whole()
        return ((None,), dynamic[-1:]) if raw is None else (raw[-1:], dynamic[-1:])

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        counted = OperationCount()
        raw, whole = self._whole()
        known = raw is not None and None not in raw
        shape = vector(_count(n), whole)
        counted.set(5 if known else 10)
        drawn = tf.random_normal(shape, 0.0, 1.0, self._dtype, seed)
        result = _times(self._tril, drawn) + self._loc
        counted.set(54 if known else 73)  # TensorFlow computes shapes of batches and events
        return result

    def _log_size(self) -> Any:
        """The logarithm of the factor's determinant."""
        return tf.reduce_sum(tf.log(tf.abs(self._diagonal)), -1)

    def _dimensions(self) -> Any:
        return tf.cast(tf.shape(self._diagonal)[-1], self._dtype)

    def _log_prob(self, x: Any) -> Any:
        z = _solved(self._tril, x - self._loc)
        constant = 0.5 * math.log(2 * math.pi) * self._dimensions()
        return -0.5 * tf.reduce_sum(tf.square(z), -1) - constant - self._log_size()

    def _entropy(self) -> Any:
        value = 0.5 * (1.0 + math.log(2 * math.pi)) * self._dimensions() + self._log_size()
        return value + tf.zeros_like(self._loc[..., 0])

    def _mean(self) -> Any:
        return self._loc + tf.zeros_like(self._diagonal)

    def _mode(self) -> Any:
        return self._mean()

    def _covariance(self) -> Any:
        return tf.matmul(self._tril, self._tril, adjoint_b=True)

    def _variance(self) -> Any:
        return tf.reduce_sum(tf.square(self._tril), -1)


@public("contrib.distributions.MultivariateNormalFullCovariance")
class MultivariateNormalFullCovariance(MultivariateNormalTriL):
    """Vectors of normal numbers of mean ``loc`` and covariance ``covariance_matrix``, which must be positive definite.

    Args:
        loc: the mean ``[..., k]``; 0 if None.
        covariance_matrix: ``[..., k, k]``, symmetric; the identity if None.
        validate_args: whether the matrix is checked to be symmetric when the distribution is used.
        allow_nan_stats: whether a statistic that is not defined is NaN and not an error.
        name: name of the scope of its ops.
    """

    def __init__(
        self,
        loc: Any = None,
        covariance_matrix: Any = None,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MultivariateNormalFullCovariance",
    ) -> None:
        parameters = dict(locals())
        tril = None
        with tf.name_scope(name, values=[loc, covariance_matrix]):
            if covariance_matrix is not None:
                matrix = floats(name, loc=loc, covariance_matrix=covariance_matrix)["covariance_matrix"]
                if validate_args:
                    same = tf.reduce_all(tf.equal(matrix, tf.matrix_transpose(matrix)))
                    with tf.control_dependencies([tf.Assert(same, ["Matrix was not symmetric.", matrix])]):
                        matrix = tf.identity(matrix)
                tril = tf.cholesky(matrix)
        super().__init__(loc, tril, validate_args, allow_nan_stats, name)
        keep_parameters(self, parameters)


@public("contrib.distributions.MultivariateNormalDiagWithSoftplusScale")
class MultivariateNormalDiagWithSoftplusScale(MultivariateNormalDiag):
    """Vectors of independent normal numbers of standard deviation ``softplus(scale_diag)``."""

    def __init__(
        self,
        loc: Any,
        scale_diag: Any,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "MultivariateNormalDiagWithSoftplusScale",
    ) -> None:
        parameters = dict(locals())
        with tf.name_scope(name, values=[scale_diag]):
            scale = tf.nn.softplus(scale_diag, name="softplus_scale_diag")
        super().__init__(loc, scale, None, validate_args, allow_nan_stats, name)
        keep_parameters(self, parameters)


def _tril_of(distribution: Any) -> Any:
    if isinstance(distribution, MultivariateNormalTriL):
        return distribution._tril
    return tf.matrix_diag(distribution._scale)


@RegisterKL(MultivariateNormalTriL, MultivariateNormalTriL)
@RegisterKL(MultivariateNormalTriL, MultivariateNormalDiag)
@RegisterKL(MultivariateNormalDiag, MultivariateNormalTriL)
def _between_normals(a: Any, b: Any, name: str | None = None) -> Any:
    first, second = _tril_of(a), _tril_of(b)
    sizes = [tf.reduce_sum(tf.log(tf.abs(tf.matrix_diag_part(one))), -1) for one in (first, second)]
    # Columns of the first factor, in units of the second, are the rows here.
    rows = _solved(second[..., tf.newaxis, :, :], tf.matrix_transpose(first))
    moved = _solved(second, b.loc - a.loc)
    spread = tf.reduce_sum(tf.square(rows), [-2, -1]) + tf.reduce_sum(tf.square(moved), -1)
    dimensions = tf.cast(tf.shape(first)[-1], first.dtype.base_dtype)
    return sizes[1] - sizes[0] + 0.5 * (spread - dimensions)
