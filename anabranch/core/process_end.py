"""What the end of a process costs: the interpreter's last search for garbage.

Policy. A process that has run a step holds some 150,000 objects that Python's collector visits, nearly all of them
code: ops, their attributes, the modules that they are from. When the interpreter ends it takes all of them apart and
searches them for cycles several times, which takes half as much CPU time as a small program before it. The system frees
the memory anyway.

So the objects are withdrawn from the collector (``gc.freeze``) after everybody else's ``atexit`` functions, *unless
something is there that does anything when it is freed*: a file that is open, a generator that has not ended, an object
with ``__del__``. What is not part of a cycle is freed as ever.
"""

from __future__ import annotations

import atexit
import gc
import io
import sys
import types
from typing import Any

_WITHOUT_EFFECT = frozenset(["jax", "jaxlib", "grpc", "socket"])
"""Packages whose objects only free memory when they are freed, or close what the end of the process closes as well."""


def _standard_streams() -> set[int]:
    """The identities of the process's own streams and of what they are made of."""
    found = set()
    for name in ("stdin", "stdout", "stderr"):
        for stream in (getattr(sys, name, None), getattr(sys, f"__{name}__", None)):
            while stream is not None and id(stream) not in found:
                found.add(id(stream))
                stream = getattr(stream, "buffer", None) or getattr(stream, "raw", None)
    return found


def _has_no_effect(item: Any) -> bool:
    """Whether an object with a finaliser is known to do nothing when it is freed."""
    if isinstance(item, io.IOBase):
        return item.closed
    if isinstance(item, types.GeneratorType):
        frame = item.gi_frame
        return frame is None or str(frame.f_globals.get("__name__")).partition(".")[0] in _WITHOUT_EFFECT
    return type(item).__module__.partition(".")[0] in _WITHOUT_EFFECT


def must_be_freed(objects: list[Any]) -> Any:
    """The first of the objects that does something when it is freed; None if there is none."""
    finalised = {kind for kind in {type(item) for item in objects} if hasattr(kind, "__del__")}
    streams = _standard_streams()
    for item in objects:
        if type(item) in finalised and id(item) not in streams and not _has_no_effect(item):
            return item
    return None


def _end() -> None:
    if must_be_freed(gc.get_objects()) is None:
        gc.freeze()


def shorten() -> None:
    """Register what shortens the end. Functions registered later are called before it."""
    atexit.register(_end)
