"""Stretches of interpreted steps give what their ops give one by one, bit for bit."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.runtime.interpreter import joint_updates, stretches

RUNS = 7


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.fixture
def used(monkeypatch):
    """The stretches that straight code has served."""
    found = []
    run = stretches.Stretch._results

    def counted(self, attempt, bugs):
        results = run(self, attempt, bugs)
        if results is not None:
            found.append(self)
        assert not bugs
        return results

    monkeypatch.setattr(stretches.Stretch, "_results", counted)
    return found


def _session():
    return tf.Session(config=tf.SessionOptions(tier="interpreted", seed=3))


def _network():
    """A step of an unrolled network with most kinds of ops, its feeds, and what to look at."""
    rng = np.random.RandomState(0)
    x, labels = tf.placeholder(tf.float32, [None, 6, 4]), tf.placeholder(tf.int32, [None])
    words = tf.placeholder(tf.int32, [None])
    w = tf.get_variable("w", initializer=rng.randn(12, 32).astype(np.float32) / 3)
    table = tf.get_variable("table", initializer=rng.randn(9, 8).astype(np.float32))
    c = h = tf.zeros([tf.shape(x)[0], 8])
    start = tf.nn.embedding_lookup(table, words)
    for i in range(6):
        gates = tf.matmul(tf.concat([x[:, i], h], 1), w)
        a, b, f, o = tf.split(gates, 4, axis=1)
        c = tf.sigmoid(f + 1.0) * c + tf.sigmoid(a) * tf.tanh(b)
        h = tf.nn.relu(tf.sigmoid(o) * tf.tanh(c) + start) / 2.0
    h = tf.nn.dropout(h, keep_prob=0.8, seed=1)
    logits = tf.reshape(tf.layers.dense(h, 10, kernel_initializer=tf.ones_initializer()), [-1, 5])
    logits = tf.where(logits > 0.1, tf.square(logits), tf.exp(-logits))
    loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
    step = tf.train.AdamOptimizer(0.01).minimize(loss)

    def feeds(i, batch=4):
        rng = np.random.RandomState(i)
        return {
            x: rng.randn(batch, 6, 4).astype(np.float32),
            labels: rng.randint(0, 5, 2 * batch),
            words: rng.randint(0, 9, batch),
        }

    return [loss, logits, h, step], feeds


def _trained(batches):
    with tf.Graph().as_default():
        fetches, feeds = _network()
        with _session() as session:
            session.run(tf.global_variables_initializer())
            values = [value for i, batch in enumerate(batches) for value in session.run(fetches, feeds(i, batch))[:3]]
            return [*values, *session.run(tf.global_variables())]


@pytest.mark.parametrize("batches", [[4] * RUNS, [4, 4, 4, 4, 5, 6, 4, 5, 7, 8, 9, 4]], ids=["one", "several"])
def test_values_are_those_of_the_ops_bit_for_bit(used, monkeypatch, batches):
    found = _trained(batches)
    assert used
    used.clear()
    monkeypatch.setattr(stretches, "AFTER_RUNS", 1 << 30)
    expected = _trained(batches)
    assert not used
    for values, wanted in zip(found, expected, strict=True):
        np.testing.assert_array_equal(values, wanted)


def _chain(x, length=12):
    for _ in range(length):
        x = tf.tanh(x) + 0.5
    return x


def test_an_error_names_its_op_and_changes_nothing(used):
    x, rows = tf.placeholder(tf.float32, [5]), tf.placeholder(tf.int32, [2])
    total = tf.get_variable("total", initializer=np.zeros(2, np.float32))
    step = tf.assign_add(total, _chain(tf.gather(_chain(x), rows, name="rows_of_x")))
    with _session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(RUNS):
            session.run(step, {x: np.ones(5), rows: [0, 4]})
        assert used
        before = session.run(total)
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"indices\[1\] = 5 is not in \[0, 5\)") as caught:
            session.run(step, {x: np.ones(5), rows: [0, 5]})
        assert caught.value.op.name == "rows_of_x"
        np.testing.assert_array_equal(session.run(total), before)
        assert np.all(session.run(step, {x: np.ones(5), rows: [0, 1]}) > before)


def test_variables_are_read_anew(used):
    v = tf.get_variable("v", initializer=np.float32([1.0]))
    out = _chain(v * 2.0)
    with _session() as session:
        session.run(v.initializer)
        for i in range(RUNS):
            session.run(v.assign([float(i)]))
            x = np.float32([2.0 * i])
            for _ in range(12):
                x = np.tanh(x) + np.float32(0.5)
            np.testing.assert_allclose(session.run(out), x, rtol=1e-6)
        assert used
        with tf.Session(config=tf.SessionOptions(tier="interpreted")) as other:
            with pytest.raises(tf.errors.FailedPreconditionError, match="v"):
                other.run(out)


def test_what_is_fed_in_the_middle_counts(used):
    x = tf.placeholder(tf.float32, [3])
    middle = _chain(x)
    end = _chain(middle)
    with _session() as session:
        for _ in range(RUNS):
            by_feed = session.run([middle, end], {x: np.ones(3), middle: np.zeros(3)})
            np.testing.assert_array_equal(by_feed[0], np.zeros(3))
            np.testing.assert_array_equal(by_feed[1], session.run(end, {middle: np.zeros(3)}))
        assert used


def test_sizes_that_the_data_decide_stay_outside(used):
    x = tf.placeholder(tf.float32, [8])
    kept = tf.boolean_mask(_chain(x), x > 0)
    out = _chain(kept)
    with _session() as session:
        for i in range(2 * RUNS):
            values = np.where(np.arange(8) < i % 8, 1.0, -1.0)
            assert session.run(out, {x: values}).shape == (i % 8,)
        assert used
        assert not any(item.op is out.op for stretch in used for item in stretch.items)


def test_a_caller_owns_what_it_gets(used):
    x = tf.placeholder(tf.float32, [3])
    same, end = tf.identity(x), _chain(x)
    with _session() as session:
        for _ in range(RUNS):
            given = np.ones(3, np.float32)
            values, last = session.run([same, end], {x: given})
            values += 1
            last += 1
            np.testing.assert_array_equal(given, np.ones(3))
        assert used


def _several(length=10):
    """Networks, each with an optimizer, that take turns with draws, writes and reads of what was written."""
    x = tf.placeholder(tf.float32, [None, 4])
    steps, looked_at = [], []
    count = tf.get_variable("count", initializer=np.float32(1.0))
    for i in range(length):
        w = tf.get_variable(f"w{i}", initializer=np.full((4, 3), 0.1 * (i + 1), np.float32))
        counted = tf.assign_add(count, 1.0, use_locking=True)
        y = tf.nn.dropout(tf.tanh(tf.matmul(x, w)) + counted, keep_prob=0.7, seed=i)
        loss = tf.reduce_mean(tf.square(y - tf.reduce_mean(x, 1, keep_dims=True))) / (1.0 + count)
        with tf.control_dependencies([loss]):
            step = tf.train.MomentumOptimizer(0.1, 0.9).minimize(loss, var_list=[w])
        with tf.control_dependencies([step]):
            looked_at.append(tf.reduce_sum(w * w.read_value()) + loss)
        steps.append(step)
    return x, steps, looked_at


def test_ops_that_compute_go_before_writes_and_draws(used, monkeypatch):
    def trained():
        with tf.Graph().as_default():
            x, steps, looked_at = _several()
            with _session() as session:
                session.run(tf.global_variables_initializer())
                values = [
                    session.run([steps, looked_at], {x: np.random.RandomState(i).randn(5, 4)})[1] for i in range(RUNS)
                ]
                return [np.asarray(values), *session.run(tf.global_variables())]

    gathered = trained()
    covered = sum(len(stretch.items) for stretch in used)
    monkeypatch.setattr(stretches, "_gathered", lambda plan, items, *_: items)
    used.clear()
    in_turn = trained()
    assert covered > sum(len(stretch.items) for stretch in used)
    for values, wanted in zip(gathered, in_turn, strict=True):
        np.testing.assert_array_equal(values, wanted)


def test_the_first_failure_in_the_order_of_effects_is_told(used):
    x, rows = tf.placeholder(tf.float32, [5]), tf.placeholder(tf.int32, [2])
    total = tf.get_variable("total", initializer=np.zeros(2, np.float32))
    with tf.control_dependencies([tf.scatter_add(total, rows, [1.0, 1.0], name="first")]):
        late = tf.gather(_chain(x), rows, name="later")
        step = tf.assign_add(total, _chain(late))
    with _session() as session:
        session.run(total.initializer)
        for _ in range(RUNS):
            session.run(step, {x: np.ones(5), rows: [0, 1]})
        assert used
        for _ in range(2):
            before = session.run(total)
            with pytest.raises(tf.errors.InvalidArgumentError, match="5 is not in") as caught:
                session.run(step, {x: np.ones(5), rows: [0, 5]})
            assert caught.value.op.name == "first"
            np.testing.assert_array_equal(session.run(total), before)
        assert np.all(session.run(step, {x: np.ones(5), rows: [0, 1]}) > before)


def test_axes_of_a_broadcast_do_not_keep_its_gradient_outside(used):
    x = tf.placeholder(tf.float32, [None, 3])
    w = tf.get_variable("w", initializer=np.ones((1, 3), np.float32))
    gradient = tf.gradients(_chain(x * w), w)[0]
    with _session() as session:
        session.run(w.initializer)
        for batch in (2, 2, 2, 2, 2, 3, 3, 3, 3, 3):
            assert session.run(gradient, {x: np.ones((batch, 3))}).shape == (1, 3)
    assert any(item.op is gradient.op for stretch in used for item in stretch.items)


def test_rows_are_written_behind_what_still_looks_at_them():
    """A gather that waits for an assignment sees the rows that were there before an update that it precedes."""
    table = tf.Variable(np.arange(40, dtype=np.float32).reshape(20, 2))
    which, wanted = tf.Variable(np.zeros(3, np.int64)), tf.placeholder(tf.int64, [3])
    places = tf.assign(which, wanted)
    total = tf.add_n([tf.gather(table, places) * float(k) for k in range(1, 9)])
    update = tf.scatter_add(table, [0, 1, 2], np.ones((3, 2), np.float32))
    with _session() as session:
        session.run(tf.global_variables_initializer())
        for run in range(RUNS):
            value = session.run([total, update.op], {wanted: [0, 1, 2]})[0]
            np.testing.assert_array_equal(value[0], [36.0 * run, 36.0 * (run + 1)])


@pytest.fixture
def joint(monkeypatch):
    """How many variables each call of a rule has updated together."""
    found = []
    update = joint_updates.JointUpdates._update

    def counted(self, env, part, new):
        updated = update(self, env, part, new)
        if updated:
            found.append(len(part.bounds))
        return updated

    monkeypatch.setattr(joint_updates.JointUpdates, "_update", counted)
    return found


def _variables(count=5):
    rng = np.random.RandomState(1)
    shapes = [(3, 4), (4,), (), (2, 3, 5), (100, 100), (7,), (4, 3), (1,)]
    return [
        tf.get_variable(f"v{i}", initializer=np.asarray(rng.randn(*shapes[i % 8]) + 3, np.float32))
        for i in range(count)
    ]


OPTIMIZERS = {
    "sgd": lambda rate: tf.train.GradientDescentOptimizer(rate),
    "momentum": lambda rate: tf.train.MomentumOptimizer(rate, 0.9, use_nesterov=True),
    "adagrad": lambda rate: tf.train.AdagradOptimizer(rate),
    "adadelta": lambda rate: tf.train.AdadeltaOptimizer(rate),
    "rmsprop": lambda rate: tf.train.RMSPropOptimizer(rate, momentum=0.5, centered=True),
    "adam": lambda rate: tf.train.AdamOptimizer(rate),
    "ftrl": lambda rate: tf.train.FtrlOptimizer(rate, l1_regularization_strength=0.1, learning_rate_power=-0.4),
    "proximal": lambda rate: tf.train.ProximalAdagradOptimizer(rate, l1_regularization_strength=0.1),
    "adamax": lambda rate: tf.contrib.opt.AdaMaxOptimizer(rate),
    "powersign": lambda rate: tf.contrib.opt.PowerSignOptimizer(rate),
}


@pytest.mark.parametrize("resources", [False, True], ids=["refs", "resources"])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_updates_together_give_the_bits_of_each(joint, monkeypatch, name, resources):
    def trained():
        with tf.Graph().as_default(), tf.variable_scope("all", use_resource=resources):
            x, rate = tf.placeholder(tf.float32, []), tf.placeholder(tf.float32)
            variables = _variables(16)
            loss = tf.add_n([tf.reduce_sum(tf.sin(v * x) * v) for v in variables])
            step = OPTIMIZERS[name](rate).minimize(loss)
            with _session() as session:
                session.run(tf.global_variables_initializer())
                for i in range(RUNS):
                    session.run(step, {x: 0.5 + i, rate: 0.1 / (1 + i)})
                return session.run(tf.global_variables())

    together = trained()
    assert max(joint, default=0) == 12  # but for two scalars and two matrices of 10,000 elements
    monkeypatch.setattr(joint_updates, "may_join", lambda plan, item: False)
    joint.clear()
    one_by_one = trained()
    assert not joint
    for value, wanted in zip(together, one_by_one, strict=True):
        np.testing.assert_array_equal(value, wanted)


def test_networks_with_optimizers_of_their_own_are_updated_together_while_their_rates_are_alike(joint):
    x, rates = tf.placeholder(tf.float32, []), [tf.placeholder(tf.float32, []) for _ in range(3)]
    steps, variables = [], []
    for i, rate in enumerate(rates):
        with tf.variable_scope(f"net{i}"):
            own = [tf.get_variable(f"v{j}", initializer=np.ones([j + 1, 2], np.float32)) for j in range(3)]
        variables += own
        loss = tf.add_n([tf.reduce_sum(tf.square(v * x)) for v in own])
        steps.append(tf.train.MomentumOptimizer(rate, 0.5).minimize(loss, var_list=own))
    with _session() as session:
        session.run(tf.global_variables_initializer())
        wanted, speed = np.ones(3), np.zeros(3)
        for i in range(2 * RUNS):
            given = [0.1, 0.1, 0.1 if i < RUNS else 0.2]
            joint.clear()
            session.run(steps, {x: 1.0, **dict(zip(rates, given, strict=True))})
            speed = speed * 0.5 + 2 * wanted
            wanted = wanted - speed * given
            if i == RUNS:  # written from elsewhere, the variable is not where the last call has left it
                session.run(variables[0].assign(np.full([1, 2], 5.0)))
                assert joint == [6, 3]
            elif i > RUNS:
                assert session.run(variables[0])[0, 0] < 5.0
            if stretches.AFTER_RUNS < i < RUNS:
                assert joint == [9]
            for j, variable in enumerate(variables[1:], 1):
                np.testing.assert_allclose(session.run(variable)[0], [wanted[j // 3]] * 2, rtol=2e-4)


def test_a_failed_step_updates_none_of_the_variables(joint):
    x = tf.placeholder(tf.float32, [])
    variables = _variables()
    loss = tf.add_n([tf.reduce_sum(tf.square(v) * x) for v in variables])
    update = tf.train.AdamOptimizer(0.1).minimize(loss)
    with tf.control_dependencies([update]):
        step = tf.Assert(tf.less(tf.reduce_sum(variables[0].read_value()), 1e9), ["too large"], name="bound")
    with _session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(RUNS):
            session.run(step, {x: 1.0})
        assert joint
        kept = session.run(tf.global_variables())
        for _ in range(2):
            session.run(variables[0].assign(np.full([3, 4], 1e9)))
            with pytest.raises(tf.errors.InvalidArgumentError, match="too large"):
                session.run(step, {x: 1.0})
        for value, wanted in zip(session.run(tf.global_variables())[1:], kept[1:], strict=True):
            np.testing.assert_array_equal(value, wanted)
