"""``control_flow_util``: in which loop or conditional an operation stands, and what it is to the graph's old forms."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.graph.body_context import BodyContext

ENABLE_CONTROL_FLOW_V2 = False


ControlFlowContext = BodyContext


class XLAControlFlowContext(BodyContext):
    """The context of what XLA is told to compile: none is one, since all is compiled."""


def _is(op: Any, *types: str) -> bool:
    return op.type in (*types, *(f"Ref{name}" for name in types))


def EnableControlFlowV2(graph: Any) -> bool:
    """Whether ``graph`` is a function's own graph: never."""
    return ENABLE_CONTROL_FLOW_V2


def IsInXLAContext(op: Any) -> bool:
    """Whether the program has marked an operation as one to be compiled, with the attribute ``_XlaCompile``.

    All is compiled where that pays, whether it is marked or not.
    """
    try:
        return bool(op.get_attr("_XlaCompile"))
    except ValueError:
        return False


def InXlaContext(graph: Any) -> bool:
    """False: all is compiled, and nothing depends on where."""
    return False


GraphOrParentsInXlaContext = InXlaContext


def IsSwitch(op: Any) -> bool:
    """Whether it is a ``Switch`` of version 1's control flow."""
    return _is(op, "Switch")


def IsMerge(op: Any) -> bool:
    """Whether it is a ``Merge`` of version 1's control flow."""
    return _is(op, "Merge")


def IsLoopEnter(op: Any) -> bool:
    """Whether it is an ``Enter`` of version 1's control flow."""
    return _is(op, "Enter")


def IsLoopExit(op: Any) -> bool:
    """Whether it is an ``Exit`` of version 1's control flow."""
    return _is(op, "Exit")


def IsLoopConstantEnter(op: Any) -> bool:
    """Whether it is an ``Enter`` whose value does not change in the loop."""
    return IsLoopEnter(op) and bool(op.get_attr("is_constant"))


def GetLoopConstantEnter(value: Any) -> Any:
    """The ``Enter`` that a tensor of a loop of version 1 comes from unchanged, if it is the same in each iteration."""
    op = value.op
    while _is(op, "Switch", "Identity"):
        op = op.inputs[0].op
    return op if IsLoopConstantEnter(op) else None


def IsLoopSwitch(op: Any) -> bool:
    """Whether it is the ``Switch`` of a loop of version 1: its value comes from a ``Merge``."""
    return IsSwitch(op) and IsMerge(op.inputs[0].op)


def IsCondSwitch(op: Any) -> bool:
    """Whether it is the ``Switch`` of a conditional of version 1."""
    return IsSwitch(op) and not IsLoopSwitch(op)


def IsLoopMerge(op: Any) -> bool:
    """Whether it is the ``Merge`` of a loop of version 1: one of its values comes from an ``Enter``."""
    return IsMerge(op) and any(IsLoopEnter(tensor.op) for tensor in op.inputs)


def IsCondMerge(op: Any) -> bool:
    """Whether it is the ``Merge`` of a conditional of version 1."""
    return IsMerge(op) and not IsLoopMerge(op)


def GetOutputContext(op: Any) -> BodyContext | None:
    """The context of an operation's results."""
    return op._get_control_flow_context()


def GetContainingWhileContext(ctxt: BodyContext | None, stop_ctxt: BodyContext | None = None) -> BodyContext | None:
    """The innermost loop's context that ``ctxt`` is in, itself among them, or ``stop_ctxt`` if that comes first."""
    while ctxt is not None and not ctxt.IsWhileContext() and ctxt != stop_ctxt:
        ctxt = ctxt.outer_context
    return ctxt


def GetWhileContext(op: Any) -> BodyContext | None:
    """The innermost loop's context that an operation is in."""
    return GetContainingWhileContext(op._get_control_flow_context())


def GetContainingCondContext(ctxt: BodyContext | None) -> BodyContext | None:
    """The innermost conditional's context that ``ctxt`` is in, itself among them."""
    while ctxt is not None and not ctxt.IsCondContext():
        ctxt = ctxt.outer_context
    return ctxt


def GetContainingXLAContext(ctxt: BodyContext | None) -> None:
    """None: all is compiled, and nothing depends on where."""
    return None


def IsInWhileContext(op: Any) -> bool:
    """Whether an operation is in a loop."""
    return GetWhileContext(op) is not None


IsInWhileLoop = IsInWhileContext


def CheckInputFromValidContext(op: Any, input_op: Any) -> None:
    """Refuse an input of an operation that is in a loop which the operation is not in, with ValueError."""
    theirs = GetContainingWhileContext(GetOutputContext(input_op))
    ours = GetWhileContext(op)
    if theirs is None or IsContainingContext(op._get_control_flow_context(), theirs):
        return
    why = f"'{input_op.name}' is in a while loop" if ours is None else "they are in different while loops"
    raise ValueError(
        f"Cannot use '{input_op.name}' as input to '{op.name}' because {why}. See info log for more details.\n"
        + errors.message(
            f"an input of {op.name!r} from within a loop",
            "what is outside all loops, or in one around the operation",
            "return the tensor from the loop's body and use the returned one",
        )
    )


def IsInCond(op: Any) -> bool:
    """Whether an operation is in a branch of a conditional."""
    return GetContainingCondContext(op._get_control_flow_context()) is not None


def IsContainingContext(ctxt: BodyContext | None, maybe_containing_ctxt: BodyContext | None) -> bool:
    """Whether ``ctxt`` is ``maybe_containing_ctxt`` or within it; the top, None, contains everything."""
    while ctxt != maybe_containing_ctxt:
        if ctxt is None:
            return False
        ctxt = ctxt.outer_context
    return True


def OpInContext(op: Any, ctxt: BodyContext | None) -> bool:
    """Whether an operation is in ``ctxt`` or within it."""
    return IsContainingContext(op._get_control_flow_context(), ctxt)


def TensorInContext(tensor: Any, ctxt: BodyContext | None) -> bool:
    """Whether a tensor is in ``ctxt`` or within it."""
    return OpInContext(tensor.op, ctxt)
