"""Public functions of pooling, in one, two and three dimensions.

Policy. As for convolutions: every spelling of TensorFlow 1.x, one op. One dimension is two with a height of 1.
"""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import name_scope
from anabranch.ops.array.public_indexing import required_space_to_batch_paddings
from anabranch.ops.nn.windows.geometry import channels_first
from anabranch.ops.nn.windows.public_convolution import either, op_format, paddings, sequence


def _pool(
    type_name: str, value: Any, n: int, ksize: Any, strides: Any, padding: Any, data_format: Any, scope: Any
) -> Any:
    form = op_format(data_format, n)
    attrs = paddings(padding, n, form, type_name)
    if attrs["padding"] == "EXPLICIT" and type_name != "MaxPool":
        raise NotImplementedError(
            errors.message(
                f"explicit padding of {type_name}", "'SAME' or 'VALID'", "tf.pad the input, then padding='VALID'"
            )
        )
    return build(
        type_name,
        value,
        ksize=sequence(ksize, n, form, "ksize"),
        strides=sequence(strides, n, form, "strides"),
        data_format=form,
        name=scope,
        **attrs,
    )


@public("nn.max_pool")
def max_pool(
    value: Any = None,
    ksize: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Any:
    """The maximum of each window.

    Args:
        value: ``[batch, height, width, channels]``; ``input`` is its other name.
        ksize: size of the window: four numbers in the order of ``data_format``, two, or one.
        strides: steps of the window, likewise.
        padding: ``"SAME"``, ``"VALID"``, or four pairs.
        data_format: ``"NHWC"`` or ``"NCHW"``.
        name: name of the op.

    Example:
        >>> import anabranch as tf
        >>> images = tf.placeholder(tf.float32, [None, 28, 28, 32])
        >>> tf.nn.max_pool(images, [1, 2, 2, 1], [1, 2, 2, 1], "SAME").shape.as_list()
        [None, 14, 14, 32]
    """
    value = either(input, value, "input", "value")
    with name_scope(name, "MaxPool", [value]) as scope:
        return _pool("MaxPool", value, 2, ksize, strides, padding, data_format, scope)


@public("nn.max_pool2d")
def max_pool2d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NHWC", name: str | None = None
) -> Any:
    """The maximum of each window of images; arguments are those of :func:`max_pool`."""
    with name_scope(name, "MaxPool2d", [input]) as scope:
        return _pool("MaxPool", input, 2, ksize, strides, padding, data_format, scope)


@public("nn.avg_pool", "nn.avg_pool2d")
def avg_pool(
    value: Any = None,
    ksize: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
) -> Any:
    """The mean of each window, over the entries that are not padding; arguments are those of :func:`max_pool`."""
    value = either(input, value, "input", "value")
    with name_scope(name, "AvgPool", [value]) as scope:
        return _pool("AvgPool", value, 2, ksize, strides, padding, data_format, scope)


@public("nn.max_pool_v2")
def max_pool_v2(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = None, name: str | None = None
) -> Any:
    """The maximum of each window in one, two or three spatial dimensions, as many as the input has.

    Args:
        input: ``[batch, ..., channels]``, or as ``data_format`` says.
        ksize: size of the window, for each dimension, each spatial dimension, or all of them.
        strides: steps of the window, likewise.
        padding: ``"SAME"`` or ``"VALID"``.
        data_format: ``"NWC"``, ``"NHWC"``, ``"NDHWC"``, or with the channels in dimension 1.
        name: name of the op.
    """
    return _any_rank("MaxPool", input, ksize, strides, padding, data_format, name)


@public("nn.avg_pool_v2")
def avg_pool_v2(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None = None, name: str | None = None
) -> Any:
    """The mean of each window, over the entries that are not padding; arguments are those of :func:`max_pool_v2`."""
    return _any_rank("AvgPool", input, ksize, strides, padding, data_format, name)


def _any_rank(
    type_name: str, input: Any, ksize: Any, strides: Any, padding: Any, data_format: str | None, name: str | None
) -> Any:
    with name_scope(name, type_name, [input]) as scope:
        x = convert.convert_to_tensor(input, name="input")
        n = (x.shape.ndims if x.shape.ndims is not None else len(data_format or "NHWC")) - 2
        if n not in (1, 2, 3):
            raise ValueError(
                errors.message(
                    f"an input of shape {x.shape}",
                    "one, two or three spatial dimensions beside batch and channels",
                    "tf.expand_dims(x, -1)",
                )
            )
        if n == 1:
            return pool1d(type_name, x, ksize, strides, padding, op_format(data_format, 1))
        return _pool(f"{type_name}3D" if n == 3 else type_name, x, n, ksize, strides, padding, data_format, scope)


def _fractional(
    type_name: str,
    value: Any,
    pooling_ratio: Any,
    pseudo_random: bool,
    overlapping: bool,
    deterministic: bool,
    seed: int,
    seed2: int,
    name: str | None,
) -> Any:
    return build(
        type_name,
        value,
        pooling_ratio=pooling_ratio,
        pseudo_random=pseudo_random,
        overlapping=overlapping,
        deterministic=deterministic,
        seed=seed,
        seed2=seed2,
        name=name,
    )


