"""The optimizers: rules of those of ``tf.train``, whose numbers may be functions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.contrib.optimizer_v2.optimizer_v2 import OptimizerV2, State
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.train.optimizer import as_dtype_of, is_resource, operation_of, target_of


@public("contrib.optimizer_v2.GradientDescentOptimizer")
class GradientDescentOptimizer(OptimizerV2):
    """``var -= learning_rate * grad``; a sparse gradient touches only its rows.

    Args:
        learning_rate: number, scalar tensor, or a function that gives one.
        use_locking: kept for compatibility.
        name: of the scope.

    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     v = tf.Variable(3.0)
    ...     step = tf.contrib.optimizer_v2.GradientDescentOptimizer(lambda: 0.5).minimize(v * v)
    ...     session.run(tf.global_variables_initializer())
    ...     session.run(step)
    ...     print(session.run(v))
    0.0
    """

    _update_op = "GradientDescent"
    _update_hypers = {"alpha": "learning_rate"}

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent") -> None:
        super().__init__(use_locking, name)
        self._set_hyper("learning_rate", learning_rate)

    def _built(self, form: str, var: Any, state: State, **inputs: Any) -> Any:
        return super()._built(form, var, state, delta=inputs.pop("grad"))

    def _apply_sparse_duplicate_indices(self, grad: Any, var: Any, state: State) -> Any:  # type: ignore[override]
        delta = grad.values * state.get_hyper("learning_rate", var.dtype.base_dtype)
        return operation_of(build("ScatterSub", target_of(var), grad.indices, delta, use_locking=self._use_locking))

    def _resource_apply_sparse_duplicate_indices(  # type: ignore[override]
        self, grad: Any, handle: Any, indices: Any, state: State
    ) -> Any:
        delta = -grad * state.get_hyper("learning_rate", grad.dtype.base_dtype)
        return build("ResourceScatterAdd", handle.handle, indices, delta)


@public("contrib.optimizer_v2.MomentumOptimizer")
class MomentumOptimizer(OptimizerV2):
    """``accum = momentum * accum + grad; var -= learning_rate * accum``, or Nesterov's form (Sutskever et al., 2013).

    Args:
        learning_rate: number, scalar tensor, or a function that gives one.
        momentum: likewise.
        use_locking: kept for compatibility.
        name: of the scope.
        use_nesterov: Nesterov's form.
    """

    _update_op = "Momentum"
    _update_hypers = {"lr": "learning_rate", "momentum": "momentum"}
    _update_attrs = ("use_nesterov",)

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(use_locking, name)
        self._set_hyper("learning_rate", learning_rate)
        self._set_hyper("momentum", momentum)
        self._use_nesterov = use_nesterov

    def _slot_inputs(self) -> Sequence[tuple[str, str]]:
        return [("accum", "momentum")]

    def _create_vars(self, var_list: Sequence[Any], state: State) -> None:
        for var in var_list:
            state.zeros_slot(var, "momentum")


@public("contrib.optimizer_v2.AdagradOptimizer")
class AdagradOptimizer(OptimizerV2):
    """``accum += grad**2; var -= learning_rate * grad / sqrt(accum)`` (Duchi et al., 2011).

    Args:
        learning_rate: number, scalar tensor, or a function that gives one.
        initial_accumulator_value: start of the sums, above 0.
        use_locking: kept for compatibility.
        name: of the scope.
    """

    _update_op = "Adagrad"
    _update_hypers = {"lr": "learning_rate"}

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ) -> None:
        if initial_accumulator_value <= 0.0:
            raise ValueError(
                f"initial_accumulator_value must be positive: {initial_accumulator_value}\n"
                + errors.message(f"{initial_accumulator_value}", "a start of the sums above 0", "0.1")
            )
        super().__init__(use_locking, name)
        self._set_hyper("learning_rate", learning_rate)
        self._initial_accumulator_value = initial_accumulator_value

    def _slot_inputs(self) -> Sequence[tuple[str, str]]:
        return [("accum", "accumulator")]

    def _create_vars(self, var_list: Sequence[Any], state: State) -> None:
        for var in var_list:
            dtype = var.dtype.base_dtype
            start = tf.constant_initializer(self._initial_accumulator_value, dtype=dtype)
            self._filled_slot(var, start, self._initial_accumulator_value, "accumulator", self._name)


@public("contrib.optimizer_v2.AdadeltaOptimizer")
class AdadeltaOptimizer(OptimizerV2):
    """Adadelta (Zeiler, 2012).

    Args:
        learning_rate: number, scalar tensor, or a function that gives one.
        rho: decay of the means, likewise.
        epsilon: added to the means, likewise.
        use_locking: kept for compatibility.
        name: of the scope.
    """

    _update_op = "Adadelta"
    _update_slots = ("accum", "accum_update")
    _update_hypers = {"lr": "learning_rate", "rho": "rho", "epsilon": "epsilon"}

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ) -> None:
        super().__init__(use_locking, name)
        self._set_hyper("learning_rate", learning_rate)
        self._set_hyper("rho", rho)
        self._set_hyper("epsilon", epsilon)

    def _create_vars(self, var_list: Sequence[Any], state: State) -> None:
        for var in var_list:
            state.zeros_slot(var, "accum")
            state.zeros_slot(var, "accum_update")


@public("contrib.optimizer_v2.RMSPropOptimizer")
class RMSPropOptimizer(OptimizerV2):
    """RMSProp with momentum (Hinton), whose mean of squares starts at ``epsilon``, which is not added later on.

    Args:
        learning_rate: number, scalar tensor, or a function that gives one.
        decay: of the means, likewise.
        momentum: likewise.
        epsilon: where the mean of squares starts, likewise.
        use_locking: kept for compatibility.
        centered: subtract the square of a mean of the gradient.
        name: of the scope.
    """

    _update_hypers = {"lr": "learning_rate", "rho": "decay", "momentum": "momentum"}

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ) -> None:
        super().__init__(use_locking, name)
        self._set_hyper("learning_rate", learning_rate)
        self._set_hyper("decay", decay)
        self._set_hyper("momentum", momentum)
        self._set_hyper("epsilon", epsilon)
        self._centered = centered

    def _update_op_name(self) -> str:
        return "CenteredRMSProp" if self._centered else "RMSProp"

    def _slot_inputs(self) -> Sequence[tuple[str, str]]:
        mean = [("mg", "mg")] if self._centered else []
        return [*mean, ("ms", "rms"), ("mom", "momentum")]

    def _built(self, form: str, var: Any, state: State, **inputs: Any) -> Any:
        return super()._built(form, var, state, epsilon=tf.zeros([], var.dtype.base_dtype), **inputs)

    def _create_vars(self, var_list: Sequence[Any], state: State) -> None:
        for var in var_list:
            dtype = var.dtype.base_dtype
            start = state.get_hyper("epsilon", dtype) * tf.ones_like(var, dtype)
            state.create_slot_with_initializer(var, start, var.get_shape(), dtype, "rms")
            if self._centered:
                state.zeros_slot(var, "mg")
            state.zeros_slot(var, "momentum")


@public("contrib.optimizer_v2.AdamOptimizer")
class AdamOptimizer(OptimizerV2):
    """Adam (Kingma and Ba, 2015), in the form just before section 2.1: epsilon is the paper's epsilon hat.

    A sparse gradient decays the moments of all rows: it is the same step as with a dense gradient.

    Args:
        learning_rate: number, scalar tensor, or a function that gives one.
        beta1: decay of the first moment, likewise.
        beta2: decay of the second moment, likewise.
        epsilon: added to the root of the second moment, likewise.
        use_locking: kept for compatibility.
        name: of the scope.
    """

    _update_op = "Adam"
    _update_slots = ("m", "v")
    _update_hypers = {"lr": "learning_rate", "beta1": "beta1", "beta2": "beta2", "epsilon": "epsilon"}

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(use_locking, name)
        self._set_hyper("learning_rate", learning_rate)
        self._set_hyper("beta1", beta1)
        self._set_hyper("beta2", beta2)
        self._set_hyper("epsilon", epsilon)

    def _get_beta_accumulators(self, state: State | None = None) -> tuple[Any, Any]:
        state = state or self._state
        return state.get_non_slot("beta1_power"), state.get_non_slot("beta2_power")

    def _create_vars(self, var_list: Sequence[Any], state: State) -> None:
        state.create_non_slot(lambda: state.get_hyper("beta1"), "beta1_power")
        state.create_non_slot(lambda: state.get_hyper("beta2"), "beta2_power")
        for var in var_list:
            state.zeros_slot(var, "m")
            state.zeros_slot(var, "v")

    def _built(self, form: str, var: Any, state: State, **inputs: Any) -> Any:
        first, second = (as_dtype_of(power, var) for power in self._get_beta_accumulators(state))
        return super()._built(form, var, state, beta1_power=first, beta2_power=second, **inputs)

    def _sparse(self, grad: Any, var: Any, indices: Any, state: State) -> Any:
        first, second = (as_dtype_of(power, var) for power in self._get_beta_accumulators(state))
        dtype = var.dtype.base_dtype
        beta1, beta2 = state.get_hyper("beta1", dtype), state.get_hyper("beta2", dtype)
        rate = state.get_hyper("learning_rate", dtype) * tf.sqrt(1 - second) / (1 - first)
        m = self._decayed(state.get_slot(var, "m"), beta1, grad * (1 - beta1), indices)
        v = self._decayed(state.get_slot(var, "v"), beta2, grad * grad * (1 - beta2), indices)
        step = rate * m / (tf.sqrt(v) + state.get_hyper("epsilon", dtype))
        return tf.group(var.assign_sub(step, use_locking=self._use_locking), m, v)

    def _decayed(self, slot: Any, beta: Any, added: Any, indices: Any) -> Any:
        """A slot after ``slot = slot * beta`` and ``slot[indices] += added``."""
        with tf.control_dependencies([slot.assign(slot * beta, use_locking=self._use_locking)]):
            if not is_resource(slot):
                return build("ScatterAdd", target_of(slot), indices, added, use_locking=self._use_locking)
            with tf.control_dependencies([build("ResourceScatterAdd", slot.handle, indices, added)]):
                return slot.value()

    def _apply_sparse(self, grad: Any, var: Any, state: State) -> Any:  # type: ignore[override]
        return self._sparse(grad.values, var, grad.indices, state)

    def _resource_apply_sparse(  # type: ignore[override]
        self, grad: Any, handle: Any, indices: Any, state: State
    ) -> Any:
        return self._sparse(grad, handle, indices, state)

    def _finish(self, state: State) -> Any:  # type: ignore[override]
        powers = self._get_beta_accumulators(state)
        return tf.group(
            *(
                power.assign(power * state.get_hyper(beta, power.dtype.base_dtype), use_locking=self._use_locking)
                for power, beta in zip(powers, ("beta1", "beta2"), strict=True)
            )
        )
