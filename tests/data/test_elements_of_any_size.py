"""Functions on elements of ever new sizes: lines of text, features of any length, against what Python says."""

import itertools
from collections import Counter

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.contract import faults
from anabranch.ops.data import parallel
from anabranch.ops.random import short_draws
from anabranch.runtime import executor
from anabranch.runtime.interpreter import straight_builder

LINES = [" ".join(f"w{(i * j) % 23}" for j in range(1 + i * 7 % 41)) for i in range(1, 60)]


def _elements(dataset):
    with tf.Session() as session:
        following = dataset.make_one_shot_iterator().get_next()
        found = []
        while True:
            try:
                found.append(session.run(following))
            except tf.errors.OutOfRangeError:
                return found


def test_words_of_lines():
    def parse(line):
        words = tf.string_split([line]).values
        pairs = tf.string_join([words[:-1], "<", words[1:]])
        buckets = tf.string_to_hash_bucket_fast(words, 100)
        distinct, place, count = tf.unique_with_counts(buckets)
        return words[0], tf.stack([words[0], words[-1]]), pairs, buckets, distinct, place, count

    with tf.Graph().as_default():
        found = _elements(tf.data.Dataset.from_tensor_slices(LINES).map(parse))
        text = tf.placeholder(tf.string, [])
        bucket = tf.string_to_hash_bucket_fast(text, 100)
        words = sorted({word for line in LINES for word in line.split()})
        with tf.Session() as session:
            bucket_of = {word: session.run(bucket, {text: word}) for word in words}
    for line, (first, ends, pairs, buckets, distinct, place, count) in zip(LINES, found, strict=True):
        words = line.split()
        assert first == words[0].encode()
        assert ends.tolist() == [words[0].encode(), words[-1].encode()]
        assert pairs.tolist() == [f"{a}<{b}".encode() for a, b in itertools.pairwise(words)]
        assert buckets.tolist() == [bucket_of[word] for word in words]
        times = Counter(buckets.tolist())
        assert distinct.tolist() == list(times)
        assert distinct[place].tolist() == buckets.tolist()
        assert count.tolist() == list(times.values())
        assert place.dtype == count.dtype == np.int32


def test_numbers_in_lines():
    texts = [",".join(f"{i * j - 7}" for j in range(1 + i * 5 % 13)) for i in range(1, 50)]

    def parse(line):
        parts = tf.string_split([line], ",").values
        numbers = tf.string_to_number(parts, tf.int64)
        size = tf.size(numbers, out_type=tf.int64)
        half = tf.cast(tf.cast(size, tf.float32) * 0.5, tf.int32)
        return numbers, tf.floormod(numbers, size), half, tf.string_to_number(parts)

    with tf.Graph().as_default():
        found = _elements(tf.data.Dataset.from_tensor_slices(texts).map(parse))
    for text, (numbers, rest, half, floats) in zip(texts, found, strict=True):
        expected = [int(part) for part in text.split(",")]
        assert numbers.tolist() == floats.tolist() == expected
        assert rest.tolist() == [number % len(expected) for number in expected]
        assert half == len(expected) // 2


@pytest.mark.parametrize("text", ["1_0", "", "1.5", "9999999999", "0x1"])
def test_what_is_no_int32_is_refused(text):
    with tf.Graph().as_default():
        texts = tf.data.Dataset.from_tensor_slices(["1", " 2 ", "+3", text])
        numbers = texts.map(lambda line: tf.string_to_number(line, tf.int32)).make_one_shot_iterator().get_next()
        with tf.Session() as session:
            assert [int(session.run(numbers)) for _ in range(3)] == [1, 2, 3]
            with pytest.raises(tf.errors.InvalidArgumentError, match="could not correctly convert string"):
                session.run(numbers)


def test_features_become_dense():
    def parse(count):
        places = tf.range(count) * 2
        short = tf.sparse_to_dense(places, [2 * count + 3], tf.cast(places, tf.float32), -1.0)
        full = tf.sparse_to_dense(tf.expand_dims(tf.range(count), 1), [count], tf.cast(places, tf.float32))
        return short, full, tf.sparse_to_dense(places, [2 * count], 5)

    with tf.Graph().as_default():
        found = _elements(tf.data.Dataset.range(1, 40).map(parse))
    for count, (short, full, ones) in enumerate(found, 1):
        expected = np.full(2 * count + 3, -1, np.float32)
        expected[: 2 * count : 2] = np.arange(count) * 2
        np.testing.assert_array_equal(short, expected)
        np.testing.assert_array_equal(full, np.arange(count, dtype=np.float32) * 2)
        np.testing.assert_array_equal(ones, np.tile([5, 0], count))


@pytest.mark.parametrize(
    ("places", "message"),
    [([0, 2, 1], "out of order"), ([0, 1, 1], "is repeated"), ([0, 1, 7], "is out of bounds"), ([-1, 0, 1], "bounds")],
)
def test_places_that_do_not_ascend_are_refused(places, message):
    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.placeholder(tf.int64, [None])
        dense = tf.sparse_to_dense(given, [4], 1.0)
        assert session.run(dense, {given: [1, 3]}).tolist() == [0, 1, 0, 1]
        with pytest.raises(tf.errors.InvalidArgumentError, match=message):
            session.run(dense, {given: places})


