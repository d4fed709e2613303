"""What only a machine with a GPU can tell: op rows on it, the runtime's tests on it, training steps against peers.

sh benchmarks/gpu.sh OUT sets the environment up and calls this file:

python benchmarks/gpu.py --out OUT [--parts bench,rows,runtime,gradients] [--workers N] [--python torch=INTERPRETER]

Each part runs in processes of its own under a hard limit of seconds, and writes what it has found as soon as it has
it; a part that is cut off leaves what came before. OUT gets `environment.json`, `bench.md` and `bench.json`,
`rows.json`, `runtime.txt`, `gradients.json`, and `summary.md`, which is also printed.

Rows: every row of tests/ops is run in both tiers with the platform's device as the default (so the compiled tier
is the GPU) against the reference in NumPy and tier against tier, and compiled once more with all ops on the CPU
device, against which the GPU's values are held. Products run with the precision "highest": otherwise a GPU
rounds float32 operands to 10 bits, as JAX and PyTorch have it by default, and as the benchmarks do.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import subprocess
import sys
import time
import traceback
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
LIMITS = {"bench": 130, "rows": 130, "runtime": 60, "gradients": 60}
"""Seconds per part."""
CASES = (
    "mlp", "conv6", "embedding", "embedding_unchecked", "plain_step", "assert_step", "train_small", "matmul_small",
    "digits", "embedding_small", "mlp_wide", "conv6_wide",
)  # fmt: skip
TESTS = ("tests/runtime", "tests/session", "tests/train/test_optimizers.py")


# -------------------------------------------------------------------------------------------------------- op rows
def load_rows() -> list:
    """The rows of tests/ops that are driven by cases."""
    import anabranch
    from anabranch.testing import op_cases

    dir(anabranch)
    return [row for row in op_cases.load_rows(ROOT / "tests/ops") if row.cases]


def against_cpu(row: object, op_checks: object) -> list[str]:
    """Texts of where the default device's values differ from those of the CPU, both compiled."""
    from anabranch.core.graph.graph import Graph
    from anabranch.core.graph.public_scopes import device
    from anabranch.testing.op_cases import instances

    found = []
    for name in ("", "/device:CPU:0"):
        with Graph().as_default() as graph, device(name or None):
            built = [op_checks.build_instance(one) for one in instances(row)]  # type: ignore[attr-defined]
        found.append(op_checks.run_forward(built, graph, "compiled"))  # type: ignore[attr-defined]
    problems = []
    for one, here, there in zip(built, *found, strict=True):
        for place, (first, second) in enumerate(zip(there, here, strict=True)):
            told = op_checks.difference(first, second, 2 * row.tolerance)  # type: ignore[attr-defined]
            if told:
                problems.append(f"{one.instance.name}: value {place} differs from the CPU's: {told}")
    return problems


def check_rows(part: str, share: str, path: Path) -> None:
    """Checks each n-th row and appends a line of JSON for it: ``share`` is ``i/n``."""
    import functools

    from anabranch.session import SessionOptions
    from anabranch.testing import check_gradients, op_checks

    for module in (op_checks, check_gradients):
        if hasattr(module, "SessionOptions"):
            module.SessionOptions = functools.partial(SessionOptions, precision="highest")  # type: ignore[misc]
    number, count = map(int, share.split("/"))
    rows = load_rows()
    if part == "gradients":
        rows = [row for row in rows if op_checks.differentiable(row)]
    with path.open("a") as lines:
        for row in rows[number::count]:
            started = time.perf_counter()
            checks = (
                [("forward", op_checks.check_forward), ("cpu", lambda row: against_cpu(row, op_checks))]
                if part == "rows"
                else [("order 1", lambda row: op_checks.check_order(row, 1))]
            )
            problems: list[str] = []
            for name, check in checks:
                if name in row.gaps:
                    continue
                try:
                    problems += [f"{name}: {text}" for text in check(row)]
                except Exception as problem:
                    told = traceback.format_exc(limit=-3)
                    problems.append(f"{name}: {type(problem).__name__}: {str(problem)[:300]} || {told[-700:]}")
            found = {"row": row.type_name, "seconds": round(time.perf_counter() - started, 2), "problems": problems}
            lines.write(json.dumps(found) + "\n")
            lines.flush()


