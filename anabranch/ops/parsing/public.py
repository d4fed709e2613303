"""``tf.parse_example`` and its kin: the functions that parse examples and strings.

Policy. A dictionary of feature descriptions becomes the arguments of one op, keys in alphabetical order. What the op
gives for a `SparseFeature`, indices and values in two features, is put together by :func:`sparse_merge`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.values import dtypes
from anabranch.ops.parsing.feature_specs import (
    FixedLenFeature,
    FixedLenSequenceFeature,
    Raw,
    SparseFeature,
    VarLenFeature,
    index_keys,
    raw_features,
)
from anabranch.ops.sparse.public_ids import sparse_merge

EXAMPLE_KINDS = (VarLenFeature, SparseFeature, FixedLenFeature, FixedLenSequenceFeature)
"""Kinds of features that an ``Example`` may have."""


def check_padding(features: Mapping[str, Any]) -> None:
    """ValueError for a sequence that must not be padded."""
    for key in sorted(features):
        feature = features[key]
        if isinstance(feature, FixedLenSequenceFeature) and not feature.allow_missing:
            raise ValueError(
                f"Unsupported: FixedLenSequenceFeature requires allow_missing to be True. (feature {key})\n"
                + errors.message(
                    f"feature {key!r} with allow_missing=False", "True: short rows are padded", "allow_missing=True"
                )
            )


def collected(features: Mapping[str, Any], raw: Raw, sparse: Sequence[SparseTensor], dense: Sequence[Tensor]) -> Any:
    """Tensors by key, SparseFeatures put together."""
    tensors: dict[str, Any] = dict(zip(raw.sparse_keys, sparse, strict=True))
    tensors.update(zip(raw.dense_keys, dense, strict=True))
    merged = {}
    for key in sorted(features):
        feature = features[key]
        if isinstance(feature, SparseFeature):
            ids: Any = [tensors[index_key] for index_key in index_keys(feature)]
            size: Any = feature.size if isinstance(feature.size, (list, tuple)) else [feature.size]
            merged[key] = sparse_merge(
                ids, tensors[feature.value_key], list(size), already_sorted=feature.already_sorted
            )
    for key in raw.sparse_keys:
        if key not in features:
            del tensors[key]
    tensors.update(merged)
    return tensors


def _sparse(parts: Sequence[Tensor], count: int) -> list[SparseTensor]:
    """Sparse tensors of all indices, all values, all shapes."""
    return [SparseTensor(parts[i], parts[count + i], parts[2 * count + i]) for i in range(count)]


def need_features(features: Any) -> None:
    """ValueError if there are none."""
    if not features:
        raise ValueError(
            f"Missing: features was {features}.\n"
            + errors.message(
                f"features={features!r}", "a dictionary from key to feature", "{'x': tf.FixedLenFeature([], tf.int64)}"
            )
        )


@public("parse_example", "io.parse_example")
def parse_example(
    serialized: Any, features: Mapping[str, Any], name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """Parse a vector of serialised ``Example`` messages.

    Args:
        serialized: string vector ``[batch]``.
        features: from key to ``FixedLenFeature``, ``VarLenFeature``, ``SparseFeature`` or ``FixedLenSequenceFeature``.
        name: name of the op.
        example_names: string vector ``[batch]`` of names that appear in errors.

    Returns:
        From key to tensor ``[batch, ...]`` or ``SparseTensor``.

    Raises:
        ValueError: wrong features. InvalidArgumentError (when it runs): an example lacks a required feature, or has
        values of another type or number.

    Example:
        >>> import anabranch as tf
        >>> example = tf.train.Example()
        >>> example.features.feature["age"].int64_list.value.append(29)
        >>> parsed = tf.parse_example([example.SerializeToString()], {"age": tf.FixedLenFeature([], tf.int64)})
        >>> with tf.Session() as session:
        ...     session.run(parsed)
        {'age': array([29])}
    """
    need_features(features)
    check_padding(features)
    raw = raw_features(features, EXAMPLE_KINDS)
    with name_scope(name, "ParseExample", [serialized, example_names]):
        names = convert.constant([], dtypes.string, [0], name="names") if example_names is None else example_names
        outputs = build(
            "ParseExample",
            serialized,
            names,
            [convert.constant(key, name="sparse_keys") for key in raw.sparse_keys],
            [convert.constant(key, name="dense_keys") for key in raw.dense_keys],
            raw.defaults(),
            sparse_types=raw.sparse_types,
            Tdense=raw.dense_types,
            dense_shapes=raw.dense_shapes,
            name=name,
        )
        outputs = _as_list(outputs)
        count = len(raw.sparse_keys)
        return collected(features, raw, _sparse(outputs, count), outputs[3 * count :])


def _as_list(outputs: Any) -> list[Tensor]:
    flat: list[Tensor] = []
    for item in outputs if isinstance(outputs, (list, tuple)) else [outputs]:
        flat.extend(item if isinstance(item, (list, tuple)) else [item])
    return flat


@public("parse_single_example", "io.parse_single_example")
def parse_single_example(
    serialized: Any, features: Mapping[str, Any], name: str | None = None, example_names: Any = None
) -> dict[str, Any]:
    """Parse one serialised ``Example``, a string scalar.

    Args:
        serialized: string scalar.
        features: as for :func:`parse_example`.
        name: name of the op.
        example_names: a string scalar, the name that appears in errors.

    Returns:
        From key to tensor or ``SparseTensor``, without a batch dimension.
    """
    need_features(features)
    check_padding(features)
    raw = raw_features(features, EXAMPLE_KINDS)
    with name_scope(name, "ParseSingleExample", [serialized, example_names]):
        serialized = convert.convert_to_tensor(serialized, dtypes.string, "serialized")
        count = len(raw.sparse_keys)
        if example_names is None:
            outputs = build(
                "ParseSingleExample",
                serialized,
                raw.defaults(),
                num_sparse=count,
                sparse_keys=raw.sparse_keys,
                dense_keys=raw.dense_keys,
                sparse_types=raw.sparse_types,
                Tdense=raw.dense_types,
                dense_shapes=raw.dense_shapes,
                name=name,
            )
        else:  # only this op takes names
            outputs = build(
                "ParseExampleV2",
                serialized,
                convert.convert_to_tensor(example_names, dtypes.string, "example_names"),
                _key_vector(raw.sparse_keys),
                _key_vector(raw.dense_keys),
                _key_vector([]),
                raw.defaults(),
                num_sparse=count,
                sparse_types=raw.sparse_types,
                ragged_value_types=[],
                ragged_split_types=[],
                dense_shapes=raw.dense_shapes,
                Tdense=raw.dense_types,
                name=name,
            )
        outputs = _as_list(outputs)
        return collected(features, raw, _sparse(outputs, count), outputs[3 * count :])


def _key_vector(keys: Sequence[str]) -> Tensor:
    return convert.constant(list(keys), dtypes.string, [len(keys)], name="keys")


class _Sequence(NamedTuple):
    context: Raw
    lists: Raw
    missing: list[str]


def _sequence(context_features: Any, sequence_features: Any) -> _Sequence:
    if not (context_features or sequence_features):
        raise ValueError(
            "Missing features.\n"
            + errors.message(
                "neither context_features nor sequence_features",
                "context_features, sequence_features, or both",
                "sequence_features={'x': ...}",
            )
        )
    context = raw_features(context_features or {}, (VarLenFeature, FixedLenFeature), "context feature")
    lists = raw_features(sequence_features or {}, (VarLenFeature, FixedLenSequenceFeature), "sequence feature")
    lists.dense_shapes = [raw[1:] for raw in lists.dense_shapes]
    for key in lists.dense_defaults:
        raise ValueError(
            errors.message(
                f"sequence feature {key!r} with a default_value",
                "no default_value: steps are never filled",
                "leave default_value out",
            )
        )
    missing = [key for key in lists.dense_keys if (sequence_features or {})[key].allow_missing]
    return _Sequence(context, lists, missing)


@public("parse_single_sequence_example", "io.parse_single_sequence_example")
def parse_single_sequence_example(
    serialized: Any,
    context_features: Any = None,
    sequence_features: Any = None,
    example_name: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Parse one serialised ``SequenceExample``.

    Args:
        serialized: string scalar.
        context_features: from key to ``FixedLenFeature`` or ``VarLenFeature``.
        sequence_features: from key to ``FixedLenSequenceFeature`` or ``VarLenFeature``.
        example_name: a string scalar, the name that appears in errors.
        name: name of the op.

    Returns:
        Two dictionaries: context tensors, and tensors ``[steps, ...]`` or ``SparseTensor`` of rank 2.
    """
    context, lists, missing = _sequence(context_features, sequence_features)
    with name_scope(name, "ParseSingleSequenceExample", [serialized, example_name]):
        outputs = build(
            "ParseSingleSequenceExample",
            serialized,
            _key_vector(missing),
            [convert.constant(key, name="context_sparse_keys") for key in context.sparse_keys],
            [convert.constant(key, name="context_dense_keys") for key in context.dense_keys],
            [convert.constant(key, name="feature_list_sparse_keys") for key in lists.sparse_keys],
            [convert.constant(key, name="feature_list_dense_keys") for key in lists.dense_keys],
            context.defaults(),
            "" if example_name is None else example_name,
            context_sparse_types=context.sparse_types,
            Tcontext_dense=context.dense_types,
            context_dense_shapes=context.dense_shapes,
            feature_list_dense_types=lists.dense_types,
            feature_list_sparse_types=lists.sparse_types,
            feature_list_dense_shapes=lists.dense_shapes,
            name=name,
        )
        flat = _as_list(outputs)
        sparse, dense, more = len(context.sparse_keys), len(context.dense_keys), len(lists.sparse_keys)
        rest = flat[3 * sparse + dense :]
        return (
            collected(context_features or {}, context, _sparse(flat, sparse), flat[3 * sparse : 3 * sparse + dense]),
            collected(sequence_features or {}, lists, _sparse(rest, more), rest[3 * more :]),
        )


