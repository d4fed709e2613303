"""Ops that make summaries, serialised messages that a `tf.summary.FileWriter` writes and TensorBoard shows.

Policy. Values are TensorFlow's to the bit: the limits of a histogram's buckets grow by a tenth from 1e-12 to 1e20 on
both sides of 0, sums are added in order, floats become pixels by one affine map per image. Only the compressed bytes of
a PNG may differ. All live on the host. None has an effect: writing is the caller's business.
"""

from __future__ import annotations

import bisect
import functools
import sys
from typing import Any

import numpy as np
from google.protobuf import message as protobuf

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.opdef import PURE, Float, Int, List, NotDifferentiable, Op, String, TensorAttr, Type
from anabranch.core.protos import summary_pb2, tensor_pb2
from anabranch.core.values import dtypes, shapes
from anabranch.core.values.tensor_proto import array_to_proto
from anabranch.ops.summary.encoders import encode_png, encode_wav

REAL = "float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64"
_NO_GRADIENT = NotDifferentiable("a summary is a string")
_LARGEST = sys.float_info.max


def _bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else str(text).encode()


def literal(text: str) -> str:
    """``text`` as a format string that gives it."""
    return text.replace("{", "{{").replace("}", "}}")


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _serialised(summary: summary_pb2.Summary) -> np.ndarray:
    array = np.empty((), object)
    array[()] = summary.SerializeToString()
    return array


def _scalar_tag(c: Any, name: str = "tag") -> None:
    if c.shape(name) not in (None, ()):
        c.with_rank(name, 0)


def one_tag(ctx: Any, tag: Any, what: str = "tag") -> str:
    """The text of a tag, which must be a scalar."""
    ctx.check(
        np.ndim(tag) == 0, errors.InvalidArgumentError, what + " must be a scalar, not of shape {0}", np.shape(tag)
    )
    return _text(np.asarray(tag, object)[()])


# -------------------------------------------------------------------------------------------------------------- scalars
class ScalarSummary(Op):
    """A summary of ``values``, one scalar per tag; ``tags`` has their shape."""

    signature = "tags: string, values: T -> summary: string"
    attrs = {"T": Type(REAL)}
    effect = PURE
    gradient = _NO_GRADIENT
    shape = inference.scalar

    def total(op):
        tags, values = op._inputs[0]._shape, op._inputs[1]._shape
        return shapes.is_static(tags) and tags == values

    def host_kernel(ctx, inputs, attrs):
        tags, values = np.asarray(inputs[0], object), np.asarray(inputs[1])
        ctx.check(
            tags.shape == values.shape,
            errors.InvalidArgumentError,
            f"tags and values not the same shape: {shapes.show(tags.shape)} != {shapes.show(values.shape)}"
            + (f" (tag '{literal(_text(tags.flat[0]))}')" if tags.size == 1 else ""),
        )
        summary = summary_pb2.Summary()
        for tag, value in zip(tags.ravel().tolist(), values.astype(np.float32).ravel().tolist(), strict=True):
            summary.value.add(tag=_text(tag), simple_value=value)
        return _serialised(summary)


# ----------------------------------------------------------------------------------------------------------- histograms
def _bucket_limits() -> np.ndarray:
    positive = []
    limit = 1.0e-12
    while limit < 1.0e20:
        positive.append(limit)
        limit *= 1.1
    positive.append(_LARGEST)
    return np.array([-item for item in reversed(positive)] + [0.0] + positive)


_LIMITS = _bucket_limits()
_LIMITS_LIST = _LIMITS.tolist()
_FEW = 32
"""Up to this many values are counted one by one, which takes less time than the calls of NumPy."""


@functools.cache
def _cells() -> tuple[np.ndarray, np.ndarray]:
    """For each value of a double's upper 16 bits how many limits do not exceed the least such number; the next limit.

    Such numbers span a sixteenth of their size, and limits are a tenth apart: at most one lies within.
    """
    upper = np.arange(1 << 16, dtype=np.uint64)
    lower = np.where(upper >> np.uint64(15), np.uint64((1 << 48) - 1), np.uint64(0))
    with np.errstate(invalid="ignore"):
        base = np.searchsorted(_LIMITS, ((upper << np.uint64(48)) | lower).view(np.float64), side="right")
    return base.astype(np.int16), np.append(_LIMITS, np.inf)[base]


