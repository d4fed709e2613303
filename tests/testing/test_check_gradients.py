"""The gradient checker finds wrong gradients, in any order, and lets right ones pass."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.contract.opdef import PURE, Op, Type
from anabranch.testing import check_gradients


def _square(name, factor, of_slope=1.0, at=None):
    """An op that squares, whose gradient is wrong by ``factor``, and whose gradient's gradient by ``of_slope``."""

    class Square(Op):
        """``x ** 2``."""

        type_name = name
        signature = "x: T -> y: T"
        attrs = {"T": Type("float double complex64 complex128")}
        effect = PURE

        def shape(c):
            return c.shapes[0]

        def kernel(ctx, inputs, attrs):
            return inputs[0] * inputs[0]

        def gradient(op, grad):
            (x,) = op.inputs
            slope = grad * tf.conj(x) * 2.0
            if at is not None:
                slope = slope * tf.constant([factor if i == at else 1.0 for i in range(16)], grad.dtype)
            elif factor != 1.0:
                slope = slope * tf.constant(factor, grad.dtype)
            if of_slope == 1.0:
                return slope
            with tf.get_default_graph().gradient_override_map({"Identity": f"{name}Slope"}):
                return tf.identity(slope)

    @tf.RegisterGradient(f"{name}Slope")
    def _slope(op, grad):
        return grad * of_slope

    return lambda x: tf.build_op(name, x)


right = _square("CheckedSquare", 1.0)
wrong = _square("WrongSquare", 1.001)
wrong_in_one = _square("WrongInOneSquare", 1.001, at=5)
wrong_slope = _square("WrongSlopeSquare", 1.0, of_slope=0.999)
REAL = np.linspace(-2, 3, 16)
COMPLEX = REAL + 1j * REAL[::-1]


@pytest.mark.parametrize(
    "values", [REAL, COMPLEX, np.zeros((0, 3)), np.float64(2.0)], ids=["real", "complex", "empty", "scalar"]
)
def test_right_gradients_pass(values) -> None:
    check_gradients(right, [values], order=3)


@pytest.mark.parametrize("values", [REAL, COMPLEX], ids=["real", "complex"])
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_a_gradient_wrong_by_a_thousandth_fails(values, tier) -> None:
    with pytest.raises(AssertionError, match=rf"order 1, {tier}: the symbolic gradient gives"):
        check_gradients(wrong, [values], tiers=[tier])


def test_one_wrong_element_fails() -> None:
    with pytest.raises(AssertionError, match=r"order 1, interpreted"):
        check_gradients(wrong_in_one, [REAL], order=1, tiers=["interpreted"])


def test_a_wrong_second_order_fails() -> None:
    check_gradients(wrong_slope, [REAL], order=1)
    with pytest.raises(AssertionError, match=r"order 2, interpreted"):
        check_gradients(wrong_slope, [REAL], order=2, tiers=["interpreted"])


def test_a_missing_gradient_fails() -> None:
    with pytest.raises(AssertionError, match=r"no gradient at all for \['Placeholder:0'\]"):
        check_gradients(lambda x: tf.stop_gradient(x), [REAL], tiers=["interpreted"])


def test_float32_has_a_wide_tolerance() -> None:
    check_gradients(right, [REAL.astype(np.float32)])
    with pytest.raises(AssertionError, match=r"allowed 0.002"):
        check_gradients(_square("VeryWrongSquare", 1.01), [REAL.astype(np.float32)])


def test_several_arguments_and_results() -> None:
    check_gradients(lambda x, y: [x * y, tf.exp(y)], [REAL, np.float64(0.5)])


def test_tensors_of_a_graph_and_a_session() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float64, [None])
        scale = tf.placeholder(tf.float64, [])
        y = tf.sin(x) * scale
        check_gradients(y, x, [REAL], feed_dict={scale: 3.0})
        with tf.Session() as session:
            check_gradients(y, x, [REAL], feed_dict={scale: 3.0}, session=session)


