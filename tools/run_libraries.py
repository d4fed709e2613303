#!/usr/bin/env python3
"""Run the tests of libraries of TensorFlow 1.x's years, unmodified, on Anabranch and on TensorFlow 1.15.5.

The folder given holds what was fetched before; this tool fetches nothing:

- ``site/``: the libraries, ``pip install --no-deps --target site NAME==VERSION`` (pure Python, for both sides);
- ``tests/NAME/``: test files of those libraries that ship them elsewhere than in the package.

``--python`` is an interpreter that has Anabranch, NumPy and what the libraries need besides, and no TensorFlow;
``--tensorflow`` one with TensorFlow 1.15.5. Each test file runs in a process of its own, ours through ``anabranch run
-m pytest``, with `tools/libraries/aids.py` giving back what Python and NumPy have lost; results are kept in
``--results``, file by file, so that a run can be stopped, and continued for one side or one library. The table compares
tests by their names.

    python tools/run_libraries.py FOLDER --python ENV/bin/python --tensorflow TF/bin/python --results results.json
    python tools/run_libraries.py --results results.json --table
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

TOOLS = Path(__file__).resolve().parent / "libraries"
SIDES = ("here", "tensorflow")


@dataclasses.dataclass(frozen=True)
class Library:
    """A library, what is imported of it, and where its tests are.

    Attributes:
        name: distribution and version.
        module: what is imported first.
        files: patterns of test files, below the folder; those of ``tutorials/`` lie beside this tool.
        without: parts of paths of files that are left out, and of tests: they need a network, or no TensorFlow.
        paths: further folders of ``PYTHONPATH``, below the folder given.
        environment: variables that its processes on a current Python get besides.
        marks: an expression of pytest's marks: which tests its authors run often.
    """

    name: str
    module: str
    files: tuple[str, ...]
    without: tuple[str, ...] = ()
    paths: tuple[str, ...] = ()
    environment: tuple[tuple[str, str], ...] = ()
    marks: str = ""


# Code that protobuf's compiler generated in 2019 makes descriptors directly, which protobuf's compiled
# implementations refuse since 4.21 and its Python implementation takes.
_GENERATED_CODE_OF_2019 = (("PROTOCOL_BUFFERS_PYTHON_IMPLEMENTATION", "python"),)
# It finds conjugate distributions by the types of operations, among them the `Add` that `+` built until June 2019.
_OPERATIONS_OF_2018 = (("TF_FORWARD_COMPATIBILITY_DELTA_DAYS", "-365"),)
_NEEDS_NETWORK = ("datasets", "documentation", "doc_auto", "applications", "integration_tests", "multiprocessing")
LIBRARIES = [
    Library(
        "keras 2.2.4", "keras", ("tests/keras/tests/**/*_test.py", "tests/keras/tests/**/test_*.py"), _NEEDS_NETWORK
    ),
    Library("tflearn 0.5.0", "tflearn", ("tests/tflearn/tests/test_*.py",)),
    Library(
        "tensorlayer 1.11.1",
        "tensorlayer",
        ("tests/tensorlayer/tests/test_*.py",),
        ("yapf", "documentation", "pydocstyle", "test_mnist_simple", "hyperdash", "test_examples"),
        ("tests/tensorlayer",),
    ),
    Library("tf-slim 1.1.0", "tf_slim", ("site/tf_slim/**/*_test.py",)),
    Library("gpflow 1.5.1", "gpflow", ("tests/gpflow/tests/test_*.py",), ("notebooks",), ("tests/gpflow",)),
    Library(
        "edward 1.3.5",
        "edward",
        ("tests/edward/tests/**/test_*.py",),
        ("notebooks",),
        environment=_OPERATIONS_OF_2018,
    ),
    Library("stable-baselines 2.10.2", "stable_baselines", ("tests/stable_baselines/tests/test_*.py",)),
    Library("keras-rl 0.4.2", "rl.agents", ("tests/keras_rl/tests/**/test_*.py",)),
    Library("textgenrnn 1.5.0", "textgenrnn", ("tutorials/textgenrnn_first.py",)),
    Library(
        "innvestigate 1.0.8",
        "innvestigate",
        ("sdist/innvestigate-1.0.8/innvestigate/tests/**/test_*.py",),
        marks="fast",
    ),
    Library("tensorforce 0.4.4", "tensorforce.agents", ("site/tensorforce/tests/test_*.py",)),
    Library(
        "tensorflow-privacy 0.2.2", "tensorflow_privacy", ("site/tensorflow_privacy/**/*_test*.py",), ("test_utils",)
    ),
    Library("mesh-tensorflow 0.1.0", "mesh_tensorflow", ("site/mesh_tensorflow/**/*_test.py",)),
    Library("bert-tensorflow 1.0.4", "bert.run_classifier", ("site/bert/*_test.py",)),
    Library("tensorflow-probability 0.8.0", "tensorflow_probability", ("tests/tfp/**/*_test.py",), paths=("site2",)),
    Library(
        "dm-sonnet 1.36",
        "sonnet",
        ("tests/sonnet/sonnet/**/*_test.py",),
        paths=("site2",),
        environment=_GENERATED_CODE_OF_2019,
    ),
    Library(
        "graph-nets 1.1.0",
        "graph_nets",
        ("site2/graph_nets/tests/*_test.py",),
        paths=("site2",),
        environment=_GENERATED_CODE_OF_2019,
    ),
    Library("trfl 1.2.0", "trfl", ("site2/trfl/*_test.py",), paths=("site2",)),
    Library(
        "tensor2tensor 1.15.7",
        "tensor2tensor.models.transformer",
        ("site2/tensor2tensor/models/*_test.py", "site2/tensor2tensor/layers/*_test.py"),
        paths=("site2",),
        environment=_GENERATED_CODE_OF_2019,
    ),
]
_OUTCOME = re.compile(r"^(\S+?\.py)::(\S.*?) (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b")


def files_of(library: Library, folder: Path) -> list[Path]:
    """The test files of a library, in order."""
    paths: list[Path] = []
    for pattern in library.files:
        root = TOOLS if pattern.startswith("tutorials/") else folder
        paths.extend(sorted(root.glob(pattern)))
    return [path for path in paths if not any(part in str(path) for part in library.without)]


def _stop(process: subprocess.Popen[str]) -> None:
    """Interrupt a process, so that pytest shows what failed so far, and end it a minute later."""
    for number in (signal.SIGINT, signal.SIGKILL):
        try:
            os.killpg(process.pid, number)
            process.wait(60)
        except ProcessLookupError:
            return  # it has ended by itself
        except subprocess.TimeoutExpired:
            continue


def run(
    start: list[str], library: Library, paths: list[Path], limit: float, working: Path, here: bool
) -> tuple[str, float, bool]:
    """Output, seconds and whether time was up, of one process."""
    with tempfile.TemporaryDirectory() as scratch:
        places = [str(path.resolve()) for path in paths]
        if here:
            (Path(scratch) / "sitecustomize.py").write_text((TOOLS / "aids.py").read_text(encoding="utf-8"))
            places.insert(0, scratch)
        environment = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([*places, *filter(None, [os.environ.get("PYTHONPATH") if here else None])]),
            "PYTHONWARNINGS": "ignore",
            "MPLBACKEND": "Agg",
            "KERAS_BACKEND": "tensorflow",
            "TF_CPP_MIN_LOG_LEVEL": "3",
            **(dict(library.environment) if here else {}),
        }
        begun = time.monotonic()
        process = subprocess.Popen(
            start,
            cwd=working,
            env=environment,
            text=True,
            errors="replace",
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        late = threading.Event()

        def give_up() -> None:
            late.set()
            _stop(process)

        timer = threading.Timer(limit, give_up)
        timer.start()
        output = process.communicate()[0]
        timer.cancel()
        return output, time.monotonic() - begun, late.is_set()


def outcomes(output: str, paths: list[Path]) -> list[dict[str, str]]:
    """For each file the outcome of each test that pytest's output names; one that fails in its teardown has failed."""
    by_file: list[dict[str, str]] = [{} for _ in paths]
    for line in output.splitlines():
        match = _OUTCOME.match(line)
        if match and not match[2].endswith("::test_session"):  # which TestCase has for tests to use
            tail = match[1].replace("../", "")
            places = (number for number, path in enumerate(paths) if str(path.resolve()).endswith(tail))
            number = next(places, None)
            if number is not None:
                results = by_file[number]
                worse = results.get(match[2]) in ("FAILED", "ERROR")
                results[match[2]] = results[match[2]] if worse else match[3]
    return by_file


