"""Public functions of convolution.

Policy. They take every spelling that TensorFlow 1.x took (strides as one number, two or four; ``filter`` or
``filters``; padding as a name or a list of pairs) and build one op. Dilation is an attribute of that op, not a detour
through batches. One dimension is two with a height of 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import dimensions
from anabranch.ops.nn.windows.geometry import channels_first

_LAST = {1: "NWC", 2: "NHWC", 3: "NDHWC"}
_FIRST = {1: "NCW", 2: "NCHW", 3: "NCDHW"}


def either(new: Any, old: Any, new_name: str, old_name: str, default: Any = None) -> Any:
    """The one of two spellings of an argument that was given."""
    if new is not None and old is not None:
        raise ValueError(
            f"Cannot specify both '{old_name}' and '{new_name}'\n"
            + errors.message(
                f"{new_name}= and {old_name}=", "one of the two arguments, which mean the same", f"{new_name}= alone"
            )
        )
    return new if new is not None else old if old is not None else default


def sequence(value: Any, n: int, data_format: str, name: str) -> list[int]:
    """Strides and the like, given as a number, one or ``n`` numbers, or ``n + 2``, in the order of ``data_format``."""
    if value is None:
        value = 1
    items = list(value) if isinstance(value, Sequence) or hasattr(value, "__len__") else [value]
    if len(items) == n + 2:
        return [dimensions.as_integer(item, name) for item in items]
    if len(items) == 1:
        items = items * n
    if len(items) != n:
        raise ValueError(
            f"{name} should be of length 1, {n} or {n + 2} but was {len(items)}\n"
            + errors.message(f"{name}={value!r}", f"1, {n} or {n + 2} numbers", f"{name}={[1] * n}")
        )
    items = [dimensions.as_integer(item, name) for item in items]
    return [1, 1, *items] if channels_first(data_format) else [1, *items, 1]


def paddings(padding: Any, n: int, data_format: str, type_name: str = "Conv2D") -> dict[str, Any]:
    """The padding attributes of an op of type ``type_name`` from a name or a list of pairs."""
    if isinstance(padding, str):
        name = padding.upper()
        if name not in ("SAME", "VALID", "EXPLICIT"):
            raise ValueError(
                f'Attr \'padding\' of {type_name!r} Op passed string {padding!r} not in: "SAME", "VALID".\n'
                + errors.message(f"padding={padding!r}", "'SAME', 'VALID' or a list of pairs", "padding='SAME'")
            )
        if name == "EXPLICIT":
            raise ValueError(
                '"EXPLICIT" is not a valid value for the padding parameter. To use explicit padding, the padding '
                "parameter must be a list.\n"
                + errors.message("padding='EXPLICIT'", "a list of pairs", "padding=[[0, 0], [1, 1], [1, 1], [0, 0]]")
            )
        return {"padding": name}
    pairs = [list(pair) for pair in padding] if padding is not None else []
    if len(pairs) != n + 2 or any(len(pair) != 2 for pair in pairs):
        raise ValueError(
            f"padding must be a string or a list of {n + 2} pairs\n"
            + errors.message(
                f"padding={padding!r}",
                f"'SAME', 'VALID', or {n + 2} pairs [before, after] in the order of {data_format}",
                "padding='SAME'",
            )
        )
    flat = [int(item) for pair in pairs for item in pair]
    return {"padding": "EXPLICIT", "explicit_paddings": flat} if any(flat) else {"padding": "VALID"}


def op_format(data_format: str | None, n: int) -> str:
    """The op's format from any of its spellings."""
    if data_format is None:
        return "NHWC" if n < 3 else "NDHWC"
    if data_format in (_LAST[n], "NHWC" if n == 1 else _LAST[n]):
        return "NHWC" if n < 3 else "NDHWC"
    if data_format in (_FIRST[n], "NCHW" if n == 1 else _FIRST[n]):
        return "NCHW" if n < 3 else "NCDHW"
    raise ValueError(
        f"data_format must be {_LAST[n]!r} or {_FIRST[n]!r}\n"
        + errors.message(f"data_format={data_format!r}", f"{_LAST[n]!r} or {_FIRST[n]!r}", f"data_format={_LAST[n]!r}")
    )


