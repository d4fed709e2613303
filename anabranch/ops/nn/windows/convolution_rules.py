"""What the op blocks of convolutions share: shape rules, and kernels on channels-last operands with the tier's product.

Policy. Groups are not an attribute: the filter's input depth divides the input's, and the quotient is the number of
groups, as in TensorFlow. A gradient op takes the *shape* of what it computes as an operand that is known at compile
time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.kernels import uses_lax
from anabranch.core.graph.build import build
from anabranch.core.values import shapes
from anabranch.ops.nn.windows import geometry, host_convolution, xla_convolution, xla_winograd
from anabranch.ops.nn.windows.geometry import (
    axes_of,
    channels_first,
    from_last,
    shape_from_last,
    shape_to_last,
    spatial,
    to_last,
)

Kernel = Callable[..., Any]


def format_of(attrs: dict[str, Any], rank: int) -> str:
    """``data_format``, or channels last for ops that do not have it."""
    return attrs.get("data_format", "NHWC" if rank == 4 else "NDHWC")


# ---------------------------------------------------------------------------------------------------------- shape rules
def check_depths(channels: int | None, filter_shape: Sequence[int | None]) -> None:
    """Refuse a filter whose input depth does not fit the input's."""
    depth, features = filter_shape[-2], filter_shape[-1]
    if channels is None or depth is None:
        return
    if channels == depth or (channels == 0 and depth == 0):
        return
    if depth == 0 or channels % depth:
        raise ValueError(
            f"Depth of input ({channels}) is not a multiple of input depth of filter ({depth})\n"
            + errors.message(
                f"an input of {channels} channels, a filter of shape {shapes.show(tuple(filter_shape))}",
                f"a filter [..., {channels}, features], or a divisor of it for groups",
                "check data_format, or reshape the filter",
            )
        )
    if features is not None and features % (channels // depth):
        raise ValueError(
            f"depth must be evenly divisible by number of groups: {features} vs {channels // depth}\n"
            + errors.message(
                f"{features} features in {channels // depth} groups",
                "as many features as a multiple of the number of groups",
                "another number of features",
            )
        )


def conv_shape(rank: int) -> Callable[[Any], Any]:
    """Shape rule of a convolution ``(input, filter)``."""

    def shape(c: Any) -> Any:
        data_format = format_of(c.attrs, rank)
        geometry.check_attrs(c, rank, "strides", "dilations")
        source = shape_to_last(c.with_rank("input", rank), data_format)
        kernel = c.with_rank("filter", rank)
        check_depths(source[-1], kernel)
        out = geometry.output_sizes(c, source[1:-1], kernel[:-2])
        return shape_from_last((source[0], *out, kernel[-1]), data_format)

    return shape


def input_gradient_shape(rank: int) -> Callable[[Any], Any]:
    """Shape rule of an input gradient ``(input_sizes, filter, out_backprop)``."""

    def shape(c: Any) -> Any:
        data_format = format_of(c.attrs, rank)
        geometry.check_attrs(c, rank, "strides", "dilations")
        grad = c.with_rank("out_backprop", rank)
        kernel = c.with_rank("filter", rank)
        wanted = c.vector("input_sizes")
        if wanted is None:
            unknown = (None,) * rank
            return shape_from_last((grad[0], *unknown[1:]), data_format)
        if len(wanted) == rank - 2:
            return shape_from_last((grad[0], *wanted, kernel[-2]), data_format)
        if len(wanted) != rank:
            raise ValueError(
                errors.message(
                    f"input_sizes of {len(wanted)} entries (op type {c.definition.type_name!r})",
                    f"{rank} sizes in the order of {data_format}",
                    "tf.shape of the input",
                )
            )
        _check_output(c, shape_to_last(wanted, data_format), kernel, shape_to_last(grad, data_format))
        return tuple(wanted)

    return shape


def filter_gradient_shape(rank: int) -> Callable[[Any], Any]:
    """Shape rule of a filter gradient ``(input, filter_sizes, out_backprop)``."""

    def shape(c: Any) -> Any:
        data_format = format_of(c.attrs, rank)
        geometry.check_attrs(c, rank, "strides", "dilations")
        source = c.with_rank("input", rank)
        grad = c.with_rank("out_backprop", rank)
        wanted = c.vector("filter_sizes")
        if wanted is None:
            return (None,) * rank
        if len(wanted) != rank:
            raise ValueError(
                errors.message(
                    f"filter_sizes of {len(wanted)} entries (op type {c.definition.type_name!r})",
                    f"{rank} sizes: the window, input depth, output depth",
                    "tf.shape of the filter",
                )
            )
        _check_output(c, shape_to_last(source, data_format), tuple(wanted), shape_to_last(grad, data_format))
        return tuple(wanted)

    return shape


def gradient_shape(rank: int, operand: str) -> Callable[[Any], Any]:
    """Shape rule of a gradient ``(input, filter, out_backprop)`` with respect to one of the first two, by name."""

    def shape(c: Any) -> Any:
        data_format = format_of(c.attrs, rank)
        geometry.check_attrs(c, rank, "strides", "dilations")
        source, kernel, grad = [c.with_rank(name, rank) for name in ("input", "filter", "out_backprop")]
        _check_output(c, shape_to_last(source, data_format), kernel, shape_to_last(grad, data_format))
        return source if operand == "input" else kernel

    return shape


def _check_output(c: Any, source: Any, kernel: Any, grad: Any, features: int | None = None) -> None:
    """Refuse to run an output gradient that is not of the shape that the convolution would give.

    A graph may hold such an op, as a branch that is not taken, or one that the program expects to fail when it runs.
    """
    if not c.runs:
        return
    out = geometry.output_sizes(c, source[1:-1], kernel[:-2])
    depthwise = "Depthwise" in c.definition.type_name
    if depthwise:
        features = None if None in kernel[-2:] else kernel[-2] * kernel[-1]
    else:
        check_depths(source[-1], kernel)
        features = kernel[-1]
    expected = (source[0], *out, features)
    if not shapes.is_compatible(expected, grad):
        raise ValueError(
            f"{c.definition.type_name}: Size of out_backprop doesn't match computed: "
            f"actual = {shapes.show(grad)}, computed = {shapes.show(expected)}\n"
            + errors.message(
                f"out_backprop of shape {shapes.show(grad)} (channels last)",
                f"the shape of the convolution's output, {shapes.show(expected)}",
                "give the size that the padding, strides and dilations lead to",
            )
        )


# -------------------------------------------------------------------------------------------------------------- kernels
def _sizes(value: Any) -> tuple[int, ...]:
    return tuple(int(item) for item in np.asarray(value).ravel())


def _full_shape(sizes: tuple[int, ...], rank: int, data_format: str, batch: int, channels: int) -> tuple[int, ...]:
    """The channels-last shape that an ``input_sizes`` operand means."""
    return (batch, *sizes, channels) if len(sizes) == rank - 2 else shape_to_last(sizes, data_format)


FORWARD, INPUT_GRADIENT, FILTER_GRADIENT = "forward", "input gradient", "filter gradient"


def library(
    ctx: Any, kind: str, a: Any, b: Any, axes: Sequence[Any], channels: int, per_group: int, data_format: str
) -> Any:
    """What a library of the tier makes of a convolution of ``channels`` inputs, in the op's own layout, or None."""
    if per_group == 0 or channels == 0:
        return None
    groups = channels // per_group
    if ctx.host:
        return ctx.convolve(kind, a, b, axes, groups, channels_first(data_format))
    batch, features = a.shape[0], b.shape[1 if channels_first(data_format) and kind == FILTER_GRADIENT else -1]
    if channels == per_group and xla_winograd.beats_library(ctx, batch, axes, channels, features, a.dtype):
        return None
    if (
        kind == INPUT_GRADIENT
        and channels == per_group
        and not channels_first(data_format)
        and xla_convolution.planes_beat_library(ctx, batch, axes, channels, features, a.dtype)
    ):
        return None
    return ctx.convolve(kind, a, b, axes, groups, channels_first(data_format))


def conv_kernels() -> tuple[Kernel, Kernel]:
    """Compiled and host kernel of a convolution."""

    def make(product: Callable[..., Any]) -> Kernel:
        def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
            x, f = inputs
            data_format = format_of(attrs, x.ndim)
            source = shape_to_last(x.shape, data_format)
            axes = axes_of(source[1:-1], f.shape[:-2], attrs, data_format)
            by_library = library(ctx, FORWARD, x, f, axes, source[-1], f.shape[-2], data_format)
            if by_library is not None:
                return by_library
            return from_last(ctx.xp, product(ctx, to_last(ctx.xp, x, data_format), f, axes), data_format)

        return kernel

    return uses_lax(make(xla_convolution.forward)), make(lambda ctx, x, f, axes: host_convolution.forward(x, f, axes))


def input_gradient_kernels(shape_operand: bool = True) -> tuple[Kernel, Kernel]:
    """Compiled and host kernel of an input gradient; the first operand is the input's shape, or a tensor of it."""

    def make(product: Callable[..., Any]) -> Kernel:
        def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
            first, f, g = inputs
            data_format = format_of(attrs, g.ndim)
            wanted = _sizes(first) if shape_operand else first.shape
            shape = _full_shape(wanted, g.ndim, data_format, g.shape[0], f.shape[-2])
            axes = axes_of(shape[1:-1], f.shape[:-2], attrs, data_format)
            by_library = library(ctx, INPUT_GRADIENT, g, f, axes, shape[-1], f.shape[-2], data_format)
            if by_library is not None:
                return by_library
            slope = product(ctx, to_last(ctx.xp, g, data_format), f, axes, shape[-1])
            return from_last(ctx.xp, slope, data_format)

        return kernel

    host = make(lambda ctx, g, f, axes, channels: host_convolution.input_gradient(g, f, axes, channels))
    return uses_lax(make(xla_convolution.input_gradient)), host


def filter_gradient_kernels(shape_operand: bool = True) -> tuple[Kernel, Kernel]:
    """Compiled and host kernel of a filter gradient; the second operand is the filter's shape, or a tensor of it."""

    def make(product: Callable[..., Any]) -> Kernel:
        def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
            x, second, g = inputs
            data_format = format_of(attrs, g.ndim)
            source = shape_to_last(x.shape, data_format)
            shape = _sizes(second) if shape_operand else second.shape
            axes = axes_of(source[1:-1], shape[:-2], attrs, data_format)
            by_library = library(ctx, FILTER_GRADIENT, x, g, axes, source[-1], shape[-2], data_format)
            if by_library is not None:
                return by_library
            return product(ctx, to_last(ctx.xp, x, data_format), to_last(ctx.xp, g, data_format), axes, shape[-2])

        return kernel

    host = make(lambda ctx, x, g, axes, per_group: host_convolution.filter_gradient(x, g, axes, per_group))
    return uses_lax(make(xla_convolution.filter_gradient)), host


def flops(c: Any) -> float:
    """Two operations per output entry, window entry and input depth; a guess of a million where a size is unknown."""
    names = {spec.name for spec in c.definition.inputs}
    kernel = c.shape("filter") if "filter" in names else tuple(c.vector("filter_sizes") or (None,))
    output = c.shape("out_backprop") if "out_backprop" in names else c.definition.shape(c)
    window = shapes.num_elements(None if kernel is None else kernel[:-1])
    size = shapes.num_elements(output)
    return 1e6 if window is None or size is None else 2.0 * window * size


# ------------------------------------------------------------------------------------------------------------ gradients
def attrs_of(op: Any, *names: str) -> dict[str, Any]:
    """The op's attributes of these names, to pass on to a gradient op."""
    return {name: op.get_attr(name) for name in names}


def shape_tensor(tensor: Any) -> Any:
    """The shape of ``tensor`` as an int32 tensor."""
    return build("Shape", tensor)


def window_size(shape: Sequence[int], data_format: str) -> int:
    """Number of entries of a window given as an attribute in the order of ``data_format``."""
    return math.prod(spatial(shape, data_format))
