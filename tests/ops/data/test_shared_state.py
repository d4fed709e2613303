"""Resources that iterators share, iterators without a name or of several devices, and pipelines that workers share."""

from __future__ import annotations

import threading

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build

D = tf.data.Dataset
NUMBER = {"output_types": [tf.int64], "output_shapes": [()]}


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def elements(dataset, session, iterator=None):
    """All elements of a dataset; of one iterator that is given, each time that it is made."""
    iterator = iterator or dataset.make_initializable_iterator()
    element = iterator.get_next()
    session.run(iterator.initializer)
    found = []
    while True:
        try:
            found.append(np.asarray(session.run(element)).tolist())
        except tf.errors.OutOfRangeError:
            return found


# --------------------------------------------------------------------------------------------------- without a name
@pytest.mark.parametrize("kind", ["AnonymousIterator", "AnonymousIteratorV2", "AnonymousIteratorV3"])
def test_an_iterator_without_a_name_is_another_one_in_each_run(kind):
    handle, *_ = _listed(build(kind, **NUMBER))
    with tf.control_dependencies([build("MakeIterator", D.range(5)._variant_tensor, handle)]):
        (first,) = build("IteratorGetNext", handle, **NUMBER)
    with tf.control_dependencies([first]):
        (second,) = build("IteratorGetNext", handle, **NUMBER)
    with tf.Session() as session:
        assert [session.run([first, second]) for _ in range(2)] == [[0, 1], [0, 1]]


def _listed(outputs):
    return [outputs] if isinstance(outputs, tf.Tensor) else list(outputs)


def test_an_iterator_is_deleted():
    handle, deleter = build("AnonymousIteratorV2", **NUMBER)
    with tf.control_dependencies([build("MakeIterator", D.range(5)._variant_tensor, handle)]):
        gone = build("DeleteIterator", handle, deleter)
    with tf.control_dependencies([gone]):
        (element,) = build("IteratorGetNext", handle, **NUMBER)
    with tf.Session() as session, pytest.raises(tf.errors.NotFoundError, match="does not exist"):
        session.run(element)


@pytest.mark.parametrize("kind", ["IteratorGetDevice", "ExperimentalIteratorGetDevice"])
def test_the_device_of_an_iterator(kind):
    iterator = D.range(3).make_initializable_iterator()
    with tf.Session() as session:
        assert session.run(build(kind, iterator._iterator_resource)) == b"/job:localhost/replica:0/task:0"


# --------------------------------------------------------------------------------------------------- caches, seeds
def _counted(calls):
    def count(x):
        calls.append(int(x))
        return x

    return D.range(4).map(lambda x: tf.py_func(count, [x], tf.int64))


@pytest.mark.parametrize(("kind", "passes"), [("DummyMemoryCache", 2), ("variable", 1)])
def test_a_cache_that_iterators_share(kind, passes):
    calls = []
    with tf.Session() as session:
        if kind == "variable":
            handle, deleter = build("AnonymousMemoryCache")
            kept = session.run(handle)
            handle = tf.placeholder(tf.resource, [])
            feed = {handle: kept}
        else:
            handle, feed = build(kind), {}
        dataset = _counted(calls)._stage("CacheDatasetV2", "", handle)
        found = []
        for _ in range(2):
            iterator = dataset.batch(9).make_initializable_iterator()
            element = iterator.get_next()
            session.run(iterator.initializer, feed)
            found.append(session.run(element).tolist())
            with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
                session.run(element)  # a pass has come to its end: what is kept is complete
        if kind == "variable":
            session.run(build("DeleteMemoryCache", handle, tf.placeholder_with_default(deleter, [])), feed)
    assert found == [[0, 1, 2, 3]] * 2
    assert len(calls) == 4 * passes


def same_number(x):
    """Between a shuffle and its repetition, it keeps both stages apart."""
    return x


def test_shuffles_by_a_generator_of_seeds():
    size, seeds = np.int64(4), (np.int64(3), np.int64(5))
    plain = D.range(9)._stage("ShuffleDataset", size, *seeds, reshuffle_each_iteration=True).map(same_number).repeat(2)
    none = build("DummySeedGenerator")
    by_none = (
        D.range(9)
        ._stage("ShuffleDatasetV3", size, *seeds, none, reshuffle_each_iteration=True)
        .map(same_number)
        .repeat(2)
    )
    random, _ = build("AnonymousRandomSeedGenerator", *seeds)
    fixed, _ = build("AnonymousSeedGenerator", *seeds, np.array(False))
    with tf.Session() as session:
        wanted = elements(plain, session)
        assert elements(by_none, session) == wanted
        by_generator = D.range(9)._stage("ShuffleDatasetV2", size, random).map(same_number).repeat(2)
        assert elements(by_generator, session) == wanted
        same = elements(D.range(9)._stage("ShuffleDatasetV3", size, *seeds, fixed).map(same_number).repeat(2), session)
        assert same[:9] == same[9:] != wanted[:9]
        operands = size, *seeds, np.int64(2), none
        both = D.range(9)._stage("ShuffleAndRepeatDatasetV2", *operands)
        assert elements(both, session) == elements(
            D.range(9)._stage("ShuffleAndRepeatDataset", *operands[:-1]), session
        )


