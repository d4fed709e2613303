"""Text files as contents of tables: a line an entry, keys and values from columns, whole lines or line numbers."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.file_errors import translated
from anabranch.core.values import dtypes

WHOLE_LINE = -2
LINE_NUMBER = -1
_INTEGERS = {dtypes.int32: 32, dtypes.int64: 64}


def read_pairs(
    path: bytes,
    key_dtype: dtypes.DType,
    value_dtype: dtypes.DType,
    key_index: int,
    value_index: int,
    vocab_size: int = -1,
    delimiter: str = "\t",
    offset: int = 0,
    op: Any = None,
) -> list[tuple[Any, Any]]:
    """The entries in a text file.

    Args:
        path: the file.
        key_dtype, value_dtype: dtypes of keys and values.
        key_index, value_index: column, ``WHOLE_LINE`` or ``LINE_NUMBER``.
        vocab_size: number of lines to read; all if -1.
        delimiter: character between columns.
        offset: added to line numbers.
        op: the operation that reads, for errors.

    Raises:
        NotFoundError: there is no such file. InvalidArgumentError: it does not hold what is asked for.
    """

    def refuse(text: str) -> errors.OpError:
        return errors.InvalidArgumentError(None, op, text)

    for what, dtype, index in (("Key", key_dtype, key_index), ("Value", value_dtype, value_index)):
        if index == LINE_NUMBER and dtype != dtypes.int64:
            raise refuse(f"{what} index for line number requires table {what.lower()} dtype of int64, got {dtype.name}")
        if index == WHOLE_LINE and dtype not in (dtypes.string, dtypes.int32, dtypes.int64):
            raise refuse(
                f"{what} index for whole line requires string or integer table {what.lower()}, got {dtype.name}"
            )
    if len(delimiter.encode()) != 1:
        raise refuse(f"Only single char delimiters are supported, got {delimiter!r}")
    shown = path.decode(errors="replace")
    with translated(shown, op), open(path, "rb") as stream:
        lines = stream.read().split(b"\n")
    if not lines[-1]:
        lines.pop()
    count = len(lines) if vocab_size == -1 else vocab_size
    if len(lines) < count:
        raise refuse(f"Invalid vocab_size in {shown}: expected {count} but got {len(lines)}")
    column = max(key_index, value_index)
    mark = delimiter.encode()
    pairs = []
    for number, raw in enumerate(lines[:count]):
        line = raw.replace(b"\r", b"")
        if not line:
            raise refuse(f"Invalid content in {shown}: empty line found at line {number + 1}.")
        parts = line.split(mark) if column >= 0 else []
        if column >= len(parts) and column >= 0:
            line_text = line.decode(errors="replace")
            raise refuse(
                f"Invalid number of columns in {shown} line {number} ({line_text}) : "
                f"expected at least {column + 1} got {len(parts)}"
            )
        pair = []
        for dtype, index in ((key_dtype, key_index), (value_dtype, value_index)):
            if index == LINE_NUMBER:
                pair.append(number + offset)
                continue
            text = line if index == WHOLE_LINE else parts[index]
            value = _converted(text, dtype)
            if value is None:
                raise refuse(
                    f"Field {text.decode(errors='replace')} in line {number} of {shown} is not a valid {dtype.name}."
                )
            pair.append(value)
        pairs.append((pair[0], pair[1]))
    return pairs


def _converted(text: bytes, dtype: dtypes.DType) -> Any:
    """The value that a field means; None if it means none."""
    if dtype == dtypes.string:
        return text
    try:
        if dtype in _INTEGERS:
            value = int(text)
            limit = 1 << (_INTEGERS[dtype] - 1)
            return value if -limit <= value < limit else None
        if dtype.is_floating:
            assert dtype.np is not None
            return dtype.np.type(float(text)).item()
        if dtype.is_bool:
            return {b"true": True, b"false": False, b"1": True, b"0": False}.get(text.strip().lower())
    except ValueError:
        return None
    return None
