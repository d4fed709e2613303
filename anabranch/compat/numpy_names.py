"""Names that NumPy 2 lacks and programs of TensorFlow 1's time use: ``np.int``, ``np.float``, ``np.product``.

Only ``anabranch run`` provides them, through NumPy's own hook for missing names, so that nothing changes for code
that does not use them; the first use gives one warning. What changed its meaning (ragged arrays, ``copy=False``)
stays as it is.
"""

from __future__ import annotations

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
    "round_": np.round, "row_stack": np.vstack, "in1d": np.isin,
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


_VALUES.update(
    asscalar=_asscalar, asfarray=_asfarray, msort=_msort, rank=_rank, find_common_type=_find_common_type, trapz=_trapz
)
_state: dict[str, Any] = {"warned": False, "own": None}


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

    np.__dict__["__getattr__"] = find


def withdraw() -> None:
    """Take the names away again."""
    if _state["own"] is not None:
        np.__dict__["__getattr__"] = _state["own"]
        _state.update(own=None, warned=False)
