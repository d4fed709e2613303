"""Decorators and helpers of ``tensorflow.python.util`` that programs import."""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
from typing import Any

from anabranch.contrib.framework.deprecation import (
    add_notice_to_docstring,
    deprecated,
    deprecated_alias,
    deprecated_arg_values,
    deprecated_args,
    deprecated_argument_lookup,
    rewrite_argument_docstring,
    silence,
    validate_callable,
)
from anabranch.core import errors
from anabranch.core.decorators import TFDecorator, make_decorator, rewrap, unwrap

__all__ = [
    "TFDecorator",
    "add_notice_to_docstring",
    "deprecated",
    "deprecated_alias",
    "deprecated_arg_values",
    "deprecated_args",
    "deprecated_argument_lookup",
    "make_decorator",
    "rewrap",
    "rewrite_argument_docstring",
    "silence",
    "unwrap",
    "validate_callable",
]


def contextmanager(target: Any) -> Any:
    """``contextlib.contextmanager``, which tells what it decorates."""
    return make_decorator(target, contextlib.contextmanager(target), "contextmanager")


def remove_undocumented(module_name: str, allowed_exception_list: Any = None, doc_string_modules: Any = None) -> None:
    """Leave a module as it is: names that it does not document are no harm here."""


def make_all(module_name: str, doc_string_modules: Any = None) -> list[str]:
    """Public names of a module that its docstring, or those of other modules, lists as ``@@name``.

    Args:
        module_name: name of the module.
        doc_string_modules: modules whose docstrings name symbols; the module itself if None.
    """
    module = sys.modules[module_name]
    texts = [one.__doc__ or "" for one in doc_string_modules or [module]]
    named = {name for text in texts for name in re.findall(r"^\s*@@(\w+)\s*$", text, re.MULTILINE)}
    return sorted(name for name in vars(module) if not name.startswith("_") and name in named)


class SymbolAlreadyExposedError(Exception):
    """A symbol has public names already."""


class tf_export:
    """Decorator that notes public names of a function or class, as its ``_tf_api_names``.

    Args:
        *names: the names.
        **options: ``overrides``: symbols whose names are taken from them.
    """

    def __init__(self, *names: str, **options: Any) -> None:
        self._names, self._overrides = names, options.get("overrides", [])

    def __call__(self, symbol: Any) -> Any:
        for other in self._overrides:
            del unwrap(other)[1]._tf_api_names
        target = unwrap(symbol)[1]
        if "_tf_api_names" in getattr(target, "__dict__", {}):
            raise SymbolAlreadyExposedError(
                f"Symbol {target.__name__} is already exposed as {target._tf_api_names}.\n"
                + errors.message(f"names {self._names}", "one decorator for all names", "tf_export('a', 'b')")
            )
        target._tf_api_names = self._names
        return symbol

    def export_constant(self, module_name: str, name: str) -> None:
        """Note the public names of a constant of a module."""
        module = sys.modules[module_name]
        if not hasattr(module, "_tf_api_constants"):
            module._tf_api_constants = []  # type: ignore[attr-defined]
        module._tf_api_constants.append((self._names, name))


def should_use_result(func: Any) -> Any:
    """Decorator of functions whose result a program ought to use; the function itself."""
    return func


def do_not_convert(func: Any = None, **options: Any) -> Any:
    """Decorator: the function is not rewritten, as none is."""
    return func if func is not None else lambda inner: inner


def get_qualified_name(function: Any) -> str:
    """A function's name with those of the classes that it is defined in."""
    return str(getattr(function, "__qualname__", function.__name__)).rpartition("<locals>.")[2]


def fn_args(fn: Any) -> tuple[str, ...]:
    """Names of a function's arguments, without the object that a method belongs to."""
    if isinstance(fn, functools.partial):
        taken = set(fn.keywords)
        return tuple(name for name in fn_args(fn.func)[len(fn.args) :] if name not in taken)
    if callable(fn) and not inspect.isroutine(fn) and not inspect.isclass(fn):
        fn = fn.__call__
    names = inspect.getfullargspec(fn).args
    return tuple(names[1:] if inspect.ismethod(fn) else names)


def has_kwargs(fn: Any) -> bool:
    """Whether a function takes any keyword argument."""
    target = fn.func if isinstance(fn, functools.partial) else fn
    return inspect.getfullargspec(target).varkw is not None


def keyword_args_only(func: Any) -> Any:
    """Decorator: arguments are given by name only; ValueError otherwise."""

    @functools.wraps(func)
    def named(*args: Any, **kwargs: Any) -> Any:
        if args:
            raise ValueError(f"Must use keyword args to call {func.__name__}.")
        return func(**kwargs)

    return named
