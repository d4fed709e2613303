"""K-means of ``tf.contrib.factorization``: what TensorFlow leaves to chance, against NumPy, and bad input.

Cases that TensorFlow decides are golden (`tools/golden/contrib/cases.py`). It updates counts and centers of a batch
beside reading them, so that its steps over batches differ from run to run; ours read first.
"""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build

KMeans = tf.contrib.factorization.KMeans
POINTS = (np.sin(np.arange(180) * 1.7) * 3).reshape(60, 3).astype(np.float32)
FIRST = POINTS[[3, 14, 15, 26]]


def unit(x):
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def steps_over_batches(points, centers, steps, every, cosine):
    """Sculley's steps; the centers that points are assigned to are set after every so many, for the next step."""
    points = unit(points) if cosine else points
    used, moved, counts, left = centers.copy(), centers.copy(), np.full(len(centers), 1 if every == 1 else 0), every
    for _ in range(steps):
        directions = unit(used) if cosine else used
        nearest = np.argmin(((points[:, None] - directions[None]) ** 2).sum(2), 1)
        if every > 1 and left <= 0:
            left, used, counts = every - 1, unit(moved) if cosine else moved.copy(), np.zeros_like(counts)
        else:
            left -= 1
        moved = moved.copy()
        for k in np.unique(nearest):
            own = points[nearest == k]
            moved[k] += (own.sum(0) - len(own) * moved[k]) / (counts[k] + len(own))
            counts[k] += len(own)
        if every == 1:
            used = moved
    return moved


@pytest.mark.parametrize("every", [1, 2])
@pytest.mark.parametrize("metric", ["squared_euclidean", "cosine"])
def test_steps_over_batches(every, metric):
    with tf.Graph().as_default(), tf.Session() as session:
        means = KMeans(
            tf.constant(POINTS),
            4,
            initial_clusters=FIRST,
            distance_metric=metric,
            use_mini_batch=True,
            mini_batch_steps_per_iteration=every,
        )
        *_, initialized, choose, train = means.training_graph()
        session.run(tf.global_variables_initializer())
        assert not session.run(initialized)
        session.run(choose)
        assert session.run(initialized)
        for _ in range(5):
            session.run(train)
        moved = next(
            v for v in tf.global_variables() if v.op.name == ("clusters" if every == 1 else "clusters_updated")
        )
        cosine = metric == "cosine"
        expected = steps_over_batches(POINTS, unit(FIRST) if cosine else FIRST, 5, every, cosine)
        np.testing.assert_allclose(session.run(moved), expected, rtol=1e-4, atol=1e-5)


def test_walks_choose_a_center_for_each_part():
    with tf.Graph().as_default(), tf.Session() as session:
        means = KMeans(tf.constant(POINTS), 5, initial_clusters="kmc2", kmc2_chain_length=20)
        *_, initialized, choose, _ = means.training_graph()
        session.run(tf.global_variables_initializer())
        sizes = []
        while not session.run(initialized):
            session.run(choose)
            sizes.append(len(session.run(tf.global_variables()[0])))
        assert sizes == [1, 4, 5]
        centers = session.run(tf.global_variables()[0])
        assert len(np.unique(centers, axis=0)) == 5
        assert all((center == POINTS).all(1).any() for center in centers)
        session.run(tf.assign(initialized, False))
        with pytest.raises(tf.errors.InvalidArgumentError, match="assert"):
            session.run(choose)


def test_centers_of_a_program_and_batches_that_are_too_small():
    with tf.Graph().as_default(), tf.Session() as session:
        batch = tf.placeholder(tf.float32, [None, 3])
        means = KMeans(batch, 6, initial_clusters=lambda inputs, missing: inputs[0][: tf.minimum(missing, 4)])
        _, nearest, scores, initialized, choose, _ = means.training_graph()
        session.run(tf.global_variables_initializer())
        session.run(choose, {batch: POINTS[:5]})
        assert not session.run(initialized)
        session.run(choose, {batch: POINTS[10:20]})
        assert session.run(initialized)
        found, least = session.run([nearest[0], scores[0]], {batch: POINTS[:2]})
        assert found.tolist() == [0, 1]
        np.testing.assert_allclose(least, 0, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"initial_clusters": "best"}, "Unsupported initialization algorithm 'best'"),
        ({"distance_metric": "manhattan"}, "Unsupported distance metric 'manhattan'"),
    ],
)
def test_what_is_not_known_is_refused(arguments, words):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=words):
        KMeans(tf.constant(POINTS), 3, **arguments)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (("KmeansPlusPlusInitialization", POINTS, 0, 1, 0), "Expected num_to_sample > 0"),
        (("KmeansPlusPlusInitialization", POINTS, 61, 1, 0), r"Expected num_to_sample <= points.rows\(\). 61 vs 60"),
        (("KmeansPlusPlusInitialization", POINTS[:0], 1, 1, 0), r"Expected points.rows\(\) > 0"),
        (("KMC2ChainInitialization", np.zeros(0, np.float32), 1), r"Expected distances_tensor.size\(\) > 0"),
        (("NearestNeighbors", POINTS[:0], POINTS, 1), r"Expected points.rows\(\) > 0"),
    ],
)
def test_bad_input_of_the_ops(call, words):
    name, *inputs = call
    with tf.Graph().as_default(), tf.Session() as session:
        result = build(name, *(tf.placeholder_with_default(np.asarray(one), None) for one in inputs))
        with pytest.raises(tf.errors.InvalidArgumentError, match=words):
            session.run(result)


def test_points_that_are_all_the_same():
    with tf.Graph().as_default(), tf.Session() as session:
        same = np.ones([6, 2], np.float32)
        assert session.run(build("KmeansPlusPlusInitialization", same, 4, 3, 2)).tolist() == [[1.0, 1.0]] * 4
