"""What JAX fixes when its devices start, and how a program chooses it: the one place where that is set.

JAX starts its devices when something is first compiled, or when somebody asks which devices there are. From then on
the following cannot change in the process. It can be chosen before, by the options of a session or in the environment.

======================  =============================================  =================================================
what                    by the first sessions' ``tf.ConfigProto``      in the environment
======================  =============================================  =================================================
CPU devices             ``device_count={"CPU": 3}``                    ``ANABRANCH_CPU_DEVICES=3``, or JAX's own
                                                                       ``XLA_FLAGS``
dispatch on the CPU     (follows from the devices, or from             ``ANABRANCH_CPU_DISPATCH=inline`` or ``threads``
                        ``make_callable(asynchronous=True)``)
threads of kernels      ``intra_op_parallelism_threads=1``, or         ``PJRT_NPROC=1``
                        ``SessionOptions(deterministic=True)``
memory of GPUs          ``gpu_options.allow_growth``,                  ``XLA_PYTHON_CLIENT_PREALLOCATE``,
                        ``per_process_gpu_memory_fraction``            ``XLA_PYTHON_CLIENT_MEM_FRACTION``
platforms               ``device_count={"GPU": 0}`` (of one session)   ``JAX_PLATFORMS=cpu``
======================  =============================================  =================================================

The environment wins. More CPU devices than there are, asked for when JAX has started, raise: a graph that names them
could not run. Threads and memory are hints, as in TensorFlow: the session that starts the devices decides.

Dispatch. With one CPU device a program runs in the thread that calls it, as whoever waits for its results anyway then
waits for no thread to be woken, twice a step, which takes as long as many a step does (20 to 50 µs). Steps in flight,
and several CPU devices, need JAX's own threads: there a call returns at once and the programs of several devices
overlap (two of 0.45 ms take 0.48 ms on two cores; called inline 0.86; from two threads of our own 0.52 to 0.61). If
the program has imported JAX itself, JAX's behaviour is the program's own.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator
from typing import Any

from anabranch.core import errors

CPU_DEVICES = "ANABRANCH_CPU_DEVICES"
DISPATCH = "ANABRANCH_CPU_DISPATCH"
THREADS = "PJRT_NPROC"
FIXED_THREADS = 8
"""Threads of kernels in a deterministic program: the same on a laptop and on a server."""
_JAX_DISPATCH = "jax_cpu_enable_async_dispatch"
_JAX_CPU_DEVICES = "jax_num_cpu_devices"
_FORCED_BY_XLA = "xla_force_host_platform_device_count"


@dataclasses.dataclass
class Choices:
    """What has been chosen for the process so far."""

    cpu_devices: int = 1
    inline: bool = True
    """Whether a program on the CPU may run in the thread that calls it."""
    environment: dict[str, str] = dataclasses.field(default_factory=dict)
    """Variables that JAX reads when its devices start, where the program's own environment does not set them."""
    started: bool = False
    dispatches_inline: bool = False
    """Whether programs on the CPU run in the thread that calls them, now that the devices have started."""


choices = Choices()


def let_steps_fly() -> None:
    """Says that steps will be in flight, so that programs on the CPU get threads of JAX's."""
    choices.inline = False


def choose(config: Any) -> None:
    """Take from a ConfigProto what must be known when the devices start.

    Raises:
        FailedPreconditionError: it asks for more CPU devices than there are, and JAX has started.
    """
    wanted = config.device_count.get("CPU", 1)
    if choices.started:
        require_cpu_devices(wanted)
        return
    choices.cpu_devices = max(choices.cpu_devices, wanted)
    variables = choices.environment
    if config.intra_op_parallelism_threads > 0:
        variables.setdefault(THREADS, str(config.intra_op_parallelism_threads))
    if config.gpu_options.allow_growth:
        variables.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    if config.gpu_options.per_process_gpu_memory_fraction > 0:
        fraction = config.gpu_options.per_process_gpu_memory_fraction
        variables.setdefault("XLA_PYTHON_CLIENT_MEM_FRACTION", f"{fraction:.4g}")


