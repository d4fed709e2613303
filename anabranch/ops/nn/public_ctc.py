"""``tf.nn.ctc_loss`` of TensorFlow 2: dense labels, and a blank that may be any class."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.values import dtypes
from anabranch.ops.array.public_shapes import concat
from anabranch.ops.nn.ctc_loss import ctc_loss


@public("nn.ctc_loss_v2")
def ctc_loss_v2(
    labels: Any,
    logits: Any,
    label_length: Any,
    logit_length: Any,
    logits_time_major: bool = True,
    unique: Any = None,
    blank_index: int | None = None,
    name: str | None = None,
) -> Any:
    """The loss of connectionist temporal classification.

    Args:
        labels: int32 ``[batch, length]``, of which each row counts up to its ``label_length``; or a SparseTensor.
        logits: ``[time, batch, classes]``, or ``[batch, time, classes]`` unless ``logits_time_major``.
        label_length: int32 ``[batch]``; None with sparse labels.
        logit_length: int32 ``[batch]``.
        logits_time_major: see ``logits``.
        unique: not needed.
        blank_index: the class that is the blank; negative ones count from the end. With dense labels the default is
            0; with sparse ones it is the last class.
        name: of the scope.

    Returns:
        ``[batch]``, negative logarithms of probabilities.
    """
    del unique
    with name_scope(name, "ctc_loss", [labels, logits]):
        logits = convert_to_tensor(logits, name="logits")
        classes = None if logits._shape is None else logits._shape[-1]
        is_sparse = isinstance(labels, SparseTensor)
        blank = blank_index if blank_index is not None else (-1 if is_sparse else 0)
        if classes is None and blank != -1:
            raise ValueError(
                errors.message(
                    "logits of an unknown number of classes",
                    "a known last dimension",
                    "logits.set_shape([..., classes])",
                )
            )
        blank = blank if classes is None or blank >= 0 else blank + classes
        if not is_sparse:
            labels = _sparse(convert_to_tensor(labels, name="labels"), label_length)
        if classes is not None and blank != classes - 1:
            logits = concat([logits[..., :blank], logits[..., blank + 1 :], logits[..., blank : blank + 1]], -1)
            above = build("Cast", build("Greater", labels.values, blank), DstT=labels.values.dtype)
            labels = SparseTensor(labels.indices, build("Sub", labels.values, above), labels.dense_shape)
        length = convert_to_tensor(logit_length, dtypes.int32, name="logit_length")
        return ctc_loss(labels, logits, length, time_major=logits_time_major, ignore_longer_outputs_than_inputs=True)


def _sparse(labels: Any, lengths: Any) -> SparseTensor:
    """The labels of each row up to its length."""
    labels = build("Cast", labels, DstT=dtypes.int32)
    lengths = build("Cast", convert_to_tensor(lengths, name="label_length"), DstT=dtypes.int32)
    shape = build("Shape", labels, out_type=dtypes.int64)
    places = build("Range", 0, build("Cast", shape[1], DstT=dtypes.int32), 1)
    counts = build("Less", build("ExpandDims", places, 0), build("ExpandDims", lengths, 1))
    indices = build("Where", counts)
    return SparseTensor(indices, build("GatherNd", labels, indices), shape)
