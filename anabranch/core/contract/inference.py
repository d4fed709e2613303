"""Shape inference with partly known shapes and partly known values.

A shape rule gets a :class:`ShapeContext` and returns raw shapes. Values that a rule asks for (the ``shape`` operand
of a reshape) are found by :func:`partial_value`: constants are known, an op with a ``value`` rule tells what it
knows, and a small pure op whose inputs are all known is computed by its host kernel. A partly known vector of ints is
a tuple with None in the unknown places; a value about which nothing is known is None. The plan of a step runs the
same rules again with the shapes of its feeds (a subclass overrides where values come from).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import kernels
from anabranch.core.contract.opdef import AtLeast, Op, OpDefinition  # noqa: F401  (Op is re-exported for rule authors)
from anabranch.core.contract.roles import Role
from anabranch.core.values import dtypes, shapes

MAX_FOLDED_SIZE = 4096
"""Constants larger than this (elements) are not computed while a graph is built."""

RawShape = tuple[int | None, ...] | None
_MOST_LISTED = 1 << 16
"""Elements of a vector of which nothing but their number is known up to which they are listed."""


class HandleData(NamedTuple):
    """What is known of the value behind a resource or variant."""

    dtype: dtypes.DType
    shape: RawShape


class ShapeContext:
    """What a shape or value rule may ask about one op. Operands are given by flat position or by name."""

    __slots__ = ("_tensors", "attrs", "definition", "output_handles", "shapes")

    of_values = False
    """Whether operands are values: the shape of a resource is then that of what is behind it."""
    runs = False
    """Whether the op is about to run, and does not merely stand in a graph; see ``stricter_when_run``."""
    added = False
    """Whether the op is being added to a graph, where TensorFlow refuses some shapes that its kernels take."""

    def __init__(
        self, definition: OpDefinition, attrs: dict[str, Any], tensors: Sequence[Any], input_shapes: list[RawShape]
    ):
        self.definition = definition
        self.attrs = attrs
        self.shapes = input_shapes
        """Raw shape of each input, flat; for a ref or resource operand of a read or write, of the variable's handle."""
        self._tensors = tensors
        self.output_handles: dict[int, HandleData] = {}

    # -- overridden by plans ------------------------------------------------------------------------------------------
    def _partial(self, position: int) -> Any:
        return partial_value(self._tensors[position])

    def _handle(self, position: int) -> HandleData | None:
        return self._tensors[position].handle_data

    # -- asked by rules -----------------------------------------------------------------------------------------------
    def position(self, operand: int | str) -> int:
        """Flat position of the (first tensor of the) operand."""
        if isinstance(operand, int):
            return operand
        positions = self.definition.positions  # type: ignore[attr-defined]
        return positions[operand] if positions is not None else self.definition.input_range(operand, self.attrs).start

    def positions(self, operand: str) -> range:
        """Flat positions of a list operand."""
        bounds = self.definition.input_range(operand, self.attrs)
        return range(bounds.start, bounds.stop)

    def shape(self, operand: int | str) -> RawShape:
        """Raw shape of an input."""
        return self.shapes[self.position(operand)]

    def dtype(self, operand: int | str) -> dtypes.DType:
        """Base dtype of an input."""
        return self._tensors[self.position(operand)].dtype.base

    def value(self, operand: int | str) -> np.ndarray | None:
        """The whole value of an input if it is known."""
        array = self._partial(self.position(operand))
        return array if isinstance(array, np.ndarray) else None

    def partial(self, operand: int | str) -> Any:
        """What is known of an input's value: an array, a tuple with None in unknown places, or None."""
        return self._partial(self.position(operand))

    def vector(self, operand: int | str) -> list[int | None] | None:
        """A 1-D integer input as a list with None where unknown; None if not even its length is known.

        Nor if that is beyond what can be listed.
        """
        position = self.position(operand)
        array = self._partial(position)
        if isinstance(array, np.ndarray):
            if array.ndim > 1:
                raise ValueError(
                    errors.message(
                        f"input {operand!r} of op type {self.definition.type_name!r} "
                        f"has shape {shapes.show(array.shape)}",
                        "a vector of integers",
                        "reshape it to one dimension",
                    )
                )
            if array.dtype.kind == "f" and not np.isfinite(array).all():
                given = f"input {operand!r} of op type {self.definition.type_name!r} with the values {array.tolist()}"
                raise ValueError(errors.message(given, "sizes, which are finite numbers", "check how it is computed"))
            return [int(item) for item in array.ravel()]
        if array is not None:
            return list(array)
        shape = self.shapes[position]
        if shape is not None and len(shape) == 1 and shape[0] is not None and shape[0] <= _MOST_LISTED:
            return [None] * shape[0]
        return None

    def scalar(self, operand: int | str) -> Any:
        """A scalar input as a Python number, or None if unknown."""
        array = self.value(operand)
        return array.item() if array is not None and array.size == 1 else None

    def handle(self, operand: int | str) -> HandleData | None:
        """Dtype and shape of the value behind a resource or variant input, if known."""
        return self._handle(self.position(operand))

    def set_handle(self, output: int, dtype: dtypes.DType, shape: RawShape) -> None:
        """States what is behind a resource or variant output."""
        self.output_handles[output] = HandleData(dtype, shape)

    # -- common demands -----------------------------------------------------------------------------------------------
    def with_rank(self, operand: int | str, rank: int) -> RawShape:
        """The operand's shape, refined to ``rank``; ValueError in three parts when it has another one."""
        shape = self.shape(operand)
        if shape is None:
            return (None,) * rank
        if len(shape) != rank:
            raise ValueError(
                f"Shape must be rank {rank} but is rank {len(shape)}\n"
                + errors.message(
                    f"input {operand!r} of op type {self.definition.type_name!r} has shape {shapes.show(shape)}",
                    f"rank {rank}: {_ranked(operand, rank)}",
                    "reshape or expand it",
                )
            )
        return shape

    def with_rank_at_least(self, operand: int | str, rank: int) -> RawShape:
        """The operand's shape, which must not have fewer than ``rank`` dimensions if its rank is known."""
        shape = self.shape(operand)
        if shape is not None and len(shape) < rank:
            raise ValueError(
                f"Shape must be at least rank {rank} but is rank {len(shape)}\n"
                + errors.message(
                    f"input {operand!r} of op type {self.definition.type_name!r} has shape {shapes.show(shape)}",
                    f"rank at least {rank}",
                    "reshape or expand it",
                )
            )
        return shape

    def same_shape(self, *operands: int | str) -> RawShape:
        """The merged shape of operands that must agree."""
        merged: RawShape = None
        for operand in operands:
            merged = shapes.merge(merged, self.shape(operand))
        return merged


