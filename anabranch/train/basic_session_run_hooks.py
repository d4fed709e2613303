"""Hooks that training loops use: logging, stopping, saving, summaries, speed, NaN, waiting."""

from __future__ import annotations

import os
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.protos import event_pb2, summary_pb2
from anabranch.platform import logging
from anabranch.summary import writer as event_writers
from anabranch.train import step_counter
from anabranch.train.meta_graph import write_graph_of_training
from anabranch.train.saving.saver import settle
from anabranch.train.session_run_hook import SessionRunArgs, SessionRunHook


def _one_of(**given: Any) -> None:
    """Raise ValueError unless exactly one argument is given."""
    if sum(value is not None for value in given.values()) != 1:
        names = " and ".join(given)
        raise ValueError(
            f"exactly one of {names} should be provided.\n"
            + errors.message(
                ", ".join(f"{k}={v!r}" for k, v in given.items()),
                "exactly one of the two arguments",
                f"{next(iter(given))}=100",
            )
        )


def global_step() -> Any:
    """The graph's global step; RuntimeError if there is none."""
    step = step_counter.get_global_step()
    if step is None:
        raise RuntimeError(
            "Global step should be created.\n"
            + errors.message(
                "a graph without a global step", "a graph with a global step", "tf.train.get_or_create_global_step()"
            )
        )
    return step


@public("train.SecondOrStepTimer")
class SecondOrStepTimer:
    """Say when something is due that happens every so many seconds or steps.

    Args:
        every_secs: seconds between two times.
        every_steps: steps between two times.
    """

    def __init__(self, every_secs: float | None = None, every_steps: int | None = None) -> None:
        if every_secs is not None and every_steps is not None:
            raise ValueError("Can only set one of every_secs and every_steps; leave the other out")
        if every_secs is None and every_steps is None:
            raise ValueError(
                "Either every_secs or every_steps should be provided.\n"
                + errors.message("neither", "seconds or steps", "every_steps=100")
            )
        self._secs, self._steps = every_secs, every_steps
        self.reset()

    def reset(self) -> None:
        """Forget when it was last due."""
        self._last: tuple[float, int] | None = None

    def should_trigger_for_step(self, step: int) -> bool:
        """Whether it is due at a step."""
        if self._last is None:
            return True
        when, last = self._last
        if step == last:
            return False
        if self._secs is not None:
            return not 0.0 <= time.time() - when < self._secs  # nor if the clock was set back meanwhile
        return self._steps is not None and step >= last + self._steps

    def update_last_triggered_step(self, step: int) -> tuple[float | None, int | None]:
        """Note that it happened now; give seconds and steps since the last time, or (None, None)."""
        now = time.time()  # of the day, as in TensorFlow: tests of programs put their own function in its place
        since = (None, None) if self._last is None else (now - self._last[0], step - self._last[1])
        self._last = (now, step)
        return since

    def last_triggered_step(self) -> int | None:
        """The step at which it last happened."""
        return None if self._last is None else self._last[1]


