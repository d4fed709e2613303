"""A SavedModel of TensorFlow 2 where ops run at once: its objects, with functions to call again.

Each node of the object graph becomes an object: a variable of the process with its value from the checkpoint, a table,
the path of an asset, a constant, a list or dictionary, or an object whose attributes are what the node leads to. A
function is the library function without calls (:mod:`anabranch.saved_model.inline`), traced into a function of the
process when it is called first, with the process's variables and tables in place of the arguments that it takes from
outside. So it can be differentiated and used in other functions. None of the model's own functions runs while it is
loaded but those that fill tables.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.graph import composites
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.graph.tensor import Tensor
from anabranch.core.graphdef import attr_values, calls_by_name
from anabranch.core.values import nest, shapes
from anabranch.core.values.tensor_spec import TensorSpec
from anabranch.eager import recording
from anabranch.eager.function import Function
from anabranch.eager.mode import EAGER
from anabranch.formats.bundle_reader import BundleReader
from anabranch.ragged.ragged_tensor import RaggedTensor
from anabranch.saved_model import files
from anabranch.saved_model.asset import Asset
from anabranch.saved_model.composite import Leaf
from anabranch.saved_model.flat_import import add_flat, constant_of, needed_starts
from anabranch.saved_model.inline import Inliner
from anabranch.saved_model.object_graph import CHECKPOINT_KEY, ObjectGraph, scalar_bytes, spec_of
from anabranch.saved_model.structures import decoded
from anabranch.variables.tracking import AutoTrackable
from anabranch.variables.variable import Variable, make_variable

_TENSOR_OF = {"variable": "handle", "asset": "asset_path", "resource": "resource_handle"}
"""The attribute with the tensor that functions take, by the kind of an object."""
_LISTS = ("trackable_list_wrapper", "trackable_tuple_wrapper")


class RevivedObject(AutoTrackable):
    """An object of a loaded model: functions, variables and other objects as attributes."""

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        function = vars(self).get("__call__")
        if function is None:
            raise TypeError(
                errors.message(
                    "a call of an object of a loaded model that has no function __call__",
                    f"one of its attributes: {sorted(vars(self))}",
                    "model.signatures['serving_default'](...)",
                )
            )
        return function(*args, **kwargs)


def revive(path: str, meta: Any) -> Any:
    """The object that a model was saved from, as far as its object graph tells.

    Args:
        path: the model's folder.
        meta: its MetaGraph.
    """
    return _Reviver(path, meta).item(0)


class _Reviver:
    def __init__(self, path: str, meta: Any) -> None:
        self.path, self.meta = path, meta
        self.objects = ObjectGraph(meta)
        library = calls_by_name.rewritten(meta.graph_def).library
        self.inliner = Inliner({item.signature.name: item for item in library.function})
        self.versions = meta.graph_def.versions
        self._made: dict[int, Any] = {}
        self._traces: dict[str, _Trace] = {}
        self._reader: Any = None
        self._keys: Any = None

    # ---------------------------------------------------------------------------------------------------------- objects
    def item(self, node: int) -> Any:
        """The object of a node."""
        if node not in self._made:
            saved = self.objects.nodes[node]
            kind = saved.WhichOneof("kind")
            make = getattr(self, f"_make_{kind}", None)
            if make is None:
                raise NotImplementedError(
                    errors.message(
                        f"a model with an object of kind {kind}",
                        "variables, tables, constants, assets, functions and objects of these",
                        "a session: with tf.Graph().as_default(): model = tf.saved_model.load(path)",
                    )
                )
            with EAGER.as_default(), recording.stopped():  # also while a function is traced that needs it first
                make(node, saved)
        return self._made[node]

    def _make_user_object(self, node: int, saved: Any) -> None:
        identifier = saved.user_object.identifier
        children = self.objects.children(node)
        if identifier in _LISTS:
            held: list[Any] = []
            self._made[node] = held
            held += [self.item(children[name]) for name in sorted(children, key=_number) if name.isdigit()]
            if identifier == _LISTS[1]:
                self._made[node] = tuple(held)
        elif identifier in ("trackable_dict_wrapper", "signature_map"):
            mapping: dict[str, Any] = {}
            self._made[node] = mapping
            mapping.update({name: self.item(child) for name, child in children.items()})
        else:
            made = self._made[node] = RevivedObject()
            for name, child in children.items():
                setattr(made, name, self.item(child))

    def _make_variable(self, node: int, saved: Any) -> None:
        proto = saved.variable
        dtype, shape = spec_of(proto)
        if self._reader is None:
            self._reader = BundleReader(files.variables_prefix(self.path))
            self._keys = self.objects.keys(scalar_bytes(self._reader.read(CHECKPOINT_KEY)))
        key = self._keys.get(node, {}).get("VARIABLE_VALUE")
        if key is None or key not in self._reader.tensors:
            raise errors.NotFoundError(
                None,
                None,
                errors.message(
                    f"a SavedModel whose checkpoint has no value for {proto.name!r}",
                    "a value for each variable of its objects",
                    "save the model again",
                ),
            )
        self._made[node] = make_variable(
            self._reader.read(key),
            trainable=proto.trainable,
            name=proto.name or "Variable",
            dtype=dtype,
            shape=shape,
            validate_shape=shape is not None and None not in shape,
            use_resource=True,
        )

    def _make_constant(self, node: int, saved: Any) -> None:
        wanted = saved.constant.operation
        proto = constant_of(self.meta, wanted)
        if proto is None:
            raise ValueError(
                errors.message(
                    f"a captured constant {wanted!r} that is not in the graph",
                    "a Const node of the MetaGraph",
                    "save the model again: its description is not whole",
                )
            )
        array = attr_values.read_array(proto.attr["value"].tensor)
        self._made[node] = build("Const", value=array, dtype=proto.attr["dtype"].type)

    def _make_asset(self, node: int, saved: Any) -> None:
        listed, index = self.meta.asset_file_def, saved.asset.asset_file_def_index
        if not 0 <= index < len(listed):
            raise ValueError(
                errors.message(f"asset {index}", f"one of the {len(listed)} assets", "save the model again")
            )
        self._made[node] = Asset(constant(files.asset_path(self.path, listed[index].filename)))

    def _make_resource(self, node: int, saved: Any) -> None:
        del saved
        create = self.objects.child(node, "_create_resource")
        names = [] if create is None else self.objects.concrete(create)
        nodes = self.inliner.flat(names[0]).nodes if names else []
        makers = [one for one in nodes if "key_dtype" in one.attr and "value_dtype" in one.attr]
        if len(makers) != 1:
            raise NotImplementedError(
                errors.message(f"a resource made by {names}", "a table", "save a model whose functions do without it")
            )
        attrs = {key: attr_values.from_proto(value) for key, value in makers[0].attr.items() if not key.startswith("_")}
        attrs["shared_name"] = current_builder().resource_name(makers[0].name)
        attrs.pop("use_node_name_sharing", None)
        table = self._made[node] = RevivedObject()
        table.resource_handle = build(makers[0].op, **attrs)
        initialize = self.objects.child(node, "_initialize")
        for name in self.objects.concrete(initialize) if initialize is not None else []:
            self.trace(name).call([])

    def _make_function(self, node: int, saved: Any) -> None:
        traces = [self.trace(name) for name in saved.function.concrete_functions]
        self._made[node] = RevivedFunction(traces, decoded(saved.function.function_spec.fullargspec))

    def _make_bare_concrete_function(self, node: int, saved: Any) -> None:
        bare = saved.bare_concrete_function
        trace = self.trace(bare.concrete_function_name)
        self._made[node] = RevivedSignature(trace, list(bare.argument_keywords))

    def _make_captured_tensor(self, node: int, saved: Any) -> None:
        """Nothing: a tensor of another function, which that function alone gives."""
        del saved
        self._made[node] = None

    # -------------------------------------------------------------------------------------------------------- functions
    def trace(self, name: str) -> _Trace:
        """What the function ``name`` of the library does."""
        known = self._traces.get(name)
        if known is None:
            known = self._traces[name] = _Trace(self, name)
        return known

    def captured(self, node: int) -> Any:
        """The tensor that stands for a node as an argument of a function."""
        made = self.item(node)
        attribute = _TENSOR_OF.get(self.objects.nodes[node].WhichOneof("kind"))
        return made if attribute is None else getattr(made, attribute)


class _Trace:
    """One function of the library, as a function of the process.

    Attributes:
        arguments: ``(args, kwargs)`` with a `TensorSpec` for each tensor.
        results: the structure of its results, likewise.
    """

    def __init__(self, reviver: _Reviver, name: str) -> None:
        self._reviver, self.name = reviver, name
        described = reviver.objects.functions[name]
        self.arguments: Any = decoded(described.canonicalized_input_signature) or ((), {})
        self.results = decoded(described.output_signature)
        self.bound = reviver.objects.bound(name)
        self._function: Function | None = None

    @property
    def variables(self) -> tuple[Any, ...]:
        """The variables that it captures."""
        nodes, reviver = self._reviver.objects.nodes, self._reviver
        return tuple([reviver.item(node) for node in self.bound if nodes[node].WhichOneof("kind") == "variable"])

    def call(self, tensors: list[Any]) -> Any:
        """The results for tensors."""
        if self._function is None:
            specs = [part for leaf in _leaves(self.arguments) for part in _specs_of(leaf)]
            self._function = Function(self._run, specs, autograph=False)
            self._function.__name__ = self.name  # type: ignore[attr-defined]
        values = self._function(*tensors)
        flat = [] if values is None else list(values)
        return _packed(self.results, iter(flat))

    def _run(self, *tensors: Any) -> Any:
        graph: Any = current_builder()
        reviver = self._reviver
        flat = reviver.inliner.flat(self.name)
        names = [arg.name for arg in flat.signature.input_arg]
        if len(names) != len(tensors) + len(self.bound):
            raise ValueError(
                errors.message(
                    f"function {self.name!r} with {len(names)} arguments, of {len(tensors)} inputs and "
                    f"{len(self.bound)} captures",
                    "an argument for each input and capture",
                    "save the model again: its description is not whole",
                )
            )
        needed = needed_starts(flat)
        outer: dict[str, Any] = dict(zip(names, tensors, strict=False))
        for name, node in zip(names[len(tensors) :], self.bound, strict=True):
            if name in needed:
                outer[name] = graph.adopt(reviver.captured(node))
        returned, _ = add_flat(reviver.inliner, reviver.versions, flat, outer, "")
        return returned or None


def _number(name: str) -> int:
    return int(name) if name.isdigit() else -1


def _leaves(structure: Any) -> list[Any]:
    """The specifications of tensors in a structure, in the order of a function's arguments."""
    if isinstance(structure, Mapping):
        return [leaf for key in sorted(structure) for leaf in _leaves(structure[key])]
    if isinstance(structure, Leaf):
        return [structure]
    if isinstance(structure, (list, tuple)):
        return [leaf for part in structure for leaf in _leaves(part)]
    return [structure] if isinstance(structure, TensorSpec) else []


