"""Memory of large arrays comes back once nobody holds it, and never before."""

from __future__ import annotations

import concurrent.futures
import gc
import sys
import threading
import time

import numpy as np
import pytest

import anabranch as tf
from anabranch.core.values import spare_arrays

SHAPE = (300, 200)


@pytest.fixture(autouse=True)
def _own_memory(monkeypatch):
    monkeypatch.setattr(spare_arrays, "_kept", {})


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_that_was_dropped_is_given_out_again():
    array = spare_arrays.empty(SHAPE, np.float32)
    place = address(array)
    assert place % 64 == 0
    del array
    assert address(spare_arrays.empty(SHAPE, np.float32)) == place
    assert address(spare_arrays.empty((SHAPE[0] * SHAPE[1],), np.int32)) == place


@pytest.mark.parametrize(
    "keep", [lambda a: a, lambda a: a[3:5], lambda a: a.T, memoryview, lambda a: a.reshape(-1)[7:]]
)
def test_memory_that_is_held_is_not(keep):
    array = spare_arrays.empty(SHAPE, np.float32)
    place = address(array)
    held = keep(array)
    del array
    others = [spare_arrays.empty(SHAPE, np.float32) for _ in range(3)]
    assert place not in [address(other) for other in others]
    del held


def test_small_arrays_and_objects_are_numpys_own():
    assert spare_arrays.empty((3,), np.float32).base is None
    assert spare_arrays.empty((10**6,), object).base is None
    assert not spare_arrays._kept


def test_what_is_kept_is_bounded(monkeypatch):
    monkeypatch.setattr(spare_arrays, "MOST_KEPT", 1 << 20)
    for size in range(100_000, 200_000, 1000):
        spare_arrays.empty((size,), np.float32)
    assert sum(size * len(kept) for size, kept in spare_arrays._kept.items()) <= 1 << 20
    arrays = [spare_arrays.empty(SHAPE, np.float32) for _ in range(20)]
    assert len({address(array) for array in arrays}) == 20


def test_threads_never_get_the_same_memory():
    wrong = []

    def work(number):
        for _ in range(300):
            array = spare_arrays.empty(SHAPE, np.int32)
            array[::50] = number
            if not np.all(array[::50] == number):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_threads_that_ask_for_ever_new_sizes(monkeypatch):
    """Each miss adds a size and lets go of others, while other threads do the same."""
    monkeypatch.setattr(spare_arrays, "MOST_KEPT", 1 << 25)
    failed = []

    class Collected:
        def __init__(self):
            self.itself = self

        def __del__(self):
            time.sleep(0)

    def work(number):
        sizes = np.random.default_rng(number).integers(1 << 17, 1 << 20, 600)
        try:
            for size in sizes.tolist():
                Collected()
                assert spare_arrays.empty((size,), np.uint8).nbytes == size
        except BaseException as problem:
            failed.append(problem)

    before, switching = gc.get_threshold(), sys.getswitchinterval()
    gc.set_threshold(5)
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        gc.set_threshold(*before)
        sys.setswitchinterval(switching)
    assert not failed
    assert sum(size * len(kept) for size, kept in spare_arrays._kept.items()) <= 1 << 25


def test_arrays_of_ever_new_sizes_take_each_others_memory():
    places = set()
    for rows in range(500, 531):
        array = spare_arrays.empty((rows, 300), np.float32)
        assert address(array) % 64 == 0
        array[...] = rows
        places.add(address(array))
        del array
    assert len(places) <= 2


def test_batches_and_fetches_that_are_kept_do_not_change():
    data = np.arange(400_000, dtype=np.float32).reshape(2000, 200)
    with tf.Graph().as_default():
        element = (
            tf.data.Dataset.from_tensor_slices(data).shuffle(50, seed=1).repeat().batch(300).make_one_shot_iterator()
        )
        batch = element.get_next()
        twice = [batch, batch * 1]
        with tf.Session() as session:
            kept = [session.run(twice) for _ in range(12)]
            for first, second in kept:
                assert np.array_equal(first, second)
                first[...] = -1
            assert all(second.min() >= 0 for _, second in kept)


