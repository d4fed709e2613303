"""One serialised ``Example`` by itself, as the function of a map parses it: feature by feature, without columns.

For one example the columns of a batch (:mod:`~anabranch.ops.parsing.example_columns`) are mostly calls of NumPy on
arrays of one element. Here is what is in the usual form: lists that are packed, of the type that is asked for. Anything
else (a dense feature that is missing, a list of another type or size, bytes that cannot be parsed) is left to the
columns, which know what it means, or what to say.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.contract.inference import RawShape
from anabranch.core.values import dtypes
from anabranch.ops.parsing.example_columns import FIELDS, InvalidExample, column_of, parsed

_SHORT = 130
"""Bytes below which the length of a list is one byte, and its integers are read one by one."""


def _values(feature: Any, key: str, dtype: dtypes.DType) -> Any:
    """The values of a feature ``[n]``; None if they are not in the usual form."""
    if dtype is dtypes.string:
        texts = feature.bytes_list.value
        found = np.empty(len(texts), object)
        found[:] = texts
        return found if len(texts) else None
    floats = dtype is dtypes.float32
    data: bytes = feature.float_list if floats else feature.int64_list
    size = len(data)
    if size < 3:
        return None
    if floats and size < _SHORT and data[0] == 0x0A and data[1] == size - 2 and not (size - 2) % 4:
        return np.frombuffer(data, "<f4", -1, 2).astype(np.float32)
    if not floats and size < _SHORT and data[0] == 0x0A and data[1] == size - 2:
        chunk = data[2:]
        if max(chunk) < 0x80:
            return np.array(list(chunk), np.int64)
    return column_of([feature], key, dtype).values


def parse(
    data: Any,
    sparse: Sequence[tuple[str, dtypes.DType]],
    dense: Sequence[tuple[str, dtypes.DType, RawShape]],
) -> list[Any] | None:
    """Indices ``[n, 1]``, values ``[n]`` and shapes ``[1]`` of sparse features, each of these for all of them, and
    dense features in their shapes; None if the columns are to be asked.
    """
    try:
        (message,) = parsed("Example", [data])
        features = message.features.feature
        found = []
        for key, dtype in sparse:
            feature = features.get(key)
            values = None if feature is None else _values(feature, key, dtype)
            if values is None:
                if feature is not None and feature.WhichOneof("kind") not in (None, FIELDS[dtype]):
                    return None
                values = np.empty(0, dtype.np)
            found.append(values)
        rows = []
        for key, dtype, shape in dense:
            feature = features.get(key)
            values = None if feature is None else _values(feature, key, dtype)
            if values is None or shape is None or None in shape[1:]:
                return None
            if shape and shape[0] is None:
                stride = math.prod(size or 0 for size in shape[1:])
                if not stride or len(values) % stride:
                    return None
                rows.append(values.reshape(-1, *shape[1:]))
                continue
            if len(values) != math.prod(size or 0 for size in shape):
                return None
            rows.append(values.reshape(shape))
    except InvalidExample:
        return None
    places = [np.arange(len(values), dtype=np.int64)[:, np.newaxis] for values in found]
    return [*places, *found, *[np.array([len(values)], np.int64) for values in found], *rows]
