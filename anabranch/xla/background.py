"""What goes on beside the program, and ends with it: threads, and compilations in a process of their own.

A process ends by waiting for its threads, so that a compilation of seven seconds in one of them keeps a finished script
for seven seconds. A thread that nobody waits for is no way out: the interpreter ends threads that come back to it, and
one that comes back from the middle of XLA takes the process down with it (``terminate called``, exit status 134). So a
program for a CPU is compiled in a process of its own (:func:`compiled_elsewhere`), of which the thread only awaits the
answer. At the end the threads are interrupted wherever they are in Python, and are over within milliseconds.

The process that compiles goes on, at a low priority, if it has its whole request and its result is of use to the next
start: it puts the code on disk, where that start finds it once it has lowered the same program, or waits for it. There
is at most one such process for each folder of programs, with a limit of `LEFT_SECONDS` of CPU time; all others are
killed.

What a thread does in XLA itself cannot be cut short and should take no time: loading what was compiled elsewhere,
filling a buffer. Devices other than CPUs belong to one process, so programs for them are compiled in the thread, which
the end of the process then waits for.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import dataclasses
import hashlib
import io
import os
import selectors
import struct
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from anabranch.core import conditions, errors
from anabranch.xla import compiler_process, disk_cache, engine

try:
    import resource
except ImportError:  # Windows
    resource = None  # type: ignore[assignment]

LEFT_SECONDS = 120
"""CPU seconds that a process which compiles for the next start may take in all."""
LEFT_NICENESS = 5
_PIECE = 1 << 16
"""Bytes that are written at a time."""
_LOOKS_UP = 0.03
"""Seconds after which a thread that awaits a compilation looks whether it is to end."""

_lock = threading.Lock()
_threads: set[threading.Thread] = set()
_processes: dict[threading.Thread, _Process] = {}
"""The process that each thread awaits."""
_left: subprocess.Popen[bytes] | None = None
"""The process that nobody awaits, and that compiles for the next start."""
_stopped: set[threading.Thread] = set()
_ended = False


class Ended(BaseException):
    """Raised in a thread of the background when the process ends."""


class NotPossible(Exception):
    """There can be no process that compiles: the reason."""


@dataclasses.dataclass
class _Process:
    """A process that compiles."""

    popen: subprocess.Popen[bytes]
    kept: str
    """The name under which it puts the code on disk if nobody awaits it; empty if it does not."""
    is_asked: bool = False
    """Whether it has its whole request: without that it can compile nothing by itself."""

    def leave(self) -> None:
        """Let it go on by itself if there is a use for that, else end it. The lock is held."""
        global _left
        going_on = _going_on()
        alone = going_on is None or going_on[0] == self.popen.pid
        if not (self.kept and self.is_asked and alone and hasattr(resource, "prlimit")):
            self.popen.kill()
            return
        with contextlib.suppress(OSError):  # it has ended
            resource.prlimit(self.popen.pid, resource.RLIMIT_CPU, (LEFT_SECONDS, LEFT_SECONDS))
            os.setpriority(os.PRIO_PGRP, self.popen.pid, LEFT_NICENESS)
            disk_cache.of_process().put(compiler_process.GOING_ON, f"{self.popen.pid} {self.kept}".encode())
        if _left is not self.popen:
            _let_go(_left)
        _left = self.popen


def _let_go(process: subprocess.Popen[bytes] | None) -> None:
    """Keep quiet about a process that goes on when its object is gone."""
    if process is not None and process.poll() is None:
        process.returncode = 0


def _going_on() -> tuple[int, str] | None:
    """The process that a program has left behind, and the name under which it will put its code on disk."""
    noted = disk_cache.of_process().get(compiler_process.GOING_ON)
    if noted is None:
        return None
    process, name = noted.decode().split()
    try:
        command = Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return None
    return (int(process), name) if Path(compiler_process.__file__).name.encode() in command else None


def _from_disk(name: str) -> bytes | None:
    """The code that a process puts, or has put, on disk under that name; None if there is none."""
    cache = disk_cache.of_process()
    while not cache.has(name) and (going_on := _going_on()) and going_on[1] == name:
        raise_if_ended()
        time.sleep(_LOOKS_UP)
    code = cache.get(name) if cache.has(name) else None
    if code is not None:  # from now on it is part of the whole program
        cache.remove(name)
    return code


def start(work: Callable[[], None], name: str) -> threading.Thread | None:
    """Run ``work`` in a thread; while the process ends, here and now, and there is no thread."""
    with _lock:
        if not _ended:
            if not _threads:
                # Registered after JAX, so called before it gives up its devices.
                atexit.unregister(_end)
                atexit.register(_end)
            thread = threading.Thread(target=_run, args=(work,), name=name, daemon=True)
            thread.may_be_interrupted = True  # type: ignore[attr-defined]  # see core/one_time.py
            conditions.start(thread)
            _threads.add(thread)
            return thread
    work()
    return None


def _run(work: Callable[[], None]) -> None:
    # What the interruption of a thread leaves behind is nobody's concern.
    with contextlib.suppress(Ended):
        try:
            work()
        finally:
            with _lock:
                _threads.discard(threading.current_thread())
                _stopped.discard(threading.current_thread())


def stop(thread: threading.Thread) -> None:
    """Have a thread of the background end soon: what it has compiled elsewhere is at most the next start's."""
    with _lock:
        if thread in _threads:
            _stopped.add(thread)
            if thread in _processes:
                _processes[thread].leave()


