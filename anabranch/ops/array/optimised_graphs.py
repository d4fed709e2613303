"""Small ops that optimised and older graphs hold: orders of dimensions, indices, rows in place, padded convolutions."""

from __future__ import annotations

import time
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import opdef
from anabranch.core.contract.api import public, public_op
from anabranch.core.contract.kernels import uses_lax
from anabranch.core.contract.opdef import IO, PURE, Bool, Cost, List, NotDifferentiable, Op, String, Type
from anabranch.core.graph.build import build
from anabranch.core.values import shapes
from anabranch.ops.nn import top_k
from anabranch.ops.shared.array_rules import dense
from anabranch.ops.shared.numerics import REALS

_INDEX = "int32 int64"
_FORMATS = {"T": Type(_INDEX, "int32"), "src_format": String("NHWC"), "dst_format": String("NCHW")}
_WHOLE = NotDifferentiable("whole numbers have no gradient")


# ------------------------------------------------------------------------------------------------- orders of dimensions
def _order(attrs: Any) -> list[int]:
    """For each dimension of the source its place in the destination."""
    return [attrs["dst_format"].find(letter) for letter in attrs["src_format"]]


def _check_formats(c: Any) -> None:
    source, target = c.attrs["src_format"], c.attrs["dst_format"]
    if sorted(source) != sorted(target) or len(set(source)) != len(source) or len(source) not in (4, 5):
        raise ValueError(
            "src_format and dst_format must be permutations of each other\n"
            + errors.message(
                f"{source!r} and {target!r}", "two formats of the same 4 or 5 letters", "'NHWC' and 'NCHW'"
            )
        )


class DataFormatDimMap(Op):
    """Numbers of dimensions of ``src_format`` as those of ``dst_format``."""

    signature = "x: T -> y: T"
    attrs = dict(_FORMATS)
    effect = PURE
    elementwise = True
    gradient = _WHOLE

    def shape(c):
        _check_formats(c)
        return c.shapes[0]

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        (x,) = inputs
        order = _order(attrs)
        ctx.check(
            xp.all((x >= -len(order)) & (x < len(order))),
            errors.InvalidArgumentError,
            f"Source dimensions must be in [-{len(order)}, {len(order)})",
        )
        return xp.asarray(np.array(order, x.dtype))[x % len(order)]


class DataFormatVecPermute(Op):
    """A vector of sizes, or pairs of numbers, of the dimensions of ``src_format`` in the order of ``dst_format``.

    Two of them are those of height and width.
    """

    signature = "x: T -> y: T"
    attrs = dict(_FORMATS)
    effect = PURE
    moves = True
    gradient = _WHOLE

    def shape(c):
        _check_formats(c)
        raw = c.shapes[0]
        if raw is not None and len(raw) not in (1, 2):
            raise ValueError(
                "input must be a vector or 2D tensor\n"
                + errors.message(shapes.show(raw), "a tensor [n] or [n, 2]", "tf.reshape(x, [-1])")
            )
        return raw

    def kernel(ctx, inputs, attrs):
        (x,) = inputs
        source, target = attrs["src_format"], attrs["dst_format"]
        if x.shape[0] == len(source) - 2:
            source, target = ("".join(c for c in name if c not in "NC") for name in (source, target))
        ctx.check(
            x.shape[0] == len(source),
            errors.InvalidArgumentError,
            f"1D input must be of size {len(source)} or {len(source) - 2}, but got shape {shapes.show(x.shape)}",
        )
        return x[np.array([source.index(letter) for letter in target])] if x.shape[0] == len(source) else x


# -------------------------------------------------------------------------------------------------------------- indices
class UnravelIndex(Op):
    """Flat indices as the indices of an array of sizes ``dims``: ``[rank, n]``, or ``[rank]`` for a scalar."""

    signature = "indices: Tidx, dims: Tidx -> output: Tidx"
    attrs = {"Tidx": Type(_INDEX, "int32")}
    effect = PURE
    gradient = _WHOLE

    def shape(c):
        dims = c.with_rank("dims", 1)
        indices = c.shape("indices")
        if indices is None:
            return None
        count = shapes.num_elements(indices)
        return (dims[0],) if indices == () else (dims[0], count)

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        indices, dims = inputs
        total = xp.prod(dims, dtype=indices.dtype)
        ctx.check(
            xp.all((indices >= 0) & (indices < total)) if indices.size else True,
            errors.InvalidArgumentError,
            "index is out of bound as with dims",
        )
        flat = indices.reshape(-1)
        parts: list[Any] = []
        for i in range(dims.shape[0] - 1, -1, -1):
            size = xp.maximum(dims[i], 1)
            parts.insert(0, flat % size)
            flat = flat // size
        stacked = xp.stack(parts) if parts else xp.zeros((0, flat.shape[0]), indices.dtype)
        return stacked.astype(indices.dtype).reshape((dims.shape[0], *(() if indices.ndim == 0 else (flat.shape[0],))))


