"""tf.linalg.LinearOperator*: each against its full matrix, in every method; compositions, hints, errors, gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.session import SessionOptions
from anabranch.testing.check_gradients import check_gradients

RANDOM = np.random.default_rng(9)
L = tf.linalg


def well(*shape: int) -> np.ndarray:
    return RANDOM.normal(size=shape) + 3 * np.eye(shape[-1])


def phases(*shape: int) -> np.ndarray:
    return well(*shape) + 0.5j * RANDOM.normal(size=shape)


def kron(*matrices: np.ndarray) -> np.ndarray:
    found = matrices[0]
    for matrix in matrices[1:]:
        found = np.einsum("...ij,...kl->...ikjl", found, matrix).reshape(
            *np.broadcast_shapes(found.shape[:-2], matrix.shape[:-2]), found.shape[-2] * matrix.shape[-2], -1
        )
    return found


def blocks(*matrices: np.ndarray) -> np.ndarray:
    size = sum(m.shape[-1] for m in matrices)
    out = np.zeros((*np.broadcast_shapes(*(m.shape[:-2] for m in matrices)), size, size))
    start = 0
    for m in matrices:
        out[..., start : start + m.shape[-1], start : start + m.shape[-1]] = m
        start += m.shape[-1]
    return out


A, B, C = well(2, 3, 3), well(3, 3), phases(3, 3)
S = A @ np.swapaxes(A, -1, -2)
T, D, E = np.tril(well(2, 3, 3)), RANDOM.uniform(1, 2, (2, 3)), well(2, 2)
U, V, W = RANDOM.normal(size=(3, 2)), RANDOM.normal(size=(3, 2)), RANDOM.uniform(0.5, 1, 2)


def full(x: np.ndarray) -> tf.linalg.LinearOperatorFullMatrix:
    return L.LinearOperatorFullMatrix(x)


def diagonal(x: np.ndarray) -> np.ndarray:
    return x[..., None] * np.eye(x.shape[-1])


CASES: dict[str, tuple[Callable[[], Any], np.ndarray]] = {
    "full": (lambda: full(A), A),
    "full, complex": (lambda: full(C), C),
    "full, definite": (lambda: L.LinearOperatorFullMatrix(S, is_positive_definite=True, is_self_adjoint=True), S),
    "triangular": (lambda: L.LinearOperatorLowerTriangular(T + np.triu(A, 1)), T),
    "triangular, old name": (lambda: tf.contrib.linalg.LinearOperatorTriL(T[0]), T[0]),
    "diagonal": (lambda: L.LinearOperatorDiag(D), diagonal(D)),
    "diagonal, complex": (lambda: L.LinearOperatorDiag(D + 1j), diagonal(D + 1j)),
    "identity": (lambda: L.LinearOperatorIdentity(3, [2], dtype=tf.float64), np.broadcast_to(np.eye(3), (2, 3, 3))),
    "scaled identity": (lambda: L.LinearOperatorScaledIdentity(3, W), W[:, None, None] * np.eye(3)),
    "composition": (
        lambda: L.LinearOperatorComposition([full(A), full(B), L.LinearOperatorDiag(D)]),
        A @ B @ diagonal(D),
    ),
    "kronecker": (lambda: L.LinearOperatorKronecker([full(A), full(E)]), kron(A, E)),
    "three factors": (lambda: L.LinearOperatorKronecker([full(B), full(E), full(E)]), kron(B, E, E)),
    "blocks": (
        lambda: L.LinearOperatorBlockDiag([full(A), full(E), L.LinearOperatorDiag(D)]),
        blocks(A, E, diagonal(D)),
    ),
    "update": (lambda: L.LinearOperatorLowRankUpdate(full(B), U, W, V), B + U @ np.diag(W) @ V.T),
    "update of its own": (
        lambda: L.LinearOperatorLowRankUpdate(L.LinearOperatorDiag(D, is_positive_definite=True), U),
        diagonal(D) + U @ U.T,
    ),
    "adjoint": (lambda: full(C).adjoint(), C.conj().T),
    "inverse": (lambda: full(B).inverse(), np.linalg.inv(B)),
    "inverse of an adjoint": (lambda: full(C).H.inverse(), np.linalg.inv(C.conj().T)),
}


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("name", CASES)
def test_against_the_full_matrix(name: str, tier: str) -> None:
    make, matrix = CASES[name]
    size = matrix.shape[-1]
    x = RANDOM.normal(size=(size, 2)).astype(matrix.dtype)
    adjoint = np.conj(np.swapaxes(matrix, -1, -2))
    wanted = {
        "dense": matrix, "matmul": matrix @ x, "adjoint": adjoint @ x, "matvec": matrix @ x[:, 0],
        "adjoint_arg": matrix @ x, "solve": np.linalg.solve(matrix, np.broadcast_to(x, (*matrix.shape[:-2], *x.shape))),
        "solve adjoint": np.linalg.solve(adjoint, np.broadcast_to(x, (*matrix.shape[:-2], *x.shape))),
        "solvevec": np.linalg.solve(matrix, np.broadcast_to(x, (*matrix.shape[:-2], *x.shape)))[..., 0],
        "det": np.linalg.det(matrix), "logdet": np.log(np.abs(np.linalg.det(matrix))),
        "diag": np.diagonal(matrix, axis1=-2, axis2=-1), "trace": np.trace(matrix, axis1=-2, axis2=-1),
        "sum": matrix + matrix, "shape": np.array(matrix.shape), "H": adjoint,
    }  # fmt: skip

    def everything() -> dict[str, Any]:
        operator = make()
        assert operator.dtype == matrix.dtype
        assert operator.shape == matrix.shape
        assert operator.batch_shape == matrix.shape[:-2]
        assert operator.tensor_rank == matrix.ndim
        assert operator.domain_dimension == operator.range_dimension == size
        assert operator.is_square
        return {
            "dense": operator.to_dense(), "matmul": operator.matmul(x), "adjoint": operator.matmul(x, adjoint=True),
            "matvec": operator.matvec(x[:, 0]), "adjoint_arg": operator.matmul(x.conj().T, adjoint_arg=True),
            "solve": operator.solve(x), "solve adjoint": operator.solve(x.conj().T, adjoint=True, adjoint_arg=True),
            "solvevec": operator.solvevec(x[:, 0]), "det": operator.determinant(),
            "logdet": operator.log_abs_determinant(), "diag": operator.diag_part(), "trace": operator.trace(),
            "sum": operator.add_to_tensor(matrix), "shape": operator.shape_tensor(), "H": operator.adjoint().to_dense(),
        }  # fmt: skip

    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=tier)) as session:
        found = session.run(everything())
    for key, value in wanted.items():
        np.testing.assert_allclose(found[key], value, 1e-8, 1e-9, err_msg=f"{name}: {key}")


def test_operators_of_a_single_one() -> None:
    matrix = np.array([[11.0, 0.0], [1.0, 8.0]])
    with tf.Graph().as_default(), tf.Session() as session:
        one = tf.linalg.LinearOperatorFullMatrix(matrix, is_non_singular=True)
        for kind in (
            tf.linalg.LinearOperatorBlockDiag,
            tf.linalg.LinearOperatorKronecker,
            tf.linalg.LinearOperatorComposition,
        ):
            operator = kind([one])
            assert operator.is_non_singular
            parts = operator.to_dense(), operator.solve(matrix), operator.matmul(matrix, adjoint=True)
            dense, solved, product = session.run(parts)
            np.testing.assert_allclose(dense, matrix)
            np.testing.assert_allclose(solved, np.eye(2), atol=1e-12)
            np.testing.assert_allclose(product, matrix.T @ matrix)


@pytest.mark.parametrize(
    ("kind", "hint", "words"),
    [
        ("BlockDiag", "is_non_singular", "direct sum of non-singular operators is always non-singular"),
        ("BlockDiag", "is_self_adjoint", "direct sum of self-adjoint operators is always self-adjoint"),
        ("BlockDiag", "is_positive_definite", "direct sum of positive definite operators is always positive"),
        ("Kronecker", "is_non_singular", "Kronecker product of non-singular operators is always non-singular"),
        ("Kronecker", "is_self_adjoint", "Kronecker product of self-adjoint operators is always self-adjoint"),
        ("Composition", "is_non_singular", "composition of non-singular operators is always non-singular"),
    ],
)
def test_hints_that_contradict_those_of_all_parts(kind: str, hint: str, words: str) -> None:
    with tf.Graph().as_default():
        one = tf.linalg.LinearOperatorFullMatrix(np.eye(2), True, True, True)
        make = getattr(tf.linalg, f"LinearOperator{kind}")
        assert getattr(make([one, one]), hint) is (True if kind != "Composition" or "singular" in hint else None)
        with pytest.raises(ValueError, match=words):
            make([one, one], **{hint: False})


def test_sizes_that_are_not_known() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        one, two, diag = (tf.placeholder(tf.float64, [None] * n) for n in (3, 2, 2))
        operators = [
            L.LinearOperatorFullMatrix(one),
            L.LinearOperatorLowerTriangular(one),
            L.LinearOperatorDiag(diag),
            L.LinearOperatorComposition([L.LinearOperatorFullMatrix(one), L.LinearOperatorDiag(diag)]),
            L.LinearOperatorKronecker([L.LinearOperatorFullMatrix(one), L.LinearOperatorFullMatrix(two)]),
            L.LinearOperatorBlockDiag([L.LinearOperatorFullMatrix(one), L.LinearOperatorFullMatrix(two)]),
            L.LinearOperatorIdentity(tf.shape(two)[0], dtype=tf.float64),
        ]
        feeds = {one: A, two: B, diag: D}
        wanted = [A, np.tril(A), diagonal(D), A @ diagonal(D), kron(A, B), blocks(A, B), np.eye(3)]
        for operator, matrix in zip(operators, wanted, strict=True):
            x = np.ones((matrix.shape[-1], 1))
            found = session.run(
                [operator.to_dense(), operator.shape_tensor(), operator.matmul(x), operator.solve(x)], feeds
            )
            np.testing.assert_allclose(found[0], matrix)
            assert found[1].tolist() == list(matrix.shape)
            np.testing.assert_allclose(found[2], matrix @ x, 1e-9)
            np.testing.assert_allclose(matrix @ found[3], np.broadcast_to(x, found[3].shape), 1e-7)


def test_operators_of_operators() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        product = full(A) @ full(B)
        assert isinstance(product, L.LinearOperatorComposition)
        np.testing.assert_allclose(session.run(product.to_dense()), A @ B)
        np.testing.assert_allclose(
            session.run(full(A).matmul(full(B), adjoint=True).to_dense()), np.swapaxes(A, 1, 2) @ B
        )
        factor = L.LinearOperatorFullMatrix(S, is_positive_definite=True, is_self_adjoint=True).cholesky()
        np.testing.assert_allclose(session.run(factor.to_dense()), np.linalg.cholesky(S))
        assert L.LinearOperatorDiag(D).adjoint().__class__ is L.LinearOperatorDiag
        operator = full(B)
        assert operator.inverse().inverse() is operator
        assert operator.adjoint().adjoint() is operator
        assert L.LinearOperatorFullMatrix(RANDOM.normal(size=(2, 3))).is_square is False
        wide = L.LinearOperatorFullMatrix(RANDOM.normal(size=(2, 3)))
        assert session.run(wide.diag_part()).shape == (2,)
        assert session.run(wide.matmul(np.ones((3, 1)))).shape == (2, 1)
        zeros = L.LinearOperatorZeros(2, batch_shape=[3])
        assert not session.run(zeros.matmul(np.ones((2, 2), np.float32))).any()
        session.run([full(B).assert_non_singular(), full(S).assert_self_adjoint(), full(S).assert_positive_definite()])


def test_gradients() -> None:
    with tf.Graph().as_default():
        matrix, diag = tf.placeholder(tf.float64, [3, 3]), tf.placeholder(tf.float64, [3])
        operator = L.LinearOperatorComposition([L.LinearOperatorFullMatrix(matrix), L.LinearOperatorDiag(diag)])
        update = L.LinearOperatorLowRankUpdate(L.LinearOperatorDiag(diag), U, W, V)
        y = [operator.solve(U), operator.log_abs_determinant(), update.solve(U), update.determinant()]
        check_gradients(y, [matrix, diag], [B, D[0]], order=1)


def test_errors() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        wide = L.LinearOperatorFullMatrix(np.ones((2, 3)))
        with pytest.raises(NotImplementedError, match="Exact solve is only defined for square operators"):
            wide.solve(np.ones((2, 1)))
        with pytest.raises(NotImplementedError, match="Determinant is only defined for square operators"):
            wide.determinant()
        with pytest.raises(NotImplementedError, match="expected to be singular"):
            L.LinearOperatorZeros(2).solve(np.ones((2, 1), np.float32))
        with pytest.raises(ValueError, match="Not a positive definite self adjoint matrix"):
            full(B).cholesky()
        with pytest.raises(ValueError, match="A positive definite matrix is always non-singular"):
            L.LinearOperatorFullMatrix(B, is_positive_definite=True, is_non_singular=False)
        with pytest.raises(ValueError, match="An identity operator is always self adjoint"):
            L.LinearOperatorIdentity(2, is_self_adjoint=False)
        with pytest.raises(ValueError, match="A real diagonal operator is always self adjoint"):
            L.LinearOperatorDiag(D, is_self_adjoint=False)
        with pytest.raises(ValueError, match="Operators are incompatible"):
            L.LinearOperatorComposition([wide, wide])
        with pytest.raises(TypeError, match="Expected all operators to have the same dtype"):
            L.LinearOperatorComposition([full(B), full(C)])
        with pytest.raises(ValueError, match="Expected a non-empty list of operators"):
            L.LinearOperatorBlockDiag([])
        with pytest.raises(ValueError, match="block diagonal of square matrices"):
            L.LinearOperatorBlockDiag([wide])
        with pytest.raises(ValueError, match="at least 2 dimensions"):
            L.LinearOperatorFullMatrix([1.0])
        with pytest.raises(tf.errors.InvalidArgumentError, match="was singular"):
            session.run(full(np.zeros((2, 2))).assert_non_singular())
        with pytest.raises(tf.errors.InvalidArgumentError, match="was not self-adjoint"):
            session.run(full(B).assert_self_adjoint())


_TINY = np.full(4, 1e-30, np.float32)
_CIRCULANT = np.array([1.0, 0.0, 2.0], np.complex64)


@pytest.mark.parametrize(
    ("make", "check", "words"),
    [
        (lambda: L.LinearOperatorFullMatrix([[1.0, 1.0], [1.0, 1.0 + 2e-6]]), "non_singular", "Singular matrix up to"),
        (lambda: L.LinearOperatorFullMatrix([[1.0, 1.0], [0.0, 1.0]]), "self_adjoint", "Matrix was not equal to its"),
        (
            lambda: L.LinearOperatorFullMatrix([[1.0, 0.0], [0.0, -1.0]], is_self_adjoint=True),
            "positive_definite",
            "Cholesky decomposition was not success",
        ),
        (lambda: L.LinearOperatorDiag([1.0, 0.0]), "non_singular", "Singular operator:  Diagonal contained zero"),
        (lambda: L.LinearOperatorDiag([1.0, -1.0]), "positive_definite", "Real diagonal operator had non-positive"),
        (lambda: L.LinearOperatorDiag([1.0, 1.0j]), "self_adjoint", "contained non-zero imaginary values"),
        (lambda: L.LinearOperatorLowerTriangular([[1.0, 0.0], [1.0, 0.0]]), "non_singular", "Diagonal contained zero"),
        (lambda: L.LinearOperatorScaledIdentity(2, 0.0), "non_singular", "LinearOperator was singular"),
        (lambda: L.LinearOperatorScaledIdentity(2, -1.0), "positive_definite", "was not positive definite"),
        (lambda: L.LinearOperatorCirculant(_CIRCULANT), "non_singular", "Spectrum contained zero values"),
        (lambda: L.LinearOperatorCirculant(_CIRCULANT - 1), "positive_definite", "Real part of spectrum was not all"),
        (lambda: L.LinearOperatorCirculant(_CIRCULANT * 1j), "self_adjoint", "spectrum contained non-zero imaginary"),
        (
            lambda: L.LinearOperatorComposition([L.LinearOperatorDiag([1.0, 2.0]), L.LinearOperatorDiag([1.0, 0.0])]),
            "non_singular",
            "Diagonal contained zero values",
        ),
    ],
)
def test_what_is_asserted_fails_with_the_words_of_its_class(make, check, words):
    with tf.Graph().as_default(), tf.Session() as session:
        operation = getattr(make(), f"assert_{check}")()
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            session.run(operation)


def test_a_determinant_that_vanishes_is_not_a_singular_operator():
    with tf.Graph().as_default(), tf.Session() as session:
        diagonal = L.LinearOperatorDiag(_TINY)
        assert session.run(diagonal.determinant()) == 0
        checks = [
            diagonal.assert_non_singular(),
            L.LinearOperatorLowerTriangular(np.diag(_TINY)).assert_non_singular(),
            L.LinearOperatorFullMatrix(np.diag(_TINY)).assert_non_singular(),
            L.LinearOperatorScaledIdentity(9, 1e-30).assert_non_singular(),
            L.LinearOperatorBlockDiag([diagonal, diagonal]).assert_non_singular(),
            L.LinearOperatorKronecker([diagonal, diagonal]).assert_non_singular(),
        ]
        session.run(checks)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        (([2],), ValueError, "num_rows must be a 0-D Tensor"),
        ((-2,), ValueError, "num_rows must be non-negative"),
        ((2.0,), TypeError, "num_rows must be integer type"),
        ((2, 2), ValueError, "batch_shape must be a 1-D Tensor"),
        ((2, [-2]), ValueError, "batch_shape must be non-negative"),
        ((2, [2.0]), TypeError, "batch_shape must be integer type"),
    ],
)
def test_sizes_of_identities(arguments, kind, words) -> None:
    with tf.Graph().as_default(), pytest.raises(kind, match=words):
        tf.linalg.LinearOperatorIdentity(*arguments)


def test_sizes_of_identities_that_a_step_gives() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        rows, batch = tf.placeholder(tf.int32), tf.placeholder(tf.int32)
        operator = tf.linalg.LinearOperatorIdentity(rows, batch, assert_proper_shapes=True).to_dense()
        assert session.run(operator, {rows: 2, batch: [1]}).tolist() == [[[1, 0], [0, 1]]]
        for feeds, words in (
            ({rows: [2], batch: [1]}, "num_rows must be a 0-D Tensor"),
            ({rows: -2, batch: [1]}, "num_rows must be non-negative"),
            ({rows: 2, batch: 1}, "batch_shape must be a 1-D Tensor"),
            ({rows: 2, batch: [-1]}, "batch_shape must be non-negative"),
        ):
            with pytest.raises((tf.errors.InvalidArgumentError, ValueError), match=words):
                session.run(operator, feeds)


def test_factors_that_do_not_fit() -> None:
    with tf.Graph().as_default():
        base = tf.linalg.LinearOperatorIdentity(3)
        update = tf.linalg.LinearOperatorLowRankUpdate
        for arguments, words in (
            ((tf.zeros([4, 2]),), "Dimensions 3 and 4 are not compatible"),
            ((tf.zeros([3, 2]), tf.zeros([4])), "Dimensions 2 and 4 are not compatible"),
            ((tf.zeros([5, 3, 2]), None, tf.zeros([4, 3, 2])), "Incompatible shapes for broadcasting"),
            ((tf.zeros([5, 3, 2]), tf.zeros([4, 2])), "Incompatible shapes for broadcasting"),
        ):
            with pytest.raises(ValueError, match=words):
                update(base, *arguments)
        with pytest.raises(ValueError, match="Dimensions 3 and 2 are not compatible"):
            base.matmul(tf.zeros([2, 2]))


def test_classes_that_derive_from_operators_open_their_scopes() -> None:
    with tf.Graph().as_default():
        operator = tf.linalg.LinearOperatorFullMatrix(tf.eye(2))
        for expected in ("LinearOperatorFullMatrix/solve/", "LinearOperatorFullMatrix/solve_1/"):
            with operator._name_scope("solve") as scope:
                assert scope == expected
        operator._check_input_dtype(tf.ones([2]))
        with pytest.raises(TypeError, match="Expected argument to have dtype"):
            operator._check_input_dtype(tf.ones([2], tf.float64))
