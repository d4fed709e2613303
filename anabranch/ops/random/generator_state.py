"""Random generators whose state is a variable (`tf.random.Generator` of TensorFlow 2): counter and key, three int64.

Policy. The algorithm is Philox (number 1, or 3: the device's choice). A draw of ``n`` numbers takes them from the
counter on and moves it by ``256 * n``, however many bits they need; the 128 bits of the counter carry. The state is
written like any variable: a step that fails has drawn nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import SELECT, Op, Type, define, write
from anabranch.core.values import dtypes, shapes
from anabranch.ops.random import distributions
from anabranch.ops.random.keyed import AUTO, PHILOX, joined_stream
from anabranch.ops.random.stateless import any_integers
from anabranch.ops.random.streams import DRAWN, checked_dims, shape_of
from anabranch.ops.state.resource_variables import variable_shape

_RESERVED = 256
_STATE = 3


def _state_shape(c: Any) -> None:
    dims = shapes.with_rank(variable_shape(c, dtype=dtypes.int64), 1)
    if dims is not None and dims[0] is not None and dims[0] < _STATE:
        raise ValueError(
            errors.message(
                f"a generator's state of {dims[0]} numbers", "at least 3: counter and key", "a variable of shape [3]"
            )
        )
    for scalar in ("alg", "algorithm", "delta", "minval", "maxval"):
        if any(spec.name == scalar for spec in c.definition.inputs):
            c.with_rank(scalar, 0)


def _check(ctx: Any, inputs: Any, attrs: Any) -> None:
    state, algorithm = inputs[0], inputs[1]
    ctx.check(
        (algorithm == PHILOX) | (algorithm == AUTO),
        errors.InvalidArgumentError,
        "Unsupported algorithm id: {0}\n"
        + errors.message("an algorithm other than Philox", "1 (Philox) or 3 (the device's)", "alg=1"),
        algorithm,
    )
    ctx.check(
        state.ndim == 1 and state.shape[0] >= _STATE,
        errors.InvalidArgumentError,
        f"the state of a generator needs a vector of at least 3 elements, got shape {shapes.show(state.shape)}",
    )


def _skipped(xp: Any, state: Any, count: Any) -> Any:
    """The state after a draw of ``count`` numbers."""
    words = state.astype(np.uint64)
    low = words[0] + xp.asarray(count).astype(np.uint64) * np.uint64(_RESERVED)
    high = words[1] + (low < words[0]).astype(np.uint64)
    return xp.concatenate([xp.stack([low, high]), words[2:]]).astype(np.int64)


class RngSkip(Op):
    """Move the counter of a generator as a draw of ``delta`` numbers does."""

    signature = "resource: resource, algorithm: int64, delta: int64 ->"
    effect = write("resource")
    predication = SELECT
    checks = _check
    gradient = DRAWN

    def shape(c):
        _state_shape(c)
        return []

    def kernel(ctx, inputs, attrs):
        return _skipped(ctx.xp, inputs[0], inputs[2])


class RngReadAndSkip(Op):
    """The state of a generator, whose counter moves as a draw of ``delta`` numbers moves it."""

    signature = "resource: resource, alg: int32, delta: uint64 -> value: int64"
    effect = write("resource")
    predication = SELECT
    checks = _check
    gradient = DRAWN

    def shape(c):
        _state_shape(c)
        return variable_shape(c)

    def kernel(ctx, inputs, attrs):
        return _skipped(ctx.xp, inputs[0], inputs[2]), inputs[0]


def _define(name: str, doc: str, draw: Callable[..., Any], default: str, bounds: str = "") -> None:
    def shape(c: Any) -> Any:
        _state_shape(c)
        return shape_of(c)

    def kernel(ctx: Any, inputs: Any, attrs: Any) -> Any:
        state, _, size, *arguments = inputs
        dims = checked_dims(ctx, size)
        count = math.prod(dims)
        words = state.astype(np.uint64)
        numbers = draw(ctx, joined_stream(words[2], words[0], words[1]), count, *arguments, attrs["dtype"].np)
        return _skipped(ctx.xp, state, np.uint64(count)), numbers.reshape(dims)

    define(
        name,
        f"{doc}, of shape ``shape``, from a generator whose state moves on.",
        signature=f"resource: resource, algorithm: int64, shape: shape_dtype{bounds} -> output: dtype",
        attrs={"dtype": Type(default=default), "shape_dtype": Type(default="int64")},
        effect=write("resource"),
        predication=SELECT,
        checks=_check,
        compile_time=("shape",),
        shape=shape,
        kernel=kernel,
        gradient=DRAWN,
    )


_define("StatefulUniform", "Uniform numbers in [0, 1)", distributions.uniform, "float")
_define("StatefulStandardNormalV2", "Normal numbers of mean 0 and deviation 1", distributions.normal, "float")
_define(
    "StatefulTruncatedNormal",
    "Normal numbers of mean 0 and deviation 1 within two deviations",
    distributions.truncated_normal,
    "float",
)
_define(
    "StatefulUniformInt",
    "Uniform integers in ``[minval, maxval)``",
    distributions.integers,
    "int64",
    ", minval: dtype, maxval: dtype",
)
_define("StatefulUniformFullInt", "Uniform integers from the whole range of the dtype", any_integers, "uint64")
