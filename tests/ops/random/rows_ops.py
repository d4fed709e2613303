"""Rows of random ops: what no formula tells is judged by range, moments, and agreement of the tiers."""

from __future__ import annotations

import math

import numpy as np
import scipy.special
import scipy.stats

from anabranch.testing.op_cases import case, positive, row

FLOATS = "half bfloat16 float double"


def floats(low, high, mean, deviation):
    """Values between bounds, with about this mean and deviation."""

    def check(values, inputs, attrs):
        (found,) = values
        assert found.shape == tuple(inputs[0])
        wide = found.astype(np.float64)
        assert np.all((wide >= low) & (wide <= high))
        if wide.size > 1000:
            assert abs(wide.mean() - mean) < 0.08
            assert abs(wide.std() - deviation) < 0.08
            assert len(np.unique(wide)) > 50

    return check


def integers(values, inputs, attrs):
    (found,) = values
    low, high = (int(bound) for bound in inputs[1:])
    assert found.shape == tuple(inputs[0])
    assert np.all((found >= low) & (found < high))
    if found.size > 1000:
        assert abs(np.bincount(found.ravel() - low).std() / found.size) < 0.02
        assert set(np.unique(found)) == set(range(low, high))


def shuffled(values, inputs, attrs):
    (found,) = values
    assert found.shape == inputs[0].shape
    assert found.dtype == inputs[0].dtype
    assert sorted(map(repr, found.tolist())) == sorted(map(repr, inputs[0].tolist()))
    if len(found) > 20:
        assert found.tolist() != inputs[0].tolist()


def drawn(values, inputs, attrs):
    (found,) = values
    logits, count = inputs
    assert found.shape == (len(logits), int(count))
    for line, sample in zip(logits.astype(np.float64), found, strict=True):
        wanted = np.exp(line - line.max())
        wanted /= wanted.sum()
        assert np.all((sample >= 0) & (sample < len(line)))
        if len(sample) > 1000:
            assert np.max(np.abs(np.bincount(sample, minlength=len(line)) / len(sample) - wanted)) < 0.05


def of_mean_and_variance(values, inputs, variance):
    """Values of distributions along the last dimension whose mean and variance are known from the parameter."""
    (found,) = values
    shape, parameter = inputs
    assert found.shape == (*shape, *parameter.shape)
    wide, mean = found.astype(np.float64), parameter.astype(np.float64)
    assert np.all(wide >= 0)
    if wide.size > 1000:
        count = len(wide)
        assert np.all(np.abs(wide.mean(0) - mean) < 5 * np.sqrt(variance(mean) / count))
        assert np.all(np.abs(wide.var(0) / variance(mean) - 1) < 0.35)


def gammas(values, inputs, attrs):
    of_mean_and_variance(values, inputs, lambda mean: mean)


def counts(values, inputs, attrs):
    of_mean_and_variance(values, inputs, lambda mean: mean)
    assert np.array_equal(values[0], np.floor(values[0]))


def gamma_slope(alpha, sample):
    """How a sample moves with ``alpha`` while its probability below stays."""
    below, step = scipy.special.gammainc(alpha, sample), 1e-5
    high, low = (scipy.special.gammaincinv(alpha + by, below) for by in (step, -step))
    return (high - low) / (2 * step)


def all_integers(values, inputs, attrs):
    (found,) = values
    assert found.shape == tuple(inputs[0])
    if found.size > 1000:
        info = np.iinfo(found.dtype)
        parts = (found.astype(np.float64) - float(info.min)) / (float(info.max) - float(info.min))
        assert np.all(np.abs(np.histogram(parts, 8, (0, 1))[0] / found.size - 0.125) < 0.04)


def bounded(values, inputs, attrs):
    """Normal numbers between bounds: each row against the distribution that scipy knows."""
    (found,), shape = values, inputs[0]
    parameters = [np.asarray(item, np.float64) for item in inputs[-4:]]
    assert found.shape == tuple(shape)
    for k, sample in enumerate(found.astype(np.float64).reshape(shape[0], -1)):
        mean, deviation, low, high = (float(item.reshape(-1)[k if item.size > 1 else 0]) for item in parameters)
        assert np.all((sample >= low) & (sample <= high))
        if sample.size > 1000:
            known = scipy.stats.truncnorm((low - mean) / deviation, (high - mean) / deviation, mean, deviation)
            assert abs(sample.mean() - known.mean()) < 5 * known.std() / np.sqrt(sample.size)
            if found.dtype != np.float16:
                assert scipy.stats.kstest(sample, known.cdf).pvalue > 1e-4


