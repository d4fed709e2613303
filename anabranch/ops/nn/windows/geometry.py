"""The arithmetic of sliding windows: output sizes, padding, and the attributes that convolutions and poolings share.

Policy. A window op works on arrays with the channels last, whatever ``data_format`` says; format, strides and padding
are resolved here, once, into one :class:`Axis` per spatial dimension, from which kernels of both tiers read how far
to pad and where to step.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors


class Axis(NamedTuple):
    """One spatial dimension: its sizes and how a window moves along it."""

    size: int
    window: int
    stride: int
    dilation: int
    out: int
    before: int

    @property
    def extent(self) -> int:
        """How far a window reaches."""
        return (self.window - 1) * self.dilation + 1

    @property
    def after(self) -> int:
        """Entries behind the input that the last window needs; negative if it ends before the input does."""
        return (self.out - 1) * self.stride + self.extent - self.size - self.before if self.out else -self.size


def channels_first(data_format: str) -> bool:
    """Whether dimension 1 counts channels."""
    return data_format.startswith("NC") or data_format == "CHANNELS_FIRST"


def spatial(values: Sequence[Any], data_format: str) -> tuple[Any, ...]:
    """The entries of a list or shape in the order of ``data_format`` that belong to spatial dimensions."""
    return tuple(values[2:]) if channels_first(data_format) else tuple(values[1:-1])


def to_last(xp: Any, x: Any, data_format: str) -> Any:
    """``x`` with its channels last."""
    return xp.moveaxis(x, 1, -1) if channels_first(data_format) else x


def from_last(xp: Any, x: Any, data_format: str) -> Any:
    """Undo :func:`to_last`."""
    return xp.moveaxis(x, -1, 1) if channels_first(data_format) else x


def shape_to_last(shape: Sequence[Any], data_format: str) -> tuple[Any, ...]:
    """A shape with its channels last."""
    return (shape[0], *shape[2:], shape[1]) if channels_first(data_format) else tuple(shape)


def shape_from_last(shape: Sequence[Any], data_format: str) -> tuple[Any, ...]:
    """Undo :func:`shape_to_last`."""
    return (shape[0], shape[-1], *shape[1:-1]) if channels_first(data_format) else tuple(shape)


def output_size(
    size: int | None,
    window: int | None,
    stride: int,
    dilation: int = 1,
    padding: str = "VALID",
    explicit: tuple[int, int] = (0, 0),
    whole: bool = False,
) -> int | None:
    """Number of positions of a window; None if a size is unknown.

    A step takes a window that is larger by less than a stride for one without positions, as TensorFlow's does; a graph
    (``whole``) refuses all that do not fit.

    Raises:
        ValueError: the window does not fit.
    """
    if stride < 1 or dilation < 1 or (window is not None and window < 1):
        raise ValueError(
            errors.message(
                f"a window of {window} entries, with stride {stride} and dilation {dilation}",
                "numbers of at least 1",
                "give positive sizes of windows, strides and dilations",
            )
        )
    for name, value in (("strides", stride), ("dilations", dilation), ("ksize", window)):
        if value is not None and value >= 2**31:
            raise ValueError(
                f"Attr {name} has value {value} out of range for an int32\n"
                + errors.message(f"{name} of {value}", "numbers below 2**31", "smaller ones")
            )
    if size is None:
        return None
    if padding == "SAME":
        return -(-size // stride)
    if window is None:
        return None
    extent = (window - 1) * dilation + 1
    padded = size + sum(explicit) if padding == "EXPLICIT" else size
    out = (padded - extent + stride) // stride
    if out < 0 or (whole and extent > padded):
        raise ValueError(
            f"Negative dimension size caused by subtracting {extent} from {padded}\n"
            + errors.message(
                f"a window that reaches over {extent} entries, on {padded}",
                "a window that fits into the input",
                "padding='SAME', a smaller window or dilation, or a larger input",
            )
        )
    return out


def axis(
    size: int, window: int, stride: int, dilation: int = 1, padding: str = "VALID", explicit: tuple[int, int] = (0, 0)
) -> Axis:
    """The resolved :class:`Axis`; the odd entry of SAME padding comes behind."""
    out = output_size(size, window, stride, dilation, padding, explicit)
    assert out is not None
    if padding == "EXPLICIT":
        before = explicit[0]
    elif padding == "SAME":
        before = max((out - 1) * stride + (window - 1) * dilation + 1 - size, 0) // 2
    else:
        before = 0
    return Axis(size, window, stride, dilation, out, before)


def explicit_pairs(attrs: dict[str, Any]) -> tuple[tuple[int, int], ...] | None:
    """Spatial pairs of ``explicit_paddings``; None unless the padding is EXPLICIT."""
    if attrs["padding"] != "EXPLICIT":
        return None
    flat = attrs["explicit_paddings"]
    pairs = tuple(zip(flat[::2], flat[1::2], strict=True))
    return spatial(pairs, attrs["data_format"])


def axes_of(
    sizes: Sequence[int], windows: Sequence[int], attrs: dict[str, Any], data_format: str | None = None
) -> tuple[Axis, ...]:
    """One :class:`Axis` per spatial dimension from an op's attributes."""
    data_format = data_format or attrs.get("data_format", "NHWC")
    strides = spatial(attrs["strides"], data_format)
    dilations = spatial(attrs["dilations"], data_format) if "dilations" in attrs else (1,) * len(sizes)
    pairs = explicit_pairs(attrs) or ((0, 0),) * len(sizes)
    return tuple(
        axis(size, window, stride, dilation, attrs["padding"], pair)
        for size, window, stride, dilation, pair in zip(sizes, windows, strides, dilations, pairs, strict=True)
    )


