"""``tf.while_loop``: variables of all forms, invariants, effects, limits, refusals; in both tiers."""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.verify import verify_graph


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Graph().as_default() as graph, tf.Session(config=tf.SessionOptions(tier=request.param)) as found:
        yield found
        verify_graph(graph)


def less(n):
    return lambda i, *rest: i < n


# ------------------------------------------------------------------------------------------------------------ variables
def test_a_single_variable(session):
    i = tf.while_loop(lambda i: i < 10, lambda i: i + 3, [tf.constant(0)])
    assert isinstance(i, tf.Tensor)
    kept = tf.while_loop(lambda i: i < 10, lambda i: (i + 3,), [0], return_same_structure=True)
    assert isinstance(kept, tuple)
    assert session.run([i, kept[0]]) == [12, 12]


def test_several_variables(session):
    def fibonacci(i, a, b):
        return [i + 1, b, a + b]

    found = tf.while_loop(less(10), fibonacci, (0, 0, 1))
    assert isinstance(found, list)
    assert session.run(found) == [10, 55, 89]


def test_variables_update_together(session):
    a, b = tf.while_loop(lambda a, b: a < 5, lambda a, b: (b, a + 1), (0, 3))
    x, y = 0, 3
    while x < 5:
        x, y = y, x + 1
    assert session.run([a, b]) == [x, y]


def test_no_iteration(session):
    x = tf.placeholder(tf.float32, [2])
    y = tf.while_loop(lambda x: tf.reduce_sum(x) < 0.0, lambda x: x * 2.0, [x])
    assert session.run(y, {x: [1.0, 2.0]}).tolist() == [1.0, 2.0]


def test_nested_structures(session):
    state = collections.namedtuple("state", "h c")

    def body(i, s, d):
        return i + 1, state(s.h + 1.0, [s.c[0] * 2]), {"b": d["b"] + i, "a": d["a"]}

    i, s, d = tf.while_loop(less(3), body, (0, state(1.0, [1]), {"a": 5, "b": 0}))
    assert isinstance(s, state)
    assert session.run([i, s.h, s.c[0], d["a"], d["b"]]) == [3, 4.0, 8, 5, 3]


def test_a_single_variable_that_is_a_structure(session):
    pair = tf.while_loop(lambda p: p[0] < 3, lambda p: [(p[0] + 1, p[1] * 2)], [(0, 1)])
    assert session.run(pair) == [(3, 8)]
    bare = tf.while_loop(lambda p: p[0] < 3, lambda p: (p[0] + 1, p[1] * 2), [(0, 1)])
    assert session.run(bare) == [(3, 8)]


def test_composites(session):
    slices = tf.IndexedSlices(tf.ones([2, 2]), tf.constant([0, 3]), tf.constant([4, 2]))
    _, found = tf.while_loop(
        less(3),
        lambda i, s: (i + 1, tf.IndexedSlices(s.values * 2.0, s.indices + 1, s.dense_shape)),
        [0, slices],
    )
    assert isinstance(found, tf.IndexedSlices)
    values, indices = session.run([found.values, found.indices])
    assert (values[0, 0], indices.tolist()) == (8.0, [3, 6])


def test_growing_sparse_tensors(session):
    def body(i, s):
        grown = tf.SparseTensor(
            tf.concat([s.indices, s.indices[-1:] + 1], 0), tf.concat([s.values, s.values[:1]], 0), s.dense_shape
        )
        return i + 1, grown

    first = tf.SparseTensor([[0]], [7.0], [9])
    _, found = tf.while_loop(less(3), body, [0, first], [tf.TensorShape([]), tf.TensorShape([None])])
    assert session.run(found).indices.tolist() == [[0], [1], [2], [3]]


def test_numbers_as_next_values(session):
    i, x = tf.while_loop(less(2), lambda i, x: (i + 1, 7), (0, tf.constant(0.5)))
    assert session.run([i, x]) == [2, 7.0]


def test_strings(session):
    _, s = tf.while_loop(less(3), lambda i, s: (i + 1, tf.string_join([s, "a"])), (0, tf.constant("")))
    assert session.run(s) == b"aaa"


def test_variables_of_the_program(session):
    v, r = tf.Variable(2.0), tf.Variable(3.0, use_resource=True)
    _, a, b = tf.while_loop(less(3), lambda i, a, b: (i + 1, a * v, b + r), (0, v, r))
    session.run(tf.global_variables_initializer())
    assert session.run([a, b]) == [16.0, 12.0]


