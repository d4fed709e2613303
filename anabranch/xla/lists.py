"""Values of a trace that are more than an array: lists and optionals, and how conditionals and loops carry them.

Inside a program a list is an array of fixed capacity with a size
(:class:`~anabranch.core.values.list_values.TracedList`). Branches of a conditional must return the same kind of value,
and a loop must keep the kind of each of its variables; the functions here find the kind that serves all, bring values
to it, and say when there is none.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.kernels import NotCompilable
from anabranch.core.contract.roles import Role
from anabranch.core.graph.operation import Operation
from anabranch.core.values import dtypes, list_values
from anabranch.core.values.list_values import HostList, TracedList, from_host, set_backend, to_host
from anabranch.core.values.optional_values import HostOptional
from anabranch.ops.lists.host_kernels import given_shape
from anabranch.xla import engine
from anabranch.xla.capacities import Capacities, Padded
from anabranch.xla.lowering import BoundNeeded, HostNeeded, Scope, specials


class TracedOptional:
    """An optional in a trace: a tuple of values, or None if it has none."""

    shape = ()
    dtype = np.dtype(object)

    def __init__(self, values: tuple[Any, ...] | None) -> None:
        self.values = values

    def zeros(self) -> TracedOptional:
        """The same with zeros in place of the values."""
        jnp = engine.jax().numpy
        parts = [part.zeros() if hasattr(part, "zeros") else jnp.zeros_like(part) for part in self.values or ()]
        return TracedOptional(None if self.values is None else tuple(parts))

    def plus(self, other: TracedOptional) -> TracedOptional:
        """The sum; one that has no values counts as zeros."""
        if self.values is None or other.values is None:
            return other if self.values is None else self
        pairs = zip(self.values, other.values, strict=True)
        return TracedOptional(tuple(a.plus(b) if hasattr(a, "plus") else a + b for a, b in pairs))


def for_host(value: Any) -> Any:
    """A list or optional of a program as the interpreter has it."""
    if isinstance(value, TracedList):
        return to_host(value)
    held = None if value.values is None else [for_host(v) if hasattr(v, "plus") else np.array(v) for v in value.values]
    return HostOptional(held)


def for_program(value: Any) -> Any:
    """A list or optional of the interpreter as a program has it.

    Raises:
        NotCompilable: its elements do not fit into one array, or are strings.
    """
    if isinstance(value, HostList):
        return from_host(value)
    if isinstance(value, np.ndarray):
        if value.dtype == object:
            raise NotCompilable("an optional that holds strings")
        return value
    return TracedOptional(
        None
        if value.values is None
        else tuple(for_program(v) if isinstance(v, (HostList, HostOptional, np.ndarray)) else v for v in value.values)
    )


def as_input(value: TracedList, capacities: Capacities | None, place: Any) -> TracedList:
    """A list for a program: of known size, or one of a few capacities so that few programs serve all sizes."""
    size = np.array(value.size, np.int32)
    if capacities is None:
        return value.with_size(size)
    capacity = capacities.of(place, int(size), nbytes(value) // max(value.capacity, 1))
    return value.with_room(capacity).with_size(np.int32(size))


def nbytes(value: Any) -> int:
    """How many bytes a list takes."""
    leaves = [leaf for leaf in engine.jax().tree_util.tree_leaves(value) if hasattr(leaf, "dtype")]
    return sum(int(np.prod(leaf.shape, dtype=np.int64)) * np.dtype(leaf.dtype).itemsize for leaf in leaves)


def signature(value: Any) -> Any:
    """What a program compiled for ``value`` depends on."""
    if isinstance(value, TracedList):
        leaves, aux = value.flatten()
        return (aux, tuple(signature(leaf) for leaf in leaves))
    if isinstance(value, TracedOptional):
        return None if value.values is None else tuple(signature(part) for part in value.values)
    if isinstance(value, Padded):
        return (value.axes, value.array.shape, value.dtype)
    return (value.shape, value.dtype)


# ------------------------------------------------------------------------------------------------------ taking apart
def split(structure: Sequence[Any]) -> tuple[list[Any], Callable[[Sequence[Any]], Any]]:
    """The traced arrays in a nested list of values, and the function that puts others in their places.

    NumPy arrays and None stay what they are.
    """
    leaves: list[Any] = []

    def take(value: Any) -> Callable[[Sequence[Any]], Any]:
        if isinstance(value, (list, tuple)):
            parts = [take(item) for item in value]
            return lambda given: [part(given) for part in parts]
        if isinstance(value, TracedList):
            inner, aux = value.flatten()
            rest = [take(leaf) for leaf in inner]
            return lambda given: TracedList.unflatten(aux, [part(given) for part in rest])
        if isinstance(value, TracedOptional):
            if value.values is None:
                return lambda given: TracedOptional(None)
            held = [take(item) for item in value.values]
            return lambda given: TracedOptional(tuple(part(given) for part in held))
        if isinstance(value, Padded):
            parts = [take(leaf) for leaf in value.flatten()[0]]
            return lambda given: Padded.unflatten(value.axes, [part(given) for part in parts])
        if value is None or isinstance(value, np.ndarray):
            return lambda given: value
        place = len(leaves)
        leaves.append(value)
        return lambda given: given[place]

    whole = take(list(structure))
    return leaves, whole


# -------------------------------------------------------------------------------------------------------------- kinds
class ArrayKind(NamedTuple):
    """An array of a shape and dtype."""

    shape: tuple[int, ...]
    dtype: Any


class KnownKind(NamedTuple):
    """The same known array in all branches."""

    value: np.ndarray


class ListKind(NamedTuple):
    """A list: one like it (whose arrays are shapes or values), its capacity, and its size if that is known."""

    like: TracedList
    capacity: int
    size: int | None


class OptionalKind(NamedTuple):
    """An optional with values of these kinds; None: no branch has any."""

    values: tuple[Any, ...] | None


def kind_of(value: Any) -> Any:
    """The kind of one value."""
    if isinstance(value, TracedList):
        return ListKind(value, value.capacity, value.known_size)
    if isinstance(value, TracedOptional):
        if value.values is None:
            return OptionalKind(None)
        kinds = [KnownKind(item) if isinstance(item, np.ndarray) else kind_of(item) for item in value.values]
        return OptionalKind(tuple(kinds))
    return ArrayKind(tuple(value.shape), np.dtype(value.dtype))


def common(op: Operation, values: Sequence[Any]) -> Any:
    """The kind that serves the same output of all branches.

    Raises:
        HostNeeded: there is none: the shapes differ.
    """
    if all(isinstance(value, np.ndarray) for value in values):
        first = values[0]
        if all(_same(value, first) for value in values):
            return KnownKind(first)
    return _join(op, [kind_of(value) for value in values])


def _same(value: np.ndarray, other: np.ndarray) -> bool:
    return value.dtype == other.dtype and value.shape == other.shape and value.tobytes() == other.tobytes()


def _join(op: Operation, kinds: Sequence[Any]) -> Any:
    first = kinds[0]
    if all(isinstance(kind, KnownKind) for kind in kinds) and all(_same(kind.value, first.value) for kind in kinds):
        return first  # what one branch has, and the others do not: known where it is used
    kinds = [kind_of(kind.value) if isinstance(kind, KnownKind) else kind for kind in kinds]
    first = kinds[0]
    if all(isinstance(kind, ArrayKind) for kind in kinds):
        if any(kind != first for kind in kinds) or None in first.shape:
            raise HostNeeded(op, "its branches give different shapes")
        if first.dtype == np.dtype(object):
            raise HostNeeded(op, "its branches give different texts")
        return first
    if all(isinstance(kind, OptionalKind) for kind in kinds):
        held = [kind.values for kind in kinds if kind.values is not None]
        if not held:
            return OptionalKind(None)
        return OptionalKind(tuple(_join(op, list(parts)) for parts in zip(*held, strict=True)))
    if all(isinstance(kind, ListKind) for kind in kinds):
        like = next((kind.like for kind in kinds if kind.like.items is not None), first.like).without_pending()
        if like.items is None and any(kind.like.uniform is not None for kind in kinds):
            uniform = [kind.like for kind in kinds if kind.like.is_uniform]
            like = uniform[0] if uniform else first.like
            if any(kind.like.uniform is None or kind.like.materialised(like).items is not None for kind in kinds):
                like = like.plain()
        sizes = {kind.size for kind in kinds}
        return ListKind(like, max(kind.capacity for kind in kinds), sizes.pop() if len(sizes) == 1 else None)
    raise HostNeeded(op, "its branches give different kinds of values")


def fit(kind: Any, value: Any) -> Any:
    """``value`` as one of ``kind``; ``zeros(kind)`` for an optional that has none."""
    jnp = engine.jax().numpy
    if isinstance(kind, KnownKind):
        return jnp.zeros((0,), jnp.int8)
    if isinstance(kind, ListKind):
        value = value.materialised(kind.like)
        if value.capacity != kind.capacity:
            value = value.with_capacity(kind.capacity)
        value = value.with_pending() if kind.like.pending else value.settled()
        if kind.size is None and value.known_size is not None:
            value = value.with_size(jnp.asarray(value.size, jnp.int32))
        aux = kind.like.flatten()[1]  # (room while there is no element, size, ...): see TracedList.flatten
        held = kind.capacity if kind.like.items is None else None
        return TracedList.unflatten((held, kind.size, *aux[2:]), value.flatten()[0])
    if isinstance(kind, OptionalKind):
        if kind.values is None:
            return TracedOptional(None)
        if value.values is None:
            return TracedOptional(tuple(_zeros(item) for item in kind.values))
        return TracedOptional(tuple(fit(item, part) for item, part in zip(kind.values, value.values, strict=True)))
    return jnp.asarray(value, kind.dtype)


def _zeros(kind: Any) -> Any:
    jnp = engine.jax().numpy
    if isinstance(kind, ListKind):
        like = kind.like
        leaves, aux = like.flatten()
        zeros = TracedList.unflatten(aux, [jnp.zeros(leaf.shape, leaf.dtype) for leaf in leaves])
        return fit(kind, zeros)
    if isinstance(kind, OptionalKind):
        return TracedOptional(None if kind.values is None else tuple(_zeros(item) for item in kind.values))
    if isinstance(kind, KnownKind):
        return fit(kind, kind.value)
    return jnp.zeros(kind.shape, kind.dtype)


def known(kind: Any, value: Any) -> Any:
    """A result of ``kind``, with what is known of it."""
    if isinstance(kind, OptionalKind) and kind.values is not None:
        return TracedOptional(tuple(known(part, item) for part, item in zip(kind.values, value.values, strict=True)))
    return kind.value if isinstance(kind, KnownKind) else value


# ------------------------------------------------------------------------------------------------------ loop variables
def fit_variable(op: Operation, old: Any, new: Any) -> Any:
    """``old`` if an iteration keeps its kind, else a value of a kind that an iteration may keep.

    Raises:
        HostNeeded: the shape changes from one iteration to the next.
    """
    jnp = engine.jax().numpy
    if isinstance(old, TracedList) and isinstance(new, TracedList):
        if old.items is None and (new.items is not None or (new.is_uniform and not old.is_uniform)):
            return old.materialised(new)
        if old.known_size is not None and old.known_size != new.known_size:
            return old.with_size(jnp.asarray(old.size, jnp.int32))
        if (old.items is None) != (new.items is None) or _shapes(old) != _shapes(new):
            raise HostNeeded(op, "the elements of a list change their shape")
        return old.with_pending() if new.pending else old
    if isinstance(old, (TracedList, TracedOptional)) or isinstance(new, (TracedList, TracedOptional)):
        raise HostNeeded(op, "a loop variable changes its kind")
    if isinstance(old, Padded) or isinstance(new, Padded):
        raise HostNeeded(op, "the size of a loop variable is not known")
    if tuple(old.shape) != tuple(new.shape):
        raise HostNeeded(op, f"a loop variable of shape {tuple(old.shape)} becomes one of shape {tuple(new.shape)}")
    return old


def _shapes(value: TracedList) -> list[Any]:
    return [(tuple(leaf.shape), leaf.dtype) for leaf in engine.jax().tree_util.tree_leaves(value.items)]


# -------------------------------------------------------------------------------------------- sizes that are not known
_NEGATIVE = "The num_elements to reserve must be a non negative number, but got {0}"


def _reserve(scope: Scope, op: Operation) -> bool:
    """A list of a size that is bounded: with room for the bound, in a program that is to serve all sizes."""
    shape, count = scope.operands(op)
    if isinstance(count, np.ndarray) or not isinstance(shape, np.ndarray):
        return False
    if scope.can_ask(op._inputs[1]) and not scope.room.sizes_change:
        return False  # its value is asked for, so that everything that follows from it is known
    dtype = op._attrs["element_dtype"]
    most = scope.upper.get(op._inputs[1])
    if dtype.host_only and dtype is not dtypes.variant:
        return False
    if most is None:
        if not scope.can_ask(op._inputs[1]):
            return False
        raise BoundNeeded(op._inputs[1])
    scope._enter(op)
    scope.context.check(count >= 0, errors.InvalidArgumentError, _NEGATIVE, count)
    size = engine.jax().numpy.asarray(count, np.int32)
    scope.env[op._outputs[0]] = TracedList(dtype, given_shape(shape), None, size, most)
    return True


def _length(scope: Scope, op: Operation) -> bool:
    (value,) = scope.operands(op)
    if not isinstance(value, TracedList) or value.known_size is not None:
        return False
    scope.env[op._outputs[0]] = value.size
    scope.upper[op._outputs[0]] = value.capacity
    return True


specials.update({Role.LIST_NEW: [_reserve], Role.LIST_LENGTH: [_length]})


@engine.when_loaded
def _register(module: Any) -> None:
    """Make lists and optionals known to JAX as containers of arrays, and its functions to them."""
    set_backend(module.numpy, module.lax)
    list_values.set_backend(module.numpy, module.lax)
    tree_util = module.tree_util
    tree_util.register_pytree_node(TracedList, lambda value: value.flatten(), TracedList.unflatten)
    tree_util.register_pytree_node(
        TracedOptional,
        lambda value: ((), None) if value.values is None else (value.values, len(value.values)),
        lambda count, values: TracedOptional(None if count is None else tuple(values)),
    )
