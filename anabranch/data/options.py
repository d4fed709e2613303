"""``tf.data.Options``: how a pipeline is to run."""

from __future__ import annotations

import enum
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.values import dtypes
from anabranch.data.operands import number

_BOOL = (bool,)


class _Settings:
    """Attributes that are None until a program sets them, each of some types."""

    _allowed: dict[str, tuple[type, ...]] = {}

    def __init__(self) -> None:
        object.__setattr__(self, "_values", {})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in type(self)._allowed:
            raise AttributeError(f"{type(self).__name__} has no attribute {name!r}")
        values = self.__dict__["_values"]
        kind = type(self)._allowed[name][0]
        if name not in values and issubclass(kind, _Settings):
            values[name] = kind()
        return values.get(name)

    def __setattr__(self, name: str, value: Any) -> None:
        allowed = type(self)._allowed
        if name not in allowed:
            raise AttributeError(
                f"Cannot set the property {name} on {type(self).__name__}.\n"
                + errors.message(name, f"one of {', '.join(allowed)}", "check the spelling")
            )
        if value is not None and not isinstance(value, allowed[name]):
            raise TypeError(
                f"Property {name!r} must be of type {allowed[name][0]!r}, got: {value!r} (type: {type(value)!r})"
            )
        self.__dict__["_values"][name] = value

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and all(
            getattr(self, name) == getattr(other, name) for name in type(self)._allowed
        )

    def __ne__(self, other: object) -> bool:
        return not self == other

    __hash__ = None  # type: ignore[assignment]

    def _merged(self, other: Any) -> Any:
        result = type(self)()
        for name in {**self.__dict__["_values"], **other.__dict__["_values"]}:
            mine, its = getattr(self, name), getattr(other, name)
            if isinstance(mine, _Settings):
                setattr(result, name, mine._merged(its))
            elif mine is not None and its is not None and mine != its:
                raise ValueError(
                    f"Cannot merge incompatible values of option: {name}\n"
                    + errors.message(f"{name}={mine!r} and {its!r}", "one value", "set the option once")
                )
            else:
                setattr(result, name, mine if its is None else its)
        return result


@public("data.experimental.MapVectorizationOptions")
class MapVectorizationOptions(_Settings):
    """Whether functions of ``map`` run for a batch; here they do where that gives the same."""

    _allowed = {"enabled": _BOOL, "use_choose_fastest": _BOOL}


@public("data.experimental.OptimizationOptions")
class OptimizationOptions(_Settings):
    """Which rewrites are made. One changes the order of elements, and is made where TensorFlow makes it:
    ``shuffle_and_repeat_fusion``, which is on as long as ``apply_default_optimizations`` is not False.
    """

    _allowed = {
        "apply_default_optimizations": _BOOL,
        "autotune": _BOOL,
        "autotune_algorithm": (object,),
        "autotune_buffers": _BOOL,
        "autotune_cpu_budget": (int,),
        "filter_fusion": _BOOL,
        "filter_with_random_uniform_fusion": _BOOL,
        "hoist_random_uniform": _BOOL,
        "map_and_batch_fusion": _BOOL,
        "map_and_filter_fusion": _BOOL,
        "map_fusion": _BOOL,
        "map_parallelization": _BOOL,
        "map_vectorization": (MapVectorizationOptions,),
        "noop_elimination": _BOOL,
        "parallel_batch": _BOOL,
        "shuffle_and_repeat_fusion": _BOOL,
    }

    def _static(self) -> list[str]:
        """Names of the rewrites that TensorFlow 1.15 would be asked for, sorted."""
        chosen = [
            name
            for name in type(self)._allowed
            if getattr(self, name) is True and not name.startswith(("apply_", "autotune"))
        ]
        if self.map_vectorization.enabled:
            chosen.append("map_vectorization")
        if self.apply_default_optimizations is not False:
            chosen += [
                name
                for name in ("map_and_batch_fusion", "noop_elimination", "shuffle_and_repeat_fusion")
                if getattr(self, name) is not False and name not in chosen
            ]
        return sorted(chosen)


@public("data.experimental.ThreadingOptions")
class ThreadingOptions(_Settings):
    """How many threads a pipeline takes."""

    _allowed = {"max_intra_op_parallelism": (int,), "private_threadpool_size": (int,)}


