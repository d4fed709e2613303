"""Memory: whether a program's values can exist, and what the process keeps of what it has freed.

*Sizes.* A program is asked once, when it is compiled, about every value that its trace holds. There are two bounds. *No
value may have an extent of* :data:`~anabranch.core.values.sizes.MOST_BYTES` *or more*, an intermediate one included:
XLA ends the process when it multiplies such sizes. The jaxpr has every value, those that our lowerings make on the way
as well. Only where an op ahead of it makes a check, which may fail first, the ops run one by one, and the first that
fails says so. *What a compiled program asks for must fit into the memory of its device*: the values that XLA did not
fuse away. A step that cannot succeed so fails before it is called, while its variables still own their buffers.

*Freed memory.* Training on the CPU gains much from keeping freed memory in the process.
The C library gives large freed blocks back to the system and takes them again at the next step; the page faults then
cost more than many a kernel. With one arena, no separate mappings for large blocks and no trimming, a freed block is
simply there again. The price: free blocks stay with the process until it says :func:`release_memory` (closing a session
does), and threads share one lock for allocations. A library must not decide that for the program that it is part of, so
it is a choice of the program (``tf.keep_memory()`` first of all, or ANABRANCH_KEEP_MEMORY=1) and the default only of
processes that are there for it: ``anabranch run``, and tasks of clusters (ANABRANCH_KEEP_MEMORY=0 turns it off).
Figures stand in docs/performance.md.
"""

from __future__ import annotations

import ctypes
import heapq
import os
import platform
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Operation
from anabranch.core.values import sizes

# Numbers of glibc's <malloc.h>.
_TRIM_THRESHOLD = -1
_MMAP_MAX = -4
_ARENA_MAX = -8

_kept = False


@public("keep_memory")
def keep_memory() -> bool:
    """Tell the C library to keep freed memory for the process. Call it before anything is compiled.

    Returns:
        Whether it took effect: True on Linux with glibc, False elsewhere.

    Raises:
        RuntimeError: JAX is loaded already, and with it the arenas that this would prevent.

    Example:
        >>> import anabranch as tf
        >>> tf.keep_memory() in (True, False)  # doctest: +SKIP
        True
    """
    global _kept
    if _kept:
        return True
    if "jax" in sys.modules:
        raise RuntimeError(
            errors.message(
                "tf.keep_memory() after JAX was loaded",
                "a call before the first compiled run, and before any import of jax",
                "call it right after `import anabranch as tf`, or set ANABRANCH_KEEP_MEMORY=1",
            )
        )
    if not sys.platform.startswith("linux") or platform.libc_ver()[0] != "glibc":
        return False
    mallopt = ctypes.CDLL(None).mallopt
    _kept = all([mallopt(_ARENA_MAX, 1), mallopt(_MMAP_MAX, 0), mallopt(_TRIM_THRESHOLD, 2**31 - 1)])
    return _kept


def keep_if_asked(default: str = "0") -> None:
    """Do it if the environment variable ANABRANCH_KEEP_MEMORY is set to 1; called before JAX is first imported."""
    if os.environ.get("ANABRANCH_KEEP_MEMORY", default) == "1" and "jax" not in sys.modules:
        keep_memory()


@public("release_memory")
def release_memory() -> bool:
    """Give free memory that :func:`keep_memory` keeps back to the system now; closing a session does it, too.

    Returns:
        Whether any was given back; False if memory is not kept, as then there is none.
    """
    return _kept and bool(ctypes.CDLL(None).malloc_trim(0))


# --------------------------------------------------------------------------------------------------- values of programs
SHOWN = 3
"""Values that an error lists."""
SCOPE = "op"
"""Name scopes ``op0``, ``op1``, ... say which op an equation belongs to."""


class Impossible(NotImplementedError):
    """A value of a program is larger than anything can be, but an op ahead of it may fail first."""


class _Value(NamedTuple):
    """A value of a jaxpr."""

    size: int
    shape: tuple[int, ...]
    dtype: Any
    scope: str


def inner_jaxprs(params: dict[str, Any]) -> Iterator[Any]:
    """The jaxprs in an equation's parameters."""
    for value in params.values():
        for one in value if isinstance(value, (tuple, list)) else (value,):
            jaxpr = getattr(one, "jaxpr", one)
            if hasattr(jaxpr, "eqns"):
                yield jaxpr


