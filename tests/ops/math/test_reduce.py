"""Public reductions: arguments, names, static shapes, errors; what rows of cases cannot say."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.values import shapes
from anabranch.ops.shared import host_reductions
from anabranch.testing import check_gradients
from anabranch.testing.kernels import TIERS, run_op

NAN, INF = np.nan, np.inf


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def run(fetches, feeds=None):
    with tf.Session() as session:
        return session.run(fetches, feeds)


X = np.arange(6.0, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize(
    ("function", "reference"),
    [
        (tf.reduce_sum, np.sum),
        (tf.reduce_mean, np.mean),
        (tf.reduce_prod, np.prod),
        (tf.reduce_max, np.max),
        (tf.reduce_min, np.min),
    ],
)
def test_arguments_old_and_new(function, reference):
    found = run([
        function(X), function(X, 0), function(X, axis=[0, 1]), function(X, 1, True), function(X, -1, keepdims=True),
        function(X, reduction_indices=[1]), function(X, reduction_indices=0, keep_dims=True), function(X, axis=[]),
    ])  # fmt: skip
    wanted = [
        reference(X),
        reference(X, 0),
        reference(X, (0, 1)),
        reference(X, 1, keepdims=True),
        reference(X, -1, keepdims=True),
        reference(X, 1),
        reference(X, 0, keepdims=True),
        X,
    ]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other)
        assert np.shape(one) == np.shape(other)


def test_both_spellings_at_once_are_refused():
    with pytest.raises(ValueError, match=r"Cannot specify both 'reduction_indices' and 'axis'"):
        tf.reduce_sum(X, axis=0, reduction_indices=0)
    with pytest.raises(ValueError, match=r"Cannot specify both 'keep_dims' and 'keepdims'"):
        tf.reduce_sum(X, keepdims=True, keep_dims=True)
    with pytest.raises(ValueError, match=r"Cannot specify both 'axis' and 'dimension'"):
        tf.argmax(X, axis=0, dimension=0)


def test_names_are_tensorflows():
    x = tf.constant(X)
    assert tf.reduce_sum(x).op.name == "Sum"
    assert tf.reduce_mean(x, axis=1).op.inputs[1].name == "Mean/reduction_indices:0"
    assert tf.reduce_max(x, name="top").op.name == "top"
    assert [tf.reduce_logsumexp(x).op.name, tf.argmax(x).op.name] == ["ReduceLogSumExp/Add", "ArgMax"]
    assert tf.cumsum(x, name="running").op.name == "running"
    assert tf.reduce_sum(x).op.inputs[1].op.name.startswith("Const")


@pytest.mark.parametrize(
    ("shape", "axes", "keep", "wanted"),
    [
        ((2, None, 4), [1], False, (2, 4)),
        ((2, None, 4), [1], True, (2, 1, 4)),
        ((2, None, 4), None, False, (None, None)),
        ((2, None, 4), None, True, (None, None, None)),
        (None, [0], False, None),
    ],
)
def test_static_shapes(shape, axes, keep, wanted):
    x = tf.placeholder(tf.float32, shape)
    axes = tf.placeholder(tf.int32, [1]) if axes is None else axes
    assert tf.reduce_sum(x, axes, keep)._shape == wanted


def test_unknown_rank_over_all_is_a_scalar():
    x = tf.placeholder(tf.float32)
    total = tf.reduce_sum(x)
    assert total._shape == ()
    assert run(total, {x: X}) == 15
    assert tf.reduce_sum(x, keepdims=True)._shape is None


def test_wrong_dimensions():
    with pytest.raises(ValueError, match=r"(?s)Invalid reduction dimension 2 for input with 2.*in \[-2, 2\)"):
        tf.reduce_sum(X, 2)
    with pytest.raises(ValueError, match=r"(?s)reduction_indices of shape \[1,2\].*a scalar or a vector"):
        tf.reduce_sum(X, [[0, 1]])
    with pytest.raises(ValueError, match=r"(?s)dimension = 3 of a tensor of rank 2.*\[-2, 2\)"):
        tf.argmax(X, 3)
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match=r"Expected scan axis in the range \[-2, 2\), but got 2"),
    ):
        session.run(tf.cumsum(X, 2))


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(("op", "reference"), [("Sum", np.sum), ("Max", np.max), ("Mean", np.mean)])
def test_a_dimension_named_twice_counts_once_as_in_version_1(op, reference, tier):
    got = run_op(op, X, np.array([0, -2], np.int32), tier=tier)
    np.testing.assert_allclose(got, reference(X, 0), rtol=1e-6)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    ("values", "largest", "smallest"),
    [
        ([1, NAN, 2], 2, 0),
        ([NAN, 1], 1, 1),
        ([NAN, NAN], 0, 0),
        ([NAN, -INF], 0, 1),
        ([NAN, INF], 1, 0),
        ([-INF, -INF], 0, 0),
        ([2, NAN, 1, 2], 0, 2),
        ([-0.0, 0.0], 0, 0),
    ],
)
def test_positions_skip_nan(tier, values, largest, smallest):
    for dtype in (np.float32, np.float16):
        given = np.array(values, dtype)
        assert run_op("ArgMax", given, np.int32(0), tier=tier) == largest
        assert run_op("ArgMin", given, np.int32(0), tier=tier) == smallest


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32, np.bool_])
@pytest.mark.parametrize("axis", [0, 1, 2])
def test_positions_among_many_with_the_worst_numbers_and_ties(tier, dtype, axis):
    values = np.round(np.random.RandomState(0).standard_normal((30, 40, 30)) * 2).astype(dtype)
    low = high = values
    if np.dtype(dtype).kind == "f":
        limits = np.finfo(dtype)
        values[:, :, 3] = values[:, 3] = values[3] = np.nan
        values[:, 5, ::2], values[7, :, 4], values[9, 8:] = -np.inf, limits.min, limits.max
        values[4, 5:9], values[11:13, :, ::3] = np.inf, np.nan
        wide = values.astype(np.float32) if dtype == np.float16 else values
        limits = np.finfo(wide.dtype)
        low, high = np.where(wide > limits.min, wide, limits.min), np.where(wide < limits.max, wide, limits.max)
    found = run_op("ArgMax", values, np.int32(axis), tier=tier), run_op("ArgMin", values, np.int32(axis), tier=tier)
    np.testing.assert_array_equal(found[0], np.argmax(low, axis))
    np.testing.assert_array_equal(found[1], np.argmin(high, axis))


@pytest.mark.parametrize("tier", TIERS)
def test_position_in_nothing(tier):
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Reduction axis 0 is empty in shape \[0,3\]"):
        run_op("ArgMax", np.zeros((0, 3), np.float32), np.int32(0), tier=tier)


def test_positions_of_old_forms():
    found = run([tf.arg_max(X, 1), tf.arg_min(X, 1), tf.argmax(X), tf.argmin(X, dimension=1, output_type=tf.int32)])
    assert [one.tolist() for one in found] == [[2, 2], [0, 0], [1, 1, 1], [0, 0]]
    assert [one.dtype for one in found] == [np.int64, np.int64, np.int64, np.int32]


def test_quantised_integers_reduce_as_integers():
    x = np.array([100, 100], np.int8)
    assert run_op("Sum", x, np.int32(0), T=tf.qint8) == np.int8(-56)
    assert run_op("Max", x, np.int32(0), T=tf.qint8) == 100


def test_ties_share_the_gradient():
    x = tf.constant([[1.0, 3.0, 3.0], [2.0, 2.0, 2.0]])
    top, bottom = tf.gradients(tf.reduce_max(x, 1), x)[0], tf.gradients(tf.reduce_min(x), x)[0]
    found = run([top, bottom])
    np.testing.assert_allclose(found[0], [[0, 0.5, 0.5], [1 / 3] * 3], rtol=1e-6)
    np.testing.assert_allclose(found[1], [[1, 0, 0], [0, 0, 0]])


def test_product_of_zeros_has_a_gradient():
    x = tf.constant([[0.0, 2.0, 3.0], [0.0, 0.0, 3.0]], tf.float64)
    by_row, whole = tf.gradients(tf.reduce_prod(x, 1), x)[0], tf.gradients(tf.reduce_prod(x), x)[0]
    found = run([by_row, whole])
    np.testing.assert_array_equal(found[0], [[6, 0, 0], [0, 0, 0]])
    np.testing.assert_array_equal(found[1], np.zeros((2, 3)))


@pytest.mark.parametrize("function", [tf.reduce_sum, tf.reduce_mean, tf.reduce_max, tf.reduce_prod])
@pytest.mark.parametrize("known", ["shape", "axes", "neither"])
def test_gradients_with_little_known(function, known):
    """The sizes and dimensions come as data: the gradient finds them in the graph."""
    value = np.random.default_rng(0).normal(size=(2, 3, 4))
    x = tf.placeholder(tf.float64, value.shape if known == "shape" else None)
    axes = tf.placeholder(tf.int32, None)
    y = function(x, [-1, 0] if known == "axes" else axes)
    feeds = {} if known == "axes" else {axes: [-1, 0]}
    fixed = tf.constant(value)
    wanted = tf.gradients(function(fixed, [-1, 0]) ** 2, fixed)[0]
    found = tf.gradients(y**2, x)[0]
    got, expected = run([found, wanted], {x: value, **feeds})
    np.testing.assert_allclose(got, expected, rtol=1e-12)


@pytest.mark.parametrize("axis", [None, 0, [0, 1], -1])
def test_logsumexp(axis):
    value = np.array([[1000.0, 1000.0, -1000.0], [-INF, 2.0, 3.0]])
    wanted = (
        np.logaddexp.reduce(value, axis if not isinstance(axis, list) else (0, 1))
        if axis is not None
        else 1000 + np.log(2)
    )
    found = run([tf.reduce_logsumexp(value, axis), tf.reduce_logsumexp(value, axis, keepdims=True)])
    np.testing.assert_allclose(found[0], wanted, rtol=1e-12)
    assert found[1].ndim == 2


def test_logsumexp_of_infinities():
    found = run([tf.reduce_logsumexp(np.array([-INF, -INF])), tf.reduce_logsumexp(np.array([INF, 1.0]))])
    assert [float(item) for item in found] == [-INF, INF]
    check_gradients(lambda x: tf.reduce_logsumexp(x, 1), [np.array([[1.0, 2.0, -3.0], [0.5, 0.5, 2.0]])])


def test_count_nonzero():
    found = run(
        [
            tf.count_nonzero([[0, 1, -2], [0, 0, 3]]),
            tf.count_nonzero([[0.0, 1.0]], axis=1, dtype=tf.int32),
            tf.count_nonzero([[True, False]], keepdims=True),
            tf.count_nonzero(["", "a"]),
            tf.count_nonzero([0, 1], reduction_indices=[0], keep_dims=True),
        ]
    )
    assert [one.tolist() for one in found] == [3, [1], [[1]], 1, [1]]
    assert [found[0].dtype, found[1].dtype] == [np.int64, np.int32]


def test_variance_and_deviation():
    value = np.random.default_rng(0).normal(size=(3, 4))
    z = value + 1j * value[::-1]
    found = run(
        [
            tf.math.reduce_variance(value),
            tf.math.reduce_std(value, 1, True),
            tf.math.reduce_variance(z, 0),
            tf.math.reduce_euclidean_norm(value, 1),
        ]
    )
    wanted = [np.var(value), np.std(value, 1, keepdims=True), np.var(z, 0), np.sqrt(np.sum(value**2, 1))]
    for one, other in zip(found, wanted, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12)
    assert tf.Session().run(tf.math.reduce_variance([[1, 2, 6], [3, 9, 5]], 1)).tolist() == [4, 6]
    with pytest.raises(TypeError, match="parameter 'input' has DataType bool not in list of allowed values"):
        tf.math.reduce_variance([True, False])


@pytest.mark.parametrize("tier", TIERS)
def test_halves_are_summed_in_single_precision(tier):
    x = np.full(5000, 1.0, np.float16)
    assert run_op("Sum", x, np.int32(0), tier=tier) == 5000
    assert run_op("Cumsum", x, np.int32(0), tier=tier)[-1] == 5000
    assert run_op("Mean", x * np.float16(60000), np.int32(0), tier=tier) == np.float16(60000)


def test_cumulative_gradients():
    value = np.array([[1.5, -2.0, 0.5], [2.0, 1.0, -1.0]])
    check_gradients(lambda x: tf.math.cumulative_logsumexp(x, 1, exclusive=True)[:, 1:], [value], order=1)
    x = tf.constant([2.0, 0.0, 3.0], tf.float64)
    assert run(tf.gradients(tf.cumprod(x), x)[0]).tolist() == [1.0, 0.0, 0.0]


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_running_logsumexp_starts_at_the_lowest_number(tier, dtype):
    """TensorFlow 1.15.5's values: minus infinity becomes it too, and its gradient is zero."""
    low = np.finfo(dtype).min
    found = run_op("CumulativeLogsumexp", np.array([0.5, 1.0], dtype), np.int32(0), exclusive=True, tier=tier)
    assert found.tolist() == [low, 0.5]
    x = np.linspace(-2, 2, 12).reshape(4, 3).astype(dtype)
    found = run_op("CumulativeLogsumexp", x, np.int64(0), exclusive=True, reverse=True, Tidx="int64", tier=tier)
    assert (found[-1] == low).all()
    expected = np.logaddexp.accumulate(x[:0:-1].astype(np.float64))[::-1]
    np.testing.assert_allclose(found[:-1], expected, 3 * np.finfo(dtype).eps)
    found = run_op("CumulativeLogsumexp", np.array([-INF, 1.0], dtype), np.int32(0), tier=tier)
    assert found.tolist() == [low, 1.0]
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.constant([-INF, -INF, 1.0], dtype)
        assert session.run(tf.gradients(tf.math.cumulative_logsumexp(x), x)[0]).tolist() == [0.0, 0.0, 1.0]


