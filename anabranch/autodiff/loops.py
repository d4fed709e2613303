"""Gradients of loops: `While`.

The gradient of a loop is a loop that runs as many times, backwards. Its variables are the iterations done, their
number (the forward loop's counter), the gradients with respect to the forward variables at the start of an iteration,
and the lists of what it needs of that iteration. Only those variables take part that lie on a path of differentiable
operations from an output that has a gradient to an input whose gradient is wanted. The gradient of a variable that the
loop does not change is a sum over iterations. Where it is slices in each of them, of a table from outside from which
the body gathers rows, it is the slices of all iterations, the last one first: lists take their values and indices. So a
table costs what is read of it, and optimizers treat it as sparse. (TensorFlow's begin with one more row, zeros for row
0.)

What an iteration's backward pass needs of its forward pass comes from one of three places:

- it is computed again, where it follows cheaply from what does not change or counts: values from outside, constants,
  the number of the iteration and integers that grow by a constant;
- its shape alone is needed: the shape is kept (see :func:`control_flow.move_shapes`);
- it is kept: the forward loop pushes it to a `TensorList`, the backward loop pops it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.autodiff import counts, registry
from anabranch.autodiff import gradients as walks
from anabranch.autodiff.branch_slices import dense_shape
from anabranch.autodiff.control_flow import (
    dense_for,
    differentiate_body,
    drop_unused,
    move_shapes,
    placeholders,
    prune,
    register,
    substitute,
    zeros_for,
)
from anabranch.autodiff.input_gradients import dtype_of_gradient, is_differentiable, zeros_like
from anabranch.core.contract import inference, opdef
from anabranch.core.contract.roles import Cost, Role
from anabranch.core.graph import body_ops
from anabranch.core.graph.body import Body
from anabranch.core.graph.build import build, build_operation
from anabranch.core.graph.convert import constant
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.passing import origin, passed
from anabranch.core.graph.random_seed import OperationCount, in_function
from anabranch.core.values import dtypes, shapes

NO_GRADIENT = "_no_gradient"
MOST_RECOMPUTED = 16
"""Operations that are computed again for one value; where there are more, the value is kept."""


def _differentiate(op: Operation, grads: Sequence[Any], wanted: Sequence[bool], options: walks.Options) -> list[Any]:
    if op._attrs.get(NO_GRADIENT):
        return []
    return _Loop(op, grads, wanted, options).run()


class _Loop:
    """The gradient of one loop."""

    def __init__(self, op: Operation, grads: Sequence[Any], wanted: Sequence[bool], options: walks.Options) -> None:
        self.op = op
        self.graph = op.graph
        self.outside = op.graph.current_body
        self.grads = grads
        self.wanted = wanted
        self.options = options
        self.forward: Body = op._attrs["body"]
        count = len(op._inputs)
        self.invariant = [_is_unchanged(self.forward, i) for i in range(count)]
        self.taking_part = self._taking_part()
        self.lists: list[tuple[Tensor, Tensor]] = []
        """Outer lists, and the list arguments of the gradient body; what it leaves of them comes after."""
        self.rest: list[Tensor] = []
        self.slices: dict[int, list[shapes.RawShape]] = {}
        """Variables whose gradients are slices, with the shapes of an iteration's values and indices: two of the first
        of :attr:`lists` each.
        """
        self.summed: list[int] = []
        """Variables whose gradients are dense."""

    # ----------------------------------------------------------------------------------------------- which variables
    def _taking_part(self) -> list[int]:
        """Variables that have a gradient and whose gradient leads to a wanted one."""
        count = len(self.op._inputs)
        depends = _dependencies(self.forward)
        reached = self._reached(depends)
        useful = {j for j in range(count) if j < len(self.wanted) and self.wanted[j] and self._can(j)}
        changed = True
        while changed:
            more = {i for i in range(count) if i not in useful and not self.invariant[i] and depends[i] & useful}
            useful |= more
            changed = bool(more)
        return sorted(reached & useful)

    def _reached(self, depends: Sequence[set[int]]) -> set[int]:
        """Variables that outputs with a gradient depend on, in this iteration or an earlier one."""
        reached = {i for i, grad in enumerate(self.grads[: len(depends)]) if grad is not None and self._can(i)}
        waiting = list(reached)
        while waiting:
            for j in depends[waiting.pop()]:
                if j not in reached and self._can(j):
                    reached.add(j)
                    waiting.append(j)
        return reached

    def _cut_off(self) -> list[Any]:
        """Zeros for variables that reach an output with a gradient, though no gradient reaches them; else None.

        What stands between is a `stop_gradient`, a `round` or the like. TensorFlow's backward loop has a place for
        each variable on such a path, and programs take what comes out of it for a tensor.
        """
        gradients: list[Any] = [None] * len(self.op._inputs)
        missing = {
            i
            for i, tensor in enumerate(self.op._inputs)
            if i < len(self.wanted)
            and self.wanted[i]
            and i not in self.taking_part
            and not self.invariant[i]
            and tensor.dtype.base.is_floating
        }
        if missing:
            reached = self._reached(_dependencies(self.forward, through_all=True))
            for i in missing & reached:
                gradients[i] = zeros_like(self.op._inputs[i])
        return gradients

    def _can(self, index: int) -> bool:
        return is_differentiable(self.forward.args[index])

    # ----------------------------------------------------------------------------------------------------------- build
    def run(self) -> list[Any]:
        """Build the gradient loop; a gradient or None for each input."""
        taking_part = self.taking_part
        if not any(self.wanted[i] for i in taking_part if i < len(self.wanted)):
            return self._cut_off()
        count = OperationCount()
        graph, forward = self.graph, self.forward
        body = graph.new_body("while_grad_body")
        body.forward = forward
        self.body = body
        with graph.building(body):
            counter = body.add_arg(dtypes.int32, (), "grad_counter")
            total = body.add_arg(dtypes.int32, (), "forward_counter")
            self.counter, self.total = counter, total
            self.index: Tensor | None = None
            args = {i: self._argument(i) for i in taking_part if not self.invariant[i]}
        ys = [forward.outputs[i] for i in args]
        xs = [forward.args[i] for i in taking_part]
        result = differentiate_body(forward, body, ys, list(args.values()), xs, self.options)
        gradients = result.gradients
        counted = counts.of_loop(self.op, self.grads, taking_part, result)
        with graph.building(body), graph.control_dependencies(None):
            following = build("AddV2", counter, constant(1, dtypes.int32, name="one"), name="next_counter")
            for i, gradient in zip(taking_part, gradients, strict=True):
                if self._stays_slices(i, gradient):
                    self._append(i, gradient)
                elif self.invariant[i]:
                    args[i] = self._argument(i)
            self.summed = [i for i in taking_part if i not in self.slices]
            body.outputs = [following, total]
            for i, gradient in zip(taking_part, gradients, strict=True):
                if i in args:
                    body.outputs.append(self._next(i, args[i], gradient))
        body.outputs += self.rest
        prune(body)
        move_shapes(body)
        self._bring_in()
        prune(body)
        made = self._make([args[i] for i in self.summed])
        if not in_function():
            count.set(counted)
        return made

    def _argument(self, index: int) -> Tensor:
        """The argument of the gradient body for the gradient with respect to a variable."""
        arg = self.body.add_arg(*self._gradient_type(index), f"grad_{index}")
        arg._handle = self.forward.args[index]._handle if arg.dtype.base is dtypes.variant else None
        return arg

    def _stays_slices(self, index: int, gradient: Any) -> bool:
        """Whether a gradient is slices of a table from outside of the loop. That of a loop variable is dense, as in
        TensorFlow.
        """
        if not isinstance(gradient, IndexedSlices) or self.forward.args[index] not in self.forward.captures.values():
            return False
        whole = self._gradient_type(index)[1]
        return whole is not None and len(whole) > 0 and shapes.is_static(whole[1:])

    def _append(self, index: int, gradient: IndexedSlices) -> None:
        """Put an iteration's slices into lists that the gradient loop carries."""
        tail = (self._gradient_type(index)[1] or ())[1:]
        rows = gradient.values._shape[:1] if gradient.values._shape else None
        rows = gradient.indices._shape if not rows or rows[0] is None else rows
        count = rows[0] if rows else None
        self.slices[index] = [(count, *tail), (count,)]
        for item, shape in zip((gradient.values, gradient.indices), self.slices[index], strict=True):
            dtype = item.dtype.base
            with self.graph.building(self.outside):
                most = constant(-1, dtypes.int32)
                empty = build("EmptyTensorList", _shape_constant(shape), most, element_dtype=dtype)
            arg = self.body.add_arg(dtypes.variant, (), "slices")
            arg._handle = empty._handle
            self.lists.append((empty, arg))
            self.rest.append(build("TensorListPushBack", arg, item, element_dtype=dtype))

    def _joined(self, index: int, while_op: Operation) -> IndexedSlices:
        """The slices of all iterations, from the lists that the gradient loop has filled."""
        first = 2 * list(self.slices).index(index)
        parts = []
        for place, shape in enumerate(self.slices[index], first):
            filled = while_op._outputs[2 + len(self.summed) + place]
            dtype = self.lists[place][0].op._attrs["element_dtype"]
            parts.append(build("TensorListConcat", filled, element_dtype=dtype, element_shape=shape)[0])
        return IndexedSlices(parts[0], parts[1], dense_shape([None], self.op._inputs[index]))

    def _gradient_type(self, index: int) -> tuple[dtypes.DType, shapes.RawShape]:
        arg = self.forward.args[index]
        if arg.dtype.base is dtypes.resource:
            assert arg._handle is not None
            return arg._handle.dtype.base, arg._handle.shape
        return arg.dtype.base, self.op._outputs[index]._shape

    def _next(self, index: int, arg: Tensor, gradient: Any) -> Tensor:
        """The gradient with respect to a variable at the start of the iteration."""
        variable = self.forward.args[index]
        if not self.invariant[index]:
            if gradient is None:
                return zeros_for(self.body, variable)
            return self.body.capture(dense_for(self.body, gradient, variable))
        if gradient is None:
            return arg
        if isinstance(gradient, IndexedSlices):
            rows = build("ExpandDims", gradient.indices, -1)
            return build("TensorScatterAdd", arg, rows, gradient.values)
        return build("AddN", [arg, gradient])

    def _first(self, index: int) -> Tensor:
        """The gradient that the gradient loop starts with for a variable: that of the forward loop's output."""
        grad, output = self.grads[index] if index < len(self.grads) else None, self.op._outputs[index]
        if grad is None:
            if output.dtype.base is dtypes.resource or self.invariant[index]:
                output = self.op._inputs[index]
            handle = output._handle
            shape = handle.shape if output.dtype.base is dtypes.resource and handle is not None else output._shape
            dtype = dtype_of_gradient(output) or output.dtype.base
            if shapes.is_static(shape) and dtype is not dtypes.variant:
                return walks.zeros_of_shape(shape, dtype)
            return zeros_like(output)
        return dense_for(self.graph.current_body, grad, output)

    def _make(self, args: list[Tensor]) -> list[Any]:
        graph, body = self.graph, self.body
        condition = graph.new_body("while_grad_cond")
        with graph.building(condition), graph.control_dependencies(None):
            for arg in [self.counter, self.total, *args, *(arg for _, arg in self.lists)]:
                copy = condition.add_arg(arg.dtype, arg._shape, arg.op.name.rsplit("/", 1)[-1])
                copy._handle = arg._handle
            condition.outputs = [build("Less", condition.args[0], condition.args[1])]
        self._order_arguments(args)
        body.outputs += self.rest[2 * len(self.slices) :]
        captured = body_ops.line_up([condition, body])
        body.outputs += [body.captures[outer] for outer in captured]
        inputs = [
            constant(0, dtypes.int32, name="grad_counter"),
            self._trips(),
            *(self._first(i) for i in self.summed),
            *(outer for outer, _ in self.lists),
        ]
        listed = [arg._shape for arg in body.args]
        stateful = body_ops.is_stateful(body)
        attrs = {
            "cond": condition,
            "body": body,
            "output_shapes": listed,
            "parallel_iterations": self.op._attrs["parallel_iterations"],
        }
        scope = graph.get_name_scope()
        while_op = build_operation(
            "While" if stateful else "StatelessWhile", [inputs + captured], attrs, f"{scope}/" if scope else None
        )
        body_ops.own(while_op)
        input_gradients = self._cut_off()
        for position, i in enumerate(self.summed):
            if i < len(self.wanted) and self.wanted[i]:
                input_gradients[i] = while_op._outputs[2 + position]
        for i in self.slices:
            if i < len(self.wanted) and self.wanted[i]:
                input_gradients[i] = self._joined(i, while_op)
        return input_gradients

    def _order_arguments(self, args: list[Tensor]) -> None:
        """Declared arguments first: they were made before some captures and after others."""
        declared = [self.counter, self.total, *args, *(arg for _, arg in self.lists)]
        others = [arg for arg in self.body.args if arg not in set(declared)]
        self.body.args[:] = [*declared, *others]
        for index, arg in enumerate(self.body.args):
            arg.op._attrs["index"] = index

    def _trips(self) -> Tensor:
        """How many iterations the forward loop has done."""
        index = _counter_of(self.op)  # may add an output
        return self.op._outputs[index]

    # --------------------------------------------------------------------------------------------------- intermediates
    def _bring_in(self) -> None:
        for tensor, arg in placeholders(self.body):
            again = self._length(tensor)
            if again is None:
                again = self._again(tensor)
            substitute(arg, again if again is not None else self._popped(tensor))
        drop_unused(self.body)

    def _length(self, tensor: Tensor) -> Tensor | None:
        """The length of a list that the loop only writes to, which is that before the loop."""
        if tensor.op.role is not Role.LIST_LENGTH:
            return None
        source = _of_same_length(tensor.op._inputs[0])
        if not body_ops.is_argument(source, self.forward):
            return None
        index = source.op._attrs["index"]
        if _of_same_length(self.forward.outputs[index]) is not self.forward.args[index]:
            return None
        first = self.body.capture(self.op._inputs[index])
        with self.graph.building(self.body), self.graph.control_dependencies(None):
            return build("TensorListLength", first)

    def _again(self, tensor: Tensor) -> Tensor | None:
        """A forward value computed again in the gradient body; None if it must be kept."""
        plan: dict[Tensor, Any] = {}
        if not _recomputable(self, tensor, plan) or len(plan) > MOST_RECOMPUTED:
            return None
        return self._recompute(tensor)

    def _recompute(self, tensor: Tensor) -> Tensor:
        body = self.body
        known = body.intermediates.get(tensor)
        if known is not None and not self._is_placeholder(known):
            return known
        op = tensor.op
        if op.role is Role.ARGUMENT:
            recomputed = self._counted(op._attrs["index"])
        elif op.role is Role.CONSTANT:
            recomputed = body.capture(tensor)
        else:
            copy = body_ops.copy_op(op, [self._recompute(source) for source in op._inputs], body)
            for output, source in zip(copy._outputs, op._outputs, strict=True):
                held = body.intermediates.get(source)
                if held is None or not self._is_placeholder(held):
                    body.intermediates[source] = output
            recomputed = copy._outputs[tensor.value_index]
        return recomputed

    def _is_placeholder(self, arg: Tensor) -> bool:
        return arg.op.role is Role.ARGUMENT and arg not in self.body.captures.values()

    def _counted(self, index: int) -> Tensor:
        """A variable that does not change, or grows by a constant, at the start of the iteration."""
        body, graph = self.body, self.graph
        if self.invariant[index]:
            return body.capture(self.op._inputs[index])
        step = step_of(self.forward, index)
        assert step is not None
        with graph.building(body), graph.control_dependencies(None):
            if self.index is None:
                self.index = build(
                    "Sub", build("Sub", self.total, self.counter), constant(1, dtypes.int32), name="index"
                )
            iteration: Tensor = self.index
            first = self.op._inputs[index]
            dtype = first.dtype.base
            if dtype is not dtypes.int32:
                iteration = build("Cast", iteration, DstT=dtype)
            known = inference.partial_value(first)
            if step != 1:
                iteration = build("Mul", iteration, constant(step, dtype))
            if isinstance(known, np.ndarray) and not known.any():
                return iteration
            return build("AddV2", first, iteration)

    def _popped(self, tensor: Tensor) -> Tensor:
        """A forward value that the forward loop keeps in a list."""
        graph, body = self.graph, self.body
        outer = self._list_of(tensor)
        dtype = tensor.dtype.base
        with graph.building(body), graph.control_dependencies(None):
            arg = body.add_arg(dtypes.variant, (), f"{tensor.op.name.rsplit('/', 1)[-1]}_list")
            arg._handle = outer._handle
            rest, value = build("TensorListPopBack", arg, _shape_constant(_element_shape(tensor)), element_dtype=dtype)
        if shapes.is_compatible(value._shape, tensor._shape):
            value._shape = shapes.merge(value._shape, tensor._shape)
        value._handle = tensor._handle
        self.lists.append((outer, arg))
        self.rest.append(rest)
        return value

    def _list_of(self, tensor: Tensor) -> Tensor:
        """The output of the forward loop that is the list of the values of ``tensor``, one per iteration."""
        known = self.forward.exposed.get(tensor)
        if known is not None:
            return known[0]
        op, graph, forward = self.op, self.graph, self.forward
        dtype = tensor.dtype.base
        with graph.building(op.body), graph.control_dependencies(None), graph.bare_scopes(), graph.name_scope(None):
            with graph.name_scope(f"{tensor.op.name}/kept/"):
                shape = _shape_constant(_element_shape(tensor))
                most = constant(-1, dtypes.int32, name="max_num_elements")
                empty = build("EmptyTensorList", shape, most, element_dtype=dtype)
                arg, index = body_ops.add_loop_variable(op, empty)
                with graph.building(forward):
                    pushed = build("TensorListPushBack", arg, tensor, element_dtype=dtype)
        forward.outputs[index] = pushed
        graph._note_change(op)
        outer = op._outputs[index]
        forward.exposed[tensor] = (outer, True)
        return outer


