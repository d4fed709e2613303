"""Queue ops. What a queue does is written in ``queue_objects.py``; these ops reach it by its handle.

Each op type exists twice: with a reference to a string tensor as its handle (the old form) and, with the suffix ``V2``,
with a resource. All are channel ops: what a step did before one of them is committed, and nothing is held while it
waits.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.inference import RawShape, ShapeContext
from anabranch.core.contract.opdef import (
    PURE,
    Bool,
    Int,
    List,
    NotDifferentiable,
    Op,
    String,
    channel,
    define,
)
from anabranch.ops.queues.queue_objects import KINDS, Queue, priority_shapes
from anabranch.ops.queues.sharing import shared_object

_NO_GRADIENT = NotDifferentiable("a queue hands values from one step to another")


# ---------------------------------------------------------------------------------------------------------- the makers
def _create(kind: str) -> Any:
    def create(attrs: dict[str, Any], name: str) -> Queue:
        return KINDS[kind](attrs["shared_name"] or name, attrs)

    return create


_MAKERS = {
    "FIFOQueue": "A queue that gives out rows in the order in which they came.",
    "PaddingFIFOQueue": "A FIFO queue whose components may vary in size; batches are padded to their largest.",
    "RandomShuffleQueue": "A queue that gives out rows at random, keeping at least ``min_after_dequeue`` while open.",
    "PriorityQueue": "A queue that gives out the row with the smallest first component, an int64 scalar.",
}

for _kind, _doc in _MAKERS.items():
    _sorted = _kind == "PriorityQueue"
    _attrs: dict[str, Any] = {
        "component_types": List("type", (), minimum=0) if _sorted else List("type", minimum=1),
        "shapes": List("shape", minimum=0) if _sorted else List("shape", (), minimum=0),
        "capacity": Int(-1),
    }
    if _kind == "RandomShuffleQueue":
        _attrs |= {"min_after_dequeue": Int(0), "seed": Int(0), "seed2": Int(0)}
    _attrs |= {"container": String(""), "shared_name": String("")}
    for _suffix in ("", "V2"):
        define(
            _kind + _suffix,
            _doc,
            signature=f"-> handle: {'resource' if _suffix else 'Ref(string)'}",
            attrs=_attrs,
            effect=PURE,
            makes="queue",
            create=_create(_kind),
            shape=(lambda c: ()) if _suffix else (lambda c: (2,)),
            gradient=_NO_GRADIENT,
        )


# ------------------------------------------------------------------------------------------------------------- the ops
def _queue(ctx: Any, handle: Any, attrs: dict[str, Any]) -> Queue:
    """The queue behind a handle; a maker that shares it by name must have asked for the same one."""
    ctx.check(attrs.get("timeout_ms", -1) == -1, errors.InvalidArgumentError, "Timeout not supported yet.")
    queue: Queue = shared_object(ctx, handle, "queue", Queue)
    return queue


def _component_shapes(c: ShapeContext, batch: tuple[int | None, ...] = ()) -> list[RawShape]:
    """Shapes of a dequeued row, from the op that made the queue if the handle comes straight from it."""
    maker: Any = c._tensors[0]._made_by
    raw: tuple[RawShape, ...] = ()
    if maker.definition.makes == "queue":
        raw = tuple(maker._attrs["shapes"])
        if maker.type.startswith("PriorityQueue"):
            raw = priority_shapes(maker._attrs)
    count = len(c.attrs["component_types"])
    if len(raw) != count:
        raw = (None,) * count
    return [None if shape is None else (*batch, *shape) for shape in raw]


def _enqueue(ctx, inputs, attrs):
    _queue(ctx, inputs[0], attrs).enqueue(inputs[1:], ctx.cancellation, ctx.op)


def _enqueue_many(ctx, inputs, attrs):
    _queue(ctx, inputs[0], attrs).enqueue_many(inputs[1:], ctx.cancellation, ctx.op)


def _dequeue(ctx, inputs, attrs):
    return _queue(ctx, inputs[0], attrs).dequeue(ctx.cancellation, ctx.op)


def _dequeue_many(ctx, inputs, attrs):
    return _queue(ctx, inputs[0], attrs).dequeue_many(int(inputs[1]), False, ctx.cancellation, ctx.op)


def _dequeue_up_to(ctx, inputs, attrs):
    return _queue(ctx, inputs[0], attrs).dequeue_many(int(inputs[1]), True, ctx.cancellation, ctx.op)


def _close(ctx, inputs, attrs):
    _queue(ctx, inputs[0], attrs).close(attrs["cancel_pending_enqueues"], ctx.cancellation, ctx.op)


def _size(ctx, inputs, attrs):
    return np.array(min(_queue(ctx, inputs[0], attrs).size(), np.iinfo(np.int32).max), np.int32)


def _is_closed(ctx, inputs, attrs):
    return np.array(_queue(ctx, inputs[0], attrs).closed)


def _many_shape(c: ShapeContext) -> list[RawShape]:
    c.with_rank("n", 0)
    count = c.scalar("n")
    return _component_shapes(c, (None if count is None or count < 0 else int(count),))


def _up_to_shape(c: ShapeContext) -> list[RawShape]:
    c.with_rank("n", 0)
    return _component_shapes(c, (None,))


def _scalar(c: ShapeContext) -> RawShape:
    return ()


_ROWS_IN = {"Tcomponents": List("type", minimum=1), "timeout_ms": Int(-1)}
_ROWS_OUT = {"component_types": List("type", minimum=1), "timeout_ms": Int(-1)}

# name, inputs after the handle and outputs, attributes, shape rule, kernel, whether it may wait, what it does
_OPS: tuple[tuple[str, str, dict[str, Any], Any, Any, bool, str], ...] = (
    ("Enqueue", "components: [Tcomponents] ->", _ROWS_IN, inference.no_outputs, _enqueue, True, "Puts in one row."),
    ("EnqueueMany", "components: [Tcomponents] ->", _ROWS_IN, inference.no_outputs, _enqueue_many, True,
     "Puts in the rows of components ``[n, ...]``, one after the other."),
    ("Dequeue", "-> components: [component_types]", _ROWS_OUT, _component_shapes, _dequeue, True, "Takes out one row."),
    ("DequeueMany", "n: int32 -> components: [component_types]", _ROWS_OUT, _many_shape, _dequeue_many, True,
     "Takes out ``n`` rows as batches ``[n, ...]``; OutOfRangeError if the queue is closed and has fewer."),
    ("DequeueUpTo", "n: int32 -> components: [component_types]", _ROWS_OUT, _up_to_shape, _dequeue_up_to, True,
     "Takes out ``n`` rows, or what is left if the queue is closed; OutOfRangeError if that is nothing."),
    ("Close", "->", {"cancel_pending_enqueues": Bool(False)}, inference.no_outputs, _close, True,
     "Closes the queue: what is in it may be taken out, nothing may be put in."),
    ("Size", "-> size: int32", {}, _scalar, _size, False, "How many rows the queue holds; a scalar."),
    ("IsClosed", "-> is_closed: bool", {}, _scalar, _is_closed, False, "Whether the queue is closed; a scalar."),
)  # fmt: skip

for _name, _rest, _attrs, _shape, _kernel, _waits, _doc in _OPS:
    for _suffix in ("", "V2"):
        _comma = "" if _rest.startswith("->") else ","
        define(
            f"Queue{_name}{_suffix}",
            _doc,
            signature=f"handle: {'resource' if _suffix else 'Ref(string)'}{_comma} {_rest}",
            attrs=_attrs,
            effect=channel("handle"),
            shape=_shape,
            host_kernel=_kernel,
            may_block=_waits,
            passable=_waits,
            gradient=_NO_GRADIENT,
        )


class _PickResource(Op):
    """The handle ``handles[index]``; ``index`` is an int32 scalar. It is how ``QueueBase.from_list`` chooses."""

    signature = "index: int32, handles: N * resource -> output: resource"
    attrs = {"N": Int(minimum=1)}
    effect = PURE
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("index", 0)
        return ()

    def host_kernel(ctx, inputs, attrs):
        index = int(inputs[0])
        ctx.check(0 <= index < attrs["N"], errors.InvalidArgumentError, f"index = {index} is not in [0, {attrs['N']})")
        return [inputs[1 + index]]
