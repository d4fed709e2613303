"""What ops on rows share: range checks with TensorFlow's texts, shape rules, and scatter kernels for both tiers.

Semantics of duplicate indices are those of a loop over the rows in order, in both tiers and on all devices: the last
update of a row wins, and ``div`` divides by each in turn. XLA's scatter runs in order on CPUs; elsewhere an update
whose row comes again later is dropped first. Indices out of range are refused by :func:`check_rows` and
:func:`check_slices`; under XLA the kernels drop them, which is how a failed check holds the write back.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.inference import RawShape, ShapeContext
from anabranch.core.values import shapes
from anabranch.ops.shared import row_sums
from anabranch.ops.shared.widening import is_half

ROW_MODES = ("Update", "Add", "Sub", "Mul", "Div", "Min", "Max")
SLICE_MODES = ("Update", "Add", "Sub", "Min", "Max")
NUMBERS = (
    "float double int32 uint8 int16 int8 complex64 int64 qint8 quint8 qint32 bfloat16 qint16 quint16 uint16 "
    "complex128 half uint32 uint64"
)
"""TensorFlow's ``numbertype``, in its order."""


# ------------------------------------------------------------------------------------------------------------- checks
def _place(ctx: Any, shape: tuple[int, ...], flat: Any) -> tuple[str, list[Any]]:
    """Text ``[{0},{1}]`` and payload of the position ``flat`` in an array of ``shape`` (nothing for a scalar)."""
    parts: list[Any] = []
    for size in reversed(shape):
        parts.insert(0, flat % max(size, 1))
        flat = flat // max(size, 1)
    return ("[" + ",".join(f"{{{i}}}" for i in range(len(parts))) + "]" if parts else ""), parts


def check_rows(ctx: Any, indices: Any, limit: Any, what: str = "indices") -> None:
    """Check that each of ``indices`` is in ``[0, limit)``: ``indices[0,2] = 7 is not in [0, 4)``."""
    if indices.size == 0:
        return
    if ctx.host and row_sums.is_within(indices, limit):
        return  # the usual case
    flat = ctx.xp.reshape(indices, (-1,))
    bad = (flat < 0) | (flat >= limit)
    first = ctx.xp.argmax(bad)
    text, parts = _place(ctx, indices.shape, first)
    ctx.check(
        ~ctx.xp.any(bad),
        errors.InvalidArgumentError,
        f"{what}{text} = {{{len(parts)}}} is not in [0, {{{len(parts) + 1}}})",
        *parts,
        flat[first],
        np.asarray(limit) if isinstance(limit, int) else limit,
    )


def check_slices(ctx: Any, indices: Any, shape: tuple[int, ...], noun: str = "shape") -> None:
    """Check that each row of ``indices`` ``[..., k]`` is inside the first ``k`` dimensions of ``shape``.

    The text has the words of early versions, too: those of a gather where ``noun`` is of parameters.
    """
    depth = indices.shape[-1]
    if indices.size == 0:
        return
    flat = ctx.xp.reshape(indices, (-1, depth))
    bad = ctx.xp.any((flat < 0) | (flat >= np.array(shape[:depth], indices.dtype)), axis=1)
    first = ctx.xp.argmax(bad)
    text, parts = _place(ctx, indices.shape[:-1], first)
    index_text = ", ".join(f"{{{len(parts) + i}}}" for i in range(depth))
    limits = ",".join(str(size) for size in shape)
    position = f"{{{len(parts) + depth}}}"
    if noun.startswith("params"):
        early = f"flat indices[{position}, :] = [{index_text}] does not index into param (shape: [{limits}])."
    else:
        whole, _ = _place(ctx, indices.shape, first)
        whole = _shifted(whole, len(parts) + depth + 1)
        early = f"Invalid indices: {whole} = [{index_text}] does not index into [{limits}]"
    ctx.check(
        ~ctx.xp.any(bad),
        errors.InvalidArgumentError,
        f"{early}\nindices{text} = [{index_text}] does not index into {noun} [{limits}]",
        *parts,
        *(flat[first, i] for i in range(depth)),
        first,
        *_place(ctx, indices.shape, first)[1],
    )


