"""Programs as graphs of objects: what a checkpoint by object holds, and under which keys.

An object has named children: the attributes of a `tf.train.Checkpoint`, the items of lists and dicts, what an optimizer
keeps. A variable or table has a value. Its key is the shortest path of names that leads to it
(``layer/kernel/.ATTRIBUTES/VARIABLE_VALUE``); a slot of an optimizer stands under the variable that it belongs to.
An object of another class takes part if it has a method ``_trackable_children()`` that returns a dict of its children.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from anabranch.core import errors
from anabranch.core.protos import object_graph_pb2
from anabranch.ops.lookup.public_tables import TableSaveable, _MutableTable
from anabranch.train.optimizer import Optimizer
from anabranch.train.saving import saveable
from anabranch.variables.variable import Variable

_ATTRIBUTES = ".ATTRIBUTES"
_SLOT = ".OPTIMIZER_SLOT"


def escaped(name: str) -> str:
    """A name as part of a key."""
    return name.replace(".", "..").replace("/", ".S")


def is_trackable(item: Any) -> bool:
    """Whether an object has a value or children that a checkpoint can hold."""
    return isinstance(item, (Variable, Optimizer, _MutableTable, list, tuple, dict)) or (
        hasattr(item, "_trackable_children") and not isinstance(item, type)
    )


def children(item: Any) -> dict[str, Any]:
    """The named children of an object."""
    if isinstance(item, (Variable, _MutableTable)):
        return {}
    if isinstance(item, Optimizer):
        return {name: variable for (name, _), variable in sorted(item._non_slots.items(), key=lambda pair: pair[0][0])}
    if isinstance(item, (list, tuple)):
        return {str(i): part for i, part in enumerate(item) if is_trackable(part)}
    if isinstance(item, dict):
        return {str(name): part for name, part in item.items() if is_trackable(part)}
    return dict(item._trackable_children())


def has_value(item: Any) -> bool:
    """Whether a checkpoint holds a value of the object itself."""
    return isinstance(item, (Variable, _MutableTable))


class ObjectGraph:
    """The objects that a root leads to, breadth first."""

    def __init__(self, root: Any) -> None:
        self.objects: list[Any] = [root]
        self.paths: list[str] = [""]
        self.references: list[dict[str, int]] = []
        self.slots: dict[int, list[tuple[int, str, int]]] = {}
        """Of an optimizer: (variable, name of the slot, slot)."""
        self._position = {id(root): 0}
        at = 0
        while at < len(self.objects):
            child_numbers = {}
            for name, child in children(self.objects[at]).items():
                prefix = f"{self.paths[at]}/" if self.paths[at] else ""
                child_numbers[name] = self._add(child, prefix + escaped(name))
            self.references.append(child_numbers)
            at += 1
        self._add_slots()

    def _add(self, item: Any, path: str) -> int:
        position = self._position.get(id(item))
        if position is None:
            position = self._position[id(item)] = len(self.objects)
            self.objects.append(item)
            self.paths.append(path)
        return position

    def _add_slots(self) -> None:
        variables = [(i, item) for i, item in enumerate(self.objects) if isinstance(item, Variable)]
        for number, optimizer in list(enumerate(self.objects)):
            if not isinstance(optimizer, Optimizer):
                continue
            for name in optimizer.get_slot_names():
                for position, variable in variables:
                    slot = optimizer.get_slot(variable, name)
                    if slot is not None:
                        path = f"{self.paths[position]}/{_SLOT}/{self.paths[number]}/{escaped(name)}"
                        slot_number = self._add(slot, path)
                        self.slots.setdefault(number, []).append((position, name, slot_number))
        self.references += [{} for _ in range(len(self.objects) - len(self.references))]

    def values(self) -> Iterator[tuple[int, Any]]:
        """The objects that have values, with their numbers."""
        return ((i, item) for i, item in enumerate(self.objects) if has_value(item))

    def attribute(self, number: int) -> tuple[str, str, str]:
        """Name, full name and key of the value of an object."""
        item = self.objects[number]
        name = "VARIABLE_VALUE" if isinstance(item, Variable) else "table"
        full_name = item._shared_name if isinstance(item, Variable) else ""
        return name, full_name, f"{self.paths[number]}/{_ATTRIBUTES}/{name}"

    def to_proto(self) -> Any:
        """The ``TrackableObjectGraph``."""
        proto = object_graph_pb2.TrackableObjectGraph()
        for number, item in enumerate(self.objects):
            node = proto.nodes.add()
            for name, child in self.references[number].items():
                node.children.add(node_id=child, local_name=name)
            if has_value(item):
                label, full_name, key = self.attribute(number)
                node.attributes.add(name=label, full_name=full_name, checkpoint_key=key)
            for variable, name, slot in self.slots.get(number, ()):
                node.slot_variables.add(original_variable_node_id=variable, slot_name=name, slot_variable_node_id=slot)
            node.has_checkpoint_values.value = True
        return proto

    def saveables(self) -> list[Any]:
        """What is to be saved, under its keys."""
        return [item for number, value in self.values() for item in saveables_of(value, self.attribute(number)[2])]


def saveables_of(item: Any, key: str) -> list[Any]:
    """The saveable objects of a value under a key."""
    return [TableSaveable(item, key)] if isinstance(item, _MutableTable) else saveable.saveables_for(item, key)


def matched(root: Any, proto: Any) -> dict[int, Any]:
    """Which object each node of a saved object graph stands for: followed by name from the root.

    Raises:
        DataLossError: the object graph names nodes that it does not have.
    """
    count = len(proto.nodes)

    def checked(number: int) -> int:
        if not 0 <= number < count:
            raise errors.DataLossError(None, None, f"an object graph of {count} nodes names node {number}")
        return number

    matches: dict[int, Any] = {0: root} if count else {}
    waiting = list(matches)
    while waiting:
        number = waiting.pop(0)
        own = children(matches[number])
        for reference in proto.nodes[number].children:
            child = checked(reference.node_id)
            if child not in matches and reference.local_name in own:
                matches[child] = own[reference.local_name]
                waiting.append(child)
    for number, item in list(matches.items()):
        if not isinstance(item, Optimizer):
            continue
        for slot in proto.nodes[number].slot_variables:
            variable = matches.get(checked(slot.original_variable_node_id))
            slot_variable = item.get_slot(variable, slot.slot_name) if isinstance(variable, Variable) else None
            if slot_variable is not None:
                matches[checked(slot.slot_variable_node_id)] = slot_variable
    return matches


def check_trackable(name: str, item: Any) -> None:
    """ValueError unless an object can be part of a checkpoint."""
    if not is_trackable(item):
        raise ValueError(
            f"`Checkpoint` was expecting {name} to be a trackable object (an object derived from `Trackable`), got "
            f"{item!r}\n"
            + errors.message(
                f"{name}={item!r}",
                "a variable, optimizer, mutable table, Checkpoint, or a list or dict of such",
                "a class with a method _trackable_children that returns a dict of those",
            )
        )


__all__ = ["ObjectGraph", "check_trackable", "children", "has_value", "is_trackable", "matched", "saveables_of"]
