"""The way back through a beam search: whole beams out of what each step chose and where it came from.

Policy. The beams of a batch entry are read from its last step backwards; what lies after the first end token, and after
``max_sequence_lengths``, is the end token. A parent that is not a beam fails the step wherever a beam goes through it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.opdef import PURE, NotDifferentiable, Op, Type
from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import shapes


class GatherTree(Op):
    """Beams ``[time, batch, beam]`` from the ids chosen at each step and the beams they continue.

    ``beams[:, b, w]`` ends in ``step_ids[n - 1, b, w]`` with ``n = max_sequence_lengths[b]``; the id before it is that
    of beam ``parent_ids[n - 1, b, w]``, and so on to the first step.
    """

    signature = "step_ids: T, parent_ids: T, max_sequence_lengths: int32, end_token: T -> beams: T"
    attrs = {"T": Type("int32")}
    effect = PURE

    def shape(c):
        steps, parents = c.with_rank(0, 3), c.with_rank(1, 3)
        lengths = c.with_rank(2, 1)
        c.with_rank(3, 0)
        try:
            merged = shapes.merge(steps, parents)
            (batch,) = shapes.merge((merged[1],), lengths)
        except ValueError as problem:
            raise ValueError(
                errors.message(
                    f"step_ids {shapes.show(steps)}, parent_ids {shapes.show(parents)}, "
                    f"max_sequence_lengths {shapes.show(lengths)}",
                    "two tensors [time, batch, beam], and [batch]",
                    "put time first, and give one length per entry of the batch",
                )
            ) from problem
        return (merged[0], batch, merged[2])

    def kernel(ctx, inputs, attrs):
        ids, parents, lengths, end = inputs
        xp = ctx.xp
        time, batch, width = ids.shape
        if ids.shape != parents.shape or lengths.shape != (batch,):
            ctx.check(
                False,
                errors.InvalidArgumentError,
                f"step_ids {shapes.show(ids.shape)}, parent_ids {shapes.show(parents.shape)} and max_sequence_lengths "
                f"{shapes.show(lengths.shape)} do not fit together",
            )
            return ids
        if 0 in ids.shape:
            return ids
        ends = xp.minimum(lengths, np.int32(time))[:, None]
        own = xp.broadcast_to(xp.arange(width, dtype=np.int32), (batch, width))

        def back(beam: Any, step: Any) -> Any:
            """From the beam to read at a step (where that is not the last one): the id there, the beam before it."""
            level, id_row, parent_row = step
            inside = level < ends
            beam = xp.where(level == ends - np.int32(1), own, beam)
            wrong = inside & ((beam < 0) | (beam >= width))
            beam = xp.clip(beam, 0, width - 1)
            chosen = xp.where(inside, xp.take_along_axis(id_row, beam, 1), end)
            return xp.take_along_axis(parent_row, beam, 1), (chosen, wrong)

        levels = xp.arange(time, dtype=np.int32)
        if ctx.host:
            beam, rows = own, []
            for level in range(time - 1, -1, -1):
                beam, row = back(beam, (levels[level], ids[level], parents[level]))
                rows.append(row)
            beams, wrong = (np.stack(part[::-1]) for part in zip(*rows, strict=True))
        else:
            _, (beams, wrong) = ctx.lax.scan(back, own, (levels, ids, parents), reverse=True)
        ctx.check(~xp.any(wrong), errors.InvalidArgumentError, "Saw invalid parent id: parent_ids must be beams")
        ended = xp.cumsum((beams == end).astype(np.int32), axis=0, dtype=np.int32)
        return xp.where(ended > 0, end, beams).astype(ids.dtype)

    gradient = NotDifferentiable("ids are whole numbers")


@public("contrib.seq2seq.gather_tree")
def gather_tree(
    step_ids: Any, parent_ids: Any, max_sequence_lengths: Any, end_token: Any, name: str | None = None
) -> Any:
    """Whole beams from the ids that each step of a beam search chose and the beams that they continue.

    Args:
        step_ids: int32 ``[time, batch, beam]``.
        parent_ids: int32 ``[time, batch, beam]``: the beam of the step before.
        max_sequence_lengths: int32 ``[batch]``: number of steps of the longest beam of each entry.
        end_token: what stands after the end of a beam, a number.
        name: name of the op.

    Returns:
        int32 ``[time, batch, beam]``.

    Example:
        >>> import anabranch as tf
        >>> beams = tf.contrib.seq2seq.gather_tree([[[1, 2]], [[3, 4]]], [[[0, 1]], [[1, 0]]], [2], 9)
        >>> tf.Session().run(beams).tolist()
        [[[2, 1]], [[3, 4]]]
    """
    with name_scope(name, "GatherTree", [step_ids, parent_ids, max_sequence_lengths, end_token]):
        return build("GatherTree", step_ids, parent_ids, max_sequence_lengths, end_token)
