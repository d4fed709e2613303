"""Linear algebra: public forms, errors on bad matrices in both tiers, gradients that rows of cases cannot check."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg

import anabranch as tf
from anabranch.testing import check_gradients
from anabranch.testing.kernels import TIERS, run_op


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def run(fetches, feeds=None):
    with tf.Session() as session:
        return session.run(fetches, feeds)


def sample(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def definite(*batch, size=3):
    x = sample(*batch, size, size)
    return x @ np.swapaxes(x, -1, -2) + np.eye(size)


# ----------------------------------------------------------------------------------------------------------- bad input
SINGULAR = np.array([[[2.0, 0.0], [0.0, 1.0]], [[1.0, 2.0], [2.0, 4.0]]], np.float32)


@pytest.mark.parametrize("tier", TIERS)
def test_singular_matrices(tier):
    rhs = np.ones((2, 2, 1), np.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Input is not invertible"):
        run_op("MatrixInverse", SINGULAR, tier=tier)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Input matrix is not invertible"):
        run_op("MatrixSolve", SINGULAR, rhs, tier=tier)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Cholesky decomposition was not successful"):
        run_op("Cholesky", -SINGULAR, tier=tier)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Input matrix was rank deficient or ill-conditioned"):
        run_op("MatrixSolveLs", np.zeros((3, 2), np.float32), rhs[0, [0, 0, 1]], np.float64(0), tier=tier)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"l2_regularizer must be >= 0"):
        run_op("MatrixSolveLs", SINGULAR, rhs, np.float64(-1), tier=tier)


@pytest.mark.parametrize("tier", TIERS)
def test_nan_is_not_an_error(tier):
    bad = np.array([[[1.0, 0.0], [0.0, 1.0]], [[np.nan, 0.0], [0.0, 1.0]]])
    rhs = np.ones((2, 2, 1))
    for found in (
        run_op("MatrixInverse", bad, tier=tier),
        run_op("MatrixSolve", bad, rhs, tier=tier),
        run_op("Cholesky", bad, tier=tier),
        run_op("SelfAdjointEigV2", bad, tier=tier)[0],
        run_op("Svd", bad, tier=tier)[0],
        run_op("MatrixExponential", bad, tier=tier),
    ):
        assert np.isfinite(found[0]).all()
        assert np.isnan(found[1]).any()


@pytest.mark.parametrize("tier", TIERS)
def test_zero_on_the_diagonal_of_a_triangle(tier):
    a = np.array([[2.0, 0.0], [1.0, 0.0]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="Input matrix is not invertible"):
        run_op("MatrixTriangularSolve", a, np.array([[2.0], [3.0]]), tier=tier)


@pytest.mark.parametrize("tier", TIERS)
def test_determinant_of_singular_and_empty(tier):
    assert run_op("MatrixDeterminant", SINGULAR, tier=tier).tolist() == [2.0, 0.0]
    sign, logarithm = run_op("LogMatrixDeterminant", np.zeros((2, 2), np.float32), tier=tier)
    assert (sign, logarithm) == (0.0, -np.inf)
    assert run_op("MatrixDeterminant", np.zeros((0, 0), np.float32), tier=tier) == 1.0


def test_errors_of_construction():
    wide = tf.zeros([2, 3])
    for function in (tf.cholesky, tf.matrix_inverse, tf.matrix_determinant, tf.self_adjoint_eig, tf.linalg.expm):
        with pytest.raises(ValueError, match=r"(?s)Dimensions must be equal, but are 2 and 3.*square matrices"):
            function(wide)
    with pytest.raises(ValueError, match=r"(?s)Dimensions must be equal, but are 2 and 3.*expand_dims"):
        tf.matrix_solve(tf.zeros([2, 2]), tf.zeros([3, 1]))
    with pytest.raises(ValueError, match=r"(?s)Dimensions must be equal, but are 2 and 3"):
        tf.matrix_solve_ls(wide, tf.zeros([3, 1]))
    with pytest.raises(ValueError, match=r"(?s)Dimension must be 3 but is 2"):
        tf.cross(tf.zeros([4, 2]), tf.zeros([4, 2]))
    with pytest.raises(ValueError, match=r"(?s)Dimensions must be equal, but are 2 and 3.*two equal halves"):
        tf.diag_part(wide)
    with pytest.raises(ValueError, match=r"(?s)rank 1.*even rank"):
        tf.diag_part(tf.zeros([2]))
    with pytest.raises(ValueError, match=r"rank at least 2"):
        tf.matrix_band_part(tf.zeros([2]), 0, 0)
    with pytest.raises(ValueError, match=r"(?s)The number of rows is too small.*leave one at -1"):
        tf.matrix_diag([1.0, 2.0], k=1, num_rows=1)


@pytest.mark.parametrize("tier", TIERS)
def test_kernels_refuse_shapes(tier):
    x = np.ones((3, 3), np.float32)
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"negative or less or equal to number of rows .3. got: 5",
    ):
        run_op("MatrixBandPart", x, np.int64(5), np.int64(0), tier=tier)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"diag_index is out of bound: 3"):
        run_op("MatrixDiagPartV3", x, np.int32(3), np.float32(0), tier=tier)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must not be larger than upper_diag_index: 1 > 0"):
        run_op("MatrixDiagPartV2", x, np.array([1, 0], np.int32), np.float32(0), tier=tier)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"input shape: \[3,3\] and diagonal shape: \[2\]"):
        run_op("MatrixSetDiag", x, x[0, :2], tier=tier)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"matrix must be square"):
        run_op("MatrixInverse", x[:2], tier=tier)


# -------------------------------------------------------------------------------------------------------- public forms
def test_public_forms_agree_with_scipy():
    a, rhs = definite(2), sample(2, 3, 2)
    lower = np.linalg.cholesky(a)
    pairs = [
        (tf.cholesky(a), lower),
        (tf.linalg.inv(a), np.linalg.inv(a)),
        (tf.matrix_determinant(a), np.linalg.det(a)),
        (tf.linalg.slogdet(a)[1], np.linalg.slogdet(a)[1]),
        (tf.linalg.logdet(a), np.linalg.slogdet(a)[1]),
        (tf.matrix_solve(a, rhs), np.linalg.solve(a, rhs)),
        (tf.cholesky_solve(lower, rhs), np.linalg.solve(a, rhs)),
        (tf.matrix_triangular_solve(lower, rhs), np.linalg.solve(lower, rhs)),
        (tf.matrix_triangular_solve(lower, rhs, adjoint=True), np.linalg.solve(lower.swapaxes(1, 2), rhs)),
        (tf.self_adjoint_eigvals(a), np.linalg.eigvalsh(a)),
        (tf.svd(a, compute_uv=False), np.linalg.svd(a, compute_uv=False)),
        (tf.trace(a), np.trace(a, axis1=1, axis2=2)),
        (tf.linalg.expm(a), scipy.linalg.expm(a)),
        (tf.cross(a[0], a[1]), np.cross(a[0], a[1])),
        (tf.matrix_solve_ls(rhs, a, fast=False), np.linalg.pinv(rhs) @ a),
        (tf.linalg.adjoint(a + 1j), (a - 1j).swapaxes(1, 2)),
        (tf.matrix_diag_part(a), np.diagonal(a, axis1=1, axis2=2)),
        (tf.diag([1.0, 2.0]), np.diag([1.0, 2.0])),
        (tf.matrix_band_part(a, 0, -1), np.triu(a)),
    ]
    for got, (tensor, wanted) in zip(run([tensor for tensor, _ in pairs]), pairs, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-12, err_msg=tensor.op.name)
        assert tensor._shape == wanted.shape


def test_identity_matrices():
    assert tf.eye(2, 3, [4])._shape == (4, 2, 3)
    size = tf.placeholder(tf.int32, [])
    found = run([tf.eye(2), tf.eye(3, 2, dtype=tf.int64), tf.linalg.eye(size, batch_shape=[2])], {size: 3})
    assert [one.tolist() for one in found[:2]] == [[[1, 0], [0, 1]], [[1, 0], [0, 1], [0, 0]]]
    np.testing.assert_array_equal(found[2], np.broadcast_to(np.eye(3), (2, 3, 3)))
    assert [one.dtype for one in found] == [np.float32, np.int64, np.float32]


def test_factors_multiply_to_the_matrix():
    x = sample(2, 4, 3)
    s, u, v = tf.svd(x)
    q, r = tf.qr(x)
    e, w = tf.self_adjoint_eig(definite())
    found = run(
        [tf.matmul(u * s[..., None, :], v, adjoint_b=True), tf.matmul(q, r), tf.matmul(w * e, w, adjoint_b=True)]
    )
    for one, wanted in zip(found, [x, x, definite()], strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-10, atol=1e-12)


def test_complex_singular_values_are_real():
    s, u, _ = tf.svd(sample(3, 2) + 1j * sample(3, 2, seed=1))
    assert (s.dtype, u.dtype) == (tf.float64, tf.complex128)


def test_diagonals_choose_their_op():
    assert tf.matrix_diag([1.0]).op.type == "MatrixDiag"
    assert tf.matrix_diag([1.0], k=1).op.type == "MatrixDiagV3"
    assert tf.matrix_diag_part([[1.0]]).op.type == "MatrixDiagPart"
    assert tf.matrix_set_diag([[1.0]], [2.0]).op.type == "MatrixSetDiag"
    found = run(
        [
            tf.linalg.diag([1.0, 2.0], k=1, padding_value=9),
            tf.linalg.diag_part([[1.0, 2.0], [3.0, 4.0]], k=-1),
            tf.linalg.set_diag([[1.0, 2.0], [3.0, 4.0]], [7.0], k=1),
        ]
    )
    assert found[0].tolist() == [[9, 1, 9], [9, 9, 2], [9, 9, 9]]
    assert [one.tolist() for one in found[1:]] == [[3.0], [[1.0, 7.0], [3.0, 4.0]]]


@pytest.mark.parametrize("keep", [False, True])
@pytest.mark.parametrize(
    ("order", "axis"),
    [
        ("euclidean", None), ("euclidean", 1), (2, -1), (1, None), (1, 0), (np.inf, None), (np.inf, 2), (3, 1),
        (0.5, None),
        ("fro", (0, 1)), ("euclidean", [1, 2]), (1, (0, 2)), (1, (-1, 0)), (np.inf, (0, 1)), (2, (0, 1)), (2, (2, 0)),
    ],
)  # fmt: skip
def test_norms(order, axis, keep):
    x = sample(2, 3, 4)
    found = run(tf.norm(x, order, axis, keepdims=keep))
    own = None if order == "euclidean" or (axis is None and order == 2) else order
    if axis is None:
        wanted = np.linalg.norm(x.ravel(), own)
        wanted = np.reshape(wanted, (1, 1, 1)) if keep else wanted
    else:
        wanted = np.linalg.norm(x, own, tuple(axis) if isinstance(axis, list) else axis, keepdims=keep)
    np.testing.assert_allclose(found, wanted, rtol=1e-12)
    assert np.shape(found) == np.shape(wanted)


def test_norm_arguments():
    with pytest.raises(ValueError, match=r"(?s)'axis' must be None, an integer, or a tuple of 2 unique integers"):
        tf.norm([[1.0]], axis=(0, 0))
    with pytest.raises(ValueError, match=r"(?s)'axis' must be None"):
        tf.norm([[1.0]], axis=(0, 1, 2))
    with pytest.raises(ValueError, match=r"(?s)'ord' must be a supported vector norm.*got fro"):
        tf.norm([1.0], "fro")
    with pytest.raises(ValueError, match=r"(?s)'ord' must be a supported matrix norm.*got 3"):
        tf.norm([[1.0]], 3, axis=(0, 1))
    z = tf.norm(np.array([3 + 4j, 0]))
    assert (z.dtype, run(z)) == (tf.complex128, 5)
    assert run(tf.norm(np.array([3 + 4j, 1]), 1)) == 6
    assert tf.norm([1.0], name="size").op.name.startswith("size/")


# ----------------------------------------------------------------------------------------------------------- gradients
def symmetric(x):
    return 0.5 * (x + tf.linalg.adjoint(x))


def test_gradient_of_cholesky_on_symmetric_matrices():
    check_gradients(lambda x: tf.cholesky(symmetric(x)), [definite(2)])
    check_gradients(lambda x: tf.cholesky(symmetric(x)), [definite() + 0.2j * np.triu(np.ones((3, 3)), 1)], order=1)


@pytest.mark.parametrize("k", [0, 1, (-1, 1), (0, 2)])
def test_gradients_of_diagonals(k):
    x = sample(2, 3, 4)
    check_gradients(lambda a: tf.matrix_diag_part(a, k=k, padding_value=0), [x])
    packed = run(tf.matrix_diag_part(x, k=k))
    check_gradients(lambda d: tf.matrix_diag(d, k=k, num_rows=3, num_cols=4), [packed])
    check_gradients(lambda d: tf.build_op("MatrixDiagV2", d, k, 3, 4, tf.constant(0.0, tf.float64)), [packed])


@pytest.mark.parametrize(("rows", "columns"), [(4, 2), (2, 4), (3, 3)])
def test_gradients_of_least_squares(rows, columns):
    check_gradients(lambda a, b: tf.matrix_solve_ls(a, b, 0.3), [sample(2, rows, columns), sample(2, rows, 2, seed=1)])


def test_gradients_of_complex_least_squares():
    a = sample(4, 2) + 1j * sample(4, 2, seed=1)
    b = sample(4, 1) + 1j * sample(4, 1, seed=2)
    check_gradients(lambda a, b: tf.matrix_solve_ls(a, b, 0.3), [a, b])
    check_gradients(lambda a, b: tf.matrix_solve_ls(a, b, 0.3), [a.T.copy(), b[:2]])


def test_gradients_without_vectors():
    check_gradients(lambda x: tf.self_adjoint_eigvals(symmetric(x)), [definite()])
    check_gradients(lambda x: tf.svd(x, compute_uv=False), [sample(3, 2)])
    check_gradients(lambda x: tf.svd(x, compute_uv=False), [sample(3, 2) + 1j * sample(3, 2, seed=1)], order=1)
    check_gradients(lambda x: tf.norm(x, 2, axis=(0, 1)), [sample(3, 2)])


def test_gradients_that_do_not_exist():
    z = tf.constant(sample(3, 2) + 1j * sample(3, 2, seed=1))
    with pytest.raises(NotImplementedError, match=r"(?s)gradient of complex singular vectors.*compute_uv=False"):
        tf.gradients(tf.real(tf.svd(z)[1]), z)
    x = tf.constant(sample(4, 2))
    with pytest.raises(NotImplementedError, match=r"(?s)all singular vectors.*full_matrices=False"):
        tf.gradients(tf.svd(x, full_matrices=True)[1], x)
    with pytest.raises(NotImplementedError, match=r"(?s)nrows > ncols and full_matrices"):
        tf.gradients(tf.qr(x, full_matrices=True).q, x)
    unknown = tf.placeholder(tf.float64, [None, None])
    with pytest.raises(NotImplementedError, match=r"(?s)QrGrad not implemented with dynamic shapes.*set_shape"):
        tf.gradients(tf.qr(unknown).q, unknown)
    with pytest.raises(NotImplementedError, match=r"(?s)unknown inner matrix shape.*set_shape"):
        tf.gradients(tf.svd(unknown)[1], unknown)


def test_gradients_of_unknown_batches():
    value, rhs = definite(2), sample(2, 3, 1)
    x, b = tf.placeholder(tf.float64), tf.placeholder(tf.float64)
    fixed, right = tf.constant(value), tf.constant(rhs)
    for function in (tf.matrix_solve, tf.matrix_triangular_solve):
        found = tf.gradients(function(x, b), [x, b])
        wanted = tf.gradients(function(fixed, right), [fixed, right])
        got, expected = run([found, wanted], {x: value, b: rhs})
        for one, other in zip(got, expected, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-10)
    found, wanted = tf.gradients(tf.cholesky(x), x), tf.gradients(tf.cholesky(fixed), fixed)
    got, expected = run([found, wanted], {x: value})
    np.testing.assert_allclose(got[0], expected[0], rtol=1e-10)