def run_rows(part: str, out: Path, workers: int, limit: float) -> str:
    """Runs :func:`check_rows` in ``workers`` processes for at most ``limit`` seconds; a line that sums it up."""
    flags = os.environ.get("XLA_FLAGS", "")
    environment = {
        **os.environ,
        "XLA_PYTHON_CLIENT_PREALLOCATE": "false",
        # Rows are many tiny programs: trying kernels out for each would take most of the time.
        "XLA_FLAGS": f"{flags} --xla_gpu_autotune_level=0".strip() if has_gpu(out) else flags,
    }
    paths = [out / f".{part}.{i}.jsonl" for i in range(workers)]
    log = out / f".{part}.log"
    processes = []
    with log.open("w") as errors:
        for i, path in enumerate(paths):
            path.unlink(missing_ok=True)
            call = [sys.executable, __file__, "--out", str(out), "--check", part, "--share", f"{i}/{workers}"]
            processes.append(subprocess.Popen(call, cwd=ROOT, env=environment, stdout=errors, stderr=errors))
        end = time.monotonic() + limit
        for process in processes:
            try:
                process.wait(max(0.1, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
    found = [json.loads(line) for path in paths if path.exists() for line in path.read_text().splitlines() if line]
    failed = [item for item in found if item["problems"]]
    codes = [process.returncode for process in processes]
    cut = sum(code == -9 for code in codes)
    died = sum(code not in (0, -9) for code in codes)
    tail = log.read_text()[-3000:] if died else ""
    slow = sorted(found, key=lambda item: -item["seconds"])[:10]
    told = {
        "checked": len(found),
        "failed": failed,
        "workers cut off": cut,
        "workers that died": died,
        "log": tail,
        "slowest": [(item["row"], item["seconds"]) for item in slow],
    }
    (out / f"{part}.json").write_text(json.dumps(told, indent=1))
    for path in [*paths, log]:
        path.unlink(missing_ok=True)
    lines = [
        f"{part}: {len(found)} rows checked, {len(failed)} with problems; of {workers} workers {cut} ran out of time, "
        f"{died} died"
    ]
    lines += [f"  {item['row']}: {item['problems'][0][:220]}" for item in failed[:60]]
    return "\n".join(lines + ([tail[-800:]] if tail else []))


# -------------------------------------------------------------------------------------------------- other parts
def has_gpu(out: Path) -> bool:
    """Whether the environment part found one."""
    return json.loads((out / "environment.json").read_text()).get("platform") == "gpu"


def limited(call: list[str], path: Path, limit: float, environment: dict[str, str] | None = None) -> str:
    """Runs ``call`` with its output in ``path``, for at most ``limit`` seconds; a word on how it ended."""
    with path.open("w") as output:
        process = subprocess.Popen(
            call,
            cwd=ROOT,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            env={**os.environ, **(environment or {})},
        )
        try:
            return f"ended with code {process.wait(limit)}"
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, 9)
            process.wait()
            return f"cut off after {limit:.0f} s"


def environment(out: Path) -> str:
    """Versions and devices."""
    code = (
        "import json, jax; from anabranch.xla import engine; d = jax.devices()[0];"
        "print(json.dumps({'platform': engine.default_platform(), 'device': d.device_kind, 'count': len(jax.devices()),"
        "'jax': jax.__version__}))"
    )
    asked = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=100)
    lines = asked.stdout.strip().splitlines()
    found = json.loads(lines[-1]) if lines else {"platform": "none", "error": asked.stderr[-2000:]}
    found["python"] = sys.version.split()[0]
    for name in ("numpy", "jaxlib", "torch"):
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            found[name] = None
    try:
        query = ["nvidia-smi", "--query-gpu=name,driver_version,memory.total", "--format=csv,noheader"]
        found["nvidia-smi"] = subprocess.check_output(query, text=True, timeout=20).strip()
    except (OSError, subprocess.SubprocessError) as problem:
        found["nvidia-smi"] = str(problem)
    (out / "environment.json").write_text(json.dumps(found, indent=1))
    return json.dumps(found)


def bench(out: Path, limit: float, pythons: list[str], cases: list[str]) -> str:
    """The cases of run.py in every peer; the table so far is there even if it is cut off."""
    call = [sys.executable, str(HERE / "run.py"), "--rounds", "5", "--json", str(out / "bench.json")]
    for item in pythons:
        call += ["--python", item]
    told = limited(call + cases, out / "bench.md", limit, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"})
    return f"bench: {told}\n" + (out / "bench.md").read_text()


def runtime(out: Path, limit: float, workers: int) -> str:
    """The runtime's tests with the platform's device as the default."""
    call = [
        sys.executable, "-m", "pytest", *TESTS, "-q", "--tb=short", "-rfE", "-p", "no:cacheprovider", "-W", "default",
        "-n", str(workers), "--maxfail=40", "--timeout=50", "-m", "not slow and not multiprocess",
    ]  # fmt: skip
    told = limited(call, out / "runtime.txt", limit, {"XLA_PYTHON_CLIENT_PREALLOCATE": "false"})
    lines = (out / "runtime.txt").read_text().splitlines()
    ends = [line for line in lines[:-1] if line.startswith(("FAILED", "ERROR"))][:40] + lines[-1:]
    return f"runtime tests: {told}\n" + "\n".join(ends)


def main() -> None:
    """Runs the parts one after another."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--parts", default="bench,rows,runtime,gradients")
    parser.add_argument("--workers", type=int, default=max(2, min(12, (os.cpu_count() or 2) - 2)))
    parser.add_argument("--total", type=float, default=360.0, help="seconds for everything")
    parser.add_argument("--python", action="append", default=[], metavar="ENV=INTERPRETER", help="as run.py takes it")
    parser.add_argument("--cases", default=" ".join(CASES), help="of the bench")
    parser.add_argument("--check", help=argparse.SUPPRESS)
    parser.add_argument("--share", help=argparse.SUPPRESS)
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    if options.check:
        number = options.share.partition("/")[0]
        check_rows(options.check, options.share, options.out / f".{options.check}.{number}.jsonl")
        return
    end = time.monotonic() + options.total
    summary = options.out / "summary.md"
    summary.write_text("")

    def tell(text: str) -> None:
        print(text, flush=True)
        with summary.open("a") as lines:
            lines.write(text + "\n\n")

    tell(environment(options.out))
    for part in options.parts.split(","):
        limit = min(LIMITS[part], end - time.monotonic() - 3)
        if limit < 5:
            tell(f"{part}: no time was left")
            continue
        started = time.monotonic()
        try:
            if part == "bench":
                tell(bench(options.out, limit, options.python, options.cases.split()))
            elif part == "runtime":
                tell(runtime(options.out, limit, options.workers))
            else:
                tell(run_rows(part, options.out, options.workers, limit))
        except Exception:
            tell(f"{part}: {traceback.format_exc(limit=-3)}")
        tell(f"({part} took {time.monotonic() - started:.0f} s)")


if __name__ == "__main__":
    main()
