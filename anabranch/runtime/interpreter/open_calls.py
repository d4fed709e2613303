"""What the lines of code for any size call: kernels, draws, and what follows from shapes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core.contract import inference, kernels
from anabranch.core.graph.operation import Operation
from anabranch.core.graph.state_key import ValueKey
from anabranch.core.values import sizes
from anabranch.core.values.host_list import HostList
from anabranch.ops.shared.unchecked import Changed
from anabranch.runtime.interpreter.shape_refusals import refused_by_shape
from anabranch.runtime.interpreter.turns import Turn, blocks_of
from anabranch.runtime.plans.plan import Plan
from anabranch.runtime.values import to_host

MOST_KEPT = 512
"""Shapes of which it is kept what follows from them."""
MOST_BYTES = 4096
"""Of a value that follows from shapes, and is kept."""
_ZEROS = bytes(16)


class FromShapes:
    """What follows from the shapes of some arrays."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self.roots: list[tuple[ValueKey, Any]] = []
        """Whose shapes, and their dtypes."""
        self.wanted: dict[tuple[ValueKey, bool], int] = {}
        """What is wanted, as an array or as a tuple of integers, and its place in what is kept."""
        self.ops: dict[Operation, None] = {}
        self.constants: dict[ValueKey, Any] = {}
        self._kept: dict[Any, list[Any]] = {}
        self._steps: list[tuple[Any, ...]] | None = None

    def _step(self, op: Operation) -> tuple[Any, ...]:
        """What it takes to run an op."""
        definition = op.definition
        context = kernels.HostContext(op)
        context.precision = self._plan.options.precision
        return op, self._plan.sources(op), definition.checks, definition.host_kernel or definition.kernel, context

    def __call__(self, *given: tuple[int, ...]) -> list[Any]:
        found = self._kept.get(given)
        return self._compute(given) if found is None else found

    def _compute(self, given: tuple[tuple[int, ...], ...]) -> list[Any]:
        if self._steps is None:
            self._steps = [self._step(op) for op in self.ops]
        values: dict[Any, Any] = dict(self.constants)
        for (root, dtype), shape in zip(self.roots, given, strict=True):
            values[root] = (
                np.broadcast_to(np.zeros((), dtype), shape)
                if dtype.hasobject
                else np.ndarray(shape, dtype, _ZEROS, 0, (0,) * len(shape))
            )
        for op, sources, checks, kernel, context in self._steps:
            operands = [values[key] for key in sources]
            if checks is not None:
                checks(context, operands, op._attrs)
            found = kernel(context, operands, op._attrs)
            if len(op._outputs) == 1:
                values[op._outputs[0]] = found[0] if isinstance(found, (list, tuple)) else found
            else:
                values.update(zip(op._outputs, found, strict=True))
        found = [
            tuple(np.ravel(values[tensor]).tolist()) if as_sizes else values[tensor] for tensor, as_sizes in self.wanted
        ]
        if all(isinstance(value, tuple) or value.nbytes <= MOST_BYTES for value in found):
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[given] = found
        return found


def held(value: Any) -> Any:
    """A value as kernels take it: an array, or a list."""
    return value if type(value) is np.ndarray or type(value) is HostList else to_host(value)


def array_of(like: Any) -> Callable[[tuple[int, ...]], Any]:
    """What makes an array of a tuple of sizes."""
    dtype, is_vector = like.dtype, like.ndim == 1

    def array(sizes: tuple[int, ...]) -> Any:
        try:
            return np.array(sizes if is_vector else sizes[0], dtype)
        except OverflowError:
            raise Changed from None

    return array


def kernel_of(plan: Plan, op: Operation, context: kernels.HostContext) -> Callable[..., Any]:
    """The kernel of an op, as a function of operands of any size."""
    definition, attrs = op.definition, op._attrs
    kernel, checks = definition.host_kernel or definition.kernel, definition.checks
    assert kernel is not None
    alone = len(op._outputs) == 1
    accepted: set[Any] = set()
    most = sizes.host_memory()
    any_shape = definition.shape is inference.elementwise or (definition.elementwise and len(op._inputs) == 1)

    def call(*operands: Any) -> Any:
        if not any_shape:
            forms = tuple([getattr(value, "shape", None) for value in operands])
            if forms not in accepted:
                if refused_by_shape(plan, op, operands) is not None:
                    raise Changed
                if len(accepted) >= MOST_KEPT:
                    accepted.clear()
                accepted.add(forms)
        values = [held(value) for value in operands]
        if checks is not None:
            checks(context, values, attrs)
        found = kernel(context, values, attrs)
        if alone and type(found) is np.ndarray:
            if found.nbytes > most:
                raise Changed
            return found
        results = kernels.outputs_of(definition, attrs, found)
        if any(type(value) is np.ndarray and value.nbytes > most for value in results):
            raise Changed
        return results[0] if alone else results

    return call


def drawing(plan: Plan, op: Operation, known: bool) -> Callable[..., Any]:
    """The kernel of an op that draws, as a function of the streams and its operands.

    ``known`` says that these are the same each time, and so is what a call reserves.
    """
    context = kernels.HostContext(op)
    context.precision = plan.options.precision
    kernel = kernel_of(plan, op, context)
    reserved: list[int] = []

    def call(turn: Turn, *operands: Any) -> Any:
        if not reserved or not known:
            reserved[:] = [blocks_of(op, operands)]
        context.philox = turn.take(op, reserved[0])
        return kernel(*operands)

    return call
