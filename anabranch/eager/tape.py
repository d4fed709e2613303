"""``tf.GradientTape``: gradients of what has run, by the rules of the ops that ran.

A tape notes the ops that run while it records and take something that it follows: a watched tensor or variable, or
what another noted op made of one. :meth:`GradientTape.gradient` goes through what was noted from the end, adds up the
gradients that arrive at each output, and applies the op's rule, as ``tf.gradients`` does to a graph. Rules run ops, so
a tape that records meanwhile (an outer one, or this one if it is persistent) can differentiate them again.

A tensor is followed by its identity. What a tape notes keeps the tensors alive, so identities stay unique.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from anabranch.autodiff.aggregation import AggregationMethod, aggregate
from anabranch.autodiff.gradients import UnconnectedGradients, gradients
from anabranch.autodiff.input_gradients import input_gradients, is_differentiable, zeros_like
from anabranch.autodiff.variable_reads import handles_read, variable_of_handle
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import lookup
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.tensor import OpView, Tensor, TensorLike
from anabranch.core.values import dtypes, nest
from anabranch.eager import graph_stretches, jacobians, kept_rules, recording
from anabranch.platform import logging
from anabranch.variables.variable import Variable


class _Tape:
    """What a tape has noted, and which tensors it follows."""

    def __init__(self, watches_variables: bool) -> None:
        self.views: list[OpView] = []
        self.followed: dict[int, Any] = {}
        """Tensors by identity."""
        self._since: dict[int, int] = {}
        """For what is followed where a graph is built, how many ops that had."""
        self.variables: dict[int, Any] = {}
        """Variables that are followed, by the identity of their handles."""
        self._watches_variables = watches_variables
        self.stretches: list[tuple[Any, int, int | None]] = []
        """Graphs that were built while the tape recorded: from which op on, and up to which, or on until now."""

    def calls(self, graph: Any) -> None:
        """Nothing: a call that matters is recorded as one op."""

    def hides(self) -> None:
        """Nothing: what is hidden has no gradient."""

    def watch(self, tensor: Any) -> None:
        """Follow a tensor from now on."""
        self._follow(tensor)

    def _follow(self, tensor: Any) -> None:
        if id(tensor) in self.followed:
            return
        self.followed[id(tensor)] = tensor
        if self.stretches and self.stretches[-1][2] is None:
            self._since[id(tensor)] = len(self.stretches[-1][0]._operations)

    def begin_stretch(self, builder: Any) -> None:
        """Note that ops of a graph that are added from now on belong to the tape."""
        if builder.defers:
            self.stretches.append((builder, len(builder._operations), None))

    def end_stretch(self) -> None:
        """Note that they do no longer."""
        if self.stretches and self.stretches[-1][2] is None:
            graph, start, _ = self.stretches[-1]
            self.stretches[-1] = (graph, start, len(graph._operations))

    def noted_in(self, graph: Any) -> graph_stretches.Noted | None:
        """What it has noted of the ops of a graph; None if it has never recorded while that was built."""
        stretches = [graph._operations[start:end] for one, start, end in self.stretches if one is graph]
        if not stretches:
            return None
        ops = [op for stretch in stretches for op in stretch]
        watched = {number: (one, self._since.get(number, 0)) for number, one in self.followed.items()}
        return graph_stretches.noted(graph, ops, watched, self._watches_variables)

    def variables_in_order(self) -> list[Any]:
        """The variables that are followed, in the order in which they were made."""
        variables = dict(self.variables)
        for graph, start, end in self.stretches if self._watches_variables else ():
            for handle in handles_read(graph._operations[start:end]):
                variable = variable_of_handle(graph, handle)
                if variable is not None and variable.trainable:
                    variables[id(variable.handle)] = variable
        return sorted(variables.values(), key=lambda variable: _made_number(variable.handle))

    def watch_variable(self, variable: Any) -> None:
        """Follow a variable from now on."""
        handle = variable.handle
        self._follow(handle)
        self.variables[id(handle)] = variable

    def wants(self, inputs: Sequence[Any]) -> bool:
        """Whether one of the tensors is followed; trainable variables that an op reads are, from then on."""
        followed = self.followed
        wanted = False
        for tensor in inputs:
            if id(tensor) in followed:
                wanted = wanted or is_differentiable(tensor)
            elif tensor.dtype is dtypes.resource and self._watches_variables:
                variable = variable_of(tensor)
                if variable is not None and variable.trainable:
                    self.watch_variable(variable)
                    wanted = True
        return wanted

    def ignores(self, source: Any) -> bool:
        """Whether a source is a variable that is followed only where a program asks for it, and it has not."""
        handle = getattr(source, "handle", None) if isinstance(source, Variable) else None
        if handle is None or id(handle) in self.followed:
            return False
        return not (self._watches_variables and source.trainable)

    def record(self, view: OpView) -> None:
        """Note an op that has run, and follow what it made."""
        self.views.append(view)
        for output in view._outputs:
            if is_differentiable(output):
                self.followed[id(output)] = output


def _made_number(handle: Any) -> int:
    """A number that grows with each variable: of a graph's, the number of the op that made it."""
    number: int = getattr(handle, "_variable_number", 0) if handle.has_value else handle.op._id
    return number


