"""``tf.image``: dtypes, brightness, contrast and colours, fixed and random, and what images measure."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public, public_op
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import counted_as, in_function
from anabranch.core.values import dtypes
from anabranch.ops.array.cast import saturate_cast
from anabranch.ops.control.public_dependencies import with_dependencies
from anabranch.ops.image import codecs, colour  # noqa: F401 - imported for the ops that they define
from anabranch.ops.image.public_geometry import count_check
from anabranch.ops.math.public_assert import assert_equal, assert_non_negative
from anabranch.ops.math.public_reduce import reduce_mean
from anabranch.ops.random.public import random_uniform
from anabranch.ops.shared.array_rules import shape_of

public_op("RGBToHSV", "image.rgb_to_hsv")
public_op("HSVToRGB", "image.hsv_to_rgb")
public_op("DecodePng", "image.decode_png", "io.decode_png")
public_op("DecodeGif", "image.decode_gif", "io.decode_gif")
public_op("DecodeBmp", "image.decode_bmp", "io.decode_bmp")
public_op("DecodeAndCropJpeg", "image.decode_and_crop_jpeg", "io.decode_and_crop_jpeg", "image.decode_and_crop_jpeg")
public_op("ExtractJpegShape", "image.extract_jpeg_shape", "io.extract_jpeg_shape")
public_op("EncodeJpeg", "image.encode_jpeg", "io.encode_jpeg")
public_op("DecodeJpeg", "image.decode_jpeg", "io.decode_jpeg")


@public("image.encode_png", "io.encode_png")
def encode_png(image: Any, compression: int = -1, name: str | None = None) -> Tensor:
    """A PNG file of an image, uint8 or uint16 ``[height, width, 1 to 4 channels]``; ``compression`` from 0 to 9."""
    return build("EncodePng", convert_to_tensor(image), compression=compression, name=name)


@public("image.decode_image", "io.decode_image")
def decode_image(
    contents: Any,
    channels: int | None = None,
    dtype: Any = dtypes.uint8,
    name: str | None = None,
    expand_animations: bool = True,
) -> Tensor:
    """The pixels of a JPEG, PNG, GIF or BMP file; all frames of a GIF unless ``expand_animations`` is false."""
    dtype = dtypes.as_dtype(dtype)
    channels = channels or 0
    contents = convert_to_tensor(contents, dtypes.string)
    choice = 10 if in_function() else 76  # TensorFlow's choice among the formats
    with counted_as(choice if dtype is dtypes.uint8 else choice + 8):
        return build(
            "DecodeImage", contents, channels=channels, dtype=dtype, expand_animations=expand_animations, name=name
        )


@public("image.is_jpeg", "io.is_jpeg")
def is_jpeg(contents: Any, name: str | None = None) -> Tensor:
    """Whether a file begins as those of JPEG do: string, of any shape, to bool."""
    with name_scope(name, "is_jpeg", [contents]) as scope:
        return build("Equal", build("Substr", contents, 0, 3), convert_to_tensor(b"\xff\xd8\xff"), name=scope)


@public("image.convert_image_dtype")
def convert_image_dtype(image: Any, dtype: Any, saturate: bool = False, name: str | None = None) -> Tensor:
    """An image in another dtype, its values scaled: floats lie in [0, 1], integers from 0 to their largest.

    Args:
        image: the image.
        dtype: the new dtype.
        saturate: clip what the new dtype cannot hold.
        name: of the op.
    """
    image = convert_to_tensor(image, name="image")
    dtype = dtypes.as_dtype(dtype)
    source = image.dtype.base
    if source == dtype:
        return build("Identity", image, name=name)
    with name_scope(name, "convert_image", [image]) as scope:
        if source.is_integer and dtype.is_integer:
            ours, theirs = int(source.max), int(dtype.max)
            if ours > theirs:
                divided = image // ((ours + 1) // (theirs + 1))
                return _cast(divided, dtype, saturate, scope)
            if saturate and source.min < 0 and dtype.min >= 0:
                image = build("Maximum", image, convert_to_tensor(0, source))
            return build("Mul", _cast(image, dtype, False, None), (theirs + 1) // (ours + 1), name=scope)
        if source.is_floating and dtype.is_floating:
            return build("Cast", image, DstT=dtype, name=scope)
        if source.is_integer:
            return build("Mul", build("Cast", image, DstT=dtype), 1.0 / int(source.max), name=scope)
        # Half a step below the number of values, so that 1.0 is the largest of them.
        return _cast(image * (int(dtype.max) + 0.5), dtype, saturate, scope)


def _cast(image: Tensor, dtype: Any, saturate: bool, name: str | None) -> Tensor:
    return saturate_cast(image, dtype, name=name) if saturate else build("Cast", image, DstT=dtype, name=name)


def _as_float(image: Any) -> tuple[Tensor, Any]:
    """A floating-point version of an image, and its own dtype."""
    image = convert_to_tensor(image, name="image")
    if image.dtype.base in (dtypes.float16, dtypes.float32):
        return image, image.dtype.base
    return convert_image_dtype(image, dtypes.float32), image.dtype.base


def _number(value: Any, dtype: Any) -> Tensor:
    """A number as a tensor of a dtype; a tensor of that dtype as it is."""
    number = convert_to_tensor(value)
    return number if number.dtype.base is dtype else build("Cast", number, DstT=dtype)


@public("image.adjust_brightness")
def adjust_brightness(image: Any, delta: Any) -> Tensor:
    """An image with ``delta`` added; integers count as numbers in [0, 1]."""
    with name_scope(None, "adjust_brightness", [image, delta]) as name:
        image = convert_to_tensor(image, name="image")
        floats = (
            image
            if image.dtype.base in (dtypes.float16, dtypes.float32)
            else convert_image_dtype(image, dtypes.float32)
        )
        added = build("Add", floats, _number(delta, floats.dtype.base), name=name)
        return convert_image_dtype(added, image.dtype.base, saturate=True)


@public("image.adjust_contrast")
def adjust_contrast(images: Any, contrast_factor: Any) -> Tensor:
    """``(x - mean) * contrast_factor + mean`` by image and channel."""
    with name_scope(None, "adjust_contrast", [images, contrast_factor]):
        floats, kind = _as_float(images)
        factor = _number(contrast_factor, dtypes.float32)
        return convert_image_dtype(build("AdjustContrastv2", floats, factor), kind, saturate=True)


@public("image.adjust_hue")
def adjust_hue(image: Any, delta: Any, name: str | None = None) -> Tensor:
    """An image of red, green and blue whose hue is turned by ``delta``, a part of the circle in [-1, 1]."""
    with name_scope(name, "adjust_hue", [image]):
        floats, kind = _as_float(image)
        return convert_image_dtype(build("AdjustHue", floats, delta), kind)


@public("image.adjust_saturation")
def adjust_saturation(image: Any, saturation_factor: Any, name: str | None = None) -> Tensor:
    """An image of red, green and blue whose saturation is multiplied by a factor."""
    with name_scope(name, "adjust_saturation", [image]):
        floats, kind = _as_float(image)
        return convert_image_dtype(build("AdjustSaturation", floats, saturation_factor), kind)


@public("image.adjust_gamma")
def adjust_gamma(image: Any, gamma: Any = 1.0, gain: Any = 1.0) -> Tensor:
    """``gain * x ** gamma`` of values scaled to [0, 1]."""
    if isinstance(gamma, int | float) and gamma < 0:
        raise ValueError(
            "Gamma should be a non-negative real number.\n"
            + errors.message(f"gamma={gamma}", "a number of 0 or more", "gamma=1.0")
        )
    with name_scope(None, "adjust_gamma", [image, gamma, gain]):
        floats, kind = _as_float(image)
        if isinstance(gamma, Tensor):
            text = "Gamma should be a non-negative real number."
            with counted_as(6):
                floats = with_dependencies([assert_non_negative(gamma, message=text)], floats)
        return convert_image_dtype(build("Pow", floats, gamma) * gain, kind, saturate=True)


def _range(lower: float, upper: float, what: str, at_least: float | None = 0) -> None:
    if upper <= lower:
        raise ValueError(
            "upper must be > lower.\n" + errors.message(f"{lower} to {upper}", "a range", f"{what}(x, 0.5, 1.5)")
        )
    if at_least is not None and lower < at_least:
        raise ValueError(
            "lower must be non-negative.\n"
            + errors.message(f"lower={lower}", "a number of 0 or more", f"{what}(x, 0.5, 1.5)")
        )


@public("image.random_brightness")
def random_brightness(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """An image with a random number from [-max_delta, max_delta) added."""
    if max_delta < 0:
        raise ValueError(
            "max_delta must be non-negative.\n"
            + errors.message(f"max_delta={max_delta}", "a number of 0 or more", "max_delta=0.2")
        )
    return adjust_brightness(image, random_uniform([], -max_delta, max_delta, seed=seed))


@public("image.random_contrast")
def random_contrast(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """An image whose contrast is multiplied by a random factor from [lower, upper)."""
    _range(lower, upper, "random_contrast")
    return adjust_contrast(image, random_uniform([], lower, upper, seed=seed))


@public("image.random_saturation")
def random_saturation(image: Any, lower: float, upper: float, seed: int | None = None) -> Tensor:
    """An image whose saturation is multiplied by a random factor from [lower, upper)."""
    _range(lower, upper, "random_saturation")
    return adjust_saturation(image, random_uniform([], lower, upper, seed=seed))


@public("image.random_hue")
def random_hue(image: Any, max_delta: float, seed: int | None = None) -> Tensor:
    """An image whose hue is turned by a random part of the circle from [-max_delta, max_delta)."""
    if not 0 <= max_delta <= 0.5:
        raise ValueError(
            f"max_delta must be {'non-negative' if max_delta < 0 else '<= 0.5'}.\n"
            + errors.message(f"max_delta={max_delta}", "a number from 0 to 0.5", "max_delta=0.1")
        )
    return adjust_hue(image, random_uniform([], -max_delta, max_delta, seed=seed))


@public("image.adjust_jpeg_quality")
def adjust_jpeg_quality(image: Any, jpeg_quality: Any, name: str | None = None) -> Tensor:
    """An image as it comes out of a JPEG file of a quality.

    Args:
        image: ``[height, width, 1 or 3]``, uint8 or floats from 0 to 1.
        jpeg_quality: 0 (small) to 100 (good), a Python integer or an int32 scalar.
        name: of the operations.

    Returns:
        An image of the same shape and dtype.

    Raises:
        InvalidArgumentError: in the step, if the quality is not in that range.

    Example::

        worse = tf.image.adjust_jpeg_quality(image, 30)
    """
    with name_scope(name, "adjust_jpeg_quality", [image]):
        image = convert_to_tensor(image, name="image")
        quality = convert_to_tensor(jpeg_quality, dtype=dtypes.int32)
        file = build("EncodeJpegVariableQuality", convert_image_dtype(image, dtypes.uint8), quality)
        return convert_image_dtype(build("DecodeJpeg", file), image.dtype.base)


@public("image.random_jpeg_quality")
def random_jpeg_quality(image: Any, min_jpeg_quality: int, max_jpeg_quality: int, seed: int | None = None) -> Tensor:
    """An image as it comes out of a JPEG file of a random quality from ``[min_jpeg_quality, max_jpeg_quality)``.

    See :func:`adjust_jpeg_quality` for images.

    Raises:
        ValueError: the range is empty or leaves 0 to 100.

    Example::

        worse = tf.image.random_jpeg_quality(image, 40, 95)
    """
    ends = min_jpeg_quality, max_jpeg_quality
    if min(ends) < 0 or max(ends) > 100:
        raise ValueError(
            "jpeg encoding range must be between 0 and 100.\n"
            + errors.message(f"{ends[0]} to {ends[1]}", "a range within 0 to 100", "random_jpeg_quality(x, 40, 95)")
        )
    if ends[0] >= ends[1]:
        raise ValueError(
            "`min_jpeg_quality` must be less than `max_jpeg_quality`.\n"
            + errors.message(f"{ends[0]} to {ends[1]}", "a range", "random_jpeg_quality(x, 40, 95)")
        )
    return adjust_jpeg_quality(image, random_uniform([], *ends, dtype=dtypes.int32, seed=seed))


@public("image.rgb_to_grayscale")
def rgb_to_grayscale(images: Any, name: str | None = None) -> Tensor:
    """Images of one channel: ``0.2989 red + 0.587 green + 0.114 blue``."""
    with name_scope(name, "rgb_to_grayscale", [images]) as scope:
        images = convert_to_tensor(images, name="images")
        floats = convert_image_dtype(images, dtypes.float32)
        with counted_as(14 if floats.shape.is_fully_defined() else 28 if floats.shape.ndims is not None else 36):
            weights = convert_to_tensor(np.array([0.2989, 0.587, 0.114], np.float32))
            grey = build("Sum", build("Mul", _with_channels(floats, 3), weights), [-1], keep_dims=True)
        if images.shape.ndims is not None:
            grey.set_shape([*images.shape.as_list()[:-1], 1])
        return convert_image_dtype(grey, images.dtype.base, name=scope)


@public("image.grayscale_to_rgb")
def grayscale_to_rgb(images: Any, name: str | None = None) -> Tensor:
    """Images whose one channel is given three times."""
    with name_scope(name, "grayscale_to_rgb", [images]) as scope:
        images = convert_to_tensor(images, name="images")
        rank = images.shape.ndims
        if rank is not None and rank < 2:
            raise ValueError(
                "A grayscale image must be at least two-dimensional.\n"
                + errors.message(f"images of shape {images.shape}", "[..., width, 1]", "tf.expand_dims(images, -1)")
            )
        if rank is not None and images.shape.as_list()[-1] not in (None, 1):
            raise ValueError(
                "Last dimension of a grayscale image should be size 1.\n"
                + errors.message(
                    f"images of shape {images.shape}",
                    "images with one channel in the last dimension",
                    "tf.image.rgb_to_grayscale(images)",
                )
            )
        with counted_as(14 if images.shape.is_fully_defined() else 46):
            result = _tripled(_with_channels(images, 1), scope)
            if rank is not None:
                result.set_shape([*images.shape.as_list()[:-1], 3])
            return result


def _with_channels(images: Tensor, count: int) -> Tensor:
    """The images, refused now or in the step unless their last dimension has ``count`` entries."""
    known = images.shape.as_list()[-1] if images.shape.ndims else None
    if known == count:
        return images
    usual = "Last dimension of a grayscale image should be size 1." if count == 1 else "RGB images have 3 channels."
    if images.shape.ndims == 0 or known is not None:
        raise ValueError(
            usual
            + "\n"
            + errors.message(f"images of shape {images.shape}", f"[..., height, width, {count}]", "images[..., :3]")
        )
    return with_dependencies([assert_equal(shape_of(images)[-1], count, message=usual)], images)


def _tripled(images: Tensor, scope: str) -> Tensor:
    if images.shape.ndims is not None:
        return build("Tile", images, [1] * (images.shape.ndims - 1) + [3], name=scope)
    last = build("Sub", build("Rank", images), 1)
    times = build("ConcatV2", [build("Fill", build("ExpandDims", last, 0), 1), [3]], 0)
    return build("Tile", images, times, name=scope)


@public("image.per_image_standardization", "image.per_image_whitening")
def per_image_standardization(image: Any) -> Tensor:
    """Each image less its mean, divided by its deviation, but at least by one over the root of its size.

    Args:
        image: ``[..., height, width, channels]``, of any numbers.

    Returns:
        float32 of the same shape, of integers, too.

    Example:
        >>> import anabranch as tf
        >>> image = tf.constant([[[0], [2]], [[0], [2]]], tf.uint8)
        >>> tf.Session().run(tf.image.per_image_standardization(image))[..., 0]
        array([[-1.,  1.],
               [-1.,  1.]], dtype=float32)
    """
    image = convert_to_tensor(image, name="image")
    converted = image.dtype.base not in (dtypes.float16, dtypes.float32)
    number = count_check(image) + (31 if converted else 22)
    with name_scope(None, "per_image_standardization", [image]) as scope, counted_as(number):
        image = _number(image, dtypes.float32)
        mean = reduce_mean(image, [-3, -2, -1], keepdims=True)
        variance = reduce_mean(build("Square", image - mean), [-3, -2, -1], keepdims=True)
        size = build("Cast", build("Prod", build("Shape", image)[-3:], [0]), DstT=dtypes.float32)
        least = build("Rsqrt", size)
        deviation = build("Maximum", build("Sqrt", variance), least)
        return build("RealDiv", image - mean, deviation, name=scope)


@public("image.total_variation")
def total_variation(images: Any, name: str | None = None) -> Tensor:
    """The sum of the absolute differences of neighbouring pixels, by image."""
    with name_scope(name, "total_variation"):
        images = convert_to_tensor(images)
        if images.shape.ndims not in (3, 4):
            raise ValueError("'images' must be either 3 or 4-dimensional.")
        if images.shape.ndims == 3:
            down, right = images[1:] - images[:-1], images[:, 1:] - images[:, :-1]
            axes = None
        else:
            down, right = images[:, 1:] - images[:, :-1], images[:, :, 1:] - images[:, :, :-1]
            axes = [1, 2, 3]
        places = list(range(images.shape.ndims)) if axes is None else axes
        return build("Sum", build("Abs", down), places) + build("Sum", build("Abs", right), places)


@public("image.psnr")
def psnr(a: Any, b: Any, max_val: float, name: str | None = None) -> Tensor:
    """The ratio of the largest possible value to the mean square difference of images, in decibels.

    Args:
        a: images ``[..., height, width, channels]``.
        b: images of the same size and channels; the dimensions before these broadcast.
        max_val: the span of their values: 255 for bytes, 1.0 for floats.
        name: of the op.

    Raises:
        ValueError: the images have another size or other channels; `tf.errors.InvalidArgumentError` in the step where
            that is not known while the graph is built.
    """
    with name_scope(name, "PSNR", [a, b]), counted_as(35):
        a, b = comparable(convert_to_tensor(a), convert_to_tensor(b))
        span = convert_image_dtype(convert_to_tensor(max_val, a.dtype.base), dtypes.float32)
        a, b = convert_image_dtype(a, dtypes.float32), convert_image_dtype(b, dtypes.float32)
        error = reduce_mean(build("SquaredDifference", a, b), [-3, -2, -1])
        return 20 * build("Log", span) / np.float32(np.log(10)) - np.float32(10 / np.log(10)) * build("Log", error)


def comparable(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """Two images or batches of one size and number of channels: refused now, or in the step if little is known."""
    for one in (a, b):
        if one.shape.ndims is not None and one.shape.ndims < 3:
            raise ValueError(
                f"Shape {one.shape} must have rank at least 3\n"
                + errors.message(f"an image of shape {one.shape}", "[..., height, width, channels]", "image[..., None]")
            )
    parts = a.shape[-3:], b.shape[-3:]
    if a.shape.ndims is not None and b.shape.ndims is not None:
        resized = "tf.image.resize_images(b, tf.shape(a)[-3:-1])"
        given = f"images of shapes {a.shape} and {b.shape}"
        if not parts[0].is_compatible_with(parts[1]):
            raise ValueError(
                f"Shapes {parts[0]} and {parts[1]} are incompatible\n"
                + errors.message(given, "images of one size and number of channels", resized)
            )
        before = zip(reversed(a.shape.as_list()[:-3]), reversed(b.shape.as_list()[:-3]), strict=False)
        if any(m != n and 1 not in (m, n) and None not in (m, n) for m, n in before):
            raise ValueError(
                f"Two images are not compatible: {a.shape} and {b.shape}\n"
                + errors.message(given, "dimensions before the last three that broadcast", "tf.expand_dims(a, 1)")
            )
        if all(part.is_fully_defined() for part in parts):
            return a, b
    sizes = [build("Shape", one) for one in (a, b)]
    same = build("All", build("Equal", sizes[0][-3:], sizes[1][-3:]), [0])
    enough = build("GreaterEqual", build("Size", sizes[0]), 3)
    return with_dependencies([build("Assert", holds, sizes, summarize=10) for holds in (enough, same)], a), b
