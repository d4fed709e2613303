"""Wishart's distribution of positive definite matrices, and of their triangular factors."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.distributions.base import FULLY_REPARAMETERIZED, Distribution, floats, vector


class _Wishart(Distribution):
    """The distribution of the sum of ``df`` outer products of normal vectors whose covariance is ``L L^T``."""

    _df: Any
    _tril: Any
    _factors: bool

    def _begin(self, df: Any, tril: Any, factors: bool, validate_args: bool, parameters: dict[str, Any]) -> None:
        self._df, self._tril, self._factors = df, tril, factors
        size, known = tril.shape[-1].value, tf.get_static_value(df)
        if size is not None and known is not None and np.any(known < size):
            raise ValueError(
                f"Degrees of freedom (df = {known}) cannot be less than dimension of scale matrix "
                f"(scale.dimension = {size})\n"
                + errors.message(f"df={known} for matrices of {size} rows", f"{size} or more", f"df={size}")
            )
        if validate_args:
            with tf.control_dependencies([tf.assert_less_equal(self._size(), self._df)]):
                self._df = tf.identity(self._df)
        super().__init__(
            tril.dtype.base_dtype,
            FULLY_REPARAMETERIZED,
            validate_args,
            parameters["allow_nan_stats"],
            parameters,
            [df, tril],
            parameters["name"],
        )

    # ------------------------------------------------------------------------------------------------------ parameters
    @property
    def df(self) -> Any:
        """Degrees of freedom."""
        return self._df

    @property
    def dimension(self) -> Any:
        """How many rows an outcome has, a number of the distribution's dtype."""
        return self._size()

    @property
    def cholesky_input_output_matrices(self) -> bool:
        """Whether outcomes, and what is asked about, are the triangular factors of matrices."""
        return self._factors

    @property
    def scale_operator(self) -> Any:
        """The triangular factor of the scale, a linear operator."""
        return tf.linalg.LinearOperatorLowerTriangular(self._tril, is_non_singular=True)

    def scale(self) -> Any:
        """The scale matrix, or its factor if outcomes are factors."""
        return self._tril if self._factors else self._matrix()

    def log_normalization(self, name: str = "log_normalization") -> Any:
        """The logarithm of what the density is divided by."""
        with self._scope(name):
            return self._log_normalizer()

    def mean_log_det(self, name: str = "mean_log_det") -> Any:
        """The expected logarithm of an outcome's determinant."""
        with self._scope(name):
            size = self._size()
            digammas = tf.reduce_sum(tf.digamma(self._halves()), -1)
            return digammas + size * math.log(2.0) + 2.0 * self._log_root(self._tril)

    # ------------------------------------------------------------------------------------------------------ for classes
    def _size(self) -> Any:
        return tf.cast(tf.shape(self._tril)[-1], self._df.dtype.base_dtype)

    def _matrix(self) -> Any:
        return tf.matmul(self._tril, self._tril, adjoint_b=True)

    def _spread(self, number: Any) -> Any:
        return number[..., tf.newaxis, tf.newaxis]

    def _halves(self) -> Any:
        """``df / 2 - i / 2`` for each row ``i``."""
        steps = 0.5 * tf.cast(tf.range(tf.shape(self._tril)[-1]), self._df.dtype.base_dtype)
        return 0.5 * self._df[..., tf.newaxis] - steps

    @staticmethod
    def _log_root(factor: Any) -> Any:
        return tf.reduce_sum(tf.log(tf.abs(tf.matrix_diag_part(factor))), -1)

    def _log_gammas(self) -> Any:
        size = self._size()
        return 0.25 * size * (size - 1.0) * math.log(math.pi) + tf.reduce_sum(tf.lgamma(self._halves()), -1)

    def _log_normalizer(self) -> Any:
        scale = self._df * self._log_root(self._tril)
        return scale + 0.5 * self._df * self._size() * math.log(2.0) + self._log_gammas()

    def _batch(self) -> Any:
        static = tf.broadcast_static_shape(self._df.shape, self._tril.shape[:-2])
        dynamic = tf.broadcast_dynamic_shape(tf.shape(self._df), tf.shape(self._tril)[:-2])
        return None if static.ndims is None else tuple(static.as_list()), dynamic

    def _event(self) -> Any:
        size = self._tril.shape[-1].value
        return (size, size), tf.shape(self._tril)[-2:]

    def _sample_n(self, n: Any, seed: int | None) -> Any:
        lead = [n] if isinstance(n, int) else tf.expand_dims(n, 0)
        shape = vector(lead, self._batch()[1])
        normal = tf.random_normal(tf.concat([shape, self._event()[1]], 0), 0.0, 1.0, self._dtype, seed)
        halves = tf.broadcast_to(self._halves(), tf.concat([self._batch()[1], self._event()[1][:1]], 0))
        squares = tf.random_gamma(lead, halves, 0.5, self._dtype, None if seed is None else seed + 1)
        # Bartlett's decomposition.
        factor = tf.matrix_set_diag(tf.matrix_band_part(normal, -1, 0), tf.sqrt(squares))
        factor = tf.matmul(self._tril + tf.zeros_like(factor), factor)
        return factor if self._factors else tf.matmul(factor, factor, adjoint_b=True)

    def _log_prob(self, x: Any) -> Any:
        root = x if self._factors else tf.cholesky(x)
        whole = self._tril + tf.zeros_like(root)
        trace = tf.reduce_sum(tf.square(tf.linalg.triangular_solve(whole, root + tf.zeros_like(whole))), [-2, -1])
        power = (self._df - self._size() - 1.0) * self._log_root(root)
        return power - 0.5 * trace - self._log_normalizer()

    def _entropy(self) -> Any:
        size, half = self._size(), 0.5 * self._df
        rows = 0.5 * size + 0.5
        digammas = tf.reduce_sum(tf.digamma(self._halves()), -1)
        return (
            size * (half + rows * math.log(2.0))
            + 2.0 * rows * self._log_root(self._tril)
            + self._log_gammas()
            + (rows - half) * digammas
        )

    def _times_scale(self, number: Any) -> Any:
        if self._factors:
            return self._spread(tf.sqrt(number)) * self._tril
        return self._spread(number) * self._matrix()

    def _mean(self) -> Any:
        return self._times_scale(self._df)

    def _mode(self) -> Any:
        number = self._df - self._size() - 1.0
        return self._times_scale(tf.where_v2(number < 0, tf.constant(np.nan, number.dtype.base_dtype), number))

    def _variance(self) -> Any:
        matrix = self._matrix()
        diagonal = tf.matrix_diag_part(matrix)
        both = tf.square(matrix) + diagonal[..., tf.newaxis] * diagonal[..., tf.newaxis, :]
        variance = self._spread(self._df) * both
        return tf.cholesky(variance) if self._factors else variance

    def _stddev(self) -> Any:
        if self._factors:
            raise ValueError(
                "Computing std. dev. when is cholesky_input_output_matrices=True does not make sense.\n"
                + errors.message(
                    "the deviation of triangular factors", "matrices", "cholesky_input_output_matrices=False"
                )
            )
        return tf.cholesky(self._variance())  # as TensorFlow has it: a factor, and not the roots of the elements


