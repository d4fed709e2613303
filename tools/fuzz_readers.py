"""Bytes that strangers could have written, for every reader of files and messages: read or refused, nothing else.

    python tools/fuzz_readers.py [--minutes 60] [--only NAME ...] [--seed 0] [--findings FOLDER] [--engine atheris]

Each target is a reader, files that it reads well, and the kind of message in them if there is one. Inputs are those
files, damaged: bytes changed, cut, doubled, fields of messages set to other values. Checksums are not compared, so that
damage goes deeper than the first of them. ``--engine atheris`` (``pip install atheris``) lets libFuzzer choose what to
damage next by the lines of the readers that an input reaches; the engine ``random`` needs nothing, and a seed gives the
same inputs again.

A finding is an exception that nobody raised on purpose: one that does not come from a ``raise`` of this library, or is
not among those that readers document; too much memory (a limit is set above what is in use), or a run that takes longer
than 20 seconds. Findings are kept as files whose names begin with the target's; equal ones are kept once.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import importlib
import inspect
import json
import linecache
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
SLOWEST = 20
"""Seconds after which a run counts as one that hangs."""
MEMORY = 1 << 30
"""Bytes that an input may make a reader ask for."""
_READERS = [
    "anabranch.formats",
    "anabranch.summary",
    "anabranch.saved_model",
    "anabranch.train",
    "anabranch.rewrite.version_one",
    "anabranch.core.values.tensor_proto",
    "anabranch.core.graphdef.import_graph",
    "anabranch.core.graphdef.import_nodes",
    "anabranch.core.contract.attrs",
    "anabranch.core.graphdef.attr_values",
    "anabranch.core.values.constants",
    "anabranch.core.graph.body",
    "anabranch.core.graphdef.function_def",
    "anabranch.core.graphdef.frozen_functions",
    "anabranch.core.graph.build",
    "anabranch.core.values.shapes",
    "anabranch.ops.parsing.example_columns",
    "anabranch.ops.parsing.examples",
    "anabranch.ops.parsing.raw",
    "anabranch.ops.parsing.sequence_examples",
    "anabranch.ops.lookup.public_tables",
    "anabranch.ops.image.codecs",
]


class Target:
    """A reader, and what it reads."""

    def __init__(self, read: Callable[[bytes], Any], samples: list[bytes], message: Any = None) -> None:
        self.read = read
        self.samples = samples
        self.message = message
        """Class of the message that a sample is, if it is one."""


# -------------------------------------------------------------------------------------------------------------- damage
def damaged(data: bytes, source: random.Random) -> bytes:
    """``data`` with a few bytes changed, taken out, doubled or put in."""
    found = bytearray(data)
    for _ in range(source.choice((1, 1, 2, 4, 8))):
        at, how = source.randrange(len(found) + 1), source.randrange(7)
        if how == 0:
            found[at : at + 1] = bytes([source.randrange(256)])
        elif how == 1:
            found[at : at + 1] = bytes([source.choice((0, 1, 127, 128, 255))])
        elif how == 2:
            del found[at : at + source.choice((1, 1, 4, 40))]
        elif how == 3:
            found[at:at] = found[at : at + source.choice((1, 3, 30))]
        elif how == 4:
            found[at:at] = bytes([source.choice((128, 255))] * source.choice((1, 9)) + [source.randrange(128)])
        elif how == 5:
            other = source.randrange(len(found) + 1)
            size = source.randrange(1, 40)
            found[at : at + size] = found[other : other + size]
        elif source.random() < 0.2:
            del found[at:]
    return bytes(found)


_INTERESTING: dict[type, tuple[Any, ...]] = {
    int: (-1, 0, 1, 2, 7, 127, 10**6, 2**31 - 1, -(2**31)),
    float: (0.0, -1.0, 1e30, float("nan"), float("inf")),
    str: ("", "nowhere", "x" * 300, "a/b", "^x", "x:1", "../x", "\u00e9"),
    bytes: (b"", b"nowhere", b"\xff" * 9, b"^x"),
    bool: (False, True),
}


def changed(proto: Any, source: random.Random, depth: int = 0) -> None:
    """Changes one field somewhere in a message: another value, a copy of another, or none."""
    fields = proto.ListFields()
    if not fields:
        return
    field, value = source.choice(fields)
    many = not isinstance(value, (str, bytes)) and hasattr(value, "__len__") and not hasattr(value, "ListFields")
    if source.random() < 0.08:
        proto.ClearField(field.name)
    elif many and field.message_type is not None and field.message_type.GetOptions().map_entry:
        key = source.choice(sorted(value))
        if hasattr(value[key], "ListFields"):
            if source.random() < 0.15:
                value[key].CopyFrom(value[source.choice(sorted(value))])
            else:
                changed(value[key], source, depth + 1)
        else:
            value[key] = source.choice(_INTERESTING[type(value[key])])
    elif field.message_type is not None:
        one = source.choice(list(value)) if many else value
        if many and source.random() < 0.15:
            other = source.choice(list(value))
            one.CopyFrom(other) if source.random() < 0.5 else value.add().CopyFrom(other)
        else:
            changed(one, source, depth + 1)
    else:
        kind = type(value[0]) if many else type(value)
        choices = list(_INTERESTING[kind]) + ([item for item in value] if many else [])
        with contextlib.suppress(ValueError, TypeError):  # out of the field's range
            if many and source.random() < 0.3:
                value.append(source.choice(choices))
            elif many:
                value[source.randrange(len(value))] = source.choice(choices)
            else:
                setattr(proto, field.name, source.choice(choices))


def mutated(target: Target, data: bytes, source: random.Random) -> bytes:
    """Another input, made of one."""
    if target.message is not None and source.random() < 0.6:
        proto = target.message()
        with contextlib.suppress(Exception):
            proto.ParseFromString(data)
            for _ in range(source.choice((1, 1, 2, 3))):
                changed(proto, source)
            return proto.SerializeToString()
    return damaged(data, source)


# ------------------------------------------------------------------------------------------------------------ judgement
def on_purpose(problem: BaseException) -> bool:
    """Whether a reader refused its input: one of the documented errors, from a ``raise`` of this library."""
    import anabranch as tf

    if isinstance(problem, tf.errors.OpError):
        return True
    if not isinstance(problem, (OSError, RuntimeError, TypeError, ValueError)) or isinstance(problem, RecursionError):
        return False
    last = traceback.extract_tb(problem.__traceback__)[-1]
    return os.path.join("anabranch", "") in last.filename and linecache.getline(
        last.filename, last.lineno or 0
    ).strip().startswith("raise")


def place_of(problem: BaseException) -> str:
    """Where an exception comes from, in short."""
    frames = [
        f"{os.path.basename(frame.filename)}:{frame.lineno}"
        for frame in traceback.extract_tb(problem.__traceback__)
        if os.path.join("anabranch", "") in frame.filename
    ]
    return f"{type(problem).__name__} {' '.join(frames[-2:])}"


class Judge:
    """Runs a reader on inputs, counts, and keeps findings."""

    def __init__(self, name: str, target: Target, findings: str) -> None:
        self.name = name
        self.target = target
        self.findings = findings
        self.counts = {"runs": 0, "refused": 0, "findings": 0}
        self.seen: set[str] = set()

    def __call__(self, data: bytes) -> None:
        """One run."""
        self.counts["runs"] += 1
        start = time.monotonic()
        try:
            self.target.read(data)
        except Exception as problem:
            if on_purpose(problem):
                self.counts["refused"] += 1
            else:
                self._keep(data, place_of(problem), "".join(traceback.format_exception(problem)))
        if time.monotonic() - start > SLOWEST:
            self._keep(data, "slow", f"{time.monotonic() - start:.1f} s")

    def _keep(self, data: bytes, place: str, told: str) -> None:
        if place in self.seen:
            return
        self.seen.add(place)
        self.counts["findings"] += 1
        path = os.path.join(self.findings, f"{self.name}-{hashlib.sha1(place.encode()).hexdigest()[:10]}")
        with open(path, "wb") as stream:
            stream.write(data)
        with open(path + ".txt", "w", encoding="utf-8") as stream:
            stream.write(f"{place}\n{told}")
        print(f"{self.name}: {place} (kept as {path})", file=sys.stderr, flush=True)


# -------------------------------------------------------------------------------------------------------------- engines
def run_random(target: Target, judge: Judge, seconds: float, seed: int, rounds: int | None = None) -> None:
    """Damages samples at random for so long, or so often."""
    source = random.Random(seed)
    until = time.monotonic() + seconds
    while time.monotonic() < until and (rounds is None or judge.counts["runs"] < rounds):
        judge(mutated(target, source.choice(target.samples), source))


def run_atheris(
    target: Target, judge: Judge, seconds: float, seed: int, folder: str, report: Callable[[], None]
) -> None:
    """Lets libFuzzer choose for so long; it ends the process."""
    atheris: Any = importlib.import_module("atheris")

    for number, sample in enumerate(target.samples):
        with open(os.path.join(folder, f"sample{number}"), "wb") as stream:
            stream.write(sample)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        source = random.Random(seed)
        if source.random() < 0.5:
            return mutated(target, data, source)[:most]
        return atheris.Mutate(data, most)

    def once(data: bytes) -> None:
        judge(data)
        if judge.counts["runs"] % 256 == 0:
            report()

    longest = max(map(len, target.samples))
    atheris.Setup(
        [
            sys.argv[0],
            folder,
            f"-max_total_time={max(1, int(seconds))}",
            f"-timeout={SLOWEST}",
            f"-seed={seed + 1}",
            f"-max_len={longest * 2 + 64}",
            f"-artifact_prefix={judge.findings}/{judge.name}-",
            "-rss_limit_mb=0",
            "-verbosity=0",
        ],
        once,
        custom_mutator=mutate,
    )
    atheris.Fuzz()


def instrument() -> None:
    """Lets libFuzzer see which lines of the readers run."""
    atheris: Any = importlib.import_module("atheris")

    for name, module in list(sys.modules.items()):
        if not any(name == package or name.startswith(package + ".") for package in _READERS):
            continue
        for item in list(vars(module).values()):
            for function in (item, *vars(item).values()) if inspect.isclass(item) else (item,):
                if inspect.isfunction(function) and function.__module__ == name:
                    atheris.instrument_func(function)


def limit_memory() -> None:
    """A huge allocation is a MemoryError from here on."""
    with open("/proc/self/statm") as stream:
        size = int(stream.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    resource.setrlimit(resource.RLIMIT_AS, (size + MEMORY, resource.getrlimit(resource.RLIMIT_AS)[1]))


def child(options: argparse.Namespace) -> None:
    """One target in a process of its own."""
    until = time.monotonic() + options.seconds
    from fuzz_targets import targets

    if options.engine == "atheris":
        instrument()
    with tempfile.TemporaryDirectory(prefix="fuzz-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None) as folder:
        target = targets(folder)[options.child]
        judge = Judge(options.child, target, options.findings)

        def report() -> None:
            with open(options.report + ".new", "w", encoding="utf-8") as stream:
                json.dump(judge.counts, stream)
            os.replace(options.report + ".new", options.report)  # the process may end at any moment

        for sample in target.samples:
            judge(sample)
        limit_memory()
        report()
        if options.engine == "atheris":
            corpus = os.path.join(folder, "corpus")
            os.mkdir(corpus)
            run_atheris(target, judge, until - time.monotonic(), options.seed, corpus, report)
        else:
            run_random(target, judge, until - time.monotonic(), options.seed)
            report()


def of_children() -> dict[str, str]:
    """The environment of processes whose memory is limited.

    The limit counts addresses, and glibc reserves 64 MB of them for each of many threads, used or not: 600 MB of 2.4 GB
    in a process that held 370 MB. Then XLA ends the process (``std::bad_alloc``) where there is memory enough.
    """
    return dict(os.environ, JAX_PLATFORMS="cpu", MALLOC_ARENA_MAX="2")


def run_one(name: str, options: argparse.Namespace, seconds: float) -> dict[str, int]:
    """Counts of a target's run; a process that dies is started again with another seed until its time is over."""
    total = {"runs": 0, "refused": 0, "findings": 0, "died": 0}
    until, seed = time.monotonic() + seconds, options.seed
    while (left := until - time.monotonic()) > 1:
        report = os.path.join(options.findings, f".{name}.json")
        command = [sys.executable, os.path.abspath(__file__), "--child", name, "--seconds", f"{left:.0f}"]
        command += ["--seed", str(seed), "--findings", options.findings, "--engine", options.engine, "--report", report]
        try:
            status = subprocess.run(command, timeout=left + 120, check=False, env=of_children()).returncode
        except subprocess.TimeoutExpired:
            status = -1
            print(f"{name}: the process hangs", file=sys.stderr, flush=True)
        if os.path.exists(report):
            with open(report, encoding="utf-8") as stream:
                for key, count in json.load(stream).items():
                    total[key] += count
            os.remove(report)
        total["died"] += status != 0
        seed += 1
    return total


def main() -> int:
    """Runs all targets in turn and prints a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=60, help="for all targets together")
    parser.add_argument("--only", nargs="*", help="names of targets")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--findings", default="fuzz-findings")
    parser.add_argument("--engine", choices=("random", "atheris"), default="random")
    for hidden in ("--child", "--report"):
        parser.add_argument(hidden, help=argparse.SUPPRESS)
    parser.add_argument("--seconds", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path[:0] = [os.path.join(ROOT, "tools"), ROOT]
    if options.child:
        child(options)
        return 0
    from fuzz_targets import targets

    os.makedirs(options.findings, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        names = list(targets(folder))
    chosen = [name for name in names if not options.only or name in options.only]
    failed = 0
    for name in chosen:
        counts = run_one(name, options, options.minutes * 60 / len(chosen))
        failed += counts["findings"] + counts["died"]
        print(
            f"{name:20} seed {options.seed}: " + ", ".join(f"{count} {key}" for key, count in counts.items()),
            flush=True,
        )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
