"""The base of optimizers: gradients of a loss, and one update op per variable.

An optimizer is a graph program: it asks :func:`anabranch.autodiff.gradients.gradients` for gradients, makes slots
(variables beside variables) and one update op per variable under its name scope, and groups them. A subclass says
which slots it keeps, which numbers it takes, and which op updates a variable from a dense gradient or from rows of one.
"""

from __future__ import annotations

from collections.abc import Iterable, KeysView, Sequence, ValuesView
from typing import Any

from anabranch.autodiff.gradients import gradients
from anabranch.core import errors
from anabranch.core.contract import hooks
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import builder_of, current_builder
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.values import dtypes
from anabranch.eager.tape import GradientTape
from anabranch.ops.control.public_dependencies import group, tuple_
from anabranch.train import slots
from anabranch.variables import replica_frames
from anabranch.variables.assignments import assign_add
from anabranch.variables.listing import trainable_variables
from anabranch.variables.partitioned import PartitionedVariable
from anabranch.variables.resource_variable import ResourceVariable
from anabranch.variables.tracking import Trackable, joined
from anabranch.variables.variable import Variable


def is_resource(variable: Any) -> bool:
    """Whether ``variable`` lives behind a handle."""
    return isinstance(variable, ResourceVariable)


def target_of(variable: Any) -> Any:
    """The tensor that a gradient with respect to ``variable`` is taken of: its ref or its handle."""
    if isinstance(variable, Tensor):
        return variable
    return variable.handle if is_resource(variable) else variable._ref()


def _flat(var_list: Any) -> list[Any]:
    if isinstance(var_list, PartitionedVariable):
        return list(var_list)
    if isinstance(var_list, (list, tuple, set, KeysView, ValuesView)):  # also those of a dict
        return [item for part in var_list for item in _flat(part)]
    if isinstance(var_list, dict):
        return [item for key in sorted(var_list) for item in _flat(var_list[key])]
    return [var_list]


