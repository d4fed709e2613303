"""``tf.contrib.training.HParams``: hyperparameters as attributes, overridden by text, JSON or a dictionary.

A parameter keeps the type it was made with: text, JSON and later values are converted to it or refused.
"""

from __future__ import annotations

import json
import numbers
import re
from collections.abc import Callable, Iterator
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.collections import register_proto_function
from anabranch.core.protos import hparam_pb2

# name, an index in brackets, and a value: a list in brackets or what reaches to the next comma.
_ITEM = re.compile(
    r"\s*(?P<name>[a-zA-Z][\w.]*)\s*(?:\[\s*(?P<index>\d+)\s*\])?\s*=\s*(?:\[(?P<list>[^\]]*)\]|(?P<value>[^,\[]*))\s*(?:,|$)"
)
_TRUE, _FALSE = ("true", "1"), ("false", "0")


def _cannot(name: str, given: Any, kind: type) -> ValueError:
    return ValueError(
        f"Could not parse hparam '{name}' of type '{kind.__name__}' with value '{given}'\n"
        + errors.message(
            f"{name}={given!r}", f"a value of type {kind.__name__}", f"HParams({name}=...) of the type meant"
        )
    )


def _from_text(name: str, text: str, kind: type) -> Any:
    text = text.strip()
    if kind is bool:
        if text.lower() in _TRUE + _FALSE:
            return text.lower() in _TRUE
        raise _cannot(name, text, kind)
    try:
        return kind(text)
    except ValueError:
        raise _cannot(name, text, kind) from None


@public("contrib.training.parse_values")
def parse_values(values: str, type_map: dict[str, type], ignore_unknown: bool = False) -> dict[str, Any]:
    """Values of parameters in text: ``a=1,b=[0.5,1],c[2]=x``.

    Args:
        values: the text.
        type_map: parameter -> type of its value, or of its elements.
        ignore_unknown: leave out parameters that ``type_map`` lacks.

    Returns:
        Parameter -> value; for ``c[2]=x`` a dictionary from index to value.

    Raises:
        ValueError: the text has another form, names an unknown parameter, gives one twice, or a value that does not
        fit.
    """
    parsed: dict[str, Any] = {}
    at = 0
    while at < len(values):
        item = _ITEM.match(values, at)
        if item is None:
            raise ValueError(
                f"Malformed hyperparameter value: {values[at:]}\n"
                + errors.message(
                    f"the text {values[at:]!r}", "name=value, name[index]=value or name=[values]", "'a=1,b=[1,2]'"
                )
            )
        at = item.end()
        name = item["name"]
        if name not in type_map:
            if ignore_unknown:
                continue
            raise ValueError(
                f"Unknown hyperparameter type for {name}\n"
                + errors.message(
                    f"the parameter {name!r}",
                    f"one of {', '.join(sorted(type_map))}",
                    "hparams.add_hparam(name, value)",
                )
            )
        kind = type_map[name]
        twice = name in parsed and not (item["index"] is not None and isinstance(parsed[name], dict))
        place = name
        if item["list"] is not None:
            if item["index"] is not None:
                raise ValueError(
                    "Assignment of a list to a list index.\n"
                    + errors.message(item[0].strip(" ,"), "one value for an index", f"{name}=[{item['list']}]")
                )
            value: Any = [_from_text(name, text, kind) for text in item["list"].split(",") if text.strip()]
        else:
            value = _from_text(name, item["value"], kind)
        if item["index"] is not None:
            index = int(item["index"])
            if not twice and index in parsed.get(name, {}):
                twice, place = True, f"{name}[{index}]"
            if not twice:
                parsed.setdefault(name, {})[index] = value
        elif not twice:
            parsed[name] = value
        if twice:
            raise ValueError(
                f"Multiple assignments to variable '{place}' in {values}\n"
                + errors.message(f"{place!r} twice", "each parameter once", "leave one of the two out")
            )
    return parsed


# Types of values, and how fields of protos for them begin.
_FIELDS: tuple[tuple[tuple[type, ...], str], ...] = (
    ((bool,), "bool"),
    ((numbers.Integral,), "int64"),
    ((str, bytes), "bytes"),
    ((numbers.Real,), "float"),
)


def _of_proto(proto: Any) -> Iterator[tuple[str, Any]]:
    """Names and values of an ``HParamDef``; text is text again, as far as it is UTF-8."""

    def plain(value: Any) -> Any:
        try:
            return value.decode() if isinstance(value, bytes) else value
        except UnicodeDecodeError:
            return value

    for name, item in proto.hparam.items():
        value = getattr(item, item.WhichOneof("kind"))
        yield name, [plain(each) for each in value.value] if hasattr(value, "value") else plain(value)


