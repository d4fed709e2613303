"""Optimizers in both tiers: rows that are not used stay, what TensorFlow refuses works or is refused with advice."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.eager.mode import eager_mode

train = tf.train


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Session(config=tf.SessionOptions(tier=request.param)) as found:
        yield found


@pytest.fixture(params=[False, True], ids=["ref", "resource"])
def resource(request):
    return request.param


SPARSE = {
    "sgd": lambda: train.GradientDescentOptimizer(0.1),
    "momentum": lambda: train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adagrad": lambda: train.AdagradOptimizer(0.1),
    "adadelta": lambda: train.AdadeltaOptimizer(0.1),
    "rmsprop": lambda: train.RMSPropOptimizer(0.1),
    "centered": lambda: train.RMSPropOptimizer(0.1, centered=True),
    "ftrl": lambda: train.FtrlOptimizer(0.1),
    "ftrl_shrinkage": lambda: train.FtrlOptimizer(0.1, l2_shrinkage_regularization_strength=0.1),
    "adagrad_da": lambda: train.AdagradDAOptimizer(0.1, tf.constant(0, tf.int64), 0.1, 0.01, 0.1),
    "proximal_sgd": lambda: train.ProximalGradientDescentOptimizer(0.1, 0.1, 0.1),
    "proximal_adagrad": lambda: train.ProximalAdagradOptimizer(0.1, 0.1, 0.1, 0.1),
}
ALL = {**SPARSE, "adam": lambda: train.AdamOptimizer(0.1)}


def state(session, variables):
    return session.run([v.read_value() for v in variables])


@pytest.mark.parametrize("name", SPARSE)
def test_a_sparse_update_touches_only_its_rows(session, resource, name):
    """A row that is NaN would spread if an update read all rows; the slots' other rows stay to the bit."""
    start = np.array([[1.0, 2.0], [np.nan, 3.0], [-1.0, 0.5], [4.0, 4.0]], np.float32)
    v = tf.Variable(start, name="v", use_resource=resource)
    optimizer = SPARSE[name]()
    step = optimizer.minimize(tf.reduce_sum(tf.square(tf.gather(v, [0, 3, 0]))))
    session.run(tf.global_variables_initializer())
    slots = [optimizer.get_slot(v, slot) for slot in optimizer.get_slot_names()]
    before = state(session, [v, *slots])
    session.run(step)
    session.run(step)
    after = state(session, [v, *slots])
    for old, new in zip(before, after, strict=True):
        np.testing.assert_array_equal(new[1:3], old[1:3])
    assert (after[0][[0, 3]] != start[[0, 3]]).all()
    assert np.isfinite(after[0][[0, 3]]).all()


def test_a_step_on_a_large_table_is_compiled_at_once_if_it_writes_all_of_it(resource):
    """Interpreted, it would copy the table; of the others it writes a few rows where they are."""
    with tf.variable_scope("", use_resource=resource):
        w = tf.get_variable("w", [2_000_000, 64], initializer=tf.zeros_initializer())
    loss = tf.reduce_sum(tf.gather(w, [1, 2]))
    with tf.Session() as session:
        assert "tier: compiled" in session.explain(train.AdamOptimizer(0.1).minimize(loss))
        assert "tier: interpreted" in session.explain(train.AdagradOptimizer(0.1).minimize(loss))


