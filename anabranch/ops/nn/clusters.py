"""Nearest centers of points, and points chosen as the first centers: what k-means is made of.

Distances are squared and Euclidean. Who chooses draws TensorFlow's words: the Philox stream of the seed, 23 bits for a
number in [0, 1), so that the same seed chooses the same points. k-means++ (Arthur and Vassilvitskii, 2007) draws
points in proportion to their distance from those chosen, each with some more candidates, of which the one stays that
leaves the least distance in all; k-MC2 (Bachem et al., 2016) does with one walk over a part of the points.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, Cost, NotDifferentiable, Op
from anabranch.core.values import shapes
from anabranch.ops.random import philox

_MOST_REDRAWS = 1000
"""Draws of points that were chosen already, after which the farthest of the others is taken."""
_BLOCK = 64


class _Words:
    """The 32-bit words of the Philox stream of a seed, in order."""

    def __init__(self, seed: int) -> None:
        self._key = np.array([seed & 0xFFFFFFFF, seed >> 32 & 0xFFFFFFFF], np.uint32)
        self._blocks = 0
        self._words: list[int] = []

    def next(self) -> int:
        """The next word."""
        if not self._words:
            counter = np.array([self._blocks & 0xFFFFFFFF, self._blocks >> 32, 0, 0], np.uint32)
            self._words = philox.host_words((self._key, counter), 4 * _BLOCK)[::-1].tolist()
            self._blocks += _BLOCK
        return self._words.pop()

    def fraction(self) -> np.float32:
        """A float32 in [0, 1)."""
        return np.float32(self.next() & 0x7FFFFF) * np.float32(2**-23)

    def below(self, count: int) -> int:
        """A whole number in [0, count), each as likely: of two words, the lower one first."""
        uneven = (1 << 64) % count
        while (number := self.next() | self.next() << 32) < uneven:
            pass
        return number % count


def _points(c: Any) -> tuple[int | None, ...]:
    dims: tuple[int | None, ...] = c.with_rank("points", 2)
    return dims


def _scalars(ctx: Any, **inputs: Any) -> None:
    for name, value in inputs.items():
        ctx.check(value.ndim == 0, errors.InvalidArgumentError, f"Input {name} should be a scalar.")


def _half_norms(xp: Any, points: Any) -> Any:
    return np.float32(0.5) * xp.sum(points * points, axis=1)


class NearestNeighbors(Op):
    """Of each of the points ``[n, d]`` the ``k`` nearest of the centers ``[m, d]``, nearest first.

    Their numbers and squared distances, ``[n, min(k, m)]``. Of centers as near the one with the lower number comes
    first.
    """

    signature = (
        "points: float, centers: float, k: int64 -> nearest_center_indices: int64, nearest_center_distances: float"
    )
    effect = PURE
    cost = Cost.HEAVY
    compile_time = ("k",)
    gradient = NotDifferentiable("it chooses")

    def shape(c):
        points, centers = _points(c), c.with_rank("centers", 2)
        shapes.merge_dim(points[1], centers[1])
        c.with_rank("k", 0)
        k = c.scalar("k")
        count = min(k, centers[0]) if k is not None and centers[0] is not None else None
        return [(points[0], count)] * 2

    def kernel(ctx, inputs, attrs):
        xp = ctx.xp
        points, centers, k = inputs
        wrong = errors.InvalidArgumentError
        ctx.check(points.ndim == 2, wrong, "Input points should be a matrix.")
        ctx.check(centers.ndim == 2, wrong, "Input centers should be a matrix.")
        _scalars(ctx, k=np.asarray(k))
        ctx.check(len(points) > 0, wrong, "Expected points.rows() > 0.")
        ctx.check(
            points.shape[1] == centers.shape[1],
            wrong,
            f"Expected point_dimensions == center_dimensions: {points.shape[1]} vs {centers.shape[1]}.",
        )
        k = min(int(k), len(centers))
        ctx.check(k >= 0, wrong, f"k = {k} must be at least 0")
        if k <= 0:
            return xp.zeros((len(points), 0), np.int64), xp.zeros((len(points), 0), np.float32)
        product = points @ centers.T if ctx.host else ctx.lax.dot(points, centers.T, precision="highest")
        half = _half_norms(xp, centers)[None, :] - product
        if k == 1:
            order = xp.argmin(half, axis=1)[:, None]
        elif ctx.host:
            order = np.argsort(half, axis=1, kind="stable")[:, :k]
        else:
            order = ctx.lax.top_k(-half, k)[1]
        least = xp.take_along_axis(half, order, axis=1) + _half_norms(xp, points)[:, None]
        return order.astype(np.int64), np.float32(2) * least


class KmeansPlusPlusInitialization(Op):
    """``num_to_sample`` of the points ``[n, d]``, chosen by k-means++ with more candidates for each.

    A negative number of retries stands for ``2 + log(num_to_sample)``.
    """

    signature = "points: float, num_to_sample: int64, seed: int64, num_retries_per_sample: int64 -> samples: float"
    effect = PURE
    cost = Cost.HEAVY
    gradient = NotDifferentiable("it chooses")

    def shape(c):
        for name in ("num_to_sample", "seed", "num_retries_per_sample"):
            c.with_rank(name, 0)
        return (c.scalar("num_to_sample"), _points(c)[1])

    def host_kernel(ctx, inputs, attrs):
        points, count, seed, retries = inputs
        wrong = errors.InvalidArgumentError
        ctx.check(points.ndim == 2, wrong, "Input points should be a matrix.")
        _scalars(ctx, num_to_sample=count, seed=seed, num_retries_per_sample=retries)
        ctx.check(len(points) > 0, wrong, "Expected points.rows() > 0.")
        ctx.check(count > 0, wrong, "Expected num_to_sample > 0.")
        ctx.check(
            count <= len(points), wrong, f"Expected num_to_sample <= points.rows(). {int(count)} vs {len(points)}."
        )
        tries = 1 + (int(retries) if retries >= 0 else 2 + int(math.log(count)))
        return points[_plus_plus(points, int(count), int(seed), tries)]


def _plus_plus(points: np.ndarray, count: int, seed: int, tries: int) -> list[int]:
    """Numbers of the points that k-means++ chooses."""
    words, half = _Words(seed), _half_norms(np, points)
    chosen: list[int] = []
    taken: set[int] = set()
    least = np.full(len(points), np.inf, np.float32)
    sums = least

    def draw() -> int:
        if not chosen:
            return words.below(len(points))
        for _ in range(_MOST_REDRAWS):
            place = int(np.searchsorted(sums, words.fraction() * sums[-1], side="right"))
            place = min(place, len(points) - 1)
            if place not in taken:
                return place
        others = np.setdiff1d(np.arange(len(points)), chosen)
        return int(others[np.argmax(least[others])])

    for _ in range(count):
        sums = np.cumsum(least, dtype=np.float32) if chosen else least
        best, best_sum, best_least = 0, np.inf, least
        for _ in range(tries):
            place = draw()
            candidate = np.minimum(least, (half - points @ points[place]) + half[place])
            total = candidate.sum()
            if total < best_sum:
                best, best_sum, best_least = place, total, candidate
        chosen.append(best)
        taken.add(best)
        least = best_least
    return chosen


class KMC2ChainInitialization(Op):
    """The number of the point on which a walk over points with given squared distances ``[n]`` ends.

    The walk goes from the first to the last; it moves to a point with probability ``min(1, its distance / that of where
    it is)``.
    """

    signature = "distances: float, seed: int64 -> index: int64"
    effect = PURE
    cost = Cost.HEAVY
    gradient = NotDifferentiable("it chooses")

    def shape(c):
        c.with_rank("distances", 1)
        c.with_rank("seed", 0)
        return ()

    def host_kernel(ctx, inputs, attrs):
        distances, seed = inputs
        ctx.check(distances.ndim == 1, errors.InvalidArgumentError, "Input distances should be a vector.")
        _scalars(ctx, seed=seed)
        ctx.check(len(distances) > 0, errors.InvalidArgumentError, "Expected distances_tensor.size() > 0.")
        words, place = _Words(int(seed)), 0
        for candidate in range(1, len(distances)):
            if distances[candidate] > words.fraction() * distances[place]:
                place = candidate
        return np.int64(place)
