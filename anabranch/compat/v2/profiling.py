"""``tf.profiler.experimental``: what XLA and its runtime do over a time, in the files that TensorBoard's page shows.

There is one profiler in a process. It records into a folder of its own; ``stop(save=True)`` moves what it has recorded
to ``logdir/plugins/profile/<time>``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
import threading
from collections.abc import Iterator
from typing import Any, NamedTuple

from anabranch.compat.v2.namespaces import version_2 as _v2
from anabranch.core import errors
from anabranch.xla import engine


class _Running:
    """The recording that is going on."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.logdir: str | None = None
        self.folder: str | None = None


_running = _Running()


@_v2("profiler.experimental.ProfilerOptions")
class ProfilerOptions(NamedTuple):
    """What is recorded of the host and of Python: 0 is nothing, higher levels are more. Devices always are (1)."""

    host_tracer_level: int = 2
    python_tracer_level: int = 0
    device_tracer_level: int = 1
    delay_ms: int | None = None


@_v2("profiler.experimental.start")
def start(logdir: Any, options: ProfilerOptions | None = None) -> None:
    """Start to record.

    Args:
        logdir: where :func:`stop` saves what was recorded.
        options: how much of the host and of Python is recorded; devices always are.

    Raises:
        AlreadyExistsError: a recording is going on.
    """
    with _running.lock:
        if _running.folder is not None:
            raise errors.AlreadyExistsError(
                None,
                None,
                "Another profiler is running.\n"
                + errors.message(
                    "start() while a recording is going on", "one at a time", "tf.profiler.experimental.stop()"
                ),
            )
        levels = ProfilerOptions() if options is None else options
        if levels.delay_ms:
            raise errors.UnimplementedError(
                None,
                None,
                errors.message(f"delay_ms={levels.delay_ms}", "a recording that starts now", "start() later"),
            )
        if levels.device_tracer_level != 1:
            raise errors.UnimplementedError(
                None,
                None,
                errors.message(
                    f"device_tracer_level={levels.device_tracer_level}",
                    "level 1: what devices do is always recorded",
                    "host_tracer_level=0 for a recording of devices alone",
                ),
            )
        profiler = engine.jax().profiler
        wanted = profiler.ProfileOptions()
        wanted.host_tracer_level = levels.host_tracer_level
        wanted.python_tracer_level = levels.python_tracer_level
        folder = tempfile.mkdtemp()
        try:
            profiler.start_trace(folder, profiler_options=wanted)
        except BaseException:
            shutil.rmtree(folder)
            raise
        _running.logdir, _running.folder = os.fspath(logdir), folder


@_v2("profiler.experimental.stop")
def stop(save: bool = True, *, logdir: Any = None) -> None:
    """Stop to record, and save what was recorded if ``save`` says so.

    Args:
        save: whether to save it.
        logdir: where, if :func:`start` did not say so.

    Raises:
        UnavailableError: no recording is going on.
    """
    with _running.lock:
        if _running.folder is None or _running.logdir is None:
            raise errors.UnavailableError(
                None,
                None,
                "Cannot export profiling results. No profiler is running.\n"
                + errors.message("stop() without start()", "a recording", "tf.profiler.experimental.start(logdir)"),
            )
        folder, logdir = _running.folder, _running.logdir if logdir is None else os.fspath(logdir)
        _running.folder = _running.logdir = None
        try:
            engine.jax().profiler.stop_trace()
            if save:
                shutil.copytree(folder, logdir, dirs_exist_ok=True)
        finally:
            shutil.rmtree(folder)


@_v2("profiler.experimental.Profile")
@contextlib.contextmanager
def profile(logdir: Any, options: Any = None) -> Iterator[None]:
    """A block that is recorded; arguments as for :func:`start`."""
    start(logdir, options)
    try:
        yield
    finally:
        stop()


@_v2("profiler.experimental.Trace")
class Trace:
    """A block that stands in the recording under a name.

    Args:
        name: the name.
        kwargs: what is shown with it, such as ``step_num``.
    """

    def __init__(self, name: str, **kwargs: Any) -> None:
        profiler = engine.jax().profiler
        kind = profiler.StepTraceAnnotation if "step_num" in kwargs else profiler.TraceAnnotation
        self._annotation = kind(name, **kwargs)

    def __enter__(self) -> Trace:
        self._annotation.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._annotation.__exit__(*error)
