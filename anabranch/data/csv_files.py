"""``CsvDataset`` and ``make_csv_dataset``: tables in text files.

What ``make_csv_dataset`` is not told it reads from the files while the graph is built: names from the header, types
from the first rows: of int32, int64, float32, float64 and string the first that holds all values of a column.
"""

from __future__ import annotations

import collections
import contextlib
import csv
import gzip
import io
import itertools
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors, paths
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.graph import get_default_graph
from anabranch.core.graph.operation import GraphTensor, Tensor
from anabranch.core.graph.static_value import constant_value
from anabranch.core.values import budgets, dtypes
from anabranch.core.values.shapes import TensorShape
from anabranch.data import experimental, structure
from anabranch.data.dataset import AUTOTUNE, Dataset
from anabranch.data.files import TextLineDataset, size, text
from anabranch.data.structure import TensorComponent

_BUFFER = 4 * 1024 * 1024
_TYPES = (dtypes.int32, dtypes.int64, dtypes.float32, dtypes.float64, dtypes.string)
"""Types of columns, each with all values of those before it."""


@public("data.experimental.CsvDataset", "contrib.data.CsvDataset")
class CsvDataset(Dataset):
    """The records of CSV files, a tuple of scalars for each.

    Args:
        filenames: one name, or several in a list or tensor.
        record_defaults: for each column what a field that is missing becomes, or a dtype if it is required.
        compression_type: ``"GZIP"``, ``"ZLIB"`` or none.
        buffer_size: bytes that are asked of a file.
        header: whether the first record of each file is left out.
        field_delim: the character between fields.
        use_quote_delim: whether fields may stand in double quotes.
        na_value: a text that means the same as an empty field.
        select_cols: the numbers of the columns that are read, in order; all if None.

    Example:
        >>> import os, tempfile
        >>> import anabranch as tf
        >>> path = os.path.join(tempfile.mkdtemp(), "table.csv")
        >>> with open(path, "w") as file:
        ...     _ = file.write("1,2.5\\n3,\\n")
        >>> table = tf.data.experimental.CsvDataset(path, [tf.int32, 0.5]).batch(2)
        >>> with tf.Session() as session:
        ...     session.run(table.make_one_shot_iterator().get_next())
        (array([1, 3], dtype=int32), array([2.5, 0.5], dtype=float32))
    """

    def __init__(
        self,
        filenames: Any,
        record_defaults: Any,
        compression_type: Any = None,
        buffer_size: Any = None,
        header: Any = False,
        field_delim: Any = ",",
        use_quote_delim: Any = True,
        na_value: Any = "",
        select_cols: Any = None,
    ) -> None:
        defaults = [_default(item) for item in record_defaults]
        spec = tuple(TensorComponent(default.dtype.base, TensorShape([])) for default in defaults)
        operands = (
            convert_to_tensor(filenames, dtypes.string, name="filenames"),
            text(compression_type, "compression_type"),
            size(buffer_size, "buffer_size", _BUFFER),
            convert_to_tensor(header, dtypes.bool_, name="header"),
            text(field_delim, "field_delim"),
            convert_to_tensor(use_quote_delim, dtypes.bool_, name="use_quote_delim"),
            text(na_value, "na_value"),
            convert_to_tensor([] if select_cols is None else select_cols, dtypes.int64, name="select_cols"),
        )
        super().__init__(build("CSVDataset", *operands, defaults, **structure.attrs_of(spec)), spec)


def _default(item: Any) -> Tensor:
    """The default of a column as a tensor: an empty vector for a dtype."""
    if isinstance(item, dtypes.DType | type | np.dtype):
        return constant([], item, [0], name="record_default")
    if type(item) is GraphTensor and item.graph is not get_default_graph():  # a constant of another
        value = constant_value(item)
        if value is not None:
            return constant(value, item.dtype.base, name="record_default")
    return convert_to_tensor(item, name="record_default")