@pytest.mark.parametrize("name", ALL)
def test_a_sparse_gradient_gives_the_step_of_the_dense_one(session, resource, name):
    """Where all rows are used, in any order and several times; for Adam, whichever are used."""
    ids = [2, 0, 2] if name == "adam" else [2, 0, 1, 2]
    start = np.array([[1.0, 2.0], [0.5, 3.0], [-1.0, 0.5]], np.float32)
    both = [tf.Variable(start, name=kind, use_resource=resource) for kind in ("sparse", "dense")]
    weights = np.arange(len(ids), dtype=np.float32)[:, None] - 0.5
    steps = []
    optimizers = []
    for v, table in zip(both, (both[0], both[1] * 1.0), strict=True):
        optimizer = ALL[name]()
        loss = tf.reduce_sum(tf.square(tf.gather(table, ids)) * weights)
        ((gradient, _),) = pairs = optimizer.compute_gradients(loss, [v])
        assert isinstance(gradient, tf.IndexedSlices) == (v is both[0])
        if v is both[1]:
            pairs = [(tf.convert_to_tensor(gradient), v)]
        steps.append(optimizer.apply_gradients(pairs))
        optimizers.append(optimizer)
    session.run(tf.global_variables_initializer())
    for _ in range(3):
        session.run(steps)
    sparse, dense = (
        state(session, [v, *(o.get_slot(v, s) for s in o.get_slot_names())])
        for v, o in zip(both, optimizers, strict=True)
    )
    for a, b in zip(sparse, dense, strict=True):
        np.testing.assert_allclose(a, b, rtol=2e-6, atol=1e-6)


@pytest.mark.parametrize("name", ALL)
@pytest.mark.parametrize("dtype", [tf.float64, tf.float16, tf.bfloat16], ids=lambda dtype: dtype.name)
def test_other_dtypes(resource, name, dtype):
    """The same step as in float32, up to the dtype's accuracy (in bfloat16, 0.999 would be 1)."""
    make = ALL[name] if name != "adam" else lambda: train.AdamOptimizer(0.1, beta2=0.99)
    results = []
    with tf.Session() as session:
        for kind in (tf.float32, dtype):
            v = tf.Variable(tf.constant([1.0, -2.0], kind), name="v", use_resource=resource)
            step = make().minimize(tf.reduce_sum(tf.square(v)), var_list=[v])
            session.run(tf.global_variables_initializer())
            session.run(step)
            results.append(session.run(tf.cast(v, tf.float64)))
    tolerance = {"float64": 1e-6, "float16": 4e-3, "bfloat16": 3e-2}[dtype.name]
    np.testing.assert_allclose(results[1], results[0], rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("name", ["sgd", "momentum"])
def test_complex_variables(session, resource, name):
    v = tf.Variable(tf.constant([1.0 + 2.0j, -3.0j], tf.complex64), use_resource=resource)
    step = ALL[name]().minimize(tf.reduce_sum(tf.square(tf.abs(v))))
    session.run(tf.global_variables_initializer())
    session.run(step)
    np.testing.assert_allclose(session.run(v.read_value()), [0.8 + 1.6j, -2.4j], rtol=1e-6)


def test_complex_variables_where_the_rule_is_not_linear():
    v = tf.Variable(tf.constant([1.0 + 2.0j], tf.complex64))
    with pytest.raises(ValueError, match=r"Invalid type .*complex64.* for Variable:0(.|\n)*Instead: tf.cast"):
        train.AdamOptimizer().minimize(tf.reduce_sum(tf.square(tf.abs(v))))


@pytest.mark.parametrize("name", ALL)
def test_variables_of_unknown_shape(name, resource):
    start = tf.placeholder_with_default([1.0, 2.0], [None])
    v = tf.Variable(start, validate_shape=False, name="v", use_resource=resource)
    optimizer = ALL[name]()
    step = optimizer.minimize(tf.reduce_sum(tf.square(v)))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer(), {start: [1.0, 2.0, 3.0]})
        session.run(step)
        for found in state(session, [v, *(optimizer.get_slot(v, s) for s in optimizer.get_slot_names())]):
            assert found.shape == (3,)
            assert np.isfinite(found).all()
        assert (session.run(v.read_value()) < [1.0, 2.0, 3.0]).all()


def test_a_partitioned_variable_is_its_parts(resource):
    with tf.variable_scope("", use_resource=resource):
        w = tf.get_variable("w", [4, 2], initializer=tf.ones_initializer(), partitioner=tf.fixed_size_partitioner(2))
    optimizer = train.MomentumOptimizer(0.5, 0.9)
    step = optimizer.minimize(tf.reduce_sum(tf.identity(w)), var_list=w)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        np.testing.assert_array_equal(session.run(tf.identity(w)), np.full((4, 2), 0.5))
    slots = [optimizer.get_slot(part, "momentum") for part in w]
    assert [slot._save_slice_info.full_name for slot in slots] == ["w/Momentum"] * 2
    assert [slot._save_slice_info.spec for slot in slots] == ["4 2 0,2:0,2", "4 2 2,2:0,2"]


