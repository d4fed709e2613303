"""Settings that every test shares.

Hypothesis draws the same examples on every run, so that a failure in continuous integration repeats on a desk;
`HYPOTHESIS_PROFILE=search` looks for new ones.

XLA compiles quickly instead of well: most of the tests' time would be its code generation, of which nothing is ours.
`make test-all` compiles as programs do (`ANABRANCH_TEST_COMPILE=full`).

JAX makes an MLIR context for each program that it lowers: two thirds of the time for a small one. Here each thread
takes the same one for a hundred programs.

Bytecode is kept even where the environment asks for none (images of containers do): each of the processes that tests
start would compile the whole package anew, which takes four times as long as loading it.

The garbage collector rests while tests are collected, a third of which would be its time, and afterwards leaves alone
what is there: the modules and some 18,000 tests, which live as long as the process. Otherwise each collection that a
test asks for, to see that something is gone, walks through all of them. What tests leave in caches, JAX's and ours, is
put aside in the same way every few hundred tests: some 800 objects a test, so that one collection would take a second
and more in the end.
"""

from __future__ import annotations

import gc
import importlib.metadata
import itertools
import os
import sys
import threading
from typing import Any

import hypothesis
import pytest

os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

# What one test compiles, no other finds on disk; tests of the cache have folders of their own.
os.environ["ANABRANCH_CACHE"] = "off"
os.environ.pop("JAX_COMPILATION_CACHE_DIR", None)

# For all programs of the process and of those that it starts. Code in up to 32 parts, which are compiled side by side,
# is more work than code in one, and each worker has but one core.
QUICK = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
if tuple(map(int, importlib.metadata.version("jaxlib").split(".")[:2])) < (0, 11):
    QUICK += (
        " --xla_cpu_use_fusion_emitters=false"  # later ones have no other emitters: they end the process at this flag
    )
if os.environ.get("ANABRANCH_TEST_COMPILE", "quick") != "full" and QUICK not in os.environ.get("XLA_FLAGS", ""):
    os.environ["XLA_FLAGS"] = f"{os.environ.get('XLA_FLAGS', '')} {QUICK}".strip()

hypothesis.settings.register_profile("repeatable", derandomize=True, deadline=None, max_examples=50, database=None)
hypothesis.settings.register_profile("search", deadline=None, max_examples=1000)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "repeatable"))


PROGRAMS_PER_CONTEXT = 100  # a context keeps the constants of its programs


def reuse_mlir_contexts(_: Any) -> None:
    """Let programs that one thread lowers share a context. A thread has its own: loading dialects into one is no
    matter for two threads.
    """
    from jax._src.interpreters import mlir

    new_context = mlir.make_ir_context
    own = threading.local()

    def shared_context() -> Any:
        programs = getattr(own, "programs", 0)
        if programs % PROGRAMS_PER_CONTEXT == 0:
            own.context = new_context()
        own.programs = programs + 1
        return own.context

    mlir.make_ir_context = shared_context


def pytest_configure() -> None:
    from anabranch.xla import engine  # not before bytecode is kept

    engine.when_loaded(reuse_mlir_contexts)


@pytest.hookimpl(tryfirst=True)
def pytest_collection() -> None:
    gc.disable()


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    gc.enable()
    gc.collect()
    gc.freeze()
    gc.set_threshold(3000, 20)  # a graph has tens of thousands of objects, which are dropped together


TESTS_PER_FREEZE = 250
FREEZES_PER_SEARCH = 10  # that goes through everything, as what was put aside may have become garbage
_finished = itertools.count(1)


def pytest_runtest_logfinish() -> None:
    freezes, rest = divmod(next(_finished), TESTS_PER_FREEZE)
    if not rest and gc.isenabled():
        if not freezes % FREEZES_PER_SEARCH:
            gc.unfreeze()
        gc.collect()
        gc.freeze()