@public("io.parse_sequence_example")
def parse_sequence_example(
    serialized: Any,
    context_features: Any = None,
    sequence_features: Any = None,
    example_names: Any = None,
    name: str | None = None,
) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    """Parse a vector of serialised ``SequenceExample`` messages.

    Args:
        serialized: string vector ``[batch]``.
        context_features, sequence_features, name: as for :func:`parse_single_sequence_example`.
        example_names: string vector ``[batch]`` of names that appear in errors.

    Returns:
        Three dictionaries: context tensors ``[batch, ...]``; tensors ``[batch, longest, ...]``, padded with zeros, or
        ``SparseTensor`` of rank 3; for each dense sequence feature the lengths ``[batch]``.
    """
    context, lists, missing = _sequence(context_features, sequence_features)
    with name_scope(name, "ParseSequenceExample", [serialized, example_names]):
        names = convert.constant([], dtypes.string, [0], name="names") if example_names is None else example_names
        outputs = build(
            "ParseSequenceExample",
            serialized,
            names,
            context.defaults(),
            feature_list_dense_missing_assumed_empty=missing,
            context_sparse_keys=context.sparse_keys,
            context_dense_keys=context.dense_keys,
            feature_list_sparse_keys=lists.sparse_keys,
            feature_list_dense_keys=lists.dense_keys,
            Ncontext_sparse=len(context.sparse_keys),
            Ncontext_dense=len(context.dense_keys),
            Nfeature_list_sparse=len(lists.sparse_keys),
            Nfeature_list_dense=len(lists.dense_keys),
            context_sparse_types=context.sparse_types,
            Tcontext_dense=context.dense_types,
            feature_list_dense_types=lists.dense_types,
            context_dense_shapes=context.dense_shapes,
            feature_list_sparse_types=lists.sparse_types,
            feature_list_dense_shapes=lists.dense_shapes,
            name=name,
        )
        flat = _as_list(outputs)
        sparse, dense, more = len(context.sparse_keys), len(context.dense_keys), len(lists.sparse_keys)
        rest = flat[3 * sparse + dense :]
        count = len(lists.dense_keys)
        values = rest[3 * more : 3 * more + count]
        return (
            collected(context_features or {}, context, _sparse(flat, sparse), flat[3 * sparse : 3 * sparse + dense]),
            collected(sequence_features or {}, lists, _sparse(rest, more), values),
            dict(zip(lists.dense_keys, rest[3 * more + count :], strict=True)),
        )


