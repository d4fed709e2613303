"""``tf.sparse_placeholder``: three placeholders that are fed as one sparse tensor."""

from __future__ import annotations

from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.values import dtypes
from anabranch.core.values.shapes import TensorShape
from anabranch.ops.array.sources import placeholder


@public("sparse_placeholder", "sparse.placeholder")
def sparse_placeholder(dtype: Any, shape: Any = None, name: str | None = None) -> SparseTensor:
    """A sparse tensor whose value is fed: a SparseTensorValue, or a tuple ``(indices, values, dense_shape)``.

    Args:
        dtype: dtype of the values.
        shape: dense shape, which may have unknown dimensions, or an int64 tensor; None if nothing is known. A shape
            that is known need not be what is fed.
        name: prefix of the names of the placeholders.
    """

    def named(part: str) -> str | None:
        return None if name is None else f"{name}/{part}"

    static: Any = None
    dense_shape: Any
    rank: int | None = None
    if isinstance(shape, Tensor):
        dense_shape = shape
        rank = None if shape._shape is None else shape._shape[0]
    else:
        static = None if shape is None else TensorShape(shape).raw
        rank = None if static is None else len(static)
        if static is not None and None not in static:
            dense_shape = convert.convert_to_tensor(list(static), dtypes.int64, named("shape"))
        else:
            dense_shape = placeholder(dtypes.int64, [rank], named("shape"))
    values = placeholder(dtype, [None], named("values"))
    sparse = SparseTensor(placeholder(dtypes.int64, [None, rank], named("indices")), values, dense_shape)
    sparse._static = static
    return sparse
