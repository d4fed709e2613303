"""AlexNet in its second version (Krizhevsky, 2014, arXiv:1404.5997). Images are 224 x 224."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.slim.nets import fully_convolutional

_LAYERS = (
    ("conv1", 64, [11, 11], 4, "VALID"),
    ("pool1", [3, 3], 2),
    ("conv2", 192, [5, 5], 1, "SAME"),
    ("pool2", [3, 3], 2),
    ("conv3", 384, [3, 3], 1, "SAME"),
    ("conv4", 384, [3, 3], 1, "SAME"),
    ("conv5", 256, [3, 3], 1, "SAME"),
    ("pool5", [3, 3], 2),
)


def alexnet_v2_arg_scope(weight_decay: float = 0.0005) -> Any:
    """The argument scope of :func:`alexnet_v2`."""
    return fully_convolutional.scope_with(weight_decay, tf.constant_initializer(0.1))


def alexnet_v2(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: Any = 0.5,
    spatial_squeeze: bool = True,
    scope: Any = "alexnet_v2",
) -> tuple[Any, dict[str, Any]]:
    """Logits ``[batch, num_classes]`` of images, and end points."""
    return fully_convolutional.net(
        inputs,
        _LAYERS,
        ((4096, [5, 5], "VALID"), 4096),
        num_classes,
        is_training,
        dropout_keep_prob,
        spatial_squeeze,
        scope,
        "alexnet_v2",
        fully_convolutional.ends_with(0.005),
    )


alexnet_v2.default_image_size = 224  # type: ignore[attr-defined]
