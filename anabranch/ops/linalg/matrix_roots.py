"""Square roots and logarithms of matrices. On the host.

Policy. The square root is Denman and Beavers' iteration in its product form with scaling by determinants (Higham,
2008, section 6.3); the logarithm takes roots until the matrix is near the identity and then integrates (section 11.4).
Matrices without a principal value (with eigenvalues on the negative axis, or 0) give NaN.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.contract.api import public_op
from anabranch.core.contract.opdef import PURE, Cost, NotDifferentiable, Op, Type
from anabranch.core.graph.build import build
from anabranch.ops.linalg.rules import FLOATS, each, matrices, routine, square_shape, transposed
from anabranch.ops.shared import host_blas
from anabranch.ops.shared.array_rules import dense

_ROUNDS = 40
_NODES = 10


def _root(x: np.ndarray) -> np.ndarray:
    """The principal square roots of matrices ``[..., n, n]``."""
    size = x.shape[-1]
    one = np.eye(size, dtype=x.dtype)
    product, root = x, x
    limit = 8 * size * np.finfo(x.dtype).eps
    for _ in range(_ROUNDS):
        inverse = routine(np.linalg.inv, product)
        _, magnitude = routine(np.linalg.slogdet, product)
        scale = np.exp(-magnitude / size)[..., None, None].astype(product.real.dtype)  # the square of the factor
        scale = np.where(np.isfinite(scale), scale, 1)
        away = np.max(np.abs(product - one), axis=(-2, -1), initial=0)[..., None, None]
        scale = np.where(away < 0.01, 1, scale).astype(product.real.dtype)
        root = 0.5 * np.sqrt(scale) * host_blas.product(root, one + inverse / scale)
        product = 0.5 * (one + 0.5 * (scale * product + inverse / scale))
        if not np.any(away > limit):
            break
    worked = np.max(np.abs(host_blas.product(root, root) - x), axis=(-2, -1)) <= np.sqrt(np.finfo(x.dtype).eps) * (
        np.max(np.abs(x), axis=(-2, -1)) + np.finfo(x.dtype).tiny
    )
    return np.where(worked[..., None, None], root, np.nan).astype(x.dtype)


def _logarithm(x: np.ndarray) -> np.ndarray:
    """The principal logarithms of matrices ``[..., n, n]``."""
    size = x.shape[-1]
    one = np.eye(size, dtype=x.dtype)
    steps = 0
    while np.nanmax(np.sum(np.abs(x - one), axis=-2), initial=0) > 0.25 and steps < _ROUNDS:
        x = _root(x)
        steps += 1
    difference = x - one
    # log(1 + r) is the integral of r / (1 + t r) for t from 0 to 1.
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    logarithm = np.zeros_like(x)
    for node, weight in zip((nodes + 1) / 2, weights / 2, strict=True):
        logarithm = logarithm + weight * routine(np.linalg.solve, one + node * difference, difference)
    return logarithm * 2.0**steps


def _by_matrix(function: Any, x: Any) -> Any:
    if x.size == 0:
        return x
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    flat = wide.reshape(-1, *x.shape[-2:])
    matrices = np.stack([each(function, matrix[None])[0][0] for matrix in flat])
    return matrices.reshape(x.shape).astype(x.dtype)


class MatrixSquareRoot(Op):
    """The principal square roots of matrices ``[..., n, n]``: ``output @ output = input``."""

    signature = "input: T -> output: T"
    attrs = {"T": Type(FLOATS)}
    effect = PURE
    cost = Cost.HEAVY
    shape = square_shape

    def host_kernel(ctx, inputs, attrs):
        matrices(ctx, inputs[0])
        return _by_matrix(_root, inputs[0])

    def gradient(op, grad):
        # A change dx of the root x solves x dx + dx x = da, so that what comes back solves x^H y + y x^H = grad: by
        # rows y is a vector v, and (x^H (*) 1 + 1 (*) conj(x)) v = grad, with the Kronecker product (*).
        root, grad = op.outputs[0], dense(grad)
        size = build("Shape", root)
        lead, side = size[:-2], size[-1]
        one = build("MatrixDiag", build("Fill", size[:-1], np.array(1, root.dtype.base.np)))
        conjugate = build("Conj", root) if root.dtype.is_complex else root
        both = build("ConcatV2", [lead, build("Pack", [build("Mul", side, side)] * 2, axis=0)], 0)
        system = build("Add", _kronecker(transposed(root), one, both), _kronecker(one, conjugate, both))
        vector = build("Reshape", grad, build("ConcatV2", [both[:-1], [1]], 0))
        return [build("Reshape", build("MatrixSolve", system, vector), size)]


def _kronecker(a: Any, b: Any, shape: Any) -> Any:
    """The Kronecker products of matrices ``[..., n, n]``, as ``shape``."""
    left = build("ExpandDims", build("ExpandDims", a, -1), -3)  # [..., i, 1, j, 1]
    right = build("ExpandDims", build("ExpandDims", b, -2), -4)  # [..., 1, k, 1, l]
    return build("Reshape", build("Mul", left, right), shape)


class MatrixLogarithm(Op):
    """The principal logarithms of complex matrices ``[..., n, n]``: ``exp(output) = input``."""

    signature = "input: T -> output: T"
    attrs = {"T": Type("complex64 complex128")}
    effect = PURE
    cost = Cost.HEAVY
    shape = square_shape
    gradient = NotDifferentiable("TensorFlow has no gradient of it")

    def host_kernel(ctx, inputs, attrs):
        matrices(ctx, inputs[0])
        return _by_matrix(_logarithm, inputs[0])


public_op("MatrixSquareRoot", "linalg.sqrtm", "matrix_square_root", arguments="input")
public_op("MatrixLogarithm", "linalg.logm", arguments="input")
