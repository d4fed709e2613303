"""``tf.contrib.summary``: summaries that the graph writes itself, at the steps that a condition picks.

Policy. A writer is a resource; functions make ops that write to the writer that is the default where they are called,
under the recording condition that holds there (none: nothing is recorded, as in TensorFlow). The ops do nothing unless
they run: fetch ``all_summary_ops()`` with the training step.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import api, hooks
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.graph import Graph, get_default_graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.public_scopes import control_dependencies, device
from anabranch.core.protos import graph_pb2, summary_pb2
from anabranch.core.values import dtypes
from anabranch.ops.control.bodies import SUMMARIES
from anabranch.summary.collected import summary_scope

_INITIALIZERS = "_SUMMARY_WRITER_V2"


class _Here(threading.local):
    """What holds where a function is called: the writer, and whether to record."""

    writer: SummaryWriter | None = None
    record: Any = False
    step: Any = None
    """The step of version 2's summaries that are given none."""


_here = _Here()


def _global_step() -> Any:
    return api.names()["train.get_or_create_global_step"]()


@public("contrib.summary.eval_dir")
def eval_dir(model_dir: str, name: str | None = None) -> str:
    """The folder of the summaries of an evaluation, below that of a model."""
    return os.path.join(model_dir, f"eval_{name}" if name else "eval")


@public("contrib.summary.SummaryWriter")
class SummaryWriter:
    """A writer of a graph's own summaries; see :func:`create_file_writer`."""

    def __init__(self, resource: Tensor | None, init_op: Operation | None) -> None:
        self._resource = resource
        self._init_op = init_op

    def init(self) -> Operation:
        """The op that opens the file."""
        return self._init_op if self._init_op is not None else build("NoOp")

    def set_as_default(self, step: Any = None) -> None:
        """Make it the writer of what is built from now on; ``step`` is as for :meth:`as_default`."""
        _here.writer = self if self._resource is not None else None
        if step is not None:
            _here.step = step

    @contextlib.contextmanager
    def as_default(self, step: Any = None) -> Iterator[SummaryWriter]:
        """A context in which it is the writer of what is built, at a step of version 2's summaries if one is given.

        Where ops run at once, and in functions, what was written is in the file at its end.
        """
        old, old_step = _here.writer, _here.step
        self.set_as_default(step)
        try:
            yield self
            builder = current_builder()
            if self._resource is not None and (not builder.defers or getattr(builder, "traces", False)):
                self.flush()
        finally:
            _here.writer = old
            if step is not None:
                _here.step = old_step

    def flush(self) -> Operation:
        """An op that waits until all events are in the file."""
        return flush(self)

    def close(self) -> Operation:
        """An op that writes what waits and closes the file."""
        return build("NoOp") if self._resource is None else build("CloseSummaryWriter", self._resource)


@public("contrib.summary.create_file_writer", "contrib.summary.create_summary_file_writer")
def create_file_writer(
    logdir: Any,
    max_queue: int | None = None,
    flush_millis: int | None = None,
    filename_suffix: str | None = None,
    name: str | None = None,
) -> SummaryWriter:
    """A writer of event files in ``logdir``.

    Args:
        logdir: the folder, or None for a writer that records nothing.
        max_queue: how many events may wait, 10 if None: the one behind them is in the file when its op has run.
        flush_millis: kept for its name: an event does not stay in a buffer.
        filename_suffix: end of the file's name, ``".v2"`` if None.
        name: name that sessions share the writer by; made of ``logdir`` if None.

    Example:
        >>> import tempfile
        >>> import anabranch as tf
        >>> step = tf.train.get_or_create_global_step()
        >>> with tf.contrib.summary.create_file_writer(tempfile.mkdtemp()).as_default():
        ...     with tf.contrib.summary.always_record_summaries():
        ...         _ = tf.contrib.summary.scalar("loss", tf.constant(0.5))
        >>> with tf.Session() as session:
        ...     session.run(tf.global_variables_initializer())
        ...     tf.contrib.summary.initialize(session=session)
        ...     session.run(tf.contrib.summary.all_summary_ops())
        [True]
    """
    if logdir is None:
        return SummaryWriter(None, None)
    given = logdir if isinstance(logdir, Tensor) else os.fspath(logdir)
    with device("/cpu:0"):
        if name is None:
            name = "logdir:" + (given.name if isinstance(given, Tensor) else given)
        builder = current_builder()  # where ops run at once, each writer is its own
        resource = build("SummaryWriter", shared_name=name if builder.defers else builder.resource_name(name))
        init = build(
            "CreateSummaryFileWriter",
            resource,
            given,
            10 if max_queue is None else max_queue,
            120_000 if flush_millis is None else flush_millis,
            ".v2" if filename_suffix is None else filename_suffix,
        )
    get_default_graph().add_to_collection(_INITIALIZERS, init)
    return SummaryWriter(resource, init)


