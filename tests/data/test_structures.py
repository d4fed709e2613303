"""What structures of elements and operands of stages refuse, in TensorFlow's words; defaults of another graph."""

import collections

import numpy as np
import pytest

import anabranch as tf
from anabranch.data import nest

Pair = collections.namedtuple("Pair", "a b")


@pytest.mark.parametrize(
    ("first", "second", "error", "text"),
    [
        ((1, 2), (1, 2, 3), ValueError, "same number of elements: 2 and 3"),
        ((0, 1), np.array([0, 1]), ValueError, "same number of elements"),
        (((1, 2), 3), (1, (2, 3)), ValueError, "same nested structure"),
        (3, (3,), ValueError, "same nested structure"),
        (((1, 2), 3), {"a": (1, 2), "b": 3}, TypeError, "same sequence type"),
        (Pair(1, 2), (1, 2), TypeError, "same sequence type"),
        ({"a": 1}, {"b": 1}, ValueError, "same set of keys"),
    ],
)
def test_other_forms_are_refused(first, second, error, text):
    with pytest.raises(error, match=text):
        nest.assert_same_structure(first, second)
    with pytest.raises(error, match=text):
        nest.map_structure(lambda x, y: x, first, second)


def test_other_types_pass_if_they_may():
    nest.assert_same_structure(((1, 2), 3), {"a": (1, 2), "b": 3}, check_types=False)
    assert nest.map_structure(lambda x, y: x + y, (1, 2), Pair(3, 4), check_types=False) == (4, 6)
    nest.assert_same_structure(collections.OrderedDict(b=1, a=2), {"a": 3, "b": 4})


@pytest.mark.parametrize(
    ("shallow", "deep", "error", "text"),
    [
        ((1, 2, 3), (1, 2), ValueError, "has length 2, while shallow structure has length 3"),
        ({"a": 1, "b": 2}, (1, 2), TypeError, "has type <class 'tuple'>, while shallow structure has type"),
        ({"a": {"c": 1}}, {"a": {"d": 1}}, ValueError, "same keys. Input structure has keys ..d..,"),
        ((1,), "text", TypeError, "Input has type: <class 'str'>"),
    ],
)
def test_what_does_not_begin_like_a_shallow_structure_is_refused(shallow, deep, error, text):
    with pytest.raises(error, match=text):
        nest.assert_shallow_structure(shallow, deep)


def test_leaves_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="Structure is a scalar but"):
        nest.pack_sequence_as(1, [4, 5])
    with pytest.raises(TypeError, match="flat_sequence must be a sequence"):
        nest.pack_sequence_as((1, 2), "ab")
    with pytest.raises(TypeError, match="func must be callable"):
        nest.map_structure(3, (1, 2))
    with pytest.raises(ValueError, match="Only valid keyword argument is check_types"):
        nest.map_structure(abs, (1, 2), types=False)


@pytest.mark.parametrize(
    "stage",
    [
        lambda d: d.take([1, 2]),
        lambda d: d.skip([1, 2]),
        lambda d: d.repeat([1, 2]),
        lambda d: d.batch([1, 2]),
        lambda d: d.shuffle([1, 2]),
        lambda d: d.prefetch([1, 2]),
        lambda d: d.padded_batch([2], []),
        lambda d: d.window([2]),
        lambda d: tf.data.Dataset.range([1, 2]),
        lambda d: tf.data.TextLineDataset("file", buffer_size=[1]),
        lambda d: tf.data.FixedLengthRecordDataset("file", [1]),
        lambda d: d.apply(tf.data.experimental.map_and_batch(lambda x: x, [2])),
        lambda d: d.apply(tf.data.experimental.bytes_produced_stats(["tag"])),
    ],
)
def test_a_vector_in_place_of_a_scalar_is_refused_while_the_graph_is_built(stage):
    with pytest.raises(ValueError, match="Shape must be rank 0 but is rank 1"):
        stage(tf.data.Dataset.range(4))


@pytest.mark.parametrize("comment", [None, "#"])
def test_defaults_of_columns_may_be_constants_of_another_graph(tmp_path, comment):
    defaults = [tf.constant([7], tf.int64), tf.constant([], tf.float32), tf.constant(["none"])]
    file = tmp_path / "table.csv"
    file.write_text("a,b,c\n,2.5,x\n3,1.5,\n")
    with tf.Graph().as_default(), tf.Session() as session:
        rows = tf.contrib.data.make_csv_dataset(
            str(file), 2, None, defaults, num_epochs=1, shuffle=False, comment=comment
        )
        values = session.run(rows.make_one_shot_iterator().get_next())
    assert {name: value.tolist() for name, value in values.items()} == {
        "a": [7, 3],
        "b": [2.5, 1.5],
        "c": [b"x", b"none"],
    }


@pytest.mark.parametrize(
    ("build", "count"),
    [
        (lambda: tf.data.Dataset.list_files("x*", seed=1), 33),
        (lambda: tf.data.Dataset.list_files(["x*"], shuffle=False), 16),
        (
            lambda: tf.data.experimental.sample_from_datasets(
                [tf.data.Dataset.range(4), tf.data.Dataset.range(10, 14)]
            ),
            23,
        ),
        (
            lambda: tf.data.Dataset.range(3).apply(tf.data.experimental.parallel_interleave(tf.data.Dataset.range, 2)),
            10,
        ),
    ],
)
def test_as_many_operations_as_in_tensorflow_count_for_seeds(build, count):
    """The numbers are those of ``Graph._last_id`` in TensorFlow 1.15.5."""
    with tf.Graph().as_default() as graph:
        tf.set_random_seed(1)
        build()
        assert graph._last_id == count
