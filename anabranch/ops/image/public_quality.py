"""``tf.image``: structural similarity, gradients and edges, colour spaces of television, resizing with borders."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import counted_as
from anabranch.core.values import dtypes
from anabranch.core.values.shapes import TensorShape
from anabranch.ops.image.public_adjust import comparable, convert_image_dtype
from anabranch.ops.image.public_geometry import ResizeMethod, image_tensor, pad_to_bounding_box, resize_images
from anabranch.ops.shared.array_rules import shape_of

_POWERS = (0.0448, 0.2856, 0.3001, 0.2363, 0.1333)


# ----------------------------------------------------------------------------------------------------------- similarity
def _window(size: int, sigma: float) -> np.ndarray:
    """A Gaussian window ``[size, size]`` with sum 1."""
    place = np.arange(size) - (size - 1) / 2
    weights = np.exp(-0.5 * (place[:, None] ** 2 + place**2) / sigma**2)
    return (weights / weights.sum()).astype(np.float32)


def _similarity(a: Any, b: Any, span: Any, size: int, sigma: float, k1: float, k2: float) -> tuple[Any, Any]:
    """The similarity by channel ``[batch, channels]``, and the part of it that contrast and structure have."""
    c1, c2 = build("Square", k1 * span), build("Square", k2 * span)
    channels = build("Shape", a)[-1]
    window = _window(size, sigma)[:, :, None, None]
    kernel = build("Tile", window, build("Pack", [1, 1, channels, 1], axis=0))

    def local(x: Any) -> Any:
        return build("DepthwiseConv2dNative", x, kernel, strides=[1, 1, 1, 1], padding="VALID")

    mean_a, mean_b = local(a), local(b)
    both = 2.0 * mean_a * mean_b
    squares = build("Square", mean_a) + build("Square", mean_b)
    brightness = (both + c1) / (squares + c1)
    shared = 2.0 * local(a * b)
    energy = local(build("Square", a) + build("Square", b))
    structure = (shared - both + c2) / (energy - squares + c2)
    return build("Mean", brightness * structure, [-3, -2]), build("Mean", structure, [-3, -2])


def _prepared(img1: Any, img2: Any, max_val: Any) -> tuple[Any, Any, Any, Any]:
    """Both images as batches of float32, the span of values, and the shape of the batch."""
    a, b = convert_to_tensor(img1, name="img1"), convert_to_tensor(img2, name="img2")
    a, b = comparable(a, b)
    span = convert_image_dtype(convert_to_tensor(max_val, a.dtype.base), dtypes.float32)
    a, b = convert_image_dtype(a, dtypes.float32), convert_image_dtype(b, dtypes.float32)
    if not _in_equal_batches(a.shape, b.shape):
        a, b = a + build("ZerosLike", b), b + build("ZerosLike", a)
    shape = build("Shape", a)
    flat = build("ConcatV2", [[-1], shape[-3:]], 0)
    inner = a.shape.as_list()[-3:] if a.shape.ndims is not None else [None] * 3
    a, b = build("Reshape", a, flat), build("Reshape", b, flat)
    for one in (a, b):
        one.set_shape([None, *inner])
    return a, b, span, shape[:-3]


def _in_equal_batches(one: TensorShape, other: TensorShape) -> bool:
    """Whether it is known that two shapes have the same dimensions before the last three."""
    ranks = one.ndims, other.ndims
    if ranks[0] is None or ranks[0] != ranks[1]:
        return False
    return ranks[0] == 3 or (one[:-3].is_fully_defined() and one[:-3].as_list() == other[:-3].as_list())


@public("image.ssim")
def ssim(
    img1: Any,
    img2: Any,
    max_val: Any,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """The structural similarity of images (Wang et al., 2004), 1 for equal ones.

    Args:
        img1: ``[..., height, width, channels]``, at least ``filter_size`` high and wide.
        img2: of the same size and channels; the dimensions before these broadcast.
        max_val: the span of their values: 255 for bytes, 1.0 for floats.
        filter_size: of the Gaussian window.
        filter_sigma: its width.
        k1: keeps the comparison of brightness away from 0 / 0.
        k2: that of contrasts.

    Returns:
        float32 ``[...]``, the mean over channels.
    """
    with name_scope(None, "SSIM", [img1, img2]):
        a, b, span, batch = _prepared(img1, img2, max_val)
        similarity, _ = _similarity(a, b, span, filter_size, filter_sigma, k1, k2)
        return build("Reshape", build("Mean", similarity, [-1]), batch)


@public("image.ssim_multiscale")
def ssim_multiscale(
    img1: Any,
    img2: Any,
    max_val: Any,
    power_factors: Sequence[float] = _POWERS,
    filter_size: int = 11,
    filter_sigma: float = 1.5,
    k1: float = 0.01,
    k2: float = 0.03,
) -> Tensor:
    """The structural similarity at several sizes (Wang et al., 2003), each half as large as the one before.

    Arguments are those of ``tf.image.ssim``; ``power_factors`` weigh the sizes.
    """
    with name_scope(None, "MS-SSIM", [img1, img2]):
        a, b, span, batch = _prepared(img1, img2, max_val)
        parts = []
        for level in range(len(power_factors)):
            if level:
                a, b = _halved(a), _halved(b)
            similarity, structure = _similarity(a, b, span, filter_size, filter_sigma, k1, k2)
            parts.append(build("Relu", structure if level + 1 < len(power_factors) else similarity))
        powers = np.array(power_factors, np.float32)
        product = build("Prod", build("Pow", build("Pack", parts, axis=-1), powers), [-1])
        return build("Reshape", build("Mean", product, [-1]), batch)


def _halved(x: Any) -> Any:
    """Images of half the size by means; odd ones are mirrored by a pixel."""
    size = build("Shape", x)[1:3]
    odd = build("FloorMod", size, 2)
    after = build("ConcatV2", [[0], odd, [0]], 0)
    padded = build("MirrorPad", x, build("Pack", [build("ZerosLike", after), after], axis=1), mode="SYMMETRIC")
    return build("AvgPool", padded, ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID")


# ---------------------------------------------------------------------------------------------------------------- edges
@public("image.image_gradients")
def image_gradients(image: Any) -> tuple[Tensor, Tensor]:
    """Differences to the next row and the next column of images ``[batch, height, width, channels]``; 0 at the end."""
    image = convert_to_tensor(image)
    if image.shape.ndims != 4:
        raise ValueError(
            f"image_gradients expects a 4D tensor [batch_size, h, w, d], not {image.shape}.\n"
            + errors.message(f"an image of shape {image.shape}", "a batch", "tf.expand_dims(image, 0)")
        )
    with counted_as(34):
        down = build("Pad", image[:, 1:] - image[:, :-1], [[0, 0], [0, 1], [0, 0], [0, 0]])
        right = build("Pad", image[:, :, 1:] - image[:, :, :-1], [[0, 0], [0, 0], [0, 1], [0, 0]])
    return down, right


@public("image.sobel_edges")
def sobel_edges(image: Any) -> Tensor:
    """Sobel's edges by height and by width: ``[batch, height, width, channels, 2]``."""
    image = convert_to_tensor(image)
    down = np.array([[-1, -2, -1], [0, 0, 0], [1, 2, 1]])
    kernel = np.stack([down, down.T], -1)[:, :, None, :].astype(image.dtype.base.np)
    channels = image.shape.as_list()[-1] if image.shape.ndims == 4 else None
    with counted_as(20):
        padded = build("MirrorPad", image, [[0, 0], [1, 1], [1, 1], [0, 0]], mode="REFLECT")
        if channels is None:
            kernels = build("Tile", kernel, build("Pack", [1, 1, build("Shape", image)[-1], 1], axis=0))
        else:
            kernels = convert_to_tensor(np.tile(kernel, (1, 1, channels, 1)))
        edges = build("DepthwiseConv2dNative", padded, kernels, strides=[1, 1, 1, 1], padding="VALID")
        shape = build("ConcatV2", [build("Shape", image), [2]], 0)
        result = build("Reshape", edges, shape)
        result.set_shape(image.shape.concatenate([2]))
        return result


