"""Strings: case, length, parts, joining, splitting, numbers in text, base 64.

A string tensor holds byte strings; ``unit="UTF8_CHAR"`` and ``encoding="utf-8"`` look at characters. All run on the
host. Patterns stand in :mod:`anabranch.ops.strings.regex`.
"""

from __future__ import annotations

import base64
import functools
import itertools
import math
import re
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.api import public, public_op
from anabranch.core.contract.attrs import attr_bytes
from anabranch.core.contract.opdef import PURE, Bool, Int, NotDifferentiable, Op, String, Type, define
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes, shapes
from anabranch.ops.shared import row_rules

_NO_GRADIENT = NotDifferentiable("a string has no gradient")
_UNIT = String("BYTE", "BYTE UTF8_CHAR")
_NUMBER = re.compile(rb"[+-]?(\d+(\.\d*)?([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf(inity)?|nan)\Z", re.IGNORECASE)
_HEXADECIMAL = re.compile(rb"[+-]?0[xX][0-9a-fA-F]+\Z")
_INTEGER = re.compile(rb"[+-]?\d+\Z")
_UTF8_STARTS = re.compile(rb"[^\x80-\xbf]")


def mapped(function: Callable[[bytes], Any], values: Any, dtype: Any = object) -> np.ndarray:
    """An array of what ``function`` gives for each string."""
    results = np.empty(values.size, dtype)
    results[:] = [function(value) for value in values.ravel().tolist()]
    return results.reshape(values.shape)


def scalar_of(value: Any) -> np.ndarray:
    """A scalar that holds a string."""
    scalar = np.empty((), object)
    scalar[()] = value
    return scalar


# --------------------------------------------------------------------------------------------------------- one by one
def _cased(change: str) -> Any:
    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        if attrs["encoding"] == "utf-8":
            return mapped(
                lambda value: getattr(value.decode("utf-8", "surrogateescape"), change)().encode(
                    "utf-8", "surrogateescape"
                ),
                inputs[0],
            )
        return mapped(getattr(bytes, change), inputs[0])

    return kernel


def _cased_shape(c: Any) -> Any:
    if c.attrs["encoding"] not in ("", "utf-8"):
        raise ValueError(f"Unsupported encoding {c.attrs['encoding']!r}; write '' (bytes) or 'utf-8'")
    return c.shapes[0]


for _name, _change in (("StringLower", "lower"), ("StringUpper", "upper")):
    define(
        _name,
        f"Each string in {_change} case; only ASCII letters unless ``encoding`` is ``utf-8``.",
        signature="input: string -> output: string",
        attrs={"encoding": String("")},
        effect=PURE,
        shape=_cased_shape,
        host_kernel=_cased(_change),
        gradient=_NO_GRADIENT,
    )


class StringStrip(Op):
    """Each string without white space at its ends."""

    signature = "input: string -> output: string"
    effect = PURE
    shape = inference.unchanged
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        return mapped(bytes.strip, inputs[0])


def _characters(value: bytes) -> list[bytes]:
    """The UTF-8 characters of a string; bytes that start none belong to the one before."""
    starts = [match.start() for match in _UTF8_STARTS.finditer(value)]
    if not value:
        return []
    if not starts or starts[0]:
        starts.insert(0, 0)
    return [value[start:end] for start, end in zip(starts, [*starts[1:], len(value)], strict=True)]


class StringLength(Op):
    """Length of each string in bytes, or in characters with ``unit="UTF8_CHAR"``; int32."""

    signature = "input: string -> output: int32"
    attrs = {"unit": _UNIT}
    effect = PURE
    shape = inference.unchanged
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        count = len if attrs["unit"] == "BYTE" else lambda value: len(_UTF8_STARTS.findall(value))
        return mapped(count, inputs[0], np.int32)


