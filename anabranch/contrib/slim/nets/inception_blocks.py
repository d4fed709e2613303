"""What the Inception nets share: blocks of parallel towers, written as tables, and their argument scope.

A step of a tower is ``(name, outputs, options)``. The name says what it is and how large its kernel or window is
(``Conv2d_0b_3x3``), unless an option ``kernel`` says otherwise. A step whose second part is a list of steps applies
each of them to the same input and joins the results.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.contrib.framework.scopes import arg_scope
from anabranch.contrib.layers.batch_normalization import batch_norm
from anabranch.contrib.layers.convolutions import avg_pool2d, conv2d, max_pool2d
from anabranch.contrib.layers.dense import fully_connected
from anabranch.contrib.layers.initializers import variance_scaling_initializer
from anabranch.contrib.layers.regularizers import l2_regularizer
from anabranch.core import errors

Step = tuple[Any, ...]
Depth = Callable[[int], int]


def trunc_normal(stddev: float) -> Any:
    """An initializer of truncated normal values around 0."""
    return tf.truncated_normal_initializer(0.0, stddev)


def apply(net: Any, step: Step, depth: Depth) -> Any:
    """One step of a tower."""
    name, outputs, *rest = step
    if isinstance(outputs, list):
        return tf.concat([apply(net, each, depth) for each in outputs], 3)
    options = dict(rest[0]) if rest else {}
    kernel = options.pop("kernel", None) or [int(size) for size in name.rpartition("_")[2].split("x")]
    if name.startswith("MaxPool"):
        return max_pool2d(net, kernel, scope=name, **options)
    if name.startswith("AvgPool"):
        return avg_pool2d(net, kernel, scope=name, **options)
    return conv2d(net, depth(outputs), kernel, scope=name, **options)


def block(net: Any, name: str, towers: Sequence[Sequence[Step]], depth: Depth) -> Any:
    """Towers side by side on one input, joined over their channels."""
    with tf.variable_scope(name):
        joined = []
        for number, steps in enumerate(towers):
            with tf.variable_scope(f"Branch_{number}"):
                hidden = net
                for step in steps:
                    hidden = apply(hidden, step, depth)
                joined.append(hidden)
        return tf.concat(joined, 3)


def base(
    inputs: Any, table: dict[str, Any], final_endpoint: str, depth: Depth, mixed_padding: str | None = None
) -> tuple[Any, dict[str, Any]]:
    """The steps and blocks of a table up to an end point, and the end points."""
    if final_endpoint not in table:
        raise ValueError(
            f"Unknown final endpoint {final_endpoint}\n"
            + errors.message(f"final_endpoint={final_endpoint!r}", f"one of {', '.join(table)}", "the last one")
        )
    net, end_points = inputs, {}
    for name, content in table.items():
        if isinstance(content, tuple):
            net = apply(net, (name, *content), depth)
        elif callable(content):
            net = content(net, name, depth)
        else:
            padding = {"padding": mixed_padding} if mixed_padding else {}
            with arg_scope([conv2d, max_pool2d, avg_pool2d], stride=1, **padding):
                net = block(net, name, content, depth)
        end_points[name] = net
        if name == final_endpoint:
            break
    return net, end_points


def multiplied(depth_multiplier: float, min_depth: int) -> Depth:
    """A function that scales numbers of channels, down to a least one."""
    if depth_multiplier <= 0:
        raise ValueError(
            "depth_multiplier is not greater than zero.\n"
            + errors.message(f"depth_multiplier={depth_multiplier}", "more than 0", "depth_multiplier=1.0")
        )
    return lambda depth: max(int(depth * depth_multiplier), min_depth)


def window(net: Any, size: int) -> list[int]:
    """A square window, cut to the size of the input where it is smaller."""
    return [size if known is None else min(known, size) for known in net.shape.as_list()[1:3]]


def scope_with(weight_decay: float, normalizer_params: dict[str, Any], collection: str, normalized: bool = True) -> Any:
    """The argument scope of an Inception net."""
    params = dict(
        normalizer_params,
        variables_collections={
            "beta": None,
            "gamma": None,
            "moving_mean": [collection],
            "moving_variance": [collection],
        },
    )
    with (
        arg_scope([conv2d, fully_connected], weights_regularizer=l2_regularizer(weight_decay)),
        arg_scope(
            [conv2d],
            weights_initializer=variance_scaling_initializer(),
            activation_fn=tf.nn.relu,
            normalizer_fn=batch_norm if normalized else None,
            normalizer_params=params if normalized else {},
        ) as scope,
    ):
        return scope
