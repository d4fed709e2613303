"""Programs that are compiled quickly at first, and well once they have run often: the *draft* and the *final* form.

On CPUs most of the time of a compilation is code generation. Without XLA's fusion emitters and without LLVM's optimiser
it takes a fifth to an eighth of the time, and what it gives computes the same HLO: matrix products and convolutions are
library calls and take the time that they took; what is element by element takes some nanosecond more for each element.

Policy. The ski-rental rule again, as for the two tiers (``runtime/plans/policy.py``): a program runs as a draft until
that has cost half as much as compiling the final form does, both modelled from the jaxpr, no clock. After a quarter of
these runs the final form is compiled in a process of its own, while steps go on; the run at which it takes over is
fixed in advance, and waits for it if it must. So the same program changes forms at the same run each time, and
repeats bit for bit. Runs are counted by program, not for the process: what other sessions did decides nothing.

What is small or slow has no draft: a compilation that takes no time, a program whose draft would soon have cost more
than it saved, a plan for which the user asked for the compiled tier.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import weakref
from collections.abc import Callable
from typing import Any

from anabranch.xla import background
from anabranch.xla.memory import inner_jaxprs

_log = logging.getLogger("anabranch")

OPTIONS: dict[str, Any] = {"xla_cpu_use_fusion_emitters": False, "xla_backend_optimization_level": 0}
# Microseconds, from measurements on two x86 cores (docs/notes/0012-cold-starts.md).
FINAL_PER_EQUATION = 3_500.0
"""Compiling the final form, for each equation of a jaxpr."""
EXCESS_PER_ELEMENT = 0.0018
"""What a run of the draft takes longer, for each element that an equation which is not free computes."""
LOOP_RUNS = 20
"""How often a loop whose end is not known is taken to run."""
SMALL = 150_000.0
"""A compilation that takes less is done well at once."""
FEWEST_RUNS = 4
"""A draft that would cost as much as it saves before so many runs is not made."""
MOST_RUNS = 256
"""After so many runs the final form takes over in any case."""
FREE = frozenset(
    (
        "broadcast_in_dim",
        "conv_general_dilated",
        "dot_general",
        "dynamic_slice",
        "reshape",
        "slice",
        "squeeze",
        "transpose",
    )
)
"""Calls of libraries, and what is read in place by whoever takes it."""


def work(jaxpr: Any) -> tuple[int, float]:
    """How many equations a jaxpr has, inner ones included, and the elements that its run computes one by one."""
    equations, elements = 0, 0.0
    for equation in jaxpr.eqns:
        name = equation.primitive.name
        inner = [] if name in _SCALAR_INSIDE else list(inner_jaxprs(equation.params))
        if not inner:
            equations += 1
            if name not in FREE:
                place = _IN_PLACE.get(name)
                touched = equation.outvars if place is None else (equation.invars[place],)
                elements += sum(_size(variable.aval) for variable in touched)
            continue
        times = LOOP_RUNS if name == "while" else equation.params.get("length", 1) if name == "scan" else 1
        found = [work(other) for other in inner]
        equations += sum(count for count, _ in found)
        counts = [count for _, count in found]
        elements += times * (max(counts) if name == "cond" else sum(counts))
    return equations, elements


_SCALAR_INSIDE = (
    "reduce",
    "reduce_window",
    "scatter",
    "scatter-add",
    "scatter-mul",
    "scatter-min",
    "scatter-max",
    "sort",
)
"""Primitives whose inner jaxpr combines two elements."""
_IN_PLACE = {"dynamic_update_slice": 1, "scatter": 2, "scatter-add": 2, "scatter-mul": 2, "reduce": 0, "sort": 0}
"""Primitives whose work is as large as one of their operands."""


def _size(aval: Any) -> float:
    size = 1.0
    for dim in getattr(aval, "shape", ()):
        size *= dim
    return size


def runs_as_draft(jaxpr: Any) -> int:
    """How many runs a program is to make as a draft; 0 for none."""
    equations, elements = work(jaxpr)
    compiling = equations * FINAL_PER_EQUATION
    if compiling < SMALL:
        return 0
    runs = min(float(MOST_RUNS), compiling / 2 / max(elements * EXCESS_PER_ELEMENT, 1e-9))
    return int(runs) if runs >= FEWEST_RUNS else 0


class Disk:
    """Where the final form of a program is kept; the base class keeps nothing."""

    def has_final(self) -> bool:
        """Whether it is there."""
        return False

    def final(self) -> Any:
        """The form that is there, or None."""
        return None

    def keep_final(self, compiled: Any, code: bytes | None) -> None:
        """Keep the form that has been compiled; ``code`` is its machine code if that came from another process."""


class Source:
    """What a program is lowered to, as long as its final form may still have to be made of it."""

    def __init__(
        self,
        lower: Callable[[], Any],
        around: Callable[[], contextlib.AbstractContextManager[Any]],
        disk: Disk | None = None,
    ) -> None:
        self._lower = lower
        self._around = around
        self._disk = disk if disk is not None else Disk()

    @functools.cached_property
    def _lowered(self) -> Any:
        return self._lower()

    def prepare(self) -> None:
        """Do what has to be done of Python's before the final form can be made in the background."""
        if not self._disk.has_final():
            self._lowered  # noqa: B018

    def draft(self) -> Any:
        """The quickly compiled form; None where XLA does not know how."""
        with self._around():
            try:
                return self._lowered.compile(compiler_options=OPTIONS)
            except Exception as problem:
                if "No such compile option" not in str(problem):
                    raise
                return None

    def final(self) -> Any:
        """The optimised form."""
        with self._around():
            found = self._disk.final()
            if found is None:
                found = self._lowered.compile()
                self._disk.keep_final(found, None)
            return found

    def final_elsewhere(self) -> Any:
        """The optimised form, compiled by a process of its own."""
        with self._around():
            found = self._disk.final()
            if found is None:
                found, code = background.compiled_elsewhere(self._lowered)
                self._disk.keep_final(found, code)
            return found

    def best_from_a_thread(self) -> Any:
        """The optimised form, for a thread of the background: a CPU's is compiled elsewhere if it can be."""
        try:
            return self.final_elsewhere()
        except background.NotPossible:
            return self.final()


