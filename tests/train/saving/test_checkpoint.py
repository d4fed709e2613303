"""Checkpoints by object: what is matched, late objects, status, numbers of checkpoints."""

from __future__ import annotations

import os

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat.internal import tracking
from anabranch.train.saving.trackable import escaped


@pytest.fixture(autouse=True)
def own_graph():
    with tf.Graph().as_default():
        yield


def variable(value, name="v", **options):
    return tf.Variable(value, name=name, **options)


def test_names_of_variables_do_not_matter(tmp_path):
    with tf.Session() as session:
        v = variable([1.0, 2.0])
        session.run(v.initializer)
        path = tf.train.Checkpoint(a=v).write(str(tmp_path / "m"))
        other = variable([0.0, 0.0], "another", use_resource=True)
        status = tf.train.Checkpoint(a=other).read(path)
        status.assert_consumed().run_restore_ops()
        assert session.run(other).tolist() == [1.0, 2.0]
    assert sorted(os.listdir(tmp_path)) == ["m.data-00000-of-00001", "m.index"]


def test_numbers_and_state(tmp_path):
    v = variable(0.0)
    checkpoint = tf.train.Checkpoint(v=v)
    with tf.Session() as session:
        session.run(v.initializer)
        paths = [checkpoint.save(str(tmp_path / "m")) for _ in range(2)]
        assert paths == [str(tmp_path / "m-1"), str(tmp_path / "m-2")]
        assert tf.train.latest_checkpoint(str(tmp_path)) == paths[1]
        assert session.run(checkpoint.save_counter) == 2
    with tf.Session() as session:
        checkpoint.restore(paths[0]).initialize_or_restore()
        assert checkpoint.save(str(tmp_path / "m")) == paths[1]


def test_objects_made_after_restore_was_called(tmp_path):
    with tf.Session() as session:
        a, b = variable(1.0, "a"), variable(2.0, "b")
        session.run([a.initializer, b.initializer])
        path = tf.train.Checkpoint(first=a, inner=tf.train.Checkpoint(second=b)).save(str(tmp_path / "m"))
    with tf.Graph().as_default(), tf.Session() as session:
        checkpoint = tf.train.Checkpoint()
        status = checkpoint.restore(path)
        with pytest.raises(AssertionError, match="Unresolved object in checkpoint: first"):
            status.assert_consumed()
        with pytest.raises(AssertionError, match="Nothing except the root object matched"):
            tf.train.Checkpoint().read(path).assert_nontrivial_match()
        checkpoint.first = variable(0.0)
        checkpoint.inner = tf.train.Checkpoint(second=variable(0.0))
        checkpoint.extra = variable(7.0)
        with pytest.raises(AssertionError, match="Object not assigned a value from checkpoint"):
            status.assert_existing_objects_matched()
        with pytest.raises(AssertionError, match="'v_2:0', which"):
            status.assert_consumed()
        status.assert_nontrivial_match().expect_partial().initialize_or_restore()
        assert session.run([checkpoint.first, checkpoint.inner.second, checkpoint.extra]) == [1.0, 2.0, 7.0]
        del checkpoint.extra
        status.assert_consumed()


def test_shared_objects_lists_and_dicts(tmp_path):
    with tf.Session() as session:
        a, b = variable(1.0, "a"), variable(2.0, "b")
        session.run([a.initializer, b.initializer])
        path = tf.train.Checkpoint(items=[a, b, 5], same=(b, {"x/y.z": a})).write(str(tmp_path / "m"))
        found = tf.train.list_variables(path)
        assert [name for name, _ in found if "VARIABLE" in name] == [
            "items/0/.ATTRIBUTES/VARIABLE_VALUE",
            "items/1/.ATTRIBUTES/VARIABLE_VALUE",
        ]
        c, d = variable(0.0, "c"), variable(0.0, "d")
        tf.train.Checkpoint(same=[c, {"x/y.z": d}]).read(path).run_restore_ops()
        assert session.run([c, d]) == [2.0, 1.0]
    assert escaped("x/y.z") == "x.Sy..z"


