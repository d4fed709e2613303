"""Cases of ops that models for serving have: texts in other encodings, ragged rows, images scaled and moved."""

import numpy as np
from raw_ops import case

RANDOM = np.random.RandomState(5)
IMAGE = RANDOM.uniform(0, 9, (2, 7, 5, 3)).astype(np.float32)
SHARES = np.float32([0.45, 0.7]), np.float32([0.3, -0.6])
GROWN = np.float32([2.3, 1.6]), np.float32([0.0, 1.25])
KERNELS = ("lanczos1", "lanczos3", "lanczos5", "gaussian", "box", "triangle", "keyscubic", "mitchellcubic")


def texts(*items):
    """Byte strings as an array."""
    found = np.empty(len(items), object)
    found[:] = items
    return found


GOOD = texts(b"h\xc3\xa9llo\n\x01", b"", b"\xf0\x9f\x98\x80x", b"\xef\xbb\xbfbom", b"\xef\xbf\xbe\xef\xbf\xbf")
BAD = texts(
    b"a\xffb", b"\xe3\x81", b"\xed\xa0\x80", b"\xc0\x80z", b"\xf4\x90\x80\x80", b"\xe3\x81\xe3\x81\x82", b"\xf0\x9f"
)
ENCODED = {
    "UTF-16-BE": texts("a\U0001f600é".encode("utf-16-be"), b"\xd8\x00\x00a", b"\x00"),
    "UTF-16-LE": texts("aé".encode("utf-16-le"), b"\x00\xd8a\x00"),
    "UTF-16": texts("ab".encode("utf-16-be")),
    "UTF-32-BE": texts("a\U0001f600".encode("utf-32-be"), b"\x00\x11\x00\x00", b"\x00\x00\xd8\x00"),
    "US-ASCII": texts(b"a\xe9b"),
    "ISO-8859-1": texts(b"a\xe9\x80"),
    "latin1": texts(b"\xff"),
    "windows-1252": texts(b"\x80\x81z"),
    "SHIFT-JIS": texts("日本".encode("shift-jis"), b"\x5c\x7e"),
    "EUC-JP": texts("日本".encode("euc-jp")),
    "GBK": texts("中文".encode("gbk")),
    "GB2312": texts("中文".encode("gb2312")),
    "Big5": texts("中文".encode("big5")),
    "EUC-KR": texts("한".encode("euc-kr")),
    "KOI8-R": texts("да".encode("koi8-r")),
    "utf8": texts(b"a\xc3\xa9"),
}
CODES = np.int32([104, 233, 0x1F600, 0xD800, 0x110000, -1, 0xFFFE, 0xFDD0, 0xFFFD, 0])
SPLITS = np.int64([0, 3, 3, 10])
ABCD = texts(b"a", b"b", b"c", b"d")
ROWS, VALUES = np.int64([0, 2, 2, 5]), np.float32([1, 2, 3, 4, 5])
PAIRS = VALUES.repeat(2).reshape(5, 2)
DEEP = (np.int64([0, 1, 3]), np.int64([0, 2, 2, 5]))


def scaled(kernel, places, size=(4, 6), **attrs):
    """A call of ScaleAndTranslate."""
    return case("ScaleAndTranslate", IMAGE, np.int32(size), *places, kernel_type=kernel, **attrs)


