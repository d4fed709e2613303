"""Garbage that holds sessions, writers, readers and iterators, collected wherever the package holds a condition."""

from __future__ import annotations

import gc
import threading

import pytest

import anabranch as tf
from anabranch.core import conditions


class Cycle:
    """Garbage that only the collector finds."""

    def __init__(self, *held):
        self.held, self.itself = held, self


def leave_garbage(folder):
    """Use what has finalizers, close nothing, and leave it in a cycle."""
    with tf.Graph().as_default():
        session = tf.Session()
        variable = tf.get_variable("v", [3], initializer=tf.zeros_initializer())
        queue = tf.FIFOQueue(3, tf.float32, [[]])
        area = tf.contrib.staging.StagingArea([tf.float32])
        dataset = tf.data.Dataset.range(20).map(lambda x: x + 1, num_parallel_calls=2).prefetch(2).shuffle(5)
        element = dataset.make_one_shot_iterator().get_next()
        session.run([variable.initializer, queue.enqueue(1.0), area.put([1.0])])
        session.run(element)
        writer = tf.summary.FileWriter(folder)
        writer.add_summary(tf.Summary(), 1)
        path = tf.train.Saver().save(session, f"{folder}/model")
        step = session.make_callable(variable.assign_add(tf.ones([3])))
        step()
        Cycle(session, writer, tf.train.load_checkpoint(path), element, step)


@pytest.fixture
def no_collector():
    gc.collect()
    gc.disable()
    gc.freeze()  # what is there already need not be looked at, now or later (tests/conftest.py)
    yield
    gc.enable()


@pytest.mark.usefixtures("no_collector")
def test_what_is_collected_where_a_condition_is_held_waits_for_nobody(monkeypatch, tmp_path):
    collected = []

    def entering(condition):
        own = condition._lock.__enter__

        def enter():
            result = own()
            if threading.current_thread() is threading.main_thread():
                collected.append(gc.collect())
            return result

        return enter

    monkeypatch.setattr(conditions.Condition, "__enter__", property(entering))
    for _ in range(2):
        leave_garbage(str(tmp_path))
    assert sum(collected) > 50
    assert len(collected) > 20
