"""``tf.test``: test cases, benchmarks and what tests ask of the machine. Loads when it is named."""

from __future__ import annotations

import contextlib
import inspect
import os
import re
import socket
import sys
import tempfile
import time
import unittest.mock
from typing import Any, ClassVar

import numpy as np
from absl.testing import absltest

from anabranch.cluster.server import Server
from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public
from anabranch.session import Session, get_default_session
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


@public("test.Benchmark")
class Benchmark:
    """Base of benchmarks: methods ``benchmark*`` run when the program is started with ``--benchmarks=PATTERN``."""

    _classes: ClassVar[list[type[Benchmark]]] = []

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        Benchmark._classes.append(cls)

    def report_benchmark(
        self,
        iters: int | None = None,
        cpu_time: float | None = None,
        wall_time: float | None = None,
        throughput: float | None = None,
        extras: dict[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        """Print what was measured, times in seconds."""
        given = {"iters": iters, "cpu_time": cpu_time, "wall_time": wall_time, "throughput": throughput}
        shown = {key: value for key, value in given.items() if value is not None} | {"extras": extras or {}}
        caller = sys._getframe(1).f_code.co_name
        print(f"entry {{ name: {name or f'{type(self).__name__}.{caller}'!r} {shown} }}")

    def run_op_benchmark(
        self,
        sess: Any,
        op_or_tensor: Any,
        feed_dict: Any = None,
        burn_iters: int = 2,
        min_iters: int = 10,
        store_trace: bool = False,
        store_memory_usage: bool = True,
        name: str | None = None,
        extras: dict[str, Any] | None = None,
        mbs: float = 0,
    ) -> dict[str, Any]:
        """Time runs of an op, report the median, and return what it reported.

        Args:
            sess: the session.
            op_or_tensor: what to run.
            feed_dict: what to feed.
            burn_iters: runs before the first that is timed.
            min_iters: timed runs.
            store_trace: not available: NotImplementedError.
            store_memory_usage: without effect: the runtime does not measure memory by run.
            name: of the benchmark; the calling method's by default.
            extras: what else to report.
            mbs: megabytes that a run moves, for the throughput.
        """
        if store_trace:
            raise NotImplementedError(
                errors.message("store_trace=True", "store_trace=False", "sess.run(..., run_metadata=metadata)")
            )
        target = getattr(op_or_tensor, "op", op_or_tensor)
        for _ in range(burn_iters):
            sess.run(target, feed_dict)
        times = []
        for _ in range(min_iters):
            start = time.perf_counter()
            sess.run(target, feed_dict)
            times.append(time.perf_counter() - start)
        wall = float(np.median(times))
        result = {
            "iters": min_iters,
            "wall_time": wall,
            "extras": {**(extras or {}), "wall_time_stdev": float(np.std(times))},
            "name": name or f"{type(self).__name__}.{sys._getframe(1).f_code.co_name}",
            "throughput": mbs / wall if mbs else 0.0,
        }
        self.report_benchmark(**result)  # type: ignore[arg-type]
        return result

    def evaluate(self, tensors: Any) -> Any:
        """Values of tensors in the default session, or in a new one."""
        session = get_default_session()
        if session is not None:
            return session.run(tensors)
        with Session() as fresh:
            return fresh.run(tensors)


def _run_benchmarks(pattern: str) -> None:
    for cls in Benchmark._classes:
        for name in sorted(dir(cls)):
            if name.startswith("benchmark") and re.search(pattern or ".", f"{cls.__name__}.{name}"):
                getattr(cls(), name)()


@public("test.main")
def main(argv: list[str] | None = None) -> None:
    """Run the tests of the calling script, or its benchmarks with ``--benchmarks=PATTERN``, and end the program."""
    arguments = sys.argv if argv is None else argv
    for argument in arguments[1:]:
        if argument.startswith("--benchmarks"):
            pattern = argument.partition("=")[2]
            _run_benchmarks("" if pattern == "all" else pattern)
            sys.exit(0)
    absltest.main(argv=argv)


__getattr__, __dir__ = api.module_attributes("test")
