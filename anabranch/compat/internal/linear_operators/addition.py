"""``tensorflow.python.ops.linalg.linear_operator_addition``: sums of linear operators that keep what is known of them.

Policy. Two operators are added by the first adder of :data:`_TIERS` that takes both: sums of scaled identities stay
such, then diagonals, then lower triangles; anything else becomes a full matrix. A tier does all that it can before the
next one begins.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors

_linalg = tf.linalg
_IDENTITIES = (_linalg.LinearOperatorIdentity, _linalg.LinearOperatorScaledIdentity)
_DIAGONALS = (*_IDENTITIES, _linalg.LinearOperatorDiag)


class _Adder:
    """Add two operators of some classes.

    Attributes:
        kinds: the classes.
    """

    kinds: tuple[type, ...] = ()

    def can_add(self, op1: Any, op2: Any) -> bool:
        """Whether both operators are of those classes."""
        return isinstance(op1, self.kinds) and isinstance(op2, self.kinds)

    def add(self, op1: Any, op2: Any, operator_name: str | None, hints: dict[str, Any] | None = None) -> Any:
        """An operator like ``op1 + op2``; hints that are given replace what follows from the two."""
        name = f"Add/{op1.name}__{op2.name}/" if operator_name is None else operator_name
        with tf.name_scope(type(self).__name__.lstrip("_"), values=[*op1.graph_parents, *op2.graph_parents]):
            return self._sum(op1, op2, name=name, **_implied(op1, op2, hints or {}))

    def _sum(self, op1: Any, op2: Any, **hints: Any) -> Any:
        raise NotImplementedError


def _implied(op1: Any, op2: Any, hints: dict[str, Any]) -> dict[str, Any]:
    """What holds of a sum: it is self-adjoint, or positive definite, if both are, and then not singular."""
    implied = dict(hints)
    for hint in ("is_self_adjoint", "is_positive_definite"):
        if implied.get(hint) is None:
            implied[hint] = getattr(op1, hint) and getattr(op2, hint)
    if implied["is_positive_definite"] and hints.get("is_positive_definite") is None:
        implied["is_non_singular"] = True
    return implied


def _multiplier(operator: Any) -> Any:
    if isinstance(operator, _linalg.LinearOperatorScaledIdentity):
        return operator.multiplier
    return tf.ones(operator.batch_shape_tensor(), operator.dtype)


def _dense_sum(op1: Any, op2: Any) -> Any:
    """The sum as a matrix; the operator that is cheaper to add is added to the other one's matrix."""
    added, dense = (op1, op2) if isinstance(op1, _DIAGONALS) else (op2, op1)
    return added.add_to_tensor(dense.to_dense())


class _AddAndReturnScaledIdentity(_Adder):
    """Sums of identities and their multiples."""

    kinds = _IDENTITIES

    def _sum(self, op1: Any, op2: Any, **hints: Any) -> Any:
        multiplier = _multiplier(op1) + _multiplier(op2)
        return _linalg.LinearOperatorScaledIdentity(op1.range_dimension_tensor(), multiplier, **hints)


class _AddAndReturnDiag(_Adder):
    """Sums of diagonal operators."""

    kinds = _DIAGONALS

    def _sum(self, op1: Any, op2: Any, **hints: Any) -> Any:
        return _linalg.LinearOperatorDiag(op1.diag_part() + op2.diag_part(), **hints)


class _AddAndReturnTriL(_Adder):
    """Sums of lower triangular operators."""

    kinds = (*_DIAGONALS, _linalg.LinearOperatorLowerTriangular)

    def _sum(self, op1: Any, op2: Any, **hints: Any) -> Any:
        return _linalg.LinearOperatorLowerTriangular(_dense_sum(op1, op2), **hints)


class _AddAndReturnMatrix(_Adder):
    """Sums of any operators, as matrices."""

    kinds = (_linalg.LinearOperator,)

    def _sum(self, op1: Any, op2: Any, **hints: Any) -> Any:
        return _linalg.LinearOperatorFullMatrix(_dense_sum(op1, op2), **hints)


_TIERS: list[Sequence[_Adder]] = [
    [_AddAndReturnScaledIdentity()],
    [_AddAndReturnDiag()],
    [_AddAndReturnTriL()],
    [_AddAndReturnMatrix()],
]


def add_operators(
    operators: Iterable[Any],
    operator_name: str | None = None,
    addition_tiers: Sequence[Sequence[Any]] | None = None,
    name: str | None = None,
) -> list[Any]:
    """Operators whose sum is that of the given ones, as few as the adders can make.

    Args:
        operators: linear operators of one dtype and one shape but for batches that broadcast.
        operator_name: the name of what an addition gives; by default it tells what was added.
        addition_tiers: adders, by tiers; by default one operator is left.
        name: name scope.

    Raises:
        ValueError: dimensions differ, batches do not broadcast, or there is no operator.
        TypeError: one of them is not a linear operator.
    """
    left = list(operators)
    if not left or not all(isinstance(one, _linalg.LinearOperator) for one in left):
        raise (TypeError if left else ValueError)(
            "Argument 'operators' must contain "
            f"{'only LinearOperator instances' if left else 'at least one operator'}. Found: {left}\n"
            + errors.message(f"{left!r}", "a list of linear operators", "[tf.linalg.LinearOperatorIdentity(2)]")
        )
    for dimension in ("domain_dimension", "range_dimension"):
        sizes = [(one.name, tf.dimension_value(getattr(one, dimension))) for one in left]
        if len({size for _, size in sizes if size is not None}) > 1:
            raise ValueError(
                f"Operators must have the same {dimension.replace('_', ' ')}. Found: {sizes}\n"
                + errors.message(f"sizes {sizes}", "operators of one shape", "one size for all of them")
            )
    batch = left[0].batch_shape
    for one in left[1:]:
        batch = tf.broadcast_static_shape(batch, one.batch_shape)
    parents = [parent for one in left for parent in one.graph_parents]
    left.reverse()
    with tf.name_scope(name, "add_operators", parents):
        for tier in _TIERS if addition_tiers is None else addition_tiers:
            left = _added_in_pairs(left, tier, operator_name)
    return left


def _added_in_pairs(operators: list[Any], tier: Sequence[Any], operator_name: str | None) -> list[Any]:
    """Operators of which no two can be added by an adder of the tier, with the sum of the given ones.

    The last one is taken first, and added to the one nearest to the end that an adder takes.
    """
    waiting, apart = list(operators), []
    while waiting:
        first = waiting.pop()
        places = ((place, adder) for place in reversed(range(len(waiting))) for adder in tier)
        match = next(((place, adder) for place, adder in places if adder.can_add(first, waiting[place])), None)
        if match is None:
            apart.append(first)
        else:
            place, adder = match
            waiting.append(adder.add(first, waiting.pop(place), operator_name))
    return apart
