"""Random ops that are functions of a seed given as input: the same seed gives the same numbers, in every run."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, Op, Type, define
from anabranch.core.values import shapes
from anabranch.ops.random import distributions, philox
from anabranch.ops.random.streams import DRAWN, FLOATS, checked_dims, checked_samples, samples_shape, shape_of


def check_seed(c: Any) -> None:
    """Refuse a seed that is not two integers."""
    dims = c.with_rank("seed", 1)
    if dims is not None and dims[0] not in (None, 2):
        raise ValueError(
            "seed must have shape [2]\n"
            + errors.message(f"a seed of {dims[0]} numbers", "two integers", "seed=[first, second]")
        )


def _shape(c: Any) -> Any:
    check_seed(c)
    for bound in ("minval", "maxval"):
        if any(spec.name == bound for spec in c.definition.inputs):
            c.with_rank(bound, 0)
    return shape_of(c)


def stream_of(ctx: Any, seed: Any) -> Any:
    """The stream of a seed; fails the step unless that is two integers."""
    ctx.check(
        seed.shape == (2,), errors.InvalidArgumentError, f"seed must have shape [2], not {shapes.show(seed.shape)}"
    )
    return philox.stream_of_seed(ctx, seed if seed.shape == (2,) else np.zeros(2, np.int64))


def _define(name: str, doc: str, draw: Callable[..., Any], dtypes: str, default: str | None, bounds: str = "") -> None:
    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        shape, seed, *arguments = inputs
        dims = checked_dims(ctx, shape)
        return draw(ctx, stream_of(ctx, seed), math.prod(dims), *arguments, attrs["dtype"].np).reshape(dims)

    plain = default is not None
    define(
        name,
        f"{doc}, of shape ``shape``, a function of ``seed`` (two integers).",
        signature=f"shape: T, seed: Tseed{bounds} -> output: dtype",
        attrs={
            "dtype": Type(dtypes, default=default) if plain else Type(dtypes),
            "T": Type("int32 int64", default="int32") if plain else Type("int32 int64"),
            "Tseed": Type("int32 int64 uint32 uint64" if "Full" in name else "int32 int64", default="int64"),
        },
        effect=PURE,
        compile_time=("shape",),
        shape=_shape,
        kernel=kernel,
        gradient=DRAWN,
    )


def any_integers(ctx: Any, stream: Any, count: int, dtype: np.dtype) -> Any:
    """``count`` integers from the whole range of ``dtype``."""
    return distributions.unsigned(ctx, stream, count, dtype.itemsize == 8).astype(dtype)


_define("StatelessRandomUniform", "Uniform numbers in [0, 1)", distributions.uniform, FLOATS, "float")
_define("StatelessRandomNormal", "Normal numbers of mean 0 and deviation 1", distributions.normal, FLOATS, "float")
_define(
    "StatelessTruncatedNormal",
    "Normal numbers of mean 0 and deviation 1 within two deviations",
    distributions.truncated_normal,
    FLOATS,
    "float",
)
_define(
    "StatelessRandomUniformInt",
    "Uniform integers in ``[minval, maxval)``",
    distributions.integers,
    "int32 int64",
    None,
    ", minval: dtype, maxval: dtype",
)
_define(
    "StatelessRandomUniformFullInt",
    "Uniform integers from the whole range of the dtype",
    any_integers,
    "int32 int64 uint32 uint64",
    "uint64",
)


class StatelessMultinomial(Op):
    """Category numbers ``[batch, num_samples]`` by log-probabilities ``[batch, classes]``, a function of ``seed``."""

    signature = "logits: T, num_samples: int32, seed: Tseed -> output: output_dtype"
    attrs = {
        "T": Type("float double int32 uint8 int16 int8 int64 bfloat16 uint16 half uint32 uint64"),
        "Tseed": Type("int32 int64", default="int64"),
        "output_dtype": Type("int32 int64", default="int64"),
    }
    effect = PURE
    compile_time = ("num_samples",)
    gradient = DRAWN

    def shape(c):
        check_seed(c)
        return samples_shape(c)

    def kernel(ctx, inputs, attrs):
        logits, number, seed = inputs
        samples = checked_samples(ctx, number)
        return distributions.categories(ctx, stream_of(ctx, seed), logits, samples, attrs["output_dtype"].np)
