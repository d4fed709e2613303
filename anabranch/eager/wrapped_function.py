"""``tf.wrap_function``: a function of version 1's kind, traced once, whose parts can be called by themselves.

As in a session, and other than with ``tf.function``, only what a result needs is run, and in no order but that of data
and control edges. The graph belongs to the wrapped function, and so do the variables that the Python function makes,
and those of a graph that it imports: they live in the process, and are taken by optimizers and savers.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import composites
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.default_graph import get_default_graph
from anabranch.core.graph.operation import GraphTensor, Operation
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.graphdef.import_graph import import_graph_def
from anabranch.core.values import nest
from anabranch.eager import recording
from anabranch.eager.concrete_function import ConcreteFunction, results_in, results_of, spec_of, value_in_call
from anabranch.eager.function_graph import FunctionGraph
from anabranch.eager.graph_function import GraphFunction
from anabranch.eager.mode import EAGER
from anabranch.eager.signature import canonical, raw_shape
from anabranch.eager.tensor import EagerTensor
from anabranch.variables.resource_variable import ResourceVariable
from anabranch.variables.variable import variable_creator_scope


class VariableHolder:
    """The variables of wrapped functions, by name.

    Args:
        fn: the Python function, for a holder that is called like it.
        share_variables: whether a variable whose name is there already is that one.
    """

    def __init__(self, fn: Callable[..., Any] | None = None, share_variables: bool = False) -> None:
        self._fn = fn
        self._share_variables = share_variables
        self._variables_by_name: dict[str, Any] = {}

    @property
    def variables(self) -> dict[str, Any]:
        """The variables by name."""
        return self._variables_by_name

    def variable_creator_scope(self, next_creator: Callable[..., Any], **arguments: Any) -> Any:
        """Make a variable, which is kept, and put into the collections of the graph that is being built."""
        collections = arguments.pop("collections", None)
        with name_scope(arguments.get("name"), "Variable") as scope:
            name = scope[:-1]
            arguments["name"] = scope
        variable = self._variables_by_name.get(name) if self._share_variables else None
        if variable is None:
            variable = self._variables_by_name[name] = next_creator(**arguments)
        keys = [GraphKeys.GLOBAL_VARIABLES] if collections is None else list(collections)
        if variable.trainable and GraphKeys.TRAINABLE_VARIABLES not in keys:
            keys.append(GraphKeys.TRAINABLE_VARIABLES)
        get_default_graph().add_to_collections(keys, variable)
        return variable

    def call_with_variable_creator_scope(self, fn: Callable[..., Any]) -> Callable[..., Any]:
        """The function, whose variables are made by way of this holder."""

        @functools.wraps(fn)
        def wrapped(*args: Any, **kwargs: Any) -> Any:
            with variable_creator_scope(self.variable_creator_scope):
                return fn(*args, **kwargs)

        return wrapped

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        assert self._fn is not None
        return self.call_with_variable_creator_scope(self._fn)(*args, **kwargs)


class WrappedFunctionGraph(FunctionGraph):
    """The graph of functions of version 1's kind: what has an effect runs where a result needs it."""

    keeps_variables = True
    orders_effects = False

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.root.runs_effects = False

    @property
    def external_captures(self) -> list[Any]:
        """Values and handles from outside."""
        return [outer for outer, _ in (*self.captured, *self.handles)]

    @property
    def internal_captures(self) -> list[GraphTensor]:
        """The tensors that stand for them."""
        return [inner for _, inner in (*self.captured, *self.handles)]


