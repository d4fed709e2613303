"""Softmax cross entropy where logits or labels are broadcast, as TensorFlow's operation does it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build

SHAPES = [(), (1,), (3,), (1, 1), (2, 1), (1, 3), (2, 3)]


def cross_entropy(logits, labels):
    rows = np.broadcast_shapes(logits.shape, labels.shape)
    x, y = np.broadcast_to(logits, rows).astype(np.float64), np.broadcast_to(labels, rows).astype(np.float64)
    log_p = x - np.log(np.exp(x).sum(-1, keepdims=True))
    return -(y * log_p).sum(-1), np.exp(log_p) - y


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_logits_and_labels_are_broadcast_to_matrices(tier):
    random = np.random.RandomState(7)
    for shapes in itertools.product(SHAPES, SHAPES):
        if len(np.broadcast_shapes(*shapes)) != 2:
            continue
        rows = np.broadcast_shapes(*shapes)
        values = [np.float32(random.rand(*shape)) for shape in shapes]
        one = shapes[1][-1:] in ((), (1,))  # the gradient counts on rows of labels that sum to 1
        values[1] = np.full_like(values[1], 1 / rows[1]) if one else values[1] / values[1].sum(-1, keepdims=True)
        with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            operands = [tf.constant(value) for value in values]
            loss, backprop = build("SoftmaxCrossEntropyWithLogits", *operands)
            slopes = tf.gradients(loss, operands)
            got = session.run([loss, backprop, *slopes])
        expected = cross_entropy(*values)
        for ours, theirs in zip(got, expected, strict=False):
            np.testing.assert_allclose(ours, theirs, rtol=1e-5, atol=1e-6, err_msg=str(shapes))
        for place, slope in enumerate(got[2:]):
            assert np.shape(slope) == shapes[place]
            step = np.zeros(shapes[place])
            for index in np.ndindex(*shapes[place]):
                moved = [value.astype(np.float64) for value in values]
                sides = []
                for sign in (1, -1):
                    moved[place] = values[place] + sign * 1e-4 * (
                        np.arange(step.size).reshape(step.shape)
                        == (np.ravel_multi_index(index, step.shape) if index else 0)
                    )
                    sides.append(cross_entropy(*moved)[0].sum())
                step[index] = (sides[0] - sides[1]) / 2e-4
            np.testing.assert_allclose(slope, step, rtol=1e-3, atol=1e-4, err_msg=f"{shapes} {place}")


@pytest.mark.parametrize("shapes", [((), ()), ((1,), (3,)), ((3,), (3,)), ((3,), ())], ids=str)
def test_what_is_broadcast_to_less_than_a_matrix_is_refused(shapes):
    operands = [tf.zeros(shape) for shape in shapes]
    with pytest.raises(ValueError, match="Shape must be broadcasted with rank 2"):
        build("SoftmaxCrossEntropyWithLogits", *operands)
    feeds = {tf.placeholder(tf.float32): np.zeros(shape, np.float32) for shape in shapes}
    fetch = build("SoftmaxCrossEntropyWithLogits", *feeds)[0]
    for tier in ("interpreted", "compiled"):
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            with pytest.raises(tf.errors.InvalidArgumentError, match="broadcasted"):
                session.run(fetch, feeds)
