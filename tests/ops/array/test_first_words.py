"""The words with which errors begin that programs match: those of TensorFlow 1.x for the same call."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import anabranch as tf

FEEDS: dict[Any, np.ndarray] = {}


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    FEEDS.clear()
    with tf.Graph().as_default():
        yield


def fed(value: Any, dtype: Any = None) -> Any:
    """A placeholder of unknown shape that is fed ``value``: what is wrong with it is seen when the step runs."""
    array = np.array(value, dtype)
    array = array.astype(np.int32) if array.dtype == np.int64 else array.astype(dtype or array.dtype)
    x = tf.placeholder(tf.as_dtype(array.dtype))
    FEEDS[x] = array
    return x


def ones(*shape: int) -> np.ndarray:
    return np.ones(shape, np.float32)


RUNNING = [
    (lambda: tf.concat([fed(2), fed(3)], fed(0)), "Expected concatenating dimensions in the range [0, 0), but got 0"),
    (lambda: tf.concat([fed(ones(2, 3))] * 2, fed(-3)), "Expected concatenating dimensions in the range [-2, 2)"),
    (
        lambda: tf.concat([fed(ones(2, 3)), fed(ones(2))], fed(0)),
        "Ranks of all input tensors should match: shape[0] = [2,3] vs. shape[1] = [2]",
    ),
    (lambda: tf.fill(fed(2), 3.0), "dims must be a vector, got shape []"),
    (lambda: tf.fill(fed([2]), fed([3.0])), "value must be a scalar, got shape [1]"),
    (lambda: tf.fill(fed([-2]), 3.0), "Dimension -2 must be >= 0"),
    (lambda: tf.reshape(fed(7), fed([[1]])), "sizes input must be 1-D, not [1,1]"),
    (lambda: tf.range(fed([0]), 3, 2), "start must be a scalar, not shape [1]"),
    (lambda: tf.range(0, fed([3]), 2), "limit must be a scalar, not shape [1]"),
    (lambda: tf.tile(fed([7]), fed(2)), "Expected multiples to be 1-D, but got shape []"),
    (lambda: tf.pad(fed(7), fed([[1, 2]])), "The first dimension of paddings must be the rank of inputs[1,2] []"),
    (lambda: tf.pad(fed([7]), fed([[1, 2, 3]])), "paddings must be a matrix with 2 columns: [1,3]"),
    (lambda: tf.pad(fed([7]), fed([[-1, 2]])), "Paddings must be non-negative: -1 2"),
    (
        lambda: tf.pad(fed([7, 8]), fed([[2, 2]]), mode="REFLECT"),
        "paddings must be less than the dimension size: 2, 2 not less than 2",
    ),
    (
        lambda: tf.pad(fed([7, 8]), fed([[3, 3]]), mode="SYMMETRIC"),
        "paddings must be no greater than the dimension size: 3, 3 greater than 2",
    ),
    (
        lambda: tf.slice(fed([1, 2]), fed(2), fed([3])),
        "Expected begin and size arguments to be 1-D tensors of size 1, but got shapes [] and [1] instead.",
    ),
    (
        lambda: tf.gather_nd(fed([0, 1, 2]), fed([[[0], [7]]])),
        "flat indices[1, :] = [7] does not index into param (shape: [3])",
    ),
    (
        lambda: tf.gather_nd(fed([0, 1, 2]), fed([[[0], [7]]])),
        "indices[0,1] = [7] does not index into params shape [3]",
    ),
    (lambda: tf.gather_nd(fed(ones(0, 3)), fed([[0, 0]])), "Requested more than 0 entries, but params is empty."),
    (lambda: tf.gather_nd(fed(3.0), fed([[0]])), "params must be at least a vector"),
    (lambda: tf.scatter_nd(fed([[-1]]), fed([1.0]), fed([6])), "Invalid indices: [0,0] = [-1] does not index into [6]"),
    (
        lambda: tf.scatter_nd(fed(np.zeros((3, 2, 2)), np.int32), fed(ones(2, 2, 2)), fed([2, 2, 2])),
        "The outermost dimension of updates and indices must match. Got indices.shape [3,2,2], updates.shape [2,2,2]",
    ),
    (
        lambda: tf.scatter_nd(fed(np.zeros((2, 2, 1)), np.int32), fed(ones(2, 2)), fed([2, 2, 2])),
        "got updates.shape: [2,2], indices.shape: [2,2,1], params_shape: [2,2,2], slice_dim: 1, and batch_dim: 2",
    ),
    (
        lambda: tf.scatter_nd(fed([[0, 0]]), fed(ones(1, 2)), fed([0, 3, 2])),
        "Indices and updates specified for empty output.  indices shape: [1,2]",
    ),
    (lambda: tf.scatter_nd(fed([[0]]), fed([1.0]), fed(6)), "Shape must be a vector"),
    (lambda: tf.split(fed(ones(4, 2)), 2, axis=fed(5)), "-input rank(-2) <= split_dim < input rank (2), but got 5"),
    (lambda: tf.split(fed(ones(4)), fed([-1, -1]), num=2), "There can only be one -1 in the input."),
    (lambda: tf.split(fed(ones(4)), fed([1, 2]), num=2), "if not fully specified.  Got: 3"),
    (lambda: tf.unstack(fed(ones(4, 2)), num=3), "Input shape axis 0 must equal 3, got shape [4,2]"),
    (lambda: tf.transpose(fed(ones(2, 3, 5)), fed([0, 1, 1])), "2 is missing from {0,1,1}."),
    (lambda: tf.reverse(fed(ones(2, 3)), fed([2])), "'axis'[0] = 2 is out of valid range [0, 1"),
    (lambda: tf.reverse(fed(ones(2, 3)), fed([0, -2])), "axis 0 specified more than once."),
    (lambda: tf.reverse_sequence(fed(ones(2, 3)), fed([1, 9]), 1, 0), "seq_lens(1) > input.dims(1)"),
    (lambda: tf.reverse_sequence(fed(ones(2, 3)), fed([1]), 1, 0), "len(seq_lens) != input.dims(0), (1 vs. 2)"),
    (lambda: tf.squeeze(fed(ones(2, 1)), [0]), "Tried to explicitly squeeze dimension 0 but dimension was not 1: 2"),
    (lambda: tf.roll(fed(ones(2)), fed([[1]]), fed([0])), "shift must be a scalar or a 1-D vector. Found: [1,1]"),
    (lambda: tf.roll(fed(ones(2)), fed([1]), fed([[0]])), "axis must be a scalar or a 1-D vector. Found: [1,1]"),
    (lambda: tf.roll(fed(ones(2, 3)), fed([1]), fed([5])), "axis 5 is out of range"),
]
BUILDING = [
    (lambda: tf.concat([1, 2], 0), "Can't concatenate scalars (use tf.stack instead)"),
    (lambda: tf.concat([[1], 3], 0), "Shape must be rank 1 but is rank 0"),
    (
        lambda: tf.concat([ones(2, 3), ones(3, 4)], 0),
        "Dimension 0 in both shapes must be equal, but are 3 and 4. Shapes are [3] and [4]",
    ),
    (lambda: tf.concat([ones(2, 3)] * 2, 2), "Shape must be at least rank 3 but is rank 2"),
    (lambda: tf.reshape(ones(2, 3), [[2, 3]]), "Shape must be rank 1 but is rank 2"),
    (lambda: tf.tile([7], [2, 3]), "Shape must be rank 1 but is rank 2"),
    (lambda: tf.pad(7, [[1, 2]]), "Shape must be rank 1 but is rank 0"),
    (lambda: tf.pad([7], [[1, 2, 3]]), "Dimension must be 2 but is 3"),
    (lambda: tf.pad([7], [[-1, 2]]), "Paddings must be non-negative"),
    (lambda: tf.slice([7, 8], 1, [1]), "Shape must be rank 1 but is rank 0"),
    (lambda: tf.slice([7, 8], [1, 0], [1, 1]), "Shape must be rank 2 but is rank 1"),
    (lambda: tf.slice([7, 8], [-1], [1]), "Invalid value in tensor used for shape: -1"),
    (lambda: tf.slice([7, 8], [1], [2]), "Expected size[0] in [0, 1], but got 2"),
    (lambda: tf.gather(ones(3, 2), [0], axis=2), "Shape must be at least rank 3 but is rank 2"),
    (
        lambda: tf.split(ones(4, 2), [1, 2], axis=0),
        "Sum of output sizes must match the size of the original Tensor along",
    ),
    (lambda: tf.reverse(ones(2, 3), [2]), "'axis'[0] = 2 is out of valid range [0, 1"),
    (lambda: tf.reverse(ones(2, 3), [0, -2]), "axis 0 specified more than once"),
    (lambda: tf.reverse_sequence(ones(2, 3), [1, 1], 3, 0), "seq_dim must be < input rank: 3 vs. 2"),
    (lambda: tf.reverse_sequence(ones(2, 3), [1, 1], 1, 3), "batch_dim must be < input rank: 3 vs. 2"),
    (lambda: tf.squeeze(ones(2, 1), [3]), "squeeze_dims[0] not in [-2,2)"),
]


@pytest.mark.parametrize(("make", "words"), RUNNING)
def test_of_a_step(make: Any, words: str) -> None:
    x = make()
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match=re.escape(words)),
    ):
        session.run(x, FEEDS)


@pytest.mark.parametrize(("make", "words"), BUILDING)
def test_of_construction(make: Any, words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        make()


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_sizes_that_32_bits_do_not_hold(tier):
    huge = np.zeros([2**40, 0], "f")
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        x = tf.placeholder(tf.float32, [None, 0])
        for value in (tf.shape(x), tf.shape_n([x, x])[1], tf.unstack(tf.shape(x), num=2)[0]):
            with pytest.raises(tf.errors.InvalidArgumentError, match="Shape output type is 32-bit"):
                session.run(value + 0, {x: huge})
        assert session.run([tf.shape(x, out_type=tf.int64), tf.size(x)], {x: huge})[0].tolist() == [2**40, 0]