@public("train.Optimizer")
class Optimizer(Trackable):
    """Base class of optimizers.

    Args:
        use_locking: kept for compatibility; updates are atomic in any case, since a step is a transaction.
        name: name of the optimizer's scope and default name of its slots.

    Subclasses override ``_create_slots``, ``_prepare``, ``_apply_dense``, ``_apply_sparse`` and their ``_resource``
    forms, and ``_finish``.
    """

    GATE_NONE = 0
    GATE_OP = 1
    GATE_GRAPH = 2

    def __init__(self, use_locking: bool, name: str):
        if not name:
            raise ValueError(
                "Must specify the optimizer name\n"
                + errors.message(f"name={name!r}", "a name for the scope and the slots", 'name="Adam"')
            )
        self._use_locking = use_locking
        self._name = name
        self._slots: dict[str, dict[Any, Any]] = {}
        self._non_slots: dict[tuple[str, Any], Any] = {}
        self._deferred_slot_restorations: dict[Any, Any] = {}

    def get_name(self) -> str:
        """The optimizer's name."""
        return self._name

    # ------------------------------------------------------------------------------------------------------- gradients
    def minimize(
        self,
        loss: Any,
        global_step: Any = None,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        name: str | None = None,
        grad_loss: Any = None,
    ) -> Operation:
        """An operation that takes one step down the gradient of ``loss``.

        Args:
            loss: floating tensor, or a function that makes it.
            global_step: variable to increment by one when the step is done.
            var_list: variables to update; all trainable ones if None.
            gate_gradients: ``GATE_NONE``, ``GATE_OP`` or ``GATE_GRAPH``.
            aggregation_method: how gradients of one tensor are summed, see ``tf.AggregationMethod``.
            colocate_gradients_with_ops: put gradient ops where the forward ops are.
            name: name of the returned operation.
            grad_loss: gradient of what follows with respect to ``loss``.

        Raises:
            ValueError: no variable has a gradient.
        """
        pairs = self.compute_gradients(  # all by name: classes of programs have methods of loss, var_list and **kwargs
            loss,
            var_list=var_list,
            gate_gradients=gate_gradients,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
            grad_loss=grad_loss,
        )
        if all(grad is None for grad, _ in pairs):
            raise ValueError(
                "No gradients provided for any variable, check your graph for ops that do not support gradients, "
                f"between variables {[str(variable) for _, variable in pairs]} and loss {loss}.\n"
                + errors.message(
                    f"loss {getattr(loss, 'name', loss)!r} without a differentiable path to any variable",
                    "at least one path",
                    "look for ops without gradients (casts to integers, argmax, py_func) between them",
                )
            )
        return self.apply_gradients(pairs, global_step=global_step, name=name)

    def compute_gradients(
        self,
        loss: Any,
        var_list: Any = None,
        gate_gradients: int = GATE_OP,
        aggregation_method: Any = None,
        colocate_gradients_with_ops: bool = False,
        grad_loss: Any = None,
    ) -> list[tuple[Any, Any]]:
        """Pairs of gradient (tensor, IndexedSlices or None) and variable; arguments as for :meth:`minimize`."""
        builder = current_builder()
        by_function = callable(loss) and not isinstance(loss, (Tensor, Variable))
        if builder.only_handles and by_function:
            with GradientTape() as tape:
                if var_list is not None:
                    tape.watch(_flat(var_list))
                value = loss()
            chosen = list(tape.watched_variables()) if var_list is None else _flat(var_list)
            return list(zip(tape.gradient(value, chosen, grad_loss), chosen, strict=True))
        if not builder.defers:
            raise RuntimeError(
                "`loss` passed to Optimizer.compute_gradients should be a function when eager execution is enabled.\n"
                + errors.message(
                    f"a {type(loss).__name__}, whose computation is over",
                    "a function that computes the loss",
                    "optimizer.minimize(lambda: loss(model(x), y))",
                )
            )
        if by_function:
            loss = loss()
        if gate_gradients not in (Optimizer.GATE_NONE, Optimizer.GATE_OP, Optimizer.GATE_GRAPH):
            raise ValueError(
                "gate_gradients must be one of: Optimizer.GATE_NONE, Optimizer.GATE_OP, Optimizer.GATE_GRAPH. "
                f"Not {gate_gradients}\n"
                + errors.message(f"gate_gradients={gate_gradients!r}", "0, 1 or 2", "gate_gradients=optimizer.GATE_OP")
            )
        self._assert_valid_dtypes([loss])
        if grad_loss is not None:
            self._assert_valid_dtypes([grad_loss])
        if var_list is None:
            chosen = trainable_variables() + builder.get_collection(GraphKeys.TRAINABLE_RESOURCE_VARIABLES)
        else:
            chosen = _flat(var_list)
        chosen += builder.get_collection(GraphKeys._STREAMING_MODEL_PORTS)
        for variable in chosen:
            if not isinstance(variable, (Variable, Tensor)):
                raise TypeError(
                    f"Argument is not a tf.Variable: {variable}\n"
                    + errors.message(f"a {type(variable).__name__} in var_list", "a list of variables", "var_list=[v]")
                )
        if not chosen:
            raise ValueError(
                "No variables to optimize.\n"
                + errors.message(
                    "no variable in var_list" if var_list is not None else "a graph without trainable variables",
                    "at least one variable to train",
                    "v = tf.get_variable(name, shape)",
                )
            )
        grads = self._gradients(
            loss,
            [target_of(variable) for variable in chosen],
            grad_ys=grad_loss,
            gate_gradients=gate_gradients == Optimizer.GATE_OP,
            aggregation_method=aggregation_method,
            colocate_gradients_with_ops=colocate_gradients_with_ops,
        )
        if gate_gradients == Optimizer.GATE_GRAPH:
            grads = tuple_(grads)
        pairs = list(zip(grads, chosen, strict=True))
        self._assert_valid_dtypes([v for g, v in pairs if g is not None and v.dtype.base != dtypes.resource])
        return pairs

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> Any:
        """An operation that applies gradients to variables; the second half of :meth:`minimize`.

        Where ops run at once the gradients are applied now, and None is returned.

        Raises:
            TypeError: a gradient is not a tensor. ValueError: there is no gradient at all.
        """
        pairs = []
        for grad, variable in tuple(grads_and_vars):
            if grad is not None:
                grad = _as_gradient(grad)
            pairs.append((grad, variable))
        if not pairs:
            raise ValueError(
                "No variables provided.\n"
                + errors.message("no pairs", "pairs of gradient and variable", "optimizer.compute_gradients(loss)")
            )
        var_list = [variable for grad, variable in pairs if grad is not None]
        for variable in var_list:
            if isinstance(variable, Tensor):
                raise NotImplementedError(
                    "Trying to update a Tensor\n"
                    + errors.message(
                        f"a gradient for the tensor {_shown(variable)!r}", "a variable", "tf.Variable(value)"
                    )
                )
            if not isinstance(variable, Variable):
                raise TypeError(
                    f"Argument is not a tf.Variable: {variable}\n"
                    + errors.message(f"a gradient for a {type(variable).__name__}", "a variable", "(gradient, v)")
                )
        if not var_list:
            raise ValueError(
                f"No gradients provided for any variable: {[str(v) for _, v in pairs]}.\n"
                + errors.message("None for each variable", "at least one gradient", "check what the loss depends on")
            )
        if replica_frames.top() is not None:
            merged = hooks.apply_in_replicas(self, pairs, global_step, name)
            if merged is not NotImplemented:
                return merged
        builder = current_builder()
        # Slots outlive the branch or loop in which a program may train.
        with builder.init_scope():
            self._create_slots(var_list)
        updates = []
        with builder.name_scope(name or self._name) as scope:
            self._begin()
            for grad, variable in pairs:
                if grad is None:
                    continue
                with builder.name_scope("update_" + variable._shared_name), builder.colocate_with(variable):
                    updates.append(self._update(grad, variable))
            if global_step is None:
                train_op: Any = self._end(updates, scope)
            else:
                # The step counts when all variables have been updated, so that a reader of it never sees half a step.
                done = self._end(updates, "update")
                with builder.control_dependencies([done]), builder.colocate_with(global_step):
                    if is_resource(global_step):
                        one = convert.constant(1, global_step.dtype.base)
                        train_op = build("AssignAddVariableOp", global_step.handle, one, name=scope)
                    else:
                        train_op = assign_add(global_step, 1, name=scope)
        if isinstance(train_op, Tensor):
            train_op = train_op._maker
        if train_op not in builder.get_collection(GraphKeys.TRAIN_OP):
            builder.add_to_collection(GraphKeys.TRAIN_OP, train_op)
        return train_op

    # A form of optimizers whose methods have other arguments overrides these, and the calls in `_update`.
    _gradients = staticmethod(gradients)

    def _begin(self) -> None:
        self._prepare()

    def _end(self, updates: Sequence[Any], name_scope: str) -> Any:
        return self._finish(updates, name_scope)

    def _update(self, grad: Any, variable: Any) -> Any:
        constraint = getattr(variable, "constraint", None)
        if isinstance(grad, IndexedSlices):
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
                return self._resource_apply_sparse_duplicate_indices(grad.values, variable, grad.indices)
            return self._apply_sparse_duplicate_indices(grad, variable)
        update = (
            self._resource_apply_dense(grad, variable) if is_resource(variable) else self._apply_dense(grad, variable)
        )
        if constraint is None:
            return update
        with current_builder().control_dependencies([update]):
            assigned = variable.assign(constraint(variable))
            return getattr(assigned, "op", assigned)

    # ------------------------------------------------------------------------------------------------------------ slots
    def get_slot(self, var: Any, name: str) -> Any:
        """The slot called ``name`` of ``var``, or None."""
        named = self._slots.get(name)
        return None if named is None else named.get(_key(var))

    def _trackable_children(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Variables that belong to no other one, by name, and what a subclass follows."""
        own = {name: variable for (name, _), variable in sorted(self._non_slots.items(), key=lambda pair: pair[0][0])}
        return own | self._named_children()

    def _existing_slot(self, variable: Any, slot_name: str) -> Any:
        """The slot of a variable, or None: what checkpoints ask for."""
        return self.get_slot(variable, slot_name)

    def _restored_slot(self, variable: Any, slot_name: str, value: Any) -> Any:
        """The slot of a variable, made with a value of a checkpoint."""
        return self._get_or_make_slot(variable, value, slot_name, self._name)

    def get_slot_names(self) -> list[str]:
        """Sorted names of the slots."""
        return sorted(self._slots)

    def variables(self) -> list[Any]:
        """Slots and other variables of the optimizer in the current default graph, by name."""
        home = current_builder().home
        variables = [*self._non_slots.values(), *(slot for named in self._slots.values() for slot in named.values())]
        # A variable that has a value can be used in each graph, and belongs to none.
        variables = [
            variable
            for variable in variables
            if (
                not home.defers
                if getattr(variable._handle_tensor(), "has_value", False)
                else variable._builder.home is home
            )
        ]
        return sorted(variables, key=lambda variable: variable.name)

    def _create_slots(self, var_list: Sequence[Any]) -> None:
        """Make the slots of ``var_list``; nothing by default."""

    def _slot_dict(self, slot_name: str) -> dict[Any, Any]:
        return self._slots.setdefault(slot_name, {})

    def _get_or_make_slot(self, var: Any, val: Any, slot_name: str, op_name: str) -> Any:
        named = self._slot_dict(slot_name)
        if _key(var) not in named:
            named[_key(var)] = slots.create_slot(var, val, op_name)
            joined()
        return named[_key(var)]

    def _get_or_make_slot_with_initializer(
        self, var: Any, initializer: Any, shape: Any, dtype: Any, slot_name: str, op_name: str
    ) -> Any:
        named = self._slot_dict(slot_name)
        if _key(var) not in named:
            named[_key(var)] = slots.create_slot_with_initializer(var, initializer, shape, dtype, op_name)
            joined()
        return named[_key(var)]

    def _filled_slot(self, var: Any, initializer: Any, value: float, slot_name: str, op_name: str) -> Any:
        """A slot of ``value`` everywhere, made by ``initializer`` if the shape of ``var`` is known."""
        shape, dtype = var.get_shape(), var.dtype.base
        if shape.is_fully_defined():
            return self._get_or_make_slot_with_initializer(var, initializer, shape, dtype, slot_name, op_name)
        if _key(var) in self._slot_dict(slot_name):
            return self.get_slot(var, slot_name)
        start = build("Fill", build("Shape", slots.start_of(var)), convert.constant(value, dtype))
        return self._get_or_make_slot(var, start, slot_name, op_name)

    def _zeros_slot(self, var: Any, slot_name: str, op_name: str) -> Any:
        named = self._slot_dict(slot_name)
        if _key(var) not in named:
            named[_key(var)] = slots.create_zeros_slot(var, op_name)
            joined()
        return named[_key(var)]

    def _create_non_slot_variable(self, initial_value: Any, name: str, colocate_with: Any) -> Any:
        builder = colocate_with._builder if isinstance(colocate_with, Variable) else builder_of([colocate_with])
        key = (name, builder.home)
        variable = self._non_slots.get(key)
        if variable is None:
            with current_builder().colocate_with(colocate_with):
                make: Any = Variable  # its class makes one of its two forms
                variable = make(initial_value, name=name, trainable=False, use_resource=is_resource(colocate_with))
            self._non_slots[key] = variable
            joined()
        return variable

    def _get_non_slot_variable(self, name: str, graph: Any = None) -> Any:
        return self._non_slots.get((name, getattr(graph, "home", graph)))

    # --------------------------------------------------------------------------------------------------------- updates
    def _finish(self, update_ops: Sequence[Any], name_scope: str) -> Operation:
        return group(*update_ops, name=name_scope)

    # An optimizer whose updates are the four forms of one op, ``Apply`` and ``SparseApply``, by reference and by
    # handle, names it here. It derives from Optimizer itself, as in TensorFlow: libraries look at ``__base__``.
    _update_op = ""
    """Name of the op after ``Apply``; empty: a subclass overrides the methods below."""
    _update_slots: tuple[str, ...] = ()
    """Slots that the op takes under their own names; otherwise :meth:`_slot_inputs` tells."""
    _update_numbers: dict[str, str] = {}
    """Argument of the op -> name of the tensor that :meth:`_prepare` makes of ``self._<argument>``."""
    _update_attrs: tuple[str, ...] = ()
    """Attributes of the op, kept as ``self._<attribute>``."""

    def _prepare(self) -> None:
        """Turn the optimizer's numbers into tensors."""
        self._number_tensors = {
            argument: convert.convert_to_tensor(self._call_if_callable(getattr(self, f"_{argument}")), name=shown)
            for argument, shown in self._update_numbers.items()
        }

    def _numbers_for(self, var: Any) -> dict[str, Any]:
        return {argument: as_dtype_of(tensor, var) for argument, tensor in self._number_tensors.items()}

    def _update_op_name(self) -> str:
        return self._update_op

    def _slot_inputs(self) -> Sequence[tuple[str, str]]:
        """Pairs (argument of the op, slot)."""
        return [(name, name) for name in self._update_slots]

    def _build_update(self, form: str, var: Any, **inputs: Any) -> Any:
        if not (op_name := self._update_op_name()):
            method = f"_{'resource_' * form.startswith('Resource')}apply_{'sparse' if 'Sparse' in form else 'dense'}"
            raise NotImplementedError(
                errors.message(f"{type(self).__name__} without {method}", "an update rule", f"override {method}")
            )
        update = build(
            f"{form}{op_name}",
            var=target_of(var),
            **{name: target_of(self.get_slot(var, slot)) for name, slot in self._slot_inputs()},
            **self._numbers_for(var),
            **inputs,
            use_locking=self._use_locking,
            **{name: getattr(self, f"_{name}") for name in self._update_attrs},
        )
        return operation_of(update)

    def _apply_dense(self, grad: Any, var: Any) -> Any:
        return self._build_update("Apply", var, grad=grad)

    def _resource_apply_dense(self, grad: Any, handle: Any) -> Any:
        return self._build_update("ResourceApply", handle, grad=as_dtype_of(grad, handle))

    def _apply_sparse(self, grad: Any, var: Any) -> Any:
        return self._build_update("SparseApply", var, grad=grad.values, indices=grad.indices)

    def _resource_apply_sparse(self, grad: Any, handle: Any, indices: Any) -> Any:
        return self._build_update("ResourceSparseApply", handle, grad=as_dtype_of(grad, handle), indices=indices)

    def _apply_sparse_duplicate_indices(self, grad: IndexedSlices, var: Any) -> Any:
        """Sum rows of the same index first, since most update rules are not linear in the gradient."""
        values, indices = deduplicated(grad.values, grad.indices)
        return self._apply_sparse(IndexedSlices(values, indices, grad.dense_shape), var)

    def _resource_apply_sparse_duplicate_indices(self, grad: Any, handle: Any, indices: Any) -> Any:
        values, unique = deduplicated(grad, indices)
        return self._resource_apply_sparse(values, handle, unique)

    def _valid_dtypes(self) -> set[dtypes.DType]:
        return {dtypes.float16, dtypes.bfloat16, dtypes.float32, dtypes.float64}

    def _assert_valid_dtypes(self, tensors: Iterable[Any]) -> None:
        valid = self._valid_dtypes()
        for tensor in tensors:
            dtype = tensor.dtype.base
            if dtype not in valid:
                raise ValueError(
                    f"Invalid type {dtype!r} for {_shown(tensor)}, expected: {sorted(v.name for v in valid)}.\n"
                    + errors.message(
                        f"{_shown(tensor)} of dtype {dtype.name}", "a floating dtype", "tf.cast(x, tf.float32)"
                    )
                )

    @staticmethod
    def _call_if_callable(param: Any) -> Any:
        return param() if callable(param) and not isinstance(param, (Tensor, Variable)) else param


def _key(variable: Any) -> Any:
    """What tells variables apart: in a graph that and a name, which programs sort."""
    if not isinstance(variable, Variable):
        return variable
    home = variable._builder.home
    return (home, variable._shared_name) if home.defers else variable._identity()


def _shown(value: Any) -> str:
    """The name of a graph's tensor or variable; where ops run at once tensors have none."""
    return str(getattr(value, "name", value))


def operation_of(update: Any) -> Any:
    """The operation of an update that gives the variable's reference; others are operations, or have run."""
    return update._maker if isinstance(update, Tensor) else update


def as_dtype_of(value: Any, variable: Any) -> Any:
    """``value`` in the dtype of ``variable``."""
    dtype = variable.dtype.base
    return value if value.dtype.base == dtype else build("Cast", value, DstT=dtype)


def _as_gradient(grad: Any) -> Any:
    if isinstance(grad, (Tensor, IndexedSlices)):
        return grad
    try:
        return convert.convert_to_tensor(grad)
    except (TypeError, ValueError):
        raise TypeError(
            f"Gradient must be convertible to a Tensor or IndexedSlices, or None: {grad}\n"
            + errors.message(
                f"a {type(grad).__name__} as gradient", "a tensor, IndexedSlices or None", "tf.constant(g)"
            )
        ) from None


def deduplicated(values: Any, indices: Any) -> tuple[Any, Any]:
    """Rows summed per distinct index, in order of first appearance: ``(values [m, ...], indices [m])``."""
    unique, positions = build("Unique", indices)[:2]
    return build("UnsortedSegmentSum", values, positions, build("Shape", unique)[0]), unique
