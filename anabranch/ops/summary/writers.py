"""Ops that write summaries to an event file when they run, behind a handle: `tf.contrib.summary`.

Policy. The file is a channel: what a step wrote before it failed stays written. A writer's file is opened by
``CreateSummaryFileWriter``, once; writing before that is an error that says so. Closing the session closes the file.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import hooks, inference
from anabranch.core.contract.kernels import of_kind
from anabranch.core.contract.opdef import PURE, Int, NotDifferentiable, Op, String, Type, channel, define
from anabranch.core.protos import event_pb2, summary_pb2
from anabranch.ops.summary.messages import (
    REAL,
    audio_summary,
    check_finite,
    histogram_summary,
    image_summary,
    one_tag,
    parsed,
    scalar_bytes,
    tensor_value,
)

_NO_GRADIENT = NotDifferentiable("it has no outputs")


class Writer:
    """What a handle of ``SummaryWriter`` points to: an event file, once it is opened."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._lock = threading.Lock()
        self._events: Any = None
        self._max_queue = 0
        self._waiting = 0
        """How many events may not be in the file yet."""

    def open(self, logdir: str, max_queue: int, flush_millis: int, suffix: str) -> None:
        """Open a new file in ``logdir``; without effect on an open one."""
        with self._lock:
            if self._events is None:
                self._events = hooks.event_writer(logdir, max_queue, flush_millis / 1000, suffix)
                self._events.flush()
                self._max_queue, self._waiting = max_queue, 0

    def add(self, event: Any, op: Any) -> None:
        """Add an event; wait until all are in the file once more than ``max_queue`` may not be."""
        events = self.events(op)
        events.add_event(event)
        with self._lock:
            self._waiting += 1
            full = self._waiting > self._max_queue
            self._waiting = 0 if full else self._waiting
        if full:
            events.flush()

    def events(self, op: Any) -> Any:
        """The open file; FailedPreconditionError if there is none."""
        if self._events is None:
            raise errors.FailedPreconditionError(
                None,
                op,
                errors.message(
                    f"an event for the summary writer {self.name!r}, which has no file yet",
                    "an initialised writer",
                    "session.run(tf.contrib.summary.summary_writer_initializer_op()) first",
                ),
            )
        return self._events

    def shutdown(self) -> None:
        """Write what waits and close the file."""
        with self._lock:
            events, self._events = self._events, None
        if events is not None:
            events.close()


class SummaryWriter(Op):
    """A handle to a writer of summaries, which has no file yet."""

    signature = "-> writer: resource"
    attrs = {"shared_name": String(""), "container": String("")}
    effect = PURE
    makes = "summary_writer"
    gradient = NotDifferentiable("a handle has no gradient")
    shape = inference.scalar

    def create(attrs, name):
        return Writer(attrs["shared_name"] or name)


def _text(value: Any) -> str:
    text = np.asarray(value, object)[()]
    return text.decode() if isinstance(text, bytes) else str(text)


_SCALARS = ("step", "tag", "sample_rate", "logdir", "max_queue", "flush_millis", "filename_suffix")


def _action(name: str, doc: str, inputs: str, act: Callable[..., Any], **attrs: Any) -> None:
    def host_kernel(ctx, values, given):
        act(ctx, of_kind(ctx, ctx.resource(values[0]), Writer, "a summary writer"), values[1:], given)

    define(
        name,
        doc,
        signature=f"writer: resource{inputs} ->",
        attrs=attrs,
        effect=channel("writer"),
        ranks={operand: 0 for operand in re.findall(r"(\w+):", inputs) if operand in _SCALARS},
        shape=inference.no_outputs,
        host_kernel=host_kernel,
        gradient=_NO_GRADIENT,
    )


def _open(ctx, writer, values, attrs):
    logdir, max_queue, flush_millis, suffix = values
    writer.open(_text(logdir), int(max_queue), int(flush_millis), _text(suffix))


def _close(ctx, writer, values, attrs):
    writer.shutdown()


