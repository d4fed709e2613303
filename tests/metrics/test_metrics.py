"""Metrics over batches against NumPy on all of the data."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

RNG = np.random.RandomState(0)
P = RNG.rand(3, 8).astype(np.float32)
L = (RNG.rand(3, 8) < P).astype(np.float32)
W = RNG.randint(0, 3, (3, 8)).astype(np.float32)
C, D = RNG.randint(0, 4, (2, 3, 8))


def run(make, *columns):
    """Value before any batch, after all, the last update's result, and the names of the variables."""
    with tf.Graph().as_default():
        fed = [tf.placeholder(c.dtype, c.shape[1:]) for c in columns]
        value, update = make(*fed)
        assert tf.local_variables() == tf.get_collection(tf.GraphKeys.METRIC_VARIABLES)
        assert not tf.global_variables()
        with tf.Session() as session:
            session.run(tf.local_variables_initializer())
            for i in range(len(columns[0])):
                last = session.run(update, {f: c[i] for f, c in zip(fed, columns, strict=True)})
            final = session.run(value)
            np.testing.assert_allclose(session.run(value), final)
        # The update of mean_iou gives the counts, as TensorFlow's does.
        if np.shape(last) == np.shape(final):
            np.testing.assert_allclose(last, final, rtol=1e-6)
        return final, [v.op.name for v in tf.local_variables()]


def counts(threshold=0.5, weights=W, labels=L, predictions=P):
    above = predictions > threshold
    on = labels.astype(bool)
    return tuple((weights * m).sum() for m in (on & above, ~on & above, ~on & ~above, on & ~above))


@pytest.mark.parametrize(
    ("name", "make", "expected"),
    [
        ("mean", tf.metrics.mean, lambda p, _, w: np.average(p, weights=w)),
        ("accuracy", lambda p, y, weights: tf.metrics.accuracy(y, tf.round(p), weights),
         lambda p, y, w: np.average(np.round(p) == y, weights=w)),
        ("mean_absolute_error", lambda p, y, weights: tf.metrics.mean_absolute_error(y, p, weights),
         lambda p, y, w: np.average(abs(p - y), weights=w)),
        ("mean_squared_error", lambda p, y, weights: tf.metrics.mean_squared_error(y, p, weights),
         lambda p, y, w: np.average((p - y) ** 2, weights=w)),
        ("root_mean_squared_error", lambda p, y, weights: tf.metrics.root_mean_squared_error(y, p, weights),
         lambda p, y, w: np.average((p - y) ** 2, weights=w) ** 0.5),
        ("mean_relative_error", lambda p, y, weights: tf.metrics.mean_relative_error(y, p, y, weights),
         lambda p, y, w: np.average(np.where(y > 0, abs(p - y), 0), weights=w)),
        ("percentage_below_threshold", lambda p, y, weights: tf.metrics.percentage_below(p, 0.3, weights),
         lambda p, y, w: np.average(p < 0.3, weights=w)),
    ],
)  # fmt: skip
@pytest.mark.parametrize("weighted", [False, True])
def test_means(name, make, expected, weighted):
    if weighted:
        value, names = run(lambda p, y, w: make(p, y, weights=w) if name != "mean" else make(p, w), P, L, W)
    else:
        value, names = run(lambda p, y: make(p, y, weights=None) if name != "mean" else make(p), P, L)
    np.testing.assert_allclose(value, expected(P, L, W if weighted else np.ones_like(P)), rtol=1e-5)
    assert names == [f"{name}/total", f"{name}/count"]


def test_mean_tensor():
    value, names = run(tf.metrics.mean_tensor, P)
    np.testing.assert_allclose(value, P.mean(0), rtol=1e-6)
    assert names == ["mean/total_tensor", "mean/count_tensor"]


def test_mean_cosine_distance():
    a, b = (x / np.linalg.norm(x, axis=-1, keepdims=True) for x in (P, W + 1))
    value, _ = run(lambda x, y: tf.metrics.mean_cosine_distance(x, y, 0), a, b)
    np.testing.assert_allclose(value, 1 - (a * b).sum(-1).mean(), rtol=1e-4)


KINDS = ("true_positives", "false_positives", "true_negatives", "false_negatives")


@pytest.mark.parametrize("kind", KINDS)
def test_counts(kind):
    value, names = run(lambda y, p, w: getattr(tf.metrics, kind)(y, p > 0.5, w), L, P, W)
    assert value == counts()[KINDS.index(kind)]
    assert names == [f"{kind}/count"]
    value, names = run(lambda y, p, w: getattr(tf.metrics, f"{kind}_at_thresholds")(y, p, [0.2, 0.7], w), L, P, W)
    np.testing.assert_array_equal(value, [counts(t)[KINDS.index(kind)] for t in (0.2, 0.7)])


@pytest.mark.parametrize(("name", "other", "place"), [("precision", KINDS[1], 1), ("recall", KINDS[3], 3)])
def test_precision_and_recall(name, other, place):
    value, names = run(lambda y, p, w: getattr(tf.metrics, name)(y, p > 0.5, w), L, P, W)
    found = counts()
    np.testing.assert_allclose(value, found[0] / (found[0] + found[place]), rtol=1e-6)
    assert names == [f"{name}/true_positives/count", f"{name}/{other}/count"]
    value, names = run(lambda y, p: getattr(tf.metrics, f"{name}_at_thresholds")(y, p, [0.2, 0.7]), L, P)
    ones = [counts(t, 1.0) for t in (0.2, 0.7)]
    np.testing.assert_allclose(value, [c[0] / (c[0] + c[place]) for c in ones], rtol=1e-5)
    nothing, _ = run(lambda y: getattr(tf.metrics, name)(y, y), np.zeros_like(L))
    assert nothing == 0


