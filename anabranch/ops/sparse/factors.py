"""Sums over the entries of a sparse matrix that weighted alternating least squares are made of.

Hu, Koren and Volinsky (2008): with factors ``V`` of the columns at hand, each row's factors solve a small system whose
two sides are sums over that row's entries. Only entries that are there are visited: memory is that of the results.
"""

from __future__ import annotations

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, Cost, NotDifferentiable, Op
from anabranch.core.values import shapes

_WRONG = errors.InvalidArgumentError


class WALSComputePartialLhsAndRhs(Op):
    """Both sides of the systems of ``n`` rows, as far as they depend on the matrix' entries.

    The weight of an entry is ``w = input_weights[row] * factor_weights[column]``, or its own of ``entry_weights`` (the
    other two are empty then). With the factors ``f`` ``[k]`` of its column the left sides ``[n, k, k]`` are sums of
    ``w * outer(f, f)`` over the entries of each row, the right ones ``[n, k]`` sums of
    ``(unobserved_weights + w) * value * f``.
    """

    signature = (
        "factors: float, factor_weights: float, unobserved_weights: float, input_weights: float, input_indices: int64, "
        "input_values: float, entry_weights: float, input_block_size: int64, input_is_transpose: bool "
        "-> partial_lhs: float, partial_rhs: float"
    )
    effect = PURE
    cost = Cost.HEAVY
    gradient = NotDifferentiable("factors are solved for")

    def shape(c):
        columns, depth = c.with_rank("factors", 2)
        (entries,) = c.with_rank("entry_weights", 1)
        (weights,) = c.with_rank("factor_weights", 1)
        if entries == 0:
            shapes.merge_dim(columns, weights)
        for name in ("input_weights", "input_values"):
            c.with_rank(name, 1)
        c.with_rank("input_indices", 2)
        for name in ("unobserved_weights", "input_block_size", "input_is_transpose"):
            c.with_rank(name, 0)
        rows = c.scalar("input_block_size")
        return [(rows, depth, depth), (rows, depth)]

    def host_kernel(ctx, inputs, attrs):
        factors, factor_weights, unobserved, input_weights, indices, values, entry_weights, size, transposed = inputs
        ranks = {"factors": (factors, 2), "input_indices": (indices, 2), "factor_weights": (factor_weights, 1)}
        ranks |= {"input_weights": (input_weights, 1), "input_values": (values, 1), "entry_weights": (entry_weights, 1)}
        for name, (value, rank) in ranks.items():
            ctx.check(value.ndim == rank, _WRONG, f"Input {name} should be a {'vector' if rank == 1 else 'matrix'}.")
        rows, columns = indices.T[::-1] if transposed else indices.T
        for name, places, count in (("row", rows, int(size)), ("column", columns, len(factors))):
            inside = not len(places) or (places.min() >= 0 and places.max() < count)
            ctx.check(inside, _WRONG, f"a {name} of input_indices is not in [0, {count})")
        if entry_weights.size:
            ctx.check(len(entry_weights) == len(values), _WRONG, "entry_weights must be as many as input_values")
            by_factors = input_weights.size or factor_weights.size
            ctx.check(not by_factors, _WRONG, "input_weights and factor_weights must be empty beside entry_weights")
            weights = entry_weights
        else:
            ctx.check(len(factor_weights) == len(factors), _WRONG, "factor_weights must be as many as factors")
            ctx.check(len(input_weights) >= int(size), _WRONG, "input_weights must be as many as rows")
            weights = input_weights[rows] * factor_weights[columns]
        ctx.check(not len(weights) or weights.min() >= 0, _WRONG, "weights of entries must be at least 0")
        depth = factors.shape[1]
        left, right = np.zeros((int(size), depth, depth), np.float32), np.zeros((int(size), depth), np.float32)
        if not len(rows):
            return left, right
        order = np.argsort(rows, kind="stable")
        rows, weights = rows[order], weights[order]
        own = factors[columns[order]]
        scaled = (values[order] * (unobserved + weights))[:, None] * own
        own *= np.sqrt(weights)[:, None]
        starts = np.flatnonzero(np.r_[True, rows[1:] != rows[:-1]])
        for start, end in zip(starts, np.r_[starts[1:], len(rows)], strict=True):
            part = own[start:end]
            np.matmul(part.T, part, out=left[rows[start]])
        right[rows[starts]] = np.add.reduceat(scaled, starts, axis=0)
        return left, right


class MaskedMatmul(Op):
    """Elements of the product of two matrices, those at ``mask_indices`` ``[n, 2]`` alone: ``[n]``."""

    signature = "a: float, b: float, mask_indices: int64, transpose_a: bool, transpose_b: bool -> prod_values: float"
    effect = PURE
    cost = Cost.HEAVY
    compile_time = ("transpose_a", "transpose_b")
    gradient = NotDifferentiable("factors are solved for")

    def shape(c):
        for name in ("a", "b"):
            c.with_rank(name, 2)
        for name in ("transpose_a", "transpose_b"):
            c.with_rank(name, 0)
        return (c.with_rank("mask_indices", 2)[0],)

    def kernel(ctx, inputs, attrs):
        a, b, places, transpose_a, transpose_b = inputs
        ctx.check(a.ndim == 2 and b.ndim == 2, _WRONG, "Inputs a and b should be matrices.")
        ctx.check(places.ndim == 2 and places.shape[1] == 2, _WRONG, "mask_indices should have the shape [n, 2]")
        left, right = a.T if transpose_a else a, b if transpose_b else b.T
        ctx.check(
            left.shape[1] == right.shape[1],
            _WRONG,
            f"Matrix shapes are incompatible: a has shape {a.shape}, while b has shape {b.shape}.",
        )
        xp = ctx.xp
        for name, place, count in (("row", places[:, 0], len(left)), ("column", places[:, 1], len(right))):
            ctx.check(xp.all((place >= 0) & (place < count)), _WRONG, f"a {name} of mask_indices not in [0, {count})")
        return xp.sum(left[places[:, 0]] * right[places[:, 1]], axis=1)
