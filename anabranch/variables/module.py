"""`tf.Module`: an object that finds the variables in its attributes."""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterator
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.graph import Graph
from anabranch.variables.tracking import AutoTrackable
from anabranch.variables.variable import Variable

_NOT_HELD = frozenset({"_followed_children", "_restoration"})
"""Attributes that checkpoints keep."""


@public("Module")
class Module(AutoTrackable):
    """Base of objects that hold variables, and other modules.

    Variables are found in attributes, in lists, tuples and dictionaries there, and in modules among them: attributes in
    order of name, those of this module before those of the modules inside.

    Args:
        name: a Python identifier; the class's name in snake case by default. Names of what is made within
            :attr:`name_scope` begin with it.
    """

    _TF_MODULE_IGNORED_PROPERTIES = _NOT_HELD
    """Attributes in which variables are not looked for; a class that derives from this one may name more."""

    def __init__(self, name: str | None = None) -> None:
        if name is None:
            # `MyLayer2D` is `my_layer2d`: a capital after a small letter begins a word.
            name = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", type(self).__name__).lower()
        if not name.isidentifier():
            raise ValueError(
                f"{name!r} is not a valid module name. Module names must be valid Python identifiers\n"
                + errors.message(f"name={name!r}", "an identifier", "name='my_module'")
            )
        self._name = name
        with current_builder().name_scope(name) as scope:
            self._scope_name = scope

    @property
    def name(self) -> str:
        """The name that was given, or that of the class."""
        return self._name

    @property
    def name_scope(self) -> contextlib.AbstractContextManager[Any]:
        """A block in which operations and variables are named after the module."""
        return current_builder().name_scope(self._scope_name)

    @property
    def variables(self) -> tuple[Any, ...]:
        """Variables of this module and of those inside, each once."""
        return tuple(self._flatten(predicate=lambda item: isinstance(item, Variable)))

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """Those of the variables that are trained."""
        return tuple(variable for variable in self.variables if getattr(variable, "trainable", False))

    @property
    def submodules(self) -> tuple[Module, ...]:
        """Modules inside this one, at any depth."""
        return tuple(self._flatten(predicate=lambda item: isinstance(item, Module)))

    def _flatten(self, recursive: bool = True, predicate: Callable[[Any], bool] | None = None) -> Iterator[Any]:
        """What is held, each once, as far as it satisfies a predicate."""
        seen: set[int] = {id(self)}
        waiting: list[Any] = [self]
        while waiting:
            held = waiting.pop(0)
            inside = []
            for key in sorted(vars(held).keys() - held._TF_MODULE_IGNORED_PROPERTIES):
                for leaf in _leaves(vars(held)[key], set()):
                    if id(leaf) in seen:
                        continue
                    seen.add(id(leaf))
                    if predicate is None or predicate(leaf):
                        yield leaf
                    if recursive and isinstance(leaf, Module):
                        inside.append(leaf)
            waiting = inside + waiting

    @classmethod
    def with_name_scope(cls, method: Callable[..., Any]) -> Callable[..., Any]:
        """Decorator: the method runs in the module's name scope."""

        @functools.wraps(method)
        def scoped(self: Module, *args: Any, **kwargs: Any) -> Any:
            with self.name_scope:
                return method(self, *args, **kwargs)

        return scoped


def _leaves(value: Any, above: set[int]) -> Iterator[Any]:
    """Values in lists, tuples and dictionaries (by key), at any depth. A graph holds no attributes of a model."""
    if isinstance(value, (list, tuple, dict)):
        if id(value) in above:
            return
        items = [value[key] for key in sorted(value, key=str)] if isinstance(value, dict) else value
        for item in items:
            yield from _leaves(item, above | {id(value)})
    elif not isinstance(value, Graph):
        yield value
