"""Functions of elements on ragged tensors: flat values in, flat values out, rows as they were.

Several ragged tensors need the same rows. For two operands, dimensions of size 1 are repeated, as for dense tensors: a
dense operand is cut into rows of equal length first. A dimension is repeated if all its slices have length 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.values import dtypes, nest
from anabranch.ragged import row_partitions as parts
from anabranch.ragged.ragged_tensor import (
    RaggedTensor,
    as_ragged_or_tensor,
    is_ragged,
    match_splits_dtypes,
    nrows_of,
)
from anabranch.ragged.rows import gather_rows


@public("ragged.map_flat_values")
def map_flat_values(op: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """``op`` of the flat values of ragged tensors among its arguments, with their rows.

    Args:
        op: function of tensors, which keeps the size of their first dimension.
        *args: its arguments, in which ragged tensors may stand in lists and dictionaries.
        **kwargs: its arguments by name.

    Raises:
        ValueError: ragged tensors of different rows.
    """
    found: list[RaggedTensor] = []

    def flat(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: flat(one) for key, one in value.items()}
        if isinstance(value, (list, tuple)):
            return type(value)(*map(flat, value)) if hasattr(value, "_fields") else type(value)(map(flat, value))
        if not is_ragged(value):
            return value
        ragged = as_ragged_or_tensor(value)
        found.append(ragged)
        return ragged.flat_values

    new_args, new_kwargs = flat(list(args)), flat(kwargs)
    if not found:
        return op(*args, **kwargs)
    with current_builder().control_dependencies(_same_rows(found)):
        return found[0].with_flat_values(op(*new_args, **new_kwargs))


def _same_rows(ragged: list[RaggedTensor]) -> list[Any]:
    """Checks that ragged tensors have the same rows, as far as that is not known."""
    checks = []
    first = ragged[0].nested_row_splits
    for other in ragged[1:]:
        if other.ragged_rank != ragged[0].ragged_rank:
            raise ValueError(
                "Inputs must have identical ragged splits\n"
                + errors.message(
                    f"ragged ranks {ragged[0].ragged_rank} and {other.ragged_rank}",
                    "one ragged rank",
                    "tf.expand_dims(x, 0)",
                )
            )
        match_splits_dtypes(other, first[0].dtype.base)
        for one, two in zip(first, other.nested_row_splits, strict=True):
            if one is two:
                continue
            ours, theirs = parts.constant_of(one), parts.constant_of(two)
            if ours is not None and theirs is not None:
                if ours.tolist() != theirs.tolist():
                    raise errors.InvalidArgumentError(
                        None,
                        None,
                        "Inputs must have identical ragged splits\n"
                        + errors.message(
                            f"splits {ours.tolist()} and {theirs.tolist()}", "the same rows", "x.to_tensor()"
                        ),
                    )
                continue
            same = build("All", build("Equal", build("Shape", one), build("Shape", two)), [0])
            checks.append(build("Assert", same, ["Inputs must have identical ragged splits"]))
            with current_builder().control_dependencies([check for check in checks[-1:] if check is not None]):
                equal = build("All", build("Equal", one, two), [0])
            checks.append(build("Assert", equal, ["Inputs must have identical ragged splits", one, two]))
    return [check for check in checks if check is not None]


# ------------------------------------------------------------------------------------------------------- two operands
def binary(op: Callable[..., Any], x: Any, y: Any, *args: Any, **kwargs: Any) -> Any:
    """``op(x, y)``, one of which is ragged, element by element."""
    kind = next(one.dtype for one in (x, y) if isinstance(one, RaggedTensor) or hasattr(one, "dtype"))
    x, y = (as_ragged_or_tensor(one, preferred_dtype=dtypes.as_dtype(kind)) for one in (x, y))
    x, y = same_rows(x, y)
    values = op(*(one.flat_values if isinstance(one, RaggedTensor) else one for one in (x, y)), *args, **kwargs)
    return (x if isinstance(x, RaggedTensor) else y).with_flat_values(values)


def same_rows(x: Any, y: Any) -> tuple[Any, Any]:
    """Two operands with the same rows; one of them may stay dense where it is broadcast to the flat values."""
    for one, other in ((x, y), (y, x)):
        if isinstance(one, RaggedTensor) and not isinstance(other, RaggedTensor):
            rank, inner = other.shape.ndims, one.flat_values.shape.ndims
            if rank is None:
                raise ValueError(
                    "Unable to broadcast: unknown rank\n"
                    + errors.message(
                        "a tensor of unknown rank with a ragged one", "a tensor of known rank", "x.set_shape(...)"
                    )
                )
            if rank == 0 or (inner is not None and rank < inner):
                return x, y
    if isinstance(x, RaggedTensor) and isinstance(y, RaggedTensor):
        match_splits_dtypes(x, y.row_splits.dtype.base)
        if x.ragged_rank == y.ragged_rank and all(
            a is b or _known_equal(a, b) for a, b in zip(x.nested_row_splits, y.nested_row_splits, strict=True)
        ):
            return x, y
    ranks = x.shape.ndims, y.shape.ndims
    if None in ranks:
        raise ValueError(
            "Unable to broadcast: unknown rank\n"
            + errors.message("operands of unknown rank", "known ranks", "x.set_shape(...)")
        )
    kind = (x if isinstance(x, RaggedTensor) else y).row_splits.dtype.base
    depth = max(one.ragged_rank + max(ranks) - one.shape.ndims for one in (x, y) if isinstance(one, RaggedTensor))
    x, y = (_with_depth(one, max(ranks), depth, kind) for one in (x, y))
    return _broadcast(x, y)


def _known_equal(one: Any, two: Any) -> bool:
    ours, theirs = parts.constant_of(one), parts.constant_of(two)
    return ours is not None and theirs is not None and ours.tolist() == theirs.tolist()


def _with_depth(value: Any, rank: int, depth: int, kind: dtypes.DType) -> RaggedTensor:
    """A value as a ragged tensor of a rank and ragged rank, with new dimensions of size 1 before its own."""
    for _ in range(rank - value.shape.ndims):
        if isinstance(value, RaggedTensor):
            splits = parts.joined([convert.constant([0], kind), parts.vector_of(nrows_of(value, kind))])
            value = RaggedTensor.from_row_splits(value, splits, validate=False)
        else:
            value = build("ExpandDims", value, 0)
    return deepened(value, depth, kind)


def deepened(value: Any, depth: int, kind: dtypes.DType) -> RaggedTensor:
    """A value with at least as many ragged dimensions: dense ones below are cut into rows of equal length."""
    if not isinstance(value, RaggedTensor):
        return RaggedTensor.from_tensor(value, ragged_rank=depth, row_splits_dtype=kind)
    if depth <= value.ragged_rank:
        return value
    return value.with_flat_values(deepened(value.flat_values, depth - value.ragged_rank, kind))


def _chosen(condition: Any, x: Any, y: Any) -> Any:
    return build("SelectV2", condition, x, y)


def _all_one(lengths: Any) -> Any:
    return build("All", build("Equal", lengths, convert.constant(1, lengths.dtype.base)), [0])


def _broadcast(x: RaggedTensor, y: RaggedTensor) -> tuple[RaggedTensor, RaggedTensor]:
    """Two ragged tensors of the same depth with the same rows."""
    kind = x.row_splits.dtype.base
    one = convert.constant(1, kind)
    rows = nrows_of(x, kind), nrows_of(y, kind)
    count = _chosen(build("Equal", rows[0], one), rows[1], rows[0])
    x, y = (
        gather_rows(value, parts.counted(count, kind) * parts.cast(build("NotEqual", own, one), kind))
        for value, own in zip((x, y), rows, strict=True)
    )
    return _broadcast_rows(x, y)


def _broadcast_rows(x: RaggedTensor, y: RaggedTensor) -> tuple[RaggedTensor, RaggedTensor]:
    """Two ragged tensors of as many rows, whose rows become equally long."""
    kind = x.row_splits.dtype.base
    lengths = parts.lengths_of(x.row_splits), parts.lengths_of(y.row_splits)
    alone = _all_one(lengths[0]), _all_one(lengths[1])
    wanted = _chosen(alone[0], lengths[1], lengths[0])
    fits = build("LogicalOr", alone[1], build("All", build("Equal", lengths[1], wanted), [0]))
    text = "Unable to broadcast: dimension size mismatch in dimension"
    splits = parts.checked(parts.splits_of_lengths(wanted), [(lambda: fits, text)])
    rowids = parts.rowids_of(splits)
    places = parts.places_in_rows(splits, rowids)
    values = []
    for value, is_alone in zip((x, y), alone, strict=True):
        starts = build("GatherV2", value.row_splits, rowids, 0)
        values.append(gather_rows(value.values, starts + places * parts.cast(build("LogicalNot", is_alone), kind)))
    if isinstance(values[0], RaggedTensor):
        values = list(_broadcast_rows(*values))
    return (
        RaggedTensor.from_row_splits(values[0], splits, validate=False),
        RaggedTensor.from_row_splits(values[1], splits, validate=False),
    )


def unary(op: Callable[..., Any], x: Any, *args: Any, **kwargs: Any) -> Any:
    """``op(x)``, element by element."""
    ragged = as_ragged_or_tensor(x)
    return ragged.with_flat_values(op(ragged.flat_values, *args, **kwargs))


def listed(op: Callable[..., Any], inputs: Any, *args: Any, **kwargs: Any) -> Any:
    """``op`` of a list of operands, element by element; those of no dimension are the same for all elements."""
    return map_flat_values(op, [as_ragged_or_tensor(one) for one in nest.flatten(list(inputs))], *args, **kwargs)