def test_beta_of_ftrl_is_an_l2_penalty_of_the_quadratic_term(session):
    """McMahan et al., 2013, algorithm 1: w = -(z - sign(z) l1) / ((beta + sqrt(n)) / alpha + l2)."""
    v = tf.Variable([1.0, -0.5], name="v")
    gradient = np.array([0.3, -2.0])
    optimizer = train.FtrlOptimizer(0.2, -0.5, 0.1, 0.05, 0.3, beta=0.7)
    step = optimizer.apply_gradients([(tf.constant(gradient, tf.float32), v)])
    session.run(tf.global_variables_initializer())
    session.run(step)
    n = 0.1 + gradient**2
    z = gradient - (np.sqrt(n) - np.sqrt(0.1)) / 0.2 * np.array([1.0, -0.5])
    wanted = -(z - np.sign(z) * 0.05) / ((0.7 + np.sqrt(n)) / 0.2 + 2 * 0.3)
    np.testing.assert_allclose(session.run(v), wanted, rtol=1e-6)


def test_a_loss_may_be_a_function():
    v = tf.Variable([1.0, 2.0])
    step = train.GradientDescentOptimizer(0.5).minimize(lambda: tf.reduce_sum(v * v))
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        np.testing.assert_array_equal(session.run(v), [0.0, 0.0])


def test_gradients_may_be_arrays(resource):
    v = tf.Variable([1.0, 2.0], use_resource=resource)
    step = train.GradientDescentOptimizer(0.5).apply_gradients([(np.ones(2, np.float32), v), (None, v)])
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(step)
        np.testing.assert_array_equal(session.run(v.read_value()), [0.5, 1.5])


def test_a_failed_step_moves_neither_variables_nor_slots(session, resource):
    v = tf.Variable(np.ones((3, 2), np.float32), use_resource=resource)
    i = tf.placeholder(tf.int32, [2])
    global_step = train.get_or_create_global_step()
    optimizer = train.AdamOptimizer(0.1)
    slices = tf.IndexedSlices(tf.ones([2, 2]), i, tf.constant([3, 2]))
    step = optimizer.apply_gradients([(slices, v)], global_step)
    session.run(tf.global_variables_initializer())
    session.run(step, {i: [0, 1]})
    before = state(session, [v, global_step, *optimizer.variables()])
    with pytest.raises(tf.errors.InvalidArgumentError, match="7"):
        session.run(step, {i: [0, 7]})
    for old, new in zip(before, state(session, [v, global_step, *optimizer.variables()]), strict=True):
        np.testing.assert_array_equal(new, old)


class Signs(tf.train.Optimizer):
    """A user's own optimizer, against the base class that TensorFlow documents."""

    def __init__(self, rate):
        super().__init__(False, "Signs")
        self._rate = rate

    def _create_slots(self, var_list):
        for v in var_list:
            self._zeros_slot(v, "last", self._name)

    def _prepare(self):
        self._rate_tensor = tf.convert_to_tensor(self._rate, name="rate")

    def _apply_dense(self, grad, var):
        last = self.get_slot(var, "last").assign(grad)
        return tf.group(tf.assign_sub(var, self._rate_tensor * tf.sign(last)), last)

    _resource_apply_dense = _apply_dense

    def _apply_sparse(self, grad, var):
        return tf.scatter_sub(var, grad.indices, self._rate_tensor * tf.sign(grad.values))

    def _resource_apply_sparse(self, grad, handle, indices):
        return handle.scatter_sub(tf.IndexedSlices(self._rate_tensor * tf.sign(grad), indices))


