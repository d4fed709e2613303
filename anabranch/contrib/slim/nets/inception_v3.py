"""Inception in its third version (Szegedy et al., 2015, arXiv:1512.00567). Images are 299 x 299."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import arg_scope
from anabranch.contrib.layers.batch_normalization import batch_norm
from anabranch.contrib.layers.convolutions import avg_pool2d, conv2d, max_pool2d
from anabranch.contrib.layers.dense import dropout, softmax
from anabranch.contrib.slim.nets import inception_blocks
from anabranch.contrib.slim.nets.inception_blocks import trunc_normal

_HALVE = {"stride": 2, "padding": "VALID"}
# Names that differ from the rule are those of published checkpoints.
_HALVE_3 = {**_HALVE, "kernel": [3, 3]}


def _fives(pooled: int, reduce_5: str = "Conv2d_0a_1x1", five: str = "Conv2d_0b_5x5") -> Any:
    return [
        [("Conv2d_0a_1x1", 64)],
        [(reduce_5, 48), (five, 64)],
        [("Conv2d_0a_1x1", 64), ("Conv2d_0b_3x3", 96), ("Conv2d_0c_3x3", 96)],
        [("AvgPool_0a_3x3", None), ("Conv2d_0b_1x1", pooled)],
    ]


def _sevens(inner: int) -> Any:
    return [
        [("Conv2d_0a_1x1", 192)],
        [("Conv2d_0a_1x1", inner), ("Conv2d_0b_1x7", inner), ("Conv2d_0c_7x1", 192)],
        [
            ("Conv2d_0a_1x1", inner),
            ("Conv2d_0b_7x1", inner),
            ("Conv2d_0c_1x7", inner),
            ("Conv2d_0d_7x1", inner),
            ("Conv2d_0e_1x7", 192),
        ],
        [("AvgPool_0a_3x3", None), ("Conv2d_0b_1x1", 192)],
    ]


def _split(second: str) -> Any:
    return [
        [("Conv2d_0a_1x1", 320)],
        [("Conv2d_0a_1x1", 384), ("", [("Conv2d_0b_1x3", 384), (second, 384)])],
        [
            ("Conv2d_0a_1x1", 448),
            ("Conv2d_0b_3x3", 384),
            ("", [("Conv2d_0c_1x3", 384), ("Conv2d_0d_3x1", 384)]),
        ],
        [("AvgPool_0a_3x3", None), ("Conv2d_0b_1x1", 192)],
    ]


_TABLE: dict[str, Any] = {
    "Conv2d_1a_3x3": (32, _HALVE), "Conv2d_2a_3x3": (32,), "Conv2d_2b_3x3": (64, {"padding": "SAME"}),
    "MaxPool_3a_3x3": (None, _HALVE), "Conv2d_3b_1x1": (80,), "Conv2d_4a_3x3": (192,), "MaxPool_5a_3x3": (None, _HALVE),
    "Mixed_5b": _fives(32), "Mixed_5c": _fives(64, "Conv2d_0b_1x1", "Conv_1_0c_5x5"), "Mixed_5d": _fives(64),
    "Mixed_6a": [
        [("Conv2d_1a_1x1", 384, _HALVE_3)],
        [("Conv2d_0a_1x1", 64), ("Conv2d_0b_3x3", 96), ("Conv2d_1a_1x1", 96, _HALVE_3)],
        [("MaxPool_1a_3x3", None, _HALVE)],
    ],
    "Mixed_6b": _sevens(128), "Mixed_6c": _sevens(160), "Mixed_6d": _sevens(160), "Mixed_6e": _sevens(192),
    "Mixed_7a": [
        [("Conv2d_0a_1x1", 192), ("Conv2d_1a_3x3", 320, _HALVE)],
        [
            ("Conv2d_0a_1x1", 192), ("Conv2d_0b_1x7", 192), ("Conv2d_0c_7x1", 192), ("Conv2d_1a_3x3", 192, _HALVE),
        ],
        [("MaxPool_1a_3x3", None, _HALVE)],
    ],
    "Mixed_7b": _split("Conv2d_0b_3x1"), "Mixed_7c": _split("Conv2d_0c_3x1"),
}  # fmt: skip


def inception_v3_base(
    inputs: Any, final_endpoint: str = "Mixed_7c", min_depth: int = 16, depth_multiplier: float = 1.0, scope: Any = None
) -> tuple[Any, dict[str, Any]]:
    """The net without its last layers, up to an end point, and the end points."""
    depth = inception_blocks.multiplied(depth_multiplier, min_depth)
    with (
        tf.variable_scope(scope, "InceptionV3", [inputs]),
        arg_scope([conv2d, max_pool2d, avg_pool2d], stride=1, padding="VALID"),
    ):
        return inception_blocks.base(inputs, _TABLE, final_endpoint, depth, "SAME")


def inception_v3(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: Any = 0.8,
    min_depth: int = 16,
    depth_multiplier: float = 1.0,
    prediction_fn: Any = softmax,
    spatial_squeeze: bool = True,
    reuse: Any = None,
    create_aux_logits: bool = True,
    scope: Any = "InceptionV3",
) -> tuple[Any, dict[str, Any]]:
    """Logits ``[batch, num_classes]`` of images; end points with ``Logits``, ``AuxLogits`` and ``Predictions``."""
    depth = inception_blocks.multiplied(depth_multiplier, min_depth)
    with (
        tf.variable_scope(scope, "InceptionV3", [inputs, num_classes], reuse=reuse) as sc,
        arg_scope([batch_norm, dropout], is_training=is_training),
    ):
        net, end_points = inception_v3_base(inputs, min_depth=min_depth, depth_multiplier=depth_multiplier, scope=sc)
        if create_aux_logits:
            with arg_scope([conv2d, max_pool2d, avg_pool2d], stride=1, padding="SAME"):
                end_points["AuxLogits"] = _aux_logits(end_points["Mixed_6e"], num_classes, spatial_squeeze, depth)
        with tf.variable_scope("Logits"):
            kernel = inception_blocks.window(net, 8)
            net = avg_pool2d(net, kernel, padding="VALID", scope=f"AvgPool_1a_{kernel[0]}x{kernel[1]}")
            net = end_points["PreLogits"] = dropout(net, dropout_keep_prob, scope="Dropout_1b")
            logits = conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="Conv2d_1c_1x1")
            if spatial_squeeze:
                logits = tf.squeeze(logits, [1, 2], name="SpatialSqueeze")
        end_points["Logits"] = logits
        end_points["Predictions"] = prediction_fn(logits, scope="Predictions")
    return logits, end_points


def _aux_logits(net: Any, num_classes: int, squeeze: bool, depth: inception_blocks.Depth) -> Any:
    """Logits from the middle of the net, for a loss beside the main one."""
    with tf.variable_scope("AuxLogits"):
        net = avg_pool2d(net, [5, 5], stride=3, padding="VALID", scope="AvgPool_1a_5x5")
        net = conv2d(net, depth(128), [1, 1], scope="Conv2d_1b_1x1")
        kernel = inception_blocks.window(net, 5)
        net = conv2d(
            net,
            depth(768),
            kernel,
            weights_initializer=trunc_normal(0.01),
            padding="VALID",
            scope=f"Conv2d_2a_{kernel[0]}x{kernel[1]}",
        )
        net = conv2d(
            net,
            num_classes,
            [1, 1],
            activation_fn=None,
            normalizer_fn=None,
            weights_initializer=trunc_normal(0.001),
            scope="Conv2d_2b_1x1",
        )
        return tf.squeeze(net, [1, 2], name="SpatialSqueeze") if squeeze else net


inception_v3.default_image_size = 299  # type: ignore[attr-defined]


def inception_v3_arg_scope(
    weight_decay: float = 0.00004,
    batch_norm_var_collection: str = "moving_vars",
    batch_norm_decay: float = 0.9997,
    batch_norm_epsilon: float = 0.001,
    updates_collections: Any = tf.GraphKeys.UPDATE_OPS,
    use_fused_batchnorm: bool = True,
) -> Any:
    """The argument scope of :func:`inception_v3`."""
    params = {
        "decay": batch_norm_decay,
        "epsilon": batch_norm_epsilon,
        "updates_collections": updates_collections,
        "fused": use_fused_batchnorm,
    }
    return inception_blocks.scope_with(weight_decay, params, batch_norm_var_collection)
