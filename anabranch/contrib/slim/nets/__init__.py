"""``tf.contrib.slim.nets``: nets for images, with the variables and end points of published checkpoints.

Each function gives ``(output, end_points)``; ``end_points`` is a dictionary of tensors on the way. Use it inside the
net's argument scope, which sets regularizers, normalisation and padding:

    with slim.arg_scope(resnet_v1.resnet_arg_scope()):
        logits, end_points = resnet_v1.resnet_v1_50(images, 1000, is_training=False)
"""

from anabranch.contrib.slim.nets import (
    alexnet,
    inception,
    inception_v1,
    inception_v2,
    inception_v3,
    overfeat,
    resnet_utils,
    resnet_v1,
    resnet_v2,
    vgg,
)

__all__ = [
    "alexnet",
    "inception",
    "inception_v1",
    "inception_v2",
    "inception_v3",
    "overfeat",
    "resnet_utils",
    "resnet_v1",
    "resnet_v2",
    "vgg",
]
