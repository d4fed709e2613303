"""``variable_scope`` and ``get_variable``.

A variable scope prefixes the names of variables and hands on default arguments; it opens a name scope of its own for
ops too, whose name is made unique (``layer_1/``) while variables keep the scope's name (``layer/w``), so that
entering a scope again finds the same variables.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.builder import builder_of, current_builder
from anabranch.core.graph.collections import GraphKeys
from anabranch.variables.scope_state import (
    ScopeStore,
    VariableAggregation,
    VariableScope,
    VariableSynchronization,
    chained_getter,
    get_variable_scope,
    scope_store,
)
from anabranch.variables.store import is_reuse, variable_store

_SETTINGS = ("initializer", "regularizer", "caching_device", "partitioner", "dtype", "use_resource")


class PureScope:
    """Enter a variable scope without a name scope; may be entered several times, one after the other."""

    def __init__(self, name_or_scope: Any, reuse: Any, settings: dict[str, Any], old_name_scope: str | None) -> None:
        self._name_or_scope = name_or_scope
        self._reuse = reuse
        self._settings = settings
        self._old_name_scope = old_name_scope
        self._store: ScopeStore = scope_store()
        self._entered: list[tuple[VariableScope, VariableScope, dict[str, int]]] = []
        self._cached: VariableScope | None = None
        if isinstance(name_or_scope, VariableScope):
            reused = reuse or name_or_scope.reuse
            self._cached = self._made(name_or_scope, name_or_scope.name, name_or_scope.original_name_scope, reused)

    def _made(self, parent: VariableScope, name: str, name_scope: str, reuse: Any) -> VariableScope:
        scope = VariableScope(reuse, name=name, name_scope=name_scope, constraint=self._settings.get("constraint"))
        for key in _SETTINGS:
            given = self._settings.get(key)
            setattr(scope, f"_{key}", getattr(parent, key) if given is None else given)
        getter = self._settings.get("custom_getter")
        scope._custom_getter = parent.custom_getter if getter is None else chained_getter(getter, parent.custom_getter)
        return scope

    def __enter__(self) -> VariableScope:
        store = self._store
        old = store.current_scope
        if self._cached is not None:
            store.open(self._cached.name)
            counts = dict(store.counts)
            scope = self._cached
        else:
            name = f"{old.name}/{self._name_or_scope}" if old.name else self._name_or_scope
            name_scope = self._name_or_scope if self._old_name_scope is None else self._old_name_scope
            scope = self._made(old, name, name_scope, self._reuse or old.reuse)
            counts = {}
            store.open(name)
        store.current_scope = scope
        self._entered.append((scope, old, counts))
        return scope

    def __exit__(self, *error: Any) -> None:
        scope, old, counts = self._entered.pop()
        store = self._store
        if store.current_scope is not scope:
            raise RuntimeError("Improper nesting of variable_scope.")
        if self._cached is not None:
            store.counts = counts
        else:
            store.close_subscopes(scope.name)
        store.current_scope = old


@public("variable_scope")
class variable_scope:
    """Context manager of a variable scope; entering it gives the :class:`VariableScope`.

    Args:
        name_or_scope: name, put behind that of the current scope, or a scope object to enter again.
        default_name: name to make unique and use if ``name_or_scope`` is None.
        values: tensors handed to the function that opens the scope; they must belong to one graph.
        initializer, regularizer, caching_device, partitioner, dtype, use_resource, constraint: defaults
            of ``get_variable``.
        custom_getter: function called in place of ``get_variable``, around the one of the enclosing scope.
        reuse: True, None (as the enclosing scope), or ``tf.AUTO_REUSE``; False means None.
        auxiliary_name_scope: open a name scope for ops too.

    Example:
        >>> import anabranch as tf
        >>> with tf.variable_scope("layer"):
        ...     w = tf.get_variable("w", [2, 3])
        >>> with tf.variable_scope("layer", reuse=True):
        ...     tf.get_variable("w") is w
        True
    """

    def __init__(
        self,
        name_or_scope: Any,
        default_name: str | None = None,
        values: Iterable[Any] | None = None,
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        reuse: Any = None,
        dtype: Any = None,
        use_resource: bool | None = None,
        constraint: Any = None,
        auxiliary_name_scope: bool = True,
    ) -> None:
        if default_name is None and name_or_scope is None:
            raise TypeError(
                "If default_name is None then name_or_scope is required\n"
                + errors.message(
                    "tf.variable_scope(None)", "a name, a scope or a default_name", "tf.variable_scope('name')"
                )
            )
        if not is_reuse(reuse):
            raise ValueError(
                "The reuse parameter must be True or False or None.\n"
                + errors.message(f"reuse={reuse!r}", "True, False, None or tf.AUTO_REUSE", "reuse=tf.AUTO_REUSE")
            )
        if not isinstance(auxiliary_name_scope, bool):
            raise TypeError(
                f"The auxiliary_name_scope must be `True` or `False`, while get {auxiliary_name_scope}\n"
                + errors.message(f"auxiliary_name_scope={auxiliary_name_scope!r}", "True or False", "leave it out")
            )
        self._name_or_scope = name_or_scope
        self._default_name = default_name
        self._reuse = None if reuse is False else reuse  # a scope cannot stop reusing
        self._auxiliary = auxiliary_name_scope
        self._builder = builder_of(list(values or ()))
        self._settings = dict(
            initializer=initializer,
            regularizer=regularizer,
            caching_device=caching_device,
            partitioner=partitioner,
            custom_getter=custom_getter,
            dtype=dtype,
            use_resource=use_resource,
            constraint=constraint,
        )
        self._pure: PureScope | None = None
        self._name_scope: str | None = None
        self._exits: list[contextlib.ExitStack] = []

    def __enter__(self) -> VariableScope:
        with contextlib.ExitStack() as stack:
            stack.enter_context(self._builder.as_default())
            if self._pure is None:
                scope = self._enter_first(stack)
            else:
                if self._name_scope is not None:
                    stack.enter_context(self._builder.name_scope(self._name_scope))
                scope = stack.enter_context(self._pure)
            self._exits.append(stack.pop_all())
        return scope

    def _enter_first(self, stack: contextlib.ExitStack) -> VariableScope:
        builder = self._builder
        given = self._name_or_scope
        current = builder.get_name_scope()
        current = current + "/" if current else current
        old_name_scope: str | None = None
        if given is not None:
            if not isinstance(given, (VariableScope, str)):
                raise TypeError(
                    "VariableScope: name_or_scope must be a string or VariableScope.\n"
                    + errors.message(f"a {type(given).__name__}", "a name or a scope", "tf.variable_scope('name')")
                )
            name = given if isinstance(given, str) else given.name.split("/")[-1]
            if name or not self._auxiliary:
                self._name_scope = name if self._auxiliary else current
                opened = stack.enter_context(builder.name_scope(self._name_scope))
                old_name_scope = opened if isinstance(given, str) else given.original_name_scope
            target = given
        else:
            if self._reuse:
                raise ValueError(
                    "reuse=True cannot be used without a name_or_scope\n"
                    + errors.message(
                        "reuse with a default name",
                        "a name, as a default name is made unique",
                        "tf.variable_scope('name', reuse=True)",
                    )
                )
            self._name_scope = self._default_name if self._auxiliary else current
            old_name_scope = stack.enter_context(builder.name_scope(self._name_scope))
            target = scope_store().unique(str(self._default_name))
        pure = PureScope(target, self._reuse, self._settings, old_name_scope)
        scope = stack.enter_context(pure)
        self._pure = pure
        return scope

    def __exit__(self, *error: Any) -> None:
        self._exits.pop().__exit__(*error)


@public("variable_op_scope")
@contextlib.contextmanager
def variable_op_scope(
    values: Iterable[Any],
    name_or_scope: Any,
    default_name: str | None = None,
    initializer: Any = None,
    regularizer: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    reuse: Any = None,
    dtype: Any = None,
    use_resource: bool | None = None,
    constraint: Any = None,
) -> Iterator[VariableScope]:
    """Old form of :class:`variable_scope`, with ``values`` first."""
    with variable_scope(
        name_or_scope,
        default_name=default_name,
        values=values,
        initializer=initializer,
        regularizer=regularizer,
        caching_device=caching_device,
        partitioner=partitioner,
        custom_getter=custom_getter,
        reuse=reuse,
        dtype=dtype,
        use_resource=use_resource,
        constraint=constraint,
    ) as scope:
        yield scope


@public("get_variable")
def get_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool | None = None,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Any = None,
    constraint: Any = None,
    synchronization: Any = VariableSynchronization.AUTO,
    aggregation: Any = VariableAggregation.NONE,
) -> Any:
    """The variable ``name`` of the current variable scope: made, or found again if the scope reuses variables.

    Args:
        name: name, put behind that of the scope.
        shape: shape of a new variable; may be left out if ``initializer`` is a tensor or array.
        dtype: element type; the scope's (float32) if None.
        initializer: tensor, array, or function ``(shape, dtype)``; the scope's, or Glorot's for floats, zeros
            otherwise.
        regularizer: function of the variable whose result joins ``REGULARIZATION_LOSSES`` when the variable is made.
        trainable: whether optimizers change it.
        collections: collections to add it to; ``[GraphKeys.GLOBAL_VARIABLES]`` if None.
        caching_device: device on which reads are cached.
        partitioner: function ``(shape, dtype)`` that says into how many parts each dimension is cut.
        validate_shape: refuse an initial value whose shape is not fully known.
        use_resource: make it behind a resource handle.
        custom_getter: function called in place of the making or finding, with that as its argument ``getter``.
        constraint: function of the value that an optimizer applies after its update.
        synchronization, aggregation: how copies on replicas are kept together.

    Returns:
        A :class:`Variable`, or a :class:`PartitionedVariable` if there is a partitioner.

    Raises:
        ValueError: it exists and the scope does not reuse, or the reverse; or shape or dtype are not those it was
            made with.
    """
    return get_variable_scope().get_variable(
        variable_store(),
        name,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        regularizer=regularizer,
        trainable=trainable,
        collections=collections,
        caching_device=caching_device,
        partitioner=partitioner,
        validate_shape=validate_shape,
        use_resource=use_resource,
        custom_getter=custom_getter,
        constraint=constraint,
        synchronization=synchronization,
        aggregation=aggregation,
    )


@public("get_local_variable")
def get_local_variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = False,
    collections: Any = None,
    caching_device: Any = None,
    partitioner: Any = None,
    validate_shape: bool = True,
    use_resource: bool | None = None,
    custom_getter: Any = None,
    constraint: Any = None,
    synchronization: Any = VariableSynchronization.AUTO,
    aggregation: Any = VariableAggregation.NONE,
) -> Any:
    """Like :func:`get_variable`, for a variable of this task that is not saved and not trained."""
    return get_variable(
        name,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        regularizer=regularizer,
        trainable=False,
        collections=[*(collections or ()), GraphKeys.LOCAL_VARIABLES],
        caching_device=caching_device,
        partitioner=partitioner,
        validate_shape=validate_shape,
        use_resource=use_resource,
        custom_getter=custom_getter,
        constraint=constraint,
        synchronization=synchronization,
        aggregation=aggregation,
    )


@public("no_regularizer")
def no_regularizer(_: Any) -> None:
    """A regularizer that says there is none, to override the scope's."""


