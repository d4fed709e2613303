"""A Python function traced for one signature: its graph, and what a call of it gives.

What the Python function returned is kept as a structure whose leaves are tensors of the graph; a call fills it with
tensors that have values.
"""

from __future__ import annotations

import functools
import inspect
import operator
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.graph import composites
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import GraphTensor, Operation
from anabranch.core.graph.tensor import Tensor
from anabranch.core.values import nest
from anabranch.core.values.tensor_spec import TensorSpec
from anabranch.eager import graph_calls, recording
from anabranch.eager.function_graph import FunctionGraph
from anabranch.eager.graph_function import GraphFunction
from anabranch.eager.mode import EAGER
from anabranch.eager.signature import Signature, kept
from anabranch.eager.tensor import EagerTensor


class ConcreteFunction:
    """A function traced for one signature.

    Args:
        name: what messages call it.
        python_function: what is traced.
        signature: for which arguments.
        specs: for each tensor among these its dtype and shape, which may be less known.
        parameters: those of the Python function, whose names arguments have.
    """

    def __init__(
        self,
        name: str,
        python_function: Callable[..., Any],
        signature: Signature,
        specs: Sequence[tuple[Any, Any]],
        parameters: inspect.Signature | None = None,
    ) -> None:
        self.name = name
        self.graph = graph = FunctionGraph(name)
        self._specs = list(specs)
        self._dtypes = [dtype for dtype, _ in specs]
        self._argument_names = [
            getattr(tensor, "name", None) or name if isinstance(tensor, TensorSpec) else name
            for tensor, name in zip(signature.tensors, signature.names(parameters), strict=True)
        ]
        with graph.as_default(), recording.stopped():
            arguments = [
                graph.placeholder(dtype, shape, name)
                for (dtype, shape), name in zip(specs, self._argument_names, strict=True)
            ]
            for argument, tensor in zip(arguments, signature.tensors, strict=True):
                argument._handle = getattr(tensor, "_handle", None)
            graph.lift = functools.partial(value_in_call, graph, arguments, signature.tensors)
            args, kwargs = signature.rebuild(arguments)
            self.structured_input_signature = nest.map_structure(spec_of, (tuple(args), dict(kwargs)))
            check = kept((tuple(args), dict(kwargs)))
            returned = python_function(*args, **kwargs)
            check()
            self.structured_outputs, flat, self._places = results_of(returned, graph, name)
            graph.lift = None
        self._results = results_in(self.structured_outputs, self._places)
        self._function = GraphFunction.of_graph(graph, arguments, flat)
        graph.inputs, graph.outputs, graph.structured_outputs = self.inputs, self.outputs, self.structured_outputs

    @property
    def inputs(self) -> list[GraphTensor]:
        """The graph's tensors that a call feeds, those that stand for values from outside last."""
        return list(self._function.feeds)

    @property
    def outputs(self) -> list[GraphTensor]:
        """The graph's tensors that a call gives."""
        return list(self._function.results)

    @property
    def captured_inputs(self) -> list[Any]:
        """Values and handles from outside."""
        function = self._function
        return [*[outer for outer, _ in function.captured], *[outer for outer, _ in function.handles]]

    @property
    def variables(self) -> tuple[Any, ...]:
        """The variables that the function uses."""
        found = [getattr(outer, "_variable", lambda: None)() for outer, _ in self._function.handles]
        return tuple([variable for variable in found if variable is not None])

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """Those of them that optimizers change."""
        return tuple([variable for variable in self.variables if variable.trainable])

    @property
    def output_shapes(self) -> Any:
        """Shapes of the results."""
        return nest.map_structure(lambda leaf: getattr(leaf, "shape", None), self.structured_outputs)

    @property
    def output_dtypes(self) -> Any:
        """Dtypes of the results."""
        return nest.map_structure(lambda leaf: getattr(leaf, "dtype", None), self.structured_outputs)

    def pretty_printed_signature(self, verbose: bool = True) -> str:
        """Arguments and results with their dtypes and shapes, a line each below the function's name."""
        arguments = [f"    {tensor.op.name}: {tensor.dtype.name}, shape={tensor.shape}" for tensor in self.inputs]
        if not verbose:
            return f"{self.name}({', '.join(tensor.op.name for tensor in self.inputs)})"
        results = [f"    {tensor.dtype.name}, shape={tensor.shape}" for tensor in self.outputs]
        return "\n".join([self.name, "  Args:", *arguments, "  Returns:", *results])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results for tensors, in the order of the function's arguments or by their names."""
        plain = not kwargs and all([type(arg) is EagerTensor for arg in args])
        if plain and [arg.dtype for arg in args] == self._dtypes and not current_builder().defers:
            return self.call_now(args)
        tensors: list[Any] = []
        for leaf in nest.flatten(args):
            if isinstance(leaf, Tensor | np.ndarray | np.generic):
                tensors.append(leaf)
            elif composites.is_composite(leaf):
                tensors += [part for part in composites.parts(leaf) if part is not None]
        names = self._argument_names
        if kwargs and len(set(names)) == len(names) and not any(nest.is_nested(value) for value in kwargs.values()):
            tensors += self._by_name(names[len(tensors) :], kwargs, names[: len(tensors)])
        else:
            tensors += [leaf for leaf in nest.flatten(kwargs) if isinstance(leaf, Tensor | np.ndarray | np.generic)]
        if len(tensors) != len(self._specs):
            raise self._other_arguments(names[: len(tensors)], names[len(tensors) :], len(tensors))
        given = [convert_to_tensor(tensor, dtype) for tensor, (dtype, _) in zip(tensors, self._specs, strict=True)]
        return self.call(given)

    def _by_name(self, names: Sequence[str], given: dict[str, Any], before: Sequence[str]) -> list[Any]:
        """The arguments that follow those given by their positions."""
        unknown = [name for name in given if name not in names]
        missing = [name for name in names if name not in given]
        if missing or any(isinstance(given[name], Tensor | np.ndarray | np.generic) for name in unknown):
            raise self._other_arguments([*before, *given], missing, len(before) + len(given))
        return [given[name] for name in names]

    def _other_arguments(self, given: Sequence[str], missing: Sequence[str], count: int) -> TypeError:
        return TypeError(
            f"Expected argument names {self._argument_names} but got values for {list(given)}."
            + (f" Missing: {list(missing)}." if missing else "")
            + "\n"
            + errors.message(
                f"{count} tensors for {self.name}",
                f"{len(self._specs)} tensors: {', '.join(self._argument_names)}",
                "pass one for each argument, by position or by name",
            )
        )

    def call(self, tensors: Sequence[Any]) -> Any:
        """The results for these tensors."""
        if current_builder().defers:
            return self._call_in_graph(tensors)
        return self._results(self._function.call(tensors))

    def call_now(self, tensors: Sequence[Any]) -> Any:
        """The same where it is known that ops run at once."""
        return self._results(self._function.call(tensors))

    def _call_in_graph(self, tensors: Sequence[Any]) -> Any:
        scope = re.sub(r"[^A-Za-z0-9_.]", "", self.name).lstrip("_") or "function"
        flat, op = graph_calls.call(self._function, [convert_to_tensor(tensor) for tensor in tensors], scope)
        return in_place(self.structured_outputs, self._places, flat, op)


