"""``tf.contrib.learn.datasets.base``: tables of numbers from CSV files, and files of data that lie in a folder."""

from __future__ import annotations

import collections
import csv
import os
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.platform import gfile

Dataset = collections.namedtuple("Dataset", ["data", "target"])
Datasets = collections.namedtuple("Datasets", ["train", "validation", "test"])


def load_csv_with_header(filename: str, target_dtype: Any, features_dtype: Any, target_column: int = -1) -> Dataset:
    """A table whose first line begins with the numbers of its rows and of its features.

    Args:
        filename: CSV file.
        target_dtype: dtype of the target.
        features_dtype: dtype of the features.
        target_column: which column is the target.

    Returns:
        ``data`` ``[rows, features]`` and ``target`` ``[rows]``.

    Raises:
        ValueError: there are other rows or features than the first line says.
    """
    header, *rows = _rows_of(filename)
    size, width = int(header[0]), int(header[1])
    table = _table(filename, rows, target_dtype, features_dtype, target_column)
    if table.data.shape != (size, width):
        raise ValueError(
            errors.message(
                f"{table.data.shape[0]} rows of {table.data.shape[1]} features in {filename}",
                f"what its first line says: {size} rows of {width} features",
                "load_csv_without_header(filename, target_dtype, features_dtype) for a table without such a line",
            )
        )
    return table


def load_csv_without_header(filename: str, target_dtype: Any, features_dtype: Any, target_column: int = -1) -> Dataset:
    """A table each line of which is a row.

    Args:
        filename: CSV file.
        target_dtype: dtype of the target.
        features_dtype: dtype of the features.
        target_column: which column is the target.

    Returns:
        ``data`` ``[rows, features]`` and ``target`` ``[rows]``.
    """
    return _table(filename, list(_rows_of(filename)), target_dtype, features_dtype, target_column)


def maybe_download(filename: str, work_directory: str, source_url: str) -> str:
    """The path of a file of a folder. Nothing is downloaded.

    Raises:
        NotFoundError: the file is not there.
    """
    path = os.path.join(work_directory, filename)
    if not gfile.Exists(path):
        raise errors.NotFoundError(
            None, None, errors.message(path, "a file that is there: nothing is downloaded", f"save {source_url} there")
        )
    return path


def _rows_of(filename: str) -> list[list[str]]:
    with gfile.Open(filename) as file:
        return list(csv.reader(file))


def _table(filename: str, rows: list[list[str]], target_dtype: Any, features_dtype: Any, target_column: int) -> Dataset:
    target = [row.pop(target_column) for row in rows]
    widths = {len(row) for row in rows}
    if len(widths) > 1:
        raise ValueError(
            errors.message(f"rows of {sorted(widths)} features in {filename}", "rows of one length", "np.genfromtxt")
        )
    data = np.array([np.asarray(row, features_dtype) for row in rows]).reshape(len(rows), *widths)
    return Dataset(data=data, target=np.array(target, target_dtype))