def _places(values: np.ndarray) -> np.ndarray:
    """How many limits do not exceed each of the finite values, as a binary search finds it, many times faster."""
    base, following = _cells()
    upper = (np.ascontiguousarray(values).view(np.uint64) >> np.uint64(48)).astype(np.intp)
    return base[upper] + (values >= following[upper])


def _count_few(histogram: summary_pb2.HistogramProto, values: list[float]) -> dict[int, float]:
    """Set the moments of a few values; values by the place of their bucket."""
    total = squares = 0.0
    counts: dict[int, float] = {}
    last = len(_LIMITS_LIST) - 1
    for value in values:
        total += value
        squares += value * value
        place = min(bisect.bisect_right(_LIMITS_LIST, value), last)
        counts[place] = counts.get(place, 0.0) + 1.0
    histogram.min, histogram.max, histogram.sum, histogram.sum_squares = min(values), max(values), total, squares
    return counts


def _count_many(histogram: summary_pb2.HistogramProto, values: np.ndarray) -> dict[int, float]:
    """Like `_count_few`; sums are added in order, too."""
    histogram.min, histogram.max = values.min(), values.max()
    histogram.sum, histogram.sum_squares = np.cumsum(values)[-1], np.cumsum(values * values)[-1]
    counts = np.bincount(np.minimum(_places(values), len(_LIMITS) - 1))
    return {place: float(counts[place]) for place in np.flatnonzero(counts).tolist()}


def histogram_of(values: np.ndarray) -> summary_pb2.HistogramProto:
    """The histogram of finite float64 ``values``, empty buckets joined."""
    values = values.ravel()
    histogram = summary_pb2.HistogramProto(num=values.size)
    counts: dict[int, float] = {}
    if values.size:
        counts = _count_few(histogram, values.tolist()) if values.size <= _FEW else _count_many(histogram, values)
    else:
        histogram.min, histogram.max = _LARGEST, -_LARGEST
    # Of a run of empty buckets only the last limit is kept.
    buckets = {len(_LIMITS) - 1: 0.0}
    for place in counts:
        if place:
            buckets[place - 1] = 0.0
    buckets.update(counts)
    places = sorted(buckets)
    histogram.bucket_limit.extend([_LIMITS_LIST[place] for place in places])
    histogram.bucket.extend([buckets[place] for place in places])
    return histogram


def histogram_summary(ctx: Any, tag: Any, values: Any) -> summary_pb2.Summary:
    """A summary with the histogram of finite values."""
    summary = summary_pb2.Summary()
    summary.value.add(tag=one_tag(ctx, tag, "tags"), histo=histogram_of(np.asarray(values, np.float64)))
    return summary


def check_finite(ctx: Any, values: Any) -> None:
    """Check the values of a histogram."""
    xp = ctx.xp
    if values.dtype.kind in "biu" or (ctx.host and np.isfinite(values).all()):
        return
    text = " in summary histogram for: {name}"
    ctx.check(~xp.any(xp.isnan(values)), errors.InvalidArgumentError, "Nan" + text)
    ctx.check(~xp.any(xp.isinf(values)), errors.InvalidArgumentError, "Infinity" + text)


class HistogramSummary(Op):
    """A summary with the histogram of ``values``, which must be finite."""

    signature = "tag: string, values: T -> summary: string"
    attrs = {"T": Type(REAL, "float")}
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        _scalar_tag(c)
        return ()

    def checks(ctx, inputs, attrs):
        check_finite(ctx, inputs[1])

    def total(op):
        return op._inputs[0]._shape == ()

    def host_kernel(ctx, inputs, attrs):
        return _serialised(histogram_summary(ctx, inputs[0], inputs[1]))


