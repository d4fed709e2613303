"""Losses of many classes by few of them: noise-contrastive estimation and sampled softmax, and the samplers by name.

Policy. Weights are looked up as embeddings, so that gradients name only the rows used. A candidate that is a true class
of the row is taken out of the loss by lowering its logit. For samples that are distinct (those drawn here) this is a
comparison of all true classes with all candidates, which stays in the compiled program; for given ones it is the op
ComputeAccidentalHits, as in TensorFlow.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import count_more, get_seed
from anabranch.core.values import dtypes
from anabranch.ops.nn.public_embedding import embedding_lookup
from anabranch.ops.nn.public_losses import sigmoid_cross_entropy_with_logits


def _seeds(seed: int | None) -> dict[str, int]:
    first, second = get_seed(seed)
    return {"seed": first or 0, "seed2": second or 0}


def _built(type_name: str, true_classes: Any, seed: int | None, name: str | None, **attrs: Any) -> Any:
    true_classes = convert_to_tensor(true_classes, dtypes.int64, name="true_classes")
    return build(type_name, true_classes, name=name, **attrs, **_seeds(seed))


@public("nn.uniform_candidate_sampler", "random.uniform_candidate_sampler")
def uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Classes drawn uniformly.

    Args:
        true_classes: int64 ``[batch, num_true]``.
        num_true: how many true classes a row has.
        num_sampled: how many classes to draw.
        unique: whether all drawn ones differ.
        range_max: number of classes.
        seed: of the op.
        name: of the op.

    Returns:
        ``sampled_candidates`` int64 ``[num_sampled]``, ``true_expected_count`` ``[batch, num_true]`` and
        ``sampled_expected_count`` ``[num_sampled]``: how often each is expected in such a sample.
    """
    counts = {"num_true": num_true, "num_sampled": num_sampled, "unique": unique, "range_max": range_max}
    return _built("UniformCandidateSampler", true_classes, seed, name, **counts)


@public("nn.log_uniform_candidate_sampler", "random.log_uniform_candidate_sampler")
def log_uniform_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Classes drawn with probability ``log((k + 2) / (k + 1)) / log(range_max + 1)``, for classes sorted by frequency.

    Arguments and results are those of ``tf.nn.uniform_candidate_sampler``.
    """
    counts = {"num_true": num_true, "num_sampled": num_sampled, "unique": unique, "range_max": range_max}
    return _built("LogUniformCandidateSampler", true_classes, seed, name, **counts)


@public("nn.learned_unigram_candidate_sampler", "random.learned_unigram_candidate_sampler")
def learned_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Classes drawn by how often they were true ones in earlier runs of this op in the session.

    Arguments and results are those of ``tf.nn.uniform_candidate_sampler``.
    """
    counts = {"num_true": num_true, "num_sampled": num_sampled, "unique": unique, "range_max": range_max}
    return _built("LearnedUnigramCandidateSampler", true_classes, seed, name, **counts)


@public("nn.fixed_unigram_candidate_sampler", "random.fixed_unigram_candidate_sampler")
def fixed_unigram_candidate_sampler(
    true_classes: Any,
    num_true: int,
    num_sampled: int,
    unique: bool,
    range_max: int,
    vocab_file: str = "",
    distortion: float = 1.0,
    num_reserved_ids: int = 0,
    num_shards: int = 1,
    shard: int = 0,
    unigrams: Sequence[float] = (),
    seed: int | None = None,
    name: str | None = None,
) -> Any:
    """Classes drawn by given frequencies.

    Args:
        true_classes: int64 ``[batch, num_true]``.
        num_true: how many true classes a row has.
        num_sampled: how many classes to draw.
        unique: whether all drawn ones differ.
        range_max: number of classes.
        vocab_file: a file of comma-separated lines, one a class, the last column of which is its frequency.
        distortion: power to which frequencies are raised: 0 is the uniform distribution.
        num_reserved_ids: first classes that are never drawn and have no frequency given.
        num_shards: with ``shard``: only every ``num_shards``-th class takes part.
        shard: the first class that does.
        unigrams: the frequencies, instead of a file.
        seed: of the op.
        name: of the op.

    Returns:
        What ``tf.nn.uniform_candidate_sampler`` returns.
    """
    return _built(
        "FixedUnigramCandidateSampler",
        true_classes,
        seed,
        name,
        num_true=num_true,
        num_sampled=num_sampled,
        unique=unique,
        range_max=range_max,
        vocab_file=vocab_file,
        distortion=distortion,
        num_reserved_ids=num_reserved_ids,
        num_shards=num_shards,
        shard=shard,
        unigrams=list(unigrams),
    )


