"""``tensorflow.python.util.tf_decorator``: decorators that tell what they decorate."""

from __future__ import annotations

import functools
import sys
from typing import Any


class TFDecorator:
    """What is known of a decorator around a function; called, it calls the function.

    Args:
        decorator_name: name of the decorator.
        target: what it decorates.
        decorator_doc: documentation in place of the target's.
        decorator_argspec: arguments in place of the target's.
    """

    def __init__(
        self, decorator_name: str, target: Any, decorator_doc: str | None = "", decorator_argspec: Any = None
    ) -> None:
        self._decorated_target = target
        self._decorator_name = decorator_name
        self._decorator_doc = decorator_doc
        self._decorator_argspec = decorator_argspec
        if hasattr(target, "__name__"):
            self.__name__ = target.__name__
        self.__doc__ = decorator_doc or getattr(target, "__doc__", None) or ""

    def __get__(self, obj: Any, objtype: Any = None) -> Any:
        return functools.partial(self.__call__, obj)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._decorated_target(*args, **kwargs)

    @property
    def decorated_target(self) -> Any:
        """What the decorator is around."""
        return self._decorated_target

    @property
    def decorator_name(self) -> str:
        """Name of the decorator."""
        return self._decorator_name

    @property
    def decorator_doc(self) -> str | None:
        """Documentation in place of the target's."""
        return self._decorator_doc

    @property
    def decorator_argspec(self) -> Any:
        """Arguments in place of the target's."""
        return self._decorator_argspec


def make_decorator(
    target: Any,
    decorator_func: Any,
    decorator_name: str | None = None,
    decorator_doc: str | None = "",
    decorator_argspec: Any = None,
) -> Any:
    """``decorator_func`` with the name and the documentation of ``target``, and with what :func:`unwrap` finds.

    Args:
        target: what is decorated.
        decorator_func: the function around it.
        decorator_name: name of the decorator; that of the calling function if None.
        decorator_doc: documentation in place of the target's.
        decorator_argspec: arguments in place of the target's.
    """
    name = sys._getframe(1).f_code.co_name if decorator_name is None else decorator_name
    decorator = TFDecorator(name, target, decorator_doc, decorator_argspec)
    decorator_func._tf_decorator = decorator
    for attribute in ("__name__", "__module__"):
        if hasattr(target, attribute):
            setattr(decorator_func, attribute, getattr(target, attribute))
    decorator_func.__doc__ = decorator.__doc__
    decorator_func.__wrapped__ = target
    return decorator_func


def unwrap(maybe_tf_decorator: Any) -> tuple[list[Any], Any]:
    """The decorators around a function, outermost first, and the function."""
    decorators: list[Any] = []
    current = maybe_tf_decorator
    while True:
        if isinstance(current, TFDecorator):
            decorators.append(current)
        elif hasattr(current, "_tf_decorator"):
            decorators.append(current._tf_decorator)
        else:
            return decorators, current
        current = decorators[-1].decorated_target


def rewrap(decorator_func: Any, previous_target: Any, new_target: Any) -> Any:
    """Put a function in the place of the one that decorators are around; the outermost decorator, or the function."""
    decorators, _ = unwrap(decorator_func)
    innermost = next((one for one in reversed(decorators) if one.decorated_target is previous_target), None)
    if innermost is None:
        return new_target
    innermost._decorated_target = new_target
    return decorator_func
