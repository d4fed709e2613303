"""Names that TensorFlow's modules keep to themselves: of arrays, layers, losses, metrics and training."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.values import nest
from anabranch.losses.weighted import squeezed_last
from anabranch.metrics.state import metric_variable
from anabranch.ops.control.public_defun import DefinedFunction
from anabranch.ops.nn.public_sampled_losses import compute_sampled_logits
from anabranch.platform.logging import get_logger
from anabranch.rnn.cells import assert_like_rnncell, concat, zero_state_tensors
from anabranch.rnn.dynamic import best_effort_batch, infer_dtype, transposed
from anabranch.variables import initializers
from anabranch.variables.store import VariableStore, variable_store
from anabranch.variables.variable import make_variable

_WEIGHTS_VARIABLE_NAME = "kernel"
_BIAS_VARIABLE_NAME = "bias"
__all__ = ["assert_like_rnncell", "metric_variable"]
# Functions of ours under the names that TensorFlow has for its own.
_concat = concat
_zero_state_tensors = zero_state_tensors
_transpose_batch_time = transposed
_best_effort_input_batch_size = best_effort_batch
_infer_state_dtype = infer_dtype
_compute_sampled_logits = compute_sampled_logits
_VariableStore = VariableStore
_get_default_variable_store = variable_store
_ReuseMode = type(tf.AUTO_REUSE)
newaxis = NewAxis = None
_KINDS = (
    tf.bool,
    *(tf.int8, tf.int16, tf.int32, tf.int64, tf.uint8, tf.uint16, tf.uint32, tf.uint64),
    *(tf.float16, tf.float32, tf.float64, tf.complex64, tf.complex128),
)
_DefinedFunction = DefinedFunction
_compute_fans = initializers._fans
_sparse_cross = tf.sparse.cross
_sparse_cross_hashed = tf.sparse.cross_hashed
identity_initializer = tf.initializers.identity
constant_v1 = tf.constant
DeviceSpecV1 = DeviceSpecV2 = tf.DeviceSpec
print_v2 = tf.print
MakeNdarray = tf.contrib.util.make_ndarray
__version__ = tf.VERSION
__git_version__ = tf.GIT_VERSION
__compiler_version__ = tf.COMPILER_VERSION
DEFAULT_GRAPH_SEED = 87654321
GLOBAL_STEP_READ_KEY = "global_step_read_op_cache"
ASSERT_LIKE_RNNCELL_ERROR_REGEXP = "is not an RNNCell"


_get_logger = get_logger


def _like_rnncell(cell: Any) -> bool:
    """Whether an object is a cell, by what it has."""
    try:
        assert_like_rnncell("cell", cell)
    except TypeError:
        return False
    return True


# -------------------------------------------------------------------------------------------------------------- arrays
def shape_internal(input: Any, name: str | None = None, optimize: bool = True, out_type: Any = tf.int32) -> Any:
    """The shape of a tensor: a constant if it is known, unless ``optimize`` is False."""
    if optimize or isinstance(input, (tf.SparseTensor, tf.SparseTensorValue)):
        return tf.shape(input, name=name, out_type=out_type)
    return tf.build_op("Shape", tf.convert_to_tensor(input), out_type=out_type, name=name)


def size_internal(input: Any, name: str | None = None, optimize: bool = True, out_type: Any = tf.int32) -> Any:
    """The number of elements of a tensor: a constant if it is known, unless ``optimize`` is False."""
    if optimize or isinstance(input, (tf.SparseTensor, tf.SparseTensorValue)):
        return tf.size(input, name=name, out_type=out_type)
    return tf.build_op("Size", tf.convert_to_tensor(input), out_type=out_type, name=name)


def rank_internal(input: Any, name: str | None = None, optimize: bool = True) -> Any:
    """The rank of a tensor: a constant if it is known, unless ``optimize`` is False."""
    if optimize or isinstance(input, (tf.SparseTensor, tf.SparseTensorValue)):
        return tf.rank(input, name=name)
    return tf.build_op("Rank", tf.convert_to_tensor(input), name=name)


def ones_like_impl(tensor: Any, dtype: Any, name: str | None, optimize: bool = True) -> Any:
    """Ones of the shape of a tensor."""
    return tf.ones_like(tensor, dtype, name, optimize)


def _tensor_shape_tensor_conversion_function(
    s: Any, dtype: Any = None, name: str | None = None, as_ref: bool = False
) -> Any:
    """The sizes of a shape that is fully known, as a tensor; ValueError of one that is not."""
    return tf.convert_to_tensor(s, dtype, name)


def expand_dims_v2(input: Any, axis: Any, name: str | None = None) -> Any:
    """A dimension of size 1 at ``axis``."""
    return tf.expand_dims(input, axis, name)


def zeros_like_v2(input: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Zeros of the shape of a tensor."""
    return tf.zeros_like(input, dtype, name)


