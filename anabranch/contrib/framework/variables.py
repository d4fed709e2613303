"""Variables of a model: made in the collections that ``tf.contrib`` uses, found by scope, name and suffix."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.contrib.framework.scopes import add_arg_scope
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.default_graph import get_default_graph
from anabranch.core.values import dtypes
from anabranch.train import step_counter


@public("contrib.framework.add_model_variable")
def add_model_variable(var: Any) -> None:
    """Add a variable to the collection of the model's variables, if it is not there."""
    if not any(var is other for other in tf.get_collection(GraphKeys.MODEL_VARIABLES)):
        tf.add_to_collection(GraphKeys.MODEL_VARIABLES, var)


@public("contrib.framework.get_variables")
def get_variables(
    scope: Any = None, suffix: str | None = None, collection: str = GraphKeys.GLOBAL_VARIABLES
) -> list[Any]:
    """Variables of a collection whose names start with a scope (a name or VariableScope) and end with a suffix."""
    name = getattr(scope, "name", scope)
    if suffix is not None:
        if ":" not in suffix:
            suffix += ":"
        return tf.get_collection(collection, (name or "") + ".*" + suffix)
    return tf.get_collection(collection, name)


@public("contrib.framework.get_model_variables")
def get_model_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """The model's variables under a scope with a suffix."""
    return get_variables(scope, suffix, GraphKeys.MODEL_VARIABLES)


@public("contrib.framework.get_local_variables")
def get_local_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """Local variables under a scope with a suffix."""
    return get_variables(scope, suffix, GraphKeys.LOCAL_VARIABLES)


@public("contrib.framework.get_trainable_variables")
def get_trainable_variables(scope: Any = None, suffix: str | None = None) -> list[Any]:
    """Trainable variables under a scope with a suffix."""
    return get_variables(scope, suffix, GraphKeys.TRAINABLE_VARIABLES)


@public("contrib.framework.get_variables_by_suffix")
def get_variables_by_suffix(suffix: str, scope: Any = None) -> list[Any]:
    """Variables whose names end with a suffix."""
    return get_variables(scope=scope, suffix=suffix)


@public("contrib.framework.get_variables_by_name")
def get_variables_by_name(given_name: str, scope: Any = None) -> list[Any]:
    """Variables called ``given_name`` in whatever scope below ``scope``."""
    pattern = "/" + given_name + ":|^" + given_name + ":"
    return [var for var in get_variables(scope=scope) if re.search(pattern, var.name) is not None]


@public("contrib.framework.get_unique_variable")
def get_unique_variable(var_op_name: str) -> Any:
    """The one variable with a full name (without ``:0``).

    Raises:
        ValueError: there is none, or more than one.
    """
    matching = [var for var in get_variables(scope=var_op_name) if var.op.name == var_op_name]
    if len(matching) != 1:
        raise ValueError(
            (
                f"Variable {var_op_name} does not uniquely identify a variable\n"
                if matching
                else f"Couldn't find variable {var_op_name}\n"
            )
            + errors.message(
                f"{var_op_name!r}, which {len(matching)} variables bear",
                "a name that one bears",
                "tf.global_variables() lists them",
            )
        )
    return matching[0]


@public("contrib.framework.get_variable_full_name")
def get_variable_full_name(var: Any) -> str:
    """The name of a variable without ``:0``; of a part of a partitioned one, the whole's name."""
    info = getattr(var, "_save_slice_info", None)
    return info.full_name if info else var.op.name


@public("contrib.framework.filter_variables")
def filter_variables(
    var_list: Sequence[Any],
    include_patterns: Sequence[str] | None = None,
    exclude_patterns: Sequence[str] | None = None,
    reg_search: bool = True,
) -> list[Any]:
    """Variables whose full names match one of some patterns and none of others.

    Args:
        var_list: variables.
        include_patterns: regular expressions; None keeps all.
        exclude_patterns: regular expressions; None leaves none out.
        reg_search: find patterns anywhere in the name (``re.search``), or only at its start.
    """
    find = re.search if reg_search else re.match

    def matches(var: Any, patterns: Sequence[str]) -> bool:
        return any(find(pattern, var.op.name) for pattern in patterns)

    included = [var for var in var_list if include_patterns is None or matches(var, include_patterns)]
    return [var for var in included if exclude_patterns is None or not matches(var, exclude_patterns)]