@public("data.experimental.StatsOptions")
class StatsOptions(_Settings):
    """What is counted while a pipeline runs.

    ``aggregator`` counts it, under tags that begin with ``prefix``; with ``latency_all_edges`` also the microseconds
    that an element takes in each stage, without those before it, as ``record_latency::`` and the name of the operation.
    """

    _allowed = {
        "aggregator": (object,),
        "prefix": (str,),
        "counter_prefix": (str,),
        "latency_all_edges": _BOOL,
    }


@public("data.experimental.AutoShardPolicy")
class AutoShardPolicy(enum.IntEnum):
    """How a pipeline is cut for several workers."""

    OFF = -1
    AUTO = 0
    FILE = 1
    DATA = 2
    HINT = 3


@public("data.experimental.ExternalStatePolicy")
class ExternalStatePolicy(enum.Enum):
    """What is said of state that is not in a pipeline which is to be copied."""

    WARN = 0
    IGNORE = 1
    FAIL = 2


@public("data.experimental.DistributeOptions")
class DistributeOptions(_Settings):
    """How a pipeline is shared out to replicas."""

    _allowed = {
        "auto_shard": _BOOL,
        "auto_shard_policy": (AutoShardPolicy,),
        "_make_stateless": _BOOL,
        "num_devices": (int,),
    }


@public("data.experimental.AutotuneOptions")
class AutotuneOptions(_Settings):
    """How the numbers of parallel calls are found; here by what the machine has."""

    _allowed = {"enabled": _BOOL, "cpu_budget": (int,), "ram_budget": (int,), "autotune_algorithm": (object,)}


@public("data.Options")
class Options(_Settings):
    """How a pipeline is to run; given by ``dataset.with_options(options)``.

    Elements and their order depend on none of them, except the order of a shuffle that is repeated right away
    (``experimental_optimization.shuffle_and_repeat_fusion``) and ``experimental_deterministic=False``, which allows
    another order.

    Example:
        >>> import anabranch as tf
        >>> options = tf.data.Options()
        >>> options.experimental_optimization.apply_default_optimizations = False
        >>> dataset = tf.data.Dataset.range(3).with_options(options)
    """

    _allowed = {
        "autotune": (AutotuneOptions,),
        "experimental_external_state_policy": (ExternalStatePolicy,),
        "threading": (ThreadingOptions,),
        "experimental_deterministic": _BOOL,
        "experimental_distribute": (DistributeOptions,),
        "experimental_optimization": (OptimizationOptions,),
        "experimental_slack": _BOOL,
        "experimental_stats": (StatsOptions,),
        "experimental_threading": (ThreadingOptions,),
        "experimental_stateful_whitelist": (list,),
    }

    def merge(self, options: Options) -> Options:
        """These options together with others; ValueError if one is set to two values."""
        merged: Options = self._merged(options)
        return merged

    def _static_optimizations(self) -> list[str]:
        chosen = self.experimental_optimization._static()
        if self.experimental_deterministic is False:
            chosen.append("make_sloppy")
        if self.experimental_stats.latency_all_edges:
            chosen.append("latency_all_edges")
        return [*chosen, *(["slack"] if self.experimental_slack else [])]


def applied(dataset: Any, options: Options) -> Any:
    """A dataset behind the stages that options stand for."""
    threading = options.experimental_threading
    if threading.max_intra_op_parallelism is not None:
        most = number(threading.max_intra_op_parallelism, "max_intra_op_parallelism")
        dataset = dataset._stage("MaxIntraOpParallelismDataset", most)
    if threading.private_threadpool_size is not None:
        dataset = dataset._stage("PrivateThreadPoolDataset", number(threading.private_threadpool_size, "num_threads"))
    chosen = options._static_optimizations()
    if chosen:
        names = convert_to_tensor(chosen, dtypes.string, name="optimizations")
        dataset = dataset._stage("OptimizeDataset", names)
    if options.experimental_optimization.autotune is not False:
        dataset = dataset._stage("ModelDataset")
    stats = options.experimental_stats
    if stats.aggregator is not None:
        texts = [convert_to_tensor(text or "", dtypes.string) for text in (stats.prefix, stats.counter_prefix)]
        dataset = dataset._stage("SetStatsAggregatorDataset", stats.aggregator._resource, *texts)
    return dataset
