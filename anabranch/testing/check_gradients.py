"""Numeric against symbolic gradients, of first and higher order, in both tiers.

Method. For random cotangents ``u`` and directions ``d``, the derivative of ``Re(sum(conj(u) * y(x + h d)))`` at ``h =
0`` is computed from central differences with two steps (Richardson's extrapolation, error of order ``h**4``) and
compared with ``Re(sum(conj(g) * d))``, where ``g`` is what ``tf.gradients`` gives for ``grad_ys=u``. One number thus
tests all elements at once: in float64 the two agree to some ten digits, so that a rule that is wrong by 0.1 % in any
large part is found. Directions have no small components. For second order the gradient itself, as a function of ``x``
and ``u``, is checked in the same way.

Many functions are checked in one program (:func:`check_problems`), because compiling costs more than running: the first
tier computes the differences, and each tier the gradients of all orders in one step.
"""

from __future__ import annotations

import contextlib
import dataclasses
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from anabranch.autodiff.gradients import gradients
from anabranch.core import errors
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes
from anabranch.session import Session, SessionOptions

TIERS = ("interpreted", "compiled")
_STEP = {8: 1e-4, 4: 2e-2}
_RTOL = {8: 1e-6, 4: 2e-3}
"""Step and relative tolerance by bytes of a real component: float32 finds a wrong factor, not a wrong digit."""


@dataclasses.dataclass
class Problem:
    """One function to check: the tensors ``ys`` as a function of the tensors ``xs``, at ``values``."""

    name: str
    ys: list[Tensor]
    xs: list[Tensor]
    values: list[np.ndarray]


def check_gradients(
    f_or_ys: Any,
    xs: Any,
    values: Any = None,
    *,
    order: int = 2,
    feed_dict: dict[Any, Any] | None = None,
    tiers: Sequence[str] = TIERS,
    session: Any = None,
    directions: int = 2,
    step: float | None = None,
    rtol: float | None = None,
    atol: float = 1e-9,
    seed: int = 0,
) -> None:
    """Compare symbolic with numeric gradients; return nothing if they agree.

    Args:
        f_or_ys: a function of tensors that returns a tensor or a list of them, or these tensors themselves.
        xs: for a function, the arrays at which it is checked; for tensors, the tensors to differentiate with respect to
            (they are fed).
        values: for tensors, the arrays at which they are checked.
        order: 1 checks ``tf.gradients``, 2 also the gradients of the gradients, and so on.
        feed_dict: what else must be fed.
        tiers: tiers that are checked.
        session: check in this session (its variables, its tier) instead of new ones.
        directions: random directions for each order.
        step: step of the differences; follows the dtype if None.
        rtol: relative tolerance; follows the dtype if None.
        atol: absolute tolerance.
        seed: seed of cotangents and directions.

    Raises:
        AssertionError: they differ; the message says where and by how much. TypeError: xs or ys are not floating or
            complex.

    Example:
        >>> import anabranch as tf
        >>> from anabranch.testing import check_gradients
        >>> check_gradients(tf.exp, [[0.5, -1.0]])
    """
    with contextlib.ExitStack() as stack:
        if callable(f_or_ys) and not isinstance(f_or_ys, Tensor):
            if values is not None:
                raise TypeError(
                    errors.message("a function and values=", "values for tensors only", "check_gradients(f, arrays)")
                )
            arrays = [_as_continuous(value) for value in _listed(xs)]
            graph = session.graph if session is not None else Graph()
            stack.enter_context(graph.as_default())
            tensors = [build("Placeholder", dtype=dtypes.as_dtype(a.dtype), shape=a.shape) for a in arrays]
            ys = _listed(f_or_ys(*tensors))
        else:
            ys, tensors = _listed(f_or_ys), [convert_to_tensor(x) for x in _listed(xs)]
            if values is None:
                raise TypeError(errors.message("tensors without values=", "an array for each x", "values=[...]"))
            arrays = [np.asarray(v, x.dtype.base.np) for x, v in zip(tensors, _listed(values), strict=True)]
        problem = Problem("the function", [convert_to_tensor(y) for y in ys], tensors, arrays)
        failures = check_problems(
            [problem],
            order=order,
            feed_dict=feed_dict,
            tiers=tiers,
            session=session,
            directions=directions,
            step=step,
            rtol=rtol,
            atol=atol,
            seed=seed,
        )
    if failures:
        raise AssertionError("\n".join(failures))


