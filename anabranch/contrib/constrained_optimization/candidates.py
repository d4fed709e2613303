"""Which of several solutions to take, by their objectives and constraints; NumPy throughout."""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public


def _checked(objectives: Any, constraints: Any) -> tuple[np.ndarray, np.ndarray]:
    objectives, constraints = np.asarray(objectives), np.asarray(constraints)
    if constraints.ndim != 2 or objectives.shape != constraints.shape[1:]:
        raise ValueError(
            "objective_vector must have shape (n,), and constraints_matrix (m, n), where n is the number of "
            "candidates, and m is the number of constraints\n"
            + errors.message(
                f"shapes {objectives.shape} and {constraints.shape}", "[n] and [m, n]", "constraints_matrix.T"
            )
        )
    return objectives, constraints


def _distribution(objectives: np.ndarray, constraints: np.ndarray, violation: float) -> np.ndarray | None:
    """The best distribution over candidates that violates each constraint by so much at most, or None."""
    from scipy import optimize

    count = len(objectives)
    result = optimize.linprog(
        objectives,
        A_ub=constraints,
        b_ub=np.full(len(constraints), violation),
        A_eq=np.ones((1, count)),
        b_eq=[1.0],
        bounds=(0, None),
    )
    return np.asarray(result.x) if result.success else None


@public("contrib.constrained_optimization.find_best_candidate_distribution")
def find_best_candidate_distribution(
    objective_vector: Any, constraints_matrix: Any, epsilon: float = 0.0
) -> np.ndarray:
    """Probabilities of candidates that minimize the expected objective under the expected constraints.

    Where no distribution keeps to the constraints, one that violates them least is found by halving an interval. At
    most ``m + 1`` probabilities are not 0. SciPy solves the linear programs.

    Args:
        objective_vector: ``[n]``, the objective of each candidate.
        constraints_matrix: ``[m, n]``, the constraints of each candidate, to be at most 0.
        epsilon: where to stop halving, at least 0.

    Returns:
        ``[n]`` float64.

    Raises:
        ValueError: shapes that do not go together, or a negative ``epsilon``.

    >>> find = tf.contrib.constrained_optimization.find_best_candidate_distribution
    >>> find([1.0, 0.0], [[-1.0, 1.0]]).tolist()
    [0.5, 0.5]
    """
    if epsilon < 0.0:
        raise ValueError(
            "epsilon must be nonnegative\n"
            + errors.message(f"epsilon={epsilon}", "a number not below 0", "epsilon=0.0")
        )
    objectives, constraints = _checked(objective_vector, constraints_matrix)
    best = _distribution(objectives, constraints, 0.0)
    if best is not None:
        return best
    lower, upper = 0.0, float(constraints.max(axis=0).min())  # one candidate alone reaches the upper bound
    best = _distribution(objectives, constraints, upper)
    while True:
        middle = 0.5 * (lower + upper)
        if middle - lower <= epsilon or upper - middle <= epsilon:
            break
        found = _distribution(objectives, constraints, middle)
        if found is None:
            lower = middle
        else:
            best, upper = found, middle
    if best is None:
        best = np.zeros(len(objectives))
        best[int(constraints.max(axis=0).argmin())] = 1.0
    return best


def _ranks(values: np.ndarray) -> np.ndarray:
    """How many values are smaller than each, plus 1."""
    return np.searchsorted(np.sort(values), values, side="left") + 1


@public("contrib.constrained_optimization.find_best_candidate_index")
def find_best_candidate_index(
    objective_vector: Any, constraints_matrix: Any, rank_objectives: bool = False
) -> int | None:
    """The candidate whose worst rank over the constraints is best; among equals the one of the least objective.

    Args:
        objective_vector: ``[n]``, the objective of each candidate.
        constraints_matrix: ``[m, n]``, the constraints of each candidate; those at most 0 are equally good.
        rank_objectives: rank the objectives too.

    Returns:
        A number below ``n``; the last one of those that are equal in all. None if no candidate is comparable (NaN).

    Raises:
        ValueError: shapes that do not go together.

    >>> tf.contrib.constrained_optimization.find_best_candidate_index([3.0, 1.0, 2.0], [[0.0, 2.0, 1.0]])
    0
    """
    objectives, constraints = _checked(objective_vector, constraints_matrix)
    worst = _ranks(objectives) if rank_objectives else np.zeros(len(objectives), np.int64)
    for row in constraints:
        worst = np.maximum(worst, _ranks(np.maximum(0.0, row)))
    best: int | None = None
    for index, (rank, objective) in enumerate(zip(worst, objectives, strict=True)):
        if best is None or rank < worst[best] or (rank == worst[best] and objective <= objectives[best]):
            best = index
    return best
