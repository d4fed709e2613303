"""Stages by their op types: forms that the public interface does not make, operands that are refused, places saved."""

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
from anabranch.data import function_bodies
from anabranch.ops.data.iterators import IteratorResource
from anabranch.ops.data.random_words import RandomWords

D = tf.data.Dataset
NUMBER = {"output_types": [tf.int64], "output_shapes": [()]}
NUMBERS = {"output_types": [tf.int64], "output_shapes": [(None,)]}


def variant(dataset):
    return dataset._variant_tensor


def elements(tensor, attrs=NUMBER):
    """All elements of a variant tensor's dataset, each its first component."""
    iterator = build("IteratorV2", shared_name="", container="", **attrs)
    begin = build("MakeIterator", tensor, iterator)
    (element, *_) = build("IteratorGetNextSync", iterator, **attrs)
    with tf.Session() as session:
        session.run(begin)
        found = []
        while True:
            try:
                found.append(np.asarray(session.run(element)).tolist())
            except tf.errors.OutOfRangeError:
                return found


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


# ------------------------------------------------------------------------------------------------------ other op types
def test_batches_of_the_first_kind():
    assert elements(build("BatchDataset", variant(D.range(5)), 2, **NUMBERS), NUMBERS) == [[0, 1], [2, 3], [4]]


def test_padded_batches_of_the_first_kind():
    rows = D.range(3).map(lambda n: tf.fill([n], n))
    attrs = {"Toutput_types": [tf.int64], "output_shapes": [(None, None)]}
    batch = build("PaddedBatchDataset", variant(rows), 3, [np.array([-1])], [np.int64(7)], **attrs)
    shapes = {"output_types": [tf.int64], "output_shapes": [(None, None)]}
    assert elements(batch, shapes) == [[[7, 7], [1, 7], [2, 2]]]


def test_a_parallel_map_of_the_second_kind():
    numbers = D.range(4)
    traced = function_bodies.trace(lambda x: x * x, numbers._spec, "Dataset.map()")
    stage = build("ParallelMapDatasetV2", variant(numbers), [], np.int64(2), f=traced.body, **NUMBER)
    function_bodies.own(stage.op)
    assert elements(stage) == [0, 1, 4, 9]


def test_elements_are_filtered_by_their_last_component():
    pairs = D.range(6).map(lambda x: (x, x % 2 > 0))
    assert elements(build("FilterByLastComponentDataset", variant(pairs), **NUMBER)) == [1, 3, 5]


def test_stages_that_only_say_how_to_run():
    tensor = variant(D.range(3).shuffle(3, seed=1).repeat(2))
    named = np.array([b"shuffle_and_repeat_fusion"], object)
    none = np.zeros(0, object)
    rewritten = build("OptimizeDatasetV2", tensor, named, none, none, **NUMBER)
    plain = build("OptimizeDatasetV2", tensor, named, named, none, **NUMBER)
    told = build("OptionsDataset", tensor, serialized_options="", **NUMBER)
    assert elements(told) == elements(plain) == elements(tensor)
    assert elements(rewritten) == elements(build("OptimizeDataset", tensor, named, **NUMBER)) != elements(plain)


def test_iterators_of_the_first_kind():
    iterator = build("Iterator", shared_name="", container="", **NUMBER)
    begin = build("MakeIterator", variant(D.range(2)), iterator)
    again = build("IteratorFromStringHandle", build("IteratorToStringHandle", iterator))
    element = build("IteratorGetNext", again, **NUMBER)
    optional = build("IteratorGetNextAsOptional", iterator, **NUMBER)
    there = build("OptionalHasValue", optional)
    with tf.Session() as session:
        session.run(begin)
        assert session.run(element) == [0]
        assert [bool(session.run(there)) for _ in range(3)] == [True, False, False]


# ------------------------------------------------------------------------------------------------- what is refused
@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: D.range(0, 3, 0), "step must be a non-zero integer"),
        (lambda: D.range(3).shuffle(0), "buffer_size must be greater than zero"),
        (lambda: D.range(3).batch(0), "batch_size must be greater than zero"),
        (lambda: D.range(3).prefetch(-2), "buffer_size must be >= 0"),
        (
            lambda: D.range(3).shard(tf.constant(0, tf.int64) + 2, tf.placeholder_with_default(np.int64(5), [])),
            "between 0 and 1",
        ),
        (lambda: D.range(3).map(lambda x: x, num_parallel_calls=0), "num_parallel_calls must be greater than zero"),
        (lambda: D.from_tensor_slices((tf.placeholder_with_default([1], [None]), [1, 2])), "same size in the 0th"),
        (lambda: D.range(3).map(lambda x: tf.fill([x], x)).batch(2), "Cannot batch tensors with different shapes"),
        (lambda: D.range(3).map(lambda x: tf.fill([x], x)).padded_batch(3, [1]), "pad to a smaller size"),
        (
            lambda: D.range(3).filter(lambda x: tf.py_func(lambda v: np.array([True]), [x], tf.bool)),
            "must return a scalar bool",
        ),
    ],
)
def test_what_cannot_be_is_refused_when_it_runs(make, text):
    iterator = make().make_initializable_iterator()
    element = iterator.get_next()

    def run(session):
        session.run(iterator.initializer)
        for _ in range(10):
            session.run(element)

    with tf.Session() as session, pytest.raises((tf.errors.InvalidArgumentError, tf.errors.DataLossError), match=text):
        run(session)


def test_a_dataset_of_other_elements_is_refused_by_an_iterator():
    iterator = build("IteratorV2", shared_name="", container="", **NUMBERS)
    begin = build("MakeIterator", variant(D.range(3)), iterator)
    with (
        tf.Session() as session,
        pytest.raises(tf.errors.InvalidArgumentError, match="Incompatible shapes at component 0"),
    ):
        session.run(begin)


