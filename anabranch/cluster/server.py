"""``tf.train.Server``: a task of a cluster in this process."""

from __future__ import annotations

import logging
import os
import signal
from typing import Any

from google.protobuf import text_format

from anabranch.cluster import transport
from anabranch.cluster.driver import SCHEME, ClusterWorker
from anabranch.cluster.task import Task, add_here, remove_here
from anabranch.core import conditions, errors
from anabranch.core.contract import hooks
from anabranch.core.contract.api import public
from anabranch.core.protos.cluster_pb2 import ClusterDef
from anabranch.core.protos.server_pb2 import ServerDef
from anabranch.runtime.options import SessionOptions
from anabranch.train import termination
from anabranch.train.cluster_spec import ClusterSpec
from anabranch.xla import memory, startup

_log = logging.getLogger("anabranch")
LEAVING = 20.0
"""Seconds that a task which was asked to end waits for those who use it."""


def _server_def(given: Any, job_name: str | None, task_index: int | None, protocol: str | None, config: Any) -> Any:
    """The ServerDef that the arguments of a server stand for."""
    message = ServerDef()
    if getattr(getattr(given, "DESCRIPTOR", None), "name", "") == "ServerDef":
        message.CopyFrom(given)
        if job_name is not None:
            message.job_name = job_name
        if task_index is not None:
            message.task_index = task_index
    else:
        try:
            cluster = ClusterSpec(given)
        except TypeError as problem:
            raise TypeError(
                "Could not convert `server_or_cluster_def` to a `tf.train.ServerDef` or `tf.train.ClusterSpec`.\n"
                f"{problem}"
            ) from None
        message.cluster.CopyFrom(cluster.as_cluster_def())
        if job_name is None:
            if len(cluster.jobs) != 1:
                raise ValueError(
                    "Must specify an explicit `job_name`.\n"
                    + errors.message(
                        f"a cluster of {len(cluster.jobs)} jobs and no job_name",
                        f"one of {cluster.jobs}",
                        f"tf.train.Server(cluster, job_name={next(iter(cluster.jobs), 'worker')!r}, task_index=0)",
                    )
                )
            job_name = cluster.jobs[0]
        message.job_name = job_name
        if task_index is None:
            indices = cluster.task_indices(job_name)
            if len(indices) != 1:
                raise ValueError(
                    "Must specify an explicit `task_index`.\n"
                    + errors.message(
                        f"job {job_name!r} of {len(indices)} tasks and no task_index",
                        f"one of {indices}",
                        f"tf.train.Server(cluster, job_name={job_name!r}, task_index=0)",
                    )
                )
            task_index = indices[0]
        message.task_index = task_index
    if protocol is not None:
        message.protocol = protocol
    message.protocol = message.protocol or "grpc"
    if config is not None:
        message.default_session_config.MergeFrom(config)
    return message


