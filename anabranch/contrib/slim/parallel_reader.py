"""``slim.parallel_reader``: several readers, each in a thread of its own, whose records meet in one queue."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.contrib.slim.dataset import get_data_files
from anabranch.core import errors

__all__ = ["ParallelReader", "get_data_files", "parallel_read", "single_pass_read"]


class ParallelReader(tf.ReaderBase):
    """Several readers as one; records come in the order in which the common queue gives them.

    Args:
        reader_class: makes a reader, such as ``tf.TFRecordReader``.
        common_queue: the queue of records, key and value.
        num_readers: how many readers there are.
        reader_kwargs: arguments of ``reader_class``.
    """

    def __init__(
        self,
        reader_class: Callable[..., Any],
        common_queue: Any,
        num_readers: int = 4,
        reader_kwargs: dict[str, Any] | None = None,
    ) -> None:
        if len(common_queue.dtypes) != 2:
            raise TypeError(
                f"common_queue.dtypes must be [tf.string, tf.string], but are {common_queue.dtypes}\n"
                + errors.message(f"a queue of {len(common_queue.dtypes)} components", "key and value", "two dtypes")
            )
        self._readers = [reader_class(**(reader_kwargs or {})) for _ in range(num_readers)]
        super().__init__(self._readers[0].reader_ref)
        self._common_queue = common_queue

    @property
    def num_readers(self) -> int:
        """How many readers there are."""
        return len(self._readers)

    @property
    def common_queue(self) -> Any:
        """The queue of records."""
        return self._common_queue

    def _start(self, queue: Any) -> None:
        puts = [self._common_queue.enqueue(reader.read(queue)) for reader in self._readers]
        tf.train.add_queue_runner(tf.train.QueueRunner(self._common_queue, puts))

    def read(self, queue: Any, name: str | None = None) -> Any:
        """The next record out of the common queue, which readers of the files of ``queue`` fill: key and value."""
        self._start(queue)
        return self._common_queue.dequeue(name=name)

    def read_up_to(self, queue: Any, num_records: Any, name: str | None = None) -> Any:
        """The next records, ``num_records`` or what is left: keys and values."""
        self._start(queue)
        return self._common_queue.dequeue_up_to(num_records, name)

    def num_records_produced(self, name: str | None = None) -> Any:
        """How many records all readers have given."""
        return tf.add_n([reader.num_records_produced() for reader in self._readers], name=name)

    def num_work_units_completed(self, name: str | None = None) -> Any:
        """How many files all readers have come to the end of."""
        return tf.add_n([reader.num_work_units_completed() for reader in self._readers], name=name)


def parallel_read(
    data_sources: Any,
    reader_class: Callable[..., Any],
    num_epochs: int | None = None,
    num_readers: int = 4,
    reader_kwargs: dict[str, Any] | None = None,
    shuffle: bool = True,
    dtypes: Any = None,
    capacity: int = 256,
    min_after_dequeue: int = 128,
    seed: int | None = None,
    scope: str | None = None,
) -> Any:
    """The next record of some files, read by several readers: key and value, another one in each step.

    Args:
        data_sources: files, or patterns of them.
        reader_class: makes a reader, such as ``tf.TFRecordReader``.
        num_epochs: how often each file is read; None for no end. A local variable counts.
        num_readers: how many files are read at a time, by a thread each.
        reader_kwargs: arguments of ``reader_class``.
        shuffle: whether the files come in random order, and records out of a queue at random.
        dtypes: dtypes of key and value, strings by default.
        capacity: records that wait.
        min_after_dequeue: records that stay in the queue while more come, if they are shuffled.
        seed: of the orders.
        scope: name of the operations.
    """
    files = get_data_files(data_sources)
    with tf.name_scope(scope, "parallel_read"):
        names = tf.train.string_input_producer(
            files, num_epochs=num_epochs, shuffle=shuffle, seed=seed, name="filenames"
        )
        kinds = dtypes or [tf.string, tf.string]
        if shuffle:
            queue = tf.RandomShuffleQueue(capacity, min_after_dequeue, kinds, seed=seed, name="common_queue")
        else:
            queue = tf.FIFOQueue(capacity, kinds, name="common_queue")
        tf.summary.scalar(f"fraction_of_{capacity}_full", tf.cast(queue.size(), tf.float32) * (1.0 / capacity))
        return ParallelReader(reader_class, queue, num_readers, reader_kwargs).read(names)


def single_pass_read(
    data_sources: Any,
    reader_class: Callable[..., Any],
    reader_kwargs: dict[str, Any] | None = None,
    scope: str | None = None,
) -> Any:
    """The next record of some files, read once, one after the other: key and value.

    Args:
        data_sources: files, or patterns of them.
        reader_class: makes a reader, such as ``tf.TFRecordReader``.
        reader_kwargs: arguments of ``reader_class``.
        scope: name of the operations.
    """
    files = get_data_files(data_sources)
    with tf.name_scope(scope, "single_pass_read"):
        names = tf.train.string_input_producer(files, num_epochs=1, shuffle=False, capacity=1, name="filenames")
        return reader_class(**(reader_kwargs or {})).read(names)
