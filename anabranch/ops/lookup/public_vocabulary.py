"""Vocabularies: tables from words to numbers and back, with buckets for words that are not in them."""

from __future__ import annotations

import collections
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.values import dtypes
from anabranch.ops.lookup.public_tables import (
    HashTable,
    KeyValueTensorInitializer,
    LookupInterface,
    StaticHashTable,
    TextFileIdTableInitializer,
    TextFileStringTableInitializer,
)
from anabranch.ops.lookup.table_files import LINE_NUMBER, WHOLE_LINE

_NO_WORDS = "mapping must be specified (vocabulary_list must be specified).\n" + errors.message(
    "mapping=None", "a list or vector of words", 'mapping=["a", "b"]'
)
_HASHES = {
    "fasthash": "StringToHashBucketFast",
    "stronghash": "StringToHashBucketStrong",
    "legacy": "StringToHashBucket",
}


@public("contrib.lookup.HasherSpec")
class HasherSpec(collections.namedtuple("HasherSpec", ["hasher", "key"])):
    """How words without an entry are put into buckets: ``hasher`` is ``"fasthash"``, ``"stronghash"`` or
    ``"legacy"``.
    """

    __slots__ = ()


FastHashSpec = public("contrib.lookup.FastHashSpec")(HasherSpec("fasthash", None))


@public("contrib.lookup.StrongHashSpec")
class StrongHashSpec(HasherSpec):
    """A hash that resists attacks, with a key of two integers (each below 2**64)."""

    __slots__ = ()

    def __new__(cls, key: Any) -> StrongHashSpec:
        if len(key) != 2:
            raise ValueError(f"key must have size 2, got {len(key)}.")
        if not all(isinstance(item, int) for item in key):
            raise TypeError(f"Invalid key {key}. Must be unsigned integer values.")
        return super().__new__(cls, "stronghash", list(key))