def test_an_optimizer_of_ones_own(session, resource):
    v = tf.Variable([[1.0], [2.0], [3.0]], name="v", use_resource=resource)
    optimizer = Signs(0.5)
    dense = optimizer.minimize(tf.reduce_sum(-tf.square(v)))
    sparse = optimizer.minimize(tf.reduce_sum(tf.gather(v, [2, 2])))
    session.run(tf.global_variables_initializer())
    session.run(dense)
    session.run(sparse)
    np.testing.assert_array_equal(session.run(v.read_value()), [[1.5], [2.5], [3.0]])
    np.testing.assert_array_equal(session.run(optimizer.get_slot(v, "last").read_value()), [[-2.0], [-4.0], [-6.0]])
    assert optimizer.get_slot(v, "last").name == "v/Signs:0"
    assert optimizer.get_name() == "Signs"


class Halves(tf.train.GradientDescentOptimizer):
    """An optimizer that changes the gradients, with the signature that programs give the method."""

    def compute_gradients(self, loss, var_list, **kwargs):
        pairs = super().compute_gradients(loss, var_list, **kwargs)
        return [(grad / 2.0, variable) for grad, variable in pairs]


def test_minimize_calls_the_methods_of_programs_as_tensorflow_does(session):
    v = tf.Variable(1.0)
    step = Halves(0.5).minimize(3.0 * v, var_list=[v])
    session.run(tf.global_variables_initializer())
    session.run(step)
    assert session.run(v) == 0.25


def test_slots_are_trained_and_saved_with_their_variable():
    with tf.device("/cpu:0"):
        v = tf.Variable([1.0], name="v")
    optimizer = train.MomentumOptimizer(0.1, 0.9)
    optimizer.minimize(tf.reduce_sum(v))
    slot = optimizer.get_slot(v, "momentum")
    assert slot.device == v.device
    assert not slot.trainable
    assert slot in tf.global_variables()
    assert optimizer.get_slot(tf.Variable([1.0]), "momentum") is None


def calls():
    v = tf.Variable([1.0, 2.0], name="v")
    limited = tf.Variable([1.0, 2.0], name="limited", constraint=lambda x: x)
    loss = tf.reduce_sum(v)
    sgd = train.GradientDescentOptimizer(0.1)
    return {
        "name": (lambda: train.GradientDescentOptimizer(0.1, name=""), ValueError, "Must specify the optimizer name"),
        "path": (
            lambda: sgd.minimize(tf.constant(1.0)),
            ValueError,
            r"No gradients provided for any variable(.|\n)*loss 'Const",
        ),
        "integers": (
            lambda: sgd.minimize(tf.constant(1, name="one")),
            ValueError,
            r"Invalid type .*int32.* for one:0(.|\n)*Expected: a floating",
        ),
        "grad_loss": (lambda: sgd.minimize(loss, grad_loss=tf.constant(1)), ValueError, "Invalid type .*int32"),
        "nothing": (lambda: sgd.minimize(loss, var_list=[]), ValueError, r"No variables to optimize\.\nGiven: no var"),
        "item": (
            lambda: sgd.minimize(loss, var_list=[3]),
            TypeError,
            r"Argument is not a tf.Variable: 3\nGiven: a int",
        ),
        "gate": (lambda: sgd.minimize(loss, gate_gradients=7), ValueError, r"must be one of.*Not 7\nGiven"),
        "pairs": (lambda: sgd.apply_gradients([]), ValueError, r"No variables provided\.\nGiven: no pairs"),
        "none": (lambda: sgd.apply_gradients([(None, v)]), ValueError, "No gradients provided for any variable"),
        "text": (lambda: sgd.apply_gradients([(object(), v)]), TypeError, r"Gradient must be convertible(.|\n)*Given"),
        "target": (
            lambda: sgd.apply_gradients([(tf.constant([1.0]), 3)]),
            TypeError,
            r"Argument is not a tf.Variable: 3\nGiven: a gradient for a int",
        ),
        "step": (
            lambda: sgd.minimize(loss, global_step=tf.constant(3)),
            AttributeError,
            r"object has no attribute 'assign_add'\nGiven: tensor 'Const.*:0', a value",
        ),
        "tensor": (
            lambda: sgd.apply_gradients([(tf.constant([1.0]), tf.constant([1.0], name="c"))]),
            NotImplementedError,
            r"Trying to update a Tensor\nGiven: a gradient for the tensor 'c:0'",
        ),
        "constraint": (
            lambda: sgd.minimize(tf.reduce_sum(tf.gather(limited, [0]))),
            RuntimeError,
            r"Cannot use a constraint function on a sparse variable\.\nGiven: a sparse gradient for 'limited:0'",
        ),
        "adagrad": (lambda: train.AdagradOptimizer(0.1, 0.0), ValueError, r"initial_accumulator_value(.|\n)*> 0"),
        "ftrl": (lambda: train.FtrlOptimizer(0.1, 0.5), ValueError, r"needs to be negative or zero\nGiven"),
        "ftrl l1": (
            lambda: train.FtrlOptimizer(0.1, l1_regularization_strength=-1.0),
            ValueError,
            r"l1_regularization_strength -1.0 needs to be positive or zero\nGiven",
        ),
        "rule": (
            lambda: train.Optimizer(False, "mine").minimize(loss),
            NotImplementedError,
            "Optimizer without _apply_dense",
        ),
    }


