"""Iterators through sessions: their kinds, the end, several in a step, handles, control flow, variables, threads."""

from __future__ import annotations

import gc
import threading
import time

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.graph.verify import verify_graph
from anabranch.data import placing
from anabranch.runtime.interpreter import open_code, straight_line

D = tf.data.Dataset


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph
        verify_graph(graph)


def drained(session, tensors, most=100):
    """What a step gives until the dataset ends."""
    found = []
    for _ in range(most):
        try:
            found.append(session.run(tensors))
        except tf.errors.OutOfRangeError:
            return found
    raise AssertionError("no end")


# ------------------------------------------------------------------------------------------------------------ the kinds
def test_a_one_shot_iterator_goes_once_in_each_session():
    element = D.range(3).make_one_shot_iterator().get_next()
    for _ in range(2):
        with tf.Session() as session:
            assert drained(session, element) == [0, 1, 2]
            with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
                session.run(element)


def test_an_initializable_iterator_begins_again():
    size = tf.placeholder(tf.int64, [])
    iterator = D.range(size).make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        with pytest.raises(tf.errors.FailedPreconditionError, match="the iterator has not been initialized"):
            session.run(element)
        session.run(iterator.initializer, {size: 2})
        assert drained(session, element) == [0, 1]
        session.run(iterator.initializer, {size: 3})
        assert session.run(element) == 0
        session.run(iterator.initializer, {size: 3})
        assert drained(session, element) == [0, 1, 2]


def test_an_iterator_of_a_structure_goes_through_any_dataset_of_it():
    iterator = tf.data.Iterator.from_structure((tf.int64, tf.float32), ([], [None]))
    first = D.range(2).map(lambda x: (x, tf.fill([x + 1], 0.5)))
    second = D.from_tensors((np.int64(7), np.ones(3, np.float32)))
    begin_first, begin_second = iterator.make_initializer(first), iterator.make_initializer(second, name="second")
    assert begin_second.name == "second"
    number, row = iterator.get_next()
    assert row.shape.as_list() == [None]
    with pytest.raises(ValueError, match="does not have an initializer"):
        _ = iterator.initializer
    with tf.Session() as session:
        session.run(begin_first)
        assert [len(item) for _, item in drained(session, (number, row))] == [1, 2]
        session.run(begin_second)
        assert drained(session, number) == [7]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: D.range(2).map(lambda x: tf.cast(x, tf.int32)), "Expected output types"),
        (lambda: D.range(2).batch(2), "Expected output shapes compatible"),
    ],
)
def test_an_iterator_refuses_other_elements(make, text):
    iterator = tf.data.Iterator.from_structure(tf.int64, [])
    with pytest.raises(TypeError, match=text):
        iterator.make_initializer(make())


def test_a_string_names_an_iterator():
    train, test = (D.range(start, start + 4).make_one_shot_iterator() for start in (0, 10))
    handle = tf.placeholder(tf.string, [])
    element = tf.data.Iterator.from_string_handle(handle, train.output_types, train.output_shapes).get_next()
    with tf.Session() as session:
        handles = session.run([train.string_handle(), test.string_handle("other")])
        given = [session.run(element, {handle: handles[i]}) for i in (0, 1, 0, 1, 1)]
        assert given == [0, 10, 1, 11, 12]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Could not parse string_handle"):
            session.run(element, {handle: b"nonsense"})


def test_a_string_handle_knows_its_elements():
    other = D.range(3).make_one_shot_iterator()
    handle = tf.placeholder(tf.string, [])
    element = tf.data.Iterator.from_string_handle(handle, tf.float32, []).get_next()
    with tf.Session() as session:
        name = session.run(other.string_handle())
        with pytest.raises(tf.errors.InvalidArgumentError, match="expected float but got int64"):
            session.run(element, {handle: name})


# ------------------------------------------------------------------------------------------------------------ in a step
def test_each_call_of_get_next_takes_an_element_of_its_own():
    iterator = D.range(6).make_one_shot_iterator()
    first, second = iterator.get_next(), iterator.get_next()
    with tf.Session() as session:
        pairs = drained(session, (first, second))
        assert sorted(np.ravel(pairs).tolist()) == list(range(6))
        assert all(a != b for a, b in pairs)


def test_a_step_takes_one_element_however_often_it_is_used():
    element = D.range(3).make_one_shot_iterator().get_next()
    total = element + element * element
    with tf.Session() as session:
        assert drained(session, [total, element]) == [[0, 0], [2, 1], [6, 2]]