# --------------------------------------------------------------------------------------------------------------- images
def _pixels(image: np.ndarray, bad_color: np.ndarray) -> np.ndarray:
    """A float image ``[height, width, channels]`` as bytes; pixels that are not finite get ``bad_color``."""
    kind = image.dtype.type
    flat = image.reshape(-1, image.shape[-1])
    good = np.isfinite(flat).all(axis=1)
    finite = flat[good]
    low = finite.min(initial=kind(np.inf))
    high = finite.max(initial=kind(-np.inf))
    # Numbers without a sign use all 255 steps; others are centred at 128.
    most = max(abs(low), abs(high)) if low < 0 else high
    steps, offset = (127.0, 128.0) if low < 0 else (255.0, 0.0)
    scale = kind(0) if most < kind(1e-6) else kind(np.float32(steps) / np.float32(most))  # single, also for doubles
    pixels = np.empty(flat.shape, np.uint8)
    pixels[good] = (finite * scale + kind(offset)).astype(np.uint8)
    pixels[~good] = bad_color
    return pixels.reshape(image.shape)


def image_summary(ctx: Any, tag: Any, images: Any, bad_color: Any, max_images: int) -> summary_pb2.Summary:
    """A summary with up to ``max_images`` images as PNG; checks their shape."""
    name = one_tag(ctx, tag, "Tags")
    ctx.check(
        images.ndim == 4 and images.shape[3] in (1, 3, 4),
        errors.InvalidArgumentError,
        f"Tensor must be 4-D with last dim 1, 3, or 4, not {shapes.show(images.shape)}",
    )
    count, height, width, channels = images.shape
    ctx.check(
        bad_color.ndim == 1 and bad_color.dtype == np.uint8 and bad_color.size >= channels,
        errors.InvalidArgumentError,
        f"bad_color must be a vector of uint8, one for each of {channels} channels",
    )
    ctx.check(
        not count or (height > 0 and width > 0),
        errors.InvalidArgumentError,
        f"images of no pixels have no PNG: {shapes.show(images.shape)}",
    )
    summary = summary_pb2.Summary()
    for i in range(min(count, max_images)):
        image = images[i] if images.dtype == np.uint8 else _pixels(images[i], bad_color[:channels])
        # The tag follows how many images are asked for, not how many there are.
        value = summary.value.add(tag=f"{name}/image/{i}" if max_images > 1 else f"{name}/image")
        value.image.height, value.image.width, value.image.colorspace = height, width, channels
        value.image.encoded_image_string = encode_png(image)
    return summary


class ImageSummary(Op):
    """A summary with up to ``max_images`` images of ``tensor``, ``[batch, height, width, channels]``, as PNG.

    Bytes are pixels. Floats are scaled to 0 to 255, around 128 if an image has negative ones; pixels that are not
    finite are shown in ``bad_color``.
    """

    signature = "tag: string, tensor: T -> summary: string"
    attrs = {
        "max_images": Int(3, 1),
        "T": Type("uint8 float half double", "float"),
        "bad_color": TensorAttr(np.array([255, 0, 0, 255], np.uint8)),
    }
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        _scalar_tag(c)
        c.with_rank("tensor", 4)  # the kernel judges the channels
        return ()

    def total(op):
        shape = op._inputs[1]._shape
        return (
            op._inputs[0]._shape == ()
            and shapes.is_static((shape or (None,))[1:])
            and min(shape[1:3], default=0) > 0
            and shape[3] in (1, 3, 4)
            and op._attrs["bad_color"].dtype == np.uint8
            and op._attrs["bad_color"].size >= shape[3]
        )

    def host_kernel(ctx, inputs, attrs):
        return _serialised(image_summary(ctx, inputs[0], inputs[1], attrs["bad_color"], attrs["max_images"]))


# ---------------------------------------------------------------------------------------------------------------- audio
def _audio_shape(c: Any) -> Any:
    _scalar_tag(c)
    tensor = c.with_rank_at_least("tensor", 2)
    if tensor is not None and len(tensor) > 3:
        c.with_rank("tensor", 3)
    return ()


def audio_summary(ctx: Any, tag: Any, tensor: Any, rate: float, most: int) -> summary_pb2.Summary:
    """A summary with up to ``most`` clips as WAV; checks their shape and rate."""
    name = one_tag(ctx, tag)
    ctx.check(rate > 0, errors.InvalidArgumentError, "sample_rate must be > 0")
    ctx.check(
        tensor.ndim in (2, 3),
        errors.InvalidArgumentError,
        f"Tensor must be 3-D or 2-D, got: {shapes.show(tensor.shape)}",
    )
    clips = tensor if tensor.ndim == 3 else tensor[:, :, None]
    count, frames, channels = clips.shape
    ctx.check(
        not count or (0 < channels < 32768 and rate < 2**32),
        errors.InvalidArgumentError,
        f"no WAV has {channels} channels at {rate} samples a second",
    )
    summary = summary_pb2.Summary()
    for i in range(min(count, most)):
        value = summary.value.add(tag=f"{name}/audio/{i}" if most > 1 else f"{name}/audio")
        value.audio.sample_rate, value.audio.num_channels, value.audio.length_frames = rate, channels, frames
        value.audio.content_type = "audio/wav"
        value.audio.encoded_audio_string = encode_wav(clips[i], int(rate))
    return summary


