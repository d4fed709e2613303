"""Buffers for the new values of variables whose old ones somebody still reads: what a save in the background costs.

A program is given the buffers of the variables that it replaces, and may not have those that are pinned. Copying a
pinned value first, so that the program can have the copy, costs the step more than the copy: most of it goes to memory
that the process has never touched. So programs of graphs with asynchronous savers are compiled a second time in the
background, to read their variables' old values and write the new ones into *spare* buffers, which are made there, too.
When a save has written an old value, its buffer is the next spare one. So one more copy of the variables is held all
the time, the memory that the first save would need anyway. Devices other than CPUs hand out memory at once: there,
nothing is spare, and the second form of the program only takes nothing.

Until the background is done, and for variables of less than `LARGE` bytes together, a step copies.
"""

from __future__ import annotations

import collections
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.xla import background, engine
from anabranch.xla.program import UNTRACEABLE

LARGE = 1 << 24
"""Bytes of a program's variables from which on it is worth a second form."""

SMALL = 1 << 16
"""Bytes under which a copy is NumPy's."""

_expecting: weakref.WeakSet[Any] = weakref.WeakSet()
_any_expected = False


def expect(graph: Any) -> None:
    """Says that values of the graph's variables will be read while steps go on."""
    global _any_expected
    _any_expected = True
    _expecting.add(graph)


def unexpected() -> bool:
    """Whether nobody in the process has ever said so."""
    return not _any_expected


class Spares:
    """The spare buffers of a resource manager; may be used by several threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._kept: dict[Any, list[Any]] = {}
        self._for: dict[Any, Any] = {}
        """The variables for which there are buffers, by the ops that make them, and what kind of buffer it is."""
        self.prepared: weakref.WeakSet[Any] = weakref.WeakSet()
        """What was found out about programs that have been prepared."""

    def reserve(self, makers: Sequence[Any], arrays: Sequence[Any]) -> list[tuple[Any, Any]]:
        """Make room for buffers of variables with these values; shapes and dtypes of those that are to be made."""
        missing = []
        with self._lock:
            for maker, array in zip(makers, arrays, strict=True):
                key = _key_of(array)
                if key is not None and maker not in self._for:
                    self._for[maker] = key
                    missing.append((array.shape, array.dtype))
        return missing

    def put(self, array: Any) -> None:
        """Keep the buffer of an array that nobody needs any more, if there is room for one like it."""
        key = _key_of(array)
        with self._lock:
            kept = self._kept.setdefault(key, [])
            if len(kept) < sum(other == key for other in self._for.values()):
                kept.append(array)

    def take(self, arrays: Sequence[Any]) -> tuple[Any, ...] | None:
        """A buffer for each of the arrays, all on one CPU; None if there are not enough."""
        with self._lock:
            wanted = collections.Counter(_key_of(array) for array in arrays)
            if None in wanted or any(len(self._kept.get(key, ())) < count for key, count in wanted.items()):
                return None
            return tuple([self._kept[_key_of(array)].pop() for array in arrays])

    def clear(self) -> None:
        """Drop all."""
        with self._lock:
            self._kept.clear()
            self._for.clear()
            self.prepared.clear()


def _key_of(array: Any) -> Any:
    """What arrays whose buffers can stand for each other have in common; None if it is not in a CPU's memory."""
    if isinstance(array, np.ndarray):
        return None
    devices = array.devices()
    device = next(iter(devices))
    if len(devices) != 1 or device.platform != "cpu":
        return None
    return array.shape, array.dtype, device


