"""The one place that imports jax, late: importing the package starts no runtime.

No global configuration of JAX is changed, but for what it fixes when its devices start
(:mod:`anabranch.xla.startup`). 64-bit types are enabled around each trace and call by :func:`x64`.
"""

from __future__ import annotations

import contextlib
import copy
import functools
import io
import logging
import math
import os
import sys
import threading
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.one_time import Once
from anabranch.xla import memory, startup


@contextlib.contextmanager
def _numpys_random_state_left_alone() -> Iterator[None]:
    """Keep the modules that this thread imports from drawing from NumPy's global generator.

    JAX draws five numbers as default arguments of a function (``jax/_src/clusters/k8s_cluster.py``). The import runs in
    a thread of ours when there is time, so that a program that has seeded NumPy would get other numbers each time.
    """
    importer, generator, rand = threading.get_ident(), np.random.RandomState(0), np.random.rand

    def draw(*sizes: int) -> Any:
        return (generator.rand if threading.get_ident() == importer else rand)(*sizes)

    np.random.rand = draw
    try:
        yield
    finally:
        np.random.rand = rand


def _import() -> Any:
    global _imported_before
    memory.keep_if_asked()
    _imported_before = "jax" in sys.modules
    with _numpys_random_state_left_alone():
        import jax as module
        import jax.experimental.serialize_executable
        import jax.experimental.xla_metadata
        import jax.extend.core

    # It tells at INFO, which absl's programs show, that there is no TPU: nobody who has none wants to know.
    bridge = logging.getLogger("jax._src.xla_bridge")
    if bridge.level == logging.NOTSET:
        bridge.setLevel(logging.WARNING)
    for start in _when_loaded:
        start(module)
    return module


_imported_module = Once(_import, "import-of-jax")


@functools.cache
def jax() -> Any:
    """The jax module, imported on first use."""
    return _imported_module()


def is_loaded() -> bool:
    """Whether JAX has been imported and its devices have started."""
    return _start_devices.done


_imported_before = False
"""Whether the program had imported JAX itself."""
_when_loaded: list[Any] = []


def when_loaded(start: Any) -> Any:
    """Register a function of the jax module that runs once it is imported."""
    _when_loaded.append(start)
    return start


def wait_for(value: Any) -> None:
    """Wait until an array, or the arrays of a list, are there."""
    if hasattr(value, "block_until_ready"):
        value.block_until_ready()
    else:
        jax().block_until_ready(value)


def jaxpr_as_function(closed: Any) -> Any:
    """The function that a traced one has become."""
    return jax().extend.core.jaxpr_as_fun(closed)


def jaxlib_version() -> str:
    """The version of XLA's package."""
    import jaxlib

    return jaxlib.__version__


class Client:
    """A client of XLA that notes the code which JAX's own cache of compiled programs has it load (a user may have set
    ``jax_compilation_cache_dir``): what was loaded may not be serialised again. In all else the client itself.
    """

    def __init__(self, client: Any) -> None:
        self.client = client
        self.code = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    def deserialize_executable(self, code: bytes, *rest: Any, **options: Any) -> Any:
        """Load what was compiled before."""
        self.code = code
        return self.client.deserialize_executable(code, *rest, **options)


def compiled(lowered: Any, options: dict[str, Any] | None, client: Client | None = None) -> tuple[Any, bytes | None]:
    """What ``lowered.compile(options)`` gives, and its code if that was loaded, for :func:`serialized`."""
    lowering = lowered._lowering
    noting = client if client is not None else Client(lowering.compile_args["backend"])
    with_client, inner = copy.copy(lowered), copy.copy(lowering)
    inner.compile_args = {**lowering.compile_args, "backend": noting}
    with_client._lowering = inner
    function = with_client.compile(options)
    function._executable._unloaded_executable.backend = noting.client
    return function, noting.code or None


@contextlib.contextmanager
def not_kept_by_jax() -> Iterator[None]:
    """A block of this thread in which JAX's own cache of compiled programs takes in nothing."""
    from jax._src import config

    with config.persistent_cache_min_compile_time_secs(math.inf):
        yield