@pytest.mark.parametrize("values", [[1, 2, 2, 7], []], ids=str)
@pytest.mark.parametrize(("least", "most"), [(5, 5), (np.int64(6), 4), (3, 0)])
def test_the_number_of_bins_is_known_if_no_fewer_are_asked_for_than_are_allowed(values, least, most):
    counts = tf.bincount(np.array(values, np.int32), minlength=least, maxlength=most)
    assert counts.shape.as_list() == [most]
    assert run(counts).tolist() == np.bincount(np.array(values, np.int64), minlength=8)[:most].tolist()


def test_bincount():
    arr = tf.constant([1, 1, 3, 0], tf.int32)
    weights = tf.constant([1.0, 2.0, 3.0, 4.0])
    empty = tf.constant([], tf.int32)
    found = run([
        tf.bincount(arr), tf.bincount(arr, weights), tf.bincount(arr, minlength=6), tf.bincount(arr, maxlength=2),
        tf.bincount(empty), tf.bincount(empty, minlength=2), tf.bincount(arr, dtype=tf.float64),
    ])  # fmt: skip
    wanted = [[1, 2, 0, 1], [4.0, 3.0, 0.0, 3.0], [1, 2, 0, 1, 0, 0], [1, 2], [], [0, 0], [1.0, 2.0, 0.0, 1.0]]
    assert [one.tolist() for one in found] == wanted
    assert [found[0].dtype, found[1].dtype, found[6].dtype] == [np.int32, np.float32, np.float64]


