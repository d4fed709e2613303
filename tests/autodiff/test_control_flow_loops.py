"""Gradients of loops: values in both tiers, what is kept for them, and what is not."""

from __future__ import annotations

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


@pytest.fixture
def g():
    graph = tf.Graph()
    with graph.as_default():
        yield graph
        verify_graph(graph)


def kept(graph):
    """What loops keep for their gradients: the tensors that are pushed to lists."""
    pushes = [op for op in graph.get_operations() if op.type == "TensorListPushBack"]
    return [op.inputs[1].op.type for op in pushes if "/kept/" in op.name]


def numeric(f, x, step=1e-5):
    """Central differences of a function of a float64 vector whose value is summed."""
    found = np.zeros_like(x)
    for i in range(x.size):
        moved = np.zeros_like(x)
        moved.flat[i] = step
        found.flat[i] = (np.sum(f(x + moved)) - np.sum(f(x - moved))) / (2 * step)
    return found


def repeat(n, step, x):
    """``step`` applied n times to x, in a loop."""
    return tf.while_loop(lambda i, y: i < n, lambda i, y: (i + 1, step(y)), (0, x))[1]


# -------------------------------------------------------------------------------------------------------------- values
def test_powers(session):
    x, w = tf.placeholder(tf.float64, []), tf.placeholder(tf.float64, [])
    y = repeat(4, lambda y: y * w, x)
    dx, dw = tf.gradients(y, [x, w])
    (dww,) = tf.gradients(dw, w)
    (dwww,) = tf.gradients(dww, w)
    assert session.run([y, dx, dw, dww, dwww], {x: 3.0, w: 2.0}) == [48.0, 16.0, 96.0, 144.0, 144.0]


def test_a_trip_count_that_is_fed(session):
    n = tf.placeholder(tf.int32, [])
    x = tf.placeholder(tf.float64, [2])
    y = repeat(n, tf.sin, x)
    (dx,) = tf.gradients(y, x)
    given = np.array([0.5, 1.5])
    for count in (0, 1, 5, 3):

        def loop(a, count=count):
            for _ in range(count):
                a = np.sin(a)
            return a

        np.testing.assert_allclose(session.run(dx, {x: given, n: count}), numeric(loop, given), rtol=1e-6)


def test_a_trip_count_that_depends_on_the_data(session):
    x = tf.placeholder(tf.float64, [])
    y = tf.while_loop(lambda y: y < 100.0, lambda y: y * y, [x])
    (dx,) = tf.gradients(y, x)
    assert session.run([y, dx], {x: 2.0}) == [256.0, 8 * 2.0**7]
    assert session.run([y, dx], {x: 200.0}) == [200.0, 1.0]


@pytest.mark.parametrize("limit", [3, 10])
def test_a_limit(session, limit):
    x = tf.placeholder(tf.float64, [])
    _, y = tf.while_loop(lambda i, y: i < 5, lambda i, y: (i + 1, y * x), (0, x), maximum_iterations=limit)
    (dx,) = tf.gradients(y, x)
    n = min(limit, 5) + 1
    assert session.run([y, dx], {x: 2.0}) == [2.0**n, n * 2.0 ** (n - 1)]


def test_several_variables(session):
    x = tf.placeholder(tf.float64, [2])

    def f(module, a):
        b = a * 2.0
        for k in range(3):
            a, b = b * module.sin(a), a + b * (k + 1.0)
        return a, b

    def body(k, a, b):
        return k + 1, b * tf.sin(a), a + b * (tf.to_double(k) + 1.0)

    _, a, b = tf.while_loop(lambda k, a, b: k < 3, body, (0, x, x * 2.0))
    given = np.array([0.3, 0.8])
    for ys, pick in (([a], 0), ([b], 1)):
        (dx,) = tf.gradients(ys, x)
        np.testing.assert_allclose(
            session.run(dx, {x: given}), numeric(lambda a, pick=pick: f(np, a)[pick], given), rtol=1e-6
        )


