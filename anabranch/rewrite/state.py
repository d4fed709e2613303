"""Which operations a step needs, in which order their effects happen, and which version of a variable each sees.

*Order.* Effects run in the lexicographically smallest topological order by creation index.

*Segments.* An op that acts on a channel ends a segment and the next one begins after it. An effect belongs to the
segment of its place in the order; anything else, reads too, to the latest segment that its consumers allow. So what
follows a dequeue is one program, whatever of it could have been computed before. A read never moves behind a write of
this step that it must not see.

*Versions.* The writes of one variable form a chain in effect order. A read, and an op that takes a ref edge where it
wants a value, sees the chain up to the last write that reaches it by data or control edges, hence no write that
merely happens in the same step. An ``Identity`` of a ref without control inputs (``w/read``) is transparent: the
value is read where *its* consumers stand, so an op under ``control_dependencies([assign])`` sees the assigned value
although ``w/read`` is older. A fetched ref is read after all writes of the step.

*One value.* Who takes a variable's value through a transparent read (*floating* reads) sees what the first of them saw,
in whichever segment it stands, wherever the step itself does not write the variable in between: the value is *carried*
from segment to segment, like the output of an op. So do bodies that take the value from outside, those of ops on
channels too. A read with a place of its own (``read_value`` under control dependencies, ``ReadVariableOp``, a read
inside a body, a fetched ref) sees what is committed when the step gets there.
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
        self.carried: dict[StateKey, int] = {}
        """Committed versions that a later segment, or the channel op behind their own, reads: the last such segment."""
        self._read_in: dict[Operation, list[int]] = {}
        """Maker -> the segments of its floating reads that need a value, in no order."""
        self._written_in: dict[Operation, set[int]] = {}

    @property
    def segments(self) -> int:
        return len(self.channels) + 1

    def variable(self, tensor: Tensor) -> Operation:
        """The op that stands for the variable behind a handle."""
        return self.variables.of(reach.maker_of(tensor))

    def state_of(self, op: Operation) -> OpState:
        return self.state.get(op, _NO_STATE)

    def committed(self, maker: Operation, segment: int) -> StateKey:
        """The version that a floating read in ``segment`` sees if no write of that segment has reached it."""
        first = segment
        for earlier in self._read_in.get(maker, ()):
            if earlier < first and not self._written_in.get(maker, set()).intersection(range(earlier, segment)):
                first = earlier
        return StateKey(maker, first, 0)

    def _note(self, touch: _Touch, segment: int) -> None:
        """Notes in which segments variables are read, through floating reads, and written."""
        if touch.certain:
            for maker in touch.floating.intersection(touch.read):
                self._read_in.setdefault(maker, []).append(segment)
        for maker in touch.written:
            self._written_in.setdefault(maker, set()).add(segment)

    def carry(self, key: StateKey, segment: int) -> None:
        """Keep a committed version beyond the segment that it belongs to."""
        self.carried[key] = max(segment, self.carried.get(key, segment))

    def sources(self, op: Operation) -> tuple[ValueKey | None, ...]:
        """Where each input of ``op`` comes from; None for a resource whose old value it does not read.

        For an op with bodies the versions that they begin with follow, and handles are None.
        """
        used = self.state_of(op)
        reads = used.reads
        definition = op.definition
        effect = definition.effect
        if effect.kind == "body":
            keys: list[ValueKey | None] = [
                None if effects.is_handle(op, i) else reads.get(i, tensor) for i, tensor in enumerate(op._inputs)
            ]
            return (*keys, *used.inner)
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

    parents = {op: reach.parents(op, fed, needed) for op in result.order}
    passed = _place_effects(result, parents)
    result.writes = [{} for _ in range(passed + 1)]

    # Variables that a feed stands for, or for the value that all read.
    instead: dict[Operation, Tensor] = {}
    for tensor in fed:
        read = reach.is_transparent_read(tensor.op, frozenset())
        source = tensor.op._inputs[0] if read else tensor
        if source.dtype.is_ref and (not read or source not in fed):
            maker = reach.maker_of(source)
            if maker.definition.makes == "variable":
                instead[variables.of(maker)] = tensor
        elif tensor.op.definition.makes == "variable":  # a handle, in a piece of a step over several tasks
            instead[variables.of(tensor.op)] = tensor

    touched = {op: _touched(op, result, instead) for op in result.order}
    reaching, bit = _reaching_writes(result, touched, parents)
    _place_late(result, touched, parents, reaching, bit)
    for op, touch in touched.items():
        result._note(touch, result.segment[op])
    _number_versions(result, touched, reaching, bit)
    return result


class _Touch(NamedTuple):
    """The variables that an op touches, as yet without versions."""

    owned: dict[int, Operation]
    """Per position of a resource that the op's effect names, the variable."""
    values: dict[int, Operation]
    """Per position where the op takes a reference and wants its value, the variable."""
    floating: frozenset[Operation]
    """The variables among them whose value is taken through a read without a place of its own."""
    inner_writes: tuple[Operation, ...]
    inner_reads: tuple[Operation, ...]
    """What its bodies read, but for what they also write, and what the step's feeds stand for."""
    replaced: dict[StateKey, Tensor]
    commits: tuple[Operation, ...]
    """What the bodies of an op on a channel write: they commit it themselves."""
    writes: bool
    certain: bool
    """Whether the op needs all values that it reads."""

    @property
    def read(self) -> list[Operation]:
        """All variables that the op reads without writing them."""
        return [*([] if self.writes else self.owned.values()), *self.values.values(), *self.inner_reads]

    @property
    def written(self) -> list[Operation]:
        """All variables that the op writes."""
        return [*(self.owned.values() if self.writes else ()), *self.inner_writes, *self.commits]


