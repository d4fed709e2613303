"""``tf.raw_ops``: each op type as a function whose arguments are named as in the op's definition, or its API's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.core.contract import opdef
from anabranch.core.graph.build import build

_REDUCTIONS = ("All", "Any", "EuclideanNorm", "Max", "Mean", "Min", "Prod", "Sum")
_RENAMED = {
    **{name: {"axis": "reduction_indices"} for name in _REDUCTIONS},
    "ExpandDims": {"axis": "dim"},
    "Select": {"x": "t", "y": "e"},
    "Split": {"axis": "split_dim"},
    "SplitV": {"axis": "split_dim"},
    "Squeeze": {"axis": "squeeze_dims"},
    "Where": {"condition": "input"},
}
"""Arguments that TensorFlow's API calls by another name than the definition; both are taken."""


def _function(type_name: str) -> Callable[..., Any]:
    renamed = _RENAMED.get(type_name, {})

    def call(*, name: str | None = None, **arguments: Any) -> Any:
        return build(type_name, name=name, **{renamed.get(key, key): value for key, value in arguments.items()})

    call.__name__ = call.__qualname__ = type_name
    call.__doc__ = opdef.lookup(type_name).doc
    return call


def __getattr__(name: str) -> Callable[..., Any]:
    if name.startswith("_") or opdef.find(name) is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}", name=name)
    function = globals()[name] = _function(name)
    return function


def __dir__() -> list[str]:
    return sorted(opdef.all_definitions())
