"""Iterators in checkpoints: what comes after a restore is what would have come, and a changed pipeline is refused."""

from __future__ import annotations

import collections
import threading
import time
import types

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.build import build
from anabranch.ops.data import places
from anabranch.ops.data.resources import cuts
from anabranch.runtime.state.slots import ResourceHandle

D = tf.data.Dataset
CUT = ResourceHandle("cut", "", "iterators")
saveable = tf.data.experimental.make_saveable_from_iterator


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        yield


def numbers(count=20):
    yield from range(count)


def rest(session, element):
    values = []
    while len(values) < 60:
        try:
            values.append([np.asarray(part).tolist() for part in tf.nest.flatten(session.run(element))])
        except tf.errors.OutOfRangeError:
            break
    return values


def sparse_row(x):
    return tf.SparseTensor([[0], [x + 1]], [x, x], [30])


def noisy(x):
    return tf.cast(x, tf.float32) + tf.random_uniform([])


PIPELINES = {
    "an unseeded shuffle": lambda: D.from_tensor_slices(np.arange(30)).shuffle(10).repeat(2).batch(3),
    "one order for all passes": lambda: D.range(9).shuffle(5, reshuffle_each_iteration=False).repeat(3),
    "random functions": lambda: D.range(12).map(noisy).prefetch(2).repeat(2).batch(2),
    "random words": lambda: tf.data.experimental.RandomDataset().take(7).repeat(2),
    "a generator": lambda: D.from_generator(numbers, tf.int64, []).shuffle(5).repeat(2),
    "strings": lambda: D.from_tensor_slices(tf.constant(["a", "b", "c", "d", "e", "f", "g"])).shuffle(6).repeat(2),
    "sparse tensors": lambda: D.range(8).map(sparse_row).shuffle(6),
    "structures": lambda: (
        D.from_tensor_slices({"a": np.arange(9), "b": np.ones([9, 2])}).filter(lambda x: True).shuffle(7)
    ),
    "windows": lambda: D.range(20).window(3).shuffle(7).flat_map(lambda window: window.batch(2)),
    "groups": lambda: D.range(40).apply(
        tf.data.experimental.group_by_window(lambda x: x % 3, lambda key, window: window.batch(4), 4)
    ),
    "a cache": lambda: D.range(6).map(lambda x: x * x).cache().shuffle(4).repeat(3),
    "datasets in turn": lambda: D.range(6).interleave(lambda x: D.range(x).shuffle(3), cycle_length=3),
}


@pytest.mark.parametrize("one_shot", [False, True])
@pytest.mark.parametrize("name", sorted(PIPELINES))
def test_another_session_goes_on_from_the_place_in_a_checkpoint(name, one_shot, tmp_path):
    dataset = PIPELINES[name]()
    iterator = dataset.make_one_shot_iterator() if one_shot else dataset.make_initializable_iterator()
    element = iterator.get_next()
    saver = tf.train.Saver([saveable(iterator)])
    with tf.Session() as session:
        if not one_shot:
            session.run(iterator.initializer)
        for _ in range(4):
            session.run(element)
        path = saver.save(session, str(tmp_path / "place"))
        wanted = rest(session, element)
        saver.restore(session, path)
        assert rest(session, element) == wanted
    with tf.Session() as session:
        saver.restore(session, path)
        assert rest(session, element) == wanted


def test_a_restore_before_a_fed_initializer_waits_for_it(tmp_path):
    values = tf.placeholder(tf.int64, [None])
    iterator = D.from_tensor_slices(values).shuffle(8, seed=1).make_initializable_iterator()
    element = iterator.get_next()
    saver = tf.train.Saver([saveable(iterator)])
    feed = {values: np.arange(9)}
    with tf.Session() as session:
        session.run(iterator.initializer, feed)
        session.run(element)
        path = saver.save(session, str(tmp_path / "place"))
        wanted = rest(session, element)
    with tf.Session() as session:
        saver.restore(session, path)
        with pytest.raises(tf.errors.FailedPreconditionError, match="has not been initialized"):
            session.run(element)
        session.run(iterator.initializer, feed)
        assert rest(session, element) == wanted
        session.run(iterator.initializer, feed)
        assert len(rest(session, element)) == 9