def test_many_calls_of_get_next_are_warned_of():
    iterator = D.range(3).make_one_shot_iterator()
    for _ in range(32):
        iterator.get_next()
    with pytest.warns(UserWarning, match="unusually high number"):
        iterator.get_next()


def test_a_branch_takes_an_element_only_where_it_is_taken():
    iterator = D.range(10).make_one_shot_iterator()
    wanted = tf.placeholder(tf.bool, [])
    value = tf.cond(wanted, iterator.get_next, lambda: tf.constant(-1, tf.int64))
    with tf.Session() as session:
        assert [session.run(value, {wanted: i % 2 == 0}) for i in range(5)] == [0, -1, 1, -1, 2]


def test_a_loop_takes_an_element_in_each_iteration():
    iterator = D.range(100).make_one_shot_iterator()
    total = tf.while_loop(
        lambda i, total: i < 4, lambda i, total: (i + 1, total + iterator.get_next()), (0, tf.constant(0, tf.int64))
    )[1]
    with tf.Session() as session:
        assert session.run(total) == 6
        assert session.run(total) == 4 + 5 + 6 + 7


def test_a_trained_step_is_fed_by_a_dataset():
    rng = np.random.RandomState(0)
    x = rng.randn(64, 3).astype(np.float32)
    y = x @ np.array([[1.0], [-2.0], [0.5]], np.float32)
    inputs, wanted = (
        D.from_tensor_slices((x, y)).shuffle(64, seed=1).repeat().batch(16).make_one_shot_iterator().get_next()
    )
    weights = tf.Variable(tf.zeros([3, 1]))
    loss = tf.reduce_mean(tf.square(tf.matmul(inputs, weights) - wanted))
    train = tf.train.GradientDescentOptimizer(0.2).minimize(loss)
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        for _ in range(200):
            session.run(train)
        assert session.run(loss) < 1e-4


# ----------------------------------------------------------------------------------------------------- what is captured
def test_a_variable_with_a_handle_is_read_when_the_function_runs():
    factor = tf.Variable(2, dtype=tf.int64, use_resource=True)
    iterator = D.range(1, 10).map(lambda x: x * factor).make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(tf.global_variables_initializer())
        session.run(iterator.initializer)
        assert session.run(element) == 2
        session.run(factor.assign(10))
        assert session.run(element) == 20


READERS = {
    # a dataset whose elements are those of range(100) and what a variable holds, where TensorFlow 1.15 reads it
    "map": lambda d, v: d.map(lambda x: x + v),
    "threads": lambda d, v: d.map(lambda x: x + v, num_parallel_calls=2),
    "read_value": lambda d, v: d.map(lambda x: x + v.read_value()),
    "identity": lambda d, v: (lambda w: d.map(lambda x: x + w))(tf.identity(v)),
    "flat_map": lambda d, v: d.flat_map(lambda x: D.from_tensors(x + v)),
    "within": lambda d, v: d.flat_map(lambda x: D.range(1).map(lambda y: x + v)),
    "a branch": lambda d, v: d.map(lambda x: tf.cond(x >= 0, lambda: x + v, lambda: x)),
    "a drawing function": lambda d, v: d.map(lambda x: x + v + tf.random_uniform([], 0, 1, tf.int64), 2),
    "scan": lambda d, v: d.apply(tf.data.experimental.scan(tf.constant(0, tf.int64), lambda n, x: (n, x + v))),
    "map_and_batch": lambda d, v: d.apply(tf.data.experimental.map_and_batch(lambda x: x + v, 1)).map(tf.squeeze),
}


@pytest.mark.parametrize("name", sorted(READERS))
def test_a_plain_variable_is_read_when_the_function_runs(name):
    variable = tf.Variable(0, dtype=tf.int64)
    iterator = READERS[name](D.range(100), variable).make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(variable.initializer)
        session.run(iterator.initializer)
        assert [session.run(element) for _ in range(2)] == [0, 1]
        session.run(variable.assign_add(10))
        assert [session.run(element) for _ in range(2)] == [12, 13]
        session.run(variable.assign(100))
        assert [session.run(element) for _ in range(2)] == [104, 105]
        session.run(iterator.initializer)
        assert session.run(element) == 100


def test_batches_that_a_function_makes_at_once_read_a_plain_variable_anew():
    variable = tf.Variable([1.0, 2.0])
    iterator = D.from_tensor_slices(np.ones([40, 2], np.float32)).map(lambda x: x * variable).batch(4)
    iterator = iterator.make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(variable.initializer)
        session.run(iterator.initializer)
        for step in range(1, 6):
            np.testing.assert_array_equal(session.run(element), np.tile([[step, 2.0 * step]], [4, 1]))
            session.run(variable.assign([step + 1.0, 2.0 * step + 2.0]))


