"""Sessions on a target: placement over tasks, state that clients share, failures, deadlines."""

from __future__ import annotations

import argparse
import threading
import time

import numpy as np
import pytest

import anabranch as tf
from anabranch.cli import launch_command
from anabranch.cluster import driver

pytestmark = pytest.mark.usefixtures("reached")


def test_a_step_over_three_tasks(cluster):
    workers, _ = cluster
    with tf.device("/job:ps/task:0"):
        v = tf.Variable([1.0, 2.0], name="v")
    with tf.device("/job:ps/task:1"):
        w = tf.Variable([10.0, 20.0], name="w", use_resource=True)
    x = tf.placeholder(tf.float32, [2])
    with tf.device("/job:worker/task:1"):
        total = v * x + w
    add = tf.group(v.assign_add(total), w.assign_sub(x))
    with tf.Session(workers[0].target) as session:
        session.run(tf.global_variables_initializer())
        np.testing.assert_array_equal(session.run(total, {x: [2.0, 3.0]}), [12.0, 26.0])
        session.run(add, {x: [2.0, 3.0]})
        after_v, after_w = session.run([v, w])
        np.testing.assert_array_equal(after_v, [13.0, 28.0])
        np.testing.assert_array_equal(after_w, [8.0, 17.0])
        after_v += 1.0  # what is fetched is the caller's own
        np.testing.assert_array_equal(session.run(v), [13.0, 28.0])
        assert "3 tasks" in session.explain([total], {x: [2.0, 3.0]})


def test_a_training_step_is_two_calls_to_each_parameter_server(cluster):
    workers, _ = cluster
    with tf.device(tf.train.replica_device_setter(cluster={"ps": ["a:1", "b:2"], "worker": ["c:3", "d:4"]})):
        x = tf.placeholder(tf.float32, [None, 3])
        tf.set_random_seed(1)
        step = tf.train.get_or_create_global_step()
        hidden = tf.layers.dense(tf.layers.dense(x, 4), 1)
        loss = tf.reduce_mean(tf.square(hidden - 1.0))
        train = tf.train.AdamOptimizer(0.05).minimize(loss, global_step=step)
    with tf.Session(workers[0].target) as session:
        session.run(tf.global_variables_initializer())
        feed = {x: np.ones([8, 3], np.float32)}
        plan = session.explain([train, loss], feed)
        assert plan.splitlines()[0] == "5 pieces on 3 tasks"
        before = session.run(loss, feed)
        for _ in range(30):
            session.run([train, loss], feed)
        assert session.run(loss, feed) < before / 2
        assert session.run(step) == 30


def test_clients_share_the_state_of_a_target_and_may_have_their_own(cluster):
    workers, servers = cluster
    with tf.device("/job:ps/task:0"):
        v = tf.Variable(1, name="shared")
        add = v.assign_add(1)
    one, two = tf.Session(workers[0].target), tf.Session(servers[1].target)
    alone = tf.Session(workers[0].target, config=tf.ConfigProto(isolate_session_state=True))
    one.run(v.initializer)
    two.run(add)
    assert one.run(v) == 2
    with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value shared"):
        alone.run(v)
    one.close()
    assert two.run(add) == 3
    tf.Session.reset(workers[1].target)
    three = tf.Session(workers[0].target)
    with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value shared"):
        three.run(v)
    with pytest.raises(tf.errors.AbortedError, match="just restarted"):
        two.run(v)
    for session in (two, three, alone):
        session.close()


def test_iterators_without_a_shared_name_and_random_streams_are_each_sessions_own(cluster):
    target = cluster[0][0].target

    def model(components):
        with tf.device("/job:worker/task:0"):
            iterator = tf.data.make_initializable_iterator(tf.data.Dataset.from_tensors((1.5,) * components).repeat())
            shared = tf.data.make_initializable_iterator(tf.data.Dataset.range(5), shared_name="shared")
            return iterator.initializer, iterator.get_next(), shared, tf.random_uniform([], seed=components)

    with tf.Session(target) as first:
        initializer, values, shared, draw = model(2)
        first.run([initializer, shared.initializer])
        assert first.run(values) == (1.5, 1.5)
        assert first.run(shared.get_next()) == 0
        drawn = [first.run(draw) for _ in range(3)]
        with tf.Graph().as_default(), tf.Session(target) as second:
            initializer, other, shared, draw_3 = model(3)
            second.run(initializer)  # the same names as those of the first graph, another type of elements
            assert second.run(other) == (1.5, 1.5, 1.5)
            assert second.run(shared.get_next()) == 1
            assert second.run(draw_3) not in drawn
        assert first.run(values) == (1.5, 1.5)
    with tf.Session(target, graph=values[0].graph) as third:  # the graph again: neither goes on where the first was
        with pytest.raises(tf.errors.FailedPreconditionError, match="GetNext"):
            third.run(values)
        assert [third.run(draw) for _ in range(3)] == drawn


