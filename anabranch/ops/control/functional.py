"""Conditionals, loops and calls as operations that hold nested bodies, and the optional values of untaken branches.

Policy. ``If`` and ``Case`` run one of their bodies, ``While`` its body as long as its condition holds, a call its one
body; the type without ``Stateless`` (or with ``Stateful``) is used where a body does more than compute its outputs. The
arguments of the bodies are the op's inputs (without the predicate or index), those of a loop also its outputs. These
ops have no kernels: the tiers run and lower the bodies.

Shapes. An output of a conditional has the most specific shape that the outputs of all branches fit; a loop's variable
has the shape of its invariant (``output_shapes``), or, where a file gives none, what its first and later values have
in common.
"""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.contract.inference import ShapeContext
from anabranch.core.contract.opdef import BODY, PURE_BODY, Func, Int, List, Op, Role, String, Type
from anabranch.core.graph.body import Body
from anabranch.core.values import shapes


def _gradient(op: Any, *grads: Any) -> Any:
    return hooks.control_flow_gradient(op, grads)


def _branches(c: ShapeContext) -> list[Body]:
    branches = []
    for key, spec in c.definition.attrs.items():
        if spec.element == "func":
            value = c.attrs[key]
            branches += [item for item in (value if isinstance(value, tuple) else (value,)) if isinstance(item, Body)]
    return branches


def _listed(c: ShapeContext, count: int) -> tuple[Any, ...] | None:
    given = c.attrs.get("output_shapes")
    if not given:
        return None
    if len(given) != count:
        raise ValueError(
            errors.message(
                f"output_shapes with {len(given)} shapes for {count} outputs of op type {c.definition.type_name!r}",
                "one shape per output, or none at all",
                "output_shapes=[]",
            )
        )
    return tuple(given)


def _check_bodies(c: ShapeContext, wanted: list[Any], first: int) -> None:
    """Bodies take the op's inputs and return tensors of the op's output types."""
    count = len(c.shapes) - first
    for body in _branches(c):
        if len(body.args) != count:
            raise ValueError(
                errors.message(
                    f"body {body.name!r} with {len(body.args)} arguments for op type {c.definition.type_name!r} with "
                    f"{count} inputs for it",
                    "one input for each argument",
                    "pass what the body captures, too",
                )
            )
        if c.definition.type_name.endswith("While") and body is c.attrs["cond"]:
            _check_condition(c, body)
            continue
        given = [output.dtype.base.name for output in body.outputs]
        if given != [dtype.name for dtype in wanted]:
            raise TypeError(
                errors.message(
                    f"body {body.name!r} that returns {given} for op type {c.definition.type_name!r}",
                    f"outputs of the types {[dtype.name for dtype in wanted]}",
                    "return outputs of these types from each body",
                )
            )


def _check_condition(c: ShapeContext, body: Body) -> None:
    if len(body.outputs) != 1:
        raise ValueError(
            errors.message(
                f"condition {body.name!r} with {len(body.outputs)} outputs",
                "a condition with one output",
                "return one boolean scalar",
            )
        )


def _called_shapes(c: ShapeContext) -> list[Any]:
    types = list(c.attrs["Tout"])
    first = len(c.shapes) - len(c.attrs["Tin"])
    _check_bodies(c, types, first)
    bodies = _branches(c)
    listed = _listed(c, len(types))
    merged: list[Any] = []
    for i in range(len(types)):
        outputs = [body.outputs[i] for body in bodies]
        shape = outputs[0]._shape if outputs else None
        handle = outputs[0]._handle if outputs else None
        for output in outputs[1:]:
            shape = shapes.generalize(shape, output._shape)
            handle = handle if output._handle == handle else None
        if listed is not None:
            shape = shapes.merge(shape, listed[i])
        if handle is not None:
            c.set_handle(i, handle.dtype, handle.shape)
        merged.append(shape)
    return merged


def _predicate_shapes(c: ShapeContext) -> list[Any]:
    """Shapes of the bodies. Any scalar is a predicate, and so is a tensor of other shape: whether it has elements."""
    return _called_shapes(c)


def _case_shapes(c: ShapeContext) -> list[Any]:
    c.with_rank("branch_index", 0)
    return _called_shapes(c)


