"""Ragged tensors of lists, and placeholders for them."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes, shapes
from anabranch.ragged.ragged_tensor import RaggedTensor
from anabranch.ragged.values import RaggedTensorValue


@public("ragged.constant")
def constant(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    name: str | None = None,
    row_splits_dtype: Any = dtypes.int64,
) -> Any:
    """A constant ragged tensor of nested lists; a tensor if no dimension is ragged.

    Args:
        pylist: nested lists, all scalars at one depth.
        dtype: of the elements.
        ragged_rank: how many dimensions are ragged; all but the innermost ones by default.
        inner_shape: shape of what is below the ragged dimensions.
        name: name scope.
        row_splits_dtype: int32 or int64.

    Raises:
        ValueError: scalars at different depths, or lists that do not fit ``inner_shape``.
    """
    kind = dtypes.as_dtype(row_splits_dtype)
    with name_scope(name, "RaggedConstant"):
        splits, flat, inner = _taken_apart(pylist, ragged_rank, inner_shape)
        if not isinstance(pylist, (list, tuple, np.ndarray)):
            return convert.convert_to_tensor(pylist, None if dtype is None else dtypes.as_dtype(dtype))
        values = _narrowed(_values(flat, dtype, inner), flat, dtype)
        result: Any = convert.convert_to_tensor(values, None if dtype is None else dtypes.as_dtype(dtype))
        for one in reversed(splits):
            result = RaggedTensor.from_row_splits(
                result, convert.constant(np.array(one, kind.np), kind), validate=False
            )
        return result


@public("ragged.constant_value")
def constant_value(
    pylist: Any,
    dtype: Any = None,
    ragged_rank: int | None = None,
    inner_shape: Any = None,
    row_splits_dtype: Any = "int64",
) -> Any:
    """The RaggedTensorValue of nested lists; an array if no dimension is ragged.

    Arguments are those of ``tf.ragged.constant``; ``dtype`` is NumPy's.
    """
    kind = dtypes.as_dtype(row_splits_dtype)
    if kind not in (dtypes.int32, dtypes.int64):
        raise ValueError("row_splits_dtype must be int32 or int64")
    splits, flat, inner = _taken_apart(pylist, ragged_rank, inner_shape)
    values = _values(flat, dtype, inner)
    return RaggedTensorValue.of_parts(values, [np.array(one, kind.np) for one in splits])


@public("ragged.placeholder")
def placeholder(dtype: Any, ragged_rank: int, value_shape: Any = None, name: str | None = None) -> Any:
    """A placeholder for ragged tensors, which is fed a RaggedTensorValue; a plain one if ``ragged_rank`` is 0.

    Args:
        dtype: of the elements.
        ragged_rank: how many dimensions are ragged.
        value_shape: shape of what is below them.
        name: name scope.
    """
    inner = shapes.TensorShape(value_shape)
    with name_scope(name, "RaggedPlaceholder"):
        flat = shapes.TensorShape([None]).concatenate(inner) if ragged_rank else inner
        result = build("Placeholder", dtype=dtypes.as_dtype(dtype), shape=flat)
        for _ in range(ragged_rank):
            splits = build("Placeholder", dtype=dtypes.int64, shape=shapes.TensorShape([None]))
            result = RaggedTensor.from_row_splits(result, splits, validate=False)
        return result


def _values(flat: list[Any], dtype: Any, inner: tuple[int, ...]) -> np.ndarray:
    kind = None if dtype is None else dtypes.as_dtype(dtype).np
    if not flat:
        return np.zeros((0, *inner), np.float32 if kind is None else kind)
    found = np.array(flat, kind)
    return found.reshape((-1, *inner)) if inner else found


def _narrowed(values: np.ndarray, flat: list[Any], dtype: Any) -> np.ndarray:
    """Python's numbers as tensors have them: 32 bits, where they fit."""
    while isinstance(flat, list) and flat and isinstance(flat[0], (list, tuple)):
        flat = list(flat[0])
    if dtype is not None or not values.size or (flat and isinstance(flat[0], np.ndarray | np.generic)):
        return values
    if values.dtype == np.float64:
        return values.astype(np.float32)
    fits = values.dtype == np.int64 and np.all(np.abs(values) < 1 << 31)
    return values.astype(np.int32) if fits else values


def _listed(nested: Any) -> Any:
    """Nested lists with lists in place of the arrays among them; their scalars keep their types."""
    if isinstance(nested, np.ndarray):
        return [_listed(row) for row in nested] if nested.ndim > 1 else list(nested) if nested.ndim else nested[()]
    return type(nested)(map(_listed, nested)) if type(nested) in (list, tuple) else nested