class Substr(Op):
    """Part of each string: ``len`` bytes or characters from ``pos`` on (from the end if negative); broadcast."""

    signature = "input: string, pos: T, len: T -> output: string"
    attrs = {"T": Type("int32 int64"), "unit": _UNIT}
    effect = PURE
    by_rows = row_rules.as_it_is
    gradient = _NO_GRADIENT

    def shape(c):
        place = c.same_shape("pos", "len")
        return shapes.broadcast(c.shapes[0], place)

    def host_kernel(ctx, inputs, attrs):
        values, positions, lengths = np.broadcast_arrays(*inputs)
        parts: list[Any] = values.ravel().tolist()
        if attrs["unit"] != "BYTE":
            parts = list(map(_characters, parts))
        sizes = np.fromiter(map(len, parts), np.int64, len(parts))
        starts = positions.ravel().astype(np.int64)
        outside = (starts < -sizes) | (starts > sizes)
        if outside.any():
            first = int(np.argmax(outside))
            ctx.check(
                False,
                errors.InvalidArgumentError,
                "pos {0} out of range for string at index {1}",
                int(starts[first]),
                first,
            )
        starts = np.where(starts < 0, starts + sizes, starts)
        ends = starts + np.clip(lengths.ravel(), 0, sizes)
        places = zip(parts, starts.tolist(), ends.tolist(), strict=True)
        found = [part[start:end] for part, start, end in places]
        if attrs["unit"] != "BYTE":
            found = list(map(b"".join, found))
        return np.fromiter(found, object, len(found)).reshape(values.shape)


# -------------------------------------------------------------------------------------------------------------- numbers
def _plain_numbers(strings: Any, dtype: Any, floating: bool) -> np.ndarray | None:
    """Numbers that Python reads as TensorFlow does; None if one of them is to be looked at more closely."""
    texts = strings.ravel().tolist()
    if any([b"_" in text for text in texts]):
        return None
    try:
        numbers = list(map(float if floating else int, texts))
    except ValueError:
        return None
    if not floating and numbers:
        low, high = _limits(dtype)
        if min(numbers) < low or max(numbers) > high:
            return None
    return np.array(numbers, dtype).reshape(strings.shape)


@functools.cache
def _limits(dtype: Any) -> tuple[int, int]:
    limits = np.iinfo(dtype)
    return int(limits.min), int(limits.max)


class StringToNumber(Op):
    """The number that each string says."""

    signature = "string_tensor: string -> output: out_type"
    attrs = {"out_type": Type("float double int32 int64 uint32 uint64", "float")}
    effect = PURE
    shape = inference.unchanged
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        dtype = attrs["out_type"]
        floating = dtype.is_floating
        if (plain := _plain_numbers(inputs[0], dtype.np, floating)) is not None:
            return plain
        pattern = _NUMBER if floating else _INTEGER
        limits = None if floating else np.iinfo(dtype.np)
        strings = []
        for value in inputs[0].ravel().tolist():
            text = value.strip()
            number: Any = (float if floating else int)(text) if pattern.match(text) else None
            if number is None and floating and _HEXADECIMAL.match(text):
                number = float(int(text, 16))
            fits = number is not None and (limits is None or limits.min <= number <= limits.max)
            if not fits:
                shown = value.decode(errors="replace").replace("{", "{{").replace("}", "}}")
                message = f"StringToNumberOp could not correctly convert string: {shown}"
                ctx.check(False, errors.InvalidArgumentError, message)
            strings.append(number)
        return np.array(strings, dtype.np).reshape(inputs[0].shape)


# ------------------------------------------------------------------------------------------------------------- base 64
class EncodeBase64(Op):
    """Each string in the base 64 that is safe in URLs, padded with ``=`` if ``pad``."""

    signature = "input: string -> output: string"
    attrs = {"pad": Bool(False)}
    effect = PURE
    shape = inference.unchanged
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        def encoded(value: bytes) -> bytes:
            text = base64.urlsafe_b64encode(value)
            return text if attrs["pad"] else text.rstrip(b"=")

        return mapped(encoded, inputs[0])