@public("nn.fractional_max_pool")
def fractional_max_pool(
    value: Any,
    pooling_ratio: Any,
    pseudo_random: bool = False,
    overlapping: bool = False,
    deterministic: bool = False,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> Any:
    """The maximum of each window, where windows of two sizes alternate at random, so that any ratio can be met.

    Args:
        value: ``[batch, height, width, channels]``.
        pooling_ratio: four numbers, by which sizes shrink; 1.0 for batch and channels.
        pseudo_random: regions by a random offset (regular), instead of in random order.
        overlapping: neighbouring windows share the rows and columns at their boundary.
        deterministic: every run takes the same regions, those of ``seed`` and ``seed2`` if one of them is not 0.
        seed: seed of the regions, with ``deterministic`` alone.
        seed2: its second half.
        name: name of the op.

    Returns:
        ``(output, row_pooling_sequence, col_pooling_sequence)``; the sequences tell where windows begin.
    """
    return _fractional(
        "FractionalMaxPool", value, pooling_ratio, pseudo_random, overlapping, deterministic, seed, seed2, name
    )


@public("nn.fractional_avg_pool")
def fractional_avg_pool(
    value: Any,
    pooling_ratio: Any,
    pseudo_random: bool = False,
    overlapping: bool = False,
    deterministic: bool = False,
    seed: int = 0,
    seed2: int = 0,
    name: str | None = None,
) -> Any:
    """The mean of each window; arguments and results are those of :func:`fractional_max_pool`."""
    return _fractional(
        "FractionalAvgPool", value, pooling_ratio, pseudo_random, overlapping, deterministic, seed, seed2, name
    )


@public("nn.max_pool3d")
def max_pool3d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NDHWC", name: str | None = None
) -> Any:
    """The maximum of each window of ``[batch, depth, height, width, channels]``; arguments as for :func:`max_pool`."""
    return _pool("MaxPool3D", input, 3, ksize, strides, padding, data_format, name)


@public("nn.avg_pool3d")
def avg_pool3d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NDHWC", name: str | None = None
) -> Any:
    """The mean of each window of ``[batch, depth, height, width, channels]``; arguments as for :func:`avg_pool`."""
    return _pool("AvgPool3D", input, 3, ksize, strides, padding, data_format, name)


def pool1d(type_name: str, x: Any, ksize: Any, strides: Any, padding: Any, data_format: Any) -> Any:
    """Pooling of ``[batch, width, channels]`` (or channels first) as that of an image of one row, without a scope."""
    form = op_format(data_format, 1)
    place = 2 if channels_first(form) else 1
    size, step = (sequence(v, 1, form, what)[place] for v, what in ((ksize, "ksize"), (strides, "strides")))
    wide = build("ExpandDims", x, place)
    pooled = _pool(type_name, wide, 2, [1, size], [1, step], padding, form, None)
    return build("Squeeze", pooled, squeeze_dims=[place])


@public("nn.max_pool1d")
def max_pool1d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NWC", name: str | None = None
) -> Any:
    """The maximum of each window of ``[batch, width, channels]``."""
    with name_scope(name, "MaxPool1d", [input]):
        return pool1d("MaxPool", input, ksize, strides, padding, data_format)


@public("nn.avg_pool1d")
def avg_pool1d(
    input: Any, ksize: Any, strides: Any, padding: Any, data_format: str = "NWC", name: str | None = None
) -> Any:
    """The mean of each window of ``[batch, width, channels]``."""
    with name_scope(name, "AvgPool1D", [input]):
        return pool1d("AvgPool", input, ksize, strides, padding, data_format)


@public("nn.max_pool_with_argmax")
def max_pool_with_argmax(
    input: Any,
    ksize: Any,
    strides: Any,
    padding: str,
    data_format: str = "NHWC",
    Targmax: Any = None,
    name: str | None = None,
    output_dtype: Any = None,
    include_batch_in_index: bool = False,
) -> Any:
    """The maximum of each window and its flat place ``(row * width + column) * channels + channel`` in the image.

    Args:
        input: ``[batch, height, width, channels]``.
        ksize: size of the window, four numbers, two, or one.
        strides: steps of the window, likewise.
        padding: ``"SAME"`` or ``"VALID"``.
        data_format: only ``"NHWC"``.
        Targmax: dtype of the places, int64 (default) or int32; ``output_dtype`` is its other name.
        name: name of the op.
        include_batch_in_index: places count through the whole batch.

    Returns:
        ``(output, argmax)``.
    """
    if data_format != "NHWC":
        raise ValueError(
            "data_format values other than 'NHWC' are not supported\n"
            + errors.message(f"data_format={data_format!r}", "'NHWC'", "tf.transpose(x, [0, 2, 3, 1])")
        )
    dtype = either(output_dtype, Targmax, "output_dtype", "Targmax", "int64")
    return build(
        "MaxPoolWithArgmax",
        input,
        ksize=sequence(ksize, 2, "NHWC", "ksize"),
        strides=sequence(strides, 2, "NHWC", "strides"),
        padding=padding,
        Targmax=dtype,
        include_batch_in_index=include_batch_in_index,
        name=name,
    )


