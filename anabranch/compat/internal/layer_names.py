"""Names that layers had besides those of ``tf.layers``, and what modules of recurrent networks keep to themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.core.graph.static_value import constant_value_as_shape
from anabranch.rnn.wrappers import linear

FullyConnected = tf.layers.Dense
fully_connected = tf.layers.dense
BatchNorm = tf.layers.BatchNormalization
batch_norm = tf.layers.batch_normalization
Convolution1D = tf.layers.Conv1D
Convolution2D = tf.layers.Conv2D
Convolution3D = tf.layers.Conv3D
SeparableConvolution1D = tf.layers.SeparableConv1D
SeparableConvolution2D = tf.layers.SeparableConv2D
Convolution2DTranspose = Deconvolution2D = Deconv2D = tf.layers.Conv2DTranspose
Convolution3DTranspose = Deconvolution3D = Deconv3D = tf.layers.Conv3DTranspose
convolution1d = tf.layers.conv1d
convolution2d = tf.layers.conv2d
convolution3d = tf.layers.conv3d
separable_convolution2d = tf.layers.separable_conv2d
convolution2d_transpose = deconvolution2d = deconv2d = tf.layers.conv2d_transpose
convolution3d_transpose = deconvolution3d = deconv3d = tf.layers.conv3d_transpose
MaxPool1D = tf.layers.MaxPooling1D
MaxPool2D = tf.layers.MaxPooling2D
MaxPool3D = tf.layers.MaxPooling3D
AvgPool1D = tf.layers.AveragePooling1D
AvgPool2D = tf.layers.AveragePooling2D
AvgPool3D = tf.layers.AveragePooling3D
max_pool1d = tf.layers.max_pooling1d
max_pool2d = tf.layers.max_pooling2d
max_pool3d = tf.layers.max_pooling3d
avg_pool1d = tf.layers.average_pooling1d
avg_pool2d = tf.layers.average_pooling2d
avg_pool3d = tf.layers.average_pooling3d


def _linear(
    args: Any,
    output_size: int,
    bias: bool,
    bias_initializer: Any = None,
    kernel_initializer: Any = None,
    bias_start: float = 0.0,
    scope: Any = None,
) -> Any:
    """Inputs, joined along axis 1, times a matrix, with a bias if asked.

    Args:
        args: a matrix, or a list of them, ``[batch, n]``.
        output_size: columns of the result.
        bias: whether there is a bias.
        bias_initializer: that of the bias; a number, which came fourth until TensorFlow 1.1, is ``bias_start``.
        kernel_initializer: as the variable scope says, if None.
        bias_start: what the bias begins with, if it has no initializer.
        scope: a variable scope around the variables, as until TensorFlow 1.1.
    """
    if isinstance(bias_initializer, (int, float)):
        bias_start, bias_initializer = bias_initializer, None
    if bias_initializer is None:
        bias_initializer = tf.constant_initializer(bias_start)
    with contextlib.nullcontext() if scope is None else tf.variable_scope(scope):
        return linear(args, output_size, bias, bias_initializer, kernel_initializer)


def _maybe_tensor_shape_from_tensor(shape: Any) -> Any:
    """The known part of the shape that a tensor holds; any other value is returned unchanged."""
    return constant_value_as_shape(shape) if isinstance(shape, tf.Tensor) else shape


def _embedding_lookup_and_transform(
    params: Any,
    ids: Any,
    partition_strategy: str = "mod",
    name: str | None = None,
    max_norm: float | None = None,
    transform_fn: Callable[[Any], Any] | None = None,
) -> Any:
    """The rows ``ids`` (any shape) of a table, each changed by ``transform_fn``, which takes ``[rows, ...]``."""
    with tf.name_scope(name, "embedding_lookup", [ids]):
        if transform_fn is None:
            return tf.nn.embedding_lookup(params, ids, partition_strategy, max_norm=max_norm)
        rows = tf.nn.embedding_lookup(params, tf.reshape(ids, [-1]), partition_strategy, max_norm=max_norm)
        changed = transform_fn(rows)
        size = tf.concat([tf.shape(ids), tf.shape(changed)[1:]], 0)
        return tf.reshape(changed, size)
