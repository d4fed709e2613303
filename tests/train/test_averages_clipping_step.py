"""Moving averages, clipping and the global step: what the recorded programs leave out, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf

train = tf.train


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.fixture(params=["interpreted", "compiled"])
def session(request):
    with tf.Session(config=tf.SessionOptions(tier=request.param)) as found:
        yield found


@pytest.mark.parametrize("resource", [False, True], ids=["ref", "resource"])
def test_averages_of_variables_of_both_forms(session, resource):
    v = tf.Variable([1.0, 2.0], name="v", use_resource=resource)
    average = train.ExponentialMovingAverage(0.75)
    step = v.assign_add([1.0, 1.0])
    with tf.control_dependencies([step]):
        op = average.apply([v])
    session.run(tf.global_variables_initializer())
    wanted = np.array([1.0, 2.0])
    for number in range(1, 4):
        session.run(op)
        wanted = 0.75 * wanted + 0.25 * (np.array([1.0, 2.0]) + number)
        np.testing.assert_allclose(session.run(average.average(v).read_value()), wanted, rtol=1e-6)


def test_the_decay_may_be_a_tensor_and_the_count_a_feed(session):
    count = tf.placeholder(tf.int64, [])
    v = tf.Variable(0.0, name="v")
    average = train.ExponentialMovingAverage(tf.constant(0.5), num_updates=count, name="slow")
    op = average.apply()
    session.run(tf.global_variables_initializer())
    session.run(v.assign(1.0).op)
    session.run(op, {count: 0})  # (1 + 0) / (10 + 0) is below 0.5
    assert abs(session.run(average.average(v)) - 0.9) < 1e-6
    session.run(op, {count: 1000})
    assert abs(session.run(average.average(v)) - 0.95) < 1e-6


def test_averages_may_stand_in_for_their_variables():
    """What a ``Saver`` for evaluation is given."""
    v, w = tf.Variable(1.0, name="v"), tf.Variable(1.0, name="w")
    average = train.ExponentialMovingAverage(0.5)
    average.apply([v])
    names = average.variables_to_restore()
    assert names["v/ExponentialMovingAverage"] is v
    assert names["w/ExponentialMovingAverage"] is w
    assert average.variables_to_restore([v]) == {"v/ExponentialMovingAverage": v, "w": w}


def test_averages_of_integers_are_refused():
    n = tf.Variable(1, name="n")
    with pytest.raises(TypeError, match=r"must be half, float, or double: n:0\nGiven: 'n:0' of dtype int32"):
        train.ExponentialMovingAverage(0.5).apply([n])


def test_clipping_keeps_what_is_short_and_what_is_sparse(session):
    x = tf.placeholder(tf.float32, [None, 2])
    slices = tf.IndexedSlices(x, tf.constant([4, 4]), tf.constant([9, 2]))
    value = np.array([[3.0, 4.0], [0.3, 0.4]], np.float32)
    whole, rows, sparse = session.run(
        [tf.clip_by_norm(x, 100.0), tf.clip_by_norm(x, 1.0, axes=[1]), tf.clip_by_norm(slices, 5.0)], {x: value}
    )
    np.testing.assert_allclose(whole, value, rtol=1e-6)
    np.testing.assert_allclose(rows, [[0.6, 0.8], [0.3, 0.4]], rtol=1e-6)
    np.testing.assert_allclose(np.linalg.norm(sparse.values), 5.0, rtol=1e-6)
    assert sparse.indices.tolist() == [4, 4]
    assert sparse.dense_shape.tolist() == [9, 2]


def test_a_norm_that_is_not_finite_shows_in_every_tensor(session):
    x = tf.placeholder(tf.float32, [2])
    clipped, norm = tf.clip_by_global_norm([x, None, tf.ones([3])], 1.0)
    assert clipped[1] is None
    fetches = [clipped[0], clipped[2], norm]
    for bad in (np.inf, np.nan):
        first, second, size = session.run(fetches, {x: [bad, 1.0]})
        assert np.isnan(first).all()
        assert np.isnan(second).all()
        assert not np.isfinite(size)
    first, second, size = session.run(fetches, {x: [0.0, 1.0]})
    assert size == 2.0
    np.testing.assert_allclose(np.concatenate([first, second]), [0.0, 0.5, 0.5, 0.5, 0.5], rtol=1e-6)


def test_dtypes_may_be_mixed_given_the_norm(session):
    wide, narrow = tf.constant([3.0, 4.0], tf.float64), tf.constant([3.0, 4.0], tf.float16)
    clipped, _ = tf.clip_by_global_norm([wide, narrow], 1.0, use_norm=tf.constant(5.0))
    found = session.run(clipped)
    assert [value.dtype.name for value in found] == ["float64", "float16"]
    for value in found:
        np.testing.assert_allclose(value.astype(float), [0.6, 0.8], rtol=1e-3)


def test_averages_norms_of_doubles(session):
    x = tf.constant([3.0, 4.0], tf.float64)
    np.testing.assert_allclose(session.run(tf.clip_by_average_norm(x, 1.0)), [1.2, 1.6], rtol=1e-12)


def test_the_norm_of_nothing_is_zero():
    """As in TensorFlow 1.15.5, for gradients that are all None."""
    with tf.Graph().as_default(), tf.Session() as session:
        clipped, norm = tf.clip_by_global_norm([None, None], 1.0)
        assert clipped == [None, None]
        assert session.run(norm) == 0.0


@pytest.mark.parametrize("function", [tf.global_norm, lambda t: tf.clip_by_global_norm(t, 1.0)])
def test_norms_want_a_list(function):
    with pytest.raises(TypeError, match=r"t_list should be a sequence\nGiven: Tensor\nExpected: a list"):
        function(tf.ones([2]))


def test_the_step_of_another_graph(session):
    other = tf.Graph()
    step = train.get_or_create_global_step(other)
    assert step.graph is other
    assert train.get_global_step() is None
    mine = train.create_global_step()
    session.run(mine.initializer)
    assert train.global_step(session, mine) == 0
    assert type(train.global_step(session, mine)) is int


def test_steps_that_are_none():
    train.create_global_step()
    for call, text in (
        (train.create_global_step, r'"global_step" already exists\.\nGiven(.|\n)*Instead: tf.train.get_or_create'),
        (lambda: train.assert_global_step(3), r"must be a Variable or Tensor: 3\.\nGiven: a int"),
        (
            lambda: train.assert_global_step(tf.constant(1.0)),
            "does not have integer type.*\nGiven: a global step",
        ),
        (
            lambda: train.assert_global_step(tf.constant([1])),
            r"is not scalar: \(1,\)" + "\nGiven: a global step",
        ),
    ):
        with pytest.raises((TypeError, ValueError), match=text):
            call()
    tf.add_to_collection(tf.GraphKeys.GLOBAL_STEP, tf.Variable(1, name="second"))
    with pytest.raises(TypeError, match=r"Multiple 'global_step' tensors found\.\nGiven: 2 global steps"):
        train.get_global_step()
