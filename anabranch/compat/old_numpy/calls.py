"""Functions of NumPy that take again what they took: each tries NumPy's own first, and helps where that refuses.

Libraries keep NumPy's errors, on which some of them decide: only callers outside the folders of installed packages are
helped.
"""

from __future__ import annotations

import functools
import pathlib
import sys
import sysconfig
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from anabranch.core import errors

_OWN_FOLDER = str(pathlib.Path(__file__).parents[2])
_LIBRARIES = (_OWN_FOLDER, *{sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")})
_own: dict[str, Callable[..., Any]] = {}
told: set[str] = set()
"""Kinds of help that were warned of."""


def tell(kind: str, given: str, instead: str) -> None:
    """Warn, once for each kind, that a program needs what NumPy no longer does."""
    if kind not in told:
        told.add(kind)
        expected = f"what NumPy {np.__version__} takes; `anabranch run` does as NumPy did at TensorFlow 1's time"
        warnings.warn(errors.message(given, expected, instead), FutureWarning, stacklevel=3)


def _of_program(frame: types.FrameType) -> bool:
    file = frame.f_code.co_filename
    return not file.startswith(_LIBRARIES) and "site-packages" not in file and "dist-packages" not in file


def _made_array(name: str) -> Callable[..., Any]:
    own = _own[name]

    @functools.wraps(own)
    def made(*args: Any, **kwargs: Any) -> Any:
        try:
            return own(*args, **kwargs)
        except (ValueError, OverflowError) as problem:
            if not args or not _of_program(sys._getframe(1)):
                raise
            dtype = args[1] if len(args) > 1 else kwargs.get("dtype")
            if kwargs.get("copy") is False and "copy" in str(problem):
                tell("copy", f"np.{name} with copy=False of what has to be copied", "np.asarray(x)")
                return made(*args, **{**kwargs, "copy": None})
            if isinstance(problem, OverflowError):
                if dtype is None or not np.issubdtype(dtype, np.integer):
                    raise
                tell("bounds", f"a number beyond the bounds of {np.dtype(dtype)}", "np.array(x).astype(dtype)")
                return own(args[0]).astype(dtype)
            if dtype is not None or "inhomogeneous" not in str(problem):
                raise
            tell("rows", f"np.{name} of rows of different lengths", f"np.{name}(x, dtype=object)")
            return own(*args, **{**kwargs, "dtype": object})

    return made


def _fromstring(string: Any, dtype: Any = float, count: int = -1, *, sep: str = "", like: Any = None) -> Any:
    """The numbers of a text, or a copy of those that bytes hold."""
    if sep:
        return _own["fromstring"](string, dtype, count, sep=sep, like=like)
    tell("fromstring", "np.fromstring of bytes", "np.frombuffer(data, dtype).copy()")
    data = string.encode("latin-1") if isinstance(string, str) else string
    return np.frombuffer(data, dtype, count).copy()


def _of_sequence(name: str) -> Callable[..., Any]:
    own = _own[name]

    @functools.wraps(own)
    def joined(arrays: Any, *args: Any, **kwargs: Any) -> Any:
        if isinstance(arrays, Iterator):
            tell("iterator", f"np.{name} of an iterator", f"np.{name}(list(arrays))")
            arrays = list(arrays)
        return own(arrays, *args, **kwargs)

    return joined


def _sum(a: Any, *args: Any, **kwargs: Any) -> Any:
    if isinstance(a, types.GeneratorType):
        tell("iterator", "np.sum of a generator", "sum(a)")
        return sum(a)
    return _own["sum"](a, *args, **kwargs)


def _reshape(a: Any, /, shape: Any = None, order: Any = "C", *, newshape: Any = None, **kwargs: Any) -> Any:
    return _own["reshape"](a, newshape if shape is None else shape, order, **kwargs)


def _meshgrid(*arrays: Any, **kwargs: Any) -> list[Any]:
    return list(_own["meshgrid"](*arrays, **kwargs))


def _histogram(a: Any, *args: Any, normed: Any = None, **kwargs: Any) -> Any:
    if normed is not None:
        kwargs.setdefault("density", bool(normed))
    return _own["histogram"](a, *args, **kwargs)


_HELPERS: dict[str, Callable[..., Any]] = {
    "fromstring": _fromstring,
    "sum": _sum,
    "reshape": _reshape,
    "meshgrid": _meshgrid,
    "histogram": _histogram,
}
_ARRAYS = ("array", "asarray", "asanyarray")
_SEQUENCES = ("vstack", "hstack", "dstack", "stack", "column_stack")


def provide() -> None:
    """Put the functions into NumPy; do nothing the second time."""
    if _own:
        return
    _own.update({name: getattr(np, name) for name in (*_HELPERS, *_ARRAYS, *_SEQUENCES)})
    for name in _ARRAYS:
        setattr(np, name, _made_array(name))
    for name in _SEQUENCES:
        setattr(np, name, _of_sequence(name))
    for name, helper in _HELPERS.items():
        setattr(np, name, functools.wraps(_own[name])(helper))


def withdraw() -> None:
    """Take them out again."""
    for name, own in _own.items():
        setattr(np, name, own)
    _own.clear()
    told.clear()
