"""``tf.compat``: text and bytes, classes of numbers, dimensions as numbers."""

from __future__ import annotations

import numbers
import os
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public, publish_as
from anabranch.core.values.dimensions import Dimension

publish_as("compat.integral_types", (numbers.Integral, np.integer))
publish_as("compat.real_types", (numbers.Real, np.integer, np.floating))
publish_as("compat.complex_types", (numbers.Complex, np.number))
publish_as("compat.bytes_or_text_types", (bytes, str))


@public("compat.as_bytes")
def as_bytes(bytes_or_text: bytes | str | bytearray, encoding: str = "utf-8") -> bytes:
    """Text as bytes; bytes as they are."""
    if isinstance(bytes_or_text, bytearray):
        return bytes(bytes_or_text)
    if isinstance(bytes_or_text, str):
        return bytes_or_text.encode(encoding)
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text
    raise _neither(bytes_or_text)


@public("compat.as_text", "compat.as_str")
def as_text(bytes_or_text: bytes | str, encoding: str = "utf-8") -> str:
    """Bytes as text; text as it is."""
    if isinstance(bytes_or_text, str):
        return bytes_or_text
    if isinstance(bytes_or_text, bytes):
        return bytes_or_text.decode(encoding)
    raise _neither(bytes_or_text)


def _neither(value: Any) -> TypeError:
    return TypeError(
        f"Expected binary or unicode string, got {value!r}\n"
        + errors.message(f"a {type(value).__name__}", "bytes or str", "tf.compat.as_str_any(x), or str(x)")
    )


@public("compat.as_str_any")
def as_str_any(value: Any) -> str:
    """Bytes as text, anything else by ``str``."""
    return as_text(value) if isinstance(value, bytes) else str(value)


@public("compat.path_to_str")
def path_to_str(path: Any) -> Any:
    """A path object as text; anything else as it is."""
    return as_str_any(os.fspath(path)) if hasattr(path, "__fspath__") else path


@public("compat.dimension_value", "dimension_value")
def dimension_value(dimension: Any) -> int | None:
    """The size of a dimension as an int or None, whether it is a ``Dimension`` or a number."""
    return dimension.value if isinstance(dimension, Dimension) else dimension


@public("compat.dimension_at_index", "dimension_at_index")
def dimension_at_index(shape: Any, index: int) -> Dimension:
    """The dimension of a shape at an index, unknown if the rank is."""
    return Dimension(None) if shape.ndims is None else shape.dims[index]