def _is_audio(op: Any, rate: float) -> bool:
    """Whether what is known of clips before they are there says that each is a WAV."""
    shape = op._inputs[1]._shape
    if op._inputs[0]._shape != () or shape is None or len(shape) not in (2, 3) or not shapes.is_static(shape[1:]):
        return False
    frames, channels = (*shape[1:], 1)[:2]
    block = 2 * channels
    return bool(0 < channels < 32768 and rate > 0 and rate * block < 2**32 and frames * block < 2**32 - 36)


class AudioSummary(Op):
    """A summary with up to ``max_outputs`` clips of ``tensor``, ``[batch, frames]`` or with channels behind."""

    signature = "tag: string, tensor: float -> summary: string"
    attrs = {"sample_rate": Float(), "max_outputs": Int(3, 1)}
    effect = PURE
    gradient = _NO_GRADIENT
    shape = _audio_shape

    def total(op):
        return _is_audio(op, op._attrs["sample_rate"])

    def host_kernel(ctx, inputs, attrs):
        return _serialised(audio_summary(ctx, inputs[0], inputs[1], attrs["sample_rate"], attrs["max_outputs"]))


class AudioSummaryV2(Op):
    """A summary with up to ``max_outputs`` clips of ``tensor``, ``[batch, frames]`` or ``[batch, frames, channels]``.

    Samples lie in [-1, 1]; ``sample_rate`` is in Hertz. A clip becomes a WAV of 16 bits.
    """

    signature = "tag: string, tensor: float, sample_rate: float -> summary: string"
    attrs = {"max_outputs": Int(3, 1)}
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        if c.shape("sample_rate") not in (None, ()):
            c.with_rank("sample_rate", 0)
        return _audio_shape(c)

    def total(op):
        rate = op._inputs[2].op
        return rate.type == "Const" and rate._attrs["value"].ndim == 0 and _is_audio(op, float(rate._attrs["value"]))

    def host_kernel(ctx, inputs, attrs):
        tag, tensor, rate = inputs
        ctx.check(np.ndim(rate) == 0, errors.InvalidArgumentError, "sample_rate must be a scalar")
        return _serialised(audio_summary(ctx, tag, tensor, float(rate), attrs["max_outputs"]))


# -------------------------------------------------------------------------------------------------------------- tensors
def content_proto(array: np.ndarray, dtype: dtypes.DType) -> tensor_pb2.TensorProto:
    """A tensor as a message; numbers are always in ``tensor_content``."""
    if dtype is dtypes.string:
        return array_to_proto(array, dtype)
    proto = tensor_pb2.TensorProto(dtype=dtype.enum, tensor_content=array.tobytes())  # type: ignore[arg-type]
    proto.tensor_shape.SetInParent()
    for size in array.shape:
        proto.tensor_shape.dim.add(size=size)
    return proto


class TensorSummary(Op):
    """A summary with all of ``tensor``, named by the node that makes it."""

    signature = "tensor: T -> summary: string"
    attrs = {"T": Type(), "description": String(""), "labels": List("string", ()), "display_name": String("")}
    effect = PURE
    gradient = _NO_GRADIENT
    shape = inference.scalar

    def total(op):
        return True

    def host_kernel(ctx, inputs, attrs):
        summary = summary_pb2.Summary()
        summary.value.add(node_name=ctx.op.name).tensor.CopyFrom(content_proto(np.asarray(inputs[0]), attrs["T"]))
        return _serialised(summary)


