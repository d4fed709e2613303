"""Random ops: TensorFlow's numbers for its seeds, distributions, streams from run to run, what is refused."""

from __future__ import annotations

import importlib.util
import json
import re
from pathlib import Path

import numpy as np
import pytest
import scipy.stats

import anabranch as tf
from anabranch.core.contract import kernels
from anabranch.core.graph.build import build
from anabranch.ops.random import distributions, philox
from anabranch.testing.check_gradients import check_gradients
from anabranch.testing.kernels import run_op
from anabranch.xla import engine, kernel_context

ROOT = Path(__file__).parents[3]
GOLDEN = json.loads((ROOT / "tests" / "golden" / "random.json").read_text())
_spec = importlib.util.spec_from_file_location(
    "golden_random", ROOT / "tools" / "golden" / "kernels" / "random_draws.py"
)
recorder = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(recorder)
TIERS = ("interpreted", "compiled")


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.fixture(params=TIERS)
def session(request):
    with tf.Session(config=tf.SessionOptions(tier=request.param)) as found:
        yield found


# --------------------------------------------------------------------------------------------------- against TensorFlow
def compare(expression, dtype, wanted, found):
    """Equal, or equal but for the last digits of sine, cosine and logarithm."""
    if "normal" not in expression and "gamma" not in expression:
        assert found == wanted
        return
    digits = {"float16": 2e-3, "bfloat16": 1.6e-2, "float32": 2e-6, "float64": 1e-13}[dtype]
    np.testing.assert_allclose(found, wanted, rtol=digits, atol=digits)


@pytest.mark.parametrize("number", range(len(GOLDEN)), ids=lambda i: f"{i}-{GOLDEN[i][1][3:50]}")
def test_interpreted_draws_are_tensorflows(number):
    seed, expression, dtype, shape, wanted = GOLDEN[number]

    def session():
        return tf.Session(config=tf.SessionOptions(tier="interpreted"))

    found = recorder.run(seed, expression, tf, np, session)
    assert found[:2] == [dtype, shape]
    compare(expression, dtype, wanted, found[2])


def test_compiled_draws_are_tensorflows():
    """Those of one shape, in every dtype, and those of other ops: all in one program for each seed of a graph."""
    left_out = re.compile(r"(uniform|normal)\((\[\]|\[5\]|\[0, 3\]|\[1000\])|, 200,")
    for seed in (11, None):
        rows = [row for row in GOLDEN if row[0] == seed and not left_out.search(row[1])]
        with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
            tf.set_random_seed(seed)
            drawn = [eval(row[1], {"tf": tf}) for row in rows]
            runs = [session.run(drawn) for _ in range(3)]
        for position, (_, expression, dtype, shape, wanted) in enumerate(rows):
            values = [np.asarray(run[position]) for run in runs]
            assert values[0].dtype.name == dtype
            assert list(values[0].shape) == shape
            compare(expression, dtype, wanted, [recorder.shown(value, np) for value in values])


def test_recorded_cases_are_those_of_the_tool():
    assert [(row[0], row[1]) for row in GOLDEN] == recorder.cases()


def test_philox_is_the_published_generator():
    """Known answers of Philox4x32-10 (Salmon et al., 2011): the largest counter and key, and digits of pi."""
    for key, counter, words in (
        ([0, 0], [0, 0, 0, 0], [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]),
        ([2**32 - 1] * 2, [2**32 - 1] * 4, [0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD]),
        (
            [0xA4093822, 0x299F31D0],
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1],
        ),
    ):
        stream = (np.array(key, np.uint32), np.array(counter, np.uint32))
        for tier in ("host", "xla"):
            found = run_op("RandomUniformInt", [4], np.int32(-(2**31)), np.int32(2**31 - 1), tier=tier, philox=stream)
            wanted = [word % (2**32 - 1) - 2**31 for word in words]
            assert found.tolist() == wanted