def value_in_call(
    graph: FunctionGraph, arguments: Sequence[GraphTensor], given: Sequence[Any], tensor: GraphTensor
) -> EagerTensor:
    """The value that a tensor of a trace has in the call that the trace is made for.

    Raises:
        ValueError: it depends on an argument that has no value, or on a branch or loop.
    """
    seen, waiting = {tensor.op}, [tensor.op]
    while waiting:
        op = waiting.pop()
        more = {*[one.op for one in op._inputs], *op._control_inputs} - seen
        seen |= more
        waiting += more
    needed = [(argument, value) for argument, value in zip(arguments, given, strict=True) if argument.op in seen]
    missing = [argument._label for argument, value in needed if not isinstance(value, EagerTensor)]
    if missing or tensor.op.body is not graph.root:
        raise ValueError(
            "Unable to lift tensor out of the function.\n"
            + errors.message(
                f"a variable of {graph.name!r} with the initial value {tensor._label}, which depends on "
                + (f"{missing[0]}, an argument without a value" if missing else "a branch or loop"),
                "an initial value that is known when the variable is made",
                "tf.Variable(lambda: ...), or make the variable before",
            )
        )
    function = GraphFunction(graph, [argument for argument, _ in needed], [tensor], (), graph.captured, graph.handles)
    with EAGER.as_default(), recording.stopped():
        return function.run([value for _, value in needed], ())[0]


