"""Writers that nobody holds any more, wherever the garbage collector meets them."""

from __future__ import annotations

import gc

import pytest

import anabranch as tf
from anabranch.summary import event_file
from tests.running_steps import until


class Forgotten:
    """Holds a writer in a cycle."""

    def __init__(self, folder):
        self.writer = event_file.EventFileWriter(str(folder))
        self.writer.add_event(tf.Event(step=7))
        self.itself = self


def numbers(path):
    """The steps of a file once its writer's thread has ended."""
    until(lambda: not any(queue.path == path for queue in list(event_file._unfinished)))
    return [event.step for event in tf.train.summary_iterator(path)]


@pytest.fixture(autouse=True)
def no_collector():
    gc.collect()
    gc.disable()
    yield
    gc.enable()


def test_a_writer_that_is_collected_where_its_thread_is_locked_out_waits_for_nothing(tmp_path):
    forgotten = Forgotten(tmp_path)
    queue = forgotten.writer._queue
    with queue.changed:  # or anything else that the thread needs: a lock of the logging, of an import
        del forgotten
        gc.collect()
        assert queue.ending
    assert numbers(queue.path) == [0, 7]


def test_a_writer_that_is_collected_in_its_own_thread_ends_it(tmp_path, monkeypatch):
    forgotten = Forgotten(tmp_path)
    queue = forgotten.writer._queue
    write = queue._write

    def collecting(records):
        gc.collect()
        return write(records)

    monkeypatch.setattr(queue, "_write", collecting)
    forgotten.writer.add_event(tf.Event(step=8))
    del forgotten
    assert numbers(queue.path) == [0, 7, 8]
