"""What parts of an image networks see; numbers of the first nets are TensorFlow 1.15.5's."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

field_of = tf.contrib.receptive_field.compute_receptive_field_from_graph_def
slim = tf.contrib.slim


def branches(x, shift=1):
    left = slim.conv2d(x, 1, 1, stride=4, padding="VALID")
    right = slim.conv2d(tf.pad(x, [[0, 0], [shift, 0], [shift, 0], [0, 0]]), 1, 3, stride=2, padding="VALID")
    return tf.nn.relu(left + slim.conv2d(right, 1, 1, stride=2, padding="VALID"))


def deep(x):
    paths = [slim.avg_pool2d(slim.conv2d(x, 2, 5), 2), slim.conv2d(x, 2, 4, stride=2)]
    return slim.separable_conv2d(tf.concat(paths, 3), 4, [3, 1], 1)


def normalized(x):
    hidden = slim.conv2d(slim.conv2d(x, 4, [3, 5], stride=2), 4, 3)
    return slim.max_pool2d(slim.batch_norm(hidden, is_training=False), 3, stride=3)


def dilated(x):
    return tf.layers.conv2d(tf.nn.elu(x), 1, 3, dilation_rate=2)


@pytest.mark.parametrize(
    ("net", "size", "expected", "last"),
    [
        (branches, None, [3, 3, 4, 4, 1, 1], None),
        (branches, [33, 25], [3, 3, 4, 4, 1, 1], [9, 7]),
        (deep, None, [6, 10, 2, 2, 2, 4], None),
        (deep, [32, 24], [6, 10, 2, 2, 2, 4], [16, 12]),
        (normalized, None, [13, 11, 6, 6, None, None], None),
        (normalized, [33, 25], [13, 11, 6, 6, 4, 3], [5, 4]),
    ],
)
def test_nets(net, size, expected, last):
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, None, None, 1], name="x")
        y = net(x)
        assert list(field_of(graph, x, y, input_resolution=size)) == expected
        info, nodes = tf.contrib.receptive_field.get_compute_order(graph.as_graph_def(), "x", size)
        assert info["x"].order == 0
        assert info[y.op.name].output_size == last
        assert nodes["x"].op == "Placeholder"


def test_what_an_output_sees_is_where_its_gradient_is():
    with tf.Graph().as_default() as graph, tf.Session() as session:
        x = tf.placeholder(tf.float32, [1, 32, 24, 1], name="x")
        for net in (branches, deep):
            y = net(x)
            field = field_of(graph, x, y, input_resolution=[32, 24])
            place = [2, 3]  # x, y
            gradient = tf.gradients(tf.reduce_sum(y[0, place[1], place[0]]), x)[0]
            for variable in tf.global_variables():
                variable.load(np.ones(variable.shape.as_list(), np.float32), session)
            rows, columns = np.nonzero(session.run(gradient, {x: np.ones([1, 32, 24, 1])})[0, :, :, 0])
            center = field.compute_input_center_coordinates(place)
            for axis, seen in enumerate((columns, rows)):
                middle, reach = center[axis], (field.size[axis] - 1) / 2
                assert middle - reach <= seen.min() <= seen.max() <= middle + reach
            assert field.compute_feature_coordinates(center).tolist() == place
            assert field.compute_feature_coordinates(center[1:], axis=[1]).tolist() == place[1:]


def test_dilations_count():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [1, 9, 9, 1])
        kernel = tf.ones([3, 2, 1, 1])
        y = tf.nn.conv2d(x, kernel, [1] * 4, "VALID", dilations=[1, 2, 3, 1])
        assert list(field_of(graph, x, y)) == [4, 5, 1, 1, 0, 0]


def test_what_has_no_receptive_field():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, None, None, 1], name="x")
        with pytest.raises(ValueError, match="not aligned since center shift"):
            field_of(graph, x, branches(x, 0))
        with pytest.raises(ValueError, match="Unknown layer for operation"):
            field_of(graph, x, tf.matrix_inverse(x))
        with pytest.raises(ValueError, match="Output node was not found"):
            field_of(graph, x, "nowhere")
        with pytest.raises(ValueError, match="Input node was not found"):
            field_of(graph, "nowhere", tf.nn.relu(x))
        with pytest.raises(ValueError, match="does not match that of `axis`"):
            field_of(graph, x, tf.nn.relu(x)).compute_input_center_coordinates([1, 2, 3])
