"""Sparse tensors put in order, reshaped, joined, cut, filled up. All on the host: NumPy sorts and counts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.inference import RawShape
from anabranch.core.contract.opdef import PURE, Bool, Int, NotDifferentiable, Op, Type, define
from anabranch.core.graph.build import build
from anabranch.core.values import shapes
from anabranch.ops.shared import row_sums
from anabranch.ops.shared.array_rules import NUMBERS, ints, require
from anabranch.ops.shared.widening import widen
from anabranch.ops.sparse.arithmetic import reduction
from anabranch.ops.sparse.rules import (
    REAL,
    SPARSE_INPUT,
    check_bounds,
    check_parts,
    dense_shape,
    in_order,
    keys,
    keys_in_order,
    outside,
    ranked,
    row_major,
    sparse_operand,
    unbounded,
    unflattened,
)

_NO_GRADIENT = NotDifferentiable("TensorFlow has no gradient for it")


class SparseReorder(Op):
    """Coordinates and values in row-major order."""

    signature = f"{SPARSE_INPUT} -> output_indices: int64, output_values: T"
    attrs = {"T": Type()}
    effect = PURE

    def shape(c):
        count, rank = sparse_operand(c, 0, 1, 2)
        return [(count, rank), (count,)]

    def host_kernel(ctx, inputs, attrs):
        indices, values, sizes = inputs
        check_parts(ctx, indices, values, sizes)
        if in_order(indices):
            return [indices, values]
        order = row_major(indices, sizes.tolist() if not outside(indices, sizes) else None)
        return [indices.take(order, axis=0), values.take(order)]

    def gradient(op, _, grad):
        indices, values, sizes = op.inputs
        count = build("StridedSlice", build("Shape", values), [0], [1], [1], shrink_axis_mask=1)
        order = build("SparseReorder", indices, build("Range", 0, count, 1), sizes)[1]
        return [None, build("GatherV2", grad, build("InvertPermutation", order), 0), None]


class SparseReshape(Op):
    """Coordinates for another dense shape with as many elements; one dimension of ``new_shape`` may be -1."""

    signature = (
        "input_indices: int64, input_shape: int64, new_shape: int64 -> output_indices: int64, output_shape: int64"
    )
    effect = PURE
    gradient = NotDifferentiable("coordinates are integers")

    def shape(c):
        count = c.with_rank(0, 2)[0]
        c.with_rank(1, 1)
        rank = c.with_rank(2, 1)[0]
        return [(count, rank), (rank,)]

    def value(c):
        sizes, wanted = c.vector(1), c.vector(2)
        if wanted is None:
            return [None, None]
        if wanted.count(-1) == 1 and sizes is not None and None not in sizes and None not in wanted:
            known_size = math.prod(item for item in wanted if item != -1)
            total = math.prod(sizes)
            if known_size and total % known_size == 0:
                wanted = [total // known_size if item == -1 else item for item in wanted]
        return [None, tuple([None if item == -1 else item for item in wanted])]

    def host_kernel(ctx, inputs, attrs):
        indices, sizes, wanted = inputs
        require(
            ctx, indices.ndim == 2, f"Input indices should be a matrix but received shape {shapes.show(indices.shape)}"
        )
        require(ctx, sizes.ndim == 1, f"Input shape should be a vector but received shape {shapes.show(sizes.shape)}")
        require(
            ctx, wanted.ndim == 1, f"Target shape should be a vector but received shape {shapes.show(wanted.shape)}"
        )
        require(ctx, indices.shape[1] == sizes.size, "Input shape must have one element for each column of indices")
        sizes, wanted = ints(sizes), list(ints(wanted))
        total = math.prod(sizes)
        open_ = [i for i, size in enumerate(wanted) if size == -1]
        require(
            ctx, len(open_) <= 1, "only one output dimension may be -1, not both {0} and {1}", *(open_ + [0, 0])[:2]
        )
        require(ctx, all(size >= -1 for size in wanted), f"size of the target shape {wanted} must be non-negative")
        if open_:
            known_size = math.prod(size for size in wanted if size != -1)
            require(
                ctx,
                known_size > 0,
                "reshape cannot infer the missing input size for an empty tensor unless all "
                "specified input sizes are non-zero",
            )
            require(
                ctx,
                total % known_size == 0,
                f"Input to reshape is a SparseTensor with {total} dense values, but the requested shape requires a "
                f"multiple of {known_size}. input_shape={list(sizes)} output_shape={wanted}",
            )
            wanted[open_[0]] = total // known_size
        require(
            ctx,
            math.prod(wanted) == total,
            f"Input to reshape is a tensor with {total} dense values, but the requested shape has "
            f"{math.prod(wanted)}. input_shape={list(sizes)} output_shape={wanted}",
        )
        require(ctx, total < 2**63, f"the dense shape {list(sizes)} has more elements than 64 bits can count")
        check_bounds(ctx, indices, np.array(sizes, np.int64))
        if not indices.size or not total:
            return [np.zeros((indices.shape[0], len(wanted)), np.int64), np.array(wanted, np.int64)]
        flat = np.ravel_multi_index(tuple(indices.T), sizes)
        coordinates = np.stack(np.unravel_index(flat, wanted), axis=1) if wanted else np.zeros((len(flat), 0))
        return [coordinates.astype(np.int64), np.array(wanted, np.int64)]


# --------------------------------------------------------------------------------------------------- joined and cut up
class SparseConcat(Op):
    """Sparse tensors joined along dimension ``concat_dim``, in row-major order; other dimensions must agree."""

    signature = (
        "indices: N * int64, values: N * T, shapes: N * int64 "
        "-> output_indices: int64, output_values: T, output_shape: int64"
    )
    attrs = {"concat_dim": Int(), "N": Int(minimum=2), "T": Type()}
    effect = PURE
    gradient = NotDifferentiable("TensorFlow says so")

    def shape(c):
        number = c.attrs["N"]
        count: int | None = 0
        rank = None
        for i in range(number):
            own, width = sparse_operand(c, i, number + i, 2 * number + i)
            count = None if count is None or own is None else count + own
            rank = shapes.merge_dim(rank, width)
        return [(count, rank), (count,), (rank,)]

    def host_kernel(ctx, inputs, attrs):
        number = attrs["N"]
        all_indices, all_values, all_sizes = (list(inputs[i * number : (i + 1) * number]) for i in range(3))
        for indices, values, sizes in zip(all_indices, all_values, all_sizes, strict=True):
            check_parts(ctx, indices, values, sizes)
        rank = all_sizes[0].size
        axis = attrs["concat_dim"]
        require(ctx, -rank <= axis < rank, f"Concat dimension must be in range [{-rank}, {rank}), got {axis}")
        axis %= rank
        total = np.array(all_sizes[0])
        moved = []
        offset = 0
        for i, (indices, sizes) in enumerate(zip(all_indices, all_sizes, strict=True)):
            require(
                ctx, sizes.size == rank, f"Ranks of all input tensors must match: expected {rank} but got {sizes.size}"
            )
            for d in range(rank):
                require(
                    ctx,
                    d == axis or sizes[d] == total[d],
                    f"Input shapes must match: expected {total[d]} for dimension {d} but got {sizes[d]} at position "
                    f"{i}",
                )
            step = np.zeros(rank, np.int64)
            step[axis] = offset
            moved.append(indices + step)
            offset += int(sizes[axis])
        total[axis] = offset
        indices, values = np.concatenate(moved), np.concatenate(all_values)
        order = row_major(indices, None if outside(indices, total) else total.tolist())
        return [indices.take(order, axis=0), values.take(order), total]


class SparseSplit(Op):
    """A sparse tensor cut into ``num_split`` parts along ``split_dim``; the first ones are one longer if need be."""

    signature = (
        "split_dim: int64, indices: int64, values: T, shape: int64 -> output_indices: num_split * int64, "
        "output_values: num_split * T, output_shape: num_split * int64"
    )
    attrs = {"num_split": Int(minimum=1), "T": Type()}
    effect = PURE
    gradient = _NO_GRADIENT
    bound = unbounded

    def shape(c):
        _, rank = sparse_operand(c, 1, 2, 3)
        number = c.attrs["num_split"]
        return [(None, rank)] * number + [(None,)] * number + [(rank,)] * number

    def host_kernel(ctx, inputs, attrs):
        axis, indices, values, sizes = inputs
        check_parts(ctx, indices, values, sizes)
        require(ctx, np.size(axis) == 1, "Input split_dim should be a scalar")
        axis, rank, number = int(np.ravel(axis)[0]), sizes.size, attrs["num_split"]
        require(ctx, 0 <= axis < rank, f"Input split_dim should be between 0 and rank ({rank}), got {axis}")
        length = int(sizes[axis])
        require(
            ctx,
            1 <= number <= length,
            f"Input num_split should be between 1 and the splitting dimension size ({length}), got {number}",
        )
        check_bounds(ctx, indices, sizes)
        ends = np.cumsum([length // number + (i < length % number) for i in range(number)])
        part = np.searchsorted(ends, indices[:, axis], side="right")
        parts: list[list[Any]] = [[], [], []]
        start = 0
        for i, end in enumerate(ends.tolist()):
            chosen = part == i
            own = indices[chosen]
            own[:, axis] -= start
            shape = np.array(sizes)
            shape[axis] = end - start
            for target, item in zip(parts, (own, values[chosen], shape), strict=True):
                target.append(item)
            start = end
        return parts[0] + parts[1] + parts[2]


class SparseSlice(Op):
    """The part of a sparse tensor from ``start`` on with at most ``size``."""

    signature = (
        "indices: int64, values: T, shape: int64, start: int64, size: int64 "
        "-> output_indices: int64, output_values: T, output_shape: int64"
    )
    attrs = {"T": Type()}
    effect = PURE
    bound = unbounded

    def shape(c):
        _, rank = sparse_operand(c, 0, 1, 2)
        rank = shapes.merge_dim(rank, c.with_rank(3, 1)[0])
        rank = shapes.merge_dim(rank, c.with_rank(4, 1)[0])
        return [(None, rank), (None,), (rank,)]

    def host_kernel(ctx, inputs, attrs):
        indices, values, sizes, start, size = inputs
        check_parts(ctx, indices, values, sizes)
        require(
            ctx,
            start.shape == size.shape == sizes.shape,
            f"Expected start and size to be vectors of {sizes.size} elements, got {shapes.show(start.shape)} and "
            f"{shapes.show(size.shape)}",
        )
        require(ctx, bool((start >= 0).all() and (size >= 0).all()), "start and size must not be negative")
        with np.errstate(over="ignore"):
            end = np.where(size > np.iinfo(np.int64).max - start, np.iinfo(np.int64).max, start + size)
        chosen = ((indices >= start) & (indices < end)).all(axis=1)
        return [indices[chosen] - start, values[chosen], np.clip(sizes - start, 0, size)]

    def gradient(op, *grads):
        slope = build("SparseSliceGrad", grads[1], op.inputs[0], op.inputs[3], op.outputs[0])
        slope.set_shape(op.inputs[1]._shape)
        return [None, slope, None, None, None]


class SparseSliceGrad(Op):
    """Gradient of ``SparseSlice``: the gradient of each stored value, 0 outside the part."""

    signature = "backprop_val_grad: T, input_indices: int64, input_start: int64, output_indices: int64 -> val_grad: T"
    attrs = {"T": Type(NUMBERS)}
    effect = PURE
    gradient = NotDifferentiable("TensorFlow says so")

    def shape(c):
        c.with_rank(0, 1)
        c.with_rank(3, 2)
        return (c.with_rank(1, 2)[0],)

    def host_kernel(ctx, inputs, attrs):
        grad, indices, start, output_indices = inputs
        require(ctx, grad.ndim == 1 and output_indices.ndim == 2, "val_grad must be a vector, indices a matrix")
        require(ctx, len(grad) == len(output_indices), "one gradient for each value of the output is needed")
        own, there = keys(indices, output_indices + start)
        return _at(own, there, grad)


def _at(wanted: np.ndarray, there: np.ndarray, values: np.ndarray) -> np.ndarray:
    """``values`` of the keys ``there``, in the order of ``wanted``; 0 for those that are not there."""
    (asked, known), first = ranked(wanted, there)
    table = np.zeros(len(first), values.dtype)
    table[known[::-1]] = values[::-1]  # of equal keys the first one counts
    return table.take(asked)


# --------------------------------------------------------------------------------------------------- sparse and sparse
_TWO = "a_indices: int64, a_values: T, a_shape: int64, b_indices: int64, b_values: T, b_shape: int64"


def _two(ctx: Any, inputs: Any) -> None:
    check_parts(ctx, inputs[0], inputs[1], inputs[2], "a")
    check_parts(ctx, inputs[3], inputs[4], inputs[5], "b")
    first, second = ints(inputs[2]), ints(inputs[5])
    require(
        ctx,
        len(first) == len(second),
        "Operands do not have the same ranks; got shapes: {0} and {1}",
        " ".join(map(str, first)),
        " ".join(map(str, second)),
    )
    for dim, (one, other) in enumerate(zip(first, second, strict=True)):
        require(ctx, one == other, "Operands' shapes do not match: got {0} and {1} for dimension {2}", one, other, dim)


def _union(inputs: Any) -> tuple[np.ndarray, list[Any], list[np.ndarray]]:
    """Coordinates of either operand in order; each operand's values there, and where it stores one (else it is 0)."""
    a_indices, a, _, b_indices, b, _ = inputs[:6]
    places, first = ranked(*keys(a_indices, b_indices))
    coordinates = np.concatenate([a_indices, b_indices]).take(first, axis=0)  # indexing takes ten times as long
    values, stored = [], []
    for own, given in zip(places, (a, b), strict=True):
        total, there = np.zeros(len(first), widen(given).dtype), np.zeros(len(first), bool)
        there[own] = True
        if np.count_nonzero(there) == len(own):
            total[own] = widen(given)
        else:  # a coordinate that is stored twice
            row_sums.add_to_rows(total, own, widen(given))
        values.append(total)
        stored.append(there)
    return coordinates, values, stored


