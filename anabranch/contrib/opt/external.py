"""Minimisation by an optimizer outside the graph: SciPy asks for the loss and its gradient at points of its own.

All variables are one vector to the outer optimizer. While it searches, variables are fed, not changed; they are
assigned once, when it ends.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.train.optimizer import is_resource

Point = np.ndarray


@public("contrib.opt.ExternalOptimizerInterface")
class ExternalOptimizerInterface:
    """Base of interfaces to optimizers outside the graph; a subclass says how to minimise in :meth:`_minimize`.

    Args:
        loss: the scalar to minimise.
        var_list: variables; all trainable ones by default.
        equalities: tensors that must be zero.
        inequalities: tensors that must not be negative.
        var_to_bounds: variable -> (lowest, highest) values, numbers or arrays of the variable's shape.
        **optimizer_kwargs: for the outer optimizer.
    """

    def __init__(
        self,
        loss: Any,
        var_list: Sequence[Any] | None = None,
        equalities: Sequence[Any] | None = None,
        inequalities: Sequence[Any] | None = None,
        var_to_bounds: dict[Any, Any] | None = None,
        **optimizer_kwargs: Any,
    ) -> None:
        self._loss = tf.convert_to_tensor(loss)
        if self._loss.shape.ndims not in (None, 0):
            raise ValueError(errors.message(f"a loss of shape {self._loss.shape}", "a scalar", "tf.reduce_sum(loss)"))
        self._vars = list(tf.trainable_variables() if var_list is None else var_list)
        if not self._vars:
            raise ValueError(errors.message("no variables", "what to minimise over", "tf.Variable(...)"))
        for var in self._vars:
            if not var.get_shape().is_fully_defined():
                raise ValueError(
                    errors.message(
                        f"{var.name} of shape {var.get_shape()}", "a known shape", "tf.get_variable(..., shape)"
                    )
                )
        self._equalities, self._inequalities = list(equalities or []), list(inequalities or [])
        self._bounds = self._packed_bounds(var_to_bounds)
        self.optimizer_kwargs = optimizer_kwargs
        sizes = [int(np.prod(var.get_shape().as_list(), dtype=np.int64)) for var in self._vars]
        ends = np.cumsum(sizes).tolist()
        self._slices = [slice(end - size, end) for end, size in zip(ends, sizes, strict=True)]
        with tf.name_scope("external_optimizer"):
            self._loss_grad = self._packed_gradient(self._loss)
            self._constraint_grads = [self._packed_gradient(c) for c in self._equalities + self._inequalities]
            self._places = [tf.placeholder(var.dtype.base_dtype, var.get_shape()) for var in self._vars]
            self._assign = tf.group(*[v.assign(place) for v, place in zip(self._vars, self._places, strict=True)])

    def minimize(
        self,
        session: Any = None,
        feed_dict: dict[Any, Any] | None = None,
        fetches: Sequence[Any] | None = None,
        step_callback: Callable[[Point], Any] | None = None,
        loss_callback: Callable[..., Any] | None = None,
        **run_kwargs: Any,
    ) -> None:
        """Minimise, and assign the variables what was found.

        Args:
            session: the session; the default one otherwise.
            feed_dict: what the loss needs.
            fetches: tensors evaluated with each loss and given to ``loss_callback``.
            step_callback: called at each step of the outer optimizer with the vector of all variables.
            loss_callback: called with the values of ``fetches`` each time the loss is evaluated.
            **run_kwargs: for the session's ``run``.
        """
        session = session or tf.get_default_session()
        if session is None:
            raise ValueError(errors.message("no session", "a session to run in", "minimize(session=session)"))
        fetches, feed = list(fetches or []), dict(feed_dict or {})
        on_loss = loss_callback or (lambda *values: None)
        loss_grad = self._evaluation(session, [self._loss, self._loss_grad], feed, fetches, on_loss, run_kwargs)
        constraints = self._equalities + self._inequalities
        functions = [self._evaluation(session, [c], feed, [], None, run_kwargs) for c in constraints]
        gradients = [self._evaluation(session, [g], feed, [], None, run_kwargs) for g in self._constraint_grads]
        split = len(self._equalities)
        start = np.concatenate([np.ravel(value) for value in session.run(self._vars)])
        minimum = self._minimize(
            initial_val=start,
            loss_grad_func=lambda x: tuple(loss_grad(x)),
            equality_funcs=[_first(f) for f in functions[:split]],
            equality_grad_funcs=[_first(f) for f in gradients[:split]],
            inequality_funcs=[_first(f) for f in functions[split:]],
            inequality_grad_funcs=[_first(f) for f in gradients[split:]],
            packed_bounds=self._bounds,
            step_callback=step_callback or (lambda x: None),
            optimizer_kwargs=self.optimizer_kwargs,
        )
        session.run(self._assign, dict(zip(self._places, self._parts(np.asarray(minimum)), strict=True)), **run_kwargs)

    def _minimize(
        self,
        initial_val: Point,
        loss_grad_func: Any,
        equality_funcs: Any,
        equality_grad_funcs: Any,
        inequality_funcs: Any,
        inequality_grad_funcs: Any,
        packed_bounds: Any,
        step_callback: Any,
        optimizer_kwargs: Any,
    ) -> Point:
        """The vector of all variables at the minimum."""
        raise NotImplementedError(
            errors.message(f"{type(self).__name__} without _minimize", "a way to minimise", "override _minimize")
        )

    def _parts(self, x: Point) -> list[np.ndarray]:
        """The value of each variable in a vector of all."""
        return [
            x[part].reshape(var.get_shape().as_list()).astype(var.dtype.base_dtype.as_numpy_dtype)
            for part, var in zip(self._slices, self._vars, strict=True)
        ]

    def _packed_gradient(self, target: Any) -> Any:
        """The gradient of a tensor in all variables as one vector; zeros for those it does not depend on."""
        flat = [
            tf.zeros([math.prod(var.get_shape().as_list())], var.dtype.base_dtype)
            if grad is None
            else tf.reshape(tf.convert_to_tensor(grad), [-1])
            for grad, var in zip(tf.gradients(target, self._vars), self._vars, strict=True)
        ]
        kinds = {item.dtype for item in flat}
        if len(kinds) > 1:
            flat = [tf.cast(item, tf.float64) for item in flat]
        return flat[0] if len(flat) == 1 else tf.concat(flat, 0)

    def _packed_bounds(self, var_to_bounds: dict[Any, Any] | None) -> list[tuple[float, float]] | None:
        if var_to_bounds is None:
            return None
        bounds: list[tuple[float, float]] = []
        for var in self._vars:
            low, high = next((pair for key, pair in var_to_bounds.items() if key is var), (-np.inf, np.inf))
            shape = var.get_shape().as_list()
            pairs = (np.broadcast_to(np.asarray(side, np.float64), shape).ravel().tolist() for side in (low, high))
            bounds += zip(*pairs, strict=True)
        return bounds

    def _evaluation(
        self,
        session: Any,
        tensors: list[Any],
        feed: dict[Any, Any],
        fetches: list[Any],
        callback: Callable[..., Any] | None,
        run_kwargs: dict[str, Any],
    ) -> Callable[[Point], list[Any]]:
        """A function of a point that gives values of tensors there."""
        # Feeding a variable by reference replaces it wherever it is read or fetched; one by handle only where fetched.
        fed = not any(is_resource(var) for var in self._vars)
        keys = self._vars if fed else self._places

        def evaluate(x: Point) -> list[Any]:
            values = dict(zip(keys, self._parts(x), strict=True))
            if not fed:
                session.run(self._assign, values)
                values = {}
            results = session.run(tensors + fetches, {**feed, **values}, **run_kwargs)
            if callback is not None:
                callback(*results[len(tensors) :])
            return results[: len(tensors)]

        return evaluate


def _first(evaluate: Callable[[Point], list[Any]]) -> Callable[[Point], Any]:
    return lambda x: np.asarray(evaluate(x)[0], np.float64)


@public("contrib.opt.ScipyOptimizerInterface")
class ScipyOptimizerInterface(ExternalOptimizerInterface):
    """``scipy.optimize.minimize`` on the variables of a graph; L-BFGS-B unless ``method=`` says otherwise.

    ``options={"maxiter": 100}`` and other arguments go to SciPy, which must be installed. With equalities or
    inequalities the method must be one that knows constraints, such as SLSQP.
    """

    _DEFAULT_METHOD = "L-BFGS-B"

    def _minimize(
        self,
        initial_val: Point,
        loss_grad_func: Any,
        equality_funcs: Any,
        equality_grad_funcs: Any,
        inequality_funcs: Any,
        inequality_grad_funcs: Any,
        packed_bounds: Any,
        step_callback: Any,
        optimizer_kwargs: Any,
    ) -> Point:
        try:
            import scipy.optimize
        except ImportError as problem:
            raise ImportError(
                errors.message("no SciPy", "an installed SciPy, which does the minimising", "pip install scipy")
            ) from problem

        def loss_grad(x: Point) -> tuple[float, Point]:
            loss, gradient = loss_grad_func(x)
            return float(loss), gradient.astype(np.float64)

        constraints = [
            {"type": kind, "fun": function, "jac": gradient}
            for kind, functions, gradients in (
                ("eq", equality_funcs, equality_grad_funcs),
                ("ineq", inequality_funcs, inequality_grad_funcs),
            )
            for function, gradient in zip(functions, gradients, strict=True)
        ]
        options = dict(optimizer_kwargs)
        for name in ("jac", "hess"):
            if name in options:
                raise ValueError(
                    f"Optimizer keyword arg '{name}' is set automatically and cannot be injected manually\n"
                    + errors.message(f"{name}=...", "what SciPy takes beside it", f"leave {name} out")
                )
        method = options.pop("method", self._DEFAULT_METHOD)
        if constraints and method == self._DEFAULT_METHOD:
            method = "SLSQP"
        result = scipy.optimize.minimize(
            loss_grad,
            initial_val.astype(np.float64),
            method=method,
            jac=True,
            bounds=packed_bounds,
            callback=step_callback,
            **({"constraints": constraints} if constraints else {}),
            **options,
        )
        message = result.message.decode() if isinstance(result.message, bytes) else result.message
        tf.logging.info(
            "Optimization terminated with:\n  Message: %s\n  Objective function value: %f\n"
            "  Number of iterations: %s\n  Number of functions evaluations: %d",
            message,
            result.fun,
            getattr(result, "nit", "unknown"),
            result.nfev,
        )
        return result.x