def place_of(dataset, path, skip=2):
    """Save the place of a dataset's iterator behind some elements, and what came then."""
    with tf.Graph().as_default():
        iterator = dataset().make_initializable_iterator()
        element = iterator.get_next()
        saver = tf.train.Saver([saveable(iterator)])
        with tf.Session() as session:
            session.run(iterator.initializer)
            for _ in range(skip):
                session.run(element)
            saver.save(session, path)
            return rest(session, element)


def after(dataset, path, initialised=False):
    with tf.Graph().as_default():
        iterator = dataset().make_initializable_iterator()
        element = iterator.get_next()
        saver = tf.train.Saver([saveable(iterator)])
        with tf.Session() as session:
            if initialised:
                session.run(iterator.initializer)
            saver.restore(session, path)
            return rest(session, element)


OTHER_PIPELINES = pytest.mark.parametrize(
    ("before", "now", "text"),
    [
        (lambda: D.range(9), lambda: D.range(8), "the last stage, Numbers, had other arguments"),
        (lambda: D.range(9).batch(2), lambda: D.range(9).batch(3), "the last stage, Batch, had other arguments"),
        (lambda: D.range(9).map(lambda x: x + 1).take(7), lambda: D.range(9).map(lambda x: x + 2).take(7), "Map, had"),
        (lambda: D.range(9).batch(2), lambda: D.range(9).take(8).batch(2), "was Numbers, and is Take"),
        (lambda: D.from_tensor_slices([1, 2, 3]), lambda: D.from_tensor_slices([1, 2, 4]), "TensorSlices, had"),
        (lambda: D.range(9).repeat(2), lambda: D.range(9).repeat(2).take(9), "was Repeat, and is Take"),
        (lambda: D.range(5).repeat(2), lambda: D.zip(D.range(5)).repeat(2), "was Numbers, and is Zip"),
    ],
)


@OTHER_PIPELINES
def test_the_place_in_another_pipeline_that_has_begun_is_refused(before, now, text, tmp_path):
    path = str(tmp_path / "place")
    place_of(before, path)
    with pytest.raises(tf.errors.InvalidArgumentError, match=text):
        after(now, path, initialised=True)


@OTHER_PIPELINES
def test_an_iterator_that_has_not_begun_goes_on_in_the_saved_pipeline(before, now, text, tmp_path):
    path = str(tmp_path / "place")
    wanted = place_of(before, path)
    with pytest.warns(UserWarning, match=rf"in another pipeline: .*{text}"):
        assert after(now, path) == wanted


@pytest.mark.parametrize("batch", [7, 32, 100])
def test_rows_that_a_large_shuffle_has_drawn_ahead_are_part_of_the_place(batch, tmp_path):
    """The order is that of rows drawn one by one, before the place and behind it, and over the end of a pass."""
    rows = np.arange(3000)

    def shuffled():
        return D.from_tensor_slices(rows).shuffle(3000, seed=4).repeat(2)

    def counted():
        return shuffled().batch(batch)

    path = str(tmp_path / "place")
    wanted = place_of(counted, path, skip=5)
    assert after(counted, path) == wanted
    element = shuffled().map(lambda x: tf.identity(x)).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        one_by_one = [int(session.run(element)) for _ in range(15 * batch)]
    assert [row for (part,) in wanted[:10] for row in part] == one_by_one[5 * batch :]


def test_an_iterator_in_a_saved_pipeline_is_saved_and_begins_anew_in_its_own(tmp_path):
    first, second = str(tmp_path / "first"), str(tmp_path / "second")
    wanted = place_of(lambda: D.range(12).shuffle(4, seed=5).batch(2), first)
    iterator = D.range(100, 106).batch(3).make_initializable_iterator()
    element = iterator.get_next()
    saver = tf.train.Saver([saveable(iterator)])
    with tf.Session() as session:
        with pytest.warns(UserWarning, match="the last stage, Batch, had"):
            saver.restore(session, first)
        assert [session.run(element).tolist()] == wanted[0]
        saver.save(session, second)
        assert rest(session, element) == wanted[1:]
        session.run(iterator.initializer)
        assert session.run(element).tolist() == [100, 101, 102]
        with pytest.raises(tf.errors.InvalidArgumentError, match="the last stage, Batch, had"):
            saver.restore(session, second)
    with tf.Session() as session:
        with pytest.warns(UserWarning, match="goes on in the pipeline that was saved"):
            saver.restore(session, second)
        assert rest(session, element) == wanted[1:]


