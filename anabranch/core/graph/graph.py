"""The graph: operations, nested bodies, names, collections, and the scopes that surround op creation.

The life of a graph. A program creates operations under scopes (name, device, control dependencies, colocation); each
is checked against its type's contract, gets its static shapes, and is appended: the *creation index* is what orders
effects later. Nothing runs. A session reads the graph and never changes it; ``finalize`` makes that a promise.
``as_graph_def`` and ``import_graph_def`` are its only persistent form.

Additions and changes. ``version`` counts both. What is derived from operations (a plan, the effects of a body) cannot
be made wrong by an operation that is added: what an operation does follows from its inputs, control inputs, attributes
and bodies, and these name only what they were given. It can be made wrong by a change of an operation that it looked
at: an input, a control input, an attribute, a device, a shape, an output or control output of a body, the order of
creation. So :meth:`Graph._stamp` says that somebody looks at all that exists now, and returns a number that stays the
same until one of these operations changes. Changes of operations that nobody has looked at yet, which building a model
is full of, do not count. Whatever changes an operation calls :meth:`Graph._note_change` after it has done so.

Nested bodies. The branches of a conditional and the bodies of loops and functions are :class:`Body` objects of the
*same* graph: one name space, one set of collections, one seed counter, one order of creation. An op belongs to
exactly one body. An op that takes a tensor of an enclosing body *captures* it: the body gets an argument (an ``_Arg``
op) that stands for it, and the op that owns the body gets an input. A control edge from outside goes to the owning
op. Variables made inside are made in the root (``init_scope``).

Thread safety: creation takes the graph's lock; scopes and the default-graph stack are per thread.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from typing import Any

from anabranch.core import device as devices
from anabranch.core import errors, sites
from anabranch.core.contract import hooks, inference, opdef
from anabranch.core.contract.opdef import REQUIRED, OpDefinition
from anabranch.core.contract.roles import Role
from anabranch.core.graph import body_ops, default_graph
from anabranch.core.graph.body import Body
from anabranch.core.graph.body_context import BodyContext, context_of
from anabranch.core.graph.default_graph import get_default_graph, reset_default_graph
from anabranch.core.graph.operation import GraphTensor, Operation, Tensor, inputs_to_come
from anabranch.core.graph.scopes import _VALID_NAME, GraphScopes, _Scopes
from anabranch.core.values import shapes

GRAPH_DEF_VERSION = 1395  # the consumer and producer version that graphs are read and written as

__all__ = ["GRAPH_DEF_VERSION", "Body", "Graph", "get_default_graph", "reset_default_graph"]


class Graph(GraphScopes):
    """A dataflow graph.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default() as g:
        ...     x = tf.constant(2.0) * 3.0
        >>> [op.name for op in g.get_operations()]
        ['Const', 'mul/y', 'mul']
    """

    defers = True
    only_handles = False
    tensor_type = GraphTensor

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.root = Body(self, "", None)
        self._operations: list[Operation] = []
        self._uncounted = 0
        """How many operations seeds do not count: those in functions that kernels call, less what `_count` adds."""
        self._entering: int | None = None
        """Where the operations begin whose tensors from outside seeds count, too; see `random_seed.entering`."""
        self._by_name: dict[str, Operation] = {}
        self._names_in_use: dict[str, int] = {}
        self._collections: dict[Any, list[Any]] = {}
        self._scopes = _Scopes()
        self._version = 0
        self._changes = 0
        """How many changes there were of operations that somebody had looked at; see `_stamp`."""
        self._looked_at = 0
        """The version at which somebody looked at the graph last."""
        self._disordered: int | None = None
        """Index of the first operation that takes what was made after it; see `body_ops.restore_order`."""
        self._finalized = False
        self._unfeedable: set[Tensor] = set()
        self._session_tensor_ops: dict[Any, Any] = {}
        self._unfetchable: set[Operation] = set()
        self._functions: dict[str, Any] = {}
        """Library functions that came with imported graphs: FunctionDefs by name."""
        self._function_gradients: dict[str, str] = {}
        self._twins: dict[Tensor, Tensor] = {}
        """Tensors of control flow of version 1 -> those of ops with bodies that gradients take in their stead."""
        self._twin_groups: list[tuple[frozenset[Operation], dict[Tensor, Tensor]]] = []
        """What was built together: the new operations, and the twins."""
        self._function_names: dict[str, Body] = {}
        """Names under which nested bodies were written to a library."""
        self._seed: int | None = None
        self._producer_version = GRAPH_DEF_VERSION
        self._min_consumer = 0
        self._bad_consumers: list[int] = []
        self._containers: list[str] = [""]

    # ------------------------------------------------------------------------------------------------------- properties
    @property
    def _c_graph(self) -> Any:
        """The graph as functions of TensorFlow's C interface take it: itself."""
        return self

    @property
    def version(self) -> int:
        """Number of changes made to the graph, added operations included."""
        return self._version

    def _stamp(self) -> int:
        """A number for what is going to be derived from the graph's operations: it holds while ``_changes`` is this."""
        with self._lock:
            self._looked_at = self._version
            return self._changes

    def _note_change(self, *ops: Operation) -> None:
        """Counts a change of operations that has just been made."""
        self._version += 1
        if any(op._made_at <= self._looked_at for op in ops):
            self._changes += 1

    @property
    def graph_def_versions(self) -> Any:
        """VersionDef of the graph."""
        return self.as_graph_def().versions

    @property
    def seed(self) -> int | None:
        """Graph-level seed."""
        return self._seed

    @seed.setter
    def seed(self, value: int | None) -> None:
        self._seed = value

    @property
    def _last_id(self) -> int:
        """Number of operations created so far; the default op seed of a seeded graph.

        A function that a kernel calls has a count of its own, as in TensorFlow, where it is a graph of its own.
        """
        body = self.current_body
        if body.called is not None:
            return body.counting.created
        return len(self._operations) - self._uncounted + len(self._entered())

    @property
    def _captured(self) -> int:
        return len(self.current_body.captures) + len(self._entered())

    def _entered(self) -> set[Tensor]:
        """What the operations made since ``_entering`` take from before it: of a variable, what is read."""
        if self._entering is None:
            return set()
        made = {
            op
            for op in self._operations[self._entering :]
            if "variable" not in (op.definition.makes, *(tensor.op.definition.makes for tensor in op._inputs))
        }
        return {tensor for op in made for tensor in op._inputs if tensor.op not in made}

    def _count(self, number: int) -> None:
        with self._lock:
            body = self.current_body
            if body.called is None:
                self._uncounted -= number
            else:
                body.counting.created += number

    @property
    def finalized(self) -> bool:
        """Whether the graph refuses changes."""
        return self._finalized

    @property
    def building_function(self) -> bool:
        """Whether ops are being added to a nested body."""
        return not self.current_body.is_root

    def finalize(self) -> None:
        """Make the graph read-only."""
        self._finalized = True

    def _unsafe_unfinalize(self) -> None:
        self._finalized = False

    def _check_not_finalized(self) -> None:
        if self._finalized:
            raise RuntimeError(
                "Graph is finalized and cannot be modified.\n"
                + errors.message(
                    "a change to a finalised graph",
                    "all operations to be made before finalize()",
                    "build ops before the session or Supervisor that finalised the graph starts",
                )
            )

    # ------------------------------------------------------------------------------------------- as the current builder
    def among(self, values: Iterable[Any]) -> Graph:
        """The one graph that the tensors and operations among ``values`` belong to, or this one."""
        return default_graph.graph_of(values, lambda: self)

    def adopt(self, tensor: Tensor) -> Tensor:
        """Refuse a tensor that is not one of a graph: a graph that holds its value would never see another."""
        raise RuntimeError(
            "Attempting to capture an EagerTensor without building a function.\n"
            + errors.message(
                f"tensor {tensor._label}, a value that was computed already, in a graph",
                "a tensor of the graph",
                "tf.constant(x.numpy()), or feed the value to a tf.placeholder",
            )
        )

    # ------------------------------------------------------------------------------------------------------ op creation
    def _create(
        self,
        definition: OpDefinition,
        inputs: Sequence[Tensor],
        attrs: dict[str, Any],
        name: str | None = None,
        *,
        unique: bool = True,
        control_inputs: Sequence[Operation] = (),
        device: Any = None,
        infer_shapes: bool = True,
    ) -> Operation:
        """Append an operation; ``attrs`` are complete and stored. ``unique=False`` takes ``name`` as it stands."""
        if self._finalized:
            self._check_not_finalized()
        with self._lock:
            scopes = self._scopes
            body = scopes.body or self.root
            if scopes.left is not None and not all(body.reaches(tensor.op.body) for tensor in inputs):
                body = scopes.left
            if name is None:
                name = definition.type_name
            elif isinstance(name, bytes):
                name = name.decode()
            if name[-1:] == "/":
                name = name[:-1]
            elif unique:
                name = f"{scopes.name}/{name}" if scopes.name else name
                if name.lower() in self._names_in_use:
                    name = self._unique(name)
                else:
                    self._names_in_use[name.lower()] = 1
            if name in self._by_name:
                name = self._unique(name)
            if not _VALID_NAME.match(name):
                raise ValueError(
                    f"'{name}' is not a valid node name\n"
                    + errors.message(
                        f"op name {name!r}",
                        "letters, digits, '.', '_', '-', '/', starting with a letter, a digit or '.'",
                        "rename the op",
                    )
                )
            for tensor in inputs:
                if tensor.op.body is not body:
                    if tensor.op.graph is not self:
                        raise ValueError(
                            errors.message(
                                f"tensor {tensor.name!r} of another graph as an input of {name!r}",
                                "tensors of one graph",
                                "build both under the same `with graph.as_default():`",
                            )
                        )
                    inputs = [body.capture(item, name) for item in inputs]
                    break
            if scopes.attrs:
                attrs = {**attrs, **scopes.attrs}
            if self._containers[-1] and attrs.get("container") == "":
                attrs = {**attrs, "container": self._containers[-1]}
            if definition.type_name in scopes.attrs_by_type:
                attrs = {**attrs, **scopes.attrs_by_type[definition.type_name]}
            controls = list(control_inputs)
            if scopes.controls:
                controls += [
                    op for op in self._control_dependencies_for_inputs(t.op for t in inputs) if op not in controls
                ]
            if controls:
                controls = self._localise_controls(body, controls)
            site = scopes.site or sites.capture(2)
            op = Operation(self, body, definition, name, inputs, attrs, controls, "", site, len(self._operations))
            op.original = scopes.original
            dtypes_ = definition.output_dtypes(attrs)
            if infer_shapes:
                raw = self._infer(op, len(dtypes_))
            else:
                raw = [None] * len(dtypes_)
            op._outputs = tuple(
                GraphTensor(op, i, dtype, shape) for i, (dtype, shape) in enumerate(zip(dtypes_, raw, strict=True))
            )
            if infer_shapes:
                self._set_handles(op)
            if device is not None:
                op._device = devices.canonical_name(device)
            elif scopes.devices is not None:
                op._device = devices.resolve(scopes.devices, op)
            if scopes.colocation:
                self._colocate(op, scopes.colocation)
            for scope in scopes.controls:
                scope.seen.add(op)
            self._operations.append(op)
            body.operations.append(op)
            if body.called is not None:
                body.counting.created += 1
                self._uncounted += 1
            self._by_name[name] = op
            for tensor in inputs:
                tensor._consumers.append(op)
            for control in controls:
                control._control_outputs.append(op)
            self._version += 1
            op._made_at = self._version
            return op

    _last_handles: dict[int, Any] | None = None

    def _infer(self, op: Operation, count: int) -> list[Any]:
        context = inference.AddedShapes(op.definition, op._attrs, op._inputs, [t._shape for t in op._inputs])
        try:
            raw = inference.infer(op.definition, context, count)
        except (ValueError, TypeError) as problem:
            inputs_text = [
                f"  input {i}: {t.name} {t.dtype.name} {shapes.show(t._shape)}" for i, t in enumerate(op._inputs)
            ]
            told, *more = str(problem).split("\n")
            if not told.startswith("Given:"):
                listed = ", ".join(shapes.show(t._shape) for t in op._inputs)
                told = f"{told} for '{op.name}' (op: '{op.type}') with input shapes: {listed}."
            raise type(problem)(
                "\n".join([told, *more, f"Op: {op.type} {op.name!r}", *inputs_text, f"At: {op.user_site}"])
            ) from None
        self._last_handles = context.output_handles or None
        return raw

    def _set_handles(self, op: Operation) -> None:
        for index, handle in (self._last_handles or {}).items():
            op._outputs[index]._handle = handle

    def _set_shapes(self, op: Operation) -> None:
        """Infer the static shapes of an op's outputs from its inputs; what is known of them stays so."""
        with self._lock:
            for output, shape in zip(op._outputs, self._infer(op, len(op._outputs)), strict=True):
                output._shape = shapes.merge(output._shape, shape)
            self._set_handles(op)
            self._note_change(op)

    def _localise_controls(self, body: Body, controls: list[Operation]) -> list[Operation]:
        local = []
        for control in controls:
            if control.graph is not self:
                raise ValueError(
                    errors.message(
                        f"control input {control.name!r} of another graph",
                        "an op of this graph",
                        "build both under one graph",
                    )
                )
            if control.body is body:
                local.append(control)
            elif control.body.encloses(body):
                inner: Body | None = body
                while inner is not None and inner.parent is not control.body:
                    inner = inner.parent
                assert inner is not None
                if inner.owner is not None:
                    self._add_control_inputs(inner.owner, [control])
                else:
                    inner.outer_control_inputs[control] = None
            else:
                local.append(self._conditional_around(control, body))
        return local

    def _conditional_around(self, control: Operation, body: Body) -> Operation:
        """The conditional or call of ``body`` in which ``control`` runs from now on, whenever its branch is taken."""
        conditional = control
        kept = []
        while conditional.body is not body:
            kept.append(conditional)
            owner = conditional.body.owner
            if owner is None or owner.role not in (Role.CONDITIONAL, Role.CALL):
                raise ValueError(
                    errors.message(
                        f"control input {control.name!r} inside the nested body {control.body.name!r}",
                        "an op of this body, of one around it, or of a branch of a conditional here",
                        "depend on what the loop returns",
                        at=control.user_site,
                    )
                )
            conditional = owner
        for op in kept:
            if op not in op.body.control_outputs:
                op.body.control_outputs.append(op)
                assert op.body.owner is not None
                self._note_change(op.body.owner)
        return conditional

    def _colocate(self, op: Operation, stack: list[Operation]) -> None:
        groups = sorted({group.decode() for other in stack for group in other.colocation_groups()})
        op._attrs["_class"] = tuple(groups)
        for other in reversed(stack):
            if other._device:  # goes before device scopes inside the colocation, as in TensorFlow
                op._device = other._device
                break

    def create_op(
        self,
        op_type: str,
        inputs: Sequence[Any] | None,
        dtypes: Any = None,
        input_types: Any = None,
        name: str | None = None,
        attrs: dict[str, Any] | None = None,
        op_def: Any = None,
        compute_shapes: bool = True,
        compute_device: bool = True,
    ) -> Operation:
        """Create an operation from its type's name, inputs and attributes (AttrValue protos or plain values).

        ``inputs=None`` says that all inputs come later, by ``op._add_input``.
        """
        definition = opdef.lookup(op_type)
        given = {
            key: hooks.attr_from_proto(value) if hasattr(value, "WhichOneof") else value
            for key, value in (attrs or {}).items()
        }
        complete: dict[str, Any] = {}
        tensors = [
            item if isinstance(item, Tensor) else self.as_graph_element(item, allow_operation=False)
            for item in inputs or ()
        ]
        for key, spec in definition.attrs.items():
            if key in given:
                complete[key] = spec.convert(given.pop(key), key, op_type)
            elif spec.default is not REQUIRED:
                complete[key] = spec.default
        position = 0
        for arg in definition.inputs:
            if arg.type_attr and arg.type_attr not in complete and position < len(tensors):
                complete[arg.type_attr] = tensors[position].dtype.base
            if arg.is_list and not all(n is None or n in complete for n in (arg.number_attr, arg.type_list_attr)):
                raise ValueError(
                    errors.message(
                        f"op {op_type!r} without attribute for its list input {arg.name!r}",
                        "N or a list of types",
                        "pass it in attrs=",
                    )
                )
            position += arg.count(complete)
        missing = [key for key in definition.attrs if key not in complete]
        if missing:
            raise ValueError(
                errors.message(
                    f"op {op_type!r} without attribute(s) {missing}",
                    "all attributes without default",
                    "pass them in attrs=",
                )
            )
        if inputs is None:
            tensors = inputs_to_come(self, name or op_type, definition.input_dtypes(complete))
            compute_shapes = compute_shapes and not tensors
        if position != len(tensors):
            raise ValueError(
                errors.message(f"{len(tensors)} inputs for op {op_type!r}", f"{position}", "check the op's signature")
            )
        for wanted, tensor in zip(definition.input_dtypes(complete), tensors, strict=True):
            if wanted.base != tensor.dtype.base or (wanted.is_ref and not tensor.dtype.is_ref):
                raise TypeError(
                    errors.message(
                        f"input {tensor.name!r} of dtype {tensor.dtype.name} for op {op_type!r}", wanted.name, "cast it"
                    )
                )
        complete.update(given)
        return self._create(definition, tensors, complete, name, infer_shapes=compute_shapes)

    def _operation_of_node(
        self,
        node_def: Any,
        inputs: Sequence[Any] | None = None,
        output_types: Any = None,
        control_inputs: Sequence[Operation] | None = None,
        input_types: Any = None,
        original_op: Operation | None = None,
        op_def: Any = None,
    ) -> Operation:
        """Append the operation of a NodeDef under its very name, with inputs that are given and not looked up.

        Without inputs it gets them one after the other by ``_add_input``. ``output_types``, ``input_types`` and
        ``op_def`` are not used: the op's type says them.
        """
        del output_types, input_types, op_def
        if node_def.name in self._by_name or not _VALID_NAME.match(node_def.name):
            why = "Duplicate node name in graph: " if node_def.name in self._by_name else ""
            raise ValueError(
                f"{why}'{node_def.name}'{'' if why else ' is not a valid node name'}\n"
                + errors.message(f"node name {node_def.name!r}", "a valid name that is free", "graph.unique_name(name)")
            )
        op = self.create_op(node_def.op, inputs or None, name=f"{node_def.name}/", attrs=dict(node_def.attr))
        self._add_control_inputs(op, control_inputs or ())
        op.original = original_op
        if node_def.device:
            self._set_device(op, node_def.device)
        return op

    def _add_control_inputs(self, op: Operation, controls: Sequence[Operation]) -> None:
        self._check_not_finalized()
        with self._lock:
            for control in self._localise_controls(op.body, [self._operation_of(item) for item in controls]):
                if control not in op._control_inputs:
                    op._control_inputs.append(control)
                    control._control_outputs.append(op)
            self._note_change(op)

    def _remove_all_control_inputs(self, op: Operation) -> None:
        self._check_not_finalized()
        for control in op._control_inputs:
            control._control_outputs.remove(op)
        op._control_inputs.clear()
        self._note_change(op)

    def _get_control_flow_context(self) -> BodyContext | None:
        return context_of(self.current_body)

    def _apply_device_functions(self, op: Any) -> None:
        """Give ``op`` the device that the device scopes in force say.

        What is not an operation, but has ``device`` and ``_set_device`` like one, is told: programs ask so for the
        device in force.
        """
        if not isinstance(op, Operation):
            if self._scopes.devices is not None:
                set_device = getattr(op, "_set_device_from_string", None) or op._set_device
                set_device(devices.resolve(self._scopes.devices, op))
            return
        op._device = devices.resolve(self._scopes.devices, op)
        self._note_change(op)

    @property
    def _nodes_by_name(self) -> dict[str, Operation]:
        return {op.name: op for op in self._operations}

    @property
    def _nodes_by_id(self) -> dict[int, Operation]:
        return {op._id: op for op in self._operations}

    def _get_operation_by_name_unsafe(self, name: str) -> Operation:
        return self.get_operation_by_name(name)

    def _update_input(self, op: Operation, index: int, tensor: Tensor) -> None:
        self._check_not_finalized()
        if tensor.graph is not self:
            raise ValueError(
                f"{tensor.name} must be from the same graph as {op.name}\n"
                + errors.message(
                    f"tensor {tensor.name!r} of another graph", "a tensor of the operation's graph", "build it there"
                )
            )
        if index >= len(op._inputs):
            raise errors.OutOfRangeError(
                None,
                None,
                f"Cannot update edge. Input index [{index}] is greater than the number of total inputs "
                f"[{len(op._inputs)}].",
            )
        with self._lock:
            old = op._inputs[index]
            if not shapes.is_compatible(old._shape, tensor._shape):
                raise errors.InvalidArgumentError(
                    None,
                    None,
                    f"Cannot update edge, incompatible shapes: {shapes.show(tensor._shape)} and "
                    f"{shapes.show(old._shape)}.",
                )
            if old.dtype.base != tensor.dtype.base:
                raise TypeError(
                    errors.message(
                        f"{tensor.dtype.name} for input {index} of {op.name!r}", old.dtype.base.name, "cast it"
                    )
                )
            old._consumers.remove(op)
            tensor = op.body.capture(tensor, op.name)
            op._inputs = (*op._inputs[:index], tensor, *op._inputs[index + 1 :])
            tensor._consumers.append(op)
            body_ops.input_changed(op, index, old, tensor)
            body_ops.note_order(op, tensor)
            self._note_change(op)

    def switch_to_thread_local(self) -> None:
        """Nothing: scopes belong to the thread that enters them anyway."""

    def _add_op(self, op: Operation) -> None:
        """Nothing: an operation is in its graph from the start."""

    def _record_op_seen_by_control_dependencies(self, op: Operation) -> None:
        """Note that the control dependencies in force hold for what takes ``op`` by way of ``op``."""
        for scope in self._scopes.controls:
            scope.seen.add(op)

    def _set_device(self, op: Operation, device: Any) -> None:
        self._check_not_finalized()
        op._device = devices.canonical_name(device)
        self._note_change(op)

    # ---------------------------------------------------------------------------------------------------------- formats
    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """The graph, or what was made after ``from_version``, as a GraphDef; with ``_output_shapes`` if asked."""
        return hooks.graph_def(self, from_version, add_shapes)

    def __repr__(self) -> str:
        return f"<Graph of {len(self._operations)} operations at {id(self):#x}>"


default_graph.set_graph_class(Graph)
