"""Products and solutions with tridiagonal matrices, which are given by their three diagonals.

Policy. A solution is Gaussian elimination along the diagonal, all matrices of a batch at once: a scan forward that may
exchange neighbouring rows, and one back. Both tiers do the same steps.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.kernels import uses_lax
from anabranch.core.contract.opdef import PURE, Bool, Cost, Op, Type
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import shapes
from anabranch.ops.linalg.rules import transposed

_TYPES = "double float complex64 complex128"


def _conj(x: Any) -> Any:
    return build("Conj", x) if x.dtype.is_complex else x


def _shifted(x: Any, by: int) -> Any:
    """Rows ``[..., n, k]`` moved down by 1 (up for -1), zeros where nothing comes from."""
    zero = build("ZerosLike", x[..., :1, :])
    return build("ConcatV2", [zero, x[..., :-1, :]] if by > 0 else [x[..., 1:, :], zero], -2)


# ------------------------------------------------------------------------------------------------------------- product
class TridiagonalMatMul(Op):
    """Tridiagonal matrices, of diagonals ``[..., 1, n]``, times ``rhs`` ``[..., n, k]``.

    The last element of ``superdiag`` and the first of ``subdiag`` do not count.
    """

    signature = "superdiag: T, maindiag: T, subdiag: T, rhs: T -> output: T"
    attrs = {"T": Type(_TYPES)}
    effect = PURE

    def shape(c):
        rhs = c.with_rank_at_least("rhs", 2)
        if rhs is None:
            return None
        for name in ("superdiag", "maindiag", "subdiag"):
            diagonal = c.with_rank_at_least(name, 2)
            rhs = shapes.merge(rhs, None if diagonal is None else (*diagonal[:-2], diagonal[-1], None))
        return rhs

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        above, main, below, x = inputs
        above, main, below = (xp.swapaxes(item, -1, -2) for item in (above, main, below))
        zeros = xp.zeros((*x.shape[:-2], 1, x.shape[-1]), x.dtype)
        up = xp.concatenate([x[..., 1:, :], zeros], axis=-2)
        down = xp.concatenate([zeros, x[..., :-1, :]], axis=-2)
        return main * x + above * up + below * down

    def gradient(op, grad):
        above, main, below, x = op.inputs
        above_x, main_x, below_x = (_conj(transposed(item, conjugate=False)) for item in (above, main, below))
        moved = build("Add", _shifted(build("Mul", above_x, grad), 1), _shifted(build("Mul", below_x, grad), -1))
        by_x = build("Add", build("Mul", main_x, grad), moved)
        by = [
            build("Sum", build("Mul", _conj(part), grad), [-1], keep_dims=True)
            for part in (_shifted(x, -1), x, _shifted(x, 1))
        ]
        return [*(transposed(part, conjugate=False) for part in by), by_x]


# ------------------------------------------------------------------------------------------------------------ solution
def _scan(ctx: Any, step: Any, start: Any, xs: Any, reverse: bool) -> Any:
    """``step(carry, row) -> (carry, out)`` over the first dimension of the arrays ``xs``."""
    if not ctx.host:
        return ctx.lax.scan(step, start, xs, reverse=reverse)
    count = len(xs[0])
    outs: list[Any] = [None] * count
    for i in range(count)[:: -1 if reverse else 1]:
        start, outs[i] = step(start, tuple(x[i] for x in xs))
    return start, tuple(np.stack(parts) for parts in zip(*outs, strict=True))


def _eliminated(ctx: Any, diagonals: Any, rhs: Any, pivoting: bool) -> Any:
    """Solutions ``[..., n, k]``; row vectors of the batch are carried along the diagonal."""
    xp = ctx.xp
    above, main, below = (xp.moveaxis(diagonals[..., i, :], -1, 0)[..., None] for i in range(3))
    b = xp.moveaxis(rhs, -2, 0)
    zero = xp.zeros_like(main[:1])
    above = xp.concatenate([above[:-1], zero])

    def forward(carry: Any, row: Any) -> Any:
        """Take the unknown of the row above (main, first and second element beside it, right side) out of a row."""
        d, u, v, y = carry
        low, mid, high, right = row
        if pivoting:
            swap = xp.abs(low) > xp.abs(d)
            d, low = xp.where(swap, low, d), xp.where(swap, d, low)
            u, mid = xp.where(swap, mid, u), xp.where(swap, u, mid)
            v, high = xp.where(swap, high, v), xp.where(swap, v, high)
            y, right = xp.where(swap, right, y), xp.where(swap, y, right)
        factor = low / d
        rest = (mid - factor * u, high - factor * v, xp.zeros_like(v), right - factor * y)
        return rest, (d, u, v, y)

    first = (main[0], above[0], xp.zeros_like(main[0]), b[0])
    last, rows = (
        _scan(ctx, forward, first, (below[1:], main[1:], above[1:], b[1:]), False) if len(main) > 1 else (first, ())
    )
    d, _, _, y = last
    end = y / d
    if not len(rows):
        return xp.moveaxis(end[None], 0, -2)

    def back(carry: Any, row: Any) -> Any:
        one, two = carry
        d, u, v, y = row
        solution = (y - u * one - v * two) / d
        return (solution, one), (solution,)

    _, (solution,) = _scan(ctx, back, (end, xp.zeros_like(end)), rows, True)
    return xp.moveaxis(xp.concatenate([solution, end[None]]), 0, -2)


def _solve(ctx: Any, inputs: Any, attrs: Any) -> Any:
    xp = ctx.xp
    diagonals, rhs = inputs
    if attrs["perturb_singular"]:
        raise errors.UnimplementedError(
            None,
            ctx.op,
            errors.message(
                "perturb_singular=True", "perturb_singular=False", "add a small number to the main diagonal"
            ),
        )
    if rhs.size == 0:
        return rhs
    solution = _eliminated(ctx, diagonals, rhs, attrs["partial_pivoting"])
    good = xp.all(xp.isfinite(diagonals)) & xp.all(xp.isfinite(rhs))
    ctx.check(
        xp.all(xp.isfinite(solution)) | ~good,
        errors.InvalidArgumentError,
        "The first element of diagonal is zero, or the matrix is not invertible."
        if not attrs["partial_pivoting"]
        else "The matrix is not invertible.",
    )
    return solution


class TridiagonalSolve(Op):
    """Solutions ``[..., n, k]`` of tridiagonal systems, of ``diagonals`` ``[..., 3, n]``: upper, main and lower one.

    The last element of the upper and the first of the lower one do not count. Without ``partial_pivoting`` rows are not
    exchanged.
    """

    signature = "diagonals: T, rhs: T -> output: T"
    attrs = {"partial_pivoting": Bool(True), "perturb_singular": Bool(False), "T": Type(_TYPES)}
    effect = PURE
    cost = Cost.HEAVY

    def shape(c):
        diagonals, rhs = c.with_rank_at_least("diagonals", 2), c.with_rank_at_least("rhs", 2)
        if diagonals is None or rhs is None:
            return rhs
        if diagonals[-2] not in (None, 3):
            raise ValueError(
                f"Dimension must be 3 but is {diagonals[-2]}\n"
                + errors.message(f"diagonals of shape {shapes.show(diagonals)}", "[..., 3, n]", "tf.stack them")
            )
        return shapes.merge((*diagonals[:-2], diagonals[-1], None), rhs)

    @uses_lax
    def kernel(ctx, inputs, attrs):
        return _solve(ctx, inputs, attrs)

    def host_kernel(ctx, inputs, attrs):
        return _solve(ctx, inputs, attrs)

    def gradient(op, grad):
        diagonals, x = op.inputs[0], op.outputs[0]
        above, main, below = (diagonals[..., i, :] for i in range(3))
        turned = build("Pack", [_moved(below, -1), main, _moved(above, 1)], axis=-2)
        options = {key: op.get_attr(key) for key in ("partial_pivoting", "perturb_singular")}
        by_rhs = build("TridiagonalSolve", _conj(turned), grad, **options)
        parts = [
            build("Neg", build("Sum", build("Mul", by_rhs, _conj(part)), [-1]))
            for part in (_shifted(x, -1), x, _shifted(x, 1))
        ]
        return [build("Pack", parts, axis=-2), by_rhs]


def _moved(x: Any, by: int) -> Any:
    """``[..., n]`` moved right by 1 (left for -1), a zero where nothing comes from."""
    zero = build("ZerosLike", x[..., :1])
    return build("ConcatV2", [zero, x[..., :-1]] if by > 0 else [x[..., 1:], zero], -1)


# ----------------------------------------------------------------------------------------------------------- functions
def _three(diagonals: Any, form: str) -> list[Any]:
    """The diagonals ``[..., n]`` above, on and below the main one."""
    if form == "matrix":
        diagonals = convert_to_tensor(diagonals)
        shape = diagonals.shape.as_list()
        if shape[-1] is None or shape[-1] != shape[-2]:
            raise ValueError(
                errors.message(
                    f"matrices of shape {diagonals.shape}",
                    "matrices [..., n, n] with a known n",
                    "matrices.set_shape([n, n])",
                )
            )
        main = build("MatrixDiagPart", diagonals)
        if shape[-1] == 1:
            return [build("ZerosLike", main), main, build("ZerosLike", main)]
        above, below = diagonals[..., :-1, 1:], diagonals[..., 1:, :-1]
        lead = [[0, 0]] * (len(shape) - 2)
        return [
            build("Pad", build("MatrixDiagPart", above), [*lead, [0, 1]]),
            main,
            build("Pad", build("MatrixDiagPart", below), [*lead, [1, 0]]),
        ]
    if form == "sequence":
        if not isinstance(diagonals, (list, tuple)) or len(diagonals) != 3:
            raise ValueError(
                "Expected diagonals to be a sequence of length 3.\n"
                + errors.message(f"{type(diagonals).__name__}", "[above, main, below]", "diagonals_format='compact'")
            )
        above, main, below = (convert_to_tensor(item) for item in diagonals)
        size: Any = main.shape.as_list()[-1]
        rank: Any = main.shape.ndims
        # Programs may give the outer diagonals with n - 1 elements; the op reads n and ignores the first or last one.
        lead = [[0, 0]] * (rank - 1)
        if above.shape.as_list()[-1] == size - 1:
            above = build("Pad", above, [*lead, [0, 1]])
        if below.shape.as_list()[-1] == size - 1:
            below = build("Pad", below, [*lead, [1, 0]])
        return [above, main, below]
    if form != "compact":
        raise ValueError(
            f"Unrecognized diagonals_format: {form}\n"
            + errors.message(f"diagonals_format={form!r}", "'compact', 'sequence' or 'matrix'", "'compact'")
        )
    diagonals = convert_to_tensor(diagonals)
    if diagonals.shape.as_list()[-2] != 3:
        raise ValueError(
            f"Expected diagonals to have shape [..., 3, M], got {diagonals.shape}\n"
            + errors.message(
                f"diagonals of shape {diagonals.shape}", "[..., 3, n]", "tf.stack([above, main, below], -2)"
            )
        )
    return [diagonals[..., i, :] for i in range(3)]


@public("linalg.tridiagonal_solve")
def tridiagonal_solve(
    diagonals: Any,
    rhs: Any,
    diagonals_format: str = "compact",
    transpose_rhs: bool = False,
    conjugate_rhs: bool = False,
    name: str | None = None,
    partial_pivoting: bool = True,
    perturb_singular: bool = False,
) -> Tensor:
    """Solutions of tridiagonal systems.

    Args:
        diagonals: ``"compact"``: ``[..., 3, n]``; ``"sequence"``: three tensors ``[..., n]``; ``"matrix"``:
            ``[..., n, n]``.
        rhs: ``[..., n]`` or ``[..., n, k]``.
        diagonals_format: one of these names.
        transpose_rhs: whether ``rhs`` is ``[..., k, n]``.
        conjugate_rhs: whether to conjugate it.
        name: of the ops.
        partial_pivoting: whether rows may be exchanged.
        perturb_singular: not supported.

    Returns:
        Of the shape of ``rhs``.
    """
    with name_scope(name, "tridiagonal_solve", [rhs]):
        three = _three(diagonals, diagonals_format)
        packed = build("Pack", three, axis=-2)
        rhs = convert_to_tensor(rhs, packed.dtype.base)
        vector = rhs.shape.ndims == packed.shape.ndims - 1
        if conjugate_rhs:
            rhs = _conj(rhs)
        if vector:
            rhs = build("ExpandDims", rhs, -1)
        elif transpose_rhs:
            rhs = transposed(rhs, conjugate=False)
        options: Any = {"partial_pivoting": partial_pivoting, "perturb_singular": perturb_singular}
        solution = build("TridiagonalSolve", packed, rhs, **options)
        if vector:
            return build("Squeeze", solution, squeeze_dims=[-1])
        return transposed(solution, conjugate=False) if transpose_rhs else solution


@public("linalg.tridiagonal_matmul")
def tridiagonal_matmul(diagonals: Any, rhs: Any, diagonals_format: str = "compact", name: str | None = None) -> Tensor:
    """Tridiagonal matrices times ``rhs`` ``[..., n, k]``; ``diagonals`` as for ``tf.linalg.tridiagonal_solve``."""
    with name_scope(name, "tridiagonal_matmul", [rhs]):
        above, main, below = (build("ExpandDims", item, -2) for item in _three(diagonals, diagonals_format))
        return build("TridiagonalMatMul", above, main, below, convert_to_tensor(rhs, main.dtype.base))
