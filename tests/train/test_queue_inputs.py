"""Queues of inputs: what they give and how their graphs look is TensorFlow's; what they refuse; how they end.

`tests/golden/queue_inputs.json` was made by TensorFlow 1.15.5 (`tools/golden/input/queue_inputs.py`).
"""

from __future__ import annotations

import gc
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from golden.input import queue_input_cases

import anabranch as tf
from anabranch.ops.sparse.tensor_maps import SparseTensorsMap

GOLDEN = json.loads((Path(__file__).parents[1] / "golden/queue_inputs.json").read_text(encoding="utf-8"))


@pytest.fixture(autouse=True)
def graph() -> Iterator[None]:
    with tf.Graph().as_default():
        yield


@pytest.mark.parametrize("case", queue_input_cases.CASES)
def test_results_nodes_and_seeds_are_tensorflows(case: str, tmp_path: Path) -> None:
    given = queue_input_cases.run(tf, case, str(tmp_path))
    assert given["steps"] == GOLDEN[case]["steps"]
    assert given["nodes"] == GOLDEN[case]["nodes"]


def drained(fetches: Any) -> list[Any]:
    """What a graph gives until its queues are empty, all threads having ended before the first step."""
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for thread in tf.train.start_queue_runners(session):
            thread.join()
        steps = []
        try:
            while True:
                steps.append(session.run(fetches))
        except tf.errors.OutOfRangeError:
            return steps


def numbers(limit: int) -> tf.Tensor:
    """The integers below a limit, one in each step."""
    return tf.train.range_input_producer(limit, num_epochs=1, shuffle=False).dequeue()


# -------------------------------------------------------------------------------------------------- conditional forms
@pytest.mark.parametrize(
    ("form", "more"),
    [
        (tf.train.maybe_batch, {}),
        (tf.train.maybe_batch_join, {}),
        (tf.train.maybe_shuffle_batch, {"min_after_dequeue": 0}),
        (tf.train.maybe_shuffle_batch_join, {"min_after_dequeue": 0}),
    ],
)
def test_only_what_is_kept_comes_into_a_batch(form: Any, more: dict[str, Any]) -> None:
    x = numbers(10)
    tensors = [x, tf.cast(x, tf.float32) / 2]
    given = [tensors] if form.__name__.endswith("join") else tensors
    batch = form(given, keep_input=x % 3 > 0, batch_size=2, capacity=50, **more)
    pairs = [pair for step in drained(batch) for pair in zip(*step, strict=True)]
    assert sorted(pairs) == [(i, i / 2) for i in (1, 2, 4, 5, 7, 8)]


@pytest.mark.parametrize("many", [False, True])
def test_sparse_tensors_that_are_kept_by_a_scalar(many: bool) -> None:
    n = tf.cast(numbers(6), tf.int64)
    row = tf.SparseTensor(tf.stack([[n]]), tf.stack([n]), [6])
    if many:
        row = tf.SparseTensor(tf.stack([[0, n], [1, n]]), tf.stack([n, -n]), [2, 6])
    batch = tf.train.maybe_batch([row], n % 2 > 0, 2, capacity=50, enqueue_many=many, allow_smaller_final_batch=True)
    steps = drained(batch)
    values = [value for step in steps for value in step.values.tolist()]
    assert values == ([1, -1, 3, -3, 5, -5] if many else [1, 3, 5])
    assert all(step.indices[:, 1].tolist() == np.abs(step.values).tolist() for step in steps)


def test_sparse_tensors_of_several_threads_and_nothing_stays_in_the_map() -> None:
    n = tf.cast(numbers(8), tf.int64)
    sets = [[tf.SparseTensor(tf.stack([[n]]), tf.stack([n * k]), [8]), n] for k in (1, 100)]
    sparse, dense = tf.train.batch_join(sets, 2, capacity=50)
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for thread in tf.train.start_queue_runners(session):
            thread.join()
        session.run(dense)
        session.run(sparse)
        session.run(dense.op)
        objects = session._worker.manager._objects.values()
        (held,) = [item for item in objects if isinstance(item, SparseTensorsMap)]
        assert len(held) == 2, "whichever part of a batch is fetched, all sparse parts of it are taken out"


