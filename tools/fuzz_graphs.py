"""Graphs that strangers could have written, of every registered op type: run or refused, nothing else.

    python tools/fuzz_graphs.py [--cases 100000] [--only TYPE ...] [--seed 0] [--compiled 0.1] [--findings FILE]

A case is a GraphDef of one to three ops with attributes and operands at random: ranks, sizes, dtypes, negative and
huge numbers, NaN, nothing, text of every kind; part of them constants, part of them fed. It is imported and run in one
of the tiers. The number of a case and the seed make it again; ``--case NUMBER`` runs that one alone and shows it.

A finding is an exception that nobody raised on purpose: one that is neither an ``OpError`` other than ``InternalError``
nor from a ``raise`` of this library; a ``KernelBugWarning``; a process that dies; or a run longer than 20 seconds.
Cases run in a process with a limit of memory, in an empty folder; equal findings are kept once.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from typing import Any

from fuzz_readers import MEMORY, ROOT, SLOWEST, damaged, limit_memory, of_children, on_purpose, place_of

ANEW = 75
"""Status of a process of cases that wants the next ones to begin in a new one."""

WAITS = 300
"""Milliseconds that a step may wait for others: nobody comes."""
_LEFT_OUT = frozenset(("Abort", "Print", "PrintV2", "LogMatrixDeterminant_"))
"""What ends the process as it says it does, or fills the screen."""
_MAKERS_BY_NAME = ("FIFOQueue", "HashTable", "RandomShuffleQueue", "WholeFileReader", "TensorArray", "Stack")
_TEXTS = (
    "a b 1 0 -1.5 1e999 nan 0x1p99999 a,b,,c 1,2,3 \u00e9t\u00e9\U0001f600 ( (a+)+$ [^a \\1 %s %d{}{0} { [[1]] "
    "/nowhere/at/all ../x a*?[ VALID SAME NHWC NCHW add UTF-8 UTF-16-BE ij,jk->ik ...i,i...->... AAAA _-8= "
    '/job:a/task:0 int32 ZLIB GZIP sorted " 1:2:3 loc:@x'
)
_HUGE = (2**20, 2**31 - 1, 2**31, 2**38, 2**62, -(2**31), -(2**63))


class Maker:
    """Makes the graph of one case."""

    dtypes: tuple[Any, ...]
    numbers: tuple[Any, ...]
    makers: tuple[str, ...]
    texts: list[bytes]
    files: list[bytes]

    def __init__(self, source: random.Random) -> None:
        import anabranch as tf

        self.source = source
        self.graph = tf.GraphDef()
        self.graph.versions.producer = 26
        self.feeds: dict[str, Any] = {}
        self.first: list[str] = []
        """Ops that run before the case does: initial values."""
        self.outputs: list[tuple[str, Any]] = []
        """What ops of the case give: a name and a dtype."""
        self.shapes: list[tuple[int, ...]] = []
        self.count = 0
        self.constants = source.choice((0.0, 0.0, 0.2, 0.8))
        """Which share of the operands is known when the graph is built."""

    def op(self, definition: Any) -> str:
        """Adds an op with operands and attributes of its own."""
        attrs = {name: self.attr(attr) for name, attr in definition.attrs.items()}
        for spec in (*definition.inputs, *definition.outputs):
            if spec.number_attr is not None:
                attrs[spec.number_attr] = min(attrs[spec.number_attr], 5)  # as many must be there
        inputs: list[str] = []
        for spec in definition.inputs:
            for dtype in spec.dtypes(attrs):
                inputs.append(self.operand(dtype, spec.is_ref))
        if self.source.random() < 0.01:
            self.source.shuffle(inputs)
        name = self.node(definition.type_name, inputs, {k: v for k, v in attrs.items() if v is not None}, definition)
        at = 0
        for spec in definition.outputs:
            for dtype in spec.dtypes(attrs):
                self.outputs.append((f"{name}:{at}", dtype))
                at += 1
        return name

    def node(self, kind: str, inputs: list[str], attrs: dict[str, Any], definition: Any = None) -> str:
        """Adds a node."""
        from anabranch.core.graphdef import attr_values

        self.count += 1
        node = self.graph.node.add(name=f"n{self.count}", op=kind, input=inputs)
        for name, value in attrs.items():
            element = attrs["dtype"] if kind == "Const" else None
            node.attr[name].CopyFrom(attr_values.to_proto(value, definition.attrs[name], dtype=element))
        return node.name

    # ---------------------------------------------------------------------------------------------------- attributes
    def attr(self, attr: Any) -> Any:
        """A value for an attribute; mostly its default, if it has one."""
        from anabranch.core.contract.opdef import REQUIRED

        if attr.default is not REQUIRED and self.source.random() < 0.6:
            return attr.default
        if not attr.is_list:
            return self.attr_value(attr)
        least = attr.minimum or 0
        return tuple(self.attr_value(attr) for _ in range(least + self.source.choice((0, 0, 1, 1, 2, 3, 4))))

    def attr_value(self, attr: Any) -> Any:
        """One value."""
        source, kind = self.source, attr.element
        if kind == "type":
            return source.choice(attr.allowed or self.dtypes)
        if attr.allowed and source.random() < 0.97:
            return source.choice(attr.allowed)
        if kind == "int":
            least = attr.minimum if attr.minimum is not None and not attr.is_list else None
            value = source.choice((0, 1, 1, 1, 2, 2, 3, 4, 5, -1, -2, 7, 2**31 - 1, 2**31, -(2**63), 2**63 - 1))
            return value if least is None or source.random() < 0.05 else max(least, min(value, least + 4))
        if kind == "float":
            return source.choice((0.0, 0.5, 1.0, 2.0, -1.0, 1e-6, 1e30, float("nan"), float("inf")))
        if kind == "bool":
            return source.random() < 0.5
        if kind == "string":
            text = source.choice(self.texts)
            return text.decode("latin-1") if source.random() < 0.9 else text
        if kind == "shape":
            return source.choice((None, (), (2,), (None,), (2, 3), (0,), (None, 3), (2**31 - 1, 2**31 - 1)))
        if kind == "tensor":
            return self.array(source.choice(self.numbers))
        return None

    # ------------------------------------------------------------------------------------------------------ operands
    def operand(self, dtype: Any, is_ref: bool) -> str:
        """The name of a tensor of a dtype."""
        base, source = dtype.base, self.source
        if not is_ref and not dtype.is_ref:
            fitting = [name for name, given in self.outputs if given.base is base and not given.is_ref]
            if fitting and source.random() < 0.7:
                return source.choice(fitting)
            if base.name == "resource":
                return self.resource()
            if base.name == "variant":
                return self.outputs_of("EmptyTensorList", element_dtype=source.choice(self.numbers))
            array = self.array(base)
            if source.random() < self.constants:
                return self.constant(array, base)
            return self.placeholder(array, base)
        if base.name == "string" and source.random() < 0.8:
            return self.outputs_of(source.choice(_MAKERS_BY_NAME))
        return self.variable(base)

    def outputs_of(self, kind: str, **attrs: Any) -> str:
        """An op that makes something."""
        from anabranch.core.contract import opdef

        definition = opdef.lookup(kind)
        given = {name: attrs.get(name, self.attr(attr)) for name, attr in definition.attrs.items()}
        given = {name: value for name, value in given.items() if value is not None}
        inputs = [self.operand(dtype, spec.is_ref) for spec in definition.inputs for dtype in spec.dtypes(given)]
        return self.node(kind, inputs, given, definition)

    def resource(self) -> str:
        """A handle of something."""
        kind = self.source.choice(("VarHandleOp",) * 4 + self.makers)
        if kind != "VarHandleOp":
            return self.outputs_of(kind)
        base = self.source.choice(self.numbers)
        name = self.outputs_of("VarHandleOp", dtype=base, shape=None, shared_name="")
        if self.source.random() < 0.8:
            from anabranch.core.contract import opdef

            value = self.constant(self.array(base), base)
            definition = opdef.lookup("AssignVariableOp")
            self.first.append(self.node("AssignVariableOp", [name, value], {"dtype": base}, definition))
        return name

    def variable(self, base: Any) -> str:
        """A variable by reference, with a value."""
        from anabranch.core.contract import opdef

        array = self.array(base)
        name = self.node("VariableV2", [], {"dtype": base, "shape": array.shape}, opdef.lookup("VariableV2"))
        if self.source.random() < 0.8 and base.name not in ("resource", "variant"):
            value = self.constant(array, base)
            self.first.append(self.node("Assign", [name, value], {"T": base}, opdef.lookup("Assign")))
        return name

    def constant(self, array: Any, base: Any) -> str:
        """A constant."""
        from anabranch.core.contract import opdef

        return self.node("Const", [], {"dtype": base, "value": array}, opdef.lookup("Const"))

    def placeholder(self, array: Any, base: Any) -> str:
        """A tensor that is fed."""
        from anabranch.core.contract import opdef

        shape = self.source.choice((None, None, None, None, None, array.shape, (None,) * array.ndim))
        name = self.node("Placeholder", [], {"dtype": base, "shape": shape}, opdef.lookup("Placeholder"))
        self.feeds[f"{name}:0"] = array
        return name

    def array(self, base: Any) -> Any:
        """Values of a dtype."""
        import numpy as np

        source = self.source
        if self.shapes and source.random() < 0.6:
            shape = source.choice(self.shapes)
            if shape and source.random() < 0.3:
                shape = source.choice((shape[1:], shape[:-1], shape[:1], (*shape, 2), (1, *shape)))
        else:
            rank = source.choice((0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5))
            shape = tuple(source.choice((0, 1, 1, 2, 2, 3, 3, 4, 5, 7)) for _ in range(rank))
        self.shapes.append(shape)
        size = int(np.prod(shape))
        if base.name == "string":
            found = np.empty(size, object)
            mode = source.choice(("one", "any", "any"))
            one = self.text()
            found[:] = [one if mode == "one" else self.text() for _ in range(size)]
            return found.reshape(shape)
        if base.name == "bool":
            return np.array([source.random() < 0.5 for _ in range(size)], bool).reshape(shape)
        if base.np is None:
            return np.zeros(shape, np.float32)
        if base.is_floating or base.is_complex:
            special = (0.0, -0.0, float("nan"), float("inf"), -float("inf"), 1e30, -1e30, 1e-40, 1.0, -1.0)
            draw: Any = source.choice(
                (
                    lambda: source.uniform(-3, 3),
                    lambda: source.uniform(-3, 3),
                    lambda: source.choice(special),
                    lambda: 0.0,
                    lambda: float(source.randrange(4)),
                )
            )
            numbers = [draw() for _ in range(size)]
            with np.errstate(all="ignore"):
                return np.array(numbers).astype(base.np).reshape(shape)
        low, high = _limits(base.np)
        draw = source.choice(
            (
                *[lambda: source.randrange(4)] * 3,
                *[lambda: source.randrange(-3, 6)] * 2,
                lambda: source.choice((low, high, 0, -1, 1)),
                lambda: source.choice(_HUGE),
                lambda: source.choice((1, 2, 3, 4, 8)),
            )
        )
        numbers = [max(low, min(high, draw())) for _ in range(size)]
        return np.array(numbers, np.int64 if low < 0 else np.uint64).astype(base.np).reshape(shape)

    def text(self) -> bytes:
        """Some text or file."""
        text = self.source.choice(self.texts if self.source.random() < 0.6 else self.files)
        return damaged(text, self.source) if self.source.random() < 0.3 else text

    @classmethod
    def prepare(cls) -> None:
        """What all cases draw from."""
        import io

        import numpy as np

        from anabranch.core.contract import opdef
        from anabranch.core.values import dtypes

        names = "half float double int8 uint8 int16 uint16 int32 int64 uint32 uint64 bool complex64 string bfloat16"
        cls.dtypes = tuple(dtypes.as_dtype(name) for name in names.split())
        cls.numbers = tuple(dtypes.as_dtype(name) for name in ["float", "int32", "int64", "string", "bool"])
        cls.makers = tuple(
            sorted(
                name
                for name, definition in opdef.all_definitions().items()
                if definition.makes is not None
                and len(definition.outputs) == 1
                and definition.outputs[0].dtype is dtypes.resource
                and not definition.inputs
                and name not in ("VarHandleOp",)
            )
        )
        import anabranch as tf

        example = tf.train.Example()
        example.features.feature["a"].int64_list.value.extend([1, 2, 3])
        example.features.feature["b"].float_list.value.append(0.5)
        example.features.feature["1"].bytes_list.value.append(b"x")
        cls.texts = [
            *_TEXTS.encode().split(b" "),
            b"",
            b" 7 ",
            b"abc def",
            b"x" * 300,
            b"9" * 30,
            b"\n",
            b'a\nb\r\n"c"',
        ]
        cls.texts += [b"\xff\xfe\x80", b"\x00\x00"]
        cls.files = [example.SerializeToString(), tf.train.SequenceExample().SerializeToString(), _wav()]
        try:
            from PIL import Image

            for form in ("PNG", "JPEG", "GIF", "BMP"):
                stream = io.BytesIO()
                Image.fromarray(np.arange(75, dtype=np.uint8).reshape(5, 5, 3)).save(stream, form)
                cls.files.append(stream.getvalue())
        except ImportError:
            pass
        import gzip
        import zlib

        cls.files += [zlib.compress(b"abc"), gzip.compress(b"abc")]
        cls.files.append(tf.make_tensor_proto([1.0, 2.0]).SerializeToString())


def _wav() -> bytes:
    import io
    import wave

    stream = io.BytesIO()
    with wave.open(stream, "wb") as sound:
        sound.setnchannels(1)
        sound.setsampwidth(2)
        sound.setframerate(8000)
        sound.writeframes(bytes(range(8)))
    return stream.getvalue()


def _limits(dtype: Any) -> tuple[int, int]:
    import ml_dtypes
    import numpy as np

    try:
        info: Any = np.iinfo(dtype)
    except ValueError:
        info = ml_dtypes.iinfo(dtype)
    return int(info.min), int(info.max)


def types_of(only: list[str] | None) -> list[str]:
    """The op types that cases are made of."""
    import anabranch as tf
    from anabranch.core.contract import opdef

    assert dir(tf)
    return sorted(
        name
        for name, definition in opdef.all_definitions().items()
        if name not in _LEFT_OUT
        and (not only or name in only)
        and not any(attr.element == "func" for attr in definition.attrs.values())
    )


def build(number: int, seed: int, types: list[str]) -> tuple[Maker, random.Random]:
    """The graph of a case."""
    from anabranch.core.contract import opdef

    kind = types[number % len(types)]
    source = random.Random(f"{seed}/{kind}/{number // len(types)}")
    made = Maker(source)
    for other in range(source.choice((1, 1, 1, 2, 3)) - 1, -1, -1):
        made.op(opdef.lookup(source.choice(types) if other else kind))
    return made, source


def run(made: Maker, source: random.Random, compiled: float) -> None:
    """Imports and runs a case."""
    import anabranch as tf

    tier = "compiled" if source.random() < compiled else "interpreted"
    data = made.graph.SerializeToString()
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(tf.GraphDef.FromString(data), name="")
        names = [name for name, dtype in made.outputs if dtype.base.name not in ("resource", "variant")]
        fetches: list[Any] = [graph.get_tensor_by_name(name) for name in names]
        fetches.append(graph.get_operation_by_name(made.graph.node[-1].name))
        options = tf.RunOptions(timeout_in_ms=WAITS)
        with tf.Session(config=tf.SessionOptions(tier=tier)) as session:
            for name in made.first:
                session.run(graph.get_operation_by_name(name), options=options)
            session.run(fetches, made.feeds, options=options)


def judged(number: int, seed: int, types: list[str], compiled: float, counts: collections.Counter[str]) -> Any:
    """Runs a case: None if all is well, or where and how it failed."""
    import anabranch as tf

    started = time.monotonic()
    try:
        made, source = build(number, seed, types)
        run(made, source, compiled)
        counts["ran"] += 1
    except Exception as problem:
        ours = isinstance(problem, (tf.errors.InternalError, tf.errors.KernelBugWarning))
        if ours or not on_purpose(problem):
            return place_of((ours and problem.__cause__) or problem), "".join(traceback.format_exception(problem))
        counts[type(problem).__name__] += 1
    if time.monotonic() - started > SLOWEST:
        return "slow", f"{time.monotonic() - started:.0f} s"
    return None


def child(options: argparse.Namespace) -> None:
    """Cases in a process of its own: reports each finding as a line of JSON, and before each case its number."""
    types = types_of(options.only)
    Maker.prepare()
    warnings.simplefilter("ignore")
    import anabranch as tf

    warnings.simplefilter("error", tf.errors.KernelBugWarning)
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="compiled")) as session:
        session.run(tf.ones([2]) + 1)  # JAX is loaded before memory is limited
    limit_memory()
    counts: collections.Counter[str] = collections.Counter()
    with open(options.report, "a", encoding="utf-8") as report:
        for number in range(options.start, options.cases):
            with open(options.report + ".at", "w", encoding="utf-8") as at:
                at.write(str(number))
            found = judged(number, options.seed, types, options.compiled, counts)
            if found is not None:
                report.write(json.dumps([number, types[number % len(types)], *found]) + "\n")
                report.flush()
            if little_room():
                break
        report.write(json.dumps(counts) + "\n")
    with open(options.report + ".at", "w", encoding="utf-8") as at:
        at.write("done" if number + 1 == options.cases else str(number))
    sys.stdout.flush()
    os._exit(0 if number + 1 == options.cases else ANEW)


def little_room() -> bool:
    """Whether further cases would run out of memory, as LLVM does by ending the process: steps that were left at their
    deadlines go on, with all that they hold.
    """
    with open("/proc/self/statm") as stream:
        size = int(stream.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    return resource.getrlimit(resource.RLIMIT_AS)[0] - size < MEMORY // 2


def parent(options: argparse.Namespace) -> int:
    """Runs all cases; starts the process again when it dies or hangs. Returns how many findings there are."""
    findings: dict[tuple[str, str], list[Any]] = {}
    died: list[tuple[int, str]] = []
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as folder:
        report = os.path.join(folder, "report")
        inside = os.path.join(folder, "a", "b")
        os.makedirs(inside)
        start, stopped = 0, False
        while start < options.cases:
            command = [sys.executable, os.path.abspath(__file__), "--child", "--report", report, "--start", str(start)]
            command += ["--cases", str(options.cases), "--seed", str(options.seed), "--compiled", str(options.compiled)]
            command += ["--only", *options.only] if options.only else []
            path = os.pathsep.join([ROOT, os.path.join(ROOT, "tools")])
            environment = dict(of_children(), ANABRANCH_CACHE="off", PYTHONPATH=path)
            with open(os.path.join(folder, "errors"), "wb") as errors:
                process = subprocess.Popen(command, cwd=inside, env=environment, stdout=errors, stderr=errors)
                why = _watch(process, report + ".at", options.until)
            at = _read(report + ".at")
            if at == "done":
                break
            if why == "time":
                stopped = True
                break
            with open(os.path.join(folder, "errors"), "rb") as errors:
                tail = errors.read()[-1500:].decode("utf-8", "replace")
            number = int(at or start)
            if process.returncode != ANEW:
                died.append((number, f"{why}\n{tail}"))
            start = number + 1
        lines = _read(report).splitlines()
    counts: collections.Counter[str] = collections.Counter()
    ends: collections.Counter[str] = collections.Counter()
    for line in map(json.loads, lines):
        if isinstance(line, dict):
            ends.update(line)
            continue
        number, kind, place, text = line
        counts[place] += 1
        findings.setdefault((place, ""), [number, kind, text])
    with open(options.findings, "w", encoding="utf-8") as stream:
        for (place, _), (number, kind, text) in sorted(findings.items(), key=lambda item: -counts[item[0][0]]):
            stream.write(f"=== {place}: {counts[place]} cases, first {number} ({kind})\n{text}\n")
        for number, text in died:
            stream.write(f"=== the process {text}\ncase {number}\n")
    for (place, _), (number, kind, _) in sorted(findings.items(), key=lambda item: -counts[item[0][0]]):
        print(f"{counts[place]:6} {place} (case {number}, {kind})")
    for number, text in died:
        print(f"       case {number}: the process {text.splitlines()[0]}")
    cases = sum(ends.values()) if stopped else options.cases
    print(
        f"{cases} cases, seed {options.seed}: {len(findings)} findings in {sum(counts.values())} cases, "
        f"{len(died)} processes died or hung, {time.monotonic() - started:.0f} s; "
        + ", ".join(f"{count} {end}" for end, count in ends.most_common())
    )
    return len(findings) + len(died)


def _watch(process: subprocess.Popen[bytes], path: str, until: float) -> str:
    """Waits for a process that must go on from case to case; why it ended."""
    while True:
        try:
            return f"died with status {process.wait(1)}"
        except subprocess.TimeoutExpired:
            pass
        late = os.path.exists(path) and time.time() - os.stat(path).st_mtime > 3 * SLOWEST
        if late or time.monotonic() > until:
            process.kill()
            process.wait()
            return "hung" if late else "time"


def _read(path: str) -> str:
    if not os.path.exists(path):
        return ""
    with open(path, encoding="utf-8") as stream:
        return stream.read()


def main() -> int:
    """Runs cases and prints findings."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=100_000)
    parser.add_argument("--only", nargs="*", help="op types")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--compiled", type=float, default=0.1, help="which share of the cases is compiled")
    parser.add_argument("--minutes", type=float, default=600, help="the most time that it may take")
    parser.add_argument("--findings", default="fuzz-findings.txt")
    parser.add_argument("--case", type=int, help="run this one here, and show it")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--report", help=argparse.SUPPRESS)
    parser.add_argument("--start", type=int, default=0, help=argparse.SUPPRESS)
    options = parser.parse_args()
    sys.path[:0] = [os.path.join(ROOT, "tools"), ROOT]
    options.until = time.monotonic() + options.minutes * 60
    if options.child:
        child(options)
        return 0
    if options.case is not None:
        types = types_of(options.only)
        Maker.prepare()
        import anabranch as tf

        warnings.simplefilter("error", tf.errors.KernelBugWarning)
        made, source = build(options.case, options.seed, types)
        print(made.graph)
        print(made.feeds)
        run(made, source, options.compiled)
        return 0
    return min(parent(options), 1)


if __name__ == "__main__":
    sys.exit(main())
