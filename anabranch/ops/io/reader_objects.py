"""Readers: the objects behind the handles of ``TextLineReader`` and its kin, which turn units of work into records.

Rules, which are TensorFlow's. A reader takes a unit (the name of a file, mostly) from a queue when it needs one and
gives its records one by one; one call at a time has its turn, the others wait. A unit that cannot be started (there is
no such file) is lost with the error that says why, and the next call takes the next unit; a record that cannot be read
is not passed over: asked again, the reader says so again. A call for many records ends with the unit that gave it some,
so it may give fewer. A unit is complete when its end has been seen, which for a file of many records is one call after
the last of them. What a call has read before it met a damaged record, it returns; the next call meets the record.

An interrupt waits until a record of a regular file has been read and counted, and a unit that was taken from the queue
when one came is begun by the next call. A record that has been read when its call is interrupted is gone, like an
element that was taken from a queue.

State that can be saved (``serialize``) belongs to the readers that hold no place within a unit.
"""

from __future__ import annotations

import contextlib
import itertools
import operator
import os
import stat
import threading
from collections.abc import Callable, Iterator
from typing import Any

from google.protobuf.message import DecodeError

from anabranch.core import conditions, errors, interrupts
from anabranch.core.cancellation import CancellationToken
from anabranch.core.contract import hooks
from anabranch.core.file_errors import translated
from anabranch.core.protos import reader_pb2
from anabranch.core.values import budgets
from anabranch.ops.io.lmdb_databases import LMDBEntries

Record = tuple[bytes, bytes]
_BUFFER = 1 << 18


