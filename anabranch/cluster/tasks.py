"""Which task each operation of a step runs on.

What decides, in this order: an op that takes the handle of a variable, queue or other resource runs on the task that
holds it; members of a colocation group are together; an op that names a job or task runs there, and on the first task
that fits where the name leaves a choice; anything else runs on the task that the session's target names. The device
within the task is chosen there (:mod:`anabranch.placement.placer`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from anabranch.core import device as device_names
from anabranch.core import errors
from anabranch.core.graph.operation import Operation
from anabranch.core.graph.state_key import StateKey
from anabranch.placement import placer
from anabranch.rewrite import effects, reach
from anabranch.rewrite.state import Analysis


def task_name(job: str, index: int) -> str:
    """The name of a task: ``/job:worker/replica:0/task:1``."""
    return f"/job:{job}/replica:0/task:{index}"


def handles_taken(op: Operation, analysis: Analysis) -> Iterator[tuple[int, Operation]]:
    """Inputs of an op that are handles it uses, and the op that makes each: not references whose value it takes."""
    definition = op.definition
    kind = definition.effect.kind
    owned = definition.resource_positions(op._attrs) if kind in ("read", "write") else ()
    for position, tensor in enumerate(op._inputs):
        if tensor in analysis.fed:
            continue
        is_resource = tensor.dtype.base.name == "resource"
        if position in owned or is_resource or (kind == "body" and effects.is_handle(op, position)):
            yield position, reach.maker_of(tensor)
        elif tensor.dtype.is_ref:
            maker = reach.maker_of(tensor)
            if maker.definition.makes != "variable":
                yield position, maker


class TaskPlacer:
    """Place the ops of steps on tasks.

    Args:
        tasks: the names of the tasks that the session may use, in order.
        default: the task of the session's target.
    """

    def __init__(self, tasks: Sequence[str], default: str) -> None:
        self.tasks = tuple(tasks)
        self.default = default
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
        if all(part in (None, own) for part, own in zip(wanted, default, strict=True)):
            return self.default
        for task, fields in self._fields.items():
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
        for op in order:
            task = grouped.get(op) or named.get(op) or self.default
            if op.definition.makes is None:
                holders = {}
                for _, maker in handles_taken(op, analysis):
                    holders[placed.get(maker) or self.task_of(maker)] = maker
                for key in analysis.state_of(op).inner if op.definition.effect.kind == "body" else ():
                    if isinstance(key, StateKey):
                        holders[placed.get(key.maker) or self.task_of(key.maker)] = key.maker
                if len(holders) > 1:
                    raise errors.UnimplementedError(None, op, self._two_holders(op, holders))
                task = next(iter(holders), task)
            placed[op] = task
        return placed

    def task_of(self, maker: Operation) -> str:
        """The task of an op that makes a resource."""
        return (self.resolve(maker._device, maker) if maker._device else None) or self.default

    @staticmethod
    def _two_holders(op: Operation, holders: dict[str, Operation]) -> str:
        return errors.message(
            f"op {op.name!r} ({op.type}) with {', '.join(f'{m.name!r} of {t}' for t, m in holders.items())}",
            "an op, conditional or loop whose variables and queues are of one task",
            "read the variables before it (v.read_value()) and pass the values in",
        )
