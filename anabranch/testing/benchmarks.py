"""``tf.test.Benchmark``: benchmarks that are found by name, run on demand, and report what they measured."""

from __future__ import annotations

import inspect
import numbers
import os
import re
import sys
import time
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.protos import config_pb2, test_log_pb2
from anabranch.debug.timeline import Timeline
from anabranch.platform import logging
from anabranch.session import Session, get_default_session

GLOBAL_BENCHMARK_REGISTRY: set[type] = set()
"""The classes of benchmarks that the program has defined."""
TEST_REPORTER_TEST_ENV = "TEST_REPORT_FILE_PREFIX"
"""The environment variable with the beginning of the paths that reports are written to."""


def _global_report_benchmark(
    name: str,
    iters: int | None = None,
    cpu_time: float | None = None,
    wall_time: float | None = None,
    throughput: float | None = None,
    extras: dict[str, Any] | None = None,
) -> None:
    """Print a ``BenchmarkEntries`` message, or write it to a file if the environment names where."""
    if extras is not None and not isinstance(extras, dict):
        raise TypeError(
            "extras must be a dict\n" + errors.message(f"extras={extras!r}", "a dict", "extras={'name': value}")
        )
    entries = test_log_pb2.BenchmarkEntries()
    entry = entries.entry.add(name=name)
    given = {"iters": iters, "cpu_time": cpu_time, "wall_time": wall_time, "throughput": throughput}
    for field, value in given.items():
        if value is not None:
            setattr(entry, field, value)
    for key, value in (extras or {}).items():
        if isinstance(value, numbers.Number):
            entry.extras[key].double_value = float(value)  # type: ignore[arg-type]
        else:
            entry.extras[key].string_value = str(value)
    shown = [-1 if value is None else value for value in (iters, wall_time, cpu_time, throughput)]
    logging.info("Benchmark [%s] iters: %d, wall_time: %g, cpu_time: %g, throughput: %g", name, *shown)
    prefix = os.environ.get(TEST_REPORTER_TEST_ENV)
    if prefix is None:
        print(str(entries))
        return
    path = prefix + name.replace("/", "__")
    if os.path.exists(path):
        raise OSError(
            f"File already exists: {path}\n"
            + errors.message(f"a second report of {name!r}", "one report for each name", "report_benchmark(name=...)")
        )
    with open(path, "wb") as file:
        file.write(entries.SerializeToString())


class Benchmark:
    """Base of classes with methods ``benchmark*``, each of which measures something and reports it."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if not cls.is_abstract():
            GLOBAL_BENCHMARK_REGISTRY.add(cls)

    @classmethod
    def is_abstract(cls) -> bool:
        """Whether it is this class itself, which has nothing to run."""
        return cls in (Benchmark, globals().get("TensorFlowBenchmark")) or cls.__dict__.get("_abstract", False)

    def _get_name(self, overwrite_name: str | None = None) -> str:
        """``Class.method`` of the outermost method of a benchmark that is running, or ``Class.overwrite_name``."""
        for record in reversed(inspect.stack(context=0)):
            running = record.frame.f_locals.get("self")
            if isinstance(running, Benchmark):
                return f"{type(running).__name__}.{overwrite_name or record.function}"
        raise ValueError(
            "Unable to determine calling Benchmark class.\n"
            + errors.message("a report from outside benchmarks", "a call in a method of one", "name='name'")
        )

    def report_benchmark(
        self,
        iters: int | None = None,
        cpu_time: float | None = None,
        wall_time: float | None = None,
        throughput: float | None = None,
        extras: dict[str, Any] | None = None,
        name: str | None = None,
    ) -> None:
        """Report what was measured.

        A ``BenchmarkEntries`` message is printed, or written to a file whose path begins with what the environment
        variable ``TEST_REPORT_FILE_PREFIX`` says and ends with the name.

        Args:
            iters: how often it ran.
            cpu_time: seconds of the processor for one run.
            wall_time: seconds for one run.
            throughput: megabytes a second.
            extras: numbers and texts by their names.
            name: the name after that of the class; the calling method's by default.

        Raises:
            TypeError: ``extras`` is not a dict. OSError: there is a report of this name.
        """
        _global_report_benchmark(self._get_name(name), iters, cpu_time, wall_time, throughput, extras)


@public("test.Benchmark")
class TensorFlowBenchmark(Benchmark):
    """Base of benchmarks: methods ``benchmark*`` run when the program is started with ``--benchmarks=PATTERN``.

    ``PATTERN`` is a regular expression that is searched in ``module.Class.method``, or ``all``.
    """

    _abstract = True

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
            store_trace: report one more run as a trace for Chrome, ``full_trace_chrome_format`` of the extras.
            store_memory_usage: without effect: the runtime does not measure memory by run.
            name: of the benchmark; the calling method's by default.
            extras: what else to report.
            mbs: megabytes that a run moves, for the throughput.
        """
        target = getattr(op_or_tensor, "op", op_or_tensor)
        for _ in range(burn_iters):
            sess.run(target, feed_dict)
        times = []
        for _ in range(min_iters):
            start = time.perf_counter()
            sess.run(target, feed_dict)
            times.append(time.perf_counter() - start)
        wall = float(np.median(times)) if times else -1.0
        reported: dict[str, Any] = dict(extras or {}, wall_time_stdev=float(np.std(times or [0.0])))
        if store_trace:
            options = config_pb2.RunOptions(trace_level=config_pb2.RunOptions.FULL_TRACE)
            metadata = config_pb2.RunMetadata()
            sess.run(target, feed_dict, options=options, run_metadata=metadata)
            reported["full_trace_chrome_format"] = Timeline(metadata.step_stats).generate_chrome_trace_format()
        result: dict[str, Any] = {
            "iters": min_iters,
            "wall_time": wall,
            "extras": reported,
            "name": name,
            "throughput": mbs / wall,
        }
        self.report_benchmark(**result)
        return result

    def evaluate(self, tensors: Any) -> Any:
        """Values of tensors in the default session, or in a new one."""
        session = get_default_session()
        if session is not None:
            return session.run(tensors)
        with Session() as fresh:
            return fresh.run(tensors)


def _run_benchmarks(regex: str) -> None:
    """Run the methods whose ``module.Class.method`` a pattern is found in; ``all`` runs each."""
    for kind in sorted(GLOBAL_BENCHMARK_REGISTRY, key=lambda cls: (cls.__module__, cls.__qualname__)):
        instance = None
        for name in dir(kind):
            full = f"{kind.__module__}.{kind.__name__}.{name}"
            wanted = regex == "all" or re.search(regex, full)
            if wanted and name.startswith("benchmark") and callable(getattr(kind, name)):
                instance = instance or kind()
                getattr(instance, name)()


def benchmarks_main(true_main: Any, argv: list[str] | None = None) -> None:
    """Run benchmarks if ``argv`` asks for them with ``--benchmarks=PATTERN``, and end; otherwise call ``true_main``."""
    arguments = sys.argv if argv is None else argv
    for argument in arguments:
        if re.match(r"--?benchmarks=", argument):
            arguments.remove(argument)
            _run_benchmarks(argument.partition("=")[2])
            sys.exit(0)
    true_main()
