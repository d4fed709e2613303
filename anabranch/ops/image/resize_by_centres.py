"""``tf.image.resize`` of TensorFlow 2: pixels are placed by their centres, and there are more kernels.

With ``antialias`` the kernel grows with the scale, so that an image that becomes smaller loses no pixel. Results are
float32, but for the nearest neighbour, which copies pixels, and where the size stays.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.static_value import partial_value
from anabranch.core.graph.tensor import Tensor
from anabranch.core.values import dtypes
from anabranch.ops.image.public_geometry import ResizeMethod, _batched, _fitting, image_tensor

_BY_WINDOW = {
    "bilinear": "ResizeBilinear",
    "nearest": "ResizeNearestNeighbor",
    "bicubic": "ResizeBicubic",
    "area": "ResizeArea",
}
_BY_KERNEL = {
    "bilinear": "triangle",
    "bicubic": "keyscubic",
    "lanczos3": "lanczos3",
    "lanczos5": "lanczos5",
    "gaussian": "gaussian",
    "mitchellcubic": "mitchellcubic",
}
_OLD_METHODS = {
    ResizeMethod.BILINEAR: "bilinear",
    ResizeMethod.NEAREST_NEIGHBOR: "nearest",
    ResizeMethod.BICUBIC: "bicubic",
    ResizeMethod.AREA: "area",
}


@public("image.resize_v2")
def resize(
    images: Any,
    size: Any,
    method: Any = "bilinear",
    preserve_aspect_ratio: bool = False,
    antialias: bool = False,
    name: str | None = None,
) -> Tensor:
    """An image, or a batch of images, of another size.

    Args:
        images: ``[height, width, channels]`` or ``[batch, height, width, channels]``.
        size: ``[new_height, new_width]``.
        method: ``bilinear``, ``nearest``, ``bicubic``, ``area``, ``lanczos3``, ``lanczos5``, ``gaussian`` or
            ``mitchellcubic``, or one of :class:`ResizeMethod`.
        preserve_aspect_ratio: fit into ``size`` with the ratio of the sides kept.
        antialias: take all pixels into account that a pixel of a smaller image covers.
        name: of the op.

    Returns:
        float32, or the images' dtype for nearest neighbours and where the size does not change.

    Raises:
        ValueError: there is no such method, or the shapes do not fit.
    """
    kind = method if isinstance(method, str) else _OLD_METHODS.get(method)
    if kind not in _BY_WINDOW and kind not in _BY_KERNEL:
        raise ValueError(
            f"Resize method is not implemented: {method}\n"
            + errors.message(f"method={method!r}", f"one of {sorted({*_BY_WINDOW, *_BY_KERNEL})}", "method='bilinear'")
        )
    with name_scope(name, "resize", [images, size]):
        images, restore = _batched(image_tensor(images))
        size = convert_to_tensor(size, dtypes.int32, name="size")
        if size.shape.as_list() not in ([2], [None]):
            raise ValueError(
                "'size' must be a 1-D Tensor of 2 elements: new_height, new_width\n"
                + errors.message(f"size of shape {size.shape}", "[height, width]", "size=[224, 224]")
            )
        if preserve_aspect_ratio:
            size = _fitting(images, size)
        wanted, given = partial_value(size), images.shape.as_list()[1:3]
        if isinstance(wanted, np.ndarray) and None not in given and given == wanted.tolist():
            return restore(images)
        if kind == "area":
            return restore(build("ResizeArea", images, size))
        if kind in _BY_WINDOW and not (antialias and kind in _BY_KERNEL):
            return restore(build(_BY_WINDOW[kind], images, size, half_pixel_centers=True))
        sides = build("StridedSlice", build("Shape", images), [1], [3], [1])
        scale = build("RealDiv", *(build("Cast", sizes, DstT=dtypes.float32) for sizes in (size, sides)))
        return restore(
            build(
                "ScaleAndTranslate",
                images,
                size,
                scale,
                np.zeros(2, np.float32),
                kernel_type=_BY_KERNEL[kind],
                antialias=antialias,
            )
        )
