"""Cells of ``tf.contrib.rnn``: names of variables, which checkpoints hold, and values, as TensorFlow 1.15.5's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anabranch as tf

RNN, CELLS = tf.contrib.rnn, tf.nn.rnn_cell
GRU = {
    "gru_cell/gates/kernel": [6, 6],
    "gru_cell/gates/bias": [6],
    "gru_cell/candidate/kernel": [6, 3],
    "gru_cell/candidate/bias": [3],
}
NORMS = {f"{gate}/{part}": [4] for gate in ("transform", "forget", "output") for part in ("gamma", "beta")}
STATE = {"state/gamma": [4], "state/beta": [4]}
ATTENTION = {
    "attention/attn_w": [1, 1, 3, 3],
    "attention/attn_v": [3],
    "attention/kernel": [3, 3],
    "attention/bias": [3],
    "attn_output_projection/kernel": [6, 3],
    "attn_output_projection/bias": [3],
}
CASES: dict[str, tuple[Any, str, dict[str, list[int]], list[float]]] = {
    "coupled": (
        lambda: RNN.CoupledInputForgetGateLSTMCell(4),
        "coupled_input_forget_gate_lstm_cell/",
        {"W_0": [7, 12], "B": [12]},
        [5.1859969e-01, 2.6620245e-02, -3.1050527e-04, -5.1075779e-03],
    ),
    "coupled with peepholes": (
        lambda: RNN.CoupledInputForgetGateLSTMCell(4, use_peepholes=True),
        "coupled_input_forget_gate_lstm_cell/",
        {"W_0": [7, 12], "B": [12], "W_F_diag": [4], "W_O_diag": [4]},
        [6.3771695e-01, 3.8489401e-02, -2.5774253e-04, -4.5499909e-03],
    ),
    "coupled in shards": (
        lambda: RNN.CoupledInputForgetGateLSTMCell(4, num_proj=2, num_unit_shards=2, num_proj_shards=2),
        "coupled_input_forget_gate_lstm_cell/",
        {"W_0": [3, 12], "W_1": [2, 12], "B": [12], "W_P_0": [2, 2], "W_P_1": [2, 2]},
        [0.37027937, 0.05252009],
    ),
    "coupled and normalised": (
        lambda: RNN.CoupledInputForgetGateLSTMCell(4, layer_norm=True),
        "coupled_input_forget_gate_lstm_cell/",
        {"W_0": [7, 12], "B": [12], **NORMS, **STATE},
        [0.87286365, 0.4985682, 0.00998976, -0.02555806],
    ),
    "coupled with all": (
        lambda: RNN.CoupledInputForgetGateLSTMCell(4, True, num_proj=2, proj_clip=0.5, layer_norm=True),
        "coupled_input_forget_gate_lstm_cell/",
        {"W_0": [5, 12], "B": [12], **NORMS, "W_F_diag": [4], "W_O_diag": [4], **STATE, "W_P_0": [4, 2]},
        [0.4330647, -0.38921076],
    ),
    "attention": (
        lambda: RNN.AttentionCellWrapper(CELLS.GRUCell(3), 2, state_is_tuple=True),
        "attention_cell_wrapper/",
        {"kernel": [6, 3], "bias": [3], **GRU, **ATTENTION},
        [0.79209185, 0.86634213, 0.14408143],
    ),
}


@pytest.mark.parametrize("name", list(CASES))
def test_variables_and_outputs(name: str) -> None:
    make, scope, shapes, wanted = CASES[name]
    with tf.Graph().as_default(), tf.Session() as session:
        outputs, _ = tf.nn.static_rnn(make(), [tf.ones([2, 3])] * 2, dtype=tf.float32)
        variables = tf.global_variables()
        found = {variable.op.name: variable.shape.as_list() for variable in variables}
        assert found == {f"rnn/{scope}{variable}": shape for variable, shape in shapes.items()}
        assert list(found) == [f"rnn/{scope}{variable}" for variable in shapes]
        for variable in variables:
            shape = variable.shape.as_list()
            values = np.sin(np.arange(np.prod(shape)) + len(shape)).reshape(shape).astype(np.float32)
            variable.load(values, session)
        np.testing.assert_allclose(session.run(outputs[-1])[0], wanted, rtol=2e-5, atol=1e-6)


def test_a_highway_has_no_scope_of_its_own() -> None:
    with tf.Graph().as_default():
        cell = CELLS.MultiRNNCell([RNN.HighwayWrapper(CELLS.GRUCell(3), couple_carry_transform_gates=False)])
        tf.nn.static_rnn(cell, [tf.ones([2, 3])], dtype=tf.float32)
        names = [variable.op.name for variable in tf.global_variables()]
    gates = ["carry_w", "carry_b", "transform_w", "transform_b"]
    assert names == [f"rnn/multi_rnn_cell/cell_0/{name}" for name in (*GRU, *gates)]


def test_shards_are_rows() -> None:
    with tf.Graph().as_default():
        cell = RNN.CoupledInputForgetGateLSTMCell(1, num_unit_shards=5)
        with pytest.raises(ValueError, match="Too many shards"):
            tf.nn.static_rnn(cell, [tf.ones([2, 3])], dtype=tf.float32)


def test_blocks_make_peepholes_in_an_order_of_their_own() -> None:
    for cell, gates in (
        (CELLS.LSTMCell(4, use_peepholes=True), "fio"),
        (RNN.LSTMBlockCell(4, use_peephole=True), "ifo"),
    ):
        with tf.Graph().as_default():
            tf.nn.static_rnn(cell, [tf.ones([2, 3])], dtype=tf.float32)
            names = [variable.op.name for variable in tf.global_variables()]
        assert names[2:] == [f"rnn/lstm_cell/w_{gate}_diag" for gate in gates]
