"""``tf.saved_model.save``: functions that were traced where ops run at once, as a SavedModel.

What is written is a MetaGraph with signatures, which TensorFlow 1 and 2, its server and :func:`tf.saved_model.load`
read: each function's graph under its name, variables that a checkpoint restores, values from outside as constants,
tables that the model's init op fills. What signatures do not say (how arguments and results are structured, which lists
of variables the object has) is JSON in a collection of its own, from which :mod:`anabranch.saved_model.revived` makes
functions again.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import composites
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.convert import constant
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.public_scopes import control_dependencies
from anabranch.core.graphdef.import_graph import import_graph_def
from anabranch.core.values import nest
from anabranch.eager.function import ConcreteFunction, Function
from anabranch.eager.mode import EAGER
from anabranch.ops.array.public_shapes import zeros
from anabranch.ops.lookup.public_tables import tables_initializer
from anabranch.saved_model import tag_constants
from anabranch.saved_model.builder import SavedModelBuilder
from anabranch.saved_model.signature_def_utils import predict_signature_def
from anabranch.session import Session
from anabranch.variables.tracking import children
from anabranch.variables.variable import Variable, make_variable

COLLECTION = "anabranch_endpoints"
"""The collection with what signatures do not say."""
SERVING = "serving_default"


@public("saved_model.SaveOptions")
class SaveOptions:
    """Options of :func:`save`; all of TensorFlow's are taken at their defaults only.

    Args:
        options: options by name.

    Raises:
        UnimplementedError: an option is not at its default.
    """

    def __init__(self, **options: Any) -> None:
        for name, value in options.items():
            if value:
                raise errors.UnimplementedError(
                    None, None, errors.message(f"SaveOptions({name}={value!r})", "the default", "SaveOptions()")
                )


@public("saved_model.save")
def save(obj: Any, export_dir: Any, signatures: Any = None, options: SaveOptions | None = None) -> None:
    """Write the functions of an object, and the variables that they use, as a SavedModel.

    Args:
        obj: an object whose attributes include traced functions (``tf.function``), such as a ``tf.Module``.
        export_dir: the folder; a model in it is replaced.
        signatures: a function, or functions by name; of one that was not traced, the signature is asked for. If None,
            the only function of ``obj`` that has an ``input_signature`` is ``serving_default``.
        options: see :class:`SaveOptions`.

    Raises:
        RuntimeError: a graph is being built. ValueError: a signature is not a function traced for one kind of
        arguments.

    Example::

        class Model(tf.Module):
            @tf.function(input_signature=[tf.TensorSpec([None, 2], tf.float32)])
            def __call__(self, x):
                return x @ self.w

        tf.saved_model.save(model, "model/1")
    """
    del options
    if current_builder().defers:
        raise RuntimeError(
            errors.message(
                "tf.saved_model.save() while a graph is built",
                "a program whose ops run at once",
                "tf.saved_model.simple_save(session, folder, inputs, outputs)",
            )
        )
    endpoints = {name: traced for name, item in _functions(obj).items() if (traced := _only_trace(item)) is not None}
    chosen = {name: _signature(name, item) for name, item in _named(signatures, obj).items()}
    folder = os.fspath(export_dir)
    with tempfile.TemporaryDirectory() as apart:
        written = os.path.join(apart, "model")
        _write(written, endpoints, chosen, obj)
        for old in ("variables", "assets"):
            shutil.rmtree(os.path.join(folder, old), ignore_errors=True)
        shutil.copytree(written, folder, dirs_exist_ok=True)


# ----------------------------------------------------------------------------------------------------------- functions
def _functions(obj: Any) -> dict[str, Function]:
    """The functions among an object's attributes, by name."""
    names = [*vars(obj), *[name for kind in reversed(type(obj).__mro__) for name in vars(kind)]]
    found = {}
    for name in dict.fromkeys(names):
        item = vars(obj).get(name)
        if item is None and any(isinstance(vars(kind).get(name), Function) for kind in type(obj).__mro__):
            item = getattr(obj, name)
        if isinstance(item, Function):
            found[name] = item
    return found


def _only_trace(function: Function) -> ConcreteFunction | None:
    """What a function was traced for, if that is one kind of arguments or is known; else None."""
    if function.input_signature is not None:
        return function.get_concrete_function()
    traces = function._list_all_concrete_functions()
    return traces[0] if len(traces) == 1 else None