def infer(definition: OpDefinition, context: ShapeContext, count: int) -> list[RawShape]:
    """Run the shape rule; one raw shape per output.

    Raises:
        ValueError, TypeError: the op cannot have such inputs.
        InternalError: the rule has a bug.
    """
    if definition.ranks:
        _check_ranks(definition, context)
    inferred = _asked(definition, definition.shape, context)
    result = inferred if isinstance(inferred, list) else [inferred]
    if len(result) != count:
        if count == 0 and inferred is None:
            return []
        raise TypeError(
            f"the shape rule of {definition.type_name!r} gave {len(result)} shapes for {count} outputs; "
            f"return a list with one raw shape per output"
        )
    return result


class AddedShapes(ShapeContext):
    """What the rules of an op may ask that is being added to a graph."""

    __slots__ = ()

    added = True


def _check_ranks(definition: OpDefinition, context: ShapeContext) -> None:
    for operand, rank in definition.ranks.items():
        for position in context.positions(operand):
            if context._tensors[position].dtype.base is dtypes.resource and not context.of_values:
                behind = context.handle(position)
                shape = None if behind is None else behind.shape
            else:
                shape = context.shapes[position]
            if shape is None:
                continue
            least = isinstance(rank, AtLeast)
            wanted = rank.rank if isinstance(rank, AtLeast) else rank
            if len(shape) < wanted or (len(shape) > wanted and not least):
                raise ValueError(
                    f"Shape must be {'at least ' if least else ''}rank {wanted} but is rank {len(shape)}\n"
                    + errors.message(
                        f"input {operand!r} of op type {definition.type_name!r} has shape {shapes.show(shape)}",
                        f"rank at least {wanted}" if least else f"rank {wanted}: {_ranked(operand, wanted)}",
                        "reshape or expand it",
                    )
                )


def _ranked(operand: int | str, rank: int) -> str:
    what = f"input {operand}" if isinstance(operand, int) else operand
    return f"{what} must be {('a scalar', 'a vector', 'a matrix')[rank] if rank < 3 else f'{rank}-dimensional'}"


def known_value(definition: OpDefinition, context: ShapeContext) -> Any:
    """What the value rule of an op knows; nothing of a value that its dtype has no room for."""

    def value(c: ShapeContext) -> Any:
        try:
            return definition.value(c)  # type: ignore[misc]
        except OverflowError:
            return None

    return _asked(definition, value, context)


