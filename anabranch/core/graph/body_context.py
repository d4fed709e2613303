"""Where an operation stands, in the words of TensorFlow's control flow contexts.

Libraries ask an operation or a graph for its context to find out whether they build inside a loop or a conditional.
The answer follows from the body; nothing here runs by it.
"""

from __future__ import annotations

from typing import Any

from anabranch.core.contract.roles import Role


class BodyContext:
    """A nested body of a graph: a branch of a conditional, or the condition or the body of a loop."""

    __slots__ = ("body",)

    def __init__(self, body: Any) -> None:
        self.body = body

    @property
    def name(self) -> str:
        """Name of the body."""
        return str(self.body.name)

    @property
    def outer_context(self) -> BodyContext | None:
        """The context around this one; None at the top of the graph."""
        return context_of(self.body.parent)

    @property
    def grad_state(self) -> None:
        """None: what the gradient of a loop needs is found when it is built."""
        return None

    def IsWhileContext(self) -> bool:
        """Whether it belongs to a loop."""
        owner = self.body.owner
        # Until the loop is complete, its bodies have no owner, but the name that the loop gives them.
        if owner is None:
            return str(self.body.name).rsplit("/", 1)[-1].startswith("while_")
        return owner.role is Role.LOOP

    def IsCondContext(self) -> bool:
        """Whether it is a branch of a conditional."""
        owner = self.body.owner
        return owner.role is Role.CONDITIONAL if owner is not None else not self.IsWhileContext()

    def IsXLAContext(self) -> bool:
        """False: all is compiled, and nothing depends on where."""
        return False

    def GetWhileContext(self) -> BodyContext | None:
        """The innermost context of a loop that this one is in, itself among them."""
        return self if self.IsWhileContext() else self.outer_context and self.outer_context.GetWhileContext()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, BodyContext) and other.body is self.body

    def __hash__(self) -> int:
        return hash(self.body)

    def __repr__(self) -> str:
        return f"<BodyContext {self.name!r}>"


def context_of(body: Any) -> BodyContext | None:
    """The context of a body; None for the top of a graph."""
    return None if body is None or body.is_root else BodyContext(body)
