"""What becomes of exceptions that escape from kernels: `anabranch/core/contract/faults.py` says what is whose fault."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.contract import faults
from anabranch.core.contract.opdef import PURE, Int, NotDifferentiable, define
from anabranch.core.graph.build import build

RAISED: dict[str, BaseException] = {}
"""What the kernels of the test's ops raise, by op type."""


def _raises(ctx, inputs, attrs, type_name):
    problem = RAISED.get(type_name)
    if problem is not None:
        raise problem
    return ctx.xp.asarray(inputs[0]) + 1


def _op(type_name, **fields):
    define(
        type_name,
        "One more than the input, if nothing is raised.",
        signature="x: float -> y: float",
        effect=PURE,
        shape=lambda c: c.shapes[0],
        gradient=NotDifferentiable("a test"),
        **fields,
    )


for _name in ("TestTraceBug", "TestTraceBugAndMore", "TestTraceRefused", "TestBranchNotTaken"):
    _op(
        _name,
        kernel=lambda ctx, inputs, attrs, name=_name: _raises(ctx, inputs, attrs, name),
        host_kernel=lambda ctx, inputs, attrs: inputs[0] + np.float32(1),
    )
_op("TestHostBug", host_kernel=lambda ctx, inputs, attrs: _raises(ctx, inputs, attrs, "TestHostBug"))
define(
    "TestMatrixOnly",
    "The matrix. Its kernel counts on the rank that the shape rule demands.",
    signature="x: float -> y: float",
    attrs={"least": Int(0)},
    effect=PURE,
    shape=lambda c: c.with_rank(0, 2),
    gradient=NotDifferentiable("a test"),
    kernel=lambda ctx, inputs, attrs: inputs[0] * 1,
)


def _session(tier):
    return tf.Session(config=tf.SessionOptions(tier=tier))


@pytest.fixture(autouse=True)
def _nothing_raised():
    RAISED.clear()
    yield
    RAISED.clear()


def test_a_bug_in_tracing_is_told_once_and_interpreted():
    RAISED["TestTraceBug"] = KeyError("axis")
    x = tf.placeholder(tf.float32, [None])
    y = build("TestTraceBug", x, name="first")
    z = build("TestTraceBug", y)
    with _session("compiled") as session:
        with pytest.warns(tf.errors.KernelBugWarning, match="TestTraceBug 'first'.*KeyError: 'axis'") as warned:
            np.testing.assert_array_equal(session.run(z, {x: [1.0]}), [3.0])
        assert "test_kernel_bugs.py" in str(warned[0].message)
        assert "Please report" in str(warned[0].message)
        assert "KeyError" in session.explain(z, {x: [1.0]})
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            np.testing.assert_array_equal(session.run(z, {x: [1.0, 2.0]}), [3.0, 4.0])  # once for each op type


def test_a_bug_in_tracing_is_an_error_where_warnings_are():
    RAISED["TestTraceBugAndMore"] = TypeError("unexpected keyword")
    x = tf.placeholder(tf.float32)
    y = build("TestTraceBugAndMore", x)
    with _session("compiled") as session:
        with pytest.raises(tf.errors.KernelBugWarning, match="unexpected keyword"):
            session.run(y, {x: [1.0]})


@pytest.mark.parametrize(
    "problem", [NotImplementedError("int4 convolutions"), tf.errors.InvalidArgumentError(None, None, "a bad value")]
)
def test_what_xla_lacks_and_what_is_said_on_purpose_are_no_bugs(problem):
    RAISED["TestTraceRefused"] = problem
    x = tf.placeholder(tf.float32)
    y = build("TestTraceRefused", x)
    with _session("compiled") as session:
        np.testing.assert_array_equal(session.run(y, {x: [1.0, 1.0]}), [2.0, 2.0])
        assert "interpreted: " in session.explain(y, {x: [1.0, 1.0]})


def test_shapes_that_fail_in_a_branch_that_is_not_taken_are_no_bug():
    a, b, same = tf.placeholder(tf.float32), tf.placeholder(tf.float32), tf.placeholder(tf.bool)
    z = tf.cond(same, lambda: tf.matmul(a, b), lambda: tf.transpose(a))
    with _session("compiled") as session:
        feeds = {a: np.ones((2, 3)), b: np.ones((2, 3)), same: False}
        assert session.run(z, feeds).shape == (3, 2)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)MatMul.*\[2, 3\]|Matrix size-incompatible"):
            session.run(z, {**feeds, same: True})


def test_a_bug_in_a_branch_that_is_not_taken_is_told_too():
    RAISED["TestBranchNotTaken"] = IndexError("tuple index out of range")
    x, taken = tf.placeholder(tf.float32, [2]), tf.placeholder(tf.bool, [])
    z = tf.cond(taken, lambda: build("TestBranchNotTaken", x), lambda: -x)
    with _session("compiled") as session:
        with pytest.warns(tf.errors.KernelBugWarning, match="TestBranchNotTaken"):
            np.testing.assert_array_equal(session.run(z, {x: [1.0, 2.0], taken: False}), [-1.0, -2.0])


