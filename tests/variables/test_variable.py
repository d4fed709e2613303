"""Variables in sessions: both forms, both tiers; and what they refuse."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

TIERS = ("interpreted", "compiled")


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as g:
        yield g


@pytest.fixture(params=[False, True], ids=["ref", "resource"])
def resource(request):
    return request.param


@pytest.fixture(params=TIERS)
def session(request, graph):
    with tf.Session(config=tf.SessionOptions(tier=request.param)) as s:
        yield s


def ready(session):
    session.run(tf.global_variables_initializer())


def test_values_and_writes(session, resource):
    v = tf.Variable([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]], name="v", use_resource=resource)
    ready(session)
    np.testing.assert_array_equal(session.run(v), [[1, 2], [3, 4], [5, 6]])
    np.testing.assert_array_equal(session.run(v.assign(tf.ones([3, 2]))), np.ones([3, 2]))
    np.testing.assert_array_equal(session.run(v.assign_add(np.full([3, 2], 2.0))), np.full([3, 2], 3.0))
    assert session.run(v.assign_sub(tf.ones([3, 2]), read_value=False)) is None
    np.testing.assert_array_equal(v.eval(session), np.full([3, 2], 2.0))
    np.testing.assert_array_equal(session.run(tf.scatter_update(v, [2, 0], [[7.0, 8.0], [9.0, 0.0]]))[2], [7, 8])
    np.testing.assert_array_equal(session.run(v), [[9, 0], [2, 2], [7, 8]])
    for function, wanted in (
        (tf.scatter_add, [4, 4]),
        (tf.scatter_sub, [2, 2]),
        (tf.scatter_mul, [4, 4]),
        (tf.scatter_div, [2, 2]),
        (tf.scatter_min, [2, 2]),
        (tf.scatter_max, [2, 2]),
    ):
        np.testing.assert_array_equal(session.run(function(v, [1], [[2.0, 2.0]]))[1], wanted)
    slices = tf.IndexedSlices(tf.constant([[1.0, 1.0]]), [0])
    for method, wanted in (("scatter_add", [10, 1]), ("scatter_sub", [9, 0]), ("scatter_update", [1, 1])):
        np.testing.assert_array_equal(session.run(getattr(v, method)(slices))[0], wanted)
    np.testing.assert_array_equal(session.run(v.scatter_nd_add([[1, 0]], [5.0]))[1], [7, 2])
    np.testing.assert_array_equal(session.run(tf.scatter_nd_sub(v, [[1, 0]], [5.0]))[1], [2, 2])
    np.testing.assert_array_equal(session.run(tf.scatter_nd_update(v, [[1]], [[5.0, 6.0]]))[1], [5, 6])
    np.testing.assert_array_equal(session.run(v[1:, 0].assign([0.0, 1.0])), [[1, 1], [0, 6], [1, 8]])
    np.testing.assert_array_equal(session.run(v[-1]), [1, 8])
    v.load(np.zeros([3, 2]), session)
    np.testing.assert_array_equal(session.run(v), np.zeros([3, 2]))


def test_batches_of_rows(session, resource):
    v = tf.Variable(tf.zeros([2, 3, 2]), use_resource=resource)
    update = tf.batch_scatter_update(v, [[0, 2], [1, 0]], np.arange(1.0, 9.0).reshape(2, 2, 2))
    ready(session)
    wanted = np.zeros([2, 3, 2])
    wanted[0, [0, 2]], wanted[1, [1, 0]] = [[1, 2], [3, 4]], [[5, 6], [7, 8]]
    np.testing.assert_array_equal(session.run(update), wanted)


def test_operators(session, resource):
    x = np.array([1.0, -2.0, 3.5], np.float32)
    v = tf.Variable(x, use_resource=resource)
    n = tf.Variable([7, -7, 2], use_resource=resource)
    p = tf.Variable([True, False], use_resource=resource)
    ready(session)
    found = session.run(
        [v + 1, 1 - v, v * v, 2 / v, -v, abs(v), v**2, n // 2, n % 3, v < 1, v >= 1, ~p, p & True, p | True, v[1:]]
    )
    wanted = [x + 1, 1 - x, x * x, 2 / x, -x, abs(x), x**2, [3, -4, 1], [1, 2, 2], x < 1, x >= 1]
    wanted += [[False, True], [True, False], [True, True], x[1:]]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-6)


@pytest.mark.parametrize("form", ["initialized_value", "value", "read_value"])
def test_initial_values_from_other_variables(session, resource, form):
    a = tf.Variable(tf.random_uniform([4]), name="a", use_resource=resource)
    b = tf.Variable(getattr(a, form)() * 2.0, name="b", use_resource=resource)
    c = tf.Variable(tf.add(b, 1.0), name="c", use_resource=resource)
    if resource and form != "initialized_value":
        # As in TensorFlow: a ReadVariableOp is a read at that place, which an initial value does not replace.
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value a"):
            ready(session)
        return
    if resource:
        session.run([a.initializer, b.initializer])
        session.run(c.initializer)
    else:
        ready(session)
    found = session.run([a, b, c])
    np.testing.assert_array_equal(found[1], found[0] * 2)
    np.testing.assert_array_equal(found[2], found[1] + 1)
    a.load(np.ones([4]), session)
    session.run(b.initializer)
    np.testing.assert_array_equal(session.run(b), np.full([4], 2.0))


def test_an_initialized_value_is_differentiated_as_the_value(session, resource):
    v = tf.Variable([1.0, 2.0], use_resource=resource)
    (slope,) = tf.gradients(tf.square(v.initialized_value()) + v, v)
    ready(session)
    assert session.run(slope).tolist() == [3.0, 5.0]


def test_reading_where_the_value_is_consumed(session, resource):
    v = tf.Variable(1.0, use_resource=resource)
    before = v + 0.0
    with tf.control_dependencies([v.assign(5.0)]):
        after = v + 0.0
    ready(session)
    assert session.run([after, v.read_value()])[0] == 5.0
    assert session.run(before) == 5.0


def test_reports(session, resource):
    a = tf.Variable(1.0, name="a", use_resource=resource)
    tf.Variable(1.0, name="b", use_resource=resource, collections=[tf.GraphKeys.LOCAL_VARIABLES])
    report, check, one = (
        tf.report_uninitialized_variables(),
        tf.assert_variables_initialized(),
        tf.is_variable_initialized(a),
    )
    assert session.run(report).tolist() == [b"a", b"b"]
    with pytest.raises(tf.errors.FailedPreconditionError, match="a"):
        session.run(check)
    assert not session.run(one)
    ready(session)
    assert session.run(report).tolist() == [b"b"]
    assert session.run(one)
    session.run(tf.local_variables_initializer())
    assert session.run(report).tolist() == []
    session.run(check)
    assert session.run(tf.report_uninitialized_variables([])).tolist() == []


def test_counting(session, resource):
    v = tf.Variable(0, use_resource=resource)
    count = tf.count_up_to(v, 2)
    ready(session)
    assert [session.run(count), session.run(count)] == [0, 1]
    with pytest.raises(tf.errors.OutOfRangeError, match="Reached limit of 2"):
        session.run(count)


def test_other_shapes(session):
    v = tf.Variable([1.0], validate_shape=False)
    r = tf.Variable([1.0], shape=tf.TensorShape([None]), use_resource=True)
    ready(session)
    assert session.run(tf.assign(v, [[1.0, 2.0]], validate_shape=False)).shape == (1, 2)
    assert session.run(tf.assign(r, [1.0, 2.0, 3.0], validate_shape=False)).shape == (3,)
    fixed = tf.Variable([1.0], use_resource=True)
    with pytest.raises(NotImplementedError, match="a variable made with room for other shapes"):
        tf.assign(fixed, [1.0, 2.0], validate_shape=False)


def test_partitioned_values(session, resource):
    w = tf.get_variable(
        "w",
        [5, 2],
        initializer=tf.ones_initializer(),
        partitioner=tf.fixed_size_partitioner(2),
        use_resource=resource,
    )
    product = tf.matmul(tf.ones([1, 5]), w)
    update = w.assign(np.arange(10.0).reshape(5, 2))
    ready(session)
    np.testing.assert_array_equal(session.run(product), [[5, 5]])
    session.run(update)
    np.testing.assert_array_equal(session.run(w.as_tensor()), np.arange(10.0).reshape(5, 2))
    np.testing.assert_array_equal(session.run(product), [[20, 25]])


def test_protos_lead_to_the_same_variable(session, resource):
    v = tf.Variable([1.0, 2.0], name="v", use_resource=resource, trainable=False)
    v._set_save_slice_info(tf.Variable.SaveSliceInfo("whole", [4], [2], [2]))
    again = tf.Variable.from_proto(v.to_proto())
    assert type(again) is type(v)
    assert (again.name, again.trainable, again.dtype, again.shape.as_list()) == (v.name, False, v.dtype, [2])
    assert again._get_save_slice_info().spec == "4 2,2"
    session.run(again.initializer)
    np.testing.assert_array_equal(session.run(v), [1, 2])
    np.testing.assert_array_equal(session.run(again.assign_add([1.0, 1.0])), [2, 3])


def test_protos_of_resource_variables_without_the_name_of_a_read(session):
    v = tf.Variable([1.0, 2.0], name="v", use_resource=True)
    proto = v.to_proto()
    proto.ClearField("snapshot_name")  # as TensorFlow wrote them up to version 1.9
    again = tf.Variable.from_proto(proto)
    session.run(again.initializer)
    np.testing.assert_array_equal(session.run([again, again.read_value()]), [[1, 2]] * 2)


def test_creators(resource):
    made = []

    def wide(next_creator, **arguments):
        made.append(arguments["name"])
        return next_creator(**{**arguments, "dtype": tf.float64})

    def named(next_creator, **arguments):
        return next_creator(**{**arguments, "name": "b"})

    with tf.variable_creator_scope(wide):
        assert tf.Variable(1.0, name="a", use_resource=resource).dtype.base == tf.float64
        with tf.variable_creator_scope(named):
            assert tf.get_variable("x", initializer=1.0, use_resource=resource).name == "b:0"
        with tf.Graph().as_default():
            assert tf.Variable(1.0).dtype.base == tf.float32
    assert made == ["a", "b"]


def test_default_form():
    assert not tf.resource_variables_enabled()
    tf.enable_resource_variables()
    try:
        assert tf.Variable(1.0).op.type == "VarHandleOp"
        assert tf.Variable(1.0, use_resource=False).op.type == "VariableV2"
    finally:
        tf.disable_resource_variables()
    assert tf.Variable(1.0).op.type == "VariableV2"


def test_variables_made_in_nested_bodies_are_made_outside(graph):
    body = graph.new_body("loop")
    body.of_control_flow = True
    with graph.building(body):
        v = tf.Variable(lambda: tf.ones([2]), name="v")
        inner = tf.ones([2])
        assert v.op.body is graph.root
        with pytest.raises(ValueError, match="use a lambda as the initializer"):
            tf.Variable(inner)
        with pytest.raises(ValueError, match="use a lambda as the initializer"):
            tf.Variable(inner, use_resource=True)


def test_refusals(resource):
    p = tf.placeholder(tf.float32, [None])
    v = tf.Variable([1.0], name="v", use_resource=resource)
    for problem, text, call in (
        (ValueError, "initial_value must be specified", lambda: tf.Variable(use_resource=resource)),
        (ValueError, "must be a callable", lambda: tf.Variable(1.0, constraint=3, use_resource=resource)),
        (ValueError, "list, tuple, or set", lambda: tf.Variable(1.0, collections="x", use_resource=resource)),
        (ValueError, "expected_shape", lambda: tf.Variable([1.0], expected_shape=[2], use_resource=resource)),
        (ValueError, "explicitly supplied", lambda: tf.Variable([1.0], shape=[2], use_resource=resource)),
        (ValueError, "Invalid variable aggregation", lambda: tf.Variable(1.0, aggregation=9, use_resource=resource)),
        (ValueError, "synchronization mode", lambda: tf.Variable(1.0, synchronization="x", use_resource=resource)),
        (ValueError, "mutually exclusive", lambda: tf.Variable(1.0, variable_def=v.to_proto())),
        (ValueError, "Incompatible type conversion", lambda: tf.convert_to_tensor(v, tf.int32)),
        (TypeError, "not iterable", lambda: list(v)),
        (TypeError, "not IndexedSlices", lambda: v.scatter_add([1.0])),
        (AttributeError, "pass the variable itself", lambda: tf.assign(tf.ones([1]), [2.0])),
        (AttributeError, "pass the variable itself", lambda: tf.scatter_add([1.0], [0], [2.0])),
        (TypeError, "pass tf.Variable objects", lambda: tf.assert_variables_initialized([3])),
        (ValueError, "shape", lambda: v.assign([1.0, 2.0])),
        (NotImplementedError, r"session.run\(v\)", lambda: np.asarray(v)),
    ):
        with pytest.raises(problem, match=text):
            call()
    if resource:
        with pytest.raises(TypeError, match="lives behind a resource handle"):
            tf.build_op("Assign", v, [1.0])
    else:
        with pytest.raises(ValueError, match="must have a shape specified"):
            tf.Variable(p)
    assert tf.Variable(p, validate_shape=False).shape.ndims is None
    assert (v == v, v == 1.0, bool(v), len({v, v})) == (True, False, True, 1)
    assert repr(v).startswith("<tf.Variable 'v:0' shape=(1,) dtype=float32")


def test_a_list_with_a_variable_takes_the_dtype_that_is_wanted_of_it():
    count = tf.get_variable("count", [], tf.int32, tf.constant_initializer(3))
    row = tf.get_variable("row", [2], initializer=tf.zeros_initializer())
    with tf.Session() as sess:
        sess.run(tf.global_variables_initializer())
        assert sess.run(tf.convert_to_tensor([1.5, count], tf.float32)).tolist() == [1.5, 3.0]
        assert sess.run(tf.assign(row, [0.5, count])).tolist() == [0.5, 3.0]
        nested = tf.convert_to_tensor([[1.5, count], [count, 2.0]], tf.float32)
        assert sess.run(nested).tolist() == [[1.5, 3.0], [3.0, 2.0]]
        assert sess.run(tf.constant(2.0) * [count, 2.0]).tolist() == [6.0, 4.0]
    with pytest.raises((TypeError, ValueError), match="int32"):
        tf.convert_to_tensor([tf.constant(1.0), count], tf.float32)


def test_a_cast_to_its_own_type_is_the_variable_itself():
    v = tf.get_variable("v", [], use_resource=True)
    assert tf.cast(v, tf.float32) is v
    assert tf.to_float(v) is v
    assert isinstance(tf.cast(v, tf.float64), tf.Tensor)
    assert isinstance(tf.cast(tf.get_variable("w", [], use_resource=False), tf.float32), tf.Tensor)
