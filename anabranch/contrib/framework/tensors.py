"""Checks of tensors, and decorators for what is to go, of ``tf.contrib.framework``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public, publish_as
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes, nest, shapes
from anabranch.losses.weighted import squeezed_last
from anabranch.ops.io.public_record_input import RecordInput

for _name in ("assert_same_float_dtype", "sort", "argsort", "is_tensor", "TensorSpec", "CriticalSection"):
    publish_as(f"contrib.framework.{_name}", getattr(tf, _name))


publish_as("contrib.framework.RecordInput", RecordInput)


@public("contrib.framework.get_graph_from_inputs")
def get_graph_from_inputs(op_input_list: Any, graph: Any = None) -> Any:
    """The graph of tensors and operations; the default one if there are none.

    Args:
        op_input_list: tensors, operations, variables, sparse tensors.
        graph: the graph that they must be from; any that they share if None.

    Raises:
        ValueError: they are from other graphs.
    """
    shared = graph
    for item in op_input_list:
        own = getattr(item, "graph", None)
        if own is None or own is shared:
            continue
        if shared is not None:
            words = (
                "is not from the passed-in graph" if graph is not None else "must be from the same graph as the others"
            )
            raise ValueError(
                f"{item} {words}.\n"
                + errors.message(f"{item!r}, of another graph", "inputs of one graph", "make it in the same graph")
            )
        shared = own
    return tf.get_default_graph() if shared is None else shared


@public("contrib.framework.assert_scalar_int")
def assert_scalar_int(tensor: Any, name: str | None = None) -> Tensor:
    """The tensor, checked to be an integer scalar; ValueError otherwise."""
    with tf.name_scope(name, "assert_scalar_int", [tensor]):
        tensor = tf.convert_to_tensor(tensor)
        if not tensor.dtype.base_dtype.is_integer:
            raise ValueError(
                f"Expected integer type for {tensor.name}, received type: {tensor.dtype}.\n"
                + errors.message(f"a tensor of {tensor.dtype.name}", "an integer", "tf.cast(x, tf.int32)")
            )
        return tf.assert_scalar(tensor)


@public("contrib.framework.convert_to_tensor_or_sparse_tensor")
def convert_to_tensor_or_sparse_tensor(value: Any, dtype: Any = None, name: str | None = None) -> Any:
    """A sparse tensor as it is, anything else as a tensor; RuntimeError if ``dtype`` is another than a sparse one's."""
    if isinstance(value, tf.SparseTensorValue):
        value = tf.SparseTensor(*value)
    if isinstance(value, tf.SparseTensor):
        if dtype is not None and not dtypes.as_dtype(dtype).is_compatible_with(value.dtype):
            raise RuntimeError(
                f"Sparse dtype: requested = {dtypes.as_dtype(dtype).name}, actual = {value.dtype.name}\n"
                + errors.message(f"a sparse tensor of {value.dtype.name}", f"values of {dtype}", "tf.cast before")
            )
        return value
    return tf.convert_to_tensor(value, dtype, name)


