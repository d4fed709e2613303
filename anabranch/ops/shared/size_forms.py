"""Forms of ops on sizes: vectors and scalars of few integers, as tuples of Python's.

What a graph computes from shapes (how a gradient is broadcast back, where a concatenation is cut, the number of
segments) is an array of some integers at each step, and NumPy takes microseconds for each. Where sizes are never the
same, that was a fifth of a step. A form takes a tuple for each operand (the shape itself, for ops that look at no more
than the shape) and gives a tuple, or one for each output: a scalar is a tuple of one. An op names its maker in its
block (``of_sizes``). The maker sees operands of the ranks that the form is for, and which of them never change; it
gives None where there is no form. A form gives what the kernel does or raises
:class:`~anabranch.ops.shared.unchecked.Changed`.
"""

from __future__ import annotations

import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.ops.shared.unchecked import Changed

Sizes = tuple[int, ...]
Form = Callable[..., Any]
Maker = Callable[[Sequence[Any], Sequence[bool], dict[str, Any]], Form | None]
"""Makes a form for operands of these ranks, of which the second argument says which are constants."""


def of_shapes(make: Maker) -> Maker:
    """Mark the maker of an op whose operands are always shapes."""
    make.of_shapes = True  # type: ignore[attr-defined]
    return make


def shape(operands: Sequence[Any], fixed: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """The shape itself."""
    return lambda shape: shape


def count(operands: Sequence[Any], fixed: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """How many elements there are."""
    return lambda shape: (math.prod(shape),)


def same(operands: Sequence[Any], fixed: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """What changes no more than the dtype or the shape."""
    return lambda x, *_: x


def _only(sizes: Sizes) -> int:
    """The one size that there was when the form was made."""
    if len(sizes) != 1:
        raise Changed("another number of sizes")
    return sizes[0]


def pairwise(function: Callable[[int, int], int]) -> Maker:
    """The maker of an op on two operands that broadcast."""

    def make(operands: Sequence[Any], fixed: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
        x, y = operands
        if x.size == y.size:  # of another number of sizes (axes, say) there is no pairing: ValueError
            return lambda x, y: tuple([function(one, other) for one, other in zip(x, y, strict=True)])
        if y.size == 1:
            return lambda x, y: tuple([function(one, _only(y)) for one in x])
        return (lambda x, y: tuple([function(_only(x), one) for one in y])) if x.size == 1 else None

    return make


add, subtract, multiply = pairwise(operator.add), pairwise(operator.sub), pairwise(operator.mul)
maximum, minimum = pairwise(max), pairwise(min)


def product(operands: Sequence[Any], fixed: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """Over the one dimension that there is."""
    x, axes = operands
    return (lambda x, _: (math.prod(x),)) if x.ndim == 1 and fixed[1] and np.size(axes) == 1 else None


def part(operands: Sequence[Any], fixed: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """A part of a vector, always the same."""
    x, begin, size = operands
    if x.ndim != 1 or not all(fixed[1:]):
        return None
    start, length = int(np.ravel(begin)[0]), int(np.ravel(size)[0])
    at = slice(start, None if length == -1 else start + length)
    return lambda x, *_: x[at]


def subscript(operands: Sequence[Any], fixed: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """An element of a vector or a part of it, always the same."""
    x, *spec = operands
    if x.ndim != 1 or not all(fixed[1:]) or any(value.size != 1 for value in spec):
        return None
    if attrs["ellipsis_mask"] or attrs["new_axis_mask"]:
        return None
    begin, end, step = (int(np.ravel(value)[0]) for value in spec)
    if attrs["shrink_axis_mask"]:
        return lambda x, *_: (x[begin],)
    at = slice(None if attrs["begin_mask"] else begin, None if attrs["end_mask"] else end, step)
    return lambda x, *_: x[at]


def joined(operands: Sequence[Any], fixed: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """Vectors end to end; an axis comes last."""
    *values, _ = operands
    if any(value.ndim != 1 for value in values):
        return None
    return lambda *values: tuple(itertools.chain.from_iterable(values[:-1]))


def packed(operands: Sequence[Any], fixed: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """Scalars as a vector."""
    if any(value.ndim for value in operands):
        return None
    return lambda *values: tuple(itertools.chain.from_iterable(values))


@of_shapes
def gradient_axes(operands: Sequence[Any], fixed: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """The axes over which the gradients of a broadcast of two shapes are summed."""
    longest = max(value.size for value in operands)
    before = [(1,) * (longest - value.size) for value in operands]

    def axes(one: Sizes, other: Sizes) -> tuple[Sizes, Sizes]:
        if one == other:
            return (), ()
        one, other = before[0] + one, before[1] + other
        for a, b in zip(one, other, strict=True):
            if a not in (1, b) and b != 1:
                raise Changed("shapes that do not broadcast")
        return tuple([i for i, a in enumerate(one) if a == 1]), tuple([i for i, b in enumerate(other) if b == 1])

    return axes


@of_shapes
def offsets(operands: Sequence[Any], fixed: Sequence[bool], attrs: dict[str, Any]) -> Form | None:
    """Where in a concatenation along a dimension that is always the same each of some shapes begins."""
    place, *given = operands
    rank = given[0].size
    if not fixed[0] or not -rank <= int(place) < rank or any(value.size != rank for value in given):
        return None
    axis = int(place) % rank
    before, behind = (0,) * axis, (0,) * (rank - axis - 1)

    def starts(_: Sizes, *given: Sizes) -> tuple[Sizes, ...]:
        first, found, start = given[0], [], 0
        for one in given:
            if one[:axis] != first[:axis] or one[axis + 1 :] != first[axis + 1 :]:
                raise Changed("shapes that differ elsewhere")
            found.append((*before, start, *behind))
            start += one[axis]
        return tuple(found)

    return starts