# ----------------------------------------------------------------------------------------------------------- invariants
def test_shapes_that_grow(session):
    def body(i, x):
        return i + 1, tf.concat([x, [tf.to_float(i)]], 0)

    n = tf.placeholder(tf.int32, [])
    invariants = [tf.TensorShape([]), tf.TensorShape([None])]
    _, x = tf.while_loop(lambda i, x: i < n, body, [0, tf.zeros([1])], invariants)
    assert x.shape.as_list() == [None]
    assert session.run(x, {n: 3}).tolist() == [0.0, 0.0, 1.0, 2.0]
    assert session.run(x, {n: 5}).shape == (6,)
    assert session.run(x, {n: 0}).tolist() == [0.0]


def test_invariants_that_say_less(session):
    x = tf.placeholder(tf.float32, [2, 3])
    y = tf.while_loop(lambda x: tf.reduce_sum(x) < 10.0, lambda x: x * 2.0, [x], [tf.TensorShape([None, 3])])
    assert y.shape.as_list() == [None, 3]
    assert session.run(y, {x: np.ones((2, 3))})[0, 0] == 2.0


# -------------------------------------------------------------------------------------------------------------- limits
@pytest.mark.parametrize("limit", [3, np.int64(3), "tensor"])
def test_maximum_iterations(session, limit):
    limit = tf.constant(3, tf.int64) if limit == "tensor" else limit
    i, x = tf.while_loop(lambda i, x: i < 100, lambda i, x: (i + 1, x * 2), (0, 1), maximum_iterations=limit)
    fewer = tf.while_loop(lambda i: i < 2, lambda i: i + 1, [0], maximum_iterations=limit)
    assert session.run([i, x, fewer]) == [3, 8, 2]


def test_a_limit_that_is_fed(session):
    n = tf.placeholder(tf.int32, [])
    i = tf.while_loop(lambda i: i < 100, lambda i: i + 1, [0], maximum_iterations=n)
    assert [session.run(i, {n: value}) for value in (0, 7, 200)] == [0, 7, 100]


def test_many_iterations(session):
    i, x = tf.while_loop(lambda i, x: i < 1000, lambda i, x: (i + 1, x + i), (0, 0))
    assert session.run([i, x]) == [1000, 499500]


# ------------------------------------------------------------------------------------------------------------- effects
def test_effects_happen_in_each_iteration(session):
    v, log = tf.Variable(1.0), tf.Variable(tf.zeros([4]))

    def body(i):
        with tf.control_dependencies([tf.scatter_update(log, i, v)]), tf.control_dependencies([tf.assign(v, v * 2.0)]):
            return i + 1

    i = tf.while_loop(lambda i: i < 4, body, [0])
    session.run(tf.global_variables_initializer())
    assert session.run(i) == 4
    values = session.run([v, log])
    assert values[0] == 16.0


def test_a_variable_is_read_again_in_each_iteration(session):
    v = tf.Variable(1.0, use_resource=True)

    def body(i, total):
        with tf.control_dependencies([v.assign_add(1.0)]):
            return i + 1, total + v.read_value()

    _, total = tf.while_loop(less(3), body, (0, 0.0))
    session.run(v.initializer)
    assert session.run(total) == 2.0 + 3.0 + 4.0
    assert session.run(v) == 4.0


def test_a_failed_iteration_leaves_no_trace(session):
    v = tf.Variable(0)

    def body(i):
        with tf.control_dependencies([tf.assign_add(v, 1)]), tf.control_dependencies([tf.Assert(i < 3, ["i is", i])]):
            return tf.identity(i + 1)

    i = tf.while_loop(lambda i: i < 10, body, [0])
    session.run(v.initializer)
    with pytest.raises(tf.errors.InvalidArgumentError, match="i is"):
        session.run(i)
    assert session.run(v) == 0


def test_the_condition_is_checked_before_each_iteration(session):
    x = tf.placeholder(tf.float32, [])
    y = tf.while_loop(lambda y: tf.abs(y * y - x) > 1e-3, lambda y: 0.5 * (y + x / y), [x])
    assert abs(session.run(y, {x: 2.0}) - 2**0.5) < 1e-3


def test_loops_within_loops(session):
    def outer(i, total):
        n = i + 1
        _, inner = tf.while_loop(lambda j, t: j < n, lambda j, t: (j + 1, t + i * j), (0, total))
        return i + 1, inner

    _, total = tf.while_loop(less(5), outer, (0, 0))
    assert session.run(total) == sum(i * j for i in range(5) for j in range(i + 1))


