"""``tensorflow.python.util.tf_inspect``: Python's ``inspect``, with the argument specifications of its version 2."""

from __future__ import annotations

import collections
import inspect
from typing import Any

ArgSpec = collections.namedtuple("ArgSpec", ["args", "varargs", "keywords", "defaults"])


def getargspec(obj: Any) -> Any:
    """Names and defaults of a function's arguments, ``(args, varargs, keywords, defaults)``."""
    full = inspect.getfullargspec(obj)
    return ArgSpec(full.args, full.varargs, full.varkw, full.defaults)


def __getattr__(name: str) -> Any:
    return getattr(inspect, name)