def test_an_iterator_that_is_fed_by_its_string_runs_at_its_task(cluster, reached):
    workers, _ = cluster
    with tf.device("/job:ps/task:0"):
        offset = tf.get_variable("offset", [], tf.int64, initializer=tf.constant_initializer(100))
    with tf.device("/job:worker/task:1"):
        numbers, tens = tf.data.Dataset.range(3), tf.data.Dataset.range(0, 30, 10)
        given = tf.placeholder(tf.string, [], name="given")
        either = tf.data.Iterator.from_string_handle(given, numbers.output_types, numbers.output_shapes)
        value = either.get_next() + offset
        first, second = numbers.make_one_shot_iterator(), tens.make_initializable_iterator()
        strings = [first.string_handle(), second.string_handle()]
    with tf.Session(workers[0].target) as session:
        session.run([offset.initializer, second.initializer])
        of_first, of_second = session.run(strings)
        seen = [session.run(value, {given: string}) for string in (of_first, of_second, of_first, of_second, of_second)]
        assert seen == [100, 100, 101, 110, 120]
        with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
            session.run(value, {given: of_second})


def test_a_traced_step_says_what_ran_on_which_task(cluster):
    workers, _ = cluster
    with tf.device("/job:ps/task:1"):
        v = tf.Variable([1.0, 2.0], name="v")
    with tf.device("/job:worker/task:1"):
        total = tf.reduce_sum(v * 2.0)
    with tf.Session(workers[0].target, config=tf.SessionOptions(tier="interpreted")) as session:
        session.run(v.initializer)
        metadata = tf.RunMetadata()
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
        assert session.run(total, options=options, run_metadata=metadata) == 6.0
        nodes = {entry.device: [node.node_name for node in entry.node_stats] for entry in metadata.step_stats.dev_stats}
        assert "Sum" in nodes["/job:worker/replica:0/task:1/device:CPU:0"]
        assert "/job:ps/replica:0/task:1/device:CPU:0" in nodes
        session.run(total, options=tf.RunOptions(output_partition_graphs=True), run_metadata=metadata)
        parts = {part.node[0].device: {node.name: node.op for node in part.node} for part in metadata.partition_graphs}
        assert parts["/job:ps/replica:0/task:1/device:CPU:0"]["v"] == "VariableV2"
        assert parts["/job:worker/replica:0/task:1/device:CPU:0"]["Sum"] == "Sum"
        assert len(parts) == 2


def test_reset_clears_containers_by_name(cluster):
    workers, _ = cluster
    with tf.container("one"):
        v = tf.Variable(1, name="v")
    with tf.container("two"):
        w = tf.Variable(2, name="w")
    with tf.Session(workers[0].target) as session:
        session.run([v.initializer, w.initializer])
    tf.Session.reset(workers[0].target, ["one"])
    with tf.Session(workers[0].target) as session:
        assert session.run(w) == 2
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value v"):
            session.run(v)


@pytest.mark.parametrize("local", [True, False])
def test_reset_without_names_clears_what_is_in_no_container(cluster, local):
    target = "" if local else cluster[0][0].target
    with tf.Graph().as_default():
        with tf.container("own"):
            kept = tf.Variable(1, name="kept")
        gone = tf.Variable(2, name="gone")
        session = tf.Session(target)
        session.run([kept.initializer, gone.initializer])
        tf.Session.reset(target)
        with session if local else tf.Session(target) as after:
            assert after.run(kept) == 1
            with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value gone"):
                after.run(gone)


def test_a_read_sees_the_write_that_it_waits_for_on_another_task(cluster):
    workers, _ = cluster
    with tf.device("/job:ps/task:0"):
        v = tf.Variable(1.0, name="v")
        assign = v.assign(5.0)
    with tf.device("/job:worker/task:0"):
        before = v + 0.0
        with tf.control_dependencies([assign]):
            after = v + 0.5
            anew = tf.identity(v.read_value())
    with tf.Session(workers[0].target) as session:
        session.run(v.initializer)
        np.testing.assert_array_equal(session.run([before, after, anew, v]), [1.0, 5.5, 5.0, 5.0])