# ------------------------------------------------------------------------------------------------------------- refused
X = np.arange(6, dtype=np.float32)
REFUSED: list[tuple[Any, type[Exception], str]] = [
    (lambda: tf.train.string_input_producer([]), ValueError, "requires a non-null input tensor"),
    (lambda: tf.train.slice_input_producer([]), ValueError, "Expected at least one tensor in slice_input_producer"),
    (lambda: tf.train.limit_epochs(X, 0), ValueError, "num_epochs must be > 0 not 0"),
    (lambda: tf.train.input_producer(tf.placeholder(tf.int32)), ValueError, "Either `input_tensor` must have a fully"),
    (lambda: tf.train.batch([], 2), ValueError, r"Expected at least one tensor in batch\(\)"),
    (lambda: tf.train.batch_join([], 2), ValueError, "Expected at least one set of tensors"),
    (lambda: tf.train.batch_join([{"a": X}, {"b": X}], 2), ValueError, "must have the same keys"),
    (lambda: tf.train.batch_join([[X], [X, X]], 2), ValueError, "a set of 2 tensors"),
    (lambda: tf.train.batch_join([[X], [X > 0]], 2), TypeError, "Expected types to be consistent: float32 vs. bool"),
    (lambda: tf.train.batch([tf.placeholder(tf.int32)], 2), ValueError, "Cannot infer Tensor's rank"),
    (lambda: tf.train.batch([tf.placeholder(tf.int32, [None])], 2), ValueError, "must be fully defined"),
    (lambda: tf.train.shuffle_batch([X], 2, 10, 10), ValueError, "capacity 10 must be bigger than min_after_dequeue"),
    (lambda: tf.train.maybe_batch([X], [True], 2), ValueError, "cannot be a vector when `enqueue_many=False`"),
    (lambda: tf.train.maybe_batch([X], [[True]], 2, enqueue_many=True), ValueError, "must be 0 or 1 dimensions"),
    (lambda: tf.train.maybe_batch([X], tf.placeholder(tf.bool), 2), ValueError, "must be known at graph construction"),
    (
        lambda: tf.train.batch_join([[tf.SparseTensor([[0]], [1.0], [1])], [X]], 2),
        ValueError,
        "Inconsistent SparseTensors list",
    ),
]


@pytest.mark.parametrize(("make", "error", "text"), REFUSED, ids=[text for _, _, text in REFUSED])
def test_what_does_not_fit_is_refused(make: Any, error: type[Exception], text: str) -> None:
    with tf.Graph().as_default(), pytest.raises(error, match=text):
        make()


def test_an_empty_tensor_of_names_is_found_by_the_thread() -> None:
    names = tf.train.string_input_producer(tf.placeholder_with_default(np.array([], object), [None]), capacity=4)
    coordinator = tf.train.Coordinator()
    with tf.Session() as session:
        threads = tf.train.start_queue_runners(session, coordinator)
        with pytest.raises(tf.errors.OutOfRangeError, match="is closed and has insufficient elements"):
            session.run(names.dequeue(), options=tf.RunOptions(timeout_in_ms=60_000))
        with pytest.raises(tf.errors.InvalidArgumentError, match="requires a non-null input tensor"):
            coordinator.join(threads)


def test_a_local_variable_that_nobody_has_initialised_is_named() -> None:
    tf.train.string_input_producer(["a"], num_epochs=1, name="names")
    coordinator = tf.train.Coordinator()
    with tf.Session() as session:
        threads = tf.train.start_queue_runners(session, coordinator)
        with pytest.raises(tf.errors.FailedPreconditionError, match=r"names/limit_epochs/epochs"):
            coordinator.join(threads)


# --------------------------------------------------------------------------------------------------------------- files
def test_names_that_match_are_looked_for_once(tmp_path: Path) -> None:
    for name in ("b.txt", "a.txt", "c.csv"):
        (tmp_path / name).write_text("")
    names = tf.train.match_filenames_once([str(tmp_path / "*.txt"), str(tmp_path / "*.csv")])
    assert names in tf.local_variables()
    assert names not in tf.trainable_variables()
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        found = session.run(names)
        (tmp_path / "d.txt").write_text("")
        assert [Path(name.decode()).name for name in found] == ["a.txt", "b.txt", "c.csv"]
        assert session.run(names).tolist() == found.tolist()