def ones_like_v2(input: Any, dtype: Any = None, name: str | None = None) -> Any:
    """Ones of the shape of a tensor."""
    return tf.ones_like(input, dtype, name)


def argmax_v2(input: Any, axis: Any = None, output_type: Any = tf.int64, name: str | None = None) -> Any:
    """Where the largest entry along an axis is, along the first one if None."""
    return tf.argmax(input, 0 if axis is None else axis, name=name, output_type=output_type)


def _as_indexed_slices(x: Any, optimize: bool = True) -> Any:
    """All rows of a tensor as IndexedSlices; TypeError if it is neither a tensor nor IndexedSlices."""
    if isinstance(x, tf.IndexedSlices):
        return x
    if not isinstance(x, tf.Tensor):
        raise TypeError(
            f"Not a Tensor or IndexedSlices: {type(x)}\n"
            + errors.message(f"a {type(x).__name__}", "a tensor or IndexedSlices", "tf.convert_to_tensor(x)")
        )
    shape = shape_internal(x, optimize=optimize)
    return tf.IndexedSlices(x, tf.range(0, shape[0]), shape)


def _as_indexed_slices_list(inputs: Any, optimize: bool = True) -> list[Any]:
    """All of a list as IndexedSlices, with indices of 64 bits if those of one have them."""
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(
            f"Expected a list or tuple, not a {type(inputs)}\n"
            + errors.message(f"a {type(inputs).__name__}", "a list or tuple", "[x]")
        )
    slices = [_as_indexed_slices(one, optimize) for one in inputs]
    wide = [one.indices.dtype == tf.int64 for one in slices]
    if all(wide) or not any(wide):
        return slices
    return [tf.IndexedSlices(one.values, tf.cast(one.indices, tf.int64), one.dense_shape) for one in slices]


def is_tf_type(x: Any) -> bool:
    """Whether a value is a tensor, a sparse tensor or a variable."""
    return tf.is_tensor(x)


def is_constant(tensor_or_op: Any) -> bool:
    """Whether a tensor or an operation is a constant."""
    return (tensor_or_op.op if isinstance(tensor_or_op, tf.Tensor) else tensor_or_op).type == "Const"


def reduced_shape(input_shape: Any, axes: Any) -> Any:
    """The shape that a reduction over ``axes`` leaves with ``keepdims``: sizes of 1 in their places."""
    shape, axes = tf.cast(input_shape, tf.int32), tf.cast(axes, tf.int32)
    axes = tf.mod(axes + tf.size(shape), tf.size(shape))
    over = tf.reduce_any(tf.equal(tf.range(tf.size(shape))[:, None], tf.reshape(axes, [1, -1])), 1)
    return tf.where(over, tf.ones_like(shape), shape)


def _ReductionDims(x: Any, axis: Any, reduction_indices: Any = None) -> Any:
    """The axes of a reduction: those that are given, or all."""
    axis = reduction_indices if axis is None else axis
    if axis is not None:
        return axis
    return tf.range(tf.rank(x)) if x.shape.ndims is None else tf.constant(np.arange(x.shape.ndims), tf.int32)


