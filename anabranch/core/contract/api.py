"""The table of public names: a definition says under which names the world sees it.

``@public("nn.relu")`` beside a function puts it at ``anabranch.nn.relu``. ``anabranch/__init__.py`` resolves names
from this table on first use, so that importing the package loads nothing. :func:`public_op` makes the plain Python
function of an op whose signature needs no help.

Each name keeps the module and the line that published it (:func:`published_at`), from which `anabranch where` and the
pages of the API reference lead to the source.
"""

from __future__ import annotations

import difflib
import inspect
import sys
from collections.abc import Callable
from typing import Any, TypeVar

from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.contract.opdef import REQUIRED
from anabranch.core.graph.build import build

T = TypeVar("T")
_names: dict[str, Any] = {}
_published_at: dict[str, tuple[str, int]] = {}


def public(*names: str) -> Callable[[T], T]:
    """Decorator: publishes an object under dotted names relative to the package, e.g. ``"nn.relu"``."""

    def publish(obj: T) -> T:
        for name in names:
            publish_as(name, obj)
        return obj

    return publish


def publish_as(name: str, obj: Any) -> None:
    """Publish ``obj`` under one dotted name; TypeError if the name is taken by another object."""
    if name in _names and _names[name] is not obj:
        raise TypeError(
            errors.message(
                f"public name {name!r} given to {obj!r}", f"one object per name; it is {_names[name]!r}", "rename one"
            )
        )
    _names[name] = obj
    _published_at.setdefault(name, opdef.calling_statement())


def published_at(name: str) -> tuple[str, int]:
    """Module and line of the statement that published ``name``; KeyError if nothing did."""
    return _published_at[name]


_resolver: list[Callable[..., Any]] = []  # (resolve, list), filled by the package's start-up


def set_resolver(resolve: Callable[[str, str], Any], listing: Callable[[str], list[str]]) -> None:
    """Register how a name of a namespace is found and how its names are listed; the package does so when it starts."""
    _resolver[:] = [resolve, listing]


