"""A model that :func:`~anabranch.saved_model.exporting.save` wrote, where ops run at once: functions to call again.

Each function is the part of the model's graph that it needs, traced into a function when it is called first, with the
process's variables in place of the graph's. So it can be differentiated and used in other functions.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from anabranch.core import errors
from anabranch.core.graph import composites
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graphdef import graph_util
from anabranch.core.graphdef.import_graph import import_graph_def
from anabranch.core.values import dtypes
from anabranch.core.values.tensor_proto import make_ndarray
from anabranch.core.values.tensor_spec import TensorSpec
from anabranch.eager.function import Function
from anabranch.saved_model import files
from anabranch.saved_model.exporting import COLLECTION, _filling
from anabranch.train.saving.checkpoint_reader import NewCheckpointReader
from anabranch.variables.tracking import AutoTrackable
from anabranch.variables.variable import make_variable


def description(meta: Any) -> dict[str, Any] | None:
    """What :func:`save` told of a MetaGraph, if it wrote it."""
    told = meta.collection_def.get(COLLECTION)
    if told is None or not told.bytes_list.value:
        return None
    parsed: dict[str, Any] = json.loads(told.bytes_list.value[0])
    return parsed


class Revived(AutoTrackable):
    """A loaded model: its functions as attributes, lists of variables as they were called, and ``signatures``.

    Args:
        path: the model's folder.
        meta: its MetaGraph.
        told: the :func:`description` of it.
    """

    def __init__(self, path: str, meta: Any, told: dict[str, Any]) -> None:
        self._meta = meta
        self._nodes = {node.name: node for node in meta.graph_def.node}
        self._handles: dict[str, Any] = {}
        reader: Any = NewCheckpointReader(files.variables_prefix(path)) if told["variables"] else None
        own: dict[str, Any] = {}
        for name, item in told["variables"].items():
            value = reader.get_tensor(item["key"])
            variable: Any = make_variable(
                initial_value=value, trainable=item["trainable"], name=item["key"], use_resource=True
            )
            own[name] = variable
            self._handles[item["handle"]] = variable.handle
        for item in told["tables"]:
            self._handles[item["handle"]] = self._table(item)
        self.graph_variables = list(own.values())
        for name, item in told["endpoints"].items():
            outputs = item["outputs"]
            setattr(self, name, self._function(name, item["inputs"], outputs, _packing(item["structure"])))
        for name, names in told["lists"].items():
            if not hasattr(self, name):
                setattr(self, name, [own[one] for one in names])
        self.signatures = {name: self._signature(name, one) for name, one in meta.signature_def.items() if one.outputs}

    def _table(self, item: dict[str, str]) -> Any:
        node = self._nodes[item["handle"].partition(":")[0]]
        attrs = {"key_dtype": node.attr["key_dtype"].type, "value_dtype": node.attr["value_dtype"].type}
        handle = build(node.op, shared_name=current_builder().resource_name(node.name), **attrs)
        keys, values = (make_ndarray(self._nodes[item[part]].attr["value"].tensor) for part in ("keys", "values"))
        build(_filling(node.op), handle, keys, values)
        return handle

    def _spec(self, tensor_name: str) -> TensorSpec:
        node = self._nodes[tensor_name.partition(":")[0]]
        shape = node.attr["shape"].shape
        return TensorSpec(
            None if shape.unknown_rank else [None if dim.size < 0 else dim.size for dim in shape.dim],
            dtypes.as_dtype(node.attr["dtype"].type),
            node.name.rpartition("/")[2],
        )

    def _function(self, name: str, inputs: list[str], outputs: list[str], pack: Callable[[list[Any]], Any]) -> Any:
        graph_def = graph_util.extract_sub_graph(self._meta.graph_def, [one.partition(":")[0] for one in outputs])
        there = {node.name for node in graph_def.node}
        handles = {one: handle for one, handle in self._handles.items() if one.partition(":")[0] in there}
        replaced_nodes = {one.partition(":")[0] for one in (*inputs, *handles)}
        kept = [node for node in graph_def.node if node.name not in replaced_nodes]
        del graph_def.node[:]
        graph_def.node.extend(kept)

        def run(*tensors: Any) -> Any:
            graph: Any = current_builder()
            replaced = {one: graph.adopt(handle) for one, handle in handles.items()}
            replaced.update(
                {one: tensor for one, tensor in zip(inputs, tensors, strict=True) if one.partition(":")[0] in there}
            )
            return pack(import_graph_def(graph_def, replaced, outputs, name=""))  # type: ignore[arg-type]

        run.__name__ = name
        return _Endpoint(run, tuple([self._spec(one) for one in inputs]))

    def _signature(self, name: str, definition: Any) -> Any:
        names, keys = sorted(definition.inputs), sorted(definition.outputs)
        endpoint = self._function(
            name,
            [definition.inputs[one].name for one in names],
            [definition.outputs[one].name for one in keys],
            lambda values: dict(zip(keys, values, strict=True)),
        )
        endpoint.argument_names = names
        return endpoint


class _Endpoint(Function):
    """A function of the model; takes structures of tensors, in the order of their flat form."""

    argument_names: list[str] | None = None

    def __init__(self, python_function: Callable[..., Any], signature: tuple[Any, ...]) -> None:
        super().__init__(python_function, signature, autograph=False)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self.argument_names is not None and kwargs:
            args, kwargs = (*args, *[kwargs.pop(name) for name in self.argument_names if name in kwargs]), kwargs
        tensors = composites.flatten((args, kwargs))
        wanted: Any = self.input_signature
        if len(tensors) != len(wanted):
            raise TypeError(
                errors.message(f"{len(tensors)} tensors for {self.__name__}", f"{len(wanted)} tensors", f"{wanted}")  # type: ignore[attr-defined]
            )
        return super().__call__(*tensors)


def _packing(structure: Any) -> Callable[[list[Any]], Any]:
    """A function that makes a structure of results, as :func:`save` told it, of the results in a row."""

    def pack(values: list[Any], part: Any = structure) -> Any:
        if not isinstance(part, list):
            return None if part is None else values[part]
        kind, parts = part
        if kind == "dict":
            return {key: pack(values, one) for key, one in parts}
        made = [pack(values, one) for one in parts]
        return made if kind == "list" else tuple(made)

    return pack