# -------------------------------------------------------------------------------------------------------------- colours
_YIQ = np.array([[0.299, 0.59590059, 0.2115], [0.587, -0.27455667, -0.52273617], [0.114, -0.32134392, 0.31119955]])
_FROM_YIQ = np.array([[1, 1, 1], [0.95598634, -0.27201283, -1.10674021], [0.6208248, -0.64720424, 1.70423049]])
_YUV = np.array([[0.299, -0.14714119, 0.61497538], [0.587, -0.28886916, -0.51496512], [0.114, 0.43601035, -0.10001026]])


def _colours(images: Any, matrix: np.ndarray) -> Tensor:
    images = convert_to_tensor(images, name="images")
    with counted_as(12 if images.shape.is_fully_defined() else 26):  # a product of matrices
        return build("Einsum", [images, matrix.astype(images.dtype.base.np)], equation="...i,ij->...j")


@public("image.rgb_to_yiq")
def rgb_to_yiq(images: Any) -> Tensor:
    """Red, green and blue floats ``[..., 3]`` as luma and the two chroma numbers of American television."""
    return _colours(images, _YIQ)


@public("image.yiq_to_rgb")
def yiq_to_rgb(images: Any) -> Tensor:
    """The inverse of ``tf.image.rgb_to_yiq``."""
    return _colours(images, _FROM_YIQ)


