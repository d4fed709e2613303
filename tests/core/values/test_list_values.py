"""Lists as values: versions of host lists against Python lists, traced lists against host lists, and between them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from anabranch.core.contract.kernels import NotCompilable
from anabranch.core.values import dtypes
from anabranch.core.values.list_values import HostList, TracedList, equal, from_host, to_host
from anabranch.xla import engine, lists

assert lists  # hands the array functions in


def floats(*items: float) -> HostList:
    return HostList(dtypes.float32, (), [np.float32(item) for item in items])


def shown(value: HostList) -> list:
    return [None if item is None else np.asarray(item).tolist() for item in value.elements]


# ---------------------------------------------------------------------------------------------------------------- host
@pytest.mark.parametrize("seed", range(5))
def test_versions_against_python_lists(seed: int) -> None:
    draw = random.Random(seed)
    versions: list[tuple[HostList, list[float]]] = [(HostList(dtypes.float32, ()), [])]
    for step in range(400):
        value, model = draw.choice(versions[-3:]) if draw.random() < 0.8 else draw.choice(versions)
        kind = draw.choice(["push", "pop", "set", "read", "resize", "push"])
        if kind == "push" or not model:
            versions.append((value.push(float(step)), [*model, float(step)]))
        elif kind == "pop":
            rest, last = value.pop()
            assert last == model[-1]
            versions.append((rest, model[:-1]))
        elif kind == "set":
            place = draw.randrange(len(model))
            versions.append((value.set(place, float(step)), [*model[:place], float(step), *model[place + 1 :]]))
        elif kind == "resize" and None not in model:
            versions.append((value.resized(len(model) - 1), model[:-1]))
        else:
            place = draw.randrange(len(model))
            assert value.get(place) == model[place]
    for value, model in versions:
        assert list(value.elements) == model
        assert value.length == len(model)


def test_a_loop_pays_for_one_element_each_time() -> None:
    """Pushes, writes and pops along one chain never copy the list."""
    value = HostList.blank(dtypes.float32, (), 1000)
    items = value.elements
    for i in range(1000):
        value = value.set(i, float(i))
    value = value.push(1.0)
    for _ in range(500):
        value, _ = value.pop()
    assert value.elements is items


def test_a_popped_element_is_kept_by_nobody() -> None:
    import gc
    import weakref

    class Element(np.ndarray):
        pass

    element = np.zeros(3).view(Element)
    alive = weakref.ref(element)
    value = HostList(dtypes.float64, None).push(element)
    del element
    value, last = value.pop()
    del last
    gc.collect()
    assert alive() is None


def test_sums_and_zeros() -> None:
    a, b = floats(1, 2, 3), HostList.blank(dtypes.float32, (), 3).set(1, np.float32(10))
    assert shown(a.plus(b)) == shown(b.plus(a)) == [1, 12, 3]
    assert shown(b.plus(b)) == [None, 20, None]
    assert shown(a) == [1, 2, 3]
    assert shown(a.zeros()) == [0, 0, 0]
    nested = HostList(dtypes.variant, None, [floats(1, 2), floats(3)])
    assert [shown(item) for item in nested.plus(nested).elements] == [[2, 4], [6]]
    assert [shown(item) for item in nested.zeros().elements] == [[0, 0], [0]]
    with pytest.raises(Exception, match=r"(?s)different number of elements.*Given: lists of 3 and 2"):
        a.plus(floats(1, 2))


def test_equality() -> None:
    assert equal(floats(1, np.nan), floats(1, np.nan))
    assert not equal(floats(1), floats(1, 2))
    assert not equal(floats(1), HostList(dtypes.float32, (), [None]))
    assert equal(from_host(floats(1, 2)), floats(1, 2))
    assert not equal(object(), object())


# -------------------------------------------------------------------------------------------------------------- traced
def jitted(function, *arguments):
    jax = engine.jax()
    with engine.x64():
        return jax.jit(function)(*arguments)


def new(capacity: int = 0, size: int = 0) -> TracedList:
    return TracedList(dtypes.float32, None, None, size, capacity)


def test_pushes_grow_a_list_of_known_size() -> None:
    def function(x):
        value = new().push(x).push(2 * x)
        return value, value.shortened().push(5 * x), value.shortened()

    found = [shown(to_host(value)) for value in jitted(function, np.float32([1, 2]))]
    assert found == [[[1, 2], [2, 4]], [[1, 2], [5, 10]], [[1, 2]]]


def test_pushes_stay_within_what_is_reserved() -> None:
    jax = engine.jax()

    def function(x, count):
        start = new().with_capacity(4).materialised(new().push(x)).with_size(jax.numpy.int32(0))
        made = jax.lax.fori_loop(0, count, lambda i, value: value.push(x * i), start)
        return made, made.released().push(-x)

    first, second = jitted(function, np.float32(3), 2)
    assert (first.capacity, second.capacity) == (4, 5)
    assert shown(to_host(first)) == [0, 3]
    assert shown(to_host(second)) == [0, 3, -3]


def test_a_full_list_of_unknown_size_makes_room() -> None:
    def function(x, size):
        return new().push(x).push(x).with_size(size).push(3 * x)

    assert shown(to_host(jitted(function, np.float32(1), np.int32(2)))) == [1, 1, 3]
    assert shown(to_host(jitted(function, np.float32(1), np.int32(1)))) == [1, 3]


def test_one_written_element_is_added_alone() -> None:
    def function(x, index):
        whole = new(3, 3).set(0, x).set(1, x).set(2, x)
        single = new(3, 3).set(index, 10 * x)
        return whole.plus(single), single.plus(whole), single.plus(single), single.plus(new(3, 3)), single

    found = [shown(to_host(value)) for value in jitted(function, np.float32(1), 1)]
    assert found == [[1, 11, 1], [1, 11, 1], [0, 20, 0], [0, 10, 0], [0, 10, 0]]


def test_resizing() -> None:
    def function(x):
        value = new().push(x).push(2 * x)
        return value.resized(1), value.resized(3), new().resized(2).set(1, x)

    assert [shown(to_host(value)) for value in jitted(function, np.float32(1))] == [[1], [1, 2, 0], [0, 1]]


def test_lists_of_lists() -> None:
    def function(x, index):
        short, long = new().push(x), new().push(x).push(2 * x).push(3 * x)
        outer = TracedList(dtypes.variant, None, None, 0).push(short).push(long).push(new().push(7 * x))
        return outer, outer.get(index), outer.set(0, long), outer.plus(outer), outer.zeros()

    outer, inner, changed, doubled, zeros = (to_host(value) for value in jitted(function, np.float32(1), 1))
    assert [shown(item) for item in outer.elements] == [[1], [1, 2, 3], [7]]
    assert shown(inner) == [1, 2, 3]
    assert [shown(item) for item in changed.elements] == [[1, 2, 3], [1, 2, 3], [7]]
    assert [shown(item) for item in doubled.elements] == [[2], [2, 4, 6], [14]]
    assert [shown(item) for item in zeros.elements] == [[0], [0, 0, 0], [0]]


def test_lists_of_lists_of_lists() -> None:
    def function(x):
        inner = TracedList(dtypes.variant, None, None, 0).push(new().push(x))
        wide = inner.push(new().push(x).push(2 * x))
        return TracedList(dtypes.variant, None, None, 0).push(inner).push(wide)

    found = to_host(jitted(function, np.float32(1)))
    assert [[shown(part) for part in item.elements] for item in found.elements] == [[[1]], [[1], [1, 2]]]


def test_what_no_array_can_hold() -> None:
    def different(x):
        return new().push(x).push(x[0])

    for function, told in (
        (different, "different shapes"),
        (lambda x: new().push(x).with_size(x[0]).stacked(), "known only afterwards"),
        (lambda x: new().push(x).plus(new().push(x[0])), "different shapes"),
    ):
        with pytest.raises(NotCompilable, match=told):
            jitted(function, np.float32([1, 2]))
    with pytest.raises(NotCompilable, match="different shapes"):
        from_host(HostList(dtypes.float32, None, [np.zeros(2), np.zeros(3)]))


@pytest.mark.parametrize("capacity", [None, 5])
def test_between_the_tiers(capacity) -> None:
    xp = engine.jax().numpy
    made = HostList(dtypes.float32, (2,), [np.float32([1, 2]), None, np.float32([3, 4])], limit=7)
    traced = from_host(made, xp, capacity)
    assert traced.capacity == (capacity or 3)
    assert traced.known_size == 3
    assert traced.limit == to_host(traced).limit == 7
    assert shown(to_host(traced)) == [[1, 2], [0, 0], [3, 4]]
    blank = from_host(HostList.blank(dtypes.float32, (2,), 3), xp, capacity)
    assert blank.items is None
    assert shown(to_host(blank)) == [None] * 3
    nested = HostList(dtypes.variant, None, [floats(1, 2), None, floats(3)])
    assert [shown(item) for item in to_host(from_host(nested, xp, capacity)).elements] == [[1, 2], [], [3]]


def test_a_stacked_list_is_not_copied_on_its_way() -> None:
    array = np.arange(6.0).reshape(3, 2)
    made = HostList.from_array(dtypes.float64, (2,), array)
    assert made.whole is array
    assert made.push(array[0]).whole is None
    assert from_host(made).items is array


def test_flattening() -> None:
    jax = engine.jax()
    for value in (new(4, 2), new().push(np.float32(1)), new().push(np.float32(1)).with_size(np.zeros(1, np.int32))):
        leaves, aux = value.flatten()
        hash(aux)
        again = TracedList.unflatten(aux, leaves)
        assert again.flatten()[1] == aux
        assert again.capacity == value.capacity
        assert jax.tree_util.tree_structure(value) == jax.tree_util.tree_structure(again)


# -------------------------------------------------------------------------------------------------------------- uniform
def reserved(capacity: int) -> TracedList:
    made = TracedList(dtypes.int32, None, None, 0, 0).with_capacity(capacity).maybe_uniform()
    return made.with_size(np.array(0, np.int32))


def test_a_uniform_list_takes_no_memory() -> None:
    pair = np.array([2, 3], np.int32)
    made = reserved(4).push(pair).push(pair.copy())
    assert made.is_uniform
    assert made.items is None
    leaves, aux = made.flatten()
    assert not leaves
    again = TracedList.unflatten(aux, leaves)
    assert again.flatten()[1] == aux
    assert hash(aux) == hash(again.flatten()[1])
    np.testing.assert_array_equal(again.uniform, pair)
    assert shown(to_host(again)) == [[2, 3], [2, 3]]
    assert lists.fit_variable(None, reserved(4), made).is_uniform  # type: ignore[arg-type]


@pytest.mark.parametrize("other", [np.array([2, 4], np.int32), np.array([2, 3], np.int64)])
def test_another_element_makes_it_an_array(other: np.ndarray) -> None:
    made = reserved(4).push(np.array([2, 3], np.int32)).push(other)
    assert not made.is_uniform
    assert made.items is not None
    assert shown(to_host(made)) == [[2, 3], other.tolist()]
    old = lists.fit_variable(None, reserved(4).push(np.array([2, 3], np.int32)), made)  # type: ignore[arg-type]
    assert shown(to_host(old)) == [[2, 3]]


def test_uniform_lists_of_branches() -> None:
    a, b = reserved(4).push(np.array([7], np.int32)), reserved(4).push(np.array([8], np.int32))
    assert lists.common(None, [a, a]).like.is_uniform  # type: ignore[arg-type]
    assert lists.common(None, [reserved(4), a]).like.is_uniform  # type: ignore[arg-type]
    for pair in ([a, b], [b, a], [a.plain(), b]):
        kind = lists.common(None, pair)  # type: ignore[arg-type]
        assert [shown(to_host(lists.fit(kind, value))) for value in pair] == [shown(to_host(value)) for value in pair]
