"""Random parts of images: distorted bounding boxes, and glimpses. On the host.

Policy. Boxes are drawn from the op's Philox stream one number after another, as TensorFlow draws them, so that the same
seeds give the same boxes.
"""

from __future__ import annotations

import collections
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, RANDOM, Bool, Float, Int, List, NotDifferentiable, Op, String, Type
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import shapes
from anabranch.ops.random import philox

_CHOICE = NotDifferentiable("a part of an image is chosen, not computed")


class _Words:
    """A stream's 32-bit words one by one, and what is drawn from them."""

    def __init__(self, stream: Any, at_once: int = 256) -> None:
        self._stream, self._size = stream, at_once
        self._words: list[int] = []

    def word(self) -> int:
        """The next word."""
        if not self._words:
            key, counter = self._stream
            self._words = philox.host_words(self._stream, self._size)[::-1].tolist()
            start = int(counter[0]) | int(counter[1]) << 32 | int(counter[2]) << 64 | int(counter[3]) << 96
            start += self._size // 4
            self._stream = key, np.array([start >> (32 * i) & 0xFFFFFFFF for i in range(4)], np.uint32)
        return self._words.pop()

    def real(self) -> np.float32:
        """A number in [0, 1)."""
        bits = np.array([self.word()], np.uint32)
        return philox.float32(np, bits, lambda array, dtype: array.view(dtype))[0]

    def below(self, bound: int) -> int:
        """A whole number from 0 to ``bound - 1``, all equally likely."""
        if bound & (bound - 1) == 0:
            return self.word() & (bound - 1)
        least = 0xFFFFFFFF % bound + 1
        while (drawn := self.word()) < least:
            pass
        return drawn % bound


_Box = tuple[int, int, int, int]
"""Top, left, bottom and right in pixels."""


def _round(value: Any) -> int:
    return int(np.rint(np.float32(value)))


def _random_crop(words: _Words, height: int, width: int, area_range: Sequence[float], ratio: np.float32) -> _Box | None:
    """A box of the ratio of width to height whose area is within the range, if one fits."""
    low, high = (np.float32(part) for part in area_range)
    if high <= 0 or ratio <= 0 or width <= 0 or height <= 0 or low > high:
        return None
    least, most = low * np.float32(width) * np.float32(height), high * np.float32(width) * np.float32(height)
    rows, most_rows = _round(np.sqrt(least / ratio)), _round(np.sqrt(most / ratio))
    if _round(np.float32(most_rows) * ratio) > width:
        most_rows = int((width + 0.5 - float(np.float32(1e-7))) / float(ratio))
        if _round(np.float32(most_rows) * ratio) > width:
            most_rows -= 1
    most_rows = min(most_rows, height)
    rows = min(rows, most_rows)
    if rows < most_rows:
        rows += words.below(most_rows - rows + 1)
    columns = _round(np.float32(rows) * ratio)
    # Rounding may have left the range: look one row further.
    for step, outside in ((1, rows * columns < least), (-1, rows * columns > most)):
        if outside:
            rows += step
            columns = _round(np.float32(rows) * ratio)
    if not least <= rows * columns <= most or not 0 < columns <= width or not 0 < rows <= height:
        return None
    top = words.below(height - rows) if rows < height else 0
    left = words.below(width - columns) if columns < width else 0
    return top, left, top + rows, left + columns


def _area(box: _Box) -> int:
    return max(box[2] - box[0], 0) * max(box[3] - box[1], 0)


def _covers(crop: _Box, boxes: Sequence[_Box], least: float) -> bool:
    """Whether the crop shows that part of one of the boxes."""
    if _area(crop) < 1:
        return False
    for box in boxes:
        if _area(box) >= 1:
            shared = max(crop[0], box[0]), max(crop[1], box[1]), min(crop[2], box[2]), min(crop[3], box[3])
            if np.float32(_area(shared)) / np.float32(_area(box)) >= np.float32(least):
                return True
    return False


