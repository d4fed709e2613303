"""Calls between tasks, over gRPC: the server of a task, and connections to others.

Policy. A call is a method's name, a header and values there; a header and values, or an error, back. Each call carries
the token. A connection serves all sessions of a process; there is one for each address.

*Who is gone.* A process that dies closes its connections, and calls to it end immediately. One that hangs, or a network
that drops everything, is found by a heartbeat of our own: while calls to a task are outstanding it is asked every
`BEAT` seconds for a sign of life; after `SILENCE` seconds without any, all calls to it end with UnavailableError. A
task may take as long as it likes for a step, as long as its process answers. (Keep-alive of gRPC would be answered by
threads that do not know whether Python runs.) The other way round a server learns from its transport that a caller is
gone, and cancels the step.

A call that the caller gives up is cancelled at the task, too: the transport says so there.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import hmac
import importlib
import logging
import os
import queue
import threading
import time
from collections.abc import Callable, Sequence
from concurrent import futures
from typing import Any

from anabranch.cluster import credentials, wire
from anabranch.cluster.local_calls import LocalCall, LocalLinks, LocalListener
from anabranch.cluster.shared_memory import Exchange
from anabranch.core import conditions, errors


@functools.cache
def _grpc() -> Any:
    """The package grpc, imported when something is first sent.

    Raises:
        UnimplementedError: it is not installed.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")  # it would tell of each peer that goes away
    try:
        return importlib.import_module("grpc")
    except ModuleNotFoundError as problem:
        raise errors.UnimplementedError(
            None,
            None,
            errors.message(
                "a cluster without the package grpcio",
                "the packages of the extra for clusters",
                "pip install 'anabranch[cluster]'",
            ),
        ) from problem


