"""Images as files in memory: JPEG, PNG, GIF and BMP, read and written on the host.

simplejpeg (libjpeg-turbo) reads JPEG with TensorFlow's own pixels: the fast transform and smooth chroma unless the
attributes say otherwise. Pillow reads PNG and GIF and writes all; BMP is rows of bytes behind a header. Both libraries
load when the first image comes. As in TensorFlow the ops for JPEG, PNG and GIF read each other's files. PNG of 16 bits
a channel is Pillow's for one channel; for more see :mod:`anabranch.ops.image.wide_png`.

A file of a few bytes may be an image of any size. What its header says is held against the budget for what one input
expands to (:mod:`anabranch.core.values.budgets`) before a pixel is decoded, for the pixels that the decoder keeps and
those that are returned together; in between there is only a strip of rows. Pillow's own bound is not asked.
"""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.attrs import Attr
from anabranch.core.contract.opdef import PURE, Bool, Float, Int, NotDifferentiable, Op, String, Type
from anabranch.core.values import budgets, shapes, spare_arrays
from anabranch.ops.image import wide_png

_NO_GRADIENT = NotDifferentiable("the bytes of a file have no gradient")
_MODES = {1: "L", 2: "LA", 3: "RGB", 4: "RGBA"}
_STRIP = 1 << 22
"""Pixels that are converted together."""
_STORED = {"1": 1, "L": 1, "P": 1, "I;16": 2, "I;16B": 2, "I;16L": 2}
"""Bytes of a pixel as Pillow keeps it, 4 in all other modes."""


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


def _simplejpeg() -> Any:
    try:
        import simplejpeg
    except ImportError as problem:
        raise errors.UnimplementedError(
            None,
            None,
            errors.message("a JPEG file, without simplejpeg", "simplejpeg to read it", "pip install simplejpeg"),
        ) from problem
    return simplejpeg


def _bad(given: str, expected: str, instead: str) -> errors.InvalidArgumentError:
    return errors.InvalidArgumentError(None, None, errors.message(given, expected, instead))


@contextlib.contextmanager
def _reading(given: str, expected: str, instead: str) -> Iterator[None]:
    """Refuse a file that cannot be read: parsers raise whatever they meet in damaged data."""
    try:
        yield
    except (MemoryError, errors.OpError):
        raise
    except Exception as problem:
        raise _bad(f"{given} ({problem})", expected, instead) from None


def _kind(data: bytes) -> str:
    """The format of a file, from its first bytes; empty if it is none that is read here."""
    starts = ((b"\xff\xd8\xff", "JPEG"), (b"\x89PNG\r\n\x1a\n", "PNG"), (b"GIF8", "GIF"), (b"BM", "BMP"))
    return next((kind for start, kind in starts if data.startswith(start)), "")


def _file(contents: Any, *kinds: str) -> tuple[bytes, str]:
    """The bytes of a file and its format, one of ``kinds``."""
    data = np.asarray(contents, object).item()
    kind = _kind(data)
    if kind not in kinds:
        given = f"{len(data)} bytes that begin with {data[:8]!r}{f', a {kind} file' if kind else ''}"
        instead = f"tf.image.decode_{kind.lower()}(x)" if kind else "tf.read_file(path)"
        raise _bad(given, f"an image: {', '.join(kinds)}", instead)
    return data, kind


def _opened(data: bytes, kind: str) -> Any:
    _pillow()
    from PIL import GifImagePlugin, PngImagePlugin

    with _reading(f"a {kind} file of {len(data)} bytes", "a whole file", "write it anew"):
        opens = PngImagePlugin.PngImageFile if kind == "PNG" else GifImagePlugin.GifImageFile
        return opens(io.BytesIO(data))


def _within_budget(image: Any, given: str, returned: int) -> None:
    """Refuse an opened image that is larger than the budget; ``returned`` bytes are made of it."""
    stored = image.width * image.height * _STORED.get(image.mode, 4)
    given = f"a {image.format} file that says {image.width} by {image.height} pixels{given}"
    budgets.require(stored + returned, given)


def _channels_of(image: Any) -> int:
    if image.mode in ("1", "L", "I", "I;16", "I;16B", "F"):
        return 1
    if image.mode == "LA":
        return 2
    return 4 if image.mode in ("RGBA", "PA") or (image.mode == "P" and "transparency" in image.info) else 3


