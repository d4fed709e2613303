"""What the ops of whole LSTM and GRU steps tell of shapes, and refuse."""

from __future__ import annotations

import pytest

import anabranch as tf
from anabranch.core.graph.build import build


def lstm(kind="LSTMBlockCell", x=(2, 3), w=(7, 16), b=(16,)):
    state = [tf.zeros([2, 4])] * 2
    given = [tf.placeholder(tf.float32, shape) for shape in (x, w, b)]
    inputs = [given[0], *state, given[1], *[tf.zeros([4])] * 3, given[2]]
    return build(kind, *([] if kind == "LSTMBlockCell" else [tf.constant(3, tf.int64)]), *inputs)


def test_shapes():
    assert lstm().h.shape.as_list() == [2, 4]
    assert lstm(x=[None, None], w=[None, None]).cs.shape.as_list() == [2, 4]
    assert lstm("BlockLSTM", x=[None, 2, 3]).h.shape.as_list() == [None, 2, 4]
    assert lstm("BlockLSTMV2", x=[5, None, 3], b=[None]).h.shape.as_list() == [5, 2, 4]


def gru(w_ru=(5, 6), w_c=(5, 3)):
    zeros = [tf.zeros(shape) for shape in ((2, 2), (2, 3), w_ru, w_c, (6,), (3,))]
    return build("GRUBlockCell", *zeros)


def test_shape_of_gru():
    assert gru().h.shape.as_list() == [2, 3]


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: lstm(w=[8, 16]), r"Given: w of shape \[8,16\] and b of shape \[16\] for inputs of 3 features"),
        (lambda: lstm(b=[12]), r"and b of shape \[12\]"),
        (lambda: lstm("BlockLSTM", x=[5, 2, 9]), "for inputs of 9 features"),
        (lambda: gru(w_ru=(5, 9)), r"Given: w_ru of shape \[5,9\] and w_c of shape \[5,3\]"),
        (lambda: gru(w_c=(4, 3)), r"Expected: \[inputs \+ units, 2 \* units\]"),
    ],
)
def test_refused(call, text):
    with pytest.raises(ValueError, match=text):
        call()
