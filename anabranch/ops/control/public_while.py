"""Loops: ``tf.while_loop``.

The functions of condition and body are called once each, while the graph is built. The op, a ``While`` of
:mod:`anabranch.ops.control.functional`, has these variables: the number of iterations done, the most to do (-1 for no
limit), the program's variables, flattened, and what the functions take from outside. The condition is that of the
program, and, where a limit was given, that it is not reached.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.api import public
from anabranch.core.graph import body_ops, composites
from anabranch.core.graph.body import Body
from anabranch.core.graph.build import build, build_operation
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.graph import Graph, get_default_graph
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import OperationCount, counted_as, in_function
from anabranch.core.values import dtypes, nest, shapes
from anabranch.ops.control.bodies import (
    after_effects,
    as_output,
    call_site,
    kind_names,
    kinds,
    local,
    map_leaves,
    named_output,
    told,
    unpack_singleton,
)

OWN = 2
"""Variables before those of the program: iterations done, and the most to do."""

NO_GRADIENT = "_no_gradient"
"""Attribute of a loop that was made with ``back_prop=False``."""


@public("while_loop")
def while_loop(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    shape_invariants: Any = None,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
    maximum_iterations: Any = None,
    return_same_structure: bool = False,
) -> Any:
    """Repeat ``body`` as long as ``cond`` holds.

    Args:
        cond: function of the loop's variables that returns a boolean scalar.
        body: function of the loop's variables that returns their next values, in a structure like ``loop_vars``.
        loop_vars: list or tuple of the first values: tensors, sparse tensors, IndexedSlices, TensorArrays, numbers,
            and structures of them.
        shape_invariants: a structure like ``loop_vars`` of the shapes (`tf.TensorShape`) that hold in all iterations;
            by default the shapes of the first values. For IndexedSlices it is the shape of ``values``, for a
            sparse tensor that of ``dense_shape``.
        parallel_iterations: how many iterations may run at once; kept in the graph for other programs, as an iteration
            here starts when the one before it is done.
        back_prop: whether gradients flow through the loop; without them nothing is kept for them.
        swap_memory: whether values kept for the gradient may lie in the host's memory; kept in the graph.
        name: name of the op, and of the scope of the ops of condition and body.
        maximum_iterations: the most iterations to do, an integer scalar.
        return_same_structure: return a list or tuple even for a single variable.

    Returns:
        The variables after the last iteration, in the structure that ``body`` returned; of a single one, the variable.

    Raises:
        TypeError: ``cond`` or ``body`` is not a function, ``cond`` returns no boolean, or ``body`` another dtype.
        ValueError: no variables; ``body`` returns another structure, or a shape that does not fit the invariant.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default(), tf.Session() as session:
        ...     i, s = tf.while_loop(lambda i, s: i < 5, lambda i, s: (i + 1, s + i), (0, 0))
        ...     [int(value) for value in session.run([i, s])]
        [5, 10]
    """
    site = call_site()
    _check_arguments(cond, body, loop_vars, parallel_iterations)
    given = list(loop_vars) if isinstance(loop_vars, (list, tuple)) and not nest.is_namedtuple(loop_vars) else loop_vars
    if isinstance(given, Tensor) or composites.is_composite(given):
        given = [given]
    limit = maximum_iterations
    with name_scope(name, "while", [leaf for leaf in composites.flatten(given) if isinstance(leaf, Tensor)]) as scope:
        first = map_leaves(lambda leaf: None if leaf is None else as_output(leaf), given)
        builder = _Builder(get_default_graph(), cond, body, first, site)
        if not current_builder().defers:
            packed = builder.run(given, _limit(limit, site))
            single = len(packed) == 1 and not return_same_structure and isinstance(packed, (list, tuple))
            bare = builder.returned_bare or limit is not None  # as in TensorFlow, where Python's own loop runs
            return packed[0] if single and bare else packed
        builder.choose_shapes(given, shape_invariants)
        counted = OperationCount()
        limit = _limit(limit, site)
        op = builder.build(limit, parallel_iterations, scope)
        if not back_prop:
            op._attrs[NO_GRADIENT] = True
        if swap_memory:
            op._attrs["_swap_memory"] = True
        count = len(composites.flatten(builder.result))
        first_number = 0 if limit is None else 1  # TensorFlow counts the iterations in a variable before them
        with counted_as(builder.count):
            outputs = [
                named_output(output, "Exit", first_number + place)
                for place, output in enumerate(op._outputs[OWN : OWN + count])
            ]
        if in_function():  # the loop, what counts it and its limit, and each of its results
            counted.set(1 + 1 + (not isinstance(maximum_iterations, Tensor)) + len(op._outputs))
        packed = composites.pack(builder.result, outputs)
        single = count == 1 and not return_same_structure and isinstance(packed, (list, tuple))
        return packed[0] if single else packed


@public("control_flow_ops.While")
def old_while(
    cond: Callable[..., Any],
    body: Callable[..., Any],
    loop_vars: Any,
    parallel_iterations: int = 10,
    back_prop: bool = True,
    swap_memory: bool = False,
    name: str | None = None,
) -> Any:
    """``tf.while_loop`` as it was before TensorFlow 0.8: shapes may differ between iterations."""
    given = list(loop_vars) if isinstance(loop_vars, (list, tuple)) else [loop_vars]
    free = [None if composites.is_composite(item) else shapes.TensorShape(None) for item in given]
    return while_loop(cond, body, given, free, parallel_iterations, back_prop, swap_memory, name)


def _check_arguments(cond: Any, body: Any, loop_vars: Any, parallel_iterations: Any) -> None:
    for role, fn in (("cond", cond), ("body", body)):
        if not callable(fn):
            raise TypeError(
                f"{role} must be callable.\n"
                + errors.message(f"{role}={fn!r}", "a function of the loop's variables", "lambda i, x: ...")
            )
    if (isinstance(loop_vars, (list, tuple, dict)) and not loop_vars) or loop_vars is None:
        raise ValueError(
            "No loop variables provided\n"
            + errors.message(f"loop_vars={loop_vars!r}", "at least one variable", "loop_vars=[tf.constant(0)]")
        )
    if isinstance(parallel_iterations, Tensor) and parallel_iterations.has_value:
        parallel_iterations = int(parallel_iterations)  # type: ignore[call-overload]
    if not isinstance(parallel_iterations, int) or parallel_iterations < 1:
        raise TypeError(
            "parallel_iterations must be a positive integer.\n"
            + errors.message(f"parallel_iterations={parallel_iterations!r}", "a number of 1 or more", "leave it out")
        )


def _listed(structure: Any) -> Any:
    return list(structure) if isinstance(structure, (list, tuple)) else structure


def _limit(value: Any, site: Any) -> Tensor | None:
    if value is None:
        return None
    tensor = convert_to_tensor(value, name="maximum_iterations")
    if tensor._shape is not None and tensor._shape != ():
        raise ValueError(
            f"maximum_iterations must be a scalar, saw shape: {tensor.get_shape()}\n"
            + errors.message(
                f"maximum_iterations of shape {tensor.get_shape()}",
                "an integer scalar",
                "tf.reduce_max(lengths)",
                at=site,
            )
        )
    if not tensor.dtype.is_integer:
        raise TypeError(
            errors.message(
                f"maximum_iterations of dtype {tensor.dtype.base.name}",
                "an integer scalar",
                "tf.cast(x, tf.int32)",
                at=site,
            )
        )
    return tensor if tensor.dtype.base is dtypes.int32 else build("Cast", tensor, DstT=dtypes.int32)


class _Builder:
    """One call of while_loop."""

    def __init__(self, graph: Graph, cond: Any, body: Any, first: Any, site: Any) -> None:
        self.graph = graph
        self.cond = cond
        self.body = body
        self.first = first
        self.returned_bare = False
        """Whether the body last gave the one variable itself, not a list of it."""
        """The structure of the first values."""
        self.tensors: list[Tensor] = [convert_to_tensor(part) for part in composites.flatten(first)]
        self.shapes: list[shapes.RawShape] = [tensor._shape for tensor in self.tensors]
        self.site = site
        self.result: Any = None
        """The structure that the body returned."""
        self.count = len(self.tensors)
        """Of the variables that TensorFlow's loop has, of which one is the counter if there is a limit; for seeds."""

    def refuse(self, kind: type[Exception], heading: str, given: str, expected: str, instead: str) -> Exception:
        """An error with the lines of body and call."""
        at = f"body {told(self.body)}\ncalled at {self.site}"
        return kind((f"{heading}\n" if heading else "") + errors.message(given, expected, instead, at=at))

    # ------------------------------------------------------------------------------------------------------ invariants
    def choose_shapes(self, given: Any, invariants: Any) -> None:
        """Set the shapes that hold in all iterations."""
        if invariants is None:
            return
        if isinstance(invariants, (list, tuple)) and isinstance(given, (list, tuple)):
            invariants = type(given)(invariants) if not nest.is_namedtuple(given) else invariants
        try:
            nest.assert_same_structure(given, invariants, check_types=False)
        except (TypeError, ValueError):
            raise self.refuse(
                ValueError,
                "",
                f"shape_invariants {invariants!r} for loop_vars {given!r}",
                "a structure like loop_vars with a tf.TensorShape for each variable",
                "shape_invariants=[x.get_shape(), tf.TensorShape([None])]",
            ) from None
        position = 0
        for leaf, invariant in zip(nest.flatten(self.first), nest.flatten(invariants), strict=True):
            if leaf is None:
                continue
            count = len(composites.parts(leaf))
            if invariant is not None:
                if not isinstance(invariant, shapes.TensorShape):
                    raise self.refuse(
                        TypeError,
                        f"'shape_invariants' must be TensorShape, found {invariant!r}",
                        f"the shape invariant {invariant!r}",
                        "a tf.TensorShape",
                        "tf.TensorShape([None, 3])",
                    )
                chosen_shapes = composites.invariant_shapes(leaf, shapes.as_raw(invariant))
                for offset, shape in enumerate(chosen_shapes or ()):
                    self._set_shape(position + offset, shape)
            position += count

    def _set_shape(self, index: int, shape: shapes.RawShape) -> None:
        own = self.tensors[index]._shape
        if not _fits(own, shape):
            name = self.tensors[index].name
            raise self.refuse(
                ValueError,
                f"The shape invariant specified for {name} is not compatible with the initial shape of the loop "
                f"variable. It enters the loop with shape {shapes.TensorShape(own)}, but the specified shape "
                f"invariant is {shapes.TensorShape(shape)}.",
                f"{name!r} of shape {shapes.show(own)} with the invariant {shapes.show(shape)}",
                "an invariant that the first value fits",
                "tf.TensorShape([None, ...]) with None where the size changes or is not known",
            )
        self.shapes[index] = shape

    # -------------------------------------------------------------------------------------------------------- building
    def build(self, limit: Tensor | None, parallel_iterations: int, scope: str) -> Operation:
        """Build both bodies and the op."""
        graph = self.graph
        self.count = len(self.tensors) + (limit is not None)
        with counted_as(2 * self.count + (limit is not None)):  # entries and merges, and the counter's first value
            counter = constant(0, dtypes.int32, name="loop_counter")
            most = limit if limit is not None else constant(-1, dtypes.int32, name="maximum_iterations")
        condition, loop = graph.new_body("while_cond"), graph.new_body("while_body")
        condition.of_control_flow = loop.of_control_flow = True
        condition.of_loop = loop.of_loop = True
        self._build_condition(condition, limit)
        self._build_body(loop, most, condition)
        both = len(condition.captures.keys() & loop.captures.keys())  # captured once
        with counted_as(self.count - both, captures=False):  # next values; exits are made of what is returned
            captured = body_ops.line_up([condition, loop])
            for outer in captured:
                loop.outputs.append(loop.captures[outer])
            inputs = [counter, most, *self.tensors, *captured]
            stateless = "" if body_ops.is_stateful(condition) or body_ops.is_stateful(loop) else "Stateless"
            listed = [(), (), *self.shapes, *(tensor._shape for tensor in captured)]
            attrs: dict[str, Any] = {"cond": condition, "body": loop, "output_shapes": listed}
            attrs["parallel_iterations"] = parallel_iterations
            op = build_operation(f"{stateless}While", [inputs], attrs, scope)
            body_ops.own(op)
        return op

    def _arguments(self, body: Body, most: Tensor | None) -> list[Tensor]:
        body.add_arg(dtypes.int32, (), "loop_counter")
        maximum = body.add_arg(dtypes.int32, (), "maximum_iterations")
        maximum._known = None if most is None else inference.partial_value(most)
        arguments = []
        for tensor, shape in zip(self.tensors, self.shapes, strict=True):
            arg = body.add_arg(tensor.dtype.base, shape, tensor.op.name.rsplit("/", 1)[-1])
            arg._handle = tensor._handle
            arguments.append(arg)
        return arguments

    def _call(self, fn: Any, arguments: Sequence[Tensor]) -> Any:
        packed = composites.pack(self.first, arguments)
        return fn(*packed)

    def run(self, given: Any, limit: Tensor | None) -> Any:
        """The variables after the loop, run now: Python's own loop over what the program gave, numbers as numbers."""
        result = given
        most = None if limit is None else int(inference.partial_value(limit))
        count = 0
        while (most is None or count < most) and bool(unpack_singleton(self.cond(*result))):
            returned = self.body(*result)
            self.returned_bare = not isinstance(returned, (list, tuple))
            result = self._structured(returned)
            count += 1
        return map_leaves(lambda leaf: None if leaf is None else as_output(leaf), result)

    def _build_condition(self, body: Body, limit: Tensor | None) -> None:
        with self.graph.building(body):
            limited = limit is not None
            # The limit, captured, and the comparison with it; in a function the arguments, and the comparison.
            with counted_as(2 + len(self.tensors) + limited if in_function() else 2 * limited):
                arguments = self._arguments(body, limit)
            returned = self._call(self.cond, arguments)
            told_as = f"cond {told(self.cond)}\ncalled at {self.site}"
            if returned is None or nest.is_nested(returned) or composites.is_composite(returned):
                if not (isinstance(returned, (list, tuple)) and len(returned) == 1):
                    raise TypeError(
                        errors.message(
                            f"cond that returns {returned!r}", "a boolean scalar", "tf.logical_and(a, b)", at=told_as
                        )
                    )
                returned = returned[0]
            pred = convert_to_tensor(returned)
            wrong = TypeError if pred.dtype.base is not dtypes.bool_ else None
            if wrong is None and pred._shape is not None and pred._shape != ():
                wrong = ValueError
            if wrong is not None:
                raise wrong(
                    errors.message(
                        f"cond that returns {pred.name!r} of dtype {pred.dtype.base.name}, shape {pred.get_shape()}",
                        "a boolean scalar",
                        "tf.less(i, n), or tf.reduce_any(x)",
                        at=told_as,
                    )
                )
            pred = local(body, pred)
            if limit is not None:
                with counted_as(0 if in_function() else 1):
                    pred = build("LogicalAnd", build("Less", body.args[0], body.args[1]), pred)
            body.outputs = [pred]

    def _build_body(self, body: Body, most: Tensor, condition: Body) -> None:
        with self.graph.building(body):
            # The condition of the loop, and for each variable what it goes through and its value; the counter's next.
            number = 1 + 2 * self.count + 2 * (self.count > len(self.tensors))
            if in_function():  # what it takes: the arguments, and what the condition has captured
                number = 2 + len(self.tensors)
            with counted_as(number):
                arguments = self._arguments(body, most)
                for outer in condition.captures if in_function() else ():
                    body.capture(outer)
                counter = build("AddV2", body.args[0], constant(1, dtypes.int32, name="one"), name="next_counter")
            returned = self._call(self.body, arguments)
            self.result = self._checked(returned)
            next_values = [local(body, convert_to_tensor(part)) for part in composites.flatten(self.result)]
            for index, output in enumerate(next_values):
                self._check_value(index, output)
            body.outputs = after_effects(body, [counter, body.args[1], *next_values])

    def _checked(self, returned: Any) -> Any:
        """What the body returned, with tensors as leaves, in a structure like that of the variables."""
        returned, first = self._structured(returned), self.first
        wanted_leaves = nest.flatten(first)
        leaves = []
        for leaf, value in zip(wanted_leaves, nest.flatten(returned), strict=True):
            dtype = leaf.dtype.base if isinstance(leaf, Tensor) else None
            if leaf is not None and value is None:
                raise self.refuse(
                    ValueError,
                    "None values not supported.",
                    "None from the body",
                    "a next value",
                    "return the variable",
                )
            leaves.append(as_output(value, dtype))
        result = nest.pack_sequence_as(returned, leaves)
        if kinds(first) != kinds(result):
            raise self.refuse(
                TypeError,
                "",
                f"{kind_names(result)} from the body",
                f"{kind_names(first)}, as loop_vars",
                "return the same kinds of values, or convert loop_vars",
            )
        return result

    def _structured(self, returned: Any) -> Any:
        """What the body returned, in a structure like that of the variables."""
        if not nest.is_nested(returned):
            returned = [returned]
        first = self.first
        if (
            isinstance(first, list)
            and len(first) == 1
            and nest.is_nested(first[0])
            and _difference(first, _listed(returned))
        ):
            returned = [returned]  # a single variable that is a structure, returned as it is
        outermost = _listed(returned) if isinstance(first, list) else returned
        problem = _difference(first, outermost)
        if problem is not None:
            wanted, given = len(nest.flatten(first)), len(nest.flatten(returned))
            heading = "The two structures don't have the same nested structure."
            if wanted != given:
                heading += (
                    " They don't have the same number of elements. "
                    f"Number of inputs and outputs of body must match loop_vars: {given}, {wanted}"
                )
            raise self.refuse(
                problem,
                heading,
                f"the body's {given} values: {returned!r}",
                f"the form of loop_vars, {wanted} values: {first!r}",
                "return the next value of each variable, in the same lists, tuples and dicts",
            )
        return returned

    def _check_value(self, index: int, output: Tensor) -> None:
        variable, invariant = self.tensors[index], self.shapes[index]
        if output.dtype.base != variable.dtype.base:
            raise self.refuse(
                TypeError,
                f"Loop var {variable.name} enters the loop with type {variable.dtype.base.name} but has type "
                f"{output.dtype.base.name} after 1 iteration.",
                f"{output.name!r} of dtype {output.dtype.base.name} as the next value of {variable.name!r}",
                variable.dtype.base.name,
                f"tf.cast(x, tf.{variable.dtype.base.name}), or another first value",
            )
        if not _fits(output._shape, invariant):
            raise self.refuse(
                ValueError,
                f"Input tensor '{variable.name}' enters the loop with shape {shapes.TensorShape(invariant)}, but has "
                f"shape {shapes.TensorShape(output._shape)} after one iteration. To allow the shape to vary across "
                "iterations, use the `shape_invariants` argument of tf.while_loop to specify a less-specific shape.",
                f"{output.name!r} of shape {shapes.show(output._shape)} as the next value of {variable.name!r}",
                f"shape {shapes.show(invariant)} in each iteration",
                "shape_invariants=[..., tf.TensorShape([None, ...])], or x.set_shape(...) in the body",
            )


def _difference(first: Any, second: Any) -> type[Exception] | None:
    """None if two structures have one form; else the exception for it: TypeError where only their types differ."""
    try:
        nest.assert_same_structure(first, second)
    except (TypeError, ValueError) as problem:
        return type(problem)
    return None


def _fits(shape: shapes.RawShape, invariant: shapes.RawShape) -> bool:
    """Whether every tensor of the static shape ``shape`` has the shape ``invariant``."""
    if invariant is None:
        return True
    if shape is None or len(shape) != len(invariant):
        return False
    return all(wanted is None or size == wanted for size, wanted in zip(shape, invariant, strict=True))
