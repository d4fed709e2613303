"""``RecordInput``: records of files in random order, epoch after epoch, in batches.

The files of an epoch are shuffled, then turned by a share of their number, and read ``file_parallelism`` at a time, a
record of each in turn. Records go through a buffer of ``file_buffer_size``, each new one to a random place; what is
given out is the last one in it. An epoch is over when its last record has been given out, so each record comes once in
it. The order depends on the seed alone. (TensorFlow reads ahead in threads, whose order varies.)

An interrupt waits until a record that is being read is in the buffer; those that a batch has drawn by then stay for the
next batch.
"""

from __future__ import annotations

import itertools
import os
import random
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np

from anabranch.core import errors, interrupts, paths
from anabranch.core.contract import hooks
from anabranch.core.contract.opdef import Float, Int, NotDifferentiable, Op, String, channel
from anabranch.core.file_errors import check_local
from anabranch.core.values import budgets


class _Records:
    """The records of some files, without end."""

    def __init__(self, attrs: dict[str, Any]) -> None:
        self._pattern = _text(attrs["file_pattern"])
        self._compression = _text(attrs["compression_type"])
        self._parallel = max(1, attrs["file_parallelism"])
        self._shift = attrs["file_shuffle_shift_ratio"]
        self._room = max(1, attrs["file_buffer_size"])
        self._seed = attrs["file_random_seed"]
        self._random = random.Random(self._seed)
        self._epoch = 0
        self._source: Iterator[bytes] | None = None
        self._buffer: list[bytes] = []
        self._fresh = True
        """Whether the epoch has given no record yet."""
        self._drawn: list[bytes] = []
        """Records of the batch that is being drawn."""
        self._lock = threading.Lock()
        self._problem: errors.OpError | None = None
        """What ended the reading: a missing file or a damaged record is not passed over."""

    def next(self, count: int, op: Any) -> list[bytes]:
        """The next records."""
        with self._lock:
            if self._problem is None:
                try:
                    while len(self._drawn) < count:
                        with interrupts.held():
                            self._advance(op)
                    with interrupts.held():
                        records, self._drawn = self._drawn[:count], self._drawn[count:]
                    return records
                except errors.OpError as problem:
                    self._problem = problem
            raise type(self._problem)(None, op, self._problem.message)  # type: ignore[call-arg]

    def _advance(self, op: Any) -> None:
        """Read a record into the buffer, draw one out of a full buffer, or begin an epoch."""
        if self._source is None:
            self._source, self._fresh = self._epoch_of_files(op), True
        record = next(self._source, None)
        if record is not None:
            self._fresh = False
            place = self._random.randrange(len(self._buffer) + 1)
            self._buffer.append(record)
            self._buffer[place], self._buffer[-1] = self._buffer[-1], self._buffer[place]
            if len(self._buffer) >= self._room:
                self._drawn.append(self._buffer.pop())
        elif self._buffer:
            self._drawn.append(self._buffer.pop())
        else:
            self._source = None
            if self._fresh:
                raise errors.NotFoundError(None, op, f"Found no records in the files {self._pattern}")

    def _epoch_of_files(self, op: Any) -> Iterator[bytes]:
        check_local(self._pattern, op)
        names = paths.matching_here(self._pattern)
        if not names:
            raise errors.NotFoundError(None, op, f"Found no files at {self._pattern}")
        self._epoch += 1
        random.Random(f"{self._seed} {self._epoch}").shuffle(names)
        if 0 <= self._shift < 1:
            turned = int(self._shift * len(names))
            names = names[turned:] + names[:turned]
        return self._read(names)

    def _read(self, names: list[str]) -> Iterator[bytes]:
        """Records of files, one of each file in turn, ``parallel`` files at a time."""
        waiting = iter(names)
        reading = [self._records_of(name) for name in itertools.islice(waiting, self._parallel)]
        while reading:
            going: list[Iterator[bytes]] = []
            for source in reading:
                record = next(source, None)
                if record is not None:
                    going.append(source)
                    yield record
                elif (following := next(waiting, None)) is not None:
                    going.append(self._records_of(following))
            reading = going

    def _records_of(self, name: str) -> Iterator[bytes]:
        read, close = hooks.open_bytes(name, self._compression)
        stream = hooks.record_stream(read, name, False, budgets.of_stream(self._compression))
        try:
            while (record := stream.next()) is not None:
                yield record
        finally:
            close()


def _text(value: Any) -> str:
    return os.fsdecode(value)


class RecordInput(Op):
    """``batch_size`` records of the files that match a pattern, in random order, epoch after epoch."""

    signature = "-> records: string"
    attrs = {
        "file_pattern": String(),
        "file_random_seed": Int(301),
        "file_shuffle_shift_ratio": Float(0.0),
        "file_buffer_size": Int(10000),
        "file_parallelism": Int(16),
        "batch_size": Int(32),
        "compression_type": String(""),
    }
    effect = channel()
    gradient = NotDifferentiable("records are read from files")

    def shape(c):
        return (c.attrs["batch_size"],)

    def host_kernel(ctx, inputs, attrs):
        records = np.empty(attrs["batch_size"], object)
        records[:] = ctx.shared("record input", lambda: _Records(attrs)).next(attrs["batch_size"], ctx.op)
        return records
