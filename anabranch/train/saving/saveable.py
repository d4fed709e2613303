"""What a saver saves: saveable objects, each a name, the tensors that stand in a checkpoint, and an op that restores.

A variable is one tensor; a part of a partitioned variable is one slice of a tensor; a lookup table is two tensors. A
class of one's own that derives from :class:`SaveableObject` may stand in a ``var_list`` or in the collection
``SAVEABLE_OBJECTS``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.device import DeviceSpec
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.variables.partitioned import PartitionedVariable
from anabranch.variables.variable import Variable


class SaveSpec:
    """One tensor of a checkpoint.

    Args:
        tensor: its value, or a function that makes it.
        slice_spec: which slice of a larger tensor it is (``"5 2 0,3:0,2"``), or empty.
        name: its name in the checkpoint.
        dtype: its dtype, needed if ``tensor`` is a function.
        device: where it is; where the tensor is if None.
    """

    def __init__(self, tensor: Any, slice_spec: str, name: str, dtype: Any = None, device: Any = None) -> None:
        self._tensor = tensor
        self.slice_spec = slice_spec
        self.name = name
        if callable(tensor) and (dtype is None or device is None):
            raise AssertionError("When passing a callable `tensor`, you must also pass `dtype` and `device`.")
        self.dtype = tensor.dtype.base if dtype is None else dtype
        self.device = tensor.device if device is None else device

    @property
    def tensor(self) -> Tensor:
        """The value to save."""
        return self._tensor() if callable(self._tensor) else self._tensor


class SaveableObject:
    """Base class of what a saver saves and restores.

    Args:
        op: the tensor or op that it saves.
        specs: the tensors of a checkpoint that it consists of.
        name: its name.
    """

    def __init__(self, op: Any, specs: Sequence[SaveSpec], name: str) -> None:
        self.op = op
        self.specs = specs
        self.name = name

    @property
    def optional_restore(self) -> bool:
        """Whether a checkpoint may lack it."""
        return False

    @property
    def device(self) -> str:
        """The device of its tensors."""
        return self.specs[0].device

    def restore(self, restored_tensors: list[Tensor], restored_shapes: list[Any] | None) -> Any:
        """The op that gives it ``restored_tensors``, one for each spec; reshaped to ``restored_shapes`` if given."""
        raise ValueError("Calling an abstract method.")


class ReferenceVariableSaveable(SaveableObject):
    """A variable in the reference form, or a tensor of reference type."""

    def __init__(self, ref: Tensor, slice_spec: str, name: str, value: Tensor | None = None) -> None:
        spec = SaveSpec(ref if value is None else value, slice_spec, name, dtype=ref.dtype.base, device=ref.device)
        super().__init__(ref, [spec], name)

    def restore(self, restored_tensors: list[Tensor], restored_shapes: list[Any] | None) -> Any:
        (value,) = restored_tensors
        if restored_shapes is not None:
            value = build("Reshape", value, restored_shapes[0])
        checked = restored_shapes is None and self.op.shape.is_fully_defined()
        return build("Assign", self.op, value, validate_shape=checked, use_locking=True)


class ResourceVariableSaveable(SaveableObject):
    """A variable behind a resource handle."""

    def __init__(self, variable: Any, slice_spec: str, name: str) -> None:
        self.handle_op = variable.handle
        self._variable = variable
        spec = SaveSpec(self._value, slice_spec, name, dtype=variable.dtype.base, device=variable.handle.device)
        self._is_slice = bool(slice_spec)
        self._made: Tensor | None = None
        super().__init__(variable, [spec], name)

    def _value(self) -> Tensor:
        if not self._variable._builder.defers:
            return self._variable.read_value()
        if not self._is_slice:
            return self._variable._graph_element
        if self._made is None:
            graph = self._variable._builder
            with graph.device(self._variable.handle.device):
                value = self._variable.read_value()
            with graph.device("/device:CPU:0"):
                self._made = build("Identity", value)
        return self._made

    def restore(self, restored_tensors: list[Tensor], restored_shapes: list[Any] | None) -> Any:
        (value,) = restored_tensors
        if restored_shapes is not None:
            value = build("Reshape", value, restored_shapes[0])
        self.check([value])
        return self._variable._restored(value)

    def check(self, restored_tensors: list[Tensor]) -> None:
        """ValueError unless the variable can have that value."""
        self._variable.shape.assert_is_compatible_with(restored_tensors[0].shape)


def is_saveable(item: Any) -> bool:
    """Whether it behaves as a :class:`SaveableObject`."""
    return isinstance(item, SaveableObject) or (
        hasattr(item, "specs") and hasattr(item, "restore") and hasattr(item, "name")
    )


def all_saveable_objects(scope: str | None = None) -> list[Any]:
    """The global variables of the default graph, and the other things that savers save."""
    graph = get_default_graph()
    return [
        *graph.get_collection(GraphKeys.GLOBAL_VARIABLES, scope),
        *graph.get_collection(GraphKeys.SAVEABLE_OBJECTS, scope),
    ]


# ------------------------------------------------------------------------------------------------- from variable lists
def _not_a_variable(item: Any) -> TypeError:
    return TypeError(
        f"Variable to save is not a Variable: {item}\n"
        + errors.message(
            f"{item!r} in var_list", "variables, or saveable objects", "pass the object that tf.Variable returned"
        )
    )


def _is_variable_op(tensor: Any) -> bool:
    return isinstance(tensor, Tensor) and tensor.dtype.is_ref and tensor.op.definition.makes == "variable"


def op_list_to_dict(op_list: Iterable[Any]) -> dict[str, Any]:
    """Names in the checkpoint to variables (or lists of slices) for a list of variables.

    Raises:
        TypeError: an item is not a variable. ValueError: two have one name.
    """
    if not isinstance(op_list, (list, tuple, set)):
        raise TypeError(
            f"Variables to save should be passed in a dict or a list: {op_list}\n"
            + errors.message(f"a {type(op_list).__name__}", "a list or dict", "tf.train.Saver([v])")
        )
    by_name: dict[str, Any] = {}
    if not current_builder().defers:
        op_list = {id(item): item for item in op_list}.values()  # one object twice is that object
    for item in sorted(op_list, key=lambda variable: variable.name):
        if is_saveable(item):
            by_name[item.name] = item
        elif isinstance(item, PartitionedVariable):
            if item.name in by_name:
                raise ValueError(_twice(item.name))
            by_name[item.name] = item
        elif isinstance(item, Variable) and item._get_save_slice_info() is not None:
            info: Any = item._get_save_slice_info()
            name = info.full_name
            if not isinstance(by_name.setdefault(name, []), list):
                raise ValueError(
                    f"Mixing slices and non-slices with the same name: {name}\n"
                    + errors.message(
                        f"a whole variable and a part of one called {name!r}",
                        "one name for each variable",
                        "tf.get_variable('another_name', ...) for one of them",
                    )
                )
            by_name[name].append(item)
        elif isinstance(item, Variable) or _is_variable_op(item):
            name = item._shared_name if isinstance(item, Variable) and item._is_resource else item.op.name
            if name in by_name:
                raise ValueError(_twice(name))
            by_name[name] = item
        elif (gather := getattr(item, "_gather_saveables_for_checkpoint", None)) is not None:
            own = [one() if callable(one) and not isinstance(one, Variable) else one for one in gather().values()]
            for name, one in op_list_to_dict(own).items():
                if name in by_name:
                    raise ValueError(_twice(name))
                by_name[name] = one
        else:
            raise _not_a_variable(item)
    return by_name


def _twice(name: str) -> str:
    return f"At least two variables have the same name: {name}\n" + errors.message(
        f"two variables called {name!r}", "different names", "a dict with a name for each: tf.train.Saver({'a': v})"
    )


def saveables_for(item: Any, name: str) -> list[Any]:
    """The saveable objects of one entry of a var_list.

    Raises:
        TypeError: it is not a variable. ValueError: it is a list of parts that do not belong together.
    """
    if not isinstance(name, str):
        raise TypeError(
            f"names_to_saveables must be a dict mapping string names to checkpointable operations. "
            f"Name is not a string: {name}\n" + errors.message(f"the key {name!r}", "a str", "{'name': variable}")
        )
    if is_saveable(item):
        return [item]
    if isinstance(item, (list, tuple, PartitionedVariable)):
        parts = list(item)
        saveables: list[Any] = []
        whole = None
        for part in parts:
            if not isinstance(part, Variable):
                raise ValueError(f"Slices must all be Variables: {part}")
            info: Any = part._get_save_slice_info()
            if info is None:
                raise ValueError(
                    f"Slices must all be slices: {part}\n"
                    + errors.message(
                        f"{part.name!r}, a whole variable, in a list",
                        "parts of one variable",
                        f"{{{name!r}: variable}}",
                    )
                )
            if whole is not None and info.full_name != whole:
                raise ValueError(
                    f"Slices must all be from the same tensor: {whole} != {info.full_name}\n"
                    + errors.message(f"parts of {whole!r} and {info.full_name!r}", "parts of one", "an entry for each")
                )
            whole = info.full_name
            if part._is_resource:
                saveables.append(ResourceVariableSaveable(part, info.spec, name))
            else:
                saveables.append(ReferenceVariableSaveable(part._ref(), info.spec, name, part._snapshot))
        return saveables
    if isinstance(item, Variable):
        if item._is_resource:
            return [ResourceVariableSaveable(item, "", name)]
        return [ReferenceVariableSaveable(item._ref(), "", name)]
    if _is_variable_op(item):
        return [ReferenceVariableSaveable(item, "", name)]
    raise TypeError(
        f"names_to_saveables must be a dict mapping string names to Tensors/Variables. Not a variable: {item}\n"
        + errors.message(f"{item!r} under {name!r}", "a variable", "pass the object that tf.Variable returned")
    )


def validated(var_list: Any) -> list[Any]:
    """The saveable objects of a var_list (list or dict), sorted by name.

    Raises:
        TypeError, ValueError: something in it cannot be saved, or would be twice.
    """
    named = var_list if isinstance(var_list, dict) else op_list_to_dict(var_list)
    checked = []
    seen: dict[Any, str] = {}
    for name, item in sorted(named.items(), key=lambda pair: pair[0]):
        for saveable in saveables_for(item, name):
            # An object that says by itself how it is saved is what it is, whatever its ``op`` may be.
            key = item if isinstance(item, SaveableObject) else saveable.op
            if isinstance(key, (Tensor, Operation, Variable, SaveableObject)):
                if key in seen:
                    raise ValueError(
                        f"The same saveable will be restored with two names: {name}\n"
                        + errors.message(f"one variable as {seen[key]!r} and {name!r}", "one name", "leave one out")
                    )
                seen[key] = name
            checked.append(saveable)
    return checked


def set_cpu0(device: str) -> str:
    """The same task's first CPU, where files are read and written."""
    spec = DeviceSpec.from_string(device or "")
    return spec.replace(device_type="CPU", device_index=0).to_string()


__all__ = [
    "ReferenceVariableSaveable",
    "ResourceVariableSaveable",
    "SaveSpec",
    "SaveableObject",
    "all_saveable_objects",
    "is_saveable",
    "op_list_to_dict",
    "saveables_for",
    "set_cpu0",
    "validated",
]
