"""SavedModels of TensorFlow and Keras give what TensorFlow gives; damaged and hostile ones are refused."""

from __future__ import annotations

import json
import os
import random
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from google.protobuf import text_format

import anabranch as tf
from anabranch.core.graphdef.attr_values import array_proto
from anabranch.core.protos import saved_model_pb2
from anabranch.saved_model.loaded import LoadedModel

MODELS = Path(__file__).parents[1] / "golden" / "saved_models"
REFUSED = (OSError, RuntimeError, TypeError, ValueError, NotImplementedError, tf.OpError)


def array(written: dict[str, Any]) -> np.ndarray:
    """An array as `expected.json` has it."""
    return np.array(written["value"], object if written["dtype"] == "string" else written["dtype"])


def expected(name: str) -> list[dict[str, Any]]:
    """The calls of a model, in order."""
    return json.loads((MODELS / name / "expected.json").read_text())


def check(model: LoadedModel, name: str) -> None:
    for call in expected(name):
        signature = model.signatures[call["signature"]]
        found = signature(**{key: array(value) for key, value in call["inputs"].items()})
        assert sorted(found) == sorted(call["outputs"])
        for key, written in call["outputs"].items():
            wanted = array(written)
            if written["dtype"] == "string":
                assert [item.decode() for item in np.ravel(found[key])] == list(wanted.ravel())
            else:
                np.testing.assert_allclose(found[key], wanted, rtol=2e-5, atol=2e-6, err_msg=key)
                assert np.asarray(found[key]).dtype == wanted.dtype


@pytest.mark.parametrize("name", sorted(path.name for path in MODELS.iterdir()))
@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_results_are_tensorflows(name: str, tier: str) -> None:
    tags = ["serve"]
    with tf.saved_model.load(str(MODELS / name), tags, config=tf.SessionOptions(tier=tier)) as model:
        check(model, name)


@pytest.mark.parametrize("name", sorted(path.name for path in MODELS.iterdir()))
def test_the_loader_of_version_1_reads_them_too(name: str) -> None:
    """With the model's own restore functions, and calls that stay calls in the graph."""
    with tf.Graph().as_default(), tf.Session() as session:
        meta = tf.saved_model.loader.load(session, ["serve"], str(MODELS / name))
        for call in expected(name):
            signature = meta.signature_def[call["signature"]]
            fed = {signature.inputs[key].name: array(value) for key, value in call["inputs"].items()}
            found = session.run({key: signature.outputs[key].name for key in call["outputs"]}, fed)
            for key, written in call["outputs"].items():
                if written["dtype"] != "string":
                    np.testing.assert_allclose(found[key], array(written), rtol=2e-5, atol=2e-6, err_msg=key)


def test_inputs_with_a_default(altered) -> None:
    def give(model) -> None:
        default = model.meta_graphs[0].signature_def["serving_default"].defaults["flag"]
        default.CopyFrom(array_proto(np.array(True)))

    with tf.saved_model.load(altered("many", give)) as model:
        assert not model(z=[1.0, 2.0], a=["x"])["flag"]
        assert model(z=[1.0, 2.0], a=["x"], flag=False)["flag"]


def test_what_a_model_tells() -> None:
    with tf.saved_model.load(MODELS / "steps") as model:
        assert sorted(model.signatures) == ["collatz", "serving_default", "train"]
        assert repr(model.signatures["train"]) == (
            "<Signature train(x: float32[?,3], y: float32[?,1]) -> {count: int64[], loss: float32[]}>"
        )
        assert {v.op.name: v.trainable for v in model.variables} == {"w": True, "count": True}
        assert "steps' with signatures ['collatz', 'serving_default', 'train']" in repr(model)
        given = np.ones([2, 3], np.float32)
        by_position, by_name = model(given), model.signatures["serving_default"](x=given)
        np.testing.assert_array_equal(by_position["y"], by_name["y"])
        # No node of the model's own save and restore functions is there.
        assert not {"SaveV2", "RestoreV2"} & {op.type for op in model.graph.get_operations()}


