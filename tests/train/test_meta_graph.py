"""MetaGraphs: collections of every kind there and back, scopes, devices, defaults, bad files."""

from __future__ import annotations

import os
import stat
import warnings
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import any_pb2, text_format

import anabranch as tf
from anabranch.core.graph.collections import proto_functions, register_proto_function
from anabranch.core.protos import saved_model_pb2, training_pb2, variable_pb2
from anabranch.train import meta_graph
from anabranch.train.graph_files import read_message, write_atomically


def linear() -> tf.Graph:
    with tf.Graph().as_default() as graph:
        with tf.name_scope("inputs"):
            x = tf.placeholder(tf.float32, [None, 3], name="x")
        with tf.variable_scope("model"), tf.device("/cpu:0"):
            w = tf.get_variable("w", initializer=np.ones([3, 2], np.float32))
            b = tf.get_variable("b", initializer=np.float32([1, 2]), use_resource=True, trainable=False)
            y = tf.add(tf.matmul(x, w), b, name="y")
        tf.add_to_collection("outputs", y)
        tf.add_to_collection("ops", y.op)
        tf.add_to_collection("texts", "one")
        tf.add_to_collection("texts", b"two")
        tf.add_to_collection("counts", 3)
        tf.add_to_collection("rates", 0.5)
        message = any_pb2.Any()
        message.Pack(training_pb2.QueueRunnerDef(queue_name="q"))
        tf.add_to_collection("messages", message)
    return graph


def evaluate(graph: tf.Graph, prefix: str = "") -> np.ndarray:
    with tf.Session(graph=graph) as session, graph.as_default():
        session.run(tf.global_variables_initializer())
        return session.run(f"{prefix}model/y:0", {f"{prefix}inputs/x:0": np.ones([1, 3], np.float32)})


def test_collections_of_every_kind_survive() -> None:
    graph = linear()
    meta = tf.train.export_meta_graph(graph=graph)
    kinds = {key: value.WhichOneof("kind") for key, value in meta.collection_def.items()}
    assert kinds == {
        "outputs": "node_list", "ops": "node_list", "texts": "bytes_list", "counts": "int64_list",
        "rates": "float_list", "messages": "any_list", "variables": "bytes_list", "trainable_variables": "bytes_list",
    }  # fmt: skip
    with tf.Graph().as_default() as other:
        imported, elements, prefix = meta_graph.import_scoped_meta_graph(meta, return_elements=["model/y:0"])
    assert prefix == ""
    assert elements is not None
    assert elements[0] is other.get_tensor_by_name("model/y:0")
    assert other.get_collection("outputs") == [other.get_tensor_by_name("model/y:0")]
    assert other.get_collection("ops") == [other.get_operation_by_name("model/y")]
    assert other.get_collection("texts") == [b"one", b"two"]
    assert other.get_collection("counts") == [3]
    assert other.get_collection("rates") == [0.5]
    assert other.get_collection("messages") == graph.get_collection("messages")
    assert sorted(imported) == ["model/b:0", "model/w:0"]
    assert imported["model/b:0"]._is_resource
    assert not imported["model/w:0"]._is_resource
    # One object in all of its collections, as optimizers compare them.
    assert other.get_collection("trainable_variables") == [imported["model/w:0"]]
    np.testing.assert_array_equal(evaluate(other), [[4.0, 5.0]])


def test_what_is_exported_again_is_the_same() -> None:
    # Without devices: what is colocated gets the device of what it is colocated with when it is imported.
    meta = tf.train.export_meta_graph(graph=linear(), clear_devices=True)
    with tf.Graph().as_default():
        meta_graph.import_scoped_meta_graph(meta)
        assert tf.train.export_meta_graph() == meta


def test_import_under_a_scope() -> None:
    meta = tf.train.export_meta_graph(graph=linear())
    with tf.Graph().as_default() as graph:
        _, _, first = meta_graph.import_scoped_meta_graph(meta, import_scope="a")
        imported, _, second = meta_graph.import_scoped_meta_graph(meta, import_scope="a")
        assert (first, second) == ("a", "a_1")
        assert imported["model/w:0"].name == "a_1/model/w:0"
        assert [v.name for v in tf.trainable_variables()] == ["a/model/w:0", "a_1/model/w:0"]
        np.testing.assert_array_equal(evaluate(graph, "a_1/"), [[4.0, 5.0]])


