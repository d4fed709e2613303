"""Public functions of random numbers."""

from __future__ import annotations

from typing import Any

from anabranch.core import convert, dtypes, errors
from anabranch.core.api import public
from anabranch.core.build import build
from anabranch.core.graph import get_default_graph
from anabranch.core.operation import Tensor
from anabranch.core.random_seed import get_seed


def _scope(name: str | None, default: str) -> Any:
    return get_default_graph().name_scope(name or default)


def _seeds(seed: int | None) -> dict[str, int]:
    first, second = get_seed(seed)
    return {"seed": first or 0, "seed2": second or 0}


def _shape(shape: Any) -> Tensor:
    if isinstance(shape, Tensor):
        return shape
    if isinstance(shape, (list, tuple)) and not shape:
        return convert.constant([], dtypes.int32, name="shape")
    return convert.convert_to_tensor(shape, name="shape", preferred_dtype=dtypes.int32)


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
    dtype = dtypes.as_dtype(dtype).base
    if dtype not in (dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64):
        raise ValueError(
            f"Invalid dtype {dtype}\n"
            + errors.message(f"random_uniform of {dtype.name}", "a float, int32 or int64", "tf.cast the result")
        )
    if maxval is None:
        if dtype.is_integer:
            raise ValueError(
                f"Must specify maxval for integer dtype {dtype}\n"
                + errors.message(f"random_uniform of {dtype.name} without maxval", "an upper bound", "maxval=10")
            )
        maxval = 1
    with _scope(name, "random_uniform"):
        place = get_default_graph().get_name_scope() + "/"
        dims = _shape(shape)
        low = convert.convert_to_tensor(minval, dtype, name="min")
        high = convert.convert_to_tensor(maxval, dtype, name="max")
        if dtype.is_integer:
            return build("RandomUniformInt", dims, low, high, name=place, **_seeds(seed))
        drawn = build("RandomUniform", dims, dtype=dtype, **_seeds(seed))
        return build("Add", build("Mul", drawn, build("Sub", high, low, name="sub"), name="mul"), low, name=place)


def _scaled(
    op: str, default: str, shape: Any, mean: Any, stddev: Any, dtype: Any, seed: int | None, name: str | None
) -> Tensor:
    dtype = dtypes.as_dtype(dtype).base
    with _scope(name, default):
        place = get_default_graph().get_name_scope() + "/"
        dims = _shape(shape)
        middle = convert.convert_to_tensor(mean, dtype, name="mean")
        width = convert.convert_to_tensor(stddev, dtype, name="stddev")
        drawn = build(op, dims, dtype=dtype, **_seeds(seed))
        return build("Add", build("Mul", drawn, width, name="mul"), middle, name=place)


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
    with _scope(name, "random_crop"):
        place = get_default_graph().get_name_scope() + "/"
        value = convert.convert_to_tensor(value, name="value")
        wanted = convert.convert_to_tensor(size, dtypes.int32, name="size")
        there = build("Shape", value)
        fits = build("All", build("GreaterEqual", there, wanted), [0])
        check = build("Assert", fits, ["Need value.shape >= size, got ", there, wanted], summarize=1000)
        with get_default_graph().control_dependencies([check]):
            there = build("Identity", there)
        limit = build("Add", build("Sub", there, wanted), 1)
        drawn = random_uniform(build("Shape", there), maxval=2**31 - 1, dtype=dtypes.int32, seed=seed)
        return build("Slice", value, build("FloorMod", drawn, limit), wanted, name=place)


@public("multinomial", "random.multinomial")
def multinomial(
    logits: Any, num_samples: Any, seed: int | None = None, name: str | None = None, output_dtype: Any = None
) -> Tensor:
    """Category numbers ``[batch, num_samples]`` drawn by log-probabilities ``[batch, classes]``, normalised or not."""
    dtype = dtypes.int64 if output_dtype is None else dtypes.as_dtype(output_dtype)
    with _scope(name, "multinomial"):
        return build(
            "Multinomial",
            convert.convert_to_tensor(logits, name="logits"),
            num_samples,
            output_dtype=dtype,
            **_seeds(seed),
        )


@public("random.categorical")
def categorical(
    logits: Any, num_samples: Any, dtype: Any = None, seed: int | None = None, name: str | None = None
) -> Tensor:
    """See :func:`multinomial`."""
    return multinomial(logits, num_samples, seed, name or "categorical", dtype)
