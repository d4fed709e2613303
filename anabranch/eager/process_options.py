"""``tf.config``: threads, placement and optimizers of ops that run at once and of functions.

A session has its own, in ``tf.ConfigProto``, as in TensorFlow. Threads hold if they are chosen before the devices
start, see :mod:`anabranch.xla.startup`. There is one compiler here, XLA, which compiles everything: what is said of
compilation and of rewrites of the graph is kept and told again, and refused where it would change values.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Mapping
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.protos.config_pb2 import ConfigProto
from anabranch.eager.mode import EAGER
from anabranch.xla import startup

_ALWAYS_TOLD = ("disable_model_pruning", "disable_meta_optimizer")
_REFUSED = types.MappingProxyType(
    {
        "auto_mixed_precision": "tf.train.experimental.enable_mixed_precision_graph_rewrite(optimizer)",
        "debug_stripper": "no tf.Assert and tf.debugging.assert_* in what is to run without them",
    }
)
_OPTIONS = frozenset(field.name for field in ConfigProto().graph_options.rewrite_options.DESCRIPTOR.fields)


@dataclasses.dataclass
class _Choices:
    """What a program has said."""

    inter_op_threads: int | None = None
    intra_op_threads: int | None = None
    jit: bool = False
    optimizers: dict[str, bool] = dataclasses.field(default_factory=dict)


_choices = _Choices()


def _proto(name: str) -> Any:
    """A field of the configuration that `tf.enable_eager_execution` was given, or its default."""
    return getattr(ConfigProto() if EAGER.config is None else EAGER.config, name)


def _changed(**fields: Any) -> Any:
    config = ConfigProto()
    if EAGER.config is not None:
        config.CopyFrom(EAGER.config)
    for name, value in fields.items():
        setattr(config, name, value)
    return config


def _threads(num_threads: Any) -> int:
    if isinstance(num_threads, bool) or not isinstance(num_threads, int) or num_threads < 0:
        raise ValueError(
            errors.message(f"num_threads={num_threads!r}", "0, for a default, or a number of threads", "2")
        )
    return num_threads


@public("config.threading.get_intra_op_parallelism_threads")
def get_intra_op_parallelism_threads() -> int:
    """How many threads a kernel uses on the CPU, as chosen; 0 for as many as there are cores."""
    chosen = _choices.intra_op_threads
    return int(_proto("intra_op_parallelism_threads")) if chosen is None else chosen


@public("config.threading.set_intra_op_parallelism_threads")
def set_intra_op_parallelism_threads(num_threads: int) -> None:
    """Choose how many threads a kernel uses on the CPU: of the process, before its devices start.

    Args:
        num_threads: 0 for as many as there are cores.

    Raises:
        RuntimeError: the devices have started, with another number.
        ValueError: it is no such number.

    Example:
        >>> import anabranch as tf
        >>> tf.config.threading.set_intra_op_parallelism_threads(2)  # doctest: +SKIP
    """
    if _threads(num_threads) == get_intra_op_parallelism_threads():
        return
    if startup.choices.started:
        raise RuntimeError(
            "Intra op parallelism cannot be modified after initialization.\n"
            + errors.message(
                f"{num_threads} threads after the devices have started",
                "the number before: it is fixed when something is first compiled",
                f"call it right after the import, or set {startup.THREADS}={num_threads} in the environment",
            )
        )
    _choices.intra_op_threads = num_threads
    startup.choices.environment.pop(startup.THREADS, None)
    startup.choose(ConfigProto(intra_op_parallelism_threads=num_threads))


@public("config.threading.get_inter_op_parallelism_threads")
def get_inter_op_parallelism_threads() -> int:
    """The number given to `tf.config.threading.set_inter_op_parallelism_threads`, which is a hint; 0 by default."""
    chosen = _choices.inter_op_threads
    return int(_proto("inter_op_parallelism_threads")) if chosen is None else chosen


@public("config.threading.set_inter_op_parallelism_threads")
def set_inter_op_parallelism_threads(num_threads: int) -> None:
    """A hint without effect: XLA decides what of a compiled program overlaps.

    Args:
        num_threads: the number that `tf.config.threading.get_inter_op_parallelism_threads` tells; 0 for a default.

    Raises:
        RuntimeError: the devices have started.
    """
    if _threads(num_threads) != get_inter_op_parallelism_threads() and startup.choices.started:
        raise RuntimeError(
            "Inter op parallelism cannot be modified after initialization.\n"
            + errors.message(
                f"{num_threads} threads after the devices have started", "the number before", "leave the call out"
            )
        )
    _choices.inter_op_threads = num_threads


@public("config.get_soft_device_placement")
def get_soft_device_placement() -> bool:
    """Whether ops that run at once go to the CPU where the device that they name is not there."""
    return bool(_proto("allow_soft_placement"))


@public("config.set_soft_device_placement")
def set_soft_device_placement(enabled: bool) -> None:
    """Choose whether ops that run at once go to the CPU where the device that they name is not there.

    Args:
        enabled: whether; without a choice it raises.

    Example:
        >>> import anabranch as tf
        >>> tf.config.set_soft_device_placement(False)
        >>> tf.config.get_soft_device_placement()
        False
    """
    EAGER.config = _changed(allow_soft_placement=bool(enabled))


@public("debugging.get_log_device_placement")
def get_log_device_placement() -> bool:
    """Whether the device of each op that runs at once is written to standard error."""
    return bool(_proto("log_device_placement"))


@public("debugging.set_log_device_placement")
def set_log_device_placement(enabled: bool) -> None:
    """Choose whether the device of each op that runs at once is written to standard error.

    Raises:
        RuntimeError: ops have run, under another choice.
    """
    if bool(enabled) == get_log_device_placement():
        return
    try:
        EAGER.configure(_changed(log_device_placement=bool(enabled)))
    except ValueError:
        raise RuntimeError(
            "Device placement logging must be set at program startup\n"
            + errors.message(
                f"set_log_device_placement({enabled}) after ops have run", "it before", "call it right after the import"
            )
        ) from None


@public("config.optimizer.get_jit")
def get_jit() -> bool:
    """What was given to `tf.config.optimizer.set_jit`; False by default."""
    return _choices.jit


@public("config.optimizer.set_jit")
def set_jit(enabled: bool) -> None:
    """A hint without effect: XLA compiles what is worth it in any case."""
    _choices.jit = bool(enabled)


@public("config.optimizer.get_experimental_options")
def get_experimental_options() -> dict[str, bool]:
    """What was given to `tf.config.optimizer.set_experimental_options`, by name."""
    return {**dict.fromkeys(_ALWAYS_TOLD, False), **_choices.optimizers}


@public("config.optimizer.set_experimental_options")
def set_experimental_options(options: Mapping[str, bool]) -> None:
    """Hints about rewrites of the graph, which XLA makes where they pay.

    Args:
        options: bools by name, of TensorFlow's names.

    Raises:
        ValueError: there is no such option.
        UnimplementedError: it would change what a program computes.

    Example:
        >>> import anabranch as tf
        >>> tf.config.optimizer.set_experimental_options({"constant_folding": True})
        >>> tf.config.optimizer.get_experimental_options()["constant_folding"]
        True
    """
    for name, value in options.items():
        if name not in _OPTIONS:
            raise ValueError(
                errors.message(f"option {name!r}", f"one of {', '.join(sorted(_OPTIONS))}", f"no option {name!r}")
            )
        if value and name in _REFUSED:
            raise errors.UnimplementedError(
                None,
                None,
                errors.message(f"option {name!r}", "an option that keeps what a program computes", _REFUSED[name]),
            )
    _choices.optimizers.update({name: bool(value) for name, value in options.items()})
