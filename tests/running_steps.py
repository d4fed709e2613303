"""What tests need to know of steps that run in other threads: no test sleeps and hopes, and none races with a deadline.

A step that is to wait is waited for until it does (:func:`until_waiting`); a step that is to miss its deadline gets a
distant one, which comes when the step is where the test wants it (:func:`expire`). So a slow machine changes nothing.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import anabranch as tf
from anabranch.core.cancellation import CancellationToken

LONG = 60.0
"""Seconds that tests wait for what has to come: only those that fail wait as long."""
DISTANT = tf.RunOptions(timeout_in_ms=100_000)
"""A deadline that comes by :func:`expire`."""


def until(condition: Callable[[], Any], seconds: float = LONG) -> None:
    """Wait until something holds."""
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "what the test waits for does not come"
        time.sleep(0.001)


def _is_waiting(token: CancellationToken) -> bool:
    callbacks = list((token._callbacks or {}).values())
    return any(callback.__qualname__.startswith("CancellationToken.wait_for.") for callback in callbacks)


def waiting(session: tf.Session) -> int:
    """How many steps of a session wait in a channel op."""
    return sum(_is_waiting(token) for token in list(session._worker.running))


def until_waiting(session: tf.Session, count: int = 1) -> None:
    """Wait until so many steps of a session wait in a channel op, which others then find in line."""
    until(lambda: waiting(session) >= count)


def expire(session: tf.Session) -> None:
    """Let the deadlines of a session's running steps come now."""
    for token in list(session._worker.running):
        if token.deadline is not None:
            token.deadline = time.monotonic()
            token.expire()


@contextlib.contextmanager
def expiring(session: tf.Session, when: Callable[[], Any]) -> Iterator[tf.RunOptions]:
    """Options for steps of the block, whose deadline comes as soon as ``when()`` holds."""
    over = threading.Event()

    def watch() -> None:
        until(lambda: over.is_set() or when())
        while not over.is_set():
            expire(session)
            over.wait(0.001)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield DISTANT
    finally:
        over.set()
        watcher.join()
