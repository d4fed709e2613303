"""What the stages of an iterator do, as scalars for TensorBoard.

The first run begins to count; each later one says what was done since the one before it. So a summary that is
written each hundred steps shows what an element cost over a hundred steps, and at which stage.
"""

from __future__ import annotations

from typing import Any

from anabranch.core.contract import inference
from anabranch.core.contract.opdef import NotDifferentiable, Op, channel
from anabranch.core.protos import summary_pb2
from anabranch.ops.data.files import scalar_of, text
from anabranch.ops.data.iterators import iterator_of


def _summary(prefix: str, stages: dict[Any, Any]) -> bytes:
    message = summary_pb2.Summary()
    seconds = sum(counts.seconds for counts in stages.values())
    for op, counts in stages.items():
        name = f"{prefix}/{op.name}"
        if counts.elements:
            message.value.add(tag=f"{name}/us_each", simple_value=counts.seconds / counts.elements * 1e6)
        message.value.add(tag=f"{name}/elements", simple_value=counts.elements)
        message.value.add(tag=f"{name}/part_of_time", simple_value=counts.seconds / seconds if seconds else 0.0)
        ready = counts.iterator.ready()
        if ready is not None:
            message.value.add(tag=f"{name}/ready", simple_value=ready[0])
            message.value.add(tag=f"{name}/room", simple_value=ready[1])
    return message.SerializeToString()


class AnabranchStageSummary(Op):
    """A serialised summary with what each stage of an iterator has done since this ran last.

    Scalars of a stage: ``us_each`` (its own time for an element), ``elements``, ``part_of_time`` (of the pipeline's),
    and, where it makes elements ahead, ``ready`` and ``room`` for how many.
    """

    signature = "iterator: resource, tag: string -> summary: string"
    effect = channel("iterator")
    may_block = True
    shape = inference.scalar
    gradient = NotDifferentiable("what is counted does not depend on values")

    def host_kernel(ctx, inputs, attrs):
        prefix = text(ctx, inputs[1], "tag")
        return scalar_of(_summary(prefix, iterator_of(ctx, inputs[0]).stage_counts(ctx)))