def test_arithmetic_on_large_arrays_takes_memory_that_is_there():
    x = np.arange(200_000, dtype=np.float32)
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        fed = tf.placeholder(tf.float32, [200_000])
        whether = tf.placeholder(tf.bool, [])
        chosen = tf.where(whether, fed[::-1], fed)
        results = [chosen / 4.0 - 1.0, tf.maximum(chosen * chosen, fed + 2.0), tf.minimum(fed, 3.0)]
        kept = []
        for turn in range(8):
            kept.append(session.run(results, {fed: x + turn, whether: turn % 2 == 0}))
    for turn, (scaled, larger, smaller) in enumerate(kept):
        own = x + np.float32(turn)
        picked = own[::-1] if turn % 2 == 0 else own
        assert np.array_equal(scaled, picked / np.float32(4) - np.float32(1))
        assert np.array_equal(larger, np.maximum(picked * picked, own + np.float32(2)))
        assert np.array_equal(smaller, np.minimum(own, np.float32(3)))
    spare_arrays._kept.clear()
    first = spare_arrays.arithmetic(np.add, x, x)
    before = address(first)
    del first
    assert address(spare_arrays.arithmetic(np.subtract, x, np.float32(1))) == before
    wide = spare_arrays.arithmetic(np.add, x, np.ones((2, 1), np.float32))
    assert wide.shape == (2, 200_000)
    assert spare_arrays.arithmetic(np.add, x, np.float64(1) * np.ones(1)).dtype == np.float64


@pytest.mark.parametrize("function", [np.subtract, np.divide, np.maximum, np.add])
@pytest.mark.parametrize(
    "shape", [(60, 90, 3), (3, 40, 80, 3), (40, 50, 3), (2, 7, 200, 4), (5000, 2), (1, 1, 2500, 3), (64, 1, 1, 96, 2)]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int32])
def test_a_number_for_each_channel(function, shape, dtype):
    if function is np.divide and dtype is np.int32:
        return
    pixels = np.random.default_rng(1).integers(1, 200, shape).astype(dtype)
    numbers = np.arange(1, shape[-1] + 1, dtype=dtype)
    for few in numbers, numbers.reshape((1,) * (len(shape) - 1) + (-1,)):
        assert spare_arrays.is_by_channel(pixels, few)
        for operands in (pixels, few), (few, pixels):
            result = spare_arrays.arithmetic(function, *operands)
            np.testing.assert_array_equal(result, function(*operands), strict=True)
    if pixels.shape[:-1] in ((60, 90), (3, 40, 80)):
        part = pixels[..., 1:-1, 5:60, :]
        assert not part.flags.c_contiguous
        assert spare_arrays.is_by_channel(part, numbers)
        np.testing.assert_array_equal(
            spare_arrays.arithmetic(function, part, numbers), function(part, numbers), strict=True
        )
    for other in numbers[:1], numbers[:, None] if len(numbers) != shape[-2] else numbers[:1], numbers.astype("i1"):
        assert not spare_arrays.is_by_channel(pixels, other)
    assert not spare_arrays.is_by_channel(pixels[..., ::-1], numbers)


def test_scratch_memory_is_a_threads_own_and_bounded():
    first, second = spare_arrays.scratch((5, np.float32), (7, np.uint8))
    assert (first.shape, first.dtype, second.shape, second.dtype) == ((5,), np.float32, (7,), np.uint8)
    assert not np.shares_memory(first, second)
    again, _ = spare_arrays.scratch((5, np.float32), (7, np.uint8))
    assert np.shares_memory(first, again)
    with concurrent.futures.ThreadPoolExecutor(1) as pool:
        (other,) = pool.submit(spare_arrays.scratch, (5, np.float32)).result()
    assert not np.shares_memory(first, other)
    (large,) = spare_arrays.scratch((spare_arrays.MOST_SCRATCH + 1, np.uint8))
    (another,) = spare_arrays.scratch((spare_arrays.MOST_SCRATCH + 1, np.uint8))
    assert not np.shares_memory(large, another)
