"""Ops that save and restore, built by type as an imported graph has them."""

from __future__ import annotations

import os

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=request.param)) as found:
        yield found


def test_whole_tensors_and_slices(session, tmp_path):
    whole = np.arange(10, dtype=np.float32).reshape(5, 2)
    prefix = str(tmp_path / "m")
    save = build(
        "SaveV2",
        prefix,
        ["w", "w", "s"],
        ["5 2 0,3:0,2", "5 2 3,2:-", ""],
        [tf.constant(whole[:3]), tf.constant(whole[3:]), tf.constant("text")],
    )
    session.run(save)
    found = build("RestoreV2", prefix, ["w", "s", "w"], ["", "", "5 2 2,2:1,1"], dtypes=["float", "string", "float"])
    assert [tensor.shape for tensor in found] == [tf.TensorShape(None), tf.TensorShape(None), tf.TensorShape([2, 1])]
    values = session.run(list(found))
    assert np.array_equal(values[0], whole)
    assert values[1] == b"text"
    assert np.array_equal(values[2], whole[2:4, 1:])


@pytest.mark.parametrize("type_name", ["Save", "SaveSlices"])
def test_the_old_format(session, tmp_path, type_name):
    path = str(tmp_path / "m")
    values = [tf.constant([1, 2, 3]), tf.constant(True)]
    specs = [["", ""]] if type_name == "SaveSlices" else []
    session.run(build(type_name, path, ["a", "b"], *specs, values))
    assert os.listdir(tmp_path) == ["m"]
    assert session.run(build("Restore", path, "a", dt="int32")).tolist() == [1, 2, 3]
    part = build("RestoreSlice", path, "a", "3 1,2", dt="int32")
    assert part.shape == [2]
    assert session.run(part).tolist() == [2, 3]
    assert session.run(build("RestoreSlice", path, "b", "", dt="bool"))
    assert session.run(build("RestoreV2", path, ["b"], [""], dtypes=["bool"]))


def test_merging(session, tmp_path):
    prefixes = [str(tmp_path / "temp" / f"part-{i}") for i in range(2)]
    for i, prefix in enumerate(prefixes):
        session.run(build("SaveV2", prefix, [f"v{i}"], [""], [tf.constant(i)]))
    session.run(build("MergeV2Checkpoints", prefixes, str(tmp_path / "m")))
    assert sorted(os.listdir(tmp_path)) == ["m.data-00000-of-00002", "m.data-00001-of-00002", "m.index"]
    found = build("RestoreV2", str(tmp_path / "m"), ["v1", "v0"], ["", ""], dtypes=["int32", "int32"])
    assert session.run(list(found)) == [1, 0]
    with pytest.raises(tf.errors.NotFoundError, match="part-0"):
        session.run(build("MergeV2Checkpoints", prefixes, str(tmp_path / "n"), name="again"))
    with pytest.raises(tf.errors.InvalidArgumentError, match="Must have at least one prefix to merge"):
        session.run(build("MergeV2Checkpoints", tf.zeros([0], tf.string), str(tmp_path / "n")))


def test_names_of_shards(session):
    assert session.run(build("ShardedFilename", "m", 3, 12)) == b"m-00003-of-00012"
    assert session.run(build("ShardedFilespec", "m", 12)) == b"m-?????-of-00012"


def test_a_step_that_changes_and_saves(session, tmp_path):
    v = tf.Variable(1.0, name="v")
    r = tf.Variable(1.0, name="r", use_resource=True)
    with tf.control_dependencies([v.assign_add(1.0), r.assign_add(1.0).op]):
        save = build("SaveV2", str(tmp_path / "m"), ["v", "r"], ["", ""], [v._ref(), r.value()])
    session.run(tf.global_variables_initializer())
    for wanted in (2.0, 3.0):
        session.run(save)
        reader = tf.train.load_checkpoint(str(tmp_path / "m"))
        assert [reader.get_tensor("v"), reader.get_tensor("r")] == [wanted, wanted]
        assert session.run([v, r]) == [wanted, wanted]


def test_values_behind_a_save_may_be_fetched(session, tmp_path):
    r = tf.Variable([1.0, 2.0], name="r", use_resource=True)
    value = r.value()
    save = build("SaveV2", str(tmp_path / "m"), ["r"], [""], [value])
    session.run(r.initializer)
    for _ in range(2):
        found = session.run([save, value])[1]
        found[0] = 9.0  # it is the caller's own
        assert tf.train.load_variable(str(tmp_path / "m"), "r").tolist() == [1.0, 2.0]


def test_restored_values_are_nobodys_but_the_variables(session, tmp_path):
    session.run(build("SaveV2", str(tmp_path / "m"), ["w"], [""], [tf.ones([4])]))
    (found,) = [build("RestoreV2", str(tmp_path / "m"), ["w"], [""], dtypes=["float"])]
    restored = found[0] if isinstance(found, list) else found
    a, b = tf.Variable(tf.zeros([4]), name="a"), tf.Variable(tf.zeros([4]), name="b", use_resource=True)
    fetched = session.run([restored, tf.assign(a, restored).op, b.assign(restored).op])[0]
    fetched[:] = 7.0
    session.run(a.assign_add(tf.ones([4])).op)
    assert session.run([a, b])[0].tolist() == [2.0] * 4
    assert session.run(b).tolist() == [1.0] * 4


def test_what_does_not_fit(session, tmp_path):
    prefix = str(tmp_path / "m")
    session.run(build("SaveV2", prefix, ["w"], [""], [tf.ones([4])]))
    with pytest.raises(ValueError, match="tensor_names of length 2 for 1 tensors"):
        build("SaveV2", prefix, ["a", "b"], [""], [tf.ones([4])])
    with pytest.raises(ValueError, match="shape_and_slice 'x'"):
        build("RestoreV2", prefix, ["w"], ["x"], dtypes=["float"])
    with pytest.raises(tf.errors.NotFoundError, match="Key z not found in checkpoint"):
        session.run(build("RestoreV2", prefix, ["z"], [""], dtypes=["float"]))
    with pytest.raises(
        tf.errors.InvalidArgumentError, match="expected dtype int32 does not equal original dtype float"
    ):
        session.run(build("RestoreV2", prefix, ["w"], [""], dtypes=["int32"]))
    with pytest.raises(tf.errors.InvalidArgumentError, match="as '5 0,3' of 'w'"):
        session.run(build("SaveV2", prefix, ["w"], ["5 0,3"], [tf.ones([4])]))
    names = tf.placeholder(tf.string)
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"SaveV2.*tensor_names of length 2 for 1 tensors"):
        session.run(build("SaveV2", prefix, names, [""], [tf.ones([4])]), {names: ["a", "b"]})
    (tmp_path / "file").write_text("")
    with pytest.raises(tf.errors.OpError, match="file"):
        session.run(build("SaveV2", str(tmp_path / "file" / "m"), ["w"], [""], [tf.ones([4])]))
