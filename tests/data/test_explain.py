"""The table of ``Dataset.explain()``: each stage with its elements, its time, and how it gives them."""

from __future__ import annotations

import re
import time

import pytest

import anabranch as tf

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


def test_each_stage_has_its_elements_and_its_form():
    dataset = D.range(100).map(lambda x: x * 2).filter(lambda x: x % 3 > 0).batch(8).prefetch(0)
    found = rows(dataset.explain())
    prefetch = found.pop("Prefetch")
    assert prefetch == (9, "no thread: an element takes less than 500 us")
    assert found == {
        "Batch": (9, ""),
        "Filter": (66, "once for many elements"),
        "Map": (100, "once for many elements"),
        "Numbers": (100, "numbers of rows"),
    }


def test_the_stage_that_takes_the_time_is_marked():
    def slow(x):
        time.sleep(0.002)
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
        assert rows(dataset.explain(session, elements=10**9, seconds=0.05))["Repeat"][0] > 10
        assert session.run(element) == 1


def test_what_is_run_alone_says_why():
    found = rows(D.range(9).map(lambda x: tf.fill([x], x)).map(tf.reduce_sum).explain())
    assert found["Map"][1].startswith("element by element: ")