def _decoded(ctx: Any, value: bytes) -> bytes:
    if len(value) % 4 == 1:
        whole = re.fullmatch(rb"[A-Za-z0-9_-]*", value[:-1]) is not None
        ctx.check(not whole, errors.InvalidArgumentError, "Base64 string length cannot be 1 modulo 4.")
    text = value.rstrip(b"=")
    padding = len(value) - len(text)
    good = re.fullmatch(rb"[A-Za-z0-9_-]*", text) is not None and len(text) % 4 != 1
    good = good and (padding == 0 or (len(value) % 4 == 0 and padding <= 2))
    ctx.check(good, errors.InvalidArgumentError, "Invalid character found in base64.")
    return base64.urlsafe_b64decode(text + b"=" * (-len(text) % 4))


class DecodeBase64(Op):
    """The string behind each base 64 text that is safe in URLs, padded or not."""

    signature = "input: string -> output: string"
    effect = PURE
    shape = inference.unchanged
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        return mapped(functools.partial(_decoded, ctx), inputs[0])


# ------------------------------------------------------------------------------------------------------------- joining
class StringJoin(Op):
    """The strings of all inputs joined element by element; scalars serve all elements."""

    signature = "inputs: N * string -> output: string"
    attrs = {"N": Int(minimum=0), "separator": String("")}
    effect = PURE
    by_rows = row_rules.same_shapes
    gradient = _NO_GRADIENT

    def shape(c):
        merged: Any = ()
        for shape in c.shapes:
            if shape is None:
                return None if merged == () else merged
            if shape != ():
                merged = shape if merged == () else shapes.merge(merged, shape)
        return merged

    def host_kernel(ctx, inputs, attrs):
        whole = {value.shape for value in inputs if value.ndim}
        ctx.check(
            len(whole) < 2,
            errors.InvalidArgumentError,
            f"Input shapes do not match: {' vs. '.join(shapes.show(shape) for shape in sorted(whole))}",
        )
        size = whole.pop() if whole else ()
        separator = attr_bytes(attrs["separator"])
        if not size:  # scalars
            return scalar_of(separator.join([value.item() for value in inputs]))
        columns = [value.ravel().tolist() if value.ndim else itertools.repeat(value.item()) for value in inputs]
        strings = np.empty(math.prod(size), object)
        strings[:] = list(map(separator.join, zip(*columns, strict=False)))
        return strings.reshape(size)


class ReduceJoin(Op):
    """The strings along ``reduction_indices`` joined, the first of them fastest."""

    signature = "inputs: string, reduction_indices: int32 -> output: string"
    attrs = {"keep_dims": Bool(False), "separator": String("")}
    effect = PURE
    compile_time = ("reduction_indices",)
    gradient = _NO_GRADIENT

    def shape(c):
        whole, axes = c.shapes[0], c.value("reduction_indices")
        if whole is None or axes is None:
            return None if whole is None or not c.attrs["keep_dims"] else (None,) * len(whole)
        reduced = _axes(axes, len(whole))
        if c.attrs["keep_dims"]:
            return tuple(1 if i in reduced else size for i, size in enumerate(whole))
        return tuple(size for i, size in enumerate(whole) if i not in reduced)

    def host_kernel(ctx, inputs, attrs):
        values = inputs[0]
        reduced = _axes(inputs[1], values.ndim)
        kept_axes = [i for i in range(values.ndim) if i not in reduced]
        separator = attr_bytes(attrs["separator"])
        if not reduced:
            return values
        size = tuple(values.shape[i] for i in kept_axes)
        joined = math.prod(values.shape[i] for i in reduced)
        rows = values.transpose([*kept_axes, *reversed(reduced)]).reshape(math.prod(size), joined)
        strings = np.empty(len(rows), object)
        strings[:] = [separator.join(row) for row in rows.tolist()]
        shape = [1 if i in reduced else n for i, n in enumerate(values.shape)] if attrs["keep_dims"] else size
        return strings.reshape(shape)


def _axes(given: Any, rank: int) -> list[int]:
    axes = []
    for axis in np.asarray(given).ravel().tolist():
        if not -rank <= axis < rank:
            raise ValueError(f"Invalid reduction dimension {axis} for input with {rank} dimensions.")
        if axis % rank in axes:
            raise ValueError(f"Duplicate reduction dimension {axis}")
        axes.append(axis % rank)
    return axes