class NthElement(Op):
    """The ``n``-th smallest (largest if ``reverse``) element of each row of the last dimension."""

    signature = "input: T, n: int32 -> values: T"
    attrs = {"reverse": Bool(False), "T": Type(REALS)}
    effect = PURE
    cost = Cost.HEAVY

    def shape(c):
        c.with_rank("n", 0)
        raw = c.with_rank_at_least("input", 1)
        size, place = (None if raw is None else raw[-1]), c.scalar("n")
        if size is not None and place is not None and not 0 <= place < size:
            raise ValueError(
                f"Input must have last dimension > n = {place} but is {size}\n"
                if place >= 0
                else f"Dimension size, given by scalar input 1, must be non-negative but is {place}\n"
                + errors.message(f"n={place} of {size} elements", f"an index from 0 to {size - 1}", "n=0")
            )
        return None if raw is None else raw[:-1]

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        x, n = inputs
        wrong = errors.InvalidArgumentError
        ctx.check(n.ndim == 0, wrong, f"N must be scalar, got shape {shapes.show(n.shape)}")
        ctx.check(n >= 0, wrong, "Need n >= 0, got {0}", n)
        ctx.check(x.ndim >= 1, wrong, f"Input must be >= 1-D, got shape {shapes.show(x.shape)}")
        ctx.check(n < x.shape[-1], wrong, "Input must have at least n+1 columns; n is {0}", n)
        place = x.shape[-1] - 1 - n if attrs["reverse"] else n
        return top_k.of_rank(ctx, x, xp.clip(place, 0, max(x.shape[-1] - 1, 0)))

    def gradient(op, grad):
        x, output = op.inputs[0], op.outputs[0]
        same = build("Cast", build("Equal", build("ExpandDims", output, -1), x), DstT=x.dtype.base)
        share = build("RealDiv", build("ExpandDims", dense(grad), -1), build("Sum", same, [-1], keep_dims=True))
        return [build("Mul", share, same), None]


public_op("UnravelIndex", "unravel_index")
public_op("NthElement", "contrib.nn.nth_element")


# -------------------------------------------------------------------------------------------------------- rows in place
def _with_rows(ctx: Any, inputs: Any, how: str) -> Any:
    x, i, v = inputs
    shown = [shapes.show(tuple(one.shape)) for one in (x, i, v)]
    ctx.check(i.ndim == 1, errors.InvalidArgumentError, f"i must be a vector. {shown[1]}")
    ctx.check(
        how == "set" or x.dtype.kind not in "bO",
        errors.InvalidArgumentError,
        f"Unsupported dtype {x.dtype}: rows are added and subtracted as numbers",
    )
    ctx.check(
        v.ndim == x.ndim,
        errors.InvalidArgumentError,
        f"v and x shape doesn't match (ndims = {v.ndim} vs. {x.ndim})",
    )
    for at in range(1, x.ndim):
        ctx.check(
            v.shape[at] == x.shape[at],
            errors.InvalidArgumentError,
            f"v and x shape doesn't match at index {at} : {v.shape[at]} vs. {x.shape[at]}",
        )
    ctx.check(
        v.shape[:1] == i.shape,
        errors.InvalidArgumentError,
        f"i and x shape doesn't match at index 0: {shown[1]} vs. {shown[2]}",
    )
    if x.ndim == 0 or i.size == 0 or x.shape[0] == 0:
        return x
    rows = i % x.shape[0]
    if ctx.host:
        out = x.copy()
        if how == "set":
            out[rows] = v
        else:
            (np.add if how == "add" else np.subtract).at(out, rows, v)
        return out
    if how == "set":
        return x.at[rows].set(v)
    return x.at[rows].add(v if how == "add" else -v)


def _in_place_shape(c: Any) -> Any:
    c.with_rank("i", 1)
    return c.shape("x")


class InplaceUpdate(Op):
    """``x`` with the rows ``i`` replaced by those of ``v``."""

    signature = "x: T, i: int32, v: T -> y: T"
    attrs = {"T": Type()}
    effect = PURE
    moves = True
    cost = Cost.INDEXED
    shape = _in_place_shape
    gradient = NotDifferentiable("TensorFlow has no gradient of it")

    def kernel(ctx, inputs, attrs):
        return _with_rows(ctx, inputs, "set")


class InplaceAdd(Op):
    """``x`` with the rows of ``v`` added to its rows ``i``."""

    signature = "x: T, i: int32, v: T -> y: T"
    attrs = {"T": Type()}
    effect = PURE
    cost = Cost.INDEXED
    shape = _in_place_shape
    gradient = NotDifferentiable("TensorFlow has no gradient of it")

    def kernel(ctx, inputs, attrs):
        return _with_rows(ctx, inputs, "add")


class InplaceSub(Op):
    """``x`` with the rows of ``v`` subtracted from its rows ``i``."""

    signature = "x: T, i: int32, v: T -> y: T"
    attrs = {"T": Type()}
    effect = PURE
    cost = Cost.INDEXED
    shape = _in_place_shape
    gradient = NotDifferentiable("TensorFlow has no gradient of it")

    def kernel(ctx, inputs, attrs):
        return _with_rows(ctx, inputs, "sub")