# --------------------------------------------------------------------------------------------- what stands in the files
class _Tables:
    """The files of ``make_csv_dataset``, as far as they are read while the graph is built."""

    def __init__(
        self, names: list[str], compression: Any, delim: str, quotes: bool, header: bool, comment: str | None
    ) -> None:
        self._names = names
        self._comment = comment
        self._compression = compression
        self._header = header
        self._dialect: dict[str, Any] = {
            "delimiter": delim,
            "quoting": csv.QUOTE_MINIMAL if quotes else csv.QUOTE_NONE,
        }

    @contextlib.contextmanager
    def _rows_of(self, name: str) -> Iterator[Iterator[list[str]]]:
        if self._compression not in (None, "", "GZIP"):
            raise ValueError(
                f"compression_type ({self._compression}) is not supported for probing columns\n"
                + errors.message(
                    f"compression_type={self._compression!r} without names or types of columns",
                    "column_names and column_defaults",
                    "make_csv_dataset(..., column_names=[...], column_defaults=[...])",
                )
            )
        with contextlib.ExitStack() as stack:
            raw: Any = stack.enter_context(paths.open_bytes(name))
            if self._compression == "GZIP":
                raw = stack.enter_context(gzip.GzipFile(fileobj=raw))
            lines = stack.enter_context(io.TextIOWrapper(io.BufferedReader(raw), encoding="utf-8", newline=""))
            yield csv.reader(_whole_lines(lines, name, budgets.of_stream(self._compression or "")), **self._dialect)

    def column_names(self) -> list[str]:
        """The names in the header, which is the same in all files."""
        if not self._header:
            raise ValueError(
                "Cannot infer column names without a header line.\n"
                + errors.message("header=False without column_names", "names of the columns", "column_names=['a', 'b']")
            )
        first: list[str] | None = None
        for name in self._names:
            with self._rows_of(name) as rows:
                row = next(rows, None)
            if row is None:
                raise ValueError(
                    f"Received StopIteration when reading the header line of {name}.  Empty file?\n"
                    + errors.message(f"the empty file {name}", "files that begin with a header", "column_names=[...]")
                )
            if first is not None and row != first:
                raise ValueError(
                    "Files have different column names in the header row.\n"
                    + errors.message(
                        f"{row} in {name}, {first} in {self._names[0]}", "one header", "column_names=[...]"
                    )
                )
            first = row
        return first or []

    def column_types(self, count: int, wanted: Sequence[int], na_value: str, most: int | None) -> list[dtypes.DType]:
        """The types of columns ``wanted``, by the first ``most`` rows."""
        kinds: list[int] = [-1] * len(wanted)
        for name, row in itertools.islice(self._rows(), most):
            if len(row) != count:
                raise ValueError(
                    "Problem inferring types: CSV row has different number of fields than expected.\n"
                    + errors.message(
                        f"a row of {len(row)} fields in {name}: {row}", f"{count} fields", "column_defaults=[...]"
                    )
                )
            for i, column in enumerate(wanted):
                if row[column] not in ("", na_value):
                    kinds[i] = max(kinds[i], _kind(row[column]))
        return [_TYPES[kind] for kind in kinds]

    def _rows(self) -> Iterator[tuple[str, list[str]]]:
        for name in self._names:
            with self._rows_of(name) as rows:
                if self._header:
                    next(rows, None)
                for row in rows:
                    if self._comment is None or not (row and row[0].startswith(self._comment)):
                        yield name, row


def _whole_lines(file: Any, name: str, most: int) -> Iterator[str]:
    """The lines of a file, none of which may be longer than a budget."""
    while line := file.readline(min(most + 1, sys.maxsize)):
        if len(line) > most:
            raise budgets.exceeded(len(line), most, f"a line of the compressed file {name}")
        yield line


def _kind(value: str) -> int:
    """Which of ``_TYPES`` is the first that holds a value."""
    with contextlib.suppress(ValueError):
        number = int(value)
        for kind, bits in enumerate((31, 63)):
            if -(1 << bits) <= number < 1 << bits:
                return kind
    with contextlib.suppress(ValueError), np.errstate(over="ignore"):
        real = float(value)
        for kind, single in ((2, np.float32(real)), (3, np.float64(real))):
            if single < np.inf:
                return kind
    return len(_TYPES) - 1


