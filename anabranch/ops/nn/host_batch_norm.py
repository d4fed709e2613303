"""Batch normalization in NumPy of arrays whose channels come last: the interpreted tier's passes over the data.

Policy. NumPy's inner loop is as long as the last dimension, which few channels leave short: several rows of channels
are one row here, and vectors of channels are repeated as often. What is needed in between is made block by block, so
that it stays in the caches.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from anabranch.core.values import spare_arrays

WIDTH = 1 << 10
"""Elements that rows of channels are joined up to."""
BLOCK = 1 << 15
"""Elements of a block."""


def rows_of(x: np.ndarray) -> np.ndarray:
    """``[rows, times * channels]``: as many rows of channels in one as there are powers of two for."""
    times, channels = 1, x.shape[-1]
    count = x.size // channels
    while count % (2 * times) == 0 and 2 * times * channels <= WIDTH:
        times *= 2
    return x.reshape(-1, times * channels)


def _blocks(rows: np.ndarray) -> Iterator[slice]:
    step = max(1, BLOCK // rows.shape[1])
    return (slice(first, first + step) for first in range(0, rows.shape[0], step))


def _of_channels(total: np.ndarray, channels: int) -> np.ndarray:
    return np.add.reduce(total.reshape(-1, channels), 0)


def moments(x: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and biased variance of each channel; there is at least one row."""
    rows, channels = rows_of(x), x.shape[-1]
    share = x.dtype.type(channels / x.size)
    mean = _of_channels(np.add.reduce(rows, 0), channels) * share
    repeated = np.tile(mean, rows.shape[1] // channels)
    total = np.zeros(rows.shape[1], x.dtype)
    for block in _blocks(rows):
        centred = rows[block] - repeated
        total += np.add.reduce(np.multiply(centred, centred, centred), 0)
    return mean, _of_channels(total, channels) * share


def normalized(x: np.ndarray, mean: Any, slope: Any, offset: Any) -> np.ndarray:
    """``(x - mean) * slope + offset``."""
    rows = rows_of(x)
    mean, slope, offset = (np.tile(value, rows.shape[1] // x.shape[-1]) for value in (mean, slope, offset))
    out = spare_arrays.empty(rows.shape, x.dtype)
    for block in _blocks(rows):
        part = np.subtract(rows[block], mean, out[block])
        part *= slope
        part += offset
    return out.reshape(x.shape)


def sums(grad: np.ndarray, x: np.ndarray, mean: Any) -> tuple[np.ndarray, np.ndarray]:
    """Of each channel the sums of ``grad`` and of ``grad * (x - mean)``."""
    rows, of_grad, channels = rows_of(x), rows_of(grad), x.shape[-1]
    repeated = np.tile(mean, rows.shape[1] // channels)
    total = np.zeros(rows.shape[1], x.dtype)
    for block in _blocks(rows):
        centred = rows[block] - repeated
        total += np.add.reduce(np.multiply(centred, of_grad[block], centred), 0)
    return _of_channels(np.add.reduce(of_grad, 0), channels), _of_channels(total, channels)


def input_gradient(grad: np.ndarray, x: np.ndarray, mean: Any, share: Any, slope: Any, factor: Any) -> np.ndarray:
    """``(grad - share - (x - mean) * slope) * factor``, with vectors of channels."""
    rows, of_grad = rows_of(x), rows_of(grad)
    times = rows.shape[1] // x.shape[-1]
    mean, share, slope, factor = (np.tile(value, times) for value in (mean, share, slope, factor))
    out = spare_arrays.empty(rows.shape, x.dtype)
    for block in _blocks(rows):
        centred = rows[block] - mean
        centred *= slope
        part = np.subtract(of_grad[block], share, out[block])
        part -= centred
        part *= factor
    return out.reshape(x.shape)
