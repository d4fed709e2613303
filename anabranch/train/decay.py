"""Learning rates that change with the global step: scalars of the graph, computed anew at each step."""

from __future__ import annotations

import math

from typing import Any

from anabranch.core import convert, dtypes, errors
from anabranch.core.api import public
from anabranch.core.build import build
from anabranch.core.graph import get_default_graph


def _scope(name: str | None, default: str) -> Any:
    return get_default_graph().name_scope(name or default)


def _cast(value: Any, dtype: Any) -> Any:
    tensor = convert.convert_to_tensor(value)
    return tensor if tensor.dtype.base == dtype else build("Cast", tensor, DstT=dtype)


def _step(global_step: Any, function: str) -> Any:
    if global_step is None:
        raise ValueError(
            f"global_step is required for {function}.\n"
            + errors.message(
                f"{function}(global_step=None)", "the step variable", "tf.train.get_or_create_global_step()"
            )
        )
    return global_step


def _progress(learning_rate: Any, global_step: Any, decay_steps: Any) -> tuple[Any, Any, Any]:
    rate = convert.convert_to_tensor(learning_rate, name="learning_rate", preferred_dtype=dtypes.float32)
    return rate, _cast(global_step, rate.dtype.base), _cast(decay_steps, rate.dtype.base)


def _place() -> str:
    return get_default_graph().get_name_scope() + "/"


@public("train.exponential_decay")
def exponential_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """``learning_rate * decay_rate ** (global_step / decay_steps)``; the exponent is floored with ``staircase``."""
    _step(global_step, "exponential_decay")
    with _scope(name, "ExponentialDecay"):
        rate, step, steps = _progress(learning_rate, global_step, decay_steps)
        p = build("RealDiv", step, steps)
        if staircase:
            p = build("Floor", p)
        return build("Mul", rate, build("Pow", _cast(decay_rate, rate.dtype.base), p), name=_place())


@public("train.natural_exp_decay")
def natural_exp_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """``learning_rate * exp(-decay_rate * global_step / decay_steps)``."""
    _step(global_step, "natural_exp_decay")
    with _scope(name, "NaturalExpDecay"):
        rate, step, steps = _progress(learning_rate, global_step, decay_steps)
        p = build("RealDiv", step, steps)
        if staircase:
            p = build("Floor", p)
        power = build("Neg", _cast(decay_rate, rate.dtype.base))
        return build("Mul", rate, build("Exp", build("Mul", power, p)), name=_place())


@public("train.inverse_time_decay")
def inverse_time_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    decay_rate: Any,
    staircase: bool = False,
    name: str | None = None,
) -> Any:
    """``learning_rate / (1 + decay_rate * global_step / decay_steps)``."""
    _step(global_step, "inverse_time_decay")
    with _scope(name, "InverseTimeDecay"):
        rate, step, steps = _progress(learning_rate, global_step, decay_steps)
        p = build("RealDiv", step, steps)
        if staircase:
            p = build("Floor", p)
        denominator = build(
            "Add", convert.constant(1.0, rate.dtype.base), build("Mul", _cast(decay_rate, rate.dtype.base), p)
        )
        return build("RealDiv", rate, denominator, name=_place())


@public("train.polynomial_decay")
def polynomial_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    end_learning_rate: Any = 0.0001,
    power: Any = 1.0,
    cycle: bool = False,
    name: str | None = None,
) -> Any:
    """``(learning_rate - end) * (1 - step / decay_steps) ** power + end``; stays at the end, or starts a longer cycle."""
    _step(global_step, "polynomial_decay")
    with _scope(name, "PolynomialDecay"):
        rate, step, steps = _progress(learning_rate, global_step, decay_steps)
        dtype = rate.dtype.base
        end = _cast(end_learning_rate, dtype)
        one = convert.constant(1.0, dtype)
        if cycle:
            rounds = build("Ceil", build("RealDiv", step, steps))
            steps = build("Mul", steps, build("Maximum", rounds, one))  # step 0 belongs to the first cycle
        else:
            step = build("Minimum", step, steps)
        p = build("RealDiv", step, steps)
        shrunk = build("Pow", build("Sub", one, p), _cast(power, dtype))
        return build("Add", build("Mul", build("Sub", rate, end), shrunk), end, name=_place())


@public("train.piecewise_constant", "train.piecewise_constant_decay")
def piecewise_constant(x: Any, boundaries: Any, values: Any, name: str | None = None) -> Any:
    """``values[0]`` while ``x <= boundaries[0]``, ``values[i]`` up to ``boundaries[i]``, the last value beyond.

    Raises:
        ValueError: ``boundaries`` and ``values`` do not fit each other in length or dtype.
    """
    if len(boundaries) != len(values) - 1:
        raise ValueError(
            "The length of boundaries should be 1 less than the length of values\n"
            + errors.message(
                f"{len(boundaries)} boundaries and {len(values)} values",
                "one value more than boundaries",
                "add or drop one",
            )
        )
    with _scope(name, "PiecewiseConstant"):
        x = convert.convert_to_tensor(x)
        dtype = x.dtype.base
        limits = []
        for boundary in boundaries:
            limit = convert.convert_to_tensor(boundary)
            if limit.dtype.base != dtype:
                if dtype == dtypes.int64 and limit.dtype.base == dtypes.int32:
                    limit = build("Cast", limit, DstT=dtype)
                else:
                    raise ValueError(
                        f"Boundaries ({limit.dtype.base.name}) must have the same dtype as x ({dtype.name}).\n"
                        + errors.message(
                            f"boundary {boundary!r} of {limit.dtype.base.name}",
                            dtype.name,
                            "write the boundaries in x's dtype",
                        )
                    )
            limits.append(limit)
        levels = [convert.convert_to_tensor(value) for value in values]
        if any(level.dtype.base != levels[0].dtype.base for level in levels):
            raise ValueError(
                "Values must have elements all with the same dtype\n"
                + errors.message(", ".join(level.dtype.base.name for level in levels), "one dtype", "write them alike")
            )
        found = levels[-1]
        for limit, level in zip(reversed(limits), reversed(levels[:-1]), strict=True):
            found = build("Select", build("LessEqual", x, limit), level, found)
        return build("Identity", found, name=_place())