_UNTOUCHED = _Touch({}, {}, frozenset(), (), (), {}, (), False, True)


def _touched(op: Operation, result: Analysis, instead: dict[Operation, Tensor]) -> _Touch:
    """Which variables ``op`` touches; ``instead`` are those that a feed stands for."""
    definition = op.definition
    if definition.makes is not None:
        return _UNTOUCHED
    effect = definition.effect
    within = effects.summary(op)
    positions = (
        definition.resource_positions(op._attrs) if effect.resources and effect.kind in ("read", "write") else ()
    )
    owned = {position: result.variables.of(reach.owned_by(op, position)) for position in positions}
    values = {}
    floating: set[Operation] = set()
    for position, tensor in enumerate(op._inputs):
        if tensor in result.fed or position in owned or (within is not None and effects.is_handle(op, position)):
            continue
        through = reach.is_transparent_read(tensor.op, result.fed)
        source = tensor.op._inputs[0] if through else tensor
        if (
            source.dtype.is_ref
            and (effects.wants_value(op) or within is not None)
            and reach.maker_of(source).definition.makes == "variable"
        ):
            values[position] = result.variable(source)
            if through or reach.is_transparent_read(op, result.fed):
                floating.add(values[position])
    if within is None:
        if not owned and not values:
            return _UNTOUCHED
        certain = not effect.presence and not definition.allows_uninitialized
        return _Touch(owned, values, frozenset(floating), (), (), {}, (), effect.kind == "write", certain)
    variables = result.variables
    replaced = _replaced(op, within, instead, variables) if instead else {}
    written = tuple(dict.fromkeys(variables.of(maker) for maker in within.writes))
    taken = dict.fromkeys(variables.of(maker) for maker in effects.values_taken(op))
    floating.update(taken)
    if within.channel:
        reads = tuple(maker for maker in taken if maker not in written)
        return _Touch({}, values, frozenset(floating), (), reads, {}, written, False, True)
    reads = tuple(
        maker
        for maker in dict.fromkeys(variables.of(maker) for maker in within.reads)
        if maker not in written and StateKey(maker, FED, 0) not in replaced
    )
    needs = {variables.of(maker) for maker in within.needs}
    return _Touch({}, values, frozenset(floating), written, reads, replaced, (), False, needs.issuperset(reads))


def _place_effects(result: Analysis, parents: dict[Operation, list[Operation]]) -> int:
    """Put effects into the segments of their places in the order, and anything else as early as its inputs allow.

    Returns how many ops act on channels.
    """
    passed = 0
    for op in result.order:
        kind = result.kind[op]
        level = 0
        for parent in parents[op]:
            before = result.segment[parent]
            level = max(level, before + 1 if result.kind[parent] == "channel" else before)
        if kind == "channel":
            result.segment[op] = passed
            result.channels.append(op)
            passed += 1
        else:
            result.segment[op] = passed if kind in _PLACED else level
    return passed


_PLACED = ("write", "random", "io")
"""Kinds of effects that belong to the segment of their place in the order."""


def _reaching_writes(
    result: Analysis, touched: dict[Operation, _Touch], parents: dict[Operation, list[Operation]]
) -> tuple[dict[Operation, int], dict[Operation, int]]:
    """Which writes reach each op by data or control edges, as a set of bits; and the bit of each op that writes."""
    reaching: dict[Operation, int] = {}
    bit: dict[Operation, int] = {}
    for op in result.order:
        mask = 0
        for parent in parents[op]:
            mask |= reaching[parent] | bit.get(parent, 0)
        reaching[op] = mask
        if touched[op].written:
            bit[op] = 1 << len(bit)
    return reaching, bit


