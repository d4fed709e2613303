"""What Anabranch saves, TensorFlow loads: both run, each in an interpreter of its own, and their results are compared.

    python tools/tensorflow_reads.py PYTHON_WITH_TENSORFLOW [FOLDER]

Anabranch writes SavedModels (reference and resource variables, partitions, strings, a table with its vocabulary,
several MetaGraphs, a frozen GraphDef, a MetaGraph with its checkpoint, a model of TensorFlow 2 loaded and saved again)
with inputs and results into FOLDER; TensorFlow loads each and prints a line for it. The exit status is 1 if anything
differs.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from typing import Any

import numpy as np

MODEL_OF_KERAS = os.path.join(os.path.dirname(__file__), "..", "tests", "golden", "saved_models", "cnn")


# ------------------------------------------------------------------------------------------------- written by Anabranch
def write(folder: str) -> None:
    """Writes the models, and for each ``calls.json``."""
    import anabranch as tf

    predict = tf.saved_model.signature_def_utils.predict_signature_def

    def record(name: str, tags: list[str], calls: list[tuple[str, dict[str, Any], dict[str, Any]]]) -> None:
        rows = [
            {"signature": key, "inputs": _shown(inputs), "outputs": _shown(outputs)} for key, inputs, outputs in calls
        ]
        with open(os.path.join(folder, name, "calls.json"), "w") as stream:
            json.dump({"tags": tags, "calls": rows}, stream)

    given = np.random.RandomState(0).randn(3, 4).astype(np.float32)
    for kind in ("reference", "resource"):
        with tf.Graph().as_default(), tf.Session() as session:
            x = tf.placeholder(tf.float32, [None, 4], name="x")
            w = tf.get_variable("w", [4, 6], use_resource=kind == "resource", partitioner=tf.fixed_size_partitioner(2))
            hidden = tf.nn.relu(tf.matmul(x, tf.concat(list(w), 0)))
            v = tf.get_variable("v", [6, 2], use_resource=kind == "resource")
            y = tf.nn.softmax(tf.matmul(hidden, v), name="y")
            session.run(tf.global_variables_initializer())
            target = os.path.join(folder, kind)
            tf.saved_model.simple_save(session, target, {"x": x}, {"y": y, "hidden": hidden})
            found = session.run({"y": y, "hidden": hidden}, {x: given})
            record(kind, ["serve"], [("serving_default", {"x": given}, found)])

    with tf.Graph().as_default(), tf.Session() as session, tempfile.TemporaryDirectory() as scratch:
        path = os.path.join(scratch, "words.txt")
        with open(path, "w") as stream:
            stream.write("the\nquick\nfox\n")
        text = tf.placeholder(tf.string, [None], name="text")
        words = tf.strings.regex_replace(tf.strings.lower(text), "[^a-z]", "")
        ids = tf.contrib.lookup.index_table_from_file(path, num_oov_buckets=4).lookup(words)
        seen = tf.contrib.lookup.MutableHashTable(tf.string, tf.int64, 0, name="seen")
        count = seen.lookup(words)
        session.run([tf.tables_initializer(), seen.insert(["fox"], [7])])
        builder = tf.saved_model.builder.SavedModelBuilder(os.path.join(folder, "words"))
        builder.add_meta_graph_and_variables(
            session,
            ["serve", "text"],
            {"serving_default": predict({"text": text}, {"ids": ids, "count": count})},
            assets_collection=tf.get_collection(tf.GraphKeys.ASSET_FILEPATHS),
            main_op=tf.tables_initializer(),
        )
        builder.save()
        value = np.array(["The", "fox!", "zebra"], object)
        found = session.run({"ids": ids, "count": count}, {text: value})
        record("words", ["serve", "text"], [("serving_default", {"text": value}, found)])

    builder = tf.saved_model.builder.SavedModelBuilder(os.path.join(folder, "several"))
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.get_variable("v", initializer=np.float64([1, 2, 3]))
        x = tf.placeholder(tf.float64, [3], name="x")
        session.run(tf.global_variables_initializer())
        builder.add_meta_graph_and_variables(session, ["train"], {"sum": predict({"x": x}, {"y": x + v})})
        builder.add_meta_graph(["serve"], {"product": predict({"x": x}, {"y": x * v})}, strip_default_attrs=True)
        builder.save(as_text=True)
        value = np.float64([4, 5, 6])
        record("several", ["serve"], [("product", {"x": value}, {"y": session.run(x * v, {x: value})})])

    with tf.saved_model.load(MODEL_OF_KERAS) as model:
        signature = model.signatures["serving_default"]
        picture = np.random.RandomState(1).randn(2, 12, 12, 3).astype(np.float32)
        found = signature(picture)
        name = next(iter(signature.inputs))
        target = os.path.join(folder, "keras_again")
        builder = tf.saved_model.builder.SavedModelBuilder(target)
        with model.graph.as_default():
            signatures = {"serving_default": predict(signature.inputs, signature.outputs)}
            builder.add_meta_graph_and_variables(model.session, ["serve"], signatures)
        builder.save()
        record("keras_again", ["serve"], [("serving_default", {name: picture}, found)])

    target = os.path.join(folder, "meta_graph")
    os.makedirs(target)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 4], name="x")
        w = tf.get_variable("w", [4, 2])
        step = tf.train.get_or_create_global_step()
        y = tf.matmul(x, w, name="y")
        loss = tf.reduce_mean(tf.square(y))
        train = tf.train.AdamOptimizer(0.1).minimize(loss, global_step=step)
        tf.add_to_collection("train_op", train)
        session.run(tf.global_variables_initializer())
        saver = tf.train.Saver()
        session.run(train, {x: given})
        saver.save(session, os.path.join(target, "model.ckpt"), global_step=step)
        frozen = tf.graph_util.convert_variables_to_constants(session, session.graph.as_graph_def(), ["y"])
        tf.train.write_graph(frozen, target, "frozen.pb", as_text=False)
        before = session.run(y, {x: given})
        session.run(train, {x: given})
        record("meta_graph", [], [("", {"x": given}, {"y": before, "trained": session.run(y, {x: given})})])


# -------------------------------------------------------------------------------------------------- read by TensorFlow
def read(folder: str) -> int:
    """Loads the models with TensorFlow and compares; returns how many differ."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow.compat.v1 as tf

    tf.disable_eager_execution()
    wrong = 0
    for name in sorted(os.listdir(folder)):
        with open(os.path.join(folder, name, "calls.json")) as stream:
            document = json.load(stream)
        problems = []
        for call in document["calls"]:
            check = _with_meta_graph if name == "meta_graph" else _with_loader
            problems += check(tf, os.path.join(folder, name), document["tags"], call)
        if name != "meta_graph":
            problems += _with_version_2(name, folder, document)
        print(f"{name}: {'; '.join(problems) or 'the same'}")
        wrong += bool(problems)
    return wrong