def test_random_words_that_differ_from_pass_to_pass():
    none = build("DummySeedGenerator")
    words = build("RandomDatasetV2", np.int64(1), np.int64(2), none, rerandomize_each_iteration=True, **NUMBER)
    same = build("RandomDatasetV2", np.int64(1), np.int64(2), none, **NUMBER)
    plain = tf.data.experimental.RandomDataset(1)
    with tf.Session() as session:
        first, second = (
            elements(tf.data.experimental.from_variant(variant, plain.element_spec).take(3).repeat(2), session)
            for variant in (words, same)
        )
    assert first[:3] != first[3:]
    assert second[:3] == second[3:]


@pytest.mark.parametrize("kind", ["DeleteRandomSeedGenerator", "DeleteSeedGenerator"])
def test_a_generator_of_seeds_is_deleted(kind):
    handle, deleter = build("AnonymousRandomSeedGenerator", np.int64(1), np.int64(2))
    gone = build(kind, handle, deleter)
    with tf.control_dependencies([gone]):
        dataset = build("ShuffleDatasetV2", D.range(3)._variant_tensor, np.int64(2), handle, **NUMBER)
        count = build("DatasetCardinality", dataset)
    with tf.Session() as session, pytest.raises(tf.errors.NotFoundError, match="does not exist"):
        session.run(count)


# ----------------------------------------------------------------------------------------------------- threads
@pytest.mark.parametrize("kind", ["ThreadPoolHandle", "ExperimentalThreadPoolHandle"])
@pytest.mark.parametrize("stage", ["ThreadPoolDataset", "ExperimentalThreadPoolDataset"])
def test_a_pool_limits_the_threads_of_stages(kind, stage):
    pool = build(kind, num_threads=1, display_name="one")
    dataset = D.range(60).map(
        lambda x: tf.reduce_sum(tf.matmul(tf.fill([200, 200], x), tf.ones([200, 200], tf.int64))), 4
    )
    with tf.Session() as session:
        before = {thread.name for thread in threading.enumerate()}
        assert elements(dataset._stage(stage, pool), session)[:2] == [0, 200**3]
        names = {thread.name for thread in threading.enumerate()} - before
    assert not any("parallel call" in name for name in names)


def test_stages_that_only_say_how_to_run():
    with tf.Session() as session:
        for kind in ("ExperimentalPrivateThreadPoolDataset", "ExperimentalMaxIntraOpParallelismDataset"):
            assert elements(D.range(3)._stage(kind, np.int64(1)), session) == [0, 1, 2]


# ------------------------------------------------------------------------------------------------ several devices
def _of_two_devices(kind="MultiDeviceIterator", **attrs):
    handle = build(kind, devices=["/cpu:0", "/cpu:1"], **attrs, **NUMBER)
    return handle if isinstance(handle, tf.Tensor) else handle[0]


def test_elements_go_to_devices_in_turn():
    handle = _of_two_devices(shared_name="", container="")
    begin = build("MultiDeviceIteratorInit", D.range(5)._variant_tensor, handle, np.int64(1))
    named = build("MultiDeviceIteratorFromStringHandle", build("MultiDeviceIteratorToStringHandle", handle))
    number = tf.placeholder(tf.int64, [])
    (first,) = build("MultiDeviceIteratorGetNextFromShard", handle, np.int32(0), number, **NUMBER)
    (second,) = build("MultiDeviceIteratorGetNextFromShard", named, np.int32(1), number, **NUMBER)
    (third,) = build("MultiDeviceIteratorGetNextFromShard", named, np.int32(2), number, **NUMBER)
    with tf.Session() as session:
        feed = {number: session.run(begin)}
        assert session.run(second, feed) == 1
        assert session.run(first, feed) == 0
        assert session.run([first, second], feed) == [2, 3]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Shard number 2"):
            session.run(third, feed)
        assert session.run(first, feed) == 4
        for element in (first, second):
            with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
                session.run(element, feed)
        session.run(begin)
        with pytest.raises(tf.errors.InvalidArgumentError, match="incarnation 1"):
            session.run(first, feed)