def spec_of(leaf: Any) -> Any:
    """The specification of an argument of a trace; other values as they are."""
    return TensorSpec(leaf._shape, leaf.dtype.base, leaf.op.name) if isinstance(leaf, GraphTensor) else leaf


def results_of(returned: Any, graph: Graph, name: str) -> tuple[Any, list[GraphTensor], Any]:
    """What a function returned, with tensors of the graph; these in a row; and where each leaf is among them."""
    flat: list[Any] = []

    def leaf_of(leaf: Any) -> tuple[Any, Any]:
        if leaf is None or isinstance(leaf, Operation):
            return None, None
        if composites.is_composite(leaf):
            parts = composites.parts(leaf)
            first = len(flat)
            flat.extend([convert_to_tensor(part) for part in parts if part is not None])
            return leaf, (first, len(flat) - first)
        try:
            tensor = convert_to_tensor(leaf)
        except (TypeError, ValueError) as problem:
            raise TypeError(
                "To be compatible with tf.contrib.eager.defun, Python functions must return zero or more Tensors; in "
                f"compilation of {name}, found return value of type {type(leaf).__name__}, which is not a Tensor.\n"
                + errors.message(
                    f"{leaf!r} from {name} ({problem})", "tensors, or structures of them", "return a tensor"
                )
            ) from problem
        flat.append(convert_to_tensor(tensor))
        return flat[-1], len(flat) - 1

    if not nest.is_nested(returned):
        leaf, place = leaf_of(returned)
        return leaf, flat, place if not isinstance(place, tuple) else [place]
    pairs = [leaf_of(leaf) for leaf in nest.flatten(returned)]
    structured = nest.pack_sequence_as(returned, [leaf for leaf, _ in pairs])
    return structured, flat, [place for _, place in pairs]


def results_in(structure: Any, places: Any) -> Callable[[Sequence[Any]], Any]:
    """A function from the results of a call, in a row, to the structure that the Python function returned."""
    if type(places) is int:
        return operator.itemgetter(places)
    if places is None:
        return lambda flat: None
    leaves, pack = nest.flatten(structure), nest.packer(structure)
    if all([type(place) is int for place in places]):
        return pack if places == list(range(len(places))) else lambda flat: pack([flat[place] for place in places])
    return lambda flat: pack(_placed(leaves, places, flat))


def _placed(leaves: Sequence[Any], places: Sequence[Any], flat: Sequence[Any]) -> list[Any]:
    """The leaves of a structure, with values in place of the tensors among them."""
    placed: list[Any] = []
    for leaf, place in zip(leaves, places, strict=True):
        if place is None:
            placed.append(None)
        elif isinstance(place, int):
            placed.append(flat[place])
        else:
            placed.append(composites.rebuilt(leaf, flat[place[0] : place[0] + place[1]]))
    return placed


def filled(structure: Any, leaves: Sequence[Any], places: Sequence[Any], flat: Sequence[Any]) -> Any:
    """A structure with values in place of the tensors among its leaves."""
    placed = _placed(leaves, places, flat)
    return nest.pack_sequence_as(structure, placed) if nest.is_nested(structure) else placed[0]


def in_place(structure: Any, places: Any, flat: Sequence[Any], op: Any) -> Any:
    """What a call gives, from tensors in a row: ``op`` if the function returned none."""
    if type(places) is int:
        return flat[places]
    return op if places is None else filled(structure, nest.flatten(structure), places, flat)
