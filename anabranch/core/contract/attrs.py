"""Attributes and arguments of op types: the parts that a contract's ``attrs`` and ``signature`` are made of.

An attribute's value is *stored* in one form whoever gave it: dtypes as `DType`, shapes raw (a tuple, or None),
strings as str (bytes only where they are not UTF-8), constants as read-only arrays, lists as tuples.
:meth:`Attr.convert` makes that form.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.values import dtypes, shapes

REQUIRED: Any = type("Required", (), {"__repr__": lambda self: "REQUIRED"})()


# --------------------------------------------------------------------------------------------------------- attributes
_SCALARS: dict[str, Callable[[Any], Any]] = {}


def _as_int(value: Any) -> int:
    if isinstance(value, (bool, np.bool_)) or not hasattr(value, "__index__"):
        if isinstance(value, (float, np.floating)) and value.is_integer():
            return int(value)
        raise TypeError("an int")
    return int(value.__index__())


def _as_float(value: Any) -> float:
    if isinstance(value, (bool, str, bytes)):
        raise TypeError("a float")
    return float(value)


def _as_bool(value: Any) -> bool:
    if not isinstance(value, (bool, np.bool_)) and value not in (0, 1):
        raise TypeError("a bool")
    return bool(value)


def _as_string(value: Any) -> str | bytes:
    if isinstance(value, bytes):
        try:
            return value.decode("utf-8")
        except UnicodeDecodeError:
            return value
    if not isinstance(value, str):
        raise TypeError("a string")
    return str(value)


def _as_tensor(value: Any) -> np.ndarray:
    array = np.asarray(value)
    if array.flags.writeable:
        array = array.copy()
        array.flags.writeable = False
    return array


_SCALARS.update(
    int=_as_int,
    float=_as_float,
    bool=_as_bool,
    string=_as_string,
    type=dtypes.as_dtype,
    shape=shapes.as_raw,
    tensor=_as_tensor,
    func=lambda value: value,
)


@dataclasses.dataclass(frozen=True)
class Attr:
    """One typed attribute: ``kind`` as TensorFlow names it (``list(type)``), default and allowed values."""

    kind: str
    default: Any = REQUIRED
    allowed: tuple[Any, ...] | None = None
    minimum: int | None = None
    captures: str | None = None
    """Of a function that the op's kernel calls, or what that makes: the operand with the values that it captures, ''
    if it has none. None for a body that the tiers run."""

    @property
    def is_list(self) -> bool:
        return self.kind.startswith("list(")

    @property
    def element(self) -> str:
        return self.kind[5:-1] if self.is_list else self.kind

    def convert(self, value: Any, name: str, type_name: str) -> Any:
        """Return ``value`` in its stored form, or raise TypeError/ValueError naming op and attribute."""
        one = _SCALARS[self.element]
        try:
            if self.is_list:
                if isinstance(value, (str, bytes)) or not isinstance(value, Iterable):
                    raise TypeError("a list")
                value = tuple(one(item) for item in value)
            else:
                value = one(value)
        except (TypeError, ValueError) as problem:
            # A size below 0 is a wrong value; everything else that does not convert is of a wrong type.
            kind = ValueError if self.element == "shape" and isinstance(problem, ValueError) else TypeError
            raise kind(
                f"{_expected(self.kind, name, value)}\n"
                + errors.message(
                    f"attribute {name!r} of op {type_name!r} = {value!r}",
                    f"{self.kind} ({problem})",
                    f"pass {name}= with a value of kind {self.kind}",
                )
            ) from None
        self._check_bits(value, name, type_name)
        if self.allowed is not None:
            for item in value if self.is_list else (value,):
                if item not in self.allowed:
                    choices = ", ".join(getattr(item, "name", repr(item)) for item in self.allowed)
                    if self.element == "type":
                        usual = f"Value passed to parameter {name!r} has DataType {getattr(item, 'name', item)}"
                        usual += f" not in list of allowed values: {choices}"
                    else:
                        listed = '", "'.join(map(str, self.allowed))
                        usual = f'Attr {name!r} of {type_name!r} Op passed string {item!r} not in: "{listed}".'
                    raise (TypeError if self.element == "type" else ValueError)(
                        f"{usual}\n"
                        + errors.message(
                            f"{getattr(item, 'name', repr(item))} for attribute {name!r} of op {type_name!r}",
                            f"one of {choices}",
                            "cast the input or choose one of these values",
                        )
                    )
        if self.minimum is not None and (len(value) if self.is_list else value) < self.minimum:
            passed = f"list of length {len(value)}" if self.is_list else str(value)
            raise ValueError(
                f"Attr {name!r} of {type_name!r} Op passed {passed} less than minimum {self.minimum}.\n"
                + errors.message(
                    f"attribute {name!r} of op {type_name!r} = {value!r}",
                    f"at least {self.minimum}{' elements' if self.is_list else ''}",
                    "give more",
                )
            )
        return value

    def _check_bits(self, value: Any, name: str, type_name: str) -> None:
        """Refuse integers and dimensions that no file can hold."""
        if self.element not in ("int", "shape"):
            return
        for item in value if self.is_list else (value,):
            for number in (item,) if self.element == "int" else item or ():
                if number is not None and not -(2**63) <= number < 2**63:
                    usual = "Error converting shape to a TensorShape: " if self.element == "shape" else ""
                    raise ValueError(
                        f"{usual}Value out of range: {number}\n"
                        + errors.message(
                            f"attribute {name!r} of op {type_name!r} = {value!r}",
                            "integers of 64 bits",
                            "a smaller one",
                        )
                    )


_SHOWN_KINDS = {"int": "int", "float": "float", "bool": "bool", "string": "string", "type": "DataType"}


def _expected(kind: str, name: str, value: Any) -> str:
    """TensorFlow's words for a value that an attribute does not take: programs match on them."""
    element = kind[5:-1] if kind.startswith("list(") else kind
    if kind != element and (isinstance(value, (str, bytes)) or not isinstance(value, Iterable)):
        return f"Expected list for attr {name}"
    if element == "shape":
        return f"Error converting {value!r} to a TensorShape for argument {name!r}."
    if element not in _SHOWN_KINDS:
        return f"Don't know how to convert {value!r} for argument {name!r}."
    items = value if kind != element else (value,)
    for item in items:
        try:
            _SCALARS[element](item)
        except (TypeError, ValueError):
            return f"Expected {_SHOWN_KINDS[element]} for argument {name!r} not {item!r}."
    return f"Expected {_SHOWN_KINDS[element]} for argument {name!r} not {value!r}."


