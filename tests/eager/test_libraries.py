"""Libraries where ops run at once: optimizers, layers, datasets, Python functions, custom gradients."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.values import version_two
from anabranch.eager import mode

OPTIMIZERS = {
    "descent": lambda: tf.train.GradientDescentOptimizer(0.1),
    "momentum": lambda: tf.train.MomentumOptimizer(0.1, 0.9),
    "adam": lambda: tf.train.AdamOptimizer(0.1),
    "rmsprop": lambda: tf.train.RMSPropOptimizer(0.1),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer_does_what_it_does_in_a_graph(name: str) -> None:
    start = np.array([1.0, -2.0], np.float32)

    def loss(v: Any) -> Any:
        return tf.reduce_sum(v * v * [1.0, 3.0])

    with tf.Graph().as_default(), tf.Session() as session:
        variable = tf.get_variable("v", initializer=start, use_resource=True)
        step = OPTIMIZERS[name]().minimize(loss(variable))
        session.run(tf.global_variables_initializer())
        for _ in range(3):
            session.run(step)
        expected = session.run(variable)
    one, two = tf.Variable(start), tf.Variable(start)
    optimizers = [OPTIMIZERS[name](), OPTIMIZERS[name]()]
    traced = tf.function(lambda: optimizers[1].minimize(lambda: loss(two)))
    for _ in range(3):
        optimizers[0].minimize(lambda: loss(one))
        traced()
    np.testing.assert_allclose(one.numpy(), expected, rtol=1e-5)
    np.testing.assert_allclose(two.numpy(), expected, rtol=1e-5)


def test_an_optimizer_is_given_a_function() -> None:
    v = tf.Variable(1.0)
    with pytest.raises(RuntimeError, match="should be a function when eager execution is enabled"):
        tf.train.GradientDescentOptimizer(0.1).minimize(v * v)


def test_a_layer_learns_in_a_function() -> None:
    layer = tf.layers.Dense(1, kernel_initializer=tf.zeros_initializer())
    optimizer = tf.train.AdamOptimizer(0.1)
    x = tf.constant([[1.0, 2.0], [2.0, 1.0]])
    y = tf.constant([[1.0], [2.0]])

    def loss() -> Any:
        return tf.losses.mean_squared_error(y, layer(x))

    before = float(loss())
    step = tf.function(lambda: optimizer.minimize(loss))
    for _ in range(30):
        step()
    assert float(loss()) < 0.2 * before


def test_a_dataset_is_iterated() -> None:
    v = tf.Variable(1.0)
    dataset = tf.data.Dataset.from_tensor_slices(np.arange(5, dtype=np.float32)).map(lambda x: x * 2.0 + v).batch(2)
    assert [batch.numpy().tolist() for batch in dataset] == [[1.0, 3.0], [5.0, 7.0], [9.0]]
    v.assign(2.0)
    assert next(iter(dataset)).numpy().tolist() == [2.0, 4.0]
    iterator = tf.data.Dataset.range(2).make_one_shot_iterator()
    assert [int(iterator.get_next()), int(iterator.next())] == [0, 1]
    with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
        iterator.get_next()
    assert int(tf.data.Dataset.range(5).reduce(np.int64(0), lambda a, b: a + b)) == 10
    with pytest.raises(RuntimeError, match="make_initializable_iterator is not supported"):
        dataset.make_initializable_iterator()
    with tf.Graph().as_default(), pytest.raises(RuntimeError, match=r"only supported inside of tf\.function"):
        iter(tf.data.Dataset.range(2))


def test_a_dataset_of_a_generator_is_iterated() -> None:
    def generate() -> Iterator[int]:
        yield from range(3)

    assert [int(item) for item in tf.data.Dataset.from_generator(generate, tf.int32, [])] == [0, 1, 2]


def test_python_functions_are_called() -> None:
    x = tf.constant(3.0)
    assert float(tf.py_func(lambda a: a + np.float32(1.0), [x], tf.float32)) == 4.0
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = tf.py_function(lambda a: a * a, [x], tf.float32)
    assert (float(y), float(tape.gradient(y, x))) == (9.0, 6.0)


def test_a_custom_gradient_is_taken() -> None:
    v = tf.Variable(2.0)

    @tf.custom_gradient
    def scaled(x: Any) -> Any:
        def grad(dy: Any, variables: Any = None) -> Any:
            return dy * 10.0, [dy * 100.0 for _ in variables]

        return x * v, grad

    x = tf.constant(3.0)
    with tf.GradientTape() as tape:
        tape.watch(x)
        y = scaled(x)
    slopes = tape.gradient(y, [x, v])
    assert (float(y), float(slopes[0]), float(slopes[1])) == (6.0, 10.0, 100.0)


def test_collections_hold_what_a_program_and_an_eager_store_add() -> None:
    store = tf.contrib.eager.EagerVariableStore()
    with tf.Graph().as_default() as graph, mode.eager_mode():
        tf.Variable(1.0)
        with store.as_default():
            tf.layers.dense(tf.ones([1, 2]), 3, name="dense")
            tf.get_variable("rate", [], trainable=False, regularizer=tf.nn.l2_loss, collections=["rates"])
        tf.add_to_collection("own", 1)
        tf.get_collection_ref("own").append(2)
        optimizer = tf.train.GradientDescentOptimizer(0.1)
        kernel = store.variables()[1]
        optimizer.minimize(lambda: tf.reduce_sum(kernel * kernel), var_list=[kernel])

        names = [variable.name for variable in tf.trainable_variables()]
        assert names == ["dense/kernel:0", "dense/bias:0"]
        assert [variable.name for variable in tf.get_collection("rates")] == ["rate:0"]
        assert tf.get_collection("own") == [1, 2]
        assert len(tf.get_collection(tf.GraphKeys.REGULARIZATION_LOSSES)) == 1
        assert tf.get_collection(tf.GraphKeys.TRAIN_OP) == []
    assert graph.get_collection("own") == [1, 2]


def test_a_write_gives_the_variable_after_it() -> None:
    v = tf.Variable([1.0, 2.0])
    written = v.assign_add([1.0, 1.0])
    assert written.op is None
    assert isinstance(written, tf.Variable)
    assert (written.numpy().tolist(), (written + 1).numpy().tolist()) == ([2.0, 3.0], [3.0, 4.0])
    assert written.assign_sub([2.0, 2.0]).numpy().tolist() == v.numpy().tolist() == [0.0, 1.0]


def test_batches_are_padded_to_the_components_own_shapes() -> None:
    rows = tf.data.Dataset.range(1, 4).map(lambda n: (tf.fill([n], n), n)).padded_batch(3)
    filled, n = next(iter(rows))
    assert filled.numpy().tolist() == [[1, 0, 0], [2, 2, 0], [3, 3, 3]]
    assert n.numpy().tolist() == [1, 2, 3]
    open_rank = tf.data.Dataset.range(3).map(lambda n: tf.py_func(lambda n: n, [n], tf.int64))
    with pytest.raises(ValueError, match="component has unknown rank"):
        open_rank.padded_batch(3)


def _orders(dataset: Any) -> list[list[int]]:
    return [[int(n) for n in dataset] for _ in range(3)]


def test_iterators_of_a_seeded_shuffle_differ_in_version_two(monkeypatch: pytest.MonkeyPatch) -> None:
    seeded = _orders(tf.data.Dataset.range(20).shuffle(20, seed=1))
    assert seeded[0] == seeded[1] == seeded[2]
    monkeypatch.setattr(version_two, "_everywhere", True)
    orders = _orders(tf.data.Dataset.range(20).shuffle(20, seed=1))
    assert len({tuple(order) for order in orders}) == 3
    assert _orders(tf.data.Dataset.range(20).shuffle(20, seed=1)) == orders
    fixed = _orders(tf.data.Dataset.range(20).shuffle(20, seed=1, reshuffle_each_iteration=False))
    assert fixed[0] == fixed[1] == fixed[2]
    whole = tf.data.Dataset.range(6).shuffle(6)
    assert all(sorted(order) == list(range(6)) for order in _orders(whole))


def test_a_python_function_of_a_graphs_step_runs_ops_at_once() -> None:
    def square(x: Any) -> Any:
        return tf.matmul(tf.constant(x), x).numpy()

    with tf.Graph().as_default(), tf.Session() as session:
        y = tf.py_func(square, [tf.constant([[3.0]])], tf.float32)
        assert session.run(y).tolist() == [[9.0]]


def test_tables_of_text_have_their_types_inferred_where_ops_run_at_once(tmp_path: Path) -> None:
    (tmp_path / "rows.csv").write_text("a,b,label\n1.5,2,0\n2.5,3,1\n")
    dataset = tf.data.experimental.make_csv_dataset(
        str(tmp_path / "rows.csv"), 2, label_name="label", num_epochs=1, shuffle=False
    )
    ((features, labels),) = list(dataset)
    assert (features["a"].numpy().tolist(), features["b"].numpy().tolist()) == ([1.5, 2.5], [2, 3])
    assert labels.numpy().tolist() == [0, 1]