BOUNDED = [
    ([1, 2000], 0.5, 2.0, -1.0, 3.0),
    ([4, 1500], [0.0, 5.0, -3.0, 0.0], [1.0, 0.1, 4.0, 1.0], [-2.0, -100.0, 20.0, 8.0], [2.0, 5.05, 30.0, np.inf]),
    ([2, 1500], 0.0, 1.0, [-np.inf, 33.0], [0.5, 40.0]),
    ([3], 0.0, 1.0, -1.0, 1.0),
    ([2, 0], 0.0, 1.0, -1.0, 1.0),
]
SHAPES = [[40, 50], [], [0, 3], [7]]
SHAPES_AGAIN = [[40, 50], [0, 3]]
"""Of ops that draw with the functions of others, whose rows have all shapes."""


def without_seed(check):
    """The check of rows whose ``shape`` is that of the whole result and comes before a seed."""

    def checked(values, inputs, attrs):
        shape, _, parameter = inputs
        outer = shape[: len(shape) - np.ndim(parameter)]
        check(values, [outer, np.asarray(parameter)], attrs)

    return checked


def successes(values, inputs, attrs):
    """Binomial numbers: each parameter's against the distribution that scipy knows."""
    (found,), (shape, _, trials, p) = values, inputs
    trials, p = np.broadcast_arrays(np.asarray(trials, np.float64), np.asarray(p, np.float64))
    assert found.shape == tuple(shape)
    flat = found.astype(np.float64).reshape(math.prod(shape[: len(shape) - trials.ndim]), trials.size)
    for k, sample in enumerate(flat.T):
        n, chance = trials.reshape(-1)[k], min(max(p.reshape(-1)[k], 0.0), 1.0)
        assert np.all((sample >= 0) & (sample <= n) & (sample == np.floor(sample)))
        if sample.size > 1000:
            deviation = np.sqrt(n * chance * (1 - chance))
            assert abs(sample.mean() - n * chance) <= 5 * deviation / np.sqrt(sample.size)
            below = np.array([np.mean(sample <= bound) for bound in np.unique(sample)])
            assert np.max(np.abs(below - scipy.stats.binom.cdf(np.unique(sample), n, chance))) < 0.05


TRIALS = ([5.0, 40.0, 1000.0, 30.0, 7.0, 0.0], [0.3, 0.5, 0.9, 0.01, 1.0, 0.5])


KEYED = (np.array([10413732777507651514], np.uint64), np.array([0, 17830669156045600267], np.uint64), 1)
"""Key, counter and algorithm of the seed [1, 2]."""


def key_and_counter(seed):
    """What TensorFlow gives for these seeds."""
    known = {(1, 2): KEYED[:2], (-5, 123456789012): ([916771484641006134], [0, 3594452602128618859])}
    return tuple(np.array(part, np.uint64) for part in known[tuple(int(number) for number in seed)])


def seeded(*inputs, **options):
    return case(*inputs, seed=5, seed2=7, **options)