@public("contrib.framework.get_variables_to_restore")
def get_variables_to_restore(include: Any = None, exclude: Any = None) -> list[Any]:
    """Variables under the scopes ``include`` (all by default) without those under ``exclude``."""
    for name, value in (("include", include), ("exclude", exclude)):
        if value is not None and not isinstance(value, list | tuple):
            raise TypeError(errors.message(f"{name}={value!r}", "a list of scopes", f"{name}=[{value!r}]"))
    if include is None:
        included = get_variables()
    else:
        included = [var for scope in include for var in get_variables(scope)]
    left_out = {id(var) for scope in exclude or () for var in get_variables(scope)}
    return [var for var in included if id(var) not in left_out]


@public("contrib.framework.variable")
@add_arg_scope
def variable(
    name: str,
    shape: Any = None,
    dtype: Any = None,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    caching_device: Any = None,
    device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    use_resource: bool | None = None,
    synchronization: Any = None,
    aggregation: Any = None,
) -> Any:
    """``tf.get_variable`` with a device (a name, or a function of the variable's op) and defaults from scopes.

    ``synchronization`` and ``aggregation`` concern copies of a variable on several devices: NotImplementedError.
    """
    _no_copies(synchronization, aggregation)
    names = list(collections if collections is not None else [GraphKeys.GLOBAL_VARIABLES])
    getter: Callable[..., Any] = tf.get_variable
    if custom_getter is not None:
        getter = functools.partial(custom_getter, tf.get_variable, reuse=tf.get_variable_scope().reuse)
    with tf.device(device or ""):
        return getter(
            name,
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            regularizer=regularizer,
            trainable=trainable,
            collections=list(dict.fromkeys(names)),
            caching_device=caching_device,
            partitioner=partitioner,
            use_resource=use_resource,
        )


def _no_copies(synchronization: Any, aggregation: Any) -> None:
    for name, value in (("synchronization", synchronization), ("aggregation", aggregation)):
        if value is not None and getattr(value, "value", value) != 0:
            raise NotImplementedError(
                errors.message(f"{name}={value!r}", "a variable in one copy", f"leave {name} out")
            )


@public("contrib.framework.model_variable")
@add_arg_scope
def model_variable(
    name: str,
    shape: Any = None,
    dtype: Any = dtypes.float32,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    collections: Any = None,
    caching_device: Any = None,
    device: Any = None,
    partitioner: Any = None,
    custom_getter: Any = None,
    use_resource: bool | None = None,
    synchronization: Any = None,
    aggregation: Any = None,
) -> Any:
    """A variable that belongs to the model: it is in the collections of global and of model variables."""
    names = [*(collections or []), GraphKeys.GLOBAL_VARIABLES, GraphKeys.MODEL_VARIABLES]
    return variable(
        name,
        shape=shape,
        dtype=dtype,
        initializer=initializer,
        regularizer=regularizer,
        trainable=trainable,
        collections=names,
        caching_device=caching_device,
        device=device,
        partitioner=partitioner,
        custom_getter=custom_getter,
        use_resource=use_resource,
        synchronization=synchronization,
        aggregation=aggregation,
    )


@public("contrib.framework.local_variable")
def local_variable(
    initial_value: Any, validate_shape: bool = True, name: str | None = None, use_resource: bool | None = None
) -> Any:
    """A variable of this process, not trained and not saved: only in the collection of local variables."""
    return tf.Variable(
        initial_value,
        trainable=False,
        collections=[GraphKeys.LOCAL_VARIABLES],
        validate_shape=validate_shape,
        name=name,
        use_resource=use_resource,
    )