@pytest.mark.parametrize("source", ["computed", "fed"])
def test_a_value_that_is_not_the_variables_own_stays_as_it_was(source):
    variable = tf.Variable(1, dtype=tf.int64)
    read = variable.value()
    value = variable * 1 if source == "computed" else read
    iterator = D.range(9).map(lambda x: x + value).make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(variable.initializer)
        session.run(iterator.initializer, {read: 5} if source == "fed" else {})
        first = session.run(element)
        session.run(variable.assign(50))
        assert (first, session.run(element)) == ((5, 6) if source == "fed" else (1, 2))


def test_a_function_does_not_write_to_a_plain_variable():
    variable = tf.Variable(0, dtype=tf.int64)
    with pytest.raises(ValueError, match="the reference 'Variable:0' in function"):
        D.range(9).map(lambda x: variable.assign_add(x))


def test_a_function_may_write_a_variable():
    count = tf.Variable(0, dtype=tf.int64, use_resource=True)

    def counted(x):
        with tf.control_dependencies([count.assign_add(1)]):
            return tf.identity(x)

    iterator = D.range(10).map(counted).batch(4).make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        session.run([tf.global_variables_initializer()])
        session.run(iterator.initializer)
        assert session.run(element).tolist() == [0, 1, 2, 3]
        assert session.run(count) == 4


def test_functions_that_read_tables_and_variables_run_as_code(monkeypatch):
    """What they read is pinned for each call: a value that is assigned between two elements is seen by the second."""
    served = []
    real = straight_line.Straight.run

    def run(self, *args, **options):
        served.append(real(self, *args, **options))
        return served[-1]

    monkeypatch.setattr(straight_line.Straight, "run", run)
    with tf.Graph().as_default(), tf.Session() as session:
        scale = tf.get_variable("scale", initializer=2.0, use_resource=True)
        table = tf.contrib.lookup.index_table_from_tensor(["a", "b"], num_oov_buckets=1)
        words = tf.data.Dataset.from_tensor_slices(["a", "b", "c"] * 7)
        looked_up = words.map(lambda word: tf.cast(table.lookup(word), tf.float32) * scale)
        iterator = looked_up.make_initializable_iterator()
        element = iterator.get_next()
        session.run(tf.tables_initializer())
        session.run(iterator.initializer)
        with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized value scale"):
            session.run(element)
        session.run(scale.initializer)
        assert [session.run(element) for _ in range(10)] == [2, 4, 0, 2, 4, 0, 2, 4, 0, 2]
        session.run(scale.assign(5.0))
        assert [session.run(element) for _ in range(8)] == [10, 0, 5, 10, 0, 5, 10, 0]
    assert sum(outcome is not None for outcome in served) >= 14


def test_functions_that_look_up_ever_new_numbers_of_words_run_as_code_for_any(monkeypatch):
    outcomes = []
    real = open_code.OpenCode.results

    def results(self, *args):
        outcomes.append(real(self, *args))
        return outcomes[-1]

    monkeypatch.setattr(open_code.OpenCode, "results", results)
    lines = [" ".join("abcd"[(i * k) % 4] for k in range(i % 11 + 1)) for i in range(60)]
    table = tf.contrib.lookup.index_table_from_tensor(["a", "b", "c"], default_value=7)
    looked_up = D.from_tensor_slices(lines).map(lambda line: 2 * table.lookup(tf.string_split([line]).values))
    element = looked_up.make_initializable_iterator()
    numbers = element.get_next()
    with tf.Session() as session:
        session.run(tf.tables_initializer())
        session.run(element.initializer)
        for line in lines:
            expected = [{"a": 0, "b": 2, "c": 4}.get(word, 14) for word in line.split()]
            assert session.run(numbers).tolist() == expected
    assert sum(outcome is not None for outcome in outcomes) > 30


def test_a_table_is_looked_up_in_a_function():
    table = tf.contrib.lookup.HashTable(
        tf.contrib.lookup.KeyValueTensorInitializer(["a", "b"], tf.constant([1, 2], tf.int64)), -1
    )
    iterator = D.from_tensor_slices(["b", "c", "a"]).map(table.lookup).make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        session.run([tf.tables_initializer()])
        session.run(iterator.initializer)
        assert drained(session, element) == [2, -1, 1]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (lambda: D.range(3).map(lambda x: x * VARIABLES[0]), "Cannot capture a stateful node"),
        (lambda: D.range(tf.placeholder(tf.int64, [])), "Cannot capture a placeholder"),
        (lambda: D.from_tensors(tf.random_uniform([])), "Cannot capture a stateful node"),
    ],
)
def test_a_one_shot_iterator_refuses_what_has_state(make, text):
    VARIABLES[:] = [tf.Variable(2, dtype=tf.int64, use_resource=True)]
    with pytest.raises(ValueError, match=text):
        make().make_one_shot_iterator()


