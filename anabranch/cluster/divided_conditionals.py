"""Conditionals whose branches act on several tasks, divided into one conditional per task.

Policy. A conditional is an op of one task. One that updates variables, or acts on queues, of two (a step that applies
accumulated gradients every tenth time, or meets other workers then; an update that is left out when a gradient is not
finite) is replaced, in a copy of the
step's graph, by several on the same predicate: each holds what a branch does on one task between two exchanges with
others, as a piece of a step does. What such a part computes for others is an output; where the branch is not taken it
gives zeros, which nobody looks at. At the end a conditional chooses the outputs of the branch that was taken.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

from anabranch.cluster.tasks import TaskPlacer
from anabranch.core.contract.roles import Role
from anabranch.core.graph import passing
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_ops import bodies_of, copy_op, outer_of
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.ops.array.public_shapes import zeros
from anabranch.ops.array.sources import identity
from anabranch.ops.control.public_cond import cond
from anabranch.ops.control.public_dependencies import group
from anabranch.rewrite import effects, reach
from anabranch.runtime import portable_plan
from anabranch.runtime.registered_step import LocalStep

Part = tuple[int, str]
"""What a branch does on a task: how many exchanges it comes behind, and the task."""


def divided(step: LocalStep, conditional: Operation, placer: TaskPlacer) -> LocalStep | None:
    """The step with a conditional divided; None if it needs no such thing, or that is not possible."""
    if conditional.role is not Role.CONDITIONAL or len(bodies_of(conditional)) != 2:
        return None
    if len({placer.task_of(maker) for maker in _acted_on(conditional)}) < 2:
        return None
    plan = portable_plan.unpack(portable_plan.pack([*step.fetches, conditional], step.feeds))
    copy = plan.fetches[-1]
    assert isinstance(copy, Operation)
    division = _Division(plan.graph, copy, placer)
    if not division.is_possible(copy):
        return None
    results, done = division.build()
    new: list[Tensor | Operation] = [
        results.get(fetch, fetch) if isinstance(fetch, Tensor) else done if fetch is copy else fetch
        for fetch in plan.fetches[:-1]
    ]
    return LocalStep(plan.graph, tuple(new), plan.feeds)


class _Branch:
    """A branch, and the parts that it falls into."""

    def __init__(self, body: Body, division: _Division) -> None:
        self.body = body
        fed = effects.fed_args(body)
        needed = effects.needed_inside(body)
        order = reach.topological_order(needed, fed)
        self.ops = [op for op in order if op.role is not Role.ARGUMENT and not is_constant(op) and not _makes(op)]
        self.part: dict[Operation, Part] = {}
        self.effect_before: dict[Operation, Operation] = {}
        """The op with effects before each such op on its task: they keep their order."""
        last: dict[str, Operation] = {}
        for op in self.ops:
            task = op.name if division.is_divided(op) else division.task_of(op)
            if effects.kind_of(op) not in ("pure", "read"):
                if task in last:
                    self.effect_before[op] = last[task]
                last[task] = op
            before = [self.part[other] for other in self.before(op)]
            self.part[op] = max((level + (other != task) for level, other in before), default=0), task
        self.parts: dict[Part, list[Operation]] = {}
        for op in self.ops:
            self.parts.setdefault(self.part[op], []).append(op)

    def before(self, op: Operation) -> list[Operation]:
        """The ops of the branch that come before an op."""
        after = [self.effect_before[op]] if op in self.effect_before else []
        return [*self._needs(op), *after]

    def _needs(self, op: Operation) -> list[Operation]:
        inputs = [tensor.op for tensor in op._inputs]
        return [other for other in dict.fromkeys([*inputs, *reach.controls_of(op)]) if other in self.part]

    def keeps_reads(self) -> bool:
        """Whether no read of a variable that comes before a write would come behind it, as its part has other ops."""
        needed: dict[Operation, set[Operation]] = {}
        parts: dict[Part, set[Part]] = {part: {part} for part in self.parts}
        for op in self.ops:
            needed[op] = {op}.union(*(needed[other] for other in self._needs(op)))
        for part in sorted(self.parts):
            parts[part].update(*(parts[other] for other in self.waits(part)))
        writers = [(op, maker) for op in self.ops for maker in _touched(op).writes]
        for op in self.ops:
            read = _touched(op).reads
            for writer, maker in writers:
                is_elsewhere = maker in read and writer not in needed[op] and self.part[writer] != self.part[op]
                if is_elsewhere and self.part[writer] in parts[self.part[op]]:
                    return False
        return True

    def exports(self, part: Part) -> list[Tensor]:
        """What other parts, or the conditional, take of a part."""
        taken = [tensor for op in self.ops if self.part[op] != part for tensor in op._inputs]
        return [t for t in dict.fromkeys([*taken, *self.body.outputs]) if self.part.get(t.op) == part]

    def waits(self, part: Part) -> list[Part]:
        """The parts that a part comes behind."""
        return [p for p in dict.fromkeys(self.part[b] for op in self.parts[part] for b in self.before(op)) if p != part]


class _Division:
    def __init__(self, graph: Graph, conditional: Operation, placer: TaskPlacer) -> None:
        self.graph, self.conditional, self.placer = graph, conditional, placer
        self.default = placer.task_of(conditional)
        self.made: list[Operation] = []
        """The conditionals that the one has become."""
        self.env: dict[Tensor, Tensor] = {}
        """By tensor of a branch the tensor that has its value outside."""

    def is_divided(self, op: Operation) -> bool:
        """Whether an op of a branch is a conditional that must be divided itself."""
        return op.role is Role.CONDITIONAL and len({self.placer.task_of(maker) for maker in _acted_on(op)}) > 1

    def _read_at_home(self, body: Body) -> None:
        """Have variables of other tasks, which an op takes by reference, read on their tasks, where the op stands."""
        for op in effects.needed_inside(body):
            if not effects.wants_value(op):
                continue
            definition = op.definition
            kind = definition.effect.kind
            owned = definition.resource_positions(op._attrs) if kind in ("read", "write") else ()
            for position, tensor in enumerate(op._inputs):
                if reach.is_transparent_read(tensor.op, frozenset()):
                    tensor = tensor.op._inputs[0]
                if position in owned or not tensor.dtype.is_ref or passing.is_transparent_read(op):
                    continue
                maker = reach.maker_of(tensor)
                task = self.placer.task_of(maker)
                if maker.definition.makes != "variable" or task == self.task_of(op):
                    continue
                with self.graph.as_default(), self.graph.building(body), self.graph.device(task):
                    waits = reach.controls_of(op) or [build("NoOp")]  # what waits has a place of its own
                    value = build("Identity", tensor)
                self.graph._add_control_inputs(value.op, waits)
                self.graph._update_input(op, position, value)

    def is_possible(self, conditional: Operation) -> bool:
        """Whether what goes from part to part can travel, and each op of the branches is of one task."""
        for use in bodies_of(conditional):
            self._read_at_home(use.body)
            if not _Branch(use.body, self).keeps_reads():
                return False
            for op in effects.needed_inside(use.body):
                if op.role is Role.ARGUMENT:
                    continue
                if _makes(op):
                    if op._inputs:
                        return False
                    continue
                if any(tensor.dtype.base.name in ("variant", "resource") for tensor in op._outputs):
                    return False
                if self.is_divided(op):
                    if len(bodies_of(op)) != 2 or not self.is_possible(op):
                        return False
                elif len({self.placer.task_of(maker) for maker in _acted_on(op)}) > 1:
                    return False
        return True

    def task_of(self, op: Operation) -> str:
        """The task of an op of a branch."""
        for maker in _acted_on(op) or _held(op):
            return self.placer.task_of(maker)
        named = self.placer.resolve(op._device, op) if op._device else None
        return named or self.default

    def build(self) -> tuple[dict[Tensor, Tensor], Operation]:
        """Build the conditionals in place of the one; what stands for its outputs, and for itself."""
        graph, old = self.graph, self.conditional
        consumers = [(user, output) for output in old._outputs for user in output.consumers()]
        users = [(user, i) for user, output in consumers for i, tensor in enumerate(user._inputs) if tensor is output]
        followers = list(old._control_outputs)
        with graph.as_default(), graph.shared_site(), graph.device(None), graph.name_scope(f"{old.name}_by_task/"):
            values = self._conditional(old, None, [])
            done = group(*self.made, name="done")
        results = dict(zip(old._outputs, values, strict=True))
        for user, position in users:
            graph._update_input(user, position, results[user._inputs[position]])
        for user in followers:
            controls = [done if control is old else control for control in user._control_inputs]
            graph._remove_all_control_inputs(user)
            graph._add_control_inputs(user, controls)
        return results, done

    def _conditional(self, old: Operation, around: Tensor | None, waits: Sequence[Operation]) -> list[Tensor]:
        """Build the parts of a conditional, which only runs where ``around`` holds; its outputs."""
        controls = [*waits, *(old._control_inputs if around is None else ())]
        with self.graph.control_dependencies(controls):
            pred = self._value(old._inputs[0])
            truths = [pred, build("LogicalNot", pred)]
            if around is not None:
                truths = [build("LogicalAnd", around, truth) for truth in truths]
            first = len(self.made)
            branches = [self._branch(use.body, truths[use.attr != "then_branch"], controls) for use in bodies_of(old)]
            values = {use.attr: given for use, given in zip(bodies_of(old), branches, strict=True)}
            results = []
            with self.graph.device(old._device), self.graph.control_dependencies(self.made[first:]):
                for taken, other in zip(values["then_branch"], values["else_branch"], strict=True):
                    result = cond(pred, functools.partial(identity, taken), functools.partial(identity, other))
                    self.made.append(_made_for(old, result))
                    results.append(result)
        return results

    def _branch(self, body: Body, holds: Tensor, controls: Sequence[Operation]) -> list[Tensor]:
        """Build the parts of a branch, which run where ``holds``; the values that it gives."""
        branch = _Branch(body, self)
        ops: dict[Part, list[Operation]] = {}
        for part in sorted(branch.parts):
            waits = [*controls, *(op for other in branch.waits(part) for op in ops[other])]
            members = branch.parts[part]
            if self.is_divided(members[0]):
                first = len(self.made)
                self.env.update(zip(members[0]._outputs, self._conditional(members[0], holds, waits), strict=True))
                ops[part] = self.made[first:]
                continue
            exports = branch.exports(part)
            with self.graph.device(part[1]), self.graph.control_dependencies(waits):
                outputs = cond(holds, self._taken(members, exports), _left_out(exports), strict=True, name="part")
            made = _made_for(self.conditional, outputs[0])
            ops[part] = [made]
            self.made.append(made)
            self.env.update(zip(exports, outputs, strict=False))
        return [self._value(output) for output in body.outputs]

    def _value(self, tensor: Tensor) -> Tensor:
        """The tensor outside all branches that has the value of one inside."""
        if tensor in self.env or tensor.op.body.is_root:
            return self.env.get(tensor, tensor)
        outer = outer_of(tensor)
        if outer is not None:
            return self._value(outer)
        if _makes(tensor.op):  # a queue of the branch's own: one for all its parts
            copy = copy_op(tensor.op, [], self.graph.root)
            self.env.update(zip(tensor.op._outputs, copy._outputs, strict=True))
            return self.env[tensor]
        inputs = [self._value(other) for other in tensor.op._inputs]  # of a constant, or a plain read of a variable
        return copy_op(tensor.op, inputs, self.graph.current_body)._outputs[tensor.value_index]

    def _taken(self, members: Sequence[Operation], exports: Sequence[Tensor]) -> Callable[[], list[Tensor]]:
        def taken() -> list[Tensor]:
            body = self.graph.current_body
            copies: dict[Operation, Operation] = {}

            def inside(tensor: Tensor) -> Tensor:
                op = tensor.op
                is_outside = op.body.is_root or op.role is Role.ARGUMENT or tensor in self.env or _makes(op)
                if op not in copies and is_outside:
                    return body.capture(self._value(tensor))
                if op not in copies:  # a constant, or a plain read of a variable
                    copies[op] = copy_op(op, [inside(other) for other in op._inputs], body)
                return copies[op]._outputs[tensor.value_index]

            for op in members:
                copies[op] = copy = copy_op(op, [inside(tensor) for tensor in op._inputs], body)
                copy.user_site, copy.original = op.user_site, op.original
                self.graph._add_control_inputs(copy, [copies[c] for c in reach.controls_of(op) if c in copies])
            acting = [copies[op] for op in members if effects.kind_of(op) not in ("pure", "read")]
            with self.graph.control_dependencies(acting):
                return [identity(inside(tensor)) for tensor in exports] or [identity(constant(True))]

        return taken


def _made_for(old: Operation, result: Tensor) -> Operation:
    """The conditional behind a result, which stands at the line that made the old one."""
    made = result.op if bodies_of(result.op) else result.op._inputs[0].op
    made.user_site = old.user_site
    return made


def _left_out(exports: Sequence[Tensor]) -> Callable[[], list[Tensor]]:
    """What gives values for what a part has not computed."""
    shapes = [[size or 0 for size in tensor._shape or ()] for tensor in exports]
    return lambda: [zeros(s, t.dtype.base) for s, t in zip(shapes, exports, strict=True)] or [constant(True)]


def is_constant(op: Operation) -> bool:
    """Whether an op of a branch is part of each part that uses it."""
    return op.role is Role.CONSTANT and not op._inputs and not op._control_inputs


def _makes(op: Operation) -> bool:
    return op.definition.makes is not None


def _touched(op: Operation) -> effects.Summary:
    """What an op, or its bodies, read and write."""
    within = effects.Summary()
    effects.include(within, op)
    return within


def _acted_on(op: Operation) -> list[Operation]:
    """The makers of the variables that an op, or its bodies, write, and of the queues that it acts on."""
    channels = [
        maker
        for inner in (op, *effects.inner_ops(op))
        if inner.definition.effect.kind == "channel"
        for tensor in inner._inputs
        if tensor.dtype.is_ref or tensor.dtype.base.name == "resource"
        if (maker := reach.maker_of(tensor)).definition.makes != "variable"
    ]
    return list(dict.fromkeys([*_touched(op).writes, *channels]))


def _held(op: Operation) -> list[Operation]:
    """The makers of what an op reads by its handle."""
    definition = op.definition
    if definition.makes is not None or definition.effect.kind not in ("read", "write"):
        return []
    return [reach.owned_by(op, position) for position in definition.resource_positions(op._attrs)]


__all__ = ["divided"]
