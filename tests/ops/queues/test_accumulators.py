"""Conditional accumulators: what is taken is TensorFlow's, and who takes waits.

`tests/golden/accumulators.json` was made by TensorFlow 1.15.5 (`tools/golden/input/accumulators.py`).
"""

from __future__ import annotations

import collections
import json
import logging
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from golden.input import accumulator_cases

import anabranch as tf
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.build import build
from anabranch.ops.queues import accumulator_objects

from .waiting import Waiting

GOLDEN = json.loads((Path(__file__).parents[2] / "golden/accumulators.json").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("number", range(len(accumulator_cases.DENSE)))
def test_dense_gradients_as_in_tensorflow(number: int) -> None:
    assert accumulator_cases.run(tf, False, accumulator_cases.DENSE[number]) == GOLDEN["dense"][number]


@pytest.mark.parametrize("number", range(len(accumulator_cases.SPARSE)))
def test_sparse_gradients_as_in_tensorflow(number: int) -> None:
    assert accumulator_cases.run(tf, True, accumulator_cases.SPARSE[number]) == GOLDEN["sparse"][number]


def test_who_takes_waits_in_line_and_is_cancelled() -> None:
    accumulator = tf.ConditionalAccumulator(tf.float32, shape=[])
    value = tf.placeholder(tf.float32, [])
    apply = accumulator.apply_grad(value, local_step=9)
    three, one = accumulator.take_grad(3), accumulator.take_grad(1)
    session = tf.Session()
    first = Waiting(session, three)
    second = Waiting(session, one)
    session.run(apply, {value: 1.0})
    session.run(apply, {value: 2.0})
    assert first.waits
    assert second.waits, "who comes later waits behind who needs more"
    session.run(apply, {value: 6.0})
    assert first.ended() == 3.0
    session.run(apply, {value: 7.0})
    assert second.ended() == 7.0
    with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
        session.run(one, options=tf.RunOptions(timeout_in_ms=20))
    last = Waiting(session, one)
    session.close()
    with pytest.raises(tf.errors.CancelledError, match=r"[Cc]ancelled|closed"):
        last.ended()


def test_a_worker_that_is_late_does_not_count() -> None:
    weight = tf.Variable(10.0)
    step = tf.train.get_or_create_global_step()
    accumulator = tf.ConditionalAccumulator(tf.float32, shape=[])
    local = tf.placeholder(tf.int64, [])
    apply = accumulator.apply_grad(tf.constant(2.0), local_step=local)
    with tf.control_dependencies([weight.assign_sub(accumulator.take_grad(2))]):
        update = step.assign_add(1)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(2):
            session.run(apply, {local: 0})
        session.run(update)
        for late in (0, 1, 0, 1):
            session.run(apply, {local: late})
        assert session.run(accumulator.num_accumulated()) == 2
        session.run(update)
        assert session.run([weight, step]) == [6.0, 2]


def test_indexed_slices() -> None:
    table = tf.Variable(np.zeros([4, 2], np.float32))
    rows = tf.placeholder(tf.int64, [None])
    (gradient,) = tf.gradients(tf.reduce_sum(tf.gather(table, rows)), [table])
    accumulator = tf.SparseConditionalAccumulator(tf.float32, shape=[4, 2])
    apply = accumulator.apply_indexed_slices_grad(gradient, local_step=0)
    taken = accumulator.take_indexed_slices_grad(2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(apply, {rows: [0, 3]})
        session.run(apply, {rows: [3]})
        mean = session.run(taken)
    assert (mean.indices.tolist(), mean.values.tolist()) == ([0, 3], [[1.0, 1.0], [1.0, 1.0]])
    assert mean.dense_shape.tolist() == [4, 2]


def test_the_form_with_a_resource() -> None:
    handle = build("ResourceConditionalAccumulator", dtype="float", shape=(2,))
    apply = build("ResourceAccumulatorApplyGradient", handle, np.int64(5), tf.constant([1.0, 3.0]))
    with tf.Session() as session:
        session.run(apply)
        session.run(build("ResourceAccumulatorSetGlobalStep", handle, np.int64(4)))
        session.run(apply)
        assert session.run(build("ResourceAccumulatorNumAccumulated", handle)) == 2
        assert session.run(build("ResourceAccumulatorTakeGradient", handle, 2, dtype="float")).tolist() == [1.0, 3.0]


def test_going_back_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    accumulator = tf.ConditionalAccumulator(tf.float32, shape=[], name="a")
    with tf.Session() as session, caplog.at_level(logging.WARNING, logger="anabranch"):
        session.run(accumulator.set_global_step(5))
        session.run(accumulator.set_global_step(3))
    assert caplog.messages == ["Accumulator 'a' goes back from global step 5 to 3"]


def test_what_does_not_fit_is_refused() -> None:
    accumulator = tf.ConditionalAccumulator(tf.float32, shape=[2])
    with pytest.raises(ValueError, match=r"the shapes \[3\] and \[2\]"):
        accumulator.apply_grad([1.0, 2.0, 3.0])
    loose = tf.placeholder(tf.float32)
    other = tf.ConditionalAccumulator(tf.float64, shape=[2], shared_name="one")
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"Shape mismatch: expected \[2\], got \[3\]"):
            session.run(accumulator.apply_grad(loose), {loose: [1, 2, 3]})
        session.run(other.num_accumulated())
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"of dtype float64, shape .* was requested"):
            session.run(tf.ConditionalAccumulator(tf.float32, shape=[2], shared_name="one").num_accumulated())
        with pytest.raises(
            tf.errors.InvalidArgumentError, match="index of slice 0 exceeded limits of shape; index is 2 exceeded 2"
        ):
            session.run(tf.SparseConditionalAccumulator(tf.float32, shape=[2]).apply_grad([2], [1.0]))


def test_an_interrupt_as_a_taker_joins_the_line_leaves_nobody_there():
    class Line(collections.deque):
        def append(self, place):
            super().append(place)
            raise KeyboardInterrupt("as it stands there")

    attrs = {"dtype": tf.float32, "shape": (), "reduction_type": "MEAN"}
    accumulator = accumulator_objects.Accumulator("a", attrs)
    accumulator._line = Line()
    with pytest.raises(KeyboardInterrupt, match="as it stands there"):
        accumulator.take(1, CancellationToken())
    assert accumulator._first() is None
