"""A traced graph as something to call: one step of the process's worker, and what differentiates it.

A :class:`GraphFunction` is a graph with arguments and results. Calling it runs a step of the process's worker, which
plans and compiles it like a session's; the plan belongs to the arguments' shapes. What has an effect runs at each call,
in the order in which the function did it, whether a result needs it or not.

Differentiation. Where a tape follows an argument or a variable that the function reads, the call also gives the
*intermediates*: tensors of the graph that the gradient's ops take, and everything that is not a pure function of the
arguments (reads, draws, effects). The gradient is a function of its own, on the same graph: it is fed the arguments,
the intermediates and the gradients of the results, and recomputes what is pure and missing. Being called the same way,
it can be differentiated, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.autodiff.gradients import gradients
from anabranch.autodiff.input_gradients import is_differentiable, zeros_like
from anabranch.core import errors
from anabranch.core.contract.opdef import lookup
from anabranch.core.contract.roles import Role
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import GraphTensor, Operation
from anabranch.core.graph.tensor import OpView
from anabranch.core.graphdef.function_def import implied_control_outputs
from anabranch.core.values import dtypes
from anabranch.eager import recording
from anabranch.eager.function_graph import FunctionGraph
from anabranch.eager.mode import EAGER
from anabranch.eager.tensor import EagerTensor
from anabranch.rewrite import reach
from anabranch.runtime.registered_step import LocalStep, RegisteredStep
from anabranch.xla import engine, lists

_CARRIER = lookup("IdentityN")


class GraphFunction:
    """A graph with arguments and results; see the module's docstring.

    Args:
        graph: the graph.
        arguments: tensors that a call feeds, but for what the graph has captured.
        results: tensors that a call gives.
        effects: operations that a call runs besides.
        captured: values from outside that a call feeds after its arguments, with the tensors that stand for them.
        handles: handles from outside, with the ops that name the same resources.
    """

    def __init__(
        self,
        graph: FunctionGraph,
        arguments: Sequence[GraphTensor],
        results: Sequence[GraphTensor],
        effects: Sequence[Operation],
        captured: Sequence[tuple[EagerTensor, GraphTensor]],
        handles: Sequence[tuple[EagerTensor, GraphTensor]],
    ) -> None:
        self.graph = graph
        self.arguments = tuple(arguments)
        self.results = tuple(results)
        self.effects = tuple(effects)
        self.captured = tuple(captured)
        self.handles = tuple(handles)
        self.feeds = (*self.arguments, *[inner for _, inner in self.captured])
        self._dtypes = tuple([result.dtype.base for result in self.results])
        self._captured_values: list[Any] = []
        self._steps: dict[tuple[GraphTensor, ...], RegisteredStep] = {}
        self._derivatives: dict[Any, Derivative] = {}

    @classmethod
    def of_graph(
        cls, graph: FunctionGraph, arguments: Sequence[GraphTensor], results: Sequence[GraphTensor]
    ) -> GraphFunction:
        """The function that a whole graph is, with what it has captured and all its effects."""
        graph.root.outputs = list(results)
        return cls(graph, arguments, results, implied_control_outputs(graph.root), graph.captured, graph.handles)

    # ---------------------------------------------------------------------------------------------------------- calling
    def call(self, arguments: Sequence[EagerTensor]) -> list[EagerTensor]:
        """The results for these arguments."""
        tapes = recording._tapes.active
        if tapes:
            for tape in tapes:
                tape.calls(self.graph)
            inputs = [*arguments, *[outer for outer, _ in self.captured], *[outer for outer, _ in self.handles]]
            if any([tape.wants(inputs) for tape in tapes]):
                return self._recorded(inputs, arguments)
        return self.run(arguments, ())

    def run(self, arguments: Sequence[EagerTensor], more: tuple[GraphTensor, ...]) -> list[EagerTensor]:
        """The results for these arguments, and the values of more tensors of the graph."""
        step = self._steps.get(more)
        if step is None:
            fetches: tuple[Any, ...] = (*self.results, *more, *self.effects)
            step = self._steps[more] = EAGER.worker.register(LocalStep(self.graph, fetches, self.feeds))
        worker = EAGER.worker
        last = step.last
        found = None
        if last is not None:
            try:
                values = [tensor._value for tensor in arguments]
            except AttributeError:
                raise _without_value(arguments) from None
            if self.captured:
                values += self._captured_values or self._prepare_captured(last.fast)
            if last.fits_arrays(values):
                found = worker.repeat(step, values, None, None, True)
        if found is None:
            if not all([type(tensor) is EagerTensor for tensor in arguments]):
                raise _without_value(arguments)
            values = [_fed(tensor) for tensor in arguments]
            found = worker.run(step, [*values, *[_fed(outer) for outer, _ in self.captured]])
        outputs = []
        kinds = self._dtypes if not more else (*self._dtypes, *[tensor.dtype.base for tensor in more])
        for value, dtype in zip(found, kinds, strict=False):
            tensor = EagerTensor.__new__(EagerTensor)
            tensor.dtype = dtype
            tensor._handle = tensor._made_by = None
            if dtype.np is None:
                tensor._value, tensor._host = _eager_value(value), None
            elif hasattr(value, "devices"):
                tensor._value, tensor._host = value, None
            else:
                tensor._value = tensor._host = value if type(value) is np.ndarray else np.asarray(value, dtype.np)
            outputs.append(tensor)
        return outputs

    def _prepare_captured(self, fast: Any) -> list[Any]:
        """The values from outside, as programs take them again and again; ops on the host take those of the host."""
        ready = engine.kept if fast is None or fast.in_one is None else engine.as_argument
        found = [outer._value if outer.dtype.np is None else ready(outer._array()) for outer, _ in self.captured]
        self._captured_values = found
        return found

    # -------------------------------------------------------------------------------------------------- differentiation
    def _recorded(self, inputs: list[EagerTensor], arguments: Sequence[EagerTensor]) -> list[EagerTensor]:
        ys = tuple([i for i, result in enumerate(self.results) if _has_slope(result)])
        derivative = self.derivative(ys, ())
        outputs = self.run(arguments, derivative.intermediates)
        view = OpView(_CARRIER, tuple(inputs), {}, tuple(outputs))
        view.name = self.graph.name
        view.accepts_none = True
        view._gradient_function = _Rule(self, ys, derivative.intermediates)  # type: ignore[attr-defined]
        recording.record(view)
        return outputs[: len(self.results)]

    def derivative(self, ys: tuple[int, ...], more: tuple[GraphTensor, ...]) -> Derivative:
        """What gives the gradients of the inputs from those of some results, and of more tensors of the graph."""
        key = (ys, more)
        found = self._derivatives.get(key)
        if found is None:
            found = self._derivatives[key] = Derivative(self, ys, more)
        return found


class _Rule:
    """The gradient rule of one call.

    Args:
        function: what was called.
        ys: numbers of the results that have gradients.
        given: the intermediates that the call gave behind its results.
    """

    def __init__(self, function: GraphFunction, ys: tuple[int, ...], given: tuple[GraphTensor, ...]) -> None:
        self._function = function
        self._ys = ys
        self._given = given

    def __call__(self, op: OpView, *grads: Any) -> list[Any]:
        count = len(self._function.results)
        later = [place for place, grad in enumerate(grads[count:]) if grad is not None]
        # A gradient of a gradient reaches intermediates, too.
        derivative = self._function.derivative(self._ys, tuple([self._given[place] for place in later]))
        reached = [*self._ys, *[count + place for place in later]]
        starts = [zeros_like(op._outputs[i]) if grads[i] is None else convert_to_tensor(grads[i]) for i in reached]
        values = dict(zip(self._given, op._outputs[count:], strict=True))
        return derivative.apply(op._inputs, values, starts)


class Derivative:
    """The gradient of a function, as functions on the same graph.

    Args:
        forward: the function.
        ys: numbers of the results whose gradients it is given.
        more: tensors of the graph whose gradients it is given, too.
    """

    def __init__(self, forward: GraphFunction, ys: tuple[int, ...], more: tuple[GraphTensor, ...]) -> None:
        self._forward = forward
        graph = forward.graph
        before, captured_before = len(graph._operations), len(graph.captured)
        targets = [*[forward.results[i] for i in ys], *more]
        inputs = [*forward.feeds, *[inner for _, inner in forward.handles]]
        self._positions = [i for i, x in enumerate(inputs) if _has_slope(x) or _is_variable(x)]
        with graph.as_default(), graph.name_scope("gradient_function"):
            self._starts = [graph.placeholder(y.dtype.base, y._shape, "start") for y in targets]
            xs = [inputs[i] for i in self._positions]
            self._slopes = gradients(targets, xs, list(self._starts), stop_gradients=xs) if targets and xs else []
        self._captured = graph.captured[captured_before:]
        self.intermediates = tuple(_intermediates(forward, before))
        self._functions: dict[tuple[GraphTensor, ...], GraphFunction] = {}

    def apply(
        self, inputs: Sequence[EagerTensor], values: dict[GraphTensor, EagerTensor], starts: Sequence[Any]
    ) -> list[Any]:
        """The gradients of the inputs of a call, from the values that it gave and the gradients that it is given."""
        known = tuple([tensor for tensor in self.intermediates if tensor in values])
        function = self._functions.get(known)
        if function is None:
            parts = [part for slope in self._slopes for part in _parts(slope)]
            arguments = [*self._forward.feeds, *known, *self._starts]
            function = GraphFunction(self._forward.graph, arguments, parts, (), self._captured, ())
            self._functions[known] = function
        fed = [*inputs[: len(self._forward.feeds)], *[values[tensor] for tensor in known], *starts]
        rest = iter(function.call(fed))
        found: list[Any] = [None] * len(inputs)
        for position, slope in zip(self._positions, self._slopes, strict=False):
            if isinstance(slope, IndexedSlices):
                pieces = [next(rest) if part is not None else None for part in _all_parts(slope)]
                found[position] = IndexedSlices(*pieces)
            elif slope is not None:
                found[position] = next(rest)
        return found


def _all_parts(slope: Any) -> list[Any]:
    return [slope.values, slope.indices, slope.dense_shape] if isinstance(slope, IndexedSlices) else [slope]


def _parts(slope: Any) -> list[GraphTensor]:
    return [part for part in _all_parts(slope) if part is not None]


def _has_slope(tensor: GraphTensor) -> bool:
    return is_differentiable(tensor) and tensor.dtype.base not in (dtypes.resource, dtypes.variant)


def _is_variable(tensor: GraphTensor) -> bool:
    return tensor.dtype.base is dtypes.resource and tensor.op.definition.makes == "variable"


def _intermediates(forward: GraphFunction, before: int) -> list[GraphTensor]:
    """Tensors of the first ``before`` ops that later ones take, and those that cannot be computed anew."""
    fed = frozenset(forward.feeds)
    run = reach.needed_ops(reach.body_roots(forward.results, forward.effects, fed), fed)
    found: dict[GraphTensor, None] = {}
    for op in forward.graph.root.operations:
        if op._id >= before:
            found.update(dict.fromkeys(op._inputs))  # type: ignore[arg-type]
        elif op.definition.is_stateful and op in run:
            found.update(dict.fromkeys(op._outputs))  # type: ignore[arg-type]
    return [
        tensor
        for tensor in found
        if tensor.op._id < before
        and tensor not in fed
        and tensor.op.role is not Role.CONSTANT
        and tensor.op.definition.makes is None
    ]


def _eager_value(value: Any) -> Any:
    """A value of a variant tensor; the parts of an optional, which many ops look at, as they are on the host."""
    return lists.for_host(value) if type(value) is lists.TracedOptional else value


def _without_value(arguments: Sequence[Any]) -> TypeError:
    symbolic = next(tensor for tensor in arguments if not isinstance(tensor, EagerTensor))
    return TypeError(
        errors.message(
            f"tensor {symbolic._label} of a graph as an argument of a function, where ops run at once",
            "a tensor with a value",
            "a layer that calls the function: tf.keras.layers.Lambda(function)(x)",
        )
    )


def _fed(tensor: EagerTensor) -> Any:
    return tensor._value if tensor.dtype.np is None else tensor._array()
