"""Public functions of random numbers."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import get_seed
from anabranch.core.values import dtypes
from anabranch.ops.array import public_shapes
from anabranch.ops.control.public_dependencies import with_dependencies
from anabranch.ops.math import public_reduce
from anabranch.ops.math.checks import assert_

_FLOATS = (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64)


def _seeds(seed: int | None) -> dict[str, Any]:
    first, second = get_seed(seed)
    return {"seed": first or 0, "seed2": second or 0}


def _shape(shape: Any) -> Tensor:
    if isinstance(shape, Tensor):
        return shape
    if isinstance(shape, (list, tuple)) and not shape:
        return convert.constant([], dtypes.int32, name="shape")
    return convert.convert_to_tensor(shape, name="shape", preferred_dtype=dtypes.int32)


def _checked(dtype: Any, function: str, allowed: tuple[dtypes.DType, ...]) -> dtypes.DType:
    kind = dtypes.as_dtype(dtype).base
    if kind not in allowed:
        names = ", ".join(choice.name for choice in allowed)
        # TensorFlow checks the dtype of uniform numbers, and converts the mean of normal ones to theirs.
        normal = function in ("random_normal", "truncated_normal")
        raise (TypeError if normal else ValueError)(
            (f"Expected {kind.name}, got 0.0 of type 'float' instead.\n" if normal else f"Invalid dtype {kind!r}\n")
            + errors.message(f"{function} of {kind.name}", f"one of {names}", "tf.cast the result")
        )
    return kind


@public("random_uniform", "random.uniform")
def random_uniform(
    shape: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Uniform numbers in ``[minval, maxval)``.

    Args:
        shape: 1-D integer tensor or list.
        minval: lower bound, 0 by default.
        maxval: upper bound; 1 for floats if None, required for integers.
        dtype: float16, bfloat16, float32, float64, int32 or int64.
        seed: seed of the op, see ``tf.set_random_seed``.

    Raises:
        ValueError: integers without ``maxval``, or another dtype.
    """
    dtype = _checked(dtype, "random_uniform", (*_FLOATS, dtypes.int32, dtypes.int64))
    if maxval is None:
        if dtype.is_integer:
            raise ValueError(
                f"Must specify maxval for integer dtype {dtype!r}\n"
                + errors.message(f"random_uniform of {dtype.name} without maxval", "an upper bound", "maxval=10")
            )
        maxval = 1
    with name_scope(name, "random_uniform", [shape, minval, maxval]) as scope:
        dims = _shape(shape)
        low = convert.convert_to_tensor(minval, dtype, name="min")
        high = convert.convert_to_tensor(maxval, dtype, name="max")
        if dtype.is_integer:
            return build("RandomUniformInt", dims, low, high, name=scope, **_seeds(seed))
        drawn = build("RandomUniform", dims, dtype=dtype, **_seeds(seed))
        return build("Add", build("Mul", drawn, build("Sub", high, low, name="sub"), name="mul"), low, name=scope)


def _scaled(
    op: str, default: str, shape: Any, mean: Any, stddev: Any, dtype: Any, seed: int | None, name: str | None
) -> Tensor:
    dtype = _checked(dtype, default, _FLOATS)
    with name_scope(name, default, [shape, mean, stddev]) as scope:
        dims = _shape(shape)
        middle = convert.convert_to_tensor(mean, dtype, name="mean")
        width = convert.convert_to_tensor(stddev, dtype, name="stddev")
        drawn = build(op, dims, dtype=dtype, **_seeds(seed))
        return build("Add", build("Mul", drawn, width, name="mul"), middle, name=scope)


@public("random_normal", "random.normal")
def random_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Normal numbers of the given mean and deviation, of shape ``shape``."""
    return _scaled("RandomStandardNormal", "random_normal", shape, mean, stddev, dtype, seed, name)


@public("truncated_normal", "random.truncated_normal")
def truncated_normal(
    shape: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Normal numbers within two deviations of the mean; others are drawn again."""
    return _scaled("TruncatedNormal", "truncated_normal", shape, mean, stddev, dtype, seed, name)


