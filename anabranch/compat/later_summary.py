"""``tf.compat.v2.summary``: version 2's summaries in graphs of version 1.

They are tensors with the metadata of the plugin that shows them. A summary is recorded by the default writer
(``writer.as_default()``), unless :func:`record_if` says otherwise, at a step that is given or was set. The operations
are in ``tf.summary.all_v2_summary_ops()``; ``writer.init()`` opens the file.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.builder import current_builder
from anabranch.core.protos import config_pb2, summary_pb2
from anabranch.eager import recording
from anabranch.summary import in_graph

_HOME = "compat.v2.summary."
for _name in ("SummaryWriter", "create_file_writer", "flush"):
    public(_HOME + _name)(getattr(in_graph, _name))


class _Here(threading.local):
    def __init__(self) -> None:
        self.record: Any = True
        self.graphs: Any = None
        """The graphs that a trace notes, if one has been begun."""
        self.profiles = False
        self.outdir: Any = None


_here = _Here()


@public(_HOME + "experimental.set_step")
def set_step(step: Any) -> None:
    """Set the step of summaries that are built without one: a number, tensor or variable."""
    in_graph._here.step = step


@public(_HOME + "experimental.get_step")
def get_step() -> Any:
    """The step that was set, or None."""
    return in_graph._here.step


@public(_HOME + "experimental.summary_scope")
@contextlib.contextmanager
def summary_scope(name: str | None, default_name: str = "summary", values: Any = None) -> Iterator[tuple[str, str]]:
    """The scope of a summary's ops; gives the summary's tag, which begins with the outer scopes, and the scope's name.

    Args:
        name: the summary's name; ``default_name`` if None.
        default_name: the name of the scope where ``name`` gives none.
        values: tensors that the summary is made of.
    """
    outer = current_builder().get_name_scope()
    tag = name or default_name
    with tf.name_scope(re.sub(r"[^A-Za-z0-9_.\\/\-]", "", tag).lstrip("_\\/-") or None, default_name, values) as scope:
        yield f"{outer}/{tag}" if outer else tag, scope


@public(_HOME + "should_record_summaries")
def should_record_summaries() -> Any:
    """Whether summaries that are built here are recorded: a bool, or a bool tensor."""
    return _here.record if in_graph._here.writer is not None else False


@public(_HOME + "record_if")
@contextlib.contextmanager
def record_if(condition: Any) -> Iterator[None]:
    """A block whose summaries are recorded if a condition holds: a bool, a bool tensor, or a function of such."""
    old = _here.record
    _here.record = condition() if callable(condition) else condition
    try:
        yield
    finally:
        _here.record = old


@public(_HOME + "create_noop_writer")
def create_noop_writer() -> Any:
    """A writer that records nothing."""
    return in_graph.create_file_writer(None)


@public(_HOME + "write")
def write(tag: str, tensor: Any, step: Any = None, metadata: Any = None, name: str | None = None) -> Any:
    """Write a tensor with a plugin's metadata; give a bool scalar: whether it was recorded.

    Args:
        tag: the summary's tag, taken as it is.
        tensor: the tensor, or a function that makes it, which is called if there is a writer.
        step: the step; the one that was set if None.
        metadata: a ``tf.SummaryMetadata``, or its serialised form.
        name: name scope.

    Raises:
        ValueError: there is no step.
    """
    if in_graph._here.writer is None:
        return tf.constant(False)
    step = in_graph._here.step if step is None else step
    if step is None:
        raise ValueError(
            "No step set. Please specify one either through the `step` argument or through "
            "tf.summary.experimental.set_step()\n"
            + errors.message(f"summary {tag!r} without step", "a step", "step=tf.train.get_or_create_global_step()")
        )
    with in_graph._recording(_here.record), tf.name_scope(name):
        return in_graph.tagged(tag, tensor() if callable(tensor) else tensor, metadata, step)


def _shown(plugin: str, name: str, description: str | None, step: Any, make: Callable[[], Any], kind: Any) -> Any:
    metadata = summary_pb2.SummaryMetadata(
        plugin_data=summary_pb2.SummaryMetadata.PluginData(plugin_name=plugin),
        summary_description=description or "",
        data_class=kind,
    )
    with summary_scope(name, f"{plugin}_summary", [step]) as (tag, _):
        return write(tag, make, step, metadata)


@public(_HOME + "scalar")
def scalar(name: str, data: Any, step: Any = None, description: str | None = None) -> Any:
    """Write a number."""

    def make() -> Any:
        value = tf.cast(data, tf.float32)
        value.shape.assert_has_rank(0)
        return value

    return _shown("scalars", name, description, step, make, summary_pb2.DATA_CLASS_SCALAR)


@public(_HOME + "text")
def text(name: str, data: Any, step: Any = None, description: str | None = None) -> Any:
    """Write strings, as Markdown."""
    return _shown(
        "text", name, description, step, lambda: tf.convert_to_tensor(data, tf.string), summary_pb2.DATA_CLASS_TENSOR
    )


@public(_HOME + "histogram")
def histogram(
    name: str, data: Any, step: Any = None, buckets: int | None = None, description: str | None = None
) -> Any:
    """Write a histogram: rows of left edge, right edge and count; 30 of them by default, one for equal values."""
    number = 30 if buckets is None else buckets

    def make() -> Any:
        values = tf.reshape(tf.cast(data, tf.float64), [-1])
        low, high = tf.reduce_min(values), tf.reduce_max(values)
        count = tf.cast(tf.size(values), tf.float64)

        def spread() -> Any:
            places = tf.minimum(tf.to_int32(tf.floor((values - low) / (high - low) * number)), number - 1)
            counts = tf.unsorted_segment_sum(tf.ones_like(values), places, number)
            edges = low + (high - low) * tf.constant(np.arange(number + 1) / number)
            return tf.stack([edges[:-1], edges[1:], counts], 1)

        def equal() -> Any:
            return tf.reshape(tf.stack([low - 0.5, low + 0.5, count]), [1, 3])

        empty = tf.zeros([0, 3], tf.float64)
        return tf.cond(count < 1, lambda: empty, lambda: tf.cond(high > low, spread, equal))

    return _shown("histograms", name, description, step, make, summary_pb2.DATA_CLASS_TENSOR)


@public(_HOME + "image")
def image(name: str, data: Any, step: Any = None, max_outputs: int = 3, description: str | None = None) -> Any:
    """Write up to ``max_outputs`` images ``[number, height, width, channels]``, as PNG files."""

    def make() -> Any:
        images = tf.image.convert_image_dtype(tf.convert_to_tensor(data), tf.uint8, saturate=True)[:max_outputs]
        files = tf.map_fn(tf.image.encode_png, images, tf.string)
        shape = tf.shape(images)
        return tf.concat([tf.as_string(tf.stack([shape[2], shape[1]])), files], 0)

    return _shown("images", name, description, step, make, summary_pb2.DATA_CLASS_BLOB_SEQUENCE)


@public(_HOME + "graph")
def graph(graph_data: Any) -> Any:
    """Write a graph: a ``tf.Graph``, or a GraphDef; gives whether there is a writer for it."""
    writer = in_graph._here.writer
    if writer is None:
        return tf.constant(False)
    definition = graph_data.as_graph_def(add_shapes=True) if isinstance(graph_data, tf.Graph) else graph_data
    with tf.control_dependencies([in_graph.graph(tf.constant(definition.SerializeToString()), step=0)]):
        return tf.constant(True)


def _refuse_tracing(given: str, instead: str) -> None:
    raise ValueError(errors.message(given, "a trace of graphs that was begun, one at a time", instead))


@public(_HOME + "trace_on")
def trace_on(graph: bool = True, profiler: bool = False, profiler_outdir: Any = None) -> None:
    """Note the graphs of functions that the thread calls from now on, until :func:`trace_export` or :func:`trace_off`.

    Args:
        graph: note graphs.
        profiler: record what XLA does, too: ``tf.profiler.experimental.start`` of ``profiler_outdir``.
        profiler_outdir: where that is saved; :func:`trace_export` may say it instead.

    Raises:
        ValueError: a trace was begun before.
    """
    if _here.graphs is not None:
        _refuse_tracing("trace_on() within a trace", "tf.summary.trace_off() before it")
    if profiler:
        tf.compat.v2.profiler.experimental.start(profiler_outdir or "")
    _here.profiles = profiler
    _here.outdir = profiler_outdir
    _here.graphs = recording.Graphs()
    if graph:
        recording.push(_here.graphs)


@public(_HOME + "trace_off")
def trace_off() -> None:
    """End the trace and forget what it has noted."""
    if _here.graphs is not None:
        recording.pop(_here.graphs)
        _here.graphs = None
        if _here.profiles:
            tf.compat.v2.profiler.experimental.stop(save=False)


@public(_HOME + "trace_export")
def trace_export(name: str, step: Any = None, profiler_outdir: Any = None) -> None:
    """Write what the trace has noted as a summary that TensorBoard's page of graphs shows, and end the trace.

    Args:
        name: the summary's tag.
        step: the step; the one that was set if None.
        profiler_outdir: where what XLA did is saved.

    Raises:
        ValueError: no trace was begun, or there is no step.
    """
    traced = _here.graphs
    if traced is None:
        _refuse_tracing("trace_export() without a trace", "tf.summary.trace_on() before it")
    recording.pop(traced)
    _here.graphs = None
    if _here.profiles:
        stop = tf.compat.v2.profiler.experimental.stop
        stop(save=True, logdir=profiler_outdir or _here.outdir)
    run = config_pb2.RunMetadata()
    for one in traced.graphs:
        definition = one.as_graph_def(add_shapes=True)
        run.function_graphs.add(pre_optimization_graph=definition, partition_graphs=[definition])
    content = summary_pb2.SummaryMetadata.PluginData(plugin_name="graph_run_metadata_graph", content=b"1")
    write(name, run.SerializeToString(), step, summary_pb2.SummaryMetadata(plugin_data=content))
