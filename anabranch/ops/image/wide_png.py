"""PNG files of 16 bits a channel in colour or with opacity, which Pillow reads in 8 bits and does not write.

Pillow's decoder takes rows apart (filters, interlacing) whatever the pixels mean, and then hands over one byte of each
two: the first or the second, as the form of the raw pixels says. So a file is decoded twice, once for each byte. Grey
with opacity has four bytes a pixel, which are taken as they are, as if they were four channels of 8 bits.

A file is written row by row, each with the filter that leaves the smallest bytes, by the rule that libpng uses: the sum
of the bytes as numbers from -128 to 127.
"""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np

_FIRST, _SECOND = {"RGB": "RGB;16B", "RGBA": "RGBA;16B"}, {"RGB": "RGB;16L", "RGBA": "RGBA;16L"}
_COLOUR_TYPE = {2: 4, 3: 2, 4: 6}
"""PNG's number for a kind of pixels, by the number of channels."""


def header(data: bytes) -> tuple[int, int]:
    """Bits of a channel and PNG's number for the kind of pixels."""
    return (data[24], data[25]) if data[12:16] == b"IHDR" and len(data) > 25 else (0, 0)


def is_wide(data: bytes) -> bool:
    """Whether a PNG file has 16 bits a channel and more than one channel."""
    bits, colour = header(data)
    return bits == 16 and colour in _COLOUR_TYPE.values()


def channels_of(data: bytes) -> int:
    """How many channels the file of :func:`is_wide` has."""
    colour = header(data)[1]
    return next(number for number, one in _COLOUR_TYPE.items() if one == colour)


def pixels(data: bytes, opened: Any) -> np.ndarray:
    """The pixels of such a file, uint16 ``[height, width, channels]``.

    Args:
        data: the file.
        opened: function of the file that gives Pillow's image, not loaded.
    """
    if channels_of(data) == 2:
        raw = _loaded(opened(data), "RGBA", "RGBA")
        return np.ascontiguousarray(raw).view(">u2").astype(np.uint16)
    mode = "RGB" if channels_of(data) == 3 else "RGBA"
    high, low = (_loaded(opened(data), mode, raw[mode]).astype(np.uint16) for raw in (_FIRST, _SECOND))
    return high << 8 | low


def _loaded(image: Any, mode: str, raw: str) -> np.ndarray:
    """The bytes that Pillow hands over, the raw pixels being taken to be of a form."""
    kind, box, offset, _ = image.tile[0]
    image.tile = [(kind, box, offset, raw)]
    image._mode = mode
    image.info.pop("transparency", None)
    image.load()
    return np.asarray(image)


def encoded(array: np.ndarray, level: int = -1) -> bytes:
    """The file of an image.

    Args:
        array: uint16 ``[height, width, 2 to 4 channels]``.
        level: of compression, 0 to 9; zlib's own if -1.
    """
    height, width, channels = array.shape
    rows = _filtered(array.astype(">u2").view(np.uint8).reshape(height, -1), channels * 2)
    begin = struct.pack(">IIBBBBB", width, height, 16, _COLOUR_TYPE[channels], 0, 0, 0)
    compress = zlib.compressobj(level, strategy=zlib.Z_FILTERED)
    content = compress.compress(rows.tobytes()) + compress.flush()
    parts = ((b"IHDR", begin), (b"IDAT", content), (b"IEND", b""))
    return b"\x89PNG\r\n\x1a\n" + b"".join(_chunk(kind, content) for kind, content in parts)


def _filtered(plain: np.ndarray, pixel: int) -> np.ndarray:
    """Rows of bytes, each after the number of its filter; ``pixel`` is how many bytes a pixel has."""
    left, above, corner = (np.zeros_like(plain) for _ in range(3))
    left[:, pixel:] = plain[:, :-pixel]
    above[1:] = plain[:-1]
    corner[1:, pixel:] = plain[:-1, :-pixel]
    mean = ((left.astype(np.uint16) + above) >> 1).astype(np.uint8)
    a, b, c = (part.astype(np.int16) for part in (left, above, corner))
    to_left, to_above, to_corner = np.abs(b - c), np.abs(a - c), np.abs(a + b - 2 * c)
    paeth = np.where(
        (to_left <= to_above) & (to_left <= to_corner), left, np.where(to_above <= to_corner, above, corner)
    )
    forms = np.stack([plain, plain - left, plain - above, plain - mean, plain - paeth])  # bytes, modulo 256
    best = np.abs(forms.view(np.int8).astype(np.int16)).sum(2).argmin(0)
    chosen = np.take_along_axis(forms, best[None, :, None], 0)[0]
    return np.concatenate([best[:, None].astype(np.uint8), chosen], 1)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))
