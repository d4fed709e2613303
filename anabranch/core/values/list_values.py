"""Lists of tensors: the values behind the variant tensors that the ``TensorList`` ops make.

Both classes are values: an operation gives a new list and leaves the old one as it was.

:class:`~anabranch.core.values.host_list.HostList` lives in the interpreter.

:class:`TracedList` lives in a traced program: an array of *capacity* elements (of which *size* are there), or a list
of such arrays for lists of lists. The shape of the elements may be unknown until the first one comes: the list is
*unmaterialised* until then. What was not written yet is zero. A size that is known while tracing is a NumPy scalar;
then a list grows without bound. In a loop the size is traced and the capacity is *reserved* before.

No module below the compiled tier imports JAX, so that tier hands its array functions in: :func:`set_backend`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core.contract.kernels import NotCompilable
from anabranch.core.values.dtypes import DType
from anabranch.core.values.host_list import OBJECT, HostList, unequal_sizes
from anabranch.core.values.shapes import RawShape

# ------------------------------------------------------------------------------------------------------ traced programs
_backend: list[Any] = []


def set_backend(numpy: Any, lax: Any) -> None:
    """Hand in ``jax.numpy`` and ``jax.lax``; the compiled tier does when JAX is loaded."""
    _backend[:] = [numpy, lax]


def _xp() -> Any:
    return _backend[0]


class TracedList:
    """A list of tensors in a traced program; see the module.

    An unmaterialised list with one written element (``single``) is the gradient of a read: adding it to another list
    touches that element alone. It becomes an array as soon as anything else asks for :attr:`items`.

    A write at a traced index to a list that was read before is *pending*: it is carried out when the list is read or
    written again, in a loop at the beginning of the next iteration. XLA updates an array in place only if nothing reads
    the old one besides, and cannot see that a read comes first; it would copy the whole list in each iteration.

    A *uniform* list is one to which each iteration of a loop pushes the same array, known while tracing, such as the
    shape of something: it takes no memory, and what is popped is known again. Whoever starts a loop says whether an
    empty list may become one (:data:`MAY_BE_UNIFORM`).
    """

    __slots__ = ("__weakref__", "_capacity", "_items", "_pending", "_single", "_was_read", "element_dtype",
                 "element_shape", "limit", "reserved", "size", "uniform")  # fmt: skip
    shape = ()
    ndim = 0
    dtype = OBJECT

    def __init__(
        self,
        element_dtype: DType,
        element_shape: RawShape,
        items: Any,
        size: Any,
        capacity: int | None = None,
        reserved: bool = False,
        limit: int = -1,
    ) -> None:
        """``capacity`` is needed where ``items`` is None. ``reserved``: pushes stay within the capacity, as who
        reserved it has counted them.
        """
        self.element_dtype = element_dtype
        self.element_shape = element_shape
        self.size = np.array(size, np.int32) if isinstance(size, int) else size
        self._items = items
        self._single: tuple[Any, Any] | None = None
        self._pending: tuple[Any, Any] | None = None
        self._was_read = False
        self._capacity = capacity if capacity is not None else 0
        self.reserved = reserved
        self.limit = limit
        self.uniform: Any = None
        """The array that each element is equal to, or what says that it may come to that."""

    # -- facts --------------------------------------------------------------------------------------------------------
    @property
    def items(self) -> Any:
        """An array ``[capacity, *element]``, a list of batched lists, or None while no element is known, or if the list
        is uniform.

        A write that is pending is not in it yet; see :meth:`settled`.
        """
        if self._items is None and self._single is not None:
            index, value = self._single
            self._items = _write(_zeros(value, self._capacity), index, value)
            self._single = None
        return self._items

    @property
    def pending(self) -> bool:
        """Whether a write is still to be carried out."""
        return self._pending is not None

    def settled(self) -> TracedList:
        """The list with no write pending."""
        if self._pending is not None:
            self._items, self._was_read = _write(self._items, *self._pending), False
            self._pending = None
        return self

    def without_pending(self) -> TracedList:
        """A list of the same kind with no write pending (and other elements)."""
        return self._copy(_pending=None)

    def with_pending(self) -> TracedList:
        """The list with a pending write, one that changes nothing if there is none."""
        if self._pending is not None or self.items is None:
            return self
        return self._copy(_pending=(_xp().zeros((), np.int32), _read(self._items, 0)))

    @property
    def capacity(self) -> int:
        """How many elements there is room for."""
        if self._items is None:
            return self._capacity
        return _extent(self._items)

    @property
    def known_size(self) -> int | None:
        """The number of elements if it is known while tracing."""
        return int(self.size) if _known(self.size) else None

    def _copy(self, **changes: Any) -> TracedList:
        copied = TracedList.__new__(TracedList)
        copied.element_dtype, copied.element_shape, copied.limit = self.element_dtype, self.element_shape, self.limit
        copied._items, copied._single, copied._capacity = self._items, self._single, self._capacity
        copied.size, copied.reserved, copied._pending = self.size, self.reserved, self._pending
        copied._was_read = self._was_read and "_items" not in changes
        copied.uniform = self.uniform
        for key, value in changes.items():
            setattr(copied, key, value)
        return copied

    def flatten(self) -> tuple[tuple[Any, ...], Any]:
        """The arrays (and batched lists) in it, and what else there is to know, hashable."""
        items, known = self.items, self.known_size
        leaves = () if items is None else (items,)
        if known is None:
            leaves = (*leaves, self.size)
        held = self._capacity if items is None else None
        pending = self._pending is not None
        if self._pending is not None:
            leaves = (*leaves, *self._pending)
        uniform = self.uniform
        if isinstance(uniform, np.ndarray):
            uniform = (uniform.shape, uniform.dtype.str, uniform.tobytes())
        facts = (held, known, self.element_dtype, self.element_shape, self.reserved, self.limit, pending, uniform)
        return leaves, facts

    @classmethod
    def unflatten(cls, aux: Any, leaves: Sequence[Any]) -> TracedList:
        """The list that :meth:`flatten` took apart, with other arrays in it."""
        held, known, dtype, shape, reserved, limit, pending, uniform = aux
        rest = list(leaves)
        items = rest.pop(0) if held is None else None
        size = np.array(known, np.int32) if known is not None else rest.pop(0)
        restored = cls(dtype, shape, items, size, held, reserved, limit)
        if pending:
            restored._pending = (rest[0], rest[1])
        restored.uniform = uniform
        if isinstance(uniform, tuple):
            restored.uniform = np.frombuffer(uniform[2], uniform[1]).reshape(uniform[0])
        return restored

    # -- room ---------------------------------------------------------------------------------------------------------
    def with_size(self, size: Any) -> TracedList:
        """The list with another size, traced for example."""
        return self._copy(size=size)

    def with_capacity(self, capacity: int) -> TracedList:
        """The list with room for ``capacity`` elements, reserved: later pushes stay within it."""
        if self.items is None:
            return self._copy(_capacity=capacity, reserved=True)
        return self._copy(_items=_with_extent(self.settled()._items, capacity), reserved=True)

    def with_room(self, capacity: int) -> TracedList:
        """The list with room for at least ``capacity`` elements, of NumPy arrays if it is made of such."""
        if self.items is None:
            return self._copy(_capacity=max(capacity, self._capacity))
        return self._copy(_items=_map(lambda leaf: _padded(leaf, capacity), self.settled()._items))

    def with_items(self, items: Any) -> TracedList:
        """The list with other arrays of the same shape."""
        return self._copy(_items=items, _single=None, _pending=None)

    def released(self) -> TracedList:
        """The list after the loop that room was reserved for: a push makes its own room, and no write is pending."""
        return self.settled()._copy(reserved=False)

    def materialised(self, like: TracedList) -> TracedList:
        """The list with elements such as those of ``like`` (whose arrays may be mere shapes), all zero so far."""
        if self.items is not None:
            return self
        if self.is_uniform and not _same(self.uniform, like.uniform):
            return self.plain()
        if like.is_uniform and self.uniform is MAY_BE_UNIFORM:
            return self._copy(uniform=like.uniform)
        if like.items is None:
            return self
        return self._copy(_items=_map(lambda leaf: _blank_leaf(leaf, self._capacity), like.items))

    def _ready_for(self, element: Any) -> tuple[TracedList, Any]:
        """The list and an element of one form."""
        if isinstance(element, TracedList):  # each element has its own size
            element = element._copy(size=_xp().asarray(element.size, np.int32), reserved=False)
        if self.items is None:
            return self._copy(_items=_zeros(element, self._capacity)), element
        items, element = _unified(self.settled()._items, element)
        return (self if items is self._items else self._copy(_items=items)), element

    # -- uniform lists ------------------------------------------------------------------------------------------------
    @property
    def is_uniform(self) -> bool:
        """Whether all elements are one known array."""
        return isinstance(self.uniform, np.ndarray)

    def maybe_uniform(self) -> TracedList:
        """An empty list of integers for a loop that may only push what is known."""
        return self._copy(uniform=MAY_BE_UNIFORM)

    def plain(self) -> TracedList:
        """The list as one that is not uniform."""
        if self.uniform is None:
            return self
        if not self.is_uniform:
            return self._copy(uniform=None)
        whole = np.broadcast_to(self.uniform, (self._capacity, *self.uniform.shape)).copy()
        return self._copy(uniform=None, _items=whole)

    # -- elements -----------------------------------------------------------------------------------------------------
    def get(self, index: Any) -> Any:
        """The element at an index that was checked; zeros if nothing was written there."""
        items = self.settled().items
        self._was_read = True
        return _read(items, index)

    def set(self, index: Any, element: Any) -> TracedList:
        """The list with another element at an index that was checked."""
        if self.items is None and self._single is None and not self.reserved and not isinstance(element, TracedList):
            changed = self._copy()
            changed._single = (index, element)
            return changed
        whole, element = self._ready_for(element)
        return whole._written(index, element)

    def _written(self, index: Any, element: Any) -> TracedList:
        if self._was_read and not isinstance(index, np.ndarray) and not isinstance(element, TracedList):
            element = _xp().asarray(element, self._items.dtype)
            return self._copy(_pending=(_xp().asarray(index, np.int32), element), _was_read=False)
        return self._copy(_items=_write(self._items, index, element))

    def push(self, element: Any) -> TracedList:
        """The list with one more element."""
        if self.uniform is not None:
            fits = self.reserved and isinstance(element, np.ndarray) and element.size <= MOST_UNIFORM
            if not fits or not (self.uniform is MAY_BE_UNIFORM or _same(self.uniform, element)):
                return self.plain().push(element)
            size = np.array(self.size + 1, np.int32) if _known(self.size) else (self.size + 1).astype(np.int32)
            return self._copy(uniform=np.array(element), size=size)
        whole, element = self._ready_for(element)
        known, items = self.known_size, whole._items
        if known is not None and known == whole.capacity:
            joined = _join(items, _map(lambda leaf: leaf[None], element))
            return whole._copy(_items=joined, size=np.array(known + 1, np.int32))
        if known is None and not self.reserved:  # the size may be the capacity
            items = _with_extent(items, whole.capacity + 1)
        size = np.array(known + 1, np.int32) if known is not None else (self.size + 1).astype(np.int32)
        return whole._with(items)._written(self.size, element)._copy(size=size)

    def _with(self, items: Any) -> TracedList:
        return self if items is self._items else self._copy(_items=items)

    def shortened(self) -> TracedList:
        """The list without its last element."""
        known = self.known_size
        return self._copy(size=np.array(known - 1, np.int32) if known is not None else (self.size - 1).astype(np.int32))

    def shortened_to(self, size: Any) -> TracedList:
        """The first elements of the list, as many as a traced size says; the others are zero from now on."""
        items = self.settled().items

        def cleared(leaf: Any) -> Any:
            used = _xp().arange(leaf.shape[0]) < size
            return _xp().where(used.reshape(-1, *[1] * (leaf.ndim - 1)), leaf, _xp().zeros((), leaf.dtype))

        return self._copy(_items=None if items is None else _map(cleared, items), size=_xp().asarray(size, np.int32))

    def resized(self, count: int) -> TracedList:
        """The list, of known size, cut or filled up with zeros."""
        known = self.known_size
        if known is None:
            raise NotCompilable("a list of unknown size is resized")
        if self.items is None:
            return self._copy(size=np.array(count, np.int32), _capacity=count, reserved=False)
        items = _with_extent(_cut(self.settled()._items, known), count)
        return self._copy(_items=items, size=np.array(count, np.int32), reserved=False)

    def stacked(self) -> Any:
        """All elements as one array; the size must be known."""
        known = self.known_size
        if known is None:
            raise NotCompilable("the size of a list that is stacked is known only afterwards")
        if isinstance(self.items, TracedList):
            raise NotCompilable("a list of lists is stacked")
        return _cut(self.settled()._items, known)

    # -- arithmetic of gradients --------------------------------------------------------------------------------------
    def zeros(self) -> TracedList:
        """A list with zeros in place of the elements."""
        if self.uniform is not None:
            return self.plain().zeros()
        if self.items is None:
            return self
        items = _map(lambda leaf: _xp().zeros(leaf.shape, leaf.dtype), self._items, sizes=False)
        return self._copy(_items=items, _pending=None)

    def plus(self, other: TracedList) -> TracedList:
        """The sum, element by element."""
        self, other = self.plain().settled(), other.plain().settled()
        mine, theirs = self.known_size, other.known_size
        if mine is not None and theirs is not None and mine != theirs:
            raise unequal_sizes(mine, theirs)
        if self._items is None and self._single is not None and other._single is None:
            self, other = other, self
            mine, theirs = theirs, mine
        if self.items is not None and other._items is None and other._single is not None:
            index, value = other._single
            whole, value = self._ready_for(value)
            added = _write(whole._items, index, _add(_read(whole._items, index), value))  # in place: one element
            return whole._copy(_items=added, size=self.size if mine is not None else other.size)
        first, second = (self.materialised(other), other.materialised(self))
        if first.items is None:
            return self if mine is not None else other
        most = max(first.capacity, second.capacity)
        a, b = _fitted(_with_extent(first._items, most), _with_extent(second._items, most))
        return first._copy(_items=_add(a, b), size=self.size if mine is not None else other.size)

    def __repr__(self) -> str:
        return f"TracedList({self.element_dtype.name}, capacity={self.capacity}, size={self.size})"


MAY_BE_UNIFORM = "may be uniform"
"""What an empty list has in place of the array that all elements will be, if the loop keeps to one."""
MOST_UNIFORM = 64
"""How many elements that array may have."""


def _same(first: Any, second: Any) -> bool:
    """Whether two known arrays are equal, also in dtype."""
    if not isinstance(first, np.ndarray) or not isinstance(second, np.ndarray):
        return False
    return first.dtype == second.dtype and np.array_equal(first, second)


def equal(first: Any, second: Any) -> bool:
    """Whether two values (arrays, lists, or anything else, which is equal to itself only) have the same elements."""
    if first is second:
        return True
    first, second = (to_host(value) if isinstance(value, TracedList) else value for value in (first, second))
    if isinstance(first, HostList) and isinstance(second, HostList):
        return first.length == second.length and all(map(equal, first.elements, second.elements))
    arrays = isinstance(first, (np.ndarray, np.generic)) and isinstance(second, (np.ndarray, np.generic))
    if not arrays or first.dtype != second.dtype:
        return False
    return np.array_equal(first, second, equal_nan=first.dtype.kind in "fc")


# -------------------------------------------------------------------------------- trees of arrays: [n, ...] or batched
# The items of a list of lists are one TracedList whose arrays (and size, unless all are known to be equal) have the
# outer capacity as their first dimension.
def _map(function: Callable[[Any], Any], tree: Any, sizes: bool = True) -> Any:
    if not isinstance(tree, TracedList):
        return function(tree)
    items = None if tree.items is None else _map(function, tree._items, sizes)
    size = tree.size if not sizes or _known(tree.size) else function(tree.size)
    return tree._copy(_items=items, size=size)


def _zip(function: Callable[[Any, Any], Any], first: Any, second: Any) -> Any:
    """A function of the leaves of two trees of one form."""
    if not isinstance(first, TracedList):
        return function(first, second)
    items = None if first.items is None else _zip(function, first._items, second.items)
    if _known(first.size):
        return first._copy(_items=items)
    return first._copy(_items=items, size=function(first.size, second.size))


def _leaf(tree: Any) -> Any:
    """Some array of a tree: batched lists always have their sizes."""
    return tree.size if isinstance(tree, TracedList) else tree


def _known(size: Any) -> bool:
    return isinstance(size, np.ndarray) and size.ndim == 0


def _extent(items: Any) -> int:
    return int(_leaf(items).shape[0])


def _blank_leaf(leaf: Any, count: int) -> Any:
    return _xp().zeros((count, *leaf.shape[1:]), leaf.dtype)


def _zeros(element: Any, count: int) -> Any:
    """Room for ``count`` elements like this one."""
    return _map(lambda leaf: _xp().zeros((count, *np.shape(leaf)), leaf.dtype), element)


def _at(tree: Any, place: int) -> Any:
    return _map(lambda leaf: leaf[place], tree)


def _read(items: Any, index: Any) -> Any:
    if isinstance(index, (int, np.ndarray, np.integer)):
        return _at(items, int(index))
    return _map(lambda leaf: _element(leaf, index), items)


def _element(leaf: Any, index: Any) -> Any:
    """An element at a place that is traced; of nothing, which a check of the op refuses at run time, zeros."""
    if not leaf.shape[0]:
        return _xp().zeros(leaf.shape[1:], leaf.dtype)
    return _backend[1].dynamic_index_in_dim(leaf, index, 0, keepdims=False)


def _write(items: Any, index: Any, element: Any) -> Any:
    update = _backend[1].dynamic_update_index_in_dim
    place = np.int32(index) if isinstance(index, (int, np.ndarray, np.integer)) else index

    def written(leaf: Any, value: Any) -> Any:
        return update(leaf, _xp().asarray(value, leaf.dtype), place, 0) if leaf.shape[0] else leaf

    return _zip(written, items, element)


def _join(items: Any, more: Any) -> Any:
    return _zip(lambda leaf, value: _xp().concatenate([leaf, _xp().asarray(value, leaf.dtype)]), items, more)


def _cut(items: Any, count: int) -> Any:
    return _map(lambda leaf: leaf if leaf.shape[0] == count else leaf[:count], items)


def _with_extent(items: Any, count: int) -> Any:
    return _map(lambda leaf: leaf[:count] if leaf.shape[0] > count else _padded(leaf, count), items)


def _add(first: Any, second: Any) -> Any:
    if not isinstance(first, TracedList):
        return first + second
    items = None if first.items is None else _add(first._items, second.items)
    return first._copy(_items=items, size=_xp().maximum(first.size, second.size))


def _unified(items: Any, element: Any) -> tuple[Any, Any]:
    """The items of a list, and an element, of one form.

    Raises:
        NotCompilable: there is none.
    """
    if not isinstance(element, TracedList):
        if isinstance(items, TracedList) or tuple(items.shape[1:]) != tuple(np.shape(element)):
            raise NotCompilable("a list with elements of different shapes")
        return items, element
    batch = _map(lambda leaf: leaf[None], element)
    items, batch = _fitted(items, batch)
    return items, _map(lambda leaf: leaf[0], batch)


def _fitted(first: Any, second: Any, depth: int = 1) -> tuple[Any, Any]:
    """Two trees whose leaves have the same shape from axis ``depth`` on."""
    if isinstance(first, TracedList) != isinstance(second, TracedList):
        raise NotCompilable("a list with elements of different kinds")
    if not isinstance(first, TracedList):
        if tuple(first.shape[depth:]) != tuple(second.shape[depth:]):
            raise NotCompilable("a list with elements of different shapes")
        return first, second
    if first.items is None and second.items is None:
        most = max(first._capacity, second._capacity)
        return first._copy(_capacity=most), second._copy(_capacity=most)
    first, second = _like(first, second, depth), _like(second, first, depth)
    a, b = _fitted(first._items, second._items, depth + 1)
    most = max(_leaf(a).shape[depth], _leaf(b).shape[depth])
    return (
        first._copy(_items=_map(lambda leaf: _padded(leaf, most, depth), a)),
        second._copy(_items=_map(lambda leaf: _padded(leaf, most, depth), b)),
    )


def _like(batch: TracedList, like: TracedList, depth: int) -> TracedList:
    """Batched lists with room for elements such as those of other batched lists."""
    if batch.items is not None:
        return batch
    lead = (*np.shape(batch.size), batch._capacity)
    return batch._copy(
        _items=_map(lambda leaf: _xp().zeros((*lead, *leaf.shape[depth + 1 :]), leaf.dtype), like._items)
    )


def _padded(leaf: Any, count: int, axis: int = 0) -> Any:
    have = leaf.shape[axis]
    if have >= count:
        return leaf
    xp = np if isinstance(leaf, np.ndarray) else _xp()
    form = (*leaf.shape[:axis], count - have, *leaf.shape[axis + 1 :])
    return xp.concatenate([leaf, xp.zeros(form, leaf.dtype)], axis=axis)


# ---------------------------------------------------------------------------------------------------- between the tiers
def to_host(traced: TracedList) -> HostList:
    """The list that a program returned, for the interpreter."""
    traced = traced.plain()
    items = None if traced.items is None else _map(np.asarray, traced.settled()._items)
    return _host(traced, items, int(traced.size))


def _host(traced: TracedList, items: Any, size: int) -> HostList:
    dtype, shape = traced.element_dtype, traced.element_shape
    if items is None and traced.is_uniform:  # inside of another list
        items = np.broadcast_to(traced.uniform, (size, *traced.uniform.shape)).copy()
    if items is None:
        host_list = HostList.blank(dtype, shape, size)
    elif not isinstance(items, TracedList):
        host_list = HostList.from_array(dtype, shape, items[:size])
    else:
        sizes = items.size
        inner = [None if items.items is None else _at(items._items, i) for i in range(size)]
        host_list = HostList(dtype, shape, [_host(items, part, int(sizes[i])) for i, part in enumerate(inner)])
    host_list.limit = traced.limit
    return host_list


def from_host(value: HostList, xp: Any = np, capacity: int | None = None) -> TracedList:
    """A list of the interpreter for a program, with room for ``capacity`` elements if that is given.

    Raises:
        NotCompilable: its elements have different shapes, or are not numbers.
    """
    traced_list = _traced(value)
    size = value.length
    if traced_list._items is None:
        traced_list = traced_list._copy(_capacity=max(size, capacity or 0))
    else:
        most = max(size, capacity or 0)
        traced_list = traced_list._copy(_items=_map(lambda leaf: xp.asarray(_padded(leaf, most)), traced_list._items))
    return traced_list


def _traced(value: HostList) -> TracedList:
    """The list with NumPy arrays for items."""
    dtype, shape, size = value.element_dtype, value.element_shape, value.length

    def made(items: Any) -> TracedList:
        return TracedList(dtype, shape, items, size, size, limit=value.limit)

    if value.whole is not None and value.whole.dtype != OBJECT:
        return made(np.asarray(value.whole))
    written = [item for item in value.elements if item is not None]
    if not written:
        return made(None)
    if isinstance(written[0], HostList):
        return made(_batched([_traced(item) if item is not None else None for item in value.elements]))
    kinds = {(tuple(item.shape), item.dtype) for item in written}
    if len(kinds) > 1 or next(iter(kinds))[1] == OBJECT:
        raise NotCompilable("a list with elements of different shapes, or of strings")
    ((form, kind),) = kinds
    return made(np.stack([np.zeros(form, kind) if item is None else np.asarray(item) for item in value.elements]))


def _batched(parts: Sequence[TracedList | None]) -> TracedList:
    """Lists (with NumPy arrays) as one batched list."""
    like = next((part for part in parts if part is not None and part._items is not None), None)
    first = next(part for part in parts if part is not None)
    sizes = np.array([0 if part is None else int(part.size) for part in parts], np.int32)
    most = max(0 if part is None else part.capacity for part in parts)
    batched = first._copy(size=sizes, _capacity=most, _items=None)
    if like is None:
        return batched
    if isinstance(like._items, TracedList):
        raise NotCompilable("lists of lists of lists that come from the interpreter")
    rows = []
    for part in parts:
        if part is None or part._items is None:
            rows.append(np.zeros((most, *like._items.shape[1:]), like._items.dtype))
        elif part._items.shape[1:] != like._items.shape[1:]:
            raise NotCompilable("a list of lists with elements of different shapes")
        else:
            rows.append(_padded(part._items, most))
    return batched._copy(_items=np.stack(rows))
