"""``tf.flags``: command-line flags on absl, as TensorFlow 1.5 and later have them.

``FLAGS`` is absl's: flags defined through ``absl.flags`` and here are one set. What TensorFlow adds stands here: flags
are parsed when the first one is read, without ``tf.app.run``; arguments that no flag takes are left alone then; the
first names of the arguments of ``DEFINE_*`` (``flag_name``, ``default_value``, ``docstring``) are taken too.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterator, MutableMapping
from typing import Any

from absl import flags as _absl
from absl import logging as _absl_logging  # defines flags, which must be there before a program defines its own

from anabranch.core.contract import api

# absl gives a flag to the module that defines it, for --help; without this all would be given to this one.
_absl.disclaim_key_flags()

_OLD_ARGUMENTS = {"flag_name": "name", "default_value": "default", "docstring": "help"}


class _ValuesByName(MutableMapping[str, Any]):
    """The values of the flags that programs define, by their names: ``FLAGS.__dict__["__flags"]`` up to version 1.4."""

    def __init__(self, flags: _FlagValuesWrapper) -> None:
        self._flags = flags

    def __getitem__(self, name: str) -> Any:
        if name not in self._flags:
            raise KeyError(name)
        return getattr(self._flags, name)

    def __setitem__(self, name: str, value: Any) -> None:
        setattr(self._flags, name, value)

    def __delitem__(self, name: str) -> None:
        delattr(self._flags, name)

    def __iter__(self) -> Iterator[str]:
        for module, flags in self._flags.flags_by_module_dict().items():
            if not module.startswith("absl."):
                yield from (flag.name for flag in flags)

    def __len__(self) -> int:
        return sum(1 for _ in self)

    def __repr__(self) -> str:
        return repr(dict(self))


class _FlagValuesWrapper:
    """Values of the flags: absl's ``FLAGS``, which parses ``sys.argv`` when a flag is read for the first time."""

    def __init__(self, values: _absl.FlagValues) -> None:
        self.__dict__["_values"] = values
        self.__dict__["__flags"] = _ValuesByName(self)

    def __getattribute__(self, name: str) -> Any:
        if name == "__dict__" or name in ("_parse_flags", "_parse", "__class__"):
            return super().__getattribute__(name)
        values = super().__getattribute__("__dict__")["_values"]
        # '__flags' is the dictionary that programs list their flags from; its own values need the parsed line.
        if (name in values or name == "__flags") and not values.is_parsed():
            super().__getattribute__("_parse")()
        return getattr(values, name)

    def _parse(self, argv: list[str] | None = None) -> list[str]:
        return self.__dict__["_values"](sys.argv if argv is None else argv, known_only=True)

    def _parse_flags(self, args: list[str] | None = None) -> list[str]:
        """Parse the command line now; the first name of what happens by itself. Returns what no flag took."""
        return self._parse(None if args is None else [sys.argv[0], *args])[1:]

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.__dict__["_values"], name, value)

    def __delattr__(self, name: str) -> None:
        delattr(self.__dict__["_values"], name)

    def __call__(self, argv: list[str], known_only: bool = False) -> list[str]:
        return self.__dict__["_values"](argv, known_only)

    def __getitem__(self, name: str) -> Any:
        return self.__dict__["_values"][name]

    def __setitem__(self, name: str, flag: Any) -> None:
        self.__dict__["_values"][name] = flag

    def __contains__(self, name: str) -> bool:
        return name in self.__dict__["_values"]

    def __iter__(self) -> Any:
        return iter(self.__dict__["_values"])

    def __len__(self) -> int:
        return len(self.__dict__["_values"])

    def __dir__(self) -> list[str]:
        return dir(self.__dict__["_values"])

    def __repr__(self) -> str:
        return repr(self.__dict__["_values"])

    def __str__(self) -> str:
        return str(self.__dict__["_values"])


def _define(original: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(original)
    def define(*args: Any, **kwargs: Any) -> Any:
        for old, new in _OLD_ARGUMENTS.items():
            if old in kwargs:
                if new in kwargs:
                    raise TypeError(f"{original.__name__}() got both {old!r} and its newer name {new!r}; write {new!r}")
                kwargs[new] = kwargs.pop(old)
        name = str(kwargs.get("name", args[0] if args else ""))
        values = kwargs.get("flag_values", _absl.FLAGS)
        # Programs have flags called log_dir or verbosity, and mean their own.
        if name in values and values.find_module_defining_flag(name) == _absl_logging.__name__:
            delattr(values, name)
        return original(*args, **kwargs)

    return define


FLAGS = _FlagValuesWrapper(_absl.FLAGS)


def _publish() -> None:
    for name in _absl.__all__:
        value = getattr(_absl, name)
        if name == "FLAGS":
            value = FLAGS
        elif name.startswith("DEFINE_"):
            value = _define(value)
        api.publish_as(f"flags.{name}", value)
        api.publish_as(f"app.flags.{name}", value)


_publish()
api.publish_as("app.flags", sys.modules[__name__])
__getattr__, __dir__ = api.module_attributes("flags")
