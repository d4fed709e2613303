"""Assertions, numeric checks, the assert_* family: texts and names as TensorFlow's, both tiers."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import anabranch as tf
from anabranch.core import errors
from anabranch.core.values import dtypes
from anabranch.core.values.summarize import summarize, summarize_ends
from anabranch.testing.kernels import TIERS, run_op


@pytest.fixture
def session():
    with tf.Graph().as_default(), tf.Session() as session:
        yield session


def default(value, dtype=None):
    """A tensor whose value and shape are not known while the graph is built."""
    return tf.placeholder_with_default(np.asarray(value, dtype), None)


# ------------------------------------------------------------------------------------------------------------- texts
@pytest.mark.parametrize(
    ("value", "limit", "text"),
    [
        (np.arange(5), 3, "0 1 2..."),
        (np.arange(12.0).reshape(3, 4), 5, "[0 1 2 3][4...]..."),
        (np.arange(24).reshape(2, 3, 4), 6, "[[0 1 2 3][4 5...]]..."),
        (np.arange(8).reshape(2, 2, 2), -1, "[[0 1][2 3]][[4 5][6 7]]"),
        (np.zeros((0, 3)), 3, ""),
        (np.float64(2.5), 3, "2.5"),
        (np.array([True, False]), 3, "1 0"),
        (np.float32([0.1, 1 / 3, 1e10, 1e-5]), -1, "0.1 0.333333343 1e+10 1e-05"),
        (np.float32([np.nan, np.inf, -0.0, 123456789.0]), -1, "nan inf -0 123456792"),
        (np.array([0.1, 1 / 3, 1e20, 123456789.123]), -1, "0.1 0.33333333333333331 1e+20 123456789.123"),
        (np.float16([0.1, 65504]), 6, "0.0999755859 65504"),
        (np.array([1 + 2j, -1.5 - 0.5j]), 3, "1+2j -1.5-0.5j"),
        (np.array([b"a", 'q"\n\u00e9\x01'.encode()], object), 3, 'a q\\"\\n\u00e9\\001'),
        (b"one", 3, "one"),
    ],
)
def test_summaries_are_tensorflows(value, limit, text):
    assert summarize(value, limit) == text


def test_summaries_of_ends():
    wide = "[[[0 1 2 3]\n  [4 5 6 7]\n  [8 9 10 11]]\n\n [[12 13 14 15]\n  [16 17 18 19]\n  [20 21 22 23]]]"
    assert summarize_ends(np.arange(24).reshape(2, 3, 4), 2) == wide
    long = "[[0 1 ... 8 9]\n [10 11 ... 18 19]\n ...\n [60 61 ... 68 69]\n [70 71 ... 78 79]]"
    assert summarize_ends(np.arange(80.0).reshape(8, 10), 2) == long
    assert summarize_ends(np.array([b"x", b'"'], object), 3) == '["x" "\\""]'
    assert summarize_ends(np.arange(9), -1) == "[0 1 2 3 4 5 6 7 8]"
    assert summarize_ends(np.zeros((0, 3)), 3) == "[]"


# ------------------------------------------------------------------------------------------------------------- kernels
THIRDS = np.arange(12, dtype=np.float32).reshape(3, 4) / 3


@pytest.mark.parametrize("tier", TIERS)
def test_assert_shows_numbers(tier):
    data = [THIRDS, np.array(1 + 2j), np.array(True), np.array([2**63], np.uint64)]
    types = {"T": ["float", "complex128", "bool", "uint64"], "summarize": 5, "tier": tier}
    assert run_op("Assert", np.array(True), *data, **types) == []
    shown = r"\[\[0 0\.333333343 0\.666666687 1\]\[1\.33333337\.\.\.\]\.\.\.\]"
    with pytest.raises(errors.InvalidArgumentError, match=rf"^assertion failed: {shown} \[1\+2j\] \[1\] \[{2**63}\]"):
        run_op("Assert", np.array(False), *data, **types)


def test_assert_shows_strings():
    data = [np.array(b"text", object), np.array([b"a", b"b"], object)]
    with pytest.raises(errors.InvalidArgumentError, match=r"^assertion failed: \[text\] \[a\.\.\.\]"):
        run_op("Assert", np.array(False), *data, T=["string", "string"], summarize=1)


@pytest.mark.parametrize("tier", TIERS)
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, ml_dtypes.bfloat16, np.float64], ids=lambda t: np.dtype(t).name
)
def test_check_numerics(dtype, tier):
    good = np.array([[1, -2]], dtype)
    for op_type in ("CheckNumerics", "CheckNumericsV2"):
        np.testing.assert_array_equal(run_op(op_type, good, message="m", tier=tier), good)
    for values, old, new in (
        ([1, np.nan], "NaN", "NaN"),
        ([np.inf], "Inf", r"\+Inf"),
        ([1, -np.inf], "Inf", "-Inf"),
        ([np.nan, np.inf], "Inf and NaN", r"\+Inf and NaN"),
        ([np.inf, -np.inf, np.nan], "Inf and NaN", r"-Inf, \+Inf, and NaN"),
    ):
        for op_type, what in (("CheckNumerics", old), ("CheckNumericsV2", new)):
            with pytest.raises(errors.InvalidArgumentError, match=rf"^my \{{0}} msg : Tensor had {what} values"):
                run_op(op_type, np.array(values, dtype), message="my {0} msg", tier=tier)


# ------------------------------------------------------------------------------------------------------- in a session
def test_assert_in_a_program(session):
    x = tf.placeholder(tf.float32, [None])
    check = tf.Assert(tf.reduce_all(x > 0), ["x is not positive:", x, tf.constant("const")], summarize=2)
    assert (check.type, check.name) == ("Assert", "Assert/Assert")
    with tf.control_dependencies([check]):
        y = tf.log(x)
    assert session.run(y, {x: [1.0, 1.0]}).tolist() == [0, 0]
    text = r"assertion failed: \[x is not positive:\] \[1 -2\.5\.\.\.\] \[const\]"
    for _ in range(2):
        with pytest.raises(tf.errors.InvalidArgumentError, match=text) as caught:
            session.run(y, {x: [1.0, -2.5, 3.0]})
        assert caught.value.op is check
    with pytest.raises(TypeError, match=r"tf.Assert\(condition, \[data\]\)"):
        tf.Assert(True, "text")
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"In\[0\] should be a scalar: \[1\]"):
        session.run(tf.Assert([True], ["x"]))


@pytest.mark.parametrize(
    ("make", "when"),
    [
        (lambda x: tf.assert_positive(x), "built"),
        (lambda x: tf.assert_positive(tf.cast(x, tf.float32)), "built"),
        (lambda x: tf.assert_equal(tf.shape(x + 1), [4]), "built"),
        (lambda x: tf.assert_less(tf.size(x), 3), "built"),
        (lambda x: tf.assert_equal(tf.stack([1, 2]), tf.range(2)), "built"),
        (lambda x: tf.assert_positive(-x), "run"),
        (lambda x: tf.assert_positive(tf.reduce_min(x)), "run"),
        (lambda x: tf.assert_equal(x, tf.identity(x) + 1), "run"),
        (lambda x: tf.assert_equal(tf.shape(x)[0], 4), "run"),
        (lambda x: tf.assert_equal(tf.logical_and(True, False), True), "run"),
    ],
)
def test_an_assertion_fails_when_built_only_for_what_tensorflow_knows(session, make, when):
    x = tf.constant([4, 3, 0])
    if when == "built":
        with pytest.raises(tf.errors.InvalidArgumentError, match="did not hold"):
            make(x)
    else:
        branch = tf.cond(tf.placeholder_with_default(False, []), lambda: tf.group(make(x)), tf.no_op)
        session.run(branch)
        check = make(x)
        with pytest.raises(tf.errors.InvalidArgumentError, match="did not hold"):
            session.run(check)


def test_a_failed_assertion_holds_writes_back(session):
    v, x = tf.Variable([1.0, 2.0]), tf.placeholder(tf.float32, [])
    session.run(tf.global_variables_initializer())
    with tf.control_dependencies([tf.assert_positive(x)]):
        pass
    step = tf.group(v.assign_add([x, x]), tf.assert_positive(x, message="sign"))
    session.run(step, {x: 1.0})
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"\[sign\] \[Condition x > 0 did not hold element-wise:\]"
    ):
        session.run(step, {x: -1.0})
    assert session.run(v).tolist() == [2, 3]


def test_check_numerics_gradient(session):
    x = tf.placeholder(tf.float32, [])
    (gradient,) = tf.gradients(tf.sqrt(tf.check_numerics(x, "input")), x)
    assert session.run(gradient, {x: 4.0}) == 0.25
    text = r"Not a number \(NaN\) or infinity \(Inf\) values detected in gradient\. input : Tensor had Inf values"
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        session.run(gradient, {x: 0.0})


def test_verify_and_check_all(session):
    x = tf.placeholder(tf.float32, [2], name="x")
    finite = tf.verify_tensor_all_finite(x, "bad x")
    assert finite.name == "VerifyFinite/control_dependency:0"
    assert session.run(finite, {x: [1, 2]}).tolist() == [1, 2]
    with pytest.raises(tf.errors.InvalidArgumentError, match="bad x : Tensor had NaN values"):
        session.run(finite, {x: [1, np.nan]})
    with pytest.raises(ValueError, match="one tensor and one message"):
        tf.verify_tensor_all_finite(x)
    y = tf.log(x, name="y")
    check = tf.add_check_numerics_ops()
    session.run([y, check], {x: [1, 2]})
    with pytest.raises(tf.errors.InvalidArgumentError, match="y:0 : Tensor had Inf values"):
        session.run([y, check], {x: [1, 0]})


# -------------------------------------------------------------------------------------------------- the assert family
PAIRS = [
    ("assert_equal", "==", [1, 2], [1, 2], [1, 3]),
    ("assert_none_equal", "!=", [1, 2], [3, 3], [1, 3]),
    ("assert_less", "<", [1, 2], [2, 3], [1, 3]),
    ("assert_less_equal", "<=", [1, 2], [1, 3], [0, 3]),
    ("assert_greater", ">", [1, 2], [0, 1], [1, 1]),
    ("assert_greater_equal", ">=", [1, 2], [1, 1], [1, 3]),
]


@pytest.mark.parametrize(("name", "symbol", "x", "good", "bad"), PAIRS, ids=[row[0] for row in PAIRS])
def test_comparisons(session, name, symbol, x, good, bad):
    check = getattr(tf, name)
    assert getattr(tf.debugging, name) is check
    assert check(x, good).type == "Assert"
    static = (
        rf"^wrong\nCondition x {symbol} y did not hold element-wise:\nx \({name}.*/x:0\) = \n\[1 2\]\ny \(.*\) = \n\["
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=static):
        check(x, bad, message="wrong")
    y = tf.placeholder(tf.int32)
    op = check(x, y, name="mine")
    assert op.name == "mine/Assert/Assert"
    session.run(op, {y: good})
    text = (
        rf"assertion failed: \[Condition x {symbol} y did not hold element-wise:\] \[x \(mine/x:0\) = \] \[1 2\] \[y \("
    )
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        session.run(op, {y: bad})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"assertion failed: \[first\] \[data\]"):
        session.run(check(x, y, data=["data"], message="first"), {y: bad})


SIGNS = [
    ("assert_positive", ">", 1, 0),
    ("assert_negative", "<", -1, 0),
    ("assert_non_negative", ">=", 0, -1),
    ("assert_non_positive", "<=", 0, 1),
]


@pytest.mark.parametrize(("name", "symbol", "good", "bad"), SIGNS, ids=[row[0] for row in SIGNS])
def test_signs(session, name, symbol, good, bad):
    check, x = getattr(tf, name), tf.placeholder(tf.float32, [2])
    op = check(x, message="why")
    session.run(op, {x: [good, good]})
    with pytest.raises(tf.errors.InvalidArgumentError, match=rf"\[why\] \[Condition x {symbol} 0 did not hold"):
        session.run(op, {x: [good, bad]})
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"Condition x {symbol} 0 did not hold element-wise:"):
        check([good, bad])


def test_near(session):
    x = default([1.0, 2.0], np.float32)
    session.run(tf.assert_near(x, [1.0, 2.0 + 1e-7]))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"x and y not equal to tolerance rtol = .* = . .1 2. .y "):
        session.run(tf.assert_near(x, [1.0, 2.1]))
    session.run(tf.assert_near(x, [1.0, 2.1], atol=0.2))
    session.run(tf.assert_near(default([1j], np.complex128), [1j + 1e-17]))
    with pytest.raises(TypeError, match=r"tf\.assert_equal for integers"):
        tf.assert_near([1], [1])


def test_ranks(session):
    matrix, unknown = np.zeros((2, 2)), tf.placeholder(tf.float32, name="unknown")
    for op in (tf.assert_rank(matrix, 2), tf.assert_rank_at_least(matrix, 1), tf.assert_rank_in(matrix, (0, 2))):
        assert op.type == "NoOp"
    for build, text in (
        (
            lambda: tf.assert_rank(matrix, 1, message="no"),
            r"^no\.  Tensor .* must have rank 1\.  Received rank 2, shape",
        ),
        (lambda: tf.assert_rank_at_least(matrix, 3), r"must have rank at least 3\.  Received rank 2, shape \(2, 2\)"),
        (lambda: tf.assert_rank_in(matrix, (0, 1)), r"must have rank in \(0, 1\)\.  Received rank 2, shape \(2, 2\)"),
        (lambda: tf.assert_rank(matrix, [1]), "Rank must be a scalar"),
        (lambda: tf.assert_scalar(matrix), r"Expected scalar shape for .*, saw shape: \(2, 2\)\."),
    ):
        with pytest.raises(ValueError, match=text):
            build()
    for op, text in (
        (tf.assert_rank(unknown, 1), r"\[Tensor unknown:0 must have rank\] \[1\] \[Received shape: \] \[2 2\]"),
        (tf.assert_rank_at_least(unknown, 3), r"must have rank at least\] \[3\] \[Received shape: \] \[2 2\]"),
        (tf.assert_rank_in(unknown, (0, 1)), r"must have rank in\] \[0\] \[1\] \[Received shape: \] \[2 2\]"),
    ):
        with pytest.raises(tf.errors.InvalidArgumentError, match=text):
            session.run(op, {unknown: matrix})
    session.run(tf.assert_rank(unknown, 2), {unknown: matrix})
    rank = tf.placeholder(tf.int32)
    session.run(tf.assert_rank(unknown, rank), {unknown: matrix, rank: 2})
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"Rank must be a scalar\. Received rank: \] \[2\]"):
        session.run(tf.assert_rank(unknown, rank), {unknown: matrix, rank: [2]})
    assert tf.assert_scalar(unknown).shape.as_list() == []


def test_types(session):
    one, double = tf.constant(1.0), tf.constant(1.0, tf.float64)
    assert tf.assert_type(one, tf.float32).type == tf.assert_integer(tf.constant(1)).type == "NoOp"
    for build, text in (
        (
            lambda: tf.assert_type(one, tf.int32, message="m"),
            r"m\.  Const:0 must be of type <dtype: 'int32'>; got <dtype: 'float32'>",
        ),
        (lambda: tf.assert_integer(one), 'Expected "x" to be integer type'),
        (lambda: tf.assert_proper_iterable(one), 'to be a "proper" iterable'),
        (lambda: tf.assert_proper_iterable("text"), 'to be a "proper" iterable'),
        (lambda: tf.assert_proper_iterable(3), "to be iterable"),
        (lambda: tf.is_non_decreasing(["a"]), "Expected x to be numeric"),
    ):
        with pytest.raises(TypeError, match=text):
            build()
    tf.assert_proper_iterable([one])
    assert tf.assert_same_float_dtype() is dtypes.float32
    assert tf.assert_same_float_dtype([double, None], tf.float64) is dtypes.float64
    for given, text in (
        (([one, double],), r"Const_1:0, type=.*, must be of the same type \(.*\) as Const:0\."),
        (([tf.constant(1)],), "Expected floating point type, got"),
        (([one], tf.float64), r"Const:0, type=.*, must be of the same type \(.*\)\.$"),
    ):
        with pytest.raises(ValueError, match=text):
            tf.assert_same_float_dtype(*given)
    assert [tf.is_numeric_tensor(item) for item in (one, tf.constant("a"), tf.constant(True), 3)] == [
        True,
        False,
        False,
        False,
    ]


def test_order(session):
    for values, weak, strict in (
        ([1, 1, 2], True, False),
        ([[3, 1]], False, False),
        ([], True, True),
        ([3.0], True, True),
    ):
        found = session.run([tf.is_non_decreasing(values), tf.is_strictly_increasing(values)])
        assert found == [weak, strict]
