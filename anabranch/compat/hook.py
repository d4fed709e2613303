"""The import hook: ``import tensorflow`` and everything below it found here, without a file of that name anywhere.

:func:`install` puts one finder at the front of ``sys.meta_path``; it answers for ``tensorflow`` and ``tensorflow.*``
and for nothing else. Each module that it makes stands for a namespace of the public interface, or for one of
TensorFlow's internal modules (:mod:`anabranch.compat.internals`), and finds its names when they are asked for. What
is not there raises at the line that names it, with the version of TensorFlow the name belongs to and what to write
instead.

If a TensorFlow is installed, :func:`install` refuses, since a program that means it would get another one:
``replace=True`` says that this is wanted.
"""

from __future__ import annotations

import builtins
import importlib
import importlib.machinery
import importlib.util
import sys
import threading
import types
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import anabranch
from anabranch.compat import absent_libraries, internals, versions
from anabranch.core import errors
from anabranch.core.contract import api

NAME = "tensorflow"


class Elsewhere(NamedTuple):
    """An internal module that another one has under its own name."""

    path: str


INTERNAL: Any = type("Internal", (), {"__repr__": lambda self: "INTERNAL"})()


_VERSIONS = ("__version__", "__git_version__", "__compiler_version__")
# Modules whose functions our own code calls by way of the module, so that a program can put its own in their place.
_REPLACEABLE = {
    "logging": "anabranch.platform.logging",
    "python.platform.tf_logging": "anabranch.platform.logging",
    "python.summary.writer.writer": "anabranch.summary.writer",
    "python.summary.writer.writer_cache": "anabranch.summary.writer",
}


_found: Callable[[types.ModuleType], dict[str, Any]] = vars(types.ModuleType)["__dict__"].__get__
"""The names of a module that were asked for so far, and what else it holds."""


class Facade(types.ModuleType):
    """A module of TensorFlow; its names are found when they are asked for.

    A program that takes its dictionary (``vars(tf.nn)``, ``tf.train.__dict__``), to go through it, finds all of them.
    """

    @property
    def __dict__(self) -> dict[str, Any]:  # type: ignore[override]
        names = _found(self)
        if self not in _complete:
            path = below(self.__name__)
            for name in listing(path):
                if name not in names:
                    try:
                        names[name] = resolve(path, name)
                    except AttributeError:
                        continue  # it is listed, so that asking for it says what to write instead
            _complete.add(self)
        return names

    def __getattr__(self, name: str) -> Any:
        if name == "__all__":
            names = _starred(below(self.__name__), [item for item in dir(self) if not item.startswith("_")])
            if below(self.__name__):
                return names
            return [*names, *(library for library in absent_libraries.LIBRARIES if "." not in library)]
        if name.startswith("__") and name.endswith("__") and name not in _VERSIONS:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = resolve(below(self.__name__), name)
        _found(self)[name] = value
        return value

    def __setattr__(self, name: str, value: Any) -> None:
        if isinstance(value, Facade) and f"{below(self.__name__)}.{name}" in internals.NAMED_LIKE_A_FUNCTION:
            return  # a module that is imported does not hide the function
        shared = self._shared(name)
        if shared is not None:
            module, own = shared
            _originals.setdefault((module.__name__, own), getattr(module, own))
            setattr(module, own, value)
        super().__setattr__(name, value)

    def __delattr__(self, name: str) -> None:
        shared = self._shared(name)
        if shared is not None:
            module, own = shared
            setattr(module, own, _originals.pop((module.__name__, own), getattr(module, own)))
        super().__delattr__(name)

    def _shared(self, name: str) -> tuple[types.ModuleType, str] | None:
        """The module of ours, and the name in it, that a name of this module stands for as a place to be filled."""
        path = _REPLACEABLE.get(below(self.__name__))
        if path is None or name.startswith("__"):
            return None
        module = importlib.import_module(path)
        own = {"warn": "warning"}.get(name, name)
        return (module, own) if hasattr(module, own) else None

    def __dir__(self) -> list[str]:
        return sorted({*_found(self), *listing(below(self.__name__))})


def _starred(path: str, names: list[str]) -> list[str]:
    """What ``from MODULE import *`` takes of a module's names: nothing that hides a module or a built-in of Python."""
    if path == "contrib":
        return [name for name in names if name not in _IMPORTED_ALONE]
    if internals.places(path) is None or not path:
        return names
    numbers = _OF_NUMBERS if path == "python.ops.math_ops" else ()
    return [name for name in names if name in numbers or not hasattr(builtins, name)]


_IMPORTED_ALONE = ("all_reduce", "gan", "linalg", "nccl", "nearest_neighbor", "random", "text")
"""Libraries of contrib that TensorFlow's package does not import itself."""

