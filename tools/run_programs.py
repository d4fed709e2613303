"""Runs public programs written for TensorFlow 1.x as they are, and prints what they found beside what they should find.

    python tools/run_programs.py FOLDER [--python PYTHON] [--mnist FOLDER] [--tensorflow PYTHON] [--only NAME...]

FOLDER holds the checked-out repositories, each as `owner+name` at the commit that `--list` shows. Each program runs
in a process of its own, in a copy of its repository, through `anabranch run` of the environment of PYTHON, with a
time limit. `--mnist` names a folder of MNIST-format files for those that read such. With `--tensorflow`, an
interpreter that has TensorFlow, each runs there, too, in a copy of its own, behind its interface of version 1 and the
parts of `tf.contrib` that the programs need. The table has seconds, and seconds of CPU time of all threads: on a busy
machine only these say something.

Nothing is fetched. What is older than the environment's Python, NumPy or SciPy is mended by preludes in
`tools/programs/preludes/`, named for the environment, never for a program.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

TOOLS = Path(__file__).parent / "programs"


@dataclasses.dataclass(frozen=True)
class Program:
    """A program: where it stands, how it is called, what it must print."""

    name: str
    repository: str
    commit: str
    command: str
    """Script and arguments, separated by blanks; `{driver}` is the folder of our own drivers."""
    found: str
    """Pattern of what it found; the last match counts, its groups are given to `accept`."""
    accept: Callable[..., bool]
    expected: str
    folder: str = "."
    limit: float = 600
    preludes: tuple[str, ...] = ()
    needs_mnist: bool = False
    enough: str | None = None
    """The program is stopped when it prints this."""
    environment: tuple[tuple[str, str], ...] = ()
    after: str | None = None
    """The program that must run before, in the same copy."""
    on_tensorflow: bool = True
    may_fail: bool = False
    """Whether it may end with another status than 0."""
    arguments_from: str | None = None
    """Pattern of a folder below the copy; its newest match is put in place of `{found}` in the command."""


def _at_least(bound: float) -> Callable[..., bool]:
    return lambda *groups: float(groups[0]) >= bound


def _below(bound: float) -> Callable[..., bool]:
    return lambda *groups: float(groups[0]) < bound


def _near(*wanted: tuple[float, float]) -> Callable[..., bool]:
    return lambda *groups: all(abs(float(text) - value) <= by for text, (value, by) in zip(groups, wanted, strict=True))


_GCN = ("tkipf/gcn", "39a4089")
_CHARS = ("sherjilozair/char-rnn-tensorflow", "4bff62d")
_LABS = ("hunkim/DeepLearningZeroToAll", "60c707e")
_TEXT = ("dennybritz/cnn-text-classification-tf", "18762b4")
_BERT = ("google-research/bert", "eedf571")
_MAML = ("cbfinn/maml", "a7f45f1")
_PINNS = ("maziarraissi/PINNs", "0542794")
_TRFL = ("deepmind/trfl", "f921fab0")
_NUMBER = r"([-+\d.e]+)"
_ACCURACY = rf"Accuracy:?\s*{_NUMBER}"


def _tests(name: str, source: tuple[str, str], file: str, count: int, **options: object) -> Program:
    """A file of tests, all of which must pass: at least `count`, beside the one that `test_session` seems to be."""
    values: dict[str, object] = {
        "found": r"Ran (\d+) tests? [^\n]*\n\n(OK)",
        "accept": lambda ran, _: int(ran) >= count,
        "expected": f"{count} tests pass",
        **options,
    }
    return Program(name, *source, file, **values)  # type: ignore[arg-type]


PROGRAMS = [
    Program("V1", *_GCN, "train.py", rf"accuracy= {_NUMBER}", _at_least(0.80), "accuracy >= 0.80", folder="gcn",
            preludes=("scipy_eigen",), environment=(("PYTHONPATH", ".."),)),
    *(
        program
        for kind, script in (
            ("lstm", "train.py --num_epochs 1 --model lstm"),
            # The repository's own script feeds states as pairs, which those of a GRU are not.
            ("gru", "{driver}/chars_driver.py --model gru"),
            ("nas", "train.py --num_epochs 1 --model nas"),
        )
        for program in (
            Program(f"V2 {kind}", *_CHARS, f"{script} --save_dir save_{kind}", rf"train_loss = {_NUMBER}",
                    _below(2.1), "loss <= 2.1", limit=900, preludes=("python_2_names",),
                    environment=(("PYTHONPATH", "."),)),
            Program(f"V2 {kind} sample", *_CHARS, f"sample.py -n 60 --save_dir save_{kind}", r"(?s)(.{60,})",
                    lambda text: len(text) >= 60, "60 characters", after=f"V2 {kind}"),
        )
    ),
    Program("V3 02-1", *_LABS, "lab-02-1-linear_regression.py", rf"2000 \S+ \[\s*{_NUMBER}\] \[\s*{_NUMBER}\]",
            _near((1.0, 0.02), (0.0, 0.05)), "W 1.00, b 0.0"),
    Program("V3 02-2", *_LABS, "lab-02-2-linear_regression_feed.py", rf"2000 \S+ \[\s*{_NUMBER}\] \[\s*{_NUMBER}\]",
            _near((1.0, 0.02), (1.1, 0.02)), "W 1.00, b 1.1"),
    Program("V3 03-X", *_LABS, "lab-03-X-minimizing_cost_tf_gradient.py", rf"100 {_NUMBER} \[\(\S+\s*{_NUMBER}\)?",
            lambda cost, weight: float(cost) < 0.003, "gradient 0.00207 at step 100"),
    Program("V3 04-4", *_LABS, "lab-04-4-tf_reader_linear_regression.py", rf"Your score will be\s+\[\[{_NUMBER}\]\]",
            _near((185.335, 0.01)), "score 185.335, the author's"),
    Program("V3 05-2", *_LABS, "lab-05-2-logistic_regression_diabetes.py", _ACCURACY, _at_least(0.75),
            "accuracy 0.76"),
    Program("V3 06-2", *_LABS, "lab-06-2-softmax_zoo_classifier.py", r"(?s)Acc: \S+\n(\[True\].*)",
            lambda text: "[False]" not in text, "last predictions all True"),
    Program("V3 07-3", *_LABS, "lab-07-3-linear_regression_min_max.py", rf"100 Cost:\s*{_NUMBER}", _below(0.5),
            "cost 0.15 at step 100 (random start)"),
    Program("V3 09-2", *_LABS, "lab-09-2-xor-nn.py", _ACCURACY, _at_least(1.0), "accuracy 1.0"),
    Program("V3 09-4", *_LABS, "lab-09-4-xor_tensorboard.py", _ACCURACY, _at_least(1.0), "accuracy 1.0"),
    Program("V3 09-7", *_LABS, "lab-09-7-sigmoid_back_prop.py", r"(?s)Acc: \S+\n(\[True\].*)",
            lambda text: "[False]" not in text, "last predictions all True"),
    Program("V3 10-2", *_LABS, "lab-10-2-mnist_nn.py", _ACCURACY, _at_least(0.80), "accuracy, on the data given",
            needs_mnist=True),
    Program("V3 12-5", *_LABS, "lab-12-5-rnn_stock_prediction.py", rf"RMSE: {_NUMBER}", _below(0.1), "RMSE about 0.05"),
    Program("V3 13-3", *_LABS, "lab-13-3-mnist_save_restore.py", _ACCURACY, _at_least(0.80),
            "accuracy, on the data given", needs_mnist=True, limit=900),
    Program("V4", *_TEXT,
            "train.py --num_epochs 8 --embedding_dim 128 --num_filters 32 --dropout_keep_prob 0.7",
            rf"(?s)Evaluation:\n\S+ step 200, loss \S+, acc {_NUMBER}", _at_least(0.58), "dev accuracy >= 0.58",
            enough=r"step 200, loss \S+, acc \S+\n\n(?:Saved[^\n]*\n)+", limit=900),
    Program("V4 eval", *_TEXT, "eval.py --eval_train --checkpoint_dir {found}", rf"Accuracy: {_NUMBER}",
            _at_least(0.58), "accuracy on all", after="V4",
            arguments_from="runs/*/checkpoints", on_tensorflow=False),  # it parses flags as TensorFlow 1.4 did
    _tests("V5 modeling", _BERT, "modeling_test.py", 3),
    _tests("V5 optimization", _BERT, "optimization_test.py", 2),
    _tests("V5 tokenization", _BERT, "tokenization_test.py", 9),
    Program("V5 training", *_BERT, "{driver}/bert_driver.py", rf"last loss {_NUMBER} trainable variables (\d+)",
            lambda loss, count: float(loss) < 1e-3 and count == "41", "loss < 1e-3, 41 variables",
            environment=(("PYTHONPATH", "."),)),
    Program("V6", *_MAML, "main.py --datasource=sinusoid --logdir=logs/sine/ --metatrain_iterations=2000 --norm=None "
            "--update_batch_size=10", rf"Iteration 1000: {_NUMBER}, {_NUMBER}",
            lambda first, second: float(second) < 4.5, "second < 4.5 at iteration 1000",
            preludes=("python_2_names",), enough=r"Iteration 1000: \S+ \S+\n", limit=900, on_tensorflow=False),
    Program("V8", *_PINNS, "Burgers.py", rf"(?s)l1: {_NUMBER}, l2: {_NUMBER}\n(?!.*l1: .*Error u).*?Error u",
            lambda one, two: abs(float(one) - 1) < 0.01 and 0.0030 <= float(two) <= 0.0034,
            "lambda 1 within 0.01, lambda 2 0.0030-0.0034", folder="appendix/continuous_time_identification (Burgers)",
            preludes=("matplotlib_3",), enough=r"Error l2: \S+\n", limit=1200,
            environment=(("MPLBACKEND", "Agg"),)),
    *(
        _tests(f"V10 {file}", _TRFL, f"trfl/{file}_test.py", count, preludes=("unittest_names", "sonnet_absent"),
               environment=(("PYTHONPATH", "."),))
        for file, count in {
            "action_value_ops": 59, "discrete_policy_gradient_ops": 58, "dpg_ops": 8, "retrace_ops": 7,
            "sequence_ops": 12, "value_ops": 21, "vtrace_ops": 10,
        }.items()
    ),
    # One of its tests calls a function with arguments that it does not have, under TensorFlow too.
    _tests("V10 indexing_ops", _TRFL, "trfl/indexing_ops_test.py", 5, preludes=("unittest_names", "sonnet_absent"),
           found=r"(?s)unexpected keyword argument 'q_values'.*Ran (\d+) tests? [^\n]*\n\n(FAILED \(errors=1)",
           accept=lambda ran, _: ran == "5", expected="4 of 5 tests pass", may_fail=True,
           environment=(("PYTHONPATH", "."),)),
]  # fmt: skip


@dataclasses.dataclass
class Outcome:
    """What a run gave."""

    status: str
    found: str
    good: bool
    seconds: float
    cpu: float
    output: str


def _site(folder: Path, preludes: tuple[str, ...]) -> Path:
    """A folder for `PYTHONPATH` whose `sitecustomize` runs preludes when Python starts."""
    site = folder / "site"
    site.mkdir(exist_ok=True)
    texts = [(TOOLS / "preludes" / f"{name}.py").read_text(encoding="utf-8") for name in preludes]
    (site / "sitecustomize.py").write_text("\n\n".join(texts), encoding="utf-8")
    return site


def _stop(process: subprocess.Popen[str]) -> None:
    """Ends a process and those that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass  # it has ended by itself