def _element_shape(tensor: Tensor) -> shapes.RawShape:
    return () if tensor.dtype.base in (dtypes.variant, dtypes.resource) else tensor._shape


def _shape_constant(shape: shapes.RawShape) -> Tensor:
    if shape is None:
        return constant(-1, dtypes.int32, name="element_shape")
    return constant([-1 if size is None else size for size in shape], dtypes.int32, name="element_shape")


# -------------------------------------------------------------------------------------------------- what a loop does
def _dependencies(body: Body, through_all: bool = False) -> list[set[int]]:
    """For each output of a loop's body, the arguments that it depends on through differentiable operations, or through
    all operations.
    """
    masks: dict[Tensor, int] = {arg: 1 << i for i, arg in enumerate(body.args)}
    for op in _in_order(body):
        mask = 0
        for tensor in op._inputs:
            if is_differentiable(tensor):
                mask |= masks.get(tensor, 0)
        cuts = not op._attrs.get(registry.OVERRIDE) and isinstance(op.definition.gradient, opdef.NotDifferentiable)
        if not mask or (cuts and not through_all):
            continue
        for output in op._outputs:
            if is_differentiable(output):
                masks[output] = mask
    dependencies = []
    for output in body.outputs:
        mask = masks.get(output, 0)
        dependencies.append({i for i in range(len(body.args)) if mask >> i & 1})
    return dependencies


