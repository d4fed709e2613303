"""Pooling of images: maximum and average, their gradients to any order, and maxima with their places.

Policy. A window's gradient goes to its first largest entry in row-major order, on every tier and platform. Averages
do not count padding. MaxPool may take channels together instead of places, with its gradients (which TensorFlow lacks).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, Bool, Cost, List, Op, String, Type
from anabranch.core.graph.build import build
from anabranch.core.values import shapes
from anabranch.ops.nn.windows import pooling_rules
from anabranch.ops.nn.windows.geometry import shape_to_last
from anabranch.ops.nn.windows.pooling_rules import axes_for, first, last

_REALS = "float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64"
_MAX_TYPES = "half bfloat16 float double int32 int64 uint8 int16 int8 uint16 qint8"


def window_attrs(rank: int, explicit: bool = False) -> dict[str, Any]:
    """The attributes of a pooling."""
    attrs = {
        "ksize": List("int", minimum=rank),
        "strides": List("int", minimum=rank),
        "padding": String(allowed="SAME VALID EXPLICIT" if explicit else "SAME VALID"),
    }
    return attrs | ({"explicit_paddings": List("int", ())} if explicit else {})


def _format(allowed: str = "NHWC NCHW") -> dict[str, Any]:
    return {"data_format": String("NHWC", allowed)}


def kept(op: Any) -> dict[str, Any]:
    """The pooling attributes of ``op``, to pass on to a gradient op."""
    names = ("ksize", "strides", "padding", "data_format")
    return {name: op.get_attr(name) for name in names}


def _second_order(op: Any, grad: Any) -> Any:
    """The gradient of MaxPoolGrad with respect to ``grad``; EXPLICIT padding, which it has not, is made visible."""
    x, y = op.inputs[:2]
    attrs = kept(op)
    if op.get_attr("padding") == b"EXPLICIT":
        pads = np.reshape(op.get_attr("explicit_paddings"), (-1, 2)).astype(np.int32)
        x = build("PadV2", x, pads, x.dtype.base.min if x.dtype.base.is_integer else -np.inf)
        grad = build("Pad", grad, pads)
        attrs["padding"] = "VALID"
    return build("MaxPoolGradGrad", x, y, grad, **attrs)


def _zeros(tensor: Any) -> Any:
    return build("ZerosLike", tensor)


class MaxPool(Op):
    """The maximum of each window of ``[batch, height, width, channels]``."""

    signature = "input: T -> output: T"
    attrs = {"T": Type(_MAX_TYPES, "float")} | window_attrs(4, True) | _format("NHWC NCHW NCHW_VECT_C")
    effect = PURE

    def shape(c):
        return pooling_rules.pooled_shape(c, c.shapes[0], 4, True)

    def kernel(ctx, inputs, attrs):
        (x,), axes, undo = pooling_rules.arranged(ctx, attrs, inputs[0])
        if pooling_rules.across_channels(attrs) == 1 or not pooling_rules.has_nan(x.dtype):
            return undo(pooling_rules.max_forward(ctx, x, axes, pooling_rules.lowest(x.dtype)))
        begin = pooling_rules.first_entries(ctx, x, axes)  # channels that begin with NaN have it, as in TensorFlow
        return undo(ctx.xp.where(begin == begin, pooling_rules.max_forward(ctx, x, axes), begin))

    def gradient(op, grad):
        explicit = op.get_attr("explicit_paddings")
        return [
            build("MaxPoolGrad", op.inputs[0], op.outputs[0], grad, explicit_paddings=explicit, **kept(op)),
        ]


def _max_gradient(ctx: Any, inputs: Any, attrs: Any) -> Any:
    (x, g), axes, undo = pooling_rules.arranged(ctx, attrs, inputs[0], inputs[2])
    return undo(pooling_rules.max_gradient(ctx, x, g, axes))


def _max_gather(ctx: Any, inputs: Any, attrs: Any) -> Any:
    (x, values), axes, undo = pooling_rules.arranged(ctx, attrs, inputs[0], inputs[2])
    return undo(pooling_rules.max_gather(ctx, x, values, axes))


def gradient_shape(rank: int) -> Any:
    """Shape rule of ``(orig_input, orig_output, grad)``: the input's shape."""

    def shape(c: Any) -> Any:
        pooled = pooling_rules.pooled_shape(c, c.shapes[0], rank, rank == 4)
        for operand in (1, 2):
            if not shapes.is_compatible(pooled, c.shapes[operand]):
                raise ValueError(
                    errors.message(
                        f"{c.definition.inputs[operand].name} of shape {shapes.show(c.shapes[operand])} "
                        f"(op type {c.definition.type_name!r})",
                        f"the shape of the pooling's output, {shapes.show(pooled)}",
                        "give what the pooling of orig_input gives",
                    )
                )
        return shapes.with_rank(c.shapes[0], rank)

    return shape


