"""Operations that hold bodies: which input stands for which argument, and how such an operation grows.

Policy. All bodies of one operation have the same arguments: argument i stands for input ``first + i``. Bodies are built
before their operation, each with the captures that it needs; :func:`line_up` then gives every one of them the union.
Later the operation may *grow in place*: a body that captures one more tensor gives it an input, and a gradient takes
values out of the bodies through further outputs. A loop's captures are loop variables that its body returns as they
are, so an input that a loop gains is an output, too.

Growing makes an operation take what was created after it. :func:`restore_order` puts such inputs before their
consumers again, so that the order of creation stays one in which the graph can run.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.attrs import ArgSpec
from anabranch.core.contract.roles import BODIES, Role
from anabranch.core.graph import body as bodies
from anabranch.core.graph.body import Body
from anabranch.core.graph.operation import GraphTensor, Operation, Tensor
from anabranch.core.graph.passing import origin
from anabranch.core.graph.regions import MERGES, NEXTS
from anabranch.core.values import shapes


class BodyUse(NamedTuple):
    """A body that an op holds in the attribute ``attr``: ``body.args[i]`` stands for the op's input ``first + i``."""

    attr: str
    body: Body
    first: int


def bodies_of(op: Operation) -> tuple[BodyUse, ...]:
    """The bodies of a conditional, loop or call, in the order of its attributes; none for other ops."""
    if op.role not in BODIES:
        return ()
    first = first_argument(op)
    bodies = []
    for key, spec in op.definition.attrs.items():
        if spec.element == "func":
            value = op._attrs[key]
            bodies += [
                BodyUse(key, item, first)
                for item in (value if isinstance(value, tuple) else (value,))
                if isinstance(item, Body)
            ]
    return tuple(bodies)


class FunctionUse(NamedTuple):
    """A function that an op's kernel calls: argument ``declared + i`` of ``body`` is the op's input ``first + i``."""

    attr: str
    body: Body
    declared: int
    first: int


def functions_of(op: Operation) -> tuple[FunctionUse, ...]:
    """The functions that an op hands to its kernel, which has the arguments before the captured ones."""
    uses = []
    for key, spec in op.definition.attrs.items():
        body = op._attrs.get(key) if spec.captures is not None else None
        if isinstance(body, Body):
            captured = op.definition.input_range(spec.captures, op._attrs) if spec.captures else slice(0, 0)
            uses.append(FunctionUse(key, body, len(body.args) - captured.stop + captured.start, captured.start))
    return tuple(uses)


def first_argument(op: Operation) -> int:
    """The input of an op with bodies that argument 0 of these stands for: what comes before it chooses a branch."""
    return len(op.definition.inputs) - 1


def chosen_by_number(op: Operation) -> bool:
    """Whether a conditional takes the number of a branch, instead of a predicate."""
    return any(isinstance(value, tuple) for value in (op._attrs[use.attr] for use in bodies_of(op)))


def outer_of(arg: Tensor) -> Tensor | None:
    """The tensor of the enclosing body that an argument of an owned body stands for; None for other tensors.

    Of a loop it is the value before the first iteration. Of a body that several calls hold nothing is known.
    """
    op = arg.op
    owner = op.body.owner
    if op.role is not Role.ARGUMENT or op.body.shared:
        return None
    if owner is None:
        captures = op.body.captures if op.body.free else {}
        return next((outer for outer, inner in captures.items() if inner is arg), None)
    index: int = op._attrs["index"]
    if owner.role in BODIES:
        return owner._inputs[first_argument(owner) + index]
    for use in functions_of(owner):
        if use.body is op.body and index >= use.declared:
            return owner._inputs[use.first + index - use.declared]
    return None


def is_argument(tensor: Tensor, body: Body) -> bool:
    """Whether a tensor is an argument of ``body``."""
    return tensor.op.role is Role.ARGUMENT and tensor.op.body is body


def is_invariant(arg: Tensor) -> bool:
    """Whether an argument of a loop's condition or body has the same value in all iterations."""
    owner = arg.op.body.owner
    if owner is None or owner.role is not Role.LOOP:
        return True
    index = arg.op._attrs["index"]
    body: Body = owner._attrs["body"]
    return passes_through(body, index)


def passes_through(body: Body, index: int) -> bool:
    """Whether output ``index`` of a loop's body is its argument ``index``, maybe behind ops and calls that pass it."""
    return _before_calls(body.outputs[index]) is body.args[index]


