"""The layer: an object that makes its variables when it is called first and uses them again in later calls.

Names are TensorFlow 1's, since checkpoints depend on them: a layer opens the variable scope of its name, or of its
class name in snake case made unique in the enclosing scope, at its first call; later calls enter that scope again.
"""

from __future__ import annotations

import contextlib
import copy
import re
from collections.abc import Callable, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.builder import Builder, builder_of, current_builder
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.default_graph import get_default_graph
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes, nest, shapes
from anabranch.ops.array.cast import cast
from anabranch.ops.array.public_shapes import shape
from anabranch.variables.partitioned import PartitionedVariable
from anabranch.variables.scope import variable_scope
from anabranch.variables.scope_state import VariableScope, get_variable_scope
from anabranch.variables.store import variable_store
from anabranch.variables.tracking import AutoTrackable, joined, no_automatic_dependency_tracking

_NAME_COUNTS = ("__layer_name_counts",)


def snake_case(name: str) -> str:
    """``BasicLSTMCell`` as ``basic_lstm_cell``."""
    spaced = re.sub("(.)([A-Z][a-z0-9]+)", r"\1_\2", name)
    lowered = re.sub("([a-z])([A-Z])", r"\1_\2", spaced).lower()
    return lowered if lowered[0] != "_" else f"private{lowered}"


def unique_name(base: str) -> str:
    """``base_1``, ``base_2`` and so on, counted in each graph."""
    # Where ops run at once it is the default graph below that counts: tf.reset_default_graph() begins anew.
    counts: dict[str, int] = get_default_graph().library_state(_NAME_COUNTS, dict)
    counts[base] = counts.get(base, 0) + 1
    return f"{base}_{counts[base]}"


@public("layers.InputSpec")
class InputSpec:
    """What a layer takes as an input: dtype, shape, rank, bounds of the rank, and sizes of axes (``{axis: size}``)."""

    def __init__(
        self,
        dtype: Any = None,
        shape: Any = None,
        ndim: int | None = None,
        max_ndim: int | None = None,
        min_ndim: int | None = None,
        axes: dict[int, int] | None = None,
    ) -> None:
        self.dtype = dtype
        self.shape = shape
        self.ndim = len(shape) if shape is not None else ndim
        self.max_ndim = max_ndim
        self.min_ndim = min_ndim
        self.axes = dict(axes or {})

    def check(self, layer: str, tensor: Tensor) -> None:
        """Refuse a tensor that does not fit.

        Raises:
            ValueError: rank or size of an axis differ.
        """
        shape = tensor._shape
        if shape is None:
            if self.ndim is not None or self.min_ndim is not None or self.max_ndim is not None:
                self._refuse(layer, tensor, "its rank is undefined, but the layer requires a defined rank.")
            return
        rank, full = len(shape), list(shape)
        if self.ndim is not None and rank != self.ndim:
            self._refuse(layer, tensor, f"expected ndim={self.ndim}, found ndim={rank}. Full shape received: {full}")
        if self.max_ndim is not None and rank > self.max_ndim:
            self._refuse(layer, tensor, f"expected max_ndim={self.max_ndim}, found ndim={rank}")
        if self.min_ndim is not None and rank < self.min_ndim:
            self._refuse(
                layer,
                tensor,
                f"expected min_ndim={self.min_ndim}, found ndim={rank}. Full shape received: {full}",
            )
        if self.dtype is not None and tensor.dtype.base != dtypes.as_dtype(self.dtype).base:
            wanted = dtypes.as_dtype(self.dtype).name
            self._refuse(layer, tensor, f"expected dtype={wanted}, found dtype={tensor.dtype.base.name}")
        if self.shape is not None and not shapes.is_compatible(shapes.as_raw(self.shape), shape):
            self._refuse(layer, tensor, f"expected shape={self.shape}, found shape={shapes.show(shape)}")
        for axis, size in self.axes.items():
            if size is not None and shape[axis] not in (size, None):
                wanted = f"expected axis {axis} of input shape to have value {size}"
                self._refuse(layer, tensor, f"{wanted} but received input with shape {full}")

    def _refuse(self, layer: str, tensor: Tensor, problem: str) -> None:
        raise ValueError(
            f"Input 0 of layer {layer} is incompatible with the layer: {problem}\n"
            + errors.message(
                f"tensor {tensor._label} of shape {shapes.show(tensor._shape)}",
                "what the layer was made for",
                "tf.reshape(x, shape), or another layer",
            )
        )