def _op(
    x: Any, f: Any, n: int, strides: Any, padding: Any, data_format: str, dilations: Any, name: Any, cudnn: bool = True
) -> Any:
    attrs = {
        "strides": sequence(strides, n, data_format, "strides"),
        "dilations": sequence(dilations, n, data_format, "dilations"),
        "data_format": data_format,
        **paddings(padding, n, data_format, "Conv3D" if n == 3 else "Conv2D"),
    }
    if n == 2:
        return build("Conv2D", x, f, use_cudnn_on_gpu=cudnn, name=name, **attrs)
    if attrs["padding"] == "EXPLICIT":
        raise NotImplementedError(
            errors.message(
                "explicit padding of a 3-D convolution", "'SAME' or 'VALID'", "tf.pad the input, then padding='VALID'"
            )
        )
    return build("Conv3D", x, f, name=name, **attrs)


@public("nn.conv2d")
def conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool = True,
    data_format: str = "NHWC",
    dilations: Any = None,
    name: str | None = None,
    filters: Any = None,
) -> Any:
    """2-D convolution (correlation).

    Args:
        input: ``[batch, height, width, in]``, or ``[batch, in, height, width]`` with ``data_format="NCHW"``.
        filter: ``[height, width, in / groups, out]``; ``filters`` is its other name.
        strides: four numbers in the order of ``data_format``, two, or one.
        padding: ``"SAME"``, ``"VALID"``, or four pairs ``[before, after]`` in the order of ``data_format``.
        use_cudnn_on_gpu: kept for its name.
        data_format: ``"NHWC"`` or ``"NCHW"``.
        dilations: steps between the filter's taps, like ``strides``.
        name: name of the op.
        filters: later name of ``filter``.

    Returns:
        ``[batch, out_height, out_width, out]``, in the order of ``data_format``.

    Example:
        >>> import anabranch as tf
        >>> images = tf.placeholder(tf.float32, [None, 28, 28, 1])
        >>> kernel = tf.ones([5, 5, 1, 32])
        >>> tf.nn.conv2d(images, kernel, strides=[1, 2, 2, 1], padding="SAME").shape.as_list()
        [None, 14, 14, 32]
    """
    f = either(filters, filter, "filters", "filter")
    return _op(input, f, 2, strides, padding, op_format(data_format, 2), dilations, name or "Conv2D", use_cudnn_on_gpu)


@public("nn.conv3d")
def conv3d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    data_format: str = "NDHWC",
    dilations: Any = None,
    name: str | None = None,
    filters: Any = None,
) -> Any:
    """3-D convolution (correlation) of ``[batch, depth, height, width, in]`` with ``[depth, height, width, in, out]``.

    Arguments are those of :func:`conv2d`, with one dimension more.
    """
    f = either(filters, filter, "filters", "filter")
    return _op(input, f, 3, strides, padding, op_format(data_format, 3), dilations, name or "Conv3D")


@public("nn.conv1d")
def conv1d(
    value: Any = None,
    filters: Any = None,
    stride: Any = None,
    padding: Any = None,
    use_cudnn_on_gpu: bool | None = None,
    data_format: str | None = None,
    name: str | None = None,
    input: Any = None,
    dilations: Any = None,
) -> Any:
    """1-D convolution (correlation).

    Args:
        value: ``[batch, width, in]``, or ``[batch, in, width]`` with ``data_format="NCW"``; ``input`` is its other
            name.
        filters: ``[width, in / groups, out]``.
        stride: step of the window.
        padding: ``"SAME"`` or ``"VALID"``.
        use_cudnn_on_gpu: kept for its name.
        data_format: ``"NWC"`` (or ``"NHWC"``, the default) or ``"NCW"`` (``"NCHW"``).
        name: name of the scope.
        dilations: step between the filter's taps.

    Returns:
        ``[batch, out_width, out]``, in the order of ``data_format``.
    """
    value = either(input, value, "input", "value")
    with name_scope(name, "conv1d", [value, filters]):
        return _conv1d(value, filters, stride, padding, op_format(data_format, 1), dilations)


def _conv1d(x: Any, f: Any, stride: Any, padding: Any, data_format: str, dilations: Any) -> Any:
    place = 2 if channels_first(data_format) else 1
    step, gap = (_single(v, data_format, what) for v, what in ((stride, "stride"), (dilations, "dilations")))
    flat = _op(
        build("ExpandDims", x, place), build("ExpandDims", f, 0), 2, [1, step], padding, data_format, [1, gap], None
    )
    return build("Squeeze", flat, squeeze_dims=[place])


def _single(value: Any, data_format: str, name: str) -> int:
    single = sequence(value, 1, data_format, name)
    return single[2] if channels_first(data_format) else single[1]