def fix_threads() -> None:
    """Have kernels split into :data:`FIXED_THREADS` threads, whatever the number of cores, unless the program says.

    Raises:
        FailedPreconditionError: JAX has started its devices with as many threads as there are cores.
    """
    if THREADS in os.environ or THREADS in choices.environment:
        return
    if choices.started:
        raise errors.FailedPreconditionError(
            None,
            None,
            errors.message(
                "SessionOptions(deterministic=True) after JAX has started its devices",
                "it before: the number of threads of kernels, which their bits follow, is fixed when something is "
                "first compiled",
                f"make the deterministic session before any other runs a step, or set {THREADS}={FIXED_THREADS} in the "
                "environment",
            ),
        )
    choices.environment[THREADS] = str(FIXED_THREADS)


def require_cpu_devices(wanted: int) -> None:
    """Raise unless there are so many CPU devices, which have started.

    Raises:
        FailedPreconditionError: there are fewer.
    """
    there = choices.cpu_devices
    if wanted > there:
        raise errors.FailedPreconditionError(
            None,
            None,
            errors.message(
                f"device_count={{'CPU': {wanted}}} after JAX has started its devices, {there} of the CPU among them",
                f"at most {there}: the number of CPU devices is fixed when something is first compiled",
                f"make the session with tf.ConfigProto(device_count={{'CPU': {wanted}}}) before any other runs a step, "
                f"or set {CPU_DEVICES}={wanted} in the environment",
            ),
        )


def may_find_accelerators() -> bool:
    """Whether JAX might find other devices than CPUs when it starts: what can be told without starting it."""
    if choices.started or os.environ.get("JAX_PLATFORMS", "") == "cpu":
        return choices.started
    plugins = importlib.metadata.entry_points(group="jax_plugins")
    return bool(plugins) or any(importlib.util.find_spec(name) is not None for name in ("jax_plugins", "libtpu"))


def start(module: Any, imported_before: bool) -> None:
    """Start the devices of the jax module as chosen; ``imported_before`` is whether the program had imported it."""
    asked = os.environ.get(CPU_DEVICES)
    if asked is not None:
        if not (asked.isascii() and asked.isdigit() and int(asked) > 0):
            raise ValueError(errors.message(f"{CPU_DEVICES}={asked!r}", "a number of devices", f"{CPU_DEVICES}=8"))
        choices.cpu_devices = max(choices.cpu_devices, int(asked))
    wanted = choices.cpu_devices
    forced = _FORCED_BY_XLA in os.environ.get("XLA_FLAGS", "") or module.config.values.get(_JAX_CPU_DEVICES, -1) > 1
    if wanted > 1 and not forced:
        with contextlib.suppress(RuntimeError):  # the program has started JAX: what is there is counted below
            module.config.update(_JAX_CPU_DEVICES, wanted)
    inline = choices.inline and not imported_before and wanted == 1 and not forced
    dispatch = os.environ.get(DISPATCH, "inline" if inline else "threads")
    if dispatch not in ("inline", "threads"):
        raise ValueError(errors.message(f"{DISPATCH}={dispatch!r}", "'inline' or 'threads'", f"{DISPATCH}=inline"))
    with _environment(choices.environment), _inline_dispatch(module, dispatch == "inline"):
        module.devices()
    choices.started = True
    choices.dispatches_inline = not module.config.values.get(_JAX_DISPATCH, False) or dispatch == "inline"
    with contextlib.suppress(RuntimeError):  # JAX_PLATFORMS without the CPU
        choices.cpu_devices = len(module.devices("cpu"))
    require_cpu_devices(wanted)


@contextlib.contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """A block in which the environment has these variables, too."""
    missing = {name: value for name, value in variables.items() if name not in os.environ}
    os.environ.update(missing)
    try:
        yield
    finally:
        for name in missing:
            del os.environ[name]


@contextlib.contextmanager
def _inline_dispatch(module: Any, inline: bool) -> Iterator[None]:
    """A block in which devices start that run programs in the thread that calls them, if ``inline``."""
    if not inline or not module.config.values.get(_JAX_DISPATCH, False):
        yield
        return
    module.config.update(_JAX_DISPATCH, False)
    try:
        yield
    finally:
        module.config.update(_JAX_DISPATCH, True)  # it is the program's, and has had its effect
