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