def _flush(ctx, writer, values, attrs):
    writer.events(ctx.op).flush()


def _add(ctx: Any, writer: Writer, step: Any, **what: Any) -> None:
    writer.add(event_pb2.Event(wall_time=time.time(), step=int(step), **what), ctx.op)


def _scalar(ctx, writer, values, attrs):
    step, tag, value = values
    ctx.check(np.ndim(value) == 0, errors.InvalidArgumentError, f"value must be a scalar, not {list(np.shape(value))}")
    summary = summary_pb2.Summary()
    summary.value.add(tag=one_tag(ctx, tag), simple_value=float(np.asarray(value).astype(np.float32)))
    _add(ctx, writer, step, summary=summary)


def _histogram(ctx, writer, values, attrs):
    check_finite(ctx, values[2])
    _add(ctx, writer, values[0], summary=histogram_summary(ctx, values[1], values[2]))


def _image(ctx, writer, values, attrs):
    step, tag, tensor, bad_color = values
    _add(ctx, writer, step, summary=image_summary(ctx, tag, tensor, bad_color, attrs["max_images"]))


def _audio(ctx, writer, values, attrs):
    step, tag, tensor, rate = values
    _add(ctx, writer, step, summary=audio_summary(ctx, tag, tensor, float(rate), attrs["max_outputs"]))


def _tensor(ctx, writer, values, attrs):
    step, tensor, tag, metadata = values
    summary = summary_pb2.Summary()
    summary.value.append(tensor_value(ctx, tag, tensor, attrs["T"], metadata))
    _add(ctx, writer, step, summary=summary)


def _whole(ctx, writer, values, attrs):
    step, data = values
    _add(ctx, writer, step, summary=parsed(ctx, data, summary_pb2.Summary, "the summary"))


def _graph(ctx, writer, values, attrs):
    _add(ctx, writer, values[0], graph_def=scalar_bytes(values[1]))


def _event(ctx, writer, values, attrs):
    writer.add(parsed(ctx, values[0], event_pb2.Event, "the event"), ctx.op)


_action(
    "CreateSummaryFileWriter",
    "Opens an event file in ``logdir`` for a writer; without effect if it has one.",
    ", logdir: string, max_queue: int32, flush_millis: int32, filename_suffix: string",
    _open,
)
_action("CloseSummaryWriter", "Writes what waits and closes the writer's file.", "", _close)
_action("FlushSummaryWriter", "Waits until all events are in the file.", "", _flush)
_action(
    "WriteScalarSummary",
    "Writes a summary with one number.",
    ", step: int64, tag: string, value: T",
    _scalar,
    T=Type(REAL),
)
_action(
    "WriteHistogramSummary",
    "Writes a summary with the histogram of ``values``, which must be finite.",
    ", step: int64, tag: string, values: T",
    _histogram,
    T=Type(f"{REAL} bool", "float"),
)
_action(
    "WriteImageSummary",
    "Writes a summary with up to ``max_images`` images of a batch.",
    ", step: int64, tag: string, tensor: T, bad_color: uint8",
    _image,
    max_images=Int(3, 1),
    T=Type("uint8 float half double", "float"),
)
_action(
    "WriteAudioSummary",
    "Writes a summary with up to ``max_outputs`` clips of a batch.",
    ", step: int64, tag: string, tensor: float, sample_rate: float",
    _audio,
    max_outputs=Int(3, 1),
)
_action(
    "WriteSummary",
    "Writes a summary with all of a tensor and the metadata that say which plugin shows it.",
    ", step: int64, tensor: T, tag: string, summary_metadata: string",
    _tensor,
    T=Type(),
)
_action("WriteRawProtoSummary", "Writes a serialised summary.", ", step: int64, tensor: string", _whole)
_action("WriteGraphSummary", "Writes a serialised GraphDef.", ", step: int64, tensor: string", _graph)
_action("ImportEvent", "Writes a serialised event as it is.", ", event: string", _event)
