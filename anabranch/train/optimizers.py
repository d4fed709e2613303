"""The optimizers of TensorFlow 1.x. Each class says what it keeps and which update op it builds; formulas stand at the ops."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import convert, errors
from anabranch.core.api import public
from anabranch.core.build import build
from anabranch.core.graph import get_default_graph
from anabranch.core.indexed_slices import IndexedSlices
from anabranch.core.operation import Operation
from anabranch.ops.control_flow_basic import group
from anabranch.train.optimizer import Optimizer, target_of
from anabranch.variables.initializers import Constant, Ones


class _ByOps(Optimizer):
    """An optimizer whose updates are the four forms of one op: ``Apply...`` and ``SparseApply...``, by ref and by handle.

    ``_op`` is the name after ``Apply``; ``_state`` the names of the slots that it takes after the variable, in order;
    ``_numbers`` the attributes of the numbers before the gradient and ``_after`` of those behind it.
    """

    _op = ""
    _state: tuple[str, ...] = ()
    _hyper: dict[str, str] = {}
    """Argument of the op -> name of the tensor that :meth:`_prepare` makes of ``self._<argument>``."""
    _attrs: tuple[str, ...] = ()

    def _prepare(self) -> None:
        self._tensors = {
            argument: convert.convert_to_tensor(self._call_if_callable(getattr(self, f"_{argument}")), name=shown)
            for argument, shown in self._hyper.items()
        }

    def _inputs(self, var: Any, sparse: bool) -> dict[str, Any]:
        dtype = var.dtype.base
        return {
            argument: tensor if tensor.dtype.base == dtype else build("Cast", tensor, DstT=dtype)
            for argument, tensor in self._tensors.items()
            if not (sparse and argument in self._dense_only)
        }

    _dense_only: tuple[str, ...] = ()

    def _op_name(self) -> str:
        return self._op

    def _call(self, form: str, var: Any, **inputs: Any) -> Any:
        state = {name: target_of(self.get_slot(var, slot)) for name, slot in self._state_inputs()}
        attrs = {name: getattr(self, f"_{name}") for name in self._attrs}
        numbers = self._inputs(var, "Sparse" in form)
        op = build(
            f"{form}{self._op_name()}",
            var=target_of(var),
            **state,
            **numbers,
            **inputs,
            use_locking=self._use_locking,
            **attrs,
        )
        return op.op if hasattr(op, "op") else op

    def _state_inputs(self) -> Sequence[tuple[str, str]]:
        return [(name, name) for name in self._state]

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._call("Apply", var, grad=grad)

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return self._call("ResourceApply", handle, grad=_as(grad, handle))

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._call("SparseApply", var, grad=grad.values, indices=grad.indices)

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        return self._call("ResourceSparseApply", handle, grad=_as(grad, handle), indices=indices)


def _as(grad: Any, variable: Any) -> Any:
    dtype = variable.dtype.base
    return grad if grad.dtype.base == dtype else build("Cast", grad, DstT=dtype)


def _not_negative(name: str, value: Any, allow_zero: bool = True) -> None:
    if isinstance(value, (int, float)) and (value < 0 or (value == 0 and not allow_zero)):
        bound = ">= 0" if allow_zero else "> 0"
        raise ValueError(
            f"{name} {value} needs to be {'positive or zero' if allow_zero else 'positive'}\n"
            + errors.message(f"{name}={value}", bound, f"{name} {bound}")
        )


@public("train.GradientDescentOptimizer")
class GradientDescentOptimizer(_ByOps):
    """``var -= learning_rate * grad``; a sparse gradient touches only its rows."""

    _op = "GradientDescent"
    _hyper = {"alpha": "learning_rate"}

    def __init__(self, learning_rate: Any, use_locking: bool = False, name: str = "GradientDescent"):
        super().__init__(use_locking, name)
        self._learning_rate = self._alpha = learning_rate

    def _call(self, form: str, var: Any, **inputs: Any) -> Any:
        inputs["delta"] = inputs.pop("grad")
        return super()._call(form, var, **inputs)

    def _rate(self, var: Any) -> Any:
        return self._inputs(var, False)["alpha"]

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Any) -> Any:
        delta = build("Mul", grad.values, self._rate(var))
        return build("ScatterSub", target_of(var), grad.indices, delta, use_locking=self._use_locking).op

    def _resource_apply_sparse_duplicate_indices(self, grad: Any, handle: Any, indices: Any) -> Any:
        delta = build("Mul", build("Neg", grad), self._rate(handle))
        return build("ResourceScatterAdd", handle.handle, indices, delta)


@public("train.MomentumOptimizer")
class MomentumOptimizer(_ByOps):
    """``accum = momentum * accum + grad; var -= learning_rate * accum``; with ``use_nesterov``, Nesterov's form (Sutskever et al., 2013)."""

    _op = "Momentum"
    _hyper = {"lr": "learning_rate", "momentum": "momentum"}
    _attrs = ("use_nesterov",)

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

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            self._zeros_slot(var, "momentum", self._name)

    def _state_inputs(self) -> Sequence[tuple[str, str]]:
        return [("accum", "momentum")]


