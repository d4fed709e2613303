"""Element types of tensors: TensorFlow's names, numbers and rules.

Policy. There is one `DType` object per type, so `is` and `==` agree between them, and lookups by name, NumPy type,
Python type or number are one dictionary access (`as_dtype`). Every type but its own reference exists twice: plain, and
as *reference type* (`float32_ref`, number + 100), the type of the output of a `VariableV2`.

Three views of a type on NumPy, each for its use:
- `as_numpy_dtype` is what TensorFlow shows to users: a scalar class, `object` for strings, one-field records for
  quantised types;
- `np` is what values are *stored and computed* in, None for resource and variant, which are Python objects. A quantised
  type is stored as its plain integer, because no array library computes on records;
- `host_only` says that a value can never be in an XLA program (string, resource, variant).
"""

from __future__ import annotations

import builtins
from typing import Any, Final

import ml_dtypes
import numpy as _np

from anabranch.core.errors import message

_REF_OFFSET: Final = 100


class DType:
    """The element type of a tensor. There is one object per type: `DType(1) is tf.float32`."""

    __slots__ = (
        "_as_numpy", "_as_ref", "base", "enum", "host_only", "is_bool", "is_complex", "is_floating", "is_integer",
        "is_quantized", "is_ref", "name", "np",
    )  # fmt: skip

    name: str
    enum: int
    np: _np.dtype | None
    is_ref: builtins.bool
    base: DType
    host_only: builtins.bool
    is_floating: builtins.bool
    is_integer: builtins.bool
    is_complex: builtins.bool
    is_bool: builtins.bool
    is_quantized: builtins.bool
    _as_numpy: Any
    _as_ref: DType

    def __new__(cls, type_enum: int) -> DType:
        """Return the type with this number of TensorFlow's `DataType` (see `types.proto`)."""
        return as_dtype(type_enum)

    def __setattr__(self, attribute: str, value: object) -> None:
        raise AttributeError(
            message(
                f"an assignment to {self!r}.{attribute}",
                "no change of a DType: it is shared by all graphs",
                "another DType, such as tf.as_dtype('float64')",
            )
        )

    __delattr__ = __setattr__  # type: ignore[assignment]

    @property
    def as_datatype_enum(self) -> int:
        """The number of this type in TensorFlow's `DataType`."""
        return self.enum

    @property
    def as_numpy_dtype(self) -> Any:
        """The NumPy scalar class of this type: `object` for strings, a one-field record type for quantised types."""
        return self._as_numpy

    @property
    def base_dtype(self) -> DType:
        """This type without reference."""
        return self.base

    @property
    def real_dtype(self) -> DType:
        """The type of the real part: float32 for complex64, float64 for complex128, else this type."""
        return _REAL.get(self.base, self)

    @property
    def _is_ref_dtype(self) -> builtins.bool:
        return self.is_ref

    @property
    def is_numpy_compatible(self) -> builtins.bool:
        """Whether NumPy arrays can hold values of this type (not resource and variant)."""
        return self.np is not None

    @property
    def is_unsigned(self) -> builtins.bool:
        """Whether this is an unsigned integer type; False for quantised types."""
        return self.is_integer and self.min == 0

    @property
    def size(self) -> int:
        """Bytes per element; that of the handle for string, resource and variant."""
        if self.np is None:
            return 1
        return self.np.itemsize

    @property
    def min(self) -> Any:
        """The smallest value: an int for integers, a NumPy scalar for floating types; TypeError for others."""
        return self._info("min")

    @property
    def max(self) -> Any:
        """The greatest value: an int for integers, a NumPy scalar for floating types; TypeError for others."""
        return self._info("max")

    @property
    def is_numeric(self) -> builtins.bool:
        """Whether the values are numbers: integers, floats or complex ones."""
        return self.is_integer or self.is_floating or self.is_complex

    def _info(self, field: str) -> Any:
        if self.is_integer:
            return int(getattr(ml_dtypes.iinfo(self.np), field))
        if self.is_floating:
            return getattr(ml_dtypes.finfo(self.np), field)
        word = "minimum" if field == "min" else "maximum"
        raise TypeError(
            f"Cannot find {word} value of {self}.\n"
            + message(
                f"{self!r}.{field}",
                "an integer or floating type, which has a smallest and a greatest value",
                f"{self!r}.real_dtype.{field}" if self.is_complex else f"tf.float32.{field}",
            )
        )

    @property
    def limits(self) -> tuple[Any, Any]:
        """The intensities (0, greatest) that an image of this type can have: (0, 1) for floating types."""
        if self.is_integer:
            return 0, self.max
        if self.is_floating:
            return 0, 1
        if self.is_bool:
            return 0, True
        raise ValueError(
            message(
                f"{self!r}.limits", "a boolean, integer or floating type", "tf.cast the image to tf.uint8 or tf.float32"
            )
        )

    def is_compatible_with(self, other: object) -> builtins.bool:
        """Return whether a value of type `other` can be used where this type is asked for (a reference as its base)."""
        dtype = as_dtype(other)
        return dtype is self or dtype.base is self

    def __eq__(self, other: object) -> builtins.bool:
        if other is self:
            return True
        if type(other) is DType or other is None:
            return False
        try:
            return as_dtype(other) is self
        except TypeError:
            return False

    def __hash__(self) -> int:
        return self.enum

    def __int__(self) -> int:
        return self.enum

    def __str__(self) -> str:
        return f"<dtype: {self.name!r}>"

    def __repr__(self) -> str:
        return f"tf.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return as_dtype, (self.name,)