def output_sizes(c: Any, sizes: Sequence[int | None], windows: Sequence[int | None]) -> tuple[int | None, ...]:
    """Spatial output sizes for a shape rule; errors name the op type."""
    attrs = c.attrs
    data_format = attrs.get("data_format", "NHWC" if len(sizes) == 2 else "NDHWC")
    strides = spatial(attrs["strides"], data_format)
    dilations = spatial(attrs["dilations"], data_format) if "dilations" in attrs else (1,) * len(sizes)
    pairs = explicit_pairs(attrs) or ((0, 0),) * len(sizes)
    try:
        return tuple(
            output_size(size, window, stride, dilation, attrs["padding"], pair, whole=c.added)
            for size, window, stride, dilation, pair in zip(sizes, windows, strides, dilations, pairs, strict=True)
        )
    except ValueError as problem:
        first, _, details = str(problem).partition("\n")
        if not c.added:  # a graph says itself which op it is
            first = f"{first} for op type {c.definition.type_name!r}"
        raise ValueError(f"{first}\n{details}") from None


def check_attrs(c: Any, rank: int, *names: str) -> None:
    """Refuse stride-like attributes that have the wrong length, are not positive, or step over batch or channels."""
    attrs = c.attrs
    data_format = attrs.get("data_format", "NHWC" if rank == 4 else "NDHWC")
    for name in names:
        values = attrs[name]
        if len(values) != rank:
            raise ValueError(
                f"{c.definition.type_name} requires the {name} attribute to contain {rank} values, "
                f"but got: {len(values)}\n"
                + errors.message(
                    f"{name}={list(values)}",
                    f"{rank} values, one per dimension of {data_format}",
                    f"{name}={[1, 2, 2, 1] if rank == 4 else [1, 2, 2, 2, 1]}",
                )
            )
        if min(values) < 1:
            raise ValueError(errors.message(f"{name}={list(values)}", "positive numbers", f"{name} of 1 and more"))
        batch_channel = (values[0], values[1] if channels_first(data_format) else values[-1])
        if batch_channel != (1, 1):
            raise ValueError(
                errors.message(
                    f"{name}={list(values)} with data_format={data_format!r} (op type {c.definition.type_name!r})",
                    f"1 for batch and channels: no {name} there",
                    "check the order of data_format",
                )
            )
    if "explicit_paddings" in attrs:
        _check_explicit(c, rank, data_format)


