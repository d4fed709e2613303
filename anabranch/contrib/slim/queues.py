"""``slim.queues`` and ``slim.prefetch_queue``: threads that fill queues."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import anabranch as tf
from anabranch.core import errors


class NestedQueueRunnerError(Exception):
    """Threads were started inside a block that had started them."""


_running: list[Any] = []


@contextlib.contextmanager
def QueueRunners(session: Any) -> Iterator[None]:
    """A block in which the threads of the graph's queues run."""
    if any(session is other for other in _running):
        raise NestedQueueRunnerError(
            "QueueRunners cannot be nested.\n"
            + errors.message("a block in a block of the same session", "one block", "the outer block alone")
        )
    _running.append(session)
    coordinator = tf.train.Coordinator()
    threads = []
    try:
        for runner in tf.get_collection(tf.GraphKeys.QUEUE_RUNNERS):
            threads += runner.create_threads(session, coord=coordinator, daemon=True, start=True)
        yield
    finally:
        _running.remove(session)
        coordinator.request_stop()
        with contextlib.suppress(RuntimeError):  # a thread that does not end in time is a daemon
            coordinator.join(threads, stop_grace_period_secs=120)


def prefetch_queue(
    tensors: Any,
    capacity: int = 8,
    num_threads: int = 1,
    dynamic_pad: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """A queue that threads fill with tensors (a list or dictionary); its ``dequeue()`` gives them in the same form.

    Args:
        tensors: the tensors; their sizes must be known, or their ranks with ``dynamic_pad``.
        capacity: how many the queue holds.
        num_threads: how many threads fill it.
        dynamic_pad: sizes may differ; batches are padded.
        shared_name: name under which sessions share the queue.
        name: name of the scope.
    """
    if num_threads < 1:
        raise ValueError(errors.message(f"num_threads={num_threads}", "1 at least", "num_threads=1"))
    names = sorted(tensors) if isinstance(tensors, dict) else None
    items = (
        [tf.convert_to_tensor(tensors[key]) for key in names] if names else [tf.convert_to_tensor(t) for t in tensors]
    )
    with tf.name_scope(name, "prefetch_queue", items) as within:
        kind = tf.PaddingFIFOQueue if dynamic_pad else tf.FIFOQueue
        queue = kind(
            capacity,
            [item.dtype for item in items],
            [item.shape for item in items],
            names=names,
            shared_name=shared_name,
            name="prefetch_queue",
        )
        enqueue = queue.enqueue(dict(zip(names, items, strict=True)) if names else items)
        tf.train.add_queue_runner(tf.train.QueueRunner(queue, [enqueue] * num_threads))
        share = tf.cast(queue.size(), tf.float32) * (1.0 / capacity)
        tf.summary.scalar(f"{within}fraction_of_{capacity}_full", share)
        return queue
