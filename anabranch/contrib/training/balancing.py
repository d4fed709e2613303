"""Which parameter server takes a variable: the one that has least to do."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public


@public("contrib.training.byte_size_load_fn")
def byte_size_load_fn(op: Any) -> int:
    """The bytes of a variable op's value, as a load.

    Raises:
        ValueError: the shape of the op's output is not known.
    """
    if len(op.outputs) != 1:
        raise ValueError(errors.message(f"{op.name} of {len(op.outputs)} outputs", "one output", "a variable's op"))
    output = op.outputs[0]
    is_variable = output.dtype.base_dtype.name == "resource" and "shape" in op.node_def.attr
    shape = op.get_attr("shape") if is_variable else output.shape
    dtype = op.get_attr("dtype") if is_variable else output.dtype
    shape = shape if hasattr(shape, "is_fully_defined") else output.shape
    if not shape.is_fully_defined():
        raise ValueError(errors.message(f"{op.name} of shape {shape}", "a known shape", "tf.get_variable(..., shape)"))
    return shape.num_elements() * dtype.base_dtype.size


@public("contrib.training.GreedyLoadBalancingStrategy")
class GreedyLoadBalancingStrategy:
    """For ``tf.train.replica_device_setter(ps_strategy=...)``: each op goes to the task with the least load.

    Args:
        num_tasks: how many parameter servers there are.
        load_fn: op -> its load.
    """

    def __init__(self, num_tasks: int, load_fn: Callable[[Any], float]) -> None:
        self._loads = [0.0] * num_tasks
        self._load_fn = load_fn

    def __call__(self, op: Any) -> int:
        """The task for an op."""
        task = min(range(len(self._loads)), key=self._loads.__getitem__)
        self._loads[task] += self._load_fn(op)
        return task


@public("contrib.training.RandomStrategy")
class RandomStrategy:
    """For ``tf.train.replica_device_setter(ps_strategy=...)``: each op goes to a random task, the same one in each run.

    Args:
        num_ps_tasks: how many parameter servers there are.
        seed: of the choice.
    """

    def __init__(self, num_ps_tasks: int, seed: int = 0) -> None:
        self._count, self._seed = num_ps_tasks, seed

    def __call__(self, op: Any) -> int:
        """The task for an op, by its name."""
        return int(hashlib.md5(f"{op.name}_{self._seed}".encode()).hexdigest(), 16) % self._count
