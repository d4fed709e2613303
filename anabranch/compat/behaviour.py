"""Switches between TensorFlow's versions 1 and 2 in one process: version 1's behaviour is the only one here.

Turning version 2 off does nothing, as it is off; turning it on is refused.
"""

from __future__ import annotations

from typing import Any, NoReturn

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.variables.variable import Variable


@public("disable_v2_behavior")
def disable_v2_behavior() -> None:
    """Do nothing: version 1's behaviour is the only one."""


@public("disable_v2_tensorshape")
def disable_v2_tensorshape() -> None:
    """Do nothing: dimensions of shapes are ``Dimension`` objects, as in version 1."""


@public("disable_control_flow_v2")
def disable_control_flow_v2() -> None:
    """Do nothing: conditionals and loops are one kind of op here, which both versions' files are read into."""


@public("enable_control_flow_v2")
def enable_control_flow_v2() -> None:
    """Do nothing: conditionals and loops hold their bodies, as version 2's do."""


@public("control_flow_v2_enabled")
def control_flow_v2_enabled() -> bool:
    """True: conditionals and loops hold their bodies."""
    return True


def _refuse(name: str, instead: str) -> NoReturn:
    raise NotImplementedError(errors.message(f"tf.{name}()", "TensorFlow 1's behaviour, the only one here", instead))


@public("enable_v2_behavior")
def enable_v2_behavior() -> NoReturn:
    """Not available: NotImplementedError."""
    _refuse("enable_v2_behavior", "leave it out, and write for version 1")


@public("enable_v2_tensorshape")
def enable_v2_tensorshape() -> NoReturn:
    """Not available: NotImplementedError."""
    _refuse(
        "enable_v2_tensorshape", "shape.as_list(), or tf.compat.dimension_value(dimension), which both versions have"
    )


@public("is_tensor")
def is_tensor(x: Any) -> bool:
    """Whether a value is a tensor, a sparse tensor or a variable."""
    return isinstance(x, Tensor | SparseTensor | Variable)