@pytest.mark.parametrize("tier", TIERS)
def test_counts_of_bad_data(tier):
    none = np.zeros(0, np.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Input arr must be non-negative!"):
        run_op("Bincount", np.array([0, -1], np.int32), np.int32(4), none, tier=tier)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Input indices and weights must have the same size"):
        run_op("Bincount", np.array([0, 1], np.int32), np.int32(4), np.ones(3, np.float32), tier=tier)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Histogram values must not contain NaN"):
        run_op("HistogramFixedWidth", np.float32([NAN]), np.float32([0, 1]), np.int32(4), tier=tier)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"satisfy .* < value_range\[1\], but got '\[5, 5\]'"):
        run_op("HistogramFixedWidth", np.float32([1]), np.float32([5, 5]), np.int32(4), tier=tier)


def test_histograms():
    values = [-1.0, 0.0, 1.5, 2.0, 5.0, 15]
    found = run(
        [
            tf.histogram_fixed_width(values, [0.0, 5.0], nbins=5),
            tf.histogram_fixed_width_bins(values, [0.0, 5.0], nbins=5),
            tf.histogram_fixed_width([1, 2], [0, 4], dtype=tf.int64),
        ]
    )
    assert found[0].tolist() == [2, 1, 1, 0, 2]
    assert found[1].tolist() == [0, 0, 1, 2, 4, 4]
    assert (found[2].shape, found[2].dtype, found[2].sum()) == ((100,), np.int64, 2)


