"""Updates of many small variables by one call of their rule, in interpreted steps.

An optimizer updates each variable by an op of its own. Of the 40 microseconds that one takes, NumPy's arithmetic on a
small array is a tenth; the rest is the way to the kernel and its dozen of calls. So updates of one kind (the same op
type and attributes) that follow each other are run together: their states and their gradients are laid end to end, the
rule is called once, and the new values are pieces of what it gives. As such a rule computes each element from the
elements at its place (``Predication.by_element``), the values are those of the ops, bit for bit.

Together run variables of up to `SMALL` elements whose scalar operands (learning rate, powers of decay) have the same
bits. What the rule has given is kept, so that the next step need not lay the states end to end again: they are where it
left them, unless somebody has written to a variable. Whatever is different from what is expected has the updates run
one by one, which says what is wrong with them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from operator import is_
from typing import Any, ClassVar

import numpy as np

from anabranch.core.contract import kernels, opdef
from anabranch.core.graph.operation import Operation
from anabranch.core.graph.state_key import ValueKey
from anabranch.runtime import host_ops
from anabranch.runtime.attempt import Attempt
from anabranch.runtime.plans.items import HostItem
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.values import to_host

SMALL = 1 << 13
"""Elements of a variable up to which it is updated together with others: copying more costs what a call does."""
MOST_ELEMENTS = 1 << 16
"""Elements of the variables that one call updates: what is computed on the way should stay in the caches."""
LEAST_UPDATES = 3


def may_join(plan: Plan, item: HostItem) -> bool:
    """Whether an item is an update that may run together with others of its kind."""
    op, definition = item.op, item.op.definition
    if definition.predication is None or not definition.predication.by_element or not definition.effect.reads:
        return False
    if len(item.writes) != len(definition.effect.resources):
        return False
    if not all(output.dtype.is_ref for output in op._outputs) or not plan.fed.isdisjoint(op._outputs):
        return False
    if any(key is None or key in plan.handles for key in item.sources) or kernels.needs_lax(definition):
        return False
    shape = _shape(op)
    return bool(shape) and None not in shape and 0 < math.prod(shape) <= SMALL


def _shape(op: Operation) -> Any:
    """The shape of the variable that an op updates, as far as the graph says."""
    tensor = op._inputs[op.definition.resource_positions(op._attrs)[0]]
    return tensor._shape if tensor.handle_data is None else tensor.handle_data.shape


def joined(plan: Plan, items: Sequence[HostItem]) -> Iterator[Any]:
    """Consecutive updates (:func:`may_join`), those of a kind together; one that needs another stays behind it."""
    kinds: dict[Any, list[HostItem]] = {}
    written: set[ValueKey] = set()
    for item in items:
        if not written.isdisjoint(item.sources):
            yield from _of_kinds(plan, kinds)
            kinds, written = {}, set()
        attrs = tuple(
            (name, opdef.attr_key(value)) for name, value in sorted(item.op._attrs.items()) if name[:1] != "_"
        )
        kinds.setdefault((item.op.definition, attrs), []).append(item)
        written.update(item.writes)
        written.update(item.op._outputs)
    yield from _of_kinds(plan, kinds)


def _of_kinds(plan: Plan, kinds: dict[Any, list[HostItem]]) -> Iterator[Any]:
    for alike in kinds.values():
        if len(alike) < LEAST_UPDATES:
            yield from alike
        else:
            yield JointUpdates(plan, alike)


class _Part:
    """Variables that one call updates: all that their updates have in common, and what the last call has given."""

    __slots__ = ("bounds", "scalars", "sources", "states", "whole", "writes")

    def __init__(self, items: Sequence[HostItem], scalars: Sequence[int], rest: Sequence[int], states: int) -> None:
        self.scalars = [(i, items[0].sources[i]) for i in scalars]
        """The operands that are scalars: their places, and where they come from in the first update."""
        self.sources = [(i, [item.sources[i] for item in items]) for i in rest]
        """The others, which are laid end to end: their places, and where they come from in each update."""
        self.writes = [[item.writes[number] for item in items] for number in range(states)]
        self.bounds: list[tuple[int, int, tuple[int, ...]]] = []
        """Of each variable: where it begins and ends, and its shape."""
        end = 0
        for item in items:
            shape = tuple(_shape(item.op))
            begin, end = end, end + math.prod(shape)
            self.bounds.append((begin, end, shape))
        self.states: dict[int, list[np.ndarray]] = {}
        """By place of a state among the operands: its new values, which the next step finds in the variables."""
        self.whole: dict[int, np.ndarray] = {}
        """The same end to end."""


class JointUpdates:
    """Updates of one kind that follow each other in an interpreted step."""

    wave: ClassVar[int] = -1
    short: ClassVar[None] = None

    def __init__(self, plan: Plan, items: Sequence[HostItem]) -> None:
        self.items = items
        op = items[0].op
        self._definition, self._attrs = op.definition, op._attrs
        self._states = self._definition.resource_positions(op._attrs)
        self._context = kernels.HostContext(op)
        self._context.precision = plan.options.precision
        self._parts: list[_Part] | None = None
        self._equal: list[list[tuple[ValueKey, ...]]] = []
        """Where scalar operands come from: those whose values were the same when the parts were made."""

    def run(self, attempt: Attempt) -> None:
        """Update the variables."""
        attempt.step.token.at = self.items[0].op
        new = self._new_values(attempt.env)
        if new is not None:
            attempt.env.update(new)
            return
        self._parts = None
        for item in self.items:
            attempt.step.token.raise_if_cancelled()
            host_ops.run(attempt, item)

    def _new_values(self, env: dict[Any, Any]) -> dict[ValueKey, Any] | None:
        """The values that the updates write; None if one of them is to be run by itself."""
        new: dict[ValueKey, Any] = {}
        try:
            if self._parts is None or any(len({_bits(env, keys) for keys in equal}) > 1 for equal in self._equal):
                self._parts = list(self._divided(env))
            with np.errstate(all="ignore"):
                if all([self._update(env, part, new) for part in self._parts]):
                    return new
        except Exception:  # the op that fails says what it is when it runs by itself
            return None
        return None

    def _divided(self, env: dict[Any, Any]) -> Iterator[_Part]:
        """The updates whose scalar operands have the same values now, together."""
        first = [to_host(env[key]) for key in self.items[0].sources if key is not None]
        scalars = [i for i, value in enumerate(first) if value.ndim == 0]
        rest = [i for i, value in enumerate(first) if value.ndim]
        groups: dict[bytes, tuple[dict[tuple[Any, ...], None], list[HostItem]]] = {}
        for item in self.items:
            keys = tuple([item.sources[i] for i in scalars])
            sources, items = groups.setdefault(_bits(env, keys), ({}, []))
            sources[keys] = None
            items.append(item)
        self._equal = [list(sources) for sources, _ in groups.values()]
        for _, items in groups.values():
            elements, chosen = 0, list[HostItem]()
            for item in items:
                size = math.prod(_shape(item.op))
                if chosen and elements + size > MOST_ELEMENTS:
                    yield _Part(chosen, scalars, rest, len(self._states))
                    elements, chosen = 0, []
                chosen.append(item)
                elements += size
            yield _Part(chosen, scalars, rest, len(self._states))

    def _update(self, env: dict[Any, Any], part: _Part, new: dict[Any, Any]) -> bool:
        operands: list[Any] = [None] * len(self.items[0].sources)
        for place, key in part.scalars:
            operands[place] = to_host(env[key])
        dtype = None
        for place, sources in part.sources:
            arrays = [to_host(env[key]) for key in sources]
            known = part.states.get(place)
            if known is not None and all(map(is_, arrays, known)):
                operands[place] = part.whole[place]
                continue
            for array, (_, _, shape) in zip(arrays, part.bounds, strict=True):
                dtype = array.dtype if dtype is None else dtype
                if array.shape != shape or array.dtype != dtype:
                    return False
            operands[place] = np.concatenate(arrays, axis=None)
        definition = self._definition
        kernel = definition.host_kernel or definition.kernel
        assert kernel is not None
        if definition.checks is not None:
            definition.checks(self._context, operands, self._attrs)
        values = kernels.outputs_of(definition, self._attrs, kernel(self._context, operands, self._attrs))
        for place, keys, value in zip(self._states, part.writes, values, strict=False):
            whole = part.whole[place] = np.asarray(value)
            if whole.shape != operands[place].shape:
                return False
            pieces = [whole[begin:end].reshape(shape) for begin, end, shape in part.bounds]
            part.states[place] = pieces
            new.update(zip(keys, pieces, strict=True))
        return True


def _bits(env: dict[Any, Any], keys: Sequence[Any]) -> bytes:
    return b"".join([to_host(env[key]).tobytes() for key in keys])