def test_shapes_that_grow(session):
    x = tf.placeholder(tf.float64, [2])
    invariants = [tf.TensorShape([]), tf.TensorShape([None])]
    _, y = tf.while_loop(
        lambda i, y: i < 2, lambda i, y: (i + 1, tf.concat([y * y, y[:1]], 0)), (0, x), shape_invariants=invariants
    )
    (dx,) = tf.gradients(y, x)

    def loop(a):
        for _ in range(2):
            a = np.concatenate([a * a, a[:1]])
        return a

    given = np.array([0.5, 2.0])
    np.testing.assert_allclose(session.run(dx, {x: given}), numeric(loop, given), rtol=1e-6)


def test_matrices(session):
    random = np.random.RandomState(0)
    w = tf.Variable(random.uniform(-1, 1, (3, 3)), use_resource=True)
    u = tf.Variable(random.uniform(-1, 1, (4, 3)))
    inputs = tf.placeholder(tf.float64, [5, 2, 4])
    h = tf.while_loop(
        lambda t, h: t < 5,
        lambda t, h: (t + 1, tf.tanh(tf.matmul(inputs[t], u) + tf.matmul(h, w))),
        (0, tf.zeros([2, 3], tf.float64)),
    )[1]
    dw, du, dx = tf.gradients(h, [w, u, inputs])
    session.run(tf.global_variables_initializer())
    xs = random.uniform(-1, 1, (5, 2, 4))
    w0, u0 = session.run([w, u])

    def loop(w, u, xs):
        h = np.zeros((2, 3))
        for t in range(5):
            h = np.tanh(xs[t] @ u + h @ w)
        return h

    found = session.run([dw, du, dx], {inputs: xs})
    np.testing.assert_allclose(found[0], numeric(lambda w: loop(w, u0, xs), w0), rtol=1e-6)
    np.testing.assert_allclose(found[1], numeric(lambda u: loop(w0, u, xs), u0), rtol=1e-6)
    np.testing.assert_allclose(found[2], numeric(lambda xs: loop(w0, u0, xs), xs), rtol=1e-6)


@pytest.mark.parametrize("resource", [False, True])
def test_rows_of_a_table(session, resource):
    table = tf.get_variable("t", [5, 2], tf.float64, tf.ones_initializer(), use_resource=resource)
    _, y = tf.while_loop(
        lambda i, y: i < 4, lambda i, y: (i + 1, y + tf.gather(table, [i, 2]) * 3.0), (0, tf.zeros([2, 2], tf.float64))
    )
    (dt,) = tf.gradients(y, table)
    assert isinstance(dt, tf.IndexedSlices)
    session.run(tf.global_variables_initializer())
    assert session.run(tf.convert_to_tensor(dt))[:, 0].tolist() == [3.0, 3.0, 15.0, 3.0, 0.0]


@pytest.mark.parametrize("shape", [[None], None])
def test_loops_in_loops_whose_sizes_are_not_known(session, shape):
    """What the inner loop keeps is a list in a list of the outer one, shapes among it."""
    x = tf.placeholder(tf.float64, shape)

    def body(i, y):
        inner = tf.while_loop(lambda j, y: j <= i, lambda j, y: (j + 1, y * 1.1 + tf.sin(y) * x), (0, y))
        return i + 1, inner[1] * 1.01

    _, y = tf.while_loop(lambda i, y: i < 3, body, (0, x))
    (dx,) = tf.gradients(y, x)

    def loop(a):
        y = a
        for i in range(3):
            for _ in range(i + 1):
                y = y * 1.1 + np.sin(y) * a
            y = y * 1.01
        return y

    given = np.array([0.5, 0.2])
    np.testing.assert_allclose(session.run(dx, {x: given}), numeric(loop, given), rtol=1e-6)


def test_conditionals_in_loops(session):
    x = tf.placeholder(tf.float64, [None])

    def body(i, y):
        return i + 1, tf.cond(tf.equal(i % 2, 0), lambda: tf.sin(y) * x, lambda: tf.exp(-y))

    _, y = tf.while_loop(lambda i, y: i < 5, body, (0, x))
    (dx,) = tf.gradients(y, x)
    (ddx,) = tf.gradients(dx, x)

    def loop(a):
        y = a
        for i in range(5):
            y = np.exp(-y) if i % 2 else np.sin(y) * a
        return y

    given = np.array([0.3, 0.9, 1.4])
    np.testing.assert_allclose(session.run(dx, {x: given}), numeric(loop, given), rtol=1e-6)
    np.testing.assert_allclose(
        session.run(ddx, {x: given}), numeric(lambda a: numeric(loop, a, 1e-4), given, 1e-4), rtol=1e-3
    )


