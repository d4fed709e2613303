"""What a program was compiled to: the function, what is known of it, and where it may come from."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.xla import (
    engine,
    kernel_context,
    stored_programs,
)
from anabranch.xla.padding import batches


class Facts:
    """What tracing found out besides the program itself."""

    def __init__(self) -> None:
        self.records: list[kernel_context.CheckRecord] = []
        self.known_outputs: dict[int, np.ndarray] = {}
        self.consumed: list[int] = []
        self.traced_outputs: list[int] = []
        self.tentative: list[int] = []
        self.dynamic: list[int] = []
        """Places in ``consumed`` that are known only after the run: one more result has them, in this order."""
        self.loops: list[tuple[int, int]] = []
        """Of each loop that stands for ops that repeat, how many blocks it is, and of how many ops."""
        self.specs: list[tuple[tuple[int, ...], np.dtype[Any]] | None] = []
        """Shape and dtype of each result; None for what is not an array."""
        self.guessed = False
        """Whether it has loops that were given room by a guess."""
        self.budget: int | None = None
        """How often loops may run in the thread of a caller; 0 for not at all, None if no loop has a limit."""
        self.recorder: batches.Recorder | None = None
        """What notes all that the trace derives from shapes, if it is one of several sizes."""
        self.batch: batches.Facts | None = None
        """How the program depends on the size of its batch, if it serves several."""
        self.library_calls = 0
        """How many convolutions a library computes."""
        self.factorisation = 0
        """The multiplications of the largest matrix that LAPACK factorises; 0 for none."""
        self.names_ops = False
        """Whether each equation is to say which op it belongs to."""
        self.spare: Any = None
        """The compiled form that leaves its variables' old values alone; see ``Program.keeping``."""

    def plain(self) -> Any:
        """As JSON; see :meth:`read`."""
        facts = {name: getattr(self, name) for name in _PLAIN_FACTS}
        outputs = [[i, stored_programs.plain(value)] for i, value in self.known_outputs.items()]
        records = [stored_programs.plain_record(record) for record in self.records]
        specs = [spec and [list(spec[0]), spec[1].name] for spec in self.specs]
        return {**facts, "records": records, "known_outputs": outputs, "specs": specs}

    @classmethod
    def read(cls, stored: Any) -> Facts:
        """What :meth:`plain` has written."""
        facts = cls()
        for name in _PLAIN_FACTS:
            setattr(facts, name, stored[name])
        facts.loops = [(blocks, ops) for blocks, ops in stored["loops"]]
        facts.records = [stored_programs.read_record(record) for record in stored["records"]]
        facts.known_outputs = {i: stored_programs.read(value) for i, value in stored["known_outputs"]}
        facts.specs = [spec and (tuple(spec[0]), np.dtype(spec[1])) for spec in stored["specs"]]
        return facts

    def amounts(self, results: Sequence[Any]) -> list[int]:
        """How many blocks each random op took."""
        if not self.dynamic:
            return self.consumed
        amounts = list(self.consumed)
        for place, amount in zip(self.dynamic, np.asarray(results[-1]).tolist(), strict=True):
            amounts[place] = amount
        return amounts


_PLAIN_FACTS = (
    "consumed",
    "traced_outputs",
    "tentative",
    "dynamic",
    "loops",
    "guessed",
    "budget",
    "library_calls",
    "factorisation",
)


class Executable(NamedTuple):
    """A traced and compiled variant of a program for certain shapes and known values."""

    function: Any
    facts: Facts
    """What tracing found out."""

    def outputs(self) -> Sequence[Any]:
        """What a call returns for those who asked, in the form that it has then; each array is zeros of no memory."""
        outputs: Sequence[Any] = engine.jax().tree.map(
            lambda leaf: np.broadcast_to(np.zeros((), leaf.dtype), leaf.shape), self.function.out_info
        )[0]
        return outputs


class NotStored(Exception):
    """There is no executable in this process or on disk, and none is to be made now."""


class Means(enum.Enum):
    """How a program may come by an executable."""

    HERE = "compile it while the step waits"
    BESIDE = "compile it in a process of its own; for a thread of the background"
    LOWERED = "trace and lower it, to be compiled later"
    STORED = "find it in this process or on disk"