@public("contrib.random.parameterized_truncated_normal")
def parameterized_truncated_normal(
    shape: Any,
    means: Any = 0.0,
    stddevs: Any = 1.0,
    minvals: Any = -2.0,
    maxvals: Any = 2.0,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Normal numbers between bounds.

    Args:
        shape: 1-D integer tensor or list, at least one number.
        means: scalar, or ``[shape[0]]``, as all parameters.
        stddevs: deviations of the normal distributions that are cut, above 0.
        minvals: lower bounds.
        maxvals: upper bounds; one bound of both must be finite.
        dtype: float16, bfloat16, float32 or float64.
        seed: seed of the op.
        name: name of the scope.
    """
    kind = _checked(dtype, "parameterized_truncated_normal", _FLOATS)
    with name_scope(name, "parameterized_truncated_normal", [shape, means, stddevs, minvals, maxvals]):
        parameters = [
            convert.convert_to_tensor(value, kind, name=label)
            for value, label in ((means, "means"), (stddevs, "stddevs"), (minvals, "minvals"), (maxvals, "maxvals"))
        ]
        return build("ParameterizedTruncatedNormal", _shape(shape), *parameters, dtype=kind, **_seeds(seed))


@public("random_shuffle", "random.shuffle")
def random_shuffle(value: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """``value`` with the slices of its first dimension in random order."""
    return build("RandomShuffle", value, name=name, **_seeds(seed))


@public("random_crop", "image.random_crop", "random.crop")
def random_crop(value: Any, size: Any, seed: int | None = None, name: str | None = None) -> Tensor:
    """A slice of ``value`` of shape ``size`` at a random place.

    Raises:
        InvalidArgumentError: ``size`` is larger than ``value`` in a dimension (when the step runs).
    """
    with name_scope(name, "random_crop", [value, size]) as scope:
        value = convert.convert_to_tensor(value, name="value")
        size = convert.convert_to_tensor(size, dtypes.int32, name="size")
        whole = public_shapes.shape(value)
        fits = public_reduce.reduce_all(build("GreaterEqual", whole, size))
        check = assert_(fits, ["Need value.shape >= size, got ", whole, size], summarize=1000)
        whole = with_dependencies([check], whole)
        limit = build("AddV2", build("Sub", whole, size, name="sub"), 1, name="add")
        drawn = random_uniform(public_shapes.shape(whole), maxval=size.dtype.max, dtype=size.dtype, seed=seed)
        return build("Slice", value, build("FloorMod", drawn, limit, name="mod"), size, name=scope)


@public("multinomial", "random.multinomial")
def multinomial(
    logits: Any, num_samples: Any, seed: int | None = None, name: str | None = None, output_dtype: Any = None
) -> Tensor:
    """Category numbers ``[batch, num_samples]`` drawn by log-probabilities ``[batch, classes]``.

    Args:
        logits: log-probabilities; they need not be normalised.
        num_samples: scalar, how many to draw for each row.
        seed: seed of the op.
        name: name of the scope.
        output_dtype: int64 if None, or int32.
    """
    dtype = dtypes.int64 if output_dtype is None else dtypes.as_dtype(output_dtype)
    with name_scope(name, "multinomial", [logits]):
        logits = convert.convert_to_tensor(logits, name="logits")
        return build("Multinomial", logits, num_samples, output_dtype=dtype, **_seeds(seed))


@public("random.categorical")
def categorical(
    logits: Any, num_samples: Any, dtype: Any = None, seed: int | None = None, name: str | None = None
) -> Tensor:
    """See :func:`multinomial`."""
    return multinomial(logits, num_samples, seed, name or "categorical", dtype)


@public("random_gamma", "random.gamma")
def random_gamma(
    shape: Any,
    alpha: Any,
    beta: Any = None,
    dtype: Any = dtypes.float32,
    seed: int | None = None,
    name: str | None = None,
) -> Tensor:
    """Numbers of gamma distributions; differentiable in ``alpha`` and ``beta``.

    Args:
        shape: how many to draw for each pair of parameters.
        alpha: shapes of the distributions, above 0.
        beta: their rates, 1 if None; broadcasts against ``alpha``.
        dtype: float16, float32 or float64.
        seed: seed of the op.
        name: name of the scope.

    Returns:
        ``shape + broadcast(alpha, beta).shape``.
    """
    dtype = _checked(dtype, "random_gamma", (dtypes.float16, dtypes.float32, dtypes.float64))
    with name_scope(name, "random_gamma", [shape, alpha, beta]):
        dims = convert.convert_to_tensor(shape, dtypes.int32, name="shape")
        alpha = convert.convert_to_tensor(alpha, dtype, name="alpha")
        beta = convert.convert_to_tensor(1 if beta is None else beta, dtype, name="beta")
        everywhere = build("AddV2", alpha, build("ZerosLike", beta), name="add")
        assert dtype.np is not None
        least = float(np.finfo(dtype.np).tiny)
        return build("Maximum", least, build("RealDiv", build("RandomGamma", dims, everywhere, **_seeds(seed)), beta))


@public("random_poisson", "random.poisson")
def random_poisson(
    lam: Any, shape: Any, dtype: Any = dtypes.float32, seed: int | None = None, name: str | None = None
) -> Tensor:
    """Numbers of Poisson distributions of mean ``lam``: ``shape + lam.shape``.

    Args:
        lam: means, at least 0.
        shape: how many to draw for each.
        dtype: float16, float32, float64, int32 or int64.
        seed: seed of the op.
        name: name of the scope.
    """
    dtype = _checked(
        dtype,
        "random_poisson",
        (dtypes.float16, dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64),
    )
    with name_scope(name, "random_poisson", [lam, shape]):
        dims = convert.convert_to_tensor(shape, dtypes.int32, name="shape")
        return build("RandomPoissonV2", dims, lam, dtype=dtype, **_seeds(seed))


# ----------------------------------------------------------------------------------------------------------- stateless
@public("random.stateless_uniform", "random.experimental.stateless_uniform")
def stateless_uniform(
    shape: Any,
    seed: Any,
    minval: Any = 0,
    maxval: Any = None,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Uniform numbers in ``[minval, maxval)``, a function of ``seed``.

    Args:
        shape: 1-D integer tensor or list.
        seed: two integers.
        minval: lower bound.
        maxval: upper bound; 1 for floats if None. Integers with neither bound come from their whole range.
        dtype: a float, int32, int64, or (without bounds) uint32, uint64.
        name: name of the result.
    """
    unsigned = (dtypes.uint32, dtypes.uint64)
    dtype = _checked(dtype, "stateless_uniform", (*_FLOATS, dtypes.int32, dtypes.int64, *unsigned))
    if dtype.is_integer:
        minval = None if maxval is None and isinstance(minval, int) and minval == 0 else minval
        if (minval is None) != (maxval is None) or (minval is not None and dtype in unsigned):
            raise ValueError(
                f"For integer dtype {dtype!r}, minval and maxval must be both None or not None\n"
                + errors.message(
                    f"minval={minval!r}, maxval={maxval!r} for {dtype.name}",
                    "both bounds, or neither for numbers from the whole range (unsigned ones have no bounds)",
                    "minval=0, maxval=10, dtype=tf.int32",
                )
            )
    with name_scope(name, "stateless_random_uniform", [shape, seed, minval, maxval]) as scope:
        dims = _shape(shape)
        if dtype.is_integer and minval is None:
            return build("StatelessRandomUniformFullInt", dims, seed, dtype=dtype, name=scope)
        low = convert.convert_to_tensor(minval, dtype, name="min")
        high = convert.convert_to_tensor(1 if maxval is None else maxval, dtype, name="max")
        if dtype.is_integer:
            return build("StatelessRandomUniformInt", dims, seed, low, high, name=scope)
        drawn = build("StatelessRandomUniform", dims, seed, dtype=dtype)
        return build("AddV2", build("Mul", drawn, build("Sub", high, low, name="sub"), name="mul"), low, name=scope)


def _stateless(op: str, default: str, shape: Any, seed: Any, mean: Any, stddev: Any, dtype: Any, name: Any) -> Tensor:
    dtype = _checked(dtype, default, _FLOATS)
    with name_scope(name, default, [shape, seed, mean, stddev]) as scope:
        dims = _shape(shape)
        middle = convert.convert_to_tensor(mean, dtype, name="mean")
        width = convert.convert_to_tensor(stddev, dtype, name="stddev")
        drawn = build(op, dims, seed, dtype=dtype)
        return build("AddV2", build("Mul", drawn, width, name="mul"), middle, name=scope)


@public("random.stateless_normal", "random.experimental.stateless_normal")
def stateless_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Normal numbers, a function of ``seed`` (two integers)."""
    return _stateless("StatelessRandomNormal", "stateless_random_normal", shape, seed, mean, stddev, dtype, name)


@public("random.stateless_truncated_normal", "random.experimental.stateless_truncated_normal")
def stateless_truncated_normal(
    shape: Any,
    seed: Any,
    mean: Any = 0.0,
    stddev: Any = 1.0,
    dtype: Any = dtypes.float32,
    name: str | None = None,
) -> Tensor:
    """Normal numbers within two deviations of the mean, a function of ``seed`` (two integers)."""
    return _stateless("StatelessTruncatedNormal", "stateless_truncated_normal", shape, seed, mean, stddev, dtype, name)


@public("random.stateless_multinomial")
def stateless_multinomial(
    logits: Any, num_samples: Any, seed: Any, output_dtype: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """Another name of :func:`stateless_categorical`."""
    return stateless_categorical(logits, num_samples, seed, output_dtype, name)


@public("random.stateless_categorical", "random.experimental.stateless_categorical")
def stateless_categorical(
    logits: Any, num_samples: Any, seed: Any, dtype: Any = dtypes.int64, name: str | None = None
) -> Tensor:
    """Category numbers ``[batch, num_samples]`` by log-probabilities ``[batch, classes]``, a function of ``seed``."""
    with name_scope(name, "stateless_categorical", [logits, seed]):
        logits = convert.convert_to_tensor(logits, name="logits")
        return build("StatelessMultinomial", logits, num_samples, seed, output_dtype=dtypes.as_dtype(dtype))