def impossible(jaxpr: Any, scope: str = "") -> _Value | None:
    """The first value of a jaxpr, or of the jaxprs inside, that is larger than anything can be."""
    for equation in jaxpr.eqns:
        for variable in equation.outvars:
            aval = variable.aval
            shape = getattr(aval, "shape", ())
            if shape and sizes.extent(shape, aval.dtype) >= sizes.MOST_BYTES:
                within = f"{scope}/{equation.source_info.name_stack}"
                return _Value(sizes.byte_size(shape, aval.dtype), tuple(shape), aval.dtype, within)
        for other in inner_jaxprs(equation.params):
            problem = impossible(other, f"{scope}/{equation.source_info.name_stack}")
            if problem is not None:
                return problem
    return None


def refuse(
    jaxpr: Any, ops: Sequence[Operation], may_fail_before: Callable[[Operation | None], bool] | None = None
) -> None:
    """Raise if a value of a jaxpr is larger than anything can be.

    Args:
        jaxpr: has the name scopes of :data:`SCOPE`.
        ops: its ops, by the numbers in these.
        may_fail_before: whether an op ahead of one (None: of any) makes a check.

    Raises:
        ResourceExhaustedError: one is. Impossible: one is, and an op ahead of it makes a check that may fail first.
    """
    value = impossible(jaxpr)
    if value is None:
        return
    op = _owner(value, ops) or (ops[0] if len(ops) == 1 else None)
    shown = sizes.shown([(value.shape, value.dtype)])
    if may_fail_before is not None and may_fail_before(op):
        raise Impossible(f"a value of {shown} cannot exist")
    of = f"{op.type} {op.name!r}" if op is not None else "a program"
    raise sizes.exhausted(op, f"{of} with a value of {shown}", sizes.MOST_BYTES)


def require_memory(
    compiled: Any, device: Any, ops: Sequence[Operation], traced: Callable[[], Any] | None = None
) -> None:
    """Ask whether what a compiled program needs besides its arguments can fit into its device's memory.

    Args:
        compiled: the program.
        device: its JAX device.
        ops: its ops, by the numbers in the name scopes of ``traced``.
        traced: gives the jaxpr, with such scopes, for the error's text.

    Raises:
        ResourceExhaustedError: it cannot.
    """
    try:
        needs = compiled.memory_analysis()
    except (NotImplementedError, RuntimeError):  # a backend that does not tell
        return
    if needs is None:
        return
    needed = needs.temp_size_in_bytes + needs.output_size_in_bytes - needs.alias_size_in_bytes
    there = memory_of(device)
    if needed <= there:
        return
    largest = heapq.nlargest(SHOWN, _values(traced())) if traced is not None else []
    owners = [_owner(value, ops) for value in largest]
    largest_values = "".join(
        f"\n{sizes.shown([(value.shape, value.dtype)])}" + (f" of {op.type} {op.name!r}" if op is not None else "")
        for value, op in zip(largest, owners, strict=True)
    )
    raise sizes.exhausted(
        next((op for op in owners if op is not None), None),
        f"a program of {len(ops)} ops that needs {sizes.in_units(needed)}; its largest values are{largest_values}",
        there,
    )


def memory_of(device: Any) -> int:
    """Bytes that programs on a JAX device can have at most."""
    if device.platform == "cpu":
        return sizes.host_memory()
    stats = device.memory_stats() or {}
    return int(stats.get("bytes_limit", sizes.MOST_BYTES))


def _values(jaxpr: Any, scope: str = "") -> Iterator[_Value]:
    for equation in jaxpr.eqns:
        within = f"{scope}/{equation.source_info.name_stack}"
        inner = list(inner_jaxprs(equation.params))
        for other in inner:
            yield from _values(other, within)
        for variable in equation.outvars if not inner else ():
            shape = getattr(variable.aval, "shape", ())
            if shape:
                dtype = variable.aval.dtype
                yield _Value(sizes.byte_size(shape, dtype), tuple(shape), dtype, within)


def _owner(value: _Value, ops: Sequence[Operation]) -> Operation | None:
    numbers = re.findall(rf"\b{SCOPE}(\d+)\b", value.scope)
    return ops[int(numbers[-1])] if numbers else None