def test_a_pipeline_that_was_not_saved_cannot_be_gone_on_in(tmp_path):
    path = str(tmp_path / "place")
    large = np.zeros(1 << 18, np.int64)
    place_of(lambda: D.from_tensor_slices(large).skip(large.size - 5), path)
    with pytest.raises(tf.errors.InvalidArgumentError, match="was Skip, and is Numbers"):
        after(lambda: D.range(9), path)


def filtered_for_nothing():
    """A filter that does not look at a sparse tensor, whose parts are not written with the function."""
    rows = D.range(12).map(lambda x: (sparse_row(x), x))
    return rows.filter(lambda row, x: tf.equal(x % 2, 0)).map(lambda row, x: x)


def sampled():
    """A function that captures something behind its first operation: read back, what it captures comes first."""
    numbers = [D.from_tensors(i).repeat(9) for i in range(3)]
    return tf.data.experimental.sample_from_datasets(numbers, np.array([0.3, 0.3, 0.4]), seed=5)


@pytest.mark.parametrize("dataset", [filtered_for_nothing, sampled])
def test_a_graph_that_was_written_and_read_has_the_same_pipeline(dataset, tmp_path):
    path = str(tmp_path / "place")
    iterator = dataset().make_initializable_iterator()
    element = iterator.get_next()
    tf.add_to_collection(tf.GraphKeys.SAVEABLE_OBJECTS, saveable(iterator))
    saver = tf.train.Saver()
    with tf.Session() as session:
        session.run(iterator.initializer)
        session.run([element, element])
        saver.save(session, path)
        wanted = rest(session, element)
    with tf.Graph().as_default() as graph:
        saver = tf.train.import_meta_graph(path + ".meta")
        with tf.Session() as session:
            session.run(iterator.initializer.name)
            saver.restore(session, path)
            assert rest(session, graph.get_tensor_by_name(element.name)) == wanted


def test_what_only_says_how_a_pipeline_runs_may_change(tmp_path):
    path = str(tmp_path / "place")
    wanted = place_of(lambda: D.range(9).shuffle(4, seed=1).map(lambda x: x * 2).prefetch(1), path)

    def now():
        tf.constant(1.0, name="another")
        return D.range(9).shuffle(4, seed=2).map(lambda y: y * 2).prefetch(3)

    assert after(now, path) == wanted


def test_a_python_function_with_effects_is_refused_and_one_without_is_not(tmp_path):
    def double(x):
        return x * 2

    def piped(stateful):
        return lambda: D.range(9).map(lambda x: tf.py_func(double, [x], tf.int64, stateful=stateful))

    with pytest.raises(tf.errors.FailedPreconditionError, match="stateful=False") as caught:
        place_of(piped(True), str(tmp_path / "refused"))
    assert "test_saved_iterators.py" in str(caught.value)
    path = str(tmp_path / "place")
    wanted = place_of(piped(False), path)
    assert after(piped(False), path) == wanted == [[x] for x in range(4, 18, 2)]


def test_a_generator_that_gives_other_elements_is_refused(tmp_path):
    path = str(tmp_path / "place")
    values = collections.deque([[0, 1, 2, 3, 4], [0, 7, 2, 3, 4]])
    dataset = D.from_generator(lambda: iter(values.popleft()), tf.int64, [])
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    saver = tf.train.Saver([saveable(iterator)])
    with tf.Session() as session:
        session.run(iterator.initializer)
        session.run([element])
        session.run([element])
        saver.save(session, path)
        with pytest.raises(tf.errors.DataLossError, match="gives the same elements whenever it is called"):
            saver.restore(session, path)


def test_a_failure_that_was_made_ahead_is_part_of_a_place(tmp_path):
    def checked(x):
        return tf.check_numerics(4.0 / tf.cast(x - 3, tf.float32), "not here")

    dataset = D.range(6).map(checked).prefetch(4)
    iterator = dataset.make_initializable_iterator()
    element = iterator.get_next()
    saver = tf.train.Saver([saveable(iterator)])
    with tf.Session() as session:
        session.run(iterator.initializer)
        session.run(element)
        path = saver.save(session, str(tmp_path / "place"))
        for _ in range(2):
            values = [float(session.run(element)) for _ in range(2)]
            with pytest.raises(tf.errors.InvalidArgumentError, match="not here"):
                session.run(element)
            assert [*values, *[row[0] for row in rest(session, element)]] == [-2.0, -4.0, 4.0, 2.0]
            saver.restore(session, path)


