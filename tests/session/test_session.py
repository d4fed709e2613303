"""Sessions: fetches, feeds, errors, contexts, callables."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import anabranch as tf
from anabranch.runtime import fetching


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.fixture
def session():
    with tf.Session() as found:
        yield found


Pair = collections.namedtuple("Pair", "first second")


def test_fetches_keep_their_structure(session):
    a, b = tf.constant(1.0), tf.constant([1, 2])
    op = tf.no_op()
    got = session.run({"a": a, "rest": [b, (a, op)], "pair": Pair(a, "Const_1:0")})
    assert got["a"] == np.float32(1.0)
    assert isinstance(got["a"], np.float32)
    np.testing.assert_array_equal(got["rest"][0], [1, 2])
    assert got["rest"][1] == (1.0, None)
    assert isinstance(got["pair"], Pair)
    np.testing.assert_array_equal(got["pair"].second, [1, 2])
    ordered = session.run(collections.OrderedDict([("z", a), ("y", b)]))
    assert isinstance(ordered, collections.OrderedDict)
    assert list(ordered) == ["z", "y"]
    assert session.run([]) == []
    assert session.run(op) is None


def test_structures_that_look_alike_are_told_apart(session):
    a, b, v = tf.constant(1), tf.constant(2), tf.Variable(3)
    session.run(v.initializer)
    changed = {"x": a}
    structures = [[a, b], (a, b), [a, [b]], [[a], b], Pair(a, b), {1: a}, {True: a}, {1.0: a}, {"x": a, "y": b}]
    structures += [{"y": b, "x": a}, collections.OrderedDict([("y", b), ("x", a)]), [v, a], {"v": v}, ["Const:0", b]]
    structures.append(changed)
    values = {a: 1, b: 2, v: 3, "Const:0": 1}

    def shown(fetch, value_of):
        if isinstance(fetch, dict):
            return type(fetch), [(type(name), name, shown(item, value_of)) for name, item in fetch.items()]
        if isinstance(fetch, (list, tuple)):
            return type(fetch), [shown(item, value_of) for item in fetch]
        return value_of(fetch)

    for _ in range(2):
        for fetch in structures:
            assert shown(session.run(fetch), int) == shown(fetch, values.__getitem__)
        changed["x"] = b
    assert fetching.key_of({"v": v}) == fetching.key_of({"v": v.op.outputs[0]})


def test_a_structure_is_flattened_once(session, monkeypatch):
    parts = tf.SparseTensor([[0]], [1.0], [2]), tf.IndexedSlices(tf.constant([1.0]), tf.constant([0]))
    fetches = {"a": tf.constant(1), "rest": [tf.constant(2), Pair(parts[0], "Const:0")]}
    expected = session.run(fetches)
    monkeypatch.setattr(session, "_new_fetch_plan", None)
    assert repr(session.run(dict(fetches))) == repr(expected)
    with pytest.raises(TypeError, match="not callable"):
        session.run({"a": parts[1]})


def test_strings_and_operations_are_fetched_by_name(session):
    tf.constant(3.0, name="c")
    tf.no_op(name="n")
    assert session.run("c:0") == 3.0
    assert session.run("n") is None
    assert session.run(["c:0", b"c:0"]) == [3.0, 3.0]


def test_string_tensors(session):
    s = tf.constant(["a", "bc"])
    np.testing.assert_array_equal(session.run(s), np.array([b"a", b"bc"], object))
    assert session.run(tf.constant("x")) == b"x"


def test_indexed_slices_are_fetched_and_fed(session):
    slices = tf.IndexedSlices(tf.constant([[1.0, 2.0]]), tf.constant([3]), tf.constant([5, 2]))
    got = session.run(slices)
    np.testing.assert_array_equal(got.indices, [3])
    fed = session.run(slices, {slices: (np.zeros((1, 2)), [0], [9, 9])})
    np.testing.assert_array_equal(fed.dense_shape, [9, 9])


def test_any_tensor_can_be_fed(session):
    x = tf.constant(2.0)
    y = x * 3.0
    z = y + 1.0
    assert session.run(z, {y: 10.0}) == 11.0
    assert session.run([y, z], {"mul:0": 5.0}) == [5.0, 6.0]
    assert session.run(x, {x: 7.0}) == 7.0


def test_feeds_of_tuples(session):
    a, b = tf.placeholder(tf.float32), tf.placeholder(tf.float32)
    assert session.run(a + b, {(a, b): (1.0, 2.0)}) == 3.0


def test_feeds_are_converted_as_numpy_does(session):
    x = tf.placeholder(tf.int32, [None])
    np.testing.assert_array_equal(session.run(x + 0, {x: [1, 2]}), [1, 2])
    f = tf.placeholder(tf.float32)
    assert session.run(f * 1.0, {f: np.float64(2.5)}) == np.float32(2.5)


@pytest.mark.parametrize(
    ("fetch", "kind", "text"),
    [
        (None, TypeError, "Fetch argument None has invalid type"),
        (3.5, TypeError, "has invalid type.*must be a string or Tensor"),
        ("nothing:0", ValueError, "cannot be interpreted as a Tensor.*does not exist"),
        (object(), TypeError, "has invalid type"),
    ],
)
def test_bad_fetches(session, fetch, kind, text):
    tf.constant(1.0)
    with pytest.raises(kind, match=text):
        session.run(fetch)


def test_bad_feeds(session):
    x = tf.placeholder(tf.float32, [2, None], name="x")
    with pytest.raises(
        ValueError, match=r"Cannot feed value of shape \(3, 1\) for Tensor 'x:0'(.|\n)*Given:(.|\n)*At: "
    ):
        session.run(x, {x: np.zeros((3, 1))})
    with pytest.raises(TypeError, match="Cannot interpret feed_dict key as Tensor"):
        session.run(x, {"y:0": 1.0})
    with pytest.raises(TypeError, match=r"value of a feed cannot be a tf\.Tensor"):
        session.run(x, {x: tf.constant(1.0)})
    with pytest.raises(TypeError, match="feed_dict must be a dictionary"):
        session.run(x, [1])
    i = tf.placeholder(tf.int32)
    with pytest.raises((TypeError, OverflowError), match=r"int32|out of bounds|too large"):
        session.run(i, {i: 2**40})


def test_an_unfed_placeholder_names_itself_and_its_line(session):
    x = tf.placeholder(tf.float32, [2, 3], name="inputs")
    with pytest.raises(
        tf.errors.InvalidArgumentError,
        match=r"You must feed a value for placeholder tensor 'inputs'(.|\n)*test_session.py",
    ):
        session.run(x * 2.0)


def test_a_tensor_of_another_graph(session):
    with tf.Graph().as_default():
        other = tf.constant(1.0)
    tf.constant(1.0)
    with pytest.raises(ValueError, match="not an element of this graph"):
        session.run(other)


def test_closed_and_empty_sessions():
    session = tf.Session()
    with pytest.raises(RuntimeError, match="graph is empty"):
        session.run([])
    x = tf.constant(1.0)
    session.close()
    session.close()
    with pytest.raises(RuntimeError, match="closed Session"):
        session.run(x)


def test_default_sessions():
    x = tf.constant(4.0)
    with pytest.raises(ValueError, match="No default session is registered"):
        x.eval()
    with tf.Session() as session:
        assert x.eval() == 4.0
        assert tf.get_default_session() is session
        assert x.op.run() is None
    assert tf.get_default_session() is None
    session = tf.Session()
    with session.as_default():
        assert x.eval() == 4.0
    assert session.run(x) == 4.0
    session.close()


def test_interactive_session():
    session = tf.InteractiveSession()
    try:
        assert (tf.constant(2.0) * 2.0).eval() == 4.0
    finally:
        session.close()
    assert tf.get_default_session() is None


def test_make_callable(session):
    x = tf.placeholder(tf.float32, [])
    y = tf.placeholder(tf.float32, [])
    call = session.make_callable({"sum": x + y}, [x, y])
    assert call(1.0, 2.0) == {"sum": 3.0}
    with pytest.raises(TypeError, match="takes 2 argument"):
        call(1.0)
    with pytest.raises(ValueError, match="Cannot feed value of shape"):
        call([1.0], 2.0)
    with pytest.raises(TypeError, match="feed_list"):
        session.make_callable(x, x)
    with pytest.raises(TypeError, match="accept_options"):
        call(1.0, 2.0, options=tf.RunOptions())


def test_growing_the_graph_between_runs(session):
    x = tf.constant(1.0)
    assert session.run(x) == 1.0
    y = x + 1.0
    assert session.run(y) == 2.0
    assert session.run([x, y]) == [1.0, 2.0]


def test_the_policy_compiles_what_is_hot_and_says_why(session):
    tf.set_random_seed(1)
    x = tf.placeholder(tf.float32, [4])
    y = tf.reduce_sum(x * 2.0)
    assert "tier: interpreted" in session.explain(y, {x: np.ones(4)})
    results = {float(session.run(y, {x: np.ones(4, np.float32)})) for _ in range(80)}
    assert results == {8.0}
    text = session.explain(y, {x: np.ones(4)})
    assert "tier: compiled (it has run" in text
    assert "program" in text


def test_what_takes_long_to_compile_is_not_hot_so_soon(session):
    tf.set_random_seed(1)
    x = tf.placeholder(tf.float32, [4])
    y = x
    for _ in range(8):  # look-ups: much code each
        y = tf.gather(y, [3, 2, 1, 0]) + 1.0
    for _ in range(80):
        assert session.run(y, {x: [0, 1, 2, 3]}).tolist() == [8, 9, 10, 11]
    assert "tier: interpreted" in session.explain(y, {x: np.ones(4)})


def test_options_are_checked():
    with pytest.raises(ValueError, match=r"tier='fast'(.|\n)*one of"):
        tf.SessionOptions(tier="fast")
    with pytest.raises(TypeError, match=r"config must be a tf\.ConfigProto"):
        tf.Session(config={"a": 1})
    with pytest.raises(TypeError, match=r"graph must be a tf\.Graph"):
        tf.Session(graph=3)
    with pytest.raises(
        tf.errors.NotFoundError, match=r"No session factory registered(.|\n)*target 'foo://bar'(.|\n)*grpc://host:port"
    ):
        tf.Session("foo://bar")


def test_devices():
    with tf.device("/device:GPU:99"):
        x = tf.constant(1.0) + 1.0
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="Cannot assign a device for operation"),
    ):
        session.run(x)
    with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
        assert session.run(x) == 2.0
    with tf.device("/cpu:0"):
        y = tf.constant(1.0) + 1.0
    with tf.Session() as session:
        assert session.run(y) == 2.0


def test_run_metadata_of_a_program():
    x = tf.placeholder(tf.float32, [2])
    y = tf.reduce_sum(x * 3.0)
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        for _ in range(2):
            metadata = tf.RunMetadata()
            options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
            assert session.run(y, {x: [1, 2]}, options=options, run_metadata=metadata) == 9.0
            (node,) = metadata.step_stats.dev_stats[0].node_stats
            assert node.node_name == "program_0"
            assert "mul" in node.timeline_label
            assert node.all_end_rel_micros > 0
        untraced = tf.RunMetadata()
        session.run(y, {x: [1, 2]}, run_metadata=untraced)
        assert not untraced.step_stats.dev_stats


def test_names_may_be_bytes(session):
    assert tf.constant(44.0, name=b"e").op.name == "e"
    assert tf.add(1.0, 2.0, name=b"f").op.name == "f"


def test_run_metadata(session):
    x = tf.constant(1.0) + 1.0
    metadata = tf.RunMetadata()
    session.run(x, options=tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE), run_metadata=metadata)
    assert "add" in {node.node_name for node in metadata.step_stats.dev_stats[0].node_stats}


@pytest.mark.parametrize("tier", ["interpreted", "compiled", "auto"])
@pytest.mark.parametrize("which", ["variable", "read"])
def test_a_fed_variable_is_what_bodies_read(which, tier):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        w = tf.get_variable("w", [2], initializer=tf.ones_initializer())
        other = tf.get_variable("other", [2], initializer=tf.ones_initializer())
        p = tf.placeholder(tf.bool, [])

        def body(i, y):
            with tf.control_dependencies([tf.assign_add(other, y)]):
                return i + 1, tf.cond(p, lambda: y * w, lambda: y + w)

        _, inside = tf.while_loop(lambda i, y: i < 3, body, (0, tf.ones([2])))
        gradient = tf.gradients(inside, w)[0]
        session.run(other.initializer)
        feed = {w if which == "variable" else w.value(): [2.0, 3.0], p: True}
        for _ in range(3):  # w itself has no value
            np.testing.assert_array_equal(session.run([inside, gradient], feed), [[8.0, 27.0], [12.0, 27.0]])
        np.testing.assert_array_equal(session.run(other), [22.0, 40.0])  # 1 + 3 (1 + w + w**2)
        session.run(w.initializer)
        np.testing.assert_array_equal(session.run(inside, {p: False}), [4.0, 4.0])
        np.testing.assert_array_equal(session.run(inside, feed), [8.0, 27.0])
        np.testing.assert_array_equal(session.run(w), [1.0, 1.0])


def test_a_fed_variable_is_refused_where_a_body_writes_it_or_reads_it_anew():
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.get_variable("w", [], initializer=tf.ones_initializer())
        written = tf.cond(tf.constant(True), lambda: tf.assign_add(w, 1.0) * 2.0, lambda: w * 1.0)
        anew = tf.cond(tf.constant(True), lambda: w.read_value() * 2.0, lambda: w * 1.0)
        session.run(w.initializer)
        with pytest.raises(tf.errors.UnimplementedError, match=r"'w'(.|\n)*a variable that the body only reads"):
            session.run(written, {w: 5.0})
        with pytest.raises(tf.errors.UnimplementedError, match=r"'w'(.|\n)*without read_value\(\)"):
            session.run(anew, {w.value(): 5.0})
        assert session.run(anew, {w: 5.0}) == 10.0
        assert session.run(w) == 1.0


def test_a_fed_variable_is_refused_where_a_body_that_waits_uses_it():
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.get_variable("w", [], initializer=tf.ones_initializer())
        queue = tf.FIFOQueue(9, tf.float32, shapes=[[]])
        _, sent = tf.while_loop(
            lambda i, y: i < 3,
            lambda i, y: (i + 1, tf.tuple([y * w], control_inputs=[queue.enqueue(y * w)])[0]),
            (0, tf.constant(1.0)),
        )
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.UnimplementedError, match="value fed for variable 'w'"):
            session.run(sent, {w: 2.0})
        assert session.run(queue.size()) == 0
