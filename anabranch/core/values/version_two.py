"""Whose meaning holds where versions 1 and 2 of TensorFlow give one expression two: ``shape[0]`` and ``x == y``.

In version 1 a dimension is a ``Dimension`` and tensors are equal if they are the same object; in version 2 a dimension
is an int or None and tensors are compared element by element. Both kinds of code live in one process when a program of
version 1 uses a library that is written for version 2. So the code that asks decides:

- modules of a library that was loaded as one of version 2 have builtins of their own (:func:`add_library`), by which
  their frames are known;
- ``tf.compat.v1.enable_v2_behavior()`` gives version 2's meaning to all code but Anabranch's own, which is written for
  version 1's.
"""

from __future__ import annotations

import sys
from typing import Any

_PACKAGE = __name__.partition(".")[0] + "."
_libraries: list[dict[str, Any]] = []
_everywhere = False


def add_library(own_builtins: dict[str, Any]) -> None:
    """Give version 2's meaning to modules whose ``__builtins__`` is this dictionary."""
    if not any(known is own_builtins for known in _libraries):
        _libraries.append(own_builtins)


def set_everywhere(value: bool) -> None:
    """Give version 2's meaning to all code that is not of this package, or take it back."""
    global _everywhere
    _everywhere = value


def is_everywhere() -> bool:
    """Whether all code that is not of this package has version 2's meaning."""
    return _everywhere


def applies(depth: int = 2) -> bool:
    """Whether version 2's meaning holds for the code that called the function that asks; ``depth`` counts frames."""
    if _everywhere:
        name = sys._getframe(depth).f_globals.get("__name__", "")
        return not name.startswith(_PACKAGE)
    if not _libraries:
        return False
    own = sys._getframe(depth).f_builtins
    return any(own is known for known in _libraries)