def _taken_apart(pylist: Any, ragged_rank: int | None, inner_shape: Any) -> tuple[list[Any], Any, tuple[int, ...]]:
    """Splits of the ragged dimensions, what is below them, and its shape."""
    pylist = _listed(pylist)
    inner = None if inner_shape is None else tuple(np.atleast_1d(inner_shape).tolist())
    if not isinstance(pylist, (list, tuple)):
        if ragged_rank:
            raise ValueError(
                f"Invalid pylist={pylist!r}: incompatible with ragged_rank={ragged_rank}\n"
                + errors.message(f"{pylist!r}", "nested lists", "[[1], [2, 3]]")
            )
        if inner:
            raise ValueError(
                f"Invalid pylist={pylist!r}: incompatible with dim(inner_shape)={len(inner)}\n"
                + errors.message(f"{pylist!r}", "nested lists", "[[1], [2, 3]]")
            )
        return [], pylist, ()
    if ragged_rank is not None and ragged_rank < 0:
        raise ValueError(
            f"Invalid ragged_rank={ragged_rank}: must be nonnegative\n"
            + errors.message(f"ragged_rank={ragged_rank}", "a number from 0 on", "ragged_rank=None")
        )
    depth, deepest = _scalar_depth(pylist), _depth(pylist)
    if depth is not None and deepest > depth:
        raise ValueError(
            f"Invalid pylist={pylist!r}: empty list nesting is greater than scalar value nesting\n"
            + errors.message("an empty list below where scalars are", "lists of one depth", "[[], [1]]")
        )
    if inner is not None and ragged_rank is not None:
        expected = ragged_rank + 1 + len(inner) if inner or ragged_rank else 1
        expected = ragged_rank + len(inner) + (0 if ragged_rank == 0 and inner else 1)
        if (depth is not None and expected != depth) or (depth is None and expected < deepest):
            raise ValueError(
                f"Invalid pylist={pylist!r}: incompatible with ragged_rank={ragged_rank} and "
                f"dim(inner_shape)={len(inner)}\n"
                + errors.message("lists of another depth", f"{expected}", "another ragged_rank")
            )
    if ragged_rank is None:
        if inner is None:
            ragged_rank = max(1, (deepest if depth is None else depth) - 1)
            if (depth or deepest) == 1:
                ragged_rank = 0
        else:
            ragged_rank = max((deepest if depth is None else depth) - 1 - len(inner), 0 if depth == len(inner) else 1)
    splits = []
    rows: list[Any] = list(pylist)
    for _ in range(ragged_rank):
        if any(not isinstance(row, (list, tuple)) for row in rows):
            raise ValueError(
                f"Invalid pylist={pylist!r}: incompatible with ragged_rank={ragged_rank}\n"
                + errors.message("scalars among rows", "lists", "a smaller ragged_rank")
            )
        splits.append(np.cumsum([0, *map(len, rows)]))
        rows = [one for row in rows for one in row]
    if inner is None:
        inner = _uniform_shape(rows, pylist)
    elif rows:
        found = _uniform_shape(rows, pylist)
        if found != inner and not (ragged_rank == 0 and (len(rows), *found) == inner):
            raise ValueError(
                f"inner values have inconsistent shape: {found} and {inner}\n"
                + errors.message(f"values of shape {found}", f"inner_shape {inner}", "inner_shape=None")
            )
        inner = found
    return splits, rows, inner


def _uniform_shape(rows: list[Any], pylist: Any) -> tuple[int, ...]:
    """The shape that all elements have."""
    if not rows or not any(isinstance(one, (list, tuple, np.ndarray)) for one in rows):
        return ()
    try:
        found = {np.shape(one) for one in rows}
    except ValueError:
        found = set()
    if len(found) != 1:
        raise ValueError(
            f"inner values have inconsistent shape in {pylist!r}\n"
            + errors.message(
                "lists of several lengths below the ragged dimensions", "equal lengths", "a larger ragged_rank"
            )
        )
    return found.pop()


def _scalar_depth(value: Any) -> int | None:
    """How deep scalars are, which must be one depth; None if there is none."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return 0
    depths = {depth for depth in map(_scalar_depth, value) if depth is not None}
    if len(depths) > 1:
        raise ValueError(
            "all scalar values must have the same nesting depth\n"
            + errors.message(f"{value!r:.60}", "scalars at one depth", "[[1], [2, 3]]")
        )
    return depths.pop() + 1 if depths else None


def _depth(value: Any) -> int:
    """How deep lists go."""
    if not isinstance(value, (list, tuple, np.ndarray)):
        return 0
    return 1 + max(map(_depth, value), default=0)
