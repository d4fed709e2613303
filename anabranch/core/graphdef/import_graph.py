"""Reading GraphDefs: `tf.import_graph_def`.

Policy. All or nothing: what :mod:`anabranch.core.graphdef.import_nodes` can refuse is refused before anything is
built, and if building fails later (a shape that does not fit, a device function that raises) the graph is put back as
it was.

Nodes are built under the scopes that surround the call, as if the program had made them there: control dependencies,
attributes, devices (a node's own device goes before the scopes', part by part), colocation groups with the prefix.
A name that is taken gets a suffix. Functions of the library are kept and written out again; those that an op
names as a branch, body or function to call become nested bodies of that op.
"""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterable, Iterator
from typing import Any

from anabranch.core import device as devices
from anabranch.core import errors
from anabranch.core.contract import hooks, opdef
from anabranch.core.contract.api import public
from anabranch.core.contract.attrs import NamedAttrs
from anabranch.core.contract.inference import HandleData
from anabranch.core.contract.roles import Role
from anabranch.core.graph.body import Body
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.default_graph import get_default_graph, graph_of
from anabranch.core.graph.graph import GRAPH_DEF_VERSION, Graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graphdef import calls_by_name, expansion, function_def, import_nodes, imported_types
from anabranch.core.graphdef.import_nodes import Node, Source
from anabranch.core.protos import graph_pb2
from anabranch.core.values import dtypes

_GROUP = "loc:@"


@public("import_graph_def", "graph_util.import_graph_def")
def import_graph_def(
    graph_def: Any,
    input_map: dict[str, Any] | None = None,
    return_elements: Any = None,
    name: str | None = None,
    op_dict: Any = None,
    producer_op_list: Any = None,
    validate_colocation_constraints: bool = True,
) -> list[Any] | None:
    """Add the nodes of a GraphDef to the default graph.

    Args:
        graph_def: the GraphDef.
        input_map: tensors of this graph to use in place of outputs of the GraphDef's nodes, by ``"node:index"``, and
            operations in place of control inputs, by ``"^node"``.
        return_elements: names of operations and tensors of the GraphDef to return.
        name: prefix of the new names, ``"import"`` if None; ``""`` for none.
        op_dict: not used, as in TensorFlow.
        producer_op_list: OpList of the program that wrote the GraphDef; attributes that this package does not know and
            that have their default there are dropped.
        validate_colocation_constraints: whether colocation with a node that does not exist is an error.

    Returns:
        The operations and tensors of ``return_elements``, in order; None without it.

    Raises:
        NotImplementedError: op types without a definition, all in one error. ValueError: the GraphDef is malformed,
        or a name is not found. TypeError: an argument is of the wrong kind. The graph is then as it was.
    """
    if op_dict is not None:
        warnings.warn("import_graph_def: op_dict has no effect; op types are found in the registry", stacklevel=2)
    proto = calls_by_name.rewritten(as_message(graph_def, graph_pb2.GraphDef, "graph_def must be a GraphDef proto."))
    if calls_by_name.has_unknown_calls(proto):
        proto = hooks.gradient_calls(proto)
    producers = {}
    if producer_op_list is not None:
        op_list = as_message(producer_op_list, graph_pb2.OpList, "producer_op_list must be an OpList proto.")
        producers = {op.name: op for op in op_list.op}
    mapped = _checked_map(input_map)
    elements = _checked_elements(return_elements)
    values = list(mapped.values())
    graph = graph_of(values, get_default_graph)
    graph._check_not_finalized()
    with all_or_nothing(graph), graph.as_default(), graph.shared_site(), _refusing_depth():
        return _Import(graph, proto, producers, validate_colocation_constraints).run(mapped, elements, name)


def as_message(given: Any, kind: Any, expectation: str) -> Any:
    """``given`` as a message of class ``kind``, also if it is of another program's class; TypeError ``expectation``."""
    if isinstance(given, kind):
        return given
    descriptor = getattr(given, "DESCRIPTOR", None)
    if descriptor is not None and descriptor.name == kind.DESCRIPTOR.name:  # another program's class of that message
        return kind.FromString(given.SerializeToString())
    raise TypeError(
        f"{expectation}\n"
        + errors.message(
            f"a {type(given).__name__}",
            f"a {kind.DESCRIPTOR.name}",
            f"tf.{kind.DESCRIPTOR.name}.FromString(data) for serialised bytes, "
            "google.protobuf.text_format.Parse for text",
        )
    )


