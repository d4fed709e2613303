"""The object graph of a SavedModel as it is written: objects, their variables and tables, and functions over them.

The objects that attributes lead to from a root become nodes: variables, lists, dictionaries, tables, assets, functions,
and objects of the program, of which a loaded model knows the attributes alone. A traced function becomes a function of
the MetaGraph's library. Its arguments are those of the trace, then what it takes from outside, each of which is a
node: a variable, a table, an asset or a constant. A node that no attribute leads to would get no value, so a variable
that only functions know becomes an attribute of the root.

The same variables and functions stand in the MetaGraph's graph, for programs of TensorFlow 1 and servers, which know
signatures alone. The checkpoint has one key for a variable, which both find: the way of attributes that leads to it.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.graph import body_ops
from anabranch.core.graph.build import build, build_operation
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.convert import constant
from anabranch.core.graph.tensor import TensorLike
from anabranch.core.graphdef import attr_values
from anabranch.core.graphdef.function_def import function_name, implied_control_outputs
from anabranch.core.graphdef.import_graph import import_graph_def
from anabranch.core.protos import object_graph_pb2
from anabranch.core.values import nest, shapes
from anabranch.core.values.tensor_spec import TensorSpec
from anabranch.eager.concrete_function import ConcreteFunction
from anabranch.eager.function import Function
from anabranch.eager.mode import EAGER
from anabranch.ops.array.public_shapes import zeros
from anabranch.ops.array.sources import placeholder
from anabranch.ops.control.bodies import local
from anabranch.saved_model.asset import Asset
from anabranch.saved_model.object_graph import CHECKPOINT_KEY
from anabranch.saved_model.revived import RevivedFunction, RevivedSignature
from anabranch.saved_model.structures import encoded
from anabranch.train.saving.saveable import ResourceVariableSaveable, SaveableObject, SaveSpec
from anabranch.train.saving.trackable import escaped
from anabranch.variables.tracking import children
from anabranch.variables.variable import Variable, make_variable

_WRAPPERS = {list: "trackable_list_wrapper", dict: "trackable_dict_wrapper", tuple: "trackable_tuple_wrapper"}
_ARGUMENTS = ("args", "varargs", "varkw", "defaults", "kwonlyargs", "kwonlydefaults", "annotations")


def functions_of(item: Any) -> dict[str, Any]:
    """The traced functions among an object's attributes, by name."""
    if isinstance(item, (list, tuple, dict, Variable)):
        return {}
    own = vars(item) if hasattr(item, "__dict__") else {}
    names = [*own, *[name for kind in reversed(type(item).__mro__) for name in vars(kind)]]
    functions = {}
    for name in dict.fromkeys(names):
        value = own.get(name)
        if value is None and any(isinstance(vars(kind).get(name), Function) for kind in type(item).__mro__):
            value = getattr(item, name)
        if isinstance(value, (Function, ConcreteFunction)):
            functions[name] = value
        elif isinstance(value, (RevivedFunction, RevivedSignature)):
            raise errors.UnimplementedError(
                None,
                None,
                errors.message(
                    f"an object to be saved whose function {name!r} was loaded from a model",
                    "functions of the program",
                    "a tf.function of the program that calls it",
                ),
            )
    return functions


def filling(type_name: str) -> str:
    """The op that fills a table of that type."""
    return "LookupTableImportV2" if "Mutable" in type_name else "InitializeTableV2"


