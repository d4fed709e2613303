"""The table of ``Dataset.explain()``: each stage with its elements, its time, and how it gives them."""

from __future__ import annotations

import re
import time

import pytest

import anabranch as tf
from anabranch.ops.data import buffering

D = tf.data.Dataset


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def rows(text):
    """For each stage its name, elements, and how it gives them."""
    found = {}
    for line in text.splitlines()[2:-1]:
        name, elements, how = re.match(r"[* ] +(\w+) +(\d+) +\S+ +\S+ *(.*)", line).groups()
        found[name] = int(elements), how
    return found


def test_each_stage_has_its_elements_and_its_form(monkeypatch):
    monkeypatch.setattr(buffering, "WORTH_A_THREAD", 10.0)  # else a busy machine's elements are
    dataset = D.range(100).map(lambda x: x * 2).filter(lambda x: x % 3 > 0).batch(8).prefetch(0)
    found = rows(dataset.explain())
    prefetch = found.pop("Prefetch")
    assert prefetch == (9, "no thread: an element takes less than 10000000 us")
    assert found == {
        "Batch": (9, ""),
        "Filter": (66, "once for many elements"),
        "Map": (100, "once for many elements"),
        "Numbers": (100, "numbers of rows"),
    }


def test_the_stage_that_takes_the_time_is_marked():
    def slow(x):
        time.sleep(0.01)
        return x

    dataset = D.range(20).map(lambda x: x + 1).map(lambda x: tf.py_func(slow, [x], tf.int64)).batch(5)
    (marked,) = [line for line in dataset.explain().splitlines()[:-1] if line.startswith("*")]
    assert "element by element: it does more than compute" in marked


def test_it_stops_after_elements_and_seconds_and_leaves_iterators_alone():
    dataset = D.range(10).repeat()
    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert session.run(element) == 0
        assert dataset.explain(elements=7).startswith("7 elements in ")
        assert rows(dataset.explain(session, elements=10**9, seconds=0.5))["Repeat"][0] > 10
        assert session.run(element) == 1


def test_what_is_run_alone_says_why():
    found = rows(D.range(9).map(lambda x: tf.fill([x], x)).map(tf.reduce_sum).explain())
    assert found["Map"][1].startswith("element by element: ")


def values_of(serialized):
    """The numbers of a summary by tag."""
    return {value.tag: value.simple_value for value in tf.Summary.FromString(serialized).value}


def test_a_summary_tells_of_each_stage_since_the_last_one(monkeypatch):
    monkeypatch.setattr(buffering, "WORTH_A_THREAD", float("inf"))
    iterator = D.range(6).map(lambda x: x * 2).repeat().batch(4).prefetch(2).make_initializable_iterator()
    element, stages = iterator.get_next(), iterator.stage_summary("in")
    assert stages in tf.get_collection(tf.GraphKeys.SUMMARIES)
    with tf.Session() as session:
        session.run(iterator.initializer)
        session.run(element)
        assert values_of(session.run(stages)) == {}
        for steps in (3, 6):  # passes of the repeat begin meanwhile
            for _ in range(steps):
                session.run(element)
            values = values_of(session.run(stages))
            assert values["in/PrefetchDataset/elements"] == values["in/BatchDatasetV2/elements"] == steps
            assert values["in/PrefetchDataset/room"] == 2
            assert values["in/PrefetchDataset/ready"] == 0
            assert values["in/RepeatDataset/elements"] == 4 * steps
            assert values["in/MapDataset/elements"] == 4 * steps
            assert values["in/BatchDatasetV2/us_each"] > 0
            assert sum(part for tag, part in values.items() if tag.endswith("part_of_time")) == pytest.approx(1)
        session.run(iterator.initializer)
        session.run(element)
        assert values_of(session.run(stages))["in/BatchDatasetV2/elements"] == 1


def test_a_summary_tells_how_full_a_prefetch_is(monkeypatch):
    monkeypatch.setattr(buffering, "WORTH_A_THREAD", 0.0)
    iterator = D.range(100).map(lambda x: x * 2).prefetch(3).make_initializable_iterator()
    element, stages = iterator.get_next(), iterator.stage_summary("in")
    with tf.Session() as session:
        session.run(iterator.initializer)
        for _ in range(5):
            session.run(element)
        filled = time.monotonic() + 60
        session.run(stages)
        while time.monotonic() < filled:
            session.run(element)
            time.sleep(0.01)
            values = values_of(session.run(stages))
            if values["in/PrefetchDataset/ready"] == values["in/PrefetchDataset/room"] == 3:
                break
        assert values["in/PrefetchDataset/ready"] == 3


def test_the_metadata_of_a_step_lists_the_stages():
    element = D.range(100).filter(lambda x: x % 2 < 1).batch(10).make_one_shot_iterator().get_next()
    options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE)
    with tf.Session() as session:
        for step in range(3):
            metadata = tf.RunMetadata()
            assert session.run(element, options=options, run_metadata=metadata)[0] == 20 * step
            (device,) = metadata.step_stats.dev_stats
            labels = "\n".join(node.timeline_label for node in device.node_stats)
            assert re.search(r"= BatchDatasetV2\(.*: 1 elements, [\d.]+ us", labels)
            assert re.search(r"= FilterDataset\(.*: 10 elements, [\d.]+ us, once for many elements", labels)
            assert re.search(r"= RangeDataset\(.*: (19|20) elements, [\d.]+ us, numbers of rows", labels)
            assert re.search(r"^IteratorGetNext = IteratorGetNext\(", labels, re.MULTILINE)
        assert session.run(element)[0] == 60
