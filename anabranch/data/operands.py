"""Operands that stages have in common: numbers, seeds, sizes of batches."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core.contract.inference import partial_value
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import get_seed
from anabranch.core.values import dtypes


def number(value: Any, name: str, dtype: dtypes.DType = dtypes.int64) -> Tensor:
    """An operand of a stage as a scalar tensor."""
    return convert_to_tensor(value, dtype, name=name)


def seeds(seed: Any) -> tuple[Tensor, Tensor]:
    """The two seeds of a stage that draws, as TensorFlow makes them; 0 and 0 draw others."""
    first, second = get_seed(seed) if not isinstance(seed, Tensor) else (None, seed)
    if isinstance(seed, Tensor):
        first = get_seed(0)[0]
    low = constant(0, dtypes.int64, name="seed") if first is None else number(first, "seed")
    if second is None:
        return low, constant(0, dtypes.int64, name="seed2")
    with name_scope("seed2") as scope:
        high = convert_to_tensor(second, dtypes.int64)
        both = build("LogicalAnd", build("Equal", low, np.int64(0)), build("Equal", high, np.int64(0)))
        return low, build("Select", both, constant(2**31 - 1, dtypes.int64), high, name=scope)


def static_size(size: Tensor, drop: Tensor) -> int | None:
    """The size of all batches, if it is known that none has fewer elements."""
    known, drops = partial_value(size), partial_value(drop)
    if isinstance(known, np.ndarray) and isinstance(drops, np.ndarray) and bool(drops):
        return int(known)
    return None


def length(vector: Tensor, dtype: dtypes.DType) -> Tensor:
    """How many elements a vector has."""
    size: Tensor = build("StridedSlice", build("Shape", vector, out_type=dtype), [0], [1], [1], shrink_axis_mask=1)
    return size
