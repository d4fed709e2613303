"""Circulant, Toeplitz and Householder operators against their full matrices, made by NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

RNG = np.random.RandomState(0)


def circulant(spectrum, depth):
    """The full matrix: what the transforms do to each unit vector."""
    block = spectrum.shape[-depth:]
    axes = tuple(range(-depth, 0))
    size = int(np.prod(block))
    eye = np.eye(size).reshape(size, *block)
    moved = np.fft.ifftn(np.fft.fftn(eye, axes=axes) * spectrum[..., None, *[slice(None)] * depth], axes=axes)
    return np.swapaxes(moved.reshape(*moved.shape[:-depth], size), -1, -2)


def toeplitz(col, row):
    size = col.shape[-1]
    dense = np.zeros((*col.shape, size), col.dtype)
    for i in range(size):
        for j in range(size):
            dense[..., i, j] = col[..., i - j] if i >= j else row[..., j - i]
    return dense


def householder(axis):
    unit = axis / np.sqrt((np.abs(axis) ** 2).sum(-1, keepdims=True))
    return np.eye(axis.shape[-1]) - 2 * unit[..., :, None] * np.conj(unit[..., None, :])


def draw(*shape, complex_=False):
    return RNG.randn(*shape) + 1j * RNG.randn(*shape) if complex_ else RNG.randn(*shape)


def cases():
    names = {1: "LinearOperatorCirculant", 2: "LinearOperatorCirculant2D", 3: "LinearOperatorCirculant3D"}
    for depth, block in ((1, (5,)), (2, (2, 3)), (3, (2, 3, 2))):
        for batch in ((), (2,)):
            spectrum = draw(*batch, *block, complex_=True) + 3
            yield names[depth], (spectrum,), {"input_output_dtype": tf.complex128}, circulant(spectrum, depth)
    kernel = draw(4)
    yield (
        names[1],
        (np.fft.fft(kernel) + 4,),
        {"input_output_dtype": tf.float64},
        circulant(np.fft.fft(kernel) + 4, 1).real,
    )
    even = np.array([5.0, 2.0, 1.0, 2.0])
    yield names[1], (even,), {"input_output_dtype": tf.float64}, circulant(even, 1).real
    for complex_ in (False, True):
        col, row = draw(2, 4, complex_=complex_), draw(2, 4, complex_=complex_)
        col[..., 0] += 5
        row[..., 0] = col[..., 0]
        yield "LinearOperatorToeplitz", (col, row), {}, toeplitz(col, row)
        axis = draw(3, 4, complex_=complex_)
        yield "LinearOperatorHouseholder", (axis,), {}, householder(axis)


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize(("name", "arrays", "options", "dense"), list(cases()))
def test_operators_do_what_their_matrices_do(name, arrays, options, dense, known):
    with tf.Graph().as_default(), tf.Session() as session:
        fed = [tf.constant(a) if known else tf.placeholder(a.dtype, [None] * a.ndim) for a in arrays]
        feeds = {} if known else dict(zip(fed, arrays, strict=True))
        operator = getattr(tf.linalg, name)(*fed, **options)
        is_complex = operator.dtype.is_complex
        x = draw(*dense.shape[:-1], 3, complex_=is_complex)
        wide = draw(*dense.shape[:-2], 3, dense.shape[-1], complex_=is_complex)
        sign, log_size = np.linalg.slogdet(dense)
        tensors = {
            "dense": operator.to_dense(),
            "product": operator.matmul(x),
            "of the adjoint": operator.matmul(x, adjoint=True),
            "with an adjoint": operator.matmul(wide, adjoint_arg=True),
            "vector": operator.matvec(x[..., 0]),
            "solution": operator.solve(x),
            "solution of the adjoint": operator.solve(x, adjoint=True),
            "determinant": operator.determinant(),
            "logarithm": operator.log_abs_determinant(),
            "diagonal": operator.diag_part(),
            "trace": operator.trace(),
            "sum": operator.add_to_tensor(np.ones(dense.shape)),
            "shape": operator.shape_tensor(),
        }
        values = session.run(tensors, feeds)
    turned = np.conj(np.swapaxes(dense, -1, -2))
    expected = {
        "dense": dense,
        "product": dense @ x,
        "of the adjoint": turned @ x,
        "with an adjoint": dense @ np.conj(np.swapaxes(wide, -1, -2)),
        "vector": (dense @ x)[..., 0],
        "solution": np.linalg.solve(dense, x),
        "solution of the adjoint": np.linalg.solve(turned, x),
        "determinant": sign * np.exp(log_size),
        "logarithm": log_size,
        "diagonal": np.diagonal(dense, axis1=-2, axis2=-1),
        "trace": np.trace(dense, axis1=-2, axis2=-1),
        "sum": dense + 1,
        "shape": dense.shape,
    }
    for what, value in expected.items():
        np.testing.assert_allclose(values[what], value, rtol=1e-8, atol=1e-9, err_msg=what)
    if known:
        assert operator.shape.as_list() == list(dense.shape)


def test_gradients_through_a_circulant_matrix():
    spectrum, x = np.array([5.0, 2.0, 1.0, 2.0]), draw(4)
    with tf.Graph().as_default(), tf.Session() as session:
        s = tf.constant(spectrum)
        y = tf.linalg.LinearOperatorCirculant(s, tf.float64).matvec(x)
        slope = session.run(tf.gradients(tf.reduce_sum(y * np.arange(4.0)), s)[0])
    step = 1e-6
    for place in range(4):
        more, less = spectrum.copy(), spectrum.copy()
        more[place] += step
        less[place] -= step
        change = (circulant(more, 1) - circulant(less, 1)).real @ x @ np.arange(4.0) / (2 * step)
        np.testing.assert_allclose(slope[place], change, rtol=1e-6)


def test_what_a_circulant_matrix_is_made_of():
    kernel = draw(3, 4)
    spectrum = np.fft.fft2(kernel)
    with tf.Graph().as_default(), tf.Session() as session:
        operator = tf.linalg.LinearOperatorCirculant2D(tf.constant(spectrum), tf.float64)
        assert (operator.block_depth, operator.block_shape.as_list()) == (2, [3, 4])
        assert session.run(operator.block_shape_tensor()).tolist() == [3, 4]
        np.testing.assert_allclose(session.run(operator.convolution_kernel()), kernel, rtol=1e-10)
        session.run([operator.assert_hermitian_spectrum(), operator.assert_non_singular()])
        assert tf.linalg.LinearOperatorCirculant([1.0, 2.0]).is_self_adjoint
        for wrong, method, words in (
            (np.array([1, 1j, 1j]), "assert_hermitian_spectrum", "not Hermitian"),
            (np.array([1.0, 0.0]), "assert_non_singular", "zero values"),
            (np.array([1, 1j]), "assert_self_adjoint", "non-zero imaginary part"),
            (np.array([1.0, -1.0]), "assert_positive_definite", "not all positive"),
        ):
            check = getattr(tf.linalg.LinearOperatorCirculant(wrong), method)()
            with pytest.raises(tf.errors.InvalidArgumentError, match=words):
                session.run(check)


def test_what_is_refused():
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="at least 2 dimensions"):
            tf.linalg.LinearOperatorCirculant2D([1.0, 2.0])
        with pytest.raises(ValueError, match="always square"):
            tf.linalg.LinearOperatorCirculant([1.0, 2.0], is_square=False)
        with pytest.raises(ValueError, match="always corresponds to a self-adjoint operator"):
            tf.linalg.LinearOperatorCirculant([1.0, 2.0], is_self_adjoint=False)
        with pytest.raises(TypeError, match="float or complex"):
            tf.linalg.LinearOperatorCirculant([1, 2])
        with pytest.raises(ValueError, match="not positive definite"):
            tf.linalg.LinearOperatorHouseholder([1.0, 2.0], is_positive_definite=True)
        with pytest.raises(ValueError, match="at least 1 dimension"):
            tf.linalg.LinearOperatorToeplitz(1.0, [1.0])
