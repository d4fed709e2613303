"""``tf.contrib.integrate``: ordinary differential equations, with steps that fit the error or on a given grid.

The adaptive method is that of Dormand and Prince (1980): a solution of fifth order, whose difference from one of fourth
order says how long the next step may be. Between steps a polynomial of fourth order goes through both ends, their
derivatives and the middle (Shampine, 1986).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public

_TIMES = (1 / 5, 3 / 10, 4 / 5, 8 / 9, 1.0, 1.0)
_STAGES: tuple[tuple[float, ...], ...] = (
    (1 / 5,),
    (3 / 40, 9 / 40),
    (44 / 45, -56 / 15, 32 / 9),
    (19372 / 6561, -25360 / 2187, 64448 / 6561, -212 / 729),
    (9017 / 3168, -355 / 33, 46732 / 5247, 49 / 176, -5103 / 18656),
    (35 / 384, 0, 500 / 1113, 125 / 192, -2187 / 6784, 11 / 84),
)
"""The last is the solution, too."""
_ERROR = (
    35 / 384 - 1951 / 21600,
    0,
    500 / 1113 - 22642 / 50085,
    125 / 192 - 451 / 720,
    -2187 / 6784 + 12231 / 42400,
    11 / 84 - 649 / 6300,
    -1 / 60,
)
_MIDDLE = (
    6025192743 / 30085553152 / 2,
    0,
    51252292925 / 65400821598 / 2,
    -2691868925 / 45128329728 / 2,
    187940372067 / 1594534317056 / 2,
    -1776094331 / 19743644256 / 2,
    11237099 / 235043384 / 2,
)

Derivative = Callable[[Any, Any], Any]


def _weighted(weights: Sequence[float], slopes: Sequence[Any], step: Any) -> Any:
    return step * tf.add_n([tf.constant(w, k.dtype.base_dtype) * k for w, k in zip(weights, slopes, strict=True) if w])


def _checked(y0: Any, t: Any) -> tuple[Any, Any]:
    y0 = tf.convert_to_tensor(y0, name="y0")
    t = tf.convert_to_tensor(t, preferred_dtype=tf.float64, name="t")
    if not (y0.dtype.is_floating or y0.dtype.is_complex):
        raise TypeError(
            "`y0` must have a floating point or complex floating point dtype\n"
            + errors.message(f"y0 of {y0.dtype.name}", "a floating point dtype", "tf.cast(y0, tf.float64)")
        )
    if not t.dtype.is_floating:
        raise TypeError(
            "`t` must have a floating point dtype\n"
            + errors.message(f"t of {t.dtype.name}", "a floating point dtype", "tf.cast(t, tf.float64)")
        )
    return y0, t


def _increases(t: Any) -> Any:
    return tf.control_dependencies([tf.Assert(tf.reduce_all(t[1:] > t[:-1]), ["`t` must be monotonic increasing"])])


@public("contrib.integrate.odeint")
def odeint(
    func: Derivative,
    y0: Any,
    t: Any,
    rtol: Any = 1e-6,
    atol: Any = 1e-12,
    method: str | None = None,
    options: dict[str, Any] | None = None,
    full_output: bool = False,
    name: str | None = None,
) -> Any:
    """The solution of ``dy/dt = func(y, t)`` at times, with steps whose error is bounded.

    Args:
        func: gives the derivative of a state at a scalar time.
        y0: the state at the first time, floating point or complex, of any shape.
        t: increasing times ``[n]``, floating point.
        rtol: an upper bound of a step's error, relative to the state.
        atol: an upper bound besides.
        method: ``"dopri5"`` or None, the same.
        options: of the method: ``first_step``, ``safety``, ``ifactor``, ``dfactor``, ``max_num_steps``.
        full_output: give a dictionary besides: ``num_func_evals``, and of all steps ``integrate_points`` and
            ``error_ratio``.
        name: of the operations.

    Returns:
        The states ``[n, ...]``, and the dictionary if asked for.

    Raises:
        ValueError: the method or an option is unknown. TypeError: a dtype is not floating point.
        InvalidArgumentError: (when run) times do not increase, or a step becomes too short, or there are too many.

    >>> with tf.Session() as session:
    ...     y = session.run(tf.contrib.integrate.odeint(lambda y, t: -y, tf.constant(1.0, tf.float64), [0.0, 1.0]))
    ...     print(y.round(5))
    [1.      0.36788]
    """
    if method not in (None, "dopri5"):
        raise ValueError(
            f"invalid method: {method!r}\n"
            + errors.message(f"method={method!r}", "dopri5", "odeint(..., method='dopri5'), or odeint_fixed")
        )
    settings = {"first_step": 1.0, "safety": 0.9, "ifactor": 10.0, "dfactor": 0.2, "max_num_steps": 1000}
    if options and method is None:
        raise ValueError(
            "cannot supply `options` without specifying `method`\n"
            + errors.message("options without a method", "both or neither", "odeint(..., method='dopri5', options=...)")
        )
    if unknown := set(options or {}) - set(settings):
        given = f"options {sorted(unknown)}"
        raise ValueError(errors.message(given, f"some of {sorted(settings)}", "options={'max_num_steps': 10000}"))
    settings.update(options or {})
    with tf.name_scope(name, "odeint", [y0, t, rtol, atol]):
        y0, t = _checked(y0, t)
        relative, absolute = (tf.convert_to_tensor(bound, dtype=y0.dtype.real_dtype) for bound in (rtol, atol))
        return _Adaptive(func, t, relative, absolute, settings).solve(y0, full_output)


class _Adaptive:
    """Steps of Dormand and Prince, as long as the error allows."""

    def __init__(self, func: Derivative, t: Any, rtol: Any, atol: Any, settings: dict[str, Any]) -> None:
        self.func, self.t, self.rtol, self.atol = func, t, rtol, atol
        self.most = settings["max_num_steps"]
        self.first, self.safety, self.longer, self.shorter = (
            tf.convert_to_tensor(settings[key], dtype=t.dtype) for key in ("first_step", "safety", "ifactor", "dfactor")
        )

    def solve(self, y0: Any, full_output: bool) -> Any:
        """The states at all times."""
        with _increases(self.t):
            count = tf.size(self.t)
        states = tf.TensorArray(y0.dtype, size=count).write(0, y0)
        points = tf.TensorArray(self.t.dtype, size=0, dynamic_size=True)
        ratios = tf.TensorArray(self.rtol.dtype, size=0, dynamic_size=True)
        start = self.t[0]
        state = (y0, self.func(y0, start), start, start, self.first, [y0] * 5)

        def reach(states: Any, points: Any, ratios: Any, state: Any, i: Any) -> Any:
            state, points, ratios, _ = tf.while_loop(
                lambda state, *_: self.t[i] > state[3], self._step, (state, points, ratios, 0)
            )
            return states.write(i, self._between(state, self.t[i])), points, ratios, state, i + 1

        states, points, ratios, _, _ = tf.while_loop(
            lambda *now: now[-1] < count, reach, (states, points, ratios, state, 1)
        )
        solution = states.stack()
        solution.set_shape(self.t.get_shape().concatenate(y0.get_shape()))
        if not full_output:
            return solution
        taken = points.stack()
        facts = {
            "num_func_evals": 6 * tf.size(taken) + 1,
            "integrate_points": taken,
            "error_ratio": ratios.stack(),
        }
        return solution, facts

    def _step(self, state: Any, points: Any, ratios: Any, number: Any) -> Any:
        y0, f0, _, t0, dt, coefficients = state
        checks = [
            tf.Assert(t0 + dt > t0, ["underflow in dt", dt]),
            tf.Assert(number < self.most, ["max_num_steps exceeded"]),
            tf.Assert(tf.reduce_all(tf.is_finite(tf.abs(y0))), ["non-finite values in state `y`", y0]),
        ]
        with tf.control_dependencies(checks):
            step = tf.cast(dt, y0.dtype)
            slopes = [f0]
            y1 = y0
            for at, weights in zip(_TIMES, _STAGES, strict=True):
                y1 = y0 + _weighted(weights, slopes, step)
                slopes.append(self.func(y1, t0 + tf.constant(at, t0.dtype) * dt))
        allowed = self.atol + self.rtol * tf.maximum(tf.abs(y0), tf.abs(y1))
        error = tf.abs(_weighted(_ERROR, slopes, step)) / allowed
        ratio = tf.sqrt(tf.reduce_mean(tf.square(error)))
        good = ratio <= 1
        middle = y0 + _weighted(_MIDDLE, slopes, step)
        fitted = _quartic(y0, middle, y1, f0 * step, slopes[-1] * step)
        grown = tf.cast(ratio, dt.dtype) ** tf.constant(1 / 5, dt.dtype) / self.safety
        factor = tf.maximum(1 / self.longer, tf.minimum(grown, 1 / self.shorter))

        def chosen(new: Any, old: Any) -> Any:
            return tf.cond(good, lambda: new, lambda: old)

        after = (
            chosen(y1, y0),
            chosen(slopes[-1], f0),
            t0,
            chosen(t0 + dt, t0),
            dt / factor,
            [chosen(new, old) for new, old in zip(fitted, coefficients, strict=True)],
        )
        return after, points.write(points.size(), t0 + dt), ratios.write(ratios.size(), ratio), number + 1

    def _between(self, state: Any, t: Any) -> Any:
        """The polynomial of the last step at a time within it."""
        _, _, t0, t1, _, coefficients = state
        inside = tf.Assert((t0 <= t) & (t <= t1), ["invalid interpolation, fails `t0 <= t <= t1`:", t0, t, t1])
        with tf.control_dependencies([inside]):
            x = tf.cast((t - t0) / (t1 - t0), coefficients[0].dtype)
        value = coefficients[0]
        for coefficient in coefficients[1:]:
            value = value * x + coefficient
        return value


def _quartic(y0: Any, middle: Any, y1: Any, slope0: Any, slope1: Any) -> list[Any]:
    """Coefficients, highest power first, of a polynomial by its values at 0, 1/2 and 1 and its slopes at 0 and 1."""
    return [
        2 * (slope1 - slope0) - 8 * (y0 + y1) + 16 * middle,
        5 * slope0 - 3 * slope1 + 18 * y0 + 14 * y1 - 32 * middle,
        slope1 - 4 * slope0 - 11 * y0 - 5 * y1 + 16 * middle,
        slope0,
        y0,
    ]


def _midpoint(func: Derivative, y: Any, t: Any, dt: Any) -> Any:
    step = tf.cast(dt, y.dtype)
    return step * func(y + func(y, t) * step / 2, t + dt / 2)


def _rk4(func: Derivative, y: Any, t: Any, dt: Any) -> Any:
    step = tf.cast(dt, y.dtype)
    k1 = func(y, t)
    k2 = func(y + step * k1 / 2, t + dt / 2)
    k3 = func(y + step * k2 / 2, t + dt / 2)
    k4 = func(y + step * k3, t + dt)
    return tf.add_n([k1, 2 * k2, 2 * k3, k4]) * (step / 6)


_METHODS = {"midpoint": _midpoint, "rk4": _rk4}


@public("contrib.integrate.odeint_fixed")
def odeint_fixed(
    func: Derivative, y0: Any, t: Any, dt: Any = None, method: str = "rk4", name: str | None = None
) -> Any:
    """The solution of ``dy/dt = func(y, t)`` at times, with steps of given length.

    Args:
        func: gives the derivative of a state at a scalar time.
        y0: the state at the first time.
        t: increasing times ``[n]``, floating point.
        dt: the longest step, one for all intervals or ``[n - 1]``; a whole number of steps fills an interval. None for
            one step in each.
        method: ``"rk4"`` or ``"midpoint"``.
        name: of the operations.

    Returns:
        The states ``[n, ...]``; differentiable.

    Raises:
        ValueError: the method is unknown, or lengths do not fit.
    """
    if method not in _METHODS:
        raise ValueError(
            f"method not supported: {method!r}\n"
            + errors.message(f"method={method!r}", f"one of {sorted(_METHODS)}", "method='rk4'")
        )
    with tf.name_scope(name, "odeint_fixed", [y0, t, dt]):
        y0, t = _checked(y0, t)
        intervals = t[1:] - t[:-1]
        given = intervals if dt is None else tf.convert_to_tensor(dt, preferred_dtype=tf.float64, name="dt")
        if not given.dtype.is_floating:
            raise TypeError(
                "`dt` must have a floating point dtype\n"
                + errors.message(f"dt of {given.dtype.name}", "a floating point dtype", "dt=0.1")
            )
        if given.get_shape().ndims not in (None, 0) and not given.get_shape().is_compatible_with(intervals.get_shape()):
            raise ValueError(
                "t and dt have incompatible lengths, must be N and N-1\n"
                + errors.message(f"dt of shape {given.get_shape()}", "a scalar or one per interval", "dt=0.1")
            )
        counts = tf.ceil(intervals / tf.cast(given, t.dtype))
        steps = intervals / counts
        with _increases(t):
            count = tf.size(t)

        def reach(states: Any, y: Any, now: Any, i: Any) -> Any:
            step = steps[i - 1]
            y, now, _ = tf.while_loop(
                lambda y, now, j: j < tf.cast(counts[i - 1], tf.int32),
                lambda y, now, j: (y + tf.cast(_METHODS[method](func, y, now, step), y.dtype), now + step, j + 1),
                (y, now, 0),
            )
            return states.write(i, y), y, now, i + 1

        states = tf.TensorArray(y0.dtype, size=count).write(0, y0)
        states, _, _, _ = tf.while_loop(lambda *now: now[-1] < count, reach, (states, y0, t[0], 1))
        solution = states.stack()
        solution.set_shape(t.get_shape().concatenate(y0.get_shape()))
        return solution


__getattr__, __dir__ = api.module_attributes("contrib.integrate")
