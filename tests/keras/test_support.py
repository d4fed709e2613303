"""What Keras' training loop needs of Anabranch, without Keras."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.compat import v2
from anabranch.core import errors
from anabranch.core.graph.tensor import TensorLike


class Stand(TensorLike):
    """An object that stands for a variable, like Keras' variables."""

    def __init__(self, value):
        self.value = v2.Variable(value)

    def __tf_tensor__(self, dtype=None, name=None):
        return v2.convert_to_tensor(self.value, dtype, name=name)


def test_an_iterator_is_an_argument_of_a_function(eager):
    dataset = tf.data.Dataset.range(5).batch(2)

    @v2.function(reduce_retracing=True, jit_compile=True)
    def step(iterator):
        return v2.experimental.Optional.from_value(iterator.get_next() * 2)

    for _ in range(2):
        iterator = iter(dataset)
        values = [step(iterator).get_value().numpy().tolist() for _ in range(3)]
        assert values == [[0, 2], [4, 6], [8]]
        with pytest.raises(errors.OutOfRangeError, match="End of sequence"):
            step(iterator)
    assert len(set(step._concrete.values())) == 1


def test_a_graph_for_looking_takes_tensors_of_graphs_around(eager):
    v = v2.Variable([1.0, 2.0])
    with v2.__internal__.FuncGraph("outer").as_default() as outer:
        x = tf.placeholder(tf.float32, [None, 2])
        with v2.__internal__.FuncGraph("inner").as_default() as inner:
            y = tf.matmul(x, [[1.0], [2.0]]) * 2.0 + tf.reduce_sum(x * v)
            assert y.graph is inner
            assert y.shape.as_list() == [None, 1]
        assert (x + v).graph is outer
    with tf.Graph().as_default():
        z = tf.placeholder(tf.float32, [2])
    with v2.__internal__.FuncGraph("alone").as_default(), pytest.raises(ValueError, match="of another graph"):
        z + 1.0


def test_an_iterator_says_whether_there_is_more(eager):
    iterator = iter(tf.data.Dataset.range(1))
    first, second = iterator.get_next_as_optional(), iterator.get_next_as_optional()
    assert (bool(first.has_value()), bool(second.has_value())) == (True, False)
    assert first.get_value().numpy() == 0


def test_what_stands_for_a_tensor(eager):
    stand = Stand([1.0, 2.0])
    assert tf.is_tensor(stand)
    assert (tf.constant([3.0, 4.0]) * stand).numpy().tolist() == [3, 8]
    with tf.GradientTape() as tape:
        loss = tf.reduce_sum(tf.square(stand))
    (gradient,) = tape.gradient(loss, [stand])
    assert gradient.numpy().tolist() == [2, 4]
    with pytest.raises(ValueError, match="Given: a source 3"):
        tf.GradientTape(persistent=True).__enter__().gradient(loss, [3])


def test_branches_without_a_value(eager):
    v = v2.Variable(1.0)

    @v2.function
    def change(up):
        return v2.cond(up, lambda: v.assign_add(1.0) and None, lambda: None)

    assert change(tf.constant(True)) is None
    assert v.numpy() == 2
    assert v2.cond(False, lambda: 1, lambda: 2) == 2


def test_dropout_by_a_seed(eager):
    x = tf.ones([50, 40])
    dropped = v2.nn.experimental.stateless_dropout(x, 0.25, [1, 2]).numpy()
    assert np.array_equal(dropped, v2.nn.experimental.stateless_dropout(x, 0.25, [1, 2]).numpy())
    assert set(np.unique(dropped).round(5)) == {0, np.float32(4 / 3).round(5)}
    assert 0.2 < (dropped == 0).mean() < 0.3
    rows = v2.nn.experimental.stateless_dropout(x, 0.5, [1, 2], noise_shape=[50, 1]).numpy()
    assert (rows == rows[:, :1]).all()
    with pytest.raises(ValueError, match=r"Given: rate=1\.5"):
        v2.nn.experimental.stateless_dropout(x, 1.5, [1, 2])
    with pytest.raises(ValueError, match="Given: x of dtype int32"):
        v2.nn.experimental.stateless_dropout(tf.constant([1]), 0.5, [1, 2])


