"""``tf.python_io``: files of records, plain or compressed, and their options."""

from __future__ import annotations

import enum
import zlib
from collections.abc import Iterator
from typing import Any

from anabranch.core import errors, file_errors
from anabranch.core.contract import hooks
from anabranch.core.contract.api import public
from anabranch.formats.records import framed, read_records


@public("python_io.TFRecordCompressionType", "io.TFRecordCompressionType")
class TFRecordCompressionType(enum.IntEnum):
    """How a file of records is compressed."""

    NONE = 0
    ZLIB = 1
    GZIP = 2


_STRINGS = {0: "", 1: "ZLIB", 2: "GZIP"}
_FLUSH_MODES = (None, zlib.Z_NO_FLUSH, zlib.Z_PARTIAL_FLUSH, zlib.Z_SYNC_FLUSH, zlib.Z_FULL_FLUSH, zlib.Z_FINISH)


@public("python_io.TFRecordOptions", "io.TFRecordOptions")
class TFRecordOptions:
    """How records are compressed; the arguments after the first are zlib's, None for its defaults.

    Args:
        compression_type: ``"GZIP"``, ``"ZLIB"``, ``""``, None or a ``TFRecordCompressionType``.
        flush_mode: how much ``flush`` writes out: one of zlib's numbers, ``Z_SYNC_FLUSH`` if None.
        input_buffer_size: bytes that a reader asks of the file at once.
        output_buffer_size: compressed bytes that a writer gathers before it writes them.
        window_bits: logarithm of the size of the window, 9 to 15.
        compression_level: 0 to 9.
        compression_method: ``Z_DEFLATED``.
        mem_level: 1 to 9.
        compression_strategy: one of zlib's numbers.
    """

    compression_type_map = {TFRecordCompressionType(number): text for number, text in _STRINGS.items()}

    def __init__(
        self,
        compression_type: Any = None,
        flush_mode: int | None = None,
        input_buffer_size: int | None = None,
        output_buffer_size: int | None = None,
        window_bits: int | None = None,
        compression_level: int | None = None,
        compression_method: int | None = None,
        mem_level: int | None = None,
        compression_strategy: int | None = None,
    ) -> None:
        self.get_compression_type_string(compression_type)  # refuses what is none
        if flush_mode not in _FLUSH_MODES:
            raise ValueError(errors.message(f"flush_mode={flush_mode!r}", "one of zlib's flush modes", "leave it out"))
        self.compression_type = compression_type
        self.flush_mode = flush_mode
        self.input_buffer_size = input_buffer_size
        self.output_buffer_size = output_buffer_size
        self.window_bits = window_bits
        self.compression_level = compression_level
        self.compression_method = compression_method
        self.mem_level = mem_level
        self.compression_strategy = compression_strategy

    @classmethod
    def get_compression_type_string(cls, options: Any) -> str:
        """``""``, ``"ZLIB"`` or ``"GZIP"`` for options, a compression type or its name.

        Raises:
            ValueError: there is no such compression.
        """
        if not options and options != 0:
            return ""
        if isinstance(options, TFRecordOptions):
            return cls.get_compression_type_string(options.compression_type)
        if isinstance(options, int) and options in _STRINGS:
            return _STRINGS[options]
        text = options.decode() if isinstance(options, bytes) else options
        if text in _STRINGS.values():
            return text
        raise ValueError(
            f'Not a valid compression_type: "{options}"\n'
            + errors.message(f"compression {options!r}", "'GZIP', 'ZLIB' or ''", "tf.python_io.TFRecordOptions('GZIP')")
        )

    def _compressor(self) -> Any:
        kind = self.get_compression_type_string(self)
        if not kind:
            return None
        bits = zlib.MAX_WBITS if self.window_bits is None else abs(self.window_bits)
        if not 9 <= bits <= 15:
            raise ValueError(errors.message(f"window_bits={self.window_bits}", "a number from 9 to 15", "leave it out"))
        return zlib.compressobj(
            -1 if self.compression_level is None else self.compression_level,
            zlib.DEFLATED if self.compression_method is None else self.compression_method,
            bits + (16 if kind == "GZIP" else 0),
            zlib.DEF_MEM_LEVEL if self.mem_level is None else self.mem_level,
            zlib.Z_DEFAULT_STRATEGY if self.compression_strategy is None else self.compression_strategy,
        )