def test_division_by_a_size_of_zero_is_refused():
    with tf.Graph().as_default():
        sizes = tf.data.Dataset.from_tensor_slices([3, 2, 5, 0])
        rest = sizes.map(lambda size: tf.floormod(7, size)).make_one_shot_iterator().get_next()
        with tf.Session() as session:
            assert [int(session.run(rest)) for _ in range(3)] == [1, 1, 2]
            with pytest.raises(tf.errors.InvalidArgumentError, match="zero"):
                session.run(rest)


def test_an_assertion_in_a_function_holds_or_not():
    def checked(line):
        words = tf.string_split([line]).values
        with tf.control_dependencies([tf.Assert(tf.size(words) < 30, [tf.size(words)])]):
            return tf.identity(tf.size(words))

    with tf.Graph().as_default():
        lines = ["a " * n for n in (3, 9, 4, 1, 17, 12, 31)]
        sizes = tf.data.Dataset.from_tensor_slices(lines).map(checked).make_one_shot_iterator().get_next()
        with tf.Session() as session:
            assert [int(session.run(sizes)) for _ in range(6)] == [3, 9, 4, 1, 17, 12]
            with pytest.raises(tf.errors.InvalidArgumentError, match="assertion failed"):
                session.run(sizes)


def test_floats_beyond_integers_are_cut_as_without_a_dataset():
    values = [[1.5] * n for n in range(1, 12)] + [[-2.5, 3e9, float("nan"), -3e9]]
    with tf.Graph().as_default(), tf.Session() as session:
        given = tf.placeholder(tf.float32, [None])
        expected = [session.run(tf.cast(given, tf.int32), {given: value}) for value in values]
        elements = tf.data.Dataset.from_generator(lambda: iter(values), tf.float32, [None])
        found = _elements(elements.map(lambda x: tf.cast(x, tf.int32)))
    for value, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(value, other)


@pytest.mark.parametrize("apart", [1, 3, 256])
@pytest.mark.parametrize("dims", [[], [2], [3, 3]])
def test_what_is_drawn_ahead_is_what_is_drawn_one_by_one(apart, dims):
    operands, attrs = [np.array(dims, np.int32)], {"dtype": tf.float32}
    ahead = short_draws.uniform(operands, [True], attrs)
    first = (1 << 64) - 5  # where words carry over
    places = [first + apart * i for i in range(100)] + [first + apart * 40, first + apart * 41 + 1, first]
    for place in places:
        one = short_draws.uniform(operands, [True], attrs)(77, place)
        np.testing.assert_array_equal(ahead(77, place), one, strict=True)
        ahead(77, place)[...] = 5  # the caller's
    np.testing.assert_array_equal(
        ahead(78, first + apart), short_draws.uniform(operands, [True], attrs)(78, first + apart)
    )


def test_a_function_of_which_a_part_stays_on_the_host_is_dearer_to_compile(monkeypatch):
    """Each call of it would be a step of several pieces, at more than the whole of what it computes."""
    prepared = []
    prepare = executor.Executor.prepare
    monkeypatch.setattr(executor.Executor, "prepare", lambda *given: (prepared.append(given[0].plan), prepare(*given)))

    def computed(image):
        for number in range(10):
            image = tf.sqrt(image * image + np.float32(number))
        return image

    def decoded(text):
        return computed(tf.reshape(tf.cast(tf.decode_raw(text, tf.uint8), tf.float32), [72, 72, 3]))

    pixels = np.arange(12 * 72 * 72 * 3, dtype=np.uint32).astype(np.uint8).reshape(12, 72, 72, 3)
    asked = []
    for dataset in (
        lambda: tf.data.Dataset.from_tensor_slices(pixels).map(lambda image: computed(tf.cast(image, tf.float32))),
        lambda: tf.data.Dataset.from_tensor_slices([image.tobytes() for image in pixels]).map(decoded),
    ):
        prepared.clear()
        with tf.Graph().as_default():
            found = _elements(dataset())
        asked.append(len(prepared))
        expected = pixels.astype(np.float32)
        for number in range(10):
            expected = np.sqrt(expected * expected + np.float32(number))
        np.testing.assert_allclose(np.stack(found), expected, rtol=1e-6)
    assert asked[0] > 8 > asked[1]


