"""The commands saved-model, checkpoint and graph: text, JSON, exit status, problems."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from google.protobuf import text_format

import anabranch as tf
from anabranch.cli import main as command
from anabranch.cli import showing

MODELS = Path(__file__).parents[1] / "golden" / "saved_models"


@pytest.fixture
def call(capsys):
    """Calls the command; returns exit status, standard output and standard error."""

    def run(*arguments):
        try:
            command.main([str(argument) for argument in arguments])
        except SystemExit as ended:
            status = ended.code or 0
        shown = capsys.readouterr()
        return status, shown.out, shown.err

    return run


@pytest.fixture
def checkpoints(tmp_path) -> Path:
    """Two checkpoints of one graph, in a folder."""
    folder = tmp_path / "logs"
    folder.mkdir()
    with tf.Graph().as_default(), tf.Session() as session:
        w = tf.Variable(np.float32([[1, 2], [3, 4]]), name="w")
        n = tf.Variable(5, name="n")
        tf.Variable(["a", "b"], name="s")
        session.run(tf.global_variables_initializer())
        saver = tf.train.Saver()
        saver.save(session, str(folder / "model.ckpt"), global_step=1)
        session.run([w.assign_add([[0, 0], [0, 0.5]]), n.assign(7)])
        saver.save(session, str(folder / "model.ckpt"), global_step=2)
    return folder


# ---------------------------------------------------------------------------------------------------------- saved-model
def test_show_a_model(call) -> None:
    status, out, _ = call("saved-model", "show", MODELS / "words", "--variables")
    assert status == 0
    assert "MetaGraph serve, written by TensorFlow 2." in out
    assert "signature serving_default (tensorflow/serving/predict)" in out
    assert "text  string[?]" in out
    assert "assets: vocabulary.txt" in out
    assert "embedding/.ATTRIBUTES/VARIABLE_VALUE  float32[8,3]" in out


def test_show_a_model_as_json(call) -> None:
    status, out, _ = call("saved-model", "show", MODELS / "version_1", "--json")
    found = json.loads(out)
    assert status == 0
    assert [meta["tags"] for meta in found["meta_graphs"]] == [["serve"], ["serve", "other"]]
    assert found["meta_graphs"][0]["signatures"]["serving_default"]["inputs"] == {
        "x": {"tensor": "x:0", "dtype": "float32", "shape": [None, 3]}
    }
    assert {row["name"]: row["shape"] for row in found["variables"]} == {"b": [2], "w": [3, 2]}
    status, out, _ = call("saved-model", "show", MODELS / "version_1", "--tags", "other,serve", "--json")
    assert len(json.loads(out)["meta_graphs"]) == 1


def test_run_a_model(call, tmp_path) -> None:
    np.savez(tmp_path / "in.npz", x=np.ones([1, 3], np.float32))
    np.save(tmp_path / "in.npy", np.ones([1, 3], np.float32))
    results = []
    for given in ("[[1, 1, 1]]", f"@{tmp_path / 'in.npy'}", f"@{tmp_path / 'in.npz'}:x"):
        saved = tmp_path / "out.npz"
        status, out, _ = call(
            "saved-model", "run", MODELS / "steps", "--input", f"x={given}", "--json", "--save", saved
        )
        assert status == 0
        found = json.loads(out)["y"]
        assert found["dtype"] == "float32"
        results.append(found["value"])
        np.testing.assert_allclose(np.load(saved)["y"], found["value"])
    assert results[0] == results[1] == results[2]
    status, out, _ = call("saved-model", "run", MODELS / "steps", "--signature", "collatz", "--input", "n=27")
    assert out.splitlines() == ["steps: int32[]", "111"]


def test_run_a_model_of_strings(call, tmp_path) -> None:
    saved = tmp_path / "out.npz"
    arguments = ("--input", "z=[1, 2]", "--input", "flag=true", "--input", 'a=["p", "q"]', "--save", saved)
    status, out, _ = call("saved-model", "run", MODELS / "many", *arguments)
    assert status == 0
    assert "a: string[2]\n['p' 'q']" in out
    assert np.load(saved)["a"].tolist() == [b"p", b"q"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["run", MODELS / "steps", "--signature", "none"], "Expected: one of ['collatz', 'serving_default', 'train']"),
        (["run", MODELS / "steps", "--input", "q=1"], "NAME=VALUE with a name among ['x']"),
        (["run", MODELS / "steps", "--input", "x=[1,"], "which is no JSON"),
        (["run", MODELS / "steps"], "no value for ['x']"),
        (["run", MODELS / "steps", "--input", "x=@none.npy"], "none.npy"),
        (["run", MODELS / "steps", "--tags", "train"], "tags 'train' could not be found"),
        (["show", "none"], "SavedModel file does not exist at: none"),
    ],
)
def test_problems_with_models(call, arguments, message) -> None:
    status, out, err = call("saved-model", *arguments)
    assert status == showing.PROBLEM
    assert message in err
    assert "Traceback" not in err
    assert out == ""


def test_pickled_files_are_refused(call, tmp_path) -> None:
    np.save(tmp_path / "evil.npy", np.array([print], object), allow_pickle=True)
    status, _, err = call("saved-model", "run", MODELS / "steps", "--input", f"x=@{tmp_path / 'evil.npy'}")
    assert status == showing.PROBLEM
    assert "allow_pickle=False" in err


# ----------------------------------------------------------------------------------------------------------- checkpoint
def test_list_checkpoints(call, checkpoints) -> None:
    status, out, _ = call("checkpoint", "ls", checkpoints)
    assert status == 0
    assert [line.split(":")[0] for line in out.splitlines()] == [
        f"  {checkpoints}/model.ckpt-1",
        f"* {checkpoints}/model.ckpt-2",
    ]
    assert "3 tensors" in out
    with open(checkpoints / "model.ckpt-1.index", "r+b") as stream:
        stream.truncate(10)
    _, out, _ = call("checkpoint", "ls", checkpoints, "--json")
    first, second = sorted(json.loads(out), key=lambda row: row["prefix"])
    assert "problem" in first
    assert second == {"prefix": f"{checkpoints}/model.ckpt-2", "latest": True, "tensors": 3, "bytes": 20}


def test_the_latest_of_a_folder_that_is_named_otherwise(call, checkpoints, monkeypatch) -> None:
    monkeypatch.chdir(checkpoints.parent)  # the file names an absolute path
    _, out, _ = call("checkpoint", "ls", checkpoints.name)
    assert [line[:2] for line in out.splitlines()] == ["  ", "* "]
    (checkpoints / "checkpoint").write_text("nothing")
    _, out, _ = call("checkpoint", "ls", checkpoints.name)
    assert [line[:2] for line in out.splitlines()] == ["  ", "  "]


def test_no_checkpoints(call, tmp_path) -> None:
    assert call("checkpoint", "ls", tmp_path)[:2] == (0, f"no checkpoints in {tmp_path}\n")
    assert call("checkpoint", "ls", tmp_path / "none")[0] == showing.PROBLEM
    status, _, err = call("checkpoint", "show", tmp_path)
    assert status == showing.PROBLEM
    assert "a folder without checkpoints" in err


def test_show_a_checkpoint(call, checkpoints) -> None:
    status, out, _ = call("checkpoint", "show", checkpoints, "--tensor", "w", "--tensor", "s")
    assert status == 0
    assert f"{checkpoints}/model.ckpt-2: 2 tensors" in out
    assert "w  float32[2,2]" in out
    assert "[[1.  2. ]\n [3.  4.5]]" in out
    assert "['a' 'b']" in out
    _, out, _ = call("checkpoint", "show", checkpoints / "model.ckpt-1", "--match", "^[nw]$", "--tensor", "n", "--json")
    assert json.loads(out)["tensors"] == [{"name": "n", "dtype": "int32", "shape": [], "bytes": 4, "value": 5}]
    for more, message in (
        (("--tensor", "q"), "one of the 3 tensors"),
        (("--match", "("), "a regular expression"),
    ):
        status, _, err = call("checkpoint", "show", checkpoints, *more)
        assert status == showing.PROBLEM
        assert message in err


def test_compare_checkpoints(call, checkpoints) -> None:
    one, other = checkpoints / "model.ckpt-1", checkpoints / "model.ckpt-2"
    assert call("checkpoint", "diff", one, one)[:2] == (0, "3 tensors are equal, 0 differ\n")
    status, out, _ = call("checkpoint", "diff", one, other)
    assert status == 1
    assert "! n: 1 elements differ" in out
    assert "! w: 1 of 4 elements differ, by 0.5 at most" in out
    assert "1 tensors are equal, 2 differ" in out
    assert call("checkpoint", "diff", one, other, "--tolerance", 2)[0] == 0
    status, out, _ = call("checkpoint", "diff", one, MODELS / "steps", "--json")
    found = json.loads(out)
    assert status == 1
    assert found["only_first"] == ["n", "s", "w"]
    assert "w/.ATTRIBUTES/VARIABLE_VALUE" in found["only_second"]


def test_other_shapes_and_nans(call, tmp_path) -> None:
    for name, value in (("a", np.float32([1, np.nan])), ("b", np.float32([1, np.nan])), ("c", np.float32([1]))):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.Variable(value, name="v").initializer.run()
            tf.train.Saver().save(session, str(tmp_path / name))
    assert call("checkpoint", "diff", tmp_path / "a", tmp_path / "b")[0] == 0
    assert "! v: float32[2] against float32[1]" in call("checkpoint", "diff", tmp_path / "a", tmp_path / "c")[1]


# ---------------------------------------------------------------------------------------------------------------- graph
def graph_file(folder: Path, name: str, as_text: bool = False) -> str:
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        v = tf.Variable(np.ones([2, 3], np.float32), name="v")
        tf.matmul(x, v, name="y")
    return tf.train.write_graph(graph, str(folder), name, as_text=as_text)


@pytest.mark.parametrize("as_text", [False, True])
def test_summary(call, tmp_path, as_text) -> None:
    path = graph_file(tmp_path, "g", as_text)
    status, out, _ = call("graph", "summary", path)
    assert status == 0
    assert out.startswith("GraphDef of ")
    assert "x  float32[?,2]" in out
    assert "v  float32[2,3]" in out
    found = json.loads(call("graph", "summary", path, "--json")[1])
    assert found["outputs"] == [{"name": "v/Assign", "op": "Assign"}, {"name": "y", "op": "MatMul"}]
    assert found["op_types"]["MatMul"] == 1


def test_graphs_of_other_kinds(call, tmp_path) -> None:
    with tf.Graph().as_default():
        tf.constant(1.0, name="c")
        tf.train.export_meta_graph(str(tmp_path / "m.meta"))
        tf.train.export_meta_graph(str(tmp_path / "t.meta"), as_text=True)
    for name in ("m.meta", "t.meta"):
        found = json.loads(call("graph", "summary", tmp_path / name, "--json")[1])
        assert (found["kind"], found["nodes"]) == ("MetaGraphDef", 1)
    for place in (MODELS / "steps", MODELS / "steps" / "saved_model.pb"):
        assert json.loads(call("graph", "summary", place, "--json")[1])["kind"] == "SavedModel"
    for content in (b"", b"\xff\x00", b"hello"):
        (tmp_path / "bad").write_bytes(content)
        status, _, err = call("graph", "summary", tmp_path / "bad")
        assert status == showing.PROBLEM
        assert "in which no graph is found" in err


def test_text(call, tmp_path) -> None:
    path = graph_file(tmp_path, "g.pb")
    status, out, _ = call("graph", "to-text", path)
    assert status == 0
    assert text_format.Parse(out, tf.GraphDef()) == tf.GraphDef.FromString(Path(path).read_bytes())
    assert call("graph", "to-text", path, "-o", tmp_path / "out.pbtxt")[:2] == (0, "")
    assert (tmp_path / "out.pbtxt").read_text() == out


def test_op_types(call, tmp_path) -> None:
    path = graph_file(tmp_path, "g.pb")
    status, out, _ = call("graph", "ops", path)
    assert status == 0
    assert "all 6 op types are defined" in out
    proto = tf.GraphDef.FromString(Path(path).read_bytes())
    proto.node.add(name="odd", op="Frobnicate")
    Path(path).write_bytes(proto.SerializeToString())
    status, out, _ = call("graph", "ops", path)
    assert status == 1
    assert "1 of 7 op types are not defined here:\n  Frobnicate: 1 nodes (odd)" in out
    found = json.loads(call("graph", "ops", path, "--json")[1])
    assert found["undefined"] == {"Frobnicate": {"count": 1, "nodes": ["odd"]}}


@pytest.mark.parametrize("name", ["cnn", "attention", "version_1"])
def test_freeze(call, tmp_path, name) -> None:
    path = tmp_path / "frozen.pb"
    status, out, _ = call("graph", "freeze", MODELS / name, "--tags", "serve", "-o", path, "--json")
    assert status == 0
    names = json.loads(out)
    row = next(
        row
        for row in json.loads((MODELS / name / "expected.json").read_text())
        if row["signature"] == "serving_default"
    )
    proto = tf.GraphDef.FromString(path.read_bytes())
    assert not {"VarHandleOp", "VariableV2", "ReadVariableOp"} & {node.op for node in proto.node}
    with tf.Graph().as_default(), tf.Session() as session:
        tf.import_graph_def(proto, name="")
        fed = {names["inputs"][key]: np.array(value["value"], value["dtype"]) for key, value in row["inputs"].items()}
        for key, value in row["outputs"].items():
            np.testing.assert_allclose(session.run(names["outputs"][key], fed), value["value"], rtol=2e-5, atol=2e-6)


def test_freeze_a_checkpoint(call, tmp_path) -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 2], name="x")
        w = tf.Variable(np.float32([[1], [2]]), name="w")
        y = tf.matmul(x, w, name="y")
        tf.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(y))
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, str(tmp_path / "model.ckpt"))
    out = tmp_path / "frozen.pb"
    status, text, _ = call("graph", "freeze", tmp_path / "model.ckpt", "--outputs", "y", "-o", out, "--json")
    assert status == 0
    assert json.loads(text)["inputs"] == {"x": "x:0"}
    proto = tf.GraphDef.FromString(out.read_bytes())
    assert {node.op for node in proto.node} <= {"Placeholder", "Const", "Identity", "MatMul"}
    with tf.Graph().as_default(), tf.Session() as session:
        (y,) = tf.import_graph_def(proto, return_elements=["y:0"], name="")
        assert session.run(y, {"x:0": [[3, 4]]}).tolist() == [[11.0]]
    for more, message in (((), "without --outputs"), (("--outputs", "z"), "--outputs z")):
        status, _, err = call("graph", "freeze", f"{tmp_path}/model.ckpt.meta", "-o", out, *more)
        assert status == showing.PROBLEM
        assert message in err


def test_freeze_as_text_and_problems(call, tmp_path) -> None:
    path = tmp_path / "frozen.pbtxt"
    status, out, _ = call("graph", "freeze", MODELS / "many", "-o", path)
    assert status == 0
    assert "outputs\n" in out
    assert text_format.Parse(path.read_text(), tf.GraphDef()).node
    status, _, err = call("graph", "freeze", MODELS / "many", "--signature", "none", "-o", path)
    assert status == showing.PROBLEM
    assert "one of ['serving_default']" in err


# ----------------------------------------------------------------------------------------------------- the whole thing
def test_help_names_the_commands(call) -> None:
    status, out, _ = call("--help")
    assert status == 0
    for name in ("saved-model", "checkpoint", "graph"):
        assert name in out
        assert "--json" in call(name, {"saved-model": "show", "checkpoint": "diff", "graph": "ops"}[name], "--help")[1]


def test_as_a_process_with_a_closed_pipe() -> None:
    text = f"{sys.executable} -m anabranch graph to-text {MODELS / 'gru'} | head -n 1"
    done = subprocess.run(text, shell=True, capture_output=True, text=True, check=False, env=os.environ)
    assert done.stdout.count("\n") == 1
    assert done.stderr == ""


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (np.float32([np.nan, np.inf]), ["nan", "inf"]),
        (np.complex64([1 + 2j]), [[1.0], [2.0]]),
        ({"a": (b"x", np.int64(3))}, {"a": ["x", 3]}),
        (tf.bfloat16.as_numpy_dtype(1.5), 1.5),
    ],
)
def test_values_in_json(value, wanted) -> None:
    assert showing.plain(value) == wanted


def test_sizes() -> None:
    assert [showing.size_text(n) for n in (5, 1023, 1024, 3 * 2**20)] == ["5 B", "1023 B", "1.0 KiB", "3.0 MiB"]
