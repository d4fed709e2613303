"""Windows, groups, choices and scans: op types that other versions write, bad input, saved places, Python models."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import anabranch as tf
from anabranch.core.cancellation import CancellationToken
from anabranch.core.contract import kernels
from anabranch.core.graph.build import build
from anabranch.ops.data.iterators import IteratorResource

D = tf.data.Dataset
E = tf.data.experimental
C = tf.contrib.data


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def elements(dataset):
    """All elements of a dataset, as lists."""
    iterator = dataset.make_initializable_iterator()
    following = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        found = []
        while True:
            try:
                element = session.run(following)
            except tf.errors.OutOfRangeError:
                return found
            parts = [np.asarray(part).tolist() for part in (element if isinstance(element, tuple) else (element,))]
            found.append(parts if isinstance(element, tuple) else parts[0])


# ------------------------------------------------------------------------------------------------------ other op types
def sum_by_key(dataset):
    reducer = E.Reducer(lambda k: k, lambda s, x: s + x, lambda s: s)
    return dataset.apply(E.group_by_reducer(lambda x: x % 3, reducer))


SPELLINGS = [
    ("SlidingWindowDataset", "ExperimentalSlidingWindowDataset", lambda d: d.apply(C.sliding_window_batch(3, 2))),
    (
        "GroupByWindowDataset",
        "ExperimentalGroupByWindowDataset",
        lambda d: d.apply(E.group_by_window(lambda x: x % 3, lambda k, w: w.batch(2), 2)),
    ),
    ("ExperimentalGroupByReducerDataset", "GroupByReducerDataset", sum_by_key),
    (
        "DirectedInterleaveDataset",
        "ExperimentalDirectedInterleaveDataset",
        lambda d: E.choose_from_datasets([d, d], d.map(lambda x: x % 2)),
    ),
    ("RandomDataset", "ExperimentalRandomDataset", lambda d: E.RandomDataset(7).take(5)),
    ("ScanDataset", "ExperimentalScanDataset", lambda d: d.apply(E.scan(np.int64(1), lambda s, x: (s + x, s * x)))),
    ("TakeWhileDataset", "ExperimentalTakeWhileDataset", lambda d: d.apply(E.take_while(lambda x: x < 3))),
    ("UniqueDataset", "ExperimentalUniqueDataset", lambda d: d.map(lambda x: x % 2).apply(E.unique())),
    (
        "DenseToSparseBatchDataset",
        "ExperimentalDenseToSparseBatchDataset",
        lambda d: d.map(lambda x: tf.fill([x], x)).apply(E.dense_to_sparse_batch(2, [9])).map(lambda s: s.values),
    ),
    ("MapAndBatchDataset", "ExperimentalMapAndBatchDataset", lambda d: d.apply(E.map_and_batch(lambda x: x * x, 2))),
    (
        "ParallelInterleaveDataset",
        "ExperimentalParallelInterleaveDataset",
        lambda d: d.apply(E.parallel_interleave(lambda x: D.range(x), 2)),
    ),
    ("UnbatchDataset", "ExperimentalUnbatchDataset", lambda d: d.batch(2).unbatch()),
]
LATER_ATTRS = (
    "metadata",
    "stop_on_empty_dataset",
    "use_default_device",
    "drop_remainder",
)


@pytest.mark.parametrize(("name", "other", "make"), SPELLINGS, ids=[row[0] for row in SPELLINGS])
def test_another_spelling_of_an_op_type_gives_the_same(name, other, make):
    dataset = make(D.range(7))
    wanted = elements(dataset)
    graph_def = tf.get_default_graph().as_graph_def()
    nodes = list(graph_def.node) + [node for function in graph_def.library.function for node in function.node_def]
    renamed = [node for node in nodes if node.op == name]
    assert renamed
    for node in renamed:
        node.op = other
        for key in LATER_ATTRS:
            node.attr.pop(key, None)
    with tf.Graph().as_default():
        (variant,) = tf.import_graph_def(graph_def, return_elements=[dataset._variant_tensor.name], name="")
        assert variant.op.type == other or other == "ExperimentalDenseToSparseBatchDataset" or len(nodes) > len(renamed)
        assert elements(tf.data.Dataset(variant, dataset._spec)) == wanted


def test_an_interleave_of_the_second_legacy_kind():
    dataset = D.range(5).apply(E.parallel_interleave(lambda x: D.range(x), 2))
    op = dataset._variant_tensor.op
    source, cycle, block, _sloppy, ahead, inputs = op.inputs
    attrs = {"output_types": [tf.int64], "output_shapes": [()], "f": op._attrs["f"]}
    again = build("LegacyParallelInterleaveDatasetV2", source, [], cycle, block, ahead, inputs, **attrs)
    assert elements(tf.data.Dataset(again, dataset._spec)) == elements(dataset)


def test_a_choice_can_end_with_the_first_dataset_that_ends():
    selector = D.from_tensor_slices(np.array([0, 1, 0, 0, 1]))
    attrs = {"output_types": [tf.int64], "output_shapes": [()], "stop_on_empty_dataset": True}
    sources = [item._variant_tensor for item in (D.range(2), D.range(10, 20))]
    variant = build("DirectedInterleaveDataset", selector._variant_tensor, sources, **attrs)
    assert elements(tf.data.Dataset(variant, selector._spec)) == [0, 10, 1]


# ------------------------------------------------------------------------------------------------- what is refused
def group(key, size=2):
    return lambda d: d.apply(E.group_by_window(key, lambda k, w: w.batch(2), window_size_func=lambda k: size))


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda d: d.window(0), "Window size must be greater than zero"),
        (lambda d: d.window(2, 0), "Window shift must be greater than zero"),
        (lambda d: d.window(2, 1, 0), "Window stride must be greater than zero"),
        (lambda d: d.apply(C.sliding_window_batch(2, -1)), "Window shift must be greater than zero"),
        (group(lambda x: x % 2, 0), "Window size must be greater than zero, but got 0"),
        (group(lambda x: tf.py_func(lambda v: np.array([v]), [x], tf.int64)), "`key_func` must return a scalar int64"),
        (
            lambda d: E.choose_from_datasets([d, d], D.from_tensors(np.int64(2))),
            "Selector index out of range: 2 >= 2",
        ),
        (
            lambda d: d.apply(E.take_while(lambda x: tf.py_func(lambda v: np.array([True]), [x], tf.bool))),
            "must return a scalar bool",
        ),
        (
            lambda d: d.map(lambda x: tf.fill([x], x)).apply(E.dense_to_sparse_batch(3, [1])),
            r"had shape \[2\] that is larger than the row shape",
        ),
        (
            lambda d: d.map(lambda x: tf.py_func(lambda v: np.zeros((1, 1)), [x], tf.float64)).apply(
                E.dense_to_sparse_batch(3, [1])
            ),
            "incompatible with the row shape",
        ),
        (lambda d: d.apply(E.dense_to_sparse_batch(0, [1])), "Batch size must be greater than zero"),
        (lambda d: d.apply(E.map_and_batch(lambda x: x, 0)), "batch_size must be greater than zero"),
        (lambda d: d.apply(E.map_and_batch(lambda x: x, 2, num_parallel_calls=0)), "num_parallel_calls must be"),
        (lambda d: d.apply(E.map_and_batch(lambda x: tf.fill([x], x), 2)), "Cannot add tensor to the batch"),
        (
            lambda d: d.apply(E.parallel_interleave(lambda x: D.range(x), 2, buffer_output_elements=0)),
            "`buffer_output_elements` must be > 0",
        ),
        (
            lambda d: d.map(lambda x: tf.py_func(lambda v: v, [x], tf.int64)).apply(
                C.assert_element_shape(tf.TensorShape([3]))
            ),
            "shape",
        ),
    ],
)
def test_what_cannot_be_is_refused_when_it_runs(make, text):
    with pytest.raises((tf.errors.InvalidArgumentError, tf.errors.DataLossError), match=text):
        elements(make(D.range(5)))


@pytest.mark.parametrize(
    ("make", "error", "text"),
    [
        (lambda d: E.group_by_window(lambda x: x, lambda k, w: w), ValueError, "either window_size or window_size_f"),
        (lambda d: d.apply(E.group_by_window(lambda x: x, lambda k, w: k, 2)), TypeError, "`reduce_func` must return"),
        (lambda d: d.apply(E.group_by_window(lambda x: [x, x], lambda k, w: w, 2)), ValueError, "`key_func` must"),
        (
            lambda d: d.apply(E.group_by_reducer(lambda x: tf.cast(x, tf.int32), None)),
            ValueError,
            "`key_func` must return a single tf.int64",
        ),
        (lambda d: E.bucket_by_sequence_length(lambda x: x, [3], [2]), ValueError, "must equal len"),
        (lambda d: d.apply(E.scan(np.int64(0), lambda s, x: s)), TypeError, "must return a pair"),
        (lambda d: d.apply(E.scan(np.int32(0), lambda s, x: (x, x))), TypeError, "element types for the new state"),
        (lambda d: d.apply(E.take_while(lambda x: x)), ValueError, "must return a scalar boolean"),
        (lambda d: d.map(lambda x: (x, x)).apply(E.unique()), TypeError, "only supports inputs with a single"),
        (lambda d: E.choose_from_datasets([d], d.map(lambda x: tf.cast(x, tf.int32))), TypeError, "scalar `tf.int64`"),
        (lambda d: E.choose_from_datasets([d, d.batch(2).map(tf.to_float)], d), TypeError, "same type and class"),
        (lambda d: E.sample_from_datasets([d, d], [1, 2]), TypeError, "float32"),
        (lambda d: E.sample_from_datasets([d, d], [0.5, 0.2, 0.3]), ValueError, "vector of length"),
        (lambda d: d.map(lambda x: (x, x)).apply(E.dense_to_sparse_batch(2, [1])), TypeError, "single component"),
        (lambda d: E.map_and_batch(lambda x: x, 2, 1, False, 1), ValueError, "mutually exclusive"),
        (lambda d: C.sliding_window_batch(2, 1, 1), ValueError, "Cannot specify both"),
        (lambda d: d.apply(E.parallel_interleave(lambda x: x, 2)), TypeError, "must return a `Dataset`"),
        (lambda d: d.apply(C.assert_element_shape(tf.TensorShape([3]))), ValueError, "incompatible"),
        (lambda d: d.map(lambda x: E.Optional.from_value(x)).batch(2), NotImplementedError, "a batch of optionals"),
        (lambda d: E.get_next_as_optional(d), TypeError, "an iterator"),
        (lambda d: C.reduce_dataset(3, None), TypeError, "must be a `tf.data.Dataset` object"),
    ],
)
def test_what_cannot_be_is_refused_when_it_is_built(make, error, text):
    with pytest.raises(error, match=text):
        make(D.range(5))


# ---------------------------------------------------------------------------------------------- against plain Python
NUMBERS = st.lists(st.integers(-3, 6), max_size=14)


def source(values):
    return D.from_tensor_slices(np.array(values, np.int64))


@settings(max_examples=25, deadline=None)
@given(NUMBERS, st.integers(1, 4), st.integers(1, 5), st.integers(1, 3), st.booleans())
def test_windows_are_those_of_lists(values, size, shift, stride, drop):
    span = (size - 1) * stride + 1
    starts = [start for start in range(0, len(values), shift) if not drop or start + span <= len(values)]
    wanted = [values[start : start + span : stride] for start in starts]
    with tf.Graph().as_default():
        windows = source(values).window(size, shift, stride, drop).flat_map(lambda window: window.batch(99))
        assert elements(windows) == wanted


@settings(max_examples=25, deadline=None)
@given(NUMBERS, st.integers(1, 4), st.integers(1, 3))
def test_groups_are_those_of_lists(values, classes, size):
    groups: dict[int, list[int]] = {}
    wanted = []
    for value in values:
        key = value % classes
        groups.setdefault(key, []).append(value)
        if len(groups[key]) == size + key:
            wanted.append([key, groups.pop(key)])
    wanted += [[key, groups[key]] for key in sorted(groups)]
    with tf.Graph().as_default():
        grouped = source(values).apply(
            E.group_by_window(
                lambda x: tf.floormod(x, classes),
                lambda key, window: window.batch(99).map(lambda batch: (key, batch)),
                window_size_func=lambda key: key + size,
            )
        )
        assert elements(grouped) == wanted


@settings(max_examples=25, deadline=None)
@given(NUMBERS, st.integers(1, 4))
def test_reductions_are_those_of_lists(values, classes):
    keys = sorted({value % classes for value in values})
    wanted = [[key, sum(value for value in values if value % classes == key)] for key in keys]
    with tf.Graph().as_default():
        reducer = E.Reducer(lambda k: (k, np.int64(0)), lambda s, x: (s[0], s[1] + x), lambda k, total: (k, total))
        assert elements(source(values).apply(E.group_by_reducer(lambda x: tf.floormod(x, classes), reducer))) == wanted


@settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 2), max_size=20), st.lists(st.integers(0, 5), min_size=3, max_size=3))
def test_choices_are_those_of_lists(choices, sizes):
    left = [[10 * i + n for n in range(size)] for i, size in enumerate(sizes)]
    ended: set[int] = set()
    wanted = []
    for choice in choices:
        if len(ended) == 3:
            break
        if left[choice]:
            wanted.append(left[choice].pop(0))
        else:
            ended.add(choice)
    with tf.Graph().as_default():
        sources = [D.range(10 * i, 10 * i + size) for i, size in enumerate(sizes)]
        assert elements(E.choose_from_datasets(sources, source(choices))) == wanted


@settings(max_examples=25, deadline=None)
@given(NUMBERS, st.integers(0, 6))
def test_scans_and_selections_are_those_of_lists(values, least):
    sums = np.cumsum(values, dtype=np.int64).tolist()
    before = values[: next((i for i, value in enumerate(values) if value >= least), len(values))]
    with tf.Graph().as_default():
        numbers = source(values)
        assert elements(numbers.apply(E.scan(np.int64(0), lambda s, x: (s + x, s + x)))) == sums
        assert elements(numbers.apply(E.take_while(lambda x: x < least))) == before
        assert elements(numbers.apply(E.unique())) == list(dict.fromkeys(values))


@settings(max_examples=20, deadline=None)
@given(NUMBERS, st.integers(1, 4), st.booleans())
def test_a_map_and_batch_is_a_map_and_a_batch(values, size, drop):
    with tf.Graph().as_default():
        fused = source(values).apply(E.map_and_batch(lambda x: x * 3, size, drop_remainder=drop))
        plain = source(values).map(lambda x: x * 3).batch(size, drop_remainder=drop)
        assert elements(fused) == elements(plain)


def test_a_failed_batch_is_followed_by_the_next():
    numbers = D.range(6).apply(E.map_and_batch(lambda x: tf.check_numerics(2.0 / tf.to_float(x - 3), "bad"), 2))
    element = numbers.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert session.run(element).tolist() == pytest.approx([2 / -3, -1.0])
        with pytest.raises(tf.errors.InvalidArgumentError, match="bad"):
            session.run(element)
        assert session.run(element).tolist() == [2.0, 1.0]


def test_a_reduced_dataset():
    reducer = E.Reducer(lambda key: (key, np.int64(1)), lambda s, x: (s[0] + x, s[1] * 2), lambda a, b: a + b)
    with tf.Session() as session:
        assert session.run(C.reduce_dataset(D.range(4), reducer)) == 6 + 16


# ------------------------------------------------------------------------------------------------------------ optionals
def test_the_next_element_as_an_optional():
    iterator = D.range(2).map(lambda x: {"x": x}).make_one_shot_iterator()
    optional = E.get_next_as_optional(iterator)
    there = optional.has_value()
    value = tf.cond(there, lambda: optional.get_value()["x"], lambda: np.int64(-1))
    with tf.Session() as session:
        assert [session.run((there, value)) for _ in range(3)] == [(True, 0), (True, 1), (False, -1)]


def test_an_optional_without_a_value():
    wanted = E.Optional.from_value((tf.constant(1), tf.constant("a")))
    none = E.Optional.none_from_structure(wanted.value_structure)
    with tf.Session() as session:
        assert not session.run(none.has_value())
        assert session.run(wanted.get_value()) == (1, b"a")
        with pytest.raises(tf.errors.InvalidArgumentError, match="does not have a value"):
            session.run(none.get_value())


# -------------------------------------------------------------------------------------------------------- saved places
PIPELINES = {
    "windows": lambda: D.range(11).window(3, 2, 2).flat_map(lambda w: w),
    "sliding": lambda: D.range(11).apply(C.sliding_window_batch(3, window_shift=4)),
    "groups": lambda: D.range(15).apply(E.group_by_window(lambda x: x % 3, lambda k, w: w.shuffle(3, seed=1), 4)),
    "reductions": lambda: sum_by_key(D.range(9)).repeat(2),
    "choices": lambda: E.sample_from_datasets([D.range(6), D.range(6, 9), D.range(20, 25)], seed=3),
    "scans": lambda: D.range(9).apply(E.scan(np.int64(1), lambda s, x: (s + x, s * x))),
    "conditions": lambda: D.range(9).map(lambda x: x * 5 % 7).apply(E.unique()).apply(E.take_while(lambda x: x < 6)),
    "batches": lambda: D.range(9).apply(E.map_and_batch(lambda x: x, 2)).unbatch(),
}


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_an_iterator_goes_on_from_a_saved_place(name):
    iterator = PIPELINES[name]().make_initializable_iterator()
    element = iterator.get_next()

    def rest(session):
        found = []
        while True:
            try:
                found.append(np.asarray(session.run(element)).tolist())
            except tf.errors.OutOfRangeError:
                return found

    with tf.Session() as session:
        session.run(iterator.initializer)
        whole = rest(session)
        (resource,) = [item for item in session._worker.manager._objects.values() if isinstance(item, IteratorResource)]
        for place in random.Random(0).sample(range(len(whole)), min(5, len(whole))):
            session.run(iterator.initializer)
            for _ in range(place):
                session.run(element)
            context = kernels.HostContext(element.op)
            context.cancellation = token = CancellationToken()
            token.ended = True
            state = resource.save(context)
            assert rest(session) == whole[place:]
            session.run(iterator.initializer)
            resource.restore(context, state)
            assert rest(session) == whole[place:]


# -------------------------------------------------------------------------------------------------------------- devices
def test_elements_for_a_device():
    numbers = D.range(4)
    assert elements(numbers.apply(E.copy_to_device("/gpu:0")).apply(E.prefetch_to_device("/gpu:0", 2))) == [0, 1, 2, 3]
    device = tf.DeviceSpec(device_type="GPU", device_index=0)
    assert elements(numbers.apply(E.prefetch_to_device(device))) == [0, 1, 2, 3]
    with pytest.raises(ValueError, match="device"):
        E.copy_to_device("/gpu:first")


def test_random_numbers_without_a_seed_are_those_of_no_other_dataset():
    one, other = E.RandomDataset().take(3), E.RandomDataset().take(3)
    twice = elements(D.zip((one, other)).repeat(2))
    assert twice[:3] == twice[3:]
    assert all(first != second for first, second in twice)


# ---------------------------------------------------------------------------------------------------- rows of batches
def test_sparse_batches_are_taken_apart():
    eye = tf.SparseTensor([[i, i] for i in range(4)], [1, 2, 3, 4], [4, 4])
    rows = D.from_tensors((np.arange(4), eye)).unbatch().batch(3).unbatch()
    assert rows.output_shapes[1].as_list() == [4]
    found = elements(rows.map(lambda n, row: (n, row.indices[0, 0], row.values[0], row.dense_shape[0])))
    assert found == [[i, i, i + 1, 4] for i in range(4)]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: D.from_tensors((np.arange(3), np.arange(4))).unbatch(), "shapes that can be the same"),
        (lambda: D.range(3).unbatch(), "Cannot unbatch an input with scalar components"),
        (lambda: D.range(3).shard(2, 2), "index=2 of 2 shards"),
        (lambda: D.range(3).batch(2).apply(E.dense_to_sparse_batch(2, [-2])), "Dimension -2 must be >= 0"),
    ],
)
def test_what_cannot_be_taken_apart_is_refused_when_it_is_built(make, text):
    with pytest.raises(ValueError, match=text):
        make()


def test_a_padded_shape_has_no_negative_sizes():
    rows = D.range(3).map(lambda n: tf.fill([n], n)).padded_batch(2, tf.constant([-5], tf.int64))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"must be >= -1, but is -5"):
        elements(rows)


@pytest.mark.parametrize("fails", ["function", "element"])
def test_a_failure_in_a_contrib_interleave_takes_its_turn(fails):
    def check(x):
        return tf.cast(tf.check_numerics(1.0 / tf.cast(x - 5, tf.float32), "bad"), tf.int64)

    def inner(x):
        if fails == "function":
            return D.from_tensors(x + 0 * check(x)).repeat(x)
        return D.range(x).map(lambda n: x + 0 * check(x) + 0 * n)

    numbers = D.range(4, 7).apply(E.parallel_interleave(inner, cycle_length=2))
    element = numbers.make_initializable_iterator()
    following = element.get_next()
    found = []
    with tf.Session() as session:
        session.run(element.initializer)
        while True:
            try:
                found.append(int(session.run(following)))
            except tf.errors.InvalidArgumentError:
                found.append(-1)
            except tf.errors.OutOfRangeError:
                break
    if fails == "function":
        assert found == [4, -1, 4, 4, 6, 4, 6, 6, 6, 6, 6]
    else:
        assert found == [4, -1, 4, -1, 4, -1, 4, -1, -1, 6, 6, 6, 6, 6, 6]


def test_a_dataset_as_a_variant_tensor():
    pairs = D.range(3).map(lambda x: (x, tf.SparseTensor([[0]], [x], [2])))
    spec = E.TensorStructure(tf.int64, []), E.SparseTensorStructure(tf.int64, [2])
    assert E.get_structure(pairs) == spec
    again = E.from_variant(E.to_variant(pairs), spec)
    assert elements(again.map(lambda x, row: (x, row.values[0]))) == [[0, 0], [1, 1], [2, 2]]
