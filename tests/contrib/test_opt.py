"""Minimisation by SciPy, and optimizers beyond those of tf.train against NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import hook
from anabranch.contrib import opt
from anabranch.contrib.opt import sign_decays
from anabranch.eager import mode


@pytest.fixture(autouse=True)
def graph() -> object:
    with tf.Graph().as_default() as made:
        yield made


@pytest.mark.parametrize("use_resource", [False, True])
def test_the_minimum_is_found(use_resource: bool) -> None:
    with tf.variable_scope("", use_resource=use_resource):
        x = tf.get_variable("x", initializer=[7.0, 7.0])
        y = tf.get_variable("y", initializer=np.float32(1.0))
        unused = tf.get_variable("unused", initializer=[[5.0]])
    shift = tf.placeholder(tf.float32, [])
    loss = tf.reduce_sum(tf.square(x - shift)) + tf.square(y + 1)
    optimizer = opt.ScipyOptimizerInterface(loss, options={"maxiter": 50})
    seen, steps = [], []
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        optimizer.minimize(
            session,
            feed_dict={shift: 2.0},
            fetches=[loss, y],
            loss_callback=lambda *v: seen.append(v),
            step_callback=steps.append,
        )
        np.testing.assert_allclose(session.run(x), [2, 2], atol=1e-4)
        np.testing.assert_allclose(session.run(y), -1, atol=1e-4)
        assert session.run(unused).tolist() == [[5.0]]
    assert seen[0] == (54.0, 1.0)
    assert seen[-1][0] < 1e-6
    np.testing.assert_allclose(seen[-1][1], -1, atol=1e-3)
    assert steps[-1].shape == (4,)


def test_bounds_and_constraints() -> None:
    x = tf.Variable([7.0, 3.0])
    loss = tf.reduce_sum(tf.square(x))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        opt.ScipyOptimizerInterface(loss, var_to_bounds={x: ([1.0, -5.0], np.inf)}).minimize(session)
        np.testing.assert_allclose(session.run(x), [1, 0], atol=1e-4)
        session.run(x.initializer)
        opt.ScipyOptimizerInterface(loss, equalities=[x[1] - 3.0], inequalities=[x[0] - 2.0], method="SLSQP").minimize(
            session
        )
        np.testing.assert_allclose(session.run(x), [2, 3], atol=1e-4)


def test_what_is_refused() -> None:
    x = tf.Variable([7.0, 3.0])
    with pytest.raises(ValueError, match="no session"):
        opt.ScipyOptimizerInterface(tf.reduce_sum(x)).minimize()
    with pytest.raises(ValueError, match=r"Expected: a scalar"):
        opt.ScipyOptimizerInterface(x)
    with pytest.raises(ValueError, match="no variables"):
        opt.ScipyOptimizerInterface(tf.constant(1.0), var_list=[])
    with tf.Session() as session:
        session.run(x.initializer)
        with pytest.raises(ValueError, match="'jac' is set automatically"):
            opt.ScipyOptimizerInterface(tf.reduce_sum(x), jac=True).minimize(session)
        with pytest.raises(NotImplementedError, match="override _minimize"):
            opt.ExternalOptimizerInterface(tf.reduce_sum(x)).minimize(session)


def test_an_optimizer_of_ones_own_may_call_back() -> None:
    class Once(opt.ExternalOptimizerInterface):
        def _minimize(self, initial_val, loss_grad_func, step_callback, optimizer_kwargs, **unused):
            step_callback(initial_val)  # there is always something to call
            return initial_val - optimizer_kwargs["rate"] * loss_grad_func(initial_val)[1]

    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.Variable([3.0])
        optimizer = Once(tf.reduce_sum(x * x), rate=0.5)
        assert optimizer.optimizer_kwargs == {"rate": 0.5}
        session.run(x.initializer)
        optimizer.minimize(session)
        assert session.run(x).tolist() == [0]


def test_ada_max_where_ops_run_at_once() -> None:
    with mode.eager_mode():
        v = tf.contrib.eager.Variable([1.0, 2.0])
        optimizer = tf.contrib.opt.AdaMaxOptimizer()
        for expected in ([0.999, 1.999], [0.998, 1.998]):  # of TensorFlow 1.15.5
            optimizer.apply_gradients([(tf.constant([0.1, 0.1]), v)])
            np.testing.assert_allclose(v.numpy(), expected, rtol=1e-6)


def test_an_optimizer_of_ones_own() -> None:
    class Newton(opt.ExternalOptimizerInterface):
        """One step for a quadratic function with unit curvature."""

        def _minimize(self, initial_val: np.ndarray, loss_grad_func: object, **unused: object) -> np.ndarray:
            return initial_val - loss_grad_func(initial_val)[1] / 2  # type: ignore[operator]

    x = tf.Variable(5.0)
    with tf.Session() as session:
        session.run(x.initializer)
        Newton(tf.square(x - 2)).minimize(session)
        assert session.run(x) == 2.0


@pytest.mark.parametrize("use_resource", [False, True])
def test_lazy_adam_leaves_other_rows(use_resource: bool) -> None:
    table = tf.get_variable("table", initializer=np.ones((4, 2), np.float32), use_resource=use_resource)
    rows = tf.placeholder(tf.int32, [None])
    step = opt.LazyAdamOptimizer(0.1).minimize(tf.reduce_sum(tf.gather(table, rows)))
    want, m, v = np.ones((4, 2)), np.zeros((4, 2)), np.zeros((4, 2))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for t, picked in enumerate(([0, 2], [2]), 1):
            session.run(step, {rows: picked})
            m[picked] = 0.9 * m[picked] + 0.1
            v[picked] = 0.999 * v[picked] + 0.001
            rate = 0.1 * np.sqrt(1 - 0.999**t) / (1 - 0.9**t)
            want[picked] -= rate * m[picked] / (np.sqrt(v[picked]) + 1e-8)
        np.testing.assert_allclose(session.run(table), want, rtol=1e-4)


@pytest.mark.parametrize("use_resource", [False, True])
def test_weights_decay_apart_from_the_gradient(use_resource: bool) -> None:
    with tf.variable_scope("", use_resource=use_resource):
        a, b = tf.get_variable("a", initializer=[2.0]), tf.get_variable("b", initializer=[2.0])
    plain = tf.get_variable("c", initializer=[2.0], use_resource=use_resource)
    with_decay = opt.AdamWOptimizer(0.1, 0.01).minimize(tf.reduce_sum(a + b), var_list=[a, b], decay_var_list=[a])
    adam = tf.train.AdamOptimizer(0.01).minimize(tf.reduce_sum(plain), var_list=[plain])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([with_decay, adam])
        found = [float(value[0]) for value in session.run([a, b, plain])]
    assert found[1] == found[2]
    np.testing.assert_allclose(found[0], found[1] - 0.2, rtol=1e-6)


@pytest.mark.parametrize("use_resource", [False, True])
def test_of_a_table_the_rows_that_are_looked_up_decay(use_resource: bool) -> None:
    start = np.arange(1, 9, dtype=np.float32).reshape(4, 2)
    steps = {
        "adam_w": opt.AdamWOptimizer(0.1, 0.01),
        "adam": tf.train.AdamOptimizer(0.01),
        "momentum_w": opt.MomentumWOptimizer(0.1, 0.5, 0.9),
        "momentum": tf.train.MomentumOptimizer(0.5, 0.9),
        "sign_w": opt.extend_with_decoupled_weight_decay(opt.PowerSignOptimizer)(0.1),
        "sign": opt.PowerSignOptimizer(),
        "shampoo_w": opt.extend_with_decoupled_weight_decay(opt.ShampooOptimizer)(0.1, global_step=tf.Variable(0)),
        "shampoo": opt.ShampooOptimizer(tf.Variable(0)),
        "descent_w": opt.extend_with_decoupled_weight_decay(tf.train.GradientDescentOptimizer)(0.1, learning_rate=0.5),
        "descent": tf.train.GradientDescentOptimizer(0.5),
    }
    tables, updates = {}, []
    for name, optimizer in steps.items():
        tables[name] = table = tf.get_variable(name, initializer=start, use_resource=use_resource)
        updates.append(optimizer.minimize(tf.reduce_sum(tf.gather(table, [1, 3, 1])), var_list=[table]))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(updates)
        found = session.run(tables)
    decay = 0.1 * start * np.array([[0], [1], [0], [1]])
    for name in ("adam", "momentum", "sign", "shampoo"):  # the last two update a table as a whole, or by other methods
        np.testing.assert_allclose(found[f"{name}_w"], found[name] - decay, rtol=1e-5, err_msg=name)
    np.testing.assert_array_equal(found["descent_w"], found["descent"])  # TensorFlow 1.15 lets none decay


def test_a_class_with_weight_decay() -> None:
    made = opt.extend_with_decoupled_weight_decay(tf.train.GradientDescentOptimizer)
    x = tf.Variable([2.0])
    step = made(weight_decay=0.5, learning_rate=0.25).minimize(tf.reduce_sum(x))
    momentum = tf.Variable([2.0])
    other = opt.MomentumWOptimizer(0.5, 0.25, 0.9).minimize(tf.reduce_sum(momentum), var_list=[momentum])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run([step, other])
        assert session.run([x, momentum]) == [[0.75], [0.75]]


@pytest.mark.parametrize("use_resource", [False, True])
def test_signs_of_gradients(use_resource: bool) -> None:
    start = np.float32([1, 1])
    with tf.variable_scope("", use_resource=use_resource):
        a, p = tf.get_variable("a", initializer=start), tf.get_variable("p", initializer=start)
    weights = tf.placeholder(tf.float32, [2])
    add = opt.AddSignOptimizer(0.1, alpha=1.0).minimize(tf.reduce_sum(a * weights), var_list=[a])
    power = opt.PowerSignOptimizer(0.1).minimize(tf.reduce_sum(p * weights), var_list=[p])
    want_a, want_p, m = start.astype(np.float64), start.astype(np.float64), np.zeros(2)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for grad in (np.array([1.0, -2.0]), np.array([-0.5, -1.0])):
            session.run([add, power], {weights: grad})
            m = 0.9 * m + 0.1 * grad
            agree = np.sign(m) * np.sign(grad)
            want_a -= 0.1 * (1 + agree) * grad
            want_p -= 0.1 * np.exp(agree) * grad
        np.testing.assert_allclose(session.run(a), want_a, rtol=1e-5)
        np.testing.assert_allclose(session.run(p), want_p, rtol=1e-5)


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("kind", ["nadam", "adamax"])
def test_relatives_of_adam(kind: str, use_resource: bool) -> None:
    """Dense gradients, and sparse ones with a row twice, against the papers' formulas."""
    with tf.variable_scope("", use_resource=use_resource):
        dense = tf.get_variable("dense", initializer=[1.0, -2.0, 3.0])
        table = tf.get_variable("table", initializer=np.ones([4, 2], np.float32))
    loss = tf.reduce_sum(dense**2) + tf.reduce_sum(tf.gather(table, [0, 2, 2]) ** 3)
    optimizer = {"nadam": opt.NadamOptimizer(0.1), "adamax": opt.AdaMaxOptimizer(0.1)}[kind]
    train = optimizer.minimize(loss)
    x, rows = np.array([1.0, -2.0, 3.0]), np.ones([4, 2])
    moments = {"x": (np.zeros(3), np.zeros(3)), "rows": (np.zeros([4, 2]), np.zeros([4, 2]))}
    touched = np.array([[True], [False], [True], [False]])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for step in (1, 2, 3):
            session.run(train)
            slopes = {"x": 2 * x, "rows": 3 * rows**2 * np.array([[1], [0], [2], [0]])}
            for key, slope in slopes.items():
                m, v = moments[key]
                where = np.ones_like(m, bool) if key == "x" else touched & np.ones_like(m, bool)
                if kind == "nadam":
                    m, v = 0.9 * m + 0.1 * slope, 0.999 * v + 0.001 * slope**2
                    rate = 0.1 * np.sqrt(1 - 0.999**step) / (1 - 0.9**step)
                    change = rate * (0.9 * m + 0.1 * slope) / (np.sqrt(v) + 1e-8)
                else:
                    m = np.where(where, 0.9 * m + 0.1 * slope, m)
                    v = np.where(where, np.maximum(0.999 * v, np.abs(slope)), v)
                    change = 0.1 / (1 - 0.9**step) * m / (v + 1e-8)
                moments[key] = m, v
                if key == "x":
                    x = x - change
                else:
                    rows = rows - np.where(where, change, 0)
        np.testing.assert_allclose(session.run(dense), x, rtol=1e-5)
        np.testing.assert_allclose(session.run(table), rows, rtol=1e-5)


