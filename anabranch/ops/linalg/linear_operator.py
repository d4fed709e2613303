"""``tf.linalg.LinearOperator``: matrices that are known by what they do; the base class.

Policy. A class says how it multiplies, and what it can do better than a full matrix: solve, its determinant, its
diagonal. Everything else is computed from the full matrix. Hints (``is_self_adjoint`` and the like) are taken on trust,
and choose the algorithm of a solution.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Operation
from anabranch.core.graph.public_scopes import control_dependencies, name_scope
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.shapes import TensorShape
from anabranch.ops.linalg.rules import transposed


def product(a: Any, b: Any, adjoint: bool = False, adjoint_arg: bool = False) -> Any:
    """A matrix product of batches, broadcast."""
    return build("BatchMatMulV2", a, b, adj_x=adjoint, adj_y=adjoint_arg)


def adjoint_of(x: Any) -> Any:
    """The conjugate transposes of matrices."""
    return transposed(x)


def conj(x: Any) -> Any:
    """The conjugate of a complex tensor; others as they are."""
    return build("Conj", x) if x.dtype.is_complex else x


def shape_of(x: Any) -> Any:
    """The shape of a tensor: a list if it is known, a tensor otherwise."""
    raw = x._shape
    return list(raw) if raw is not None and None not in raw else build("Shape", x)


def joined(*parts: Any) -> Any:
    """Shapes joined: a list if all are known."""
    if all(isinstance(part, list) for part in parts):
        return [item for part in parts for item in part]
    return build("ConcatV2", [convert_to_tensor(part, dtypes.int32) for part in parts], 0)


makes: dict[str, Any] = {}
"""Classes that methods of the base make, by what for; their modules put them here."""


@public("linalg.LinearOperator")
class LinearOperator:
    """A matrix, or a batch of matrices ``[..., m, n]``; the base of the others."""

    def __init__(
        self,
        dtype: Any,
        graph_parents: Any = None,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str | None = None,
    ) -> None:
        name = name or type(self).__name__
        if is_positive_definite and is_non_singular is False:
            raise ValueError(
                "A positive definite matrix is always non-singular.\n"
                + errors.message(
                    f"{name}, positive definite and singular",
                    "an operator that is either positive definite or singular",
                    "is_non_singular=None",
                )
            )
        if (is_self_adjoint or is_positive_definite or is_non_singular) and is_square is False:
            raise ValueError(
                f"{name}: a self-adjoint, non-singular or positive definite operator is always square\n"
                + errors.message("is_square=False with such a hint", "is_square=True", "is_square=None")
            )
        self._dtype = dtypes.as_dtype(dtype).base
        self._graph_parents = list(graph_parents or [])
        self._non_singular = True if is_positive_definite else is_non_singular
        self._self_adjoint = is_self_adjoint
        self._positive = is_positive_definite
        known = is_self_adjoint or is_positive_definite or is_non_singular
        self._square_hint = True if known else is_square
        self._name = name

    # -- what it is -------------------------------------------------------------------------------------------------
    @property
    def dtype(self) -> dtypes.DType:
        """Of the elements."""
        return self._dtype

    @property
    def name(self) -> str:
        """Name of the scope of its ops."""
        return self._name

    @property
    def graph_parents(self) -> list[Any]:
        """Tensors that it was made of."""
        return list(self._graph_parents)

    @property
    def is_non_singular(self) -> bool | None:
        """Whether it can be inverted, if that is known."""
        return self._non_singular

    @property
    def is_self_adjoint(self) -> bool | None:
        """Whether it is its own conjugate transpose, if that is known."""
        return self._self_adjoint

    @property
    def is_positive_definite(self) -> bool | None:
        """Whether it is positive definite, if that is known."""
        return self._positive

    @property
    def is_square(self) -> bool | None:
        """Whether it has as many rows as columns, if that is known."""
        raw = self._raw()
        if raw is not None and None not in raw[-2:]:
            square = raw[-2] == raw[-1]
            if self._square_hint not in (None, square):
                raise ValueError(
                    f"is_square={self._square_hint} was given, but the operator was {'' if square else 'not '}square.\n"
                    + errors.message(f"an operator of shape {self.shape}", f"is_square={square}", "is_square=None")
                )
            return square
        return self._square_hint

    @property
    def shape(self) -> TensorShape:
        """What is known of ``[..., m, n]``."""
        return TensorShape(self._raw())

    @property
    def batch_shape(self) -> TensorShape:
        """What is known of the dimensions before the matrices'."""
        raw = self._raw()
        return TensorShape(None if raw is None else raw[:-2])

    @property
    def tensor_rank(self) -> int | None:
        """The rank of the dense tensor, if it is known."""
        raw = self._raw()
        return None if raw is None else len(raw)

    @property
    def domain_dimension(self) -> Any:
        """The number of columns, if it is known."""
        return self.shape[-1]

    @property
    def range_dimension(self) -> Any:
        """The number of rows, if it is known."""
        return self.shape[-2]

    def shape_tensor(self, name: str = "shape_tensor") -> Any:
        """``[..., m, n]`` as a tensor."""
        with self._scope(name):
            return convert_to_tensor(self._sizes(), dtypes.int32)

    def batch_shape_tensor(self, name: str = "batch_shape_tensor") -> Any:
        """The dimensions before the matrices' as a tensor."""
        with self._scope(name):
            return convert_to_tensor(self._sizes()[:-2], dtypes.int32)

    def tensor_rank_tensor(self, name: str = "tensor_rank_tensor") -> Any:
        """The rank of the dense tensor."""
        with self._scope(name):
            return build("Size", self.shape_tensor())

    def domain_dimension_tensor(self, name: str = "domain_dimension_tensor") -> Any:
        """The number of columns as a tensor."""
        with self._scope(name):
            return convert_to_tensor(self._sizes()[-1], dtypes.int32)

    def range_dimension_tensor(self, name: str = "range_dimension_tensor") -> Any:
        """The number of rows as a tensor."""
        with self._scope(name):
            return convert_to_tensor(self._sizes()[-2], dtypes.int32)

    # -- for classes ------------------------------------------------------------------------------------------------
    def _shape(self) -> Any:
        """What is known of the shape, as a TensorShape; for classes of programs, as in TensorFlow."""
        raise NotImplementedError("Subclasses must override this method.")

    def _shape_tensor(self) -> Any:
        """The shape as a tensor; for classes of programs."""
        raise NotImplementedError("Subclasses must override this method.")

    def _raw(self) -> shapes.RawShape:
        """What is known of the shape."""
        return shapes.as_raw(self._shape())

    def _sizes(self) -> Any:
        """The shape as a list of ints, or a tensor."""
        return self._shape_tensor()

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        raise NotImplementedError

    def _to_dense(self) -> Any:
        eye = makes["identity"](self._sizes()[-1], dtype=self._dtype).to_dense()
        return self._matmul(eye, False, False)

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        rhs = adjoint_of(rhs) if adjoint_arg else rhs
        dense = self._to_dense()
        dense, rhs = same_batch(dense, rhs)
        if self._can_use_cholesky():
            factor = build("Cholesky", dense)
            half = build("MatrixTriangularSolve", factor, rhs, lower=True)
            return build("MatrixTriangularSolve", factor, half, lower=True, adjoint=True)
        return build("MatrixSolve", dense, rhs, adjoint=adjoint)

    def _determinant(self) -> Any:
        return build("MatrixDeterminant", self._to_dense())

    def _log_abs_determinant(self) -> Any:
        log_and_sign = build("LogMatrixDeterminant", self._to_dense()).log_abs_determinant
        return build("Real", log_and_sign, Tout=self._dtype.real_dtype) if self._dtype.is_complex else log_and_sign

    def _diag_part(self) -> Any:
        return build("MatrixDiagPart", self._to_dense())

    def _add_to_tensor(self, x: Any) -> Any:
        return build("AddV2", self._to_dense(), x)

    @contextlib.contextmanager
    def _scope(self, name: str, *values: Any) -> Iterator[None]:
        with name_scope(self._name + "/"), name_scope(name, values=list(values)):
            yield

    @contextlib.contextmanager
    def _name_scope(self, name: str | None = None, values: Any = None) -> Iterator[str]:
        """A scope of this operator's, which classes that derive from operators open."""
        with name_scope(self._name + "/"), name_scope(name, values=values) as scope:
            yield scope

    def _check_input_dtype(self, arg: Any) -> None:
        """Refuse a tensor of another dtype than this operator's: TypeError."""
        if arg.dtype.base_dtype != self.dtype:
            raise TypeError(
                f"Expected argument to have dtype {self.dtype}.  Found: {arg.dtype} in tensor {arg}\n"
                + errors.message(
                    f"a tensor of {arg.dtype.name}", f"one of {self.dtype.name}", f"tf.cast(x, tf.{self.dtype.name})"
                )
            )

    def _need_square(self, what: str) -> None:
        if self.is_square is False:
            raise NotImplementedError(
                f"{what} is only defined for square operators: expected {self._name} to not be square\n"
                + errors.message(
                    f"{self._name} of shape {self.shape}", "[..., n, n]", "to_dense() and tf.matrix_solve_ls"
                )
            )

    @staticmethod
    def _need_fit(dimension: Any, operand: Any, axis: int) -> None:
        """Refuse an operand whose size along ``axis``, -1 or -2, is known not to fit a dimension of the operator.

        IndexError if it has no such axis, as in TensorFlow; ValueError for another size.
        """
        raw = operand._shape
        if raw is None:
            return
        if len(raw) < -axis:
            what, instead = ("vectors [..., n]", "tf.expand_dims(x, 0)")
            if axis == -2 or len(raw) == 1:
                what, instead = ("matrices [..., n, k]", "operator.matvec(x) and operator.solvevec(x) for vectors")
            raise IndexError(
                "list index out of range\n"
                + errors.message(f"an operand of shape {shapes.show(raw)}", what, instead, at=operand.op.user_site)
            )
        dimension.assert_is_compatible_with(raw[axis])

    def _operand(self, x: Any, name: str) -> Any:
        """``x`` as a tensor: what has a dtype must have the operator's, what Python or NumPy holds is given it."""
        if not isinstance(getattr(x, "dtype", None), dtypes.DType):
            return convert_to_tensor(x, self._dtype, name=name)
        tensor = convert_to_tensor(x, name=name)
        self._check_input_dtype(tensor)
        return tensor

    def _columns(self, x: Any, name: str, adjoint: bool, solving: bool) -> Any:
        """Vectors ``[..., n]`` that fit the operator, as matrices of one column."""
        operand = self._operand(x, name)
        self._need_fit(self.range_dimension if adjoint != solving else self.domain_dimension, operand, -1)
        return build("ExpandDims", operand, -1)

    # -- what it does -----------------------------------------------------------------------------------------------
    def matmul(self, x: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "matmul") -> Any:
        """The product with ``x`` ``[..., n, k]``, or with another operator: a composition.

        Args:
            x: a tensor or a ``LinearOperator``.
            adjoint: whether the conjugate transpose multiplies.
            adjoint_arg: whether it is that of ``x`` that is multiplied.
            name: of the ops.
        """
        if isinstance(x, LinearOperator):
            left = self.adjoint() if adjoint else self
            return makes["composition"]([left, x.adjoint() if adjoint_arg else x])
        with self._scope(name, x):
            operand = self._operand(x, "x")
            dimension = self.range_dimension if adjoint else self.domain_dimension
            self._need_fit(dimension, operand, -1 if adjoint_arg else -2)
            return self._matmul(operand, adjoint, adjoint_arg)

    def __matmul__(self, other: Any) -> Any:
        return self.matmul(other)

    def matvec(self, x: Any, adjoint: bool = False, name: str = "matvec") -> Any:
        """The product with vectors ``[..., n]``."""
        with self._scope(name, x):
            column = self._columns(x, "x", adjoint, solving=False)
            return build("Squeeze", self._matmul(column, adjoint, False), squeeze_dims=[-1])

    def solve(self, rhs: Any, adjoint: bool = False, adjoint_arg: bool = False, name: str = "solve") -> Any:
        """``x`` with ``operator @ x = rhs`` for ``rhs`` ``[..., n, k]``."""
        if self._non_singular is False:
            raise NotImplementedError(
                "Exact solve not implemented for an operator that is expected to be singular.\n"
                + errors.message(
                    f"{self._name} with is_non_singular=False",
                    "an operator that can be inverted",
                    "tf.linalg.lstsq(operator.to_dense(), rhs)",
                )
            )
        self._need_square("Exact solve")
        with self._scope(name, rhs):
            operand = self._operand(rhs, "rhs")
            dimension = self.domain_dimension if adjoint else self.range_dimension
            self._need_fit(dimension, operand, -1 if adjoint_arg else -2)
            return self._solve(operand, adjoint, adjoint_arg)

    def solvevec(self, rhs: Any, adjoint: bool = False, name: str = "solve") -> Any:
        """``x`` with ``operator @ x = rhs`` for vectors ``[..., n]``."""
        column = self._columns(rhs, "rhs", adjoint, solving=True)
        return build("Squeeze", self.solve(column, adjoint, name=name), squeeze_dims=[-1])

    def determinant(self, name: str = "det") -> Any:
        """The determinants ``[...]``."""
        self._need_square("Determinant")
        with self._scope(name):
            return self._determinant()

    def log_abs_determinant(self, name: str = "log_abs_det") -> Any:
        """The logarithms of the absolute values of the determinants ``[...]``.

        They have the operator's dtype, also if that is complex; of triangles and scaled identities they are real then.
        """
        self._need_square("Determinant")
        with self._scope(name):
            logarithm = self._log_abs_determinant()
            if self._dtype.is_complex and not (self._real_logarithms or logarithm.dtype.is_complex):
                logarithm = build("Cast", logarithm, DstT=self._dtype)
            return logarithm

    def to_dense(self, name: str = "to_dense") -> Any:
        """The full matrices ``[..., m, n]``."""
        with self._scope(name):
            return self._to_dense()

    def diag_part(self, name: str = "diag_part") -> Any:
        """The diagonals ``[..., min(m, n)]``."""
        with self._scope(name):
            return self._diag_part()

    def trace(self, name: str = "trace") -> Any:
        """The sums of the diagonals ``[...]``."""
        with self._scope(name):
            return build("Sum", self._diag_part(), [-1])

    def add_to_tensor(self, x: Any, name: str = "add_to_tensor") -> Any:
        """The sum with full matrices ``[..., m, n]``."""
        with self._scope(name, x):
            return self._add_to_tensor(self._operand(x, "x"))

    def adjoint(self, name: str = "adjoint") -> LinearOperator:
        """The conjugate transpose, as an operator."""
        if self._self_adjoint:
            return self
        operator: LinearOperator = makes["adjoint"](self)
        return operator

    H = property(adjoint)

    def inverse(self, name: str = "inverse") -> LinearOperator:
        """The inverse, as an operator."""
        self._need_square("Inverse")
        if self._non_singular is False:
            raise ValueError(
                "Cannot take the Inverse: This operator represents a singular matrix.\n"
                + errors.message(
                    f"{self._name} with is_non_singular=False",
                    "an operator that can be inverted",
                    "tf.linalg.lstsq(operator.to_dense(), rhs)",
                )
            )
        operator: LinearOperator = makes["inverse"](self)
        return operator

    def cholesky(self, name: str = "cholesky") -> LinearOperator:
        """The lower triangular factor of a positive definite, self-adjoint operator, as an operator."""
        if not self._can_use_cholesky():
            raise ValueError(
                "Cannot take the Cholesky decomposition: Not a positive definite self adjoint matrix.\n"
                + errors.message(
                    f"{self._name} without these hints",
                    "an operator that is positive definite and self-adjoint",
                    "is_positive_definite=True, is_self_adjoint=True",
                )
            )
        with self._scope(name):
            operator: LinearOperator = makes["triangular"](build("Cholesky", self._to_dense()), is_non_singular=True)
            return operator

    _words = (
        "Singular matrix up to precision epsilon.",
        "Matrix was not equal to its adjoint.",
        "Cholesky decomposition was not successful. The input might not be valid.",
    )
    """Of errors for matrices that are singular, not self-adjoint, not positive definite, as TensorFlow has them."""

    _real_logarithms = False
    """Whether logarithms of determinants are real though the elements are complex."""

    _operators: Any = ()
    """Those that this one is made of, where it can be inverted if all of them can."""

    def _can_use_cholesky(self) -> bool:
        return bool(self._positive and self._self_adjoint)

    def _numbers(self) -> Any:
        """Numbers of which none is 0 if the matrices can be inverted; None if a class knows none."""
        return None

    def _eigenvalues(self) -> Any:
        """The eigenvalues, where the matrices are self-adjoint."""
        return build("SelfAdjointEigV2", self._to_dense(), compute_v=False).e

    def assert_non_singular(self, name: str = "assert_non_singular") -> Operation:
        """An op that fails unless all matrices can be inverted.

        Of a matrix that is no more than its elements, the condition number must leave a digit: below
        ``1 / (max(100, m, n) * eps)``.
        """
        with self._scope(name):
            if self._operators and all(one.is_square for one in self._operators):
                with control_dependencies([one.assert_non_singular() for one in self._operators]):
                    checked: Operation = build("NoOp")
                    return checked
            numbers = self._numbers()
            if numbers is not None:
                zero = np.array(0, numbers.dtype.base.np)
                return self._assert(build("NotEqual", numbers, zero), f"{self._words[0]} {self._name} was singular")
            values = build("Svd", self._to_dense(), compute_uv=False).s
            real = values.dtype.base
            sides = build("Cast", build("Max", build("Shape", self._to_dense())[-2:], [0]), DstT=real)
            largest = 1.0 / (build("Maximum", sides, np.array(100, real.np)) * np.finfo(real.np).eps)
            condition = build("Max", values, [-1]) / build("Min", values, [-1])
            return self._assert(build("Less", condition, largest), f"{self._words[0]} {self._name} was singular")

    def assert_self_adjoint(self, name: str = "assert_self_adjoint") -> Operation:
        """An op that fails unless all matrices are their own conjugate transposes."""
        with self._scope(name):
            dense = self._to_dense()
            text = f"{self._words[1]} {self._name} was not self-adjoint"
            return self._assert(build("Equal", dense, adjoint_of(dense)), text)

    def assert_positive_definite(self, name: str = "assert_positive_definite") -> Operation:
        """An op that fails unless all matrices are positive definite."""
        with self._scope(name):
            values = self._eigenvalues()
            real = build("Real", values, Tout=values.dtype.real_dtype) if values.dtype.is_complex else values
            text = f"{self._words[2]} {self._name} was not positive definite."
            return self._assert(build("Greater", real, np.array(0, real.dtype.base.np)), text)

    def _number(self, value: float) -> Any:
        return np.array(value, self._dtype.np)

    def _assert(self, condition: Any, text: str) -> Operation:
        assertion: Operation = build(
            "Assert", build("All", condition, build("Range", 0, build("Rank", condition), 1)), [text]
        )
        return assertion


def same_batch(a: Any, b: Any) -> tuple[Any, Any]:
    """Matrices with their batch dimensions broadcast against each other."""
    first, second = a._shape, b._shape
    if first is not None and second is not None and first[:-2] == second[:-2] and None not in first[:-2]:
        return a, b
    sizes = [build("Shape", x) for x in (a, b)]
    lead = build("BroadcastArgs", sizes[0][:-2], sizes[1][:-2])
    spread = [
        build("BroadcastTo", x, build("ConcatV2", [lead, size[-2:]], 0)) for x, size in zip((a, b), sizes, strict=True)
    ]
    return spread[0], spread[1]