def _drawn(sizes, calls, fails_at=None, batched=True):
    """Batches of a function that draws, and the error that ends them."""

    def changed(size):
        values = tf.cast(tf.range(size), tf.float32) + tf.random_uniform([], seed=3)
        values = tf.where(tf.random_uniform([]) < 0.5, values[::-1], values)
        if fails_at is not None:
            with tf.control_dependencies([tf.assert_none_equal(size, fails_at, message="not this one")]):
                values = tf.identity(values)
        return values, tf.reduce_sum(values), tf.as_string(size)

    with tf.Graph().as_default():
        tf.set_random_seed(5)
        dataset = tf.data.Dataset.from_tensor_slices(np.array(sizes, np.int32)).map(changed, num_parallel_calls=calls)
        if batched:
            dataset = dataset.padded_batch(11, ([None], [], []))
        following = tf.data.make_one_shot_iterator(dataset).get_next()
        found = []
        with tf.Session() as session:
            while True:
                try:
                    found.append(session.run(following))
                except tf.errors.OutOfRangeError:
                    return found, None
                except tf.errors.InvalidArgumentError as problem:
                    return found, problem.message


@pytest.mark.parametrize("calls", [None, 2])
@pytest.mark.parametrize("threads", [False, True])
@pytest.mark.parametrize("fails_at", [None, 31])
def test_calls_for_several_elements_line_by_line(calls, threads, fails_at, monkeypatch):
    """What they give, draw and raise is what calls one after the other do."""
    monkeypatch.setattr(parallel, "WORTH_A_THREAD", 0.0 if threads else 1.0)
    monkeypatch.setattr(parallel, "GAIN", 1e9)
    sizes = [size for size in [1 + i * 7 % 40 for i in range(60)] if size != 31]
    sizes += [*range(32, 60)] if fails_at is None else [fails_at, *range(32, 60)]
    together = []
    several = straight_builder.Several.__call__
    monkeypatch.setattr(
        straight_builder.Several, "__call__", lambda *given: (together.append(len(given[1])), several(*given))[1]
    )
    found = _drawn(sizes, calls, fails_at)
    assert together.count(4) > 5
    monkeypatch.setattr(parallel, "TOGETHER", 10**9)
    together.clear()
    expected = _drawn(sizes, calls, fails_at)
    assert not together
    assert (found[1] is None) == (fails_at is None)
    assert str(found[1]) == str(expected[1])
    assert len(found[0]) == len(expected[0]) > 1
    for one, other in zip(found[0], expected[0], strict=True):
        for value, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(value, right, strict=True)


def test_no_element_is_taken_that_nobody_asks_for():
    """Calls for several elements take no more of the input than the batch that is asked for."""
    given = []

    def generate():
        for number in range(100):
            given.append(number)
            yield "x" * (number % 9)

    with tf.Graph().as_default(), tf.Session() as session:
        dataset = tf.data.Dataset.from_generator(generate, tf.string, [])
        dataset = dataset.map(lambda text: tf.decode_raw(tf.string_join([text, "abc"]), tf.uint8))
        following = tf.data.make_one_shot_iterator(dataset.padded_batch(6, [None])).get_next()
        for turn in range(1, 9):
            assert session.run(following).shape[0] == 6
            assert len(given) == 6 * turn


def test_a_bug_of_calls_line_by_line_is_said_once(monkeypatch):
    """Elements are then computed one by one, and no more is tried in vain than now and then."""
    tried = []

    def broken(several, rows, turn):
        tried.append(len(rows))
        raise TypeError("not like this")

    monkeypatch.setattr(straight_builder.Several, "__call__", broken)
    monkeypatch.setattr(faults, "_warned", set())
    sizes = [1 + i * 7 % 40 for i in range(160)]
    with pytest.warns(tf.errors.KernelBugWarning, match="not like this") as warned:
        found = _drawn(sizes, None)
    assert len(warned) == 1
    assert 3 < len(tried) < 40
    monkeypatch.setattr(parallel, "TOGETHER", 10**9)
    for one, other in zip(found[0], _drawn(sizes, None)[0], strict=True):
        for value, right in zip(one, other, strict=True):
            np.testing.assert_array_equal(value, right, strict=True)


def test_a_file_that_is_no_image_fails_alone(tmp_path):
    """The images beside it, which are decoded with it, come."""
    with tf.Graph().as_default(), tf.Session() as session:
        pixels = tf.placeholder(tf.uint8, [None, None, 3])
        encoded = tf.image.encode_jpeg(pixels)
        files = []
        for number in range(30):
            image = np.full((8 + number, 9 + 2 * number, 3), 4 * number, np.uint8)
            files.append(session.run(encoded, {pixels: image}) if number != 21 else b"no image")
        dataset = tf.data.Dataset.from_tensor_slices(files)
        dataset = dataset.map(lambda text: tf.image.resize_images(tf.image.decode_jpeg(text, 3), [4, 5]))
        following = tf.data.make_one_shot_iterator(
            dataset.apply(tf.data.experimental.ignore_errors()).batch(5)
        ).get_next()
        found = np.concatenate([session.run(following) for _ in range(6)])
    levels = [4 * number for number in range(30) if number != 21]
    assert found.shape == (29, 4, 5, 3)
    np.testing.assert_allclose(found, np.broadcast_to(np.reshape(levels, (-1, 1, 1, 1)), found.shape), atol=2)
