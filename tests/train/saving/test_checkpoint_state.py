"""The file that names checkpoints, looking into checkpoints, initial values from them."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

import anabranch as tf
from anabranch.train.saving import checkpoint_state
from tests.running_steps import until

V1 = tf.train.SaverDef.V1


@pytest.fixture(autouse=True)
def own_graph():
    with tf.Graph().as_default():
        yield


def saved(path, values, **options):
    """A checkpoint with variables of these names and values."""
    with tf.Graph().as_default(), tf.Session() as session:
        for name, value in values.items():
            tf.Variable(value, name=name)
        session.run(tf.global_variables_initializer())
        return tf.train.Saver(**options).save(session, str(path), write_meta_graph=False)


# ------------------------------------------------------------------------------------------------------------- state
def test_a_state_and_its_paths(tmp_path):
    make = tf.train.generate_checkpoint_state_proto
    state = make("/logs", "/logs/m-2", ["/logs/m-1"], [1.0, 2.0], 0.5)
    assert list(state.all_model_checkpoint_paths) == ["/logs/m-1", "/logs/m-2"]
    assert state.last_preserved_timestamp == 0.5
    state = make("logs", "logs/m-2", ["logs/m-1", "logs/m-2"])
    assert [state.model_checkpoint_path, *state.all_model_checkpoint_paths] == ["m-2", "m-1", "m-2"]
    with pytest.raises(ValueError, match="Checkpoint timestamps, if provided, must match checkpoint paths"):
        make("/logs", "/logs/m", None, [1.0, 2.0])
    folder = str(tmp_path)
    tf.train.update_checkpoint_state(folder, folder + "/m-2", [folder + "/m-1", folder + "/m-2"])
    assert (tmp_path / "checkpoint").read_text() == (
        f'model_checkpoint_path: "{folder}/m-2"\n'
        f'all_model_checkpoint_paths: "{folder}/m-1"\nall_model_checkpoint_paths: "{folder}/m-2"\n'
    )
    assert tf.train.get_checkpoint_state(folder).model_checkpoint_path == folder + "/m-2"
    with pytest.raises(RuntimeError, match="conflicts with path used for checkpoint state"):
        tf.train.update_checkpoint_state(folder, folder + "/checkpoint")


def test_states_that_are_not_there_or_damaged(tmp_path):
    folder = str(tmp_path)
    assert tf.train.get_checkpoint_state(folder) is None
    assert tf.train.latest_checkpoint(folder) is None
    for text in (b"what is this?", b'model_checkpoint_path: "\xff', b"\0\1\2"):
        (tmp_path / "checkpoint").write_bytes(text)
        assert tf.train.latest_checkpoint(folder) is None
    (tmp_path / "checkpoint").write_text("last_preserved_timestamp: 1\n")
    with pytest.raises(ValueError, match="Invalid checkpoint state loaded from"):
        tf.train.latest_checkpoint(folder)
    tf.train.update_checkpoint_state(folder, "gone")
    assert tf.train.get_checkpoint_state(folder).model_checkpoint_path == folder + "/gone"
    assert tf.train.latest_checkpoint(folder) is None


@pytest.mark.parametrize("options", [{}, {"write_version": V1}, {"write_version": V1, "sharded": True}], ids=str)
def test_files_of_a_checkpoint(tmp_path, options):
    path = saved(tmp_path / "m", {"v": 1.0}, **options)
    version = options.get("write_version", tf.train.SaverDef.V2)
    assert tf.train.checkpoint_exists(path)
    assert not tf.train.checkpoint_exists(path[:-1] + "x")
    (when,) = tf.train.get_checkpoint_mtimes([path, str(tmp_path / "none")])
    assert abs(when - time.time()) < 60
    (tmp_path / "m.meta").write_text("")
    tf.train.remove_checkpoint(path, version)
    assert os.listdir(tmp_path) == ["checkpoint"]
    tf.train.remove_checkpoint(path, version)


def test_meta_graph_filename():
    assert checkpoint_state.meta_graph_filename("a/m-5") == "a/m-5.meta"
    assert checkpoint_state.meta_graph_filename("a/m-5-00000-of-00002", "graph") == "a/m-5.graph"
    assert checkpoint_state.meta_graph_filename("a/m-5-?????-of-00002") == "a/m-5.meta"


def test_checkpoints_as_they_appear(tmp_path):
    found, over = [], threading.Event()

    def watch():
        for path in tf.train.checkpoints_iterator(str(tmp_path), timeout=0.1, timeout_fn=over.is_set):
            found.append(path)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for i in range(2):
            path = saved(tmp_path / f"m-{i}", {"v": 1.0})
            until(lambda i=i: len(found) == i + 1)
            assert found[-1] == path
    finally:
        over.set()
        watcher.join()
    assert len(found) == 2
    asked = []
    more = tf.train.checkpoints_iterator(str(tmp_path / "none"), timeout=0, timeout_fn=lambda: asked.append(1) or True)
    assert list(more) == []
    assert asked == [1]


# ----------------------------------------------------------------------------------------------------------- reading
@pytest.mark.parametrize("version", [V1, tf.train.SaverDef.V2])
def test_looking_into_a_checkpoint(tmp_path, version):
    path = saved(tmp_path / "m", {"a/v": [[1.0, 2.0]], "n": np.int64(3), "s": ["x"]}, write_version=version)
    for reader in (tf.train.NewCheckpointReader(path), tf.pywrap_tensorflow.NewCheckpointReader(path)):
        assert reader.get_variable_to_shape_map() == {"a/v": [1, 2], "n": [], "s": [1]}
        assert reader.get_variable_to_dtype_map() == {"a/v": tf.float32, "n": tf.int64, "s": tf.string}
        assert reader.has_tensor("a/v")
        assert not reader.has_tensor("b")
        assert reader.get_tensor("n") == np.int64(3)
        assert reader.get_tensor("s").tolist() == [b"x"]
        assert reader.debug_string() == b"a/v (DT_FLOAT) [1,2]\nn (DT_INT64) []\ns (DT_STRING) [1]"
        with pytest.raises(tf.errors.NotFoundError, match=r"b.* not found in checkpoint"):
            reader.get_tensor("b")
    for place in (path, str(tmp_path)):
        assert tf.train.list_variables(place) == [("a/v", [1, 2]), ("n", []), ("s", [1])]
        assert tf.train.load_variable(place, "a/v:0").tolist() == [[1.0, 2.0]]
        assert tf.contrib.framework.load_checkpoint(place).get_tensor("n") == 3
        assert tf.contrib.framework.list_variables(place) == tf.train.list_variables(place)


def test_readers_of_nothing(tmp_path):
    with pytest.raises(tf.errors.NotFoundError, match="Failed to find any matching files for"):
        tf.train.NewCheckpointReader(str(tmp_path / "m"))
    with pytest.raises(ValueError, match="Couldn't find 'checkpoint' file or checkpoints in given directory"):
        tf.train.load_checkpoint(str(tmp_path))
    (tmp_path / "m.index").write_bytes(b"x" * 100)
    with pytest.raises(tf.errors.DataLossError, match=r"m\.index: not an sstable"):
        tf.train.NewCheckpointReader(str(tmp_path / "m"))


# --------------------------------------------------------------------------------------------------- initial values
@pytest.mark.parametrize("resource", [False, True])
def test_initial_values(tmp_path, resource):
    path = saved(tmp_path / "m", {"old/w": [1.0, 2.0], "old/deep/b": [3.0], "p": np.arange(10).reshape(5, 2), "n": 4})
    with tf.variable_scope("new", use_resource=resource):
        w = tf.get_variable("w", [2])
        b = tf.get_variable("deep/b", [1])
    part = tf.get_variable(
        "cut", [5, 2], tf.int64, tf.zeros_initializer(), partitioner=tf.fixed_size_partitioner(2), use_resource=resource
    )
    n = tf.get_variable("count", [], tf.int32, tf.zeros_initializer(), use_resource=resource)
    tf.train.init_from_checkpoint(str(tmp_path), {"old/": "new/", "p": list(part), "n": n})
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([w, b, n]) == [pytest.approx([1.0, 2.0]), [3.0], 4]
        assert session.run(part.as_tensor()).tolist() == np.arange(10).reshape(5, 2).tolist()
        os.remove(path + ".index")
        with pytest.raises(tf.errors.NotFoundError, match="Failed to find any matching files"):
            session.run(w.initializer)


def test_initial_values_of_everything_and_by_name(tmp_path):
    path = saved(tmp_path / "m", {"w": [1.0, 2.0], "a/v": [5.0], "cut": np.arange(4.0)})
    w = tf.get_variable("w", [2])
    v = tf.get_variable("a/v", [1])
    part = tf.get_variable("cut", [4], tf.float64, tf.zeros_initializer(), partitioner=tf.fixed_size_partitioner(3))
    tf.train.init_from_checkpoint(path, {"/": "/"})
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        assert session.run([w, v]) == [pytest.approx([1.0, 2.0]), [5.0]]
        assert session.run(part.as_tensor()).tolist() == [0.0, 1.0, 2.0, 3.0]
    tf.train.init_from_checkpoint(path, [("a/v", "a/v"), ("cut", "cut"), ("w", w)])
    with tf.Session() as session:
        session.run([v.initializer, list(part)[1].initializer])
        assert session.run([v, list(part)[1]]) == [[5.0], [2.0]]


def test_initial_values_that_do_not_fit(tmp_path):
    path = saved(tmp_path / "m", {"w": [1.0, 2.0]})
    w = tf.get_variable("w", [3])
    other = tf.get_variable("scope/x", [2])
    for assignment, told in (
        ({"w": w}, r"Shape of variable w:0 \(\(3,\)\) doesn't match"),
        ({"x": other}, "Tensor x is not found in"),
        ({"w": "unknown"}, "Assignment map with scope only name unknown should map to scope only w"),
        ({"/": "scope/"}, r"Tensor x \(x in /\) is not found in"),
    ):
        with pytest.raises(ValueError, match=told):
            tf.train.init_from_checkpoint(path, assignment)
    with pytest.raises(TypeError, match="in assignment_map"):
        tf.train.init_from_checkpoint(path, {"w": 5})