def _merged_sum(
    keys_of: list[np.ndarray], sizes: list[int], a: np.ndarray, b: np.ndarray, least: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """The sum of operands in order: few large arrays, as their memory costs more than what is done to it."""
    joined = np.concatenate(keys_of)
    order = np.argsort(joined, kind="stable")  # merges what is in order
    in_turn, values = joined.take(order), np.concatenate([a, b]).take(order)
    values += values.dtype.type(0)  # as where one operand stores nothing, and is 0: no zero keeps its sign
    twice = in_turn[1:] == in_turn[:-1]
    seconds = np.flatnonzero(twice) + 1
    kept = np.ones(len(in_turn), bool)
    if len(seconds):
        total = (widen(values[seconds - 1]) + widen(values[seconds])).astype(values.dtype)
        values[seconds - 1] = total
        kept[seconds] = False
        kept[seconds - 1] = np.abs(widen(total)) >= widen(np.asarray(least))
        in_turn, values = in_turn.compress(kept), values.compress(kept)
    return unflattened(in_turn, sizes), values


def _two_shape(c: Any) -> Any:
    _, a = sparse_operand(c, 0, 1, 2)
    _, b = sparse_operand(c, 3, 4, 5)
    return shapes.merge_dim(a, b)


class SparseAdd(Op):
    """Sum of two sparse tensors of one dense shape; sums of two elements below ``thresh`` in size are left out."""

    signature = f"{_TWO}, thresh: Treal -> sum_indices: int64, sum_values: T, sum_shape: int64"
    attrs = {"T": Type(NUMBERS), "Treal": Type(REAL)}
    effect = PURE
    bound = unbounded

    def shape(c):
        rank = _two_shape(c)
        return [(None, rank), (None,), (rank,)]

    def host_kernel(ctx, inputs, attrs):
        _two(ctx, inputs)
        require(ctx, np.ndim(inputs[6]) == 0, "The magnitude threshold must be a scalar")
        sorted_keys = keys_in_order(inputs[0], inputs[3])
        if sorted_keys is not None:
            return [*_merged_sum(*sorted_keys, inputs[1], inputs[4], inputs[6]), np.array(inputs[2])]
        coordinates, (a, b), (in_a, in_b) = _union(inputs)
        total = (a + b).astype(inputs[1].dtype)
        large = np.abs(widen(total)) >= widen(np.asarray(inputs[6]))
        large |= ~(in_a & in_b)
        if not large.all():
            coordinates, total = coordinates.compress(large, axis=0), total.compress(large)
        return [coordinates, total, np.array(inputs[2])]

    def gradient(op, *grads):
        slopes = build("SparseAddGrad", grads[1], op.inputs[0], op.inputs[3], op.outputs[0])
        for part, given in zip(slopes, (op.inputs[1], op.inputs[4]), strict=True):
            part.set_shape(given._shape)
        return [None, slopes[0], None, None, slopes[1], None, None]


def _looked_up(keys_of: np.ndarray, wanted: np.ndarray, values: np.ndarray) -> np.ndarray:
    """The values of the keys that are wanted, 0 where there is none; both keys are in order."""
    order = np.argsort(np.concatenate([keys_of, wanted]), kind="stable")
    places = np.flatnonzero(order >= len(keys_of))
    places -= np.arange(1, len(wanted) + 1)  # the last of the keys that is not larger, which stand before it
    found = (places >= 0) & (keys_of.take(places, mode="clip") == wanted)
    result = values.take(places, mode="clip")
    if not found.all():
        result[~found] = 0
    return result


class SparseAddGrad(Op):
    """Gradients of ``SparseAdd`` with respect to both operands' values."""

    signature = (
        "backprop_val_grad: T, a_indices: int64, b_indices: int64, sum_indices: int64 -> a_val_grad: T, b_val_grad: T"
    )
    attrs = {"T": Type(NUMBERS)}
    effect = PURE
    gradient = NotDifferentiable("TensorFlow says so")

    def shape(c):
        c.with_rank(0, 1)
        c.with_rank(3, 2)
        return [(c.with_rank(1, 2)[0],), (c.with_rank(2, 2)[0],)]

    def host_kernel(ctx, inputs, attrs):
        grad, a_indices, b_indices, sum_indices = inputs
        require(
            ctx,
            grad.ndim == 1 and len(grad) == len(sum_indices),
            "# elements of backprop_val_grad and # rows of sum_indices must match",
        )
        sorted_keys = keys_in_order(a_indices, b_indices, sum_indices)
        if sorted_keys is not None:
            (*operands, total), _ = sorted_keys
            return [_looked_up(total, part, grad) for part in operands]
        (of_a, of_b, there), first = ranked(*keys(a_indices, b_indices, sum_indices))
        table = np.zeros(len(first), grad.dtype)  # 0 for what the sum left out
        table[there] = grad
        return [table.take(of_a), table.take(of_b)]


for _name, _ufunc, _types in (("Maximum", np.maximum, REAL), ("Minimum", np.minimum, NUMBERS)):

    def _extremum_kernel(ctx, inputs, attrs, _ufunc=_ufunc):
        _two(ctx, inputs)
        coordinates, (a, b), _ = _union(inputs)
        return [coordinates, _ufunc(a, b).astype(inputs[1].dtype)]

    def _extremum_shape(c):
        rank = _two_shape(c)
        return [(None, rank), (None,)]

    define(
        f"SparseSparse{_name}",
        f"The {_name.lower()} of two sparse tensors of one dense shape where either stores something; the other is 0.",
        signature=f"{_TWO} -> output_indices: int64, output_values: T",
        attrs={"T": Type(_types)},
        effect=PURE,
        shape=_extremum_shape,
        bound=unbounded,
        host_kernel=_extremum_kernel,
        gradient=_NO_GRADIENT,
    )


# ---------------------------------------------------------------------------------------------------------- reductions
def _reduced_rank(c: Any) -> RawShape:
    _, rank = sparse_operand(c, 0, 1, 2)
    axes = c.value("reduction_axes")
    if rank is None or (axes is None and not c.attrs["keep_dims"]):
        return (None,)
    if c.attrs["keep_dims"]:
        return (rank,)
    return (rank - len({int(axis) % rank for axis in axes.ravel()}) if rank else 0,)


def _sparse_reduction(kind: str, types: str) -> None:
    ufunc = {"Sum": np.add, "Max": np.maximum}[kind]

    def shape(c):
        (rank,) = _reduced_rank(c)
        return [(None, rank), (None,), (rank,)]

    def host_kernel(ctx, inputs, attrs):
        indices, sizes, gone, kept_axes = reduction(ctx, inputs)
        values = widen(inputs[1])
        own = indices[:, kept_axes]
        (key,) = keys(own)
        joined, first = np.unique(key, return_index=True)
        order = np.argsort(key, kind="stable")
        starts = np.searchsorted(key[order], joined)
        reduced = ufunc.reduceat(values[order], starts) if len(joined) else values[:0]
        coordinates = own[first]
        shape = [sizes[i] for i in kept_axes]
        if attrs["keep_dims"]:
            wide = np.zeros((len(first), len(sizes)), np.int64)
            wide[:, kept_axes] = coordinates
            coordinates = wide
            shape = [1 if i in gone else size for i, size in enumerate(sizes)]
        return [coordinates, reduced.astype(inputs[1].dtype), np.array(shape, np.int64)]

    define(
        f"SparseReduce{kind}Sparse",
        f"{'Sums' if kind == 'Sum' else 'The largest stored elements'} over dimensions of a sparse tensor, where "
        "something is stored; the result is sparse.",
        signature=f"{SPARSE_INPUT}, reduction_axes: int32 "
        "-> output_indices: int64, output_values: T, output_shape: int64",
        attrs={"keep_dims": Bool(False), "T": Type(types)},
        effect=PURE,
        shape=shape,
        bound=unbounded,
        host_kernel=host_kernel,
        gradient=_NO_GRADIENT,
    )


_sparse_reduction("Sum", NUMBERS)
_sparse_reduction("Max", REAL)


# ---------------------------------------------------------------------------------------------------------- empty rows
class SparseFillEmptyRows(Op):
    """Each row of dimension 0 that stores nothing gets ``default_value`` at its first place."""

    signature = (
        "indices: int64, values: T, dense_shape: int64, default_value: T -> output_indices: int64, output_values: T, "
        "empty_row_indicator: bool, reverse_index_map: int64"
    )
    attrs = {"T": Type()}
    effect = PURE
    bound = unbounded

    def shape(c):
        count, rank = sparse_operand(c, 0, 1, 2)
        if c.shape("default_value") not in (None, ()):
            c.with_rank("default_value", 0)
        sizes = dense_shape(c, "dense_shape")
        return [(None, rank), (None,), (sizes[0] if sizes else None,), (count,)]

    def host_kernel(ctx, inputs, attrs):
        indices, values, sizes, default = inputs
        check_parts(ctx, indices, values, sizes)
        require(ctx, sizes.size > 0, "Dense shape cannot be empty.")
        require(ctx, np.ndim(default) == 0, f"default_value must be a scalar, saw: {list(np.shape(default))}")
        rows = int(sizes[0])
        own = indices[:, 0]
        bad = (own < 0) | (own >= rows)
        at = int(np.argmax(bad)) if bad.size else 0
        ctx.check(
            not bad.any(),
            errors.InvalidArgumentError,
            f"indices({at}, 0) is invalid: {own[at] if bad.size else 0} >= {rows}",
        )
        empty = np.bincount(own, minlength=rows)[:rows] == 0
        filled = np.zeros((int(empty.sum()), sizes.size), np.int64)
        filled[:, 0] = np.flatnonzero(empty)
        order = np.argsort(np.concatenate([own, filled[:, 0]]), kind="stable")
        fill = np.empty(len(filled), values.dtype)
        fill[:] = np.asarray(default)[()]
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return [
            np.concatenate([indices, filled]).take(order, axis=0),
            np.concatenate([values, fill])[order],
            empty,
            place[: len(own)],
        ]

    def gradient(op, _, grad, *rest):
        slopes = build("SparseFillEmptyRowsGrad", op.outputs[3], grad)
        return [None, slopes[0], None, slopes[1]]


class SparseFillEmptyRowsGrad(Op):
    """Gradients of ``SparseFillEmptyRows`` with respect to values and default."""

    signature = "reverse_index_map: int64, grad_values: T -> d_values: T, d_default_value: T"
    attrs = {"T": Type()}
    effect = PURE
    gradient = NotDifferentiable("TensorFlow has no gradient for it")

    def shape(c):
        c.with_rank(1, 1)
        return [c.with_rank(0, 1), ()]

    def host_kernel(ctx, inputs, attrs):
        places, grad = inputs
        require(ctx, places.ndim == 1 and grad.ndim == 1, "reverse_index_map and grad_values must be vectors")
        bad = (places < 0) | (places >= len(grad))
        ctx.check(not bad.any(), errors.InvalidArgumentError, f"Elements in reverse index must be in [0, {len(grad)})")
        filled = np.ones(len(grad), bool)
        filled[places] = False
        total = widen(grad[filled]).sum(dtype=widen(grad).dtype)
        return [grad[places], np.asarray(total).astype(grad.dtype)]
