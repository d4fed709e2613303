"""Rows of old names of linear algebra, of tridiagonal systems, of roots and logarithms of matrices."""

from __future__ import annotations

import dataclasses
import importlib.util
from pathlib import Path

import numpy as np
import scipy.linalg

from anabranch.core.contract import opdef
from anabranch.core.values import dtypes
from anabranch.testing.op_cases import case, elsewhere, real, row

_spec = importlib.util.spec_from_file_location("rows_of_linalg", Path(__file__).parent / "rows_ops.py")
assert _spec is not None
assert _spec.loader is not None
linalg = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(linalg)


def old(successor):
    """The row of an old name: the cases of its successor that its dtypes and attributes allow."""
    definition = opdef.lookup("Batch" + successor.type_name)
    allowed = definition.attrs["T"].allowed
    names = [name for name in successor.names if allowed is None or dtypes.as_dtype(name) in allowed]
    cases = [
        dataclasses.replace(one, types={key: value for key, value in one.types.items() if key != "Tindex"})
        for one in successor.cases
        if (one.main is None or one.main in names)
        and set(one.attrs) <= set(definition.attrs)
        and one.types.get("Tindex", "int64") == "int64"
    ]
    return row(
        "Batch" + successor.type_name,
        successor.reference,
        cases[:3],
        " ".join(names),
        tolerance=successor.tolerance,
        order=0 if successor.gaps else 1,
        check=successor.check,
        invariant=successor.invariant,
    )


OLD = [
    "MatrixBandPart", "MatrixDiag", "MatrixDiagPart", "MatrixSetDiag", "Cholesky", "CholeskyGrad", "MatrixDeterminant",
    "MatrixInverse", "MatrixSolve", "MatrixTriangularSolve", "MatrixSolveLs", "SelfAdjointEig", "SelfAdjointEigV2",
    "Svd",
]  # fmt: skip


def whole(diagonals):
    """The matrices with these diagonals ``[..., 3, n]``."""
    size = diagonals.shape[-1]
    out = np.zeros((*diagonals.shape[:-2], size, size), diagonals.dtype)
    for i in range(size):
        out[..., i, i] = diagonals[..., 1, i]
        if i + 1 < size:
            out[..., i, i + 1] = diagonals[..., 0, i]
            out[..., i + 1, i] = diagonals[..., 2, i + 1]
    return out


def solve(diagonals, rhs, partial_pivoting=True):
    return np.linalg.solve(whole(diagonals), rhs)


def multiply(above, main, below, rhs):
    return whole(np.concatenate([above, main, below], -2)) @ rhs


DOMINANT = np.random.default_rng(3).uniform(-1, 1, (2, 3, 5))
DOMINANT[:, 1] += 3
WILD = np.random.default_rng(4).uniform(-1, 1, (2, 3, 6))
WILD[:, 1, ::2] *= 0.01


def fixed(value, *others, **options):
    return case(value, *others, grad=True, **options)


def principal(x):
    return linalg.each(lambda m: scipy.linalg.sqrtm(m), x)


def logarithm(x):
    return linalg.each(lambda m: scipy.linalg.logm(m), x)


GOOD = linalg.well(2, kind="definite")
TURN = np.array([[2.0, -3.0, 0.1], [3.0, 2.0, 0.3], [0.0, 0.2, 1.0]])

ROWS = [
    *(old(next(item for item in linalg.ROWS if item.type_name == name)) for name in OLD),
    row("TridiagonalMatMul", multiply, [case(real(2, 1, 4), real(2, 1, 4), real(2, 1, 4), real(2, 4, 3)),
                                        case(real(1, 1), real(1, 1), real(1, 1), real(1, 2))], tolerance=4),
    row("TridiagonalSolve", solve,
        [fixed(DOMINANT, real(2, 5, 2)), case(DOMINANT[0], real(5, 1), partial_pivoting=False, grad=False),
         fixed(WILD, real(2, 6, 2)), case(DOMINANT[:, :, :1], real(2, 1, 2), grad=False),
         case(DOMINANT[:, :, :2], real(2, 2, 0), grad=False)], "float double complex128", tolerance=40, order=1),
    row("MatrixSquareRoot", principal, [fixed(GOOD), fixed(TURN), case(np.zeros((0, 0)), grad=False)], tolerance=10,
        order=1),
    row("MatrixLogarithm", logarithm, [case(GOOD + 0.3j * np.eye(GOOD.shape[-1])), case((1 + 0.2j) * TURN),
                                       case(300j * TURN)],
        tolerance=20),
    elsewhere("TemporaryVariable", "tests/ops/state/test_state_temporary.py"),
    elsewhere("DestroyTemporaryVariable", "tests/ops/state/test_state_temporary.py"),
    elsewhere("RefIdentity", "tests/ops/state/test_state_temporary.py"),
    elsewhere("GetSessionHandle", "tests/runtime/test_session_tensors.py"),
    elsewhere("GetSessionTensor", "tests/runtime/test_session_tensors.py"),
    elsewhere("DeleteSessionTensor", "tests/runtime/test_session_tensors.py"),
]  # fmt: skip
