"""Bounded caches: what stays, what goes, stamps, counters, threads, ends."""

from __future__ import annotations

import gc
import os
import sys
import threading
import weakref

import pytest

from anabranch.core import cache
from anabranch.core.cache import Cache
from anabranch.core.live_set import LiveSet


class Thing:
    """Something that weak references may name."""


@pytest.fixture
def fast_switches():
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def together(*functions):
    """Runs functions in a thread each; raises what one of them raised."""
    problems = []

    def guarded(function):
        try:
            function()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=guarded, args=(function,)) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if problems:
        raise problems[0]


def test_the_entry_used_least_recently_goes():
    kept = Cache("things", 3)
    for key in "abc":
        kept.put(key, key.upper())
    assert kept.get("a") == "A"
    kept.put("d", "D")
    assert kept.keys() == ["c", "a", "d"]
    assert kept.values() == ["C", "A", "D"]
    assert kept.items() == [("c", "C"), ("a", "A"), ("d", "D")]
    assert len(kept) == 3
    assert "b" not in kept
    assert "c" in kept
    assert kept.peek("c") == "C"
    kept.put("e", "E")
    assert "c" not in kept  # a look does not count as a use
    kept.put("a", "again")
    assert kept.keys() == ["d", "e", "a"]
    assert repr(kept) == "<Cache of 3 of 3 things>"


def test_hits_and_misses_are_counted():
    kept = Cache("things", 3)
    assert kept.get("a") is None
    assert kept.get("a", default=0) == 0
    assert kept.get_or_make("a", lambda: 1) == 1
    assert kept.get_or_make("a", lambda: 2) == 1
    assert kept.get("a") == 1
    kept.peek("a")
    kept.peek("b")
    assert (kept.hits, kept.misses) == (2, 3)


def test_none_is_an_entry():
    kept = Cache("things", 3)
    assert kept.get_or_make("a", lambda: None) is None
    assert kept.get_or_make("a", lambda: pytest.fail("made twice")) is None
    assert kept.get("a", default=1) is None


def test_an_entry_with_another_stamp_is_none():
    kept = Cache("things", 3)
    kept.put("a", 1, stamp=5)
    assert kept.get("a", 5) == 1
    assert kept.get("a", 6) is None
    assert kept.get("a") is None
    assert kept.peek("a") == 1
    assert kept.peek("a", 6) is None
    assert kept.get_or_make("a", lambda: 2, stamp=6) == 2
    assert kept.get("a", 5) is None
    assert kept.add("a", 3, stamp=6) == 2
    assert kept.add("a", 3, stamp=7) == 3
    assert len(kept) == 1


def test_entries_are_dropped_one_by_one_and_all():
    kept = Cache("things", 3)
    kept.put("a", 1)
    kept.put("b", 2)
    kept.discard("a")
    kept.discard("a")
    assert kept.keys() == ["b"]
    kept.clear()
    assert len(kept) == 0
    kept.put("c", 3)
    assert kept.keys() == ["c"]


def test_a_closed_cache_keeps_nothing():
    kept = Cache("things", 3)
    kept.put("a", 1)
    kept.close()
    kept.put("a", 1)
    assert kept.add("a", 1) == 1
    assert kept.get_or_make("a", lambda: 2) == 2
    assert len(kept) == 0


def test_a_bound_of_nothing():
    kept = Cache("things", 0)
    assert kept.get_or_make("a", lambda: 1) == 1
    assert len(kept) == 0


def test_what_cannot_be_a_key_leaves_the_lock_free():
    kept = Cache("things", 3)
    with pytest.raises(TypeError, match="unhashable"):
        kept.get([])
    together(lambda: kept.put("a", 1))
    assert kept.get("a") == 1


def test_entries_die_when_they_are_dropped():
    kept = Cache("things", 2)
    references = []
    for key in range(4):
        thing = Thing()
        references.append(weakref.ref(thing))
        kept.put(key, thing)
    del thing
    assert [reference() is not None for reference in references] == [False, False, True, True]
    kept.put(3, None)
    assert references[3]() is None
    kept.close()
    assert references[2]() is None


def test_what_is_dropped_may_use_the_cache_from_another_thread():
    """It is destroyed when the lock is free: else this would not end."""
    kept = Cache("things", 1)

    class Talkative:
        def __del__(self):
            together(lambda: kept.peek("a"))

    for key in "ab":
        kept.put(key, Talkative())
    kept.put("b", 1)
    kept.put("c", Talkative())
    assert kept.add("d", 1) == 1
    kept.put("e", Talkative())
    kept.discard("e")
    kept.put("f", Talkative())
    kept.clear()
    assert len(kept) == 0