@public("train.LoggingTensorHook")
class LoggingTensorHook(SessionRunHook):
    """Log values of tensors every so many steps or seconds, and at the end.

    Args:
        tensors: names or tensors, or a dictionary from what is shown to them.
        every_n_iter: runs between two lines.
        every_n_secs: seconds between two lines.
        at_end: only at the end, or there, too.
        formatter: makes the line of a dictionary of values.
    """

    def __init__(
        self,
        tensors: Any,
        every_n_iter: int | None = None,
        every_n_secs: float | None = None,
        at_end: bool = False,
        formatter: Callable[[dict[str, Any]], str] | None = None,
    ) -> None:
        if not (at_end and every_n_iter is None and every_n_secs is None):
            _one_of(every_n_iter=every_n_iter, every_n_secs=every_n_secs)
        if every_n_iter is not None and every_n_iter <= 0:
            raise ValueError(f"invalid every_n_iter={every_n_iter}; write a positive number")
        if isinstance(tensors, Mapping):
            self._order = list(tensors)
            self._tensors = dict(tensors)
        else:
            self._order = [item if isinstance(item, str) else item.name for item in tensors]
            self._tensors = dict(zip(self._order, tensors, strict=True))
        self._only_at_end = every_n_iter is None and every_n_secs is None
        steps = 1 if self._only_at_end else every_n_iter  # where only the end counts, nobody asks the timer
        self._timer = SecondOrStepTimer(every_secs=every_n_secs, every_steps=steps)
        self._at_end, self._formatter = at_end, formatter

    def begin(self) -> None:
        """Find the tensors."""
        graph = get_default_graph()
        self._timer.reset()
        self._count = 0
        self._found = {key: graph.as_graph_element(item) for key, item in self._tensors.items()}

    def before_run(self, run_context: Any) -> Any:
        """Ask for the values if a line is due."""
        self._due = not self._only_at_end and self._timer.should_trigger_for_step(self._count)
        return SessionRunArgs(self._found) if self._due else None

    def _log(self, values: dict[str, Any]) -> None:
        seconds, _ = self._timer.update_last_triggered_step(self._count)
        if self._formatter is not None:
            logging.info(self._formatter(values))
            return
        with np.printoptions(suppress=True):
            shown = ", ".join(f"{key} = {values[key]}" for key in self._order)
        logging.info("%s%s", shown, "" if seconds is None else f" ({seconds:.3f} sec)")

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Log the values."""
        if self._due:
            self._log(run_values.results)
        self._count += 1

    def end(self, session: Any) -> None:
        """Log the last values if that was asked for."""
        if self._at_end:
            self._log(session.run(self._found))


@public("train.StopAtStepHook")
class StopAtStepHook(SessionRunHook):
    """Ask for the end after a number of steps, or at a step.

    Args:
        num_steps: steps from where the loop starts.
        last_step: the global step at which it ends.
    """

    def __init__(self, num_steps: int | None = None, last_step: int | None = None) -> None:
        _one_of(num_steps=num_steps, last_step=last_step)
        self._num, self._last = num_steps, last_step

    def begin(self) -> None:
        """Find the global step."""
        self._step = global_step()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Read where the loop starts."""
        if self._last is None:
            assert self._num is not None
            self._last = int(session.run(self._step)) + self._num

    def before_run(self, run_context: Any) -> Any:
        """Ask for the global step."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Ask for the end if it has come."""
        assert self._last is not None
        step = int(run_values.results) + 1
        if step >= self._last and int(run_context.session.run(self._step)) >= self._last:
            run_context.request_stop()


@public("train.CheckpointSaverListener")
class CheckpointSaverListener:
    """Base of what is told about checkpoints."""

    def begin(self) -> None:
        """Called before the graph is finalised."""

    def before_save(self, session: Any, global_step_value: int) -> None:
        """Called before a checkpoint is written."""

    def after_save(self, session: Any, global_step_value: int) -> Any:
        """Called after one was written; True asks for the end of the loop."""

    def end(self, session: Any, global_step_value: int) -> None:
        """Called at the end of the loop."""


@public("train.CheckpointSaverHook")
class CheckpointSaverHook(SessionRunHook):
    """Write a checkpoint every so many seconds or steps, at the start and at the end.

    Args:
        checkpoint_dir: the folder.
        save_secs: seconds between two.
        save_steps: steps between two.
        saver: writes them; the scaffold's or the graph's by default.
        checkpoint_basename: the name before the step.
        scaffold: has a saver.
        listeners: are told.
        steps_per_run: how much a run adds to the global step.
    """

    def __init__(
        self,
        checkpoint_dir: str,
        save_secs: float | None = None,
        save_steps: int | None = None,
        saver: Any = None,
        checkpoint_basename: str = "model.ckpt",
        scaffold: Any = None,
        listeners: Sequence[CheckpointSaverListener] | None = None,
        steps_per_run: int = 1,
    ) -> None:
        if saver is not None and scaffold is not None:
            raise ValueError("You cannot provide both saver and scaffold; leave one out")
        _one_of(save_steps=save_steps, save_secs=save_secs)
        self._folder, self._saver, self._scaffold = checkpoint_dir, saver, scaffold
        self._path = os.path.join(checkpoint_dir, checkpoint_basename)
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._listeners = list(listeners or [])
        self._steps_per_run = steps_per_run

    def begin(self) -> None:
        """Find the global step."""
        self._step = global_step()
        self._writer = event_writers.FileWriterCache.get(self._folder)
        _savers.setdefault(get_default_graph(), weakref.WeakSet()).add(self)
        for listener in self._listeners:
            listener.begin()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Write the graph and the first checkpoint."""
        saver = self._get_saver()
        saver_def = None if saver is None else saver.saver_def
        write_graph_of_training(get_default_graph(), self._folder, self._writer, saver_def)
        self._save(session, int(session.run(self._step)))

    def before_run(self, run_context: Any) -> Any:
        """Ask for the global step."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Write a checkpoint if one is due."""
        stale = int(run_values.results)
        if self._timer.should_trigger_for_step(stale + self._steps_per_run):
            step = int(run_context.session.run(self._step))
            if self._timer.should_trigger_for_step(step) and self._save(run_context.session, step):
                run_context.request_stop()

    def save_now(self, session: Any) -> int:
        """Write a checkpoint of the step that the session has reached, unless it has been written; the step."""
        step = int(session.run(self._step))
        if step != self._timer.last_triggered_step():
            self._save(session, step)
        settle(self._get_saver())  # who leaves the session finds it
        return step

    def end(self, session: Any) -> None:
        """Write the last checkpoint."""
        step = self.save_now(session)
        for listener in self._listeners:
            listener.end(session, step)

    def add_listener(self, listener: CheckpointSaverListener) -> None:
        """Tell one more listener of checkpoints from now on."""
        if listener not in self._listeners:
            self._listeners.append(listener)

    def _get_saver(self) -> Any:
        if self._saver is not None:
            return self._saver
        if self._scaffold is not None:
            return self._scaffold.saver
        savers = get_default_graph().get_collection(GraphKeys.SAVERS)
        if len(savers) != 1:
            raise RuntimeError(
                errors.message(
                    f"{len(savers)} savers in the graph",
                    "exactly one saver",
                    "CheckpointSaverHook(..., saver=tf.train.Saver())",
                )
            )
        self._saver = savers[0]
        return self._saver

    def _save(self, session: Any, step: int) -> bool:
        logging.info("Saving checkpoints for %d into %s.", step, self._path)
        self._timer.update_last_triggered_step(step)
        for listener in self._listeners:
            listener.before_save(session, step)
        self._get_saver().save(session, self._path, global_step=step)
        log = event_pb2.SessionLog(status=event_pb2.SessionLog.CHECKPOINT, checkpoint_path=self._path)
        self._writer.add_session_log(log, step)
        if self._listeners:  # they may want to read it
            settle(self._get_saver())
        return any([listener.after_save(session, step) is True for listener in self._listeners])


