"""Random ops: uniform, normal, truncated normal, shuffles and draws from categories, from Philox streams.

An execution reserves blocks by TensorFlow's rule (256 an element, whatever it uses), so that streams of successive runs
never overlap and stay where TensorFlow's are. The numbers themselves are made in
:mod:`anabranch.ops.random.distributions`.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import RANDOM, Int, NotDifferentiable, Op, Type
from anabranch.core.values import shapes, sizes
from anabranch.ops.random import distributions, philox, short_draws

FLOATS = "half bfloat16 float double"
DRAWN = NotDifferentiable("random numbers do not depend on the inputs")


def shape_of(c: Any) -> Any:
    """Shape rule of ops that draw as many numbers as their input ``shape`` says."""
    given = c.shape("shape")
    if given is not None and len(given) != 1:
        raise ValueError(
            f"Shape must be rank 1 but is rank {len(given)}\nshape must be a vector of {{int32,int64}}, "
            f"got shape {shapes.show(given)}\n"
            + errors.message(f"a shape of rank {len(given)}", "a vector of sizes", "[n] for n numbers")
        )
    dims = c.vector("shape")
    if dims is None:
        return None
    for dim in dims:
        if dim is not None and dim < 0:
            raise ValueError(
                f"Dimension {dim} must be >= 0\n"
                + errors.message(f"a random tensor of shape {dims}", "sizes of at least 0", "a shape such as [2, 3]")
            )
    return tuple(dims)


def _reserve(c: Any) -> int:
    return math.prod(dims_of(c.value("shape"))) * distributions.RESERVED


def dims_of(shape: Any) -> tuple[int, ...]:
    """The sizes in a shape that is given as an array; 0 for negative ones, which :func:`checked_dims` refuses."""
    return tuple(max(int(dim), 0) for dim in np.asarray(shape).ravel())


def checked_dims(ctx: Any, shape: Any) -> tuple[int, ...]:
    """The sizes in a kernel's input ``shape``; fails the step if one is negative or no memory holds such numbers."""
    for dim in np.asarray(shape).ravel():
        ctx.check(dim >= 0, errors.InvalidArgumentError, f"Dimension {dim} must be >= 0")
    dims = dims_of(shape)
    if ctx.host and math.prod(dims) > sizes.host_memory():  # they would be drawn part by part until memory ends
        raise sizes.exhausted(
            None, f"random numbers of shape {shapes.show(dims)}", sizes.host_memory(), "draw them in parts"
        )
    return dims


def samples_shape(c: Any) -> Any:
    """Shape rule of ops that draw ``num_samples`` categories for each row of ``logits``."""
    rows, samples = c.with_rank("logits", 2)[0], c.scalar("num_samples")
    if samples is not None and samples < 0:
        words = f"Dimension size, given by scalar input 1, must be non-negative but is {samples}"
        raise ValueError(
            f"{words}\n" + errors.message(f"num_samples={samples}", "a number of 0 or more", "num_samples=1")
        )
    return (rows, samples)


def checked_samples(ctx: Any, number: Any) -> int:
    """A kernel's input ``num_samples``; fails the step if it is negative."""
    samples = int(np.asarray(number).reshape(()))
    ctx.check(samples >= 0, errors.InvalidArgumentError, f"num_samples should be nonnegative, got {samples}")
    return max(samples, 0)


class RandomUniform(Op):
    """Uniform numbers in [0, 1), of shape ``shape``."""

    signature = "shape: T -> output: dtype"
    attrs = {"seed": Int(0), "seed2": Int(0), "dtype": Type(FLOATS), "T": Type("int32 int64")}
    effect = RANDOM
    compile_time = ("shape",)
    shape = shape_of
    consumes = _reserve
    straight = short_draws.uniform
    together = distributions.uniforms_of_streams
    gradient = DRAWN

    def kernel(ctx, inputs, attrs):
        dims = checked_dims(ctx, inputs[0])
        return distributions.uniform(ctx, ctx.philox, math.prod(dims), attrs["dtype"].np).reshape(dims)


class RandomUniformInt(Op):
    """Uniform integers in ``[minval, maxval)``, of shape ``shape``."""

    signature = "shape: T, minval: Tout, maxval: Tout -> output: Tout"
    attrs = {"seed": Int(0), "seed2": Int(0), "Tout": Type("int32 int64"), "T": Type("int32 int64")}
    effect = RANDOM
    compile_time = ("shape",)
    consumes = _reserve
    straight = short_draws.integers
    gradient = DRAWN

    def shape(c):
        c.with_rank("minval", 0)
        c.with_rank("maxval", 0)
        return shape_of(c)

    def kernel(ctx, inputs, attrs):
        shape, low, high = inputs
        dims = checked_dims(ctx, shape)
        return distributions.integers(ctx, ctx.philox, math.prod(dims), low, high, attrs["Tout"].np).reshape(dims)


