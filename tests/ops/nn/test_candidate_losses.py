"""Losses over samples of classes against their definitions; samplers' state, errors, and speed of distinct sampling."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import scipy.special

import anabranch as tf
from anabranch.session import SessionOptions
from anabranch.testing.check_gradients import check_gradients

RANDOM = np.random.default_rng(3)
WEIGHTS, BIASES = RANDOM.normal(size=(10, 3)), RANDOM.normal(size=10)
INPUTS, LABELS = RANDOM.normal(size=(4, 3)), np.array([[0, 3], [7, 1], [2, 5], [9, 0]], np.int64)
SAMPLE = np.array([1, 5, 3, 0], np.int64)
COUNTS = RANDOM.uniform(0.1, 1, (4, 2)), RANDOM.uniform(0.1, 1, 4)
LOWEST = float(np.finfo(np.float32).min)


def logits_and_targets(remove: bool) -> tuple[np.ndarray, np.ndarray]:
    true = np.einsum("bd,btd->bt", INPUTS, WEIGHTS[LABELS]) + BIASES[LABELS] - np.log(COUNTS[0])
    sampled = INPUTS @ WEIGHTS[SAMPLE].T + BIASES[SAMPLE] - np.log(COUNTS[1])
    if remove:
        sampled = sampled + LOWEST * (LABELS[:, :, None] == SAMPLE).any(1)
    return np.concatenate([true, sampled], 1), np.concatenate([np.full((4, 2), 0.5), np.zeros((4, 4))], 1)


def run(make: object, tier: str = "auto") -> np.ndarray:
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=tier)) as session:
        return session.run(make())  # type: ignore[operator]


def loss(function: str, tables: int = 1, strategy: str = "mod", **options: object) -> tf.Tensor:
    rows = [
        np.arange(i, 10, tables) if strategy == "mod" else part
        for i, part in enumerate(np.array_split(range(10), tables))
    ]
    values = (SAMPLE, *(np.float64(part) for part in COUNTS))
    return getattr(tf.nn, function)(
        [tf.constant(WEIGHTS[part]) for part in rows], [tf.constant(BIASES[part]) for part in rows],
        LABELS, tf.constant(INPUTS), 4, 10, num_true=2, sampled_values=[tf.constant(v) for v in values],
        partition_strategy=strategy, **options,
    )  # fmt: skip


@pytest.mark.parametrize("remove", [True, False])
@pytest.mark.parametrize(("tables", "strategy"), [(1, "mod"), (3, "mod"), (3, "div")])
def test_losses_of_a_given_sample(remove: bool, tables: int, strategy: str) -> None:
    logits, targets = logits_and_targets(remove)
    wanted = np.sum(np.maximum(logits, 0) - logits * targets + np.log1p(np.exp(-np.abs(logits))), 1)
    found = run(lambda: loss("nce_loss", tables, strategy, remove_accidental_hits=remove))
    np.testing.assert_allclose(found, wanted, 1e-12)
    wanted = -np.sum(targets * (logits - scipy.special.logsumexp(logits, 1, keepdims=True)), 1)
    found = run(lambda: loss("sampled_softmax_loss", tables, strategy, remove_accidental_hits=remove))
    np.testing.assert_allclose(found, wanted, 1e-12)


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_all_candidates_give_the_full_softmax(tier: str) -> None:
    labels = LABELS[:, :1]
    everything = INPUTS @ WEIGHTS.T + BIASES
    wanted = scipy.special.logsumexp(everything, 1) - np.take_along_axis(everything, labels, 1)[:, 0]

    def make() -> tf.Tensor:
        values = tf.nn.all_candidate_sampler(labels, 1, 10, True)
        return tf.nn.sampled_softmax_loss(WEIGHTS, BIASES, labels, INPUTS, 10, 10, sampled_values=values)

    np.testing.assert_allclose(run(make, tier), wanted, 1e-6)


def test_hits_are_taken_out_of_own_samples() -> None:
    def make() -> tf.Tensor:  # of 9 distinct candidates of 10 nearly all true ones are hit
        return tf.nn.sampled_softmax_loss(WEIGHTS, BIASES, LABELS[:, :1], INPUTS, 10, 10, seed=1)

    everything = INPUTS @ WEIGHTS.T + BIASES
    full = scipy.special.logsumexp(everything, 1) - np.take_along_axis(everything, LABELS[:, :1], 1)[:, 0]
    with tf.Graph().as_default():
        tf.set_random_seed(5)
        with tf.Session() as session:
            found, counts = session.run(
                [make(), tf.nn.log_uniform_candidate_sampler(LABELS[:, :1], 1, 10, True, 10)[2]]
            )
    # All classes are expected nearly once, so that the loss is nearly the full one.
    assert np.all(counts > 0.7)
    np.testing.assert_allclose(found, full, atol=0.35)


@pytest.mark.parametrize("function", ["nce_loss", "sampled_softmax_loss"])
def test_gradients(function: str) -> None:
    with tf.Graph().as_default():
        weights, biases, inputs = (tf.placeholder(tf.float64, value.shape) for value in (WEIGHTS, BIASES, INPUTS))
        values = [tf.constant(value) for value in (SAMPLE, *COUNTS)]
        y = getattr(tf.nn, function)(weights, biases, LABELS, inputs, 4, 10, num_true=2, sampled_values=values)
        check_gradients(y, [weights, biases, inputs], [WEIGHTS, BIASES, INPUTS], order=1)
        assert isinstance(tf.gradients(y, weights)[0], tf.IndexedSlices)


def test_a_training_step_is_one_program() -> None:
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier="compiled")) as session:
        table = tf.Variable(tf.zeros([50, 3]))
        y = tf.nn.nce_loss(table, tf.zeros([50]), LABELS[:, :1], INPUTS.astype(np.float32), 8, 50)
        step = tf.train.GradientDescentOptimizer(1.0).minimize(tf.reduce_mean(y))
        session.run(tf.global_variables_initializer())
        mean = tf.reduce_mean(y)
        first = np.mean([session.run(mean) for _ in range(20)])
        for _ in range(50):
            session.run(step)
        assert np.mean([session.run(mean) for _ in range(20)]) < 0.85 * first
        told = session.explain(step)
        assert told.count("\n    program ") == 1
        assert "\n    host " not in told
        assert "interpreted:" not in told


def test_learned_frequencies_belong_to_the_session() -> None:
    with tf.Graph().as_default():
        found = tf.nn.learned_unigram_candidate_sampler(np.full((1, 50), 3), 50, 20, False, 5, seed=4)
        for _ in range(2):
            with tf.Session() as session:
                first = session.run(found)
                np.testing.assert_allclose(first.true_expected_count, 4.0)
                second = session.run(found)
                np.testing.assert_allclose(second.true_expected_count, 20 * 51 / 55, 1e-6)
                assert np.mean(session.run(found).sampled_candidates == 3) > 0.7


def test_frequencies_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "vocabulary.csv"
    path.write_text("a,1\nb,2\nc,5\n")
    options = {"vocab_file": str(path), "seed": 2}
    found = run(lambda: tf.nn.fixed_unigram_candidate_sampler([[2]], 1, 400, False, 3, **options))
    assert abs(np.mean(found.sampled_candidates == 2) - 5 / 8) < 0.1
    np.testing.assert_allclose(found.true_expected_count, 250)


def test_files_of_frequencies_that_cannot_be_read(tmp_path: Path) -> None:
    def failing(path: Path, kind: type[Exception], text: str) -> None:
        with pytest.raises(kind, match=text):
            run(lambda: tf.nn.fixed_unigram_candidate_sampler([[2]], 1, 4, False, 3, vocab_file=str(path)))

    failing(tmp_path / "nothing", tf.errors.NotFoundError, "nothing; No such file or directory")
    failing(tmp_path, tf.errors.FailedPreconditionError, "Is a directory")
    for name, content in {"words": b"a,1\nb,many\n", "bytes": b"a,1\n\xff,2\n"}.items():
        (tmp_path / name).write_bytes(content)
        failing(tmp_path / name, tf.errors.InvalidArgumentError, "Expected: lines of comma-separated values in UTF-8")


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_errors(tier: str) -> None:
    def failing(make: object, text: str) -> None:
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            run(make, tier)

    failing(lambda: tf.nn.uniform_candidate_sampler([[1]], 1, 6, True, 5), "Sampler's range is too small")
    failing(lambda: tf.nn.log_uniform_candidate_sampler([[5]], 1, 3, True, 5), r"out of range \[0, 5\), received 5")
    unigrams = {"unigrams": [1.0, 2.0]}
    failing(
        lambda: tf.nn.fixed_unigram_candidate_sampler([[1]], 1, 1, True, 3, **unigrams), "range is 3 must be equal .* 2"
    )
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="Must provide either vocab_file or unigrams"):
            tf.nn.fixed_unigram_candidate_sampler([[1]], 1, 1, True, 3)
        with pytest.raises(ValueError, match=r"shard=2 of 2"):
            tf.nn.fixed_unigram_candidate_sampler([[1]], 1, 1, True, 3, num_shards=2, shard=2, **unigrams)
        with pytest.raises(ValueError, match="2 columns and num_true=1"):
            tf.nn.uniform_candidate_sampler([[1, 2]], 1, 3, True, 5)
        with pytest.raises(ValueError, match=r"Expected: \[batch, 2\]"):
            tf.nn.nce_loss(WEIGHTS, BIASES, LABELS[:, :1], INPUTS, 4, 10, num_true=2)


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("name", ["log_uniform_candidate_sampler", "uniform_candidate_sampler"])
@pytest.mark.parametrize(("count", "classes"), [(64, 5000), (19, 20), (1, 3)])
def test_distinct_candidates_are_the_first_of_the_sequence_of_draws(name: str, count: int, classes: int, tier) -> None:
    sampler = getattr(tf.nn, name)
    with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=tier)) as session:
        drawn = sampler(LABELS[:, :1] % classes, 1, 4000, False, classes, seed=7).sampled_candidates
        sample = sampler(LABELS[:, :1] % classes, 1, count, True, classes, seed=7)
        sequence, found = session.run(drawn).tolist(), session.run(sample)
    distinct = list(dict.fromkeys(sequence))[:count]
    tries = sequence.index(distinct[-1]) + 1
    assert found.sampled_candidates.tolist() == distinct
    share = np.full(count, 1 / classes)
    if name.startswith("log"):
        share = np.log((found.sampled_candidates + 2.0) / (found.sampled_candidates + 1.0)) / np.log(classes + 1.0)
    expected = share * count if tries == count else -np.expm1(tries * np.log1p(-share))
    np.testing.assert_allclose(found.sampled_expected_count, expected, 1e-5)


def test_true_classes_without_a_frequency_are_never_drawn():
    """Expected counts as TensorFlow 1.15 gave them."""
    for unique in (False, True):
        options = {"unigrams": [1, 2, 3, 4, 5], "distortion": 0.75 if unique else 1.0, "seed": 1}
        classes = [[1, 5, -1, 9]]
        for tier in ("interpreted", "compiled"):
            with tf.Graph().as_default(), tf.Session(config=SessionOptions(tier=tier)) as session:
                drawn = tf.nn.fixed_unigram_candidate_sampler(classes, 4, 3, unique, 5, **options)
                found = session.run(drawn.true_expected_count)[0]
            np.testing.assert_array_equal(found[1:], 0)
            if not unique:  # else it depends on the number of tries
                np.testing.assert_allclose(found[0], 0.4, rtol=1e-6)