def _place_late(
    result: Analysis,
    touched: dict[Operation, _Touch],
    parents: dict[Operation, list[Operation]],
    reaching: dict[Operation, int],
    bit: dict[Operation, int],
) -> None:
    """Move what has no place of its own in the order to the latest segment that its consumers, and writes, allow."""
    last = len(result.channels)
    if not last:
        return
    writers: dict[Operation, list[Operation]] = {}
    for op in bit:
        for maker in touched[op].written:
            writers.setdefault(maker, []).append(op)
    latest: dict[Operation, int] = {}
    for op in reversed(result.order):
        segment = result.segment[op]
        if result.kind[op] != "channel" and result.kind[op] not in _PLACED:
            limit = latest.get(op, last)
            for maker in touched[op].read:
                for writer in writers.get(maker, ()):
                    at = result.segment[writer]
                    if at >= segment and not reaching[op] & bit[writer]:
                        limit = min(limit, at)
            result.segment[op] = segment = limit
        for parent in parents[op]:
            latest[parent] = min(segment, latest.get(parent, last))


def _number_versions(
    result: Analysis, touched: dict[Operation, _Touch], reaching: dict[Operation, int], bit: dict[Operation, int]
) -> None:
    """Find the versions that each op reads, those of the last writes that reach it, and those that it makes."""
    chain: dict[Operation, list[tuple[Operation, StateKey]]] = {}
    for op in result.order:
        touch = touched[op]
        if touch is _UNTOUCHED:
            continue
        segment = result.segment[op]
        on_channel = result.kind[op] == "channel"
        written: list[StateKey] = []

        def seen(
            maker: Operation,
            op: Operation = op,
            segment: int = segment,
            on_channel: bool = on_channel,
            certain: bool = touch.certain,
            floats: frozenset[Operation] = touch.floating,
        ) -> StateKey:
            for writer, key in reversed(chain.get(maker, ())):
                if reaching[op] & bit[writer]:
                    if key.segment == segment:
                        return key
                    break
            if not certain:
                return StateKey(maker, segment, 0)
            key = result.committed(maker, segment) if maker in floats else StateKey(maker, segment, 0)
            if key.segment < segment or (on_channel and maker not in result.writes[segment]):
                result.carry(key, segment)
            return key

        def write(maker: Operation, segment: int = segment, written: list[StateKey] = written) -> StateKey:
            """Add the version that a write makes; returns the one that it finds."""
            count = result.writes[segment].get(maker, 0)
            result.writes[segment][maker] = count + 1
            written.append(StateKey(maker, segment, count + 1))
            return StateKey(maker, segment, count)

        reads = {position: seen(maker) for position, maker in touch.values.items()}
        for position, maker in touch.owned.items():
            if not touch.writes:
                reads[position] = seen(maker)
            else:
                old = write(maker)
                if op.definition.effect.reads:
                    reads[position] = old
        inner = [write(maker) for maker in touch.inner_writes]
        inner += [seen(maker) for maker in touch.inner_reads]
        inner += touch.replaced
        result.instead.update(touch.replaced)
        for key in written:
            chain.setdefault(key.maker, []).append((op, key))
        if reads or written or inner:
            result.state[op] = OpState(reads, tuple(written), tuple(inner))


def _replaced(
    op: Operation, within: effects.Summary, instead: dict[Operation, Tensor], variables: Variables
) -> dict[StateKey, Tensor]:
    """The feeds that stand for variables which the bodies of ``op`` read."""
    replaced = {}
    written = {variables.of(maker) for maker in within.writes}
    for maker in dict.fromkeys(variables.of(maker) for maker in (*within.writes, *within.reads)):
        feed = instead.get(maker)
        if feed is None:
            continue
        if maker in written or within.channel:
            raise _refused(op, maker, "only reads, without a queue or the like beside it")
        is_variable = feed.op.definition.makes == "variable"
        if not is_variable and any(_reads_anew(inner, maker, variables) for inner in effects.inner_ops(op)):
            raise _refused(op, maker, "takes as it is, without read_value()")
        replaced[StateKey(maker, FED, 0)] = feed
    return replaced


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
        keys = {key for op in self.ops for key in self.sources[op] if key is not None}
        return frozenset(keys.union(self.keys, self.final.values(), self.analysis.awaited))

    def output_key(self, index: int) -> ValueKey:
        """Where output ``index`` comes from: a ref argument that is an output is read when the body ends."""
        tensor = self.outputs[index]
        if tensor.dtype.is_ref and tensor not in self.analysis.fed:
            maker = self.analysis.variable(tensor)
            return self.final.get(maker, StateKey(maker, 0, 0))
        return tensor
