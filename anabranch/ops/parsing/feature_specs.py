"""What features an example has: descriptions of features, and the arguments of ops that they become.

Policy. A dictionary of feature descriptions becomes the arguments of one op, keys in alphabetical order. What is wrong
with a description is said while the graph is built.
"""

from __future__ import annotations

import collections
import contextlib
import re
from collections.abc import Mapping
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.random_seed import counted_as
from anabranch.core.values import dtypes
from anabranch.core.values.shapes import TensorShape


@public("VarLenFeature", "io.VarLenFeature")
class VarLenFeature(collections.namedtuple("VarLenFeature", ["dtype"])):
    """A feature of any number of values; parsing gives a ``SparseTensor``."""


@public("SparseFeature", "io.SparseFeature")
class SparseFeature(
    collections.namedtuple("SparseFeature", ["index_key", "value_key", "dtype", "size", "already_sorted"])
):
    """A sparse vector (or tensor) whose indices and values are two features (or more: one for each dimension).

    Args:
        index_key: key of the int64 feature with indices, or a list, one for each dimension.
        value_key: key of the feature with values.
        dtype: of the values.
        size: dense size, or a list, one for each dimension.
        already_sorted: whether the indices are known to be in order.
    """

    def __new__(cls, index_key: Any, value_key: str, dtype: Any, size: Any, already_sorted: bool = False) -> Any:
        return super().__new__(cls, index_key, value_key, dtype, size, already_sorted)


@public("FixedLenFeature", "io.FixedLenFeature")
class FixedLenFeature(collections.namedtuple("FixedLenFeature", ["shape", "dtype", "default_value"])):
    """A feature of one shape in all examples; parsing gives a tensor.

    Args:
        shape: of the feature.
        dtype: float32, int64 or string.
        default_value: what an example that lacks it has; required if None.
    """

    def __new__(cls, shape: Any, dtype: Any, default_value: Any = None) -> Any:
        return super().__new__(cls, shape, dtype, default_value)


@public("FixedLenSequenceFeature", "io.FixedLenSequenceFeature")
class FixedLenSequenceFeature(
    collections.namedtuple("FixedLenSequenceFeature", ["shape", "dtype", "allow_missing", "default_value"])
):
    """A feature with any number of values of one shape; parsing gives a tensor, padded to the longest of the batch.

    Args:
        shape: of one value.
        dtype: float32, int64 or string.
        allow_missing: whether examples may lack it, or may be padded; needed for ``parse_example``.
        default_value: what to pad with; 0 or ``""`` if None.
    """

    def __new__(cls, shape: Any, dtype: Any, allow_missing: bool = False, default_value: Any = None) -> Any:
        return super().__new__(cls, shape, dtype, allow_missing, default_value)


class Raw:
    """Features in the form in which ops take them."""

    def __init__(self) -> None:
        self.sparse_keys: list[str] = []
        self.sparse_types: list[dtypes.DType] = []
        self.dense_keys: list[str] = []
        self.dense_types: list[dtypes.DType] = []
        self.dense_defaults: dict[str, Any] = {}
        self.dense_shapes: list[Any] = []

    def add_sparse(self, key: str, dtype: Any, of: str) -> None:
        """Add a feature that is parsed as a sparse one; once if it is asked for twice."""
        kind = _value_type(key, dtype)
        if key in self.sparse_keys:
            known = self.sparse_types[self.sparse_keys.index(key)]
            if known != kind:
                raise ValueError(
                    f"Conflicting type {known} vs {kind} for feature {key}.\n"
                    + errors.message(f"{of} {key!r} of two dtypes", "one dtype for each key", "use another key")
                )
            return
        self.sparse_keys.append(key)
        self.sparse_types.append(kind)

    def defaults(self) -> list[Any]:
        """One tensor for each dense feature, empty if it is required."""
        values = []
        for key, dtype, shape in zip(self.dense_keys, self.dense_types, self.dense_shapes, strict=True):
            default = self.dense_defaults.get(key)
            name = "key_" + re.sub(r"[^A-Za-z0-9_.\-/]", "_", key)
            if shape is not None and len(shape) and shape[0] is None:
                # A padded feature is filled with one value.
                with counted_as(1) if default is None else contextlib.nullcontext():
                    if default is None:
                        default = b"" if dtype is dtypes.string else 0
                    default = convert.convert_to_tensor(default, dtype, name)
                    default = build("Reshape", default, [], name=None)
            elif default is None:
                default = convert.constant([], dtype, [0], name=name)
            elif not isinstance(default, Tensor):
                array = np.asarray(default, object if dtype is dtypes.string else dtype.np)
                sizes = tuple(int(size) for size in shape)
                array = np.broadcast_to(array, sizes) if array.size == 1 else array.reshape(sizes)
                with counted_as(3):  # TensorFlow reshapes it
                    default = convert.constant(array, dtype, name=name)
            else:
                default = build("Reshape", default, list(shape))
            values.append(default)
        return values