@public("train.Server")
class Server:
    """Make this process a task of a cluster: it owns state, and runs the steps that sessions place on it.

    Memory that its steps free stays with the process, as after `tf.keep_memory`, unless ANABRANCH_KEEP_MEMORY is 0.

    Args:
        server_or_cluster_def: a ClusterSpec, a ClusterDef, a dictionary of jobs, or a ServerDef.
        job_name: the job of this task; may be left out if there is one.
        task_index: its number in the job; may be left out if there is one.
        protocol: ``grpc``.
        config: a ConfigProto for sessions that have none.
        start: whether to start it.

    Raises:
        ValueError: which job or task it is has not been said. tf.errors.InternalError: the job is not in the cluster.
        tf.errors.InvalidArgumentError: the task is not in the job, or its address is not one.
        tf.errors.UnknownError: its address is in use. tf.errors.FailedPreconditionError: other machines could reach
            it, and no token was placed.

    Example:
        >>> import anabranch as tf
        >>> server = tf.train.Server.create_local_server()
        >>> with tf.Session(server.target) as session:
        ...     print(session.run(tf.constant(1.5) + 2))
        3.5
        >>> server.stop()
    """

    def __init__(
        self,
        server_or_cluster_def: Any,
        job_name: str | None = None,
        task_index: int | None = None,
        protocol: str | None = None,
        config: Any = None,
        start: bool = True,
    ) -> None:
        memory.keep_if_asked(default="1")
        self._server_def = message = _server_def(server_or_cluster_def, job_name, task_index, protocol, config)
        if message.protocol != "grpc":
            raise errors.NotFoundError(
                None,
                None,
                "No server factory registered for the given ServerDef: "
                f"{text_format.MessageToString(message, as_one_line=True)}\n"
                + errors.message(f"protocol={message.protocol!r}", "'grpc'", "leave protocol out"),
            )
        if message.HasField("default_session_config"):
            startup.choose(message.default_session_config)
        cluster = ClusterSpec(message.cluster)
        job, index = message.job_name, message.task_index
        if job not in cluster.jobs:
            raise errors.InternalError(
                None,
                None,
                f'Job "{job}" was not defined in cluster\n'
                + errors.message(
                    f"job_name={job!r}",
                    f"one of {cluster.jobs}",
                    f"job_name={next(iter(cluster.jobs), 'worker')!r}, or a cluster with that job",
                ),
            )
        if index not in cluster.task_indices(job):
            raise errors.InvalidArgumentError(
                None,
                None,
                f'Task {index} was not defined in job "{job}"\n'
                + errors.message(f"task_index={index}", f"one of {cluster.task_indices(job)}", "task_index=0"),
            )
        if ray := os.environ.get(transport.RAY_ADDRESS):
            _log.warning(
                "%s=%s is not used: the tasks of a cluster talk over the addresses of the ClusterSpec, and Ray starts, "
                "restarts and reaches none of them.",
                transport.RAY_ADDRESS,
                ray,
            )
        address = cluster.task_address(job, index)
        self._task = Task(cluster, job, index)
        self._listener = transport.Listener(address, self._task.name, self._task.handlers())
        self._address = address
        if address.endswith(":0"):
            self._address = self._listener.address
            there = ClusterDef()
            there.CopyFrom(message.cluster)
            for entry in there.job:
                if entry.name == job:
                    entry.tasks[index] = self._address
            self._task.cluster = ClusterSpec(there)
        self._task.default_config = message.default_session_config if config is not None else None
        self._ended = conditions.Event()
        self._started = False
        if start:
            self.start()

    def start(self) -> None:
        """Start the server, unless it has been started."""
        if not self._started:
            self._started = True
            add_here(self._address, self._task)
            self._listener.start()
            self._task.local_name = self._listener.local_name

    def join(self) -> None:
        """Wait until the server is stopped, or forever.

        A process that is asked to end meanwhile (SIGTERM) tells the sessions that use it, waits until they are closed,
        at most `LEAVING` seconds, and ends.
        """
        asked = termination.Termination(self._ended.set)
        asked.watch()
        try:
            while not self._ended.wait(3600.0):
                pass
            if asked.asked:
                self._task.leave(LEAVING)
                self.stop()
                signal.raise_signal(signal.SIGTERM)
        finally:
            asked.end()

    def stop(self) -> None:
        """Answer no more, and give up what runs for other processes. (TensorFlow's servers have no such method.)"""
        if self._started:
            remove_here(self._address)
            self._task.reset(())
        self._listener.stop()
        self._ended.set()

    @property
    def server_def(self) -> Any:
        """The ServerDef of the server, as it was asked for: a port 0 stays one."""
        return self._server_def

    @property
    def target(self) -> str:
        """What ``tf.Session`` takes to run steps in this task's cluster, with this task as its default device."""
        return SCHEME + self._address

    @staticmethod
    def create_local_server(config: Any = None, start: bool = True) -> Server:
        """A server of a cluster of one task on this machine, at a port that is free."""
        return Server({"local": ["localhost:0"]}, protocol="grpc", config=config, start=start)


def session_worker(target: str, options: SessionOptions, config: Any) -> ClusterWorker:
    """What runs the steps of a session on a target."""
    return ClusterWorker(target, options, config)


def reset(target: str, containers: Any, config: Any) -> None:
    """``Session.reset`` of a target: clear containers on all tasks."""
    worker = session_worker(target, SessionOptions(), config)
    try:
        worker.reset(containers)
    finally:
        worker.close()


hooks.fill("session_worker", session_worker)
hooks.fill("reset_target", reset)