def remove_squeezable_dimensions(
    labels: Any, predictions: Any, expected_rank_diff: int = 0, name: str | None = None
) -> tuple[Any, Any]:
    """Labels and predictions without a last axis of size 1 that only one of them has.

    Args:
        labels: tensor.
        predictions: tensor.
        expected_rank_diff: by how much the rank of predictions ought to exceed that of labels.
        name: name scope.
    """
    with tf.name_scope(name, "remove_squeezable_dimensions", [labels, predictions]):
        labels, predictions = tf.convert_to_tensor(labels), tf.convert_to_tensor(predictions)
        ranks = predictions.shape.ndims, labels.shape.ndims
        if ranks[0] is not None and ranks[1] is not None:
            beyond = ranks[0] - ranks[1] - expected_rank_diff
            if beyond == 1:
                predictions = tf.squeeze(predictions, [-1])
            elif beyond == -1:
                labels = tf.squeeze(labels, [-1])
            return labels, predictions
        known = tf.rank(predictions) - tf.rank(labels)

        def squeezed(tensor: Any, difference: int) -> Any:
            if tensor.shape.ndims is not None and not tensor.shape[-1:].is_compatible_with([1]):
                return tensor
            return tf.cond(tf.equal(known, difference), lambda: tf.squeeze(tensor, [-1]), lambda: tf.identity(tensor))

        return squeezed(labels, expected_rank_diff - 1), squeezed(predictions, expected_rank_diff + 1)


def _remove_squeezable_dimensions(predictions: Any, labels: Any, weights: Any) -> tuple[Any, Any, Any]:
    """Predictions, labels and weights, each without a last axis of size 1 that the others do not have."""
    predictions = tf.convert_to_tensor(predictions)
    if labels is not None:
        labels, predictions = remove_squeezable_dimensions(labels, predictions)
        predictions.shape.assert_is_compatible_with(labels.shape)
    if weights is None:
        return predictions, labels, None
    weights = tf.convert_to_tensor(weights)
    if weights.shape.ndims == 0:
        return predictions, labels, weights
    if weights.shape.ndims is not None and predictions.shape.ndims is not None:
        if predictions.shape.ndims - weights.shape.ndims == 1:
            return predictions, labels, tf.expand_dims(weights, [-1])
        return predictions, labels, squeezed_last(weights, predictions)
    fewer = tf.equal(tf.rank(predictions) - tf.rank(weights), 1)
    scalar = tf.equal(tf.rank(weights), 0)
    fitted = tf.cond(
        tf.logical_and(fewer, tf.logical_not(scalar)),
        lambda: tf.expand_dims(weights, -1),
        lambda: tf.cond(scalar, lambda: tf.identity(weights), lambda: squeezed_last(weights, predictions)),
    )
    return predictions, labels, fitted


# --------------------------------------------------------------------------------------------------------- formulas
def _safe_div(numerator: Any, denominator: Any, name: str | None = None) -> Any:
    """``numerator / denominator``, and 0 where the denominator is not above 0."""
    numerator, denominator = tf.convert_to_tensor(numerator), tf.convert_to_tensor(denominator)
    divided = tf.div_no_nan(numerator, denominator)
    return tf.where(tf.greater(denominator, 0), divided, tf.zeros_like(divided), name=name)


def _safe_mean(losses: Any, num_present: Any) -> Any:
    """The sum of losses over their number; 0 if there are none."""
    return tf.div_no_nan(tf.reduce_sum(losses), num_present, name="value")


def _num_elements(losses: Any) -> Any:
    """How many losses there are, in their dtype."""
    return tf.cast(tf.size(losses, name="num_elements"), losses.dtype)


