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
