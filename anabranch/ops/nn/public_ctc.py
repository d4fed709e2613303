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


@public("nn.ctc_unique_labels")
def ctc_unique_labels(labels: Any, name: str | None = None) -> tuple[Any, Any]:
    """The labels of each row without repetitions, for the argument ``unique`` of `tf.nn.ctc_loss_v2`.

    Args:
        labels: int ``[batch, length]``.
        name: of the scope.

    Returns:
        int64 ``[batch, length]``, the labels of each row in the order in which they first stand there, then zeros; and
        int32 ``[batch, length]``, where each label stands among them.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     values, places = session.run(tf.nn.ctc_unique_labels([[3, 4, 4, 3]]))
        >>> values.tolist(), places.tolist()
        ([[3, 4, 0, 0]], [[0, 1, 1, 0]])
    """
    with name_scope(name, "ctc_unique_labels", [labels]):
        labels = convert_to_tensor(labels, name="labels")
        same = build("Equal", build("ExpandDims", labels, 2), build("ExpandDims", labels, 1))
        first = build("ArgMax", build("Cast", same, DstT=dtypes.int32), 2, output_type=dtypes.int32)
        places = build("Range", 0, build("Shape", labels)[1], 1)
        is_first = build("Cast", build("Equal", first, places), DstT=dtypes.int32)
        rank = build("Cumsum", is_first, 1, exclusive=True)
        indices = build("GatherV2", rank, first, 1, batch_dims=1)
        return _packed(build("Cast", labels, DstT=dtypes.int64), is_first, rank, build("Shape", labels)[1]), indices


def _packed(labels: Any, kept: Any, places: Any, size: Any) -> Any:
    """The labels of each row that are kept, at their places, in rows of this size; zeros behind them."""
    at = build("OneHot", places, size, build("Cast", 1, DstT=labels.dtype), build("Cast", 0, DstT=labels.dtype))
    weights = build("Mul", labels, build("Cast", kept, DstT=labels.dtype))
    return build("Sum", build("Mul", build("ExpandDims", weights, 2), at), 1)


@public("nn.collapse_repeated")
def collapse_repeated(labels: Any, seq_length: Any, name: str | None = None) -> tuple[Any, Any]:
    """Labels of which each run of equal ones has become one.

    Args:
        labels: ``[batch, length]``.
        seq_length: ``[batch]``, how many labels of each row count.
        name: of the scope.

    Returns:
        ``[batch, longest]``, the labels that are left, then zeros; and int32 ``[batch]``, how many they are.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     found, lengths = session.run(tf.nn.collapse_repeated([[1, 1, 2, 2, 1]], [5]))
        >>> found.tolist(), lengths.tolist()
        ([[1, 2, 1]], [3])
    """
    with name_scope(name, "collapse_repeated_labels", [labels, seq_length]):
        labels = convert_to_tensor(labels, name="labels")
        seq_length = build("Cast", convert_to_tensor(seq_length, name="seq_length"), DstT=dtypes.int32)
        places = build("ExpandDims", build("Range", 0, build("Shape", labels)[1], 1), 0)
        counts = build("Less", places, build("ExpandDims", seq_length, 1))
        differs = concat([counts[:, :1], build("NotEqual", labels[:, 1:], labels[:, :-1])], 1)
        kept = build("Cast", build("LogicalAnd", differs, counts), DstT=dtypes.int32)
        lengths = build("Sum", kept, 1)
        longest = build("Max", lengths, 0)
        return _packed(labels, kept, build("Cumsum", kept, 1, exclusive=True), longest), lengths
