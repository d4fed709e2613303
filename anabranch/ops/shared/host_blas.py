"""BLAS on one thread while host kernels run.

Policy. A host kernel's products are small, and the threads of a BLAS spin while they wait for each other, beside those
of XLA: on two cores a product of 60x2352 by 2352x256 takes 0.8 ms on one thread and 11 ms on two. So products below
:data:`LARGE` run on one; larger ones are left to the library's own choice. What a program sets is restored, and what
it holds with `threadpool_limits` is respected.
"""

from __future__ import annotations

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np

LARGE = 1 << 31
"""Multiplications from which on a product may use all threads."""
SMALL = 1 << 12
"""Multiplications up to which a BLAS takes one thread anyway, whatever it multiplies."""
SMALL_PRODUCT = 1 << 17
"""The same for a product of two matrices neither of which is a vector: OpenBLAS begins to share it between threads at
twice as many.
"""
COMPLEX = 8
"""How many multiplications one of complex numbers counts for: OpenBLAS shares products of an eighth of the size."""

_lock = threading.Lock()
_before: list[tuple[Any, int]] = []
_inside = 0

F = TypeVar("F", bound=Callable[..., Any])


@functools.cache
def _pools() -> tuple[Any, ...]:
    import threadpoolctl

    return tuple(threadpoolctl.ThreadpoolController().select(user_api="blas").lib_controllers)


def find_libraries() -> None:
    """Look which BLAS libraries the process has now; before that, those count that it had at the first call."""
    _pools.cache_clear()


def _set(pool: Any, threads: int) -> None:
    pool.set_num_threads(threads)
    release = getattr(pool, "clear_controlling_thread", None)
    if release is not None:  # from threadpoolctl 3.7 on the first thread that sets a number would keep the right to
        release()


def enter() -> None:
    """From now on BLAS takes one thread, until as many calls of :func:`leave`."""
    global _inside
    with _lock:
        _inside += 1
        if _inside == 1:
            for pool in _pools():
                _before.append((pool, pool.get_num_threads()))
                _set(pool, 1)


def leave() -> None:
    """Undo one :func:`enter`."""
    global _inside
    with _lock:
        _inside -= 1
        if not _inside:
            while _before:
                _set(*_before.pop())


@contextlib.contextmanager
def lifted() -> Iterator[None]:
    """Within :func:`enter`, BLAS takes as many threads as before it; for other threads of the process as well."""
    with _lock:
        for pool, threads in _before:
            _set(pool, threads)
    try:
        yield
    finally:
        with _lock:
            for pool, _ in _before:
                _set(pool, 1)


def on_one_thread(work: Callable[..., int]) -> Callable[[F], F]:
    """Run a function on one BLAS thread unless ``work`` of its arguments, in multiplications, is small or large."""

    def decorate(function: F) -> F:
        @functools.wraps(function)
        def limited(*args: Any, **kwargs: Any) -> Any:
            multiplications = work(*args, **kwargs)
            if multiplications <= SMALL:
                return function(*args, **kwargs)
            if multiplications >= LARGE:
                with lifted():
                    return function(*args, **kwargs)
            enter()
            try:
                return function(*args, **kwargs)
            finally:
                leave()

        return limited  # type: ignore[return-value]

    return decorate


def _work_of_product(a: np.ndarray, b: np.ndarray) -> int:
    rows, columns = a.shape[-2], b.shape[-1]
    multiplications = max(a.size * columns, rows * b.size) * (COMPLEX if "c" in (a.dtype.kind, b.dtype.kind) else 1)
    if multiplications <= SMALL_PRODUCT and rows > 1 < columns and a.ndim == b.ndim == 2:
        return 0
    return multiplications


@on_one_thread(_work_of_product)
def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """``a @ b``, over the last two dimensions."""
    return np.matmul(a, b)