def file_names(pattern: Any) -> list[str]:
    """Names of files that match a pattern or one of several, sorted; ValueError if there are none."""
    patterns = list(pattern) if isinstance(pattern, list | tuple) else [pattern]
    if not patterns:
        raise ValueError(
            "File pattern is empty.\n" + errors.message("file_pattern=[]", "one pattern at least", "'data/*.csv'")
        )
    names = [name for each in patterns for name in paths.matching(each.decode() if isinstance(each, bytes) else each)]
    if not names:
        raise ValueError(
            f"No files match {pattern}.\n"
            + errors.message(f"{pattern!r}", "names of files that exist", "tf.gfile.Glob")
        )
    return sorted(names)


def _columns_of(selected: Sequence[Any], names: Sequence[str]) -> list[int]:
    """Numbers of columns that are given by number or name, in order."""
    numbers = []
    for item in selected:
        if isinstance(item, int) and not 0 <= item < len(names):
            raise ValueError(
                f"Column index {item} specified in select_columns out of valid range.\n"
                + errors.message(f"column {item}", f"0 to {len(names) - 1}", "select_columns=[0]")
            )
        if not isinstance(item, int) and item not in names:
            raise ValueError(
                f"Value '{item}' specified in select_columns not a valid column index or name.\n"
                + errors.message(f"column {item!r}", f"one of {', '.join(names)}", "select_columns=[0]")
            )
        numbers.append(item if isinstance(item, int) else list(names).index(item))
    if len(set(numbers)) != len(numbers):
        raise ValueError(
            "select_columns contains duplicate columns\n"
            + errors.message(f"{list(selected)}", "each column once", f"select_columns={sorted(set(numbers))}")
        )
    return sorted(numbers)


def shuffled_and_repeated(
    dataset: Dataset, num_epochs: Any, shuffle: bool, shuffle_buffer_size: Any, shuffle_seed: Any
) -> Dataset:
    """The dataset ``num_epochs`` times over (without end if None), each pass in random order if ``shuffle``."""
    if num_epochs != 1 and shuffle:
        return dataset.apply(experimental.shuffle_and_repeat(shuffle_buffer_size, num_epochs, shuffle_seed))
    if shuffle:
        return dataset.shuffle(shuffle_buffer_size, shuffle_seed)
    return dataset.repeat(num_epochs) if num_epochs != 1 else dataset


