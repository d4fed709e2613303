"""``tf.keras.backend``: Keras' functions of tensors, and the session that version 1's programs ask it for.

Keras 3 has no learning phase: a layer is told by ``training=`` whether it trains.
"""

from __future__ import annotations

from typing import Any, NoReturn

import numpy as np

from anabranch.core import errors
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.graph import get_default_graph
from anabranch.keras import loader
from anabranch.session import Session, get_default_session

_session: list[Any] = []


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(name)
    return loader.find("backend", name)


def __dir__() -> list[str]:
    return sorted({*loader.listing("backend"), *_OWN})


def get_session() -> Any:
    """The session of a block, or the one that was set, or one of the default graph that is kept."""
    if not current_builder().defers:
        raise RuntimeError(
            "`get_session` is not available when eager execution is enabled.\n"
            + errors.message("a session where ops run at once", "a graph", "x.numpy(), which gives a value")
        )
    session = get_default_session()
    if session is not None:
        return session
    if not _session or _session[0].graph is not get_default_graph():
        _session[:] = [Session(graph=get_default_graph())]
    return _session[0]


def set_session(session: Any) -> None:
    """Have :func:`get_session` give this session."""
    _session[:] = [session]


def eval(x: Any) -> Any:
    """The value of a tensor or variable, as an array."""
    if not current_builder().defers:
        return np.asarray(x)
    return get_session().run(x)


get_value = eval


def set_value(x: Any, value: Any) -> None:
    """Give a variable a value."""
    if current_builder().defers and hasattr(x, "load"):
        x.load(value, get_session())
    else:
        x.assign(value)


def _no_phase(what: str) -> NoReturn:
    raise errors.UnimplementedError(
        None, None, errors.message(what, "Keras 3, whose layers are told each time", "model(x, training=True)")
    )


def learning_phase() -> NoReturn:
    """Not available: UnimplementedError."""
    _no_phase("tf.keras.backend.learning_phase()")


def set_learning_phase(value: Any) -> NoReturn:
    """Not available: UnimplementedError."""
    _no_phase(f"tf.keras.backend.set_learning_phase({value!r})")


_OWN = ("eval", "get_session", "get_value", "learning_phase", "set_learning_phase", "set_session", "set_value")