def test_a_place_of_another_program_is_refused(tmp_path, monkeypatch):
    path = str(tmp_path / "place")
    with monkeypatch.context() as patch:
        patch.setattr(places, "TYPE_NAME", "tensorflow::Iterator")
        place_of(lambda: D.range(3), path)
    with pytest.raises(tf.errors.UnimplementedError, match="places of its own kernels"):
        after(lambda: D.range(3), path)


def test_a_place_whose_bytes_have_changed_is_refused(tmp_path):
    path = str(tmp_path / "place")
    place_of(lambda: D.range(9).shuffle(3, seed=1), path)
    file = tmp_path / "place.data-00000-of-00001"
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.write_bytes(data)
    with pytest.raises(tf.errors.DataLossError, match="of variant tensor 'IteratorV2:0-state'"):
        after(lambda: D.range(9).shuffle(3, seed=1), path)


def test_what_is_not_a_place_is_refused():
    iterator = D.range(3).make_one_shot_iterator()
    restore = build("DeserializeIterator", iterator._iterator_resource, D.range(2)._variant_tensor)
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match="in place of a saved place"):
        session.run(restore)


# ------------------------------------------------------------------------------------------------- cuts between threads
def test_a_save_of_another_thread_is_between_two_steps(tmp_path):
    """The training step is long between its element and its commit; a checkpoint never has one without the other."""
    iterator = D.range(10**6).make_initializable_iterator()
    element = iterator.get_next()
    total = tf.Variable(tf.zeros([], tf.int64), trainable=False)
    slow = tf.py_func(lambda x: np.int64(np.linalg.norm(np.ones([150, 150])) * 0) + x, [element], tf.int64)
    train = total.assign_add(slow)
    saver = tf.train.Saver([total, saveable(iterator)])
    stop = threading.Event()
    with tf.Session() as session:
        session.run([total.initializer, iterator.initializer])

        def run():
            while not stop.is_set():
                session.run(train)

        threads = [threading.Thread(target=run) for _ in range(2)]
        for thread in threads:
            thread.start()
        paths = [saver.save(session, str(tmp_path / f"at{i}"), write_meta_graph=False) for i in range(5)]
        stop.set()
        for thread in threads:
            thread.join()
        for path in paths:
            saver.restore(session, path)
            sum_, following = session.run([total, element])
            assert int(sum_) == sum(range(int(following)))


def test_a_step_that_waits_for_whoever_saves_is_not_waited_for(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(cuts, "PATIENCE", 0.02)
    iterator = D.range(9).make_initializable_iterator()
    queue = tf.FIFOQueue(1, tf.int64, [[]])
    enqueue = queue.enqueue(iterator.get_next())
    saver = tf.train.Saver([saveable(iterator)])
    with tf.Session() as session:
        session.run(iterator.initializer)
        session.run(enqueue)
        thread = threading.Thread(target=lambda: session.run(enqueue))
        thread.start()
        takers = session._worker.manager.object(CUT, cuts.Cut)._takers  # by threads, which may be the session's own
        while all(taker.ended for taker in list(takers.values())):
            time.sleep(0.001)
        saver.save(session, str(tmp_path / "place"))
        assert session.run(queue.dequeue()) == 0
        thread.join()
    assert "is still at" in caplog.text


# ------------------------------------------------------------------------------------------------------------- the hook
def estimator(folder):
    config = types.SimpleNamespace(save_checkpoints_secs=None, save_checkpoints_steps=3, num_worker_replicas=1)
    return types.SimpleNamespace(model_dir=str(folder), config=config)


def train(folder, steps):
    """Train on with the hook, as far as ``steps``; the elements that came."""
    seen = []
    with tf.Graph().as_default():
        iterator = D.range(50).shuffle(20, seed=3).map(noisy).make_initializable_iterator()
        tf.add_to_collection(tf.GraphKeys.TABLE_INITIALIZERS, iterator.initializer)
        element = iterator.get_next()
        advance = tf.assign_add(tf.train.get_or_create_global_step(), 1)
        hooks = [tf.data.experimental.CheckpointInputPipelineHook(estimator(folder))]
        hooks.append(tf.train.StopAtStepHook(last_step=steps))
        with tf.train.MonitoredTrainingSession(
            checkpoint_dir=str(folder),
            hooks=hooks,
            save_checkpoint_steps=3,
            save_checkpoint_secs=None,
            save_summaries_steps=None,
            save_summaries_secs=None,
            log_step_count_steps=None,
        ) as session:
            while not session.should_stop():
                seen.append(float(session.run([element, advance])[0]))
    return seen


def test_the_hook_goes_on_where_the_model_was(tmp_path):
    whole = train(tmp_path / "whole", 12)
    parts = train(tmp_path / "parts", 4) + train(tmp_path / "parts", 7) + train(tmp_path / "parts", 12)
    assert len(set(whole)) == 12
    assert len(parts) == 12
    assert [int(value) for value in parts] == [int(value) for value in whole]


def test_the_hook_refuses_places_of_other_steps(tmp_path):
    train(tmp_path, 4)
    state = tmp_path / "checkpoint_input"
    state.write_text(state.read_text().replace("ckpt-4", "ckpt-5"))
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"a model at step 4, and places of iterators at steps"):
        train(tmp_path, 6)


