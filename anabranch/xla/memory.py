"""Keeping freed memory in the process, which training on the CPU gains much from.

The C library gives large freed blocks back to the system and takes them again at the next step; the page faults then
cost more than many a kernel. With one arena, no separate mappings for large blocks and no trimming, a freed block is
simply there again. The price: free blocks stay with the process until it says :func:`release_memory` (closing a session
does), and threads share one lock for allocations. A library must not decide that for the program that it is part of, so
it is a choice of the program (``tf.keep_memory()`` first of all, or ANABRANCH_KEEP_MEMORY=1) and the default only of
``anabranch run``, which owns its process (ANABRANCH_KEEP_MEMORY=0 turns it off). Figures stand in docs/performance.md.
"""

from __future__ import annotations

import ctypes
import os
import platform
import sys

from anabranch.core import errors
from anabranch.core.contract.api import public

# Numbers of glibc's <malloc.h>.
_TRIM_THRESHOLD = -1
_MMAP_MAX = -4
_ARENA_MAX = -8

_kept = False


@public("keep_memory")
def keep_memory() -> bool:
    """Tells the C library to keep freed memory for the process. Call it before anything is compiled.

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
    """Does it if the environment variable ANABRANCH_KEEP_MEMORY is set to 1; called before JAX is first imported."""
    if os.environ.get("ANABRANCH_KEEP_MEMORY", default) == "1" and "jax" not in sys.modules:
        keep_memory()


@public("release_memory")
def release_memory() -> bool:
    """Gives free memory that :func:`keep_memory` keeps back to the system now; closing a session does it, too.

    Returns:
        Whether any was given back; False if memory is not kept, as then there is none.
    """
    return _kept and bool(ctypes.CDLL(None).malloc_trim(0))
