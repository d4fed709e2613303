"""Blocks of residual nets: convolutions whose padding does not depend on the input's size, strides made dense."""

from __future__ import annotations

import collections
from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import add_arg_scope, arg_scope
from anabranch.contrib.layers.batch_normalization import batch_norm
from anabranch.contrib.layers.convolutions import conv2d, max_pool2d
from anabranch.contrib.layers.dense import softmax
from anabranch.contrib.layers.initializers import variance_scaling_initializer
from anabranch.contrib.layers.output_collections import collect_named_outputs, convert_collection_to_dict
from anabranch.contrib.layers.regularizers import l2_regularizer
from anabranch.core import errors


class Block(collections.namedtuple("Block", ["scope", "unit_fn", "args"])):
    """A block of a residual net: its scope, the function of its units, and each unit's arguments."""


def subsample(inputs: Any, factor: int, scope: Any = None) -> Any:
    """Every ``factor``-th row and column of images."""
    return inputs if factor == 1 else max_pool2d(inputs, [1, 1], stride=factor, scope=scope)


def conv2d_same(inputs: Any, num_outputs: int, kernel_size: int, stride: int, rate: int = 1, scope: Any = None) -> Any:
    """A convolution whose padding, with strides too, is that of the kernel and not of the input's size."""
    if stride == 1:
        return conv2d(inputs, num_outputs, kernel_size, stride=1, rate=rate, padding="SAME", scope=scope)
    reach = kernel_size + (kernel_size - 1) * (rate - 1) - 1
    before = reach // 2
    sides = [before, reach - before]
    inputs = tf.pad(inputs, [[0, 0], sides, sides, [0, 0]])
    return conv2d(inputs, num_outputs, kernel_size, stride=stride, rate=rate, padding="VALID", scope=scope)


def _unreachable(output_stride: Any, stride: int) -> ValueError:
    return ValueError(
        "The target output_stride cannot be reached.\n"
        + errors.message(
            f"output_stride={output_stride}", f"one of the strides on the way to {stride}", "output_stride=16"
        )
    )


@add_arg_scope
def stack_blocks_dense(
    net: Any, blocks: Sequence[Block], output_stride: int | None = None, outputs_collections: Any = None
) -> Any:
    """Blocks one after the other; beyond ``output_stride`` units spread their kernels where they would take strides."""
    stride, rate = 1, 1
    for block in blocks:
        with tf.variable_scope(block.scope, "block", [net]) as sc:
            for number, unit in enumerate(block.args, 1):
                if output_stride is not None and stride > output_stride:
                    raise _unreachable(output_stride, stride)
                with tf.variable_scope(f"unit_{number}", values=[net]):
                    if output_stride is not None and stride == output_stride:
                        net = block.unit_fn(net, rate=rate, **dict(unit, stride=1))
                        rate *= unit.get("stride", 1)
                    else:
                        net = block.unit_fn(net, rate=1, **unit)
                        stride *= unit.get("stride", 1)
            net = collect_named_outputs(outputs_collections, sc.name, net)
    if output_stride is not None and stride != output_stride:
        raise _unreachable(output_stride, stride)
    return net


def resnet_arg_scope(
    weight_decay: float = 0.0001,
    batch_norm_decay: float = 0.997,
    batch_norm_epsilon: float = 1e-5,
    batch_norm_scale: bool = True,
) -> Any:
    """The argument scope of residual nets."""
    params = {
        "decay": batch_norm_decay,
        "epsilon": batch_norm_epsilon,
        "scale": batch_norm_scale,
        "updates_collections": tf.GraphKeys.UPDATE_OPS,
    }
    with (
        arg_scope(
            [conv2d],
            weights_regularizer=l2_regularizer(weight_decay),
            weights_initializer=variance_scaling_initializer(),
            activation_fn=tf.nn.relu,
            normalizer_fn=batch_norm,
            normalizer_params=params,
        ),
        arg_scope([batch_norm], **params),
        arg_scope([max_pool2d], padding="SAME") as scope,
    ):
        return scope


def net(
    version: int,
    bottleneck: Callable[..., Any],
    inputs: Any,
    blocks: Sequence[Block],
    num_classes: int | None,
    is_training: Any,
    global_pool: bool,
    output_stride: int | None,
    include_root_block: bool,
    reuse: Any,
    scope: Any,
) -> tuple[Any, dict[str, Any]]:
    """A residual net of version 1 or 2; arguments as of ``resnet_v1``."""
    with tf.variable_scope(scope, f"resnet_v{version}", [inputs], reuse=reuse) as sc:
        collection = sc.name + "_end_points"
        with (
            arg_scope([conv2d, bottleneck, stack_blocks_dense], outputs_collections=collection),
            arg_scope([batch_norm], is_training=is_training),
        ):
            hidden = inputs
            if include_root_block:
                if output_stride is not None:
                    if output_stride % 4 != 0:
                        raise ValueError(
                            "The output_stride needs to be a multiple of 4.\n"
                            + errors.message(f"output_stride={output_stride}", "a multiple of 4", "output_stride=16")
                        )
                    output_stride //= 4
                # In version 2 the first unit normalises its input itself.
                plain = {"activation_fn": None, "normalizer_fn": None} if version == 2 else {}
                with arg_scope([conv2d], **plain):
                    hidden = conv2d_same(hidden, 64, 7, stride=2, scope="conv1")
                hidden = max_pool2d(hidden, [3, 3], stride=2, scope="pool1")
            hidden = stack_blocks_dense(hidden, blocks, output_stride)
            if version == 2:
                hidden = batch_norm(hidden, activation_fn=tf.nn.relu, scope="postnorm")
            if global_pool:
                hidden = tf.reduce_mean(hidden, [1, 2], name="pool5", keepdims=True)
            if num_classes is not None:
                hidden = conv2d(hidden, num_classes, [1, 1], activation_fn=None, normalizer_fn=None, scope="logits")
            end_points = convert_collection_to_dict(collection)
            if num_classes is not None:
                end_points["predictions"] = softmax(hidden, scope="predictions")
            return hidden, end_points


def block_of(bottleneck: Callable[..., Any], scope: str, base_depth: int, num_units: int, stride: int) -> Block:
    """A block of units of ``4 * base_depth`` channels, of which the last takes the stride."""
    unit = {"depth": base_depth * 4, "depth_bottleneck": base_depth}
    units = [{**unit, "stride": 1}] * (num_units - 1) + [{**unit, "stride": stride}]
    return Block(scope, bottleneck, units)


def sized(name: str, resnet: Callable[..., Any], bottleneck: Callable[..., Any], units: Sequence[int]) -> Any:
    """The net of that name, with the given numbers of units in its four blocks."""

    def made(
        inputs: Any,
        num_classes: int | None = None,
        is_training: Any = True,
        global_pool: bool = True,
        output_stride: int | None = None,
        reuse: Any = None,
        scope: Any = name,
    ) -> tuple[Any, dict[str, Any]]:
        sizes = zip((64, 128, 256, 512), units, (2, 2, 2, 1), strict=True)
        blocks = [block_of(bottleneck, f"block{i}", *each) for i, each in enumerate(sizes, 1)]
        net: tuple[Any, dict[str, Any]] = resnet(
            inputs, blocks, num_classes, is_training, global_pool, output_stride, reuse=reuse, scope=scope
        )
        return net

    made.__name__ = made.__qualname__ = name
    made.__doc__ = f"The net of {name.rpartition('_')[2]} layers; arguments as of ``{resnet.__name__}``."
    made.default_image_size = 224  # type: ignore[attr-defined]
    return made