@pytest.mark.parametrize(
    ("op", "inputs", "attrs"),
    [
        ("RandomUniform", [[70_000]], {"dtype": "float"}),
        ("RandomUniform", [[70_001]], {"dtype": "double"}),
        ("RandomUniform", [[70_003]], {"dtype": "half"}),
        ("RandomUniformInt", [[70_001], np.int32(-5), np.int32(2**30)], {}),
        ("RandomUniformInt", [[70_003], np.int64(-5), np.int64(2**40)], {}),
        ("RandomShuffle", [np.arange(3000)], {}),
        ("RandomPoissonV2", [[5000], np.array([0.7, 12.0])], {}),
        ("Multinomial", [np.log(np.arange(1.0, 9.0))[None], np.int32(20_000)], {}),
    ],
)
def test_tiers_draw_the_same_bits(op, inputs, attrs):
    """Also across the carry of the counter from its lower into its upper half."""
    stream = (np.array([3, 5], np.uint32), np.array([2**32 - 7, 2**32 - 1, 1, 2], np.uint32))
    host, compiled = (run_op(op, *inputs, tier=tier, philox=stream, **attrs) for tier in ("host", "xla"))
    np.testing.assert_array_equal(host, compiled)


# -------------------------------------------------------------------------------------------------------- distributions
COUNT = 20_000
DISTRIBUTIONS = {
    "uniform": (lambda: tf.random_uniform([COUNT], -1.0, 3.0, seed=7), scipy.stats.uniform(-1, 4).cdf),
    "uniform64": (lambda: tf.random_uniform([COUNT], dtype=tf.float64, seed=7), scipy.stats.uniform.cdf),
    "normal": (lambda: tf.random_normal([COUNT], 1.0, 2.0, seed=7), scipy.stats.norm(1, 2).cdf),
    "normal64": (lambda: tf.random_normal([COUNT], dtype=tf.float64, seed=7), scipy.stats.norm.cdf),
    "truncated": (lambda: tf.truncated_normal([COUNT], 1.0, 2.0, seed=7), scipy.stats.truncnorm(-2, 2, 1, 2).cdf),
    "truncated64": (lambda: tf.truncated_normal([COUNT], dtype=tf.float64, seed=7), scipy.stats.truncnorm(-2, 2).cdf),
    "gamma": (lambda: tf.random_gamma([COUNT], 0.4, 2.0, seed=7), scipy.stats.gamma(0.4, scale=0.5).cdf),
    "gamma_large": (lambda: tf.random_gamma([COUNT], 30.0, seed=7), scipy.stats.gamma(30).cdf),
    "exponential": (lambda: tf.random_gamma([COUNT], 1.0, seed=7), scipy.stats.expon.cdf),
    "stateless_uniform": (lambda: tf.random.stateless_uniform([COUNT], [3, 4]), scipy.stats.uniform.cdf),
    "stateless_normal": (lambda: tf.random.stateless_normal([COUNT], [3, 4]), scipy.stats.norm.cdf),
}


@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_continuous_distributions(name):
    make, cdf = DISTRIBUTIONS[name]
    with tf.Session() as session:
        drawn = session.run(make())
    assert scipy.stats.kstest(drawn, cdf).pvalue > 1e-3
    assert abs(np.corrcoef(drawn[:-1], drawn[1:])[0, 1]) < 0.03


