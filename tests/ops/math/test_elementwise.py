"""Element-wise ops where rows of cases do not reach: edge values, failures, shapes and values known while building."""

from __future__ import annotations

import math
from collections.abc import Callable

import ml_dtypes
import numpy as np
import pytest

import anabranch as tf
from anabranch.core.contract import inference
from anabranch.core.graph.build import build
from anabranch.ops.math import xla_trigonometry
from anabranch.ops.shared import numerics
from anabranch.testing.kernels import TIERS, run_op

NAN, INF = np.nan, np.inf
both_tiers = pytest.mark.parametrize("tier", TIERS)


def evaluate(*tensors, feeds=None):
    with tf.Session(graph=tensors[0].graph) as session:
        return session.run(list(tensors), feeds)


# ------------------------------------------------------------------------------------------------------ casts of floats
LOW32, LOW64 = -(2**31), -(2**63)
# value -> what each integer type makes of it: int8, uint8, int16, uint16, int32, uint32, int64, uint64
CASTS = {
    NAN: (0, 0, 0, 0, LOW32, 0, LOW64, 2**63),
    INF: (0, 0, 0, 0, LOW32, 0, LOW64, 2**63),
    -INF: (0, 0, 0, 0, LOW32, 0, LOW64, 2**63),
    -0.0: (0, 0, 0, 0, 0, 0, 0, 0),
    -1.5: (-1, 255, -1, 65535, -1, 2**32 - 1, -1, 2**64 - 1),
    2.9: (2, 2, 2, 2, 2, 2, 2, 2),
    200.0: (-56, 200, 200, 200, 200, 200, 200, 200),
    300.0: (44, 44, 300, 300, 300, 300, 300, 300),
    -300.0: (-44, 212, -300, 65236, -300, 2**32 - 300, -300, 2**64 - 300),
    40000.0: (64, 64, -25536, 40000, 40000, 40000, 40000, 40000),
    2.0**31: (0, 0, 0, 0, LOW32, 2**31, 2**31, 2**31),
    -(2.0**31): (0, 0, 0, 0, LOW32, 2**31, LOW32, 2**64 - 2**31),
    5e9: (0, 0, 0, 0, LOW32, 5 * 10**9 - 2**32, 5 * 10**9, 5 * 10**9),
    2.0**63: (0, 0, 0, 0, LOW32, 0, LOW64, 2**63),
    1.5 * 2.0**63: (0, 0, 0, 0, LOW32, 0, LOW64, 3 * 2**62),
    2.0**64: (0, 0, 0, 0, LOW32, 0, LOW64, 2**63),
    -1e30: (0, 0, 0, 0, LOW32, 0, LOW64, 2**63),
}
INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]


@both_tiers
@pytest.mark.parametrize("source", [np.float64, np.float32, np.float16, ml_dtypes.bfloat16])
def test_floats_become_integers_as_on_x86(tier: str, source: type) -> None:
    with np.errstate(all="ignore"):
        values = np.array(list(CASTS)).astype(source)
    exact = [i for i, value in enumerate(CASTS) if np.isnan(value) or float(values[i]) == value]
    assert len(exact) >= 5
    for position, name in enumerate(INTEGERS):
        found = run_op("Cast", values, DstT=name, tier=tier)
        wanted = [list(CASTS.values())[i][position] for i in exact]
        assert found[exact].tolist() == wanted, name


@both_tiers
def test_float64_between_integers_at_the_ends_of_int32(tier: str) -> None:
    values = np.array([2**31 - 0.5, -(2**31) - 0.5, 2**31 + 0.5, -(2**31) - 1.0])
    assert run_op("Cast", values, DstT="int32", tier=tier).tolist() == [2**31 - 1, LOW32, LOW32, LOW32]


@both_tiers
def test_complex_numbers_are_cast_by_their_real_part(tier: str) -> None:
    values = np.array([1j, 1 + 1j, 0, -2.5 + 3j], np.complex64)
    assert run_op("Cast", values, DstT="bool", tier=tier).tolist() == [False, True, False, True]
    assert run_op("Cast", values, DstT="int32", tier=tier).tolist() == [0, 1, 0, -2]