def regression(use_resource: bool, sparse: bool = False):
    """Two variables and a loss of them, and what NumPy has of both gradients."""
    with tf.variable_scope("", use_resource=use_resource):
        v = tf.get_variable("v", initializer=np.arange(12, dtype="f").reshape(6, 2) / 10)
        w = tf.get_variable("w", initializer=np.float32([1.0, -2.0]))
    x = tf.nn.embedding_lookup(v, [1, 3, 1]) if sparse else v
    return v, w, tf.reduce_sum(tf.square(x)) + tf.reduce_sum(tf.square(w)) / 2


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("use_nesterov", [False, True])
def test_lars_scales_by_norms(use_resource: bool, use_nesterov: bool) -> None:
    v, w, loss = regression(use_resource)
    lars = opt.LARSOptimizer(0.5, 0.9, 0.01, eeta=0.1, skip_list=["w"], use_nesterov=use_nesterov)
    step = lars.minimize(loss)
    values = [np.arange(12, dtype="d").reshape(6, 2) / 10, np.array([1.0, -2.0])]
    moments = [0.0, 0.0]
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(step)
            for i, slope in enumerate((2 * values[0], values[1])):
                rate = 0.5
                if i == 0:
                    size = np.linalg.norm(values[0])
                    rate *= 0.1 * size / (np.linalg.norm(slope) + 0.01 * size)
                    slope = slope + 0.01 * values[0]
                moments[i] = 0.9 * moments[i] + rate * slope
                values[i] = values[i] - (rate * slope + 0.9 * moments[i] if use_nesterov else moments[i])
        for found, expected in zip(session.run([v, w]), values, strict=True):
            np.testing.assert_allclose(found, expected, rtol=1e-5)
    with pytest.raises(ValueError, match="momentum should be positive"):
        opt.LARSOptimizer(0.1, momentum=-1.0)


