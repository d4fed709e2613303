"""Tests in both modes: in a graph, and where ops run at once."""

from __future__ import annotations

import contextlib
import unittest
from collections.abc import Callable
from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.graph import Graph
from anabranch.eager import mode
from anabranch.eager.mode import EAGER
from anabranch.session import Session


@public("contrib.eager.run_test_in_graph_and_eager_modes")
def run_in_graph_and_eager_modes(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Decorator of tests that run in both modes: the test runs in a graph, and then once more where ops run at once.

    Args:
        func: the test.
        **options: ``use_gpu`` and ``config`` of the session; ``assert_no_eager_garbage`` has no effect.
    """
    used = {key: options[key] for key in ("config", "use_gpu") if key in options}

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            # A test that skips itself in a graph may be one of the other mode.
            with contextlib.suppress(unittest.SkipTest), mode.graph_mode(), self.test_session(**used):
                test(self, *args, **kwargs)
            self.tearDown()
            self._folder = None
            with Graph().as_default(), mode.eager_mode():
                self.setUp()
                test(self, *args, **kwargs)

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate if func is None else decorate(func)


@public("contrib.eager.run_all_tests_in_graph_and_eager_modes")
def run_all_in_graph_and_eager_modes(cls: Any) -> Any:
    """Decorator of classes of tests that run in both modes."""
    for name in dir(cls):
        test = getattr(cls, name)
        if name.startswith("test") and name != "test_session" and callable(test):
            setattr(cls, name, run_in_graph_and_eager_modes(test))
    return cls


@public("contrib.eager.IsolateTest")
class IsolateTest:
    """A block that has state of its own: a graph and a session, or, where ops run at once, a global step and scopes."""

    def __init__(self) -> None:
        self._entered = contextlib.ExitStack()
        if current_builder().defers:
            self._graph: Graph | None = Graph()
            self._session: Session | None = Session(graph=self._graph)
        else:
            self._graph = self._session = None

    def __enter__(self) -> None:
        if self._graph is not None and self._session is not None:
            self._entered.enter_context(self._graph.as_default())
            self._entered.enter_context(self._session.as_default())
            return
        before, EAGER._library_state = EAGER._library_state, None
        self._entered.callback(setattr, EAGER, "_library_state", before)

    def __exit__(self, *error: Any) -> None:
        self._entered.close()


__all__ = ["IsolateTest", "run_all_in_graph_and_eager_modes", "run_in_graph_and_eager_modes"]
