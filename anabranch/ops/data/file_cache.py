"""The cache in a file: what a pass over a dataset gave, in TensorFlow's format.

The file is a checkpoint (``NAME.index`` and a data file) that holds component ``c`` of element ``i`` under ``i_c``. The
first pass writes it beside its place; it is there, whole, when the pass has come to its end, and from then on the input
is not asked. A pass that does not come to its end leaves nothing behind. Bytes that are not those that were written are
refused (DataLossError).

While a pass writes, ``NAME.lockfile`` says so, and no other may (AlreadyExistsError, as in TensorFlow). It names the
process, so that the lock of one that has died is taken over; TensorFlow wants it to be deleted by hand.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time
import weakref
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.file_errors import translated
from anabranch.core.values import dtypes
from anabranch.ops.data.elements.stacks import Element
from anabranch.ops.data.pipeline import Iterator

_DIGITS = 7
"""Of an element's number in a key, as TensorFlow writes it."""


def _key(element: int, component: int, components: int) -> str:
    return f"{element:0{_DIGITS}d}_{component:0{len(str(components - 1))}d}"


class _Writing:
    """A pass that writes: its lock, and what it has written."""

    def __init__(self, name: str, op: Any) -> None:
        self._lock = f"{name}.lockfile"
        self._take(op)
        try:
            self.target = hooks.bundle_writer(name)
        except BaseException:
            self._unlock()
            raise

    def _take(self, op: Any) -> None:
        folder = os.path.dirname(self._lock)
        with translated(self._lock, op):
            if folder:
                os.makedirs(folder, exist_ok=True)
            while True:
                try:
                    handle = os.open(self._lock, os.O_CREAT | os.O_EXCL | os.O_WRONLY)
                    break
                except FileExistsError:
                    self._take_over(op)
            with os.fdopen(handle, "w") as file:
                file.write(f"Created at: {int(time.time())}\n{socket.gethostname()} {os.getpid()}\n")

    def _take_over(self, op: Any) -> None:
        """Remove the lock of a process that has died; AlreadyExistsError if its owner may live."""
        try:
            with open(self._lock) as file:
                contents = file.read()
        except FileNotFoundError:
            return
        host, _, process = contents.partition("\n")[2].strip().rpartition(" ")
        if host == socket.gethostname() and process.isdigit():
            try:
                os.kill(int(process), 0)
            except ProcessLookupError:
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self._lock)
                return
            except PermissionError:
                pass
        raise errors.AlreadyExistsError(
            None,
            op,
            "There appears to be a concurrent caching iterator running - cache lockfile already exists "
            f"('{self._lock}').\n"
            + errors.message(
                f"a cache that another iterator is writing ({contents.strip()})",
                "one iterator that writes a cache",
                f"dataset.cache(another name), or os.remove({self._lock!r}) if no other program uses it",
            ),
        )

    def _unlock(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._lock)

    def commit(self) -> None:
        """Put the cache in its place."""
        self.target.commit()
        self._unlock()

    def abandon(self) -> None:
        """Leave nothing behind."""
        self.target.abandon()
        self._unlock()


class FileCached(Iterator):
    """A pass over the elements of a cache in a file, or one that writes it."""

    fields = ("position",)

    def start(self) -> None:
        self.position = 0
        self._over = False
        self._writing: _Writing | None = None
        self._finalizer: Any = None
        self._reader: Any = None
        self._reads = os.path.exists(f"{self.dataset.filename}.index")
        self._length = 0

    def next(self) -> Element | None:
        if self._over:
            return None
        return self._read() if self._reads else self._write()

    def _read(self) -> Element | None:
        dataset = self.dataset
        components = len(dataset.types)
        try:
            if self._reader is None:
                self._reader = hooks.open_bundle(dataset.filename)
                self._length = len(self._reader.tensors) // components
            if self.position == self._length:
                self._over = True
                return None
            keys = [_key(self.position, i, components) for i in range(components)]
            self.position += 1
            return tuple([self._reader.read(key) for key in keys])
        except errors.OpError as problem:
            text = problem.message
            if not isinstance(problem, errors.DataLossError):
                text = f"{dataset.filename}: {text}"
            raise errors.DataLossError(
                None,
                dataset.op,
                f"{text}\n"
                + errors.message(
                    f"the cache {dataset.filename}, whose element {self.position} cannot be read",
                    "a whole cache of this dataset",
                    f"os.remove({dataset.filename + '.index'!r}), and a pass that writes it again",
                ),
            ) from None

    def _write(self) -> Element | None:
        dataset = self.dataset
        if self._writing is None:
            self._writing = _Writing(dataset.filename, dataset.op)
            self._finalizer = weakref.finalize(self, self._writing.abandon)
        element = self.inputs[0].next()
        if element is None:
            self._over = True
            writing, self._writing = self._writing, None
            self._finalizer.detach()
            try:
                writing.commit()
            except BaseException:
                writing.abandon()
                raise
            return None
        for i, (part, dtype) in enumerate(zip(element, dataset.types, strict=True)):
            if dtype is dtypes.variant or dtype is dtypes.resource:
                raise errors.UnimplementedError(
                    None,
                    dataset.op,
                    errors.message(
                        f"a {dtype.name} as component {i} of an element that goes into the cache {dataset.filename}",
                        "numbers, bools or strings: a sparse tensor or dataset has no bytes there",
                        "dataset.cache() in memory, or tf.sparse.to_dense(x) before",
                    ),
                )
            self._writing.target.add(_key(self.position, i, len(element)), dtype, part)
        self.position += 1
        return element

    def restore(self, state: dict[str, Any]) -> None:
        """Go to a saved place: in the file if it is there, else by writing it anew up to the place."""
        self.close()
        if os.path.exists(f"{self.dataset.filename}.index"):
            self.start()
            self.position = state["position"]
            return
        self.inputs = [item.iterate(self.context.inner(i)) for i, item in enumerate(self.dataset.inputs)]
        self.start()
        while self.position < state["position"] and self.next() is not None:
            pass

    def close(self) -> None:
        super().close()
        if self._writing is not None:
            self._finalizer.detach()
            self._writing.abandon()
            self._writing = None
        if self._reader is not None:
            self._reader.close()
            self._reader = None


__all__ = ["FileCached"]