def test_conditionals_within_loops(session):
    x = tf.placeholder(tf.int32, [])

    def body(i, x):
        return i + 1, tf.cond(tf.equal(x % 2, 0), lambda: x // 2, lambda: 3 * x + 1)

    steps, _ = tf.while_loop(lambda i, x: x > 1, body, (0, x))
    assert session.run(steps, {x: 27}) == 111


def test_variables_made_inside_are_made_outside(session):
    def body(i, x):
        w = tf.get_variable("w", [], initializer=tf.constant_initializer(3.0), use_resource=True)
        return i + 1, x * w

    _, x = tf.while_loop(less(2), body, (0, 1.0))
    (w,) = tf.trainable_variables()
    assert (w.name, w.op.body.is_root) == ("w:0", True)
    session.run(w.initializer)
    assert session.run(x) == 9.0


def test_random_numbers_differ_between_iterations(session):
    def body(i, xs):
        return i + 1, tf.concat([xs, tf.random_uniform([1])], 0)

    shapes = [tf.TensorShape([]), tf.TensorShape([None])]
    _, xs = tf.while_loop(lambda i, xs: i < 4, body, (0, tf.zeros([0])), shapes)
    assert len(set(session.run(xs).tolist())) == 4


def test_names_and_devices(session):
    with tf.device("/cpu:0"):
        i = tf.while_loop(lambda i: i < 3, lambda i: tf.add(i, 1, name="next"), [0])
    j = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0], name="count")
    assert (i.op.name, j.op.name) == ("while/Exit", "count/Exit")
    inner = tf.get_default_graph().get_operation_by_name("while/next")
    assert inner.device == "/device:CPU:0"
    with pytest.raises(ValueError, match="while/next"):
        session.run(inner.outputs[0])


def test_options_are_kept(session):
    i = tf.while_loop(lambda i: i < 3, lambda i: i + 1, [0], parallel_iterations=1, back_prop=False, swap_memory=True)
    assert i.op.inputs[0].op.get_attr("parallel_iterations") == 1
    assert session.run(i) == 3


