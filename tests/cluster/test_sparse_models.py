"""Tables in shards over parameter servers: what travels in a training step are rows."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.cluster import wire

ROWS, WIDTH, BATCH, SAMPLED = (60, 6000), 8, 16, 8


@pytest.fixture
def sent(monkeypatch):
    """How many bytes tasks have sent to each other."""
    monkeypatch.setattr("anabranch.cluster.task.find_here", lambda address: None)
    count = [0]
    encode = wire.encode

    def counted(header, values=()):
        message = encode(header, values)
        count[0] += len(message)
        return message

    monkeypatch.setattr(wire, "encode", counted)
    return count


def looked_up(rows, ids, make):
    table = make("table", [rows, WIDTH])
    return tf.reduce_mean(tf.square(tf.nn.embedding_lookup(table, ids, partition_strategy="div") - 1.0)), table


def sampled(rows, ids, make):
    table, bias = make("table", [rows, WIDTH]), make("bias", [rows])
    hidden = tf.get_variable("hidden", [BATCH, WIDTH], initializer=tf.ones_initializer())
    labels = tf.reshape(ids, [-1, 1])
    with tf.device("/job:worker/task:0"):
        loss = tf.nn.sampled_softmax_loss(table, bias, labels, hidden, SAMPLED, rows, partition_strategy="div", seed=3)
    return tf.reduce_mean(loss), table


@pytest.mark.parametrize("model", [looked_up, sampled])
@pytest.mark.parametrize("use_resource", [False, True])
def test_what_travels_does_not_depend_on_the_size_of_the_table(cluster, sent, model, use_resource):
    workers, _ = cluster
    bytes_of_step = []
    for rows in ROWS:
        tf.Session.reset(workers[0].target)
        with tf.Graph().as_default():

            def make(name, shape):
                return tf.get_variable(
                    name,
                    shape,
                    initializer=tf.zeros_initializer(),
                    partitioner=tf.fixed_size_partitioner(2),
                    use_resource=use_resource,
                )

            with tf.device(tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")):
                step = tf.train.get_or_create_global_step()
                ids = tf.placeholder(tf.int64, [BATCH])
                loss, table = model(rows, ids, make)
                train = tf.train.AdagradOptimizer(0.5).minimize(loss, global_step=step)
            assert {part.device for part in table} == {"/job:ps/task:0", "/job:ps/task:1"}
            feed = {ids: np.arange(BATCH) * 3}
            with tf.Session(workers[0].target, config=tf.SessionOptions(tier="interpreted")) as session:
                session.run(tf.global_variables_initializer())
                first = session.run([train, loss], feed)[1]
                session.run([train, loss], feed)
                sent[0] = 0
                assert session.run([train, loss], feed)[1] < first
                bytes_of_step.append(sent[0])
    small, large = bytes_of_step
    assert large < 1.05 * small  # the larger table is a hundred times as large
    assert large < 60 * BATCH * WIDTH * 4
