"""Compiled programs on disk: what they are keyed by, and how what tracing found out is written down.

The key is a hash of all that tracing and compiling depend on: the structure of the program (types, attributes and
wiring of its ops, ``Program._structure``) and of its arguments, the versions of its ops, the sources of this package,
the versions of Python, NumPy, JAX and XLA, JAX's settings and XLA's flags, the kind of CPU, and how many threads XLA
may have, as it cuts loops for them. A change of any of these is a miss. A program with ops that are defined outside of
this package is not kept, as what their kernels call is not known.

An entry holds the executable as JAX serialises it, and as JSON what tracing found out besides: so a hit needs no trace.
JAX reads its part by pickle, and what is in it is machine code: both are code of the user's own, from a folder that
only the user may write to (:mod:`anabranch.xla.disk_cache`). The rest is plain data.

What is on disk saves the time to compile, and never changes what runs when in a program that follows a schedule
(:mod:`anabranch.runtime.plans.policy`). Programs for CPUs only are kept: for others it has not been tried.
"""

from __future__ import annotations

import base64
import functools
import hashlib
import importlib
import json
import logging
import os
import platform
import struct
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np

from anabranch.core import errors
from anabranch.core.contract import attrs, opdef
from anabranch.core.graph.body_ops import bodies_of
from anabranch.core.graph.operation import Operation
from anabranch.core.values.dtypes import DType
from anabranch.xla import capacities, disk_cache, engine, kernel_context
from anabranch.xla.loops import loop_limits
from anabranch.xla.onednn import handler as onednn

_log = logging.getLogger("anabranch")


class NotStorable(Exception):
    """Something has no plain form."""


# ----------------------------------------------------------------------------------------------------------------- keys
def _feed(update: Callable[[bytes], None], value: Any) -> None:
    """Hashes a value with its type, so that different ones never hash the same bytes."""
    if isinstance(value, (tuple, list)):
        update(b"(%d:" % len(value))
        for item in value:
            _feed(update, item)
        return
    if isinstance(value, dict):
        _feed(update, ["dict", *value.items()])
        return
    if isinstance(value, bytes):
        data, kind = value, b"b"
    elif isinstance(value, (str, bool, int, float)) or value is None:
        data, kind = repr(value).encode(), type(value).__name__.encode()
    elif isinstance(value, np.generic):
        data, kind = repr(value.tobytes()).encode(), value.dtype.name.encode()
    elif isinstance(value, np.dtype):
        data, kind = value.name.encode(), b"dtype"
    elif isinstance(value, DType):
        data, kind = value.name.encode(), b"DType"
    elif isinstance(value, attrs.NamedAttrs):
        _feed(update, ["func", *value.key])
        return
    else:
        raise NotStorable(f"{type(value).__name__} in a key")
    update(b"%s%d:" % (kind, len(data)))
    update(data)


def _digest(*values: Any) -> str:
    digest = hashlib.sha256()
    _feed(digest.update, values)
    return digest.hexdigest()


@functools.cache
def _sources() -> str:
    """A hash of the sources of this package, which a program's kernels and all that traces them are part of."""
    digest = hashlib.sha256()
    root = Path(__file__).parents[1]
    for folder, inner, names in os.walk(root):
        inner.sort()
        for name in sorted(names):
            if name.endswith(".py"):
                path = os.path.join(folder, name)
                with open(path, "rb") as file:
                    content = file.read()
                _feed(digest.update, (os.path.relpath(path, root), content))
    return digest.hexdigest()


@functools.cache
def _machine() -> tuple[Any, ...]:
    """What XLA generates code for, and the versions of what generates it."""
    cpu: tuple[str, ...] = (platform.processor(),)
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as file:
            lines = file.read().split("\n\n", 1)[0].splitlines()
        fields = ("model name", "flags", "Features", "CPU implementer", "CPU part", "isa")
        cpu = tuple(line for line in lines if line.split("\t")[0].split(" :")[0].strip() in fields)
    except OSError:  # no Linux
        pass
    jax = engine.jax()
    device = engine.devices("cpu")[0]
    return (
        sys.version,
        platform.platform(),
        platform.machine(),
        cpu,
        os.cpu_count(),
        len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        np.__version__,
        ml_dtypes.__version__,
        jax.__version__,
        engine.jaxlib_version(),
        device.client.platform_version,
        len(device.client.devices()),
        sorted((name, value) for name, value in os.environ.items() if name.startswith(("XLA_", "JAX_", "LIBTPU_"))),
        _sources(),
    )


