"""The graph: operations, nested bodies, names, collections, and the scopes that surround op creation.

The life of a graph. A program creates operations under scopes (name, device, control dependencies, colocation);
each is checked against its type's contract, gets its static shapes, and is appended: the *creation index* is what orders
effects later. Nothing runs. A session reads the graph (its ``version`` says whether a plan is still valid) and never
changes it; ``finalize`` makes that a promise. ``as_graph_def`` and ``import_graph_def`` are its only persistent form.

Nested bodies. The branches of a conditional and the bodies of loops and functions are :class:`Body` objects of the *same* graph: one
name space, one set of collections, one seed counter, one order of creation. An op belongs to exactly one body. An op
that takes a tensor of an enclosing body *captures* it: the body gets an argument (an ``_Arg`` op) that stands for it, and the op that owns the body
gets an input. A control edge from outside goes to the owning op. Variables made inside are made in the root (``init_scope``).

Thread safety: creation takes the graph's lock; scopes and the default-graph stack are per thread.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from anabranch.core import collections, device as devices, errors, hooks, inference, opdef, shapes, sites
from anabranch.core.dtypes import DType
from anabranch.core.opdef import REQUIRED, OpDefinition
from anabranch.core.operation import Operation, Tensor

_VALID_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*\Z")
_VALID_INNER_SCOPE = re.compile(r"[A-Za-z0-9_.\\/>-]*\Z")


class Body:
    """An ordered set of operations inside a graph: the root, a branch, a loop body or a function."""

    def __init__(self, graph: Graph, name: str, parent: Body | None):
        self.graph = graph
        self.name = name
        self.parent = parent
        self.owner: Operation | None = None
        """The op that holds the body as an attribute, once it exists."""
        self.operations: list[Operation] = []
        self.args: list[Tensor] = []
        """Arguments in order: the declared ones, then one per capture."""
        self.captures: dict[Tensor, Tensor] = {}
        """Outer tensor -> the argument that stands for it."""
        self.outputs: list[Tensor] = []
        self.outer_control_inputs: dict[Operation, None] = {}
        """Operations of enclosing bodies that must run before the owner."""

    @property
    def is_root(self) -> bool:
        return self.parent is None

    def encloses(self, other: Body | None) -> bool:
        """Whether ``other`` is this body or nested in it."""
        while other is not None:
            if other is self:
                return True
            other = other.parent
        return False

    def add_arg(self, dtype: DType, shape: Any, name: str) -> Tensor:
        """Appends an argument of the body and returns its tensor."""
        with self.graph.building(self), self.graph.control_dependencies(None):
            op = self.graph._create(opdef.lookup("_Arg"), [], {"T": dtype.base, "index": len(self.args)}, name)
        arg = op._outputs[0]
        arg._shape = shapes.as_raw(shape)
        self.args.append(arg)
        return arg

    def capture(self, tensor: Tensor) -> Tensor:
        """The tensor inside this body that stands for ``tensor`` of an enclosing body."""
        if tensor.op.body is self:
            return tensor
        found = self.captures.get(tensor)
        if found is None:
            if self.parent is None or not tensor.op.body.encloses(self):
                raise ValueError(errors.message(
                    f"tensor {tensor.name!r} of the nested body {tensor.op.body.name!r} used in body {self.name!r}",
                    "a tensor of this body or of one around it",
                    "return the tensor from the branch or loop body and use the returned one"))
            outer = self.parent.capture(tensor)
            found = self.add_arg(tensor.dtype, tensor._shape, f"{tensor.op.name.rsplit('/', 1)[-1]}_capture")
            found._handle = tensor._handle
            self.captures[outer] = found
            self.captures[tensor] = found
        return found

    def __repr__(self) -> str:
        return f"<Body {self.name!r} of {len(self.operations)} ops>"


class _Scopes(threading.local):
    """What surrounds op creation in one thread."""

    def __init__(self) -> None:
        self.name = ""
        self.devices: devices.DeviceScope | None = None
        self.controls: list[_ControlScope] = []
        self.colocation: list[Operation] = []
        self.body: Body | None = None
        self.gradient_overrides: dict[str, str] = {}
        self.attrs: dict[str, Any] = {}
        self.original: Operation | None = None
        self.site: Any = None


class _ControlScope:
    """One ``control_dependencies`` context: its operations, and the ops made under it (which already depend on them)."""

    __slots__ = ("controls", "new_stack", "seen")

    def __init__(self, controls: list[Operation], new_stack: bool):
        self.controls = controls
        self.seen: set[Operation] = set()
        self.new_stack = new_stack


class Graph:
    """A dataflow graph.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default() as g:
        ...     x = tf.constant(2.0) * 3.0
        >>> [op.name for op in g.get_operations()]
        ['Const', 'mul/y', 'mul']
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self.root = Body(self, "", None)
        self._operations: list[Operation] = []
        self._by_name: dict[str, Operation] = {}
        self._names_in_use: dict[str, int] = {}
        self._collections: dict[Any, list[Any]] = {}
        self._scopes = _Scopes()
        self._version = 0
        self._finalized = False
        self._unfeedable: set[Tensor] = set()
        self._unfetchable: set[Operation] = set()
        self._functions: dict[str, Any] = {}
        self._seed: int | None = None
        self._producer_version = 1395
        self._containers: list[str] = [""]

    # ------------------------------------------------------------------------------------------------------ properties
    @property
    def version(self) -> int:
        """Number of changes made to the graph."""
        return self._version

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
        """Number of operations created so far; the default op seed of a seeded graph."""
        return len(self._operations)

    @property
    def finalized(self) -> bool:
        """Whether the graph refuses changes."""
        return self._finalized

    @property
    def building_function(self) -> bool:
        """Whether ops are being added to a nested body."""
        return not self.current_body.is_root

    @property
    def current_body(self) -> Body:
        """The body that new operations of this thread go to."""
        return self._scopes.body or self.root

    @property
    def collections(self) -> list[Any]:
        """Keys of the non-empty collections."""
        return self.get_all_collection_keys()

    def finalize(self) -> None:
        """Makes the graph read-only."""
        self._finalized = True

    def _unsafe_unfinalize(self) -> None:
        self._finalized = False

    def _check_not_finalized(self) -> None:
        if self._finalized:
            raise RuntimeError("Graph is finalized and cannot be modified.\n" + errors.message(
                "a change to a finalised graph", "all operations to be made before finalize()",
                "build ops before the session or Supervisor that finalised the graph starts"))

    # ---------------------------------------------------------------------------------------------------------- naming
    def unique_name(self, name: str, mark_as_used: bool = True) -> str:
        """``name`` under the current name scope, made unique by a suffix ``_1``, ``_2``, ..."""
        if self._scopes.name:
            name = f"{self._scopes.name}/{name}"
        return self._unique(name, mark_as_used)

    def _unique(self, name: str, mark_as_used: bool = True) -> str:
        used = self._names_in_use
        key = name.lower()
        count = used.get(key, 0)
        if mark_as_used:
            used[key] = count + 1
        if not count:
            return name
        base = key
        while key in used:
            key = f"{base}_{count}"
            count += 1
        if mark_as_used:
            used[key] = 1
            used[base] = count
        return f"{name}_{count - 1}"

    @contextlib.contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Prefixes names of new ops. A name ending in '/' re-enters that scope; None or '' leaves all scopes."""
        if name:
            if isinstance(name, (bytes, bytearray)):
                name = name.decode()
            valid = _VALID_INNER_SCOPE if self._scopes.name else _VALID_NAME
            if not valid.match(name):
                raise ValueError(f"'{name}' is not a valid scope name\n" + errors.message(
                    f"scope name {name!r}", "letters, digits, '.', '_', '-', '/', not starting with '_' or '-'", "rename the scope"))
        old = self._scopes.name
        if not name:
            new = ""
        elif name[-1] == "/":
            new = name[:-1]
        else:
            new = self.unique_name(name)
        self._scopes.name = new
        try:
            yield new + "/" if new else ""
        finally:
            self._scopes.name = old

    def get_name_scope(self) -> str:
        """The current name scope, without a final '/'."""
        return self._scopes.name

    @property
    def _name_stack(self) -> str:
        return self._scopes.name

    # ---------------------------------------------------------------------------------------------------------- scopes
    @contextlib.contextmanager
    def device(self, device_name_or_function: Any) -> Iterator[None]:
        """Places new operations on a device: a string, a DeviceSpec, a function of the op, or None to clear outer scopes."""
        scopes = self._scopes
        old = scopes.devices
        scopes.devices = devices.DeviceScope(old, device_name_or_function)
        try:
            yield
        finally:
            scopes.devices = old

    @contextlib.contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        """Places new operations with ``op`` (an operation or a tensor; None only clears existing scopes)."""
        scopes = self._scopes
        old, old_devices = scopes.colocation, scopes.devices
        op = self._operation_of(op) if op is not None else None
        scopes.colocation = ([] if ignore_existing else list(old)) + ([op] if op is not None else [])
        if op is not None:
            scopes.devices = None
        try:
            yield
        finally:
            scopes.colocation, scopes.devices = old, old_devices

    @contextlib.contextmanager
    def control_dependencies(self, control_inputs: Iterable[Any] | None) -> Iterator[None]:
        """New operations run after ``control_inputs``; None clears outer scopes."""
        scopes = self._scopes
        old = scopes.controls
        if control_inputs is None:
            scopes.controls = []
        else:
            controls: list[Operation] = []
            current: set[Operation] = set()
            for scope in old:
                current.update(scope.controls)
            for item in control_inputs:
                op = self._operation_of(item)
                if op not in current:
                    controls.append(op)
                    current.add(op)
            scopes.controls = [*old, _ControlScope(controls, False)]
        try:
            yield
        finally:
            scopes.controls = old

    def _operation_of(self, item: Any) -> Operation:
        if isinstance(item, Tensor):
            item = item.op
        elif not isinstance(item, Operation):
            for attribute in ("handle", "op"):  # variables, TensorArrays, IndexedSlices
                inner = getattr(item, attribute, None)
                if isinstance(inner, (Tensor, Operation)):
                    return self._operation_of(inner)
            item = self.as_graph_element(item)
            return self._operation_of(item)
        if item.graph is not self:
            raise ValueError(errors.message(f"operation {item.name!r} of another graph", "one of this graph",
                                            "build both under the same `with graph.as_default():`"))
        return item

    def _current_control_inputs(self) -> list[Operation]:
        return list(dict.fromkeys(op for scope in self._scopes.controls for op in scope.controls))

    def _control_dependencies_for_inputs(self, input_ops: Iterable[Operation]) -> list[Operation]:
        found: dict[Operation, None] = {}
        input_set = set(input_ops)
        for scope in self._scopes.controls:
            if not any(op in scope.seen for op in input_set):
                for op in scope.controls:
                    if op not in input_set:
                        found[op] = None
        return list(found)

    @contextlib.contextmanager
    def building(self, body: Body) -> Iterator[Body]:
        """New operations of this thread go to ``body``."""
        scopes = self._scopes
        old = scopes.body
        scopes.body = body
        try:
            yield body
        finally:
            scopes.body = old

    def new_body(self, name: str) -> Body:
        """A nested body inside the current one."""
        return Body(self, self.unique_name(name), self.current_body)

    @contextlib.contextmanager
    def init_scope(self) -> Iterator[None]:
        """Lifts new operations to the root body, outside of control dependencies (variables made in a loop)."""
        with self.building(self.root), self.control_dependencies(None):
            yield

    @contextlib.contextmanager
    def gradient_override_map(self, op_type_map: dict[str, str]) -> Iterator[None]:
        """New ops of a type in the map use the gradient registered under the mapped name."""
        if not isinstance(op_type_map, dict) or not all(isinstance(k, str) and isinstance(v, str) for k, v in op_type_map.items()):
            raise TypeError(errors.message(f"{op_type_map!r}", "a dict from op type names to gradient names",
                                           'gradient_override_map({"Square": "MySquare"})'))
        scopes = self._scopes
        old = scopes.gradient_overrides
        scopes.gradient_overrides = {**old, **op_type_map}
        try:
            yield
        finally:
            scopes.gradient_overrides = old

    @contextlib.contextmanager
    def attr_scope(self, attrs: dict[str, Any]) -> Iterator[None]:
        """New ops get these extra attributes (names start with '_'); a None value removes one."""
        scopes = self._scopes
        old = scopes.attrs
        scopes.attrs = {k: v for k, v in {**old, **attrs}.items() if v is not None}
        try:
            yield
        finally:
            scopes.attrs = old

    _attr_scope = attr_scope

    @contextlib.contextmanager
    def original_op(self, op: Operation, site: Any = None) -> Iterator[None]:
        """New operations are made on behalf of ``op`` (its gradient); errors in them show its line too."""
        scopes = self._scopes
        old = scopes.original
        scopes.original = op
        try:
            yield
        finally:
            scopes.original = old

    _original_op = original_op

    @contextlib.contextmanager
    def shared_site(self) -> Iterator[None]:
        """New operations share one captured site (a library call that makes many ops for one user line)."""
        scopes = self._scopes
        old = scopes.site
        scopes.site = old or sites.capture(3)
        try:
            yield
        finally:
            scopes.site = old

    @contextlib.contextmanager
    def container(self, container_name: str) -> Iterator[str]:
        """Names the resource container of new stateful ops."""
        self._containers.append(container_name)
        try:
            yield container_name
        finally:
            self._containers.pop()

    @property
    def _container(self) -> str:
        return self._containers[-1]

    def as_default(self) -> contextlib.AbstractContextManager[Graph]:
        """Makes this the default graph of the thread inside a ``with`` block."""
        return _as_default(self)

    # --------------------------------------------------------------------------------------------------- op creation
    def _create(self, definition: OpDefinition, inputs: Sequence[Tensor], attrs: dict[str, Any], name: str | None = None, *,
                unique: bool = True, control_inputs: Sequence[Operation] = (), device: Any = None,
                infer_shapes: bool = True) -> Operation:
        """Appends an operation. ``attrs`` must be complete and in stored form; ``unique=False`` takes ``name`` as it stands."""
        if self._finalized:
            self._check_not_finalized()
        with self._lock:
            scopes = self._scopes
            body = scopes.body or self.root
            if name is None:
                name = definition.type_name
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
                raise ValueError(f"'{name}' is not a valid node name\n" + errors.message(
                    f"op name {name!r}", "letters, digits, '.', '_', '-', '/', starting with a letter, a digit or '.'", "rename the op"))
            for tensor in inputs:
                if tensor.op.body is not body:
                    if tensor.op.graph is not self:
                        raise ValueError(errors.message(
                            f"tensor {tensor.name!r} of another graph as an input of {name!r}", "tensors of one graph",
                            "build both under the same `with graph.as_default():`"))
                    inputs = [body.capture(item) for item in inputs]
                    break
            if scopes.attrs:
                attrs = {**attrs, **scopes.attrs}
            override = scopes.gradient_overrides.get(definition.type_name)
            if override is not None:
                attrs["_gradient_op_type"] = override
            controls = list(control_inputs)
            if scopes.controls:
                controls += [op for op in self._control_dependencies_for_inputs(t.op for t in inputs) if op not in controls]
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
            op._outputs = tuple(Tensor(op, i, dtype, shape) for i, (dtype, shape) in enumerate(zip(dtypes_, raw, strict=True)))
            if infer_shapes and self._last_handles:
                for index, handle in self._last_handles.items():
                    op._outputs[index]._handle = handle
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
            self._by_name[name] = op
            for tensor in inputs:
                tensor._consumers.append(op)
            for control in controls:
                control._control_outputs.append(op)
            self._version += 1
            return op

    _last_handles: dict[int, Any] | None = None

    def _infer(self, op: Operation, count: int) -> list[Any]:
        context = inference.ShapeContext(op.definition, op._attrs, op._inputs, [t._shape for t in op._inputs])
        try:
            raw = inference.infer(op.definition, context, count)
        except (ValueError, TypeError) as problem:
            told = [f"  input {i}: {t.name} {t.dtype.name} {shapes.show(t._shape)}" for i, t in enumerate(op._inputs)]
            raise type(problem)("\n".join([str(problem), f"Op: {op.type} {op.name!r}", *told, f"At: {op.user_site}"])) from None
        self._last_handles = context.output_handles or None
        return raw

    def _localise_controls(self, body: Body, controls: list[Operation]) -> list[Operation]:
        local = []
        for control in controls:
            if control.graph is not self:
                raise ValueError(errors.message(f"control input {control.name!r} of another graph", "an op of this graph",
                                                "build both under one graph"))
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
                raise ValueError(errors.message(f"control input {control.name!r} inside the nested body {control.body.name!r}",
                                                "an op of this body or of one around it", "depend on the op that owns that body"))
        return local

    def _colocate(self, op: Operation, stack: list[Operation]) -> None:
        groups = sorted({group.decode() for other in stack for group in other.colocation_groups()})
        op._attrs["_class"] = tuple(groups)
        for other in stack:
            if other._device and not op._device:
                op._device = other._device

    def create_op(self, op_type: str, inputs: Sequence[Any], dtypes: Any = None, input_types: Any = None, name: str | None = None,
                  attrs: dict[str, Any] | None = None, op_def: Any = None, compute_shapes: bool = True, compute_device: bool = True) -> Operation:
        """Creates an operation from its type's name, input tensors and attributes (AttrValue protos or plain values)."""
        definition = opdef.lookup(op_type)
        given = {key: hooks.attr_from_proto(value) if hasattr(value, "WhichOneof") else value for key, value in (attrs or {}).items()}
        complete: dict[str, Any] = {}
        tensors = [item if isinstance(item, Tensor) else self.as_graph_element(item, allow_operation=False) for item in inputs]
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
                raise ValueError(errors.message(f"op {op_type!r} without attribute for its list input {arg.name!r}", "N or a list of types",
                                                "pass it in attrs="))
            position += arg.count(complete)
        missing = [key for key in definition.attrs if key not in complete]
        if missing:
            raise ValueError(errors.message(f"op {op_type!r} without attribute(s) {missing}", "all attributes without default", "pass them in attrs="))
        if position != len(tensors):
            raise ValueError(errors.message(f"{len(tensors)} inputs for op {op_type!r}", f"{position}", "check the op's signature"))
        for wanted, tensor in zip(definition.input_dtypes(complete), tensors, strict=True):
            if wanted.base != tensor.dtype.base or (wanted.is_ref and not tensor.dtype.is_ref):
                raise TypeError(errors.message(f"input {tensor.name!r} of dtype {tensor.dtype.name} for op {op_type!r}", wanted.name, "cast it"))
        complete.update(given)
        return self._create(definition, tensors, complete, name, infer_shapes=compute_shapes)

    def _add_control_inputs(self, op: Operation, controls: Sequence[Operation]) -> None:
        self._check_not_finalized()
        with self._lock:
            for control in self._localise_controls(op.body, [self._operation_of(item) for item in controls]):
                if control not in op._control_inputs:
                    op._control_inputs.append(control)
                    control._control_outputs.append(op)
            self._version += 1

    def _update_input(self, op: Operation, index: int, tensor: Tensor) -> None:
        self._check_not_finalized()
        with self._lock:
            old = op._inputs[index]
            if old.dtype.base != tensor.dtype.base:
                raise TypeError(errors.message(f"{tensor.dtype.name} for input {index} of {op.name!r}", old.dtype.base.name, "cast it"))
            old._consumers.remove(op)
            tensor = op.body.capture(tensor)
            op._inputs = (*op._inputs[:index], tensor, *op._inputs[index + 1:])
            tensor._consumers.append(op)
            self._version += 1

    def _set_device(self, op: Operation, device: Any) -> None:
        self._check_not_finalized()
        op._device = devices.canonical_name(device)
        self._version += 1

    # ------------------------------------------------------------------------------------------------------------- lookup
    def get_operations(self) -> list[Operation]:
        """All operations in order of creation, those of nested bodies included."""
        return list(self._operations)

    def get_operation_by_name(self, name: str) -> Operation:
        """The operation called ``name``; KeyError if there is none."""
        if not isinstance(name, str):
            raise TypeError(f"Operation names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_tensor=False)

    def get_tensor_by_name(self, name: str) -> Tensor:
        """The tensor called ``op:index``; KeyError if there is none."""
        if not isinstance(name, str):
            raise TypeError(f"Tensor names are strings (or similar), not {type(name).__name__}.")
        return self.as_graph_element(name, allow_operation=False)

    def as_graph_element(self, obj: Any, allow_tensor: bool = True, allow_operation: bool = True) -> Any:
        """The tensor or operation that ``obj`` (itself, a name, or an object that stands for one) means.

        Raises:
            TypeError: ``obj`` cannot mean one. KeyError: no such name. ValueError: element of another graph, or a
            name of the wrong form.
        """
        allowed = " or ".join(kind for kind, on in (("Tensor", allow_tensor), ("Operation", allow_operation)) if on)
        if not allowed:
            raise ValueError("allow_tensor and allow_operation can't both be False.")
        if not isinstance(obj, (Tensor, Operation, str, bytes)):
            convert = getattr(obj, "_as_graph_element", None)
            element = convert() if callable(convert) else None
            if element is None:
                raise TypeError(f"Can not convert a {type(obj).__name__} into a {allowed}.")
            obj = element
        if isinstance(obj, bytes):
            obj = obj.decode()
        if isinstance(obj, str):
            return self._element_by_name(obj, allow_tensor, allow_operation, allowed)
        if isinstance(obj, Tensor) and not allow_tensor or isinstance(obj, Operation) and not allow_operation:
            raise TypeError(f"Can not convert a {type(obj).__name__} into a {allowed}.")
        if obj.graph is not self:
            raise ValueError(f"{type(obj).__name__} {obj} is not an element of this graph.")
        return obj

    def _element_by_name(self, name: str, allow_tensor: bool, allow_operation: bool, allowed: str) -> Any:
        if ":" in name and allow_tensor:
            op_name, _, index_text = name.partition(":")
            if not op_name or not index_text.isdigit():
                raise ValueError(f"The name {name!r} looks a like a Tensor name, but is not a valid one. "
                                 'Tensor names must be of the form "<op_name>:<output_index>".')
            op = self._by_name.get(op_name)
            if op is None:
                raise KeyError(f"The name {name!r} refers to a Tensor which does not exist. "
                               f"The operation, {op_name!r}, does not exist in the graph.")
            index = int(index_text)
            if index >= len(op._outputs):
                raise KeyError(f"The name {name!r} refers to a Tensor which does not exist. The operation, {op_name!r}, "
                               f"exists but only has {len(op._outputs)} outputs.")
            return op._outputs[index]
        if ":" in name:
            raise ValueError(f"Name {name!r} appears to refer to a Tensor, not a {allowed}.")
        op = self._by_name.get(name)
        if op is None:
            if not allow_operation:
                raise ValueError(f"The name {name!r} looks like an (invalid) Operation name, not a {allowed}. "
                                 'Tensor names must be of the form "<op_name>:<output_index>".')
            raise KeyError(f"The name {name!r} refers to an Operation not in the graph.")
        if not allow_operation:
            raise ValueError(f"The name {name!r} refers to an Operation, not a {allowed}. "
                             'Tensor names must be of the form "<op_name>:<output_index>".')
        return op

    def is_feedable(self, tensor: Any) -> bool:
        """Whether ``tensor`` may be fed."""
        return tensor not in self._unfeedable

    def is_fetchable(self, tensor_or_op: Any) -> bool:
        """Whether ``tensor_or_op`` may be fetched."""
        op = tensor_or_op.op if isinstance(tensor_or_op, Tensor) else tensor_or_op
        return op not in self._unfetchable and op.body.is_root

    def prevent_feeding(self, tensor: Tensor) -> None:
        """Refuses feeds of ``tensor``."""
        self._unfeedable.add(tensor)

    def prevent_fetching(self, op: Operation) -> None:
        """Refuses fetches of ``op``."""
        self._unfetchable.add(op)

    # -------------------------------------------------------------------------------------------------------- collections
    def add_to_collection(self, name: Any, value: Any) -> None:
        """Appends ``value`` to the collection ``name``."""
        self._check_not_finalized()
        with self._lock:
            self._collections.setdefault(name, []).append(value)

    def add_to_collections(self, names: Any, value: Any) -> None:
        """Appends ``value`` to each collection (a name or an iterable of names)."""
        for name in (names,) if isinstance(names, str) else dict.fromkeys(names):
            self.add_to_collection(name, value)

    def get_collection_ref(self, name: Any) -> list[Any]:
        """The collection's own list, which the caller may change."""
        with self._lock:
            return self._collections.setdefault(name, [])

    def get_collection(self, name: Any, scope: str | None = None) -> list[Any]:
        """A copy of the collection; with ``scope``, the items whose name matches that regular expression at its start."""
        with self._lock:
            found = self._collections.get(name, [])
            return list(found) if scope is None else collections.in_scope(found, scope)

    def get_all_collection_keys(self) -> list[Any]:
        """Names of the collections."""
        with self._lock:
            return [key for key in self._collections if isinstance(key, str)]

    def clear_collection(self, name: Any) -> None:
        """Empties a collection."""
        self._check_not_finalized()
        with self._lock:
            self._collections.pop(name, None)

    # -------------------------------------------------------------------------------------------------------------- formats
    def as_graph_def(self, from_version: int | None = None, add_shapes: bool = False) -> Any:
        """The graph as a GraphDef; only nodes made after ``from_version`` if given; with an ``_output_shapes`` attribute if asked."""
        return hooks.graph_def(self, from_version, add_shapes)

    def __repr__(self) -> str:
        return f"<Graph of {len(self._operations)} operations at {id(self):#x}>"


# --------------------------------------------------------------------------------------------------------- default graph
class _DefaultStack(threading.local):
    def __init__(self) -> None:
        self.graphs: list[Graph] = []


_stack = _DefaultStack()
_global_graph: list[Graph] = []
_global_lock = threading.Lock()


@contextlib.contextmanager
def _as_default(graph: Graph) -> Iterator[Graph]:
    stack = _stack.graphs
    stack.append(graph)
    try:
        yield graph
    finally:
        if not stack or stack[-1] is not graph:
            raise AssertionError("Nesting violated for the default graph: exit contexts in the reverse order of entering them.")
        stack.pop()


def get_default_graph() -> Graph:
    """The default graph of the thread: the innermost ``as_default`` one, else the process's global one."""
    if _stack.graphs:
        return _stack.graphs[-1]
    if not _global_graph:
        with _global_lock:
            if not _global_graph:
                _global_graph.append(Graph())
    return _global_graph[0]


def reset_default_graph() -> None:
    """Replaces the process's global graph by an empty one.

    Raises:
        AssertionError: called inside a ``with graph.as_default():`` block.
    """
    if _stack.graphs:
        raise AssertionError("Do not use tf.reset_default_graph() to clear nested graphs. If you need a cleared graph, "
                             "exit the nesting and create a new graph.")
    with _global_lock:
        _global_graph[:] = [Graph()]


def graph_of(values: Iterable[Any], default: Callable[[], Graph] = get_default_graph) -> Graph:
    """The one graph that the tensors and operations among ``values`` belong to, or the default graph.

    Raises:
        ValueError: they belong to different graphs.
    """
    found: Graph | None = None
    first: Any = None
    for value in values:
        graph = getattr(value, "graph", None)
        if isinstance(graph, Graph):
            if found is None:
                found, first = graph, value
            elif graph is not found:
                raise ValueError(f"{value!r} must be from the same graph as {first!r}.\n" + errors.message(
                    "tensors of two graphs", "tensors of one graph", "build both under the same `with graph.as_default():`"))
    return found if found is not None else default()