# ---------------------------------------------------------------------------------------------- against plain Python
def source(size, kind):
    """Numbers as rows of a table, and as elements of a stage that has none."""
    if kind == "range":
        return D.range(size)
    if kind == "rows":
        return D.from_tensor_slices(np.arange(size))
    return D.range(size).filter(lambda x: x >= 0)


@st.composite
def pipelines(draw):
    """A source and some selections, each a name and a number."""
    stages = st.tuples(
        st.sampled_from(["repeat", "take", "skip", "shard", "batch_unbatch", "prefetch"]), st.integers(0, 4)
    )
    kind = draw(st.sampled_from(["range", "rows", "elements"]))
    return draw(st.integers(0, 7)), kind, draw(st.lists(stages, max_size=5)), draw(st.integers(1, 5))


def modelled(values, stages):
    """What the stages leave of a list."""
    for name, number in stages:
        if name == "repeat":
            values = values * number
        elif name == "take":
            values = values[:number]
        elif name == "skip":
            values = values[number:]
        elif name == "shard":
            values = values[number % 2 :: 2]
    return values


def built(dataset, stages):
    for name, number in stages:
        if name == "repeat":
            dataset = dataset.repeat(number)
        elif name == "take":
            dataset = dataset.take(number)
        elif name == "skip":
            dataset = dataset.skip(number)
        elif name == "shard":
            dataset = dataset.shard(2, number % 2)
        elif name == "batch_unbatch":
            dataset = dataset.batch(number + 1).unbatch()
        else:
            dataset = dataset.prefetch(number)
    return dataset


@settings(max_examples=40, deadline=None)
@given(pipelines())
def test_selections_are_those_of_lists(pipeline):
    size, kind, stages, batch = pipeline
    with tf.Graph().as_default():
        wanted = modelled(list(range(size)), stages)
        dataset = built(source(size, kind), stages)
        assert elements(variant(dataset)) == wanted
        batches = [wanted[i : i + batch] for i in range(0, len(wanted), batch)]
        assert elements(variant(dataset.batch(batch)), NUMBERS) == batches


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 20), st.integers(1, 25), st.integers(1, 3), st.booleans(), st.integers(0, 2**63 - 1))
def test_a_shuffle_gives_each_element_once_in_a_pass(size, buffer, passes, rows, seed):
    with tf.Graph().as_default():
        dataset = source(size, "rows" if rows else "elements").shuffle(buffer, seed=seed)
        once = elements(variant(dataset))
        assert sorted(once) == list(range(size))
        assert all(value <= place + buffer for place, value in enumerate(once))
        again = elements(variant(dataset.repeat(passes)))
        assert all(sorted(again[i * size : (i + 1) * size]) == list(range(size)) for i in range(passes))
        assert again[:size] == once


@pytest.mark.parametrize("buffer", [1, 2, 5, 8, 100])
def test_a_shuffle_of_rows_is_that_of_elements(buffer):
    rows, others = (
        elements(
            variant(source(8, kind).apply(tf.data.experimental.shuffle_and_repeat(buffer, 3, seed=11)).batch(3)),
            NUMBERS,
        )
        for kind in ("rows", "elements")
    )
    assert rows == others


def test_random_words_go_to_any_place():
    words = RandomWords(5, 2**33 + 1).take(200).tolist()
    for place in (0, 1, 2, 5, 63, 64, 130):
        stream = RandomWords(5, 2**33 + 1)
        stream.go_to(place)
        assert stream.drawn == place
        assert stream.take(9).tolist() == words[place : place + 9]


# -------------------------------------------------------------------------------------------------------- saved places
PIPELINES = {
    "rows": lambda: D.from_tensor_slices(np.arange(9)).shuffle(4, seed=1).repeat(3).shard(2, 1).skip(1),
    "batches": lambda: D.range(11).shuffle(5, seed=3).batch(3).repeat(2),
    "functions": lambda: D.range(9).map(lambda x: x * 2).filter(lambda x: x % 3 > 0).shuffle(3, seed=2).repeat(2),
    "flat": lambda: D.range(4).flat_map(lambda n: D.range(n + 1).shuffle(3, seed=5)).repeat(2),
    "interleaved": lambda: D.range(5).interleave(lambda n: D.range(n), 3, 2).concatenate(D.range(3)),
    "cached": lambda: D.range(4).map(lambda x: x + 1).cache().repeat(3).prefetch(2),
    "zipped": lambda: D.zip((D.range(5), D.range(9).take(7))),
    "unbatched": lambda: D.range(7).batch(3).unbatch().repeat(2),
}


@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_an_iterator_goes_on_from_a_saved_place(name):
    iterator = PIPELINES[name]().make_initializable_iterator()
    element = iterator.get_next()
    first = element[0] if isinstance(element, tuple) else element

    def rest(session):
        found = []
        while True:
            try:
                found.append(np.asarray(session.run(first)).tolist())
            except tf.errors.OutOfRangeError:
                return found

    with tf.Session() as session:
        session.run(iterator.initializer)
        whole = rest(session)
        (resource,) = [item for item in session._worker.manager._objects.values() if isinstance(item, IteratorResource)]
        for place in random.Random(0).sample(range(len(whole)), min(6, len(whole))):
            session.run(iterator.initializer)
            for _ in range(place):
                session.run(first)
            context = kernels.HostContext(first.op)
            context.cancellation = token = CancellationToken()
            token.ended = True
            state = resource.save(context)
            assert rest(session) == whole[place:]
            session.run(iterator.initializer)
            session.run(first)
            resource.restore(context, state)
            assert rest(session) == whole[place:]
