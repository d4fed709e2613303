"""Paths of other file systems are refused by all that takes a path, and nothing is made: no folder called ``gs:``."""

from __future__ import annotations

import importlib.util
import os

import pytest

import anabranch as tf

PATH = "gs://bucket/folder/file"
FOLDER = "gs://bucket/folder"


def _run(make):
    with tf.Session() as session:
        return session.run(make())


def _saver(way):
    tf.get_variable("v", [2])
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        return getattr(saver, way)(session, PATH)


def _read(reader):
    queue = tf.train.string_input_producer([PATH], num_epochs=1)
    _, value = reader.read(queue)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        try:
            return session.run(value)
        finally:
            coordinator.request_stop()
            coordinator.join(threads)


def _first(dataset):
    return _run(lambda: dataset().make_one_shot_iterator().get_next())


USES = {
    "latest_checkpoint": lambda: tf.train.latest_checkpoint(FOLDER),
    "get_checkpoint_state": lambda: tf.train.get_checkpoint_state(FOLDER),
    "checkpoint_exists": lambda: tf.train.checkpoint_exists(PATH),
    "get_checkpoint_mtimes": lambda: tf.train.get_checkpoint_mtimes([PATH]),
    "update_checkpoint_state": lambda: tf.train.update_checkpoint_state(FOLDER, PATH),
    "remove_checkpoint": lambda: tf.train.remove_checkpoint(PATH),
    "save": lambda: _saver("save"),
    "restore": lambda: _saver("restore"),
    "load_checkpoint": lambda: tf.train.load_checkpoint(PATH),
    "import_meta_graph": lambda: tf.train.import_meta_graph(PATH),
    "export_meta_graph": lambda: tf.train.export_meta_graph(PATH),
    "write_graph": lambda: tf.train.write_graph(tf.get_default_graph(), FOLDER, "graph.pbtxt"),
    "builder": lambda: tf.saved_model.builder.SavedModelBuilder(FOLDER),
    "loader": lambda: tf.saved_model.loader.load(tf.Session(), ["serve"], FOLDER),
    "maybe_saved_model_directory": lambda: tf.saved_model.maybe_saved_model_directory(FOLDER),
    "FileWriter": lambda: tf.summary.FileWriter(FOLDER),
    "summary_iterator": lambda: list(tf.train.summary_iterator(PATH)),
    "TFRecordWriter": lambda: tf.io.TFRecordWriter(PATH),
    "tf_record_iterator": lambda: list(tf.io.tf_record_iterator(PATH)),
    "gfile.Exists": lambda: tf.gfile.Exists(PATH),
    "gfile.MakeDirs": lambda: tf.gfile.MakeDirs(FOLDER),
    "gfile.Copy": lambda: tf.gfile.Copy(__file__, PATH),
    "GFile": lambda: tf.gfile.GFile(PATH, "w").write("x"),
    "read_file": lambda: _run(lambda: tf.read_file(PATH)),
    "write_file": lambda: _run(lambda: tf.write_file(PATH, "x")),
    "matching_files": lambda: _run(lambda: tf.matching_files(PATH)),
    "lines": lambda: _first(lambda: tf.data.TextLineDataset(PATH)),
    "records": lambda: _first(lambda: tf.data.TFRecordDataset(PATH)),
    "list_files": lambda: _first(lambda: tf.data.Dataset.list_files(PATH)),
    "cache": lambda: _first(lambda: tf.data.Dataset.range(2).cache(PATH)),
    "database": lambda: _first(lambda: tf.data.experimental.SqlDataset("sqlite", PATH, "select 1", (tf.int32,))),
    "lmdb": lambda: _first(lambda: tf.contrib.data.LMDBDataset(PATH)),
    "written records": lambda: _run(
        lambda: tf.data.experimental.TFRecordWriter(PATH).write(tf.data.Dataset.from_tensors("a"))
    ),
    "a reader of lines": lambda: _read(tf.TextLineReader()),
    "a reader of files": lambda: _read(tf.WholeFileReader()),
    "a table": lambda: _run(lambda: tf.contrib.lookup.index_table_from_file(PATH, vocab_size=2).init),
}


@pytest.fixture
def own_folder(tmp_path, monkeypatch):
    """A folder of its own, and no package that reads other file systems."""
    monkeypatch.chdir(tmp_path)
    find = importlib.util.find_spec
    monkeypatch.setattr(
        importlib.util, "find_spec", lambda name, *rest: None if name == "fsspec" else find(name, *rest)
    )
    with tf.Graph().as_default():
        yield tmp_path


@pytest.mark.parametrize("use", sorted(USES))
def test_another_file_system_is_refused(use, own_folder):
    with pytest.raises(tf.errors.UnimplementedError, match="on the file system 'gs'"):
        USES[use]()
    assert os.listdir(own_folder) == []


def test_files_by_a_scheme(own_folder):
    """``file://`` before a path says nothing more: savers, MetaGraphs, SavedModels, events and records take it."""
    root = f"file://{own_folder}"
    v = tf.get_variable("v", [], initializer=tf.ones_initializer())
    saver = tf.train.Saver()
    checkpoint = tf.train.Checkpoint(v=v)
    with tf.Session() as session:
        session.run(v.initializer)
        path = saver.save(session, f"{root}/made/model", global_step=3)
        assert tf.train.latest_checkpoint(f"{root}/made") == path == f"{own_folder}/made/model-3"
        assert [name for name, _ in tf.train.list_variables(f"file://{path}")] == ["v"]
        session.run(v.assign(5.0).op)
        saver.restore(session, f"file://{path}")
        assert session.run(v) == 1.0
        by_object = checkpoint.save(f"{root}/objects/m", session=session)
        checkpoint.restore(f"file://{by_object}").assert_consumed().run_restore_ops(session)
        tf.saved_model.simple_save(session, f"{root}/exported", {"x": v}, {"v": v})
    tf.train.write_graph(tf.get_default_graph(), root, "graph.pbtxt")
    tf.train.export_meta_graph(f"{root}/graph.meta")
    with tf.summary.FileWriter(f"{root}/events") as writer:
        writer.add_summary(tf.Summary(), 1)
    (events,) = (own_folder / "events").iterdir()
    assert [event.step for event in tf.train.summary_iterator(f"file://{events}")] == [0, 1]
    with tf.io.TFRecordWriter(f"{root}/records") as records:
        records.write(b"one")
    assert list(tf.io.tf_record_iterator(f"{root}/records")) == [b"one"]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(f"{root}/graph.meta")
        assert tf.saved_model.contains_saved_model(f"{root}/exported")
        tf.saved_model.loader.load(session, ["serve"], f"{root}/exported", import_scope="other")
    assert not (own_folder / "file:").exists()
