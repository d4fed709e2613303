"""Steps over several devices. Not collected by itself: `test_waves.py` runs it in a process with eight CPU devices.

By hand: `ANABRANCH_CPU_DEVICES=8 python -m pytest tests/runtime/on_eight_devices.py`.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import anabranch as tf
from anabranch.runtime import step as steps
from anabranch.xla import lowering

LARGE = (600, 500)
"""More elements than `layers.WORTH_OWNING`."""


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def compiled():
    return tf.Session(config=tf.SessionOptions(tier="compiled"))


def programs(text):
    """Of each program that `explain` shows: its device, whether it is beside the one before, what it owns."""
    shown = []
    for line in text.splitlines():
        match = re.match(r"    program  \d+ ops on .*device:CPU:(\d)(, beside the last)?:", line)
        if match:
            shown.append([int(match[1]), bool(match[2]), ""])
        elif "owns the buffers of" in line:
            shown[-1][2] = line.partition("owns the buffers of ")[2]
    return [tuple(row) for row in shown]


def devices_of(session, variable):
    """The numbers of the devices that hold a variable's value."""
    slot = next(slot for slot in session._manager.slots() if slot.name == variable.op.name)
    return {device.id for device in slot.version.value.devices()}


@pytest.fixture
def events(monkeypatch):
    """What is called and waited for, in order."""
    seen = []
    begin, end = steps.Call.begin, steps.Call.end

    def noting_begin(call, *args):
        seen.append(("begin", call.program.device.number if call.program.device is not None else 0))
        return begin(call, *args)

    def noting_end(call, *args):
        seen.append(("end", call.program.device.number if call.program.device is not None else 0))
        return end(call, *args)

    monkeypatch.setattr(steps.Call, "begin", noting_begin)
    monkeypatch.setattr(steps.Call, "end", noting_end)
    return seen


# -------------------------------------------------------------------------------------------------------------- devices
def test_all_devices_are_listed():
    with tf.Session() as session:
        assert [device.name for device in session.list_devices()] == [
            f"/job:localhost/replica:0/task:0/device:CPU:{i}" for i in range(8)
        ]


def test_a_session_may_use_fewer():
    with tf.Session(config=tf.ConfigProto(device_count={"CPU": 3})) as session:
        assert len(session.list_devices()) == 3
        with tf.device("/cpu:3"):
            x = tf.constant(1.0) + 1.0
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"assigned to /device:CPU:3 but available devices"):
            session.run(x)


def test_more_than_there_are_is_refused():
    with pytest.raises(tf.errors.FailedPreconditionError, match="ANABRANCH_CPU_DEVICES=9"):
        tf.Session(config=tf.ConfigProto(device_count={"CPU": 9}))


# --------------------------------------------------------------------------------------------------------------- towers
ROWS, WIDTH, CLASSES = 24, 6, 4


def towers(count, placed, use_resource, optimizer):
    """A network in towers, each with its part of the batch; the mean of their gradients is applied."""
    x = tf.placeholder(tf.float32, [ROWS, WIDTH])
    labels = tf.placeholder(tf.int32, [ROWS])
    pairs, losses = [], []
    for i, (part, answers) in enumerate(zip(tf.split(x, count), tf.split(labels, count), strict=True)):
        with (
            tf.device(f"/cpu:{i}" if placed else None),
            tf.variable_scope("model", reuse=tf.AUTO_REUSE, use_resource=use_resource),
        ):
            with tf.device("/cpu:0" if placed else None):
                w = tf.get_variable("w", [WIDTH, CLASSES], initializer=tf.random_normal_initializer(seed=3))
                b = tf.get_variable("b", [CLASSES], initializer=tf.zeros_initializer())
            loss = tf.losses.sparse_softmax_cross_entropy(answers, tf.tanh(part) @ w + b)
            losses.append(loss)
            pairs.append(optimizer.compute_gradients(loss, [w, b]))
    means = [(tf.add_n([gradient for gradient, _ in pair]) / count, pair[0][1]) for pair in zip(*pairs, strict=True)]
    return x, labels, optimizer.apply_gradients(means, tf.train.get_or_create_global_step()), tf.add_n(losses) / count


