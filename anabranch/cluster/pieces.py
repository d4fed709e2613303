"""Pieces of a step over several tasks, and how they are written as steps that travel.

Policy. A piece is a step of one task: what it takes from the client and from other pieces are placeholders, what it
gives to them are fetches. Constants, handles of variables and plain reads are part of each piece that uses them. Values
have the names that they have in the whole step, so that errors show the program's ops and lines.
"""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

from anabranch.cluster.constraints import Constraints, Edge, Node, ReadHandle, VersionRead
from anabranch.cluster.tasks import handles_taken, variable_type
from anabranch.core import device as device_names
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.protos import graph_pb2
from anabranch.rewrite import reach
from anabranch.runtime import portable_plan


class Feed(NamedTuple):
    """What the client feeds: its place among the step's feeds."""

    place: int


class Value(NamedTuple):
    """What a piece computes: number of the piece, place among its fetches."""

    piece: int
    place: int


@dataclasses.dataclass(eq=False)
class Piece:
    """A step of one task."""

    task: str
    data: bytes
    sources: tuple[Feed | Value, ...]
    """Where each feed comes from."""
    outputs: int
    """How many of its fetches are values that somebody takes."""
    after: frozenset[int]
    """Pieces that must have ended before it begins."""
    may_block: bool
    """Whether it acts on channels."""
    ops: int
    constants: tuple[str, ...] = ()
    """Names of constants that are its own and that it gives."""


class DistributedStep(NamedTuple):
    """A step over several tasks: pieces in an order in which they can run, and where each fetch comes from."""

    pieces: tuple[Piece, ...]
    fetches: tuple[Feed | Value | None, ...]
    gated: frozenset[int] = frozenset()
    """Pieces behind the gate."""
    with_state: frozenset[int] = frozenset()
    """Pieces that look at variables, or write them."""
    updated: frozenset[Operation] = frozenset()
    """The variables that ops write which also read them, by the ops that make them."""


class Draft:
    """A piece while it is put together."""

    def __init__(self, task: str, gated: bool) -> None:
        self.task, self.gated = task, gated
        self.nodes: list[Node] = []
        self.imports: dict[Edge, str] = {}
        self.exports: list[Edge] = []

    def export(self, edge: Edge) -> int:
        """The place of a value among those that it gives."""
        if edge not in self.exports:
            self.exports.append(edge)
        return self.exports.index(edge)


def import_name(edge: Edge, names: set[str]) -> str:
    """The name of the placeholder, or variable, that stands for a value of another piece."""
    if isinstance(edge, ReadHandle):
        return edge.read.maker.name
    if isinstance(edge, Tensor) and edge.value_index == 0:
        return edge.op.name
    if isinstance(edge, VersionRead):
        base = f"{edge.maker.name}/_version_{edge.version}"
    else:
        base = f"{edge.op.name}/_output_{edge.value_index}"
    name, count = base, 0
    while name in names:
        count += 1
        name = f"{base}_{count}"
    return name


