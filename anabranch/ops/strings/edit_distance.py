"""``tf.edit_distance``: the least number of insertions, deletions and substitutions from sequence to sequence."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Bool, NotDifferentiable, Op, Type
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.sparse_tensor import SparseTensor, SparseTensorValue
from anabranch.core.values import shapes


def distance(first: list[Any], second: list[Any]) -> int:
    """Levenshtein's distance of two sequences, row by row."""
    row = list(range(len(second) + 1))
    for i, item in enumerate(first, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(second, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (item != other))
    return row[-1]


def _sequences(indices: np.ndarray, values: np.ndarray) -> dict[tuple[int, ...], list[Any]]:
    """The values of each group: all coordinates but the last."""
    sequences: dict[tuple[int, ...], list[Any]] = {}
    for place, value in zip(indices.tolist(), values.tolist(), strict=True):
        sequences.setdefault(tuple(place[:-1]), []).append(value)
    return sequences


class EditDistance(Op):
    """Distances of the sequences along the last dimension of two sparse tensors, by the truth's length if normalised.

    A sequence without a truth has distance infinity when normalised, unless it is empty, too: then 0.
    """

    signature = (
        "hypothesis_indices: int64, hypothesis_values: T, hypothesis_shape: int64, truth_indices: int64, "
        "truth_values: T, truth_shape: int64 -> output: float"
    )
    attrs = {"normalize": Bool(True), "T": Type()}
    effect = PURE
    gradient = NotDifferentiable("a distance is a count")

    def shape(c):
        for name in ("hypothesis", "truth"):
            c.with_rank(f"{name}_indices", 2)
            c.with_rank(f"{name}_values", 1)
            c.with_rank(f"{name}_shape", 1)
        sizes = [c.vector(f"{name}_shape") for name in ("hypothesis", "truth")]
        if None in sizes:
            rank = next((s[0] for s in (c.shape("hypothesis_shape"), c.shape("truth_shape")) if s and s[0]), None)
            return None if rank is None else shapes.of_rank(rank - 1)
        if len(sizes[0]) != len(sizes[1]):
            raise ValueError(
                errors.message(
                    f"ranks {len(sizes[0])} and {len(sizes[1])}",
                    "two sparse tensors of one rank",
                    "tf.sparse_reshape(x, shape)",
                )
            )
        return tuple(
            None if None in pair else max(int(pair[0]), int(pair[1]))
            for pair in zip(sizes[0][:-1], sizes[1][:-1], strict=True)
        )

    def host_kernel(ctx, inputs, attrs):
        ours, theirs = _sequences(*inputs[:2]), _sequences(*inputs[3:5])
        shape = np.maximum(inputs[2][:-1], inputs[5][:-1])
        out = np.zeros(shape, np.float32)
        for place in {*ours, *theirs}:
            hypothesis, truth = ours.get(place, []), theirs.get(place, [])
            count = distance(truth, hypothesis)
            if not attrs["normalize"]:
                out[place] = count
            elif truth:
                out[place] = np.float32(count) / np.float32(len(truth))
            else:
                out[place] = np.inf
        return out


@public("edit_distance")
def edit_distance(hypothesis: Any, truth: Any, normalize: bool = True, name: str = "edit_distance") -> Tensor:
    """Levenshtein distances of the sequences along the last dimension of two sparse tensors.

    Args:
        hypothesis: a SparseTensor of rank r.
        truth: a SparseTensor of the same rank and dtype.
        normalize: divide by the lengths of the truth's sequences.
        name: of the op.

    Returns:
        float32 of rank r - 1.
    """
    both = []
    for what, given in (("hypothesis", hypothesis), ("truth", truth)):
        given = SparseTensor(*given) if isinstance(given, SparseTensorValue) else given
        if not isinstance(given, SparseTensor):
            raise TypeError(
                f"{what.capitalize()} must be a SparseTensor.\n"
                + errors.message(
                    f"a {type(given).__name__}", "a tf.SparseTensor", "tf.SparseTensor(indices, values, shape)"
                )
            )
        both += [given.indices, given.values, given.dense_shape]
    return build("EditDistance", *both, normalize=normalize, name=name)