@pytest.mark.parametrize("use_resource", [False, True])
def test_averages_are_saved_in_the_place_of_variables(use_resource: bool, tmp_path) -> None:
    v, w, loss = regression(use_resource)
    averaging = opt.MovingAverageOptimizer(tf.train.GradientDescentOptimizer(0.1), 0.5)
    with pytest.raises(RuntimeError, match="Must call apply_gradients or minimize"):
        averaging.swapping_saver()
    step = averaging.minimize(loss)
    saver = averaging.swapping_saver()
    with pytest.raises(ValueError, match="Variable to swap v/ExponentialMovingAverage is not part"):
        averaging.swapping_saver([v])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        expected = before = np.float32([1.0, -2.0])
        for _ in range(3):
            session.run(step)
            before = before * 0.9
            expected = 0.5 * expected + 0.5 * before
        path = saver.save(session, str(tmp_path / "model"))
        trained = session.run(w)
        np.testing.assert_allclose(trained, before, rtol=1e-5)
        tf.train.Saver([w]).restore(session, path)
        np.testing.assert_allclose(session.run(w), expected, rtol=1e-5)
        saver.restore(session, path)
        np.testing.assert_array_equal(session.run(w), trained)


@pytest.mark.parametrize("use_resource", [False, True])
@pytest.mark.parametrize("sparse", [False, True])
def test_norms_of_variables_are_bounded(use_resource: bool, sparse: bool) -> None:
    v, w, loss = regression(use_resource, sparse)
    clipping = opt.VariableClippingOptimizer(tf.train.MomentumOptimizer(0.0, 0.9), {v: [1]}, 0.5)
    step = clipping.minimize(loss)
    assert clipping.get_slot_names() == ["momentum"]
    assert clipping.get_slot(w, "momentum") is not None
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        norms = np.linalg.norm(session.run(v), axis=1)
        plain = np.linalg.norm(np.arange(12).reshape(6, 2) / 10, axis=1)
        if not sparse:
            np.testing.assert_allclose(norms, np.minimum(plain, 0.5), rtol=1e-5)
        else:
            np.testing.assert_allclose(norms[[0, 2, 4, 5]], plain[[0, 2, 4, 5]], rtol=1e-5)
            np.testing.assert_allclose(norms[[1, 3]], [plain[1], 0.5], rtol=1e-5)
        np.testing.assert_array_equal(session.run(w), [1.0, -2.0])


