"""Learning rates that change with the global step: scalars of the graph, computed anew at each step.

All numbers may be Python numbers or scalar tensors; they are cast to the dtype of the learning rate.

Where ops run at once a tensor would stay what it is: there each of these gives a function without arguments that
computes the rate for the step that it then is. Optimizers take such functions and call them at each step.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from typing import Any, TypeVar
from typing import cast as typed

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import count_more, counted_as
from anabranch.core.graph.tensor import Tensor
from anabranch.core.values import dtypes
from anabranch.ops.array.cast import cast
from anabranch.ops.random.public import random_normal

T = TypeVar("T", bound=Callable[..., Any])


def _checked(global_step: Any, function: str) -> None:
    if global_step is None:
        raise ValueError(
            f"global_step is required for {function}.\n"
            + errors.message(
                f"{function}(global_step=None)", "the step variable", "tf.train.get_or_create_global_step()"
            )
        )


def _of_step(schedule: T) -> T:
    """Decorator: where ops run at once, a function that computes the rate anew; see the module's docstring."""

    @functools.wraps(schedule)
    def rate(*args: Any, **kwargs: Any) -> Any:
        if current_builder().defers:
            return schedule(*args, **kwargs)
        _check(schedule, *args, **kwargs)
        return functools.partial(schedule, *args, **kwargs)

    return typed(T, rate)


