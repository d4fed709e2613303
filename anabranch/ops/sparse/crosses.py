"""Crosses of features: for each row all combinations of one value from each column, as strings or hashes.

The order of combinations is that of nested loops, the last column fastest. A hash begins with the key and takes in one
column after the other by FarmHash's way to join two fingerprints; integers stand for themselves, strings for their
fingerprint, so that a model trained elsewhere finds its rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Bool, Int, List, NotDifferentiable, Op, Type
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.sparse_tensor import SparseTensor, as_sparse, is_sparse
from anabranch.core.values import dtypes, shapes
from anabranch.ops.shared.array_rules import require
from anabranch.ops.sparse.rules import check_bounds, check_parts, unbounded
from anabranch.ops.strings.hashes import fingerprints

DEFAULT_KEY = 0xDECAFCAFFE
"""The key of hashes if none is given."""
_MASK = 2**64 - 1
_MULTIPLIER = np.uint64(0xC6A4A7935BD1E995)


def _mixed(value: Any) -> Any:
    return value ^ (value >> np.uint64(47))


def join_fingerprints(first: Any, second: Any) -> Any:
    """The fingerprints of two fingerprints in their order, arrays of uint64."""
    return _mixed(
        _mixed((first ^ _MULTIPLIER ^ (_mixed(second * _MULTIPLIER) * _MULTIPLIER)) * _MULTIPLIER) * _MULTIPLIER
    )


class _Column(NamedTuple):
    """The values of all rows, row after row, and how many each row has."""

    items: np.ndarray
    counts: np.ndarray


def _columns(ctx: Any, inputs: Sequence[Any], attrs: dict[str, Any]) -> tuple[int, list[_Column]]:
    """How many rows there are, and the columns."""
    number, dense_number = attrs["N"], len(attrs["dense_types"])
    indices, values, sizes = (inputs[i * number : (i + 1) * number] for i in range(3))
    dense = inputs[3 * number : 3 * number + dense_number]
    rows = int(sizes[0][0]) if number else dense[0].shape[0] if dense_number else 0
    columns: list[_Column] = []
    for own, items, shape in zip(indices, values, sizes, strict=True):
        check_parts(ctx, own, items, shape)
        require(ctx, len(shape) == 2, f"shape should imply a 2D tensor, but got shape: {shape.tolist()}")
        require(ctx, int(shape[0]) == rows, f"Expected batch size {rows}, got {int(shape[0])}")
        check_bounds(ctx, own, shape)
        at = own[:, 0]
        if (at[1:] < at[:-1]).any():
            items = items[np.argsort(at, kind="stable")]
        columns.append(_Column(items, np.bincount(at, minlength=rows)))
    for tensor in dense:
        require(
            ctx, tensor.ndim == 2, f"Dense inputs should be a matrix but received shape {shapes.show(tensor.shape)}"
        )
        require(ctx, tensor.shape[0] == rows, f"Expected batch size {rows}, got {tensor.shape[0]}")
        columns.append(_Column(tensor.ravel(), np.full(rows, tensor.shape[1])))
    return rows, columns


def _combinations(columns: Sequence[_Column], row: np.ndarray, place: np.ndarray) -> list[np.ndarray]:
    """For each column where its items are, for the combination at each ``place`` of a ``row``."""
    chosen = []
    for column in reversed(columns):  # the last one is the fastest
        own = column.counts[row]
        place, digit = np.divmod(place, own)
        chosen.append((np.cumsum(column.counts) - column.counts)[row] + digit)
    return chosen[::-1]


def _numbers(items: np.ndarray) -> np.ndarray:
    """What stands for items in hashes."""
    return items.view(np.uint64) if items.dtype != object else fingerprints(items.tolist())


def _texts(items: np.ndarray) -> np.ndarray:
    """Items as strings."""
    return items if items.dtype == object else _objects([b"%d" % item for item in items.tolist()])


def _objects(texts: list[bytes]) -> np.ndarray:
    out = np.empty(len(texts), object)
    out[:] = texts
    return out


class SparseCross(Op):
    """Crosses of columns ``[batch, n]``: strings joined by ``_X_``, or hashes below ``num_buckets``."""

    signature = (
        "indices: N * int64, values: [sparse_types], shapes: N * int64, dense_inputs: [dense_types] "
        "-> output_indices: int64, output_values: out_type, output_shape: int64"
    )
    attrs = {
        "N": Int(minimum=0),
        "hashed_output": Bool(),
        "num_buckets": Int(minimum=0),
        "hash_key": Int(),
        "sparse_types": List("type", allowed="int64 string", minimum=0),
        "dense_types": List("type", allowed="int64 string", minimum=0),
        "out_type": Type("int64 string"),
        "internal_type": Type("int64 string"),
    }
    effect = PURE
    ranks = {"indices": 2, "values": 1, "shapes": 1, "dense_inputs": 2}
    gradient = NotDifferentiable("features are strings and integers")
    bound = unbounded

    def shape(c):
        if (c.attrs["out_type"] is dtypes.int64) != c.attrs["hashed_output"]:
            raise ValueError(
                errors.message(
                    f"out_type={c.attrs['out_type'].name}, hashed_output={c.attrs['hashed_output']}",
                    "int64 for hashes, string without",
                    "tf.sparse.cross or tf.sparse.cross_hashed",
                )
            )
        return [(None, 2), (None,), (2,)]

    def host_kernel(ctx, inputs, attrs):
        rows, columns = _columns(ctx, inputs, attrs)
        counts = np.ones(rows, np.int64)
        for column in columns:
            counts = counts * column.counts
        row = np.repeat(np.arange(rows), counts)
        place = np.arange(len(row)) - np.repeat(np.cumsum(counts) - counts, counts)
        chosen = _combinations(columns, row, place)
        if attrs["hashed_output"]:
            values = np.full(len(row), attrs["hash_key"] & _MASK, np.uint64)
            for column, at in zip(columns, chosen, strict=True):
                values = join_fingerprints(values, _numbers(column.items)[at])
            values = (values % np.uint64(attrs["num_buckets"] or 2**63 - 1)).astype(np.int64)
        else:
            parts = [_texts(column.items)[at].tolist() for column, at in zip(columns, chosen, strict=True)]
            values = _objects([b"_X_".join(texts) for texts in zip(*parts, strict=True)])
        indices = np.empty((len(values), 2), np.int64)
        indices[:, 0] = row
        indices[:, 1] = place
        return [indices, values, np.array([rows, counts.max(initial=0)], np.int64)]


def _crossed(inputs: Any, hashed: bool, num_buckets: int, hash_key: int | None, name: str | None) -> SparseTensor:
    if not isinstance(inputs, (list, tuple)) or hasattr(inputs, "_fields") or not inputs:
        raise TypeError(
            "Inputs must be a list\n"
            + errors.message(f"inputs of type {type(inputs).__name__}", "a list of columns", "tf.sparse.cross([a, b])")
        )
    with name_scope(name, "SparseCross", inputs):
        sparse = [as_sparse(item) for item in inputs if is_sparse(item)]
        dense = [convert.convert_to_tensor(item) for item in inputs if not is_sparse(item)]

        def suited(tensor: Any) -> Any:
            if tensor.dtype.base in (dtypes.string, dtypes.int64):
                return tensor
            if tensor.dtype.base.is_integer:
                return build("Cast", tensor, DstT="int64")
            raise TypeError(
                errors.message(f"a column of {tensor.dtype.base.name}", "strings or integers", "tf.as_string(x)")
            )

        values = [suited(item.values) for item in sparse]
        dense = [suited(item) for item in dense]
        integers = any(item.dtype.base is dtypes.int64 for item in values + dense)
        crossed = build(
            "SparseCross",
            [item.indices for item in sparse],
            values,
            [item.dense_shape for item in sparse],
            dense,
            hashed_output=hashed,
            num_buckets=num_buckets,
            hash_key=DEFAULT_KEY if hash_key is None else hash_key,
            out_type="int64" if hashed else "string",
            internal_type="int64" if hashed and integers else "string",
            name=name,
        )
        return SparseTensor(*crossed)


@public("sparse.cross")
def sparse_cross(inputs: Any, name: str | None = None) -> SparseTensor:
    """For each row all combinations of one value from each column, as strings joined by ``_X_``.

    Args:
        inputs: list of columns, sparse or dense tensors ``[batch, n]`` of strings or integers; sparse ones count first.
        name: name of the op.

    Example:
        >>> import anabranch as tf
        >>> crossed = tf.sparse.cross([tf.constant([["a", "b"]]), tf.constant([[1, 2]])])
        >>> with tf.Session() as session:
        ...     session.run(crossed.values).tolist()
        [b'a_X_1', b'a_X_2', b'b_X_1', b'b_X_2']
    """
    return _crossed(inputs, False, 0, None, name)


@public("sparse.cross_hashed")
def sparse_cross_hashed(
    inputs: Any, num_buckets: int = 0, hash_key: int | None = None, name: str | None = None
) -> SparseTensor:
    """For each row a hash of all combinations of one value from each column.

    Args:
        inputs: as for ``tf.sparse.cross``.
        num_buckets: hashes are below it; 0 for 63 bits.
        hash_key: where hashes begin.
        name: name of the op.
    """
    return _crossed(inputs, True, num_buckets, hash_key, name)