def _sampled(ctx: Any, stream: Any, size: Any, boxes: Any, least: float, attrs: Any) -> Any:
    sizes = np.asarray(size)
    ctx.check(
        sizes.shape == (3,),
        errors.InvalidArgumentError,
        f"image_size must contain 3 elements {shapes.show(sizes.shape)}",
    )
    height, width = int(sizes[0]), int(sizes[1])
    ctx.check(
        boxes.ndim == 3 and boxes.shape[2] == 4,
        errors.InvalidArgumentError,
        f"bounding boxes must have shape [1, N, 4] or [batch, N, 4], got {shapes.show(boxes.shape)}",
    )
    given = boxes.reshape(-1, 4)
    ctx.check(
        bool(((given >= 0) & (given <= 1)).all()),
        errors.InvalidArgumentError,
        "All bounding box coordinates must be in [0.0, 1.0]: {0}",
        given[(~((given >= 0) & (given <= 1))).any(1)][:1].ravel(),
        summarize=4,
    )
    scaled = given * np.array([height, width, height, width], np.float32)
    targets: list[_Box] = [(int(a), int(b), int(c), int(d)) for a, b, c, d in scaled]
    ctx.check(
        bool(targets) or attrs["use_image_if_no_bounding_boxes"],
        errors.InvalidArgumentError,
        "No bounding boxes provided as input. One must enable use_image_if_no_bounding_boxes if you wish to not "
        "provide any bounding boxes.",
    )
    whole = (0, 0, height, width)
    targets = targets or [whole]
    words = _Words(stream)
    low, high = (np.float32(part) for part in attrs["aspect_ratio_range"])
    chosen = whole
    for _ in range(attrs["max_attempts"]):
        ratio = words.real() * (high - low) + low
        crop = _random_crop(words, height, width, attrs["area_range"], ratio)
        if crop is not None and _covers(crop, targets, least):
            chosen = crop
            break
    top, left, bottom, right = chosen
    kind = attrs["T"].np
    parts = np.array([top, left, bottom, right], np.float32) / np.array([height, width, height, width], np.float32)
    return (
        np.array([top, left, 0], kind),
        np.array([bottom - top, right - left, -1]).astype(kind),
        parts.reshape(1, 1, 4),
    )


_WHOLE_NUMBERS = "uint8 int8 int16 int32 int64"
_RANGES = {
    "aspect_ratio_range": List("float", (0.75, 1.33)),
    "area_range": List("float", (0.05, 1.0)),
    "max_attempts": Int(100),
    "use_image_if_no_bounding_boxes": Bool(False),
}


def _box_shapes(c: Any) -> list[Any]:
    c.with_rank("image_size", 1)
    boxes = c.with_rank("bounding_boxes", 3)
    if boxes[2] not in (None, 4):
        raise ValueError(
            errors.message(f"bounding_boxes of shape {shapes.show(boxes)}", "[batch, n, 4]", "[y1, x1, y2, x2] each")
        )
    for key in ("aspect_ratio_range", "area_range"):
        given = c.attrs[key]
        if len(given) != 2 or not 0 < given[0] <= given[1] or (key == "area_range" and given[1] > 1):
            raise ValueError(
                errors.message(
                    f"{key}={list(given)}",
                    "[min, max] above 0" + (" and at most 1" if key == "area_range" else ""),
                    f"{key}={[0.05, 1.0] if key == 'area_range' else [0.75, 1.33]}",
                )
            )
    if c.attrs["max_attempts"] <= 0:
        raise ValueError(
            errors.message(f"max_attempts={c.attrs['max_attempts']}", "a number above 0", "max_attempts=100")
        )
    return [(3,), (3,), (1, 1, 4)]


def _reserve(c: Any) -> int:
    return int(c.attrs["max_attempts"])


class SampleDistortedBoundingBox(Op):
    """A random part of an image that shows enough of one of the boxes: where it begins, its size, and it as a box.

    ``begin`` and ``size`` are operands of a slice of ``[height, width, channels]``; ``bboxes`` ``[1, 1, 4]`` is in
    parts of height and width. Without success in ``max_attempts`` it is the whole image.
    """

    signature = "image_size: T, bounding_boxes: float -> begin: T, size: T, bboxes: float"
    attrs = {
        "T": Type(_WHOLE_NUMBERS),
        "seed": Int(0),
        "seed2": Int(0),
        "min_object_covered": Float(0.1),
        **_RANGES,
    }
    effect = RANDOM
    shape = _box_shapes
    consumes = _reserve
    gradient = _CHOICE

    def host_kernel(ctx, inputs, attrs):
        return _sampled(ctx, ctx.philox, *inputs, attrs["min_object_covered"], attrs)


