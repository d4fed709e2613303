"""What the thread's tapes are told of the ops that run."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

from anabranch.core import thread_context
from anabranch.core.graph.tensor import OpView


class Recorder(Protocol):
    """A tape."""

    def wants(self, inputs: Sequence[Any]) -> bool:
        """Whether what an op makes of these tensors is to be recorded."""

    def record(self, view: OpView) -> None:
        """Note an op that has run."""

    def calls(self, graph: Any) -> None:
        """Note the graph of a function that is called."""

    def hides(self) -> None:
        """Note that ops follow that no tape is told of."""


class _Tapes(threading.local):
    def __init__(self) -> None:
        self.active: tuple[Any, ...] = ()


_tapes = _Tapes()


def active() -> tuple[Any, ...]:
    """The tapes of the thread that record, outermost first."""
    return _tapes.active


def push(tape: Recorder) -> None:
    """Let a tape record what the thread does from now on."""
    _tapes.active = (*_tapes.active, tape)


def pop(tape: Recorder) -> None:
    """Let a tape record no more."""
    _tapes.active = tuple([one for one in _tapes.active if one is not tape])


def _write(tapes: tuple[Any, ...]) -> None:
    _tapes.active = tapes


thread_context.keep(active, _write)


@contextlib.contextmanager
def stopped() -> Iterator[None]:
    """Let no tape of the thread record inside the block."""
    before = _tapes.active
    for tape in before:
        tape.hides()
    _tapes.active = ()
    try:
        yield
    finally:
        _tapes.active = before


def record(view: OpView) -> None:
    """Tell the thread's tapes of an op that has run."""
    for tape in _tapes.active:
        if tape.wants(view._inputs):
            tape.record(view)


class _Notes:
    """A recorder of everything."""

    def __init__(self) -> None:
        self.views: list[OpView] = []
        self.record = self.views.append

    def wants(self, inputs: Sequence[Any]) -> bool:
        return True

    def calls(self, graph: Any) -> None:
        """Nothing: the call's own view comes, too."""

    def hides(self) -> None:
        """Nothing: they are not asked for."""


class Graphs:
    """A recorder of the graphs of functions that are called, each once."""

    def __init__(self) -> None:
        self.graphs: list[Any] = []

    def wants(self, inputs: Sequence[Any]) -> bool:
        return False

    def record(self, view: OpView) -> None:
        """Nothing: no op is asked for."""

    def hides(self) -> None:
        """Nothing: no op is asked for."""

    def calls(self, graph: Any) -> None:
        if not any(known is graph for known in self.graphs):
            self.graphs.append(graph)


@contextlib.contextmanager
def noted() -> Iterator[list[OpView]]:
    """A list that fills with the ops that run inside the block."""
    notes = _Notes()
    push(notes)
    try:
        yield notes.views
    finally:
        pop(notes)


def is_recorded(tensors: Sequence[Any]) -> bool:
    """Whether a tape of the thread follows one of the tensors."""
    return any(tape.wants(tensors) for tape in _tapes.active)
