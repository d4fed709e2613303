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


def shared(**other: Any) -> Any:
    """Two queues of one name; the second one wants something else."""
    given = {"capacity": 3, "min_after_dequeue": 0, "dtypes": tf.float32, "seed": 1, "shared_name": "q"}
    first = tf.RandomShuffleQueue(**given).size()
    with tf.control_dependencies([first]):
        return tf.RandomShuffleQueue(**{**given, **other}).size()


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
    (lambda: tf.cumprod(ones(2, 3), [0]), "ScanOp: axis must be a scalar, not [1]"),
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
    (
        lambda: tf.where(fed([True]), fed(ones(2, 2)), fed(ones(2, 2))),
        "Number of batches of 'then' must match size of 'cond', but saw: 2 vs. 1",
    ),
    (
        lambda: tf.pad(fed(ones(2, 2)), fed([[-1, 1], [0, 0]], np.int32), "REFLECT"),
        "paddings must be non-negative: -1 1",
    ),
    (
        lambda: tf.sparse_add(tf.SparseTensor([[0, 9]], [1.0], [2, 3]), ones(2, 3)),
        "Sparse tensor has some invalid index; dense tensor shape: [2,3]",
    ),
    (
        lambda: shared(min_after_dequeue=1),
        "Shared queue 'q' has min_after_dequeue 0 but requested min_after_dequeue was 1.",
    ),
    (lambda: shared(seed=2), "Shared queue 'q' has random seeds (87654321, 1) but requested seeds are (87654321, 2)."),
    (
        lambda: tf.confusion_matrix([1, 1, 0, 3], [2, 1, 0, 2], 3),
        "[`labels` out of bound] [Condition x < y did not hold element-wise:] [x (confusion_matrix/control_dep",
    ),
    (
        lambda: tf.confusion_matrix([1, 1, 0, 2], [2, 1, 0, 3], 3),
        "[`predictions` out of bound] [Condition x < y did not hold",
    ),
    (lambda: tf.decode_base64("abcd$"), "Base64 string length cannot be 1 modulo 4."),
    (lambda: tf.decode_base64("ab$de"), "Invalid character found in base64."),
    (lambda: tf.decode_raw([b"short", b"longer"], tf.uint8), "all be the same size, but element 1 has size 5 != 6"),
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
    (lambda: tf.split([1, 2, 3], 3, axis=1), ValueError, "given by scalar input 1 must be in range [-1, 1)"),
    (lambda: tf.split([1, 2, 3], [-1, -1]), ValueError, "size_splits can only have one -1"),
    (lambda: tf.transpose(ones(2, 2), [0]), ValueError, "Dimension must be 2 but is 1"),
    (lambda: tf.one_hot([0, 1], -1), ValueError, "given by scalar input 1, must be non-negative but is -1"),
    (lambda: tf.reshape([1, 2], [0, -1]), ValueError, "Cannot reshape a tensor with 2 elements to shape [0,?]"),
    (
        lambda: tf.space_to_batch(ones(1, 2, 2, 1), [[-1, 1], [0, 0]], 2),
        ValueError,
        "paddings cannot be negative",
    ),
    (lambda: tf.batch_to_space(ones(4, 2, 2, 1), [[-1, 1], [0, 0]], 2), ValueError, "crops cannot be negative"),
    (
        lambda: tf.batch_to_space(ones(4, 2, 2, 1), [[3, 3], [0, 0]], 2),
        ValueError,
        "Negative dimension size caused by subtracting 6 from 4",
    ),
    (
        lambda: tf.space_to_batch_nd(ones(1, 2, 2, 1), [2, 0], [[0, 0], [0, 0]]),
        ValueError,
        "block_shape must be positive",
    ),
    (
        lambda: tf.space_to_batch_nd(ones(1, 2), [2, 2], [[0, 0], [0, 0]]),
        ValueError,
        "Shape must be at least rank 3 but is rank 2",
    ),
    (lambda: tf.scatter_nd(0, 1, [3]), ValueError, "Shape must be at least rank 1 but is rank 0"),
    (lambda: tf.unsorted_segment_sum([1, 2], [0], 3), ValueError, "Dimensions must be equal, but are 2 and 1"),
    (
        lambda: tf.unsorted_segment_sum([1, 2], [0, 1], -1),
        ValueError,
        "Dimension size, given by scalar input 2, must be non-negative but is -1",
    ),
    (
        lambda: tf.sparse_segment_sum(ones(2, 2), [0, 1], [0]),
        ValueError,
        "Dimension 0 in both shapes must be equal, but are 2 and 1. Shapes are [2] and [1]",
    ),
    (
        lambda: tf.nn.max_pool(ones(1, 2, 2, 1), [1, 2, 2, 1], [1, 1, 1, 1], "BAD"),
        ValueError,
        "Attr 'padding' of 'MaxPool' Op passed string 'BAD' not in: \"SAME\", \"VALID\".",
    ),
    (
        lambda: tf.nn.conv3d(ones(1, 2, 2, 2, 1), ones(1, 1, 1, 1, 1), [1] * 5, "BAD"),
        ValueError,
        "Attr 'padding' of 'Conv3D' Op passed string 'BAD'",
    ),
    (
        lambda: tf.nn.pool(ones(1, 2, 2, 1), [2, 2], "BAD", "SAME"),
        ValueError,
        "2-D BAD pooling is not supported.",
    ),
    (lambda: tf.nn.pool(ones(1, 2, 2, 1), [2], "MAX", "SAME"), ValueError, "Shape (1, 2, 2, 1) must have rank 3"),
    (lambda: tf.sets.set_size(5), TypeError, "Expected `SparseTensor`, got 5."),
    (lambda: tf.sets.set_union(ones(1, 2), ones(1, 2)), TypeError, "'a' invalid dtype <dtype: 'float32'>."),
    (
        lambda: tf.sets.set_union([[1]], [["a"]]),
        TypeError,
        "Types don't match, <dtype: 'int32'> vs <dtype: 'string'>.",
    ),
    (lambda: tf.sets.set_difference([1, 2], [[1]]), ValueError, "Shape must be at least rank 2 but is rank 1"),
    (
        lambda: tf.nn.sparse_softmax_cross_entropy_with_logits(labels=[0, 1], logits=ones(1, 2)),
        ValueError,
        "Shape mismatch: The shape of labels (received (2,)) should equal the shape of logits except for the last",
    ),
    (
        lambda: tf.nn.softmax_cross_entropy_with_logits(labels=[[0, 1]], logits=[[1, 2]]),
        TypeError,
        "Value passed to parameter 'features' has DataType int32 not in list of allowed values: float16",
    ),
    (
        lambda: tf.pad(ones(2, 2), [[1, 1], [1]]),
        ValueError,
        "Tried to convert 'paddings' to a tensor and failed. Error: Argument must be a dense tensor: [[1, 1], [1]]",
    ),
    (lambda: tf.parse_example(["a"], {}), ValueError, "Missing: features was {}."),
    (lambda: tf.parse_example(["a"], {"a": 5}), ValueError, "Invalid feature a:5."),
    (
        lambda: tf.parse_single_sequence_example("a", {"a": tf.SparseFeature("i", "v", tf.int64, 3)}),
        ValueError,
        "Unsupported SparseFeature",
    ),
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
    (lambda: tf.boolean_mask([1, 2, 3, 4], [[True, False]]), ValueError, "Shapes (4,) and (1, 2) are incompatible"),
    (lambda: tf.boolean_mask(ones(2, 2), [True] * 3), ValueError, "Shapes (2,) and (3,) are incompatible"),
    (
        lambda: tf.constant([1, 2, 3])[:2].assign([1, 2]),
        ValueError,
        "Sliced assignment is only supported for variables",
    ),
    (
        lambda: tf.strided_slice(tf.constant([1, 2, 3]), [0], [2]).assign([1, 2]),
        ValueError,
        "Sliced assignment is only supported for variables",
    ),
    (
        lambda: tf.while_loop(lambda a, b: a < 3.0, lambda a, b: [a], [tf.constant(0.0), tf.constant(1.0)]),
        ValueError,
        "The two structures don't have the same nested structure. They don't have the same number of elements.",
    ),
    (
        lambda: tf.losses.mean_pairwise_squared_error(ones(2, 2, 3), ones(2, 2, 3), [1.0, 2.0]),
        ValueError,
        "weights can not be broadcast to values. values.rank=3. weights.rank=1.",
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
