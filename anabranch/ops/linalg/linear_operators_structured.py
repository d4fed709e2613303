"""``tf.linalg.LinearOperator``s known by a line of numbers: circulant (of blocks), Toeplitz and Householder matrices.

A circulant matrix is diagonal in the Fourier basis: it multiplies and solves by two transforms, and its determinant is
the product of its spectrum. A Toeplitz matrix is a corner of a circulant one of twice its size.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Operation
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.shapes import TensorShape
from anabranch.ops.linalg.linear_operator import LinearOperator, adjoint_of, conj, joined, product, shape_of

_TRANSFORMS = {1: ("FFT", "IFFT"), 2: ("FFT2D", "IFFT2D"), 3: ("FFT3D", "IFFT3D")}


def _cast(x: Any, dtype: dtypes.DType) -> Any:
    """A tensor in another dtype; of a complex number that becomes a real one, the real part."""
    own = x.dtype.base
    if own is dtype:
        return x
    if own.is_complex and not dtype.is_complex:
        x = build("Real", x, Tout=own.real_dtype)
    return x if x.dtype.base is dtype else build("Cast", x, DstT=dtype)


def _complex_of(dtype: dtypes.DType) -> dtypes.DType:
    if dtype.is_complex:
        return dtype
    return dtypes.complex128 if dtype.name == "float64" else dtypes.complex64


def _swapped(x: Any) -> Any:
    """Matrices with rows and columns exchanged, nothing conjugated."""
    return conj(adjoint_of(x)) if x.dtype.is_complex else adjoint_of(x)


def _last(sizes: Any, count: int) -> Any:
    return sizes[-count:]


def _number_of(sizes: Any) -> Any:
    """The product of sizes, as a list of one or a tensor ``[1]``."""
    if isinstance(sizes, list):
        return [math.prod(sizes)]
    return build("ExpandDims", build("Prod", sizes, [0]), 0)


def _always_square(is_square: bool | None, what: str) -> None:
    if is_square is False:
        raise ValueError(
            f"{what} is always square.\n" + errors.message("is_square=False", "None or True", "is_square=None")
        )


class _Circulant(LinearOperator):
    """Circulant matrices whose blocks are such matrices, ``depth`` levels of them."""

    depth = 0

    def __init__(
        self,
        spectrum: Any,
        input_output_dtype: Any = dtypes.complex64,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = True,
        name: str | None = None,
    ) -> None:
        name = name or type(self).__name__
        _always_square(is_square, "A [[nested] block] circulant operator")
        with name_scope(name, values=[spectrum]):
            self._spectrum = convert_to_tensor(spectrum, name="spectrum")
        raw = self._spectrum._shape
        if raw is not None and len(raw) < self.depth:
            raise ValueError(
                f"Argument spectrum must have at least {self.depth} dimensions.  Found: {self._spectrum}\n"
                + errors.message(
                    f"a spectrum of shape {TensorShape(raw)}", f"{self.depth} or more dimensions", "tf.reshape it"
                )
            )
        if not (self._spectrum.dtype.is_floating or self._spectrum.dtype.is_complex):
            raise TypeError(
                f"Argument spectrum must have dtype in float or complex types.  Found: {self._spectrum.dtype.name}\n"
                + errors.message(
                    self._spectrum.dtype.name, "a float or complex type", "tf.cast(spectrum, tf.complex64)"
                )
            )
        if not self._spectrum.dtype.is_complex:
            if is_self_adjoint is False:
                raise ValueError(
                    "A real spectrum always corresponds to a self-adjoint operator.\n"
                    + errors.message("is_self_adjoint=False", "None or True", "is_self_adjoint=None")
                )
            is_self_adjoint = True
        super().__init__(
            input_output_dtype, [self._spectrum], is_non_singular, is_self_adjoint, is_positive_definite, True, name
        )
        self._complex = _complex_of(self._spectrum.dtype.base)

    # -- what it is made of -----------------------------------------------------------------------------------------
    @property
    def spectrum(self) -> Any:
        """The eigenvalues ``[..., *block]``: the transform of the convolution kernel."""
        return self._spectrum

    @property
    def block_depth(self) -> int:
        """The levels of blocks: 1 for a circulant matrix."""
        return self.depth

    @property
    def block_shape(self) -> TensorShape:
        """What is known of the sizes of the levels."""
        raw = self._spectrum._shape
        return TensorShape(None if raw is None else raw[-self.depth :])

    def block_shape_tensor(self) -> Any:
        """The sizes of the levels as a tensor."""
        return convert_to_tensor(_last(shape_of(self._spectrum), self.depth), dtypes.int32)

    def convolution_kernel(self, name: str = "convolution_kernel") -> Any:
        """The first column ``[..., *block]``, with which vectors are convolved around."""
        with self._scope(name):
            return _cast(self._inverse(_cast(self._spectrum, self._complex)), self._dtype)

    def _raw(self) -> shapes.RawShape:
        raw = self._spectrum._shape
        if raw is None:
            return None
        block = raw[-self.depth :]
        size = None if None in block else math.prod(block)  # type: ignore[arg-type]
        return (*raw[: -self.depth], size, size)

    def _sizes(self) -> Any:
        own = shape_of(self._spectrum)
        number = _number_of(_last(own, self.depth))
        return joined(own[: -self.depth], number, number)

    # -- what it does -----------------------------------------------------------------------------------------------
    def _transform(self, x: Any) -> Any:
        return build(_TRANSFORMS[self.depth][0], x)

    def _inverse(self, x: Any) -> Any:
        return build(_TRANSFORMS[self.depth][1], x)

    def _in_fourier_basis(self, x: Any, adjoint: bool, adjoint_arg: bool, operation: str) -> Any:
        """Columns transformed, multiplied or divided by the spectrum, and transformed back."""
        x = _cast(adjoint_of(x) if adjoint_arg else x, self._complex)
        rows = _swapped(x)
        sizes = shape_of(rows)
        rows = build("Reshape", rows, joined(sizes[:-1], _last(shape_of(self._spectrum), self.depth)))
        spectrum = _cast(self._spectrum, self._complex)
        spectrum = build("ExpandDims", conj(spectrum) if adjoint else spectrum, -self.depth - 1)
        result = self._inverse(build(operation, self._transform(rows), spectrum))
        lead = shape_of(result)[: -self.depth]
        flat = build("Reshape", result, joined(lead, _number_of(_last(shape_of(self._spectrum), self.depth))))
        return _cast(_swapped(flat), self._dtype)

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        return self._in_fourier_basis(x, adjoint, adjoint_arg, "Mul")

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        return self._in_fourier_basis(rhs, adjoint, adjoint_arg, "RealDiv")

    def _axes(self) -> list[int]:
        return list(range(-self.depth, 0))

    def _absolute(self) -> Any:
        if not self._spectrum.dtype.is_complex:
            return build("Abs", self._spectrum)
        return build("ComplexAbs", self._spectrum, Tout=self._spectrum.dtype.real_dtype)

    _words = (
        "Singular operator:  Spectrum contained zero values.",
        "Not self-adjoint:  The spectrum contained non-zero imaginary part.",
        "Not positive definite:  Real part of spectrum was not all positive.",
    )

    def _numbers(self) -> Any:
        return self._spectrum

    def _eigenvalues(self) -> Any:
        return self._spectrum

    def _determinant(self) -> Any:
        return _cast(build("Prod", self._spectrum, self._axes()), self._dtype)

    def _log_abs_determinant(self) -> Any:
        return _cast(build("Sum", build("Log", self._absolute()), self._axes()), self._dtype.real_dtype)

    def _diag_part(self) -> Any:
        mean = build("Mean", self._spectrum, self._axes(), keep_dims=False)
        sizes = self._sizes()[:-1]
        each = _cast(build("ExpandDims", mean, -1), self._dtype)
        return build("BroadcastTo", each, convert_to_tensor(sizes, dtypes.int32))

    def trace(self, name: str = "trace") -> Any:
        """The sums of the diagonals ``[...]``: those of the spectrum."""
        with self._scope(name):
            return _cast(build("Sum", self._spectrum, self._axes()), self._dtype)

    # -- what it checks ---------------------------------------------------------------------------------------------
    def _part(self, which: str) -> Any:
        return build(which, self._spectrum, Tout=self._spectrum.dtype.real_dtype)

    def assert_hermitian_spectrum(self, name: str = "assert_hermitian_spectrum") -> Operation:
        """An op that fails unless the convolution kernel is real."""
        with self._scope(name):
            kernel = self._inverse(_cast(self._spectrum, self._complex))
            imaginary = build("Abs", build("Imag", kernel, Tout=kernel.dtype.real_dtype))
            epsilon = np.finfo(kernel.dtype.real_dtype.np).eps
            scale = build("Max", self._absolute(), list(range(-self.depth, 0)), keep_dims=True)
            bound = build(
                "Mul", build("Cast", scale, DstT=imaginary.dtype.base), np.array(10 * epsilon, imaginary.dtype.np)
            )
            return self._assert(build("LessEqual", imaginary, bound), "Spectrum was not Hermitian")

    def assert_non_singular(self, name: str = "assert_non_singular") -> Operation:
        """An op that fails unless no number of the spectrum is (nearly) 0."""
        with self._scope(name):
            size = self._absolute()
            epsilon = np.finfo(size.dtype.np).eps
            largest = build("Max", size, self._axes(), keep_dims=True)
            least = build("Mul", largest, np.array(epsilon, size.dtype.np))
            return self._assert(build("Greater", size, least), "Singular operator:  Spectrum contained zero values.")

    def assert_self_adjoint(self, name: str = "assert_self_adjoint") -> Operation:
        """An op that fails unless the spectrum is real."""
        with self._scope(name):
            if not self._spectrum.dtype.is_complex:
                return self._assert(build("IsFinite", self._spectrum), "The spectrum is not finite.")
            imaginary = self._part("Imag")
            zero = build("Equal", imaginary, np.array(0, imaginary.dtype.np))
            return self._assert(zero, "Not self-adjoint:  The spectrum contained non-zero imaginary part.")

    def assert_positive_definite(self, name: str = "assert_positive_definite") -> Operation:
        """An op that fails unless the real parts of the spectrum are above 0."""
        with self._scope(name):
            real = self._part("Real") if self._spectrum.dtype.is_complex else self._spectrum
            positive = build("Greater", real, np.array(0, real.dtype.np))
            return self._assert(
                positive,
                "Not positive definite:  Real part of spectrum was not all positive.",
            )


@public("linalg.LinearOperatorCirculant")
class LinearOperatorCirculant(_Circulant):
    """Circulant matrices: each column is the one before moved down by one, around the end.

    Args:
        spectrum: eigenvalues ``[..., n]``, the Fourier transform of the first columns; real or complex.
        input_output_dtype: dtype of the matrix and of what it multiplies; for a real one the spectrum must be
            Hermitian, or imaginary parts are dropped.
        is_non_singular: whether it can be inverted, if that is known.
        is_self_adjoint: whether it is its own conjugate transpose; known for a real spectrum.
        is_positive_definite: whether it is positive definite, if that is known.
        is_square: True or None.
        name: name of the scope of its ops.

    Raises:
        ValueError: too few dimensions, or hints that contradict each other. TypeError: an integer spectrum.

    Example:
        >>> import anabranch as tf
        >>> operator = tf.linalg.LinearOperatorCirculant([6.0, 0.0, 0.0], input_output_dtype=tf.float32)
        >>> tf.Session().run(operator.matvec([1.0, 2.0, 3.0])).round(3).tolist()
        [12.0, 12.0, 12.0]
    """

    depth = 1


@public("linalg.LinearOperatorCirculant2D")
class LinearOperatorCirculant2D(_Circulant):
    """Circulant matrices of circulant blocks, of a spectrum ``[..., n0, n1]``; else as `LinearOperatorCirculant`."""

    depth = 2


@public("linalg.LinearOperatorCirculant3D")
class LinearOperatorCirculant3D(_Circulant):
    """Circulant matrices of such blocks, of a spectrum ``[..., n0, n1, n2]``; else as `LinearOperatorCirculant`."""

    depth = 3


@public("linalg.LinearOperatorToeplitz")
class LinearOperatorToeplitz(LinearOperator):
    """Toeplitz matrices: each diagonal holds one number.

    Args:
        col: first columns ``[..., n]``.
        row: first rows ``[..., n]``; their first numbers are those of ``col``.
        is_non_singular: whether it can be inverted, if that is known.
        is_self_adjoint: whether it is its own conjugate transpose, if that is known.
        is_positive_definite: whether it is positive definite, if that is known.
        is_square: True or None.
        name: name of the scope of its ops.

    Raises:
        ValueError: ``is_square=False``, or no dimension.

    Example:
        >>> import anabranch as tf
        >>> operator = tf.linalg.LinearOperatorToeplitz([1.0, 2.0, 3.0], [1.0, 4.0, 5.0])
        >>> tf.Session().run(operator.to_dense()).tolist()
        [[1.0, 4.0, 5.0], [2.0, 1.0, 4.0], [3.0, 2.0, 1.0]]
    """

    def __init__(
        self,
        col: Any,
        row: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorToeplitz",
    ) -> None:
        _always_square(is_square, "A Toeplitz operator")
        with name_scope(name, values=[col, row]):
            self._col = convert_to_tensor(col, name="col")
            self._row = convert_to_tensor(row, self._col.dtype.base, name="row")
        for what, line in (("col", self._col), ("row", self._row)):
            if line._shape == ():
                raise ValueError(
                    f"Argument {what} must have at least 1 dimension.\n"
                    + errors.message(f"{what} of shape []", "[..., n]", "tf.reshape(x, [1])")
                )
        super().__init__(
            self._col.dtype,
            [self._col, self._row],
            is_non_singular,
            is_self_adjoint,
            is_positive_definite,
            True,
            name,
        )

    @property
    def col(self) -> Any:
        """The first columns."""
        return self._col

    @property
    def row(self) -> Any:
        """The first rows."""
        return self._row

    def _raw(self) -> shapes.RawShape:
        col, row = self._col._shape, self._row._shape
        if col is None or row is None:
            return None
        size = col[-1] if col[-1] is not None else row[-1]
        return (*shapes.broadcast(col[:-1], row[:-1]), size, size)  # type: ignore[misc]

    def _sizes(self) -> Any:
        raw = self._raw()
        if raw is not None and None not in raw:
            return list(raw)
        whole = build("BroadcastArgs", build("Shape", self._col), build("Shape", self._row))
        return build("ConcatV2", [whole, whole[-1:]], 0)

    def _around(self) -> Any:
        """First columns ``[..., 2 n]`` of circulant matrices whose corners these are, and n."""
        sizes = self._sizes()[:-1]
        target = convert_to_tensor(sizes, dtypes.int32)
        col, row = build("BroadcastTo", self._col, target), build("BroadcastTo", self._row, target)
        back = build("ReverseV2", row[..., 1:], [-1])
        return build("ConcatV2", [col, build("ZerosLike", col[..., :1]), back], -1)

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        wide = _complex_of(self._dtype)
        x = _cast(adjoint_of(x) if adjoint_arg else x, wide)
        rows = _swapped(x)
        spectrum = build("FFT", _cast(self._around(), wide))
        spectrum = build("ExpandDims", conj(spectrum) if adjoint else spectrum, -2)
        padded = build("ConcatV2", [rows, build("ZerosLike", rows)], -1)
        result = build("IFFT", build("Mul", build("FFT", padded), spectrum))
        size = build("StridedSlice", build("Shape", rows), [-1], [0], [1], shrink_axis_mask=1)
        return _cast(_swapped(result[..., :size]), self._dtype)

    def _to_dense(self) -> Any:
        size = convert_to_tensor(self._sizes()[-1], dtypes.int32)
        places = build("Range", 0, size, 1)
        down = build("Sub", build("ExpandDims", places, 1), build("ExpandDims", places, 0))
        return build("GatherV2", self._around(), build("FloorMod", down, build("Mul", size, 2)), -1)

    def _diag_part(self) -> Any:
        return build("BroadcastTo", self._col[..., :1], convert_to_tensor(self._sizes()[:-1], dtypes.int32))


@public("linalg.LinearOperatorHouseholder")
class LinearOperatorHouseholder(LinearOperator):
    """Reflections at the planes that vectors are normal to: ``I - 2 v v' / |v|^2``.

    Args:
        reflection_axis: the vectors ``[..., n]``, not 0.
        is_non_singular: True or None.
        is_self_adjoint: True or None.
        is_positive_definite: False or None: the determinant is -1.
        is_square: True or None.
        name: name of the scope of its ops.

    Raises:
        ValueError: a hint that no reflection fits.

    Example:
        >>> import anabranch as tf
        >>> operator = tf.linalg.LinearOperatorHouseholder([0.0, 2.0])
        >>> tf.Session().run(operator.to_dense()).tolist()
        [[1.0, 0.0], [0.0, -1.0]]
    """

    def __init__(
        self,
        reflection_axis: Any,
        is_non_singular: bool | None = None,
        is_self_adjoint: bool | None = None,
        is_positive_definite: bool | None = None,
        is_square: bool | None = None,
        name: str = "LinearOperatorHouseholder",
    ) -> None:
        _always_square(is_square, "A Householder operator")
        for what, hint, right in (
            ("self-adjoint", is_self_adjoint, True),
            ("non-singular", is_non_singular, True),
            ("positive definite", is_positive_definite, False),
        ):
            if hint not in (None, right):
                raise ValueError(
                    f"A Householder operator is always {'' if right else 'not '}{what}.\n"
                    + errors.message(f"the hint {hint}", f"None or {right}", "the hint left out")
                )
        with name_scope(name, values=[reflection_axis]):
            self._axis = convert_to_tensor(reflection_axis, name="reflection_axis")
        if self._axis._shape == ():
            raise ValueError(
                "Argument reflection_axis must have at least 1 dimension.\n"
                + errors.message("shape []", "[..., n]", "tf.reshape(x, [1])")
            )
        super().__init__(self._axis.dtype, [self._axis], True, True, is_positive_definite, True, name)

    @property
    def reflection_axis(self) -> Any:
        """The vectors."""
        return self._axis

    def _raw(self) -> shapes.RawShape:
        raw = self._axis._shape
        return None if raw is None else (*raw, raw[-1])

    def _sizes(self) -> Any:
        own = shape_of(self._axis)
        return joined(own, own[-1:])

    def _unit(self) -> Any:
        """The vectors as columns of length 1."""
        squares = _cast(build("Mul", self._axis, conj(self._axis)), self._dtype.real_dtype)
        length = build("Sqrt", build("Sum", squares, [-1], keep_dims=True))
        return build("ExpandDims", build("RealDiv", self._axis, _cast(length, self._dtype)), -1)

    def _matmul(self, x: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        x = adjoint_of(x) if adjoint_arg else x
        unit = self._unit()
        along = product(unit, x, adjoint=True)
        return build("Sub", x, build("Mul", product(unit, along), self._number(2)))

    def _solve(self, rhs: Any, adjoint: bool, adjoint_arg: bool) -> Any:
        return self._matmul(rhs, adjoint, adjoint_arg)

    def _each(self, value: float, dtype: dtypes.DType) -> Any:
        sizes = convert_to_tensor(self._sizes()[:-2], dtypes.int32)
        return build("Fill", sizes, np.array(value, dtype.np))

    def _determinant(self) -> Any:
        return self._each(-1, self._dtype)

    def _log_abs_determinant(self) -> Any:
        return self._each(0, self._dtype.real_dtype)

    def _diag_part(self) -> Any:
        unit = build("Squeeze", self._unit(), squeeze_dims=[-1])
        own = build("Mul", unit, conj(unit))
        return build("Sub", self._number(1), build("Mul", own, self._number(2)))
