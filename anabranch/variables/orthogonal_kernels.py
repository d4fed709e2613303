"""Initializers of convolutions that keep the norm of what they are applied to.

Delta-orthogonal kernels (Xiao and others, 2018) are an orthogonal matrix in the middle and zeros around it. Orthogonal
kernels of two and more elements are made of projections (Kautsky and Turcajova, 1994; Xiao and others, 2018): a kernel
with two elements along each axis takes, for each axis, a projection at one end and its complement at the other;
kernels of more elements are convolutions of such kernels, and all is multiplied by an orthogonal matrix.
"""

from __future__ import annotations

import itertools
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.tensor import Tensor
from anabranch.core.values import dtypes
from anabranch.variables.initializers import Initializer, PartitionInfo, _floating, _function

_Kernel = dict[tuple[int, ...], Any]
"""A kernel by position: a matrix for each."""


def _check_filters(inputs: int, outputs: int) -> None:
    if inputs > outputs:
        raise ValueError(
            "In_filters cannot be greater than out_filters.\n"
            + errors.message(
                f"{inputs} input and {outputs} output channels", "at most as many inputs as outputs", "filters="
            )
        )


class _OfConvolution(Initializer):
    """What the initializers of this module share."""

    axes = 0
    """How many axes a kernel has besides its channels."""

    def __init__(self, gain: float = 1.0, seed: int | None = None, dtype: Any = dtypes.float32) -> None:
        self.gain = gain
        self.seed = seed
        self.dtype = _floating(dtype)

    def get_config(self) -> dict[str, Any]:
        return {"gain": self.gain, "seed": self.seed, "dtype": self.dtype.name}

    def _orthogonal_matrix(self, n: int, seed: list[int | None]) -> Any:
        q, r = build("Qr", _normal([n, n], self.dtype, seed), full_matrices=False)
        return build("Mul", q, build("Sign", build("DiagPart", r)))

    def _projection(self, n: int, seed: list[int | None]) -> Any:
        """A symmetric projection of ``n`` dimensions onto a random half of them."""
        q = self._orthogonal_matrix(n, seed)
        normal = _normal([n], self.dtype, seed)
        chosen = build("Cast", build("Greater", normal, build("ZerosLike", normal)), DstT=self.dtype)
        columns = build("Mul", q, chosen)
        return build("MatMul", columns, columns, transpose_b=True)

    def _block(self, n: int, seed: list[int | None]) -> _Kernel:
        """A kernel of two elements along each axis."""
        one = build("MatrixDiag", _function("ones")([n], self.dtype))
        ends = []
        for _ in range(self.axes):
            projection = self._projection(n, seed)
            ends.append((projection, build("Sub", one, projection)))
        # Of three axes it is the far end that takes the projection, as in TensorFlow.
        far = self.axes == 3
        return {
            place: _product([ends[axis][side != far] for axis, side in enumerate(place)])
            for place in itertools.product((0, 1), repeat=self.axes)
        }

    def _kernel(self, size: int, inputs: int, outputs: int) -> Tensor:
        """A kernel of ``size`` elements along each axis, ``[size, ..., inputs, outputs]``."""
        _check_filters(inputs, outputs)
        seed = [self.seed]
        matrix = self._orthogonal_matrix(outputs, seed)[:inputs, :]
        kernel: _Kernel = {(0,) * self.axes: matrix}
        if size > 1:
            whole = self._block(outputs, seed)
            for _ in range(size - 2):
                whole = _convolved(whole, self._block(outputs, seed))
            kernel = {place: build("MatMul", matrix, part) for place, part in whole.items()}
        listed = build("Pack", [kernel[place] for place in sorted(kernel)], axis=0)
        return build("Reshape", listed, [*[size] * self.axes, inputs, outputs])

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        sizes = [int(size) for size in shape]
        if len(sizes) != self.axes + 2:
            raise ValueError(
                f"The tensor to initialize must be {('three', 'four', 'five')[self.axes - 1]}-dimensional\n"
                + errors.message(f"shape {sizes}", f"{self.axes + 2} dimensions", "the initializer of that convolution")
            )
        if len(set(sizes[: self.axes])) > 1:
            told = errors.message(f"shape {sizes}", "equal kernel sizes", "kernel_size=3")
            raise ValueError(f"Kernel sizes must be equal.\n{told}")
        kernel = self._kernel(sizes[0], sizes[-2], sizes[-1])
        return build("Mul", kernel, build("Cast", self.gain, DstT=self.dtype))


def _normal(shape: list[int], dtype: dtypes.DType, seed: list[int | None]) -> Any:
    """Normal numbers of the current seed, which goes on to the next."""
    numbers = _function("random_normal")(shape, dtype=dtype, seed=seed[0])
    if seed[0]:
        seed[0] += 1
    return numbers


def _product(matrices: list[Any]) -> Any:
    result = matrices[0]
    for one in matrices[1:]:
        result = build("MatMul", result, one)
    return result


def _convolved(one: _Kernel, other: _Kernel) -> _Kernel:
    """The kernel of two convolutions one after the other."""
    sums: dict[tuple[int, ...], list[Any]] = {}
    for (a, left), (b, right) in itertools.product(sorted(one.items()), sorted(other.items())):
        place = tuple(i + j for i, j in zip(a, b, strict=True))
        sums.setdefault(place, []).append(build("MatMul", left, right))
    return {place: products[0] if len(products) == 1 else build("AddN", products) for place, products in sums.items()}


@public("contrib.framework.convolutional_delta_orthogonal")
class ConvolutionDeltaOrthogonal(_OfConvolution):
    """An orthogonal matrix in the middle of a kernel, times ``gain``, and zeros around it.

    Args:
        gain: by which the norm of an input changes.
        seed: of the op.
        dtype: floating.
    """

    def __call__(self, shape: Any, dtype: Any = None, partition_info: PartitionInfo | None = None) -> Tensor:
        dtype = dtypes.as_dtype(self.dtype if dtype is None else dtype)
        sizes = [int(size) for size in shape]
        if not 3 <= len(sizes) <= 5:
            raise ValueError(
                "The tensor to initialize must be at least three-dimensional and at most five-dimensional\n"
                + errors.message(f"shape {sizes}", "three to five dimensions", "the kernel of a convolution")
            )
        _check_filters(sizes[-2], sizes[-1])
        normal = _normal([sizes[-1], sizes[-1]], dtype, [self.seed])
        q, r = build("Qr", normal, full_matrices=False)
        matrix = build("Mul", q, build("Sign", build("DiagPart", r)))[: sizes[-2], :]
        matrix = build("Mul", matrix, build("Cast", self.gain, DstT=dtype))
        middle = [[(size - 1) // 2 for size in sizes[:-2]]]
        return build("ScatterNd", middle, build("ExpandDims", matrix, 0), sizes)


@public("contrib.framework.convolutional_orthogonal_1d")
class ConvolutionOrthogonal1D(_OfConvolution):
    """An orthogonal kernel ``[size, inputs, outputs]``; arguments are those of the delta-orthogonal one."""

    axes = 1


@public("contrib.framework.convolutional_orthogonal_2d")
class ConvolutionOrthogonal2D(_OfConvolution):
    """An orthogonal kernel ``[size, size, inputs, outputs]``; arguments are those of the delta-orthogonal one."""

    axes = 2


@public("contrib.framework.convolutional_orthogonal_3d")
class ConvolutionOrthogonal3D(_OfConvolution):
    """An orthogonal kernel ``[size, size, size, inputs, outputs]``; arguments are those of the delta-orthogonal one."""

    axes = 3
