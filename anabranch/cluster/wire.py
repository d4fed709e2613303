"""What tasks say to each other, as bytes: values, errors, and the few fields of a request.

Policy. A message is a header and the buffers that it describes. The header is JSON; the bytes of an array stand behind
it as they are in memory, so that nothing is copied twice, and an array that is read shares the memory of the message.
Nothing in a message is evaluated when it is read: no pickles. What travels are arrays of numbers and bools, strings,
and None. Large arrays may stand in memory that both sides see; then it is said where. An error travels as its class,
its text, and a record of its op.

Layout: the length of the header, the header, then each buffer at a multiple of 64 bytes.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.errors import OpError, OpRecord
from anabranch.core.values import dtypes

_LENGTH = struct.Struct("<Q")
_ALIGNED = 64


class Elsewhere(NamedTuple):
    """An array that stands in memory which both sides see; see :mod:`anabranch.cluster.shared_memory`."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    number: int
    descriptor: int
    size: int
    """Of the memory, in bytes."""


class Held(NamedTuple):
    """An array that stays at the task that has computed it; see :mod:`anabranch.cluster.deliveries`."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    address: str
    """Of the task; '' for the one that is told of it."""
    key: str


def encode(header: dict[str, Any], values: Sequence[Any] = ()) -> bytes:
    """A message.

    Raises:
        UnimplementedError: a value is not one that travels.
    """
    specs: list[Any] = []
    buffers: list[Any] = []
    for value in values:
        spec, parts = _spec(value)
        specs.append(spec)
        buffers += parts
    text = json.dumps([header, specs, [len(b) for b in buffers]], separators=(",", ":")).encode()
    pieces: list[Any] = [_LENGTH.pack(len(text)), text]
    at = _LENGTH.size + len(text)
    for buffer in buffers:
        pad = -at % _ALIGNED
        if pad:
            pieces.append(bytes(pad))
        pieces.append(buffer)
        at += pad + len(buffer)
    return b"".join(pieces)


def decode(message: bytes | memoryview) -> tuple[dict[str, Any], list[Any]]:
    """The header and the values of a message; arrays are read-only and share its memory.

    Raises:
        DataLossError: it is none.
    """
    try:
        (length,) = _LENGTH.unpack_from(message)
        at = _LENGTH.size + length
        view = memoryview(message)
        header, specs, sizes = json.loads(bytes(view[_LENGTH.size : at]))
        buffers = []
        for size in sizes:
            at += -at % _ALIGNED
            if at + size > len(view):
                raise ValueError("it ends too early")
            buffers.append(view[at : at + size])
            at += size
        rest = iter(buffers)
        return header, [_value(spec, rest) for spec in specs]
    except (ValueError, TypeError, KeyError, struct.error, StopIteration) as problem:
        raise errors.DataLossError(
            None,
            None,
            errors.message(
                f"a message of {len(message)} bytes that cannot be read ({problem})",
                "a message of another task of this cluster",
                "run the same version of anabranch in all tasks",
            ),
        ) from problem


def _spec(value: Any) -> tuple[Any, list[Any]]:
    """What describes a value, and its buffers."""
    if value is None:
        return None, []
    if isinstance(value, Elsewhere):
        name = dtypes.as_dtype(value.dtype).name
        return ["elsewhere", list(value.shape), name, value.number, value.descriptor, value.size], []
    if isinstance(value, Held):
        return ["held", list(value.shape), dtypes.as_dtype(value.dtype).name, value.address, value.key], []
    array = value if isinstance(value, np.ndarray) else np.asarray(value)
    if array.dtype == object or array.dtype.kind in "SU":
        texts = [item.encode() if isinstance(item, str) else item for item in array.ravel().tolist()]
        if all(isinstance(item, bytes) for item in texts):
            return ["string", list(array.shape), [len(item) for item in texts]], [b"".join(texts)]
        raise _immobile(value)
    dtype = dtypes.as_dtype(array.dtype)
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array)
    return [dtype.name, list(array.shape)], [array.reshape(-1).view(np.uint8).data if array.size else b""]


def _value(spec: Any, buffers: Any) -> Any:
    if spec is None:
        return None
    name, shape = spec[0], spec[1]
    if name == "elsewhere":
        return Elsewhere(np.dtype(dtypes.as_dtype(spec[2]).as_numpy_dtype), tuple(shape), *map(int, spec[3:]))
    if name == "held":
        return Held(np.dtype(dtypes.as_dtype(spec[2]).as_numpy_dtype), tuple(shape), str(spec[3]), str(spec[4]))
    buffer = next(buffers)
    if name == "string":
        texts = np.empty(len(spec[2]), object)
        at = 0
        for i, size in enumerate(spec[2]):
            texts[i] = bytes(buffer[at : at + size])
            at += size
        return texts.reshape(shape)
    dtype = np.dtype(dtypes.as_dtype(name).as_numpy_dtype)
    return np.frombuffer(buffer, dtype).reshape(shape) if len(buffer) else np.empty(shape, dtype)


def _immobile(value: Any) -> errors.UnimplementedError:
    return errors.UnimplementedError(
        None,
        None,
        errors.message(
            f"a {type(value).__name__} to be sent to another task",
            "an array of numbers, bools or strings",
            "one tf.device for the ops that make and use it",
        ),
    )


# ------------------------------------------------------------------------------------------------------------- errors
def error_fields(problem: BaseException) -> dict[str, Any]:
    """An error as fields of a header."""
    if not isinstance(problem, OpError):
        text = f"{type(problem).__name__}: {problem}"
        return {"code": errors.INTERNAL, "text": text, "op": None}
    return {"code": problem.error_code, "text": problem.message, "op": _record_fields(OpRecord.of(problem.op))}


def restored_error(fields: dict[str, Any]) -> OpError:
    """The error that fields of a header describe."""
    return errors.make_exception(None, _record(fields["op"]), fields["text"], fields["code"])


def _record_fields(record: OpRecord | None) -> Any:
    if record is None:
        return None
    inner = [_record_fields(record.original), _record_fields(record.within)]
    return [record.name, record.type, record.device, record.user_site, *inner]


def _record(fields: Any) -> OpRecord | None:
    if fields is None:
        return None
    name, kind, device, site, original, within = fields
    return OpRecord(name, kind, device, site, _record(original), _record(within))
