"""Variables behind resource handles: ``VarHandleOp``, ``AssignVariableOp``, ``ReadVariableOp``.

Each conversion to a tensor makes a read of its own, at that place in the order of effects.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from anabranch.core import errors
from anabranch.core.graph import convert
from anabranch.core.graph.build import build, build_operation
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.default_graph import get_default_graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes, shapes
from anabranch.ops.control import lifting
from anabranch.variables import arguments, variable
from anabranch.variables.initialized_value import guarded
from anabranch.variables.scope_state import VariableAggregation, VariableSynchronization
from anabranch.variables.variable import Variable


class ResourceVariable(Variable):
    """A variable behind a handle; see :class:`~anabranch.variables.variable.Variable`."""

    _is_resource = True
    _handle: Tensor
    _cached: Tensor | None = None

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
            self._restore(variable_def, import_scope)
            return
        arguments.check_arguments(initial_value, constraint)
        self._synchronization, self._aggregation, self._trainable = arguments.checked_modes(
            synchronization, aggregation, trainable, name
        )
        self._constraint = constraint
        self._caching_device = caching_device
        builder = current_builder()
        is_function = callable(initial_value)
        if not is_function:
            initial_value = builder.lifted(initial_value)
        with builder.init_scope(), name_scope(name, "Variable", [] if is_function else [initial_value]) as scope:
            builder = current_builder()
            own_name = scope[:-1]
            with builder.attr_scope({"_class": (f"loc:@{own_name}",)}):
                with builder.name_scope("Initializer"), builder.device(None):
                    value = convert.convert_to_tensor(
                        initial_value() if is_function else initial_value, dtype, "initial_value"
                    )
                value = lifting.lifted(value, own_name)
                # The handle takes whatever is known of the shape, so there is nothing for validate_shape to refuse.
                raw = arguments.declared_shape(value, None, shape, expected_shape, own_name)
                shared = builder.resource_name(own_name)
                self._handle = build("VarHandleOp", dtype=value.dtype.base, shape=raw, shared_name=shared, name=scope)
            self._name = f"{own_name}:0"
            self._dtype = value.dtype.base
            builder.note_variable(self)
            if not builder.defers:
                self._initial_value = self._initializer_op = self._is_initialized_op = None
                build("AssignVariableOp", self._handle, value)
                builder.note_value(self)
                return
            self._initial_value = value
            with builder.name_scope("IsInitialized"):
                self._is_initialized_op = build("VarIsInitializedOp", self._handle)
            with (
                builder.name_scope("Assign") as assign_scope,
                builder.colocate_with(None, ignore_existing=True),
                builder.device(self._handle.device),
            ):
                self._initializer_op = build("AssignVariableOp", self._handle, guarded(scope, value), name=assign_scope)
            with builder.name_scope("Read"), builder.device(self._handle.device):
                self._graph_element = self._snapshot = self._read()
                if caching_device is not None:
                    with builder.colocate_with(None, ignore_existing=True), builder.device(caching_device):
                        self._cached = self._snapshot = build("Identity", self._graph_element)
        self._add_to_collections(collections)

    @classmethod
    def outside_graph(cls, variable: ResourceVariable, name: str) -> ResourceVariable:
        """A variable like one of a function's graph, for the current mode, where it has no value yet."""
        found = cls.__new__(cls)
        builder = current_builder()
        handle = variable._handle.handle_data
        raw = None if handle is None else handle.shape
        shared = builder.resource_name(name)
        found._handle = build("VarHandleOp", dtype=variable.dtype.base, shape=raw, shared_name=shared, name=f"{name}/")
        found._name, found._dtype = f"{name}:0", variable.dtype.base
        found._synchronization, found._aggregation = variable._synchronization, variable._aggregation
        found._trainable, found._constraint, found._caching_device = variable._trainable, variable._constraint, None
        found._initial_value = found._initializer_op = found._is_initialized_op = None
        builder.note_variable(found)
        return found

    def _restore(self, proto: Any, import_scope: str | None) -> None:
        self._handle = self._init_from_proto(proto, import_scope)
        self._dtype = self._handle.op._attrs["dtype"]
        graph = get_default_graph()
        name = self._handle.op.name
        if self._snapshot.op.type != "ReadVariableOp":
            self._cached = self._snapshot
        self._graph_element = graph.get_tensor_by_name(f"{name}/Read/ReadVariableOp:0")
        self._is_initialized_op = graph.get_tensor_by_name(f"{name}/IsInitialized/VarIsInitializedOp:0")

    # ------------------------------------------------------------------------------------------------------- properties
    @property
    def handle(self) -> Tensor:
        """The handle, a scalar resource tensor."""
        return self._handle

    @property
    def dtype(self) -> dtypes.DType:
        return self._dtype

    @property
    def shape(self) -> shapes.TensorShape:
        handle = self._handle.handle_data
        return shapes.TensorShape(None if handle is None else handle.shape)

    @property
    def create(self) -> Operation:
        """The op that makes and initialises the variable."""
        return self._initializer_op

    def _handle_tensor(self) -> Tensor:
        return self._handle

    def _ref(self) -> Tensor:
        raise TypeError(
            f"The variable {self._name!r} has no reference: it lives behind a resource handle.\n"
            + errors.message(
                f"resource variable {self._name!r} where an op takes a reference",
                "a variable in the reference form",
                "use the method (v.assign(...), v.scatter_add(...)) or the tf function of that name",
            )
        )

    def _as_graph_element(self) -> Tensor:
        return self._graph_element

    def set_shape(self, shape: Any) -> None:
        handle = self._handle.handle_data
        if handle is not None:
            self._handle._handle = handle._replace(shape=shapes.merge(handle.shape, shapes.as_raw(shape)))
        self._graph_element.set_shape(shape)

    def numpy(self) -> Any:
        """The value, an array that the caller owns; where ops run at once.

        Raises:
            NotImplementedError: the variable is one of a graph.
        """
        if self._builder.defers:
            raise NotImplementedError(
                "numpy() is only available when eager execution is enabled.\n"
                + errors.message(f"numpy() of variable {self._name!r} of a graph", "a session", "session.run(v)")
            )
        value: Any = self._read()
        return value.numpy()

    def eval(self, session: Any = None) -> Any:
        if not self._builder.defers:
            raise RuntimeError(
                "Trying to eval in EAGER mode\n"
                + errors.message(f"eval() of variable {self._name!r}, which has a value", "a graph", "v.numpy()")
            )
        return super().eval(session)

    def load(self, value: Any, session: Any = None) -> None:
        if self._builder.defers:
            super().load(value, session)
        else:
            self.assign(value)

    @property
    def _unique_id(self) -> str:
        """A name that no other variable has."""
        maker: Any = self._handle._made_by
        name: str = maker._attrs["shared_name"]
        return name or self._shared_name

    def __repr__(self) -> str:
        if self._builder.defers:
            return super().__repr__()
        text = f"<tf.Variable {self._name!r} shape={self.shape} dtype={self._dtype.name}"
        return f"{text}, numpy={self._text()}>"

    def _text(self) -> str:
        """How the value is shown."""
        try:
            value: Any = self._read()
            return str(value._text(True))
        except errors.FailedPreconditionError:
            return "<unprintable>"

    def __bool__(self) -> bool:
        return self._builder.defers or bool(self._read())

    __nonzero__ = __bool__

    def __int__(self) -> int:
        return int(self.numpy())

    def __float__(self) -> float:
        return float(self.numpy())

    def __index__(self) -> int:
        return int(self.numpy().__index__())

    def __reduce__(self) -> Any:
        return _pickled, (self.numpy(), self._trainable, self._shared_name, self._dtype.name)

    def __copy__(self) -> ResourceVariable:
        return self

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        """A variable of its own with the value that this one has; where ops run at once."""
        if self._builder.defers:
            raise NotImplementedError(
                "__deepcopy__() is only available when eager execution is enabled.\n"
                + errors.message(
                    f"copy.deepcopy of variable {self._name!r} of a graph",
                    "a variable with a value",
                    "copy the GraphDef",
                )
            )
        copied = ResourceVariable(
            self._read(), trainable=self._trainable, name=self._shared_name, constraint=self._constraint
        )
        memo[id(self)] = copied
        return copied

    def is_initialized(self, name: str | None = None) -> Tensor:
        """Whether the variable has a value, a scalar bool."""
        return build("VarIsInitializedOp", self._handle, name=name)

    # ------------------------------------------------------------------------------------------------------------ reads
    def _read(self) -> Tensor:
        return build("ReadVariableOp", self._handle, dtype=self._dtype)

    def value(self) -> Tensor:
        if self._cached is not None:
            return self._cached
        builder = self._builder
        if not builder.defers:
            return self._read()
        with builder.colocate_with(None, ignore_existing=True), builder.device(self._handle.device):
            return self._read()

    def read_value(self) -> Tensor:
        builder = self._builder
        with builder.name_scope("Read"), builder.device(self._handle.device):
            value = self._read()
        # The identity goes wherever the scopes around the call say; the read is where the variable is.
        return build("Identity", value)

    def sparse_read(self, indices: Any, name: str | None = None) -> Tensor:
        """Rows ``indices`` of the value, without reading the rest."""
        with name_scope(name, "Gather") as scope:
            value = build("ResourceGather", self._handle, indices, dtype=self._dtype, name=scope)
        return build("Identity", value) if self._builder.defers else value

    def gather_nd(self, indices: Any, name: str | None = None) -> Tensor:
        """Slices of the value at ``indices`` ``[..., k]``, without reading the rest."""
        with name_scope(name, "GatherNd") as scope:
            value = build("ResourceGatherNd", self._handle, indices, dtype=self._dtype, name=scope)
        return build("Identity", value)

    # ----------------------------------------------------------------------------------------------------------- writes
    def _restored(self, value: Tensor) -> Operation:
        """The op that gives the variable the value of a checkpoint."""
        with self._builder.device(self._handle.device):
            return cast(Operation, build("AssignVariableOp", self._handle, build("Identity", value)))

    def _after(self, op: Any) -> ResourceVariable:
        """The variable as it is after a write."""
        return WrittenVariable(self, op)

    def _write(self, type_name: str, value: Any, name: str | None, read_value: bool) -> Any:
        with self._builder.as_default():
            tensor = convert.convert_to_tensor(value, self._dtype)
            self.shape.assert_is_compatible_with(tensor.shape)
            op = build(type_name, self._handle, tensor, name=name)
        return self._after(op) if read_value else op

    def assign(
        self, value: Any, use_locking: bool | None = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        return self._write("AssignVariableOp", value, name, read_value)

    def assign_add(
        self, delta: Any, use_locking: bool | None = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        return self._write("AssignAddVariableOp", delta, name, read_value)

    def assign_sub(
        self, delta: Any, use_locking: bool | None = None, name: str | None = None, read_value: bool = True
    ) -> Any:
        return self._write("AssignSubVariableOp", delta, name, read_value)

    def _scatter(self, mode: str, indices: Any, updates: Any, use_locking: bool, name: str | None) -> Any:
        with self._builder.as_default():
            tensor = convert.convert_to_tensor(updates, self._dtype)
            op = build_operation(f"ResourceScatter{mode}", (self._handle, indices, tensor), {}, name)
        return self._after(op)

    def count_up_to(self, limit: int) -> Tensor:
        return build("ResourceCountUpTo", self._handle, limit=limit, T=self._dtype)

    def _assign_slice(self, bounds: Any, value: Any, name: str | None, masks: dict[str, int]) -> Any:
        with self._builder.as_default():
            tensor = convert.convert_to_tensor(value, self._dtype)
            op = build_operation("ResourceStridedSliceAssign", (self._handle, *bounds, tensor), dict(masks), name)
        return self._after(op)


def _pickled(value: Any, trainable: bool, name: str, dtype: str) -> ResourceVariable:
    """A variable that was pickled, with the value that it had."""
    return ResourceVariable(value, trainable=trainable, name=name, dtype=dtype)


class WrittenVariable(ResourceVariable):
    """A variable as it is after a write: its reads follow that op."""

    def __init__(self, written: ResourceVariable, op: Operation) -> None:
        self._handle = written._handle
        self._dtype = written._dtype
        self._name = written._name
        self._trainable = written._trainable
        self._synchronization = written._synchronization
        self._aggregation = written._aggregation
        self._constraint = written._constraint
        self._initial_value = written._initial_value
        self._initializer_op = written._initializer_op
        self._is_initialized_op = written._is_initialized_op
        self._save_slice_info = written._save_slice_info
        self._parent_op = op
        builder = self._builder
        if not builder.defers:  # the write is done: there is nothing to fetch, and nothing that reads must follow
            return
        with builder.control_dependencies([op]):
            self._graph_element = self._snapshot = self._read()

    @property
    def op(self) -> Operation:
        """The write; None where ops run at once."""
        return self._parent_op

    def value(self) -> Tensor:
        with self._builder.control_dependencies([self._parent_op]):
            return super().value()

    def read_value(self) -> Tensor:
        with self._builder.control_dependencies([self._parent_op]):
            return super().read_value()


variable._forms[True] = ResourceVariable
