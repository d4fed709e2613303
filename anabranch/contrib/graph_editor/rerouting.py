"""Edges of a graph moved: what consumes a tensor consumes another one, and parts are connected, detached or bypassed.

A change is made in the graph itself; steps that are planned afterwards see it.
"""

from __future__ import annotations

from typing import Any

from anabranch.contrib.graph_editor.elements import (
    check_cios,
    make_list_of_op,
    make_list_of_t,
    make_placeholder_from_tensor,
    remove_control_inputs,
    scope_of,
)
from anabranch.contrib.graph_editor.views import SubGraphView, make_view
from anabranch.core import errors
from anabranch.core.contract.api import public

Uses = list[tuple[Any, int]]


def _uses(tensor: Any, can_modify: Any, cannot_modify: Any) -> Uses:
    """Where a tensor is used: operations, and places of their inputs."""
    allowed = None if can_modify is None else set(make_list_of_op(can_modify))
    refused = set() if cannot_modify is None else set(make_list_of_op(cannot_modify))
    return [
        (op, place)
        for op in dict.fromkeys(tensor.consumers())
        if (allowed is None or op in allowed) and op not in refused
        for place, given in enumerate(op.inputs)
        if given is tensor
    ]


def _move(uses: Uses, tensor: Any) -> int:
    for op, place in uses:
        op._update_input(place, tensor)
    return len(uses)


def _pairs(ts0: Any, ts1: Any) -> list[tuple[Any, Any]]:
    first, second = make_list_of_t(ts0), make_list_of_t(ts1)
    if len(first) != len(second):
        raise ValueError(
            f"ts0 and ts1 have different sizes: {len(first)} != {len(second)}\n"
            + errors.message(f"{len(first)} and {len(second)} tensors", "as many of both", "lists of one length")
        )
    for a, b in zip(first, second, strict=True):
        if a.dtype.base_dtype != b.dtype.base_dtype or not a.shape.is_compatible_with(b.shape):
            raise ValueError(
                errors.message(f"{a} in place of {b}", "tensors of one dtype, whose shapes fit", "tf.cast, tf.reshape")
            )
    return list(zip(first, second, strict=True))


@public("contrib.graph_editor.reroute_ts")
def reroute_ts(ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None) -> int:
    """What uses the tensors ``ts1`` uses those of ``ts0`` instead.

    Args:
        ts0: tensors.
        ts1: as many tensors of the same dtypes; nothing uses them afterwards.
        can_modify: operations that may change; all if None.
        cannot_modify: operations that may not.

    Returns:
        How many inputs were changed.
    """
    return sum(_move(_uses(b, can_modify, cannot_modify), a) for a, b in _pairs(ts0, ts1))


@public("contrib.graph_editor.swap_ts")
def swap_ts(ts0: Any, ts1: Any, can_modify: Any = None, cannot_modify: Any = None) -> int:
    """What uses tensors of one list uses those of the other instead; arguments are those of :func:`reroute_ts`."""
    changed = 0
    for a, b in _pairs(ts0, ts1):
        of_a, of_b = (_uses(tensor, can_modify, cannot_modify) for tensor in (a, b))
        changed += _move(of_b, a) + _move(of_a, b)
    return changed


def _of_views(sgv0: Any, sgv1: Any, inputs: bool, outputs: bool, swap: bool) -> tuple[SubGraphView, SubGraphView]:
    first, second = make_view(sgv0), make_view(sgv1)
    change = swap_ts if swap else reroute_ts
    if inputs:
        inside = [*first.ops, *second.ops] if swap else second.ops
        change(first.inputs, second.inputs, can_modify=inside)
    if outputs:
        members = [*first.ops, *second.ops]
        change(first.outputs, second.outputs, cannot_modify=members)
    for view in (first, second):
        ordered = view._inputs, view._outputs
        view._reset()
        if not inputs and len(ordered[0]) == len(view._inputs):
            view._inputs = ordered[0]
        if set(ordered[1]) <= set(view._outputs) | set(ordered[1]):
            view._outputs = ordered[1]
    return first, second


@public("contrib.graph_editor.swap_inputs")
def swap_inputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """Two parts take each other's inputs."""
    return _of_views(sgv0, sgv1, True, False, True)


@public("contrib.graph_editor.reroute_inputs")
def reroute_inputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """The second part takes the inputs of the first one."""
    return _of_views(sgv0, sgv1, True, False, False)


@public("contrib.graph_editor.swap_outputs")
def swap_outputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """What uses the outputs of one part uses those of the other instead."""
    return _of_views(sgv0, sgv1, False, True, True)


