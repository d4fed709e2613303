"""Random pipelines against a model in plain Python: each transformation is a function of a list, or of an iterator.

A pipeline is drawn as a list of stages over one source of int64 numbers; what else a stage makes of them (batches,
windows, groups, vectors) is summed. It is gone through to its end, and its place is saved somewhere: what came behind
it comes again once it is restored.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import anabranch as tf
from anabranch.core.graph.build import build

D = tf.data.Dataset
E = tf.data.experimental
MOST = 60
"""Elements of a pipeline that are compared; endless ones are cut there."""


class Stage(NamedTuple):
    """A transformation: of a dataset, and of a list of numbers."""

    name: str
    apply: Callable[[Any], Any]
    model: Callable[[list[int]], list[int]]


def windows(numbers: list[int], size: int, shift: int, stride: int, drops: bool) -> Iterator[list[int]]:
    """The windows of a list."""
    for first in range(0, len(numbers), shift):
        window = numbers[first : first + (size - 1) * stride + 1]
        if not drops or len(window) == (size - 1) * stride + 1:
            yield window[::stride]


def interleaved(lists: list[list[int]], cycle: int, block: int) -> list[int]:
    """Blocks of the lists in turn, ``cycle`` of them open at a time."""
    waiting, slots, result, place = iter(lists), [None] * cycle, [], 0
    over, idle = False, 0
    while not over or idle < cycle:
        current = slots[place]
        if current is None and not over:
            following = next(waiting, None)
            over = following is None
            slots[place] = None if following is None else iter(following)
            continue
        if current is None:
            idle += 1
            place = (place + 1) % cycle
            continue
        idle = 0
        part = list(itertools.islice(current, block))
        result += part
        if len(part) < block:
            slots[place] = None
        place = (place + 1) % cycle
    return result


def groups(numbers: list[int], key: int, size: int) -> list[int]:
    """Groups of equal remainders as they fill up, the rest by key; each group summed."""
    held: dict[int, list[int]] = {}
    result = []
    for number in numbers:
        held.setdefault(number % key, []).append(number)
        if len(held[number % key]) == size:
            result.append(sum(held.pop(number % key)))
    return result + [sum(held[remainder]) for remainder in sorted(held)]


def scanned(numbers: list[int]) -> list[int]:
    """Sums of all elements before each."""
    return [sum(numbers[:place]) for place in range(len(numbers))]


def unique(numbers: list[int]) -> list[int]:
    """The first of equal numbers."""
    return list(dict.fromkeys(numbers))


def _sum(dataset: Any) -> Any:
    return dataset.reduce(np.int64(0), lambda state, x: state + x)


small = st.integers(1, 5)
count = st.integers(-1, 9)


@st.composite
def stage(draw: Any) -> Stage:
    """One transformation with its operands."""
    kind = draw(st.sampled_from(sorted(KINDS)))
    return KINDS[kind](draw)


def _take(draw: Any) -> Stage:
    n = draw(count)
    return Stage(f"take({n})", lambda d: d.take(n), lambda x: x if n < 0 else x[:n])


def _skip(draw: Any) -> Stage:
    n = draw(count)
    return Stage(f"skip({n})", lambda d: d.skip(n), lambda x: [] if n < 0 else x[n:])


def _shard(draw: Any) -> Stage:
    n = draw(small)
    index = draw(st.integers(0, n - 1))
    return Stage(f"shard({n}, {index})", lambda d: d.shard(n, index), lambda x: x[index::n])


def _repeat(draw: Any) -> Stage:
    n = draw(st.integers(0, 3))
    return Stage(f"repeat({n})", lambda d: d.repeat(n), lambda x: x * n)


def _map(draw: Any) -> Stage:
    a, b, calls = draw(st.integers(-3, 3)), draw(st.integers(-5, 5)), draw(st.sampled_from([None, 1, 3]))
    return Stage(
        f"map({a}x+{b}, {calls})", lambda d: d.map(lambda x: a * x + b, calls), lambda x: [a * i + b for i in x]
    )


def _filter(draw: Any) -> Stage:
    n = draw(small)
    return Stage(
        f"filter(% {n})", lambda d: d.filter(lambda x: tf.not_equal(x % n, 0)), lambda x: [i for i in x if i % n]
    )


def _failing(draw: Any) -> Stage:
    """What is a multiple of a number fails, and is left out, alone."""
    n = draw(st.integers(2, 5))

    def checked(x: Any) -> Any:
        with tf.control_dependencies([tf.assert_none_equal(x % n, np.int64(0))]):
            return tf.identity(x)

    return Stage(
        f"failing(% {n})", lambda d: d.map(checked).apply(E.ignore_errors()), lambda x: [i for i in x if i % n]
    )


def _batched(draw: Any) -> Stage:
    n, drops = draw(small), draw(st.booleans())
    return Stage(
        f"batch({n}, {drops}) and sum",
        lambda d: d.batch(n, drops).map(tf.reduce_sum),
        lambda x: [sum(x[i : i + n]) for i in range(0, len(x), n) if not drops or i + n <= len(x)],
    )


def _rebatched(draw: Any) -> Stage:
    n = draw(small)
    return Stage(f"batch({n}) and unbatch", lambda d: d.batch(n).apply(E.unbatch()), list)


def _padded(draw: Any) -> Stage:
    n = draw(small)

    def model(x: list[int]) -> list[int]:
        rows = [[i] * (i % 3) for i in x]
        batches = [rows[i : i + n] for i in range(0, len(rows), n)]
        return [sum(map(sum, b)) - sum(max(map(len, b)) - len(row) for row in b) for b in batches]

    return Stage(
        f"padded_batch({n}) and sum",
        lambda d: (
            d.map(lambda x: tf.fill([x % 3], x)).padded_batch(n, [None], tf.constant(-1, tf.int64)).map(tf.reduce_sum)
        ),
        model,
    )


def _windowed(draw: Any) -> Stage:
    size, shift, stride, drops = draw(small), draw(small), draw(st.integers(1, 3)), draw(st.booleans())
    return Stage(
        f"window({size}, {shift}, {stride}, {drops}) and sum",
        lambda d: d.window(size, shift, stride, drops).map(_sum),
        lambda x: [sum(window) for window in windows(x, size, shift, stride, drops)],
    )


def _flat(draw: Any) -> Stage:
    n = draw(st.integers(0, 3))
    return Stage(
        f"flat_map({n})",
        lambda d: d.flat_map(lambda x: D.from_tensors(x).repeat(x % (n + 1))),
        lambda x: [i for i in x for _ in range(i % (n + 1))],
    )


def _interleave(draw: Any) -> Stage:
    cycle, block, calls = draw(small), draw(st.integers(1, 3)), draw(st.sampled_from([None, 2]))
    return Stage(
        f"interleave({cycle}, {block}, {calls})",
        lambda d: d.interleave(lambda x: D.from_tensors(x).repeat(x % 3), cycle, block, calls),
        lambda x: interleaved([[i] * (i % 3) for i in x], cycle, block),
    )


def _grouped(draw: Any) -> Stage:
    key, size = draw(small), draw(small)
    return Stage(
        f"group_by_window(% {key}, {size}) and sum",
        lambda d: d.apply(E.group_by_window(lambda x: x % key, lambda k, w: D.from_tensors(_sum(w)), size)),
        lambda x: groups(x, key, size),
    )


def _zipped(draw: Any) -> Stage:
    n = draw(st.integers(0, 12))
    return Stage(
        f"zip with range({n})",
        lambda d: D.zip((d, D.range(n))).map(lambda a, b: a + b),
        lambda x: [a + b for a, b in zip(x, range(n), strict=False)],
    )


def _concatenated(draw: Any) -> Stage:
    n = draw(st.integers(0, 5))
    return Stage(f"and range({n})", lambda d: d.concatenate(D.range(n)), lambda x: x + list(range(n)))


KINDS: dict[str, Callable[[Any], Stage]] = {
    "take": _take,
    "skip": _skip,
    "shard": _shard,
    "repeat": _repeat,
    "map": _map,
    "filter": _filter,
    "failing": _failing,
    "batched": _batched,
    "rebatched": _rebatched,
    "padded": _padded,
    "windowed": _windowed,
    "flat": _flat,
    "interleave": _interleave,
    "grouped": _grouped,
    "zipped": _zipped,
    "concatenated": _concatenated,
    "scan": lambda draw: Stage("scan", lambda d: d.apply(E.scan(np.int64(0), lambda s, x: (s + x, s))), scanned),
    "unique": lambda draw: Stage("unique", lambda d: d.apply(E.unique()), unique),
    "cache": lambda draw: Stage("cache", lambda d: d.cache(), list),
    "prefetch": lambda draw: Stage("prefetch", lambda d: d.prefetch(2), list),
    "take_while": lambda draw: Stage(
        "take_while(< 9)",
        lambda d: d.apply(E.take_while(lambda x: x < 9)),
        lambda x: list(itertools.takewhile(lambda i: i < 9, x)),
    ),
}

sources = st.one_of(
    st.integers(0, 14).map(lambda n: (f"range({n})", lambda: D.range(n), list(range(n)))),
    st.lists(st.integers(-9, 20), min_size=1, max_size=12).map(
        lambda x: (f"slices({x})", lambda: D.from_tensor_slices(np.array(x, np.int64)), x)
    ),
    st.lists(st.integers(-9, 20), max_size=9).map(
        lambda x: (f"generator({x})", lambda: D.from_generator(lambda: iter(x), tf.int64, []), x)
    ),
)


def check(source: Any, stages: list[Stage], place: int) -> None:
    """A pipeline gives what the model gives, and goes on behind a saved place as it would have."""
    _, make, numbers = source
    for each in stages:
        numbers = each.model(numbers)
        if len(numbers) > 10 * MOST:
            return
    with tf.Graph().as_default():
        dataset = make()
        for each in stages:
            dataset = each.apply(dataset)
        iterator = dataset.make_initializable_iterator()
        element = iterator.get_next()
        state = build("SerializeIterator", iterator._iterator_resource)
        stored = tf.placeholder(tf.string, [])
        written = tf.io.serialize_tensor(state)
        restored = build("DeserializeIterator", iterator._iterator_resource, tf.io.parse_tensor(stored, tf.variant))
        with tf.Session() as session:
            session.run(iterator.initializer)
            found: list[int] = []
            saved = None
            while len(found) < MOST:
                if len(found) == place:
                    saved = session.run(written)
                try:
                    found.append(int(session.run(element)))
                except tf.errors.OutOfRangeError:
                    break
            assert found == numbers[:MOST]
            if saved is not None:
                session.run(restored, {stored: saved})
                for number in found[place:]:
                    assert session.run(element) == number


PIPELINES = {
    "source": sources,
    "stages": st.lists(stage(), min_size=1, max_size=5),
    "place": st.integers(0, 8),
}


@settings(max_examples=12, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(**PIPELINES)
def test_random_pipelines(source: Any, stages: list[Stage], place: int) -> None:
    check(source, stages, place)


@pytest.mark.slow
@settings(max_examples=1500, deadline=None, suppress_health_check=list(HealthCheck))
@given(**PIPELINES)
def test_many_random_pipelines(source: Any, stages: list[Stage], place: int) -> None:
    check(source, stages, place)
