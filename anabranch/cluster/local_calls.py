"""Calls between processes of one machine and user: a message and its answer, through a socket without gRPC.

Policy. A call through gRPC passes four threads and takes some 0.4 ms of CPU time, most of what a small step over tasks
does. A *local call* passes none: the thread that calls writes to a socket and waits there, and the thread of the task
that reads from it answers. So a socket serves one call at a time; who calls while all are in use opens another, and
what is free is kept.

*Where.* A task listens at a Unix socket without a name in any folder (Linux's abstract ones), which ends with its
process. It tells the name to sessions of the same machine and user, those that share memory with it
(:mod:`anabranch.cluster.shared_memory`). Who connects must be a process of the same user, and says the cluster's token.

*What.* Pieces of steps that only compute and use variables. What waits for others (queues, rounds, transactions) goes
by gRPC, whose servers ask for a sign of life of who waits; so does all else, which is rare.

*Who is gone.* The end of a process closes its sockets. A task watches them with one thread, and tells the handler of
the call that runs there. The heartbeat of :mod:`anabranch.cluster.transport` covers a task that is stopped: it closes
all sockets to it. A caller that gives up closes the socket.
"""

from __future__ import annotations

import contextlib
import hmac
import logging
import os
import secrets
import select
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from anabranch.core import conditions

_HEAD = struct.Struct("<QQ")
"""Before a message: its length, and the number of the method. (Arrays in the message stay at multiples of 16.)"""
_FIRST_READ = 1 << 16
"""Bytes that are read at first: most messages are shorter."""
_MOST_IDLE = 16
"""Sockets to one task that are kept though nobody uses them."""
_log = logging.getLogger("anabranch")

Answer = Callable[[Any, Any], bytes]
"""What answers a message: (message, context) -> message. The context has ``add_callback``, as gRPC's do."""


def is_possible() -> bool:
    """Whether this system has sockets of this kind."""
    return sys.platform == "linux" and hasattr(socket, "SO_PEERCRED")


def _send(link: socket.socket, number: int, message: Any) -> None:
    head = _HEAD.pack(len(message), number)
    sent = link.sendmsg([head, message])
    if sent < len(head) + len(message):
        view = memoryview(message)
        if sent < len(head):
            link.sendall(head[sent:])
            sent = len(head)
        link.sendall(view[sent - len(head) :])


def _receive(link: socket.socket) -> tuple[int, memoryview] | None:
    """The number of the method and the message that come next; None if the other side is gone."""
    data = link.recv(_FIRST_READ)
    while 0 < len(data) < _HEAD.size:
        more = link.recv(_FIRST_READ)
        data = data + more if more else b""
    if not data:
        return None
    length, number = _HEAD.unpack_from(data)
    if len(data) == _HEAD.size + length:
        return number, memoryview(data)[_HEAD.size :]
    view = memoryview(bytearray(_HEAD.size + length))
    view[: len(data)] = data
    at = len(data)
    while at < len(view):
        count = link.recv_into(view[at:])
        if not count:
            return None
        at += count
    return number, view[_HEAD.size :].toreadonly()


# ------------------------------------------------------------------------------------------------------------ the task
class _Link:
    """A socket of a task, and the call that runs there."""

    def __init__(self, link: socket.socket) -> None:
        self.socket = link
        self._lock = threading.Lock()
        self._callbacks: list[Callable[[], None]] = []
        self._is_gone = False
        self._holders = 2
        """Who may still use the socket: the thread that serves it, and the one that watches it."""

    def add_callback(self, callback: Callable[[], None]) -> bool:
        """Have something called if the caller is gone before the answer; False if it is gone already."""
        with self._lock:
            if not self._is_gone:
                self._callbacks.append(callback)
            return not self._is_gone

    def answered(self) -> None:
        """Forget the call."""
        if self._callbacks:
            with self._lock:
                self._callbacks = []

    def let_go(self) -> None:
        """One of its two threads is done with the socket."""
        with self._lock:
            self._holders -= 1
            if self._holders:
                return
        self.socket.close()

    def gone(self) -> None:
        """Tell the call that runs that its caller is gone."""
        with self._lock:
            self._is_gone = True
            callbacks, self._callbacks = self._callbacks, []
        for callback in callbacks:
            callback()


