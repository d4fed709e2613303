"""Connected components of images: adjacent pixels with the same value. On the host."""

from __future__ import annotations

import numpy as np

from anabranch.core.contract.opdef import PURE, NotDifferentiable, Op, Type


def _neighbours(places: np.ndarray, pixels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of places of adjacent pixels with the same value, across and down."""
    across, down = pixels[:, :, 1:] == pixels[:, :, :-1], pixels[:, 1:] == pixels[:, :-1]
    first = np.concatenate([places[:, :, :-1][across], places[:, :-1][down]])
    return first, np.concatenate([places[:, :, 1:][across], places[:, 1:][down]])


def _first_places(pixels: np.ndarray) -> np.ndarray:
    """For each pixel the first place, row by row, of the component that it belongs to; flat."""
    roots = np.arange(pixels.size)
    first, second = _neighbours(roots.reshape(pixels.shape), pixels)
    while len(first):
        one, other = roots[first], roots[second]
        apart = one != other
        first, second, one, other = first[apart], second[apart], one[apart], other[apart]
        low = np.minimum(one, other)
        np.minimum.at(roots, one, low)
        np.minimum.at(roots, other, low)
        while not np.array_equal(shorter := roots[roots], roots):
            roots = shorter
    return roots


class ImageConnectedComponents(Op):
    """The number of the component that each pixel of ``image`` ``[batch, height, width]`` belongs to, 0 where it is 0.

    Components are adjacent pixels, across and down, with the same value. They are numbered from 1 over all images, by
    their first pixels.
    """

    signature = "image: dtype -> components: int64"
    attrs = {"dtype": Type("int64 int32 uint16 int16 uint8 int8 half float double bool string")}
    effect = PURE
    gradient = NotDifferentiable("components are whole numbers")

    def shape(c):
        return c.with_rank("image", 3)

    def host_kernel(ctx, inputs, attrs):
        image = inputs[0]
        empty = b"" if image.dtype == object else image.dtype.type(0)
        inside = np.asarray(image != empty, bool).ravel()
        roots = _first_places(image)
        _, numbers = np.unique(roots[inside], return_inverse=True)
        components = np.zeros(image.size, np.int64)
        components[inside] = numbers.ravel() + 1
        return components.reshape(image.shape)
