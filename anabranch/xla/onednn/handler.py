"""What XLA calls for a convolution: the handler in C if it is installed, else the one in Python below.

Policy. A call carries its :class:`~anabranch.xla.onednn.primitives.Work` as text, the size of its scratch buffer, and
the text's hash, by which the handler finds the primitives. They are made when XLA instantiates the call, always by
Python, once for all calls of the same work, and stay until the process ends, as XLA does not say when a program is
gone. A call in C costs 3 µs, does not need Python's lock, and shares pieces of its work with XLA's threads; one in
Python costs 44 µs, which convolutions of a millisecond do not feel, and waits for the lock if other Python code runs.

Forked children: compiled runs are refused there once the parent has compiled anything (:mod:`anabranch.xla.engine`),
so that no child calls the threads of its parent's OpenMP.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import importlib
import importlib.util
import logging
import threading
from typing import Any

from anabranch.core.one_time import Once
from anabranch.xla import engine
from anabranch.xla.onednn import frames, library, primitives
from anabranch.xla.onednn.library import Library

NATIVE = "anabranch_native"
"""The package with the handler in C; it is built from ``native/``."""
_NATIVE_INTERFACE = 2
"""The version of what the two handlers share: :class:`~anabranch.xla.onednn.primitives.ProgramRecord`, the setup."""
_log = logging.getLogger("anabranch")
_lock = threading.Lock()
_programs: dict[int, tuple[str, primitives.ProgramRecord, primitives.Caller]] = {}
_kept: list[Any] = []
"""What C code points to."""


def number_of(text: str) -> int:
    """The number by which a call's work is found."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "little", signed=True) or 1


class Handler:
    """The handler of this process."""

    def __init__(self) -> None:
        self.library: Library = primitives.usable()
        self.native: ctypes.CDLL | None = None
        """The handler in C, if it is there."""
        self.stream = primitives.new_stream()
        native = self._native()
        if native is not None:
            try:
                self._register(native.anabranch_onednn_execute)
                self.native = native
                return
            except Exception as reason:  # XLA refuses a handler that was built for another version
                _log.warning("The handler of %s is of no use here, Python's takes its place: %s", NATIVE, reason)
        self._register(frames.handler(self._execute))

    def _register(self, execute: Any) -> None:
        instantiate = frames.handler(self._instantiate)
        _kept.extend((instantiate, execute))
        engine.jax().ffi.register_ffi_target(
            frames.TARGET,
            {"instantiate": frames.capsule(instantiate), "execute": frames.capsule(execute)},
            platform="cpu",
        )

    def _native(self) -> ctypes.CDLL | None:
        if not _native_is_there():
            return None
        library = ctypes.CDLL(str(importlib.import_module(NATIVE).path()))
        version = library.anabranch_onednn_interface()
        if version != _NATIVE_INTERFACE:
            _log.warning("%s has version %d of the handler, not %d: build it anew", NATIVE, version, _NATIVE_INTERFACE)
            return None
        at = self.library.address
        library.anabranch_onednn_setup.argtypes = [ctypes.c_void_p] * 6
        library.anabranch_onednn_setup(
            self.library.engine,
            self.stream,
            at("dnnl_memory_create"),
            at("dnnl_memory_destroy"),
            at("dnnl_primitive_execute"),
            self.library.set_threads_address,
        )
        library.anabranch_onednn_add.argtypes = [ctypes.c_int64, ctypes.c_void_p]
        return library

    @property
    def described(self) -> str:
        """In a few words, for ``explain``."""
        how = "C" if self.native is not None else "Python"
        threads = "XLA's threads" if self.native is not None else f"{self.library.threads} threads"
        return f"oneDNN {self.library.shown_version}, {threads}, called from {how}"

    # ------------------------------------------------------------------------------------------------------- the stages
    def _instantiate(self, frame: Any) -> None:
        given = frames.attributes(frame)
        number, text, scratch = given["number"], given["work"], given["scratch"]
        assert isinstance(number, int)
        assert isinstance(text, str)
        assert isinstance(scratch, int)
        with _lock:
            if number in _programs:
                if _programs[number][0] != text:
                    raise ValueError(f"two convolutions have the number {number}: {text}, {_programs[number][0]}")
                return
            record = primitives.generated(primitives.Work.read(text), scratch)
            _programs[number] = (text, record, primitives.Caller(record))
            if self.native is not None and self.native.anabranch_onednn_add(number, ctypes.addressof(record)):
                raise MemoryError("the table of convolutions")

    def _execute(self, frame: Any) -> None:
        number = frames.attributes(frame)["number"]
        assert isinstance(number, int)
        _programs[number][2](self.stream, frames.buffers(frame))


of_process = Once(Handler, "handler-of-convolutions")
"""The handler, registered on first use."""


def takes_pieces() -> bool:
    """Whether the handler of this process has threads for the pieces of its work."""
    return of_process.here().native is not None


def identity() -> Any:
    """What the programs of this process depend on: the library, and which handler there is."""
    library_identity = library.identity()
    return library_identity and (library_identity, _native_is_there())


@functools.cache
def _native_is_there() -> bool:
    return importlib.util.find_spec(NATIVE) is not None


def ready_for(executable: bytes) -> None:
    """Register the handler if a serialised program calls it.

    Raises:
        NotUsable: it does, and there is no library.
    """
    if frames.TARGET.encode() in executable:
        of_process.here()
