"""Items of a fast step: an op on the host, a program, programs that are dispatched together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.core import errors
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import ValueKey
from anabranch.runtime import host_ops
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.state.borrowing import lent, may_borrow
from anabranch.runtime.state.slots import RandomCounter, Version
from anabranch.runtime.step import NO_RNG, Call, Transaction, random_words, run_wave
from anabranch.runtime.values import on_device, on_devices, to_host
from anabranch.xla import capacities, engine
from anabranch.xla.padding import batches, sizes
from anabranch.xla.program import Program

if TYPE_CHECKING:
    from anabranch.runtime.runner import Runner


class OtherShapes(Exception):
    """A value that was computed in the segment has not the shape that the next program is for."""


def stored_outputs(plan: Plan, op: Operation) -> list[Tensor]:
    """The outputs of a host op that somebody may look at."""
    return [output for output in op._outputs if output not in plan.fed]


def sources_of(
    places: dict[ValueKey, int], keys: Sequence[ValueKey | None], read: dict[ValueKey, int]
) -> list[int | None]:
    """Per key its place, or ``~i`` for the i-th version that the segment reads."""
    return [None if key is None else ~read[key] if key in read else places[key] for key in keys]


class Empty:
    """The form of a segment in which nothing happens."""

    def run(self, values: list[Any], token: CancellationToken, read_committed: bool, shared: bool = False) -> list[Any]:
        """Do nothing."""
        return []


class HostOp:
    """A kernel call on the host."""

    __slots__ = ("_lent", "_op", "_runner", "_sources", "_stored", "_take")

    def __init__(self, runner: Runner, op: Operation, sources: list[int | None]) -> None:
        self._runner = runner
        self._op = op
        self._sources = sources
        self._lent = op in runner.plan.lent_reads
        self._take = lent if may_borrow(op.definition) else to_host
        fed = runner.plan.fed
        kept = [i for i, output in enumerate(op._outputs) if output not in fed]
        self._stored = None if len(kept) == len(op._outputs) else kept

    def run(self, values: list[Any], current: Sequence[Version], token: CancellationToken) -> list[int]:
        """Call the kernel and stores what it gives."""
        operands = [
            None if place is None else values[place] if place >= 0 else current[~place] for place in self._sources
        ]
        if self._lent:
            values.append(operands[0])
            return []
        take = self._take
        outputs = host_ops.call(self._runner, self._op, [take(operand) for operand in operands], token)
        values += outputs if self._stored is None else [outputs[i] for i in self._stored]
        return []


class PaddedArgument:
    """An argument of which a dimension has another size at each step: it comes padded to the program's capacity."""

    __slots__ = ("_axes", "_input", "_program", "_shape", "position")

    def __init__(self, program: Program, position: int, number: int, value: Any) -> None:
        """``value`` is like those to come; ``number`` is its place among the program's inputs, ``position`` among the
        arguments of the form.
        """
        self.position = position
        self._program = program
        self._input = number
        self._axes = program.open_axes[number]
        self._shape = self.padded(value).array.shape

    def padded(self, value: Any) -> capacities.Padded:
        """The argument for a value, in the capacity that it needs."""
        return capacities.padded(value, self._axes, self._program.capacities, self._input)

    def of(self, value: Any) -> capacities.Padded:
        """The argument for a value.

        Raises:
            OtherShapes: it does not fit in, or the program is to have another capacity.
        """
        padded = self.padded(value)
        if padded.array.shape != self._shape:
            raise OtherShapes
        return padded


