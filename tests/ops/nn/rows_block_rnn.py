"""Rows of LSTM and GRU steps as one op, against the formulas; TensorFlow's numbers are in the recorded raw ops."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import case, real, row

BATCH, INPUTS, UNITS, TIME = 2, 3, 4, 5


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def lstm(x, c, h, w, wci, wcf, wco, b, forget_bias=1.0, cell_clip=3.0, use_peephole=False, order="icfo"):
    gates = dict(zip(order, np.split(np.hstack([x, h]) @ w + b, 4, 1), strict=True))
    peep = float(use_peephole)
    i = sigmoid(gates["i"] + peep * wci * c)
    f = sigmoid(gates["f"] + forget_bias + peep * wcf * c)
    new = np.tanh(gates["c"])
    cs = i * new + f * c
    cs = np.clip(cs, -cell_clip, cell_clip) if cell_clip > 0 else cs
    o = sigmoid(gates["o"] + peep * wco * cs)
    return i, cs, f, o, new, np.tanh(cs), np.tanh(cs) * o


def over_time(order, **defaults):
    def run(count, xs, c, h, *weights, **attrs):
        rows = []
        for t, x in enumerate(xs):
            made = lstm(x, c, h, *weights, order=order, **{**defaults, **attrs})
            if t >= count:
                made = [np.zeros_like(item) for item in made]
            c, h = made[1], made[6]
            rows.append(made)
        return tuple(np.stack(column) for column in zip(*rows, strict=True))

    return run


def gru(x, h, w_ru, w_c, b_ru, b_c):
    r, u = np.split(sigmoid(np.hstack([x, h]) @ w_ru + b_ru), 2, 1)
    c = np.tanh(np.hstack([x, r * h]) @ w_c + b_c)
    return r, u, c, u * h + (1 - u) * c


STATE = [real(BATCH, UNITS), real(BATCH, UNITS)]
WEIGHTS = [real(INPUTS + UNITS, 4 * UNITS), real(UNITS), real(UNITS), real(UNITS), real(4 * UNITS)]
NARROW = {"tolerance": 4.0, "order": 1}
ROWS = [
    row(
        "LSTMBlockCell",
        lstm,
        [
            case(real(BATCH, INPUTS), *STATE, *WEIGHTS),
            case(real(BATCH, INPUTS), *STATE, *WEIGHTS, use_peephole=True, forget_bias=0.5, cell_clip=-1.0),
            case(real(BATCH, INPUTS), *STATE, *WEIGHTS, use_peephole=True, cell_clip=0.5, grad=False),
        ],
        "float half",
        **NARROW,
    ),
    row(
        "BlockLSTM",
        over_time("icfo"),
        [
            case(TIME, real(TIME, BATCH, INPUTS), *STATE, *WEIGHTS),
            case(3, real(TIME, BATCH, INPUTS), *STATE, *WEIGHTS, use_peephole=True, forget_bias=0.0, cell_clip=0.0),
            case(9, real(1, BATCH, INPUTS), *STATE, *WEIGHTS, cell_clip=0.5, grad=False),
        ],
        "float half",
        **NARROW,
    ),
    row(
        "BlockLSTMV2",
        over_time("ifco", forget_bias=0.0, cell_clip=0.0),
        [
            case(TIME, real(TIME, BATCH, INPUTS), *STATE, *WEIGHTS),
            case(0, real(2, BATCH, INPUTS), *STATE, *WEIGHTS, use_peephole=True),
            case(1, real(2, BATCH, INPUTS), *STATE, *WEIGHTS, use_peephole=True, cell_clip=0.5, grad=False),
        ],
        "float half",
        **NARROW,
    ),
    row(
        "GRUBlockCell",
        gru,
        [
            case(
                real(BATCH, INPUTS),
                real(BATCH, UNITS),
                real(INPUTS + UNITS, 2 * UNITS),
                real(INPUTS + UNITS, UNITS),
                real(2 * UNITS),
                real(UNITS),
            )
        ],
        "float",
        **NARROW,
    ),
]