def _check_explicit(c: Any, rank: int, data_format: str) -> None:
    flat, padding = c.attrs["explicit_paddings"], c.attrs["padding"]
    if (padding == "EXPLICIT") != bool(flat):
        raise ValueError(
            errors.message(
                f"padding={padding!r} with explicit_paddings={list(flat)}",
                "explicit_paddings with padding='EXPLICIT' and only there",
                "padding='EXPLICIT', explicit_paddings=[0, 0, top, bottom, left, right, 0, 0]",
            )
        )
    if not flat:
        return
    first = channels_first(data_format)
    ends = list(flat[:2]) + list(flat[2:4] if first else flat[-2:])
    if len(flat) != 2 * rank or min(flat) < 0 or any(ends):
        raise ValueError(
            errors.message(
                f"explicit_paddings={list(flat)} (op type {c.definition.type_name!r})",
                f"{2 * rank} numbers of at least 0, in pairs per dimension of {data_format}, 0 for batch and channels",
                "explicit_paddings=[0, 0, top, bottom, left, right, 0, 0] for NHWC",
            )
        )


def pad_spatial(xp: Any, x: Any, axes: Sequence[Axis], value: Any = 0) -> Any:
    """``x`` (channels last) padded, or cut, so that each window position lies inside."""
    cut = tuple(slice(0, a.size + min(a.after, 0)) for a in axes)
    if any(a.after < 0 for a in axes):
        x = x[(slice(None), *cut)]
    pads = [(0, 0)] + [(a.before, max(a.after, 0)) for a in axes] + [(0, 0)]
    if not any(lo or hi for lo, hi in pads):
        return x
    if xp is not np:
        return xp.pad(x, pads, constant_values=x.dtype.type(value))
    # `np.pad` takes as long as a small image.
    whole = np.empty([size + lo + hi for size, (lo, hi) in zip(x.shape, pads, strict=True)], x.dtype)
    inside: list[slice] = []
    for size, (lo, hi) in zip(x.shape, pads, strict=True):
        if lo:
            whole[(*inside, slice(0, lo))] = value
        if hi:
            whole[(*inside, slice(lo + size, None))] = value
        inside.append(slice(lo, lo + size))
    whole[tuple(inside)] = x
    return whole


def tap(padded: Any, axes: Sequence[Axis], offsets: Sequence[int]) -> Any:
    """For each window position, the entry at ``offsets`` in it: ``[batch, *out, channels]``."""
    cuts = tuple(
        slice(t * a.dilation, t * a.dilation + (a.out - 1) * a.stride + 1 if a.out else t * a.dilation, a.stride)
        for a, t in zip(axes, offsets, strict=True)
    )
    return padded[(slice(None), *cuts)]


_SINGLE = Axis(1, 1, 1, 1, 1, 0)


def covered_axis(axes: Sequence[Axis]) -> int | None:
    """The last dimension that one window covers just so: its entries are channels (words by embedding, last maps)."""
    whole = [i for i, a in enumerate(axes) if a.window == a.size > 1 and a.dilation == a.out == 1 and a.before == 0]
    return whole[-1] if whole else None


def as_channels(xp: Any, x: Any, dimension: int) -> Any:
    """``x`` with a dimension folded into the channels, a single entry in its place."""
    moved = xp.moveaxis(x, dimension, -2)
    folded = moved.reshape(moved.shape[:-2] + (moved.shape[-2] * moved.shape[-1],))
    return xp.expand_dims(folded, dimension)


def from_channels(xp: Any, x: Any, dimension: int, size: int) -> Any:
    """Undo :func:`as_channels`."""
    squeezed = xp.squeeze(x, dimension)
    return xp.moveaxis(squeezed.reshape(squeezed.shape[:-1] + (size, -1)), -2, dimension)


def without_axis(axes: Sequence[Axis], dimension: int) -> list[Axis]:
    """The axes with a single entry in the place of one."""
    return [_SINGLE if i == dimension else a for i, a in enumerate(axes)]


def fold_filter(xp: Any, f: Any, dimension: int) -> Any:
    """A filter ``[*window, in, out]`` with a dimension of its window folded into its input channels."""
    return xp.moveaxis(as_channels(xp, xp.moveaxis(f, -1, 0), dimension + 1), 0, -1)