@pytest.mark.parametrize(
    "problem",
    [
        TypeError("cannot unpack non-iterable int object"),
        KeyError("T"),
        IndexError("tuple index out of range"),
        AttributeError("'NoneType' object has no attribute 'shape'"),
        OverflowError("Python int too large to convert to C long"),
        ZeroDivisionError("integer division or modulo by zero"),
        AssertionError(),
        UnboundLocalError("cannot access local variable"),
        RecursionError("maximum recursion depth exceeded"),
        EOFError("Compressed file ended"),
        RuntimeError("generator raised StopIteration"),
    ],
    ids=lambda problem: type(problem).__name__,
)
@pytest.mark.parametrize("within", ["a step", "a loop"])
def test_a_bug_of_a_host_kernel_is_an_internal_error_with_op_and_line(problem, within):
    x = tf.placeholder(tf.float32, [2])
    if within == "a step":
        y = build("TestHostBug", x, name="op_with_bug")
    else:
        y = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, build("TestHostBug", v)), [0, x])[1]
    RAISED["TestHostBug"] = problem
    with tf.Session() as session:
        with pytest.raises(tf.errors.InternalError, match=type(problem).__name__) as raised:
            session.run(y, {x: [1.0, 2.0]})
    assert raised.value.op.type == "TestHostBug"
    assert "test_kernel_bugs.py" in str(raised.value)
    assert raised.value.__cause__ is problem


def test_a_bug_of_a_host_kernel_is_left_to_the_step_when_a_graph_is_built():
    RAISED["TestHostBug"] = KeyError("T")
    shape = tf.reshape(tf.ones([4]), tf.cast(build("TestHostBug", tf.constant([3.0])), tf.int32))
    with tf.Session() as session:
        with pytest.raises(tf.errors.InternalError, match="KeyError"):
            session.run(shape)


@pytest.mark.parametrize(
    ("problem", "kind"),
    [
        (MemoryError("Unable to allocate 8 TiB"), tf.errors.ResourceExhaustedError),
        (ValueError("array is too big; `arr.size * arr.dtype.itemsize` ..."), tf.errors.ResourceExhaustedError),
        (ValueError("could not broadcast"), tf.errors.InvalidArgumentError),
        (PermissionError(13, "Permission denied"), tf.errors.PermissionDeniedError),
        (NotImplementedError("16 bit"), tf.errors.UnimplementedError),
    ],
    ids=lambda value: getattr(value, "__name__", None) or str(value)[:20],
)
def test_the_programs_fault_and_the_machines_are_no_bugs(problem, kind):
    y = build("TestHostBug", tf.placeholder_with_default(tf.ones([2]), [2]))
    RAISED["TestHostBug"] = problem
    with tf.Session() as session:
        with pytest.raises(kind, match="TestHostBug") as raised:
            session.run(y)
    assert raised.value.op.type == "TestHostBug"


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_a_kernel_counts_on_what_the_shape_rule_accepts(tier):
    x = tf.placeholder(tf.float32)
    y = build("TestMatrixOnly", x)
    with _session(tier) as session:
        for _ in range(2):
            assert session.run(y, {x: np.ones((2, 3))}).shape == (2, 3)
            with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)TestMatrixOnly.*\[3\].*rank 2") as raised:
                session.run(y, {x: np.ones(3)})
            assert "test_kernel_bugs.py" in str(raised.value)


def test_a_bug_of_a_shape_rule_is_an_internal_error():
    define(
        "TestShapeBug",
        "Nothing: its shape rule fails.",
        signature="x: float -> y: float",
        effect=PURE,
        shape=lambda c: c.shapes[0][5],
        gradient=NotDifferentiable("a test"),
        kernel=lambda ctx, inputs, attrs: inputs[0],
    )
    with pytest.raises(tf.errors.InternalError, match=r"IndexError.*shape rule of 'TestShapeBug'.*\[2\]"):
        build("TestShapeBug", tf.ones([2]))


def test_straight_code_with_a_bug_is_told_once(monkeypatch):
    def straight(operands, known, attrs):
        def run(x):
            raise KeyError("straight")

        return run

    define(
        "TestStraightBug",
        "One more.",
        signature="x: float -> y: float",
        effect=PURE,
        shape=lambda c: c.shapes[0],
        gradient=NotDifferentiable("a test"),
        kernel=lambda ctx, inputs, attrs: inputs[0] + np.float32(1),
        straight=straight,
    )
    x = tf.placeholder(tf.float32, [2])
    y = tf.while_loop(lambda i, v: i < 9, lambda i, v: (i + 1, build("TestStraightBug", v)), [0, x])[1]
    with _session("interpreted") as session:
        with pytest.warns(tf.errors.KernelBugWarning, match=r"TestStraightBug.*straight form.*KeyError") as warned:
            np.testing.assert_array_equal(session.run(y, {x: [1.0, 2.0]}), [10.0, 11.0])
    assert len(warned) == 1


def test_a_split_into_one_part_is_a_tensor_in_a_loop():
    x = tf.placeholder(tf.float32, [2, 2])
    y = tf.while_loop(lambda i, v: i < 3, lambda i, v: (i + 1, tf.matmul(tf.split(v, 1, 1)[0], v)), [0, x])[1]
    with _session("interpreted") as session:
        np.testing.assert_array_equal(session.run(y, {x: 2 * np.eye(2)}), 2.0**8 * np.eye(2))


def test_what_python_functions_raise_stays_what_it_is():
    def fails(x):
        raise ZeroDivisionError("of the user's")

    y = tf.py_func(fails, [tf.constant(1.0)], tf.float32)
    with tf.Session() as session:
        with pytest.raises(tf.errors.UnknownError, match="ZeroDivisionError: of the user's"):
            session.run(y)


def test_the_place_in_our_code_is_named():
    try:
        faults.refusal(None, None)
    except AttributeError as problem:
        bug = faults.KernelBug(None, problem)
    assert "core/contract/faults.py:" in bug.text