class Forms:
    """The compiled forms of one computation, shared by all programs of the process that do the same."""

    def __init__(self, facts: Any, draft: Any = None, runs: int = 0, final: Any = None, source: Source | None = None):
        self.facts = facts
        """What tracing found out: the same for both forms."""
        self.runs = runs
        """How many runs a program makes with the draft."""
        self.problem: Exception | None = None
        """Why the final form could not be compiled: the draft serves on."""
        self._draft = draft
        self._final = final
        self._source = weakref.ref(source) if source is not None else None
        self._lock = threading.Lock()
        self._compiling: threading.Thread | None = None

    @property
    def function(self) -> Any:
        """The best form that there is."""
        return self._final if self._final is not None else self._draft

    def executable(self) -> Executable | None:
        """For a program that does the same; None if the final form can no longer be made."""
        if self._draft is None:
            return Executable(self._final, self.facts)
        source = self._source() if self._source is not None else None
        if source is None and self._final is None and self.problem is None:
            return None
        return Executable(self._draft, self.facts, Draft(self, source))

    def begin(self, source: Source | None) -> None:
        """Start to compile the final form, unless that has been done."""
        with self._lock:
            if self._final is None and self._compiling is None and self.problem is None and source is not None:
                try:
                    source.prepare()
                except Exception as problem:
                    self.problem = problem
                    return
                self._compiling = background.start(lambda: self._compile_elsewhere(source), "anabranch-final-form")

    def best(self, source: Source | None) -> Any:
        """The final form, for which it waits; the draft if it cannot be compiled."""
        self.begin(source)
        thread = self._compiling
        if thread is not None:
            thread.join()
            self._compiling = None
        if self._final is None and self.problem is None and source is not None:
            with self._lock:
                if self._final is None and self.problem is None:
                    self._compile(source.final)
        return self.function

    def _compile_elsewhere(self, source: Source) -> None:
        try:
            self._compile(source.final_elsewhere)
        except background.NotPossible as reason:
            _log.warning("A program is compiled while its step waits, as no process can do it meanwhile: %s", reason)

    def _compile(self, compiled: Callable[[], Any]) -> None:
        try:
            self._final = compiled()
        except background.NotPossible:
            raise
        except Exception as problem:
            self.problem = problem


class Draft:
    """Counts the runs that a program makes as a draft."""

    def __init__(self, forms: Forms, source: Source | None) -> None:
        self._forms = forms
        self._source = source
        self._lock = threading.Lock()
        self._done = 0

    @property
    def left(self) -> int:
        """How many runs are left until the final form takes over."""
        return self._forms.runs - self._done

    def count(self, executable: Executable) -> None:
        """Called before each run: begins to compile the final form, and lets it take over, when it is time."""
        with self._lock:
            if self._done < self._forms.runs:
                self._done += 1
                if self._done == max(1, self._forms.runs // 4):
                    self._forms.begin(self._source)
                return
        executable.function = self._forms.best(self._source)
        executable.draft = None
        self._source = None


class Executable:
    """A traced and compiled variant of a program for certain shapes and known values."""

    __slots__ = ("draft", "facts", "function")

    def __init__(self, function: Any, facts: Any, draft: Draft | None = None) -> None:
        self.function = function
        self.facts = facts
        self.draft = draft
        """What counts the runs until a better form takes over; None if there is no better one."""
