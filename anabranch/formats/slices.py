"""Slices of tensors in checkpoints: how they are written as text and as keys, and how they are put together.

A slice is a tuple with ``(start, length)`` for each dimension; length -1 stands for the whole dimension (start is 0
then). Keys encode name and slice such that their order as bytes is the order of names, ranks, starts and lengths
(TensorFlow's ordered code).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.protos import tensor_pb2
from anabranch.core.values import dtypes

Slice = tuple[tuple[int, int], ...]
WHOLE = -1


# ---------------------------------------------------------------------------------------------------------------- text
def parse_spec(text: str) -> tuple[tuple[int, ...], Slice, tuple[int, ...]]:
    """``"5 2 0,3:-"`` as the whole shape (5, 2), the slice ((0, 3), (0, -1)) and its shape (3, 2).

    Raises:
        InvalidArgumentError: the text is no such specification.
    """

    def refuse(reason: str) -> errors.InvalidArgumentError:
        return errors.InvalidArgumentError(
            None,
            None,
            f"Invalid shape and slice specification {text!r}: {reason}\n"
            + errors.message(
                f"{text!r}",
                "sizes of the whole tensor, then start,length (or - for all) per dimension, joined by ':'",
                "'5 2 0,3:-' for rows 0 to 2 of a [5, 2] tensor, or '' for a whole tensor",
            ),
        )

    *sizes, parts = text.split(" ")
    try:
        shape = tuple(int(size) for size in sizes)
    except ValueError:
        raise refuse("a size is not a number") from None
    pieces = parts.split(":") if parts else []
    if len(pieces) != len(shape):
        raise refuse(f"{len(shape)} sizes and {len(pieces)} parts of the slice")
    extents: list[tuple[int, int]] = []
    for size, piece in zip(shape, pieces, strict=True):
        if piece == "-":
            extents.append((0, WHOLE))
            continue
        try:
            start, length = (int(number) for number in piece.split(","))
        except ValueError:
            raise refuse(f"{piece!r} is not 'start,length'") from None
        if start < 0 or length < 0 or start + length > size:
            raise refuse(f"{piece!r} reaches outside a dimension of size {size}")
        extents.append((start, length))
    return shape, tuple(extents), slice_shape(tuple(extents), shape)


def slice_shape(part: Slice, shape: Sequence[int]) -> tuple[int, ...]:
    """Shape of a slice of a tensor of ``shape``."""
    return tuple(size if length == WHOLE else length for (_, length), size in zip(part, shape, strict=True))


def normal(part: Slice, shape: Sequence[int]) -> Slice:
    """The slice with whole dimensions written as such, as keys and protos have them."""
    return tuple(
        (0, WHOLE) if length == WHOLE or (start == 0 and length == size) else (start, length)
        for (start, length), size in zip(part, shape, strict=True)
    )


def is_whole(part: Slice) -> bool:
    """Whether the slice is the whole tensor."""
    return all(length == WHOLE for _, length in part)


def box(part: Slice, shape: Sequence[int]) -> tuple[slice, ...]:
    """The slice as an index of an array of the whole tensor."""
    return tuple(
        slice(0, size) if length == WHOLE else slice(start, start + length)
        for (start, length), size in zip(part, shape, strict=True)
    )


def show(part: Slice) -> str:
    """The slice as text, as in errors."""
    return ":".join("-" if length == WHOLE else f"{start},{length}" for start, length in part)


# --------------------------------------------------------------------------------------------------------------- protos
def to_proto(part: Slice, proto: Any) -> None:
    """Write the slice into a ``TensorSliceProto``."""
    for start, length in part:
        extent = proto.extent.add()
        if length != WHOLE:
            extent.start = start
            extent.length = length


def from_proto(proto: Any) -> Slice:
    """The slice of a ``TensorSliceProto``."""
    return tuple(
        (extent.start, extent.length) if extent.WhichOneof("has_length_hack") else (0, WHOLE) for extent in proto.extent
    )


def is_inside(part: Slice, shape: Sequence[int]) -> bool:
    """Whether it is a slice of a tensor of ``shape``."""
    return len(part) == len(shape) and all(
        length == WHOLE or (start >= 0 and length >= 0 and start + length <= size)
        for (start, length), size in zip(part, shape, strict=True)
    )


# ----------------------------------------------------------------------------------------------------------------- keys
def _number(value: int) -> bytes:
    """A non-negative number: count of bytes, then the bytes, greatest first."""
    size = (value.bit_length() + 7) // 8
    return bytes([size]) + value.to_bytes(size, "big")


def _signed(value: int) -> bytes:
    """A number with a sign: as many leading ones as there are bytes (inverted for negatives), then its bits."""
    magnitude = ~value if value < 0 else value
    size = 1
    while magnitude >> (7 * size - 1):
        size += 1
    bits = value & ((1 << (8 * size)) - 1)
    marks = ((1 << size) - 1) << (7 * size)  # in a field of 8 * size bits
    return (bits ^ marks).to_bytes(size, "big")


def _escaped(value: bytes) -> bytes:
    if b"\0" not in value and b"\xff" not in value:
        return value
    return b"".join(b"\0\xff" if byte == 0 else b"\xff\0" if byte == 255 else bytes([byte]) for byte in value)


def key_of(name: bytes, part: Slice) -> bytes:
    """The key under which a slice of tensor ``name`` stands."""
    numbers = b"".join(_signed(number) for number in itertools.chain.from_iterable(part))
    return _number(0) + _escaped(name) + b"\0\x01" + _number(len(part)) + numbers


def as_slice_proto(part: Slice) -> Any:
    """A new ``TensorSliceProto``."""
    proto = tensor_pb2.TensorSliceProto()
    to_proto(part, proto)
    return proto


# ---------------------------------------------------------------------------------------------------------------- cover
def overlap(one: Slice, other: Slice, shape: Sequence[int]) -> tuple[tuple[int, int], ...] | None:
    """``(start, end)`` per dimension of what two slices share; None if they share nothing."""
    extents = []
    for left, right in zip(box(one, shape), box(other, shape), strict=True):
        start, end = max(left.start, right.start), min(left.stop, right.stop)
        if start >= end:
            return None
        extents.append((start, end))
    return tuple(extents)


def assembled(path: str, name: str, facts: Any, wanted: Slice, read: Callable[[Slice], np.ndarray]) -> np.ndarray:
    """A slice of a tensor put together from the slices that are stored, which ``read(slice)`` gives.

    Raises:
        InvalidArgumentError: they do not cover it.
    """
    shape = slice_shape(wanted, facts.shape)
    origin = [corner.start for corner in box(wanted, facts.shape)]
    shared = [(part, overlap(part, wanted, facts.shape)) for part in dict.fromkeys(facts.parts)]
    covered = sum(math.prod(end - start for start, end in common) for _, common in shared if common is not None)
    if covered < math.prod(shape):
        raise errors.InvalidArgumentError(
            None,
            None,
            f"{path}: the slices of tensor {name!r} do not cover {show(wanted)} of {list(facts.shape)}\n"
            + errors.message(
                f"slices {', '.join(show(part) for part in facts.parts[:5]) or 'none'}",
                "slices that cover it",
                "save all parts of the variable into one checkpoint",
            ),
        )
    pieces = []
    for part, common in shared:
        if common is not None:
            corner = [edge.start for edge in box(part, facts.shape)]
            to = tuple(slice(start - at, end - at) for (start, end), at in zip(common, origin, strict=True))
            of = tuple(slice(start - at, end - at) for (start, end), at in zip(common, corner, strict=True))
            pieces.append((to, read(part)[of]))
    assert facts.dtype.np is not None
    target = np.zeros(shape, facts.dtype.np)
    if facts.dtype == dtypes.string:
        target.fill(b"")
    for to, values in pieces:
        target[to] = values
    return target
