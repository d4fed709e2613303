"""The base of these optimizers, and the state that its methods are handed.

A subclass names its numbers by ``_set_hyper``, makes its variables in ``_create_vars(var_list, state)`` and updates
in ``_apply_dense(grad, var, state)`` and its kin. What runs is :class:`tf.train.Optimizer`, whose slots these are: only
the form of the methods differs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.train.optimizer import Optimizer, as_dtype_of, deduplicated, is_resource, operation_of, target_of


class State:
    """Numbers, slots and other variables of an optimizer, for one ``apply_gradients``."""

    def __init__(self, optimizer: OptimizerV2) -> None:
        self._optimizer = optimizer
        self._numbers: dict[tuple[str, Any], Any] = {}
        self._first: Any = None

    def get_hyper(self, name: str, dtype: Any = None) -> Any:
        """The number ``name`` as a scalar tensor, cast to ``dtype`` if it is given."""
        key = (name, dtype)
        if key not in self._numbers:
            if dtype is None:
                value = self._optimizer._call_if_callable(self._optimizer._hyper[name])
                self._numbers[key] = tf.convert_to_tensor(value, name=name)
            else:
                self._numbers[key] = tf.cast(self.get_hyper(name), dtype)
        return self._numbers[key]

    def get_slot(self, var: Any, name: str) -> Any:
        """The slot ``name`` of ``var``, or None."""
        return self._optimizer.get_slot(var, name)

    def get_slot_names(self) -> list[str]:
        """Sorted names of the slots."""
        return self._optimizer.get_slot_names()

    def create_slot(self, var: Any, val: Any, slot_name: str, optional_op_name: str | None = None) -> Any:
        """Make a slot that starts with the tensor ``val``, or find it."""
        return self._optimizer._get_or_make_slot(var, val, slot_name, optional_op_name or self._optimizer._name)

    def create_slot_with_initializer(
        self, var: Any, initializer: Any, shape: Any, dtype: Any, slot_name: str, optional_op_name: str | None = None
    ) -> Any:
        """Make a slot of ``shape`` and ``dtype`` by an initializer or a tensor, or find it."""
        name = optional_op_name or self._optimizer._name
        if callable(initializer):
            return self._optimizer._get_or_make_slot_with_initializer(var, initializer, shape, dtype, slot_name, name)
        return self._optimizer._get_or_make_slot(var, initializer, slot_name, name)

    def zeros_slot(self, var: Any, slot_name: str, optional_op_name: str | None = None) -> Any:
        """Make a slot of zeros, or find it."""
        return self._optimizer._zeros_slot(var, slot_name, optional_op_name or self._optimizer._name)

    def create_non_slot(self, initial_value: Any, name: str, colocate_with: Any = None) -> Any:
        """Make a variable that belongs to no other one, or find it; beside ``colocate_with`` or the first variable."""
        beside = self._first if colocate_with is None else colocate_with
        return self._optimizer._create_non_slot_variable(self._optimizer._call_if_callable(initial_value), name, beside)

    def get_non_slot(self, name: str) -> Any:
        """The variable ``name`` that belongs to no other one, or None."""
        return self._optimizer._get_non_slot_variable(name, current_builder())


@public("contrib.optimizer_v2.OptimizerV2")
class OptimizerV2(Optimizer):
    """Base class of optimizers whose numbers and variables come to their methods in a state.

    A subclass calls ``_set_hyper(name, value)`` for its numbers (values, tensors or functions without arguments, which
    are called for each ``apply_gradients``) and overrides ``_create_vars(var_list, state)``, ``_prepare(state)``,
    ``_apply_dense(grad, var, state)``, ``_apply_sparse(grad, var, state)``, ``_resource_apply_dense(grad, handle,
    state)``, ``_resource_apply_sparse(grad, handle, indices, state)`` and ``_finish(state)``, as far as it has them.
    ``state.get_hyper(name, dtype)``, ``state.get_slot(var, name)`` and ``state.get_non_slot(name)`` give what it has.

    Args:
        use_locking: kept for compatibility; updates are atomic in any case, since a step is a transaction.
        name: name of the optimizer's scope and default name of its slots.

    Raises:
        RuntimeError: a subclass overrides ``_create_slots``.
    """

    _update_hypers: dict[str, str] = {}
    """Argument of the update op -> the number that it takes."""

    def __init__(self, use_locking: bool, name: str) -> None:
        if type(self)._create_slots is not OptimizerV2._create_slots:
            raise RuntimeError(
                "Override _create_vars instead of _create_slots when descending from OptimizerV2 "
                f"(class {type(self).__name__})\n"
                + errors.message(
                    "a subclass with _create_slots", "_create_vars", "def _create_vars(self, var_list, state)"
                )
            )
        super().__init__(use_locking, name)
        self._hyper: dict[str, Any] = {}
        self._state = State(self)
        self._stopped: Any = None

    def _set_hyper(self, name: str, value: Any) -> None:
        self._hyper[name] = value

    # ------------------------------------------------------------------------------------------------------- gradients
    def minimize(  # type: ignore[override]
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = Optimizer.GATE_OP,
        aggregation_method: Any = None,
        name: str | None = None,
        grad_loss: Any = None,
        stop_gradients: Any = None,
        scale_loss_by_num_replicas: bool = False,
    ) -> Any:
        """An operation that takes one step down the gradient of ``loss``.

        Args:
            loss: floating tensor, or a function that makes it.
            global_step: variable to increment by one when the step is done.
            var_list: variables to update; all trainable ones if None.
            gate_gradients: ``GATE_NONE``, ``GATE_OP`` or ``GATE_GRAPH``.
            aggregation_method: how gradients of one tensor are summed, see ``tf.AggregationMethod``.
            name: name of the returned operation.
            grad_loss: gradient of what follows with respect to ``loss``.
            stop_gradients: tensors through which no gradient passes.
            scale_loss_by_num_replicas: divide the loss by the number of replicas.

        Raises:
            ValueError: no variable has a gradient.
        """
        pairs = self.compute_gradients(
            loss,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            grad_loss=grad_loss,
            stop_gradients=stop_gradients,
            scale_loss_by_num_replicas=scale_loss_by_num_replicas,
        )
        if all(grad is None for grad, _ in pairs):
            names = [str(variable) for _, variable in pairs]
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not support gradients, "
                f"between variables {names} and loss {loss}.\n"
                + errors.message("a loss that depends on no variable", "a differentiable path", "look at the loss")
            )
        return self.apply_gradients(pairs, global_step=global_step, name=name)

    def compute_gradients(  # type: ignore[override]
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = Optimizer.GATE_OP,
        aggregation_method: Any = None,
        grad_loss: Any = None,
        stop_gradients: Any = None,
        scale_loss_by_num_replicas: bool = False,
    ) -> list[tuple[Any, Any]]:
        """Pairs of gradient (tensor, IndexedSlices or None) and variable; arguments as for :meth:`minimize`."""
        replicas = tf.distribute.get_strategy().num_replicas_in_sync if scale_loss_by_num_replicas else 1
        if replicas > 1:
            whole = loss
            loss = (lambda: whole() / replicas) if callable(whole) else whole / replicas
        self._stopped = stop_gradients
        try:
            return super().compute_gradients(loss, var_list, gate_gradients, aggregation_method, grad_loss=grad_loss)
        finally:
            self._stopped = None

    def _gradients(self, *args: Any, **kwargs: Any) -> Any:
        return tf.gradients(*args, stop_gradients=self._stopped, **kwargs)

    # --------------------------------------------------------------------------------------------------------- updates
    def _create_slots(self, var_list: Sequence[Any]) -> None:
        self._state = State(self)
        self._state._first = min(var_list, key=lambda var: var.name)
        self._create_vars(list(var_list), self._state)

    def _begin(self) -> None:
        self._state = State(self)
        self._prepare(self._state)

    def _end(self, updates: Sequence[Any], name_scope: str) -> Any:
        if not tf.executing_eagerly():
            updates = [tf.group(*updates)]
        with tf.control_dependencies(updates):
            last = self._finish(self._state)
        return tf.group(*updates, *([] if last is None else [last]), name=name_scope)

    def _update(self, grad: Any, variable: Any) -> Any:
        state = self._state
        constraint = getattr(variable, "constraint", None)
        if isinstance(grad, tf.IndexedSlices):
            if constraint is not None:
                raise RuntimeError(
                    "Cannot use a constraint function on a sparse variable.\n"
                    + errors.message(
                        f"a sparse gradient for {variable.name!r}, which has a constraint",
                        "a dense gradient",
                        "tf.convert_to_tensor(gradient)",
                    )
                )
            if is_resource(variable):
                return self._resource_apply_sparse_duplicate_indices(grad.values, variable, grad.indices, state)
            return self._apply_sparse_duplicate_indices(grad, variable, state)
        apply = self._resource_apply_dense if is_resource(variable) else self._apply_dense
        update = apply(grad, variable, state)
        if constraint is None:
            return update
        with tf.control_dependencies([update]):
            assigned = variable.assign(constraint(variable))
            return getattr(assigned, "op", assigned)

    def _built(self, form: str, var: Any, state: State, **inputs: Any) -> Any:
        """The update op of a subclass that names it, its slots and its numbers."""
        if not (op_name := self._update_op_name()):
            method = f"_{'resource_' * form.startswith('Resource')}apply_{'sparse' if 'Sparse' in form else 'dense'}"
            raise NotImplementedError(
                errors.message(f"{type(self).__name__} without {method}", "an update rule", f"override {method}")
            )
        dtype = var.dtype.base_dtype
        update = build(
            f"{form}{op_name}",
            var=target_of(var),
            **{name: target_of(state.get_slot(var, slot)) for name, slot in self._slot_inputs()},
            **{name: state.get_hyper(hyper, dtype) for name, hyper in self._update_hypers.items()},
            **inputs,
            use_locking=self._use_locking,
            **{name: getattr(self, f"_{name}") for name in self._update_attrs},
        )
        return operation_of(update)

    # ----------------------------------------------------------------------------------------- what subclasses override
    def _create_vars(self, var_list: Sequence[Any], state: State) -> None:
        """Make the slots of ``var_list`` and other variables; nothing by default."""

    def _prepare(self, state: State) -> None:  # type: ignore[override]
        """Called before variables are updated."""

    def _apply_dense(self, grad: Any, var: Any, state: State) -> Any:  # type: ignore[override]
        return self._built("Apply", var, state, grad=grad)

    def _resource_apply_dense(self, grad: Any, handle: Any, state: State) -> Any:  # type: ignore[override]
        return self._built("ResourceApply", handle, state, grad=as_dtype_of(grad, handle))

    def _apply_sparse(self, grad: Any, var: Any, state: State) -> Any:  # type: ignore[override]
        return self._built("SparseApply", var, state, grad=grad.values, indices=grad.indices)

    def _resource_apply_sparse(  # type: ignore[override]
        self, grad: Any, handle: Any, indices: Any, state: State
    ) -> Any:
        return self._built("ResourceSparseApply", handle, state, grad=as_dtype_of(grad, handle), indices=indices)

    def _apply_sparse_duplicate_indices(self, grad: Any, var: Any, state: State) -> Any:  # type: ignore[override]
        values, indices = deduplicated(grad.values, grad.indices)
        return self._apply_sparse(tf.IndexedSlices(values, indices, grad.dense_shape), var, state)

    def _resource_apply_sparse_duplicate_indices(  # type: ignore[override]
        self, grad: Any, handle: Any, indices: Any, state: State
    ) -> Any:
        values, unique = deduplicated(grad, indices)
        return self._resource_apply_sparse(values, handle, unique, state)

    def _finish(self, state: State) -> Any:  # type: ignore[override]
        """What to do when all variables have been updated: an operation, or None."""
        return None
