"""Programs that factorise matrices are called while BLAS has one thread, in every way that they come about."""

import numpy as np
import pytest
import threadpoolctl

import anabranch as tf
from anabranch.ops.shared import host_blas
from anabranch.xla import engine, lapack_threads, single_op


def threads():
    return {pool["num_threads"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"}


@pytest.fixture(autouse=True)
def two():
    """Two threads in each BLAS, SciPy's included; afterwards what there was."""
    lapack_threads.OnOneThread(None)  # loads SciPy's
    before = [(pool, pool.get_num_threads()) for pool in host_blas._pools()]
    for pool, _ in before:
        host_blas._set(pool, 2)
    yield
    for pool, number in before:
        host_blas._set(pool, number)


@pytest.fixture
def calls(monkeypatch):
    """The numbers of threads that BLAS had in each limited call."""
    seen = []
    plain = lapack_threads.OnOneThread.__call__

    def noting(self, *arguments):
        def compiled(*given):
            seen.append(threads())
            return self._compiled(*given)

        return plain(lapack_threads.OnOneThread(compiled), *arguments)

    monkeypatch.setattr(lapack_threads.OnOneThread, "__call__", noting)
    return seen


def positive_definite(size):
    draws = np.random.RandomState(0).standard_normal((size, size))
    return draws @ draws.T + size * np.eye(size)


def test_scipys_library_is_among_those_that_are_limited():
    files = [pool["filepath"] for pool in threadpoolctl.threadpool_info() if pool["user_api"] == "blas"]
    assert len(host_blas._pools()) == len(files)
    assert any("scipy" in file for file in files)


@pytest.mark.parametrize(
    "op", [tf.cholesky, tf.matrix_inverse, tf.matrix_determinant, lambda a: tf.qr(a)[1], lambda a: tf.svd(a)[0]]
)
def test_a_program_that_factorises_runs_on_one_thread(calls, op):
    given = tf.placeholder(tf.float64, [20, 20])
    result = op(given)
    slope = tf.gradients(result, given)[0]
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        for _ in range(3):
            session.run([result, slope], {given: positive_definite(20)})
    assert calls
    assert set.union(*calls) == {1}
    assert threads() == {2}


def test_a_factorisation_in_a_loop_counts(calls):
    given = tf.placeholder(tf.float64, [20, 20])
    _, result = tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x + tf.cholesky(x)), [0, given])
    matrix = positive_definite(20)
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        value = session.run(result, {given: matrix})
    for _ in range(3):
        matrix = matrix + np.linalg.cholesky(matrix)
    np.testing.assert_allclose(value, matrix, rtol=1e-12)
    assert set.union(*calls) == {1}


def test_one_op_that_is_compiled_for_the_interpreter_is_limited(calls):
    matrix = positive_definite(12)
    definition = tf.cholesky(tf.constant(matrix)).op.definition
    compiled = single_op.program(definition, [matrix], {"T": tf.float64})
    np.testing.assert_allclose(single_op.call(compiled, [matrix])[0], np.linalg.cholesky(matrix), rtol=1e-12)
    assert calls == [{1}]


def test_programs_without_factorisations_or_with_large_ones_are_left_alone():
    compiled = object()
    assert lapack_threads.limited(compiled, 0, "cpu") is compiled
    assert lapack_threads.limited(compiled, host_blas.LARGE, "cpu") is compiled
    assert lapack_threads.limited(compiled, 10, "gpu") is compiled
    assert isinstance(lapack_threads.limited(compiled, 10, "cpu"), lapack_threads.OnOneThread)


def test_the_largest_matrix_counts():
    jax = engine.jax()

    def work(*shape):
        return lapack_threads.largest(jax.jit(jax.numpy.linalg.cholesky).trace(np.ones(shape, np.float32)).jaxpr)

    assert work(5, 5) == 125
    assert work(7, 30, 30) == 27_000
    assert lapack_threads.largest(jax.jit(lambda a: a @ a).trace(np.ones((5, 5), np.float32)).jaxpr) == 0


def test_threads_come_back_when_the_program_fails():
    def fails():
        raise RuntimeError("the device is lost")

    with pytest.raises(RuntimeError, match="the device is lost"):
        lapack_threads.OnOneThread(fails)()
    assert threads() == {2}