def test_strings_are_not_cast() -> None:
    with pytest.raises(tf.errors.UnimplementedError, match=r"Cast string to float is not supported.*string_to_number"):
        run_op("Cast", np.array([b"1"], object), DstT="float")


@both_tiers
@pytest.mark.parametrize(
    ("source", "target"),
    [("float32", "int32"), ("float32", "uint32"), ("float64", "int64"), ("float32", "int8"), ("bfloat16", "uint8")],
)
def test_saturate_cast_stays_within(tier: str, source: str, target: str) -> None:
    kind = tf.as_dtype(source).np
    with tf.Graph().as_default():
        x = tf.placeholder(source, [4])
        y = tf.saturate_cast(x, target)
    feed = np.array([-1e20, 1e20, -3.0, 5.0]).astype(kind)
    config = tf.SessionOptions(tier={"host": "interpreted", "xla": "compiled"}[tier]) if tier else None
    with tf.Session(graph=y.graph, config=config) as session:
        found = session.run(y, {x: feed}).tolist()
    low, high = tf.as_dtype(target).min, tf.as_dtype(target).max
    assert found[0] == low
    assert high * (1 - 2**-7) <= found[1] <= high
    assert found[2:] == [max(-3, low), 5]


# ----------------------------------------------------------------------------------------- trigonometry of large arrays
ARGUMENTS = {
    "Sin": (np.sin, 100.0),
    "Cos": (np.cos, 100.0),
    "Tan": (np.tan, 100.0),
    "Atan": (np.arctan, 50.0),
    "Asin": (np.arcsin, 1.0),
    "Acos": (np.arccos, 1.0),
}
SPECIAL = np.array([NAN, INF, -INF, -0.0, 0.0, 1.0, -1.0, 0.5, -0.5, np.pi, np.pi / 2], np.float32)


@pytest.mark.parametrize("type_name", ARGUMENTS)
def test_polynomials_of_large_arrays(type_name: str) -> None:
    function, limit = ARGUMENTS[type_name]
    x = np.random.default_rng(0).uniform(-limit, limit, xla_trigonometry.SMALLEST).astype(np.float32)
    for values in (x, np.concatenate([x * 1e4 if limit == 100 else x, SPECIAL])):
        found = run_op(type_name, values, tier="xla")
        with np.errstate(invalid="ignore"):
            wanted = function(values.astype(np.float64))
        np.testing.assert_allclose(found, wanted, rtol=6e-7, atol=1e-12)
        zeros = values == 0
        assert (np.signbit(found[zeros]) == np.signbit(wanted[zeros])).all()


def test_numbers_too_large_to_reduce_take_the_exact_way() -> None:
    x = np.full(xla_trigonometry.SMALLEST, 1.0, np.float32)
    x[:3] = 1e30, 3e9, -1e38
    for type_name in ("Sin", "Cos", "Tan"):
        np.testing.assert_allclose(run_op(type_name, x, tier="xla"), run_op(type_name, x), rtol=1e-5)


def test_angles_of_many_points() -> None:
    edges = np.array([NAN, INF, -INF, -0.0, 0.0, 1.0, -1.0, 1e-30, -1e30], np.float32)
    y, x = (grid.ravel() for grid in np.meshgrid(edges, edges))
    random = np.random.default_rng(0)
    y = np.concatenate([y, random.normal(size=xla_trigonometry.SMALLEST)]).astype(np.float32)
    x = np.concatenate([x, random.normal(size=xla_trigonometry.SMALLEST)]).astype(np.float32)
    found, wanted = run_op("Atan2", y, x, tier="xla"), np.arctan2(y.astype(float), x.astype(float)).astype(np.float32)
    normal = (np.abs(wanted) > 1e-37) | (wanted == 0) | np.isnan(wanted)  # XLA takes smaller numbers for 0
    np.testing.assert_allclose(found[normal], wanted[normal], rtol=6e-7)
    assert (np.signbit(found) == np.signbit(wanted))[~np.isnan(wanted)].all()


