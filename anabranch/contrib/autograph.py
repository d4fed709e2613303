"""``tf.contrib.autograph``: control flow of Python that may depend on tensors, where it was before ``tf.autograph``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.core.contract.api import module_attributes, public
from anabranch.eager import autograph

__getattr__, __dir__ = module_attributes("contrib.autograph")


@public("contrib.autograph.to_graph")
def to_graph(entity: Any, recursive: bool = True, experimental_optional_features: Any = None) -> Any:
    """A function whose control flow may depend on tensors of a graph; see `tf.autograph.to_graph`."""
    return autograph.to_graph(entity, recursive, experimental_optional_features=experimental_optional_features)


@public("contrib.autograph.to_code")
def to_code(entity: Any, recursive: bool = True, experimental_optional_features: Any = None) -> str:
    """The source of what :func:`to_graph` makes; see `tf.autograph.to_code`."""
    return autograph.to_code(entity, recursive, experimental_optional_features=experimental_optional_features)


@public("contrib.autograph.convert")
def convert(
    recursive: bool = False, optional_features: Any = None, user_requested: bool = True
) -> Callable[[Any], Any]:
    """Decorator: let the control flow of a function depend on tensors.

    Args:
        recursive: convert what it calls, too; that is done in any case.
        optional_features: not needed; all features are there.
        user_requested: likewise.

    Raises:
        ImportError: the extra ``autograph`` is not installed.

    Example:
        >>> import anabranch as tf
        >>> @tf.contrib.autograph.convert()
        ... def magnitude(x):
        ...     if x < 0:
        ...         return -x
        ...     return x
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     float(session.run(magnitude(tf.constant(-2.0))))
        2.0
    """
    del optional_features, user_requested
    return lambda function: autograph.to_graph(function, recursive)


@public("contrib.autograph.do_not_convert")
def do_not_convert(func: Any = None) -> Any:
    """Decorator: take a function as it stands."""
    return autograph.do_not_convert(func)


@public("contrib.autograph.stack")
def stack(list_or_tensor: Any, element_dtype: Any = None, strict: bool = True) -> Any:
    """The tensor that the elements of a list make, ``[n, ...]``; a tensor as it is.

    Args:
        list_or_tensor: a list of tensors of one shape, or a tensor.
        element_dtype: dtype of the elements; what they have if None.
        strict: refuse all else: ValueError; without it, it is handed back.
    """
    if isinstance(list_or_tensor, (list, tuple)):
        return tf.stack([tf.convert_to_tensor(item, element_dtype) for item in list_or_tensor])
    if strict and not isinstance(list_or_tensor, tf.Tensor):
        raise ValueError(f"cannot stack {list_or_tensor!r}\nExpected: a list of tensors\nInstead: stack([x, y])")
    return list_or_tensor
