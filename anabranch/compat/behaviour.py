"""Switches between TensorFlow's versions 1 and 2 in one process: version 1's behaviour, unless a program asks.

Version 2's is switched as a whole: ops that run at once, shapes of ints, equality of elements
(:mod:`anabranch.core.values.version_two`).
"""

from __future__ import annotations

from typing import Any, NoReturn

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.graph.tensor import TensorLike
from anabranch.core.values import version_two
from anabranch.eager.mode import disable_eager_execution, enable_eager_execution
from anabranch.variables.variable import Variable


@public("disable_v2_behavior")
def disable_v2_behavior() -> None:
    """Build graphs, with version 1's shapes and equality of tensors, from now on and in all threads."""
    if version_two.is_everywhere():
        version_two.set_everywhere(False)
        disable_eager_execution()


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


@public("disable_tensor_equality")
def disable_tensor_equality() -> None:
    """Do nothing: tensors are equal if they are one and the same, as in version 1."""


@public("enable_tensor_equality")
def enable_tensor_equality() -> None:
    """Refused: equality of elements comes with version 2's behaviour as a whole.

    Raises:
        NotImplementedError: always.
    """
    _refuse("enable_tensor_equality", "tf.equal(x, y), or tf.enable_v2_behavior() at the beginning of the program")


@public("enable_v2_behavior")
def enable_v2_behavior() -> None:
    """Run ops when they are applied, with version 2's shapes and equality; for the beginning of a program.

    ``x.shape[0]`` is an int or None, and ``x == y`` compares element by element. Names stay version 1's:
    ``tf.compat.v2`` has the others.

    Raises:
        ValueError: the default graph has been used already.
    """
    enable_eager_execution()
    version_two.set_everywhere(True)


@public("enable_v2_tensorshape")
def enable_v2_tensorshape() -> NoReturn:
    """Not available: NotImplementedError."""
    _refuse(
        "enable_v2_tensorshape",
        "tf.enable_v2_behavior(), or shape.as_list(), which both versions have",
    )


@public("is_tensor")
def is_tensor(x: Any) -> bool:
    """Whether a value is a tensor, a sparse tensor, slices of one, or a variable."""
    return isinstance(x, Tensor | TensorLike | SparseTensor | IndexedSlices | Variable)