def test_loops_in_conditionals(session):
    x, p = tf.placeholder(tf.float64, []), tf.placeholder(tf.bool, [])
    y = tf.cond(p, lambda: repeat(3, lambda y: y * x, x), lambda: x * 5.0)
    (dx,) = tf.gradients(y, x)
    assert session.run(dx, {x: 2.0, p: True}) == 32.0
    assert session.run(dx, {x: 2.0, p: False}) == 5.0


def test_loops_in_loops(session):
    x = tf.placeholder(tf.float64, [])

    def outer(i, y):
        n = i + 1
        return n, tf.while_loop(lambda j, y: j < n, lambda j, y: (j + 1, tf.sin(y) * x), (0, y))[1]

    _, y = tf.while_loop(lambda i, y: i < 3, outer, (0, x))
    (dx,) = tf.gradients(y, x)
    (ddx,) = tf.gradients(dx, x)

    def loop(a):
        y = a
        for i in range(3):
            for _ in range(i + 1):
                y = np.sin(y) * a
        return y

    given = np.array([1.3])
    np.testing.assert_allclose(session.run(dx, {x: 1.3}), numeric(loop, given)[0], rtol=1e-6)
    np.testing.assert_allclose(
        session.run(ddx, {x: 1.3}), numeric(lambda a: numeric(loop, a, 1e-4), given, 1e-4)[0], rtol=1e-4
    )


def test_gradients_inside_of_a_loop(session):
    """Gradient descent in a loop, and its own gradient."""
    x = tf.placeholder(tf.float64, [])

    def step(y):
        (slope,) = tf.gradients(tf.square(y - x) * x, y)
        return y - 0.1 * slope

    y = repeat(3, step, tf.constant(0.0, tf.float64))
    (dx,) = tf.gradients(y, x)

    def loop(a):
        y = 0.0
        for _ in range(3):
            y = y - 0.2 * a * (y - a)
        return y

    given = np.array([1.5])
    np.testing.assert_allclose(session.run(y, {x: 1.5}), loop(given)[0])
    np.testing.assert_allclose(session.run(dx, {x: 1.5}), numeric(loop, given)[0], rtol=1e-6)


def test_random_values_are_those_of_the_forward_pass(session):
    x = tf.constant(np.ones(3))

    def step(y):
        return y * tf.random_uniform([3], 0.5, 1.5, dtype=tf.float64)

    y = repeat(4, step, x)
    (dx,) = tf.gradients(y, x)
    values = session.run([y, dx])
    np.testing.assert_allclose(*values)  # y is linear in x = 1


def test_effects_are_not_repeated(session):
    v = tf.Variable(1.0, dtype=tf.float64, use_resource=True)
    x = tf.constant(2.0, tf.float64)

    def body(i, y):
        with tf.control_dependencies([v.assign_add(1.0)]):
            return i + 1, y * v.read_value()

    _, y = tf.while_loop(lambda i, y: i < 3, body, (0, x))
    (dx,) = tf.gradients(y, x)
    session.run(v.initializer)
    assert session.run([y, dx]) == [48.0, 24.0]
    assert session.run(v) == 4.0


def test_train_a_variable_through_a_loop(session):
    v = tf.Variable(1.5)
    y = repeat(3, lambda y: y * v, tf.constant(1.0))
    train = tf.train.GradientDescentOptimizer(0.002).minimize(tf.square(y - 8.0))
    session.run(tf.global_variables_initializer())
    for _ in range(100):
        session.run(train)
    np.testing.assert_allclose(session.run(v), 2.0, rtol=1e-3)


# --------------------------------------------------------------------------------------------------- where it ends
def test_without_gradient(g):
    x = tf.constant(2.0)
    _, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y * x), (0, x), back_prop=False)
    assert tf.gradients(y, x) == [None]
    assert tf.gradients(y, x, unconnected_gradients="zero")[0].op.type == "ZerosLike"
    assert not kept(g)


def test_what_does_not_depend(g):
    x = tf.constant(2.0)
    i, y = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, tf.stop_gradient(y * x)), (0, tf.constant(1.0)))
    assert tf.gradients(y, x) == [None]
    assert tf.gradients(tf.to_float(i), x) == [None]
    assert not kept(g)


