"""``python.framework.ops``: what libraries take from it besides graphs, operations and tensors."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.autodiff import registry
from anabranch.compat.internal.session_names import _default_session_stack
from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.graph import builder, collections, convert, default_graph
from anabranch.core.graph.default_graph import graph_of
from anabranch.core.graph.indexed_slices import convert_n_to_tensor_or_indexed_slices
from anabranch.core.graph.tensor import Tensor
from anabranch.debug import float_operations
from anabranch.eager import tensor

__all__ = ["_default_session_stack"]
_USE_C_API = True
_counter = itertools.count(1)
_dense_types: list[type] = [tf.Variable]
internal_convert_to_tensor_or_indexed_slices = tf.convert_to_tensor_or_indexed_slices
internal_convert_n_to_tensor_or_indexed_slices = convert_n_to_tensor_or_indexed_slices


class _TensorLikeType(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, (Tensor, tf.SparseTensor, tf.IndexedSlices))


class _TensorLike(metaclass=_TensorLikeType):
    """What tensors, sparse tensors and indexed slices are instances of."""


class _EagerTensorType(type):
    def __instancecheck__(cls, value: object) -> bool:
        return isinstance(value, tensor.EagerTensor)


class EagerTensor(metaclass=_EagerTensorType):
    """The class of tensors with values; called with a value, its context and its device, it makes one."""

    def __new__(cls, value: Any, context: Any = None, device: Any = None, dtype: Any = None) -> Any:
        if context is None and device is None:  # version 1.15 has no context any more
            raise TypeError("Required argument 'context' (pos 2) not found")
        if dtype is not None and not isinstance(dtype, int | tf.DType):
            raise TypeError(f"Expecting a DataType value for dtype. Got {type(dtype).__name__}")
        try:
            wanted = None if dtype is None else tf.as_dtype(dtype)
        except TypeError:
            raise TypeError(f"Invalid dtype argument value {dtype}") from None
        if isinstance(value, tf.Tensor | np.ndarray) and wanted is not None:
            return tf.cast(value, wanted)
        return tf.constant(value, wanted)


def is_dense_tensor_like(t: Any) -> bool:
    """Whether ``t`` is a tensor or a variable, or of a type that was registered."""
    return isinstance(t, (Tensor, *_dense_types))


def register_dense_tensor_like_type(tensor_type: type) -> None:
    """Let :func:`is_dense_tensor_like` hold for a type, which needs the properties ``name`` and ``dtype``."""
    for attribute in ("name", "dtype"):
        if not isinstance(getattr(tensor_type, attribute, None), property):
            raise TypeError(
                f"Type {tensor_type.__name__} does not define a `{attribute}` property\n"
                + errors.message(f"{tensor_type.__name__} without {attribute}", "a property", f"@property {attribute}")
            )
    _dense_types.append(tensor_type)


def internal_convert_to_tensor(
    value: Any,
    dtype: Any = None,
    name: str | None = None,
    as_ref: bool = False,
    preferred_dtype: Any = None,
    ctx: Any = None,
    accept_symbolic_tensors: bool = True,
    accept_composite_tensors: bool = False,
) -> Any:
    """``tf.convert_to_tensor``; with ``as_ref`` the reference of a variable instead of its value."""
    del ctx, accept_symbolic_tensors, accept_composite_tensors
    if as_ref and isinstance(value, tf.Variable) and hasattr(value, "_ref"):
        return value._ref()
    return convert.convert_to_tensor(value, dtype, name, preferred_dtype)


def convert_to_tensor_v2(value: Any, dtype: Any = None, dtype_hint: Any = None, name: str | None = None) -> Any:
    """``tf.convert_to_tensor`` with the arguments of version 2."""
    return convert.convert_to_tensor(value, dtype, name, dtype_hint)


def convert_to_tensor_or_composite(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """``value`` as a tensor, or as it is if it is a sparse tensor or indexed slices."""
    if isinstance(value, (tf.SparseTensor, tf.SparseTensorValue)):
        return tf.convert_to_tensor_or_sparse_tensor(value, dtype, name)
    return tf.convert_to_tensor_or_indexed_slices(value, dtype, name)


def name_from_scope_name(name: str) -> str:
    """A scope's name without the ``/`` at its end."""
    return name[:-1] if name.endswith("/") else name


