"""Decorators of functions, arguments and values that are to go: they warn, and say so in the documentation.

A warning is a message of ``tf.logging``, as in TensorFlow, and names the line of the caller. It comes once for each
function (and argument) unless a decorator is told otherwise, and not inside :func:`silence`.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.decorators import make_decorator
from anabranch.platform import logging

_DATE = re.compile(r"20\d\d-[01]\d-[0123]\d")
_silenced = 0


def _check(date: str | None, instructions: str) -> None:
    if date is not None and not _DATE.match(date):
        raise ValueError(
            "Date must be YYYY-MM-DD.\n" + errors.message(f"date={date!r}", "a date or None", "'2026-12-31'")
        )
    if not instructions:
        raise ValueError(
            "Don't deprecate things without conversion instructions!\n"
            + errors.message("no instructions", "what to use instead", "deprecated(None, 'Use f.')")
        )


def validate_callable(func: Any, decorator_name: str) -> None:
    """Check that what is decorated is a function; ValueError otherwise."""
    if not callable(func):
        raise ValueError(
            f"{func} is not a function. If this is a property, make sure @property appears before @{decorator_name} in "
            "your source code\n"
            + errors.message(f"a {type(func).__name__}", "a function", f"@property above @{decorator_name}")
        )


def _when(date: str | None) -> str:
    return "in a future version" if date is None else f"after {date}"


def add_notice_to_docstring(
    doc: str | None, instructions: str, no_doc_str: str, suffix_str: str, notice: list[str]
) -> str:
    """Documentation with a notice below its first line.

    Args:
        doc: the documentation, if any.
        instructions: the last line of the notice.
        no_doc_str: first line where there is no documentation.
        suffix_str: words behind the first line.
        notice: lines of the notice.
    """
    lines = inspect.cleandoc(doc).rstrip().splitlines() if doc else [no_doc_str]
    if doc:
        lines[0] += f" {suffix_str}"
    added = ["", *notice, *([instructions] if instructions else [])]
    if len(lines) > 1 and lines[1].strip():
        added.append("")
    return "\n".join([lines[0], *added, *lines[1:]])


def _function_doc(doc: str | None, date: str | None, instructions: str) -> str:
    notice = [f"THIS FUNCTION IS DEPRECATED. It will be removed {_when(date)}.", "Instructions for updating:"]
    return add_notice_to_docstring(doc, instructions, "DEPRECATED FUNCTION", "(deprecated)", notice)


def _arguments_doc(doc: str | None, date: str | None, instructions: str) -> str:
    notice = [f"SOME ARGUMENTS ARE DEPRECATED. They will be removed {_when(date)}.", "Instructions for updating:"]
    return add_notice_to_docstring(doc, instructions, "DEPRECATED FUNCTION ARGUMENTS", "(deprecated arguments)", notice)


def _warn(text: str, *args: Any) -> None:
    """Log a warning of the program's line that called the decorated function, two frames above."""
    frame = sys._getframe(2)
    logging.warning(f"From %s: {text}", f"{frame.f_code.co_filename}:{frame.f_lineno}", *args)


_GOES = "(from %s) is deprecated and will be removed %s.\nInstructions for updating:\n%s"


@contextlib.contextmanager
def silence() -> Iterator[None]:
    """A block in which the decorators of this module do not warn."""
    global _silenced
    _silenced += 1
    try:
        yield
    finally:
        _silenced -= 1


@public("contrib.framework.deprecated")
def deprecated(date: str | None, instructions: str, warn_once: bool = True) -> Callable[..., Any]:
    """Decorator of a function that is to go: it warns when it is called.

    Args:
        date: after which it goes, as text ``YYYY-MM-DD``; None: some time.
        instructions: what to use instead.
        warn_once: warn at the first call only.

    Raises:
        ValueError: another date, no instructions, or what is decorated is not a function.
    """
    _check(date, instructions)

    def decorate(func: Any) -> Any:
        validate_callable(func, "deprecated")
        warned = False

        @functools.wraps(func)
        def called(*args: Any, **kwargs: Any) -> Any:
            nonlocal warned
            if not (warned and warn_once) and not _silenced:
                warned = True
                _warn(f"%s {_GOES}", func.__qualname__, func.__module__, _when(date), instructions)
            return func(*args, **kwargs)

        return make_decorator(func, called, "deprecated", _function_doc(func.__doc__, date, instructions))

    return decorate


def deprecated_alias(deprecated_name: str, name: str, func_or_class: Any, warn_once: bool = True) -> Any:
    """A function or class under an old name, which warns when it is called or an instance is made.

    Args:
        deprecated_name: the old name.
        name: the name to use.
        func_or_class: the function or class.
        warn_once: warn the first time only.
    """
    warned = False

    def due() -> bool:
        nonlocal warned
        if _silenced or (warned and warn_once):
            return False
        warned = True
        return True

    def text() -> tuple[str, str, str]:
        return "The name %s is deprecated. Please use %s instead.", deprecated_name, name

    advice = f"Please use {name} instead."
    if inspect.isclass(func_or_class):

        def begin(self: Any, *args: Any, **kwargs: Any) -> None:
            if due():
                _warn(*text())
            func_or_class.__init__(self, *args, **kwargs)

        notice = ["THIS CLASS IS DEPRECATED. It will be removed in a future version. "]
        doc = add_notice_to_docstring(func_or_class.__doc__, advice, "DEPRECATED CLASS", "(deprecated)", notice)
        return type(func_or_class.__name__, (func_or_class,), {"__doc__": doc, "__init__": begin})
    validate_callable(func_or_class, "deprecated")

    @functools.wraps(func_or_class)
    def called(*args: Any, **kwargs: Any) -> Any:
        if due():
            _warn(*text())
        return func_or_class(*args, **kwargs)

    return make_decorator(func_or_class, called, "deprecated", _function_doc(func_or_class.__doc__, None, advice))


