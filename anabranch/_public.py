"""The public interface: finds the name behind ``tf.X`` and ``from anabranch.nn import x``, and loads what it needs.

Every public name is resolved on first use. Importing the package loads NumPy and the graph's own ground; ``tf.matmul``
then loads the op families and the libraries of :data:`_LIBRARIES`, each of which publishes its names in the table of
:mod:`anabranch.core.contract.api`. A dotted name ``"nn.relu"`` in that table makes the namespace ``anabranch.nn``: a
package of that name if there is one, a module made for it otherwise, so that both ``tf.nn.relu`` and
``from anabranch.nn import relu`` work.
"""

from __future__ import annotations

import importlib
import importlib.machinery
import os
import sys
import types
from collections.abc import Sequence
from typing import Any

from anabranch import ops
from anabranch.core import errors, framework, interrupts, one_time, process_end
from anabranch.core.contract import absent, api, hooks, opdef

PACKAGE = "anabranch"
# Parts that publish names at the top or in namespaces of their own, in the order in which they load; those that are not
# there are passed over. `keras`, `lite`, `serving`, `contrib` and `estimator` load only when named.
_LIBRARIES = (
    "autodiff",
    "formats",
    "variables",
    "session",
    "train",
    "cluster",
    "saved_model",
    "layers",
    "losses",
    "metrics",
    "rnn",
    "data",
    "summary",
    "eager",
    "debug",
    "distribute",
    "testing",
    "ragged",  # late: it puts functions that take ragged tensors in the place of others
)

_parts = {
    entry.removesuffix(".py")
    for folder in sys.modules[PACKAGE].__path__
    for entry in os.listdir(folder)
    if not entry.startswith(("_", "."))
}


def _load_everything_named() -> None:
    for module in (
        "public_protos",
        "graphdef.graph_def",
        "graphdef.import_graph",
        "graphdef.graph_util",
    ):  # loads protobuf, 30 ms
        importlib.import_module(f"{PACKAGE}.core.{module}")
    ops.load_all()
    for part in _LIBRARIES:
        if part in _parts:
            importlib.import_module(f"{PACKAGE}.{part}")
    importlib.import_module(f"{PACKAGE}.compat.behaviour")
    importlib.import_module(f"{PACKAGE}.compat.later_names")
    importlib.import_module(f"{PACKAGE}.compat.later_summary")
    importlib.import_module(f"{PACKAGE}.compat.old_names")  # last: what a part has under an old name stands


_load = one_time.Once(_load_everything_named, "import")
"""Imports everything that publishes names."""
_known_namespaces: tuple[int, frozenset[str]] = (-1, frozenset())


def _namespaces() -> frozenset[str]:
    """Dotted names of all namespaces that hold a published name; names are only ever added."""
    global _known_namespaces
    published = api.names()
    if _known_namespaces[0] != len(published):
        count, namespaces = len(published), set()
        for name in (*published, *_ALIASES):
            while "." in name:
                name = name.rpartition(".")[0]
                namespaces.add(name)
        _known_namespaces = count, frozenset(namespaces)
    return _known_namespaces[1]


def _resolve(prefix: str, name: str) -> Any:
    """The object called ``name`` in the namespace ``prefix`` (``""`` is the top)."""
    if name.startswith("__") and name.endswith(
        "__"
    ):  # asked for by pickle, inspect and the like: not worth loading anything
        raise AttributeError(f"module {PACKAGE!r} has no attribute {name!r}")
    if _load.elsewhere:  # whoever began it was interrupted: half of the names are no use
        _load()
    full = f"{prefix}.{name}" if prefix else name
    if full in _HOMES:
        _import(f"{PACKAGE}.{_HOMES[full]}")
    is_part = full in _ALIASES or (not prefix and name in _parts)
    if full not in api.names() and not is_part and full not in _namespaces():
        try:
            _load()
        except AttributeError as problem:  # hasattr would take it for 'no such name'
            raise ImportError(f"a part of {PACKAGE} does not load: {problem}") from problem
    found = api.names().get(full, api)
    if found is api:
        if not is_part and full not in _namespaces():
            raise _unknown(prefix, name)
        found = _import(f"{PACKAGE}.{full}")
    if f"{PACKAGE}.ops.array" in sys.modules:  # a library loads the families that it needs, and its tensors are whole
        _import(f"{PACKAGE}.ops.shared.operators")
    home = _import(f"{PACKAGE}.{prefix}" if prefix else PACKAGE)
    setattr(home, name, found)
    return found