def trained(session, count, placed, use_resource=False, steps=6):
    x, labels, train, loss = towers(count, placed, use_resource, tf.train.AdamOptimizer(0.05))
    rng = np.random.default_rng(5)
    session.run(tf.global_variables_initializer())
    feed = {x: rng.normal(size=(ROWS, WIDTH)), labels: rng.integers(0, CLASSES, ROWS)}
    losses = [session.run([loss, train], feed)[0] for _ in range(steps)]
    return losses, session.run(tf.global_variables()), (x, labels, train, loss, feed)


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("tier", ["interpreted", "compiled", "auto"])
def test_towers_give_what_one_device_gives(tier, use_resource):
    results = []
    for count, placed in ((1, False), (4, True)):
        with (
            tf.Graph().as_default(),
            tf.Session(config=tf.SessionOptions(tier=tier, seed=3)) as session,
        ):
            tf.set_random_seed(1)
            losses, variables, _ = trained(session, count, placed, use_resource)
            assert losses[-1] < losses[0]
            results.append([*losses, *variables])
    for one, other in zip(*results, strict=True):
        np.testing.assert_allclose(other, one, rtol=2e-5, atol=1e-6)


def test_towers_are_one_wave(events):
    with compiled() as session:
        _, _, (_, _, train, loss, feed) = trained(session, 4, True)
        assert [row[:2] for row in programs(session.explain([loss, train], feed))] == [
            (0, False),  # parts of the batch
            (0, False), (1, True), (2, True), (3, True),
            (0, False),  # the mean, and what is done with it
        ]  # fmt: skip
        events.clear()
        session.run([loss, train], feed)
        wave = events[events.index(("begin", 1)) - 1 :][:8]
        assert wave == [(what, device) for what in ("begin", "end") for device in range(4)]