def gather_shape(rank: int) -> Any:
    """Shape rule of ``(orig_input, orig_output, grad)`` where ``grad`` has the input's shape: the output's shape."""

    def shape(c: Any) -> Any:
        return pooling_rules.pooled_shape(c, shapes.merge(c.shapes[0], c.shapes[2]), rank, rank == 4)

    return shape


class MaxPoolGrad(Op):
    """The gradient of MaxPool: ``grad`` of each window at its first largest entry."""

    signature = "orig_input: T, orig_output: T, grad: T -> output: T"
    attrs = window_attrs(4, True) | _format() | {"T": Type(_REALS, "float")}
    effect = PURE
    shape = gradient_shape(4)
    kernel = _max_gradient

    def gradient(op, grad):
        x, y = op.inputs[:2]
        return [_zeros(x), _zeros(y), _second_order(op, grad)]


class MaxPoolGradGrad(Op):
    """The gradient of MaxPoolGrad: of each window, the entry of ``grad`` (shaped like the input) at the maximum."""

    signature = "orig_input: T, orig_output: T, grad: T -> output: T"
    attrs = window_attrs(4) | _format() | {"T": Type(_REALS)}
    effect = PURE
    shape = gather_shape(4)
    kernel = _max_gather

    def gradient(op, grad):
        x, y = op.inputs[:2]
        return [_zeros(x), _zeros(y), build("MaxPoolGrad", x, y, grad, **kept(op))]


# ------------------------------------------------------------------------------------------ windows given as tensors
def _with_windows(attrs: dict[str, Any], ksize: Any, strides: Any) -> dict[str, Any]:
    return attrs | {name: tuple(int(i) for i in np.asarray(v)) for name, v in (("ksize", ksize), ("strides", strides))}


class _Known:
    """A shape context in which ``ksize`` and ``strides`` are attributes, as far as their values are known."""

    def __init__(self, c: Any):
        self.definition, self.shapes = c.definition, c.shapes
        vectors = [c.vector(name) for name in ("ksize", "strides")]
        self.known = all(value is not None and None not in value for value in vectors)
        self.attrs = _with_windows(c.attrs, *vectors) if self.known else c.attrs
        self.added = c.added


_V2_FORMAT = {"padding": String(allowed="SAME VALID")}


class MaxPoolV2(Op):
    """Like :class:`MaxPool`, with window and strides as operands."""

    signature = "input: T, ksize: int32, strides: int32 -> output: T"
    attrs = {"T": Type(_MAX_TYPES, "float")} | _V2_FORMAT | _format("NHWC NCHW NCHW_VECT_C")
    effect = PURE
    ranks = {"ksize": 1, "strides": 1}
    compile_time = ("ksize", "strides")

    def shape(c):
        known = _Known(c)
        return pooling_rules.pooled_shape(known, c.shapes[0], 4, True) if known.known else (None,) * 4

    def kernel(ctx, inputs, attrs):
        return MaxPool.definition.kernel(ctx, inputs[:1], _with_windows(attrs, *inputs[1:]))

    def gradient(op, grad):
        x, ksize, strides = op.inputs
        names = ("padding", "data_format")
        passed = {name: op.get_attr(name) for name in names}
        return [build("MaxPoolGradV2", x, op.outputs[0], grad, ksize, strides, **passed), None, None]


class MaxPoolGradV2(Op):
    """Like :class:`MaxPoolGrad`, with window and strides as operands."""

    signature = "orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32 -> output: T"
    attrs = _V2_FORMAT | _format() | {"T": Type(_REALS, "float")}
    effect = PURE
    ranks = {"ksize": 1, "strides": 1}
    compile_time = ("ksize", "strides")

    def shape(c):
        return shapes.with_rank(c.shapes[0], 4)

    def kernel(ctx, inputs, attrs):
        return _max_gradient(ctx, inputs[:3], _with_windows(attrs, *inputs[3:]))

    def gradient(op, grad):
        x, y, _, ksize, strides = op.inputs
        passed = {name: op.get_attr(name) for name in ("padding", "data_format")}
        return [_zeros(x), _zeros(y), build("MaxPoolGradGradV2", x, y, grad, ksize, strides, **passed), None, None]


