"""The dataset of a query to a SQLite database.

A query runs when the first element is asked for, on a connection that may only read. A value that is not of its
component's type is converted by SQLite's own rules (NULL is 0, or an empty string); an integer that does not fit is
cut off, as in TensorFlow.
"""

from __future__ import annotations

import sqlite3
import urllib.parse
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.paths import local
from anabranch.core.values import dtypes
from anabranch.ops.data.elements.stacks import Element
from anabranch.ops.data.files import scalar_of, text
from anabranch.ops.data.pipeline import ELEMENTS, Dataset, Iterator, stage

_TYPES = (
    dtypes.string,
    dtypes.int8,
    dtypes.int16,
    dtypes.int32,
    dtypes.int64,
    dtypes.uint8,
    dtypes.uint16,
    dtypes.bool_,
    dtypes.float64,
)
_FULL, _CORRUPT, _NOT_A_DATABASE, _READ_ONLY = 13, 11, 26, 8
_CLASSES: dict[int, Any] = {
    _FULL: errors.ResourceExhaustedError,
    _CORRUPT: errors.DataLossError,
    _NOT_A_DATABASE: errors.InvalidArgumentError,
    _READ_ONLY: errors.InvalidArgumentError,
}


class _Rows(Iterator):
    fields = ("number",)

    def start(self) -> None:
        self.number = 0
        self._connection: Any = None
        self._cursor: Any = None
        self._over = False

    def next(self) -> Element | None:
        if self._over:
            return None
        try:
            if self._cursor is None:
                self._begin()
            row = self._cursor.fetchone()
        except sqlite3.Error as problem:
            self.close()
            raise self._error(problem) from None
        if row is None:
            self._over = True
            self.close()
            return None
        self.number += 1
        pairs = zip(row, self.dataset.types, strict=True)
        return tuple([self._converted(value, dtype) for value, dtype in pairs])

    def _begin(self) -> None:
        path = local(self.dataset.source, self.dataset.op)
        uri = f"file:{urllib.parse.quote(path)}?mode=ro"
        self._connection = sqlite3.connect(uri, uri=True, check_same_thread=False)
        self._connection.text_factory = bytes
        self._cursor = self._connection.execute(self.dataset.query)
        columns = len(self._cursor.description or ())
        if columns != len(self.dataset.types):
            self.close()
            raise errors.InvalidArgumentError(
                None,
                self.dataset.op,
                f"The number of columns in query ({columns}) must match the number of elements in output_types "
                f"({len(self.dataset.types)}).\n"
                + errors.message(
                    f"the query {self.dataset.query!r} with {columns} columns",
                    f"a query with {len(self.dataset.types)}",
                    "output_types with a type for each column of the query",
                ),
            )

    def _error(self, problem: sqlite3.Error) -> errors.OpError:
        code = getattr(problem, "sqlite_errorcode", 0) & 0xFF
        kind = _CLASSES.get(code)
        what = (
            f"{problem} (database {self.dataset.source}, query {self.dataset.query!r}, row {self.number})\n"
            + errors.message(
                f"{problem} in database {self.dataset.source}, row {self.number}",
                "a database that is there and a query that it can answer",
                f"sqlite3.connect({self.dataset.source!r}).execute({self.dataset.query!r}), which says more",
            )
        )
        return kind(None, self.dataset.op, what) if kind else errors.UnknownError(None, self.dataset.op, what)

    def _converted(self, value: Any, dtype: dtypes.DType) -> Any:
        if dtype is dtypes.string:
            return scalar_of(value if isinstance(value, bytes) else self._cast(value, "text", b""))
        assert dtype.np is not None
        if dtype is dtypes.float64:
            return np.array(value if isinstance(value, float | int) else self._cast(value, "real", 0.0), dtype.np)
        number = value if isinstance(value, int) else self._cast(value, "integer", 0)
        return np.array(number != 0) if dtype is dtypes.bool_ else np.array(number, np.int64).astype(dtype.np)

    def _cast(self, value: Any, kind: str, of_null: Any) -> Any:
        if value is None:
            return of_null
        if isinstance(value, bytes) and kind != "text":
            value = value.decode("utf-8", "replace")
        return self._connection.execute(f"select cast(? as {kind})", (value,)).fetchone()[0]

    def restore(self, state: dict[str, Any]) -> None:
        self.close()
        self.start()
        super().restore({**state, "number": 0})
        while self.number < state["number"] and self.next() is not None:
            pass

    def close(self) -> None:
        super().close()
        if self._connection is not None:
            self._connection.close()
            self._connection = self._cursor = None


_QUERY = "driver_name: string, data_source_name: string, query: string"


@stage("ExperimentalSqlDataset", _QUERY, ELEMENTS)
@stage("SqlDataset", _QUERY, ELEMENTS)
class Sql(Dataset):
    """The rows that a SQLite database answers to a query, a scalar for each column."""

    iterator = _Rows

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        driver, self.source, self.query = (
            text(ctx, operands[name], name) for name in ("driver_name", "data_source_name", "query")
        )
        if driver != "sqlite":
            raise errors.InvalidArgumentError(
                None,
                self.op,
                f"The database type, {driver}, is not supported by SqlDataset. The set of supported databases is: "
                "{'sqlite'}.\n" + errors.message(f"driver_name={driver!r}", "'sqlite'", "driver_name='sqlite'"),
            )
        for dtype in self.types:
            ctx.check(
                dtype in _TYPES,
                errors.InvalidArgumentError,
                "Each element of `output_types` must be one of: DT_STRING, DT_INT8, DT_INT16, DT_INT32, DT_INT64, "
                "DT_UINT8, DT_UINT16, DT_BOOL, DT_DOUBLE, but one is " + dtypes.proto_name(dtype),
            )
        for shape in self.shapes:
            ctx.check(
                shape is None or shape == (),
                errors.InvalidArgumentError,
                "Each element of `output_shapes` must be a scalar.",
            )