def test_reductions_of_shapes_are_known_while_building():
    x = tf.zeros([2, 3, 4])
    y = tf.reshape(x, [tf.reduce_prod(tf.shape(x)[:2]), -1])
    assert y._shape == (6, 4)
    assert shapes.is_static(y._shape)


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("function", [tf.reduce_max, tf.reduce_min])
def test_extrema_of_nan_have_a_nan_gradient(function, tier):
    n, i = np.nan, np.inf
    rows = np.array([[1, n, 3, 2], [n, n, n, n], [i, -i, 0, -0.0], [-0.0, 0.0, -0.0, 0.0], [2, 2, 1, 1]], np.float32)
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        x = tf.placeholder(tf.float32, [None, 4])
        slope = session.run(tf.gradients(function(x, 1), x)[0], {x: rows})
    assert np.isnan(slope[:2]).all()
    is_max = function.__name__ == "reduce_max"  # where ragged tensors are loaded in between, a name has another object
    first, last = ([1, 0, 0, 0], [0.5, 0.5, 0, 0]) if is_max else ([0, 1, 0, 0], [0, 0, 0.5, 0.5])
    np.testing.assert_array_equal(slope[2:], [first, [0.25] * 4, last])


@pytest.mark.parametrize(("function", "reference"), [(tf.reduce_sum, np.sum), (tf.reduce_mean, np.mean)])
@pytest.mark.parametrize(("shape", "axes"), [((70, 20_000), 0), ((5, 15, 5, 4_000), [1, 0]), ((1, 17, 1_000), 0)])
@pytest.mark.parametrize("keepdims", [False, True])
def test_sums_of_long_rows(function, reference, shape, axes, keepdims):
    x = np.random.RandomState(0).normal(size=shape).astype(np.float32)
    x.flat[:2] = INF, NAN
    axis = tuple(axes) if isinstance(axes, list) else axes
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        given = tf.placeholder(tf.float32, shape)
        total, slope = session.run(
            [reduced := function(given, axes, keepdims=keepdims), tf.gradients(reduced, given)[0]], {given: x}
        )
    np.testing.assert_allclose(total, reference(x.astype(np.float64), axis, keepdims=keepdims), rtol=1e-5, atol=1e-5)
    count = 1 if reference is np.sum else np.prod([shape[i] for i in np.atleast_1d(axes)])
    np.testing.assert_allclose(slope, np.full(shape, 1 / count), rtol=1e-6)


