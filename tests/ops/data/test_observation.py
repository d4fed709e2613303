"""Stages that watch a pipeline: statistics, assertions, pauses, samples; further forms of stages, LMDB databases."""

from __future__ import annotations

import time

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.data import function_bodies

D = tf.data.Dataset
E = tf.data.experimental
NUMBER = {"output_types": [tf.int64], "output_shapes": [()]}


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def elements(dataset, session):
    """All elements of a dataset."""
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    session.run(iterator.initializer)
    found = []
    while True:
        try:
            found.append(np.asarray(session.run(element)).tolist())
        except tf.errors.OutOfRangeError:
            return found


# ------------------------------------------------------------------------------------------------------- statistics
def counted(summary):
    """Number and sum of each tag."""
    return {value.tag: (value.histo.num, value.histo.sum) for value in tf.Summary.FromString(summary).value}


def test_an_aggregator_counts_latencies_and_bytes_of_all_its_pipelines():
    aggregator = E.StatsAggregator()
    summary = aggregator.get_summary()
    options = tf.data.Options()
    options.experimental_stats.aggregator = aggregator
    options.experimental_stats.prefix = "own"
    plain = D.range(5).map(lambda x: tf.fill([x], "abc")).apply(E.bytes_produced_stats("bytes"))
    with tf.Session() as session:
        assert counted(session.run(summary)) == {}
        elements(plain.apply(E.latency_stats("latency")).with_options(options), session)
        elements(D.range(4).apply(E.latency_stats("latency")).batch(2).with_options(options), session)
        found = counted(session.run(summary))
        elements(plain, session)  # nobody counts it
        assert counted(session.run(summary)) == found
    assert found["own::bytes"] == (5, 30)  # three bytes for each of ten strings
    assert found["own::latency"][0] == 9
    assert found["own::latency"][1] > 0


def test_a_tag_is_one_text():
    with pytest.raises(ValueError, match="Shape must be rank 0 but is rank 1"):
        D.range(3).apply(E.bytes_produced_stats(["bytes"]))


def test_the_latency_of_each_stage_tells_which_one_holds_the_others_up():
    aggregator = E.StatsAggregator()
    options = tf.data.Options()
    options.experimental_stats.aggregator = aggregator
    options.experimental_stats.latency_all_edges = True

    def slow(x):
        time.sleep(0.02)
        return x

    dataset = D.range(6).map(lambda x: tf.py_func(slow, [x], tf.int64)).batch(2).map(lambda x: x + 1)
    with tf.Session() as session:
        assert elements(dataset.with_options(options), session) == [[1, 2], [3, 4], [5, 6]]
        found = counted(session.run(aggregator.get_summary()))
    means = {tag: total / number for tag, (number, total) in found.items()}
    slowest = max(means, key=means.get)
    assert slowest == "record_latency::MapDataset"
    assert means[slowest] > 20_000
    assert {"record_latency::BatchDatasetV2", "record_latency::MapDataset_1", "record_latency::RangeDataset"} < {*means}


def test_statistics_by_other_op_types():
    for maker in ("StatsAggregatorHandleV2", "ExperimentalStatsAggregatorHandle"):
        handle = build(maker)
        dataset = D.range(3)._stage("ExperimentalBytesProducedStatsDataset", "bytes")
        dataset = dataset._stage("ExperimentalLatencyStatsDataset", "latency")
        dataset = dataset._stage("ExperimentalSetStatsAggregatorDataset", handle, "", "")
        with tf.Session() as session:
            assert elements(dataset, session) == [0, 1, 2]
            found = counted(session.run(build("ExperimentalStatsAggregatorSummary", handle)))
        assert found["bytes"] == (3, 24)
        assert found["latency"][0] == 3


def test_of_many_values_a_sample_is_kept(monkeypatch):
    from anabranch.ops.data.observation import statistics

    monkeypatch.setattr(statistics, "MOST_KEPT", 8)
    aggregator = statistics.StatsAggregator()
    for i in range(100):
        aggregator.add("value", float(i))
    (value,) = tf.Summary.FromString(aggregator.summary()).value
    assert (value.histo.num, value.histo.sum) == (100, 4950)
    assert sum(value.histo.bucket) == pytest.approx(100)
    assert value.histo.max > 80


# ------------------------------------------------------------------------------------------------------- assertions
def test_a_number_of_elements_that_is_asserted():
    with tf.Session() as session:
        odd = D.range(9).filter(lambda x: tf.equal(x % 2, 1))
        assert elements(odd.apply(E.assert_cardinality(4)), session) == [1, 3, 5, 7]
        assert session.run(E.cardinality(odd.apply(E.assert_cardinality(4)))) == 4
        for number, text in (
            (5, "5 elements but contained only 4 elements"),
            (1, "1 element but contained at least 2"),
        ):
            with pytest.raises(tf.errors.FailedPreconditionError, match=text):
                elements(odd.apply(E.assert_cardinality(number)), session)


def test_stages_that_leave_elements_as_they_are():
    with tf.Session() as session:
        for kind in ("AssertNextDataset", "ExperimentalAssertNextDataset", "AssertPrevDataset"):
            assert elements(D.range(3)._stage(kind, np.array([b"Map"], object)), session) == [0, 1, 2]
        assert elements(D.range(3)._stage("FinalizeDataset"), session) == [0, 1, 2]
        assert elements(D.range(3)._stage("RewriteDataset", "name"), session) == [0, 1, 2]
        for kind in ("ChooseFastestDataset", "ExperimentalChooseFastestDataset"):
            variant = build(kind, [D.range(3)._variant_tensor] * 2, num_experiments=1, **NUMBER)
            assert elements(E.from_variant(variant, D.range(3).element_spec), session) == [0, 1, 2]
        for kind in ("WrapDatasetVariant", "UnwrapDatasetVariant"):
            variant = build(kind, D.range(3)._variant_tensor)
            assert elements(E.from_variant(variant, D.range(3).element_spec), session) == [0, 1, 2]


