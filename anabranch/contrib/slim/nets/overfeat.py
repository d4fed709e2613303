"""OverFeat (Sermanet et al., 2014, arXiv:1312.6229). Images are 231 x 231."""

from __future__ import annotations

from typing import Any

from anabranch.contrib.layers.conventions import ZEROS
from anabranch.contrib.slim.nets import fully_convolutional

_LAYERS = (
    ("conv1", 64, [11, 11], 4, "VALID"),
    ("pool1", [2, 2], 2),
    ("conv2", 256, [5, 5], 1, "VALID"),
    ("pool2", [2, 2], 2),
    ("conv3", 512, [3, 3], 1, "SAME"),
    ("conv4", 1024, [3, 3], 1, "SAME"),
    ("conv5", 1024, [3, 3], 1, "SAME"),
    ("pool5", [2, 2], 2),
)


def overfeat_arg_scope(weight_decay: float = 0.0005) -> Any:
    """The argument scope of :func:`overfeat`."""
    return fully_convolutional.scope_with(weight_decay, ZEROS)


def overfeat(
    inputs: Any,
    num_classes: int = 1000,
    is_training: Any = True,
    dropout_keep_prob: Any = 0.5,
    spatial_squeeze: bool = True,
    scope: Any = "overfeat",
) -> tuple[Any, dict[str, Any]]:
    """Logits ``[batch, num_classes]`` of images, and end points."""
    return fully_convolutional.net(
        inputs,
        _LAYERS,
        ((3072, [6, 6], "VALID"), 4096),
        num_classes,
        is_training,
        dropout_keep_prob,
        spatial_squeeze,
        scope,
        "overfeat",
        fully_convolutional.ends_with(0.005),
    )


overfeat.default_image_size = 231  # type: ignore[attr-defined]