@public("data.experimental.make_csv_dataset", "contrib.data.make_csv_dataset")
def make_csv_dataset(
    file_pattern: Any,
    batch_size: Any,
    column_names: Any = None,
    column_defaults: Any = None,
    label_name: Any = None,
    select_columns: Any = None,
    field_delim: str = ",",
    use_quote_delim: bool = True,
    na_value: str = "",
    header: bool = True,
    num_epochs: Any = None,
    shuffle: bool = True,
    shuffle_buffer_size: Any = 10000,
    shuffle_seed: Any = None,
    prefetch_buffer_size: Any = None,
    num_parallel_reads: Any = None,
    sloppy: bool = False,
    num_rows_for_inference: int | None = 100,
    compression_type: Any = None,
    ignore_errors: bool = False,
    comment: str | None = None,
    default_float_type: Any = None,
    num_parallel_parser_calls: int | None = None,
) -> Dataset:
    """Batches of the rows of CSV files: a dictionary from column to vector, and the label's vector if it is named.

    Args:
        file_pattern: names of files, with wildcards; one or a list.
        batch_size: rows of a batch.
        column_names: names of all columns; those in the header if None.
        column_defaults: for each column (of ``select_columns``) a default, or a dtype if it is required; worked out
            from the first rows if None.
        label_name: the column that is the label.
        select_columns: numbers or names of the columns that are read; all if None.
        field_delim: the character between fields.
        use_quote_delim: whether fields may stand in double quotes.
        na_value: a text that means the same as an empty field.
        header: whether files begin with a header.
        num_epochs: how often the files are gone through; without end if None.
        shuffle: whether rows come in random order.
        shuffle_buffer_size: how many rows are held to draw from.
        shuffle_seed: with it the order is TensorFlow's own.
        prefetch_buffer_size: batches that may be made ahead.
        num_parallel_reads: how many files give rows in turn; 1 if None.
        sloppy: taken; the order never varies.
        num_rows_for_inference: how many rows types are worked out from; all if None.
        compression_type: ``"GZIP"``, ``"ZLIB"`` or none.
        ignore_errors: whether rows that cannot be read are left out.
        comment: a character that begins lines which are left out; a record is a line then. (Of TensorFlow 1.5 to 1.8,
            like the arguments that follow.)
        default_float_type: the dtype of columns of real numbers whose types are worked out; by their size if None.
        num_parallel_parser_calls: taken; how many calls run at a time is chosen.
    """
    if comment is not None and len(comment) != 1:
        raise ValueError(
            "`comment` arg must be a single-character string or None\n"
            + errors.message(f"comment={comment!r}", "one character", "comment='#'")
        )
    files = file_names(file_pattern)
    dataset = Dataset.from_tensor_slices(files)
    if shuffle:
        dataset = dataset.shuffle(len(files), shuffle_seed)
    tables = _Tables(files, compression_type, field_delim, use_quote_delim, header, comment)
    names = list(tables.column_names() if column_names is None else column_names)
    if len(names) != len(set(names)):
        raise ValueError(
            "Cannot have duplicate column names.\n"
            + errors.message(f"columns {names}", "a name of its own for each column", "column_names=[...]")
        )
    wanted = None if select_columns is None else _columns_of(select_columns, names)
    if column_defaults is None:
        chosen = range(len(names)) if wanted is None else wanted
        types = tables.column_types(len(names), chosen, na_value, num_rows_for_inference)
        if default_float_type is not None:
            types = [dtypes.as_dtype(default_float_type) if dtype.is_floating else dtype for dtype in types]
        column_defaults = [constant([""] if dtype is dtypes.string else [0], dtype) for dtype in types]
    if wanted is not None and len(column_defaults) != len(wanted):
        raise ValueError(
            "If specified, column_defaults and select_columns must have same length.\n"
            + errors.message(
                f"{len(column_defaults)} defaults, {len(wanted)} columns",
                "one for each column",
                "column_defaults=[...]",
            )
        )
    if wanted is not None and len(names) > len(wanted):
        names = [names[i] for i in wanted]
    if label_name is not None and label_name not in names:
        raise ValueError(
            "`label_name` provided must be one of the columns.\n"
            + errors.message(f"label_name={label_name!r}", f"one of {', '.join(names)}", f"label_name={names[0]!r}")
        )
    defaults = [_default(item) for item in column_defaults]

    def without_comments(filename: Any) -> Dataset:
        lines: Dataset = TextLineDataset(filename, compression_type).skip(int(header))
        lines = lines.filter(
            lambda line: build("NotEqual", build("Substr", line, 0, 1), np.array((comment or "").encode(), object))
        )
        options: dict[str, Any] = {"field_delim": field_delim, "use_quote_delim": use_quote_delim, "na_value": na_value}
        return lines.map(lambda line: tuple(build("DecodeCSV", line, defaults, select_cols=wanted or [], **options)))

    def table(filename: Any) -> Dataset:
        if comment is not None:
            lines = without_comments(filename)
            return lines.apply(experimental.ignore_errors()) if ignore_errors else lines
        rows: Dataset = CsvDataset(
            filename,
            record_defaults=defaults,
            compression_type=compression_type,
            header=header,
            field_delim=field_delim,
            use_quote_delim=use_quote_delim,
            na_value=na_value,
            select_cols=wanted,
        )
        return rows.apply(experimental.ignore_errors()) if ignore_errors else rows

    def by_name(*columns: Any) -> Any:
        features = collections.OrderedDict(zip(names, columns, strict=True))
        if label_name is None:
            return features
        label = features.pop(label_name)
        return features, label

    dataset = dataset.interleave(table, 1 if num_parallel_reads is None else num_parallel_reads, 1)
    dataset = shuffled_and_repeated(dataset, num_epochs, shuffle, shuffle_buffer_size, shuffle_seed)
    dataset = dataset.batch(batch_size, drop_remainder=num_epochs is None).map(by_name)
    return dataset.prefetch(AUTOTUNE if prefetch_buffer_size is None else prefetch_buffer_size)
