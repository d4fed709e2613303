"""Tables from keys to values: `tf.lookup.*`, the tables of `tf.contrib.lookup`, `tf.tables_initializer`.

A table object is the graph's side of a table: it makes the ops; the entries are state of the session. A table that is
filled once registers the op that fills it in the collection ``TABLE_INITIALIZERS``, which `tf.tables_initializer`
runs. Vocabularies (`index_table_from_file` and its kin) stand in :mod:`anabranch.ops.lookup.public_vocabulary`.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.graph.static_value import constant_value
from anabranch.core.values import dtypes
from anabranch.ops.control.public_dependencies import group
from anabranch.ops.lookup.table_files import LINE_NUMBER, WHOLE_LINE


@public("tables_initializer", "initializers.tables_initializer", "initializers.tables")
def tables_initializer(name: str = "init_all_tables") -> Operation:
    """An operation that fills all tables of the graph, those that are filled once."""
    initializers = current_builder().get_collection(GraphKeys.TABLE_INITIALIZERS)
    return group(*initializers, name=name)


@public("initialize_all_tables")
def initialize_all_tables(name: str = "init_all_tables") -> Operation:
    """Old name of `tf.tables_initializer`."""
    return tables_initializer(name)


# ----------------------------------------------------------------------------------------------------------- contents
@public("lookup.TextFileIndex", "contrib.lookup.TextFileIndex")
class TextFileIndex:
    """Which part of a line is a key or a value: ``WHOLE_LINE``, ``LINE_NUMBER`` or the number of a column."""

    WHOLE_LINE = WHOLE_LINE
    LINE_NUMBER = LINE_NUMBER


@public("contrib.lookup.TableInitializerBase")
class TableInitializerBase:
    """What fills a table; base of the initializers."""

    def __init__(self, key_dtype: Any, value_dtype: Any) -> None:
        self._key_dtype = dtypes.as_dtype(key_dtype).base
        self._value_dtype = dtypes.as_dtype(value_dtype).base

    @property
    def key_dtype(self) -> dtypes.DType:
        """Dtype of the keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> dtypes.DType:
        """Dtype of the values."""
        return self._value_dtype

    def initialize(self, table: Any) -> Operation:
        """The operation that fills ``table``."""
        raise NotImplementedError

    def _check(self, table: Any) -> None:
        for what, own, other in (
            ("key", self.key_dtype, table.key_dtype),
            ("value", self.value_dtype, table.value_dtype),
        ):
            if own != other.base:
                raise TypeError(
                    f"Invalid {what} dtype, expected {own.name} but got {other.base.name}.\n"
                    + errors.message(f"a table with {what}s of {other.base.name}", own.name, "use one dtype for both")
                )


@public("lookup.KeyValueTensorInitializer", "contrib.lookup.KeyValueTensorInitializer")
class KeyValueTensorInitializer(TableInitializerBase):
    """Fill a table from tensors.

    Args:
        keys: ``[n]``.
        values: ``[n]``.
        key_dtype: dtype of ``keys``, if they are not tensors.
        value_dtype: dtype of ``values``, if they are not tensors.
        name: name of the ops.
    """

    def __init__(
        self, keys: Any, values: Any, key_dtype: Any = None, value_dtype: Any = None, name: str | None = None
    ) -> None:
        with name_scope(name, "key_value_init", [keys, values]) as scope:
            self._keys = convert_to_tensor(keys, key_dtype, "keys")
            self._values = convert_to_tensor(values, value_dtype, "values")
            self._name = scope
        super().__init__(self._keys.dtype, self._values.dtype)

    def initialize(self, table: Any) -> Operation:
        self._check(table)
        with name_scope(self._name, None, [table.resource_handle, self._keys, self._values]):
            op = build("LookupTableImportV2", table.resource_handle, self._keys, self._values)
        current_builder().add_to_collection(GraphKeys.TABLE_INITIALIZERS, op)
        return op