class SampleDistortedBoundingBoxV2(Op):
    """SampleDistortedBoundingBox with ``min_object_covered`` as an operand."""

    signature = "image_size: T, bounding_boxes: float, min_object_covered: float -> begin: T, size: T, bboxes: float"
    attrs = {"T": Type(_WHOLE_NUMBERS), "seed": Int(0), "seed2": Int(0), **_RANGES}
    effect = RANDOM
    ranks = {"min_object_covered": 0}
    shape = _box_shapes
    consumes = _reserve
    gradient = _CHOICE

    def host_kernel(ctx, inputs, attrs):
        size, boxes, least = inputs
        return _sampled(ctx, ctx.philox, size, boxes, float(least), attrs)


class StatelessSampleDistortedBoundingBox(Op):
    """SampleDistortedBoundingBoxV2 as a function of ``seed``, two integers."""

    signature = (
        "image_size: T, bounding_boxes: float, min_object_covered: float, seed: Tseed "
        "-> begin: T, size: T, bboxes: float"
    )
    attrs = {"T": Type(_WHOLE_NUMBERS), "Tseed": Type("int32 int64"), **_RANGES}
    effect = PURE
    ranks = {"min_object_covered": 0}
    shape = _box_shapes
    gradient = _CHOICE

    def host_kernel(ctx, inputs, attrs):
        size, boxes, least, seed = inputs
        ctx.check(
            np.shape(seed) == (2,), errors.InvalidArgumentError, f"seed must have shape [2], not {list(np.shape(seed))}"
        )
        return _sampled(ctx, philox.stream_of_seed(ctx, seed), size, boxes, float(least), attrs)


# ------------------------------------------------------------------------------------------------------------ glimpses
def _glimpses(ctx: Any, inputs: Any, attrs: Any, version: int) -> np.ndarray:
    images, size, offsets = inputs
    batch, height, width, channels = images.shape
    rows, columns = (int(item) for item in np.asarray(size))
    ctx.check(rows > 0 and columns > 0, errors.InvalidArgumentError, "grid size must be positive")
    out = np.empty((batch, rows, columns, channels), np.float32)
    noise = attrs["noise"] if attrs["noise"] != "uniform" or attrs["uniform_noise"] else "gaussian"
    random = np.random.default_rng()
    for image, (y, x), glimpse in zip(images, offsets.astype(np.float32), out, strict=True):
        if attrs["normalized"]:
            y, x = y * height, x * width
        around = version == 1 or (attrs["centered"] and attrs["normalized"])
        if attrs["centered"]:
            y, x = (y / 2, x / 2) if around else (y, x)
            y, x = y + height / 2, x + width / 2
        top, left = (int(y - rows / 2), int(x - columns / 2)) if around else (int(y), int(x))
        ya, yb, xa, xb = max(top, 0), min(top + rows, height), max(left, 0), min(left + columns, width)
        if yb - ya < rows or xb - xa < columns:
            if noise == "zero":
                glimpse[...] = 0
            elif noise == "gaussian":
                glimpse[...] = random.normal(image.mean(), image.std(), glimpse.shape)
            else:
                glimpse[...] = random.uniform(image.min(), image.max(), glimpse.shape)
        if yb > ya and xb > xa:
            glimpse[ya - top : yb - top, xa - left : xb - left] = image[ya:yb, xa:xb]
    return out


def _glimpse_shape(c: Any) -> Any:
    images, offsets = c.with_rank("input", 4), c.with_rank("offsets", 2)
    if offsets[1] not in (None, 2):
        raise ValueError(errors.message(f"offsets of shape {shapes.show(offsets)}", "[batch, 2]", "[y, x] each"))
    if c.attrs["noise"] not in ("uniform", "gaussian", "zero"):
        raise ValueError(errors.message(f"noise={c.attrs['noise']!r}", "uniform, gaussian or zero", "noise='zero'"))
    if c.attrs["uniform_noise"] and c.attrs["noise"] != "uniform":
        raise ValueError(
            "The uniform_noise should not be True when noise is not uniform\n"
            + errors.message(f"noise={c.attrs['noise']!r}", "one of the two arguments", "uniform_noise=False")
        )
    c.with_rank("size", 1)
    rows, columns = c.vector("size") or (None, None)
    return (shapes.merge_dim(images[0], offsets[0]), rows, columns, images[3])


_GLIMPSE = {
    "centered": Bool(True),
    "normalized": Bool(True),
    "uniform_noise": Bool(True),
    "noise": String("uniform"),
}