def _value_type(key: str, dtype: Any) -> dtypes.DType:
    if not dtype:
        raise ValueError(
            f"Missing type for feature {key}.\n"
            + errors.message(
                f"feature {key!r} without dtype",
                "a dtype: tf.float32, tf.int64 or tf.string",
                "tf.FixedLenFeature([], tf.int64)",
            )
        )
    value_type = dtypes.as_dtype(dtype)
    if value_type not in (dtypes.float32, dtypes.int64, dtypes.string):
        raise TypeError(
            errors.message(
                f"feature {key!r} of dtype {value_type.name}",
                "tf.float32, tf.int64 or tf.string, the types of lists in an Example",
                "parse one of these, then tf.cast it",
            )
        )
    return value_type


def raw_features(features: Mapping[str, Any], kinds: tuple[type, ...], of: str = "feature") -> Raw:
    """Descriptions in the form in which ops take them; ValueError or TypeError for what is wrong with them."""
    raw = Raw()
    for key in sorted(features):
        feature = features[key]
        if not isinstance(feature, kinds):
            names = ", ".join(kind.__name__ for kind in kinds)
            of_another_op = isinstance(
                feature, (VarLenFeature, SparseFeature, FixedLenFeature, FixedLenSequenceFeature)
            )
            raise ValueError(
                (
                    f"Unsupported {type(feature).__name__} {feature}."
                    if of_another_op
                    else f"Invalid {of} {key}:{feature}."
                )
                + "\n"
                + errors.message(
                    f"{of} {key!r}: {type(feature).__name__}", f"one of {names}", "tf.FixedLenFeature([], tf.int64)"
                )
            )
        if isinstance(feature, VarLenFeature):
            raw.add_sparse(key, feature.dtype, of)
        elif isinstance(feature, SparseFeature):
            for index_key in index_keys(feature):
                raw.add_sparse(index_key, dtypes.int64, of)
            raw.add_sparse(feature.value_key, feature.dtype, of)
        else:
            _add_dense(raw, key, feature)
    return raw


def index_keys(feature: Any) -> list[str]:
    """Keys of a SparseFeature's indices, one for each dimension."""
    return [feature.index_key] if isinstance(feature.index_key, str) else list(feature.index_key)


def _add_dense(features: Raw, key: str, feature: Any) -> None:
    kind = _value_type(key, feature.dtype)
    if feature.shape is None:
        raise ValueError(
            f"Missing shape for feature {key}.\n"
            + errors.message(f"feature {key!r} without shape", "a shape", "tf.FixedLenFeature([], tf.int64)")
        )
    shape = TensorShape(feature.shape)
    if (
        shape.raw is None
        or None in shape.raw[1:]
        or (None in shape.raw and isinstance(feature, FixedLenSequenceFeature))
    ):
        raise ValueError(
            f"All dimensions of shape for feature {key} need to be known but received {feature.shape}.\n"
            + errors.message(f"feature {key!r} of shape {shape}", "known dimensions", "tf.FixedLenSequenceFeature(...)")
        )
    if isinstance(feature, FixedLenFeature) and None in shape.raw:
        raise ValueError(
            f"First dimension of shape for feature {key} unknown. Consider using FixedLenSequenceFeature.\n"
            + errors.message(
                f"feature {key!r} of shape {shape}",
                "a known shape",
                "tf.FixedLenSequenceFeature(shape[1:], dtype, allow_missing=True)",
            )
        )
    features.dense_keys.append(key)
    features.dense_types.append(kind)
    raw = shape.raw
    if isinstance(feature, FixedLenSequenceFeature):
        raw = (None, *raw)
    features.dense_shapes.append(raw)
    if feature.default_value is not None:
        features.dense_defaults[key] = feature.default_value