def test_a_place_as_bytes_of_a_tensor():
    iterator = tf.data.Dataset.range(9).shuffle(4, seed=1).make_initializable_iterator()
    element = iterator.get_next()
    written = tf.io.serialize_tensor(build("SerializeIterator", iterator._iterator_resource))
    given = tf.placeholder(tf.string, [])
    restored = build("DeserializeIterator", iterator._iterator_resource, tf.io.parse_tensor(given, tf.variant))
    with tf.Session() as session:
        session.run(iterator.initializer)
        session.run([element])
        place = session.run(written)
        rest = [session.run(element) for _ in range(5)]
        session.run(restored, {given: place})
        assert [session.run(element) for _ in range(5)] == rest
        empty = tf.make_tensor_proto([1])
        empty.dtype = tf.variant.as_datatype_enum
        with pytest.raises(tf.errors.InvalidArgumentError, match="not a scalar"):
            session.run(restored, {given: empty.SerializeToString()})
        refused = tf.io.serialize_tensor(tf.data.Dataset.range(3)._variant_tensor)
        with pytest.raises(tf.errors.UnimplementedError, match="the place of an iterator"):
            session.run(refused)


def test_a_place_holds_its_pipeline_for_a_graph_without_it(tmp_path):
    path = str(tmp_path / "place")
    with tf.Graph().as_default():
        words = tf.contrib.lookup.index_table_from_tensor(["a", "b", "c"])
        dataset = tf.data.Dataset.range(20).map(lambda x: tf.cond(x > 3, lambda: x * 10, lambda: -x)).shuffle(5, seed=3)
        dataset = dataset.map(lambda x: x + words.lookup(tf.constant("c"))).batch(3)
        iterator = dataset.make_initializable_iterator()
        element = iterator.get_next()
        saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
        with tf.Session() as session:
            session.run([tf.tables_initializer(), iterator.initializer])
            session.run(element)
            saver.save(session, path)
            rest = [session.run(element).tolist() for _ in range(6)]
    with tf.Graph().as_default():
        words = tf.contrib.lookup.index_table_from_tensor(["a", "b", "c"])
        iterator = tf.data.Iterator.from_structure(tf.int64, [None])
        element = iterator.get_next()
        saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
        with tf.Session() as session:
            session.run(tf.tables_initializer())
            saver.restore(session, path)
            assert [session.run(element).tolist() for _ in range(6)] == rest
            with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
                session.run(element)


@pytest.mark.parametrize("way", ["fed", "large"])
def test_a_pipeline_that_is_not_stored_must_be_there(way, tmp_path):
    path = str(tmp_path / "place")
    with tf.Graph().as_default():
        number = tf.placeholder_with_default(np.int64(9), []) if way == "fed" else 9
        dataset = tf.data.Dataset.range(number)
        if way == "large":
            dataset = dataset.concatenate(tf.data.Dataset.from_tensor_slices(np.zeros(1 << 18, np.int64)))
        iterator = dataset.make_initializable_iterator()
        element = iterator.get_next()
        saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
        with tf.Session() as session:
            session.run(iterator.initializer)
            session.run(element)
            saver.save(session, path)
    with tf.Graph().as_default():
        iterator = tf.data.Iterator.from_structure(tf.int64, [])
        element = iterator.get_next()
        saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
        with tf.Session() as session:
            saver.restore(session, path)
            with pytest.raises(tf.errors.FailedPreconditionError, match="has not been initialized"):
                session.run(element)
