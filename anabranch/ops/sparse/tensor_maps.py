"""Maps that hold sparse tensors under numbers, so that a queue can carry a number where its rows are dense.

Whoever puts a tensor in gets its number, whoever takes it out by its number is the last to see it. A map is a channel
object of the session; ops name it by ``container`` and ``shared_name``, or it has the name of the op that adds to it.
"""

from __future__ import annotations

import itertools
import threading
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import NotDifferentiable, Op, String, Type, channel
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.ops.shared.array_rules import require
from anabranch.ops.sparse.rules import check_parts, sparse_operand
from anabranch.ops.sparse.serialization import rows_of, stacked

_NO_GRADIENT = NotDifferentiable("a map hands tensors from one step to another")
_SHARED = {"container": String(""), "shared_name": String("")}
_Sparse = tuple[Any, Any, Any]


class SparseTensorsMap:
    """Sparse tensors (indices, values, dense shape) by number."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._numbers = itertools.count()
        self._tensors: dict[int, _Sparse] = {}

    def add(self, tensors: list[_Sparse]) -> np.ndarray:
        """Put tensors in; their numbers ``[n]``."""
        with self._lock:
            numbers = list(itertools.islice(self._numbers, len(tensors)))
            self._tensors.update(zip(numbers, tensors, strict=True))
        return np.array(numbers, np.int64)

    def take(self, numbers: list[int]) -> list[_Sparse] | int:
        """Take tensors out; a number that is not there, if one is not: then all others stay, too."""
        with self._lock:
            missing = [number for number in numbers if number not in self._tensors]
            return missing[0] if missing else [self._tensors.pop(number) for number in numbers]

    def __len__(self) -> int:
        return len(self._tensors)


def _map(ctx: Any) -> SparseTensorsMap:
    return ctx.shared("sparse tensors", SparseTensorsMap)


class AddSparseToTensorsMap(Op):
    """Put a sparse tensor into a map; its number, a scalar."""

    signature = "sparse_indices: int64, sparse_values: T, sparse_shape: int64 -> sparse_handle: int64"
    attrs = {"T": Type(), **_SHARED}
    effect = channel()
    gradient = _NO_GRADIENT

    def shape(c):
        sparse_operand(c, 0, 1, 2)
        return ()

    def host_kernel(ctx, inputs, attrs):
        check_parts(ctx, *inputs)
        return _map(ctx).add([tuple(np.array(part) for part in inputs)])[0]


class AddManySparseToTensorsMap(Op):
    """Put the rows of dimension 0 of a sparse tensor into a map; their numbers ``[rows]``."""

    signature = "sparse_indices: int64, sparse_values: T, sparse_shape: int64 -> sparse_handles: int64"
    attrs = {"T": Type(), **_SHARED}
    effect = channel()
    gradient = _NO_GRADIENT

    def shape(c):
        sparse_operand(c, 0, 1, 2)
        known = c.vector(2)
        return (known[0] if known else None,)

    def host_kernel(ctx, inputs, attrs):
        sizes = np.array(inputs[2][1:])
        return _map(ctx).add([(np.array(own), np.array(values), sizes) for own, values in rows_of(ctx, *inputs)])


class TakeManySparseFromTensorsMap(Op):
    """Take sparse tensors out of a map by their numbers ``[rows]``; they are rows of dimension 0 of one."""

    signature = "sparse_handles: int64 -> sparse_indices: int64, sparse_values: dtype, sparse_shape: int64"
    attrs = {"dtype": Type(), **_SHARED}
    effect = channel()
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("sparse_handles", 1)
        return [(None, None), (None,), (None,)]

    def host_kernel(ctx, inputs, attrs):
        numbers = [int(number) for number in inputs[0]]
        tensors = _map(ctx).take(numbers)
        if isinstance(tensors, int):
            raise errors.InvalidArgumentError(
                None,
                ctx.op,
                f"Unable to find SparseTensor: {tensors} in map: {attrs['shared_name'] or ctx.op.name}; it was never "
                "added, or has been taken",
            )
        wanted = attrs["dtype"].np
        for _, values, _ in tensors:
            require(ctx, values.dtype == wanted, f"dtype mismatch: the map holds {values.dtype}, asked for {wanted}")
        return stacked(ctx, tensors, (len(tensors),))


def add_sparse(tensor: Any, many: bool, shared_name: str, name: str | None = None) -> Tensor:
    """Put a sparse tensor into the map called ``shared_name``, or its rows if ``many``; its number, or theirs."""
    kind = "AddManySparseToTensorsMap" if many else "AddSparseToTensorsMap"
    return build(kind, tensor.indices, tensor.values, tensor.dense_shape, shared_name=shared_name, name=name)


def take_sparse(
    numbers: Tensor, dtype: Any, shared_name: str, rank: int | None = None, name: str | None = None
) -> SparseTensor:
    """Take sparse tensors out of the map called ``shared_name``; ``rank`` is that of the result."""
    indices, values, sizes = build(
        "TakeManySparseFromTensorsMap", numbers, dtype=dtype, shared_name=shared_name, name=name
    )
    indices.set_shape([None, rank])
    sizes.set_shape([rank])
    return SparseTensor(indices, values, sizes)
