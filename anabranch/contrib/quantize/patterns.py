"""Patterns of operations: an op of some types, whose inputs match patterns in turn.

A match knows for each pattern which op and which tensor it stands for, so that a rewrite can pick them out.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.graph.operation import Operation, Tensor


class MatchResult:
    """Ops and tensors by the patterns that they match."""

    def __init__(self) -> None:
        self._places: dict[Pattern, tuple[Operation, Tensor | None]] = {}
        self._names: dict[str, Pattern] = {}

    def add(self, pattern: Pattern, op: Operation, tensor: Tensor | None) -> None:
        """Note what a pattern stands for; ValueError if its name is taken."""
        self._places[pattern] = op, tensor
        if pattern.name is not None:
            if pattern.name in self._names:
                raise ValueError(
                    f"Name {pattern.name} is already bound to another pattern\n"
                    + errors.message(f"two patterns named {pattern.name!r}", "names of their own", "name=None")
                )
            self._names[pattern.name] = pattern

    def merge_from(self, other_match_result: MatchResult) -> None:
        """Take over what another match knows."""
        self._places.update(other_match_result._places)
        self._names.update(other_match_result._names)

    def _place(self, wanted: Any) -> tuple[Operation | None, Tensor | None]:
        if isinstance(wanted, str):
            wanted = self._names.get(wanted)
        elif not isinstance(wanted, Pattern):
            raise ValueError(
                f"pattern_or_name has type {type(wanted)}. Expect Pattern or str.\n"
                + errors.message(f"a {type(wanted).__name__}", "a pattern or its name", "match.get_op(pattern)")
            )
        return self._places.get(wanted, (None, None))

    def get_op(self, pattern_or_name: Any) -> Any:
        """The op that a pattern stands for; None if it is not part of the match."""
        return self._place(pattern_or_name)[0]

    def get_tensor(self, pattern_or_name: Any) -> Any:
        """The tensor that a pattern stands for; None if it is the output of the match, or not part of it."""
        return self._place(pattern_or_name)[1]


class Pattern:
    """What may match an op."""

    name: str | None = None

    def match(self, op: Operation, tensor: Tensor | None) -> MatchResult | None:
        """The match of the pattern with an op of which ``tensor`` is an output; None if there is none."""
        raise NotImplementedError(
            errors.message("a pattern without match()", "a pattern of ops", "OpTypePattern or OneofPattern")
        )


class OpTypePattern(Pattern):
    """An op of some types.

    Args:
        op_type: types, with ``|`` between them; ``*`` for all.
        name: name by which a match knows the op.
        inputs: a pattern or types for each input; nothing is asked of inputs by default.
        ordered_inputs: whether the patterns are in the order of the inputs.
    """

    def __init__(
        self, op_type: str, name: str | None = None, inputs: Sequence[Any] | None = None, ordered_inputs: bool = True
    ) -> None:
        self._types = None if op_type == "*" else frozenset(op_type.split("|"))
        self.name = name
        self._inputs = [each if isinstance(each, Pattern) else OpTypePattern(each) for each in inputs or ()]
        self._ordered = ordered_inputs

    def match(self, op: Operation, tensor: Tensor | None) -> MatchResult | None:
        """The match with an op; None if its type or an input does not fit."""
        if self._types is not None and op.type not in self._types:
            return None
        if self._inputs and len(op.inputs) != len(self._inputs):
            return None
        orders = [self._inputs] if self._ordered or not self._inputs else itertools.permutations(self._inputs)
        for patterns in orders:
            result = MatchResult()
            result.add(self, op, tensor)
            if self._match_inputs(op, patterns, result):
                return result
        return None

    @staticmethod
    def _match_inputs(op: Operation, patterns: Iterable[Pattern], result: MatchResult) -> bool:
        for given, pattern in zip(op.inputs, patterns, strict=False):
            found = pattern.match(given.op, given)
            if found is None:
                return False
            result.merge_from(found)
        return True


class OneofPattern(Pattern):
    """The first of some patterns that matches.

    Args:
        sub_patterns: the patterns.
    """

    def __init__(self, sub_patterns: Sequence[Pattern]) -> None:
        self._patterns = sub_patterns

    def match(self, op: Operation, tensor: Tensor | None) -> MatchResult | None:
        """The match of the first pattern that has one."""
        return next((found for each in self._patterns if (found := each.match(op, tensor)) is not None), None)


class GraphMatcher:
    """Matches of a pattern in a graph.

    Args:
        pattern: the pattern.
    """

    def __init__(self, pattern: Pattern) -> None:
        self._pattern = pattern

    def match_op(self, op: Operation) -> MatchResult | None:
        """The match with an op; None if there is none."""
        return self._pattern.match(op, None)

    def match_ops(self, ops: Iterable[Operation]) -> Iterator[MatchResult]:
        """The matches with ops."""
        return (found for op in ops if (found := self.match_op(op)) is not None)

    def match_graph(self, graph: Any) -> Iterator[MatchResult]:
        """The matches with the ops of a graph, in the order in which they were made."""
        return self.match_ops(graph.get_operations())
