"""``BatchCholesky`` and its kin: linear algebra of GraphDefs before version 11, where single matrices had other ops.

Each is its successor under another name, for fewer dtypes; gradients are built from the successors.
"""

from __future__ import annotations

from anabranch.core.contract import opdef
from anabranch.core.contract.opdef import PURE, Bool, Type, define
from anabranch.ops.linalg import diagonals, factor, solve  # noqa: F401  (their ops are looked up below)

_REALS = "double float"
_ANY = Type()
_ADJOINT = {"adjoint": Bool(False)}
_ROWS = (
    ("MatrixBandPart", "input: T, num_lower: int64, num_upper: int64 -> band: T", {"T": _ANY}),
    ("MatrixDiag", "diagonal: T -> output: T", {"T": _ANY}),
    ("MatrixDiagPart", "input: T -> diagonal: T", {"T": _ANY}),
    ("MatrixSetDiag", "input: T, diagonal: T -> output: T", {"T": _ANY}),
    ("Cholesky", "input: T -> output: T", {"T": Type(_REALS)}),
    ("CholeskyGrad", "l: T, grad: T -> output: T", {"T": Type(_REALS)}),
    ("MatrixDeterminant", "input: T -> output: T", {"T": Type("float double complex64 complex128")}),
    ("MatrixInverse", "input: T -> output: T", {**_ADJOINT, "T": Type(_REALS)}),
    ("MatrixSolve", "matrix: T, rhs: T -> output: T", {**_ADJOINT, "T": Type(_REALS)}),
    (
        "MatrixTriangularSolve",
        "matrix: T, rhs: T -> output: T",
        {"lower": Bool(True), **_ADJOINT, "T": Type(_REALS)},
    ),
    (
        "MatrixSolveLs",
        "matrix: T, rhs: T, l2_regularizer: double -> output: T",
        {"T": Type(_REALS), "fast": Bool(True)},
    ),
    ("SelfAdjointEig", "input: T -> output: T", {"T": Type(_REALS)}),
    ("SelfAdjointEigV2", "input: T -> e: T, v: T", {"compute_v": Bool(True), "T": Type(_REALS)}),
    (
        "Svd",
        "input: T -> s: T, u: T, v: T",
        {
            "compute_uv": Bool(True),
            "full_matrices": Bool(False),
            "T": Type("double float complex64 complex128"),
        },
    ),
)

for _name, _signature, _attrs in _ROWS:
    _successor = opdef.lookup(_name)
    define(
        "Batch" + _name,
        f"{_name} under the name that GraphDefs before version 11 have for batches.",
        signature=_signature,
        attrs=_attrs,
        effect=PURE,
        moves=_successor.moves,
        cost=_successor.cost,
        compile_time=_successor.compile_time,
        shape=_successor.shape,
        value=_successor.value,
        checks=_successor.checks,
        kernel=_successor.kernel,
        host_kernel=_successor.host_kernel,
        gradient=_successor.gradient,
    )
