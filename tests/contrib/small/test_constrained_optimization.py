"""`tf.contrib.constrained_optimization`: solutions and refusals; single steps stand in `tests/golden/contrib.json`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import anabranch as tf

library = tf.contrib.constrained_optimization


class Problem(library.ConstrainedMinimizationProblem):  # type: ignore[misc,name-defined]
    """Minimize the distance to (2, 2) where the sum is at most 2."""

    def __init__(self, shape: Any = (1,)) -> None:
        self.x = tf.get_variable("x", initializer=[0.0, 0.5])
        self.before = tf.get_variable("before", initializer=0.0)
        self._shape = shape

    @property
    def objective(self) -> Any:
        return tf.reduce_sum(tf.square(self.x - 2.0))

    @property
    def constraints(self) -> Any:
        return tf.reshape(tf.reduce_sum(self.x) - 2.0, [1])

    @property
    def proxy_constraints(self) -> Any:
        return tf.placeholder_with_default(self.constraints, self._shape)

    @property
    def pre_train_ops(self) -> Any:
        return [self.before.assign_add(1.0).op]


@pytest.mark.parametrize(
    "kind", ["AdditiveExternalRegretOptimizer", "AdditiveSwapRegretOptimizer", "MultiplicativeSwapRegretOptimizer"]
)
def test_solutions_keep_to_the_constraint(kind: str) -> None:
    with tf.Graph().as_default(), tf.Session(config=tf.SessionOptions(tier="interpreted")) as session:
        problem = Problem()
        optimizer = getattr(library, kind)(
            tf.train.GradientDescentOptimizer(0.05), tf.train.GradientDescentOptimizer(0.2)
        )
        step = optimizer.minimize(problem, 3, tf.train.get_or_create_global_step())
        session.run(tf.global_variables_initializer())
        for _ in range(200):
            session.run(step)
        np.testing.assert_allclose(session.run(problem.x), [1, 1], atol=0.1)
        assert session.run([problem.before, tf.train.get_global_step()]) == [200, 200]


def test_candidates() -> None:
    objectives, constraints = [3.0, 1.0, 2.0], [[-1.0, 1.0, 0.5], [0.0, 0.0, 3.0]]
    np.testing.assert_allclose(library.find_best_candidate_distribution(objectives, constraints), [0.5, 0.5, 0])
    # No distribution keeps to both: the least violation is where the two are equal.
    np.testing.assert_allclose(
        library.find_best_candidate_distribution([1.0, 2.0], [[1.0, 3.0], [2.0, 1.0]]), [2 / 3, 1 / 3], atol=1e-6
    )
    assert library.find_best_candidate_index(objectives, constraints) == 0
    assert library.find_best_candidate_index([1.0, 0.5, 0.5], [[1.0, 1.0, 1.0]]) == 2
    assert library.find_best_candidate_index([9.0, 0.0], [[0.0, 1.0], [0.0, 0.0]], rank_objectives=True) == 1
    with pytest.raises(ValueError, match="epsilon must be nonnegative"):
        library.find_best_candidate_distribution(objectives, constraints, -1.0)
    with pytest.raises(ValueError, match="constraints_matrix"):
        library.find_best_candidate_index(objectives, constraints[0])


def test_refusals() -> None:
    descent = tf.train.GradientDescentOptimizer(0.1)
    with pytest.raises(ValueError, match="maximum_multiplier_radius must be strictly positive"):
        library.AdditiveExternalRegretOptimizer(descent, maximum_multiplier_radius=-1.0)
    with pytest.raises(ValueError, match=r"minimum_multiplier_radius must be in the range \(0,1\)"):
        library.MultiplicativeSwapRegretOptimizer(descent, minimum_multiplier_radius=1.0)
    with pytest.raises(ValueError, match="initial_multiplier_radius must be in the range"):
        library.MultiplicativeSwapRegretOptimizer(descent, initial_multiplier_radius=1e-4)
    optimizer = library.AdditiveExternalRegretOptimizer(descent)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="global_step cannot be None"):
        optimizer.minimize(Problem(), unconstrained_steps=3)
    with tf.Graph().as_default(), pytest.raises(ValueError, match="must have fully-known shapes"):
        optimizer.minimize(Problem([None]))
