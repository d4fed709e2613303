"""Arrays that can again be what they could: bytes by ``tostring``, a number where they have one element.

NumPy's types are written in C and take no attributes. Their dictionaries do. For ``bool(x)``, ``float(x)`` and
``int(x)`` CPython has a table of functions besides; a class written in Python has functions there that look into the
dictionary, and these are put into the tables of arrays. The layout of the tables is the same in all versions of CPython
that are provided for; other interpreters are left alone.
"""

from __future__ import annotations

import ctypes
import gc
import sys
import sysconfig
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from anabranch.compat.old_numpy.calls import tell, told

_VERSIONS = ((3, 11), (3, 15))
_POINTER = ctypes.sizeof(ctypes.c_void_p)
_NAME, _NUMBER_METHODS = 1, 10
"""Where in a type, counted in pointers behind its header, are its name and the table of its functions on numbers."""
_SLOTS = {"__bool__": 9, "__int__": 16, "__float__": 18}
"""Where in that table."""
_before: dict[tuple[type, str], Any] = {}
_slots: dict[tuple[type, str], int] = {}


def _tostring(self: Any, order: str = "C") -> bytes:
    """The bytes of an array."""
    if "tostring" not in told:
        tell("tostring", "x.tostring() of an array", "x.tobytes()")
    result: bytes = self.tobytes(order)
    return result


def _ptp(self: Any, axis: Any = None, out: Any = None, keepdims: bool = False) -> Any:
    """The difference of the largest and the smallest element."""
    return np.ptp(self, axis, out, keepdims)


def _newbyteorder(self: Any, new_order: str = "S", /) -> Any:
    """The same bytes, read in another order."""
    return self.view(self.dtype.newbyteorder(new_order))


def _itemset(self: Any, *args: Any) -> None:
    """Set an element, which is the only one, or given by its flat index or its indices."""
    *index, value = args
    if not index:
        self[()] = value
    elif len(index) == 1 and not isinstance(index[0], tuple):
        self.flat[index[0]] = value
    else:
        self[tuple(index[0]) if len(index) == 1 else tuple(index)] = value


_own_truth = np.ndarray.__bool__


def _truth(self: Any) -> bool:
    """Whether the one element of an array is not zero; False where there is none."""
    if self.size:
        return _own_truth(self)
    tell("truth", "the truth of an array without elements", "if x.size:")
    return False


def _number(name: str, kind: type) -> Callable[[Any], Any]:
    own = getattr(np.ndarray, name)

    def number(self: Any) -> Any:
        if self.ndim == 0 or self.size != 1:
            return own(self)
        if "number" not in told:
            tell("number", f"{kind.__name__}(x) of an array of shape {list(self.shape)}", f"{kind.__name__}(x.item())")
        return kind(self.item())

    number.__name__ = name
    return number


_METHODS: dict[str, Callable[..., Any]] = {"tostring": _tostring, "ptp": _ptp, "newbyteorder": _newbyteorder}


def _attributes(kind: type) -> dict[str, Any]:
    """The dictionary of a type, which ``vars`` shows read-only."""
    (attributes,) = gc.get_referents(vars(kind))
    assert isinstance(attributes, dict)
    return attributes


def _set(kind: type, name: str, value: Any) -> None:
    attributes = _attributes(kind)
    _before.setdefault((kind, name), attributes.get(name))
    if value is None:
        attributes.pop(name, None)
    else:
        attributes[name] = value
    ctypes.pythonapi.PyType_Modified(ctypes.py_object(kind))


def _field(kind: type, position: int) -> int:
    """The pointer at a position of a type."""
    return ctypes.c_void_p.from_address(id(kind) + object.__basicsize__ + position * _POINTER).value or 0


def _slot(kind: type, name: str) -> ctypes.c_void_p:
    """The function that a type has for ``float(x)`` or ``int(x)``."""
    return ctypes.c_void_p.from_address(_field(kind, _NUMBER_METHODS) + _SLOTS[name] * _POINTER)


def _has_known_layout() -> bool:
    if sys.implementation.name != "cpython" or not _VERSIONS[0] <= sys.version_info[:2] < _VERSIONS[1]:
        return False
    if sysconfig.get_config_var("Py_GIL_DISABLED") or hasattr(sys, "gettotalrefcount"):
        return False
    name = _field(np.ndarray, _NAME)
    return bool(name) and ctypes.string_at(name) == b"numpy.ndarray"


class _Example:
    def __bool__(self) -> bool:
        return False

    def __int__(self) -> int:
        return 0

    def __float__(self) -> float:
        return 0.0


def _lacks(example: Any, name: str, *args: Any) -> bool:
    """Whether a method is not there, or is one that only says so, as some are in NumPy 2.0."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            getattr(example, name)(*args)
        except AttributeError:
            return True
    return False


def _refuses(name: str, array: np.ndarray) -> bool:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            getattr(array, name)()
        except (TypeError, ValueError):
            return True
    return False


def _with_subclasses(kind: type) -> Iterator[type]:
    yield kind
    subclasses: list[type] = kind.__subclasses__()
    for subclass in subclasses:
        yield from _with_subclasses(subclass)


def _set_number_method(name: str, method: Callable[[Any], Any]) -> None:
    _set(np.ndarray, name, method)
    own = _slot(np.ndarray, name).value
    for kind in _with_subclasses(np.ndarray):  # each has a table, which began as a copy
        slot = _slot(kind, name)
        if slot.value == own:
            slot.value = _slot(_Example, name).value
            _slots[kind, name] = own or 0


def provide() -> None:
    """Give arrays and numbers what they lack; do nothing the second time."""
    if _before or not _has_known_layout():
        return
    for kind, example in ((np.ndarray, np.ones(1)), (np.generic, np.float32(1))):
        for name, method in _METHODS.items():
            if _lacks(example, name):
                _set(kind, name, method)
    if _lacks(np.ones(1), "itemset", 1):
        _set(np.ndarray, "itemset", _itemset)
    if _refuses("__bool__", np.zeros(0)):
        _set_number_method("__bool__", _truth)
    if _refuses("__float__", np.ones(1)):
        _set(np.ndarray, "__complex__", _number("__complex__", complex))
        _set_number_method("__int__", _number("__int__", int))
        _set_number_method("__float__", _number("__float__", float))


def withdraw() -> None:
    """Take it away again."""
    for (kind, name), function in _slots.items():
        _slot(kind, name).value = function
    _slots.clear()
    for (kind, name), value in list(_before.items()):
        _set(kind, name, value)
    _before.clear()