def test_refused():
    for call, kind, text in calls().values():
        with pytest.raises(kind, match=text):
            call()


def test_dual_averaging_counts_steps(session, resource):
    """Each step is a function of the sums and the number of steps."""
    start, slope = np.float32([[1.0, -2.0], [0.5, 3.0]]), np.float32([[0.3, -0.1], [0.0, 2.0]])
    v = tf.Variable(start, use_resource=resource)
    count = tf.train.create_global_step()
    optimizer = train.AdagradDAOptimizer(0.5, count, 0.2, 0.05, 0.1)
    step = optimizer.minimize(tf.reduce_sum(v * slope), global_step=count)
    session.run(tf.global_variables_initializer())
    total, squares = np.zeros((2, 2)), np.full((2, 2), 0.2)
    for number in range(1, 4):
        session.run(step)
        total, squares = total + slope, squares + np.float64(slope) ** 2
        shrunk = np.sign(total) * np.maximum(np.abs(total) - 0.05 * number, 0)
        np.testing.assert_allclose(session.run(v), -0.5 * shrunk / (0.1 * number * 0.5 + np.sqrt(squares)), 1e-5, 1e-7)
    assert optimizer.get_slot_names() == ["gradient_accumulator", "gradient_squared_accumulator"]
    np.testing.assert_allclose(session.run(optimizer.get_slot(v, "gradient_accumulator")), 3 * slope, 1e-6)
    with pytest.raises(ValueError, match="initial_gradient_squared_accumulator_value must be positive: 0"):
        train.AdagradDAOptimizer(0.1, count, 0.0)


@pytest.mark.parametrize("use_resource", [False, True])
def test_programs_sort_slots_by_the_names_of_their_variables(use_resource):
    with tf.Graph().as_default() as graph, tf.variable_scope("", use_resource=use_resource):
        values = [tf.get_variable(name, initializer=1.0) for name in ("b", "a")]
        optimizer = tf.train.MomentumOptimizer(0.1, 0.9)
        optimizer.minimize(tf.add_n([value * value for value in values]))
        slots = optimizer._slots["momentum"]
        assert sorted(slots) == [(graph, "a"), (graph, "b")]
        assert [slots[key] for key in sorted(slots)] == [
            optimizer.get_slot(value, "momentum") for value in values[::-1]
        ]


def test_variables_where_ops_run_at_once_are_in_no_graph():
    with eager_mode():
        optimizer = train.AdamOptimizer()
        optimizer.apply_gradients([(tf.constant([0.1, 0.1]), tf.contrib.eager.Variable([1.0, 2.0]))])
        assert len(optimizer.variables()) == 4
        with tf.Graph().as_default():
            assert not optimizer.variables()
    assert not optimizer.variables()