def _before_calls(tensor: Tensor) -> Tensor:
    """What ops and functions that only pass a tensor on were given."""
    while True:
        tensor = origin(tensor)
        if tensor.op.role is not Role.CALL:
            return tensor
        called = bodies_of(tensor.op)[0]
        inner = _before_calls(called.body.outputs[tensor.value_index])
        if inner.op.role is not Role.ARGUMENT or inner.op.body is not called.body:
            return tensor
        tensor = tensor.op._inputs[called.first + inner.op._attrs["index"]]


def needs_reference(body: Body, index: int) -> bool:
    """Whether what argument ``index`` stands for is taken as a reference by an op in a body of the owner."""
    parts = [body] if body.owner is None else [use.body for use in bodies_of(body.owner)] or [body]
    return any(_taken_as_reference(part.args[index]) for part in parts)


def _taken_as_reference(arg: Tensor) -> bool:
    for op in arg.consumers():
        wanted = op.definition.input_dtypes(op._attrs)
        for position in [i for i, tensor in enumerate(op._inputs) if tensor is arg]:
            inner = [use.body.args[position - use.first] for use in bodies_of(op) if position >= use.first]
            if wanted[position].is_ref or any(map(_taken_as_reference, inner)):
                return True
    return False


def is_stateful(body: Body) -> bool:
    """Whether running a body may do more than compute its outputs from its arguments."""
    for op in body.operations:
        if op.role is Role.ARGUMENT:
            if op._outputs[0].dtype.is_ref:
                return True
        elif op.definition.effect.kind == "body":
            uses = bodies_of(op)
            if any(is_stateful(use.body) for use in uses) or (not uses and op.definition.is_stateful):
                return True
        elif op.definition.is_stateful or (body.runs_effects and op._inputs and not op._outputs):
            return True
    return False


# ---------------------------------------------------------------------------------------------------------- lining up
def line_up(parts: Sequence[Body]) -> list[Tensor]:
    """Give bodies that are not owned yet the same captures in the same order, and return the captured tensors.

    The declared arguments, of which all have the same number, stay first.
    """
    captured: dict[Tensor, None] = {}
    for body in parts:
        captured.update(dict.fromkeys(outer for outer in body.captures if outer.op.body is body.parent))
    for body in parts:
        taken = set(body.captures.values())
        declared = [arg for arg in body.args if arg not in taken]
        body.args[:] = [*declared]
        for outer in captured:
            inner = body.captures.get(outer)
            if inner is None:
                inner = body.capture(outer)  # appends it
            else:
                inner.op._attrs["index"] = len(body.args)
                body.args.append(inner)
    return list(captured)


def own(op: Operation) -> None:
    """Make ``op`` the owner of its bodies, or of the functions that its kernel calls."""
    for body in [use.body for use in bodies_of(op)] + [use.body for use in functions_of(op)]:
        if not body.shared or body.owner is None:
            body.owner = op
        for control in body.outer_control_inputs:
            if control not in op._control_inputs:
                op.graph._add_control_inputs(op, [control])
        body.outer_control_inputs.clear()


def input_changed(op: Operation, index: int, old: Tensor, new: Tensor) -> None:
    """Let the bodies of an op capture ``new``, its input ``index`` now, where they captured ``old``."""
    for use in bodies_of(op):
        if index >= use.first and old in use.body.captures:
            arg = use.body.args[index - use.first]
            if use.body.captures[old] is arg:
                del use.body.captures[old]
                use.body.captures.setdefault(new, arg)
            if arg._handle is None:
                arg._handle = new._handle
    for function in functions_of(op):
        captures = function.body.captures
        if old in captures and function.body.args[function.declared + index - function.first] is captures[old]:
            captures.setdefault(new, captures.pop(old))


# ------------------------------------------------------------------------------------------------------------- growing
def add_input(op: Operation, tensor: Tensor) -> tuple[Tensor, ...]:
    """Append an input to an op with bodies; return the argument that each of its bodies gets.

    A loop gets an output, too, and its body returns the argument as it is.
    """
    graph = op.graph
    with graph._lock:
        graph._check_not_finalized()
        arguments = tuple(
            use.body.add_arg(tensor.dtype, tensor._shape, bodies.capture_name(tensor)) for use in bodies_of(op)
        )
        for arg in arguments:
            arg._handle = tensor._handle
        op._inputs = (*op._inputs, tensor)
        tensor._consumers.append(op)
        if op.role is Role.LOOP:
            loop: Body = op._attrs["body"]
            loop.outputs.append(loop.args[-1])
            _append_type(op, op.definition.inputs[-1], tensor.dtype.base)
            _append_output(op, tensor._shape, tensor._handle)
        else:
            _append_type(op, op.definition.inputs[-1], tensor.dtype.base)
        note_order(op, tensor)
        graph._note_change(op)
    return arguments


