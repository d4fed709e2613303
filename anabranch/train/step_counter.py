"""The global step: an integer variable that counts training steps, one per graph, in the collection ``global_step``."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.graph import Graph, get_default_graph
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes
from anabranch.variables.initializers import Zeros
from anabranch.variables.scope import get_variable
from anabranch.variables.variable import Variable

_STEPS = ("__global_steps",)  # where there is no graph, and so no collection that would hold it


@public("train.global_step")
def global_step(sess: Any, global_step_tensor: Any) -> int:
    """The value of ``global_step_tensor`` in session ``sess``, as an int."""
    return int(sess.run(global_step_tensor))


@public("train.get_global_step")
def get_global_step(graph: Graph | None = None) -> Any:
    """The global step of ``graph``, or None if it has none.

    Raises:
        TypeError: what is registered, or called ``global_step:0``, is not an integer scalar.
    """
    builder = graph or current_builder()
    if not builder.defers:
        steps: list[Any] = builder.library_state(_STEPS, list)
        return steps[0] if steps else None
    graph = graph or get_default_graph()
    steps = graph.get_collection(GraphKeys.GLOBAL_STEP)
    if len(steps) > 1:
        raise TypeError(
            "Multiple 'global_step' tensors found.\n"
            + errors.message(
                f"{len(steps)} global steps in the graph",
                "exactly one global step",
                "tf.train.get_or_create_global_step()",
            )
        )
    if steps:
        step = steps[0]
    else:
        try:
            step = graph.get_tensor_by_name("global_step:0")
        except KeyError:
            return None
    assert_global_step(step)
    return step


def value_before_step(step: Any) -> Any:
    """The value of a global step before what a step adds to it, as a tensor to fetch in that step."""
    return step.value() if isinstance(step, Variable) else step


@public("train.create_global_step")
def create_global_step(graph: Graph | None = None) -> Any:
    """Make the global step of ``graph``: int64, zero, not trainable.

    Raises:
        ValueError: there is one already.
    """
    builder = graph or current_builder()
    if get_global_step(graph) is not None:
        raise ValueError(
            '"global_step" already exists.\n'
            + errors.message("a second global step", "one per graph", "tf.train.get_or_create_global_step()")
        )
    with builder.as_default(), builder.name_scope(None):
        step = get_variable(
            GraphKeys.GLOBAL_STEP,
            shape=[],
            dtype=dtypes.int64,
            initializer=Zeros(),
            trainable=False,
            collections=[GraphKeys.GLOBAL_VARIABLES, GraphKeys.GLOBAL_STEP],
        )
    if not builder.defers:
        builder.library_state(_STEPS, list).append(step)
    return step


@public("train.get_or_create_global_step")
def get_or_create_global_step(graph: Graph | None = None) -> Any:
    """The global step of ``graph``, made if it has none."""
    step = get_global_step(graph)
    return create_global_step(graph) if step is None else step


@public("train.assert_global_step")
def assert_global_step(global_step_tensor: Any) -> None:
    """Raise TypeError unless ``global_step_tensor`` is a scalar integer tensor or variable."""
    advice = "tf.train.create_global_step()"
    if not isinstance(global_step_tensor, (Tensor, Variable)):
        raise TypeError(
            f"Existing 'global_step' must be a Variable or Tensor: {global_step_tensor!r}.\n"
            + errors.message(f"a {type(global_step_tensor).__name__}", "a variable or tensor", advice)
        )
    if not global_step_tensor.dtype.base_dtype.is_integer:
        raise TypeError(
            f"Existing 'global_step' does not have integer type: {global_step_tensor.dtype}\n"
            + errors.message(f"a global step of {global_step_tensor.dtype.name}", "an integer", advice)
        )
    shape = global_step_tensor.get_shape()
    if shape.ndims != 0 and shape.is_fully_defined():
        raise TypeError(
            f"Existing 'global_step' is not scalar: {shape}\n"
            + errors.message(f"a global step of shape {shape}", "a scalar", advice)
        )