@public("lookup.TextFileInitializer", "contrib.lookup.TextFileInitializer")
class TextFileInitializer(TableInitializerBase):
    """Fill a table from the lines of a text file.

    Args:
        filename: the file, or a string tensor.
        key_dtype: dtype of the keys.
        key_index: part of the line that is the key, as :class:`TextFileIndex` says.
        value_dtype: dtype of the values.
        value_index: part of the line that is the value.
        vocab_size: number of lines, if it is known.
        delimiter: character between columns.
        name: name of the ops.
        value_index_offset: what is added to line numbers.
    """

    def __init__(
        self,
        filename: Any,
        key_dtype: Any,
        key_index: int,
        value_dtype: Any,
        value_index: int,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str | None = None,
        value_index_offset: int = 0,
    ) -> None:
        super().__init__(key_dtype, value_dtype)
        if not isinstance(filename, Tensor) and not filename:
            raise ValueError("Filename required")
        for what, index, dtype in (("key", key_index, self.key_dtype), ("value", value_index, self.value_dtype)):
            if index < WHOLE_LINE:
                raise ValueError(f"Invalid {what} index {index}.")
            if index == LINE_NUMBER and dtype != dtypes.int64:
                raise ValueError(f"Signature mismatch. {what.capitalize()}s must be dtype {dtypes.int64}, got {dtype}.")
            if index == WHOLE_LINE and not dtype.is_integer and dtype != dtypes.string:
                raise ValueError(f"Signature mismatch. {what.capitalize()}s must be integer or string, got {dtype}.")
        if vocab_size is not None and vocab_size <= 0:
            raise ValueError(f"Invalid vocab_size {vocab_size}.")
        self._filename_arg = filename
        self._key_index = key_index
        self._value_index = value_index
        self._vocab_size = vocab_size
        self._delimiter = delimiter
        self._offset = value_index_offset
        self._name = name
        self._filename: Tensor | None = None

    @property
    def _shared_name(self) -> str:
        """A name for tables that this would fill alike."""
        if isinstance(self._filename_arg, Tensor):
            return ""
        parts = [self._filename_arg, self._vocab_size, self._key_index, self._value_index, self._offset or None]
        return "hash_table_" + "_".join(str(part) for part in parts if part is not None)

    def initialize(self, table: Any) -> Operation:
        self._check(table)
        builder = current_builder()
        with name_scope(self._name, "text_file_init", [table.resource_handle]):
            filename = convert_to_tensor(self._filename_arg, dtypes.string, "asset_filepath")
            op = build(
                "InitializeTableFromTextFileV2",
                table.resource_handle,
                filename,
                key_index=self._key_index,
                value_index=self._value_index,
                vocab_size=-1 if self._vocab_size is None else self._vocab_size,
                delimiter=self._delimiter,
                offset=self._offset,
            )
        builder.add_to_collection(GraphKeys.TABLE_INITIALIZERS, op)
        # A placeholder or variable holds no path yet that could be copied into a SavedModel.
        if inference.partial_value(filename) is not None and filename not in builder.get_collection_ref(
            GraphKeys.ASSET_FILEPATHS
        ):
            builder.add_to_collection(GraphKeys.ASSET_FILEPATHS, filename)
        return op


@public("contrib.lookup.TextFileStringTableInitializer")
class TextFileStringTableInitializer(TextFileInitializer):
    """Fill a table from line numbers to strings with the lines of a text file."""

    def __init__(
        self,
        filename: Any,
        key_column_index: int = LINE_NUMBER,
        value_column_index: int = WHOLE_LINE,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str = "text_file_string_table_init",
    ) -> None:
        super().__init__(
            filename, dtypes.int64, key_column_index, dtypes.string, value_column_index, vocab_size, delimiter, name
        )


@public("contrib.lookup.TextFileIdTableInitializer")
class TextFileIdTableInitializer(TextFileInitializer):
    """Fill a table from strings to line numbers with the lines of a text file."""

    def __init__(
        self,
        filename: Any,
        key_column_index: int = WHOLE_LINE,
        value_column_index: int = LINE_NUMBER,
        vocab_size: int | None = None,
        delimiter: str = "\t",
        name: str = "text_file_id_table_init",
        key_dtype: Any = dtypes.string,
    ) -> None:
        super().__init__(
            filename, key_dtype, key_column_index, dtypes.int64, value_column_index, vocab_size, delimiter, name
        )


