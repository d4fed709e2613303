"""``slim.learning``: training steps and the loop that runs them with checkpoints and summaries."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.contrib.training import training
from anabranch.core import errors
from anabranch.debug.timeline import Timeline
from anabranch.train.saving.saver import settle

add_gradients_summaries = training.add_gradients_summaries
clip_gradient_norms = training.clip_gradient_norms
multiply_gradients = training.multiply_gradients
_USE_DEFAULT = 0


def create_train_op(
    total_loss: Any,
    optimizer: Any,
    global_step: Any = training.USE_GLOBAL_STEP,
    update_ops: Any = None,
    variables_to_train: Any = None,
    clip_gradient_norm: Any = 0,
    summarize_gradients: bool = False,
    gate_gradients: int = tf.train.Optimizer.GATE_OP,
    aggregation_method: Any = None,
    colocate_gradients_with_ops: bool = False,
    gradient_multipliers: Any = None,
    check_numerics: bool = True,
) -> Any:
    """A tensor whose evaluation makes one step of an optimizer, and gives the loss.

    Args:
        total_loss: a scalar.
        optimizer: an Optimizer.
        global_step: the step to count; that of the graph by default, none with None.
        update_ops: what runs before the loss is used; the collection UPDATE_OPS by default.
        variables_to_train: the trainable variables by default.
        clip_gradient_norm: if more than 0, the largest norm of each gradient.
        summarize_gradients: make summaries of gradients.
        gate_gradients: see ``Optimizer.compute_gradients``.
        aggregation_method: see ``Optimizer.compute_gradients``.
        colocate_gradients_with_ops: see ``Optimizer.compute_gradients``.
        gradient_multipliers: dictionary from variables, or names of their ops, to factors of their gradients.
        check_numerics: fail where the loss is infinite or not a number.
    """

    def transform(pairs: Any) -> Any:
        if gradient_multipliers:
            pairs = multiply_gradients(pairs, gradient_multipliers)
        return clip_gradient_norms(pairs, clip_gradient_norm) if clip_gradient_norm > 0 else pairs

    return training.create_train_op(
        total_loss,
        optimizer,
        global_step,
        update_ops,
        variables_to_train,
        transform,
        summarize_gradients,
        gate_gradients,
        aggregation_method,
        colocate_gradients_with_ops,
        check_numerics,
    )


def train_step(sess: Any, train_op: Any, global_step: Any, train_step_kwargs: dict[str, Any]) -> tuple[Any, bool]:
    """Run one step: the loss, and whether training ought to end.

    Args:
        sess: the session.
        train_op: the step; its value is the loss.
        global_step: the step's number.
        train_step_kwargs: may have scalar tensors ``should_log``, ``should_stop`` and ``should_trace``: with the last a
            folder ``logdir``, into which ``tf_trace-<step>.json`` is written for Chrome's tracing or Perfetto.

    Raises:
        ValueError: there is ``should_trace``, but no ``logdir``.
    """
    started = time.monotonic()
    metadata = None
    if "should_trace" in train_step_kwargs:
        _refuse(
            "logdir" not in train_step_kwargs,
            "logdir must be present in train_step_kwargs when should_trace is present",
            f"train_step_kwargs with {sorted(train_step_kwargs)}",
            "train_step_kwargs['logdir'] = folder",
        )
        if sess.run(train_step_kwargs["should_trace"]):
            metadata = tf.RunMetadata()
    if metadata is None:
        loss, step = sess.run([train_op, global_step])
    else:
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        loss, step = sess.run([train_op, global_step], options=options, run_metadata=metadata)
        path = os.path.join(train_step_kwargs["logdir"], f"tf_trace-{step}.json")
        tf.logging.info("Writing trace to %s", path)
        with tf.gfile.GFile(path, "w") as file:
            file.write(Timeline(metadata.step_stats).generate_chrome_trace_format())
        if train_step_kwargs.get("summary_writer") is not None:
            train_step_kwargs["summary_writer"].add_run_metadata(metadata, f"run_metadata-{step}")
    if "should_log" in train_step_kwargs and sess.run(train_step_kwargs["should_log"]):
        tf.logging.info("global step %d: loss = %.4f (%.3f sec/step)", step, loss, time.monotonic() - started)
    stop = bool(sess.run(train_step_kwargs["should_stop"])) if "should_stop" in train_step_kwargs else False
    return loss, stop


def _refuse(condition: bool, problem: str, given: str, instead: str) -> None:
    if condition:
        raise ValueError(f"{problem}\n" + errors.message(given, "arguments that fit", instead))


def train(
    train_op: Any, logdir: Any, train_step_fn: Callable[..., Any] = train_step, train_step_kwargs: Any = _USE_DEFAULT,
    log_every_n_steps: int = 1, graph: Any = None, master: str = "", is_chief: bool = True, global_step: Any = None,
    number_of_steps: int | None = None, init_op: Any = _USE_DEFAULT, init_feed_dict: Any = None,
    local_init_op: Any = _USE_DEFAULT, init_fn: Any = None, ready_op: Any = _USE_DEFAULT,
    summary_op: Any = _USE_DEFAULT, save_summaries_secs: float = 600, summary_writer: Any = _USE_DEFAULT,
    startup_delay_steps: int = 0, saver: Any = None, save_interval_secs: float = 600, sync_optimizer: Any = None,
    session_config: Any = None, session_wrapper: Any = None, trace_every_n_steps: int | None = None,
    ignore_live_threads: bool = False,
) -> Any:  # fmt: skip
    """Run a training step until ``number_of_steps``, an end of the data, or for ever; give the last loss.

    Args:
        train_op: the step (see :func:`create_train_op`).
        logdir: a folder for checkpoints and summaries; None for neither.
        train_step_fn: runs one step: a function as :func:`train_step`.
        train_step_kwargs: what it is passed; scalar tensors ``should_stop`` and ``should_log`` by default.
        log_every_n_steps: how often to log; 0 for never.
        graph: the graph; the default one otherwise.
        master: the target of the session.
        is_chief: initialise and save; otherwise wait for the chief.
        global_step: the step's number; that of the graph by default.
        number_of_steps: where to end; None for never.
        init_op: initialises the variables.
        init_feed_dict: what it is fed.
        local_init_op: initialises local variables and tables.
        init_fn: called with a session that ``init_op`` has initialised.
        ready_op: names of variables that are not initialised.
        summary_op: makes summaries; None for none.
        save_summaries_secs: seconds between summaries.
        summary_writer: writes them; None for none.
        startup_delay_steps: steps of the chief to wait for, if this is not the chief.
        saver: writes checkpoints.
        save_interval_secs: seconds between checkpoints.
        sync_optimizer: a `tf.train.SyncReplicasOptimizer`, or a list of these, whose steps wait for other workers.
        session_config: a ConfigProto.
        session_wrapper: function from the session to what is used in its place.
        trace_every_n_steps: how often a step is traced into ``logdir`` (see :func:`train_step`); None for never.
        ignore_live_threads: end even where a thread does not.
    """
    _refuse(train_op is None, "train_op cannot be None.", "train_op=None", "slim.learning.create_train_op(...)")
    if logdir is None:
        _refuse(
            summary_op not in (None, _USE_DEFAULT),
            "Cannot provide summary_op because logdir=None",
            "no logdir",
            "logdir=folder",
        )
        _refuse(
            saver is not None, "Cannot provide saver because logdir=None", "a saver without logdir", "logdir=folder"
        )
        _refuse(
            trace_every_n_steps is not None,
            "Cannot provide trace_every_n_steps because logdir=None",
            "traces without logdir",
            "logdir=folder",
        )
        summary_op = None
    _refuse(
        number_of_steps is not None and number_of_steps <= 0,
        "`number_of_steps` must be either None or a positive number.",
        f"number_of_steps={number_of_steps}",
        "number_of_steps=1000",
    )
    synchronous = sync_optimizer if isinstance(sync_optimizer, (list, tuple)) else [sync_optimizer]
    synchronous = [optimizer for optimizer in synchronous if optimizer is not None]
    _refuse(
        bool(synchronous) and startup_delay_steps > 0,
        "startup_delay_steps must be zero when sync_optimizer is supplied.",
        f"startup_delay_steps={startup_delay_steps}",
        "startup_delay_steps=0",
    )
    for optimizer in synchronous:
        _refuse(
            not isinstance(optimizer, tf.train.SyncReplicasOptimizer),
            "`sync_optimizer` must be a tf.train.SyncReplicasOptimizer.",
            f"sync_optimizer={optimizer!r}",
            "tf.train.SyncReplicasOptimizer(optimizer, replicas_to_aggregate=2)",
        )
    tokens: list[Any] = []
    ready_for_local_init_op = None
    graph = graph or tf.get_default_graph()
    with graph.as_default():
        step = tf.train.get_or_create_global_step() if global_step is None else global_step
        saver = saver or tf.train.Saver()
        # None means no such op to a supervisor, so the defaults have a value of their own.
        if init_op == _USE_DEFAULT:
            init_op = tf.global_variables_initializer()
        if ready_op == _USE_DEFAULT:
            ready_op = tf.report_uninitialized_variables()
        if local_init_op == _USE_DEFAULT:
            local_init_op = tf.group(tf.local_variables_initializer(), tf.tables_initializer())
        if synchronous:
            with tf.control_dependencies([] if local_init_op is None else [local_init_op]):
                own = [opt.chief_init_op if is_chief else opt.local_step_init_op for opt in synchronous]
                local_init_op = tf.group(local_init_op, *own) if local_init_op is not None else tf.group(*own)
            ready_for_local_init_op = synchronous[0].ready_for_local_init_op
            if is_chief:
                tokens = [optimizer.get_init_tokens_op() for optimizer in synchronous]
        if summary_op == _USE_DEFAULT:
            summary_op = tf.summary.merge_all()
        if train_step_kwargs == _USE_DEFAULT:
            with tf.name_scope("train_step"):
                # Compared in the graph: the step that reaches the number is the last one, whoever else counts the
                # global step.
                stop = tf.constant(False) if number_of_steps is None else tf.greater_equal(step, number_of_steps)
                train_step_kwargs = {"should_stop": stop}
                if log_every_n_steps > 0:
                    train_step_kwargs["should_log"] = tf.equal(tf.mod(step, log_every_n_steps), 0)
                if is_chief and trace_every_n_steps is not None:
                    train_step_kwargs["should_trace"] = tf.equal(tf.mod(step, trace_every_n_steps), 0)
                    train_step_kwargs["logdir"] = logdir
        if summary_writer == _USE_DEFAULT:
            summary_writer = tf.train.Supervisor.USE_DEFAULT
    supervisor = tf.train.Supervisor(
        graph=graph,
        is_chief=is_chief,
        logdir=logdir,
        init_op=init_op,
        init_feed_dict=init_feed_dict,
        local_init_op=local_init_op,
        ready_for_local_init_op=ready_for_local_init_op,
        ready_op=ready_op,
        summary_op=summary_op,
        global_step=step,
        saver=saver,
        save_summaries_secs=save_summaries_secs,
        save_model_secs=save_interval_secs,
        summary_writer=summary_writer,
        init_fn=init_fn,
    )
    if supervisor.summary_writer is not None:
        train_step_kwargs["summary_writer"] = supervisor.summary_writer
    loss = None
    while True:
        try:
            with supervisor.managed_session(master, config=session_config, start_standard_services=False) as session:
                if session_wrapper is not None:
                    session = session_wrapper(session)
                loss = _loop(
                    supervisor,
                    session,
                    (train_step_fn, train_op, step, train_step_kwargs),
                    (synchronous, tokens),
                    logdir,
                    startup_delay_steps,
                    number_of_steps,
                    ignore_live_threads,
                )
            return loss
        except tf.errors.AbortedError:
            tf.logging.info("Retrying training!")


def _loop(
    supervisor: Any,
    session: Any,
    step: tuple[Any, ...],
    synchronous: tuple[list[Any], list[Any]],
    logdir: Any,
    startup_delay_steps: int,
    number: Any,
    ignore_live_threads: bool,
) -> Any:
    train_step_fn, train_op, global_step, kwargs = step
    if supervisor.is_chief:
        if logdir:
            supervisor.start_standard_services(session)
    elif startup_delay_steps > 0:
        until = startup_delay_steps if number is None else min(startup_delay_steps, number)
        while session.run(global_step) < until:
            time.sleep(1.0)
    threads = supervisor.start_queue_runners(session)
    optimizers, tokens = synchronous
    if supervisor.is_chief and optimizers:
        threads += supervisor.start_queue_runners(session, [each.get_chief_queue_runner() for each in optimizers])
        session.run(tokens)
    loss = None
    try:
        while not supervisor.should_stop():
            loss, stop = train_step_fn(session, train_op, global_step, kwargs)
            if stop:
                tf.logging.info("Stopping Training.")
                supervisor.request_stop()
                break
    except tf.errors.OutOfRangeError:
        tf.logging.info("Caught OutOfRangeError. Stopping Training.")
    if logdir and supervisor.is_chief:
        tf.logging.info("Finished training! Saving model to disk.")
        supervisor.saver.save(session, supervisor.save_path, global_step=supervisor.global_step)
        settle(supervisor.saver)
    supervisor.request_stop()
    supervisor.coord.join(threads, ignore_live_threads=ignore_live_threads)
    return loss