def test_an_entry_may_need_others_of_the_same_cache():
    kept = Cache("numbers", 50)

    def fibonacci(n):
        return kept.get_or_make(n, lambda: n if n < 2 else fibonacci(n - 1) + fibonacci(n - 2), exclusive=True)

    assert fibonacci(30) == 832040
    assert kept.misses == 31


def test_makers_do_not_hold_up_who_finds_something():
    kept = Cache("things", 3)
    kept.put("there", 1)
    found = threading.Event()

    def make():
        assert found.wait(20)
        return 2

    def find():
        assert kept.get_or_make("there", lambda: 0, exclusive=True) == 1
        found.set()

    together(lambda: kept.get_or_make("slow", make, exclusive=True), find)
    assert kept.get("slow") == 2


@pytest.mark.parametrize("exclusive", [False, True])
def test_threads_get_the_same_entry(exclusive, fast_switches):
    kept = Cache("things", 100)
    made, results = [], [[], [], [], []]

    def work(mine):
        for key in range(60):
            mine.append(kept.get_or_make(key, lambda: made.append(1) or Thing(), exclusive=exclusive))

    together(*[lambda mine=mine: work(mine) for mine in results])
    assert results[0] == results[1] == results[2] == results[3]
    assert len(made) == 60 if exclusive else len(made) >= 60
    assert kept.hits + kept.misses == 240


def test_threads_use_everything_at_once(fast_switches):
    kept = Cache("things", 8)
    done = threading.Event()

    def change(seed):
        for i in range(3000):
            key = (i * seed) % 23
            kept.get_or_make(key, lambda key=key: key)
            kept.put(key + 1, key + 1, stamp=i % 2)
            if i % 50 == 0:
                kept.discard(key)
            if i % 200 == 0:
                kept.clear()
        done.set()

    def look():
        while not done.is_set():
            assert all(key == value for key, value in kept.items())
            assert len(kept.keys()) <= 8
            assert len(kept.values()) <= 8
            cache.report(cache.every_cache())

    together(lambda: change(7), lambda: change(11), look)
    assert len(kept) <= 8


def test_results_of_functions_are_kept():
    calls = []

    @cache.memoized("squares for this test", 2)
    def square(n):
        calls.append(n)
        return n * n

    assert [square(n) for n in (1, 2, 1, 3, 2)] == [1, 4, 1, 9, 4]
    assert calls == [1, 2, 3, 2]
    (memo,) = [memo for memo in cache.memos() if memo.name == "squares for this test"]
    assert (len(memo), memo.bound, memo.hits, memo.misses) == (2, 2, 1, 4)
    assert memo in cache.every_cache()
    memo.clear()
    assert len(memo) == 0
    cache._memos.remove(memo)


def test_every_cache_is_listed_while_it_lives():
    kept = Cache("things that are listed", 3)
    assert any(one is kept for one in cache.every_cache())
    count = len(cache.every_cache())
    del kept
    gc.collect()
    assert len(cache.every_cache()) < count
    assert not [one for one in cache.every_cache() if one.name == "things that are listed"]


def test_a_report_has_a_line_for_each_name():
    first, second, other = Cache("plans", 3), Cache("plans", 3), Cache("views", 2)
    first.put("a", 1)
    second.put("b", 1)
    second.get("b")
    other.get("c")
    assert [line.split() for line in cache.report([first, other, second]).splitlines()] == [
        ["plans", "2", "in", "2", "1", "hits", "0", "misses"],
        ["views", "0", "of", "2", "0", "hits", "1", "misses"],
    ]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning", "ignore:os.fork:RuntimeWarning")
def test_a_forked_child_finds_no_lock_held():
    kept = Cache("things", 3)
    held, release = threading.Event(), threading.Event()

    def hold():
        with kept._lock, kept._making:
            held.set()
            release.wait(20)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(20)
    child = os.fork()
    if not child:
        os._exit(0 if kept.get_or_make("a", lambda: 1, exclusive=True) == 1 else 1)
    release.set()
    thread.join()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_live_sets_hold_nothing_and_survive_additions(fast_switches):
    live = LiveSet()
    first = Thing()
    live.add(first)
    live.add(first)
    assert list(live) == [first]
    live.add(Thing())
    assert len(live) == 1
    live.discard(first)
    live.discard(first)
    assert list(live) == []
    kept = []

    def add():
        for _ in range(3000):
            thing = Thing()
            live.add(thing)
            kept.append(thing)
            del kept[:-5]

    def look():
        for _ in range(300):
            list(live)

    together(add, look, add, look)
    assert len(live) == len(kept)