@pytest.mark.parametrize("weighted", [False, True])
def test_auc_is_the_share_of_ordered_pairs(weighted):
    w = W if weighted else np.ones_like(W)
    value, names = run(lambda y, p, w: tf.metrics.auc(y, p, w if weighted else None, num_thresholds=2000), L, P, w)
    y, p, w = L.ravel() > 0, P.ravel(), w.ravel()
    pairs = np.outer(w[y], w[~y])
    np.testing.assert_allclose(value, (pairs * (p[y][:, None] > p[~y])).sum() / pairs.sum(), rtol=1e-4)
    order = ("true_positives", "false_negatives", "true_negatives", "false_positives")
    assert names == [f"auc/{kind}" for kind in order]


@pytest.mark.parametrize("method", ["trapezoidal", "careful_interpolation", "minoring", "majoring"])
def test_area_under_precision_and_recall(method):
    value, _ = run(lambda y, p: tf.metrics.auc(y, p, num_thresholds=2000, curve="PR", summation_method=method), L, P)
    order = np.argsort(-P.ravel())
    hits = L.ravel()[order]
    precision = np.cumsum(hits) / np.arange(1, hits.size + 1)
    average = (precision * hits).sum() / hits.sum()
    assert abs(value - average) < {"trapezoidal": 0.05, "careful_interpolation": 0.05}.get(method, 0.1)


def test_mean_iou_and_accuracy_by_class():
    labels, predictions, weights = C.ravel(), D.ravel(), W.ravel()
    matrix = np.zeros([5, 5])
    np.add.at(matrix, (labels, predictions), weights)
    value, names = run(lambda c, d, w: tf.metrics.mean_iou(c, d, 5, w), C, D, W)
    union = matrix.sum(0) + matrix.sum(1) - matrix.diagonal()
    np.testing.assert_allclose(value, (matrix.diagonal() / np.maximum(union, 1)).sum() / (union > 0).sum(), rtol=1e-6)
    assert names == ["mean_iou/total_confusion_matrix"]
    value, names = run(lambda c, d, w: tf.metrics.mean_per_class_accuracy(c, d, 5, w), C, D, W)
    np.testing.assert_allclose(value, (matrix.diagonal() / np.maximum(matrix.sum(1), 1)).mean(), rtol=1e-6)
    assert names == ["mean_accuracy/total", "mean_accuracy/count"]


def test_confusion_matrix():
    session = tf.Session()
    expected = [[1, 0, 1], [0, 1, 0], [0, 0, 0]]
    np.testing.assert_array_equal(session.run(tf.confusion_matrix([0, 0, 1], [0, 2, 1])), expected)
    fed = tf.placeholder(tf.int32, [3])
    checked = tf.confusion_matrix(fed, [0, 1, 1], 3, weights=[1.0, 2.0, 0.5], dtype=tf.float32)
    np.testing.assert_array_equal(session.run(checked, {fed: [0, 2, 1]}), [[1, 0, 0], [0, 0.5, 0], [0, 2, 0]])
    with pytest.raises(tf.errors.InvalidArgumentError, match="`labels` out of bound"):
        session.run(checked, {fed: [0, 3, 1]})


@pytest.mark.parametrize("class_id", [None, 2])
@pytest.mark.parametrize("kind", ["precision", "recall"])
def test_at_k(kind, class_id):
    logits = RNG.randn(3, 8, 6).astype(np.float32)
    labels = np.stack([RNG.permutation(6)[:3] for _ in range(24)]).reshape(3, 8, 3)
    value, names = run(lambda y, z, w: getattr(tf.metrics, f"{kind}_at_k")(y, z, 2, class_id, w), labels, logits, W)
    top = np.argsort(-logits, -1)[..., :2]
    items, others = (top, labels) if kind == "precision" else (labels, top)
    hit = (items[..., None] == others[..., None, :]).any(-1)
    kept = W[..., None] * (items == class_id if class_id is not None else np.ones(items.shape))
    np.testing.assert_allclose(value, (hit * kept).sum() / kept.sum(), rtol=1e-6)
    suffix = "at_2" if class_id is None else "at_2_class2"
    miss = "false_positive" if kind == "precision" else "false_negative"
    assert names == [f"{kind}_{suffix}/true_positive_{suffix}", f"{kind}_{suffix}/{miss}_{suffix}"]


def test_collections_and_bad_arguments():
    with tf.Graph().as_default():
        value, update = tf.metrics.mean([1.0], None, ["m"], "u")
        assert (tf.get_collection("m"), tf.get_collection("u")) == ([value], [update])
        with pytest.raises(ValueError, match=r"^Can not squeeze dim\[1\]"):
            tf.metrics.accuracy([1, 2], [[1, 2, 3]])
        with pytest.raises(ValueError, match="curve must be either ROC or PR"):
            tf.metrics.auc([True], [0.5], curve="DET")
        with pytest.raises(ValueError, match="must be in the range"):
            tf.metrics.sensitivity_at_specificity([True], [0.5], 1.5)


def test_labels_in_a_sparse_tensor() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        labels = tf.SparseTensor([[0, 0], [0, 1], [1, 0]], tf.constant([0, 2, 1], tf.int64), [2, 2])
        logits = [[3.0, 2.0, 1.0], [3.0, 2.0, 1.0]]
        made = [
            tf.metrics.recall_at_k(labels, logits, 1),
            tf.metrics.precision_at_k(labels, logits, 2),
            tf.metrics.average_precision_at_k(labels, logits, 3),
        ]
        session.run(tf.local_variables_initializer())
        found = session.run([update for _, update in made])
    np.testing.assert_allclose(found, [1 / 3, 2 / 4, ((1 + 2 / 3) / 2 + 1 / 2) / 2], rtol=1e-6)
