"""Where oneDNN's library is, and its C functions: looked for and loaded when the first convolution is compiled.

Policy. The library is that of the extra ``anabranch[onednn]`` (the wheel ``onednn-cpu-gomp``), of a conda environment,
or of the system: ``libdnnl.so.3`` in the folder of libraries of the environment or of the user, or where the loader
looks. ``ANABRANCH_ONEDNN=off`` does without, ``ANABRANCH_ONEDNN=/path/of/libdnnl.so.3`` names another one and fails
loudly if that is of no use. All that is needed has been the same in oneDNN's interface since 3.0.

Threads. What is large runs on as many threads as XLA has, but a build of oneDNN on OpenMP would by default have them
wait in a loop for the next piece of work, which doubles the CPU time of a step on a busy machine. So OpenMP is told
to wait passively, by its own variable, for as long as it takes to load the library. If another library has loaded
OpenMP's runtime before and it was not told so, convolutions run on one thread each.
"""

from __future__ import annotations

import ctypes
import functools
import logging
import os
import platform
import site
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from anabranch.core import errors

CHOICE = "ANABRANCH_ONEDNN"
_NAME = "libdnnl.so.3"
_OPENMP_NAMES = ("libgomp.so", "libiomp5.so", "libomp.so")
_SEQUENTIAL, _OPENMP, _TBB = 1, 2, 4
"""Kinds of builds that need no help from outside: for others the caller has to bring threads or a SYCL device."""
_TBB_NEEDS = ("libintlc.so.5", "libimf.so", "libtbb.so.12")
"""What the build on TBB is linked with and finds only if it is loaded already; in the order of their own needs."""
_log = logging.getLogger("anabranch")


class NotUsable(Exception):
    """There is no library, or none that can be used: the reason."""


class Status(Exception):
    """A function of oneDNN did not return success."""


class _Version(ctypes.Structure):
    _fields_ = [
        ("major", ctypes.c_int),
        ("minor", ctypes.c_int),
        ("patch", ctypes.c_int),
        ("hash", ctypes.c_char_p),
        ("cpu_runtime", ctypes.c_uint),
        ("gpu_runtime", ctypes.c_uint),
    ]


class Library:
    """oneDNN's library: ``call.name(...)`` is ``dnnl_name(...)``, which raises unless it succeeds."""

    def __init__(self, path: str) -> None:
        self.path = path
        spins = _openmp_is_loaded() and os.environ.get("OMP_WAIT_POLICY", "").lower() != "passive"
        with _Passive():
            self.c = _loaded(path)
        self.c.dnnl_version.restype = ctypes.POINTER(_Version)
        version = self.c.dnnl_version().contents
        self.version = (version.major, version.minor, version.patch)
        if version.major != 3:
            raise NotUsable(f"{path} is oneDNN {self.shown_version}, not 3")
        if version.cpu_runtime not in (_SEQUENTIAL, _OPENMP, _TBB):
            raise NotUsable(f"{path} is a build of oneDNN that needs threads or devices of its caller")
        self._set_threads = getattr(self.c, "omp_set_num_threads", None) if version.cpu_runtime == _OPENMP else None
        self.threads = 1 if spins or version.cpu_runtime == _SEQUENTIAL else _threads()
        """How many threads a large piece of work is cut for."""
        for name in ("dnnl_primitive_desc_query_md", "dnnl_memory_desc_get_size"):
            getattr(self.c, name).restype = ctypes.c_void_p if name.endswith("md") else ctypes.c_size_t
        self.engine = ctypes.c_void_p()
        self.call("engine_create", ctypes.byref(self.engine), 1, ctypes.c_size_t(0))

    @property
    def shown_version(self) -> str:
        """The version as text."""
        return ".".join(map(str, self.version))

    def call(self, name: str, *arguments: Any) -> None:
        """Call ``dnnl_name``.

        Raises:
            Status: it did not succeed.
        """
        status = getattr(self.c, "dnnl_" + name)(*arguments)
        if status:
            raise Status(f"dnnl_{name} gave status {status}")

    def address(self, name: str) -> int:
        """Where a function is."""
        address = ctypes.cast(getattr(self.c, name), ctypes.c_void_p).value
        assert address is not None
        return address

    @property
    def set_threads_address(self) -> int:
        """Where the function is that sets the number of OpenMP's threads; 0 for other builds."""
        return self.address("omp_set_num_threads") if self._set_threads is not None else 0

    def use_threads(self, count: int) -> None:
        """Have what this thread makes and runs from now on use ``count`` threads, in a build on OpenMP."""
        if self._set_threads is not None:
            self._set_threads(count)

    def identity(self) -> tuple[Any, ...]:
        """What results and scratch space depend on, besides the processor."""
        settings = sorted((name, value) for name, value in os.environ.items() if name.startswith(("ONEDNN_", "DNNL_")))
        return (*self.version, self.threads, settings)


