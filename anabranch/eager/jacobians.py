"""Jacobians: the gradients for many starts by one walk that a loop repeats.

The gradient ops for one start are traced once, as the body of a ``map_fn`` over the numbers of the starts; a start is
made of its number, so that not all of them lie in memory. Where a graph is built, the loop belongs to that graph, and a
target of a million elements adds no more ops to it than one of two. Where ops run at once, few starts are walked one
after another, as tracing costs some thirty walks; many are traced into a function, which is called once.

What a tape noted of a program's own rules (``tf.custom_gradient``, ``py_function``, calls of functions) is Python that
wants values: such walks are taken one by one, and so are those that the program asks not to be traced.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.values import dtypes
from anabranch.eager import recording
from anabranch.eager.function_graph import FunctionGraph
from anabranch.eager.graph_function import GraphFunction
from anabranch.ops.control.public_map import map_fn
from anabranch.ops.shared.array_rules import shape_of

FEW = 32
"""Starts up to which they are walked one after another where ops run at once."""

Walk = Callable[[Any], list[Any]]
"""From a start to the gradient of each source; None for those that it does not reach."""


def starts_of(target: Any, batched: bool) -> tuple[Callable[[Any], Any], Any]:
    """What makes a start of its number, and how many there are: an integer where the shape says so.

    Args:
        target: a tensor ``[*sizes]``, or ``[batch, *sizes]`` where it is batched.
        batched: whether a start concerns an element of each row instead of one element.
    """
    sizes = sizes_of(target)
    one, zero = constant(1, target.dtype.base), constant(0, target.dtype.base)
    inner = sizes[1:] if batched else sizes
    count = 1
    if isinstance(sizes, list):
        for size in inner:
            count *= size
    else:
        count = build("Prod", inner, [0])

    def start(number: Any) -> Any:
        row = build("OneHot", number, count, one, zero)
        if not batched:
            return build("Reshape", row, sizes)
        rows = build("Tile", build("ExpandDims", row, 0), joined(sizes[:1], [1]))
        return build("Reshape", rows, sizes)

    return start, count


def sizes_of(tensor: Any) -> Any:
    """The shape of a tensor or variable as a list of integers if it is known, else as a tensor."""
    return tensor.shape.as_list() if tensor.shape.is_fully_defined() else shape_of(convert_to_tensor(tensor))


def joined(*parts: Any) -> Any:
    """Shapes one after another, as a list if they are known."""
    if all(isinstance(part, list) for part in parts):
        return [size for part in parts for size in part]
    return build("ConcatV2", [constant(part, dtypes.int32) if isinstance(part, list) else part for part in parts], 0)


def by_elements(target: Any, source: Any, rows: Any) -> Any:
    """The gradients of the elements of a target one after another ``[count, *source]`` as ``[*target, *source]``."""
    return build("Reshape", rows, joined(sizes_of(target), sizes_of(source)))


def by_rows(target: Any, source: Any, rows: Any) -> Any:
    """The gradients of the elements of each row ``[count, batch, *source]`` as ``[batch, *target, *source]``."""
    whole = joined(sizes_of(target), sizes_of(source)[1:])
    return build("Reshape", build("Transpose", rows, [1, 0, *range(2, rows.shape.ndims)]), whole)


def stacked_gradients(walk: Walk, start: Callable[[Any], Any], count: Any, traced: bool) -> list[Any]:
    """For each source its gradients for all starts ``[count, *source]``, or None.

    Args:
        walk: the gradients of the sources for a start.
        start: makes a start of its number.
        count: how many there are.
        traced: whether the walk may be traced.
    """
    if current_builder().defers:
        return _mapped(walk, start, count) if traced or not isinstance(count, int) else _one_by_one(walk, start, count)
    if not traced or count <= FEW:
        return _one_by_one(walk, start, count)
    graph = FunctionGraph("jacobian")
    with graph.as_default(), recording.stopped():
        stacked = _mapped(walk, start, count)
    function = GraphFunction.of_graph(graph, (), [gradient for gradient in stacked if gradient is not None])
    results = iter(function.call(()))
    return [None if gradient is None else next(results) for gradient in stacked]


def _one_by_one(walk: Walk, start: Callable[[Any], Any], count: int) -> list[Any]:
    rows: list[list[Any]] = []
    if not count:  # of no elements: as many rows of what one more would give
        found = [None if gradient is None else convert_to_tensor(gradient) for gradient in walk(start(0))]
        return [
            None if part is None else build("Fill", joined([0], sizes_of(part)), constant(0, part.dtype.base))
            for part in found
        ]
    for number in range(count):
        row = [None if gradient is None else convert_to_tensor(gradient) for gradient in walk(start(number))]
        rows.append(row)
        if all(gradient is None for gradient in row):
            return row
    return [
        None if any(part is None for part in parts) else build("Pack", list(parts), axis=0)
        for parts in zip(*rows, strict=True)
    ]


def _mapped(walk: Walk, start: Callable[[Any], Any], count: Any) -> list[Any]:
    first = walk(start(0))
    reached = [i for i, gradient in enumerate(first) if gradient is not None]
    if not reached:
        return first

    def row(number: Any) -> list[Any]:
        gradients = walk(start(number))
        return [convert_to_tensor(gradients[i]) for i in reached]

    kinds = [first[i].dtype.base for i in reached]
    stacked: list[Any] = [None] * len(first)
    for i, rows in zip(reached, map_fn(row, build("Range", 0, count, 1), dtype=kinds), strict=True):
        stacked[i] = rows
    return stacked


def has_plain_rules(views: Sequence[Any]) -> bool:
    """Whether all that was noted has the rules of its op types."""
    return not any(hasattr(view, "_gradient_function") for view in views)
