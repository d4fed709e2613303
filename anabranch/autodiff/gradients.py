"""Symbolic gradients: the reverse walk over the graph.

Life of a call. The ops *between* xs and ys are found by walking back from ys over differentiable tensors, then forward
again from xs among what was met. Each of them waits until the gradients of all its uses are there (counted by edges),
then its own gradients are summed, its rule is applied, and what the rule returns is checked and handed to the ops that
made its inputs. The order is that of a queue, so that names come out the same for the same program. There is no
recursion, and the cost is linear in the ops between.

Rules build ordinary operations: a gradient can be fetched, saved, and differentiated again. They are made in the name
scope ``gradients/<op>_grad`` on behalf of the forward op, whose line errors show too.

Nested bodies. A body's argument that captures a tensor stands for that tensor: the walk passes from the one to the
other, and the new ops are made in the innermost body that holds a y. An op that holds bodies is differentiated by
:mod:`anabranch.autodiff.control_flow`, which walks through each of its bodies, from its outputs to its arguments, and
makes a new op of the same kind. The plain read of a reference variable that a body captures is captured as the
reference; where an x (or a tensor to stop at) is such a read, the reference counts as that read.
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import enum
from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.autodiff import registry
from anabranch.autodiff.aggregation import aggregate, check_method
from anabranch.autodiff.input_gradients import checked, is_differentiable, with_zeros, zeros_like
from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.contract.api import public
from anabranch.core.contract.roles import Role
from anabranch.core.graph import body_ops
from anabranch.core.graph.body import Body
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.default_graph import graph_of
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.passing import is_transparent_read
from anabranch.core.graph.random_seed import count_more, counted_as
from anabranch.core.values import dtypes, shapes
from anabranch.ops.shared import gradient_counts


@public("UnconnectedGradients")
class UnconnectedGradients(enum.Enum):
    """What ``tf.gradients`` gives for an x that no y depends on: None, or zeros of its shape."""

    NONE = "none"
    ZERO = "zero"


@public("gradients")
def gradients(
    ys: Any,
    xs: Any,
    grad_ys: Any = None,
    name: str = "gradients",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
    stop_gradients: Any = None,
    unconnected_gradients: Any = UnconnectedGradients.NONE,
) -> list[Any]:
    """Add operations that compute the gradients of the sum of ``ys`` with respect to each of ``xs``.

    Args:
        ys: a tensor or a list of tensors.
        xs: a tensor or variable, or a list of them.
        grad_ys: for each y, the gradient that it starts with, shaped like it; None (for one or all) means ones.
        name: name scope of the new operations.
        colocate_gradients_with_ops: place each new operation on the device of the forward operation.
        gate_gradients: use no gradient of an operation before all of them are computed.
        aggregation_method: how several gradients of a tensor are added, one of `tf.AggregationMethod`.
        stop_gradients: tensors that are treated as constants.
        unconnected_gradients: what is given for an x that no y depends on, one of `tf.UnconnectedGradients`.

    Returns:
        A list with, for each x, a tensor shaped like it, `IndexedSlices` (where x is only gathered from), or None.

    Raises:
        LookupError: an operation has no gradient. ValueError, TypeError: wrong arguments, or a rule returned something
            of the wrong number, shape or dtype.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default():
        ...     x = tf.constant([1.0, 2.0])
        ...     tf.gradients(tf.identity(x), x)
        [<tf.Tensor 'gradients/Fill:0' shape=(2,) dtype=float32>]
    """
    if not current_builder().defers:
        raise RuntimeError(
            "tf.gradients is not supported when eager execution is enabled. Use tf.GradientTape instead.\n"
            + errors.message(
                "tf.gradients where ops run at once",
                "a graph, whose operations show how ys were computed",
                "with tf.Graph().as_default(): ... around the code that builds ys, or a tape that records it",
            )
        )
    method = check_method(aggregation_method)
    unconnected = _unconnected_mode(unconnected_gradients)
    ys, xs, stops = (
        listed(ys, "ys"),
        listed(xs, "xs"),
        [] if stop_gradients is None else listed(stop_gradients, "stop_gradients"),
    )
    starts = [None] * len(ys) if grad_ys is None else listed(grad_ys, "grad_ys")
    if len(starts) != len(ys):
        raise ValueError(
            f"Passed {len(starts)} grad_ys for {len(ys)} ys\n"
            + errors.message(
                f"{len(starts)} grad_ys", f"one for each of {len(ys)} ys", "None in the place of a default"
            )
        )
    graph = graph_of(tensor_of(item) for item in (*ys, *xs))
    with graph.as_default(), graph.shared_site(), graph.name_scope(name or "gradients"):
        y_tensors = [_target(item, "y", i) for i, item in enumerate(ys)]
        x_tensors = [source_tensor(item, i) for i, item in enumerate(xs)]
        stop_tensors = [source_tensor(item, i) for i, item in enumerate(stops)]
        body = _innermost_body(graph, y_tensors)
        for x in x_tensors:
            if not body.reaches(x.op.body):
                raise ValueError(
                    errors.message(
                        f"x {x.name!r} of the nested body {x.op.body.name!r}, with ys outside of it",
                        "xs of the body of the ys, or of one around it",
                        "call tf.gradients inside of the branch or iteration, or take x outside of it",
                        at=x.op.user_site,
                    )
                )
        options = Options(method, colocate_gradients_with_ops, gate_gradients, tuple(stop_tensors))
        hooks.make_twins(graph, y_tensors, x_tensors)
        with graph.building(body):
            try:
                results = Walk(graph, y_tensors, x_tensors, options).run(starts)
            finally:
                body_ops.restore_order(graph)
    with graph.as_default(), graph.building(body):
        return [
            zeros_like(x) if gradient is None and unconnected is UnconnectedGradients.ZERO else gradient
            for x, gradient in zip(x_tensors, results, strict=True)
        ]


# ---------------------------------------------------------------------------------------------------------- arguments
def listed(value: Any, what: str) -> list[Any]:
    """An argument of one or several tensors as a list."""
    items = list(value) if isinstance(value, (list, tuple)) else [value]
    for item in items:
        if isinstance(item, dict) or (item is None and what != "grad_ys"):
            raise TypeError(
                errors.message(f"{item!r} among {what}", "tensors, or variables", f"{what}=[tensor, ...], a flat list")
            )
    return items


def _unconnected_mode(value: Any) -> UnconnectedGradients:
    try:
        return UnconnectedGradients(value)
    except ValueError:
        raise ValueError(
            f"Unknown value for unconnected_gradients: {value!r}\n"
            + errors.message(
                f"unconnected_gradients={value!r}",
                "tf.UnconnectedGradients.NONE or tf.UnconnectedGradients.ZERO",
                "unconnected_gradients=tf.UnconnectedGradients.ZERO",
            )
        ) from None


def tensor_of(item: Any) -> Any:
    """What tells the graph of an argument: a tensor, or the handle of a variable."""
    handle = getattr(item, "handle", None)
    return handle if isinstance(handle, Tensor) else item


def _target(item: Any, what: str, index: int) -> Tensor:
    return convert_to_tensor(item, name=f"{what}_{index}")


def source_tensor(item: Any, index: int) -> Tensor:
    """The tensor with respect to which ``item`` is differentiated: a variable's handle or ref rather than a read of
    it.
    """
    if isinstance(item, Tensor):
        return item
    if isinstance(item, IndexedSlices):
        raise TypeError(
            errors.message(
                f"{item!r} among xs", "a tensor or a variable", "differentiate with respect to slices.values"
            )
        )
    handle = getattr(item, "handle", None)
    if isinstance(handle, Tensor) and handle.dtype.base is dtypes.resource:
        return handle
    return convert_to_tensor(item, name=f"x_{index}", as_ref=True)


def _innermost_body(graph: Graph, ys: Sequence[Tensor]) -> Body:
    body = graph.current_body
    for y in ys:
        if not y.op.body.encloses(body):
            if not body.encloses(y.op.body):
                raise ValueError(
                    errors.message(
                        f"y {y.name!r} of the nested body {y.op.body.name!r} in body {body.name!r}",
                        "ys of one body and of bodies around it",
                        "return the tensor from its body, or differentiate inside of it",
                    )
                )
            body = y.op.body
    return body


# --------------------------------------------------------------------------------------------------------------- walk
@dataclasses.dataclass(frozen=True)
class Options:
    """What a call of ``gradients`` says about all the ops it makes, those in bodies too."""

    method: int
    colocate: bool
    gate: bool
    stops: tuple[Tensor, ...]


class Walk:
    """One reverse walk: what it has found so far, by op and output.

    Args:
        graph: the graph.
        ys: tensors to differentiate.
        xs: tensors to differentiate with respect to.
        options: see :class:`Options`.
        within: a body whose arguments the walk ends at; None for all of the graph.
    """

    def __init__(
        self, graph: Graph, ys: Sequence[Tensor], xs: Sequence[Tensor], options: Options, within: Body | None = None
    ) -> None:
        self.graph = graph
        self.options = options
        self.within = within
        self.asked: gradient_counts.Asked | None = None if within is None else gradient_counts.Asked()
        self.captured: dict[Body, dict[Tensor, Tensor]] = {}
        """By body: argument -> the outer tensor that it captures."""
        self.reads = {} if within is not None else _reads((*xs, *options.stops))
        """References -> the plain reads of them among xs and stops."""
        self.ys = [self._outer(y) for y in ys]
        self.xs = [self._outer(x) for x in xs]
        self.inputs: dict[Operation, list[Tensor]] = {}
        """Inputs of each op that was met, captures resolved."""
        self.between = self._ops_between()
        self.waiting: dict[Operation, int] = dict.fromkeys(self.between, 0)
        """How many uses of an op's outputs are still to be differentiated."""
        for op in self.between:
            for tensor in self.inputs[op]:
                if tensor.op in self.waiting:
                    self.waiting[tensor.op] += 1
        self.stops = self._stops([self._outer(stop) for stop in options.stops if self._is_met(stop)])
        self.grads: dict[Operation, list[list[Any]]] = {}
        """Gradients by op and output, those of one output in the order of arrival."""

    def _is_met(self, stop: Tensor) -> bool:
        """Whether a stop is a tensor of this walk: one inside a body is a matter of the walk through that body."""
        return self.within is None or stop.op.body is self.within

    def _outer(self, tensor: Tensor) -> Tensor:
        """The tensor that a capturing argument stands for, through any number of bodies; otherwise the tensor
        itself.
        """
        tensor = self.graph._twins.get(tensor, tensor)
        while tensor.op.role is Role.ARGUMENT and tensor.op.body is not self.within:
            body = tensor.op.body
            captured = self.captured.get(body)
            if captured is None:
                captured = self.captured[body] = {arg: source for source, arg in body.captures.items()}
            source = captured.get(tensor)
            if source is None:
                break
            tensor = self.reads.get(source, source)
        return tensor

    def _sources(self, op: Operation) -> list[Tensor]:
        """Inputs of an op, captures resolved."""
        sources = [self._outer(tensor) for tensor in op._inputs]
        if self.reads and op.definition.effect.kind == "body":
            return [self.reads.get(tensor, tensor) for tensor in sources]
        return sources

    def _ops_between(self) -> list[Operation]:
        """The ops on a path of differentiable tensors from an x to a y, from ys backwards."""
        uses: dict[Operation, list[Operation]] = {}
        met: dict[Operation, None] = dict.fromkeys(y.op for y in self.ys)
        queue = collections.deque(met)
        while queue:
            op = queue.popleft()
            sources = self.inputs[op] = self._sources(op)
            for tensor in sources:
                if is_differentiable(tensor):
                    uses.setdefault(tensor.op, []).append(op)
                    if tensor.op not in met:
                        met[tensor.op] = None
                        queue.append(tensor.op)
        reached = {x.op for x in self.xs if x.op in met}
        forward = collections.deque(reached)
        while forward:
            for user in uses.get(forward.popleft(), ()):
                if user not in reached:
                    reached.add(user)
                    forward.append(user)
        return [op for op in met if op in reached]

    def _stops(self, stops: list[Tensor]) -> set[Operation]:
        """Ops that gradients do not pass: what makes a stopped tensor, and xs with no other x behind them."""
        stopped = {stop.op for stop in stops}
        for x in self.xs:
            if not any(tensor.op in self.waiting for tensor in self.inputs.get(x.op, ())):
                stopped.add(x.op)
        return stopped

    def run(self, starts: Sequence[Any]) -> list[Any]:
        """Walks back and returns the gradient of each x."""
        for i, (y, start) in enumerate(zip(self.ys, starts, strict=True)):
            with self._colocated(y.op):
                gradient = _default_start(y, i) if start is None else _given_start(y, start, i)
            self._add(y, gradient)
        return self.propagate()

    def run_from(self, starts: Sequence[Any]) -> list[Any]:
        """Walks back from gradients that are known to fit the ys."""
        for y, start in zip(self.ys, starts, strict=True):
            self._add(y, start)
        return self.propagate()

    def propagate(self) -> list[Any]:
        """Walks back from the gradients added so far."""
        queue = collections.deque(op for op in dict.fromkeys(y.op for y in self.ys) if self.waiting.get(op) == 0)
        while queue:
            op = queue.popleft()
            with self._colocated(op):
                gathered = self.grads.get(op)
                if gathered is not None:
                    for output, parts in enumerate(gathered):
                        if len(parts) > 1:
                            gathered[output] = [aggregate(op, parts, self.options.method)]
                    if op not in self.stops:
                        self._differentiate(op, [parts[0] if parts else None for parts in gathered])
            for tensor in self.inputs[op]:
                left = self.waiting.get(tensor.op)
                if left is not None:
                    self.waiting[tensor.op] = left - 1
                    if left == 1:
                        queue.append(tensor.op)
        return [self._result(x) for x in self.xs]

    def _result(self, x: Tensor) -> Any:
        gathered = self.grads.get(x.op)
        if gathered is None or not gathered[x.value_index]:
            return None
        return aggregate(x.op, gathered[x.value_index], self.options.method)

    def _add(self, tensor: Tensor, gradient: Any) -> None:
        gathered = self.grads.get(tensor.op)
        if gathered is None:
            gathered = self.grads[tensor.op] = [[] for _ in tensor.op._outputs]
        gathered[tensor.value_index].append(gradient)

    def _colocated(self, op: Operation) -> contextlib.AbstractContextManager[Any]:
        return self.graph.colocate_with(op, ignore_existing=True) if self.options.colocate else contextlib.nullcontext()

    def _differentiate(self, op: Operation, grads: list[Any]) -> None:
        """Apply the op's rule and hands what it returns to the ops that made its inputs."""
        if not op._inputs or all(grad is None for grad in grads):
            return
        rule = registry.rule_of(op)
        if rule.function is None:
            return
        inputs = self.inputs[op]
        graph = self.graph
        holds_bodies = op.definition.effect.kind == "body" and not rule.of_user
        if not holds_bodies:
            grads = with_zeros(op, grads, self._zeros_of)
        with graph.on_behalf_of(op, rule.of_user):
            if holds_bodies:
                wanted = [is_differentiable(tensor) and tensor.op in self.waiting for tensor in inputs]
                returned = hooks.control_flow_gradient(op, grads, wanted, self.options)
            else:
                number = None if rule.of_user else gradient_counts.operations(op, grads)
                if self.asked is not None:
                    self.asked.note(op)
                with contextlib.nullcontext() if number is None else counted_as(number):
                    returned = registry.call(rule, op, grads)
            input_gradients = checked(op, rule, returned, len(inputs))
            if self.options.gate and sum(gradient is not None for gradient in input_gradients) > 1:
                with graph.device(None), graph.colocate_with(None, ignore_existing=True):
                    passed_on = any(
                        gradient is part for gradient in input_gradients for part in grads if part is not None
                    )
                    at = op if passed_on and self.options.colocate else None
                    input_gradients = gated(graph, input_gradients, at)
            if self.options.gate and not rule.of_user:
                count_more(gradient_counts.behind_gate(op))
        for tensor, gradient in zip(inputs, input_gradients, strict=True):
            if gradient is not None:
                self._add(tensor, gradient)

    def _zeros_of(self, output: Tensor) -> Tensor:
        """Zeros for an output that no gradient reaches; in a body without taking its value along."""
        if self.within is not None and shapes.is_static(output._shape) and output.dtype.base is not dtypes.variant:
            return zeros_of_shape(output._shape, output.dtype.base)
        return build("ZerosLike", output, name="zeros_like")