def test_slots_and_tables(tmp_path):
    w = variable([1.0, 2.0], "w")
    optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
    train = optimizer.minimize(tf.reduce_sum(tf.square(w)))
    table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1)
    insert = table.insert(tf.constant(["a"]), tf.constant([5], tf.int64))
    checkpoint = tf.train.Checkpoint(w=w, optimizer=optimizer, table=table)
    shown = [w, optimizer.get_slot(w, "momentum"), table.lookup(tf.constant(["a", "b"]))]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([train, insert])
        wanted = session.run(shown)
        path = checkpoint.save(str(tmp_path / "m"))
    with tf.Session() as session:
        checkpoint.restore(path).assert_consumed().run_restore_ops()
        for found, value in zip(session.run(shown), wanted, strict=True):
            assert np.array_equal(found, value)
    key = "w/.OPTIMIZER_SLOT/optimizer/momentum/.ATTRIBUTES/VARIABLE_VALUE"
    assert tf.train.load_variable(path, key).tolist() == wanted[1].tolist()


def test_a_checkpoint_of_a_saver(tmp_path):
    with tf.Session() as session:
        v, w = variable(1.0, "v"), variable(2.0, "w")
        session.run([v.initializer, w.initializer])
        path = tf.train.Saver([v]).save(session, str(tmp_path / "m"))
        session.run([v.assign(0.0), w.assign(0.0)])
        status = tf.train.Checkpoint(any=v, other=w).restore(path)
        with pytest.raises(AssertionError, match="'w:0', which"):
            status.assert_consumed()
        status.initialize_or_restore()
        assert session.run([v, w]) == [1.0, 2.0]


def test_no_checkpoint_yet(tmp_path):
    v = variable(3.0)
    status = tf.train.Checkpoint(v=v).restore(tf.train.latest_checkpoint(str(tmp_path)))
    with pytest.raises(AssertionError, match="No checkpoint specified"):
        status.assert_consumed()
    with tf.Session() as session:
        status.initialize_or_restore(session)
        assert session.run(v) == 3.0


def test_what_is_refused(tmp_path):
    with pytest.raises(ValueError, match="was expecting a trackable object"):
        tf.train.Checkpoint(x=5)
    checkpoint = tf.train.Checkpoint(v=variable(1.0))
    with pytest.raises(RuntimeError, match="a checkpoint without a session"):
        checkpoint.save(str(tmp_path / "m"))
    with pytest.raises(tf.errors.NotFoundError, match="Failed to find any matching files"):
        checkpoint.restore(str(tmp_path / "m"))
    with pytest.raises(ValueError, match="Expected a positive integer or `None` for `max_to_keep`"):
        tf.train.CheckpointManager(checkpoint, str(tmp_path), 0)


def test_objects_of_other_classes(tmp_path):
    class Layer:
        def __init__(self):
            self.kernel = variable(1.0, "kernel")

        def _trackable_children(self):
            return {"kernel": self.kernel}

    layer, other = Layer(), Layer()
    with tf.Session() as session:
        session.run([layer.kernel.initializer, other.kernel.assign(2.0).op])
        path = tf.train.Checkpoint(layer=layer).write(str(tmp_path / "m"))
        tf.train.Checkpoint(root=tf.train.Checkpoint(layer=other)).read(path).assert_consumed().run_restore_ops()
        assert session.run(other.kernel) == 1.0


def test_a_manager_keeps_the_newest(tmp_path):
    v = variable(0.0)
    checkpoint = tf.train.Checkpoint(v=v)
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path), max_to_keep=2)
    assert manager.latest_checkpoint is None
    with tf.Session() as session:
        session.run(v.initializer)
        for _ in range(3):
            manager.save()
        assert manager.save(checkpoint_number=9) == str(tmp_path / "ckpt-9")
    assert manager.checkpoints == [str(tmp_path / "ckpt-3"), str(tmp_path / "ckpt-9")]
    again = tf.train.CheckpointManager(checkpoint, str(tmp_path), max_to_keep=2)
    assert again.checkpoints == manager.checkpoints
    assert again.latest_checkpoint == tf.train.latest_checkpoint(str(tmp_path)) == str(tmp_path / "ckpt-9")
    assert again.directory == str(tmp_path)
    indices = [name for name in os.listdir(tmp_path) if name.endswith(".index")]
    assert sorted(indices) == ["ckpt-3.index", "ckpt-9.index"]