def table(results: dict[str, dict], libraries: list[Library]) -> str:
    """The table in Markdown: of the tests that pass on TensorFlow, how many pass here."""
    lines = [
        "| library | import here, there | tests that pass on 1.15.5 | of these pass here | | passes here only |",
        "|---|---|---|---|---|---|",
    ]
    for library in libraries:
        entry = results.get(library.name, {})
        if not entry:
            continue
        imports = ", ".join({True: "yes", False: "no", None: "-"}[entry.get("import", {}).get(side)] for side in SIDES)
        there: set[tuple[str, str]] = set()
        here: set[tuple[str, str]] = set()
        for file, sides in entry.get("files", {}).items():
            if "here" not in sides or "tensorflow" not in sides:
                continue  # compared only where both were run
            for side, names in (("here", here), ("tensorflow", there)):
                names.update((file, test) for test, outcome in sides[side]["tests"].items() if outcome == "PASSED")
        both = len(here & there)
        share = f"{100 * both / len(there):.0f} %" if there else ""
        lines.append(f"| {library.name} | {imports} | {len(there)} | {both} | {share} | {len(here - there)} |")
    return "\n".join(lines)


def _import(interpreter: list[str], library: Library, paths: list[Path], folder: Path, here: bool) -> bool:
    with tempfile.TemporaryDirectory() as scratch:
        script = Path(scratch) / "import_library.py"
        script.write_text(f"import {library.module}\nprint('imported')\n")
        output, _, _ = run([*interpreter, str(script)], library, paths, 600, folder, here)
    if not output.rstrip().endswith("imported"):
        print(output[-1500:], flush=True)
    return output.rstrip().endswith("imported")


