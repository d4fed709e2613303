"""``tf.Variable``: the class that programs name, how one is made, and what both of its forms share.

A variable is a Python object beside the graph: an op that makes the handle, an op that assigns the initial value, and
a read. :class:`~anabranch.variables.ref_variable.RefVariable` builds the reference form, which is TensorFlow 1.x's
default; :class:`~anabranch.variables.resource_variable.ResourceVariable` the one behind a resource handle. Which one
``tf.Variable(...)`` makes is decided by ``use_resource``, else by the variable scope, else by
``tf.enable_resource_variables``.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import threading
from collections.abc import Callable, Iterator
from typing import Any, NoReturn

from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.builder import Builder, builder_of, current_builder
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.graph import Graph, get_default_graph
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.protos import variable_pb2
from anabranch.core.values import dtypes, shapes, version_two
from anabranch.core.values.identities import Reference
from anabranch.variables import arguments, save_slice
from anabranch.variables.initialized_value import initialized_value
from anabranch.variables.save_slice import inside_scope, without_scope
from anabranch.variables.scope_state import VariableAggregation, VariableSynchronization, get_variable_scope

_resource_by_default = [False]
_forms: dict[bool, type] = {}  # use_resource -> class, filled by the modules of the two forms


@public("enable_resource_variables")
def enable_resource_variables() -> None:
    """Make variables behind resource handles unless the call or its scope says otherwise."""
    _resource_by_default[0] = True


@public("disable_resource_variables")
def disable_resource_variables() -> None:
    """Make variables in the reference form unless the call or its scope says otherwise (the default)."""
    _resource_by_default[0] = False


@public("resource_variables_enabled")
def resource_variables_enabled() -> bool:
    """Whether variables are made behind resource handles by default."""
    return _resource_by_default[0]


class _Creators(threading.local):
    def __init__(self) -> None:
        self.stack: list[tuple[Builder, Callable[..., Any]]] = []


_creators = _Creators()


@public("variable_creator_scope")
@contextlib.contextmanager
def variable_creator_scope(variable_creator: Callable[..., Any]) -> Iterator[None]:
    """Hand the making of variables in the default graph to ``variable_creator(next_creator, **kwargs)``.

    The creator returns a variable, usually by ``next_creator(**kwargs)`` with some arguments changed.
    """
    _creators.stack.append((current_builder(), variable_creator))
    try:
        yield
    finally:
        _creators.stack.pop()


def make_variable(
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
    use_resource: bool | None = None,
    synchronization: Any = VariableSynchronization.AUTO,
    aggregation: Any = VariableAggregation.NONE,
    shape: Any = None,
) -> Variable:
    """Make a variable by way of the creators in force; the call behind ``tf.Variable``, whose arguments it takes."""
    given = dict(locals())
    creator: Callable[..., Any] = _default_creator
    builder = current_builder()
    for owner, outer in _creators.stack:
        if owner is builder or owner is builder.home:  # where a function is traced, those around it
            creator = functools.partial(outer, creator)
    return creator(**given)


def _default_creator(**arguments: Any) -> Variable:
    use_resource = arguments.pop("use_resource", None)
    if use_resource is None:
        use_resource = get_variable_scope().use_resource
    if current_builder().only_handles:
        use_resource = True
    elif use_resource is None:
        use_resource = _resource_by_default[0]
    return _forms[bool(use_resource)](**arguments)


class _VariableType(type):
    """Make ``tf.Variable(...)`` build the form that is wanted, while both forms are instances of ``tf.Variable``."""

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        if cls is Variable:
            return make_variable(*args, **kwargs)
        return super().__call__(*args, **kwargs)


@public("Variable", "VariableV1")
class Variable(metaclass=_VariableType):
    """A tensor that lives on between steps, and changes when an assignment runs.

    Args:
        initial_value: tensor, array, nested list, or a function without arguments that returns one; gives the variable
            its dtype and shape.
        trainable: whether optimizers change it by default (collection ``TRAINABLE_VARIABLES``).
        collections: collections to add it to; ``[GraphKeys.GLOBAL_VARIABLES]`` if None.
        validate_shape: refuse an initial value whose shape is not fully known; False leaves the variable's shape open
            (in the reference form; a handle has whatever is known of the initial value's shape).
        caching_device: device on which reads are cached.
        name: name of the op; made unique.
        variable_def: a ``VariableDef`` to recreate the variable of an imported graph from, in place of everything else.
        dtype: element type that the initial value is converted to.
        expected_shape: shape that the initial value must have.
        import_scope: name scope of the imported graph (with ``variable_def``).
        constraint: function of the variable's value that an optimizer applies after its update.
        use_resource: make it behind a resource handle; by default as the variable scope or the program says.
        synchronization, aggregation: how copies on replicas are kept together.
        shape: shape of the variable, which may be less known than the initial value's.

    Example:
        >>> import anabranch as tf
        >>> w = tf.Variable(tf.zeros([2, 3]), name="w")
        >>> w.name, w.shape.as_list(), w.initializer.name
        ('w:0', [2, 3], 'w/Assign')
    """

    SaveSliceInfo = save_slice.SaveSliceInfo
    _is_resource = False
    __array_priority__ = 100

    # Set by the forms.
    _name: str
    _trainable: bool
    _initial_value: Tensor | None
    _initializer_op: Any  # an operation; None where the variable has its value
    _snapshot: Tensor
    _caching_device: Any = None
    _constraint: Any = None
    _save_slice_info: save_slice.SaveSliceInfo | None = None
    _synchronization = VariableSynchronization.AUTO
    _aggregation = VariableAggregation.NONE

    # ------------------------------------------------------------------------------------------------------- properties
    @property
    def name(self) -> str:
        """Name of the variable: that of its op and ``:0``."""
        return self._name

    @property
    def _shared_name(self) -> str:
        return self._name.partition(":")[0]

    @property
    def graph(self) -> Graph:
        """The graph of the variable."""
        return self._handle_tensor().graph

    @property
    def _builder(self) -> Builder:
        """What applies ops to the variable: its graph, or the current builder where it has a value."""
        return builder_of([self._handle_tensor()])

    @property
    def device(self) -> str:
        """Device of the variable."""
        return self._handle_tensor().device

    def experimental_ref(self) -> Reference:
        """The variable as a key of dictionaries and sets; ``deref()`` gives it back."""
        return Reference(self)

    @property
    def op(self) -> Operation:
        """The op that makes the variable's reference or handle."""
        return self._handle_tensor().op

    @property
    def dtype(self) -> dtypes.DType:
        """Element type; a reference type (``float32_ref``) in the reference form."""
        raise NotImplementedError

    @property
    def shape(self) -> shapes.TensorShape:
        """Static shape."""
        raise NotImplementedError

    def get_shape(self) -> shapes.TensorShape:
        """Alias of :attr:`shape`."""
        return self.shape

    @property
    def trainable(self) -> bool:
        """Whether optimizers change it by default."""
        return self._trainable

    @property
    def synchronization(self) -> VariableSynchronization:
        """When copies on replicas are brought together."""
        return self._synchronization

    @property
    def aggregation(self) -> VariableAggregation:
        """How updates from replicas are combined."""
        return self._aggregation

    @property
    def constraint(self) -> Any:
        """Function that an optimizer applies after its update, or None."""
        return self._constraint

    @property
    def initializer(self) -> Operation:
        """The op that assigns the initial value."""
        return self._initializer_op

    @property
    def initial_value(self) -> Tensor | None:
        """The tensor that the initializer assigns."""
        if not self._builder.defers:
            raise RuntimeError(
                "initial_value not supported in EAGER mode.\n"
                + errors.message(f"initial_value of {self.name!r}", "a variable of a graph", "v.read_value()")
            )
        return self._initial_value

    def initialized_value(self) -> Tensor:
        """The variable's value, or its initial value if it has none yet."""
        return initialized_value(self)

    @property
    def _graph_key(self) -> str:
        return f"graph-key-{id(self.graph)}/"

    def _handle_tensor(self) -> Tensor:
        """The tensor that stands for the variable itself: its reference or its handle."""
        raise NotImplementedError

    def _identity(self) -> Tensor:
        """What tells variables apart: an object made of the same ops in a graph shares it."""
        return self._handle_tensor()

    def _ref(self) -> Tensor:
        raise NotImplementedError

    def _as_graph_element(self) -> Tensor:
        raise NotImplementedError

    # ------------------------------------------------------------------------------------------------------------ reads
    def value(self) -> Tensor:
        """A tensor with the variable's value."""
        raise NotImplementedError

    def read_value(self) -> Tensor:
        """A read that happens here: after the control dependencies around the call."""
        raise NotImplementedError

    def _AsTensor(self) -> Tensor:
        return self.value()

    def eval(self, session: Any = None) -> Any:
        """Run a read in ``session`` or the default session and return an array."""
        return hooks.evaluate(self._as_graph_element(), None, self.graph, session)

    def load(self, value: Any, session: Any = None) -> None:
        """Give the variable ``value`` in ``session`` or the default session, by feeding its initializer."""
        initializer = self.initializer
        hooks.evaluate(initializer, {initializer._inputs[1]: value}, self.graph, session)

    def set_shape(self, shape: Any) -> None:
        """Merge ``shape`` into the static shape."""
        raise NotImplementedError

    # ----------------------------------------------------------------------------------------------------------- writes
    def assign(self, value: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True) -> Any:
        """Give the variable ``value``; return it as it is afterwards, or the op with ``read_value=False``."""
        raise NotImplementedError

    def assign_add(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Add ``delta``; return the variable as it is afterwards, or the op with ``read_value=False``."""
        raise NotImplementedError

    def assign_sub(
        self, delta: Any, use_locking: bool = False, name: str | None = None, read_value: bool = True
    ) -> Any:
        """Subtract ``delta``; return the variable as it is afterwards, or the op with ``read_value=False``."""
        raise NotImplementedError

    def _scatter(self, mode: str, indices: Any, updates: Any, use_locking: bool, name: str | None) -> Any:
        """Row scatter ``mode`` (``Add``, ``Update``, ``NdAdd``, ...); returns the variable as it is afterwards."""
        raise NotImplementedError

    def _rows(self, mode: str, sparse_delta: Any, use_locking: bool, name: str | None) -> Any:
        if not isinstance(sparse_delta, IndexedSlices):
            raise TypeError(
                f"sparse_delta is not IndexedSlices: {sparse_delta}\n"
                + errors.message(
                    f"a {type(sparse_delta).__name__}", "tf.IndexedSlices", "tf.IndexedSlices(values, indices)"
                )
            )
        return self._scatter(mode, sparse_delta.indices, sparse_delta.values, use_locking, name)

    def scatter_sub(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Any:
        """Subtract the rows of ``sparse_delta``."""
        return self._rows("Sub", sparse_delta, use_locking, name)

    def scatter_add(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Any:
        """Add the rows of ``sparse_delta``."""
        return self._rows("Add", sparse_delta, use_locking, name)

    def scatter_max(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Any:
        """Take the maximum with the rows of ``sparse_delta``."""
        return self._rows("Max", sparse_delta, use_locking, name)

    def scatter_min(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Any:
        """Take the minimum with the rows of ``sparse_delta``."""
        return self._rows("Min", sparse_delta, use_locking, name)

    def scatter_mul(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Any:
        """Multiply by the rows of ``sparse_delta``."""
        return self._rows("Mul", sparse_delta, use_locking, name)

    def scatter_div(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Any:
        """Divide by the rows of ``sparse_delta``."""
        return self._rows("Div", sparse_delta, use_locking, name)

    def scatter_update(self, sparse_delta: IndexedSlices, use_locking: bool = False, name: str | None = None) -> Any:
        """Replace the rows of ``sparse_delta``."""
        return self._rows("Update", sparse_delta, use_locking, name)

    def scatter_nd_sub(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Subtract ``updates`` ``[..., slice]`` from the slices at ``indices`` ``[..., k]``."""
        return self._scatter("NdSub", indices, updates, True, name)

    def scatter_nd_add(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Add ``updates`` ``[..., slice]`` to the slices at ``indices`` ``[..., k]``."""
        return self._scatter("NdAdd", indices, updates, True, name)

    def scatter_nd_update(self, indices: Any, updates: Any, name: str | None = None) -> Any:
        """Replace the slices at ``indices`` ``[..., k]`` by ``updates`` ``[..., slice]``."""
        return self._scatter("NdUpdate", indices, updates, True, name)

    def count_up_to(self, limit: int) -> Tensor:
        """Add 1 to the scalar variable and return its old value; OutOfRangeError at ``limit``."""
        raise NotImplementedError

    def _strided_slice_assign(
        self,
        begin: Any,
        end: Any,
        strides: Any,
        value: Any,
        name: str | None,
        begin_mask: int = 0,
        end_mask: int = 0,
        ellipsis_mask: int = 0,
        new_axis_mask: int = 0,
        shrink_axis_mask: int = 0,
    ) -> Any:
        masks = {
            "begin_mask": begin_mask,
            "end_mask": end_mask,
            "ellipsis_mask": ellipsis_mask,
            "new_axis_mask": new_axis_mask,
            "shrink_axis_mask": shrink_axis_mask,
        }
        return self._assign_slice((begin, end, strides), value, name, masks)

    def _assign_slice(self, bounds: Any, value: Any, name: str | None, masks: dict[str, int]) -> Any:
        raise NotImplementedError

    def __getitem__(self, key: Any) -> Tensor:
        """A slice of the value; the result's ``assign(value)`` writes to that part of the variable."""
        with self._builder.noted() as views:
            read = hooks.get_item(self.value(), key)
        op = views[-1] if views else read._maker
        if op is not None and op.type == "StridedSlice":
            masks = {name: op._attrs[name] for name in op._attrs if name.endswith("_mask")}

            def assign(value: Any, name: str | None = None) -> Any:
                """Write ``value`` to the slice; return the variable as it is afterwards."""
                return self._assign_slice(op._inputs[1:], value, name or f"{op.name}/_assign", masks)

            read.assign = assign
        return read

    # ------------------------------------------------------------------------------------------------------------ proto
    def _get_save_slice_info(self) -> save_slice.SaveSliceInfo | None:
        return self._save_slice_info

    def _set_save_slice_info(self, save_slice_info: save_slice.SaveSliceInfo | None) -> None:
        """Tell which part of a larger saved variable this one is."""
        self._save_slice_info = save_slice_info

    def to_proto(self, export_scope: str | None = None) -> Any:
        """The variable as a ``VariableDef``; None if it is outside ``export_scope``."""
        handle = self._handle_tensor()
        if export_scope is not None and not handle.name.startswith(export_scope):
            return None
        proto: Any = variable_pb2.VariableDef(
            variable_name=without_scope(handle.name, export_scope),
            initializer_name=without_scope(self.initializer.name, export_scope),
            snapshot_name=without_scope(self._snapshot.name, export_scope),
            trainable=self.trainable,
            is_resource=self._is_resource,
        )
        proto.synchronization = self.synchronization.value
        proto.aggregation = self.aggregation.value
        if self._initial_value is not None:
            proto.initial_value_name = without_scope(self._initial_value.name, export_scope)
        if self._save_slice_info is not None:
            proto.save_slice_info_def.CopyFrom(self._save_slice_info.to_proto(export_scope))
        return proto

    @staticmethod
    def from_proto(variable_def: Any, import_scope: str | None = None) -> Variable:
        """The variable that ``variable_def`` describes, whose ops are in the default graph."""
        return _forms[bool(variable_def.is_resource)](variable_def=variable_def, import_scope=import_scope)

    def _init_from_proto(self, proto: Any, import_scope: str | None) -> Tensor:
        """Set what both forms share; return the tensor that stands for the variable."""
        graph = get_default_graph()

        def element(name: str) -> Any:
            return graph.as_graph_element(inside_scope(name, import_scope))

        handle = element(proto.variable_name)
        self._name = handle.name
        self._initializer_op = element(proto.initializer_name)
        self._initial_value = element(proto.initial_value_name) if proto.initial_value_name else None
        # Up to TensorFlow 1.9 resource variables were written without the name of their first read.
        self._snapshot = element(proto.snapshot_name or f"{proto.variable_name.split(':')[0]}/Read/ReadVariableOp:0")
        self._synchronization, self._aggregation, self._trainable = arguments.checked_modes(
            proto.synchronization, proto.aggregation, proto.trainable, proto.variable_name
        )
        if proto.HasField("save_slice_info_def"):
            self._save_slice_info = save_slice.SaveSliceInfo(
                save_slice_info_def=proto.save_slice_info_def, import_scope=import_scope
            )
        return handle

    def _add_to_collections(self, collections: Any) -> None:
        if collections is None:
            collections = [GraphKeys.GLOBAL_VARIABLES]
        if not isinstance(collections, (list, tuple, set)):
            raise ValueError(
                "collections argument to Variable constructor must be a list, tuple, or set. "
                f"Got {collections} of type {type(collections)}\n"
                + errors.message(f"collections={collections!r}", "a list of names", f"collections=[{collections!r}]")
            )
        if self._trainable and GraphKeys.TRAINABLE_VARIABLES not in collections:
            collections = [*collections, GraphKeys.TRAINABLE_VARIABLES]
        self._builder.add_to_collections(collections, self)

    # ----------------------------------------------------------------------------------------------------------- Python
    def __iter__(self) -> NoReturn:
        """Refuse, so that the elements of a variable are not read one by one without end."""
        raise TypeError(
            "'Variable' object is not iterable.\n"
            + errors.message(f"iteration over variable {self._name!r}", "a tensor", "tf.unstack(v), or v[i]")
        )

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> Any:
        return _compared(self, other, "Equal") if version_two.applies() else self is other

    def __ne__(self, other: object) -> Any:
        return _compared(self, other, "NotEqual") if version_two.applies() else self is not other

    def __array__(self, *args: Any, **kwargs: Any) -> Any:
        if not self._builder.defers:
            value: Any = self.value()
            return value.__array__(*args, **kwargs)
        raise NotImplementedError(
            errors.message(f"variable {self._name!r} given to NumPy", "an array", "session.run(v), or v.eval()")
        )

    def __repr__(self) -> str:
        return f"<tf.Variable {self.name!r} shape={self.shape} dtype={self.dtype.name}>"


def _compared(variable: Variable, other: object, type_name: str) -> Any:
    value: Any = variable.value()
    return value._compared(other, type_name)


Variable.__signature__ = inspect.signature(make_variable)  # type: ignore[attr-defined]

_OPERATORS = (
    "add radd sub rsub mul rmul div rdiv truediv rtruediv floordiv rfloordiv mod rmod lt le gt ge and rand or ror xor "
    "rxor pow rpow invert neg abs matmul rmatmul"
)


def _overload(operator: str) -> None:
    def on_value(self: Variable, *args: Any) -> Any:
        function = getattr(Tensor, operator, None)
        return NotImplemented if function is None else function(self.value(), *args)

    on_value.__name__ = operator
    on_value.__doc__ = f"``Tensor.{operator}`` of the value."
    setattr(Variable, operator, on_value)


for _operator in _OPERATORS.split():
    _overload(f"__{_operator}__")


def _convert(value: Variable, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Tensor:
    if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
        wanted = dtypes.as_dtype(dtype).name
        raise ValueError(
            f"Incompatible type conversion requested to type '{wanted}' for variable of type '{value.dtype.name}'\n"
            + errors.message(
                f"variable {value.name!r} of {value.dtype.name}", wanted, f"tf.cast({value._shared_name}, tf.{wanted})"
            )
        )
    return value._ref() if as_ref else value.value()


convert.register_tensor_conversion_function(Variable, _convert)
