"""``tf.contrib.slim.learning.train`` with masks that move."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public

_SLIM = tf.contrib.slim.learning
train_step = _SLIM.train_step


@public("contrib.model_pruning.train")
def train(train_op: Any, logdir: Any, mask_update_op: Any, train_step_fn: Any = train_step, **kwargs: Any) -> Any:
    """Train like ``tf.contrib.slim.learning.train``, and move the masks after each step.

    Args:
        train_op: the step, which gives the loss.
        logdir: a folder for checkpoints and summaries; None for neither.
        mask_update_op: what moves the masks: of :meth:`Pruning.conditional_mask_update_op`.
        train_step_fn: runs one step: a function like ``tf.contrib.slim.learning.train_step``.
        **kwargs: further arguments of ``tf.contrib.slim.learning.train``.

    Returns:
        The last loss.
    """

    def step(session: Any, train_op: Any, global_step: Any, arguments: Any) -> Any:
        loss, should_stop = train_step_fn(session, train_op, global_step, arguments)
        session.run(mask_update_op)
        return loss, should_stop

    return _SLIM.train(train_op, logdir, train_step_fn=step, **kwargs)
