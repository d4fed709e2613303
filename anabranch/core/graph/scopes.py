"""What surrounds the creation of operations: scopes of names, devices, colocation, control dependencies and attributes.

Each thread has its own state of scopes in a graph (:class:`_Scopes`); the names in use belong to the graph. The context
managers are methods of :class:`GraphScopes`, the base of `Graph`. Leaving a scope puts back the state of entering it,
whatever happened inside.
"""

from __future__ import annotations

import contextlib
import re
import threading
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, cast

from anabranch.core import device as devices
from anabranch.core import errors, sites
from anabranch.core.contract import hooks
from anabranch.core.graph.body import Body
from anabranch.core.graph.builder import current_stack
from anabranch.core.graph.elements import GraphElements
from anabranch.core.graph.operation import Operation, Tensor

if TYPE_CHECKING:
    from anabranch.core.graph.graph import Graph

_VALID_NAME = re.compile(r"[A-Za-z0-9.][A-Za-z0-9_.\\/>-]*\Z")
_VALID_INNER_SCOPE = re.compile(r"[A-Za-z0-9_.\\/>-]*\Z")


class _Scopes(threading.local):
    """What surrounds op creation in one thread."""

    def __init__(self) -> None:
        self.name = ""
        self.function = ""
        """The name scope of the ops of the function that is being built, which its variables do not have."""
        self.devices: devices.DeviceScope | None = None
        self.controls: list[_ControlScope] = []
        self.colocation: list[Operation] = []
        self.body: Body | None = None
        self.left: Body | None = None
        self.attrs_by_type: dict[str, dict[str, str]] = {}
        self.attrs: dict[str, Any] = {}
        self.original: Operation | None = None
        self.site: Any = None


class _ControlScope:
    """One ``control_dependencies`` context: its operations, and the ops made under it (which depend on them)."""

    __slots__ = ("controls", "new_stack", "seen")

    def __init__(self, controls: list[Operation], new_stack: bool):
        self.controls = controls
        self.seen: set[Operation] = set()
        self.new_stack = new_stack


class _OperandScope:
    """Make a graph the current builder and re-enter a name scope of it: what `as_default` and `name_scope` do, at the
    price of one object, since each op with an operand to convert needs it.
    """

    __slots__ = ("_full", "_graph", "_old")

    def __init__(self, graph: GraphScopes, full: str) -> None:
        self._graph = graph
        self._full = full

    def __enter__(self) -> str:
        scopes = self._graph._scopes
        self._old = scopes.name
        scopes.name = self._full
        current_stack().append(self._graph)
        return f"{self._full}/"

    def __exit__(self, *error: object) -> None:
        current_stack().pop()
        self._graph._scopes.name = self._old


