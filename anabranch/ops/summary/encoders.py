"""Pictures and sounds as files in memory: PNG of 8 bits a channel and WAV of 16 bits a sample.

Policy. Summaries need these two and nothing else of an image library; the standard library is enough for them. A
PNG's rows are filtered by the difference to the row above, which compresses plots and photographs well and is one
subtraction.
"""

from __future__ import annotations

import struct
import zlib

import numpy as np

_COLOUR_TYPES = {1: 0, 2: 4, 3: 2, 4: 6}  # channels -> grey, grey and alpha, colours, colours and alpha
_ROW_ABOVE = 2


def _chunk(kind: bytes, data: bytes) -> bytes:
    return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(data, zlib.crc32(kind)))


def encode_png(image: np.ndarray, compression: int = -1) -> bytes:
    """A PNG of ``image``, uint8 ``[height, width, channels]`` with 1 to 4 channels.

    Args:
        image: the picture; neither side may be 0.
        compression: zlib's level, -1 for its default.
    """
    height, width, channels = image.shape
    rows = np.ascontiguousarray(image, np.uint8).reshape(height, width * channels)
    filtered = np.empty((height, width * channels + 1), np.uint8)
    filtered[:, 0] = _ROW_ABOVE
    filtered[0, 1:] = rows[0]
    np.subtract(rows[1:], rows[:-1], out=filtered[1:, 1:])
    header = struct.pack(">IIBBBBB", width, height, 8, _COLOUR_TYPES[channels], 0, 0, 0)
    data = zlib.compress(filtered.tobytes(), compression)
    return b"\x89PNG\r\n\x1a\n" + _chunk(b"IHDR", header) + _chunk(b"IDAT", data) + _chunk(b"IEND", b"")


def encode_wav(samples: np.ndarray, sample_rate: int) -> bytes:
    """A WAV of ``samples``, float32 ``[frames, channels]`` in [-1, 1], rounded to 16 bits; louder ones are clipped."""
    channels = samples.shape[1]
    scaled = samples.astype(np.float32) * np.float32(32768)
    away = np.copysign(np.floor(np.abs(scaled) + np.float32(0.5)), scaled)  # halves away from zero
    data = np.nan_to_num(np.clip(away, -32768, 32767), nan=-32768).astype("<i2").tobytes()
    block = 2 * channels
    head = struct.pack(
        "<4sI4s4sIHHIIHH",
        b"RIFF",
        36 + len(data),
        b"WAVE",
        b"fmt ",
        16,
        1,
        channels,
        sample_rate,
        sample_rate * block,
        block,
        16,
    )
    return head + struct.pack("<4sI", b"data", len(data)) + data
