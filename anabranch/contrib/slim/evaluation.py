"""``slim.evaluation``: metrics of checkpoints, once or as checkpoints appear, with summaries."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.contrib.training import evaluation

wait_for_new_checkpoint = evaluation.wait_for_new_checkpoint
checkpoints_iterator = tf.train.checkpoints_iterator
_USE_DEFAULT = 0


def _hooks(num_evals: int, logdir: Any, summary_op: Any, feed: Any, further: Sequence[Any] | None) -> list[Any]:
    if summary_op == _USE_DEFAULT:
        summary_op = tf.summary.merge_all()
    hooks: list[Any] = [evaluation.StopAfterNEvalsHook(num_evals)]
    if summary_op is not None:
        hooks.append(evaluation.SummaryAtEndHook(log_dir=logdir, summary_op=summary_op, feed_dict=feed))
    return hooks + list(further or [])


def evaluate_once(
    master: str,
    checkpoint_path: str,
    logdir: Any,
    num_evals: int = 1,
    initial_op: Any = None,
    initial_op_feed_dict: Any = None,
    eval_op: Any = None,
    eval_op_feed_dict: Any = None,
    final_op: Any = None,
    final_op_feed_dict: Any = None,
    summary_op: Any = _USE_DEFAULT,
    summary_op_feed_dict: Any = None,
    variables_to_restore: Any = None,
    session_config: Any = None,
    hooks: Sequence[Any] | None = None,
) -> Any:
    """Restore a checkpoint, run ``eval_op`` ``num_evals`` times, write summaries, and give the value of ``final_op``.

    Args:
        master: the target of the session.
        checkpoint_path: the checkpoint.
        logdir: folder of the summaries.
        num_evals: how many times ``eval_op`` is run.
        initial_op: initialises what the checkpoint does not hold.
        initial_op_feed_dict: what it is fed.
        eval_op: takes in a batch (updates of metrics).
        eval_op_feed_dict: what it is fed.
        final_op: evaluated at the end.
        final_op_feed_dict: what it is fed.
        summary_op: makes summaries; the graph's, merged, by default; None for none.
        summary_op_feed_dict: what it is fed.
        variables_to_restore: all variables by default.
        session_config: a ConfigProto.
        hooks: further hooks.
    """
    return evaluation.evaluate_once(
        checkpoint_path,
        master,
        _scaffold(initial_op, initial_op_feed_dict, None, variables_to_restore),
        eval_op,
        eval_op_feed_dict,
        final_op,
        final_op_feed_dict,
        _hooks(num_evals, logdir, summary_op, summary_op_feed_dict, hooks),
        session_config,
    )


def evaluation_loop(
    master: str, checkpoint_dir: Any, logdir: Any, num_evals: int = 1, initial_op: Any = None,
    initial_op_feed_dict: Any = None, init_fn: Any = None, eval_op: Any = None, eval_op_feed_dict: Any = None,
    final_op: Any = None, final_op_feed_dict: Any = None, summary_op: Any = _USE_DEFAULT,
    summary_op_feed_dict: Any = None, variables_to_restore: Any = None, eval_interval_secs: float = 60,
    max_number_of_evaluations: int | None = None, session_config: Any = None, timeout: float | None = None,
    timeout_fn: Callable[[], bool] | None = None, hooks: Sequence[Any] | None = None,
) -> Any:  # fmt: skip
    """:func:`evaluate_once` for each checkpoint as it appears in a folder; the last value of ``final_op``.

    Args:
        master: the target of the sessions.
        checkpoint_dir: the folder.
        logdir: folder of the summaries.
        num_evals: how many times ``eval_op`` is run for each checkpoint.
        initial_op: initialises what the checkpoints do not hold.
        initial_op_feed_dict: what it is fed.
        init_fn: called with a session that ``initial_op`` has initialised.
        eval_op: takes in a batch (updates of metrics).
        eval_op_feed_dict: what it is fed.
        final_op: evaluated at the end.
        final_op_feed_dict: what it is fed.
        summary_op: makes summaries; the graph's, merged, by default; None for none.
        summary_op_feed_dict: what it is fed.
        variables_to_restore: all variables by default.
        eval_interval_secs: least time between two evaluations.
        max_number_of_evaluations: when to end; None for never.
        session_config: a ConfigProto.
        timeout: seconds to wait for the next checkpoint; forever if None.
        timeout_fn: called after that time; the end comes if it returns true (or is None).
        hooks: further hooks.
    """
    return evaluation.evaluate_repeatedly(
        checkpoint_dir,
        master,
        _scaffold(initial_op, initial_op_feed_dict, init_fn, variables_to_restore),
        eval_op,
        eval_op_feed_dict,
        final_op,
        final_op_feed_dict,
        eval_interval_secs,
        _hooks(num_evals, logdir, summary_op, summary_op_feed_dict, hooks),
        session_config,
        max_number_of_evaluations,
        timeout,
        timeout_fn,
    )


def _scaffold(init_op: Any, feed: Any, init_fn: Any, variables: Any) -> Any:
    saver = tf.train.Saver(variables) if variables is not None else None
    if init_fn is not None:
        return tf.train.Scaffold(
            init_op=init_op, init_feed_dict=feed, saver=saver, init_fn=lambda _, session: init_fn(session)
        )
    return tf.train.Scaffold(init_op=init_op, init_feed_dict=feed, saver=saver)