class ExtractGlimpse(Op):
    """From each image ``[batch, height, width, channels]`` a window of ``size`` around its offset ``[y, x]``.

    Offsets are from the centre if ``centered``, from the upper left corner otherwise; in parts of the image if
    ``normalized``. Places outside the image get noise of its values.
    """

    signature = "input: float, size: int32, offsets: float -> glimpse: float"
    attrs = dict(_GLIMPSE)
    effect = PURE
    compile_time = ("size",)
    deterministic = False
    shape = _glimpse_shape
    gradient = NotDifferentiable("TensorFlow has no gradient of it")

    def host_kernel(ctx, inputs, attrs):
        return _glimpses(ctx, inputs, attrs, 1)


class ExtractGlimpseV2(Op):
    """ExtractGlimpse where only offsets in parts from the centre are those of the window's centre.

    Others are those of its upper left corner, and pixels are whole ones; before they were halves if ``centered``.
    """

    signature = "input: float, size: int32, offsets: float -> glimpse: float"
    attrs = dict(_GLIMPSE)
    effect = PURE
    compile_time = ("size",)
    deterministic = False
    shape = _glimpse_shape
    gradient = NotDifferentiable("TensorFlow has no gradient of it")

    def host_kernel(ctx, inputs, attrs):
        return _glimpses(ctx, inputs, attrs, 2)


# ----------------------------------------------------------------------------------------------------------- functions
DistortedBox = collections.namedtuple("DistortedBox", ["begin", "size", "bboxes"])


@public("image.sample_distorted_bounding_box")
def sample_distorted_bounding_box(
    image_size: Any,
    bounding_boxes: Any,
    seed: int | None = None,
    seed2: int | None = None,
    min_object_covered: Any = 0.1,
    aspect_ratio_range: Sequence[float] | None = None,
    area_range: Sequence[float] | None = None,
    max_attempts: int | None = None,
    use_image_if_no_bounding_boxes: bool | None = None,
    name: str | None = None,
) -> Any:
    """A random part of an image that shows enough of an object.

    Args:
        image_size: ``[height, width, channels]``.
        bounding_boxes: ``[batch, n, 4]``: ``[y1, x1, y2, x2]`` each, in parts of height and width.
        seed: of the op.
        seed2: of the op.
        min_object_covered: the part of one of the boxes that must be shown.
        aspect_ratio_range: of width to height, ``[0.75, 1.33]`` by default.
        area_range: part of the image's area, ``[0.05, 1.0]`` by default.
        max_attempts: 100 by default; after these it is the whole image.
        use_image_if_no_bounding_boxes: whether the image is the object if no boxes are given.
        name: of the op.

    Returns:
        ``begin`` and ``size`` for ``tf.slice``, and ``bboxes`` ``[1, 1, 4]`` for ``tf.image.draw_bounding_boxes``.

    Example:
        >>> import anabranch as tf
        >>> image = tf.zeros([60, 80, 3])
        >>> begin, size, _ = tf.image.sample_distorted_bounding_box([60, 80, 3], [[[0.1, 0.1, 0.9, 0.9]]])
        >>> part = tf.slice(image, begin, size)
    """
    window = build(
        "SampleDistortedBoundingBoxV2",
        image_size,
        bounding_boxes,
        min_object_covered,
        seed=seed or 0,
        seed2=seed2 or 0,
        aspect_ratio_range=aspect_ratio_range,
        area_range=area_range,
        max_attempts=max_attempts,
        use_image_if_no_bounding_boxes=use_image_if_no_bounding_boxes,
        name=name,
    )
    return DistortedBox(*window)


@public("image.extract_glimpse")
def extract_glimpse(
    input: Any,
    size: Any,
    offsets: Any,
    centered: bool = True,
    normalized: bool = True,
    uniform_noise: bool = True,
    name: str | None = None,
) -> Tensor:
    """Windows of images.

    Args:
        input: ``[batch, height, width, channels]``.
        size: ``[height, width]`` of the windows.
        offsets: ``[batch, 2]``: ``[y, x]`` of their centres.
        centered: whether (0, 0) is the centre of an image and not its upper left corner.
        normalized: whether offsets are in parts of an image: (1, 1) is its lower right corner.
        uniform_noise: whether places outside an image get uniform noise and not Gaussian.
        name: of the op.
    """
    options = {"centered": centered, "normalized": normalized, "uniform_noise": uniform_noise}
    return build("ExtractGlimpse", input, size, offsets, name=name, **options)