class MaxPoolGradGradV2(Op):
    """Like :class:`MaxPoolGradGrad`, with window and strides as operands."""

    signature = "orig_input: T, orig_output: T, grad: T, ksize: int32, strides: int32 -> output: T"
    attrs = _V2_FORMAT | _format() | {"T": Type(_REALS)}
    effect = PURE
    ranks = {"ksize": 1, "strides": 1}
    compile_time = ("ksize", "strides")

    def shape(c):
        known = _Known(c)
        return pooling_rules.pooled_shape(known, c.shapes[0], 4, True) if known.known else (None,) * 4

    def kernel(ctx, inputs, attrs):
        return _max_gather(ctx, inputs[:3], _with_windows(attrs, *inputs[3:]))

    def gradient(op, grad):
        x, y, _, ksize, strides = op.inputs
        passed = {name: op.get_attr(name) for name in ("padding", "data_format")}
        return [_zeros(x), _zeros(y), build("MaxPoolGradV2", x, y, grad, ksize, strides, **passed), None, None]


# ------------------------------------------------------------------------------------------------- maxima with places
def _argmax_attrs(index: Any) -> dict[str, Any]:
    return window_attrs(4) | {"include_batch_in_index": Bool(False), "Targmax": index, "T": Type(_REALS)}


def _argmax_names(op: Any) -> dict[str, Any]:
    return {name: op.get_attr(name) for name in ("ksize", "strides", "padding", "include_batch_in_index")}


class MaxPoolWithArgmax(Op):
    """The maximum of each window and its flat place ``(row * width + column) * channels + channel`` in the image.

    With ``include_batch_in_index`` the place counts through the whole batch.
    """

    signature = "input: T -> output: T, argmax: Targmax"
    attrs = {
        "ksize": List("int", minimum=4),
        "strides": List("int", minimum=4),
        "Targmax": Type("int32 int64", "int64"),
        "padding": String(allowed="SAME VALID"),
        "include_batch_in_index": Bool(False),
        "T": Type(_REALS),
    }
    effect = PURE

    def shape(c):
        pooled = pooling_rules.pooled_shape(c, c.shapes[0], 4)
        return [pooled, pooled]

    def kernel(ctx, inputs, attrs):
        axes = axes_for(inputs[0].shape, attrs)
        return pooling_rules.max_with_index(ctx, inputs[0], axes, attrs["Targmax"].np, attrs["include_batch_in_index"])

    def gradient(op, grad, _):
        return [build("MaxPoolGradWithArgmax", op.inputs[0], grad, op.outputs[1], **_argmax_names(op))]


def _flat_places(ctx: Any, argmax: Any, shape: Any, attrs: Any) -> Any:
    """Places in the flattened batch, checked, as int64 (int32 under XLA where they fit)."""
    xp = ctx.xp
    per_image = int(np.prod(shape[1:]))
    total = shape[0] * per_image
    places = argmax.astype(np.int64)
    if not attrs["include_batch_in_index"]:
        places = places + xp.arange(shape[0], dtype=np.int64).reshape((-1,) + (1,) * (argmax.ndim - 1)) * per_image
    inside = (places >= 0) & (places < total)
    if argmax.size:
        ctx.check(
            xp.all(inside),
            errors.InvalidArgumentError,
            f"Invalid argmax: {{0}} is not an index into an input of shape {list(shape)}",
            argmax.reshape(-1)[xp.argmin(inside.reshape(-1))],
        )
    return xp.where(inside, places, np.int64(total))


