"""``python.ops.distributions.util``, ``python.framework.registry`` and references without a Variable."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import internals
from anabranch.compat.internal import distribution, variable_ops
from anabranch.compat.internal import distribution_utilities as util
from anabranch.compat.internal.registry import Registry


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


def run(x: Any, feeds: Any = None) -> Any:
    with tf.Session() as session:
        return session.run(x, feeds)


def fed(value: Any, dtype: Any = np.float32) -> tuple[Any, Any]:
    array = np.array(value, dtype)
    return tf.placeholder(tf.as_dtype(array.dtype)), array


FAILURES = [
    (lambda x: util.assert_close(x, x + 1), [1.0], "Condition x ~= y did not hold"),
    (util.assert_integer_form, [1.5], "has non-integer components"),
    (util.assert_symmetric, [[1.0, 2.0], [3.0, 4.0]], "x == y"),
    (util.embed_check_nonnegative_integer_form, [-1.0], "must be non-negative"),
    (util.embed_check_nonnegative_integer_form, [0.5], "cannot contain fractional components"),
    (lambda p: util.get_logits_and_probs(probs=p, validate_args=True), [-0.1], "Condition x >= 0"),
    (lambda p: util.get_logits_and_probs(probs=p, validate_args=True), [1.1], "probs has components greater than 1"),
    (
        lambda p: util.get_logits_and_probs(probs=p, multidimensional=True, validate_args=True),
        [0.5, 0.2],
        "probs does not sum to 1",
    ),
    (util.embed_check_categorical_event_shape, [0.5], "at least 2 events"),
    (util.embed_check_categorical_event_shape, np.ones(2**11 + 1, np.float16), "float16 dtype cannot exceed 2048"),
    (lambda x: util.embed_check_integer_casting_closed(x, tf.int16), [-1.0], "Elements must be non-negative"),
    (lambda x: util.embed_check_integer_casting_closed(x, tf.int16), [1.5], "Elements must be int16-equivalent"),
    (lambda x: util.embed_check_integer_casting_closed(x, tf.int16), np.array([2**15]), "Elements cannot exceed 32767"),
    (
        lambda x: util.embed_check_integer_casting_closed(x, tf.uint8, assert_nonnegative=False),
        np.array([-1]),
        "Elements cannot be smaller than 0",
    ),
]


@pytest.mark.parametrize(("check", "value", "words"), FAILURES)
def test_checks_fail_a_step_with_their_words(check: Any, value: Any, words: str) -> None:
    x, array = fed(value, None if isinstance(value, np.ndarray) else np.float32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=words):
        run(check(x), {x: array})


def test_checks_that_hold_change_nothing() -> None:
    x, array = fed([0.0, 3.0])
    assert run(util.embed_check_nonnegative_integer_form(x), {x: array}).tolist() == [0.0, 3.0]
    assert run(util.embed_check_integer_casting_closed(x, tf.int32), {x: array}).tolist() == [0.0, 3.0]
    p, probs = fed([0.25, 0.75])
    logits, same = run(util.get_logits_and_probs(probs=p, multidimensional=True, validate_args=True), {p: probs})
    np.testing.assert_allclose(np.exp(logits), probs, rtol=1e-6)
    assert same.tolist() == [0.25, 0.75]
    odds, single = run(util.get_logits_and_probs(logits=[0.0, np.log(3.0)]))
    np.testing.assert_allclose(single, [0.5, 0.75], rtol=1e-6)
    assert odds.tolist() == [0.0, pytest.approx(np.log(3.0))]


@pytest.mark.parametrize(
    ("make", "kind", "words"),
    [
        (lambda: util.get_logits_and_probs(), ValueError, "Must pass probs or logits, but not both"),
        (lambda: util.get_logits_and_probs([0.0], [1.0]), ValueError, "Must pass probs or logits, but not both"),
        (lambda: util.get_logits_and_probs(probs=[1]), TypeError, "probs must having floating type"),
        (lambda: util.embed_check_categorical_event_shape([1.0]), ValueError, "at least 2 events"),
        (lambda: util.embed_check_categorical_event_shape(1.0), ValueError, "at least 1 dimension"),
        (lambda: util.embed_check_categorical_event_shape([1, 2]), TypeError, "Unable to validate size"),
        (
            lambda: util.embed_check_categorical_event_shape(tf.zeros([2**11 + 1], tf.float16)),
            ValueError,
            "exceeds `dtype` precision",
        ),
        (lambda: util.embed_check_integer_casting_closed([1.0], tf.float32), TypeError, "must be integer-type"),
        (lambda: util.pick_vector(tf.constant(1), [1], [2]), TypeError, "which is not <dtype: 'bool'>"),
        (lambda: util.pad([1], 0), ValueError, "At least one of `front`, `back` must be `True`"),
        (lambda: util.pad([1], 0, back=True, count=1.0), TypeError, "must be `int`-like"),
        (
            lambda: util.process_quadrature_grid_and_probs(([1.0], [1.0, 2.0]), tf.float32, True),
            ValueError,
            r"saw lengths 2, 1",
        ),
    ],
)
def test_what_is_known_to_be_wrong_is_refused(make: Any, kind: Any, words: str) -> None:
    with pytest.raises(kind, match=words):
        make()


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("shift", [-7, -2, -1, 0, 1, 2, 7])
def test_dimensions_turn(shift: int, known: bool) -> None:
    array = np.zeros((1, 2, 3, 4), np.float32)
    x = tf.placeholder(tf.float32, array.shape if known else None)
    by = tf.placeholder(tf.int32, []) if not known else shift
    turned = util.rotate_transpose(x, by)
    want = np.transpose(array, np.roll(np.arange(4), shift)).shape
    assert run(turned, {x: array} if known else {x: array, by: shift}).shape == want


def test_one_of_two_vectors() -> None:
    flag = tf.placeholder(tf.bool, [])
    chosen = util.pick_vector(flag, tf.range(10, 12), tf.range(15, 18))
    with tf.Session() as session:
        assert session.run(chosen, {flag: True}).tolist() == [10, 11]
        assert session.run(chosen, {flag: False}).tolist() == [15, 16, 17]
    assert util.pick_vector(True, "a", "b") == "a"


def test_what_is_known_is_preferred() -> None:
    x = tf.placeholder(tf.float32, [2, 3])
    assert isinstance(util.prefer_static_shape(x), np.ndarray)
    assert util.prefer_static_rank(x) == 2
    unknown, array = fed(np.ones((4, 1)))
    assert run([util.prefer_static_rank(unknown), util.prefer_static_shape(unknown)], {unknown: array})[0] == 2
    assert util.prefer_static_broadcast_shape(tf.TensorShape([2, 1]), [3]) == (2, 3)
    joined = util.prefer_static_broadcast_shape(tf.shape(unknown), tf.TensorShape([3]))
    assert run(joined, {unknown: array}).tolist() == [4, 3]
    with pytest.raises(ValueError, match="Cannot broadcast from partially defined"):
        util.prefer_static_broadcast_shape(tf.shape(unknown), tf.TensorShape([None]))


def test_shapes_of_a_step_are_compared() -> None:
    a, b = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    same = util.same_dynamic_shape(a, b)
    with tf.Session() as session:
        assert session.run(same, {a: np.ones((2, 3)), b: np.zeros((2, 3))})
        assert not session.run(same, {a: np.ones((2, 3)), b: np.zeros((3, 2))})
        assert not session.run(same, {a: np.ones((2, 3)), b: 1.0})


def test_padding_of_one_dimension() -> None:
    x = np.ones((2, 2), np.int32)
    padded = util.pad(x, axis=-1, front=True, back=True, value=7, count=2)
    assert padded.shape == (2, 6)
    assert run(padded).tolist() == [[7, 7, 1, 1, 7, 7]] * 2
    axis = tf.placeholder(tf.int32, [])
    assert run(util.pad(x, axis, back=True), {axis: -2}).tolist() == [[1, 1], [1, 1], [0, 0]]


def test_quadrature_of_gauss_and_hermite() -> None:
    grid, probs = run(util.process_quadrature_grid_and_probs(None, tf.float64, False))
    assert probs.sum() == pytest.approx(1.0)
    assert (probs * grid**2).sum() == pytest.approx(0.5)


def test_combinations_of_counts() -> None:
    np.testing.assert_allclose(
        run(util.log_combinations([3.0, 4.0], [[1.0, 2.0], [2.0, 2.0]])), np.log([3, 6]), rtol=1e-6
    )


def test_lists_of_the_first_versions() -> None:
    generated = internals.special("=generated", "empty_tensor_list")
    stack, pop = (internals.special("=generated", name) for name in ("tensor_list_stack", "tensor_list_pop_back"))
    empty = generated(element_shape=tf.constant([], tf.int32), element_dtype=tf.float32)
    one = internals.special("=generated", "tensor_list_push_back")(empty, tf.constant(1.0))
    _, last = pop(one, element_dtype=tf.float32)
    assert run(stack(one, element_dtype=tf.float32)).tolist() == [1.0]
    assert run(last) == 1.0
    scalar = tf.constant([], tf.int32)
    assert run(stack(one, scalar, element_dtype=tf.float32, num_elements=1)).tolist() == [1.0]


def test_docstrings_go_on() -> None:
    @util.AppendDocstring("More.", {"value": "a number"})
    def function() -> int:
        """First."""
        return 3

    assert function() == 3
    assert function.__doc__ == "First.\nMore.\n\n##### `kwargs`:\n\n*  `value`: a number"
    with pytest.raises(ValueError, match="contains whitespace"):
        util.AppendDocstring("", {"a b": "c"})


def test_registered_names_are_taken_once() -> None:
    registry = Registry("thing")
    registry.register(Registry)
    assert registry.lookup("Registry") is Registry
    assert list(registry.list()) == ["Registry"]
    with pytest.raises(KeyError, match=r"Registering two thing with name 'Registry' !.*test_distribution_utilities"):
        registry.register(3, "Registry")
    with pytest.raises(LookupError, match="thing registry has no entry for: other"):
        registry.lookup("other")


def test_references_alone() -> None:
    var = variable_ops.variable_op([1, 2], tf.float32)
    assert (var.op.type, var.shape, var.dtype) == ("Variable", (1, 2), tf.float32_ref)
    loose = variable_ops.variable_op([1, 2], tf.float32, set_shape=False)
    assert loose.shape.ndims is None
    scalar = variable_ops.variable_op_v2([], tf.int32)
    first = variable_ops.init_variable(scalar, lambda shape, dtype: tf.constant(5, dtype, shape))
    with tf.Session() as session:
        session.run([tf.assign(var, [[1.0, 2.0]]), tf.assign(loose, [3.0], validate_shape=False), first])
        assert [value.tolist() for value in session.run([var, loose, scalar])] == [[[1.0, 2.0]], [3.0], 5]


def test_functions_of_collectives():
    with tf.Graph().as_default():
        group = (2, 1)
        xs = [tf.constant([1.0, 4.0]), tf.constant([3.0, 2.0])]
        sums = [distribution.all_reduce(x, *group, 1, "Add", "Div") for x in xs]
        rows = [distribution.all_gather(x, *group, 2) for x in xs]
        sent = distribution.broadcast_send(xs[0], [2], tf.float32, *group, 3)
        received = distribution.broadcast_recv([2], tf.float32, *group, 3)
        assert rows[0].shape.as_list() == [4]
        with tf.Session() as session:
            assert [list(value) for value in session.run(sums)] == [[2.0, 3.0]] * 2
            assert [list(value) for value in session.run(rows)] == [[1.0, 4.0, 3.0, 2.0]] * 2
            assert [list(value) for value in session.run([sent, received])] == [[1.0, 4.0]] * 2
        for make in (
            lambda: distribution.all_reduce(xs[0], 1, 1, 4, "Add", "Id"),
            lambda: distribution.all_gather(xs[0], 1, 1, 4),
            lambda: distribution.broadcast_recv([2], tf.float32, 1, 1, 4),
        ):
            with pytest.raises(ValueError, match="group_size must be at least 2"):
                make()
