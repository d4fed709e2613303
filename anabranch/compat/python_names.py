"""Names that Python's own library has lost since TensorFlow 1's time: ``collections.Mapping``, ``inspect.getargspec``.

Only ``anabranch run`` provides them, so that nothing changes for code that does not use them. A module answers for
names that it has no longer (`_NAMES`), the first use gives one warning; classes get methods that were renamed back
(`_METHODS`), functions the arguments that they took (`_ARGUMENTS`); modules that are gone are made where no other
package has them (`_MODULES`). A module that is not loaded yet is seen to when it is. What is given is what Python had
in version 3.7, with the same values. TensorFlow loaded parts of Python's packages, which programs then used without
importing them (``multiprocessing.pool``): a package loads such a part when it is asked for (`_PARTS`).
"""

from __future__ import annotations

import collections
import collections.abc
import functools
import importlib
import importlib.abc
import importlib.machinery
import importlib.util
import inspect
import re
import sys
import threading
import types
import warnings
from collections.abc import Callable
from typing import Any

from anabranch.compat import inspection
from anabranch.core import errors


def _from(module: str, name: str) -> Any:
    return getattr(importlib.import_module(module), name)


def _getargspec(function: Any) -> Any:
    """The arguments of a function, as ``inspect`` gave them until Python 3.10.

    Functions of this package are annotated, those of TensorFlow 1.x were not: they are described without.
    """
    full = _from("inspect", "getfullargspec")(function)
    if (full.kwonlyargs or full.annotations) and not inspection.is_own(inspect.unwrap(function)):
        raise ValueError(
            "Function has keyword-only parameters or annotations, use inspect.signature() API which can support them"
        )
    return inspection.getargspec(function)


_NAMES: dict[str, dict[str, Callable[[], Any]]] = {
    "collections": {name: functools.partial(getattr, collections.abc, name) for name in collections.abc.__all__},
    "inspect": {"getargspec": lambda: _getargspec, "ArgSpec": lambda: inspection.ArgSpec},
    "time": {"clock": lambda: _from("time", "process_time")},
    "fractions": {"gcd": lambda: _from("math", "gcd")},
    "base64": {
        "encodestring": lambda: _from("base64", "encodebytes"),
        "decodestring": lambda: _from("base64", "decodebytes"),
    },
    "os": {"errno": lambda: importlib.import_module("errno")},
    "cgi": {"escape": lambda: _escape},
    "locale": {"format": lambda: _from("locale", "format_string")},
    "configparser": {"SafeConfigParser": lambda: _from("configparser", "ConfigParser")},
}
"""By module and name what it was."""

_PARTS: dict[str, tuple[str, ...]] = {
    "concurrent": ("futures",),
    "concurrent.futures": ("process", "thread"),
    "ctypes": ("util",),
    "distutils": ("version",),
    "email": ("charset", "encoders", "errors", "feedparser", "header", "iterators", "message", "parser", "utils"),
    "encodings": ("idna",),
    "http": ("client", "cookiejar", "cookies"),
    "importlib": ("resources",),
    "json": ("decoder", "encoder", "scanner"),
    "multiprocessing": ("connection", "context", "pool", "process", "queues", "reduction", "synchronize", "util"),
    "unittest": ("case", "loader", "main", "mock", "result", "runner", "suite", "util"),
    "urllib": ("error", "parse", "request", "response"),
    "xml": ("dom", "sax"),
    "xml.dom": ("minidom",),
    "xml.sax": ("handler", "saxutils", "xmlreader"),
}
"""By package the modules in it that importing TensorFlow 1.15 loaded."""

_METHODS: dict[str, dict[str, dict[str, str]]] = {
    "threading": {"Thread": {"isAlive": "is_alive"}},
    "unittest.case": {
        "TestCase": {
            "assertEquals": "assertEqual",
            "assertNotEquals": "assertNotEqual",
            "assert_": "assertTrue",
            "assertAlmostEquals": "assertAlmostEqual",
            "assertNotAlmostEquals": "assertNotAlmostEqual",
            "assertRegexpMatches": "assertRegex",
            "assertNotRegexpMatches": "assertNotRegex",
            "assertRaisesRegexp": "assertRaisesRegex",
        }
    },
}
"""By module and class the old names of methods."""