def test_input_map_and_collections_that_are_wanted() -> None:
    meta = tf.train.export_meta_graph(graph=linear())
    with tf.Graph().as_default() as graph:
        x = tf.constant(np.full([1, 3], 2.0, np.float32))
        meta_graph.import_scoped_meta_graph(
            meta, input_map={"inputs/x:0": x}, restore_collections_predicate=lambda key: key == "variables"
        )
        assert graph.get_all_collection_keys() == ["variables"]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            np.testing.assert_array_equal(session.run("model/y:0"), [[7.0, 8.0]])


def test_export_of_a_scope_names_what_is_missing() -> None:
    graph = linear()
    meta = tf.train.export_meta_graph(graph=graph, export_scope="model")
    assert {node.name for node in meta.graph_def.node} >= {"w", "b", "y", "MatMul"}
    assert list(meta.collection_def["unbound_inputs"].bytes_list.value) == [b"$unbound_inputs_inputs/x"]
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match=r"Graph contains unbound inputs: \$unbound_inputs_inputs/x"):
            meta_graph.import_scoped_meta_graph(meta, import_scope="copy")
        assert tf.get_default_graph().get_operations() == []
        x = tf.constant(np.ones([2, 3], np.float32))
        imported, _, _ = meta_graph.import_scoped_meta_graph(
            meta, import_scope="copy", input_map={"$unbound_inputs_inputs/x": x}
        )
        assert sorted(imported) == ["b:0", "w:0"]
        with tf.Session() as session:
            session.run(tf.global_variables_initializer())
            assert session.run("copy/y:0").tolist() == [[4.0, 5.0]] * 2


def test_collocation_and_frames_lose_the_scope() -> None:
    with tf.Graph().as_default() as graph:
        with tf.name_scope("outer"):
            v = tf.Variable(1.0, name="v")
        meta = tf.train.export_meta_graph(graph=graph, export_scope="outer")
        read = next(node for node in meta.graph_def.node if node.name == "v/read")
        assert list(read.attr["_class"].list.s) == [b"loc:@v"]
        assert v.name == "outer/v:0"


def test_devices_are_kept_or_cleared() -> None:
    graph = linear()
    assert any(node.device for node in tf.train.export_meta_graph(graph=graph).graph_def.node)
    meta = tf.train.export_meta_graph(graph=graph, clear_devices=True)
    assert not any(node.device for node in meta.graph_def.node)
    with tf.Graph().as_default() as other:
        meta_graph.import_scoped_meta_graph(tf.train.export_meta_graph(graph=graph), clear_devices=True)
        assert not any(op.device for op in other.get_operations())


def test_default_attributes_are_stripped() -> None:
    meta = tf.train.export_meta_graph(graph=linear(), strip_default_attrs=True)
    assert meta.meta_info_def.stripped_default_attrs
    product = next(node for node in meta.graph_def.node if node.op == "MatMul")
    assert "transpose_a" not in product.attr
    assert "T" in product.attr
    with tf.Graph().as_default() as graph:
        meta_graph.import_scoped_meta_graph(meta)
        assert graph.get_operation_by_name("model/MatMul").get_attr("transpose_a") is False
        np.testing.assert_array_equal(evaluate(graph), [[4.0, 5.0]])


def test_the_list_of_op_types_and_the_versions() -> None:
    meta = tf.train.export_meta_graph(graph=linear())
    assert [op.name for op in meta.meta_info_def.stripped_op_list.op] == sorted(
        {node.op for node in meta.graph_def.node}
    )
    assert meta.meta_info_def.tensorflow_version == tf.VERSION
    info = saved_model_pb2.MetaGraphDef.MetaInfoDef(meta_graph_version="7", tags=["t"])
    assert list(tf.train.export_meta_graph(graph=linear(), meta_info_def=info).meta_info_def.tags) == ["t"]


