"""Rows of the element-wise functions of one operand; references from Python's `math` and `cmath`."""

from __future__ import annotations

import cmath
import math

import numpy as np

from anabranch.testing.op_cases import case, positive, real, row, whole

INFINITE = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, -1.0]


def scalar(function, complex_function=None):
    """A reference from functions of one Python number."""

    def reference(x):
        if np.iscomplexobj(x):
            return np.vectorize(complex_function, otypes=[np.complex128])(x)
        return np.vectorize(function, otypes=[np.float64])(x)

    return reference


def cases(sample=real, special=True, **domain):
    found = [case(sample(3, 4, **domain)), case(sample(**domain)), case(sample(0, 2, **domain))]
    return found + ([case(INFINITE, grad=False)] if special else [])


def guarded(function):
    """A reference for special values: nan outside of the domain, infinities at its ends as IEEE has them."""

    def call(x):
        try:
            return function(x)
        except ValueError:
            return math.nan
        except OverflowError:
            return math.inf

    return call


def log(x):
    return math.nan if x < 0 else -math.inf if x == 0 else math.log(x)


def log1p(x):
    return math.nan if x < -1 else -math.inf if x == -1 else math.log1p(x)


def atanh(x):
    return math.copysign(math.inf, x) if abs(x) == 1 else guarded(math.atanh)(x)


def rsqrt(x):
    return 1 / np.sqrt(np.float64(x))


def inverse(x):
    if x.dtype.kind == "i":
        return np.trunc(1 / x).astype(x.dtype)
    return 1 / x


def round_half_to_even(x):
    if np.iscomplexobj(x):
        return np.array([complex(round(z.real), round(z.imag)) for z in x.ravel()]).reshape(x.shape)
    if x.dtype.kind == "i":
        return x
    return np.vectorize(lambda v: float(round(v)) if math.isfinite(v) else v, otypes=[float])(x)


def complex_sigmoid(z):
    return 1 / (1 + cmath.exp(-z))


HALVES = [-2.5, -1.5, -0.5, -0.4, 0.5, 1.5, 2.5, 2.6, math.inf]
ROWS = [
    row("Abs", lambda x: np.where(x < 0, -x, x), [case(whole(3, 4)), *cases(margin=0.1)]),
    row("Neg", lambda x: 0 - x, [case(whole(3, 4)), *cases()]),
    row("Sign", lambda x: x / np.abs(x) if np.iscomplexobj(x) else (x > 0) * 1 - (x < 0) * 1,
        [case(real(3, 4, margin=1)), case(real(margin=0.1)), case(real(0, 2)), case([-math.inf, -0.0, 0.0, 3.0]),
         case([math.nan, -1.0, 2.0], grad=False)]),
    row("Exp", scalar(math.exp, cmath.exp), cases()),
    row("Expm1", scalar(math.expm1, lambda z: np.expm1(z)), [*cases(), case([1e-7, -1e-7])]),
    row("Log", scalar(log, cmath.log), cases(positive)),
    row("Log1p", scalar(log1p, lambda z: cmath.log(1 + z)), [*cases(low=-0.9, high=3), case([1e-7, -1e-7])]),
    row("Sqrt", scalar(guarded(math.sqrt), cmath.sqrt), cases(positive)),
    row("Rsqrt", scalar(rsqrt, lambda z: 1 / cmath.sqrt(z)), cases(positive)),
    row("Square", lambda x: x * x, [case(whole(3, 4)), *cases()]),
    row("Reciprocal", inverse, [case(real(3, 4, margin=1)), *cases(margin=0.5)]),
    row("Inv", inverse, [case(real(3, 4, margin=1)), case(real(margin=0.5))]),
    row("Sin", scalar(guarded(math.sin), cmath.sin), [*cases(), case([100.0, -1000.0, 31415.926])]),
    row("Cos", scalar(guarded(math.cos), cmath.cos), [*cases(), case([100.0, -1000.0, 31415.926])]),
    row("Tan", scalar(guarded(math.tan), cmath.tan), cases(low=-1.3, high=1.3)),
    row("Asin", scalar(guarded(math.asin), cmath.asin), cases(low=-0.9, high=0.9, special=False)),
    row("Acos", scalar(guarded(math.acos), cmath.acos), cases(low=-0.9, high=0.9, special=False)),
    row("Atan", scalar(math.atan, cmath.atan), cases(low=-0.9, high=0.9)),
    row("Sinh", scalar(math.sinh, cmath.sinh), cases()),
    row("Cosh", scalar(math.cosh, cmath.cosh), cases()),
    row("Tanh", scalar(math.tanh, cmath.tanh), [*cases(), case([20.0, -20.0, 1e-6])]),
    row("Asinh", scalar(math.asinh, cmath.asinh), cases(low=-0.9, high=0.9)),
    row("Acosh", scalar(guarded(math.acosh), cmath.acosh), cases(positive, low=1.2, high=3.0)),
    row("Atanh", scalar(atanh, cmath.atanh), cases(low=-0.9, high=0.9)),
    row("Sigmoid", scalar(lambda x: 0.5 * (1 + math.tanh(x / 2)), complex_sigmoid), [*cases(), case([80.0, -80.0])]),
    row("Floor", np.vectorize(lambda x: math.floor(x) if math.isfinite(x) else x, otypes=[float]), cases()),
    row("Ceil", np.vectorize(lambda x: math.ceil(x) if math.isfinite(x) else x, otypes=[float]), cases()),
    row("Round", round_half_to_even, [case(real(3, 4)), case(HALVES), case(real()), case(real(0, 2))]),
    row("Rint", round_half_to_even, [case(HALVES), case(real(0, 2)), case(real())]),
    row("IsNan", lambda x: x != x, cases()),
    row("IsInf", lambda x: (x == math.inf) | (x == -math.inf), cases()),
    row("IsFinite", lambda x: x - x == 0, cases()),
    row("LogicalNot", lambda x: x ^ True, [case([[True, False]]), case(True), case(np.zeros((0, 2)))]),
    row("OnesLike", lambda x: x * 0 + 1, [case(whole(3, 4)), case(whole()), case(whole(0, 2))],
        "half bfloat16 float double int8 uint8 int16 uint16 int32 uint32 int64 uint64 complex64 complex128"),
    row("ZerosLike", lambda x: np.zeros_like(x), [case(whole(3, 4)), case(whole()), case(whole(0, 2))]),
    row("SigmoidGrad", lambda y, dy: dy * y * (1 - y), [case(real(3, 4), real(3, 4)), case(real(0), real(0))]),
    row("TanhGrad", lambda y, dy: dy * (1 - y * y), [case(real(3, 4), real(3, 4)), case(real(), real())]),
    row("SqrtGrad", lambda y, dy: dy / (2 * np.conj(y)), [case(real(3, 4, margin=0.5), real(3, 4))]),
    row("RsqrtGrad", lambda y, dy: dy * np.conj(y) ** 3 / -2, [case(real(3, 4), real(3, 4)), case(real(), real())]),
    row("ReciprocalGrad", lambda y, dy: -dy * np.conj(y) ** 2, [case(real(3, 4), real(3, 4)), case(real(), real())]),
    row("InvGrad", lambda y, dy: -dy * np.conj(y) ** 2, [case(real(3, 4), real(3, 4))]),
]  # fmt: skip