_BY_ENUM: dict[int, DType] = {}
_BY_KEY: dict[Any, DType] = {}  # names, NumPy dtypes and classes, Python classes


def _define(enum: int, name: str, kind: str, stored: Any, shown: Any = None) -> DType:
    """Make a type and its reference type. `kind`: f(loat), i(nteger), c(omplex), b(ool), q(uantised) or o(bject)."""
    stored = None if stored is None else _np.dtype(stored)
    pair = object.__new__(DType), object.__new__(DType)
    for is_ref, dtype in enumerate(pair):
        fields = {
            "name": name + "_ref" * is_ref,
            "enum": enum + _REF_OFFSET * is_ref,
            "np": stored,
            "is_ref": builtins.bool(is_ref),
            "base": pair[0],
            "host_only": kind == "o",
            "is_floating": kind == "f",
            "is_integer": kind == "i",
            "is_complex": kind == "c",
            "is_bool": kind == "b",
            "is_quantized": kind == "q",
            "_as_numpy": shown if shown is not None else stored.type if stored is not None else None,
            "_as_ref": pair[1],
        }
        for field, value in fields.items():
            object.__setattr__(dtype, field, value)
        _BY_ENUM[dtype.enum] = dtype
        _BY_KEY[dtype.name] = dtype
    if shown is not None and shown is not object:
        _BY_KEY[shown] = pair[0]
    elif stored is not None:
        _BY_KEY[stored] = _BY_KEY[stored.type] = pair[0]
    return pair[0]


def _record(name: str, stored: Any) -> _np.dtype:
    return _np.dtype([(name, stored)])


float32 = _define(1, "float32", "f", _np.float32)
float64 = _define(2, "float64", "f", _np.float64)
int32 = _define(3, "int32", "i", _np.int32)
uint8 = _define(4, "uint8", "i", _np.uint8)
int16 = _define(5, "int16", "i", _np.int16)
int8 = _define(6, "int8", "i", _np.int8)
string = _define(7, "string", "o", _np.object_, object)
complex64 = _define(8, "complex64", "c", _np.complex64)
int64 = _define(9, "int64", "i", _np.int64)
bool_ = _define(10, "bool", "b", _np.bool_)
qint8 = _define(11, "qint8", "q", _np.int8, _record("qint8", _np.int8))
quint8 = _define(12, "quint8", "q", _np.uint8, _record("quint8", _np.uint8))
qint32 = _define(13, "qint32", "q", _np.int32, _record("qint32", _np.int32))
bfloat16 = _define(14, "bfloat16", "f", ml_dtypes.bfloat16)
qint16 = _define(15, "qint16", "q", _np.int16, _record("qint16", _np.int16))
quint16 = _define(16, "quint16", "q", _np.uint16, _record("quint16", _np.uint16))
uint16 = _define(17, "uint16", "i", _np.uint16)
complex128 = _define(18, "complex128", "c", _np.complex128)
float16 = _define(19, "float16", "f", _np.float16)
resource = _define(20, "resource", "o", None, _record("resource", _np.ubyte))
variant = _define(21, "variant", "o", None)
uint32 = _define(22, "uint32", "i", _np.uint32)
uint64 = _define(23, "uint64", "i", _np.uint64)
float8_e5m2 = _define(24, "float8_e5m2", "f", ml_dtypes.float8_e5m2)
float8_e4m3fn = _define(25, "float8_e4m3fn", "f", ml_dtypes.float8_e4m3fn)
int4 = _define(29, "int4", "i", ml_dtypes.int4)
uint4 = _define(30, "uint4", "i", ml_dtypes.uint4)