# ------------------------------------------------------------------------------------------------------------- tables
@public("contrib.lookup.LookupInterface")
class LookupInterface:
    """Base of all tables."""

    def __init__(self, key_dtype: Any, value_dtype: Any) -> None:
        self._key_dtype = dtypes.as_dtype(key_dtype).base
        self._value_dtype = dtypes.as_dtype(value_dtype).base

    @property
    def key_dtype(self) -> dtypes.DType:
        """Dtype of the keys."""
        return self._key_dtype

    @property
    def value_dtype(self) -> dtypes.DType:
        """Dtype of the values."""
        return self._value_dtype

    @property
    def name(self) -> str:
        """Name of the table."""
        raise NotImplementedError

    def size(self, name: str | None = None) -> Tensor:
        """Number of entries; an int64 scalar."""
        raise NotImplementedError

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        """The values of ``keys``, a tensor or a sparse tensor; the default value where there is none."""
        raise NotImplementedError

    def _keys(self, keys: Any) -> Any:
        """Keys as a tensor or sparse tensor of the table's key dtype."""
        if isinstance(keys, SparseTensor):
            dtype = keys.dtype.base
        else:
            keys = keys if isinstance(keys, Tensor) else convert_to_tensor(keys, self._key_dtype)
            dtype = keys.dtype.base
        if dtype != self._key_dtype:
            raise TypeError(
                f"Signature mismatch. Keys must be dtype {self._key_dtype}, got {dtype}.\n"
                + errors.message(
                    f"keys of {dtype.name}", self._key_dtype.name, f"tf.cast(keys, tf.{self._key_dtype.name})"
                )
            )
        return keys


class _Table(LookupInterface):
    """A table with a handle of its own."""

    _handle: Tensor
    _default_value: Tensor

    @property
    def resource_handle(self) -> Tensor:
        """The handle."""
        return self._handle

    @property
    def table_ref(self) -> Tensor:
        """Old name of :attr:`resource_handle`."""
        return self._handle

    @property
    def name(self) -> str:
        """Name of the table, without scopes."""
        return self._handle._resource_name.rpartition("/")[2]

    @property
    def default_value(self) -> Tensor:
        """What keys without an entry get."""
        return self._default_value

    def _set_default(self, value: Any, scalar: bool = True) -> None:
        self._default_value = convert_to_tensor(value, self._value_dtype, "Const")
        if scalar:
            self._default_value.get_shape().assert_is_compatible_with(())

    def size(self, name: str | None = None) -> Tensor:
        with name_scope(name, f"{self.name}_Size", [self._handle]):
            return build("LookupTableSizeV2", self._handle)

    def lookup(self, keys: Any, name: str | None = None) -> Any:
        keys_tensor = self._keys(keys)
        flat = keys_tensor.values if isinstance(keys_tensor, SparseTensor) else keys_tensor
        with name_scope(name, f"{self.name}_Lookup", [self._handle, flat, self._default_value]):
            values = build("LookupTableFindV2", self._handle, flat, self._default_value)
        if isinstance(keys_tensor, SparseTensor):
            return SparseTensor(keys_tensor.indices, values, keys_tensor.dense_shape)
        return values

    def export(self, name: str | None = None) -> tuple[Tensor, Tensor]:
        """All keys ``[n]`` and their values ``[n, ...]``."""
        with name_scope(name, f"{self.name}_export_values", [self._handle]):
            entries = build("LookupTableExportV2", self._handle, Tkeys=self._key_dtype, Tvalues=self._value_dtype)
        return entries[0], entries[1]


@public("contrib.lookup.InitializableLookupTableBase")
class InitializableLookupTableBase(_Table):
    """A table that is filled once."""

    _init: Operation

    @property
    def initializer(self) -> Operation:
        """The operation that fills the table."""
        return self._init

    @property
    def init(self) -> Operation:
        """Old name of :attr:`initializer`."""
        return self._init


