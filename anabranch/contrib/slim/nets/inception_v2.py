"""Inception in its second version, with batch normalisation (Ioffe and Szegedy, 2015, arXiv:1502.03167)."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import arg_scope
from anabranch.contrib.layers.batch_normalization import batch_norm
from anabranch.contrib.layers.convolutions import avg_pool2d, conv2d, max_pool2d
from anabranch.contrib.layers.dense import dropout, softmax
from anabranch.contrib.layers.separable_and_transposed import separable_convolution2d
from anabranch.contrib.slim.nets import inception_blocks
from anabranch.contrib.slim.nets.inception_blocks import trunc_normal

_LESS, _MORE = {"weights_initializer": trunc_normal(0.09)}, {"weights_initializer": trunc_normal(0.1)}
_HALVE = {"stride": 2}


def _mixed(one: int, reduce_3: int, three: int, reduce_33: int, double: int, pooled: int, pool: str = "Avg") -> Any:
    return [
        [("Conv2d_0a_1x1", one)],
        [("Conv2d_0a_1x1", reduce_3, _LESS), ("Conv2d_0b_3x3", three)],
        [("Conv2d_0a_1x1", reduce_33, _LESS), ("Conv2d_0b_3x3", double), ("Conv2d_0c_3x3", double)],
        [(f"{pool}Pool_0a_3x3", None), ("Conv2d_0b_1x1", pooled, _MORE)],
    ]


def _halved(reduce_3: int, three: int, reduce_33: int, double: int) -> Any:
    return [
        [("Conv2d_0a_1x1", reduce_3, _LESS), ("Conv2d_1a_3x3", three, _HALVE)],
        [("Conv2d_0a_1x1", reduce_33, _LESS), ("Conv2d_0b_3x3", double), ("Conv2d_1a_3x3", double, _HALVE)],
        [("MaxPool_1a_3x3", None, _HALVE)],
    ]


def _first(net: Any, name: str, depth: inception_blocks.Depth) -> Any:
    multiplier = min(int(depth(64) / 3), 8)
    return separable_convolution2d(
        net, depth(64), [7, 7], multiplier, stride=2, padding="SAME", weights_initializer=trunc_normal(1.0), scope=name
    )


_TABLE: dict[str, Any] = {
    "Conv2d_1a_7x7": _first,
    "MaxPool_2a_3x3": (None, _HALVE),
    "Conv2d_2b_1x1": (64, _MORE),
    "Conv2d_2c_3x3": (192,),
    "MaxPool_3a_3x3": (None, _HALVE),
    "Mixed_3b": _mixed(64, 64, 64, 64, 96, 32),
    "Mixed_3c": _mixed(64, 64, 96, 64, 96, 64),
    "Mixed_4a": _halved(128, 160, 64, 96),
    "Mixed_4b": _mixed(224, 64, 96, 96, 128, 128),
    "Mixed_4c": _mixed(192, 96, 128, 96, 128, 128),
    "Mixed_4d": _mixed(160, 128, 160, 128, 160, 96),
    "Mixed_4e": _mixed(96, 128, 192, 160, 192, 96),
    "Mixed_5a": _halved(128, 192, 192, 256),
    "Mixed_5b": _mixed(352, 192, 320, 160, 224, 128),
    "Mixed_5c": _mixed(352, 192, 320, 192, 224, 128, "Max"),
}


def inception_v2_base(
    inputs: Any, final_endpoint: str = "Mixed_5c", min_depth: int = 16, depth_multiplier: float = 1.0, scope: Any = None
) -> tuple[Any, dict[str, Any]]:
    """The net without its last layers, up to an end point, and the end points."""
    depth = inception_blocks.multiplied(depth_multiplier, min_depth)
    with (
        tf.variable_scope(scope, "InceptionV2", [inputs]),
        arg_scope([conv2d, max_pool2d, avg_pool2d, separable_convolution2d], stride=1, padding="SAME"),
    ):
        return inception_blocks.base(inputs, _TABLE, final_endpoint, depth)


def inception_v2(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: Any = 0.8,
    min_depth: int = 16,
    depth_multiplier: float = 1.0,
    prediction_fn: Any = softmax,
    spatial_squeeze: bool = True,
    reuse: Any = None,
    scope: Any = "InceptionV2",
) -> tuple[Any, dict[str, Any]]:
    """Logits ``[batch, num_classes]`` of images, and end points with ``Logits`` and ``Predictions``."""
    with (
        tf.variable_scope(scope, "InceptionV2", [inputs, num_classes], reuse=reuse) as sc,
        arg_scope([batch_norm, dropout], is_training=is_training),
    ):
        net, end_points = inception_v2_base(inputs, min_depth=min_depth, depth_multiplier=depth_multiplier, scope=sc)
        with tf.variable_scope("Logits"):
            kernel = inception_blocks.window(net, 7)
            net = avg_pool2d(net, kernel, padding="VALID", scope=f"AvgPool_1a_{kernel[0]}x{kernel[1]}")
            net = dropout(net, dropout_keep_prob, scope="Dropout_1b")
            logits = conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="Conv2d_1c_1x1")
            if spatial_squeeze:
                logits = tf.squeeze(logits, [1, 2], name="SpatialSqueeze")
        end_points["Logits"] = logits
        end_points["Predictions"] = prediction_fn(logits, scope="Predictions")
    return logits, end_points


inception_v2.default_image_size = 224  # type: ignore[attr-defined]


def inception_v2_arg_scope(weight_decay: float = 0.00004, batch_norm_var_collection: str = "moving_vars") -> Any:
    """The argument scope of :func:`inception_v2`."""
    params = {"decay": 0.9997, "epsilon": 0.001, "updates_collections": tf.GraphKeys.UPDATE_OPS}
    return inception_blocks.scope_with(weight_decay, params, batch_norm_var_collection)