@public("nn.convolution")
def convolution(
    input: Any,
    filter: Any = None,
    padding: Any = None,
    strides: Any = None,
    dilation_rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    filters: Any = None,
    dilations: Any = None,
) -> Any:
    """Convolution in one, two or three spatial dimensions, as many as the input has beside batch and channels.

    Args:
        input: ``[batch, ..., in]``, or ``[batch, in, ...]`` with a ``data_format`` that begins with ``"NC"``.
        filter: ``[..., in / groups, out]``; ``filters`` is its other name.
        padding: ``"SAME"`` or ``"VALID"``.
        strides: one number per spatial dimension.
        dilation_rate: one number per spatial dimension; ``dilations`` is its other name.
        name: name of the op.
        data_format: ``"NWC"``, ``"NHWC"``, ``"NDHWC"``, or with the channels in dimension 1.
    """
    f = either(filters, filter, "filters", "filter")
    rates = either(dilations, dilation_rate, "dilations", "dilation_rate")
    with name_scope(name, "convolution", [input, f]) as scope:
        x = convert.convert_to_tensor(input, name="input")
        f = convert.convert_to_tensor(f, x.dtype.base if not hasattr(f, "dtype") else None, name="filter")
        rank = x.shape.ndims if x.shape.ndims is not None else f.shape.ndims
        if rank not in (3, 4, 5):
            raise ValueError(
                errors.message(
                    f"an input of shape {x.shape} and a filter of shape {f.shape}",
                    "one, two or three spatial dimensions beside batch and channels",
                    "set_shape, tf.expand_dims or tf.squeeze",
                )
            )
        dilated = rates is not None and any(
            rate != 1 for rate in sequence(rates, rank - 2, op_format(data_format, rank - 2), "rate")
        )
        # In TensorFlow a constant, or where it is dilated all that moves space to the batch and back.
        count_more(1 if not dilated else 75 if x.shape.ndims is None or None in x.shape.as_list()[1:] else 12)
        n = rank - 2
        form = op_format(data_format, n)
        if n == 1:
            return _conv1d(x, f, strides, padding, form, rates)
        return _op(x, f, n, strides, padding, form, rates, scope)


@public("nn.atrous_conv2d")
def atrous_conv2d(value: Any, filters: Any, rate: Any, padding: str, name: str | None = None) -> Any:
    """2-D convolution whose filter has ``rate - 1`` gaps between its taps.

    Args:
        value: ``[batch, height, width, in]``.
        filters: ``[height, width, in, out]``.
        rate: step between taps, one number or two.
        padding: ``"SAME"`` or ``"VALID"``.
        name: name of the op.
    """
    return convolution(value, filters, padding, dilation_rate=sequence(rate, 2, "NHWC", "rate")[1:3], name=name)


def _output_shape(output_shape: Any, n: int) -> Any:
    if hasattr(output_shape, "graph"):
        known = output_shape.shape
        if not known.is_compatible_with([n + 2]):
            raise ValueError(
                f"output_shape must have shape ({n + 2},), got {known}\n"
                + errors.message(f"output_shape of shape {known}", f"{n + 2} sizes", "tf.shape of the tensor to undo")
            )
        return output_shape
    return convert.convert_to_tensor(list(output_shape), "int32", name="output_shape")


def _transposed(
    type_name: str,
    value: Any,
    f: Any,
    output_shape: Any,
    strides: Any,
    padding: str,
    data_format: str,
    dilations: Any,
    scope: Any,
) -> Any:
    n = 2 if type_name.startswith("Conv2D") else 3
    value = convert.convert_to_tensor(value, name="value")
    f = convert.convert_to_tensor(f, value.dtype.base if not hasattr(f, "dtype") else None, name="filter")
    depth = None if value.shape.ndims is None else value.shape.raw[1 if channels_first(data_format) else n + 1]
    features = None if f.shape.ndims is None else f.shape.raw[n + 1]
    if depth is not None and features is not None and depth != features:
        raise ValueError(
            f"input channels does not match filter's input channels, {depth} != {features}\n"
            + errors.message(
                f"value of shape {value.shape}, filter of shape {f.shape}",
                "a filter [..., out, in]: its last dimension is the input's channels",
                "tf.transpose the filter's last two dimensions",
            )
        )
    if not isinstance(padding, str) or padding not in ("SAME", "VALID"):
        raise ValueError(
            f"padding must be either VALID or SAME: padding={padding}\n"
            + errors.message(f"padding={padding!r}", "'SAME' or 'VALID'", "padding='SAME'")
        )
    return build(
        type_name,
        _output_shape(output_shape, n),
        f,
        value,
        strides=sequence(strides, n, data_format, "strides"),
        dilations=sequence(dilations, n, data_format, "dilations"),
        padding=padding,
        data_format=data_format,
        name=scope,
    )