def _type_list(allowed: str | None) -> tuple[dtypes.DType, ...] | None:
    return None if allowed is None else tuple(dtypes.as_dtype(name) for name in allowed.split())


def Type(allowed: str | None = None, default: Any = REQUIRED) -> Attr:
    """A dtype; ``allowed`` is a blank-separated list of dtype names."""
    return Attr("type", default if default is REQUIRED else dtypes.as_dtype(default), _type_list(allowed))


def Int(default: Any = REQUIRED, minimum: int | None = None) -> Attr:
    """An integer."""
    return Attr("int", default, None, minimum)


def Float(default: Any = REQUIRED) -> Attr:
    """A float."""
    return Attr("float", default)


def Bool(default: Any = REQUIRED) -> Attr:
    """A bool."""
    return Attr("bool", default)


def String(default: Any = REQUIRED, allowed: str | None = None) -> Attr:
    """A string; ``allowed`` is a blank-separated list of values."""
    return Attr("string", default, None if allowed is None else tuple(allowed.split()))


def Shape(default: Any = REQUIRED) -> Attr:
    """A shape, stored raw (a tuple, or None when the rank is unknown)."""
    return Attr("shape", default)


def TensorAttr(default: Any = REQUIRED) -> Attr:
    """A constant tensor, stored as a read-only array."""
    return Attr("tensor", default if default is REQUIRED else _as_tensor(default))


def Func(default: Any = REQUIRED, captures: str | None = None) -> Attr:
    """A nested body or a named function; for ``captures`` see :class:`Attr`."""
    return Attr("func", default, captures=captures)


def List(kind: str, default: Any = REQUIRED, allowed: str | None = None, minimum: int | None = None) -> Attr:
    """A list of ``kind`` (``int``, ``type``, ``shape``, ``string``, ``float``, ``bool``, ``tensor``, ``func``)."""
    if default is not REQUIRED:
        default = tuple(default)
    choices: tuple[Any, ...] | None = None
    if allowed is not None:
        choices = _type_list(allowed) if kind == "type" else tuple(allowed.split())
    return Attr(f"list({kind})", default, choices, minimum)