# ------------------------------------------------------------------------------------------------------------ splitting
def _sparse(rows: list[list[bytes]]) -> list[np.ndarray]:
    """Indices, values and shape of the parts of each row."""
    if len(rows) == 1:
        (parts,) = rows
        count = len(parts)
        values, indices = np.empty(count, object), np.zeros((count, 2), np.int64)
        values[:] = parts
        indices[:, 1] = np.arange(count)
        return [indices, values, np.array([1, count], np.int64)]
    counts = np.fromiter(map(len, rows), np.int64, len(rows))
    parts = list(itertools.chain.from_iterable(rows))
    values = np.empty(len(parts), object)
    values[:] = parts
    indices = np.empty((len(parts), 2), np.int64)
    indices[:, 0] = np.repeat(np.arange(len(rows)), counts)
    indices[:, 1] = np.arange(len(parts)) - np.repeat(np.cumsum(counts) - counts, counts)
    return [indices, values, np.array([len(rows), counts.max(initial=0)], np.int64)]


def _split_shape(c: Any) -> Any:
    c.with_rank(0, 1)
    c.with_rank(1, 0)
    return [(None, 2), (None,), (2,)]


def _splitter(delimiter: bytes) -> Callable[[bytes], list[bytes]]:
    """What splits a string at each character of ``delimiter``, and between all characters if there is none."""
    if len(delimiter) == 1:
        return lambda value: value.split(delimiter)
    if not delimiter:
        return lambda value: [value[i : i + 1] for i in range(len(value))]
    return re.compile(b"[" + re.escape(delimiter) + b"]").split


class StringSplit(Op):
    """Parts of the strings ``[n]`` between characters of ``delimiter`` (every character if empty), as a sparse
    tensor.
    """

    signature = "input: string, delimiter: string -> indices: int64, values: string, shape: int64"
    attrs = {"skip_empty": Bool(True)}
    effect = PURE
    shape = _split_shape
    gradient = _NO_GRADIENT

    def bound(c):
        return [None, None, (2,)]

    def host_kernel(ctx, inputs, attrs):
        delimiter, skips = inputs[1].item(), attrs["skip_empty"]
        split = _splitter(delimiter)
        rows = []
        for value in inputs[0].tolist():
            parts = split(value) if value else []
            rows.append([part for part in parts if part] if skips and b"" in parts else parts)
        return _sparse(rows)


class StringSplitV2(Op):
    """Parts of the strings ``[n]`` between ``sep`` (runs of white space if empty), as a sparse tensor."""

    signature = "input: string, sep: string -> indices: int64, values: string, shape: int64"
    attrs = {"maxsplit": Int(-1)}
    effect = PURE
    shape = _split_shape
    gradient = _NO_GRADIENT

    def bound(c):
        return [None, None, (2,)]

    def host_kernel(ctx, inputs, attrs):
        sep, most = inputs[1].item(), attrs["maxsplit"]
        rows = []
        for value in inputs[0].tolist():
            if sep:
                rows.append(value.split(sep, most if most > 0 else -1))
                continue
            parts = value.split(None, most if most > 0 else -1)
            # What is left after the last separation is a part, even if it is empty.
            rows.append([*parts, b""] if most > 0 and len(parts) == most else parts)
        return _sparse(rows)


# ------------------------------------------------------------------------------------------------------- the functions
string_lower = public_op("StringLower", "strings.lower", arguments="input encoding")
string_upper = public_op("StringUpper", "strings.upper", arguments="input encoding")
string_strip = public_op("StringStrip", "string_strip", "strings.strip")
substr = public_op("Substr", "substr", "strings.substr", arguments="input pos len name unit")


@public("string_to_number", "strings.to_number")
def string_to_number(
    string_tensor: Any = None, out_type: Any = dtypes.float32, name: str | None = None, input: Any = None
) -> Any:
    """The number that each string spells, of dtype ``out_type``; ``input`` is another name of ``string_tensor``."""
    return build("StringToNumber", one_spelling(string_tensor, input), out_type=out_type, name=name)