def test_a_training_step_of_a_model_changes_its_variables() -> None:
    with tf.saved_model.load(MODELS / "steps") as model:
        x, y = np.ones([4, 3], np.float32), np.zeros([4, 1], np.float32)
        losses = [float(model.signatures["train"](x, y)["loss"]) for _ in range(3)]
        assert losses[2] < losses[1] < losses[0]
        assert int(model.signatures["train"](x, y)["count"]) == 4
    with tf.saved_model.load(MODELS / "steps") as model:
        assert float(model.signatures["train"](x, y)["loss"]) == losses[0]


@pytest.mark.parametrize("name", ["many", "steps"])
def test_calls_by_the_names_of_functions(altered, name) -> None:
    """As older programs write them: the op type is the function's name, and results are called as it calls them."""
    changed = 0

    def rename(model) -> None:
        nonlocal changed
        library = model.meta_graphs[0].graph_def.library
        functions = {function.signature.name: function.signature for function in library.function}
        for function in library.function:
            results = {}
            for node in function.node_def:
                if node.op in ("PartitionedCall", "StatefulPartitionedCall"):
                    node.op = node.attr["f"].func.name
                    results[node.name] = [arg.name for arg in functions[node.op].output_arg]
                    for key in list(node.attr):
                        del node.attr[key]
                    changed += len(results[node.name]) > 1
            edges = [(node.input, i) for node in function.node_def for i in range(len(node.input))]
            for holder, place in edges + [(function.ret, key) for key in function.ret]:
                node_name, *rest = holder[place].split(":")
                if node_name in results:
                    holder[place] = f"{node_name}:{results[node_name][int(rest[1])]}:0"

    with tf.saved_model.load(altered(name, rename)) as model:
        check(model, name)
    assert changed


def test_functions_that_are_no_signatures(altered) -> None:
    with tf.saved_model.load(MODELS / "steps") as model:
        assert model.functions == {"collatz": 1, "predict": 1, "train": 1}
        predict = model.function("predict")
        assert predict is model.function("predict", 0)
        x = np.ones([2, 3], np.float32)
        np.testing.assert_array_equal(predict(x)["y"], model(x)["y"])
        model.function("train")(x, np.zeros([2, 1]))  # the same variables
        np.testing.assert_array_equal(predict(x)["y"], model(x)["y"])
        assert len(model.variables) == 2
        with pytest.raises(ValueError, match="function 'none', trace 0"):
            model.function("none")
        with pytest.raises(ValueError, match="function 'predict', trace 1"):
            model.function("predict", 1)

    def without_signatures(proto) -> None:
        root = proto.meta_graphs[0].object_graph_def.nodes[0]
        kept = [child for child in root.children if child.local_name != "signatures"]
        del root.children[:]
        root.children.extend(kept)

    with tf.saved_model.load(altered("words", without_signatures)) as model:
        assert (model.signatures, model.functions) == ({}, {"__call__": 1})
        check_calls = expected("words")
        for call in check_calls:
            found = model(np.array(call["inputs"]["text"]["value"], object))
            assert found["ids"].tolist() == call["outputs"]["ids"]["value"]
            assert found["before"].tolist() == call["outputs"]["before"]["value"]
    with (
        tf.saved_model.load(altered("steps", without_signatures)) as model,
        pytest.raises(TypeError, match="functions"),
    ):
        model(1)


@pytest.mark.parametrize(
    ("arguments", "keywords", "message"),
    [
        ((), {}, r"no value for \['a', 'flag', 'z'\]"),
        ((1, 2, 3, 4), {}, "4 positional arguments"),
        ((), {"q": 1}, "an argument called 'q'"),
        ((["x"],), {"a": ["y"]}, "argument 'a' twice"),
    ],
)
def test_calls_that_are_refused(arguments, keywords, message) -> None:
    with tf.saved_model.load(MODELS / "many") as model, pytest.raises(TypeError, match=message):
        model(*arguments, **keywords)


def test_a_wrong_shape_is_refused() -> None:
    with tf.saved_model.load(MODELS / "many") as model, pytest.raises(ValueError, match="shape"):
        model(z=[1.0, 2.0, 3.0], flag=True, a=["x"])


