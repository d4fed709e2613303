"""Rows of conversions between element types, and of complex numbers and their parts."""

from __future__ import annotations

import math

import numpy as np

from anabranch.core.values import dtypes
from anabranch.testing.op_cases import case, real, row, whole

FLOATING = ["half", "bfloat16", "float", "double", "complex64", "complex128"]
INTEGRAL = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"]
EVERY = FLOATING + INTEGRAL


def cast(x, DstT, Truncate=False):
    target = dtypes.as_dtype(DstT).np
    if target == np.bool_:
        return x.real != 0
    if Truncate:
        return truncated(x, 23 if target == np.float32 else 7).astype(target)
    return (x if target.kind == "c" else x.real).astype(target)


def truncated(x, bits):
    """Significands cut to one bit and ``bits`` more."""
    fraction, exponent = np.frexp(x)
    return np.ldexp(np.trunc(np.ldexp(fraction, bits + 1)), exponent - bits - 1)


def bitcast(x, type):
    target = dtypes.as_dtype(type).np
    found = np.frombuffer(x.astype(SOURCE.get(x.dtype, x.dtype)).tobytes(), target)
    size = SOURCE.get(x.dtype, x.dtype).itemsize
    if size == target.itemsize:
        return found.reshape(x.shape)
    return found.reshape((*x.shape, size // target.itemsize) if size > target.itemsize else x.shape[:-1])


# References get floats widened; all cases here are of these types before.
SOURCE = {np.dtype(np.float64): np.dtype(np.float32), np.dtype(np.complex128): np.dtype(np.complex64)}
THIRDS = np.array([1 / 3, -2 / 3, 1e10 / 3, 1.0, -0.0])


def joined(real, imag):
    found = np.empty(np.broadcast_shapes(real.shape, imag.shape), np.complex128)
    found.real, found.imag = real, imag
    return found


def parts(given=(1, -1j)):
    """A complex number's part in the width of the number; gradients in double precision."""
    wide, narrow = {"Tout": "double"}, {"Tout": "float"}
    return [
        case(real(3, 4, margin=0.2), types=wide, dtype="complex128"),
        case(real(margin=0.2), types=wide, dtype="complex128"),
        case(real(0), types=narrow, dtype="complex64", grad=False),
        case(list(given), types=narrow, dtype="complex64"),
        case(real(3, 4), types=narrow, dtype="complex64", grad=False),
    ]


ROWS = [
    row("Cast", cast, [
        *[case(whole(3, low=-100, high=100), DstT=target, dtype=source, grad=False)
            for i, source in enumerate(EVERY) for j, target in enumerate(EVERY) if (i + j) % 2 == 0],
        case(real(3, 4, low=-100, high=100), DstT="int32"), case([300, -1, 2**31 - 1], DstT="uint8", dtype="int32"),
        case([0.5, math.nan, 0.0], DstT="bool"), case(THIRDS, DstT="bfloat16"), case(real(0, 2), DstT="double"),
        case(THIRDS, DstT="bfloat16", Truncate=True), case(THIRDS, DstT="float", Truncate=True, dtype="double"),
        case(real(), DstT="double"), case(real(2), DstT="complex128"),
        case(real(2), DstT="double", dtype="complex128")], "float double complex64 complex128"),
    row("Bitcast", bitcast, [
        case(whole(2, 4), type="int8", dtype="uint8"), case(real(3), type="int32", dtype="float"),
        case(whole(2, 3), type="uint8", dtype="int32"), case(whole(2, 4), type="int32", dtype="uint8"),
        case(whole(3, 2), type="float", dtype="int16"), case(real(3, 2), type="complex64", dtype="float"),
        case(real(3), type="float", dtype="complex64"), case(real(3, 2), type="complex128", dtype="complex64"),
        case(real(3), type="uint8", dtype="complex64"), case(whole(3, 8), type="complex64", dtype="uint8"),
        case(real(3), type="int64", dtype="complex64"), case(real(0, 3), type="int32", dtype="float"),
        case(real(), type="int32", dtype="float")], "float"),
    row("Complex", joined, [
        case(real(3, 4), real(4), types={"Tout": "complex128"}, dtype="double"),
        case(real(2, 1), real(3), types={"Tout": "complex64"}, dtype="float", grad=False),
        case(real(), real(), types={"Tout": "complex128"}, dtype="double"),
        case(real(0), real(1), types={"Tout": "complex128"}, dtype="double"),
        case([math.inf, 1.0], [0.0, math.nan], types={"Tout": "complex64"}, dtype="float")]),
    row("Real", lambda x: (x + np.conj(x)).real / 2, parts(), "complex64 complex128"),
    row("Imag", lambda x: (x - np.conj(x)).imag / 2, parts(), "complex64 complex128"),
    row("ComplexAbs", lambda x: np.hypot(x.real, x.imag), parts([0, 3 + 4j]), "complex64 complex128"),
    row("Angle", np.angle, parts([1, -1, 1j, -1j]), "complex64 complex128"),
    row("Conj", lambda x: x.real - 1j * x.imag, [case(real(3, 4)), case(real()), case(real(0))],
        "complex64 complex128"),
]  # fmt: skip
