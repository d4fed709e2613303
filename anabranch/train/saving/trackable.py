"""Programs as graphs of objects: what a checkpoint by object holds, and under which keys.

An object has named children: the attributes of a `tf.train.Checkpoint`, the items of lists and dicts, what an optimizer
keeps (see :mod:`anabranch.variables.tracking`). A variable has a value, and so has what defines
``_gather_saveables_for_checkpoint()``: tables, iterators, objects of a program. The key of a value is the shortest path
of names that leads to it (``layer/kernel/.ATTRIBUTES/VARIABLE_VALUE``); a slot of an optimizer stands under the
variable that it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from anabranch.core import errors
from anabranch.core.graph.tensor import TensorLike
from anabranch.core.protos import object_graph_pb2
from anabranch.train.saving import saveable
from anabranch.variables.tracking import Trackable, children, is_trackable
from anabranch.variables.variable import Variable

_ATTRIBUTES = ".ATTRIBUTES"
_SLOT = ".OPTIMIZER_SLOT"
VALUE = "VARIABLE_VALUE"
"""Name of the value of a variable."""


def escaped(name: str) -> str:
    """A name as part of a key."""
    return name.replace(".", "..").replace("/", ".S")


def values_of(item: Any) -> dict[str, Any]:
    """The values of an object itself, by name: a variable, a saveable object, or what makes one of a key."""
    if isinstance(item, Variable):
        return {VALUE: item}
    if isinstance(item, TensorLike) and isinstance(value := getattr(item, "value", None), Variable):
        return {VALUE: value}  # a library's own class for variables
    gather: Callable[[], dict[str, Any]] | None = getattr(item, "_gather_saveables_for_checkpoint", None)
    return {} if gather is None or isinstance(item, type) else gather()


def has_value(item: Any) -> bool:
    """Whether a checkpoint holds a value of the object itself."""
    return bool(values_of(item))


def keeps_slots(item: Any) -> bool:
    """Whether an object is an optimizer that keeps variables of its own for those it trains."""
    return not isinstance(item, type) and hasattr(type(item), "_existing_slot")


def holds_objects(item: Any) -> bool:
    """Whether a list or dict has something in it, at any depth, that a checkpoint can hold."""
    return any(not isinstance(part, (list, tuple, dict)) or holds_objects(part) for part in children(item).values())


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
                if isinstance(child, (list, tuple, dict)) and not holds_objects(child):
                    continue
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
            if not keeps_slots(optimizer):
                continue
            for name in optimizer.get_slot_names():
                for position, variable in variables:
                    slot = optimizer._existing_slot(variable, name)
                    if slot is not None:
                        path = f"{self.paths[position]}/{_SLOT}/{self.paths[number]}/{escaped(name)}"
                        slot_number = self._add(slot, path)
                        self.slots.setdefault(number, []).append((position, name, slot_number))
        self.references += [{} for _ in range(len(self.objects) - len(self.references))]

    def values(self) -> Iterator[tuple[int, Any]]:
        """The objects that have values, with their numbers."""
        return ((i, item) for i, item in enumerate(self.objects) if has_value(item))

    def key(self, number: int, name: str) -> str:
        """The key of a value of an object."""
        return f"{self.paths[number]}/{_ATTRIBUTES}/{name}"

    def to_proto(self) -> Any:
        """The ``TrackableObjectGraph``."""
        proto = object_graph_pb2.TrackableObjectGraph()
        for number, item in enumerate(self.objects):
            node = proto.nodes.add()
            for name, child in self.references[number].items():
                node.children.add(node_id=child, local_name=name)
            for name in values_of(item):
                full_name = item._shared_name if isinstance(item, Variable) else ""
                node.attributes.add(name=name, full_name=full_name, checkpoint_key=self.key(number, name))
            for variable, name, slot in self.slots.get(number, ()):
                node.slot_variables.add(original_variable_node_id=variable, slot_name=name, slot_variable_node_id=slot)
            node.has_checkpoint_values.value = True
        return proto

    def saveables(self) -> list[Any]:
        """What is to be saved, under its keys."""
        return [
            one
            for number, item in self.values()
            for name, value in values_of(item).items()
            for one in saveables_of(value, self.key(number, name))
        ]


def saveables_of(value: Any, key: str) -> list[Any]:
    """The saveable objects of a value under a key."""
    if callable(value) and not isinstance(value, Variable) and not saveable.is_saveable(value):
        value = value(key) if not _takes_name(value) else value(name=key)
    return saveable.saveables_for(value, key)


def _takes_name(function: Any) -> bool:
    """Whether a factory is called by keyword, as TensorFlow's own are: ``functools.partial(Saveable, table=t)``."""
    return bool(getattr(function, "keywords", None))


class Matches:
    """Which object each node of a saved object graph stands for: followed by name from the root.

    Attributes:
        objects: objects by number of node.
        slots: slots that are not there yet: (optimizer, variable, name of the slot, number of its node).

    Raises:
        DataLossError: the object graph names nodes that it does not have.
    """

    def __init__(self, root: Any, proto: Any) -> None:
        self._count = count = len(proto.nodes)
        self.objects: dict[int, Any] = {0: root} if count else {}
        self.slots: list[tuple[Any, Any, str, int]] = []
        queue = list(self.objects)
        for number in queue:
            own = children(self.objects[number])
            for reference in proto.nodes[number].children:
                child = self._checked(reference.node_id)
                if child in self.objects:
                    continue
                item = own.get(reference.local_name)
                if item is None and isinstance(self.objects[number], Trackable):  # some make their children when asked
                    item = self.objects[number]._lookup_dependency(reference.local_name)
                if item is not None:
                    self.objects[child] = item
                    queue.append(child)
        for number, item in list(self.objects.items()):
            if not keeps_slots(item):
                continue
            for slot in proto.nodes[number].slot_variables:
                variable = self.objects.get(self._checked(slot.original_variable_node_id))
                if not isinstance(variable, Variable):
                    continue
                place = self._checked(slot.slot_variable_node_id)
                slot_variable = item._existing_slot(variable, slot.slot_name)
                if slot_variable is not None:
                    self.objects[place] = slot_variable
                else:
                    self.slots.append((item, variable, slot.slot_name, place))

    def _checked(self, number: int) -> int:
        if not 0 <= number < self._count:
            raise errors.DataLossError(None, None, f"an object graph of {self._count} nodes names node {number}")
        return number


def check_trackable(name: str, item: Any) -> None:
    """ValueError unless an object can be part of a checkpoint."""
    if not is_trackable(item):
        raise ValueError(
            f"`Checkpoint` was expecting a trackable object (an object derived from `TrackableBase`), got {item}. "
            "If you believe this object should be trackable, give its class a method `_trackable_children`.\n"
            + errors.message(
                f"{name}={item!r}",
                "a variable, optimizer, mutable table, layer, Checkpoint, or a list or dict of such",
                "a class with a method _trackable_children that returns a dict of those",
            )
        )


__all__ = ["Matches", "ObjectGraph", "check_trackable", "children", "has_value", "is_trackable", "saveables_of"]
