"""``tf.distribute.cluster_resolver``: where the addresses of a cluster's tasks come from."""

from __future__ import annotations

import collections
import json
import os
import re
import subprocess
from collections.abc import Mapping
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public, publish_as
from anabranch.train.cluster_spec import ClusterSpec


def master_url(address: str, rpc_layer: str | None) -> str:
    """The target at an address."""
    return f"{rpc_layer}://{address}" if rpc_layer and address and "://" not in address else address


class ClusterResolver:
    """Base of what knows a cluster: its tasks, and which of them this process is."""

    task_type: str | None = None
    task_id: int | None = None
    rpc_layer: str | None = None
    environment: str = ""

    def cluster_spec(self) -> ClusterSpec:
        """The cluster."""
        raise NotImplementedError(
            errors.message(f"{type(self).__name__} without cluster_spec", "a ClusterSpec", "override it")
        )

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """The target of a task, of this process if none is named; '' where there is none."""
        job = self.task_type if task_type is None else task_type
        index = self.task_id if task_id is None else task_id
        if job is None or index is None:
            return ""
        return master_url(self.cluster_spec().task_address(job, index), rpc_layer or self.rpc_layer)

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """How many accelerators a task has, by kind."""
        return {}


@public("distribute.cluster_resolver.SimpleClusterResolver")
class SimpleClusterResolver(ClusterResolver):
    """A cluster that is given.

    Args:
        cluster_spec: its ClusterSpec.
        master: the target of this process.
        task_type: the job of this process.
        task_id: its number there.
        environment: a word for the place, such as ``google``.
        num_accelerators: by kind.
        rpc_layer: the protocol, such as ``grpc``.

    Raises:
        TypeError: it is not a ClusterSpec.
    """

    def __init__(
        self,
        cluster_spec: Any,
        master: str = "",
        task_type: str | None = None,
        task_id: int | None = None,
        environment: str = "",
        num_accelerators: Mapping[str, int] | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        if not isinstance(cluster_spec, ClusterSpec):
            raise TypeError(
                "cluster_spec must be a ClusterSpec.\n"
                + errors.message(
                    f"a {type(cluster_spec).__name__}", "a tf.train.ClusterSpec", "tf.train.ClusterSpec({...})"
                )
            )
        self._cluster, self._master = cluster_spec, master
        self.task_type, self.task_id, self.rpc_layer = task_type, task_id, rpc_layer
        self.environment = environment
        self._accelerators = dict(num_accelerators or {})

    def cluster_spec(self) -> ClusterSpec:
        """The cluster."""
        return self._cluster

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """The target of a task; that which was given if none is named."""
        if task_type is not None and task_id is not None:
            return super().master(task_type, task_id, rpc_layer)
        return master_url(self._master, rpc_layer or self.rpc_layer)

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """How many accelerators a task has, by kind."""
        return dict(self._accelerators)


@public("distribute.cluster_resolver.TFConfigClusterResolver")
class TFConfigClusterResolver(ClusterResolver):
    """The cluster of the environment variable ``TF_CONFIG``.

    It is JSON: ``{"cluster": {"ps": [...], "worker": [...]}, "task": {"type": "worker", "index": 0}}``.

    Args:
        task_type: the job of this process, instead of the variable's.
        task_id: its number, instead.
        rpc_layer: the protocol, instead of the variable's ``rpc_layer``.
        environment: a word for the place, instead of the variable's.

    Raises:
        ValueError: what the variable has is not JSON, or not of that form.

    Example:
        >>> import os, anabranch as tf
        >>> os.environ["TF_CONFIG"] = '{"cluster": {"worker": ["a:1", "b:1"]}, "task": {"type": "worker", "index": 1}}'
        >>> resolver = tf.distribute.cluster_resolver.TFConfigClusterResolver(rpc_layer="grpc")
        >>> resolver.task_id, resolver.master()
        (1, 'grpc://b:1')
        >>> del os.environ["TF_CONFIG"]
    """

    def __init__(
        self,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
        environment: str | None = None,
    ) -> None:
        config = _tf_config()
        task = config.get("task", {})
        self.task_type = task.get("type") if task_type is None else task_type
        index = task.get("index") if task_id is None else task_id
        self.task_id = None if index is None else int(index)
        self.rpc_layer = config.get("rpc_layer") if rpc_layer is None else rpc_layer
        self.environment = config.get("environment", "") if environment is None else environment

    def cluster_spec(self) -> ClusterSpec:
        """The cluster; one without tasks if the variable names none."""
        return ClusterSpec(_tf_config().get("cluster", {}))

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """The target of a task, of this process if none is named; '' if it is the only one."""
        given = _tf_config().get("session_master")
        if given is not None:
            return str(given)
        cluster = self.cluster_spec()
        if sum(cluster.num_tasks(job) for job in cluster.jobs) <= 1:
            return ""
        return super().master(task_type, task_id, rpc_layer)


def _tf_config() -> dict[str, Any]:
    text = os.environ.get("TF_CONFIG", "{}")
    try:
        config = json.loads(text)
        if isinstance(config, dict) and isinstance(config.get("cluster", {}), dict):
            return config
        problem = "not an object with an object 'cluster'"
    except json.JSONDecodeError as error:
        problem = str(error)
    raise ValueError(
        errors.message(
            f"TF_CONFIG={text!r} ({problem})",
            "JSON with the cluster and the task",
            """TF_CONFIG='{"cluster": {"worker": ["host:2222"]}, "task": {"type": "worker", "index": 0}}'""",
        )
    ) from None


@public("distribute.cluster_resolver.SlurmClusterResolver")
class SlurmClusterResolver(ClusterResolver):
    """The cluster of a Slurm job step: its processes in the order of their ranks, job after job.

    Args:
        jobs: how many tasks each job has.
        port_base: the port of the first task of each node; the others follow.
        gpus_per_node: how many GPUs a node has.
        gpus_per_task: how many of them a task gets.
        tasks_per_node: how many tasks a node has; what Slurm says if None.
        auto_set_gpu: whether :meth:`cluster_spec` shows the process its GPUs only (``CUDA_VISIBLE_DEVICES``).
        rpc_layer: the protocol.

    Raises:
        RuntimeError: the process is not part of a Slurm job step, or the jobs have more tasks than the step.
    """

    def __init__(
        self,
        jobs: Mapping[str, int],
        port_base: int = 8888,
        gpus_per_node: int = 1,
        gpus_per_task: int = 1,
        tasks_per_node: int | None = None,
        auto_set_gpu: bool = True,
        rpc_layer: str = "grpc",
    ) -> None:
        by_mpi = "OMPI_COMM_WORLD_RANK" in os.environ
        self._rank = self._number("OMPI_COMM_WORLD_RANK" if by_mpi else "SLURM_PROCID")
        count = self._number("OMPI_COMM_WORLD_SIZE" if by_mpi else "SLURM_NTASKS")
        self._jobs = collections.OrderedDict(sorted(jobs.items()))
        if sum(self._jobs.values()) != count:
            raise RuntimeError(
                f"Requested {sum(self._jobs.values())} tasks but only {count} were assigned.\n"
                + errors.message(
                    f"jobs={dict(jobs)} in a step of {count} tasks", "jobs of as many tasks", f"srun --ntasks={count}"
                )
            )
        self._tasks_per_node = tasks_per_node or -(-count // self._number("SLURM_NNODES"))
        self._port, self._gpus, self._gpus_per_task = port_base, gpus_per_node, gpus_per_task
        self._sets_gpus = auto_set_gpu
        self.rpc_layer = rpc_layer
        start = 0
        for job, size in self._jobs.items():
            if start <= self._rank < start + size:
                self.task_type, self.task_id = job, self._rank - start
            start += size

    @staticmethod
    def _number(name: str) -> int:
        try:
            return int(os.environ[name])
        except (KeyError, ValueError):
            raise RuntimeError(
                errors.message(
                    f"{name}={os.environ.get(name)!r}",
                    "a process that Slurm has started",
                    "srun python script.py, in a job of sbatch",
                )
            ) from None

    def _resolve_hostnames(self) -> list[str]:
        """The nodes of the job, as Slurm expands their names."""
        nodes = os.environ.get("SLURM_JOB_NODELIST") or os.environ.get("SLURM_NODELIST")
        if nodes:
            return expanded_hosts(nodes)
        return subprocess.run(
            ["scontrol", "show", "hostname"], check=True, capture_output=True, text=True
        ).stdout.split()

    def cluster_spec(self) -> ClusterSpec:
        """The cluster; shows the process its GPUs only, if that was asked for."""
        hosts = self._resolve_hostnames()
        addresses = [f"{host}:{self._port + i}" for host in hosts for i in range(self._tasks_per_node)]
        if self._sets_gpus:
            first = self._rank % self._tasks_per_node * self._gpus_per_task
            own = range(first, min(first + self._gpus_per_task, self._gpus))
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(map(str, own))
        cluster, start = {}, 0
        for job, size in self._jobs.items():
            cluster[job] = addresses[start : start + size]
            start += size
        return ClusterSpec(cluster)

    def get_task_info(self) -> tuple[str | None, int | None]:
        """Job and number of this process."""
        return self.task_type, self.task_id

    def num_accelerators(
        self, task_type: str | None = None, task_id: int | None = None, config_proto: Any = None
    ) -> dict[str, int]:
        """How many accelerators a task has, by kind."""
        return {"GPU": self._gpus_per_task} if self._gpus else {}


def expanded_hosts(nodes: str) -> list[str]:
    """The names that a Slurm list such as ``a[1-3,07],b`` stands for."""
    names = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*", nodes):
        match = re.fullmatch(r"([^\[]*)\[([^\]]*)\](.*)", part)
        if match is None:
            names.append(part)
            continue
        head, inner, tail = match.groups()
        for item in inner.split(","):
            low, _, high = item.partition("-")
            width = len(low)
            for number in range(int(low), int(high or low) + 1):
                names += expanded_hosts(f"{head}{number:0{width}d}{tail}")
    return names


@public("distribute.cluster_resolver.KubernetesClusterResolver")
class KubernetesClusterResolver(ClusterResolver):
    """The cluster of pods with given labels.

    Args:
        job_to_label_mapping: the label selectors of each job; ``{"worker": ["job-name=tensorflow"]}`` if None.
        tf_server_port: the port of all tasks.
        rpc_layer: the protocol.
        override_client: what lists pods, in place of the package kubernetes.
    """

    def __init__(
        self,
        job_to_label_mapping: Mapping[str, Any] | None = None,
        tf_server_port: int = 8470,
        rpc_layer: str = "grpc",
        override_client: Any = None,
    ) -> None:
        self._labels = dict(job_to_label_mapping or {"worker": ["job-name=tensorflow"]})
        self._port, self.rpc_layer, self._client = tf_server_port, rpc_layer, override_client

    def cluster_spec(self) -> ClusterSpec:
        """The cluster of the pods that run now.

        Raises:
            RuntimeError: a pod is not running. ImportError: the package kubernetes is not installed.
        """
        client = self._client
        if client is None:
            try:
                from kubernetes import client as kubernetes  # type: ignore[import-not-found,unused-ignore]
                from kubernetes import config
            except ImportError as problem:
                raise ImportError(
                    errors.message(
                        "KubernetesClusterResolver without the package kubernetes",
                        "the package, or a client",
                        "pip install kubernetes, or TF_CONFIG and TFConfigClusterResolver",
                    )
                ) from problem
            config.load_kube_config()
            client = kubernetes.CoreV1Api()
        cluster = {}
        for job, selectors in self._labels.items():
            addresses = []
            for selector in selectors:
                pods = client.list_pod_for_all_namespaces(label_selector=selector).items
                for pod in sorted(pods, key=lambda pod: str(pod.metadata.name)):
                    if pod.status.phase != "Running":
                        raise RuntimeError(
                            f'Pod "{pod.metadata.name}" is not running; phase: "{pod.status.phase}"\n'
                            + errors.message("a pod that does not run", "running pods", "wait until all are up")
                        )
                    host = pod.status.pod_ip or pod.status.host_ip
                    addresses.append(f"{host}:{self._port}")
            cluster[job] = addresses
        return ClusterSpec(cluster)


@public("distribute.cluster_resolver.UnionResolver")
class UnionResolver(ClusterResolver):
    """The tasks of several resolvers together; of the first one's process.

    Args:
        args: the resolvers.
        task_type: the job of this process; that of the first resolver if None.
        task_id: its number.
        rpc_layer: the protocol.
    """

    def __init__(
        self,
        *args: ClusterResolver,
        task_type: str | None = None,
        task_id: int | None = None,
        rpc_layer: str | None = None,
    ) -> None:
        if not args:
            raise ValueError(
                "At least one ClusterResolver must be provided.\n"
                + errors.message("no resolvers", "one or more", "UnionResolver(SimpleClusterResolver(cluster))")
            )
        self._resolvers = args
        self.task_type = args[0].task_type if task_type is None else task_type
        self.task_id = args[0].task_id if task_id is None else task_id
        self.rpc_layer = rpc_layer or args[0].rpc_layer

    def cluster_spec(self) -> ClusterSpec:
        """All tasks: of a job that several resolvers have, one after the other."""
        cluster: dict[str, list[str]] = {}
        for resolver in self._resolvers:
            spec = resolver.cluster_spec()
            for job in spec.jobs:
                cluster.setdefault(job, []).extend(spec.task_address(job, i) for i in spec.task_indices(job))
        return ClusterSpec(cluster)

    def master(self, task_type: str | None = None, task_id: int | None = None, rpc_layer: str | None = None) -> str:
        """The target of a task; that of the first resolver if none is named."""
        if task_type is not None and task_id is not None:
            return super().master(task_type, task_id, rpc_layer)
        return self._resolvers[0].master(rpc_layer=rpc_layer or self.rpc_layer)


publish_as("distribute.cluster_resolver.ClusterResolver", ClusterResolver)
publish_as("distribute.cluster_resolver.UnionClusterResolver", UnionResolver)
publish_as("contrib.cluster_resolver.ClusterResolver", ClusterResolver)
publish_as("contrib.cluster_resolver.SimpleClusterResolver", SimpleClusterResolver)
publish_as("contrib.cluster_resolver.TFConfigClusterResolver", TFConfigClusterResolver)
publish_as("contrib.cluster_resolver.SlurmClusterResolver", SlurmClusterResolver)
publish_as("contrib.cluster_resolver.KubernetesClusterResolver", KubernetesClusterResolver)
publish_as("contrib.cluster_resolver.UnionClusterResolver", UnionResolver)
