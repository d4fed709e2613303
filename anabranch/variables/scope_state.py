"""Variable scopes as data: what a scope hands on to the variables made in it, and which scopes a graph has open."""

from __future__ import annotations

import enum
import functools
import threading
from collections.abc import Callable
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public, publish_as
from anabranch.core.graph import convert
from anabranch.core.graph.builder import Builder, current_builder
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.values import dtypes

_SCOPES_KEY = ("__varscope",)


class _ReuseMode(enum.Enum):
    """How ``get_variable`` treats a name: create it or use the existing variable."""

    AUTO_REUSE = 1

    def __repr__(self) -> str:
        return "tf.AUTO_REUSE"


AUTO_REUSE = _ReuseMode.AUTO_REUSE
publish_as("AUTO_REUSE", AUTO_REUSE)


@public("VariableSynchronization")
class VariableSynchronization(enum.Enum):
    """When copies of a variable on several replicas are brought together."""

    AUTO = 0
    NONE = 1
    ON_WRITE = 2
    ON_READ = 3


@public("VariableAggregation")
class VariableAggregation(enum.Enum):
    """How updates of a variable from several replicas are combined."""

    NONE = 0
    SUM = 1
    MEAN = 2
    ONLY_FIRST_REPLICA = 3
    ONLY_FIRST_TOWER = 3


