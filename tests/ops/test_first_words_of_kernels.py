"""The words with which errors begin that programs match: of all families but arrays, which have a file of their own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build

FEEDS: dict[Any, np.ndarray] = {}


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    FEEDS.clear()
    with tf.Graph().as_default():
        yield


def fed(value: Any, dtype: Any = None) -> Any:
    """A placeholder of unknown shape that is fed ``value``: what is wrong with it is seen when the step runs."""
    array = np.array(value, dtype)
    x = tf.placeholder(tf.as_dtype(array.dtype))
    FEEDS[x] = array
    return x


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


def sparse(indices: Any, values: Any, sizes: Any) -> Any:
    return tf.SparseTensor(fed(indices, np.int64), fed(values), fed(sizes, np.int64))


def accumulated(indices: Any, rows: Any) -> Any:
    return tf.SparseConditionalAccumulator(tf.float32, [3, 2]).apply_grad(fed(indices, np.int64), fed(rows))


def sampled(classes: Any) -> Any:
    return tf.nn.uniform_candidate_sampler(fed(classes, np.int64), 1, 2, True, 5)


def labelled(lengths: Any) -> Any:
    return tf.nn.ctc_loss(tf.SparseTensor([[0, 0]], [1], [1, 1]), ones(2, 1, 3), fed(lengths, np.int32))


RUNNING = [
    (lambda: tf.random_uniform(fed(3, np.int32)), "shape must be a vector of {int32,int64}, got shape []"),
    (lambda: tf.random_normal(fed([-3], np.int32)), "Dimension -3 must be >= 0"),
    (lambda: tf.strings.to_hash_bucket_strong(["a"], 10, key=[1]), "Key must have 2 elements"),
    (lambda: sampled([[1, 2]]), "true_classes must have num_true columns, expected: 2 was: 1"),
    (lambda: sampled([1]), "true_classes must be a matrix"),
    (lambda: labelled([5]), "sequence_length(0) <= 2"),
    (lambda: labelled([2, 2]), "len(sequence_length) != batch_size.  len(sequence_length):  2 batch_size: 1"),
    (
        lambda: tf.where(fed([True, False]), fed(ones(3)), fed(ones(3))),
        "must have the same size and shape.  Input 0: [2] != input 1: [3]",
    ),
    (
        lambda: tf.where(fed([True, False]), fed(ones(2)), fed(ones(3))),
        "must have the same size and shape.  Input 0: [2] != input 2: [3]",
    ),
    (
        lambda: build("SparseSoftmaxCrossEntropyWithLogits", fed(ones(1, 3)), fed(0)),
        "labels must be 1-D, but got shape []",
    ),
    (lambda: tf.sparse_to_dense(fed([0, 1]), fed([5]), fed([1.0]), fed([0.0])), "default_value should be a scalar."),
    (
        lambda: tf.sparse_to_dense(fed([1, 3]), fed([5]), fed([[5], [3]]), fed(0)),
        "sparse_values has incorrect shape [2,1], should be [] or [2]",
    ),
    (
        lambda: tf.sparse_add(sparse([[0, 0]], [1.0], [2, 2]), sparse([[0, 0]], [1.0], [2, 3])),
        "Operands' shapes do not match: got 2 and 3 for dimension 1",
    ),
    (
        lambda: tf.sparse_add(sparse([[0, 0]], [1.0], [2, 2]), sparse([[0]], [1.0], [2])),
        "Operands do not have the same ranks; got shapes: 2 2 and 2",
    ),
    (lambda: accumulated([0, 1], ones(1, 2)), "Expected 2 non-empty input values, got 1"),
    (
        lambda: accumulated([1, 7], ones(2, 2)),
        "Shape mismatch: index of slice 1 exceeded limits of shape; index is 7 exceeded 3",
    ),
    (lambda: tf.cumsum(ones(2, 3), 7), "ScanOp: Expected scan axis in the range [-2, 2), but got 7"),
    (lambda: tf.roll(ones(2, 3), [1], [5]), "axis 5 is out of range"),
    (lambda: build("InplaceUpdate", fed(ones(4, 2)), fed([0, 1], np.int32), fed(ones(3, 2))), "[2] vs. [3,2]"),
    (
        lambda: build("InplaceUpdate", fed(ones(4, 2)), fed([[0]], np.int32), fed(ones(1, 2))),
        "i must be a vector. [1,1]",
    ),
    (lambda: tf.nn.top_k(fed(ones(2, 3)), fed(-4)), "Need k >= 0, got -4"),
    (lambda: tf.nn.top_k(fed(3.0), fed(1)), "input must be >= 1-D, got shape []"),
    (lambda: build("NthElement", fed(ones(2, 3)), fed(-4, np.int32)), "Need n >= 0, got -4"),
    (lambda: build("NthElement", fed(ones(2, 3)), fed(4, np.int32)), "Input must have at least n+1 columns"),
    (lambda: build("NthElement", fed(ones(2, 3)), fed([1], np.int32)), "N must be scalar, got shape [1]"),
    (
        lambda: tf.nn.in_top_k(fed(ones(2, 3)), fed([0], np.int32), 1),
        "First dimension of predictions 2 must match length of targets 1",
    ),
    (lambda: tf.bitcast(fed(ones(2, 3)), tf.float64), "Cannot bitcast from float to double: shape [2,3]"),
    (lambda: tf.cholesky(fed(ones(2, 3))), "Input matrix must be square."),
    (
        lambda: tf.broadcast_dynamic_shape(fed([2, 3], np.int32), fed([4], np.int32)),
        "Incompatible shapes: [2,3] vs. [4]",
    ),
    (lambda: tf.assert_rank_in(fed(1.0), [fed([1, 2], np.int32)]), "Rank must be a scalar"),
    (lambda: tf.placeholder(tf.int32, [2, 3], name="p") + 1, "placeholder tensor 'p' with dtype int32 and shape [2,3]"),
]
BUILDING = [
    (lambda: tf.random_uniform(3), ValueError, "Shape must be rank 1 but is rank 0"),
    (lambda: tf.placeholder_with_default([1, 2], [3]), ValueError, "are 2 and 3. Shapes are [2] and [3]"),
    (lambda: tf.unstack(tf.placeholder(tf.float32, [None])), ValueError, "Cannot infer num from shape (?,)"),
    (
        lambda: tf.scatter_nd(np.zeros((3, 2, 2), np.int32), ones(2, 2, 2), [2, 2, 2]),
        ValueError,
        "The outer 2 dimensions of indices.shape=[3,2,2] must match the outer 2 dimensions of updates.shape=[2,2,2]",
    ),
    (
        lambda: tf.scatter_nd(np.zeros((2, 2, 2), np.int32), ones(2, 2, 2), [0, 3, 2]),
        ValueError,
        "Indices and updates specified for empty output",
    ),
    (
        lambda: tf.constant([1, 2, 3], shape=[2]),
        ValueError,
        "Too many elements provided. Needed at most 2, but received 3",
    ),
    (lambda: tf.constant([1, 2], shape=[3], verify_shape=True), TypeError, "Expected Tensor's shape: (3,), got (2,)."),
    (lambda: tf.constant("a", tf.int32), TypeError, "Expected int32, got 'a' of type 'str' instead."),
    (
        lambda: tf.constant([1, "a"]),
        TypeError,
        "Failed to convert object of type <class 'list'> to Tensor. Contents: [1, 'a']",
    ),
    (lambda: tf.constant([[1], [1, 2]]), ValueError, "Argument must be a dense tensor: [[1], [1, 2]]"),
    (
        lambda: build("NthElement", ones(2, 3), -4),
        ValueError,
        "given by scalar input 1, must be non-negative but is -4",
    ),
    (lambda: tf.bitcast(ones(2, 3), tf.float64), ValueError, "Cannot bitcast due to shape. 3 does not match 2"),
    (
        lambda: tf.argmax(ones(2, 3), 4),
        ValueError,
        "Dimension (4) must be in the range [-2, 2), where 2 is the number of",
    ),
    (lambda: tf.sparse_split(2, 3), ValueError, "Keyword arguments are required"),
    (lambda: tf.sparse_split(axis=2, num_split=2), ValueError, "sp_input is required"),
    (
        lambda: tf.assert_rank(1.0, tf.constant(1.0)),
        TypeError,
        "must be of type <dtype: 'int32'>; got <dtype: 'float32'>",
    ),
    (lambda: tf.confusion_matrix([1, 2], [0, 1, 2]), ValueError, "must be equal, but are 2 and 3"),
    (
        lambda: tf.confusion_matrix([[1, 2, 0]], [0, 1, 2]),
        ValueError,
        "Can not squeeze dim[1], expected a dimension of 1, got 3",
    ),
    (lambda: bool(tf.constant(1)), TypeError, "Using a `tf.Tensor` as a Python `bool` is not allowed."),
    (lambda: list(tf.constant(1)), TypeError, "Tensor objects are not iterable when eager execution is not enabled."),
    (lambda: len(tf.constant([1])), TypeError, "object of type 'Tensor' has no len()"),
    (
        lambda: tf.convert_to_tensor(tf.constant([1]), tf.float32),
        ValueError,
        "for Tensor with dtype int32: 'Tensor(\"Const:0\", shape=(1,), dtype=int32)'",
    ),
    (lambda: tf.contrib.lookup.StrongHashSpec([1]), ValueError, "key must have size 2, got 1."),
    (
        lambda: tf.contrib.lookup.index_table_from_tensor(["a"]).lookup(tf.constant([1])),
        TypeError,
        "Signature mismatch. Keys must be dtype <dtype: 'string'>, got <dtype: 'int32'>.",
    ),
]


@pytest.mark.parametrize(("make", "words"), RUNNING)
def test_of_a_step(make: Any, words: str) -> None:
    x = make()
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(words)),
    ):
        session.run(x, FEEDS)


@pytest.mark.parametrize(("make", "kind", "words"), BUILDING)
def test_of_construction(make: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=re.escape(words)):
        make()