def test_an_error_names_the_op_and_the_line_of_the_program(cluster):
    workers, _ = cluster
    i = tf.placeholder(tf.int32, [])
    with tf.device("/job:ps/task:1"):
        v = tf.Variable([1.0, 2.0], name="v")
        row = tf.gather(v, i, name="row_of_v")
        add = tf.Variable(0, name="count").assign_add(1)
    with tf.device("/job:worker/task:1"):
        twice = row * 2.0
    with tf.Session(workers[0].target) as session:
        session.run(tf.global_variables_initializer())
        with pytest.raises(tf.errors.InvalidArgumentError, match="row_of_v") as caught:
            session.run([twice, add], {i: 7})
        assert "test_sessions.py" in str(caught.value)
        assert caught.value.op is row.op
        assert caught.value.message.startswith("From /job:ps/replica:0/task:1:\nindices = 7 is not in [0, 2)")
        assert session.run(twice, {i: 1}) == 4.0


@pytest.mark.parametrize("blocks", [False, True])
def test_errors_of_steps_in_flight_say_which_task_they_are_from(cluster, blocks):
    workers, _ = cluster
    with tf.device("/job:ps/task:0"):
        v = tf.Variable([1.0, 2.0], name="v", use_resource=True)
        one = tf.identity(v.read_value())
    with tf.device("/job:ps/task:1"):
        queue = tf.FIFOQueue(2, tf.int32, name="rows")
        other = queue.dequeue() if blocks else tf.Variable(1, name="other").read_value()
    with tf.Session(workers[0].target) as session:
        session.run(v.initializer)
        session.run(queue.close())
        problem = tf.errors.OutOfRangeError if blocks else tf.errors.FailedPreconditionError
        with pytest.raises(problem, match=r"^From /job:ps/replica:0/task:1:\n(FIFOQueue|Attempting)"):
            session.run([one, other])


def test_a_step_that_meets_the_end_of_its_session_is_cancelled(cluster, monkeypatch):
    workers, servers = cluster
    with tf.device("/job:ps/task:0"):
        v = tf.Variable(1.0, name="v")
    session = tf.Session(workers[0].target)
    session.run(v.initializer)
    session.run(v)
    real = driver.StepRun.run

    def late(step_run):
        session.close()
        while servers[0]._task._sessions:
            time.sleep(0.01)
        return real(step_run)

    monkeypatch.setattr(driver.StepRun, "run", late)
    with pytest.raises(tf.errors.CancelledError, match="Session was closed"):
        session.run(v)


def test_a_device_that_is_not_there_or_filtered_away_is_refused(cluster):
    workers, _ = cluster
    with tf.device("/job:ps/task:7"):
        nowhere = tf.constant(1) + 1
    with tf.device("/job:ps/task:1"):
        away = tf.constant(1) + 1
    with tf.device("/job:ps/task:0"):
        there = tf.constant(1) + 1
    config = tf.ConfigProto(device_filters=["/job:ps/task:0"])
    with tf.Session(workers[0].target, config=config) as session:
        assert session.run(there) == 2
        for tensor in (nowhere, away):
            with pytest.raises(tf.errors.InvalidArgumentError, match="Cannot assign a device"):
                session.run(tensor)
        names = [device.name for device in session.list_devices()]
        assert names == ["/job:worker/replica:0/task:0/device:CPU:0", "/job:ps/replica:0/task:0/device:CPU:0"]


def test_ops_are_logged_with_the_devices_of_their_tasks(cluster, capfd):
    workers, _ = cluster
    with tf.device("/job:ps/task:1"):
        x = tf.square(tf.placeholder(tf.float32, [], name="x"), name="squared")
    with tf.device("/job:worker/task:1/device:GPU:0"):
        refused = tf.negative(x, name="refused")
    with tf.Session(workers[0].target, config=tf.ConfigProto(log_device_placement=True)) as session:
        assert session.run(x, {"x:0": 3.0}) == 9.0
        assert "squared: (Square): /job:ps/replica:0/task:1/device:CPU:0\n" in capfd.readouterr().err
        there = r"available devices are \[ /job:worker/replica:0/task:1/device:CPU:0 \]"
        with pytest.raises(tf.errors.InvalidArgumentError, match=there):
            session.run(refused, {"x:0": 3.0})


def test_what_the_config_of_a_server_sets_holds_for_all_sessions_on_it(monkeypatch):
    def product():
        with tf.device("/gpu:7"):
            return tf.placeholder_with_default(2.0, []) * 3.0

    soft = tf.train.Server.create_local_server(config=tf.ConfigProto(allow_soft_placement=True))
    try:
        for find in (driver.tasks.find_here, lambda address: None):  # of this process, and as if of another
            monkeypatch.setattr("anabranch.cluster.task.find_here", find)
            for config in (None, tf.ConfigProto(intra_op_parallelism_threads=1)):
                with tf.Graph().as_default(), tf.Session(soft.target, config=config) as session:
                    assert session.run(product()) == 6.0
    finally:
        soft.stop()