def test_a_failure_in_a_tower_changes_nothing_and_the_first_wins():
    with compiled() as session:
        _, before, (x, labels, train, loss, feed) = trained(session, 4, True)
        answers = feed[labels]
        for tower, named in ((1, "model_1/"), (3, "model_3/"), ((2, 1), "model_1/"), ((0, 1, 2, 3), "model/")):
            wrong = answers.copy()
            for each in np.atleast_1d(tower):
                wrong[each * ROWS // 4] = CLASSES
            with pytest.raises(tf.errors.InvalidArgumentError, match="label value of 4") as caught:
                session.run([loss, train], {x: feed[x], labels: wrong})
            assert caught.value.op.name.startswith(named)
            for one, other in zip(before, session.run(tf.global_variables()), strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
@pytest.mark.parametrize("runs", [0, 2])
def test_the_first_failure_in_the_order_of_effects_wins_across_waves(tier, runs):
    x = tf.placeholder(tf.float32, [3])
    with tf.device("/cpu:2"):
        doubled = x * 2.0
    with tf.device("/cpu:1"):  # in a later wave, as what it checks comes from another device
        first = tf.check_numerics(doubled, "the first")
    with tf.device("/cpu:3"):
        second = tf.check_numerics(x, "the second")
    with tf.device("/cpu:4"):
        after = second + 1.0
    with tf.device("/cpu:5"):
        last = after * 3.0
    with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        for _ in range(runs):
            session.run([last, first], {x: np.ones(3)})
        with pytest.raises(tf.errors.InvalidArgumentError, match="the first"):
            session.run([last, first], {x: np.full(3, np.nan)})
        with pytest.raises(tf.errors.InvalidArgumentError, match="the second"):
            session.run(last, {x: np.full(3, np.nan)})
        with pytest.raises(tf.errors.InvalidArgumentError, match="the second"):
            session.run([last, first], {x: np.full(3, np.nan), doubled: np.ones(3)})
        np.testing.assert_array_equal(session.run([last, first], {x: np.ones(3)}), [[6.0] * 3, [2.0] * 3])


def test_towers_fed_by_a_queue():
    queue = tf.FIFOQueue(9, tf.float32, [[4]])
    x = tf.placeholder(tf.float32, [4])
    put = queue.enqueue(x)
    batch = queue.dequeue()
    parts = []
    for i in range(2):
        with tf.device(f"/cpu:{i + 1}"):
            v = tf.Variable(tf.zeros([4]))
            parts.append(v.assign_add(batch * (i + 1.0)))
    total = parts[0] + parts[1]
    with compiled() as session:
        session.run(tf.global_variables_initializer())
        for i in range(1, 5):
            session.run(put, {x: np.full(4, i)})
            np.testing.assert_array_equal(session.run(total), np.full(4, 3.0 * i * (i + 1) / 2))


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_random_bits_do_not_depend_on_the_device(tier):
    drawn = []
    for placed in (False, True):
        with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            tf.set_random_seed(11)
            values = []
            for i in range(3):
                with tf.device(f"/cpu:{i}" if placed else None):
                    values.append(tf.random_uniform([5], seed=i))
            drawn.append([session.run(values) for _ in range(3)])
    np.testing.assert_array_equal(*drawn)


# ------------------------------------------------------------------------------------------------------------ variables
def test_variables_live_where_they_were_placed():
    with tf.device("/cpu:5"):
        v = tf.Variable(np.ones(3, np.float32))
        r = tf.Variable(np.ones(3, np.float32), use_resource=True)
    with tf.device("/cpu:2"):  # an update runs where its variable is, whatever it says
        updates = [v.assign_add(np.ones(3, np.float32)), r.assign_add(np.ones(3, np.float32))]
    with compiled() as session:
        session.run(tf.global_variables_initializer())
        session.run(updates)
        assert devices_of(session, v) == devices_of(session, r) == {5}
        np.testing.assert_array_equal(session.run([v, r]), np.full((2, 3), 2.0))


def test_a_variable_is_moved_once_for_all_steps_that_read_it_elsewhere(monkeypatch):
    x = tf.placeholder(tf.float32, [])
    with tf.device("/cpu:3"):
        v = tf.Variable(np.ones(3, np.float32))
    with tf.device("/cpu:4"):
        y, z = v * x, v + x
    with compiled() as session:
        session.run(v.initializer)
        session.run(v.assign(v * 2.0))
        slot = next(iter(session._manager.slots()))
        values = {device: slot.version.on(device) for device in (None, session._worker.devices.listed()[4])}
        assert [array.devices().pop().id for array in values.values()] == [0, 4]
        for _ in range(2):
            np.testing.assert_array_equal(session.run(y, {x: 3.0}), np.full(3, 6.0))
            np.testing.assert_array_equal(session.run(z, {x: 3.0}), np.full(3, 5.0))
        assert all(slot.version.on(device) is array for device, array in values.items())
        session.run(v.assign(v * 2.0))
        np.testing.assert_array_equal(session.run(y, {x: 1.0}), np.full(3, 4.0))


def test_a_step_sees_the_old_value_beside_a_write_on_another_device():
    with tf.device("/cpu:1"):
        v = tf.Variable(np.ones(LARGE, np.float32))
        old = tf.identity(v)
        add = v.assign_add(np.ones(LARGE, np.float32))
    with tf.device("/cpu:2"):
        w = tf.Variable(np.zeros(LARGE, np.float32))
        with tf.control_dependencies(None):
            keep = w.assign(v * 1.0)
    with compiled() as session:
        session.run(tf.global_variables_initializer())
        for i in range(1, 5):
            before, _, _ = session.run([old, add.op, keep.op])
            assert (before[0, 0], *(session.run(each)[0, 0] for each in (v, w))) == (i, i + 1, i)


# ------------------------------------------------------------------------------------------------------------- donation
def pair_of_models(failing):
    """Two models on two devices, each trained by its own part of the step, with checks in those that may fail."""
    x = [tf.placeholder(tf.float32, [8, LARGE[0]]) for _ in range(2)]
    labels = [tf.placeholder(tf.int32, [8]) for _ in range(2)]
    variables, updates = [], []
    for i in range(2):
        with tf.device(f"/cpu:{i + 1}"):
            w = tf.Variable(np.zeros(LARGE, np.float32))
            logits = x[i] @ w
            if i in failing:
                loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels[i], logits=logits))
            else:
                loss = tf.reduce_mean(tf.square(logits - tf.cast(labels[i][:, None], tf.float32)))
            variables.append(w)
            updates.append(
                tf.train.GradientDescentOptimizer(0.1).minimize(loss, var_list=[w], colocate_gradients_with_ops=True)
            )
    return x, labels, variables, tf.group(*updates)