def test_attributes_of_later_writers_are_dropped_at_their_default() -> None:
    meta = tf.train.export_meta_graph(graph=linear())
    product = next(node for node in meta.graph_def.node if node.op == "MatMul")
    product.attr["speed"].i = 3
    with tf.Graph().as_default(), pytest.raises(ValueError, match="attr 'speed' not in Op<name=MatMul>"):
        meta_graph.import_scoped_meta_graph(meta)
    told = next(op for op in meta.meta_info_def.stripped_op_list.op if op.name == "MatMul")
    told.attr.add(name="speed", type="int").default_value.i = 3
    with tf.Graph().as_default():
        meta_graph.import_scoped_meta_graph(meta)


@pytest.mark.parametrize("as_text", [False, True])
def test_files(tmp_path: Path, as_text: bool) -> None:
    path = str(tmp_path / "new" / "graph.meta")
    meta = tf.train.export_meta_graph(path, graph=linear(), as_text=as_text)
    data = Path(path).read_bytes()
    assert (b"node_list {" in data) == as_text
    assert meta_graph.read_meta_graph(path) == meta
    with tf.Graph().as_default() as graph:
        meta_graph.import_scoped_meta_graph(path)
        np.testing.assert_array_equal(evaluate(graph), [[4.0, 5.0]])
    assert os.listdir(tmp_path / "new") == ["graph.meta"]


def test_bad_files(tmp_path: Path) -> None:
    with pytest.raises(OSError, match=r"no_such\.meta does not exist"):
        meta_graph.read_meta_graph(str(tmp_path / "no_such.meta"))
    (tmp_path / "bad").write_bytes(b"\xff\xff not a graph")
    with pytest.raises(OSError, match=r"Cannot parse file .*bad"):
        meta_graph.read_meta_graph(tmp_path / "bad")
    with pytest.raises(TypeError, match="must be a MetaGraphDef or a file's path"):
        meta_graph.read_meta_graph(3)


def test_a_failed_import_leaves_no_trace() -> None:
    meta = tf.train.export_meta_graph(graph=linear())
    meta.collection_def["lost"].node_list.value.append("nowhere:0")
    with tf.Graph().as_default() as graph:
        tf.add_to_collection("counts", 1)
        with pytest.raises(ValueError, match="collection 'lost' with 'nowhere:0'"):
            meta_graph.import_scoped_meta_graph(meta)
        assert graph.get_operations() == []
        assert graph.get_all_collection_keys() == ["counts"]
        assert graph.get_collection("counts") == [1]
        del meta.collection_def["lost"]
        meta.collection_def["variables"].bytes_list.value.append(b"\xff")
        with pytest.raises(ValueError, match="that are no VariableDef"):
            meta_graph.import_scoped_meta_graph(meta)
        meta.collection_def["variables"].bytes_list.value[-1] = variable_pb2.VariableDef(
            variable_name="gone:0", initializer_name="gone/Assign", snapshot_name="gone/read:0"
        ).SerializeToString()
        with pytest.raises(ValueError, match="an item that names what is not in the graph"):
            meta_graph.import_scoped_meta_graph(meta)
        assert graph.get_operations() == []


def test_unknown_op_types_are_named_together() -> None:
    meta = tf.train.export_meta_graph(graph=linear())
    meta.graph_def.node.add(name="p", op="Frobnicate")
    meta.graph_def.node.add(name="q", op="Defrobnicate")
    with tf.Graph().as_default(), pytest.raises(NotImplementedError, match="'Defrobnicate', 'Frobnicate'"):
        meta_graph.import_scoped_meta_graph(meta)


def test_what_cannot_be_written_is_told() -> None:
    with tf.Graph().as_default():
        tf.add_to_collection("objects", object())
        tf.add_to_collection(("tuple", "name"), 1)
        tf.add_to_collection("mixed", 1)
        tf.add_to_collection("mixed", "one")
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            meta = tf.train.export_meta_graph(collection_list=["objects", ("tuple", "name"), "mixed", "empty"])
    assert not meta.collection_def
    told = " ".join(str(item.message) for item in found)
    assert "'objects'" in told
    assert "'mixed'" in told
    assert "its name is not a string but tuple" in told


