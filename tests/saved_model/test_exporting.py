"""``tf.saved_model.save`` where ops run at once, and what reads it again."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.protos import object_graph_pb2, saved_model_pb2
from anabranch.eager.mode import EAGER
from anabranch.saved_model.object_graph import CHECKPOINT_KEY, leaves
from anabranch.train.saving.checkpoint_reader import NewCheckpointReader
from tests.saved_model.test_loaded import MODELS, array


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
    with pytest.raises(ValueError, match="Could not find matching function to call loaded from the SavedModel"):
        loaded.apply(tf.ones([1, 2]), tf.ones([1, 2]))
    for trace in (*loaded.apply.concrete_functions, loaded.signatures["serving_default"]):
        assert [one is w for one in trace.trainable_variables] == [True]
        assert set(trace.variables) <= {w, calls}
    (trace, *_) = loaded.apply.concrete_functions
    assert trace(tf.ones([1, 2]))["y"].numpy().tolist() == [[1, 2, 3]]
    with pytest.raises(TypeError, match=r"Given: the arguments \(\) and \{\}"):
        trace()


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


class _Objects(tf.Module):
    def __init__(self, words):
        self.inner = tf.Module()
        self.inner.b = tf.Variable([1.0, 2.0], name="b")
        self.named = {"a": tf.Variable(5.0)}
        self.words = tf.saved_model.Asset(words)

    @tf.function
    def add(self, pair, twice=False, *, k=1.0):
        total = pair["x"] + pair["y"] + self.inner.b
        return total * 2.0 if twice else [total, k]

    @tf.function(input_signature=[])
    def text(self):
        return tf.read_file(self.words.asset_path)


def test_objects_traces_and_assets_come_back(tmp_path):
    (tmp_path / "words.txt").write_text("hello")
    model = _Objects(tmp_path / "words.txt")
    one = {"x": tf.ones([2]), "y": tf.ones([2])}
    model.add(one)
    model.add(one, True)
    tf.saved_model.save(model, tmp_path / "model", {"text": model.text})
    (tmp_path / "words.txt").unlink()
    loaded = tf.saved_model.load(tmp_path / "model")
    assert loaded.add(one, twice=True).numpy().tolist() == [6, 8]
    assert loaded.add({"x": np.ones(2, np.float32), "y": np.zeros(2, np.float32)})[0].numpy().tolist() == [2, 3]
    assert float(loaded.named["a"].numpy()) == 5
    assert loaded.text().numpy() == loaded.signatures["text"]()["output_0"].numpy() == b"hello"
    loaded.inner.b.assign([0.0, 0.0])
    assert loaded.add(one, True).numpy().tolist() == [4, 4]
    with pytest.raises(ValueError, match="Could not find matching function to call loaded from the SavedModel"):
        loaded.add(one, k=2.0)
    with pytest.raises(TypeError, match="has no function __call__"):
        loaded(one)
    with pytest.raises(TypeError, match=r"by the names \[\]"):
        loaded.signatures["text"](tf.ones([]))
    with pytest.raises(tf.errors.UnimplementedError, match="was loaded from a model"):
        tf.saved_model.save(loaded, tmp_path / "again")
    tf.saved_model.save(loaded.inner, tmp_path / "again")
    assert tf.saved_model.load(tmp_path / "again").b.numpy().tolist() == [0, 0]


def test_what_tensorflow_2_looks_for_is_in_the_file(folder):
    data = (Path(folder) / "saved_model.pb").read_bytes()
    (meta,) = saved_model_pb2.SavedModel.FromString(data).meta_graphs
    objects = meta.object_graph_def
    library = {item.signature.name: item.signature for item in meta.graph_def.library.function}
    constants = {node.name for node in meta.graph_def.node if node.op == "Const"}
    tracked = object_graph_pb2.TrackableObjectGraph()
    tracked.ParseFromString(NewCheckpointReader(f"{folder}/variables/variables").get_tensor(CHECKPOINT_KEY))
    assert objects.nodes[0].user_object.identifier == "_generic_user_object"
    kinds = [node.WhichOneof("kind") for node in objects.nodes]
    assert None not in kinds
    assert {"variable", "resource", "function", "bare_concrete_function", "constant"} < set(kinds)
    assert len(tracked.nodes) == len(objects.nodes)
    keys = {item.checkpoint_key for node in tracked.nodes for item in node.attributes}
    assert keys == {"w/.ATTRIBUTES/VARIABLE_VALUE", "calls/.ATTRIBUTES/VARIABLE_VALUE"}
    for name, concrete in objects.concrete_functions.items():
        arguments = [arg.type for arg in library[name].input_arg]
        captured = [kinds[node] for node in concrete.bound_inputs]
        given = len(leaves(concrete.canonicalized_input_signature))
        assert len(arguments) == given + len(captured)
        handles = [kind in ("variable", "resource") for kind in captured]
        assert [kind == tf.resource.as_datatype_enum for kind in arguments[given:]] == handles
    assert all(node.constant.operation in constants for node in objects.nodes if node.WhichOneof("kind") == "constant")


@pytest.mark.parametrize("name", ["many", "words"])
def test_models_of_tensorflow_2_are_objects_too(name):
    path = MODELS / name
    loaded = tf.saved_model.load(str(path))
    for call in json.loads((path / "expected.json").read_text()):
        given = {key: tf.constant(array(value)) for key, value in call["inputs"].items()}
        results = loaded.signatures[call["signature"]](**given)
        assert sorted(results) == sorted(call["outputs"])
        for key, wanted in call["outputs"].items():
            value, other = results[key].numpy(), array(wanted)
            if wanted["dtype"] == "string":
                assert [item.decode() for item in np.ravel(value)] == list(other.ravel())
            else:
                np.testing.assert_allclose(value, other, rtol=2e-5, atol=2e-6, err_msg=key)
