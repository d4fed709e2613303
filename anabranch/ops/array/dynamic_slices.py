"""A block of an array replaced at a place that is known when the step runs, as XLA has it: the block always fits."""

from __future__ import annotations

import numpy as np

from anabranch.core.contract.opdef import DERIVED, PURE, Op, Type
from anabranch.ops.shared.array_rules import refuse


class XlaDynamicUpdateSlice(Op):
    """``input`` with the block that begins at ``indices`` replaced by ``update``.

    A block that would reach outside is moved inside: each start is at least 0 and at most the difference of the sizes.
    """

    signature = "input: T, update: T, indices: Tindices -> output: T"
    attrs = {"T": Type(), "Tindices": Type("int32 int64")}
    effect = PURE
    gradient = DERIVED
    moves = True

    def shape(c):
        whole, part, (count,) = c.shapes[0], c.shapes[1], c.with_rank("indices", 1) or (None,)
        if whole is None or part is None:
            return whole
        if len(whole) != len(part) or count not in (None, len(whole)):
            refuse(
                c,
                f"an update of rank {len(part)} and {count} indices for an input of rank {len(whole)}",
                "one rank, and one index for each dimension",
                "expand the update",
            )
        if any(
            inner is not None and outer is not None and inner > outer for inner, outer in zip(part, whole, strict=True)
        ):
            refuse(c, f"an update of shape {part}", f"one that fits into {whole}", "cut the update")
        return whole

    def kernel(ctx, inputs, attrs):
        x, update, indices = inputs
        if not ctx.host:
            # JAX counts a negative start from the end; XLA's op does not.
            starts = ctx.xp.maximum(indices, 0)
            return ctx.lax.dynamic_update_slice(x, update, [starts[i] for i in range(len(x.shape))])
        out = np.array(x)
        most = np.subtract(x.shape, update.shape)
        starts = np.clip(indices, 0, most)
        out[tuple(slice(start, start + size) for start, size in zip(starts, update.shape, strict=True))] = update
        return out