@pytest.mark.parametrize("dtype", [np.float64, np.float32, np.float16])
@pytest.mark.parametrize(("type_name", "function"), [("Erf", math.erf), ("Erfc", math.erfc), ("Lgamma", math.lgamma)])
def test_functions_that_numpy_lacks_of_large_arrays(type_name: str, function: Callable[[float], float], dtype) -> None:
    edges = np.array([NAN, INF, -0.0, 0.5, -0.5, 3.9, -3.9, 3.96, -3.96, 6.0, 26.0, 1e-7, -1e-7])
    least = 1e-3 if type_name == "Lgamma" else -5.0
    x = np.concatenate([edges, np.random.default_rng(0).uniform(least, 5, numerics.LARGE)]).astype(dtype)
    if type_name == "Lgamma":
        x[2] = 1.0
    found = run_op(type_name, x)
    wanted = np.array([function(value) for value in x.astype(float)]).astype(dtype)
    rtol = 1e-13 if dtype == np.float64 else np.finfo(dtype).eps
    np.testing.assert_allclose(found, wanted, rtol=rtol, atol=1e-14 if dtype == np.float64 else 0)
    if type_name == "Erf":
        np.testing.assert_array_equal(np.signbit(found), np.signbit(x))
        np.testing.assert_array_equal(run_op(type_name, x[:20]), found[:20])