class _Passive:
    """A block in which OpenMP's runtime, if it is loaded there, learns that its threads are to wait passively."""

    def __enter__(self) -> None:
        self._before = os.environ.get("OMP_WAIT_POLICY")
        os.environ.setdefault("OMP_WAIT_POLICY", "passive")

    def __exit__(self, *_: object) -> None:
        if self._before is None:
            del os.environ["OMP_WAIT_POLICY"]


def _openmp_is_loaded() -> bool:
    """Whether a runtime of OpenMP under its common name, which oneDNN would share, is in the process."""
    try:
        with open("/proc/self/maps", encoding="utf-8", errors="replace") as file:
            return any(os.path.basename(line.strip()).startswith(_OPENMP_NAMES) for line in file)
    except OSError:
        return False


def _threads() -> int:
    """As many as the process may use; what limits XLA's threads, or OpenMP's, limits these."""
    there = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = [os.environ.get(name, "") for name in ("PJRT_NPROC", "OMP_NUM_THREADS")]
    return min([there, *(int(count) for count in asked if count.isdigit() and int(count) > 0)])


def _loaded(path: str) -> ctypes.CDLL:
    # RTLD_LOCAL, the default: jaxlib has a oneDNN of its own.
    try:
        return ctypes.CDLL(path)
    except OSError as problem:
        beside = Path(path).parent
        needs = [beside / name for name in _TBB_NEEDS if (beside / name).exists()]
        if not needs:
            raise NotUsable(str(problem)) from problem
    try:
        for need in needs:
            ctypes.CDLL(str(need), ctypes.RTLD_GLOBAL)
        return ctypes.CDLL(path)
    except OSError as problem:
        raise NotUsable(str(problem)) from problem


def _places() -> Iterator[str]:
    """Where the library may be: a path, or a name for the system's loader."""
    folders = [Path(sys.prefix), Path(sys.base_prefix)]
    if site.ENABLE_USER_SITE:
        folders.append(Path(site.getuserbase()))
    if "CONDA_PREFIX" in os.environ:
        folders.append(Path(os.environ["CONDA_PREFIX"]))
    for folder in dict.fromkeys(folders):
        path = folder / "lib" / _NAME
        if path.exists():
            yield str(path)
    yield _NAME


@functools.cache
def found() -> Library | str:
    """The library, or why there is none.

    Raises:
        FailedPreconditionError: the environment names one that is of no use.
    """
    asked = os.environ.get(CHOICE, "")
    if asked.lower() in ("off", "0", "no"):
        return f"{CHOICE}={asked}"
    if sys.platform != "linux" or platform.machine() != "x86_64":
        return f"{sys.platform} on {platform.machine()}: it is used on Linux x86-64"
    if asked and asked.lower() != "on":
        try:
            return Library(asked)
        except NotUsable as reason:
            raise errors.FailedPreconditionError(
                None,
                None,
                errors.message(
                    f"{CHOICE}={asked}: {reason}",
                    "the path of a libdnnl.so.3 built for CPUs on OpenMP, TBB or without threads",
                    f"unset {CHOICE} and pip install 'anabranch[onednn]', or {CHOICE}=off",
                ),
            ) from None
    reasons = []
    for place in _places():
        try:
            return Library(place)
        except (NotUsable, Status) as reason:
            reasons.append(str(reason))
            if place != _NAME:  # it is there and cannot be used, which nobody intended
                _log.warning("oneDNN is not used: %s", reason)
    return reasons[-1]


def identity() -> Any:
    """What the programs of this process depend on; see :meth:`Library.identity`."""
    library = found()
    return None if isinstance(library, str) else library.identity()
