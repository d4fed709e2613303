"""MNIST's IDX files: big-endian arrays of unsigned bytes, plain or gzipped.

Format: two zero bytes, a type byte (0x08 is uint8), the rank, then one big-endian uint32 per dimension, then the data.
"""

from __future__ import annotations

import gzip
import math
import os
import struct
import zlib
from pathlib import Path

import numpy as np

from anabranch.core import errors
from anabranch.core.values import budgets

FILES = {
    "train_images": "train-images-idx3-ubyte",
    "train_labels": "train-labels-idx1-ubyte",
    "test_images": "t10k-images-idx3-ubyte",
    "test_labels": "t10k-labels-idx1-ubyte",
}


def read_idx(path: str | os.PathLike[str]) -> np.ndarray:
    """Read one file.

    Raises:
        DataLossError: the file is no IDX file of bytes, or shorter or longer than its header says.
        ResourceExhaustedError: it expands to more than the budget for one input.
    """
    path = Path(path)
    opened = gzip.open if path.suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            limit = budgets.of_stream("GZIP" if path.suffix == ".gz" else "")
            data = file.read(-1 if limit == budgets.UNBOUNDED else limit + 1)
            if len(data) > limit:
                raise budgets.exceeded(len(data), limit, f"{path}, a compressed file")
    except (EOFError, gzip.BadGzipFile, zlib.error) as problem:
        raise _torn(path, f"a gzip stream that does not decompress ({problem})") from problem
    if len(data) < 4 or data[:3] != b"\0\0\x08":
        raise _torn(path, f"a file that starts with {data[:4].hex() or 'nothing'}")
    rank = data[3]
    start = 4 + 4 * rank
    if len(data) < start:
        raise _torn(path, f"{len(data)} bytes, less than its header")
    shape = struct.unpack(f">{rank}I", data[4:start])
    size = math.prod(shape)
    if len(data) - start != size:
        raise _torn(path, f"{len(data) - start} bytes of data for shape {shape}")
    return np.frombuffer(data, np.uint8, size, start).reshape(shape)


def _torn(path: Path, given: str) -> errors.DataLossError:
    return errors.DataLossError(
        None, None, errors.message(f"{path}: {given}", "an IDX file of unsigned bytes", "copy the file again")
    )


def read_folder(folder: str | os.PathLike[str]) -> dict[str, np.ndarray]:
    """Read the four files of an MNIST-like data set; each may be gzipped.

    Raises:
        FileNotFoundError: one is missing; the message lists all four names.
    """
    arrays = {}
    for name, file in FILES.items():
        path = next((p for p in (Path(folder) / file, Path(folder) / f"{file}.gz") if p.exists()), None)
        if path is None:
            raise FileNotFoundError(
                errors.message(
                    f"no {file}(.gz) in {folder}",
                    f"a folder with {', '.join(FILES.values())}",
                    "put the four files there, gzipped or not, or name the folder that has them",
                )
            )
        arrays[name] = read_idx(path)
    for part in ("train", "test"):
        images, labels = arrays[f"{part}_images"], arrays[f"{part}_labels"]
        if images.ndim != 3 or labels.ndim != 1 or len(images) != len(labels):
            raise errors.DataLossError(
                None,
                None,
                errors.message(
                    f"{part} images of shape {images.shape} with labels of shape {labels.shape} in {folder}",
                    "[n, height, width] and [n]",
                    "check that the files belong together",
                ),
            )
    return arrays
