"""Rows of diagonals and bands, factorisations and systems of equations."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from anabranch.core.graph.build import build
from anabranch.core.values import dtypes
from anabranch.testing.op_cases import ANY, case, real, row

BANDED = "float double int32 bool complex128"
FLOATS = "half float double complex64 complex128"


def each(function, *arrays):
    """Applies a function of matrices to each of a batch."""
    batch = np.broadcast_shapes(*(x.shape[:-2] for x in arrays))
    arrays = [np.broadcast_to(x, batch + x.shape[-2:]) for x in arrays]
    results = [function(*(x[index] for x in arrays)) for index in np.ndindex(*batch)]
    return np.array(results).reshape(batch + np.shape(results[0]))


def fixed(*inputs, grad=True, **options):
    """A case of given matrices that joins the gradient checks."""
    return case(*inputs, grad=grad, **options)


def h(x):
    return np.conj(np.swapaxes(x, -1, -2))


def well(*batch, size=3, kind="general", phases=False):
    """Fixed matrices that are easy to invert, complex if ``phases``."""
    random = np.random.default_rng(0)
    x = random.uniform(-1, 1, (*batch, size, size))
    if phases:
        x = x + 0.3j * random.uniform(-1, 1, (*batch, size, size))
    if kind == "definite":
        x = x @ h(x) / size + np.eye(size)
    elif kind == "self adjoint":
        x = x + h(x) + 3 * np.diag(np.arange(size))
    else:
        x = x + 2 * np.eye(size)
    return x


# ------------------------------------------------------------------------------------------------- diagonals and bands
def band_part(x, lower, upper):
    out = np.zeros_like(x)
    for i, j in np.ndindex(*x.shape[-2:]):
        if (lower < 0 or i - j <= lower) and (upper < 0 or j - i <= upper):
            out[..., i, j] = x[..., i, j]
    return out


def set_diag(x, diagonal):
    out = x.copy()
    for i in range(min(x.shape[-2:])):
        out[..., i, i] = diagonal[..., i]
    return out


def diag(diagonal):
    return set_diag(np.zeros((*diagonal.shape, diagonal.shape[-1]), diagonal.dtype), diagonal)


def diag_part(x):
    return np.stack([x[..., i, i] for i in range(min(x.shape[-2:]))], -1) if x.size else np.zeros((*x.shape[:-2], 0))


def tensor_diag(x):
    out = np.zeros(x.shape + x.shape, x.dtype)
    for index in np.ndindex(*x.shape):
        out[index + index] = x[index]
    return out


def tensor_diag_part(x):
    half = x.shape[: x.ndim // 2]
    out = np.zeros(half, x.dtype)
    for index in np.ndindex(*half):
        out[index] = x[index + index]
    return out


def places(rows, columns, k, align):
    """(row of the packed diagonals, place in it, row, column) for each element of a band."""
    low, high = int(np.ravel(k)[0]), int(np.ravel(k)[-1])
    longest = min(rows + min(high, 0), columns - max(low, 0))
    for d in range(low, high + 1):
        own = [(i, i + d) for i in range(rows) if 0 <= i + d < columns]
        left = (d >= 0 and align.startswith("LEFT")) or (d <= 0 and align.endswith("LEFT"))
        shift = 0 if left else longest - len(own)
        for at, (i, j) in enumerate(own):
            yield high - d, at + shift, i, j


def packed(rows, columns, k):
    low, high = int(np.ravel(k)[0]), int(np.ravel(k)[-1])
    longest = min(rows + min(high, 0), columns - max(low, 0))
    return (longest,) if low == high else (high - low + 1, longest)


def part_band(x, k, padding, align="LEFT_LEFT"):
    inner = packed(*x.shape[-2:], k)
    out = np.full((*x.shape[:-2], *(inner if len(inner) == 2 else (1, *inner))), padding, x.dtype)
    for d, at, i, j in places(*x.shape[-2:], k, align):
        out[..., d, at] = x[..., i, j]
    return out.reshape(*x.shape[:-2], *inner)


def set_band(x, diagonal, k, align="LEFT_LEFT"):
    out = x.copy()
    inner = packed(*x.shape[-2:], k)
    diagonal = diagonal.reshape(*x.shape[:-2], *(inner if len(inner) == 2 else (1, *inner)))
    for d, at, i, j in places(*x.shape[-2:], k, align):
        out[..., i, j] = diagonal[..., d, at]
    return out


def diag_band(diagonal, k, rows, columns, padding, align="LEFT_LEFT"):
    low, high = int(np.ravel(k)[0]), int(np.ravel(k)[-1])
    longest = diagonal.shape[-1]
    least = longest - min(high, 0), longest + max(low, 0)
    rows, columns = int(rows), int(columns)
    if rows == columns == -1:
        rows = columns = max(least)
    rows, columns = (own if own != -1 else small for own, small in zip((rows, columns), least, strict=True))
    lead = diagonal.shape[: -1 if low == high else -2]
    return set_band(np.full((*lead, rows, columns), padding, diagonal.dtype), diagonal, k, align)


def right_left(reference):
    """The third version of an op, whose alignment has another default."""
    return lambda *inputs, align="RIGHT_LEFT": reference(*inputs, align=align)


def bands(align=False):
    """(k, rows, columns, alignment) of each kind."""
    kinds = [(1, 3, 4), (-1, 4, 3), ([-1, 1], 3, 3), ([1, 2], 3, 5), ([-2, 0], 3, 2)]
    names = ["RIGHT_LEFT", "LEFT_RIGHT", "LEFT_LEFT", "RIGHT_RIGHT"]
    if not align:
        return [(*kind, {}) for kind in kinds]
    return [(*kind, {"align": name, "grad": name == names[0]}) for kind in kinds for name in names]


def part_cases(align):
    return [case(real(2, m, n), k, 7, **kw) for k, m, n, kw in bands(align)] + [case(real(2, 3), 0, 0)]


def set_cases(align):
    return [case(real(2, m, n), real(2, *packed(m, n, k)), k, **kw) for k, m, n, kw in bands(align)] + [
        case(real(2, 3), real(2), 0)
    ]


def diag_cases(align):
    sized = [case(real(2, *packed(m, n, k)), k, m, n, 7, **kw) for k, m, n, kw in bands(align)]
    return [*sized, case(real(2, 3), 1, -1, -1, 0), case(real(2, 3), [0, 1], -1, -1, 0), case(real(3), -1, -1, 3, 5)]


# ------------------------------------------------------------------------------------------------------ factorisations
def tril_cholesky(x):
    """Column by column, from the lower triangle."""
    out = np.zeros_like(x)
    for j in range(x.shape[-1]):
        rest = x[..., j:, j] - np.sum(out[..., j:, :j] * np.conj(out[..., j : j + 1, :j]), -1)
        out[..., j:, j] = rest / np.sqrt(rest[..., :1].real)
    return out


def cholesky_grad(factor, grad):
    """Solves the equation of the differential for each direction of a symmetric matrix."""
    n = factor.shape[-1]
    factor = np.tril(factor)
    out = np.zeros_like(factor)
    inverse = np.linalg.inv(factor)
    for i, j in np.ndindex(n, n):
        direction = np.zeros((n, n))
        direction[i, j] += 0.5
        direction[j, i] += 0.5
        middle = inverse @ direction @ inverse.T
        move = factor @ (np.tril(middle, -1) + 0.5 * np.diag(np.diag(middle)))
        out[i, j] = np.sum(np.tril(grad) * move)
    return out


def determinant(x):
    """By the first row."""
    if x.shape[-1] == 0:
        return np.ones(x.shape[:-2], x.dtype)
    total = np.zeros(x.shape[:-2], x.dtype)
    for j in range(x.shape[-1]):
        minor = np.delete(x[..., 1:, :], j, -1)
        total = total + (-1) ** j * x[..., 0, j] * determinant(minor)
    return total


def log_determinant(x):
    found = determinant(x)
    return np.where(found == 0, 0, found / np.where(found == 0, 1, np.abs(found))), np.log(np.abs(found)).astype(
        x.dtype
    )


def inverse(x, adjoint=False):
    return each(scipy.linalg.inv, h(x) if adjoint else x) if x.size else x


def solve(a, b, adjoint=False):
    return each(scipy.linalg.solve, h(a) if adjoint else a, b) if b.size else b


def solve_triangular(a, b, lower=True, adjoint=False):
    return each(lambda x, y: scipy.linalg.solve_triangular(x, y, lower=lower, trans="C" if adjoint else "N"), a, b)


def least_squares(a, b, ridge, fast=True):
    if not fast:
        return each(lambda x, y: scipy.linalg.lstsq(x, y)[0], a, b)
    columns = a.shape[-1]
    wide = np.concatenate([a, np.broadcast_to(np.sqrt(ridge) * np.eye(columns), (*a.shape[:-2], columns, columns))], -2)
    zeros = np.zeros((*b.shape[:-2], columns, b.shape[-1]))
    return each(lambda x, y: scipy.linalg.lstsq(x, y)[0], wide, np.concatenate([b, zeros], -2))


def exponential(x):
    return each(scipy.linalg.expm, x) if x.size else x


def cross(a, b):
    table = np.zeros((3, 3, 3), int)
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        table[i, j, k], table[i, k, j] = 1, -1
    with np.errstate(over="ignore"):
        return np.einsum("ijk,...j,...k->...i", table, a, b).astype(a.dtype)


EPS = {"float16": 4e-3, "float32": 1e-5, "complex64": 1e-5, "float64": 1e-11, "complex128": 1e-11}


def near(found, wanted, what, dtype):
    error = np.max(np.abs(wide(found) - wanted), initial=0)
    assert error <= EPS[dtype.name] * max(1, np.max(np.abs(wanted), initial=0)), f"{what} is wrong by {error}"


def wide(x):
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def orthonormal(q, what):
    eye = np.broadcast_to(np.eye(q.shape[-1]), (*q.shape[:-2], *[q.shape[-1]] * 2))
    near(h(wide(q)) @ wide(q), eye, f"{what}^H {what}", q.dtype)


def check_eigen(outputs, inputs, attrs):
    x = np.tril(wide(inputs[0]))
    x = x + h(np.tril(x, -1))
    e, v = outputs
    near(e, np.linalg.eigvalsh(x), "e", e.dtype)
    if not attrs["compute_v"]:
        assert v.shape == (0,)
        return
    near(wide(v) * wide(e)[..., None, :] @ h(wide(v)), x, "v e v^H", e.dtype)
    orthonormal(v, "v")


def check_eigen_of_any(outputs, inputs, attrs):
    x = wide(inputs[0])
    e, v = outputs
    wanted = np.linalg.eigvals(x)
    near(np.sort_complex(np.round(e, 3)), np.sort_complex(np.round(wanted, 3)), "e", e.dtype)
    if not attrs["compute_v"]:
        assert v.shape == (0,)
        return
    near(x @ v.astype(np.complex128), v.astype(np.complex128) * e[..., None, :], "x v", e.dtype)
    near(np.sum(np.abs(v) ** 2, -2), np.ones(e.shape), "the length of v", e.dtype)


def check_eigen_stacked(outputs, inputs, attrs):
    (found,) = outputs
    check_eigen([found[..., 0, :], found[..., 1:, :]], inputs, {"compute_v": True})


def check_qr(outputs, inputs, attrs):
    q, r = outputs
    x = inputs[0]
    near(wide(q) @ wide(r), wide(x), "q r", q.dtype)
    near(r, np.triu(wide(r)), "r, whose lower triangle must be 0,", q.dtype)
    orthonormal(q, "q")
    assert q.shape[-1] == (x.shape[-2] if attrs["full_matrices"] else min(x.shape[-2:]))


def check_svd(outputs, inputs, attrs):
    s, u, v = outputs
    x = wide(inputs[0])
    squares = np.linalg.eigvalsh(h(x) @ x if x.shape[-2] > x.shape[-1] else x @ h(x))[..., ::-1]
    near(s, np.sqrt(squares), "s", s.dtype)
    if not attrs["compute_uv"]:
        assert u.shape == v.shape == (0,)
        return
    count = s.shape[-1]
    near(wide(u)[..., :count] * wide(s)[..., None, :] @ h(wide(v)[..., :count]), x, "u s v^H", s.dtype)
    orthonormal(u, "u")
    orthonormal(v, "v")
    if attrs["full_matrices"]:
        assert (u.shape[-1], v.shape[-1]) == x.shape[-2:]


def check_lu(outputs, inputs, attrs):
    lu, p = outputs
    lower = np.tril(wide(lu), -1)
    ordered = np.take_along_axis(wide(inputs[0]), p[..., None].astype(int), -2)
    near((lower + np.eye(lu.shape[-1])) @ np.triu(wide(lu)), ordered, "L U", lu.dtype)
    assert np.max(np.abs(lower), initial=0) <= 1 + 1e-3, "rows are not ordered by pivots"


def pairs(u, v):
    """Products of the elements of columns that belong together: what does not change with the columns' signs."""
    return build("Mul", build("ExpandDims", u, -2), build("ExpandDims", v, -3))