_savers: weakref.WeakKeyDictionary[Any, weakref.WeakSet[CheckpointSaverHook]] = weakref.WeakKeyDictionary()
"""Of each graph the hooks that write its checkpoints."""


def checkpoint_savers(graph: Any) -> list[CheckpointSaverHook]:
    """The hooks that write checkpoints of a graph and have begun."""
    return list(_savers.get(graph, ()))


@public("train.StepCounterHook")
class StepCounterHook(SessionRunHook):
    """Write steps per second to the summaries and the log.

    Args:
        every_n_steps: steps between two.
        every_n_secs: seconds between two.
        output_dir: the folder of the summaries.
        summary_writer: writes them, instead of one for ``output_dir``.
    """

    def __init__(
        self,
        every_n_steps: int | None = 100,
        every_n_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
    ) -> None:
        if every_n_secs is not None and every_n_steps == 100:
            every_n_steps = None
        _one_of(every_n_steps=every_n_steps, every_n_secs=every_n_secs)
        self._timer = SecondOrStepTimer(every_secs=every_n_secs, every_steps=every_n_steps)
        self._folder, self._writer = output_dir, summary_writer

    def begin(self) -> None:
        """Find the global step."""
        if self._writer is None and self._folder:
            self._writer = event_writers.FileWriterCache.get(self._folder)
        self._step = global_step()
        self._tag = f"{self._step.op.name}/sec"
        self._previous: int | None = None
        self._unchanged = 0

    def before_run(self, run_context: Any) -> Any:
        """Ask for the global step."""
        return SessionRunArgs(self._step)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Write the speed if it is due; warn of a global step that stays where it is for 20 runs."""
        stale = int(run_values.results)
        self._unchanged = self._unchanged + 1 if stale == self._previous else 0
        if self._unchanged == 20:
            logging.warning(
                "It seems that global step (tf.train.get_global_step) has not been increased. Current value (could be "
                "stable): %s vs previous value: %s. You could increase the global step by passing "
                "tf.train.get_global_step() to Optimizer.apply_gradients or Optimizer.minimize.",
                stale,
                self._previous,
            )
            self._unchanged = 0
        self._previous = stale
        if not self._timer.should_trigger_for_step(stale + 1):
            return
        step = int(run_context.session.run(self._step))
        if not self._timer.should_trigger_for_step(step):
            return
        seconds, steps = self._timer.update_last_triggered_step(step)
        if seconds:
            assert steps is not None
            if self._writer is not None:
                value = summary_pb2.Summary.Value(tag=self._tag, simple_value=steps / seconds)
                self._writer.add_summary(summary_pb2.Summary(value=[value]), step)
            logging.info("%s: %g", self._tag, steps / seconds)


@public("train.NanLossDuringTrainingError")
class NanLossDuringTrainingError(RuntimeError):
    """A loss was NaN."""

    def __str__(self) -> str:
        return "NaN loss during training."


@public("train.NanTensorHook")
class NanTensorHook(SessionRunHook):
    """End the loop if a loss is NaN.

    Args:
        loss_tensor: the loss.
        fail_on_nan_loss: by an exception, or else by a normal end.
    """

    def __init__(self, loss_tensor: Any, fail_on_nan_loss: bool = True) -> None:
        self._loss, self._fail = loss_tensor, fail_on_nan_loss

    def before_run(self, run_context: Any) -> Any:
        """Ask for the loss."""
        return SessionRunArgs(self._loss)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Look at it."""
        if np.isnan(run_values.results):
            if self._fail:
                logging.error("Model diverged with loss = NaN.")
                raise NanLossDuringTrainingError
            logging.warning("Model diverged with loss = NaN.")
            run_context.request_stop()


