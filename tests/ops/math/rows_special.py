"""Rows of the special functions; references from SciPy in float64."""

from __future__ import annotations

import math

import numpy as np
import scipy.special as special

from anabranch.testing.op_cases import case, positive, real, row

ENDS = [math.nan, math.inf, -math.inf, -0.0, 0.0, 1.0, -1.0]


def digamma(x):
    return np.where((x <= 0) & (x == np.floor(x)), np.inf, special.digamma(x))


def lgamma(x):
    return np.where(x == -np.inf, np.inf, special.gammaln(x))  # as C has it


def cases(*sample, special=ENDS):
    return [
        case(real(3, 4, low=sample[0], high=sample[1])),
        case(real(0, 2)),
        case(real(low=0.2, high=0.7)),
        case(special, grad=False),
    ]


def two(**domain):
    return [case(positive(3, 4, **domain), positive(3, 1)), case(positive(0, **domain), positive(0))]


ROWS = [
    row("Erf", special.erf, cases(-3, 3)),
    row("Erfc", special.erfc, [*cases(-3, 3), case([5.0, 9.0], dtype="double")]),
    row("Erfinv", lambda x: special.erfinv(x), [*cases(-0.95, 0.95), case([1e-20, 1 - 1e-15, -1e-3], dtype="double")],
        tolerance=4),
    row("Ndtri", lambda p: special.ndtri(p), [*cases(0.02, 0.98, special=[math.nan, 0.0, 1.0, -1.0, 2.0]),
        case([1e-300, 1e-20, 0.5], dtype="double"), case([1e-30, 1e-10, 0.999])], tolerance=4),
    row("Lgamma", lgamma, [*cases(0.3, 6, special=[math.nan, math.inf, -math.inf, -0.0, 0.0, -1.0, 9.0]),
        case([-0.5, -1.5, -2.3, 30.5, -2.0])], tolerance=4),
    row("Digamma", digamma, [*cases(0.3, 6, special=[math.nan, math.inf, -math.inf, -0.0, 0.0, -1.0, 1.0]),
        case([-0.5, -1.7, -2.3, 30.5])], tolerance=4),
    row("Igamma", special.gammainc, two(), "float double", tolerance=16, order=1),
    row("Igammac", special.gammaincc, two(), "float double", tolerance=16, order=1),
    row("IgammaGradA", lambda a, x: (special.gammainc(a + 1e-5, x) - special.gammainc(a - 1e-5, x)) / 2e-5,
        [case(positive(3, 4), positive(3, 4), dtype="float")], "float", tolerance=50, order=0),
    row("Betainc", special.betainc, [
        case(positive(3, 4), positive(3, 4), positive(3, 4, low=0.1, high=0.9)),
        case(positive(), positive(3), positive(3, low=0.1, high=0.9))], tolerance=16, order=0),
    row("Zeta", special.zeta, two(low=1.5, high=4), tolerance=4, order=0),
    row("Polygamma", lambda a, x: special.polygamma(a.astype(int), x),
        [case(np.array([[1.0, 2.0], [3.0, 4.0]]), positive(2, 2)), case(2.0, positive(3))], tolerance=8, order=0),
    row("BesselI0e", special.i0e, [*cases(-3, 3, special=[0.0, 20.0, -20.0])], tolerance=4),
    row("BesselI1e", special.i1e, [*cases(-3, 3, special=[0.0, 20.0, -20.0])], tolerance=4),
    row("BesselI0", special.i0, [*cases(-3, 3, special=[0.0, 5.0, -5.0])], tolerance=4),
    row("BesselI1", special.i1, [*cases(-3, 3, special=[0.0, 5.0, -5.0])], tolerance=4),
]  # fmt: skip
