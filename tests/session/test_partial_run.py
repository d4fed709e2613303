"""Steps that run in parts: feeds given piece by piece, each operation run once, each value fetched once."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=request.param)) as session:
        yield session


@pytest.fixture
def sums(session):
    a, b, c = (tf.placeholder(tf.float32, [], name=name) for name in "abc")
    first = a + b
    return a, b, c, first, first * c


def test_parts(session, sums):
    a, b, c, first, second = sums
    handle = session.partial_run_setup([first, second], [a, b, c])
    result = session.partial_run(handle, first, {a: 1, b: 2})
    assert result == 3
    assert session.partial_run(handle, {"x": [second]}, {c: 17 * result}) == {"x": [153]}
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Must run 'setup' before performing partial runs!$"):
        session.partial_run(handle, second)


def test_feeds_ahead_of_fetches(session, sums):
    a, b, c, first, second = sums
    handle = session.partial_run_setup([first, second], [a, b, c])
    assert session.partial_run(handle, [], {a: 3}) == []
    assert session.partial_run(handle, [first], {b: 4, c: 2}) == [7]
    assert session.partial_run(handle, [second]) == [14]


def test_a_tensor_inside_is_fed(session, sums):
    c, first, second = sums[2:]
    handle = session.partial_run_setup([second], [first, c])
    assert session.partial_run(handle, [], {first: 5}) == []
    assert session.partial_run(handle, second, {c: 2}) == 10


def test_runs_at_the_same_time(session, sums):
    a, b, c, first, second = sums
    handles = [session.partial_run_setup([first, second], [a, b, c]) for _ in range(5)]
    assert [session.partial_run(h, first, {a: k, b: 1}) for k, h in enumerate(handles)] == [1, 2, 3, 4, 5]
    assert [session.partial_run(h, second, {c: 10}) for h in handles] == [10, 20, 30, 40, 50]


def test_each_operation_runs_once(session):
    calls = []

    def count(x):
        calls.append(float(x))
        return np.float32(len(calls))

    x, y = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    counted = tf.py_func(count, [x], tf.float32)
    counted.set_shape([])
    drawn = tf.random_normal([3])
    v = tf.Variable(10.0)
    added = tf.assign_add(v, counted)
    with tf.control_dependencies([added, counted]):
        last = y + counted + tf.identity(v)
    session.run(tf.global_variables_initializer())
    handle = session.partial_run_setup([drawn, drawn + y, last, added.op], [x, y])
    numbers = session.partial_run(handle, drawn, {x: 7})
    assert session.run(v) == 11
    assert session.partial_run(handle, added.op) is None
    later, total = session.partial_run(handle, [handle_fetch(session, drawn, y), last], {y: 100})
    np.testing.assert_allclose(later, numbers + 100, 1e-6)
    assert total == 100 + 1 + 11
    assert calls == [7]
    assert session.run(v) == 11


def handle_fetch(session, drawn, y):
    """The sum of both, as the test built it."""
    return next(
        op.outputs[0]
        for op in session.graph.get_operations()
        if op.type == "AddV2" and {tensor.name for tensor in op.inputs} == {drawn.name, y.name}
    )


@pytest.mark.parametrize("use_resource", [False, True])
def test_variables_between_parts(session, use_resource):
    x, y = tf.placeholder(tf.float32, [], name="x"), tf.placeholder(tf.float32, [], name="y")
    v = tf.get_variable("v", initializer=1.0, use_resource=use_resource)
    session.run(v.initializer)
    step = tf.assign(v, x)
    with tf.control_dependencies([step]):
        after = tf.assign_add(v, y) * 2.0
    handle = session.partial_run_setup([step, after], [x, y])
    assert session.partial_run(handle, step, {x: 5}) == 5
    assert session.run(v) == 5
    assert session.partial_run(handle, after, {y: 1}) == 12
    assert session.run(v) == 6


def test_what_is_refused(session, sums):
    a, b, c, first, second = sums
    handle = session.partial_run_setup([first, second], [a, b, c])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"can't be computed from the feeds .* fed so far\.$"):
        session.partial_run(handle, second, {a: 1, b: 2})
    assert session.partial_run(handle, first, {a: 1, b: 2}) == 3  # what was refused fed nothing
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"The feed a:0 has already been fed\.$"):
        session.partial_run(handle, second, {a: 1, c: 2})
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"The fetch {first.name} has already been fetched\.$"):
        session.partial_run(handle, first)
    other = session.partial_run_setup([first], [a, b])
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"The feed c:0 was not specified in partial_run_setup\.$"):
        session.partial_run(other, first, {a: 1, b: 2, c: 3})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"The fetch .* was not specified in partial_run_setup\.$"):
        session.partial_run(other, second)
    with pytest.raises(tf.errors.InvalidArgumentError, match="specify at least one target to fetch or execute"):
        session.partial_run_setup([], [a])
    with pytest.raises(TypeError, match="Cannot interpret feed key as Tensor"):
        session.partial_run_setup([first], [3])
    hidden = tf.constant(1.0)
    session.graph.prevent_feeding(hidden)
    with pytest.raises(ValueError, match="may not be fed"):
        session.partial_run_setup([hidden], [hidden])
    missing = session.partial_run_setup([a * 2, a * 3], [])
    with pytest.raises(tf.errors.InvalidArgumentError, match="You must feed a value for placeholder"):
        session.partial_run(missing, session.graph.get_tensor_by_name("mul_1:0"))
    session.close()
    with pytest.raises(RuntimeError, match="closed Session"):
        session.partial_run(handle, second, {c: 2})
    with pytest.raises(RuntimeError, match="closed Session"):
        session.partial_run_setup([first])


def test_sparse_feeds(session):
    sparse = tf.sparse_placeholder(tf.float32, [2, 2])
    dense = tf.sparse_tensor_to_dense(sparse)
    handle = session.partial_run_setup([dense], [sparse])
    value = tf.SparseTensorValue([[0, 1]], [3.0], [2, 2])
    assert session.partial_run(handle, dense, {sparse: value}).tolist() == [[0, 3], [0, 0]]