def _specs_of(leaf: Any) -> list[TensorSpec]:
    return [leaf] if isinstance(leaf, TensorSpec) else [TensorSpec(shape, dtype) for dtype, shape in leaf.parts]


def _packed(structure: Any, tensors: Any) -> Any:
    """A structure of results with tensors in place of specifications."""
    if isinstance(structure, Mapping):
        values = {key: _packed(structure[key], tensors) for key in sorted(structure)}
        return {key: values[key] for key in structure}
    if isinstance(structure, TensorSpec):
        return next(tensors)
    if isinstance(structure, Leaf):
        parts = [next(tensors) for _ in structure.parts]
        return (
            SparseTensor(*parts)
            if structure.kind == "sparse"
            else RaggedTensor.from_nested_row_splits(parts[0], parts[1:])
        )
    if isinstance(structure, (list, tuple)):
        return nest.like(structure, [_packed(part, tensors) for part in structure])
    return structure


def _fits(structure: Any, given: Any, convert: bool, tensors: list[Any]) -> bool:
    """Whether arguments are of a structure; what is a tensor of it is appended to ``tensors``."""
    if isinstance(structure, TensorSpec):
        if isinstance(given, Variable):
            given = convert_to_tensor(given)
        if not isinstance(given, (Tensor, np.ndarray)) and not convert:
            return False
        try:
            tensor = convert_to_tensor(given, structure.dtype if convert else None)
        except (TypeError, ValueError):
            return False
        tensors.append(tensor)
        return tensor.dtype.base == structure.dtype.base and structure.shape.is_compatible_with(tensor.shape)
    if isinstance(structure, Leaf):
        parts = [part for part in composites.parts(given) if part is not None] if composites.is_composite(given) else []
        tensors += parts
        return len(parts) == len(structure.parts) and all(
            part.dtype.base == dtype.base and shapes.is_compatible(shapes.as_raw(part.shape), shape)
            for part, (dtype, shape) in zip(parts, structure.parts, strict=True)
        )
    if isinstance(structure, Mapping):
        return (
            isinstance(given, Mapping)
            and sorted(given) == sorted(structure)
            and all(_fits(structure[key], given[key], convert, tensors) for key in sorted(structure))
        )
    if isinstance(structure, (list, tuple)):
        return (
            isinstance(given, (list, tuple))
            and len(given) == len(structure)
            and all(_fits(part, one, convert, tensors) for part, one in zip(structure, given, strict=True))
        )
    if isinstance(given, (Tensor, np.ndarray, Variable)):
        return False
    return bool(structure == given)