def add_output(op: Operation, tensors: Sequence[Tensor]) -> Tensor:
    """Append an output to a conditional or call: one tensor of each of its bodies."""
    graph = op.graph
    with graph._lock:
        graph._check_not_finalized()
        shape, handle = tensors[0]._shape, tensors[0]._handle
        for use, tensor in zip(bodies_of(op), tensors, strict=True):
            use.body.outputs.append(tensor)
            shape = shapes.generalize(shape, tensor._shape)
            if tensor._handle != handle:
                handle = None
        _append_type(op, op.definition.outputs[-1], tensors[0].dtype.base)
        _append_output(op, shape, handle)
        graph._note_change(op)
    return op._outputs[-1]


def add_loop_variable(op: Operation, initial: Tensor, shape: Any = None) -> tuple[Tensor, int]:
    """Append a variable to a loop; return the argument of its body, and the variable's index.

    The body returns it unchanged until the caller replaces ``body.outputs[index]``.
    """
    arguments = add_input(op, initial)
    index = len(op._outputs) - 1
    arg: Tensor = op._attrs["body"].args[-1]
    if shape is not None:
        for item in (*arguments, op._outputs[-1]):
            item._shape = shapes.as_raw(shape)
    return arg, index


def _append_attr(op: Operation, key: str, value: Any) -> None:
    op._attrs[key] = (*op._attrs[key], value)


def _append_type(op: Operation, spec: ArgSpec, dtype: Any) -> None:
    assert spec.type_list_attr is not None
    _append_attr(op, spec.type_list_attr, dtype)


def _append_output(op: Operation, shape: shapes.RawShape, handle: Any) -> None:
    listed = op._attrs.get("output_shapes")
    if listed:
        _append_attr(op, "output_shapes", shape)
    dtype = op._attrs[op.definition.outputs[-1].type_list_attr or ""][-1]
    output = GraphTensor(op, len(op._outputs), dtype, shape)
    output._handle = handle
    op._outputs = (*op._outputs, output)


def _grow_owner(body: Body, outer: Tensor) -> Tensor:
    """The argument of an owned body for a tensor that it captures now."""
    owner = body.owner
    assert owner is not None
    if owner.role not in BODIES:
        raise ValueError(
            errors.message(
                f"tensor {outer.name!r} used in function {body.name!r}, which {owner.name!r} holds already",
                "tensors of the function, and what it captured when it was made",
                "use the tensor inside the Python function",
                at=outer.op.user_site,
            )
        )
    arguments = add_input(owner, outer)
    for use, arg in zip(bodies_of(owner), arguments, strict=True):
        use.body.captures[outer] = arg
        arg._known = inference.partial_value(outer)
    return body.args[-1]


# ------------------------------------------------------------------------------------------------------ forward values
def _find_intermediate(body: Body, tensor: Tensor) -> Tensor:
    """What stands in a gradient body for a tensor of its forward body.

    Constants are copied. An argument that is the same in all iterations is what it stands for. Everything else is an
    argument of its own, a placeholder until the gradient body is complete.
    """
    op = tensor.op
    if op.role is Role.CONSTANT:
        return copy_op(op, (), body)._outputs[0]
    if op.role is Role.ARGUMENT and is_invariant(tensor):
        outer = outer_of(tensor)
        if outer is not None:
            return body.capture(outer)
    arg = body.add_arg(tensor.dtype.base, tensor._shape, f"{op.name.rsplit('/', 1)[-1]}_forward")
    arg._handle = tensor._handle
    arg._known = inference.partial_value(tensor)
    return arg


def copy_op(op: Operation, inputs: Iterable[Tensor], body: Body) -> Operation:
    """A copy of an op in ``body``, which may be of another graph, with other inputs, named in the current name scope.

    It has copies of the op's bodies, but for those that are shared.
    """
    graph = body.graph
    with graph.building(body), graph.control_dependencies(None), graph.bare_scopes():
        attrs = {key: _copied(value, body) for key, value in op._attrs.items() if key != "_class"}
        copy = graph._create(op.definition, list(inputs), attrs, op.name.rsplit("/", 1)[-1])
    own(copy)
    copy._device = op._device
    rule = getattr(op, "_gradient_function", None)
    if rule is not None:  # one of the op's own, see `custom_gradient`
        copy._gradient_function = rule  # type: ignore[attr-defined]
    for source, output in zip(op._outputs, copy._outputs, strict=True):
        if shapes.is_compatible(source._shape, output._shape):
            output._shape = shapes.merge(source._shape, output._shape)
        if output._handle is None:
            output._handle = source._handle
    return copy