def _checked_map(input_map: Any) -> dict[str, Any]:
    if input_map is None:
        return {}
    if not isinstance(input_map, dict) or not all(isinstance(key, (str, bytes)) for key in input_map):
        raise TypeError(
            "input_map must be a dictionary mapping strings to Tensor objects.\n"
            + errors.message(f"{input_map!r}", "names to tensors", 'input_map={"x:0": tensor}')
        )
    return {key.decode() if isinstance(key, bytes) else key: value for key, value in input_map.items()}


def _checked_elements(return_elements: Any) -> list[str] | None:
    if return_elements is None:
        return None
    elements = list(return_elements) if isinstance(return_elements, (list, tuple)) else None
    if elements is None or not all(isinstance(item, (str, bytes)) for item in elements):
        raise TypeError(
            "return_elements must be a list of strings.\n"
            + errors.message(
                f"{return_elements!r}", "names of operations or tensors", 'return_elements=["y:0", "train"]'
            )
        )
    return [item.decode() if isinstance(item, bytes) else item for item in elements]


def _absent(nodes: dict[str, Node], name: str, text: str, index: int) -> str:
    """TensorFlow's words for a name that is not in a GraphDef: programs match on them."""
    if text.count(":") > 1:
        return f"Cannot convert {text!r} to a tensor name."
    if name not in nodes:
        kind = "node" if name == text else "tensor"
        return f"Requested return {kind} {text!r} not found in graph def."
    return f"Invalid return output {index} of node {name!r}, which has {len(nodes[name].output_dtypes)} output(s)."


@contextlib.contextmanager
def _refusing_depth() -> Iterator[None]:
    try:
        yield
    except RecursionError as problem:
        raise ValueError(errors.nested_too_deep("import")) from problem


@contextlib.contextmanager
def all_or_nothing(graph: Graph) -> Iterator[None]:
    """Put the graph back as it was if the block raises."""
    with graph._lock:
        count, version = len(graph._operations), graph._version
        names, function_names = dict(graph._names_in_use), dict(graph._function_names)
        functions, gradients = dict(graph._functions), dict(graph._function_gradients)
        versions = graph._producer_version, graph._min_consumer, list(graph._bad_consumers)
        bodies = []
        body: Body | None = graph.current_body
        while body is not None:
            owned = list(body.owner._control_inputs) if body.owner is not None else []
            bodies.append(
                (
                    body,
                    len(body.operations),
                    list(body.args),
                    dict(body.captures),
                    dict(body.outer_control_inputs),
                    owned,
                )
            )
            body = body.parent
        try:
            yield
        except BaseException:
            removed = graph._operations[count:]
            for op in reversed(removed):
                for tensor in op._inputs:
                    tensor._consumers.remove(op)
                for control in op._control_inputs:
                    control._control_outputs.remove(op)
                del graph._by_name[op.name]
            del graph._operations[count:]
            for scope in graph._scopes.controls:
                scope.seen.difference_update(removed)
            for inner, size, args, captures, outer, owned in bodies:
                del inner.operations[size:]
                inner.args[:] = args
                inner.captures.clear()
                inner.captures.update(captures)
                inner.outer_control_inputs.clear()
                inner.outer_control_inputs.update(outer)
                if inner.owner is not None:
                    for control in inner.owner._control_inputs[len(owned) :]:
                        control._control_outputs.remove(inner.owner)
                    inner.owner._control_inputs[:] = owned
            for current, before in (
                (graph._names_in_use, names),
                (graph._function_names, function_names),
                (graph._functions, functions),
                (graph._function_gradients, gradients),
            ):
                current.clear()
                current.update(before)  # type: ignore[arg-type]
            graph._producer_version, graph._min_consumer, graph._bad_consumers = versions
            graph._version = version
            raise


# The last version of GraphDefs whose placeholders say 'scalar' where they mean an unknown shape.
LAST_WITH_UNKNOWN_AS_SCALAR = 21
MOST_FORMS = 4
"""Bodies that calls of a function share: the last one is for arguments of any shapes."""