def _dilated(function: Any, x: Any, sizes: list[int], rates: list[int], padding: str, data_format: str) -> Any:
    """A dilated pooling: every ``rate``-th entry of the input is pooled by itself; padding is zeros."""
    n = len(rates)
    if channels_first(data_format):
        x = build("Transpose", x, [0, *range(2, n + 2), 1])
    around = [(k - 1) * rate * (padding == "SAME") for k, rate in zip(sizes, rates, strict=True)]
    spatial = x.shape.raw[1:-1] if x.shape.ndims is not None else (None,) * n
    whole = spatial if None not in spatial else build("Shape", x)[1:-1]
    pads, crops = required_space_to_batch_paddings(whole, rates, [[total // 2, total - total // 2] for total in around])
    joined = build("BatchToSpaceND", function(build("SpaceToBatchND", x, rates, pads)), rates, crops)
    joined.set_shape(
        [x.shape.raw[0] if x.shape.ndims is not None else None]
        + [
            None if size is None else max(size + total - (k - 1) * rate, 0)
            for size, total, k, rate in zip(spatial, around, sizes, rates, strict=True)
        ]
        + [x.shape.raw[-1] if x.shape.ndims is not None else None]
    )
    return build("Transpose", joined, [0, n + 1, *range(1, n + 1)]) if channels_first(data_format) else joined


@public("nn.pool")
def pool(
    input: Any,
    window_shape: Any,
    pooling_type: str,
    padding: Any,
    dilation_rate: Any = None,
    strides: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Any:
    """Pooling in one, two or three spatial dimensions, as many as the input has beside batch and channels.

    Args:
        input: ``[batch, ..., channels]``, or as ``data_format`` says.
        window_shape: one number per spatial dimension.
        pooling_type: ``"MAX"`` or ``"AVG"``.
        padding: ``"SAME"`` or ``"VALID"``.
        dilation_rate: step between a window's entries; ``dilations`` is its other name. Above 1 without
            strides; padding is then of zeros.
        strides: one number per spatial dimension.
        name: name of the op.
        data_format: ``"NWC"``, ``"NHWC"``, ``"NDHWC"``, or with the channels in dimension 1.
    """
    if pooling_type not in ("MAX", "AVG"):
        dims = len(window_shape) if hasattr(window_shape, "__len__") else 2
        raise ValueError(
            f"{dims}-D {pooling_type} pooling is not supported.\n"
            + errors.message(f"pooling_type={pooling_type!r}", "'MAX' or 'AVG'", "pooling_type='MAX'")
        )
    rates = either(dilations, dilation_rate, "dilations", "dilation_rate", 1)
    with name_scope(name, f"{pooling_type.lower()}_pool", [input]) as scope:
        x = convert.convert_to_tensor(input, name="input")
        n = len(window_shape) if hasattr(window_shape, "__len__") else (x.shape.ndims or 0) - 2
        if n not in (1, 2, 3) or (x.shape.ndims is not None and x.shape.ndims != n + 2):
            raise ValueError(
                f"Shape {x.shape} must have rank {n + 2}\n"
                + errors.message(
                    f"an input of shape {x.shape}, a window {window_shape!r}",
                    "one, two or three spatial dimensions beside batch and channels, and one number for each",
                    "window_shape=[2, 2] for images",
                )
            )
        form = op_format(data_format, n)
        type_name = {"MAX": "MaxPool", "AVG": "AvgPool"}[pooling_type] + ("3D" if n == 3 else "")
        inside = slice(2, None) if channels_first(form) else slice(1, -1)
        sizes, steps, gaps = (
            sequence(v, n, form, what)[inside]
            for v, what in ((window_shape, "window_shape"), (strides, "strides"), (rates, "dilation_rate"))
        )

        def plain(tensor: Any, scope: Any = None) -> Any:
            if n == 1:
                return pool1d(type_name, tensor, sizes, steps, padding, "NCW" if channels_first(form) else "NWC")
            return _pool(type_name, tensor, n, sizes, steps, padding, form, scope)

        def pooled_block(tensor: Any) -> Any:
            last = ("NWC", "NHWC", "NDHWC")[n - 1]
            if n == 1:
                return pool1d(type_name, tensor, sizes, steps, "VALID", last)
            return _pool(type_name, tensor, n, sizes, steps, "VALID", last, None)

        if max(gaps) == 1:
            return plain(x, scope)
        if max(steps) > 1:
            raise ValueError(
                "strides > 1 not supported in conjunction with dilation_rate > 1\n"
                + errors.message(
                    f"strides={steps}, dilation_rate={gaps}",
                    "strides or dilations, but not both",
                    "tf.nn.pool without strides, then x[:, ::2]",
                )
            )
        return _dilated(pooled_block, x, sizes, gaps, padding, form)