def _in_order(body: Body) -> list[Operation]:
    """Operations of a body after those that they take values from, also while the graph is out of order."""
    if body.graph._disordered is None:
        return body.operations
    order: list[Operation] = []
    done: set[Operation] = set()
    for start in body.operations:
        stack = [start]
        while stack:
            op = stack[-1]
            if op in done:
                stack.pop()
                continue
            waiting = [tensor.op for tensor in op._inputs if tensor.op not in done]
            if waiting:
                stack.extend(waiting)
                continue
            stack.pop()
            done.add(op)
            order.append(op)
    return order


def _is_unchanged(body: Body, index: int) -> bool:
    """Whether a loop leaves a variable as it is, and gradients too: an identity may have a rule of the user's."""
    output = body.outputs[index]
    while (source := passed(output)) is not None:
        if registry.OVERRIDE in output.op._attrs or not output.op.definition.passes_gradient:
            return False
        output = source
    return output is body.args[index]


def step_of(body: Body, index: int) -> int | None:
    """By how much an integer variable of a loop grows in each iteration; None if that is no constant."""
    arg, output = body.args[index], body.outputs[index]
    if not arg.dtype.is_integer or arg._shape != ():
        return None
    op = origin(output, waiting=False).op
    symbol = op.definition.symbol
    if symbol not in ("+", "-") or len(op._inputs) != 2:
        return None
    first, second = (origin(tensor, waiting=False) for tensor in op._inputs)
    if second is arg and symbol == "+":
        first, second = second, first
    known = inference.partial_value(second)
    if first is not arg or not isinstance(known, np.ndarray) or known.size != 1:
        return None
    return -int(known.item()) if symbol == "-" else int(known.item())


