"""Functions that are called once for many elements: the values are those of each element alone, wherever they come."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.ops.data import mapping
from anabranch.runtime.interpreter import row_code

D = tf.data.Dataset


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


@pytest.fixture
def runs(monkeypatch):
    """How many elements were computed together, in order."""
    sizes = []
    pull = mapping.ManyAtOnce.pull_rows

    def noted(self, count):
        rows = pull(self, count)
        if rows is not None:
            sizes.append(len(rows[0][0]))
        return rows

    monkeypatch.setattr(mapping.ManyAtOnce, "pull_rows", noted)
    return sizes


def values(dataset):
    element = dataset.make_one_shot_iterator().get_next()
    found = []
    with tf.Session() as session:
        while True:
            try:
                found.append(session.run(element))
            except tf.errors.OutOfRangeError:
                return found


def flat(parts):
    return [np.asarray(part).tolist() for element in parts for part in tf.nest.flatten(element)]


MATRIX = np.arange(24.0, dtype=np.float32).reshape(8, 3)
TEXT = np.array([b"%d,%d.5" % (i, -i) for i in range(8)], object)
FUNCTIONS = {
    "arithmetic": (MATRIX, lambda x: x * 2 + 1),
    "another rank": (np.arange(8), lambda x: x + np.array([[1, 2], [3, 4]])),
    "a constant": (np.arange(8), lambda x: (x, 3, tf.constant([1, 2]))),
    "captured": (MATRIX, lambda x: x - tf.reduce_mean(tf.constant(MATRIX), 0)),
    "shapes": (MATRIX, lambda x: tf.cast(tf.size(x), tf.float32) * x + tf.cast(tf.shape(x)[0], tf.float32)),
    "reshape": (MATRIX, lambda x: tf.expand_dims(tf.reshape(x, [3, 1]), -1)),
    "squeeze": (MATRIX[:, None], lambda x: (tf.squeeze(x), tf.squeeze(x, [-2]))),
    "transpose": (MATRIX.reshape(8, 3, 1), lambda x: tf.transpose(x)),
    "reductions": (MATRIX, lambda x: (tf.reduce_sum(x), tf.reduce_max(x, 0), tf.reduce_mean(x, -1, keepdims=True))),
    "joins": (MATRIX, lambda x: (tf.stack([x, x * 2], 1), tf.concat([x, [7.0]], 0), tf.stack([x[0], 5.0]))),
    "slices": (MATRIX, lambda x: (x[1:], x[::-1], x[..., tf.newaxis], x[-1], tf.slice(x, [1], [-1]))),
    "one-hot": (np.arange(8), lambda x: (tf.one_hot(x, 4), tf.one_hot(x % 3, 3, axis=0))),
    "gather": (np.arange(8), lambda x: tf.gather(tf.constant(MATRIX), x)),
    "casts": (MATRIX, lambda x: tf.cast(tf.cast(x, tf.uint8), tf.float64) / 255.0),
    "csv": (TEXT, lambda x: tf.decode_csv(x, [[0], [0.0]])),
    "bytes": (np.array([b"abcd", b"efgh"] * 4, object), lambda x: tf.decode_raw(x, tf.uint8)),
    "strings": (np.array([b"1.5", b"2"] * 4, object), lambda x: tf.string_to_number(x)),
    "structures": ({"a": MATRIX, "b": np.arange(8)}, lambda x: {"c": x["a"] * 2, "d": (x["b"], x["a"][0])}),
    "nothing": (np.arange(8), lambda x: tf.constant(4)),
    "the second of two": ((MATRIX, np.arange(8)), lambda a, b: b),
}


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_a_batch_has_the_values_of_its_elements(name, runs):
    data, function = FUNCTIONS[name]
    mapped = D.from_tensor_slices(data).map(function)
    alone = values(mapped)
    assert not runs
    batches = values(mapped.batch(3))
    assert sum(runs[-3:]) == 8
    rows = [tf.nest.flatten(element) for element in alone]
    for start, batch in zip(range(0, 8, 3), batches, strict=True):
        for place, column in enumerate(tf.nest.flatten(batch)):
            expected = np.stack([row[place] for row in rows[start : start + 3]])
            assert column.dtype == expected.dtype
            assert np.array_equal(column, expected)


@pytest.mark.parametrize(
    "make",
    [
        lambda d: d.map(lambda x: x * 2).map(lambda x: x + 1).batch(7),
        lambda d: d.filter(lambda x: x % 3 > 0).batch(7),
        lambda d: d.filter(lambda x: x < 0).batch(7),
        lambda d: d.map(lambda x: x * 2).filter(lambda x: x % 3 > 0).map(lambda x: -x).batch(4, drop_remainder=True),
        lambda d: d.map(lambda x: x * 2).repeat(3).batch(7),
        lambda d: d.map(lambda x: x * 2).take(17).batch(5),
        lambda d: d.map(lambda x: x * 2).skip(2).shuffle(10, seed=1).batch(5),
        lambda d: d.filter(lambda x: x % 2 > 0).shuffle(10, seed=1).repeat(2).batch(5),
        lambda d: d.apply(tf.data.experimental.map_and_batch(lambda x: x * 2, 7)),
        lambda d: d.apply(tf.data.experimental.map_and_batch(lambda x: x * 2, 7, drop_remainder=True)),
    ],
)
def test_pipelines_give_the_same_as_without_rows(make, runs, monkeypatch):
    together = flat(values(make(D.range(30))))
    assert runs
    monkeypatch.setattr(mapping.ManyAtOnce, "pull_rows", lambda self, count: None)
    assert flat(values(make(D.range(30)))) == together


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: tf.random_normal([]) + tf.cast(x, tf.float32), "draws element by element"),
        (lambda x: tf.py_func(lambda v: v, [x], tf.int64), "more than compute"),
        (lambda x: tf.unique(tf.fill([2], x))[0], "run element by element"),
    ],
)
def test_what_is_run_element_by_element_says_why(function, reason, runs):
    values(D.range(6).map(function).batch(3))
    assert not runs


PIXELS = np.random.RandomState(1).randint(0, 256, [11, 6, 5, 3]).astype(np.uint8)


def distorted(image):
    image = tf.image.resize_image_with_crop_or_pad(tf.cast(image, tf.float32), 8, 8)
    image = tf.image.random_flip_left_right(tf.random_crop(image, [5, 4, 3]))
    image = tf.image.random_contrast(tf.image.random_brightness(image, 60.0), 0.2, 1.8)
    image = tf.image.random_saturation(tf.image.random_hue(image / 300.0, 0.1), 0.5, 1.5)
    return tf.image.per_image_standardization(image), tf.random_uniform([2, 3], 3, 9, tf.int32)


DRAWN = {
    "numbers": lambda x: tf.random_uniform([]) * tf.cast(x[0, 0, 0], tf.float32),
    "vectors of integers": lambda x: tf.random_uniform([5], -3, 4, tf.int32) + tf.cast(x[0, 0], tf.int32)[0],
    "images": distorted,
    "flips": lambda x: tf.image.random_flip_up_down(tf.image.flip_left_right(x)),
}


@pytest.mark.parametrize("name", sorted(DRAWN))
def test_a_batch_draws_what_its_elements_draw_one_after_the_other(name, runs, monkeypatch):
    def found():
        with tf.Graph().as_default():
            tf.set_random_seed(5)
            return values(D.from_tensor_slices(PIXELS).repeat(4).map(DRAWN[name]).batch(7))

    together = found()
    assert sum(runs) == 44
    monkeypatch.setattr(mapping.ManyAtOnce, "pull_rows", lambda self, count: None)
    for batch, expected in zip(together, found(), strict=True):
        for column, wanted in zip(tf.nest.flatten(batch), tf.nest.flatten(expected), strict=True):
            np.testing.assert_array_equal(column, wanted)


def test_elements_behind_a_failure_draw_as_if_they_had_come_alone(runs):
    """A crop that does not fit fails its element; the others of its batch draw what they would have drawn."""
    sizes = np.array([3, 2, 3, 9, 3, 1, 2], np.int32)

    def part(size):
        with tf.control_dependencies([tf.assert_less(size, 5)]):
            return tf.random_uniform([]) + tf.cast(size, tf.float32)

    def found(finish):
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(4)
            element = finish(D.from_tensor_slices(sizes).map(part)).make_one_shot_iterator().get_next()
            got = []
            for _ in range(12):
                try:
                    got += np.ravel(session.run(element)).tolist()
                except tf.errors.InvalidArgumentError:
                    continue
                except tf.errors.OutOfRangeError:
                    return got

    assert found(lambda d: d)[3:] == found(lambda d: d.batch(3))[3:]


def test_elements_of_no_certain_shape_are_mapped_one_by_one(runs):
    ragged = D.range(6).map(lambda x: tf.fill([x], x))
    assert values(ragged.map(tf.reduce_sum).batch(3))[1].tolist() == [9, 16, 25]
    assert not any(size for size in runs[2:])


def test_a_failure_is_that_of_its_element_and_the_others_come(runs):
    def checked(x):
        return tf.check_numerics(12.0 / tf.cast(x - 4, tf.float32), "element four")

    iterator = D.range(9).map(checked).batch(3).make_one_shot_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        assert session.run(element).tolist() == [-3.0, -4.0, -6.0]
        with pytest.raises(tf.errors.InvalidArgumentError, match="element four"):
            session.run(element)
        assert session.run(element).tolist() == [12.0, 6.0, 4.0]
        assert session.run(element).tolist() == [3.0]
    assert runs == [3, 1]
    kept = D.range(9).map(checked).apply(tf.data.experimental.ignore_errors()).batch(8)
    assert values(kept)[0].tolist() == [-3.0, -4.0, -6.0, -12.0, 12.0, 6.0, 4.0, 3.0]


def test_outputs_of_several_shapes_are_refused_as_a_batch():
    dataset = D.range(6).map(lambda x: tf.fill([x], x)).batch(2)
    with pytest.raises(tf.errors.InvalidArgumentError, match="Cannot batch tensors with different shapes"):
        values(dataset)


def test_a_batch_with_other_values_is_not_used(monkeypatch, caplog, runs):
    """A rule that is wrong is noticed by the first batch, and the elements are computed one by one."""

    def wrong(operands, rows, attrs):
        return [operand + 1 if is_rows else operand for operand, is_rows in zip(operands, rows, strict=True)], attrs

    monkeypatch.setattr(row_code.row_rules, "by_element", wrong)
    assert values(D.range(6).map(lambda x: x * 2).batch(3))[1].tolist() == [6, 8, 10]
    assert "gave other values" in caplog.text
    assert not runs


def test_rows_are_used_beside_programs_if_the_bits_are_the_same(caplog, runs):
    x = np.linspace(0.0, 1.0, 64, dtype=np.float32)
    with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        for function in (lambda x: x * 2.0, lambda x: tf.exp(x) * 3.0):
            element = D.from_tensor_slices(x).map(function).batch(16).make_one_shot_iterator().get_next()
            batches = np.concatenate([session.run(element) for _ in range(4)])
            np.testing.assert_allclose(batches, session.run(function(tf.constant(x))), rtol=1e-6)
    assert runs[0] == 16
    assert "element by element" not in caplog.text


def test_a_place_between_elements_that_were_taken_together(tmp_path, runs):
    def checked(x):
        return tf.check_numerics(12.0 / tf.cast(x - 4, tf.float32), "element four")

    iterator = D.range(9).map(checked).batch(6).make_initializable_iterator()
    element = iterator.get_next()
    saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
    with tf.Session() as session:
        session.run(iterator.initializer)
        with pytest.raises(tf.errors.InvalidArgumentError, match="element four"):
            session.run(element)
        path = saver.save(session, str(tmp_path / "place"))
        assert session.run(element).tolist() == [12.0, 6.0, 4.0, 3.0]
        saver.restore(session, path)
        assert session.run(element).tolist() == [12.0, 6.0, 4.0, 3.0]