def _shifted(text: str, by: int) -> str:
    """A format of ``{0},{1}`` whose numbers begin with ``by``."""
    return re.sub(r"\{(\d+)\}", lambda number: f"{{{int(number[1]) + by}}}", text)


def check_divisors(ctx: Any, updates: Any) -> None:
    """Refuse integer division by zero."""
    if updates.dtype.kind in "iu" and updates.size:
        ctx.check(ctx.xp.all(updates != 0), errors.InvalidArgumentError, "Integer division by zero")


# --------------------------------------------------------------------------------------------------------- shape rules
def row_shape(c: ShapeContext, target: RawShape, indices: RawShape, updates: RawShape) -> RawShape:
    """The target's shape; updates must be a scalar or ``indices.shape + target.shape[1:]``."""
    if target is not None and not target:
        raise ValueError(
            errors.message(
                f"a scatter of rows into a scalar by op type {c.definition.type_name!r}",
                "a variable of rank 1 or more",
                "assign the variable instead",
            )
        )
    if updates is None or not updates:
        return target
    wanted = shapes.concatenate(indices, None if target is None else target[1:])
    if not shapes.is_compatible(updates, wanted):
        raise ValueError(
            f"{_difference(wanted, updates)}\n"
            + errors.message(
                f"updates of shape {shapes.show(updates)} for indices of shape {shapes.show(indices)} into "
                f"shape {shapes.show(target)}",
                f"a scalar or shape {shapes.show(wanted)} (indices.shape + ref.shape[1:])",
                "tf.reshape(updates, shape)",
            )
        )
    if target is None and indices is not None and len(updates) >= len(indices):
        return (None, *updates[len(indices) :])
    return target if target is None or wanted is None else (target[0], *shapes.merge(updates, wanted)[len(indices) :])  # type: ignore[index,arg-type]


def _difference(first: RawShape, second: RawShape) -> str:
    """What keeps two shapes from being the same, in TensorFlow's words."""
    try:
        shapes.merge(first, second)
    except ValueError as problem:
        return str(problem).partition("\n")[0].removesuffix(".")
    return ""


def slice_shape(c: ShapeContext, target: RawShape, indices: RawShape, updates: RawShape) -> RawShape:
    """The target's shape; updates must be ``indices.shape[:-1] + target.shape[k:]`` where ``k = indices.shape[-1]``."""
    if indices is None:
        return target
    if not indices:
        raise ValueError(
            "Shape must be at least rank 1 but is rank 0\n"
            + errors.message("scalar indices", "indices of shape [..., k]", "tf.expand_dims(indices, 0)")
        )
    depth = indices[-1]
    if depth is None or target is None:
        return target
    if 0 in target[:depth] and 0 not in indices[:-1] and None not in indices and indices[:-1] and updates is not None:
        raise ValueError(
            "Indices and updates specified for empty output shape\n"
            + errors.message(
                f"indices of shape {shapes.show(indices)} into shape {shapes.show(target)}",
                "no indices where there are no elements",
                "a shape without a 0",
            )
        )
    if depth == 0 and 0 in indices[-1:] and 0 in target and len(indices) == 1:
        return target  # a vector without indices, for a shape without elements
    if not 0 < depth <= len(target):
        raise ValueError(
            errors.message(
                f"indices of shape {shapes.show(indices)} into shape {shapes.show(target)}",
                f"a last dimension from 1 to {len(target)}",
                "index no more dimensions than there are",
            )
        )
    wanted = shapes.concatenate(indices[:-1], target[depth:])
    if not shapes.is_compatible(updates, wanted):
        assert updates is not None
        batch = len(indices) - 1
        outer, inner = updates[:batch], updates[batch:]
        name = "output" if c.definition.type_name == "ScatterNd" else "input"
        lead = (
            f"The outer {batch} dimensions of indices.shape={shapes.show(indices)} must match the outer {batch} "
            f"dimensions of updates.shape={shapes.show(updates)}: {_difference(indices[:-1], outer)}"
            if not shapes.is_compatible(indices[:-1], outer)
            else f"The inner {len(target) - depth} dimensions of {name}.shape={shapes.show(target)} must match the "
            f"inner {len(inner)} dimensions of updates.shape={shapes.show(updates)}: "
            f"{_difference(target[depth:], inner)}"
        )
        raise ValueError(
            f"{lead}\n"
            + errors.message(
                f"updates of shape {shapes.show(updates)} for indices of shape {shapes.show(indices)} into "
                f"shape {shapes.show(target)}",
                f"shape {shapes.show(wanted)} (indices.shape[:-1] + ref.shape[{depth}:])",
                "tf.reshape(updates, shape)",
            )
        )
    return target


