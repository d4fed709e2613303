"""What the Python functions of a segment returned, so that a segment which was overtaken need not call them again.

A function is called again only if its inputs have changed meanwhile. If they did because a run of its own wrote what
they depend on, no number of attempts could bring the two into an order: that is refused at the second call. What the
inner runs wrote stands, as they have committed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.graph.operation import Operation


class Recorded(dict[Any, Any]):
    """Inputs and results by op."""

    def __init__(self) -> None:
        super().__init__()
        self.changed: Sequence[str] = ()
        """What runs inside the functions have changed of the segment's variables and random streams, by name."""

    def check(self, op: Operation) -> None:
        """Asked before a function is called again with other inputs.

        Raises:
            AbortedError: its own runs are the reason.
        """
        if self.changed:
            names = ", ".join(map(repr, self.changed))
            raise errors.AbortedError(
                None,
                op,
                errors.message(
                    f"the Python function of {op.name!r}, whose inputs depend on {names}, and which has changed that "
                    "by a run of its own",
                    "a function that runs steps on other variables than those that its inputs depend on",
                    "make the change an operation of the outer step, or read the variable by a run inside the function",
                ),
            )


def same(left: Sequence[Any], right: Sequence[Any]) -> bool:
    """Whether two lists of inputs are equal."""
    return len(left) == len(right) and all(
        a is b
        or (
            isinstance(a, np.ndarray)
            and isinstance(b, np.ndarray)
            and a.dtype == b.dtype
            and np.array_equal(a, b, equal_nan=a.dtype.kind in "fc")
        )
        for a, b in zip(left, right, strict=True)
    )
