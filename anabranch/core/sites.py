"""Where in the user's program something was made, and the tracebacks that a user sees.

Policy. Each operation keeps its *site*: the user's part of the stack at the moment it was made. Capturing it must cost
next to nothing, because it happens for each operation and is read only when something fails. So `capture` stores pairs
of code object and instruction offset, and everything that a reader wants (file, line, source text) is worked out late.
The pairs keep no frame and no local variable alive.

A frame is *internal* if its code stands in the package's own folder, and so is a frame of the interpreter's own making
(`<frozen importlib>`); everything else is the user's: scripts, notebooks, tests, and other libraries, as a library that
builds a graph is a user of this package. A site of internal frames only (a graph that the package builds on its own
thread) keeps its innermost ones, so that it is never empty.

Tracebacks are filtered once, where the public API begins: of a run of internal frames the first and the last stay. The
environment variable `ANABRANCH_FULL_TRACEBACK=1`, or `set_full_traceback(True)`, turns that off.
"""

from __future__ import annotations

import functools
import linecache
import os
import sys
from collections.abc import Callable
from types import CodeType, TracebackType
from typing import Any, NamedTuple, TypeVar

from anabranch.core.cache import memoized

__all__ = [
    "Frame",
    "Site",
    "capture",
    "filtered_traceback",
    "full_traceback",
    "is_internal",
    "restored",
    "set_full_traceback",
]

MAX_FRAMES = 10
_PACKAGE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")

F = TypeVar("F", bound=Callable[..., Any])


class Frame(NamedTuple):
    """One line of a site: file, line number (1-based), function and source text ('' if it cannot be read)."""

    filename: str
    lineno: int
    function: str
    line: str

    def __str__(self) -> str:
        text = f'File "{self.filename}", line {self.lineno}, in {self.function}'
        return f"{text}: {self.line}" if self.line else text


def is_internal(code: CodeType) -> bool:
    """Return whether the code belongs to the package (or to the interpreter's importer), not to its user."""
    return _is_internal_file(code.co_filename)


# By file name, not by code object: hashing a code object hashes all its constants, and code of equal text in two files
# compares equal. A program has a bounded number of files; a notebook has one per cell, hence the bound.
@memoized("files of user or package", 20_000)
def _is_internal_file(filename: str) -> bool:
    path = os.path.abspath(filename)
    inside = path.startswith(_PACKAGE) and f"{os.sep}tests{os.sep}" not in path[len(_PACKAGE) - 1 :]
    return inside or filename.startswith("<frozen ")


class Site:
    """The user's part of the stack at one moment, innermost frame first."""

    __slots__ = ("_frames", "_pairs")

    def __init__(self, pairs: tuple[Any, ...]) -> None:
        """Create a site from code objects and instruction offsets, alternating, innermost first."""
        self._pairs = pairs
        self._frames: list[Frame] | None = None

    def frames(self) -> list[Frame]:
        """Return the frames with their lines, innermost first."""
        if self._frames is None:
            pairs = self._pairs
            self._frames = [_resolve(pairs[i], pairs[i + 1]) for i in range(0, len(pairs), 2)]
        return self._frames

    def frames_with_starts(self) -> list[tuple[Any, ...]]:
        """Return the frames like :meth:`frames`, each with its function's first line."""
        frames, pairs = self.frames(), self._pairs
        starts = [pairs[i].co_firstlineno for i in range(0, len(pairs), 2)] or [frame.lineno for frame in frames]
        return [(*frame, start) for frame, start in zip(frames, starts, strict=True)]

    def user_line(self) -> Frame | None:
        """Return the innermost frame: the line of the user's program that did it."""
        frames = self.frames()
        return frames[0] if frames else None

    def full(self) -> str:
        """Return all frames, a line each, innermost last as in a Python traceback."""
        return "\n".join(map(str, reversed(self.frames())))

    def __str__(self) -> str:
        line = self.user_line()
        return "" if line is None else str(line)

    def __repr__(self) -> str:
        return f"<Site {self}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return restored, (self.frames(),)  # code objects do not travel, lines do


def restored(frames: list[Frame]) -> Site:
    """Return the site that has these frames, innermost first."""
    site = Site(())
    site._frames = frames
    return site