def one_spelling(string_tensor: Any, input: Any) -> Any:
    """The argument that is called ``string_tensor`` or ``input``."""
    if (string_tensor is None) == (input is None):
        raise ValueError(
            errors.message(
                f"{'both' if input is not None else 'neither'} of string_tensor= and input=",
                "one of the two arguments, which mean the same",
                "input= alone",
            )
        )
    return input if string_tensor is None else string_tensor


encode_base64 = public_op("EncodeBase64", "encode_base64", "io.encode_base64", arguments="input pad")
decode_base64 = public_op("DecodeBase64", "decode_base64", "io.decode_base64")


@public("strings.length")
def string_length(input: Any, name: str | None = None, unit: str = "BYTE") -> Tensor:
    """Length of each string in bytes, or in characters with ``unit="UTF8_CHAR"``; int32."""
    return build("StringLength", input, unit=unit, name=name)


@public("string_join", "strings.join")
def string_join(inputs: Any, separator: str = "", name: str | None = None) -> Tensor:
    """The strings of a list of tensors joined element by element; scalars serve all elements."""
    return build("StringJoin", list(inputs), separator=separator, name=name)


@public("reduce_join", "strings.reduce_join")
def reduce_join(
    inputs: Any,
    axis: Any = None,
    keep_dims: bool | None = None,
    separator: str = "",
    name: str | None = None,
    reduction_indices: Any = None,
    keepdims: bool | None = None,
) -> Tensor:
    """The strings along ``axis`` joined; along all dimensions, the last fastest, if None.

    Args:
        inputs: strings.
        axis: dimension or list of them, the first of which varies fastest in the result.
        keep_dims: keep joined dimensions with size 1.
        separator: put between strings.
        name: name of the op.
        reduction_indices: old name of ``axis``.
        keepdims: new name of ``keep_dims``.
    """
    if axis is not None and reduction_indices is not None:
        raise ValueError("Cannot specify both 'axis' and 'reduction_indices'.")
    if keep_dims is not None and keepdims is not None:
        raise ValueError("Cannot specify both 'keep_dims' and 'keepdims'.")
    tensor = convert_to_tensor(inputs, "string")
    chosen = axis if axis is not None else reduction_indices
    if chosen is None:
        rank = tensor.get_shape().ndims
        if rank is None:
            chosen = build("Range", build("Sub", build("Rank", tensor), 1), -1, -1)
        else:
            chosen = np.arange(rank - 1, -1, -1, dtype=np.int32)
    keep = bool(keep_dims if keep_dims is not None else keepdims)
    return build("ReduceJoin", tensor, chosen, keep_dims=keep, separator=separator, name=name)


@public("strings.unsorted_segment_join")
def unsorted_segment_join(
    inputs: Any, segment_ids: Any, num_segments: Any, separator: str = "", name: str | None = None
) -> Tensor:
    """The strings of each segment joined, in their order.

    Args:
        inputs: strings ``[*ids, ...]``.
        segment_ids: the segment of each row of ``inputs``, integers ``[*ids]`` in ``[0, num_segments)``.
        num_segments: how many segments there are, an integer scalar.
        separator: put between strings.
        name: name of the op.

    Returns:
        Strings ``[num_segments, ...]``; empty ones where a segment has none.

    Raises:
        InvalidArgumentError: in the step, a segment out of range.

    Example:
        >>> import anabranch as tf
        >>> tf.Session().run(tf.strings.unsorted_segment_join(["a", "b", "c"], [1, 0, 1], 2, ":")).tolist()
        [b'b', b'a:c']
    """
    return build("UnsortedSegmentJoin", inputs, segment_ids, num_segments, separator=separator, name=name)


__all__ = [
    "decode_base64",
    "encode_base64",
    "mapped",
    "reduce_join",
    "string_join",
    "string_length",
    "string_lower",
    "string_strip",
    "string_to_number",
    "string_upper",
    "substr",
    "unsorted_segment_join",
]