class Reader:
    """A reader; subclasses say how a unit is opened and what its records are."""

    kind = "Reader"

    def __init__(self, name: str, attrs: dict[str, Any]) -> None:
        self.name = name
        self.records_produced = 0
        self._started = 0
        self.units_completed = 0
        self._unit = b""
        self._changed = conditions.Condition()
        self._turns = conditions.Turns()
        self._gone = False
        self._waiting: list[bytes] = []
        """A unit that was taken from the queue, and could not be begun as an interrupt came."""
        self._steady = False
        """Whether the unit in progress is read without waiting for anybody: not a pipe."""
        self._prepare(attrs)

    # -- what a kind of reader says -----------------------------------------------------------------------------------
    def _prepare(self, attrs: dict[str, Any]) -> None:
        """Take over the attributes of the op that made the reader."""

    def _open(self, unit: bytes, op: Any) -> None:
        """Start a unit; an error leaves the reader without one."""

    def _next(self, op: Any) -> Record | None:
        """The next record of the unit, None at its end."""
        raise NotImplementedError

    def _close(self) -> None:
        """Let go of what :meth:`_open` has opened; called any number of times."""

    def _ends_with(self, record: Record) -> bool:
        """Whether the unit is over with this record, without a look at what follows."""
        return False

    # -- operations ---------------------------------------------------------------------------------------------------
    def read(self, take_unit: Callable[[], bytes], token: CancellationToken, op: Any = None) -> Record:
        """The next record; ``take_unit`` gives a unit of work, and may wait for one."""
        turn = threading.Lock()
        with turn, self._turn(turn, token, op):
            return self._read(take_unit, token, op)

    def read_up_to(
        self, count: int, take_unit: Callable[[], bytes], token: CancellationToken, op: Any = None
    ) -> list[Record]:
        """At least one record and at most ``count``, none of them behind the end of a unit that gave some."""
        records: list[Record] = []
        turn = threading.Lock()
        with turn, self._turn(turn, token, op):
            while len(records) < count:
                completed = self.units_completed
                try:
                    record = self._read_on(op) if records else self._read(take_unit, token, op)
                except errors.OpError:
                    if records:
                        break  # the reader has not moved: the next call meets the same
                    raise
                if record is None:
                    break
                records.append(record)
                if self.units_completed > completed and self._idle:
                    break
        return records

    def serialize(self, op: Any = None) -> bytes:
        """The state of the reader as bytes, for a reader that can save it."""
        raise errors.UnimplementedError(None, op, self._no_state("SerializeState"))

    def restore(self, state: bytes, op: Any = None) -> None:
        """Go back to a state that :meth:`serialize` gave."""
        raise errors.UnimplementedError(None, op, self._no_state("RestoreState"))

    def reset(self, token: CancellationToken, op: Any = None) -> None:
        """Go back to the start: no unit in progress, no records counted."""
        turn = threading.Lock()
        with turn, self._turn(turn, token, op), interrupts.held():
            self._close()
            self.records_produced = self._started = self.units_completed = 0
            self._waiting.clear()

    def shutdown(self) -> None:
        """Let go of the file (the reader's owner goes away); who reads just now does so when that is over."""
        with self._changed:
            self._gone = True
            if self._turns.is_free():
                self._close()

    # -- parts --------------------------------------------------------------------------------------------------------
    @property
    def _idle(self) -> bool:
        return self._started == self.units_completed

    @contextlib.contextmanager
    def _turn(self, turn: Any, token: CancellationToken, op: Any) -> Iterator[None]:
        """Be the only one who reads, for as long as ``turn`` is held."""
        self._turns.begin(turn, token, op)
        try:
            yield
        finally:
            if self._gone:
                self._close()

    def _read(self, take_unit: Callable[[], bytes], token: CancellationToken, op: Any) -> Record:
        while True:
            if self._idle:
                self._begin(take_unit, op)
            record = self._read_on(op)
            if record is not None:
                return record
            token.raise_if_cancelled(op)

    def _begin(self, take_unit: Callable[[], bytes], op: Any) -> None:
        """Start the next unit."""
        if not self._waiting:
            self._waiting.extend(map(operator.call, (take_unit,)))  # no interrupt comes between taken and kept
        unit = self._waiting[0]
        self._steady = self._is_steady(unit)
        try:
            with interrupts.held() if self._steady else contextlib.nullcontext():
                self._open(unit, op)
                self._unit = unit
                self._started += 1
                self._waiting.clear()
        except errors.OpError:
            self._waiting.clear()
            raise

    def _is_steady(self, unit: bytes) -> bool:
        """Whether a unit is read without waiting for anybody."""
        try:
            return stat.S_ISREG(os.stat(unit).st_mode)
        except (OSError, ValueError):
            return False

    def _read_on(self, op: Any) -> Record | None:
        """The next record of the unit in progress; None if it is over."""
        held = interrupts.Interrupts()
        if self._steady:
            held.hold()
        try:
            record = self._next(op)
            if record is None or self._ends_with(record):
                self._close()
                self.units_completed = self._started
            if record is not None:
                self.records_produced += 1
            return record
        finally:
            held.release()

    def _no_state(self, operation: str) -> str:
        return f"Reader {operation}\n" + errors.message(
            f"the state of {self.kind} '{self.name}', which is within a file",
            "a WholeFileReader or an IdentityReader, whose units are whole records",
            "tf.data.TFRecordDataset and an iterator that is saved (tf.data.experimental.make_saveable_from_iterator)",
        )