def variable_of(handle: Any) -> Any:
    """The variable that a handle belongs to, if there still is one."""
    reference = getattr(handle, "_variable", None)
    return None if reference is None else reference()


def record_operation(
    type_name: str, outputs: Sequence[Any], inputs: Sequence[Any], backward: Callable[..., Any]
) -> None:
    """Tell the thread's tapes of something that made ``outputs`` of ``inputs``, whose gradients ``backward`` gives."""
    if not recording.active():
        return
    view = OpView(lookup("IdentityN"), tuple(inputs), {}, tuple(outputs))
    view.name = type_name
    view._gradient_function = lambda op, *grads: backward(*grads)  # type: ignore[attr-defined]
    recording.record(view)


def gradients_of(
    views: Sequence[OpView], targets: Sequence[Any], sources: Sequence[Any], starts: Sequence[Any]
) -> list[Any]:
    """The gradients of targets by sources, along what was noted; None where there is no way.

    Args:
        views: what has run, in order.
        targets: tensors.
        sources: tensors, and handles of variables.
        starts: for each target the gradient that it starts with.
    """
    reached = {id(source) for source in sources}
    between = []
    for view in views:
        for tensor in view._inputs:
            if id(tensor) in reached:
                between.append(view)
                reached.update([id(output) for output in view._outputs])
                break
    at_once = kept_rules.follows_rules()
    arrived: dict[int, list[Any]] = {}
    for target, start in zip(targets, starts, strict=True):
        if id(target) in reached:
            arrived.setdefault(id(target), []).append(start)
    wanted = {id(source) for source in sources}
    for view in reversed(between):
        outputs = view._outputs
        grads: list[Any] = [None] * len(outputs)
        for i, output in enumerate(outputs):
            waiting = arrived.get(id(output))
            if waiting is not None:
                grads[i] = waiting[0] if len(waiting) == 1 else aggregate(view, waiting, AggregationMethod.ADD_N)
                if id(output) in wanted:
                    arrived[id(output)] = [grads[i]]
                else:
                    del arrived[id(output)]
        if all(grad is None for grad in grads):
            continue
        inputs = view._inputs
        asked = tuple([id(tensor) in reached for tensor in inputs])
        found = kept_rules.input_gradients(view, grads, asked) if at_once else input_gradients(view, grads)
        for tensor, gradient, is_asked in zip(inputs, found, asked, strict=True):
            if is_asked and gradient is not None:
                arrived.setdefault(id(tensor), []).append(gradient)
    return [aggregate(_SUM, arrived.get(id(source), ()), AggregationMethod.ADD_N) for source in sources]


_SUM = OpView(lookup("Identity"), (), {}, ())


