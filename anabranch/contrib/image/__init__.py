"""``tf.contrib.image``: images turned, moved, warped and coloured; projective transformations by a matrix of one's own.

A transformation is a vector ``[a, b, c, d, e, f, g, h]``: the result shows at ``(x, y)`` what the image shows at
``((a x + b y + c) / k, (d x + e y + f) / k)`` with ``k = g x + h y + 1``.
"""

from __future__ import annotations

from typing import Any

from anabranch.contrib.image import colours as colours
from anabranch.contrib.image import warping as warping
from anabranch.core import errors
from anabranch.core.contract import api
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.values import dtypes

__getattr__, __dir__ = api.module_attributes("contrib.image")


def _batch(images: Any) -> tuple[Any, Any]:
    """Images as ``[batch, height, width, channels]``, and what undoes that."""
    images = convert_to_tensor(images, name="images")
    rank = images.shape.ndims
    if rank == 2:
        return images[None, :, :, None], lambda x: x[0, :, :, 0]
    if rank == 3:
        return images[None], lambda x: x[0]
    if rank == 4:
        return images, lambda x: x
    raise TypeError(
        "Images should have rank between 2 and 4.\n"
        + errors.message(f"images of rank {rank}", "[h, w], [h, w, c] or [n, h, w, c]", "tf.reshape them")
    )


def _vectors(values: Any, name: str, inner: int) -> Any:
    """Parameters as ``[n]`` or ``[n, inner]`` float32."""
    values = convert_to_tensor(values, dtypes.float32, name=name)
    rank = values.shape.ndims
    wanted = 1 if inner == 1 else 2
    if rank == wanted - 1:
        return build("ExpandDims", values, 0)
    if rank == wanted:
        return values
    raise TypeError(
        f"{name.capitalize()} should have rank {wanted - 1} or {wanted}.\n"
        + errors.message(
            f"{name} of shape {values.shape}", f"{inner} numbers for each image, or for all", "tf.reshape(x, shape)"
        )
    )


@public("contrib.image.transform")
def transform(
    images: Any, transforms: Any, interpolation: str = "NEAREST", output_shape: Any = None, name: str | None = None
) -> Tensor:
    """Images transformed.

    Args:
        images: ``[height, width]``, ``[height, width, channels]`` or ``[batch, height, width, channels]``.
        transforms: ``[8]`` or ``[batch, 8]``.
        interpolation: ``"NEAREST"`` or ``"BILINEAR"``.
        output_shape: ``[height, width]`` of the result; that of the images by default.
        name: of the ops.
    """
    with name_scope(name, "transform", [images, transforms]):
        images, restore = _batch(images)
        transforms = _vectors(transforms, "transforms", 8)
        if output_shape is None:
            known = images.shape.as_list()[1:3]
            output_shape = known if None not in known else build("Shape", images)[1:3]
        kind = interpolation.upper()
        return restore(build("ImageProjectiveTransformV2", images, transforms, output_shape, interpolation=kind))


@public("contrib.image.angles_to_projective_transforms")
def angles_to_projective_transforms(
    angles: Any, image_height: Any, image_width: Any, name: str | None = None
) -> Tensor:
    """Transformations ``[n, 8]`` that turn images counter-clockwise around their centre by angles in radians."""
    with name_scope(name, "angles_to_projective_transforms"):
        angles = _vectors(angles, "angles", 1)
        right, low = (
            build("Cast", convert_to_tensor(n), DstT=dtypes.float32) - 1.0 for n in (image_width, image_height)
        )
        cosine, sine = build("Cos", angles), build("Sin", angles)
        x = (right - (cosine * right - sine * low)) / 2.0
        y = (low - (sine * right + cosine * low)) / 2.0
        zeros = build("ZerosLike", angles)
        return build("Pack", [cosine, -sine, x, sine, cosine, y, zeros, zeros], axis=1)


@public("contrib.image.translations_to_projective_transforms")
def translations_to_projective_transforms(translations: Any, name: str | None = None) -> Tensor:
    """Transformations ``[n, 8]`` that move images by ``[dx, dy]``."""
    with name_scope(name, "translations_to_projective_transforms"):
        moved = _vectors(translations, "translations", 2)
        ones, zeros = build("OnesLike", moved[:, 0]), build("ZerosLike", moved[:, 0])
        return build("Pack", [ones, zeros, -moved[:, 0], zeros, ones, -moved[:, 1], zeros, zeros], axis=1)