def _import(module: str) -> Any:
    with interrupts.held():
        return importlib.import_module(module)


def _unknown(prefix: str, name: str) -> AttributeError:
    def advice() -> str:
        shown = f"tf.{prefix}.{name}" if prefix else f"tf.{name}"
        near = api.similar_names(f"{prefix}.{name}".strip("."), 0.75)
        listed = f"one of {', '.join(near)}" if near else f"dir({shown.rpartition('.')[0]}) lists the names there are"
        instead = absent.instead(shown.removeprefix("tf.")) or listed
        expected = f"a public name of {'namespace tf.' + prefix if prefix else 'the package'}"
        return f"module {PACKAGE!r} has no attribute {name!r}\n" + errors.message(shown, expected, instead)

    return api.UnknownNameError(
        advice,
        name=name,
        obj=sys.modules.get(f"{PACKAGE}.{prefix}" if prefix else PACKAGE),
    )


def _listing(prefix: str) -> list[str]:
    _load()
    start = prefix + "." if prefix else ""
    names = [*api.names(), *_ALIASES, *_HOMES]
    return sorted({name[len(start) :].partition(".")[0] for name in names if name.startswith(start)})


def load_everything() -> None:
    """Load also what loads only when it is named, so that the table of names is complete."""
    _load()
    for name in _ALIASES:
        importlib.import_module(f"{PACKAGE}.{name}")
    contrib = importlib.import_module(f"{PACKAGE}.contrib")
    for name in dir(contrib):
        getattr(contrib, name)


def find(name: str) -> Any:
    """The public object ``tf.<name>``; AttributeError if there is none."""
    return _resolve("", name)


def listing() -> list[str]:
    """Names of the public interface at the top."""
    return sorted({*_listing(""), "__version__", "__doc__", "__name__", "__path__"})


class _Namespaces:
    """Find the modules that stand for namespaces without a package; asked after the usual finders."""

    @staticmethod
    def find_spec(
        fullname: str, path: Sequence[str] | None = None, target: Any = None
    ) -> importlib.machinery.ModuleSpec | None:
        if not fullname.startswith(PACKAGE + "."):
            return None
        prefix = fullname[len(PACKAGE) + 1 :]
        if prefix not in _ALIASES:
            if prefix not in _namespaces():
                _load.here()  # the import system holds the lock of this module
            if prefix not in _namespaces():
                return None
        return importlib.machinery.ModuleSpec(fullname, _Namespaces, is_package=True)  # type: ignore[arg-type]

    @staticmethod
    def create_module(spec: importlib.machinery.ModuleSpec) -> None:
        return None

    @staticmethod
    def exec_module(module: types.ModuleType) -> None:
        prefix = module.__name__[len(PACKAGE) + 1 :]
        if prefix in _ALIASES:
            target = importlib.import_module(_ALIASES[prefix])
            if not hasattr(target, "__path__"):  # `import anabranch.app.flags` needs a package in between
                target.__path__ = []
            sys.modules[module.__name__] = target
            return
        module.__doc__ = f"Public names of tf.{prefix}."
        module.__dict__["__getattr__"], module.__dict__["__dir__"] = api.module_attributes(prefix)


# Namespaces that are modules of another name, which load when they are named.
_ALIASES = {
    # `import anabranch.compat.v1 as tf`: so do programs for TensorFlow's late versions name its version 1 interface.
    "compat.v1": PACKAGE,
    "app": f"{PACKAGE}.platform.app",
    "app.flags": f"{PACKAGE}.platform.flags",
    "flags": f"{PACKAGE}.platform.flags",
    "gfile": f"{PACKAGE}.platform.gfile",
    "io.gfile": f"{PACKAGE}.platform.io_gfile",
    "logging": f"{PACKAGE}.platform.logging",
    "raw_ops": f"{PACKAGE}.compat.v2.raw_ops",
    "resource_loader": f"{PACKAGE}.platform.resource_loader",
    "sysconfig": f"{PACKAGE}.platform.sysconfig",
    "test": f"{PACKAGE}.testing.test",
}
# Names at the top that such a module publishes, or without which what it has is not whole: operators of tensors.
_HOMES = {"get_logger": "logging", "Tensor": "ops.shared.operators"}

opdef.set_family_loader(ops.load_all)
hooks.set_loader(_load)
api.set_resolver(_resolve, _listing)
framework.publish_constants()
api.publish_as("compat.v1", sys.modules[PACKAGE])
sys.meta_path.append(_Namespaces)
process_end.shorten()