class PieceWriter:
    """What writes pieces as steps that travel.

    Args:
        constraints: of the step.
        home: the piece of each node.
    """

    def __init__(self, constraints: Constraints, home: dict[Node, Draft]) -> None:
        self._constraints, self._home = constraints, home
        proto = constraints.graph.as_graph_def(add_shapes=True)
        self._nodes = {node.name: node for node in proto.node}
        self._empty = graph_pb2.GraphDef()
        self._empty.versions.CopyFrom(proto.versions)
        self._library = proto.library
        self._awaited: set[Operation] = set()
        for fetch in constraints.fetches:
            if isinstance(fetch, Operation):
                self._awaited.update(constraints.waits(fetch) if constraints.is_order(fetch) else (fetch,))
        self._waited_for: dict[Operation, list[Operation]] = {}
        for op in constraints.inputs:
            for control in constraints.waits(op):
                self._waited_for.setdefault(control, []).append(op)

    def write(self, draft: Draft) -> bytes:
        """A piece as bytes."""
        constraints = self._constraints
        proto = graph_pb2.GraphDef()
        proto.CopyFrom(self._empty)
        copied: dict[Operation, None] = {}
        for edge, name in draft.imports.items():
            self._placeholder(proto.node.add(), name, edge, draft.task)
        own = [node for node in draft.nodes if isinstance(node, Operation)]
        reads = [node for node in draft.nodes if isinstance(node, VersionRead)]
        for op in own:
            self._copied_for(op, draft, copied)
        for read in reads:
            copied[read.maker] = None
        for edge in draft.imports:
            if isinstance(edge, ReadHandle):  # it is there, with its value
                copied.pop(edge.read.maker, None)
        present = {op.name for op in (*own, *copied)}
        for op in sorted({*own, *copied}, key=lambda op: op._id):
            self._node(proto.node.add(), op, draft, present)
        names: dict[Edge, str] = {}
        for read in reads:
            names[read] = self._read(proto.node.add(), read, draft)
        proto.library.CopyFrom(self._library)
        for function in proto.library.function:
            for node in function.node_def:
                node.device = _within(node.device, draft.task)
        fetches = [edge.name if isinstance(edge, Tensor) else names[edge] for edge in draft.exports]
        fetches += [f"^{op.name}" for op in own if self._is_awaited(op, draft)]
        feeds = [name + ":0" for name in draft.imports.values()]
        return portable_plan.pack_graph_def(proto, fetches, feeds, constraints.graph, [*own, *copied])

    def _is_awaited(self, op: Operation, draft: Draft) -> bool:
        """Whether an op is to run for itself: it is fetched, or an op of another piece waits for it."""
        return op in self._awaited or any(self._home[user] is not draft for user in self._waited_for.get(op, ()))

    def _copied_for(self, op: Operation, draft: Draft, copied: dict[Operation, None]) -> None:
        """Note what must be part of the piece because an op of it uses it: constants, handles, plain reads."""
        constraints = self._constraints
        handles = dict(handles_taken(op, constraints.analysis))
        for position, tensor in enumerate(op._inputs):
            if tensor in draft.imports or constraints.inputs[op].get(position) in draft.imports:
                continue
            if position in handles and self._home.get(tensor.op) is not draft:
                copied[handles[position]] = None
            elif reach.is_transparent_read(tensor.op, constraints.fed) and self._home.get(tensor.op) is not draft:
                copied[tensor.op] = None
                copied[reach.maker_of(tensor.op._inputs[0])] = None
            elif self._home.get(tensor.op) is not draft:
                copied[tensor.op] = None
                if tensor.dtype.is_ref:
                    copied[reach.maker_of(tensor)] = None

    def _node(self, node: Any, op: Operation, draft: Draft, present: set[str]) -> None:
        constraints = self._constraints
        node.CopyFrom(self._nodes[op.name])
        node.device = _within(node.device, draft.task)
        handles = dict(handles_taken(op, constraints.analysis)) if op in constraints.inputs else {}
        inputs = []
        for position, tensor in enumerate(op._inputs):
            edge = constraints.inputs.get(op, {}).get(position, tensor)
            name = draft.imports.get(edge, draft.imports.get(tensor))
            if name is not None:
                inputs.append(name)
            elif position in handles and self._home.get(tensor.op) is not draft:
                inputs.append(handles[position].name)
            elif tensor.dtype.is_ref and tensor.op.name not in present:
                inputs.append(reach.maker_of(tensor).name)
            else:
                inputs.append(_input_name(tensor))
        inputs += sorted(f"^{control.name}" for control in constraints.waits(op) if control.name in present)
        del node.input[:]
        node.input.extend(inputs)
        if "_class" in node.attr:
            groups = [g for g in node.attr["_class"].list.s if g.decode().removeprefix("loc:@") in present]
            del node.attr["_class"].list.s[:]
            if groups:
                node.attr["_class"].list.s.extend(groups)
            else:
                del node.attr["_class"]

    def _read(self, node: Any, read: VersionRead, draft: Draft) -> str:
        """A read of a version that the piece makes, or begins with; its name as a fetch."""
        node.name = import_name(read, set(self._nodes))
        is_ref = read.maker._outputs[0].dtype.is_ref
        node.op = "Identity" if is_ref else "ReadVariableOp"
        node.attr["T" if is_ref else "dtype"].type = variable_type(read.maker)[0].enum
        node.input.append(read.maker.name)
        if read.version:
            writer = self._constraints.writes[read.maker][read.version - 1][1]
            if self._home[writer] is draft:
                node.input.append(f"^{writer.name}")
        return node.name + ":0"

    def _placeholder(self, node: Any, name: str, edge: Edge, task: str) -> None:
        if isinstance(edge, ReadHandle):  # the variable itself, for which a value is fed
            node.CopyFrom(self._nodes[name])
            node.device = _within(node.device, task)
            node.attr.pop("_class", None)
            return
        dtype, shape = (edge.dtype.base, edge._shape) if isinstance(edge, Tensor) else variable_type(edge.maker)
        node.name = name
        node.op = "Placeholder"
        node.attr["dtype"].type = dtype.enum
        if shape is not None:
            for size in shape:
                node.attr["shape"].shape.dim.add(size=-1 if size is None else size)
        else:
            node.attr["shape"].shape.unknown_rank = True


def _input_name(tensor: Tensor) -> str:
    """A tensor as an input of a node."""
    return tensor.op.name if tensor.value_index == 0 else tensor.name


def _within(device: str, task: str) -> str:
    """The device of a task that a name means, whichever task the name says."""
    fields = device_names.parse(device)
    if not device or fields.device_type is None:
        return ""
    index = "*" if fields.device_index is None else fields.device_index
    return device_names.merge_names(task, f"/device:{fields.device_type}:{index}")
