"""`anabranch.saved_model.load`: a SavedModel, of TensorFlow 1 or 2, as callables with named inputs.

Policy. The model gets a graph and a session of its own. Of a TensorFlow 2 model only what its signatures need is
built: each signature's function without calls (:mod:`anabranch.saved_model.inline`), pruned to its results and
effects, with captured handles taken from one set of variables and tables. Variables get their values from the
checkpoint directly; none of the model's own save and restore functions runs. A signature with op types that are not
defined here names them all, when it is called; the others can be used.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graphdef import attr_values, calls_by_name
from anabranch.formats.bundle_reader import BundleReader
from anabranch.ops.array.sources import placeholder
from anabranch.saved_model import constants, files, loader, revived, tensor_info
from anabranch.saved_model.composite import TENSOR, Leaf
from anabranch.saved_model.flat_import import add_flat, constant_of, needed_starts
from anabranch.saved_model.inline import Flat, Inliner
from anabranch.saved_model.object_graph import CHECKPOINT_KEY, ObjectGraph, leaves, scalar_bytes, spec_of
from anabranch.saved_model.signature import Signature, Unavailable
from anabranch.session import Session
from anabranch.variables.variable import make_variable

_VALUE = "VARIABLE_VALUE"


class LoadedModel:
    """A loaded SavedModel; :func:`load` makes it.

    Attributes:
        signatures: callables by name.
        graph: graph of the model.
        session: session with its variables.
        meta_graph: the MetaGraphDef that was loaded.
    """

    def __init__(self, path: str, meta: Any, config: Any) -> None:
        self.path = path
        self.meta_graph = meta
        self.graph = Graph()
        self.session = Session(graph=self.graph, config=config)
        self.signatures: dict[str, Any] = {}
        self._objects: _Objects | None = None
        self._functions: dict[tuple[str, int], Any] = {}

    @property
    def functions(self) -> dict[str, int]:
        """Functions of the model besides its signatures, by the attributes that hold them: how many traces each has."""
        return {} if self._objects is None else self._objects.functions()

    def function(self, name: str = "__call__", trace: int = 0) -> Any:
        """A function of a TensorFlow 2 model that is not a signature, such as the ``__call__`` of a Keras layer.

        Args:
            name: attribute of the model that holds it; those of attributes of attributes are joined by dots.
            trace: which of its traces; a trace holds for dtypes, shapes and Python values it was made with.

        Returns:
            A callable with named inputs, as in :attr:`signatures`.

        Raises:
            ValueError: there is no such function or trace.
        """
        count = self.functions.get(name, 0)
        if not 0 <= trace < count or self._objects is None:
            raise ValueError(
                errors.message(
                    f"function {name!r}, trace {trace}, of the model {self.path!r}",
                    f"one of {self.functions} (with 0 to n - 1 for its n traces)",
                    f"model.signatures: {sorted(self.signatures)}",
                )
            )
        if (name, trace) not in self._functions:
            self._functions[name, trace] = self._objects.function(name, trace)
        return self._functions[name, trace]

    @property
    def variables(self) -> list[Any]:
        """The variables of the model that its signatures use."""
        return self.graph.get_collection("variables")

    def __call__(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Call the signature ``serving_default``, or the only one."""
        if "serving_default" in self.signatures:
            return self.signatures["serving_default"](*args, **kwargs)
        if len(self.signatures) == 1:
            return next(iter(self.signatures.values()))(*args, **kwargs)
        if not self.signatures and self.functions.get("__call__") == 1:
            return self.function()(*args, **kwargs)
        raise TypeError(
            errors.message(
                f"a call of a model with signatures {sorted(self.signatures)} and functions {self.functions}",
                "the name of a signature or function of the model",
                f"model.signatures[{next(iter(self.signatures), 'name')!r}](...), model.function(name, trace)(...)",
            )
        )

    def close(self) -> None:
        """Free what the model holds."""
        self.session.close()

    def __enter__(self) -> LoadedModel:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<SavedModel {self.path!r} with signatures {sorted(self.signatures)}>"


