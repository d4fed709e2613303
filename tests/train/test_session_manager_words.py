"""Sessions that are ready by old means, and words of a session manager's errors."""

from __future__ import annotations

import pytest

import anabranch as tf
from anabranch.train.saving.saver_builder import BaseSaverBuilder


def test_variables_that_an_operation_asserts() -> None:
    with tf.Graph().as_default():
        v = tf.Variable([1.0, 2.0], name="v")
        manager = tf.train.SessionManager(ready_op=tf.assert_variables_initialized())
        session = manager.prepare_session("", init_op=tf.global_variables_initializer())
        assert session.run(v).tolist() == [1, 2]
        session.close()
        with pytest.raises(RuntimeError, match=r"Init operations did not make model ready\. .*uninitialized value v"):
            manager.prepare_session("", init_op=tf.no_op())


def test_words(tmp_path) -> None:
    with tf.Graph().as_default():
        v = tf.Variable(1, name="v")
        missing = tf.report_uninitialized_variables()
        with pytest.raises(ValueError, match="you must also pass a local_init_op , ready_for_local_init_op"):
            tf.train.SessionManager(ready_for_local_init_op=missing, local_init_op=None)
        manager = tf.train.SessionManager(
            ready_op=missing, ready_for_local_init_op=missing, local_init_op=tf.no_op("local")
        )
        with pytest.raises(RuntimeError, match="Init operations did not make model ready for local_init"):
            manager.prepare_session("", init_op=None, init_fn=lambda session: None)
        saver = tf.train.Saver([v])
        with pytest.raises(ValueError, match="Can not provide both checkpoint_dir and checkpoint_filename_with_path"):
            manager.recover_session("", saver, str(tmp_path), str(tmp_path / "model"))


def test_an_object_of_a_program_is_saved_by_its_saveable(tmp_path) -> None:
    class Table:
        """An object without an operation of its own."""

    with tf.Graph().as_default(), tf.Session() as session:
        value = tf.Variable([1.0, 2.0], name="value")
        spec = BaseSaverBuilder.SaveSpec(value, "", "table")

        class Saveable(BaseSaverBuilder.SaveableObject):
            def restore(self, restored_tensors, restored_shapes):
                return value.assign(restored_tensors[0])

        saver = tf.train.Saver([Saveable(Table(), [spec], "table")])
        session.run(value.initializer)
        path = saver.save(session, str(tmp_path / "model"))
        session.run(value.assign([0.0, 0.0]))
        saver.restore(session, path)
        assert session.run(value).tolist() == [1, 2]
