"""Cases of the samplers of candidate classes."""

import numpy as np
from raw_ops import case

TRUE = np.array([[0, 3], [7, 1]], np.int64)
WEIGHTS = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]


def sampler(kind, true=TRUE, runs=2, **attrs):
    """A sampler with seeds, run twice."""
    return case(f"{kind}CandidateSampler", true, runs=runs, seed=5, seed2=7, num_true=2, **attrs)


CASES = {
    "uniform, distinct": sampler("Uniform", num_sampled=6, unique=True, range_max=10),
    "uniform": sampler("Uniform", num_sampled=6, unique=False, range_max=10),
    "uniform, all of them": sampler("Uniform", num_sampled=16, unique=True, range_max=16),
    "uniform, many": sampler("Uniform", num_sampled=40, unique=True, range_max=100000),
    "log uniform, distinct": sampler("LogUniform", num_sampled=6, unique=True, range_max=10),
    "log uniform": sampler("LogUniform", num_sampled=6, unique=False, range_max=1000),
    "fixed, distinct": sampler(
        "FixedUnigram", num_sampled=5, unique=True, range_max=8, unigrams=WEIGHTS, distortion=0.75
    ),
    "fixed, reserved": sampler(
        "FixedUnigram", num_sampled=5, unique=False, range_max=9, num_reserved_ids=1, unigrams=WEIGHTS
    ),
    "fixed, sharded": sampler(
        "FixedUnigram", TRUE % 4, num_sampled=3, unique=False, range_max=4, num_shards=2, shard=1, unigrams=WEIGHTS
    ),
    "learned, distinct": sampler("LearnedUnigram", num_sampled=5, unique=True, range_max=10, runs=3),
    "learned": sampler("ThreadUnsafeUnigram", num_sampled=5, unique=False, range_max=10, runs=3),
    "all": sampler("All", num_sampled=9, unique=True),
    "hits": case("ComputeAccidentalHits", TRUE, np.array([1, 5, 3, 1, 0], np.int64), num_true=2),
    "no hits": case("ComputeAccidentalHits", TRUE, np.array([9, 5], np.int64), num_true=2),
}
