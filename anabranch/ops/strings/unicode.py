"""Characters of strings in other encodings: decoded to numbers, encoded from them, transcoded. On the host.

Policy. Bytes that are not a character of the encoding are replaced, left out, or fail the step (``errors``), with one
replacement for each longest piece that begins like a character, as the Unicode standard advises. Names of encodings are
those of the Internet (``"UTF-8"``, ``"ISO-8859-1"``, ``"SHIFT-JIS"``); UTF-16 and UTF-32 without a mark of their byte
order are read as big-endian.
"""

from __future__ import annotations

import codecs
import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.cache import memoized
from anabranch.core.contract import inference
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, Bool, Int, NotDifferentiable, Op, String, Type
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import shapes

_NO_GRADIENT = NotDifferentiable("a string has no gradient")
_ERRORS = String("replace", "ignore replace strict")
_OUTPUTS = "UTF-16-BE UTF-32-BE UTF-8"
_LAST = 0x10FFFF
_MARKS = {"utf-16": (codecs.BOM_UTF16_BE, codecs.BOM_UTF16_LE), "utf-32": (codecs.BOM_UTF32_BE, codecs.BOM_UTF32_LE)}
# Names by which the Internet means a superset of the standard of that name.
_WIDER = {"shift_jis": "cp932", "gb2312": "gbk"}

Character = tuple[int | None, int, int]
"""A code point, None for what is not a character, and the bytes from which to which it stands."""


@memoized("codecs", 128)
def codec_of(name: str) -> str | None:
    """The codec of an encoding's name; None if there is none."""
    try:
        codec = codecs.lookup(name) if name and isinstance(name, str) else None  # bytes: it is not even UTF-8
    except (LookupError, ValueError):
        return None
    if codec is None or not codec._is_text_encoding or codec.name in ("idna", "punycode", "raw-unicode-escape"):
        return None
    return None if "escape" in codec.name else _WIDER.get(codec.name, codec.name)


def characters(data: bytes, codec: str) -> Iterator[Character]:
    """The characters of ``data`` and where they stand."""
    start = 0
    if codec in _MARKS:
        big, little = _MARKS[codec]
        codec += "-le" if data.startswith(little) else "-be"
        start = len(big) if data.startswith((big, little)) else 0
    while start < len(data):
        try:
            good, bad = data[start:].decode(codec), None
        except UnicodeDecodeError as problem:
            bad = start + problem.start, start + max(problem.end, problem.start + 1)
            good = data[start : bad[0]].decode(codec)
        ends = _ends(good, codec)
        for character, begin, end in zip(good, [0, *ends], ends, strict=False):
            yield ord(character), start + begin, start + end
        if bad is None:
            return
        start = bad[1]
        if codec.startswith("cp125") and bad[1] - bad[0] == 1:  # places that those tables leave free are controls
            yield data[bad[0]], *bad
        else:
            yield None, *bad


def _ends(text: str, codec: str) -> list[int]:
    """Where each character ends in the encoded text."""
    if text.isascii() and codec == "utf-8":
        return list(range(1, len(text) + 1))
    sizes = [len(character.encode(codec)) for character in text]
    return np.cumsum(sizes, dtype=np.int64).tolist()


def _numbers(ctx: Any, data: bytes, codec: str, attrs: Any) -> Iterator[tuple[int, int]]:
    """Code points of a string as the attributes want them, each with the byte where it begins."""
    kind, controls = attrs["errors"], attrs["replace_control_characters"]
    for code, start, _ in characters(data, codec):
        if code is None:
            ctx.check(
                kind != "strict",
                errors.InvalidArgumentError,
                "Invalid formatting on input string\n"
                + errors.message(
                    f"bytes that are no {attrs['input_encoding']}",
                    f"text in {attrs['input_encoding']}",
                    "errors='replace' or 'ignore'",
                ),
            )
        elif not controls or code > 0x1F:
            yield code, start
            continue
        if kind == "replace" or (kind == "strict" and code is not None):
            yield attrs["replacement_char"], start


def _checked_codec(ctx: Any, attrs: Any) -> str:
    name = attrs["input_encoding"]
    codec = codec_of(name)
    ctx.check(
        codec is not None,
        errors.InvalidArgumentError,
        f"Could not create converter for input encoding: {name}\n"
        + errors.message(f"input_encoding={name!r}", "an encoding's name", "'UTF-8'"),
    )
    _check_replacement(ctx, attrs)
    return codec or "utf-8"


def _check_replacement(ctx: Any, attrs: Any) -> None:
    code = attrs["replacement_char"]
    ctx.check(
        0 <= code <= _LAST,
        errors.InvalidArgumentError,
        "replacement_char out of unicode codepoint range\n"
        + errors.message(
            f"replacement_char={code}",
            f"a code point from 0 to {_LAST}",
            "replacement_char=65533, Unicode's replacement character",
        ),
    )


def _text(code: int) -> str:
    """A character; the replacement for a number that is none."""
    return chr(code) if 0 <= code <= _LAST and not 0xD800 <= code <= 0xDFFF else "\ufffd"


# ---------------------------------------------------------------------------------------------------------- decoding
_DECODING = {
    "input_encoding": String(),
    "errors": _ERRORS,
    "replacement_char": Int(0xFFFD),
    "replace_control_characters": Bool(False),
    "Tsplits": Type("int32 int64", default="int64"),
}