# ----------------------------------------------------------------------------------------------------------------- tags
def test_tags() -> None:
    folder = str(MODELS / "version_1")
    with tf.saved_model.load(folder, ["other", "serve"]) as model:
        assert list(model.signatures) == ["serving_default"]
        assert list(model.signatures["serving_default"].outputs) == ["twice"]
    with tf.saved_model.load(folder) as model:  # several, of which one is ["serve"]
        assert sorted(model.signatures) == ["serving_default", "words"]
    with pytest.raises(RuntimeError, match="tags 'train' could not be found in SavedModel"):
        tf.saved_model.load(folder, "train")
    with pytest.raises(TypeError, match="after the model's folder"):
        tf.saved_model.load(folder, None, "more")


def test_the_only_meta_graph_needs_no_tags(altered) -> None:
    def retag(model) -> None:
        model.meta_graphs[0].meta_info_def.tags[:] = ["mine"]

    with tf.saved_model.load(altered("many", retag)) as model:
        check(model, "many")


def test_tags_are_needed(altered) -> None:
    def twice(model) -> None:
        model.meta_graphs[0].meta_info_def.tags[:] = ["a"]
        model.meta_graphs.add().CopyFrom(model.meta_graphs[0])
        model.meta_graphs[1].meta_info_def.tags[:] = ["b"]

    with pytest.raises(RuntimeError, match="no tags for the SavedModel"):
        tf.saved_model.load(altered("many", twice))


def test_text(altered) -> None:
    folder = Path(altered("many"))
    proto = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    (folder / "saved_model.pb").unlink()
    (folder / "saved_model.pbtxt").write_text(text_format.MessageToString(proto))
    with tf.saved_model.load(folder) as model:
        check(model, "many")


# ------------------------------------------------------------------------------------------------------ what is missing
def test_op_types_that_are_not_defined(altered) -> None:
    def rename(model) -> None:
        for function in model.meta_graphs[0].graph_def.library.function:
            for node in function.node_def:
                if node.op == "FloorDiv" or (node.op == "FloorMod"):
                    node.op = f"New{node.op}"

    with tf.saved_model.load(altered("steps", rename)) as model:
        model(np.ones([1, 3], np.float32))
        assert "cannot be called" in repr(model.signatures["collatz"])
        with pytest.raises(NotImplementedError, match="'NewFloorDiv', 'NewFloorMod'"):
            model.signatures["collatz"](n=3)


def test_no_model(tmp_path) -> None:
    with pytest.raises(OSError, match="SavedModel file does not exist at"):
        tf.saved_model.load(tmp_path)
    assert not tf.saved_model.contains_saved_model(tmp_path)
    assert tf.saved_model.loader.maybe_saved_model_directory(str(MODELS / "many"))
    (tmp_path / "saved_model.pb").write_bytes(b"\xff\xfe\xfd")
    with pytest.raises(OSError, match="Cannot parse file"):
        tf.saved_model.load(tmp_path)


def test_a_later_schema(altered) -> None:
    def later(model) -> None:
        model.saved_model_schema_version = 2

    with pytest.raises(OSError, match="schema version 2"):
        tf.saved_model.load(altered("many", later))


def test_no_checkpoint(altered) -> None:
    folder = altered("many")
    shutil.rmtree(os.path.join(folder, "variables"))
    with pytest.raises(tf.errors.NotFoundError, match="without a checkpoint of its variables"):
        tf.saved_model.load(folder)


