"""Caches: what sessions and the process keep so that it need not be made again.

Policy. Everything of that kind, whose keys a program can have without end, is a :class:`Cache`. A cache has a name, one
owner (whatever holds it: a session its plans, a plan the views of bodies, a program its variants, the process the
executables), a bound, a lock and counters. The entry that was used least recently goes first.

Threads. A cache may be used by any number of threads, and going over it is going over a copy. No code of others runs
under the lock: an entry is made outside it, where two threads may make the same one and the first stays, unless
makers are to wait for each other (``exclusive``; whoever finds an entry does not wait); and what is dropped is
destroyed after the lock is free. (The lock is reentrant all the same, for what a garbage collection runs.)

Stamps. What is derived from something that changes is put with a *stamp*, such as the number of changes of a graph, and
is found only with an equal one. What is out of date is replaced when its key comes again.

A session that ends closes its caches: these are empty, and stay so whatever a last step still puts.

Functions of plain values, whose results are kept in C by ``functools.lru_cache``, are declared with :func:`memoized`
and listed like the others.
"""

from __future__ import annotations

import collections
import functools
import os
import threading
from collections.abc import Callable, Hashable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from anabranch.core.live_set import LiveSet

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")
ANY: Any = object()
"""A stamp that stands for all."""
_ABSENT: Any = object()


class Listed(Protocol):
    """What the lists of caches show."""

    name: str

    @property
    def bound(self) -> int:
        """How many entries it keeps at most."""

    @property
    def hits(self) -> int:
        """How often an entry was found."""

    @property
    def misses(self) -> int:
        """How often none was."""

    def __len__(self) -> int: ...

    def clear(self) -> None:
        """Drop all entries."""


