"""``tf.saved_model.save`` where ops run at once, and what reads it again."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager.mode import EAGER


@pytest.fixture(autouse=True)
def at_once():
    with EAGER.as_default():
        yield


class _Model(tf.Module):
    def __init__(self):
        self.w = tf.Variable(np.ones((2, 3), np.float32), name="w")
        self.calls = tf.Variable(0, trainable=False, name="calls")
        self.everything = [self.w, self.calls]
        initializer = tf.lookup.KeyValueTensorInitializer(["a", "b"], [1, 2])
        self.table = tf.lookup.StaticHashTable(initializer, -1)

    @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32, name="x")])
    def apply(self, x):
        self.calls.assign_add(1)
        return {"y": tf.matmul(x, self.w) + tf.constant([1.0, 2.0, 3.0]), "parts": [x, None]}

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string)])
    def numbers(self, words):
        return self.table.lookup(words)


@pytest.fixture
def folder(tmp_path):
    model = _Model()
    tf.saved_model.save(model, tmp_path / "model", {"serving_default": model.apply})
    return str(tmp_path / "model")


def test_functions_come_back_with_structures_variables_and_tables(folder):
    loaded = tf.saved_model.load(folder)
    with tf.GradientTape() as tape:
        results = loaded.apply(tf.ones([1, 2]))
        y = results["y"]
    assert results["parts"][1] is None
    assert y.numpy().tolist() == [[3, 4, 5]]
    w, calls = loaded.everything
    assert tape.gradient(y, w).numpy().tolist() == [[1, 1, 1], [1, 1, 1]]
    assert (w.trainable, calls.trainable, int(calls.numpy())) == (True, False, 1)
    assert loaded.numbers(tf.constant(["b", "c"])).numpy().tolist() == [2, -1]
    assert set(loaded.signatures["serving_default"](x=tf.ones([1, 2]))) == {"parts", "y"}
    w.assign(tf.zeros([2, 3]))
    assert tf.function(lambda x: loaded.apply(x)["y"])(tf.ones([1, 2])).numpy().tolist() == [[1, 2, 3]]
    with pytest.raises(TypeError, match="2 tensors for apply"):
        loaded.apply(tf.ones([1, 2]), tf.ones([1, 2]))


def test_a_program_of_graphs_serves_the_signatures(folder):
    with tf.Graph().as_default(), tf.saved_model.load(folder) as model:
        assert model.signatures["serving_default"](x=np.ones((1, 2)))["y"].tolist() == [[3, 4, 5]]


def test_a_model_in_the_folder_is_replaced(folder):
    class Other(tf.Module):
        @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
        def twice(self, x):
            return x + x

    tf.saved_model.save(Other(), folder)
    loaded = tf.saved_model.load(folder)
    assert loaded.twice(2.0).numpy() == 4
    assert not hasattr(loaded, "apply")
    assert list(loaded.signatures) == ["serving_default"]


def test_what_cannot_be_saved_is_refused(tmp_path):
    twice = tf.function(lambda x: x + x)
    twice(tf.constant(1.0))
    twice(tf.constant(1))
    with pytest.raises(ValueError, match="a function traced for one kind of arguments"):
        tf.saved_model.save(tf.Module(), tmp_path, {"twice": twice})
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match="while a graph is built"):
        tf.saved_model.save(tf.Module(), tmp_path)
    with pytest.raises(tf.errors.UnimplementedError, match="SaveOptions"):
        tf.saved_model.SaveOptions(function_aliases={"a": twice})
    module = tf.Module()
    module.sparse = tf.function(lambda x: tf.SparseTensor([[0]], x, [3]), [tf.TensorSpec([1], tf.float32)])
    with pytest.raises(tf.errors.UnimplementedError, match="a function that returns"):
        tf.saved_model.save(module, tmp_path)
