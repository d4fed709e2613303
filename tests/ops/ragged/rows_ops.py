"""Counts by row; where ragged rows are tested."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import case, elsewhere, row


def bins(values, size, weights, binary_output=False):
    rows = values.reshape(-1, values.shape[-1]).astype(int)
    amounts = (weights if weights.size else np.ones(values.shape)).reshape(rows.shape)
    found = np.zeros([len(rows), int(size)])
    for i, line in enumerate(rows):
        for value, amount in zip(line, amounts[i], strict=True):
            if value < size:
                found[i, value] = 1 if binary_output else found[i, value] + amount
    return found.reshape(*values.shape[:-1], int(size))


ROWS = [
    row(
        "DenseBincount",
        bins,
        [
            case(np.int32([0, 3, 3, 9]), np.int32(5), np.array([1.0, 2.0, 4.0, 3.0])),
            case(np.int32([[0, 3, 3], [1, 1, 1]]), np.int32(4), np.zeros(0)),
            case(np.int32([[0, 3, 3], [1, 1, 1]]), np.int32(4), np.zeros(0), binary_output=True),
        ],
        "float double int32 int64",
        vary="T",
    ),
    elsewhere("RaggedBincount", "tests/ops/ragged/test_ragged.py"),
    elsewhere("RaggedTensorToTensor", "tests/ops/ragged/test_ragged.py"),
    elsewhere("StringNGrams", "tests/ops/ragged/test_ragged.py"),
]
