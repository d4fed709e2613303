"""Nets that are a row of convolutions and pools with fully connected layers at the end, written as convolutions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import arg_scope
from anabranch.contrib.layers.conventions import ZEROS
from anabranch.contrib.layers.convolutions import conv2d, max_pool2d
from anabranch.contrib.layers.dense import dropout, fully_connected
from anabranch.contrib.layers.output_collections import convert_collection_to_dict
from anabranch.contrib.layers.regularizers import l2_regularizer
from anabranch.contrib.layers.repetition import repeat

# A layer: a pool (scope, window, stride), a convolution (scope, outputs, kernel, stride, padding), or a repeated one
# (scope, outputs, kernel, number).
Layer = tuple[Any, ...]


def scope_with(weight_decay: float, biases_initializer: Any, pool_padding: str | None = "VALID") -> Any:
    """The argument scope of such a net: rectified layers with decaying weights."""
    with (
        arg_scope(
            [conv2d, fully_connected],
            activation_fn=tf.nn.relu,
            weights_regularizer=l2_regularizer(weight_decay),
            biases_initializer=biases_initializer,
        ),
        arg_scope([conv2d], padding="SAME") as scope,
    ):
        if pool_padding is None:
            return scope
        with arg_scope([max_pool2d], padding=pool_padding) as with_pools:
            return with_pools


def net(
    inputs: Any,
    layers: Sequence[Layer],
    ends: tuple[Any, ...],
    num_classes: int,
    is_training: Any,
    dropout_keep_prob: Any,
    spatial_squeeze: bool,
    scope: Any,
    default: str,
    end_options: dict[str, Any] | None = None,
) -> tuple[Any, dict[str, Any]]:
    """The output ``[batch, num_classes]`` (``[batch, h, w, num_classes]`` unless squeezed) and the end points.

    Args:
        inputs: images ``[batch, height, width, channels]``.
        layers: the layers before the ends.
        ends: ``(outputs, kernel, padding)`` of ``fc6`` and the outputs of ``fc7``.
        num_classes: outputs of ``fc8``.
        is_training: whether elements are dropped.
        dropout_keep_prob: share of elements that are kept.
        spatial_squeeze: take off the spatial axes, which must be of size 1.
        scope: name of the variable scope.
        default: its default.
        end_options: further arguments of ``fc6`` to ``fc8``.
    """
    with tf.variable_scope(scope, default, [inputs]) as sc:
        collection = sc.name + "_end_points"
        with arg_scope([conv2d, fully_connected, max_pool2d], outputs_collections=collection):
            hidden = inputs
            for name, *options in layers:
                if name.startswith("pool"):
                    hidden = max_pool2d(hidden, *options, scope=name)
                elif len(options) == 3:
                    hidden = repeat(hidden, options[2], conv2d, options[0], options[1], scope=name)
                else:
                    # By keyword: the padding of a scope around is to give way to the layer's.
                    keywords = dict(zip(("stride", "padding"), options[2:], strict=False))
                    hidden = conv2d(hidden, *options[:2], **keywords, scope=name)
            (size, kernel, padding), size_7 = ends
            with arg_scope([conv2d], **(end_options or {})):
                hidden = conv2d(hidden, size, kernel, padding=padding, scope="fc6")
                hidden = dropout(hidden, dropout_keep_prob, is_training=is_training, scope="dropout6")
                hidden = conv2d(hidden, size_7, [1, 1], scope="fc7")
                hidden = dropout(hidden, dropout_keep_prob, is_training=is_training, scope="dropout7")
                hidden = conv2d(
                    hidden,
                    num_classes,
                    [1, 1],
                    activation_fn=None,
                    normalizer_fn=None,
                    scope="fc8",
                    **({"biases_initializer": ZEROS} if end_options else {}),
                )
            end_points = convert_collection_to_dict(collection)
            if spatial_squeeze:
                hidden = tf.squeeze(hidden, [1, 2], name="fc8/squeezed")
                end_points[sc.name + "/fc8"] = hidden
            return hidden, end_points


def ends_with(stddev: float) -> dict[str, Any]:
    """Arguments of the last layers of AlexNet and OverFeat."""
    return {
        "weights_initializer": tf.truncated_normal_initializer(0.0, stddev),
        "biases_initializer": tf.constant_initializer(0.1),
    }
