"""The features of a batch of examples, dense and sparse, and the tests on them that split nodes."""

from __future__ import annotations

import functools
import re
from typing import Any, NamedTuple

import numpy as np

from anabranch.core.protos import decision_forest_pb2 as pb

DATA_FLOAT, DATA_CATEGORICAL = 0, 1
LESS_OR_EQUAL, LESS, EQUAL = 0, 1, 2
"""Tests of a feature's value against a threshold, which go left where they hold."""
_MATCHING = "type.googleapis.com/tensorflow.decision_trees.MatchingValuesTest"


class Columns(NamedTuple):
    """What an attribute ``input_spec`` says of the features."""

    dense: int
    """How many features are dense; sparse ones are numbered behind them."""
    types: np.ndarray
    """The type of each dense feature."""
    sparse_type: int


@functools.lru_cache(64)
def columns_of(spec: str) -> Columns:
    """Read the text of an attribute ``input_spec``."""
    size = re.match(r"dense_features_size: (\d+)", spec)
    dense, sparse = (re.search(rf"{name}: \[(.*?)\]", spec, re.DOTALL) for name in ("dense", "sparse"))
    each = r"original_type: (\d+) size: (-?\d+)"
    dense_columns = re.findall(each, dense[1]) if dense else []
    sparse_columns = re.findall(each, sparse[1]) if sparse else []
    types = np.array([int(kind) for kind, count in dense_columns for _ in range(int(count))], np.int8)
    return Columns(int(size[1]) if size else 0, types, int(sparse_columns[0][0]) if sparse_columns else DATA_FLOAT)


class Examples:
    """A batch of examples."""

    def __init__(self, spec: str, data: np.ndarray, indices: np.ndarray, values: np.ndarray, shape: np.ndarray) -> None:
        self.columns = columns_of(spec)
        self._data = data if data.ndim == 2 else None
        self._starts: np.ndarray | None = None
        self.count = 0 if self._data is None else len(self._data)
        if indices.ndim == 2:
            order = np.lexsort((indices[:, 1], indices[:, 0]))
            self._rows, self._numbers, self._values = indices[order, 0], indices[order, 1], values[order]
            self.count = self.count or int(shape[0])
            self._starts = np.searchsorted(self._rows, np.arange(self.count + 1))
            self._width = int(self._numbers.max(initial=0)) + 1
            self._places = self._rows * self._width + self._numbers

    def value(self, rows: np.ndarray, features: np.ndarray) -> np.ndarray:
        """The values of features in examples; arrays that broadcast against each other. A missing one is 0."""
        if self._starts is None:
            assert self._data is not None
            return self._data[rows, features]
        rows, features = np.broadcast_arrays(rows, features)
        dense = self.columns.dense
        numbers = features - dense
        wanted = rows.astype(np.int64) * self._width + numbers
        at = np.minimum(np.searchsorted(self._places, wanted), max(len(self._places) - 1, 0))
        found = np.zeros(rows.shape, np.float32)
        if len(self._places):
            there = (self._places[at] == wanted) & (numbers >= 0) & (numbers < self._width)
            found[there] = self._values[at[there]]
        if self._data is not None:
            inside = features < dense
            found[inside] = self._data[rows[inside], features[inside]]
        return found

    def drawn(self, rows: np.ndarray, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """A feature of each of these examples by a random number, and whether it is one of categories."""
        dense = self.columns.dense if self._data is not None else 0
        if self._starts is None:
            features = (numbers % np.uint64(max(dense, 1))).astype(np.int32)
            return features, self.columns.types[features] == DATA_CATEGORICAL
        starts = self._starts[rows]
        own = self._starts[rows + 1] - starts
        chosen = (numbers % np.maximum(dense + own, 1).astype(np.uint64)).astype(np.int64)
        sparse = chosen >= dense
        at = np.minimum(starts + chosen - dense, max(len(self._numbers) - 1, 0))
        features = np.where(sparse, self._numbers[at] + dense if len(self._numbers) else 0, chosen).astype(np.int32)
        kinds = np.full(len(rows), self.columns.sparse_type, np.int8)
        kinds[~sparse] = self.columns.types[chosen[~sparse]]
        return features, kinds == DATA_CATEGORICAL


def goes_left(values: np.ndarray, thresholds: np.ndarray, tests: np.ndarray) -> np.ndarray:
    """Whether tests hold: ``<=``, ``<`` or ``==``."""
    left = values < thresholds
    return (
        left | ((tests != LESS) & (values == thresholds))
        if (tests != EQUAL).all()
        else np.where(tests == EQUAL, values == thresholds, left | ((tests == LESS_OR_EQUAL) & (values == thresholds)))
    )


def test_message(feature: int, threshold: float, test: int) -> Any:
    """The test as a ``BinaryNode`` without children."""
    node = pb.BinaryNode()
    if test == EQUAL:
        matching = pb.MatchingValuesTest(value=[pb.TreeValue(float_value=threshold)])
        matching.feature_id.id.value = str(feature)
        node.custom_left_child_test.type_url = _MATCHING
        node.custom_left_child_test.value = matching.SerializeToString()
    else:
        inequality = node.inequality_left_child_test
        inequality.feature_id.id.value = str(feature)
        inequality.type = pb.InequalityTest.Type.ValueType(test)
        inequality.threshold.float_value = threshold
    return node


def read_test(node: Any) -> tuple[int, float, int]:
    """The feature, threshold and test of a ``BinaryNode``."""
    if node.WhichOneof("left_child_test") == "custom_left_child_test":
        matching = pb.MatchingValuesTest.FromString(node.custom_left_child_test.value)
        if len(matching.value) != 1 or matching.inverse:
            raise ValueError("a test for several values, or for none of them")
        return int(matching.feature_id.id.value), matching.value[0].float_value, EQUAL
    inequality = node.inequality_left_child_test
    return int(inequality.feature_id.id.value), inequality.threshold.float_value, int(inequality.type)
