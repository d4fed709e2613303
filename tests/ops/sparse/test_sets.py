"""tf.sets by name, mixed operands, errors."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build

A, B = np.array([[1, 2, 3], [4, 4, 5]]), np.array([[3, 9], [5, 6]])


def run(make: object) -> object:
    with tf.Graph().as_default(), tf.Session() as session:
        return session.run(make())  # type: ignore[operator]


def as_sparse(x: np.ndarray) -> tf.SparseTensor:
    return tf.SparseTensor(np.argwhere(np.ones(x.shape, bool)), x.ravel(), x.shape)


def rows(found: tf.SparseTensorValue) -> list[list[object]]:
    return [found.values[found.indices[:, 0] == row].tolist() for row in range(found.dense_shape[0])]


@pytest.mark.parametrize("first", [lambda x: x, as_sparse], ids=["dense", "sparse"])
@pytest.mark.parametrize("second", [lambda x: x, as_sparse], ids=["dense", "sparse"])
def test_operations(first: object, second: object) -> None:
    found = run(
        lambda: (
            [make(first(A), second(B)) for make in (tf.sets.set_union, tf.sets.intersection, tf.sets.set_difference)]
            + [tf.sets.difference(first(A), second(B), aminusb=False)]
        )
    )
    assert [rows(item) for item in found] == [[[1, 2, 3, 9], [4, 5, 6]], [[3], [5]], [[1, 2], [4]], [[9], [6]]]
    assert found[0].dense_shape.tolist() == [2, 4]


def test_sizes_and_words() -> None:
    assert run(lambda: tf.sets.set_size(as_sparse(A))).tolist() == [3, 2]
    words = [["b", "a"], ["x", "x"]], [["a", "c"], ["y", "z"]]
    assert rows(run(lambda: tf.sets.set_union(*map(tf.constant, words)))) == [[b"a", b"b", b"c"], [b"x", b"y", b"z"]]


def test_errors() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="Mismatched group shapes"):
        run(lambda: tf.sets.set_union(A, B[:1]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="indices of a set are out of order"):
        run(lambda: tf.sets.set_size(tf.SparseTensor([[0, 1], [0, 0]], [1, 2], [1, 2])))
    with pytest.raises(tf.errors.InvalidArgumentError, match="out of bounds"):
        run(lambda: tf.sets.set_size(tf.SparseTensor([[0, 5]], [1], [1, 2])))
    parts = [np.int64([[0, 5]]), np.int64([1]), np.int64([1, 2])]
    for place, given, words in [
        (2, np.int64([2]), "2 columns of indices for a shape of 1 dimensions"),
        (1, np.int64([1, 2]), "1 rows of indices for 2 values"),
        (0, np.int64([[3, 0]]), r"the group \[3\] is not one of the groups \[1\]"),
    ]:
        arrays = [given if i == place else part for i, part in enumerate(parts)]

        def size(arrays: list[np.ndarray] = arrays) -> tf.Tensor:
            return build("SetSize", *(tf.placeholder_with_default(x, None) for x in arrays), validate_indices=False)

        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            run(size)
    with tf.Graph().as_default():
        with pytest.raises(TypeError, match="Expected `SparseTensor`"):
            tf.sets.set_size(A)
        with pytest.raises(ValueError, match="Shape must be at least rank 2"):
            tf.sets.set_union([1, 2], [3])