def serialized(compiled: Any, code: bytes | None = None) -> bytes:
    """A compiled function as JAX serialises it; ``code`` takes the place of its machine code, as an executable that was
    loaded itself may not be serialised again.
    """
    from jax.experimental import serialize_executable

    unloaded = compiled._executable._unloaded_executable
    if unloaded.host_callbacks or unloaded.keepalive:
        raise NotImplementedError("it calls functions of this process")
    if code is None:
        return serialize_executable.serialize(compiled)[0]
    executable = unloaded.xla_executable

    class Pickler(serialize_executable._JaxPjrtPickler):
        def persistent_id(self, value: Any) -> Any:
            return ("exec", code) if value is executable else super().persistent_id(value)

    with io.BytesIO() as file:
        Pickler(file).dump((unloaded, jax().tree_util.tree_leaves(compiled.args_info), compiled._no_kwargs))
        return file.getvalue()


def loaded(payload: bytes, inputs: Any, outputs: Any, device: Any) -> Any:
    """The function that :func:`serialized` was given, on a device; ``inputs`` and ``outputs`` are tree structures.

    The device need not be the one that it was compiled for: what several devices do is compiled once. A program over
    several devices is for those that it was compiled for, a tuple of them.
    """
    from jax._src import compiler
    from jax.experimental import serialize_executable

    if isinstance(device, tuple):
        return serialize_executable.deserialize_and_load(payload, inputs, outputs, device[0].client, device)
    if len(device.client.devices()) == 1:
        return serialize_executable.deserialize_and_load(payload, inputs, outputs, device.client, [device])
    assignment = np.array([[device.id]])
    options = compiler.get_compile_options(num_replicas=1, num_partitions=1, device_assignment=assignment)

    class Unpickler(serialize_executable._JaxPjrtUnpickler):
        def persistent_load(self, reference: Any) -> Any:
            if reference[0] == "device":
                return device
            if reference[0] == "exec":
                return device.client.deserialize_executable(
                    reference[1], executable_devices=self.execution_devices, compile_options=options
                )
            return super().persistent_load(reference)

    unloaded, arguments, no_kwargs = Unpickler(io.BytesIO(payload), device.client, [device]).load()
    return jax().stages.Compiled(unloaded.load(), [], inputs.unflatten(arguments), outputs, no_kwargs=no_kwargs)


def x64() -> Any:
    """A context manager under which JAX keeps 64-bit types: for all tracing, and for calls that take such values."""
    if _forked:
        refuse_after_fork()
    return jax().enable_x64(True)


_start_devices = Once(lambda: startup.start(jax(), _imported_before), "start-of-devices")
"""Starts JAX's devices, if nobody has."""


def waits_in_caller() -> bool:
    """Whether programs for the default device run in the thread that calls them."""
    return default_platform() == "cpu" and startup.choices.dispatches_inline


@functools.cache
def devices(platform: str) -> tuple[Any, ...]:
    """JAX devices of a platform (``cpu``, ``gpu``, ``tpu``); empty if there are none."""
    try:
        _start_devices()
        return tuple(jax().devices(platform))
    except RuntimeError:
        return ()


@functools.cache
def default_platform() -> str:
    """Platform of the first device that a program runs on when nothing is said."""
    _start_devices()
    platform = jax().default_backend()
    return "gpu" if platform in ("cuda", "rocm") else platform


_forked = False


def _after_fork() -> None:
    """In a forked child: the threads of a runtime that had started are gone, and waiting for one never ends.

    Devices are what starts threads; importing JAX does not. Asking by its function would take a lock, which another
    thread may have held when the process was forked.
    """
    global _forked
    bridge = sys.modules.get("jax._src.xla_bridge")
    if bridge is not None and getattr(bridge, "_backends", None):
        _forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def refuse_after_fork() -> None:
    """Raise in a child that was forked after JAX had started; called before anything is compiled or called.

    Raises:
        FailedPreconditionError: this process is such a child.
    """
    if _forked:
        raise errors.FailedPreconditionError(
            None,
            None,
            errors.message(
                "a compiled run in a forked child whose parent had already used JAX",
                "a process of its own: the threads that would do the work do not live in the child",
                "start processes by multiprocessing.get_context('spawn'), fork before the first compiled run, or use "
                "tf.SessionOptions(tier='interpreted') in the child, where every op has a host kernel",
            ),
        )