BEAT = 1.5
SILENCE = 7.0
"""Seconds without a sign of life after which a task counts as gone."""
RAY_ADDRESS = "RAY_ADDRESS"
"""The environment variable that names a Ray cluster; tasks are not part of one (docs/cluster.md says why)."""
IDLE = 30.0
"""Seconds after which a thread of a server without work ends."""
_SERVICE = "anabranch.Task"
_LOCAL = ("Run",)
"""What may be called without gRPC by processes of the same machine."""
_TOKEN = "anabranch-token"
_OPTIONS = [
    ("grpc.max_receive_message_length", -1),
    ("grpc.max_send_message_length", -1),
    ("grpc.so_reuseport", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.http2.bdp_probe", 0),
    ("grpc.http2.lookahead_bytes", 64 << 20),
    ("grpc.http2.max_frame_size", (1 << 24) - 1),
    # A server asks callers that wait for a long time whether they are there.
    ("grpc.keepalive_time_ms", 5000),
    ("grpc.keepalive_timeout_ms", 5000),
    ("grpc.keepalive_permit_without_calls", 0),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.http2.min_ping_interval_without_data_ms", 1000),
    ("grpc.http2.min_recv_ping_interval_without_data_ms", 1000),
    ("grpc.http2.max_ping_strikes", 0),
]
_log = logging.getLogger("anabranch")

Handler = Callable[[dict[str, Any], list[Any], "Caller"], "bytes"]
"""What answers a call: (header, values, caller) -> message."""


class Caller:
    """Who waits for an answer, as the handler of a call sees it."""

    __slots__ = ("_context",)

    def __init__(self, context: Any) -> None:
        self._context = context

    def when_gone(self, callback: Callable[[], None]) -> None:
        """Have something called if the caller gives up, or dies, before the answer."""
        if not self._context.add_callback(callback):
            callback()


# -------------------------------------------------------------------------------------------------------------- server
class _DaemonThreads(futures.Executor):
    """Threads for calls, as many as there are calls: steps may wait for each other. None keeps the process alive."""

    def __init__(self) -> None:
        self._waiting: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._idle = 0
        self._lock = threading.Lock()

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> futures.Future[Any]:
        """Run a function soon."""
        future: futures.Future[Any] = futures.Future()

        def work() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(fn(*args, **kwargs))
                except BaseException as problem:
                    future.set_exception(problem)

        with self._lock:
            fresh = self._idle <= 0
            if not fresh:
                self._idle -= 1
        if fresh:
            conditions.start(threading.Thread(target=self._serve, args=(work,), name="anabranch task", daemon=True))
        else:
            self._waiting.put(work)
        return future

    def _serve(self, work: Callable[[], None] | None) -> None:
        while work is not None:
            work()
            work = None
            with self._lock:
                self._idle += 1
            try:
                work = self._waiting.get(timeout=IDLE)
            except queue.Empty:
                with self._lock:
                    if self._idle > 0:
                        self._idle -= 1
                        return
                work = self._waiting.get()  # it was counted on meanwhile

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: threads without work end by themselves."""


def _answering(handler: Handler) -> Callable[[Any, Any], bytes]:
    """What answers a message: sends errors back as messages."""

    def answer(message: Any, context: Any) -> bytes:
        try:
            header, values = wire.decode(message)
            return handler(header, values, Caller(context))
        except BaseException as problem:
            if not isinstance(problem, errors.OpError):
                _log.exception("a call failed in this task for a reason that is not the caller's")
            return wire.encode({"error": wire.error_fields(problem)})

    return answer


def _guarded(answering: Callable[[Any, Any], bytes], token: bytes) -> Callable[[bytes, Any], bytes]:
    """What answers a call of gRPC: refuses callers without the token."""

    def answer(message: bytes, context: Any) -> bytes:
        shown = next((value for key, value in context.invocation_metadata() if key == _TOKEN), "")
        if hmac.compare_digest(shown.encode(), token):
            return answering(message, context)
        problem = errors.UnauthenticatedError(
            None,
            None,
            errors.message(
                "a call with another token than the task's" if shown else "a call without a token",
                "the token of the cluster",
                f"the same file in {credentials.TOKEN_VARIABLE} on each machine, for the same user",
            ),
        )
        return wire.encode({"error": wire.error_fields(problem)})

    return answer


class Listener:
    """A server at an address.

    Args:
        address: ``host:port`` as the ClusterSpec has it; port 0 for any.
        who: what listens, for errors.
        handlers: what answers each method.

    Raises:
        UnknownError: something else listens there. InvalidArgumentError: the address is not of this machine.
    """

    def __init__(self, address: str, who: str, handlers: dict[str, Handler]) -> None:
        host, port = credentials.split_address(address, "Could not parse port for local server from {}.")
        number = credentials.bind_host(address, who)
        certificates = credentials.certificates()
        grpc = _grpc()
        token = credentials.token().encode()
        answers = {name: _answering(handler) for name, handler in handlers.items()}
        methods = {
            name: grpc.unary_unary_rpc_method_handler(_guarded(answer, token)) for name, answer in answers.items()
        }
        self._local = LocalListener({name: answers[name] for name in _LOCAL}, token)
        self._server = grpc.server(_DaemonThreads(), options=_OPTIONS)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, methods),))
        place = f"[{number}]:{port}" if ":" in number else f"{number}:{port}"
        try:
            if certificates is None:
                bound = self._server.add_insecure_port(place)
            else:
                secure = grpc.ssl_server_credentials(
                    [(certificates.key, certificates.certificate)], certificates.authority, True
                )
                bound = self._server.add_secure_port(place, secure)
        except RuntimeError:
            bound = 0
        if not bound:
            raise _not_bound(address, who)
        self.address = f"{host}:{bound}" if ":" not in host else f"[{host}]:{bound}"

    def start(self) -> None:
        """Begin to answer."""
        self._server.start()
        self._local.start()

    def stop(self) -> None:
        """Answer no more; calls that run are given up."""
        self._server.stop(None)
        self._local.stop()

    @property
    def local_name(self) -> str:
        """Where processes of the same machine and user may call without gRPC; '' if they may not."""
        return self._local.name


def _not_bound(address: str, who: str) -> errors.OpError:
    """The error for an address that cannot be listened on: says who is there if it is one of ours."""
    there = ""
    with contextlib.suppress(errors.OpError):
        header, _ = Connection(address).call("Hello", {"probe": True}, (), 2.0)
        there = f", where {header['task']} (process {header['pid']}) listens already"
    return errors.UnknownError(
        None,
        None,
        "Could not start gRPC server\n"
        + errors.message(
            f"the address {address!r} for {who}{there or ', which is in use or not of this machine'}",
            "an address of this machine at which nothing listens",
            "end the other process, or start this one as another task (--task_index)"
            if there
            else "a free port, the same in the ClusterSpec of all tasks",
        ),
    )


# --------------------------------------------------------------------------------------------------------- connections
class Connection:
    """The way to the task at an address."""

    def __init__(self, address: str) -> None:
        self.address = address
        self._metadata = ((_TOKEN, credentials.token()),)
        certificates = credentials.certificates()
        grpc = _grpc()
        if certificates is None:
            self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        else:
            secure = grpc.ssl_channel_credentials(certificates.authority, certificates.key, certificates.certificate)
            self._channel = grpc.secure_channel(address, secure, options=_OPTIONS)
        self._methods: dict[str, Any] = {}
        self.lost = ""
        """Why it is closed; '' while it is not."""
        self.outstanding = 0
        self.heard = time.monotonic()
        """When the task last gave a sign of life."""
        self.asked = False
        """Whether a sign of life has been asked for, and not come."""
        self._local: LocalLinks | None = None
        """The way to a task of the same machine and user."""

    def _method(self, name: str) -> Any:
        found = self._methods.get(name)
        if found is None:
            found = self._methods[name] = self._channel.unary_unary(f"/{_SERVICE}/{name}")
        return found

    def call(
        self,
        method: str,
        header: dict[str, Any],
        values: Sequence[Any] = (),
        timeout: float | None = None,
        exchange: Exchange | None = None,
    ) -> tuple[dict[str, Any], list[Any]]:
        """Call and wait for the answer.

        Args:
            method: what is called.
            header: of the request.
            values: of the request.
            timeout: seconds after which the call ends, or None.
            exchange: what large values go by to a task of the same machine, or None.

        Raises:
            OpError: that of the task; UnavailableError if it is gone.
        """
        message = _encoded(header, values, exchange)
        self.enter()
        try:
            answer = self._method(method)(message, timeout, self._metadata)
        except _grpc().RpcError as problem:
            raise self._error(problem, method) from None
        except ValueError as problem:  # the channel is closed
            raise self._gone(method, self.lost or str(problem)) from None
        finally:
            self.leave()
        return _answered(answer, exchange)

    def start(
        self,
        method: str,
        header: dict[str, Any],
        values: Sequence[Any],
        timeout: float | None,
        done: Callable[[Any], None],
        exchange: Exchange | None = None,
    ) -> Callable[[], None]:
        """Call, and have ``done`` called (from another thread) with the answer or an error; returns what cancels."""
        message = _encoded(header, values, exchange)
        self.enter()
        try:
            future = self._method(method).future(message, timeout, self._metadata)
        except ValueError as problem:
            self.leave()
            raise self._gone(method, self.lost or str(problem)) from None

        def finished(call: Any) -> None:
            self.leave()
            try:
                done(_answered(call.result(), exchange))
            except _grpc().RpcError as problem:
                done(self._error(problem, method))
            except _grpc().FutureCancelledError:
                done(self._gone(method, self.lost) if self.lost else errors.CancelledError(None, None, "cancelled"))
            except errors.OpError as problem:
                done(problem)

        future.add_done_callback(finished)
        cancel: Callable[[], None] = future.cancel
        return cancel

    # -- on one machine -----------------------------------------------------------------------------------------------
    def know_local(self, name: str) -> None:
        """Note where a task of the same machine and user answers calls without gRPC."""
        before = self._local
        if before is None or before.name != name:
            self._local = LocalLinks(name, _LOCAL, credentials.token().encode()) if name else None
            if before is not None:
                before.close()

    def send(
        self,
        method: str,
        header: dict[str, Any],
        values: Sequence[Any],
        exchange: Exchange | None,
        limit: float | None = None,
    ) -> SentCall | None:
        """Call a task of this machine without gRPC, and do not wait; None if that is not possible.

        Raises:
            DeadlineExceededError: it has not taken the request within ``limit`` seconds.
        """
        links = self._local
        if links is None:
            return None
        message = _encoded(header, values, exchange)
        self.enter()
        call = None
        try:
            call = links.send(method, message, limit)
        except TimeoutError:
            raise self._late() from None
        finally:
            if call is None:
                self.leave()
        if call is None:  # its process has ended: what is at the address now says what it knows
            self._local = None
            return None
        return SentCall(self, method, call, exchange)

    # -- signs of life ------------------------------------------------------------------------------------------------
    def enter(self) -> None:
        """Count a call that begins."""
        with _heart.lock:
            if not self.outstanding:
                self.heard = time.monotonic()
            self.outstanding += 1
        _heart.watch(self)

    def leave(self) -> None:
        """Count a call that ended."""
        with _heart.lock:
            self.outstanding -= 1
            self.heard = time.monotonic()

    def ask(self) -> None:
        """Ask for a sign of life."""
        self.asked = True

        def heard(call: Any) -> None:
            self.asked = False
            if call.code() is _grpc().StatusCode.OK:
                self.heard = time.monotonic()

        with contextlib.suppress(ValueError):  # it is closed
            self._method("Ping").future(wire.encode({}), SILENCE, self._metadata).add_done_callback(heard)

    def close(self, why: str) -> None:
        """End all calls to the task."""
        self.lost = self.lost or why
        with _connections_lock:
            if _connections.get(self.address) is self:
                del _connections[self.address]
        if self._local is not None:
            self._local.close()
        self._channel.close()

    # -- errors -------------------------------------------------------------------------------------------------------
    def _gone(self, method: str, why: str) -> errors.OpError:
        return errors.UnavailableError(
            None,
            None,
            errors.message(
                f"the task at {self.address}, which is gone or cannot be reached ({why or 'no connection'})",
                "a task that answers",
                "start it again; tf.train.MonitoredTrainingSession goes on from the last checkpoint",
            ),
        )

    def _late(self) -> errors.OpError:
        return errors.DeadlineExceededError(
            None,
            None,
            errors.message(
                f"a call to the task at {self.address} that took too long",
                "an answer before the deadline",
                "raise RunOptions(timeout_in_ms=...) or ConfigProto(operation_timeout_in_ms=...)",
            ),
        )

    def _error(self, problem: Any, method: str) -> errors.OpError:
        code, details, status = problem.code(), problem.details(), _grpc().StatusCode
        if code is status.UNAVAILABLE or (code is status.CANCELLED and self.lost):
            return self._gone(method, self.lost or details)
        if code is status.CANCELLED:
            return errors.CancelledError(None, None, f"a call to {self.address} was cancelled")
        if code is status.DEADLINE_EXCEEDED:
            return self._late()
        if code is status.UNIMPLEMENTED:
            return errors.FailedPreconditionError(
                None,
                None,
                errors.message(
                    f"what listens at {self.address}, which is not a task of ours",
                    "a tf.train.Server of this package and version",
                    "the right host and port in the ClusterSpec, and one version of anabranch in all tasks",
                ),
            )
        return errors.InternalError(None, None, f"a call to the task at {self.address} failed: {code}: {details}")


class SentCall:
    """A call to a task of this machine whose answer has not been read."""

    def __init__(self, connection: Connection, method: str, call: LocalCall, exchange: Exchange | None) -> None:
        self._connection, self._method, self._call, self._exchange = connection, method, call, exchange
        self.fileno = call.fileno
        self.cancel = call.cancel

    def drop(self) -> None:
        """Give it up; nobody waits for the answer."""
        self._call.drop()
        self._connection.leave()

    def answer(self) -> tuple[dict[str, Any], list[Any]]:
        """Wait for the answer.

        Raises:
            OpError: that of the task; UnavailableError if it is gone.
        """
        connection = self._connection
        try:
            message = self._call.answer()
        except OSError as problem:
            raise connection._gone(self._method, connection.lost or str(problem)) from None
        finally:
            connection.leave()
        return _answered(message, self._exchange)


def _encoded(header: dict[str, Any], values: Sequence[Any], exchange: Exchange | None) -> bytes:
    return wire.encode(header, values) if exchange is None else exchange.encode(header, values)


def _answered(message: Any, exchange: Exchange | None) -> tuple[dict[str, Any], list[Any]]:
    header, values = wire.decode(message)
    if "error" in header:
        raise wire.restored_error(header["error"])
    return header, values if exchange is None else exchange.decoded(header, values)


_connections: dict[str, Connection] = {}
_connections_lock = threading.Lock()


def connection(address: str) -> Connection:
    """The connection of this process to an address."""
    with _connections_lock:
        known = _connections.get(address)
        if known is None:
            known = _connections[address] = Connection(address)
        return known


@atexit.register
def _close_sockets() -> None:
    """Close the sockets to tasks of this machine, of which Python warns otherwise."""
    with _connections_lock:
        links = [known._local for known in _connections.values() if known._local is not None]
    for link in links:
        link.close()


class _Heart:
    """The thread that asks for signs of life; it ends when no call is outstanding."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self._watched: set[Connection] = set()
        self._beating = False

    def watch(self, connection: Connection) -> None:
        """Ask for signs of life as long as calls are outstanding."""
        if connection in self._watched and self._beating:
            return
        with self.lock:
            self._watched.add(connection)
            if self._beating:
                return
            self._beating = True
        conditions.start(threading.Thread(target=self._beat, name="anabranch heartbeat", daemon=True))

    def _beat(self) -> None:
        while True:
            time.sleep(BEAT)
            with self.lock:
                waiting = [item for item in self._watched if item.outstanding > 0 and not item.lost]
                self._watched = set(waiting)
                if not waiting:
                    self._beating = False
                    return
            now = time.monotonic()
            for item in waiting:
                if now - item.heard > SILENCE:
                    item.close(f"no sign of life for {now - item.heard:.0f} s")
                elif not item.asked and now - item.heard > BEAT / 2:
                    item.ask()


_heart = _Heart()