# ------------------------------------------------------------------------------------------------------------- layers
class _Linear:
    """Inputs, joined along axis 1, times a matrix, with a bias if asked; variables are made once.

    Args:
        args: a matrix, or a list of them, ``[batch, n]``.
        output_size: columns of the result.
        build_bias: whether there is a bias.
        bias_initializer: 0 if None.
        kernel_initializer: as the variable scope says, if None.
    """

    def __init__(
        self,
        args: Any,
        output_size: int,
        build_bias: bool,
        bias_initializer: Any = None,
        kernel_initializer: Any = None,
    ) -> None:
        self._is_sequence = isinstance(args, (list, tuple))
        flat = list(args) if self._is_sequence else [args]
        columns: list[Any] = [one.shape.as_list()[1] if one.shape.ndims == 2 else None for one in flat]
        if not flat or None in columns:
            raise ValueError(
                f"linear is expecting 2D arguments: {[one.shape for one in flat]}\n"
                + errors.message(f"arguments of {columns} columns", "matrices [batch, known]", "x.set_shape([None, n])")
            )
        dtype = flat[0].dtype.base_dtype
        with tf.variable_scope(tf.get_variable_scope()) as scope:
            self._weights = tf.get_variable(
                _WEIGHTS_VARIABLE_NAME, [sum(columns), output_size], dtype, kernel_initializer
            )
            self._biases = None
            if build_bias:
                with tf.variable_scope(scope) as inner:
                    inner.set_partitioner(None)
                    start = bias_initializer if bias_initializer is not None else tf.zeros_initializer(dtype)
                    self._biases = tf.get_variable(_BIAS_VARIABLE_NAME, [output_size], dtype, start)

    def __call__(self, args: Any) -> Any:
        """The product of arguments like those at the beginning."""
        joined = tf.concat(list(args), 1) if self._is_sequence else args
        product = tf.matmul(joined, self._weights)
        return product if self._biases is None else tf.nn.bias_add(product, self._biases)


def _enumerated_map_structure_up_to(
    shallow_structure: Any, map_fn: Callable[..., Any], *args: Any, **kwargs: Any
) -> Any:
    """``map_fn(number, ...)`` of the parts of structures, down to those of the first."""
    numbers = iter(range(1 << 62))
    return tf.contrib.framework.nest.map_structure_up_to(
        shallow_structure, lambda *parts: map_fn(next(numbers), *parts, **kwargs), *args
    )


def _default_dropout_state_filter_visitor(substate: Any) -> Any:
    """Which parts of a state a dropout wrapper drops: not the memory of an LSTM, and no arrays."""
    if isinstance(substate, tf.nn.rnn_cell.LSTMStateTuple):
        return tf.nn.rnn_cell.LSTMStateTuple(c=False, h=True)
    return not isinstance(substate, tf.TensorArray)


# ---------------------------------------------------------------------------------------------------------- variables
def variable(*args: Any, **kwargs: Any) -> Any:
    """A variable, by way of the creators in force; arguments are those of ``tf.Variable``."""
    return make_variable(*args, **kwargs)


def default_variable_creator(next_creator: Any = None, **kwargs: Any) -> Any:
    """A variable; arguments are those of ``tf.Variable``."""
    if next_creator is not None:
        raise ValueError(
            errors.message(
                "default_variable_creator with a next creator",
                "no next creator: it is the last one",
                "next_creator=None",
            )
        )
    return make_variable(**kwargs)


def is_resource_variable(var: Any) -> bool:
    """Whether a variable is behind a resource handle."""
    return bool(getattr(var, "_is_resource", False))


def init_variable(v: Any, init: Any, name: str = "init") -> Any:
    """An operation that gives a variable its first value: that of a function of shape and dtype, or a tensor."""
    with tf.name_scope(None, f"{v.op.name}/", [v, init]), tf.name_scope(name) as scope, tf.colocate_with(v):
        value = init(v.get_shape().as_list(), v.dtype.base_dtype) if callable(init) else init
        return tf.assign(v, value, name=scope)