def _reads(tensors: Sequence[Tensor]) -> dict[Tensor, Tensor]:
    reads: dict[Tensor, Tensor] = {}
    for tensor in tensors:
        if is_transparent_read(tensor.op):
            reads.setdefault(tensor.op._inputs[0], tensor)
    return reads


def zeros_of_shape(shape: shapes.RawShape, dtype: dtypes.DType) -> Tensor:
    """Zeros of a known shape."""
    assert shape is not None
    return constant(np.broadcast_to(np.zeros((), dtype.np), [size or 0 for size in shape]), dtype, name="zeros")


# ------------------------------------------------------------------------------------------------- where a walk starts
def _default_start(y: Tensor, index: int) -> Tensor:
    dtype = y.dtype.base
    if dtype.is_complex:
        raise TypeError(
            f"Gradients of complex tensors must set grad_ys (y.dtype = {dtype!r})\n"
            + errors.message(
                f"y {y.name!r} of dtype {dtype.name} without grad_ys",
                "a gradient to start with, as the loss of a complex y is not defined",
                "tf.gradients(tf.real(y), x), or grad_ys=[...]",
                at=y.op.user_site,
            )
        )
    if not (dtype.is_floating or dtype.is_integer):
        raise TypeError(
            f"Tensor {y.name} with type {dtype.name} must be numeric to obtain a default gradient\n"
            + errors.message(f"y {y.name!r} of dtype {dtype.name}", "a floating y", "grad_ys=[...]", at=y.op.user_site)
        )
    return build("Fill", _shape_tensor(y), constant(1, dtype, name=f"grad_ys_{index}"), name="Fill")