class ObjectWriter:
    """The objects that one leads to, written into a graph and a ``SavedObjectGraph``.

    Args:
        session: a session of the graph that is being built, in which variables get their values.
        root: the object.
        signatures: traced functions by name.
    """

    def __init__(self, session: Any, root: Any, signatures: Mapping[str, ConcreteFunction]) -> None:
        self._session = session
        self._graph: Any = session.graph
        self.proto = object_graph_pb2.SavedObjectGraph()
        self.signature_tensors: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {}
        """Inputs and outputs of each signature in the graph, by name."""
        self.assets: list[Any] = []
        """A constant with the path of each asset, in the order of their numbers."""
        self._numbers: dict[int, int] = {}
        self._items: list[Any] = []
        self._outer: dict[int, Any] = {}
        """The graph's tensor that stands for a value or handle of the process, by its identity."""
        self._node_of: dict[Any, int] = {}
        """The node that a tensor of the graph stands for."""
        self._variables: dict[int, Any] = {}
        self._kept: list[Any] = []
        self._names: set[str] = set()
        self._late_functions: list[tuple[int, Any]] = []
        self._node(root)
        self._follow()
        for item in list(self._items):
            if isinstance(item, Variable):
                self._variable(item)
            elif isinstance(item, Asset):
                self._asset(item)
        for number, function in self._late_functions:
            self._write_function(number, function)
        self._write_signatures(signatures)
        self._number_slots()

    # ---------------------------------------------------------------------------------------------------------- objects
    def _node(self, item: Any) -> int:
        """The number of an object's node."""
        held = getattr(item, "value", None) if isinstance(item, TensorLike) else None
        if isinstance(held, Variable) and not isinstance(item, Variable):  # a library's own class for variables
            item = held
        known = self._numbers.get(id(item))
        if known is None:
            known = self._numbers[id(item)] = len(self._items)
            self._items.append(item)
            self.proto.nodes.add()
        return known

    def _blank(self) -> int:
        return self._node(object())

    def _link(self, parent: int, name: str, child: int) -> None:
        self.proto.nodes[parent].children.add(node_id=child, local_name=name)

    def _link_to_root(self, name: str, child: int) -> None:
        """Make what only functions know an attribute of the root."""
        taken = {reference.local_name for reference in self.proto.nodes[0].children}
        own, count = name, 0
        while own in taken:
            count += 1
            own = f"{name}_{count}"
        self._link(0, own, child)

    def _follow(self) -> None:
        number = 0
        while number < len(self._items):
            item, node = self._items[number], self.proto.nodes[number]
            if isinstance(item, (Function, ConcreteFunction)):
                self._late_functions.append((number, item))
            elif not isinstance(item, (Variable, Asset)):
                wrapper = next((name for kind, name in _WRAPPERS.items() if isinstance(item, kind)), None)
                node.user_object.identifier = wrapper or "_generic_user_object"
                node.user_object.version.producer = node.user_object.version.min_consumer = 1
                held = {**children(item), **functions_of(item)}
                for name, child in held.items():
                    self._link(number, name, self._node(child))
            number += 1

    def _variable(self, variable: Any) -> Any:
        known = self._variables.get(id(variable))
        if known is not None:
            return known
        if id(variable) not in self._numbers:  # that only a function knows
            number = self._node(variable)
            self._link_to_root("captured_variable", number)
        number = self._numbers[id(variable)]
        with EAGER.as_default():
            value = variable.numpy()
        own_name = variable.op.name if getattr(variable, "op", None) is not None else variable.name.partition(":")[0]
        dtype = variable.dtype.base
        shape = shapes.as_raw(variable.shape)
        with self._graph.as_default():
            made: Any = make_variable(
                initial_value=lambda: zeros(np.shape(value), dtype),
                trainable=variable.trainable,
                name=own_name,
                dtype=dtype,
                shape=shape,
                validate_shape=shape is not None and None not in shape,
                use_resource=True,
            )
            made.load(value, self._session)
        saved = self.proto.nodes[number].variable
        saved.dtype, saved.trainable, saved.name = dtype.as_datatype_enum, bool(variable.trainable), own_name
        saved.shape.CopyFrom(attr_values.shape_proto(shape))
        self._variables[id(variable)] = made
        self._node_of[made._handle_tensor()] = number
        return made

    def _asset(self, asset: Asset) -> Any:
        with EAGER.as_default():
            path = asset.asset_path
        known = self._outer.get(id(path))
        if known is None:
            with self._graph.as_default():
                known = self._outer[id(path)] = constant(path.numpy(), path.dtype, name="asset_path")
            self._kept.append(path)
            number = self._node(asset)
            self.proto.nodes[number].asset.asset_file_def_index = len(self.assets)
            self.assets.append(known)
            self._node_of[known] = number
        return known

    # --------------------------------------------------------------------------------------------------------- captures
    def _handle(self, outer: Any, inner: Any) -> Any:
        """The handle, in the model's graph, of a resource of the process."""
        kind = inner.op.definition.makes
        if kind == "variable":
            return self._variable(outer._variable())._handle_tensor()
        known = self._outer.get(id(outer))
        if known is None:
            if kind != "table":
                raise errors.UnimplementedError(
                    None,
                    inner.op,
                    errors.message(
                        f"a function that uses {inner.op.name!r} ({inner.op.type}), a {kind}",
                        "variables and tables",
                        "pass what it gives as an argument",
                    ),
                )
            known = self._outer[id(outer)] = self._table(outer, inner)
            self._kept.append(outer)
        return known

    def _constant(self, outer: Any) -> Any:
        known = self._outer.get(id(outer))
        if known is None:
            known = self._outer[id(outer)] = constant(outer._array(), outer.dtype, name="captured")
            self._kept.append(outer)
            self._constant_node(known)
        return known

    def _constant_node(self, tensor: Any) -> None:
        number = self._blank()
        self.proto.nodes[number].constant.operation = tensor.op.name
        self._node_of[tensor] = number

    def _table(self, outer: Any, inner: Any) -> Any:
        definition, attrs = inner.op.definition, dict(inner.op._attrs)
        number = self._blank()
        attrs["shared_name"] = f"table_{number}"
        kinds = {"Tkeys": attrs["key_dtype"], "Tvalues": attrs["value_dtype"]}
        with EAGER.as_default():
            keys, values = build("LookupTableExportV2", outer, **kinds)
        contents = [constant(part._array(), part.dtype, name="table_contents") for part in (keys, values)]
        handle = build(definition.type_name, name=attrs["shared_name"], **attrs)
        self._node_of[handle] = number
        for part in contents:
            self._constant_node(part)
        fill = filling(definition.type_name)
        self._graph.add_to_collection(GraphKeys.TABLE_INITIALIZERS, build(fill, handle, *contents))

        def initialized() -> list[Any]:
            build(fill, handle, *contents)
            return [constant(1)]

        made = {
            "_create_resource": lambda: [build(definition.type_name, **attrs)],
            "_initialize": initialized,
            "_destroy_resource": lambda: [constant(1)],
        }
        self.proto.nodes[number].resource.SetInParent()
        for name, make in made.items():
            library_name, _, outputs = self._library_function(name.strip("_"), [], make)
            described = self.proto.concrete_functions[library_name]
            described.canonicalized_input_signature.CopyFrom(encoded(((), {})))
            specs = [TensorSpec(None if t.dtype.base.np is None else t.shape, t.dtype.base) for t in outputs]
            described.output_signature.CopyFrom(encoded(specs[0]))
            child = self._blank()
            self.proto.nodes[child].function.concrete_functions.append(library_name)
            self._write_parameters(self.proto.nodes[child].function.function_spec, inspect.Signature(), None)
            self._link(number, name, child)
        self._link_to_root("captured_table", number)
        return handle

    # -------------------------------------------------------------------------------------------------------- functions
    def _library_function(self, name: str, specs: list[TensorSpec], make: Any) -> tuple[str, list[Any], list[Any]]:
        """A function of the library: its name, and the arguments and results of a call of it in the graph.

        Args:
            name: part of its name.
            specs: its arguments.
            make: gives its results, within its body, from its arguments.
        """
        base = "__inference_" + "".join(c if c.isalnum() else "_" for c in name)
        full, count = base, 0
        while full in self._names:
            count += 1
            full = f"{base}_{count}"
        self._names.add(full)
        graph = self._graph
        with graph.as_default(), graph.name_scope(None), graph.name_scope(full.lstrip("_")) as scope:
            tensors = [placeholder(spec.dtype, spec.shape, name=spec.name or "x") for spec in specs]
            body = graph.new_body(full)
            body.runs_effects = True
            with graph.building(body), graph.control_dependencies(None):
                arguments = [
                    body.add_arg(spec.dtype.base, spec.shape, (spec.name or "x").rpartition("/")[2]) for spec in specs
                ]
                results = [build("Identity", local(body, tensor)) for tensor in make(*arguments)]
                body.outputs = results
            body.control_outputs += implied_control_outputs(body)
            captured = body_ops.line_up([body])
            kind = "StatefulPartitionedCall" if body_ops.is_stateful(body) else "PartitionedCall"
            attrs = {"f": body, "Tout": [output.dtype.base for output in results]}
            op = build_operation(kind, [tensors + captured], attrs, scope)
            body_ops.own(op)
        library_name = function_name(body)
        described = self.proto.concrete_functions[library_name]
        for tensor in captured:
            if tensor not in self._node_of:  # a small constant of the body around
                self._constant_node(tensor)
            described.bound_inputs.append(self._node_of[tensor])
        return library_name, tensors, list(op._outputs)

    def _traced(self, function: ConcreteFunction, order: list[int], chosen: list[int]) -> Any:
        """What builds a traced function in a body, its arguments and results in an order."""
        traced = function._function

        def make(*arguments: Any) -> list[Any]:
            replaced: dict[str, Any] = {
                traced.arguments[place].name: argument for place, argument in zip(order, arguments, strict=True)
            }
            with self._graph.building(self._graph.root), self._graph.control_dependencies(None):
                outside = {inner.name: self._handle(outer, inner) for outer, inner in traced.handles}
                outside.update({inner.name: self._constant(outer) for outer, inner in traced.captured})
            body = self._graph.current_body
            replaced.update({name: body.capture(tensor) for name, tensor in outside.items()})
            wanted = [traced.results[place].name for place in chosen]
            effects = [op.name for op in traced.effects]
            elements: Any = import_graph_def(function.graph.as_graph_def(), replaced, [*wanted, *effects], name="run")
            return list(elements[: len(wanted)])

        return make

    def _concrete(self, name: str, function: ConcreteFunction) -> str:
        traced = function._function
        specs = [TensorSpec(t._shape, t.dtype.base, t.op.name) for t in traced.arguments]
        count = len(traced.results)
        make = self._traced(function, list(range(len(specs))), list(range(count)))
        given = encoded(function.structured_input_signature)
        returned = encoded(_returned(function))
        library_name, _, _ = self._library_function(name, specs, make)
        described = self.proto.concrete_functions[library_name]
        described.canonicalized_input_signature.CopyFrom(given)
        described.output_signature.CopyFrom(returned)
        return library_name

    def _write_function(self, number: int, function: Any) -> None:
        if isinstance(function, ConcreteFunction):
            bare = self.proto.nodes[number].bare_concrete_function
            bare.concrete_function_name = self._concrete(function.name, function)
            names = [tensor.op.name for tensor in function._function.arguments]
            bare.argument_keywords.extend(names)
            bare.allowed_positional_arguments = len(names)
            return
        if function.input_signature is not None:
            function.get_concrete_function()
        saved = self.proto.nodes[number].function
        saved.SetInParent()
        for trace in function._list_all_concrete_functions():
            saved.concrete_functions.append(self._concrete(function._name, trace))
        signature = function._parameters or inspect.Signature()
        self._write_parameters(saved.function_spec, signature, function.input_signature)

    @staticmethod
    def _write_parameters(spec: Any, signature: inspect.Signature, input_signature: Any) -> None:
        """The parameters of a function as TensorFlow 2 has them (``inspect.FullArgSpec``)."""
        kinds = inspect.Parameter
        parameters = list(signature.parameters.values())
        plain = [p for p in parameters if p.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD)]
        named = [p for p in parameters if p.kind is kinds.KEYWORD_ONLY]

        def only(kind: Any) -> str | None:
            return next((p.name for p in parameters if p.kind is kind), None)

        values: tuple[Any, ...] = (
            [p.name for p in plain],
            only(kinds.VAR_POSITIONAL),
            only(kinds.VAR_KEYWORD),
            tuple([_plain(p.default) for p in plain if p.default is not kinds.empty]) or None,
            [p.name for p in named],
            {p.name: _plain(p.default) for p in named if p.default is not kinds.empty} or None,
            {},
        )
        held = spec.fullargspec.named_tuple_value
        held.name = "FullArgSpec"
        for key, value in zip(_ARGUMENTS, values, strict=True):
            held.values.add(key=key).value.CopyFrom(encoded(value))
        spec.input_signature.CopyFrom(encoded(None if input_signature is None else tuple(input_signature)))

    def _write_signatures(self, signatures: Mapping[str, ConcreteFunction]) -> None:
        number = self._blank()
        node = self.proto.nodes[number].user_object
        node.identifier = "signature_map"
        node.version.producer = node.version.min_consumer = 1
        self._link(0, "signatures", number)
        for name, function in signatures.items():
            traced = function._function
            inputs, outputs = input_names(function), output_names(function)
            order = sorted(range(len(inputs)), key=inputs.__getitem__)
            chosen = sorted(range(len(outputs)), key=outputs.__getitem__)
            specs = [TensorSpec(traced.arguments[i]._shape, traced.arguments[i].dtype.base, inputs[i]) for i in order]
            results = {
                outputs[i]: TensorSpec(traced.results[i]._shape, traced.results[i].dtype.base, outputs[i])
                for i in chosen
            }
            library_name, given, returned = self._library_function(
                f"signature_wrapper_{name}", specs, self._traced(function, order, chosen)
            )
            described = self.proto.concrete_functions[library_name]
            described.canonicalized_input_signature.CopyFrom(encoded(((), {spec.name: spec for spec in specs})))
            described.output_signature.CopyFrom(encoded(results))
            child = self._blank()
            bare = self.proto.nodes[child].bare_concrete_function
            bare.concrete_function_name = library_name
            bare.argument_keywords.extend([inputs[i] for i in order])
            bare.allowed_positional_arguments = 1 if len(inputs) == 1 else 0
            self._link(number, name, child)
            named_inputs = {inputs[i]: tensor for i, tensor in zip(order, given, strict=True)}
            named_outputs = {outputs[i]: tensor for i, tensor in zip(chosen, returned, strict=True)}
            self.signature_tensors[name] = named_inputs, named_outputs

    # ------------------------------------------------------------------------------------------------------- checkpoint
    def _number_slots(self) -> None:
        """Keys of variables in the checkpoint: the shortest way of attributes that leads to each."""
        paths, waiting = {0: ""}, [0]
        while waiting:
            number = waiting.pop(0)
            for reference in self.proto.nodes[number].children:
                if reference.node_id not in paths:
                    paths[reference.node_id] = f"{paths[number]}/{escaped(reference.local_name)}".lstrip("/")
                    waiting.append(reference.node_id)
        self.keys = {
            f"{paths[self._numbers[identity]]}/.ATTRIBUTES/VARIABLE_VALUE": made
            for identity, made in self._variables.items()
        }
        tracked = object_graph_pb2.TrackableObjectGraph()
        for number, node in enumerate(self.proto.nodes):
            own = tracked.nodes.add()
            own.children.extend(node.children)
            if node.WhichOneof("kind") == "variable":
                own.attributes.add(
                    name="VARIABLE_VALUE",
                    full_name=node.variable.name,
                    checkpoint_key=f"{paths[number]}/.ATTRIBUTES/VARIABLE_VALUE",
                )
        self._tracked = tracked.SerializeToString()

    def saved_values(self) -> list[Any]:
        """What a saver writes: the variables by their keys, and the checkpoint's object graph."""
        written = [ResourceVariableSaveable(variable, "", key) for key, variable in self.keys.items()]
        return [*written, _ObjectGraphText(constant(self._tracked, name="object_graph"))]