def _cpu_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(
    program: Program, copy: Path, start: list[str], preludes: tuple[str, ...], scratch: Path, limit: float
) -> Outcome:
    """Runs a program in a copy of its repository."""
    command = program.command
    if program.arguments_from is not None:
        places = sorted((copy / program.folder).glob(program.arguments_from), key=lambda path: path.stat().st_mtime)
        if not places:
            return Outcome("not run", f"no {program.arguments_from}", False, 0.0, 0.0, "")
        command = command.replace("{found}", str(places[-1]))
    arguments = command.replace("{driver}", str(TOOLS)).split(" ")
    # Unbuffered, so that a program can be stopped when it has printed enough.
    environment = {**os.environ, "PYTHONUNBUFFERED": "1", **dict(program.environment)}
    paths = [str(_site(scratch, preludes)), *filter(None, [dict(program.environment).get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(paths)
    begun, used = time.monotonic(), _cpu_of_children()
    process = subprocess.Popen(
        [*start, *arguments], cwd=copy / program.folder, env=environment, text=True, errors="replace",
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, start_new_session=True,
    )  # fmt: skip
    timer = threading.Timer(limit, _stop, [process])
    timer.start()
    lines: list[str] = []
    enough = False
    assert process.stdout is not None
    for line in process.stdout:
        lines.append(line)
        if program.enough is not None and re.search(program.enough, "".join(lines[-12:])):
            enough = True
            break
    seconds = time.monotonic() - begun
    _stop(process) if enough else None
    process.stdout.close()
    code = process.wait()
    late = not timer.is_alive() and not enough
    timer.cancel()
    output = "".join(lines)
    matches = list(re.finditer(program.found, output))
    groups = matches[-1].groups() if matches else ()
    try:
        good = bool(matches) and program.accept(*groups) and (enough or program.may_fail or code == 0)
    except ValueError:
        good = False
    shown = " ".join(" ".join(groups).split())[:40] if groups else (lines[-1].strip()[:60] if lines else "")
    return Outcome(
        "stopped" if enough else "too long" if late else str(code),
        shown,
        good,
        seconds,
        _cpu_of_children() - used,
        output,
    )


def chosen(names: list[str]) -> list[Program]:
    """Programs whose names begin with one of those given, and what must run before them."""
    wanted = [p for p in PROGRAMS if not names or any(p.name == n or p.name.startswith(n + " ") for n in names)]
    before = {p.after for p in wanted if p.after} - {p.name for p in wanted}
    return [p for p in PROGRAMS if p in wanted or p.name in before]


def _keep(folder: Path | None, name: str, outcome: Outcome) -> None:
    if folder is not None:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name.replace(' ', '_')}.txt").write_text(outcome.output, encoding="utf-8")


def main() -> int:
    """Runs programs and prints the table; the number of those that did not find what they should."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--python", default=sys.executable, help="an interpreter that has Anabranch and no TensorFlow")
    parser.add_argument("--tensorflow", help="an interpreter that has TensorFlow 2, for comparison")
    parser.add_argument("--mnist", type=Path, help="a folder of MNIST-format files")
    parser.add_argument("--only", nargs="*", default=[], help="names of programs, or their beginnings (V3)")
    parser.add_argument("--keep", type=Path, help="a folder for what the programs print")
    parser.add_argument("--patience", type=float, default=1.0, help="factor of the time limits, for a busy machine")
    parser.add_argument("--list", action="store_true", help="show repositories, commits and commands")
    options = parser.parse_args()
    programs = chosen(options.only)
    if options.list:
        for program in programs:
            print(f"{program.name}: {program.repository} @ {program.commit}: {program.folder}/ {program.command}")
        return 0
    if options.folder is None:
        parser.error("name the folder of the checked-out repositories")
    bad = 0
    heading = ("program", "exit", "found", "expected", "seconds", "CPU", "TensorFlow", "CPU")
    row = "{:<30} {:<8} {:<42} {:<46} {:>8} {:>8} {:>10} {:>8}"
    print(row.format(*heading), flush=True)
    with tempfile.TemporaryDirectory() as holder:
        copies: dict[tuple[str, str], Path] = {}

        def copy_for(system: str, program: Program) -> Path:
            key = system, program.after or program.name
            if key not in copies:
                copies[key] = Path(holder) / f"{system}{len(copies)}"
                shutil.copytree(options.folder / program.repository.replace("/", "+"), copies[key])
                if options.mnist is not None:
                    (copies[key] / "MNIST_data").symlink_to(options.mnist.resolve())
            return copies[key]

        for program in programs:
            lacks = None
            if not (options.folder / program.repository.replace("/", "+")).is_dir():
                lacks = f"no folder of {program.repository}"
            elif program.needs_mnist and options.mnist is None:
                lacks = "needs --mnist"
            if lacks is not None:
                print(row.format(program.name, "not run", lacks, program.expected, "", "", "", ""))
                bad += 1
                continue
            limit = program.limit * options.patience
            start = [options.python, "-m", "anabranch", "run"]
            outcome = run(program, copy_for("us", program), start, program.preludes, Path(holder), limit)
            peer = peer_cpu = ""
            if options.tensorflow and program.on_tensorflow:
                preludes = (*program.preludes, "tensorflow_v1")
                start = [options.tensorflow]
                found = run(program, copy_for("tensorflow", program), start, preludes, Path(holder), limit)
                peer = f"{found.seconds:.1f}{'' if found.good else '!'}"
                peer_cpu = f"{found.cpu:.1f}"
                _keep(options.keep, f"{program.name} tensorflow", found)
            bad += not outcome.good
            told = row.format(
                program.name,
                outcome.status,
                outcome.found,
                program.expected,
                f"{outcome.seconds:.1f}",
                f"{outcome.cpu:.1f}",
                peer,
                peer_cpu,
            )
            print(told + ("" if outcome.good else "  <--"), flush=True)
            _keep(options.keep, program.name, outcome)
    print(f"{len(programs) - bad} of {len(programs)} as expected")
    return min(bad, 99)


if __name__ == "__main__":
    sys.exit(main())