@public("nn.conv2d_transpose")
def conv2d_transpose(
    value: Any = None,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: str = "SAME",
    data_format: str = "NHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Any:
    """The transpose of :func:`conv2d` (often called deconvolution): its gradient with respect to the input.

    Args:
        value: ``[batch, height, width, in]``; ``input`` is its other name.
        filter: ``[height, width, out, in]``; ``filters`` is its other name.
        output_shape: shape of the result, from which the convolution would give that of ``value``.
        strides: strides of that convolution.
        padding: ``"SAME"`` or ``"VALID"``.
        data_format: ``"NHWC"`` or ``"NCHW"``.
        name: name of the op.
        dilations: dilations of that convolution.
    """
    value, f = either(input, value, "input", "value"), either(filters, filter, "filters", "filter")
    with name_scope(name, "conv2d_transpose", [value, f]) as scope:
        form = op_format(data_format, 2)
        return _transposed("Conv2DBackpropInput", value, f, output_shape, strides, padding, form, dilations, scope)


@public("nn.conv3d_transpose")
def conv3d_transpose(
    value: Any = None,
    filter: Any = None,
    output_shape: Any = None,
    strides: Any = None,
    padding: str = "SAME",
    data_format: str = "NDHWC",
    name: str | None = None,
    input: Any = None,
    filters: Any = None,
    dilations: Any = None,
) -> Any:
    """The transpose of :func:`conv3d`; arguments are those of :func:`conv2d_transpose`, with one dimension more."""
    value, f = either(input, value, "input", "value"), either(filters, filter, "filters", "filter")
    with name_scope(name, "conv3d_transpose", [value, f]) as scope:
        form = op_format(data_format, 3)
        return _transposed("Conv3DBackpropInputV2", value, f, output_shape, strides, padding, form, dilations, scope)


@public("nn.conv1d_transpose")
def conv1d_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any = None,
    padding: str = "SAME",
    data_format: str = "NWC",
    dilations: Any = None,
    name: str | None = None,
    *,
    stride: Any = None,
) -> Any:
    """The transpose of :func:`conv1d` for ``[batch, width, in]`` and a filter ``[width, out, in]``.

    ``stride`` is the old name of ``strides``.
    """
    if (strides is None) == (stride is None):
        raise TypeError(
            "conv1d_transpose() missing 1 required positional argument: 'strides'\n"
            + errors.message(f"strides={strides!r} and stride={stride!r}", "one argument of the two", "strides=1")
        )
    strides = stride if strides is None else strides
    with name_scope(name, "conv1d_transpose", [input, filters]):
        form = op_format(data_format, 1)
        place = 2 if channels_first(form) else 1
        shape = _output_shape(output_shape, 1)
        shape = build("ConcatV2", [build("Slice", shape, [0], [place]), [1], build("Slice", shape, [place], [-1])], 0)
        output = _transposed(
            "Conv2DBackpropInput",
            build("ExpandDims", input, place),
            build("ExpandDims", filters, 0),
            shape,
            [1, _single(strides, form, "strides")],
            padding,
            form,
            [1, _single(dilations, form, "dilations")],
            None,
        )
        return build("Squeeze", output, squeeze_dims=[place])


@public("nn.atrous_conv2d_transpose")
def atrous_conv2d_transpose(
    value: Any, filters: Any, output_shape: Any, rate: Any, padding: str, name: str | None = None
) -> Any:
    """The transpose of :func:`atrous_conv2d`.

    Args:
        value: ``[batch, height, width, in]``.
        filters: ``[height, width, out, in]``.
        output_shape: shape of the result, from which the convolution would give that of ``value``.
        rate: step between taps, one number or two.
        padding: ``"SAME"`` or ``"VALID"``.
        name: name of the op.
    """
    with name_scope(name, "atrous_conv2d_transpose", [value, filters, output_shape]) as scope:
        return _transposed("Conv2DBackpropInput", value, filters, output_shape, 1, padding, "NHWC", rate, scope)