@pytest.mark.parametrize("use_resource", [False, True])
def test_a_task_that_is_missing_changes_nothing(use_resource: bool) -> None:
    v, w, loss = regression(use_resource)
    there = tf.placeholder(tf.float32, [])
    wrapped = opt.MultitaskOptimizerWrapper(tf.train.MomentumOptimizer(0.1, 0.9))
    pairs, norm = opt.clip_gradients_by_global_norm(wrapped.compute_gradients(loss * there), 1e3)
    step = wrapped.apply_gradients(pairs)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step, {there: 1.0})
        values = session.run([v, w, wrapped.get_slot(v, "momentum")])
        assert session.run([step, norm], {there: 0.0})[1] == 0.0
        for before, after in zip(values, session.run([v, w, wrapped.get_slot(v, "momentum")]), strict=True):
            np.testing.assert_array_equal(before, after)
        session.run(step, {there: 1.0})
        assert (session.run(w) != values[1]).all()
    with pytest.raises(TypeError, match=r"tf\.train\.Optimizer"):
        opt.MultitaskOptimizerWrapper(3)


@pytest.mark.parametrize("use_resource", [False, True])
def test_sums_of_squares_that_an_update_leaves(use_resource: bool) -> None:
    _, w, loss = regression(use_resource)
    adagrad = opt.RegAdagradOptimizer(0.1)
    step = adagrad.minimize(loss)
    with adagrad.avoid_updating_slots():
        aside = adagrad.minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        slot = adagrad.get_slot(w, "accumulator")
        session.run(aside)
        np.testing.assert_allclose(session.run(slot), [0.1, 0.1])
        np.testing.assert_allclose(session.run(w), np.array([1, -2]) * (1 - 0.1 / np.sqrt(0.1)), rtol=1e-5)
        session.run(step)
        assert (session.run(slot) > 0.1).all()


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("linear", {}, [1.0, 0.93, 0.8, 0.67, 0.61, 0.59, 0.5, 0.01, 0.0, 0.0]),
        ("cosine", {}, [1.0, 0.988, 0.9045, 0.7545, 0.6694, 0.6395, 0.5, 0.0002, 0.0, 0.0]),
        ("cosine", {"num_periods": 5, "zero_after": 2}, [1.0, 0.2061, 1.0, 0.2061, 0.9755, 0.0, 0.0, 0.0, 0.0, 0.0]),
        ("restart", {}, [1.0, 0.988, 0.9045, 0.7545, 0.6694, 0.6395, 0.5, 0.0002, 1.0, 1.0]),
        ("restart", {"num_periods": 5}, [1.0, 0.727, 1.0, 0.273, 0.0062, 0.9938, 0.5, 0.0062, 1.0, 1.0]),
        ("restart", {"num_periods": 5, "zero_after": 2}, [1.0, 0.727, 1.0, 0.273, 0.0062, 0.0, 0.0, 0.0, 0.0, 0.0]),
    ],
)
def test_decays_of_signs(name: str, options: dict[str, float], expected: list[float]) -> None:
    """Values of TensorFlow 1.15.5."""
    decay = getattr(sign_decays, f"get_{name}_decay_fn")(100, **options)
    with tf.Graph().as_default(), tf.Session() as session:
        step = tf.placeholder(tf.int64, [])
        value = decay(step)
        steps = (0, 7, 20, 33, 39, 41, 50, 99, 100, 130)
        np.testing.assert_allclose([session.run(value, {step: n}) for n in steps], expected, atol=1e-4)
        with pytest.raises(ValueError, match="global_step is required"):
            decay(None)


def test_a_sign_decays_in_an_optimizer() -> None:
    with tf.Graph().as_default(), tf.Session() as session:
        step, x = tf.train.get_or_create_global_step(), tf.Variable(1.0)
        decay = hook.resolve("contrib.opt.python.training.sign_decay", "get_linear_decay_fn")
        train = tf.contrib.opt.AddSignOptimizer(0.5, sign_decay_fn=decay(2)).minimize(x, global_step=step)
        session.run(tf.global_variables_initializer())
        found = []
        for _ in range(3):
            session.run(train)
            found.append(float(session.run(x)))
        np.testing.assert_allclose(found, [0.0, -0.75, -1.25])
