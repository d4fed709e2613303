"""TensorFlow 2's names on graphs, under its argument lists."""

from __future__ import annotations

import importlib
import inspect

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import hook, v2


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def arguments(function):
    return list(inspect.signature(function).parameters)


def test_names_and_modules():
    assert tf.compat.v2 is v2
    assert v2.stack is tf.stack
    assert v2.nn.relu is tf.nn.relu
    assert v2.nn is v2.nn
    assert v2.linalg.LinearOperatorDiag is tf.linalg.LinearOperatorDiag
    assert "placeholder" not in dir(v2)
    assert {"where", "reduce_sum", "math"} <= set(dir(v2))
    assert "softmax" in dir(v2.nn)
    with pytest.raises(AttributeError, match=r"Given: tf\.compat\.v2\.placeholder(.|\n)*tf\.compat\.v1\.placeholder"):
        v2.placeholder
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        v2.nothing
    assert not hasattr(v2.nn, "__wrapped__")
    assert v2.summary.create_file_writer is not tf.summary
    assert importlib.import_module("anabranch.compat.v2.summary").scalar is v2.summary.scalar


def test_argument_lists():
    assert arguments(v2.reduce_sum) == ["input_tensor", "axis", "keepdims", "name"]
    assert v2.reduce_sum is v2.math.reduce_sum
    assert arguments(v2.debugging.assert_equal) == ["x", "y", "message", "summarize", "name"]
    assert arguments(v2.debugging.assert_positive) == ["x", "message", "summarize", "name"]
    assert arguments(v2.gather) == ["params", "indices", "validate_indices", "axis", "batch_dims", "name"]
    assert arguments(v2.nn.dropout) == ["x", "rate", "noise_shape", "seed", "name"]


