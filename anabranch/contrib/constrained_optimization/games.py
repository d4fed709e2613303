"""Optimizers of two players.

Each wraps an optimizer for the parameters and one for the state of the other player, which is the weights of the
constraints (external regret) or a stochastic matrix whose stationary distribution they are (swap regret).
"""

from __future__ import annotations

import abc
import math
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.train.optimizer import Optimizer


def _refused(text: str, given: str, expected: str, advice: str) -> ValueError:
    return ValueError(f"{text}\n" + errors.message(given, expected, advice))


def _projected(values: Any, limit: float, equal: bool) -> Any:
    """The nearest non-negative columns (along axis 0) whose sums are at most ``limit``, or equal to it."""
    size = values.shape[0].value

    def step(turn: Any, values: Any, free: Any, _: Any) -> Any:
        rest = limit - tf.reduce_sum(values, axis=0, keepdims=True)
        change = rest / tf.maximum(1.0, tf.reduce_sum(free, axis=0, keepdims=True))
        if not equal:
            change = tf.minimum(0.0, change)
        values = values + change * free
        positive = tf.cast(values > 0, values.dtype)
        return turn + 1, values * positive, positive, free

    def goes_on(turn: Any, _: Any, free: Any, before: Any) -> Any:
        return (turn < size) & tf.reduce_any(tf.not_equal(free, before))

    ones = tf.ones_like(values)
    start = step(tf.constant(0), values, ones, ones)
    return tf.while_loop(goes_on, step, start, name="euclidean_projection")[1]


def _checked_shape(values: Any, rank: int, what: str) -> None:
    shape = values.get_shape()
    if shape.ndims != rank:
        word = {1: "one", 2: "two"}[rank]
        raise _refused(
            f"{what} must be {word} dimensional (instead is {shape.ndims}-dimensional)",
            f"{what} of shape {shape}",
            f"rank {rank}",
            "tf.reshape",
        )
    if not shape.is_fully_defined():
        raise _refused(f"{what} must have fully-known shape", f"shape {shape}", "a known shape", "set_shape(shape)")
    if rank == 2 and shape[0] != shape[1]:
        raise _refused(
            f"{what} must be square (instead has shape {shape})", f"shape {shape}", "a square matrix", "[n, n]"
        )


def _project_multipliers_wrt_euclidean_norm(multipliers: Any, radius: float) -> Any:
    """The nearest weights ``[n]`` that are not negative and whose sum is at most ``radius``."""
    _checked_shape(multipliers, 1, "multipliers")
    return _projected(multipliers, radius, equal=False)


def _project_stochastic_matrix_wrt_euclidean_norm(matrix: Any) -> Any:
    """The nearest matrix ``[n, n]`` whose columns are distributions."""
    _checked_shape(matrix, 2, "matrix")
    return _projected(matrix, 1.0, equal=True)


def _project_log_stochastic_matrix_wrt_kl_divergence(log_matrix: Any) -> Any:
    """The logarithms of a matrix whose columns are distributions, the nearest one by Kullback and Leibler."""
    return log_matrix - tf.reduce_logsumexp(log_matrix, axis=0, keepdims=True)


def _maximal_eigenvector_power_method(matrix: Any, epsilon: float = 1e-6, maximum_iterations: int = 100) -> Any:
    """The eigenvector ``[n]`` of the largest eigenvalue, of length 1, by repeated multiplication."""
    for name, value in (("epsilon", epsilon), ("maximum_iterations", maximum_iterations)):
        if value <= 0:
            raise _refused(f"{name} must be strictly positive", f"{name}={value}", "a number above 0", f"{name}=1e-6")

    def step(turn: Any, vector: Any, _: Any) -> Any:
        moved = tf.matmul(matrix, vector[:, None])[:, 0]
        return turn + 1, moved / tf.norm(moved), vector

    def goes_on(turn: Any, vector: Any, before: Any) -> Any:
        return (turn < maximum_iterations) & (tf.norm(vector - before) > epsilon)

    ones = tf.ones_like(matrix[:, 0])
    ones /= tf.norm(ones)
    return tf.while_loop(goes_on, step, step(tf.constant(0), ones, ones), name="power_method")[1]


