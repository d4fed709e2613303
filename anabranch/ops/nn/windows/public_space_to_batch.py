"""``tf.nn.with_space_to_batch``: any window operation with gaps between what its windows look at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.inference import partial_value
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.values import dtypes
from anabranch.ops.array.public_indexing import required_space_to_batch_paddings


def _wrong(problem: str, given: str, expected: str, instead: str) -> ValueError:
    return ValueError(f"{problem}\n" + errors.message(given, expected, instead))


def _rates(dilation_rate: Any) -> Any:
    rates = convert_to_tensor(dilation_rate, dtypes.int32, name="dilation_rate")
    if rates.shape.ndims != 1 or rates.shape.as_list()[0] is None:
        raise _wrong("rate must be rank 1", f"{dilation_rate!r}", "a number for each spatial dimension", "[2, 2]")
    known = partial_value(rates)
    if isinstance(known, np.ndarray) and (known < 1).any():
        raise _wrong("dilation_rate must be positive", f"{known.tolist()}", "numbers from 1 up", "[2, 2]")
    return rates


def _dimensions(spatial_dims: Sequence[int] | None, data_format: str | None, count: int) -> list[int]:
    if spatial_dims is None:
        start = 2 if data_format is not None and data_format.startswith("NC") else 1
        return list(range(start, start + count))
    dims = [int(dim) for dim in spatial_dims]
    if dims != sorted(set(dims)) or any(dim < 1 for dim in dims):
        raise _wrong(
            "spatial_dims must be a montonically increasing sequence of positive integers",
            f"{dims}",
            "dimensions behind the batch, in their order",
            "[1, 2]",
        )
    return dims


def _windows(filter_shape: Any, rates: Any) -> Any:
    """What SAME padding adds before and behind each dimension, for a filter with gaps."""
    if filter_shape is None:
        raise _wrong(
            "filter_shape must be specified for SAME padding",
            "padding='SAME' alone",
            "the sizes of the filter with it",
            "filter_shape=[3, 3]",
        )
    sizes: Any = convert_to_tensor(filter_shape, dtypes.int32, name="filter_shape")
    known = partial_value(sizes), partial_value(rates)
    if all(isinstance(value, np.ndarray) for value in known):
        sizes, rates = known
    added = (sizes - 1) * rates
    before = added // 2
    return build("Pack", [convert_to_tensor(before), convert_to_tensor(added - before)], axis=1)


def _spread(values: Any, dims: list[int], fill: int, width: int) -> Any:
    """Values of some dimensions as those of all from the first to the last of them, in the order of the input."""
    rows: list[Any] = []
    for dim in range(1, dims[-1] + 1):
        rows.append(values[dims.index(dim)] if dim in dims else np.full([width] if width else [], fill, np.int32))
    return build("Pack", [convert_to_tensor(row, dtypes.int32) for row in rows])


@public("nn.with_space_to_batch")
def with_space_to_batch(
    input: Any,
    dilation_rate: Any,
    padding: str,
    op: Callable[[Any, int, str], Any],
    filter_shape: Any = None,
    spatial_dims: Sequence[int] | None = None,
    data_format: str | None = None,
) -> Any:
    """Have a window operation look at every ``dilation_rate``-th place: on the input rearranged by ``space_to_batch``.

    Args:
        input: ``[batch, ...]``, with as many dimensions as ``spatial_dims`` name.
        dilation_rate: int ``[n]``, the step between what a window looks at, for each spatial dimension.
        padding: ``"SAME"`` or ``"VALID"``.
        op: gets a tensor, the number of spatial dimensions, and the padding that is left to do.
        filter_shape: int ``[n]``, the sizes of the windows; needed for SAME.
        spatial_dims: the dimensions that the windows move along; from 1 up if None, from 2 up where ``data_format``
            begins with ``"NC"``.
        data_format: see ``spatial_dims``.

    Returns:
        What ``op`` gives for the input itself if the rates are 1; else what it gives for the rearranged one, put back.

    Raises:
        ValueError: an argument is wrong, or SAME has no ``filter_shape``.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default():
        ...     x = tf.zeros([1, 8, 8, 3])
        ...     pool = lambda part, n, padding: tf.nn.pool(part, [2, 2], "MAX", padding)
        ...     print(tf.nn.with_space_to_batch(x, [2, 2], "VALID", pool).shape)
        (1, 6, 6, 3)
    """
    x = convert_to_tensor(input, name="input")
    rates = _rates(dilation_rate)
    count = rates.shape.as_list()[0]
    dims = _dimensions(spatial_dims, data_format, count)
    if x.shape.ndims is not None and x.shape.ndims <= dims[-1]:
        raise _wrong(
            f"input tensor must have rank {dims[-1] + 1} at least",
            f"an input of shape {x.shape}",
            f"dimensions {dims}",
            "spatial_dims of the input",
        )
    known = partial_value(rates)
    if isinstance(known, np.ndarray) and (known == 1).all():
        return op(x, count, padding)
    if padding not in ("SAME", "VALID"):
        raise _wrong(f"Invalid padding method {padding!r}", f"{padding!r}", "'SAME' or 'VALID'", "'SAME'")
    base = _windows(filter_shape, rates) if padding == "SAME" else np.zeros((count, 2), np.int32)
    sizes = None if x.shape.ndims is None else [x.shape.as_list()[dim] for dim in dims]
    if sizes is None or None in sizes:
        sizes = build("GatherV2", build("Shape", x), np.array(dims, np.int32), np.int32(0))
    paddings, crops = required_space_to_batch_paddings(sizes, rates, base)
    blocks = _spread(rates, dims, 1, 0)
    paddings, crops = _spread(paddings, dims, 0, 2), _spread(crops, dims, 0, 2)
    result = op(build("SpaceToBatchND", x, blocks, paddings), count, "VALID")
    return build("BatchToSpaceND", result, blocks, crops)