@pytest.mark.parametrize("kind", ["NonSerializableDataset", "ExperimentalNonSerializableDataset"])
def test_a_place_that_is_not_saved(kind):
    iterator = D.range(5).map(lambda x: x + 1)._stage(kind).batch(2).make_initializable_iterator()
    element = iterator.get_next()
    saved = build("SerializeIterator", iterator._iterator_resource)
    with tf.Session() as session:
        session.run(iterator.initializer)
        assert session.run(element).tolist() == [1, 2]
        with pytest.raises(tf.errors.UnimplementedError, match="without this stage"):
            session.run(saved.op)


@pytest.mark.parametrize("kind", ["SleepDataset", "ExperimentalSleepDataset"])
def test_a_pause_before_each_element(kind):
    with tf.Session() as session:
        started = time.perf_counter()
        assert elements(D.range(3)._stage(kind, np.int64(20_000)), session) == [0, 1, 2]
        assert time.perf_counter() - started > 0.06
        iterator = D.range(3)._stage(kind, np.int64(60_000_000)).make_initializable_iterator()
        element = iterator.get_next()
        session.run(iterator.initializer)
        with pytest.raises(tf.errors.DeadlineExceededError, match="Timed out"):
            session.run(element, options=tf.RunOptions(timeout_in_ms=50))


def test_a_sample_is_tensorflows_for_the_seeds():
    sample = D.range(20)._stage("SamplingDataset", np.float32(0.5), np.int64(3), np.int64(4))
    with tf.Session() as session:
        assert elements(sample, session) == [1, 6, 8, 9, 10, 13, 15, 16, 17]  # TensorFlow 1.15.5


# ------------------------------------------------------------------------------------------------------ further forms
def test_elements_in_a_list_of_tensors():
    attrs = {"output_types": [tf.int64, tf.string], "output_shapes": [(), ()]}
    pairs = D.from_tensors((np.int64(1), "a"))
    variant = build("ListDataset", [np.int64(1), "a", np.int64(2), "b"], **attrs)
    listed = E.from_variant(variant, pairs.element_spec)
    with tf.Session() as session:
        assert elements(listed.map(lambda n, s: tf.strings.join([tf.as_string(n), s])), session) == [b"1a", b"2b"]
        odd = E.from_variant(build("ListDataset", [np.int64(1)], **attrs), pairs.element_spec)
        with pytest.raises(tf.errors.InvalidArgumentError, match="do not make elements"):
            elements(odd.map(lambda n, s: n), session)


def _calling(kind, dataset, function, *operands, attr="f"):
    traced = function_bodies.trace(function, dataset._spec, kind)
    stage = build(kind, dataset._variant_tensor, [], *operands, **{attr: traced.body}, **NUMBER)
    function_bodies.own(stage.op)
    return E.from_variant(stage, D.range(1).element_spec)


def test_functions_under_other_op_types():
    two = np.int64(2)
    with tf.Session() as session:
        assert elements(_calling("ExperimentalMapDataset", D.range(3), lambda x: x * 2), session) == [0, 2, 4]
        kept = _calling("ParallelFilterDataset", D.range(5), lambda x: x > 2, two, attr="predicate")
        assert elements(kept, session) == [3, 4]
        for kind, operands in (
            ("ParallelInterleaveDatasetV3", (two, two, two)),
            ("ParallelInterleaveDatasetV4", (two, two, two, two, two)),
        ):
            mixed = _calling(kind, D.range(3), lambda x: D.from_tensors(x).repeat(3), *operands)
            assert elements(mixed, session) == [0, 0, 1, 1, 0, 1, 2, 2, 2]
        batches = {"output_types": [tf.int64], "output_shapes": [(None,)]}
        variant = build("ParallelBatchDataset", D.range(3)._variant_tensor, two, two, np.array(False), **batches)
        assert elements(E.from_variant(variant, D.range(3).batch(2).element_spec), session) == [[0, 1], [2]]


def test_lmdb_databases(tmp_path):
    lmdb = pytest.importorskip("lmdb")
    names = []
    for part in ("one", "two"):
        names.append(str(tmp_path / part))
        environment = lmdb.open(names[-1])
        with environment.begin(write=True) as transaction:
            for i in range(2):
                transaction.put(f"{part}{i}".encode(), b"value")
        environment.close()
    dataset = tf.contrib.data.LMDBDataset(names)
    wanted = [[b"one0", b"value"], [b"one1", b"value"], [b"two0", b"value"], [b"two1", b"value"]]
    with tf.Session() as session:
        assert elements(dataset, session) == wanted
        lost = tf.contrib.data.LMDBDataset([str(tmp_path / "none"), names[0]])
        assert elements(lost.apply(E.ignore_errors()), session) == wanted[:2]
        with pytest.raises(tf.errors.NotFoundError, match="none"):
            elements(lost, session)
        attrs = {"output_types": [tf.string, tf.string], "output_shapes": [(), ()]}
        other = build("ExperimentalLMDBDataset", np.array([names[1].encode()], object), **attrs)
        assert elements(E.from_variant(other, dataset.element_spec), session) == wanted[2:]