@public("nn.all_candidate_sampler", "random.all_candidate_sampler")
def all_candidate_sampler(
    true_classes: Any, num_true: int, num_sampled: int, unique: bool, seed: int | None = None, name: str | None = None
) -> Any:
    """All classes from 0 to ``num_sampled - 1``: sampled losses computed with them are the full ones.

    Results are those of ``tf.nn.uniform_candidate_sampler``.
    """
    counts = {"num_true": num_true, "num_sampled": num_sampled, "unique": unique}
    return _built("AllCandidateSampler", true_classes, seed, name, **counts)


@public("nn.compute_accidental_hits")
def compute_accidental_hits(
    true_classes: Any, sampled_candidates: Any, num_true: int, seed: int | None = None, name: str | None = None
) -> Any:
    """Where sampled candidates are true classes.

    Args:
        true_classes: int64 ``[batch, num_true]``.
        sampled_candidates: int64 ``[num_sampled]``.
        num_true: how many true classes a row has.
        seed: of the op, which draws nothing.
        name: of the op.

    Returns:
        ``indices``, the row of each hit; ``ids``, its place in the sample; ``weights``, the lowest float32 for each.
    """
    true_classes = convert_to_tensor(true_classes, dtypes.int64, name="true_classes")
    return build(
        "ComputeAccidentalHits", true_classes, sampled_candidates, num_true=num_true, name=name, **_seeds(seed)
    )


def _without_hits(logits: Any, labels: Any, sampled: Any, num_true: int, distinct: bool) -> Any:
    """Logits ``[batch, num_sampled]`` with those of candidates that are true classes of the row at the lowest value."""
    if distinct:
        same = build("Equal", build("ExpandDims", labels, 2), build("Reshape", sampled, [1, 1, -1]))
        lowest = convert_to_tensor(np.finfo(np.float32).min, dtypes.float32)
        weights = build("SelectV2", build("Any", same, [1]), lowest, np.float32(0))
    else:
        hits = compute_accidental_hits(labels, sampled, num_true)
        rows = build("Reshape", hits.indices, [-1, 1])
        places = build("Reshape", build("Cast", hits.ids, DstT=dtypes.int32), [-1, 1])
        size = build(
            "ConcatV2",
            [build("Shape", labels)[:1], build("ExpandDims", build("Size", sampled), 0)],
            0,
        )
        positions = build("ConcatV2", [rows, places], 1, name="sparse_indices")
        weights = build("SparseToDense", positions, size, hits.weights, np.float32(0), validate_indices=False)
    kind = logits.dtype.base
    return build("AddV2", logits, weights if kind == dtypes.float32 else build("Cast", weights, DstT=kind))


def compute_sampled_logits(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    subtract_log_q: bool = True,
    remove_accidental_hits: bool = False,
    partition_strategy: str = "mod",
    name: str | None = None,
    seed: int | None = None,
) -> tuple[Any, Any]:
    """Logits of true and sampled classes ``[batch, num_true + num_sampled]``, and the labels beside them."""
    tables = list(weights) if isinstance(weights, (list, tuple)) or hasattr(weights, "_get_partitions") else [weights]
    with name_scope(name, "compute_sampled_logits", [*tables, biases, inputs, labels]):
        labels = convert_to_tensor(labels)
        if labels.dtype.base != dtypes.int64:
            labels = build("Cast", labels, DstT=dtypes.int64)
        flat = build("Reshape", labels, [-1])
        drawn = sampled_values is None
        if drawn:
            sampled_values = log_uniform_candidate_sampler(
                labels, num_true, num_sampled, unique=True, range_max=num_classes, seed=seed
            )
        sampled, true_count, sampled_count = (build("StopGradient", item) for item in sampled_values)
        if sampled.dtype.base != dtypes.int64:
            sampled = build("Cast", sampled, DstT=dtypes.int64)
        ids = build("ConcatV2", [flat, sampled], 0)
        rows = embedding_lookup(tables if len(tables) > 1 else tables[0], ids, partition_strategy)
        offsets = embedding_lookup(biases, ids, partition_strategy)
        inputs = convert_to_tensor(inputs)
        kind = inputs.dtype.base
        rows, offsets = (
            item if item.dtype.base == kind else build("Cast", item, DstT=kind) for item in (rows, offsets)
        )
        number = build("Shape", flat)[0]
        true_rows, sampled_rows = rows[:number], rows[number:]
        true_offsets, sampled_offsets = offsets[:number], offsets[number:]
        sampled_logits = build("MatMul", inputs, sampled_rows, transpose_b=True)
        # [batch, num_true, dim]: each input times the rows of its own true classes.
        dim = build("Shape", true_rows)[1:2]
        grouped = build("Reshape", true_rows, build("ConcatV2", [[-1, num_true], dim], 0))
        true_logits = build("Sum", build("Mul", build("ExpandDims", inputs, 1), grouped), [2])
        true_logits = build("AddV2", true_logits, build("Reshape", true_offsets, [-1, num_true]))
        sampled_logits = build("AddV2", sampled_logits, sampled_offsets)
        if remove_accidental_hits:
            sampled_logits = _without_hits(sampled_logits, labels, sampled, num_true, drawn)
        if subtract_log_q:
            true_count, sampled_count = (
                item if item.dtype.base == kind else build("Cast", item, DstT=kind)
                for item in (true_count, sampled_count)
            )
            true_logits = build("Sub", true_logits, build("Log", true_count))
            sampled_logits = build("Sub", sampled_logits, build("Log", sampled_count))
        logits = build("ConcatV2", [true_logits, sampled_logits], 1)
        # Each of the true classes has an equal part of the probability.
        shares = build("RealDiv", build("OnesLike", true_logits), convert_to_tensor(float(num_true), kind))
        targets = build("ConcatV2", [shares, build("ZerosLike", sampled_logits)], 1)
        count_more(61 if remove_accidental_hits else 31)  # slices, sums as products, and hits
        return logits, targets