@public("contrib.training.HParams")
class HParams:
    """Named hyperparameters, each an attribute.

    >>> hparams = HParams(rate=0.1, layers=[1, 2], name="a")
    >>> hparams.parse("rate=0.5,layers[1]=3").values()
    {'rate': 0.5, 'layers': [1, 3], 'name': 'a'}

    Args:
        hparam_def: an ``HParamDef``, which holds all parameters instead.
        model_structure: any object; kept as it is.
        **kwargs: the parameters: numbers, bools, strings, lists of such.

    Raises:
        AssertionError: ``hparam_def`` is not an ``HParamDef``.
        ValueError: there are parameters beside ``hparam_def``, or a list is empty.
    """

    def __init__(self, hparam_def: Any = None, model_structure: Any = None, **kwargs: Any) -> None:
        if hparam_def is not None:
            if not isinstance(hparam_def, hparam_pb2.HParamDef):
                raise AssertionError(
                    errors.message(
                        f"hparam_def of type {type(hparam_def).__name__}",
                        "an HParamDef",
                        "HParams(**values), or parse_json",
                    )
                )
            if kwargs:
                raise ValueError(
                    "hparam_def and initialization values are mutually exclusive\n"
                    + errors.message(
                        f"hparam_def beside {', '.join(kwargs)}", "either of them", "HParams(hparam_def=...)"
                    )
                )
            kwargs = dict(_of_proto(hparam_def))
        self._hparam_types: dict[str, tuple[type, bool]] = {}
        self._model_structure = model_structure
        for name, value in kwargs.items():
            self.add_hparam(name, value)

    def add_hparam(self, name: str, value: Any) -> None:
        """Add a parameter.

        Raises:
            ValueError: the name is taken, or the value an empty list, whose type is not known.
        """
        if getattr(self, name, None) is not None:
            raise ValueError(
                f"Hyperparameter name is reserved: {name}\n"
                + errors.message(f"the name {name!r}, which is taken", "another name", f"set_hparam({name!r}, ...)")
            )
        if isinstance(value, list | tuple):
            if not value:
                raise ValueError(
                    f"Multi-valued hyperparameters cannot be empty: {name}\n"
                    + errors.message(f"{name}=[]", "a list with a value, whose type is that of all", f"{name}=[0]")
                )
            self._hparam_types[name] = (type(value[0]), True)
        else:
            self._hparam_types[name] = (type(value), False)
        setattr(self, name, value)

    def _known(self, name: str) -> tuple[type, bool]:
        if name not in self._hparam_types:
            raise KeyError(f"no hyperparameter {name!r}; there are {', '.join(sorted(self._hparam_types)) or 'none'}")
        return self._hparam_types[name]

    def _converted(self, name: str, value: Any, kind: type) -> Any:
        if value is None or kind is type(None):
            return value
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return value
        both_text = issubclass(kind, str | bytes) and isinstance(value, str | bytes)
        is_number = isinstance(value, numbers.Number) and not isinstance(value, bool) and issubclass(kind, int | float)
        fits = both_text or (is_number and not issubclass(kind, bool))
        if not fits or (issubclass(kind, int) and not isinstance(value, numbers.Integral)):
            raise _cannot(name, value, kind)
        if both_text:
            return value.encode() if issubclass(kind, bytes) else value.decode()
        convert: Callable[[Any], Any] = kind
        return convert(value)

    def set_hparam(self, name: str, value: Any) -> None:
        """Give a parameter another value, converted to its type.

        Raises:
            KeyError: there is no such parameter.
            ValueError: the value does not fit the type, or a list was given for a single value or the other way round.
        """
        kind, many = self._known(name)
        if isinstance(value, list):
            if not many:
                raise ValueError(
                    f"Must not pass a list for single-valued parameter: {name}\n"
                    + errors.message(f"{name}={value!r}", f"a {kind.__name__}", f"{name}={value[0] if value else 0!r}")
                )
            setattr(self, name, [self._converted(name, item, kind) for item in value])
        else:
            if many:
                raise ValueError(
                    f"Must pass a list for multi-valued parameter: {name}.\n"
                    + errors.message(f"{name}={value!r}", f"a list of {kind.__name__}", f"{name}=[{value!r}]")
                )
            setattr(self, name, self._converted(name, value, kind))

    def del_hparam(self, name: str) -> None:
        """Take a parameter away, if it is there."""
        if hasattr(self, name):
            delattr(self, name)
            del self._hparam_types[name]

    def parse(self, values: str) -> HParams:
        """Override parameters by text, ``rate=0.5,layers=[1,2],layers[0]=3``; give the same object.

        Raises:
            ValueError: the text has another form, names an unknown parameter, or gives a value that does not fit.
        """
        parsed = parse_values(values, {name: kind for name, (kind, _) in self._hparam_types.items()})
        for name, value in parsed.items():
            if isinstance(value, dict):
                whole = list(getattr(self, name))
                for index, item in value.items():
                    if index >= len(whole):
                        raise ValueError(
                            errors.message(
                                f"{name}[{index}]", f"an index below {len(whole)}", f"{name}=[...] with all values"
                            )
                        )
                    whole[index] = item
                value = whole
            self.set_hparam(name, value)
        return self

    def override_from_dict(self, values_dict: dict[str, Any]) -> HParams:
        """Override parameters by a dictionary; give the same object."""
        for name, value in values_dict.items():
            self.set_hparam(name, value)
        return self

    def set_from_map(self, values_map: dict[str, Any]) -> HParams:
        """:meth:`override_from_dict` under its first name."""
        return self.override_from_dict(values_map)

    def set_model_structure(self, model_structure: Any) -> None:
        """Keep an object."""
        self._model_structure = model_structure

    def get_model_structure(self) -> Any:
        """The object kept."""
        return self._model_structure

    def values(self) -> dict[str, Any]:
        """Parameters with their values."""
        return {name: getattr(self, name) for name in self._hparam_types}

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The parameters as an ``HParamDef``, in which floats have 32 bits and text is UTF-8.

        Args:
            export_scope: has no effect.

        Raises:
            ValueError: a value is of another type than numbers, bools and text, or None.
        """
        proto = hparam_pb2.HParamDef()
        for name, (kind, many) in self._hparam_types.items():
            field = next((field for types, field in _FIELDS if issubclass(kind, types)), None)
            if field is None:
                raise ValueError(
                    f"Unsupported parameter type: {kind}\n"
                    + errors.message(f"{name} of type {kind.__name__}", "a number, a bool or text", "to_json()")
                )
            value = getattr(self, name)
            items = [each.encode() if isinstance(each, str) else each for each in (value if many else [value])]
            if many:
                getattr(proto.hparam[name], f"{field}_list").value.extend(items)
            else:
                setattr(proto.hparam[name], f"{field}_value", items[0])
        return proto

    @staticmethod
    def from_proto(hparam_def: Any, import_scope: str | None = None) -> HParams:
        """The parameters of an ``HParamDef``.

        Args:
            hparam_def: the proto.
            import_scope: has no effect.
        """
        return HParams(hparam_def=hparam_def)

    def to_json(self, indent: Any = None, separators: Any = None, sort_keys: bool = False) -> str:
        """The parameters as JSON, functions left out."""
        values = {name: value for name, value in self.values().items() if not callable(value)}
        return json.dumps(values, indent=indent, separators=separators, sort_keys=sort_keys)

    def parse_json(self, values_json: str) -> HParams:
        """Override parameters by JSON; give the same object."""
        return self.override_from_dict(json.loads(values_json))

    def get(self, key: str, default: Any = None) -> Any:
        """A parameter's value, ``default`` if there is none.

        Raises:
            ValueError: ``default`` has not the type of the parameter.
        """
        if key not in self._hparam_types:
            return default
        kind, many = self._hparam_types[key]
        if default is not None:
            fits = isinstance(default, list) == many
            if fits:
                try:
                    for item in default if many else [default]:
                        self._converted(key, item, kind)
                except ValueError:
                    fits = False
            if not fits:
                raise ValueError(
                    f"Hparam '{key}' of type '{kind.__name__}' is incompatible with default={default}\n"
                    + errors.message(
                        f"default={default!r}", f"a {kind.__name__}{' list' if many else ''}", "default=None"
                    )
                )
        return getattr(self, key)

    def __contains__(self, key: str) -> bool:
        return key in self._hparam_types

    def __eq__(self, other: object) -> bool:
        return isinstance(other, HParams) and self.values() == other.values()

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"HParams({', '.join(f'{name}={value!r}' for name, value in sorted(self.values().items()))})"

    def __str__(self) -> str:
        return str(sorted(self.values().items()))


register_proto_function("hparams", hparam_pb2.HParamDef, HParams.to_proto, HParams.from_proto)