def _end() -> None:
    global _ended
    with _lock:
        _ended = True
        threads = list(_threads)
        for process in _processes.values():
            process.leave()
    _say_nothing_of_ended()
    while threads := [thread for thread in threads if thread.is_alive()]:
        for thread in threads:
            ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread.ident or 0), ctypes.py_object(Ended))
        threads[0].join(0.02)
    _let_go(_left)


def _say_nothing_of_ended() -> None:
    """An interruption may meet a callback of the garbage collector, or a thread that has just left its work: neither is
    to be printed.
    """
    unraisable, unhandled = sys.unraisablehook, threading.excepthook
    sys.unraisablehook = lambda problem: None if problem.exc_type is Ended else unraisable(problem)
    threading.excepthook = lambda problem: None if problem.exc_type is Ended else unhandled(problem)


def is_busy() -> bool:
    """Whether threads of the background trace or compile."""
    return bool(_threads)


def raise_if_ended() -> None:
    """Raise in a thread of the background that is to end, before it does what may last."""
    thread = threading.current_thread()
    if thread in _stopped or (_ended and thread in _threads):
        raise Ended


def _after_fork() -> None:
    """In a forked child: threads and processes are the parent's."""
    global _left
    _threads.clear()
    _processes.clear()
    _left = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


class _Elsewhere(engine.Client):
    """A client of XLA whose compilations are made by another process; in all else the client itself."""

    def __init__(self, client: Any, stored: str) -> None:
        super().__init__(client)
        self.stored = stored

    def compile_and_load(self, module: Any, executable_devices: Any, compile_options: Any, **_: Any) -> Any:
        bytecode = io.BytesIO()
        module.operation.write_bytecode(bytecode)
        devices = " ".join(map(str, (len(self.client.devices()), *(device.id for device in executable_devices))))
        request = devices.encode(), bytecode.getvalue(), compile_options.SerializeAsString()
        kept = hashlib.sha256(b"\0".join((self.stored.encode(), *request))).hexdigest() if self.stored else ""
        self.code = (_from_disk(kept) if kept else None) or _answer(*request, kept.encode())
        return self.client.deserialize_executable(self.code, executable_devices, compile_options)


def compiled_elsewhere(
    lowered: Any, options: dict[str, Any] | None = None, stored: str | None = None
) -> tuple[Any, bytes]:
    """What ``lowered.compile(options)`` gives, compiled by a process of its own, and the code as it came from there.

    A program that is to be kept on disk under the name ``stored`` is compiled to its end even if this process ends
    before, and what was left by another process in this way is taken.

    Raises:
        NotPossible: there is no such process here.
        InternalError: XLA could not compile it.
    """
    client = _Elsewhere(lowered._lowering.compile_args["backend"], stored or "")
    if client.platform != "cpu":
        raise NotPossible(f"the {client.platform} belongs to this process")
    with engine.not_kept_by_jax():  # it would serialise what is loaded here
        compiled, _ = engine.compiled(lowered, options, client)
    return compiled, client.code


def _answer(*request: bytes) -> bytes:
    if not sys.executable or getattr(sys, "frozen", False):
        raise NotPossible("no Python executable is known that could be started")
    raise_if_ended()
    packages = Path(str(sys.modules["jaxlib"].__file__)).parents[1]
    command = [sys.executable, "-P", compiler_process.__file__, str(packages)]
    try:
        with _lock:
            if _ended:
                raise NotPossible("this process ends")
            process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                start_new_session=True,  # an interrupt from the terminal is the program's
            )
            compiler = _processes[threading.current_thread()] = _Process(process, request[-1].decode())
    except OSError as problem:
        raise NotPossible(str(problem)) from problem
    try:
        _send(process, b"".join(struct.pack("<Q", len(field)) + field for field in request))
        with _lock:
            compiler.is_asked = True
        reply = _reply(process)
    finally:
        with _lock:
            _processes.pop(threading.current_thread(), None)
            if process is not _left and process.poll() is None:
                process.kill()
                process.wait()
        for pipe in (process.stdin, process.stdout):
            with contextlib.suppress(OSError):  # not all of the request was taken
                if pipe is not None:
                    pipe.close()
    if reply[:1] == compiler_process.COMPILED:
        return reply[1:]
    if reply[:1] == compiler_process.FAILED:
        raise errors.InternalError(None, None, f"XLA cannot compile a program: {reply[1:].decode()}")
    raise NotPossible(f"the process that compiles ended with status {process.returncode}")


def _send(process: subprocess.Popen[bytes], request: bytes) -> None:
    """Send a request of any size; now and then look whether this thread is to end.

    `communicate` with a timeout would not do: when it is called again, it does not send what was not taken before.
    """
    pipe = process.stdin
    assert pipe is not None
    rest = memoryview(request)
    with contextlib.suppress(BrokenPipeError), selectors.DefaultSelector() as selector:
        if os.name == "posix":
            os.set_blocking(pipe.fileno(), False)
            selector.register(pipe, selectors.EVENT_WRITE)
        while rest:
            raise_if_ended()
            if os.name == "posix" and not selector.select(_LOOKS_UP):
                continue
            with contextlib.suppress(BlockingIOError):
                rest = rest[os.write(pipe.fileno(), rest[:_PIECE]) :]
    with contextlib.suppress(OSError):  # it has ended
        pipe.close()
    process.stdin = None


def _reply(process: subprocess.Popen[bytes]) -> bytes:
    """Await the reply; now and then look whether this thread is to end."""
    while True:
        try:
            return process.communicate(timeout=_LOOKS_UP)[0]
        except subprocess.TimeoutExpired:
            raise_if_ended()
