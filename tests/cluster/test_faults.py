"""What a task is told of bad input, of tasks that leave, and of a network that drops what is sent."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import signal
import socket
import subprocess
import threading
import time

import numpy as np
import pytest

import anabranch as tf
from anabranch.cluster import credentials, peers, task, transport


def free_address():
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        return f"localhost:{holder.getsockname()[1]}"


@pytest.fixture
def _network(monkeypatch):
    """Tasks of this process are reached like those of others."""
    monkeypatch.setattr("anabranch.cluster.task.find_here", lambda address: None)


# ----------------------------------------------------------------------------------------------------------- bad input
def test_an_address_that_another_program_has():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        address = f"localhost:{other.getsockname()[1]}"
        expected = "(?s)^Could not start gRPC server.*which is in use or not of this machine"
        with pytest.raises(tf.errors.UnknownError, match=expected):
            tf.train.Server({"worker": [address]}, "worker", 0)


@pytest.mark.parametrize(
    ("address", "problem", "match"),
    [
        ("no.such.host.invalid:2222", tf.errors.InvalidArgumentError, "whose host is unknown here"),
        ("localhost", tf.errors.InvalidArgumentError, 'Could not parse port for local server from "localhost"'),
        ("localhost:99999", tf.errors.InvalidArgumentError, "'host:port'"),
    ],
)
def test_an_address_that_is_none(address, problem, match):
    with pytest.raises(problem, match=match):
        tf.train.Server({"worker": [address]}, "worker", 0)


def test_tasks_and_targets_that_are_not_in_a_cluster():
    with pytest.raises(tf.errors.InternalError, match='Job "chief" was not defined in cluster'):
        tf.train.Server({"worker": ["localhost:0"]}, "chief", 0)
    with pytest.raises(tf.errors.InvalidArgumentError, match='Task 3 was not defined in job "worker"'):
        tf.train.Server({"worker": ["localhost:0"]}, "worker", 3)
    with pytest.raises(tf.errors.InvalidArgumentError, match='Could not interpret "localhost" as a host-port pair'):
        tf.Session("grpc://localhost")


def test_a_session_says_which_task_it_waits_for(caplog, monkeypatch):
    monkeypatch.setattr(peers, "SAY_AFTER", 0.1)
    address = free_address()
    config = tf.ConfigProto(operation_timeout_in_ms=1000)
    with caplog.at_level(logging.WARNING), pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
        tf.Session(f"grpc://{address}", config=config)
    assert any(f"Waiting for a task at {address}" in record.getMessage() for record in caplog.records)


def test_a_worker_does_not_wait_longer_for_a_parameter_server_than_it_was_asked_to(cluster):
    address = free_address()
    server = tf.train.Server({"ps": [address], "worker": ["localhost:0"]}, "worker", 0)
    with tf.device("/job:ps/task:0"):
        tf.get_variable("v", [], initializer=tf.zeros_initializer())
    manager = tf.train.SessionManager(ready_op=tf.report_uninitialized_variables())
    expected = f"(?s)Session was not ready after waiting 1 secs.*task:0 at {address}, which has not answered"
    try:
        with pytest.raises(tf.errors.DeadlineExceededError, match=expected):
            manager.wait_for_session(server.target, max_wait_secs=1)
    finally:
        server.stop()


def test_other_versions_are_refused(cluster):
    workers, _ = cluster
    address = workers[0].target.removeprefix("grpc://")
    header = {"versions": {**task.versions(), "jaxlib": "0.0.1"}, "pid": 1}
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"process 1 with jaxlib 0\.0\.1"):
        transport.connection(address).call("Hello", header, (), 10.0)


def test_a_folder_of_checkpoints_that_a_task_cannot_see(cluster, tmp_path, monkeypatch):
    workers, servers = cluster
    with tf.device("/job:ps/task:1"):
        tf.train.get_or_create_global_step()
    monkeypatch.setattr(servers[1]._task, "sees", lambda path: False)
    with pytest.raises(tf.errors.FailedPreconditionError, match="which /job:ps/replica:0/task:1 cannot see"):
        tf.train.MonitoredTrainingSession(workers[0].target, checkpoint_dir=str(tmp_path / "new"))
    monkeypatch.undo()
    with tf.train.MonitoredTrainingSession(workers[0].target, checkpoint_dir=str(tmp_path / "new")):
        pass
    assert not [name for name in os.listdir(tmp_path / "new") if name.startswith(".seen")]


# ------------------------------------------------------------------------------------------------- tasks that leave
def test_a_worker_that_is_asked_to_end_saves_and_closes_its_session(cluster, tmp_path):
    workers, _ = cluster
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
    add = step.assign_add(1)
    before = signal.getsignal(signal.SIGTERM)
    steps = 0
    assert before is signal.SIG_DFL  # nobody has left a handler behind
    with tf.train.MonitoredTrainingSession(
        workers[0].target, checkpoint_dir=str(tmp_path), log_step_count_steps=None, save_summaries_steps=None
    ) as session:
        while not session.should_stop() and steps < 10:
            session.run(add)
            steps += 1
            if steps == 3:
                signal.raise_signal(signal.SIGTERM)  # once: a second one would end the process
    assert steps == 4
    assert signal.getsignal(signal.SIGTERM) is before
    assert tf.train.latest_checkpoint(str(tmp_path)).endswith("model.ckpt-4")


@pytest.mark.usefixtures("_network")
@pytest.mark.parametrize(("method", "together"), [("run", 1), ("run", 2), ("register", 1)])
def test_a_task_that_heeds_no_deadline_is_not_waited_for(cluster, monkeypatch, method, together):
    workers, servers = cluster
    variables = []
    for i in range(together):
        with tf.device(f"/job:ps/task:{i}"):
            variables.append(tf.get_variable(f"v{i}", [], initializer=tf.zeros_initializer()))
    hung = threading.Event()
    with tf.Session(workers[0].target) as session:
        session.run(tf.global_variables_initializer())
        if method == "run":
            session.run(variables)
        for server in servers[:together]:
            real = getattr(server._task, method)
            monkeypatch.setattr(server._task, method, lambda *given, real=real: hung.wait(60.0) and real(*given))
        try:
            with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
                session.run(variables, options=tf.RunOptions(timeout_in_ms=200))
        finally:
            hung.set()
        assert session.run(variables) == [0.0] * together


@pytest.mark.usefixtures("_network")
@pytest.mark.parametrize("hangs_at", ["enter", "arrive"])
def test_a_task_that_counts_steps_and_heeds_no_deadline_is_not_waited_for(cluster, monkeypatch, hangs_at):
    workers, servers = cluster
    with tf.device("/job:ps/task:1"):
        step = tf.train.get_or_create_global_step()
        train = tf.assign_add(step, 1)
    hung, goes_on = threading.Event(), threading.Event()
    waited_for = []
    count = servers[0]._task.rounds
    real = count.ask

    def ask(what, *rest):
        if what in (hangs_at, "withdraw") and not goes_on.is_set():
            hung.set()
            if not goes_on.wait(30.0):
                waited_for.append(what)
        return real(what, *rest)

    options = tf.SessionOptions(consistency=("sync", 1))
    with tf.Session(workers[0].target, config=options) as session:
        session.run(step.initializer)
        monkeypatch.setattr(count, "ask", ask)
        try:
            with pytest.raises(tf.errors.DeadlineExceededError, match="timeout_in_ms"):
                session.run(train, options=tf.RunOptions(timeout_in_ms=300))
            assert hung.is_set()
            assert not waited_for
        finally:
            goes_on.set()
    with tf.Session(workers[0].target, config=options) as session:
        assert session.run(train) == 1  # the other did nothing


@pytest.mark.usefixtures("_network")
def test_who_uses_a_task_that_leaves_saves_and_lets_go_of_it(cluster, tmp_path, monkeypatch):
    workers, servers = cluster
    with tf.device("/job:ps/task:0"):
        step = tf.train.get_or_create_global_step()
    add = step.assign_add(1)
    leaving = servers[0]._task
    with tf.train.MonitoredTrainingSession(
        workers[0].target, checkpoint_dir=str(tmp_path), log_step_count_steps=None, save_summaries_steps=None
    ) as session:
        session.run(add)
        gone = threading.Thread(target=lambda: leaving.leave(60.0))
        gone.start()
        while not leaving.leaving:
            time.sleep(0.01)

        def back():
            gone.join(60.0)  # as soon as the session is closed
            saved.append(tf.train.latest_checkpoint(str(tmp_path)))
            leaving.manager.clear()  # the process ends, and another begins
            leaving.leaving = False

        saved = []
        returns = threading.Thread(target=back)
        returns.start()
        assert session.run(add) == 3  # made again, from the checkpoint of step 2
        returns.join(60.0)
        assert saved[0].endswith("model.ckpt-2")


# ----------------------------------------------------------------------------------------------------------- network
class Proxy:
    """Passes on what is sent to an address, until it drops everything and says nothing."""

    def __init__(self, address):
        self.to = credentials.split_address(address)
        self.drops = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.address = f"localhost:{self.listener.getsockname()[1]}"
        self.sockets = [self.listener]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                one, _ = self.listener.accept()
                other = socket.create_connection(self.to)
                self.sockets += [one, other]
                for pair in ((one, other), (other, one)):
                    threading.Thread(target=self._pass, args=pair, daemon=True).start()

    def _pass(self, source, target):
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                if not self.drops:
                    target.sendall(data)

    def close(self):
        for item in self.sockets:
            item.close()


@pytest.mark.slow
@pytest.mark.usefixtures("_network")
def test_a_network_that_drops_what_is_sent_is_an_error_within_ten_seconds(cluster, monkeypatch):
    monkeypatch.setattr(transport.Connection, "send", lambda *arguments: None)  # the task is on another machine
    workers, servers = cluster
    proxy = Proxy(servers[0].target.removeprefix("grpc://"))
    spec = tf.train.ClusterSpec(
        {"ps": [proxy.address], "worker": [workers[0].target.removeprefix("grpc://")]}
    ).as_cluster_def()
    with tf.device("/job:ps/task:0"):
        v = tf.Variable(1.0, name="v")
        add = v.assign_add(1.0)
    session = tf.Session(workers[0].target, config=tf.ConfigProto(cluster_def=spec))
    session.run(v.initializer)
    assert session.run(add) == 2.0
    proxy.drops = True
    started = time.monotonic()
    with pytest.raises(tf.errors.UnavailableError, match="no sign of life"):
        session.run(add)
    assert time.monotonic() - started < 10.0
    proxy.drops = False
    assert session.run(v) == 2.0  # by another connection; the message that was dropped is not sent again
    session.close()
    proxy.close()


@pytest.mark.usefixtures("_network")
def test_tasks_with_certificates_talk_to_each_other_and_to_nobody_without(tmp_path, monkeypatch):
    for words in (
        "req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=ca",
        "req -newkey rsa:2048 -nodes -keyout key.pem -out request.pem -subj /CN=localhost",
        "x509 -req -in request.pem -CA ca.pem -CAkey ca.key -CAcreateserial -out cert.pem -days 2 -extfile names",
    ):
        (tmp_path / "names").write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        openssl = shutil.which("openssl")
        assert openssl is not None
        subprocess.run([openssl, *words.split()], cwd=tmp_path, check=True, capture_output=True)
    monkeypatch.setenv(credentials.TLS_VARIABLE, str(tmp_path))
    server = tf.train.Server.create_local_server()
    with tf.Graph().as_default(), tf.Session(server.target) as session:
        np.testing.assert_array_equal(session.run(tf.constant([1.0, 2.0]) * 2.0), [2.0, 4.0])
    monkeypatch.delenv(credentials.TLS_VARIABLE)
    plain = transport.Connection(server.target.removeprefix("grpc://"))
    with pytest.raises(tf.errors.UnavailableError, match="cannot be reached"):
        plain.call("Hello", peers.greeting(), (), 10.0)
    monkeypatch.setenv(credentials.TLS_VARIABLE, str(tmp_path / "nowhere"))
    with pytest.raises(tf.errors.FailedPreconditionError, match=r"a folder with ca\.pem, cert\.pem and key\.pem"):
        transport.Connection(server.target.removeprefix("grpc://"))
    server.stop()