@public("contrib.graph_editor.reroute_outputs")
def reroute_outputs(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """What uses the outputs of the second part uses those of the first one instead."""
    return _of_views(sgv0, sgv1, False, True, False)


@public("contrib.graph_editor.swap_ios")
def swap_ios(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """Two parts change places."""
    return _of_views(sgv0, sgv1, True, True, True)


@public("contrib.graph_editor.reroute_ios")
def reroute_ios(sgv0: Any, sgv1: Any) -> tuple[SubGraphView, SubGraphView]:
    """The first part gives its inputs to the second one, whose outputs it replaces."""
    return _of_views(sgv0, sgv1, True, True, False)


# -------------------------------------------------------------------------------------------- connecting and detaching
@public("contrib.graph_editor.detach_control_inputs")
def detach_control_inputs(sgv: Any) -> None:
    """The operations of a part wait for none outside."""
    view = make_view(sgv)
    members = set(view.ops)
    for op in view.ops:
        outside = [one for one in op.control_inputs if one not in members]
        if outside:
            remove_control_inputs(op, outside)


@public("contrib.graph_editor.detach_control_outputs")
def detach_control_outputs(sgv: Any, control_outputs: Any) -> None:
    """No operation outside waits for one of a part."""
    _, control_outputs = check_cios(False, control_outputs)
    view = make_view(sgv)
    members = set(view.ops)
    for op in view.ops:
        for other in control_outputs.get(op):
            if other not in members:
                remove_control_inputs(other, op)


@public("contrib.graph_editor.detach_inputs")
def detach_inputs(sgv: Any, control_inputs: Any = False) -> tuple[SubGraphView, list[Any]]:
    """Placeholders in place of a part's inputs; the view, and the placeholders."""
    view = make_view(sgv)
    with view.graph.as_default(), view.graph.name_scope(None):
        stand_ins = [make_placeholder_from_tensor(tensor, scope=scope_of(view.op(0).name)) for tensor in view.inputs]
    reroute_ts(stand_ins, view.inputs, can_modify=view.ops)
    view._inputs, view._default_inputs = list(stand_ins), list(stand_ins)
    if control_inputs:
        detach_control_inputs(view)
    return view, stand_ins


@public("contrib.graph_editor.detach_outputs")
def detach_outputs(sgv: Any, control_outputs: Any = None) -> tuple[SubGraphView, list[Any]]:
    """Placeholders in place of a part's outputs, for what uses them outside; the view, and the placeholders."""
    view = make_view(sgv)
    members = set(view.ops)
    used = [tensor for tensor in view.outputs if any(op not in members for op in tensor.consumers())]
    with view.graph.as_default(), view.graph.name_scope(None):
        stand_ins = [make_placeholder_from_tensor(tensor) for tensor in used]
    reroute_ts(stand_ins, used, cannot_modify=view.ops)
    if control_outputs is not None:
        detach_control_outputs(view, control_outputs)
    return view, stand_ins


@public("contrib.graph_editor.detach")
def detach(
    sgv: Any, control_inputs: Any = False, control_outputs: Any = None, control_ios: Any = None
) -> tuple[SubGraphView, list[Any], list[Any]]:
    """Placeholders in place of a part's inputs and outputs; the view, and both lists of placeholders."""
    control_inputs, control_outputs = check_cios(control_inputs, control_outputs, control_ios)
    view, inputs = detach_inputs(sgv, control_inputs)
    _, outputs = detach_outputs(view, control_outputs)
    return view, inputs, outputs


@public("contrib.graph_editor.connect")
def connect(sgv0: Any, sgv1: Any, disconnect_first: bool = False) -> tuple[SubGraphView, SubGraphView]:
    """The outputs of the first part become the inputs of the second one, in order.

    Args:
        sgv0: a part.
        sgv1: a part with as many inputs as the first one has outputs.
        disconnect_first: put placeholders where outputs of the first part were used before.
    """
    first, second = make_view(sgv0), make_view(sgv1)
    if first.graph is not second.graph:
        raise ValueError(errors.message("parts of different graphs", "parts of one graph", "copy one of them first"))
    if disconnect_first:
        detach_outputs(first)
    outputs = first.outputs
    reroute_ts(outputs, second.inputs, can_modify=second.ops)
    second._inputs, second._default_inputs = list(outputs), list(outputs)
    return first, second


@public("contrib.graph_editor.bypass")
def bypass(sgv: Any) -> tuple[SubGraphView, list[Any]]:
    """What used the outputs of a part uses its inputs instead; the detached view, and the placeholders it has now."""
    view = make_view(sgv)
    inputs = view.inputs
    view, stand_ins = detach_inputs(view)
    reroute_ts(inputs, view.outputs, cannot_modify=view.ops)
    return view, stand_ins
