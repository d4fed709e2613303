"""Graphs of functions: what a Python function adds while it is traced, and how it takes values from outside.

A :class:`FunctionGraph` is a graph that takes tensors which have values. Such a tensor becomes an argument that is fed
at each call, but for handles: what named the resource names it in the graph, too, so that a step finds the same
resource in the process's state, and integers of few elements, which become constants, since they are shapes and sizes.

What is made in an ``init_scope`` is made where ops run at once: variables, which outlive the trace.

Effects follow the order in which the function makes them: what takes a handle waits for the op that last wrote to its
resource.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from anabranch.core.contract.opdef import OpDefinition, lookup
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import GraphTensor, Operation
from anabranch.core.graph.tensor import Tensor
from anabranch.core.values import dtypes
from anabranch.eager import recording
from anabranch.eager.mode import EAGER
from anabranch.eager.tensor import EagerTensor

MOST_CONSTANT = 128
"""Elements of an integer tensor from outside, up to which it becomes a constant."""
_numbers = itertools.count(1)


class FunctionGraph(Graph):
    """The graph of a function that is traced; see the module's docstring."""

    traces = True
    keeps_variables = False
    only_handles = True
    orders_effects = True
    """Whether what takes a handle waits for the op that last wrote to its resource."""
    is_symbolic = False
    """Whether ops on its tensors join it where ops run at once, too: a model is made of them."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.root.runs_effects = True
        self.name = name
        self.inputs: list[GraphTensor] = []
        self.outputs: list[GraphTensor] = []
        self.structured_outputs: Any = None
        self.captured: list[tuple[EagerTensor, GraphTensor]] = []
        """Values from outside, with the arguments that stand for them."""
        self.handles: list[tuple[EagerTensor, GraphTensor]] = []
        """Handles from outside, with the ops that name the same resources."""
        self._adopted: dict[int, GraphTensor] = {}
        self._written: dict[Tensor, Operation] = {}
        """The last op that writes to the resource of a handle, which later ones follow."""
        self.seed = EAGER.seed
        self.lift: Callable[[GraphTensor], EagerTensor] | None = None
        """While a function is traced for a call, what computes the value that a tensor has in it."""

    @property
    def variables(self) -> tuple[Any, ...]:
        """The variables behind the handles that the graph uses."""
        found = [getattr(outer, "_variable", lambda: None)() for outer, _ in self.handles]
        return tuple([variable for variable in found if variable is not None])

    @property
    def home(self) -> Any:
        return EAGER

    @property
    def building_function(self) -> bool:
        return True

    @property
    def outer_graph(self) -> Any:
        """The graph that the function is made in: None, where ops run at once."""
        return None

    def adopt(self, tensor: Tensor) -> Any:
        """A tensor from outside as one of the graph.

        Raises:
            ValueError: it is of another graph.
        """
        if not isinstance(tensor, EagerTensor):
            return super().adopt(tensor)
        known = self._adopted.get(id(tensor))
        if known is None:
            with self.as_default(), Graph.init_scope(self), self.bare_scopes(), self.name_scope(None):
                known = self._adopted[id(tensor)] = self._taken(tensor)
        return known

    def outside(self, tensor: GraphTensor) -> EagerTensor:
        """The value from outside that a tensor of the graph stands for."""
        for outer, inner in (*self.captured, *self.handles):
            if inner is tensor:
                return outer
        return EagerTensor(tensor.op._attrs["value"], tensor.dtype)

    def _operation_of(self, item: Any) -> Operation:
        write = None if isinstance(item, Tensor | Operation) else getattr(item, "op", None)
        if isinstance(write, Operation):  # a variable as it is after that
            return super()._operation_of(write)
        tensor = item if isinstance(item, Tensor) else getattr(item, "handle", None)
        if isinstance(tensor, EagerTensor):
            inner: GraphTensor = self.adopt(tensor)
            return inner.op
        return super()._operation_of(item)

    def _taken(self, tensor: EagerTensor) -> GraphTensor:
        maker = tensor._made_by
        if maker is not None and maker.definition.makes is not None:
            inputs = [self.adopt(one) for one in maker._inputs]
            op = self._create(maker.definition, inputs, dict(maker._attrs), maker.definition.type_name)
            inner: GraphTensor = op._outputs[0]  # type: ignore[assignment]
            inner._variable = getattr(tensor, "_variable", None)  # type: ignore[attr-defined]
            self.handles.append((tensor, inner))
            return inner
        if tensor.dtype.is_integer and tensor._num_elements() <= MOST_CONSTANT:
            constant: GraphTensor = self.constant(tensor._array(), tensor.dtype, "captured")
            self._adopted_constants.append(tensor)
            return constant
        inner = self.placeholder(tensor.dtype, tensor._shape, "captured")
        inner._handle = tensor._handle
        self.captured.append((tensor, inner))
        return inner

    @property
    def _adopted_constants(self) -> list[EagerTensor]:
        """Values that became constants, which must live as long as their identities are known here."""
        return self.library_state("adopted_constants", list)

    def lifted(self, value: Any) -> Any:
        """The value that a tensor of the trace has in the call that it is made for, which a variable begins with."""
        is_own = isinstance(value, GraphTensor) and value.op.graph is self
        return self.lift(value) if is_own and self.lift is not None else value

    def placeholder(self, dtype: Any, shape: Any, name: str) -> GraphTensor:
        """An argument of the function."""
        op = self._create(lookup("Placeholder"), [], {"dtype": dtype, "shape": shape}, name)
        return op._outputs[0]  # type: ignore[return-value]

    def _create(
        self, definition: OpDefinition, inputs: Sequence[Tensor], attrs: dict[str, Any], name: Any = None, **rest: Any
    ) -> Operation:
        own = definition.makes is not None and not attrs.get("shared_name")
        if own or definition.effect.kind == "random":  # named in the process, not in the graph
            given = name or definition.type_name
            other = f"{given.rstrip('/')}_f{next(_numbers)}"
            if own and "shared_name" in attrs:
                attrs = {**attrs, "shared_name": other}
            else:
                name = f"{other}/" if given.endswith("/") else other
        resources = [tensor for tensor in inputs if tensor.dtype is dtypes.resource]
        if not resources:
            return super()._create(definition, inputs, attrs, name, **rest)
        for tape in recording.active():
            tape.wants(resources)
        body = self.current_body
        if any(tensor.op.body is not body for tensor in resources):
            inputs = [body.capture(tensor) for tensor in inputs]
            resources = [tensor for tensor in inputs if tensor.dtype is dtypes.resource]
        before = [self._written[tensor] for tensor in resources if tensor in self._written]
        controls = [*rest.pop("control_inputs", ()), *[op for op in dict.fromkeys(before) if op.body is body]]
        op = super()._create(definition, inputs, attrs, name, control_inputs=controls, **rest)
        if not self.orders_effects:
            return op
        if definition.effect.kind == "write" or (definition.effect.kind == "body" and definition.is_stateful):
            self._written.update(dict.fromkeys(resources, op))
        return op

    @contextlib.contextmanager
    def init_scope(self) -> Iterator[None]:
        """Leave the trace: what is made inside runs at once."""
        scope = self.scope_in_function()
        with EAGER.as_default(), recording.stopped(), EAGER.name_scope(f"{scope}/" if scope else None):
            yield

    def __repr__(self) -> str:
        return f"<graph of function {self.name!r}>"
