"""Which operations a step needs, in which order their effects happen, and which version of a variable each sees.

*Order.* Effects run in the lexicographically smallest topological order by creation index.

*Segments.* An op that acts on a channel ends a segment and the next one begins after it. An effect belongs to the
segment of its place in the order; anything else to the earliest segment in which its inputs exist.

*Versions.* The writes of one variable form a chain in effect order. A read, and an op that takes a ref edge where it
wants a value, sees the chain up to the last write that reaches it by data or control edges, hence no write that
merely happens in the same step. An ``Identity`` of a ref without control inputs (``w/read``) is transparent: the
value is read where *its* consumers stand, so an op under ``control_dependencies([assign])`` sees the assigned value
although ``w/read`` is older. A fetched ref is read after all writes of the step.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from anabranch.core import errors
from anabranch.core.graph.body import Body
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import FED, StateKey, ValueKey
from anabranch.rewrite import effects, reach


class OpState(NamedTuple):
    """State that an op touches: per flat input position the version read; and the versions that it makes.

    ``inner`` are the versions that the bodies of the op begin with; those that it writes come first, in the order of
    ``writes``.
    """

    reads: dict[int, StateKey]
    writes: tuple[StateKey, ...]
    inner: tuple[StateKey, ...] = ()

    def seen(self) -> Iterator[StateKey]:
        """All versions that the op reads."""
        yield from self.reads.values()
        yield from (key for key in self.inner if key.segment != FED)


_NO_STATE = OpState({}, ())


class Variables:
    """One op for each variable: the first that was met among those that name it."""

    def __init__(self, resource_of: Callable[[Operation], Any]) -> None:
        self._resource_of = resource_of
        self._first: dict[Any, Operation] = {}

    def of(self, maker: Operation) -> Operation:
        """The op that stands for the variable of ``maker``."""
        return self._first.setdefault(self._resource_of(maker), maker)


class Analysis:
    """The result: ops in effect order with segments and versions."""

    def __init__(self, variables: Variables, fed: frozenset[Tensor]) -> None:
        self.variables = variables
        self.fed = fed
        self.order: list[Operation] = []
        self.position: dict[Operation, int] = {}
        self.segment: dict[Operation, int] = {}
        self.state: dict[Operation, OpState] = {}
        self.kind: dict[Operation, str] = {}
        """Effect of each op, that of its bodies included."""
        self.channels: list[Operation] = []
        """Channel ops in order; channel ``i`` runs between segments ``i`` and ``i + 1``."""
        self.writes: list[dict[Operation, int]] = []
        """Per segment: maker -> number of writes."""
        self.instead: dict[StateKey, Tensor] = {}
        """Variables that bodies read and the step is fed a value for: the feed that stands for each."""
        self.awaited: set[Tensor] = set()
        """Outputs of conditionals and loops that something waits for, because of the effects that they bring."""

    @property
    def segments(self) -> int:
        return len(self.channels) + 1

    def variable(self, tensor: Tensor) -> Operation:
        """The op that stands for the variable behind a handle."""
        return self.variables.of(reach.maker_of(tensor))

    def state_of(self, op: Operation) -> OpState:
        return self.state.get(op, _NO_STATE)

    def sources(self, op: Operation) -> tuple[ValueKey | None, ...]:
        """Where each input of ``op`` comes from; None for a resource whose old value it does not read.

        For an op with bodies the versions that they begin with follow, and handles are None.
        """
        used = self.state_of(op)
        reads = used.reads
        definition = op.definition
        effect = definition.effect
        if effect.kind == "body":
            found: list[ValueKey | None] = [
                None if effects.is_handle(op, i) else reads.get(i, tensor) for i, tensor in enumerate(op._inputs)
            ]
            return (*found, *used.inner)
        owned = definition.resource_positions(op._attrs) if effect.kind in ("read", "write") else ()
        return tuple(None if i in owned and i not in reads else reads.get(i, t) for i, t in enumerate(op._inputs))


def analyse(
    roots: Sequence[Operation], fed: frozenset[Tensor], variables: Variables, awaited: Iterable[Operation] = ()
) -> Analysis:
    """Orders the ops that ``roots`` need and resolves state; one body at a time, those inside count as their owners.

    ``awaited`` are ops that are to run for themselves, whatever of their outputs is used.
    """
    result = Analysis(variables, fed)
    needed = reach.needed_ops(roots, fed)
    result.order = reach.topological_order(needed, fed)
    result.position = {op: i for i, op in enumerate(result.order)}
    result.kind = {op: effects.kind_of(op) for op in result.order}
    waited_for = {*awaited, *(control for op in result.order for control in op._control_inputs)}
    for op in waited_for.intersection(needed):
        result.awaited.update(effects.acting_outputs(op))

    # Segments: effects by their place in the order, everything else as early as its inputs allow.
    passed = 0
    for op in result.order:
        kind = result.kind[op]
        level = 0
        for parent in reach.parents(op, fed, needed):
            before = result.segment[parent]
            level = max(level, before + 1 if result.kind[parent] == "channel" else before)
        if kind == "channel":
            result.segment[op] = passed
            result.channels.append(op)
            passed += 1
        else:
            result.segment[op] = passed if kind in ("write", "random", "io") else level
    result.writes = [{} for _ in range(passed + 1)]

    # Variables that a feed stands for, or for the value that all read.
    instead: dict[Operation, Tensor] = {}
    for tensor in fed:
        read = tensor.op.type == "Identity" and reach.is_transparent_read(tensor.op, frozenset())
        source = tensor.op._inputs[0] if read else tensor
        if source.dtype.is_ref and (not read or source not in fed):
            maker = reach.maker_of(source)
            if maker.definition.makes == "variable":
                instead[variables.of(maker)] = tensor

    # Versions: which writes (as a bit set over the writes so far) reach each op.
    write_ops: list[Operation] = []
    bit: dict[Operation, int] = {}
    reaching: dict[Operation, int] = {}
    chain: dict[Operation, list[tuple[Operation, StateKey]]] = {}
    for op in result.order:
        mask = 0
        for parent in reach.parents(op, fed, needed):
            mask |= reaching[parent] | bit.get(parent, 0)
        reaching[op] = mask
        definition = op.definition
        effect = definition.effect
        segment = result.segment[op]
        owned = (
            definition.resource_positions(op._attrs) if effect.resources and effect.kind in ("read", "write") else ()
        )
        reads: dict[int, StateKey] = {}

        def seen(maker: Operation, mask: int = mask, segment: int = segment) -> StateKey:
            for writer, key in reversed(chain.get(maker, ())):
                if mask & bit[writer]:
                    return key if key.segment == segment else StateKey(maker, segment, 0)
            return StateKey(maker, segment, 0)

        def write(maker: Operation, op: Operation = op, segment: int = segment) -> tuple[StateKey, StateKey]:
            """The version that a write of ``op`` finds and the one that it makes."""
            count = result.writes[segment].get(maker, 0)
            result.writes[segment][maker] = count + 1
            return StateKey(maker, segment, count), StateKey(maker, segment, count + 1)

        for position, tensor in enumerate(op._inputs):
            if tensor in fed or position in owned or (effect.kind == "body" and effects.is_handle(op, position)):
                continue
            source = tensor
            if reach.is_transparent_read(tensor.op, fed):
                source = tensor.op._inputs[0]
            if (
                source.dtype.is_ref
                and (effects.wants_value(op) or effect.kind == "body")
                and reach.maker_of(source).definition.makes == "variable"
            ):
                reads[position] = seen(result.variable(source))
        made: list[StateKey] = []
        inner: list[StateKey] = []
        for position in owned:
            maker = result.variable(op._inputs[position])
            if effect.kind == "read":
                reads[position] = seen(maker)
                continue
            old, new = write(maker)
            if effect.reads:
                reads[position] = old
            made.append(new)
        within = effects.summary(op)
        replaced = _replaced(op, within, instead, variables) if within is not None and instead else {}
        result.instead.update(replaced)
        if within is not None and not within.channel:
            written = dict.fromkeys(variables.of(maker) for maker in within.writes)
            for maker in written:
                old, new = write(maker)
                inner.append(old)
                made.append(new)
            inner += [
                seen(maker)
                for maker in dict.fromkeys(variables.of(maker) for maker in within.reads)
                if maker not in written and StateKey(maker, FED, 0) not in replaced
            ]
            inner += replaced
        if made:
            bit[op] = 1 << len(write_ops)
            write_ops.append(op)
            for key in made:
                chain.setdefault(key.maker, []).append((op, key))
        if reads or made or inner:
            result.state[op] = OpState(reads, tuple(made), tuple(inner))
    return result


def _replaced(
    op: Operation, within: effects.Summary, instead: dict[Operation, Tensor], variables: Variables
) -> dict[StateKey, Tensor]:
    """The feeds that stand for variables which the bodies of ``op`` read."""
    found = {}
    written = {variables.of(maker) for maker in within.writes}
    for maker in dict.fromkeys(variables.of(maker) for maker in (*within.writes, *within.reads)):
        feed = instead.get(maker)
        if feed is None:
            continue
        if maker in written or within.channel:
            raise _refused(op, maker, "only reads, without a queue or the like beside it")
        if not feed.dtype.is_ref and any(_reads_anew(inner, maker, variables) for inner in effects.inner_ops(op)):
            raise _refused(op, maker, "takes as it is, without read_value()")
        found[StateKey(maker, FED, 0)] = feed
    return found


def _reads_anew(op: Operation, maker: Operation, variables: Variables) -> bool:
    """Whether an op of a body takes the value of a variable through a read of its own in the body."""
    return any(
        reach.is_transparent_read(tensor.op, frozenset())
        and variables.of(reach.maker_of(tensor.op._inputs[0])) is maker
        for tensor in op._inputs
    )


def _refused(op: Operation, maker: Operation, how: str) -> errors.UnimplementedError:
    return errors.UnimplementedError(
        None,
        op,
        errors.message(
            f"a value fed for variable {maker.name!r}, which a body of {op.name!r} uses",
            f"a variable that the body {how}, or a step without that feed",
            f"give the variable the value before the step, {maker.name}.load(value, session), "
            "or capture a tensor: v = tf.identity(variable) outside of the body, and feed v",
            at=maker.user_site,
        ),
    )


class BodyView:
    """A nested body as what runs: its ops in order, where their inputs come from, which versions they make.

    Versions count from those that the body begins with: ``StateKey(maker, 0, 0)``.
    """

    def __init__(self, body: Body, variables: Variables, outputs: Sequence[Tensor] | None = None) -> None:
        self.body = body
        self.outputs = tuple(body.outputs if outputs is None else outputs)
        fed = effects.fed_args(body)
        roots = reach.body_roots(self.outputs, body.control_outputs, fed)
        if outputs is not None and self.outputs != tuple(body.outputs):
            roots += effects.needed_anyway(body)
        self.analysis = analyse(roots, fed, variables, body.control_outputs)
        self.ops = tuple(op for op in self.analysis.order if op.definition.makes is None)
        self.sources = {op: self.analysis.sources(op) for op in self.ops}
        self.writes = {op: self.analysis.state_of(op).writes for op in self.ops}
        self.final = {maker: StateKey(maker, 0, count) for maker, count in self.analysis.writes[0].items()}
        """Maker -> the version that the body leaves."""
        self.keys = tuple(self.output_key(i) for i in range(len(self.outputs)))
        entry = {key.maker: key for op in self.ops for key in self.analysis.state_of(op).seen() if key.index == 0}
        entry |= {key.maker: key for key in self.keys if isinstance(key, StateKey) and key.index == 0}
        entry |= {maker: StateKey(maker, 0, 0) for maker in self.final}
        self.entry = tuple(entry.values())
        """Versions that the body begins with."""

    @property
    def used(self) -> frozenset[ValueKey]:
        """Values that its ops or its owner use."""
        found = {key for op in self.ops for key in self.sources[op] if key is not None}
        return frozenset(found.union(self.keys, self.final.values(), self.analysis.awaited))

    def output_key(self, index: int) -> ValueKey:
        """Where output ``index`` comes from: a ref argument that is an output is read when the body ends."""
        tensor = self.outputs[index]
        if tensor.dtype.is_ref and tensor not in self.analysis.fed:
            maker = self.analysis.variable(tensor)
            return self.final.get(maker, StateKey(maker, 0, 0))
        return tensor