def _get_saver_or_default() -> Any:
    """The saver of the graph's collection; a new one, which is put there, if there is none."""
    savers = tf.get_collection(tf.GraphKeys.SAVERS)
    if len(savers) > 1:
        raise RuntimeError(
            f"More than one item in collection {tf.GraphKeys.SAVERS}. Please indicate which one to use by passing it "
            "to the constructor.\n" + errors.message(f"{len(savers)} savers", "one saver", "saver=savers[0]")
        )
    if not savers:
        tf.add_to_collection(tf.GraphKeys.SAVERS, tf.train.Saver(sharded=True, allow_empty=True))
    return tf.get_collection(tf.GraphKeys.SAVERS)[0]


def _get_global_step_read(graph: Any = None) -> Any:
    """The value of the global step that :func:`_get_or_create_global_step_read` made; None if there is none."""
    reads = (graph or tf.get_default_graph()).get_collection(GLOBAL_STEP_READ_KEY)
    if len(reads) > 1:
        raise RuntimeError(
            f"There are multiple items in collection {GLOBAL_STEP_READ_KEY}. There should be only one.\n"
            + errors.message(f"{len(reads)} tensors", "one tensor", f"graph.clear_collection({GLOBAL_STEP_READ_KEY!r})")
        )
    return reads[0] if reads else None


def _get_or_create_global_step_read(graph: Any = None) -> Any:
    """The value that the global step has before :func:`_increment_global_step`, the same tensor each time.

    None if the graph has no global step.
    """
    with (graph or tf.get_default_graph()).as_default() as within:
        read, step = _get_global_step_read(within), tf.train.get_global_step(within)
        if read is None and step is not None:
            with within.control_dependencies(None), within.name_scope(f"{step.op.name}/"):
                start = step.initialized_value() if isinstance(step, tf.Variable) else step
                read = start + tf.constant(0, start.dtype.base_dtype)
            within.add_to_collection(GLOBAL_STEP_READ_KEY, read)
        return read


def _increment_global_step(increment: Any, graph: Any = None) -> Any:
    """An operation that adds to the global step, after what reads it has done so."""
    with (graph or tf.get_default_graph()).as_default() as within:
        step = tf.train.get_global_step()
        if step is None:
            raise ValueError("Global step tensor should be created by tf.train.get_or_create_global_step first.")
        with within.control_dependencies([_get_or_create_global_step_read()]):
            return tf.assign_add(step, tf.cast(increment, step.dtype.base_dtype))


def _hessian_vector_product(ys: Any, xs: Sequence[Any], v: Sequence[Any]) -> list[Any]:
    """The product of the Hessian of ``ys`` with respect to ``xs`` with the vectors ``v``."""
    if len(xs) != len(v):
        raise ValueError("xs and v must have the same length.")
    slopes = tf.gradients(ys, xs)
    products = [slope * tf.stop_gradient(one) for slope, one in zip(slopes, v, strict=True) if slope is not None]
    return tf.gradients(products, xs)


eager_py_func = tf.py_function


def is_sparse(tensor: Any) -> bool:
    """Whether it is a sparse tensor, or the value of one."""
    return isinstance(tensor, (tf.SparseTensor, tf.SparseTensorValue))


# -------------------------------------------------------------------------------------------------------- shape rules
def broadcast_shape(shape_x: Any, shape_y: Any) -> Any:
    """The shape that two shapes broadcast to; ValueError if they do not."""
    if shape_x.ndims is None or shape_y.ndims is None:
        return tf.TensorShape(None)
    return tf.broadcast_static_shape(shape_x, shape_y)


def is_broadcast_compatible(shape_x: Any, shape_y: Any) -> bool:
    """Whether two shapes broadcast, as far as they are known; False if a rank is not."""
    if shape_x.ndims is None or shape_y.ndims is None:
        return False
    try:
        tf.broadcast_static_shape(shape_x, shape_y)
    except ValueError:
        return False
    return True


def scalar_shape(unused_op: Any) -> list[Any]:
    """The shapes of an operation whose result is a scalar."""
    return [tf.TensorShape([])]


