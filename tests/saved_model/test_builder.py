"""Writing SavedModels and reading them again: variables, tags, assets, tables, init operations."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.contract import inference, opdef
from anabranch.core.contract.opdef import PURE, NotDifferentiable, define
from anabranch.core.protos import saved_model_pb2
from anabranch.saved_model import files
from anabranch.saved_model.loader import SavedModelLoader

predict = tf.saved_model.signature_def_utils.predict_signature_def


def linear(use_resource: bool = False):
    """A graph with two variables, one of them partitioned; input and output."""
    x = tf.placeholder(tf.float32, [None, 4], name="x")
    w = tf.get_variable(
        "w",
        [4, 2],
        initializer=tf.ones_initializer(),
        partitioner=tf.fixed_size_partitioner(2),
        use_resource=use_resource,
    )
    b = tf.get_variable("b", initializer=np.float32([1, -1]), use_resource=use_resource)
    return x, tf.add(tf.matmul(x, tf.concat(list(w), 0)), b, name="y")


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("as_text", [False, True])
def test_there_and_back(tmp_path, use_resource, as_text) -> None:
    folder = str(tmp_path / "model")
    given = np.arange(8, dtype=np.float32).reshape(2, 4)
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = linear(use_resource)
        session.run(tf.global_variables_initializer())
        session.run(tf.global_variables()[0].assign([[5.0, 6.0], [7.0, 8.0]]))
        wanted = session.run(y, {x: given})
        builder = tf.saved_model.builder.SavedModelBuilder(folder)
        builder.add_meta_graph_and_variables(session, ["serve"], {"serving_default": predict({"x": x}, {"y": y})})
        path = builder.save(as_text)
    assert os.fsdecode(path) == os.path.join(folder, "saved_model.pbtxt" if as_text else "saved_model.pb")
    with tf.Graph().as_default(), tf.Session() as session:
        meta = tf.saved_model.loader.load(session, ["serve"], folder)
        signature = meta.signature_def["serving_default"]
        fed = tf.saved_model.utils.get_tensor_from_tensor_info(signature.inputs["x"])
        assert session.run(signature.outputs["y"].name, {fed: given}).tolist() == wanted.tolist()
        assert [v.op.name for v in tf.global_variables()] == ["w/part_0", "w/part_1", "b"]
    with tf.saved_model.load(folder) as model:
        assert model(given)["y"].tolist() == wanted.tolist()


def test_import_scope(tmp_path) -> None:
    folder = str(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        x, y = linear()
        session.run(tf.global_variables_initializer())
        tf.saved_model.simple_save(session, folder, {"x": x}, {"y": y})
    with tf.Graph().as_default(), tf.Session() as session:
        tf.saved_model.loader.load(session, ["serve"], folder, import_scope="inner")
        ones = np.ones([1, 4], np.float32)
        assert session.run("inner/y:0", {"inner/x:0": ones}).tolist() == [[5.0, 3.0]]
        assert tf.global_variables()[0].op.name == "inner/w/part_0"


def test_no_variables(tmp_path) -> None:
    folder = str(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [], name="x")
        tf.saved_model.simple_save(session, folder, {"x": x}, {"y": x + 1.0})
    assert not files.has_variables(folder)
    with tf.saved_model.load(folder) as model:
        assert model(x=2.0) == {"y": 3.0}


def test_several_meta_graphs(tmp_path) -> None:
    folder = str(tmp_path / "model")
    builder = tf.saved_model.Builder(folder)
    for tags, factor in ((["train", "gpu"], 1.0), (["serve"], 2.0)):
        with tf.Graph().as_default(), tf.Session() as session:
            v = tf.get_variable("v", initializer=3.0)
            y = tf.multiply(v, factor, name="y")
            signature = {"serving_default": predict({"v": v}, {"y": y})}
            if factor == 1.0:
                with pytest.raises(AssertionError, match="has not been saved yet"):
                    builder.add_meta_graph(tags, signature)
                session.run(tf.global_variables_initializer())
                session.run(v.assign(5.0))
                builder.add_meta_graph_and_variables(session, tags, signature)
                with pytest.raises(AssertionError, match="has already been saved"):
                    builder.add_meta_graph_and_variables(session, tags, signature)
            else:
                builder.add_meta_graph(tags, signature)
    builder.save()
    for tags, wanted in ((["gpu", "train"], 5.0), ({"serve"}, 10.0)):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.saved_model.load(session, tags, folder)
            assert session.run("y:0") == wanted
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(RuntimeError, match="tags 'train' could not be found in SavedModel"):
            tf.saved_model.loader.load(session, ["train"], folder)
        assert session.graph.get_operations() == []


def test_assets_tables_and_main_op(tmp_path) -> None:
    (tmp_path / "one").mkdir()
    (tmp_path / "two").mkdir()
    (tmp_path / "one" / "words.txt").write_text("a\nb\n")
    (tmp_path / "two" / "words.txt").write_text("p\nq\nr\n")
    folder = str(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        word = tf.placeholder(tf.string, [None], name="word")
        one = tf.contrib.lookup.index_table_from_file(str(tmp_path / "one" / "words.txt"))
        two = tf.contrib.lookup.index_table_from_file(str(tmp_path / "two" / "words.txt"))
        ids = tf.stack([one.lookup(word), two.lookup(word)], name="ids")
        local = tf.Variable(7, collections=[tf.GraphKeys.LOCAL_VARIABLES], name="local")
        session.run(tf.saved_model.main_op.main_op())
        builder = tf.saved_model.builder.SavedModelBuilder(folder)
        builder.add_meta_graph_and_variables(
            session,
            ["serve"],
            {"serving_default": predict({"word": word}, {"ids": ids, "local": local})},
            assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            main_op=tf.saved_model.main_op.main_op(),
        )
        builder.save()
    assert sorted(os.listdir(os.path.join(folder, "assets"))) == ["words.txt", "words.txt_1"]
    for name in ("one", "two"):
        (tmp_path / name / "words.txt").unlink()
    os.rename(folder, tmp_path / "moved")
    with tf.saved_model.load(tmp_path / "moved") as model:
        found = model(word=["b", "r"])
        assert found["ids"].tolist() == [[1, -1], [-1, 2]]
        assert found["local"] == 7


def test_legacy_init_op_and_one_asset_for_equal_files(tmp_path) -> None:
    path = tmp_path / "words.txt"
    path.write_text("a\n")
    folder = tmp_path / "model"
    with tf.Graph().as_default(), tf.Session() as session:
        name = tf.constant(str(path))
        again = tf.constant(str(path))
        state = tf.Variable("", name="state", collections=[])
        start = tf.group(tf.assign(state, tf.string_join([name, again], "|")))
        builder = tf.saved_model.builder.SavedModelBuilder(folder)
        builder.add_meta_graph_and_variables(
            session, ["t"], assets_collection=[name, again], legacy_init_op=start, strip_default_attrs=True
        )
        builder.save()
    assert os.listdir(folder / "assets") == ["words.txt"]
    with tf.Graph().as_default(), tf.Session() as session:
        loader = SavedModelLoader(folder)
        meta = loader.load(session, ["t"])
        assert meta.meta_info_def.stripped_default_attrs
        inside = str(folder / "assets" / "words.txt")
        assert session.run("state:0") == f"{inside}|{inside}".encode()


def test_a_table_that_changes_is_saved(tmp_path) -> None:
    folder = str(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        table = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, -1, name="t")
        word = tf.placeholder(tf.string, [None], name="word")
        ids = table.lookup(word)
        session.run(table.insert(["x", "y"], [4, 5]))
        tf.saved_model.simple_save(session, folder, {"word": word}, {"ids": ids})
    with tf.saved_model.load(folder) as model:
        assert model(word=["y", "z"])["ids"].tolist() == [5, -1]


# ------------------------------------------------------------------------------------------------------------- refusals
def test_a_folder_that_holds_something(tmp_path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AssertionError, match="already exists, and isn't empty"):
        tf.saved_model.builder.SavedModelBuilder(str(tmp_path))


def test_signatures_that_are_refused(tmp_path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [])
        good = predict({"x": x}, {"y": x})
        builder = tf.saved_model.builder.SavedModelBuilder(str(tmp_path / "m"))

        def add(signatures, **more):
            builder.add_meta_graph_and_variables(session, ["serve"], signatures, **more)

        with pytest.raises(KeyError, match="is reserved for initialization"):
            add({"__saved_model_init_op": good})
        with pytest.raises(TypeError, match="a SignatureDef"):
            add({"s": 3})
        nameless = tf.saved_model.build_signature_def({"x": tf.TensorInfo()}, {}, "m")
        with pytest.raises(
            AssertionError, match=r"must have one of the 'encoding' fields \(e.g., name or coo_sparse\) set"
        ):
            add({"s": nameless})
        other = tf.saved_model.build_signature_def({"x": tf.TensorInfo(name="nowhere:0", dtype=1)}, {}, "m")
        with pytest.raises(ValueError, match="signature 's' whose 'x' is not in the graph"):
            add({"s": other})
        with pytest.raises(TypeError, match="main_op needs to be an Operation"):
            add({"s": good}, main_op=x)
        with pytest.raises(TypeError, match="a list of tags"):
            builder.add_meta_graph_and_variables(session, "serve", {"s": good})
        with pytest.raises(TypeError, match="Asset path tensor must be of dtype string"):
            add({"s": good}, assets_collection=[x])
        with pytest.raises(TypeError, match="must be a constant"):
            add({"s": good}, assets_collection=[tf.placeholder(tf.string)])
        with pytest.raises(ValueError, match="must be one path"):
            add({"s": good}, assets_collection=[tf.constant(["a", "b"])])
        with pytest.raises(tf.errors.NotFoundError, match="does not exist"):
            add({"s": good}, assets_collection=[tf.constant(str(tmp_path / "none"))])
    assert not (tmp_path / "m" / "saved_model.pb").exists()


def test_op_types_of_our_own_are_not_exported(tmp_path) -> None:
    define(
        "AnabranchForTestsOnly",
        "The input.",
        signature="x: float -> y: float",
        effect=PURE,
        shape=inference.unchanged,
        kernel=lambda ctx, inputs, attrs: inputs[0],
        gradient=NotDifferentiable("it is for a test"),
    )
    try:
        with tf.Graph().as_default(), tf.Session() as session:
            tf.build_op("AnabranchForTestsOnly", tf.placeholder(tf.float32, []))
            builder = tf.saved_model.builder.SavedModelBuilder(str(tmp_path / "m"))
            with pytest.raises(NotImplementedError, match="nodes that only this package knows"):
                builder.add_meta_graph_and_variables(session, ["serve"])
    finally:
        del opdef._registry["AnabranchForTestsOnly"]


def test_init_ops_in_files(tmp_path) -> None:
    folder = tmp_path / "model"
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [])
        tf.saved_model.simple_save(session, folder, {"x": x}, {"y": x}, legacy_init_op=tf.no_op("start"))
    path = folder / "saved_model.pb"
    model = saved_model_pb2.SavedModel.FromString(path.read_bytes())
    model.meta_graphs[0].collection_def["saved_model_main_op"].node_list.value.append("start")
    path.write_bytes(model.SerializeToString())
    with tf.Graph().as_default(), tf.Session() as session:
        with pytest.raises(RuntimeError, match="Expected exactly one SavedModel init op"):
            tf.saved_model.loader.load(session, ["serve"], folder)


# ----------------------------------------------------------------------------------------------------------- signatures
def test_signatures_by_kind() -> None:
    names = tf.saved_model.signature_constants
    make = tf.saved_model.signature_def_utils
    with tf.Graph().as_default():
        text = tf.placeholder(tf.string, [None], name="text")
        scores = tf.placeholder(tf.float32, [None, 3], name="scores")
        classes = tf.placeholder(tf.string, [None, 3], name="classes")
        classify = make.classification_signature_def(text, classes, scores)
        assert classify.method_name == names.CLASSIFY_METHOD_NAME == "tensorflow/serving/classify"
        assert sorted(classify.outputs) == [names.CLASSIFY_OUTPUT_CLASSES, names.CLASSIFY_OUTPUT_SCORES]
        regress = make.regression_signature_def(text, scores)
        assert regress.inputs["inputs"].name == "text:0"
        assert regress.outputs["outputs"].dtype == tf.float32.as_datatype_enum
        both = make.predict_signature_def({"a": text}, {"b": scores})
        assert [size.size for size in both.outputs["b"].tensor_shape.dim] == [-1, 3]
        assert all(map(make.is_valid_signature, (classify, regress, both)))
        assert not make.is_valid_signature(None)
        assert not make.is_valid_signature(make.build_signature_def(method_name=names.PREDICT_METHOD_NAME))
        del classify.outputs[names.CLASSIFY_OUTPUT_SCORES], classify.outputs[names.CLASSIFY_OUTPUT_CLASSES]
        assert not make.is_valid_signature(classify)
        train = make.supervised_train_signature_def(
            {"x": text}, scores, {"p": classes, "predictions/q": classes}, {"m": (scores, tf.no_op("update"))}
        )
        assert sorted(train.outputs) == [
            "loss", "metrics/m/update_op", "metrics/m/value", "predictions/p", "predictions/q",
        ]  # fmt: skip
        assert make.supervised_eval_signature_def({"x": text}, scores).method_name == "tensorflow/supervised/eval"
        step = make.op_signature_def(tf.no_op("step"), "key")
        assert make.load_op_from_signature_def(step, "key").name == "step"
        step.outputs["key"].name = "nowhere"
        with pytest.raises(tf.errors.NotFoundError, match="The 'key' op of the SavedModel's signature"):
            make.load_op_from_signature_def(step, "key")
        for call, error, message in (
            (lambda: make.regression_signature_def(None, scores), ValueError, "examples cannot be None"),
            (lambda: make.regression_signature_def(scores, scores), ValueError, "examples must be a string Tensor"),
            (lambda: make.regression_signature_def(text, text), ValueError, "output must be a float Tensor"),
            (lambda: make.regression_signature_def("x", scores), TypeError, "`examples` must be a tensor"),
            (lambda: make.classification_signature_def(text, None, None), ValueError, "cannot both be None"),
            (lambda: make.classification_signature_def(None, None, None), ValueError, "examples cannot be None"),
            (lambda: make.predict_signature_def({}, {"y": text}), ValueError, "inputs cannot be None or empty"),
            (lambda: make.supervised_train_signature_def({}, scores), ValueError, "cannot be None or empty"),
            (lambda: make.build_signature_def({"x": 3}), TypeError, "a TensorInfo"),
            (lambda: tf.saved_model.build_tensor_info(3), TypeError, "a tensor, a variable or a SparseTensor"),
        ):
            with pytest.raises(error, match=message):
                call()


def test_tensor_infos() -> None:
    build, get = tf.saved_model.utils.build_tensor_info, tf.saved_model.utils.get_tensor_from_tensor_info
    with tf.Graph().as_default() as graph:
        sparse = tf.sparse_placeholder(tf.float32, [None, 3])
        info = build(sparse)
        found = get(info)
        assert found.values is sparse.values
        assert found.indices is sparse.indices
        assert found.dense_shape is sparse.dense_shape
        variable = tf.Variable(1.0, name="v")
        assert build(variable).name == "v:0"
        assert get(build(variable), graph) is graph.get_tensor_by_name("v:0")
        scoped = tf.TensorInfo(name="x:0")
        with tf.name_scope("inner"):
            x = tf.placeholder(tf.float32, name="x")
        assert get(scoped, import_scope="inner") is x
        with pytest.raises(ValueError, match="a TensorInfo without a name"):
            get(tf.TensorInfo())
        with pytest.raises(KeyError, match="nowhere"):
            get(tf.TensorInfo(name="nowhere:0"))


def test_names_of_the_interface() -> None:
    assert tf.saved_model.tag_constants.SERVING == tf.saved_model.SERVING == "serve"
    assert tf.saved_model.DEFAULT_SERVING_SIGNATURE_DEF_KEY == "serving_default"
    assert tf.saved_model.constants.SAVED_MODEL_FILENAME_PB == "saved_model.pb"
    assert tf.saved_model.Builder is tf.saved_model.builder.SavedModelBuilder
    assert Path(files.variables_prefix("m")).parts == ("m", "variables", "variables")


def test_what_needs_no_asset_loads_where_one_is_missing(tmp_path) -> None:
    words = tmp_path / "words.txt"
    words.write_text("a\nb\n")
    folder = str(tmp_path / "model")
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None], name="x")
        tf.identity(x * tf.Variable(2.0), name="y")
        table = tf.contrib.lookup.index_table_from_file(str(words))
        tf.identity(table.lookup(tf.placeholder(tf.string, [None], name="word")), name="ids")
        session.run([tf.global_variables_initializer(), tf.tables_initializer()])
        builder = tf.saved_model.builder.SavedModelBuilder(folder)
        files = tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS)
        builder.add_meta_graph_and_variables(session, ["serve"], assets_collection=files)
        builder.save()
    words.unlink()
    os.remove(os.path.join(folder, "assets", "words.txt"))
    with tf.Graph().as_default(), tf.Session() as session:
        tf.saved_model.loader.load(session, ["serve"], folder)
        assert session.run("y:0", {"x:0": [3.0]}).tolist() == [6.0]
        with pytest.raises(tf.errors.NotFoundError, match=r"words\.txt"):
            session.run(tf.tables_initializer())