def test_discrete_distributions():
    logits = np.log([[0.1, 0.2, 0.3, 0.4], [0.7, 0.1, 0.1, 0.1]])
    with tf.Session() as session:
        whole, drawn, counts, order = session.run(
            [
                tf.random_uniform([COUNT], -3, 9, tf.int32, seed=7),
                tf.multinomial(logits, COUNT, seed=7),
                tf.random_poisson([3.0, 25.0], [COUNT], seed=7),
                tf.stack([tf.random_shuffle(tf.range(4), seed=i) for i in range(600)]),
            ]
        )
    assert scipy.stats.chisquare(np.bincount(whole + 3)).pvalue > 1e-3
    for line, sample in zip(logits, drawn, strict=True):
        assert scipy.stats.chisquare(np.bincount(sample), np.exp(line) * COUNT).pvalue > 1e-3
    for column, mean in enumerate((3.0, 25.0)):
        top = int(mean + 3 * mean**0.5)
        seen = np.bincount(np.minimum(counts[:, column].astype(int), top), minlength=top + 1)
        wanted = scipy.stats.poisson(mean).pmf(np.arange(top))
        assert scipy.stats.chisquare(seen, [*wanted * COUNT, (1 - wanted.sum()) * COUNT]).pvalue > 1e-3
    assert scipy.stats.chisquare(np.unique(order, axis=0, return_counts=True)[1]).pvalue > 1e-3
    assert len(np.unique(order, axis=0)) == 24


def test_gradients_of_gamma_numbers(session):
    """The mean of ``x**2`` over many numbers of gamma(a, b) has the derivatives of ``a (a + 1) / b**2``."""
    a, b = tf.constant([1.5, 4.0], tf.float64), tf.constant(2.0, tf.float64)
    drawn = tf.random_gamma([20_000], a, b, tf.float64, seed=3)
    slopes = session.run(tf.gradients(tf.reduce_mean(tf.square(drawn), 0), [a, b]))
    np.testing.assert_allclose(slopes[0], [4 / 4, 9 / 4], rtol=0.04)
    np.testing.assert_allclose(slopes[1], -(1.5 * 2.5 + 4 * 5) / 4, rtol=0.04)


def test_numbers_are_scaled_differentiably():
    low, high = tf.placeholder(tf.float64, []), tf.placeholder(tf.float64, [])
    seed = tf.constant([1, 2])
    drawn = tf.random.stateless_uniform([5], seed, low, high, tf.float64)
    check_gradients(drawn, [low, high], [np.float64(0.5), np.float64(2.0)])


# ---------------------------------------------------------------------------------------------------------------- seeds
def draws(seed=None, graph_seed=None, options=None):
    with tf.Graph().as_default():
        tf.set_random_seed(graph_seed)
        first, second = tf.random_uniform([4], seed=seed), tf.random_uniform([4], seed=seed)
        with tf.Session(config=options) as session:
            return [session.run([first, second]) for _ in range(2)]


def test_an_op_seed_alone_fixes_the_op():
    one, other = draws(seed=1), draws(seed=1)
    np.testing.assert_array_equal(one, other)
    np.testing.assert_array_equal(one[0][0], one[0][1])
    assert (one[0][0] != one[1][0]).all()
    assert (one[0][0] != draws(seed=2)[0][0]).all()


def test_a_graph_seed_alone_fixes_each_op_by_its_place():
    one = draws(graph_seed=1)
    np.testing.assert_array_equal(one, draws(graph_seed=1))
    assert (one[0][0] != one[0][1]).all()
    assert (one[0][0] != draws(graph_seed=2)[0][0]).all()


def test_no_seed_draws_anew_in_each_session():
    one = draws()
    assert (np.array(one) != np.array(draws())).all()
    assert (one[0][0] != one[0][1]).all()


def test_the_seed_of_a_session_fixes_ops_without_seeds(monkeypatch):
    options = tf.SessionOptions(seed=5)
    one = draws(options=options)
    np.testing.assert_array_equal(one, draws(options=options))
    assert (one[0][0] != one[0][1]).all()
    assert (np.array(one) != np.array(draws(options=tf.SessionOptions(seed=6)))).all()
    monkeypatch.setenv("ANABRANCH_SEED", "5")
    np.testing.assert_array_equal(one, draws())
    np.testing.assert_array_equal(draws(options=tf.SessionOptions(seed=6)), draws(options=tf.SessionOptions(seed=6)))
    assert (np.array(one) != np.array(draws(options=tf.SessionOptions(seed=6)))).all()


