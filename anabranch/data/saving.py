"""Iterators in checkpoints: ``make_saveable_from_iterator``, and a hook that saves those of a training session.

A checkpoint with variables and iterators is one state between two steps: what a program trains on after it was restored
is what it would have trained on had it never stopped. A place holds what the stages have read and not given out (the
buffer of a shuffle), the streams of random numbers, numbers of files and records, and its pipeline. An iterator that
has been initialised with another pipeline refuses the place; one that has not goes on in the saved one, and warns.
"""

from __future__ import annotations

import os
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.graph import get_default_graph
from anabranch.data.iterator_saveable import IteratorSaveable
from anabranch.data.iterators import ITERATORS
from anabranch.train.basic_session_run_hooks import (
    CheckpointSaverHook,
    CheckpointSaverListener,
    checkpoint_savers,
)
from anabranch.train.saving.checkpoint_state import get_checkpoint_state
from anabranch.train.saving.saver import Saver
from anabranch.train.session_run_hook import SessionRunArgs, SessionRunHook
from anabranch.train.step_counter import get_global_step

INPUTS_KEPT = 10
"""How many checkpoints of iterators the hook keeps: more than there are of the model."""


@public("data.experimental.make_saveable_from_iterator", "contrib.data.make_saveable_from_iterator")
def make_saveable_from_iterator(iterator: Any) -> IteratorSaveable:
    """What a ``tf.train.Saver`` saves of an iterator: its place, which a restore goes on from.

    Put it into the collection ``SAVEABLE_OBJECTS``, or into a saver's ``var_list``. A place holds what a ``shuffle``
    has in its buffer. A generator is run again up to the place; a pipeline with a Python function that may have effects
    (``tf.py_func`` without ``stateful=False``) is refused when it is saved. A place brings its pipeline along (up to
    1 MiB of it): where the pipeline has changed, an iterator that has been initialised refuses the place, and one that
    has not goes on in the pipeline that was saved, with a warning.

    Args:
        iterator: the iterator, initialised before a save. A restore runs its initializer if it has exactly one, which
            needs nothing that is fed; otherwise run one before or after the restore.

    Example:
        >>> import anabranch as tf, tempfile
        >>> iterator = tf.data.Dataset.range(9).shuffle(9).make_initializable_iterator()
        >>> element = iterator.get_next()
        >>> saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
        >>> with tf.Session() as session:
        ...     session.run(iterator.initializer)
        ...     path = saver.save(session, tempfile.mkdtemp() + "/input")
        ...     first = [int(session.run(element)) for _ in range(9)]
        ...     saver.restore(session, path)
        ...     first == [int(session.run(element)) for _ in range(9)]
        True
    """
    return IteratorSaveable(getattr(iterator, "_iterator_resource", iterator))


class _BesideModel(CheckpointSaverListener):
    """A listener that saves iterators whenever a model's checkpoint is about to be written, under the same step."""

    def __init__(self, save: Any) -> None:
        self._save = save

    def before_save(self, session: Any, global_step_value: Any) -> None:
        self._save(session, int(global_step_value))


@public("data.experimental.CheckpointInputPipelineHook", "contrib.data.CheckpointInputPipelineHook")
class CheckpointInputPipelineHook(SessionRunHook):
    """Save the iterators of a training session beside the checkpoints of its model, and go on from them.

    Each checkpoint of the model has one of all iterators in the graph, written before it and under the same global
    step (``input.ckpt-STEP``). Before the first step of a session they go to the place of the step that the model was
    restored to. A task that writes no checkpoint of the model saves them by the intervals of the estimator.

    Args:
        estimator: an estimator; its ``model_dir`` and ``config`` are used.

    Raises:
        FailedPreconditionError: (before the first step) there are places, but none of the model's step.
    """

    def __init__(self, estimator: Any) -> None:
        config = getattr(estimator, "_config", None) or estimator.config
        name = "input"
        if (getattr(config, "num_worker_replicas", 1) or 1) > 1:
            name = f"{name}_{config.task_type}_{config.task_id}"
        self._folder = os.fspath(estimator.model_dir)
        self._name = name
        self._latest_filename = f"checkpoint_{name}"
        self._own = CheckpointSaverHook(
            self._folder,
            save_secs=config.save_checkpoints_secs,
            save_steps=config.save_checkpoints_steps,
            checkpoint_basename=f"{name}.ckpt",
        )
        self._saver: Saver | None = None
        self._timed = False
        self._first_run = True
        self._saved: int | None = None
        self._beside = _BesideModel(self._save)

    def begin(self) -> None:
        """Build a saver of all iterators in the graph."""
        handles = get_default_graph().get_collection(ITERATORS)
        self._saver = None
        if handles:
            self._saver = Saver([IteratorSaveable(handle) for handle in handles], max_to_keep=INPUTS_KEPT)
        self._step = get_global_step()

    def after_create_session(self, session: Any, coord: Any) -> None:
        """Note that places are to be restored."""
        self._first_run = True

    def before_run(self, run_context: Any) -> Any:
        """Go to the place of the model's step, or save the first one."""
        if self._saver is None:
            return None
        if self._first_run:
            self._first_run = False
            savers = checkpoint_savers(run_context.session.graph)
            for saver in savers:
                saver.add_listener(self._beside)
            self._timed = not savers
            self._restore(run_context.session)
        return SessionRunArgs(self._step) if self._timed else None

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Save if nobody saves the model and it is due."""
        if self._timed and self._saver is not None:
            timer = self._own._timer
            if timer.should_trigger_for_step(int(run_values.results) + 1):
                step = int(run_context.session.run(self._step))
                if timer.should_trigger_for_step(step):
                    timer.update_last_triggered_step(step)
                    self._save(run_context.session, step)

    def end(self, session: Any) -> None:
        """Save the last place if nobody saves the model."""
        if self._timed and self._saver is not None:
            self._save(session, int(session.run(self._step)))

    def _save(self, session: Any, step: int) -> None:
        if self._saver is not None and step != self._saved:
            self._saver.save(
                session,
                os.path.join(self._folder, f"{self._name}.ckpt"),
                global_step=step,
                latest_filename=self._latest_filename,
                write_meta_graph=False,
            )
            self._saved = step

    def _restore(self, session: Any) -> None:
        assert self._saver is not None
        step = int(session.run(self._step))
        state = get_checkpoint_state(self._folder, self._latest_filename)
        paths = list(state.all_model_checkpoint_paths) if state is not None else []
        if not paths:
            self._save(session, step)
            return
        for path in paths:
            if path.rpartition("-")[2] == str(step):
                self._saver.restore(session, path)
                self._saver.recover_last_checkpoints(paths)
                self._saved = step
                return
        steps = ", ".join(path.rpartition("-")[2] for path in paths)
        raise errors.FailedPreconditionError(
            None,
            None,
            errors.message(
                f"a model at step {step}, and places of iterators at steps {steps} in {self._folder}",
                "a place that was saved with the model's checkpoint",
                f"restore one of these checkpoints of the model, or remove {self._latest_filename} to begin anew",
            ),
        )
