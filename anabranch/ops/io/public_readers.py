"""``tf.ReaderBase``, ``tf.TextLineReader``, ``tf.TFRecordReader`` and the other readers of files.

A reader object is the graph's side of a reader: it makes the ops; the place in the file is kept by the session's
resource manager (:mod:`anabranch.ops.io.reader_objects`) under the reader's name.
"""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.values import dtypes


@public("ReaderBase")
class ReaderBase:
    """Turns units of work from a queue (names of files, mostly) into records with a key and a value.

    Args:
        reader_ref: the tensor that is the reader's handle.
        supports_serialize: whether its state can be saved.
    """

    def __init__(self, reader_ref: Tensor, supports_serialize: bool = False) -> None:
        self._reader_ref = reader_ref
        self._supports_serialize = supports_serialize

    @property
    def reader_ref(self) -> Tensor:
        """The handle."""
        return self._reader_ref

    @property
    def supports_serialize(self) -> bool:
        """Whether its state can be saved."""
        return self._supports_serialize

    def _op(self, kind: str, *inputs: Any, name: str | None) -> Any:
        suffix = "V2" if self._reader_ref.dtype.base == dtypes.resource else ""
        return build(kind + suffix, self._reader_ref, *inputs, name=name)

    def _queue(self, queue: Any) -> Tensor:
        """The handle of a queue in the form that the reader's ops take."""
        handle = queue if isinstance(queue, Tensor) else getattr(queue, "queue_ref", None)
        if not isinstance(handle, Tensor):
            raise TypeError(
                errors.message(
                    f"{queue!r} as the queue of a reader",
                    "a queue of strings, or its handle",
                    "tf.train.string_input_producer(file_names)",
                )
            )
        if self._reader_ref.dtype.base != dtypes.resource and handle.dtype.base == dtypes.resource:
            return build("FakeQueue", handle)
        return handle

    def read(self, queue: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
        """The next record, read when the results are computed: two string scalars.

        Args:
            queue: queue of units of work, one of which is taken when the last one is over.
            name: name of the operation.

        Returns:
            Key and value. When it runs: OutOfRangeError if the queue is closed and has no unit left, NotFoundError if
            there is no file of a unit's name, DataLossError if a record is damaged.
        """
        key, value = self._op("ReaderRead", self._queue(queue), name=name)
        return key, value

    def read_up_to(self, queue: Any, num_records: Any, name: str | None = None) -> tuple[Tensor, Tensor]:
        """Up to ``num_records`` records, at least one: keys and values, two string vectors of one length.

        There may be fewer although more follow: the records of one call are of one unit of work.
        """
        keys, values = self._op("ReaderReadUpTo", self._queue(queue), num_records, name=name)
        return keys, values

    def num_records_produced(self, name: str | None = None) -> Tensor:
        """How many records it has given, an int64 scalar."""
        return self._op("ReaderNumRecordsProduced", name=name)

    def num_work_units_completed(self, name: str | None = None) -> Tensor:
        """How many units of work it has come to the end of, an int64 scalar."""
        return self._op("ReaderNumWorkUnitsCompleted", name=name)

    def serialize_state(self, name: str | None = None) -> Tensor:
        """Its state, a string scalar; UnimplementedError when it runs unless ``supports_serialize``."""
        return self._op("ReaderSerializeState", name=name)

    def restore_state(self, state: Any, name: str | None = None) -> Operation:
        """An operation that takes it back to a state that :meth:`serialize_state` gave."""
        return self._op("ReaderRestoreState", state, name=name)

    def reset(self, name: str | None = None) -> Operation:
        """An operation that takes it back to its start, without a unit of work."""
        return self._op("ReaderReset", name=name)


@public("WholeFileReader")
class WholeFileReader(ReaderBase):
    """A reader that gives each file as one record: the key is its name, the value its bytes.

    Args:
        name: name of the op.
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(build("WholeFileReaderV2", name=name), supports_serialize=True)


@public("TextLineReader")
class TextLineReader(ReaderBase):
    """A reader that gives the lines of text files, without their ends; the key is ``file:line``, from 1 on.

    Args:
        skip_header_lines: how many lines to leave out at the start of each file.
        name: name of the op.

    Example:
        >>> import os, tempfile
        >>> import anabranch as tf
        >>> path = os.path.join(tempfile.mkdtemp(), "colours.txt")
        >>> with open(path, "w") as file:
        ...     _ = file.write("red\\ngreen\\n")
        >>> queue = tf.FIFOQueue(10, tf.string, shapes=[()])
        >>> key, value = tf.TextLineReader().read(queue)
        >>> with tf.Session() as session:
        ...     session.run(queue.enqueue(path))
        ...     print(session.run(value), session.run(value))
        b'red' b'green'
    """

    def __init__(self, skip_header_lines: int | None = None, name: str | None = None) -> None:
        super().__init__(build("TextLineReaderV2", name=name, skip_header_lines=skip_header_lines or 0))


@public("FixedLengthRecordReader")
class FixedLengthRecordReader(ReaderBase):
    """A reader of files of records of one length; the key is ``file:number``, from 0 on.

    Args:
        record_bytes: length of a record.
        header_bytes: how many bytes to leave out at the start of each file.
        footer_bytes: how many bytes at the end are not part of records.
        hop_bytes: bytes from the start of a record to that of the next, ``record_bytes`` by default.
        name: name of the op.
        encoding: ``""``, ``"GZIP"`` or ``"ZLIB"``.
    """

    def __init__(
        self,
        record_bytes: int,
        header_bytes: int | None = None,
        footer_bytes: int | None = None,
        hop_bytes: int | None = None,
        name: str | None = None,
        encoding: str | None = None,
    ) -> None:
        handle = build(
            "FixedLengthRecordReaderV2",
            name=name,
            record_bytes=record_bytes,
            header_bytes=header_bytes or 0,
            footer_bytes=footer_bytes or 0,
            hop_bytes=hop_bytes or 0,
            encoding=encoding or "",
        )
        super().__init__(handle)


@public("TFRecordReader")
class TFRecordReader(ReaderBase):
    """A reader of TFRecord files; the key is ``file:offset``.

    Args:
        name: name of the op.
        options: ``tf.python_io.TFRecordOptions``, or a compression's name or number.
    """

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        super().__init__(build("TFRecordReaderV2", name=name, compression_type=hooks.compression_name(options)))


@public("LMDBReader")
class LMDBReader(ReaderBase):
    """A reader of LMDB databases (files, or folders with a ``data.mdb``): keys and values, in the order of the keys.

    It needs the package ``lmdb`` (``pip install anabranch[lmdb]``).

    Args:
        name: name of the op.
        options: not used.
    """

    def __init__(self, name: str | None = None, options: Any = None) -> None:
        super().__init__(build("LMDBReader", name=name))


@public("IdentityReader")
class IdentityReader(ReaderBase):
    """A reader that gives each unit of work as a record whose key and value it is.

    Args:
        name: name of the op.
    """

    def __init__(self, name: str | None = None) -> None:
        super().__init__(build("IdentityReaderV2", name=name), supports_serialize=True)
