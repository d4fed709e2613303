"""What running an op does, with everything that happens in the bodies it holds.

A call, a conditional or a loop is one element of the order of effects. It reads and writes the variables that any of
its bodies touches, advances the random streams in them, calls Python if any of them does, and is a channel op if any
of them acts on a channel.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

from anabranch.core.contract.roles import Role
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_ops import bodies_of
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.passing import is_read
from anabranch.core.graphdef.function_def import acts
from anabranch.rewrite import reach


@dataclasses.dataclass
class Summary:
    """Effects of the bodies of one op: makers of variables touched, and which inner ops do more than compute."""

    reads: dict[Operation, Operation] = dataclasses.field(default_factory=dict)
    """Maker -> the first inner op that reads it."""
    writes: dict[Operation, Operation] = dataclasses.field(default_factory=dict)
    """Maker -> the first inner op that writes it."""
    needs: set[Operation] = dataclasses.field(default_factory=set)
    """Makers of variables that must have a value: what only asks, or assigns, does without."""
    random_ops: list[Operation] = dataclasses.field(default_factory=list)
    channel: bool = False
    io: bool = False
    may_block: bool = False
    makers: list[Operation] = dataclasses.field(default_factory=list)
    """Ops inside that make resources."""

    def include(self, other: Summary) -> None:
        """Add the effects of an inner op."""
        for maker, op in other.reads.items():
            self.reads.setdefault(maker, op)
        for maker, op in other.writes.items():
            self.writes.setdefault(maker, op)
        self.needs |= other.needs
        self.random_ops += [op for op in other.random_ops if op not in self.random_ops]
        self.channel |= other.channel
        self.io |= other.io
        self.may_block |= other.may_block
        self.makers += other.makers

    @property
    def kind(self) -> str:
        """The kind of effect that the op has at its own place."""
        if self.channel:
            return "channel"
        if self.writes:
            return "write"
        if self.io:
            return "io"
        if self.random_ops:
            return "random"
        return "read" if self.reads else "pure"


def fed_args(body: Body) -> frozenset[Tensor]:
    """Arguments that arrive as values; the others stand for a ref variable."""
    return frozenset(arg for arg in body.args if not arg.dtype.is_ref)


def needed_inside(body: Body) -> set[Operation]:
    """The ops of a body that its outputs and control outputs need."""
    fed = fed_args(body)
    return reach.needed_ops(reach.body_roots(body.outputs, body.control_outputs, fed), fed)


def needed_anyway(body: Body) -> list[Operation]:
    """What happens in a body whichever of its outputs are used: the effects of functions, but not of branches, and
    where a function is traced the assertions of all bodies.
    """
    owner = body.owner
    is_called = owner is not None and owner.role is Role.CALL
    if not is_called and not body.runs_effects:
        return []
    return [
        op
        for op in needed_inside(body)
        if (is_called and kind_of(op) not in ("pure", "read"))
        or (body.runs_effects and not op.definition.is_stateful and acts(op))
    ]


def inner_ops(op: Operation, shared: set[Body] | None = None) -> Iterator[Operation]:
    """All needed ops in the bodies of ``op``, at any depth; those of a body that several calls hold come once."""
    shared = set() if shared is None else shared
    for use in bodies_of(op):
        if use.body in shared:
            continue
        if use.body.shared:
            shared.add(use.body)
        for inner in sorted(needed_inside(use.body), key=lambda item: item._id):
            yield inner
            yield from inner_ops(inner, shared)


def acting_outputs(op: Operation) -> list[Tensor]:
    """The outputs of a conditional or loop that an effect leads to: computing one makes its effects happen."""
    acting: dict[int, None] = {}
    for use in bodies_of(op) if op.role is not Role.CALL else ():
        fed = fed_args(use.body)
        for i, output in enumerate(use.body.outputs if use.attr != "cond" else ()):
            inside = reach.needed_ops(reach.body_roots([output], (), fed), fed)
            if i not in acting and any(kind_of(inner) not in ("pure", "read") for inner in inside):
                acting[i] = None
    return [op._outputs[i] for i in acting]


def wants_value(op: Operation) -> bool:
    """Whether ref edges into ``op`` that its effect does not name are read as values."""
    return op.definition.makes is None and op.definition.effect.kind != "body"


def summary(op: Operation) -> Summary | None:
    """Effects of the bodies that ``op`` holds; None if it holds none. Kept while no op changes."""
    if op.definition.effect.kind != "body":
        return None
    kept = op._effects
    if kept is not None and kept[0] == op.graph._changes:
        merged: Summary = kept[1]
        return merged
    stamp = op.graph._stamp()
    merged = Summary()
    needs: list[set[Operation]] = []
    for use in bodies_of(op):
        part = Summary()
        for inner in sorted(needed_inside(use.body), key=lambda item: item._id):
            include(part, inner)
        merged.include(part)
        needs.append(part.needs)
    if needs and op.role is Role.CONDITIONAL:
        merged.needs = set.intersection(*needs)  # a branch that is not taken needs nothing
    elif needs and op.role is Role.LOOP:
        merged.needs = needs[0]  # nor does a body that is never run
    op._effects = (stamp, merged)
    return merged


def values_taken(op: Operation) -> list[Operation]:
    """Makers of variables whose values the bodies of ``op`` take from outside and never read for themselves."""
    taken: dict[Operation, None] = {}
    read: set[Operation] = set()
    for inner in inner_ops(op):
        definition = inner.definition
        if definition.makes is not None or definition.effect.kind == "body":
            continue
        owned = definition.resource_positions(inner._attrs) if definition.effect.kind in ("read", "write") else ()
        for position, tensor in enumerate(inner._inputs):
            if position in owned or is_read(inner):
                read.add(reach.maker_of(tensor))
            elif reach.is_transparent_read(tensor.op, frozenset()):
                read.add(reach.maker_of(tensor.op._inputs[0]))
            elif tensor.dtype.is_ref and wants_value(inner):
                maker = reach.maker_of(tensor)
                if maker.definition.makes == "variable":
                    taken[maker] = None
    return [maker for maker in taken if maker not in read]


def include(into: Summary, op: Operation) -> None:
    """Add the effects of an op, and of its bodies."""
    definition = op.definition
    effect = definition.effect
    nested = summary(op)
    if nested is not None:
        into.include(nested)
        return
    if definition.makes is not None:
        into.makers.append(op)
        return
    into.may_block |= definition.may_block
    if effect.kind == "channel":
        into.channel = True
    elif effect.kind == "io":
        into.io = True
    elif effect.kind == "random":
        into.random_ops.append(op)
    owned = definition.resource_positions(op._attrs) if effect.kind in ("read", "write") else ()
    for position, tensor in enumerate(op._inputs):
        if position in owned:
            maker = reach.owned_by(op, position)
            if effect.reads and not effect.presence and not definition.allows_uninitialized:
                into.needs.add(maker)
            if effect.kind == "write":
                into.writes.setdefault(maker, op)
            else:
                into.reads.setdefault(maker, op)
        elif wants_value(op):
            source = tensor.op._inputs[0] if reach.is_transparent_read(tensor.op, frozenset()) else tensor
            if source.dtype.is_ref:
                maker = reach.maker_of(source)
                if maker.definition.makes == "variable":
                    into.reads.setdefault(maker, op)
                    into.needs.add(maker)


def kind_of(op: Operation) -> str:
    """The kind of effect of an op, that of its bodies included."""
    summary_of_bodies = summary(op)
    return op.definition.effect.kind if summary_of_bodies is None else summary_of_bodies.kind


def random_ops_of(op: Operation) -> list[Operation]:
    """The ops that draw random numbers when ``op`` runs: itself, or those in its bodies."""
    summary_of_bodies = summary(op)
    if summary_of_bodies is None:
        return [op] if op.definition.effect.kind == "random" else []
    return summary_of_bodies.random_ops


def is_handle(op: Operation, position: int) -> bool:
    """Whether an input of an op with bodies is a handle that its bodies use, not a value."""
    tensor = op._inputs[position]
    if tensor.dtype.base.name == "resource":
        return True
    if not tensor.dtype.is_ref:
        return False
    return any(
        0 <= position - use.first < len(use.body.args) and use.body.args[position - use.first].dtype.is_ref
        for use in bodies_of(op)
    )
