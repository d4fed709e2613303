"""Functions of ``tf.contrib.distributions`` for parameters: triangular and tridiagonal matrices, sums."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public


@public("contrib.distributions.fill_triangular")
def fill_triangular(x: Any, upper: bool = False, name: str | None = None) -> Any:
    """Triangular matrices whose elements are taken from vectors in a clockwise spiral.

    The first half of a square of ``n * n`` elements holds the vector without its first ``n`` elements, the second half
    the whole vector in reverse (the other way round for ``upper``); what lies beyond the diagonal becomes 0.

    Args:
        x: elements ``[..., n * (n + 1) / 2]``.
        upper: whether the matrices are upper triangular.
        name: name scope.

    Returns:
        Matrices ``[..., n, n]``.

    Raises:
        ValueError: the last dimension is not the size of a triangle.

    >>> with tf.Session() as session:
    ...     print(session.run(tf.contrib.distributions.fill_triangular([1, 2, 3])).tolist())
    [[3, 0], [2, 1]]
    """
    with tf.name_scope(name, "fill_triangular", [x]):
        x = tf.convert_to_tensor(x, name="x")
        batch = x.shape.with_rank_at_least(1)[:-1]
        count: Any = x.shape[-1].value
        size: Any
        if count is not None:
            size = (math.isqrt(1 + 8 * count) - 1) // 2
            if size * (size + 1) // 2 != count:
                raise ValueError(
                    f"Input right-most shape ({count}) does not correspond to a triangular matrix.\n"
                    + errors.message(
                        f"vectors of {count} elements", "n * (n + 1) / 2 elements: 1, 3, 6, 10, ...", "x[..., :6]"
                    )
                )
            shape = batch.concatenate([size, size])
        else:
            doubled = tf.cast(2 * tf.shape(x)[-1], tf.float32)
            size = tf.cast(tf.sqrt(0.25 + doubled), tf.int32)
            shape = batch.concatenate([None, None])
        backwards = [x, tf.reverse(x[..., size:], [-1])] if upper else [x[..., size:], tf.reverse(x, [-1])]
        square = shape.as_list() if shape.is_fully_defined() else tf.concat([tf.shape(x)[:-1], [size, size]], 0)
        lower_bands, upper_bands = (0, -1) if upper else (-1, 0)
        matrix = tf.matrix_band_part(tf.reshape(tf.concat(backwards, -1), square), lower_bands, upper_bands)
        matrix.set_shape(shape)
        return matrix


@public("contrib.distributions.fill_triangular_inverse")
def fill_triangular_inverse(x: Any, upper: bool = False, name: str | None = None) -> Any:
    """The vectors ``[..., n * (n + 1) / 2]`` of which ``fill_triangular`` makes matrices ``[..., n, n]``."""
    with tf.name_scope(name, "fill_triangular_inverse", [x]):
        x = tf.convert_to_tensor(x, name="x")
        size: Any = x.shape.with_rank_at_least(2)[-1].value
        static = None if size is None else size * (size + 1) // 2
        if size is None:
            size = tf.shape(x)[-1]
        count = size * (size + 1) // 2
        flat = tf.reshape(x, tf.concat([tf.shape(x)[:-2], [size * size]], 0))
        # One part of the square holds the vector (in reverse for a lower matrix), the other its elements after the
        # first n, for which it is the other way round; of the two places of an element one is 0.
        if upper:
            vector, later = flat[..., :count], tf.reverse(flat[..., count:], [-1])
        else:
            vector, later = tf.reverse(flat[..., size * size - count :], [-1]), flat[..., : size * size - count]
        vector = tf.concat([vector[..., :size], vector[..., size:] + later], -1)
        vector.set_shape(x.shape[:-2].concatenate([static]))
        return vector


@public("contrib.distributions.matrix_diag_transform")
def matrix_diag_transform(matrix: Any, transform: Callable[[Any], Any] | None = None, name: str | None = None) -> Any:
    """Matrices ``[..., n, n]`` with ``transform`` of their diagonal in its place; unchanged if it is None."""
    with tf.name_scope(name, "matrix_diag_transform", [matrix]):
        matrix = tf.convert_to_tensor(matrix, name="matrix")
        if transform is None:
            return matrix
        return tf.matrix_set_diag(matrix, transform(tf.matrix_diag_part(matrix)))


@public("contrib.distributions.tridiag")
def tridiag(below: Any = None, diag: Any = None, above: Any = None, name: str | None = None) -> Any:
    """Matrices ``[..., n, n]`` of their diagonal and the two beside it; what is None is 0.

    Args:
        below: the diagonal under the main one, ``[..., n - 1]``.
        diag: the main diagonal, ``[..., n]``.
        above: the diagonal over the main one, ``[..., n - 1]``.
        name: name scope.

    Raises:
        ValueError: all of them are None.
    """

    def between_zeros(x: Any) -> Any:
        zero = tf.zeros(tf.concat([tf.shape(x)[:-1], [1]], 0), x.dtype)
        return tf.matrix_diag(tf.concat([zero, x, zero], -1))

    with tf.name_scope(name, "tridiag", [below, diag, above]):
        bands = []
        if below is not None:
            bands.append(between_zeros(tf.convert_to_tensor(below, name="below"))[..., :-1, 1:])
        if diag is not None:
            bands.append(tf.matrix_diag(tf.convert_to_tensor(diag, name="diag")))
        if above is not None:
            bands.append(between_zeros(tf.convert_to_tensor(above, name="above"))[..., 1:, :-1])
        if not bands:
            raise ValueError(
                "Must specify at least one of `below`, `diag`, `above`.\n"
                + errors.message("no diagonal", "at least one of three diagonals", "tridiag(diag=[1., 2.])")
            )
        return sum(bands[1:], bands[0])


@public("contrib.distributions.reduce_weighted_logsumexp")
def reduce_weighted_logsumexp(
    logx: Any, w: Any = None, axis: Any = None, keep_dims: bool = False, return_sign: bool = False, name: Any = None
) -> Any:
    """``log(abs(sum(w * exp(logx))))`` along axes, without overflow.

    Args:
        logx: logarithms of any shape.
        w: weights of any sign that broadcast against them; 1 if None.
        axis: the axes that are summed; all if None.
        keep_dims: whether they stay, of size 1.
        return_sign: whether to return the sign of the sum, too.
        name: name scope.
    """
    with tf.name_scope(name, "reduce_weighted_logsumexp", [logx, w]):
        logx = tf.convert_to_tensor(logx, name="logx")
        if w is None:
            result = tf.reduce_logsumexp(logx, axis=axis, keepdims=keep_dims)
            return (result, tf.ones_like(result)) if return_sign else result
        w = tf.convert_to_tensor(w, dtype=logx.dtype, name="w")
        logarithms = logx + tf.log(tf.abs(w))
        largest = tf.reduce_max(logarithms, axis=axis, keepdims=True)
        # An infinite maximum is not subtracted: inf - inf is not a number.
        largest = tf.where(tf.is_inf(largest), tf.zeros_like(largest), largest)
        total = tf.reduce_sum(tf.sign(w) * tf.exp(logarithms - largest), axis=axis, keepdims=keep_dims)
        if not keep_dims:
            largest = tf.squeeze(largest, axis)
        sign = tf.sign(total)
        result = largest + tf.log(sign * total)
        return (result, sign) if return_sign else result
