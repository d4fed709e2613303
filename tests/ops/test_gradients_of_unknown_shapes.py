"""Gradients of tensors of which the graph knows no shape are those of tensors of known shapes, of every op."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.graph import Graph
from anabranch.ops.shared.array_rules import dense
from anabranch.testing import op_cases, op_checks

ROWS = [row for row in op_cases.load_rows(Path(__file__).parent) if row.cases and row.definition.effect.kind == "pure"]

REFUSED = {
    "MatrixExponential": "the gradient of MatrixExponential for matrices of shape",
    "MatrixSolveLs": "the gradient of MatrixSolveLs for matrices of shape",
    "BatchMatrixSolveLs": "the gradient of MatrixSolveLs for matrices of shape",
    "Qr": "QrGrad not implemented with dynamic shapes",
    "Svd": "SVD gradient has not been implemented for input with unknown inner matrix shape",
    "BatchSvd": "SVD gradient has not been implemented for input with unknown inner matrix shape",
}
"""What TensorFlow refuses too, or has no gradient of."""

NOT_SUMMED = ("SoftmaxCrossEntropyWithLogits",)
"""Whose operands the op itself broadcasts: without shapes their gradients are not summed, as in TensorFlow."""


def gradients(one: op_cases.Instance, known: str) -> tuple[list[Any], dict[Any, np.ndarray]]:
    """Tensors of the gradients of the sum of an op's outputs, and what is fed for them."""
    built = op_checks.build_instance(one, known)
    outputs = [output for output in built.outputs if output.dtype.is_floating]
    inputs = [source for source in built.continuous if source.dtype.is_floating]
    if not outputs or not inputs or built.starts:
        return [], {}
    by_input = tf.gradients(outputs, inputs)
    return [dense(item) for item in by_input if item is not None], built.feeds


def values(one: op_cases.Instance, known: str) -> list[np.ndarray]:
    """What the gradients are in an interpreted step."""
    with Graph().as_default():
        tensors, feeds = gradients(one, known)
        if not tensors:
            return []
        with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
            return list(session.run(tensors, feeds))


@pytest.mark.parametrize("part", range(8))
def test_gradients_of_unknown_shapes(part: int) -> None:
    wrong = []
    for row in ROWS[part::8]:
        for one in list(op_cases.instances(row, [row.main]))[: 1 if row.type_name in NOT_SUMMED else 2]:
            if row.type_name in REFUSED:
                with pytest.raises(NotImplementedError, match=REFUSED[row.type_name]):
                    values(one, "nothing")
                continue
            try:
                expected, actual = values(one, "all"), values(one, "nothing")
            except LookupError:
                continue  # no gradient, whatever the shape
            for before, after in zip(expected, actual, strict=True):
                if before.shape != after.shape or not np.allclose(before, after, 1e-4, 1e-5, equal_nan=True):
                    wrong.append(f"{one.name}: {before.tolist()} became {after.tolist()}")
    assert not wrong, "\n".join(wrong)
