"""Functions that take TensorFlow 1.15's argument lists, where these differ from what other versions have."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf


@pytest.fixture(autouse=True)
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def test_python_functions_of_structures(session):
    def scale(pair, factor, offset=0.0):
        return {"sum": (pair["a"] + pair["b"]) * factor + offset, "a": pair["a"]}

    pair = {"a": tf.constant([1.0, 2.0]), "b": tf.constant([3.0, 4.0])}
    result = tf.contrib.framework.py_func(
        scale, [pair, np.float32(10)], {"offset": tf.constant(1.0)}, {"sum": tf.float32, "a": tf.float32}, [2]
    )
    assert result["sum"].shape.as_list() == [2]
    assert session.run(result["sum"]).tolist() == [41, 61]
    assert session.run(result["a"]).tolist() == [1, 2]
    seen = []
    operation = tf.contrib.framework.py_func(seen.append, [tf.constant(3)])
    session.run(operation)
    assert seen == [3]


def test_two_spellings(session):
    texts = tf.constant(["1.5", "2"])
    assert session.run(tf.string_to_number(texts)).tolist() == [1.5, 2]
    assert session.run(tf.strings.to_number(input=texts, out_type=tf.float64)).tolist() == [1.5, 2]
    assert (
        session.run(tf.string_to_hash_bucket(input=texts, num_buckets=3)).tolist()
        == session.run(tf.string_to_hash_bucket(texts, 3)).tolist()
    )
    with pytest.raises(ValueError, match="both of string_tensor= and input="):
        tf.string_to_number(texts, input=texts)
    with pytest.raises(ValueError, match="neither of string_tensor= and input="):
        tf.string_to_hash_bucket(num_buckets=3)
    assert session.run(tf.substr(texts, 0, 1, "named", "BYTE")).tolist() == [b"1", b"2"]
    x, one, zero = tf.constant([[[[3.0]]]]), tf.constant([1.0]), tf.constant([0.0])
    normalise = tf.nn.batch_norm_with_global_normalization
    old = normalise(x, one, one, zero, one, 0.0, True)
    new = normalise(input=x, mean=one, variance=one, beta=zero, gamma=one, variance_epsilon=0.0)
    assert session.run([old, new])[0].item() == session.run(new).item() == 2
    with pytest.raises(ValueError, match="Cannot specify both 't' and 'input'"):
        normalise(x, one, one, zero, one, 0.0, True, input=x)
    with pytest.raises(ValueError, match="neither of m= and mean="):
        normalise(x, v=one)


def test_hints_of_operators():
    operator = tf.linalg.LinearOperatorDiag([1.0, 2.0], is_positive_definite=True)
    assert tf.linalg.LinearOperatorInversion(operator, is_self_adjoint=True).is_self_adjoint
    assert tf.linalg.LinearOperatorAdjoint(operator).is_positive_definite
    with pytest.raises(ValueError, match="is_positive_definite=False"):
        tf.linalg.LinearOperatorAdjoint(operator, is_positive_definite=False)
    with pytest.raises(NotImplementedError, match="2 rows and 3 columns"):
        tf.linalg.LinearOperatorZeros(2, 3)
    with pytest.raises(ValueError, match="zeros that are called regular"):
        tf.linalg.LinearOperatorZeros(2, is_non_singular=True)


def test_small_lists(session):
    nest = tf.contrib.framework.nest
    assert nest.flatten_up_to([0], [1, 2], check_subtrees_length=False) == [1]
    with pytest.raises(ValueError, match="1 parts"):
        nest.flatten_up_to([0], [1, 2])
    assert nest.is_sequence([1])
    with pytest.raises(TypeError, match="Expected Tensor's shape"):
        tf.make_tensor_proto([1, 2], shape=[4], allow_broadcast=True)
    assert tf.make_tensor_proto([1], shape=[4], allow_broadcast=True).int_val == [1]
    x = tf.ones([1, 4, 4, 1])
    assert tf.nn.max_pool2d(x, 2, 2, "SAME").shape.as_list() == [1, 2, 2, 1]
    labels, predictions = tf.contrib.framework.remove_squeezable_dimensions(tf.ones([3, 1]), tf.ones([3]))
    assert [labels.shape.as_list(), predictions.shape.as_list()] == [[3], [3]]
    tables = []
    for name in ("a", "b"):
        with tf.Graph().as_default() as graph:
            tf.build_op("HashTableV2", shared_name=name, key_dtype="string", value_dtype="int64", name="table")
            tables.append(graph.as_graph_def())
    tf.test.assert_equal_graph_def(*tables, hash_table_shared_name=True)
    with pytest.raises(AssertionError, match="GraphDefs differ"):
        tf.test.assert_equal_graph_def(*tables)
