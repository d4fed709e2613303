"""A folder of the user's for what can be computed again: files keyed by content, bounded, trusted only if nobody else
can write to them.

What is kept there is machine code that will be run. So a folder is used only if it is the user's own (same user, mode
0700, no link), and no folder above it lets others put another in its place; a file is used only if it is the user's
own, too, and its checksum holds. Anybody else's folder is refused with one warning; a home that cannot be written to
costs one note and no failure. Whoever can write as this user can do all that this user can do, with or without a cache.

A file is written beside its place and moved there, so that two processes which write the same one disturb nobody. One
that is torn, cut off, or of another kind is a miss, and is removed. When the files together exceed `LIMIT`, those that
were used longest ago go first.

``ANABRANCH_CACHE`` switches: ``off``, or the folder to use. Without it the folder is where the system keeps such files:
``$XDG_CACHE_HOME`` or ``~/.cache``, ``~/Library/Caches`` on macOS, ``%LOCALAPPDATA%`` on Windows (where a profile is
its user's, and modes say nothing: they are not looked at).
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import logging
import os
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from anabranch.core import errors

SWITCH = "ANABRANCH_CACHE"
LIMIT = 2 << 30
"""Bytes of all files together."""
_MAGIC = b"ANABXLA1"
_SUFFIX = ".xla"
_ABANDONED = 3600.0
"""Seconds after which a file that was never finished is nobody's."""

_log = logging.getLogger("anabranch")


class Info(NamedTuple):
    """What there is to know of a cache."""

    folder: str | None
    why_off: str
    """Why it is not used; empty if it is."""
    entries: int
    size: int
    limit: int


class _Refused(Exception):
    """The folder is not to be trusted: why."""


class DiskCache:
    """The files in one folder; may be used by several threads and processes. None of its methods fails for the disk's
    sake.
    """

    def __init__(self, folder: Path | None, why_off: str = "", limit: int = LIMIT) -> None:
        self.folder = folder
        self.limit = limit
        self.why_off = why_off if folder is None else ""
        self.hits = 0
        self.misses = 0
        self._lock = threading.Lock()
        self._is_open = False

    def _open(self, create: bool) -> bool:
        """Whether the folder is there and may be used. What is wrong with it is told once."""
        if self.folder is None:
            return False
        with self._lock:
            if self.why_off:
                return False
            if self._is_open:
                return True
            try:
                if create:
                    self.folder.parent.mkdir(parents=True, exist_ok=True)
                    with contextlib.suppress(FileExistsError):
                        self.folder.mkdir(mode=0o700)
                elif not self.folder.exists():
                    return False
                _refuse_others(self.folder)
            except OSError as problem:
                self.why_off = f"{self.folder} cannot be used: {problem.strerror or problem}"
                _log.info("Compiled programs are not kept on disk: %s", self.why_off)
                return False
            except _Refused as problem:
                self.why_off = str(problem)
                _log.warning("Compiled programs are not kept on disk: %s", self.why_off)
                return False
            self._is_open = True
            return True

    def _path(self, key: str) -> Path:
        assert self.folder is not None
        return self.folder / (key + _SUFFIX)

    @functools.cached_property
    def was_empty(self) -> bool:
        """Whether it kept nothing when this was first asked."""
        return not self._open(create=False) or not self._files()

    def has(self, key: str) -> bool:
        """Whether there is a file, good or not."""
        return self._open(create=False) and self._path(key).exists()

    def get(self, key: str) -> bytes | None:
        """The content that was put under ``key``; None if there is none that is whole."""
        content = self._read(key) if self._open(create=False) else None
        if content is None:
            self.misses += 1
        else:
            self.hits += 1
        return content

    def _read(self, key: str) -> bytes | None:
        path = self._path(key)
        try:
            with open(
                os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)), "rb"
            ) as file:
                if not _is_own_file(os.fstat(file.fileno())):
                    return None
                stored = file.read()
        except OSError:
            return None
        digest, content = stored[len(_MAGIC) : len(_MAGIC) + 32], stored[len(_MAGIC) + 32 :]
        if not stored.startswith(_MAGIC) or hashlib.sha256(content).digest() != digest:
            self.remove(key)
            return None
        with contextlib.suppress(OSError):
            os.utime(path)
        return content

    def put(self, key: str, *parts: bytes) -> None:
        """Keep what the parts make together."""
        if not self._open(create=True):
            return
        digest = hashlib.sha256()
        for part in parts:
            digest.update(part)
        size = len(_MAGIC) + 32 + sum(map(len, parts))
        if size > self.limit:
            return
        temporary = None
        try:
            handle, temporary = tempfile.mkstemp(".tmp", key[:8], self.folder)
            with open(handle, "wb") as file:
                for part in (_MAGIC, digest.digest(), *parts):
                    file.write(part)
            os.replace(temporary, self._path(key))
            self._shrink()
        except OSError as problem:  # a full disk; a folder that has gone
            _log.info("A compiled program is not kept on disk: %s", problem)
            if temporary is not None:
                with contextlib.suppress(OSError):
                    os.unlink(temporary)

    def remove(self, key: str) -> None:
        """Remove a file that is of no use."""
        with contextlib.suppress(OSError):
            self._path(key).unlink()

    def _files(self, suffixes: Sequence[str] = (_SUFFIX,)) -> list[tuple[float, int, str]]:
        """When each was used last, its size and its path; the oldest first."""
        files = []
        with contextlib.suppress(OSError), os.scandir(self.folder) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):  # another process has removed it
                    if entry.name.endswith(tuple(suffixes)) and entry.is_file(follow_symlinks=False):
                        known = entry.stat(follow_symlinks=False)
                        files.append((known.st_mtime, known.st_size, entry.path))
        return sorted(files)

    def _shrink(self) -> None:
        files = self._files()
        size = sum(size for _, size, _ in files)
        unfinished = [file for file in self._files((".tmp",)) if file[0] < time.time() - _ABANDONED]
        for _, _, path in unfinished:
            with contextlib.suppress(OSError):
                os.unlink(path)
        for _, freed, path in files:
            if size <= self.limit:
                return
            with contextlib.suppress(OSError):
                os.unlink(path)
            size -= freed

    def info(self) -> Info:
        """What is there."""
        self._open(create=False)
        files = self._files() if self.folder is not None and not self.why_off else []
        return Info(
            None if self.folder is None else str(self.folder),
            self.why_off,
            len(files),
            sum(size for _, size, _ in files),
            self.limit,
        )

    def clear(self) -> Info:
        """Remove all files; what there was."""
        info = self.info()
        if not info.why_off and self.folder is not None:
            for _, _, path in self._files((_SUFFIX, ".tmp")):
                with contextlib.suppress(OSError):
                    os.unlink(path)
        return info


