"""Residual nets in their first version (He et al., 2015, arXiv:1512.03385)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import add_arg_scope, arg_scope
from anabranch.contrib.layers.convolutions import conv2d, max_pool2d
from anabranch.contrib.layers.functions import batch_norm, softmax
from anabranch.contrib.layers.parts import collect_named_outputs, convert_collection_to_dict, last_dimension
from anabranch.contrib.slim.nets import resnet_utils
from anabranch.core import errors

resnet_arg_scope = resnet_utils.resnet_arg_scope


@add_arg_scope
def bottleneck(
    inputs: Any, depth: int, depth_bottleneck: int, stride: int, rate: int = 1, outputs_collections: Any = None,
    scope: Any = None,
) -> Any:  # fmt: skip
    """Convolutions 1x1, 3x3 and 1x1 beside a shortcut, rectified after their sum."""
    with tf.variable_scope(scope, "bottleneck_v1", [inputs]) as sc:
        if depth == last_dimension(inputs.shape, 4):
            shortcut = resnet_utils.subsample(inputs, stride, "shortcut")
        else:
            shortcut = conv2d(inputs, depth, [1, 1], stride=stride, activation_fn=None, scope="shortcut")
        residual = conv2d(inputs, depth_bottleneck, [1, 1], stride=1, scope="conv1")
        residual = resnet_utils.conv2d_same(residual, depth_bottleneck, 3, stride, rate=rate, scope="conv2")
        residual = conv2d(residual, depth, [1, 1], stride=1, activation_fn=None, scope="conv3")
        outputs = tf.nn.relu(shortcut + residual)
        return collect_named_outputs(outputs_collections, sc.name, outputs)


def resnet_v1(
    inputs: Any, blocks: Sequence[resnet_utils.Block], num_classes: int | None = None, is_training: Any = True,
    global_pool: bool = True, output_stride: int | None = None, include_root_block: bool = True, reuse: Any = None,
    scope: Any = None,
) -> tuple[Any, dict[str, Any]]:  # fmt: skip
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
    with tf.variable_scope(scope, "resnet_v1", [inputs], reuse=reuse) as sc:
        collection = sc.name + "_end_points"
        with (
            arg_scope([conv2d, bottleneck, resnet_utils.stack_blocks_dense], outputs_collections=collection),
            arg_scope([batch_norm], is_training=is_training),
        ):
            net = inputs
            if include_root_block:
                if output_stride is not None:
                    if output_stride % 4 != 0:
                        raise ValueError(
                            "The output_stride needs to be a multiple of 4.\n"
                            + errors.message(f"output_stride={output_stride}", "a multiple of 4", "output_stride=16")
                        )
                    output_stride //= 4
                net = resnet_utils.conv2d_same(net, 64, 7, stride=2, scope="conv1")
                net = max_pool2d(net, [3, 3], stride=2, scope="pool1")
            net = resnet_utils.stack_blocks_dense(net, blocks, output_stride)
            if global_pool:
                net = tf.reduce_mean(net, [1, 2], name="pool5", keepdims=True)
            if num_classes is not None:
                net = conv2d(net, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="logits")
            found = convert_collection_to_dict(collection)
            if num_classes is not None:
                found["predictions"] = softmax(net, scope="predictions")
            return net, found


resnet_v1.default_image_size = 224  # type: ignore[attr-defined]


def resnet_v1_block(scope: str, base_depth: int, num_units: int, stride: int) -> resnet_utils.Block:
    """A block of units of ``4 * base_depth`` channels, of which the last takes the stride."""
    unit = {"depth": base_depth * 4, "depth_bottleneck": base_depth}
    units = [{**unit, "stride": 1}] * (num_units - 1) + [{**unit, "stride": stride}]
    return resnet_utils.Block(scope, bottleneck, units)


def _net(numbers: Sequence[int], inputs: Any, *options: Any) -> tuple[Any, dict[str, Any]]:
    num_classes, is_training, global_pool, output_stride, reuse, scope = options
    sizes = zip((64, 128, 256, 512), numbers, (2, 2, 2, 1), strict=True)
    blocks = [resnet_v1_block(f"block{i}", *each) for i, each in enumerate(sizes, 1)]
    return resnet_v1(
        inputs, blocks, num_classes, is_training, global_pool, output_stride, reuse=reuse, scope=scope
    )  # fmt: skip


def resnet_v1_50(
    inputs: Any, num_classes: int | None = None, is_training: Any = True, global_pool: bool = True,
    output_stride: int | None = None, reuse: Any = None, scope: Any = "resnet_v1_50",
) -> tuple[Any, dict[str, Any]]:  # fmt: skip
    """The net of 50 layers; arguments as of :func:`resnet_v1`."""
    return _net((3, 4, 6, 3), inputs, num_classes, is_training, global_pool, output_stride, reuse, scope)


def resnet_v1_101(
    inputs: Any, num_classes: int | None = None, is_training: Any = True, global_pool: bool = True,
    output_stride: int | None = None, reuse: Any = None, scope: Any = "resnet_v1_101",
) -> tuple[Any, dict[str, Any]]:  # fmt: skip
    """The net of 101 layers; arguments as of :func:`resnet_v1`."""
    return _net((3, 4, 23, 3), inputs, num_classes, is_training, global_pool, output_stride, reuse, scope)


def resnet_v1_152(
    inputs: Any, num_classes: int | None = None, is_training: Any = True, global_pool: bool = True,
    output_stride: int | None = None, reuse: Any = None, scope: Any = "resnet_v1_152",
) -> tuple[Any, dict[str, Any]]:  # fmt: skip
    """The net of 152 layers; arguments as of :func:`resnet_v1`."""
    return _net((3, 8, 36, 3), inputs, num_classes, is_training, global_pool, output_stride, reuse, scope)


def resnet_v1_200(
    inputs: Any, num_classes: int | None = None, is_training: Any = True, global_pool: bool = True,
    output_stride: int | None = None, reuse: Any = None, scope: Any = "resnet_v1_200",
) -> tuple[Any, dict[str, Any]]:  # fmt: skip
    """The net of 200 layers; arguments as of :func:`resnet_v1`."""
    return _net((3, 24, 36, 3), inputs, num_classes, is_training, global_pool, output_stride, reuse, scope)
