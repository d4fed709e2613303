"""Names that came with TensorFlow's late versions 1.x and with version 2, which programs for both use.

- ``tf.py_function``: a Python function of tensors. Here each call builds a small graph of its own, so that the function
  may use TensorFlow's functions, and ``tensor.numpy()`` of its arguments.
- ``tf.xla.experimental.compile``: every step is compiled by XLA anyway.
- ``tf.config``: devices.
- ``tf.CriticalSection``: parts of a step that run one after the other.
- ``tf.train.ProfilerHook``.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.values import nest
from anabranch.debug.timeline import Timeline
from anabranch.eager.mode import eager_mode
from anabranch.ops.control import python_functions
from anabranch.train import step_counter


# ---------------------------------------------------------------------------------------------------- Python functions
def _called(func: Callable[..., Any], tensors: Sequence[Any], types: Sequence[Any]) -> list[Any]:
    """The tensors that a function gives, a list of as many as there are types."""
    returned = func(*tensors)
    found = list(returned) if isinstance(returned, (list, tuple)) else [] if returned is None else [returned]
    if len(found) != len(types):
        raise ValueError(
            errors.message(
                f"{len(found)} results of {func!r}",
                f"{len(types)} results, one for each dtype of Tout",
                f"Tout with {len(found)} dtypes",
            )
        )
    return [tf.convert_to_tensor(each, kind) for each, kind in zip(found, types, strict=True)]


@public("py_function")
def py_function(func: Callable[..., Any], inp: Sequence[Any], Tout: Any, name: str | None = None) -> Any:
    """A Python function of tensors as an operation, with gradients.

    The function is called whenever the operation runs, in eager mode: its tensors have values (``tensor.numpy()``), and
    what it computes of them is there at once. What it computes with TensorFlow's functions has gradients, for which it
    is called once more; what it computes otherwise has none.

    Args:
        func: a function; it gives a tensor, an array, a list of them, or None.
        inp: tensors.
        Tout: dtype of the result, or a list of dtypes; ``[]`` for none.
        name: name of the operation.
    """
    many = isinstance(Tout, (list, tuple))
    types = [tf.as_dtype(each).base_dtype for each in (Tout if many else [Tout])]
    inputs = [tf.convert_to_tensor(each) for each in inp]
    if tf.executing_eagerly():
        tensors = _called(func, inputs, types)
        return tensors if many else tensors[0] if tensors else None

    def forward(*arrays: Any) -> Any:
        with eager_mode():
            return [result.numpy() for result in _called(func, [tf.constant(array) for array in arrays], types)]

    def slopes(arrays: Sequence[Any], given: Sequence[Any], wanted: Sequence[int]) -> list[np.ndarray]:
        with eager_mode():
            tensors = [tf.constant(array) for array in arrays]
            asked = [tensors[i] for i in wanted]
            with tf.GradientTape() as tape:
                tape.watch(asked)
                results = _called(func, tensors, types)
            pairs = [(y, tf.constant(dy)) for y, dy in zip(results, given, strict=True) if dy is not None]
            gradients: Sequence[Any] = [None] * len(asked)
            if pairs:
                gradients = tape.gradient([y for y, _ in pairs], asked, [dy for _, dy in pairs])
            return [
                np.zeros_like(x.numpy()) if dx is None else tf.convert_to_tensor(dx).numpy()
                for x, dx in zip(asked, gradients, strict=True)
            ]

    outputs = python_functions.call_eager(forward, slopes, inputs, types, name)
    return outputs if many or not isinstance(outputs, list) else outputs[0]


# --------------------------------------------------------------------------------------------------------- compilation
@public("xla.experimental.compile")
def compile(computation: Callable[..., Any], inputs: Sequence[Any] | None = None) -> Any:
    """What a function makes of tensors: XLA compiles it with the rest of the step.

    Args:
        computation: a function of tensors; it gives tensors, operations, a structure of them, or None.
        inputs: its arguments.

    Returns:
        The structure of tensors, available when operations among the results have run; a tuple for one tensor; an
        operation if there are no tensors.
    """
    results = computation(*(tf.convert_to_tensor(each) for each in inputs or ()))
    if results is None:
        return tf.no_op()
    flat = nest.flatten(results)
    operations = [each for each in flat if isinstance(each, Operation)]
    tensors = [tf.convert_to_tensor(each) for each in flat if not isinstance(each, Operation) and each is not None]
    if not tensors:
        return tf.group(*operations)
    with tf.control_dependencies(operations):
        tensors = [tf.identity(each) for each in tensors]
    if len(flat) == 1:
        return (tensors[0],)
    if operations:
        return tuple(tensors) if isinstance(results, tuple) else tensors
    return nest.pack_sequence_as(results, tensors)


@public("xla.experimental.jit_scope")
@contextlib.contextmanager
def jit_scope(compile_ops: Any = True, separate_compiled_gradients: bool = False) -> Iterator[None]:
    """A block whose operations are compiled, as all are.

    Raises:
        NotImplementedError: ``compile_ops`` is False: use ``anabranch.SessionOptions(tier="interpreted")``.
    """
    del separate_compiled_gradients  # gradients are compiled with what they are gradients of
    if compile_ops is False:
        raise NotImplementedError(
            errors.message("compile_ops=False", "True", "a session with tf.SessionOptions(tier='interpreted')")
        )
    yield


# -------------------------------------------------------------------------------------------------- critical sections
@public("CriticalSection")
class CriticalSection:
    """Parts of a graph that run one after the other, in the order in which they are added.

    Of several parts in a step each sees what those before it did; a part that a step does not need does not run. Steps
    of several threads do not mix: what a part does to variables is one transaction.

    Args:
        name: name of the section.
        shared_name: sections of one name are one section; the name by default.

    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     total = tf.Variable(0.0, use_resource=True)
    ...     section = tf.CriticalSection()
    ...     sums = [section.execute(lambda: tf.identity(total.assign_add(1.0))) for _ in range(3)]
    ...     session.run(total.initializer)
    ...     print(*session.run(sums))
    1.0 2.0 3.0
    """

    def __init__(
        self,
        name: str | None = None,
        shared_name: str | None = None,
        critical_section_def: Any = None,
        import_scope: str | None = None,
    ) -> None:
        for argument, value in (("critical_section_def", critical_section_def), ("import_scope", import_scope)):
            if value is not None:
                raise NotImplementedError(
                    errors.message(f"{argument}={value!r}", f"{argument}=None", f"leave {argument} out")
                )
        self._fence = None
        with tf.name_scope(name, "CriticalSection", []) as scope:
            self._name = scope.removesuffix("/")
            self._shared = shared_name or self._name
            if not tf.executing_eagerly():
                # Ops on a queue are done in the order in which they were added, and what stands between two of them is
                # one transaction. The queue stays empty: nobody waits, also where a part fails.
                with tf.init_scope():
                    self._fence = tf.FIFOQueue(1, [tf.int32], shapes=[[]], shared_name=self._shared, name=scope)
                tf.add_to_collection("critical_sections", self)

    @property
    def name(self) -> str:
        """The name."""
        return self._name

    def execute(self, fn: Callable[..., Any], exclusive_resource_access: bool = True, name: str | None = None) -> Any:
        """What a function makes, after all that was executed in this section before.

        Args:
            fn: a function without arguments; it gives a tensor, an operation, or a structure of them.
            exclusive_resource_access: has no effect: a part's updates are one transaction.
            name: name of the scope.

        Raises:
            ValueError: ``fn`` executes something in the same section.
        """
        del exclusive_resource_access
        running = _sections.__dict__.setdefault("running", [])
        if self._shared in running:
            raise ValueError(
                "The function fn attempts to directly access the CriticalSection in which it would be running.  "
                "This is illegal and would cause deadlocks.\n"
                + errors.message(
                    f"an execution within one of section {self._shared!r}",
                    "a function that executes nothing in its own section",
                    "tf.CriticalSection(shared_name='another')",
                )
            )
        with tf.name_scope(name, "critical_section_execute", []):
            before = [] if self._fence is None else [self._fence.size()]
            running.append(self._shared)
            try:
                with tf.control_dependencies(before):
                    results = fn()
            finally:
                running.pop()
            if self._fence is None:
                return results
            flat = [tf.group(each) if isinstance(each, Operation) else each for each in nest.flatten(results)]
            waited = [each for each in flat if isinstance(each, (Tensor, Operation))]
            with tf.control_dependencies(waited):
                done = self._fence.size()
            with tf.control_dependencies([done]):
                flat = [
                    tf.identity(each) if isinstance(each, Tensor) else tf.group(each) if each in waited else each
                    for each in flat
                ]
            return nest.pack_sequence_as(results, flat)


_sections = threading.local()
"""In ``running`` the names of the sections whose functions a thread is calling."""


@public("train.ProfilerHook")
class ProfilerHook(tf.train.SessionRunHook):
    """Write a trace of a step (``timeline-<step>.json``, and an event) every so many steps or seconds.

    Args:
        save_steps: steps between two traces.
        save_secs: seconds between two traces; give one of the two.
        output_dir: the folder.
        show_dataflow: without effect; lines between operations are not shown.
        show_memory: must be False.
    """

    def __init__(
        self,
        save_steps: int | None = None,
        save_secs: float | None = None,
        output_dir: str = "",
        show_dataflow: bool = True,
        show_memory: bool = False,
    ) -> None:
        if show_memory:
            raise NotImplementedError(
                errors.message("show_memory=True", "a call that does not show memory", "session.run with RunMetadata")
            )
        self._timer = tf.train.SecondOrStepTimer(every_secs=save_secs, every_steps=save_steps)
        self._folder, self._dataflow = output_dir, show_dataflow
        self._writer = tf.summary.FileWriterCache.get(output_dir)

    def begin(self) -> None:
        """Find the global step."""
        self._next: int | None = None
        self._step = tf.train.get_global_step()
        if self._step is None:
            raise RuntimeError(
                "Global step should be created to use ProfilerHook.\n"
                + errors.message("no global step", "a graph with a global step", "tf.train.get_or_create_global_step()")
            )
        self._before = step_counter.value_before_step(self._step)

    def before_run(self, run_context: Any) -> Any:
        """Ask for statistics if this step is to be traced: the first one is not."""
        self._traced = self._next is not None and self._timer.should_trigger_for_step(self._next)
        options = tf.RunOptions(trace_level=tf.RunOptions.FULL_TRACE) if self._traced else None
        return tf.train.SessionRunArgs({"step": self._before}, options=options)

    def after_run(self, run_context: Any, run_values: Any) -> None:
        """Write the trace."""
        before = int(run_values.results["step"])
        if self._next is None:
            self._timer.update_last_triggered_step(before)
        step = before + 1
        if self._traced:
            step = int(run_context.session.run(self._step))
            self._timer.update_last_triggered_step(step)
            statistics = run_values.run_metadata
            trace = Timeline(statistics.step_stats).generate_chrome_trace_format(self._dataflow, False)
            with tf.gfile.GFile(os.path.join(self._folder, f"timeline-{step}.json"), "w") as file:
                file.write(trace)
            self._writer.add_run_metadata(statistics, f"step_{step}")
        self._next = step + 1
