"""Images as files in memory: JPEG, PNG, GIF and BMP, read and written by Pillow on the host.

Pillow is not needed by anything else and loads when the first image is decoded. PNG of 16 bits a channel is read and
written for one channel, as Pillow has it.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Iterator
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.attrs import Attr
from anabranch.core.contract.opdef import PURE, Bool, Float, Int, NotDifferentiable, Op, String, Type

_NO_GRADIENT = NotDifferentiable("the bytes of a file have no gradient")
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}


def _pillow() -> Any:
    try:
        import PIL.Image
    except ImportError as problem:
        raise errors.UnimplementedError(
            None,
            None,
            errors.message("an image file, without Pillow", "Pillow to read and write it", "pip install pillow"),
        ) from problem
    return PIL.Image


def _bad(given: str, expected: str, instead: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, errors.message(given, expected, instead))


@contextlib.contextmanager
def _reading(given: str, expected: str, instead: str) -> Iterator[None]:
    """Refuse a file that Pillow cannot read: its parsers raise whatever they meet in damaged data."""
    try:
        yield
    except (MemoryError, errors.OpError):
        raise
    except Exception as problem:
        raise _bad(f"{given} ({problem})", expected, instead) from None


def _opened(contents: Any, kinds: tuple[str, ...]) -> Any:
    data, pillow = np.asarray(contents, object).item(), _pillow()
    given = f"{len(data)} bytes that begin with {data[:8]!r}"
    with _reading(given, f"an image: {', '.join(kinds)}", "tf.read_file(path)"):
        return pillow.open(io.BytesIO(data), formats=kinds)


def _channels_of(image: Any) -> int:
    if image.mode in ("1", "L", "I", "I;16", "I;16B", "F"):
        return 1
    if image.mode == "LA":
        return 2
    return 4 if image.mode in ("RGBA", "PA") or (image.mode == "P" and "transparency" in image.info) else 3


def _pixels(image: Any, channels: int, dtype: np.dtype) -> np.ndarray:
    """The array ``[height, width, channels]`` of an opened image; its own number of channels if 0."""
    with _reading("an image file that ends early or is damaged", "a whole file", "try_recover_truncated=True"):
        image.load()
    sixteen = image.mode in ("I", "I;16", "I;16B")
    if dtype == np.uint16:
        if not sixteen:
            return _pixels(image, channels, np.dtype(np.uint8)).astype(np.uint16) * 257
        if channels not in (0, 1):
            raise errors.UnimplementedError(
                None, None, errors.message(f"{channels} channels of 16 bits", "one channel", "dtype=tf.uint8")
            )
        return np.asarray(image).astype(np.uint16)[..., None]
    if sixteen:
        grey = (np.asarray(image).astype(np.uint32) >> 8).astype(np.uint8)
        return np.repeat(grey[..., None], channels or 1, 2)
    mode = _MODES[channels or _channels_of(image)]
    converted = image if image.mode == mode else image.convert(mode)
    pixels = np.asarray(converted)
    return np.array(pixels[..., None] if pixels.ndim == 2 else pixels)


def _channel_size(c: Any, allowed: tuple[int, ...]) -> int | None:
    channels = c.attrs["channels"]
    if channels not in (0, *allowed):
        raise ValueError(errors.message(f"channels={channels}", f"0 or one of {allowed}", "channels=3"))
    return channels or None


def _decoded(*allowed: int) -> Any:
    def shape(c: Any) -> Any:
        c.with_rank("contents", 0)
        return (None, None, _channel_size(c, allowed))

    return shape


_JPEG = {
    "channels": Int(0),
    "ratio": Int(1),
    "fancy_upscaling": Bool(True),
    "try_recover_truncated": Bool(False),
    "acceptable_fraction": Float(1.0),
    "dct_method": String(""),
}


def _jpeg(contents: Any, attrs: Any) -> np.ndarray:
    ratio = attrs["ratio"]
    if ratio not in (1, 2, 4, 8):
        raise _bad(f"ratio={ratio}", "1, 2, 4 or 8", "ratio=1")
    if not attrs["fancy_upscaling"]:
        raise errors.UnimplementedError(
            None,
            None,
            errors.message("fancy_upscaling=False", "smooth chroma, as Pillow has it", "fancy_upscaling=True"),
        )
    image = _opened(contents, ("JPEG",))
    if ratio > 1:
        image.draft(None, (-(-image.width // ratio), -(-image.height // ratio)))
    if attrs["try_recover_truncated"] or attrs["acceptable_fraction"] < 1:
        from PIL import ImageFile

        before = ImageFile.LOAD_TRUNCATED_IMAGES
        ImageFile.LOAD_TRUNCATED_IMAGES = True
        try:
            return _pixels(image, attrs["channels"], np.dtype(np.uint8))
        finally:
            ImageFile.LOAD_TRUNCATED_IMAGES = before
    return _pixels(image, attrs["channels"], np.dtype(np.uint8))


class DecodeJpeg(Op):
    """The pixels of a JPEG file, uint8 ``[height, width, channels]``; ``ratio`` makes them smaller."""

    signature = "contents: string -> image: uint8"
    attrs = _JPEG
    effect = PURE
    shape = _decoded(1, 3)
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        return _jpeg(inputs[0], attrs)


class DecodeAndCropJpeg(Op):
    """The pixels of a part ``[y, x, height, width]`` of a JPEG file."""

    signature = "contents: string, crop_window: int32 -> image: uint8"
    attrs = _JPEG
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("contents", 0)
        c.with_rank("crop_window", 1)
        window = c.vector("crop_window") or [None] * 4
        return (window[2], window[3], _channel_size(c, (1, 3)))

    def host_kernel(ctx, inputs, attrs):
        y, x, height, width = (int(value) for value in inputs[1])
        whole = _jpeg(inputs[0], attrs)
        if min(y, x) < 0 or min(height, width) <= 0 or y + height > whole.shape[0] or x + width > whole.shape[1]:
            raise _bad(
                f"crop window {[y, x, height, width]}", f"one inside {whole.shape[0]} by {whole.shape[1]}", "a part"
            )
        return np.ascontiguousarray(whole[y : y + height, x : x + width])


class ExtractJpegShape(Op):
    """``[height, width, channels]`` of a JPEG file, from its header."""

    signature = "contents: string -> image_shape: output_type"
    attrs = {"output_type": Type("int32 int64", "int32")}
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("contents", 0)
        return (3,)

    def host_kernel(ctx, inputs, attrs):
        image = _opened(inputs[0], ("JPEG",))
        return np.array([image.height, image.width, len(image.getbands())], attrs["output_type"].as_numpy_dtype)


class DecodePng(Op):
    """The pixels of a PNG file, ``[height, width, channels]``."""

    signature = "contents: string -> image: dtype"
    attrs = {"channels": Int(0), "dtype": Type("uint16 uint8", "uint8")}
    effect = PURE
    shape = _decoded(1, 2, 3, 4)
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        return _pixels(_opened(inputs[0], ("PNG",)), attrs["channels"], np.dtype(attrs["dtype"].as_numpy_dtype))


class DecodeBmp(Op):
    """The pixels of a BMP file, uint8 ``[height, width, channels]``."""

    signature = "contents: string -> image: uint8"
    attrs = {"channels": Int(0)}
    effect = PURE
    shape = _decoded(1, 3, 4)
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        return _pixels(_opened(inputs[0], ("BMP",)), attrs["channels"], np.dtype(np.uint8))


def _frames(image: Any, most: int | None = None) -> np.ndarray:
    """The frames of an animation, or the first ones."""
    frames: list[np.ndarray] = []
    pixels, limit = image.width * image.height, 2 * (_pillow().MAX_IMAGE_PIXELS or 1 << 62)
    with _reading("a GIF file that ends early or is damaged", "a whole file", "write it anew"):
        for number in range(getattr(image, "n_frames", 1) if most is None else most):
            if pixels * (number + 1) > limit:  # a few bytes may say that a frame is the one before
                raise _bad(f"a GIF file of more than {limit} pixels", "fewer", "expand_animations=False")
            image.seek(number)
            frames.append(np.asarray(image.convert("RGB")))
    return np.stack(frames)


class DecodeGif(Op):
    """All frames of a GIF file, uint8 ``[frames, height, width, 3]``."""

    signature = "contents: string -> image: uint8"
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("contents", 0)
        return (None, None, None, 3)

    def host_kernel(ctx, inputs, attrs):
        return _frames(_opened(inputs[0], ("GIF",)))


class DecodeImage(Op):
    """The pixels of a JPEG, PNG, GIF or BMP file; of a GIF all frames unless ``expand_animations`` is false."""

    signature = "contents: string -> image: dtype"
    attrs = {"channels": Int(0), "dtype": Type("float uint16 uint8", "uint8"), "expand_animations": Bool(True)}
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("contents", 0)
        channels = _channel_size(c, (1, 3, 4))
        return None if c.attrs["expand_animations"] else (None, None, channels)

    def host_kernel(ctx, inputs, attrs):
        image = _opened(inputs[0], ("JPEG", "PNG", "GIF", "BMP"))
        if image.format == "GIF":
            if attrs["channels"] not in (0, 3):
                raise _bad(f"channels={attrs['channels']} of a GIF", "0 or 3", "channels=3")
            pixels = _frames(image) if attrs["expand_animations"] else _frames(image, 1)[0]
        else:
            pixels = _pixels(image, attrs["channels"], np.dtype(np.uint8))
        if attrs["dtype"].name == "uint16":
            return pixels.astype(np.uint16) * 257
        return pixels.astype(np.float32) / np.float32(255) if attrs["dtype"].name == "float32" else pixels


# ------------------------------------------------------------------------------------------------------------- writing
def _text(data: bytes) -> np.ndarray:
    array = np.empty((), object)
    array[()] = data
    return array


def _image_of(array: np.ndarray) -> Any:
    if array.ndim != 3 or array.shape[2] not in _MODES or 0 in array.shape:
        raise _bad(f"an image of shape {list(array.shape)}", "[height, width, 1 to 4 channels]", "tf.reshape")
    if array.dtype == np.uint16:
        if array.shape[2] != 1:
            raise errors.UnimplementedError(
                None,
                None,
                errors.message(f"{array.shape[2]} channels of 16 bits", "one channel", "tf.cast(x, tf.uint8)"),
            )
        return _pillow().fromarray(array[..., 0])
    return _pillow().fromarray(array[..., 0] if array.shape[2] == 1 else array)


class EncodeJpeg(Op):
    """A JPEG file of an image, uint8 ``[height, width, 1 or 3]``."""

    signature = "image: uint8 -> contents: string"
    attrs = {
        "format": Attr("string", "", ("", "grayscale", "rgb")),
        "quality": Int(95),
        "progressive": Bool(False),
        "optimize_size": Bool(False),
        "chroma_downsampling": Bool(True),
        "density_unit": String("in", "in cm"),
        "x_density": Int(300),
        "y_density": Int(300),
        "xmp_metadata": String(""),
    }
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("image", 3)
        return ()

    def host_kernel(ctx, inputs, attrs):
        array = np.asarray(inputs[0])
        wanted = {"grayscale": 1, "rgb": 3}.get(attrs["format"])
        if array.ndim != 3 or array.shape[2] not in ((wanted,) if wanted else (1, 3)):
            raise _bad(
                f"an image of shape {list(array.shape)}", f"{wanted or '1 or 3'} channels", "tf.image.rgb_to_grayscale"
            )
        if attrs["xmp_metadata"]:
            raise errors.UnimplementedError(
                None, None, errors.message("xmp_metadata", "a file without it", "leave xmp_metadata out")
            )
        file = io.BytesIO()
        density = (attrs["x_density"], attrs["y_density"])
        if attrs["density_unit"] == "cm":
            density = (round(density[0] * 2.54), round(density[1] * 2.54))
        _image_of(array).save(
            file,
            "JPEG",
            quality=attrs["quality"],
            progressive=attrs["progressive"],
            optimize=attrs["optimize_size"],
            subsampling=2 if attrs["chroma_downsampling"] else 0,
            dpi=density,
        )
        return _text(file.getvalue())


class EncodePng(Op):
    """A PNG file of an image, ``[height, width, 1 to 4 channels]``."""

    signature = "image: T -> contents: string"
    attrs = {"compression": Int(-1), "T": Type("uint16 uint8", "uint8")}
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("image", 3)
        return ()

    def host_kernel(ctx, inputs, attrs):
        file = io.BytesIO()
        level = {} if attrs["compression"] == -1 else {"compress_level": attrs["compression"]}
        _image_of(np.asarray(inputs[0])).save(file, "PNG", **level)
        return _text(file.getvalue())
