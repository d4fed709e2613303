"""The module-level forms of the default graph's scopes and collections."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.builder import builder_of, current_builder
from anabranch.core.graph.default_graph import get_default_graph


@public("name_scope")
class name_scope:
    """Context manager of a Python function that makes ops: pushes a name scope in the graph that ``values`` belong to.

    Args:
        name: the ``name`` argument of that function; None leaves it to ``default_name``.
        default_name: name to use if ``name`` is None.
        values: tensors handed to the function; they must belong to one graph.

    Example:
        >>> import anabranch as tf
        >>> with tf.name_scope("layer") as scope:
        ...     scope
        'layer/'
    """

    def __init__(self, name: str | None, default_name: str | None = None, values: Iterable[Any] | None = None):
        if not (default_name is None or isinstance(default_name, str)):
            raise TypeError(
                errors.message(
                    f"default_name of type {type(default_name).__name__}",
                    "a str or None",
                    "pass the tensors as values=[...]",
                )
            )
        self._name = default_name if name is None else name
        self._values = values
        self._given = (name, default_name)
        self._exits: list[AbstractContextManager[Any]] = []

    @property
    def name(self) -> str | None:
        """The name the scope was made with."""
        return self._name

    def __enter__(self) -> str:
        if self._name is None and self._values is not None:
            raise ValueError("At least one of name ({}) and default_name ({}) must be provided.".format(*self._given))
        values = () if self._values is None else list(self._values)
        builder = builder_of(values)
        if values and builder is not current_builder():
            with contextlib.ExitStack() as stack:
                stack.enter_context(builder.as_default())
                scope = stack.enter_context(builder.name_scope(self._name))
                self._exits.append(stack.pop_all())
            return scope
        own = builder.name_scope(self._name)
        scope = own.__enter__()
        self._exits.append(own)
        return scope

    def __exit__(self, *error: Any) -> None:
        self._exits.pop().__exit__(*error)


@public("op_scope")
@contextlib.contextmanager
def op_scope(values: Iterable[Any], name: str | None, default_name: str | None = None) -> Iterator[str]:
    """Old form of :class:`name_scope`, with ``values`` first."""
    with name_scope(name, default_name=default_name, values=values) as scope:
        yield scope


@public("device")
def device(device_name_or_function: Any) -> AbstractContextManager[None]:
    """Places the ops made inside: a device string, a DeviceSpec, a function of the op; None clears outer scopes."""
    return current_builder().device(device_name_or_function)


@public("control_dependencies")
def control_dependencies(control_inputs: Iterable[Any] | None) -> AbstractContextManager[None]:
    """Ops made inside run after ``control_inputs`` (ops, tensors, variables); None clears outer scopes.

    Within a branch or the body of a loop, None also takes the ops made inside out of it, if they need nothing of it:
    they run once, before it. So a sample that a custom getter draws under ``tf.control_dependencies(None)`` is the same
    in all iterations.
    """
    builder = current_builder()
    return builder.outside_control_flow() if control_inputs is None else builder.control_dependencies(control_inputs)


@public("colocate_with")
def colocate_with(op: Any, ignore_existing: bool = False) -> AbstractContextManager[None]:
    """Places the ops made inside on the device of ``op``."""
    return current_builder().colocate_with(op, ignore_existing)


@public("container")
def container(container_name: str) -> AbstractContextManager[str]:
    """Names the resource container of the stateful ops made inside."""
    return current_builder().container(container_name)


@public("add_to_collection")
def add_to_collection(name: Any, value: Any) -> None:
    """Append ``value`` to a collection of the default graph."""
    get_default_graph().add_to_collection(name, value)


@public("add_to_collections")
def add_to_collections(names: Any, value: Any) -> None:
    """Append ``value`` to each of several collections of the default graph."""
    get_default_graph().add_to_collections(names, value)


@public("get_collection")
def get_collection(key: Any, scope: str | None = None) -> list[Any]:
    """A copy of a collection of the default graph; with ``scope``, the items whose name it matches from the start."""
    return current_builder().get_collection(key, scope)


@public("get_collection_ref")
def get_collection_ref(key: Any) -> list[Any]:
    """A collection's own list, which the caller may change."""
    return current_builder().get_collection_ref(key)


@public("init_scope")
def init_scope() -> AbstractContextManager[None]:
    """Lift the ops made inside out of nested bodies and control dependencies, to the root of the default graph."""
    return current_builder().init_scope()