VARIABLES: list = []


def test_functions_count_their_operations_for_themselves():
    """A seeded graph draws the same numbers with and without a dataset's function, as in TensorFlow."""
    seeds = []
    for ops in (1, 7):
        with tf.Graph().as_default():
            tf.set_random_seed(1)

            def chain(x, ops=ops):
                for _ in range(ops):
                    x = x + 1
                return x

            D.range(3).map(chain)
            seeds.append(tf.get_seed(None))
    assert seeds[0] == seeds[1]


def test_a_reference_is_refused_in_a_function():
    variable = tf.Variable(2, dtype=tf.int64)
    with pytest.raises(ValueError, match="use_resource=True"):
        D.range(3).map(lambda x: tf.assign_add(variable, x))


# --------------------------------------------------------------------------------------------------------------- errors
def test_an_error_in_a_function_names_its_line_and_the_stage():
    element = D.range(3).map(lambda x: tf.constant(10, tf.int64) // x).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)test_iterators.py.*inside .*MapDataset"):
            session.run(element)
        assert session.run(element) == 10


def test_what_raises_in_a_generator_is_told():
    def broken():
        yield 1
        raise ValueError("no more of this")

    element = D.from_generator(broken, tf.int64, []).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert session.run(element) == 1
        with pytest.raises(tf.errors.InvalidArgumentError, match="no more of this"):
            session.run(element)


@pytest.mark.parametrize(
    ("values", "text"),
    [([[1, 2]], "element of shape"), (["x"], "could not be converted to the expected type")],
)
def test_a_generator_of_other_elements_is_refused(values, text):
    element = D.from_generator(lambda: iter(values), tf.int64, []).make_one_shot_iterator().get_next()
    with tf.Session() as session, pytest.raises(tf.errors.InvalidArgumentError, match=text):
        session.run(element)


# ----------------------------------------------------------------------------------------------------- threads and ends
def slow(x):
    """A function that takes long enough for a thread."""

    def wait(value):
        time.sleep(0.002)
        return value

    result = tf.py_func(wait, [x], tf.int64)
    result.set_shape([])
    return result


def prefetching_threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("anabranch prefetch")]


def test_prefetched_elements_come_in_order_and_their_thread_ends_with_the_session():
    element = D.range(40).map(slow).prefetch(4).make_one_shot_iterator().get_next()
    with tf.Session() as session:
        assert [session.run(element) for _ in range(20)] == list(range(20))
        assert prefetching_threads()
    assert not prefetching_threads()


def test_a_thread_ends_when_the_iterator_begins_again():
    iterator = D.range(40).map(slow).prefetch(4).make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        for _ in range(3):
            session.run(iterator.initializer)
            assert [session.run(element) for _ in range(10)] == list(range(10))
            assert len(prefetching_threads()) == 1