# -------------------------------------------------------------------------------------------------- padded convolutions
def _kernel_of(ctx: Any, name: str) -> Any:
    definition = opdef.lookup(name)
    return definition.host_kernel if ctx.host and definition.host_kernel is not None else definition.kernel


def _padded_convolution(ctx: Any, x: Any, paddings: Any, weights: Any, attrs: Any) -> Any:
    mirrored = _kernel_of(ctx, "MirrorPad")(ctx, [x, paddings], {**attrs, "Tpaddings": None})
    plain = {key: attr.default for key, attr in opdef.lookup("Conv2D").attrs.items()}
    conv_attrs = {key: attrs[key] for key in ("T", "strides", "padding")}
    return _kernel_of(ctx, "Conv2D")(ctx, [mirrored, weights], {**plain, **conv_attrs})


def _convolved(c: Any, size: list[Any]) -> Any:
    images, weights, paddings = c.with_rank("input", 4), c.with_rank("filter", 4), c.value("paddings")
    shapes.merge(c.with_rank("paddings", 2), (4, 2))
    if tuple(c.attrs["strides"][::3]) != (1, 1):
        raise ValueError(
            errors.message(f"strides={list(c.attrs['strides'])}", "1 for batch and channels", "strides=[1, 2, 2, 1]")
        )
    dims: list[int | None] = []
    for axis in (1, 2):
        side, window, stride = size[axis - 1], weights[axis - 1], c.attrs["strides"][axis]
        if side is None or paddings is None or window is None:
            dims.append(None)
            continue
        side = side + int(paddings[axis].sum())
        dims.append(-(-side // stride) if c.attrs["padding"] == "SAME" else max((side - window) // stride + 1, 0))
    batch = None if images[0] is None or paddings is None else images[0] + int(paddings[0].sum())
    return (batch, *dims, weights[3])


_PADS = {
    "mode": String(allowed="REFLECT SYMMETRIC"),
    "strides": List("int"),
    "padding": String(allowed="SAME VALID"),
}


class FusedPadConv2D(Op):
    """Conv2D of an input that MirrorPad continues by ``paddings``."""

    signature = "input: T, paddings: int32, filter: T -> output: T"
    attrs = {"T": Type("bfloat16 half float double"), **_PADS}
    effect = PURE
    compile_time = ("paddings",)
    gradient = NotDifferentiable("TensorFlow has no gradient of it: graphs for training are not optimised this way")

    def shape(c):
        return _convolved(c, list(c.with_rank("input", 4)[1:3]))

    @uses_lax
    def kernel(ctx, inputs, attrs):
        return _padded_convolution(ctx, *inputs, attrs)

    def host_kernel(ctx, inputs, attrs):
        return _padded_convolution(ctx, *inputs, attrs)


class FusedResizeAndPadConv2D(Op):
    """Conv2D of an input that ResizeBilinear brings to ``size`` and MirrorPad continues by ``paddings``."""

    signature = "input: T, size: int32, paddings: int32, filter: T -> output: T"
    attrs = {"T": Type("half float double"), "resize_align_corners": Bool(False), **_PADS}
    effect = PURE
    compile_time = ("size", "paddings")
    gradient = NotDifferentiable("TensorFlow has no gradient of it: graphs for training are not optimised this way")

    def shape(c):
        return _convolved(c, list(c.vector("size") or [None, None]))

    @uses_lax
    def kernel(ctx, inputs, attrs):
        return _resized_convolution(ctx, inputs, attrs)

    def host_kernel(ctx, inputs, attrs):
        return _resized_convolution(ctx, inputs, attrs)


def _resized_convolution(ctx: Any, inputs: Any, attrs: Any) -> Any:
    x, size, paddings, weights = inputs
    options = {"T": attrs["T"], "align_corners": attrs["resize_align_corners"], "half_pixel_centers": False}
    resized = _kernel_of(ctx, "ResizeBilinear")(ctx, [x, size], options).astype(x.dtype)
    return _padded_convolution(ctx, resized, paddings, weights, attrs)


# ------------------------------------------------------------------------------------------------------------ the clock
class Timestamp(Op):
    """Seconds since 1970, a float64 scalar, when it runs."""

    signature = "-> ts: double"
    effect = IO
    gradient = NotDifferentiable("time is not computed")

    def shape(c):
        return ()

    def host_kernel(ctx, inputs, attrs):
        return np.float64(time.time())


public_op("Timestamp", "timestamp")


@public("lbeta", "math.lbeta")
def lbeta(x: Any, name: str | None = None) -> Any:
    """The logarithm of the multivariate beta function over the last dimension."""
    from_gammas = build("Sum", build("Lgamma", x), [-1])
    return build("Sub", from_gammas, build("Lgamma", build("Sum", x, [-1])), name=name)
