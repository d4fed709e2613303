"""Seeds: how the graph's seed and an op's seed make the two seeds that a random op gets, as in TensorFlow 1.x.

With neither seed the two are None and the op draws its own when it first runs. A graph seed alone takes the number of
operations made so far as the op's seed, so that a program that builds the same graph draws the same numbers; an op seed
alone is combined with a fixed graph seed. ``(0, 0)`` means 'no seed' to the kernels and is replaced.

A public function that is made of fewer or other operations than TensorFlow's says so (:func:`counted_as`,
:func:`count_more`, :class:`OperationCount`), and what is drawn behind it is what TensorFlow 1.15 draws;
``tests/core/graph/test_random_seeds.py`` says which do.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph.builder import current_builder

DEFAULT_GRAPH_SEED = 87654321
_MAX_INT32 = 2**31 - 1


@contextlib.contextmanager
def counted_as(number: int, captures: bool = True) -> Iterator[None]:
    """A block whose operations count as ``number`` for the seeds behind it.

    ``captures`` says whether what is captured from outside a body is more: TensorFlow, too, has an operation for each.
    """
    builder = current_builder()
    if not builder.defers:  # where ops run at once each asks for a seed of its own
        yield
        return
    before, captured = builder._last_id, builder._captured
    yield
    if captures:
        number += builder._captured - captured
    builder._count(before + number - builder._last_id)


def count_more(number: int) -> None:
    """Let seeds behind it count ``number`` operations more than there are."""
    current_builder()._count(number)


def in_function() -> bool:
    """Whether a function that a kernel calls is built: in these a conditional or a loop of TensorFlow is one operation,
    with one for each result, and not its switches and merges.
    """
    builder: Any = current_builder()
    return bool(builder.defers) and builder.current_body.called is not None


@contextlib.contextmanager
def entering() -> Iterator[set[Any]]:
    """A block that TensorFlow builds in a conditional: each tensor that it takes from before counts as an operation.

    Yields a set that holds these tensors after the block.
    """
    builder: Any = current_builder()
    entered: set[Any] = set()
    if not builder.defers or builder.building_function:
        yield entered
        return
    before, builder._entering = builder._entering, len(builder._operations)
    try:
        yield entered
    finally:
        entered.update(builder._entered())
        builder._entering = before
        builder._count(len(entered))


class OperationCount:
    """What the seeds of what follows count since this was made, in a function that counts at several places."""

    def __init__(self) -> None:
        self._builder = current_builder()
        self._before = self._builder._last_id - self._builder._captured if self._builder.defers else 0

    def set(self, total: int) -> None:
        """Have them count what was built since as ``total`` operations, and one for each tensor that came in."""
        if self._builder.defers:
            self._builder._count(total - (self._builder._last_id - self._builder._captured - self._before))


@public("get_seed", "random.get_seed")
def get_seed(op_seed: int | None) -> tuple[int | None, int | None]:
    """The pair of seeds for an operation with the seed ``op_seed`` in the default graph."""
    builder = current_builder()
    if builder.seed is not None:
        op_seed = builder._last_id if op_seed is None else op_seed
        seeds: tuple[int | None, int | None] = (builder.seed % _MAX_INT32, op_seed % _MAX_INT32)
    elif op_seed is not None:
        seeds = (DEFAULT_GRAPH_SEED, op_seed % _MAX_INT32)
    else:
        seeds = (None, None)
    return (0, _MAX_INT32) if seeds == (0, 0) else seeds


@public("set_random_seed", "random.set_random_seed")
def set_random_seed(seed: int | None) -> None:
    """Set the seed of the default graph."""
    current_builder().seed = seed
