"""Saving while training goes on.

:meth:`BackgroundSaves.start` pins the versions of all variables at once: the state between two steps, without a copy.
A thread writes them, and lets go of each as soon as it is written. A step that replaces a variable in the meantime
makes a new version beside the pinned one. Tables and other things that an op must compute first are fetched while no
step may change what they depend on. One save runs at a time; the next one waits for it.
"""

from __future__ import annotations

import contextlib
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from anabranch.core import conditions, errors
from anabranch.core.contract import inference
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.formats import bundle
from anabranch.platform import logging
from anabranch.runtime.state import spare_buffers
from anabranch.runtime.state.borrowing import borrowed
from anabranch.runtime.state.resources import ResourceManager
from anabranch.runtime.state.slots import Claim, Slot, Version, handle_of
from anabranch.session import BaseSession

NICE = 15
"""Priority of the thread that writes: what the processors have left while steps run."""
_WRAPPED = ("_sess", "raw_session", "_session")


def session_behind(sess: Any) -> BaseSession:
    """The session that a wrapper holds.

    Raises:
        TypeError: there is none in this process.
    """
    session = sess
    for _ in range(20):
        if isinstance(session, BaseSession):
            return session
        session = next((getattr(session, name) for name in _WRAPPED if getattr(session, name, None) is not None), None)
    raise TypeError(
        errors.message(
            f"an asynchronous save of a {type(sess).__name__}", "a tf.Session of this process", "asynchronous=False"
        )
    )


class _Wanted:
    """A tensor to be saved: a variable, or what must be fetched."""

    def __init__(self, name: str, spec: str, tensor: Tensor) -> None:
        self.name = name
        self.spec = spec
        self.tensor = tensor
        self.dtype = tensor.dtype.base
        self.maker = _variable_of(tensor)
        self.slot: Slot | None = None
        self.version: Version | None = None
        self.array: np.ndarray | None = None


def _variable_of(tensor: Tensor) -> Operation | None:
    """The op that makes the variable whose value ``tensor`` is; None if it is something else."""
    op = tensor.op
    while op.type == "Identity" and not op.definition.makes:
        op = op._inputs[0].op
    if op.type == "ReadVariableOp":
        op = op._inputs[0].op
    return op if op.definition.makes == "variable" and op.definition.create is None else None


def _shards(graph: Any, save_tensor: str) -> list[list[_Wanted]]:
    """What each ``SaveV2`` op behind a saver's output writes."""
    waiting = [graph.get_tensor_by_name(save_tensor).op]
    seen = set(waiting)
    writers = []
    while waiting:
        op = waiting.pop()
        if op.type == "SaveV2":
            writers.append(op)
            continue
        if op.type == "SaveSlices":
            raise NotImplementedError(
                errors.message(
                    "an asynchronous save in the format V1", "the format V2", "write_version=tf.train.SaverDef.V2"
                )
            )
        for before in (*(tensor.op for tensor in op._inputs), *op.control_inputs):
            if before not in seen:
                seen.add(before)
                waiting.append(before)
    writers.sort(key=lambda op: op._id)
    return [
        [
            _Wanted(name, spec, tensor)
            for name, spec, tensor in zip(
                _constant_texts(op._inputs[1]), _constant_texts(op._inputs[2]), op._inputs[3:], strict=True
            )
        ]
        for op in writers
    ]


def _constant_texts(tensor: Tensor) -> list[str]:
    array = inference.partial_value(tensor)
    if array is None:
        raise NotImplementedError(
            errors.message(f"names in {tensor.name!r} that are not constants", "a saver's graph", "asynchronous=False")
        )
    return [item.decode() if isinstance(item, bytes) else str(item) for item in np.asarray(array, object).ravel()]


def _slot(manager: ResourceManager, maker: Operation) -> Slot:
    handle = handle_of(maker)
    slot = manager.find(handle)
    if slot is None:
        slot = manager.slot(handle, maker._attrs["dtype"], maker._attrs["shape"])
    return slot


class BackgroundSaves:
    """Write one checkpoint at a time in a thread."""

    def __init__(self) -> None:
        # Not the thread: a signal that interrupts `Thread.join` makes Python 3.11 take the thread for one that has
        # ended, and the process would not wait for it when it ends.
        self._done: threading.Event | None = None
        self._problem: BaseException | None = None

    def wait(self) -> None:
        """Wait for the save that is running, and raise what went wrong in it."""
        if self._done is not None:
            self._done.wait()
            self._done = None
        problem, self._problem = self._problem, None
        if problem is not None:
            raise problem

    def check(self, sess: Any, saver_def: Any) -> None:
        """TypeError or NotImplementedError if what :meth:`start` is given cannot be saved in the background."""
        _shards(session_behind(sess).graph, saver_def.save_tensor_name)

    def start(
        self, sess: Any, saver_def: Any, path: str, prepare: Callable[[], None], finish: Callable[[str], None]
    ) -> None:
        """Hold the state of the session and write it to ``path``, by a thread.

        There, ``prepare()`` runs before, and ``finish(path)`` when it is on the disk.

        Raises:
            FailedPreconditionError: a variable has no value.
        """
        self.wait()
        session = session_behind(sess)
        manager = session._manager
        spare_buffers.expect(session.graph)
        shards = _shards(session.graph, saver_def.save_tensor_name)
        wanted = [item for shard in shards for item in shard]
        held = [item for item in wanted if item.maker is not None]
        slots = [_slot(manager, item.maker) for item in held if item.maker is not None]
        fetched = [item for item in wanted if item.maker is None]
        if fetched:
            claim = Claim(frozenset(manager.slots()), frozenset())
            try:
                manager.begin(claim)  # until all is fetched, no step commits
                versions = manager.pin(slots)
                for item, array in zip(fetched, session.run([item.tensor for item in fetched]), strict=True):
                    item.array = array
            finally:
                manager.end(claim)
        else:
            versions = manager.pin(slots)
        for item, slot, version in zip(held, slots, versions, strict=True):
            item.slot, item.version = slot, version
        done = conditions.Event()

        def write() -> None:
            try:
                self._write(manager, shards, path, prepare, finish)
            finally:
                done.set()

        conditions.start(threading.Thread(target=write, name="anabranch-save", daemon=False))
        self._done = done

    def _write(
        self,
        manager: ResourceManager,
        shards: list[list[_Wanted]],
        path: str,
        prepare: Callable[[], None],
        finish: Callable[[str], None],
    ) -> None:
        if sys.platform == "linux":  # there, a thread has a priority of its own: steps go first
            with contextlib.suppress(OSError):
                os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICE)
        try:
            try:
                prepare()
                bundle.write_bundle(path, *(_pieces(manager, shard) for shard in shards))
            finally:
                manager.unpin([item.version for shard in shards for item in shard if item.version is not None])
            finish(path)
        except BaseException as problem:
            logging.error("The asynchronous save of %s failed: %s", path, problem)
            self._problem = problem


def _pieces(manager: ResourceManager, shard: list[_Wanted]) -> Iterator[bundle.Piece]:
    """What is to be written; each version is let go when the next is asked for."""
    for item in shard:
        version = item.version
        array = item.array if version is None else borrowed(version)
        yield bundle.Piece(item.name, item.spec, item.dtype, array)
        del array
        item.array = None
        if version is not None and item.slot is not None:
            item.version = None
            manager.unpin([version])
            if manager.outdated(item.slot, version):
                manager.spares.put(version.value)
        del version


__all__ = ["BackgroundSaves", "session_behind"]
