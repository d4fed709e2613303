"""``python.client.session`` and the stack of default sessions: what programs take from them besides sessions."""

from __future__ import annotations

from typing import Any

from anabranch.core import device
from anabranch.core.graph.operation import Operation
from anabranch.runtime import fetching
from anabranch.session import _stack, get_default_session


class _DeviceAttributes:
    """A device of a session.

    Args:
        name: its name, which becomes the canonical one.
        device_type: its type.
        memory_limit_bytes: how much memory it may use.
    """

    def __init__(self, name: str, device_type: str, memory_limit_bytes: int) -> None:
        self.name = device.canonical_name(name)
        self.device_type = device_type
        self.memory_limit_bytes = memory_limit_bytes

    def __repr__(self) -> str:
        return f"_DeviceAttributes({self.name}, {self.device_type}, {self.memory_limit_bytes})"


class _FetchHandler:
    """What a step computes: the tensors and the operations among its fetches, each once.

    Args:
        graph: the graph.
        fetches: what ``Session.run`` takes.
        feeds: what it is fed.
    """

    def __init__(self, graph: Any, fetches: Any, feeds: Any, feed_handles: Any = None) -> None:
        self._elements = fetching.FetchPlan(graph, fetches, lambda tensor, value: value).unique

    def fetches(self) -> list[Any]:
        """The tensors."""
        return [element for element in self._elements if not isinstance(element, Operation)]

    def targets(self) -> list[Any]:
        """The operations."""
        return [element for element in self._elements if isinstance(element, Operation)]


class _SessionStack:
    """The default sessions of the thread, as far as programs look at them."""

    @property
    def stack(self) -> list[Any]:
        """The sessions, the outermost first."""
        return list(_stack.sessions)

    def get_default(self) -> Any:
        """The default session; None if there is none."""
        return get_default_session()

    def is_cleared(self) -> bool:
        """Whether no session is default."""
        return not _stack.sessions

    def reset(self) -> None:
        """Leave no session as default."""
        _stack.sessions.clear()


_default_session_stack = _SessionStack()
