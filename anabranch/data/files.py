"""Datasets of lines, records and rows that stand in files, as classes; and the writer of a dataset to a file."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.values import dtypes
from anabranch.core.values.shapes import TensorShape
from anabranch.data import nest, structure
from anabranch.data.dataset import Dataset, number
from anabranch.data.structure import TensorComponent

BUFFER = 256 * 1024
"""Bytes that are asked of a file if a program does not say."""
_STRING = TensorComponent(dtypes.string, TensorShape([]))


def text(value: Any, name: str) -> Tensor:
    """An operand of a stage as a string scalar; empty for None."""
    return convert_to_tensor("" if value is None else value, dtypes.string, name=name)


def size(value: Any, name: str, default: int) -> Tensor:
    """An operand of a stage as an int64 scalar."""
    return number(default if value is None else value, name)


def _of_files(filenames: Any, read: Callable[[Any], Dataset], parallel: Any) -> Dataset:
    """The elements of files: of all in a row, or of ``parallel`` of them in turn."""
    if isinstance(filenames, Dataset):
        component = filenames._spec
        if not (isinstance(component, TensorComponent) and component.dtype is dtypes.string):
            raise TypeError(
                "`filenames` must be a `tf.data.Dataset` of `tf.string` elements.\n"
                + errors.message(
                    f"a dataset of {component!r}", "a dataset of names of files", "Dataset.list_files(...)"
                )
            )
        if component.shape.ndims != 0:
            raise TypeError(
                "`filenames` must be a `tf.data.Dataset` of scalar `tf.string` elements.\n"
                + errors.message(f"elements of shape {component.shape}", "scalars", "filenames.unbatch()")
            )
        names = filenames
    else:
        tensor = convert_to_tensor(filenames, dtypes.string, name="filenames")
        if parallel is None:
            return read(tensor)
        names = Dataset.from_tensor_slices(build("Reshape", tensor, [-1]))
    if parallel is None:
        return names.flat_map(read)
    return names.interleave(read, cycle_length=parallel, block_length=1)


class _FileDataset(Dataset):
    """A dataset that is what another one is."""

    def __init__(self, dataset: Dataset) -> None:
        super().__init__(dataset._variant_tensor, dataset._spec, tuple(dataset._inputs()))


@public("data.TextLineDataset", "contrib.data.TextLineDataset")
class TextLineDataset(_FileDataset):
    """The lines of text files, string scalars without their ends.

    Args:
        filenames: one name, several in a list or tensor, or a dataset of names.
        compression_type: ``"GZIP"``, ``"ZLIB"`` or none.
        buffer_size: bytes that are asked of a file.
        num_parallel_reads: how many files give lines in turn; if None, one file comes after the other.

    Example:
        >>> import os, tempfile
        >>> import anabranch as tf
        >>> path = os.path.join(tempfile.mkdtemp(), "lines.txt")
        >>> with open(path, "w") as file:
        ...     _ = file.write("one\\ntwo\\n")
        >>> lines = tf.data.TextLineDataset(path).batch(2)
        >>> with tf.Session() as session:
        ...     session.run(lines.make_one_shot_iterator().get_next()).tolist()
        [b'one', b'two']
    """

    def __init__(
        self, filenames: Any, compression_type: Any = None, buffer_size: Any = None, num_parallel_reads: Any = None
    ) -> None:
        operands = text(compression_type, "compression_type"), size(buffer_size, "buffer_size", BUFFER)
        super().__init__(
            _of_files(
                filenames,
                lambda names: Dataset(build("TextLineDataset", names, *operands), _STRING),
                num_parallel_reads,
            )
        )


@public("data.TFRecordDataset", "contrib.data.TFRecordDataset")
class TFRecordDataset(_FileDataset):
    """The records of TFRecord files, string scalars.

    Args:
        filenames: one name, several in a list or tensor, or a dataset of names.
        compression_type: ``"GZIP"``, ``"ZLIB"`` or none.
        buffer_size: bytes that are asked of a file.
        num_parallel_reads: how many files give records in turn; if None, one file comes after the other.
    """

    def __init__(
        self, filenames: Any, compression_type: Any = None, buffer_size: Any = None, num_parallel_reads: Any = None
    ) -> None:
        operands = text(compression_type, "compression_type"), size(buffer_size, "buffer_size", BUFFER)
        super().__init__(
            _of_files(
                filenames,
                lambda names: Dataset(build("TFRecordDataset", names, *operands), _STRING),
                num_parallel_reads,
            )
        )


@public("contrib.data.LMDBDataset")
class LMDBDataset(Dataset):
    """Keys and values of LMDB databases (files, or folders with a ``data.mdb``), each in the order of its keys.

    It needs the package ``lmdb`` (``pip install anabranch[lmdb]``).

    Args:
        filenames: one name, or several in a list or tensor.
    """

    def __init__(self, filenames: Any) -> None:
        names = convert_to_tensor(filenames, dtypes.string, name="filenames")
        spec = (_STRING, _STRING)
        super().__init__(build("LMDBDataset", build("Reshape", names, [-1]), **structure.attrs_of(spec)), spec)


@public("data.FixedLengthRecordDataset", "contrib.data.FixedLengthRecordDataset")
class FixedLengthRecordDataset(_FileDataset):
    """Records of one length from binary files, string scalars.

    Args:
        filenames: one name, several in a list or tensor, or a dataset of names.
        record_bytes: bytes of a record.
        header_bytes: bytes before the first record of a file.
        footer_bytes: bytes behind its last.
        buffer_size: bytes that are asked of a file.
        compression_type: ``"GZIP"``, ``"ZLIB"`` or none.
        num_parallel_reads: how many files give records in turn; if None, one file comes after the other.
    """

    def __init__(
        self,
        filenames: Any,
        record_bytes: Any,
        header_bytes: Any = None,
        footer_bytes: Any = None,
        buffer_size: Any = None,
        compression_type: Any = None,
        num_parallel_reads: Any = None,
    ) -> None:
        operands = (
            size(header_bytes, "header_bytes", 0),
            number(record_bytes, "record_bytes"),
            size(footer_bytes, "footer_bytes", 0),
            size(buffer_size, "buffer_size", BUFFER),
        )
        if compression_type is None:
            kind = "FixedLengthRecordDataset"
        else:
            kind = "FixedLengthRecordDatasetV2"
            operands = (*operands, text(compression_type, "compression_type"))  # type: ignore[assignment]
        super().__init__(
            _of_files(filenames, lambda names: Dataset(build(kind, names, *operands), _STRING), num_parallel_reads)
        )


@public("data.experimental.SqlDataset", "contrib.data.SqlDataset")
class SqlDataset(Dataset):
    """The rows that a database answers to a query, a tuple of scalars for each.

    Args:
        driver_name: ``"sqlite"``.
        data_source_name: path of the database.
        query: the query in SQL.
        output_types: a tuple of dtypes, one for each column: string, bool, float64, int8 to int64, uint8, uint16.
    """

    def __init__(self, driver_name: Any, data_source_name: Any, query: Any, output_types: Any) -> None:
        spec = nest.map_structure(lambda dtype: TensorComponent(dtypes.as_dtype(dtype), TensorShape([])), output_types)
        operands = text(driver_name, "driver_name"), text(data_source_name, "data_source_name"), text(query, "query")
        super().__init__(build("SqlDataset", *operands, **structure.attrs_of(spec)), spec)


@public("data.experimental.TFRecordWriter", "contrib.data.TFRecordWriter")
class TFRecordWriter:
    """Write a dataset of string scalars to a TFRecord file, in a step.

    Args:
        filename: the file, which is overwritten.
        compression_type: ``"GZIP"``, ``"ZLIB"`` or none.

    Example:
        >>> import os, tempfile
        >>> import anabranch as tf
        >>> path = os.path.join(tempfile.mkdtemp(), "data.tfrecord")
        >>> write = tf.data.experimental.TFRecordWriter(path).write(tf.data.Dataset.from_tensor_slices(["a", "b"]))
        >>> with tf.Session() as session:
        ...     session.run(write)
        >>> list(tf.python_io.tf_record_iterator(path))
        [b'a', b'b']
    """

    def __init__(self, filename: Any, compression_type: Any = None) -> None:
        self._filename = text(filename, "filename")
        self._compression_type = text(compression_type, "compression_type")

    def write(self, dataset: Dataset) -> Operation:
        """An operation that writes the elements of a dataset."""
        if not isinstance(dataset, Dataset):
            raise TypeError(
                "`dataset` must be a `tf.data.Dataset` object.\n"
                + errors.message(type(dataset).__name__, "a dataset", "tf.data.Dataset.from_tensor_slices(strings)")
            )
        if not structure.is_compatible(dataset._spec, _STRING):
            raise TypeError(
                "`dataset` must produce scalar `DT_STRING` tensors whereas it produces shape "
                f"{dataset.output_shapes} and types {dataset.output_types}\n"
                + errors.message(f"{dataset!r}", "string scalars", "dataset.map(tf.serialize_tensor)")
            )
        operation: Operation = build(
            "DatasetToTFRecord", dataset._variant_tensor, self._filename, self._compression_type
        )
        return operation