def is_default(device: Any) -> bool:
    """Whether a placed device is the one on which JAX runs programs when nothing is said."""
    return bool(device.platform == default_platform() and device.number == 0)


_other_devices_used = False


def jax_device(device: Any) -> Any:
    """The JAX device of a placed device (anything with ``platform`` and ``number``); None means the default one."""
    global _other_devices_used
    if device is None:
        return devices(default_platform())[0]
    _other_devices_used = True
    return devices(device.platform)[device.number]


def other_devices_used() -> bool:
    """Whether anything was placed on a device other than the default one, so that values may have to be moved."""
    return _other_devices_used


def is_wide(executable: Any) -> bool:
    """Whether a compiled function takes values of 64 bits, which JAX keeps only under :func:`x64`."""
    avals = jax().tree.leaves(executable.in_avals)
    return any(str(getattr(aval, "dtype", "")) in _WIDE for aval in avals)


_WIDE = ("int64", "uint64", "float64", "complex128")


def moved(values: Any, device: Any) -> Any:
    """``values`` with the arrays of other devices copied to ``device`` (None: the default one)."""
    if device is None and not _other_devices_used:
        return values
    module = jax()
    target = jax_device(device) if device is not None else devices(default_platform())[0]
    put = device is not None
    with x64():  # a copy keeps 64 bits
        return [
            module.device_put(value, target)
            if (put and not hasattr(value, "devices")) or (hasattr(value, "devices") and value.devices() != {target})
            else value
            for value in values
        ]


_FASTER_TO_COMPILE = {"xla_backend_optimization_level": 2}
"""XLA's options on CPUs, unless ``XLA_FLAGS`` sets them: LLVM's level 2 takes 6 to 23 % less CPU time to compile a step
than its level 3, which gives code that is no faster (docs/notes/0023-first-minute.md).
"""


def compiler_options(platform: str) -> dict[str, Any] | None:
    """What programs for a platform are compiled with, for ``Lowered.compile``.

    They are part of the names of programs on disk, as the source of this module and ``XLA_FLAGS`` are.
    """
    if platform != "cpu":
        return None
    flags = os.environ.get("XLA_FLAGS", "")
    return {name: value for name, value in _FASTER_TO_COMPILE.items() if f"--{name}" not in flags} or None


ALIGNMENT = 64
"""Bytes by which an array has to be aligned for XLA to take it on CPUs as it is; others are copied at each call."""
WORTH_ALIGNING = 1 << 14
"""Bytes from which an array that programs take again and again is copied once, to be aligned."""


def empty(shape: Sequence[int], dtype: Any) -> np.ndarray:
    """An array that XLA takes as it is."""
    dtype = np.dtype(dtype)
    size = math.prod(shape) * dtype.itemsize
    memory = np.empty(size + ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % ALIGNMENT
    return memory[start : start + size].view(dtype).reshape(shape)


def owns_memory(array: np.ndarray) -> bool:
    """Whether an array is all of a piece of memory that is NumPy's or :func:`empty`'s, and not a view of something."""
    base = array.base
    if base is None:
        return array.flags.owndata
    return type(base) is np.ndarray and base.flags.owndata and base.nbytes == array.nbytes + ALIGNMENT


def as_argument(array: np.ndarray) -> Any:
    """An array that calls of programs for the default device take without looking into it, in the same memory if it is
    aligned; for one that nobody writes to.
    """
    if array.dtype.hasobject:
        return array
    with x64():
        return jax().device_put(array)


def kept(array: np.ndarray) -> Any:
    """An array with these values that programs take again and again without its being copied.

    On CPUs that is an aligned one; elsewhere it stands in the memory of the default device.
    """
    if array.dtype.hasobject:
        return array
    if default_platform() != "cpu":
        with x64():
            return jax().device_put(array)
    if array.nbytes < WORTH_ALIGNING or (array.flags.c_contiguous and array.ctypes.data % ALIGNMENT == 0):
        return array
    aligned = empty(array.shape, array.dtype)
    aligned[...] = array
    aligned.flags.writeable = array.flags.writeable
    return aligned