def test_queues_are_shared_and_cancellation_reaches_them(cluster):
    workers, _ = cluster
    with tf.device("/job:ps/task:0"):
        queue = tf.FIFOQueue(10, [tf.string, tf.float32], shapes=[[], [2]], shared_name="q")
    text, row = queue.dequeue()
    put = queue.enqueue([tf.constant("text"), tf.constant([1.0, 2.0])])
    consumer, producer = tf.Session(workers[0].target), tf.Session(workers[1].target)
    taken = []
    thread = threading.Thread(target=lambda: taken.append(consumer.run([text, row * 2.0])))
    thread.start()
    time.sleep(0.1)
    assert not taken
    producer.run(put)
    thread.join(60)
    assert taken[0][0] == b"text"
    np.testing.assert_array_equal(taken[0][1], [2.0, 4.0])
    with pytest.raises(tf.errors.DeadlineExceededError, match=r"timeout_in_ms|took too long"):
        consumer.run(text, options=tf.RunOptions(timeout_in_ms=200))
    problems = []

    def wait():
        try:
            consumer.run(text)
        except (tf.errors.CancelledError, RuntimeError) as problem:
            problems.append(problem)

    thread = threading.Thread(target=wait)
    thread.start()
    time.sleep(0.2)
    consumer.close()
    thread.join(60)
    assert len(problems) == 1
    producer.run(put)
    assert producer.run(queue.size()) == 1  # nobody who has gone away takes it
    producer.close()


def test_a_loop_and_a_conditional_run_where_their_variables_are(cluster):
    workers, _ = cluster
    with tf.device("/job:ps/task:0"):
        v = tf.get_variable("v", [], initializer=tf.zeros_initializer(), use_resource=True)
    x = tf.placeholder(tf.float32, [])
    with tf.device("/job:worker/task:0"):
        grown = tf.cond(x > 0.0, lambda: v.assign_add(x), lambda: v + 0.0)
        _, total = tf.while_loop(lambda i, t: i < 3, lambda i, t: (i + 1, t + v), (0, grown))
    with tf.Session(workers[0].target) as session:
        session.run(v.initializer)
        assert session.run(total, {x: 2.0}) == 8.0
        assert session.run(total, {x: -1.0}) == 8.0


def test_variables_in_parts_over_parameter_servers_are_saved_and_restored(cluster, tmp_path):
    workers, _ = cluster
    setter = tf.train.replica_device_setter(ps_tasks=2, worker_device="/job:worker/task:0")
    with tf.device(setter):
        table = tf.get_variable(
            "table", [6, 2], partitioner=tf.fixed_size_partitioner(2), initializer=tf.zeros_initializer()
        )
        rows = tf.nn.embedding_lookup(table, [0, 5])
        loss = tf.reduce_sum(rows)
    train = tf.train.GradientDescentOptimizer(1.0).minimize(loss)
    saver = tf.train.Saver()
    assert {part.device for part in table} == {"/job:ps/task:0", "/job:ps/task:1"}
    with tf.Session(workers[0].target) as session:
        session.run(tf.global_variables_initializer())
        session.run(train)
        np.testing.assert_array_equal(session.run(rows), [[-1.0, -1.0], [-1.0, -1.0]])
        path = saver.save(session, str(tmp_path / "model"))
        session.run(train)
        saver.restore(session, path)
        expected = np.zeros([6, 2], np.float32)
        expected[[0, 5]] = -1.0
        np.testing.assert_array_equal(session.run(tf.convert_to_tensor(table)), expected)


def test_a_server_is_described_as_it_was_asked_for_and_its_task_must_be_there():
    server = tf.train.Server({"local": ["localhost:0"]}, start=False)
    assert dict(server.server_def.cluster.job[0].tasks) == {0: "localhost:0"}
    assert not server.target.endswith(":0")
    server.stop()
    with pytest.raises(tf.errors.InvalidArgumentError, match='Task 3 was not defined in job "local"'):
        tf.train.Server({"local": ["localhost:0"]}, task_index=3, start=False)


def test_a_ray_cluster_is_refused_by_the_launcher_and_not_used_by_a_server(monkeypatch, caplog):
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    options = argparse.Namespace(ps=0, workers=1, restarts=0, script="train.py", arguments=[])
    with pytest.raises(ValueError, match=r"RAY_ADDRESS=10\.0\.0\.1:6379, of a Ray cluster"):
        launch_command.tasks_of(options)
    server = tf.train.Server({"local": ["localhost:0"]}, start=False)
    server.stop()
    assert "RAY_ADDRESS=10.0.0.1:6379 is not used" in caplog.text
    monkeypatch.delenv("RAY_ADDRESS")
    assert [task.name for task in launch_command.tasks_of(options)] == ["worker 0"]
