"""Lookup tables: handles, lookups, updates. What a table is stands in :mod:`anabranch.ops.lookup.table_objects`.

A table is state, not a channel: reading and changing it takes part in a step's transaction, so that a step that fails
after an insert has not inserted. Each op type exists twice, with a reference to a string tensor as handle (the old
form) and, with the suffix ``V2``, with a resource. All run on the host.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.inference import RawShape, ShapeContext
from anabranch.core.contract.opdef import (
    PURE,
    SELECT,
    Bool,
    Float,
    Int,
    NotDifferentiable,
    Shape,
    String,
    Type,
    define,
    read,
    write,
)
from anabranch.core.graph.static_value import constant_value
from anabranch.core.values import shapes
from anabranch.ops.lookup.table_files import read_pairs
from anabranch.ops.lookup.table_objects import Table, as_array, keys_list, values_list

_NO_GRADIENT = NotDifferentiable("a table maps keys to values, which is not a smooth function")


# ---------------------------------------------------------------------------------------------------------- the makers
def _maker(kind: str) -> Any:
    def create(attrs: dict[str, Any], name: str) -> Table:
        value_shape = attrs.get("value_shape", ())
        if value_shape is None or None in value_shape:
            raise errors.InvalidArgumentError(
                None, None, f"{kind} {name!r} needs a value_shape that is fully known, not {shapes.show(value_shape)}"
            )
        return Table(
            kind,
            attrs["shared_name"] or name,
            attrs["key_dtype"],
            attrs["value_dtype"],
            tuple(value_shape),
            mutable=kind != "HashTable",
        )

    return create


_COMMON: dict[str, Any] = {
    "container": String(""),
    "shared_name": String(""),
    "use_node_name_sharing": Bool(False),
    "key_dtype": Type(),
    "value_dtype": Type(),
}
_OF_TENSORS = {"value_shape": Shape(())}
_DENSE = {"value_shape": Shape(()), "initial_num_buckets": Int(131072), "max_load_factor": Float(0.800000011920929)}
_MAKERS = {
    "HashTable": ({}, "A table that is filled once and then only read."),
    "MutableHashTable": ({}, "A table from scalars to scalars that may change."),
    "MutableHashTableOfTensors": (_OF_TENSORS, "A table from scalars to tensors of ``value_shape`` that may change."),
    "MutableDenseHashTable": (_DENSE, "A table that may change; ``empty_key`` and ``deleted_key`` are not keys of it."),
}


def _dense_shape(c: ShapeContext) -> RawShape:
    for operand in ("empty_key", "deleted_key"):
        if operand in {spec.name for spec in c.definition.inputs}:
            dims = c.shape(operand)
            if dims is not None and dims != ():
                raise NotImplementedError(
                    errors.message(
                        f"a MutableDenseHashTable with {operand} of shape {shapes.show(dims)}",
                        "scalar keys",
                        "join the parts of a key to a string: tf.strings.join or tf.as_string",
                    )
                )
    return ()


for _kind, (_more, _doc) in _MAKERS.items():
    for _suffix in ("", "V2"):
        _inputs = ""
        if _kind == "MutableDenseHashTable":
            _inputs = "empty_key: key_dtype, deleted_key: key_dtype" if _suffix else "empty_key: key_dtype"
        define(
            _kind + _suffix,
            _doc,
            signature=f"{_inputs} -> table_handle: {'resource' if _suffix else 'Ref(string)'}",
            attrs=_COMMON | _more,
            effect=PURE,
            makes="table",
            create=_maker(_kind),
            shape=_dense_shape if _suffix else (lambda c: (2,)),
            gradient=_NO_GRADIENT,
        )


# ------------------------------------------------------------------------------------------------------------- the ops
def _table(ctx: Any, value: Any, key: Any = None, of: Any = None) -> Table:
    """The table in an operand; its dtypes must be those that the op was made for."""
    table: Table = value.item()
    wrong = (key is not None and table.key_dtype != key) or (of is not None and table.value_dtype != of)
    if wrong:
        ctx.check(
            False,
            errors.InvalidArgumentError,
            f"Conflicting key/value dtypes {(key or table.key_dtype).name}->{(of or table.value_dtype).name} with "
            f"{table.key_dtype.name}-{table.value_dtype.name} for table {table.name}",
        )
    return table


def _unless_filled(ctx: Any, table: Table) -> None:
    message = errors.message(
        f"a use of table {table.name!r} before it was filled",
        "a filled table",
        "session.run(tf.tables_initializer()) first",
    )
    literal = message.replace("{", "{{").replace("}", "}}")
    ctx.check(table.initialized, errors.FailedPreconditionError, f"Table not initialized.\n{literal}")


def _find_shape(c: ShapeContext) -> RawShape:
    keys, default = c.shape("keys"), c.shape("default_value")
    if keys is None or default is None:
        return None
    return (*keys, *default)


def _find(ctx: Any, inputs: Any, attrs: Any) -> Any:
    table = _table(ctx, inputs[0], attrs["Tin"], attrs["Tout"])
    keys, default = inputs[1], inputs[2]
    _unless_filled(ctx, table)
    ctx.check(
        default.shape == table.value_shape,
        errors.InvalidArgumentError,
        f"Expected shape {shapes.show(table.value_shape)} for default value, got {shapes.show(default.shape)}",
    )
    wanted = keys_list(keys)
    _check_keys(ctx, table, wanted)
    values = table.find(wanted, default if table.value_shape else default.item())
    return as_array(values, attrs["Tout"], (*keys.shape, *table.value_shape))


def _check_keys(ctx: Any, table: Table, keys: list[Any]) -> None:
    """Refuse the two keys that a dense table keeps for itself."""
    if table.kind != "MutableDenseHashTable" or ctx.op is None:
        return
    maker = ctx.op.inputs[0]._made_by
    for tensor, name in zip(() if maker is None else maker.inputs, ("empty_key", "deleted_key"), strict=False):
        value = constant_value(tensor)
        if value is not None and keys_list(value)[0] in keys:
            ctx.check(False, errors.InvalidArgumentError, f"Using the {name} as a table key is not allowed")


def _pairs(ctx: Any, table: Table, keys: Any, values: Any) -> list[tuple[Any, Any]]:
    wanted = (*keys.shape, *table.value_shape)
    ctx.check(
        values.shape == wanted,
        errors.InvalidArgumentError,
        f"Expected shape {shapes.show(wanted)} for value, got {shapes.show(values.shape)}",
    )
    return list(zip(keys_list(keys), values_list(values, table.value_shape, keys.size), strict=True))


def _mutable(ctx: Any, table: Table, doing: str) -> None:
    ctx.check(
        table.mutable,
        errors.UnimplementedError,
        f"{doing} not supported by {table.kind} {table.name}, which is filled once",
    )


def _insert(ctx: Any, inputs: Any, attrs: Any) -> Any:
    table = _table(ctx, inputs[0], attrs["Tin"], attrs["Tout"])
    _mutable(ctx, table, "Insert")
    pairs = _pairs(ctx, table, inputs[1], inputs[2])
    _check_keys(ctx, table, [key for key, _ in pairs])
    return table.with_entries(pairs)


def _remove(ctx: Any, inputs: Any, attrs: Any) -> Any:
    table = _table(ctx, inputs[0], attrs["Tin"])
    _mutable(ctx, table, "Remove")
    keys = keys_list(inputs[1])
    _check_keys(ctx, table, keys)
    return table.without_keys(keys)


def _no_keys(op: Any, table: Table) -> list[Any]:
    """The empty and the deleted key of a dense table, of which TensorFlow saves one for each free place."""
    for maker in op.graph.get_operations() if op is not None else ():
        if maker.type.startswith(table.kind) and (maker.get_attr("shared_name") or maker.name.encode()) == (
            table.name.encode()
        ):
            known = [constant_value(tensor) for tensor in maker.inputs]
            return [key for value in known if value is not None for key in keys_list(value)]
    return []


def _import(ctx: Any, inputs: Any, attrs: Any) -> Any:
    table = _table(ctx, inputs[0], attrs["Tin"], attrs["Tout"])
    keys, values = inputs[1:]
    dense = table.kind == "MutableDenseHashTable"
    if dense and keys.ndim == 2 and keys.shape[1] == 1:  # a key is a row there, as it may be a vector
        keys = keys[:, 0]
        values = values if table.value_shape else values.reshape(keys.shape)
    pairs = _pairs(ctx, table, keys, values)
    if dense and (unused := _no_keys(ctx.op, table)):
        pairs = [pair for pair in pairs if pair[0] not in unused]
    return table.replaced(pairs) if table.mutable else table.filled(pairs, ctx.op)


def _initialize(ctx: Any, inputs: Any, attrs: Any) -> Any:
    table = _table(ctx, inputs[0], attrs["Tkey"], attrs["Tval"])
    ctx.check(
        not table.mutable,
        errors.InvalidArgumentError,
        f"Table {table.name} is a {table.kind}, not an initializable one",
    )
    ctx.check(
        inputs[1].ndim == 1,
        errors.InvalidArgumentError,
        f"Keys must be a vector, but received shape {shapes.show(inputs[1].shape)}",
    )
    return table.filled(_pairs(ctx, table, inputs[1], inputs[2]), ctx.op)


def _initialize_from_file(ctx: Any, inputs: Any, attrs: Any) -> Any:
    table = _table(ctx, inputs[0])
    ctx.check(
        inputs[1].size == 1,
        errors.InvalidArgumentError,
        f"filename should be a single string, but got {shapes.show(inputs[1].shape)}",
    )
    path = inputs[1].ravel()[0]
    pairs = read_pairs(
        path,
        table.key_dtype,
        table.value_dtype,
        attrs["key_index"],
        attrs["value_index"],
        attrs["vocab_size"],
        attrs["delimiter"],
        attrs["offset"],
        ctx.op,
    )
    return table.filled(pairs, ctx.op)


def _size(ctx: Any, inputs: Any, attrs: Any) -> Any:
    return np.array(_table(ctx, inputs[0]).size(), np.int64)


def _export(ctx: Any, inputs: Any, attrs: Any) -> Any:
    table = _table(ctx, inputs[0], attrs["Tkeys"], attrs["Tvalues"])
    ctx.check(table.initialized, errors.AbortedError, "HashTable is not initialized.")
    keys, values = table.entries()
    return [
        as_array(keys, table.key_dtype, (len(keys),)),
        as_array(values, table.value_dtype, (len(keys), *table.value_shape)),
    ]


def _export_shape(c: ShapeContext) -> list[RawShape]:
    maker = c._tensors[0]._made_by
    if maker is None or maker.definition.makes != "table":
        return [(None,), None]
    value_shape = maker._attrs.get("value_shape", ())
    return [(None,), None if value_shape is None else (None, *value_shape)]


def _check_import(c: ShapeContext) -> list[RawShape]:
    keys, values = c.shape("keys"), c.shape("values")
    maker = c._tensors[0]._made_by
    if keys is not None and len(keys) == 1 and maker is not None and maker.type in ("HashTable", "HashTableV2"):
        shapes.merge(keys, values)
    return []


def _check_initializer(c: ShapeContext) -> list[RawShape]:
    keys = c.with_rank("keys", 1)
    if not shapes.is_compatible(keys, c.shape("values")):
        raise ValueError(
            errors.message(
                f"keys of shape {shapes.show(keys)} and values of shape {shapes.show(c.shape('values'))}",
                "a value for each key",
                "keys and values of one length",
            )
        )
    return []


def _check_filename(c: ShapeContext) -> list[RawShape]:
    c.with_rank("filename", 0)
    return []


_IN = {"Tin": Type(), "Tout": Type()}
_FILE = {
    "key_index": Int(minimum=-2),
    "value_index": Int(minimum=-2),
    "vocab_size": Int(-1, minimum=-1),
    "delimiter": String("\t"),
    "offset": Int(0),
}

# name, suffixes, inputs after the handle and outputs, attributes, effect, shape rule, kernel, what it does
_OPS: tuple[tuple[str, tuple[str, ...], str, dict[str, Any], str, Any, Any, str], ...] = (
    ("LookupTableFind", ("", "V2"), ", keys: Tin, default_value: Tout -> values: Tout", _IN, "read", _find_shape,
     _find, "The value of each key, ``default_value`` where there is none; shape that of keys, then of the default."),
    ("LookupTableInsert", ("", "V2"), ", keys: Tin, values: Tout ->", _IN, "write", inference.no_outputs, _insert,
     "Adds or replaces entries; values have shape ``keys.shape`` and that of one value."),
    ("LookupTableRemove", ("V2",), ", keys: Tin ->", {"Tin": Type()}, "write", inference.no_outputs, _remove,
     "Removes the entries of the keys that are there."),
    ("LookupTableImport", ("", "V2"), ", keys: Tin, values: Tout ->", _IN, "write", _check_import, _import,
     "Replaces all entries."),
    ("LookupTableSize", ("", "V2"), "-> size: int64", {}, "read", inference.scalar, _size,
     "Number of entries; a scalar."),
    ("LookupTableExport", ("", "V2"), "-> keys: Tkeys, values: Tvalues", {"Tkeys": Type(), "Tvalues": Type()}, "read",
     _export_shape, _export, "All keys ``[n]`` and their values ``[n, ...]``."),
    ("InitializeTable", ("", "V2"), ", keys: Tkey, values: Tval ->", {"Tkey": Type(), "Tval": Type()}, "write",
     _check_initializer, _initialize, "Fills a table with keys ``[n]`` and values ``[n]``."),
    ("InitializeTableFromTextFile", ("", "V2"), ", filename: string ->", _FILE, "write", _check_filename,
     _initialize_from_file, "Fills a table from the lines of a text file."),
)  # fmt: skip

for _name, _suffixes, _rest, _attrs, _effect, _shape, _kernel, _doc in _OPS:
    for _suffix in _suffixes:
        _fields: dict[str, Any] = {"predication": SELECT} if _effect == "write" else {}
        define(
            _name + _suffix,
            _doc,
            signature=f"table_handle: {'resource' if _suffix else 'Ref(string)'} {_rest}",
            attrs=_attrs,
            effect=write("table_handle", of="table") if _effect == "write" else read("table_handle", of="table"),
            shape=_shape,
            host_kernel=_kernel,
            gradient=_NO_GRADIENT,
            **_fields,
        )
