"""Datasets while the graph is built: structures, static shapes, options, what is refused, how they are written."""

from __future__ import annotations

import collections

import numpy as np
import pytest

import anabranch as tf

D = tf.data.Dataset
Point = collections.namedtuple("Point", "x y")


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def types_of(graph):
    return [op.type for op in graph.get_operations()]


def test_structures_keep_their_form():
    dataset = D.from_tensors({"p": Point(np.float32(1), (True, "text")), "a": np.zeros([2, 3], np.int32)})
    assert dataset.output_types == {"p": Point(tf.float32, (tf.bool, tf.string)), "a": tf.int32}
    assert dataset.output_shapes["a"].as_list() == [2, 3]
    assert dataset.output_classes["p"].y[1] is tf.Tensor
    element = dataset.batch(4, drop_remainder=True).make_one_shot_iterator().get_next()
    assert isinstance(element["p"], Point)
    assert element["a"].shape.as_list() == [4, 2, 3]
    assert tf.data.get_output_types(dataset) == dataset.output_types


def test_a_nested_dataset_is_a_component():
    inner = D.range(3).map(lambda x: D.range(x))
    total = inner.map(lambda dataset: dataset.reduce(tf.constant(0, tf.int64), lambda s, x: s + x))
    element = total.batch(3).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert session.run(element).tolist() == [0, 0, 1]


def test_repr_tells_shapes_and_types():
    assert repr(D.range(3).batch(2)) == "<Dataset shapes: (?,), types: tf.int64>"


def test_the_graph_is_written_as_tensorflow_writes_it():
    dataset = D.from_tensor_slices(([1.0, 2.0], [3, 4])).map(lambda x, y: (x * 2, y)).shuffle(10, seed=1).repeat()
    dataset.batch(2).prefetch(1).make_one_shot_iterator().get_next()
    names = [
        op.name for op in tf.get_default_graph().get_operations() if not op.name.startswith(("Dataset_", "make_d"))
    ]
    assert names == [
        "normalize_element/component_0", "normalize_element/component_1", "TensorSliceDataset", "MapDataset",
        "buffer_size", "seed", "seed2/Const", "seed2/Equal/y", "seed2/Equal", "seed2/Equal_1/y", "seed2/Equal_1",
        "seed2/LogicalAnd", "seed2/Const_1", "seed2", "ShuffleDataset", "count", "RepeatDataset", "batch_size",
        "drop_remainder", "BatchDatasetV2", "buffer_size_1", "PrefetchDataset", "OneShotIterator",
        "IteratorToStringHandle", "IteratorGetNext",
    ]  # fmt: skip


def test_options_become_stages():
    options = tf.data.Options()
    options.experimental_threading.max_intra_op_parallelism = 1
    options.experimental_threading.private_threadpool_size = 2
    dataset = D.range(3).with_options(options)
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    types = types_of(tf.get_default_graph())
    wanted = ["MaxIntraOpParallelismDataset", "PrivateThreadPoolDataset", "OptimizeDataset", "ModelDataset"]
    assert [item for item in types if item in wanted] == wanted
    with tf.Session() as session:
        session.run(iterator.initializer)
        assert [session.run(element) for _ in range(3)] == [0, 1, 2]


def test_options_are_merged():
    first, second = tf.data.Options(), tf.data.Options()
    first.experimental_optimization.map_fusion = True
    second.experimental_deterministic = False
    merged = first.merge(second)
    assert merged.experimental_optimization.map_fusion is True
    assert merged.experimental_deterministic is False
    assert D.range(1).with_options(first).with_options(second).options() == merged
    second.experimental_optimization.map_fusion = False
    with pytest.raises(ValueError, match="Cannot merge incompatible values"):
        first.merge(second)
    with pytest.raises(AttributeError, match="Cannot set the property"):
        first.no_such_option = 1
    with pytest.raises(TypeError, match="must be of type"):
        first.experimental_deterministic = "yes"


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda: D.zip([D.range(3)]), TypeError, "do not support Python lists"),
        (lambda: D.range(), ValueError, "Invalid arguments to RangeDataset"),
        (lambda: D.from_tensor_slices(3), ValueError, "a first dimension"),
        (lambda: D.from_sparse_tensor_slices([1]), TypeError, "must be a `tf.SparseTensor` object"),
        (lambda: D.from_generator(3, tf.int64), TypeError, "must be callable"),
        (lambda: D.range(3).map(lambda x: object()), TypeError, "Unsupported return value"),
        (lambda: D.range(3).map(lambda x: None), TypeError, r"passed to Dataset.map\(\): None"),
        (lambda: D.range(3).filter(lambda x: None), TypeError, r"passed to Dataset.filter\(\): None"),
        (lambda: D.range(3).map(3), TypeError, "a function of elements"),
        (lambda: D.range(3).flat_map(lambda x: x), TypeError, "must return a `Dataset` object"),
        (lambda: D.range(3).filter(lambda x: x), ValueError, "must return a scalar boolean tensor"),
        (lambda: D.range(3).concatenate(D.from_tensors(1.0)), TypeError, "have different types"),
        (lambda: D.range(3).apply(lambda d: 3), TypeError, "must return a Dataset"),
        (lambda: D.range(3).shard(0, 0), ValueError, "num_shards must be >= 1"),
        (lambda: D.range(3).padded_batch(2, [3]), ValueError, "not compatible with the corresponding input"),
        (lambda: D.from_tensors([1, 2]).padded_batch(2, [1]), ValueError, "not compatible with the corresponding"),
        (lambda: D.from_tensors([1, 2]).padded_batch(2, [3], 1.5), TypeError, "does not match output type"),
        (lambda: D.range(3).reduce(0, lambda s, x: x), TypeError, "must match the initial state"),
        (lambda: iter(D.range(3)), RuntimeError, "only supported inside of tf.function"),
        (lambda: D.range(3).with_options(None), TypeError, "a tf.data.Options"),
        (lambda: tf.data.Iterator(None, None, None, None, None), ValueError, "must be specified"),
    ],
)
def test_what_cannot_be_is_refused(make, error, text):
    with pytest.raises(error, match=text):
        make()


def test_an_array_that_is_fed_may_be_changed_afterwards():
    rows = tf.placeholder(tf.float32, [None])
    iterator = D.from_tensor_slices(rows).make_initializable_iterator()
    element = iterator.get_next()
    given = np.arange(3, dtype=np.float32)
    with tf.Session() as session:
        session.run(iterator.initializer, {rows: given})
        given[:] = 7
        assert [session.run(element) for _ in range(3)] == [0, 1, 2]


@pytest.mark.parametrize("tier", ["auto", "interpreted", "compiled"])
def test_functions_give_the_same_in_each_tier(tier):
    captured = tf.constant([1.0, 2.0])
    dataset = D.range(70).map(lambda x: tf.tensordot(tf.fill([2, 2], tf.cast(x, tf.float32)), captured, 1))
    element = dataset.batch(70).make_one_shot_iterator().get_next()
    with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
        np.testing.assert_allclose(session.run(element), np.arange(70)[:, None] * [[3.0, 3.0]])