@public("contrib.framework.global_variable")
def global_variable(
    initial_value: Any, validate_shape: bool = True, name: str | None = None, use_resource: bool | None = None
) -> Any:
    """A variable shared by all processes, not trained: only in the collection of global variables."""
    return tf.Variable(
        initial_value,
        trainable=False,
        collections=[GraphKeys.GLOBAL_VARIABLES],
        validate_shape=validate_shape,
        name=name,
        use_resource=use_resource,
    )


@public("contrib.framework.VariableDeviceChooser")
class VariableDeviceChooser:
    """A device function that deals variables out to parameter servers in turn."""

    def __init__(
        self,
        num_tasks: int = 0,
        job_name: str = "ps",
        device_type: str = "CPU",
        device_index: int = 0,
        replica: Any = None,
    ) -> None:
        self._job, self._type, self._index, self._replica = job_name, device_type, device_index, replica
        self._tasks, self._next = num_tasks, 0

    def __call__(self, op: Any) -> str:
        """The device of the next variable."""
        spec = tf.DeviceSpec(device_type=self._type, device_index=self._index, replica=self._replica)
        if self._tasks > 0:
            spec.task = self._next
            spec.job = self._job
            self._next = (self._next + 1) % self._tasks
        return spec.to_string()


# ------------------------------------------------------------------------------------------------------------- values
@public("contrib.framework.assign_from_values")
def assign_from_values(var_names_to_values: dict[str, Any]) -> tuple[Any, dict[Any, Any]]:
    """An op that assigns values to variables by name, and what to feed when it is run."""
    assigns, feed = [], {}
    for name, value in var_names_to_values.items():
        value = np.asarray(value)
        var = get_unique_variable(name)
        place = tf.placeholder(var.dtype.base_dtype, name=f"placeholder/{var.op.name}")
        assigns.append(var.assign(tf.reshape(place, var.get_shape())))
        feed[place] = value.reshape(var.get_shape().as_list())
    return tf.group(*assigns), feed


@public("contrib.framework.assign_from_values_fn")
def assign_from_values_fn(var_names_to_values: dict[str, Any]) -> Callable[[Any], None]:
    """A function of a session that assigns values to variables by name."""
    op, feed = assign_from_values(var_names_to_values)

    def assign(session: Any) -> None:
        session.run(op, feed)

    return assign


def _saved_names(var_list: Any) -> dict[str, list[Any]]:
    """Name in a checkpoint -> the variables (parts, if partitioned) that it is for."""
    if isinstance(var_list, dict):
        return {name: list(value) if isinstance(value, list | tuple) else [value] for name, value in var_list.items()}
    grouped: dict[str, list[Any]] = {}
    for var in var_list:
        grouped.setdefault(get_variable_full_name(var), []).append(var)
    return grouped


