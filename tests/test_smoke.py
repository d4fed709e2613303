"""What must work before anything else is worth a look: import, the classic program, a failing step. Seconds.

python -m pytest tests/test_smoke.py
"""

from __future__ import annotations

import json
import pickle
import subprocess
import sys

import numpy as np
import pytest

import anabranch as tf

IMPORT = """
import json, sys, threading
import anabranch
report = {"jax": "jax" in sys.modules, "threads": threading.active_count()}
import anabranch.core.contract.hooks as hooks
x = anabranch.constant([1.0, 2.0])
anabranch.Session
report["jax later"] = "jax" in sys.modules
report["threads later"] = threading.active_count()
report["slots"] = hooks.unfilled()
print(json.dumps(report))
"""


def test_import_is_light_and_complete():
    """Importing, building a graph and naming the session load no jax and start no thread; all slots get filled."""
    shown = subprocess.run([sys.executable, "-c", IMPORT], capture_output=True, text=True, check=False, timeout=60)
    assert shown.returncode == 0, shown.stderr
    report = json.loads(shown.stdout)
    assert report == {"jax": False, "threads": 1, "jax later": False, "threads later": 1, "slots": []}


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_the_classic_program(tier):
    """Placeholder, variables, a hidden layer, gradient descent: the loss falls, and the step counts."""
    random = np.random.RandomState(0)
    data = random.rand(32, 5).astype(np.float32)
    wanted = np.sin(data.sum(1, keepdims=True))
    with tf.Graph().as_default():
        tf.set_random_seed(1)
        x = tf.placeholder(tf.float32, [None, 5], name="x")
        hidden = tf.nn.relu(tf.matmul(x, tf.Variable(tf.random_uniform([5, 16], -1, 1))) + tf.Variable(tf.zeros([16])))
        predicted = tf.matmul(hidden, tf.Variable(tf.truncated_normal([16, 1], stddev=0.3)))
        loss = tf.reduce_mean(tf.square(predicted - tf.constant(wanted, tf.float32)))
        step = tf.train.get_or_create_global_step()
        train = tf.train.AdamOptimizer(0.05).minimize(loss, global_step=step)
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            session.run(tf.global_variables_initializer())
            first = session.run(loss, {x: data})
            for _ in range(30):
                session.run(train, {x: data})
            last, count = session.run([loss, step], {x: data})
    assert count == 30
    assert last < first / 4


def test_a_graph_goes_out_and_in():
    with tf.Graph().as_default() as graph:
        x = tf.placeholder(tf.float32, [None], name="x")
        tf.identity(tf.reduce_sum(x * x), name="y")
        written = graph.as_graph_def().SerializeToString()
    with tf.Graph().as_default():
        tf.import_graph_def(tf.GraphDef.FromString(written), name="")
        with tf.Session() as session:
            assert session.run("y:0", {"x:0": [3.0, 4.0]}) == 25.0


def test_a_failed_step_changes_nothing_and_names_the_line():
    with tf.Graph().as_default(), tf.Session() as session:
        v = tf.Variable(1.0)
        x = tf.placeholder(tf.float32, [])
        with tf.control_dependencies([v.assign(2.0)]):
            step = tf.check_numerics(tf.log(x), "not a number")
        session.run(v.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"not a number(.|\n)*test_smoke\.py"):
            session.run(step, {x: -1.0})
        assert session.run(v) == 1.0
        session.run(step, {x: 1.0})
        assert session.run(v) == 2.0


def test_advice_about_a_missing_name_is_worked_out_when_it_is_read(monkeypatch):
    from anabranch.core.contract import api

    def fail(*_):
        raise AssertionError("worked out")

    with monkeypatch.context() as patch:
        patch.setattr(api, "similar_names", fail)
        assert not hasattr(tf, "reduce_summ")
        assert getattr(tf.nn, "reluu", None) is None
    with pytest.raises(AttributeError, match=r"tf\.reduce_sum") as caught:
        tf.reduce_summ
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)