def fed(x, labels, wrong=()):
    rng = np.random.default_rng(1)
    feed = {each: rng.normal(size=(8, LARGE[0])) for each in x}
    for i, each in enumerate(labels):
        feed[each] = np.full(8, LARGE[1] if i in wrong else 3)
    return feed


@pytest.mark.parametrize("failing", [(), (0,), (1,), (0, 1)])
def test_the_last_program_of_each_device_owns_what_it_writes(failing):
    x, labels, variables, train = pair_of_models(failing)
    with compiled() as session:
        session.run(tf.global_variables_initializer())
        session.run(train, fed(x, labels))
        shown = programs(session.explain(train, fed(x, labels)))
        assert {row[0]: row[2] for row in shown if row[2]} == {1: "Variable", 2: "Variable_1"}
        slots = [next(slot for slot in session._manager.slots() if slot.name == v.op.name) for v in variables]
        for _ in range(2):
            given = [slot.version.value for slot in slots]
            session.run(train, fed(x, labels))
            assert [array.is_deleted() for array in given] == [True, True]
        before = session.run(variables)
        for wrong in failing:
            with pytest.raises(tf.errors.InvalidArgumentError, match="label value of 500"):
                session.run(train, fed(x, labels, (wrong,)))
            for one, other in zip(before, session.run(variables), strict=True):
                np.testing.assert_array_equal(one, other)
        session.run(train, fed(x, labels))
        assert not np.array_equal(before[0], session.run(variables[0]))


def scattering(counts):
    """Row updates on several devices: each checks its rows, and writes, in the same op."""
    rows = tf.placeholder(tf.int32, [len(counts), 2])
    variables, updates = [], []
    for i, _ in enumerate(counts):
        with tf.device(f"/cpu:{i + 1}"):
            table = tf.Variable(np.zeros(LARGE, np.float32))
            dense = tf.Variable(np.zeros(LARGE, np.float32))
            variables += [table, dense]
            updates += [tf.scatter_add(table, rows[i], tf.ones([2, LARGE[1]])).op, dense.assign_add(tf.ones(LARGE)).op]
    return rows, variables, tf.group(*updates)


@pytest.mark.parametrize("count", [1, 2])
def test_row_updates_on_several_devices(count):
    rows, variables, train = scattering(range(count))
    with tf.device("/cpu:5"):
        other = tf.Variable(np.zeros(LARGE, np.float32))
        also = other.assign_add(tf.ones(LARGE)).op
    good = np.tile([3, 5], (count, 1))
    with compiled() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run([train, also], {rows: good})
        owners = {device: names for device, _, names in programs(session.explain([train, also], {rows: good})) if names}
        # One that checks may own its table, as it is called first. Of two, neither may.
        assert owners == ({1: "Variable, Variable_1", 5: "Variable_2"} if count == 1 else {5: "Variable_4"})
        before = session.run([*variables, other])
        assert [value[3, 0] for value in before] == [3.0] * (2 * count + 1)
        for i in range(count):
            bad = good.copy()
            bad[i] = LARGE[0]
            with pytest.raises(tf.errors.InvalidArgumentError, match="600"):
                session.run([train, also], {rows: bad})
            for one, now in zip(before, session.run([*variables, other]), strict=True):
                np.testing.assert_array_equal(one, now)


