"""``tf.autodiff.ForwardAccumulator``: directional derivatives of what has run.

There are no forward rules. What runs inside the block is noted as by a tape, and the derivative along the tangents is
the derivative of a gradient: the gradient of a target by the primals is linear in the gradient ``u`` that the walk
starts with, and its own gradient by ``u``, started with the tangents, is the sum that is asked for (the "double
backward" construction of Townsend, 2017). It costs one walk more than forward rules would, computes nothing of the
Jacobian, and holds for every op whose gradient has a gradient. ``u`` is zero: no result depends on its value.

The walk is taken when :meth:`ForwardAccumulator.jvp` is called, not while the block runs. A tape or another
accumulator that is to differentiate the result must be recording then.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.autodiff.gradients import UnconnectedGradients
from anabranch.autodiff.input_gradients import zeros_like
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.tensor import Tensor, TensorLike
from anabranch.core.values import nest
from anabranch.eager import recording, tape
from anabranch.platform import logging
from anabranch.variables.variable import Variable


@public("autodiff.ForwardAccumulator")
class ForwardAccumulator:
    """Notes what runs inside its block, to be differentiated along a direction.

    Args:
        primals: tensors or variables that the block computes with, or a structure of them.
        tangents: a structure like ``primals``: the direction, a tensor of the same dtype and shape for each.

    Raises:
        ValueError: the structures or shapes differ, or a primal is given twice. TypeError: a primal is not a tensor.

    Example:
        >>> import anabranch as tf
        >>> x = tf.constant([1.0, 2.0])
        >>> with tf.autodiff.ForwardAccumulator(x, tf.constant([1.0, 0.0])) as accumulator:
        ...     y = x * x
        >>> slope = accumulator.jvp(y)

        After ``tf.enable_eager_execution()`` ``slope`` has the value ``[2., 0.]``.
    """

    def __init__(self, primals: Any, tangents: Any) -> None:
        nest.assert_same_structure(primals, tangents)
        self._tape = tape._Tape(watches_variables=False)
        self._recording = False
        self._primals: list[Any] = []
        self._tangents: list[Any] = []
        for primal, tangent in zip(nest.flatten(primals), nest.flatten(tangents), strict=True):
            self._watch(primal, tangent)

    def _watch(self, primal: Any, tangent: Any) -> None:
        if not isinstance(primal, (Tensor, Variable, TensorLike)):
            raise TypeError(
                errors.message(
                    f"a primal {primal!r}", "a tensor or a variable", "ForwardAccumulator(tf.constant(value), tangent)"
                )
            )
        primal = tape._plain(primal)
        dtype = primal.dtype.base
        if not dtype.is_floating and not dtype.is_complex:
            logging.log_first_n(
                logging.WARN, "The dtype of the watched primal must be floating (e.g. tf.float32), got %r", 5, dtype
            )
        direction = convert_to_tensor(tangent, dtype)
        if not direction.shape.is_compatible_with(primal.shape):
            raise ValueError(
                errors.message(
                    f"a tangent of shape {direction.shape} for a primal of shape {primal.shape}",
                    "tangents of the primals' shapes",
                    "tf.ones_like(primal)",
                )
            )
        if any(tape._source(primal) is tape._source(known) for known in self._primals):
            raise ValueError(
                f"Tensor {primal} was passed as a primal more than once.\n"
                + errors.message("a primal given twice", "each primal once", "add up its tangents")
            )
        self._primals.append(primal)
        self._tangents.append(direction)
        if isinstance(primal, Variable) and getattr(primal, "handle", None) is not None:
            self._tape.watch_variable(primal)
        else:
            self._tape.watch(convert_to_tensor(primal) if isinstance(primal, Variable) else primal)

    def __enter__(self) -> ForwardAccumulator:
        if self._recording:
            raise ValueError(
                "Accumulator is already recording.\n"
                + errors.message(
                    "an accumulator entered twice", "one `with` block at a time", "make a second ForwardAccumulator"
                )
            )
        recording.push(self._tape)
        self._recording = True
        return self

    def __exit__(self, *error: object) -> None:
        recording.pop(self._tape)
        self._recording = False

    def jvp(self, primals: Any, unconnected_gradients: Any = UnconnectedGradients.NONE) -> Any:
        """The derivatives along the tangents of what the block computed.

        Args:
            primals: a tensor or variable, or a structure of them.
            unconnected_gradients: what is given for a tensor that does not depend on the watched ones.

        Returns:
            A structure like ``primals`` of tensors of the same shapes, and None where nothing watched is reached.
        """
        mode = tape._unconnected(unconnected_gradients)
        before = self._recording
        if before:
            recording.pop(self._tape)
        try:
            found = []
            for target in nest.flatten(primals):
                slope = self._slope(target)
                if slope is None and mode is UnconnectedGradients.ZERO:
                    slope = zeros_like(convert_to_tensor(target))
                found.append(slope)
        finally:
            if before:
                recording.push(self._tape)
        return nest.pack_sequence_as(primals, found)

    def _slope(self, target: Any) -> Any:
        """The derivative of one tensor along the tangents, or None."""
        item = tape._plain(target)
        for primal, tangent in zip(self._primals, self._tangents, strict=True):
            if tape._source(item) is tape._source(primal):
                return tangent
        item = convert_to_tensor(item)
        in_graph = current_builder().defers
        start = zeros_like(item)
        around = tape._Tape(watches_variables=False)
        around.watch(start)
        recording.push(around)
        try:
            rows = tape._gradients(self._tape, [item], self._primals, [start], in_graph)
            rows = [convert_to_tensor(row) if isinstance(row, IndexedSlices) else row for row in rows]
        finally:
            recording.pop(around)
        return _along(around, rows, self._tangents, start, in_graph)


def _along(around: Any, rows: Sequence[Any], tangents: Sequence[Any], start: Any, in_graph: bool) -> Any:
    """The gradient by ``start`` of gradients that were made of it, each times its tangent; None if there are none."""
    pairs = [(row, tangent) for row, tangent in zip(rows, tangents, strict=True) if row is not None]
    if not pairs:
        return None
    return tape._gradients(around, [row for row, _ in pairs], [start], [tangent for _, tangent in pairs], in_graph)[0]
