"""Datasets of what stands in files: lines, TFRecords, records of one length.

A stage has a list of files and reads one after the other. A *reader* (:class:`FileReader`) has one open and gives its
items a memory buffer at a time, so that a batch costs little more than the cutting of bytes.

What is wrong is said once, at its place in the sequence, and the iterator goes on behind it when it is asked again
(which ``ignore_errors`` does): behind the one record whose bytes do not fit their checksum; with the next file, if it
cannot be opened or nobody knows where its next record starts. (TensorFlow gives up the rest of a file in both cases.)

A saved place is the number of a file and how many items of it have been given; restoring reads up to there.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from collections.abc import Sequence
from typing import Any, ClassVar, NoReturn

import numpy as np

from anabranch.core import errors, interrupts, paths
from anabranch.core.contract import hooks
from anabranch.core.values import budgets, dtypes
from anabranch.ops.data.elements.stacks import Element
from anabranch.ops.data.pipeline import ELEMENTS, METADATA, Dataset, Iterator, number, stage
from anabranch.ops.io.lmdb_databases import LMDBEntries

CHUNK = 1 << 18
"""Bytes that are asked of a file."""


def with_op(problem: errors.OpError, op: Any, expected: str = "", instead: str = "") -> errors.OpError:
    """The error of a reader as that of a stage, with what is expected and what to write."""
    if problem.op is not None:
        return problem
    text = problem.message
    if "\nInstead: " not in text and not text.startswith("Given: "):
        text += "\n" + errors.message(text, expected, instead)
    kind: Any = type(problem)
    return kind(None, op, text)  # type: ignore[no-any-return]


def scalar_of(item: bytes) -> np.ndarray:
    """A string scalar."""
    array = np.empty((), object)
    array[()] = item
    return array


def vector_of(items: Sequence[bytes]) -> np.ndarray:
    """A string vector."""
    array = np.empty(len(items), object)
    array[:] = items
    return array


def strings(ctx: Any, value: Any, name: str) -> list[bytes]:
    """A scalar or vector of strings as a list."""
    ctx.check(np.ndim(value) <= 1, errors.InvalidArgumentError, f"`{name}` must be a scalar or a vector.")
    return [item.encode() if isinstance(item, str) else item for item in np.ravel(np.asarray(value, object)).tolist()]


def text(ctx: Any, value: Any, name: str) -> str:
    """A string scalar."""
    ctx.check(np.ndim(value) == 0, errors.InvalidArgumentError, f"`{name}` must be a scalar")
    item = np.asarray(value, object).item()
    return item.decode() if isinstance(item, bytes) else str(item)


# ------------------------------------------------------------------------------------------------------------- readers
class FileReader:
    """One file, open: ``read(size)`` gives its (inflated) bytes, none at the end."""

    def __init__(self, path: str, compression: str, buffer_size: int) -> None:
        self.path = path
        self.read, self.close = hooks.open_bytes(path, compression, buffer_size)

    def items(self) -> list[bytes]:
        """The next items, as many as are at hand; an empty list at the end.

        Raises:
            OpError: the first of them cannot be read.
        """
        raise NotImplementedError

    def pass_over(self) -> bool:
        """Go behind what could not be read; False if that cannot be done."""
        return False


class LineReader(FileReader):
    """Lines without their ends; carriage returns are dropped, as in TensorFlow."""

    def __init__(self, path: str, compression: str, buffer_size: int) -> None:
        super().__init__(path, compression, buffer_size)
        self._rest: list[bytes] = []
        self._most = budgets.of_stream(compression)

    def block(self) -> bytes | None:
        """The next whole lines as they stand in the file, without the last one's line feed; None at the end.

        What follows the last line feed of the file is a line if it is not empty.
        """
        rest = self._rest
        there = sum(map(len, rest))
        while part := self.read(CHUNK):
            end = part.rfind(b"\n")
            if end < 0:
                rest.append(part)
                there += len(part)
                if there > self._most:
                    rest.clear()
                    raise budgets.exceeded(there, self._most, f"a line of the compressed file {self.path}")
                continue
            lines = b"".join([*rest, part[:end]])
            rest[:] = [part[end + 1 :]]
            return lines
        last = b"".join(rest)
        rest.clear()
        return last or None

    def items(self) -> list[bytes]:
        lines = self.block()
        if lines is None:
            return []
        if b"\r" in lines:
            at_end = lines == b"\r" and not self._rest
            lines = lines.replace(b"\r", b"")
            if at_end:
                return []
        return lines.split(b"\n")


class RecordReader(FileReader):
    """TFRecords."""

    def __init__(self, path: str, compression: str, buffer_size: int) -> None:
        super().__init__(path, compression, buffer_size)
        self._stream = hooks.record_stream(self.read, path, False, budgets.of_stream(compression))

    def items(self) -> list[bytes]:
        records: list[bytes] = self._stream.next_of_buffer()
        return records

    def pass_over(self) -> bool:
        passed: bool = self._stream.pass_over()
        return passed


class FixedReader(FileReader):
    """Records of one length between a header and a footer."""

    def __init__(self, path: str, compression: str, buffer_size: int, sizes: tuple[int, int, int]) -> None:
        header, self._size, self._footer = sizes
        whole = None if compression else paths.size_of(path)
        if whole is not None and (whole < header + self._footer or (whole - header - self._footer) % self._size):
            raise errors.InvalidArgumentError(
                None,
                None,
                f'Excluding the header ({header} bytes) and footer ({self._footer} bytes), input file "{path}" has '
                f"body length {whole - header - self._footer} bytes, which is not an exact multiple of the record "
                f"length ({self._size} bytes).",
            )
        super().__init__(path, compression, buffer_size)
        self._data = b""
        self._skipped = header
        self._offset = 0

    def items(self) -> list[bytes]:
        size, wanted = self._size, self._skipped + self._size + self._footer
        parts, there = [self._data], len(self._data)
        while there < wanted:
            part = self.read(max(CHUNK, wanted - there))
            if not part:
                break
            parts.append(part)
            there += len(part)
        data = b"".join(parts)
        count = max(0, there - self._skipped - self._footer) // size
        if not count:
            self._end(there)
            return []
        start = self._skipped
        end = start + count * size
        self._data, self._skipped = data[end:], 0
        self._offset += end
        return [data[i : i + size] for i in range(start, end, size)]

    def _end(self, there: int) -> None:
        if there != self._skipped + self._footer:
            self._data = b""
            self._skipped = self._footer = 0
            raise errors.DataLossError(
                None, None, f"{self.path}: {there} bytes at offset {self._offset} are not a whole record and footer"
            )


# --------------------------------------------------------------------------------------------------------------- stages
class FileIterator(Iterator):
    """The items of files, one file after the other."""

    fields = ("file", "number")

    def start(self) -> None:
        self.file = 0
        self.number = 0
        """How many items of the file have been given, or passed over."""
        self.reader: FileReader | None = None
        self.steady = False
        """Whether it is a file, of which one reads without waiting for anybody, and no pipe."""
        self._close_file: Any = None
        self.ahead: list[bytes] = []
        """Items that have been read."""
        self.at = 0
        """Which of these is the next."""

    def more(self) -> bool:
        """Have at least one item; False at the end of the last file."""
        while self.at >= len(self.ahead):
            if self.reader is None:
                if self.file >= len(self.dataset.files):
                    return False
                self._open()
            assert self.reader is not None
            try:
                with self._undisturbed():
                    self.ahead, self.at = self.reader.items(), 0
            except errors.OpError as problem:
                self.ahead, self.at = [], 0
                if self.reader.pass_over():
                    self.number += 1
                else:
                    self._next_file()
                self._fail(problem)
            if not self.ahead:
                self._next_file()
        return True

    def _open(self) -> None:
        self.context.pipeline.current_token.raise_if_cancelled(self.dataset.op)
        try:
            path = os.fsdecode(self.dataset.files[self.file])
            self.steady = os.path.isfile(path)
            with self._undisturbed():
                self.reader = reader = self.dataset.reader(path)
                self._close_file = weakref.finalize(self, reader.close)  # also of an iterator that is dropped
        except errors.OpError as problem:
            self._next_file()
            self._fail(problem)

    def _undisturbed(self) -> Any:
        """What surrounds reads that an interrupt waits for: those of files, as a pipe may make one wait for long."""
        return interrupts.held() if self.steady else contextlib.nullcontext()

    def _next_file(self) -> None:
        with interrupts.held():
            self._drop_reader()
            self.ahead, self.at = [], 0
            self.file += 1
            self.number = 0

    def _fail(self, problem: errors.OpError) -> NoReturn:
        raise with_op(problem, self.dataset.op, self.dataset.expected, self.dataset.instead) from None

    def pop(self, count: int) -> list[bytes]:
        """The next items of the file in memory, at most ``count``; there must be some."""
        items = self.ahead[self.at : self.at + count]
        self.at += len(items)
        self.number += len(items)
        return items

    def next(self) -> Element | None:
        if self.at >= len(self.ahead) and not self.more():
            return None
        item = self.ahead[self.at]
        self.at += 1
        self.number += 1
        return (scalar_of(item),)

    def take(self, count: int, before: list[Element] | None = None) -> Sequence[Any] | None:
        items: list[bytes] = []
        try:
            while len(items) < count and self.more():
                items += self.pop(count - len(items))
        except errors.OpError:
            if before is not None:
                before += [(scalar_of(item),) for item in items]
            raise
        return [vector_of(items)] if items else None

    def gather(self, count: int, into: list[Element] | None = None) -> list[Element]:
        elements: list[Element] = [] if into is None else into
        end = len(elements) + count
        while len(elements) < end and self.more():
            elements += [(scalar_of(item),) for item in self.pop(end - len(elements))]
        return elements

    def restore(self, state: dict[str, Any]) -> None:
        self.close()
        self.start()
        super().restore({**state, "number": 0})
        while self.number < state["number"]:
            file = self.file
            try:
                there = self.more()
            except errors.OpError:
                there = True  # it was passed over
            if not there or self.file != file:
                raise errors.DataLossError(
                    None,
                    self.dataset.op,
                    errors.message(
                        f"the place behind item {state['number']} of {os.fsdecode(self.dataset.files[file])}, which "
                        "has fewer",
                        "the files as they were when the place was saved",
                        "session.run(iterator.initializer) to begin anew",
                    ),
                )
            self.pop(min(len(self.ahead) - self.at, state["number"] - self.number))

    def close(self) -> None:
        super().close()
        self._drop_reader()

    def _drop_reader(self) -> None:
        if self.reader is not None:
            self._close_file()
            self.reader = None


class FileDataset(Dataset):
    """A stage that reads files."""

    iterator = FileIterator
    files: list[bytes]
    expected: ClassVar[str] = "files that are there and whole"
    """What to say of a file that cannot be read."""
    instead: ClassVar[str] = "tf.gfile.Exists(name), or dataset.apply(tf.data.experimental.ignore_errors())"

    def compressed(self, ctx: Any, operands: dict[str, Any]) -> None:
        """Keep names of files, compression and the size of the buffer."""
        self.files = strings(ctx, operands["filenames"], "filenames")
        self.compression = text(ctx, operands.get("compression_type", b""), "compression_type")
        if self.compression not in ("", "ZLIB", "GZIP"):
            raise errors.InvalidArgumentError(
                None,
                self.op,
                f"Unsupported compression_type: {self.compression}.\n"
                + errors.message(
                    f"compression_type={self.compression!r}", "'GZIP', 'ZLIB' or none", "compression_type='GZIP'"
                ),
            )
        self.buffer_size = number(ctx, operands["buffer_size"], "buffer_size", 0)

    def reader(self, path: str) -> FileReader:
        """Open a file."""
        raise NotImplementedError


_FILES = "filenames: string, compression_type: string, buffer_size: int64"


class _Strings(FileDataset):
    """A stage whose elements are string scalars."""

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.types, self.shapes = (dtypes.string,), ((),)
        self.compressed(ctx, operands)


@stage("TextLineDataset", _FILES, METADATA)
class TextLines(_Strings):
    """The lines of files, without their ends."""

    def reader(self, path: str) -> FileReader:
        return LineReader(path, self.compression, self.buffer_size)


@stage("TFRecordDatasetV2", f"{_FILES}, byte_offsets: int64", METADATA)
@stage("TFRecordDataset", _FILES, METADATA)
class TFRecords(_Strings):
    """The records of TFRecord files; ``byte_offsets`` (one for each file, or none) say where in a file to begin."""

    expected = "whole TFRecord files"

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        super().configure(ctx, attrs, **operands)
        offsets = [int(offset) for offset in np.ravel(operands.get("byte_offsets", ()))]
        ctx.check(
            len(offsets) in (0, len(self.files)),
            errors.InvalidArgumentError,
            "filenames and byte_offsets must have the same number of elements",
        )
        self.offsets = dict(zip(self.files, offsets, strict=False))

    def reader(self, path: str) -> FileReader:
        reader = RecordReader(path, self.compression, self.buffer_size)
        missing = self.offsets.get(os.fsencode(path), 0)
        while missing > 0 and (part := reader.read(min(missing, CHUNK))):
            missing -= len(part)
        return reader


_SIZES = "filenames: string, header_bytes: int64, record_bytes: int64, footer_bytes: int64, buffer_size: int64"


@stage("FixedLengthRecordDatasetV2", f"{_SIZES}, compression_type: string", METADATA)
@stage("FixedLengthRecordDataset", _SIZES, METADATA)
class FixedLengthRecords(_Strings):
    """Records of ``record_bytes`` from files, between a header and a footer of each."""

    expected = "files of a header, whole records and a footer"
    instead = "tf.data.FixedLengthRecordDataset(filenames, record_bytes, header_bytes, footer_bytes)"

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        super().configure(ctx, attrs, **operands)
        least = {"header_bytes": 0, "record_bytes": 1, "footer_bytes": 0}
        header, record, footer = (number(ctx, operands[name], name, at_least) for name, at_least in least.items())
        self.sizes = header, record, footer

    def reader(self, path: str) -> FileReader:
        return FixedReader(path, self.compression, self.buffer_size, self.sizes)


class _Entries(Iterator):
    fields = ("file", "number")

    def start(self) -> None:
        self.file = 0
        self.number = 0
        """How many entries of the file have been given."""
        self._database: LMDBEntries | None = None

    def next(self) -> Element | None:
        while self.file < len(self.dataset.files):
            try:
                if self._database is None:
                    self._database = LMDBEntries(self.dataset.files[self.file], self.dataset.op)
                    for _ in range(self.number):
                        self._database.next()
                entry = self._database.next()
            except errors.OpError:
                self._next_file()
                raise
            if entry is not None:
                self.number += 1
                return scalar_of(entry[0]), scalar_of(entry[1])
            self._next_file()
        return None

    def _next_file(self) -> None:
        self.close()
        self.file += 1
        self.number = 0

    def restore(self, state: dict[str, Any]) -> None:
        self.close()
        super().restore(state)

    def close(self) -> None:
        database, self._database = self._database, None
        if database is not None:
            database.close()
        super().close()


@stage("LMDBDataset", "filenames: string", ELEMENTS)
@stage("ExperimentalLMDBDataset", "filenames: string", ELEMENTS)
class LMDB(Dataset):
    """Keys and values of LMDB databases, each in the order of its keys."""

    iterator = _Entries

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.files = strings(ctx, operands["filenames"], "filenames")


class _Names(Iterator):
    fields = ("position",)

    def start(self) -> None:
        self.position = 0
        self._names: list[bytes] | None = None

    def next(self) -> Element | None:
        if self._names is None:
            try:
                patterns = map(os.fsdecode, self.dataset.files)
                self._names = sorted({os.fsencode(name) for each in patterns for name in paths.matching(each)})
            except errors.OpError as problem:
                raise with_op(problem, self.dataset.op) from None
        if self.position >= len(self._names):
            return None
        self.position += 1
        return (scalar_of(self._names[self.position - 1]),)


@stage("ExperimentalMatchingFilesDataset", "patterns: string", {})
@stage("MatchingFilesDataset", "patterns: string", {})
class MatchingFiles(Dataset):
    """Names of files that match patterns, sorted."""

    iterator = _Names

    def configure(self, ctx: Any, attrs: dict[str, Any], **operands: Any) -> None:
        self.types, self.shapes = (dtypes.string,), ((),)
        self.files = strings(ctx, operands["patterns"], "patterns")