def test_slices() -> None:
    check_gradients(lambda table: tf.gather(table, [2, 0, 2]), [REAL.reshape(4, 4)])


def test_refusals() -> None:
    with pytest.raises(TypeError, match=r"dtype float16 in a gradient check"):
        check_gradients(lambda x: tf.cast(x, tf.float16), [REAL])
    with pytest.raises(TypeError, match=r"values for tensors only"):
        check_gradients(right, [REAL], [REAL])
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float64, [2])
        y = tf.exp(x)
        with pytest.raises(TypeError, match=r"tensors without values="):
            check_gradients(y, x)


# ------------------------------------------------------------------------------------------------------------ Jacobians
def test_compute_gradient() -> None:
    with tf.Graph().as_default(), tf.Session():
        x = tf.placeholder(tf.float64, [2])
        y = tf.stack([x[0] * x[1], tf.exp(x[0]), x[1]])
        theoretical, numeric = tf.test.compute_gradient(x, [2], y, [3], x_init_value=np.array([1.0, 2.0]))
        np.testing.assert_allclose(theoretical, [[2, np.e, 0], [1, 0, 1]])
        np.testing.assert_allclose(numeric, theoretical, rtol=1e-5)
        assert tf.test.compute_gradient_error(x, [2], y, [3]) < 1e-5


def test_compute_gradient_of_complex_numbers_and_lists() -> None:
    with tf.Graph().as_default(), tf.Session():
        z, x = tf.placeholder(tf.complex128, [1]), tf.placeholder(tf.float64, [1])
        y = z * z * tf.cast(x, tf.complex128)
        start = [np.array([1 + 2j]), np.array([3.0])]
        (of_z, numeric), (of_x, _) = tf.test.compute_gradient([z, x], [[1], [1]], y, [1], start)
        np.testing.assert_allclose(of_z, [[6, 12], [-12, 6]])
        np.testing.assert_allclose(of_z, numeric, rtol=1e-6)
        np.testing.assert_allclose(of_x, [[-3, 4]])


def test_the_place_follows_the_seed_of_numpy() -> None:
    with tf.Graph().as_default(), tf.Session():
        x, z = tf.placeholder(tf.float64, [2]), tf.placeholder(tf.complex128, [1])
        np.random.seed(3)
        at = np.random.random_sample(5)
        np.random.seed(3)
        theoretical, _ = tf.test.compute_gradient(x, [2], x * x, [2])
        np.testing.assert_array_equal(theoretical, np.diag(2 * at[:2]))
        theoretical, _ = tf.test.compute_gradient(z, [1], z * z, [1])
        np.testing.assert_allclose(theoretical[0], 2 * at[2:4])
        assert np.random.random_sample() == at[4]


def test_a_wrong_jacobian_is_measured() -> None:
    with tf.Graph().as_default(), tf.Session():
        x = tf.placeholder(tf.float64, [2])
        start = np.array([1.0, 2.0])
        error = tf.test.compute_gradient_error(x, [2], wrong(x), [2], start)
        assert error == pytest.approx(0.004, rel=1e-3)


def test_compute_gradient_needs_a_session_and_a_gradient() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float64, [2])
        with pytest.raises(ValueError, match="no default session"):
            tf.test.compute_gradient(x, [2], x, [2])
        with tf.Session(), pytest.raises(AssertionError, match=r"^dx = None\nGiven: no gradient from"):
            tf.test.compute_gradient(x, [2], tf.floor(x), [2])
        with tf.Session(), pytest.raises(AssertionError, match=r"^x_shape = \[2\], init_data shape = \[3\]"):
            tf.test.compute_gradient(x, [2], x, [2], np.zeros(3))
        whole = tf.placeholder(tf.int64, [2])
        with tf.Session(), pytest.raises(AssertionError, match=r"^Don't support type int64 for x"):
            tf.test.compute_gradient(whole, [2], tf.cast(whole, tf.float32), [2])