class _Import:
    """One call of import_graph_def."""

    def __init__(self, graph: Graph, proto: Any, producers: dict[str, Any], validate_colocation: bool):
        self.graph = graph
        self.proto = proto
        self.producers = producers
        self.validate_colocation = validate_colocation
        self.library: dict[str, Any] = {}
        self.instantiating: list[str] = []
        self.sharing: frozenset[str] = frozenset()
        """Functions whose calls hold one body, for each kind of arguments."""
        self.shared: dict[str, dict[Any, Body]] = {}
        """These bodies, by function and shapes of the arguments."""

    def run(self, input_map: dict[str, Any], elements: list[str] | None, name: str | None) -> list[Any] | None:
        """Build the nodes and return the elements asked for."""
        self._read_versions()
        self._read_library()
        import_nodes.check_types(self.proto.node, self.library)
        self.sharing = expansion.shared(self.proto.node, self.library)
        nodes = import_nodes.parse(self.proto.node, self.producers)
        if self.producer <= LAST_WITH_UNKNOWN_AS_SCALAR:
            import_nodes.forget_scalar_placeholders(nodes.values())
        import_nodes.check_functions(nodes.values(), self.library)
        graph = self.graph
        if name == "" and not all(isinstance(value, (Tensor, Operation)) for value in input_map.values()):
            raise ValueError(
                "tf.import_graph_def() requires a non-empty `name` if `input_map` contains non-Tensor values. "
                "Try calling tf.convert_to_tensor() on `input_map` values before calling tf.import_graph_def().\n"
                + errors.message("values without a name scope", "tensors", "input_map={key: tf.constant(value)}")
            )
        with graph.name_scope("import" if name is None else name) as scope:
            tensors, controls = self._mapped(nodes, input_map)
            wanted = self._found(nodes, elements)
            import_nodes.check_edges(nodes, tensors, controls, scope)
            self._check_colocation(nodes)
            imported = self._build(nodes, scope, tensors, controls)
        if elements is None:
            return None
        results: list[Any] = []
        for op_name, index in wanted:
            if index is None:
                results.append(imported[op_name])
            else:
                mapped = tensors.get((op_name, index))
                results.append(imported[op_name]._outputs[index] if mapped is None else mapped)
        return results

    # ---------------------------------------------------------------------------------------------------------- checks
    def _read_versions(self) -> None:
        graph, versions = self.graph, self.proto.versions
        if versions.min_consumer > GRAPH_DEF_VERSION:
            raise ValueError(
                f"GraphDef min consumer version {versions.min_consumer} above current version {GRAPH_DEF_VERSION} for "
                "TensorFlow 1.15.  Please upgrade TensorFlow.\n"
                + errors.message(
                    f"a GraphDef for consumers of version {versions.min_consumer} and later",
                    f"at most {GRAPH_DEF_VERSION}, the version of this package",
                    "write the graph with an older program",
                )
            )
        if GRAPH_DEF_VERSION in versions.bad_consumers:
            raise ValueError(
                errors.message(
                    f"a GraphDef that excludes consumers of version {GRAPH_DEF_VERSION}, that of this package",
                    "a graph whose versions.bad_consumers do not name it",
                    "write the graph with a program that has the fault repaired",
                )
            )
        # Graphs older than the field `versions` say it in `version`; a graph that says nothing is of version 0.
        producer = versions.producer if self.proto.HasField("versions") else self.proto.version
        if producer < 0:
            raise ValueError(
                f"GraphDef producer version {producer} below min producer 0 supported by TensorFlow 1.15.  "
                "Please regenerate your graph.\n"
                + errors.message(f"a GraphDef of producer version {producer}", "0 or more", "write the graph again")
            )
        self.producer = producer
        graph._producer_version = min(graph._producer_version, producer)
        graph._min_consumer = max(graph._min_consumer, versions.min_consumer)
        graph._bad_consumers = sorted({*graph._bad_consumers, *versions.bad_consumers})

    def _read_library(self) -> None:
        functions = self.graph._functions
        for function in self.proto.library.function:
            name = function.signature.name
            if name in functions and functions[name] != function:
                raise ValueError(
                    f"Cannot add function {name!r} because a different function with the same name already exists.\n"
                    + errors.message(f"two functions called {name!r}", "one function per name", "rename one of them")
                )
            kept = graph_pb2.FunctionDef()
            kept.CopyFrom(function)
            functions[name] = kept
        for gradient in self.proto.library.gradient:
            self.graph._function_gradients[gradient.function_name] = gradient.gradient_func
        self.library = functions

    def _mapped(
        self, nodes: dict[str, Node], input_map: dict[str, Any]
    ) -> tuple[dict[Source, Tensor], dict[str, Operation]]:
        tensors: dict[Source, Tensor] = {}
        controls: dict[str, Operation] = {}
        missing = []
        for key, value in input_map.items():
            if key.startswith("^"):
                controls[key[1:]] = self.graph._operation_of(value)
                known = key[1:] in nodes or any(key[1:] in node.controls for node in nodes.values())
            else:
                edge = import_nodes.source(key)
                if not isinstance(value, Tensor):
                    with self.graph.name_scope("_inputs"):
                        value = convert_to_tensor(value)
                tensors[edge] = value
                node = nodes.get(edge[0])
                known = edge[1] < len(node.output_dtypes) if node else any(edge in n.inputs for n in nodes.values())
            if not known:
                missing.append(key)
        if missing:
            raise ValueError(
                f"Attempted to map inputs that were not found in graph_def: [{', '.join(missing)}]\n"
                + errors.message(
                    f"input_map with {missing}",
                    "names of tensors ('node:0') or control inputs ('^node') of the graph",
                    "print([node.name for node in graph_def.node])",
                )
            )
        return tensors, controls

    def _found(self, nodes: dict[str, Node], elements: list[str] | None) -> list[tuple[str, int | None]]:
        parsed: list[tuple[str, int | None]] = []
        for text in elements or ():
            name, index = import_nodes.source(text)
            is_tensor = name != text
            if name not in nodes or (is_tensor and index >= len(nodes[name].output_dtypes)):
                raise ValueError(
                    f"{_absent(nodes, name, text, index)} Requested return_element {text!r} not found in graph_def.\n"
                    + errors.message(
                        f"return_elements with {text!r}",
                        "names of the GraphDef's operations, or 'name:index' for their tensors, without the prefix",
                        "print([node.name for node in graph_def.node])",
                    )
                )
            parsed.append((name, index if is_tensor else None))
        return parsed

    def _check_colocation(self, nodes: dict[str, Node]) -> None:
        if not self.validate_colocation:
            return
        for node in nodes.values():
            for group in _groups(node):
                if group not in nodes:
                    raise import_nodes.refuse(
                        node.proto,
                        f"colocation with {group!r}, which is not a node of the graph",
                        "colocation with one of its nodes",
                        "validate_colocation_constraints=False, if the placement does not matter",
                        f"Node {node.name!r} expects to be colocated with unknown node {group!r}",
                    )

    # -------------------------------------------------------------------------------------------------------- building
    def _unique_names(self, names: Iterable[str], prefix: str, body: Body | None) -> dict[str, str]:
        """New names of the nodes: prefixed, and with a suffix where the graph has an op or a scope of that name.

        Those of a new ``body``, whose name nothing else has, can meet its arguments only.
        """
        given = list(names)
        taken: set[str] = set()
        if body is not None:
            taken.update(argument.op.name for argument in body.args)
        elif not prefix or any(name.startswith(prefix) for name in self.graph._by_name):
            for name in self.graph._by_name:
                taken.add(name)
                while "/" in name:
                    name = name.rpartition("/")[0]
                    taken.add(name)
        ours = {prefix + name for name in given}
        unique_names = {}
        for name in given:
            full, count = prefix + name, 0
            while full in taken or (count and full in ours):
                count += 1
                full = f"{prefix}{name}_{count}"
            unique_names[name] = full
        return unique_names

    def _build(
        self,
        nodes: dict[str, Node],
        prefix: str,
        tensors: dict[Source, Tensor],
        controls: dict[str, Operation],
        body: Body | None = None,
    ) -> dict[str, Operation]:
        graph = self.graph
        names = self._unique_names(nodes, prefix, body)
        ops: dict[str, Operation] = {}
        back: list[tuple[Operation, int, Source]] = []
        colocated: list[tuple[Operation, list[str]]] = []
        # Names come out whole, so that no name scope may come before them; other scopes of the caller hold.
        for node in import_nodes.in_order(nodes, tensors, controls):
            inputs: list[Any] = []
            for edge in node.inputs:
                tensor = tensors.get(edge)
                if tensor is None and edge[0] in ops:
                    tensor = ops[edge[0]]._outputs[edge[1]]
                inputs.append(tensor)
            for position in node.back_edges:  # the loop's entry stands in until the back edge exists
                inputs[position] = next((item for item in inputs if item is not None), None)
                if inputs[position] is None:
                    raise import_nodes.refuse(
                        node.proto, "inputs of the next iteration only", "an input for the first", "add an Enter node"
                    )
            groups = _groups(node)
            attrs = {**node.attrs}
            if attrs.get("_class"):
                attrs["_class"] = tuple(
                    _GROUP + names.get(item[len(_GROUP) :], item[len(_GROUP) :])
                    if isinstance(item, str) and item.startswith(_GROUP)
                    else item
                    for item in node.attrs["_class"]
                )
            full = names[node.name]
            attrs = self._with_bodies(node.definition, attrs, full, inputs, self._changed(node))
            op = graph._create(
                node.definition,
                inputs,
                attrs,
                full + "/",
                control_inputs=[controls[item] if item in controls else ops[item] for item in node.controls],
                device="" if groups else node.proto.device,
                infer_shapes=not node.back_edges,
            )
            graph._names_in_use.setdefault(full.lower(), 1)
            for inner in function_def.bodies_of(op):
                if not inner.shared or inner.owner is None:
                    inner.owner = op
            if node.back_edges:
                back += [(op, position, node.inputs[position]) for position in node.back_edges]
                imported_types.infer_entry(op, node.back_edges)
            if groups:
                colocated.append((op, [names.get(item, item) for item in groups]))
            elif body is None:
                op._device = devices.resolve(graph._scopes.devices, op)
            if node.output_shapes is not None:
                imported_types.merge_shapes(node, op)
            ops[node.name] = op
        for op, position, edge in back:
            start = tensors.get(edge)
            graph._update_input(op, position, ops[edge[0]]._outputs[edge[1]] if start is None else start)
        for op, groups in colocated:
            for item in groups:
                other = graph._by_name.get(item)
                if other is not None and other._device:
                    op._device = other._device
                    break
        return ops

    def _changed(self, node: Node) -> set[int]:
        """Positions of inputs that a loop changes: its arguments are not what its inputs are."""
        body = node.attrs.get("body")
        if node.definition.role is not Role.LOOP or not isinstance(body, NamedAttrs) or body.name not in self.library:
            return set()
        function = self.library[body.name]
        arguments, results = function.signature.input_arg, function.signature.output_arg
        if len(arguments) != len(results):
            return set(range(len(node.inputs)))
        pairs = enumerate(zip(arguments, results, strict=True))
        return {i for i, (arg, result) in pairs if function.ret.get(result.name) != arg.name}

    def _with_bodies(
        self, definition: opdef.OpDefinition, attrs: dict[str, Any], full: str, inputs: list[Any], changed: set[int]
    ) -> dict[str, Any]:
        """Replace names of library functions by bodies made from them."""
        for key, value in attrs.items():
            if isinstance(value, NamedAttrs) and value.name in self.library:
                captures = definition.attrs[key].captures if key in definition.attrs else None
                if captures is None:
                    plain = definition.role is Role.CALL and not value.attrs
                    own = not plain or value.name not in self.sharing
                    build = self._body if own else self._shared_body
                    attrs[key] = build(value, f"{full}_{key}", inputs, changed)
                else:
                    captured = inputs[definition.input_range(captures, attrs)] if captures else []
                    attrs[key] = self._body(value, f"{full}_{key}", captured, set(), called=True)
            elif isinstance(value, tuple) and any(isinstance(item, NamedAttrs) for item in value):
                attrs[key] = tuple(
                    self._body(item, f"{full}_{key}", inputs, changed) if item.name in self.library else item
                    for item in value
                )
        return attrs

    def _shared_body(self, reference: NamedAttrs, name: str, inputs: list[Any], changed: set[int]) -> Body:
        """The body that calls of a function with inputs of these shapes hold; for the last kind, inputs of any."""
        bodies = self.shared.setdefault(reference.name, {})
        form: Any = tuple(None if source is None else source._shape for source in inputs)
        if form not in bodies and len(bodies) >= MOST_FORMS - 1:
            inputs, form = [None] * len(inputs), None
        if form not in bodies:
            bodies[form] = self._body(reference, name, inputs, changed, shared=True)
        return bodies[form]

    def _body(
        self,
        reference: NamedAttrs,
        name: str,
        inputs: list[Any],
        changed: set[int],
        called: bool = False,
        shared: bool = False,
    ) -> Body:
        """A nested body from a library function, called with the last ``inputs``, of which a loop changes some.

        One that a kernel calls (``called``) takes ``inputs`` behind arguments of which nothing is known. One that
        several calls hold (``shared``) takes values only.
        """
        function = self.library[reference.name]
        if reference.name in self.instantiating:
            raise NotImplementedError(
                errors.message(
                    f"function {reference.name!r}, which calls itself ({' -> '.join(self.instantiating)})",
                    "functions that end",
                    "write the recursion as a tf.while_loop",
                )
            )
        self.instantiating.append(reference.name)
        graph = self.graph
        given = reference.attrs
        nodes = import_nodes.parse(function.node_def, self.producers, function=True, given=given)
        import_nodes.check_functions(nodes.values(), self.library)
        body = Body(graph, graph._unique(name), graph.root if shared else graph.current_body)
        body.shared = shared
        arguments = [
            (arg.name, i, dtype)
            for arg in function.signature.input_arg
            for i, dtype in enumerate(imported_types.arg_dtypes(arg, given))
        ]
        if called:
            outer = [*[None] * (len(arguments) - len(inputs)), *inputs]
            body.called = body
        else:
            outer = inputs[len(inputs) - len(arguments) :] if len(inputs) >= len(arguments) else [None] * len(arguments)
        tensors: dict[Source, Tensor] = {}
        with graph.building(body), graph.control_dependencies(None), graph.device(None), graph.name_scope(None):
            for position, ((arg_name, i, dtype), source) in enumerate(zip(arguments, outer, strict=True)):
                attrs = function.arg_attr[position].attr if position in function.arg_attr else {}
                shape = imported_types.listed_shape(attrs, "_output_shapes")
                if source is not None and position not in changed:
                    if shape is None:
                        shape = source._shape
                    if source.dtype.is_ref and not called and not shared:
                        dtype = dtype._as_ref
                tensor = body.add_arg(dtype, shape, f"{body.name}/{arg_name}")
                if "_handle_dtypes" in attrs and attrs["_handle_dtypes"].list.type:
                    handle = dtypes.as_dtype(int(attrs["_handle_dtypes"].list.type[0]))
                    tensor._handle = HandleData(handle, imported_types.listed_shape(attrs, "_handle_shapes"))
                elif source is not None and dtype.name in ("resource", "variant"):
                    tensor._handle = source._handle
                tensors[(arg_name, i)] = tensor
            argument_names = {name for name, _ in tensors}
            for node in nodes.values():
                node.controls = [item for item in node.controls if item not in argument_names]
            import_nodes.check_edges(nodes, tensors, (), function=True)
            ops = self._build(nodes, body.name + "/", tensors, {}, body)
            for output in function.signature.output_arg:
                text = function.ret.get(output.name, output.name)
                for edge in import_nodes.function_sources(nodes, text):
                    mapped = tensors.get(edge)
                    if mapped is None and edge[0] not in ops:
                        raise ValueError(
                            errors.message(
                                f"function {reference.name!r} that returns {text!r}",
                                "an argument or 'node:output:index'",
                                "name one of its nodes",
                            )
                        )
                    body.outputs.append(ops[edge[0]]._outputs[edge[1]] if mapped is None else mapped)
            for node_name in function.control_ret.values():
                if node_name not in ops:
                    raise ValueError(
                        errors.message(
                            f"function {reference.name!r} with the control output {node_name!r}",
                            "the name of one of its nodes",
                            "delete it from control_ret",
                        )
                    )
                body.control_outputs.append(ops[node_name])
            if not function.control_ret:
                body.control_outputs += function_def.implied_control_outputs(body)
        self.instantiating.pop()
        body.function = reference
        body.state_as_read = function_def.state_of(body)
        return body


def _groups(node: Node) -> list[str]:
    """Names of the other nodes that a node is colocated with."""
    listed = node.attrs.get("_class")
    if not isinstance(listed, (list, tuple)):
        return []
    groups = [item[len(_GROUP) :] for item in listed if isinstance(item, str) and item.startswith(_GROUP)]
    return [name for name in groups if name != node.name]


__all__ = ["import_graph_def"]