def _of_same_length(tensor: Tensor) -> Tensor:
    """Another tensor of the same body that is a list as long as ``tensor``, as far back as can be seen."""
    while True:
        op = tensor.op
        role = op.role
        if op.definition.symbol == "+" or (
            role is Role.LIST_WRITE and op._attrs.get("resize_if_index_out_of_bounds") is False
        ):
            tensor = op._inputs[0]
            continue
        if (handed_on := passed(tensor)) is not None:
            tensor = handed_on
            continue
        if role not in (Role.LOOP, Role.CONDITIONAL):
            return tensor
        uses = [use for use in body_ops.bodies_of(op) if use.attr != "cond"]
        sources = [_of_same_length(use.body.outputs[tensor.value_index]) for use in uses]
        inside = [body_ops.is_argument(source, use.body) for source, use in zip(sources, uses, strict=True)]
        if not all(inside) or (role is Role.LOOP and sources[0].op._attrs["index"] != tensor.value_index):
            return tensor
        outer = {op._inputs[use.first + source.op._attrs["index"]] for source, use in zip(sources, uses, strict=True)}
        if len(outer) != 1:
            return tensor
        tensor = outer.pop()


def _counter_of(op: Operation) -> int:
    """The index of a variable of a loop that counts its iterations from 0; one is added if there is none."""
    body: Body = op._attrs["body"]
    for index, tensor in enumerate(op._inputs):
        if tensor.dtype.base is dtypes.int32 and step_of(body, index) == 1:
            known = inference.partial_value(tensor)
            if isinstance(known, np.ndarray) and known.size == 1 and not known.any():
                return index
    graph = op.graph
    with graph.building(op.body), graph.control_dependencies(None), graph.bare_scopes(), graph.name_scope(None):
        with graph.name_scope(f"{op.name}/counter/"):
            arg, index = body_ops.add_loop_variable(op, constant(0, dtypes.int32))
            with graph.building(body):
                body.outputs[index] = build("AddV2", arg, constant(1, dtypes.int32))
    graph._note_change(op)
    return index