@public("train.SummarySaverHook")
class SummarySaverHook(SessionRunHook):
    """Write summaries every so many steps or seconds.

    Args:
        save_steps: steps between two.
        save_secs: seconds between two.
        output_dir: the folder.
        summary_writer: writes them, instead of one for ``output_dir``.
        scaffold: has a summary op.
        summary_op: makes summaries; a tensor or a list of such.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str | None = None,
        summary_writer: Any = None,
        scaffold: Any = None,
        summary_op: Any = None,
    ) -> None:
        if (scaffold is None) == (summary_op is None):
            raise ValueError("Exactly one of scaffold or summary_op must be provided.")
        if save_steps is not None or save_secs is not None:
            _one_of(save_steps=save_steps, save_secs=save_secs)
        self._timer = SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._folder, self._writer = output_dir, summary_writer
        self._scaffold, self._op = scaffold, summary_op

    def begin(self) -> None:
        """Find the global step."""
        if self._writer is None and self._folder:
            self._writer = event_writers.FileWriterCache.get(self._folder)
        self._following: int | None = None
        self._step = global_step()
        self._before = step_counter.value_before_step(self._step)

    def _ops(self) -> list[Any]:
        op = self._op if self._op is not None else self._scaffold.summary_op
        return [] if op is None else list(op) if isinstance(op, list | tuple) else [op]

    def before_run(self, run_context: Any) -> Any:
        """Ask for the summaries if they are due."""
        self._due = self._following is None or self._timer.should_trigger_for_step(self._following)
        ops = self._ops() if self._due else []
        return SessionRunArgs({"step": self._before, "summaries": ops})

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Write them."""
        if self._writer is None:
            return
        step = int(run_values.results["step"]) + 1
        if self._following is None or self._due:
            step = int(run_context.session.run(self._step))
        if self._following is None:
            log = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
            self._writer.add_session_log(log, step)
        if self._due:
            self._timer.update_last_triggered_step(step)
            for summary in run_values.results["summaries"]:
                self._writer.add_summary(summary, step)
        self._following = step + 1

    def end(self, session: Any) -> None:
        """Write out what is held back."""
        if self._writer is not None:
            self._writer.flush()


@public("train.GlobalStepWaiterHook")
class GlobalStepWaiterHook(SessionRunHook):
    """Wait before the first run until the global step has come to a number.

    Args:
        wait_until_step: the number.
    """

    def __init__(self, wait_until_step: int) -> None:
        self._wait = wait_until_step

    def begin(self) -> None:
        """Find the global step."""
        self._step = global_step()
        self._done = False

    def before_run(self, run_context: Any) -> Any:
        """Wait."""
        if not self._done and self._wait > 0:  # without waiting, the step need not be there yet
            while int(run_context.session.run(self._step)) < self._wait:
                time.sleep(0.5)
            self._done = True


@public("train.FinalOpsHook")
class FinalOpsHook(SessionRunHook):
    """Run tensors once at the end; :attr:`final_ops_values` holds their values.

    Args:
        final_ops: what to run.
        final_ops_feed_dict: what to feed.
    """

    def __init__(self, final_ops: Any, final_ops_feed_dict: Any = None) -> None:
        self._ops, self._feed, self._values = final_ops, final_ops_feed_dict, None

    @property
    def final_ops_values(self) -> Any:
        """The values, once the loop has ended."""
        return self._values

    def end(self, session: Any) -> None:
        """Run them."""
        if self._ops is not None:
            self._values = session.run(self._ops, feed_dict=self._feed)


@public("train.FeedFnHook")
class FeedFnHook(SessionRunHook):
    """Feed what a function gives, at each run.

    Args:
        feed_fn: gives a dictionary of feeds.
    """

    def __init__(self, feed_fn: Callable[[], dict[Any, Any]]) -> None:
        self.feed_fn = feed_fn

    def before_run(self, run_context: Any) -> Any:
        """Feed."""
        return SessionRunArgs(fetches=None, feed_dict=self.feed_fn())