def unchanged_shape(op: Any) -> list[Any]:
    """The shapes of an operation whose result has the shape of its first input."""
    return [op.inputs[0].get_shape()]


def unknown_shape(op: Any) -> list[Any]:
    """The shapes of an operation about whose results nothing is known."""
    return [tf.TensorShape(None) for _ in op.outputs]


def TensorShapeProtoToList(shape: Any) -> list[int]:
    """The sizes of a TensorShapeProto."""
    return [dim.size for dim in shape.dim]


def ShapeEquals(tensor_proto: Any, shape: Any) -> bool:
    """Whether a TensorProto has a shape."""
    sizes = TensorShapeProtoToList(shape) if hasattr(shape, "dim") else [int(size) for size in shape]
    return TensorShapeProtoToList(tensor_proto.tensor_shape) == sizes


# ---------------------------------------------------------------------------------------------------- numbers and types
_NP_TO_TF = {kind.as_numpy_dtype: kind for kind in _KINDS}
np_resource = np.dtype([("resource", np.ubyte)])
dtype_range = {np.bool_: (False, True), np.float32: (-1, 1), np.float64: (-1, 1)} | {
    kind: (np.iinfo(kind).min, np.iinfo(kind).max) for kind in (np.uint8, np.uint16, np.int8, np.int16, np.int64)
}
NEW_AXIS, SHRINK_AXIS = -1, -2
NUMERIC_TYPES = frozenset(kind for kind in _KINDS if kind.is_numeric or kind.is_quantized)
_TF_TO_NP = {kind.as_datatype_enum: kind.as_numpy_dtype for kind in _KINDS}
TensorFlowTestCase = tf.test.TestCase


def _assert_float_dtype(dtype: Any) -> Any:
    """The dtype; ValueError unless it is floating."""
    kind = tf.as_dtype(dtype)
    if not kind.is_floating:
        raise ValueError(
            f"Expected floating point type, got {kind}.\n"
            + errors.message(f"dtype {kind.name}", "a floating dtype", "dtype=tf.float32")
        )
    return kind


def _get_noise_shape(x: Any, noise_shape: Any) -> Any:
    """The shape of a mask of dropout: that of ``x`` where it is not given."""
    if noise_shape is None:
        return tf.shape(x)
    given = tf.TensorShape(noise_shape) if not isinstance(noise_shape, tf.Tensor) else None
    if given is None or x.shape.ndims is None or given.ndims != x.shape.ndims:
        return noise_shape
    pairs = zip(given.as_list(), x.shape.as_list(), strict=True)
    return tf.TensorShape([own if size is None else size for size, own in pairs])


def IsMklEnabled() -> bool:
    """False."""
    return False


def NHWCToNCHW(input_tensor: Any) -> Any:
    """A tensor, or a shape, with its channels moved from the end to dimension 1."""
    if not isinstance(input_tensor, tf.Tensor):
        return [input_tensor[0], input_tensor[-1], *input_tensor[1:-1]]
    rank = input_tensor.shape.ndims
    return tf.transpose(input_tensor, [0, rank - 1, *range(1, rank - 1)])


def _make_specific_exception(node_def: Any, op: Any, message: str, error_code: int) -> Exception:
    """The exception of an error's code; one that is not known gives a warning and an `UnknownError` with it."""
    try:
        kind = tf.errors.exception_type_from_error_code(error_code)
    except KeyError:
        warnings.warn(f"Unknown error code: {error_code}", stacklevel=2)
        return tf.errors.UnknownError(node_def, op, message, error_code)
    return kind(node_def, op, message)


# ---------------------------------------------------------------------------------------------------------- structures
def is_nested_or_composite(seq: Any) -> bool:
    """Whether a value has parts, or is a sparse tensor or indexed slices."""
    return tf.nest.is_nested(seq) or isinstance(seq, (tf.SparseTensor, tf.IndexedSlices))


