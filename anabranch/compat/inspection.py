"""``tensorflow.python.util.tf_inspect``: Python's ``inspect``, which sees through TensorFlow's decorators.

Argument specifications are those of Python 2, and those that a decorator declares go before those of the function.
"""

from __future__ import annotations

import collections
import inspect
from collections.abc import Callable
from typing import Any

from anabranch.core.decorators import unwrap

_inspect = inspect
_OWN = "anabranch"
ArgSpec = collections.namedtuple("ArgSpec", ["args", "varargs", "keywords", "defaults"])


def _declared(obj: Any) -> tuple[Any, Any]:
    """The specification that the outermost decorator with one declares, or None; and the function."""
    decorators, target = unwrap(obj)
    return next((one.decorator_argspec for one in decorators if one.decorator_argspec is not None), None), target


def getargspec(obj: Any) -> Any:
    """Names and defaults of a function's arguments, ``(args, varargs, keywords, defaults)``."""
    declared, target = _declared(obj)
    if declared is not None:
        return declared
    full = _full(target)
    return ArgSpec(full.args, full.varargs, full.varkw, full.defaults)


def getfullargspec(obj: Any) -> Any:
    """Names, defaults and annotations of a function's arguments.

    Functions of this package show no annotations: TensorFlow 1.x's have none, and programs compare its argument lists
    with those of functions of their own.
    """
    declared, target = _declared(obj)
    return _full(target) if declared is None else declared


def is_own(function: Any) -> bool:
    """Whether a function is of this package: of one of its modules, or public under the package's own name."""
    return str(getattr(function, "__module__", None)).partition(".")[0] == _OWN


def _full(target: Any) -> inspect.FullArgSpec:
    """Arguments of a function; of ours those of the function that dispatchers are around, without annotations."""
    if not is_own(target):
        return inspect.getfullargspec(target)
    innermost = inspect.unwrap(target, stop=lambda function: hasattr(function, "__signature__"))
    return inspect.getfullargspec(innermost)._replace(annotations={})


def getcallargs(func: Any, *positional: Any, **named: Any) -> dict[str, Any]:
    """The values that a call would give to the arguments of a function, by name."""
    spec = getargspec(func)
    instance = getattr(func, "__self__", None)
    if ismethod(func) and instance is not None:
        positional = (instance, *positional)
    values = dict(named)
    values.update(zip([name for name in spec.args if name not in values], positional, strict=False))
    defaults = spec.defaults or ()
    for name, value in zip(spec.args[len(spec.args) - len(defaults) :], defaults, strict=True):
        values.setdefault(name, value)
    return values


def _unwrapping(function: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """A function of ``inspect`` that is asked about what decorators are around."""

    def asked(obj: Any) -> Any:
        return function(unwrap(obj)[1])

    asked.__name__, asked.__doc__ = function.__name__, function.__doc__
    return asked


getfile = _unwrapping(inspect.getfile)
getsource = _unwrapping(inspect.getsource)
isbuiltin = _unwrapping(inspect.isbuiltin)
isclass = _unwrapping(inspect.isclass)
isfunction = _unwrapping(inspect.isfunction)
ismethod = _unwrapping(inspect.ismethod)
ismodule = _unwrapping(inspect.ismodule)
isroutine = _unwrapping(inspect.isroutine)


def currentframe() -> Any:
    """The frame of the caller."""
    return inspect.stack()[1][0]


def stack(context: int = 1) -> Any:
    """The frames from the caller outward."""
    return inspect.stack(context)[1:]


def __getattr__(name: str) -> Any:
    return getattr(inspect, name)