def _check_labels(labels: Any, num_true: int, function: str) -> Any:
    labels = convert_to_tensor(labels, name="labels")
    raw = labels.shape.raw
    if raw is not None and (len(raw) != 2 or raw[1] not in (None, num_true)):
        raise ValueError(
            errors.message(
                f"labels of shape {labels.shape} for {function} with num_true={num_true}",
                f"[batch, {num_true}]",
                "labels=tf.reshape(labels, [-1, num_true])",
            )
        )
    return labels


@public("nn.nce_loss")
def nce_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = False,
    partition_strategy: str = "mod",
    name: str = "nce_loss",
) -> Tensor:
    """The loss of noise-contrastive estimation (Gutmann and Hyvarinen, 2010), by row.

    Args:
        weights: ``[num_classes, dim]``, or a list of tables over which its rows are spread.
        biases: ``[num_classes]``.
        labels: int64 ``[batch, num_true]``.
        inputs: ``[batch, dim]``.
        num_sampled: how many classes to draw.
        num_classes: how many there are.
        num_true: how many true classes a row has.
        sampled_values: what a candidate sampler returned; by default distinct ones of log-uniform distribution.
        remove_accidental_hits: whether drawn classes that are true ones of a row count for nothing there.
        partition_strategy: ``"mod"`` or ``"div"``, as for ``tf.nn.embedding_lookup``.
        name: of the ops.

    Returns:
        ``[batch]``.
    """
    labels = _check_labels(labels, num_true, "tf.nn.nce_loss")
    logits, targets = compute_sampled_logits(
        weights,
        biases,
        labels,
        inputs,
        num_sampled,
        num_classes,
        num_true,
        sampled_values,
        True,
        remove_accidental_hits,
        partition_strategy,
        name,
        None,
    )
    losses = sigmoid_cross_entropy_with_logits(labels=targets, logits=logits, name="sampled_losses")
    return build("Sum", losses, [1])


@public("nn.sampled_softmax_loss")
def sampled_softmax_loss(
    weights: Any,
    biases: Any,
    labels: Any,
    inputs: Any,
    num_sampled: int,
    num_classes: int,
    num_true: int = 1,
    sampled_values: Any = None,
    remove_accidental_hits: bool = True,
    partition_strategy: str = "mod",
    name: str = "sampled_softmax_loss",
    seed: int | None = None,
) -> Tensor:
    """The softmax loss over the true and a sample of other classes (Jean et al., 2014), by row.

    Arguments are those of ``tf.nn.nce_loss``; ``seed`` is that of the sampler. For training only: to evaluate,
    compute the full softmax.

    Returns:
        ``[batch]``.
    """
    labels = _check_labels(labels, num_true, "tf.nn.sampled_softmax_loss")
    logits, targets = compute_sampled_logits(
        weights,
        biases,
        labels,
        inputs,
        num_sampled,
        num_classes,
        num_true,
        sampled_values,
        True,
        remove_accidental_hits,
        partition_strategy,
        name,
        seed,
    )
    targets = build("StopGradient", targets, name="labels_stop_gradient")
    return build("SoftmaxCrossEntropyWithLogits", logits, targets).loss
