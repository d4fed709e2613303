"""Functions of a number, called for many numbers, and Jacobians in a graph."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat.internal import layer_names
from anabranch.compat.internal.parallel_for import batch_jacobian, for_loop, jacobian, pfor

X = np.array([[1.0, 2.0, 3.0], [-1.0, 0.5, 2.0]], np.float32)
W = np.array([[1.0, -2.0], [0.5, 3.0], [2.0, 1.0]], np.float32)


def test_results_of_iterations_are_stacked_in_the_structure_of_one() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant(X)
        count = tf.placeholder(tf.int32, [])
        rows = pfor(lambda i: {"twice": 2 * tf.gather(x, i), "none": None, "number": (i,)}, 2)
        assert rows["none"] is None
        assert rows["twice"].shape.as_list() == [2, 3]
        twice, (numbers,) = session.run([rows["twice"], rows["number"]])
        np.testing.assert_array_equal(twice, 2 * X)
        assert numbers.tolist() == [0, 1]
        squares = for_loop(lambda i: [i * i, tf.to_float(i)], [tf.int32, tf.float32], count)
        assert session.run(squares[0], {count: 4}).tolist() == [0, 1, 4, 9]
        assert session.run(squares[1], {count: 0}).shape == (0,)
        with pytest.raises(ValueError, match=r"Number of expected outputs, 1, does not match .* actual outputs, 2"):
            for_loop(lambda i: [i, i], [tf.int32], 2)


def test_jacobian_of_a_layer() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [2, 3])
        w = tf.Variable(W)
        y = tf.square(tf.matmul(x, w))
        unused = tf.constant(1.0)
        of_x, of_w, of_unused = jacobian(y, [x, w, unused])
        assert of_unused is None
        assert of_x.shape.as_list() == [2, 2, 2, 3]
        assert of_w.shape.as_list() == [2, 2, 3, 2]
        session.run(w.initializer)
        found_x, found_w = session.run([of_x, of_w], {x: X})
        plain = jacobian(y, x, use_pfor=False)
        np.testing.assert_array_equal(session.run(plain, {x: X}), found_x)
    slope = 2 * X @ W
    np.testing.assert_allclose(found_x, np.einsum("bj,ij,bc->bjci", slope, W, np.eye(2)), rtol=1e-6)
    np.testing.assert_allclose(found_w, np.einsum("bj,bi,jk->bjik", slope, X, np.eye(2)), rtol=1e-6)


def test_jacobians_of_rows_of_an_unknown_batch() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 3])
        y = tf.reshape(tf.square(tf.matmul(x, W)), [-1, 1, 2])
        found = session.run(batch_jacobian(y, x), {x: X})
        assert batch_jacobian(tf.constant(X), x) is None
        with pytest.raises(ValueError, match=r"first dimension of output shape \(\(4, 3\)\) and inp shape"):
            batch_jacobian(tf.zeros([4, 3]), tf.zeros([2, 3]))
    np.testing.assert_allclose(found[:, 0], np.einsum("bj,ij->bji", 2 * X @ W, W), rtol=1e-6)


def test_second_derivatives_through_a_jacobian() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [3])
        hessian = jacobian(tf.gradients(tf.reduce_sum(x * x * x), x)[0], x)
        (third,) = tf.gradients(tf.reduce_sum(hessian), x)
        found, sums = session.run([hessian, third], {x: X[0]})
    np.testing.assert_allclose(found, np.diag(6 * X[0]), rtol=1e-6)
    np.testing.assert_allclose(sums, [6, 6, 6], rtol=1e-6)


def test_shape_of_a_tensor_that_holds_one() -> None:
    with tf.Graph().as_default():
        shape_of = layer_names._maybe_tensor_shape_from_tensor
        assert shape_of(tf.constant([2, 3])).as_list() == [2, 3]
        assert shape_of(tf.stack([2, tf.placeholder(tf.int32, [])])).as_list() == [2, None]
        assert shape_of(None) is None