@public("saved_model.load", "saved_model.load_v2")
def load(export_dir: Any, tags: Any = None, *args: Any, config: Any = None, **kwargs: Any) -> Any:
    """Load a SavedModel, of TensorFlow 1 or 2, and return it as callables with named inputs.

    Args:
        export_dir: the model's folder. (With a session first, as ``load(sess, tags, export_dir)``, this is
            `tf.saved_model.loader.load`.)
        tags: tags of the MetaGraph; the only one, or ``["serve"]``, if None.
        config: options of the model's session.

    Returns:
        A :class:`LoadedModel`: ``model.signatures["serving_default"](x=array)`` gives arrays by name. Where ops run at
        once, of a model of TensorFlow 2 or of :func:`tf.saved_model.save`, an object with the attributes of the one
        that was saved: its functions, variables, lists, dictionaries and ``signatures``.

    Raises:
        OSError: the folder holds no SavedModel. RuntimeError: no MetaGraph has these tags. DataLossError: a file is
        torn.
    """
    if hasattr(export_dir, "run") and hasattr(export_dir, "graph"):
        return loader.load(export_dir, tags, *args, **kwargs)
    if args or kwargs:
        raise TypeError(
            errors.message(
                f"arguments {[*args, *kwargs]} after the model's folder",
                "tags and config",
                "load(path, tags=['serve'])",
            )
        )
    path = _text(export_dir)
    meta = files.choose_meta_graph(files.read_saved_model(path), tags, path)
    of_objects = bool(meta.object_graph_def.nodes and meta.object_graph_def.concrete_functions)
    if meta.object_graph_def.nodes and not current_builder().defers:
        return revived.revive(path, meta)
    model = LoadedModel(path, meta, config)
    try:
        if of_objects:
            model._objects = _Objects(model)
            model._objects.build()
        else:
            _load_graph(model)
    except BaseException:
        model.close()
        raise
    return model


def _text(path: Any) -> str:
    text = getattr(path, "__fspath__", lambda: path)()
    return text.decode() if isinstance(text, bytes) else str(text)


# -------------------------------------------------------------------------------------------- a graph, as TensorFlow 1
def _load_graph(model: LoadedModel) -> None:
    meta = model.meta_graph
    try:
        loader.SavedModelLoader(model.path).load(model.session, list(meta.meta_info_def.tags))
        _add_signatures(model, meta)
    except KeyError as problem:
        raise ValueError(
            errors.message(
                f"a SavedModel that names what its graph does not have: {problem}",
                "names of the MetaGraph's operations and tensors",
                "save the model again: its description is not whole",
            )
        ) from None


def _add_signatures(model: LoadedModel, meta: Any) -> None:
    for name, signature in meta.signature_def.items():
        if name in (constants.INIT_OP_SIGNATURE_KEY, constants.TRAIN_OP_SIGNATURE_KEY):
            continue
        inputs, outputs = (
            {key: tensor_info.get_tensor_from_tensor_info(info, model.graph) for key, info in sorted(part.items())}
            for part in (signature.inputs, signature.outputs)
        )
        model.signatures[name] = Signature(name, model.session, inputs, outputs)


