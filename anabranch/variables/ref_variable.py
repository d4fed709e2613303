"""Variables in the reference form: ``VariableV2``, ``Assign`` and an ``Identity`` called ``read``.

``w/read`` is made once and shared. It names no moment: the runtime reads the variable where the value is consumed, so
that an op under ``control_dependencies([assign])`` sees the assigned value.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes, shapes
from anabranch.ops.control import lifting
from anabranch.variables import arguments, variable
from anabranch.variables.initialized_value import guarded
from anabranch.variables.scope_state import VariableAggregation, VariableSynchronization
from anabranch.variables.variable import Variable


class RefVariable(Variable):
    """A variable whose op hands out a reference; see :class:`~anabranch.variables.variable.Variable`."""

    def __init__(
        self,
        initial_value: Any = None,
        trainable: bool | None = None,
        collections: Any = None,
        validate_shape: bool = True,
        caching_device: Any = None,
        name: str | None = None,
        variable_def: Any = None,
        dtype: Any = None,
        expected_shape: Any = None,
        import_scope: str | None = None,
        constraint: Callable[[Any], Any] | None = None,
        synchronization: Any = VariableSynchronization.AUTO,
        aggregation: Any = VariableAggregation.NONE,
        shape: Any = None,
    ) -> None:
        if variable_def is not None:
            if initial_value is not None:
                raise ValueError("variable_def and initial_value are mutually exclusive.")
            self._variable: Tensor = self._init_from_proto(variable_def, import_scope)
            return
        arguments.check_arguments(initial_value, constraint)
        self._synchronization, self._aggregation, self._trainable = arguments.checked_modes(
            synchronization, aggregation, trainable, name
        )
        self._constraint = constraint
        self._caching_device = caching_device
        graph = get_default_graph()
        is_function = callable(initial_value)
        with graph.init_scope(), name_scope(name, "Variable", [] if is_function else [initial_value]) as scope:
            graph = get_default_graph()
            own_name = scope[:-1]
            if is_function:
                # What the function makes goes where the variable, which does not exist yet, will be.
                with graph.attr_scope({"_class": (f"loc:@{own_name}",)}):
                    with graph.name_scope("Initializer"), graph.device(None):
                        value = convert.convert_to_tensor(initial_value(), dtype, "initial_value")
                    raw = arguments.declared_shape(value, validate_shape, shape, expected_shape, own_name)
                    self._variable = build("VariableV2", dtype=value.dtype.base, shape=raw, name=scope)
            else:
                value = convert.convert_to_tensor(initial_value, dtype, "initial_value")
                value = lifting.lifted(value, own_name)
                raw = arguments.declared_shape(value, validate_shape, shape, expected_shape, own_name)
                self._variable = build("VariableV2", dtype=value.dtype.base, shape=raw, name=scope)
            self._initial_value = value
            self._name = self._variable.name
            self._initializer_op = build(
                "Assign",
                self._variable,
                guarded(scope, value),
                validate_shape=validate_shape and shape is None,
                use_locking=True,
                name="Assign",
            ).op
            with graph.device(caching_device) if caching_device is not None else graph.colocate_with(self._variable.op):
                self._snapshot = build("Identity", self._variable, name="read")
        self._add_to_collections(collections)

    @property
    def dtype(self) -> dtypes.DType:
        return self._variable.dtype

    @property
    def shape(self) -> shapes.TensorShape:
        return self._variable.shape

    def _handle_tensor(self) -> Tensor:
        return self._variable

    def _ref(self) -> Tensor:
        return self._variable

    def _as_graph_element(self) -> Tensor:
        return self._variable

    def value(self) -> Tensor:
        return self._snapshot

    def read_value(self) -> Tensor:
        # A function that is called outside the step captures values, which it reads anew for each call.
        called = get_default_graph().current_body.called
        source = self._variable if called is None else self._snapshot
        return build("Identity", source, name="read")

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """Rows ``indices`` of the value."""
        return build("GatherV2", self.value(), indices, 0, name=name)

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        """Slices of the value at ``indices`` ``[..., k]``."""
        return build("GatherNd", self.value(), indices, name=name)

    def set_shape(self, shape: Any) -> None:
        self._variable.set_shape(shape)
        self._snapshot.set_shape(shape)

    def _write(self, type_name: str, value: Any, use_locking: bool, name: str | None, read_value: bool) -> Any:
        result = build(type_name, self._variable, value, use_locking=use_locking, name=name)
        return result if read_value else result.op

    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        return self._write("Assign", value, use_locking, name, read_value)

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        return self._write("AssignAdd", delta, use_locking, name, read_value)

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        return self._write("AssignSub", delta, use_locking, name, read_value)

    def _scatter(self, mode: str, indices: Any, updates: Any, use_locking: bool, name: str | None) -> Any:
        return build(f"Scatter{mode}", self._variable, indices, updates, use_locking=use_locking, name=name)

    def count_up_to(self, limit: int) -> Tensor:
        return build("CountUpTo", self._variable, limit=limit)

    def _assign_slice(self, bounds: Any, value: Any, name: str | None, masks: dict[str, int]) -> Any:
        return build("StridedSliceAssign", self._variable, *bounds, value, name=name, **masks)


variable._forms[False] = RefVariable
