"""Evaluation of checkpoints: once, or of each one as it appears."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public


@public("contrib.training.wait_for_new_checkpoint")
def wait_for_new_checkpoint(
    checkpoint_dir: Any, last_checkpoint: str | None = None, seconds_to_sleep: float = 1, timeout: float | None = None
) -> str | None:
    """The path of a checkpoint that is not ``last_checkpoint``; None after ``timeout`` seconds without one."""
    stop = None if timeout is None else time.monotonic() + timeout
    while True:
        newest = tf.train.latest_checkpoint(checkpoint_dir)
        if newest is not None and newest != last_checkpoint:
            return newest
        if stop is not None and time.monotonic() + seconds_to_sleep > stop:
            return None
        time.sleep(seconds_to_sleep)


@public("contrib.training.get_or_create_eval_step")
def get_or_create_eval_step() -> Any:
    """The local variable that counts evaluated batches."""
    steps = tf.get_collection(tf.GraphKeys.EVAL_STEP)
    if steps:
        return steps[0]
    return tf.get_variable(
        "eval_step",
        [],
        tf.int64,
        tf.zeros_initializer(),
        trainable=False,
        collections=[tf.GraphKeys.LOCAL_VARIABLES, tf.GraphKeys.EVAL_STEP],
    )


@public("contrib.training.StopAfterNEvalsHook")
class StopAfterNEvalsHook(tf.train.SessionRunHook):
    """Ask for the end after a number of batches (None: never)."""

    def __init__(self, num_evals: int | None, log_progress: bool = True) -> None:
        self._number, self._log, self._completed = num_evals, log_progress, None

    def _set_evals_completed_tensor(self, updated_eval_step: Any) -> None:
        self._completed = updated_eval_step

    def before_run(self, run_context: Any) -> Any:
        """Ask for the number of batches so far."""
        return tf.train.SessionRunArgs({"evals_completed": self._completed})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ask for the end when it is reached."""
        done = run_values.results["evals_completed"]
        if self._log:
            if self._number is None:
                tf.logging.info("Evaluation [%d]", done)
            elif done % max(1, math.ceil(self._number / 10)) == 0 or done == self._number:
                tf.logging.info("Evaluation [%d/%d]", done, self._number)
        if self._number is not None and done >= self._number:
            run_context.request_stop()


@public("contrib.training.SummaryAtEndHook")
class SummaryAtEndHook(tf.train.SessionRunHook):
    """Write summaries when the session ends.

    Args:
        log_dir: folder of the summaries.
        summary_writer: writes them, in place of a folder.
        summary_op: makes them; the graph's summaries, merged, by default.
        feed_dict: what it is fed.
    """

    def __init__(
        self, log_dir: Any = None, summary_writer: Any = None, summary_op: Any = None, feed_dict: Any = None
    ) -> None:
        self._folder, self._writer, self._op, self._feed = log_dir, summary_writer, summary_op, feed_dict
        self._replace = summary_op is None

    def begin(self) -> None:
        """Find summaries, writer and step."""
        if self._replace:
            self._op = tf.summary.merge_all()
        self._step = tf.train.get_or_create_global_step()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Open the file."""
        if self._writer is None and self._folder:
            self._writer = tf.summary.FileWriterCache.get(self._folder)

    def end(self, session: Any) -> None:
        """Write."""
        step = session.run(self._step)
        if self._writer:
            if self._op is not None:
                self._writer.add_summary(session.run(self._op, self._feed), int(step))
            self._writer.flush()


def _scaffold(copy: Any) -> Any:
    return tf.train.Scaffold(copy_from_scaffold=copy) if copy is not None else tf.train.Scaffold()


@public("contrib.training.evaluate_once")
def evaluate_once(
    checkpoint_path: str,
    master: str = "",
    scaffold: Any = None,
    eval_ops: Any = None,
    feed_dict: Any = None,
    final_ops: Any = None,
    final_ops_feed_dict: Any = None,
    hooks: Sequence[Any] | None = None,
    config: Any = None,
) -> Any:
    """Restore a checkpoint, run ops until a hook asks for the end, and give the values of final ops.

    Args:
        checkpoint_path: the checkpoint.
        master: the target of the session.
        scaffold: ops and helpers.
        eval_ops: what is run for each batch; None for nothing.
        feed_dict: what it is fed.
        final_ops: tensors (a structure of them) to evaluate at the end.
        final_ops_feed_dict: what they are fed.
        hooks: hooks, of which one ought to ask for the end (:class:`StopAfterNEvalsHook`).
        config: a ConfigProto.
    """
    step = get_or_create_eval_step()
    all_hooks = list(hooks or [])
    for hook in all_hooks:
        if isinstance(hook, StopAfterNEvalsHook):
            hook._set_evals_completed_tensor(step)
    if eval_ops is not None:
        count = tf.assign_add(step, 1)
        if isinstance(eval_ops, dict):
            eval_ops = {**eval_ops, "update_eval_step": count}
        else:
            eval_ops = [*(eval_ops if isinstance(eval_ops, (list, tuple)) else [eval_ops]), count]
    final = tf.train.FinalOpsHook(final_ops, final_ops_feed_dict)
    creator = tf.train.ChiefSessionCreator(
        scaffold=scaffold, checkpoint_filename_with_path=checkpoint_path, master=master, config=config
    )
    with tf.train.MonitoredSession(session_creator=creator, hooks=[*all_hooks, final]) as session:
        if eval_ops is not None:
            while not session.should_stop():
                session.run(eval_ops, feed_dict)
    tf.logging.info("Finished evaluation at %s", time.strftime("%Y-%m-%d-%H:%M:%S", time.localtime()))
    return final.final_ops_values


@public("contrib.training.evaluate_repeatedly")
def evaluate_repeatedly(
    checkpoint_dir: Any,
    master: str = "",
    scaffold: Any = None,
    eval_ops: Any = None,
    feed_dict: Any = None,
    final_ops: Any = None,
    final_ops_feed_dict: Any = None,
    eval_interval_secs: float = 60,
    hooks: Sequence[Any] | None = None,
    config: Any = None,
    max_number_of_evaluations: int | None = None,
    timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None,
) -> Any:
    """:func:`evaluate_once` for each checkpoint as it appears in a folder; the last values of the final ops.

    Args:
        checkpoint_dir: the folder.
        master: the target of the sessions.
        scaffold: ops and helpers, made anew for each evaluation where it leaves them out.
        eval_ops: what is run for each batch.
        feed_dict: what it is fed.
        final_ops: tensors to evaluate at the end of each evaluation.
        final_ops_feed_dict: what they are fed.
        eval_interval_secs: least time between two evaluations.
        hooks: hooks.
        config: a ConfigProto.
        max_number_of_evaluations: when to end; None for never.
        timeout: seconds to wait for the next checkpoint; forever if None.
        timeout_fn: called after that time; the end comes if it returns true (or is None).
    """
    values = None
    paths = tf.train.checkpoints_iterator(checkpoint_dir, eval_interval_secs, timeout, timeout_fn)
    for number, path in enumerate(paths, 1):
        tf.logging.info("Starting evaluation of %s", path)
        values = evaluate_once(
            path, master, _scaffold(scaffold), eval_ops, feed_dict, final_ops, final_ops_feed_dict, hooks, config
        )
        if max_number_of_evaluations is not None and number >= max_number_of_evaluations:
            break
    return values