class WrappedFunction(ConcreteFunction):
    """A function of version 1's kind; :func:`wrap_function` and :meth:`prune` make it.

    Args:
        graph: its graph.
        arguments: tensors that a call feeds.
        returned: what a call gives, as tensors and operations of the graph in a structure.
        holder: the variables that the Python function made.
        input_signature: for which arguments it is.
    """

    def __init__(
        self,
        graph: WrappedFunctionGraph,
        arguments: Sequence[GraphTensor],
        returned: Any,
        holder: VariableHolder,
        input_signature: Any,
        name: str,
    ) -> None:
        self.name = name
        self.graph: WrappedFunctionGraph = graph
        self._variable_holder = holder
        _lift_variables(graph, holder)
        self._specs = [(argument.dtype.base, argument._shape) for argument in arguments]
        self._dtypes = [dtype for dtype, _ in self._specs]
        self._argument_names = [argument.op.name for argument in arguments]
        self.structured_input_signature = input_signature
        effects = [leaf for leaf in nest.flatten(returned) if isinstance(leaf, Operation)]
        with graph.as_default(), recording.stopped():
            self.structured_outputs, flat, self._places = results_of(returned, graph, name)
        self._results = results_in(self.structured_outputs, self._places)
        self._function = GraphFunction(graph, arguments, flat, effects, graph.captured, graph.handles)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results for tensors, or what can become them, in the order of the arguments or by their names."""
        parts: list[Any] = []
        for leaf in nest.flatten(args):
            is_one = composites.is_composite(leaf)
            parts += [part for part in composites.parts(leaf) if part is not None] if is_one else [leaf]
        if not kwargs and len(parts) == len(self._specs):
            return self.call(
                [convert_to_tensor(part, dtype) for part, (dtype, _) in zip(parts, self._specs, strict=True)]
            )
        return super().__call__(*args, **kwargs)

    def prune(self, feeds: Any, fetches: Any, name: str | None = None, input_signature: Any = None) -> WrappedFunction:
        """The function from some tensors of the graph to others, with the same variables.

        Args:
            feeds: tensors of the graph, or their names, in a structure: the arguments in order. Those that stand for
                variables are passed over.
            fetches: tensors, operations, their names, or `TensorInfo` messages, in a structure, which a call gives
                back with values, and with None for operations.
            name: what messages call the function.
            input_signature: what its ``structured_input_signature`` is.

        Raises:
            ValueError: a feed is not a tensor, or something is of another graph.
        """
        inner = {tensor for tensor in self.graph.internal_captures}
        given = [self._element(feed) for feed in _flat(feeds)]
        wrong = [feed for feed in given if not isinstance(feed, GraphTensor)]
        if wrong:
            raise ValueError(
                "Feeds must be tensors.\n"
                + errors.message(f"{wrong[0]!r}", "tensors of the graph", "prune(f.inputs, ...)")
            )
        arguments = [feed for feed in given if feed not in inner]
        leaves = [self._element(fetch) for fetch in nest.flatten(fetches)]
        wanted = nest.pack_sequence_as(fetches, leaves) if nest.is_nested(fetches) else leaves[0]
        return WrappedFunction(self.graph, arguments, wanted, self._variable_holder, input_signature, name or "pruned")

    def _element(self, item: Any) -> Any:
        """What a feed or fetch names in the graph."""
        if hasattr(item, "WhichOneof"):
            if item.WhichOneof("encoding") == "coo_sparse":
                sparse = item.coo_sparse
                names = (sparse.indices_tensor_name, sparse.values_tensor_name, sparse.dense_shape_tensor_name)
                return SparseTensor(*[self.graph.get_tensor_by_name(one) for one in names])
            found = self.graph.as_graph_element(item.name)
            if isinstance(found, GraphTensor) and not item.tensor_shape.unknown_rank:
                found.set_shape(item.tensor_shape)
            return found
        parts = (
            [part for part in composites.parts(item) if part is not None] if composites.is_composite(item) else [item]
        )
        for part in parts:
            if isinstance(part, GraphTensor | Operation) and part.graph is not self.graph:
                raise ValueError(
                    f"Can only prune function whose feeds and fetches are from this graph ({self.graph}).\n"
                    + errors.message(
                        f"{part.name!r} of another graph", "tensors and operations of one graph", "f.graph has them"
                    )
                )
        return item if composites.is_composite(item) else self.graph.as_graph_element(item)


def _flat(structure: Any) -> list[Any]:
    """The tensors of a structure, with the parts of those that have some."""
    found: list[Any] = []
    for leaf in nest.flatten(structure):
        is_one = composites.is_composite(leaf)
        found += [part for part in composites.parts(leaf) if part is not None] if is_one else [leaf]
    return found


def _lift_variables(graph: WrappedFunctionGraph, holder: VariableHolder) -> None:
    """Let variables of a graph that was imported live in the process, as objects that its collections hold."""
    known = {inner for _, inner in graph.handles}
    lifted: dict[int, Any] = {}
    for key in (GraphKeys.GLOBAL_VARIABLES, GraphKeys.LOCAL_VARIABLES):
        for old in graph.get_collection(key):
            if not isinstance(old, ResourceVariable) or id(old) in lifted:
                continue
            handle: Any = old.handle
            if isinstance(handle, EagerTensor) or handle in known:
                continue
            with EAGER.as_default(), recording.stopped():
                new = ResourceVariable.outside_graph(old, handle.op.name)
            outer: Any = new.handle
            handle.op._attrs = {
                **handle.op._attrs,
                "shared_name": outer._made_by._attrs["shared_name"],
                "container": "",
            }
            graph.handles.append((outer, handle))
            graph._adopted[id(outer)] = handle
            handle._variable = outer._variable
            new._initializer_op = old._initializer_op
            lifted[id(old)] = holder._variables_by_name[handle.op.name] = new
    if lifted:
        for key in graph.get_all_collection_keys():
            kept = graph.get_collection_ref(key)
            kept[:] = [lifted.get(id(item), item) for item in kept]


class WrappedGraph:
    """One graph for several wrapped functions, which share variables and collections by their names.

    Args:
        variable_holder: the variables; functions of graphs with one holder share theirs.
        name: what the graph is called.
    """

    def __init__(self, variable_holder: VariableHolder | None = None, name: str = "wrapped_function_graph") -> None:
        self._variable_holder = variable_holder or VariableHolder(share_variables=True)
        self.graph = WrappedFunctionGraph(name)
        self._functions: dict[str, WrappedFunction] = {}

    @property
    def functions(self) -> dict[str, WrappedFunction]:
        """The functions by name."""
        return self._functions

    @property
    def variables(self) -> dict[str, Any]:
        """The variables by name."""
        return self._variable_holder.variables

    def wrap_function(
        self, fn: Callable[..., Any], signature: Sequence[Any], name: str | None = None
    ) -> WrappedFunction:
        """Trace a function in the graph; see :func:`wrap_function`."""
        full = str(name or getattr(fn, "__name__", "function"))
        traced = self._variable_holder.call_with_variable_creator_scope(fn)
        found = self._functions[full] = _traced(self.graph, traced, signature, self._variable_holder, full)
        return found


def _traced(
    graph: WrappedFunctionGraph, fn: Callable[..., Any], signature: Sequence[Any], holder: VariableHolder, name: str
) -> WrappedFunction:
    found = canonical((tuple(signature), {}), name)
    with graph.as_default(), recording.stopped():
        arguments = [
            graph.placeholder(tensor.dtype.base, raw_shape(tensor), getattr(tensor, "name", None) or f"arg_{i}")
            for i, tensor in enumerate(found.tensors)
        ]
        for argument, tensor in zip(arguments, found.tensors, strict=True):
            argument._handle = getattr(tensor, "_handle", None)
        graph.lift = functools.partial(value_in_call, graph, arguments, found.tensors)
        args, kwargs = found.rebuild(arguments)
        input_signature = nest.map_structure(spec_of, (tuple(args), dict(kwargs)))
        returned = fn(*args, **kwargs)
        graph.lift = None
    return WrappedFunction(graph, arguments, returned, holder, input_signature, name)


@public("wrap_function")
def wrap_function(fn: Callable[..., Any], signature: Sequence[Any], name: str | None = None) -> WrappedFunction:
    """Make a function of version 1's kind one that is called with tensors that have values.

    The function is traced once, so that it may make variables, which belong to what comes back. What has an effect
    runs only where a result needs it, by data or control edges, as in a session.

    Args:
        fn: the Python function.
        signature: its arguments in order: `tf.TensorSpec` for tensors, other values as they are.
        name: what messages call it.

    Returns:
        A :class:`WrappedFunction`. Its ``prune(feeds, fetches)`` gives functions of other parts of the graph, its
        ``variables`` are those that it uses.

    Raises:
        ValueError: a variable begins with a value that depends on an argument.

    Example:
        >>> import anabranch as tf
        >>> def scaled(x):
        ...     return x * tf.Variable(3.0)
        >>> f = tf.wrap_function(scaled, [tf.TensorSpec([], tf.float32)])
        >>> f.variables[0].shape
        TensorShape([])
    """
    holder = VariableHolder(fn)
    full = "wrapped_function" if name is None else f"wrapped_function_{name}"
    return _traced(WrappedFunctionGraph(full), holder, signature, holder, full)


def function_from_graph_def(graph_def: Any, inputs: Any, outputs: Any) -> WrappedFunction:
    """The function from some tensors of a GraphDef to others, both given by their names."""
    wrapped = wrap_function(lambda: import_graph_def(graph_def, name=""), [])
    return wrapped.prune(inputs, outputs)