def eigen_invariants(e, v):
    return [e, pairs(v, v)] if v.shape.ndims != 1 else [e]


def stacked_invariants(found):
    return eigen_invariants(found[..., 0, :], found[..., 1:, :])


def svd_invariants(s, u, v):
    if u.shape.ndims == 1:
        return [s]
    count = min(u.shape.as_list()[-2], v.shape.as_list()[-2])
    u, v = u[..., :count], v[..., :count]
    return [s, pairs(u, v), pairs(u, u), pairs(v, v)]


COMPLEX = well(2, phases=True)
SQUARE = [fixed(well(2)), fixed(well(size=1)), case(np.zeros((2, 0, 0))), case(COMPLEX, dtype="complex128", grad=False)]
TF_NONE = "TensorFlow gives this operand no gradient; tests/ops/linalg/test_linalg.py checks the others"

ROWS = [
    row(
        "MatrixBandPart",
        band_part,
        [
            case(real(2, 3, 4), 1, -1, types={"Tindex": "int64"}),
            case(real(4, 3), 0, 1, types={"Tindex": "int32"}),
            case(real(3, 3), -1, 0, types={"Tindex": "int64"}),
            case(real(2, 0, 3), 0, 0, types={"Tindex": "int64"}),
        ],
        ANY,
    ),
    row("MatrixDiag", diag, [case(real(2, 3)), case(real(3)), case(real(2, 0))], ANY),
    row(
        "MatrixDiagPart", diag_part, [case(real(2, 3, 3)), case(real(2, 3)), case(real(3, 2)), case(real(2, 0, 3))], ANY
    ),
    row(
        "MatrixSetDiag",
        set_diag,
        [
            case(real(2, 3, 3), real(2, 3)),
            case(real(2, 3), real(2)),
            case(real(3, 2), real(2)),
            case(real(0, 2), real(0)),
        ],
        ANY,
    ),
    row("MatrixDiagV2", diag_band, diag_cases(False), BANDED, gaps={"order 1": TF_NONE}),
    row(
        "MatrixDiagPartV2",
        part_band,
        part_cases(False),
        BANDED,
        gaps={"order 1": TF_NONE},
    ),
    row("MatrixSetDiagV2", set_band, set_cases(False), BANDED),
    row(
        "MatrixDiagV3",
        right_left(diag_band),
        diag_cases(True),
        "float double int32",
        gaps={"order 1": TF_NONE},
    ),
    row(
        "MatrixDiagPartV3",
        right_left(part_band),
        part_cases(True),
        "float double int32",
        gaps={"order 1": TF_NONE},
    ),
    row("MatrixSetDiagV3", right_left(set_band), set_cases(True), BANDED),
    row("Diag", tensor_diag, [case(real(2, 3)), case(real(3)), case(real(2, 0))]),
    row("DiagPart", tensor_diag_part, [case(real(2, 3, 2, 3)), case(real(3, 3)), case(real(2, 0, 2, 0))]),
    row(
        "Cholesky",
        tril_cholesky,
        [
            fixed(well(2, kind="definite")),
            case([[1.0, 7.0], [0.5, 2.0]]),
            case(np.zeros((0, 2, 2))),
            case([[np.nan, 0.0], [1.0, 1.0]], grad=False),
        ],
        FLOATS,
        tolerance=4,
        gaps={"order 1": "symmetric, as TensorFlow's; tests/ops/linalg/test_linalg.py checks it on symmetric matrices"},
    ),
    row("CholeskyGrad", cholesky_grad, [fixed(well(kind="definite"), real(3, 3))], tolerance=20),
    row(
        "MatrixInverse",
        inverse,
        [*SQUARE, case(COMPLEX, adjoint=True, dtype="complex128", grad=False)],
        FLOATS,
        tolerance=10,
    ),
    row("MatrixDeterminant", determinant, SQUARE, FLOATS, tolerance=10),
    row("LogMatrixDeterminant", log_determinant, SQUARE[:2] + SQUARE[3:], FLOATS, tolerance=10),
    row(
        "Lu",
        None,
        [fixed(well(2)), fixed(well(size=4), output_idx_type=dtypes.int64)],
        FLOATS,
        check=check_lu,
        order=0,
    ),
    row(
        "MatrixSolve",
        solve,
        [
            fixed(well(2), real(2, 3, 2)),
            case(COMPLEX, real(2, 3, 1), adjoint=True, dtype="complex128", grad=False),
            fixed(well(), real(3, 0)),
            fixed(well(), real(3, 2), adjoint=True),
        ],
        FLOATS,
        tolerance=10,
    ),
    row(
        "MatrixTriangularSolve",
        solve_triangular,
        [
            fixed(well(2), real(2, 3, 2)),
            fixed(well(), real(2, 3, 1), lower=False),
            fixed(well(2), real(3, 2), adjoint=True),
            case(COMPLEX, real(3, 2), lower=False, adjoint=True, dtype="complex128", grad=False),
        ],
        "bfloat16 " + FLOATS,
        tolerance=10,
    ),
    row(
        "MatrixSolveLs",
        least_squares,
        [
            fixed(well(2)[..., :2], real(2, 3, 2), 0.5),
            fixed(well(2)[..., :2, :], real(2, 2, 1), 0.5, dtype="double"),
            case(COMPLEX[..., :2], real(2, 3, 1), 0.25, dtype="complex128", grad=False),
            fixed(well()[:, :2], real(3, 1), 0.0, fast=False, grad=False),
            case([[1.0, 2.0], [2.0, 4.0], [3.0, 6.0]], real(3, 1), 0.0, fast=False, grad=False),
            fixed(well()[:2], real(2, 1), 0.0, fast=False, grad=False),
        ],
        FLOATS,
        tolerance=20,
        gaps={"order 1": TF_NONE},
    ),
    row(
        "SelfAdjointEigV2",
        None,
        [
            fixed(well(2, kind="self adjoint")),
            fixed(well(2, kind="self adjoint"), compute_v=False),
            fixed(well(2, kind="self adjoint", phases=True), dtype="complex128", grad=False),
            case(np.zeros((0, 0))),
        ],
        "float double",
        check=check_eigen,
        invariant=eigen_invariants,
    ),
    row(
        "Eig",
        None,
        [
            fixed(well(2), dtype="double", Tout="complex128", grad=False),
            fixed(well(2), Tout="complex64", grad=False),
            fixed(well(2), Tout="complex64", compute_v=False, grad=False),
            fixed(well(2, phases=True), dtype="complex128", Tout="complex128", grad=False),
            case(np.zeros((0, 0)), Tout="complex64", grad=False),
        ],
        "float",
        check=check_eigen_of_any,
    ),
    row(
        "SelfAdjointEig",
        None,
        [fixed(well(3, kind="self adjoint")), fixed(well(2, kind="self adjoint")), case(np.zeros((0, 0)), grad=False)],
        "float double",
        check=check_eigen_stacked,
        invariant=stacked_invariants,
    ),
    row(
        "Qr",
        None,
        [
            fixed(well(2)[..., :2]),
            fixed(well()[:2], dtype="double"),
            fixed(well(), full_matrices=True),
            fixed(well()[:, :2], full_matrices=True, grad=False),
            case(COMPLEX, dtype="complex128", grad=False),
        ],
        FLOATS,
        check=check_qr,
    ),
    row(
        "Svd",
        None,
        [
            fixed(well(2)[..., :2]),
            fixed(well(2)[..., :2, :]),
            fixed(well(), full_matrices=True),
            fixed(well(2)[..., :2, :], compute_uv=False),
            fixed(well()[:, :2], full_matrices=True, grad=False),
            case(COMPLEX[..., :2], compute_uv=False, dtype="complex128", grad=False),
            case(COMPLEX[..., :2], dtype="complex128", grad=False),
        ],
        "half float double",
        check=check_svd,
        invariant=svd_invariants,
    ),
    row(
        "MatrixExponential",
        exponential,
        [fixed(well(2)), fixed(40 * well(), dtype="double"), case(np.zeros((2, 2))), case(np.zeros((0, 0)))],
        FLOATS,
        tolerance=20,
    ),
    row("Cross", cross, [case(real(2, 3), real(2, 3)), case(real(3), real(3)), case(real(0, 3), real(0, 3))]),
]