class _ObjectGraphText(SaveableObject):
    """The object graph of a checkpoint, which is written and never restored."""

    def __init__(self, tensor: Any) -> None:
        super().__init__(tensor, [SaveSpec(tensor, "", CHECKPOINT_KEY)], CHECKPOINT_KEY)

    def restore(self, restored_tensors: list[Any], restored_shapes: list[Any] | None) -> Any:
        """Nothing."""
        del restored_tensors, restored_shapes
        return build_operation("NoOp", [], {}, None)


def _plain(value: Any) -> Any:
    try:
        encoded(value)
    except errors.UnimplementedError:
        return None
    return value


def _returned(function: ConcreteFunction) -> Any:
    """The structure of a trace's results, with a `TensorSpec` for each tensor."""
    traced, places = function._function, function._places
    listed = iter(places if isinstance(places, list) else [places])

    def spec(leaf: Any) -> Any:
        place = next(listed)
        if isinstance(place, tuple):
            return leaf  # several tensors, which `encoded` refuses
        if place is None:
            return None
        tensor = traced.results[place]
        return TensorSpec(tensor._shape, tensor.dtype.base)

    return nest.map_structure(spec, function.structured_outputs)


def input_names(function: ConcreteFunction) -> list[str]:
    """A name for each argument of a trace."""
    names = [tensor.op.name.rpartition("/")[2] for tensor in function._function.arguments]
    return [name if names.count(name) == 1 else f"{name}_{i}" for i, name in enumerate(names)]


def output_names(function: ConcreteFunction) -> list[str]:
    """The keys of a function that returns a dictionary of tensors; ``output_0`` and so on otherwise."""
    structured = function.structured_outputs
    count = len(function._function.results)
    if isinstance(structured, Mapping) and len(structured) == count:
        return [str(key) for key in sorted(structured)]
    return [f"output_{i}" for i in range(count)]