ROWS = [
    row(
        "ParameterizedTruncatedNormal",
        None,
        [seeded(*given, **({"grad": False})) for given in BOUNDED],
        "float half bfloat16 double",
        vary="dtype",
        check=bounded,
    ),
    row(
        "StatelessParameterizedTruncatedNormal",
        None,
        [case([2, 2000], [3, 4], 0.5, 2.0, -1.0, 3.0), case([2], [3, -4], [0.0, 1.0], 0.5, 0.0, np.inf)],
        "half float double",
        vary="dtype",
        check=bounded,
    ),
    row("RandomUniform", None, [seeded(s) for s in SHAPES], FLOATS, vary="dtype", check=floats(0, 1, 0.5, 12**-0.5)),
    row("RandomStandardNormal", None, [seeded(s) for s in SHAPES], FLOATS, vary="dtype", check=floats(-9, 9, 0, 1)),
    row("TruncatedNormal", None, [seeded(s) for s in SHAPES], FLOATS, vary="dtype", check=floats(-2, 2, 0, 0.88)),
    row("RandomUniformInt", None, [seeded(s, -3, 9) for s in SHAPES], vary="Tout", check=integers),
    row("RandomShuffle", None, [seeded(np.arange(30)), seeded(np.arange(12).reshape(6, 2)), seeded(np.zeros((0, 2)))],
        "half float int32 int64 bool complex64", check=shuffled),
    row("Multinomial", None, [seeded([[0.0, 1.0, -1.0], [2.0, 0.0, 0.0]], 4000), seeded([[0.0, 1.0]], 0)],
        "half bfloat16 float double int32", check=drawn),
    row("RandomGamma", None, [seeded([1500], [0.5, 1.0, 4.0]), seeded([], 2.0), seeded([2], np.ones((0, 3)))],
        "half float double", check=gammas),
    row("RandomGammaGrad", gamma_slope,
        [case(positive(3, 4), positive(3, 4)), case(positive(4), positive(3, 1)), case(positive(), positive())],
        "float", tolerance=40),
    row("RandomPoissonV2", None, [seeded([1500], [0.5, 4.0, 30.0]), seeded([], 2.0), seeded([2], np.ones((0, 3)))],
        "half float double int32 int64", vary="dtype", check=counts),
    row("StatelessRandomGammaV2", None,
        [case([1500, 3], [3, 4], [0.5, 1.0, 4.0]), case([], [3, 4], 2.0), case([2, 0, 3], [3, 4], np.ones((0, 3)))],
        "half float double", vary="dtype", check=without_seed(gammas)),
    row("StatelessRandomPoisson", None,
        [case([1500, 3], [3, 4], [0.5, 4.0, 30.0], Rtype="float"), case([], [3, 4], 2.0, Rtype="double"),
         case([2, 0], [3, 4], np.ones(0), Rtype="half")],
        "half float double int32 int64", vary="dtype", check=without_seed(counts)),
    row("StatelessRandomBinomial", None,
        [case([1500, 6], [3, 4], *TRIALS), case([2000], [3, 4], 300.0, 0.2), case([2, 0], [3, 4], np.ones(0), 0.5)],
        "half float double int32 int64", vary="dtype", check=successes),
    row("StatelessRandomUniform", None, [case(s, [1, 2]) for s in SHAPES], FLOATS, vary="dtype",
        check=floats(0, 1, 0.5, 12**-0.5)),
    row("StatelessRandomNormal", None, [case(s, [1, 2]) for s in SHAPES], FLOATS, vary="dtype",
        check=floats(-9, 9, 0, 1)),
    row("StatelessTruncatedNormal", None, [case(s, [1, 2]) for s in SHAPES_AGAIN], FLOATS, vary="dtype",
        check=floats(-2, 2, 0, 0.88)),
    row("StatelessRandomUniformInt", None, [case(s, [1, 2], -3, 9) for s in SHAPES], vary="dtype",
        check=lambda values, inputs, attrs: integers(values, [inputs[0], *inputs[2:]], attrs)),
    row("StatelessRandomUniformFullInt", None, [case(s, [1, 2]) for s in SHAPES], vary="dtype", check=all_integers),
    row("StatelessRandomGetKeyCounter", key_and_counter, [case([1, 2]), case([-5, 123456789012])], "int64",
        vary="Tseed"),
    row("StatelessRandomGetKeyCounterAlg", lambda seed: (*key_and_counter(seed), np.int32(1)), [case([1, 2])]),
    row("StatelessRandomGetAlg", lambda: np.int32(1), [case()]),
    row("StatelessRandomUniformV2", None, [case(s, *KEYED) for s in SHAPES_AGAIN], FLOATS, vary="dtype",
        check=floats(0, 1, 0.5, 12**-0.5)),
    row("StatelessRandomNormalV2", None, [case(s, *KEYED) for s in SHAPES_AGAIN], FLOATS, vary="dtype",
        check=floats(-9, 9, 0, 1)),
    row("StatelessTruncatedNormalV2", None, [case(s, *KEYED) for s in SHAPES_AGAIN], FLOATS, vary="dtype",
        check=floats(-2, 2, 0, 0.88)),
    row("StatelessRandomUniformIntV2", None, [case(s, *KEYED, 3, 9) for s in SHAPES_AGAIN], vary="dtype",
        check=lambda values, inputs, attrs: integers(values, [inputs[0], *inputs[4:]], attrs)),
    row("StatelessRandomUniformFullIntV2", None, [case(s, *KEYED) for s in SHAPES_AGAIN], vary="dtype",
        check=all_integers),
    row("StatelessMultinomial", None, [case([[0.0, 1.0, -1.0], [2.0, 0.0, 0.0]], 4000, [1, 2])],
        "half bfloat16 float double int32", check=lambda values, inputs, attrs: drawn(values, inputs[:2], attrs)),
]  # fmt: skip
