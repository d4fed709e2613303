"""Residual nets in their second version (He et al., 2016, arXiv:1603.05027): normalisation comes before convolution."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import add_arg_scope
from anabranch.contrib.layers.batch_normalization import batch_norm
from anabranch.contrib.layers.convolutions import conv2d
from anabranch.contrib.layers.output_collections import collect_named_outputs
from anabranch.contrib.layers.static_values import last_dimension
from anabranch.contrib.slim.nets import resnet_utils

resnet_arg_scope = resnet_utils.resnet_arg_scope


@add_arg_scope
def bottleneck(
    inputs: Any,
    depth: int,
    depth_bottleneck: int,
    stride: int,
    rate: int = 1,
    outputs_collections: Any = None,
    scope: Any = None,
) -> Any:
    """Normalisation, convolutions 1x1, 3x3 and 1x1 beside a shortcut, and their sum."""
    with tf.variable_scope(scope, "bottleneck_v2", [inputs]) as sc:
        before = batch_norm(inputs, activation_fn=tf.nn.relu, scope="preact")
        plain = {"normalizer_fn": None, "activation_fn": None}
        if depth == last_dimension(inputs.shape, 4):
            shortcut = resnet_utils.subsample(inputs, stride, "shortcut")
        else:
            shortcut = conv2d(before, depth, [1, 1], stride=stride, scope="shortcut", **plain)
        residual = conv2d(before, depth_bottleneck, [1, 1], stride=1, scope="conv1")
        residual = resnet_utils.conv2d_same(residual, depth_bottleneck, 3, stride, rate=rate, scope="conv2")
        residual = conv2d(residual, depth, [1, 1], stride=1, scope="conv3", **plain)
        outputs = shortcut + residual
        return collect_named_outputs(outputs_collections, sc.name, outputs)


def resnet_v2(
    inputs: Any,
    blocks: Sequence[resnet_utils.Block],
    num_classes: int | None = None,
    is_training: Any = True,
    global_pool: bool = True,
    output_stride: int | None = None,
    include_root_block: bool = True,
    reuse: Any = None,
    scope: Any = None,
) -> tuple[Any, dict[str, Any]]:
    """A residual net of given blocks, and its end points.

    Args:
        inputs: images ``[batch, height, width, channels]``.
        blocks: its blocks.
        num_classes: outputs of a last layer; None for none.
        is_training: whether batches are normalised by their own moments.
        global_pool: take the mean over the image before the last layer.
        output_stride: how much smaller than the image the features are; what is beyond is made dense.
        include_root_block: begin with a convolution of stride 2 and a pool of stride 2.
        reuse: whether to use variables that exist.
        scope: name of the variable scope.

    Returns:
        ``[batch, height, width, num_classes]`` (height and width are 1 with ``global_pool``), and a dictionary.
    """
    return resnet_utils.net(
        2,
        bottleneck,
        inputs,
        blocks,
        num_classes,
        is_training,
        global_pool,
        output_stride,
        include_root_block,
        reuse,
        scope,
    )


resnet_v2.default_image_size = 224  # type: ignore[attr-defined]


def resnet_v2_block(scope: str, base_depth: int, num_units: int, stride: int) -> resnet_utils.Block:
    """A block of units of ``4 * base_depth`` channels, of which the last takes the stride."""
    return resnet_utils.block_of(bottleneck, scope, base_depth, num_units, stride)


resnet_v2_50 = resnet_utils.sized("resnet_v2_50", resnet_v2, bottleneck, (3, 4, 6, 3))
resnet_v2_101 = resnet_utils.sized("resnet_v2_101", resnet_v2, bottleneck, (3, 4, 23, 3))
resnet_v2_152 = resnet_utils.sized("resnet_v2_152", resnet_v2, bottleneck, (3, 8, 36, 3))
resnet_v2_200 = resnet_utils.sized("resnet_v2_200", resnet_v2, bottleneck, (3, 24, 36, 3))