class RandomStandardNormal(Op):
    """Normal numbers of mean 0 and deviation 1, of shape ``shape``."""

    signature = "shape: T -> output: dtype"
    attrs = {"seed": Int(0), "seed2": Int(0), "dtype": Type(FLOATS), "T": Type("int32 int64")}
    effect = RANDOM
    compile_time = ("shape",)
    shape = shape_of
    consumes = _reserve
    together = distributions.normals_of_streams
    gradient = DRAWN

    def kernel(ctx, inputs, attrs):
        dims = checked_dims(ctx, inputs[0])
        return distributions.normal(ctx, ctx.philox, math.prod(dims), attrs["dtype"].np).reshape(dims)


class TruncatedNormal(Op):
    """Normal numbers of mean 0 and deviation 1, those beyond two deviations drawn again, of shape ``shape``."""

    signature = "shape: T -> output: dtype"
    attrs = {"seed": Int(0), "seed2": Int(0), "dtype": Type(FLOATS), "T": Type("int32 int64")}
    effect = RANDOM
    compile_time = ("shape",)
    shape = shape_of
    consumes = _reserve
    gradient = DRAWN

    def kernel(ctx, inputs, attrs):
        dims = checked_dims(ctx, inputs[0])
        return distributions.truncated_normal(ctx, ctx.philox, math.prod(dims), attrs["dtype"].np).reshape(dims)


def shuffled_order(ctx: Any, bits: Any, count: int) -> Any:
    """``count`` places in the order that a shuffle by the words ``bits`` gives (Fisher and Yates)."""
    xp = ctx.xp
    jumps = (bits % xp.arange(count, 0, -1).astype(np.uint32)).astype(np.int64)
    if ctx.host:
        order = list(range(count))
        for i, jump in enumerate(jumps[: count - 1].tolist()):
            order[i], order[i + jump] = order[i + jump], order[i]
        return np.array(order, np.int64)

    def swap(i: Any, order: Any) -> Any:
        other = i + jumps[i]
        here, there = order[i], order[other]
        return order.at[i].set(there).at[other].set(here)

    return ctx.lax.fori_loop(0, count - 1, swap, xp.arange(count))


class RandomShuffle(Op):
    """``value`` with the slices of dimension 0 in random order (Fisher and Yates)."""

    signature = "value: T -> output: T"
    attrs = {"seed": Int(0), "seed2": Int(0), "T": Type()}
    effect = RANDOM

    def shape(c):
        return c.shapes[0]

    def consumes(c):
        shape = c.shapes[0]
        return -(-(shape[0] - 1) // 4) if shape and shape[0] > 1 else 0  # one swap fewer than slices

    def kernel(ctx, inputs, attrs):
        (value,) = inputs
        if value.ndim == 0 or value.shape[0] <= 1:
            return value.copy() if ctx.host else value
        count = value.shape[0]
        return value[shuffled_order(ctx, philox.words(ctx, ctx.philox, count), count)]

    def gradient(op, grad):
        raise LookupError(
            "RandomShuffle has no gradient\n"
            + errors.message(
                "a gradient through RandomShuffle, which does not tell the order that it drew",
                "differentiable ops",
                "tf.gather(value, tf.random_shuffle(tf.range(n)))",
            )
        )


class Multinomial(Op):
    """Category numbers drawn by unnormalised log-probabilities: ``[batch, classes]`` gives ``[batch, num_samples]``."""

    signature = "logits: T, num_samples: int32 -> output: output_dtype"
    attrs = {
        "seed": Int(0),
        "seed2": Int(0),
        "T": Type("float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64"),
        "output_dtype": Type("int32 int64", default="int64"),
    }
    effect = RANDOM
    ranks = {"logits": 2, "num_samples": 0}
    compile_time = ("num_samples",)
    gradient = DRAWN

    def shape(c):
        return samples_shape(c)

    def consumes(c):
        samples = max(int(c.scalar("num_samples")), 0)
        return c.shapes[0][0] * (-(-samples // 4) * 4) * 2 * distributions.RESERVED

    def kernel(ctx, inputs, attrs):
        logits, number = inputs
        samples = checked_samples(ctx, number)
        return distributions.categories(ctx, ctx.philox, logits, samples, attrs["output_dtype"].np)
