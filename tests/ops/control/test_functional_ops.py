"""Maps, scans and folds over rows: in both tiers against Python, gradients, structures, shapes, errors."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest

import anabranch as tf
from anabranch.session import SessionOptions
from anabranch.testing import check_gradients

X = np.array([[1.0, 2.0], [-3.0, 0.5], [2.0, 4.0], [0.25, -1.0]])


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=request.param)) as active:
        yield active


@pytest.fixture(params=[[4, 2], [None, 2], None], ids=["static", "dynamic", "unknown"])
def x(request, session):
    return tf.placeholder(tf.float64, request.param)


def step(total, row):
    return 2.0 * total + row * row


def test_map(session, x) -> None:
    found = session.run([tf.map_fn(lambda row: row * row, x), tf.map_fn(tf.reduce_sum, x)], {x: X})
    np.testing.assert_array_equal(found[0], X * X)
    np.testing.assert_array_equal(found[1], X.sum(1))


def test_map_of_nothing(session) -> None:
    x = tf.placeholder(tf.float32, [None, 2])
    made = tf.map_fn(lambda row: row * row, x)
    assert session.run(made, {x: np.zeros((0, 2))}).shape == (0, 2)


def test_map_of_structures(session, x) -> None:
    made = tf.map_fn(
        lambda part: {"sum": part[0] + part[1], "wide": tf.cast(part[1], tf.int32)},
        (x, x * 2.0),
        dtype={"sum": tf.float64, "wide": tf.int32},
    )
    found = session.run(made, {x: X})
    np.testing.assert_array_equal(found["sum"], 3 * X)
    np.testing.assert_array_equal(found["wide"], (2 * X).astype(np.int32))


def test_map_of_strings(session) -> None:
    made = tf.map_fn(lambda word: tf.string_join([word, word]), tf.constant(["a", "bc"]))
    assert session.run(made).tolist() == [b"aa", b"bcbc"]


def test_map_in_a_map(session, x) -> None:
    made = tf.map_fn(lambda row: tf.map_fn(lambda item: item + 1.0, row), x)
    np.testing.assert_array_equal(session.run(made, {x: X}), X + 1)


@pytest.mark.parametrize("reverse", [False, True])
@pytest.mark.parametrize("start", [None, [1.0, -1.0]])
def test_scan(session, x, start, reverse: bool) -> None:
    if start is not None:  # the loop's variable has a shape, so its next value must have one
        x.set_shape([None, 2])
    made = tf.scan(step, x, initializer=None if start is None else tf.constant(start, tf.float64), reverse=reverse)
    rows = list(X[::-1] if reverse else X)
    wanted = list(itertools.accumulate(rows, step, initial=None if start is None else np.array(start)))
    wanted = wanted if start is None else wanted[1:]
    found = session.run(made, {x: X})
    np.testing.assert_allclose(found[::-1] if reverse else found, wanted)


def test_scan_with_other_structures(session, x) -> None:
    made = tf.scan(
        lambda state, row: (state[0] + 1, state[1] + tf.reduce_sum(row)),
        x,
        initializer=(tf.constant(0), tf.constant(0.0, tf.float64)),
    )
    counts, sums = session.run(made, {x: X})
    np.testing.assert_array_equal(counts, [1, 2, 3, 4])
    np.testing.assert_allclose(sums, np.cumsum(X.sum(1)))


@pytest.mark.parametrize("start", [None, [1.0, -1.0]])
def test_folds(session, x, start) -> None:
    x.set_shape([None, 2])
    initializer = None if start is None else tf.constant(start, tf.float64)
    left, right = session.run([tf.foldl(step, x, initializer), tf.foldr(step, x, initializer)], {x: X})
    first = [] if start is None else [np.array(start)]
    np.testing.assert_allclose(left, functools.reduce(step, [*first, *X]))
    np.testing.assert_allclose(right, functools.reduce(step, [*first, *X[::-1]]))


def test_folds_of_structures(session, x) -> None:
    x.set_shape([None, 2])
    made = tf.foldl(lambda total, row: {"a": total["a"] + row[0] * row[1]}, (x, x), initializer={"a": np.zeros(2)})
    np.testing.assert_allclose(session.run(made, {x: X})["a"], (X * X).sum(0))


def test_static_shapes() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [3, 2])
        assert tf.map_fn(lambda row: row * row, x).shape.as_list() == [3, 2]
        assert tf.map_fn(tf.reduce_sum, x).shape.as_list() == [3]
        assert tf.scan(lambda a, b: a + b, x).shape.as_list() == [3, 2]
        assert tf.foldl(lambda a, b: a + b, x).shape.as_list() == [2]
        y = tf.placeholder(tf.float32, [None, 2])
        assert tf.map_fn(lambda row: row * row, y).shape.as_list() == [None, 2]


def test_names() -> None:
    with tf.Graph().as_default():
        x = tf.constant([1.0])
        for made, scope in (
            (tf.map_fn(tf.square, x), "map/"),
            (tf.scan(tf.add, x), "scan/"),
            (tf.foldl(tf.add, x, name="f"), "f/"),
        ):
            assert made.name.startswith(scope)


GRADIENTS = {
    "map": lambda x: tf.map_fn(lambda row: tf.sin(row) * row, x),
    "map with capture": lambda x: tf.map_fn(lambda row: row * x[0], x),
    "scan": lambda x: tf.scan(step, x),
    "scan from the end": lambda x: tf.scan(step, x, initializer=x[1], reverse=True),
    "foldl": lambda x: tf.foldl(lambda total, row: total * tf.cos(row), x),
    "foldr": lambda x: tf.foldr(step, x, initializer=tf.ones([2], tf.float64)),
}


@pytest.mark.parametrize("name", list(GRADIENTS))
def test_gradients(name: str) -> None:
    check_gradients(GRADIENTS[name], [X], order=1)


def test_no_gradient_without_back_prop() -> None:
    with tf.Graph().as_default():
        x = tf.constant([1.0, 2.0])
        assert tf.gradients(tf.map_fn(tf.square, x, back_prop=False), x) == [None]


def test_effects_in_a_map(session) -> None:
    seen = []

    def note(value):
        seen.append(float(value))
        return np.float32(value * 2)

    x = tf.placeholder(tf.float32, [None])
    made = tf.map_fn(lambda item: tf.py_func(note, [item], tf.float32), x)
    np.testing.assert_array_equal(session.run(made, {x: [1, 2, 3]}), [2, 4, 6])
    assert seen == [1, 2, 3]


def test_ragged_rows_in_a_map(session) -> None:
    """What depends on the size of a part: masks, and reversing."""
    lengths = tf.placeholder(tf.int32, [None])
    masks = tf.map_fn(lambda n: tf.sequence_mask(n, 4), lengths, dtype=tf.bool)
    x = tf.placeholder(tf.float32, [None, 2, 4])
    turned = tf.map_fn(lambda part: tf.reverse_sequence(part, [3, 2], seq_axis=1, batch_axis=0), x)
    value = np.arange(24, dtype=np.float32).reshape(3, 2, 4)
    found = session.run([masks, turned], {lengths: [0, 2, 4], x: value})
    np.testing.assert_array_equal(found[0], np.arange(4) < np.array([[0], [2], [4]]))
    wanted = value.copy()
    wanted[:, 0, :3] = value[:, 0, 2::-1]
    wanted[:, 1, :2] = value[:, 1, 1::-1]
    np.testing.assert_array_equal(found[1], wanted)


# -------------------------------------------------------------------------------------------------------------- errors
@pytest.mark.parametrize("function", [tf.map_fn, tf.scan, tf.foldl, tf.foldr])
def test_wrong_arguments(function) -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [3, 2])
        with pytest.raises(TypeError, match=r"(?s)fn must be callable.*Given: fn=1.*Instead: tf\."):
            function(1, x)
        with pytest.raises(ValueError, match=r"(?s)1\+ dimensional Tensor, not a scalar.*Given: .*Instead: "):
            function(lambda *a: a[0], tf.constant(1.0))
        with pytest.raises(ValueError, match=r"(?s)Given: elems=\(\).*at least one tensor"):
            function(lambda *a: a[0], ())
        with pytest.raises(ValueError, match=r"(?s)3 and 4 rows.*as many rows in each"):
            function(lambda *a: a[-1], (x, tf.zeros([4])))


def test_wrong_results_name_the_function() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [3, 2])
        with pytest.raises(ValueError, match=r"(?s)same nested structure.*<lambda>.*test_functional_ops\.py.*dtype="):
            tf.map_fn(lambda row: (row, row), x)
        with pytest.raises(ValueError, match=r"(?s)same nested structure.*<lambda>.*Instead: initializer="):
            tf.scan(lambda total, row: (total, row), x)
        with pytest.raises(ValueError, match=r"(?s)same nested structure.*<lambda>.*Instead: initializer="):
            tf.foldl(lambda total, row: [total], x)
        with pytest.raises(TypeError, match=r"(?s)trying to write dtype float32.*Instead: tf.cast"):
            tf.map_fn(lambda row: row, x, dtype=tf.int32)
        with pytest.raises(TypeError, match=r"(?s)sparse tensor.*Instead: tf.map_fn\(fn, x.values\)"):
            tf.map_fn(lambda row: row, tf.SparseTensor([[0]], [1.0], [1]))


def test_map_takes_the_signature_of_version_2():
    with tf.Graph().as_default(), tf.Session() as session:
        words = tf.constant([1, 2])
        found = tf.map_fn(
            lambda n: {"half": tf.cast(n, tf.float32) / 2.0}, words, fn_output_signature={"half": tf.float32}
        )
        assert session.run(found)["half"].tolist() == [0.5, 1.0]
        with pytest.raises(TypeError, match=r"dtype=(.|\n)*one of the two arguments(.|\n)*leave dtype out"):
            tf.map_fn(lambda n: n, words, dtype=tf.int32, fn_output_signature=tf.int32)