variable_watchers: list[Callable[[Any], None]] = []
"""What is told of each variable that a layer takes: Keras' sessions initialise those of layers in its models."""


@public("layers.Layer")
class Layer(AutoTrackable):
    """Base of all layers: derive from it, make variables in :meth:`build` with :meth:`add_weight`, compute in
    :meth:`call`.

    Args:
        trainable: whether optimizers change its variables.
        name: name of its variable scope; the class name in snake case, made unique, if None.
        dtype: dtype of its variables; that of the first input if None.

    Example:
        >>> import anabranch as tf
        >>> class Scale(tf.layers.Layer):
        ...     def build(self, shape):
        ...         self.factor = self.add_weight("factor", [], initializer=tf.ones_initializer())
        ...         self.built = True
        ...     def call(self, x):
        ...         return x * self.factor
        >>> with tf.Graph().as_default():
        ...     layer = Scale()
        ...     y = layer(tf.constant([1.0, 2.0]))
        ...     [v.name for v in layer.variables]
        ['scale/factor:0']
    """

    @no_automatic_dependency_tracking
    def __init__(self, trainable: bool = True, name: Any = None, dtype: Any = None, **kwargs: Any) -> None:
        self._reuse = kwargs.pop("_reuse", None)
        scope = kwargs.pop("_scope", None)
        self._activity_regularizer = kwargs.pop("activity_regularizer", None)
        self._batch_input_shape = kwargs.pop("batch_input_shape", kwargs.pop("input_shape", None))
        if kwargs:
            raise TypeError(
                f"Keyword argument not understood: {sorted(kwargs)[0]}\n"
                + errors.message(
                    f"{sorted(kwargs)} for {type(self).__name__}", "only the layer's own arguments", "leave them out"
                )
            )
        self.trainable = trainable
        self.built = False
        self.stateful = False
        self.supports_masking = False
        self.input_spec: Any = None
        self._dtype = None if dtype is None else dtypes.as_dtype(dtype).name
        self._trainable_weights: list[Any] = []
        self._non_trainable_weights: list[Any] = []
        self._updates: list[Any] = []
        self._losses: list[Any] = []
        self._builder: Builder | None = None
        self._calls: list[tuple[Any, Any]] = []
        self._call_has_scope = "scope" in self.call.__code__.co_varnames if hasattr(self.call, "__code__") else False
        self._init_set_name(name)
        self._scope: VariableScope | None = None
        if scope is not None:
            with variable_scope(scope) as captured:
                self._scope = captured

    def _init_set_name(self, name: Any) -> None:
        if isinstance(name, VariableScope):
            self._base_name = name.name
            self._name = unique_name(snake_case(type(self).__name__))
        elif name:
            self._base_name = self._name = name
        else:
            self._base_name = snake_case(type(self).__name__)
            self._name = unique_name(self._base_name)

    # ------------------------------------------------------------------------------------------------------ properties
    @property
    def name(self) -> str:
        """Name of the layer."""
        return self._name

    @property
    def dtype(self) -> Any:
        """Name of the dtype of its variables; None before the first call if it was not given."""
        return self._dtype

    @property
    def activity_regularizer(self) -> Any:
        """Function of the outputs whose value is added to the losses."""
        return self._activity_regularizer

    @property
    def graph(self) -> Any:
        """The graph in which it was called; None before, and where ops run at once."""
        return self._builder if self._builder is not None and self._builder.defers else None

    @property
    def _graph(self) -> Any:
        return self.graph

    @property
    def scope_name(self) -> str:
        """Name of its variable scope, which its first call opens."""
        if self._scope is None:
            raise ValueError(
                f'No name available for layer scope because the layer "{self._name}" has not been used yet.\n'
                + errors.message("scope_name before the first call", "a layer that was called", "layer(x) first")
            )
        return self._scope.name

    @property
    def trainable_weights(self) -> list[Any]:
        """Variables that optimizers change."""
        return list(self._trainable_weights) if self.trainable else []

    @property
    def non_trainable_weights(self) -> list[Any]:
        """The other variables."""
        if self.trainable:
            return list(self._non_trainable_weights)
        return [*self._trainable_weights, *self._non_trainable_weights]

    @property
    def weights(self) -> list[Any]:
        """All variables, those that are trained first."""
        return [*self.trainable_weights, *self.non_trainable_weights]

    @property
    def variables(self) -> list[Any]:
        """All variables."""
        return self.weights

    @property
    def trainable_variables(self) -> list[Any]:
        """Variables that optimizers change."""
        return self.trainable_weights

    @property
    def non_trainable_variables(self) -> list[Any]:
        """The other variables."""
        return self.non_trainable_weights

    @property
    def updates(self) -> list[Any]:
        """Operations that should run with a training step, such as those of moving averages."""
        return list(self._updates) if self.trainable or self.stateful else []

    @property
    def losses(self) -> list[Tensor]:
        """Losses of its regularizers."""
        found = [loss() if callable(loss) else loss for loss in self._losses]
        return [loss for loss in found if loss is not None]

    @property
    def input(self) -> Any:
        """Input of its only call."""
        return self._of_only_call(0, "input")

    @property
    def output(self) -> Any:
        """Output of its only call."""
        return self._of_only_call(1, "output")

    @property
    def input_shape(self) -> Any:
        """Shape of the input of its only call, as a tuple."""
        return nest.map_structure(lambda t: t._shape, self.input)

    @property
    def output_shape(self) -> Any:
        """Shape of the output of its only call, as a tuple."""
        return nest.map_structure(lambda t: t._shape, self.output)

    def _of_only_call(self, place: int, attribute: str) -> Any:
        if len(self._calls) != 1:
            raise AttributeError(
                f"The layer {self._name} has {len(self._calls)} inbound nodes: its {attribute} is not defined.\n"
                + errors.message(
                    f"{attribute} of a layer called {len(self._calls)} times",
                    "a layer that was called once",
                    "keep the tensor that the call returned",
                )
            )
        return self._calls[0][place]

    # -------------------------------------------------------------------------------------------------------- overrides
    def build(self, input_shape: Any) -> None:
        """Make the variables, knowing the shape of the inputs; called once, before the first :meth:`call`."""
        self.built = True

    def call(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Compute the outputs."""
        return inputs

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs for a shape of the inputs."""
        raise NotImplementedError(
            errors.message(
                f"compute_output_shape of {type(self).__name__}",
                "a layer that defines compute_output_shape",
                "call the layer: layer(x).shape",
            )
        )

    # ------------------------------------------------------------------------------------------------------------ calls
    def __call__(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        scope = kwargs.pop("scope", None)
        self._set_scope(scope)
        builder = builder_of(nest.flatten(inputs))
        if self._builder is None:
            self._builder = builder.home
        elif self._builder is not builder.home:
            raise ValueError(
                "Input graph and Layer graph are not the same.\n"
                + errors.message(
                    f"tensors of another graph for layer {self._name!r}",
                    "tensors of the graph in which it was called first",
                    "make the layer anew for each graph",
                )
            )
        assert self._scope is not None
        reuse = True if self.built else self._reuse
        opened = variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False)
        if not builder.defers:
            self._losses[:] = [loss for loss in self._losses if callable(loss)]
        with builder.as_default(), opened as entered, name_scope(self._name_scope_name(entered)):
            inputs = nest.map_structure(_as_tensor, inputs)
            flat = [item for item in nest.flatten(inputs) if isinstance(item, Tensor)]
            if self._dtype is None and flat:
                self._dtype = flat[0].dtype.base.name
            self._check_inputs(flat)
            if not self.built:
                given = [tensor.shape for tensor in flat]
                whole = (
                    given[0] if len(given) == 1 and not nest.is_nested(inputs) else nest.map_structure(_shape, inputs)
                )
                self.build(whole)
                self.built = True
            if scope is not None and self._call_has_scope:
                kwargs["scope"] = scope
            outputs = self.call(inputs, *args, **kwargs)
            if self._activity_regularizer is not None:
                for output in nest.flatten(outputs):
                    with name_scope("ActivityRegularizer"):
                        loss = convert_to_tensor(self._activity_regularizer(output))
                        batch = cast(shape(output)[0], loss.dtype.base)
                        self.add_loss(loss / batch, inputs=inputs)
        if builder.home.defers:
            self._calls.append((inputs, outputs))
        _add_new(self.updates, GraphKeys.UPDATE_OPS, builder)
        return outputs

    def apply(self, inputs: Any, *args: Any, **kwargs: Any) -> Any:
        """Call the layer."""
        return self(inputs, *args, **kwargs)

    def _name_scope_name(self, current: VariableScope) -> str:
        return current.original_name_scope

    def _set_scope(self, scope: Any = None) -> None:
        if self._scope is not None:
            return
        if self._reuse:
            opened = variable_scope(scope if scope is not None else self._base_name)
        else:
            opened = variable_scope(scope, default_name=self._base_name)
        with opened as captured:
            self._scope = captured

    def _check_inputs(self, flat: Sequence[Tensor]) -> None:
        specs = self.input_spec
        if not specs:
            return
        specs = specs if isinstance(specs, (list, tuple)) else [specs]
        for spec, tensor in zip(specs, flat, strict=False):
            if spec is not None:
                spec.check(self._name, tensor)

    # -------------------------------------------------------------------------------------------------------- variables
    def add_weight(
        self,
        name: str,
        shape: Any,
        dtype: Any = None,
        initializer: Any = None,
        regularizer: Any = None,
        trainable: bool | None = None,
        constraint: Any = None,
        use_resource: bool | None = None,
        synchronization: Any = None,
        aggregation: Any = None,
        partitioner: Any = None,
        getter: Any = None,
    ) -> Any:
        """A variable of the layer.

        Args:
            name: name within the layer's scope.
            shape: its shape.
            dtype: its dtype; that of the layer if None.
            initializer: how it starts; the scope's if None.
            regularizer: function of the variable whose value becomes one of the losses.
            trainable: whether optimizers change it (True if None), if the layer is trainable.
            constraint: function that optimizers apply to it after an update.
            use_resource: make it behind a resource handle.
            synchronization: must be None or AUTO here.
            aggregation: must be None or NONE here.
            partitioner: function that cuts it into parts.
            getter: function used in place of ``tf.get_variable``.

        Returns:
            The variable, or a `PartitionedVariable`.
        """
        trainable = True if trainable is None else trainable
        wanted = dtypes.as_dtype(dtype if dtype is not None else self._dtype or dtypes.float32)
        self._set_scope(None)
        assert self._scope is not None
        known = set(current_builder().get_collection(GraphKeys.GLOBAL_VARIABLES))
        extra: dict[str, Any] = {}
        if synchronization is not None:
            extra["synchronization"] = synchronization
        if aggregation is not None:
            extra["aggregation"] = aggregation
        reuse = True if self.built else self._reuse
        opened = variable_scope(self._scope, reuse=reuse, auxiliary_name_scope=False)
        with opened as entered, name_scope(self._name_scope_name(entered)):
            make: Callable[..., Any] = getter or _get_variable
            variable = make(
                name,
                shape=shape,
                dtype=wanted,
                initializer=initializer,
                trainable=trainable and self.trainable,
                constraint=constraint,
                use_resource=use_resource,
                partitioner=partitioner,
                **extra,
            )
            parts = list(variable) if isinstance(variable, PartitionedVariable) else [variable]
            if regularizer is not None and any(part not in known for part in parts):
                self._regularize(name, parts, regularizer)
        for part in parts:
            # a custom getter may have had the last word
            trained = trainable and (not self.trainable or getattr(part, "trainable", True))
            own_weights = self._trainable_weights if trained else self._non_trainable_weights
            if not any(part is other for other in own_weights):
                own_weights.append(part)
                for tell in variable_watchers:
                    tell(part)
        if not isinstance(variable, PartitionedVariable):
            self._named_children()[name] = variable
            joined()
        return variable

    def add_variable(self, *args: Any, **kwargs: Any) -> Any:
        """Like :meth:`add_weight`."""
        return self.add_weight(*args, **kwargs)

    def _regularize(self, name: str, parts: Sequence[Any], regularizer: Any) -> None:
        for part in parts:
            if not current_builder().defers:  # as it will be when somebody asks
                self._losses.append(lambda part=part: regularizer(part))
                continue
            with name_scope(f"{name}/Regularizer"):
                loss = regularizer(part)
            if loss is not None:
                self.add_loss(loss)

    # ----------------------------------------------------------------------------------------------- losses and updates
    def add_loss(self, losses: Any, inputs: Any = None) -> None:
        """Add losses, also to the collection ``REGULARIZATION_LOSSES``."""
        added = [loss for loss in (losses if isinstance(losses, (list, tuple)) else [losses]) if loss is not None]
        for loss in added:
            if isinstance(loss, Tensor):
                loss._of_inputs = inputs is not None  # type: ignore[attr-defined]
        self._losses += added
        if not current_builder().defers:  # they are those of the last call
            return
        _add_new(added, GraphKeys.REGULARIZATION_LOSSES, current_builder())

    def add_update(self, updates: Any, inputs: Any = None) -> None:
        """Add operations to run with each training step, also to the collection ``UPDATE_OPS``."""
        added = [
            update for update in (updates if isinstance(updates, (list, tuple)) else [updates]) if update is not None
        ]
        if current_builder().defers:  # the operations that make tensors, as in TensorFlow
            added = [getattr(update, "_maker", None) or update for update in added]
        for update in added:
            if hasattr(update, "__dict__"):
                update._of_inputs = inputs is not None
        self._updates += added

    def get_losses_for(self, inputs: Any) -> list[Any]:
        """Losses that depend on inputs, or, for None, those that do not."""
        return _depending(inputs, self.losses)

    def get_updates_for(self, inputs: Any) -> list[Any]:
        """Updates that depend on inputs, or, for None, those that do not."""
        return _depending(inputs, self.updates)

    def count_params(self) -> int:
        """Number of elements of all variables."""
        if not self.built:
            raise ValueError(
                errors.message("count_params before the first call", "a layer with variables", "layer(x) first")
            )
        return sum(int(shapes.num_elements(variable.shape.as_list()) or 0) for variable in self.weights)

    def __deepcopy__(self, memo: dict[int, Any]) -> Layer:
        shared = {"_scope", "_trainable_weights", "_non_trainable_weights"}
        copied = type(self).__new__(type(self))
        memo[id(self)] = copied
        for key, value in self.__dict__.items():
            kept = value if key == "_builder" else copy.copy(value) if key in shared else _copied(value, memo)
            copied.__dict__[key] = kept
        return copied


def _depending(inputs: Any, items: Sequence[Any]) -> list[Any]:
    """Those of a layer's losses or updates that were computed from inputs; for None, those that depend on none."""
    if inputs is None:
        return [item for item in items if not getattr(item, "_of_inputs", False)]
    own = [item for item in items if getattr(item, "_of_inputs", False)]
    waiting = [tensor for tensor in nest.flatten(inputs) if isinstance(tensor, Tensor)]
    if any(tensor.has_value for tensor in waiting):
        return own  # a value does not tell what was computed from it
    reached: set[Any] = set(waiting)
    while waiting:
        for op in waiting.pop().consumers():
            if op not in reached:
                reached.add(op)
                waiting += op.outputs
                reached.update(op.outputs)
    return [item for item in own if item in reached or getattr(item, "op", item) in reached]


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    with contextlib.suppress(TypeError):  # a lock, an open file: what cannot be copied is shared
        return copy.deepcopy(value, memo)
    return value


def _get_variable(name: str, **kwargs: Any) -> Any:
    return get_variable_scope().get_variable(variable_store(), name, **kwargs)


def _as_tensor(value: Any) -> Any:
    return value if isinstance(value, Tensor) or hasattr(value, "flow") or value is None else convert_to_tensor(value)


def _shape(value: Any) -> Any:
    return value.shape if isinstance(value, Tensor) else None


def _add_new(items: Sequence[Any], collection: str, builder: Builder) -> None:
    for item in items:
        if not any(item is other for other in builder.get_collection(collection)):
            builder.add_to_collection(collection, item)
