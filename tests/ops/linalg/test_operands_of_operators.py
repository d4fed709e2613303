"""What linear operators take: classes and words of refusals, and dtypes of logarithms, of TensorFlow 1.15.5."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

L = tf.linalg
M = np.array([[2, 1j], [0, 3 + 1j]], np.complex64)
V = np.array([1 + 1j, 2], np.complex64)
COMPLEX = {
    "diagonal": lambda: L.LinearOperatorDiag(V),
    "full": lambda: L.LinearOperatorFullMatrix(M),
    "triangle": lambda: L.LinearOperatorLowerTriangular(M.T),
    "identity": lambda: L.LinearOperatorIdentity(2, dtype=tf.complex64),
    "scaled": lambda: L.LinearOperatorScaledIdentity(2, np.complex64(2 + 1j)),
    "circulant": lambda: L.LinearOperatorCirculant(V),
    "toeplitz": lambda: L.LinearOperatorToeplitz(V, V),
    "householder": lambda: L.LinearOperatorHouseholder(np.array([1, 0], np.complex64)),
    "composition": lambda: L.LinearOperatorComposition([L.LinearOperatorDiag(V), L.LinearOperatorFullMatrix(M)]),
    "adjoint": lambda: L.LinearOperatorAdjoint(L.LinearOperatorFullMatrix(M)),
    "inverse": lambda: L.LinearOperatorInversion(L.LinearOperatorFullMatrix(M, is_non_singular=True)),
}


@pytest.fixture(autouse=True)
def graph() -> object:
    with tf.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize("name", COMPLEX)
def test_what_does_not_fit_is_refused(name):
    operator = COMPLEX[name]()
    for method in (operator.matmul, operator.solve):
        with pytest.raises(ValueError, match=r"^Dimensions 2 and 3 are not compatible"):
            method(np.ones([3, 2], np.complex64))
        with pytest.raises(ValueError, match=r"^Dimensions 2 and 3 are not compatible"):
            method(np.ones([2, 3], np.complex64), adjoint_arg=True)
        with pytest.raises(IndexError, match=r"^list index out of range\nGiven: an operand of shape .2."):
            method(np.ones([2], np.complex64))
    for method in (operator.matvec, operator.solvevec):
        with pytest.raises(ValueError, match=r"^Dimensions 2 and 3 are not compatible"):
            method(np.ones([3], np.complex64))
        with pytest.raises(IndexError, match=r"^list index out of range\n"):
            method(np.complex64(1))


@pytest.mark.parametrize("name", COMPLEX)
def test_tensors_of_another_dtype_are_refused(name):
    operator = COMPLEX[name]()
    words = "^Expected argument to have dtype <dtype: 'complex64'>.  Found: <dtype: 'float64'> in tensor Tensor"
    matrix, vector = tf.ones([2, 2], tf.float64), tf.ones([2], tf.float64)
    for method, operand in (
        (operator.matmul, matrix),
        (operator.solve, matrix),
        (operator.matvec, vector),
        (operator.solvevec, vector),
        (operator.add_to_tensor, matrix),
    ):
        with pytest.raises(TypeError, match=words):
            method(operand)


@pytest.mark.parametrize("name", COMPLEX)
def test_logarithms_of_complex_determinants(name):
    operator = COMPLEX[name]()
    logarithm = operator.log_abs_determinant()
    assert logarithm.dtype == (tf.float32 if name in ("triangle", "scaled") else tf.complex64)
    with tf.Session() as session:
        value, dense = session.run([logarithm, operator.to_dense()])
    np.testing.assert_allclose(value, np.log(np.abs(np.linalg.det(dense))), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("kind", [L.LinearOperatorIdentity, L.LinearOperatorScaledIdentity, L.LinearOperatorZeros])
def test_sizes_that_a_step_decides_are_checked_if_asked(kind):
    more = ([2.0],) if kind is L.LinearOperatorScaledIdentity else ()
    rows, x = tf.placeholder(tf.int32), tf.placeholder(tf.float32)
    operator = kind(rows, *more, assert_proper_shapes=True)
    tensors = {"matmul": operator.matmul(x)}
    if kind is not L.LinearOperatorZeros:
        tensors["solve"] = operator.solve(x, adjoint_arg=True)
    with tf.Session() as session:
        for tensor in tensors.values():
            assert session.run(tensor, {rows: 2, x: np.ones([2, 2])}).shape[-2:] == (2, 2)
            with pytest.raises(tf.errors.InvalidArgumentError, match="Dimensions are not compatible"):
                session.run(tensor, {rows: 2, x: np.ones([3, 3])})


def test_hints_and_words():
    with pytest.raises(ValueError, match=r"^A real diagonal operator is always self adjoint"):
        L.LinearOperatorScaledIdentity(2, [1.0, 2.0], is_self_adjoint=False)
    with pytest.raises(ValueError, match=r"^Argument diag must have at least 1 dimension\.  Found: Tensor"):
        L.LinearOperatorDiag(3.0)
    rows = tf.placeholder(tf.int32)
    operator = L.LinearOperatorIdentity(rows, assert_proper_shapes=True)
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match=r"\[Argument num_rows must be a 0-D Tensor\.\] \[Tensor "),
    ):
        session.run(operator.to_dense(), {rows: [1, 2]})


def test_python_and_numpy_values_get_the_dtype_of_the_operator():
    operator = L.LinearOperatorDiag(tf.constant([1.0, 2.0], tf.float64))
    with tf.Session() as session:
        assert session.run(operator.matvec([1, 2])).tolist() == [1.0, 4.0]
        assert session.run(operator.matmul(np.ones([2, 1], np.float32))).tolist() == [[1.0], [2.0]]
        variable = tf.get_variable("v", [2], tf.float64, tf.ones_initializer())
        session.run(variable.initializer)
        assert session.run(operator.solvevec(variable)).tolist() == [1.0, 0.5]


def test_shapes_that_do_not_broadcast_in_a_step_are_told_without_spaces():
    a, b = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match=r"Incompatible shapes: \[2,3\] vs\. \[4\]"),
    ):
        session.run(a + b, {a: np.ones([2, 3]), b: np.ones([4])})