def _cosine(c: Any, fraction: Any, dtype: Any) -> Any:
    turned = build("Mul", convert.constant(math.pi * c, dtype), fraction)
    return build("Mul", convert.constant(0.5, dtype), build("Add", convert.constant(1.0, dtype), build("Cos", turned)))


def _fraction(rate: Any, step: Any, steps: Any) -> Any:
    return build("RealDiv", build("Minimum", step, steps), steps)


@public("train.cosine_decay")
def cosine_decay(
    learning_rate: Any, global_step: Any, decay_steps: Any, alpha: Any = 0.0, name: str | None = None
) -> Any:
    """Half a cosine from ``learning_rate`` to ``alpha * learning_rate`` (Loshchilov and Hutter, 2016)."""
    _step(global_step, "cosine_decay")
    with _scope(name, "CosineDecay"):
        rate, step, steps = _progress(learning_rate, global_step, decay_steps)
        dtype = rate.dtype.base
        falling = _cosine(1.0, _fraction(rate, step, steps), dtype)
        return build("Mul", rate, _between(alpha, falling, dtype), name=_place())


def _between(alpha: Any, falling: Any, dtype: Any) -> Any:
    return build("Add", build("Mul", convert.constant(1.0 - alpha, dtype), falling), convert.constant(alpha, dtype))


@public("train.cosine_decay_restarts")
def cosine_decay_restarts(
    learning_rate: Any,
    global_step: Any,
    first_decay_steps: Any,
    t_mul: float = 2.0,
    m_mul: float = 1.0,
    alpha: float = 0.0,
    name: str | None = None,
) -> Any:
    """Cosine decay that starts again, each period ``t_mul`` times longer and ``m_mul`` times lower (SGDR)."""
    _step(global_step, "cosine decay restarts")
    with _scope(name, "SGDRDecay"):
        rate, step, first = _progress(learning_rate, global_step, first_decay_steps)
        dtype = rate.dtype.base

        def number(value: float) -> Any:
            return convert.constant(value, dtype)

        completed = build("RealDiv", step, first)
        if t_mul == 1.0:
            restarts = build("Floor", completed)
            fraction = build("Sub", completed, restarts)
        else:
            inside = build("Sub", number(1.0), build("Mul", completed, number(1.0 - t_mul)))
            restarts = build("Floor", build("RealDiv", build("Log", inside), number(math.log(t_mul))))
            grown = build("Pow", number(t_mul), restarts)
            before = build("RealDiv", build("Sub", number(1.0), grown), number(1.0 - t_mul))
            fraction = build("RealDiv", build("Sub", completed, before), grown)
        falling = build("Mul", build("Pow", number(m_mul), restarts), _cosine(1.0, fraction, dtype))
        return build("Mul", rate, _between(alpha, falling, dtype), name=_place())


def _linear(step: Any, steps: Any, num_periods: float, alpha: float, dtype: Any, beta: float, noise: Any) -> Any:
    step = build("Minimum", step, steps)
    linear = build("RealDiv", build("Sub", steps, step), steps)
    fraction = build("Mul", convert.constant(2.0 * num_periods, dtype), build("RealDiv", step, steps))
    if noise is not None:
        linear = build("Add", linear, noise(step))
    start = build("Add", convert.constant(alpha, dtype), linear)
    return build("Add", build("Mul", start, _cosine(1.0, fraction, dtype)), convert.constant(beta, dtype))


@public("train.linear_cosine_decay")
def linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> Any:
    """``rate * ((alpha + linear) * cosine + beta)`` (Bello et al., 2017)."""
    _step(global_step, "linear cosine decay")
    with _scope(name, "LinearCosineDecay"):
        rate, step, steps = _progress(learning_rate, global_step, decay_steps)
        return build("Mul", rate, _linear(step, steps, num_periods, alpha, rate.dtype.base, beta, None), name=_place())


@public("train.noisy_linear_cosine_decay")
def noisy_linear_cosine_decay(
    learning_rate: Any,
    global_step: Any,
    decay_steps: Any,
    initial_variance: float = 1.0,
    variance_decay: float = 0.55,
    num_periods: float = 0.5,
    alpha: float = 0.0,
    beta: float = 0.001,
    name: str | None = None,
) -> Any:
    """Linear cosine decay plus normal noise of variance ``initial_variance / (1 + step) ** variance_decay``."""
    _step(global_step, "noisy linear cosine decay")
    with _scope(name, "NoisyLinearCosineDecay"):
        rate, step, steps = _progress(learning_rate, global_step, decay_steps)
        dtype = rate.dtype.base

        def noise(at: Any) -> Any:
            later = build("Add", convert.constant(1.0, dtype), at)
            variance = build(
                "RealDiv",
                convert.constant(initial_variance, dtype),
                build("Pow", later, convert.constant(variance_decay, dtype)),
            )
            drawn = build("RandomStandardNormal", build("Shape", linear_like), dtype=dtype)
            return build("Mul", drawn, build("Sqrt", variance))

        linear_like = step
        return build("Mul", rate, _linear(step, steps, num_periods, alpha, dtype, beta, noise), name=_place())
