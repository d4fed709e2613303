"""Refusals of `tf.contrib.layers` in TensorFlow's words, and spellings of sizes that its programs use."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anabranch as tf

layers = tf.contrib.layers


@pytest.fixture(autouse=True)
def _own_graph() -> Any:
    with tf.Graph().as_default():
        yield


def one_id(value: Any = 1) -> tf.SparseTensor:
    return tf.SparseTensor([[0, 0]], tf.constant([value], tf.int64 if value == 1 else None), [1, 1])


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: layers.conv2d(tf.zeros([1, 4, 4, 3]), 2, 3, data_format="CHWN"), "has to be either NCHW or NHWC"),
        (lambda: layers.max_pool3d(tf.zeros([1, 4, 4, 4, 3]), 2, data_format="X"), "has to be either NCDHW or NDHWC"),
        (lambda: layers.instance_norm(tf.placeholder(tf.float32)), "has undefined rank"),
        (lambda: layers.group_norm(tf.placeholder(tf.float32)), "has undefined rank"),
        (lambda: layers.instance_norm(tf.placeholder(tf.float32, [1, 4, 4, None])), "undefined channels dimension"),
        (lambda: layers.group_norm(tf.placeholder(tf.float32, [1, 4, 4, None])), "undefined channel dimension"),
        (lambda: layers.group_norm(tf.placeholder(tf.float32, [1, None, 4, 4]), groups=2), "undefined dimensions"),
        (lambda: layers.group_norm(tf.zeros([1, 4, 4, 4]), groups=3), "4 channels is not commensurate with 3 groups"),
        (
            lambda: layers.layer_norm(tf.zeros([3, 7]), begin_norm_axis=2),
            r"begin_params_axis \(-1\) and begin_norm_axis \(2\) must be < rank\(inputs\) \(2\)",
        ),
        (lambda: layers.layer_norm(tf.zeros([3, 7]), begin_params_axis=2), r"must be < rank\(inputs\) \(2\)"),
        (lambda: layers.layer_norm(tf.placeholder(tf.float32)), "has undefined rank"),
        (lambda: layers.layer_norm(tf.placeholder(tf.float32, [3, None])), r"shape\(inputs\)\[-1:\] is not fully"),
        (lambda: layers.softmax(tf.placeholder(tf.float32, [2, 3, None])), "dimension -1 of shape must be known"),
        (
            lambda: layers.spatial_softmax(tf.placeholder(tf.float32, [2, 3, 3, None])),
            "The num_channels dimension of the inputs to `spatial_softmax` should be defined",
        ),
        (lambda: layers.legacy_fully_connected(tf.zeros([3]), 2), "rank of x must be at least 2 not: 1"),
        (
            lambda: layers.legacy_fully_connected(tf.placeholder(tf.float32, [3, None]), 2),
            "last dimension of x must be known but is None",
        ),
        (
            lambda: layers.safe_embedding_lookup_sparse([tf.zeros([2, 3]), tf.zeros([2, 3], tf.float64)], one_id()),
            "must be of the same type",
        ),
        (
            lambda: layers.safe_embedding_lookup_sparse(tf.zeros([2, 3], tf.float64), one_id(), one_id(1.5)),
            "must be of the same type",
        ),
    ],
)
def test_refused(make: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        make()


def test_layers_of_integers_have_no_initial_values() -> None:
    for make in (
        lambda: layers.fully_connected(tf.zeros([3, 4], tf.int32), 2),
        lambda: layers.conv2d(tf.zeros([1, 4, 4, 3], tf.int32), 2, 3),
    ):
        with pytest.raises(TypeError, match="Cannot create initializer for non-floating point type"):
            make()


def test_tables_of_one_dtype_are_looked_up() -> None:
    tables = [np.ones([2, 3], np.float32), tf.Variable(tf.ones([2, 3]))]
    rows = layers.safe_embedding_lookup_sparse(tables, one_id(), one_id(2.0), combiner="sum")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run(rows).tolist() == [[2, 2, 2]]


def test_a_kernel_may_be_a_shape() -> None:
    images = tf.zeros([2, 3, 6, 3])
    assert layers.avg_pool2d(images, images.shape[1:3], stride=1).shape.as_list() == [2, 1, 1, 3]
    assert layers.conv2d(images, 5, images.shape[1:3], padding="VALID").shape.as_list() == [2, 1, 1, 5]


def test_a_condition_may_be_a_constant_number() -> None:
    for value in (True, False, 1, 0):
        assert layers.utils.smart_cond(tf.constant(value), lambda: "first", lambda: "second") == (
            "first" if value else "second"
        )


def test_variables_without_gradients_have_no_multiplied_ones() -> None:
    used, unused = tf.Variable(1.0, name="used"), tf.Variable(1.0, name="unused")
    step = tf.train.get_or_create_global_step()
    train = layers.optimize_loss(
        used * 2.0, step, 0.1, "SGD", gradient_multipliers={"used:0": 3.0, "unused:0": 5.0}, summaries=[]
    )
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        assert session.run([used, unused]) == [pytest.approx(0.4), 1.0]


def test_slim_has_what_layers_has() -> None:
    for name in ("optimize_loss", "embed_sequence", "bow_encoder", "summarize_tensor", "safe_embedding_lookup_sparse"):
        assert getattr(tf.contrib.slim, name) is getattr(layers, name)


def test_ends_of_a_net_have_the_same_names_when_it_is_used_again() -> None:
    slim = tf.contrib.slim

    def ends(reuse: bool) -> list[str]:
        with tf.variable_scope("net", reuse=reuse) as scope:
            name = f"{scope.original_name_scope}ends"
            with slim.arg_scope([slim.conv2d, slim.fully_connected, slim.max_pool2d], outputs_collections=name):
                y = slim.max_pool2d(slim.conv2d(tf.zeros([1, 8, 8, 1]), 2, 3, scope="a"), 2, scope="p")
                slim.fully_connected(slim.flatten(y), 2, scope="e")
            return list(slim.utils.convert_collection_to_dict(name))

    assert ends(False) == ["net/a", "net/p", "net/e"]
    assert ends(True) == ["net/a", "net_1/p", "net/e"]  # a pool has no variable scope
    with tf.name_scope("outer"):
        assert ends(True) == ["net/a", "outer/net/p", "net/e"]
