"""Tapes: gradients of what has run, against formulas and TensorFlow 1.15's conventions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anabranch as tf


def test_a_watched_tensor_has_a_gradient() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.reduce_sum(x * x)
    assert tape.gradient(y, x).numpy().tolist() == [2.0, 4.0]


def test_trainable_variables_are_watched_and_others_are_not() -> None:
    v, w = tf.Variable(2.0, name="v"), tf.Variable(3.0, trainable=False, name="w")
    with tf.GradientTape() as tape:
        y = v * w
    assert [one.name for one in tape.watched_variables()] == ["v:0"]
    slopes = tape.gradient(y, [v, w])
    assert (float(slopes[0]), slopes[1]) == (3.0, None)
    with tf.GradientTape(watch_accessed_variables=False) as tape:
        tape.watch(w)
        y = v * w
    slopes = tape.gradient(y, {"v": v, "w": w})
    assert (slopes["v"], float(slopes["w"])) == (None, 2.0)


def test_what_is_not_watched_has_none_or_zeros() -> None:
    x, y = tf.constant([1.0, 2.0]), tf.constant(1.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        z = x * y
    assert tape.gradient(z, y) is None
    zero = tape.gradient(z, y, unconnected_gradients=tf.UnconnectedGradients.ZERO)
    assert float(zero) == 0.0
    with pytest.raises(ValueError, match="Unknown value for unconnected_gradients"):
        tape.gradient(z, y, unconnected_gradients="nonsense")


def test_a_tape_is_used_once_unless_it_is_persistent() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    assert float(tape.gradient(y, x)) == 6.0
    with pytest.raises(RuntimeError, match="can only be called once on non-persistent tapes"):
        tape.gradient(y, x)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
        z = y * y
    assert (float(tape.gradient(z, x)), float(tape.gradient(y, x))) == (108.0, 6.0)


def test_nested_tapes_give_higher_orders() -> None:
    x = tf.constant(2.0)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            y = x * x * x
        first = inner.gradient(y, x)
    assert (float(first), float(outer.gradient(first, x))) == (12.0, 12.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        first = tape.gradient(x * x * x, x)  # recorded, as the tape is
    assert float(tape.gradient(first, x)) == 12.0


def test_recording_stops_and_begins_anew() -> None:
    x = tf.constant(3.0)
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        with tape.stop_recording():
            y = x * x
        z = x * 2.0 + y
    assert tape.gradient(y, x) is None
    assert float(tape.gradient(z, x)) == 2.0
    with tf.GradientTape() as tape:
        tape.watch(x)
        x * x
        tape.reset()
        tape.watch(x)
        y = x * 5.0
    assert float(tape.gradient(y, x)) == 5.0
    with pytest.raises(ValueError, match="Tape is already recording"), tf.GradientTape() as tape, tape:
        pass


def test_gradients_to_start_with() -> None:
    x = tf.constant([1.0, 2.0])
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = x * x
    slope = tape.gradient(y, x, output_gradients=tf.constant([1.0, 10.0]))
    assert slope.numpy().tolist() == [2.0, 40.0]


def test_gathered_rows_have_slices() -> None:
    table = tf.Variable(tf.ones([4, 2]))
    with tf.GradientTape() as tape:
        y = tf.reduce_sum(tf.gather(table, [1, 1, 3]) * 2.0)
    slope = tape.gradient(y, table)
    assert isinstance(slope, tf.IndexedSlices)
    assert tf.convert_to_tensor(slope).numpy().tolist() == [[0.0, 0.0], [4.0, 4.0], [0.0, 0.0], [2.0, 2.0]]


def test_jacobians() -> None:
    x = tf.constant([[1.0, 2.0], [3.0, 4.0]])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x * x
    full = tape.jacobian(y, x).numpy()
    assert full.shape == (2, 2, 2, 2)
    np.testing.assert_array_equal(full.reshape(4, 4), np.diag([2.0, 4.0, 6.0, 8.0]))
    batch = tape.batch_jacobian(y, x).numpy()
    np.testing.assert_array_equal(batch, [np.diag([2.0, 4.0]), np.diag([6.0, 8.0])])
    with pytest.raises(ValueError, match="Need first dimension of target shape"):
        tape.batch_jacobian(y[:1], x)


def _layer() -> tuple[Any, Any, Any]:
    random = np.random.default_rng(3)
    x = tf.constant(random.standard_normal([6, 4]), tf.float32)
    w = tf.Variable(random.standard_normal([4, 9]).astype(np.float32))
    return x, w, tf.constant(1.0)


def _jacobians(persistent: bool = False) -> Any:
    x, w, apart = _layer()

    def jacobians(x: Any, **options: Any) -> Any:
        with tf.GradientTape(persistent=persistent) as tape:
            tape.watch(x)
            y = tf.tanh(tf.matmul(x, w)) * tf.gather(x, [0, 2, 1, 0, 3, 1, 2, 3, 0], axis=1)
        return tape.jacobian(y, {"x": x, "w": w, "apart": apart}, **options)

    return x, jacobians


def test_many_rows_of_a_jacobian_are_traced_and_equal_to_walks_one_by_one() -> None:
    x, jacobians = _jacobians()
    one_by_one = jacobians(x, experimental_use_pfor=False)
    assert one_by_one["apart"] is None
    assert one_by_one["w"].shape == (6, 9, 4, 9)
    # As a function of known shapes and of unknown ones, which adds the walk to the graph once.
    wide = tf.function(jacobians, input_signature=[tf.TensorSpec([None, None], tf.float32)])
    for results in (jacobians(x), tf.function(jacobians)(x), wide(x)):
        for name in ("x", "w"):
            np.testing.assert_allclose(results[name].numpy(), one_by_one[name].numpy(), rtol=1e-5, atol=1e-6)
    zeros = jacobians(x, unconnected_gradients=tf.UnconnectedGradients.ZERO)["apart"]
    assert zeros.shape == (6, 9)
    assert not zeros.numpy().any()
    graph = tf.function(jacobians).get_concrete_function(x).graph
    assert len([op for op in graph.get_operations() if op.type == "TanhGrad"]) < 3


def test_a_traced_jacobian_has_a_gradient() -> None:
    x = tf.constant(np.linspace(0.1, 1.0, 40), tf.float32)
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = x * x * x
        whole = tape.jacobian(y, x)
    np.testing.assert_allclose(np.diag(whole.numpy()), 3 * x.numpy() ** 2, rtol=1e-5)
    np.testing.assert_allclose(outer.gradient(whole, x).numpy(), 6 * x.numpy(), rtol=1e-5)


def test_a_program_of_own_rules_has_its_jacobian_walked_one_by_one() -> None:
    @tf.custom_gradient
    def twice(x: Any) -> Any:
        return x * 2.0, lambda slope: tf.constant(slope.numpy() * 2.0)  # wants a value

    x = tf.constant(np.ones([5, 8], np.float32))
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = twice(x) * x
    assert tape.jacobian(y, x).shape == (5, 8, 5, 8)
    batch = tape.batch_jacobian(y, x).numpy()
    np.testing.assert_array_equal(batch, np.tile(np.diag([4.0] * 8), [5, 1, 1]))


@pytest.mark.parametrize("pfor", [True, False])
def test_batches_of_jacobians_by_tracing_and_one_by_one(pfor: bool) -> None:
    x = tf.constant(np.linspace(0.0, 1.0, 80).reshape(2, 40), tf.float32)

    def jacobian(x: Any) -> Any:
        with tf.GradientTape() as tape:
            tape.watch(x)
            y = tf.square(x)[:, ::-1]
        return tape.batch_jacobian(y, x, experimental_use_pfor=pfor)

    expected = [np.diag(2 * row)[::-1] for row in x.numpy()]
    wide = tf.function(jacobian, input_signature=[tf.TensorSpec([None, 40], tf.float32)])
    for result in (jacobian(x), wide(x)):
        np.testing.assert_allclose(result.numpy(), expected, rtol=1e-6)


def test_wrong_things_are_refused() -> None:
    with tf.GradientTape() as tape:
        with pytest.raises(ValueError, match=r"expected tf\.Tensor"):
            tape.watch(3.0)
        y = tf.constant(1.0)
    with pytest.raises(ValueError, match="a source 'x'"):
        tape.gradient(y, "x")


def test_functions_of_arguments() -> None:
    eager = tf.contrib.eager
    value, slopes = eager.value_and_gradients_function(lambda x, y: x * y)(3.0, 4.0)
    assert (float(value), [float(slope) for slope in slopes]) == (12.0, [4.0, 3.0])
    assert [float(slope) for slope in eager.gradients_function(lambda x, y: x * y, params=["y"])(3.0, 4.0)] == [3.0]
    second = eager.gradients_function(lambda x: eager.gradients_function(lambda z: z * z * z)(x)[0])
    assert float(second(2.0)[0]) == 12.0
    with pytest.raises(ValueError, match="Cannot differentiate a function that returns None"):
        eager.gradients_function(lambda x: None)(1.0)


def test_implicit_functions_find_variables() -> None:
    v = tf.Variable(3.0)
    value, pairs = tf.contrib.eager.implicit_value_and_gradients(lambda x: v * v * x)(2.0)
    assert (float(value), float(pairs[0][0]), pairs[0][1]) == (18.0, 12.0, v)
    with pytest.raises(ValueError, match="No trainable variables were accessed"):
        tf.contrib.eager.implicit_gradients(lambda x: x)(tf.constant(1.0))


@pytest.mark.parametrize(
    "function",
    [
        lambda x: tf.reduce_sum(tf.nn.softmax(x) * tf.constant([1.0, 2.0, 3.0])),
        lambda x: tf.reduce_sum(tf.nn.relu(x - 1.0) ** 2.0),
        lambda x: tf.linalg.norm(x),
        lambda x: tf.reduce_logsumexp(x),
        lambda x: tf.while_loop(lambda i, a: i < 3, lambda i, a: (i + 1, a * tf.reduce_mean(x)), (0, x[0]))[1],
        lambda x: tf.reduce_sum(tf.concat([x, x * x], 0)[1:5]),
    ],
)
def test_a_tape_agrees_with_the_gradients_of_a_graph(function: Any) -> None:
    array = np.array([0.5, 1.5, 2.5], np.float32)
    x = tf.constant(array)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = function(x)
    with tf.Graph().as_default(), tf.Session() as session:
        fed = tf.placeholder(tf.float32, [3])
        value = function(fed)
        expected = session.run([value, tf.gradients(value, fed)[0]], {fed: array})
    np.testing.assert_allclose(y.numpy(), expected[0], rtol=1e-6)
    np.testing.assert_allclose(tf.convert_to_tensor(tape.gradient(y, x)).numpy(), expected[1], rtol=1e-5)


def test_what_has_no_gradients_has_none() -> None:
    x, number, text = tf.constant(3.0), tf.constant(2), tf.constant("a")
    with tf.GradientTape(persistent=True) as tape:
        tape.watch([x, number, text])
        y = number + number
    assert tape.gradient(y, number) is None
    assert tape.gradient(text, [x, text]) == [None, None]


def test_a_graph_s_tape_follows_what_it_was_told() -> None:
    with tf.Graph().as_default():
        v, w, fixed = (tf.Variable(2.0, use_resource=True, trainable=i < 2) for i in range(3))
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(w)
            y = v * w
        assert [grad is None for grad in tape.gradient(y, [v, w])] == [True, False]
        with tf.GradientTape() as tape:
            y = v * fixed
        assert [grad is None for grad in tape.gradient(y, [v, fixed])] == [False, True]


def test_jacobians_of_batches_without_columns_and_of_ranks_that_do_not_do() -> None:
    x = tf.zeros([3, 0])
    with tf.GradientTape(persistent=True) as tape:
        tape.watch(x)
        y = x**2
        total = tf.reduce_sum(x, 1)
    assert tape.batch_jacobian(y, x).shape.as_list() == [3, 0, 0]
    assert tape.jacobian(y, x).shape.as_list() == [3, 0, 3, 0]
    with pytest.raises(ValueError, match=r"Shape \(3,\) must have rank at least 2"):
        tape.batch_jacobian(total, x)