# ------------------------------------------------------------------------------------------------------------- refusals
def body_of_two(i, x):
    return i + 1, x


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "no function for cond": (lambda: tf.while_loop(1, body_of_two, (0, 1)), TypeError, "cond must be callable"),
    "no function for body": (lambda: tf.while_loop(less(3), 1, (0, 1)), TypeError, "body must be callable"),
    "no variables": (lambda: tf.while_loop(less(3), body_of_two, []), ValueError, "No loop variables provided"),
    "no parallel iterations": (
        lambda: tf.while_loop(less(3), body_of_two, (0, 1), parallel_iterations=0),
        TypeError,
        "parallel_iterations must be a positive integer",
    ),
    "too few values": (
        lambda: tf.while_loop(less(3), lambda i, x: i + 1, (0, 1)),
        ValueError,
        r"Number of inputs and outputs of body must match loop_vars: 1, 2",
    ),
    "another structure": (
        lambda: tf.while_loop(lambda x: True, lambda x: [[x[0], x[0]]], [{"a": 0, "b": 1}]),
        (ValueError, KeyError),
        "same nested structure|0",
    ),
    "other types of structures": (
        lambda: tf.while_loop(less(3), lambda i, x: (i + 1, [x[0], x[1]]), (0, (1, 2))),
        TypeError,
        "same nested structure",
    ),
    "another dtype": (
        lambda: tf.while_loop(less(3), lambda i, x: (i + 1, tf.to_double(x)), (0, 1.0)),
        TypeError,
        "enters the loop with type float32 but has type float64 after 1 iteration",
    ),
    "another shape": (
        lambda: tf.while_loop(less(3), lambda i, x: (i + 1, tf.concat([x, x], 0)), (0, tf.zeros([2]))),
        ValueError,
        r"enters the loop with shape \(2,\), but has shape \(4,\) after one iteration",
    ),
    "an unknown shape": (
        lambda: tf.while_loop(less(3), lambda i, x: (i + 1, tf.placeholder(tf.float32)), (0, tf.zeros([2]))),
        ValueError,
        "use the `shape_invariants` argument",
    ),
    "None": (lambda: tf.while_loop(less(3), lambda i, x: (i + 1, None), (0, 1)), ValueError, "None values not"),
    "a condition of numbers": (
        lambda: tf.while_loop(lambda i: i, lambda i: i, [0]), TypeError, "dtype int32(.|\n)*boolean scalar"
    ),
    "a condition of vectors": (
        lambda: tf.while_loop(lambda i: [i < 1, i < 2], lambda i: i, [0]), TypeError, "boolean scalar"
    ),
    "an invariant that does not fit": (
        lambda: tf.while_loop(less(3), body_of_two, (0, tf.zeros([2])), [tf.TensorShape([]), tf.TensorShape([3])]),
        ValueError,
        r"It enters the loop with shape \(2,\), but the specified shape invariant is \(3,\)",
    ),
    "too few invariants": (
        lambda: tf.while_loop(less(3), body_of_two, (0, 1), [tf.TensorShape([])]), ValueError, "like loop_vars"
    ),
    "an invariant that is not a shape": (
        lambda: tf.while_loop(less(3), body_of_two, (0, 1), [tf.TensorShape([]), 3]), TypeError, "must be TensorShape"
    ),
    "a limit that is not a scalar": (
        lambda: tf.while_loop(less(3), body_of_two, (0, 1), maximum_iterations=[1, 2]),
        ValueError,
        "maximum_iterations must be a scalar",
    ),
    "a limit that is not an integer": (
        lambda: tf.while_loop(less(3), body_of_two, (0, 1), maximum_iterations=1.5), TypeError, "of dtype float32"
    ),
    "slices for a tensor": (
        lambda: tf.while_loop(
            less(3), lambda i, x: (i + 1, tf.IndexedSlices(x, tf.constant([0]))), (0, tf.zeros([1]))
        ),
        TypeError,
        "IndexedSlices of 2 tensors",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refusals(name):
    call, kind, text = REFUSED[name]
    with tf.Graph().as_default(), pytest.raises(kind, match=text):
        call()


def test_errors_show_body_and_call():
    def widening(i, x):
        return i + 1, tf.concat([x, x], 0)

    with tf.Graph().as_default(), pytest.raises(ValueError, match="after one iteration") as caught:
        tf.while_loop(less(3), widening, (0, tf.zeros([2])))
    told = str(caught.value)
    line = widening.__code__.co_firstlineno
    assert f'test_while_loop.py", line {line})' in told
    assert f"line {line + 4}" in told
    assert all(part in told for part in ("Given: ", "Expected: ", "Instead: "))


def test_a_value_of_the_body_used_outside():
    inner = []

    def body(i):
        inner.append(i * 2)
        return i + 1

    with tf.Graph().as_default():
        tf.while_loop(lambda i: i < 3, body, [0])
        with pytest.raises(
            ValueError, match=r"of the nested body 'while/while_body'(.|\n)*return the tensor"
        ) as caught:
            tf.identity(inner[0])
    assert f"line {body.__code__.co_firstlineno + 1}" in str(caught.value)
    with tf.Graph().as_default():
        inner.clear()
        tf.while_loop(lambda i: i < 3, body, [0])
        with pytest.raises(ValueError, match="depend on what the loop returns"), tf.control_dependencies(inner):
            tf.no_op()


def test_the_old_form(session):
    i, x = tf.control_flow_ops.While(
        lambda i, x: i < 3, lambda i, x: (i + 1, tf.concat([x, x], 0)), [0, tf.ones([1])], 1
    )
    assert x.shape.ndims is None
    assert [value.tolist() for value in session.run([i, x])] == [3, [1.0] * 8]


def test_the_invariant_of_a_sparse_tensor_is_the_shape_of_its_shape(session):
    sparse = tf.SparseTensor([[0, 0]], [1.0], [1, 3])

    def loop(invariant):
        return tf.while_loop(
            lambda i, _: i < 3,
            lambda i, s: (i + 1, tf.sparse_concat(0, [s, sparse])),
            [tf.constant(0), sparse],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape(invariant)],
        )[1]

    assert session.run(loop([2])).dense_shape.tolist() == [4, 3]
    assert session.run(loop([None])).dense_shape.tolist() == [4, 3]
    with pytest.raises(ValueError, match=r"Expected a shape with 1 dimension(.|\n)*Instead: tf.TensorShape\(\[2\]\)"):
        loop([None, None])


def test_a_condition_that_is_a_vector():
    with pytest.raises(ValueError, match=r"shape \(2,\)(.|\n)*a boolean scalar"):
        tf.while_loop(lambda i: i < [3, 4], lambda i: i + 1, [tf.constant([0, 0])])