def _named(signatures: Any, obj: Any) -> Mapping[str, Any]:
    if signatures is None:
        own = [function for function in _functions(obj).values() if function.input_signature is not None]
        return {SERVING: own[0]} if len(own) == 1 else {}
    return signatures if isinstance(signatures, Mapping) else {SERVING: signatures}


def _signature(name: str, item: Any) -> ConcreteFunction:
    traced = item if isinstance(item, ConcreteFunction) else _only_trace(item) if isinstance(item, Function) else None
    if traced is None:
        raise ValueError(
            errors.message(
                f"{item!r} as signature {name!r}",
                "a function traced for one kind of arguments",
                "f.get_concrete_function(tf.TensorSpec([None, 2], tf.float32))",
            )
        )
    return traced


# ------------------------------------------------------------------------------------------------------------- writing
class _Writer:
    """The graph of the model as it grows: functions under names, and the resources that they share.

    Args:
        session: a session of the graph, in which variables get their values.
    """

    def __init__(self, session: Session) -> None:
        self._session = session
        self._graph: Any = session.graph
        self._handles: dict[int, Any] = {}
        self._added: dict[int, dict[str, Any]] = {}
        self.variables: dict[int, tuple[Any, Any]] = {}
        """By the identity of a variable, itself and its variable of the graph."""
        self.tables: list[dict[str, Any]] = []

    def add(self, name: str, function: ConcreteFunction) -> dict[str, Any]:
        """The tensors of a function, added under ``name`` if it is not there yet."""
        known = self._added.get(id(function))
        if known is None:
            known = self._added[id(function)] = self._add(name, function)
        return known

    def _add(self, name: str, function: ConcreteFunction) -> dict[str, Any]:
        traced = function._function
        replaced: dict[str, Any] = {inner.name: self._handle(outer, inner) for outer, inner in traced.handles}
        for outer, inner in traced.captured:
            replaced[inner.name] = constant(outer._array(), outer.dtype)
        wanted = [tensor.name for tensor in (*traced.arguments, *traced.results)]
        effects = [op.name for op in traced.effects]
        found: Any = import_graph_def(
            function.graph.as_graph_def(), replaced, [*wanted, *effects], name=name.strip("_")
        )
        count = len(traced.arguments)
        tensors, done = found[: len(wanted)], found[len(wanted) :]
        with control_dependencies(done):
            outputs = [build("Identity", tensor) for tensor in tensors[count:]]
        return {"inputs": tensors[:count], "outputs": outputs}

    def _handle(self, outer: Any, inner: Any) -> Any:
        """The handle, in the model's graph, of a resource of the process."""
        known = self._handles.get(id(outer))
        if known is None:
            kind = inner.op.definition.makes
            make = {"variable": self._variable, "table": self._table}.get(kind)
            if make is None:
                raise errors.UnimplementedError(
                    None,
                    inner.op,
                    errors.message(
                        f"a function that uses {inner.op.name!r} ({inner.op.type}), a {kind}",
                        "variables and tables",
                        "pass what it gives as an argument",
                    ),
                )
            known = self._handles[id(outer)] = make(outer, inner)
        return known

    def _variable(self, outer: Any, inner: Any) -> Any:
        own = outer._variable()
        attrs = inner.op._attrs
        shape, dtype = attrs["shape"], attrs["dtype"]
        with EAGER.as_default():
            value = own.numpy()
        made: Any = make_variable(
            initial_value=lambda: zeros(np.shape(value), dtype),
            trainable=own.trainable,
            name=own.op.name if getattr(own, "op", None) is not None else own.name.partition(":")[0],
            dtype=dtype,
            shape=shape,
            use_resource=True,
        )
        made.load(value, self._session)
        self.variables[id(own)] = own, made
        return made.handle

    def _table(self, outer: Any, inner: Any) -> Any:
        definition, attrs = inner.op.definition, dict(inner.op._attrs)
        attrs["shared_name"] = f"table_{len(self.tables)}"
        kinds = {"Tkeys": attrs["key_dtype"], "Tvalues": attrs["value_dtype"]}
        with EAGER.as_default():
            keys, values = build("LookupTableExportV2", outer, **kinds)
        handle = build(definition.type_name, name=attrs["shared_name"], **attrs)
        key_constant, value_constant = constant(keys._array(), keys.dtype), constant(values._array(), values.dtype)
        filled = build(_filling(definition.type_name), handle, key_constant, value_constant)
        self._graph.add_to_collection(GraphKeys.TABLE_INITIALIZERS, filled)
        self.tables.append({"handle": handle.name, "keys": key_constant.op.name, "values": value_constant.op.name})
        return handle


