"""Layers that rearrange: maxout, spatial softmax, images and sequences, dense and sparse."""

from __future__ import annotations

import functools
from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import add_arg_scope
from anabranch.contrib.framework.variables import model_variable
from anabranch.contrib.layers.conventions import XAVIER, ZEROS
from anabranch.contrib.layers.convolutions import channels_first
from anabranch.contrib.layers.dense import fully_connected
from anabranch.contrib.layers.output_collections import (
    collect_named_outputs,
    get_variable_collections,
)
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import dtypes


@public("contrib.layers.maxout")
@add_arg_scope
def maxout(inputs: Any, num_units: int, axis: int = -1, scope: str | None = None) -> Tensor:
    """The largest of each group of features: ``[..., features]`` to ``[..., num_units]`` (Goodfellow et al., 2013)."""
    with tf.name_scope(scope, "MaxOut", [inputs]):
        inputs = tf.convert_to_tensor(inputs)
        shape = inputs.shape.as_list()
        features = shape[axis]
        if features is None or features % num_units:
            raise ValueError(
                f"number of features({features}) is not a multiple of num_units({num_units})\n"
                + errors.message(f"{features} features for {num_units} units", "a multiple", f"num_units={features}")
            )
        shape[axis] = num_units
        known = [tf.shape(inputs)[i] if size is None else size for i, size in enumerate(shape)]
        outputs = tf.reduce_max(tf.reshape(inputs, [*known, features // num_units]), -1)
        outputs.set_shape(shape)
        return outputs


@public("contrib.layers.spatial_softmax")
@add_arg_scope
def spatial_softmax(
    features: Any,
    temperature: Any = None,
    name: str | None = None,
    variables_collections: Any = None,
    trainable: bool = True,
    data_format: str = "NHWC",
) -> Tensor:
    """Expected place of each channel's features (Finn et al., 2016): ``[batch, h, w, c]`` to ``[batch, 2 * c]``.

    Places are in [-1, 1] along height and width; the features, over ``temperature``, are the logits of a softmax
    over them. The temperature is a variable that begins at the value given, or at 1.
    """
    first = channels_first(data_format, 2)
    count_more(6)  # of the grid, and shapes
    with tf.variable_scope(name, "spatial_softmax"), tf.name_scope("spatial_softmax_op"):
        features = tf.convert_to_tensor(features)
        shape = features.shape.as_list()
        dynamic = tf.shape(features)
        sizes = [dynamic[i] if size is None else size for i, size in enumerate(shape)]
        height, width, channels = (sizes[2], sizes[3], shape[1]) if first else (sizes[1], sizes[2], shape[3])
        if channels is None:
            raise ValueError(
                "The num_channels dimension of the inputs to `spatial_softmax` should be defined. Found `None`.\n"
                + errors.message(f"inputs of shape {features.shape}", "a known number of channels", "set_shape(shape)")
            )
        rows, columns = tf.meshgrid(tf.lin_space(-1.0, 1.0, height), tf.lin_space(-1.0, 1.0, width), indexing="ij")
        start = tf.ones_initializer() if temperature is None else tf.constant_initializer(temperature)
        heat = model_variable(
            "temperature",
            (),
            tf.float32,
            start,
            trainable=trainable,
            collections=get_variable_collections(variables_collections, "temperature") if trainable else None,
        )
        if not first:
            features = tf.transpose(features, [0, 3, 1, 2])
        attention = tf.nn.softmax(tf.reshape(features, [-1, height * width]) / heat)
        places = [tf.reduce_sum(tf.reshape(axis, [-1]) * attention, [1], keepdims=True) for axis in (rows, columns)]
        keypoints: Tensor = tf.reshape(tf.concat(places, 1), [-1, channels * 2])
        return keypoints


@public("contrib.layers.images_to_sequence")
@add_arg_scope
def images_to_sequence(
    inputs: Any, data_format: str = "NHWC", outputs_collections: Any = None, scope: str | None = None
) -> Tensor:
    """Images as columns: ``[batch, height, width, channels]`` to ``[width, batch * height, channels]``."""
    first = channels_first(data_format, 2)
    with tf.name_scope(scope, "ImagesToSequence", [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        if first:
            inputs = tf.transpose(inputs, [0, 2, 3, 1])
        _, _, width, channels = inputs.shape.as_list()
        sizes = tf.shape(inputs)
        flat = [sizes[2] if width is None else width, sizes[0] * sizes[1], channels]
        outputs = tf.reshape(tf.transpose(inputs, [2, 0, 1, 3]), flat)
        collected: Tensor = collect_named_outputs(outputs_collections, sc.rstrip("/"), outputs)
        return collected


@public("contrib.layers.sequence_to_images")
@add_arg_scope
def sequence_to_images(
    inputs: Any,
    height: int,
    output_data_format: str = "channels_last",
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Tensor:
    """Columns as images: ``[width, batch * height, channels]`` to ``[batch, height, width, channels]``."""
    with tf.name_scope(scope, "SequenceToImages", [inputs]) as sc:
        inputs = tf.convert_to_tensor(inputs)
        width, rows, channels = inputs.shape.as_list()
        batch = -1 if rows is None else rows // height
        width = tf.shape(inputs)[0] if width is None else width
        order = [1, 3, 2, 0] if output_data_format == "channels_first" else [1, 2, 0, 3]
        outputs = tf.transpose(tf.reshape(inputs, [width, batch, height, channels]), order)
        collected: Tensor = collect_named_outputs(outputs_collections, sc.rstrip("/"), outputs)
        return collected


@public("contrib.layers.dense_to_sparse")
@add_arg_scope
def dense_to_sparse(tensor: Any, eos_token: Any = 0, outputs_collections: Any = None, scope: str | None = None) -> Any:
    """A tensor as a SparseTensor of the elements that differ from ``eos_token``."""
    with tf.variable_scope(scope, "dense_to_sparse", [tensor]) as sc:
        tensor = tf.convert_to_tensor(tensor)
        sparse = dense_to_sparse_tensor(tensor, eos_token)
        return collect_named_outputs(outputs_collections, sc.name, sparse)


def dense_to_sparse_tensor(dense_tensor: Any, ignore_value: Any = None) -> Any:
    """A tensor as a SparseTensor without elements equal to ``ignore_value`` (0, empty or False by default)."""
    dense = tf.convert_to_tensor(dense_tensor)
    places = tf.where(_counting(dense, ignore_value))
    return tf.SparseTensor(places, tf.gather_nd(dense, places), tf.shape(dense, out_type=tf.int64))


def _counting(dense: Tensor, ignore_value: Any) -> Tensor:
    """Which elements differ from ``ignore_value``, by default from 0, empty or False."""
    if ignore_value is None:
        ignore_value = "" if dense.dtype == tf.string else dense.dtype.as_numpy_dtype()
    counting: Tensor = tf.not_equal(dense, tf.convert_to_tensor(ignore_value, dense.dtype.base_dtype))
    return counting


def indicators_to_sparse_ids(indicators: Any, ignore_value: Any = None, dtype: Any = tf.int64) -> Any:
    """The places along the last dimension of what is indicated, as a SparseTensor of ids without gaps.

    Args:
        indicators: ``[..., classes]``.
        ignore_value: what indicates nothing; 0, empty or False if None.
        dtype: of the ids, integers.

    Returns:
        ``[..., most ids of a row]``.

    Raises:
        ValueError: ``dtype`` is not one of integers.
    """
    dtype = dtypes.as_dtype(dtype)
    if not dtype.is_integer:
        raise ValueError(
            f"Invalid dtype {dtype} not integer.\n"
            + errors.message(f"dtype={dtype.name} for ids", "int32 or int64", "dtype=tf.int64")
        )
    with tf.name_scope(None, "indicators_to_sparse_ids", [indicators]):
        indicators = tf.convert_to_tensor(indicators)
        marks = tf.cast(_counting(indicators, ignore_value), tf.int64)
        places = tf.where(tf.cast(marks, tf.bool))
        order = tf.gather_nd(tf.cumsum(marks, axis=-1), places) - 1
        most = tf.reshape(tf.reduce_max(tf.reduce_sum(marks, -1)), [1])
        return tf.SparseTensor(
            tf.concat([places[:, :-1], order[:, None]], 1),
            tf.cast(places[:, -1], dtype),
            tf.concat([tf.shape(indicators, out_type=tf.int64)[:-1], most], 0),
        )


def sparse_row_envelope(sparse_input: Any, row_axis: int = 0, col_axis: int = 1, name: str | None = None) -> Tensor:
    """The place behind the last element of each row of a SparseTensor; 0 for a row without elements.

    Raises:
        ValueError: the axes are not two different integers.
    """
    if not isinstance(row_axis, int) or not isinstance(col_axis, int) or row_axis == col_axis:
        text = "Row and column can not be the same axis." if row_axis == col_axis else "axes must be integers."
        raise ValueError(
            text
            + "\n"
            + errors.message(f"row_axis={row_axis}, col_axis={col_axis}", "two axes", "row_axis=0, col_axis=1")
        )
    with tf.name_scope(name, "sparse_row_envelope", [sparse_input]):
        rows, columns = sparse_input.indices[:, row_axis], sparse_input.indices[:, col_axis]
        lengths = tf.unsorted_segment_max(columns + 1, rows, tf.cast(sparse_input.dense_shape[row_axis], tf.int32))
        envelope: Tensor = tf.maximum(lengths, tf.zeros_like(lengths))
        return envelope


@public("contrib.layers.scale_gradient")
def scale_gradient(inputs: Any, gradient_multiplier: Any) -> Any:
    """The inputs, with a gradient that is multiplied by a factor on its way back."""

    @tf.custom_gradient
    def passed(x: Any) -> Any:
        return tf.identity(x), lambda gradient: gradient * gradient_multiplier

    return passed(inputs)


@public("contrib.layers.legacy_fully_connected")
def legacy_fully_connected(
    x: Any,
    num_output_units: int,
    activation_fn: Any = None,
    weight_init: Any = XAVIER,
    bias_init: Any = ZEROS,
    name: str | None = None,
    weight_collections: Any = (tf.GraphKeys.WEIGHTS,),
    bias_collections: Any = (tf.GraphKeys.BIASES,),
    output_collections: Any = (tf.GraphKeys.ACTIVATIONS,),
    trainable: bool = True,
    weight_regularizer: Any = None,
    bias_regularizer: Any = None,
) -> Tensor:
    """``activation_fn(x @ weights + bias)``, with the names of the first versions."""
    with tf.variable_scope(name, "fully_connected", [x]):
        x = tf.convert_to_tensor(x)
        rank = x.shape.ndims
        if rank is None or rank < 2:
            raise ValueError(
                f"rank of x must be at least 2 not: {rank}\n"
                + errors.message(f"x of shape {x.shape}", "[..., known number]", "tf.reshape(x, [-1, n])")
            )
        depth = x.shape.as_list()[-1]
        if depth is None:
            raise ValueError(
                "last dimension of x must be known but is None\n"
                + errors.message(f"x of shape {x.shape}", "[..., known number]", "x.set_shape([None, n])")
            )
        dtype = x.dtype.base_dtype

        def variable(variable_name: str, shape: list[int], start: Any, penalty: Any, collections: Any) -> Any:
            return tf.get_variable(
                variable_name,
                shape,
                dtype,
                start,
                penalty,
                trainable,
                [*(collections or ()), tf.GraphKeys.GLOBAL_VARIABLES],
            )

        weights = variable("weights", [depth, num_output_units], weight_init, weight_regularizer, weight_collections)
        outputs = tf.tensordot(x, weights, [[x.shape.ndims - 1], [0]]) if x.shape.ndims > 2 else tf.matmul(x, weights)
        if bias_init is not None:
            bias = variable("bias", [num_output_units], bias_init, bias_regularizer, bias_collections)
            outputs = tf.nn.bias_add(outputs, bias)
        if activation_fn is not None:
            outputs = activation_fn(outputs)
        for collection in output_collections or ():
            tf.add_to_collection(collection, outputs)
        done: Tensor = outputs
        return done


for _name, _made in (
    ("linear", functools.partial(fully_connected, activation_fn=None)),
    ("relu", functools.partial(fully_connected, activation_fn=tf.nn.relu)),
    ("relu6", functools.partial(fully_connected, activation_fn=tf.nn.relu6)),
    ("elu", functools.partial(fully_connected, activation_fn=tf.nn.elu)),
    ("legacy_linear", functools.partial(legacy_fully_connected, activation_fn=None)),
    ("legacy_relu", functools.partial(legacy_fully_connected, activation_fn=tf.nn.relu)),
):
    public(f"contrib.layers.{_name}")(_made)


@public("contrib.layers.one_hot_encoding")
@add_arg_scope
def one_hot_encoding(
    labels: Any,
    num_classes: int,
    on_value: float = 1.0,
    off_value: float = 0.0,
    outputs_collections: Any = None,
    scope: str | None = None,
) -> Tensor:
    """Class numbers ``[batch]`` as rows ``[batch, num_classes]``."""
    with tf.name_scope(scope, "OneHotEncoding", [labels, num_classes]) as sc:
        codes = tf.one_hot(tf.cast(labels, tf.int64), num_classes, on_value=on_value, off_value=off_value)
        collected: Tensor = collect_named_outputs(outputs_collections, sc.rstrip("/"), codes)
        return collected