@public("lookup.StaticHashTable")
class StaticHashTable(InitializableLookupTableBase):
    """A table that is filled once, by `tf.tables_initializer`.

    Args:
        initializer: what fills it.
        default_value: scalar for keys without an entry.
        name: name of its op.

    Example:
        >>> import anabranch as tf
        >>> colours = tf.lookup.KeyValueTensorInitializer(["red", "blue"], [3, 5])
        >>> table = tf.lookup.StaticHashTable(colours, -1)
        >>> found = table.lookup(tf.constant(["blue", "green"]))
        >>> with tf.Session() as session:
        ...     session.run(tf.tables_initializer())
        ...     session.run(found).tolist()
        [5, -1]
    """

    def __init__(
        self, initializer: Any, default_value: Any, name: str | None = None, *, _shared_name: str = ""
    ) -> None:
        super().__init__(initializer.key_dtype, initializer.value_dtype)
        self._set_default(default_value)
        self._handle = build(
            "HashTableV2",
            key_dtype=self._key_dtype,
            value_dtype=self._value_dtype,
            shared_name=_shared_name,
            name=name or "hash_table",
        )
        self._init = initializer.initialize(self)


@public("contrib.lookup.HashTable")
class HashTable(StaticHashTable):
    """`tf.lookup.StaticHashTable` under its older name, with ``shared_name`` to share it between sessions' graphs."""

    def __init__(
        self, initializer: Any, default_value: Any, shared_name: str | None = None, name: str | None = None
    ) -> None:
        super().__init__(initializer, default_value, name, _shared_name=shared_name or "")


class SaveSpec:
    """A tensor of a table, as savers ask for it."""

    def __init__(self, tensor: Tensor, slice_spec: str, name: str) -> None:
        self.tensor = tensor
        self.slice_spec = slice_spec
        self.name = name
        self.dtype = tensor.dtype.base
        self.device = tensor.device


class TableSaveable:
    """A table that changes, as savers ask for it: keys and values are saved as two tensors."""

    def __init__(self, table: _Table, name: str) -> None:
        self._table = table
        self.name = name
        keys, values = table.export()
        self.op = table.resource_handle
        self.device = self.op.device
        self.specs = [SaveSpec(keys, "", f"{name}-keys"), SaveSpec(values, "", f"{name}-values")]

    @property
    def optional_restore(self) -> bool:
        """Whether a checkpoint may lack it."""
        return False

    def restore(self, restored_tensors: list[Tensor], restored_shapes: Any) -> Operation:
        """The operation that replaces the table's entries by the tensors of a checkpoint."""
        with current_builder().colocate_with(self.op):
            return build("LookupTableImportV2", self.op, *restored_tensors, name=f"{self._table.name}_table_restore")


class _MutableTable(_Table):
    def insert(self, keys: Any, values: Any, name: str | None = None) -> Operation:
        """An operation that adds or replaces entries: ``keys``, and a value for each."""
        with name_scope(name, f"{self.name}_lookup_table_insert", [self._handle, keys, values]):
            keys = convert_to_tensor(keys, self._key_dtype, "keys")
            values = convert_to_tensor(values, self._value_dtype, "values")
            return build("LookupTableInsertV2", self._handle, keys, values)

    def remove(self, keys: Any, name: str | None = None) -> Operation:
        """An operation that removes the entries of ``keys`` that are there."""
        with name_scope(name, f"{self.name}_lookup_table_remove", [self._handle, keys]):
            return build("LookupTableRemoveV2", self._handle, self._keys(keys))

    def _gather_saveables_for_checkpoint(self) -> dict[str, Any]:
        """What saves the table in a checkpoint by object."""
        return {"table": lambda name: TableSaveable(self, name)}

    def _add_saveable(self, checkpoint: bool) -> None:
        if checkpoint:
            saveable = TableSaveable(self, self._handle._resource_name)
            current_builder().add_to_collection(GraphKeys.SAVEABLE_OBJECTS, saveable)