def _is_namedtuple(instance: Any, strict: bool = False) -> bool:
    """Whether a value is a named tuple; with ``strict``, of a class that derives from tuple and nothing else."""
    kind = type(instance)
    if not isinstance(instance, tuple) or (strict and kind.__bases__ != (tuple,)):
        return False
    fields = getattr(instance, "_fields", None)
    return isinstance(fields, tuple) and all(isinstance(name, str) for name in fields)


def yield_flattened_paths(nest: Any) -> Any:
    """The keys and places that lead to each leaf, as tuples."""
    return (path for path, _ in _with_paths(nest))


yield_flat_paths = yield_flattened_paths


def get_traverse_shallow_structure(traverse_fn: Callable[[Any], Any], structure: Any) -> Any:
    """A structure that says by True and False how far down ``traverse_fn`` wants to look into another one.

    Args:
        traverse_fn: function of a part: True or False for all that is in it, or a structure of them, one for each.
        structure: the structure.

    Raises:
        TypeError: the function gives anything else.
    """
    wanted = traverse_fn(structure)
    if not tf.nest.is_nested(structure):
        if not isinstance(wanted, bool):
            raise _no_traversal("traverse_fn returned structure for a part that has none", wanted, structure)
        return wanted
    parts = list(nest.parts(structure))
    if tf.nest.is_nested(wanted):
        tf.contrib.framework.nest.assert_shallow_structure(wanted, structure)
        each = list(nest.parts(wanted))
        if not all(isinstance(one, bool) for one in each):
            raise _no_traversal("traverse_fn didn't return a depth=1 structure of bools", wanted, structure)
    elif isinstance(wanted, bool):
        if not wanted:
            return False
        each = [True] * len(parts)
    else:
        raise _no_traversal("traverse_fn returned a non-bool scalar", wanted, structure)
    pairs = zip(each, parts, strict=True)
    return nest.like(
        structure, [get_traverse_shallow_structure(traverse_fn, part) if go else False for go, part in pairs]
    )


def _no_traversal(words: str, wanted: Any, structure: Any) -> TypeError:
    told = errors.message(f"{wanted!r} for {structure!r}", "True, False or a structure of them", "lambda part: True")
    return TypeError(f"{words}: {wanted!r}\n{told}")


def flatten_with_tuple_paths(structure: Any) -> list[tuple[tuple[Any, ...], Any]]:
    """Leaves with the keys and places that lead to them."""
    return list(_with_paths(structure))


def flatten_with_joined_string_paths(structure: Any, separator: str = "/") -> list[tuple[str, Any]]:
    """Leaves with the keys and places that lead to them, joined."""
    return [(separator.join(str(key) for key in path), leaf) for path, leaf in _with_paths(structure)]


def map_structure_with_tuple_paths(func: Callable[..., Any], *structure: Any) -> Any:
    """``func(path, ...)`` of leaves at one place, in the structure of the first; a path is a tuple."""
    leaves = [tf.nest.flatten(one) for one in structure]
    paths = [path for path, _ in _with_paths(structure[0])]
    return tf.nest.pack_sequence_as(structure[0], [func(*parts) for parts in zip(paths, *leaves, strict=True)])


def map_structure_with_paths(func: Callable[..., Any], *structure: Any) -> Any:
    """``func(path, ...)`` of leaves at one place, in the structure of the first; a path is a text."""
    return map_structure_with_tuple_paths(
        lambda path, *parts: func("/".join(str(key) for key in path), *parts), *structure
    )


def _with_paths(structure: Any, path: tuple[Any, ...] = ()) -> Any:
    if not tf.nest.is_nested(structure):
        yield path, structure
        return
    if hasattr(structure, "_fields"):
        items: Any = [(name, getattr(structure, name)) for name in structure._fields]
    elif hasattr(structure, "keys"):
        items = [(key, structure[key]) for key in sorted(structure)]
    else:
        items = list(enumerate(structure))
    for key, part in items:
        yield from _with_paths(part, (*path, key))


def skip_summary() -> bool:
    """False: there is one replica, which makes its summaries."""
    return False