def _shape_tensor(tensor: Tensor) -> Tensor:
    if shapes.is_static(tensor._shape):
        return constant(list(tensor._shape or ()), dtypes.int32, name="Shape")
    return build("Shape", tensor, name="Shape")


def _given_start(y: Tensor, given: Any, index: int) -> Any:
    name = f"grad_ys_{index}"
    if isinstance(given, IndexedSlices):
        _check_start(y, given.dtype.base)
        shape = None if given.dense_shape is None else build("Identity", given.dense_shape, name=f"{name}_shape")
        return IndexedSlices(
            build("Identity", given.values, name=f"{name}_values"),
            build("Identity", given.indices, name=f"{name}_indices"),
            shape,
        )
    tensor = convert_to_tensor(given, preferred_dtype=y.dtype.base, name=name)
    _check_start(y, tensor.dtype.base)
    if tensor.shape.ndims != 0 and not tensor.shape.is_compatible_with(y.shape):
        if y.shape.is_fully_defined() and tensor.shape.num_elements() == y.shape.num_elements():
            return build("Reshape", tensor, y.shape.as_list())  # TensorFlow asks for no shape here
        raise ValueError(
            f"Shapes {tensor.shape} and {y.shape} are incompatible\n"
            + errors.message(
                f"grad_ys of shape {tensor.shape} for y {y.name!r} of shape {y.shape}",
                "a gradient of the shape of y",
                "tf.broadcast_to(grad_y, tf.shape(y)), or tf.reshape",
                at=y.op.user_site,
            )
        )
    return build("Identity", tensor, name=name)