@public("create_partitioned_variables")
def create_partitioned_variables(
    shape: Any,
    slicing: list[int],
    initializer: Any,
    dtype: Any = None,
    trainable: bool = True,
    collections: Any = None,
    name: str | None = None,
    reuse: Any = None,
) -> list[Any]:
    """The parts of a variable of ``shape`` cut into ``slicing[i]`` pieces along dimension ``i``."""
    if len(shape) != len(slicing):
        raise ValueError(
            "The 'shape' and 'slicing' of a partitioned Variable must have the length: "
            f"shape: {shape}, slicing: {slicing}\n"
            + errors.message(
                f"{len(slicing)} numbers of parts", f"{len(shape)}, one per dimension", "use 1 where nothing is cut"
            )
        )
    if len(shape) < 1:
        raise ValueError(
            f"A partitioned Variable must have rank at least 1: shape: {shape}\n"
            + errors.message("a scalar", "at least one dimension", "tf.get_variable")
        )
    partitioner: Callable[..., list[int]] = lambda **unused: list(slicing)  # noqa: E731
    with variable_scope(name, "PartitionedVariable", reuse=reuse):
        store = variable_store()
        scope = get_variable_scope()
        with current_builder().name_scope(None):
            whole = store.get_variable(
                scope.name,
                shape=shape,
                dtype=scope.dtype if dtype is None else dtype,
                initializer=initializer,
                reuse=scope.reuse,
                trainable=trainable,
                collections=collections,
                partitioner=partitioner,
            )
    return list(whole)