def handed(
    manager: Any,
    program: Any,
    executable: Any,
    versions: Sequence[Any],
    old: Sequence[Any],
    arguments: tuple[Any, ...],
    rng: np.ndarray,
    whole: bool = True,
    gated: bool = False,
) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """What to call for a step, and its first argument: the variables' values, of which the free ones are given away.

    Args:
        old: the versions' values, on the program's device.
        whole: whether ``arguments`` are all that the program is made for: nothing was known when it was compiled.
    """
    granted = manager.take(versions)
    mine = [free or value is not version.value for value, version, free in zip(old, versions, granted, strict=True)]
    facts = executable.facts
    if all(mine):
        if _expecting and whole and facts not in manager.spares.prepared:
            _prepare_if_expected(manager, program, executable, old, arguments, rng, gated)
        return executable.function, tuple(old)
    spare = facts.spare if whole else None
    if spare is not None:
        buffers = manager.spares.take(old) if program.platform == "cpu" else ()
        if buffers is not None:
            return _Keeping(spare, buffers), tuple(old)
    if whole:
        _prepare_if_expected(manager, program, executable, old, arguments, rng, gated)
    copy = _host_copy if program.platform == "cpu" and program.device is None else engine.jax().numpy.copy
    return executable.function, tuple([value if own else copy(value) for value, own in zip(old, mine, strict=True)])


def _host_copy(value: Any) -> Any:
    """A copy that a program on the default CPU may have: of a small array NumPy's, which takes a tenth of the time."""
    return np.array(value) if value.nbytes < SMALL else engine.jax().numpy.copy(value)


class _Keeping:
    """The form of a program that leaves old values alone, as a function of the same arguments."""

    def __init__(self, function: Any, buffers: tuple[Any, ...]) -> None:
        self._function = function
        self._buffers = buffers

    def __call__(self, old: tuple[Any, ...], *rest: Any) -> Any:
        buffers, self._buffers = self._buffers, ()
        results, finals, flags = self._function(buffers, old, *rest)
        copy = engine.jax().numpy.copy
        # A value that is handed on as it came is still the old version's.
        finals = tuple([copy(final) if any(final is value for value in old) else final for final in finals])
        return results, finals, flags


def _prepare_if_expected(
    manager: Any, program: Any, executable: Any, old: Sequence[Any], arguments: Any, rng: np.ndarray, gated: bool
) -> None:
    """Start to compile the second form and to make spare buffers, once for each program and manager."""
    facts = executable.facts
    if not program.group.ops or program.group.ops[0].graph not in _expecting or facts in manager.spares.prepared:
        return
    if program.platform == "cpu" and any(_key_of(value) is None for value in old):
        return  # what an initializer made on the host; after this step, it will be the device's
    manager.spares.prepared.add(facts)
    if sum(value.nbytes for value in old) < LARGE or facts.guessed or facts.dynamic:
        return
    if not all(isinstance(value, np.ndarray) or hasattr(value, "devices") for value in arguments):
        return  # values with a form of their own, as lists of tensors have
    jax = engine.jax()
    like = [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in old]
    inputs = [jax.ShapeDtypeStruct(value.shape, value.dtype) for value in arguments]
    makers = [key.maker for key in program.donated_keys]
    wanted = manager.spares.reserve(makers, old) if program.platform == "cpu" else []

    def work() -> None:
        if facts.spare is None:
            try:
                executable = program.keeping(like, inputs, rng, gated)
            except UNTRACEABLE:  # the shapes alone do not tell enough
                return
            if not _equal(executable.facts, facts):
                return
            facts.spare = executable.function
        with engine.x64(), jax.default_device(engine.jax_device(program.device)):
            for shape, dtype in wanted:
                array = jax.numpy.zeros(shape, dtype)
                engine.wait_for(array)
                manager.spares.put(array)

    background.start(work, "anabranch-spares")


def _equal(one: Any, other: Any) -> bool:
    """Whether two traces of a program found the same results and checks."""
    return (
        one.traced_outputs == other.traced_outputs
        and one.consumed == other.consumed
        and not one.dynamic
        and len(one.records) == len(other.records)
        and one.known_outputs.keys() == other.known_outputs.keys()
    )


__all__ = ["LARGE", "Spares", "expect", "handed"]