@public("contrib.framework.with_shape")
def with_shape(expected_shape: Any, tensor: Any) -> Tensor:
    """The tensor, checked to have a shape: now if its shape is known, when it runs otherwise.

    Args:
        expected_shape: sizes (-1 or None for any), or an integer tensor.
        tensor: the tensor.

    Raises:
        ValueError: the shape is known and is another one.
    """
    tensor = tf.convert_to_tensor(tensor)
    if not isinstance(expected_shape, Tensor):
        sizes = np.asarray(expected_shape if len(expected_shape) else np.zeros(0, np.int64))
        for what, given, right in (
            ("rank", sizes.ndim, sizes.ndim == 1),
            ("dtype", sizes.dtype, sizes.dtype.kind in "iu"),
        ):
            if not right:
                raise ValueError(
                    f"Invalid {what} {given} for shape {expected_shape} expected of tensor {tensor.name}.\n"
                    + errors.message(f"the shape {expected_shape!r}", "a list of integers", "with_shape([2, 3], x)")
                )
        if not len(sizes) and tensor.shape.is_compatible_with([1]):
            return tf.reshape(tensor, [])
        wanted = shapes.TensorShape([None if size == -1 else size for size in sizes.tolist()])
        if tensor.shape.is_fully_defined():
            if tensor.shape.is_compatible_with(wanted):
                return tensor
            raise ValueError(
                f"Invalid shape for {tensor.name}: expected {wanted}, got {tensor.shape}\n"
                + errors.message(
                    f"a tensor of shape {tensor.shape}", f"a tensor of shape {wanted}", f"tf.reshape(x, {wanted})"
                )
            )
        tensor.shape.merge_with(wanted)  # which refuses what cannot be
    elif expected_shape.dtype.base is not dtypes.int32:
        raise ValueError(
            f"Invalid dtype {expected_shape.dtype} for shape {expected_shape} expected of tensor {tensor.name}.\n"
            + errors.message(f"a shape of {expected_shape.dtype.name}", "a shape of int32", "tf.cast(shape, tf.int32)")
        )
    expected = tf.convert_to_tensor(expected_shape, tf.int32)
    actual = tf.shape(tensor)
    fits = tf.equal(tf.rank(tensor), tf.size(expected))
    either = tf.cond(
        fits, lambda: tf.reduce_all(tf.logical_or(tf.equal(expected, -1), tf.equal(actual, expected))), lambda: fits
    )
    with tf.control_dependencies(
        [tf.Assert(either, [f"Wrong shape for {tensor.name} [expected] [actual].", expected, actual])]
    ):
        checked = tf.identity(tensor)
    if not isinstance(expected_shape, Tensor):
        checked.set_shape(wanted)
    return checked


@public("contrib.framework.with_same_shape")
def with_same_shape(expected_tensor: Any, tensor: Any) -> Tensor:
    """The tensor, checked to have the shape of another one."""
    expected_tensor = tf.convert_to_tensor(expected_tensor)
    if expected_tensor.shape.is_fully_defined():
        return with_shape(expected_tensor.shape.as_list(), tensor)
    return with_shape(tf.shape(expected_tensor), tensor)


@public("contrib.framework.remove_squeezable_dimensions")
def remove_squeezable_dimensions(predictions: Any, labels: Any, name: str | None = None) -> Any:
    """Predictions and labels, the last dimension of one squeezed if it is 1 and the ranks differ by one."""
    with tf.name_scope(name, "remove_squeezable_dimensions", [labels, predictions]):
        predictions, labels = tf.convert_to_tensor(predictions), tf.convert_to_tensor(labels)
        return squeezed_last(predictions, labels), squeezed_last(labels, predictions)


@public("contrib.framework.reduce_sum_n")
def reduce_sum_n(tensors: Any, name: str | None = None) -> Tensor:
    """The sum of all elements of all tensors, a scalar."""
    if not tensors:
        raise ValueError(errors.message("no tensors", "a list of at least one tensor", "reduce_sum_n([x])"))
    with tf.name_scope(name, "reduce_sum_n", tensors) as scope:
        sums = [tf.reduce_sum(tensor, name=f"{getattr(tensor, 'op', tensor).name}/sum") for tensor in tensors]
        return sums[0] if len(sums) == 1 else tf.add_n(sums, name=scope)


@public("contrib.framework.smart_case")
def smart_case(
    pred_fn_pairs: Any, default: Callable[[], Any] | None = None, exclusive: bool = False, name: str = "smart_case"
) -> Any:
    """``tf.case``, of which only the branch that is known to be taken is built, if it is known.

    Args:
        pred_fn_pairs: dictionary or list of pairs of condition and function.
        default: function for the case that no condition holds.
        exclusive: whether at most one condition may hold.
        name: name of the conditional.
    """
    pairs = list(pred_fn_pairs.items() if isinstance(pred_fn_pairs, dict) else pred_fn_pairs)
    known = [tf.contrib.framework.smart_constant_value(condition) for condition, _ in pairs]
    if any(value is None for value in known):
        return tf.case(pred_fn_pairs, default=default, exclusive=exclusive, name=name)
    holding = [function for value, (_, function) in zip(known, pairs, strict=True) if value]
    if exclusive and len(holding) > 1:
        raise ValueError(errors.message(f"{len(holding)} conditions that hold", "one at most", "exclusive=False"))
    if not holding and default is None:
        raise ValueError(
            errors.message(
                "no condition that holds, and no default",
                "a condition that holds, or a default",
                "default=lambda: value",
            )
        )
    return holding[0]() if holding else default()  # type: ignore[misc]