def _pixels(image: Any, channels: int, dtype: np.dtype) -> np.ndarray:
    """The array ``[height, width, channels]`` of an opened image; its own number of channels if 0."""
    channels = channels or _channels_of(image)
    _within_budget(image, "", image.width * image.height * channels * dtype.itemsize)
    with _reading("an image file that ends early or is damaged", "a whole file", "try_recover_truncated=True"):
        image.load()
    pixels = np.empty((image.height, image.width, channels), dtype)
    rows = max(1, _STRIP // max(1, image.width))
    for top in range(0, image.height, rows):
        whole = rows >= image.height
        strip = image if whole else image.crop((0, top, image.width, min(top + rows, image.height)))
        pixels[top : top + rows] = _strip(strip, channels, dtype)
    return pixels


def _wide(data: bytes, image: Any, channels: int, dtype: np.dtype) -> np.ndarray:
    """The pixels of a PNG file of 16 bits a channel and several channels."""
    own = wide_png.channels_of(data)
    size = image.width * image.height
    _within_budget(image, " of 16 bits a channel", size * (own * 4 + (channels or own) * dtype.itemsize))
    with _reading("an image file that ends early or is damaged", "a whole file", "write it anew"):
        pixels = wide_png.pixels(data, lambda file: _opened(file, "PNG"))
    transparent = image.info.get("transparency")
    if own == 3 and channels in (0, 4) and isinstance(transparent, tuple):
        seen = np.any(pixels != np.array(transparent, np.uint16), axis=2, keepdims=True)
        pixels = np.concatenate([pixels, seen * np.uint16(0xFFFF)], 2)
    pixels = _with_channels(pixels, channels or pixels.shape[2])
    return pixels if dtype == np.uint16 else (pixels >> 8).astype(np.uint8)


def _with_channels(pixels: np.ndarray, channels: int) -> np.ndarray:
    """Pixels of 16 bits in another number of channels: grey by libpng's weights, full opacity where there is none."""
    own = pixels.shape[2]
    if own == channels:
        return pixels
    colour, opacity = (pixels, pixels[..., :0]) if own in (1, 3) else (pixels[..., :-1], pixels[..., -1:])
    if channels == 1 and colour.shape[2] == 3:
        red, green, blue = (colour[..., i].astype(np.uint64) for i in range(3))
        colour = ((9797 * red + 19234 * green + 3737 * blue + 16384) >> 15).astype(np.uint16)[..., None]
    elif channels >= 3 and colour.shape[2] == 1:
        colour = np.repeat(colour, 3, 2)
    if channels in (2, 4) and not opacity.shape[2]:
        opacity = np.full((*colour.shape[:2], 1), 0xFFFF, np.uint16)
    return np.concatenate([colour, opacity], 2) if channels in (2, 4) else colour


def _strip(image: Any, channels: int, dtype: np.dtype) -> np.ndarray:
    """The pixels of some rows."""
    if image.mode in ("I", "I;16", "I;16B"):
        return _of_sixteen_bits(np.asarray(image).astype(np.uint16), channels, dtype)
    if dtype == np.uint16:
        return _strip(image, channels, np.dtype(np.uint8)).astype(np.uint16) * 257
    if channels == 1 and image.mode not in ("1", "L", "LA"):
        red, green, blue = (np.asarray(image.convert("RGB"))[..., i].astype(np.uint32) for i in range(3))
        return ((9797 * red + 19234 * green + 3737 * blue) >> 15).astype(np.uint8)[..., None]  # libpng's weights
    mode = _MODES[channels]
    source = image.convert("L") if image.mode == "1" and channels > 1 else image
    pixels = np.asarray(source if source.mode == mode else source.convert(mode))
    return pixels[..., None] if pixels.ndim == 2 else pixels


def _of_sixteen_bits(grey: np.ndarray, channels: int, dtype: np.dtype) -> np.ndarray:
    """Grey of 16 bits in some number of channels, the last of 2 or 4 being full opacity."""
    values = grey if dtype == np.uint16 else (grey >> 8).astype(np.uint8)
    pixels = np.repeat(values[..., None], channels, 2)
    if channels in (2, 4):
        pixels[..., -1] = np.iinfo(dtype).max
    return pixels


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


def _jpeg(data: bytes, attrs: Any) -> np.ndarray:
    """The pixels of a JPEG file."""
    ratio, channels = attrs.get("ratio", 1), attrs["channels"]
    if ratio not in (1, 2, 4, 8):
        raise _bad(f"ratio={ratio}", "1, 2, 4 or 8", "ratio=1")
    if channels not in (0, 1, 3):
        raise _bad(f"channels must be 0, 1, or 3 for JPEG, got {channels}", "0, 1 or 3", "channels=3")
    method = attrs.get("dct_method", "")
    if method not in ("", "INTEGER_FAST", "INTEGER_ACCURATE"):
        raise _bad(f"dct_method={method!r}", "'', 'INTEGER_FAST' or 'INTEGER_ACCURATE'", "dct_method=''")
    recover = attrs.get("try_recover_truncated", False)
    jpeg = _simplejpeg()
    given = f"invalid JPEG data, {len(data)} bytes"
    instead = "try_recover_truncated=True reads what is there"
    if attrs.get("acceptable_fraction", 1.0) < 1:
        instead += ", where acceptable_fraction counts no rows"
    with _reading(given, "a whole file", instead):
        height, width, space, _ = jpeg.decode_jpeg_header(data)
        printing = space in ("CMYK", "YCCK")
        if printing and channels == 1:
            raise _bad("channels=1 of a JPEG file in CMYK", "0 or 3", "tf.image.rgb_to_grayscale")
        grey = channels == 1 or (channels == 0 and space.upper() == "GRAY")
        returned = 5 if printing else 1 if grey else 3
        size = -(-height // ratio) * -(-width // ratio) * returned
        coefficients = height * width * 2 * (4 if printing else 3)
        if size + coefficients > budgets.most():
            size += coefficients if b"\xff\xc2" in data else 0  # they are kept where there are several scans
            budgets.require(size, f"a JPEG file of {len(data)} bytes that says {width} by {height} pixels")
        # Memory that is there already, and that programs read without a copy.
        held = spare_arrays.empty((height, width, 1 if grey else 3), np.uint8) if ratio == 1 and not printing else None
        pixels = jpeg.decode_jpeg(
            data,
            buffer=held,
            colorspace="CMYK" if printing else "GRAY" if grey else "RGB",
            fastdct=method != "INTEGER_ACCURATE",
            fastupsample=not attrs.get("fancy_upscaling", True),
            min_height=-(-height // ratio) if ratio > 1 else 0,
            min_width=-(-width // ratio) if ratio > 1 else 0,
            strict=not recover,
        )
    if printing:
        wide = pixels.astype(np.uint16)
        pixels = (wide[..., :3] * wide[..., 3:] // 255).astype(np.uint8)
    return np.asarray(pixels) if held is None else held


def _bmp(data: bytes, channels: int) -> np.ndarray:
    """The pixels of an uncompressed BMP file of 8, 24 or 32 bits a pixel; those of 8 bits are taken for grey."""
    if len(data) < 32:
        raise _bad(f"a BMP file of {len(data)} bytes", "at least its header, 32 bytes", "tf.read_file(path)")
    start, _, width, height = struct.unpack_from("<IIii", data, 10)
    bits = struct.unpack_from("<H", data, 28)[0]
    own = bits // 8
    if bits not in (8, 24, 32):
        raise _bad(f"a BMP file of {bits} bits a pixel", "8, 24 or 32 bits", "write it with 24 bits a pixel")
    if channels not in (0, own):
        raise _bad(f"channels attribute {channels} for a BMP file of {own} channels", f"0 or {own}", "channels=0")
    rows, row = abs(height), (own * max(width, 0) + 3) // 4 * 4
    if width <= 0 or not rows or start < 0 or start + rows * row > len(data):
        raise _bad(
            f"a BMP file of {len(data)} bytes that says {width} by {rows} pixels from byte {start}",
            "a file with all of its rows",
            "write it anew",
        )
    lines = np.frombuffer(data, np.uint8, rows * row, start).reshape(rows, row)
    pixels = lines[:: 1 if height < 0 else -1, : width * own].reshape(rows, width, own)
    if own >= 3:
        pixels = pixels[..., [2, 1, 0, 3][:own]]
    return np.ascontiguousarray(pixels)


def _still(data: bytes, kind: str, attrs: Any, dtype: Any = np.uint8) -> np.ndarray:
    """The pixels of one image in a JPEG, PNG or GIF file, whichever of their ops asks."""
    channels = attrs["channels"]
    if channels not in (0, 1, 3, 4):
        raise _bad(f"channels must be 0, 1, 3, or 4, got {channels}", "0, 1, 3 or 4", "channels=3")
    if dtype != np.uint8 and kind != "PNG":
        raise _bad(f"a {kind} file as {np.dtype(dtype).name}", "a PNG file, which alone has 16 bits", "dtype=tf.uint8")
    if kind == "JPEG":
        return _jpeg(data, attrs)
    image = _opened(data, kind)
    if kind == "PNG" and wide_png.is_wide(data):
        return _wide(data, image, channels, np.dtype(dtype))
    if kind == "PNG":
        return _pixels(image, channels, np.dtype(dtype))
    if channels not in (0, 3):
        raise _bad(f"channels must be 0 or 3 for GIF, got {channels}", "0 or 3", "channels=3")
    if getattr(image, "n_frames", 1) != 1:
        raise _bad(
            f"a GIF file of {image.n_frames} frames", "one frame, where an op gives one image", "tf.image.decode_gif"
        )
    return _frames(image, 1)[0]


class DecodeJpeg(Op):
    """The pixels of a JPEG file, uint8 ``[height, width, channels]``; ``ratio`` makes them smaller. PNG and GIF of one
    frame are read, too.
    """

    signature = "contents: string -> image: uint8"
    attrs = _JPEG
    effect = PURE
    shape = _decoded(1, 3, 4)
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        return _still(*_file(inputs[0], "JPEG", "PNG", "GIF"), attrs)


class DecodeAndCropJpeg(Op):
    """The pixels of a part ``[y, x, height, width]`` of a JPEG file."""

    signature = "contents: string, crop_window: int32 -> image: uint8"
    attrs = _JPEG
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("contents", 0)
        c.with_rank("crop_window", 1)
        window = c.vector("crop_window")
        if window is None:
            window = [None] * 4
        if len(window) != 4:
            raise ValueError(
                errors.message(f"a crop_window of {len(window)} numbers", "[y, x, height, width]", "give four numbers")
            )
        return (window[2], window[3], _channel_size(c, (1, 3)))

    def host_kernel(ctx, inputs, attrs):
        y, x, height, width = (int(value) for value in inputs[1])
        whole = _jpeg(_file(inputs[0], "JPEG")[0], attrs)
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
        data, _ = _file(inputs[0], "JPEG")
        with _reading(f"invalid JPEG data, {len(data)} bytes", "a whole header", "tf.read_file(path)"):
            height, width, space, _ = _simplejpeg().decode_jpeg_header(data)
        channels = {"GRAY": 1, "CMYK": 4, "YCCK": 4}.get(space.upper(), 3)
        return np.array([height, width, channels], attrs["output_type"].as_numpy_dtype)


class DecodePng(Op):
    """The pixels of a PNG file, ``[height, width, channels]``. JPEG and GIF of one frame are read, too."""

    signature = "contents: string -> image: dtype"
    attrs = {"channels": Int(0), "dtype": Type("uint16 uint8", "uint8")}
    effect = PURE
    shape = _decoded(1, 3, 4)
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        return _still(*_file(inputs[0], "JPEG", "PNG", "GIF"), attrs, attrs["dtype"].as_numpy_dtype)


class DecodeBmp(Op):
    """The pixels of a BMP file, uint8 ``[height, width, channels]``."""

    signature = "contents: string -> image: uint8"
    attrs = {"channels": Int(0)}
    effect = PURE
    shape = _decoded(1, 3, 4)
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        data = np.asarray(inputs[0], object).item()
        if _kind(data):
            data = _file(inputs[0], "BMP")[0]
        return _bmp(data, attrs["channels"])  # which is found by its header, whatever its first two bytes are


def _frames(image: Any, most: int | None = None) -> np.ndarray:
    """The frames of an animation, or the first ones."""
    with _reading("a GIF file that ends early or is damaged", "a whole file", "write it anew"):
        count = getattr(image, "n_frames", 1) if most is None else most  # a few bytes may say: the one before, again
        size = image.width * image.height * 3
        _within_budget(image, f", {count} times", (count + 2) * size)
        frames = np.empty((count, image.height, image.width, 3), np.uint8)
        for number in range(count):
            image.seek(number)
            frames[number] = np.asarray(image.convert("RGB"))
    return frames


class DecodeGif(Op):
    """All frames of a GIF file, uint8 ``[frames, height, width, 3]``. JPEG and PNG are read as one frame, too."""

    signature = "contents: string -> image: uint8"
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("contents", 0)
        return (None, None, None, 3)

    def host_kernel(ctx, inputs, attrs):
        data, kind = _file(inputs[0], "JPEG", "PNG", "GIF")
        return _frames(_opened(data, kind)) if kind == "GIF" else _still(data, kind, {"channels": 3})[None]


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
        data, kind = _file(inputs[0], "JPEG", "PNG", "GIF", "BMP")
        channels = attrs["channels"]
        allowed = {"JPEG": (0, 1, 3), "GIF": (0, 3), "BMP": (0, 3, 4), "PNG": (0, 1, 3, 4)}[kind]
        if channels not in allowed:
            raise _bad(f"channels={channels} of a {kind} file", f"one of {allowed}", "channels=3")
        if kind == "GIF":
            image = _opened(data, kind)
            pixels = _frames(image) if attrs["expand_animations"] else _frames(image, 1)[0]
        else:
            pixels = _bmp(data, 0) if kind == "BMP" else _still(data, kind, attrs)
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
        raise _bad(f"an image of shape {shapes.show(array.shape)}", "[height, width, 1 to 4 channels]", "tf.reshape")
    return _pillow().fromarray(array[..., 0] if array.shape[2] == 1 else array)


def _within(ctx: Any, name: str, value: int, low: int, high: int) -> None:
    """Refuse an option of a codec that is out of its range; ``name`` ends with the verb of TensorFlow's sentence."""
    ctx.check(low <= value <= high, errors.InvalidArgumentError, f"{name} be in [{low},{high}], got {value}")


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
        return _jpeg_file(ctx, np.asarray(inputs[0]), attrs["quality"], attrs)


class EncodeJpegVariableQuality(Op):
    """A JPEG file of an image, uint8 ``[height, width, 1 or 3]``, of a quality that is computed, 0 to 100."""

    signature = "images: uint8, quality: int32 -> contents: string"
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("images", 3)
        c.with_rank("quality", 0)
        return ()

    def host_kernel(ctx, inputs, attrs):
        return _jpeg_file(ctx, np.asarray(inputs[0]), int(inputs[1]), _USUAL)


_USUAL = {name: attr.default for name, attr in EncodeJpeg.attrs.items()}


def _jpeg_file(ctx: Any, array: np.ndarray, quality: int, attrs: dict[str, Any]) -> np.ndarray:
    """A scalar with the bytes of a JPEG file, in the form that the attributes of `EncodeJpeg` say."""
    _within(ctx, "quality must", quality, 0, 100)
    for density in ("x_density", "y_density"):
        _within(ctx, f"{density} must", attrs[density], -(1 << 31), (1 << 31) - 1)
    wanted = {"grayscale": 1, "rgb": 3}.get(attrs["format"])
    if array.ndim != 3 or array.shape[2] not in ((wanted,) if wanted else (1, 3)):
        raise _bad(
            f"an image of shape {shapes.show(array.shape)}",
            f"{wanted or '1 or 3'} channels",
            "tf.image.rgb_to_grayscale",
        )
    if attrs["xmp_metadata"]:
        raise errors.UnimplementedError(
            None, None, errors.message("xmp_metadata", "a file without it", "leave xmp_metadata out")
        )
    file = io.BytesIO()
    densities = (attrs["x_density"], attrs["y_density"])
    if attrs["density_unit"] == "cm":
        densities = (round(densities[0] * 2.54), round(densities[1] * 2.54))
    _image_of(array).save(
        file,
        "JPEG",
        quality=quality,
        progressive=attrs["progressive"],
        optimize=attrs["optimize_size"],
        subsampling=2 if attrs["chroma_downsampling"] else 0,
        dpi=densities,
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
        array = np.asarray(inputs[0])
        _within(ctx, "compression should", attrs["compression"], -1, 9)
        if array.dtype == np.uint16 and array.ndim == 3 and array.shape[2] in (2, 3, 4) and array.size:
            return _text(wide_png.encoded(array, attrs["compression"]))
        file = io.BytesIO()
        level = {} if attrs["compression"] == -1 else {"compress_level": attrs["compression"]}
        _image_of(array).save(file, "PNG", **level)
        return _text(file.getvalue())