_OF_NUMBERS = ("abs", "complex", "pow", "range", "round")
"""Built-ins that have a counterpart in TensorFlow's module of mathematics, under their name."""

_complete: weakref.WeakSet[Facade] = weakref.WeakSet()
"""Modules whose dictionary has all that they list."""

_originals: dict[tuple[str, str], Any] = {}
"""Functions of ours in whose place a program has put its own."""


def below(module: str) -> str:
    """The part of a module's name after ``tensorflow.``, without ``compat.v1`` or ``_api.v1``."""
    dotted = module[len(NAME) + 1 :]
    for start in ("compat.v1", "_api.v1"):
        if dotted == start or dotted.startswith(f"{start}."):
            return dotted.removeprefix(start).removeprefix(".")
    return dotted


def namespace(path: str) -> Any:
    """The module of Anabranch that stands for a public namespace, or None."""
    value: Any = anabranch
    for part in filter(None, path.split(".")):
        if not isinstance(value, types.ModuleType):
            return None
        try:
            value = getattr(value, part)
        except AttributeError:
            return None
    return value if isinstance(value, types.ModuleType) else None


def resolve(module: str, name: str) -> Any:
    """The object ``name`` of the module ``module`` (below ``tensorflow.``), modules as those of this hook.

    Raises:
        AttributeError: there is none; the text says what to write instead.
    """
    full = f"{module}.{name}" if module else name
    value = resolve_value(module, name)
    if isinstance(value, Elsewhere):
        return _facade(value.path)
    return _facade(full) if value is INTERNAL or (isinstance(value, types.ModuleType) and _is_ours(value)) else value


def resolve_value(module: str, name: str) -> Any:
    """The object ``name`` of ``module``: our own module if it is one, :data:`INTERNAL` for an internal one."""
    full = f"{module}.{name}" if module else name
    if ".python" in module and full in internals.MODULES and full not in internals.NAMED_LIKE_A_FUNCTION:
        return INTERNAL  # a module, though there may be a function of that name
    inside = internals.places(module) if module else None
    if inside is None:
        own = namespace(module)
        if own is not None:
            try:
                return getattr(own, name)
            except AttributeError:
                pass  # internal modules lie beside public names
    for place in inside or ():
        try:
            return _from_place(place, name)
        except AttributeError:
            continue
    if internals.places(full) is not None:
        return INTERNAL
    if inside and module.startswith(("python.", "contrib.")):  # TensorFlow's modules import each other
        for folder in ("python.ops", "python.framework", "python.util", "python.training"):
            if internals.places(f"{folder}.{name}"):
                return Elsewhere(f"{folder}.{name}")
    told = f"module {NAME + '.' + module if module else NAME!r} has no attribute {name!r}\n"
    raise api.UnknownNameError(lambda: told + versions.explain(full), name=name)


def _has(module: str, name: str) -> bool:
    try:
        resolve_value(module, name)
    except AttributeError:
        return False
    return True


def _is_ours(module: types.ModuleType) -> bool:
    return module.__name__.split(".")[0] == "anabranch"


def _facade(path: str) -> types.ModuleType:
    return importlib.import_module(f"{NAME}.{path}")


def _from_place(place: str, name: str) -> Any:
    if place.startswith("!"):
        full = f"{place[1:]}.{name}"
        if internals.places(full) is not None:
            raise AttributeError(name)  # a module
        return absent_libraries.name_in(place[1:], name)
    if place.startswith("="):
        return internals.special(place, name)
    if place.startswith("@"):
        module = importlib.import_module(f"anabranch.{place[1:]}")
        value = module.__dict__[name] if name in module.__dict__ else getattr(module, name)
        if isinstance(value, types.ModuleType) and _is_ours(value):
            raise AttributeError(name)  # what our module imports is not a name of theirs
        return value
    home = namespace("" if place == "top" else place)
    if home is None:
        raise AttributeError(name)
    value = getattr(home, name)
    if isinstance(value, types.ModuleType) and place == "top":
        raise AttributeError(name)  # tf.nn is not a name of math_ops
    return value


def listing(path: str) -> list[str]:
    """Names that a module has, as far as they can be listed."""
    own = namespace(path) if internals.places(path) is None or not path else None
    if own is not None:
        return dir(own)
    names: set[str] = set()
    for place in internals.places(path) or ():
        if not place.startswith(("=", "@", "!")):
            space = "" if place == "top" else place
            module = namespace(space)
            listed = dir(module)  # which loads what it holds
            published = api.namespace(space) or {name: getattr(module, name) for name in listed if name[0] != "_"}
            names.update(name for name, value in published.items() if not isinstance(value, types.ModuleType))
    return sorted(names)


