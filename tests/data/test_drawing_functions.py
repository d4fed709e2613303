"""Functions of datasets that draw, as straight code: the same numbers as op by op, and streams that move alike."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anabranch as tf
from anabranch.ops.data import parallel
from anabranch.runtime.interpreter import body_calls, open_code, straight_line
from anabranch.runtime.plans import plan

D = tf.data.Dataset
ROWS = np.arange(480, dtype=np.float32).reshape(40, 12)


@pytest.fixture(autouse=True)
def _graph():
    with tf.Graph().as_default():
        tf.set_random_seed(7)
        yield


def flipped(x):
    image = tf.image.random_brightness(tf.reshape(x, [2, 2, 3]) / 500, 0.2)
    return tf.image.random_flip_left_right(image), tf.random_crop(image, [1, 2, 3])


def sized(x):
    """How much is drawn depends on what was drawn."""
    return tf.random_uniform(tf.random_uniform([1], 1, 5, tf.int32))


DRAWING = {
    "noise": lambda x: x + tf.random_normal([12]),
    "integers": lambda x: (tf.random_uniform([3], 0, 9, tf.int64), tf.random_shuffle(x)),
    "image": flipped,
    "dropout": lambda x: tf.nn.dropout(x, 0.5),
    "categories": lambda x: (tf.multinomial([[1.0, 2.0, 3.0]], 3), tf.truncated_normal([3])),
    "rejected": lambda x: (tf.random_gamma([2], 1.5), tf.random_poisson(3.0, [2])),
    "twice": lambda x: tf.random_uniform([2]) - tf.random_uniform([2]),
    "sized": sized,
}


def elements(dataset, count):
    element = dataset.make_one_shot_iterator().get_next()
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        return [tf.nest.flatten(session.run(element)) for _ in range(count)]


@pytest.mark.parametrize("name", DRAWING)
def test_straight_code_draws_what_the_executor_draws(name, monkeypatch):
    served = []
    run = straight_line.Straight.run

    def noted(self, values, turn=None, **options):
        outcome = run(self, values, turn, **options)
        served.append(turn is not None and bool(self.random_ops) and outcome is not None)
        return outcome

    monkeypatch.setattr(straight_line.Straight, "run", noted)
    straight = elements(D.from_tensor_slices(ROWS).map(DRAWING[name]).repeat(2), 70)
    assert any(served)
    monkeypatch.setattr(straight_line, "only_draws", lambda op: False)
    with tf.Graph().as_default():
        tf.set_random_seed(7)
        served.clear()
        by_op = elements(D.from_tensor_slices(ROWS).map(DRAWING[name]).repeat(2), 70)
    assert not any(served)
    for ours, theirs in zip(straight, by_op, strict=True):
        for value, wanted in zip(ours, theirs, strict=True):
            np.testing.assert_array_equal(value, wanted)


def test_a_run_that_is_made_anew_draws_the_same(monkeypatch):
    """The sizes of what is given change: straight code finds that behind its draw, and the executor draws again."""

    def noisy(x):
        return tf.random_uniform([2]), x[: tf.size(x) // 2] + 1

    def of_sizes():
        return D.from_generator(lambda: (np.zeros(2 + i // 7 % 3) for i in range(80)), tf.float64, [None]).map(noisy)

    straight = elements(of_sizes(), 80)
    monkeypatch.setattr(straight_line, "only_draws", lambda op: False)
    with tf.Graph().as_default():
        tf.set_random_seed(7)
        by_op = elements(of_sizes(), 80)
    for (ours, _), (theirs, _) in zip(straight, by_op, strict=True):
        np.testing.assert_array_equal(ours, theirs)


def drawing_slowly(x):
    """Some milliseconds of products, and two draws."""
    product = tf.reduce_sum(tf.linalg.matmul(tf.ones([300, 300]), tf.fill([300, 300], x)))
    return tf.check_numerics(x, "not a number"), tf.random_uniform([2], seed=3), tf.random_normal([]) + 0 * product


@pytest.mark.parametrize("calls", [2, 4])
@pytest.mark.parametrize("tier", ["interpreted", "auto"])
def test_calls_on_threads_draw_what_calls_in_turn_do(calls, tier, monkeypatch):
    """Also behind elements that fail, whose draws count."""
    reserved = []
    submit = parallel._Threads.submit
    monkeypatch.setattr(parallel._Threads, "submit", lambda self, call: (reserved.append(call), submit(self, call)))
    monkeypatch.setattr(parallel, "GAIN", 1e9)  # the machine may have no core to spare
    monkeypatch.setattr(parallel, "WORTH_A_THREAD", 1e-4)
    values = np.ones(26, np.float32)
    values[[12, 13, 20]] = np.nan

    def drawn(**parallel_calls):
        dataset = D.from_tensor_slices(values).map(drawing_slowly, **parallel_calls)
        dataset = dataset.apply(tf.data.experimental.ignore_errors())
        element = dataset.make_one_shot_iterator().get_next()
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            return [session.run(element) for _ in range(23)]

    in_turn = drawn()
    assert not reserved
    with tf.Graph().as_default():
        tf.set_random_seed(7)
        on_threads = drawn(num_parallel_calls=calls)
    assert len(reserved) > 15
    for (_, uniform, normal), (_, wanted, near) in zip(on_threads, in_turn, strict=True):
        np.testing.assert_array_equal(uniform, wanted)
        np.testing.assert_allclose(normal, near, rtol=1e-5)


def test_a_place_between_calls_on_threads_has_the_streams_of_those_under_way(tmp_path, monkeypatch):
    monkeypatch.setattr(parallel, "GAIN", 1e9)
    monkeypatch.setattr(parallel, "WORTH_A_THREAD", 1e-4)
    numbers = D.from_tensor_slices(np.ones(30, np.float32)).map(drawing_slowly, num_parallel_calls=3)
    iterator = numbers.make_initializable_iterator()
    element = iterator.get_next()[1]
    saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
    with tf.Session() as session:
        session.run(iterator.initializer)
        for _ in range(13):
            session.run(element)
        path = saver.save(session, str(tmp_path / "place"))
        wanted = [session.run(element).tolist() for _ in range(17)]
        saver.restore(session, path)
        assert [session.run(element).tolist() for _ in range(17)] == wanted


def test_threads_of_one_iterator_draw_no_number_twice():
    def slowly(x):
        return tf.random_uniform([], 0, 2**60, tf.int64, seed=5) + 0 * tf.cast(
            tf.reduce_sum(tf.ones([400, 400])), tf.int64
        )

    inner = lambda _: D.range(25).map(slowly).prefetch(2)  # noqa: E731
    drawn = [int(value) for (value,) in elements(D.range(8).interleave(inner, cycle_length=4), 200)]
    assert len(set(drawn)) == 200


def test_a_place_brings_the_streams_of_straight_code_along(tmp_path):
    iterator = D.from_tensor_slices(ROWS).map(DRAWING["noise"]).make_initializable_iterator()
    element = iterator.get_next()
    saver = tf.train.Saver([tf.data.experimental.make_saveable_from_iterator(iterator)])
    with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        session.run(iterator.initializer)
        for _ in range(11):
            session.run(element)
        path = saver.save(session, str(tmp_path / "place"))
        wanted = [session.run(element) for _ in range(9)]
        saver.restore(session, path)
        for value in wanted:
            np.testing.assert_array_equal(session.run(element), value)


def of_any_size(x):
    """What image functions do: sizes that are computed, checked, drawn from and cut by."""
    size = tf.shape(x)[0]
    with tf.control_dependencies([tf.assert_greater(size, 1)]):
        begin = tf.random_uniform([], 0, size - 1, tf.int32)
    noisy = x + tf.random_uniform([size])
    return tf.pad(noisy[begin:], [[0, 40 - size + begin]]), tf.reduce_mean(noisy), begin


def test_elements_of_ever_new_sizes_have_code_for_any(monkeypatch):
    served = []
    results = open_code.OpenCode.results

    def noted(self, values, bugs, draws=None):
        outcome = results(self, values, bugs, draws)
        served.append(outcome is not None)
        return outcome

    def of_sizes():
        sizes = np.random.RandomState(0).permutation(np.arange(2, 40)).tolist() + [1, 5, 6]
        return D.from_generator(lambda: (np.arange(size, dtype=np.float32) for size in sizes), tf.float32, [None])

    def values_and_errors():
        element = of_sizes().map(of_any_size).make_one_shot_iterator().get_next()
        found = []
        with tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
            for _ in range(41):
                try:
                    found.append(session.run(element))
                except tf.errors.InvalidArgumentError as problem:
                    found.append(problem.message.splitlines()[0])
        return found

    monkeypatch.setattr(open_code.OpenCode, "results", noted)
    ours = values_and_errors()
    assert sum(served) > 30
    monkeypatch.setattr(open_code, "of_body", lambda plan: None)
    monkeypatch.setattr(straight_line, "only_draws", lambda op: False)
    served.clear()
    with tf.Graph().as_default():
        tf.set_random_seed(7)
        by_op = values_and_errors()
    assert not served
    assert ours[38] == by_op[38]
    assert ours[38].startswith("assertion failed")
    for one, other in zip(ours[:38] + ours[39:], by_op[:38] + by_op[39:], strict=True):
        for value, wanted in zip(one, other, strict=True):
            np.testing.assert_array_equal(value, wanted)


def test_functions_of_ever_new_sizes_are_never_cut_into_programs(monkeypatch):
    arranged = []
    real = plan.Plan.arrange

    def arrange(self, tier):
        arranged.append((self.nested, tier))
        return real(self, tier)

    monkeypatch.setattr(plan.Plan, "arrange", arrange)
    sizes = np.random.RandomState(0).randint(2, 40, 230).tolist()
    with tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(7)
        rows = D.from_generator(lambda: (np.arange(size, dtype=np.float32) for size in sizes), tf.float32, [None])
        iterator = rows.map(of_any_size).make_initializable_iterator()
        element = iterator.get_next()
        for _ in range(3):
            session.run(iterator.initializer)
            for _ in sizes:
                session.run(element)
    assert (True, "interpreted") in arranged
    assert (True, "compiled") not in arranged


def test_functions_that_draw_in_branches_and_loops_run_as_code(monkeypatch):
    """Their numbers are those of the executor, which serves nothing else."""
    real, served = straight_line.Straight.run, []

    def branching(x):
        drawn = tf.random_uniform([])
        x = tf.cast(x, tf.float32)
        chosen = tf.cond(drawn > 0.5, lambda: x + tf.random_uniform([2]), lambda: tf.stack([drawn, x]))
        total = tf.while_loop(lambda i, y: i < 3, lambda i, y: (i + 1, y + tf.random_uniform([])), [0, 0.0])[1]
        return chosen, drawn, total

    def found():
        with tf.Graph().as_default(), tf.Session() as session:
            tf.set_random_seed(5)
            element = tf.data.Dataset.range(40).map(branching).batch(4).make_one_shot_iterator().get_next()
            return [session.run(element) for _ in range(10)]

    def run(self, *args, **options):
        outcome = real(self, *args, **options)
        served.append(outcome is not None and any(op.type.endswith("If") for op in self._ops))
        return outcome

    monkeypatch.setattr(straight_line.Straight, "run", run)
    code = found()
    assert sum(served) > 30
    monkeypatch.setattr(straight_line.Straight, "run", lambda self, *args, **options: None)
    for batch, expected in zip(code, found(), strict=True):
        for column, wanted in zip(batch, expected, strict=True):
            np.testing.assert_array_equal(column, wanted)


@pytest.mark.parametrize(("ops", "tier"), [(0, "interpreted"), (30, "compiled")])
def test_functions_are_compiled_if_they_compute_much_beside_what_they_take_and_give(
    ops: int, tier: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    functions: list[body_calls.BodyFunction] = []
    make = body_calls.BodyFunction.__init__

    def noted(self: Any, *args: Any) -> None:
        make(self, *args)
        functions.append(self)

    monkeypatch.setattr(body_calls.BodyFunction, "__init__", noted)

    def change(image: Any) -> Any:
        image = tf.image.random_saturation(tf.image.random_brightness(image, 0.3, seed=1), 0.5, 1.5, seed=2)
        for _ in range(ops):
            image = tf.sqrt(image)
        return tf.clip_by_value(image / 255.0, 0.0, 1.0)

    with tf.Session() as session:
        images = np.random.RandomState(0).rand(140, 140, 3).astype(np.float32)
        dataset = tf.data.Dataset.from_tensors(images).repeat().map(change).batch(10)
        batch = dataset.make_one_shot_iterator().get_next()
        for _ in range(60):
            session.run(batch)
    assert {function._plan.tier for function in functions if function.reserves} == {tier}