@public("contrib.constrained_optimization.ConstrainedOptimizer")
class ConstrainedOptimizer(abc.ABC):
    """Base class of optimizers under constraints.

    Args:
        optimizer: a ``tf.train.Optimizer`` for the parameters.

    A subclass overrides ``_minimize_constrained``, with the arguments of :meth:`minimize_constrained`.
    """

    def __init__(self, optimizer: Any) -> None:
        self._optimizer = optimizer

    @property
    def optimizer(self) -> Any:
        """The optimizer of the parameters."""
        return self._optimizer

    @abc.abstractmethod
    def _minimize_constrained(self, minimization_problem: Any, **arguments: Any) -> Any:
        """An update under the constraints, without the problem's ``pre_train_ops``."""

    def minimize_unconstrained(
        self,
        minimization_problem: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = Optimizer.GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Any:
        """An operation that updates the parameters by the objective alone.

        Arguments are those of ``tf.train.Optimizer.minimize``, with a problem in place of the loss.
        """
        with tf.control_dependencies(list(minimization_problem.pre_train_ops)):
            return self._optimizer.minimize(
                minimization_problem.objective,
                global_step,
                var_list,
                gate_gradients,
                aggregation_method,
                colocate_gradients_with_ops,
                name,
                grad_loss,
            )

    def minimize_constrained(
        self,
        minimization_problem: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = Optimizer.GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Any:
        """An operation that updates the parameters and the weights of the constraints.

        Arguments are those of ``tf.train.Optimizer.minimize``, with a problem in place of the loss.
        """
        with tf.control_dependencies(list(minimization_problem.pre_train_ops)):
            return self._minimize_constrained(
                minimization_problem,
                global_step=global_step,
                var_list=var_list,
                gate_gradients=gate_gradients,
                aggregation_method=aggregation_method,
                colocate_gradients_with_ops=colocate_gradients_with_ops,
                name=name,
                grad_loss=grad_loss,
            )

    def minimize(
        self,
        minimization_problem: Any,
        unconstrained_steps: Any = None,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = Optimizer.GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Any:
        """An operation that updates under the constraints, after ``unconstrained_steps`` without them.

        Other arguments are those of ``tf.train.Optimizer.minimize``.

        Raises:
            ValueError: ``unconstrained_steps`` without a global step.
        """
        arguments = {
            "global_step": global_step,
            "var_list": var_list,
            "gate_gradients": gate_gradients,
            "aggregation_method": aggregation_method,
            "colocate_gradients_with_ops": colocate_gradients_with_ops,
            "name": name,
            "grad_loss": grad_loss,
        }
        if unconstrained_steps is None:
            return self.minimize_constrained(minimization_problem, **arguments)
        if global_step is None:
            raise _refused(
                "global_step cannot be None if unconstrained_steps is provided",
                f"unconstrained_steps={unconstrained_steps}",
                "a global step",
                "global_step=tf.train.get_or_create_global_step()",
            )
        steps = tf.convert_to_tensor(unconstrained_steps)
        return tf.cond(
            tf.cast(global_step, steps.dtype) < steps,
            lambda: self.minimize_unconstrained(minimization_problem, **arguments),
            lambda: self.minimize_constrained(minimization_problem, **arguments),
        )


class _Game(ConstrainedOptimizer):
    """An optimizer with a second player, whose state is a variable."""

    _state_name: str

    def __init__(self, optimizer: Any, constraint_optimizer: Any = None) -> None:
        super().__init__(optimizer)
        self._constraint_optimizer = constraint_optimizer

    @property
    def constraint_optimizer(self) -> Any:
        """The optimizer of the second player; None where it is that of the parameters."""
        return self._constraint_optimizer

    @abc.abstractmethod
    def _initial_state(self, num_constraints: int) -> Any:
        """How the state starts."""

    @abc.abstractmethod
    def _projection_op(self, state: Any, name: str | None = None) -> Any:
        """The update that moves the state to the nearest one that is possible."""

    @abc.abstractmethod
    def _loss_and_gradient(self, state: Any, objective: Any, constraints: Any, proxies: Any) -> tuple[Any, Any]:
        """What the first player minimizes, and the gradient of what the second one maximizes."""

    def _constraint_grad_and_var(self, state: Any, gradient: Any) -> tuple[Any, Any]:
        return -gradient, state

    def _minimize_constrained(self, minimization_problem: Any, **arguments: Any) -> Any:
        global_step, name = arguments.pop("global_step"), arguments.pop("name")
        count = minimization_problem.num_constraints
        constraints = tf.reshape(minimization_problem.constraints, [count])
        proxies = minimization_problem.proxy_constraints
        proxies = constraints if proxies is None else tf.reshape(proxies, [count])
        state = tf.Variable(lambda: self._initial_state(count), trainable=False, name=self._state_name)
        loss, gradient = self._loss_and_gradient(state, minimization_problem.objective, constraints, proxies)
        pairs = self._optimizer.compute_gradients(loss, **arguments)
        own = [self._constraint_grad_and_var(state, gradient)]
        if self._constraint_optimizer is None:
            updates = [self._optimizer.apply_gradients([*pairs, *own], name="update")]
        else:
            with tf.control_dependencies([gradient for gradient, _ in [*pairs, *own] if gradient is not None]):
                updates = [
                    self._optimizer.apply_gradients(pairs, name="update"),
                    self._constraint_optimizer.apply_gradients(own, name="optimizer_state_update"),
                ]
        with tf.control_dependencies(updates):
            if global_step is None:
                return self._projection_op(state, name=name)
            projection = self._projection_op(state, name="project")
            with tf.colocate_with(global_step):
                advance = tf.assign_add(global_step, 1, name="global_step_increment")
            return tf.group(projection, advance, name=name)


@public("contrib.constrained_optimization.AdditiveExternalRegretOptimizer")
class AdditiveExternalRegretOptimizer(_Game):
    """Lagrange multipliers that move up the constraints: definition 1 and algorithm 3 of the paper.

    Args:
        optimizer: a ``tf.train.Optimizer`` for the parameters.
        constraint_optimizer: one for the multipliers; the same by default.
        maximum_multiplier_radius: bound of the multipliers' sum, above 0; None for none.

    Raises:
        ValueError: the bound is negative.

    >>> class Problem(tf.contrib.constrained_optimization.ConstrainedMinimizationProblem):
    ...     x = property(lambda self: tf.trainable_variables()[0])
    ...     objective = property(lambda self: tf.square(self.x))
    ...     constraints = property(lambda self: tf.reshape(1.0 - self.x, [1]))
    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     x = tf.Variable(0.0)
    ...     optimizer = tf.contrib.constrained_optimization.AdditiveExternalRegretOptimizer(
    ...         tf.train.GradientDescentOptimizer(0.2))
    ...     step = optimizer.minimize(Problem())
    ...     session.run(tf.global_variables_initializer())
    ...     for _ in range(200):
    ...         _ = session.run(step)
    ...     print(round(float(session.run(x)), 3))
    1.0
    """

    _state_name = "external_regret_optimizer_state"

    def __init__(
        self, optimizer: Any, constraint_optimizer: Any = None, maximum_multiplier_radius: float | None = None
    ) -> None:
        super().__init__(optimizer, constraint_optimizer)
        if maximum_multiplier_radius and maximum_multiplier_radius <= 0.0:
            raise _refused(
                "maximum_multiplier_radius must be strictly positive",
                f"maximum_multiplier_radius={maximum_multiplier_radius}",
                "a bound above 0, or None",
                "maximum_multiplier_radius=1.0",
            )
        self._maximum_multiplier_radius = maximum_multiplier_radius

    def _initial_state(self, num_constraints: int) -> Any:
        return tf.zeros([num_constraints])

    def _lagrange_multipliers(self, state: Any) -> Any:
        return state

    def _loss_and_gradient(self, state: Any, objective: Any, constraints: Any, proxies: Any) -> tuple[Any, Any]:
        return objective + tf.tensordot(self._lagrange_multipliers(state), proxies, 1), constraints

    def _projection_op(self, state: Any, name: str | None = None) -> Any:
        with tf.colocate_with(state):
            if self._maximum_multiplier_radius:
                moved = _project_multipliers_wrt_euclidean_norm(state, self._maximum_multiplier_radius)
            else:
                moved = tf.maximum(state, 0.0)
            return tf.assign(state, moved, name=name)


class _SwapRegretOptimizer(_Game):
    """A stochastic matrix whose stationary distribution weighs the objective and the constraints: definition 2."""

    _state_name = "swap_regret_optimizer_state"

    @abc.abstractmethod
    def _stochastic_matrix(self, state: Any) -> Any:
        """The matrix that the state stands for."""

    def _distribution(self, state: Any) -> Any:
        weights = tf.abs(_maximal_eigenvector_power_method(self._stochastic_matrix(state)))
        return weights / tf.reduce_sum(weights)

    def _loss_and_gradient(self, state: Any, objective: Any, constraints: Any, proxies: Any) -> tuple[Any, Any]:
        weights = self._distribution(state)
        loss = tf.tensordot(weights, tf.concat([tf.expand_dims(objective, 0), proxies], 0), 1)
        return loss, tf.concat([tf.zeros([1]), constraints], 0)[:, None] * weights[None]


@public("contrib.constrained_optimization.AdditiveSwapRegretOptimizer")
class AdditiveSwapRegretOptimizer(_SwapRegretOptimizer):
    """The matrix itself moves, and returns to the nearest stochastic one: like algorithm 2 of the paper.

    Args:
        optimizer: a ``tf.train.Optimizer`` for the parameters.
        constraint_optimizer: one for the matrix; the same by default.
    """

    def _initial_state(self, num_constraints: int) -> Any:
        size = num_constraints + 1
        return tf.concat([tf.ones([1, size]), tf.zeros([num_constraints, size])], 0)  # the objective alone

    def _stochastic_matrix(self, state: Any) -> Any:
        return state

    def _projection_op(self, state: Any, name: str | None = None) -> Any:
        with tf.colocate_with(state):
            return tf.assign(state, _project_stochastic_matrix_wrt_euclidean_norm(state), name=name)


@public("contrib.constrained_optimization.MultiplicativeSwapRegretOptimizer")
class MultiplicativeSwapRegretOptimizer(_SwapRegretOptimizer):
    """The logarithms of the matrix move: algorithm 2 of the paper.

    Args:
        optimizer: a ``tf.train.Optimizer`` for the parameters.
        constraint_optimizer: one for the matrix; the same by default.
        minimum_multiplier_radius: no element is less than this divided by one plus the number of constraints; between
            0 and 1.
        initial_multiplier_radius: where the elements for constraints start, likewise; the minimum by default.

    Raises:
        ValueError: radii that are not possible.
    """

    def __init__(
        self,
        optimizer: Any,
        constraint_optimizer: Any = None,
        minimum_multiplier_radius: float = 1e-3,
        initial_multiplier_radius: float | None = None,
    ) -> None:
        super().__init__(optimizer, constraint_optimizer)
        if not 0.0 < minimum_multiplier_radius < 1.0:
            raise _refused(
                "minimum_multiplier_radius must be in the range (0,1)",
                f"minimum_multiplier_radius={minimum_multiplier_radius}",
                "a number above 0 and below 1",
                "minimum_multiplier_radius=1e-3",
            )
        start = minimum_multiplier_radius if initial_multiplier_radius is None else initial_multiplier_radius
        if not minimum_multiplier_radius <= start <= 1.0:
            raise _refused(
                "initial_multiplier_radius must be in the range [minimum_multiplier_radius,1]",
                f"initial_multiplier_radius={initial_multiplier_radius}",
                f"a number from {minimum_multiplier_radius} to 1",
                "initial_multiplier_radius=None",
            )
        self._minimum_multiplier_radius, self._initial_multiplier_radius = minimum_multiplier_radius, start

    def _initial_state(self, num_constraints: int) -> Any:
        size = num_constraints + 1
        each = self._initial_multiplier_radius / size
        first = tf.fill([1, size], math.log(1.0 - each * num_constraints))
        return tf.concat([first, tf.fill([num_constraints, size], math.log(each))], 0)

    def _stochastic_matrix(self, state: Any) -> Any:
        return tf.exp(state)

    def _projection_op(self, state: Any, name: str | None = None) -> Any:
        with tf.colocate_with(state):
            least = math.log(self._minimum_multiplier_radius / state.shape[0].value)
            moved = _project_log_stochastic_matrix_wrt_kl_divergence(state)
            return tf.assign(state, tf.maximum(moved, least), name=name)
