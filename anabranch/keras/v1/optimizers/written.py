"""What programs write optimizers of their own with: the methods that TensorFlow 1.15 calls, and those they call.

A class that overrides ``_resource_apply_dense`` (and ``_resource_apply_sparse`` for rows) updates weights by it, with
slots from ``_create_slots``, hyperparameters from ``_get_hyper``, and what ``_prepare_local`` computes once a step.
"""

from __future__ import annotations

import inspect
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.keras.v1 import initializers, state
from anabranch.keras.v1.optimizers import schedules


class Written:
    """What an optimizer of a program's own is called by, and calls."""

    _use_locking = True
    _hyper: dict[str, Any]
    _rate: Any
    _variable: Any
    _weights: list[Any]

    @property
    def _has_own_rule(self) -> bool:
        return type(self)._resource_apply_dense is not Written._resource_apply_dense

    def _resource_apply_dense(self, grad: Any, var: Any) -> Any:
        """An operation that changes ``var`` by a gradient of its shape; may take ``apply_state``."""
        raise NotImplementedError(self._missing("_resource_apply_dense(self, grad, var, apply_state=None)"))

    def _resource_apply_sparse(self, grad: Any, var: Any, indices: Any) -> Any:
        """An operation that changes the rows ``indices``, all different; may take ``apply_state``."""
        raise NotImplementedError(self._missing("_resource_apply_sparse(self, grad, var, indices, apply_state=None)"))

    def _missing(self, method: str) -> str:
        return errors.message(
            f"{type(self).__name__} without {method}", "an optimizer with this method", f"def {method}"
        )

    def _resource_apply_sparse_duplicate_indices(self, grad: Any, var: Any, indices: Any, **kwargs: Any) -> Any:
        rows, places = tf.unique(indices)
        summed = tf.unsorted_segment_sum(grad, places, tf.shape(rows)[0])
        return self._resource_apply_sparse(summed, var, rows, **kwargs)

    def _resource_scatter_add(self, x: Any, i: Any, v: Any) -> Any:
        return self._after(tf.scatter_add(x, i, v), x)

    def _resource_scatter_update(self, x: Any, i: Any, v: Any) -> Any:
        return self._after(tf.scatter_update(x, i, v), x)

    @staticmethod
    def _after(update: Any, variable: Any) -> Any:
        with tf.control_dependencies([] if state.is_eager() else [update]):
            return variable.read_value()

    def _prepare(self, var_list: Any) -> dict[Any, dict[str, Any]]:
        """What updates of variables of one device and dtype share: ``apply_state[device, dtype]``."""
        apply_state: dict[Any, dict[str, Any]] = {}
        for key in dict.fromkeys((var.device, var.dtype.base_dtype) for var in var_list):
            apply_state[key] = {}
            with tf.device(key[0]):
                self._prepare_local(key[0], key[1], apply_state)
        return apply_state

    def _prepare_local(self, var_device: Any, var_dtype: Any, apply_state: Any) -> None:
        if "learning_rate" in self._hyper:
            apply_state[var_device, var_dtype]["lr_t"] = tf.identity(self._decayed_lr(var_dtype))

    def _fallback_apply_state(self, var_device: Any, var_dtype: Any) -> dict[str, Any]:
        apply_state: dict[Any, dict[str, Any]] = {(var_device, var_dtype): {}}
        self._prepare_local(var_device, var_dtype, apply_state)
        return apply_state[var_device, var_dtype]

    def _decayed_lr(self, var_dtype: Any) -> Any:
        """The learning rate of this step."""
        return self._rate(var_dtype)

    def _call_if_callable(self, param: Any) -> Any:
        return param() if callable(param) else param

    def _serialize_hyperparameter(self, hyperparameter_name: str) -> Any:
        """A hyperparameter as a config has it."""
        value = self._hyper[hyperparameter_name]
        if isinstance(value, schedules.LearningRateSchedule):
            return schedules.serialize(value)
        if isinstance(value, (tf.Tensor, tf.Variable)):
            return state.get_value(value)
        return value() if callable(value) else value

    def add_weight(
        self,
        name: str,
        shape: Any,
        dtype: Any = None,
        initializer: Any = "zeros",
        trainable: bool | None = None,
        synchronization: Any = None,
        aggregation: Any = None,
    ) -> Any:
        """A variable of the optimizer's own.

        Args:
            name: its name.
            shape: its shape.
            dtype: its dtype; float32 if None.
            initializer: how it begins, an initializer or its name, or a value.
            trainable: whether it is among the variables that are trained; it is unless this is False.
            synchronization: of replicas; the default alone.
            aggregation: likewise.

        Raises:
            NotImplementedError: ``synchronization`` or ``aggregation`` other than the defaults.
        """
        for argument, value in (("synchronization", synchronization), ("aggregation", aggregation)):
            if value is not None and value.name not in ("AUTO", "NONE"):
                raise NotImplementedError(errors.message(f"{argument}={value}", "the default", "leave it out"))
        kind = tf.as_dtype(dtype or "float32")
        return self._variable(name, started(initializer, shape, kind), trainable=trainable is not False)

    def _apply_own(self, pairs: list[Any]) -> list[Any]:
        """Operations that change weights by the program's methods."""
        apply_state = self._prepare([var for _, var in pairs])
        ops = []
        for gradient, var in pairs:
            if isinstance(gradient, tf.IndexedSlices):
                constraint = getattr(var, "constraint", None)
                if constraint is not None:
                    raise RuntimeError(
                        "Cannot use a constraint function on a sparse variable.\n"
                        + errors.message(
                            f"rows of {var.name}, which has a constraint", "dense gradients", "constraint=None"
                        )
                    )
                kwargs = self._state_for(self._resource_apply_sparse, apply_state)
                ops.append(
                    self._resource_apply_sparse_duplicate_indices(gradient.values, var, gradient.indices, **kwargs)
                )
                continue
            step = self._resource_apply_dense(gradient, var, **self._state_for(self._resource_apply_dense, apply_state))
            constraint = getattr(var, "constraint", None)
            if constraint is not None:
                with tf.control_dependencies([] if state.is_eager() else [step]):
                    step = tf.assign(var, constraint(var))
            ops.append(step)
        return [op for op in ops if op is not None]

    @staticmethod
    def _state_for(method: Any, apply_state: Any) -> dict[str, Any]:
        return {"apply_state": apply_state} if "apply_state" in inspect.signature(method).parameters else {}


def started(initializer: Any, shape: Any, kind: Any) -> Any:
    """The first value of a variable: of an initializer, by its name or itself, or the value that is given."""
    if not isinstance(initializer, str) and not callable(initializer):
        return initializer
    made = initializers.get(initializer)
    return lambda: made(shape, dtype=kind)
