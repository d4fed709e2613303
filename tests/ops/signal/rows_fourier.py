"""Rows of Fourier transforms, against sums of exponentials."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import case, real, row


def transform(x, rank, sign):
    """The sum of exponentials over each of the last dimensions."""
    for axis in range(-rank, 0):
        size = x.shape[axis]
        steps = np.outer(np.arange(size), np.arange(size))
        matrix = np.exp(sign * 2j * np.pi * steps / max(size, 1))
        x = np.moveaxis(np.tensordot(x, matrix, ([axis], [0])), -1, axis)
    return x


def forward(rank):
    return lambda x: transform(x.astype(np.complex128), rank, -1)


def backward(rank):
    return lambda x: transform(x.astype(np.complex128), rank, 1) / np.prod(x.shape[-rank:])


def cut(x, sizes):
    return x[(..., *(slice(0, size) for size in sizes))]


def of_real(rank):
    def reference(x, length):
        sizes = [int(size) for size in length]
        return cut(transform(cut(x, sizes).astype(np.complex128), rank, -1), [*sizes[:-1], sizes[-1] // 2 + 1])

    return reference


def to_real(rank):
    def reference(x, length):
        sizes = [int(size) for size in length]
        half = sizes[-1] // 2 + 1
        x = cut(x, [*sizes[:-1], half])
        for axis in range(-rank, -1):
            x = np.moveaxis(transform(np.moveaxis(x, axis, -1), 1, 1), -1, axis) / x.shape[axis]
        # The last dimension: each inner element together with its conjugate; only real parts of the ends count.
        n, k = np.arange(sizes[-1]), np.arange(half)
        twice = np.where((k == 0) | ((k == sizes[-1] // 2) & (sizes[-1] % 2 == 0)), 1, 2)
        waves = np.exp(2j * np.pi * np.outer(k, n) / sizes[-1]) * twice[:, None]
        return (x @ waves).real / sizes[-1]

    return reference


SHAPES = {1: (2, 5), 2: (2, 3, 4), 3: (2, 3, 2, 4)}
NAMES = {1: "", 2: "2D", 3: "3D"}
PAIRS = {"complex64": "float", "complex128": "double"}


def lengths(rank):
    """Of an even and an odd size, as long as the signal and shorter."""
    odd, even = [3] * rank, [*[2] * (rank - 1), 4]
    return [even, odd]


ROWS = []
for rank, shape in SHAPES.items():
    for inverse in (False, True):
        name = ("IFFT" if inverse else "FFT") + NAMES[rank]
        reference = backward(rank) if inverse else forward(rank)
        cases = [case(real(*shape)), case(real(*([4] * rank))), case(real(*shape[:-1], 0)), case(real(0, *shape[1:]))]
        ROWS.append(row(name, reference, cases[: 4 if not inverse else 2], vary="Tcomplex", tolerance=4))
        ROWS.append(row("Batch" + name, reference, cases[:2], tolerance=4, order=0))
    shape = tuple(4 if i else 2 for i in range(rank + 1))
    ROWS.append(
        row(
            "RFFT" + NAMES[rank],
            of_real(rank),
            [
                case(real(*shape), length, types={"Treal": PAIRS[kind]}, dtype=kind, grad=kind == "complex128")
                for length in lengths(rank)
                for kind in PAIRS
            ],
            vary="Tcomplex",
            tolerance=4,
        )
    )
    ROWS.append(
        row(
            "IRFFT" + NAMES[rank],
            to_real(rank),
            [
                case(real(*shape), length, types={"Treal": PAIRS[kind]}, dtype=kind, grad=kind == "complex128")
                for length in [*lengths(rank), [4] * (rank - 1) + [5]]
                for kind in PAIRS
            ],
            vary="Tcomplex",
            tolerance=4,
        )
    )