class RevivedTrace:
    """A trace of a function of a loaded model: called with tensors in its structure, it gives those of its results.

    Args:
        trace: the trace.
    """

    def __init__(self, trace: _Trace) -> None:
        self._trace = trace

    @property
    def structured_input_signature(self) -> Any:
        """Arguments and named arguments, as `TensorSpec`."""
        return self._trace.arguments

    @property
    def structured_outputs(self) -> Any:
        """The results, as `TensorSpec`."""
        return self._trace.results

    @property
    def variables(self) -> tuple[Any, ...]:
        """The variables of the model that it uses."""
        return self._trace.variables

    @property
    def trainable_variables(self) -> tuple[Any, ...]:
        """Those of them that optimizers change."""
        return tuple([variable for variable in self.variables if variable.trainable])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The results for these arguments."""
        tensors: list[Any] = []
        wanted, wanted_names = self._trace.arguments
        if not (_fits(wanted, args, True, tensors) and _fits(wanted_names, kwargs, True, tensors)):
            raise TypeError(
                errors.message(f"the arguments {args} and {kwargs}", f"{self._trace.arguments}", "tensors like these")
            )
        return self._trace.call(tensors)


class RevivedFunction:
    """A function of a loaded model, with the traces that were saved of it.

    Args:
        traces: the traces.
        parameters: names of its parameters and their defaults (``inspect.FullArgSpec``).
    """

    def __init__(self, traces: list[_Trace], parameters: Any) -> None:
        self._traces = traces
        names = list(getattr(parameters, "args", None) or [])
        self._names = names[1:] if names[:1] == ["self"] else names
        defaults = tuple(getattr(parameters, "defaults", None) or ())
        self._defaults = dict(zip(self._names[len(self._names) - len(defaults) :], defaults, strict=False))
        self._keywords = dict(getattr(parameters, "kwonlydefaults", None) or {})

    @property
    def concrete_functions(self) -> list[RevivedTrace]:
        """Its traces."""
        return [RevivedTrace(trace) for trace in self._traces]

    def _bound(self, args: Any, kwargs: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
        named = {**self._keywords, **kwargs}
        values = list(args)
        for name in self._names[len(args) :]:
            if name in named:
                values.append(named.pop(name))
            elif name in self._defaults:
                values.append(self._defaults[name])
            else:
                break
        return tuple(values), named

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values, named = self._bound(args, kwargs)
        for convert in (False, True):
            for trace in self._traces:
                wanted, wanted_names = trace.arguments
                tensors: list[Any] = []
                # Of a function with an input signature a trace does not speak of parameters behind it.
                shown = values[: len(wanted)] if len(values) > len(wanted) >= len(args) else values
                if _fits(wanted, shown, convert, tensors) and _fits(wanted_names, named, convert, tensors):
                    return trace.call(tensors)
        raise ValueError(
            "Could not find matching function to call loaded from the SavedModel.\n"
            + errors.message(
                f"the arguments {values} and {named}",
                f"one of {[trace.arguments for trace in self._traces]}",
                "arguments of a saved trace; save the model with a trace for these",
            )
        )


class RevivedSignature(RevivedTrace):
    """A signature of a loaded model: tensors by name give tensors by name.

    Args:
        trace: its only trace.
        names: names of its arguments.
    """

    def __init__(self, trace: _Trace, names: list[str]) -> None:
        super().__init__(trace)
        self._names = names

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves = _leaves(self._trace.arguments)
        named = dict(zip(self._names, args, strict=False))
        named.update(kwargs)
        if len(args) > len(self._names) or sorted(named) != sorted(self._names):
            raise TypeError(
                errors.message(
                    f"{len(args)} arguments and {sorted(kwargs)}",
                    f"{leaves} by the names {self._names}",
                    f"signature({', '.join(f'{name}=...' for name in self._names)})",
                )
            )
        by_name = {leaf.name: leaf for leaf in leaves if isinstance(leaf, TensorSpec)}
        order = sorted(self._trace.arguments[1]) or self._names
        tensors = [convert_to_tensor(named[name], by_name[name].dtype if name in by_name else None) for name in order]
        return self._trace.call(tensors)


__all__ = ["RevivedFunction", "RevivedObject", "RevivedSignature", "RevivedTrace", "revive"]
