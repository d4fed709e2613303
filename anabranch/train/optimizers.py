"""TensorFlow 1.x's optimizers. Each says what it keeps and which update op it builds; formulas stand at the ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Operation
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import dtypes
from anabranch.ops.control.public_dependencies import group
from anabranch.train.optimizer import Optimizer, as_dtype_of, is_resource, operation_of, target_of
from anabranch.train.slots import start_of
from anabranch.variables.initializers import Constant, Ones

# A rule that is linear in the gradient holds for complex variables, too.
LINEAR_RULE_DTYPES = {dtypes.complex64, dtypes.complex128}


def _constant_like(var: Any, value: float) -> Any:
    """A tensor of the variable's shape that is ``value`` everywhere."""
    dtype, shape = var.dtype.base, var.get_shape()
    with current_builder().colocate_with(var):
        if shape.is_fully_defined():
            return convert.constant(value, dtype, shape)
        return build("Fill", build("Shape", start_of(var)), convert.constant(value, dtype))


def _not_negative(name: str, value: Any, allow_zero: bool = True) -> None:
    if isinstance(value, (int, float)) and (value < 0 or (value == 0 and not allow_zero)):
        bound = ">= 0" if allow_zero else "> 0"
        raise ValueError(
            f"{name} {value} needs to be {'positive or zero' if allow_zero else 'positive'}\n"
            + errors.message(f"{name}={value}", bound, f"{name} {bound}")
        )


@public("train.GradientDescentOptimizer")
class GradientDescentOptimizer(Optimizer):
    """``var -= learning_rate * grad``; a sparse gradient touches only its rows."""

    _update_op = "GradientDescent"
    _update_numbers = {"alpha": "learning_rate"}

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent"):
        super().__init__(use_locking, name)
        self._learning_rate = self._alpha = learning_rate

    def _build_update(self, form: str, var: Any, **inputs: Any) -> Any:
        inputs["delta"] = inputs.pop("grad")
        return super()._build_update(form, var, **inputs)

    def _valid_dtypes(self) -> set[dtypes.DType]:
        return super()._valid_dtypes() | LINEAR_RULE_DTYPES

    def _rate(self, var: Any) -> Any:
        return self._numbers_for(var)["alpha"]

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Any) -> Any:
        delta = grad.values * self._rate(var)
        return operation_of(build("ScatterSub", target_of(var), grad.indices, delta, use_locking=self._use_locking))

    def _resource_apply_sparse_duplicate_indices(self, grad: Any, handle: Any, indices: Any) -> Any:
        rate = self._rate(handle) if callable(self._learning_rate) else self._learning_rate
        return build("ResourceScatterAdd", handle.handle, indices, -grad * rate)


@public("train.MomentumOptimizer")
class MomentumOptimizer(Optimizer):
    """``accum = momentum * accum + grad; var -= learning_rate * accum``.

    With ``use_nesterov``, Nesterov's form: ``var -= learning_rate * (grad + momentum * accum)`` (Sutskever et al.,
    2013).
    """

    _update_op = "Momentum"
    _update_numbers = {"lr": "learning_rate", "momentum": "momentum"}
    _update_attrs = ("use_nesterov",)

    def __init__(
        self,
        learning_rate: Any,
        momentum: Any,
        use_locking: bool = False,
        name: str = "Momentum",
        use_nesterov: bool = False,
    ):
        super().__init__(use_locking, name)
        self._learning_rate = self._lr = learning_rate
        self._momentum = momentum
        self._use_nesterov = use_nesterov

    def _valid_dtypes(self) -> set[dtypes.DType]:
        return super()._valid_dtypes() | LINEAR_RULE_DTYPES

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def _slot_inputs(self) -> Sequence[tuple[str, str]]:
        return [("accum", "momentum")]


@public("train.AdagradOptimizer")
class AdagradOptimizer(Optimizer):
    """``accum += grad**2; var -= learning_rate * grad / sqrt(accum)`` (Duchi et al., 2011)."""

    _update_op = "Adagrad"
    _update_numbers = {"lr": "learning_rate"}

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ):
        _not_negative("initial_accumulator_value", initial_accumulator_value, allow_zero=False)
        super().__init__(use_locking, name)
        self._learning_rate = self._lr = learning_rate
        self._initial_accumulator_value = initial_accumulator_value

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        value = self._initial_accumulator_value
        for var in var_list:
            self._filled_slot(var, Constant(value, dtype=var.dtype.base), value, "accumulator", self._name)

    def _slot_inputs(self) -> Sequence[tuple[str, str]]:
        return [("accum", "accumulator")]