def test_a_device_that_runs_ahead_waits_for_the_others():
    handle = _of_two_devices(shared_name="", container="")
    begin = build("MultiDeviceIteratorInit", D.range(9)._variant_tensor, handle, np.int64(1))
    number = tf.placeholder(tf.int64, [])
    (first,) = build("MultiDeviceIteratorGetNextFromShard", handle, np.int32(0), number, **NUMBER)
    (second,) = build("MultiDeviceIteratorGetNextFromShard", handle, np.int32(1), number, **NUMBER)
    with tf.Session() as session:
        feed = {number: session.run(begin)}
        assert [session.run(first, feed) for _ in range(2)] == [0, 2]
        with pytest.raises(tf.errors.DeadlineExceededError, match="Timed out"):
            session.run(first, feed, options=tf.RunOptions(timeout_in_ms=100))
        assert session.run(second, feed) == 1
        assert session.run(first, feed) == 4


@pytest.mark.parametrize("kind", ["AnonymousMultiDeviceIterator", "AnonymousMultiDeviceIteratorV3"])
def test_an_iterator_of_several_devices_without_a_name(kind):
    outputs = _listed(build(kind, devices=["/cpu:0"], **NUMBER))
    number = build("MultiDeviceIteratorInit", D.range(5)._variant_tensor, outputs[0], np.int64(1))
    (element,) = build("MultiDeviceIteratorGetNextFromShard", outputs[0], np.int32(0), number, **NUMBER)
    with tf.Session() as session:
        assert session.run(element) == 0
        if len(outputs) > 1:
            with tf.control_dependencies([element]):
                session.run(build("DeleteMultiDeviceIterator", outputs[0], [], outputs[1]))


# ------------------------------------------------------------------------------------------------------- sharding
@pytest.fixture
def files(tmp_path):
    names = []
    for i in range(5):
        names.append(str(tmp_path / f"{i}.txt"))
        (tmp_path / f"{i}.txt").write_text("".join(f"{i}{j}\n" for j in range(3)))
    return names


def _numbers(lines):
    return lines.map(lambda line: tf.strings.to_number(line, tf.int64))


@pytest.mark.parametrize("kind", ["AutoShardDataset", "ExperimentalAutoShardDataset"])
@pytest.mark.parametrize(
    "make",
    [
        lambda names: tf.data.TextLineDataset(names),
        lambda names: D.from_tensor_slices(names).flat_map(tf.data.TextLineDataset).prefetch(2),
        lambda names: D.from_tensor_slices(names).shuffle(5).interleave(tf.data.TextLineDataset, 2).repeat(1),
    ],
)
def test_workers_share_files(files, make, kind):
    with tf.Session() as session:
        parts = [
            elements(_numbers(make(files))._stage(kind, np.int64(2), np.int64(index)), session) for index in range(2)
        ]
    wanted = [[10 * i + j for i in range(first, 5, 2) for j in range(3)] for first in range(2)]
    assert [sorted(part) for part in parts] == wanted


def test_workers_share_elements_where_there_are_no_files_or_too_few(files):
    with tf.Session() as session:
        numbers = D.range(5)._stage("AutoShardDataset", np.int64(2), np.int64(1))
        assert elements(numbers, session) == [1, 3]
        few = _numbers(tf.data.TextLineDataset(files[:2]))._stage("AutoShardDataset", np.int64(3), np.int64(0))
        assert elements(few, session) == [0, 10]
        off = D.range(3)._stage("AutoShardDataset", np.int64(2), np.int64(1), auto_shard_policy=-1)
        assert elements(off, session) == [0, 1, 2]
        for policy, index, kind, match in (
            (1, 0, tf.errors.InvalidArgumentError, "Could not apply FILE based sharding"),
            (3, 0, tf.errors.UnimplementedError, "OFF, AUTO, FILE or DATA"),
            (0, 2, tf.errors.InvalidArgumentError, "index must be"),
        ):
            dataset = D.range(5)._stage("AutoShardDataset", np.int64(2), np.int64(index), auto_shard_policy=policy)
            with pytest.raises(kind, match=match):
                elements(dataset, session)


@pytest.mark.parametrize("kind", ["RebatchDataset", "ExperimentalRebatchDataset"])
def test_replicas_take_parts_of_batches(kind):
    with tf.Session() as session:
        halves = elements(D.range(9).batch(4)._stage(kind, np.int64(2)), session)
        assert halves == [[0, 1], [2, 3], [4, 5], [6, 7], [8]]
        whole = D.range(9).batch(4, drop_remainder=True)._stage(kind, np.int64(3))
        assert elements(whole, session) == [[0, 1], [2, 3], [4, 5], [6, 7]]
        sizes = np.array([1, 3])
        in_turn = D.range(7).batch(4)._stage("RebatchDatasetV2", sizes, np.array(False))
        assert elements(in_turn, session) == [[0], [1, 2, 3], [4], [5, 6]]
        dropped = D.range(7).batch(4)._stage("RebatchDatasetV2", sizes, np.array(True))
        assert elements(dropped, session) == [[0], [1, 2, 3], [4]]
        with pytest.raises(tf.errors.InvalidArgumentError, match="positive"):
            elements(D.range(7).batch(4)._stage("RebatchDatasetV2", np.array([0]), np.array(True)), session)