_name_from_scope_name = name_from_scope_name
prepend_name_scope = tf.contrib.framework.prepend_name_scope
strip_name_scope = tf.contrib.framework.strip_name_scope


def _get_graph_from_inputs(op_input_list: Any, graph: Any = None) -> Any:
    """The graph of some tensors; ValueError if they are of different ones."""
    tensors = [one for one in op_input_list if isinstance(one, (Tensor, tf.Operation))]
    if graph is not None:
        for one in tensors:
            if one.graph is not graph:
                raise ValueError(f"{one} is not from the passed-in graph.")
        return graph
    return graph_of(tensors)


def get_name_scope() -> str:
    """The current name scope, without a final '/'."""
    return tf.get_default_graph().get_name_scope()


def _NodeDef(op_type: str, name: str, device: Any = None, attrs: dict[str, Any] | None = None) -> Any:
    """A node of a graph definition, of which ``tf.Operation(node, graph, inputs)`` makes an operation."""
    node = tf.NodeDef(op=op_type, name=name)
    for key, value in (attrs or {}).items():
        node.attr[key].CopyFrom(value)
    if device:
        node.device = device if isinstance(device, str) else device.to_string()
    return node


def inside_function() -> bool:
    """Whether a body is being built: a function, a branch or a loop."""
    return tf.get_default_graph().building_function


def uid() -> int:
    """A number that no other call gives."""
    return next(_counter)


def tensor_id(tensor: Any) -> int:
    """A number that tells tensors apart."""
    return id(tensor)


def get_all_collection_keys() -> list[Any]:
    """Names of the collections of the default graph."""
    return tf.get_default_graph().get_all_collection_keys()


def dismantle_graph(graph: Any) -> None:
    """Nothing: a graph goes when nobody refers to it."""


def set_shapes_for_outputs(op: Any) -> None:
    """Infer the shapes of an operation's outputs again: programs call it where they have changed its inputs."""
    op.graph._set_shapes(op)


def _as_graph_element(obj: Any) -> Any:
    """What ``obj`` says stands for it in a graph; None if it does not say."""
    method = getattr(obj, "_as_graph_element", None)
    return method() if method is not None else None


class RegisterShape:
    """Decorator of a shape function; it is not used: each operation type knows its shapes."""

    def __init__(self, op_type: str) -> None:
        self._op_type = op_type

    def __call__(self, f: Callable[..., Any]) -> Callable[..., Any]:
        """The function, as it is."""
        return f


class OpStats:
    """A number that is known of an operation, such as its floating-point operations."""

    def __init__(self, statistic_type: str, value: Any = None) -> None:
        self.statistic_type = statistic_type
        self.value = value

    def __iadd__(self, other: OpStats) -> OpStats:
        if other.statistic_type != self.statistic_type:
            raise ValueError(
                f"Can't add an OpStat of type {self.statistic_type} to one of {other.statistic_type}.\n"
                + errors.message(other.statistic_type, self.statistic_type, "OpStats of one type")
            )
        if self.value is None:
            self.value = other.value
        elif other.value is not None:
            self.value += other.value
        return self


class RegisterStatistics:
    """Decorator of a function ``(graph, node)`` that gives the :class:`OpStats` of nodes of one type."""

    def __init__(self, op_type: str, statistic_type: str) -> None:
        self._key = op_type, statistic_type

    def __call__(self, f: Callable[..., OpStats]) -> Callable[..., OpStats]:
        """Register the function; KeyError if there is one."""
        if self._key in float_operations.REGISTERED:
            raise KeyError(
                errors.message(f"a second function for {self._key}", "one for each type and statistic", "leave it out")
            )
        float_operations.REGISTERED[self._key] = f
        return f


