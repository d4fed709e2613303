"""``tf.contrib.staging.StagingArea``, and its kin under keys: areas that hold tensors between two steps.

An area lets a step load what the next one will compute with: put into it and take out of it in the same step, once it
has been filled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.public_scopes import colocate_with, name_scope
from anabranch.core.values import dtypes as types
from anabranch.core.values.shapes import TensorShape
from anabranch.ops.array.sources import identity, no_op


class BaseStagingArea:
    """What both kinds of staging areas share: dtypes, shapes and names of the tensors of a tuple, and bounds.

    Args:
        dtypes: dtypes of the tensors of a tuple.
        shapes: their shapes, if they are known.
        names: names, for dictionaries in place of tuples.
        shared_name: name under which areas of several objects are one.
        capacity: most tuples that it holds; 0 for no bound.
        memory_limit: most bytes that it holds; 0 for no bound.
    """

    def __init__(
        self,
        dtypes: Sequence[Any],
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        if shared_name is not None and not isinstance(shared_name, str):
            raise ValueError(
                "shared_name must be a string\n"
                + errors.message(f"shared_name={shared_name!r}", "a string", 'shared_name="area"')
            )
        for argument, value in (("capacity", capacity), ("memory_limit", memory_limit)):
            if value < 0:
                raise ValueError(errors.message(f"{argument}={value}", "0 (no bound) or more", f"{argument}=0"))
        self._name = shared_name or current_builder().unique_name(type(self).__name__)
        self._dtypes = [types.as_dtype(dtype) for dtype in dtypes]
        self._shapes = self._of_length("shapes", shapes, TensorShape) or [TensorShape(None) for _ in self._dtypes]
        self._names = self._of_length("names", [names] if isinstance(names, str) else names, str)
        self._bounds = {"capacity": capacity, "memory_limit": memory_limit}
        with name_scope(f"{self._name}_root"):
            self._place = no_op()

    def _of_length(self, what: str, items: Any, convert: Any) -> list[Any] | None:
        if items is None:
            return None
        if len(items) != len(self._dtypes):
            raise ValueError(
                f"StagingArea {what} must be the same length as dtypes\n"
                + errors.message(f"{len(items)} {what}", f"{len(self._dtypes)}, one for each dtype", f"{what}=None")
            )
        return [convert(item) for item in items]

    dtypes = property(lambda self: self._dtypes, doc="Dtypes of the tensors of a tuple.")
    shapes = property(lambda self: self._shapes, doc="Shapes of the tensors of a tuple.")
    names = property(lambda self: self._names, doc="Names of the tensors of a tuple, or None.")
    capacity = property(lambda self: self._bounds["capacity"], doc="Most tuples that it holds; 0 for no bound.")
    memory_limit = property(lambda self: self._bounds["memory_limit"], doc="Most bytes that it holds; 0 for no bound.")
    name = property(lambda self: self._name, doc="The name.")

    # ---------------------------------------------------------------------------------------------------------- parts
    def _op(self, kind: str, *inputs: Any, name: str, dtypes: Any) -> Any:
        with colocate_with(self._place):
            return build(kind, *inputs, dtypes=dtypes, shared_name=self._name, name=name, **self._bounds)

    def _checked(self, values: Any, positions: Any) -> tuple[list[Tensor], list[int]]:
        """Tensors that are put in, and their positions in the tuple."""
        if isinstance(values, dict):
            if not self._names:
                raise ValueError(
                    "Staging areas must have names to enqueue a dictionary\n"
                    + errors.message("a dictionary", "a list of tensors", "StagingArea(dtypes, names=[...])")
                )
            if not set(values) <= set(self._names):
                raise ValueError(
                    f"Keys in dictionary to put do not match names of staging area. Dictionary: ({sorted(values)}), "
                    f"Queue: ({sorted(self._names)})"
                )
            positions = [i for i, name in enumerate(self._names) if name in values]
            values = [values[self._names[i]] for i in positions]
        else:
            if self._names:
                raise ValueError(
                    "You must enqueue a dictionary in a staging area with names\n"
                    + errors.message("a list of tensors", "a dictionary", f"{{{self._names[0]!r}: x, ...}}")
                )
            values = list(values) if isinstance(values, (list, tuple)) else [values]
            if positions is None:
                raise ValueError(
                    "Indices must be supplied when inserting a list of tensors\n"
                    + errors.message("a list without indices", "the positions of its tensors", "indices=[0, 1]")
                )
            if len(positions) != len(values):
                raise ValueError(
                    f"Number of indices '{len(positions)}' doesn't match number of values '{len(values)}'\n"
                    + errors.message(f"indices={list(positions)}", f"{len(values)} positions", "indices=[0, 1]")
                )
        if len(values) > len(self._dtypes):
            raise ValueError(f"Unexpected number of inputs '{len(values)}' vs '{len(self._dtypes)}'")
        tensors = []
        for value, position in zip(values, positions, strict=True):
            dtype = self._dtypes[position]
            given = getattr(value, "dtype", None)
            if given is not None and types.as_dtype(given).base != dtype:
                raise ValueError(
                    f"Datatypes do not match. '{given}' != '{dtype}'\n"
                    + errors.message(
                        f"component {position} of dtype {given}", dtype.name, f"tf.cast(x, tf.{dtype.name})"
                    )
                )
            tensor = convert_to_tensor(value, dtype, name=f"component_{position}")
            tensor.get_shape().assert_is_compatible_with(self._shapes[position])
            tensors.append(tensor)
        return tensors, list(positions)

    def _given(self, tensors: Any, positions: Sequence[int]) -> Any:
        """What comes out: a list, or a dictionary if there are names."""
        tensors = list(tensors) if _is_list(tensors) else [tensors]
        if no_op().device != self._place.device:  # the area may be on another device than what follows
            tensors = [identity(tensor) for tensor in tensors]
        for tensor, position in zip(tensors, positions, strict=True):
            tensor.set_shape(self._shapes[position])
        if self._names:
            return {self._names[i]: tensor for i, tensor in zip(positions, tensors, strict=True)}
        return tensors


def _as_values(values: Any) -> list[Any]:
    return list(values.values()) if isinstance(values, dict) else list(values) if _is_list(values) else [values]


def _is_list(values: Any) -> bool:
    return isinstance(values, (list, tuple))


@public("contrib.staging.StagingArea")
class StagingArea(BaseStagingArea):
    """Tuples of tensors of which the first in is the first out; for the arguments see :class:`BaseStagingArea`.

    Example:
        >>> import anabranch as tf
        >>> area = tf.contrib.staging.StagingArea([tf.int32])
        >>> x = tf.placeholder(tf.int32, [])
        >>> put, (now,) = area.put([x]), area.get()
        >>> with tf.Session() as session:
        ...     session.run(put, {x: 1})
        ...     [int(session.run([now, put], {x: i})[0]) for i in (2, 3)]
        [1, 2]
    """

    def put(self, values: Any, name: str | None = None) -> Operation:
        """An operation that adds a tuple (a dictionary, if there are names); it waits while the area is full."""
        with name_scope(name, f"{self._name}_put", _as_values(values)) as scope:
            tensors, _ = self._checked(values, range(len(values)) if _is_list(values) else [0])
            with colocate_with(self._place):
                return build("Stage", tensors, shared_name=self._name, name=scope, **self._bounds)

    def get(self, name: str | None = None) -> Any:
        """The first tuple, as a list (or dictionary), taken out; it waits while the area is empty."""
        tensors = self._op("Unstage", name=name or f"{self._name}_get", dtypes=self._dtypes)
        return self._given(tensors, range(len(self._dtypes)))

    def peek(self, index: Any, name: str | None = None) -> Any:
        """The tuple at place ``index``, which stays; it waits until there are enough."""
        tensors = self._op("StagePeek", index, name=name or f"{self._name}_peek", dtypes=self._dtypes)
        return self._given(tensors, range(len(self._dtypes)))

    def size(self, name: str | None = None) -> Tensor:
        """How many tuples there are."""
        return self._op("StageSize", name=name or f"{self._name}_size", dtypes=self._dtypes)

    def clear(self, name: str | None = None) -> Operation:
        """An operation that drops all tuples."""
        return self._op("StageClear", name=name or f"{self._name}_clear", dtypes=self._dtypes)


class MapStagingArea(BaseStagingArea):
    """Tuples of tensors under int64 keys, which may come and go in parts.

    Args:
        dtypes: dtypes of the tensors of a tuple.
        shapes: their shapes, if they are known.
        names: names, for dictionaries in place of tuples.
        shared_name: name under which areas of several objects are one.
        ordered: whether ``get()`` without a key takes the smallest key, or any.
        capacity: most (complete) tuples that it holds; 0 for no bound.
        memory_limit: most bytes that it holds; 0 for no bound.
    """

    def __init__(
        self,
        dtypes: Sequence[Any],
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        ordered: bool = False,
        capacity: int = 0,
        memory_limit: int = 0,
    ) -> None:
        super().__init__(dtypes, shapes, names, shared_name, capacity, memory_limit)
        self._kind = "OrderedMap" if ordered else "Map"

    def _positions(self, indices: Any) -> list[int]:
        if indices is None:
            return list(range(len(self._dtypes)))
        if not _is_list(indices):
            raise TypeError(
                f"Invalid indices type '{type(indices)}'\n"
                + errors.message(f"indices={indices!r}", "a list of positions, or of names", "indices=[0]")
            )
        if not indices:
            raise ValueError("Empty indices\n" + errors.message("indices=[]", "one position at least", "indices=[0]"))
        if all(isinstance(item, str) for item in indices):
            if self._names is None:
                raise ValueError(
                    f"String indices provided '{indices}', but this Staging Area was not created with names."
                )
            unknown = [name for name in indices if name not in self._names]
            if unknown:
                raise ValueError(f"Named index '{unknown[0]}' not in Staging Area names '{self._names}'")
            return [self._names.index(name) for name in indices]
        if not all(isinstance(item, int) for item in indices):
            raise TypeError(f"Mixed types in indices '{indices}'. May only be str or int")
        return list(indices)

    def put(self, key: Any, vals: Any, indices: Any = None, name: str | None = None) -> Operation:
        """An operation that adds a tuple, or a part of one, under a key; it waits while the area is full.

        Args:
            key: int64 scalar.
            vals: list of tensors, or a dictionary (of some names, for a part) if there are names.
            indices: positions in the tuple of the tensors of a list.
            name: name of the operation.
        """
        with name_scope(name, f"{self._name}_put", _as_values(vals)) as scope:
            tensors, positions = self._checked(vals, indices)
            return self._op(f"{self._kind}Stage", key, positions, tensors, name=scope, dtypes=self._dtypes)

    def get(self, key: Any = None, indices: Any = None, name: str | None = None) -> tuple[Any, Any]:
        """Key, and tuple (or its parts at ``indices``) of the key, or of any; it waits for the tuple."""
        positions = self._positions(indices)
        dtypes = [self._dtypes[i] for i in positions]
        if key is not None:
            tensors = self._op(f"{self._kind}Unstage", key, positions, name=name or f"{self._name}_get", dtypes=dtypes)
            return key, self._given(tensors, positions)
        name = name or f"{self._name}_get_nokey"
        found, *tensors = self._op(f"{self._kind}UnstageNoKey", positions, name=name, dtypes=dtypes)
        if len(tensors) == 1 and _is_list(tensors[0]):
            tensors = tensors[0]
        return found, self._given(tensors, positions)

    def peek(self, key: Any, indices: Any = None, name: str | None = None) -> Any:
        """The tuple (or its parts at ``indices``) of a key, which stays; it waits for the tuple."""
        positions = self._positions(indices)
        dtypes = [self._dtypes[i] for i in positions]
        tensors = self._op(f"{self._kind}Peek", key, positions, name=name or f"{self._name}_pop", dtypes=dtypes)
        return self._given(tensors, positions)

    def size(self, name: str | None = None) -> Tensor:
        """How many complete tuples there are."""
        return self._op(f"{self._kind}Size", name=name or f"{self._name}_size", dtypes=self._dtypes)

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """How many incomplete tuples there are."""
        name = name or f"{self._name}_incomplete_size"
        return self._op(f"{self._kind}IncompleteSize", name=name, dtypes=self._dtypes)

    def clear(self, name: str | None = None) -> Operation:
        """An operation that drops all tuples."""
        return self._op(f"{self._kind}Clear", name=name or f"{self._name}_clear", dtypes=self._dtypes)
