"""Datasets of CSV files: an element for each record, a component for each column.

Files are read like files of lines, cut into records (which may hold line feeds within quotes), and converted column by
column, many records at a time, by the parser of ``DecodeCSV``. A record that cannot be read is an error at its place;
the iterator goes on behind it.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import List
from anabranch.core.values import budgets, dtypes
from anabranch.ops.data.elements.stacks import Element, all_rows, rows_of
from anabranch.ops.data.files import FileDataset, FileIterator, FileReader, LineReader, text
from anabranch.ops.data.pipeline import stage
from anabranch.ops.parsing.csv_records import Columns, InvalidRecord, Records

PARSED_AHEAD = 64
"""Records that are converted together if elements are asked for one by one."""


class CsvReader(LineReader):
    """The records of a file, as bytes."""

    def __init__(self, path: str, compression: str, buffer_size: int, records: Records, header: bool) -> None:
        super().__init__(path, compression, buffer_size)
        self._records = records
        self._header = header

    def items(self) -> list[bytes]:
        there = 0
        while True:
            block = self.block()
            there += 0 if block is None else len(block)
            if there > self._most:
                self._records.rest()
                raise budgets.exceeded(there, self._most, f"a record of the compressed file {self.path}")
            records = self._records.rest() if block is None else self._records.of(block)
            if self._header and records:
                self._header = False
                del records[0]
            if records or block is None:
                return records


class _CsvRecords(FileIterator):
    def start(self) -> None:
        super().start()
        self._parsed: list[np.ndarray] = []
        self._from = self._to = 0
        """Which items ahead have been converted."""

    def more(self) -> bool:
        if self.at < len(self.ahead):
            return True
        self._from = self._to = 0
        return super().more()

    def next(self) -> Element | None:
        if not self.more():
            return None
        if not self._from <= self.at < self._to:
            end = min(self.at + PARSED_AHEAD, len(self.ahead))
            self._parsed = self._columns(self.at, end)
            self._from = self.at
        row = self.at - self._from
        self.pop(1)
        return tuple([column[row, ...] for column in self._parsed])

    def gather(self, count: int, into: list[Element] | None = None) -> list[Element]:
        elements: list[Element] = [] if into is None else into
        elements += rows_of(self.take(count, elements) or ())
        return elements

    def take(self, count: int, before: list[Element] | None = None) -> Sequence[Any] | None:
        parts: list[list[np.ndarray]] = []
        missing = count
        try:
            while missing and self.more():
                end = min(self.at + missing, len(self.ahead))
                columns = self._columns(self.at, end)
                done = len(columns[0])
                parts.append(columns)
                self.pop(done)
                missing -= done
        except errors.OpError:
            if before is not None:
                before += all_rows(parts)
            raise
        if len(parts) == 1:
            return parts[0]
        return [np.concatenate(pieces) for pieces in zip(*parts, strict=True)] if parts else None

    def _columns(self, start: int, end: int) -> list[np.ndarray]:
        """Columns of items ahead, up to the first that cannot be read; if that is at ``start``, its error."""
        columns: list[np.ndarray]
        try:
            columns = self.dataset.columns.of(self.ahead[start:end])
        except InvalidRecord as problem:
            bad = problem.position  # of a later column, an earlier record may be wrong, too
            while bad:
                try:
                    columns = self.dataset.columns.of(self.ahead[start : start + bad])
                except InvalidRecord as earlier:
                    bad = earlier.position
                    problem = earlier
                else:
                    self._to = start + bad
                    return columns
            self.pop(1)
            self._refuse(problem)
        self._to = end
        return columns

    def _refuse(self, problem: InvalidRecord) -> None:
        path = os.fsdecode(self.dataset.files[self.file])
        what = problem.told("record")
        raise errors.InvalidArgumentError(
            None,
            self.dataset.op,
            f"{what}\n"
            + errors.message(
                f"record {self.number}{' behind the header' if self.dataset.header else ''} of {path}: {what}",
                f"{self.dataset.described}",
                "record_defaults with a value for fields that may be missing, or "
                "dataset.apply(tf.data.experimental.ignore_errors())",
            ),
        )


_SIGNATURE = (
    "filenames: string, compression_type: string, buffer_size: int64, header: bool, field_delim: string, "
    "use_quote_delim: bool, na_value: string, select_cols: int64, record_defaults: [output_types]"
)
_ATTRS = {
    "output_types": List("type", allowed="float double int32 int64 string", minimum=1),
    "output_shapes": List("shape", minimum=1),
}


@stage("CSVDatasetV2", f"{_SIGNATURE}, exclude_cols: int64", _ATTRS)
@stage("ExperimentalCSVDataset", _SIGNATURE, _ATTRS)
@stage("CSVDataset", _SIGNATURE, _ATTRS)
class CsvRecords(FileDataset):
    """The records of CSV files: a component for each column, or for those of ``select_cols``.

    A field that is empty or ``na_value`` gets the default of its column; an empty vector as default makes it required.
    """

    iterator = _CsvRecords

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.compressed(ctx, operands)
        defaults = [np.asarray(default) for default in operands["record_defaults"]]
        for i, default in enumerate(defaults):
            ctx.check(default.ndim <= 1, errors.InvalidArgumentError, "Each record default should be at most rank 1")
            ctx.check(
                default.size < 2,
                errors.InvalidArgumentError,
                f"There should only be 1 default per field but field {i} has {default.size}",
            )
        self.header = bool(operands["header"])
        self.delim = text(ctx, operands["field_delim"], "field_delim").encode()
        ctx.check(len(self.delim) == 1, errors.InvalidArgumentError, "field_delim should be only 1 char")
        self.quotes = bool(operands["use_quote_delim"])
        wanted = [int(column) for column in np.ravel(operands["select_cols"])]
        left_out = [int(column) for column in np.ravel(operands.get("exclude_cols", ()))]
        for name, columns in (("select_cols", wanted), ("exclude_cols", left_out)):
            ctx.check(
                columns == sorted(set(columns)),
                errors.InvalidArgumentError,
                f"{name} should be strictly increasing indices",
            )
            ctx.check(
                not columns or columns[0] >= 0, errors.InvalidArgumentError, f"{name} should be non-negative indices"
            )
        ctx.check(
            not (wanted and left_out),
            errors.InvalidArgumentError,
            "Either select_cols or exclude_cols should be empty",
        )
        ctx.check(
            not wanted or len(wanted) == len(defaults),
            errors.InvalidArgumentError,
            "select_cols should match output size",
        )
        if left_out:
            wanted = [i for i in range(len(defaults) + len(left_out)) if i not in left_out]
        na_value = text(ctx, operands["na_value"], "na_value").encode()
        self.columns = Columns(attrs["output_types"], defaults, self.delim, self.quotes, na_value, wanted, blank=True)
        names = ", ".join(dtypes.proto_name(dtype) for dtype in attrs["output_types"])
        self.described = f"fields {wanted} of types {names}" if wanted else f"{len(defaults)} fields of types {names}"

    def reader(self, path: str) -> FileReader:
        return CsvReader(path, self.compression, self.buffer_size, Records(self.delim, self.quotes), self.header)