def _asked(definition: OpDefinition, rule: Any, context: ShapeContext) -> Any:
    try:
        return rule(context)
    except (LookupError, AttributeError, ArithmeticError, AssertionError, NameError) as problem:
        given = ", ".join(map(shapes.show, context.shapes)) or "none"
        raise errors.InternalError(
            None,
            None,
            errors.message(
                f"{type(problem).__name__}: {problem}, from the shape rule of {definition.type_name!r} "
                f"on inputs of shapes {given}",
                "shapes, or an error that says what is wrong with the inputs",
                "check these inputs; whatever they are, this is a bug of Anabranch's: please report it",
            ),
        ) from problem


# ------------------------------------------------------------------------------------------------- shared shape rules
def _by_element(rule: Any) -> Any:
    """Mark a shape rule whose pure ops compute element by element, unless they say that they move elements."""
    rule.by_element = True
    return rule


@_by_element
def unchanged(c: ShapeContext) -> RawShape:
    """Shape rule: the output has the first input's shape, and the op computes element by element."""
    return c.shapes[0]


@_by_element
def elementwise(c: ShapeContext) -> RawShape:
    """Shape rule: all inputs are broadcast against each other."""
    result = c.shapes[0]
    for other in c.shapes[1:]:
        result = shapes.broadcast(result, other)
    return result


@_by_element
def merged(c: ShapeContext) -> RawShape:
    """Shape rule: all inputs have one shape."""
    result: RawShape = None
    for other in c.shapes:
        result = shapes.merge(result, other)
    return result


def scalar(c: ShapeContext) -> RawShape:
    """Shape rule: a scalar."""
    return ()


def unknown(c: ShapeContext) -> RawShape:
    """Shape rule: nothing is known."""
    return None


def no_outputs(c: ShapeContext) -> list[RawShape]:
    """Shape rule of an op without outputs."""
    return []


# ------------------------------------------------------------------------------------------------------- known values
def fold(definition: OpDefinition, attrs: dict[str, Any], values: Sequence[Any], op: Any) -> list[np.ndarray] | None:
    """Compute a pure op on the host when every input is known; None if it is not foldable or fails its checks."""
    if (
        definition.is_stateful
        or not definition.deterministic
        or kernels.needs_lax(definition)
        or definition.effect.kind == "body"
    ):
        return None
    try:
        with np.errstate(all="ignore"):  # what is not finite is a value like others, as it is in a step
            results = kernels.run_on_host(definition, values, attrs, kernels.HostContext(op))
    except Exception:
        return None  # the failure belongs to the step that runs the op, not to the line that builds it
    return [np.asarray(result) for result in results]


def partial_value(tensor: Any) -> Any:
    """What is known of a tensor's value: array, tuple with None in unknown places, or None. Cached."""
    known = tensor._known
    if known is not _UNSET:
        return known
    # An explicit stack: graphs that are thousands of ops deep must not meet Python's recursion limit.
    stack = [tensor]
    while stack:
        current = stack[-1]
        if current._known is not _UNSET:
            stack.pop()
            continue
        op = current.op
        definition = op.definition
        if (
            definition.is_stateful
            or current.dtype.base.name in ("resource", "variant")
            or definition.effect.kind == "body"
        ):
            current._known = None
            continue
        if definition.value is None and not _worth_folding(op):
            current._known = None
            continue
        waiting = [source for source in op._inputs if source._known is _UNSET]
        if waiting and not definition.shape_only:
            stack.extend(waiting)
            continue
        current._known = _known_from_inputs(current)
    return tensor._known


def _worth_folding(op: Any) -> bool:
    if op.definition.role is Role.PLACEHOLDER:
        return False  # it is there to be fed
    for output in op._outputs:
        size = shapes.num_elements(output._shape)
        if size is None or size > MAX_FOLDED_SIZE:
            return False
    return all(
        (shapes.num_elements(source._shape) or 0) <= MAX_FOLDED_SIZE
        and shapes.is_static(source._shape)
        and not source.dtype.is_ref
        for source in op._inputs
    )


def _known_from_inputs(tensor: Any) -> Any:
    op = tensor.op
    definition = op.definition
    if definition.value is not None:
        context = ShapeContext(definition, op._attrs, op._inputs, [source._shape for source in op._inputs])
        array = known_value(definition, context)
        if isinstance(array, list):  # one entry per output
            array = array[tensor.value_index]
        elif tensor.value_index:
            array = None
        if isinstance(array, tuple) and None not in array:
            array = np.array(array, tensor.dtype.base.np)
        if array is not None or definition.shape_only:
            return array
        if not _worth_folding(op):
            return None
    values = [source._known for source in op._inputs]
    if not all(isinstance(value, np.ndarray) for value in values):
        return None
    results = fold(definition, op._attrs, values, op)
    return None if results is None else results[tensor.value_index]


_UNSET: Any = type("Unset", (), {"__repr__": lambda self: "UNSET"})()

KnownFunction = Callable[[int], Any]