def _check_start(y: Tensor, given: dtypes.DType) -> None:
    dtype = y.dtype.base
    if dtype.is_floating or dtype.is_integer:
        fits, kind = given.is_floating or given.is_integer, "real or integer-valued tensor"
        wanted = "real or integer"
    elif dtype.is_complex:
        fits, kind, wanted = given.is_complex, "complex-valued tensor", "complex"
    else:
        fits, kind, wanted = given is dtype or dtype is dtypes.resource, "tensor", dtype.name
    if not fits:
        raise TypeError(
            f"Gradient type {given.name} generated for {kind} {y.name} with type {dtype.name} must be {wanted}\n"
            + errors.message(
                f"grad_ys of dtype {given.name} for y {y.name!r} of dtype {dtype.name}",
                f"a gradient of dtype {dtype.name}",
                f"tf.cast(grad_y, tf.{dtype.name})",
                at=y.op.user_site,
            )
        )


def gated(graph: Graph, grads: Sequence[Any], at: Operation | None) -> list[Any]:
    """The gradients behind a gate: none can be used before all are computed.

    ``at`` is where the gate stands: with an op, or with the op of each gradient. A gradient that an op passes on would
    go to the op's task for whatever else is made of it, and from its own task, behind the gate, once more.
    """
    with graph.name_scope("tuple"):
        ops = [(grad if isinstance(grad, Tensor) else grad.values).op for grad in grads if grad is not None]
        with graph.colocate_with(at, ignore_existing=True), graph.control_dependencies(ops):
            gate = build("NoOp", name="group_deps")
        return [None if grad is None else _behind(graph, gate, grad, at) for grad in grads]


def _behind(graph: Graph, gate: Operation, grad: Any, at: Operation | None) -> Any:
    value = grad if isinstance(grad, Tensor) else grad.values
    with graph.colocate_with(at or value.op, ignore_existing=True), graph.control_dependencies([gate]):
        passed = build("Identity", value, name="control_dependency")
    return passed if isinstance(grad, Tensor) else IndexedSlices(passed, grad.indices, grad.dense_shape)
