"""A real TensorBoard reads what a run writes: its server is started and asked over HTTP, as its pages do."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import struct
import subprocess
import sys
import threading
import time
import urllib.parse
import urllib.request

import numpy as np
import pytest

import anabranch as tf

pytestmark = [
    pytest.mark.slow,
    pytest.mark.multiprocess,
    pytest.mark.skipif(importlib.util.find_spec("tensorboard") is None, reason="pip install tensorboard"),
]


def write(folder):
    """A run of a small training program with all kinds of summaries."""
    with tf.Graph().as_default():
        tf.set_random_seed(3)
        with tf.name_scope("input"):
            x = tf.placeholder(tf.float32, [None, 8], name="x")
        with tf.device("/device:CPU:0"), tf.name_scope("model"):
            w = tf.Variable(tf.random_normal([8, 2]), name="w")
            y = tf.matmul(x, w, name="y")
        with tf.name_scope("loss"):
            loss = tf.reduce_mean(tf.square(y))
        step = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        tf.summary.scalar("loss", loss)
        tf.summary.histogram("weights", w)
        tf.summary.image("picture", tf.reshape(tf.abs(x), [-1, 2, 4, 1]), max_outputs=2)
        tf.summary.audio("sound", tf.tanh(x), 8000.0, max_outputs=1)
        tf.summary.text("note", tf.constant("*some* text"))
        merged = tf.summary.merge_all()
        losses = []
        with tf.Session() as session, tf.summary.FileWriter(os.path.join(folder, "train"), session.graph) as writer:
            session.run(tf.global_variables_initializer())
            data = np.random.RandomState(0).randn(16, 8)
            for i in range(5):
                metadata = tf.RunMetadata()
                options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
                found, value, _ = session.run([merged, loss, step], {x: data}, options, metadata)
                writer.add_summary(found, i)
                writer.add_run_metadata(metadata, f"step {i}", i)
                losses.append(float(value))
    return losses


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """The losses of a run, and a function that asks the server that shows it."""
    folder = tmp_path_factory.mktemp("board")
    losses = write(folder)
    server = subprocess.Popen(
        [sys.executable, "-m", "tensorboard.main", "--logdir", folder, "--host", "127.0.0.1", "--port", "0",
         "--load_fast", "false", "--reload_interval", "1"],
        stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True,
    )  # fmt: skip
    try:
        lines = []
        address = None
        for line in server.stderr:
            lines.append(line)
            if found := re.search(r"at (http://[\d.]+:\d+)", line):
                address = found.group(1)
                break
        assert address, "".join(lines)
        drain = threading.Thread(target=server.stderr.read, daemon=True)
        drain.start()

        def ask(path, **query):
            where = f"{address}/data/{path}" + ("?" + urllib.parse.urlencode(query) if query else "")
            with urllib.request.urlopen(where, timeout=60) as answer:
                body = answer.read()
                return json.loads(body) if answer.headers.get_content_type() == "application/json" else body

        for _ in range(600):
            if ask("runs") and "loss_1" in ask("plugin/scalars/tags").get("train", {}):
                break
            time.sleep(0.1)
        yield losses, ask
    finally:
        server.terminate()
        server.wait(60)
        server.stderr.close()


def test_scalars(board):
    losses, ask = board
    assert ask("runs") == ["train"]
    assert list(ask("plugin/scalars/tags")["train"]) == ["loss_1"]
    found = ask("plugin/scalars/scalars", run="train", tag="loss_1")
    assert [point[1] for point in found] == [0, 1, 2, 3, 4]
    np.testing.assert_allclose([point[2] for point in found], losses, rtol=1e-6)
    assert losses[4] < losses[0]


def test_histograms_and_distributions(board):
    _, ask = board
    for plugin in ("histograms", "distributions"):
        assert list(ask(f"plugin/{plugin}/tags")["train"]) == ["weights"]
        found = ask(f"plugin/{plugin}/{plugin}", run="train", tag="weights")
        assert [point[1] for point in found] == [0, 1, 2, 3, 4]
    counts = [
        sum(bucket[2] for bucket in point[2])
        for point in ask("plugin/histograms/histograms", run="train", tag="weights")
    ]
    assert counts == [16] * 5


def test_images_and_sounds(board):
    _, ask = board
    (tag, *others) = sorted(ask("plugin/images/tags")["train"])
    assert (tag, others) == ("picture/image/0", ["picture/image/1"])
    found = ask("plugin/images/images", run="train", tag=tag, sample=0)
    assert [image["step"] for image in found] == [0, 1, 2, 3, 4]
    picture = ask("plugin/images/individualImage?" + found[0]["query"])
    assert picture[:8] == b"\x89PNG\r\n\x1a\n"
    assert struct.unpack(">II", picture[16:24]) == (4, 2)
    (tag,) = ask("plugin/audio/tags")["train"]
    found = ask("plugin/audio/audio", run="train", tag=tag, sample=0)
    assert found[0]["contentType"] == "audio/wav"
    assert ask("plugin/audio/individualAudio?" + found[0]["query"]).startswith(b"RIFF")


def test_text(board):
    _, ask = board
    assert ask("plugin/text/tags")["train"] == ["note"]
    assert "<em>some</em> text" in ask("plugin/text/text", run="train", tag="note")[0]["text"]


def test_graph(board):
    _, ask = board
    info = ask("plugin/graphs/info")["train"]
    assert info["run_graph"]
    assert sorted(info["tags"]) == [f"step {i}" for i in range(5)]
    text = ask("plugin/graphs/graph", run="train").decode()
    assert 'name: "model/y"' in text
    assert 'device: "/device:CPU:0"' in text
    assert 'name: "gradients/' in text
    stats = ask("plugin/graphs/run_metadata", run="train", tag="step 3").decode()
    assert "node_stats" in stats