@public("train.AdagradOptimizer")
class AdagradOptimizer(_ByOps):
    """``accum += grad**2; var -= learning_rate * grad / sqrt(accum)`` (Duchi et al., 2011)."""

    _op = "Adagrad"
    _hyper = {"lr": "learning_rate"}

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        use_locking: bool = False,
        name: str = "Adagrad",
    ):
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._learning_rate = self._lr = learning_rate
        self._initial_accumulator_value = initial_accumulator_value

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            _accumulator(self, var, self._initial_accumulator_value)

    def _state_inputs(self) -> Sequence[tuple[str, str]]:
        return [("accum", "accumulator")]


def _accumulator(optimizer: Optimizer, var: Any, value: float) -> None:
    dtype = var.dtype.base
    if var.get_shape().is_fully_defined():
        start: Any = Constant(value, dtype=dtype)
    else:
        initial = var.initial_value
        start = build("Fill", build("Shape", initial), convert.constant(value, dtype))
    optimizer._get_or_make_slot_with_initializer(var, start, var.get_shape(), dtype, "accumulator", optimizer._name)


@public("train.AdadeltaOptimizer")
class AdadeltaOptimizer(_ByOps):
    """Adadelta (Zeiler, 2012)."""

    _op = "Adadelta"
    _state = ("accum", "accum_update")
    _hyper = {"lr": "lr", "rho": "rho", "epsilon": "epsilon"}

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
class RMSPropOptimizer(_ByOps):
    """RMSProp with momentum (Hinton); ``centered`` subtracts the square of a running mean of the gradient."""

    _hyper = {"lr": "learning_rate", "rho": "decay", "momentum": "momentum", "epsilon": "epsilon"}

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
            dtype = var.dtype.base
            start = (
                Ones(dtype) if var.get_shape().is_fully_defined() else build("OnesLike", convert.convert_to_tensor(var))
            )
            self._get_or_make_slot_with_initializer(var, start, var.get_shape(), dtype, "rms", self._name)
            if self._centered:
                self._zeros_slot(var, "mg", self._name)
            self._zeros_slot(var, "momentum", self._name)

    def _op_name(self) -> str:
        return "CenteredRMSProp" if self._centered else "RMSProp"

    def _state_inputs(self) -> Sequence[tuple[str, str]]:
        mean = [("mg", "mg")] if self._centered else []
        return [*mean, ("ms", "rms"), ("mom", "momentum")]


@public("train.AdamOptimizer")
class AdamOptimizer(Optimizer):
    """Adam (Kingma and Ba, 2015), in the form just before section 2.1: epsilon is the paper's epsilon hat.

    A sparse gradient decays the moments of *all* rows, as TensorFlow does: it is the same step as with the dense gradient.
    """

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
        graph = get_default_graph()
        return self._get_non_slot_variable("beta1_power", graph), self._get_non_slot_variable("beta2_power", graph)

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

    def _numbers(self, var: Any) -> dict[str, Any]:
        power1, power2 = self._get_beta_accumulators()
        given = {
            "beta1_power": power1, "beta2_power": power2, "lr": self._lr_t, "beta1": self._beta1_t, "beta2": self._beta2_t, "epsilon": self._epsilon_t,
        }  # fmt: skip
        tensors = {name: convert.convert_to_tensor(value) for name, value in given.items()}
        return {name: _as(tensor, var) for name, tensor in tensors.items()}

    def _dense(self, op: str, grad: Any, var: Any) -> Any:
        m, v = self.get_slot(var, "m"), self.get_slot(var, "v")
        made = build(
            op,
            var=target_of(var),
            m=target_of(m),
            v=target_of(v),
            grad=_as(grad, var),
            use_locking=self._use_locking,
            **self._numbers(var),
        )
        return made.op if hasattr(made, "op") else made

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._dense("ApplyAdam", grad, var)

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return self._dense("ResourceApplyAdam", grad, handle)

    def _sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        numbers = self._numbers(var)
        one = convert.constant(1.0, var.dtype.base)

        def less(value: Any) -> Any:
            return build("Sub", one, value)

        rate = build(
            "RealDiv",
            build("Mul", numbers["lr"], build("Sqrt", less(numbers["beta2_power"]))),
            less(numbers["beta1_power"]),
        )
        m = self._decayed(var, "m", numbers["beta1"], build("Mul", grad, less(numbers["beta1"])), indices)
        v = self._decayed(
            var, "v", numbers["beta2"], build("Mul", build("Mul", grad, grad), less(numbers["beta2"])), indices
        )
        step = build("RealDiv", build("Mul", rate, m), build("Add", build("Sqrt", v), numbers["epsilon"]))
        update = var.assign_sub(step, use_locking=self._use_locking)
        return group(update.op, m.op, v.op)

    def _decayed(self, var: Any, name: str, beta: Any, added: Any, indices: Any) -> Any:
        slot = self.get_slot(var, name)
        current = convert.convert_to_tensor(slot)
        decayed = slot.assign(build("Mul", current, beta), use_locking=self._use_locking)
        with get_default_graph().control_dependencies([decayed.op]):
            if hasattr(slot, "_ref") and slot._ref().dtype.is_ref:
                return build("ScatterAdd", slot._ref(), indices, added, use_locking=self._use_locking)
            scattered = build("ResourceScatterAdd", slot.handle, indices, added)
            with get_default_graph().control_dependencies([scattered]):
                return slot.read_value()

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._sparse(grad.values, var, grad.indices)

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        return self._sparse(grad, handle, indices)

    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Operation:
        graph = get_default_graph()
        with graph.control_dependencies([*update_ops, self._epsilon_t]):
            power1, power2 = self._get_beta_accumulators()
            with graph.colocate_with(power1):
                next1 = power1.assign(
                    build("Mul", convert.convert_to_tensor(power1), self._beta1_t, name="mul"),
                    use_locking=self._use_locking,
                )
                next2 = power2.assign(
                    build("Mul", convert.convert_to_tensor(power2), self._beta2_t, name="mul"),
                    use_locking=self._use_locking,
                )
        return group(*update_ops, next1.op, next2.op, name=name_scope)


