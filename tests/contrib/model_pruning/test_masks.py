"""`tf.contrib.model_pruning`: what moves the masks; values stand in `tests/golden/contrib.json`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf

pruning = tf.contrib.model_pruning


def test_parts_of_a_variable_have_masks_of_their_own() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        with tf.variable_scope("", partitioner=tf.variable_axis_size_partitioner(40)):
            weights = tf.get_variable("weights", initializer=tf.linspace(1.0, 100.0, 100))
            product = pruning.apply_mask(weights, tf.get_variable_scope())
        move = pruning.Pruning(global_step=tf.constant(0), sparsity=tf.constant(0.7)).mask_update_op()
        session.run(tf.global_variables_initializer())
        assert np.count_nonzero(session.run(product)) == 100
        session.run(move)
        np.testing.assert_array_equal(session.run(product), np.where(np.arange(1, 101) > 70, np.arange(1, 101), 0))


def test_some_weights_have_targets_of_their_own_and_some_none() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        products = []
        for name in ("first", "second", "third"):
            with tf.variable_scope(name):
                products.append(pruning.apply_mask(tf.get_variable("w", initializer=tf.linspace(1.0, 8.0, 8)), name))
        spec = pruning.get_pruning_hparams().parse("weight_sparsity_map=[first:0.25],do_not_prune=[third]")
        move = pruning.Pruning(spec, global_step=tf.constant(100)).mask_update_op()
        session.run(tf.global_variables_initializer())
        session.run(move)
        assert [np.count_nonzero(value) for value in session.run(products)] == [6, 4, 8]


def test_masks_move_when_it_is_time() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.train.get_or_create_global_step()
        product = pruning.apply_mask(tf.Variable(tf.linspace(1.0, 100.0, 100)))
        sparsity = tf.Variable(0.0)
        spec = pruning.get_pruning_hparams().parse("pruning_frequency=2,begin_pruning_step=1,end_pruning_step=6")
        move = pruning.Pruning(spec, sparsity=sparsity).conditional_mask_update_op()
        session.run(tf.global_variables_initializer())
        left = []
        for turn in range(10):
            sparsity.load(turn / 10, session)
            session.run(move)
            session.run(tf.assign_add(step, 1))
            left.append(np.count_nonzero(session.run(product)))
        assert left == [100, 100, 80, 80, 60, 60, 40, 40, 40, 40]


def test_training_moves_masks_and_a_checkpoint_can_be_frozen(tmp_path: Path) -> None:
    with tf.Graph().as_default():
        x = tf.constant(np.random.RandomState(0).randn(8, 6), tf.float32)
        outputs = pruning.masked_fully_connected(x, 4, activation_fn=None, scope="dense")
        loss = tf.losses.mean_squared_error(tf.zeros([8, 4]), outputs)
        step = tf.train.get_or_create_global_step()
        train_op = tf.contrib.slim.learning.create_train_op(loss, tf.train.GradientDescentOptimizer(0.01))
        spec = pruning.get_pruning_hparams().parse("pruning_frequency=1,sparsity_function_end_step=3")
        update = pruning.Pruning(spec, step)
        update.add_pruning_summaries()
        pruning.train(
            train_op, str(tmp_path), update.conditional_mask_update_op(), number_of_steps=4, save_summaries_secs=1000
        )
    frozen = pruning.graph_def_from_checkpoint(str(tmp_path), ["dense/BiasAdd"])
    stripped = pruning.strip_pruning_vars_fn(frozen, ["dense/BiasAdd"])
    weights = [node for node in stripped.node if node.name == "dense/weights/masked_weight"]
    assert [node.op for node in weights] == ["Const"]
    assert np.count_nonzero(tf.make_ndarray(weights[0].attr["value"].tensor)) == 12


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"begin_pruning_step": -1}, "Illegal value for begin_pruning_step"),
        ({"begin_pruning_step": 3, "end_pruning_step": 2}, "Pruning must begin before it can end"),
        ({"sparsity_function_end_step": 0}, "Sparsity function requires begin_step < end_step"),
        ({"threshold_decay": 1.0}, r"threshold_decay must be in range \[0,1\)"),
        ({"target_sparsity": 1.0}, r"target_sparsity must be in range \[0,1\)"),
        ({"weight_sparsity_map": ["a:1.5"]}, "Weight sparsity can not exceed 1.0"),
        ({"block_dims_map": ["a:4"]}, "Expected 2 values for block dim"),
    ],
)
def test_impossible_hyperparameters_are_refused(values: dict[str, Any], text: str) -> None:
    with tf.Graph().as_default():
        spec = pruning.get_pruning_hparams().override_from_dict(values)
        with pytest.raises(ValueError, match=text):
            pruning.Pruning(spec, global_step=tf.constant(0))


def test_refusals_of_layers() -> None:
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="not supported for input with rank 3"):
            pruning.masked_conv2d(tf.ones([2, 3, 4]), 2, 3)
        with pytest.raises(ValueError, match=r"num_outputs should be int or long, got 2\.5"):
            pruning.masked_fully_connected(tf.ones([2, 3]), 2.5)
        spec = pruning.get_pruning_hparams().parse("weight_sparsity_map=[w:0.5,weights:0.2]")
        pruning.apply_mask(tf.Variable(tf.ones([4]), name="weights"))
        with pytest.raises(ValueError, match="Multiple matches in weight_sparsity_map for weight weights"):
            pruning.Pruning(spec, tf.constant(0)).mask_update_op()