# -------------------------------------------------------------------------------------------------------- signatures
@dataclasses.dataclass(frozen=True)
class ArgSpec:
    """An input or output: one tensor, ``number_attr`` tensors of one type, or a list typed by ``type_list_attr``."""

    name: str
    dtype: dtypes.DType | None = None
    type_attr: str | None = None
    number_attr: str | None = None
    type_list_attr: str | None = None
    is_ref: bool = False

    @property
    def is_list(self) -> bool:
        return self.number_attr is not None or self.type_list_attr is not None

    def count(self, attrs: dict[str, Any]) -> int:
        """How many tensors the argument stands for."""
        if self.number_attr is not None:
            return attrs[self.number_attr]
        return len(attrs[self.type_list_attr]) if self.type_list_attr is not None else 1

    def dtypes(self, attrs: dict[str, Any]) -> list[dtypes.DType]:
        """The dtype of each tensor the argument stands for."""
        if self.type_list_attr is not None:
            return list(attrs[self.type_list_attr])
        dtype = self.dtype if self.dtype is not None else attrs[self.type_attr or ""]
        if self.is_ref:
            dtype = dtype._as_ref
        if self.number_attr is None:
            return [dtype]
        count = attrs[self.number_attr]
        if count > MOST_TENSORS:
            raise ValueError(
                errors.message(
                    f"{self.number_attr}={count}, as many tensors for {self.name!r}",
                    f"at most {MOST_TENSORS}",
                    "one tensor that has them along a dimension",
                )
            )
        return [dtype] * count


MOST_TENSORS = 1 << 20
"""An operation is made of its inputs and outputs one by one, whatever their number says."""
_ARG = re.compile(r"(\w+)\s*:\s*(?:(\w+)\s*\*\s*)?(?:Ref\((\w+)\)|\[(\w+)\]|(\w+))\s*(?:,|$)")


def parse_args(text: str, type_attrs: dict[str, Attr], type_name: str) -> tuple[ArgSpec, ...]:
    """The arguments that one side of a signature names."""
    specs = []
    position = 0
    text = text.strip()
    while position < len(text):
        match = _ARG.match(text, position)
        if not match:
            raise ValueError(
                f"op {type_name!r}: cannot read the signature at {text[position:]!r}; write it like "
                f"'a: T, rest: N * T, ref: Ref(T), list: [Tlist] -> out: T'"
            )
        name, number, ref, types_, plain = match.groups()
        kind = ref or plain
        if types_:
            specs.append(ArgSpec(name, type_list_attr=types_))
        elif kind in type_attrs:
            specs.append(ArgSpec(name, type_attr=kind, number_attr=number, is_ref=ref is not None))
        else:
            specs.append(ArgSpec(name, dtype=dtypes.as_dtype(kind), number_attr=number, is_ref=ref is not None))
        position = match.end()
        while position < len(text) and text[position] == " ":
            position += 1
    return tuple(specs)


@dataclasses.dataclass(frozen=True, eq=False)
class NamedAttrs:
    """The name of an op type or function with stored attributes: TensorFlow's `NameAttrList`, a `func` value."""

    name: str
    items: tuple[tuple[str, Any], ...] = ()
    """Pairs of attribute name and stored value, sorted by name."""

    @property
    def attrs(self) -> dict[str, Any]:
        """The attributes as a dict."""
        return dict(self.items)

    @property
    def key(self) -> tuple[Any, ...]:
        """A hashable stand-in for name and attributes."""
        return (self.name, *((name, attr_key(value)) for name, value in self.items))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedAttrs) and self.key == other.key

    def __hash__(self) -> int:
        return hash(self.key)


def attr_key(value: Any) -> Any:
    """A hashable stand-in for a stored attribute value (arrays by content), for CSE and cache keys."""
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            return (value.shape, "object", tuple(value.ravel().tolist()))
        return (value.shape, value.dtype.str if value.dtype.kind != "V" else value.dtype.name, value.tobytes())
    if isinstance(value, tuple):
        return tuple(attr_key(item) for item in value)
    if isinstance(value, float):
        return ("float", np.float64(value).tobytes())
    return value


def attr_bytes(value: str | bytes) -> bytes:
    """The bytes of a string attribute, which is text if it is UTF-8."""
    return value if isinstance(value, bytes) else value.encode()