def _loop_shapes(c: ShapeContext) -> list[Any]:
    types = list(c.attrs["T"])
    _check_bodies(c, types, 0)
    body = c.attrs["body"]
    listed = _listed(c, len(types))
    merged: list[Any] = []
    for i in range(len(types)):
        shape = c.shapes[i]
        handle = c.handle(i)
        if isinstance(body, Body) and body.outputs[i] is not body.args[i]:
            if listed is not None:
                shape = listed[i]
            else:
                shape = shapes.generalize(shape, body.outputs[i]._shape)
            later = body.outputs[i]._handle
            handle = later if later is not None and (handle is None or later.dtype == handle.dtype) else handle
        elif listed is not None:
            shape = shapes.merge(shape, listed[i]) if isinstance(body, Body) else listed[i]
        elif not isinstance(body, Body):
            shape = None
        if handle is not None:
            c.set_handle(i, handle.dtype, handle.shape)
        merged.append(shape)
    return merged


_IF = {
    "Tcond": Type(),
    "Tin": List("type", minimum=0),
    "Tout": List("type", minimum=0),
    "then_branch": Func(),
    "else_branch": Func(),
    "output_shapes": List("shape", ()),
}
_CASE = {
    "Tin": List("type", minimum=0),
    "Tout": List("type", minimum=0),
    "branches": List("func", minimum=1),
    "output_shapes": List("shape", ()),
}
_WHILE = {
    "T": List("type", minimum=0),
    "cond": Func(),
    "body": Func(),
    "output_shapes": List("shape", ()),
    "parallel_iterations": Int(10),
}
_CALL = {
    "Tin": List("type", minimum=0),
    "Tout": List("type", minimum=0),
    "f": Func(),
    "config": String(""),
    "config_proto": String(""),
    "executor_type": String(""),
}


class If(Op):
    """Run ``then_branch`` with the inputs if ``cond`` holds, otherwise ``else_branch``.

    ``cond`` is a scalar (a number holds if it is not 0, a string if it is not empty) or a tensor, which holds if it
    has elements.
    """

    signature = "cond: Tcond, input: [Tin] -> output: [Tout]"
    attrs = _IF
    effect = BODY
    role = Role.CONDITIONAL
    shape = _predicate_shapes
    gradient = _gradient


class StatelessIf(Op):
    """Like ``If``, with branches that only compute their outputs."""

    signature = "cond: Tcond, input: [Tin] -> output: [Tout]"
    attrs = _IF
    effect = PURE_BODY
    role = Role.CONDITIONAL
    shape = _predicate_shapes
    gradient = _gradient


class Case(Op):
    """Run branch number ``branch_index`` (a scalar) with the inputs; the last one for an index out of range."""

    signature = "branch_index: int32, input: [Tin] -> output: [Tout]"
    attrs = _CASE
    effect = BODY
    role = Role.CONDITIONAL
    shape = _case_shapes
    gradient = _gradient


class StatelessCase(Op):
    """Like ``Case``, with branches that only compute their outputs."""

    signature = "branch_index: int32, input: [Tin] -> output: [Tout]"
    attrs = _CASE
    effect = PURE_BODY
    role = Role.CONDITIONAL
    shape = _case_shapes
    gradient = _gradient


class While(Op):
    """Run ``body``, which maps the variables to their next values, as long as ``cond`` of them holds."""

    signature = "input: [T] -> output: [T]"
    attrs = _WHILE
    effect = BODY
    role = Role.LOOP
    shape = _loop_shapes
    gradient = _gradient


class StatelessWhile(Op):
    """Like ``While``, with condition and body that only compute their outputs."""

    signature = "input: [T] -> output: [T]"
    attrs = _WHILE
    effect = PURE_BODY
    role = Role.LOOP
    shape = _loop_shapes
    gradient = _gradient


class PartitionedCall(Op):
    """Call ``f``, which only computes its outputs, with the inputs."""

    signature = "args: [Tin] -> output: [Tout]"
    attrs = _CALL
    effect = PURE_BODY
    role = Role.CALL
    shape = _called_shapes
    gradient = _gradient


class StatefulPartitionedCall(Op):
    """Call ``f`` with the inputs."""

    signature = "args: [Tin] -> output: [Tout]"
    attrs = _CALL
    effect = BODY
    role = Role.CALL
    shape = _called_shapes
    gradient = _gradient
