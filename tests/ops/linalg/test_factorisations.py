"""Public functions of tridiagonal systems, of roots and logarithms of matrices; errors."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.session import SessionOptions

RANDOM = np.random.default_rng(6)
MATRIX = np.diag(RANDOM.normal(size=5) + 4) + np.diag(RANDOM.normal(size=4), 1) + np.diag(RANDOM.normal(size=4), -1)
ABOVE, MAIN, BELOW = np.append(np.diag(MATRIX, 1), 9), np.diag(MATRIX), np.append(7, np.diag(MATRIX, -1))


def run(make: object, tier: str = "auto") -> np.ndarray:
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=tier)) as session:
        return session.run(make())  # type: ignore[operator]


FORMS = {
    "compact": np.stack([ABOVE, MAIN, BELOW]),
    "sequence": (ABOVE, MAIN, BELOW),
    "matrix": MATRIX,
}


@pytest.mark.parametrize("form", FORMS)
def test_forms_of_diagonals(form: str) -> None:
    given = FORMS[form]
    given = [tf.make_ndarray(tf.make_tensor_proto(item)) for item in given] if form == "sequence" else given
    rhs, vector = RANDOM.normal(size=(5, 2)), RANDOM.normal(size=5)
    wanted = np.linalg.solve(MATRIX, rhs)
    np.testing.assert_allclose(run(lambda: tf.linalg.tridiagonal_solve(given, rhs, form)), wanted, 1e-10)
    found = run(lambda: tf.linalg.tridiagonal_solve(given, rhs.T, form, transpose_rhs=True))
    np.testing.assert_allclose(found, wanted.T, 1e-10)
    found = run(lambda: tf.linalg.tridiagonal_solve(given, vector, form, partial_pivoting=False))
    np.testing.assert_allclose(found, np.linalg.solve(MATRIX, vector), 1e-10)
    np.testing.assert_allclose(run(lambda: tf.linalg.tridiagonal_matmul(given, rhs, form)), MATRIX @ rhs, 1e-10)


def test_short_diagonals() -> None:
    found = run(lambda: tf.linalg.tridiagonal_matmul((ABOVE[:-1], MAIN, BELOW[1:]), np.eye(5), "sequence"))
    np.testing.assert_allclose(found, MATRIX, 1e-12)


def test_roots_and_logarithms_by_name() -> None:
    np.testing.assert_allclose(run(lambda: tf.linalg.sqrtm(MATRIX)), scipy.linalg.sqrtm(MATRIX), 1e-7, 1e-9)
    z = MATRIX + 0.1j
    np.testing.assert_allclose(run(lambda: tf.linalg.logm(z)), scipy.linalg.logm(z), 1e-7, 1e-9)
    assert np.isnan(run(lambda: tf.linalg.sqrtm(np.diag([-1.0, 1.0])))).all()


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_errors(tier: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="The matrix is not invertible"):
        run(lambda: tf.linalg.tridiagonal_solve(np.zeros((3, 2)), np.ones(2)), tier)
    with pytest.raises(tf.errors.UnimplementedError, match="perturb_singular=True"):
        run(lambda: tf.linalg.tridiagonal_solve(np.ones((3, 2)), np.ones(2), perturb_singular=True), tier)
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="Dimension must be 3 but is 2"):
            build("TridiagonalSolve", np.ones((2, 4)), np.ones((4, 1)))
        with pytest.raises(ValueError, match=r"Expected diagonals to have shape \[\.\.\., 3, M\]"):
            tf.linalg.tridiagonal_solve(np.ones((2, 4)), np.ones(4))
        with pytest.raises(ValueError, match="Expected diagonals to be a sequence of length 3"):
            tf.linalg.tridiagonal_solve(np.ones((3, 4)), np.ones(4), "sequence")
        with pytest.raises(ValueError, match="Unrecognized diagonals_format: rows"):
            tf.linalg.tridiagonal_solve(np.ones((3, 4)), np.ones(4), "rows")


@pytest.mark.parametrize("matrix", [np.eye(3), np.diag([1.0, 1.0, 2.0]), np.zeros((2, 2))])
@pytest.mark.parametrize("full", [False, True])
def test_gradients_at_equal_values_are_finite(matrix, full):
    # Equal values leave their vectors open, and the gradient takes them for fixed, as TensorFlow 2 does.
    with tf.Graph().as_default(), tf.Session() as session:
        a = tf.constant(matrix)
        values, vectors = tf.self_adjoint_eig(a)
        s, u, v = tf.svd(a, full_matrices=full)
        gradients = [tf.gradients(y, a)[0] for y in (values, s, vectors, u, v)]
        of_values, of_s, *of_vectors = session.run(gradients)
    np.testing.assert_allclose(of_values, np.eye(len(matrix)), atol=1e-12)
    np.testing.assert_allclose(of_s, np.eye(len(matrix)), atol=1e-12)
    np.testing.assert_allclose(of_vectors, 0, atol=1e-12)


@pytest.mark.parametrize("shape", [(4, 3), (3, 4), (2, 1), (1, 2), (3, 3)])
def test_gradient_of_all_singular_vectors(shape):
    rng = np.random.RandomState(0)
    rows, columns = shape
    start = rng.rand(*shape)
    with tf.Graph().as_default(), tf.Session() as session:
        a = tf.placeholder(tf.float64, shape)
        s, u, v = tf.svd(a, full_matrices=True)
        # Functions that the signs of the vectors do not change.
        last = (u if rows >= columns else v)[:, -1:]
        y = tf.reduce_sum(rng.rand(len(last.shape), 1, 1) * tf.matmul(last, last, transpose_b=True) ** 3)
        y += tf.reduce_sum(rng.rand(rows, rows) * u * u) + tf.reduce_sum(rng.rand(columns, columns) * v * v)
        y += tf.reduce_sum(s**2)
        slope = session.run(tf.gradients(y, a)[0], {a: start})
        for place in np.ndindex(*shape):
            step = np.zeros(shape)
            step[place] = 1e-6
            difference = (session.run(y, {a: start + step}) - session.run(y, {a: start - step})) / 2e-6
            np.testing.assert_allclose(slope[place], difference, rtol=1e-5, atol=1e-7)


def test_gradient_of_singular_vectors_that_the_input_leaves_open():
    with tf.Graph().as_default():
        u = tf.svd(tf.ones([5, 3]), full_matrices=True)[1]
        a = u.op.inputs[0]
        with pytest.raises(NotImplementedError, match="sizes that differ by at most 1"):
            tf.gradients(u, a)