class BoundProgram:
    """A program call in a form."""

    __slots__ = (
        "_checks",
        "_device",
        "_known",
        "_padded",
        "_sources",
        "_traced",
        "_where",
        "call",
        "counters",
        "facts",
    )

    def __init__(
        self,
        call: Call,
        sources: list[int],
        checks: list[tuple[int, Any]],
        counters: list[RandomCounter],
        where: Sequence[Any] | None = None,
        padded: Sequence[PaddedArgument] = (),
    ) -> None:
        self.call = call
        self._padded = padded
        self._where = where
        """The device of each argument, where they are on several."""
        self.counters = counters
        self.facts = facts = call.executable.facts
        self._sources = sources
        self._checks = checks
        """Places of values that were computed in the segment, and their shapes."""
        self._device = call.program.device
        self._traced = len(facts.traced_outputs)
        self._known: list[Any] | None = None
        if facts.known_outputs:
            self._known = [facts.known_outputs.get(i) for i in range(len(call.program.outputs))]

    def taken(self, values: Sequence[Any], current: Sequence[Version]) -> list[Any]:
        """What the program is called with, but for padding."""
        if self._device is not None or engine.other_devices_used():
            taken = [values[i] if i >= 0 else current[~i] for i in self._sources]
            return list(on_device(taken, self._device) if self._where is None else on_devices(taken, self._where))
        return [values[i] if i >= 0 else current[~i].for_program() for i in self._sources]

    def arguments(self, values: Sequence[Any], current: Sequence[Version]) -> tuple[Any, ...]:
        """What the program is called with."""
        taken = self.taken(values, current)
        for argument in self._padded:
            taken[argument.position] = argument.of(taken[argument.position])
        return tuple(taken)

    def run(self, values: list[Any], current: Sequence[Version], transaction: Transaction) -> Sequence[int]:
        """Call it and stores what it gives; how far its random streams move."""
        outputs, finals, _ = self.call.run(transaction, *self.prepare(values, current))
        return self.store(values, outputs, finals)

    def prepare(self, values: Sequence[Any], current: Sequence[Version]) -> tuple[tuple[Any, ...], np.ndarray]:
        """Its arguments and random words.

        Raises:
            OtherShapes: it is not for such values.
        """
        self.check(values)
        rng = random_words(self.counters) if self.counters else NO_RNG
        return self.arguments(values, current), rng

    def check(self, values: Sequence[Any]) -> None:
        """Raise OtherShapes if what was computed in the segment has not the shapes that the program is for."""
        for place, shape in self._checks:
            if values[place].shape != shape:
                raise OtherShapes

    def store(self, values: list[Any], outputs: Sequence[Any], finals: Sequence[Any]) -> Sequence[int]:
        """Store what it gave; how far its random streams move."""
        if self._known is None:
            values += outputs if not self.facts.dynamic else outputs[: self._traced]
        else:
            merged = list(self._known)
            for position, value in zip(self.facts.traced_outputs, outputs, strict=False):
                merged[position] = value
            values += merged
        values += finals
        return self.facts.amounts(outputs) if self.counters else ()


class PaddedProgram(BoundProgram):
    """A program that pads the sizes of a step: it has a call for each capacity that has served."""

    __slots__ = ("_giving", "_padding", "calls")

    def __init__(self, giving: Sequence[tuple[int, int]], program: BoundProgram, size: sizes.Size, values: Any) -> None:
        """``giving`` are the places and dimensions of what says the sizes; ``program`` ran for ``size``, and for
        ``values`` of its padded arguments.
        """
        super().__init__(
            program.call, program._sources, program._checks, program.counters, program._where, program._padded
        )
        self._giving = giving
        self._padding = [argument.position for argument in self._padded]
        taken = {at.position: at.padded(value) for at, value in zip(self._padded, values, strict=True)}
        self.calls = {self._key(size, taken): self.call}

    def _key(self, size: sizes.Size, taken: Any) -> Any:
        return sizes.capacity(size), *[taken[i].array.shape for i in self._padding]

    def run(self, values: list[Any], current: Sequence[Version], transaction: Transaction) -> Sequence[int]:
        """Call it for the sizes that there are and stores what it gives, cut to them."""
        size = tuple([values[place].shape[axis] for place, axis in self._giving])
        if not all(size):
            raise OtherShapes
        self.check(values)
        taken = self.taken(values, current)
        for argument in self._padded:
            taken[argument.position] = argument.padded(taken[argument.position])
        call = self.calls.get(self._key(size, taken))
        if call is None or not call.executable.facts.batch.holds(size, call.program.flat_ops):
            raise OtherShapes
        try:
            call.program.pad(taken, size)
        except batches.NotPadded:
            raise OtherShapes from None
        rng = random_words(self.counters) if self.counters else NO_RNG
        outputs, finals, _ = call.run(transaction, tuple(taken), rng)
        facts = call.executable.facts
        exact, known, amounts = facts.batch.cut(outputs, size)
        for position, value in zip(facts.traced_outputs, exact, strict=True):
            known[position] = value
        values += [known[position] for position in range(len(call.program.outputs))]
        values += finals
        return amounts


class Wave:
    """Programs on several devices that run at the same time."""

    def __init__(self, programs: list[tuple[bool, BoundProgram]], rank: Callable[[errors.OpError], float]) -> None:
        """``programs`` come with whether they are called only when the checks of the others have passed."""
        self.programs = [program for _, program in programs]
        self._rank = rank
        self._turns = [
            turn for late in (False, True) if (turn := [i for i, (last, _) in enumerate(programs) if last is late])
        ]

    def run(
        self, values: list[Any], current: Sequence[Version], transaction: Transaction
    ) -> list[tuple[RandomCounter, int]]:
        """Call them and stores what they give; how far random streams move."""
        ready = [program.prepare(values, current) for program in self.programs]
        returned: list[Any] = [None] * len(ready)
        for turn in self._turns:
            calls = [(self.programs[i].call, *ready[i]) for i in turn]
            for i, result in zip(turn, run_wave(calls, transaction, self._rank), strict=True):
                returned[i] = result
        advances: list[tuple[RandomCounter, int]] = []
        for program, (outputs, finals, _) in zip(self.programs, returned, strict=True):
            advances += zip(program.counters, program.store(values, outputs, finals), strict=True)
        return advances
