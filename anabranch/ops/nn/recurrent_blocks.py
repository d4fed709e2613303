"""Steps of LSTM and GRU as one op, as graphs of ``tf.contrib.rnn``'s block cells have them.

Policy. Formulas are those of the cells (`anabranch.rnn.cells`) in the order of gates that each op's weights have; the
gradient is that of the formula. Clipped values get no gradient (TensorFlow lets it pass). Steps from ``seq_len_max`` on
give zeros. Two-byte floats are computed in float32.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import DERIVED, PURE, Bool, Float, Op, Type
from anabranch.core.values import shapes
from anabranch.ops.linalg.matmul import product
from anabranch.ops.shared.widening import widen

_NAMES = ("i", "cs", "f", "o", "ci", "co", "h")
_OUTPUTS = ", ".join(f"{name}: T" for name in _NAMES)
_FLOATS = Type("float half")


def _sigmoid(xp: Any, x: Any) -> Any:
    # tanh neither overflows nor loses digits at either end.
    half = x.dtype.type(0.5)
    return half * xp.tanh(half * x) + half


def _unlike(c: Any, given: str, expected: str) -> None:
    raise ValueError(errors.message(given, expected, "weights of the cell that these inputs are for"))


def _units(c: Any, rows: int | None, columns: int) -> int | None:
    """Units, found from the bias and the weights ``w``, which must be for inputs of ``rows`` features."""
    weights, bias = c.with_rank("w", 2), c.with_rank("b", 1)
    size_known = next((size for size in (weights[1], bias[0]) if size is not None), None)
    if size_known is None:
        return None
    units = size_known // columns
    wrong_rows = rows is not None and weights[0] is not None and weights[0] != rows + units
    if size_known % columns or bias[0] not in (None, size_known) or wrong_rows:
        _unlike(
            c,
            f"w of shape {shapes.show(weights)} and b of shape {shapes.show(bias)} for inputs of {rows} features",
            f"[inputs + units, {columns} * units] and [{columns} * units]",
        )
    return int(units)


def _step(ctx: Any, x: Any, state: Any, weights: Any, order: str, forget_bias: float, clip: float, peep: bool) -> Any:
    """What an LSTM step gives, named as in ``_NAMES``; ``weights`` are ``w``, ``wci``, ``wcf``, ``wco``, ``b``."""
    xp = ctx.xp
    cs_prev, h_prev = state
    w, wci, wcf, wco, b = weights
    kind = x.dtype.type
    gates = xp.split(product(ctx, xp.concatenate([x, h_prev], axis=1), w) + b, 4, axis=1)
    i, new, f, o = (gates[order.index(name)] for name in "icfo")
    f = f + kind(forget_bias)
    if peep:
        i, f = i + wci * cs_prev, f + wcf * cs_prev
    i, f, ci = _sigmoid(xp, i), _sigmoid(xp, f), xp.tanh(new)
    cs = ci * i + cs_prev * f
    if clip > 0:
        cs = xp.clip(cs, kind(-clip), kind(clip))
    o = _sigmoid(xp, o + wco * cs if peep else o)
    co = xp.tanh(cs)
    return i, cs, f, o, ci, co, co * o


class LSTMBlockCell(Op):
    """One step of an LSTM: gates ``i``, ``f``, ``o``, new value ``ci``, cell ``cs``, ``co = tanh(cs)``, output ``h``.

    ``x`` is ``[batch, inputs]``, the state ``[batch, units]``, ``w`` ``[inputs + units, 4 * units]`` in the order
    input, new value, forget, output; ``wci``, ``wcf``, ``wco`` ``[units]`` count with ``use_peephole`` only.
    """

    signature = f"x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T -> {_OUTPUTS}"
    attrs = {"forget_bias": Float(1.0), "cell_clip": Float(3.0), "use_peephole": Bool(False), "T": _FLOATS}
    effect = PURE
    ranks = {"cs_prev": 2, "h_prev": 2, "w": 2, "b": 1}
    gradient = DERIVED

    def shape(c):
        x, state = c.with_rank("x", 2), c.same_shape("cs_prev", "h_prev")
        units = _units(c, x[1], 4)
        batch = x[0] if x[0] is not None or state is None else state[0]
        return [(batch, units)] * len(_NAMES)

    def kernel(ctx, inputs, attrs):
        x, cs_prev, h_prev, *weights = map(widen, inputs)
        options = (attrs["forget_bias"], attrs["cell_clip"], attrs["use_peephole"])
        outputs = _step(ctx, x, (cs_prev, h_prev), weights, "icfo", *options)
        return tuple(item.astype(inputs[0].dtype) for item in outputs)


def _all_of_time(ctx: Any, inputs: Any, attrs: Any, order: str, forget_bias: float) -> Any:
    kind = inputs[1].dtype
    count, xs, cs_prev, h_prev, *weights = (widen(item) if n else item for n, item in enumerate(inputs))
    xp = ctx.xp
    steps = xs.shape[0]
    if steps == 0:
        return tuple(xp.zeros((0, *cs_prev.shape), kind) for _ in _NAMES)

    def step(state: Any, given: Any) -> Any:
        time, x = given
        outputs = _step(ctx, x, state, weights, order, forget_bias, attrs["cell_clip"], attrs["use_peephole"])
        live = time < count
        outputs = tuple(xp.where(live, item, xp.zeros_like(item)) for item in outputs)
        return (outputs[1], outputs[6]), outputs

    times = xp.arange(steps, dtype=np.int64)
    if ctx.host:
        rows, state = [], (cs_prev, h_prev)
        for time in range(steps):
            state, outputs = step(state, (times[time], xs[time]))
            rows.append(outputs)
        whole: Any = [np.stack(column) for column in zip(*rows, strict=True)]
    else:
        _, whole = ctx.lax.scan(step, (cs_prev, h_prev), (times, xs))
    return tuple(item.astype(kind) for item in whole)


def _time_shape(c: Any) -> Any:
    c.with_rank("seq_len_max", 0)
    x, state = c.with_rank("x", 3), c.same_shape("cs_prev", "h_prev")
    units = _units(c, x[2], 4)
    batch = x[1] if x[1] is not None or state is None else state[0]
    return [(x[0], batch, units)] * len(_NAMES)


class BlockLSTM(Op):
    """An LSTM over the steps of ``x`` ``[time, batch, inputs]`` before ``seq_len_max``; outputs as of `LSTMBlockCell`,
    ``[time, batch, units]``.
    """

    signature = f"seq_len_max: int64, x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T -> {_OUTPUTS}"
    attrs = {"forget_bias": Float(1.0), "cell_clip": Float(3.0), "use_peephole": Bool(False), "T": _FLOATS}
    effect = PURE
    ranks = {"cs_prev": 2, "h_prev": 2, "w": 2, "b": 1}
    gradient = DERIVED
    shape = _time_shape

    def kernel(ctx, inputs, attrs):
        return _all_of_time(ctx, inputs, attrs, "icfo", attrs["forget_bias"])


class BlockLSTMV2(Op):
    """Like `BlockLSTM` without a bias of the forget gate; ``w`` in the order input, forget, new value, output."""

    signature = f"seq_len_max: int64, x: T, cs_prev: T, h_prev: T, w: T, wci: T, wcf: T, wco: T, b: T -> {_OUTPUTS}"
    attrs = {"cell_clip": Float(0.0), "use_peephole": Bool(False), "T": _FLOATS}
    effect = PURE
    ranks = {"cs_prev": 2, "h_prev": 2, "w": 2, "b": 1}
    gradient = DERIVED
    shape = _time_shape

    def kernel(ctx, inputs, attrs):
        return _all_of_time(ctx, inputs, attrs, "ifco", 0.0)


class GRUBlockCell(Op):
    """One step of a GRU: gates ``r`` and ``u``, new value ``c``, output ``h``.

    ``x`` is ``[batch, inputs]``, ``h_prev`` ``[batch, units]``, ``w_ru`` ``[inputs + units, 2 * units]``, ``w_c``
    ``[inputs + units, units]``.
    """

    signature = "x: T, h_prev: T, w_ru: T, w_c: T, b_ru: T, b_c: T -> r: T, u: T, c: T, h: T"
    attrs = {"T": Type("float")}
    effect = PURE
    ranks = {"h_prev": 2}
    gradient = DERIVED

    def shape(c):
        x, state, weights, bias = c.with_rank("x", 2), c.with_rank("h_prev", 2), c.with_rank("w_c", 2), c.shape("b_c")
        w_ru, b_ru = c.with_rank("w_ru", 2), c.with_rank("b_ru", 1)
        c.with_rank("b_c", 1)
        units = next((n for n in (state[1], weights[1], bias[0] if bias else None) if n is not None), None)
        rows = None if units is None or x[1] is None else x[1] + units
        if units is not None and (
            weights[1] not in (None, units)
            or w_ru[1] not in (None, 2 * units)
            or b_ru[0] not in (None, 2 * units)
            or (rows is not None and any(w[0] not in (None, rows) for w in (weights, w_ru)))
        ):
            _unlike(
                c,
                f"w_ru of shape {shapes.show(w_ru)} and w_c of shape {shapes.show(weights)} for x of shape "
                f"{shapes.show(x)} and {units} units",
                "[inputs + units, 2 * units] and [inputs + units, units]",
            )
        return [(x[0] if x[0] is not None else state[0], units)] * 4

    def kernel(ctx, inputs, attrs):
        x, h_prev, w_ru, w_c, b_ru, b_c = inputs
        xp = ctx.xp
        gates = _sigmoid(xp, product(ctx, xp.concatenate([x, h_prev], axis=1), w_ru) + b_ru)
        r, u = xp.split(gates, 2, axis=1)
        c = xp.tanh(product(ctx, xp.concatenate([x, h_prev * r], axis=1), w_c) + b_c)
        return r, u, c, u * h_prev + (x.dtype.type(1) - u) * c
