"""A large array that only the step holds is the caller's without a copy; any other one is copied."""

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.values import spare_arrays

ROWS, SIZE = 64, 1024


@pytest.fixture
def copies(monkeypatch):
    """The large arrays that fetches were copied from."""
    seen = []
    copy = spare_arrays.copy

    def counted(value):
        if getattr(value, "nbytes", 0) >= spare_arrays.LEAST:
            seen.append(value)
        return copy(value)

    monkeypatch.setattr(spare_arrays, "copy", counted)
    return seen


def session(tier="auto"):
    return tf.Session(config=tf.SessionOptions(tier=tier))


def batches(table):
    rows = tf.placeholder(tf.float32, table.shape)
    iterator = (
        tf.data.Dataset.from_tensor_slices(rows).shuffle(4 * ROWS, seed=1).batch(ROWS).make_initializable_iterator()
    )
    return iterator.get_next(), lambda s: s.run(iterator.initializer, {rows: table})


@pytest.mark.parametrize("tier", ["interpreted", "compiled"])
def test_a_batch_that_an_iterator_made_is_not_copied(copies, tier):
    table = np.arange(4 * ROWS * SIZE, dtype=np.float32).reshape(-1, SIZE)
    element, begin = batches(table)
    seen = []
    with session(tier) as s:
        begin(s)
        for _ in range(4):
            batch = s.run(element)
            seen += [int(row) for row in batch[:, 0] // SIZE]
            np.testing.assert_array_equal(batch, table[(batch[:, 0] // SIZE).astype(int)])
            batch[...] = -1  # it is the caller's
    assert sorted(seen) == list(range(4 * ROWS))
    assert len(copies) <= 1  # the first run finds out how later ones go
    assert table[0, 0] == 0


def test_batches_that_are_kept_stay_apart():
    table = np.arange(4 * ROWS * SIZE, dtype=np.float32).reshape(-1, SIZE)
    element, begin = batches(table)
    with session() as s:
        begin(s)
        kept = [s.run(element) for _ in range(4)]
    rows = np.concatenate([batch[:, 0] // SIZE for batch in kept])
    assert sorted(rows.astype(int)) == list(range(4 * ROWS))
    assert not any(np.shares_memory(one, other) for i, one in enumerate(kept) for other in kept[:i])


def test_what_a_dataset_keeps_is_copied(copies):
    data = (
        tf.data.Dataset.range(ROWS).map(lambda i: tf.fill([SIZE], tf.cast(i, tf.float32))).batch(ROWS).cache().repeat()
    )
    element = data.make_one_shot_iterator().get_next()
    with session() as s:
        for _ in range(3):
            batch = s.run(element)
            assert batch[5, 7] == 5
            batch[...] = -1
    assert copies


def test_one_value_of_two_tensors_is_copied(copies):
    table = np.arange(4 * ROWS * SIZE, dtype=np.float32).reshape(-1, SIZE)
    element, begin = batches(table)
    with session("interpreted") as s:
        begin(s)
        one, other = s.run([element, tf.identity(element)])
    one[...] = -1
    assert other.min() >= 0
    assert copies


def test_a_view_of_a_fed_array_is_copied():
    value = np.ones((ROWS, SIZE), np.float32)
    x = tf.placeholder(tf.float32, value.shape)
    with session("interpreted") as s:
        for fetch in (x, tf.identity(x), tf.reshape(x, [-1]), tf.transpose(tf.transpose(x))):
            s.run(fetch, {x: value})[...] = -1
        assert value.min() == 1


def test_what_a_variable_takes_is_copied():
    value = np.ones((ROWS, SIZE), np.float32)
    x = tf.placeholder(tf.float32, value.shape)
    v = tf.get_variable("v", value.shape, use_resource=True)
    w = tf.get_variable("w", value.shape)
    doubled = x * 2
    with session("interpreted") as s:
        s.run(tf.global_variables_initializer())
        fetched = s.run([doubled, v.assign(doubled), w.assign(doubled)], {x: value})
        for array in fetched:
            array[...] = -1
        assert s.run(v).min() == 2
        assert s.run(w).min() == 2


def test_what_a_python_function_keeps_is_copied():
    mine = np.ones((ROWS, SIZE), np.float32)
    y = tf.py_func(lambda: mine, [], tf.float32)
    with session() as s:
        s.run(y)[...] = -1
    assert mine.min() == 1


def test_what_an_interpreted_op_made_is_not_copied(copies):
    x = tf.placeholder(tf.float32, [ROWS, SIZE])
    y = x * 2 + 1
    with session("interpreted") as s:
        for _ in range(3):
            assert s.run(y, {x: np.ones((ROWS, SIZE), np.float32)}).max() == 3
    assert not copies
