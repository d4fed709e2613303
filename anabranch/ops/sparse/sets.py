"""``tf.sets``: the last dimension of dense or sparse tensors as sets, and what they have in common. On the host.

Policy. A set has no element twice; results are sparse, with the elements of each set in order. Sets of a sparse tensor
that are not there are empty.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Bool, NotDifferentiable, Op, String, Type, define
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.values import shapes
from anabranch.ops.shared.array_rules import require
from anabranch.ops.sparse.rules import check_parts

_TYPES = "int8 int16 int32 int64 uint8 uint16 string"
_CHOICE = NotDifferentiable("which elements are in a set is a choice")
_OPERATIONS: dict[str, Callable[[set[Any], set[Any]], set[Any]]] = {
    "a-b": lambda a, b: a - b,
    "b-a": lambda a, b: b - a,
    "intersection": lambda a, b: a & b,
    "union": lambda a, b: a | b,
}
Groups = dict[tuple[int, ...], set[Any]]


def _of_dense(x: np.ndarray) -> Groups:
    return {place: set(x[place].tolist()) for place in np.ndindex(*x.shape[:-1])}


def _of_sparse(ctx: Any, indices: np.ndarray, values: np.ndarray, shape: np.ndarray, validate: bool) -> Groups:
    check_parts(ctx, indices, values, shape, "set")
    if validate and len(indices):
        inside = np.all((indices >= 0) & (indices < shape))
        ctx.check(bool(inside), errors.InvalidArgumentError, f"an index is out of bounds of the shape {shape.tolist()}")
        keys = [tuple(row) for row in indices.tolist()]
        ctx.check(
            all(a < b for a, b in itertools.pairwise(keys)),
            errors.InvalidArgumentError,
            "the indices of a set are out of order, or one is repeated\n"
            + errors.message("unordered indices", "ordered ones", "tf.sparse_reorder, or validate_indices=False"),
        )
    groups: Groups = {}
    for place, value in zip(indices[:, :-1].tolist(), values.tolist(), strict=True):
        groups.setdefault(tuple(place), set()).add(value)
    return groups


def _combined(ctx: Any, a: Groups, b: Groups, lead: Any, other: Any, attrs: Any, dtype: Any) -> tuple[Any, ...]:
    ctx.check(
        list(lead) == list(other),
        errors.InvalidArgumentError,
        f"Mismatched group shapes {list(lead)} vs {list(other)}: sets need the same leading dimensions",
    )
    combine = _OPERATIONS[attrs["set_operation"].lower()]
    nothing: set[Any] = set()
    sets = [
        (place, sorted(combine(a.get(place, nothing), b.get(place, nothing)))) for place in sorted(a.keys() | b.keys())
    ]
    indices = [(*place, i) for place, items in sets for i in range(len(items))]
    values = [item for _, items in sets for item in items]
    largest = max((len(items) for _, items in sets), default=0)
    return (
        np.array(indices, np.int64).reshape(-1, len(lead) + 1),
        np.array(values, dtype),
        np.array([*lead, largest], np.int64),
    )


def _dtype_of(attrs: Any) -> Any:
    return object if attrs["T"].np is None or attrs["T"].name == "string" else attrs["T"].np


def _rank(c: Any, position: int, dense: bool) -> int | None:
    if dense:
        raw = c.shapes[position]
        return None if raw is None else len(raw)
    raw = c.shapes[position]
    return None if raw is None else raw[1]


def _define(name: str, first_dense: bool, second_dense: bool) -> None:
    def operand(which: str, dense: bool) -> str:
        return f"{which}: T" if dense else f"{which}_indices: int64, {which}_values: T, {which}_shape: int64"

    second = 1 if first_dense else 3

    def shape(c: Any) -> list[Any]:
        if c.attrs["set_operation"].lower() not in _OPERATIONS:
            raise ValueError(
                f"Invalid set_operation {c.attrs['set_operation']}\n"
                + errors.message(c.attrs["set_operation"], ", ".join(_OPERATIONS), "set_operation='union'")
            )
        ranks = [_rank(c, 0, first_dense), _rank(c, second, second_dense)]
        rank = min((one for one in ranks if one is not None), default=None)
        if rank is not None and rank < 2:
            raise ValueError(
                f"Shape must be at least rank 2 but is rank {rank}\n"
                + errors.message(f"sets of rank {rank}", "[..., n]", "tf.expand_dims(x, 0)")
            )
        rank = shapes.merge_dim(*ranks)
        return [(None, rank), (None,), (rank,)]

    def bound(c: Any) -> list[Any]:
        return shape(c)

    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        check = attrs["validate_indices"]
        parts = []
        for dense, given in ((first_dense, inputs[:second]), (second_dense, inputs[second:])):
            if dense:
                parts.append((_of_dense(given[0]), given[0].shape[:-1]))
            else:
                indices, values, size = given
                parts.append((_of_sparse(ctx, indices, values, size, check), size[:-1].tolist()))
        (a, lead), (b, other) = parts
        return _combined(ctx, a, b, lead, other, attrs, _dtype_of(attrs))

    kinds = ["dense" if dense else "sparse" for dense in (first_dense, second_dense)]
    define(
        name,
        f"``set_operation`` of the sets in the last dimension of a {kinds[0]} and a {kinds[1]} tensor, sparse.",
        signature=f"{operand('set1', first_dense)}, {operand('set2', second_dense)} "
        "-> result_indices: int64, result_values: T, result_shape: int64",
        attrs={"set_operation": String(), "validate_indices": Bool(True), "T": Type(_TYPES)},
        effect=PURE,
        shape=shape,
        bound=bound,
        host_kernel=kernel,
        gradient=_CHOICE,
    )


_define("DenseToDenseSetOperation", True, True)
_define("DenseToSparseSetOperation", True, False)
_define("SparseToSparseSetOperation", False, False)


class SetSize(Op):
    """How many elements each set in the last dimension of a sparse tensor has; dense, without that dimension."""

    signature = "set_indices: int64, set_values: T, set_shape: int64 -> size: int32"
    attrs = {"validate_indices": Bool(True), "T": Type(_TYPES)}
    effect = PURE
    ranks = {"set_indices": 2, "set_values": 1, "set_shape": 1}
    compile_time = ("set_shape",)
    gradient = _CHOICE

    def shape(c):
        known = c.vector("set_shape")
        return None if known is None else tuple(known[:-1])

    def host_kernel(ctx, inputs, attrs):
        indices, values, shape = inputs
        groups = _of_sparse(ctx, indices, values, shape, attrs["validate_indices"])
        lead = tuple(shape[:-1].tolist())
        for place in groups:
            inside = all(0 <= at < size for at, size in zip(place, lead, strict=True))
            require(ctx, inside, "the group {0} is not one of the groups {1} of the sets", list(place), list(lead))
        sizes = np.zeros(lead, np.int32)
        for place, items in groups.items():
            sizes[place] = len(items)
        return sizes


# ----------------------------------------------------------------------------------------------------------- functions
def _operation(a: Any, b: Any, operation: str, validate: bool) -> SparseTensor:
    a, b = (item if isinstance(item, SparseTensor) else convert_to_tensor(item) for item in (a, b))
    if a.dtype.base_dtype.name not in _TYPES.split():
        raise TypeError(
            f"'a' invalid dtype {a.dtype}.\n"
            + errors.message(f"sets of {a.dtype.name}", f"one of {_TYPES}", "tf.cast(a, tf.int64)")
        )
    if a.dtype.base_dtype != b.dtype.base_dtype:
        raise TypeError(
            f"Types don't match, {a.dtype} vs {b.dtype}.\n"
            + errors.message(f"sets of {a.dtype.name} and of {b.dtype.name}", "one dtype", "tf.cast one of them")
        )
    turned = {"a-b": "b-a", "b-a": "a-b"}
    if isinstance(a, SparseTensor) and not isinstance(b, SparseTensor):
        a, b, operation = b, a, turned.get(operation, operation)
    kinds = "".join("s" if isinstance(item, SparseTensor) else "d" for item in (a, b))
    name = {"dd": "DenseToDense", "ds": "DenseToSparse", "ss": "SparseToSparse"}[kinds] + "SetOperation"
    operands: list[Any] = []
    for item in (a, b):
        if isinstance(item, SparseTensor):
            operands += [item.indices, item.values, item.dense_shape]
        else:
            operands.append(convert_to_tensor(item))
    return SparseTensor(*build(name, *operands, set_operation=operation, validate_indices=validate))


@public("sets.set_size", "sets.size")
def set_size(a: SparseTensor, validate_indices: bool = True) -> Tensor:
    """How many elements each set in the last dimension of a ``SparseTensor`` has: int32, without that dimension."""
    if not isinstance(a, SparseTensor):
        raise TypeError(
            f"Expected `SparseTensor`, got {a}.\n"
            + errors.message(type(a).__name__, "a SparseTensor", "tf.SparseTensor(...)")
        )
    return build("SetSize", a.indices, a.values, a.dense_shape, validate_indices=validate_indices)


@public("sets.set_intersection", "sets.intersection")
def set_intersection(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """What the sets in the last dimensions of ``a`` and ``b``, dense or sparse, have in common.

    Args:
        a: ``[..., n]`` of whole numbers or strings.
        b: ``[..., m]`` with the same leading dimensions.
        validate_indices: whether the order of sparse indices is checked.

    Returns:
        A ``SparseTensor`` ``[..., size of the largest]`` with the elements of each set in order.
    """
    return _operation(a, b, "intersection", validate_indices)


@public("sets.set_difference", "sets.difference")
def set_difference(a: Any, b: Any, aminusb: bool = True, validate_indices: bool = True) -> SparseTensor:
    """What the sets of ``a`` have and those of ``b`` have not; the other way round unless ``aminusb``."""
    return _operation(a, b, "a-b" if aminusb else "b-a", validate_indices)


@public("sets.set_union", "sets.union")
def set_union(a: Any, b: Any, validate_indices: bool = True) -> SparseTensor:
    """What the sets of ``a`` or those of ``b`` have."""
    return _operation(a, b, "union", validate_indices)
