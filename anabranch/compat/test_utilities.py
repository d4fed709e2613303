"""Helpers of ``tensorflow.python.framework.test_util`` that TensorFlow's own tests, and tests like them, use."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.core import errors


def assert_ops_in_graph(expected_ops: dict[str, str], graph: Any) -> dict[str, Any]:
    """Check that a graph has ops of given names and types, and return their nodes."""
    nodes = {node.name: node for node in graph.as_graph_def().node if node.name in expected_ops}
    wrong = {name: kind for name, kind in expected_ops.items() if name not in nodes or nodes[name].op != kind}
    if wrong:
        raise ValueError(
            errors.message(f"a graph without {wrong}", f"ops {expected_ops}", "look at graph.as_graph_def()")
        )
    return nodes


def run_in_graph_and_eager_modes(func: Callable[..., Any] | None = None, **options: Any) -> Any:
    """Decorator of tests that run in both modes: the test runs once, in a graph.

    Args:
        func: the test.
        **options: ``use_gpu`` and ``config`` of the session; others concern the eager mode, which does not run.
    """
    used = {key: options[key] for key in ("config", "use_gpu") if key in options}

    def decorate(test: Callable[..., Any]) -> Callable[..., Any]:
        def run(self: Any, *args: Any, **kwargs: Any) -> Any:
            with self.test_session(**used):
                return test(self, *args, **kwargs)

        run.__name__, run.__doc__ = test.__name__, test.__doc__
        return run

    return decorate if func is None else decorate(func)


def run_deprecated_v1(description: Any = None) -> Any:
    """Decorator of tests that asks for graphs: there is nothing else here."""
    return description if callable(description) else lambda test: test


run_v1_only = run_deprecated_v1


def run_all_in_graph_and_eager_modes(cls: Any) -> Any:
    """Decorator of classes of tests that run in both modes: here they run in a graph."""
    return cls
