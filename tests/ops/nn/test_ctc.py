"""Public functions of connectionist temporal classification: gradients, sizes of recursions, layouts, errors, speed."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.session import SessionOptions
from anabranch.testing.kernels import run_op

RANDOM = np.random.default_rng(2)


def sparse(rows: list[list[int]]) -> tf.SparseTensor:
    indices = [(i, j) for i, row in enumerate(rows) for j in range(len(row))]
    values = np.array([v for row in rows for v in row], np.int32)
    return tf.SparseTensor(np.array(indices, np.int64).reshape(-1, 2), values, [len(rows), max(map(len, rows))])


def run(make: object, tier: str = "auto") -> object:
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=tier)) as session:
        return session.run(make())  # type: ignore[operator]


def test_recursions_of_several_sizes_agree() -> None:
    logits = RANDOM.normal(size=(300, 3, 6)).astype(np.float32)
    for longest in (3, 31, 32, 33, 130):
        rows = [RANDOM.integers(0, 5, longest), RANDOM.integers(0, 5, 2), RANDOM.integers(0, 5, longest)]
        indices = np.array([(i, j) for i, row in enumerate(rows) for j in range(len(row))], np.int64)
        inputs = logits, indices, np.concatenate(rows).astype(np.int32), np.int32([300, 40, 299])
        by_tier = [run_op("CTCLoss", *inputs, tier=tier) for tier in ("host", "xla")]
        for first, second in zip(*by_tier, strict=True):
            np.testing.assert_allclose(first, second, 2e-3, 2e-3)


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_layouts_and_gradients(tier: str) -> None:
    logits = RANDOM.normal(size=(6, 2, 4)).astype(np.float32)
    labels = [[0, 1, 1], [2]]

    def make() -> list[tf.Tensor]:
        x = tf.constant(logits)
        one = tf.nn.ctc_loss(sparse(labels), x, [6, 4])
        two = tf.nn.ctc_loss(
            sparse(labels), logits=tf.transpose(x, [1, 0, 2]), sequence_length=[6, 4], time_major=False
        )
        return [one, two, tf.gradients(3.0 * one, x)[0], tf.gradients(two, x)[0]]

    one, two, first, second = run(make, tier)
    np.testing.assert_allclose(one, two, 1e-6)
    np.testing.assert_allclose(first, 3 * second, 1e-5, 1e-6)
    assert not second[4:, 1].any()


def test_a_net_learns_to_spell() -> None:
    features = RANDOM.normal(size=(8, 2, 5)).astype(np.float32)
    wanted = [[0, 1, 1], [2, 0]]
    with tf.Graph().as_default(), tf.Session() as session:
        weights = tf.Variable(tf.zeros([2, 5, 4]))
        logits = tf.einsum("tbf,bfc->tbc", tf.constant(features), weights)
        loss = tf.reduce_mean(tf.nn.ctc_loss(sparse(wanted), logits, [8, 8]))
        step = tf.train.AdamOptimizer(0.3).minimize(loss)
        (decoded,), _ = tf.nn.ctc_beam_search_decoder(logits, [8, 8], merge_repeated=False)
        session.run(tf.global_variables_initializer())
        for _ in range(60):
            session.run(step)
        found = session.run(decoded)
        assert session.run(loss) < 0.5
    assert [found.values[found.indices[:, 0] == row].tolist() for row in range(2)] == wanted


def test_decoders_by_name() -> None:
    logits = np.full((4, 1, 3), -5.0, np.float32)
    logits[[0, 1, 2, 3], 0, [1, 1, 2, 1]] = 5.0
    for decode in (tf.nn.ctc_greedy_decoder, tf.nn.ctc_beam_search_decoder, tf.nn.ctc_beam_search_decoder_v2):
        (found,), _ = run(lambda decode=decode: decode(logits, [4]))
        assert found.values.tolist() == ([1, 1] if decode is not tf.nn.ctc_beam_search_decoder else [1])
        assert found.values.dtype == np.int64
    (found,), score = run(lambda: tf.nn.ctc_greedy_decoder(logits, [4], merge_repeated=False))
    assert found.values.tolist() == [1, 1, 1]
    assert score.tolist() == [[-20.0]]


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_errors(tier: str) -> None:
    x = np.zeros((2, 1, 5), np.float32)

    def failing(make: object, text: str, kind: type = tf.errors.InvalidArgumentError) -> None:
        with pytest.raises(kind, match=text):
            run(make, tier)

    def loss(labels: list[int], lengths: tuple[int, ...] = (2,)) -> object:
        return lambda: tf.nn.ctc_loss(sparse([labels]), x, list(lengths))

    failing(loss([1, 1, 2]), r"Not enough time for target transition sequence \(required: 3, available: 2\)")
    failing(loss([-1]), "All labels must be nonnegative integers, batch: 0 labels: the lowest is -1")
    failing(loss([4, 1]), "Saw a non-null label")
    failing(loss([1], (3,)), r"sequence_length\(0\) <= 2; the longest is 3")
    failing(
        lambda: tf.nn.ctc_loss(sparse([[1], []]), np.zeros((2, 2, 5), np.float32), [2, 2]),
        "Labels length is zero in batch 1",
    )
    failing(lambda: tf.nn.ctc_beam_search_decoder(x, [1], 2, 3)[1], "requested more paths than the beam width")
    failing(
        lambda: tf.nn.ctc_beam_search_decoder(x[..., :2], [1], 5, 4)[1], "Less leaves in the beam search than requested"
    )
    with pytest.raises(TypeError, match=r"Expected labels .first argument. to be a SparseTensor"):
        run(lambda: tf.nn.ctc_loss([[1]], x, [2]))
    with pytest.raises(ValueError, match="ctc_loss without logits or lengths"):
        run(lambda: tf.nn.ctc_loss(sparse([[1]])))


def test_no_second_derivative() -> None:
    with tf.Graph().as_default():
        x = tf.constant(np.zeros((3, 1, 3), np.float32))
        first = tf.gradients(tf.nn.ctc_loss(sparse([[1]]), x, [3]), x)[0]
        with pytest.raises(LookupError, match="no way to take the second derivative of ctc_loss"):
            tf.gradients(first, x)


@pytest.mark.parametrize("scale", [0.1, 3.0, 60.0, 2000.0])
@pytest.mark.parametrize("merge", [True, False])
def test_scaled_probabilities_give_what_logarithms_give(scale: float, merge: bool) -> None:
    random = np.random.default_rng(5)
    logits = (random.normal(size=(4, 40, 7)) * scale).transpose(1, 0, 2)
    rows = [[0, 0, 1, 5], [2], [3, 3, 3, 3], [1, 2, 1, 2, 1]]  # no path of 5 steps gives the third
    indices = np.array([(i, j) for i, row in enumerate(rows) for j in range(len(row))], np.int64)
    lengths = np.int32([40, 1, 5, 23])
    inputs = logits, indices, np.concatenate(rows).astype(np.int32), lengths
    by_tier = [run_op("CTCLoss", *inputs, tier=tier, ctc_merge_repeated=merge) for tier in ("host", "xla")]
    assert np.isinf(by_tier[0][0][2]) == merge
    for first, second in zip(*by_tier, strict=True):
        np.testing.assert_allclose(first, second, 1e-9, 1e-9)


def test_a_probability_that_is_lost_beside_others_is_found_by_logarithms() -> None:
    logits = np.zeros((60, 1, 3))
    logits[:30, 0, 0] = 40.0  # the first half all but says 0, the labels are 1, 1: they must be early and late
    logits[30:, 0, 1] = 40.0
    inputs = logits, np.array([[0, 0], [0, 1]], np.int64), np.int32([1, 0]), np.int32([60])
    by_tier = [run_op("CTCLoss", *inputs, tier=tier) for tier in ("host", "xla")]
    assert by_tier[1][0][0] > 1e3
    for first, second in zip(*by_tier, strict=True):
        np.testing.assert_allclose(first, second, 1e-9, 1e-9)


@pytest.mark.parametrize("width", [1, 3, 20])
def test_sequences_are_decoded_in_a_batch_as_alone(width: int) -> None:
    random = np.random.default_rng(3)
    logits = np.round(random.normal(size=(12, 5, 4)) * 2).astype(np.float32)  # many prefixes are equally likely
    lengths = np.int32([12, 0, 7, 1, 12])

    def decoded(logits: np.ndarray, lengths: np.ndarray) -> list[np.ndarray]:
        paths = dict(beam_width=width, top_paths=1, merge_repeated=False)
        return run_op("CTCBeamSearchDecoder", logits, lengths, tier="host", **paths)

    indices, values, _, scores = decoded(logits, lengths)
    assert len(values) > 5
    for row in range(5):
        _, alone, _, score = decoded(logits[:, row : row + 1], lengths[row : row + 1])
        assert alone.tolist() == values[indices[:, 0] == row].tolist()
        assert score[0, 0] == scores[row, 0]


@pytest.mark.parametrize(
    ("labels", "lengths", "collapsed", "left"),
    [
        ([[1, 1, 2, 2, 1], [3, 3, 3, 0, 0]], [5, 3], [[1, 2, 1], [3, 0, 0]], [3, 1]),
        ([[1, 1, 1]], [2], [[1]], [1]),
        ([[0, 0, 1], [1, 2, 2], [1, 1, 1]], [3, 2, 0], [[0, 1], [1, 2], [0, 0]], [2, 2, 0]),
        ([[1, 2]], [2], [[1, 2]], [2]),
    ],
)
def test_repeated_labels_collapse(labels, lengths, collapsed, left) -> None:
    found, counts = run(lambda: tf.nn.collapse_repeated(labels, lengths))
    assert (found.tolist(), counts.tolist()) == (collapsed, left)
    assert (found.dtype, counts.dtype) == (np.int32, np.int32)


@pytest.mark.parametrize(
    ("labels", "values", "places"),
    [
        ([[3, 4, 4, 3], [1, 1, 1, 0]], [[3, 4, 0, 0], [1, 0, 0, 0]], [[0, 1, 1, 0], [0, 0, 0, 1]]),
        ([[1]], [[1]], [[0]]),
        ([[5, 4, 3], [3, 4, 5]], [[5, 4, 3], [3, 4, 5]], [[0, 1, 2], [0, 1, 2]]),
    ],
)
def test_labels_without_repetitions(labels, values, places) -> None:
    unique, indices = run(lambda: tf.nn.ctc_unique_labels(labels))
    assert (unique.tolist(), indices.tolist()) == (values, places)
    assert (unique.dtype, indices.dtype) == (np.int64, np.int32)
