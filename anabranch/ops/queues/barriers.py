"""Barrier ops. What a barrier does is written in ``barrier_objects.py``; these ops reach it by its handle."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.inference import RawShape, ShapeContext
from anabranch.core.contract.opdef import PURE, Bool, Int, List, NotDifferentiable, Op, String, Type, channel
from anabranch.ops.queues.barrier_objects import Barrier as BarrierObject
from anabranch.ops.queues.sharing import shared_object

_NO_GRADIENT = NotDifferentiable("a barrier hands values from one step to another")


def _barrier(ctx: Any, handle: Any) -> BarrierObject:
    barrier: BarrierObject = shared_object(ctx, handle, "barrier", BarrierObject)
    return barrier


def _scalar(c: ShapeContext) -> RawShape:
    return ()


class Barrier(Op):
    """A barrier, which gathers the components of values by key and gives out complete ones."""

    signature = "-> handle: Ref(string)"
    attrs = {
        "component_types": List("type", minimum=1),
        "shapes": List("shape", (), minimum=0),
        "capacity": Int(-1),
        "container": String(""),
        "shared_name": String(""),
    }
    effect = PURE
    makes = "barrier"
    gradient = _NO_GRADIENT

    def create(attrs, name):
        return BarrierObject(attrs["shared_name"] or name, attrs)

    def shape(c):
        return (2,)


class BarrierInsertMany(Op):
    """Set component ``component_index`` of the values of ``keys`` ``[n]`` to ``values`` ``[n, ...]``."""

    signature = "handle: Ref(string), keys: string, values: T ->"
    attrs = {"T": Type(), "component_index": Int()}
    effect = channel("handle")
    passable = True
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("keys", 1)
        c.with_rank_at_least("values", 1)
        return []

    def host_kernel(ctx, inputs, attrs):
        handle, keys, values = inputs
        _barrier(ctx, handle).insert(keys, attrs["component_index"], values, ctx.op)


class BarrierTakeMany(Op):
    """Take out ``num_elements`` complete values; waits for them. Indices and keys ``[n]``, components ``[n, ...]``.

    Values come in the order in which their keys were first inserted; the index says in which insertion of new keys that
    was, from ``-2**63`` on. ``allow_small_batch`` is content with what a closed barrier still has.
    """

    signature = "handle: Ref(string), num_elements: int32 -> indices: int64, keys: string, values: [component_types]"
    attrs = {
        "component_types": List("type", minimum=1),
        "allow_small_batch": Bool(False),
        "wait_for_incomplete": Bool(False),
        "timeout_ms": Int(-1),
    }
    effect = channel("handle")
    may_block = True
    passable = True
    gradient = _NO_GRADIENT

    def shape(c):
        c.with_rank("num_elements", 0)
        return [(None,), (None,), *[None] * len(c.attrs["component_types"])]

    def host_kernel(ctx, inputs, attrs):
        ctx.check(attrs["timeout_ms"] == -1, errors.InvalidArgumentError, "Timeout not supported yet.")
        barrier = _barrier(ctx, inputs[0])
        return barrier.take(int(inputs[1]), attrs["allow_small_batch"], ctx.cancellation, ctx.op)


class BarrierClose(Op):
    """Close a barrier: it takes no new keys, and if pending insertions are cancelled drops incomplete values."""

    signature = "handle: Ref(string) ->"
    attrs = {"cancel_pending_enqueues": Bool(False)}
    effect = channel("handle")
    passable = True
    shape = inference.no_outputs
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        _barrier(ctx, inputs[0]).close(attrs["cancel_pending_enqueues"], ctx.op)


class BarrierReadySize(Op):
    """How many complete values a barrier holds; a scalar."""

    signature = "handle: Ref(string) -> size: int32"
    effect = channel("handle")
    shape = _scalar
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        return np.array(_barrier(ctx, inputs[0]).ready.size(), np.int32)


class BarrierIncompleteSize(Op):
    """How many incomplete values a barrier holds; a scalar."""

    signature = "handle: Ref(string) -> size: int32"
    effect = channel("handle")
    shape = _scalar
    gradient = _NO_GRADIENT

    def host_kernel(ctx, inputs, attrs):
        return np.array(_barrier(ctx, inputs[0]).incomplete_size(), np.int32)