@public("contrib.lookup.IdTableWithHashBuckets")
class IdTableWithHashBuckets(LookupInterface):
    """Words to numbers: those of ``table`` to its numbers, others to ``num_oov_buckets`` numbers above them by hash.

    Args:
        table: table to int64, or None for hashes only.
        num_oov_buckets: number of buckets; 0 for none.
        hasher_spec: the hash.
        name: name of the ops.
        key_dtype: dtype of the words, string or an integer; that of the table if None.
    """

    def __init__(
        self,
        table: Any,
        num_oov_buckets: int,
        hasher_spec: Any = FastHashSpec,
        name: str | None = None,
        key_dtype: Any = None,
    ) -> None:
        if not isinstance(hasher_spec, HasherSpec):
            raise TypeError(f"hasher_spec must be of type HasherSpec, got {hasher_spec!r}")
        dtype_of_keys = dtypes.string if key_dtype is None else dtypes.as_dtype(key_dtype).base
        if dtype_of_keys is not dtypes.string and not dtype_of_keys.is_integer:
            raise TypeError(
                f"Invalid key_dtype, expected integer or string but got {dtype_of_keys}.\n"
                + errors.message(f"key_dtype={dtype_of_keys.name}", "an integer type or string", "key_dtype=tf.string")
            )
        if table is not None:
            dtype_of_keys = table.key_dtype if key_dtype is None else dtype_of_keys
            if table.key_dtype not in (dtypes.int64, dtypes.string):
                raise TypeError(f"Invalid key dtype for the table, expected int64 or string but got {table.key_dtype}.")
            if table.key_dtype.is_integer != dtype_of_keys.is_integer:
                raise TypeError(f"Invalid key dtype, expected {table.key_dtype.name} but got {dtype_of_keys.name}.")
            if table.value_dtype != dtypes.int64:
                raise TypeError(f"Invalid value dtype, expected int64 but got {table.value_dtype.name}.")
        elif num_oov_buckets <= 0:
            raise ValueError(f"oov_buckets must be > 0 if no table is supplied, got num_oov_buckets={num_oov_buckets}.")
        if num_oov_buckets < 0:
            raise ValueError(f"num_oov_buckets must be greater or equal than 0, got {num_oov_buckets}.")
        super().__init__(dtype_of_keys, dtypes.int64)
        self._table = table
        self._num_oov_buckets = num_oov_buckets
        self._hasher_spec = hasher_spec
        self._name = (name or "hash_bucket").rstrip("/").rpartition("/")[2]

    @property
    def name(self) -> str:
        """Name of the table."""
        return self._name

    @property
    def initializer(self) -> Operation:
        """The operation that fills the table; one without effect if there is none."""
        if self._table is not None:
            return self._table.initializer
        with name_scope(None, "init"):
            return build("NoOp")

    init = initializer

    @property
    def resource_handle(self) -> Tensor | None:
        """Handle of the table, or None."""
        return None if self._table is None else self._table.resource_handle

    def size(self, name: str | None = None) -> Tensor:
        with name_scope(name, f"{self.name}_Size"):
            buckets = convert_to_tensor(self._num_oov_buckets, dtypes.int64)
            return buckets if self._table is None else build("AddV2", self._table.size(), buckets)

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        keys_tensor = self._keys(keys)
        words = keys_tensor.values if isinstance(keys_tensor, SparseTensor) else keys_tensor
        with name_scope(name, f"{self.name}_Lookup", [words]):
            numbers = self._numbers(words)
        if isinstance(keys_tensor, SparseTensor):
            return SparseTensor(keys_tensor.indices, numbers, keys_tensor.dense_shape)
        return numbers

    def _numbers(self, words: Tensor) -> Tensor:
        if self._table is not None and self._table.key_dtype == dtypes.int64 and words.dtype.base != dtypes.int64:
            words = build("Cast", words, DstT=dtypes.int64)
        if not self._num_oov_buckets:
            return self._table.lookup(words)
        text = words if words.dtype.base == dtypes.string else build("AsString", words)
        kind = _HASHES.get(self._hasher_spec.hasher)
        if kind is None:
            raise ValueError(
                f"Unknown hasher {self._hasher_spec.hasher}\n"
                + errors.message(
                    f"the hasher {self._hasher_spec.hasher!r}", f"one of {', '.join(_HASHES)}", "FastHashSpec"
                )
            )
        extra = {"key": self._hasher_spec.key} if kind.endswith("Strong") else {}
        buckets = build(kind, text, num_buckets=self._num_oov_buckets, name="hash_bucket", **extra)
        if self._table is None:
            return buckets
        numbers = self._table.lookup(words)
        buckets = build("AddV2", buckets, self._table.size())
        return build("SelectV2", build("NotEqual", numbers, self._table.default_value), numbers, buckets)


@public("lookup.StaticVocabularyTable")
class StaticVocabularyTable(IdTableWithHashBuckets):
    """Words to numbers, given by ``initializer``; other words to ``num_oov_buckets`` numbers above them by hash.

    Args:
        initializer: fills a table from words to 0, 1, 2, ...; None for hashes only.
        num_oov_buckets: number of buckets, above 0.
        lookup_key_dtype: dtype of the words; that of the initializer if None.
        name: name of the ops.
    """

    def __init__(
        self, initializer: Any, num_oov_buckets: int, lookup_key_dtype: Any = None, name: str | None = None
    ) -> None:
        if num_oov_buckets <= 0:
            raise ValueError("oov_buckets must be > 0.")
        table = None if initializer is None else StaticHashTable(initializer, -1)
        super().__init__(table, num_oov_buckets, FastHashSpec, name, lookup_key_dtype)


# ---------------------------------------------------------------------------------------------------- words to numbers
def _word_dtype(dtype: Any) -> dtypes.DType:
    word_dtype = dtypes.as_dtype(dtype).base
    if not word_dtype.is_integer and word_dtype != dtypes.string:
        raise TypeError("Only integer and string keys are supported.")
    return word_dtype


