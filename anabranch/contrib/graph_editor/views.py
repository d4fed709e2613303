"""A part of a graph seen as one operation: its operations, and its inputs and outputs in an order of choice."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import anabranch as tf
from anabranch.contrib.graph_editor.elements import make_list_of_op, make_list_of_t
from anabranch.contrib.graph_editor.selection import compute_boundary_ts, get_name_scope_ops, select_ops_and_ts
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Operation, Tensor


@public("contrib.graph_editor.SubGraphView")
class SubGraphView:
    """A part of a graph.

    Args:
        inside_ops: its operations.
        passthrough_ts: tensors that are both inputs and outputs.
    """

    def __init__(self, inside_ops: Any = (), passthrough_ts: Any = ()) -> None:
        self._ops: list[Any] = make_list_of_op(inside_ops)
        self._passthroughs: list[Any] = list(dict.fromkeys(make_list_of_t(passthrough_ts)))
        self._reset()

    def _reset(self) -> None:
        inputs, outputs, inside = compute_boundary_ts(self._ops)
        # What is seen from outside on both sides counts once.
        through = [tensor for tensor in self._passthroughs if tensor not in (*inputs, *outputs, *inside)]
        self._passthroughs = through
        self._inputs, self._outputs = [*inputs, *through], [*outputs, *through]
        self._default_inputs, self._default_outputs = list(self._inputs), list(self._outputs)

    # ---------------------------------------------------------------------------------------------------- what it holds
    @property
    def ops(self) -> list[Any]:
        """The operations."""
        return list(self._ops)

    @property
    def inputs(self) -> list[Any]:
        """Tensors that come in."""
        return list(self._inputs)

    @property
    def outputs(self) -> list[Any]:
        """Tensors that go out."""
        return list(self._outputs)

    @property
    def passthroughs(self) -> list[Any]:
        """Tensors that pass."""
        return list(self._passthroughs)

    @property
    def connected_inputs(self) -> list[Any]:
        """Inputs that the operations use."""
        return [tensor for tensor in self._inputs if tensor not in self._passthroughs]

    @property
    def connected_outputs(self) -> list[Any]:
        """Outputs that the operations make."""
        return [tensor for tensor in self._outputs if tensor not in self._passthroughs]

    @property
    def graph(self) -> Any:
        """The graph; None of an empty view."""
        elements = [*self._ops, *self._passthroughs]
        return elements[0].graph if elements else None

    def op(self, op_id: int) -> Any:
        """An operation by its place."""
        return self._ops[op_id]

    def is_passthrough(self, t: Any) -> bool:
        """Whether a tensor passes."""
        return t in self._passthroughs

    def find_op_by_name(self, op_name: str) -> Any:
        """The operation of a name; AttributeError if there is none."""
        for op in self._ops:
            if op.name == op_name:
                return op
        raise AttributeError(f"{op_name} not found in this SubGraphView.")

    def input_index(self, t: Any) -> int:
        """The place of an input; ValueError if it is none."""
        return self._inputs.index(t)

    def output_index(self, t: Any) -> int:
        """The place of an output; ValueError if it is none."""
        return self._outputs.index(t)

    def consumers(self) -> list[Any]:
        """Operations outside that use an output."""
        members = set(self._ops)
        users = dict.fromkeys(op for tensor in self._outputs for op in tensor.consumers())
        return [op for op in users if op not in members]

    def __bool__(self) -> bool:
        return self.graph is not None

    __nonzero__ = __bool__

    def __enter__(self) -> SubGraphView:
        return self

    def __exit__(self, *problem: object) -> None:
        pass

    def __str__(self) -> str:
        if not self:
            return "SubGraphView: empty"
        lines = [f"SubGraphView (graphid={id(self.graph)}):", f"  ops({len(self._ops)}):"]
        lines += [f"    {op.name}" for op in self._ops]
        for label, tensors in (("inputs", self._inputs), ("outputs", self._outputs)):
            lines += [f"  {label}({len(tensors)}):", *[f"    {tensor.name}" for tensor in tensors]]
        return "\n".join(lines)

    # ------------------------------------------------------------------------------------------------------ other views
    def copy(self) -> SubGraphView:
        """Another view of the same part."""
        other = SubGraphView()
        other._assign_from(self)
        return other

    def _assign_from(self, other: SubGraphView) -> None:
        for name in ("_ops", "_passthroughs", "_inputs", "_outputs", "_default_inputs", "_default_outputs"):
            setattr(self, name, list(getattr(other, name)))

    @staticmethod
    def _mapped(tensors: Sequence[Any], indices: Any, unique: bool, what: str) -> list[Any]:
        places = [tensors.index(item) if isinstance(item, Tensor) else int(item) for item in indices]
        for place in places:
            if not 0 <= place < len(tensors):
                raise ValueError(
                    errors.message(f"place {place} of {len(tensors)} {what}", "a place that is there", what)
                )
        if unique and len(set(places)) != len(places):
            raise ValueError(errors.message(f"places {places}", "each place once", "places without repetition"))
        return [tensors[place] for place in places]

    def remap_inputs(self, new_input_indices: Any) -> SubGraphView:
        """A view whose inputs are those at some places (or some tensors), in that order, each once."""
        other = self.copy()
        other._inputs = self._mapped(self._inputs, new_input_indices, True, "inputs")
        return other

    def remap_outputs(self, new_output_indices: Any) -> SubGraphView:
        """A view whose outputs are those at some places (or some tensors), in that order; they may repeat."""
        other = self.copy()
        other._outputs = self._mapped(self._outputs, new_output_indices, False, "outputs")
        return other

    def remap(self, new_input_indices: Any = None, new_output_indices: Any = None) -> SubGraphView:
        """A view with other inputs and outputs; None leaves them."""
        other = self if new_input_indices is None else self.remap_inputs(new_input_indices)
        return (other if new_output_indices is None else other.remap_outputs(new_output_indices)).copy()

    def remap_default(self, remove_input_map: bool = True, remove_output_map: bool = True) -> SubGraphView:
        """A view with the inputs and outputs that it had at first."""
        other = self.copy()
        if remove_input_map:
            other._inputs = list(self._default_inputs)
        if remove_output_map:
            other._outputs = list(self._default_outputs)
        return other

    def remap_outputs_make_unique(self) -> SubGraphView:
        """A view in which no output repeats."""
        other = self.copy()
        other._outputs = list(dict.fromkeys(self._outputs))
        return other

    def remap_outputs_to_consumers(self) -> SubGraphView:
        """A view with an output for each use outside."""
        members = set(self._ops)
        other = self.copy()
        other._outputs = [t for t in self._outputs for op in t.consumers() if op not in members]
        return other

    def remove_unused_ops(self, control_inputs: bool = True) -> SubGraphView:
        """A view without operations that no output needs."""
        needed: dict[Any, None] = {}
        stack = [tensor.op for tensor in self._outputs]
        members = set(self._ops)
        while stack:
            op = stack.pop()
            if op in members and op not in needed:
                needed[op] = None
                stack += [tensor.op for tensor in op.inputs] + (op.control_inputs if control_inputs else [])
        other = self.copy()
        other._ops = [op for op in self._ops if op in needed]
        return other


@public("contrib.graph_editor.make_view", "contrib.graph_editor.sgv")
def make_view(*args: Any, **kwargs: Any) -> SubGraphView:
    """A view of operations and of tensors that pass.

    Args:
        *args: one view, which is returned as it is; or what ``select_ops_and_ts`` takes.
        **kwargs: ``graph``, where to look for names.
    """
    if len(args) == 1 and isinstance(args[0], SubGraphView):
        return args[0]
    if len(args) == 1 and isinstance(args[0], tf.Graph):
        return SubGraphView(args[0])
    ops, ts = select_ops_and_ts(*args, **kwargs)
    plain = [leaf for arg in args if not isinstance(arg, str) for leaf in _leaves(arg) if isinstance(leaf, Tensor)]
    return SubGraphView(ops, list(dict.fromkeys([*plain, *ts])))


def _leaves(item: Any) -> list[Any]:
    if isinstance(item, (Tensor, Operation)) or not isinstance(item, Iterable):
        return [item]
    return [leaf for part in item for leaf in _leaves(part)]


@public("contrib.graph_editor.make_view_from_scope", "contrib.graph_editor.sgv_scope")
def make_view_from_scope(scope: str, graph: Any) -> SubGraphView:
    """A view of a name scope."""
    return SubGraphView(get_name_scope_ops(graph, scope))
