"""Numbers as strings: `tf.as_string`."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public_op
from anabranch.core.contract.opdef import PURE, Bool, Int, NotDifferentiable, Op, String, Type
from anabranch.ops.shared import row_rules

_DTYPES = (
    "int8 int16 int32 int64 uint8 uint16 uint32 uint64 half bfloat16 float double bool complex64 complex128 string "
    "variant"
)


def _check_format(ctx: Any, attrs: dict[str, Any]) -> None:
    dtype = attrs["T"]
    if dtype.name == "variant":
        raise NotImplementedError(
            errors.message(
                "as_string of a variant", "a tensor of numbers, bools or strings", "take the tensors out of it first"
            )
        )
    inexact = dtype.is_floating or dtype.is_complex
    scientific, shortest, fill = attrs["scientific"], attrs["shortest"], attrs["fill"]
    wrong = errors.InvalidArgumentError
    ctx.check(len(fill) <= 1, wrong, "Fill string must be one or fewer characters")
    text = f"Fill argument not supported: {fill!r}; write one of '0', ' ', '-' or '+'"
    ctx.check(fill in ("", " ", "0", "-", "+"), wrong, text)
    ctx.check(not (scientific and shortest), wrong, "Cannot select both scientific and shortest notation")
    text = f"scientific and shortest format not supported for datatype {dtype.name}"
    ctx.check(inexact or not (scientific or shortest), wrong, text)
    ctx.check(inexact or attrs["precision"] < 0, wrong, f"precision not supported for datatype {dtype.name}")
    ctx.check(attrs["width"] < 0 or not dtype.is_bool, wrong, f"width not supported for datatype {dtype.name}")


class AsString(Op):
    """Each number as text, in C's formats: ``%d``, ``%f``, or ``%e`` (scientific), ``%g`` (shortest)."""

    signature = "input: T -> output: string"
    attrs = {
        "T": Type(_DTYPES),
        "precision": Int(-1),
        "scientific": Bool(False),
        "shortest": Bool(False),
        "width": Int(-1),
        "fill": String(""),
    }
    effect = PURE
    by_rows = row_rules.as_it_is
    gradient = NotDifferentiable("a string has no gradient")

    def shape(c):
        return c.shapes[0]

    def host_kernel(ctx, inputs, attrs):
        _check_format(ctx, attrs)
        dtype = attrs["T"]
        width = str(attrs["width"]) if attrs["width"] >= 0 else ""
        flag = attrs["fill"] if width else ""
        values = inputs[0].ravel().tolist()
        if dtype.is_bool:
            texts = ["true" if value else "false" for value in values]
        elif dtype.name == "string":
            strings = np.empty(len(values), object)
            strings[:] = values
            return strings.reshape(inputs[0].shape)
        else:
            kind = "d"
            if not dtype.is_integer:
                precision = f".{attrs['precision']}" if attrs["precision"] >= 0 else ""
                kind = precision + ("e" if attrs["scientific"] else "g" if attrs["shortest"] else "f")
            form = f"%{flag}{width}{kind}"
            if dtype.is_complex:
                texts = [f"({form % value.real},{form % value.imag})" for value in values]
            else:
                texts = [form % value for value in values]
        result = np.empty(len(texts), object)
        result[:] = [text.encode() for text in texts]
        return result.reshape(inputs[0].shape)


as_string = public_op(
    "AsString",
    "as_string",
    "strings.as_string",
    "dtypes.as_string",
    arguments="input precision scientific shortest width fill",
)

__all__ = ["as_string"]