class _UnitReader(Reader):
    """A reader whose units hold one record each, so that its state is between two units."""

    def _ends_with(self, record: Record) -> bool:
        return True

    def serialize(self, op: Any = None) -> bytes:
        """Counts, and the unit of an unfinished start."""
        with self._changed:
            state = reader_pb2.ReaderBaseState(
                work_started=self._started,
                work_finished=self.units_completed,
                num_records_produced=self.records_produced,
                current_work=self._unit if not self._idle else b"",
            )
        return state.SerializeToString()

    def restore(self, state: bytes, op: Any = None) -> None:
        """Go back to a state that :meth:`serialize` gave; InvalidArgumentError if ``state`` is not one."""
        try:
            parsed = reader_pb2.ReaderBaseState.FromString(state)
        except DecodeError:
            self._refuse_state(f"Could not parse state for {self.kind} '{self.name}': {state!r}", op)
        counts = (parsed.work_started, parsed.work_finished, parsed.num_records_produced)
        if min(counts) < 0:
            self._refuse_state(f"Unexpected negative value when restoring in {self.kind} '{self.name}': {counts}", op)
        if parsed.work_started < parsed.work_finished:
            self._refuse_state(
                f"Inconsistent work started vs. finished when restoring in {self.kind} '{self.name}': {counts}", op
            )
        with self._changed:
            self._started, self.units_completed, self.records_produced = counts
            self._unit = parsed.current_work
        if not self._idle:
            self._open(self._unit, op)

    def _refuse_state(self, text: str, op: Any) -> None:
        raise errors.InvalidArgumentError(None, op, text)


class IdentityReader(_UnitReader):
    """Give each unit as a record whose key and value it is."""

    kind = "IdentityReader"

    def _is_steady(self, unit: bytes) -> bool:
        return True

    def _next(self, op: Any) -> Record:
        return self._unit, self._unit


class WholeFileReader(_UnitReader):
    """Give each file as a record: its name, its bytes."""

    kind = "WholeFileReader"

    def _prepare(self, attrs: dict[str, Any]) -> None:
        self._contents = b""

    def _open(self, unit: bytes, op: Any) -> None:
        path = os.fsdecode(unit)
        with translated(path, op), open(path, "rb") as file:
            self._contents = file.read()

    def _next(self, op: Any) -> Record:
        return self._unit, self._contents

    def _close(self) -> None:
        self._contents = b""


class TextLineReader(Reader):
    """Give the lines of a file, without their ends; the key is ``file:line``, from 1 on."""

    kind = "TextLineReader"

    def _prepare(self, attrs: dict[str, Any]) -> None:
        self._skipped = attrs["skip_header_lines"]
        if self._skipped < 0:
            raise errors.InvalidArgumentError(
                None, None, f"skip_header_lines must be >= 0 not {self._skipped} ({self.kind} '{self.name}')"
            )
        self._file: Any = None
        self._line = 0

    def _open(self, unit: bytes, op: Any) -> None:
        path = os.fsdecode(unit)
        with translated(path, op):
            self._file = open(path, "rb", buffering=_BUFFER)  # noqa: SIM115  (closed at its end)
            try:
                self._line = sum(1 for _ in itertools.islice(self._file, self._skipped))
            except OSError:
                self._close()
                raise

    def _next(self, op: Any) -> Record | None:
        with translated(os.fsdecode(self._unit), op):
            line = self._file.readline()
        self._line += 1
        ended = line.endswith(b"\n")
        text = (line[:-1] if ended else line).removesuffix(b"\r")
        return (b"%s:%d" % (self._unit, self._line), text) if ended or text else None

    def _close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None


class TFRecordReader(Reader):
    """Give the records of a TFRecord file; the key is ``file:offset`` (of the inflated data, if it is compressed)."""

    kind = "TFRecordReader"

    def _prepare(self, attrs: dict[str, Any]) -> None:
        self._compression = compression_of(attrs["compression_type"], self)
        self._stream: Any = None

    def _open(self, unit: bytes, op: Any) -> None:
        path = os.fsdecode(unit)
        read, self._shut = hooks.open_bytes(path, self._compression)
        self._stream = hooks.record_stream(read, path, False, budgets.of_stream(self._compression))

    def _next(self, op: Any) -> Record | None:
        offset = self._stream.offset
        record = self._stream.next()
        return None if record is None else (b"%s:%d" % (self._unit, offset), record)

    def _close(self) -> None:
        if self._stream is not None:
            self._stream = None
            self._shut()