@public("contrib.lookup.MutableHashTable", "lookup.experimental.MutableHashTable")
class MutableHashTable(_MutableTable):
    """A table that may change.

    Args:
        key_dtype: dtype of the keys, which are scalars.
        value_dtype: dtype of the values.
        default_value: what keys without an entry get; its shape is that of all values.
        shared_name: name under which sessions share it.
        name: name of its op.
        checkpoint: whether savers save it.
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        shared_name: str | None = None,
        name: str = "MutableHashTable",
        checkpoint: bool = True,
    ) -> None:
        super().__init__(key_dtype, value_dtype)
        self._set_default(default_value, scalar=False)
        value_shape = self._default_value._shape
        own: dict[str, Any] = {
            "key_dtype": self._key_dtype,
            "value_dtype": self._value_dtype,
            "shared_name": shared_name or "",
            "use_node_name_sharing": checkpoint and shared_name is None,
            "name": name,
        }
        if value_shape == ():
            self._handle = build("MutableHashTableV2", **own)
        else:
            self._handle = build("MutableHashTableOfTensorsV2", value_shape=value_shape, **own)
        self._add_saveable(checkpoint)


def _far_from(key: Tensor) -> Any:
    """A key of the shape of ``key`` that programs do not use, and that is not ``key``."""
    known = constant_value(key)
    if known is None:
        raise ValueError(
            errors.message(
                "an empty_key that is known only when the graph runs",
                "a deleted_key, too",
                "deleted_key=-2, or another",
            )
        )
    dtype = key.dtype.base
    if dtype is dtypes.string:
        candidates: tuple[Any, ...] = (b"\x00deleted key\x00", b"\x00another deleted key\x00")
    elif dtype.is_integer or dtype.is_floating:
        candidates = (dtype.min, dtype.max)
    else:
        raise TypeError(errors.message(f"keys of {dtype.name}", "a deleted_key", "deleted_key=another key"))
    made = (np.full(known.shape, value, dtype.as_numpy_dtype) for value in candidates)
    return next(value for value in made if not np.array_equal(value, known))


@public("contrib.lookup.MutableDenseHashTable", "lookup.experimental.DenseHashTable")
class MutableDenseHashTable(_MutableTable):
    """A table that may change, in TensorFlow's layout without chains; here it is as `MutableHashTable`.

    Args:
        key_dtype: dtype of the keys, which are scalars.
        value_dtype: dtype of the values.
        default_value: what keys without an entry get; its shape is that of all values.
        empty_key: a key that is never used.
        deleted_key: another one; a value that is far from usual ones if None, as before TensorFlow 1.15.
        initial_num_buckets: a hint, kept for other programs.
        shared_name: name under which sessions share it.
        name: name of its op.
        checkpoint: whether savers save it.
    """

    def __init__(
        self,
        key_dtype: Any,
        value_dtype: Any,
        default_value: Any,
        empty_key: Any,
        deleted_key: Any = None,
        initial_num_buckets: int | None = None,
        shared_name: str | None = None,
        name: str = "MutableDenseHashTable",
        checkpoint: bool = True,
    ) -> None:
        super().__init__(key_dtype, value_dtype)
        self._set_default(default_value, scalar=False)
        extra = {} if initial_num_buckets is None else {"initial_num_buckets": initial_num_buckets}
        empty = convert_to_tensor(empty_key, self._key_dtype, "empty_key")
        deleted = _far_from(empty) if deleted_key is None else deleted_key
        self._handle = build(
            "MutableDenseHashTableV2",
            empty,
            convert_to_tensor(deleted, self._key_dtype, "deleted_key"),
            value_dtype=self._value_dtype,
            value_shape=self._default_value._shape,
            shared_name=shared_name or "",
            use_node_name_sharing=checkpoint and shared_name is None,
            name=name,
            **extra,
        )
        self._add_saveable(checkpoint)


__all__ = [
    "HashTable",
    "InitializableLookupTableBase",
    "KeyValueTensorInitializer",
    "LookupInterface",
    "MutableDenseHashTable",
    "MutableHashTable",
    "StaticHashTable",
    "TextFileIdTableInitializer",
    "TextFileIndex",
    "TextFileInitializer",
    "TextFileStringTableInitializer",
    "initialize_all_tables",
    "tables_initializer",
]