def tensor_value(ctx: Any, tag: Any, tensor: Any, dtype: dtypes.DType, metadata: Any) -> summary_pb2.Summary.Value:
    """A summary's value with all of a tensor and serialised metadata."""
    value = summary_pb2.Summary.Value(tag=one_tag(ctx, tag), tensor=content_proto(np.asarray(tensor), dtype))
    ctx.check(np.ndim(metadata) == 0, errors.InvalidArgumentError, "serialized_summary_metadata must be scalar")
    value.metadata.CopyFrom(parsed(ctx, metadata, summary_pb2.SummaryMetadata, "the summary metadata"))
    return value


class TensorSummaryV2(Op):
    """A summary with all of ``tensor`` and metadata that tell which plugin of TensorBoard shows it."""

    signature = "tag: string, tensor: T, serialized_summary_metadata: string -> summary: string"
    attrs = {"T": Type()}
    effect = PURE
    gradient = _NO_GRADIENT
    shape = inference.scalar

    def total(op):
        tag, _, metadata = (tensor.op for tensor in op._inputs)
        if op._inputs[0]._shape != () or metadata.type != "Const" or metadata._attrs["value"].ndim:
            return False
        try:
            summary_pb2.SummaryMetadata.FromString(scalar_bytes(metadata._attrs["value"]))
        except protobuf.DecodeError:
            return False
        return tag.type == "Const"

    def host_kernel(ctx, inputs, attrs):
        tag, tensor, metadata = inputs
        return _serialised(summary_pb2.Summary(value=[tensor_value(ctx, tag, tensor, attrs["T"], metadata)]))


def scalar_bytes(data: Any) -> bytes:
    """The bytes of a string scalar."""
    return _bytes(np.asarray(data, object)[()])


def parsed(ctx: Any, data: Any, kind: Any, what: str) -> Any:
    """A message of a string scalar; checks that it is one."""
    message = kind()
    try:
        message.ParseFromString(scalar_bytes(data))
    except protobuf.DecodeError:
        ctx.check(False, errors.InvalidArgumentError, f"Could not parse {what}")
    return message


# -------------------------------------------------------------------------------------------------------------- merging
def _tags_of(op: Any) -> list[str | None]:
    """The tags of a summary's values; None for what is not known before it runs."""
    if op.type == "MergeSummary":
        return [tag for tensor in op._inputs for tag in _tags_of(tensor.op)]
    if op.type == "TensorSummary":
        return []  # it has the name of its node instead
    if op.type not in _TAGGED or op._inputs[0].op.type != "Const":
        return [None]
    tags = [_text(tag) for tag in np.asarray(op._inputs[0].op._attrs["value"], object).ravel().tolist()]
    kind, attr = _TAGGED[op.type]
    if not kind:
        return tags  # type: ignore[return-value]
    most = op._attrs[attr]
    return [f"{tag}/{kind}/{i}" if most > 1 else f"{tag}/{kind}" for tag in tags for i in range(most)]


_TAGGED = {
    "AudioSummary": ("audio", "max_outputs"),
    "AudioSummaryV2": ("audio", "max_outputs"),
    "HistogramSummary": ("", ""),
    "ImageSummary": ("image", "max_images"),
    "ScalarSummary": ("", ""),
    "TensorSummaryV2": ("", ""),
}
"""What makes summaries with tags, what is added to these, and the attribute that says how many."""


class MergeSummary(Op):
    """One summary with the values of all ``inputs``; no tag may occur twice."""

    signature = "inputs: N * string -> summary: string"
    attrs = {"N": Int(minimum=1)}
    effect = PURE
    gradient = _NO_GRADIENT
    shape = inference.scalar

    def total(op):
        tags = [tag for tensor in op._inputs for tag in _tags_of(tensor.op)]
        return None not in tags and len(set(tags)) == len(tags)

    def host_kernel(ctx, inputs, attrs):
        parts: list[bytes] = []
        seen: set[str] = set()
        for tensor in inputs:
            for data in np.asarray(tensor, object).ravel().tolist():
                part = parsed(ctx, data, summary_pb2.Summary, "one of the summary inputs")
                for value in part.value:
                    tag = value.tag
                    if tag in seen:
                        ctx.check(False, errors.InvalidArgumentError, "Duplicate tag {0} found in summary inputs", tag)
                    if tag:
                        seen.add(tag)
                parts.append(_bytes(data))
        array = np.empty((), object)
        array[()] = b"".join(parts)  # messages one after the other are one with the values of all
        return array
