"""Words of errors of savers that programs match on."""

from __future__ import annotations

import pytest

import anabranch as tf
from anabranch.train.saving import saveable


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as new:
        yield new


class _Own(saveable.SaveableObject):
    def __init__(self, value, name):
        super().__init__(self, [saveable.SaveSpec(value, "", name)], name)

    def restore(self, restored_tensors, restored_shapes):
        return tf.no_op()


def test_objects_that_say_how_they_are_saved(tmp_path):
    own = _Own(tf.constant([1.0, 2.0]), "own")
    saver = tf.train.Saver({"own": own})
    with tf.Session() as session:
        path = saver.save(session, str(tmp_path / "model"))
    assert tf.train.load_variable(path, "own").tolist() == [1.0, 2.0]
    with pytest.raises(ValueError, match=r"The same saveable will be restored with two names: twice"):
        tf.train.Saver({"own": own, "twice": own})


def test_another_shape(tmp_path):
    tf.get_variable("v", [2, 3])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    with tf.Graph().as_default() as other:
        tf.get_variable("v", [3, 2])
        saver = tf.train.Saver()
    words = r"Assign requires shapes of both tensors to match. lhs shape= \[3,2\] rhs shape= \[2,3\]"
    with tf.Session(graph=other) as session, pytest.raises(tf.errors.InvalidArgumentError, match=words):
        saver.restore(session, path)


def test_a_file_in_the_place_of_the_folder(tmp_path):
    tf.get_variable("v", [])
    (tmp_path / "file").write_text("")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(ValueError, match=r"Parent directory of .*file/model doesn't exist, can't save"):
            tf.train.Saver().save(session, str(tmp_path / "file" / "model"))


def test_no_checkpoint_is_told_in_the_classes_of_two_versions(tmp_path):
    tf.get_variable("v", [])
    saver = tf.train.Saver()
    with tf.Session() as session:
        for kind, words in (
            (tf.errors.NotFoundError, "Failed to find any matching files for .*nothing"),
            (ValueError, "The passed save_path is not a valid checkpoint: .*nothing"),
        ):
            with pytest.raises(kind, match=words):
                saver.restore(session, str(tmp_path / "nothing"))


def test_the_advice_stands_behind_the_words_that_programs_compare(tmp_path):
    tf.get_variable("v", [])
    (tmp_path / "file").write_text("")
    path = str(tmp_path / "file" / "model")
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(ValueError, match="Parent directory") as caught:
            tf.train.Saver().save(session, path)
    assert str(caught.value) == f"Parent directory of {path} doesn't exist, can't save."
    assert "Instead: another folder" in caught.value.__notes__[0]


@pytest.mark.parametrize("version", [tf.train.SaverDef.V1, tf.train.SaverDef.V2])
def test_a_reader_says_which_key_is_not_there(tmp_path, version):
    tf.get_variable("v", [])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver(write_version=version).save(session, str(tmp_path / "model"))
    with pytest.raises(tf.errors.NotFoundError, match=r"Key w not found in checkpoint .*model"):
        tf.train.NewCheckpointReader(path).get_tensor("w")


def test_a_message_of_another_kind_is_not_a_meta_graph(tmp_path):
    tf.get_variable("v", [])
    definition = tf.train.Saver().as_saver_def()
    tf.train.write_graph(definition, str(tmp_path), "file")
    with pytest.raises(OSError, match=r"Cannot parse file .*file"):
        tf.train.import_meta_graph(str(tmp_path / "file"))


def test_one_saver_is_exported_and_the_others_are_left_out():
    v, w = tf.get_variable("v", []), tf.get_variable("w", [])
    first, second = tf.train.Saver([v], name="first"), tf.train.Saver([w], name="second")
    for saver in (first, second):
        tf.add_to_collection(tf.GraphKeys.SAVERS, saver)
    exported = second.export_meta_graph(clear_extraneous_savers=True)
    (only,) = exported.collection_def["savers"].bytes_list.value
    assert tf.train.SaverDef.FromString(only).save_tensor_name.startswith("second/")
    assert not [node.name for node in exported.graph_def.node if node.name.startswith("first/")]
    assert len(first.export_meta_graph().collection_def["savers"].bytes_list.value) == 2


def test_restoring_by_object_again_adds_nothing(tmp_path):
    v = tf.get_variable("v", [], initializer=tf.constant_initializer(3.0), use_resource=True)
    with tf.Session() as session:
        session.run(v.initializer)
        path = tf.train.Checkpoint(held=v).save(str(tmp_path / "model"), session=session)
        saver = tf.train.Saver([v])
        session.run(v.assign(0.0))
        saver.restore(session, path)
        before = len(v.graph.get_operations())
        saver.restore(session, path)
        assert len(v.graph.get_operations()) == before
        assert session.run(v) == 3.0


def test_an_object_that_says_which_variables_are_saved_for_it(tmp_path):
    class Owner(tf.contrib.checkpoint.Checkpointable):
        def __init__(self, several):
            self.first = tf.get_variable(f"first{several}", initializer=6.0, use_resource=True)
            self.second = tf.get_variable(f"second{several}", initializer=7.0, use_resource=True)
            self.several = several

        @property
        def name(self):
            return self.first.name

        def _gather_saveables_for_checkpoint(self):
            own = {"VARIABLE_VALUE": self.first}
            return (
                own | {"other": lambda: _Own(self.second.read_value(), f"own{self.several}")} if self.several else own
            )

    one, two = Owner(0), Owner(1)
    saver = tf.train.Saver([one, two])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = saver.save(session, str(tmp_path / "model"))
        session.run([one.first.assign(0.0), two.first.assign(0.0)])
        saver.restore(session, path)
        assert session.run([one.first, two.first]) == [6.0, 6.0]
    assert [name for name, _ in tf.train.list_variables(path)] == ["first0", "first1", "own1"]
    with pytest.raises(ValueError, match="At least two variables have the same name: first0"):
        tf.train.Saver([one, one.first])


def test_words_of_initial_values_from_a_checkpoint(tmp_path):
    with tf.variable_scope("old"):
        tf.get_variable("w", [1, 3])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Saver().save(session, str(tmp_path / "model"))
    folder = str(tmp_path)
    with tf.Graph().as_default():
        tf.get_variable("new/w", [1, 4])
        tf.get_variable("new/u", [1, 3])
        wrong = {
            "Tensor none is not found in .* checkpoint {'old/w'": {"none": "new/u"},
            r"Tensor old/u \(u in old/\) is not found in": {"old/": "new/"},
            "Assignment map with scope only name new should map to scope only old/w": {"old/w": "new/none"},
            r"Shape of variable new/w:0 \(\(1, 4\)\) doesn't match with shape of tensor old/w": {"old/w": "new/w"},
        }
        for words, mapping in wrong.items():
            with pytest.raises(ValueError, match=words):
                tf.train.init_from_checkpoint(folder, mapping)
        restored = tf.raw_ops.RestoreV2(prefix=path, tensor_names=["old/w"], shape_and_slices=[""], dtypes=[tf.int32])
        part = tf.raw_ops.RestoreV2(
            prefix=path, tensor_names=["old/w"], shape_and_slices=["2 3 0,1:0,3"], dtypes=[tf.float32]
        )
        with tf.Session() as session:
            with pytest.raises(
                tf.errors.InvalidArgumentError, match="expected dtype int32 does not equal original dtype float"
            ):
                session.run(restored)
            with pytest.raises(
                tf.errors.InvalidArgumentError, match=r"spec \[2,3\] does not match the shape stored in"
            ):
                session.run(part)