# ------------------------------------------------------------------------------------------------- strings to numbers
@public("decode_raw", "io.decode_raw")
def decoderaw_features(
    input_bytes: Any = None,
    out_type: Any = None,
    little_endian: bool = True,
    name: str | None = None,
    bytes: Any = None,
) -> Tensor:
    """The bytes of strings as numbers, in a new last dimension.

    Args:
        input_bytes: strings of one length (``bytes`` is the old name).
        out_type: dtype of the numbers.
        little_endian: their byte order.
        name: name of the op.
    """
    strings = input_bytes if input_bytes is not None else bytes
    if strings is None or out_type is None:
        raise ValueError(
            errors.message(
                "decode_raw without strings or out_type",
                "strings and the dtype of the numbers in them",
                "tf.decode_raw(x, tf.uint8)",
            )
        )
    return build("DecodeRaw", strings, out_type=out_type, little_endian=little_endian, name=name)


@public("decode_csv", "io.decode_csv")
def decode_csv(
    records: Any,
    record_defaults: Sequence[Any],
    field_delim: str = ",",
    use_quote_delim: bool = True,
    name: str | None = None,
    na_value: str = "",
    select_cols: Sequence[int] | None = None,
) -> list[Tensor]:
    """Columns of CSV records (RFC 4180): one tensor for each, of the records' shape.

    Args:
        records: strings, each one record.
        record_defaults: for each column its default, which also gives its dtype (float32, float64, int32, int64 or
            string); an empty vector or a dtype if it is required.
        field_delim: the character between fields.
        use_quote_delim: whether double quotes may surround a field.
        name: name of the op.
        na_value: another string that counts as missing.
        select_cols: indices of the columns to take, in order; all if None.

    Example:
        >>> import anabranch as tf
        >>> columns = tf.decode_csv(["1,a", "2,b"], [[0], [""]])
        >>> with tf.Session() as session:
        ...     session.run(columns[0])
        array([1, 2], dtype=int32)
    """
    defaults = [
        convert.constant([], item, [0]) if isinstance(item, (dtypes.DType, type)) else item for item in record_defaults
    ]
    if select_cols is not None and any(select_cols[i] >= select_cols[i + 1] for i in range(len(select_cols) - 1)):
        raise ValueError(
            "select_cols is not strictly increasing.\n"
            + errors.message(
                f"select_cols={list(select_cols)}", "increasing indices", f"select_cols={sorted(set(select_cols))}"
            )
        )
    if select_cols is not None and select_cols and select_cols[0] < 0:
        raise ValueError(
            "select_cols contains negative values.\n"
            + errors.message(f"select_cols={list(select_cols)}", "indices from 0 on", "count columns from the left")
        )
    if select_cols is not None and len(select_cols) != len(record_defaults):
        raise ValueError(
            "Length of select_cols and record_defaults do not match.\n"
            + errors.message(
                f"{len(select_cols)} columns, {len(record_defaults)} defaults",
                "one default for each selected column",
                "record_defaults=[[0.0], [''], ...], one for each column",
            )
        )
    columns = build(
        "DecodeCSV",
        records,
        defaults,
        field_delim=field_delim,
        use_quote_delim=use_quote_delim,
        na_value=na_value,
        select_cols=[] if select_cols is None else list(select_cols),
        name=name,
    )
    return _as_list(columns)


@public("io.decode_compressed", "decode_compressed")
def decode_compressed(bytes: Any, compression_type: str = "", name: str | None = None) -> Tensor:
    """Strings inflated; ``compression_type`` is ``"ZLIB"``, ``"GZIP"`` or ``""``."""
    return build("DecodeCompressed", bytes, compression_type=compression_type or "", name=name)


@public("decode_json_example", "io.decode_json_example")
def decode_json_example(json_examples: Any, name: str | None = None) -> Tensor:
    """Serialised ``Example`` messages of their JSON forms."""
    return build("DecodeJSONExample", json_examples, name=name)


@public("parse_tensor", "io.parse_tensor")
def parse_tensor(serialized: Any, out_type: Any, name: str | None = None) -> Tensor:
    """The tensor of a serialised ``TensorProto``, which must be of dtype ``out_type``."""
    return build("ParseTensor", serialized, out_type=out_type, name=name)


@public("serialize_tensor", "io.serialize_tensor")
def serialize_tensor(tensor: Any, name: str | None = None) -> Tensor:
    """A tensor as a serialised ``TensorProto``, a string scalar."""
    return build("SerializeTensor", tensor, name=name)
