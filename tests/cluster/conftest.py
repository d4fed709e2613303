"""What the tests of clusters share: a token of their own, and one cluster of this process."""

from __future__ import annotations

import os

import pytest

import anabranch as tf


@pytest.fixture(scope="session", autouse=True)
def _own_token(tmp_path_factory):
    path = tmp_path_factory.mktemp("credentials") / "token"
    path.write_text("a token for tests, long enough\n")
    path.chmod(0o600)
    before = os.environ.get("ANABRANCH_CLUSTER_TOKEN_FILE")
    os.environ["ANABRANCH_CLUSTER_TOKEN_FILE"] = str(path)
    yield
    if before is None:
        del os.environ["ANABRANCH_CLUSTER_TOKEN_FILE"]
    else:
        os.environ["ANABRANCH_CLUSTER_TOKEN_FILE"] = before


@pytest.fixture(scope="session")
def _cluster(_own_token):
    workers, servers = tf.test.create_local_cluster(num_workers=2, num_ps=2)
    yield workers, servers
    for server in (*workers, *servers):
        server.stop()


@pytest.fixture
def cluster(_cluster):
    """The servers of two workers and two parameter servers, without any state; the default graph is new."""
    workers, servers = _cluster
    tf.Session.reset(workers[0].target)
    with tf.Graph().as_default():
        yield workers, servers


@pytest.fixture(params=["here", "by socket", "by network"])
def reached(request, monkeypatch):
    """How a session reaches the tasks: as tasks of this process, of another of this machine, or of another machine."""
    if request.param != "here":
        monkeypatch.setattr("anabranch.cluster.task.find_here", lambda address: None)
    if request.param == "by network":
        monkeypatch.setattr("anabranch.cluster.transport.Connection.send", lambda *arguments: None)
    return request.param