@public("contrib.framework.prepend_name_scope")
def prepend_name_scope(name: str, import_scope: str | None) -> str:
    """A name of an op or node (``^name`` too) within a scope."""
    if not import_scope:
        return name
    mark, rest = _marked(name)
    return f"{mark}{import_scope.removesuffix('/')}/{rest}"


def _marked(name: str) -> tuple[str, str]:
    """What stands before a name in a control input or a colocation, and the name."""
    for mark in ("^", "loc:@"):
        if name.startswith(mark):
            return mark, name[len(mark) :]
    return "", name


@public("contrib.framework.strip_name_scope")
def strip_name_scope(name: str, export_scope: str | None) -> str:
    """A name of an op or node without a scope that it begins with."""
    if not export_scope:
        return name
    mark, rest = _marked(name)
    scope = export_scope.removesuffix("/")
    inner = rest.removeprefix(scope)
    return mark + inner.lstrip("/") if len(inner) < len(rest) and inner[:1] == "/" else name


@public("contrib.framework.get_placeholders")
def get_placeholders(graph: Any) -> list[Tensor]:
    """The placeholders of a graph."""
    return [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]


@public("contrib.framework.py_func")
def py_func(
    func: Callable[..., Any],
    args: Any = (),
    kwargs: Any = None,
    output_types: Any = None,
    output_shapes: Any = None,
    stateful: bool = True,
    name: str | None = None,
) -> Any:
    """The result of a Python function of arrays, with arguments and results in any structure.

    Args:
        func: the function; it is called with arrays in the structures of ``args`` and ``kwargs``.
        args: a list of structures of tensors and other values.
        kwargs: a dictionary of such.
        output_types: structure of the dtypes of what it returns; None for nothing.
        output_shapes: structure of its shapes, or one shape for all; unknown if None.
        stateful: whether it may give other values for the same arguments.
        name: name of the operation.

    Returns:
        Tensors in the structure of ``output_types``; an operation if that is None.
    """
    given = {"args": list(args), "kwargs": dict(kwargs or {})}
    leaves = tf.nest.flatten(given)
    places = [i for i, leaf in enumerate(leaves) if isinstance(leaf, (Tensor, tf.Variable))]

    def call(*arrays: Any) -> Any:
        filled = list(leaves)
        for place, array in zip(places, arrays, strict=True):
            filled[place] = array
        packed = tf.nest.pack_sequence_as(given, filled)
        returned = func(*packed["args"], **packed["kwargs"])
        return [] if output_types is None else tf.nest.flatten(returned)

    inputs = [leaves[place] for place in places]
    if output_types is None:
        return tf.py_func(call, inputs, [], stateful, name)
    kinds = tf.nest.flatten(output_types)
    results = tf.py_func(call, inputs, kinds, stateful, name)
    shapes: list[Any] = [output_shapes] * len(kinds)
    if nest.is_nested(output_types) and type(output_shapes) is type(output_types) and len(output_shapes) == len(kinds):
        shapes = [tf.TensorShape(shape) for shape in nest.flatten_up_to(output_types, output_shapes)]
    for result, shape in zip(results, shapes, strict=True):
        if shape is not None:
            result.set_shape(shape)
    return tf.nest.pack_sequence_as(output_types, results)


# Checkpoints under the argument names that `tf.contrib` had.
@public("contrib.framework.load_checkpoint")
def load_checkpoint(filepattern: Any) -> Any:
    """A reader for a checkpoint, or for the newest one of a folder."""
    return tf.train.load_checkpoint(filepattern)


@public("contrib.framework.list_variables")
def list_variables(checkpoint_dir: Any) -> list[tuple[str, list[int]]]:
    """Names and shapes of a checkpoint's variables, by name; the newest one of a folder."""
    return tf.train.list_variables(checkpoint_dir)


@public("contrib.framework.load_variable")
def load_variable(checkpoint_dir: Any, name: str) -> Any:
    """The value of a checkpoint's variable; the newest one of a folder."""
    return tf.train.load_variable(checkpoint_dir, name)


@public("contrib.framework.init_from_checkpoint")
def init_from_checkpoint(checkpoint_dir: Any, assignment_map: Any) -> None:
    """Make the initial values of variables those of a checkpoint; see ``tf.train.init_from_checkpoint``."""
    tf.train.init_from_checkpoint(checkpoint_dir, assignment_map)