@public("nn.conv_transpose")
def conv_transpose(
    input: Any,
    filters: Any,
    output_shape: Any,
    strides: Any,
    padding: str = "SAME",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """The transpose of a convolution in one, two or three spatial dimensions, as many as ``output_shape`` has.

    Args:
        input: ``[batch, ..., in]``, or as ``data_format`` says.
        filters: ``[..., out, in]``.
        output_shape: shape of the result, from which the convolution would give that of ``input``.
        strides: strides of that convolution.
        padding: ``"SAME"`` or ``"VALID"``.
        data_format: ``"NWC"``, ``"NHWC"``, ``"NDHWC"``, or with the channels in dimension 1.
        dilations: dilations of that convolution.
        name: name of the op.
    """
    known = output_shape.shape.raw if hasattr(output_shape, "graph") else (len(output_shape),)
    rank = None if known is None else known[0]
    if rank not in (3, 4, 5):
        raise ValueError(
            "output_tensor must have 1, 2 or 3 spatial dimensions\n"
            + errors.message(f"output_shape of {rank} numbers", "three, four or five sizes", "the shape as a list")
        )
    with name_scope(name, "conv_transpose", [input, filters, output_shape]) as scope:
        if rank == 3:
            form = data_format or "NWC"
            return conv1d_transpose(input, filters, output_shape, strides, padding, form, dilations, scope)
        form = op_format(data_format, rank - 2)
        kind = "Conv2DBackpropInput" if rank == 4 else "Conv3DBackpropInputV2"
        return _transposed(kind, input, filters, output_shape, strides, padding, form, dilations, scope)


@public("nn.depthwise_conv2d")
def depthwise_conv2d(
    input: Any,
    filter: Any = None,
    strides: Any = None,
    padding: Any = None,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Any:
    """Convolution of each channel with filters of its own.

    Args:
        input: ``[batch, height, width, in]``.
        filter: ``[height, width, in, multiplier]``.
        strides: four numbers.
        padding: ``"SAME"``, ``"VALID"``, or four pairs.
        rate: dilation, two numbers; ``dilations`` is its other name.
        name: name of the op.
        data_format: ``"NHWC"`` or ``"NCHW"``.

    Returns:
        ``[batch, out_height, out_width, in * multiplier]``.
    """
    with name_scope(name, "depthwise", [input, filter]) as scope:
        count_more(2)  # the filter's shape, and the rate
        return depthwise_op(
            input, filter, strides, padding, either(dilations, rate, "dilations", "rate"), scope, data_format
        )


def depthwise_op(x: Any, f: Any, strides: Any, padding: Any, rate: Any, name: Any, data_format: str | None) -> Any:
    """The depthwise op from arguments as users spell them."""
    form = op_format(data_format, 2)
    return build(
        "DepthwiseConv2dNative",
        x,
        f,
        strides=sequence(strides, 2, form, "strides"),
        dilations=sequence(rate, 2, form, "rate"),
        data_format=form,
        name=name,
        **paddings(padding, 2, form, "DepthwiseConv2dNative"),
    )


@public("nn.separable_conv2d")
def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    rate: Any = None,
    name: str | None = None,
    data_format: str | None = None,
    dilations: Any = None,
) -> Any:
    """A depthwise convolution followed by a 1x1 convolution.

    Args:
        input: ``[batch, height, width, in]``.
        depthwise_filter: ``[height, width, in, multiplier]``.
        pointwise_filter: ``[1, 1, in * multiplier, out]``.
        strides: four numbers, of the depthwise part.
        padding: ``"SAME"``, ``"VALID"``, or four pairs.
        rate: dilation of the depthwise part.
        name: name of the op.
        data_format: ``"NHWC"`` or ``"NCHW"``.
    """
    with name_scope(name, "separable_conv2d", [input, depthwise_filter, pointwise_filter]) as scope:
        pointwise = convert.convert_to_tensor(pointwise_filter, name="pointwise_filter")
        raw = pointwise.shape.raw
        if raw is not None and (len(raw) != 4 or any(size not in (1, None) for size in raw[:2])):
            raise ValueError(
                errors.message(
                    f"pointwise_filter of shape {pointwise.shape}",
                    "a filter of shape [1, 1, in * multiplier, out]",
                    "tf.reshape(pointwise_filter, [1, 1, -1, out])",
                )
            )
        rates = either(dilations, rate, "dilations", "rate")
        count_more(2)  # the filter's shape, and the rate
        depthwise = depthwise_op(input, depthwise_filter, strides, padding, rates, "depthwise", data_format)
        return _op(depthwise, pointwise, 2, 1, "VALID", op_format(data_format, 2), None, scope)
