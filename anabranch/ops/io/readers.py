"""Reader ops. What a reader does is written in ``reader_objects.py``; these ops reach it by its handle.

Each op type exists twice: with references to string tensors as handles (the old form) and, with the suffix ``V2``,
with resources. All are channel ops, on the reader and on the queue that it takes its units of work from.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.inference import RawShape, ShapeContext
from anabranch.core.contract.kernels import of_kind
from anabranch.core.contract.opdef import PURE, Int, NotDifferentiable, Op, String, channel, define
from anabranch.core.values import shapes
from anabranch.ops.io.reader_objects import KINDS, Reader
from anabranch.ops.queues.queue_objects import Queue

_NO_GRADIENT = NotDifferentiable("records are read from files")


# ---------------------------------------------------------------------------------------------------------- the makers
def _create(kind: str) -> Any:
    def create(attrs: dict[str, Any], name: str) -> Reader:
        return KINDS[kind](attrs["shared_name"] or name, attrs)

    return create


_SHARED: dict[str, Any] = {"container": String(""), "shared_name": String("")}
_LENGTHS = {"header_bytes": Int(0), "record_bytes": Int(), "footer_bytes": Int(0), "hop_bytes": Int(0), **_SHARED}
_LINES: dict[str, Any] = {"skip_header_lines": Int(0), **_SHARED}
_RECORDS: dict[str, Any] = {**_SHARED, "compression_type": String("")}

# name, kind, attributes, what it makes
_MAKERS: tuple[tuple[str, str, dict[str, Any], str], ...] = (
    ("FixedLengthRecordReader", "FixedLengthRecordReader", _LENGTHS, "A reader of files of records of one length."),
    ("FixedLengthRecordReaderV2", "FixedLengthRecordReader", {**_LENGTHS, "encoding": String("")},
     "A reader of (compressed) files of records of one length."),
    ("IdentityReader", "IdentityReader", _SHARED, "A reader that gives each unit of work as key and value."),
    ("IdentityReaderV2", "IdentityReader", _SHARED, "A reader that gives each unit of work as key and value."),
    ("LMDBReader", "LMDBReader", _SHARED, "A reader of keys and values of LMDB databases."),
    ("TextLineReader", "TextLineReader", _LINES, "A reader of the lines of text files."),
    ("TextLineReaderV2", "TextLineReader", _LINES, "A reader of the lines of text files."),
    ("TFRecordReader", "TFRecordReader", _RECORDS, "A reader of TFRecord files, plain or compressed."),
    ("TFRecordReaderV2", "TFRecordReader", _RECORDS, "A reader of TFRecord files, plain or compressed."),
    ("WholeFileReader", "WholeFileReader", _SHARED, "A reader that gives each file as one record."),
    ("WholeFileReaderV2", "WholeFileReader", _SHARED, "A reader that gives each file as one record."),
)  # fmt: skip

for _name, _kind, _attrs, _doc in _MAKERS:
    _new = _name.endswith("V2")
    define(
        _name,
        _doc,
        signature=f"-> reader_handle: {'resource' if _new else 'Ref(string)'}",
        attrs=_attrs,
        effect=PURE,
        makes="reader",
        create=_create(_kind),
        shape=(lambda c: ()) if _new else (lambda c: (2,)),
        gradient=_NO_GRADIENT,
    )


class FakeQueue(Op):
    """The handle of a queue in the old form, which old reader ops take."""

    signature = "resource: resource -> handle: Ref(string)"
    effect = PURE
    passes = "resource"
    gradient = _NO_GRADIENT

    def shape(c):
        return (None,)

    def host_kernel(ctx, inputs, attrs):
        return [inputs[0]]


# ------------------------------------------------------------------------------------------------------------- the ops
def _reader(ctx: Any, handle: Any) -> Reader:
    reader: Reader = of_kind(ctx, ctx.resource(handle), Reader, "a reader")
    return reader


def _units(ctx: Any, handle: Any) -> Any:
    """What takes a unit of work from the queue behind a handle."""
    queue: Queue = of_kind(ctx, ctx.resource(handle), Queue, "a queue")

    def take() -> bytes:
        row = queue.dequeue(ctx.cancellation, ctx.op)
        ctx.check(len(row) == 1, errors.InvalidArgumentError, "Expected single component queue")
        unit = np.asarray(row[0])
        ctx.check(unit.dtype == object, errors.InvalidArgumentError, "Expected queue with single string component")
        ctx.check(unit.size == 1, errors.InvalidArgumentError, "Expected to dequeue a one-element string tensor")
        return bytes(unit.item())

    return take


def _scalar(text: bytes) -> np.ndarray:
    array = np.empty((), object)
    array[()] = text
    return array


def _vector(texts: list[bytes]) -> np.ndarray:
    array = np.empty(len(texts), object)
    array[:] = texts
    return array


def _read(ctx, inputs, attrs):
    key, value = _reader(ctx, inputs[0]).read(_units(ctx, inputs[1]), ctx.cancellation, ctx.op)
    return _scalar(key), _scalar(value)


def _read_up_to(ctx, inputs, attrs):
    count = int(inputs[2])
    ctx.check(count >= 0, errors.InvalidArgumentError, f"num_records must be >= 0 not {count}")
    records = _reader(ctx, inputs[0]).read_up_to(count, _units(ctx, inputs[1]), ctx.cancellation, ctx.op)
    return _vector([key for key, _ in records]), _vector([value for _, value in records])


def _records_produced(ctx, inputs, attrs):
    return np.array(_reader(ctx, inputs[0]).records_produced, np.int64)


def _units_completed(ctx, inputs, attrs):
    return np.array(_reader(ctx, inputs[0]).units_completed, np.int64)


def _serialize(ctx, inputs, attrs):
    return _scalar(_reader(ctx, inputs[0]).serialize(ctx.op))


def _restore(ctx, inputs, attrs):
    state = np.asarray(inputs[1], object)
    _reader(ctx, inputs[0]).restore(state.reshape(())[()], ctx.op)


def _reset(ctx, inputs, attrs):
    _reader(ctx, inputs[0]).reset(ctx.cancellation, ctx.op)


def _handles_given(c: ShapeContext) -> None:
    """Handles of the old form are vectors of two strings, those of the new one scalars."""
    for spec, shape in zip(c.definition.inputs, c.shapes, strict=True):
        if spec.name.endswith("_handle") and not shapes.is_compatible(shape, (2,) if spec.is_ref else ()):
            raise ValueError(
                errors.message(f"{spec.name} of shape {shapes.show(shape)}", "the handle itself", "queue.queue_ref")
            )


def _record_shape(c: ShapeContext) -> list[RawShape]:
    _handles_given(c)
    return [(), ()]


def _records_shape(c: ShapeContext) -> list[RawShape]:
    _handles_given(c)
    c.with_rank("num_records", 0)
    return [(None,), (None,)]


def _scalar_shape(c: ShapeContext) -> RawShape:
    _handles_given(c)
    return ()


def _restore_shape(c: ShapeContext) -> list[RawShape]:
    _handles_given(c)
    c.with_rank("state", 0)
    return []


# name, inputs after the reader's handle and outputs, shape rule, kernel, whether it may wait, what it does
_OPS: tuple[tuple[str, str, Any, Any, bool, str], ...] = (
    ("ReaderRead", "queue_handle: HANDLE -> key: string, value: string", _record_shape, _read, True,
     "The next record of a reader, which takes a unit of work from the queue when it needs one; two scalars."),
    ("ReaderReadUpTo", "queue_handle: HANDLE, num_records: int64 -> keys: string, values: string",
     _records_shape, _read_up_to, True, "The next records of a reader, at most ``num_records``; two vectors."),
    ("ReaderNumRecordsProduced", "-> records_produced: int64", _scalar_shape, _records_produced, False,
     "How many records a reader has given; a scalar."),
    ("ReaderNumWorkUnitsCompleted", "-> units_completed: int64", _scalar_shape, _units_completed, False,
     "How many units of work a reader has come to the end of; a scalar."),
    ("ReaderSerializeState", "-> state: string", _scalar_shape, _serialize, False,
     "The state of a reader as a string scalar; UnimplementedError for a reader that holds a place in a file."),
    ("ReaderRestoreState", "state: string ->", _restore_shape, _restore, False,
     "Takes a reader back to a state that ReaderSerializeState gave."),
    ("ReaderReset", "->", inference.no_outputs, _reset, True, "Takes a reader back to its start."),
)  # fmt: skip

for _name, _rest, _shape, _kernel, _waits, _doc in _OPS:
    for _suffix in ("", "V2"):
        _handle = "resource" if _suffix else "Ref(string)"
        _comma = "" if _rest.startswith("->") else ","
        _on = ("reader_handle", "queue_handle") if "queue_handle" in _rest else ("reader_handle",)
        define(
            _name + _suffix,
            _doc,
            signature=f"reader_handle: {_handle}{_comma} {_rest.replace('HANDLE', _handle)}",
            effect=channel(*_on),
            shape=_shape,
            host_kernel=_kernel,
            may_block=_waits,
            passable=_waits,
            gradient=_NO_GRADIENT,
        )