def test_a_torn_checkpoint(altered) -> None:
    folder = altered("cnn")
    path = os.path.join(folder, "variables", "variables.data-00000-of-00001")
    with open(path, "r+b") as stream:
        stream.truncate(os.path.getsize(path) // 2)
    with pytest.raises(tf.errors.DataLossError, match=r"variables\.data"):
        tf.saved_model.load(folder)


def test_a_variable_without_value(altered) -> None:
    def rename(model) -> None:
        for child in model.meta_graphs[0].object_graph_def.nodes[0].children:
            if child.local_name == "b":
                child.local_name = "c"

    with pytest.raises(tf.errors.NotFoundError, match=r"no value for \['same_1:0'\]"):
        tf.saved_model.load(altered("many", rename))


def test_calls_without_end(altered) -> None:
    def around(model) -> None:
        functions = {f.signature.name: f for f in model.meta_graphs[0].graph_def.library.function}
        wrapper = next(f for name, f in functions.items() if "signature_wrapper" in name)
        call = next(node for node in wrapper.node_def if node.op == "StatefulPartitionedCall")
        functions[call.attr["f"].func.name].node_def.add(name="again", op=call.op).attr["f"].CopyFrom(call.attr["f"])

    with (
        tf.saved_model.load(altered("many", around)) as model,
        pytest.raises(NotImplementedError, match="calls itself"),
    ):
        model(z=[1.0, 2.0], flag=True, a=["x"])


# --------------------------------------------------------------------------------------------------------------- assets
@pytest.mark.parametrize(
    "name", ["../secret.txt", "/etc/hostname", "a/../../secret.txt", "..\\secret.txt", "C:\\secret.txt", "", "a\0b"]
)
@pytest.mark.parametrize("model", ["words", "version_1"])
def test_assets_stay_inside(altered, tmp_path, name, model) -> None:
    (tmp_path / "secret.txt").write_text("secret\n")

    def lead_out(proto) -> None:
        for meta in proto.meta_graphs:
            for asset in meta.asset_file_def:
                asset.filename = name
            if "saved_model_assets" in meta.collection_def:
                held = meta.collection_def["saved_model_assets"].any_list.value[0]
                asset = saved_model_pb2.AssetFileDef.FromString(held.value)
                asset.filename = name
                held.value = asset.SerializeToString()

    with pytest.raises(tf.errors.PermissionDeniedError, match="leads out of the model's folder"):
        tf.saved_model.load(altered(model, lead_out), ["serve"])


def test_links_do_not_lead_out(altered, tmp_path) -> None:
    secret = tmp_path / "secret.txt"
    secret.write_text("secret\n")
    folder = Path(altered("words"))
    (folder / "assets" / "vocabulary.txt").unlink()
    (folder / "assets" / "vocabulary.txt").symlink_to(secret)
    with pytest.raises(tf.errors.PermissionDeniedError, match="leads out of the model's folder"):
        tf.saved_model.load(folder)
    (folder / "assets" / "vocabulary.txt").unlink()
    with pytest.raises(tf.errors.NotFoundError, match=r"vocabulary\.txt"):
        tf.saved_model.load(folder)


# ------------------------------------------------------------------------------------------ values of several tensors
def test_ragged_and_sparse_values() -> None:
    ragged = tf.saved_model.RaggedTensorValue
    with tf.saved_model.load(MODELS / "ragged") as model:
        found = model.function("split")(["the quick fox", "", "a b"])
        assert found["words"].to_list() == [[b"the", b"quick", b"fox"], [], [b"a", b"b"]]
        assert found["counts"].tolist() == [3, 0, 2]
        sparse, rows = model.function("stored")(np.float32([[1, 0, 2], [0, 3, 0]])).values()
        assert isinstance(sparse, tf.SparseTensorValue)
        assert sparse.indices.tolist() == [[0, 0], [0, 2], [1, 1]]
        assert rows.to_list() == [[1.0, 0.0, 2.0], [0.0, 3.0]]
        scaled = model.function("scaled")
        assert repr(scaled) == (
            "<Signature scaled(rows: ragged float32, factor: float32[]) -> "
            "{tensor_0: float32[?], output: ragged float32}>"
        )
        for given in ([[1.0, 2.0], [], [3.0]], ragged(np.float32([1, 2, 3]), (np.int64([0, 2, 2, 3]),))):
            sums, products = scaled(given, factor=2.0).values()
            assert sums.tolist() == [3.0, 0.0, 3.0]
            assert products.to_list() == [[2.0, 4.0], [], [6.0]]
        dense = model.function("dense")
        assert next(iter(dense(sparse).values())).tolist() == [[1.0, 0.0, 2.0], [0.0, 3.0, 0.0]]
        with pytest.raises(TypeError, match="a list for a sparse tensor"):
            dense([[1.0, 0.0, 0.0]])
        with pytest.raises(TypeError, match="lists, 1 deep"):
            scaled([1.0, 2.0], 2.0)
        with pytest.raises(TypeError, match="a float for a ragged tensor"):
            scaled(1.0, 2.0)


# -------------------------------------------------------------------------------------------------------------- fuzzing
def damaged(data: bytes, source: random.Random) -> bytes:
    """``data`` with a few bytes changed, removed, added or copied."""
    found = bytearray(data)
    for _ in range(source.choice([1, 1, 2, 4, 8])):
        at, how = source.randrange(len(found)), source.random()
        if how < 0.6:
            found[at] = source.randrange(256)
        elif how < 0.7:
            del found[at : at + source.randrange(1, 8)]
        elif how < 0.8:
            found[at:at] = source.randbytes(source.randrange(1, 5))
        else:
            start, size = source.randrange(len(found)), source.randrange(1, 40)
            found[at : at + size] = found[start : start + size]
    return bytes(found)


def renamed(proto, source: random.Random) -> None:
    """Changes one text or number somewhere in a message."""
    fields = [
        (field, value) for field, value in proto.ListFields() if field.type not in (field.TYPE_BOOL, field.TYPE_ENUM)
    ]
    if not fields:
        return
    field, value = source.choice(fields)
    many = getattr(field, "is_repeated", None)
    many = field.label == field.LABEL_REPEATED if many is None else many
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        key = source.choice(sorted(value))
        if hasattr(value[key], "ListFields"):
            renamed(value[key], source)
        else:
            value[key] = "nowhere" if isinstance(value[key], str) else 7
    elif field.type == field.TYPE_MESSAGE:
        renamed(source.choice(list(value)) if many else value, source)
    else:
        new = {str: "nowhere", bytes: b"nowhere", int: source.choice([-1, 0, 1, 10**6]), float: 1e30}
        current = value[0] if many else value
        replacement = new[type(current)]
        if field.type in (field.TYPE_UINT32, field.TYPE_UINT64):
            replacement = abs(replacement)
        if many:
            value[source.randrange(len(value))] = replacement
        else:
            setattr(proto, field.name, replacement)


def fuzz(name: str, folder: Path, count: int, seed: int) -> None:
    source = random.Random(seed)
    shutil.copytree(MODELS / name, folder)
    data = (folder / "saved_model.pb").read_bytes()
    proto = saved_model_pb2.SavedModel.FromString(data)
    for _ in range(count):
        if source.random() < 0.5:
            changed = damaged(data, source)
        else:
            other = saved_model_pb2.SavedModel()
            other.CopyFrom(proto)
            renamed(other, source)
            changed = other.SerializeToString()
        (folder / "saved_model.pb").write_bytes(changed)
        try:
            with tf.saved_model.load(folder, ["serve"]):
                pass
        except REFUSED:
            continue


@pytest.mark.parametrize("edge", ["^{}", "nowhere", ":0", ""])
def test_a_function_that_returns_no_tensor_is_refused(edge, tmp_path) -> None:
    folder = tmp_path / "model"
    shutil.copytree(MODELS / "steps", folder)
    proto = saved_model_pb2.SavedModel.FromString((folder / "saved_model.pb").read_bytes())
    for function in proto.meta_graphs[0].graph_def.library.function:
        for name in function.ret:
            function.ret[name] = edge.format(function.ret[name].partition(":")[0])
    (folder / "saved_model.pb").write_bytes(proto.SerializeToString())
    with pytest.raises(ValueError, match="with the edge"):
        tf.saved_model.load(folder, ["serve"])


@pytest.mark.parametrize("name", ["many", "words", "version_1"])
def test_damaged_descriptions_are_refused_or_loaded(name, tmp_path) -> None:
    fuzz(name, tmp_path / "model", 60, 1)


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", ["many", "words", "version_1", "steps", "gru"])
def test_many_damaged_descriptions(name, tmp_path) -> None:
    fuzz(name, tmp_path / "model", 1000, 2)