class Cache(Generic[K, V]):
    """A bounded map from keys to what can be made again.

    Args:
        name: what the entries are, in the plural, for lists of caches.
        bound: how many are kept at most.

    Example:
        >>> from anabranch.core.cache import Cache
        >>> squares = Cache("squares", 2)
        >>> [squares.get_or_make(n, lambda n=n: n * n) for n in (1, 2, 1, 3)]
        [1, 4, 1, 9]
        >>> squares.keys(), squares.hits, squares.misses
        ([1, 3], 1, 3)
    """

    __slots__ = ("__weakref__", "_closed", "_entries", "_lock", "_making", "bound", "hits", "misses", "name")

    def __init__(self, name: str, bound: int) -> None:
        self.name = name
        self.bound = bound
        self.hits = 0
        self.misses = 0
        self._entries: collections.OrderedDict[K, tuple[V, Any]] = collections.OrderedDict()
        self._closed = False
        self._new_locks()
        _live.add(self)

    def _new_locks(self) -> None:
        self._lock = threading.RLock()
        self._making = threading.RLock()

    # ---------------------------------------------------------------------------------------------------------- look-up
    def get(self, key: K, stamp: Any = None, default: Any = None) -> V | Any:
        """The entry of a key, now the one used last; ``default`` if there is none with this stamp."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is None or entry[1] != stamp:
                self.misses += 1
                return default
            self._entries.move_to_end(key)
            self.hits += 1
            return entry[0]

    def peek(self, key: K, stamp: Any = ANY, default: Any = None) -> V | Any:
        """The entry of a key without counting, or using, it."""
        with self._lock:
            entry = self._entries.get(key)
        return default if entry is None or (stamp is not ANY and entry[1] != stamp) else entry[0]

    def get_or_make(self, key: K, make: Callable[[], V], stamp: Any = None, exclusive: bool = False) -> V:
        """The entry of a key, else what ``make()`` gives.

        Args:
            key: the key.
            make: called without the lock.
            stamp: what the entry must have been put with.
            exclusive: let only one thread at a time make entries of this cache.
        """
        value: V = self.get(key, stamp, _ABSENT)
        if value is not _ABSENT:
            return value
        if not exclusive:
            return self.add(key, make(), stamp)
        with self._making:
            value = self.peek(key, stamp, _ABSENT)
            return self.add(key, make(), stamp) if value is _ABSENT else value

    # ---------------------------------------------------------------------------------------------------------- changes
    def put(self, key: K, value: V, stamp: Any = None) -> None:
        """Keep an entry, instead of the one that the key may have."""
        with self._lock:
            dropped = self._keep(key, value, stamp)
        del dropped

    def add(self, key: K, value: V, stamp: Any = None) -> V:
        """Keep an entry unless the key has one with this stamp; the one that it has now."""
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None and entry[1] == stamp:
                return entry[0]
            dropped = self._keep(key, value, stamp)
        del dropped
        return value

    def _keep(self, key: K, value: V, stamp: Any) -> list[Any]:
        """Keep an entry; what is dropped for it, to be destroyed by the caller once the lock is free."""
        if self._closed:
            return []
        dropped: list[Any] = [self._entries.pop(key, None)]
        self._entries[key] = (value, stamp)
        while len(self._entries) > self.bound:
            dropped.append(self._entries.popitem(last=False))
        return dropped

    def discard(self, key: K) -> None:
        """Drop the entry of a key, if there is one."""
        with self._lock:
            dropped = self._entries.pop(key, None)
        del dropped

    def clear(self) -> None:
        """Drop all entries."""
        with self._lock:
            dropped, self._entries = self._entries, collections.OrderedDict()
        dropped.clear()

    def close(self) -> None:
        """Drop all entries, and keep none from now on."""
        self._closed = True
        self.clear()

    # ------------------------------------------------------------------------------------------------------------ lists
    def keys(self) -> list[K]:
        """The keys, the one used least recently first."""
        with self._lock:
            return list(self._entries)

    def values(self) -> list[V]:
        """The entries in the same order."""
        return [value for _, value in self.items()]

    def items(self) -> list[tuple[K, V]]:
        """Keys and entries in the same order."""
        with self._lock:
            entries = list(self._entries.items())
        return [(key, value) for key, (value, _) in entries]

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        with self._lock:
            return key in self._entries

    def __repr__(self) -> str:
        return f"<Cache of {len(self)} of {self.bound} {self.name}>"


class _Memo:
    """The results that a function of plain values keeps."""

    def __init__(self, name: str, function: functools._lru_cache_wrapper[Any]) -> None:
        self.name = name
        self._function = function

    @property
    def bound(self) -> int:
        """How many results are kept at most."""
        most = self._function.cache_info().maxsize
        assert most is not None
        return most

    @property
    def hits(self) -> int:
        """How many calls computed nothing."""
        return self._function.cache_info().hits

    @property
    def misses(self) -> int:
        """How many calls did."""
        return self._function.cache_info().misses

    def __len__(self) -> int:
        return self._function.cache_info().currsize

    def clear(self) -> None:
        """Drop all results."""
        self._function.cache_clear()


R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Memoized(Protocol[R_co]):
    """A function whose results are kept."""

    def __call__(self, *args: Any, **kwargs: Any) -> R_co: ...

    def cache_clear(self) -> None:
        """Drop all results."""


def memoized(name: str, bound: int) -> Callable[[Callable[..., R]], Memoized[R]]:
    """A decorator of functions of plain, hashable values: the last ``bound`` results are kept.

    Args:
        name: what the results are, in the plural.
        bound: how many are kept at most.
    """

    def decorate(function: Callable[..., R]) -> Memoized[R]:
        cached = functools.lru_cache(maxsize=bound)(function)
        _memos.append(_Memo(name, cached))
        return cached

    return decorate


# ---------------------------------------------------------------------------------------------------------------- lists
_live: LiveSet[Cache[Any, Any]] = LiveSet()
_memos: list[_Memo] = []


def every_cache() -> list[Listed]:
    """All caches of the process, whoever owns them."""
    return [*_live, *_memos]


def memos() -> list[Listed]:
    """The results of memoized functions."""
    return list(_memos)


def report(caches: Iterable[Listed]) -> str:
    """A line for each name of caches: entries, bound, hits and misses; those of several caches are added up."""
    named: dict[str, list[Listed]] = {}
    for cache in caches:
        named.setdefault(cache.name, []).append(cache)
    lines = []
    for name, same in named.items():
        limit = f"of {same[0].bound}" if len(same) == 1 else f"in {len(same)}"
        held = f"{sum(map(len, same))} {limit}"
        hits, misses = sum(cache.hits for cache in same), sum(cache.misses for cache in same)
        lines.append(f"  {name:<34} {held:>14}  {hits:>8} hits  {misses:>6} misses")
    return "\n".join(lines)


def _after_fork() -> None:
    for cache in _live:  # a thread that is not there any more may have held them
        cache._new_locks()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