def _settings() -> list[tuple[str, str]]:
    """JAX's settings, which a program may change as it likes."""
    return sorted((name, repr(value)) for name, value in engine.jax().config.values.items())


@functools.cache
def _is_ours(definition: opdef.OpDefinition) -> bool:
    """Whether all that an op's block calls is in this package, as far as can be seen."""
    for name in ("kernel", "host_kernel", "checks", "shape", "value", "consumes", "traced"):
        function = getattr(definition, name)
        while isinstance(function, functools.partial):
            function = function.func
        module = getattr(function, "__module__", None) or ""
        if function is not None and not module.startswith("anabranch.") and type(function) is not np.ufunc:
            return False
    return True


def definitions(ops: Iterable[Operation]) -> Iterator[opdef.OpDefinition]:
    """The definitions of all kernels that ops call."""
    for op in ops:
        yield op.definition
        bodies = {use.attr for use in bodies_of(op)}
        for name, value in op._attrs.items():
            if isinstance(value, attrs.NamedAttrs) and name not in bodies:
                yield opdef.lookup(value.name)  # an op whose kernel this one's calls


def key(structure: Any, kernels: Iterable[opdef.OpDefinition], platform_name: str) -> str | None:
    """The name of a program on disk; None for one that is not kept there."""
    if platform_name != "cpu" or disk_cache.of_process().why_off:
        return None
    if not all(_is_ours(definition) for definition in kernels):
        return None
    try:
        return _digest(structure, _machine(), onednn.identity(), _settings())
    except NotStorable as reason:
        _log.debug("A program is not kept on disk: %s", reason)
        return None