@public("train.FtrlOptimizer")
class FtrlOptimizer(_ByOps):
    """FTRL-Proximal (McMahan et al., 2013), with L1, L2 and L2 shrinkage."""

    _hyper = {
        "lr": "learning_rate",
        "l1": "l1_regularization_strength",
        "l2": "l2_regularization_strength",
        "lr_power": "lr_power",
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
    ):
        super().__init__(use_locking, name)
        _not_negative("initial_accumulator_value", initial_accumulator_value)
        if isinstance(learning_rate_power, (int, float)) and learning_rate_power > 0.0:
            raise ValueError(f"learning_rate_power {learning_rate_power} needs to be negative or zero")
        _not_negative("l1_regularization_strength", l1_regularization_strength)
        _not_negative("l2_regularization_strength", l2_regularization_strength)
        _not_negative("l2_shrinkage_regularization_strength", l2_shrinkage_regularization_strength)
        self._learning_rate = self._lr = learning_rate
        self._lr_power = learning_rate_power
        self._initial_accumulator_value = initial_accumulator_value
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength
        self._l2_shrinkage = l2_shrinkage_regularization_strength
        self._accum_name, self._linear_name = accum_name, linear_name
        if self._l2_shrinkage > 0:
            self._hyper = {**FtrlOptimizer._hyper, "l2_shrinkage": "l2_shrinkage_regularization_strength"}

    def _op_name(self) -> str:
        return "FtrlV2" if self._l2_shrinkage > 0 else "Ftrl"

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            value = convert.constant(self._initial_accumulator_value, var.dtype.base, var.get_shape())
            self._get_or_make_slot(var, value, "accum", self._accum_name or self._name)
            self._zeros_slot(var, "linear", self._linear_name or self._name)

    _state = ("accum", "linear")


@public("train.ProximalGradientDescentOptimizer")
class ProximalGradientDescentOptimizer(_ByOps):
    """Gradient descent with a proximal step for L1 and L2 (Duchi and Singer, 2009)."""

    _op = "ProximalGradientDescent"
    _hyper = {"alpha": "learning_rate", "l1": "l1_regularization_strength", "l2": "l2_regularization_strength"}

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

    def _call(self, form: str, var: Any, **inputs: Any) -> Any:
        if "Sparse" not in form:
            inputs["delta"] = inputs.pop("grad")
        return super()._call(form, var, **inputs)


@public("train.ProximalAdagradOptimizer")
class ProximalAdagradOptimizer(_ByOps):
    """Adagrad with a proximal step for L1 and L2."""

    _op = "ProximalAdagrad"
    _hyper = {"lr": "learning_rate", "l1": "l1_regularization_strength", "l2": "l2_regularization_strength"}

    def __init__(
        self,
        learning_rate: Any,
        initial_accumulator_value: float = 0.1,
        l1_regularization_strength: float = 0.0,
        l2_regularization_strength: float = 0.0,
        use_locking: bool = False,
        name: str = "ProximalAdagrad",
    ):
        if initial_accumulator_value <= 0.0:
            raise ValueError(f"initial_accumulator_value must be positive: {initial_accumulator_value}")
        super().__init__(use_locking, name)
        self._learning_rate = self._lr = learning_rate
        self._initial_accumulator_value = initial_accumulator_value
        self._l1, self._l2 = l1_regularization_strength, l2_regularization_strength

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        for var in var_list:
            value = convert.constant(self._initial_accumulator_value, var.dtype.base, var.get_shape())
            self._get_or_make_slot(var, value, "accumulator", self._name)

    def _state_inputs(self) -> Sequence[tuple[str, str]]:
        return [("accum", "accumulator")]
