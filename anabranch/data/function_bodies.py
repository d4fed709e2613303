"""Python functions that stages call: traced once into a body of the graph.

The function is called while the graph is built, with an element whose tensors are the body's arguments; an element that
is a plain tuple is unpacked. What it uses from outside is captured by value: a tensor when the iterator is made, a
variable with a handle (``use_resource=True``), a table or a queue as itself, read whenever the function runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from anabranch.core import errors
from anabranch.core.graph import body_ops
from anabranch.core.graph.body import Body
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graphdef import function_def
from anabranch.data import nest, structure
from anabranch.eager.function_graph import FunctionGraph
from anabranch.ops.control.bodies import local, told


class Traced(NamedTuple):
    """A body, what it captures, and the structure of what the Python function returned."""

    body: Body
    captured: list[Tensor]
    spec: Any


def unpacks(spec: Any) -> bool:
    """Whether an element is given to a function as several arguments."""
    return type(spec) is tuple


def trace(function: Callable[..., Any], spec: Any, transformation: str) -> Traced:
    """The body of a function of elements.

    Args:
        function: called with an element; returns a structure of what elements may hold.
        spec: the structure of the element.
        transformation: what it is for, such as ``Dataset.map()``.
    """
    return trace_arguments(function, (spec,) if not unpacks(spec) else spec, transformation)


def trace_arguments(function: Callable[..., Any], specs: tuple[Any, ...], transformation: str) -> Traced:
    """The body of a function with one argument for each of ``specs``."""
    if not callable(function):
        raise TypeError(
            errors.message(f"{function!r} for {transformation}", "a function of elements", "dataset.map(lambda x: x)")
        )
    builder: Any = current_builder()
    graph: Any = builder if builder.defers else FunctionGraph(transformation)
    name = transformation.removesuffix("()").replace(".", "_")
    body = graph.new_body(name)
    body.called = body
    with (
        graph.as_default(),
        graph.name_scope(f"{body.name}/"),
        graph.building(body),
        graph.control_dependencies(None),
    ):
        arguments: list[Tensor] = []
        for dtype, shape in zip(structure.flat_types(specs), structure.flat_shapes(specs), strict=True):
            arguments.append(body.add_arg(dtype, shape.raw, f"args_{len(arguments)}"))
        returned = function(*structure.from_tensors(specs, arguments))
        if isinstance(returned, list):  # what an op gives that has several outputs
            returned = tuple(returned)
        if returned is None:
            raise TypeError(
                f"Unsupported return value from function passed to {transformation}: None.\n"
                + errors.message(
                    f"{told(function)} that returns nothing",
                    "tensors, sparse tensors or datasets, in tuples or dictionaries",
                    "end the function with `return x`",
                )
            )
        element = nest.map_structure(lambda leaf: _leaf(leaf, function, transformation), returned)
        spec = structure.spec_of(element)
        body.outputs = [local(body, tensor) for tensor in structure.to_tensors(spec, element)]
    body.control_outputs += function_def.implied_control_outputs(body)
    captured = body_ops.line_up([body])
    if graph is not builder:
        body.free = True
        captured = [graph.outside(tensor) for tensor in captured]
    return Traced(body, captured, spec)


def trace_state(
    function: Callable[..., Any],
    state: Any,
    element: Any,
    transformation: str,
    state_of: Callable[[Any], Any] = lambda returned: returned,
) -> tuple[Traced, Any]:
    """The body of a function of a state and an element, and the structure that the state always has.

    The function is traced anew until the state's static shapes are those of what it returns, too.

    Args:
        function: called with a state and an element.
        state: the structure of the state at the beginning.
        element: the structure of an element.
        transformation: what it is for.
        state_of: the part of the structure of what the function returns that is the next state.
    """
    while True:
        traced = trace_arguments(function, (state, element), transformation)
        wider = structure.common_spec(state, state_of(traced.spec))
        if wider == state:
            return traced, state
        state = wider


def _leaf(value: Any, function: Any, transformation: str) -> Any:
    try:
        if isinstance(value, Operation):
            raise TypeError("an operation")
        return structure.leaf(value)
    except (TypeError, ValueError) as problem:
        raise TypeError(
            f"Unsupported return value from function passed to {transformation}: {value}.\n"
            + errors.message(
                f"{told(function)} that returns {value!r} ({problem})",
                "tensors, sparse tensors or datasets, in tuples or dictionaries",
                "return a tensor",
            )
        ) from problem


def own(op: Any) -> None:
    """Let an op that was built with traced bodies hold them; None is one that has run."""
    if op is not None:
        body_ops.own(op)


def inner_spec(traced: Traced, name: str = "map_func") -> Any:
    """The structure of elements of the dataset that a function returns."""
    if not isinstance(traced.spec, structure.DatasetComponent):
        raise TypeError(
            f"`{name}` must return a `Dataset` object.\n"
            + errors.message(f"{traced.spec!r}", "a dataset", "Dataset.from_tensors(x)")
        )
    return traced.spec.spec