def _is_own_file(known: Any) -> bool:
    if not stat.S_ISREG(known.st_mode):
        return False
    return not hasattr(os, "geteuid") or (known.st_uid == os.geteuid() and not known.st_mode & 0o022)


def _refuse_others(folder: Path) -> None:
    """Raise if anybody but the user could have written to the folder, or put it there."""
    if not hasattr(os, "geteuid"):
        return
    user = os.geteuid()
    known = os.lstat(folder)
    if not stat.S_ISDIR(known.st_mode):
        raise _Refused(f"{folder} is not a folder")
    if known.st_uid != user:
        raise _Refused(f"{folder} belongs to user {known.st_uid}, this is user {user}")
    if known.st_mode & 0o077:
        raise _Refused(f"{folder} has mode {stat.S_IMODE(known.st_mode):o}, not 700: chmod 700 {folder}")
    real = folder.resolve()
    for parent in dict.fromkeys((*folder.absolute().parents, *real.parents)):
        known = os.stat(parent)
        if known.st_uid not in (0, user):
            raise _Refused(f"{parent}, above the folder of the cache, belongs to user {known.st_uid}")
        if known.st_mode & 0o022 and not known.st_mode & stat.S_ISVTX:
            raise _Refused(
                f"{parent}, above the folder of the cache, has mode {stat.S_IMODE(known.st_mode):o}, so that others "
                f"can replace what is in it: chmod go-w {parent}, or {SWITCH}=FOLDER"
            )


def _users_folder() -> Path:
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    asked = os.environ.get("XDG_CACHE_HOME", "")
    return Path(asked) if os.path.isabs(asked) else Path.home() / ".cache"


def chosen() -> DiskCache:
    """The cache that the environment asks for.

    Raises:
        ValueError: ``ANABRANCH_CACHE`` is neither 'off' nor an absolute path.
    """
    asked = os.environ.get(SWITCH, "")
    if asked == "off":
        return DiskCache(None, f"{SWITCH}=off")
    if asked:
        if not os.path.isabs(asked):
            raise ValueError(
                errors.message(f"{SWITCH}={asked!r}", "'off' or an absolute path", f"{SWITCH}={os.path.abspath(asked)}")
            )
        return DiskCache(Path(asked))
    try:
        return DiskCache(_users_folder() / "anabranch")
    except RuntimeError as problem:  # no home
        _log.info("Compiled programs are not kept on disk: %s", problem)
        return DiskCache(None, str(problem))


_lock = threading.Lock()
_the_one: DiskCache | None = None


def of_process() -> DiskCache:
    """The cache of this process; the environment is looked at once, and what it asks for wrongly is told once."""
    global _the_one
    with _lock:
        if _the_one is None:
            try:
                _the_one = chosen()
            except ValueError as problem:  # no reason not to run
                _log.warning("Compiled programs are not kept on disk.\n%s", problem)
                _the_one = DiskCache(None, f"{SWITCH} is neither 'off' nor an absolute path")
        return _the_one