half = float16
float = float32  # shadows the class below this line: this module says builtins.float
double = float64

_REAL = {complex64: float32, complex128: float64}

# The names that TensorFlow's op definitions and text protos use, where they are not those of the Python API.
_PROTO_NAMES = {float32: "float", float64: "double", float16: "half"}
for _dtype, _name in _PROTO_NAMES.items():
    _BY_KEY[_name] = _dtype
    _BY_KEY[_name + "_ref"] = _dtype._as_ref
_BY_OP_DEF_NAME = {_PROTO_NAMES.get(d.base, d.base.name) + "_ref" * d.is_ref: d for d in _BY_ENUM.values()}

_BY_KEY.update({builtins.float: float32, int: int32, builtins.bool: bool_, complex: complex128})
_BY_KEY.update(dict.fromkeys((str, bytes, object, _np.str_, _np.bytes_, _np.object_, _np.dtype(object)), string))
# C's `long long` is a class of its own beside int64 on some platforms.
_BY_KEY.update({_np.longlong: int64, _np.ulonglong: uint64, _np.intc: int32, _np.uintc: uint32})

ALL_DTYPES: Final = tuple(d for d in _BY_ENUM.values() if not d.is_ref)
QUANTIZED_DTYPES: Final = frozenset(d for d in _BY_ENUM.values() if d.is_quantized)


def as_dtype(type_value: Any) -> DType:
    """Return the `DType` that a name, a NumPy dtype or class, a Python class or a number of `DataType` stands for.

    >>> as_dtype("float32_ref"), as_dtype(int), as_dtype(19)
    (tf.float32_ref, tf.int32, tf.float16)
    """
    if type(type_value) is DType:
        return type_value
    try:
        dtype = _BY_KEY.get(type_value)
    except TypeError:  # not hashable
        dtype = None
    return dtype if dtype is not None else _as_dtype_slowly(type_value)


def _as_dtype_slowly(value: Any) -> DType:
    """Look up what is not a key: numbers, other spellings of NumPy types, and objects that have a dtype."""
    number = isinstance(value, (builtins.int, builtins.float, builtins.complex, _np.integer))
    if number and not isinstance(value, _np.inexact):
        # Of any type of Python's, like TensorFlow: tf.random_normal(shape, 0, 0, 1.0) has 1.0 here, which is float32.
        if (known_dtype := _BY_ENUM.get(value)) is not None:
            return known_dtype
    elif isinstance(value, (_np.dtype, type, str)):
        try:
            dtype = _np.dtype(value)
        except (TypeError, ValueError, SyntaxError):
            dtype = None
        if dtype is not None and (not isinstance(value, type) or dtype.kind != "O"):
            known_dtype = _BY_KEY.get(dtype)
            if known_dtype is None and dtype.names is None:
                known_dtype = _BY_KEY.get(dtype.type)  # byte-swapped numbers, strings of any length
            if known_dtype is not None:
                return known_dtype
    elif isinstance(inner := getattr(value, "dtype", None), (_np.dtype, DType)):
        return as_dtype(inner)
    raise TypeError(
        f"Cannot convert value {value!r} to a TensorFlow DType.\n"
        + message(
            f"{value!r} as an element type",
            "a tf.DType, its name ('float32'), a NumPy dtype or class, a Python class (float, int, bool, str) "
            "or a number of DataType",
            "one of " + ", ".join(repr(d) for d in ALL_DTYPES),
        )
    )


def proto_name(dtype: Any) -> str:
    """Return the name of a type in op definitions and text protos: 'float' for float32, 'double', 'half', 'int32'."""
    dtype = as_dtype(dtype)
    return _PROTO_NAMES.get(dtype.base, dtype.base.name) + "_ref" * dtype.is_ref


def from_op_def_name(name: str) -> DType:
    """Return the type of a name in op definitions ('float', 'half', 'qint8', ...)."""
    dtype = _BY_OP_DEF_NAME.get(name)
    if dtype is None:
        raise TypeError(
            message(
                f"the op definition type {name!r}",
                "one of " + ", ".join(sorted(_BY_OP_DEF_NAME)),
                "proto_name(dtype) to get the name of a DType",
            )
        )
    return dtype


bool = bool_  # the name in TensorFlow; this module says builtins.bool
