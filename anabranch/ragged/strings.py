"""Strings cut into pieces, as ragged tensors: words, bytes, characters and n-grams; and characters joined to strings.

Each function takes strings of any rank, dense or ragged. An op cuts a vector of strings; the pieces of a string are one
ragged dimension more, below those that hold the strings. The pieces of one string alone are a vector.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import errors as error_classes
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.values import dtypes
from anabranch.ragged.ragged_tensor import RaggedTensor


def _by_string(strings: Any, cut: Callable[[Any], Sequence[Any]]) -> Any:
    """What ``cut`` gives for the vector of all strings, a list of tensors or ragged tensors a row a string, in the form
    that the strings have.
    """
    if isinstance(strings, RaggedTensor):
        return [strings.with_flat_values(pieces) for pieces in _by_string(strings.flat_values, cut)]
    strings = convert_to_tensor(strings, dtypes.string)
    rank = strings.shape.ndims
    if rank is None:
        raise ValueError(
            "input must have a statically-known rank.\n"
            + error_classes.message("strings of unknown rank", "a known rank", "tf.reshape(strings, [-1])")
        )
    if rank == 0:
        rows = cut(build("ExpandDims", strings, 0))
        return [row.values if isinstance(row, RaggedTensor) else row[0] for row in rows]
    if rank > 1:
        return _by_string(RaggedTensor.from_tensor(strings, ragged_rank=rank - 1), cut)
    return cut(strings)


def _rows(values: Any, splits: Any) -> Any:
    return RaggedTensor.from_row_splits(values, splits, validate=False)


@public("string_split")
def string_split(
    source: Any,
    sep: Any = None,
    skip_empty: bool = True,
    delimiter: Any = None,
    result_type: str = "SparseTensor",
    name: str | None = None,
) -> Any:
    """Parts of the strings ``source`` ``[n]`` between characters of ``sep``, as a sparse or ragged ``[n, most]``.

    Args:
        source: strings.
        sep: characters that separate; a blank if None, every character is a part if empty.
        skip_empty: leave out empty parts.
        delimiter: old name of ``sep``.
        result_type: ``"SparseTensor"`` or ``"RaggedTensor"``, rows of words.
        name: name of the op.
    """
    if sep is not None and delimiter is not None:
        raise ValueError("Cannot specify both 'sep' and 'delimiter'.")
    chosen = sep if sep is not None else delimiter
    with name_scope(name, "StringSplit", [source]) as scope:
        pieces = build("StringSplit", source, " " if chosen is None else chosen, skip_empty=skip_empty, name=scope)
    return _as_wanted(pieces, result_type)


@public("strings.split")
def string_split_v2(
    input: Any = None,
    sep: Any = None,
    maxsplit: int = -1,
    result_type: str = "SparseTensor",
    source: Any = None,
    name: str | None = None,
) -> Any:
    """Parts of the strings ``input`` ``[n]`` between ``sep``, as a sparse tensor ``[n, most]``; or as a ragged one, for
    strings of any rank.

    Args:
        input: strings.
        sep: text that separates; runs of white space if None or empty.
        maxsplit: most separations of one string; no limit if not above 0.
        result_type: ``"SparseTensor"`` or ``"RaggedTensor"``, rows of words.
        source: old name of ``input``.
        name: name of the op.
    """
    given = input if input is not None else source
    if result_type == "RaggedTensor":
        return split(given, sep, maxsplit, name)
    given = convert_to_tensor(given, "string")
    with name_scope(name, "StringSplit", [given]) as scope:
        if given.get_shape().ndims == 0:
            given = build("ExpandDims", given, 0)
        pieces = build("StringSplitV2", given, "" if sep is None else sep, maxsplit=maxsplit, name=scope)
    return _as_wanted(pieces, result_type)


def _as_wanted(pieces: Any, result_type: str) -> Any:
    """Words with their places as the class that a program asked for."""
    if result_type == "RaggedTensor":
        return _words(pieces)
    if result_type != "SparseTensor":
        raise ValueError(
            "result_type must be 'SparseTensor' or 'RaggedTensor'.\n"
            + error_classes.message(
                f"result_type={result_type!r}", "the name of a class of tensors", "result_type='RaggedTensor'"
            )
        )
    return SparseTensor(pieces[0], pieces[1], pieces[2])


def _words(pieces: Any) -> RaggedTensor:
    """Rows of words from their places in a matrix."""
    indices, words, sizes = pieces
    rows = build("StridedSlice", indices, [0, 0], [0, 1], [1, 1], begin_mask=1, end_mask=1, shrink_axis_mask=2)
    count = build("StridedSlice", sizes, [0], [1], [1], shrink_axis_mask=1)
    return RaggedTensor.from_value_rowids(words, rows, nrows=count, validate=False)


def split(input: Any, sep: Any = None, maxsplit: int = -1, name: str | None = None) -> Any:
    """Words of strings.

    Args:
        input: strings of any rank.
        sep: text that separates; runs of white space if None or empty.
        maxsplit: most separations of one string; no limit if not above 0.
        name: name scope.

    Returns:
        A ragged tensor of one dimension more; of one string a vector.
    """

    def cut(strings: Any) -> list[Any]:
        return [_words(build("StringSplitV2", strings, "" if sep is None else sep, maxsplit=maxsplit))]

    with name_scope(name, "StringSplit"):
        return _by_string(input, cut)[0]


@public("strings.bytes_split")
def bytes_split(input: Any, name: str | None = None) -> Any:
    """The bytes of strings of any rank, as strings: a ragged tensor of one dimension more.

    Example:
        >>> import anabranch as tf
        >>> with tf.Session() as session:
        ...     session.run(tf.strings.bytes_split(["ab", "c"])).to_list()
        [[b'a', b'b'], [b'c']]
    """

    def pieces(strings: Any) -> list[Any]:
        lengths = build("Cast", build("StringLength", strings), DstT=dtypes.int64)
        rows = RaggedTensor.from_row_lengths(build("Range", 0, build("Sum", lengths, [0]), 1), lengths, validate=False)
        firsts = build("GatherV2", rows.row_splits, rows.value_rowids(), 0)
        places = build("Cast", rows.values, DstT=dtypes.int64) - firsts
        each = build("GatherV2", strings, rows.value_rowids(), 0)
        return [rows.with_values(build("Substr", each, places, build("OnesLike", places)))]

    with name_scope(name, "StringsByteSplit"):
        return _by_string(input, pieces)[0]


def _decoded(strings: Any, name: str | None, scope: str, offsets: bool, encoded: str, **attrs: Any) -> Any:
    """Characters of strings: code points, or strings in the encoding ``encoded``; and where they begin."""

    def cut(given: Any) -> list[Any]:
        kind = "UnicodeDecodeWithOffsets" if offsets else "UnicodeDecode"
        splits, codes, *starts = build(kind, given, **attrs)
        if encoded:
            ones = build("Range", 0, build("Size", codes) + 1, 1)
            codes = build(
                "UnicodeEncode",
                codes,
                build("Cast", ones, DstT=dtypes.int64),
                output_encoding=encoded,
                errors=attrs["errors"],
                replacement_char=attrs["replacement_char"],
            )
        return [_rows(values, splits) for values in (codes, *starts)]

    with name_scope(name, scope):
        results = _by_string(strings, cut)
        return tuple(results) if offsets else results[0]


@public("strings.unicode_decode")
def unicode_decode(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Any:
    """The code points of strings of any rank: a ragged tensor of int32 of one dimension more.

    Args:
        input: strings.
        input_encoding: such as ``"UTF-8"``.
        errors: what becomes of bytes that are not of the encoding: ``"replace"``, ``"ignore"`` or ``"strict"``.
        replacement_char: code point that takes their place.
        replace_control_characters: whether control characters are replaced, too.
        name: name scope.

    Example:
        >>> import anabranch as tf
        >>> with tf.Session() as session:
        ...     session.run(tf.strings.unicode_decode(["hé", ""], "UTF-8")).to_list()
        [[104, 233], []]
    """
    attrs: dict[str, Any] = {
        "replace_control_characters": replace_control_characters,
        "replacement_char": replacement_char,
    }
    return _decoded(input, name, "UnicodeDecode", False, "", input_encoding=input_encoding, errors=errors, **attrs)


@public("strings.unicode_decode_with_offsets")
def unicode_decode_with_offsets(
    input: Any,
    input_encoding: str,
    errors: str = "replace",
    replacement_char: int = 65533,
    replace_control_characters: bool = False,
    name: str | None = None,
) -> Any:
    """Like :func:`unicode_decode`, and the bytes of their strings at which the characters begin; arguments likewise."""
    attrs: dict[str, Any] = {
        "replace_control_characters": replace_control_characters,
        "replacement_char": replacement_char,
    }
    scope = "UnicodeDecodeWithOffsets"
    return _decoded(input, name, scope, True, "", input_encoding=input_encoding, errors=errors, **attrs)


@public("strings.unicode_split")
def unicode_split(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 65533, name: str | None = None
) -> Any:
    """The characters of strings of any rank, as strings in the same encoding; arguments as of :func:`unicode_decode`.

    Example:
        >>> import anabranch as tf
        >>> with tf.Session() as session:
        ...     session.run(tf.strings.unicode_split(["hi", "G"], "UTF-8")).to_list()
        [[b'h', b'i'], [b'G']]
    """
    attrs: dict[str, Any] = {"input_encoding": input_encoding, "errors": errors, "replacement_char": replacement_char}
    return _decoded(input, name, "UnicodeSplit", False, input_encoding, **attrs)


@public("strings.unicode_split_with_offsets")
def unicode_split_with_offsets(
    input: Any, input_encoding: str, errors: str = "replace", replacement_char: int = 65533, name: str | None = None
) -> Any:
    """Like :func:`unicode_split`, and the bytes of their strings at which the characters begin; arguments likewise."""
    attrs: dict[str, Any] = {"input_encoding": input_encoding, "errors": errors, "replacement_char": replacement_char}
    return _decoded(input, name, "UnicodeSplitWithOffsets", True, input_encoding, **attrs)


@public("strings.unicode_encode")
def unicode_encode(
    input: Any, output_encoding: str, errors: str = "replace", replacement_char: int = 65533, name: str | None = None
) -> Any:
    """Strings of code points, which stand in the last dimension of a dense or ragged tensor of int32.

    Args:
        input: code points.
        output_encoding: ``"UTF-8"``, ``"UTF-16-BE"`` or ``"UTF-32-BE"``.
        errors: what becomes of numbers that are not code points: ``"replace"``, ``"ignore"`` or ``"strict"``.
        replacement_char: code point that takes their place.
        name: name scope.

    Example:
        >>> import anabranch as tf
        >>> with tf.Session() as session:
        ...     print(session.run(tf.strings.unicode_encode([[72, 105], [33, 33]], "UTF-8")))
        [b'Hi' b'!!']
    """
    attrs: dict[str, Any] = {"output_encoding": output_encoding, "errors": errors, "replacement_char": replacement_char}

    def encoded(codes: Any) -> Any:
        if isinstance(codes, RaggedTensor):
            if codes.ragged_rank > 1:
                return codes.with_values(encoded(codes.values))
            if codes.values.shape.ndims == 1:
                return build("UnicodeEncode", codes.values, codes.row_splits, **attrs)
            return codes.with_values(encoded(codes.values))
        codes = convert_to_tensor(codes, dtypes.int32)
        rank = codes.shape.ndims
        if not rank:
            raise ValueError(
                "input_tensor's rank must be at least 1.\n"
                + error_classes.message(f"code points of shape {codes.shape}", "a vector or more", "[codes]")
            )
        if rank == 1:
            whole = build("Cast", build("Pack", [0, build("Size", codes)]), DstT=dtypes.int64)
            return build("Squeeze", build("UnicodeEncode", codes, whole, **attrs), squeeze_dims=[0])
        if rank == 2:
            return encoded(RaggedTensor.from_tensor(codes))
        sizes = build("Shape", codes)
        flat = encoded(build("Reshape", codes, build("Pack", [-1, sizes[-1]])))
        return build("Reshape", flat, sizes[:-1])

    with name_scope(name, "UnicodeEncode"):
        return encoded(input)


@public("strings.ngrams")
def ngrams(
    data: Any,
    ngram_width: Any,
    separator: str = " ",
    pad_values: Any = None,
    padding_width: int | None = None,
    preserve_short_sequences: bool = False,
    name: str | None = None,
) -> Any:
    """Groups of neighbouring strings of the last dimension, joined.

    Args:
        data: strings ``[..., words]``, dense or ragged.
        ngram_width: how many strings make a group, or a list of such numbers.
        separator: what stands between them.
        pad_values: a string, or one for the left and one for the right, by which rows are extended; none if None.
        padding_width: how many of them at most; one less than the width of a group if None.
        preserve_short_sequences: whether a row too short for a group gives all its strings as one.
        name: name scope.

    Returns:
        A ragged tensor, or a tensor if ``data`` is a vector.

    Example:
        >>> import anabranch as tf
        >>> with tf.Session() as session:
        ...     session.run(tf.strings.ngrams([["a", "b", "c"], ["d", "e", "f"]], 2)).to_list()
        [[b'a b', b'b c'], [b'd e', b'e f']]
    """
    left, right = ("", "") if pad_values is None else (pad_values, pad_values)
    if isinstance(pad_values, list | tuple):
        left, right = pad_values
    if padding_width is not None and padding_width < 1:
        raise ValueError("padding_width must be greater than 0.")
    if padding_width is not None and pad_values is None:
        raise ValueError("pad_values must be provided if padding_width is set.")
    widths = list(ngram_width) if isinstance(ngram_width, list | tuple) else [ngram_width]
    if any(width < 1 for width in widths):
        raise ValueError(f"All ngram_widths must be greater than 0. Got {ngram_width}")
    with name_scope(name, "StringNGrams"):
        dense = not isinstance(data, RaggedTensor)
        if dense:
            data = convert_to_tensor(data, dtypes.string)
        vector = dense and data.shape.ndims == 1
        if vector:
            data = build("ExpandDims", data, 0)
        if dense:
            data = RaggedTensor.from_tensor(data, ragged_rank=data.shape.ndims - 1)
        outer = []
        inner = data
        while isinstance(inner.values, RaggedTensor):
            outer.append(inner)
            inner = inner.values
        grams, splits = build(
            "StringNGrams",
            inner.values,
            inner.row_splits,
            separator=separator,
            ngram_widths=widths,
            left_pad=left,
            right_pad=right,
            pad_width=(0 if pad_values is None else -1) if padding_width is None else padding_width,
            preserve_short_sequences=preserve_short_sequences,
        )
        if vector:
            return grams
        result = _rows(grams, splits)
        for one in reversed(outer):
            result = one.with_values(result)
        return result
