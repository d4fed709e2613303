"""What ops that run at once make of operands: of other dtypes, with or without a value, Python's own.

Which exceptions there are, and their first words, are those of TensorFlow 1.15.5 in eager mode.
"""

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager.mode import EAGER

MIXED = {
    "a list that is joined": (lambda f, i: tf.concat([f, i], 0), "ConcatV2 as input #1"),
    "a list that is stacked": (lambda f, i: tf.stack([f, i]), "Pack as input #1"),
    "a list that is added up": (lambda f, i: tf.add_n([f, i]), "AddN as input #1"),
    "a product": (lambda f, i: tf.linalg.matvec(tf.reshape(f, [1, 2]), i), "MatMul as input #1"),
    "a comparison that is asserted": (lambda f, i: tf.assert_equal(f, i), "Equal as input #1"),
    "a number of Python's": (lambda f, i: i + 1.5, "AddV2 as input #1"),
    "a power of Python's": (lambda f, i: i**0.5, "Pow as input #1"),
    "a number beside strings": (lambda f, i: tf.constant(["a"]) + 1, "Add as input #1"),
}


@pytest.mark.parametrize("case", MIXED)
def test_operands_of_mixed_dtypes_are_invalid(case):
    compute, words = MIXED[case]
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"cannot compute {words}.*was expected to be a"):
        compute(tf.constant([1.0, 2.0]), tf.constant([1, 2]))


@pytest.mark.parametrize("case", [case for case in MIXED if case != "a comparison that is asserted"])
def test_in_a_graph_they_are_of_the_wrong_type(case):
    compute, _ = MIXED[case]
    with tf.Graph().as_default(), pytest.raises(TypeError, match=r"Op has type|don't all match"):
        compute(tf.constant([1.0, 2.0]), tf.constant([1, 2]))


def test_a_constant_of_a_tensor_is_not_cast():
    assert tf.constant(tf.constant(1.5), tf.float32).numpy() == 1.5
    with pytest.raises(TypeError, match=r"Expected tensor with type tf\.int32 not tf\.float32"):
        tf.constant(tf.constant(1.5), tf.int32)


@pytest.mark.parametrize("labels", [lambda: tf.constant([[0, 1]]), lambda: tf.Variable([[0, 1]]), lambda: [[0, 1]]])
@pytest.mark.parametrize("dtype", [tf.float16, tf.float32, tf.float64])
def test_labels_of_cross_entropy_are_cast(labels, dtype):
    loss = tf.nn.softmax_cross_entropy_with_logits_v2(labels=labels(), logits=tf.constant([[1.0, 2.0]], dtype))
    assert loss.dtype == dtype
    np.testing.assert_allclose(loss.numpy(), [np.log1p(np.exp(-1.0))], rtol=1e-3)


@pytest.mark.parametrize(
    "pred",
    [True, np.bool_(True), 1, lambda: tf.constant(True), lambda: tf.constant(2.0), lambda: tf.constant("words")],
)
def test_a_condition_is_what_python_takes_for_true(pred):
    pred = pred() if callable(pred) else pred
    assert tf.cond(pred, lambda: "yes", lambda: "no") == "yes"
    assert tf.cond(tf.constant(0), lambda: "yes", lambda: "no") == "no"


def test_a_loop_gives_a_list_where_its_body_does():
    def run(body, start, **limit):
        return tf.while_loop(lambda i: i < 3, body, [tf.constant(start)], **limit)

    assert run(lambda i: i + 1, 0).numpy() == 3
    assert [value.numpy() for value in run(lambda i: [i + 1], 0)] == [3]
    assert [value.numpy() for value in run(lambda i: i + 1, 7)] == [7]
    assert run(lambda i: i + 1, 0, maximum_iterations=2).numpy() == 2


def test_draws_on_the_short_way_follow_the_seeds():
    """The stream of an op without a seed of its own goes on, and begins anew with the seed of the process."""
    with EAGER.as_default():
        runs = []
        for _ in range(2):
            tf.set_random_seed(5)
            runs.append([tf.random_uniform([3]).numpy() for _ in range(4)])
        tf.set_random_seed(None)
        free = [tf.random_uniform([3]).numpy() for _ in range(4)]
    np.testing.assert_array_equal(runs[0], runs[1])
    assert len({array.tobytes() for array in [*runs[0], *free]}) == 8


def test_products_with_variables_and_of_symbolic_tensors():
    with EAGER.as_default():
        w = tf.Variable(np.arange(6, dtype=np.float32).reshape(2, 3))
        x = np.ones((1, 2), np.float32)
        for _ in range(2):
            np.testing.assert_array_equal(tf.matmul(x, w).numpy(), [[3, 5, 7]])
            np.testing.assert_array_equal(tf.matmul(w, x, transpose_a=True, transpose_b=True).numpy(), [[3], [5], [7]])
        model = tf.keras.Sequential([tf.keras.layers.Lambda(lambda t: tf.matmul(t, w), input_shape=(2,))])
        np.testing.assert_array_equal(model.predict(x), [[3, 5, 7]])