def _resolve(code: CodeType, offset: int) -> Frame:
    lineno = code.co_firstlineno
    for start, end, line in code.co_lines():
        if start <= offset < end:
            lineno = line or lineno
            break
    linecache.checkcache(code.co_filename)
    return Frame(code.co_filename, lineno, code.co_qualname, linecache.getline(code.co_filename, lineno).strip())


def capture(skip: int = 1) -> Site:
    """Return the user's part of the current stack, at most `MAX_FRAMES` frames; `skip` frames are left out (1: itself).

    Costs 2 to 3 µs, and 0.05 µs more for each internal frame it passes.
    """
    frame = sys._getframe(skip)
    pairs: list[Any] = []
    internal = _is_internal_file
    room = MAX_FRAMES
    while frame is not None:
        code = frame.f_code
        if not internal(code.co_filename):
            pairs.append(code)
            pairs.append(frame.f_lasti)
            room -= 1
            if not room:
                break
        frame = frame.f_back  # type: ignore[assignment]
    if not pairs:
        return _capture_internal(skip + 1)
    return Site(tuple(pairs))


def _capture_internal(skip: int) -> Site:
    frame = sys._getframe(skip)
    pairs: list[Any] = []
    while frame is not None and len(pairs) < 4:
        pairs += (frame.f_code, frame.f_lasti)
        frame = frame.f_back  # type: ignore[assignment]
    return Site(tuple(pairs))


_full_traceback = os.environ.get("ANABRANCH_FULL_TRACEBACK", "") not in ("", "0")


def full_traceback() -> bool:
    """Return whether tracebacks keep the package's own frames."""
    return _full_traceback


def set_full_traceback(enabled: bool) -> None:
    """Keep the package's own frames in tracebacks, or filter them out (the default).

    The environment variable `ANABRANCH_FULL_TRACEBACK=1` sets it when the package is loaded.
    """
    global _full_traceback
    _full_traceback = bool(enabled)


def filter_traceback(traceback: TracebackType | None) -> TracebackType | None:
    """Return the traceback with only the first and last of each run of internal frames, and without the filter's."""
    entries = []
    while traceback is not None:
        if traceback.tb_frame.f_code is not _WRAPPER:
            entries.append(traceback)
        traceback = traceback.tb_next
    internal = [is_internal(entry.tb_frame.f_code) for entry in entries]
    last = len(entries) - 1
    shortened = None
    for i in range(last, -1, -1):
        if not (internal[i] and 0 < i < last and internal[i - 1] and internal[i + 1]):
            entry, frame = entries[i], entries[i].tb_frame
            # An instruction that stands for no line (a jump, the end of a block) has none; an interrupt may come there.
            lineno: int | None = entry.tb_lineno
            lineno = frame.f_code.co_firstlineno if lineno is None else lineno
            shortened = TracebackType(shortened, frame, entry.tb_lasti, lineno)
    return shortened


class _FilteredTraceback:
    """Both uses of `filtered_traceback`: `with filtered_traceback:` and `@filtered_traceback`."""

    __slots__ = ()

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: Any) -> None:
        if error is not None and not _full_traceback:
            _filter_chain(error)

    def __call__(self, function: F) -> F:
        """Return the function with its tracebacks filtered when it is the user who calls it."""

        @functools.wraps(function)
        def filtered(*args: Any, **kwargs: Any) -> Any:
            try:
                return function(*args, **kwargs)
            except BaseException as error:
                if not _full_traceback and not is_internal(sys._getframe(1).f_code):
                    _filter_chain(error)
                raise

        return filtered  # type: ignore[return-value]


def _filter_chain(error: BaseException) -> None:
    """Filter the traceback of an error and of the errors that led to it."""
    seen: set[int] = set()
    todo: list[BaseException | None] = [error]
    while todo:
        e = todo.pop()
        if e is None or id(e) in seen:
            continue
        seen.add(id(e))
        e.__traceback__ = filter_traceback(e.__traceback__)
        todo += (e.__cause__, e.__context__)


filtered_traceback = _FilteredTraceback()
# All wrappers share one code object, which this finds in the constants of the method that makes them.
_WRAPPER = next(c for c in _FilteredTraceback.__call__.__code__.co_consts if isinstance(c, CodeType))
