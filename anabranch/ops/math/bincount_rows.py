"""Counts of integers by row."""

from __future__ import annotations

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, Bool, NotDifferentiable, Op, Type
from anabranch.ops.shared.array_rules import refuse, require


class DenseBincount(Op):
    """How often each of ``0 ... size - 1`` occurs in ``input`` ``[n]`` or in each row of ``[batch, n]``, or the sum of
    its ``weights``; with ``binary_output`` whether it occurs. Larger numbers are left out.
    """

    signature = "input: Tidx, size: Tidx, weights: T -> output: T"
    attrs = {"Tidx": Type("int32 int64"), "T": Type("int32 int64 float double"), "binary_output": Bool(False)}
    effect = PURE
    compile_time = ("size",)
    gradient = NotDifferentiable("a count is an integer, and TensorFlow gives weights no gradient")

    def shape(c):
        size = c.scalar(1)
        if size is not None and size < 0:
            refuse(c, f"size = {size}", "0 or more", "count the bins", f"size ({size}) must be non-negative")
        given = c.shapes[0]
        if given is None:
            return None
        if len(given) not in (1, 2):
            refuse(c, f"input of rank {len(given)}", "rank 1 or 2", "reshape it")
        return (*given[:-1], None if size is None else int(size))

    def kernel(ctx, inputs, attrs):
        values, size, weights = inputs
        xp = ctx.xp
        size = int(np.asarray(size).reshape(()))
        require(ctx, size >= 0, "size ({0}) must be non-negative", size)
        given = int(np.prod(weights.shape, dtype=np.int64))
        require(
            ctx,
            given == 0 or tuple(weights.shape) == tuple(values.shape),
            "`weights` must be the same shape as `arr` or a length-0 `Tensor`, in which case it acts as all weights "
            "equal to 1.",
        )
        out = xp.zeros((*values.shape[:-1], size), weights.dtype)
        if not values.size:
            return out
        ctx.check(xp.all(values >= 0), errors.InvalidArgumentError, "Input must be non-negative")
        amounts = weights if given and not attrs["binary_output"] else xp.ones(values.shape, weights.dtype)
        row = (np.arange(values.shape[0])[:, None],) if len(values.shape) == 2 else ()
        if ctx.host:
            used = values < size
            index = (*(np.broadcast_to(part, values.shape)[used] for part in row), values[used])
            np.add.at(out, index, amounts[used])
        else:
            out = out.at[(*row, xp.where(values < 0, size, values))].add(amounts, mode="drop")
        return (out != 0).astype(out.dtype) if attrs["binary_output"] else out