@public("contrib.image.rotate")
def rotate(images: Any, angles: Any, interpolation: str = "NEAREST", name: str | None = None) -> Tensor:
    """Images turned counter-clockwise by angles in radians: a scalar, or one for each image."""
    with name_scope(name, "rotate", [images, angles]):
        images, restore = _batch(images)
        size = build("Shape", images)
        turns = angles_to_projective_transforms(angles, size[1], size[2])
        return restore(transform(images, turns, interpolation))


@public("contrib.image.translate")
def translate(images: Any, translations: Any, interpolation: str = "NEAREST", name: str | None = None) -> Tensor:
    """Images moved by ``[dx, dy]``, or by one such vector for each."""
    with name_scope(name, "translate", [images, translations]):
        return transform(images, translations_to_projective_transforms(translations), interpolation)


@public("contrib.image.flat_transforms_to_matrices")
def flat_transforms_to_matrices(transforms: Any, name: str | None = None) -> Tensor:
    """Transformations ``[n, 8]`` as matrices ``[n, 3, 3]``."""
    with name_scope(name, "flat_transforms_to_matrices"):
        flat = _vectors(transforms, "transforms", 8)
        ones = build("OnesLike", flat[:, :1])
        return build("Reshape", build("ConcatV2", [flat, ones], 1), [-1, 3, 3])


@public("contrib.image.matrices_to_flat_transforms")
def matrices_to_flat_transforms(transform_matrices: Any, name: str | None = None) -> Tensor:
    """Matrices ``[3, 3]`` or ``[n, 3, 3]`` as transformations ``[n, 8]``."""
    with name_scope(name, "matrices_to_flat_transforms"):
        flat = build("Reshape", convert_to_tensor(transform_matrices, name="transform_matrices"), [-1, 9])
        return build("RealDiv", flat, flat[:, 8:9])[:, :8]


@public("contrib.image.compose_transforms")
def compose_transforms(*transforms: Any, name: str | None = None) -> Tensor:
    """The transformation that shows the image as the first one does, of what the others show, in this order."""
    if not transforms:
        raise ValueError(
            errors.message(
                "compose_transforms without transformations",
                "one transformation or more",
                "compose_transforms(first, second)",
            )
        )
    with name_scope(name, "compose_transforms"):
        product = flat_transforms_to_matrices(transforms[0])
        for one in transforms[1:]:
            product = build("BatchMatMulV2", product, flat_transforms_to_matrices(one))
        return matrices_to_flat_transforms(product)


@public("contrib.image.bipartite_match")
def bipartite_match(
    distance_mat: Any, num_valid_rows: Any, top_k: int = -1, name: str | None = "bipartite_match"
) -> tuple[Tensor, Tensor]:
    """Pairs of rows and columns, the nearest first, each in one pair at most.

    Args:
        distance_mat: ``[rows, columns]`` float32: how far each row is from each column.
        num_valid_rows: how many rows take part, a scalar or ``[1]``; all if it is negative.
        top_k: at most this many pairs; as many as there are unless it is positive.
        name: of the op.

    Returns:
        For each row its column, ``[rows]``, and for each column its row, ``[columns]``, int32, -1 where it has none.

    Raises:
        InvalidArgumentError: if ``num_valid_rows`` is more than the rows that there are.
    """
    return build("BipartiteMatch", distance_mat, num_valid_rows, top_k=top_k, name=name)


@public("contrib.image.connected_components")
def connected_components(images: Any) -> Tensor:
    """Number the components of images: adjacent pixels, across and down, with the same value other than 0.

    Args:
        images: ``[height, width]`` or ``[batch, height, width]``.

    Returns:
        int32 of the same shape: 0 where the pixel is 0, else the number of its component, from 1 over all images, by
        the first pixels of the components.

    Raises:
        TypeError: if the rank is not 2 or 3.
    """
    with name_scope(None, "connected_components"):
        images = convert_to_tensor(images, name="images")
        if images.shape.ndims is None:
            raise ValueError(
                "Cannot take the length of shape with unknown rank.\n"
                + errors.message("images of unknown rank", "rank 2 or 3", "images.set_shape([None, None, None])")
            )
        if images.shape.ndims not in (2, 3):
            raise TypeError(
                f"images should have rank 2 (HW) or 3 (NHW). Static shape is {images.shape}\n"
                + errors.message(f"images of rank {images.shape.ndims}", "rank 2 or 3", "images[..., 0]")
            )
        single = images.shape.ndims == 2
        found = build("ImageConnectedComponents", images[None] if single else images)
        numbers = build("Cast", found, DstT=dtypes.int32)
        return numbers[0] if single else numbers