def _is_imported() -> bool:
    """Whether the finder that calls this is asked by an import, and not by `importlib.util.find_spec`."""
    asking = sys._getframe(2).f_back  # of the search through all finders, which has called the finder
    return asking is not None and asking.f_code.co_name == "_find_and_load_unlocked"


def _is_named_in_from() -> bool:
    """Whether a module is looked for because a ``from ... import`` names it."""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__") == "importlib._bootstrap" and frame.f_code.co_name == "_handle_fromlist":
            return True
        if frame.f_globals.get("__name__") not in ("importlib._bootstrap", __name__):
            return False
        frame = frame.f_back  # type: ignore[assignment]
    return False


class Finder:
    """Find ``tensorflow`` and what is below it."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The specification of a module. What is not there has none, and an import of it is told what to write."""
        if fullname != NAME and not fullname.startswith(NAME + "."):
            return None
        module = below(fullname)
        if module and internals.places(module) is None and namespace(module) is None:
            if not _is_imported():
                return None
            parent, _, name = module.rpartition(".")
            if _has(parent, name):  # what `pydoc.locate` tries first
                advice = f"from {fullname.rpartition('.')[0]} import {name}"
                raise ModuleNotFoundError(
                    f"No module named {fullname!r}\n"
                    + errors.message(f"an import of {fullname}, which is not a module", "a module", advice),
                    name=fullname,
                )
            # Without a `name`: importlib would replace the text by one without advice.
            # `from a import b` drops an error that names `a.b`, and with it the advice; others ask whose error it is.
            named = None if _is_named_in_from() else fullname
            raise ModuleNotFoundError(f"No module named {fullname!r}\n" + versions.explain(module), name=named)
        return importlib.machinery.ModuleSpec(fullname, Finder, is_package=True)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
        """An empty module."""
        return Facade(spec.name)

    @staticmethod
    def exec_module(module: types.ModuleType) -> None:
        """Fill in what a module has from the start."""
        path = below(module.__name__)
        if not path and module.__name__ != NAME:  # tensorflow.compat.v1 is tensorflow
            sys.modules[module.__name__] = importlib.import_module(NAME)
            return
        own = namespace(path) if internals.places(path) is None or not path else None
        module.__doc__ = own.__doc__ if own is not None else f"Names that programs import from {module.__name__}."
        if not path:
            _found(module)["__version__"] = anabranch.VERSION
            _found(module)["__git_version__"] = anabranch.GIT_VERSION
            _found(module)["__compiler_version__"] = anabranch.COMPILER_VERSION
            _found(module)["__file__"] = anabranch.__file__


_lock = threading.Lock()


def installed_tensorflow() -> str | None:
    """Where a TensorFlow that is really installed lies, or None. A mere folder of that name is none."""
    if isinstance(sys.modules.get(NAME), Facade):
        return None
    if NAME in sys.modules:
        return str(getattr(sys.modules[NAME], "__file__", "it is imported"))
    finders = [finder for finder in sys.meta_path if finder is not Finder]
    for finder in finders:
        find = getattr(finder, "find_spec", None)
        spec = find(NAME, None) if find is not None else None
        if spec is not None and spec.origin is not None and spec.loader is not None:
            return str(spec.origin)
    return None


def install(replace: bool = False) -> types.ModuleType:
    """Make ``import tensorflow`` mean Anabranch in this process, and return that module.

    Args:
        replace: do so although a TensorFlow is installed.

    Raises:
        ImportError: a TensorFlow is installed and ``replace`` is false, or it is imported already.
    """
    with _lock:
        real = installed_tensorflow()
        if real is not None and not replace:
            raise ImportError(
                errors.message(
                    f"TensorFlow, installed at {real}",
                    "an environment without it: programs that mean it would get Anabranch",
                    "pip uninstall tensorflow, or ask for it: `anabranch run --replace-tensorflow SCRIPT`, "
                    "anabranch.compat.hook.install(replace=True)",
                )
            )
        if NAME in sys.modules and not isinstance(sys.modules[NAME], Facade):
            raise ImportError(
                errors.message(
                    "a TensorFlow that this process has imported already",
                    "the hook before the first `import tensorflow`",
                    "import anabranch.compat.tensorflow at the top of the program",
                )
            )
        if Finder not in sys.meta_path:
            sys.meta_path.insert(0, Finder)
    return importlib.import_module(NAME)


def uninstall() -> None:
    """Take the hook out again, with the modules that it made."""
    with _lock:
        if Finder in sys.meta_path:
            sys.meta_path.remove(Finder)
        for name in [name for name in list(sys.modules) if name == NAME or name.startswith(NAME + ".")]:
            del sys.modules[name]
