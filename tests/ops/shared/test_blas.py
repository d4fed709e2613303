"""BLAS takes one thread while host kernels run, and what it was set to afterwards."""

import threading

import numpy as np
import pytest
import threadpoolctl

import anabranch as tf
from anabranch.ops.shared import host_blas
from anabranch.testing.kernels import run_op


def threads():
    return [pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def two():
    before = [(pool, pool.get_num_threads()) for pool in host_blas._pools()]
    for pool, _ in before:
        host_blas._set(pool, 2)
    yield
    for pool, number in before:
        host_blas._set(pool, number)


def seen_by(work, *args):
    return host_blas.on_one_thread(lambda *_: work)(lambda *_: threads())(*args)


def test_one_thread_for_what_is_neither_small_nor_large():
    assert set(seen_by(1 << 20)) == {1}
    assert set(seen_by(1 << 10)) == {2}
    assert set(seen_by(1 << 40)) == {2}
    assert set(threads()) == {2}


@pytest.mark.parametrize(
    ("left", "right", "dtype", "taken"),
    [
        ((64, 32), (32, 64), "float64", 2),
        ((1, 256), (256, 512), "float64", 1),
        ((16, 16), (16, 16), "complex64", 2),
        ((64, 32), (32, 64), "complex64", 1),
        ((64, 64), (64,), "complex128", 1),
    ],
)
def test_small_matrices_need_no_limit(monkeypatch, left, right, dtype, taken):
    seen = []
    monkeypatch.setattr(np, "matmul", lambda a, b: seen.append(set(threads())))
    host_blas.product(np.ones(left, dtype), np.ones(right, dtype).reshape(right[0], -1))
    assert seen == [{taken}]


SPD = (np.eye(40) * 50 + np.ones((40, 40))).astype(np.float32)


@pytest.mark.parametrize(
    ("routine", "type_name", "operands"),
    [
        ("cholesky", "Cholesky", [SPD]),
        ("solve", "MatrixInverse", [SPD]),
        ("solve", "MatrixSolve", [SPD, SPD]),
        ("det", "MatrixDeterminant", [SPD / 50]),
        ("slogdet", "LogMatrixDeterminant", [SPD]),
        ("eigh", "SelfAdjointEigV2", [SPD]),
        ("eig", "Eig", [SPD]),
        ("svd", "Svd", [SPD]),
        ("qr", "Qr", [SPD]),
        ("solve", "MatrixExponential", [SPD / 100]),
        ("inv", "MatrixSquareRoot", [SPD]),
    ],
)
def test_factorisations_of_one_matrix_take_one_thread(monkeypatch, routine, type_name, operands):
    seen, original = [], getattr(np.linalg, routine)

    def watched(*args, **kwargs):
        seen.append(set(threads()))
        return original(*args, **kwargs)

    monkeypatch.setattr(np.linalg, routine, watched)
    attrs = {"Tout": "complex64"} if type_name == "Eig" else {}
    run_op(type_name, *operands, tier="host", **attrs)
    assert seen
    assert all(taken == {1} for taken in seen)
    seen.clear()
    run_op(type_name, *[operand[:8, :8] for operand in operands], tier="host", **attrs)
    assert all(taken == {2} for taken in seen)  # what takes one thread anyway is not asked for it


def test_threads_come_back_when_the_last_one_leaves():
    entered, leave = threading.Event(), threading.Event()

    def inside():
        host_blas.enter()
        entered.set()
        leave.wait(60)
        host_blas.leave()

    other = threading.Thread(target=inside)
    other.start()
    assert entered.wait(60)
    host_blas.enter()
    leave.set()
    other.join()
    assert set(threads()) == {1}
    host_blas.leave()
    assert set(threads()) == {2}


def test_an_error_gives_the_threads_back():
    fails = host_blas.on_one_thread(lambda *_: 1 << 20)(lambda a, b: np.matmul(a, b))
    with pytest.raises(ValueError, match="matmul"):
        fails(np.zeros((2, 3)), np.zeros((2, 3)))
    assert set(threads()) == {2}


def test_products_of_the_interpreter(monkeypatch):
    seen = []
    monkeypatch.setattr(np, "matmul", lambda a, b: (seen.append(threads()), a.dot(b))[1])
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [None, 200])
        y = tf.matmul(x, tf.ones([200, 100]))
        with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
            found = session.run(y, {x: np.ones([64, 200], np.float32)})
    np.testing.assert_array_equal(found, np.full([64, 100], 200.0))
    assert [set(each) for each in seen] == [{1}]


def test_a_limit_that_the_program_holds_is_respected():
    with threadpoolctl.threadpool_limits(2, "blas"):
        found = []
        thread = threading.Thread(target=lambda: found.extend(seen_by(1 << 20)))
        thread.start()
        thread.join()
        assert set(found) == {2}
    assert set(threads()) == {2}