def module_attributes(prefix: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of the module that stands for the namespace ``prefix``.

    A package whose name is also a namespace (``train``, ``layers``) writes
    ``__getattr__, __dir__ = api.module_attributes("train")``, so that names published by other modules under ``train.``
    are found there too.
    """

    def find(name: str) -> Any:
        return _resolver[0](prefix, name)

    def listing() -> list[str]:
        return _resolver[1](prefix)

    return find, listing


def names() -> dict[str, Any]:
    """All published names so far."""
    return _names


class UnknownNameError(AttributeError):
    """A name that is not there. The advice is worked out when somebody reads it: ``hasattr`` asks and never does."""

    def __init__(self, advice: Callable[[], str], **where: Any):
        super().__init__(**where)
        self._advice: Callable[[], str] | str = advice

    def __str__(self) -> str:
        if not isinstance(self._advice, str):
            self._advice = self._advice()
        return self._advice

    def __repr__(self) -> str:
        return f"AttributeError({str(self)!r})"

    def __reduce__(self) -> Any:
        return AttributeError, (str(self),)


def similar_names(name: str, likeness: float) -> list[str]:
    """At most six public names, as ``tf.`` and the name, that are spelt like ``name``, begin with it or end like it."""
    space, _, last = name.lower().rpartition(".")
    same, longer, candidates = [], [], []
    for item in sorted(_names):
        own_space, _, own_last = item.lower().rpartition(".")
        if own_last == last:
            same.append(item)
        elif own_space == space and len(last) > 2 and own_last.startswith(last):
            longer.append(item)
        # Comparing with all of some thousands of names takes 40 ms; what is similar has this in common.
        elif own_space == space or (own_last[:2] == last[:2] and abs(len(own_last) - len(last)) < 4):
            candidates.append(item)
    near = difflib.get_close_matches(name, candidates, 4, likeness)
    return [f"tf.{item}" for item in dict.fromkeys([*near, *longer, *same])][:6]


def namespace(prefix: str) -> dict[str, Any]:
    """Published objects directly under ``prefix`` (``""`` for the top), with sub-namespaces left out."""
    start = prefix + "." if prefix else ""
    return {
        name[len(start) :]: obj
        for name, obj in _names.items()
        if name.startswith(start) and "." not in name[len(start) :]
    }


def public_op(
    type_name: str, *published: str, arguments: str | None = None, defaults: dict[str, Any] | None = None
) -> Callable[..., Any]:
    """Make and publish the Python function of an op.

    Args:
        type_name: the op.
        published: dotted public names.
        arguments: blank-separated argument names in order, if they differ from inputs followed by attributes that
            are not inferred. ``old=new`` gives the op's argument ``old`` the public name ``new``; ``name`` is the
            last one unless it is among them.
        defaults: defaults of arguments that the op's attributes do not have.
    """
    definition = opdef.lookup(type_name)
    inputs = [spec.name for spec in definition.inputs]
    inferred = definition.inferred_attrs  # type: ignore[attr-defined]
    order = (
        arguments.split()
        if arguments is not None
        else inputs + [key for key in definition.attrs if key not in inferred and not key.startswith("_")]
    )
    renamed: dict[str, str] = {}
    parameters = []
    for item in order:
        if item == "name":
            parameters.append(inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None))
            continue
        own, _, shown = item.partition("=")
        shown = shown or own
        renamed[shown] = own
        default = (defaults or {}).get(shown, inspect.Parameter.empty)
        if (
            default is inspect.Parameter.empty
            and own in definition.attrs
            and definition.attrs[own].default is not REQUIRED
        ):
            default = definition.attrs[own].default
        parameters.append(inspect.Parameter(shown, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
    if "name" not in order:
        parameters.append(inspect.Parameter("name", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=None))
    order_shown = [parameter.name for parameter in parameters]
    signature = inspect.Signature(parameters)
    default_of = {
        parameter.name: parameter.default
        for parameter in parameters
        if parameter.default is not inspect.Parameter.empty
    }
    function_name = published[0].rsplit(".", 1)[-1] if published else type_name
    required = [shown for shown in order_shown if shown not in default_of]

    def call(*args: Any, **kwargs: Any) -> Any:
        if len(args) > len(order_shown):
            raise TypeError(f"{function_name}() takes at most {len(order_shown)} arguments ({len(args)} given)")
        values = dict(zip(order_shown, args, strict=False))
        for key, value in kwargs.items():
            if key in values or key not in order_shown:
                raise TypeError(
                    f"{function_name}() got {'multiple values for' if key in values else 'an unexpected keyword'} "
                    f"argument {key!r}; "
                    f"arguments: {', '.join(order_shown)}"
                )
            values[key] = value
        for key in required:
            if key not in values:
                raise TypeError(f"{function_name}() missing argument {key!r}; arguments: {', '.join(order_shown)}")
        for key, value in default_of.items():
            values.setdefault(key, value)
        name = values.pop("name")
        named = {renamed[key]: value for key, value in values.items()}
        return build(type_name, *[named.pop(operand) for operand in inputs], name=name, **named)

    function = _located(lambda *args, **kwargs: call(*args, **kwargs), function_name)
    function.__doc__ = definition.doc
    function.__signature__ = signature  # type: ignore[attr-defined]
    function.__wrapped__ = _source_of(definition)  # type: ignore[attr-defined]
    function.op_type = type_name  # type: ignore[attr-defined]
    function.__module__ = ".".join(["anabranch", *published[0].split(".")[:-1]]) if published else "anabranch"
    for name in published:
        publish_as(name, function)
    return function


def _located(function: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Give a function the name, the file and the line of the row that makes it.

    ``function`` is a lambda on one line, so that its only line becomes the row's: in a traceback and for
    ``inspect.getsourcefile`` the function stands where a reader finds its definition.
    """
    module, line = opdef.calling_statement()
    file = getattr(sys.modules.get(module), "__file__", None)
    code = function.__code__.replace(co_name=name)
    function.__code__ = code.replace(co_filename=file, co_firstlineno=line) if file else code
    function.__name__ = function.__qualname__ = name
    return function


def _source_of(definition: opdef.OpDefinition) -> Any:
    """What ``inspect.getsource`` shows for the function of an op: the op's block, or the kernel of a table's row."""
    if definition.block is not None:
        return definition.block
    return definition.kernel or definition.host_kernel or definition.shape