def _check(schedule: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
    """Refuse what is known to be wrong before there is a step."""
    given = inspect.signature(schedule).bind(*args, **kwargs).arguments
    if "global_step" in given:
        _checked(given["global_step"], schedule.__name__)
    if "boundaries" in given:
        _check_lengths(given["boundaries"], given["values"])


def _rate(learning_rate: Any) -> Any:
    preferred = dtypes.float32 if isinstance(learning_rate, int) else None  # NumPy's float64 gives a rate of float64
    return convert.convert_to_tensor(learning_rate, name="initial_learning_rate", preferred_dtype=preferred)


def _power(base: Any, exponent: Any) -> Any:
    return build("Pow", base, exponent)


@public("train.exponential_decay")
@_of_step
def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """``learning_rate * decay_rate ** (global_step / decay_steps)``; the exponent is floored with ``staircase``."""
    return _exponential(learning_rate, global_step, decay_steps, decay_rate, staircase, name)


def _exponential(
    learning_rate: Any, global_step: Any, decay_steps: Any, decay_rate: Any, staircase: bool, name: str | None
) -> Any:
    _checked(global_step, "exponential_decay")
    with name_scope(name, "ExponentialDecay") as scope:
        rate = _rate(learning_rate)
        dtype = rate.dtype.base
        steps, factor = cast(decay_steps, dtype), cast(decay_rate, dtype)
        progress = cast(global_step, dtype) / steps
        if staircase:
            progress = build("Floor", progress)
        return build("Mul", rate, _power(factor, progress), name=scope)


@public("train.natural_exp_decay")
@_of_step
def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """``learning_rate * exp(-decay_rate * global_step / decay_steps)``."""
    _checked(global_step, "natural_exp_decay")
    factor = build("Exp", build("Neg", convert.convert_to_tensor(decay_rate, preferred_dtype=dtypes.float32)))
    return _exponential(learning_rate, global_step, decay_steps, factor, staircase, name)


@public("train.inverse_time_decay")
@_of_step
def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """``learning_rate / (1 + decay_rate * global_step / decay_steps)``."""
    _checked(global_step, "inverse_time_decay")
    with name_scope(name, "InverseTimeDecay") as scope:
        rate = _rate(learning_rate)
        dtype = rate.dtype.base
        steps, factor = cast(decay_steps, dtype), cast(decay_rate, dtype)
        progress = cast(global_step, dtype) / steps
        if staircase:
            progress = build("Floor", progress)
        count_more(1)
        return build("RealDiv", rate, 1 + factor * progress, name=scope)


@public("train.polynomial_decay")
@_of_step
def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Any:
    """``(learning_rate - end) * (1 - step / decay_steps) ** power + end``; stays at the end, or starts a longer cycle.

    Args:
        learning_rate: the rate at step 0.
        global_step: the step.
        decay_steps: when ``end_learning_rate`` is reached.
        end_learning_rate: the last rate.
        power: 1 for a straight line.
        cycle: whether, when it is reached, the decay starts again over 2, 3, ... times ``decay_steps``.
        name: name of the result.
    """
    _checked(global_step, "polynomial_decay")
    with name_scope(name, "PolynomialDecay") as scope:
        rate = _rate(learning_rate)
        dtype = rate.dtype.base
        end, exponent, step, steps = (cast(x, dtype) for x in (end_learning_rate, power, global_step, decay_steps))
        count_more(8 if cycle else 0 if isinstance(decay_steps, Tensor) else 1)  # a conditional; the number once more
        if cycle:
            steps = steps * build("Maximum", build("Ceil", step / steps), 1)  # step 0 belongs to the first cycle
        else:
            step = build("Minimum", step, steps)
        progress = step / steps
        return build("AddV2", (rate - end) * _power(1 - progress, exponent), end, name=scope)


@public("train.piecewise_constant", "train.piecewise_constant_decay")
@_of_step
def piecewise_constant(x: Any, boundaries: Any, values: Any, name: str | None = None) -> Any:
    """``values[0]`` while ``x <= boundaries[0]``, ``values[i]`` up to ``boundaries[i]``, the last value beyond.

    Raises:
        ValueError: ``boundaries`` and ``values`` do not fit each other in length or dtype.
    """
    _check_lengths(boundaries, values)
    with name_scope(name, "PiecewiseConstant", [x, *boundaries, *values]):
        x = convert.convert_to_tensor(x)
        limits = [_boundary(boundary, x.dtype.base) for boundary in boundaries]
        levels = [convert.convert_to_tensor(value) for value in values]
        if any(level.dtype.base != levels[0].dtype.base for level in levels):
            raise ValueError(
                "Values must have elements all with the same dtype\n"
                + errors.message(", ".join(level.dtype.base.name for level in levels), "one dtype", "write them alike")
            )
        rate = levels[-1]
        # A chain of conditionals, of which one must hold; a value passes each that it stands in.
        number = len(levels)
        chain = counted_as(2 + 3 * (number - 2) + 19 + 6 * number + number**2, captures=False)
        with chain:
            for limit, level in zip(reversed(limits), reversed(levels[:-1]), strict=True):
                rate = build("Select", build("LessEqual", x, limit), level, rate)
            return build("Identity", rate, name="case/cond/Merge")  # TensorFlow's name, of a conditional


def _check_lengths(boundaries: Any, values: Any) -> None:
    if len(boundaries) != len(values) - 1:
        raise ValueError(
            "The length of boundaries should be 1 less than the length of values\n"
            + errors.message(
                f"{len(boundaries)} boundaries and {len(values)} values",
                "one value more than boundaries",
                "add or drop one",
            )
        )


def _boundary(boundary: Any, dtype: dtypes.DType) -> Any:
    limit = convert.convert_to_tensor(boundary)
    given = limit.dtype.base
    if given == dtype:
        return limit
    if dtype == dtypes.int64 and given == dtypes.int32:
        return cast(limit, dtype)
    raise ValueError(
        f"Boundaries ({given.name}) must have the same dtype as x ({dtype.name}).\n"
        + errors.message(f"boundary {boundary!r} of {given.name}", dtype.name, "write the boundaries in x's dtype")
    )


def _half_cosine(fraction: Any) -> Any:
    """From 1 at 0 down to 0 at 1, along a cosine."""
    return 0.5 * (1 + build("Cos", convert.constant(math.pi, fraction.dtype.base) * fraction))


@public("train.cosine_decay")
@_of_step
def cosine_decay(
    learning_rate: Any, global_step: Any, decay_steps: Any, alpha: Any = 0.0, name: str | None = None
) -> Any:
    """Half a cosine from ``learning_rate`` to ``alpha * learning_rate`` (Loshchilov and Hutter, 2016)."""
    _checked(global_step, "cosine_decay")
    with name_scope(name, "CosineDecay"):
        rate = _rate(learning_rate)
        dtype = rate.dtype.base
        steps = cast(decay_steps, dtype)
        fraction = build("Minimum", cast(global_step, dtype), steps) / steps
        return build("Mul", rate, (1 - alpha) * _half_cosine(fraction) + alpha)


@public("train.cosine_decay_restarts")
@_of_step
def cosine_decay_restarts(
    learning_rate: Any,
    global_step: Any,
    first_decay_steps: Any,
    t_mul: Any = 2.0,
    m_mul: Any = 1.0,
    alpha: Any = 0.0,
    name: str | None = None,
) -> Any:
    """Cosine decay that starts again, each period ``t_mul`` times longer and ``m_mul`` times lower (SGDR).

    Args:
        learning_rate: the rate at step 0.
        global_step: the step.
        first_decay_steps: length of the first period.
        t_mul: growth of the periods.
        m_mul: factor on the rate at each start.
        alpha: lowest rate, as a fraction of ``learning_rate``.
        name: name of the result.
    """
    _checked(global_step, "cosine decay restarts")
    with name_scope(name, "SGDRDecay") as scope:
        rate = _rate(learning_rate)
        dtype = rate.dtype.base
        first, lowest, growth, lowered = (cast(x, dtype) for x in (first_decay_steps, alpha, t_mul, m_mul))
        completed = cast(global_step, dtype) / first
        even = build("Floor", completed)  # the number of restarts when all periods are equal
        # Periods 1, q, q**2, ... end at (1 - q**n) / (1 - q); where q is 1, another q keeps this branch finite.
        equal = build("Equal", growth, 1)
        q = build("Select", equal, build("AddV2", growth, 1), growth)
        grown = build("Floor", build("Log", 1 - completed * (1 - q)) / build("Log", q))
        length = _power(q, grown)
        fraction = (completed - (1 - length) / (1 - q)) / length
        restarts = build("Select", equal, even, grown)
        fraction = build("Select", equal, completed - even, fraction)
        count_more(5)  # a conditional
        falling = _power(lowered, restarts) * _half_cosine(fraction)
        return build("Mul", rate, (1 - lowest) * falling + lowest, name=scope)


@public("train.linear_cosine_decay")
@_of_step
def linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    num_periods: Any = 0.5,
    alpha: Any = 0.0,
    beta: Any = 0.001,
    name: str | None = None,
) -> Any:
    """``rate * ((alpha + linear) * cosine + beta)`` (Bello et al., 2017).

    Args:
        learning_rate: the rate at step 0.
        global_step: the step.
        decay_steps: length of the decay, in which ``linear`` falls from 1 to 0.
        num_periods: periods of the cosine in it.
        alpha: see the formula.
        beta: see the formula.
        name: name of the result.
    """
    _checked(global_step, "linear cosine decay")
    with name_scope(name, "LinearCosineDecay") as scope:
        rate = _rate(learning_rate)
        dtype = rate.dtype.base
        steps, periods, raised, least = (cast(x, dtype) for x in (decay_steps, num_periods, alpha, beta))
        step = build("Minimum", cast(global_step, dtype), steps)
        linear = (steps - step) / steps
        cosine = _half_cosine(2.0 * periods * (step / steps))
        return build("Mul", rate, (raised + linear) * cosine + least, name=scope)