@public("train.AdagradDAOptimizer")
class AdagradDAOptimizer(Optimizer):
    """Adagrad by dual averaging (Duchi et al., 2011): the variable is a function of the sums of gradients alone.

    With L1 it makes sparse models, and regularisation reaches all weights, also those that a step does not touch.

    Args:
        learning_rate: float or scalar tensor.
        global_step: the step's number, an int64 tensor or variable.
        initial_gradient_squared_accumulator_value: start of the sums of squares, above 0.
        l1_regularization_strength: at least 0.
        l2_regularization_strength: at least 0.
        use_locking: kept for compatibility.
        name: name of the optimizer's scope and its slots.
    """

    _update_op = "AdagradDA"
    _update_slots = ("gradient_accumulator", "gradient_squared_accumulator")
    _update_numbers = {"lr": "learning_rate", "l1": "l1_regularization_strength", "l2": "l2_regularization_strength"}

    def __init__(
        self,
        learning_rate: Any,
        global_step: Any,
        initial_gradient_squared_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "AdagradDA",
    ):
        start = initial_gradient_squared_accumulator_value
        if start <= 0.0:
            raise ValueError(
                f"initial_gradient_squared_accumulator_value must be positive: {start}\n"
                + errors.message(f"a sum of squares that starts at {start}", "a start above 0", "0.1")
            )
        super().__init__(use_locking, name)
        self._learning_rate = self._lr = learning_rate
        self._initial_gradient_squared_accumulator_value = start
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength
        self._global_step = global_step

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            for slot, value in zip(
                self._update_slots, (0.0, self._initial_gradient_squared_accumulator_value), strict=True
            ):
                self._get_or_make_slot(var, _constant_like(var, value), slot, self._name)

    def _prepare(self) -> None:
        super()._prepare()
        step = build("Identity", convert.convert_to_tensor(self._global_step))
        self._step_number = build("Cast", build("AddV2", step, 1), DstT=dtypes.int64)
        count_more(-3)  # TensorFlow converts them for each variable

    def _numbers_for(self, var: Any) -> dict[str, Any]:
        count_more(3)
        return {**super()._numbers_for(var), "global_step": self._step_number}


@public("train.AdadeltaOptimizer")
class AdadeltaOptimizer(Optimizer):
    """Adadelta (Zeiler, 2012)."""

    _update_op = "Adadelta"
    _update_slots = ("accum", "accum_update")
    _update_numbers = {"lr": "lr", "rho": "rho", "epsilon": "epsilon"}

    def __init__(
        self,
        learning_rate: Any = 0.001,
        rho: Any = 0.95,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adadelta",
    ):
        super().__init__(use_locking, name)
        self._lr, self._rho, self._epsilon = learning_rate, rho, epsilon

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "accum", self._name)
            self._zeros_slot(var, "accum_update", self._name)


@public("train.RMSPropOptimizer")
class RMSPropOptimizer(Optimizer):
    """RMSProp with momentum (Hinton); ``centered`` subtracts the square of a running mean of the gradient."""

    _update_numbers = {"lr": "learning_rate", "rho": "decay", "momentum": "momentum", "epsilon": "epsilon"}

    def __init__(
        self,
        learning_rate: Any,
        decay: Any = 0.9,
        momentum: Any = 0.0,
        epsilon: Any = 1e-10,
        use_locking: bool = False,
        centered: bool = False,
        name: str = "RMSProp",
    ):
        super().__init__(use_locking, name)
        self._learning_rate = self._lr = learning_rate
        self._decay = self._rho = decay
        self._momentum, self._epsilon, self._centered = momentum, epsilon, centered

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self._filled_slot(var, Ones(var.dtype.base), 1.0, "rms", self._name)
            if self._centered:
                self._zeros_slot(var, "mg", self._name)
            self._zeros_slot(var, "momentum", self._name)

    def _update_op_name(self) -> str:
        return "CenteredRMSProp" if self._centered else "RMSProp"

    def _slot_inputs(self) -> Sequence[tuple[str, str]]:
        mean = [("mg", "mg")] if self._centered else []
        return [*mean, ("ms", "rms"), ("mom", "momentum")]