@public("image.rgb_to_yuv")
def rgb_to_yuv(images: Any) -> Tensor:
    """Red, green and blue floats ``[..., 3]`` as luma and the two chroma numbers of European television."""
    return _colours(images, _YUV)


@public("image.yuv_to_rgb")
def yuv_to_rgb(images: Any) -> Tensor:
    """The inverse of ``tf.image.rgb_to_yuv``."""
    return _colours(images, np.linalg.inv(_YUV))


# ------------------------------------------------------------------------------------------------------------- resizing
@public("image.resize_image_with_pad", "image.resize_with_pad")
def resize_image_with_pad(
    image: Any, target_height: int, target_width: int, method: Any = ResizeMethod.BILINEAR, align_corners: bool = False
) -> Tensor:
    """An image, or each of a batch, resized with its ratio of sides kept, amid zeros that fill the target size."""
    with name_scope(None, "resize_image_with_pad", [image]):
        image = image_tensor(image)
        for text, size in (("target_width", target_width), ("target_height", target_height)):
            if size <= 0:
                raise ValueError(
                    f"{text} must be > 0.\n"
                    + errors.message(
                        f"{target_height} by {target_width}",
                        "a positive height and width",
                        "target_height=224, target_width=224",
                    )
                )
        height, width = image.shape.as_list()[-3:-1]
        if height is None or width is None:
            sizes = build("Cast", shape_of(image)[-3:-1], DstT=dtypes.float64)
            target = constant([target_height, target_width], dtypes.float64)
            fitting = sizes / build("Max", sizes / target, [0])
            inner = build("Cast", build("Floor", fitting), DstT=dtypes.int32)
            before = build("Cast", build("Floor", (target - fitting) / 2.0), DstT=dtypes.int32)
            before = build("Maximum", before, 0)
            resized = resize_images(image, inner, method, align_corners=align_corners)
            return pad_to_bounding_box(resized, before[0], before[1], target_height, target_width)
        ratio = max(width / target_width, height / target_height)
        rows, columns = int(np.floor(height / ratio)), int(np.floor(width / ratio))
        resized = resize_images(image, [rows, columns], method, align_corners=align_corners)
        top = max(0, int(np.floor((target_height - height / ratio) / 2)))
        left = max(0, int(np.floor((target_width - width / ratio) / 2)))
        return pad_to_bounding_box(resized, top, left, target_height, target_width)
