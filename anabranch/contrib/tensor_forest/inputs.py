"""``tf.contrib.tensor_forest.python.ops.data_ops``: features and labels of programs as the tensors of operations."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.tensor_forest.examples import DATA_CATEGORICAL, DATA_FLOAT
from anabranch.core import errors
from anabranch.core.contract.api import public


@public("contrib.tensor_forest.DataColumn")
class DataColumn:
    """What is known of one column of features."""

    def __init__(self) -> None:
        self.name: str = ""
        self.original_type: Any = ""
        self.size: Any = 0

    def SerializeToString(self) -> str:
        """The column as text."""
        return f"name: {self.name} original_type: {self.original_type} size: {self.size}"


@public("contrib.tensor_forest.DataColumnCollection")
class DataColumnCollection:
    """Columns, of dense features or of sparse ones."""

    def __init__(self) -> None:
        self.cols: list[DataColumn] = []

    def add(self) -> DataColumn:
        """A new column, at the end."""
        self.cols.append(DataColumn())
        return self.cols[-1]

    def size(self) -> int:
        """Number of columns."""
        return len(self.cols)

    def SerializeToString(self) -> str:
        """The columns as text."""
        return "".join(f"{{{column.SerializeToString()}}}" for column in self.cols)


@public("contrib.tensor_forest.TensorForestDataSpec")
class TensorForestDataSpec:
    """The columns of a forest's features; operations hold them as the text of `SerializeToString`."""

    def __init__(self) -> None:
        self.sparse = DataColumnCollection()
        self.dense = DataColumnCollection()
        self.dense_features_size: Any = 0

    def SerializeToString(self) -> str:
        """The columns as text."""
        dense, sparse = self.dense.SerializeToString(), self.sparse.SerializeToString()
        return f"dense_features_size: {self.dense_features_size} dense: [{dense}] sparse: [{sparse}]"


def _type(dtype: Any) -> int:
    return DATA_FLOAT if dtype.is_floating else DATA_CATEGORICAL


@public("contrib.tensor_forest.CastToFloat")
def CastToFloat(tensor: Any) -> Any:
    """Integers as floats; floats as they are.

    Raises:
        NotImplementedError: strings.
    """
    if tensor.dtype == tf.string:
        raise NotImplementedError(
            errors.message(
                "features that are strings", "numbers", "tf.strings.to_hash_bucket_fast(features, 1000) as a column"
            )
        )
    return tf.cast(tensor, tf.float32)


def _column(collection: DataColumnCollection, name: str, kind: int, size: Any) -> Any:
    column = collection.add()
    column.name, column.original_type, column.size = name, kind, size
    return size


def _width(tensor: Any) -> int:
    shape = tensor.shape
    width = 1 if shape.ndims == 1 else shape.as_list()[1] if shape.ndims == 2 else None
    if width is None:
        raise ValueError(
            errors.message(
                f"features of shape {shape}",
                "[examples, features] with a known number of features",
                "features.set_shape([None, 10])",
            )
        )
    return width


@public("contrib.tensor_forest.ParseDataTensorOrDict")
def ParseDataTensorOrDict(data: Any) -> tuple[Any, Any, TensorForestDataSpec]:
    """The features of a program as one dense and one sparse tensor.

    Args:
        data: a tensor ``[examples, features]``, a SparseTensor of that shape, or a dictionary of such by name.

    Returns:
        float32 ``[examples, features]`` or None, a SparseTensor or None, and what is known of their columns. Integers
        are categories, which a node compares for equality.
    """
    spec = TensorForestDataSpec()
    if isinstance(data, tf.SparseTensor):
        _column(spec.sparse, "sparse_features", _type(data.dtype), -1)
        return None, tf.SparseTensor(data.indices, CastToFloat(data.values), data.dense_shape), spec
    if not isinstance(data, dict):
        data = tf.convert_to_tensor(data)
        spec.dense_features_size = _column(spec.dense, "dense_features", _type(data.dtype), _width(data))
        return CastToFloat(data), None, spec
    dense, sparse = [], []
    for name in sorted(data):
        column = data[name]
        if not isinstance(column, tf.SparseTensor):
            spec.dense_features_size += _column(spec.dense, name, _type(column.dtype), _width(column))
            dense.append(CastToFloat(tf.reshape(column, [-1, 1]) if column.shape.ndims == 1 else column))
        elif column.dtype.is_floating:
            raise NotImplementedError(
                errors.message(
                    f"sparse floats {name!r} in a dictionary of features",
                    "sparse integers, which are categories, or dense floats",
                    "tf.sparse.to_dense",
                )
            )
        else:
            if not spec.sparse.size():
                _column(spec.sparse, "all_sparse", DATA_CATEGORICAL, -1)
            sparse.append(tf.SparseTensor(column.indices, CastToFloat(column.values), column.dense_shape))
    joined = tf.sparse_concat(1, sparse) if sparse else None
    return tf.concat(dense, 1) if dense else None, joined, spec


@public("contrib.tensor_forest.ParseLabelTensorOrDict")
def ParseLabelTensorOrDict(labels: Any) -> Any:
    """The labels of a program as floats; sparse ones are made dense, with -1 where there is none."""
    if isinstance(labels, dict):
        return tf.to_float(tf.concat([_dense(labels[name]) for name in sorted(labels)], 1))
    return tf.to_float(_dense(labels))


def _dense(labels: Any) -> Any:
    return tf.sparse_tensor_to_dense(labels, default_value=-1) if isinstance(labels, tf.SparseTensor) else labels