class FixedLengthRecordReader(Reader):
    """Give records of one length, ``hop_bytes`` from start to start, between a header and a footer.

    The key is ``file:number``, from 0 on. An incomplete record at the end, or one without a whole footer behind it, is
    dropped.
    """

    kind = "FixedLengthRecordReader"

    def _prepare(self, attrs: dict[str, Any]) -> None:
        for name in ("header_bytes", "record_bytes", "footer_bytes", "hop_bytes"):
            if attrs[name] < 0:
                raise errors.InvalidArgumentError(
                    None, None, f"{name} must be >= 0 not {attrs[name]} ({self.kind} '{self.name}')"
                )
        self._header, self._size, self._footer = attrs["header_bytes"], attrs["record_bytes"], attrs["footer_bytes"]
        self._hop = attrs["hop_bytes"] or self._size
        if self._hop == 0:
            raise errors.InvalidArgumentError(
                None,
                None,
                errors.message(
                    f"record_bytes=0 and hop_bytes=0 of {self.kind} '{self.name}', which would never end a file",
                    "a record of one byte at least",
                    "record_bytes=1",
                ),
            )
        self._compression = compression_of(attrs.get("encoding", ""), self)
        self._source: Any = None
        self._buffer, self._at, self._number = b"", 0, 0

    def _open(self, unit: bytes, op: Any) -> None:
        path = os.fsdecode(unit)
        self._source, self._shut = hooks.open_bytes(path, self._compression)
        self._buffer, self._at, self._number = b"", 0, 0
        if not self._fill(self._header):
            there = len(self._buffer)
            self._close()
            raise errors.OutOfRangeError(
                None,
                op,
                f"reached end of file: {path} has {there} bytes, fewer than the {self._header} of its header",
            )
        self._at = self._header

    def _next(self, op: Any) -> Record | None:
        skipped = self._hop if self._number else 0
        if not self._fill(skipped + self._size + self._footer):
            return None
        self._at += skipped
        key = b"%s:%d" % (self._unit, self._number)
        self._number += 1
        return key, self._buffer[self._at : self._at + self._size]

    def _fill(self, count: int) -> bool:
        """Have ``count`` bytes from the position on; whether the file has them."""
        there = len(self._buffer) - self._at
        if there >= count:
            return True
        parts = [self._buffer[self._at :]]
        while there < count:
            part = self._source(max(count - there, _BUFFER))
            if not part:
                break
            parts.append(part)
            there += len(part)
        self._buffer, self._at = b"".join(parts), 0
        return there >= count

    def _close(self) -> None:
        if self._source is not None:
            self._source = None
            self._shut()


class LMDBReader(Reader):
    """Give keys and values of an LMDB database, a file or a folder, in the order of the keys."""

    kind = "LMDBReader"

    def _prepare(self, attrs: dict[str, Any]) -> None:
        self._entries: LMDBEntries | None = None

    def _open(self, unit: bytes, op: Any) -> None:
        self._entries = LMDBEntries(unit, op)

    def _next(self, op: Any) -> Record | None:
        return None if self._entries is None else self._entries.next(op)

    def _close(self) -> None:
        entries, self._entries = self._entries, None
        if entries is not None:
            entries.close()


def compression_of(text: Any, reader: Reader) -> str:
    """``""``, ``"ZLIB"`` or ``"GZIP"`` of an attribute."""
    name = text.decode() if isinstance(text, bytes) else text
    if name in ("", "NONE"):
        return ""
    if name in ("ZLIB", "GZIP"):
        return str(name)
    raise errors.InvalidArgumentError(
        None,
        None,
        errors.message(
            f"compression {name!r} of {reader.kind} '{reader.name}'", "'ZLIB', 'GZIP' or ''", "TFRecordOptions('GZIP')"
        ),
    )


_ALL = (FixedLengthRecordReader, IdentityReader, LMDBReader, TextLineReader, TFRecordReader, WholeFileReader)
KINDS: dict[str, type[Reader]] = {kind.kind: kind for kind in _ALL}