class GraphScopes(GraphElements):
    """The part of a graph that holds scopes and unique names."""

    root: Body
    _names_in_use: dict[str, int]
    _scopes: _Scopes
    _containers: list[str]

    @property
    def current_body(self) -> Body:
        """The body that new operations of this thread go to."""
        return self._scopes.body or self.root

    @property
    def place(self) -> Body:
        """The body that new operations of this thread go to."""
        return self.current_body

    # ----------------------------------------------------------------------------------------------------------- naming
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

    def _check_scope_name(self, name: str) -> None:
        valid = _VALID_INNER_SCOPE if self._scopes.name else _VALID_NAME
        if not valid.match(name):
            raise ValueError(
                f"'{name}' is not a valid scope name\n"
                + errors.message(
                    f"scope name {name!r}",
                    "letters, digits, '.', '_', '-', '/', not starting with '_' or '-'",
                    "rename the scope",
                )
            )

    @contextlib.contextmanager
    def name_scope(self, name: str | None) -> Iterator[str]:
        """Prefixes names of new ops. A name ending in '/' re-enters that scope; None or '' leaves all scopes."""
        if name:
            if isinstance(name, (bytes, bytearray)):
                name = name.decode()
            self._check_scope_name(name)
        old = self._scopes.name
        if not name:
            new = ""
        elif name[-1] == "/":
            new = name[:-1]
        else:
            new = self.unique_name(name)
        self._scopes.name = new
        try:
            yield new + "/" if new or name else ""
        finally:
            self._scopes.name = old

    def get_name_scope(self) -> str:
        """The current name scope, without a final '/'."""
        return self._scopes.name

    @property
    def _name_stack(self) -> str:
        return self._scopes.name

    # ----------------------------------------------------------------------------------------------------------- scopes
    @contextlib.contextmanager
    def device(self, device_name_or_function: Any) -> Iterator[None]:
        """Places new operations: a device string, a DeviceSpec, a function of the op, or None to clear outer scopes."""
        scopes = self._scopes
        old = scopes.devices
        scopes.devices = devices.DeviceScope(old, device_name_or_function)
        try:
            yield
        finally:
            scopes.devices = old

    @contextlib.contextmanager
    def colocate_with(self, op: Any, ignore_existing: bool = False) -> Iterator[None]:
        """Places new operations with ``op`` (an operation or a tensor; None with ``ignore_existing`` clears scopes).

        Device scopes around it do not count inside: colocation is the stronger wish.
        """
        if op is None and not ignore_existing:
            raise ValueError(
                "Trying to reset colocation (op is None) but ignore_existing is not True\n"
                + errors.message(
                    "no op to colocate with", "an operation or a tensor", "ignore_existing=True to clear scopes"
                )
            )
        scopes = self._scopes
        old, old_devices = scopes.colocation, scopes.devices
        handle = getattr(op, "handle", None)  # a variable behind one: where it is, not where it was last written from
        op = self._operation_of(handle if isinstance(handle, Tensor) else op) if op is not None else None
        scopes.colocation = ([] if ignore_existing else list(old)) + ([op] if op is not None else [])
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
            inner = getattr(item, "op", None)  # variables (their last write), TensorArrays, IndexedSlices
            if isinstance(inner, Operation):
                return self._operation_of(inner)
            item = self.as_graph_element(item)
            return self._operation_of(item)
        if item.graph is not self:
            raise ValueError(
                errors.message(
                    f"operation {item.name!r} of another graph",
                    "one of this graph",
                    "build both under the same `with graph.as_default():`",
                )
            )
        return item

    def _current_control_inputs(self) -> list[Operation]:
        return list(dict.fromkeys(op for scope in self._scopes.controls for op in scope.controls))

    def _control_dependencies_for_inputs(self, input_ops: Iterable[Operation]) -> list[Operation]:
        controls: dict[Operation, None] = {}
        input_set = set(input_ops)
        for scope in self._scopes.controls:
            if not any(op in scope.seen for op in input_set):
                for op in scope.controls:
                    if op not in input_set:
                        controls[op] = None
        return list(controls)

    @contextlib.contextmanager
    def building(self, body: Body) -> Iterator[Body]:
        """New operations of this thread go to ``body``."""
        scopes = self._scopes
        old, left = scopes.body, scopes.left
        scopes.body, scopes.left = body, None
        try:
            yield body
        finally:
            scopes.body, scopes.left = old, left

    @contextlib.contextmanager
    def bare_scopes(self) -> Iterator[None]:
        """New operations get no device, colocation, attributes or gradient override from the scopes around."""
        scopes = self._scopes
        old = scopes.devices, scopes.colocation, scopes.attrs, scopes.attrs_by_type
        scopes.devices, scopes.colocation, scopes.attrs, scopes.attrs_by_type = None, [], {}, {}
        try:
            yield
        finally:
            scopes.devices, scopes.colocation, scopes.attrs, scopes.attrs_by_type = old

    def new_body(self, name: str) -> Body:
        """A nested body inside the current one."""
        return Body(cast("Graph", self), self.unique_name(name), self.current_body)

    @contextlib.contextmanager
    def init_scope(self) -> Iterator[None]:
        """Lift new operations to the root body, outside control dependencies (variables made in a loop)."""
        scope = self.scope_in_function()
        inside = self.name_scope(f"{scope}/" if scope else None) if self._scopes.function else contextlib.nullcontext()
        with self.building(self.root), self.control_dependencies(None), inside:
            yield

    @contextlib.contextmanager
    def of_function(self, scope: str) -> Iterator[None]:
        """A block whose ops are those of a function, named in ``scope``: variables that it makes are not."""
        scopes = self._scopes
        old, scopes.function = scopes.function, scope.rstrip("/")
        try:
            yield
        finally:
            scopes.function = old

    def scope_in_function(self) -> str:
        """The current name scope without that of the function that is being built."""
        name, function = self._scopes.name, self._scopes.function
        if name == function:
            return ""
        return name.removeprefix(f"{function}/") if function else name

    @contextlib.contextmanager
    def outside_control_flow(self) -> Iterator[None]:
        """Lift new operations out of branches, loops and control dependencies.

        They go to the graph or function around, unless they have an operand from a body that was left, which only that
        body can compute.
        """
        scopes = self._scopes
        old, left = scopes.body, scopes.left
        outer = inner = self.current_body
        while outer.parent is not None and outer.of_control_flow:
            outer = outer.parent
        if outer is inner:
            with self.control_dependencies(None):
                yield
            return
        scopes.body, scopes.left = outer, inner
        try:
            with self.control_dependencies(None):
                yield
        finally:
            scopes.body, scopes.left = old, left

    @contextlib.contextmanager
    def gradient_override_map(self, op_type_map: dict[str, str]) -> Iterator[None]:
        """New ops of a type in the map use the gradient registered under the mapped name."""
        if not isinstance(op_type_map, dict) or not all(
            isinstance(k, str) and isinstance(v, str) for k, v in op_type_map.items()
        ):
            raise TypeError(
                errors.message(
                    f"{op_type_map!r}",
                    "a dict from op type names to gradient names",
                    'gradient_override_map({"Square": "MySquare"})',
                )
            )
        with self._attr_of_types("_gradient_op_type", op_type_map):
            yield

    @contextlib.contextmanager
    def _attr_of_types(self, attr: str, by_type: dict[str, str]) -> Iterator[None]:
        """New ops of a type in the map get its value as an extra attribute."""
        scopes = self._scopes
        old = scopes.attrs_by_type
        scopes.attrs_by_type = {**old, **{key: {**old.get(key, {}), attr: value} for key, value in by_type.items()}}
        try:
            yield
        finally:
            scopes.attrs_by_type = old

    def _kernel_label_map(self, op_to_kernel_label_map: dict[str, str]) -> Any:
        """New ops of a type in the map carry the label of a kernel, which no kernel here looks at."""
        return self._attr_of_types("_kernel", op_to_kernel_label_map)

    @contextlib.contextmanager
    def attr_scope(self, attrs: dict[str, Any]) -> Iterator[None]:
        """New ops get these extra attributes (names start with '_'); a None value removes one."""
        scopes = self._scopes
        old = scopes.attrs
        given = {k: hooks.attr_from_proto(v) if hasattr(v, "WhichOneof") else v for k, v in attrs.items()}
        scopes.attrs = {k: v for k, v in {**old, **given}.items() if v is not None}
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
    def on_behalf_of(self, op: Any, of_user: bool) -> Iterator[None]:
        """Surround the gradient rule of ``op``: what it makes is in the scope ``<op>_grad`` and on behalf of ``op``.

        The operations of a user's rule keep the line of the rule that made them; others have that of the walk.
        """
        scopes = self._scopes
        site = scopes.site
        if of_user:
            scopes.site = None
        try:
            with self.name_scope(f"{op.name}_grad"), self.original_op(op):
                yield
        finally:
            scopes.site = site

    def operand_scope(self, name: str) -> _OperandScope:
        """Surround the conversion of an op's operands, whose names are ``<op name>/<operand>``; yields the prefix."""
        if isinstance(name, bytes):
            name = name.decode()
        full = name[:-1] if name[-1:] == "/" else self.unique_name(name)
        self._check_scope_name(full)
        return _OperandScope(self, full)

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

    # Names that programs read which build operations as `Graph.create_op` of TensorFlow does.
    @property
    def _colocation_stack(self) -> list[Operation]:
        return list(self._scopes.colocation)
