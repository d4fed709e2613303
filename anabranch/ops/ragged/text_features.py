"""Ops on ragged rows that preprocessing of texts is made of: n-grams of words, counts of ids."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, AtLeast, Bool, Int, List, NotDifferentiable, Op, String, Type
from anabranch.ops.ragged.to_dense import checked_splits


def _bytes(text: Any) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogateescape")


class StringNGrams(Op):
    """The words of each row of ``data``, joined by ``separator``, in groups of each of ``ngram_widths``.

    Rows are padded on both sides by up to ``pad_width`` (-1: as wide as a group allows) times ``left_pad`` and
    ``right_pad``. A row that is too short for any group gives all its words as one if ``preserve_short_sequences``.
    """

    signature = "data: string, data_splits: Tsplits -> ngrams: string, ngrams_splits: Tsplits"
    attrs = {
        "separator": String(),
        "ngram_widths": List("int", minimum=0),
        "left_pad": String(),
        "right_pad": String(),
        "pad_width": Int(),
        "preserve_short_sequences": Bool(),
        "Tsplits": Type("int32 int64", "int64"),
    }
    effect = PURE
    gradient = NotDifferentiable("a string has no gradient")

    def shape(c):
        c.with_rank("data", 1)
        splits = c.with_rank("data_splits", 1)
        return [(None,), splits]

    def host_kernel(ctx, inputs, attrs):
        data, splits = inputs
        checked_splits(ctx, splits, len(data))
        widths = [int(width) for width in attrs["ngram_widths"]]
        ctx.check(
            all(width > 0 for width in widths),
            errors.InvalidArgumentError,
            "ngram_widths must contain positive values: {0}",
            widths,
        )
        row_of = _Grams(attrs)
        rows = [row_of(data[start:end].tolist(), widths) for start, end in itertools.pairwise(splits)]
        grams = np.empty(sum(map(len, rows)), object)
        grams[:] = [gram for row in rows for gram in row]
        new_splits = np.zeros(len(splits), splits.dtype)
        np.cumsum([len(row) for row in rows], out=new_splits[1:])
        return grams, new_splits


class _Grams:
    """Make the n-grams of a row."""

    def __init__(self, attrs: dict[str, Any]) -> None:
        self._separator, self._left, self._right = (
            _bytes(attrs[name]) for name in ("separator", "left_pad", "right_pad")
        )
        self._pad = attrs["pad_width"]
        self._whole = attrs["preserve_short_sequences"]

    def __call__(self, words: list[bytes], widths: list[int]) -> list[bytes]:
        grams = []
        for width in widths:
            pad = width - 1 if self._pad < 0 else min(self._pad, width - 1)
            grams += self._of_width(words, width, pad, len(words) + 2 * pad - width + 1)
        if not grams and self._whole and words:
            pad = max(self._pad, 0)
            grams = self._of_width(words, len(words) + 2 * pad, pad, 1)
        return grams

    def _of_width(self, words: list[bytes], width: int, pad: int, count: int) -> list[bytes]:
        grams = []
        for i in range(count):
            left, right = max(0, pad - i), max(0, pad - (count - i - 1))
            start = 0 if left else i - pad
            inside = words[start : start + width - left - right]
            grams.append(self._separator.join([self._left] * left + inside + [self._right] * right))
        return grams


class RaggedBincount(Op):
    """How often each of ``0 ... size - 1`` occurs in each row of ``values``, or the sum of its ``weights``; with
    ``binary_output`` whether it occurs. Larger numbers are left out.
    """

    signature = "splits: int64, values: Tidx, size: Tidx, weights: T -> output: T"
    attrs = {"Tidx": Type("int32 int64"), "T": Type("int32 int64 float double"), "binary_output": Bool(False)}
    effect = PURE
    ranks = {"values": AtLeast(1)}
    gradient = NotDifferentiable("a count is an integer, and TensorFlow gives weights no gradient")

    def shape(c):
        (rows,) = c.with_rank("splits", 1)
        size = c.scalar(2)
        return None if rows is None else rows - 1, None if size is None or size < 0 else int(size)

    def host_kernel(ctx, inputs, attrs):
        splits, values, size, weights = inputs
        ctx.check(size.ndim == 0, errors.InvalidArgumentError, "Shape must be rank 0 but is rank {0}", size.ndim)
        ctx.check(size >= 0, errors.InvalidArgumentError, "size ({0}) must be non-negative", size)
        checked_splits(ctx, splits, len(values))
        ctx.check(
            weights.size == 0 or weights.shape == values.shape,
            errors.InvalidArgumentError,
            "`weights` must be the same shape as `values` or a length-0 `Tensor`, in which case it acts as all weights "
            "equal to 1.",
        )
        ctx.check(np.all(values >= 0), errors.InvalidArgumentError, "Input must be non-negative")
        out = np.zeros((len(splits) - 1, int(size)), weights.dtype)
        row = np.repeat(np.arange(len(splits) - 1), np.diff(splits))
        inside = values < size
        index = row[inside], values[inside]
        if attrs["binary_output"]:
            out[index] = 1
        else:
            np.add.at(out, index, weights[inside] if weights.size else np.ones(inside.sum(), weights.dtype))
        return out