class MaxPoolGradWithArgmax(Op):
    """The gradient of MaxPoolWithArgmax: ``grad`` added at the places ``argmax``."""

    signature = "input: T, grad: T, argmax: Targmax -> output: T"
    attrs = _argmax_attrs(Type("int32 int64"))
    effect = PURE

    def shape(c):
        c.same_shape("grad", "argmax")
        return c.with_rank("input", 4)

    def kernel(ctx, inputs, attrs):
        x, g, argmax = inputs
        places = _flat_places(ctx, argmax, x.shape, attrs).reshape(-1)
        flat = ctx.xp.zeros((x.size,), g.dtype)
        if ctx.host:
            np.add.at(flat, places, g.reshape(-1))
        else:
            flat = flat.at[places].add(g.reshape(-1), mode="drop")
        return flat.reshape(x.shape)

    def gradient(op, grad):
        x, _, argmax = op.inputs
        return [
            _zeros(x),
            build("MaxPoolGradGradWithArgmax", x, grad, argmax, **_argmax_names(op)),
            None,
        ]


class MaxPoolGradGradWithArgmax(Op):
    """The gradient of MaxPoolGradWithArgmax: the entries of ``grad`` (shaped like the input) at ``argmax``."""

    signature = "input: T, grad: T, argmax: Targmax -> output: T"
    attrs = _argmax_attrs(Type("int32 int64"))
    effect = PURE
    cost = Cost.INDEXED
    moves = True

    def shape(c):
        c.same_shape("input", "grad")
        c.with_rank("input", 4)
        return c.with_rank("argmax", 4)

    def kernel(ctx, inputs, attrs):
        x, g, argmax = inputs
        if not g.size:
            return ctx.xp.zeros(argmax.shape, g.dtype)
        places = ctx.xp.minimum(_flat_places(ctx, argmax, x.shape, attrs), g.size - 1)
        return g.reshape(-1)[places]

    def gradient(op, grad):
        x, _, argmax = op.inputs
        return [_zeros(x), build("MaxPoolGradWithArgmax", x, grad, argmax, **_argmax_names(op)), None]


# -------------------------------------------------------------------------------------------------------------- average
class AvgPool(Op):
    """The mean of each window of ``[batch, height, width, channels]``, over the entries that are not padding."""

    signature = "value: T -> output: T"
    attrs = window_attrs(4) | _format() | {"T": Type("half bfloat16 float double")}
    effect = PURE

    def shape(c):
        return pooling_rules.pooled_shape(c, c.shapes[0], 4)

    def kernel(ctx, inputs, attrs):
        (x,) = last(ctx, attrs, inputs[0])
        return first(ctx, attrs, pooling_rules.average_forward(ctx, x, axes_for(x.shape, attrs)))

    def gradient(op, grad):
        return [build("AvgPoolGrad", build("Shape", op.inputs[0]), grad, **kept(op))]


def average_gradient_shape(rank: int) -> Any:
    """Shape rule of ``(orig_input_shape, grad)``."""

    def shape(c: Any) -> Any:
        pooling_rules.check(c, rank)
        wanted = c.vector(0)
        if wanted is None:
            return (None,) * rank
        if len(wanted) != rank:
            raise ValueError(
                errors.message(
                    f"orig_input_shape of {len(wanted)} entries", f"{rank} sizes", "tf.shape of the pooling's input"
                )
            )
        pooled = pooling_rules.pooled_shape(c, tuple(wanted), rank)
        if not shapes.is_compatible(pooled, c.shapes[1]):
            raise ValueError(
                errors.message(
                    f"grad of shape {shapes.show(c.shapes[1])} (op type {c.definition.type_name!r})",
                    f"the shape of the pooling's output, {shapes.show(pooled)}",
                    "give a gradient of that shape",
                )
            )
        return tuple(wanted)

    return shape


def average_gradient(ctx: Any, inputs: Any, attrs: Any) -> Any:
    """Kernel of an average pooling's gradient."""
    wanted, g = inputs
    data_format = attrs["data_format"]
    shape = shape_to_last([int(size) for size in np.asarray(wanted)], data_format)
    (g,) = last(ctx, attrs, g)
    return first(ctx, attrs, pooling_rules.average_gradient(ctx, g, axes_for(shape, attrs), shape))


class AvgPoolGrad(Op):
    """The gradient of AvgPool: each window's gradient in equal parts to its entries."""

    signature = "orig_input_shape: int32, grad: T -> output: T"
    attrs = window_attrs(4) | _format() | {"T": Type("half bfloat16 float double")}
    effect = PURE
    compile_time = ("orig_input_shape",)
    shape = average_gradient_shape(4)
    kernel = average_gradient

    def gradient(op, grad):
        return [None, build("AvgPool", grad, **kept(op))]