# ----------------------------------------------------------------------------------------------------------- plain data
def plain(value: Any) -> Any:
    """``value`` as JSON that says its type."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, (tuple, list)):
        return {type(value).__name__: [plain(item) for item in value]}
    if isinstance(value, (np.ndarray, np.generic)):
        kind = "array" if isinstance(value, np.ndarray) else "scalar"
        array = np.asarray(value)
        if array.dtype == object:
            return {"objects": [list(array.shape), [plain(item) for item in array.ravel()]]}
        return {kind: [array.dtype.name, list(array.shape), base64.b64encode(array.tobytes()).decode()]}
    raise NotStorable(f"{type(value).__name__} in what tracing found out")


def read(value: Any) -> Any:
    """What :func:`plain` was given."""
    if not isinstance(value, dict):
        return value
    ((kind, content),) = value.items()
    if kind == "bytes":
        return base64.b64decode(content)
    if kind == "tuple":
        return tuple(read(item) for item in content)
    if kind == "list":
        return [read(item) for item in content]
    if kind == "objects":
        array = np.empty(len(content[1]), object)
        array[:] = [read(item) for item in content[1]]
        return array.reshape(content[0])
    if kind in ("array", "scalar"):
        array = np.frombuffer(base64.b64decode(content[2]), np.dtype(content[0])).reshape(content[1]).copy()
        return array if kind == "array" else array[()]
    raise NotStorable(f"a {kind}")


_FAILURES = {
    **{name: value for name, value in vars(errors).items() if isinstance(value, type)},
    "Exceeded": capacities.Exceeded,
    "Stopped": loop_limits.Stopped,
}


def plain_record(record: kernel_context.CheckRecord) -> Any:
    """A check, of an op that is told by its place or not at all."""
    name = getattr(record.error, "__name__", "")
    if _FAILURES.get(name) is not record.error:
        raise NotStorable(f"a check that raises {record.error}")
    payload = [
        {"packed": [value.dtype.name, value.start, value.length, value.size, list(value.shape)]}
        if isinstance(value, kernel_context.PackedValue)
        else plain(value)
        for value in record.payload
    ]
    return [name, record.text, payload, record.summarize, record.op, [plain_record(inner) for inner in record.inner]]


def read_record(value: Any) -> kernel_context.CheckRecord:
    """What :func:`plain_record` was given."""
    name, text, payload, summarize, op, inner = value
    values: list[Any] = []
    for item in payload:
        if isinstance(item, dict) and "packed" in item:
            dtype, start, length, size, shape = item["packed"]
            values.append(kernel_context.PackedValue(np.dtype(dtype), start, length, size, tuple(shape)))
        else:
            values.append(read(item))
    return kernel_context.CheckRecord(
        _FAILURES[name], text, tuple(values), summarize, op, tuple(read_record(item) for item in inner)
    )


# ---------------------------------------------------------------------------------------------------------- executables
def save(name: str | None, found_out: Any, compiled: Any, code: bytes | None = None) -> None:
    """Keep a compiled function, with plain data. ``code`` is its machine code, where that was loaded."""
    if name is None:
        return
    try:
        tree = engine.jax().tree_util.tree_unflatten(compiled.out_tree, range(compiled.out_tree.num_leaves))
        header = json.dumps({"facts": found_out, "outputs": plain(tree)}, allow_nan=True).encode()
        payload = engine.serialized(compiled, code)
    except Exception as reason:  # what JAX cannot serialise it says in many ways; the program has what it needs
        _log.info("A compiled program is not kept on disk: %s: %s", type(reason).__name__, reason)
        return
    disk_cache.of_process().put(name, struct.pack("<I", len(header)), header, payload)


def save_cut(name: str | None, op: int, position: int) -> None:
    """Keep that tracing has found a value that must be known: which input of which op."""
    if name is not None:
        header = json.dumps({"cut": [op, position]}).encode()
        disk_cache.of_process().put(name, struct.pack("<I", len(header)), header)


def save_op(
    name: str | None,
    compiled: Any,
    records: Iterable[kernel_context.CheckRecord],
    factorisation: int,
    code: bytes | None = None,
) -> None:
    """Keep a compiled op with its checks and the work of its largest factorisation; ``code`` as for :func:`save`."""
    if name is not None:
        try:
            found_out = {"records": [plain_record(record) for record in records], "factorisation": factorisation}
        except NotStorable:
            return
        save(name, found_out, compiled, code)


@functools.cache
def _ready_lapack() -> None:
    """Have jaxlib find LAPACK's routines, as tracing does: a program that was only read calls null pointers without."""
    lapack = importlib.import_module("jaxlib.lapack")
    lapack.prepare_lapack_call("getrf_ffi", np.float32)


def load(name: str | None, arguments: tuple[Any, ...], device: Any) -> tuple[Any, Any] | None:
    """Plain data and compiled function that were kept; None if there are none. ``arguments`` are like those to come.

    In place of a function there is None if tracing has found a value that must be known: then the data say which.
    """
    if name is None:
        return None
    cache = disk_cache.of_process()
    content = cache.get(name)
    if content is None:
        return None
    try:
        (size,) = struct.unpack_from("<I", content)
        header = json.loads(content[4 : 4 + size])
        if "cut" in header:
            return header["cut"], None
        onednn.ready_for(content)
        if b"lapack_" in content:
            _ready_lapack()
        tree_util = engine.jax().tree_util
        outputs = tree_util.tree_structure(read(header["outputs"]))
        inputs = tree_util.tree_structure((arguments, {}))
        return header["facts"], engine.loaded(content[4 + size :], inputs, outputs, device)
    except Exception as reason:  # whole, but of no use: it is compiled as if it were not there, and replaced
        _log.info("A compiled program on disk cannot be used: %s: %s", type(reason).__name__, reason)
        cache.remove(name)
        return None


def has(name: str | None) -> bool:
    """Whether something is kept under that name."""
    return name is not None and disk_cache.of_process().has(name)


def are_there() -> bool:
    """Whether there was anything on disk when this was first asked."""
    return not disk_cache.of_process().was_empty