def _decoded(ctx: Any, inputs: Any, attrs: Any) -> tuple[Any, Any, Any]:
    codec = _checked_codec(ctx, attrs)
    splits, codes, starts = [0], [], []
    for data in inputs[0].ravel().tolist():
        for code, start in _numbers(ctx, data, codec, attrs):
            codes.append(code)
            starts.append(start)
        splits.append(len(codes))
    return np.array(splits, attrs["Tsplits"].np), np.array(codes, np.int32), np.array(starts, np.int64)


def _decoded_shapes(c: Any) -> Any:
    size = shapes.num_elements(c.shapes[0])
    splits = (None if size is None else size + 1,)
    return [splits, *[(None,)] * (len(c.definition.outputs) - 1)]


class UnicodeDecode(Op):
    """Code points of all strings, one after another, and where each string's begin and end."""

    signature = "input: string -> row_splits: Tsplits, char_values: int32"
    attrs = _DECODING
    effect = PURE
    shape = _decoded_shapes
    gradient = _NO_GRADIENT

    def bound(c):
        return None

    def host_kernel(ctx, inputs, attrs):
        return _decoded(ctx, inputs, attrs)[:2]


class UnicodeDecodeWithOffsets(Op):
    """Like UnicodeDecode, and the byte of its string at which each character begins."""

    signature = "input: string -> row_splits: Tsplits, char_values: int32, char_to_byte_starts: int64"
    attrs = _DECODING
    effect = PURE
    shape = _decoded_shapes
    gradient = _NO_GRADIENT

    def bound(c):
        return None

    def host_kernel(ctx, inputs, attrs):
        return _decoded(ctx, inputs, attrs)


class UnicodeTranscode(Op):
    """Each string in another encoding."""

    signature = "input: string -> output: string"
    attrs = {
        "input_encoding": String(),
        "output_encoding": String(allowed=_OUTPUTS),
        "errors": _ERRORS,
        "replacement_char": Int(0xFFFD),
        "replace_control_characters": Bool(False),
    }
    effect = PURE
    shape = inference.unchanged
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        codec, target = _checked_codec(ctx, attrs), attrs["output_encoding"].lower()
        strings = np.empty(inputs[0].size, object)
        for place, data in enumerate(inputs[0].ravel().tolist()):
            codes = [code for code, _ in _numbers(ctx, data, codec, attrs)]
            strings[place] = "".join(map(_text, codes)).encode(target)
        return strings.reshape(inputs[0].shape)


# ---------------------------------------------------------------------------------------------------------- encoding
class UnicodeEncode(Op):
    """A string for each row of code points that ``input_splits`` cuts out of ``input_values``."""

    signature = "input_values: int32, input_splits: Tsplits -> output: string"
    attrs = {
        "errors": _ERRORS,
        "output_encoding": String(allowed=_OUTPUTS),
        "replacement_char": Int(0xFFFD),
        "Tsplits": Type("int32 int64", default="int64"),
    }
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("input_values", 1)
        splits = c.with_rank("input_splits", 1)
        return (None if splits is None or splits[0] is None else max(splits[0] - 1, 0),)

    def host_kernel(ctx, inputs, attrs):
        values, splits = inputs
        kind, target = attrs["errors"], attrs["output_encoding"].lower()
        _check_replacement(ctx, attrs)
        bounds = splits.astype(np.int64).tolist()
        for good, reason in (
            (bool(bounds), f"Input_splits should contain elements, but given input_values has {values.size} elements"),
            (not bounds or bounds[0] == 0, "First value in input_splits must be zero."),
            (bounds == sorted(bounds), "Values in input_splits must be equal or in ascending order."),
            (
                not bounds or bounds[-1] == values.size,
                "Last value in input_splits must be equal to length of input_tensor.",
            ),
        ):
            ctx.check(good, errors.InvalidArgumentError, reason)
        good = (values >= 0) & (values <= _LAST) & ~((values >= 0xD800) & (values <= 0xDFFF))
        ctx.check(
            kind != "strict" or bool(good.all()),
            errors.InvalidArgumentError,
            "Code point is out of range for Unicode, or is a surrogate: {0}",
            values[~good][:1],
        )
        strings = np.empty(max(len(bounds) - 1, 0), object)
        for place, (start, end) in enumerate(itertools.pairwise(bounds)):
            row = [
                code if fine else attrs["replacement_char"]
                for code, fine in zip(values[start:end].tolist(), good[start:end].tolist(), strict=True)
                if fine or kind != "ignore"
            ]
            strings[place] = "".join(map(_text, row)).encode(target)
        return strings


@public("strings.unicode_transcode")
def unicode_transcode(
    input: Any,
    input_encoding: str,
    output_encoding: str,
    errors: str = "replace",
    replacement_char: int = 0xFFFD,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Tensor:
    """Each string in another encoding.

    Args:
        input: strings.
        input_encoding: name of the encoding that they have, as ``"UTF-8"`` or ``"ISO-8859-1"``.
        output_encoding: ``"UTF-8"``, ``"UTF-16-BE"`` or ``"UTF-32-BE"``.
        errors: what happens with what is not a character: ``"replace"``, ``"ignore"`` (left out) or ``"strict"`` (the
            step fails).
        replacement_char: the code point that replaces it.
        replace_control_characters: whether code points up to 31 count as wrong, too.
        name: of the op.
    """
    return build(
        "UnicodeTranscode",
        input,
        input_encoding=input_encoding,
        output_encoding=output_encoding,
        errors=errors,
        replacement_char=replacement_char,
        replace_control_characters=replace_control_characters,
        name=name,
    )
