"""Conditional random fields against sums over all sequences of tags."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.contrib import crf

BATCH, TIME, TAGS = 3, 4, 3
RANDOM = np.random.RandomState(1)
POTENTIALS = RANDOM.randn(BATCH, TIME, TAGS)
TRANSITIONS = RANDOM.randn(TAGS, TAGS)
LENGTHS = np.array([4, 2, 1])
TAG_ROWS = RANDOM.randint(0, TAGS, (BATCH, TIME)).astype(np.int32)


def score(potentials: Any, tags: Any) -> float:
    """The score of one sequence of tags."""
    steps = sum(potentials[t, tag] for t, tag in enumerate(tags))
    return steps + sum(TRANSITIONS[a, b] for a, b in itertools.pairwise(tags))


def all_scores(row: int) -> dict[tuple[int, ...], float]:
    """Every sequence of tags of a row with its score."""
    return {tags: score(POTENTIALS[row], tags) for tags in itertools.product(range(TAGS), repeat=int(LENGTHS[row]))}


def run(tensors: Any) -> Any:
    with tf.Session() as session:
        return session.run(tensors)


@pytest.fixture(autouse=True)
def graph() -> object:
    with tf.Graph().as_default() as made:
        yield made


def test_scores_and_norms() -> None:
    found = run(
        [
            crf.crf_sequence_score(POTENTIALS, TAG_ROWS, LENGTHS, TRANSITIONS),
            crf.crf_log_norm(POTENTIALS, LENGTHS, TRANSITIONS),
            crf.crf_log_likelihood(POTENTIALS, TAG_ROWS, LENGTHS, tf.constant(TRANSITIONS))[0],
        ]
    )
    scores = [score(POTENTIALS[i], TAG_ROWS[i, : LENGTHS[i]]) for i in range(BATCH)]
    norms = [np.log(np.sum(np.exp(list(all_scores(i).values())))) for i in range(BATCH)]
    np.testing.assert_allclose(found[0], scores)
    np.testing.assert_allclose(found[1], norms)
    np.testing.assert_allclose(found[2], np.subtract(scores, norms))


def test_empty_sequences_score_nothing() -> None:
    assert run(crf.crf_log_norm(POTENTIALS, [0, 0, 0], TRANSITIONS)).tolist() == [0, 0, 0]
    assert run(crf.crf_sequence_score(POTENTIALS, TAG_ROWS, [0, 0, 0], TRANSITIONS)).tolist() == [0, 0, 0]


def test_several_tags_at_a_step() -> None:
    allowed = np.ones((BATCH, TIME, TAGS), bool)
    allowed[:, 0, 1] = False
    found = run(crf.crf_multitag_sequence_score(POTENTIALS, allowed, LENGTHS, TRANSITIONS))
    wanted = [np.log(sum(np.exp(s) for tags, s in all_scores(i).items() if tags[0] != 1)) for i in range(BATCH)]
    np.testing.assert_allclose(found, wanted)


def test_best_sequences() -> None:
    tags, scores = run(crf.crf_decode(POTENTIALS, TRANSITIONS, LENGTHS))
    for i in range(BATCH):
        best = max(all_scores(i), key=all_scores(i).__getitem__)
        np.testing.assert_allclose(scores[i], all_scores(i)[best])
        assert tags[i].tolist() == [*best, *[0] * (TIME - LENGTHS[i])]
        outside, value = crf.viterbi_decode(POTENTIALS[i, : LENGTHS[i]], TRANSITIONS)
        assert tuple(outside) == best
        np.testing.assert_allclose(value, all_scores(i)[best])


def test_likelihood_is_trained() -> None:
    inputs = tf.constant(POTENTIALS, tf.float32)
    likelihood, transitions = crf.crf_log_likelihood(inputs, TAG_ROWS, LENGTHS)
    assert transitions.op.name == "transitions"
    loss = tf.reduce_mean(-likelihood)
    step = tf.train.GradientDescentOptimizer(0.5).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        before = session.run(loss)
        for _ in range(20):
            session.run(step)
        assert session.run(loss) < before - 0.1


def test_results_bear_the_names_that_programs_fetch():
    with tf.Graph().as_default():
        x, n = tf.placeholder(tf.float32, [None, None, 4]), tf.placeholder(tf.int32, [None])
        likelihood, transitions = tf.contrib.crf.crf_log_likelihood(x, tf.placeholder(tf.int32, [None, None]), n)
        assert likelihood.name == "sub:0"
        tags, scores = tf.contrib.crf.crf_decode(x, transitions, n)
        assert (tags.name, scores.name) == ("cond_2/Merge:0", "cond_2/Merge_1:0")