def test_registered_functions() -> None:
    class Pair:
        def __init__(self, name: str) -> None:
            self.name = name

    register_proto_function(
        "test_pairs",
        variable_pb2.SaveSliceInfoDef,
        lambda item, export_scope=None: variable_pb2.SaveSliceInfoDef(full_name=item.name),
        lambda proto, import_scope=None: Pair(f"{import_scope}/{proto.full_name}"),
    )
    with pytest.raises(KeyError, match="other functions for the collection 'test_pairs'"):
        register_proto_function("test_pairs", variable_pb2.VariableDef)
    with pytest.raises(TypeError, match="to_proto must be callable"):
        register_proto_function("test_others", None, 3)  # type: ignore[arg-type]
    assert proto_functions("test_pairs") is not None
    assert proto_functions("test_others") is None
    with tf.Graph().as_default():
        tf.add_to_collection("test_pairs", Pair("p"))
        meta = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        meta_graph.import_scoped_meta_graph(meta, import_scope="s")
        assert [item.name for item in tf.get_collection("test_pairs")] == ["s/p"]


def test_variables_of_writers_before_the_field_trainable() -> None:
    with tf.Graph().as_default():
        tf.Variable(1.0, trainable=False, name="v")
        meta = tf.train.export_meta_graph()
    meta.meta_info_def.tensorflow_version = "1.8.0"
    with tf.Graph().as_default():
        assert meta_graph.import_scoped_meta_graph(meta)[0]["v:0"].trainable
    meta.meta_info_def.tensorflow_version = "1.9.0-rc1"
    with tf.Graph().as_default():
        assert not meta_graph.import_scoped_meta_graph(meta)[0]["v:0"].trainable


def test_other_savers_are_cleared() -> None:
    with tf.Graph().as_default() as graph:
        for scope in ("save", "save_1"):
            with tf.name_scope(scope):
                tf.constant("model", name="Const")
        proto = graph.as_graph_def()
        for scope in ("save", "save_1"):
            proto.node.add(name=f"{scope}/SaveV2", op="SaveV2")
        saver = training_pb2.SaverDef(
            filename_tensor_name="save/Const:0", save_tensor_name="save/control:0", restore_op_name="save/restore_all"
        )
        meta = tf.train.export_meta_graph(graph_def=proto, saver_def=saver, clear_extraneous_savers=True)
        assert {node.name for node in meta.graph_def.node} == {"save/Const", "save/SaveV2"}
        assert meta.saver_def == saver
        assert len(tf.train.export_meta_graph(graph_def=proto, saver_def=saver).graph_def.node) == 4


def test_arguments_that_are_refused() -> None:
    with tf.Graph().as_default():
        with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
            tf.train.export_meta_graph(colour=1)
        with pytest.raises(NotImplementedError, match="save_debug_info=True"):
            tf.train.export_meta_graph(save_debug_info=True)
        with pytest.raises(TypeError, match="graph_def must be of type GraphDef"):
            tf.train.export_meta_graph(graph_def=3)


@pytest.mark.parametrize("as_text", [True, False])
def test_write_graph(tmp_path: Path, as_text: bool) -> None:
    graph = linear()
    path = tf.train.write_graph(graph, str(tmp_path / "deep" / "er"), "g.pb", as_text=as_text)
    assert path == str(tmp_path / "deep" / "er" / "g.pb")
    data = Path(path).read_bytes()
    proto = text_format.Parse(data, tf.GraphDef()) if as_text else tf.GraphDef.FromString(data)
    assert proto == graph.as_graph_def() == read_message(path, tf.GraphDef, "GraphDef")
    tf.train.write_graph(tf.GraphDef(), str(tmp_path), "empty", as_text=as_text)
    assert (tmp_path / "empty").read_bytes() == b""
    with pytest.raises(TypeError, match=r"a tf\.Graph or a GraphDef"):
        tf.train.write_graph(3, str(tmp_path), "g")