def _copied(value: Any, parent: Body) -> Any:
    if isinstance(value, tuple):
        return tuple(_copied(item, parent) for item in value)
    return copy_body(value, parent) if isinstance(value, Body) and not value.shared else value


def copy_body(body: Body, parent: Body) -> Body:
    """A copy of a body inside ``parent``, with arguments in the same order and no owner yet.

    Its operations keep the lines of the user's program that made them.
    """
    graph = parent.graph
    copy = Body(graph, graph._unique(body.name), parent)
    if body.by_value:
        copy.called = copy
    ops: dict[Operation, Operation] = {}

    def inside(tensor: Tensor) -> Tensor:
        return ops[tensor.op]._outputs[tensor.value_index]

    with graph.name_scope(f"{copy.name}/"):
        for arg in body.args:
            argument = copy.add_arg(arg.dtype, arg._shape, arg.op.name.rsplit("/", 1)[-1])
            argument._handle = arg._handle
            ops[arg.op] = argument.op
        for op in body.operations:
            if op not in ops:
                ops[op] = copy_op(op, [inside(tensor) for tensor in op._inputs], copy)
                ops[op].user_site = op.user_site
                graph._add_control_inputs(ops[op], [ops[control] for control in op._control_inputs])
    copy.outputs = [inside(tensor) for tensor in body.outputs]
    copy.control_outputs = [ops[control] for control in body.control_outputs]
    return copy


bodies._grow_owner = _grow_owner
bodies._find_intermediate = _find_intermediate


# --------------------------------------------------------------------------------------------------------------- order
def note_order(op: Operation, tensor: Tensor) -> None:
    """Note whether ``tensor``, an input that ``op`` has got, was created after it; those of a loop's turns are."""
    if tensor.op._id > op._id and tensor.op.type not in NEXTS:
        disorder(op)


def disorder(op: Operation) -> None:
    """Note that ``op`` may have got inputs that were created after it."""
    graph = op.graph
    if graph._disordered is None or op._id < graph._disordered:
        graph._disordered = op._id


def restore_order(graph: Any) -> None:
    """Move operations before the consumers that they were made after; all others keep their order."""
    with graph._lock:
        since = graph._disordered
        if since is None:
            return
        graph._disordered = None
        tail = graph._operations[since:]
        emitted: set[Operation] = set()
        order: list[Operation] = []
        for start in tail:
            if start in emitted:
                continue
            stack = [start]
            while stack:
                op = stack[-1]
                if op in emitted:
                    stack.pop()
                    continue
                waiting = [source for source in _sources(op) if source._id >= since and source not in emitted]
                if waiting:
                    stack.extend(reversed(waiting))
                    continue
                stack.pop()
                emitted.add(op)
                order.append(op)
        _renumber(graph, since, order)
        graph._note_change(*order)


def _sources(op: Operation) -> list[Operation]:
    if op.type in MERGES:
        starts = [t.op for t in op._inputs if t.op.type not in NEXTS]
    else:
        starts = [tensor.op for tensor in op._inputs]
    return starts + op._control_inputs


def _renumber(graph: Any, since: int, order: list[Operation]) -> None:
    graph._operations[since:] = order
    for index, op in enumerate(order, since):
        op._id = index
    for body in dict.fromkeys(op.body for op in order):
        body.operations.sort(key=lambda op: op._id)


def remove_ops(graph: Any, ops: Iterable[Operation]) -> None:
    """Take operations out of the graph; none that stays may use them."""
    removed = set(ops)
    if not removed:
        return
    with graph._lock:
        for op in removed:
            for tensor in op._inputs:
                if tensor.op not in removed:
                    tensor._consumers = [user for user in tensor._consumers if user not in removed]
            for control in op._control_inputs:
                if control not in removed:
                    control._control_outputs = [user for user in control._control_outputs if user not in removed]
            del graph._by_name[op.name]
        for scope in graph._scopes.controls:
            scope.seen.difference_update(removed)
        for body in dict.fromkeys(op.body for op in removed):
            body.operations[:] = [op for op in body.operations if op not in removed]
        since = min(op._id for op in removed)
        if graph._disordered is not None:  # indices change: what is out of order is at or after the first of them
            graph._disordered = min(graph._disordered, since)
        _renumber(graph, since, [op for op in graph._operations[since:] if op not in removed])
        graph._note_change(*removed)  # those that stay keep their order
