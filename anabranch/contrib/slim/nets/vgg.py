"""VGG's nets (Simonyan and Zisserman, 2014, arXiv:1409.1556). Images are 224 x 224."""

from __future__ import annotations

from typing import Any

from anabranch.contrib.layers.conventions import ZEROS
from anabranch.contrib.slim.nets import fully_convolutional


def vgg_arg_scope(weight_decay: float = 0.0005) -> Any:
    """The argument scope of the nets of this module."""
    return fully_convolutional.scope_with(weight_decay, ZEROS, None)


def _vgg(numbers: tuple[int, ...], inputs: Any, *options: Any) -> tuple[Any, dict[str, Any]]:
    layers: list[fully_convolutional.Layer] = []
    for block, (number, size) in enumerate(zip(numbers, (64, 128, 256, 512, 512), strict=True), 1):
        layers += [(f"conv{block}", size, [3, 3], number), (f"pool{block}", [2, 2])]
    return fully_convolutional.net(inputs, layers, ((4096, [7, 7], "VALID"), 4096), *options)


def vgg_a(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: Any = 0.5,
    spatial_squeeze: bool = True,
    scope: Any = "vgg_a",
) -> tuple[Any, dict[str, Any]]:
    """VGG's net of 11 layers: logits ``[batch, num_classes]`` of images, and end points."""
    return _vgg((1, 1, 2, 2, 2), inputs, num_classes, is_training, dropout_keep_prob, spatial_squeeze, scope, "vgg_a")


def vgg_16(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: Any = 0.5,
    spatial_squeeze: bool = True,
    scope: Any = "vgg_16",
) -> tuple[Any, dict[str, Any]]:
    """VGG's net of 16 layers: logits ``[batch, num_classes]`` of images, and end points."""
    return _vgg((2, 2, 3, 3, 3), inputs, num_classes, is_training, dropout_keep_prob, spatial_squeeze, scope, "vgg_16")


def vgg_19(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: Any = 0.5,
    spatial_squeeze: bool = True,
    scope: Any = "vgg_19",
) -> tuple[Any, dict[str, Any]]:
    """VGG's net of 19 layers: logits ``[batch, num_classes]`` of images, and end points."""
    return _vgg((2, 2, 4, 4, 4), inputs, num_classes, is_training, dropout_keep_prob, spatial_squeeze, scope, "vgg_19")


vgg_d, vgg_e = vgg_16, vgg_19
for _net in (vgg_a, vgg_16, vgg_19):
    _net.default_image_size = 224  # type: ignore[attr-defined]
