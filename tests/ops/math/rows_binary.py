"""Rows of element-wise arithmetic of two operands, sums of many, and the axes of broadcasts."""

from __future__ import annotations

import math

import numpy as np

from anabranch.testing.op_cases import case, positive, real, row, whole

SPECIAL = (
    [5.5, -5.5, 5.5, -5.5, 1.0, -1.0, math.nan, math.inf, 1.0, 0.0, 0.0, 0.75],
    [2.0, 2.0, -2.0, -2.0, math.inf, math.inf, 1.0, 2.0, 0.0, 1.0, 0.0, 0.1],
)
SIGNS = np.array([[7, 7, -7, -7, 6], [2, -2, 2, -2, 3]])


def broadcast(left=real, right=real, special=True, **domain):
    """Cases of equal shapes, of a row beside a column, of scalars, and of none."""
    return [
        case(left(3, 4), right(3, 4, **domain)),
        case(left(2, 1, 3), right(4, 1, **domain)),
        case(left(), right(2, 3, **domain)),
        case(left(2, 3), right(**domain)),
        case(left(0, 3), right(1, **domain)),
        *([case(*SPECIAL, grad=False)] if special else []),
    ]


def integers(x):
    return np.asarray(x).dtype.kind in "iu"


def each(function, x, y):
    """A function of two Python integers, element by element, wrapped to the type of ``x``."""
    bits = 8 * x.dtype.itemsize
    found = [function(int(a), int(b)) % 2**bits for a, b in np.broadcast(x, y)]
    return np.array(found, f"u{x.dtype.itemsize}").astype(x.dtype).reshape(np.broadcast_shapes(x.shape, y.shape))


def trunc_div(x, y):
    if integers(x):
        return each(lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1), x, y)
    return x / y if np.iscomplexobj(x) else np.trunc(x / y)


def quotient(x, y):
    return trunc_div(x, y) if integers(x) else x / y


