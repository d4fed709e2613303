"""Which task each operation of a step runs on.

What decides, in this order: an op that takes the handle of a variable, queue or other resource runs on the task that
holds it; members of a colocation group are together; an op that names a job or task runs there, and on the first task
that fits where the name leaves a choice; anything else runs on the task that the session's target names. State that
is shared by name (variables, queues, tables) and whose place a program leaves open is on the task whose name comes
first of all, whatever the target: workers whose sessions have targets of their own see the same, as in TensorFlow. The
device within the task is chosen there (:mod:`anabranch.placement.placer`).

*Conditionals, loops and calls* hold handles that their bodies use. What a body writes, or anything but a variable,
holds them at its task. Variables that bodies only read can also travel, as values that are read before: so a recurrent
network runs at its worker, whichever servers hold its weights. They do where the op names another task, where they are
of several tasks, or where the op takes or gives lists, which do not travel; not if they are larger than `MOST_SENT`, or
if the body may come without a value, as long as the op can go to them instead.

*Lookups.* Rows and slices of a large variable (`LEAST_LOOKED_UP`) are taken where it is, whatever task the op names:
they travel, and not the variable. Ops that others are colocated with stay.

*What does not travel* (variants: lists, datasets; handles that an op finds when it runs, like that of an iterator by
its string) stays on one task, and with it all ops that make or use it.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from anabranch.core import device as device_names
from anabranch.core import errors
from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.state_key import StateKey
from anabranch.placement import placer
from anabranch.rewrite import effects, reach
from anabranch.rewrite.state import Analysis

_SHARED = frozenset(["variable", "queue", "barrier", "accumulator", "table"])
"""What ops make that sessions of all targets share by name."""
_PARTS = frozenset([Role.ROWS, Role.SUBSCRIPT])
"""What ops are that give a part of their first input."""
MOST_SENT = 1 << 24
"""Bytes of variables up to which they are sent to a conditional, loop or call that could go to them as well."""

LEAST_LOOKED_UP = 1 << 20
"""Bytes of a variable from which on ops that take a part of it go to it. Less is sent about as soon as a message."""


def task_name(job: str, index: int) -> str:
    """The name of a task: ``/job:worker/replica:0/task:1``."""
    return f"/job:{job}/replica:0/task:{index}"


def handles_taken(op: Operation, analysis: Analysis) -> Iterator[tuple[int, Operation]]:
    """Inputs of an op that are handles it uses, and the op that makes each: not references whose value it takes, nor
    handles that are found when the step runs.
    """
    definition = op.definition
    kind = definition.effect.kind
    owned = definition.resource_positions(op._attrs) if kind in ("read", "write") else ()
    for position, tensor in enumerate(op._inputs):
        if tensor in analysis.fed:
            continue
        is_resource = tensor.dtype.base.name == "resource"
        if is_resource and is_immobile(tensor):
            continue
        if position in owned or is_resource or (kind == "body" and effects.is_handle(op, position)):
            yield position, reach.maker_of(tensor)
        elif tensor.dtype.is_ref:
            maker = reach.maker_of(tensor)
            if maker.definition.makes != "variable":
                yield position, maker


def variables_read(op: Operation, analysis: Analysis) -> dict[Operation, None]:
    """The variables that the bodies of an op only read, so that it can also be given their values."""
    within = effects.summary(op)
    if within is None or within.channel:
        return {}
    of = analysis.variables.of
    written = {of(maker) for maker in within.writes}
    taken = {of(maker) for _, maker in handles_taken(op, analysis) if maker.definition.makes == "variable"}
    return {of(m): None for m in within.reads if of(m) in taken and of(m) not in written}


def is_immobile(tensor: Tensor) -> bool:
    """Whether a tensor cannot go from task to task."""
    name = tensor.dtype.base.name
    return name == "variant" or (name == "resource" and reach.known_maker_of(tensor) is None)


def _bytes_of(maker: Operation) -> float:
    """Bytes of a variable; infinite if its shape is not known."""
    return _bytes_in(*variable_type(maker))


def _bytes_in(dtype: Any, shape: tuple[int | None, ...] | None) -> float:
    return math.inf if shape is None or None in shape else math.prod(shape) * dtype.size  # type: ignore[arg-type]


def variable_type(maker: Operation) -> tuple[Any, tuple[int | None, ...] | None]:
    """The dtype and the static shape of the variable that an op makes."""
    shape = maker._attrs["shape"]
    return maker._attrs["dtype"], None if shape is None else tuple(shape)


class TaskPlacer:
    """Place the ops of steps on tasks.

    Args:
        tasks: the names of the tasks that the session may use, in order.
        default: the task of the session's target.
    """

    def __init__(self, tasks: Sequence[str], default: str) -> None:
        self.tasks = tuple(tasks)
        self.default = default
        self._first = min(tasks)
        self._fields = {name: device_names.parse(name) for name in tasks}

    def resolve(self, name: str, op: Operation) -> str | None:
        """The first task that a device name fits; None if it leaves the task open.

        Raises:
            InvalidArgumentError: it fits none.
        """
        wanted = device_names.parse(name)[:3]
        if wanted == (None, None, None):
            return None
        default = self._fields[self.default][:3]
        is_shared = op.definition.makes in _SHARED
        if not is_shared and all(part in (None, own) for part, own in zip(wanted, default, strict=True)):
            return self.default
        for task, fields in sorted(self._fields.items()) if is_shared else self._fields.items():
            if all(part in (None, own) for part, own in zip(wanted, fields[:3], strict=True)):
                return task
        raise errors.InvalidArgumentError(
            None,
            op,
            f"Cannot assign a device for operation {op.name}: Operation was explicitly assigned to {name} but the "
            f"session's tasks are [ {', '.join(self.tasks)} ]. Make sure the device specification refers to a valid "
            "device.\n"
            + errors.message(
                f"op {op.name!r} on {name!r}",
                f"a device of {', '.join(self.tasks)}",
                "a job and task of the ClusterSpec, and device_filters of the session that let it through",
            ),
        )

    def place(self, analysis: Analysis) -> dict[Operation, str]:
        """The task of each op of a step.

        Raises:
            InvalidArgumentError: an op names a task that is not there. UnimplementedError: it takes handles of two.
        """
        order = analysis.order
        named = {op: task for op in order if op._device and (task := self.resolve(op._device, op)) is not None}
        grouped = placer.groups(order, named, soft=True)
        placed: dict[Operation, str] = {}
        holding: dict[Operation, str] = {}
        for op in order:
            task = grouped.get(op) or named.get(op) or self._unnamed(op)
            if op.definition.makes is None:
                holders = {placed.get(m) or self.task_of(m): m for m in self._held_by(op, analysis)}
                if len(holders) > 1:
                    raise errors.UnimplementedError(None, op, self._two_holders(op, holders))
                if holders:
                    holding[op] = task = next(iter(holders))
                else:
                    task = self._beside_variables(op, analysis, op in named, task)
                    if op.role in _PARTS and op not in grouped:
                        task = self._beside_table(op, analysis, task)
            placed[op] = task
        self._join_immobile(order, analysis.fed, placed, holding, named)
        return placed

    def _held_by(self, op: Operation, analysis: Analysis) -> Iterator[Operation]:
        """The makers of resources whose task is that of an op."""
        sent = variables_read(op, analysis)
        of = analysis.variables.of
        within = effects.summary(op)
        touched = None if within is None else {of(maker) for maker in (*within.reads, *within.writes)}
        for _, maker in handles_taken(op, analysis):
            is_variable = maker.definition.makes == "variable"
            if is_variable and (of(maker) in sent or (touched is not None and of(maker) not in touched)):
                continue  # (what bodies only hand on holds nothing)
            yield maker
        for key in analysis.state_of(op).inner if op.definition.effect.kind == "body" else ():
            if isinstance(key, StateKey) and key.maker not in sent:
                yield key.maker

    def _beside_variables(self, op: Operation, analysis: Analysis, is_named: bool, task: str) -> str:
        """The task of an op with bodies that only read variables: theirs, or its own, to which they are sent."""
        makers = variables_read(op, analysis)
        if not makers:
            return task
        holders = {self.task_of(maker) for maker in makers}
        if len(holders) > 1 or any(map(is_immobile, (*op._inputs, *op._outputs))):
            return task
        sizes = [_bytes_of(maker) for maker in makers]
        within = effects.summary(op)
        may_send = sum(sizes) <= MOST_SENT and within is not None and within.needs.issuperset(within.reads)
        return task if is_named and may_send else next(iter(holders))

    def _beside_table(self, op: Operation, analysis: Analysis, task: str) -> str:
        """The task of an op that takes a part of a variable: the variable's, if that is large and the part smaller."""
        source = analysis.sources(op)[0]
        if not isinstance(source, StateKey) or op._inputs[0] in analysis.fed:
            return task
        whole = _bytes_of(source.maker)
        part = _bytes_in(op._outputs[0].dtype, op._outputs[0]._shape)
        is_smaller = part == math.inf or part < whole  # the number of rows is known in the step only
        return self.task_of(source.maker) if LEAST_LOOKED_UP <= whole < math.inf and is_smaller else task

    @staticmethod
    def _join_immobile(
        order: Sequence[Operation],
        fed: frozenset[Tensor],
        placed: dict[Operation, str],
        holding: dict[Operation, str],
        named: dict[Operation, str],
    ) -> None:
        """Put ops that are joined by values which do not travel on one task: what they hold, else what one names."""
        group: dict[Operation, list[Operation]] = {}
        for op in order:
            for tensor in op._inputs:
                if not is_immobile(tensor) or tensor in fed or tensor.op not in placed:
                    continue
                one, other = (group.setdefault(member, [member]) for member in (tensor.op, op))
                if one is not other:
                    one += other
                    group.update(dict.fromkeys(other, one))
        for members in {id(members): members for members in group.values()}.values():
            held = [holding[op] for op in members if op in holding]
            if not held or len(set(held)) == 1:
                task = next(iter(held), None) or placed[next((op for op in members if op in named), members[0])]
                placed.update(dict.fromkeys(members, task))

    def task_of(self, maker: Operation) -> str:
        """The task of an op that makes a resource."""
        return (self.resolve(maker._device, maker) if maker._device else None) or self._unnamed(maker)

    def _unnamed(self, op: Operation) -> str:
        return self._first if op.definition.makes in _SHARED else self.default

    @staticmethod
    def _two_holders(op: Operation, holders: dict[str, Operation]) -> str:
        return errors.message(
            f"op {op.name!r} ({op.type}) with {', '.join(f'{m.name!r} of {t}' for t, m in holders.items())}",
            "an op, conditional or loop whose variables and queues are of one task",
            "read the variables before it (v.read_value()) and pass the values in",
        )