def test_sums_of_long_rows_over_batches_of_many_sizes():
    x = tf.placeholder(tf.float32, [None, 20_000])
    fetches = [tf.reduce_sum(tf.sqrt(x + 1.0), 0), tf.reduce_mean(x, 0)]
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        for size in (3, 5, 4, 7, 2, 6, 9, 1, 8):
            value = np.random.RandomState(size).uniform(size=(size, 20_000)).astype(np.float32)
            roots, mean = session.run(fetches, {x: value})
            np.testing.assert_allclose(roots, np.sqrt(value + 1).sum(0), rtol=1e-5)
            np.testing.assert_allclose(mean, value.mean(0), rtol=1e-5)


def test_sorting_along_axes_of_values_of_unknown_rank():
    x = np.random.RandomState(0).randn(3, 4, 2)
    with tf.Graph().as_default(), tf.Session() as session:
        p = tf.placeholder(tf.float64)
        for axis in (-1, 0, 1, -2, np.int64(-3), tf.constant(1)):
            place = session.run(axis) if isinstance(axis, tf.Tensor) else axis
            assert (session.run(tf.sort(p, axis), {p: x}) == np.sort(x, place)).all()
            assert (session.run(tf.argsort(p, axis), {p: x}) == np.argsort(x, place)).all()
        with pytest.raises(ValueError, match="an int that is known"):
            tf.sort(p, tf.placeholder(tf.int32, []))


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32, np.int64])
@pytest.mark.parametrize("entries", [2, 3, 7, 8, 9, 15, 16, 17, 32, 33])
def test_short_rows_reduce_as_numpy_reduces_them(entries, dtype):
    random = np.random.RandomState(0)
    values = random.standard_normal((3, 40 * entries, entries)) * 10 ** random.uniform(-4, 4, (3, 40 * entries, 1))
    values[0, :5] = -0.0
    values = values.astype(dtype)
    if values.dtype.kind == "f":
        values[1, 0, -1], values[1, 1, 0], values[1, 2, :2] = np.nan, -np.inf, np.inf
    ways = {np.add: host_reductions.total, np.maximum: host_reductions.greatest, np.minimum: host_reductions.least}
    for ufunc, ours in ways.items():
        assert host_reductions.of(ufunc) is ours
        for array in (values, values.transpose(1, 0, 2), values[:, :2], values[..., ::-1]):
            for axis in (-1, 2, (2,), 1, (0, 2)):
                for keep in (False, True):
                    with np.errstate(all="ignore"):
                        found, wanted = (f(array, axis, dtype, None, keep) for f in (ours, ufunc.reduce))
                    assert (found.shape, found.dtype) == (wanted.shape, wanted.dtype)
                    assert found.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("shape", [(60, 40, 3), (2, 50, 60, 4), (3000, 2), (4, 1, 900, 3)])
def test_reductions_of_images_by_channel(shape):
    values = np.random.default_rng(3).normal(size=shape).astype(np.float32)
    ways = {np.add: host_reductions.total, np.maximum: host_reductions.greatest, np.minimum: host_reductions.least}
    last = len(shape) - 2
    for ufunc, ours in ways.items():
        for axes in (tuple(range(first, last + 1)) for first in range(last + 1)):
            for keep in (False, True):
                found = ours(values, axes, np.float32, None, keep)
                wanted = ufunc.reduce(values.astype(np.float64), axes, None, None, keep)
                assert (found.shape, found.dtype) == (wanted.shape, np.float32)
                np.testing.assert_allclose(found, wanted, atol=2e-4 if ufunc is np.add else 0)
