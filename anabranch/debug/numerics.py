"""Finding the first NaN or infinity of a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Operation
from anabranch.debug import reports
from anabranch.session import BaseSession


class NumericsWatcher:
    """Fail a step at the first op that gives a NaN or an infinity.

    Args:
        frames: how many lines of the place where the op was made are shown.
        path_length: how many characters of each file's path are shown, the last ones.
    """

    def __init__(self, frames: int = 30, path_length: int = 50) -> None:
        self._frames = frames
        self._path_length = path_length
        self._user_op: Callable[[Operation], Operation] = lambda op: op

    def begins(self, user_op: Callable[[Operation], Operation]) -> None:
        """Know the ops of the program's graph."""
        self._user_op = user_op

    def before(self, op: Operation, operands: Sequence[Any]) -> None:
        """Nothing is looked at before an op runs."""

    def after(self, op: Operation, operands: Sequence[Any], values: Sequence[Any]) -> None:
        """Look at what an op gave.

        Raises:
            InvalidArgumentError: it is not finite.
        """
        for tensor, value in reports.outputs_of(op, values):
            if reports.not_finite(value):
                raise self.failure(op, operands, tensor.value_index, value)

    def failure(self, op: Operation, operands: Sequence[Any], index: int, value: Any) -> errors.InvalidArgumentError:
        """The error about an op whose output ``index`` is not finite."""
        user_op = self._user_op(op)
        blamed = [i for i, operand in enumerate(operands) if reports.not_finite(operand)]
        if blamed:
            origin = f"input {', '.join(map(str, blamed))} had such a value already: a constant, a feed or a variable"
        else:
            origin = "all its inputs are finite: it is the first of the step"
        names = [tensor.name for tensor in user_op.inputs]
        message = errors.message(
            f"output {index} of {op.type} {user_op.name!r} is {reports.describe(value)}",
            f"finite numbers; {origin}\n{reports.table(op, operands, names)}",
            "look at the op's inputs with tf.debugging.StepDebugger(session, "
            f"break_at={user_op.name!r}), or guard them (tf.maximum, tf.where)",
        )
        return errors.InvalidArgumentError(None, user_op, f"{message}\nMade at:\n{self._made_at(user_op)}")

    def _made_at(self, op: Operation) -> str:
        lines = []
        for frame in (op.user_site.frames() if op.user_site is not None else [])[: self._frames]:
            path = frame.filename
            if len(path) > self._path_length:
                path = "..." + path[-self._path_length :]
            lines.append(f"  {path}:{frame.lineno} {frame.line or ''}".rstrip())
        return "\n".join(lines)


@public("debugging.enable_check_numerics")
def enable_check_numerics(stack_height_limit: int = 30, path_length_limit: int = 50) -> None:
    """Fail each step of each session, from now on, at the first op that gives a NaN or an infinity.

    Steps then run op by op, which may take many times as long. The error names the op, the line of the program that
    made it, and the shapes and statistics of its inputs and its output. No variable of the step has changed.

    Args:
        stack_height_limit: how many lines of the place where the op was made are shown.
        path_length_limit: how many characters of each file's path are shown.

    Example:
        >>> import anabranch as tf
        >>> tf.debugging.enable_check_numerics()
        >>> with tf.Session() as session:
        ...     try:
        ...         session.run(tf.log(tf.constant([0.0])))
        ...     except tf.errors.InvalidArgumentError:
        ...         print("not finite")
        not finite
        >>> tf.debugging.disable_check_numerics()
    """
    if stack_height_limit < 1 or path_length_limit < 1:
        raise ValueError(
            errors.message(
                f"{stack_height_limit=}, {path_length_limit=}", "limits of at least 1", "leave them out: 30 and 50"
            )
        )
    BaseSession._watcher = NumericsWatcher(stack_height_limit, path_length_limit)


@public("debugging.disable_check_numerics")
def disable_check_numerics() -> None:
    """End what :func:`enable_check_numerics` began."""
    BaseSession._watcher = None


def has_inf_or_nan(datum: Any, tensor: Any) -> bool:
    """Whether a tensor that was kept holds a NaN or an infinity; a filter for debuggers.

    Args:
        datum: the record of the tensor, which is not looked at.
        tensor: its value.
    """
    del datum
    return reports.not_finite(np.asarray(tensor)) if tensor is not None else False
