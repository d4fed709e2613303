"""Decorators and helpers of ``tensorflow.python.util`` that programs import."""

from __future__ import annotations

import contextlib
import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.compat.internal.decorators import TFDecorator, make_decorator, rewrap, unwrap

__all__ = ["TFDecorator", "make_decorator", "rewrap", "unwrap"]
contextmanager = contextlib.contextmanager
deprecated = tf.contrib.framework.deprecated
deprecated_args = tf.contrib.framework.deprecated_args
deprecated_arg_values = tf.contrib.framework.deprecated_arg_values


class _Silence(contextlib.ContextDecorator):
    """A block in which the decorators above do not warn."""

    def __enter__(self) -> None:
        self._caught = warnings.catch_warnings()
        self._caught.__enter__()
        warnings.simplefilter("ignore", DeprecationWarning)

    def __exit__(self, *problem: object) -> None:
        self._caught.__exit__(None, None, None)


silence = _Silence


def deprecated_argument_lookup(new_name: str, new_value: Any, old_name: str, old_value: Any) -> Any:
    """The value of an argument that has a new and an old name; ValueError if both are given."""
    if old_value is None:
        return new_value
    if new_value is not None:
        raise ValueError(f"Cannot specify both '{old_name}' and '{new_name}'")
    return old_value


def remove_undocumented(module_name: str, allowed_exception_list: Any = None, doc_string_modules: Any = None) -> None:
    """Leave a module as it is: names that it does not document are no harm here."""


def tf_export(*names: str, **options: Any) -> Callable[[Any], Any]:
    """Decorator that gives a symbol public names in TensorFlow; here it gives the symbol back."""
    return lambda symbol: symbol


def should_use_result(func: Any) -> Any:
    """Decorator of functions whose result a program ought to use; the function itself."""
    return func


def do_not_convert(func: Any = None, **options: Any) -> Any:
    """Decorator: the function is not rewritten, as none is."""
    return func if func is not None else lambda inner: inner


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
