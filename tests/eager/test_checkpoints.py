"""`tf.train.Checkpoint` and `tf.train.Saver` where ops run at once, and restoration of what is made later."""

from __future__ import annotations

import gc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.variables import tracking

VALUE = ".ATTRIBUTES/VARIABLE_VALUE"


def keys(path: str) -> list[str]:
    """The keys of a checkpoint, without the graph of its objects and the counter."""
    return sorted(name for name, _ in tf.train.list_variables(path) if not name.startswith(("_CHECK", "save_counter")))


def test_values_are_restored_at_once(tmp_path: Path) -> None:
    v = tf.Variable([1.0, 2.0])
    checkpoint = tf.train.Checkpoint(v=v)
    path = checkpoint.save(str(tmp_path / "model"))
    assert path.endswith("model-1")
    assert tf.train.latest_checkpoint(str(tmp_path)) == path
    v.assign([0.0, 0.0])
    status = checkpoint.restore(path)
    assert v.numpy().tolist() == [1.0, 2.0]
    status.assert_consumed().assert_existing_objects_matched().assert_nontrivial_match()
    status.run_restore_ops()
    status.initialize_or_restore()
    assert int(checkpoint.save_counter) == 1
    assert checkpoint.save(str(tmp_path / "model")).endswith("model-2")


def test_objects_that_come_later_are_restored_then(tmp_path: Path) -> None:
    class Holder(tf.contrib.checkpoint.Checkpointable):  # type: ignore[misc, name-defined]
        def __init__(self) -> None:
            self.items: list[Any] = []
            self.named: dict[str, Any] = {}

    saved = Holder()
    saved.v = tf.Variable([1.0, 2.0])
    saved.items.append(tf.Variable(3.0))
    saved.named["k"] = tf.Variable(4.0)
    saved.inner = Holder()
    saved.inner.items = [tf.Variable(5.0), {"w": tf.Variable(6.0)}]
    path = tf.train.Checkpoint(holder=saved).save(str(tmp_path / "model"))
    inner = ["inner/items/0", "inner/items/1/w"]
    assert keys(path) == [f"holder/{name}/{VALUE}" for name in (*inner, "items/0", "named/k", "v")]

    made = Holder()
    status = tf.train.Checkpoint(holder=made).restore(path)
    with pytest.raises(AssertionError, match="Unresolved object in checkpoint"):
        status.assert_consumed()
    made.v = tf.Variable([0.0, 0.0])
    made.items.append(tf.Variable(0.0))
    made.named["k"] = tf.Variable(0.0)
    inside = Holder()
    inside.items.extend([tf.Variable(0.0), {}])
    made.inner = inside
    inside.items[1]["w"] = tf.Variable(0.0)
    status.assert_consumed()
    values = [made.v, made.items[0], made.named["k"], inside.items[0], inside.items[1]["w"]]
    assert [value.numpy().tolist() for value in values] == [[1.0, 2.0], 3.0, 4.0, 5.0, 6.0]
    made.v = tf.Variable([7.0, 7.0])  # what takes the place of something that was restored is new
    assert made.v.numpy().tolist() == [7.0, 7.0]


def test_a_layer_and_its_optimizer_go_on_as_if_they_had_not_stopped(tmp_path: Path) -> None:
    x = tf.ones([1, 3])

    def step(layer: Any, optimizer: Any) -> None:
        optimizer.minimize(lambda: tf.reduce_sum(layer(x) ** 2))

    layer, optimizer = tf.layers.Dense(2), tf.train.AdamOptimizer(0.1)
    step(layer, optimizer)
    path = tf.train.Checkpoint(layer=layer, optimizer=optimizer).save(str(tmp_path / "model"))
    slots = [f"layer/{name}/.OPTIMIZER_SLOT/optimizer/{slot}" for name in ("bias", "kernel") for slot in ("m", "v")]
    own = [f"layer/{name}" for name in ("bias", "kernel")]
    powers = ["optimizer/beta1_power", "optimizer/beta2_power"]
    assert keys(path) == sorted(f"{name}/{VALUE}" for name in (*slots, *own, *powers))
    step(layer, optimizer)

    other, others_optimizer = tf.layers.Dense(2), tf.train.AdamOptimizer(0.1)
    status = tf.train.Checkpoint(layer=other, optimizer=others_optimizer).restore(path)
    step(other, others_optimizer)
    status.assert_consumed()
    for one, two in zip(layer.variables, other.variables, strict=True):
        np.testing.assert_array_equal(one.numpy(), two.numpy())


def test_slots_are_made_with_their_values(tmp_path: Path) -> None:
    v, optimizer = tf.Variable([1.0, 2.0]), tf.train.MomentumOptimizer(0.1, 0.9)
    optimizer.minimize(lambda: tf.reduce_sum(v * v))
    path = tf.train.Checkpoint(v=v, optimizer=optimizer).save(str(tmp_path / "model"))
    w, other = tf.Variable([0.0, 0.0]), tf.train.MomentumOptimizer(0.1, 0.9)
    tf.train.Checkpoint(w=w, v=w, optimizer=other).restore(path).assert_consumed()
    assert other.get_slot(w, "momentum").numpy().tolist() == [2.0, 4.0]