def get_stats_for_node_def(graph: Any, node: Any, statistic_type: str) -> OpStats:
    """What a registered function says of a node; without one, and without a formula, without a value."""
    function = float_operations.REGISTERED.get((node.op, statistic_type))
    if function is not None:
        return function(graph, node)
    counted = statistic_type == "flops" and float_operations.float_operations(graph.get_operation_by_name(node.name))
    return OpStats(statistic_type, counted or None)


class _Gradients:
    """Names of gradients that are taken, like a dictionary: by users, and by operation types."""

    def __contains__(self, name: object) -> bool:
        definition = opdef.find(name) if isinstance(name, str) else None
        return name in registry._registered or (definition is not None and definition.gradient is not opdef.DERIVED)

    def __iter__(self) -> Iterator[str]:
        own = (name for name, one in opdef.all_definitions().items() if one.gradient is not opdef.DERIVED)
        return iter({*registry._registered, *own})

    def keys(self) -> list[str]:
        """The names."""
        return list(self)

    def __getitem__(self, name: str) -> dict[str, Any]:
        return {"type": _gradient_registry.lookup(name), "location": ("", 0, name, "")}

    def pop(self, name: str, *default: Any) -> Any:
        """Take a user's gradient out again."""
        return registry._registered.pop(name, *default)

    __delitem__ = pop


class _GradientRegistry:
    """TensorFlow's registry of gradients, as far as programs look into it."""

    _registry = _Gradients()

    def register(self, candidate: Any, name: str) -> None:
        """Register a gradient; KeyError if the name is taken."""
        registry.RegisterGradient(name)(candidate)

    def list(self) -> list[str]:
        """The names."""
        return list(self._registry)

    def lookup(self, name: str) -> Any:
        """The function of a name; LookupError if there is none. It takes an operation and gradients."""
        if name in registry._registered:
            return registry._registered[name].function
        definition = opdef.find(name)
        if definition is not None and callable(definition.gradient):
            return definition.gradient
        if definition is not None and isinstance(definition.gradient, opdef.NotDifferentiable):
            return None
        raise LookupError(f"gradient registry has no entry for: {name}")


_gradient_registry = _GradientRegistry()
get_gradient_function = registry.get_gradient_function


class _GraphStack:
    """The default graphs of the thread, as far as programs look at them."""

    @property
    def stack(self) -> list[Any]:
        """The graphs that are default, the outermost first; without the one below them all."""
        return [one for one in builder.current_stack() if one.defers]

    def is_cleared(self) -> bool:
        """Whether only the graph below them all is default."""
        return not self.stack

    def reset(self) -> None:
        """Leave no graph as default but a new one below them all."""
        default_graph.leave_graphs()

    def get_default(self) -> Any:
        """The default graph."""
        return tf.get_default_graph()

    @property
    def enforce_nesting(self) -> bool:
        """True: graphs stop being default in the reverse order."""
        return True


_default_graph_stack = _GraphStack()


# -------------------------------------------------------------------------------------------- collections as messages
def _functions_of(collection_name: Any) -> Any:
    return collections.proto_functions(collection_name) or (None, None, None)


def get_collection_proto_type(collection_name: Any) -> Any:
    """The class of the messages that items of a collection are written as, or None."""
    return _functions_of(collection_name)[0]


def get_to_proto_function(collection_name: Any) -> Any:
    """The function that makes a message of an item of a collection, or None."""
    return _functions_of(collection_name)[1]


def get_from_proto_function(collection_name: Any) -> Any:
    """The function that makes an item of a collection of its message, or None."""
    return _functions_of(collection_name)[2]


def default_session(session: Any) -> Any:
    """A block in which a session is the default one."""
    return session.as_default()