def _with_loader(tf: Any, path: str, tags: list[str], call: dict[str, Any]) -> list[str]:
    with tf.Graph().as_default(), tf.Session() as session:
        meta = tf.saved_model.loader.load(session, tags, path)
        signature = meta.signature_def[call["signature"]]
        fed = {signature.inputs[key].name: _array(value) for key, value in call["inputs"].items()}
        found = session.run({key: signature.outputs[key].name for key in call["outputs"]}, fed)
        return _differences(found, call["outputs"], "loader")


def _with_version_2(name: str, folder: str, document: dict[str, Any]) -> list[str]:
    """The same through `tf.saved_model.load` of version 2, in a process of its own: it needs eager execution."""
    done = subprocess.run(
        [sys.executable, os.path.abspath(__file__), "--version-2", os.path.join(folder, name)],
        capture_output=True,
        text=True,
        check=False,
    )
    return [] if done.returncode == 0 else [f"version 2: {(done.stdout + done.stderr).strip().splitlines()[-1]}"]


def read_version_2(path: str) -> int:
    """Loads one model with version 2's function and compares; returns how many calls differ."""
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    import tensorflow as tf

    with open(os.path.join(path, "calls.json")) as stream:
        document = json.load(stream)
    model = tf.saved_model.load(path, document["tags"])
    problems = []
    for call in document["calls"]:
        inputs = {key: tf.constant(_array(value)) for key, value in call["inputs"].items()}
        found = {key: value.numpy() for key, value in model.signatures[call["signature"]](**inputs).items()}
        problems += _differences(found, call["outputs"], "load")
    print("; ".join(problems))
    return len(problems)


def _with_meta_graph(tf: Any, path: str, tags: list[str], call: dict[str, Any]) -> list[str]:
    x = _array(call["inputs"]["x"])
    wanted = {"y": call["outputs"]["y"]}
    with tf.Graph().as_default(), tf.Session() as session:
        prefix = tf.train.latest_checkpoint(path)
        saver = tf.train.import_meta_graph(f"{prefix}.meta")
        saver.restore(session, prefix)
        problems = _differences({"y": session.run("y:0", {"x:0": x})}, wanted, "restored")
        session.run(tf.get_collection("train_op")[0], {"x:0": x})
        after = {"trained": session.run("y:0", {"x:0": x})}
        problems += _differences(after, {"trained": call["outputs"]["trained"]}, "trained")
    with tf.Graph().as_default(), tf.Session() as session:
        with open(os.path.join(path, "frozen.pb"), "rb") as stream:
            graph = tf.GraphDef.FromString(stream.read())
        (y,) = tf.import_graph_def(graph, return_elements=["y:0"], name="")
        problems += _differences({"y": session.run(y, {"x:0": x})}, wanted, "frozen")
    return problems


def _differences(found: dict[str, Any], wanted: dict[str, Any], what: str) -> list[str]:
    problems = []
    for key, written in wanted.items():
        value, other = np.asarray(found[key]), _array(written)
        if written["dtype"] == "string":
            same = [bytes(item).decode() for item in value.ravel()] == list(other.ravel())
        else:
            same = value.dtype == other.dtype and np.allclose(value, other, rtol=1e-5, atol=1e-6)
        if not same:
            problems.append(f"{what} gives {key} = {value.ravel()[:4]}, not {other.ravel()[:4]}")
    return problems


# -------------------------------------------------------------------------------------------------------------- arrays
def _shown(values: dict[str, Any]) -> dict[str, Any]:
    found = {}
    for name, value in values.items():
        array = np.asarray(value)
        texts = array.dtype.kind in "OSU"
        data = array.tolist()
        if texts:
            flat = [item if isinstance(item, str) else item.decode() for item in array.ravel()]
            data = np.array(flat, object).reshape(array.shape).tolist()
        found[name] = {"dtype": "string" if texts else array.dtype.name, "value": data}
    return found


def _array(written: dict[str, Any]) -> np.ndarray:
    return np.array(written["value"], object if written["dtype"] == "string" else written["dtype"])


def main(arguments: list[str]) -> int:
    """Writes here, reads with the interpreter that is given."""
    if arguments[:1] == ["--read"]:
        return int(read(arguments[1]) > 0)
    if arguments[:1] == ["--version-2"]:
        return int(read_version_2(arguments[1]) > 0)
    if not 1 <= len(arguments) <= 2:
        print(__doc__)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        folder = arguments[1] if len(arguments) == 2 else scratch
        write(folder)
        return subprocess.run([arguments[0], os.path.abspath(__file__), "--read", folder], check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
