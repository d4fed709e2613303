"""``tf.keras.optimizers`` of version 1: updates of weights, with hyperparameters as variables.

An optimizer states its slots and a rule on arrays; the base applies it to dense gradients and to rows of
:class:`tf.IndexedSlices` alike. ``sparse`` says what rows without a gradient see: nothing (``"rows"``), the decay of
their slots (``"slots"``), or the whole step, as if their gradient was zero (``"dense"``), as each does in TensorFlow.
"""

from __future__ import annotations

from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.values import nest
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import state
from anabranch.keras.v1.objects import Registry
from anabranch.keras.v1.optimizers import schedules
from anabranch.keras.v1.optimizers.written import Written, started
from anabranch.layers.base import snake_case
from anabranch.variables import replica_frames, tracking

registry = Registry("optimizer")


class _InReplicas:
    """An optimizer as strategies, which apply the gradients of all replicas together, call those of ``tf.train``."""

    def __init__(self, optimizer: Optimizer) -> None:
        self._create_slots, self._apply = optimizer._create_slots, optimizer.apply_gradients

    def apply_gradients(self, pairs: Any, global_step: Any, name: str | None) -> Any:
        return self._apply(pairs, name)


class Optimizer(Written):
    """Base of optimizers.

    Args:
        name: name of the scope of its variables; that of the class in snake case, numbered, if None.
        clipnorm: greatest norm of a gradient; longer ones are scaled.
        clipvalue: greatest absolute value of an element of a gradient.
        lr: another name of ``learning_rate``.
        decay: the rate becomes ``learning_rate / (1 + decay * iterations)``.
    """

    slots: dict[str, float] = {}
    sparse = "rows"
    _step_name = "iter"

    def __init__(self, name: str | None, **kwargs: Any) -> None:
        unknown = set(kwargs) - {"clipnorm", "clipvalue", "lr", "decay"}
        if unknown:
            raise TypeError(
                f"Unexpected keyword argument passed to optimizer: {sorted(unknown)[0]}\n"
                + errors.message(str(sorted(unknown)), "arguments of the optimizer", "Adam(learning_rate=0.001)")
            )
        self._name = name if name else state.unique_name(snake_case(type(self).__name__), zero_based=True)
        self._hyper: dict[str, Any] = {}
        self._options: dict[str, Any] = {}
        self._slots: dict[str, dict[int, Any]] = {}
        self._weights: list[Any] = []
        self._iterations: Any = None
        self._hypers_created = False
        for option, value in kwargs.items():
            if isinstance(value, int | float | np.number) and value < 0:
                raise ValueError(
                    f"Expected {option} >= 0, received: {value}\n"
                    + errors.message(f"{option}={value}", "a number of 0 or more", f"{option}={-value}")
                )
        self.clipnorm, self.clipvalue = kwargs.get("clipnorm"), kwargs.get("clipvalue")
        self._initial_decay = kwargs.get("decay") or 0.0

    # ------------------------------------------------------------------------------------------------- hyperparameters

    def _set_hyper(self, name: str, value: Any) -> None:
        name = "learning_rate" if name == "lr" else name
        previous = self._hyper.get(name)
        if isinstance(previous, tf.Variable) and not callable(value):
            state.set_value(previous, value)
        else:
            self._hyper[name] = value

    def _get_hyper(self, name: str, dtype: Any = None) -> Any:
        self._create_hypers()
        value = self._hyper[name]
        if isinstance(value, schedules.LearningRateSchedule):
            return value
        value = value() if callable(value) and not isinstance(value, (tf.Tensor, tf.Variable)) else value
        return value if dtype is None else tf.cast(value, dtype)

    def __getattr__(self, name: str) -> Any:
        name = "learning_rate" if name == "lr" else name
        if name.startswith("_") or name not in self.__dict__.get("_hyper", {}):
            raise AttributeError(name)
        return self._get_hyper(name)

    def __setattr__(self, name: str, value: Any) -> None:
        name = "learning_rate" if name == "lr" else name
        if name in self.__dict__.get("_hyper", {}):
            self._set_hyper(name, value)
        else:
            object.__setattr__(self, name, value)

    def _create_hypers(self) -> None:
        if self._hypers_created:
            return
        self._hypers_created = True
        with tf.init_scope():
            _ = self.iterations
            for name, value in sorted(self._hyper.items()):
                if isinstance(value, (tf.Tensor, tf.Variable)) or callable(value):
                    continue
                self._hyper[name] = self._variable(name, np.float32(value))
        tracking.joined()

    def _variable(self, name: str, value: Any, trainable: bool = False) -> Any:
        variable = tf.Variable(value, name=name, trainable=trainable, use_resource=True)
        state.track_variable(variable)
        return variable

    def _rate(self, kind: Any) -> Any:
        rate = self._get_hyper("learning_rate")
        if isinstance(rate, schedules.LearningRateSchedule):
            rate = rate(tf.cast(self.iterations, kind))
        rate = tf.cast(rate, kind)
        if "decay" not in self._hyper:  # of a program's class
            return rate
        return rate / (1.0 + tf.cast(self._get_hyper("decay"), kind) * tf.cast(self.iterations, kind))

    def _number(self, name: str, kind: Any) -> Any:
        return tf.cast(self._get_hyper(name), kind)

    # ------------------------------------------------------------------------------------------------------- variables

    @property
    def iterations(self) -> Any:
        """Number of updates so far, a variable."""
        if self._iterations is None:
            with tf.init_scope():
                variable = self._variable(self._step_name, np.int64(0))
            object.__setattr__(self, "_iterations", variable)
            self._weights.insert(0, variable)
            tracking.joined()
        return self._iterations

    @iterations.setter
    def iterations(self, variable: Any) -> None:
        object.__setattr__(self, "_iterations", variable)
        self._weights.insert(0, variable)

    @property
    def weights(self) -> list[Any]:
        """Its variables: the number of updates, then the slots."""
        return self._weights

    def variables(self) -> list[Any]:
        """Its variables: the number of updates, then the slots."""
        return self._weights

    def get_weights(self) -> list[Any]:
        """Values of its variables."""
        return state.batch_get_value(self._weights)

    def set_weights(self, weights: Any) -> None:
        """Give its variables values.

        Raises:
            ValueError: their number or a shape differs.
        """
        if len(self._weights) != len(weights):
            raise ValueError(
                f"You called `set_weights(weights)` on optimizer {self._name} with a  weight list of length "
                f"{len(weights)}, but the optimizer was expecting {len(self._weights)} weights.\n"
                + errors.message(f"{len(weights)} arrays", f"{len(self._weights)} arrays", "after a first model.fit")
            )
        state.batch_set_value(zip(self._weights, weights, strict=True))

    def add_slot(self, var: Any, slot_name: str, initializer: Any = "zeros") -> Any:
        """The variable of that name that belongs to a weight."""
        made = self._slots.setdefault(slot_name, {})
        if id(var) not in made:
            value = self.slots.get(slot_name, 0.0)
            name = f"{var.name.partition(':')[0]}/{slot_name}"
            if slot_name not in self.slots and initializer != "zeros":
                initializer = started(initializer, K.dims(var.shape), var.dtype.base_dtype)
            if isinstance(initializer, str):
                initializer = np.full(K.dims(var.shape), value, var.dtype.base_dtype.as_numpy_dtype)
            with tf.init_scope():
                made[id(var)] = self._variable(name, initializer)
            self._weights.append(made[id(var)])
            tracking.joined()
        return made[id(var)]

    def _existing_slot(self, var: Any, slot_name: str) -> Any:
        """The slot of a weight, or None: what checkpoints ask for."""
        return self._slots.get(slot_name, {}).get(id(var))

    def _restored_slot(self, var: Any, slot_name: str, value: Any) -> Any:
        """The slot of a weight, made with a value of a checkpoint."""
        return self.add_slot(var, slot_name, value)

    def get_slot(self, var: Any, slot_name: str) -> Any:
        """The variable of that name that belongs to a weight."""
        return self._slots[slot_name][id(var)]

    def get_slot_names(self) -> list[str]:
        """Names of its slots."""
        return sorted(self._slots)

    def _slot_names(self) -> list[str]:
        return list(self.slots)

    def _create_slots(self, var_list: Any) -> None:
        self._create_hypers()
        for slot in self._slot_names():
            for var in var_list:
                self.add_slot(var, slot)

    # --------------------------------------------------------------------------------------------------------- updates

    def get_gradients(self, loss: Any, params: Any) -> list[Any]:
        """Gradients of a loss, clipped.

        Raises:
            ValueError: the loss does not depend on one of the weights in a way that can be differentiated.
        """
        params = nest.flatten(params)
        gradients = tf.gradients(loss, params)
        for gradient, param in zip(gradients, params, strict=True):
            if gradient is None:
                raise ValueError(
                    f"Variable {param} has `None` for gradient. Please make sure that all of your ops have a gradient "
                    "defined (i.e. are differentiable).\n"
                    + errors.message(
                        f"a loss without gradient for {param.name}",
                        "a loss that depends on every weight",
                        "layer.trainable = False for weights that are not used",
                    )
                )
        return [self._clipped(gradient) for gradient in gradients]

    def _clipped(self, gradient: Any) -> Any:
        if self.clipnorm:
            gradient = tf.clip_by_norm(gradient, self.clipnorm)
        if self.clipvalue:
            gradient = tf.clip_by_value(gradient, -self.clipvalue, self.clipvalue)
        return gradient

    def get_updates(self, loss: Any, params: Any) -> list[Any]:
        """Operations that take one step down the loss."""
        gradients = self.get_gradients(loss, params)
        return [self.apply_gradients(zip(gradients, params, strict=True))]

    def minimize(self, loss: Any, var_list: Any, grad_loss: Any = None, name: str | None = None) -> Any:
        """Take one step down the loss: an operation; where ops run at once ``loss`` is a function."""
        if callable(loss):
            with tf.GradientTape() as tape:
                value = loss()
            variables = list(var_list() if callable(var_list) else var_list)
            gradients = tape.gradient(value, variables, grad_loss)
        else:
            variables = list(var_list() if callable(var_list) else var_list)
            gradients = tf.gradients(loss, variables, grad_loss)
        gradients = [None if gradient is None else self._clipped(gradient) for gradient in gradients]
        return self.apply_gradients(zip(gradients, variables, strict=True), name=name)

    def apply_gradients(self, grads_and_vars: Any, name: str | None = None) -> Any:
        """Change weights by their gradients; pairs without a gradient are left out.

        Raises:
            ValueError: there are pairs, and none has a gradient.
        """
        given = list(grads_and_vars)
        pairs = [(gradient, var) for gradient, var in given if gradient is not None]
        if given and not pairs:
            raise ValueError(
                "No gradients provided for any variable.\n"
                + errors.message(
                    "no gradient at all", "a gradient for one variable or more", "a loss that depends on the variables"
                )
            )
        if replica_frames.top() is not None:
            merged = hooks.apply_in_replicas(_InReplicas(self), pairs, None, name)
            if merged is not NotImplemented:
                return merged
        with tf.name_scope(self._name):
            self._create_hypers()
            self._create_slots([var for _, var in pairs])
            ops = self._apply_own(pairs) if self._has_own_rule else self._apply_all(pairs)
            with tf.control_dependencies([] if state.is_eager() else ops):
                return tf.assign_add(self.iterations, 1, name=name)

    def _apply_all(self, pairs: list[Any]) -> list[Any]:
        return [self._apply(gradient, var) for gradient, var in pairs]

    def _apply(self, gradient: Any, var: Any) -> Any:
        kind = var.dtype.base_dtype
        rows = None
        if isinstance(gradient, tf.IndexedSlices):
            rows, places = tf.unique(gradient.indices)
            values = tf.unsorted_segment_sum(gradient.values, places, tf.shape(rows)[0])
            if self.sparse != "rows":
                values = tf.scatter_nd(tf.expand_dims(rows, 1), values, tf.cast(tf.shape(var), rows.dtype))
            gradient = values
        slots = {name: self.get_slot(var, name) for name in self._slot_names()}
        only = rows is not None and self.sparse == "rows"
        now = {name: tf.gather(slot, rows) if only else tf.identity(slot) for name, slot in slots.items()}
        current = (tf.gather(var, rows) if only else tf.identity(var)) if self._reads_weights() else None
        rate = self._rate(kind)
        change, after = self.rule(tf.cast(gradient, kind), rate, now, kind, current)
        with tf.control_dependencies([x for x in (change, *after.values()) if not x.has_value]):
            ops = [
                tf.scatter_update(slots[name], rows, value) if only else tf.assign(slots[name], value)
                for name, value in after.items()
            ]
            if rows is None or self.sparse == "dense":
                step = tf.assign_sub(var, change)
            else:
                step = tf.scatter_sub(var, rows, change if only else tf.gather(change, rows))
        constraint = getattr(var, "constraint", None)
        if constraint is not None:
            with tf.control_dependencies([step] if not state.is_eager() else []):
                step = tf.assign(var, constraint(var))
        return step if state.is_eager() else tf.group(step, *ops)

    def _reads_weights(self) -> bool:
        return False

    def rule(self, gradient: Any, rate: Any, slots: dict[str, Any], kind: Any, var: Any) -> tuple[Any, dict[str, Any]]:
        """What is taken off a weight, and the new values of its slots."""
        raise NotImplementedError

    # --------------------------------------------------------------------------------------------------------- configs

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        config: dict[str, Any] = {"name": self._name}
        for clip in ("clipnorm", "clipvalue"):
            if getattr(self, clip) is not None:
                config[clip] = getattr(self, clip)
        if self._has_own_rule:
            return config  # a program's class adds its own
        for name in sorted(self._hyper, key=lambda name: {"learning_rate": 0, "decay": 1}.get(name, 2)):
            value = self._hyper[name]
            if isinstance(value, schedules.LearningRateSchedule):
                config[name] = schedules.serialize(value)
            elif isinstance(value, (tf.Tensor, tf.Variable)):
                config[name] = state.get_value(value)
            else:
                config[name] = value() if callable(value) else value
        return {**config, **self._options}

    @classmethod
    def from_config(cls, config: dict[str, Any], custom_objects: Any = None) -> Any:
        """The optimizer that a config describes."""
        config = dict(config)
        if "lr" in config:
            config["learning_rate"] = config.pop("lr")
        if isinstance(config.get("learning_rate"), dict):
            config["learning_rate"] = schedules.deserialize(config["learning_rate"], custom_objects)
        return cls(**config)

    def _trackable_children(self) -> dict[str, Any]:
        own = {name: value for name, value in self._hyper.items() if isinstance(value, tf.Variable)}
        return own if self._iterations is None else {"iter": self._iterations, **own}


def initialize(optimizer: Any, name: str, kwargs: dict[str, Any], hypers: dict[str, Any], **options: Any) -> None:
    """Set up an optimizer: its base, hyperparameters (``lr`` is an old name) and further options of its config."""
    Optimizer.__init__(optimizer, name, **kwargs)
    optimizer._set_hyper("decay", optimizer._initial_decay)
    hypers["learning_rate"] = kwargs.get("lr", hypers["learning_rate"])
    for key, value in hypers.items():
        optimizer._set_hyper(key, value)
    optimizer._options.update(options)
    for key, value in options.items():
        object.__setattr__(optimizer, key, value)


def epsilon_of(value: float | None) -> float:
    """The number that keeps divisors from 0: the one that is given, or that of the backend."""
    return state.epsilon() if value is None else value