def test_what_does_not_fit_changes_nothing(tmp_path: Path) -> None:
    path = tf.train.Checkpoint(a=tf.Variable([1.0]), b=tf.Variable([1.0, 2.0])).save(str(tmp_path / "model"))
    a, b = tf.Variable([9.0]), tf.Variable([9.0])
    with pytest.raises(ValueError, match="hapes"):
        tf.train.Checkpoint(a=a, b=b).restore(path)
    assert (a.numpy().tolist(), b.numpy().tolist()) == ([9.0], [9.0])
    with pytest.raises(tf.errors.NotFoundError, match="Failed to find any matching files"):
        tf.train.Checkpoint(a=a).restore(str(tmp_path / "nothing"))
    with pytest.raises(ValueError, match="was expecting a trackable object"):
        tf.train.Checkpoint(a=3)


def test_a_checkpoint_by_name_is_restored_by_name(tmp_path: Path) -> None:
    path = tf.train.Saver([tf.Variable([1.0, 2.0], name="v")]).save(None, str(tmp_path / "model"))
    w = tf.Variable([0.0, 0.0], name="v")
    tf.train.Checkpoint(w=w).restore(path).assert_existing_objects_matched()
    assert w.numpy().tolist() == [1.0, 2.0]
    path = tf.train.Checkpoint(w=w).save(str(tmp_path / "object"))
    w.assign([0.0, 0.0])
    tf.train.Saver([w]).restore(None, path)
    assert w.numpy().tolist() == [1.0, 2.0]


def test_a_manager_keeps_the_newest(tmp_path: Path) -> None:
    v = tf.Variable(1.0)
    checkpoint = tf.train.Checkpoint(v=v)
    called: list[bool] = []
    manager = tf.train.CheckpointManager(checkpoint, str(tmp_path), 2, init_fn=lambda: called.append(True))
    assert manager.restore_or_initialize() is None
    assert called == [True]
    for _ in range(3):
        v.assign_add(1.0)
        manager.save()
    assert [path[-6:] for path in manager.checkpoints] == ["ckpt-2", "ckpt-3"]
    assert manager.save(checkpoint_number=tf.constant(9)).endswith("ckpt-9")
    v.assign(0.0)
    assert manager.restore_or_initialize() == manager.latest_checkpoint
    assert float(v) == 4.0


def test_iterators_tables_and_arrays_are_part_of_it(tmp_path: Path) -> None:
    iterator = tf.data.Dataset.range(10).make_one_shot_iterator()
    table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1)
    arrays = tf.contrib.checkpoint.NumpyState()
    next(iterator)
    table.insert(tf.constant(["a"]), tf.constant([1], tf.int64))
    arrays.x = np.array([1.0, 2.0])
    checkpoint = tf.train.Checkpoint(iterator=iterator, table=table, arrays=arrays)
    path = checkpoint.save(str(tmp_path / "model"))
    next(iterator)
    table.insert(tf.constant(["a"]), tf.constant([9], tf.int64))
    arrays.x[:] = 0.0
    checkpoint.restore(path)
    assert int(next(iterator)) == 1
    assert table.lookup(tf.constant(["a", "b"])).numpy().tolist() == [1, -1]
    assert arrays.x.tolist() == [1.0, 2.0]
    other = tf.contrib.checkpoint.NumpyState()
    tf.train.Checkpoint(arrays=other).restore(path)
    assert other.x.tolist() == [1.0, 2.0]
    with pytest.raises(NotImplementedError, match="is not a NumPy array"):
        arrays.y = 3


def test_a_status_goes_with_its_objects(tmp_path: Path) -> None:
    path = tf.train.Checkpoint(a=tf.Variable(1.0), b=tf.Variable(2.0)).save(str(tmp_path / "model"))
    tracking.waiting.clear()
    holder = tf.contrib.checkpoint.Checkpointable()
    tf.train.Checkpoint(root=holder).restore(path)  # nobody keeps the checkpoint or its status
    gc.collect()
    holder.a = tf.Variable(0.0)
    assert float(holder.a) == 1.0
    del holder
    gc.collect()
    assert len(tracking.waiting) == 0


def test_a_later_restoration_comes_in_place_of_an_earlier_one(tmp_path: Path) -> None:
    first = tf.train.Checkpoint(v=tf.Variable(1.0)).save(str(tmp_path / "one"))
    second = tf.train.Checkpoint(v=tf.Variable(2.0)).save(str(tmp_path / "two"))
    checkpoint = tf.train.Checkpoint()
    checkpoint.restore(first)
    checkpoint.restore(second)
    checkpoint.v = tf.Variable(0.0)
    assert float(checkpoint.v) == 2.0


def test_a_template_is_saved_by_the_names_within_its_scope(tmp_path: Path) -> None:
    def template() -> Any:
        return tf.make_template("scale", lambda: tf.get_variable("w", [], initializer=tf.zeros_initializer()))

    one, two = template(), template()
    one().assign(3.0)
    path = tf.train.Checkpoint(template=one).save(str(tmp_path / "model"))
    assert keys(path) == [f"template/w/{VALUE}"]
    tf.train.Checkpoint(template=two).restore(path)
    assert float(two()) == 3.0