def _check_file(vocabulary_file: Any, vocab_size: int | None, num_oov_buckets: int = 0) -> None:
    if vocabulary_file is None or (isinstance(vocabulary_file, (str, bytes)) and not vocabulary_file):
        raise ValueError("vocabulary_file must be specified and must not be empty.")
    if num_oov_buckets < 0:
        raise ValueError(f"num_oov_buckets must be greater or equal than 0, got {num_oov_buckets}.")
    if vocab_size is not None and vocab_size < 1:
        shown = "" if isinstance(vocabulary_file, Tensor) else f" vocabulary_file: {vocabulary_file}"
        raise ValueError(f"vocab_size must be greater than 0, got {vocab_size}.{shown}")


def _with_buckets(table: Any, count: int, spec: Any, dtype: dtypes.DType, scope: str) -> Any:
    if not count and dtype == table.key_dtype:
        return table
    return IdTableWithHashBuckets(table, count, spec, scope, dtype)


@public("contrib.lookup.index_table_from_file")
def index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: Any = FastHashSpec,
    key_dtype: Any = dtypes.string,
    name: str | None = None,
    key_column_index: int = WHOLE_LINE,
    value_column_index: int = LINE_NUMBER,
    delimiter: str = "\t",
) -> Any:
    """A table from the words of a file, one a line, to their line numbers.

    Args:
        vocabulary_file: the file, or a string tensor.
        num_oov_buckets: buckets above the vocabulary for other words; they get ``default_value`` if 0.
        vocab_size: number of lines to read, if not all.
        default_value: number of words without an entry, if there are no buckets.
        hasher_spec: hash of the buckets.
        key_dtype: dtype of the words, string or an integer.
        name: name of the ops.
        key_column_index, value_column_index: parts of a line, as `TextFileIndex` says.
        delimiter: character between columns.

    The table must be filled before use: `tf.tables_initializer`.
    """
    _check_file(vocabulary_file, vocab_size, num_oov_buckets)
    dtype = _word_dtype(key_dtype)
    with name_scope(name, "string_to_index") as scope:
        initializer = TextFileIdTableInitializer(
            vocabulary_file,
            key_column_index=key_column_index,
            value_column_index=value_column_index,
            vocab_size=vocab_size,
            delimiter=delimiter,
            name="table_init",
            key_dtype=dtypes.int64 if dtype.is_integer else dtype,
        )
        with name_scope(None, "hash_table"):
            table = HashTable(initializer, default_value, shared_name=initializer._shared_name)
        return _with_buckets(table, num_oov_buckets, hasher_spec, dtype, scope)


@public("contrib.lookup.index_table_from_tensor")
def index_table_from_tensor(
    mapping: Any = None,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = FastHashSpec,
    dtype: Any = dtypes.string,
    name: str | None = None,
    *,
    vocabulary_list: Any = None,
) -> Any:
    """A table from the words ``mapping`` ``[n]`` to their positions; arguments as for `index_table_from_file`."""
    words = mapping if mapping is not None else vocabulary_list
    if words is None:
        raise ValueError(_NO_WORDS)
    if num_oov_buckets < 0:
        raise ValueError(f"num_oov_buckets must be greater or equal than 0, got {num_oov_buckets}.")
    wanted = _word_dtype(dtype)
    with name_scope(name, "string_to_index") as scope:
        keys = convert_to_tensor(words)
        if keys.dtype.is_integer != wanted.is_integer or (not wanted.is_integer and keys.dtype.base != wanted):
            raise ValueError(
                f"Expected {'integer' if wanted.is_integer else 'non-integer' if keys.dtype.is_integer else wanted}, "
                f"got {keys.dtype}.\n"
                + errors.message(f"words of {keys.dtype.name}", wanted.name, f"dtype=tf.{keys.dtype.base.name}")
            )
        count = build("Size", keys)
        values = build("Cast", build("Range", 0, count, 1), DstT=dtypes.int64)
        with name_scope(None, "hash_table"):
            own = build("Cast", keys, DstT=dtypes.int64) if keys.dtype.is_integer else keys
            table = HashTable(KeyValueTensorInitializer(own, values, name="table_init"), default_value)
        return _with_buckets(table, num_oov_buckets, hasher_spec, wanted, scope)


