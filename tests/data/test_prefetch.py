"""When a prefetch makes its elements ahead: by what elements take in the mean, not by interruptions."""

import types

import pytest

from anabranch.ops.data import buffering

SLOW = 2 * buffering.WORTH_A_THREAD


def begins_after(elements, monkeypatch, limit=2000):
    """How many elements are made before a thread pays; None if it never does.

    Args:
        elements: per element its seconds by the clock and of the processor.
    """
    now = [0.0, 0.0]
    clock = types.SimpleNamespace(perf_counter=lambda: now[0], thread_time=lambda: now[1])
    monkeypatch.setattr(buffering, "time", clock)
    slowness = buffering._Slowness()
    for count, (elapsed, busy) in enumerate(elements):
        if slowness.pays:
            return count
        if count == limit:
            return None
        began = slowness.begin()
        now[0] += elapsed
        now[1] += busy
        slowness.note(began)
    return None


def cycle(*elements):
    while True:
        yield from elements


@pytest.mark.parametrize("busy", [0.0, SLOW])
def test_slow_elements_get_a_thread_soon(busy, monkeypatch):
    assert begins_after(cycle((SLOW, busy)), monkeypatch) == 2


def test_interruptions_of_quick_elements_do_not(monkeypatch):
    quick = (1e-5, 1e-5)
    assert begins_after(cycle((0.02, 1e-5), *[quick] * 9), monkeypatch) is None


def test_a_slow_start_does_not(monkeypatch):
    start = [(1.0, 1.0)]
    assert begins_after([*start, *[(1e-5, 1e-5)] * 100], monkeypatch) is None


def test_rare_elements_that_keep_the_processor_busy_do(monkeypatch):
    quick = (1e-5, 1e-5)
    assert begins_after(cycle(*[quick] * 3, (0.02, 0.02)), monkeypatch) < 20