# ------------------------------------------------------------------------------------------------------------- kernels
_HOST = {"Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Min": np.minimum, "Max": np.maximum}


def truncated_divide(xp: Any, a: Any, b: Any) -> Any:
    """``a / b``; integers are truncated towards zero."""
    if np.dtype(a.dtype).kind not in "iu":
        return a / b
    quotient = a // b
    return xp.where((quotient * b != a) & ((a < 0) != (b < 0)), quotient + 1, quotient).astype(a.dtype)


def _drop_overwritten(ctx: Any, keys: Any) -> Any:
    """Mask of the elements of the vector ``keys`` that do not come again later."""
    xp = ctx.xp
    order = xp.argsort(keys, stable=True)
    ranked = keys[order]
    last = xp.concatenate([ranked[1:] != ranked[:-1], xp.ones((1,), bool)])
    return xp.zeros(keys.shape, bool).at[order].set(last)


def _scatter_compiled(ctx: Any, mode: str, value: Any, index: tuple[Any, ...], updates: Any) -> Any:
    place = value.at[index]
    if mode == "Update":
        return place.set(updates, mode="drop")
    if mode == "Sub":
        return place.add(-updates, mode="drop")
    return getattr(place, {"Add": "add", "Mul": "multiply", "Min": "min", "Max": "max"}[mode])(updates, mode="drop")


def scatter_rows(ctx: Any, mode: str, value: Any, indices: Any, updates: Any) -> Any:
    """``value`` with rows ``indices`` changed by ``updates`` (``indices.shape + value.shape[1:]``, or a scalar)."""
    xp = ctx.xp
    if indices.size == 0:
        return value
    flat = xp.reshape(indices, (-1,))
    if updates.ndim:
        updates = xp.reshape(updates, (flat.shape[0], *value.shape[1:]))
    if mode == "Div":
        return _divide_rows(ctx, value, flat, updates)
    if ctx.host:
        result = ctx.written(value, flat)
        if mode == "Update":
            row_sums.write_rows(result, flat, updates)
        elif mode in ("Add", "Sub") and updates.ndim and not is_half(value.dtype):
            row_sums.add_to_rows(result, flat, updates if mode == "Add" else -updates)
        else:
            _HOST[mode].at(result, flat, updates)
        return result
    if mode == "Update" and ctx.platform != "cpu":
        flat = xp.where(_drop_overwritten(ctx, flat), flat, np.iinfo(flat.dtype).max)
    return _scatter_compiled(ctx, mode, value, (flat,), updates)


def _divide_rows(ctx: Any, value: Any, flat: Any, updates: Any) -> Any:
    rows = (
        np.broadcast_to(updates, (flat.shape[0], *value.shape[1:]))
        if ctx.host
        else ctx.xp.broadcast_to(updates, (flat.shape[0], *value.shape[1:]))
    )
    if ctx.host:
        result = ctx.written(value, flat)
        for i, row in enumerate(flat):
            result[row] = truncated_divide(np, result[row], rows[i])
        return result

    def step(i: Any, current: Any) -> Any:
        row = flat[i]
        old = ctx.xp.take(current, row, axis=0, mode="clip")
        return current.at[row].set(truncated_divide(ctx.xp, old, rows[i]), mode="drop")

    return ctx.lax.fori_loop(0, flat.shape[0], step, value)


