"""Optimizers beyond those of ``tf.train``."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.train.optimizer import Optimizer, target_of
from anabranch.train.optimizers import AdamOptimizer, MomentumOptimizer


def _as(value: Any, var: Any) -> Any:
    return tf.cast(value, var.dtype.base_dtype)


@public("contrib.opt.LazyAdamOptimizer")
class LazyAdamOptimizer(AdamOptimizer):
    """Adam that, for a sparse gradient, touches only the rows that the gradient has.

    Moments of other rows do not decay, so results differ from those of ``AdamOptimizer``; large embeddings train
    faster.
    """

    def _sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        power1, power2 = (_as(power, var) for power in self._get_beta_accumulators())
        beta1, beta2 = _as(self._beta1_t, var), _as(self._beta2_t, var)
        rate = _as(self._lr_t, var) * tf.sqrt(1 - power2) / (1 - power1)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
        new_v = beta2 * tf.gather(v, indices) + (1 - beta2) * tf.square(grad)
        step = rate * new_m / (tf.sqrt(new_v) + _as(self._epsilon_t, var))
        return tf.group(
            tf.scatter_sub(var, indices, step, use_locking=self._use_locking),
            tf.scatter_update(m, indices, new_m, use_locking=self._use_locking),
            tf.scatter_update(v, indices, new_v, use_locking=self._use_locking),
        )


@public("contrib.opt.AdamGSOptimizer")
class AdamGSOptimizer(AdamOptimizer):
    """Adam that takes the number of its step from a variable of the program, and keeps no powers of its own.

    Args:
        global_step: the variable.
        learning_rate: float or scalar tensor.
        beta1: decay of the first moments.
        beta2: decay of the second moments.
        epsilon: added to the root of the second moment.
        use_locking: kept for compatibility.
        name: of the scope.
    """

    def __init__(
        self,
        global_step: Any = 0,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)
        self._global_step = global_step
        self._global_step_on_worker: Any = None

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        return tuple(tf.pow(beta, self._global_step_on_worker) for beta in (self._beta1_t, self._beta2_t))

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _prepare(self) -> None:
        super()._prepare()
        self._global_step_on_worker = tf.cast(tf.identity(self._global_step) + 1, tf.float32)

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Any:
        return tf.group(*update_ops, name=name_scope)


@public("contrib.opt.LazyAdamGSOptimizer")
class LazyAdamGSOptimizer(AdamGSOptimizer):
    """:class:`AdamGSOptimizer` that, for a sparse gradient, touches only the rows that the gradient has."""

    _sparse = LazyAdamOptimizer._sparse


@public("contrib.opt.NadamOptimizer")
class NadamOptimizer(AdamOptimizer):
    """Adam with Nesterov's momentum (Dozat, 2015): the step looks ahead by the newest gradient.

    A sparse gradient decays the moments of all rows, and moves the rows that it has.
    """

    _use_nesterov = True

    def _sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        power1, power2 = (_as(power, var) for power in self._get_beta_accumulators())
        beta1, beta2 = _as(self._beta1_t, var), _as(self._beta2_t, var)
        rate = _as(self._lr_t, var) * tf.sqrt(1 - power2) / (1 - power1)
        scaled = grad * (1 - beta1)
        m, m_done = self._decayed(var, "m", beta1, scaled, indices)
        v, v_done = self._decayed(var, "v", beta2, tf.square(grad) * (1 - beta2), indices)
        ahead = scaled + beta1 * tf.gather(m, indices)
        step = rate * ahead / (tf.sqrt(tf.gather(v, indices)) + _as(self._epsilon_t, var))
        return tf.group(tf.scatter_sub(var, indices, step, use_locking=self._use_locking), m_done, v_done)


@public("contrib.opt.AdaMaxOptimizer")
class AdaMaxOptimizer(AdamOptimizer):
    """Adam by the largest gradient (Kingma and Ba, 2015, section 7.1): ``v = max(beta2 * v, |g|)``.

    A sparse gradient touches only the rows that it has.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdaMax",
    ) -> None:
        super().__init__(learning_rate, beta1, beta2, epsilon, use_locking, name)

    def _get_beta_accumulators(self) -> Any:
        return self._get_non_slot_variable("beta1_power", current_builder())

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        first = min(var_list, key=lambda var: var.name)
        self._create_non_slot_variable(self._call_if_callable(self._beta1), "beta1_power", first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _dense(self, op: str, grad: Any, var: Any) -> Any:
        update = build(
            op.replace("Adam", "AdaMax"),
            var=target_of(var),
            m=target_of(self.get_slot(var, "m")),
            v=target_of(self.get_slot(var, "v")),
            beta1_power=_as(self._get_beta_accumulators(), var),
            lr=_as(self._lr_t, var),
            beta1=_as(self._beta1_t, var),
            beta2=_as(self._beta2_t, var),
            epsilon=_as(self._epsilon_t, var),
            grad=_as(grad, var),
            use_locking=self._use_locking,
        )
        return getattr(update, "op", update)

    def _sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        beta1, beta2 = _as(self._beta1_t, var), _as(self._beta2_t, var)
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        new_m = beta1 * tf.gather(m, indices) + (1 - beta1) * grad
        new_v = tf.maximum(beta2 * tf.gather(v, indices), tf.abs(grad))
        rate = _as(self._lr_t, var) / (1 - _as(self._get_beta_accumulators(), var))
        step = rate * new_m / (new_v + _as(self._epsilon_t, var))
        return tf.group(
            tf.scatter_sub(var, indices, step, use_locking=self._use_locking),
            tf.scatter_update(m, indices, new_m, use_locking=self._use_locking),
            tf.scatter_update(v, indices, new_v, use_locking=self._use_locking),
        )

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Any:
        power = self._get_beta_accumulators()
        with tf.control_dependencies(update_ops), tf.colocate_with(power):
            advanced = power.assign(power * self._beta1_t, use_locking=self._use_locking)
        return tf.group(*update_ops, advanced, name=name_scope)


@public("contrib.opt.DecoupledWeightDecayExtension")
class DecoupledWeightDecayExtension:
    """Weight decay apart from the gradient (Loshchilov and Hutter, 2017), to mix into an optimizer.

    Before an update each variable is decayed: ``var -= weight_decay * var``. The rate is not multiplied by the
    learning rate. Where a gradient is sparse, the rows that it has decay, and no others; an optimizer that adds sparse
    gradients to a variable row by row, as ``GradientDescentOptimizer`` does, lets none decay.

    Args:
        weight_decay: the rate; a number, a tensor, or a function that gives one.
        **kwargs: for the optimizer.
    """

    _use_locking: bool  # the optimizer's
    _in_update_of: Any = None

    def __init__(self, weight_decay: Any, **kwargs: Any) -> None:
        self._decay_var_list: list[Any] | None = None
        self._weight_decay = weight_decay
        self._weight_decay_tensor: Any = None
        super().__init__(**kwargs)

    def minimize(self, loss: Any, *args: Any, decay_var_list: Sequence[Any] | None = None, **kwargs: Any) -> Any:
        """Like an optimizer's ``minimize``; only variables of ``decay_var_list`` decay (all by default)."""
        self._decay_var_list = None if decay_var_list is None else list(decay_var_list)
        return super().minimize(loss, *args, **kwargs)  # type: ignore[misc]

    def apply_gradients(
        self,
        grads_and_vars: Any,
        global_step: Any = None,
        name: str | None = None,
        decay_var_list: Sequence[Any] | None = None,
    ) -> Any:
        """Like an optimizer's ``apply_gradients``; only variables of ``decay_var_list`` decay (all by default)."""
        if decay_var_list is not None:
            self._decay_var_list = list(decay_var_list)
        return super().apply_gradients(grads_and_vars, global_step=global_step, name=name)  # type: ignore[misc]

    def _prepare(self) -> None:
        rate = self._weight_decay
        self._weight_decay_tensor = tf.convert_to_tensor(rate() if callable(rate) else rate, name="weight_decay")
        super()._prepare()  # type: ignore[misc]

    @contextlib.contextmanager
    def _decayed_first(self, variable: Any, indices: Any = None) -> Iterator[None]:
        """A block whose ops run behind the decay of a variable, or of the rows of it that a gradient has.

        Optimizers update by one method what another is called for: the variable decays once.
        """
        listed = self._decay_var_list is None or any(variable is var for var in self._decay_var_list)
        if not listed or self._in_update_of is variable:
            yield
            return
        rate = _as(self._weight_decay_tensor, variable)
        if indices is None:
            decayed = variable.assign_sub(rate * variable)
        else:
            rows = rate * tf.gather(variable, indices)
            decayed = tf.scatter_sub(variable, indices, rows, use_locking=self._use_locking)
        self._in_update_of = variable
        try:
            with tf.control_dependencies([decayed]):
                yield
        finally:
            self._in_update_of = None

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        with self._decayed_first(var):
            return super()._apply_dense(grad, var)  # type: ignore[misc]

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        with self._decayed_first(handle):
            return super()._resource_apply_dense(grad, handle)  # type: ignore[misc]

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        with self._decayed_first(var, grad.indices):
            return super()._apply_sparse(grad, var)  # type: ignore[misc]

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        with self._decayed_first(handle, indices):
            return super()._resource_apply_sparse(grad, handle, indices)  # type: ignore[misc]


@public("contrib.opt.extend_with_decoupled_weight_decay")
def extend_with_decoupled_weight_decay(base_optimizer: type) -> type:
    """A class of an optimizer that takes ``weight_decay`` as its first argument, made of an optimizer's class."""

    class OptimizerWithDecoupledWeightDecay(DecoupledWeightDecayExtension, base_optimizer):
        """The optimizer with decoupled weight decay."""

        def __init__(self, weight_decay: Any, *args: Any, **kwargs: Any) -> None:
            base: Callable[..., Any] = base_optimizer.__init__  # type: ignore[misc]
            self._decay_var_list = None
            self._weight_decay, self._weight_decay_tensor = weight_decay, None
            base(self, *args, **kwargs)

    return OptimizerWithDecoupledWeightDecay


@public("contrib.opt.AdamWOptimizer")
class AdamWOptimizer(DecoupledWeightDecayExtension, AdamOptimizer):
    """Adam with decoupled weight decay."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "AdamW",
    ) -> None:
        super().__init__(
            weight_decay,
            learning_rate=learning_rate,
            beta1=beta1,
            beta2=beta2,
            epsilon=epsilon,
            use_locking=use_locking,
            name=name,
        )


@public("contrib.opt.MomentumWOptimizer")
class MomentumWOptimizer(DecoupledWeightDecayExtension, MomentumOptimizer):
    """Momentum with decoupled weight decay."""

    def __init__(
        self,
        weight_decay: Any,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "MomentumW",
        use_nesterov: bool = False,
    ) -> None:
        super().__init__(
            weight_decay,
            learning_rate=learning_rate,
            momentum=momentum,
            use_locking=use_locking,
            name=name,
            use_nesterov=use_nesterov,
        )


class _Sign(Optimizer):
    """What AddSign and PowerSign (Bello et al., 2017) share: a moving average of gradients and its sign."""

    _op = ""

    def __init__(
        self, learning_rate: Any, numbers: dict[str, Any], beta: Any, sign_decay_fn: Any, use_locking: bool, name: str
    ) -> None:
        super().__init__(use_locking, name)
        self._lr, self._given, self._beta, self._sign_decay_fn = learning_rate, numbers, beta, sign_decay_fn
        self._inputs: dict[str, Any] = {}

    def apply_gradients(self, grads_and_vars: Any, global_step: Any = None, name: str | None = None) -> Any:
        """Like an optimizer's; the decay of the sign's weight is a function of ``global_step``."""
        with tf.name_scope(self._name):
            decay = 1.0 if self._sign_decay_fn is None else self._sign_decay_fn(global_step)
            self._sign_decay = tf.convert_to_tensor(decay, name="sign_decay")
        return super().apply_gradients(grads_and_vars, global_step=global_step, name=name)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "m", self._name)

    def _prepare(self) -> None:
        named = {"lr": self._lr, "beta": self._beta, **self._given}
        self._inputs = {
            key: tf.convert_to_tensor(self._call_if_callable(value), name=key) for key, value in named.items()
        }

    def _dense(self, form: str, grad: Any, var: Any) -> Any:
        update = build(
            form + self._op,
            var=target_of(var),
            m=target_of(self.get_slot(var, "m")),
            grad=_as(grad, var),
            sign_decay=_as(self._sign_decay, var),
            use_locking=self._use_locking,
            **{key: _as(value, var) for key, value in self._inputs.items()},
        )
        return getattr(update, "op", update)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._dense("Apply", grad, var)

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return self._dense("ResourceApply", grad, handle)

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._apply_dense(tf.convert_to_tensor(grad), var)

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        dense = tf.convert_to_tensor(tf.IndexedSlices(grad, indices, tf.shape(handle)))
        return self._resource_apply_dense(dense, handle)


@public("contrib.opt.PowerSignOptimizer")
class PowerSignOptimizer(_Sign):
    """``var -= lr * base**(decay * sign(m) * sign(g)) * g`` with the moving average ``m`` of gradients."""

    _op = "PowerSign"

    def __init__(
        self,
        learning_rate: Any = 0.1,
        base: Any = 2.718281828459045,
        beta: Any = 0.9,
        sign_decay_fn: Any = None,
        use_locking: bool = False,
        name: str = "PowerSignOptimizer",
    ) -> None:
        super().__init__(learning_rate, {"logbase": math.log(base)}, beta, sign_decay_fn, use_locking, name)


@public("contrib.opt.AddSignOptimizer")
class AddSignOptimizer(_Sign):
    """``var -= lr * (alpha + decay * sign(m) * sign(g)) * g`` with the moving average ``m`` of gradients."""

    _op = "AddSign"

    def __init__(
        self,
        learning_rate: Any = 0.1,
        alpha: Any = 1.0,
        beta: Any = 0.9,
        sign_decay_fn: Any = None,
        use_locking: bool = False,
        name: str = "AddSignOptimizer",
    ) -> None:
        super().__init__(learning_rate, {"alpha": alpha}, beta, sign_decay_fn, use_locking, name)
