"""Names that layers of `tf.contrib.layers` give, ids of indicators, and checkpoints beside folders of their name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import hook

layers = tf.contrib.layers


@pytest.fixture(autouse=True)
def _own_graph() -> Any:
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize(
    ("make", "scope"),
    [
        (lambda **given: layers.conv2d(tf.zeros([3, 7, 9, 2]), 4, 3, **given), "Conv"),
        (lambda **given: layers.conv1d(tf.zeros([3, 7, 2]), 4, 3, scope="one", **given), "one"),
        (lambda **given: layers.fully_connected(tf.zeros([3, 7]), 4, **given), "fully_connected"),
    ],
)
def test_losses_of_weights_have_the_names_of_core_layers(make: Any, scope: str) -> None:
    regularizer = layers.l2_regularizer(0.1)
    with tf.variable_scope("outer"):
        make(weights_regularizer=regularizer, biases_regularizer=regularizer)
    assert [loss.op.name for loss in tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)] == [
        f"outer/{scope}/kernel/Regularizer/l2_regularizer",
        f"outer/{scope}/bias/Regularizer/l2_regularizer",
    ]
    assert [variable.op.name for variable in tf.trainable_variables()] == [
        f"outer/{scope}/weights",
        f"outer/{scope}/biases",
    ]


def test_a_regularizer_of_the_scope_names_its_losses_by_the_variables() -> None:
    with tf.variable_scope("v", regularizer=layers.l2_regularizer(0.1)):
        layers.conv2d(tf.zeros([3, 7, 9, 2]), 4, 3)
    assert [loss.op.name for loss in tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)] == [
        "v/Conv/weights/Regularizer/l2_regularizer",
        "v/Conv/biases/Regularizer/l2_regularizer",
    ]


def test_repeated_layers_with_arguments_keep_their_name() -> None:
    layers.stack(tf.zeros([3, 7]), layers.relu, [4, 5])
    layers.repeat(tf.zeros([3, 7]), 2, layers.linear, 7)
    names = [variable.op.name for variable in tf.trainable_variables()]
    assert names[::2] == [
        "Stack/fully_connected_1/weights",
        "Stack/fully_connected_2/weights",
        "Repeat/fully_connected_1/weights",
        "Repeat/fully_connected_2/weights",
    ]


# ------------------------------------------------------------------------------------------------------------------ ids
def test_places_of_what_is_indicated() -> None:
    to_ids = hook.resolve("contrib.layers.python.ops.sparse_ops", "indicators_to_sparse_ids")
    marks = np.array([[[0, 0, 1, 0], [0, 0, 0, 0]], [[1, 0, 1, 1], [0, 0, 1, 0]]])
    words = np.where(marks, "yes", "no")
    with tf.Session() as session:
        for ids in (
            to_ids(marks),
            to_ids(marks == 1),
            to_ids(words, ignore_value="no"),
            to_ids(tf.placeholder_with_default(marks, None)),
        ):
            value = session.run(ids)
            assert value.indices.tolist() == [[0, 0, 0], [1, 0, 0], [1, 0, 1], [1, 0, 2], [1, 1, 0]]
            assert value.values.tolist() == [2, 0, 2, 3, 2]
            assert value.dense_shape.tolist() == [2, 2, 3]
        assert session.run(to_ids(marks, dtype=tf.int32)).values.dtype == np.int32
    with pytest.raises(ValueError, match="not integer"):
        to_ids(marks, dtype=tf.float32)


def test_lengths_of_rows() -> None:
    lengths = hook.resolve("contrib.layers.python.ops.sparse_ops", "sparse_row_envelope")
    sparse = tf.SparseTensor([[0, 0], [2, 0], [2, 1], [2, 3]], tf.ones([4]), [4, 4])
    with tf.Session() as session:
        assert session.run(lengths(sparse)).tolist() == [1, 0, 4, 0]
        assert session.run(lengths(sparse, 1, 0)).tolist() == [3, 3, 0, 3]
    with pytest.raises(ValueError, match="Row and column can not be the same axis"):
        lengths(sparse, 1, 1)


# ------------------------------------------------------------------------------------------------------------ variables
def test_a_variable_has_the_dtype_of_its_value_or_scope() -> None:
    variable = tf.contrib.framework.variable
    assert variable("of_value", initializer=tf.constant(12)).dtype.base_dtype == tf.int32
    with tf.variable_scope("doubles", dtype=tf.float64):
        assert variable("of_scope", []).dtype.base_dtype == tf.float64
    assert variable("plain", []).dtype.base_dtype == tf.float32


def test_a_checkpoint_beside_a_folder_of_its_name(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    saved = tf.Variable(3.0, name="saved")
    target = tf.Variable(0.0, name="target")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        prefix = tf.train.Saver([saved]).save(session, str(tmp_path / "model"))
        assert tf.train.load_checkpoint(prefix).get_tensor("saved") == 3
        operation, feed = tf.contrib.framework.assign_from_checkpoint(prefix, {"saved": target})
        session.run(operation, feed)
        assert session.run(target) == 3
        session.run(target.initializer)
        tf.contrib.framework.assign_from_checkpoint_fn(prefix, {"saved": target}, ignore_missing_vars=True)(session)
        assert session.run(target) == 3