@public("contrib.summary.create_db_writer")
def create_db_writer(
    db_uri: str,
    experiment_name: str | None = None,
    run_name: str | None = None,
    user_name: str | None = None,
    name: str | None = None,
) -> SummaryWriter:
    """A writer to a database, which is not supported; raises NotImplementedError."""
    raise NotImplementedError(
        errors.message(
            f"create_db_writer({db_uri!r})", "a writer of event files", "tf.contrib.summary.create_file_writer(logdir)"
        )
    )


# ------------------------------------------------------------------------------------------------------------ recording
@public("contrib.summary.should_record_summaries")
def should_record_summaries() -> Any:
    """Whether summaries that are built here record: a bool, or a bool tensor."""
    return _here.record


@contextlib.contextmanager
def _recording(condition: Any) -> Iterator[None]:
    old = _here.record
    _here.record = condition
    try:
        yield
    finally:
        _here.record = old


@public("contrib.summary.always_record_summaries")
def always_record_summaries() -> contextlib.AbstractContextManager[None]:
    """A context in which summaries are recorded whenever they run."""
    return _recording(True)


@public("contrib.summary.never_record_summaries")
def never_record_summaries() -> contextlib.AbstractContextManager[None]:
    """A context in which no summaries are recorded."""
    return _recording(False)


@public("contrib.summary.record_summaries_every_n_global_steps")
def record_summaries_every_n_global_steps(n: Any, global_step: Any = None) -> contextlib.AbstractContextManager[None]:
    """A context in which summaries are recorded when the global step is a multiple of ``n``."""
    step = _global_step() if global_step is None else global_step
    step = convert.convert_to_tensor(step)
    with device("/cpu:0"):
        remainder = build("FloorMod", step, convert.convert_to_tensor(n, step.dtype.base))
        return _recording(build("Equal", remainder, np.zeros((), step.dtype.base.np)))


def _recorded(name: str, tensor: Any, family: str | None, make: Callable[[Any, str, str], Operation]) -> Any:
    """The op of a summary: writes if the condition holds, and gives whether it has."""
    writer = _here.writer
    if writer is None:
        return build("NoOp")
    resource = writer._resource

    def record() -> Tensor:
        with summary_scope(name, family, values=[tensor]) as (tag, scope):
            with control_dependencies([make(resource, tag, scope)]):
                return convert.constant(True)

    condition = _here.record
    with device("/cpu:0"):
        if isinstance(condition, Tensor):
            written = api.names()["cond"](condition, record, lambda: convert.constant(False), name="")
        else:
            written = record() if condition else convert.constant(False)
    get_default_graph().add_to_collection(SUMMARIES, written)
    return written


def _step(step: Any) -> Any:
    step_tensor = convert.convert_to_tensor(_global_step() if step is None else step)
    return step_tensor if step_tensor.dtype.base == dtypes.int64 else build("Cast", step_tensor, DstT="int64")


