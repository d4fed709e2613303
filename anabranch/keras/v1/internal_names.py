"""Names that libraries import from Keras' own modules: bytecode of functions, and classes that layers take for tensors.

:mod:`anabranch.compat.internals` says under which modules of ``tensorflow.python.keras`` they are found.
"""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.keras.v1 import layer, losses, optimizers
from anabranch.keras.v1.function_code import func_dump, func_load
from anabranch.keras.v1.optimizers import schedules

__all__ = ["OptimizerV2", "ReductionV2", "func_dump", "func_load", "is_symbolic_tensor"]

OptimizerV2 = optimizers.Optimizer
learning_rate_schedule = schedules
ReductionV2 = losses.Reduction
register_symbolic_tensor_type = layer.register_symbolic_tensor_type


def is_symbolic_tensor(tensor: Any) -> bool:
    """Whether a value is a tensor of a graph, without a value yet, or of a class that stands for one."""
    if isinstance(tensor, tf.Tensor):
        return not tensor.has_value
    return isinstance(tensor, (tf.SparseTensor, tf.RaggedTensor, tf.Variable, *layer.symbolic_tensor_types()))