def test_how_full_a_queue_is_stands_in_a_summary() -> None:
    queue = tf.train.range_input_producer(4, num_epochs=1, shuffle=False, capacity=16, name="source")
    merged = tf.summary.merge_all()
    with tf.Session() as session:
        session.run(tf.local_variables_initializer())
        for thread in tf.train.start_queue_runners(session):
            thread.join()
        session.run(queue.dequeue())
        summary = tf.Summary.FromString(session.run(merged))
    assert [(value.tag, value.simple_value) for value in summary.value] == [("source/fraction_of_16_full", 3 / 16)]


def test_runners_go_into_a_meta_graph_and_come_back(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("1\n2\n3\n")
    with tf.Graph().as_default():
        names = tf.train.string_input_producer([str(tmp_path / "1.txt")], num_epochs=1, shuffle=False)
        line = tf.string_to_number(tf.TextLineReader().read(names)[1])
        batch = tf.train.batch([line], 3, name="result")
        meta = tf.train.export_meta_graph()
    assert batch.name == "result:0"
    with tf.Graph().as_default() as graph:
        tf.train.import_meta_graph(tf.MetaGraphDef.FromString(meta.SerializeToString()))
        assert [step.tolist() for step in drained(graph.get_tensor_by_name("result:0"))] == [[1.0, 2.0, 3.0]]


# -------------------------------------------------------------------------------------------------------------- ending
def pipeline(folder: Path) -> tf.Tensor:
    """Lines of two files without end, through three queues and nine threads."""
    for name in ("1.txt", "2.txt"):
        (folder / name).write_text("".join(f"{i}\n" for i in range(50)))
    names = tf.train.string_input_producer([str(folder / "1.txt"), str(folder / "2.txt")], capacity=2)
    values = [[tf.string_to_number(tf.TextLineReader().read(names)[1], tf.int32)] for _ in range(3)]
    joined = tf.train.shuffle_batch_join(values, 4, 30, 5)
    return tf.train.batch([joined], 8, num_threads=5, capacity=16, enqueue_many=True)


def runners() -> list[threading.Thread]:
    """The threads that fill queues."""
    return [thread for thread in threading.enumerate() if thread.name.startswith("QueueRunnerThread")]


@pytest.mark.parametrize("how", ["coordinator", "session", "error"])
def test_no_thread_is_left(how: str, tmp_path: Path) -> None:
    assert not runners()
    for _ in range(3):
        with tf.Graph().as_default():
            batch = pipeline(tmp_path)
            coordinator = tf.train.Coordinator()
            session = tf.Session()
            threads = tf.train.start_queue_runners(session, coordinator if how != "session" else None)
            assert len(runners()) == len(threads) == (12 if how != "session" else 9)
            for _ in range(5):
                assert session.run(batch).shape == (8,)
            if how == "coordinator":
                coordinator.request_stop()
                coordinator.join(threads, stop_grace_period_secs=60)
            elif how == "session":
                session.close()
                for thread in threads:
                    thread.join(60)
            else:
                coordinator.request_stop(ValueError("the program's own"))
                with pytest.raises(ValueError, match="the program's own"):
                    coordinator.join(threads, stop_grace_period_secs=60)
            session.close()
        assert not runners()
    gc.collect()


def test_a_thread_that_meets_a_missing_file_stops_all(tmp_path: Path) -> None:
    (tmp_path / "1.txt").write_text("1\n2\n")
    names = tf.train.string_input_producer([str(tmp_path / "1.txt"), str(tmp_path / "none")], shuffle=False)
    batch = tf.train.batch([tf.TextLineReader().read(names)[1]], 1, capacity=2)
    coordinator = tf.train.Coordinator()
    with tf.Session() as session:
        threads = tf.train.start_queue_runners(session, coordinator)
        lines = [session.run(batch)[0] for _ in range(2)]
        with pytest.raises(tf.errors.OutOfRangeError, match="is closed and has insufficient elements"):
            session.run(batch)
        with pytest.raises(tf.errors.NotFoundError, match=r"none; No such file[\s\S]*test_queue_inputs.py"):
            coordinator.join(threads, stop_grace_period_secs=60)
    assert lines == [b"1", b"2"]
    assert not runners()