def _parameters(name: str, scale: Any, df: Any) -> dict[str, Any]:
    """The parameters as tensors of the dtype of ``scale``, which integers as degrees of freedom become, too."""
    given = floats(name, scale=scale)
    known = df if not isinstance(getattr(df, "dtype", None), tf.DType) else None
    if known is not None:
        given["df"] = tf.convert_to_tensor(np.asarray(known, given["scale"].dtype.as_numpy_dtype), name="df")
        return given
    return floats(name, scale=given["scale"], df=df)


@public("contrib.distributions.WishartCholesky")
class WishartCholesky(_Wishart):
    """Positive definite matrices, by the triangular factor of their scale.

    Args:
        df: degrees of freedom ``[...]``, not fewer than the matrices have rows.
        scale: lower triangular factors ``[..., k, k]`` with a positive diagonal.
        cholesky_input_output_matrices: whether outcomes, and the arguments of ``log_prob``, are triangular factors.
        validate_args: whether ``df`` is checked when it is used.
        allow_nan_stats: whether a statistic that is not defined is NaN and not an error.
        name: name of the scope of its ops.

    Raises:
        ValueError: there are fewer degrees of freedom than rows.
    """

    def __init__(
        self,
        df: Any,
        scale: Any,
        cholesky_input_output_matrices: bool = False,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "WishartCholesky",
    ) -> None:
        parameters = dict(locals())
        parameters.pop("__class__", None)
        with tf.name_scope(name, values=[df, scale]):
            given = _parameters(name, scale, df)
            tril = tf.matrix_band_part(given["scale"], -1, 0)
            self._begin(given["df"], tril, cholesky_input_output_matrices, validate_args, parameters)


@public("contrib.distributions.WishartFull")
class WishartFull(_Wishart):
    """Positive definite matrices, by their scale.

    Args:
        df: degrees of freedom ``[...]``, not fewer than the matrices have rows.
        scale: positive definite matrices ``[..., k, k]``.
        cholesky_input_output_matrices: whether outcomes, and the arguments of ``log_prob``, are triangular factors.
        validate_args: whether ``df`` is checked when it is used.
        allow_nan_stats: whether a statistic that is not defined is NaN and not an error.
        name: name of the scope of its ops.

    Raises:
        ValueError: there are fewer degrees of freedom than rows.
    """

    def __init__(
        self,
        df: Any,
        scale: Any,
        cholesky_input_output_matrices: bool = False,
        validate_args: bool = False,
        allow_nan_stats: bool = True,
        name: str = "WishartFull",
    ) -> None:
        parameters = dict(locals())
        parameters.pop("__class__", None)
        with tf.name_scope(name, values=[df, scale]):
            given = _parameters(name, scale, df)
            tril = tf.cholesky(given["scale"])
            self._begin(given["df"], tril, cholesky_input_output_matrices, validate_args, parameters)