@public("contrib.framework.assign_from_checkpoint")
def assign_from_checkpoint(
    model_path: str, var_list: Any, ignore_missing_vars: bool = False
) -> tuple[Any, dict[Any, Any]]:
    """An op that assigns values from a checkpoint, and what to feed when it is run.

    Args:
        model_path: prefix of the checkpoint.
        var_list: variables, or a dictionary from names in the checkpoint to variables.
        ignore_missing_vars: pass over what the checkpoint lacks.

    Raises:
        ValueError: the checkpoint lacks a name, or holds a value of another size.
    """
    reader = tf.train.NewCheckpointReader(model_path)  # a folder may have the prefix's name
    assigns, feed = [], {}
    for name, targets in _saved_names(var_list).items():
        if not reader.has_tensor(name):
            if ignore_missing_vars:
                tf.logging.warning("Variable %s missing in checkpoint %s", name, model_path)
                continue
            raise ValueError(
                errors.message(
                    f"{name!r}, which {model_path} lacks", "a name of the checkpoint", "ignore_missing_vars=True"
                )
            )
        whole = np.asarray(reader.get_tensor(name))
        for var in targets:
            info = getattr(var, "_save_slice_info", None)
            value = whole
            if info is not None:
                value = whole[
                    tuple(
                        slice(start, start + size) for start, size in zip(info.var_offset, info.var_shape, strict=True)
                    )
                ]
            if var.get_shape().is_fully_defined() and value.size != var.get_shape().num_elements():
                raise ValueError(
                    f"Total size of new array must be unchanged for {name} lh_shape: {list(value.shape)}, "
                    f"rh_shape: {var.get_shape().as_list()}\n"
                    + errors.message(
                        f"{value.size} values", f"{var.get_shape().num_elements()}", "a variable of that shape"
                    )
                )
            place = tf.placeholder(var.dtype.base_dtype, var.get_shape(), name=f"placeholder/{var.op.name}")
            assigns.append(var.assign(place))
            feed[place] = value.reshape(var.get_shape().as_list()) if var.get_shape().is_fully_defined() else value
    return tf.group(*assigns), feed


@public("contrib.framework.assign_from_checkpoint_fn")
def assign_from_checkpoint_fn(
    model_path: str, var_list: Any, ignore_missing_vars: bool = False, reshape_variables: bool = False
) -> Callable[[Any], None] | None:
    """A function of a session that restores variables from a checkpoint; None if nothing is to restore.

    Args:
        model_path: prefix of the checkpoint.
        var_list: variables, or a dictionary from names in the checkpoint to variables; not empty.
        ignore_missing_vars: pass over what the checkpoint lacks.
        reshape_variables: give values the variables' shapes.
    """
    if not var_list:
        raise ValueError(
            errors.message("no variables", "what to restore", "tf.contrib.framework.get_variables_to_restore()")
        )
    if ignore_missing_vars:
        reader = tf.train.NewCheckpointReader(model_path)
        names = var_list if isinstance(var_list, dict) else {get_variable_full_name(var): var for var in var_list}
        var_list = {}
        for name, var in names.items():
            if reader.has_tensor(name):
                var_list[name] = var
            else:
                tf.logging.warning("Variable %s missing in checkpoint %s", name, model_path)
    if not var_list:
        tf.logging.warning("No Variables to restore")
        return None
    saver = tf.train.Saver(var_list, reshape=reshape_variables, write_version=2)

    def restore(session: Any) -> None:
        saver.restore(session, model_path)

    return restore


# ------------------------------------------------------------------------------------------------------------- scopes
@public("contrib.framework.zero_initializer")
def zero_initializer(ref: Any, use_locking: bool = True, name: str = "zero_initializer") -> Any:
    """Fill a variable that has no value yet with zeros; what it holds after that.

    Args:
        ref: the variable.
        use_locking: has no effect: a step's writes are atomic.
        name: of the operations.
    """
    with tf.name_scope(name):
        fresh = tf.logical_not(tf.is_variable_initialized(ref))
        with tf.control_dependencies([tf.Assert(fresh, [f"{ref.name} input is already initialized."])]):
            return tf.assign(ref, tf.zeros(ref.shape, ref.dtype.base_dtype), use_locking=use_locking)


@public("contrib.framework.get_name_scope")
def get_name_scope() -> str:
    """The name scope that holds here, without a slash at its end."""
    return get_default_graph().get_name_scope()


for _name in ("get_global_step", "create_global_step", "get_or_create_global_step", "assert_global_step"):
    public(f"contrib.framework.{_name}")(getattr(step_counter, _name))


@public("contrib.framework.assert_or_get_global_step")
def assert_or_get_global_step(graph: Any = None, global_step_tensor: Any = None) -> Any:
    """The global step: the given one after a check, or the graph's."""
    if global_step_tensor is None:
        return step_counter.get_global_step(graph)
    step_counter.assert_global_step(global_step_tensor)
    return global_step_tensor