def test_a_later_restoration_is_not_initialised_away(tmp_path):
    """What a later `restore` is for keeps its value when an earlier one initialises the rest, as in TensorFlow."""
    v, w = variable(0.0, "v"), variable(0.0, "w")
    with tf.Session() as session:
        session.run([v.initializer, w.assign(2.0).op])
        both = tf.train.Checkpoint(v=v).write(str(tmp_path / "both"))
        only = tf.train.Checkpoint(w=w).write(str(tmp_path / "only"))
    with tf.Session() as session:
        outer = tf.train.Checkpoint(v=v, w=w)
        first = outer.restore(both)
        nothing = tf.train.Checkpoint(w=w).restore(None)
        second = tf.train.Checkpoint(w=w).restore(only)
        second.run_restore_ops()
        first.initialize_or_restore()
        nothing.initialize_or_restore()
        assert session.run([v, w]) == [0.0, 2.0]
        del second
        tf.train.Checkpoint(w=w).restore(None).initialize_or_restore()
        assert session.run(w) == 0.0


def test_templates_within_templates(tmp_path):
    """Keys are TensorFlow 1.15's: a template that another one calls is a child of it."""

    def inner():
        return tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)

    def outer():
        w = tf.get_variable("w", [], initializer=tf.zeros_initializer(), use_resource=True)
        with tf.variable_scope("scope"):
            u = tf.get_variable("u", [], initializer=tf.zeros_initializer(), use_resource=True)
        first, second = tf.make_template("i1", inner), tf.make_template("i2", inner)
        return first() + second() + second() + w + u

    template = tf.make_template("any", outer)
    template()
    assert list(template._trackable_children()) == ["w", "scope/u", "i1", "i2"]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        path = tf.train.Checkpoint(t=template).write(str(tmp_path / "t"))
    end = "/.ATTRIBUTES/VARIABLE_VALUE"
    keys = [name[: -len(end)] for name, _ in tf.train.list_variables(path) if name.endswith(end)]
    assert keys == ["t/i1/v", "t/i2/v", "t/scope.Su", "t/w"]


def test_variables_of_objects_and_savers_without_a_counter(tmp_path):
    """What programs take from `training.checkpointable`."""
    item = tracking.AutoTrackable()
    with tf.variable_scope("scope"):
        v = tracking.add_variable(item, "v", shape=[2], initializer=tf.ones_initializer(), dtype=tf.float64)
    constant = tracking.add_variable(item, name="constant", initializer=7)
    again = tracking.add_variable(tracking.AutoTrackable(), "v", shape=[])
    assert [one.name for one in (v, constant, again)] == ["scope/v:0", "constant:0", "v:0"]
    assert (v.dtype.base_dtype, constant.dtype.base_dtype) == (tf.float64, tf.float32)
    with pytest.raises(ValueError, match="'v' already exists in this Trackable"):
        tracking.add_variable(item, "v", shape=[])
    with pytest.raises(ValueError, match="If initializer is a constant, do not specify shape"):
        tracking.add_variable(item, "w", shape=[], initializer=1)
    saver = tracking.CheckpointableSaver(item)
    with tf.Session() as session:
        session.run(tracking.gather_initializers(item))
        path = saver.save(str(tmp_path / "m"), checkpoint_number=3)
        session.run([v.assign([0.0, 0.0]).op, constant.assign(0).op])
        saver.restore(path).assert_consumed().run_restore_ops()
        assert session.run(constant) == 7
        assert session.run(v).tolist() == [1.0, 1.0]
    assert path == str(tmp_path / "m-3")
    assert all("save_counter" not in name for name, _ in tf.train.list_variables(path))