class LocalListener:
    """What answers local calls to a task.

    Args:
        answers: by the names of methods.
        token: what callers must say.
    """

    def __init__(self, answers: Mapping[str, Answer], token: bytes) -> None:
        self._answers = [answers[name] for name in sorted(answers)]
        self._token = token
        self.name = ""
        """Where it listens; '' if it does not."""
        self._links: dict[int, _Link] = {}
        self._lock = threading.Lock()
        self._listener: socket.socket | None = None

    def start(self) -> None:
        """Begin to answer; does nothing where there are no such sockets."""
        if not is_possible():
            return
        name = f"anabranch-{secrets.token_hex(16)}"
        listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            listener.bind(f"\0{name}")
            listener.listen(64)
            self._events = select.epoll()
        except OSError:
            listener.close()
            return
        self._events.register(listener.fileno(), select.EPOLLIN)
        self._listener, self.name = listener, name
        conditions.start(threading.Thread(target=self._watch, name="anabranch local calls", daemon=True))

    def stop(self) -> None:
        """Answer no more; calls that run are given up."""
        listener = self._listener
        if listener is not None:
            self._listener, self.name = None, ""
            with contextlib.suppress(OSError):
                listener.shutdown(socket.SHUT_RDWR)  # which wakes the thread that watches it

    def _watch(self) -> None:
        """Take new callers, and hear of those that go."""
        listener = self._listener
        if listener is None:
            return
        while self._listener is not None:
            for descriptor, _ in self._events.poll():
                if descriptor != listener.fileno():
                    self._events.unregister(descriptor)
                    with self._lock:
                        link = self._links.pop(descriptor, None)
                    if link is not None:
                        link.gone()
                        link.let_go()
                elif self._listener is not None:
                    with contextlib.suppress(OSError):
                        self._take(listener.accept()[0])
        with self._lock:
            links, self._links = list(self._links.values()), {}
        for link in links:
            with contextlib.suppress(OSError):
                link.socket.shutdown(socket.SHUT_RDWR)
            link.gone()
            link.let_go()
        listener.close()
        self._events.close()

    def _take(self, caller: socket.socket) -> None:
        credentials = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, struct.calcsize("3i"))
        if struct.unpack("3i", credentials)[1] != os.getuid():
            caller.close()
            return
        link = _Link(caller)
        with self._lock:
            self._links[caller.fileno()] = link
        self._events.register(caller.fileno(), select.EPOLLRDHUP)
        conditions.start(threading.Thread(target=self._serve, args=(link,), name="anabranch local call", daemon=True))

    def _serve(self, link: _Link) -> None:
        try:
            first = link.socket.recv(len(self._token), socket.MSG_WAITALL)  # the first call may stand right behind it
            if not hmac.compare_digest(first, self._token):
                return
            while (request := _receive(link.socket)) is not None:
                number, message = request
                answer = self._answers[number](message, link)
                link.answered()
                _send(link.socket, number, answer)
        except OSError:
            pass  # the caller is gone
        finally:
            with contextlib.suppress(OSError):
                link.socket.shutdown(socket.SHUT_RDWR)  # which wakes the thread that watches it
            link.let_go()


# ---------------------------------------------------------------------------------------------------------- the caller
class LocalCall:
    """A call that has been sent, and whose answer has not been read."""

    __slots__ = ("_link", "_links")

    def __init__(self, links: LocalLinks, link: socket.socket) -> None:
        self._links = links
        self._link: socket.socket | None = link

    def fileno(self) -> int:
        """What can be read from when the answer is there."""
        assert self._link is not None
        return self._link.fileno()

    def answer(self) -> memoryview:
        """Wait for the answer.

        Raises:
            OSError: the task is gone, or the call was given up.
        """
        assert self._link is not None
        answered = None
        try:
            answered = _receive(self._link)
        finally:
            with self._links._lock:
                link, self._link = self._link, None
                self._links._take_back(link, answered is not None)
        if answered is None:
            raise ConnectionError("the task's process has ended")
        return answered[1]

    def drop(self) -> None:
        """Give the call up, whose answer nobody waits for."""
        with self._links._lock:
            link, self._link = self._link, None
            if link is not None:
                self._links._take_back(link, False)

    def cancel(self) -> None:
        """Give the call up: the task hears of it, and who waits for the answer gets an error."""
        with self._links._lock, contextlib.suppress(OSError):
            if self._link is not None:  # it may have been answered, and the socket be another's
                self._link.shutdown(socket.SHUT_RDWR)


class LocalLinks:
    """The sockets of this process to a task.

    Args:
        name: where the task listens.
        methods: the names of the methods that it answers.
        token: that of the cluster.
    """

    def __init__(self, name: str, methods: Iterable[str], token: bytes) -> None:
        self.name = name
        self._numbers = {method: i for i, method in enumerate(sorted(methods))}
        self._token = token
        self._idle: list[socket.socket] = []
        self._used: set[socket.socket] = set()
        self._lock = threading.Lock()
        self._closed = False

    def send(self, method: str, message: bytes, limit: float | None = None) -> LocalCall | None:
        """Call; None if the task does not answer here any more: nothing of the call has been carried out then.

        Raises:
            TimeoutError: the task has not taken all of the message within ``limit`` seconds, and never will.
        """
        number = self._numbers[method]
        while True:
            with self._lock:
                link = self._idle.pop() if self._idle else None
                if link is not None:
                    self._used.add(link)
            is_new = link is None
            if link is None:
                link = self._connected()
                if link is None:
                    return None
            is_sent = False
            try:
                if limit is None:
                    _send(link, number, message)
                else:
                    link.settimeout(limit)
                    _send(link, number, message)
                    link.settimeout(None)
                is_sent = True
                return LocalCall(self, link)
            except TimeoutError:
                raise
            except OSError:  # the task has closed it, and so has not read the whole message
                if is_new:
                    return None
            finally:
                if not is_sent:
                    with self._lock:
                        self._take_back(link, False)

    def _connected(self) -> socket.socket | None:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            link.connect(f"\0{self.name}")
            link.sendall(self._token)
        except OSError:
            link.close()
            return None
        with self._lock:
            if not self._closed:
                self._used.add(link)
                return link
        link.close()
        return None

    def _take_back(self, link: socket.socket, is_free: bool) -> None:
        """Note that a call has ended; the lock is held."""
        self._used.discard(link)
        if is_free and not self._closed and len(self._idle) < _MOST_IDLE:
            self._idle.append(link)
        else:
            link.close()

    def close(self) -> None:
        """Give up all calls, and take no more."""
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, []
            used = list(self._used)
        for link in idle:
            link.close()
        for link in used:
            with contextlib.suppress(OSError):
                link.shutdown(socket.SHUT_RDWR)