@public("contrib.framework.deprecated_args")
def deprecated_args(
    date: str | None, instructions: str, *deprecated_arg_names_or_tuples: Any, **kwargs: Any
) -> Callable[..., Any]:
    """Decorator of a function some of whose arguments are to go: it warns when they are given.

    Args:
        date: after which they go; None: some time.
        instructions: what to use instead.
        *deprecated_arg_names_or_tuples: the arguments, or pairs of an argument and the value for which there is no
            warning.
        **kwargs: ``warn_once``.

    Raises:
        ValueError: another date, no instructions, no argument or one that the function does not have.
    """
    _check(date, instructions)
    if not deprecated_arg_names_or_tuples:
        raise ValueError(
            "Specify which argument is deprecated.\n" + errors.message("no argument", "names", "'old_argument'")
        )
    quiet = {
        name if isinstance(name, str) else name[0]: () if isinstance(name, str) else name[1:]
        for name in deprecated_arg_names_or_tuples
    }
    once = kwargs.pop("warn_once", True)
    if kwargs:
        raise ValueError(
            f"Illegal argument to deprecated_args: {kwargs}\n"
            + errors.message(f"options {sorted(kwargs)}", "only the option warn_once", "leave them out")
        )

    def decorate(func: Any) -> Any:
        validate_callable(func, "deprecated_args")
        signature = inspect.signature(func)
        missing = [name for name in quiet if name not in signature.parameters]
        if missing:
            raise ValueError(
                f"The following deprecated arguments are not present in the function signature: {missing}. "
                f"Found next arguments: {list(signature.parameters)}.\n"
                + errors.message(f"arguments {missing}", "arguments of the function", "their names")
            )
        seen: set[str] = set()

        @functools.wraps(func)
        def called(*args: Any, **kwargs: Any) -> Any:
            for name, value in signature.bind_partial(*args, **kwargs).arguments.items():
                if name in quiet and not _among(value, quiet[name]) and not (name in seen and once) and not _silenced:
                    seen.add(name)
                    _warn(
                        f"calling %s with %s {_GOES}",
                        func.__qualname__,
                        name,
                        func.__module__,
                        _when(date),
                        instructions,
                    )
            return func(*args, **kwargs)

        return make_decorator(func, called, "deprecated", _arguments_doc(func.__doc__, date, instructions))

    return decorate


def _among(value: Any, values: tuple[Any, ...]) -> bool:
    """Whether a value is one of some, as far as comparing says True or False."""
    return any(value is one or (value == one) is True for one in values)


@public("contrib.framework.deprecated_arg_values")
def deprecated_arg_values(
    date: str | None, instructions: str, warn_once: bool = True, **deprecated_kwargs: Any
) -> Callable[..., Any]:
    """Decorator of a function some of whose arguments' values are to go: it warns when they are given.

    Args:
        date: after which they go; None: some time.
        instructions: what to use instead.
        warn_once: warn the first time only.
        **deprecated_kwargs: the values by the names of the arguments.

    Raises:
        ValueError: another date, no instructions or no value.
    """
    _check(date, instructions)
    if not deprecated_kwargs:
        raise ValueError(
            "Specify which argument values are deprecated.\n"
            + errors.message("no value", "values by name", "deprecated_arg_values(None, 'Use 1.', n=0)")
        )

    def decorate(func: Any) -> Any:
        validate_callable(func, "deprecated_arg_values")
        signature = inspect.signature(func)
        seen: set[str] = set()

        @functools.wraps(func)
        def called(*args: Any, **kwargs: Any) -> Any:
            bound = signature.bind_partial(*args, **kwargs)
            bound.apply_defaults()
            for name, value in bound.arguments.items():
                if name in deprecated_kwargs and _among(value, (deprecated_kwargs[name],)):
                    if (name in seen and warn_once) or _silenced:
                        continue
                    seen.add(name)
                    given = func.__qualname__, name, value, func.__module__
                    _warn(f"calling %s with %s=%s {_GOES}", *given, _when(date), instructions)
            return func(*args, **kwargs)

        return make_decorator(func, called, "deprecated", _arguments_doc(func.__doc__, date, instructions))

    return decorate


def deprecated_argument_lookup(new_name: str, new_value: Any, old_name: str, old_value: Any) -> Any:
    """The value of an argument that has a new and an old name; ValueError if both are given."""
    if old_value is None:
        return new_value
    if new_value is not None:
        raise ValueError(
            f"Cannot specify both '{old_name}' and '{new_name}'\n"
            + errors.message(f"{old_name} and {new_name}", "one of the two arguments", f"{new_name}=")
        )
    return old_value


def rewrite_argument_docstring(old_doc: str, old_argument: str, new_argument: str) -> str:
    """Documentation in which an argument has another name."""
    renamed = old_doc.replace(f"`{old_argument}`", f"`{new_argument}`")
    return renamed.replace(f"{old_argument}:", f"{new_argument}:")
