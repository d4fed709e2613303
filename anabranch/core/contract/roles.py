"""What the system may know of an op besides its contract: roles, costs and symbols.

Policy. No layer above ``ops`` asks which type an op is. A pass that must recognise ops asks one of these questions of
the op's definition, and each op of the kind answers it in its own block, whatever its name:

- ``passes``: which operand it hands on, unchanged;
- ``elementwise``, ``moves``: whether it computes element by element, or rearranges elements without arithmetic;
- ``symbol``: which Python operator it stands for;
- ``factors``: whether it is a sum of products over rows, and of what;
- ``cost``: whether its work follows its elements, looks rows up by their numbers, or is more than that;
- ``role``: what remains, one :class:`Role`: a place in the structure of a graph, or in a pattern that programs treat in
  a way of their own.

``docs/notes/0002-op-contract.md`` says how each is derived, and ``tests/ops/test_claims.py`` checks each op's claims
against its kernel.
"""

from __future__ import annotations

import enum
import operator
from collections.abc import Callable
from typing import Any

import numpy as np


class Role(enum.Enum):
    """The part that an op plays in a graph, or in a pattern that a pass looks for."""

    CONSTANT = "a value that its attribute `value` holds"
    PLACEHOLDER = "what a step may feed"
    ARGUMENT = "an argument of a nested body, number `index`"
    COPY = "its operand as it is when the op runs: of a variable, not the value that those who take it would read"
    ORDERING = "nothing but a place for control edges"
    FLOW = "control flow of graphs of version 1: what it hands on may be dead, or of another iteration"

    CONDITIONAL = "runs one of its bodies; operand 0 chooses it, the others are the bodies' arguments"
    LOOP = "runs its body `body` while its body `cond` says so; its operands are the variables"
    CALL = "runs its body with its operands"

    OPTIONAL_NONE = "an optional without values"
    OPTIONAL_WRAP = "an optional of its operands"
    OPTIONAL_UNWRAP = "the values of an optional"
    OPTIONAL_TEST = "whether an optional has values"

    LIST_EMPTY = "a list without elements"
    LIST_NEW = "a list of as many empty places as operand 1 says"
    LIST_OF_ROWS = "a list of the rows of operand 0"
    LIST_PUSH = "list 0 with operand 1 behind it"
    LIST_POP = "list 0 without its last element, and that element"
    LIST_WRITE = "list 0 with other elements; operand 1 says where"
    LIST_RESIZE = "list 0, with or without elements at its end"
    LIST_LENGTH = "the length of list 0"
    LIST_SHAPE = "the shape of the elements of list 0"

    CAST = "operand 0 in another dtype"
    SHAPE = "the shapes of its operands, as vectors"
    SUBSCRIPT = "operand 0 at begin, end and strides, with masks"
    WINDOW = "operand 0 from begin on, of a size"
    SPLIT = "equal parts of its operand `value` along the other one; where `axis` is an attribute, its positions there"
    JOIN = "its operands `values` in a row along the other one; where `axis` is an attribute, along a new dimension"
    ROWS = "the rows of operand 0 that operand 1 names, along a dimension"
    ROW_SUMS = "sums of the rows of operand 0 by the numbers in operand 1, as many as operand 2 says"
    DISTINCT = "the distinct elements of a vector, and for each of its elements the number of the one that it is"


BODIES = frozenset((Role.CONDITIONAL, Role.LOOP, Role.CALL))
"""Roles of ops that hold bodies."""


class Cost(enum.Enum):
    """How much work an op is."""

    ELEMENTS = "follows the elements that it takes and gives"
    WINDOWS = "multiplies windows of its elements with a filter"
    INDEXED = "looks up, adds up or writes rows by their numbers: a check, and random access"
    HEAVY = "more than a small multiple of its elements: a factorisation, a transform, a sort, a search"


SYMBOLS: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add,
    "-": operator.sub,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "and": operator.and_,
    "min": np.minimum,
}
"""Symbols of ops that stand for an operator of Python, element by element, and that operator."""

__all__ = ["BODIES", "SYMBOLS", "Cost", "Role"]
