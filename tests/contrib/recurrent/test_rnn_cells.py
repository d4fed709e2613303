"""Refusals of recurrent cells of `tf.contrib.rnn`, and what a custom getter does to a cell's variables."""

from __future__ import annotations

from typing import Any

import pytest

import anabranch as tf

rnn = tf.contrib.rnn


@pytest.mark.parametrize(
    ("make", "features", "text"),
    [
        (lambda: rnn.GLSTMCell(3, number_of_groups=2), 4, "num_units must be divisible by number_of_groups"),
        (lambda: rnn.GLSTMCell(4, num_proj=3, number_of_groups=2), 4, "num_proj must be divisible by number_of_groups"),
        (lambda: rnn.GLSTMCell(4, number_of_groups=2), 3, r"input size \(3\) must be divisible"),
        (lambda: rnn.IntersectionRNNCell(3), 4, "Must have input size == output size for Intersection RNN"),
        (lambda: rnn.GridLSTMCell(2), 4, "Must specify num_frequency_blocks"),
        (
            lambda: rnn.GridLSTMCell(2, feature_size=2, frequency_skip=1, num_frequency_blocks=[2]),
            4,
            "requires 2 but gets 3",
        ),
        (
            lambda: rnn.GridLSTMCell(2, feature_size=2, frequency_skip=1, num_frequency_blocks=[1, 2]),
            4,
            "Length of num_frequency_blocks is not 1, but instead is 2",
        ),
        (
            lambda: rnn.TimeFreqLSTMCell(2, feature_size=4, num_unit_shards=9),
            4,
            r"Too many shards: shape=\[8, 8\], num_shards=9",
        ),
        (lambda: rnn.LayerNormLSTMCell(2), None, "Could not infer input size"),
        (lambda: rnn.GLSTMCell(2), None, "input size must be statically known"),
        (
            lambda: rnn.AttentionCellWrapper(rnn.LSTMCell(2), 4, state_is_tuple=False),
            4,
            "Cell returns tuple of states, but the flag state_is_tuple is not set. State size is: LSTMStateTuple",
        ),
    ],
)
def test_refused(make: Any, features: int | None, text: str) -> None:
    def call() -> None:
        cell = make()
        cell(tf.placeholder(tf.float32, [3, features]), cell.zero_state(3, tf.float32))

    with pytest.raises(ValueError, match=text):
        call()


def test_what_a_custom_getter_makes_untrainable_is_no_trainable_variable_of_the_layer() -> None:
    def only_biases(getter: Any, name: str, **kwargs: Any) -> Any:
        return getter(name, **{**kwargs, "trainable": "bias" in name})

    with tf.variable_scope("root", custom_getter=only_biases):
        cell = rnn.BasicRNNCell(2)
        cell(tf.zeros([1, 2]), tf.zeros([1, 2]))
    assert [variable.op.name for variable in cell.trainable_variables] == ["root/basic_rnn_cell/bias"]
    assert [variable.op.name for variable in cell.non_trainable_variables] == ["root/basic_rnn_cell/kernel"]