CASES = {
    **{
        f"decode, {kind}, controls {controls}": case(
            "UnicodeDecodeWithOffsets", np.concatenate([GOOD, BAD] if kind != "strict" else [GOOD]),
            input_encoding="UTF-8", errors=kind, replace_control_characters=controls,
        )
        for kind in ("replace", "ignore", "strict") for controls in (False, True)
    },
    **{f"decode {name}": case("UnicodeDecode", data, input_encoding=name) for name, data in ENCODED.items()},
    "decode, rows": case("UnicodeDecode", GOOD[:4].reshape(2, 2), input_encoding="UTF-8", Tsplits=np.int32),
    "decode, other replacement": case("UnicodeDecode", BAD, input_encoding="UTF-8", replacement_char=63),
    **{
        f"transcode to {name}, {kind}": case(
            "UnicodeTranscode", np.concatenate([GOOD, BAD]), input_encoding="UTF-8", output_encoding=name, errors=kind
        )
        for name in ("UTF-8", "UTF-16-BE", "UTF-32-BE") for kind in ("replace", "ignore")
    },
    "transcode from ISO-8859-1": case(
        "UnicodeTranscode", texts(b"a\xe9\x01"), input_encoding="ISO-8859-1", output_encoding="UTF-8",
        replace_control_characters=True,
    ),
    **{
        f"encode, {name}, {kind}": case(
            "UnicodeEncode", CODES, SPLITS, output_encoding=name, errors=kind, replacement_char=63
        )
        for name in ("UTF-8", "UTF-16-BE", "UTF-32-BE") for kind in ("replace", "ignore")
    },
    **{f"scaled down, {kernel}": scaled(kernel, SHARES, tolerance=1e-4) for kernel in KERNELS},
    **{f"scaled up, {kernel}": scaled(kernel, GROWN, (9, 8), tolerance=1e-4) for kernel in KERNELS},
    **{
        f"scaled, {kernel}, without antialias": scaled(kernel, SHARES, antialias=False, tolerance=1e-4)
        for kernel in ("lanczos3", "box", "triangle")
    },
    "scaled, whole numbers": case(
        "ScaleAndTranslate", IMAGE.astype(np.uint8), np.int32([3, 3]), *SHARES, tolerance=1e-4
    ),
    "scaled, gradient": case(
        "ScaleAndTranslateGrad", RANDOM.uniform(-1, 1, (2, 4, 6, 3)).astype(np.float32), IMAGE, *SHARES, tolerance=1e-4
    ),
    "scaled, gradient of a cubic": case(
        "ScaleAndTranslateGrad", RANDOM.uniform(-1, 1, (2, 9, 8, 3)).astype(np.float32), IMAGE, *GROWN,
        kernel_type="keyscubic", antialias=False, tolerance=1e-4,
    ),
    "range": case("RaggedRange", np.int32([0, 5, 8, 3]), np.int32([3, 5, 2, 12]), np.int32([1, 1, -2, 4])),
    "range, scalars": case("RaggedRange", np.float32(0.5), np.float32([1.0, 3.1, 0.2]), np.float32(0.7)),
    "range, one row": case("RaggedRange", np.int64(2), np.int64(9), np.int64(3), Tsplits=np.int32),
    "gather": case("RaggedGather", (ROWS,), VALUES, np.int32([2, 0, 1, 2]), OUTPUT_RAGGED_RANK=1),
    "gather, rows of rows": case("RaggedGather", (ROWS,), VALUES, np.int32([[2, 0], [1, 2]]), OUTPUT_RAGGED_RANK=2),
    "gather, deep": case("RaggedGather", DEEP, PAIRS, np.int64([1, 1, 0]), OUTPUT_RAGGED_RANK=2),
    "gather, cube": case(
        "RaggedGather", (ROWS,), VALUES, np.int32([[[0, 2], [1, 1]], [[2, 2], [0, 0]]]), OUTPUT_RAGGED_RANK=3
    ),
    "sparse": case("RaggedTensorToSparse", (ROWS,), VALUES),
    "sparse, deep": case("RaggedTensorToSparse", DEEP, VALUES),
    "sparse, rows of vectors": case("RaggedTensorToSparse", (ROWS,), PAIRS),
    "join": case("UnsortedSegmentJoin", ABCD, np.int32([2, 0, 2, 0]), np.int32(4), separator="-"),
    "join, rows": case("UnsortedSegmentJoin", ABCD.reshape(2, 2), np.int32([1, 1]), np.int32(2)),
    "join, all": case("UnsortedSegmentJoin", texts(b"a", b"b").reshape(1, 2), np.int64([[1, 0]]), np.int32(2)),
}  # fmt: skip
