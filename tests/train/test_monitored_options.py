"""What hooks and runs of a monitored session ask for together, and steps that are tried again."""

from __future__ import annotations

import pytest

import anabranch as tf


class Asking(tf.train.SessionRunHook):
    """A hook that asks for options, and keeps those that a run had."""

    def __init__(self, options):
        self.options, self.had = options, None

    def before_run(self, run_context):
        return tf.train.SessionRunArgs(None, options=self.options)

    def after_run(self, run_context, run_values):
        self.had = run_values.options


def test_options_of_hooks_join() -> None:
    first = Asking(tf.RunOptions(output_partition_graphs=True, timeout_in_ms=30_000))
    second = Asking(tf.RunOptions(trace_level=tf.RunOptions.SOFTWARE_TRACE, inter_op_thread_pool=1))
    with tf.Graph().as_default():
        x = tf.constant(3)
        with tf.train.MonitoredSession(hooks=[first, second]) as session:
            assert session.run(x, options=tf.RunOptions(timeout_in_ms=60_000)) == 3
    had = second.had
    assert (had.output_partition_graphs, had.timeout_in_ms, had.trace_level, had.inter_op_thread_pool) == (
        True, 60_000, 1, 1,
    )  # fmt: skip


def test_a_step_function_is_tried_again() -> None:
    calls = []

    def step(step_context):
        calls.append(step_context.session)
        if len(calls) == 1:
            raise tf.errors.AbortedError(None, None, "a task is gone")
        return step_context.run_with_hooks(tf.get_default_graph().get_tensor_by_name("x:0"))

    with tf.Graph().as_default():
        tf.constant(3, name="x")
        with tf.train.MonitoredSession() as session:
            assert session.run_step_fn(step) == 3
        assert len(calls) == 2
        calls.clear()
        with (
            pytest.raises(tf.errors.AbortedError, match="a task is gone"),
            tf.train.SingularMonitoredSession() as session,
        ):
            session.run_step_fn(step)


def test_a_timer_needs_a_distance() -> None:
    with pytest.raises(ValueError, match="Either every_secs or every_steps should be provided"):
        tf.train.SecondOrStepTimer()