def chained_getter(custom_getter: Callable[..., Any], outer: Callable[..., Any] | None) -> Callable[..., Any]:
    """``custom_getter`` on top of the one of the enclosing scope."""
    if outer is None:
        return custom_getter

    def chained(getter: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return custom_getter(functools.partial(outer, getter), *args, **kwargs)

    return chained


@public("VariableScope")
class VariableScope:
    """What ``get_variable`` takes from its surroundings: a prefix of names, reuse, and default arguments.

    Args:
        reuse: True (variables must exist), False or None (they must not), or ``tf.AUTO_REUSE``.
        name: prefix of names.
        initializer, regularizer, caching_device, partitioner, custom_getter, constraint: defaults of ``get_variable``.
        name_scope: name scope that was opened with the variable scope.
        dtype: element type of variables made without one.
        use_resource: whether variables are made in the resource form; None for the program's default.
    """

    def __init__(
        self,
        reuse: Any,
        name: str = "",
        initializer: Any = None,
        regularizer: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        custom_getter: Any = None,
        name_scope: str = "",
        dtype: Any = dtypes.float32,
        use_resource: bool | None = None,
        constraint: Any = None,
    ) -> None:
        if not current_builder().defers:  # each call makes a variable, which nothing can find again by name
            reuse, use_resource = AUTO_REUSE, True
        self._name = name
        self._initializer = initializer
        self._regularizer = regularizer
        self._reuse = reuse
        self._caching_device = caching_device
        self._partitioner = partitioner
        self._custom_getter = custom_getter
        self._name_scope = name_scope
        self._dtype = dtype
        self._use_resource = use_resource
        self._constraint = constraint

    @property
    def name(self) -> str:
        """Prefix of the names of variables, without a final '/'."""
        return self._name

    @property
    def original_name_scope(self) -> str:
        """The name scope opened when the scope was made, with a final '/'."""
        return self._name_scope

    @property
    def reuse(self) -> Any:
        """True, False, None or ``tf.AUTO_REUSE``."""
        return self._reuse

    @property
    def initializer(self) -> Any:
        """Default initializer."""
        return self._initializer

    @property
    def dtype(self) -> Any:
        """Default element type."""
        return self._dtype

    @property
    def use_resource(self) -> bool | None:
        """Whether variables are made in the resource form."""
        return self._use_resource

    @property
    def regularizer(self) -> Any:
        """Default regularizer."""
        return self._regularizer

    @property
    def caching_device(self) -> Any:
        """Default device on which reads are cached."""
        return self._caching_device

    @property
    def partitioner(self) -> Any:
        """Default partitioner."""
        return self._partitioner

    @property
    def custom_getter(self) -> Any:
        """Function called in place of ``get_variable``."""
        return self._custom_getter

    @property
    def constraint(self) -> Any:
        """Default constraint."""
        return self._constraint

    def reuse_variables(self) -> None:
        """From now on variables must exist; this cannot be taken back."""
        self._reuse = True

    def set_initializer(self, initializer: Any) -> None:
        """Set the default initializer."""
        self._initializer = initializer

    def set_dtype(self, dtype: Any) -> None:
        """Set the default element type."""
        self._dtype = dtype

    def set_use_resource(self, use_resource: bool | None) -> None:
        """Set whether variables are made in the resource form."""
        self._use_resource = use_resource

    def set_regularizer(self, regularizer: Any) -> None:
        """Set the default regularizer."""
        self._regularizer = regularizer

    def set_caching_device(self, caching_device: Any) -> None:
        """Set the default caching device."""
        self._caching_device = caching_device

    def set_partitioner(self, partitioner: Any) -> None:
        """Set the default partitioner."""
        self._partitioner = partitioner

    def set_custom_getter(self, custom_getter: Any) -> None:
        """Set the custom getter."""
        self._custom_getter = custom_getter

    def get_collection(self, name: Any) -> list[Any]:
        """Items of a collection whose name starts with the scope's."""
        return current_builder().get_collection(name, self._name + "/" if self._name else self._name)

    def trainable_variables(self) -> list[Any]:
        """Trainable variables made under the scope's name."""
        return self.get_collection(GraphKeys.TRAINABLE_VARIABLES)

    def global_variables(self) -> list[Any]:
        """Global variables made under the scope's name."""
        return self.get_collection(GraphKeys.GLOBAL_VARIABLES)

    def local_variables(self) -> list[Any]:
        """Local variables made under the scope's name."""
        return self.get_collection(GraphKeys.LOCAL_VARIABLES)

    def get_variable(
        self,
        var_store: Any,
        name: str,
        shape: Any = None,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        reuse: Any = None,
        trainable: bool | None = None,
        collections: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        validate_shape: bool = True,
        use_resource: bool | None = None,
        custom_getter: Any = None,
        constraint: Any = None,
        synchronization: VariableSynchronization = VariableSynchronization.AUTO,
        aggregation: VariableAggregation = VariableAggregation.NONE,
    ) -> Any:
        """The variable ``name`` of this scope from ``var_store``, with the scope's defaults filled in."""
        full_name = f"{self.name}/{name}" if self.name else name
        if not current_builder().defers:
            reuse, use_resource = False, True
        # Names of variables depend on variable scopes alone, whatever name scope the caller is in.
        with current_builder().name_scope(None):
            if dtype is not None and initializer is not None and not callable(initializer):
                initial_dtype = convert.convert_to_tensor(initializer).dtype.base
                if initial_dtype != dtypes.as_dtype(dtype).base:
                    raise ValueError(
                        f"Initializer type '{initial_dtype!r}' and explicit dtype '{dtypes.as_dtype(dtype)!r}' "
                        "don't match.\n"
                        + errors.message(
                            f"an initial value of {initial_dtype.name} for variable {full_name!r}",
                            dtypes.as_dtype(dtype).name,
                            "pass one of dtype and initializer, or convert the value",
                        )
                    )
            return var_store.get_variable(
                full_name,
                shape=shape,
                dtype=self._dtype if dtype is None else dtype,
                initializer=self._initializer if initializer is None else initializer,
                regularizer=self._regularizer if regularizer is None else regularizer,
                reuse=self._reuse if reuse is None else reuse,
                trainable=trainable,
                collections=collections,
                caching_device=self._caching_device if caching_device is None else caching_device,
                partitioner=self._partitioner if partitioner is None else partitioner,
                validate_shape=validate_shape,
                use_resource=self._use_resource if use_resource is None else use_resource,
                custom_getter=self._custom_getter if custom_getter is None else custom_getter,
                constraint=self._constraint if constraint is None else constraint,
                synchronization=synchronization,
                aggregation=aggregation,
            )

    def __repr__(self) -> str:
        return f"<VariableScope {self._name!r} reuse={self._reuse!r}>"


class ScopeStore(threading.local):
    """The current variable scope of a thread in a graph, and how often each scope name was opened."""

    def __init__(self) -> None:
        self.current_scope = VariableScope(False)
        self.counts: dict[str, int] = {}

    def open(self, name: str) -> None:
        """Count one more opening of ``name``."""
        self.counts[name] = self.counts.get(name, 0) + 1

    def close_subscopes(self, name: str) -> None:
        """Forget the scopes below ``name``, whose names are free again."""
        for key in self.counts:
            if key.startswith(name + "/"):
                self.counts[key] = 0

    def unique(self, prefix: str) -> str:
        """``prefix``, with the first suffix that makes it a name not opened in the current scope."""
        current = self.current_scope.name
        name = f"{current}/{prefix}" if current else prefix
        if not self.counts.get(name):
            return prefix
        index = 1
        while self.counts.get(f"{name}_{index}"):
            index += 1
        return f"{prefix}_{index}"


def scope_store(graph: Builder | None = None) -> ScopeStore:
    """The scope store of a graph, or of the current builder."""
    return (graph or current_builder()).library_state(_SCOPES_KEY, ScopeStore)


@public("get_variable_scope")
def get_variable_scope() -> VariableScope:
    """The current variable scope."""
    return scope_store().current_scope