def check_problems(
    problems: Sequence[Problem],
    *,
    order: int = 2,
    feed_dict: dict[Any, Any] | None = None,
    tiers: Sequence[str] = TIERS,
    session: Any = None,
    directions: int = 2,
    step: float | None = None,
    rtol: float | None = None,
    atol: float = 1e-9,
    seed: int = 0,
) -> list[str]:
    """Check several functions of one graph in common programs; a text for each that fails (see
    :func:`check_gradients`).
    """
    problems = list(problems)
    if not problems:
        return []
    for problem in problems:
        _check_dtypes(problem)
    graph = problems[0].xs[0].graph
    random = np.random.default_rng(seed)
    options = step, rtol, atol
    failures: list[str] = []
    with contextlib.ExitStack() as stack:
        stack.enter_context(graph.as_default())
        levels = []
        following: list[Problem] = problems
        for _ in range(order):
            levels.append(_Level(following, random, *options))
            following = levels[-1].following
        runners = [(name, stack.enter_context(run)) for name, run in _runners(graph, tiers, session, feed_dict or {})]
        # Differences come from the first tier; the symbolic gradients of all orders are one step of each tier.
        values = [problem.values for problem in problems]
        for level in levels:
            values = level.start(values, runners[0][1])
        symbolic = [(name, run(*_joined(levels))) for name, run in runners]
        for position, level in enumerate(levels):
            of_tiers = [(name, level.arranged(gradient[position])) for name, gradient in symbolic]
            failures += [f"{name}, order {position + 1}, {text}" for name, text in level.failures(of_tiers, directions)]
    return failures


def _joined(levels: Sequence[_Level]) -> tuple[list[Any], dict[Any, Any]]:
    """What one step fetches to compute the gradients of all orders, and what it is fed."""
    feed: dict[Any, Any] = {}
    for level in levels:
        feed.update(level.feed(level.values))
        for tensors, arrays in zip(level.cotangents, level.us, strict=True):
            feed.update(zip(tensors, arrays, strict=True))
    return [level.fetches for level in levels], feed


class _Level:
    """The functions of one order, with everything that is needed to evaluate them and their gradients."""

    def __init__(
        self,
        problems: list[Problem],
        random: np.random.Generator,
        step: float | None,
        rtol: float | None,
        atol: float,
    ) -> None:
        self.problems = problems
        self.random = random
        self.step = step
        self.rtol = rtol
        self.atol = atol
        self.cotangents, self.slopes, self.following = _differentiate(problems)
        self.fetches = [[g for g in gs if g is not None] for gs in self.slopes]
        self.values: list[list[np.ndarray]] = []
        self.us: list[list[np.ndarray]] = []
        self.run: Callable[..., Any] = lambda fetches, feed: None

    def start(self, values: list[list[np.ndarray]], run: Callable[..., Any]) -> list[list[np.ndarray]]:
        """Draw cotangents at ``values``; return the values at which the functions of the next order are checked."""
        self.values, self.run = values, run
        self.us = [[_directions(self.random, array) for array in arrays] for arrays in self._evaluate(values)]
        differentiable = [i for i, gs in enumerate(self.slopes) if any(gradient is not None for gradient in gs)]
        return [self.values[i] + self.us[i] for i in differentiable]

    def arranged(self, slopes: list[list[np.ndarray]]) -> list[list[Any]]:
        """The fetched gradients with None where there is none."""
        result = []
        for gs, arrays in zip(self.slopes, slopes, strict=True):
            remaining = iter(arrays)
            result.append([None if g is None else next(remaining) for g in gs])
        return result

    def failures(self, symbolic: Sequence[tuple[str, list[list[Any]]]], directions: int) -> Iterator[tuple[str, str]]:
        """Name and text of each function whose gradients differ, for each tier."""
        failed: set[tuple[int, str]] = set()
        for _ in range(directions if self.problems else 0):
            ds = [[_directions(self.random, array) for array in arrays] for arrays in self.values]
            numeric = self._numeric(ds)
            for tier, gradients_ in symbolic:
                for index, problem in enumerate(self.problems):
                    if (index, tier) in failed:
                        continue
                    difference = self._compare(index, numeric[index], gradients_[index], ds[index])
                    if difference is not None:
                        failed.add((index, tier))
                        yield problem.name, f"{tier}: {difference}"

    def feed(self, values: list[list[np.ndarray]]) -> dict[Any, Any]:
        """What the functions are fed at ``values``."""
        return {
            x: array
            for problem, arrays in zip(self.problems, values, strict=True)
            for x, array in zip(problem.xs, arrays, strict=True)
        }

    def _evaluate(self, values: list[list[np.ndarray]]) -> list[list[np.ndarray]]:
        return self.run([problem.ys for problem in self.problems], self.feed(values)) if self.problems else []

    def _numeric(self, ds: list[list[np.ndarray]]) -> list[float]:
        """Derivatives of the projected outputs along ``ds``, one for each function."""
        steps = [self.step or _STEP[_component_size(arrays)] for arrays in self.values]
        sides = {}
        for factor in (1.0, -1.0, 0.5, -0.5):
            moved = [
                [np.asarray(x + factor * h * d, x.dtype) for x, d in zip(xs, dirs, strict=True)]
                for xs, dirs, h in zip(self.values, ds, steps, strict=True)
            ]
            sides[factor] = self._evaluate(moved)
        numeric = []
        for index, h in enumerate(steps):
            wide = self._projected(index, sides[1.0], sides[-1.0]) / (2 * h)
            narrow = self._projected(index, sides[0.5], sides[-0.5]) / h
            numeric.append((4 * narrow - wide) / 3)
        return numeric

    def _projected(self, index: int, up: list[list[np.ndarray]], down: list[list[np.ndarray]]) -> float:
        total = 0.0
        for u, high, low in zip(self.us[index], up[index], down[index], strict=True):
            with np.errstate(invalid="ignore"):  # values that are not finite fail the comparison
                total += float(np.sum(np.conj(_wide(u)) * (_wide(high) - _wide(low))).real)
        return total

    def _compare(self, index: int, numeric: float, slopes: list[Any], ds: list[np.ndarray]) -> str | None:
        products = [
            (np.conj(_wide(g)) * _wide(d)).real.ravel() for g, d in zip(slopes, ds, strict=True) if g is not None
        ]
        joined = np.concatenate([np.zeros(1), *products])
        symbolic = float(joined.sum())
        scale = max(float(np.sqrt(np.sum(joined**2))), abs(numeric))
        rtol = self.rtol if self.rtol is not None else _RTOL[_component_size(self.values[index])]
        error = abs(symbolic - numeric)
        if error <= self.atol * max(1.0, scale) + rtol * scale:
            return None
        problem = self.problems[index]
        missing = [x.name for x, g in zip(problem.xs, slopes, strict=True) if g is None]
        relative = error / scale if scale else error
        return (
            f"the symbolic gradient gives {symbolic:.12g} along a random direction, central differences {numeric:.12g} "
            f"(they differ by {relative:.3g} of the norm; allowed {rtol:.3g}); ys {[y.name for y in problem.ys]}, xs "
            f"{[x.name for x in problem.xs]}" + (f"; no gradient at all for {missing}" if missing else "")
        )


