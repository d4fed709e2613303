"""Rows of comparison, logic, bits and choice."""

from __future__ import annotations

import math
import operator

import numpy as np

from anabranch.testing.op_cases import case, real, row, whole

VALUES = [math.nan, math.inf, -math.inf, -0.0, 1.0], [math.nan, math.inf, 1.0, 0.0, 2.0]


def pairs():
    return [
        case(whole(3, 4), whole(3, 4)),
        case(whole(2, 1, 3), whole(4, 1)),
        case(whole(), whole(2)),
        case(whole(0, 3), whole(1)),
        case(*VALUES),
    ]


def bits(top=127):
    return [
        case(whole(3, 4, low=-100, high=100), whole(3, 4, low=-100, high=100)),
        case(whole(2, 1), whole(3)),
        case(whole(), whole(0)),
        case([top, -1], [1, top]),
    ]


def flags():
    return [case(np.array([[True], [False]]), np.array([True, False])), case(True, False), case(np.zeros((0, 2)), True)]


def equality(unequal):
    def reference(x, y, incompatible_shape_error=True):
        try:
            np.broadcast_shapes(x.shape, y.shape)
        except ValueError:
            return np.array(unequal)
        return np.array(x != y if unequal else x == y, bool)

    return reference


def shift(function):
    def reference(x, y):
        width = 8 * x.dtype.itemsize
        found = [function(int(a), min(max(int(b), 0), width - 1)) for a, b in np.broadcast(x, y)]
        wrapped = [item & (2**width - 1) for item in found]
        return np.array(wrapped, f"u{x.dtype.itemsize}").astype(x.dtype).reshape(np.broadcast_shapes(x.shape, y.shape))

    return reference


def near(x, y, tolerance=9.999999747378752e-06):
    return np.abs(x - y if x.dtype.kind in "fc" else x.astype(float) - y.astype(float)) < tolerance


def select(condition, t, e):
    if condition.ndim == 1:
        condition = condition.reshape((-1,) + (1,) * (t.ndim - 1))
    return np.where(condition, t, e)


def bucketize(x, boundaries):
    return np.array([sum(not item < b for b in boundaries) for item in x.ravel()], np.int32).reshape(x.shape)


def popcount(x):
    width = 8 * x.dtype.itemsize
    return np.array([bin(int(item) & (2**width - 1)).count("1") for item in x.ravel()], np.uint8).reshape(x.shape)


def bitpacked(x, threshold):
    above = x if x.dtype == bool else x > threshold
    bytes_ = [int("".join("01"[int(bit)] for bit in eight), 2) for eight in above.reshape(-1, 8)]
    return np.array(bytes_, np.uint8).reshape(*x.shape[:-1], x.shape[-1] // 8)


CHOICES = [
    case(np.array([[True, False], [False, True]]), real(2, 2), real(2, 2)),
    case(True, real(3), real(3)),
    case(np.array([True, False, True]), real(3, 2), real(3, 2)),
    case(np.zeros((0, 2), bool), real(0, 2), real(0, 2)),
    case(np.array([True, False]), real(2), real(2), dtype="string"),
]
BROADCAST = [
    case(np.array([[True], [False]]), real(2, 2), real(2)),
    case(True, real(3), real()),
    case(np.array([True, False]), real(), real(3, 1)),
    case(np.zeros((0, 1), bool), real(2), real(1)),
    case(np.array([True, False]), real(2), real(1), dtype="string"),
]
LEFT, RIGHT = [1.0, 2.0, math.nan, math.inf], [1.000001, 2.1, math.nan, math.inf]
CLIPPED = "float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64"
ROWS = [
    row("Less", operator.lt, pairs()),
    row("LessEqual", operator.le, pairs()),
    row("Greater", operator.gt, pairs()),
    row("GreaterEqual", operator.ge, pairs()),
    row("Equal", equality(False), [*pairs(), case(whole(3), whole(2), incompatible_shape_error=False),
        case(real(6), real(6), dtype="string")]),
    row("NotEqual", equality(True), [*pairs(), case(whole(3), whole(2), incompatible_shape_error=False),
        case(real(6), real(6), dtype="string")]),
    row("ApproximateEqual", near, [
        case(whole(3, 4), whole(3, 4), tolerance=1.5), case(real(0), real(0)), case(LEFT, RIGHT),
        case([-(2**31), 5], [2**31 - 1, 5], dtype="int32")],
        "float double int32 uint8 int16 int8 complex64 int64 bfloat16 uint16 complex128 half uint32 uint64"),
    row("LogicalAnd", operator.and_, flags()),
    row("LogicalOr", operator.or_, flags()),
    row("BitwiseAnd", operator.and_, bits()),
    row("BitwiseOr", operator.or_, bits()),
    row("BitwiseXor", operator.xor, bits()),
    row("LeftShift", shift(operator.lshift), [case(whole(3, 4), whole(3, 4, low=-3, high=9)), *bits()]),
    row("RightShift", shift(operator.rshift), [case(whole(3, 4), whole(3, 4, low=-3, high=9)), *bits()]),
    row("Invert", lambda x: ~x, [case(whole(3, 4)), case(whole()), case(whole(0))]),
    row("PopulationCount", popcount, [case(whole(3, 4)), case(whole()), case(whole(0)), case([-(2**31), -1])]),
    row("CompareAndBitpack", bitpacked, [case(whole(2, 16, low=-3, high=4), 0), case(whole(8, low=-3, high=4), 2),
        case(whole(0, 8), 0), case(whole(3, 2, 8), 1)]),
    row("Select", select, CHOICES),
    row("SelectV2", np.where, BROADCAST),
    row("ClipByValue", lambda t, low, high: np.where(t != t, t, np.fmax(np.fmin(t, high), low)),
        [case(whole(3, 4), 1, 3, grad=False), case(real(5), -0.5, 0.5), case(real(0), 0.0, 1.0),
         case(real(3, 4), real(3, 4, low=-2, high=-0.5), real(3, 4, low=0.5, high=2)),
         case([math.nan, math.inf, 1.0], 3.0, 2.0)], CLIPPED),
    row("Bucketize", bucketize, [case(whole(3, 4), boundaries=[-2.0, 0.0, 1.0]),
        case([math.nan, math.inf, -math.inf, 0.5], boundaries=[0.5, 1.0]), case(real(0), boundaries=[])]),
]  # fmt: skip