def _filling(type_name: str) -> str:
    """The op that fills a table of that type."""
    return "LookupTableImportV2" if "Mutable" in type_name else "InitializeTableV2"


def _write(
    folder: str, endpoints: dict[str, ConcreteFunction], signatures: dict[str, ConcreteFunction], obj: Any
) -> None:
    graph = Graph()
    with graph.as_default(), Session(graph=graph) as session:
        writer = _Writer(session)
        added = {name: writer.add(name, function) for name, function in endpoints.items()}
        signature_defs = {}
        for name, function in signatures.items():
            tensors = writer.add(name, function)
            inputs = dict(zip(_input_names(function), tensors["inputs"], strict=True))
            outputs = dict(zip(_output_names(function), tensors["outputs"], strict=True))
            signature_defs[name] = predict_signature_def(inputs, outputs)
        told = {
            "endpoints": {
                name: {
                    "inputs": [tensor.name for tensor in added[name]["inputs"]],
                    "outputs": [tensor.name for tensor in added[name]["outputs"]],
                    "structure": _encoded(function.structured_outputs, function._places),
                }
                for name, function in endpoints.items()
            },
            "variables": {
                made.name: {"trainable": bool(own.trainable), "key": made.op.name, "handle": made.handle.name}
                for own, made in writer.variables.values()
            },
            "lists": _lists(obj, writer.variables),
            "tables": writer.tables,
        }
        graph.add_to_collection(COLLECTION, json.dumps(told))
        builder = SavedModelBuilder(folder)
        builder.add_meta_graph_and_variables(
            session, [tag_constants.SERVING], signature_defs, main_op=tables_initializer()
        )
        builder.save()


def _input_names(function: ConcreteFunction) -> list[str]:
    names = [tensor.op.name.rpartition("/")[2] for tensor in function._function.arguments]
    return [name if names.count(name) == 1 else f"{name}_{i}" for i, name in enumerate(names)]


def _output_names(function: ConcreteFunction) -> list[str]:
    """The keys of a function that returns a dictionary of tensors; ``output_0`` and so on otherwise."""
    structured = function.structured_outputs
    count = len(function._function.results)
    if isinstance(structured, Mapping) and len(structured) == count:
        return [str(key) for key in sorted(structured)]
    return [f"output_{i}" for i in range(count)]


def _encoded(structure: Any, places: Any) -> Any:
    """A structure of results as JSON: numbers of results, None, and lists, tuples and dictionaries of them."""
    if not nest.is_nested(structure):
        place = places[0] if isinstance(places, list) else places
        if isinstance(place, tuple) or composites.is_composite(structure):
            raise errors.UnimplementedError(
                None,
                None,
                errors.message(
                    f"a function that returns {structure!r}", "one that returns tensors", "tf.sparse.to_dense(result)"
                ),
            )
        return place
    rest = iter(places)

    def encode(value: Any) -> Any:
        if isinstance(value, Mapping):
            return ["dict", [[key, encode(value[key])] for key in sorted(value)]]
        if nest.is_nested(value):
            return ["list" if isinstance(value, list) else "tuple", [encode(part) for part in nest.parts(value)]]
        return _encoded(value, next(rest))

    return encode(structure)


def _lists(obj: Any, variables: dict[int, tuple[Any, Any]]) -> dict[str, list[str]]:
    """The attributes of an object that are lists of variables which its functions use, as their names."""
    lists = {}
    for name, item in children(obj).items():
        if isinstance(item, (list, tuple)):
            own = [getattr(one, "value", one) if not isinstance(one, Variable) else one for one in item]
            if own and all(id(one) in variables for one in own):
                lists[name] = [variables[id(one)][1].name for one in own]
    return lists
