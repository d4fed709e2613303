"""Variables and queues that nobody holds any more, wherever the garbage collector meets them."""

from __future__ import annotations

import gc

import anabranch as tf
from anabranch.eager import mode


def test_a_variable_that_is_collected_while_its_lock_is_held() -> None:
    manager = mode.EAGER.worker.manager
    gc.collect()
    before = len(manager.slots())
    variable = tf.Variable([1.0, 2.0])
    with manager.changed:  # as where a step makes a variable and the collector runs meanwhile
        del variable
        gc.collect()
    kept = tf.Variable(1.0)  # lets go of what could not go before
    assert len(manager.slots()) == before + 1
    del kept
    gc.collect()
    assert len(manager.slots()) == before


def test_a_queue_ends_when_the_next_resource_is_made() -> None:
    manager = mode.EAGER.worker.manager
    gc.collect()
    queue = tf.queue.FIFOQueue(3, tf.float32, shapes=[[]])
    handles = set(manager._objects)
    del queue
    gc.collect()
    kept = tf.Variable(1.0)
    assert len(handles - set(manager._objects)) >= 1
    del kept