def test_stopping(session):
    x = tf.constant(2.0)
    z = tf.identity(x)
    y = repeat(2, lambda y: y * z, x)
    assert session.run(tf.gradients(y, x)) == [12.0]
    assert session.run(tf.gradients(y, x, stop_gradients=[z])) == [4.0]


def test_override_inside_of_a_loop(session):
    if not REGISTERED:
        REGISTERED.append("ThreeTimes")
        tf.RegisterGradient("ThreeTimes")(lambda op, grad: grad * 3.0)
    x = tf.constant(2.0)

    def step(y):
        with tf.get_default_graph().gradient_override_map({"Identity": "ThreeTimes"}):
            return tf.identity(y)

    assert session.run(tf.gradients(repeat(2, step, x), x)) == [9.0]


REGISTERED: list[str] = []


def test_initial_gradients(session):
    x = tf.constant([1.0, 2.0])
    _, y = tf.while_loop(lambda i, y: i < 2, lambda i, y: (i + 1, y * y), (0, x))
    (dx,) = tf.gradients(y, x, grad_ys=[tf.constant([1.0, 10.0])])
    assert session.run(dx).tolist() == [4.0, 320.0]


# -------------------------------------------------------------------------------------------------------- what is kept
KEPT: dict[str, tuple[Any, list[str]]] = {
    "a sum": (lambda y, x, i: y + x, []),
    "a linear map by a constant": (lambda y, x, i: y * 3.0, []),
    "a linear map by a value from outside": (lambda y, x, i: y * tf.stop_gradient(x), []),
    "a product": (lambda y, x, i: y * x, ["_Arg"]),
    "a sine": (lambda y, x, i: tf.sin(y), ["_Arg"]),
    "an exponential": (lambda y, x, i: tf.exp(-y) + 1.0, ["Exp"]),
    "a chain": (lambda y, x, i: tf.tanh(tf.exp(y * 2.0) + 1.0) - y, ["Exp", "Tanh"]),
    "what follows from outside alone": (lambda y, x, i: y + tf.sin(x * x) * 2.0, []),
    "what follows from the count": (lambda y, x, i: y * tf.sqrt(tf.to_float(i) + 1.0), []),
    "a row by the count": (lambda y, x, i: y * 2.0 + tf.gather(x, i % 3), []),
    "a product with a row by the count": (lambda y, x, i: y * tf.stop_gradient(tf.gather(x, i % 3)), []),
    "a value that is not needed": (lambda y, x, i: tf.where(y > 0.0, y, -y), ["Greater"]),
}


@pytest.mark.parametrize("name", KEPT)
def test_only_what_the_backward_pass_reads_is_kept(g, name):
    step, wanted = KEPT[name]
    x = tf.placeholder(tf.float32, [3])
    _, y = tf.while_loop(lambda i, y: i < 4, lambda i, y: (i + 1, step(y, x, i)), (0, tf.zeros([3]) + x))
    (dx,) = tf.gradients(y, x)
    assert sorted(kept(g)) == sorted(wanted)
    count = len(g.get_operation_by_name("while").inputs)
    tf.gradients(y, x)  # a second gradient reads what the first one kept
    assert len(g.get_operation_by_name("while").inputs) == count
    with tf.Session() as session:
        given = np.array([0.2, 0.5, 0.9], np.float32)
        found = session.run(dx, {x: given})
        moved = [session.run(y, {x: given + d}) for d in 1e-2 * np.eye(3, dtype=np.float32)]
        back = [session.run(y, {x: given - d}) for d in 1e-2 * np.eye(3, dtype=np.float32)]
    if "stop_gradient" not in name and name not in STOPPED:
        np.testing.assert_allclose(found, [np.sum(a - b) / 2e-2 for a, b in zip(moved, back, strict=True)], rtol=0.05)


STOPPED = ("a linear map by a value from outside", "a product with a row by the count")


def test_what_is_kept_does_not_grow_with_what_is_not_needed(g):
    """Work that the gradient does not read adds nothing to what is kept, however large."""
    x = tf.placeholder(tf.float32, [3])

    def body(i, y, unread):
        return i + 1, y * 2.0 + x, tf.reduce_sum(tf.exp(tf.ones([1000, 1000]) * unread))

    _, y, _ = tf.while_loop(lambda i, *_: i < 4, body, (0, x, tf.constant(0.0)))
    tf.gradients(y, x)
    assert kept(g) == []


