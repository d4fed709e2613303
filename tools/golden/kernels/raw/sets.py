"""Cases of sets."""

import numpy as np
from raw_ops import case

A = np.array([[[1, 2, 2], [9, 9, 3]], [[4, 5, 6], [0, 1, 0]]], np.int64)
B = np.array([[[2, 7], [3, 3]], [[6, 4], [5, 8]]], np.int64)
INDICES = np.array([[0, 0, 0], [0, 0, 1], [0, 1, 0], [1, 0, 2], [1, 0, 3]], np.int64)
SPARSE = INDICES, np.array([2, 1, 3, 6, 6], np.int64), np.array([2, 2, 4], np.int64)
OTHER = np.array([[0, 0, 0], [1, 1, 0]], np.int64), np.array([1, 7], np.int64), np.array([2, 2, 2], np.int64)
WORDS = np.array([[b"b", b"a"], [b"x", b"x"]], object), np.array([[b"a", b"c"], [b"y", b"z"]], object)

CASES = {"size": case("SetSize", *SPARSE)}
for _name in ("a-b", "b-a", "intersection", "union"):
    CASES[f"dense {_name}"] = case("DenseToDenseSetOperation", A, B, set_operation=_name)
    CASES[f"mixed {_name}"] = case("DenseToSparseSetOperation", A, *SPARSE, set_operation=_name)
    CASES[f"sparse {_name}"] = case("SparseToSparseSetOperation", *SPARSE, *OTHER, set_operation=_name)
    CASES[f"words {_name}"] = case("DenseToDenseSetOperation", *WORDS, set_operation=_name)
