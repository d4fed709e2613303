"""Straight code of loops gives, bit for bit, what the interpreter gives op by op, and its errors."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.contract import kernels, opdef
from anabranch.core.graph.build import build
from anabranch.core.values.list_values import HostList
from anabranch.ops.random import philox
from anabranch.runtime.interpreter import straight_line

RNG = np.random.RandomState(0)


@pytest.fixture
def counts(monkeypatch):
    """How many iterations ran straight, and how many did not."""
    found = {"straight": 0, "other": 0}
    run = straight_line.Straight.run

    def counted(self, values, turn=None, **options):
        result = run(self, values, turn, **options)
        found["straight" if result is not None else "other"] += 1
        return result

    monkeypatch.setattr(straight_line.Straight, "run", counted)
    return found


def _without(monkeypatch):
    monkeypatch.setattr(straight_line, "of", lambda plan, bodies: None)


def _interpreted():
    return tf.Session(config=tf.SessionOptions(tier="interpreted"))


def _recurrent(cell, batch=None):
    """A training step of a recurrent network, and its feeds for a batch and a length."""
    x = tf.placeholder(tf.float32, [batch, None, 3], name="x")
    lengths = tf.placeholder(tf.int32, [batch], name="lengths")
    outputs, state = tf.nn.dynamic_rnn(cell, x, sequence_length=lengths, dtype=tf.float32)
    loss = tf.reduce_sum(tf.square(outputs)) + sum(
        tf.reduce_sum(part) for part in tf.contrib.framework.nest.flatten(state)
    )
    step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)

    def feeds(rows, time):
        random = np.random.RandomState(rows + time)
        return {x: random.randn(rows, time, 3), lengths: random.randint(1, time + 1, rows)}

    return [loss, step], feeds


def _trained(make, sizes):
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        fetches, feeds = _recurrent(make())
        with _interpreted() as session:
            session.run(tf.global_variables_initializer())
            losses = [session.run(fetches, feeds(*size))[0] for size in sizes]
            return losses, session.run(tf.trainable_variables())


@pytest.mark.parametrize("name", ["BasicRNNCell", "BasicLSTMCell", "LSTMCell", "GRUCell"])
def test_a_recurrent_network_trains_as_it_does_op_by_op(name, monkeypatch, counts):
    sizes = [(2, 5), (2, 3), (4, 6), (2, 1), (4, 2)]
    losses, variables = _trained(lambda: getattr(tf.nn.rnn_cell, name)(4), sizes)
    assert counts["straight"] > 4 * counts["other"]
    _without(monkeypatch)
    expected, plain = _trained(lambda: getattr(tf.nn.rnn_cell, name)(4), sizes)
    assert losses == expected
    for one, other in zip(variables, plain, strict=True):
        np.testing.assert_array_equal(one, other)


def test_other_shapes_and_dtypes_get_code_of_their_own_a_few_times(counts):
    x = tf.placeholder(tf.float32, [None])
    total = tf.while_loop(lambda i, t: i < 6, lambda i, t: (i + 1, t * x + 1.0), [0, x])[1]
    with _interpreted() as session:
        for size in range(1, 9):
            value = np.linspace(0.5, 1.0, size).astype(np.float32)
            expected = value
            for _ in range(6):
                expected = expected * value + np.float32(1)
            np.testing.assert_array_equal(session.run(total, {x: value}), expected)
    assert 1 <= counts["other"] <= 4  # the first ones; further kinds have code for any size
    assert counts["straight"] > 6 * straight_line.MOST_FORMS


def _decoder():
    """A training step of a decoder that looks at a memory: rows, places and steps change, and lists grow."""
    memory = tf.placeholder(tf.float32, [None, None, 4], name="memory")
    rows, steps = tf.shape(memory)[0], tf.placeholder(tf.int32, [], name="steps")
    weights = tf.get_variable("weights", initializer=np.linspace(-1, 1, 32).astype(np.float32).reshape(8, 4))
    words = tf.get_variable("words", initializer=np.linspace(-1, 1, 20).astype(np.float32).reshape(5, 4))

    def body(i, h, mask, states, chosen):
        scores = tf.reduce_sum(memory * tf.expand_dims(h, 1), 2) - 9.0 * mask
        shares = tf.exp(tf.nn.log_softmax(scores))
        place = tf.argmax(scores, 1, output_type=tf.int32)
        seen = tf.reduce_sum(memory * tf.expand_dims(shares, 2), 1) + tf.reduce_max(memory, 1)
        one, other = tf.split(tf.matmul(tf.concat([h, seen], 1), tf.tile(weights, [1, 2])), 2, 1)
        h = tf.tanh(one) * tf.sigmoid(other) + tf.gather(words, place % 5)
        h = tf.where(tf.reduce_all(mask > 1.0, 1), tf.zeros_like(h), h)
        mask = mask + tf.one_hot(place // 2, tf.shape(memory)[1])
        return i + 1, h, mask, states.write(i, h), chosen.write(i, place)

    start = [
        0,
        tf.zeros([rows, 4]),
        tf.zeros(tf.shape(memory)[:2]),
        tf.TensorArray(tf.float32, steps),
        tf.TensorArray(tf.int32, 0, dynamic_size=True),
    ]
    shapes = [tf.TensorShape(size) for size in ([], [None, 4], [None, None], None, None)]
    end = tf.while_loop(lambda i, *_: i < steps, body, start, shape_invariants=shapes)
    loss = tf.reduce_sum(tf.square(end[3].stack()))
    fetches = [loss, end[4].stack(), tf.train.GradientDescentOptimizer(0.01).minimize(loss)]
    return fetches, memory, steps


def test_sizes_that_are_never_the_same_have_code_for_any_size(monkeypatch, counts):
    sizes = [(2 + k % 5, 3 + k, 4 + k % 7) for k in range(16)]

    def trained():
        with tf.Graph().as_default():
            fetches, memory, steps = _decoder()
            with _interpreted() as session:
                session.run(tf.global_variables_initializer())
                results = []
                for rows, places, count in sizes:
                    given = np.random.RandomState(places).randn(rows, places, 4)
                    results += session.run(fetches, {memory: given, steps: count})[:2]
                return results + session.run(tf.trainable_variables())

    found = trained()
    assert counts["straight"] > 10 * counts["other"]
    _without(monkeypatch)
    for one, other in zip(found, trained(), strict=True):
        np.testing.assert_array_equal(one, other)


def test_what_grows_in_a_loop_has_code_when_the_loop_runs_again(counts):
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2, None])
        grown = tf.while_loop(
            lambda t, rows: t < 12,
            lambda t, rows: (t + 1, tf.concat([rows, tf.reduce_max(rows, 1, keepdims=True) * x[:, :1] + 1.0], 1)),
            [0, x],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape([2, None])],
        )[1]
        with _interpreted() as session:
            for run in range(4):
                start = expected = RNG.rand(2, 3).astype(np.float32)
                for _ in range(12):
                    last = expected.max(1, keepdims=True) * start[:, :1] + np.float32(1)
                    expected = np.concatenate([expected, last], 1)
                counts["other"] = 0
                np.testing.assert_array_equal(session.run(grown, {x: start}), expected)
                assert run < 2 or not counts["other"]


def test_a_loop_beside_programs_keeps_its_code():
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [4, 4])
        weights = tf.Variable(np.eye(4, dtype=np.float32))
        grown = tf.while_loop(
            lambda t, rows: t < 8,
            lambda t, rows: (t + 1, tf.concat([rows, tf.matmul(rows[-4:], weights)], 0)),
            [0, tf.exp(x)],
            shape_invariants=[tf.TensorShape([]), tf.TensorShape([None, 4])],
        )[1]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            for _ in range(60):
                found = session.run(grown, {x: np.zeros((4, 4), np.float32)})
            np.testing.assert_array_equal(found, np.ones((36, 4), np.float32))


def test_shapes_may_differ_where_no_code_is_for_them(counts):
    lines = [" ".join("abcdefgh"[: 1 + i % 8]) for i in range(60)]
    dataset = tf.data.Dataset.from_tensor_slices(lines).map(lambda line: tf.string_split([line]).values)
    element = dataset.make_one_shot_iterator().get_next()
    with _interpreted() as session:
        assert [b" ".join(session.run(element)).decode() for _ in lines] == lines
    assert counts["other"] <= 2  # the first ones


def test_code_that_computes_for_nothing_is_given_up(monkeypatch):
    made = []
    start = straight_line.Straight.__init__
    monkeypatch.setattr(
        straight_line.Straight, "__init__", lambda self, *args: (start(self, *args), made.append(self))[0]
    )
    dataset = tf.data.Dataset.range(100).map(lambda n: tf.reduce_sum(tf.range(n % 50) * 2))
    element = dataset.make_one_shot_iterator().get_next()
    with _interpreted() as session:
        assert [session.run(element) for _ in range(100)] == [n % 50 * (n % 50 - 1) for n in range(100)]
    late = max(straight._late for straight in made)
    assert straight_line.MOST_MISSES < late <= straight_line.MOST_MISSES + 2 * straight_line.MOST_FORMS


@pytest.mark.parametrize("bad", [2, 5, 9])
def test_what_fails_in_an_iteration_is_told_as_ever(bad, monkeypatch):
    v = tf.Variable(np.arange(8.0, dtype=np.float32))
    index = tf.placeholder(tf.int32, [10])
    array = tf.TensorArray(tf.int32, 10, clear_after_read=False).unstack(index)
    loop = tf.while_loop(
        lambda i, t: i < 10, lambda i, t: (i + 1, t + tf.gather(v, array.read(i), name="taken")), [0, 0.0]
    )[1]
    step = tf.group(v.assign_add(tf.ones([8]) * loop))
    rows = np.arange(10) % 8
    with _interpreted() as session:
        session.run(v.initializer)
        session.run(step, {index: rows})
        before = session.run(v)
        rows[bad] = 11
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"11 is not in \[0, 8\)") as told:
            session.run(step, {index: rows})
        assert told.value.op.name == "taken" or told.value.op.name.endswith("/taken")
        np.testing.assert_array_equal(session.run(v), before)
    _without(monkeypatch)
    with _interpreted() as session:
        session.run(v.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"11 is not in \[0, 8\)") as plain:
            session.run(step, {index: rows})
    assert plain.value.op is told.value.op


def test_a_read_past_the_end_of_a_list_is_told_as_ever():
    array = tf.TensorArray(tf.float32, 5, clear_after_read=False).unstack(tf.constant([1.0, 2.0, 3.0, 4.0, 5.0]))
    limit = tf.placeholder(tf.int32, [])
    total = tf.while_loop(lambda i, t: i < limit, lambda i, t: (i + 1, t + array.read(i)), [0, 0.0])[1]
    with _interpreted() as session:
        assert session.run(total, {limit: 5}) == 15.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="Tried to read from index 5 but array size is: 5"):
            session.run(total, {limit: 6})


def test_what_is_only_checked_is_checked_in_each_iteration(counts):
    x = tf.placeholder(tf.float32, [8])

    def body(i, total):
        with tf.control_dependencies([tf.Assert(x[i] > 0.0, ["not positive", x[i]])]):
            return i + 1, total + x[i]

    total = tf.while_loop(lambda i, t: i < 8, body, [0, 0.0])[1]
    values = np.arange(1.0, 9.0)
    with _interpreted() as session:
        assert session.run(total, {x: values}) == 36.0
        values[6] = -1.0
        with pytest.raises(tf.errors.InvalidArgumentError, match="not positive"):
            session.run(total, {x: values})
    assert counts["straight"] > 0


def test_a_body_that_writes_is_run_op_by_op(counts):
    v = tf.Variable(0.0)

    def body(i, total):
        with tf.control_dependencies([v.assign_add(1.0)]):
            return i + 1, total + 1.0

    total = tf.while_loop(lambda i, t: i < 5, body, [0, 0.0])[1]
    with _interpreted() as session:
        session.run(v.initializer)
        session.run(total)
        assert session.run(v) == 5.0
    assert counts["straight"] <= 6  # the condition


def test_a_variable_that_is_read_inside_is_read_anew_in_each_step(counts):
    v = tf.Variable(2.0, use_resource=True)
    total = tf.while_loop(lambda i, t: i < 4, lambda i, t: (i + 1, t + v), [0, 0.0])[1]
    with _interpreted() as session:
        session.run(v.initializer)
        assert session.run(total) == 8.0
        session.run(v.assign(3.0))
        assert session.run(total) == 12.0
        before = dict(counts)
        with tf.control_dependencies([total]):
            later = v.assign_add(1.0)
        session.run(later)
        assert session.run(total) == 16.0
    assert before["straight"] > 4


def test_a_condition_sees_what_the_body_writes(counts):
    """The condition only computes, and is straight; the body is not."""
    v = tf.Variable(0.0)

    def body(i):
        with tf.control_dependencies([v.assign_add(1.0)]):
            return i + 1

    loop = tf.while_loop(lambda i: v.read_value() < 6.0, body, [0])
    with _interpreted() as session:
        session.run(v.initializer)
        assert session.run(loop) == 6
        assert session.run(v) == 6.0
    assert counts["straight"] > 3


def test_when_a_plan_with_a_loop_is_compiled_follows_from_what_its_iterations_cost():
    tf.set_random_seed(1)
    x = tf.placeholder(tf.float32, [4])
    trips = tf.placeholder(tf.int32, [])
    out = tf.while_loop(lambda i, t: i < trips, lambda i, t: (i + 1, tf.tanh(t * x)), [0, x])[1]
    value = np.ones(4, np.float32)

    def runs(count):
        with tf.Session() as session:
            for done in range(600):
                if "tier: compiled" in session.explain(out, {x: value, trips: count}):
                    return done
                session.run(out, {x: value, trips: count})
        raise AssertionError("never compiled")

    long, longer = runs(100), runs(200)
    assert long > 1.5 * longer > 1
    assert runs(100) == long
    with tf.Session() as session:
        for _ in range(100):  # a plan without loops is hot after 64 runs, whatever it is taken to cost
            session.run(out, {x: value, trips: 2})
        assert "tier: interpreted" in session.explain(out, {x: value, trips: 2})


# ---------------------------------------------------------------------------------------------------------------- forms
def _floats(*shape):
    return RNG.randn(*shape).astype(np.float32)


def _list(count=3, shape=(2, 3)):
    return HostList(tf.float32, (None, 3), [_floats(*shape) for _ in range(count)])


A, B = _floats(3, 4), _floats(3, 4)
NO_MASKS = dict.fromkeys(["begin_mask", "end_mask", "ellipsis_mask", "new_axis_mask", "shrink_axis_mask"], 0)
CASES = [
    *[(name, [A, B], {}) for name in ("Add", "AddV2", "Sub", "Mul", "Less", "GreaterEqual", "AddN")],
    *[(name, [A, _floats(4)], {}) for name in ("AddV2", "Mul", "Greater", "LessEqual")],
    *[(name, [A, B], {}) for name in ("Maximum", "Minimum", "Equal", "NotEqual")],
    *[(name, [A > 0, B > 0], {}) for name in ("LogicalAnd", "LogicalOr", "Equal", "NotEqual")],
    ("LogicalNot", [A > 0], {}),
    *[(name, [A], {}) for name in ("Exp", "Log", "Log1p", "Sqrt", "Abs", "Neg", "Softmax", "LogSoftmax")],
    *[(name, [np.array([[-np.inf, 0.5], [np.nan, 1]])], {}) for name in ("Softmax", "LogSoftmax")],
    *[
        (name, [np.arange(-6, 6, dtype=dtype), np.array(divisor, dtype)], {})
        for name in ("FloorDiv", "FloorMod")
        for dtype in (np.int32, np.int64)
        for divisor in (4, -3)
    ],
    *[(name, [A], {}) for name in ("Sigmoid", "Tanh")],
    *[(name, [np.float32(0.25)], {}) for name in ("Sigmoid", "Tanh")],
    *[(name, [A, B], {}) for name in ("SigmoidGrad", "TanhGrad")],
    *[(name, [np.float32(0.5), np.float32(2)], {}) for name in ("SigmoidGrad", "TanhGrad")],
    *[("RealDiv", [A, other], {}) for other in (B, _floats(4), np.zeros_like(A))],
    *[("Relu", [x], {}) for x in (A, np.float32(-3), np.float32(np.nan), A.astype(np.int32))],
    *[("Square", [x], {}) for x in (A, np.float32(-3), A.astype(np.int32))],
    *[("Reshape", [A, np.array(shape, np.int32)], {}) for shape in ([4, 3], [-1], [2, -1, 3], [12, 1])],
    *[("Select", [condition, A, B], {}) for condition in (A > 0, np.array(True), A[:, 0] > 0)],
    ("MatMul", [A, _floats(4, 5)], {"transpose_a": False, "transpose_b": False}),
    ("MatMul", [A, _floats(3, 5)], {"transpose_a": True, "transpose_b": False}),
    ("MatMul", [A, _floats(5, 4)], {"transpose_a": False, "transpose_b": True}),
    ("MatMul", [A, _floats(5, 3)], {"transpose_a": True, "transpose_b": True}),
    ("BiasAdd", [A, _floats(4)], {"data_format": "NHWC"}),
    ("BiasAddGrad", [_floats(2, 3, 4)], {"data_format": "NHWC"}),
    *[
        ("Sum", [A, np.array(axes, np.int32)], {"keep_dims": keep})
        for axes in ([0], [-1], [0, 1], 1)
        for keep in (0, 1)
    ],
    *[
        (name, [x, np.array(axes, np.int32)], {"keep_dims": keep})
        for name, x in (("Mean", A), ("Max", A), ("Min", A), ("All", A > 0), ("Any", A > 2))
        for axes in ([1], [0, 1])
        for keep in (0, 1)
    ],
    ("Pack", [np.float32(1), np.float32(2)], {"axis": 0}),
    *[("Pack", [A, B, A], {"axis": axis}) for axis in (0, 2, -2)],
    *[("ExpandDims", [A, np.int32(axis)], {}) for axis in (0, 2, -1)],
    ("Tile", [A, np.array([2, 3], np.int32)], {}),
    ("GatherV2", [A, np.array([[2, 0], [1, 1]]), np.int32(0)], {"batch_dims": 0}),
    ("GatherV2", [A, np.int32(2), np.int32(0)], {"batch_dims": 0}),
    *[
        ("StridedSlice", [_floats(3, 4, 5), *map(np.array, spec)], {**NO_MASKS, **masks})
        for spec, masks in (
            (([0, 1], [3, 3], [2, 1]), {}),
            (([0, 0], [0, 2], [1, 1]), {"new_axis_mask": 1}),
            (([1, 0, -1], [0, 0, 0], [1, 1, 1]), {"ellipsis_mask": 2, "shrink_axis_mask": 4}),
            (([3, 0], [0, 9], [-1, 2]), {"end_mask": 1}),
            (([0, 0, 2], [0, 0, 3], [1, 1, 1]), {"ellipsis_mask": 1, "new_axis_mask": 2}),
        )
    ],
    ("ConcatV2", [A, B, np.int32(1)], {}),
    ("ConcatV2", [A, B, A, np.int32(-2)], {}),
    ("Split", [np.int32(1), A], {"num_split": 2}),
    ("Slice", [A, np.array([1, 0]), np.array([2, -1])], {}),
    ("TensorListPushBack", [_list(), _floats(2, 3)], {"element_dtype": tf.float32}),
    ("TensorListPopBack", [_list(), np.array([-1, 3], np.int32)], {"element_dtype": tf.float32}),
    (
        "TensorListGetItem",
        [_list(), np.int32(1), np.array(-1, np.int32)],
        {"element_dtype": tf.float32},
    ),
    (
        "TensorListSetItem",
        [_list(), np.int32(2), _floats(2, 3)],
        {"element_dtype": tf.float32, "resize_if_index_out_of_bounds": False},
    ),
]


def form_of(name, operands, attrs):
    make = opdef.lookup(name).straight
    return None if make is None else make(operands, [True] * len(operands), attrs)


def _equal(one, other):
    if isinstance(one, HostList):
        assert one.length == other.length
        for a, b in zip(one.elements, other.elements, strict=True):
            np.testing.assert_array_equal(a, b)
        return
    assert np.asarray(one).dtype == np.asarray(other).dtype
    assert np.shape(one) == np.shape(other)
    np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("name", "operands", "attrs"), CASES, ids=[f"{i}-{case[0]}" for i, case in enumerate(CASES)])
def test_a_form_computes_what_the_kernel_does(name, operands, attrs):
    definition = opdef.lookup(name)
    attrs = {"T": tf.as_dtype("float32"), "incompatible_shape_error": True, **attrs}
    form = form_of(name, operands, attrs)
    assert form is not None
    with np.errstate(all="ignore"):  # as around the code
        found = form(*operands)
    found = found if isinstance(found, (list, tuple)) else [found]
    expected = kernels.run_on_host(definition, operands, attrs, kernels.HostContext())
    for one, other in zip(found, expected, strict=True):
        _equal(one, other)


def test_every_form_is_tried():
    straight = {name: item for name, item in opdef.all_definitions().items() if item.straight}
    computed = {name for name, item in straight.items() if item.effect.kind == "pure"}
    assert {case[0] for case in CASES} == computed
    assert {case[0] for case in DRAWS} == straight.keys() - computed


DRAWS = [
    ("RandomUniform", [[]], {"dtype": tf.float32}),
    ("RandomUniform", [[2, 3]], {"dtype": tf.float32}),
    ("RandomUniform", [[31]], {"dtype": tf.float32}),
    ("RandomUniformInt", [[], 3, 10], {}),
    ("RandomUniformInt", [[5], -7, 2**31 - 1], {}),
    ("RandomUniformInt", [[2, 2], -(2**31), 2**31 - 1], {}),
]


@pytest.mark.parametrize(("name", "operands", "attrs"), DRAWS)
def test_draws_are_the_kernels_alone_and_in_rows(name, operands, attrs):
    arrays = [np.array(value, np.int32) for value in operands]
    with tf.Graph().as_default():
        op = build(name, *arrays, seed=1, seed2=2, **attrs).op
    draw = op.definition.straight(arrays, [True] * len(arrays), op._attrs)
    key, place, blocks = 2**63 + 11, (5 << 64) + 2**64 - 3, 256

    def of_kernel(at):
        context = kernels.HostContext(op)
        context.philox = philox.stream_at(key, at)
        return kernels.run_on_host(op.definition, arrays, op._attrs, context)[0]

    rows = draw.rows(key, place, blocks, 4)
    for row in range(4):
        expected = of_kernel(place + row * blocks)
        for found in (draw(key, place + row * blocks), rows[row]):
            assert found.dtype == expected.dtype
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("name", "operands", "attrs"),
    [
        ("AddV2", [A, _floats(3)], {}),
        ("Add", [np.array(b"a", object), np.array(b"b", object)], {}),
        ("Mul", [A.astype(np.float16), B.astype(np.float16)], {}),
        ("RealDiv", [np.array([7]), np.array([2])], {}),
        *[("Reshape", [A, np.array(shape)], {}) for shape in ([5, 3], [-1, -1], [-1, 5], [-2, -6], [0, -1])],
        ("Reshape", [np.zeros((0, 3), np.float32), np.array([3, -1])], {}),
        ("MatMul", [A, B], {"transpose_a": False, "transpose_b": False}),
        ("BiasAdd", [A, _floats(3)], {"data_format": "NHWC"}),
        ("ConcatV2", [A, _floats(2, 3), np.int32(0)], {}),
        ("Split", [np.int32(1), A], {"num_split": 3}),
        ("Slice", [A, np.array([1, 0]), np.array([3, 4])], {}),
        ("Sum", [A, np.array([2], np.int32)], {"keep_dims": False}),
        ("Max", [A, np.array([0, 0], np.int32)], {"keep_dims": False}),
        ("FloorDiv", [np.arange(4), np.array([1, 0, 2, 3])], {}),
        ("Softmax", [A.astype(np.float16)], {}),
        ("Pack", [A, _floats(3)], {"axis": 0}),
        ("Tile", [A, np.array([2])], {}),
        ("GatherV2", [A, np.array([0]), np.int32(1)], {"batch_dims": 0}),
        ("StridedSlice", [A, np.array([3]), np.array([4]), np.array([1])], {**NO_MASKS, "shrink_axis_mask": 1}),
        ("Select", [A > 0, A, B[:2]], {}),
        ("TensorListPushBack", [_list(), _floats(2, 2)], {"element_dtype": tf.float32}),
        ("TensorListPopBack", [_list(0), np.array(-1)], {"element_dtype": tf.float32}),
        ("TensorListGetItem", [_list(), np.int32(3), np.array(-1)], {"element_dtype": tf.float32}),
        ("Floor", [A], {}),
    ],
)
def test_what_a_kernel_would_refuse_or_do_otherwise_has_no_form(name, operands, attrs):
    assert form_of(name, operands, attrs) is None


def test_a_body_that_takes_only_the_shape_of_an_argument_follows_it():
    """The gradient of a sum in a branch: it is as large as what was summed, of which nothing else is used."""
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        x = tf.placeholder(tf.float32, [None, 4])
        y = tf.cond(tf.shape(x)[0] > 40, lambda: tf.reduce_sum(x), lambda: tf.reduce_max(x))
        gradient = tf.gradients(y, x)[0]
        for rows in (50, 97, 64, 120, 50, 41):
            _, found = session.run([y, gradient], {x: np.ones((rows, 4), np.float32)})
            assert found.shape == (rows, 4)
            assert found.min() == found.max() == 1.0


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_elements_of_a_variable_are_made_distinct(tier):
    with tf.Graph().as_default():
        elements = tf.unique(tf.Variable([3, 1, 3, 2, 1]))
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            session.run(tf.global_variables_initializer())
            for _ in range(6):
                found, places = session.run(elements)
    np.testing.assert_array_equal(found, [3, 1, 2])
    np.testing.assert_array_equal(places, [0, 1, 0, 2, 1])


def test_sizes_that_are_data_may_change_where_shapes_do_not(counts):
    x = tf.placeholder(tf.float32, [6])

    def body(i, total):
        rows = 1 + i % 3  # 1, 2, 3 of 6 elements
        table = tf.reshape(x, tf.stack([rows, 6 // rows]))
        spread = tf.fill(tf.stack([rows, 2]), 1.0)
        return i + 1, total + tf.reduce_sum(table[-1]) * tf.reduce_sum(spread)

    total = tf.while_loop(lambda i, t: i < 12, body, [0, 0.0])[1]
    given = np.arange(6, dtype=np.float32)
    expected = 4 * sum(2 * rows * given[-6 // rows :].sum() for rows in (1, 2, 3))
    with _interpreted() as session:
        for _ in range(4):
            assert session.run(total, {x: given}) == expected
    assert counts["straight"] > 4 * counts["other"]
