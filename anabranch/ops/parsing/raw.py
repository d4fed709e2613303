"""Ops that read values from strings: raw bytes, CSV, JSON, serialised tensors, compressed data."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from google.protobuf import json_format
from google.protobuf import message as protobuf

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.attrs import attr_bytes
from anabranch.core.contract.opdef import PURE, Bool, List, NotDifferentiable, Op, String, Type
from anabranch.core.protos import example_pb2, tensor_pb2
from anabranch.core.values import budgets, dtypes
from anabranch.core.values.stored_variant import StoredVariant, stored
from anabranch.core.values.tensor_proto import make_ndarray
from anabranch.ops.parsing.csv_records import Columns, InvalidRecord
from anabranch.ops.shared import row_rules
from anabranch.ops.summary.messages import content_proto, literal

_NO_GRADIENT = NotDifferentiable("it reads strings")


def _flat(strings: Any) -> list[bytes]:
    return list(np.asarray(strings, object).ravel())


def _like(shape: tuple[int, ...], items: Sequence[Any]) -> np.ndarray:
    array = np.empty(len(items), object)
    array[:] = items
    return array.reshape(shape)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")


# ----------------------------------------------------------------------------------------------------------- raw bytes
def _ordered(dtype: dtypes.DType, little_endian: bool) -> np.dtype:
    """The dtype in which the bytes stand; those that NumPy does not know are swapped afterwards."""
    assert dtype.np is not None
    return dtype.np if dtype.np.kind == "V" else dtype.np.newbyteorder("<" if little_endian else ">")


def _from_bytes(data: bytes, dtype: dtypes.DType, little_endian: bool) -> np.ndarray:
    assert dtype.np is not None
    if dtype.is_bool:
        return np.frombuffer(data, np.uint8) != 0
    if dtype is dtypes.bfloat16:  # which has no byte order of its own
        return np.frombuffer(data, "<u2" if little_endian else ">u2").astype(np.uint16).view(dtype.np)
    return np.frombuffer(data, _ordered(dtype, little_endian)).astype(dtype.np)


class DecodeRaw(Op):
    """The bytes of each string as a vector of numbers, in a new last dimension; all strings must have one length."""

    signature = "bytes: string -> output: out_type"
    attrs = {
        "out_type": Type("half float double int32 uint16 uint8 int16 int8 int64 complex64 complex128 bool bfloat16"),
        "little_endian": Bool(True),
    }
    effect = PURE
    by_rows = row_rules.as_it_is
    gradient = _NO_GRADIENT

    def shape(c):
        return None if c.shapes[0] is None else (*c.shapes[0], None)

    def bound(c):
        return None

    def host_kernel(ctx, inputs, attrs):
        (strings,) = inputs
        dtype = attrs["out_type"]
        shape = np.shape(strings)
        items = _flat(strings)
        width = dtype.np.itemsize
        if not items:
            return np.empty((*shape, 0), dtype.np)
        length = len(items[0])
        for i, item in enumerate(items):
            if len(item) != length:
                ctx.check(
                    False,
                    errors.InvalidArgumentError,
                    f"DecodeRaw requires input strings to all be the same size, but element {i} has size "
                    f"{length} != {len(item)}",
                )
        ctx.check(
            length % width == 0,
            errors.InvalidArgumentError,
            f"Input to DecodeRaw has length {length} that is not a multiple of {width}, the size of "
            f"{dtypes.proto_name(dtype)}",
        )
        numbers = _from_bytes(items[0] if len(items) == 1 else b"".join(items), dtype, attrs["little_endian"])
        return numbers.reshape(*shape, length // width)


class DecodePaddedRaw(Op):
    """The bytes of each string as a vector of ``fixed_length`` bytes of numbers: cut off, or filled with zeros."""

    signature = "input_bytes: string, fixed_length: int32 -> output: out_type"
    attrs = {
        "out_type": Type("half float double int32 uint16 uint8 int16 int8 int64 bfloat16"),
        "little_endian": Bool(True),
    }
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("fixed_length", 0)
        length = c.scalar("fixed_length")
        width = c.attrs["out_type"].np.itemsize
        if length is not None and (length <= 0 or length % width):
            raise ValueError(
                errors.message(
                    f"fixed_length = {length}", f"a positive multiple of {width} bytes", f"fixed_length={width}"
                )
            )
        batch = c.shape("input_bytes")
        return None if batch is None else (*batch, None if length is None else length // width)

    def bound(c):
        return None

    def host_kernel(ctx, inputs, attrs):
        strings, length = inputs
        dtype, length = attrs["out_type"], int(length)
        width = dtype.np.itemsize
        ctx.check(
            length > 0 and length % width == 0,
            errors.InvalidArgumentError,
            f"fixed_length ({length}) must be a positive multiple of the size of out_type ({width})",
        )
        data = b"".join([item[:length].ljust(length, b"\0") for item in _flat(strings)])
        return _from_bytes(data, dtype, attrs["little_endian"]).reshape(*np.shape(strings), length // width)


# ----------------------------------------------------------------------------------------------------------------- CSV
class DecodeCSV(Op):
    """Columns of CSV records: one tensor for each, of the records' shape.

    A field that is empty or ``na_value`` gets the column's default; an empty vector as default makes it required.
    """

    signature = "records: string, record_defaults: [OUT_TYPE] -> output: [OUT_TYPE]"
    attrs = {
        "OUT_TYPE": List("type", allowed="float double int32 int64 string", minimum=1),
        "field_delim": String(","),
        "use_quote_delim": Bool(True),
        "na_value": String(""),
        "select_cols": List("int", ()),
    }
    effect = PURE
    by_rows = row_rules.as_it_is
    gradient = _NO_GRADIENT

    def shape(c):
        for position in c.positions("record_defaults"):
            given = c.shapes[position]
            if given is not None and (len(given) > 1 or (given and given[0] not in (None, 0, 1))):
                raise ValueError(
                    "Shape of a default must be a length-0 or length-1 vector, or a scalar.\n"
                    + errors.message(
                        f"default {position - 1} of shape {list(given)}", "one value, or none", "[0.0] or []"
                    )
                )
        columns = c.attrs["select_cols"]
        if columns and (list(columns) != sorted(set(columns)) or columns[0] < 0):
            raise ValueError(
                "select_cols should be strictly increasing indices\n"
                + errors.message(
                    f"select_cols={list(columns)}", "indices from 0 on, in order", "select_cols=sorted(columns)"
                )
            )
        if columns and len(columns) != len(c.attrs["OUT_TYPE"]):
            raise ValueError(
                "select_cols should match output size\n"
                + errors.message(
                    f"{len(columns)} columns, {len(c.attrs['OUT_TYPE'])} defaults",
                    "one default for each selected column",
                    "record_defaults=[[0.0], [''], ...], one for each column",
                )
            )
        if len(c.attrs["field_delim"]) != 1:
            raise ValueError(
                "field_delim should be only 1 char\n"
                + errors.message(f"field_delim={c.attrs['field_delim']!r}", "one character", "field_delim=','")
            )
        return [c.shapes[0]] * len(c.attrs["OUT_TYPE"])

    def host_kernel(ctx, inputs, attrs):
        records, *defaults = inputs
        types = attrs["OUT_TYPE"]
        shape = np.shape(records)
        columns = Columns(
            types,
            defaults,
            attr_bytes(attrs["field_delim"]),
            attrs["use_quote_delim"],
            attr_bytes(attrs["na_value"]),
            attrs["select_cols"],
        )
        try:
            return [column.reshape(shape) for column in columns.of(_flat(records))]
        except InvalidRecord as problem:
            ctx.check(False, errors.InvalidArgumentError, literal(problem.told(f"record {problem.position}")))
            raise


# ---------------------------------------------------------------------------------------------------- JSON and tensors
class DecodeJSONExample(Op):
    """Each string, an ``Example`` in JSON, as a serialised ``Example``."""

    signature = "json_examples: string -> binary_examples: string"
    effect = PURE
    gradient = _NO_GRADIENT
    shape = inference.unchanged

    def host_kernel(ctx, inputs, attrs):
        outputs = []
        for item in _flat(inputs[0]):
            try:
                message = json_format.Parse(item, example_pb2.Example(), max_recursion_depth=50)
            except (json_format.ParseError, UnicodeDecodeError, ValueError, RecursionError) as problem:
                ctx.check(
                    False,
                    errors.InvalidArgumentError,
                    literal(f"Error while parsing JSON: {problem}: {_text(item)[:200]}"),
                )
                raise
            outputs.append(message.SerializeToString(deterministic=True))
        return _like(np.shape(inputs[0]), outputs)


class ParseTensor(Op):
    """The tensor that a serialised ``TensorProto`` holds, which must be of type ``out_type``."""

    signature = "serialized: string -> output: out_type"
    attrs = {"out_type": Type()}
    effect = PURE
    gradient = _NO_GRADIENT
    shape = inference.unknown

    def bound(c):
        return None

    def host_kernel(ctx, inputs, attrs):
        (data,) = inputs
        ctx.check(
            np.ndim(data) == 0,
            errors.InvalidArgumentError,
            f"Expected `serialized` to be a scalar, got shape: {list(np.shape(data))}",
        )
        try:
            proto = tensor_pb2.TensorProto.FromString(np.asarray(data, object)[()])
            array = _variant_of(proto) if proto.dtype == dtypes.variant.enum else make_ndarray(proto)
        except (protobuf.DecodeError, ValueError, TypeError) as problem:
            shown = _text(bytes(np.asarray(data, object)[()]))[:60]
            ctx.check(
                False,
                errors.InvalidArgumentError,
                literal(f"Could not parse `serialized` as TensorProto: {shown!r}: {problem}"),
            )
            raise
        given = dtypes.as_dtype(proto.dtype)
        ctx.check(
            given == attrs["out_type"],
            errors.InvalidArgumentError,
            f"Type mismatch between parsed tensor ({dtypes.proto_name(given)}) and dtype "
            f"({dtypes.proto_name(attrs['out_type'])})",
        )
        return array


class SerializeTensor(Op):
    """A tensor as a serialised ``TensorProto``."""

    signature = "tensor: T -> serialized: string"
    attrs = {"T": Type()}
    effect = PURE
    gradient = _NO_GRADIENT
    shape = inference.scalar

    def host_kernel(ctx, inputs, attrs):
        if attrs["T"] is dtypes.variant:
            return _like((), [_proto_of(ctx, inputs[0]).SerializeToString()])
        return _like((), [content_proto(np.asarray(inputs[0]), attrs["T"]).SerializeToString()])


def _variant_of(proto: tensor_pb2.TensorProto) -> Any:
    """The scalar variant that a message holds."""
    if proto.tensor_shape.dim or len(proto.variant_val) != 1:
        raise ValueError("a tensor of variants that is not a scalar")
    return StoredVariant(proto.variant_val[0])


def _proto_of(ctx: Any, value: Any) -> tensor_pb2.TensorProto:
    """A scalar variant as a message, if it can be stored: the place of an iterator."""
    variant = stored(value)
    ctx.check(
        variant is not None,
        errors.UnimplementedError,
        errors.message(
            f"a {type(value).__name__} as bytes",
            "the place of an iterator, or another variant that a checkpoint can hold",
            "tf.data.experimental.make_saveable_from_iterator(iterator)",
        ),
    )
    proto = tensor_pb2.TensorProto(dtype=dtypes.variant.enum)  # type: ignore[arg-type]  # as in tensor_proto
    proto.tensor_shape.SetInParent()
    if variant is not None:
        proto.variant_val.append(variant.proto)
    return proto


# ---------------------------------------------------------------------------------------------------------- compression
_COMPRESSIONS = {"": 0, "ZLIB": zlib.MAX_WBITS, "GZIP": zlib.MAX_WBITS + 16}


class DecodeCompressed(Op):
    """Each string inflated; ``compression_type`` is ``"ZLIB"``, ``"GZIP"`` or ``""`` for the string itself."""

    signature = "bytes: string -> output: string"
    attrs = {"compression_type": String("")}
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        if c.attrs["compression_type"] not in _COMPRESSIONS:
            raise ValueError(
                "Only ZLIB, GZIP or NONE are supported compressions\n"
                + errors.message(
                    f"compression_type={c.attrs['compression_type']!r}",
                    "'ZLIB', 'GZIP' or ''",
                    "compression_type='GZIP'",
                )
            )
        return c.shapes[0]

    def host_kernel(ctx, inputs, attrs):
        bits = _COMPRESSIONS[attrs["compression_type"]]
        if not bits:
            return inputs[0]
        outputs = []
        limit = left = budgets.most()
        for item in _flat(inputs[0]):
            unit = zlib.decompressobj(bits)
            try:
                data = unit.decompress(item, left + 1)
            except zlib.error as problem:
                ctx.check(False, errors.DataLossError, f"damaged compressed data: {problem}")
                raise
            left -= len(data)
            if left < 0:
                raise budgets.exceeded(limit - left, limit, f"compressed strings, the last of {len(item)} bytes")
            ctx.check(unit.eof or not item, errors.DataLossError, "the compressed data ends in its middle")
            outputs.append(data)
        return _like(np.shape(inputs[0]), outputs)