# ---------------------------------------------------------------------------------------------------- numbers to words
@public("contrib.lookup.index_to_string_table_from_file")
def index_to_string_table_from_file(
    vocabulary_file: Any,
    vocab_size: int | None = None,
    default_value: Any = "UNK",
    name: str | None = None,
    key_column_index: int = LINE_NUMBER,
    value_column_index: int = WHOLE_LINE,
    delimiter: str = "\t",
) -> HashTable:
    """A table from line numbers to the words of a file, one a line; arguments as for `index_table_from_file`."""
    _check_file(vocabulary_file, vocab_size)
    with name_scope(name, "index_to_string"):
        initializer = TextFileStringTableInitializer(
            vocabulary_file, key_column_index, value_column_index, vocab_size, delimiter, "table_init"
        )
        return HashTable(initializer, default_value, shared_name=initializer._shared_name)


@public("contrib.lookup.index_to_string_table_from_tensor")
def index_to_string_table_from_tensor(
    mapping: Any = None, default_value: Any = "UNK", name: str | None = None, *, vocabulary_list: Any = None
) -> HashTable:
    """A table from positions to the words ``mapping`` ``[n]``."""
    given = mapping if mapping is not None else vocabulary_list
    if given is None:
        raise ValueError(_NO_WORDS)
    with name_scope(name, "index_to_string"):
        words = convert_to_tensor(given, dtypes.string)
        keys = build("Cast", build("Range", 0, build("Size", words), 1), DstT=dtypes.int64)
        return HashTable(KeyValueTensorInitializer(keys, words, name="table_init"), default_value)


@public("contrib.lookup.string_to_index_table_from_file")
def string_to_index_table_from_file(
    vocabulary_file: Any = None,
    num_oov_buckets: int = 0,
    vocab_size: int | None = None,
    default_value: int = -1,
    hasher_spec: Any = FastHashSpec,
    name: str | None = None,
) -> Any:
    """Old name of `index_table_from_file`."""
    return index_table_from_file(
        vocabulary_file, num_oov_buckets, vocab_size, default_value, hasher_spec, dtypes.string, name
    )


@public("contrib.lookup.string_to_index_table_from_tensor")
def string_to_index_table_from_tensor(
    mapping: Any,
    num_oov_buckets: int = 0,
    default_value: int = -1,
    hasher_spec: Any = FastHashSpec,
    name: str | None = None,
) -> Any:
    """Old name of `index_table_from_tensor`."""
    return index_table_from_tensor(mapping, num_oov_buckets, default_value, hasher_spec, dtypes.string, name)


@public("contrib.lookup.string_to_index")
def string_to_index(tensor: Any, mapping: Any, default_value: int = -1, name: str | None = None) -> Any:
    """Positions in ``mapping`` ``[n]`` of the words in ``tensor``."""
    return index_table_from_tensor(mapping, default_value=default_value, name=name).lookup(tensor)


@public("contrib.lookup.index_to_string")
def index_to_string(tensor: Any, mapping: Any, default_value: Any = "UNK", name: str | None = None) -> Any:
    """The words in ``mapping`` ``[n]`` at the positions ``tensor``, int64."""
    return index_to_string_table_from_tensor(mapping, default_value, name).lookup(tensor)


__all__ = [
    "FastHashSpec",
    "HasherSpec",
    "IdTableWithHashBuckets",
    "StaticVocabularyTable",
    "StrongHashSpec",
    "index_table_from_file",
    "index_table_from_tensor",
    "index_to_string",
    "index_to_string_table_from_file",
    "index_to_string_table_from_tensor",
    "string_to_index",
    "string_to_index_table_from_file",
    "string_to_index_table_from_tensor",
]
