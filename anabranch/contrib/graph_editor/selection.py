"""Which operations and tensors of a graph: by name, by a condition, or by walking along its edges."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import anabranch as tf
from anabranch.contrib.graph_editor.elements import (
    can_be_regex,
    check_cios,
    get_consuming_ops,
    get_generating_ops,
    make_list_of_op,
    make_list_of_t,
    make_regex,
)
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor


@public("contrib.graph_editor.filter_ts")
def filter_ts(ops: Any, positive_filter: Callable[[Any], bool] | None) -> list[Any]:
    """The tensors of operations, inputs and outputs, for which a condition holds; all if it is None."""
    tensors = [tensor for op in make_list_of_op(ops) for tensor in (*op.inputs, *op.outputs)]
    return [tensor for tensor in dict.fromkeys(tensors) if positive_filter is None or positive_filter(tensor)]


@public("contrib.graph_editor.filter_ts_from_regex")
def filter_ts_from_regex(ops: Any, regex: Any) -> list[Any]:
    """The tensors of operations whose names match a regular expression somewhere."""
    pattern = make_regex(regex)
    return filter_ts(ops, lambda tensor: pattern.search(tensor.name) is not None)


@public("contrib.graph_editor.filter_ops")
def filter_ops(ops: Any, positive_filter: Callable[[Any], bool] | None) -> list[Any]:
    """The operations for which a condition holds; all if it is None."""
    return [op for op in make_list_of_op(ops) if positive_filter is None or positive_filter(op)]


@public("contrib.graph_editor.filter_ops_from_regex")
def filter_ops_from_regex(ops: Any, regex: Any) -> list[Any]:
    """The operations whose names match a regular expression somewhere."""
    pattern = make_regex(regex)
    return filter_ops(ops, lambda op: pattern.search(op.name) is not None)


@public("contrib.graph_editor.get_name_scope_ops")
def get_name_scope_ops(ops: Any, scope: str) -> list[Any]:
    """The operations in a name scope, and the one of its name."""
    scope = scope.rstrip("/")
    return filter_ops(ops, lambda op: not scope or op.name == scope or op.name.startswith(f"{scope}/"))


@public("contrib.graph_editor.get_ops_ios")
def get_ops_ios(
    ops: Any, control_inputs: Any = False, control_outputs: Any = None, control_ios: Any = None
) -> list[Any]:
    """All neighbours of operations."""
    control_inputs, control_outputs = check_cios(control_inputs, control_outputs, control_ios)
    neighbours: dict[Any, None] = {}
    for op in make_list_of_op(ops):
        neighbours.update(dict.fromkeys(tensor.op for tensor in op.inputs))
        neighbours.update(dict.fromkeys(one for tensor in op.outputs for one in tensor.consumers()))
        if control_inputs:
            neighbours.update(dict.fromkeys(op.control_inputs))
        if control_outputs is not None:
            neighbours.update(dict.fromkeys(control_outputs.get(op)))
    return list(neighbours)


@public("contrib.graph_editor.compute_boundary_ts")
def compute_boundary_ts(ops: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """Tensors that come into a set of operations, that go out of it (or nowhere), and that are used inside."""
    inside = make_list_of_op(ops)
    members = set(inside)
    used = dict.fromkeys(tensor for op in inside for tensor in op.inputs)
    made = dict.fromkeys(tensor for op in inside for tensor in op.outputs)
    inputs = [tensor for tensor in used if tensor.op not in members]
    outputs = [tensor for tensor in made if tensor not in used or any(op not in members for op in tensor.consumers())]
    return inputs, outputs, [tensor for tensor in made if tensor in used]


@public("contrib.graph_editor.get_within_boundary_ops")
def get_within_boundary_ops(
    ops: Any,
    seed_ops: Any,
    boundary_ops: Any = (),
    inclusive: bool = True,
    control_inputs: Any = False,
    control_outputs: Any = None,
    control_ios: Any = None,
) -> list[Any]:
    """The operations that are reached from some without going beyond others.

    Args:
        ops: where to look.
        seed_ops: where to begin.
        boundary_ops: where to stop.
        inclusive: whether what is reached of ``boundary_ops`` is in the result.
        control_inputs, control_outputs, control_ios: which control edges to follow.

    Raises:
        ValueError: an operation is both a beginning and a stop.
    """
    control_inputs, control_outputs = check_cios(control_inputs, control_outputs, control_ios)
    within, boundary = set(make_list_of_op(ops)), set(make_list_of_op(boundary_ops))
    reached = dict.fromkeys(make_list_of_op(seed_ops))
    if set(reached) & boundary:
        raise ValueError(
            f"Boundary is intersecting with the seeds: {sorted(op.name for op in set(reached) & boundary)}"
        )
    stack = list(reached)
    while stack:
        op = stack.pop()
        for neighbour in get_ops_ios(op, control_inputs, control_outputs):
            if neighbour in within and neighbour not in reached and (inclusive or neighbour not in boundary):
                reached[neighbour] = None
                if neighbour not in boundary:
                    stack.append(neighbour)
    return list(reached)


def _seeds(seed_ops: Any, of_tensors: Callable[[Any], list[Any]]) -> list[Any]:
    items = (
        list(seed_ops)
        if isinstance(seed_ops, Iterable) and not isinstance(seed_ops, (Tensor, tf.Graph))
        else [seed_ops]
    )
    if items and isinstance(items[0], Tensor):
        return of_tensors(make_list_of_t(items, allow_graph=False))
    return make_list_of_op(seed_ops, allow_graph=False)


def _walk(
    seeds: list[Any],
    inclusive: bool,
    within_ops: Any,
    within_ops_fn: Callable[[Any], bool] | None,
    onwards: Callable[[Any], Iterable[Any]],
) -> list[Any]:
    """The operations that are reached from seeds, in the order in which they are."""
    within = None if within_ops is None else set(make_list_of_op(within_ops, allow_graph=False))

    def is_within(op: Any) -> bool:
        return (within is None or op in within) and (within_ops_fn is None or bool(within_ops_fn(op)))

    reached: dict[Any, None] = {}
    wave = [op for op in dict.fromkeys(seeds) if is_within(op)]
    while wave:
        reached.update(dict.fromkeys(wave))
        following = dict.fromkeys(other for op in wave for other in onwards(op))
        wave = [op for op in following if op not in reached and is_within(op)]
    first = set(seeds)
    return [op for op in reached if inclusive or op not in first]


@public("contrib.graph_editor.get_forward_walk_ops")
def get_forward_walk_ops(
    seed_ops: Any,
    inclusive: bool = True,
    within_ops: Any = None,
    within_ops_fn: Callable[[Any], bool] | None = None,
    stop_at_ts: Any = (),
    control_outputs: Any = None,
) -> list[Any]:
    """The operations that depend on some.

    Args:
        seed_ops: where to begin: operations, or tensors for what consumes them.
        inclusive: whether these are in the result.
        within_ops: where to look; everywhere if None.
        within_ops_fn: condition of the operations to look at.
        stop_at_ts: tensors beyond which not to go.
        control_outputs: a :class:`ControlOutputs`, to follow control edges too.
    """
    _, control_outputs = check_cios(False, control_outputs)
    stops = set(make_list_of_t(stop_at_ts))

    def onwards(op: Any) -> Iterable[Any]:
        yield from (one for tensor in op.outputs if tensor not in stops for one in tensor.consumers())
        if control_outputs is not None:
            yield from control_outputs.get(op)

    return _walk(_seeds(seed_ops, get_consuming_ops), inclusive, within_ops, within_ops_fn, onwards)


@public("contrib.graph_editor.get_backward_walk_ops")
def get_backward_walk_ops(
    seed_ops: Any,
    inclusive: bool = True,
    within_ops: Any = None,
    within_ops_fn: Callable[[Any], bool] | None = None,
    stop_at_ts: Any = (),
    control_inputs: Any = False,
) -> list[Any]:
    """The operations that some depend on; arguments are those of :func:`get_forward_walk_ops`.

    ``seed_ops`` may be tensors, for what generates them; ``control_inputs`` follows control edges too.
    """
    stops = set(make_list_of_t(stop_at_ts))

    def onwards(op: Any) -> Iterable[Any]:
        yield from (tensor.op for tensor in op.inputs if tensor not in stops)
        if control_inputs:
            yield from op.control_inputs

    return _walk(_seeds(seed_ops, get_generating_ops), inclusive, within_ops, within_ops_fn, onwards)


def _both_walks(
    forward_seed_ops: Any,
    backward_seed_ops: Any,
    forward_inclusive: bool,
    backward_inclusive: bool,
    within_ops: Any,
    within_ops_fn: Any,
    control: tuple[Any, Any, Any],
) -> tuple[list[Any], list[Any]]:
    control_inputs, control_outputs = check_cios(*control)
    forward = get_forward_walk_ops(
        forward_seed_ops, forward_inclusive, within_ops, within_ops_fn, control_outputs=control_outputs
    )
    backward = get_backward_walk_ops(
        backward_seed_ops, backward_inclusive, within_ops, within_ops_fn, control_inputs=control_inputs
    )
    return forward, backward


@public("contrib.graph_editor.get_walks_intersection_ops")
def get_walks_intersection_ops(
    forward_seed_ops: Any,
    backward_seed_ops: Any,
    forward_inclusive: bool = True,
    backward_inclusive: bool = True,
    within_ops: Any = None,
    within_ops_fn: Callable[[Any], bool] | None = None,
    control_inputs: Any = False,
    control_outputs: Any = None,
    control_ios: Any = None,
) -> list[Any]:
    """The operations that depend on some and that others depend on."""
    forward, backward = _both_walks(
        forward_seed_ops,
        backward_seed_ops,
        forward_inclusive,
        backward_inclusive,
        within_ops,
        within_ops_fn,
        (control_inputs, control_outputs, control_ios),
    )
    members = set(backward)
    return [op for op in forward if op in members]


@public("contrib.graph_editor.get_walks_union_ops")
def get_walks_union_ops(
    forward_seed_ops: Any,
    backward_seed_ops: Any,
    forward_inclusive: bool = True,
    backward_inclusive: bool = True,
    within_ops: Any = None,
    within_ops_fn: Callable[[Any], bool] | None = None,
    control_inputs: Any = False,
    control_outputs: Any = None,
    control_ios: Any = None,
) -> list[Any]:
    """The operations that depend on some or that others depend on."""
    forward, backward = _both_walks(
        forward_seed_ops,
        backward_seed_ops,
        forward_inclusive,
        backward_inclusive,
        within_ops,
        within_ops_fn,
        (control_inputs, control_outputs, control_ios),
    )
    return list(dict.fromkeys([*forward, *backward]))


def _selected(args: Any, kwargs: dict[str, Any], kind: str) -> list[Any]:
    """What :func:`select_ops` and :func:`select_ts` have in common."""
    graph = kwargs.pop("graph", None)
    condition = kwargs.pop("positive_filter", None)
    marked = kwargs.pop(f"restrict_{kind}_regex", False)
    if kwargs:
        raise ValueError(f"Wrong keywords argument: {sorted(kwargs)}.")
    if graph is not None and not isinstance(graph, tf.Graph):
        raise TypeError(f"Expected a tf.Graph, got: {type(graph)}")
    of_ops = kind == "ops"
    everything = [] if graph is None else make_list_of_op(graph) if of_ops else make_list_of_t(graph)
    mark = f"(?#{kind})"
    found: list[Any] = []
    for arg in args:
        if not can_be_regex(arg):
            items = make_list_of_op(arg, ignore_ts=True) if of_ops else make_list_of_t(arg, ignore_ops=True)
            found += [item for item in items if condition is None or condition(item)]
            continue
        if graph is None:
            raise ValueError("Use the keyword argument 'graph' to use regex.")
        pattern = make_regex(arg)
        if pattern.pattern.startswith("(?#") and not pattern.pattern.startswith(mark):
            continue
        if marked and not pattern.pattern.startswith(mark):
            continue
        found += [
            item
            for item in everything
            if pattern.search(item.name) is not None and (condition is None or condition(item))
        ]
    return list(dict.fromkeys(found))


@public("contrib.graph_editor.select_ops")
def select_ops(*args: Any, **kwargs: Any) -> list[Any]:
    """Operations by name or by themselves.

    Args:
        *args: operations, structures of them, and regular expressions that match names somewhere. Tensors are left out.
        **kwargs: ``graph``, where to look for names; ``positive_filter``, a condition; ``restrict_ops_regex``: take
            only expressions that begin with ``(?#ops)``.
    """
    return _selected(args, kwargs, "ops")


@public("contrib.graph_editor.select_ts")
def select_ts(*args: Any, **kwargs: Any) -> list[Any]:
    """Tensors by name or by themselves; arguments are those of :func:`select_ops`, with ``restrict_ts_regex``."""
    return _selected(args, kwargs, "ts")


@public("contrib.graph_editor.select_ops_and_ts")
def select_ops_and_ts(*args: Any, **kwargs: Any) -> tuple[list[Any], list[Any]]:
    """Operations by expressions of their names, and tensors by expressions that begin with ``(?#ts)``."""
    return select_ops(*args, restrict_ops_regex=False, **kwargs), select_ts(*args, restrict_ts_regex=True, **kwargs)
