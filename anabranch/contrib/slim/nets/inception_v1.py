"""Inception in its first version, GoogLeNet (Szegedy et al., 2014, arXiv:1409.4842). Images are 224 x 224."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import arg_scope
from anabranch.contrib.layers.batch_normalization import batch_norm
from anabranch.contrib.layers.convolutions import avg_pool2d, conv2d, max_pool2d
from anabranch.contrib.layers.dense import dropout, fully_connected, softmax
from anabranch.contrib.slim.nets import inception_blocks
from anabranch.contrib.slim.nets.inception_blocks import trunc_normal


def _mixed(one: int, reduce_3: int, three: int, reduce_5: int, five: int, pooled: int, last: str = "0b") -> Any:
    return (
        [("Conv2d_0a_1x1", one)],
        [("Conv2d_0a_1x1", reduce_3), ("Conv2d_0b_3x3", three)],
        [("Conv2d_0a_1x1", reduce_5), (f"Conv2d_{last}_3x3", five)],
        [("MaxPool_0a_3x3", None), ("Conv2d_0b_1x1", pooled)],
    )


_HALVE = {"stride": 2}
_TABLE: dict[str, Any] = {
    "Conv2d_1a_7x7": (64, _HALVE),
    "MaxPool_2a_3x3": (None, _HALVE),
    "Conv2d_2b_1x1": (64,),
    "Conv2d_2c_3x3": (192,),
    "MaxPool_3a_3x3": (None, _HALVE),
    "Mixed_3b": list(_mixed(64, 96, 128, 16, 32, 32)),
    "Mixed_3c": list(_mixed(128, 128, 192, 32, 96, 64)),
    "MaxPool_4a_3x3": (None, _HALVE),
    "Mixed_4b": list(_mixed(192, 96, 208, 16, 48, 64)),
    "Mixed_4c": list(_mixed(160, 112, 224, 24, 64, 64)),
    "Mixed_4d": list(_mixed(128, 128, 256, 24, 64, 64)),
    "Mixed_4e": list(_mixed(112, 144, 288, 32, 64, 64)),
    "Mixed_4f": list(_mixed(256, 160, 320, 32, 128, 128)),
    "MaxPool_5a_2x2": (None, _HALVE),
    # The second convolution of the third tower is called 0a in published checkpoints.
    "Mixed_5b": list(_mixed(256, 160, 320, 32, 128, 128, "0a")),
    "Mixed_5c": list(_mixed(384, 192, 384, 48, 128, 128)),
}


def inception_v1_base(
    inputs: Any, final_endpoint: str = "Mixed_5c", scope: Any = "InceptionV1"
) -> tuple[Any, dict[str, Any]]:
    """The net without its last layers, up to an end point, and the end points."""
    with (
        tf.variable_scope(scope, "InceptionV1", [inputs]),
        arg_scope([conv2d, fully_connected], weights_initializer=trunc_normal(0.01)),
        arg_scope([conv2d, max_pool2d], stride=1, padding="SAME"),
    ):
        return inception_blocks.base(inputs, _TABLE, final_endpoint, lambda depth: depth)


def inception_v1(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: Any = 0.8,
    prediction_fn: Any = softmax,
    spatial_squeeze: bool = True,
    reuse: Any = None,
    scope: Any = "InceptionV1",
) -> tuple[Any, dict[str, Any]]:
    """Logits ``[batch, num_classes]`` of images, and end points with ``Logits`` and ``Predictions``."""
    with (
        tf.variable_scope(scope, "InceptionV1", [inputs, num_classes], reuse=reuse) as sc,
        arg_scope([batch_norm, dropout], is_training=is_training),
    ):
        net, end_points = inception_v1_base(inputs, scope=sc)
        with tf.variable_scope("Logits"):
            net = avg_pool2d(net, [7, 7], stride=1, scope="MaxPool_0a_7x7")
            net = dropout(net, dropout_keep_prob, scope="Dropout_0b")
            logits = conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="Conv2d_0c_1x1")
            if spatial_squeeze:
                logits = tf.squeeze(logits, [1, 2], name="SpatialSqueeze")
            end_points["Logits"] = logits
            end_points["Predictions"] = prediction_fn(logits, scope="Predictions")
    return logits, end_points


inception_v1.default_image_size = 224  # type: ignore[attr-defined]


def inception_v1_arg_scope(
    weight_decay: float = 0.00004, use_batch_norm: bool = True, batch_norm_var_collection: str = "moving_vars"
) -> Any:
    """The argument scope of :func:`inception_v1`."""
    params = {"decay": 0.9997, "epsilon": 0.001, "updates_collections": tf.GraphKeys.UPDATE_OPS}
    return inception_blocks.scope_with(weight_decay, params, batch_norm_var_collection, use_batch_norm)
