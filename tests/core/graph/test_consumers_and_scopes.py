"""Consumers of a tensor, names of scopes, and what is said of lists whose values do not fit."""

import pytest

import anabranch as tf


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def test_consumer_is_listed_for_each_input():
    x, y = tf.constant(2.0), tf.constant(3.0)
    square = x * x
    assert x.consumers() == [square.op, square.op]
    square.op._update_input(1, y)
    assert (x.consumers(), y.consumers()) == ([square.op], [square.op])
    assert tf.Session().run(square) == 6.0


def test_gradient_of_a_loop_that_asks_twice_for_one_shape():
    x = tf.constant([1.0, 2.0])
    total = tf.while_loop(
        lambda i, t: i < 3,
        lambda i, t: (i + 1, t * x * tf.cast(tf.size(t) + tf.shape_n([t, t])[1][0], tf.float32)),
        [0, x],
    )[1]
    assert tf.Session().run(tf.gradients(total, x)[0]).tolist() == [4 * 64.0, 32 * 64.0]


def test_a_slash_is_a_scope_without_names():
    with tf.name_scope("a"), tf.name_scope("/") as scope:
        assert scope == "/"
        assert tf.constant(1, name="x").op.name == "x"
    with tf.name_scope("b//c") as scope:
        assert scope == "b//c/"


@pytest.mark.parametrize(
    ("name", "stripped"),
    [("a/b/c", "b/c"), ("a///b", "b"), ("^a/b", "^b"), ("loc:@a/b", "loc:@b"), ("aa/b", "aa/b"), ("a", "a")],
)
def test_scopes_of_names(name, stripped):
    assert tf.contrib.framework.strip_name_scope(name, "a/") == stripped
    mark = next((mark for mark in ("^", "loc:@") if name.startswith(mark)), "")
    assert tf.contrib.framework.prepend_name_scope(name, "s") == f"{mark}s/{name.removeprefix(mark)}"


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (
            lambda: tf.concat([[1], ["a"]], 0),
            "Tensors in list passed to 'values' of 'ConcatV2' Op have types \\[int32, string\\] that don't all match",
        ),
        (lambda: tf.concat([tf.zeros([1]), tf.zeros([1], tf.int32)], 0), "types \\[float32, int32\\]"),
        (lambda: tf.meshgrid([1], [2], indexing="x"), "indexing parameter must be either"),
        (lambda: tf.dynamic_stitch([0, "a"], [[1], [2]]), "\\[int32, string\\] that do not match expected type int32"),
        (lambda: tf.case([("a", lambda: 1)]), "pred"),
    ],
)
def test_lists_name_all_their_types(function, words):
    with pytest.raises((TypeError, ValueError), match=words):
        function()


def test_graph_defs_that_differ_name_the_node():
    one, other = tf.Graph(), tf.Graph()
    with one.as_default():
        tf.constant(1, name="left")
    with pytest.raises(AssertionError, match=r'^Found unexpected node \'name: "left"'):
        tf.test.assert_equal_graph_def(one.as_graph_def(), other.as_graph_def())
    with pytest.raises(AssertionError, match=r'^Not found: expected node \'name: "left"'):
        tf.test.assert_equal_graph_def(other.as_graph_def(), one.as_graph_def())


def test_an_imported_tensor_that_is_not_there_is_named():
    for name, kind in (("B", "node"), ("B:0", "tensor")):
        with pytest.raises(ValueError, match=f"^Requested return {kind} '{name}' not found in graph def"):
            tf.import_graph_def(tf.GraphDef(), return_elements=[name])