def _differentiate(problems: Sequence[Problem]) -> tuple[list[list[Tensor]], list[list[Any]], list[Problem]]:
    """Placeholders for cotangents, gradients, and the gradients as functions to check at the next order."""
    us: list[list[Tensor]] = []
    slopes: list[list[Any]] = []
    following = []
    for problem in problems:
        starts = [build("Placeholder", dtype=y.dtype.base, shape=y.shape, name="cotangent") for y in problem.ys]
        with warnings.catch_warnings():
            # Sparse gradients of unknown size are compared as dense ones here.
            warnings.filterwarnings("ignore", message="Converting sparse IndexedSlices")
            gradients_of_ys = gradients(problem.ys, problem.xs, grad_ys=starts)
            dense = [None if g is None else convert_to_tensor(g) for g in gradients_of_ys]
        us.append(starts)
        slopes.append(dense)
        if any(g is not None for g in dense):
            ys = [g for g in dense if g is not None]
            following.append(Problem(problem.name, ys, problem.xs + starts, []))
    return us, slopes, following


@contextlib.contextmanager
def _runner(active: Any, feed_dict: dict[Any, Any]) -> Iterator[Callable[..., Any]]:
    """A function that runs fetches with feeds; a session of our own is closed in the end."""
    yield lambda fetches, feed: active.run(fetches, {**feed_dict, **feed})


@contextlib.contextmanager
def _tier_runner(graph: Graph, tier: str, feed_dict: dict[Any, Any]) -> Iterator[Callable[..., Any]]:
    with Session(graph=graph, config=SessionOptions(tier=tier)) as active, _runner(active, feed_dict) as run:
        yield run


def _runners(
    graph: Graph, tiers: Sequence[str], session: Any, feed_dict: dict[Any, Any]
) -> list[tuple[str, contextlib.AbstractContextManager[Callable[..., Any]]]]:
    if session is not None:
        return [("in the given session", _runner(session, feed_dict))]
    return [(tier, _tier_runner(graph, tier, feed_dict)) for tier in tiers]


def _directions(random: np.random.Generator, like: np.ndarray) -> np.ndarray:
    """Random signs times magnitudes between 0.5 and 1.5, of the dtype and shape of ``like``."""

    def one() -> np.ndarray:
        return random.choice([-1.0, 1.0], like.shape) * random.uniform(0.5, 1.5, like.shape)

    array = one() + 1j * one() if np.iscomplexobj(like) else one()
    return np.asarray(array).astype(np.asarray(like).dtype)


def _wide(array: Any) -> np.ndarray:
    array = np.asarray(array)
    return array.astype(np.complex128 if np.iscomplexobj(array) else np.float64)


def _component_size(arrays: Sequence[np.ndarray]) -> int:
    return min(array.real.dtype.itemsize for array in arrays)


def _as_continuous(value: Any) -> np.ndarray:
    array = np.asarray(value)
    return array if array.dtype.kind in "fc" else array.astype(np.float64)


def _listed(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def _check_dtypes(problem: Problem) -> None:
    allowed = (dtypes.float64, dtypes.float32, dtypes.complex128, dtypes.complex64)
    for tensor in (*problem.xs, *problem.ys):
        if tensor.dtype.base not in allowed:
            raise TypeError(
                errors.message(
                    f"tensor {tensor.name!r} of dtype {tensor.dtype.base.name} in a gradient check",
                    "float64 or complex128 (float32 and complex64 with a wide tolerance)",
                    "leave it out of xs and ys, or build the function with float64",
                )
            )
    if not problem.xs or not problem.ys:
        raise ValueError(errors.message("no xs or no ys", "at least one of each", "check_gradients(f, [array])"))
