"""Rows of the samplers of candidate classes; their numbers are compared with TensorFlow's in test_raw_golden.py."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import case, row

TRUE = np.array([[0, 3], [7, 1], [2, 2]], np.int64)


def sampled(probability):
    """Judges a sample of classes with this probability by range, distinctness, frequency and expected counts."""

    def check(values, inputs, attrs):
        found, true_count, count = values
        size = attrs.get("range_max", attrs["num_sampled"])
        assert found.shape == count.shape == (attrs["num_sampled"],)
        assert true_count.shape == inputs[0].shape
        assert np.all((found >= 0) & (found < size))
        chances = probability(np.arange(size), size)
        if attrs["unique"]:
            assert len(set(found.tolist())) == len(found)
            if len(found) == size:
                assert np.all(count <= 1)
        else:
            np.testing.assert_allclose(count, chances[found] * len(found), 1e-5)
            np.testing.assert_allclose(true_count, chances[inputs[0]] * len(found), 1e-5)
            if len(found) > 1000:
                assert np.max(np.abs(np.bincount(found, minlength=size) / len(found) - chances)) < 0.03

    return check


def log_uniform(classes, size):
    return np.log((classes + 2) / (classes + 1)) / np.log(size + 1)


def uniform(classes, size):
    return np.full(len(classes), 1 / size)


WEIGHTS = [4.0, 1.0, 1.0, 2.0, 2.0, 3.0, 1.0, 2.0]


def calls(**options):
    """A large sample, a distinct one, and one of all classes."""
    fixed = {"num_true": 2, "seed": 5, "seed2": 7, "range_max": 8, **options}
    return [
        case(TRUE, num_sampled=4000, unique=False, **fixed),
        case(TRUE, num_sampled=5, unique=True, **fixed),
        case(TRUE, num_sampled=8, unique=True, **fixed),
        case(np.zeros((0, 2)), num_sampled=3, unique=False, **fixed),
    ]


def everything(values, inputs, attrs):
    found, true_count, count = values
    assert found.tolist() == list(range(attrs["num_sampled"]))
    assert np.all(count == 1)
    assert np.all(true_count == 1)
    assert true_count.shape == inputs[0].shape


def hits(true, sampled, num_true):
    pairs = [(i, int(np.flatnonzero(sampled == c)[-1])) for i, line in enumerate(true) for c in line if c in sampled]
    rows, places = np.array(pairs, np.int64).reshape(-1, 2).T
    return rows.astype(np.int32), places, np.full(len(pairs), np.finfo(np.float32).min)


ROWS = [
    row("UniformCandidateSampler", None, calls(), check=sampled(uniform)),
    row("LogUniformCandidateSampler", None, calls(), check=sampled(log_uniform)),
    row("LearnedUnigramCandidateSampler", None, calls(), check=sampled(uniform)),
    row("ThreadUnsafeUnigramCandidateSampler", None, calls(), check=sampled(uniform)),
    row("FixedUnigramCandidateSampler", None, calls(unigrams=WEIGHTS),
        check=sampled(lambda classes, size: np.array(WEIGHTS) / sum(WEIGHTS))),
    row("AllCandidateSampler", None, [case(TRUE, num_true=2, num_sampled=9, unique=True)], check=everything),
    row("ComputeAccidentalHits", hits,
        [case(TRUE, [5, 3, 2, 3], num_true=2), case(TRUE, [5], num_true=2), case(np.zeros((0, 1)), [5], num_true=1)],
        open_shape="how many hits there are depends on the values"),
]  # fmt: skip
