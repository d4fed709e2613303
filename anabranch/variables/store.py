"""The variables of a graph by name: what ``get_variable`` makes or finds again."""

from __future__ import annotations

import contextlib
import copy
import inspect
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import Builder, current_builder
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.default_graph import get_default_graph
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes, shapes
from anabranch.variables import initializers
from anabranch.variables.arguments import checked_modes
from anabranch.variables.partitioned import (
    PartitionedVariable,
    PartitionInfo,
    known_sizes,
    partitions_of,
    slices_of,
)
from anabranch.variables.scope_state import AUTO_REUSE, VariableAggregation, VariableSynchronization
from anabranch.variables.variable import Variable, make_variable

_STORE_KEY = ("__variable_store",)


def _takes(function: Callable[..., Any], name: str) -> bool:
    """Whether ``function`` has an argument ``name``, or takes any."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return False
    return name in parameters or any(item.kind is inspect.Parameter.VAR_KEYWORD for item in parameters.values())


def _needs_arguments(function: Callable[..., Any]) -> bool:
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return True
    fixed = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return any(item.kind in fixed and item.default is inspect.Parameter.empty for item in parameters)


class VariableStore:
    """Variables and partitioned variables of one graph, by their full names."""

    def __init__(self, keeps_eager: bool = False) -> None:
        self.keeps_eager = keeps_eager
        """Whether it keeps variables that are made where ops run at once, and finds them again."""
        self._vars: dict[str, Variable] = {}
        self._partitioned_vars: dict[str, PartitionedVariable] = {}

    def get_variable(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = dtypes.float32,
        initializer: Any = None,
        regularizer: Any = None,
        reuse: Any = None,
        trainable: bool | None = None,
        collections: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        validate_shape: bool = True,
        use_resource: bool | None = None,
        custom_getter: Any = None,
        constraint: Any = None,
        synchronization: Any = VariableSynchronization.AUTO,
        aggregation: Any = VariableAggregation.NONE,
    ) -> Any:
        """The variable of that full name, by way of ``custom_getter`` if there is one."""
        if self.keeps_eager:
            reuse = AUTO_REUSE
        # Custom getters look at these: they are members and a bool before any of them is called.
        synchronization, aggregation, trainable = checked_modes(synchronization, aggregation, trainable, name)
        arguments = dict(
            name=name,
            shape=shape,
            dtype=dtypes.as_dtype(dtype).base,
            initializer=initializer,
            regularizer=regularizer,
            reuse=reuse,
            trainable=trainable,
            collections=collections,
            caching_device=caching_device,
            partitioner=partitioner,
            validate_shape=validate_shape,
            use_resource=use_resource,
            constraint=constraint,
            synchronization=synchronization,
            aggregation=aggregation,
        )
        if custom_getter is None:
            return self._get(**arguments)
        if not callable(custom_getter):
            raise ValueError(
                f"Passed a custom_getter which is not callable: {custom_getter}\n"
                + errors.message(
                    f"custom_getter={custom_getter!r}", "a function (getter, name, ...)", "pass a function"
                )
            )
        for late in ("constraint", "synchronization", "aggregation"):  # newer than many custom getters
            if not _takes(custom_getter, late):
                del arguments[late]
        return custom_getter(getter=self._get, **arguments)

    def _get(
        self,
        name: str,
        shape: Any = None,
        dtype: Any = dtypes.float32,
        initializer: Any = None,
        regularizer: Any = None,
        reuse: Any = None,
        trainable: bool | None = None,
        collections: Any = None,
        caching_device: Any = None,
        partitioner: Any = None,
        validate_shape: bool = True,
        use_resource: bool | None = None,
        constraint: Any = None,
        synchronization: Any = VariableSynchronization.AUTO,
        aggregation: Any = VariableAggregation.NONE,
    ) -> Any:
        arguments = dict(
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            regularizer=regularizer,
            reuse=reuse,
            trainable=trainable,
            collections=collections,
            caching_device=caching_device,
            validate_shape=validate_shape,
            use_resource=use_resource,
            constraint=constraint,
            synchronization=synchronization,
            aggregation=aggregation,
        )
        is_scalar = isinstance(shape, (Sequence, shapes.TensorShape)) and shapes.as_raw(shape) == ()
        if partitioner is not None and not is_scalar:
            if not callable(partitioner):
                raise ValueError(
                    f"Partitioner must be callable, but received: {partitioner}\n"
                    + errors.message(
                        f"partitioner={partitioner!r}", "a function (shape, dtype)", "tf.fixed_size_partitioner(n)"
                    )
                )
            with current_builder().name_scope(None):
                return self._partitioned(name, partitioner, **arguments)
        if reuse is True and partitioner is None and name in self._partitioned_vars:
            return self._partitioned(name, None, **arguments)
        if f"{name}/part_0" in self._vars:
            raise ValueError(
                f"No partitioner was provided, but a partitioned version of the variable was found: {name}/part_0. "
                "Perhaps a variable of the same name was already created with partitioning?\n"
                + errors.message(
                    f"get_variable({name!r}) without a partitioner", "the partitioner it was made with", "pass it again"
                )
            )
        return self._single(name, **arguments)

    # ----------------------------------------------------------------------------------------------------- one variable
    def _single(
        self,
        name: str,
        shape: Any,
        dtype: Any,
        initializer: Any,
        regularizer: Any,
        reuse: Any,
        trainable: bool | None,
        collections: Any,
        caching_device: Any,
        validate_shape: bool,
        use_resource: bool | None,
        constraint: Any,
        synchronization: Any,
        aggregation: Any,
        partition_info: PartitionInfo | None = None,
    ) -> Variable:
        from_value = initializer is not None and not callable(initializer)
        if shape is not None and from_value:
            raise ValueError(
                "If initializer is a constant, do not specify shape.\n"
                + errors.message(
                    f"shape={shape} and a constant initializer for variable {name!r}",
                    "one of the two: the initializer has a shape of its own",
                    "leave shape out, or initializer=tf.constant_initializer(value)",
                )
            )
        dtype = dtypes.as_dtype(dtype)
        wanted = shapes.as_shape(shape)
        if name in self._vars:
            return self._existing(name, wanted, dtype, reuse)
        if reuse is True:
            raise ValueError(
                f"Variable {name} does not exist, or was not created with tf.get_variable(). "
                "Did you mean to set reuse=tf.AUTO_REUSE in VarScope?\n"
                + errors.message(
                    f"get_variable({name!r}) in a scope that reuses variables",
                    f"one of the {len(self._vars)} that exist{_near(name, self._vars)}",
                    "make it first, or reuse=tf.AUTO_REUSE",
                )
            )
        if initializer is None:
            initializer = self._default_initializer(name, dtype)
        # A variable asked for in a branch or loop is made outside it, and so is what its initializer computes.
        # A function that is traced makes it outside by itself, once those who watch its variables are told.
        builder = current_builder()
        with builder.init_scope() if builder.home is builder else contextlib.nullcontext():
            initial: Any = initializer
            variable_dtype = None
            if not from_value:
                initial, variable_dtype = self._initial_function(name, initializer, wanted, dtype, partition_info)
            variable: Variable = make_variable(
                initial_value=initial,
                name=name,
                trainable=trainable,
                collections=collections,
                caching_device=caching_device,
                dtype=variable_dtype,
                validate_shape=validate_shape,
                constraint=constraint,
                use_resource=use_resource,
                synchronization=synchronization,
                aggregation=aggregation,
            )
        if self.keeps_eager or current_builder().keeps_variables:
            self._vars[name] = variable
        if self.keeps_eager and not current_builder().defers:
            graph = get_default_graph()
            graph.add_to_collections(collections or [GraphKeys.GLOBAL_VARIABLES], variable)
            if variable.trainable:
                graph.add_to_collection(GraphKeys.TRAINABLE_VARIABLES, variable)
        if regularizer:
            builder = current_builder()
            with builder.colocate_with(variable), builder.name_scope(f"{name}/Regularizer/"), builder.init_scope():
                loss = regularizer(variable)
            if loss is not None:
                (get_default_graph() if self.keeps_eager else builder).add_to_collection(
                    GraphKeys.REGULARIZATION_LOSSES, loss
                )
        return variable

    def _existing(self, name: str, shape: shapes.TensorShape, dtype: dtypes.DType, reuse: Any) -> Variable:
        variable = self._vars[name]
        if reuse is False:
            maker = variable._handle_tensor()._maker
            site = None if maker is None else maker.user_site
            where = f" Originally defined at:\n\n{site.full()}\n" if site is not None else "\n"
            raise ValueError(
                f"Variable {name} already exists, disallowed. Did you mean to set reuse=True or reuse=tf.AUTO_REUSE in "
                f"VarScope?{where}"
                + errors.message(
                    f"a second get_variable({name!r})",
                    "a new name",
                    "with tf.variable_scope(scope, reuse=tf.AUTO_REUSE): ...",
                )
            )
        if not shape.is_compatible_with(variable.shape):
            raise ValueError(
                f"Trying to share variable {name}, but specified shape {shape} and found shape {variable.shape}.\n"
                + errors.message(
                    f"shape {shape}", f"{variable.shape}, as it was made", "ask for that shape, or use another name"
                )
            )
        if not dtype.is_compatible_with(variable.dtype):
            raise ValueError(
                f"Trying to share variable {name}, but specified dtype {dtype.name} and found dtype "
                f"{variable.dtype.name}.\n"
                + errors.message(
                    f"dtype {dtype.name}", variable.dtype.base.name, "ask for that dtype, or use another name"
                )
            )
        return variable

    def _initial_function(
        self, name: str, initializer: Any, shape: shapes.TensorShape, dtype: dtypes.DType, info: PartitionInfo | None
    ) -> tuple[Callable[[], Any], dtypes.DType | None]:
        """A function without arguments that makes the initial value, and the dtype to convert it to."""
        if inspect.isclass(initializer):
            initializer = initializer()
        if shape.is_fully_defined():
            sizes = shape.as_list()
            if (
                not _needs_arguments(initializer)
                and not _takes(initializer, "shape")
                and not _takes(initializer, "dtype")
            ):
                return initializer, dtype.base
            if _takes(initializer, "partition_info"):
                return lambda: initializer(sizes, dtype=dtype, partition_info=info), dtype.base
            return lambda: initializer(sizes, dtype=dtype), dtype.base
        if not _needs_arguments(initializer):
            return initializer, None
        raise ValueError(
            "The initializer passed is not valid. It should be a callable with no arguments and the shape should not "
            "be provided or an instance of `tf.keras.initializers.*' and `shape` should be fully defined.\n"
            f"Shape of a new variable ({name}) must be fully defined, but instead was {shape}.\n"
            + errors.message(
                f"get_variable({name!r}) with shape {shape}",
                "a fully known shape",
                "give all sizes, or a constant initializer",
            )
        )

    def _default_initializer(self, name: str, dtype: dtypes.DType) -> Any:
        if dtype.is_floating:
            return initializers.GlorotUniform()
        if dtype.is_integer or dtype.is_bool or dtype.base is dtypes.string:
            return initializers.Zeros()
        raise ValueError(
            f"An initializer for variable {name} of {dtype.base!r} is required\n"
            + errors.message(
                f"no initializer for {dtype.base.name}",
                "an initializer for variables of that dtype",
                "initializer=tf.zeros_initializer()",
            )
        )

    # --------------------------------------------------------------------------------------------------- partitioned

    def _partitioned(
        self, name: str, partitioner: Any, shape: Any, dtype: Any, initializer: Any, reuse: Any, **rest: Any
    ) -> Any:
        dtype = dtypes.as_dtype(dtype)
        wanted = shapes.as_shape(shape)
        if isinstance(initializer, Tensor):
            wanted = wanted.merge_with(initializer.shape)
        partitions = None
        if not reuse or partitioner:
            partitions = partitions_of(partitioner, wanted, dtype)
        if name in self._partitioned_vars:
            return self._existing_partitioned(name, wanted, dtype, reuse, partitions if partitioner else None)
        if reuse is True or partitions is None:
            raise ValueError(
                f"PartitionedVariable {name} does not exist, or was not created with tf.get_variable(). "
                "Did you mean to set reuse=False or reuse=tf.AUTO_REUSE in VarScope?\n"
                + errors.message(
                    f"get_variable({name!r}) in a scope that reuses variables", "one that exists", "make it first"
                )
            )
        sizes = known_sizes(wanted)
        parts = list(slices_of(sizes, partitions))
        self._check_parts(name, len(parts))
        variables = []
        builder = current_builder()
        for i, (offset, part) in enumerate(parts):
            part_name = f"{name}/part_{i}"
            with builder.name_scope(f"{part_name}/PartitionedInitializer"):
                part_shape: Any = None
                if initializer is None:
                    initial: Any = self._default_initializer(name, dtype)
                    part_shape = part
                elif callable(initializer):
                    initial, part_shape = initializer, part
                else:
                    tensor = convert.convert_to_tensor(initializer, None if isinstance(initializer, Tensor) else dtype)
                    initial = build("Slice", tensor, offset, part)
                    dtype = initial.dtype.base
            # Names of variables come from variable scopes alone: TensorFlow's checkpoints have no name scopes in them.
            with builder.name_scope(None):
                variable = self._single(
                    part_name,
                    shape=part_shape,
                    dtype=dtype,
                    initializer=initial,
                    reuse=reuse,
                    partition_info=PartitionInfo(sizes, offset),
                    **rest,
                )
            variable._set_save_slice_info(Variable.SaveSliceInfo(name, sizes, offset, part))
            variables.append(variable)
        whole = PartitionedVariable(
            name=name, shape=wanted, dtype=dtype, variable_list=variables, partitions=partitions
        )
        self._partitioned_vars[name] = whole
        return whole

    def _existing_partitioned(
        self, name: str, shape: shapes.TensorShape, dtype: dtypes.DType, reuse: Any, partitions: list[int] | None
    ) -> PartitionedVariable:
        variable = self._partitioned_vars[name]
        if reuse is False:
            raise ValueError(
                f"Partitioned variable with name {name} already exists. Did you mean to set reuse=True or "
                "reuse=tf.AUTO_REUSE in VarScope?\n"
                + errors.message(f"a second get_variable({name!r})", "a new name", "reuse=tf.AUTO_REUSE")
            )
        for label, given, have, fits in (
            ("shape", shape, variable.shape, shape.is_compatible_with(variable.shape)),
            ("dtype", dtype.name, variable.dtype.name, dtype.is_compatible_with(variable.dtype)),
            ("partitions", partitions, variable._get_partitions(), partitions in (None, variable._get_partitions())),
        ):
            if not fits:
                raise ValueError(
                    f"Trying to reuse partitioned variable {name}, but specified {label} {given} and found {label} "
                    f"{have}.\n"
                    + errors.message(f"{label} {given}", f"{have}, as it was made", "ask for that, or use another name")
                )
        return variable

    def _check_parts(self, name: str, count: int) -> None:
        """Refuse a partitioning that differs from the one that parts of this name were made with."""
        if f"{name}/part_0" not in self._vars:
            return
        start = (
            "Partitioner returned a different partitioning than what was already found.  "
            f"Partitioner returned {count} shards, and shard {name}/part_0 was found, but "
        )
        missing = f"{name}/part_{count - 1}" not in self._vars
        if missing or f"{name}/part_{count}" in self._vars:
            reason = f"{name}/part_{count - 1} was not." if missing else f"so was the extra shard {name}/part_{count}."
            raise ValueError(
                start
                + reason
                + "\n"
                + errors.message(f"{count} parts", "as many as were made", "pass the same partitioner")
            )


def _near(name: str, known: dict[str, Any]) -> str:
    last = name.rpartition("/")[2]
    same = [repr(item) for item in known if item.rpartition("/")[2] == last][:3]
    return f" (near: {', '.join(same)})" if same else ""


def variable_store(graph: Builder | None = None) -> VariableStore:
    """The variable store of a graph, or of the current builder."""
    builder = graph or current_builder()
    if _entered.store is not None and not builder.home.defers:
        return _entered.store
    return builder.library_state(_STORE_KEY, VariableStore)


class _Entered(threading.local):
    """The store that a thread has entered, for variables that are made where ops run at once."""

    store: VariableStore | None = None


_entered = _Entered()


@public("contrib.eager.EagerVariableStore")
class EagerVariableStore:
    """Variables of functional layers, found again by name, where ops run at once.

    Variables go there when nothing refers to them any more, and `tf.get_variable` makes a new one at each call. Within
    :meth:`as_default` it keeps what it makes, and finds it again.

    Args:
        store: the store of another one, to share its variables.

    Example:
        >>> import anabranch as tf
        >>> from anabranch.eager import mode
        >>> container = tf.contrib.eager.EagerVariableStore()
        >>> with mode.eager_mode():
        ...     for _ in range(2):
        ...         with container.as_default():
        ...             y = tf.layers.dense(tf.ones([1, 2]), 3, name="l1")
        >>> [v.name for v in container.variables()]
        ['l1/bias:0', 'l1/kernel:0']
    """

    def __init__(self, store: VariableStore | None = None) -> None:
        if store is not None and not store.keeps_eager:
            raise ValueError(
                "Cannot construct EagerVariableStore from a VariableStore object that does not hold eager variables.\n"
                + errors.message("the store of a graph", "the store of an EagerVariableStore", "leave it out")
            )
        self._store = VariableStore(keeps_eager=True) if store is None else store

    @contextlib.contextmanager
    def as_default(self) -> Iterator[EagerVariableStore]:
        """A block in which variables are kept here."""
        before = _entered.store
        _entered.store = self._store
        try:
            yield self
        finally:
            _entered.store = before

    def variables(self) -> list[Any]:
        """The variables, by name."""
        return sorted(self._store._vars.values(), key=lambda variable: variable.name)

    def trainable_variables(self) -> list[Any]:
        """Those that optimizers change."""
        return [variable for variable in self.variables() if variable.trainable]

    def non_trainable_variables(self) -> list[Any]:
        """The others."""
        return [variable for variable in self.variables() if not variable.trainable]

    def copy(self) -> EagerVariableStore:
        """A store with variables of its own that have the values which these have now."""
        copied = EagerVariableStore()
        for name, variable in self._store._vars.items():
            copied._store._vars[name] = copy.deepcopy(variable)
        return copied


def entered_store() -> VariableStore | None:
    """The store of the innermost :meth:`EagerVariableStore.as_default` of the thread, or None."""
    return _entered.store


def is_reuse(value: Any) -> bool:
    """Whether ``value`` is one that ``reuse=`` may have."""
    return value is None or value is True or value is False or value is AUTO_REUSE
