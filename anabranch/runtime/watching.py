"""Who is told of each op while a step runs op by op: what debuggers are made of.

A watched step is planned for itself and interpreted, in the thread that asks for it; see :meth:`Worker.watch`. Effects,
checks and commits are those of any other step: an exception that a watcher raises fails the segment like one of an op,
and no variable changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

from anabranch.core.graph.operation import Operation


class Watcher(Protocol):
    """Be told of ops. Operands and results are those of the kernel, not copies: they must not be changed."""

    def begins(self, user_op: Callable[[Operation], Operation]) -> None:
        """A step begins; ``user_op`` gives the op of the program's graph for one that runs."""

    def before(self, op: Operation, operands: Sequence[Any]) -> None:
        """An op is about to run; ``operands`` has a value for each input, None for one that has none yet."""

    def after(self, op: Operation, operands: Sequence[Any], values: Sequence[Any]) -> None:
        """An op has run; ``values`` are what its kernel gave (new values of variables first)."""