def test_seeds_of_ops_ignore_the_seed_of_the_session():
    np.testing.assert_array_equal(draws(seed=1), draws(seed=1, options=tf.SessionOptions(seed=9)))


# -------------------------------------------------------------------------------------------------------------- streams
def test_streams_go_on_from_run_to_run_whatever_is_fetched():
    """Whether a run is interpreted or compiled, and whatever else it does."""
    x, y = tf.random_normal([3], seed=1), tf.random_uniform([2], seed=2)
    both = tf.concat([x, y], 0)
    runs = []
    for tiers in (("interpreted",) * 4, ("compiled",) * 4, ("auto",) * 4):
        with tf.Session(config=tf.SessionOptions(tier=tiers[0])) as session:
            alone = session.run(x)
            joint = session.run([x, y, both])
            np.testing.assert_array_equal(np.concatenate(joint[:2]), joint[2])
            runs.append(np.concatenate([alone, joint[2], session.run(y), session.run(x)]))
    np.testing.assert_allclose(runs[0], runs[1], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(runs[0], runs[2], rtol=1e-5, atol=1e-6)
    assert len(np.unique(runs[0])) == 3 + 5 + 2 + 3


def test_a_failed_run_uses_up_no_numbers(session):
    x = tf.random_uniform([3], seed=1)
    fine = tf.placeholder(tf.bool, [])
    with tf.control_dependencies([tf.Assert(fine, ["no"])]):
        y = tf.identity(x)
    with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
        session.run(y, {fine: False})
    found = session.run(y, {fine: True})
    with tf.Session() as other:
        np.testing.assert_array_equal(found, other.run(x))


def test_feeding_a_draw_uses_up_no_numbers(session):
    x = tf.random_uniform([3], seed=1)
    assert session.run(x * 1.0, {x: np.ones(3)}).tolist() == [1.0] * 3
    with tf.Session() as other:
        np.testing.assert_array_equal(session.run(x), other.run(x))


def test_a_shape_may_be_known_at_run_time_only(session):
    shape = tf.placeholder(tf.int32, [None])
    drawn = [tf.random_uniform(shape, seed=1), tf.random.stateless_normal(shape, [1, 2])]
    assert drawn[0].shape.ndims is None
    for wanted in ([2, 3], [4], [], [0, 5]):
        assert [list(value.shape) for value in session.run(drawn, {shape: wanted})] == [wanted, wanted]
    default = tf.placeholder_with_default([2], [1])
    x = tf.random_uniform(default)
    assert x.shape.as_list() == [None]  # a feed may change it
    assert session.run(x, {default: [5]}).shape == (5,)


def test_names_and_static_shapes():
    assert tf.random_uniform([2, 3]).name == "random_uniform:0"
    assert tf.random_uniform([2], maxval=5, dtype=tf.int32, name="whole").name == "whole:0"
    assert tf.random_normal([2]).op.inputs[0].op.inputs[0].name == "random_normal/RandomStandardNormal:0"
    assert tf.truncated_normal([2, 3]).shape.as_list() == [2, 3]
    assert tf.random_shuffle(tf.zeros([3, 2])).name == "RandomShuffle:0"
    assert tf.multinomial(tf.zeros([4, 2]), 3).shape.as_list() == [4, 3]
    assert tf.random.categorical(tf.zeros([4, 2]), 3, tf.int32).dtype == tf.int32
    crop = tf.random_crop(tf.zeros([5, 6]), [2, 3])
    assert crop.name == "random_crop:0"
    assert crop.shape.as_list() == [2, 3]
    assert tf.random_gamma([5], tf.ones([2, 1]), tf.ones([3])).shape.as_list() == [5, 2, 3]
    assert tf.random_poisson(tf.ones([2]), [4, 3]).shape.as_list() == [4, 3, 2]
    assert tf.random_poisson(1.0, [4]).dtype == tf.float32


# ----------------------------------------------------------------------------------------------------------- what fails
def refused():
    stateless = tf.random.stateless_uniform
    return [
        (lambda: tf.random_uniform([2], dtype=tf.uint8), r"Invalid dtype tf.uint8\nGiven: random_uniform of uint8"),
        (
            lambda: tf.random_normal([2], dtype=tf.int32),
            r"Expected int32, got 0.0 of .*\nGiven: random_normal of int32",
        ),
        (lambda: tf.random_uniform([2], dtype=tf.int32), r"Must specify maxval for integer dtype(.|\n)*Instead"),
        (lambda: tf.random_uniform([2, -1]), r"Given: a random tensor of shape \[2, -1\]\nExpected: sizes of"),
        (lambda: tf.random_normal([[2]]), r"shape must be a vector of \{int32,int64\}, got shape \[1,1\]"),
        (lambda: tf.random_uniform([2], [1], [2], tf.int32), "input 'minval' of op type 'RandomUniformInt' has"),
        (lambda: tf.multinomial([1.0], 2), r"input 'logits' of op type 'Multinomial' has shape \[1\]"),
        (lambda: tf.multinomial([[1.0]], -2), "Given: num_samples=-2\nExpected: a number of 0 or more"),
        (lambda: tf.random_gamma([2], 1, dtype=tf.int32), "Given: random_gamma of int32\nExpected: one of"),
        (lambda: tf.random_poisson(1.0, [2], tf.uint8), "Given: random_poisson of uint8"),
        (lambda: stateless([2], [1, 2, 3]), r"seed must have shape \[2\] for .*\nGiven: a seed of 3 numbers"),
        (lambda: tf.random.stateless_normal([2], 1), "input 'seed' of op type 'StatelessRandomNormal' has shape"),
        (lambda: stateless([2], [1, 2], 1, None, tf.int32), "minval and maxval must be both None or not None"),
        (lambda: stateless([2], [1, 2], 0, 9, tf.uint32), "unsigned ones have no bounds"),
    ]


def test_refused_when_built():
    for call, text in refused():
        with pytest.raises((ValueError, TypeError), match=text):
            call()


def test_shuffles_have_no_gradient():
    x = tf.constant([1.0, 2.0])
    with pytest.raises(LookupError, match=r"RandomShuffle has no gradient\nGiven(.|\n)*Instead: tf.gather"):
        tf.gradients(tf.random_shuffle(x), x)


def test_refused_when_run(session):
    low, dims, count = tf.placeholder(tf.int32, []), tf.placeholder(tf.int32, [1]), tf.placeholder(tf.int32, [])
    rate, seed, logits = (
        tf.placeholder(tf.float32, []),
        tf.placeholder(tf.int32, None),
        tf.placeholder(tf.float32, None),
    )
    whole = tf.random_uniform([2], low, 5, tf.int32)
    for fetch, feeds, text in (
        (whole, {low: 5}, "Need minval < maxval, got 5 >= 5"),
        (whole, {low: 7}, "Need minval < maxval, got 7 >= 5"),
        (tf.random_uniform(dims), {dims: [-3]}, "Dimension -3 must be >= 0"),
        (tf.random_gamma(dims, 2.0), {dims: [-3]}, "Dimension -3 must be >= 0"),
        (tf.random.stateless_normal(dims, [1, 2]), {dims: [-3]}, "Dimension -3 must be >= 0"),
        (tf.multinomial([[1.0]], count), {count: -2}, "num_samples should be nonnegative, got -2"),
        (tf.multinomial(logits, 2), {logits: np.ones((3, 0))}, "num_classes should be positive, got 0"),
        (tf.random_poisson(rate, [2], tf.int32), {rate: -1.0}, "Poisson rates for int32 must be at least 0 and below"),
        (tf.random_poisson(rate, [2], tf.int32), {rate: 1e10}, "Poisson rates for int32 must be at least 0 and below"),
        (tf.random.stateless_uniform([2], seed), {seed: [1, 2, 3]}, r"seed must have shape \[2\]"),
        (tf.random_crop(tf.zeros([3, 3]), [4, 2]), {}, r"Need value.shape >= size, got \] \[3 3\] \[4 2\]"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            session.run(fetch, feeds)
    assert session.run(whole, {low: 4}).tolist() == [4, 4]


def test_parameters_at_the_edge(session):
    inf, nan = np.inf, np.nan
    counts = session.run(tf.random_poisson([0.0, -1.0, nan, inf, 1e20], [3], seed=1))
    np.testing.assert_array_equal(counts[:, :4], [[0, nan, nan, inf]] * 3)
    np.testing.assert_allclose(counts[:, 4], 1e20, rtol=1e-6)
    shapes = session.run(tf.random_gamma([3], [0.0, nan, inf], seed=1))
    np.testing.assert_array_equal(shapes, [[np.finfo(np.float32).tiny, nan, inf]] * 3)
    weights = [[-inf, 0.0, -inf], [nan, nan, 1.0], [-1e30, -1e30, -1e30]]
    drawn = session.run(tf.multinomial(weights, 50, seed=1))
    assert set(drawn[0]) == {1}
    assert set(drawn[1]) == {2}
    assert set(drawn[2]) == {0, 1, 2}


@pytest.mark.parametrize("classes", [128, 129, 1000, 4999])
def test_categories_among_many_classes_are_those_of_the_cumulated_weights(classes):
    logits = np.random.RandomState(0).randn(3, classes).astype(np.float32) * 3
    logits[0, 5 : classes // 2] = -np.inf  # blocks of classes that are never drawn
    logits[1, :] = -np.inf
    logits[1, [0, classes - 1]] = 0.0
    logits[2, 7] = np.nan
    drawn = {}
    for tier in ("interpreted", "compiled"):
        with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            drawn[tier] = session.run(tf.multinomial(logits, 4000, seed=5))
    np.testing.assert_array_equal(drawn["compiled"], drawn["interpreted"])
    weights = np.where(np.isfinite(logits), np.exp(logits.astype(np.float64)), 0.0)
    for row in range(3):
        share = np.bincount(drawn["compiled"][row], minlength=classes) / 4000
        assert (share[weights[row] == 0] == 0).all()
        np.testing.assert_allclose(share, weights[row] / weights[row].sum(), rtol=0, atol=0.04)


def test_truncated_normals_pass_on_the_same_side_of_the_bound_in_every_tier():
    """Among four million there are some so close to 2 that the tiers' sines, equal to the last bits, would disagree."""
    count, stream = 4_000_000, (np.array([1, 2], np.uint32), np.zeros(4, np.uint32))
    host = distributions.truncated_normal(kernels.HostContext(None, None), stream, count, np.dtype(np.float32))
    with engine.x64():
        compiled = engine.jax().jit(
            lambda *stream: distributions.truncated_normal(
                kernel_context.TraceContext([], engine.default_platform()), stream, count, np.dtype(np.float32)
            )
        )(*stream)
    np.testing.assert_allclose(np.asarray(compiled), host, rtol=0, atol=3e-6)
    assert np.abs(host).max() < 2.000001


@pytest.mark.parametrize(
    ("kind", "options"),
    [
        ("StatelessRandomUniform", {}),
        ("StatelessRandomNormal", {}),
        ("StatelessTruncatedNormal", {}),
        ("StatelessRandomUniformFullInt", {"dtype": tf.int64}),
    ],
)
def test_key_and_counter_give_the_numbers_of_their_seed(kind, options):
    with tf.Graph().as_default(), tf.Session() as session:
        key, counter, algorithm = build("StatelessRandomGetKeyCounterAlg", np.array([7, -9]))
        second = build(kind + "V2", [50], key, counter, algorithm, **options)
        first = build(kind, [50], np.array([7, -9]), **options)
        np.testing.assert_array_equal(*session.run([first, second]))
        with pytest.raises(tf.errors.InvalidArgumentError, match="Unsupported algorithm id: 2"):
            session.run(build(kind + "V2", [50], key, counter, 2, **options))


def test_a_few_blocks_are_those_that_many_begin_with():
    largest = 2**32 - 1
    for counter in ([0, 0, 0, 0], [largest - 1, 0, 0, 0], [largest, largest, 5, 0], [largest - 3] + [largest] * 3):
        stream = (np.array([7, largest], np.uint32), np.array(counter, np.uint32))
        offsets = np.arange(20, dtype=np.uint64)
        many = philox.host_blocks(stream, offsets)
        few = [philox.host_blocks(stream, offsets[at : at + 5].reshape(5, 1)) for at in range(0, 20, 5)]
        for lane in range(4):
            assert few[0][lane].shape == (5, 1)
            assert few[0][lane].dtype == many[lane].dtype
            np.testing.assert_array_equal(np.concatenate([part[lane].ravel() for part in few]), many[lane])


@pytest.mark.parametrize(
    "counter", [[7, 0, 5, 0], [2**32 - 5, 2**32 - 1, 2**32 - 1, 3], [2**32 - 40000, 2**32 - 1, 5, 9]]
)
def test_draws_of_many_chunks_are_those_of_their_blocks(counter):
    key = 0x123456789ABCDEF0
    place = sum(word << 32 * i for i, word in enumerate(counter))
    stream = philox.stream_at(key, place)
    number = 2 * philox.CHUNK + 100
    some = [*range(40), philox.CHUNK - 1, philox.CHUNK, 2 * philox.CHUNK + 99]
    wanted = {at: philox.few(key, place + at, 1) for at in some}
    context = kernels.HostContext(None, None)
    words = philox.host_words(stream, 4 * number).reshape(-1, 4)
    uniforms = distributions.uniform(context, stream, 4 * number, np.dtype(np.float32)).reshape(-1, 4)
    normals = distributions.normal(context, stream, 4 * number, np.dtype(np.float32)).reshape(-1, 4)
    for at, block in wanted.items():
        assert words[at].tolist() == block
        numbers = [(word & 0x7FFFFF) * 2.0**-23 for word in block]
        assert uniforms[at].tolist() == numbers
        exact = [
            function(2 * np.pi * second) * np.sqrt(-2 * np.log(max(first, 1e-7)))
            for first, second in (numbers[:2], numbers[2:])
            for function in (np.sin, np.cos)
        ]
        np.testing.assert_allclose(normals[at], exact, 1e-5, 2e-6)
    truncated = distributions.truncated_normal(context, stream, 4 * number, np.dtype(np.float32)).reshape(-1, 4)
    assert np.abs(truncated).max() < 2.000001
    for group in (*range(60), number - 1):
        stretch = philox.stream_at(key, place + 256 * group)
        drawn = distributions.normal(context, stretch, 32, np.dtype(np.float32))
        assert truncated[group].tolist() == drawn[np.abs(drawn) < 2][:4].tolist()


def test_alike_draws_of_a_program_are_traced_once(monkeypatch):
    traced = []
    blocks = philox._blocks
    monkeypatch.setattr(philox, "_blocks", lambda *arguments: traced.append(1) or blocks(*arguments))
    drawn = {}
    for tier in ("interpreted", "compiled"):
        with tf.Graph().as_default():
            tf.set_random_seed(3)
            draws = [tf.random_uniform([13, 17]) for _ in range(6)] + [tf.random_normal([13, 17])]
            with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
                drawn[tier] = session.run(draws)
    assert len(traced) == 2  # the uniform ones, and the normal one
    for one, other in zip(drawn["interpreted"], drawn["compiled"], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-6)
    for one, other in zip(drawn["interpreted"][:6], drawn["compiled"][:6], strict=True):
        np.testing.assert_array_equal(one, other)