@public("train.noisy_linear_cosine_decay")
@_of_step
def noisy_linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    initial_variance: Any = 1.0,
    variance_decay: Any = 0.55,
    num_periods: Any = 0.5,
    alpha: Any = 0.0,
    beta: Any = 0.001,
    name: str | None = None,
) -> Any:
    """Linear cosine decay with normal noise of variance ``initial_variance / (1 + step) ** variance_decay``.

    The noise is added to ``linear``; other arguments are those of :func:`linear_cosine_decay`.
    """
    _checked(global_step, "noisy linear cosine decay")
    with name_scope(name, "NoisyLinearCosineDecay") as scope:
        rate = _rate(learning_rate)
        dtype = rate.dtype.base
        steps, variance, falling, periods, raised, least = (
            cast(x, dtype) for x in (decay_steps, initial_variance, variance_decay, num_periods, alpha, beta)
        )
        step = build("Minimum", cast(global_step, dtype), steps)
        linear = (steps - step) / steps
        deviation = build("Sqrt", variance / _power(1.0 + step, falling))
        linear = linear + random_normal(linear.get_shape(), stddev=deviation, dtype=dtype)
        cosine = _half_cosine(2.0 * periods * (step / steps))
        return build("Mul", rate, (raised + linear) * cosine + least, name=scope)
