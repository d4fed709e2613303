"""Random ops that are functions of an explicit key and counter, as TensorFlow 2 has them, and how seeds become such.

The algorithm is Philox (number 1); 3 leaves the choice to the device, which is Philox everywhere. The numbers for a
seed are those of the ops in :mod:`anabranch.ops.random.stateless`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, Op, Type, define
from anabranch.core.values import shapes
from anabranch.ops.random import distributions
from anabranch.ops.random.stateless import any_integers, check_seed, stream_of
from anabranch.ops.random.streams import DRAWN, FLOATS, checked_dims, shape_of

PHILOX, AUTO = 1, 3


def _joined(xp: Any, low: Any, high: Any) -> Any:
    return xp.asarray(low).astype(np.uint64) | (xp.asarray(high).astype(np.uint64) << np.uint64(32))


def _key_and_counter(ctx: Any, seed: Any) -> tuple[Any, Any]:
    xp = ctx.xp
    key, counter = stream_of(ctx, seed)
    pairs = ((key[0], key[1]), (counter[0], counter[1]), (counter[2], counter[3]))
    first, *others = (_joined(xp, low, high) for low, high in pairs)
    return xp.reshape(first, (1,)), xp.stack(others)


class StatelessRandomGetKeyCounter(Op):
    """The key ``[1]`` and counter ``[2]`` that stand for ``seed``, two integers."""

    signature = "seed: Tseed -> key: uint64, counter: uint64"
    attrs = {"Tseed": Type("int32 int64", default="int64")}
    effect = PURE
    gradient = DRAWN

    def shape(c):
        check_seed(c)
        return [(1,), (2,)]

    def kernel(ctx, inputs, attrs):
        return _key_and_counter(ctx, inputs[0])


class StatelessRandomGetKeyCounterAlg(Op):
    """Like StatelessRandomGetKeyCounter, and the number of the algorithm."""

    signature = "seed: Tseed -> key: uint64, counter: uint64, alg: int32"
    attrs = {"Tseed": Type("int32 int64", default="int64")}
    effect = PURE
    gradient = DRAWN

    def shape(c):
        check_seed(c)
        return [(1,), (2,), ()]

    def kernel(ctx, inputs, attrs):
        return *_key_and_counter(ctx, inputs[0]), np.int32(PHILOX)


class StatelessRandomGetAlg(Op):
    """The number of the device's algorithm: 1, Philox."""

    signature = "-> alg: int32"
    effect = PURE
    gradient = DRAWN

    def shape(c):
        return ()

    def kernel(ctx, inputs, attrs):
        return np.int32(PHILOX)


def _shape(c: Any) -> Any:
    key = c.with_rank("key", 1)
    if key is not None and key[0] not in (None, 1):
        raise ValueError(
            f"Dimension must be 1 but is {key[0]}\n"
            + errors.message(
                f"a key of {key[0]} numbers",
                "a key of one number",
                "key, counter, alg = StatelessRandomGetKeyCounterAlg",
            )
        )
    c.with_rank("counter", 1)
    for scalar in ("alg", "minval", "maxval"):
        if any(spec.name == scalar for spec in c.definition.inputs):
            c.with_rank(scalar, 0)
    return shape_of(c)


def _stream(ctx: Any, key: Any, counter: Any, alg: Any) -> Any:
    xp = ctx.xp
    known = (alg == PHILOX) | (alg == AUTO)
    ctx.check(
        known,
        errors.InvalidArgumentError,
        "Unsupported algorithm id: {0}\n"
        + errors.message("an algorithm other than Philox", "1 (Philox) or 3 (the device's)", "alg=1"),
        alg,
    )
    ctx.check(
        key.shape == (1,) and counter.ndim == 1 and counter.shape[0] >= 2,
        errors.InvalidArgumentError,
        "key must have shape [1] and counter at least 2 numbers, got "
        f"{shapes.show(key.shape)} and {shapes.show(counter.shape)}",
    )
    words = xp.zeros((3,), np.uint64)
    if key.shape == (1,) and counter.ndim == 1 and counter.shape[0] >= 2:
        words = xp.concatenate([key, counter[:2]])
    return joined_stream(words[0], words[1], words[2])


def joined_stream(key: Any, low: Any, high: Any) -> Any:
    """The stream of a key and of the halves of a counter, three uint64."""
    parts = [(word.astype(np.uint32), (word >> np.uint64(32)).astype(np.uint32)) for word in (key, low, high)]
    return parts[0], (*parts[1], *parts[2])


def _define(name: str, doc: str, draw: Callable[..., Any], dtypes: str, default: str | None, bounds: str = "") -> None:
    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        shape, key, counter, alg, *arguments = inputs
        dims = checked_dims(ctx, shape)
        return draw(ctx, _stream(ctx, key, counter, alg), math.prod(dims), *arguments, attrs["dtype"].np).reshape(dims)

    define(
        name,
        f"{doc}, of shape ``shape``, a function of ``key`` and ``counter``.",
        signature=f"shape: Tshape, key: uint64, counter: uint64, alg: int32{bounds} -> output: dtype",
        attrs={
            "dtype": Type(dtypes, default=default) if default is not None else Type(dtypes),
            "Tshape": Type("int32 int64", default="int32"),
        },
        effect=PURE,
        compile_time=("shape",),
        shape=_shape,
        kernel=kernel,
        gradient=DRAWN,
    )


def _integers(ctx: Any, stream: Any, count: int, low: Any, high: Any, dtype: np.dtype) -> Any:
    return distributions.integers(ctx, stream, count, low, high, dtype)


_INTEGERS = "int32 int64 uint32 uint64"
_define("StatelessRandomUniformV2", "Uniform numbers in [0, 1)", distributions.uniform, FLOATS, "float")
_define("StatelessRandomNormalV2", "Normal numbers of mean 0 and deviation 1", distributions.normal, FLOATS, "float")
_define(
    "StatelessTruncatedNormalV2",
    "Normal numbers of mean 0 and deviation 1 within two deviations",
    distributions.truncated_normal,
    FLOATS,
    "float",
)
_define(
    "StatelessRandomUniformIntV2",
    "Uniform integers in ``[minval, maxval)``",
    _integers,
    _INTEGERS,
    None,
    ", minval: dtype, maxval: dtype",
)
_define(
    "StatelessRandomUniformFullIntV2",
    "Uniform integers from the whole range of the dtype",
    any_integers,
    _INTEGERS,
    "uint64",
)
