"""How commands show results (tables of text, JSON documents, arrays, sizes) and problems."""

from __future__ import annotations

import argparse
import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.values import dtypes, shapes

PROBLEM = 2
"""Exit status of a command that could not do what was asked for."""


def told_in_one_line(run: Callable[[argparse.Namespace], int], options: argparse.Namespace) -> int:
    """Run a command; what files and arguments can cause is told on standard error, without a traceback."""
    try:
        status = run(options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # `| head`; nobody reads what Python would flush at exit
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except errors.OpError as problem:
        print(f"anabranch: {problem.message}", file=sys.stderr)
    except (OSError, RuntimeError, TypeError, ValueError) as problem:
        print(f"anabranch: {problem}", file=sys.stderr)
    return PROBLEM


def add_json(parser: argparse.ArgumentParser) -> None:
    """Add the option ``--json``."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")


def print_json(document: Any) -> None:
    """Print a JSON document; bytes and arrays in it become texts and lists."""
    print(json.dumps(plain(document), indent=2, ensure_ascii=False))


def plain(value: Any) -> Any:
    """``value`` as JSON can say it: numbers that are not finite become texts."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.kind == "c":
            return [plain(np.real(value)), plain(np.imag(value))]
        if value.dtype.kind == "V" or value.dtype.name == "bfloat16":
            return plain(np.asarray(value).astype(np.float32))
        return plain(value.tolist())
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value


def table(rows: Iterable[Sequence[Any]], indent: str = "") -> str:
    """Rows as aligned columns; numbers stand to the right."""
    given = [list(row) for row in rows]
    if not given:
        return ""
    widths = [max(len(str(row[i])) for row in given) for i in range(len(given[0]))]
    lines = []
    for row in given:
        cells = [
            str(cell).rjust(width) if isinstance(cell, int) else str(cell).ljust(width)
            for cell, width in zip(row, widths, strict=True)
        ]
        lines.append((indent + "  ".join(cells)).rstrip())
    return "\n".join(lines)


def size_text(count: int) -> str:
    """A number of bytes for people."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{count} B" if unit == "B" else f"{value:.1f} {unit}"


def shape_list(raw: shapes.RawShape) -> list[int | None] | None:
    """A shape for JSON."""
    return None if raw is None else list(raw)


def tensor_text(dtype: dtypes.DType, raw: shapes.RawShape) -> str:
    """``float32[?,3]``."""
    return f"{dtype.base.name}{shapes.show(raw)}"


def byte_size(dtype: dtypes.DType, shape: Sequence[int]) -> int | None:
    """Bytes of an array; None for strings, whose sizes vary."""
    return None if dtype.np is None or dtype.name == "string" else math.prod(shape) * dtype.size


def array_text(value: Any, full: bool = False) -> str:
    """An array as text, strings as texts; short unless ``full``."""
    array = np.asarray(value)
    if array.dtype.kind in "OS":
        array = np.array([plain(item) for item in array.ravel()], object).reshape(array.shape)
    with np.printoptions(threshold=np.iinfo(np.int64).max if full else 40, edgeitems=3, linewidth=110, precision=6):
        return str(array)


__all__ = [
    "PROBLEM",
    "add_json",
    "array_text",
    "byte_size",
    "plain",
    "print_json",
    "shape_list",
    "size_text",
    "table",
    "tensor_text",
    "told_in_one_line",
]
