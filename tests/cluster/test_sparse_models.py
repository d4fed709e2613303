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


@pytest.mark.parametrize("use_resource", [False, True])
def test_parts_of_a_large_table_are_taken_where_it_is(cluster, sent, use_resource):
    """Whatever task the lookup names, the table does not travel, and rows are updated where they are."""
    values = np.arange(40_000 * WIDTH, dtype=np.float32).reshape(-1, WIDTH)
    with tf.device("/job:ps/task:0"):
        table = tf.get_variable("large", initializer=tf.constant(values), use_resource=use_resource)
    ids = tf.placeholder(tf.int64, [None])
    with tf.device("/job:worker/task:0"):
        rows = tf.gather(table.read_value() if use_resource else table, ids)
        corner = table[2:4, 1]
        loss = tf.reduce_sum(tf.square(rows))
        everything = tf.gather(table, tf.zeros([80_000], tf.int64))  # more than the table: that one is sent
    gradient = tf.IndexedSlices(tf.gradients(loss, rows)[0], ids)
    train = tf.train.GradientDescentOptimizer(0.5).apply_gradients([(gradient, table)])
    with tf.Session(cluster[0][0].target) as session:
        session.run(table.initializer)
        session.run([corner, loss], {ids: [3, 5]})
        sent[0] = 0
        got, found = session.run([corner, loss], {ids: [3, 5]})
        np.testing.assert_array_equal(got, values[2:4, 1])
        assert found == np.square(values[[3, 5]]).sum()
        session.run(train, {ids: [3, 5]})
        assert sent[0] < 20_000
        assert not session.run(table)[[3, 5]].any()
        metadata = tf.RunMetadata()
        session.run(everything.op, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
        devices = {node.name: node.device for part in metadata.partition_graphs for node in part.node}
        assert devices[everything.op.name] == "/job:worker/replica:0/task:0/device:CPU:0"