def test_shapes_alone_are_kept_as_shapes(g):
    x = tf.placeholder(tf.float32, [None, 4])

    def body(i, y):
        return i + 1, tf.concat([y, tf.reduce_sum(y, 0, keepdims=True)], 0)

    shapes = [tf.TensorShape([]), tf.TensorShape([None, 4])]
    _, y = tf.while_loop(lambda i, y: i < 3, body, (0, x), shapes)
    (dx,) = tf.gradients(y, x)
    lists = [op for op in g.get_operations() if op.type == "TensorListPushBack"]
    assert lists
    assert all(op.inputs[1].dtype == tf.int32 for op in lists)
    with tf.Session() as session:
        assert session.run(dx, {x: np.ones((2, 4))})[:, 0].tolist() == [8.0, 8.0]


def test_iterations_are_counted_where_a_loop_does_not(g):
    """A loop from another program may lack a counter."""
    from anabranch.core.graph import body_ops
    from anabranch.core.graph.build import build, build_operation
    from anabranch.core.values import dtypes

    condition, body = g.new_body("c"), g.new_body("b")
    for part in (condition, body):
        with g.building(part):
            y = part.add_arg(dtypes.float32, (), "y")
            part.outputs = [build("Less", y, 50.0)] if part is condition else [y * y]
    op = build_operation("StatelessWhile", [[tf.constant(2.0)]], {"cond": condition, "body": body}, "loop")
    body_ops.own(op)
    (dx,) = tf.gradients(op.outputs[0], op.inputs[0])
    with tf.Session() as session:
        assert session.run([op.outputs[0], dx]) == [256.0, 8 * 2.0**7]


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("place", ["alone", "in a branch", "in a loop", "around a branch"])
def test_a_loop_that_reads_the_array_it_writes(place, tier):
    """Its list stays as long as it was, so that a program holds the gradient, too."""
    x, p = tf.placeholder(tf.float32, [3]), tf.placeholder(tf.bool, [])
    first = tf.TensorArray(tf.float32, 4, element_shape=[], clear_after_read=False).write(0, x[0])

    def step(i, array):
        value = array.read(i - 1) * x[1]
        if place == "around a branch":
            array = tf.cond(p, lambda: array.write(i, value), lambda: array.write(i, value + 1.0))
        else:
            array = array.write(i, value)
        return i + 1, array

    def powers():
        if place == "in a loop":
            return tf.while_loop(
                lambda k, array: k < 2,
                lambda k, array: (k + 1, tf.while_loop(lambda i, _: i < 4, step, (1, array))[1]),
                (0, first),
            )[1]
        return tf.while_loop(lambda i, _: i < 4, step, (1, first))[1]

    array = tf.cond(p, powers, lambda: first.write(1, x[2])) if place == "in a branch" else powers()
    y = array.stack()
    gradient = tf.gradients(y * [1.0, 2.0, 3.0, 4.0], x)[0]
    feeds = {x: [0.5, 1.5, 2.0], p: True}
    with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        found = session.run([y, gradient], feeds)
        np.testing.assert_allclose(found[0], [0.5, 0.75, 1.125, 1.6875])
        np.testing.assert_allclose(found[1], [24.25, 19.0, 0.0])
        if tier == "compiled":
            told = session.explain([y, gradient], feeds)
            assert "    host  " not in told
            assert "interpreted: " not in told


@pytest.mark.parametrize("cut", [tf.stop_gradient, tf.round], ids=["stop_gradient", "round"])
def test_a_variable_whose_gradient_is_cut_off_on_the_way_has_zeros(session, cut):
    """1.15.5 gives zeros where a variable reaches the loss at all, and None where it does not."""
    x, y, z = tf.constant(3.0), tf.placeholder(tf.float32, []), tf.constant(1.0)

    def body(x, y, z):
        square = cut(y * y)
        return x * x + square, square, z * z

    loss, _, _ = tf.while_loop(lambda x, *_: x < 100.0, body, [x, y, z])
    dy, dx, dz = tf.gradients(loss, [y, x, z])
    assert dz is None
    assert tf.gradients(loss, y)[0] is not None
    assert session.run([dy, dx], {y: 2.0}) == [0.0, 156.0]
