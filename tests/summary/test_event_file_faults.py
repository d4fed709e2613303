"""Event files when the disk is full, or the folder is deleted under the writer."""

from __future__ import annotations

import errno
import os
import shutil

import pytest

import anabranch as tf
from anabranch.summary import event_file


def steps(path):
    return [event.step for event in tf.train.summary_iterator(path) if event.HasField("summary")]


def add(writer, step, text="x"):
    value = tf.Summary.Value(tag=text, simple_value=1.0)
    writer.add_event(tf.Event(step=step, summary=tf.Summary(value=[value])))


@pytest.mark.parametrize("left", [110, 150, 177, 205])
def test_a_full_disk_leaves_whole_records_and_later_ones_can_be_read(tmp_path, monkeypatch, left):
    writer = event_file.EventFileWriter(str(tmp_path), max_queue=100)
    add(writer, 1)
    writer.flush()
    room = [left]
    write = os.write

    def limited(file, data):
        if file != writer._queue.file:
            return write(file, data)
        if not room[0]:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        size = min(len(data), room[0])
        room[0] -= size
        return write(file, data[:size])

    monkeypatch.setattr(event_file.os, "write", limited)

    def fill():
        for step in range(2, 12):
            add(writer, step, "a longer tag, so that some fit and one is torn")
            writer.flush()

    with pytest.raises(tf.errors.ResourceExhaustedError, match="No space left"):
        fill()
    monkeypatch.undo()
    add(writer, 100)
    writer.close()
    seen = steps(writer.path)
    assert seen[0] == 1
    assert seen[-1] == 100
    assert 2 < len(seen) < 11
    assert seen == sorted(seen)


def test_a_deleted_folder_is_made_again(tmp_path):
    folder = tmp_path / "log"
    writer = event_file.EventFileWriter(str(folder))
    add(writer, 1)
    writer.flush()
    first = writer.path
    shutil.rmtree(folder)
    add(writer, 2)
    writer.flush()
    add(writer, 3)
    writer.close()
    assert steps(writer.path) == [2, 3]
    assert os.path.dirname(writer.path) == str(folder) == os.path.dirname(first)


def test_a_deleted_folder_that_cannot_be_made_again_says_so(tmp_path):
    folder = tmp_path / "log"
    writer = event_file.EventFileWriter(str(folder))
    add(writer, 1)
    writer.flush()
    shutil.rmtree(folder)
    folder.write_text("a file now")
    add(writer, 2)
    with pytest.raises(tf.errors.AlreadyExistsError, match="log"):
        writer.flush()
    writer.close()