# ------------------------------------------------------------------------------------------ objects, as TensorFlow 2
class _Objects:
    """Build a model from its object graph."""

    def __init__(self, model: LoadedModel) -> None:
        self.model = model
        self.meta = model.meta_graph
        self.graph = model.graph
        self.session = model.session
        self.objects = ObjectGraph(self.meta)
        library = calls_by_name.rewritten(self.meta.graph_def).library
        self.inliner = Inliner({item.signature.name: item for item in library.function})
        self.tensors: dict[int, Tensor] = {}
        """What stands for each captured object."""
        self.unset: dict[int, tuple[Any, Tensor]] = {}
        """Variables without a value yet: variable and the placeholder of its value."""
        self.tables: list[int] = []
        """Tables that nothing has filled yet."""

    def build(self) -> None:
        """Make the signatures, with values in all that they capture."""
        signatures_node = self.objects.child(0, "signatures")
        with self.graph.as_default():
            for name, node in (self.objects.children(signatures_node) if signatures_node is not None else {}).items():
                self.model.signatures[name] = self._signature(name, node)
            self._set_values()

    def functions(self) -> dict[str, int]:
        """Numbers of traces of the functions that attributes of the root, and theirs, hold."""
        counts = {}
        for path, node in self._paths().items():
            count = len(self.objects.concrete(node))
            if count:
                counts[path] = count
        return counts

    def _paths(self) -> dict[str, int]:
        """Objects by the shortest way of attributes that leads to each; signatures and what Keras hides left out."""
        paths: dict[str, int] = {}
        seen = {0}
        waiting = [("", 0)]
        while waiting:
            path, node = waiting.pop(0)
            for name, child in self.objects.children(node).items():
                hidden = name.startswith("_") and name != "__call__"
                if child not in seen and not hidden and (path or name != "signatures"):
                    seen.add(child)
                    own = f"{path}.{name}" if path else name
                    paths[own] = child
                    if not self.objects.concrete(child):
                        waiting.append((own, child))
        return paths

    def function(self, path: str, trace: int) -> Signature:
        """Build a function that is not a signature."""
        function = self.objects.concrete(self._paths()[path])[trace]
        with self.graph.as_default():
            made = self._callable(path, function, None)
            self._set_values()
        return made

    def _set_values(self) -> None:
        """Give values to variables and tables that have none yet."""
        self._restore_variables()
        self._fill_tables()

    def _signature(self, name: str, node: int) -> Any:
        (function,) = self.objects.concrete(node) or (None,)
        if function is None:
            raise ValueError(
                errors.message(f"signature {name!r}, which is not a function", "a function", "save the model again")
            )
        info = self.meta.signature_def.get(name, None)
        try:
            return self._callable(name, function, info)
        except NotImplementedError as problem:
            return Unavailable(name, problem)

    def _callable(self, name: str, function: str, info: Any) -> Signature:
        flat = self.inliner.flat(function)
        described = self.objects.functions[function]
        given = leaves(described.canonicalized_input_signature)
        bound = self.objects.bound(function)
        arguments = flat.signature.input_arg
        count = sum(len(leaf.parts) for _, leaf in given)
        if count + len(bound) != len(arguments):
            raise ValueError(
                errors.message(
                    f"function {function!r} with {len(arguments)} arguments, of {count} inputs and "
                    f"{len(bound)} captures",
                    "an argument for each input and capture",
                    "save the model again: its description is not whole",
                )
            )
        needed = needed_starts(flat)
        inputs: dict[str, Any] = {}
        taken: dict[str, Leaf] = {}
        outer: dict[str, Tensor] = {}
        remaining = iter(arguments)
        with self.graph.name_scope(_identifier(name)):
            for label, leaf in given:
                key = label
                parts = []
                for (dtype, shape), arg in zip(leaf.parts, itertools.islice(remaining, len(leaf.parts)), strict=True):
                    key = key or arg.name
                    outer[arg.name] = placeholder(dtype, shape, name=_identifier(key))
                    parts.append(outer[arg.name])
                inputs[key] = parts[0] if leaf.kind == "tensor" else parts
                if leaf.kind != "tensor":
                    taken[key] = leaf
        for node, arg in zip(bound, remaining, strict=True):
            if arg.name in needed:
                outer[arg.name] = self._tensor(node)
        returned, effects = self._add(flat, outer, f"{_identifier(name)}/")
        structure = leaves(described.output_signature)
        if sum(len(leaf.parts) for _, leaf in structure) != len(returned):
            structure = [(item.name, TENSOR) for item in flat.signature.output_arg]
        outputs: dict[str, Any] = {}
        packed: dict[str, Leaf] = {}
        results = iter(returned)
        for key, (_, leaf) in zip(_unique(label for label, _ in structure), structure, strict=True):
            values = [next(results) for _ in leaf.parts]
            outputs[key] = values[0] if leaf.kind == "tensor" else values
            if leaf.kind != "tensor":
                packed[key] = leaf
        defaults = {}
        if info is not None:
            for key, value in info.defaults.items():
                defaults[key] = attr_values.read_array(value)
        return Signature(name, self.session, inputs, outputs, effects, defaults, (taken, packed))

    def _add(self, flat: Flat, outer: dict[str, Tensor], prefix: str) -> tuple[list[Tensor], list[Operation]]:
        """Add a function's nodes to the graph; return the tensors that it returns, and its effects."""
        return add_flat(self.inliner, self.meta.graph_def.versions, flat, outer, prefix)

    # ------------------------------------------------------------------------------------------------------- captures
    def _tensor(self, node: int) -> Tensor:
        """The tensor that stands for a captured object."""
        tensor = self.tensors.get(node)
        if tensor is None:
            saved = self.objects.nodes[node]
            kind = saved.WhichOneof("kind")
            make = getattr(self, f"_make_{kind}", None)
            if make is None:
                raise NotImplementedError(
                    errors.message(
                        f"a function that captures an object of kind {kind}",
                        "a function that captures variables, tables, constants and assets only",
                        "save a signature that does without it",
                    )
                )
            tensor = self.tensors[node] = make(node, saved)
        return tensor

    def _make_variable(self, node: int, saved: Any) -> Tensor:
        proto = saved.variable
        dtype, shape = spec_of(proto)
        name = _identifier(proto.name or f"variable_{node}")
        with self.graph.name_scope(None):
            value = placeholder(dtype, shape, name=f"restored/{name}")
            variable = make_variable(
                value,
                trainable=proto.trainable,
                name=name,
                use_resource=True,
                shape=shape,
                validate_shape=shape is not None and None not in shape,
            )
        self.unset[node] = (variable, value)
        return variable._handle_tensor()

    def _make_constant(self, node: int, saved: Any) -> Tensor:
        wanted = saved.constant.operation
        found = constant_of(self.meta, wanted)
        if found is not None:
            array, dtype = attr_values.read_array(found.attr["value"].tensor), found.attr["dtype"].type
            with self.graph.name_scope(None):
                return build("Const", value=array, dtype=dtype, name=f"captured/{_identifier(wanted)}")
        raise ValueError(
            errors.message(
                f"a captured constant {wanted!r} that is not in the graph",
                "a Const node of the MetaGraph",
                "save the model again: its description is not whole",
            )
        )

    def _make_asset(self, node: int, saved: Any) -> Tensor:
        listed = self.meta.asset_file_def
        index = saved.asset.asset_file_def_index
        if not 0 <= index < len(listed):
            raise ValueError(
                errors.message(f"asset {index}", f"one of the {len(listed)} assets", "save the model again")
            )
        path = files.asset_path(self.model.path, listed[index].filename)
        with self.graph.name_scope(None):
            return build("Const", value=path.encode(), dtype="string", name=f"captured/asset_{index}")

    def _make_resource(self, node: int, saved: Any) -> Tensor:
        creators = self.objects.concrete(self._method(node, "_create_resource"))
        with self.graph.name_scope(None):
            returned, _ = self._call(creators[0], f"resource_{node}/create/")
        handle = returned[0] if returned else None
        while handle is not None and handle.op.type == "Identity":
            handle = handle.op._inputs[0]
        if handle is None or handle.op.definition.makes is None:
            raise NotImplementedError(
                errors.message(
                    f"a captured resource made by {creators[0]!r}",
                    "a table",
                    "save a signature that does without it",
                )
            )
        self.tables.append(node)
        return handle

    def _method(self, node: int, name: str) -> int:
        method = self.objects.child(node, name)
        if method is None or not self.objects.concrete(method):
            raise NotImplementedError(
                errors.message(
                    f"a captured resource without a function {name!r}",
                    "a table that the model says how to make and fill",
                    "save the model with a program that writes it (TensorFlow 2.0 or later)",
                )
            )
        return method

    def _call(self, function: str, prefix: str) -> tuple[list[Tensor], list[Operation]]:
        """Build a function that takes captures only."""
        flat = self.inliner.flat(function)
        bound = self.objects.bound(function)
        if len(bound) != len(flat.signature.input_arg):
            raise ValueError(
                errors.message(
                    f"function {function!r} with {len(flat.signature.input_arg)} arguments and {len(bound)} captures",
                    "a capture for each",
                    "save the model again: its description is not whole",
                )
            )
        needed = needed_starts(flat)
        outer = {
            arg.name: self._tensor(node)
            for node, arg in zip(bound, flat.signature.input_arg, strict=True)
            if arg.name in needed
        }
        return self._add(flat, outer, prefix)

    # --------------------------------------------------------------------------------------------------------- values
    def _restore_variables(self) -> None:
        if not self.unset:
            return
        reader = self._reader()
        missing = []
        for node, (variable, value) in self.unset.items():
            key = self.keys.get(node, {}).get(_VALUE)
            if key is None or key not in reader.tensors:
                missing.append(variable.name)
                continue
            self.session.run(variable.initializer, {value: reader.read(key)})
        self.unset.clear()
        if missing:
            raise errors.NotFoundError(
                None,
                None,
                errors.message(
                    f"a SavedModel whose checkpoint has no value for {missing}",
                    "a value for each variable that its functions use",
                    "save the model again",
                ),
            )

    keys: Mapping[int, Mapping[str, str]] = {}
    _bundle: Any = None

    def _reader(self) -> Any:
        if self._bundle is None:
            if not files.has_variables(self.model.path):
                raise errors.NotFoundError(
                    None,
                    None,
                    errors.message(
                        f"the SavedModel {self.model.path!r} without a checkpoint of its variables",
                        f"files {constants.VARIABLES_DIRECTORY}/{constants.VARIABLES_FILENAME}.*",
                        "copy the whole folder",
                    ),
                )
            self._bundle = BundleReader(files.variables_prefix(self.model.path))
            self.keys = self.objects.keys(scalar_bytes(self._bundle.read(CHECKPOINT_KEY)))
        return self._bundle

    def _fill_tables(self) -> None:
        while self.tables:  # grows while initialisers capture further tables
            node = self.tables.pop(0)
            initialize = self.objects.child(node, "_initialize")
            handle = self.tensors[node]
            for function in self.objects.concrete(initialize) if initialize is not None else []:
                _, effects = self._call(function, f"resource_{node}/initialize/")
                if effects:
                    self.session.run(effects)
            if handle.op.type.startswith("Mutable") and files.has_variables(self.model.path):
                self._restore_table(node, handle)

    def _restore_table(self, node: int, handle: Tensor) -> None:
        reader = self._reader()
        # The object graph names the two tensors of a table, or what both names begin with.
        names = [name for key in self.keys.get(node, {}).values() for name in (key, f"{key}-keys", f"{key}-values")]
        by_kind = {name.rpartition("-")[2]: name for name in names if name in reader.tensors}
        if "keys" in by_kind and "values" in by_kind:
            attrs = handle.op._attrs
            keys = placeholder(attrs["key_dtype"], name="restored/keys")
            values = placeholder(attrs["value_dtype"], name="restored/values")
            load_op = build("LookupTableImportV2", handle, keys, values)
            fed = {keys: reader.read(by_kind["keys"]), values: reader.read(by_kind["values"])}
            self.session.run(load_op, fed)


def _identifier(text: str) -> str:
    """A name that the graph takes."""
    identifier = re.sub(r"[^A-Za-z0-9_.\\/>-]", "_", text).strip("/")
    return identifier if re.match(r"[A-Za-z0-9.]", identifier) else f"x{identifier}"


def _unique(labels: Iterable[str]) -> list[str]:
    names: list[str] = []
    for label in labels:
        name, count = label or "output", 0
        while name in names:
            count += 1
            name = f"{label or 'output'}_{count}"
        names.append(name)
    return names


__all__ = ["LoadedModel", "load"]