def _recomputable(loop: _Loop, tensor: Tensor, plan: dict[Tensor, Any]) -> bool:
    """Whether a forward value follows cheaply from what does not change, constants and counters."""
    stack = [tensor]
    while stack:
        current = stack.pop()
        if current in plan:
            continue
        plan[current] = None
        if len(plan) > MOST_RECOMPUTED:
            return False
        op = current.op
        if op.role is Role.ARGUMENT:
            index = op._attrs["index"]
            if not loop.invariant[index] and step_of(loop.forward, index) is None:
                return False
            continue
        definition = op.definition
        if (
            definition.is_stateful
            or definition.effect.kind == "body"
            or not definition.deterministic
            or op._control_inputs
            or (definition.flops is not None and not _invariant(loop, op))
            or definition.cost is Cost.HEAVY
        ):
            return False
        stack.extend(op._inputs)
    return True


def _invariant(loop: _Loop, op: Operation) -> bool:
    """Whether an op has the same inputs in all iterations, so that a compiler computes it once."""
    seen: set[Operation] = set()
    stack = [op]
    while stack:
        current = stack.pop()
        if current in seen:
            continue
        seen.add(current)
        if current.role is Role.ARGUMENT:
            if not loop.invariant[current._attrs["index"]]:
                return False
        elif current.definition.is_stateful or len(seen) > MOST_RECOMPUTED:
            return False
        stack.extend(tensor.op for tensor in current._inputs)
    return True


register((Role.LOOP,), _differentiate)
