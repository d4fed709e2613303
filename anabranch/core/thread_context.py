"""What a thread that works for another one takes over from it: the default graph, the default session and the like.

Modules that keep something by thread register how it is read and set; the variables of :mod:`contextvars` come along,
too.
"""

from __future__ import annotations

import contextvars
from collections.abc import Callable
from typing import Any

_kept: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []


def keep(read: Callable[[], Any], write: Callable[[Any], None]) -> None:
    """Register what is kept by thread: ``read`` gives it, ``write`` sets it in another thread."""
    _kept.append((read, write))


def capture() -> Callable[[Callable[[], Any]], Any]:
    """What surrounds the calling thread now: calls a function in another thread as if it were in this one."""
    context = contextvars.copy_context()
    values = [read() for read, _ in _kept]

    def call(work: Callable[[], Any]) -> Any:
        before = [read() for read, _ in _kept]
        try:
            for (_, write), value in zip(_kept, values, strict=False):
                write(value)
            return context.run(work)
        finally:
            for (_, write), value in zip(_kept, before, strict=False):
                write(value)

    return call
