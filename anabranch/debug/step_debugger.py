"""A debugger of steps: stop at an op with its inputs as arrays."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.sites import Frame
from anabranch.debug import reports
from anabranch.debug.numerics import NumericsWatcher
from anabranch.session import BaseSession

_LINE = re.compile(r"(?P<file>.+\.py|<[^>]+>):(?P<line>\d+)$")


class Stop(NamedTuple):
    """An op that is about to run, and what it is given."""

    op: Operation
    inputs: tuple[Any, ...]
    """A value for each input: an array, None for a variable that has no value yet."""
    debugger: StepDebugger

    def __str__(self) -> str:
        frames = self.op.user_site.frames() if self.op.user_site is not None else []
        made = "".join(f"\n  made at {frame}" for frame in frames[:3])
        names = [tensor.name for tensor in self.op.inputs]
        return f"{self.op.type} {self.op.name!r}{made}\n{reports.table(self.op, self.inputs, names)}"


@public("debugging.StepDebugger")
class StepDebugger:
    """Run the steps of a session op by op and stop at some ops; a context.

    In it each ``run`` goes op by op in the thread that asks for it, with the values, effects and errors that it has
    without. At an op where it is to stop, ``pdb`` (or what PYTHONBREAKPOINT names) starts with ``stop``, ``op`` and
    ``inputs``, the arrays that the op is given; ``continue`` goes on to the next stop, ``debugger.next()`` before it
    stops at the next op, whatever it is, and ``quit`` fails the step: no variable of its segment changes. Constants and
    what is fed do not run, so there is no stop at them. Functions that datasets call run as always.

    Args:
        session: whose steps are debugged.
        break_at: where to stop, one or several of: ``"train.py:42"`` (all ops made by this line, or by what it
            called), an op's name or a pattern of names (``"dense/*"``), a tensor, an operation.
        check_numerics: fail at the first op that gives a NaN or an infinity, with its line, shapes and statistics.
        on_stop: called with a :class:`Stop` instead of ``pdb``, if given.

    Raises:
        ValueError: ``break_at`` has something else.

    Example:
        >>> import anabranch as tf
        >>> x = tf.placeholder(tf.float32, [2], name="x")
        >>> y = tf.square(x, name="y")
        >>> with tf.Session() as session:
        ...     with tf.debugging.StepDebugger(session, "y", on_stop=lambda stop: print(stop.op.type, stop.inputs[0])):
        ...         session.run(y, {x: [1.0, 2.0]})
        Square [1. 2.]
        array([1., 4.], dtype=float32)
    """

    def __init__(
        self,
        session: BaseSession,
        break_at: Any = (),
        check_numerics: bool = False,
        on_stop: Callable[[Stop], Any] | None = None,
    ) -> None:
        self._session = session
        self._lines: list[tuple[str, int]] = []
        self._names: list[str] = []
        single = isinstance(break_at, (str, Tensor, Operation))
        for place in [break_at] if single else break_at:
            self._add(place)
        self._numerics = NumericsWatcher() if check_numerics or session._watcher is not None else None
        self._on_stop = on_stop if on_stop is not None else _prompt
        self._at_next = False
        self._user_op: Callable[[Operation], Operation] = lambda op: op

    def _add(self, place: Any) -> None:
        if isinstance(place, Tensor):
            self._names.append(place.op.name)
        elif isinstance(place, Operation):
            self._names.append(place.name)
        elif isinstance(place, str):
            line = _LINE.match(place)
            if line is None:
                self._names.append(place.partition(":")[0])
            else:
                self._lines.append((line["file"], int(line["line"])))
        else:
            raise ValueError(
                errors.message(
                    f"break_at={place!r}",
                    "a line as 'train.py:42', a name of an op, a tensor or an operation",
                    "tf.debugging.StepDebugger(session, break_at='train.py:42')",
                )
            )

    def __enter__(self) -> StepDebugger:
        self._session._watcher = self
        return self

    def __exit__(self, *error: object) -> None:
        vars(self._session).pop("_watcher", None)

    def next(self) -> None:
        """Stop at the next op, too."""
        self._at_next = True

    # --------------------------------------------------------------------------------------------------------- watching
    def begins(self, user_op: Callable[[Operation], Operation]) -> None:
        """Know the ops of the program's graph."""
        self._user_op = user_op
        if self._numerics is not None:
            self._numerics.begins(user_op)

    def before(self, op: Operation, operands: Sequence[Any]) -> None:
        """Stop, if this is the place."""
        user_op = self._user_op(op)
        if self._at_next or self._is_place(user_op):
            self._at_next = False
            self._on_stop(Stop(user_op, tuple(operands), self))

    def after(self, op: Operation, operands: Sequence[Any], values: Sequence[Any]) -> None:
        """Look for what is not finite, if that is asked for."""
        if self._numerics is not None:
            self._numerics.after(op, operands, values)

    def _is_place(self, op: Operation) -> bool:
        if any(fnmatch.fnmatchcase(op.name, name) for name in self._names):
            return True
        if not self._lines or op.user_site is None:
            return False
        return _has_line(op.user_site.frames(), self._lines)


def _has_line(frames: Iterable[Frame], lines: Sequence[tuple[str, int]]) -> bool:
    for frame in frames:
        path = frame.filename.replace("\\", "/")
        for file, line in lines:
            if frame.lineno == line and (path == file or path.endswith("/" + file)):
                return True
    return False


def _prompt(stop: Stop) -> None:
    """Start pdb, or what PYTHONBREAKPOINT names, in a frame that has the op and its inputs."""
    op, inputs, debugger = stop.op, stop.inputs, stop.debugger
    print(f"{stop}\n  (stop, op, inputs, debugger are defined; debugger.next() stops at the next op, too)")
    breakpoint()
    del op, inputs, debugger
