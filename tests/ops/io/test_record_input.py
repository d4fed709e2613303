"""``RecordInput``: records in random order, each once in an epoch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import anabranch as tf
from anabranch.ops.io.public_record_input import RecordInput


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


@pytest.fixture
def pattern(tmp_path: Path) -> str:
    """Three files of four records."""
    for f in range(3):
        with tf.python_io.TFRecordWriter(str(tmp_path / f"{f}.tfrecord")) as writer:
            for i in range(4):
                writer.write(b"%d" % (10 * f + i))
    return str(tmp_path / "*.tfrecord")


ALL = Counter(b"%d" % (10 * f + i) for f in range(3) for i in range(4))


def drawn(records: tf.Tensor, count: int) -> list[bytes]:
    with tf.Session() as session:
        return [record for _ in range(count) for record in session.run(records)]


@pytest.mark.parametrize("buffer", [1, 5, 100])
@pytest.mark.parametrize("parallelism", [1, 2, 7])
def test_each_record_comes_once_in_an_epoch(pattern: str, buffer: int, parallelism: int) -> None:
    records = RecordInput(pattern, 3, buffer, parallelism, 0.3, seed=1).get_yield_op()
    assert records.shape.as_list() == [3]
    order = drawn(records, 12)
    epochs = [order[i : i + 12] for i in range(0, 36, 12)]
    assert [Counter(epoch) for epoch in epochs] == [ALL] * 3
    assert epochs[0] != epochs[1] != epochs[2]


def test_the_order_follows_from_the_seed(pattern: str) -> None:
    orders = [drawn(RecordInput(pattern, 4, 8, 2, seed=seed).get_yield_op(), 6) for seed in (1, 1, 2)]
    assert orders[0] == orders[1] != orders[2]


def test_batches_in_a_list(pattern: str) -> None:
    batches = RecordInput(pattern, batch_size=2, batches=3, name="records").get_yield_op()
    with tf.Session() as session:
        given = session.run(batches)
    assert [len(batch) for batch in given] == [2, 2, 2]
    assert not Counter(record for batch in given for record in batch) - ALL


def test_what_ends_it(pattern: str, tmp_path: Path) -> None:
    with tf.Session() as session:
        with pytest.raises(tf.errors.NotFoundError, match=r"Found no files at .*none"):
            session.run(RecordInput(str(tmp_path / "none*")).get_yield_op())
        (tmp_path / "empty").write_bytes(b"")
        with pytest.raises(tf.errors.NotFoundError, match=r"Found no records in the files .*empty"):
            session.run(RecordInput(str(tmp_path / "empty")).get_yield_op())
        (tmp_path / "0.tfrecord").write_bytes((tmp_path / "0.tfrecord").read_bytes()[:-3])
        records = RecordInput(pattern, batch_size=12).get_yield_op()
        for _ in range(2):
            with pytest.raises(tf.errors.DataLossError, match=r"truncated record at \d+ of .*0.tfrecord"):
                session.run(records)
