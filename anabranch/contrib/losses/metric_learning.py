"""Losses that draw embeddings of one class together and those of others apart."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor

_HOME = "contrib.losses.metric_learning."


def pairwise_distance(feature: Any, squared: bool = False) -> Any:
    """Distances between the rows ``[number, size]``: ``[number, number]``, with zeros on the diagonal."""
    feature = tf.convert_to_tensor(feature)
    squares = tf.reduce_sum(tf.square(feature), 1)
    products = tf.matmul(feature, feature, transpose_b=True)
    distances = tf.maximum(squares[:, None] + squares[None, :] - 2.0 * products, 0.0)
    if not squared:
        near = tf.less_equal(distances, 0.0)  # the root has no gradient at 0
        distances = tf.sqrt(distances + tf.cast(near, distances.dtype) * 1e-16)
        distances = distances * tf.cast(tf.logical_not(near), distances.dtype)
    others = 1.0 - tf.eye(tf.shape(feature)[0], dtype=distances.dtype)
    return distances * others


def _same(labels: Any) -> Any:
    column = tf.reshape(labels, [-1, 1])
    return tf.equal(column, tf.transpose(column))


@public(_HOME + "contrastive_loss")
def contrastive_loss(labels: Any, embeddings_anchor: Any, embeddings_positive: Any, margin: float = 1.0) -> Tensor:
    """Hadsell, Chopra and LeCun's loss (2006) of pairs: squared distance of alike ones, closeness of others.

    Args:
        labels: 1 for pairs that are alike, 0 for others, ``[batch]``.
        embeddings_anchor: ``[batch, size]``.
        embeddings_positive: ``[batch, size]``.
        margin: distance beyond which others cost nothing.
    """
    distances = tf.sqrt(tf.reduce_sum(tf.square(tf.subtract(embeddings_anchor, embeddings_positive)), 1))
    alike = tf.to_float(labels)
    loss: Tensor = tf.reduce_mean(
        alike * tf.square(distances) + (1.0 - alike) * tf.square(tf.maximum(margin - distances, 0.0)),
        name="contrastive_loss",
    )
    return loss


@public(_HOME + "triplet_semihard_loss")
def triplet_semihard_loss(labels: Any, embeddings: Any, margin: float = 1.0) -> Tensor:
    """Schroff et al.'s loss (2015) with the nearest negative that is farther than the positive, for each such pair.

    Where there is no such negative, the farthest one is taken.

    Args:
        labels: class numbers ``[batch]``.
        embeddings: rows of length 1, ``[batch, size]``.
        margin: how much farther negatives should be.
    """
    distances = pairwise_distance(embeddings, squared=True)
    same = _same(labels)
    other = tf.to_float(tf.logical_not(same))
    # Axes: anchor, positive, negative.
    negatives = distances[:, None, :]
    positives = distances[:, :, None]
    wanted = tf.to_float(negatives > positives) * other[:, None, :]
    largest = tf.reduce_max(distances, 1, keepdims=True)
    nearest_beyond = tf.reduce_min((negatives - largest[:, :, None]) * wanted, 2) + largest
    smallest = tf.reduce_min(distances, 1, keepdims=True)
    farthest = tf.reduce_max((distances - smallest) * other, 1, keepdims=True) + smallest
    chosen = tf.where(tf.reduce_sum(wanted, 2) > 0.0, nearest_beyond, tf.tile(farthest, [1, tf.shape(distances)[1]]))
    pairs = tf.to_float(same) - tf.eye(tf.shape(distances)[0])
    costs = tf.maximum((margin + distances - chosen) * pairs, 0.0)
    loss: Tensor = tf.div(tf.reduce_sum(costs), tf.reduce_sum(pairs), name="triplet_semihard_loss")
    return loss


@public(_HOME + "npairs_loss")
def npairs_loss(
    labels: Any, embeddings_anchor: Any, embeddings_positive: Any, reg_lambda: float = 0.002, print_losses: bool = False
) -> Tensor:
    """Sohn's loss (2016): cross entropy of each anchor's similarities with all positives, and the embeddings' size.

    Args:
        labels: class numbers ``[batch]``.
        embeddings_anchor: ``[batch, size]``.
        embeddings_positive: ``[batch, size]``.
        reg_lambda: weight of the size.
        print_losses: print both parts.
    """
    sizes = [tf.reduce_mean(tf.reduce_sum(tf.square(each), 1)) for each in (embeddings_anchor, embeddings_positive)]
    penalty: Any = tf.multiply(0.25 * reg_lambda, sizes[0] + sizes[1], name="l2loss")
    similarity = tf.matmul(embeddings_anchor, embeddings_positive, transpose_b=True)
    targets = tf.to_float(_same(labels))
    targets = targets / tf.reduce_sum(targets, 1, keepdims=True)
    entropy = tf.reduce_mean(
        tf.nn.softmax_cross_entropy_with_logits(labels=targets, logits=similarity), name="xentropy"
    )
    if print_losses:
        entropy = tf.Print(entropy, ["cross entropy:", entropy, "l2loss:", penalty])
    loss: Tensor = penalty + entropy
    return loss


@public(_HOME + "lifted_struct_loss")
def lifted_struct_loss(labels: Any, embeddings: Any, margin: float = 1.0) -> Tensor:
    """Song et al.'s loss (2016): each alike pair against all negatives of both its members.

    Args:
        labels: class numbers ``[batch]``.
        embeddings: ``[batch, size]``.
        margin: how much farther negatives should be.
    """
    distances = pairwise_distance(embeddings)
    same = _same(labels)
    other = tf.to_float(tf.logical_not(same))
    closeness = margin - distances
    # The largest closeness to a negative is taken out of the exponentials, which might overflow.
    least = tf.reduce_min(closeness, 1, keepdims=True)
    largest = tf.reduce_max((closeness - least) * other, 1, keepdims=True) + least
    both = tf.maximum(largest, tf.transpose(largest))
    # Axes: first of a pair, second of it, negative of the first.
    sums = tf.reduce_sum(tf.exp(closeness[:, None, :] - both[:, :, None]) * other[:, None, :], 2)
    costs = tf.log(sums + tf.transpose(sums)) + both + distances
    pairs = tf.to_float(same) - tf.eye(tf.shape(distances)[0])
    loss: Tensor = tf.truediv(
        0.25 * tf.reduce_sum(tf.square(tf.maximum(costs * pairs, 0.0))),
        tf.reduce_sum(pairs) / 2.0,
        name="liftedstruct_loss",
    )
    return loss


for _name in ("contrastive_loss", "triplet_semihard_loss", "npairs_loss", "lifted_struct_loss"):
    public(f"contrib.losses.{_name}")(globals()[_name])
