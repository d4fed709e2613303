"""``tf.test``: test cases, benchmarks and what tests ask of the machine. Loads when it is named."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import socket
import tempfile
import unittest.mock
from typing import Any

from absl.testing import absltest

from anabranch.cluster.server import Server
from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public
from anabranch.testing import benchmarks
from anabranch.testing.test_case import TestCase
from anabranch.train.cluster_spec import ClusterSpec
from anabranch.xla import engine

api.publish_as("test.TestCase", TestCase)
api.publish_as("test.mock", unittest.mock)


@public("test.get_temp_dir")
def get_temp_dir() -> str:
    """A folder for this process's tests; ``TEST_TMPDIR`` names it if it is set."""
    if not _temporary:
        named = os.environ.get("TEST_TMPDIR")
        if named:
            os.makedirs(named, exist_ok=True)
        _temporary.append(named or tempfile.mkdtemp(prefix="tests_"))
    return _temporary[0]


_temporary: list[str] = []


GetTempDir = get_temp_dir


def StatefulSessionAvailable() -> bool:
    """False: no session keeps its state over processes."""
    return False


@public("test.test_src_dir_path")
def test_src_dir_path(relative_path: str) -> str:
    """A path relative to the folder that the tests were started in."""
    return os.path.join(os.environ.get("TEST_SRCDIR", os.getcwd()), relative_path)


test_src_dir_path.__test__ = False  # type: ignore[attr-defined]  # not itself a test


@public("test.is_gpu_available")
def is_gpu_available(cuda_only: bool = False, min_cuda_compute_capability: tuple[int, int] | None = None) -> bool:
    """Whether a GPU is there.

    Args:
        cuda_only: do not count GPUs of other makers than NVIDIA.
        min_cuda_compute_capability: the least (major, minor) capability.
    """
    platform = engine.default_platform()
    if platform not in ("gpu", "cuda", "rocm") or (cuda_only and platform == "rocm"):
        return False
    if min_cuda_compute_capability is None:
        return True
    return any(
        tuple(int(part) for part in str(getattr(device, "compute_capability", "0.0")).split("."))
        >= tuple(min_cuda_compute_capability)
        for device in engine.devices(platform)
    )


@public("test.gpu_device_name")
def gpu_device_name() -> str:
    """The name of the first GPU, or an empty string."""
    return "/device:GPU:0" if is_gpu_available() else ""


@public("test.is_built_with_cuda", "test.is_built_with_gpu_support")
def is_built_with_cuda() -> bool:
    """Whether CUDA devices can be used, which depends on the jax that is installed."""
    return is_gpu_available(cuda_only=True)


@public("test.is_built_with_rocm")
def is_built_with_rocm() -> bool:
    """Whether AMD devices can be used, which depends on the jax that is installed."""
    return engine.default_platform() == "rocm"


@public("test.assert_equal_graph_def")
def assert_equal_graph_def(
    actual: Any, expected: Any, checkpoint_v2: bool = False, hash_table_shared_name: bool = False
) -> None:
    """Raise AssertionError unless two GraphDefs have the same nodes, in whatever order.

    Args:
        actual: a GraphDef.
        expected: a GraphDef.
        checkpoint_v2: leave the random names of temporary checkpoint files out of the comparison.
        hash_table_shared_name: leave the shared names of tables out of it.
    """
    for given in (actual, expected):
        if not hasattr(given, "node"):
            raise TypeError(errors.message(f"a {type(given).__name__}", "a GraphDef", "graph.as_graph_def()"))
    sides = []
    for given in (actual, expected):
        nodes = {}
        for node in given.node:
            if hash_table_shared_name and node.op in ("HashTable", "HashTableV2"):
                node = type(node).FromString(node.SerializeToString())
                node.attr.pop("shared_name", None)
            text = str(node)
            if checkpoint_v2:
                text = re.sub(r"_temp_[0-9a-f]+", "_temp", text)
            nodes[node.name] = text
        sides.append(nodes)
    ours, theirs = sides
    if ours != theirs:
        names = sorted(name for name in {*ours, *theirs} if ours.get(name) != theirs.get(name))
        raise AssertionError(
            _first_difference(*sides)
            + "\nGraphDefs differ in "
            + "\n".join(
                f"{name}:\n{ours.get(name, 'not there')}\n{theirs.get(name, 'not there')}" for name in names[:5]
            )
        )


def _first_difference(actual: dict[str, str], expected: dict[str, str]) -> str:
    """The first node that is not expected, or else the first that is not as expected."""
    for name, text in actual.items():
        if name not in expected:
            return f"Found unexpected node '{text}'"
    for name, text in expected.items():
        if name not in actual:
            return f"Not found: expected node '{text}'"
    return "Found unexpected attributes of a node"


@public("test.create_local_cluster")
def create_local_cluster(
    num_workers: int, num_ps: int, protocol: str = "grpc", worker_config: Any = None, ps_config: Any = None
) -> tuple[list[Server], list[Server]]:
    """Start the servers of jobs ``worker`` and ``ps`` in this process.

    Args:
        num_workers: how many tasks job ``worker`` has.
        num_ps: how many tasks job ``ps`` has.
        protocol: ``grpc``.
        worker_config: the ConfigProto of the workers.
        ps_config: that of the others.

    Returns:
        The servers of the workers, and those of job ``ps``.
    """
    counts = {"worker": num_workers, "ps": num_ps}
    with contextlib.ExitStack() as held:  # all ports are held until all are known
        ports = []
        for _ in range(num_workers + num_ps):
            holder = held.enter_context(socket.socket())
            holder.bind(("127.0.0.1", 0))
            ports.append(holder.getsockname()[1])
    rest = iter(ports)
    cluster = ClusterSpec({job: [f"localhost:{next(rest)}" for _ in range(count)] for job, count in counts.items()})
    configs = {"worker": worker_config, "ps": ps_config}
    servers = {
        job: [Server(cluster, job, i, protocol, configs[job]) for i in range(count)] for job, count in counts.items()
    }
    return servers["worker"], servers["ps"]


@public("test.StubOutForTesting")
class StubOutForTesting:
    """Replace attributes for a test and put the old ones back."""

    def __init__(self) -> None:
        self._saved: list[tuple[Any, str, Any]] = []

    def Set(self, parent: Any, child_name: str, new_child: Any) -> None:
        """Replace an attribute of an object, module or class."""
        old = inspect.getattr_static(parent, child_name)
        self._saved.append((parent, child_name, old))
        setattr(parent, child_name, new_child)

    SmartSet = Set

    def UnsetAll(self) -> None:
        """Put the old attributes back, the latest first."""
        while self._saved:
            parent, name, old = self._saved.pop()
            setattr(parent, name, old)

    SmartUnsetAll = CleanUp = UnsetAll

    def __enter__(self) -> StubOutForTesting:
        return self

    def __exit__(self, *problem: object) -> None:
        self.UnsetAll()


@public("test.main")
def main(argv: list[str] | None = None) -> None:
    """Run the tests of the calling script, or its benchmarks with ``--benchmarks=PATTERN``, and end the program."""
    benchmarks.benchmarks_main(lambda: absltest.main(argv=argv), argv)


__getattr__, __dir__ = api.module_attributes("test")
