"""Names that NumPy 2 lacks and programs of TensorFlow 1's time use: ``np.int``, ``np.float``, ``np.product``.

Only ``anabranch run`` provides them, through NumPy's own hook for missing names, so that nothing changes for code
that does not use them; the first use gives one warning. ``numpy.lib`` answers for what it shared with ``numpy``
(``np.lib.pad``). What changed its meaning (ragged arrays, ``copy=False``) stays as it is.
"""

from __future__ import annotations

import ast
import functools
import math
import pickle
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors

# name -> what it was
_VALUES: dict[str, Any] = {
    "int": int, "float": float, "complex": complex, "object": object, "str": str, "bool": np.bool_, "long": int,
    "unicode": str, "int0": np.intp, "uint0": np.uintp, "object0": np.object_, "bool8": np.bool_, "float_": np.float64,
    "complex_": np.complex128, "cfloat": np.complex128, "singlecomplex": np.complex64, "longfloat": np.longdouble,
    "longcomplex": np.clongdouble, "clongfloat": np.clongdouble, "string_": np.bytes_, "unicode_": np.str_,
    "Inf": np.inf, "Infinity": np.inf, "infty": np.inf, "PINF": np.inf, "NINF": -np.inf, "NaN": np.nan, "NAN": np.nan,
    "PZERO": 0.0, "NZERO": -0.0, "product": np.prod,
    "cumproduct": np.cumprod, "sometrue": np.any, "alltrue": np.all,
    "round_": np.round, "row_stack": np.vstack, "in1d": np.isin, "mat": np.asmatrix,
    "bytes0": np.bytes_, "str0": np.str_, "void0": np.void, "typeDict": np.sctypeDict, "issubclass_": issubclass,
    "math": math, "sys": sys, "warnings": warnings, "safe_eval": ast.literal_eval, "alen": len,
    "loads": pickle.loads,
    "byte_bounds": np.lib.array_utils.byte_bounds, "DataSource": np.lib.npyio.DataSource,
    "compare_chararrays": np.char.compare_chararrays, "format_parser": np.rec.format_parser,
    "VisibleDeprecationWarning": np.exceptions.VisibleDeprecationWarning,
    "ComplexWarning": np.exceptions.ComplexWarning,
    "AxisError": np.exceptions.AxisError, "RankWarning": np.exceptions.RankWarning,
    "TooHardError": np.exceptions.TooHardError,
}  # fmt: skip


def _asscalar(a: Any) -> Any:
    """The one element of an array as a Python number."""
    return a.item()


def _asfarray(a: Any, dtype: Any = np.float64) -> np.ndarray:
    """An array of floating-point numbers."""
    kind = np.dtype(dtype)
    return np.asarray(a, dtype=kind if np.issubdtype(kind, np.inexact) else np.float64)


def _msort(a: Any) -> np.ndarray:
    """A copy sorted along the first axis."""
    return np.sort(a, axis=0)


def _rank(a: Any) -> int:
    """The number of dimensions."""
    return np.ndim(a)


def _find_common_type(array_types: Any, scalar_types: Any) -> np.dtype:
    """The type that all given ones can be cast to."""
    return np.result_type(*array_types, *scalar_types)


def _trapz(y: Any, x: Any = None, dx: float = 1.0, axis: int = -1) -> Any:
    """The integral by the trapezoidal rule."""
    return np.trapezoid(y, x, dx, axis)


_SCALARS: dict[str, list[type]] = {
    "int": [np.int8, np.int16, np.int32, np.int64],
    "uint": [np.uint8, np.uint16, np.uint32, np.uint64],
    "float": [np.float16, np.float32, np.float64, np.longdouble],
    "complex": [np.complex64, np.complex128, np.clongdouble],
    "others": [bool, object, bytes, str, np.void],
}


def _sctype(rep: Any, default: Any = None) -> Any:
    """The scalar type of an array or of what describes a type."""
    if isinstance(rep, np.ndarray):
        return rep.dtype.type
    try:
        return np.dtype(rep).type
    except TypeError:
        return default


def _sctype2char(sctype: Any) -> str:
    """The character of a type."""
    return np.dtype(sctype).char


def _issctype(rep: Any) -> bool:
    """Whether a class is that of a scalar."""
    return isinstance(rep, type | np.dtype) and _sctype(rep) not in (None, np.object_)


def _issubsctype(arg1: Any, arg2: Any) -> bool:
    """Whether the type of the first is one of the second."""
    return issubclass(_sctype(arg1), arg2 if isinstance(arg2, type) else _sctype(arg2))


def _maximum_sctype(t: Any) -> type:
    """The widest type of the same kind."""
    kind = {"i": "int", "u": "uint", "f": "float", "c": "complex"}.get(np.dtype(t).kind)
    return np.dtype(t).type if kind is None else _SCALARS[kind][-1]


def _fast_copy_and_transpose(a: Any) -> np.ndarray:
    """A transposed copy."""
    return np.array(a).T.copy()


def _disp(mesg: Any, device: Any = None, linefeed: bool = True) -> None:
    """Write a message."""
    print(mesg, end="\n" if linefeed else "", file=device)


class _ByType(dict[type, Any]):
    """A table by scalar type, which takes whatever describes the type."""

    def __missing__(self, key: Any) -> Any:
        return self[np.dtype(key).type]


_TYPES = [np.dtype(code).type for code in np.typecodes["All"]]
_VALUES.update(
    asscalar=_asscalar,
    asfarray=_asfarray,
    msort=_msort,
    rank=_rank,
    find_common_type=_find_common_type,
    trapz=_trapz,
    sctypes=_SCALARS,
    obj2sctype=_sctype,
    sctype2char=_sctype2char,
    issctype=_issctype,
    issubsctype=_issubsctype,
    maximum_sctype=_maximum_sctype,
    fastCopyAndTranspose=_fast_copy_and_transpose,
    disp=_disp,
    cast=_ByType({kind: functools.partial(np.asarray, dtype=kind) for kind in _TYPES}),
    nbytes=_ByType({kind: np.dtype(kind).itemsize for kind in _TYPES}),
)
_state: dict[str, Any] = {"warned": False, "own": None, "lib": None}


def provide() -> None:
    """Make NumPy find the names of this module; do nothing the second time."""
    if _state["own"] is not None:
        return
    own: Callable[[str], Any] = np.__dict__["__getattr__"]
    _state["own"] = own

    def find(name: str) -> Any:
        if name not in _VALUES:
            return own(name)
        if not _state["warned"]:
            _state["warned"] = True
            warnings.warn(
                errors.message(
                    f"np.{name}, a name that NumPy {np.__version__} no longer has",
                    f"names of NumPy 2; `anabranch run` provides this and {len(_VALUES) - 1} others",
                    "np.float64, np.int64, bool and so on, as NumPy's migration guide says",
                ),
                FutureWarning,
                stacklevel=2,
            )
        return _VALUES[name]

    in_lib: Callable[[str], Any] = np.lib.__dict__["__getattr__"]
    _state["lib"] = in_lib

    def find_in_lib(name: str) -> Any:
        if not name.startswith("_") and (name in vars(np) or name in _VALUES):
            return getattr(np, name)
        return in_lib(name)

    np.__dict__["__getattr__"] = find
    np.lib.__dict__["__getattr__"] = find_in_lib


def withdraw() -> None:
    """Take the names away again."""
    if _state["own"] is not None:
        np.__dict__["__getattr__"] = _state["own"]
        np.lib.__dict__["__getattr__"] = _state["lib"]
        _state.update(own=None, lib=None, warned=False)
