"""``tf.linalg.LinearOperator``s of one parameter: a full matrix, a triangle, a diagonal, multiples of the identity."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes, shapes
from anabranch.ops.control.public_dependencies import with_dependencies
from anabranch.ops.linalg.linear_operator import (
    LinearOperator,
    adjoint_of,
    conj,
    joined,
    makes,
    product,
    same_batch,
    shape_of,
)
from anabranch.ops.math.public_assert import assert_equal, assert_non_negative, assert_rank


# ---------------------------------------------------------------------------------------------------------- full matrix
@public("linalg.LinearOperatorFullMatrix")
class LinearOperatorFullMatrix(LinearOperator):
    """A matrix that is given as a tensor ``[..., m, n]``.

    Example:
        >>> import anabranch as tf
        >>> operator = tf.linalg.LinearOperatorFullMatrix([[1.0, 2.0], [3.0, 4.0]])
        >>> x = operator.solve([[1.0], [1.0]])
    """

    def __init__(
        self,
        matrix: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorFullMatrix",
    ) -> None:
        with name_scope(name, values=[matrix]):
            self._matrix = convert_to_tensor(matrix, name="matrix")
        _check_rank(self._matrix, 2, "matrix")
        super().__init__(
            self._matrix.dtype, [self._matrix], is_non_singular, is_self_adjoint, is_positive_definite, is_square, name
        )

    def _raw(self) -> shapes.RawShape:
        return self._matrix._shape

    def _sizes(self) -> Any:
        return shape_of(self._matrix)

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        return product(self._matrix, x, adjoint, adjoint_arg)

    def _to_dense(self) -> Any:
        return self._matrix


def _check_rank(x: Any, rank: int, name: str) -> None:
    raw = x._shape
    if raw is not None and len(raw) < rank:
        raise ValueError(
            f"Argument {name} must have at least {rank} dimension{'s' if rank > 1 else ''}.  Found: {x}\n"
            + errors.message(
                f"{name} of shape {shapes.show(raw)}", f"a tensor of rank {rank} or more", "tf.expand_dims(x, 0)"
            )
        )


@public("linalg.LinearOperatorLowerTriangular", "contrib.linalg.LinearOperatorTriL")
class LinearOperatorLowerTriangular(LinearOperator):
    """The lower triangle of ``tril`` ``[..., n, n]``; what is above the diagonal does not count."""

    _real_logarithms = True

    def __init__(
        self,
        tril: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorLowerTriangular",
    ) -> None:
        if is_square is False:
            raise ValueError(
                "Only square lower triangular operators supported at this time.\n"
                + errors.message(
                    "is_square=False",
                    "is_square=None or is_square=True",
                    "tf.linalg.LinearOperatorFullMatrix(matrix) for a matrix that is not square",
                )
            )
        with name_scope(name, values=[tril]):
            self._given = convert_to_tensor(tril, name="tril")
            _check_rank(self._given, 2, "tril")
            self._tril = build("MatrixBandPart", self._given, np.int64(-1), np.int64(0))
        super().__init__(
            self._given.dtype, [self._given], is_non_singular, is_self_adjoint, is_positive_definite, True, name
        )

    def _raw(self) -> shapes.RawShape:
        return self._tril._shape

    def _sizes(self) -> Any:
        return shape_of(self._tril)

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        return product(self._tril, x, adjoint, adjoint_arg)

    def _to_dense(self) -> Any:
        return self._tril

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        factor, rhs = same_batch(self._tril, adjoint_of(rhs) if adjoint_arg else rhs)
        return build("MatrixTriangularSolve", factor, rhs, lower=True, adjoint=adjoint)

    _words = ("Singular operator:  Diagonal contained zero values.", *LinearOperator._words[1:])

    def _numbers(self) -> Any:
        return self._diag_part()

    def _determinant(self) -> Any:
        return build("Prod", self._diag_part(), [-1])

    def _log_abs_determinant(self) -> Any:
        return build("Sum", build("Log", absolute(self._diag_part())), [-1])


def absolute(x: Any) -> Any:
    """The absolute values of real or complex numbers."""
    return build("ComplexAbs", x, Tout=x.dtype.real_dtype) if x.dtype.is_complex else build("Abs", x)


# ------------------------------------------------------------------------------------------------------------- diagonal
@public("linalg.LinearOperatorDiag")
class LinearOperatorDiag(LinearOperator):
    """Matrices with ``diag`` ``[..., n]`` on the diagonal and zeros elsewhere."""

    def __init__(
        self,
        diag: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorDiag",
    ) -> None:
        if is_square is False:
            raise ValueError(
                "Only square diagonal operators currently supported.\n"
                + errors.message(
                    "is_square=False",
                    "is_square=None or is_square=True",
                    "tf.linalg.LinearOperatorFullMatrix(matrix) for a matrix that is not square",
                )
            )
        with name_scope(name, values=[diag]):
            self._diag = convert_to_tensor(diag, name="diag")
        _check_rank(self._diag, 1, "diag")
        if not self._diag.dtype.is_complex:
            if is_self_adjoint is False:
                raise ValueError(
                    "A real diagonal operator is always self adjoint.\n"
                    + errors.message("is_self_adjoint=False", "None or True", "is_self_adjoint=None")
                )
            is_self_adjoint = True
        super().__init__(
            self._diag.dtype, [self._diag], is_non_singular, is_self_adjoint, is_positive_definite, True, name
        )

    @property
    def diag(self) -> Any:
        """The diagonal."""
        return self._diag

    def _raw(self) -> shapes.RawShape:
        raw = self._diag._shape
        return None if raw is None else (*raw, raw[-1])

    def _sizes(self) -> Any:
        own = shape_of(self._diag)
        return joined(own, own[-1:])

    def _column(self, adjoint: bool) -> Any:
        return build("ExpandDims", conj(self._diag) if adjoint else self._diag, -1)

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        return build("Mul", self._column(adjoint), adjoint_of(x) if adjoint_arg else x)

    def _to_dense(self) -> Any:
        return build("MatrixDiag", self._diag)

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        return build("RealDiv", adjoint_of(rhs) if adjoint_arg else rhs, self._column(adjoint))

    _words = (
        "Singular operator:  Diagonal contained zero values.",
        "This diagonal operator contained non-zero imaginary values.   Thus it was not self-adjoint.",
        "Diagonal operator had diagonal entries with non-positive real part, thus was not positive definite. "
        "Real diagonal operator had non-positive diagonal entries, thus was not positive definite.",
    )

    def _numbers(self) -> Any:
        return self._diag

    def _eigenvalues(self) -> Any:
        return self._diag

    def _determinant(self) -> Any:
        return build("Prod", self._diag, [-1])

    def _log_abs_determinant(self) -> Any:
        return build("Sum", build("Log", absolute(self._diag)), [-1])

    def _diag_part(self) -> Any:
        return self._diag

    def _add_to_tensor(self, x: Any) -> Any:
        return build("MatrixSetDiag", x, build("AddV2", build("MatrixDiagPart", x), self._diag))


class _Scaled(LinearOperator):
    """``multiplier`` ``[...]`` times the identity of ``num_rows``."""

    _multiplier: Any
    _num_rows: Any
    _batch: Any

    def _raw(self) -> shapes.RawShape:
        rows = self._num_rows if isinstance(self._num_rows, int) else None
        lead = self._batch if isinstance(self._batch, list) else None
        return None if lead is None else (*lead, rows, rows)

    def _sizes(self) -> Any:
        rows = self._num_rows
        side = [rows, rows] if isinstance(rows, int) else build("Pack", [rows, rows], axis=0)
        return joined(self._batch, side)

    def _factor(self, adjoint: bool) -> Any:
        value = conj(self._multiplier) if adjoint else self._multiplier
        return build("ExpandDims", build("ExpandDims", value, -1), -1)

    _checks_operands = False
    """Whether steps check that operands fit, which are not told by their shapes."""

    def _fitted(self, x: Any, adjoint_arg: bool) -> Any:
        """An operand, turned if asked; where that is checked in steps, one that fits."""
        x = adjoint_of(x) if adjoint_arg else x
        known = x._shape is not None and x._shape[-2] is not None and isinstance(self._num_rows, int)
        if not self._checks_operands or known:
            return x
        rows = convert_to_tensor(self._num_rows, dtypes.int32)
        text = "Dimensions are not compatible.  shape[-2] of x to be the same as this operator. "
        check = assert_equal(rows, build("Shape", x)[-2], message=text + "Incompatible matrix dimensions.")
        return with_dependencies([check], x)

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        return build("Mul", self._factor(adjoint), self._fitted(x, adjoint_arg))

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        return build("RealDiv", self._fitted(rhs, adjoint_arg), self._factor(adjoint))

    def _diag_part(self) -> Any:
        ones = build("Fill", convert_to_tensor(joined(self._batch, self._sizes()[-1:]), dtypes.int32), self._number(1))
        return build("Mul", build("ExpandDims", self._multiplier, -1), ones)

    def _to_dense(self) -> Any:
        return build("MatrixDiag", self._diag_part())

    def _count(self) -> Any:
        rows = convert_to_tensor(self._num_rows, dtypes.int32)
        return build("Cast", rows, DstT=self._dtype.real_dtype if self._dtype.is_complex else self._dtype)

    _words = (
        "LinearOperator was singular",
        "LinearOperator was not self-adjoint",
        "LinearOperator was not positive definite.",
    )

    def _numbers(self) -> Any:
        return self._multiplier

    def _eigenvalues(self) -> Any:
        return self._multiplier

    def _determinant(self) -> Any:
        count = self._count()
        return build(
            "Pow", self._multiplier, build("Cast", count, DstT=self._dtype) if self._dtype.is_complex else count
        )

    def _log_abs_determinant(self) -> Any:
        return build("Mul", self._count(), build("Log", absolute(self._multiplier)))


def _rows(num_rows: Any) -> Any:
    """The number of rows as an int, or as the tensor that is given."""
    return num_rows if hasattr(num_rows, "op") else int(_counts(num_rows, "num_rows", 0))


def _batch(batch_shape: Any) -> Any:
    """A batch shape as a list of ints, or as the tensor that is given."""
    if hasattr(batch_shape, "op"):
        return batch_shape
    return _counts([] if batch_shape is None else batch_shape, "batch_shape", 1).tolist()


def _counts(given: Any, name: str, rank: int) -> np.ndarray:
    """Whole numbers of 0 or more, in an array of a rank."""
    array = np.asarray(given, np.int64 if np.size(given) == 0 else None)
    expected, instead = (
        ("a whole number, 0 or more", "num_rows=3") if not rank else ("whole numbers", "batch_shape=[2]")
    )
    told = errors.message(f"{name}={given!r}", expected, instead)
    if array.dtype.kind not in "iu":
        raise TypeError(f"Argument {name} must be integer type.  Found: {given!r}\n{told}")
    if array.ndim != rank:
        raise ValueError(f"Argument {name} must be a {rank}-D Tensor.  Found: {given!r}\n{told}")
    if array.size and array.min() < 0:
        raise ValueError(f"Argument {name} must be non-negative.  Found: {given!r}\n{told}")
    return array


def _proper(given: Any, name: str, rank: int) -> Any:
    """A number of rows or a batch shape; one that is a tensor is checked when it runs."""
    if not hasattr(given, "op"):
        return given
    checks = [
        assert_rank(given, rank, message=f"Argument {name} must be a {rank}-D Tensor."),
        assert_non_negative(given, message=f"Argument {name} must be non-negative."),
    ]
    return with_dependencies(checks, given)


@public("linalg.LinearOperatorIdentity")
class LinearOperatorIdentity(_Scaled):
    """Identity matrices ``[*batch_shape, num_rows, num_rows]``."""

    def __init__(
        self,
        num_rows: Any,
        batch_shape: Any = None,
        dtype: Any = None,
        is_non_singular: bool | None = True,
        is_self_adjoint: bool | None = True,
        is_positive_definite: bool | None = True,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorIdentity",
    ) -> None:
        for hint, value, words in (
            ("is_self_adjoint", is_self_adjoint, "self adjoint"),
            ("is_square", is_square, "square"),
            ("is_non_singular", is_non_singular, "non-singular"),
            ("is_positive_definite", is_positive_definite, "positive-definite"),
        ):
            if not value:
                raise ValueError(
                    f"An identity operator is always {words}.\n"
                    + errors.message(f"{hint}={value}", "True", f"{hint}=True")
                )
        super().__init__(dtypes.float32 if dtype is None else dtype, [], True, True, True, True, name)
        self._num_rows = _rows(num_rows)
        self._batch = _batch(batch_shape)
        self._checks_operands = assert_proper_shapes
        if assert_proper_shapes:
            self._num_rows = _proper(self._num_rows, "num_rows", 0)
            self._batch = _proper(self._batch, "batch_shape", 1)
        if isinstance(self._batch, list):
            self._multiplier = convert_to_tensor(np.ones(self._batch, self._dtype.np), self._dtype)
        else:
            self._multiplier = build("Fill", self._batch, self._number(1))

    def _determinant(self) -> Any:
        return self._multiplier

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        return self._matmul(rhs, adjoint, adjoint_arg)


@public("linalg.LinearOperatorScaledIdentity")
class LinearOperatorScaledIdentity(_Scaled):
    """Identity matrices of ``num_rows`` times ``multiplier`` ``[...]``."""

    _real_logarithms = True

    def __init__(
        self,
        num_rows: Any,
        multiplier: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorScaledIdentity",
    ) -> None:
        if not is_square:
            raise ValueError(
                "A ScaledIdentity operator is always square.\n"
                + errors.message(f"is_square={is_square}", "a square operator: is_square=True", "is_square=True")
            )
        with name_scope(name, values=[multiplier]):
            self._multiplier = convert_to_tensor(multiplier, name="multiplier")
        if not self._multiplier.dtype.is_complex:
            if is_self_adjoint is False:
                raise ValueError(
                    "A real diagonal operator is always self adjoint.\n"
                    + errors.message("is_self_adjoint=False", "True or None", "is_self_adjoint=None")
                )
            is_self_adjoint = True
        super().__init__(
            self._multiplier.dtype,
            [self._multiplier],
            is_non_singular,
            is_self_adjoint,
            is_positive_definite,
            True,
            name,
        )
        self._num_rows = _rows(num_rows)
        self._checks_operands = assert_proper_shapes
        if assert_proper_shapes:
            self._num_rows = _proper(self._num_rows, "num_rows", 0)
        self._batch = shape_of(self._multiplier)

    @property
    def multiplier(self) -> Any:
        """What the identity is multiplied by."""
        return self._multiplier


@public("linalg.LinearOperatorZeros")
class LinearOperatorZeros(_Scaled):
    """Square matrices ``[*batch_shape, num_rows, num_rows]`` of zeros."""

    def __init__(
        self,
        num_rows: Any,
        num_columns: Any = None,
        batch_shape: Any = None,
        dtype: Any = None,
        is_non_singular: bool = False,
        is_self_adjoint: bool = True,
        is_positive_definite: bool = False,
        is_square: bool = True,
        assert_proper_shapes: bool = False,
        name: str = "LinearOperatorZeros",
    ) -> None:
        if is_non_singular or is_positive_definite or not is_self_adjoint or not is_square:
            raise ValueError(
                errors.message(
                    "zeros that are called regular, definite, or not symmetric", "square zeros", "leave the hints out"
                )
            )
        if num_columns is not None and int(num_columns) != int(num_rows):
            raise NotImplementedError(
                errors.message(f"{num_rows} rows and {num_columns} columns", "square zeros", "num_columns=None")
            )
        self._checks_operands = assert_proper_shapes
        super().__init__(dtypes.float32 if dtype is None else dtype, [], False, True, False, True, name)
        self._num_rows = _rows(num_rows)
        self._batch = _batch(batch_shape)
        self._multiplier = convert_to_tensor(np.zeros(self._batch, self._dtype.np), self._dtype)


makes["identity"] = LinearOperatorIdentity
makes["triangular"] = LinearOperatorLowerTriangular
