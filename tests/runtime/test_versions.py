"""Values of variables that stand in the host's memory: programs take them without a copy at each call."""

from __future__ import annotations

import numpy as np
import pytest

import anabranch as tf
from anabranch.runtime.state import slots
from anabranch.runtime.state.slots import Version
from anabranch.xla import engine


@pytest.mark.parametrize("use_resource", [False, True])
def test_programs_do_not_copy_an_array_of_the_host_at_each_call(use_resource: bool) -> None:
    table = np.arange(4096 * 8, dtype=np.float32).reshape(4096, 8)
    with tf.Graph().as_default():
        variable = tf.get_variable("table", initializer=table, use_resource=use_resource)
        place = tf.placeholder(tf.int32, [3])
        rows = tf.gather(variable, place) * 2.0
        with tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
            session.run(variable.initializer)
            slot = next(iter(session._worker.manager._slots.values()))
            memory = np.empty(table.nbytes + engine.ALIGNMENT, np.uint8)
            start = (4 - memory.ctypes.data) % engine.ALIGNMENT
            unaligned = memory[start : start + table.nbytes].view(np.float32).reshape(table.shape)
            unaligned[:] = table
            slot.version = Version(unaligned)
            taken = []
            for _ in range(3):
                np.testing.assert_array_equal(session.run(rows, {place: [0, 7, 4095]}), table[[0, 7, 4095]] * 2.0)
                taken.append(slot.version.value)
            assert all(value is taken[0] for value in taken)
            assert taken[0].ctypes.data % engine.ALIGNMENT == 0
            np.testing.assert_array_equal(session.run(variable), table)


def test_what_is_small_or_aligned_or_of_objects_is_kept_as_it_is() -> None:
    small, aligned, objects = np.ones(3), engine.empty((4096, 8), np.float64), np.array([b"a"] * 4096, object)
    assert engine.kept(small) is small
    assert engine.kept(aligned) is aligned
    assert engine.kept(objects) is objects
    strided = np.arange(1 << 16).reshape(256, 256).T
    assert engine.kept(strided).flags.c_contiguous
    np.testing.assert_array_equal(engine.kept(strided), strided)


def test_beside_other_devices_the_default_one_takes_an_aligned_array_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "_other_devices_used", True)
    memory = engine.empty((4096 * 8 + 1,), np.float32)
    version = Version(memory[1:].reshape(4096, 8))
    memory[:] = 3.0
    taken = version.on(None)
    assert taken.ctypes.data % engine.ALIGNMENT == 0
    assert version.on(None) is taken
    np.testing.assert_array_equal(taken, np.full([4096, 8], 3.0, np.float32))


def test_an_array_that_many_calls_take_becomes_one_of_the_device_in_the_same_memory() -> None:
    table = engine.empty((64, 8), np.float64)
    table[...] = np.arange(512).reshape(64, 8)
    version = Version(table)
    taken = [version.for_program() for _ in range(slots.OFTEN_CALLED + 2)]
    assert all(value is table for value in taken[: slots.OFTEN_CALLED])
    assert taken[-1] is taken[-2] is not table
    np.testing.assert_array_equal(np.asarray(taken[-1]), table)
    assert taken[-1].dtype == np.float64
    assert version.value is table
    assert version.host() is table