def _escape(s: str, quote: bool = False) -> str:
    """Text for HTML, as ``cgi`` made it."""
    return str(_from("html", "escape")(s, quote))


def _without_encoding(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of ``json`` that takes ``encoding``, which has meant nothing since Python 3.1."""

    @functools.wraps(function)
    def decode(*args: Any, encoding: Any = None, **more: Any) -> Any:
        return function(*args, **more)

    return decode


def _of_sets(sample: Callable[..., Any]) -> Callable[..., Any]:
    """``random.sample`` that takes sets and the keys of dictionaries."""

    @functools.wraps(sample)
    def drawn(population: Any, k: int, **more: Any) -> Any:
        if isinstance(population, collections.abc.Set):
            population = tuple(population)
        return sample(population, k, **more)

    return drawn


def _with_random(shuffle: Callable[..., Any]) -> Callable[..., Any]:
    """``random.shuffle`` that takes the function that draws."""

    @functools.wraps(shuffle)
    def shuffled(x: Any, random: Callable[[], float] | None = None) -> None:
        if random is None:
            shuffle(x)
            return
        for i in reversed(range(1, len(x))):
            j = int(random() * (i + 1))
            x[i], x[j] = x[j], x[i]

    return shuffled


_ARGUMENTS: dict[str, dict[str, Callable[[Any], Any]]] = {
    "json": {"loads": _without_encoding, "load": _without_encoding},
    "random": {"sample": _of_sets, "shuffle": _with_random},
}
"""By module and function what makes it take what it took."""


# ------------------------------------------------------------------------------------------------ modules that are gone
@functools.total_ordering
class LooseVersion:
    """A version of any form, as ``distutils.version`` compared them."""

    def __init__(self, vstring: str | None = None) -> None:
        if vstring:
            self.parse(vstring)

    def parse(self, vstring: str) -> None:
        """Take a version apart into numbers and words."""
        self.vstring = vstring
        parts = [part for part in re.split(r"(\d+|[a-z]+|\.)", vstring) if part and part != "."]
        self.version: list[Any] = [int(part) if part.isdigit() else part for part in parts]

    def _other(self, other: Any) -> list[Any]:
        return (other if isinstance(other, LooseVersion) else LooseVersion(other)).version

    def __eq__(self, other: object) -> bool:
        return self.version == self._other(other)

    def __lt__(self, other: Any) -> bool:
        return self.version < self._other(other)

    __hash__ = None  # type: ignore[assignment]

    def __str__(self) -> str:
        return self.vstring

    def __repr__(self) -> str:
        return f"LooseVersion ('{self.vstring}')"


def _strtobool(val: str) -> int:
    """1 or 0 of a word that says so."""
    if val.lower() in ("y", "yes", "t", "true", "on", "1"):
        return 1
    if val.lower() in ("n", "no", "f", "false", "off", "0"):
        return 0
    raise ValueError(f"invalid truth value {val!r}")


def _load_source(name: str, path: str, file: Any = None) -> types.ModuleType:
    """A module of a file."""
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


_MODULES: dict[str, Callable[[], dict[str, Any]]] = {
    "imp": lambda: {"reload": importlib.reload, "load_source": _load_source, "new_module": types.ModuleType},
    "distutils": dict,
    "distutils.version": lambda: {"LooseVersion": LooseVersion, "StrictVersion": LooseVersion},
    "distutils.util": lambda: {"strtobool": _strtobool},
    "distutils.spawn": lambda: {"find_executable": _from("shutil", "which")},
}
"""By module what programs use of it."""


# --------------------------------------------------------------------------------------------------- how they are given
class _Undo:
    """What gives a module back as it was."""

    def __init__(self) -> None:
        self.steps: list[Callable[[], None]] = []

    def put(self, owner: Any, name: str, value: Any) -> None:
        """Set a name of a module or class, until it is undone."""
        had, before = name in vars(owner), vars(owner).get(name)
        setattr(owner, name, value)
        self.steps.append(lambda: setattr(owner, name, before) if had else delattr(owner, name))

    def __call__(self) -> None:
        while self.steps:
            self.steps.pop()()


_undo = _Undo()
_told: set[str] = set()


def _amend(module: types.ModuleType) -> None:
    """Give a module what it has lost."""
    name = module.__name__
    if name in _NAMES:
        _undo.put(module, "__getattr__", _missing(module, _NAMES[name], vars(module).get("__getattr__")))
    if name in _PARTS:
        _undo.put(module, "__getattr__", _loading(module, _PARTS[name], vars(module).get("__getattr__")))
    for owner, methods in _METHODS.get(name, {}).items():
        for old, new in methods.items():
            if not hasattr(getattr(module, owner), old):
                _undo.put(getattr(module, owner), old, getattr(getattr(module, owner), new))
    for function, wrap in _ARGUMENTS.get(name, {}).items():
        _undo.put(module, function, wrap(getattr(module, function)))


def _missing(
    module: types.ModuleType, names: dict[str, Callable[[], Any]], before: Callable[[str], Any] | None
) -> Callable[[str], Any]:
    """What a module answers for names that it does not have."""

    def missing(name: str) -> Any:
        if name not in names:
            if before is not None:
                return before(name)
            raise AttributeError(f"module {module.__name__!r} has no attribute {name!r}")
        value = names[name]()
        if module.__name__ not in _told:
            _told.add(module.__name__)
            home = getattr(value, "__module__", None)
            where = f"{home}.{value.__name__}" if home else f"import {value.__name__}"
            given = f"{module.__name__}.{name}, a name that Python {sys.version_info[0]}.{sys.version_info[1]} has lost"
            warnings.warn(
                errors.message(given, "a name of this version; `anabranch run` provides the old one", where),
                DeprecationWarning,
                stacklevel=2,
            )
        return value

    return missing


def _loading(
    package: types.ModuleType, parts: tuple[str, ...], before: Callable[[str], Any] | None
) -> Callable[[str], Any]:
    """What a package answers for modules in it that are not loaded yet."""

    def load(name: str) -> Any:
        if name in parts:
            return importlib.import_module(f"{package.__name__}.{name}")
        if before is not None:
            return before(name)
        raise AttributeError(f"module {package.__name__!r} has no attribute {name!r}")

    return load


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Amend modules once they are loaded, and make those that are gone."""

    def __init__(self) -> None:
        self._looking = threading.local()
        """Whether this thread asks for the module's own specification."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        """The module's own specification, with a loader that amends it afterwards; one of ours if there is none."""
        amended = name in _amended()
        if getattr(self._looking, "now", False) or not (amended or name in _MODULES):
            return None
        self._looking.now = True
        try:
            spec = importlib.util.find_spec(name)
        except (ModuleNotFoundError, ValueError):
            spec = None
        finally:
            self._looking.now = False
        if spec is None:
            if name not in _MODULES:
                return None
            return importlib.machinery.ModuleSpec(name, self, is_package=name == "distutils")
        if not amended or spec.loader is None:
            return spec
        execute = spec.loader.exec_module

        def exec_module(module: types.ModuleType) -> None:
            execute(module)
            _amend(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> None:
        """Leave it to Python."""

    def exec_module(self, module: types.ModuleType) -> None:
        """Fill a module that is gone."""
        vars(module).update(_MODULES[module.__name__]())
        _amend(module)


_finder = _Finder()


@functools.cache
def _amended() -> frozenset[str]:
    return frozenset((*_NAMES, *_PARTS, *_METHODS, *_ARGUMENTS))


def provide() -> None:
    """Give Python's library what it has lost; do nothing the second time."""
    if _finder in sys.meta_path:
        return
    for name in _amended():
        if name in sys.modules:
            _amend(sys.modules[name])
    sys.meta_path.insert(0, _finder)


def withdraw() -> None:
    """Undo :func:`provide`."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)
    _undo()
    _told.clear()
