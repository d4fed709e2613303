"""How often loops of a program may run: numbers in memory that the host can change while the program runs.

XLA cannot be told to stop. On a CPU, however, an argument of a program may be memory of NumPy's, read in place. A loop
that may last counts its iterations and, before each, compares the count with a number that it reads there
(:func:`permits`): `ANY` lets it run on, `NONE` ends it. The number is read from a place that the count chooses, of
several that hold the same: a load from one place that nothing in the loop writes to would be moved out of it by the
compiler, and the change never seen. (Measured, with what else was tried: docs/notes/0017-deadlines.md.)

A loop that was ended so has failed a check (:class:`Stopped`), hence nothing is written. A step that runs in its
caller's thread, where nothing could end it, gives its loops a budget instead: some milliseconds' worth of iterations. A
loop that comes to the end of it is run again, on a thread of its own.

What cannot last (a bound is known, and the modelled price of so many iterations is small) has no limit and costs
nothing. Loops on other devices than CPUs have none either: their memory is not the host's.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.cancellation import CancellationToken
from anabranch.core.graph.operation import Operation
from anabranch.xla import engine
from anabranch.xla.onednn import convolutions

ANY, NONE = 2**31 - 1, -(2**31)
PLACES = 16
"""How many numbers there are, all the same."""
SHORT = 0.25
"""Seconds, as modelled, that a loop may take without a limit."""
BUDGET = 0.005
"""Seconds, as modelled, that loops may take in the thread of a caller."""
# Seconds, from measurements on two x86 cores.
PER_EQUATION = 50e-9
PER_ELEMENT = 1e-9
PER_FLOP = 3e-11
_MOST_KEPT = 64


class Stopped(Exception):
    """A loop has come to its limit."""

    def __init__(self, node_def: Any, op: Operation, text: str) -> None:
        super().__init__(text)
        self.op = op


class TooLong(Exception):
    """A step that was to be brief is not; it has done nothing."""


class Limits:
    """What a trace finds out about the loops of a program."""

    def __init__(self) -> None:
        self.used = False
        """Whether there is a loop with a limit."""
        self.budget = ANY
        """How many iterations are a budget's worth; 0 if no such number holds for all loops."""

    def add(self, iteration: float, inside: bool) -> None:
        """Note a loop whose iterations take so many seconds; ``inside`` another loop, counts begin anew each time."""
        self.used = True
        budget = 0 if inside else max(1, int(BUDGET / max(iteration, 1e-9)))
        self.budget = min(self.budget, 1 << budget.bit_length() - 1 if budget else 0)


def permits(limit: Any, done: Any) -> Any:
    """Whether a traced loop that has run ``done`` times may go on."""
    lax = engine.jax().lax
    return done <= lax.dynamic_index_in_dim(limit, done & (PLACES - 1), 0, keepdims=False)


def price(jaxpr: Any) -> float:
    """Seconds that running a jaxpr takes, as modelled; inner loops whose ends are not known count once."""
    total = 0.0
    for equation in jaxpr.eqns:
        inner = [getattr(value, "jaxpr", value) for value in _values(equation.params)]
        inner = [value for value in inner if hasattr(value, "eqns")]
        name = equation.primitive.name
        total += PER_EQUATION + PER_ELEMENT * sum(_size(variable.aval) for variable in equation.outvars)
        if name == "dot_general":
            (contracted, _), _ = equation.params["dimension_numbers"]
            shape = equation.invars[0].aval.shape
            rows = _size(equation.outvars[0].aval)
            total += PER_FLOP * 2 * rows * float(np.prod([shape[axis] for axis in contracted], initial=1.0))
        elif name == "conv_general_dilated":
            kernel, out = equation.invars[1].aval, equation.outvars[0].aval
            features = equation.params["dimension_numbers"].rhs_spec[0]
            total += PER_FLOP * 2 * _size(out) * _size(kernel) / max(1, kernel.shape[features])
        elif name in convolutions.KINDS:
            total += PER_FLOP * convolutions.flops(equation)
        elif inner:
            times = equation.params.get("length", 1) if name == "scan" else 1
            prices = [price(value) for value in inner]
            total += times * (max(prices) if name == "cond" else sum(prices))
    return total


def _values(params: dict[str, Any]) -> Iterator[Any]:
    for value in params.values():
        yield from value if isinstance(value, (tuple, list)) else (value,)


def _size(aval: Any) -> float:
    return float(np.prod(getattr(aval, "shape", ()), initial=1.0))


# ------------------------------------------------------------------------------------------------------- when it runs
class _Numbers:
    """The numbers, as NumPy and as XLA see them: one piece of memory."""

    def __init__(self, value: int) -> None:
        self.numbers = engine.empty((PLACES,), np.int32)  # what is not aligned XLA copies
        self.numbers[:] = value
        self.array = engine.jax().dlpack.from_dlpack(self.numbers)
        if self.array.unsafe_buffer_pointer() != self.numbers.ctypes.data:
            raise errors.InternalError(None, None, "XLA has copied the limits of loops, which then cannot be changed")

    def stop(self) -> None:
        """End all loops that look here."""
        self.numbers[:] = NONE


_kept: list[_Numbers] = []
_lock = threading.Lock()


@functools.cache
def fixed(value: int) -> Any:
    """A limit that nobody changes, as an argument of a program."""
    return _Numbers(value).array


@contextlib.contextmanager
def ended_by(token: CancellationToken) -> Iterator[Any]:
    """A limit, as an argument of a program, that ends loops when the step is cancelled."""
    with _lock:
        limit = _kept.pop() if _kept else None
    if limit is None:
        limit = _Numbers(ANY)
    with token.on_cancel(limit.stop):
        if token.cancelled:
            limit.stop()
        yield limit.array
    limit.numbers[:] = ANY
    with _lock:
        if len(_kept) < _MOST_KEPT:
            _kept.append(limit)