def main() -> int:
    """Run what is asked for, and print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--python", help="an interpreter that has Anabranch and no TensorFlow")
    parser.add_argument("--tensorflow", help="an interpreter that has TensorFlow 1.15.5")
    parser.add_argument("--only", nargs="*", default=[], help="beginnings of names of libraries")
    parser.add_argument("--files", nargs="*", default=[], help="parts of paths of the files to run")
    parser.add_argument("--results", type=Path, required=True, help="a JSON file; what it has is not run again")
    parser.add_argument("--again", action="store_true", help="run although there is a result")
    parser.add_argument("--keep", type=Path, help="a folder for what the processes print")
    parser.add_argument("--limit", type=float, default=600, help="seconds for a file")
    parser.add_argument("--together", action="store_true", help="all files of a library in one process: quicker")
    parser.add_argument("--table", action="store_true", help="only print the table")
    options = parser.parse_args()
    libraries = [one for one in LIBRARIES if not options.only or one.name.startswith(tuple(options.only))]
    results: dict[str, dict] = json.loads(options.results.read_text()) if options.results.exists() else {}
    interpreters = {"here": options.python, "tensorflow": options.tensorflow}
    if not options.table and options.folder is None:
        parser.error("name the folder of the libraries, or --table")
    for library in [] if options.table else libraries:
        paths = [options.folder / path for path in ("site", *library.paths)]
        entry = results.setdefault(library.name, {"import": {}, "files": {}})
        for side in SIDES:
            if interpreters[side] is None:
                continue
            here = side == "here"
            start = [os.path.abspath(interpreters[side]), *(["-m", "anabranch", "run"] if here else [])]
            if not entry["import"].get(side):
                entry["import"][side] = _import(start, library, paths, options.folder, here)
            if not entry["import"][side]:
                continue
            names: dict[str, Path] = {}
            for path in files_of(library, options.folder):
                name = str(path.relative_to(TOOLS if TOOLS in path.parents else options.folder))
                wanted = not options.files or any(part in name for part in options.files)
                if wanted and (options.again or side not in entry["files"].get(name, {})):
                    names[name] = path
            groups = [list(names)] if options.together and names else [[name] for name in names]
            for group in groups:
                files = [names[name] for name in group]
                root = os.path.commonpath([str(path.resolve().parent) for path in files])
                # Native tracebacks: pytest's own parse the source, at which CPython 3.11 fails deep in a stack.
                command = ["-m", "pytest", "-v", "--tb=native", "-p", "no:cacheprovider", "-c", "pytest.ini"]
                command += ["--continue-on-collection-errors"]
                command += ["-m", library.marks] if library.marks else []
                command += ["--rootdir", root, "-W", "ignore", *[str(path.resolve()) for path in files]]
                with tempfile.TemporaryDirectory() as working:
                    (Path(working) / "pytest.ini").write_text("[pytest]\n")
                    output, seconds, late = run([*start, *command], library, paths, options.limit, Path(working), here)
                each = outcomes(output, files)
                for name, tests in zip(group, each, strict=True):
                    entry["files"].setdefault(name, {})[side] = {"tests": tests, "late": late}
                passed = sum(outcome == "PASSED" for tests in each for outcome in tests.values())
                total, note = sum(len(tests) for tests in each), " (time was up)" if late else ""
                title = group[0] if len(group) == 1 else f"{len(group)} files"
                print(f"{library.name} {side} {title}: {passed} of {total}, {seconds:.0f} s{note}", flush=True)
                if options.keep is not None:
                    options.keep.mkdir(parents=True, exist_ok=True)
                    text = (
                        f"{group[0].replace('/', '+')}.{side}.txt"
                        if len(group) == 1
                        else f"{library.module}.{side}.txt"
                    )
                    (options.keep / text).write_text(output, encoding="utf-8")
                merged = json.loads(options.results.read_text()) if options.results.exists() else {}
                merged[library.name] = entry
                options.results.write_text(json.dumps(merged, indent=1, sort_keys=True), encoding="utf-8")
    print(table(results, libraries))
    return 0


if __name__ == "__main__":
    sys.exit(main())