def test_what_they_compute(session):
    x = tf.constant([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    run = session.run
    assert run(v2.where(tf.constant([True, False, True]), x, 0.0)).tolist() == [[1, 0, 3], [4, 0, 6]]
    assert run(v2.reduce_max(x, 1, True)).tolist() == [[3], [6]]
    assert run([v2.argmax(x), v2.argmin(x, 1)])[0].tolist() == [1, 1, 1]
    assert run(v2.gather(x, [[2], [0]], batch_dims=1)).tolist() == [[3], [4]]
    assert run(v2.gather(x, [2], axis=1)).tolist() == [[3], [6]]
    assert run(v2.transpose(x, conjugate=False)).shape == (3, 2)
    assert run(v2.boolean_mask(x, [True, False, True], 1)).tolist() == [[1, 3], [4, 6]]
    assert v2.squeeze(x[:1], 0).shape.as_list() == [3]
    assert v2.expand_dims(x, 0).shape.as_list() == [1, 2, 3]
    assert v2.shape(x, tf.int64).dtype is tf.int64
    assert run([v2.size(x), v2.zeros_like(x)[0, 0], v2.ones_like(x, tf.int32)[0, 0]]) == [6, 0, 1]
    assert v2.cond(True, lambda: 1, lambda: 2) == 1
    assert run(v2.cond(tf.constant(False), lambda: [x], lambda: [x * 2]))[0].tolist()[0] == [2, 4, 6]
    assert run(v2.while_loop(lambda i: i < 3, lambda i: (i + 1,), (tf.constant(0),))) == (3,)
    np.testing.assert_allclose(run(v2.norm(x, axis=1)), np.linalg.norm(run(x), axis=1), 1e-6)
    assert run(v2.math.count_nonzero(x, 1)).tolist() == [3, 3]
    np.testing.assert_allclose(run(v2.nn.softmax(x)).sum(1), [1, 1], 1e-6)
    np.testing.assert_allclose(run(v2.nn.log_softmax(x, 0)), np.log(run(v2.nn.softmax(x, 0))), 1e-5)
    mean, variance = run(v2.nn.moments(x, [1], keepdims=True))
    np.testing.assert_allclose([mean.ravel(), variance.ravel()], [[2, 5], [2 / 3, 2 / 3]], 1e-6)
    assert run(v2.nn.dropout(x, 0.0)).tolist() == run(x).tolist()
    assert run(v2.nn.embedding_lookup(x, [1])).tolist() == [[4, 5, 6]]
    assert run(v2.nn.max_pool(x[None, :, :, None], 2, 2, "VALID")).ravel().tolist() == [5]


def test_losses(session):
    logits, labels = tf.constant([[1.0, 2.0]]), tf.constant([[0.25, 0.75]])
    loss = v2.nn.softmax_cross_entropy_with_logits(labels, logits)
    known = -(0.25 * -np.log1p(np.e) + 0.75 * -np.log1p(np.exp(-1)))
    np.testing.assert_allclose(session.run(loss), [known], 1e-5)
    assert v2.gradients(loss, labels)[0] is not None  # version 1's stops there
    np.testing.assert_allclose(
        session.run(v2.nn.sparse_softmax_cross_entropy_with_logits([1], logits)), [np.log1p(np.exp(-1))], 1e-5
    )
    np.testing.assert_allclose(
        session.run(v2.nn.sigmoid_cross_entropy_with_logits(labels, logits))[0, 0], np.log1p(np.e) - 0.25, 1e-5
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match="as it must"):
        session.run(v2.debugging.assert_less(tf.placeholder_with_default(3, []), 2, "as it must"))
    v2.debugging.assert_positive(1, "as it is")
    v2.random.set_seed(5)
    assert tf.get_default_graph().seed == 5


def test_through_the_alias():
    module = hook.install(replace=True)
    try:
        assert importlib.import_module("tensorflow.compat.v2").where is v2.where
        assert importlib.import_module("tensorflow.compat.v2.math").reduce_sum is v2.reduce_sum
        assert module.compat.v2.nn.softmax is v2.nn.softmax
    finally:
        hook.uninstall()


def test_counts_are_sparse_tensors():
    numbers = np.array([[1, 1, 5], [0, 7, 2]], np.int64)
    given = [
        {"axis": -1},
        {"axis": -1, "maxlength": 6, "minlength": 9},
        {},
        {"axis": -1, "weights": np.array([[1.0, 2, 3], [4, 5, 6]], np.float32)},
    ]
    with tf.Graph().as_default(), tf.Session() as session:
        rows, short, whole, weighed = session.run([v2.sparse.bincount(numbers, **options) for options in given])
        changed = session.run(v2.sparse.map_values(tf.negative, tf.SparseTensor([[0, 1]], [3], [2, 2])))
        with pytest.raises(ValueError, match="No SparseTensor in argument list"):
            v2.sparse.map_values(tf.negative, tf.constant(1))
    assert rows.indices.tolist() == [[0, 1], [0, 5], [1, 0], [1, 2], [1, 7]]
    assert (rows.values.tolist(), rows.dense_shape.tolist()) == ([2, 1, 1, 1, 1], [2, 8])
    assert (short.values.tolist(), short.dense_shape.tolist()) == ([2, 1, 1, 1], [2, 6])
    assert (whole.indices.tolist(), whole.values.tolist()) == ([[0], [1], [2], [5], [7]], [1, 2, 1, 1, 1])
    assert weighed.values.tolist() == [3, 3, 4, 6, 5]
    assert (changed.values.tolist(), changed.dense_shape.tolist()) == ([-3], [2, 2])


def test_raw_ops_take_the_names_of_the_api():
    raw = tf.raw_ops
    x = np.array([[1.0, 2.0], [3.0, 4.0]])
    with tf.Graph().as_default(), tf.Session() as session:
        ops = {
            "sum": raw.Sum(input=x, axis=[0]),
            "old": raw.Sum(input=x, reduction_indices=[0]),
            "expanded": raw.ExpandDims(input=x, axis=0),
            "chosen": raw.Select(condition=x > 2, x=x, y=-x),
            "split": raw.Split(axis=0, value=x, num_split=2)[1],
            "squeezed": raw.Squeeze(input=x[:, :1], axis=[1]),
            "places": raw.Where(condition=x > 2),
        }
        values = session.run(ops)
    np.testing.assert_equal(values["sum"], [4, 6])
    np.testing.assert_equal(values["old"], [4, 6])
    assert values["expanded"].shape == (1, 2, 2)
    np.testing.assert_equal(values["chosen"], [[-1, -2], [3, 4]])
    np.testing.assert_equal(values["split"], [[3, 4]])
    np.testing.assert_equal(values["squeezed"], [1, 3])
    np.testing.assert_equal(values["places"], [[1, 0], [1, 1]])
