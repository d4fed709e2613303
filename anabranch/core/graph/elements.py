"""What a graph holds, by name: operations, tensors and collections, and what may be fed and fetched.

:class:`GraphElements` is a base of `Graph`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Any, TypeVar

from anabranch.core.graph import collections
from anabranch.core.graph.builder import Builder
from anabranch.core.graph.operation import Operation, Tensor

T = TypeVar("T")


class GraphElements(Builder):
    """The part of a graph that finds operations and tensors, and keeps collections."""

    _lock: threading.RLock
    _operations: list[Operation]
    _by_name: dict[str, Operation]
    _collections: dict[Any, list[Any]]
    _unfeedable: set[Tensor]
    _unfetchable: set[Operation]

    def _check_not_finalized(self) -> None:
        raise NotImplementedError

    @property
    def collections(self) -> list[Any]:
        """Keys of the non-empty collections."""
        return self.get_all_collection_keys()

    # ----------------------------------------------------------------------------------------------------------- lookup
    def get_operations(self) -> list[Operation]:
        """All operations in order of creation, those of nested bodies included."""
        return list(self._operations)

    def get_operation_by_name(self, name: str) -> Operation:
        """The operation called ``name``; KeyError if there is none."""
        if not isinstance(name, str):
            raise TypeError(f"Operation names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_tensor=False)

    def get_tensor_by_name(self, name: str) -> Tensor:
        """The tensor called ``op:index``; KeyError if there is none."""
        if not isinstance(name, str):
            raise TypeError(f"Tensor names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_operation=False)

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        """The tensor or operation that ``obj`` (itself, a name, or an object that stands for one) means.

        Raises:
            TypeError: ``obj`` cannot mean one. KeyError: no such name. ValueError: element of another graph, or a
            name of the wrong form.
        """
        allowed = " or ".join(kind for kind, on in (("Tensor", allow_tensor), ("Operation", allow_operation)) if on)
        if not allowed:
            raise ValueError("allow_tensor and allow_operation can't both be False.")
        if not isinstance(obj, (Tensor, Operation, str, bytes)):
            convert = getattr(obj, "_as_graph_element", None)
            element = convert() if callable(convert) else None
            if element is None:
                raise TypeError(f"Can not convert a {type(obj).__name__} into a {allowed}.")
            obj = element
        if isinstance(obj, bytes):
            obj = obj.decode()
        if isinstance(obj, str):
            return self._element_by_name(obj, allow_tensor, allow_operation, allowed)
        if (isinstance(obj, Tensor) and not allow_tensor) or (isinstance(obj, Operation) and not allow_operation):
            raise TypeError(f"Can not convert a {type(obj).__name__} into a {allowed}.")
        if obj.graph is not self:
            raise ValueError(f"{type(obj).__name__} {obj} is not an element of this graph.")
        return obj

    def _element_by_name(self, name: str, allow_tensor: bool, allow_operation: bool, allowed: str) -> Any:
        if ":" in name and allow_tensor:
            op_name, _, index_text = name.partition(":")
            if not index_text.isdigit():
                raise ValueError(
                    f"The name {name!r} looks a like a Tensor name, but is not a valid one. "
                    'Tensor names must be of the form "<op_name>:<output_index>".'
                )
            op = self._by_name.get(op_name)
            if op is None:
                raise KeyError(
                    f"The name {name!r} refers to a Tensor which does not exist. "
                    f"The operation, {op_name!r}, does not exist in the graph."
                )
            index = int(index_text)
            if index >= len(op._outputs):
                raise KeyError(
                    f"The name {name!r} refers to a Tensor which does not exist. The operation, {op_name!r}, "
                    f"exists but only has {len(op._outputs)} outputs."
                )
            return op._outputs[index]
        if ":" in name:
            raise ValueError(f"Name {name!r} appears to refer to a Tensor, not a {allowed}.")
        op = self._by_name.get(name)
        if op is None:
            if not allow_operation:
                raise ValueError(
                    f"The name {name!r} looks like an (invalid) Operation name, not a {allowed}. "
                    'Tensor names must be of the form "<op_name>:<output_index>".'
                )
            raise KeyError(f"The name {name!r} refers to an Operation not in the graph.")
        if not allow_operation:
            raise ValueError(
                f"The name {name!r} refers to an Operation, not a {allowed}. "
                'Tensor names must be of the form "<op_name>:<output_index>".'
            )
        return op

    def is_feedable(self, tensor: Any) -> bool:
        """Whether ``tensor`` may be fed."""
        return tensor not in self._unfeedable

    def is_fetchable(self, tensor_or_op: Any) -> bool:
        """Whether ``tensor_or_op`` may be fetched."""
        op = tensor_or_op.op if isinstance(tensor_or_op, Tensor) else tensor_or_op
        return op not in self._unfetchable and op.body.is_root

    def prevent_feeding(self, tensor: Tensor) -> None:
        """Refuse feeds of ``tensor``."""
        self._unfeedable.add(tensor)

    def prevent_fetching(self, op: Operation) -> None:
        """Refuse fetches of ``op``."""
        self._unfetchable.add(op)

    # ------------------------------------------------------------------------------------------------------ collections
    def add_to_collection(self, name: Any, value: Any) -> None:
        """Append ``value`` to the collection ``name``."""
        self._check_not_finalized()
        with self._lock:
            self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        """Append ``value`` to each collection (a name or an iterable of names)."""
        for name in (names,) if isinstance(names, str) else dict.fromkeys(names):
            self.add_to_collection(name, value)

    def get_collection_ref(self, name: Any) -> list[Any]:
        """The collection's own list, which the caller may change."""
        with self._lock:
            return self._collections.setdefault(name, [])

    def get_collection(self, name: Any, scope: str | None = None) -> list[Any]:
        """A copy of the collection; with ``scope``, the items whose name starts with that regular expression."""
        with self._lock:
            items = self._collections.get(name, [])
            return list(items) if scope is None else collections.in_scope(items, scope)

    def get_all_collection_keys(self) -> list[Any]:
        """Names of the collections."""
        with self._lock:
            return [key for key in self._collections if isinstance(key, str)]

    def library_state(self, key: Hashable, make: Callable[[], T]) -> T:
        """What a library keeps beside the graph under ``key``, made on first use: the one item of that collection."""
        with self._lock:
            entries = self._collections.setdefault(key, [])
            if not entries:
                entries.append(make())
            return entries[0]

    def clear_collection(self, name: Any) -> None:
        """Empty a collection."""
        self._check_not_finalized()
        with self._lock:
            self._collections.pop(name, None)