def test_one_replica():
    strategy = v2.distribute.get_strategy()
    assert not v2.distribute.has_strategy()
    assert (strategy.num_replicas_in_sync, strategy.run(lambda x: x + 1, (2,))) == (1, 3)
    with pytest.raises(errors.UnimplementedError, match=r"Given: tf\.distribute\.MirroredStrategy"):
        v2.distribute.MirroredStrategy()


def test_signature_of_a_generator():
    with tf.Graph().as_default(), tf.Session() as session:
        spec = (tf.TensorSpec([2], tf.float32), tf.TensorSpec([], tf.int32))
        dataset = tf.data.Dataset.from_generator(lambda: [([1.0, 2.0], 3)], output_signature=spec)
        assert dataset.output_shapes[0].as_list() == [2]
        assert session.run(dataset.make_one_shot_iterator().get_next())[1] == 3
        assert session.run(dataset.cardinality()) == -2
        assert session.run(tf.data.Dataset.range(10).batch(3).cardinality()) == 4


def test_options_of_version_2():
    options = v2.data.Options()
    options.autotune.enabled = False
    options.threading.private_threadpool_size = 1
    options.experimental_distribute.auto_shard_policy = tf.data.experimental.AutoShardPolicy.DATA
    options.experimental_external_state_policy = tf.data.experimental.ExternalStatePolicy.IGNORE
    assert tf.data.Dataset.range(1).with_options(options) is not None
    assert tf.float16.is_numeric
    assert not tf.string.is_numeric


def test_specs_and_numpy(eager):
    assert tf.TensorSpec.from_tensor(tf.ones([2])) == tf.TensorSpec([2], tf.float32)
    assert isinstance(tf.TensorSpec([2]), v2.TypeSpec)
    assert v2.experimental.numpy.finfo("float32").eps == np.finfo(np.float32).eps
    x = np.arange(6)
    conditions, choices = [x < 2, x < 4], [x * 10, x * 100]
    chosen = v2.experimental.numpy.select(conditions, choices, default=-1)
    assert chosen.numpy().tolist() == np.select(conditions, choices, default=-1).tolist()


def test_an_exported_model_is_an_object_again(keras, eager, tmp_path):
    layers = [keras.layers.Input((3,)), keras.layers.Dense(4), keras.layers.BatchNormalization()]
    model = keras.Sequential(layers)
    x = np.linspace(0.0, 1.0, 12, dtype=np.float32).reshape(4, 3)
    model.export(str(tmp_path / "model"), format="tf_saved_model", verbose=False)
    loaded = tf.saved_model.load(tmp_path / "model")
    np.testing.assert_allclose(loaded.serve(x).numpy(), model.predict(x, verbose=0), rtol=1e-6)
    assert (len(loaded.variables), len(loaded.trainable_variables)) == (6, 4)
    assert sorted(loaded.signatures) == ["serve", "serving_default"]


def test_old_names_of_constraints():
    constraints = tf.keras.constraints
    for name, kind in (("maxnorm", "MaxNorm"), ("nonneg", "NonNeg"), ("unitnorm", "UnitNorm")):
        assert isinstance(constraints.get(name), getattr(constraints, kind))


@pytest.mark.parametrize("shape", [(None, 3), (3, None), (None, None), (None,), (2, 3, None), (4,), ()])
def test_flatten_of_sizes_that_are_not_known(shape):
    with tf.Graph().as_default():
        x = tf.keras.Input(shape)
        model = tf.keras.Model(x, tf.keras.layers.Flatten()(x))
        size = None if None in shape else int(np.prod(shape, dtype=np.int64))
        assert model.output_shape == (None, size)
        values = np.arange(2 * 5 ** len(shape), dtype=np.float32).reshape(2, *[5] * len(shape))
        if None in shape:
            values = values[(slice(None), *[slice(one) for one in shape])]
            np.testing.assert_array_equal(model.predict(values), values.reshape(2, -1))


def test_wrappers_tell_which_shapes_and_states_they_take():
    layers = tf.keras.layers
    with tf.Graph().as_default():
        with pytest.raises(ValueError, match="should be passed an `input_shape ` with at least 3 dimensions"):
            layers.TimeDistributed(layers.Dense(2))(tf.keras.Input((3,)))
        x, state = tf.keras.Input((3, 5)), tf.keras.Input((3,))
        with pytest.raises(ValueError, match="the state should be a list containing the states of the underlying RNNs"):
            layers.Bidirectional(layers.LSTM(3))(x, initial_state=state)
