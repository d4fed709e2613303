"""Libraries of TensorFlow that are not here, as far as other libraries name them while they are imported.

A library of models names estimators and TPUs at its head, derives classes from them, and offers functions for who uses
them; who does not must be able to import it all the same. So the modules of :data:`LIBRARIES` can be imported through
the alias, and any name can be taken from them: a class if it begins with a capital, which can be derived from, else a
function. An instance, or a call, raises ``NotImplementedError`` with what to write instead. Plain data is there: the
names of modes, and the hooks that ``tf.train`` has under the same names. ``anabranch check`` reports all else as
missing, like the public interface, where these libraries are not found.
"""

from __future__ import annotations

import enum
import functools
import importlib
import types
from typing import Any, NoReturn

from anabranch.compat import versions
from anabranch.core import errors

# Modules below `tensorflow.`: a library, and what it consists of.
LIBRARIES: dict[str, str] = {
    "estimator": "export inputs tpu experimental",
    "tpu": "experimental",
    "contrib.learn": "estimators learn_io monitors utils ops python.learn python.learn.estimators "
    "python.learn.estimators.estimator python.learn.estimators.run_config python.learn.estimators.model_fn "
    "python.learn.estimators.head python.learn.learn_io python.learn.monitors python.learn.ops python.learn.utils "
    "python.learn.experiment python.learn.metric_spec python.learn.session_run_hook python.learn.monitored_session",
    "contrib.estimator": "python.estimator python.estimator.head python.estimator.hooks",
    "contrib.tpu": "python.tpu python.ops python.ops.tpu_ops python.profiler profiler python.tpu.device_assignment "
    "python.tpu.tpu python.tpu.tpu_config python.tpu.tpu_context python.tpu.tpu_estimator python.tpu.tpu_feed "
    "python.tpu.tpu_function python.tpu.tpu_optimizer python.tpu.training_loop python.tpu.topology "
    "python.tpu.session_support python.tpu.bfloat16 python.tpu.keras_support",
    "contrib.factorization": "python.ops python.ops.clustering_ops python.ops.factorization_ops python.ops.kmeans "
    "python.ops.gmm",
    "contrib.tensor_forest.client": "random_forest eval_metrics",
    "contrib.boosted_trees": "",
    "python.estimator": "estimator export model_fn run_config inputs training canned canned.head",
    "python.autograph.converters": "break_statements continue_statements return_statements",
    "python.autograph.core": "converter naming",
    "python.autograph.pyct": "anno compiler inspect_utils parser qual_names templates transformer "
    "common_transformers common_transformers.anf",
    "python.tpu": "ops ops.tpu_ops device_assignment tpu tpu_config tpu_context tpu_estimator tpu_feed tpu_function "
    "tpu_optimizer training_loop topology session_support bfloat16 functional tpu_embedding async_checkpoint",
}
_SHARED_WITH_TRAIN = frozenset(
    [
        *("CheckpointSaverHook", "CheckpointSaverListener", "FeedFnHook", "FinalOpsHook", "GlobalStepWaiterHook"),
        *("LoggingTensorHook", "NanLossDuringTrainingError", "NanTensorHook", "ProfilerHook", "SecondOrStepTimer"),
        *("SessionRunArgs", "SessionRunContext", "SessionRunHook", "SessionRunValues", "StepCounterHook"),
        *("StopAtStepHook", "SummarySaverHook", "MonitoredSession", "SingularMonitoredSession", "Scaffold"),
        *("ChiefSessionCreator", "WorkerSessionCreator", "SessionCreator"),
    ]
)


class ModeKeys:
    """What a model's function is called for."""

    TRAIN = "train"
    EVAL = "eval"
    PREDICT = INFER = "infer"


class InputPipelineConfig:
    """How inputs come to the cores of a TPU."""

    PER_SHARD_V1 = 1
    PER_HOST_V1 = 2
    PER_HOST_V2 = 3
    BROADCAST = 4


class ExportSavedModelApiVersion(enum.Enum):
    """How models for TPUs are exported."""

    V1 = 1
    V2 = 2


class TpuContext:
    """What is computed on TPUs: nothing here, so that there are no shards, and libraries go on without."""

    number_of_shards = None


def get_tpu_context() -> TpuContext:
    """The context of the computation that is being built."""
    return TpuContext()


_DATA: dict[str, Any] = {
    one.__name__: one
    for one in (ModeKeys, InputPipelineConfig, ExportSavedModelApiVersion, TpuContext, get_tpu_context)
}


def library_of(module: str) -> str | None:
    """The absent library that a module (below ``tensorflow.``) belongs to, or None."""
    for library, inner in LIBRARIES.items():
        if module == library or (
            module.startswith(library + ".") and module[len(library) + 1 :] in _with_folders(inner)
        ):
            return library
    return None


@functools.cache
def _with_folders(inner: str) -> frozenset[str]:
    """Modules, and the folders that they lie in."""
    folders = {".".join(one.split(".")[:size]) for one in inner.split() for size in range(1, one.count(".") + 2)}
    return frozenset(folders)


class Absent:
    """A class of a library that is not here: it can be derived from; instances cannot be made."""

    absent_name = ""

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        """Raise ``NotImplementedError``."""
        _refuse(cls.absent_name)


def _refuse(name: str) -> NoReturn:
    raise NotImplementedError(
        errors.message(
            f"tf.{name}, of a library that is not here",
            "a name that Anabranch has: this one is there so that libraries that name it can be imported",
            versions.instead(name),
        )
    )


@functools.cache
def name_in(module: str, name: str) -> Any:
    """The stand-in of a name of an absent library's module; AttributeError for one that a module never has."""
    if name.startswith("__"):
        raise AttributeError(name)
    if name in _DATA:
        return _DATA[name]
    if name in _SHARED_WITH_TRAIN:
        return getattr(importlib.import_module("anabranch").train, name)
    try:
        part = importlib.import_module(f"anabranch.{module}")  # of some of these libraries a part is here
    except ModuleNotFoundError:
        part = None
    if part is not None and name in dir(part):
        return getattr(part, name)
    full = f"{module}.{name}"
    if name.lstrip("_")[:1].isupper():
        return type(name, (Absent,), {"__module__": f"tensorflow.{module}", "absent_name": full})

    def absent(*args: Any, **kwargs: Any) -> Any:
        _refuse(full)

    absent.__name__ = absent.__qualname__ = name
    absent.__module__ = f"tensorflow.{module}"
    absent.absent_name = full  # type: ignore[attr-defined]
    return absent


def is_stand_in(value: Any) -> bool:
    """Whether a value stands for what is not here."""
    return isinstance(getattr(value, "absent_name", None), str) and isinstance(value, (type, types.FunctionType))
