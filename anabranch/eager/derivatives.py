"""Functions that give gradients of a Python function: ``tf.contrib.eager.gradients_function`` and its kin.

Each runs the function under a tape. The *implicit* ones differentiate by the trainable variables that it reads, the
others by its arguments.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.tensor import Tensor
from anabranch.core.values import nest
from anabranch.eager.tape import GradientTape
from anabranch.variables.variable import Variable


def _checked(result: Any, f: Callable[..., Any]) -> Any:
    if result is None:
        name = getattr(f, "__name__", repr(f))
        raise ValueError(
            f"Cannot differentiate a function that returns None; did you forget to return a value from {name}?\n"
            + errors.message(f"None from {name}", "a tensor", "return loss")
        )
    return result


@public("contrib.eager.implicit_value_and_gradients")
def implicit_value_and_gradients(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns what ``f`` does, and its gradients by the trainable variables that it reads.

    Args:
        f: a function of any arguments that returns a tensor.

    Returns:
        A function that returns ``(value, [(gradient, variable), ...])``. It raises ValueError if ``f`` reads no
        trainable variable, or returns None.
    """

    def value_and_gradients(*args: Any, **kwargs: Any) -> Any:
        with GradientTape() as tape:
            result = _checked(f(*args, **kwargs), f)
        variables = list(tape.watched_variables())
        if not variables:
            raise ValueError(
                "No trainable variables were accessed while the function was being computed.\n"
                + errors.message(
                    f"{getattr(f, '__name__', repr(f))}, which reads no trainable variable",
                    "a function of variables",
                    "tf.contrib.eager.gradients_function(f), for gradients by its arguments",
                )
            )
        return result, list(zip(tape.gradient(result, variables), variables, strict=True))

    return value_and_gradients


@public("contrib.eager.implicit_gradients")
def implicit_gradients(f: Callable[..., Any]) -> Callable[..., Any]:
    """A function that returns the gradients of ``f`` by the trainable variables that it reads, with these variables."""
    both = implicit_value_and_gradients(f)

    def of_variables(*args: Any, **kwargs: Any) -> Any:
        return both(*args, **kwargs)[1]

    return of_variables


def _positions(f: Callable[..., Any], params: Sequence[Any] | None, count: int) -> list[int]:
    """Which arguments ``params`` (numbers or names; None for all) are."""
    if params is None:
        return list(range(count))
    names = [] if all(isinstance(one, int) for one in params) else inspect.getfullargspec(f).args
    try:
        found = [one if isinstance(one, int) else names.index(one) for one in params]
    except ValueError:
        raise ValueError(
            errors.message(f"params={params!r}", f"numbers of arguments, or names among {names}", "params=[0]")
        ) from None
    if len(set(found)) != len(found):
        raise ValueError(
            f"argument positions must be unique, got {found}\n"
            + errors.message(f"params={params!r}", "each argument once", f"params={sorted(set(found))}")
        )
    return found


@public("contrib.eager.make_vjp")
def make_vjp(f: Callable[..., Any], params: Sequence[Any] | None = None, persistent: bool = True) -> Callable[..., Any]:
    """A function that returns what ``f`` does, and a function from the gradient of that to those of the arguments.

    Args:
        f: a function of tensors.
        params: by which arguments to differentiate: numbers or names; all if None.
        persistent: whether the second function can be called more than once.
    """

    def value_and_pullback(*args: Any) -> Any:
        chosen = _positions(f, params, len(args))
        given = [arg if isinstance(arg, Tensor | Variable) else convert_to_tensor(arg) for arg in args]
        seen: set[int] = set()
        for position in chosen:  # an argument that is given twice is two arguments
            if id(given[position]) in seen:
                given[position] = build("Identity", convert_to_tensor(given[position]))
            seen.add(id(given[position]))
        sources = [given[position] for position in chosen]
        with GradientTape(persistent=persistent) as tape:
            tape.watch(sources)
            result = _checked(f(*given), f)

        def pullback(dy: Any = None) -> list[Any]:
            starts = None if dy is None else [convert_to_tensor(one) for one in nest.flatten(dy)]
            found: list[Any] = tape.gradient(result, sources, starts)
            return found

        return result, pullback

    return value_and_pullback


@public("contrib.eager.value_and_gradients_function")
def value_and_gradients_function(f: Callable[..., Any], params: Sequence[Any] | None = None) -> Callable[..., Any]:
    """A function that returns what ``f`` does, and its gradients by its arguments.

    Args:
        f: a function of tensors.
        params: by which arguments to differentiate: numbers or names; all if None.

    Returns:
        A function of the same arguments, and ``dy=``, the gradient to start with, that returns ``(value, gradients)``.

    Example:
        >>> import anabranch as tf
        >>> value, gradients = tf.contrib.eager.value_and_gradients_function(lambda x: x * x)(3.0)
        >>> len(gradients)
        1
    """

    def value_and_gradients(*args: Any, dy: Any = None) -> Any:
        result, pullback = make_vjp(f, params, False)(*args)
        return result, pullback(dy)

    return value_and_gradients


@public("contrib.eager.gradients_function")
def gradients_function(f: Callable[..., Any], params: Sequence[Any] | None = None) -> Callable[..., Any]:
    """A function that returns the gradients of ``f`` by its arguments.

    Args:
        f: a function of tensors.
        params: by which arguments to differentiate: numbers or names; all if None.
    """
    both = value_and_gradients_function(f, params)

    def by_arguments(*args: Any, dy: Any = None) -> Any:
        return both(*args, dy=dy)[1]

    return by_arguments


__all__ = [
    "gradients_function",
    "implicit_gradients",
    "implicit_value_and_gradients",
    "make_vjp",
    "value_and_gradients_function",
]