@public("GradientTape", "contrib.eager.GradientTape")
class GradientTape:
    """Notes what runs inside its block, to be differentiated.

    Args:
        persistent: whether :meth:`gradient` can be called more than once.
        watch_accessed_variables: whether trainable variables that are read inside the block are watched.

    Example:
        >>> import anabranch as tf
        >>> x = tf.constant(3.0)
        >>> with tf.GradientTape() as tape:
        ...     tape.watch(x)
        ...     y = x * x
        >>> tape.gradient(y, x)
        <tf.Tensor 'gradients/AddN:0' shape=() dtype=float32>

        The same after ``tf.enable_eager_execution()`` is a tensor with the value 6.
    """

    def __init__(self, persistent: bool = False, watch_accessed_variables: bool = True) -> None:
        self._persistent = persistent
        self._watch_accessed_variables = watch_accessed_variables
        self._tape: _Tape | None = None
        self._recording = False
        self._watched_variables: list[Any] = []

    def __enter__(self) -> GradientTape:
        self._push()
        return self

    def __exit__(self, *error: object) -> None:
        if self._recording:
            self._pop()

    def _push(self, existing: bool = False) -> None:
        if self._recording:
            raise ValueError(
                "Tape is already recording.\n"
                + errors.message("a tape entered twice", "one `with` block at a time", "make a second GradientTape()")
            )
        if self._tape is None:
            self._tape = _Tape(self._watch_accessed_variables)
        self._tape.begin_stretch(current_builder())
        recording.push(self._tape)
        self._recording = True

    def _pop(self) -> None:
        assert self._tape is not None
        recording.pop(self._tape)
        self._tape.end_stretch()
        self._recording = False

    def _noted(self, what: str) -> _Tape:
        if self._tape is None:
            raise RuntimeError(
                f"GradientTape.{what} can only be called once on non-persistent tapes.\n"
                + errors.message(
                    f"a second {what}() of a tape, or one before its block",
                    "a tape that has noted something",
                    "tf.GradientTape(persistent=True)",
                )
            )
        return self._tape

    def watch(self, tensor: Any) -> None:
        """Follow a tensor or variable, or a structure of them.

        Raises:
            RuntimeError: the tape has not been entered. ValueError: something is not a tensor.
        """
        tape = self._noted("watch")
        for item in map(_plain, nest.flatten(tensor)):
            if not isinstance(item, (Tensor, Variable)):
                raise ValueError(
                    f"Passed in object of type {type(item)}, expected tf.Tensor\n"
                    + errors.message(f"watch({item!r})", "a tensor or a variable", "tape.watch(tf.constant(value))")
                )
            if not item.dtype.base.is_floating and not item.dtype.base.is_complex:
                logging.log_first_n(
                    logging.WARN,
                    "The dtype of the watched tensor must be floating (e.g. tf.float32), got %r",
                    5,
                    item.dtype,
                )
            if isinstance(item, Variable) and getattr(item, "handle", None) is not None:
                tape.watch_variable(item)
            else:
                tape.watch(convert_to_tensor(item) if isinstance(item, Variable) else item)

    @contextlib.contextmanager
    def stop_recording(self) -> Iterator[None]:
        """Note nothing of what runs inside the block.

        Raises:
            RuntimeError: the tape is not recording.
        """
        if self._tape is None or not self._recording:
            raise RuntimeError(
                "You must initialize GradientTape before calling stop_recording\n"
                + errors.message(
                    "stop_recording() of a tape that does not record", "a call inside its block", "with tape:"
                )
            )
        self._pop()
        try:
            yield
        finally:
            self._push()

    def reset(self) -> None:
        """Forget everything that was noted, and begin anew."""
        recorded = self._recording
        if recorded:
            self._pop()
        self._tape = None
        if recorded:
            self._push()

    def watched_variables(self) -> tuple[Any, ...]:
        """The variables that are watched, in the order in which they were made."""
        if self._tape is not None:
            self._watched_variables = self._tape.variables_in_order()
        return tuple(self._watched_variables)

    def gradient(
        self,
        target: Any,
        sources: Any,
        output_gradients: Any = None,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
    ) -> Any:
        """The gradients of the sum of ``target`` by each of ``sources``.

        Args:
            target: a tensor or a variable, or a structure of them.
            sources: tensors or variables, or a structure of them.
            output_gradients: what each target's gradient starts with; ones if None.
            unconnected_gradients: what is given for a source that no target depends on.

        Returns:
            A structure like ``sources`` of tensors, `IndexedSlices`, and None.

        Raises:
            RuntimeError: the tape was used before and is not persistent. ValueError: an argument is wrong.
        """
        tape = self._noted("gradient")
        mode = _unconnected(unconnected_gradients)
        if self._recording:
            if not self._persistent:
                self._pop()
            else:
                logging.log_first_n(
                    logging.WARN,
                    "Calling GradientTape.gradient on a persistent tape inside its context is significantly less "
                    "efficient than calling it outside the context (it causes the gradient ops to be recorded on the "
                    "tape, leading to increased CPU and memory usage). Only call GradientTape.gradient inside the "
                    "context if you actually want to trace the gradient in order to compute higher order derivatives.",
                    1,
                )
        targets = []
        for item in nest.flatten(target):
            if item is not None and not item.dtype.base.is_floating and not item.dtype.base.is_complex:
                logging.log_first_n(
                    logging.WARN,
                    "The dtype of the target tensor must be floating (e.g. tf.float32) when calling "
                    "GradientTape.gradient, got %r",
                    5,
                    item.dtype,
                )
            if isinstance(item, (Variable, TensorLike)):
                with self if not self._recording else contextlib.nullcontext():
                    item = convert_to_tensor(item)
            targets.append(item)
        flat = [_plain(item) for item in nest.flatten(sources)]
        for item in flat:
            if not isinstance(item, (Tensor, Variable, IndexedSlices)):
                raise ValueError(
                    errors.message(f"a source {item!r}", "tensors or variables", "tape.gradient(loss, [w, b])")
                )
        if output_gradients is None:
            starts: list[Any] = [None] * len(targets)
        else:
            given = nest.flatten(output_gradients)
            starts = [
                None if start is None else convert_to_tensor(start, item.dtype.base)
                for start, item in zip(given, targets, strict=True)
            ]
        found = _gradients(tape, targets, flat, starts, current_builder().defers)
        if mode is UnconnectedGradients.ZERO:
            found = [zeros_like(_source(x)) if grad is None else grad for x, grad in zip(flat, found, strict=True)]
        if not self._persistent:
            self._watched_variables = tape.variables_in_order()
            self._tape = None
        return nest.pack_sequence_as(sources, found)

    def jacobian(
        self,
        target: Any,
        sources: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """The derivatives of each element of ``target`` by each of ``sources``.

        Args:
            target: a tensor ``[*target_shape]``.
            sources: tensors or variables, or a structure of them.
            unconnected_gradients: what is given for a source that the target does not depend on.
            parallel_iterations: has no effect.
            experimental_use_pfor: whether one walk is repeated by a loop instead of taken for each element.

        Returns:
            A structure like ``sources`` of tensors ``[*target_shape, *source_shape]``.
        """
        tape = self._noted("jacobian")
        mode = _unconnected(unconnected_gradients)
        if self._recording and not self._persistent:
            self._pop()
        target = convert_to_tensor(target)
        flat = [_plain(item) for item in nest.flatten(sources)]
        stacked = self._stacked(tape, target, flat, False, experimental_use_pfor)
        results: list[Any] = []
        for source, rows in zip(flat, stacked, strict=True):
            if rows is not None:
                results.append(jacobians.by_elements(target, source, rows))
            elif mode is UnconnectedGradients.ZERO:
                whole = jacobians.joined(jacobians.sizes_of(target), jacobians.sizes_of(source))
                results.append(build("Fill", whole, constant(0, target.dtype.base)))
            else:
                results.append(None)
        return nest.pack_sequence_as(sources, results)

    def _stacked(self, tape: _Tape, target: Any, sources: list[Any], batched: bool, traced: bool) -> list[Any]:
        """For each source the gradients of the elements of a target, one after another, or None."""
        in_graph = current_builder().defers

        def walk(start: Any) -> list[Any]:
            return _gradients(tape, [target], sources, [start], in_graph)

        start, count = jacobians.starts_of(target, batched)
        traced = traced and (in_graph or jacobians.has_plain_rules(tape.views))
        stacked = jacobians.stacked_gradients(walk, start, count, traced)
        if not self._persistent:
            self._watched_variables = tape.variables_in_order()
            self._tape = None
        return stacked

    def batch_jacobian(
        self,
        target: Any,
        source: Any,
        unconnected_gradients: Any = UnconnectedGradients.NONE,
        parallel_iterations: int | None = None,
        experimental_use_pfor: bool = True,
    ) -> Any:
        """The derivatives of each element of ``target[b]`` by ``source[b]``, for each b.

        Args:
            target: a tensor ``[batch, *target_shape]`` whose element b depends on ``source[b]`` alone.
            source: a tensor ``[batch, *source_shape]``.
            unconnected_gradients: what is given if the target does not depend on the source.
            parallel_iterations: has no effect.
            experimental_use_pfor: whether one walk is repeated by a loop instead of taken for each element.

        Returns:
            A tensor ``[batch, *target_shape, *source_shape]``, or None.

        Raises:
            ValueError: the first dimensions differ, or are not there.
        """
        tape = self._noted("batch_jacobian")
        mode = _unconnected(unconnected_gradients)
        for tensor in (target, source):
            if tensor.shape.ndims is not None and tensor.shape.ndims < 2:
                raise ValueError(
                    f"Shape {tensor.shape} must have rank at least 2\n"
                    + errors.message(
                        f"batch_jacobian of shapes {target.shape} and {source.shape}",
                        "a batch of rows: at least two dimensions each",
                        "tape.jacobian(y, x), or tf.expand_dims(x, 1)",
                    )
                )
        if (
            target.shape.ndims in (None, 0)
            or source.shape.ndims in (None, 0)
            or not target.shape[0].is_compatible_with(source.shape[0])
        ):
            raise ValueError(
                f"Need first dimension of target shape ({target.shape}) and source shape ({source.shape}) to match.\n"
                + errors.message(
                    f"shapes {target.shape} and {source.shape}", "one first dimension, the batch", "tape.jacobian(y, x)"
                )
            )
        if self._recording and not self._persistent:
            self._pop()
        rows = self._stacked(tape, target, [source], True, experimental_use_pfor)[0]
        if rows is not None:
            return jacobians.by_rows(target, source, rows)
        if mode is UnconnectedGradients.NONE:
            return None
        whole = jacobians.joined(jacobians.sizes_of(target), jacobians.sizes_of(source)[1:])
        return build("Fill", whole, constant(0, target.dtype.base))


def _unconnected(mode: Any) -> UnconnectedGradients:
    try:
        return mode if isinstance(mode, UnconnectedGradients) else UnconnectedGradients(mode)
    except ValueError:
        raise ValueError(
            f"Unknown value for unconnected_gradients: {mode!r}\n"
            + errors.message(
                f"unconnected_gradients={mode!r}", "NONE or ZERO", "unconnected_gradients=tf.UnconnectedGradients.ZERO"
            )
        ) from None


def _plain(item: Any) -> Any:
    """What a program watches or differentiates by: of an object that stands for a variable, the variable."""
    if not isinstance(item, TensorLike):
        return item
    value = getattr(item, "value", None)
    return value if isinstance(value, Variable) else convert_to_tensor(item)


def _source(item: Any) -> Any:
    """The tensor that stands for what a program differentiates by: of a variable its handle."""
    handle = getattr(item, "handle", None) if isinstance(item, Variable) else None
    return item if handle is None else handle


def _gradients(
    tape: _Tape, targets: Sequence[Any], sources: Sequence[Any], starts: Sequence[Any], in_graph: bool
) -> list[Any]:
    """The gradients of what was noted; ``in_graph`` tells whether a graph did, which knows its own ops."""
    targets = [None if target is None or target.dtype.base.host_only else target for target in targets]
    if in_graph:
        return _gradients_in_graph(tape, targets, sources, starts)
    given = [
        build("OnesLike", target) if start is None and target is not None else start
        for target, start in zip(targets, starts, strict=True)
    ]
    wanted = [_source(item) for item in sources]
    followed = [item for item in wanted if id(item) in tape.followed]
    found = dict(zip(map(id, followed), gradients_of(list(tape.views), targets, followed, given), strict=True))
    return [found.get(id(item)) for item in wanted]


def _gradients_in_graph(
    tape: _Tape, targets: Sequence[Any], sources: Sequence[Any], starts: Sequence[Any]
) -> list[Any]:
    """The same of a graph's tensors, whose graph tells how they came about."""
    builder = current_builder()
    given = [_source(x) for x in sources]
    local = [x if type(x) is builder.tensor_type or not isinstance(x, Tensor) else builder.adopt(x) for x in given]
    known = [target for target in targets if target is not None]
    given_starts = [s for t, s in zip(targets, starts, strict=True) if t is not None]
    noted = tape.noted_in(builder)
    found = gradients(known, local, given_starts, stop_gradients=None if noted is None else noted.before)
    return [
        None if tape.ignores(x) or (noted is not None and _is_unknown(noted, x, known)) else slope
        for x, slope in zip(sources, found, strict=True)
    ]


def _is_unknown(noted: graph_stretches.Noted, source: Any, targets: Sequence[Any]) -> bool:
    """Whether a tape follows neither a tensor of a graph nor anything that it was made of."""
    if isinstance(source, Variable) or source.has_value or source.dtype.is_ref or source in noted.followed:
        return False
    root = source.op.graph.root
    return source.op.body is root and all([y.has_value or y.op.body is root for y in targets])