def test_checks_that_nobody_had_known_of(monkeypatch):
    monkeypatch.setattr(lowering, "emits_checks", set())
    x = tf.placeholder(tf.float32, LARGE)
    variables = []
    updates = []
    for i in range(2):
        with tf.device(f"/cpu:{i + 1}"):
            v = tf.Variable(np.zeros(LARGE, np.float32))
            with tf.control_dependencies([tf.Assert(tf.reduce_sum(x) > i, [x])]):
                updates.append(v.assign_add(x).op)
            variables.append(v)
    with compiled() as session:
        session.run(tf.global_variables_initializer())
        for value in (-1.0, 2e-6, 1.0, 2e-6, 1.0):  # passes neither, the first, both
            before = session.run(variables)
            if value < 1.0:
                with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
                    session.run(updates, {x: np.full(LARGE, value)})
            else:
                session.run(updates, {x: np.full(LARGE, value)})
                before = [each + 1.0 for each in before]
            for one, now in zip(before, session.run(variables), strict=True):
                np.testing.assert_array_equal(one, now)


def test_a_failure_in_the_device_of_one_loses_what_others_have_given_away(monkeypatch):
    _, _, variables, _ = pair_of_models(())
    updates = [v.assign_add(np.ones(LARGE, np.float32)).op for v in variables]
    with compiled() as session:
        session.run(tf.global_variables_initializer())
        session.run(updates)
        session.run(updates)
        end = steps.Call.end

        def failing(call, transaction, arguments, returned):
            if call.program.device.number == 2:
                call._raise_if_in_device(type("XlaRuntimeError", (Exception,), {})("RESOURCE_EXHAUSTED: full"))
            return end(call, transaction, arguments, returned)

        monkeypatch.setattr(steps.Call, "end", failing)
        with pytest.raises(tf.errors.ResourceExhaustedError, match="failed in the device"):
            session.run(updates)
        monkeypatch.undo()
        for v in variables:
            with pytest.raises(tf.errors.AbortedError, match="buffer was lost"):
                session.run(v)
        session.run(tf.global_variables_initializer())
        session.run(updates)
        assert [value[0, 0] for value in session.run(variables)] == [1.0, 1.0]


# ------------------------------------------------------------------------------------------------------------ placement
def test_soft_placement_goes_elsewhere():
    with tf.device("/gpu:3"):
        x = tf.constant(1.0) + 1.0
    with tf.device("/cpu:2"):
        y = x * 3.0
    config = tf.ConfigProto(allow_soft_placement=True)
    with tf.Session(config=tf.SessionOptions(tier="compiled", config=config)) as session:
        assert session.run(y) == 6.0
        assert [row[0] for row in programs(session.explain(y))] == [2]


def test_placement_is_written_once(capfd):
    with tf.device("/cpu:1"):
        x = tf.placeholder(tf.float32, [], name="x")
        y = tf.add(x, 1.0, name="y")
    with tf.device("/cpu:6"):
        z = tf.multiply(y, 2.0, name="z")
    with tf.Session(config=tf.ConfigProto(log_device_placement=True)) as session:
        for _ in range(2):
            assert session.run(z, {x: 1.0}) == 4.0
    assert sorted(line for line in capfd.readouterr().err.splitlines() if line.startswith(("y:", "z:"))) == [
        "y: (Add): /job:localhost/replica:0/task:0/device:CPU:1",
        "z: (Mul): /job:localhost/replica:0/task:0/device:CPU:6",
    ]


def test_explain_says_why_and_what_moves():
    with tf.device("/cpu:1"):
        v = tf.Variable(np.ones(3, np.float32), name="v")
        x = tf.placeholder(tf.float32, [3], name="x")
        y = tf.multiply(v, x, name="y")
    z = tf.square(y, name="z")
    with tf.device("/cpu:2"):
        last = tf.add(z, 1.0, name="last")
    with compiled() as session:
        session.run(v.initializer)
        text = session.explain(last, {x: np.ones(3)})
    assert [row[0] for row in programs(text)] == [1, 2]
    assert "placed: 1 named, 1 where their inputs are" in text
    assert "moved here from /job:localhost/replica:0/task:0/device:CPU:1: z" in text