def _as_options(options: Any) -> TFRecordOptions:
    return options if isinstance(options, TFRecordOptions) else TFRecordOptions(options)


@public("python_io.TFRecordWriter", "io.TFRecordWriter")
class TFRecordWriter:
    """Write records to a new file; a context manager that closes it.

    Args:
        path: the file; an old one is overwritten.
        options: ``TFRecordOptions``, or a compression's name or number.

    Example:
        >>> import os, tempfile
        >>> import anabranch as tf
        >>> path = os.path.join(tempfile.mkdtemp(), "data.tfrecord")
        >>> with tf.python_io.TFRecordWriter(path) as writer:
        ...     writer.write(b"one")
        ...     writer.write(b"two")
        >>> list(tf.python_io.tf_record_iterator(path))
        [b'one', b'two']
    """

    def __init__(self, path: Any, options: Any = None) -> None:
        self._options = _as_options(options)
        self._path = file_errors.local(path)
        self._compressor = self._options._compressor()
        size = self._options.output_buffer_size or 256 * 1024
        try:
            self._file: Any = open(self._path, "wb", buffering=max(2, size))  # noqa: SIM115
        except (OSError, ValueError) as problem:
            raise file_errors.error_of(problem, self._path) from None

    def __enter__(self) -> TFRecordWriter:
        return self

    def __exit__(self, *error: Any) -> None:
        self.close()

    def write(self, record: Any) -> None:
        """Append one record, a string of bytes.

        Raises:
            TypeError: it is none. FailedPreconditionError: the writer is closed.
        """
        if not isinstance(record, (bytes, bytearray, memoryview)):
            if not isinstance(record, str):
                raise TypeError(
                    errors.message(
                        f"a record of type {type(record).__name__}",
                        "bytes",
                        "writer.write(example.SerializeToString())",
                    )
                )
            record = record.encode()
        data = framed(bytes(record))
        self._put(data if self._compressor is None else self._compressor.compress(data))

    def _put(self, data: bytes) -> None:
        if self._file is None:
            raise errors.FailedPreconditionError(
                None, None, f"Writer not initialized or previously closed: {self._path}"
            )
        try:
            self._file.write(data)
        except OSError as problem:
            raise file_errors.error_of(problem, self._path) from None

    def flush(self) -> None:
        """Write out what has been written so far."""
        if self._compressor is not None:
            mode = self._options.flush_mode
            mode = zlib.Z_SYNC_FLUSH if mode is None else mode
            if mode == zlib.Z_FINISH:
                self._put(self._compressor.flush())
                self._compressor = self._options._compressor()
            elif mode != zlib.Z_NO_FLUSH:
                self._put(self._compressor.flush(mode))
        self._put(b"")
        try:
            self._file.flush()
        except OSError as problem:
            raise file_errors.error_of(problem, self._path) from None

    def close(self) -> None:
        """Write out everything and close the file; a second call does nothing."""
        if self._file is None:
            return
        file, self._file = self._file, None
        try:
            try:
                if self._compressor is not None:
                    file.write(self._compressor.flush())
            finally:
                file.close()
        except OSError as problem:
            raise file_errors.error_of(problem, self._path) from None


@public("python_io.tf_record_iterator", "io.tf_record_iterator")
def tf_record_iterator(path: Any, options: Any = None) -> Iterator[bytes]:
    """The records of a file, in order.

    Args:
        path: the file.
        options: ``TFRecordOptions``, or a compression's name or number.

    Raises:
        NotFoundError: no such file. DataLossError: a record is cut off or damaged; the text names its offset.
    """
    options = _as_options(options)
    name = path.decode() if isinstance(path, bytes) else path
    kind = TFRecordOptions.get_compression_type_string(options)
    return read_records(name, kind, options.input_buffer_size or 0)


hooks.fill("compression_name", TFRecordOptions.get_compression_type_string)
hooks.fill("record_writer", TFRecordWriter)