@public("train.AdamOptimizer")
class AdamOptimizer(Optimizer):
    """Adam (Kingma and Ba, 2015), in the form just before section 2.1: epsilon is the paper's epsilon hat.

    A sparse gradient decays the moments of *all* rows, as in TensorFlow: it is the same step as with a dense gradient.
    """

    _use_nesterov = False

    def __init__(
        self,
        learning_rate: Any = 0.001,
        beta1: Any = 0.9,
        beta2: Any = 0.999,
        epsilon: Any = 1e-8,
        use_locking: bool = False,
        name: str = "Adam",
    ):
        super().__init__(use_locking, name)
        self._lr, self._beta1, self._beta2, self._epsilon = learning_rate, beta1, beta2, epsilon
        self._lr_t: Any = None
        self._beta1_t: Any = None
        self._beta2_t: Any = None
        self._epsilon_t: Any = None

    def _get_beta_accumulators(self) -> tuple[Any, Any]:
        builder = current_builder()
        return (
            self._get_non_slot_variable("beta1_power", builder),
            self._get_non_slot_variable("beta2_power", builder),
        )

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        first = min(var_list, key=lambda var: var.name)
        self._create_non_slot_variable(self._call_if_callable(self._beta1), "beta1_power", first)
        self._create_non_slot_variable(self._call_if_callable(self._beta2), "beta2_power", first)
        for var in var_list:
            self._zeros_slot(var, "m", self._name)
            self._zeros_slot(var, "v", self._name)

    def _prepare(self) -> None:
        self._lr_t = convert.convert_to_tensor(self._call_if_callable(self._lr), name="learning_rate")
        self._beta1_t = convert.convert_to_tensor(self._call_if_callable(self._beta1), name="beta1")
        self._beta2_t = convert.convert_to_tensor(self._call_if_callable(self._beta2), name="beta2")
        self._epsilon_t = convert.convert_to_tensor(self._call_if_callable(self._epsilon), name="epsilon")

    def _dense(self, op: str, grad: Any, var: Any) -> Any:
        power1, power2 = self._get_beta_accumulators()
        update = build(
            op,
            var=target_of(var),
            m=target_of(self.get_slot(var, "m")),
            v=target_of(self.get_slot(var, "v")),
            beta1_power=as_dtype_of(power1, var),
            beta2_power=as_dtype_of(power2, var),
            lr=as_dtype_of(self._lr_t, var),
            beta1=as_dtype_of(self._beta1_t, var),
            beta2=as_dtype_of(self._beta2_t, var),
            epsilon=as_dtype_of(self._epsilon_t, var),
            grad=as_dtype_of(grad, var),
            use_locking=self._use_locking,
            use_nesterov=self._use_nesterov,
        )
        return operation_of(update)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._dense("ApplyAdam", grad, var)

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return self._dense("ResourceApplyAdam", grad, handle)

    def _sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        power1, power2 = (as_dtype_of(power, var) for power in self._get_beta_accumulators())
        rate, epsilon = as_dtype_of(self._lr_t, var), as_dtype_of(self._epsilon_t, var)
        beta1, beta2 = as_dtype_of(self._beta1_t, var), as_dtype_of(self._beta2_t, var)
        rate = rate * build("Sqrt", 1 - power2) / (1 - power1)
        m, m_done = self._decayed(var, "m", beta1, grad * (1 - beta1), indices)
        v, v_done = self._decayed(var, "v", beta2, (grad * grad) * (1 - beta2), indices)
        root = build("Sqrt", v)
        update = var.assign_sub(rate * m / (root + epsilon), use_locking=self._use_locking)
        return group(update, m_done, v_done)

    def _decayed(self, var: Any, name: str, beta: Any, added: Any, indices: Any) -> tuple[Any, Any]:
        """A slot after ``slot = slot * beta`` and ``slot[indices] += added``: its value, and what to wait for."""
        slot = self.get_slot(var, name)
        decayed = slot.assign(slot * beta, use_locking=self._use_locking)
        with current_builder().control_dependencies([decayed]):
            if not is_resource(slot):
                value = build("ScatterAdd", target_of(slot), indices, added, use_locking=self._use_locking)
                return value, value
            scattered = build("ResourceScatterAdd", slot.handle, indices, added)
            with current_builder().control_dependencies([scattered]):
                value = slot.value()
            return value, value

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._sparse(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        return self._sparse(grad, handle, indices)

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Operation:
        builder = current_builder()
        powers = self._get_beta_accumulators()
        with builder.control_dependencies(update_ops), builder.colocate_with(powers[0]):
            advanced = [
                power.assign(power * beta, use_locking=self._use_locking)
                for power, beta in zip(powers, (self._beta1_t, self._beta2_t), strict=True)
            ]
        return group(*update_ops, *advanced, name=name_scope)


@public("train.FtrlOptimizer")
class FtrlOptimizer(Optimizer):
    """FTRL-Proximal (McMahan et al., 2013), with L1, L2 and L2 shrinkage.

    Args:
        learning_rate: float or scalar tensor.
        learning_rate_power: how the rate falls with the sum of squared gradients, at most 0; 0 for a constant rate.
        initial_accumulator_value: start of those sums, at least 0.
        l1_regularization_strength: at least 0; weights whose gradients do not outweigh it are exactly 0.
        l2_regularization_strength: at least 0; a penalty in the objective.
        use_locking: kept for compatibility.
        name: name of the optimizer's scope and its slots.
        accum_name: name of the slot of sums, if not ``name``.
        linear_name: name of the slot of linear terms, if not ``name``.
        l2_shrinkage_regularization_strength: at least 0; a penalty on the size of weights that adds to the gradient.
        beta: the paper's beta, which lowers the rate of the first steps; 0 if None.
    """

    _update_numbers = {
        "lr": "learning_rate",
        "l1": "l1_regularization_strength",
        "l2": "l2_regularization_strength",
        "l2_shrinkage": "l2_shrinkage_regularization_strength",
        "lr_power": "learning_rate_power",
    }

    def __init__(
        self,
        learning_rate: Any,
        learning_rate_power: Any = -0.5,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "Ftrl",
        accum_name: str | None = None,
        linear_name: str | None = None,
        l2_shrinkage_regularization_strength: float = 0.0,
        beta: Any = None,
    ):
        super().__init__(use_locking, name)
        _not_negative("initial_accumulator_value", initial_accumulator_value)
        if isinstance(learning_rate_power, (int, float)) and learning_rate_power > 0.0:
            raise ValueError(
                f"learning_rate_power {learning_rate_power} needs to be negative or zero\n"
                + errors.message(f"learning_rate_power={learning_rate_power}", "at most 0", "learning_rate_power=-0.5")
            )
        _not_negative("l1_regularization_strength", l1_regularization_strength)
        _not_negative("l2_regularization_strength", l2_regularization_strength)
        _not_negative("l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength)
        self._learning_rate = self._lr = learning_rate
        self._lr_power = learning_rate_power
        self._initial_accumulator_value = initial_accumulator_value
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength
        self._l2_shrinkage = l2_shrinkage_regularization_strength
        self._accum_name, self._linear_name = accum_name, linear_name
        self._beta = beta

    def _update_op_name(self) -> str:
        return "FtrlV2" if self._l2_shrinkage > 0 else "Ftrl"

    def _prepare(self) -> None:
        super()._prepare()
        if self._l2_shrinkage <= 0:
            del self._number_tensors["l2_shrinkage"]
        if self._beta is not None:
            # In the paper's formula beta adds to the quadratic term what an L2 penalty of this strength adds.
            beta = convert.convert_to_tensor(self._beta, dtypes.float32, name="beta")
            rate = build("Maximum", self._number_tensors["lr"], 1e-36)
            self._number_tensors["l2"] = self._number_tensors["l2"] + beta / (2.0 * rate)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        value, name = self._initial_accumulator_value, self._accum_name or self._name
        for var in var_list:
            self._get_or_make_slot(var, _constant_like(var, value), "accum", name)
            self._zeros_slot(var, "linear", self._linear_name or self._name)

    _update_slots = ("accum", "linear")


@public("train.ProximalGradientDescentOptimizer")
class ProximalGradientDescentOptimizer(Optimizer):
    """Gradient descent with a proximal step for L1 and L2 (Duchi and Singer, 2009)."""

    _update_op = "ProximalGradientDescent"
    _update_numbers = {"alpha": "learning_rate", "l1": "l1_regularization_strength", "l2": "l2_regularization_strength"}

    def __init__(
        self,
        learning_rate: Any,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalGradientDescent",
    ):
        super().__init__(use_locking, name)
        self._learning_rate = self._alpha = learning_rate
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength

    def _build_update(self, form: str, var: Any, **inputs: Any) -> Any:
        if "Sparse" not in form:
            inputs["delta"] = inputs.pop("grad")
        return super()._build_update(form, var, **inputs)


@public("train.ProximalAdagradOptimizer")
class ProximalAdagradOptimizer(Optimizer):
    """Adagrad with a proximal step for L1 and L2."""

    _update_op = "ProximalAdagrad"
    _update_numbers = {"lr": "learning_rate", "l1": "l1_regularization_strength", "l2": "l2_regularization_strength"}

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ):
        _not_negative("initial_accumulator_value", initial_accumulator_value, allow_zero=False)
        super().__init__(use_locking, name)
        self._learning_rate = self._lr = learning_rate
        self._initial_accumulator_value = initial_accumulator_value
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        value = self._initial_accumulator_value
        for var in var_list:
            self._get_or_make_slot(var, _constant_like(var, value), "accumulator", self._name)

    def _slot_inputs(self) -> Sequence[tuple[str, str]]:
        return [("accum", "accumulator")]