def test_a_file_that_cannot_be_replaced_stays(tmp_path: Path) -> None:
    path = tmp_path / "file"
    write_atomically(str(path), b"old")
    assert stat.S_IMODE(path.stat().st_mode) & 0o600 == 0o600
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "inner").write_bytes(b"")
    with pytest.raises(tf.errors.FailedPreconditionError, match="folder; Is a directory"):
        write_atomically(str(tmp_path / "folder"), b"new")
    with pytest.raises(tf.errors.AlreadyExistsError, match="File exists"):
        tf.train.write_graph(tf.GraphDef(), str(path), "g.pb")
    with pytest.raises(tf.errors.InvalidArgumentError, match="File name too long"):
        tf.train.export_meta_graph(str(tmp_path / ("n" * 250)), graph=tf.Graph())
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]
    assert path.read_bytes() == b"old"


def test_import_with_its_saver(tmp_path: Path) -> None:
    path = str(tmp_path / "model.ckpt")
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(3.0, name="v")
        tf.multiply(v, 2.0, name="twice")
        session.run(tf.global_variables_initializer())
        session.run(v.assign(5.0))
        tf.train.Saver(name="keeper").save(session, path)
        saverless = tf.train.export_meta_graph()
    for scope, prefix in ((None, ""), ("inner", "inner/")):
        with tf.Graph().as_default(), tf.Session() as session:
            saver = tf.train.import_meta_graph(f"{path}.meta", import_scope=scope)
            saver.restore(session, path)
            assert session.run(f"{prefix}twice:0") == 10.0
    with tf.Graph().as_default(), tf.Session() as session:
        saver = tf.train.import_meta_graph(saverless)
        saver.restore(session, path)
        assert session.run("twice:0") == 10.0
    with tf.Graph().as_default():
        tf.constant(1.0)
        nothing = tf.train.export_meta_graph()
    with tf.Graph().as_default():
        assert tf.train.import_meta_graph(nothing) is None


@pytest.mark.parametrize("scope", [None, "copy"])
def test_queue_runners_come_along(scope) -> None:
    with tf.Graph().as_default():
        queue = tf.FIFOQueue(10, [tf.int32], [[]], name="q")
        counter = tf.Variable(0, name="counter")
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [queue.enqueue(tf.count_up_to(counter, 5))]))
        tf.identity(queue.dequeue(), name="out")
        meta = tf.train.export_meta_graph()
    written = b'\n\x01q\x12\tq_enqueue\x1a\x07q_Close"\tq_Close_1*\x01\x0b'  # as TensorFlow writes it
    assert list(meta.collection_def["queue_runners"].bytes_list.value) == [written]
    with tf.Graph().as_default(), tf.Session() as session:
        tf.train.import_meta_graph(meta, import_scope=scope)
        session.run(tf.global_variables_initializer())
        coordinator = tf.train.Coordinator()
        threads = tf.train.start_queue_runners(session, coordinator)
        prefix = f"{scope}/" if scope else ""
        assert [int(session.run(f"{prefix}out:0")) for _ in range(5)] == list(range(5))
        with pytest.raises(tf.errors.OutOfRangeError, match="closed and has insufficient elements"):
            session.run(f"{prefix}out:0")
        coordinator.request_stop()
        coordinator.join(threads)
        again = tf.train.export_meta_graph(export_scope=scope)
        assert list(again.collection_def["queue_runners"].bytes_list.value) == [written]


def test_the_global_step_is_a_variable_again(tmp_path):
    with tf.Graph().as_default() as graph:
        step = tf.train.create_global_step()
        tf.assign_add(step, 3, name="advance")
        proto = tf.train.export_meta_graph(str(tmp_path / "model.meta"))
    assert proto.collection_def["global_step"].WhichOneof("kind") == "bytes_list"  # a VariableDef, as in TensorFlow
    with tf.Graph().as_default() as graph, tf.Session() as session:
        tf.train.import_meta_graph(str(tmp_path / "model.meta"))
        again = tf.train.get_global_step()
        assert isinstance(again, tf.Variable)
        assert again is tf.global_variables()[0]
        session.run(again.initializer)
        session.run(graph.get_operation_by_name("advance"))
        assert tf.train.global_step(session, again) == 3