def test_an_error_of_a_prefetched_element_comes_at_its_place():
    element = D.range(-6, 6).map(slow).map(lambda x: 12 // x).prefetch(3).make_one_shot_iterator().get_next()
    given = []
    with tf.Session() as session:
        for _ in range(12):
            try:
                given.append(int(session.run(element)))
            except tf.errors.InvalidArgumentError:
                given.append(None)
    assert given == [-2, -3, -3, -4, -6, -12, None, 12, 6, 4, 3, 2]


def test_a_generator_is_closed_when_its_iterator_is_dropped():
    closed = []

    def numbers():
        try:
            yield from range(100)
        finally:
            closed.append(True)

    iterator = D.from_generator(numbers, tf.int64, []).make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        session.run(element)
        session.run(iterator.initializer)
        assert closed == [True]
        session.run(element)
    gc.collect()
    assert closed == [True, True]


def test_a_step_that_waits_for_an_element_ends_by_its_timeout():
    queue = tf.FIFOQueue(3, tf.int64, [()])
    iterator = D.range(3).map(lambda x: x + queue.dequeue()).make_initializable_iterator()
    element = iterator.get_next()
    with tf.Session() as session:
        session.run(iterator.initializer)
        with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
            session.run(element, options=tf.RunOptions(timeout_in_ms=100))
        session.run(queue.enqueue(5))
        assert session.run(element) == 6


# ----------------------------------------------------------------------------------------------- the whole of a dataset
def test_the_single_element_of_a_dataset():
    one = tf.data.experimental.get_single_element(D.range(3).batch(3))
    none = tf.data.experimental.get_single_element(D.range(0))
    many = tf.data.experimental.get_single_element(D.range(2))
    assert one.shape.as_list() == [None]
    with tf.Session() as session:
        assert session.run(one).tolist() == [0, 1, 2]
        with pytest.raises(tf.errors.InvalidArgumentError, match="Dataset was empty"):
            session.run(none)
        with pytest.raises(tf.errors.InvalidArgumentError, match="more than one element"):
            session.run(many)


def test_a_reduction_with_a_structure():
    dataset = D.range(5)
    total, seen = dataset.reduce(
        (tf.constant(0, tf.int64), [0]), lambda state, x: (state[0] + x, tf.concat([state[1], [1]], 0))
    )
    assert seen.shape.as_list() == [None]
    with tf.Session() as session:
        assert session.run(total) == 10
        assert session.run(seen).tolist() == [0, 1, 1, 1, 1, 1]


# ------------------------------------------------------------------------------------------------------------ exported
def test_a_graph_with_iterators_is_written_and_read():
    dataset = D.range(4).map(lambda x: x * 3).flat_map(lambda x: D.from_tensors(x).repeat(2)).shuffle(3, seed=1)
    element = dataset.make_one_shot_iterator().get_next()
    tf.identity(element, name="element")
    with tf.Session() as session:
        wanted = drained(session, element)
    proto = tf.get_default_graph().as_graph_def()
    with tf.Graph().as_default() as other:
        tf.import_graph_def(proto, name="")
        with tf.Session() as session:
            assert drained(session, "element:0") == wanted
        assert other.as_graph_def() == proto


def test_an_iterator_for_several_devices():
    with tf.Graph().as_default():
        dataset = tf.data.Dataset.range(7).map(lambda x: {"x": x, "y": tf.cast(x, tf.float32) / 2.0})
        iterator = placing.MultiDeviceIterator(dataset, ["/cpu:0", "/cpu:1"], max_buffer_size=4)
        assert iterator.output_types == {"x": tf.int64, "y": tf.float32}
        first, second = iterator.get_next()
        again = iterator.get_next("/cpu:1")["x"]
        assert [element["x"].device for element in (first, second)] == ["/device:CPU:0", "/device:CPU:1"]
        with tf.Session(config=tf.ConfigProto(allow_soft_placement=True)) as session:
            with pytest.raises(tf.errors.FailedPreconditionError, match="uninitialized"):
                session.run(first)
            for _ in range(2):  # elements that wait from before are not given out
                session.run(iterator.initializer)
                assert session.run([first, second]) == [{"x": 0, "y": 0.0}, {"x": 1, "y": 0.5}]
                assert session.run(again) == 3
                assert session.run([first["x"], second["x"]]) == [2, 5]
                assert session.run(first["x"]) == 4
                assert session.run(first["x"]) == 6
                with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
                    session.run(first)
        assert tf.global_variables() == []


# ------------------------------------------------------------------------------------------------------ what is let go
@pytest.mark.parametrize("kind", ["take", "take batched", "zip", "concatenate"])
def test_a_generator_ends_before_the_step_that_tells_the_end(kind):
    """It is not kept until the session or the iterator goes away."""
    events = []

    def numbers():
        try:
            yield from range(10)
        finally:
            events.append("closed")

    dataset = D.from_generator(numbers, tf.int64)
    dataset = {
        "take": lambda: dataset.take(2),
        "take batched": lambda: dataset.take(2).batch(1),
        "zip": lambda: D.zip((dataset, D.range(2))),
        "concatenate": lambda: dataset.take(1).concatenate(D.range(1)),
    }[kind]()
    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session() as session:
        for _ in range(2):
            session.run(element)
        for _ in range(2):
            with pytest.raises(tf.errors.OutOfRangeError, match="End of sequence"):
                session.run(element)
            assert events == ["closed"]


def test_a_place_before_the_end_is_gone_back_to_after_the_end(tmp_path):
    iterator = D.from_generator(lambda: iter(range(10)), tf.int64).take(3).make_initializable_iterator()
    element = iterator.get_next()
    saver = tf.train.Saver({"place": tf.contrib.data.make_saveable_from_iterator(iterator)})
    with tf.Session() as session:
        session.run(iterator.initializer)
        assert session.run(element) == 0
        path = saver.save(session, str(tmp_path / "place"))
        assert drained(session, element) == [1, 2]
        saver.restore(session, path)
        assert drained(session, element) == [1, 2]
