"""Argument scopes: defaults for functions that are called inside a ``with`` block.

A scope is a dictionary from functions to keyword arguments; scopes nest, and an inner one overrides arguments of outer
ones. A call's own arguments override all. Each thread has its own stack of scopes.

>>> @add_arg_scope
... def area(width, height=1):
...     return width * height
>>> with arg_scope([area], height=3):
...     area(2), area(2, height=5)
(6, 10)
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public

Scope = dict[str, dict[str, Any]]


class _Stack(threading.local):
    def __init__(self) -> None:
        self.scopes: list[Scope] = [{}]


_stack = _Stack()
_parameters: dict[str, tuple[str, ...]] = {}


@public("contrib.framework.arg_scope_func_key")
def arg_scope_func_key(op: Any) -> Any:
    """The key of a function in a scope."""
    return getattr(op, "_key_op", str(op))


@public("contrib.framework.current_arg_scope")
def current_arg_scope() -> Scope:
    """The defaults that hold here: key of the function -> keyword arguments."""
    return _stack.scopes[-1]


@public("contrib.framework.has_arg_scope")
def has_arg_scope(func: Any) -> bool:
    """Whether a function takes defaults from scopes."""
    return arg_scope_func_key(func) in _parameters


@public("contrib.framework.arg_scoped_arguments")
def arg_scoped_arguments(func: Any) -> tuple[str, ...]:
    """Names of the arguments with a default of a function: those that a scope can set."""
    if not has_arg_scope(func):
        raise ValueError(
            errors.message(
                f"{_name(func)}, which takes nothing from scopes", "a scoped function", "@add_arg_scope above it"
            )
        )
    return _parameters[arg_scope_func_key(func)]


def _name(func: Any) -> str:
    return getattr(func, "__name__", None) or str(func)


@public("contrib.framework.add_arg_scope")
def add_arg_scope(func: Callable[..., Any]) -> Callable[..., Any]:
    """Decorator: the function takes defaults of its keyword arguments from scopes."""
    key = arg_scope_func_key(func)

    @functools.wraps(func)
    def scoped(*args: Any, **kwargs: Any) -> Any:
        defaults = _stack.scopes[-1].get(key)
        return func(*args, **{**defaults, **kwargs}) if defaults else func(*args, **kwargs)

    scoped._key_op = key  # type: ignore[attr-defined]
    _parameters[key] = tuple(
        name
        for name, parameter in inspect.signature(func).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    )
    return scoped


@public("contrib.framework.arg_scope")
@contextlib.contextmanager
def arg_scope(list_ops_or_scope: Any, **kwargs: Any) -> Iterator[Scope]:
    """A block in which functions have other defaults.

    Args:
        list_ops_or_scope: functions decorated with :func:`add_arg_scope`; or a scope that another block gave
            (``with arg_scope(...) as scope``), which then holds here, without ``kwargs``.
        **kwargs: the defaults.

    Raises:
        TypeError: ``list_ops_or_scope`` is neither.
        ValueError: a function takes nothing from scopes, or a scope was given with ``kwargs``.
    """
    given = list_ops_or_scope
    if isinstance(given, dict):
        if kwargs:
            raise ValueError(
                "When attempting to re-use a scope by suppling a dictionary, kwargs must be empty.\n"
                + errors.message(
                    f"a scope and {sorted(kwargs)}",
                    "a scope that is entered again, or functions with arguments, but not both",
                    "a block inside the block of the scope",
                )
            )
        scope: Scope = {key: dict(defaults) for key, defaults in given.items()}
    elif isinstance(given, list | tuple):
        scope = {key: dict(defaults) for key, defaults in _stack.scopes[-1].items()}
        for op in given:
            if not has_arg_scope(op):
                raise ValueError(
                    f"{_name(op)} is not decorated with @add_arg_scope\n"
                    + errors.message(f"the function {_name(op)}", "a scoped function", "@add_arg_scope above it")
                )
            scope.setdefault(arg_scope_func_key(op), {}).update(kwargs)
    else:
        raise TypeError(
            "list_ops_or_scope must either be a list/tuple or reused scope (i.e. dict)\n"
            + errors.message(
                f"a {type(given).__name__}", "a list of functions or a scope", "arg_scope([function], ...)"
            )
        )
    _stack.scopes.append(scope)
    try:
        yield scope
    finally:
        _stack.scopes.pop()
