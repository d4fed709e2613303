"""Bijectors of vectors and matrices: affine functions, triangular matrices, orders and shapes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.contrib.distributions.bijectors import AffineScalar, Bijector, Chain, Softplus, checked, other_than
from anabranch.contrib.distributions.matrices import fill_triangular, fill_triangular_inverse
from anabranch.core import errors
from anabranch.core.contract.api import public

_HOME = "contrib.distributions.bijectors."


def _zero(x: Any) -> Any:
    return tf.constant(0.0, x.dtype.base_dtype)


@public(_HOME + "AffineLinearOperator")
class AffineLinearOperator(Bijector):
    """``scale @ x + shift`` of vectors.

    Args:
        shift: vectors ``[..., n]``; nothing is added if None.
        scale: a `tf.linalg.LinearOperator` of matrices ``[..., n, n]`` that have an inverse; the identity if None.
        validate_args: whether it is checked that the matrices have an inverse.
        name: name of the scope of its ops.
    """

    def __init__(
        self, shift: Any = None, scale: Any = None, validate_args: bool = False, name: str = "affine_linear_operator"
    ) -> None:
        if scale is not None and not isinstance(scale, tf.linalg.LinearOperator):
            raise TypeError(
                "scale is not an instance of tf.LinearOperator\n"
                + errors.message(f"scale={scale!r}", "a linear operator", "tf.linalg.LinearOperatorFullMatrix(matrix)")
            )
        if validate_args and scale is not None and not scale.is_non_singular:
            raise ValueError(
                "Scale matrix must be non-singular.\n"
                + errors.message("an operator that may have no inverse", "one that has", "is_non_singular=True")
            )
        self._shift: Any = None
        dtype = None if scale is None else scale.dtype
        if shift is not None:
            self._shift = tf.convert_to_tensor(shift, dtype)
            dtype = self._shift.dtype.base_dtype
        self._scale = scale
        super().__init__(
            graph_parents=[part for part in (self._shift,) if part is not None],
            is_constant_jacobian=True,
            validate_args=validate_args,
            dtype=dtype,
            forward_min_event_ndims=1,
            name=name,
        )

    @property
    def shift(self) -> Any:
        """What is added."""
        return self._shift

    @property
    def scale(self) -> Any:
        """The operator."""
        return self._scale

    def _forward(self, x: Any) -> Any:
        y = x if self._scale is None else self._scale.matvec(x)
        return y if self._shift is None else y + self._shift

    def _inverse(self, y: Any) -> Any:
        x = y if self._shift is None else y - self._shift
        return x if self._scale is None else self._scale.solvevec(x)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return _zero(x) if self._scale is None else self._scale.log_abs_determinant()


@public(_HOME + "Affine")
class Affine(Bijector):
    """``scale @ x + shift`` of vectors, ``scale`` being a sum of matrices.

    Args:
        shift: vectors ``[..., n]``; nothing is added if None.
        scale_identity_multiplier: factor ``[...]`` of the identity.
        scale_diag: diagonal ``[..., n]``.
        scale_tril: lower triangular matrices ``[..., n, n]``.
        scale_perturb_factor: ``V`` ``[..., n, k]`` of ``V @ diag(d) @ V.T``.
        scale_perturb_diag: ``d`` ``[..., k]``; ones if None.
        validate_args: whether it is checked that the matrices have an inverse.
        name: name of the scope of its ops.
    """

    def __init__(
        self,
        shift: Any = None,
        scale_identity_multiplier: Any = None,
        scale_diag: Any = None,
        scale_tril: Any = None,
        scale_perturb_factor: Any = None,
        scale_perturb_diag: Any = None,
        validate_args: bool = False,
        name: str = "affine",
    ) -> None:
        if scale_perturb_diag is not None and scale_perturb_factor is None:
            raise ValueError(
                "When scale_perturb_diag is specified, scale_perturb_factor must be specified.\n"
                + errors.message("scale_perturb_diag alone", "both, or none", "scale_perturb_factor=tf.eye(n)")
            )
        given = [shift, scale_identity_multiplier, scale_diag, scale_tril, scale_perturb_factor, scale_perturb_diag]
        first = next((part for part in given if part is not None), None)
        dtype = None if first is None else tf.convert_to_tensor(first).dtype.base_dtype
        parts = [None if part is None else tf.convert_to_tensor(part, dtype) for part in given]
        self._shift, multiplier, diagonal, triangle, factor, weights = parts
        if validate_args:
            if multiplier is not None:
                multiplier = checked(multiplier, (other_than(0.0), "identity_multiplier should be non-zero."))
            added = diagonal if triangle is None else tf.matrix_diag_part(triangle)
            if added is not None:  # what is on the diagonal besides a multiple of the identity
                whole = added if triangle is None or diagonal is None else added + diagonal
                whole = whole if multiplier is None else whole + multiplier[..., tf.newaxis]
                with tf.control_dependencies([checked(whole, (other_than(0.0), "diagonal part must be non-zero"))]):
                    if triangle is None:
                        diagonal = tf.identity(diagonal)
                    else:
                        triangle = tf.identity(triangle)
        self._multiplier: Any = None
        self._operator: Any = None
        if diagonal is None and triangle is None and factor is None:
            self._multiplier = multiplier
        else:
            self._operator = _operator_of(multiplier, diagonal, triangle, factor, weights)
        super().__init__(
            graph_parents=[part for part in parts if part is not None],
            is_constant_jacobian=True,
            validate_args=validate_args,
            dtype=dtype,
            forward_min_event_ndims=1,
            name=name,
        )

    @property
    def shift(self) -> Any:
        """What is added."""
        return self._shift

    @property
    def scale(self) -> Any:
        """A `tf.linalg.LinearOperator`, or the factor of the identity if that is all."""
        return self._multiplier if self._operator is None else self._operator

    def _forward(self, x: Any) -> Any:
        if self._operator is not None:
            y = self._operator.matvec(x)
        else:
            y = x if self._multiplier is None else x * self._multiplier[..., tf.newaxis]
        return y if self._shift is None else y + self._shift

    def _inverse(self, y: Any) -> Any:
        x = y if self._shift is None else y - self._shift
        if self._operator is not None:
            return self._operator.solvevec(x)
        return x if self._multiplier is None else x / self._multiplier[..., tf.newaxis]

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        if self._operator is not None:
            return self._operator.log_abs_determinant()
        if self._multiplier is None:
            return _zero(x)
        return tf.log(tf.abs(self._multiplier)) * tf.cast(tf.shape(x)[-1], self._multiplier.dtype.base_dtype)


def _operator_of(multiplier: Any, diagonal: Any, triangle: Any, factor: Any, weights: Any) -> Any:
    """The linear operator of the sum of these parts, of which one has a size."""
    if triangle is not None:
        matrix = tf.matrix_band_part(triangle, -1, 0)
        added = _diagonal_of(multiplier, diagonal, triangle)
        if added is not None:
            matrix = tf.matrix_set_diag(matrix, tf.matrix_diag_part(matrix) + added)
        base = tf.linalg.LinearOperatorLowerTriangular(matrix, is_non_singular=True)
    elif diagonal is not None or multiplier is not None:
        added = _diagonal_of(multiplier, diagonal, factor)
        base = tf.linalg.LinearOperatorDiag(
            added, is_non_singular=True, is_positive_definite=factor is not None or None
        )
    else:
        size = tf.shape(factor)[-2]
        base = tf.linalg.LinearOperatorIdentity(
            size if factor.shape[-2].value is None else factor.shape[-2].value, dtype=factor.dtype.base_dtype
        )
    if factor is None:
        return base
    return tf.linalg.LinearOperatorLowRankUpdate(
        base, u=factor, diag_update=weights, is_diag_update_positive=weights is None, is_non_singular=True
    )


def _diagonal_of(multiplier: Any, diagonal: Any, rows: Any) -> Any:
    """What is on the diagonal besides a triangle; ``rows`` are matrices of the size."""
    if multiplier is None:
        return diagonal
    spread = multiplier[..., tf.newaxis]
    if diagonal is not None:
        return diagonal + spread
    return spread * tf.ones(tf.shape(rows)[-2:-1], spread.dtype.base_dtype)


@public(_HOME + "CholeskyOuterProduct")
class CholeskyOuterProduct(Bijector):
    """``x @ x.T`` of lower triangular matrices with a positive diagonal."""

    def __init__(self, validate_args: bool = False, name: str = "cholesky_outer_product") -> None:
        super().__init__(validate_args=validate_args, forward_min_event_ndims=2, name=name)

    def _forward(self, x: Any) -> Any:
        return tf.matmul(x, x, adjoint_b=True)

    def _inverse(self, y: Any) -> Any:
        return tf.cholesky(y)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        size = tf.shape(x)[-1]
        # Row i of the product takes its diagonal element from n - i entries.
        exponents = tf.cast(tf.range(size, 0, -1), x.dtype.base_dtype)
        diagonal = tf.log(tf.matrix_diag_part(x))
        return math.log(2.0) * tf.cast(size, x.dtype.base_dtype) + tf.reduce_sum(diagonal * exponents, -1)


@public(_HOME + "FillTriangular")
class FillTriangular(Bijector):
    """Triangular matrices of vectors, as `tf.contrib.distributions.fill_triangular` has them."""

    def __init__(self, upper: bool = False, validate_args: bool = False, name: str = "fill_triangular") -> None:
        self._upper = upper
        super().__init__(
            validate_args=validate_args,
            forward_min_event_ndims=1,
            inverse_min_event_ndims=2,
            name=name,
        )

    def _forward(self, x: Any) -> Any:
        return fill_triangular(x, upper=self._upper)

    def _inverse(self, y: Any) -> Any:
        return fill_triangular_inverse(y, upper=self._upper)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return tf.zeros_like(x[..., 0])

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return tf.zeros_like(y[..., 0, 0])

    def _forward_event_shape(self, shape: Any) -> Any:
        if shape.ndims is None or shape[-1].value is None:
            return shape if shape.ndims is None else shape[:-1].concatenate([None, None])
        count = shape[-1].value
        size = (math.isqrt(1 + 8 * count) - 1) // 2
        if size * (size + 1) // 2 != count:
            raise ValueError(
                f"{count} is not a triangular number.\n"
                + errors.message(f"vectors of {count} elements", "1, 3, 6, 10, ... elements", "x[..., :6]")
            )
        return shape[:-1].concatenate([size, size])

    def _inverse_event_shape(self, shape: Any) -> Any:
        if shape.ndims is None:
            return shape
        rows, columns = shape[-2].value, shape[-1].value
        if rows is None or columns is None:
            return shape[:-2].concatenate([None])
        if rows != columns:
            raise ValueError(
                f"Matrix must be square. (saw {rows} x {columns})\n"
                + errors.message(f"matrices of {rows} rows and {columns} columns", "square matrices", "x[..., :n, :n]")
            )
        return shape[:-2].concatenate([rows * (rows + 1) // 2])

    def _forward_event_shape_tensor(self, shape: Any) -> Any:
        doubled = tf.cast(2 * shape[-1:], tf.float32)
        size = tf.cast(tf.sqrt(0.25 + doubled), tf.int32)
        return tf.concat([shape[:-1], size, size], 0)

    def _inverse_event_shape_tensor(self, shape: Any) -> Any:
        size = shape[-1:]
        return tf.concat([shape[:-2], size * (size + 1) // 2], 0)


@public(_HOME + "MatrixInverseTriL")
class MatrixInverseTriL(Bijector):
    """The inverse of lower triangular matrices, which is one of those as well.

    The determinant is TensorFlow's: that of inverting matrices all of whose elements are free.
    """

    def __init__(self, validate_args: bool = False, name: str = "matrix_inverse_tril") -> None:
        super().__init__(validate_args=validate_args, forward_min_event_ndims=2, name=name)

    def _forward(self, x: Any) -> Any:
        shape = tf.shape(x)
        ones = tf.eye(shape[-1], batch_shape=shape[:-2], dtype=x.dtype.base_dtype)
        inverse = tf.matrix_triangular_solve(x, ones)
        inverse.set_shape(x.shape)
        return inverse

    def _inverse(self, y: Any) -> Any:
        return self._forward(y)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        size = tf.cast(tf.shape(x)[-1], x.dtype.base_dtype)
        return -2.0 * size * tf.reduce_sum(tf.log(tf.abs(tf.matrix_diag_part(x))), -1)


@public(_HOME + "TransformDiagonal")
class TransformDiagonal(Bijector):
    """A function of the diagonal of matrices.

    Args:
        diag_bijector: the function, of vectors or elements.
        validate_args: has no effect of its own.
        name: name of the scope of its ops.
    """

    def __init__(self, diag_bijector: Bijector, validate_args: bool = False, name: str = "transform_diagonal") -> None:
        self._diagonal = diag_bijector
        super().__init__(
            is_constant_jacobian=diag_bijector.is_constant_jacobian,
            validate_args=validate_args,
            forward_min_event_ndims=2,
            name=name,
        )

    def _forward(self, x: Any) -> Any:
        return tf.matrix_set_diag(x, self._diagonal.forward(tf.matrix_diag_part(x)))

    def _inverse(self, y: Any) -> Any:
        return tf.matrix_set_diag(y, self._diagonal.inverse(tf.matrix_diag_part(y)))

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return self._diagonal.forward_log_det_jacobian(tf.matrix_diag_part(x), event_ndims=1)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return self._diagonal.inverse_log_det_jacobian(tf.matrix_diag_part(y), event_ndims=1)


@public(_HOME + "ScaleTriL")
class ScaleTriL(Chain):
    """Vectors of any numbers to lower triangular matrices with a positive diagonal, as scales are.

    Args:
        diag_bijector: function that makes the diagonal; `Softplus` if None.
        diag_shift: what is added to it; nothing if None.
        validate_args: handed on to the parts.
        name: name of the scope of its ops.
    """

    def __init__(
        self,
        diag_bijector: Bijector | None = None,
        diag_shift: Any = 1e-5,
        validate_args: bool = False,
        name: str = "scale_tril",
    ) -> None:
        if diag_bijector is None:
            diag_bijector = Softplus(validate_args=validate_args)
        if diag_shift is not None:
            diag_bijector = Chain([AffineScalar(shift=diag_shift), diag_bijector])
        super().__init__([TransformDiagonal(diag_bijector), FillTriangular()], validate_args=validate_args, name=name)


@public(_HOME + "Ordered")
class Ordered(Bijector):
    """Vectors of growing numbers to vectors of any: the first number, and the logarithms of the steps."""

    def __init__(self, validate_args: bool = False, name: str = "ordered") -> None:
        super().__init__(validate_args=validate_args, forward_min_event_ndims=1, name=name)

    def _forward(self, x: Any) -> Any:
        return tf.concat([x[..., :1], tf.log(x[..., 1:] - x[..., :-1])], -1)

    def _inverse(self, y: Any) -> Any:
        return tf.cumsum(tf.concat([y[..., :1], tf.exp(y[..., 1:])], -1), -1)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return -tf.reduce_sum(tf.log(x[..., 1:] - x[..., :-1]), -1)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return tf.reduce_sum(y[..., 1:], -1)


@public(_HOME + "Permute")
class Permute(Bijector):
    """The elements of vectors in another order: element ``i`` of the result is element ``permutation[i]``."""

    def __init__(self, permutation: Any, validate_args: bool = False, name: str | None = None) -> None:
        order = tf.convert_to_tensor(permutation, name="permutation")
        if not order.dtype.is_integer:
            raise TypeError(
                f"permutation.dtype ({order.dtype.name}) should be `int`-like.\n"
                + errors.message(f"a permutation of {order.dtype.name}", "numbers of elements", "[2, 0, 1]")
            )
        known = tf.get_static_value(order)
        if known is not None and sorted(known.ravel().tolist()) != list(range(known.size)):
            raise ValueError(
                "Permutation over `d` must contain exactly one of each of `{0, 1, ..., d}`.\n"
                + errors.message(f"permutation={known.tolist()}", "each number from 0 once", "[2, 0, 1]")
            )
        self._permutation = order
        super().__init__(
            is_constant_jacobian=True, validate_args=validate_args, forward_min_event_ndims=1, name=name or "permute"
        )

    @property
    def permutation(self) -> Any:
        """The order."""
        return self._permutation

    def _forward(self, x: Any) -> Any:
        return tf.gather(x, self._permutation, axis=-1)

    def _inverse(self, y: Any) -> Any:
        return tf.gather(y, tf.invert_permutation(self._permutation), axis=-1)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return _zero(x)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return _zero(y)


@public(_HOME + "Reshape")
class Reshape(Bijector):
    """Events of another shape.

    Args:
        event_shape_out: shape of an event of ``forward``'s; one size may be -1.
        event_shape_in: shape of an event of its argument; one size may be -1.
        validate_args: has no effect of its own: shapes that do not fit are refused.
        name: name of the scope of its ops.

    Raises:
        ValueError: more than one size of a shape is -1.
    """

    def __init__(
        self,
        event_shape_out: Any,
        event_shape_in: Any = (-1,),
        validate_args: bool = False,
        name: str | None = None,
    ) -> None:
        self._out, self._in = self._sizes(event_shape_out), self._sizes(event_shape_in)
        super().__init__(
            is_constant_jacobian=True,
            validate_args=validate_args,
            forward_min_event_ndims=len(self._in),
            inverse_min_event_ndims=len(self._out),
            name=name or "reshape",
        )

    @staticmethod
    def _sizes(shape: Any) -> tuple[int, ...]:
        known = tf.get_static_value(tf.convert_to_tensor(shape, tf.int32))
        if known is None:
            raise NotImplementedError(
                errors.message("an event shape that is a tensor without a known value", "numbers", "[-1, 3]")
            )
        sizes = tuple(int(size) for size in known)
        if sizes.count(-1) > 1:
            raise ValueError(
                "At most one dimension can be unknown.\n"
                + errors.message(f"an event shape of {list(sizes)}", "one -1 at most", "[-1, 3]")
            )
        return sizes

    def _moved(self, x: Any, old: Sequence[int], new: Sequence[int]) -> Any:
        static = self._moved_shape(x.shape, old, new)
        shape = tf.shape(x)
        batch = shape[: tf.size(shape) - len(old)]
        moved = tf.reshape(x, tf.concat([batch, self._moved_tensor(shape, old, new)[tf.size(batch) :]], 0))
        moved.set_shape(static)
        return moved

    @staticmethod
    def _moved_shape(shape: Any, old: Sequence[int], new: Sequence[int]) -> Any:
        if shape.ndims is None:
            return shape
        if shape.ndims < len(old) or not shape[shape.ndims - len(old) :].is_compatible_with(
            [None if size == -1 else size for size in old]
        ):
            raise ValueError(
                f"Input `event_shape` does not match `event_shape_in`: {shape}\n"
                + errors.message(f"events of a shape {shape}", f"{list(old)}", "another event_shape_in")
            )
        inner = shape[shape.ndims - len(old) :]
        sizes = [None if size == -1 else size for size in new]
        count = inner.num_elements()
        if -1 in new and count is not None:
            sizes[list(new).index(-1)] = count // -int(np.prod(new))
        return shape[: shape.ndims - len(old)].concatenate(sizes)

    @staticmethod
    def _moved_tensor(shape: Any, old: Sequence[int], new: Sequence[int]) -> Any:
        split = tf.size(shape) - len(old)
        sizes = tf.constant(list(new), tf.int32, [len(new)])
        if -1 in new:
            sizes = tf.where(
                tf.equal(sizes, -1), tf.fill([len(new)], tf.reduce_prod(shape[split:]) // -int(np.prod(new))), sizes
            )
        return tf.concat([shape[:split], sizes], 0)

    def _forward(self, x: Any) -> Any:
        return self._moved(x, self._in, self._out)

    def _inverse(self, y: Any) -> Any:
        return self._moved(y, self._out, self._in)

    def _forward_log_det_jacobian(self, x: Any) -> Any:
        return _zero(x)

    def _inverse_log_det_jacobian(self, y: Any) -> Any:
        return _zero(y)

    def _forward_event_shape(self, shape: Any) -> Any:
        return self._moved_shape(shape, self._in, self._out)

    def _inverse_event_shape(self, shape: Any) -> Any:
        return self._moved_shape(shape, self._out, self._in)

    def _forward_event_shape_tensor(self, shape: Any) -> Any:
        return self._moved_tensor(shape, self._in, self._out)

    def _inverse_event_shape_tensor(self, shape: Any) -> Any:
        return self._moved_tensor(shape, self._out, self._in)