def scatter_slices(ctx: Any, mode: str, value: Any, indices: Any, updates: Any, drop: bool = False) -> Any:
    """``value`` with the slices that ``indices`` ``[..., k]`` name changed; ``drop`` ignores indices out of range on
    the host too.
    """
    xp = ctx.xp
    depth = indices.shape[-1]
    if indices.size == 0:
        return value
    flat = xp.reshape(indices, (-1, depth))
    updates = xp.reshape(updates, (flat.shape[0], *value.shape[depth:]))
    if ctx.host:
        if drop:
            inside = np.all((flat >= 0) & (flat < np.array(value.shape[:depth])), axis=1)
            flat, updates = flat[inside], updates[inside]
        index = tuple(flat[:, i] for i in range(depth))
        result = ctx.written(value, index)
        if mode == "Update":
            result[index] = updates
        elif mode in ("Add", "Sub") and depth and result.size and not is_half(value.dtype):
            flat_rows = np.ravel_multi_index(index, value.shape[:depth])
            rows = result.reshape(-1, *value.shape[depth:])
            row_sums.add_to_rows(rows, flat_rows, updates if mode == "Add" else -updates)
        else:
            _HOST[mode].at(result, index, updates)
        return result
    beyond = np.iinfo(flat.dtype).max
    if drop:  # .at counts negative indices from the end
        flat = xp.where(flat < 0, beyond, flat)
    if mode == "Update" and ctx.platform != "cpu":
        key = flat[:, 0].astype(np.int64)
        for i in range(1, depth):
            key = key * value.shape[i] + flat[:, i]
        flat = xp.where(_drop_overwritten(ctx, key)[:, None], flat, beyond)
    return _scatter_compiled(ctx, mode, value, tuple(flat[:, i] for i in range(depth)), updates)


# ------------------------------------------------------------------------------------------------------------- gathers
def gather_rows(ctx: Any, value: Any, indices: Any, batch_dims: int = 0) -> Any:
    """Slices ``indices`` of dimension ``batch_dims`` of ``value``; indices out of range are clipped (their check has
    failed).
    """
    xp = ctx.xp
    limit = max(value.shape[batch_dims] - 1, 0)
    if value.shape[batch_dims] == 0:
        return xp.zeros((*indices.shape, *value.shape[batch_dims + 1 :]), value.dtype)
    if batch_dims == 0:
        return xp.take(value, indices, axis=0, mode="clip")
    clipped = xp.clip(indices, 0, limit)
    rank = indices.ndim
    batch = tuple(
        np.arange(value.shape[i]).reshape([-1 if j == i else 1 for j in range(rank)]) for i in range(batch_dims)
    )
    return value[(*batch, clipped)]


def gather_slices(ctx: Any, value: Any, indices: Any) -> Any:
    """``value[indices[..., 0], ..., indices[..., k - 1]]``; indices out of range are clipped (their check has
    failed).
    """
    xp = ctx.xp
    depth = indices.shape[-1]
    if depth == 0:
        return xp.broadcast_to(value, (*indices.shape[:-1], *value.shape))
    if 0 in value.shape[:depth]:
        return xp.zeros((*indices.shape[:-1], *value.shape[depth:]), value.dtype)
    clipped = xp.clip(indices, 0, np.array(value.shape[:depth], indices.dtype) - 1)
    return value[tuple(clipped[..., i] for i in range(depth))]


def gather_shape(params: RawShape, indices: RawShape, batch_dims: int) -> RawShape:
    """Shape of ``gather_rows``."""
    if params is None or indices is None:
        return None
    if batch_dims < 0:
        batch_dims += len(indices)
    if len(params) <= batch_dims or len(indices) < batch_dims:
        raise ValueError(
            errors.message(
                f"a gather from shape {shapes.show(params)} with indices {shapes.show(indices)} and "
                f"batch_dims={batch_dims}",
                f"rank at least {batch_dims + 1} and indices of rank at least {batch_dims}",
                "use fewer batch_dims",
            )
        )
    batch = shapes.merge(params[:batch_dims], indices[:batch_dims]) or ()
    return (*batch, *indices[batch_dims:], *params[batch_dims + 1 :])


def gather_slices_shape(params: RawShape, indices: RawShape) -> RawShape:
    """Shape of ``gather_slices``."""
    if indices is None or params is None or (indices and indices[-1] is None):
        return None
    if not indices or indices[-1] > len(params):  # type: ignore[operator]
        raise ValueError(
            errors.message(
                f"indices of shape {shapes.show(indices)} into shape {shapes.show(params)}",
                f"indices [..., k] with k at most {len(params)}",
                "index no more dimensions than there are",
            )
        )
    return (*indices[:-1], *params[indices[-1] :])