def floor_div(x, y):
    if integers(x):
        return each(lambda a, b: a // b, x, y)
    return x / y if np.iscomplexobj(x) else np.floor(x / y)


def floor_mod(x, y):
    return x - floor_div(x, y) * y if integers(x) else np.mod(x, y)


def trunc_mod(x, y):
    return x - trunc_div(x, y) * y if integers(x) else np.fmod(x, y)


def or_zero(zero_of, function):
    def reference(x, y):
        zero = (x if zero_of == "x" else y) == 0
        return np.where(zero, 0, function(x, y))

    return reference


def power(x, y):
    if integers(x):
        return each(lambda a, b: pow(a, b, 2**64), x, y)
    return x**y


def squared_difference(x, y):
    return np.abs(x - y) ** 2


def extreme(choose):
    def reference(x, y):
        return np.where((x != x) | (y != y), x + y, np.where(choose(x, y), x, y))

    return reference


def gradient_axes(s0, s1):
    if list(s0) == list(s1):
        return [np.zeros(0, s0.dtype)] * 2
    rank = max(len(s0), len(s1))
    wide = [[1] * (rank - len(s)) + list(s) for s in (s0, s1)]
    return [np.array([i for i, size in enumerate(s) if size == 1], s0.dtype) for s in wide]


NONZERO = {"margin": 1, "low": -3, "high": 3}
DIVISION = [case(real(3, 4, low=-9, high=9), real(3, 4, **NONZERO)), *broadcast(**NONZERO)]
SIGNED = [*DIVISION, case(SIGNS[0], SIGNS[1], grad=False), case(SIGNS[0], SIGNS[1], dtype="int32", grad=False)]
# Quotients that narrow floats do not round up to a whole number.
CUT = [case(whole(3, 4, low=-9, high=9), [1, 2, 3, 7], grad=False), *SIGNED[1:]]
POWERS = (
    [math.nan, 0.0, 0.0, 0.0, 1.0, -8.0, -1.0, math.inf, -math.inf, -math.inf, 2.0, 0.5, 0.0],
    [0.0, 0.0, 1.0, -1.0, math.nan, 3.0, math.inf, -1.0, 3.0, 2.0, math.inf, math.inf, -2.0],
)
ROWS = [
    row("Add", lambda x, y: x + y, [case(whole(3, 4), whole(3, 4)), *broadcast(),
        case(real(2), real(1), dtype="string")],
        "bfloat16 half float double uint8 int8 int16 int32 int64 complex64 complex128"),
    row("AddV2", lambda x, y: x + y, [case(whole(3, 4), whole(3, 4)), *broadcast(),
        case([2**31 - 1], [1], dtype="int32")]),
    row("Sub", lambda x, y: x - y, [case(whole(3, 4), whole(3, 4)), *broadcast()]),
    row("Mul", lambda x, y: x * y, [case(whole(3, 4), whole(3, 4)), *broadcast()]),
    row("Div", quotient, SIGNED, tolerance=2),
    row("RealDiv", quotient, DIVISION, tolerance=2),
    row("TruncateDiv", trunc_div, CUT, tolerance=2),
    row("FloorDiv", floor_div, CUT, tolerance=2),
    row("FloorMod", floor_mod, CUT),
    row("Mod", trunc_mod, CUT),
    row("TruncateMod", trunc_mod, CUT),
    row("DivNoNan", or_zero("y", lambda x, y: x / y), [*broadcast(margin=0.5), case([1.0, 0.0], [0.0, 0.0])]),
    row("MulNoNan", or_zero("y", lambda x, y: x * y), [*broadcast(),
        case([math.inf, math.nan], [0.0, 0.0])]),
    row("Xdivy", or_zero("x", lambda x, y: x / y), [*broadcast(margin=0.5), case([0.0, 1.0], [0.0, 2.0], grad=False)],
        tolerance=2),
    row("Xlogy", or_zero("x", lambda x, y: x * np.log(y)),
        [*broadcast(right=positive, special=False), case([0.0, 1.0], [0.0, 2.0], grad=False)], tolerance=2),
    row("Xlog1py", or_zero("x", lambda x, y: x * np.log1p(y)),
        [*broadcast(right=positive, special=False), case([0.0, 1.0], [-1.0, 2.0], grad=False)], tolerance=2),
    row("Pow", power, [case(positive(3, 4, low=1, high=4), positive(3, 4, low=0, high=3)),
        case(positive(2, 1, 3), real(4, 1)), case(positive(2, 3), real()), case(positive(2, 3), 2.0, grad=False),
        case(positive(0, 3), real(3)), case(*POWERS, grad=False), case([-3, 2, -1], [5, 40, 65], dtype="int32"),
        case([3, -1, 7], [41, 2**40 + 1, 0], dtype="int64")], tolerance=4),
    row("Maximum", extreme(np.greater_equal), [case(whole(3, 4), whole(3, 4), grad=False), *broadcast()]),
    row("Minimum", extreme(np.less_equal), [case(whole(3, 4), whole(3, 4), grad=False), *broadcast()]),
    row("SquaredDifference", squared_difference, [case(whole(3, 4), whole(3, 4)), *broadcast(special=False)]),
    row("Atan2", np.arctan2, [*broadcast(margin=0.5, special=False), case(*SPECIAL, grad=False)], tolerance=2),
    row("NextAfter", np.nextafter, [case([1.0, -1.0, 0.0, 2.0], [2.0, 0.0, 1.0, 2.0], grad=False, dtype="double"),
        case(real(3, 1), real(2), grad=False, dtype="double")], "double"),
    row("AddN", lambda xs: sum(xs), [
        case([whole(3, 4)] * 3), case([real()]), case([real(0, 2)] * 2), case([real(5)] * 2)],
        "float double int32 uint8 int16 int8 complex64 int64 bfloat16 uint16 complex128 half uint32 uint64"),
    row("AccumulateNV2", lambda xs, shape: sum(xs), [case([whole(3, 4)] * 3, shape=(3, 4)), case([real()], shape=())],
        "float double int32 uint8 int16 int8 complex64 int64 bfloat16 uint16 complex128 half uint32 uint64"),
    row("BroadcastGradientArgs", gradient_axes, [
        case(np.array(a), np.array(b)) for a, b in (
            ([2, 1, 3], [4, 1]), ([1, 3], [1, 3]), ([1, 3], [1, 1]), ([], [2]), ([1], [0]), ([], []), ([5], [5, 1]))],
        open_shape="the number of axes is data"),
]  # fmt: skip
