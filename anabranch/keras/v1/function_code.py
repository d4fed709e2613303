"""Functions of a program as bytecode, the way models hold those of their Lambda layers."""

from __future__ import annotations

import base64
import marshal
import types
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors


def func_dump(func: Any) -> tuple[str, Any, Any]:
    """A function as bytecode: its code in base 64, its defaults, and what it has captured (None if nothing)."""
    code = base64.b64encode(marshal.dumps(func.__code__)).decode("ascii")
    cells = tuple(cell.cell_contents for cell in func.__closure__ or ())
    return code, func.__defaults__, cells or None


def func_load(code: Any, defaults: Any = None, closure: Any = None, globs: dict[str, Any] | None = None) -> Any:
    """The function that :func:`func_dump` wrote, or one of its parts.

    Args:
        code: what was written, or the first of its three parts.
        defaults: the second one.
        closure: the third one.
        globs: what the function finds as global names; ``tf`` and ``np`` by default.

    Raises:
        ValueError: the code is of another version of Python.
    """
    if isinstance(code, (tuple, list)):
        code, defaults, closure = code
    try:
        read = marshal.loads(base64.b64decode(code))
    except (ValueError, EOFError, TypeError) as problem:
        raise ValueError(
            errors.message(
                "the code of a lambda of another version of Python",
                "a layer whose function was written by this Python",
                "build the model anew and model.load_weights(path)",
            )
        ) from problem
    cells = tuple(cell if isinstance(cell, types.CellType) else types.CellType(cell) for cell in closure or ())
    defaults = tuple(defaults) if isinstance(defaults, list) else defaults
    return types.FunctionType(
        read, {"tf": tf, "np": np} if globs is None else globs, read.co_name, defaults, cells or None
    )