def test_lgamma_of_large_arrays_at_its_ends() -> None:
    ends = np.array([-INF, INF, 0.0, -0.0, -1.0, -2.0, NAN, -0.5, 1e306, 1e-310])
    large = np.tile(ends, numerics.LARGE // 10 + 1)
    np.testing.assert_allclose(run_op("Lgamma", large)[:10], run_op("Lgamma", ends), rtol=1e-13)


@both_tiers
def test_inverse_roots_at_the_edges(tier: str) -> None:
    found = run_op("Rsqrt", np.array([NAN, INF, -INF, 0.0, -0.0, -1.0, 4.0], np.float32), tier=tier)
    np.testing.assert_array_equal(found, [NAN, 0, NAN, INF, -INF, NAN, 0.5])


# ------------------------------------------------------------------------------------------------------------- failures
def integer_pairs(dtype):
    """Operands at the ends of a type, around powers of two, and any; all pairs of bytes."""
    info = np.iinfo(dtype)
    if info.bits == 8:
        x, y = np.meshgrid(np.arange(info.min, info.max + 1), np.arange(info.min, info.max + 1))
        return x[y != 0].astype(dtype), y[y != 0].astype(dtype)
    random = np.random.default_rng(3)
    powers = [sign * (1 << bit) + by for bit in range(info.bits) for by in (-1, 0, 1) for sign in (-1, 1)]
    ends = np.array([number for number in {*powers, info.min, info.max, 7} if info.min <= number <= info.max], dtype)
    x, y = (part.ravel() for part in np.meshgrid(ends, ends))
    some = random.integers(info.min, info.max, (2, 4096), dtype, endpoint=True)
    x, y = np.concatenate([x, some[0]]), np.concatenate([y, some[1]])
    return x[y != 0], y[y != 0]


@pytest.mark.parametrize("dtype", ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"])
def test_integers_of_all_sizes_are_divided_exactly_in_programs(dtype):
    x, y = integer_pairs(np.dtype(dtype))
    exact = [x.astype(object), y.astype(object)]
    floor = exact[0] // exact[1]
    cut = np.array([abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1) for a, b in zip(*exact, strict=True)], object)

    def wrapped(numbers):
        return np.array([number % (1 << 64) for number in numbers], np.uint64).astype(dtype)

    wanted = {
        "FloorDiv": wrapped(floor),
        "TruncateDiv": wrapped(cut),
        "FloorMod": wrapped(exact[0] - floor * exact[1]),
        "TruncateMod": wrapped(exact[0] - cut * exact[1]),
    }
    for type_name, numbers in wanted.items():
        np.testing.assert_array_equal(run_op(type_name, x, y, tier="xla"), numbers, err_msg=type_name)


@both_tiers
@pytest.mark.parametrize("type_name", ["Div", "FloorDiv", "FloorMod", "Mod", "TruncateDiv", "TruncateMod", "RealDiv"])
def test_integer_division_by_zero_fails(tier: str, type_name: str) -> None:
    x = np.array([[6], [7]], np.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Integer division by zero"):
        run_op(type_name, x, np.array([1, 0], np.int32), tier=tier)
    assert run_op(type_name, x[:0], np.array([0], np.int32), tier=tier).shape == (0, 1)


@both_tiers
def test_reciprocal_of_integers(tier: str) -> None:
    assert run_op("Reciprocal", np.array([1, -1, 2, LOW32], np.int32), tier=tier).tolist() == [1, -1, 0, 0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="Integer division by zero"):
        run_op("Inv", np.array([0], np.int32), tier=tier)


@both_tiers
def test_smallest_integer_divided_by_minus_one_wraps(tier: str) -> None:
    x, y = np.array([LOW32], np.int32), np.array([-1], np.int32)
    for type_name, wanted in (("Div", LOW32), ("FloorDiv", LOW32), ("TruncateDiv", LOW32), ("FloorMod", 0), ("Mod", 0)):
        assert run_op(type_name, x, y, tier=tier).tolist() == [wanted], type_name
    assert run_op("Abs", x, tier=tier).tolist() == [LOW32]
    assert run_op("Neg", x, tier=tier).tolist() == [LOW32]


@both_tiers
def test_integers_have_no_negative_powers(tier: str) -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match="Integers to negative integer powers are not allowed"):
        run_op("Pow", np.array([2, 1], np.int32), np.array([1, -1], np.int32), tier=tier)
    assert run_op("Pow", np.zeros(0, np.int32), np.array(-1, np.int32), tier=tier).shape == (0,)


@both_tiers
def test_shifts_stop_at_the_width(tier: str) -> None:
    amounts = np.array([7, 8, -1, 100, 3], np.int8)
    assert run_op("LeftShift", np.array([1, 1, 1, 1, -1], np.int8), amounts, tier=tier).tolist() == [
        -128,
        -128,
        1,
        -128,
        -8,
    ]
    found = run_op("RightShift", np.array([100, 100, -100, -100, -1], np.int8), amounts, tier=tier)
    assert found.tolist() == [0, 0, -100, -1, -1]


@both_tiers
def test_powers_at_the_edges(tier: str) -> None:
    assert run_op("Pow", np.zeros(1, np.complex64), np.zeros(1, np.complex64), tier=tier).tolist() == [1]


@pytest.mark.parametrize(
    ("type_name", "types"),
    [("Add", "float"), ("Mul", "int32"), ("Less", "float"), ("Equal", "bool"), ("LeftShift", "int8"), ("Pow", "float")],
)
def test_shapes_that_do_not_broadcast_are_refused(type_name: str, types: str) -> None:
    with tf.Graph().as_default():
        x, y = tf.placeholder(types, [2, 3]), tf.placeholder(types, [2])
        with pytest.raises(ValueError, match=r"Given: the shapes \[2,3\] and \[2\](.|\n)*shapes that broadcast"):
            build(type_name, x, y)
    kind = tf.as_dtype(types).np
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Incompatible shapes: \[2,3\] vs. \[2\]"):
        run_op(type_name, np.ones((2, 3), kind), np.ones(2, kind))


def test_choices_of_other_shapes_are_refused() -> None:
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"size of 'cond', but saw: 2 vs. 3"):
        run_op("Select", np.ones(3, bool), np.ones((2, 2)), np.ones((2, 2)))
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"must be equal, but are 3 and 2"):
        tf.where(tf.placeholder(tf.bool, [3]), tf.zeros([2, 2]), tf.zeros([2, 2]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"same size and shape. Input 0: \[2\] != input: \[3\]"):
        run_op("AddN", np.ones(2), np.ones(3), N=2)


def test_bitcast_needs_whole_elements() -> None:
    with tf.Graph().as_default():
        assert tf.bitcast(tf.placeholder(tf.int32, [None, 2]), tf.uint8).shape.as_list() == [None, 2, 4]
        assert tf.bitcast(tf.placeholder(tf.uint8, [3, None]), tf.int32).shape.as_list() == [3]
        with pytest.raises(ValueError, match=r"a bitcast of uint8 with shape \[3\] to int32(.|\n)*last dimension of 4"):
            tf.bitcast(tf.placeholder(tf.uint8, [3]), tf.int32)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Cannot bitcast from uint8 to int32"):
        run_op("Bitcast", np.ones(3, np.uint8), type="int32")


def test_equality_of_shapes_that_do_not_broadcast_may_be_false() -> None:
    with tf.Graph().as_default():
        known = build("Equal", tf.zeros([3]), tf.zeros([2]), incompatible_shape_error=False)
        unknown = build("NotEqual", tf.placeholder(tf.int32), tf.zeros([2], tf.int32), incompatible_shape_error=False)
    assert known.shape.as_list() == []
    assert unknown.shape.ndims is None


# ------------------------------------------------------------------------------------------ values known while building
@pytest.mark.parametrize(
    ("function", "wanted"),
    [
        (lambda s: s * 2 + 1, (None, 9)),
        (lambda s: s - [1, 1], (None, 3)),
        (lambda s: 8 // s, (None, 2)),
        (lambda s: s % 3, (None, 1)),
        (lambda s: tf.div(s, 3), (None, 1)),
        (lambda s: tf.maximum(s, 5), (None, 5)),
        (lambda s: tf.minimum(s, [1, 9]), (None, 4)),
        (lambda s: tf.cast(s, tf.int64), (None, 4)),
        (lambda s: s * 2**30, (None, None)),
        (lambda s: s // 0, (None, None)),
    ],
)
def test_arithmetic_of_partly_known_shapes(function, wanted) -> None:
    with tf.Graph().as_default():
        shape = tf.shape(tf.placeholder(tf.float32, [None, 4]))
        assert inference.partial_value(function(shape)) == wanted


def test_known_operands_are_computed_while_building() -> None:
    with tf.Graph().as_default():
        x = tf.constant([1.5, -2.5]) * 2 + tf.ones_like([0.0, 0.0])
        assert inference.partial_value(tf.cast(tf.abs(x), tf.int32)).tolist() == [4, 4]
        assert inference.partial_value(build("ZerosLike", tf.placeholder(tf.int32, [2]))).tolist() == [0, 0]
        assert inference.partial_value(build("FloorDiv", 1, tf.constant(0))) is None  # the step that runs it fails


# ------------------------------------------------------------------------------------------ gradients at special points
X, Y = [1.0, 2.0, 0.0, -1.0], [1.0, 1.0, 2.0, 2.0]
AT_POINTS = {
    "Maximum": ([1, 1, 0, 0], [0, 0, 1, 1]),  # ties go to the first
    "Minimum": ([1, 0, 1, 1], [0, 1, 0, 0]),
    "Pow": ([1, 1, 0, -2], [0, 4 * np.log(2) / 2, 0, 0]),
    "FloorMod": ([1, 1, 1, 1], [-1, -2, 0, 1]),
    "DivNoNan": ([1, 1, 0.5, 0.5], [-1, -2, 0, 0.25]),
    "Xlogy": ([0, 0, 0, np.log(2)], [1, 2, 0, -0.5]),
    "Xdivy": ([1, 1, 0, 0.5], [-1, -2, 0, 0.25]),
    "MulNoNan": ([1, 1, 2, 2], [1, 2, 0, -1]),
    "TruncateDiv": (None, None),
    "FloorDiv": (None, None),
}


@pytest.mark.parametrize("type_name", AT_POINTS)
def test_gradients_at_special_points(type_name: str) -> None:
    with tf.Graph().as_default():
        x, y = tf.constant(X), tf.constant(Y)
        found = tf.gradients(build(type_name, x, y), [x, y])
    for gradient, wanted in zip(found, AT_POINTS[type_name], strict=True):
        if wanted is None:
            assert gradient is None
        else:
            np.testing.assert_allclose(evaluate(gradient)[0], wanted, rtol=1e-6)


@pytest.mark.parametrize("function", [tf.floor, tf.ceil, tf.round, tf.rint, tf.ones_like, tf.is_nan])
def test_steps_have_no_gradient(function) -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2])
        assert tf.gradients(tf.cast(function(x), tf.float32), [x]) == [None]


def test_clipped_elements_have_no_gradient() -> None:
    with tf.Graph().as_default():
        x = tf.constant(X)
        plain = tf.gradients(tf.clip_by_value(x, 0.0, 1.0), x)[0]
        of_op = tf.gradients(build("ClipByValue", x, 0.0, 1.0), x)[0]
    assert [found.tolist() for found in evaluate(plain, of_op)] == [[1, 0, 1, 0]] * 2


def test_integers_beside_floats_cast_no_gradient() -> None:
    with tf.Graph().as_default():
        x = tf.placeholder(tf.float32, [2])
        assert tf.gradients(tf.cast(tf.cast(x, tf.int32), tf.float32), [x]) == [None]


# --------------------------------------------------------------------------------------------- broadcasts in reverse
@pytest.mark.parametrize(
    ("left", "right", "sums", "found_at_run_time"),
    [
        ([2, 3], [2, 3], 0, False),
        ([None, 3], [3], 1, False),
        ([None, 3], [1, 3], 1, False),
        ([4, 1, 3], [2, 1], 2, False),
        ([2, 3], [], 1, False),
        (None, [], 1, True),
        ([None, 3], [2, 3], 1, True),
        ([None], [None], 2, True),
        (None, None, 2, True),
    ],
)
def test_gradients_of_broadcasts_sum_only_where_needed(left, right, sums: int, found_at_run_time: bool) -> None:
    with tf.Graph().as_default() as graph:
        x, y = tf.placeholder(tf.float64, left), tf.placeholder(tf.float64, right)
        gradients = tf.gradients(x * y, [x, y])
        types = [op.type for op in graph.get_operations()]
    assert types.count("Sum") == sums
    assert ("BroadcastGradientArgs" in types) == found_at_run_time
    full = [4 if size is None else size for size in left] if left is not None else [5, 4]
    other = [4 if size is None else size for size in right] if right is not None else [1, 4]
    if (left, right) == ([None, 3], [2, 3]):
        full = [1, 3]
    values = {x: np.random.default_rng(0).random(full), y: np.random.default_rng(1).random(other)}
    by_x, by_y = evaluate(*gradients, feeds=values)
    assert by_x.shape == tuple(full)
    assert by_y.shape == tuple(other)
    np.testing.assert_allclose(by_x.sum(), np.broadcast_to(values[y], np.broadcast_shapes(full, other)).sum())
    np.testing.assert_allclose(by_y.sum(), np.broadcast_to(values[x], np.broadcast_shapes(full, other)).sum())


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_powers_of_negative_numbers(dtype, tier):
    values = [0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 3.0, -3.0, 0.5, -2.5, math.inf, -math.inf, math.nan, 7.0, -4.0, 3e7]

    def power(x, y):
        try:
            return math.pow(x, y)
        except OverflowError:
            return math.copysign(math.inf, x) if y % 2 == 1 else math.inf
        except ValueError:
            return math.nan if x else math.copysign(math.inf, x) if y % 2 == 1 else math.inf

    x, y = np.meshgrid(np.array(values, dtype), np.array(values, dtype))
    wanted = np.array([power(*pair) for pair in zip(x.ravel().tolist(), y.ravel().tolist(), strict=True)])
    fed = tf.placeholder(dtype, [None, None]), tf.placeholder(dtype, [None, None])
    by_one = tf.placeholder(dtype, [])
    with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        found = session.run(tf.pow(*fed), dict(zip(fed, (x, y), strict=True)))
        rows = [session.run(tf.pow(fed[0], by_one), {fed[0]: x[:1], by_one: value})[0] for value in values]
    with np.errstate(over="ignore"):
        wanted = wanted.astype(dtype).reshape(x.shape)
    for got in (found, np.array(rows)):
        np.testing.assert_allclose(got, wanted, 2e-6)
        signs = ~np.isnan(wanted)
        np.testing.assert_array_equal(np.signbit(got)[signs], np.signbit(wanted)[signs])


def test_powers_of_one_number_are_rounded_once() -> None:
    base, power = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32, [])
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        found = [session.run(tf.pow(base, power), {base: 0.9, power: step}) for step in (1, 2, 3, 5)]
    np.testing.assert_array_equal(found, [np.float32(float(np.float32(0.9)) ** step) for step in (1, 2, 3, 5)])