@public("contrib.summary.scalar")
def scalar(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Any:
    """Write one number.

    Args:
        name: name of the node and, with its scopes, the tag in TensorBoard.
        tensor: a real number, a scalar tensor.
        family: prefix of the tag, which TensorBoard makes a group.
        step: int64 scalar; the global step if None.

    Returns:
        A bool scalar: whether it was recorded; a ``NoOp`` if there is no default writer.
    """
    return _recorded(
        name, tensor, family, lambda w, tag, scope: build("WriteScalarSummary", w, _step(step), tag, tensor, name=scope)
    )


@public("contrib.summary.histogram")
def histogram(name: str, tensor: Any, family: str | None = None, step: Any = None) -> Any:
    """Write a histogram of finite numbers; arguments as for :func:`scalar`."""
    return _recorded(
        name,
        tensor,
        family,
        lambda w, tag, scope: build("WriteHistogramSummary", w, _step(step), tag, tensor, name=scope),
    )


@public("contrib.summary.image")
def image(
    name: str, tensor: Any, bad_color: Any = None, max_images: int = 3, family: str | None = None, step: Any = None
) -> Any:
    """Write up to ``max_images`` images of a batch ``[n, height, width, channels]``; others as for :func:`scalar`."""
    color = [255, 0, 0, 255] if bad_color is None else bad_color

    def make(resource: Any, tag: str, scope: str) -> Operation:
        shown = convert.convert_to_tensor(color, dtypes.uint8)
        return build("WriteImageSummary", resource, _step(step), tag, tensor, shown, max_images=max_images, name=scope)

    return _recorded(name, tensor, family, make)


@public("contrib.summary.audio")
def audio(
    name: str, tensor: Any, sample_rate: Any, max_outputs: int, family: str | None = None, step: Any = None
) -> Any:
    """Write up to ``max_outputs`` clips of a batch ``[n, frames, channels]``; others as for :func:`scalar`."""

    def make(resource: Any, tag: str, scope: str) -> Operation:
        rate = convert.convert_to_tensor(sample_rate, dtypes.float32, "sample_rate")
        return build("WriteAudioSummary", resource, _step(step), tag, tensor, rate, max_outputs=max_outputs, name=scope)

    return _recorded(name, tensor, family, make)


@public("contrib.summary.generic")
def generic(name: str, tensor: Any, metadata: Any = None, family: str | None = None, step: Any = None) -> Any:
    """Write all of a tensor with a ``tf.SummaryMetadata`` (or its serialised form); others as for :func:`scalar`."""

    def make(resource: Any, tag: str, scope: str) -> Operation:
        data = metadata.SerializeToString() if isinstance(metadata, summary_pb2.SummaryMetadata) else metadata
        return build("WriteSummary", resource, _step(step), tensor, tag, b"" if data is None else data, name=scope)

    return _recorded(name, tensor, family, make)


def tagged(tag: str, tensor: Any, metadata: Any, step: Any) -> Any:
    """Write a tensor like :func:`generic`, under exactly this tag, wherever the op stands."""

    def make(resource: Any, _: str, scope: str) -> Operation:
        data = metadata.SerializeToString() if isinstance(metadata, summary_pb2.SummaryMetadata) else metadata
        return build("WriteSummary", resource, _step(step), tensor, tag, b"" if data is None else data, name=scope)

    return _recorded(tag, tensor, None, make)


@public("contrib.summary.graph")
def graph(param: Any, step: Any = None, name: str | None = None) -> Operation:
    """An op that writes a graph; ``param`` is a string tensor, a serialised GraphDef.

    Raises:
        TypeError: it is something else, which :func:`initialize` can write.
    """
    if _here.writer is None:
        return build("NoOp")
    if isinstance(param, (Graph, graph_pb2.GraphDef)):
        raise TypeError(
            errors.message(f"a {type(param).__name__}", "a string tensor", "tf.contrib.summary.initialize(graph=graph)")
        )
    return build("WriteGraphSummary", _here.writer._resource, _step(step), param, name=name)


@public("contrib.summary.import_event")
def import_event(tensor: Any, name: str | None = None) -> Operation:
    """An op that writes a serialised ``tf.Event`` as it is."""
    if _here.writer is None:
        return build("NoOp")
    return build("ImportEvent", _here.writer._resource, tensor, name=name)


@public("contrib.summary.flush")
def flush(writer: Any = None, name: str | None = None) -> Operation:
    """An op that waits until all events of a writer (the default one if None) are in the file."""
    chosen = _here.writer if writer is None else writer
    resource = getattr(chosen, "_resource", chosen)
    return build("NoOp") if resource is None else build("FlushSummaryWriter", resource, name=name)


# ------------------------------------------------------------------------------------------------------- what to run
@public("contrib.summary.all_summary_ops", "summary.all_v2_summary_ops")
def all_summary_ops() -> list[Any]:
    """What the functions above made in the default graph: fetch it with the training step."""
    return get_default_graph().get_collection(SUMMARIES)


@public("contrib.summary.summary_writer_initializer_op")
def summary_writer_initializer_op() -> list[Operation]:
    """Ops that open the files of all writers of the default graph."""
    return get_default_graph().get_collection(_INITIALIZERS)


@public("contrib.summary.initialize", "summary.initialize")
def initialize(graph: Any = None, session: Any = None) -> None:
    """Open the files of all writers of the default graph, and write ``graph`` if one is given.

    Args:
        graph: a ``tf.Graph`` or ``GraphDef`` to write to the default writer.
        session: the session; the default one if None.

    Raises:
        ValueError: there is no session. RuntimeError: there is no default writer for ``graph``.
    """
    initializers = summary_writer_initializer_op()
    if graph is not None and _here.writer is None:
        raise RuntimeError(
            "No default tf.contrib.summary.SummaryWriter found\n"
            + errors.message("a graph to write", "a default writer", "with writer.as_default(): ...")
        )
    for op in initializers:
        hooks.evaluate(op, None, op.graph, session)
    if graph is not None:
        definition = graph.as_graph_def(add_shapes=True) if isinstance(graph, Graph) else graph
        op = build("WriteGraphSummary", _here.writer._resource, np.int64(0), definition.SerializeToString())  # type: ignore[union-attr]
        hooks.evaluate(op, None, op.graph, session)
