"""Rows of matrix products and sums of products by labels."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import case, real, row


def product(a, b):
    """Element by element, without a library's product."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    a, b = (np.broadcast_to(x, batch + x.shape[-2:]) for x in (a, b))
    out = np.zeros((*batch, a.shape[-2], b.shape[-1]), np.result_type(a, b))
    with np.errstate(over="ignore"):
        for i in range(a.shape[-1]):
            out += a[..., :, i, None] * b[..., i, None, :]
    return out


def turned(x, transpose=False, adjoint=False):
    x = np.conj(x) if adjoint else x
    return np.swapaxes(x, -1, -2) if transpose or adjoint else x


def matmul(a, b, transpose_a=False, transpose_b=False, **hints):
    return product(turned(a, transpose_a), turned(b, transpose_b))


def batch_matmul(x, y, adj_x=False, adj_y=False, Tout=None):
    if Tout is not None:
        x, y = (v.astype(np.float64 if Tout.is_floating else Tout.np) for v in (x, y))
    return product(turned(x, adjoint=adj_x), turned(y, adjoint=adj_y))


def pairs(left, right):
    """The four orientations of a product of `[2, 3]` and `[3, 4]`."""
    return [
        case(real(2, 3), real(3, 4)),
        case(real(3, 2), real(3, 4), **{left: True}),
        case(real(2, 3), real(4, 3), **{right: True}),
        case(real(3, 2), real(4, 3), **{left: True, right: True}),
    ]


def both(cases):
    """Each orientation in complex numbers, too."""
    more = [case(*one.inputs, dtype="complex128", **one.attrs) for one in cases[1:]]
    return [*cases, *more]


def batched(cases, *lead):
    return [
        case(
            *(real(*shape, *item.shape) for shape, item in zip(lead, one.inputs, strict=True)),
            dtype=one.main,
            **one.attrs,
        )
        for one in cases
    ]


ADJOINT = both(pairs("adj_x", "adj_y"))
EMPTY = [case(real(2, 0), real(0, 3)), case(real(0, 2), real(2, 3)), case(real(1, 1), real(1, 1))]
SPECIAL = case([[np.inf, 1.0], [np.nan, 0.0]], [[1.0, 0.0], [0.0, -1.0]], grad=False)


def einsum(tensors, equation):
    """The definition: a sum over the positions of all labels."""
    left, right = equation.replace(" ", "").split("->")
    terms = left.split(",")
    pairs_ = list(zip(terms, tensors, strict=True))
    extra = max((x.ndim - len(term.replace("...", "")) for term, x in pairs_ if "..." in term), default=0)
    sizes: dict[str, int] = {}
    names = []
    for term, x in pairs_:
        own = x.ndim - len(term.replace("...", ""))
        full = term.replace("...", "".join(chr(65 + i) for i in range(extra - own, extra)))
        names.append(full)
        for label, size in zip(full, x.shape, strict=True):
            sizes[label] = max(sizes.get(label, 0), size) if label.isupper() and size != 0 else size
    out = right.replace("...", "".join(chr(65 + i) for i in range(extra)))
    result = np.zeros([sizes[label] for label in out], np.result_type(*tensors))
    labels = list(sizes)
    for place in np.ndindex(*(sizes[label] for label in labels)):
        at = dict(zip(labels, place, strict=True))
        term = 1
        for full, x in zip(names, tensors, strict=True):
            term = term * x[tuple(at[i] if n > 1 or not i.isupper() else 0 for i, n in zip(full, x.shape, strict=True))]
        result[tuple(at[label] for label in out)] += term
    return result


def equations(*table, **options):
    return [case([real(*shape) for shape in shapes], equation=equation, **options) for equation, *shapes in table]


EINSUM = equations(
    ("ij,jk->ik", (2, 3), (3, 4)),
    ("bij,bkj->bik", (2, 2, 3), (2, 4, 3)),
    ("ij->ji", (2, 3)),
    ("ij->j", (2, 3)),
    ("ij->", (2, 3)),
    ("ii->i", (3, 3)),
    ("ii->", (3, 3)),
    ("i->ii", (3,)),
    ("iij->ij", (2, 2, 3)),
    ("ij,j->jij", (2, 3), (3,)),
    ("i,j->ij", (2,), (3,)),
    ("i,i->", (3,), (3,)),
    ("ij,k->i", (2, 3), (4,)),
    (",i->i", (), (3,)),
    ("...ij,jk->...ik", (2, 2, 3), (3, 2)),
    ("...ij,...jk->...ik", (2, 1, 2, 3), (3, 3, 2)),
    ("b...,b...->...b", (2, 1, 3), (2, 2, 1)),
    ("a...b->b...a", (2, 3, 4)),
    ("...i->i", (2, 3)),
    ("...i,ij->j", (2, 2, 3), (3, 2)),
    ("i...k,k->i...", (2, 3, 4), (4,)),
    ("ij,jk,kl->il", (2, 3), (3, 2), (2, 3)),
    ("ij,jk->ik", (0, 3), (3, 2)),
    ("ij,jk->ik", (2, 0), (0, 2)),
)

ROWS = [
    row("MatMul", matmul, [*both(pairs("transpose_a", "transpose_b")), *EMPTY, SPECIAL]),
    row("BatchMatMul", batch_matmul, [*batched(ADJOINT, (2,), (2,)), *EMPTY, *batched(EMPTY, (2, 2), (2, 2))]),
    row(
        "BatchMatMulV2",
        batch_matmul,
        [*batched(ADJOINT, (2, 1), (3,)), *batched(ADJOINT[:4], (), (2,)), *batched(EMPTY, (0,), (1,)), *EMPTY],
    ),
    row(
        "BatchMatMulV3",
        batch_matmul,
        [
            case(real(2, 2, 3), real(3, 2), types={"Tb": "int8", "Tout": "double"}, grad=False),
            case(real(2, 3), real(2, 3, 2), types={"Ta": "double", "Tb": "double", "Tout": "double"}),
        ],
        "uint8 int8 int32 float double",
        vary="Ta",
    ),
    row(
        "SparseMatMul",
        matmul,
        [
            *pairs("transpose_a", "transpose_b"),
            case(real(2, 3), real(3, 2), types={"Tb": "bfloat16"}, a_is_sparse=True, grad=False),
            *EMPTY,
        ],
        vary="Ta",
    ),
    row("Einsum", einsum, EINSUM, "half bfloat16 float double int32 int64 complex64 complex128"),
]
