"""``tf.image``: sizes, crops, flips. Ops stand in ``image_resize``; what is here is made of them and of others.

Images are ``[height, width, channels]`` or ``[batch, height, width, channels]``; floats lie in [0, 1].
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.api import public, publish_as
from anabranch.core.contract.inference import partial_value
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.graph import Graph
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import counted_as, in_function
from anabranch.core.values import dtypes
from anabranch.core.values.shapes import TensorShape
from anabranch.ops.array.dense_rows import dense_rows
from anabranch.ops.array.public_shapes import reshape, shape, stack, transpose
from anabranch.ops.control.public_cond import cond
from anabranch.ops.control.public_dependencies import with_dependencies
from anabranch.ops.math.public_assert import assert_greater_equal, assert_positive
from anabranch.ops.random.public import random_uniform


@public("image.ResizeMethod")
class ResizeMethod:
    """How ``resize_images`` computes pixels."""

    BILINEAR = 0
    NEAREST_NEIGHBOR = 1
    BICUBIC = 2
    AREA = 3


def image_tensor(image: Any, ranks: tuple[int, ...] = (3, 4), usual: str | None = None) -> Tensor:
    """An image, or a batch, as a tensor of known rank: where nothing is known, it is one image.

    Args:
        image: the image.
        ranks: the ranks that are allowed.
        usual: beginning of the error for another rank, as programs know it.
    """
    image = convert_to_tensor(image, name="image")
    if image.shape.ndims is None:
        image = build("Identity", image)
        image.set_shape([None, None, None])
    if image.shape.ndims not in ranks:
        wanted = " or ".join(
            "[height, width, channels]" if r == 3 else "[batch, height, width, channels]" for r in ranks
        )
        raise ValueError(
            (usual or f"'image' must have either {' or '.join(map(str, ranks))} dimensions.")
            + "\n"
            + errors.message(f"an image of shape {image.shape}", wanted, "tf.expand_dims(image, 0) or tf.squeeze")
        )
    if 0 in image.shape.as_list():
        raise ValueError(
            f"all dims of 'image.shape' must be > 0: {image.shape}\n"
            + errors.message(
                f"an image of shape {image.shape}", "an image without a size of 0", "leave empty images out"
            )
        )
    return image


def _filled(image: Tensor) -> Tensor:
    """The image, checked when it runs not to be empty, if its sizes are not known."""
    if image.shape.is_fully_defined():
        return image
    return with_dependencies([assert_positive(shape(image), message="all dims of 'image.shape' must be > 0.")], image)


CHECKED_COUNT, UNCHECKED_COUNT = 23, 1
"""Operations of which TensorFlow makes its check of an image, if its shape is not wholly known, and if it is."""


def count_check(image: Tensor) -> int:
    """The number of operations that TensorFlow makes to check an image, for seeds."""
    return UNCHECKED_COUNT if image.shape.is_fully_defined() else CHECKED_COUNT


def _checked(image: Any, usual: str | None = None) -> Tensor:
    """:func:`image_tensor`, of as many operations as TensorFlow's check for the seeds behind it."""
    image = convert_to_tensor(image, name="image")
    builder = current_builder()
    if builder.building_function and isinstance(builder, Graph):  # the check captures it
        image = builder.current_body.capture(image)
    with counted_as(count_check(image)):
        return image_tensor(image, usual=usual)


def _rank(image: Tensor) -> int:
    return int(image.shape.ndims)  # type: ignore[arg-type]  # `image_tensor` has made it known


def _batched(image: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
    """The image with a batch dimension, and what takes it away again from results if it was added."""
    if _rank(image) == 3:
        return build("ExpandDims", image, 0), lambda result: build("Squeeze", result, squeeze_dims=[0])
    return image, lambda result: result


def _sizes(image: Tensor) -> tuple[Any, Any]:
    """Height and width: ints where they are known, tensors otherwise."""
    rank = _rank(image)
    known = image.shape.as_list()
    dynamic = None
    sizes = []
    for axis in (rank - 3, rank - 2):
        if known[axis] is None:
            dynamic = shape(image) if dynamic is None else dynamic
            sizes.append(dynamic[axis])
        else:
            sizes.append(known[axis])
    return sizes[0], sizes[1]


# --------------------------------------------------------------------------------------------------------------- sizes
def _resize_function(kind: str) -> Callable[..., Tensor]:
    def resize(
        images: Any, size: Any, align_corners: bool = False, name: str | None = None, half_pixel_centers: bool = False
    ) -> Tensor:
        return build(kind, images, size, align_corners=align_corners, half_pixel_centers=half_pixel_centers, name=name)

    resize.__doc__ = f"Images ``[batch, height, width, channels]`` of another size; see the op {kind}."
    return resize


_BY_METHOD: dict[Any, Callable[..., Tensor]] = {}
for _method, (_kind, _name) in enumerate(
    (("ResizeBilinear", "bilinear"), ("ResizeNearestNeighbor", "nearest_neighbor"), ("ResizeBicubic", "bicubic"))
):
    _BY_METHOD[_method] = _BY_METHOD[_name.partition("_")[0]] = _resize_function(_kind)
    _BY_METHOD[_method].__name__ = f"resize_{_name}"
    publish_as(f"image.resize_{_name}", _BY_METHOD[_method])


@public("image.resize_area")
def resize_area(images: Any, size: Any, align_corners: bool = False, name: str | None = None) -> Tensor:
    """Images ``[batch, height, width, channels]`` of another size by the mean over areas."""
    return build("ResizeArea", images, size, align_corners=align_corners, name=name)


_BY_METHOD[3] = _BY_METHOD["area"] = resize_area


@public("image.resize_images", "image.resize")
def resize_images(
    images: Any,
    size: Any,
    method: Any = ResizeMethod.BILINEAR,
    align_corners: bool = False,
    preserve_aspect_ratio: bool = False,
    name: str | None = None,
) -> Tensor:
    """An image, or a batch of images, of another size.

    Args:
        images: ``[height, width, channels]`` or ``[batch, height, width, channels]``.
        size: ``[new_height, new_width]``.
        method: of :class:`ResizeMethod`.
        align_corners: corner pixels keep their values and the others lie evenly between.
        preserve_aspect_ratio: fit into ``size`` with the ratio of the sides kept.
        name: of the op.

    Returns:
        float32, or the images' dtype for nearest neighbours and where the size does not change.
    """
    if method not in _BY_METHOD:
        raise ValueError(
            "Resize method is not implemented.\n"
            + errors.message(
                f"method={method!r}", "one of tf.image.ResizeMethod", "method=tf.image.ResizeMethod.BILINEAR"
            )
        )
    with name_scope(name, "resize", [images, size]):
        images, restore = _batched(image_tensor(images))
        try:
            size = convert_to_tensor(size, dtypes.int32, name="size")
        except (TypeError, ValueError):
            raise ValueError(
                "'size' must be a 1-D int32 Tensor\n"
                + errors.message(f"size {size!r}", "two integers", "size=[224, 224]")
            ) from None
        if not size.shape.is_compatible_with([2]):
            raise ValueError(
                "'size' must be a 1-D Tensor of 2 elements: new_height, new_width\n"
                + errors.message(f"size of shape {size.shape}", "[height, width]", "size=[224, 224]")
            )
        if preserve_aspect_ratio:
            size = _fitting(images, size)
        wanted = partial_value(size)
        known = images.shape.as_list()[1:3]
        if isinstance(wanted, np.ndarray) and None not in known and known == wanted.tolist():
            return restore(images)
        return restore(_BY_METHOD[method](images, size, align_corners))


def _fitting(images: Tensor, size: Tensor) -> Tensor:
    """The largest size with the images' ratio of sides that fits into ``size``."""
    height, width = (build("Cast", convert_to_tensor(value), DstT=dtypes.float32) for value in _sizes(images))
    wanted = build("Cast", size, DstT=dtypes.float32)
    scale = build("Minimum", wanted[0] / height, wanted[1] / width)
    return build("Cast", build("Round", stack([scale * height, scale * width])), DstT=dtypes.int32)


@public("image.crop_to_bounding_box")
def crop_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """The part of an image, or of each of a batch, with its upper left corner at the offsets."""
    places = offset_height, offset_width, target_height, target_width
    with name_scope(None, "crop_to_bounding_box", [image]), _counted(image, places, _part_count):
        image, restore = _batched(_filled(image_tensor(image)))
        height, width = _sizes(image)
        image = _assured(
            image,
            (offset_width, ">=", 0, "offset_width must be >= 0."),
            (offset_height, ">=", 0, "offset_height must be >= 0."),
            (target_width, ">", 0, "target_width must be > 0."),
            (target_height, ">", 0, "target_height must be > 0."),
            (width, ">=", _sum(target_width, offset_width), "width must be >= target + offset."),
            (height, ">=", _sum(target_height, offset_height), "height must be >= target + offset."),
        )
        begin = stack([0, offset_height, offset_width, 0])
        cut = build("Slice", image, begin, stack([-1, target_height, target_width, -1]))
        _set_sizes(cut, image, target_height, target_width)
        return restore(cut)


@public("image.pad_to_bounding_box")
def pad_to_bounding_box(
    image: Any, offset_height: Any, offset_width: Any, target_height: Any, target_width: Any
) -> Tensor:
    """An image of the target's size with the given one at the offsets and zeros around it."""
    places = offset_height, offset_width, target_height, target_width
    with name_scope(None, "pad_to_bounding_box", [image]), _counted(image, places, _padding_count):
        image, restore = _batched(_filled(image_tensor(image)))
        height, width = _sizes(image)
        below = _sum(_sum(target_height, _negative(offset_height)), _negative(height))
        right = _sum(_sum(target_width, _negative(offset_width)), _negative(width))
        image = _assured(
            image,
            (offset_height, ">=", 0, "offset_height must be >= 0"),
            (offset_width, ">=", 0, "offset_width must be >= 0"),
            (right, ">=", 0, "width must be <= target - offset"),
            (below, ">=", 0, "height must be <= target - offset"),
        )
        paddings = reshape(stack([0, 0, offset_height, below, offset_width, right, 0, 0]), [4, 2])
        padded = build("Pad", image, paddings)
        _set_sizes(padded, image, target_height, target_width)
        return restore(padded)


_CHECKED = 3
"""Operations that TensorFlow's check of a number makes when it runs, besides the comparison."""


def _combined(one: bool, other: bool) -> int:
    """Operations of two numbers that are combined, by whether each is a tensor: another one becomes a constant."""
    return (1 if one and other else 2) if one or other else 0


def _counted(
    image: Any, places: Sequence[Any], count: Callable[[Sequence[tuple[bool, bool, bool]]], int]
) -> contextlib.AbstractContextManager[None]:
    """A block that counts as TensorFlow's part or padding of an image does.

    ``count`` gives the operations for a batch of images, by what is a tensor of the offset, the target and the
    image's own size, for height and width.
    """
    shape = image.shape if isinstance(image, Tensor) else TensorShape(np.shape(image))
    known = shape.as_list() if shape.ndims is not None else [None] * 3
    if len(known) not in (3, 4):
        return contextlib.nullcontext()  # refused by its rank inside the block
    offsets_and_targets = [isinstance(place, Tensor) for place in places]
    sides = list(zip(offsets_and_targets[:2], offsets_and_targets[2:], [n is None for n in known[-3:-1]], strict=True))
    looked_at = CHECKED_COUNT - UNCHECKED_COUNT + 2 if None in known else 0
    return counted_as(count(sides) + 3 * (len(known) == 3) + looked_at)


def _part_count(sides: Sequence[tuple[bool, bool, bool]]) -> int:
    total = 4
    for offset, target, size in sides:
        total += (offset + target) * (2 + _CHECKED) + _combined(offset, target)
        if offset or target or size:
            total += _combined(offset or target, size) + _CHECKED
    for tensors in (sum(side[0] for side in sides), sum(side[1] for side in sides)):
        total += 4 - tensors if tensors else 0  # of a vector of four each that is not a tensor is a constant
    return total


def _padding_count(sides: Sequence[tuple[bool, bool, bool]]) -> int:
    total, tensors = 5, 0
    for offset, target, size in sides:
        behind = offset or target or size
        total += offset * (2 + _CHECKED) + _combined(offset, target) + _combined(offset or target, size)
        total += behind * (2 + _CHECKED)
        tensors += offset + behind
    return total + (8 - tensors if tensors else 0)


def _counted_whole(image: Tensor, height: Any, width: Any) -> contextlib.AbstractContextManager[None]:
    """The same for an image that is made of a size, if its height and width are both known, or neither of them is."""
    known = image.shape.as_list() if image.shape.ndims is not None else [None] * 3
    unknown = known[-3:-1].count(None)
    if isinstance(height, Tensor) or isinstance(width, Tensor) or unknown == 1:
        return contextlib.nullcontext()
    single = len(known) == 3
    if None not in known:
        return counted_as(11 + 3 * single)
    if not unknown:  # a batch, or channels, of any number
        return counted_as(85 + 3 * single)
    return counted_as(173 + 3 * single + 2 * (None in (known[-1], *known[:-3])))


def _is_known(value: Any) -> bool:
    return not isinstance(value, Tensor)


def _sum(a: Any, b: Any) -> Any:
    return a + b


def _negative(a: Any) -> Any:
    return -a


def _assured(image: Tensor, *conditions: tuple[Any, str, Any, str]) -> Tensor:
    """The image if conditions hold: ValueError now for those that are known, checks of the step for the others."""
    checks = []
    for value, relation, bound, text in conditions:
        if _is_known(value) and _is_known(bound):
            if not (value >= bound if relation == ">=" else value > bound):
                raise ValueError(
                    text
                    + "\n"
                    + errors.message(f"{value}, and {bound} for the other side", text, "other sizes or offsets")
                )
        elif relation == ">=":
            checks.append(assert_greater_equal(value, bound, message=text))
        else:
            checks.append(assert_positive(value, message=text))
    return with_dependencies(checks, image) if checks else image


def _set_sizes(result: Tensor, image: Tensor, height: Any, width: Any) -> None:
    known = [None if isinstance(size, Tensor) else int(size) for size in (height, width)]
    result.set_shape(TensorShape([image.shape.as_list()[0], *known, image.shape.as_list()[3]]))


@public("image.resize_image_with_crop_or_pad", "image.resize_with_crop_or_pad")
def resize_image_with_crop_or_pad(image: Any, target_height: Any, target_width: Any) -> Tensor:
    """An image of the target's size: cut at the middle where it is larger, with zeros around where it is smaller."""
    image = convert_to_tensor(image, name="image")
    with name_scope(None, "resize_image_with_crop_or_pad", [image]), _counted_whole(image, target_height, target_width):
        image, restore = _batched(_filled(image_tensor(image)))
        image = _assured(
            image,
            (target_width, ">", 0, "target_width must be > 0."),
            (target_height, ">", 0, "target_height must be > 0."),
        )
        height, width = _sizes(image)

        def halves(size: Any, target: Any) -> tuple[Any, Any]:
            if _is_known(size) and _is_known(target):
                return max((size - target) // 2, 0), max((target - size) // 2, 0)
            spare = (size - target) // 2, (target - size) // 2
            return build("Maximum", spare[0], 0), build("Maximum", spare[1], 0)

        def least(a: Any, b: Any) -> Any:
            return min(a, b) if _is_known(a) and _is_known(b) else build("Minimum", a, b)

        crop_height, pad_height = halves(height, target_height)
        crop_width, pad_width = halves(width, target_width)
        cut = crop_to_bounding_box(
            image, crop_height, crop_width, least(target_height, height), least(target_width, width)
        )
        return restore(pad_to_bounding_box(cut, pad_height, pad_width, target_height, target_width))


@public("image.central_crop")
def central_crop(image: Any, central_fraction: float) -> Tensor:
    """The middle of an image: ``central_fraction`` of each side."""
    if not 0 < central_fraction <= 1:
        raise ValueError(
            "central_fraction must be within (0, 1]\n"
            + errors.message(
                f"central_fraction={central_fraction}", "more than 0 and at most 1", "central_fraction=0.875"
            )
        )
    with name_scope(None, "central_crop", [image]):
        image = convert_to_tensor(image, name="image")
        if central_fraction == 1:
            with counted_as(0):
                return image_tensor(image)
        image = _checked(image)
        with counted_as(_central_count(image)):
            return _central(image, central_fraction)


def _central_count(image: Tensor) -> int:
    """Operations that TensorFlow cuts the middle with: fifteen for a size that is not known, and sizes as vectors."""
    unknown = image.shape.as_list()[-3:-1].count(None)
    return 15 * unknown + (2 * (_rank(image) - unknown + 1) if unknown else 2) + 1


def _central(image: Tensor, central_fraction: float) -> Tensor:
    images, restore = _batched(image)

    def part(size: Any) -> tuple[Any, Any]:
        if _is_known(size):
            start = int((size - size * central_fraction) / 2)
            return start, size - start * 2
        wide = build("Cast", size, DstT=dtypes.float64)
        start = build("Cast", (wide - wide * central_fraction) / 2, DstT=dtypes.int32)
        return start, size - start * 2

    height, width = _sizes(images)
    (top, rows), (left, columns) = part(height), part(width)
    cut = build("Slice", images, stack([0, top, left, 0]), stack([-1, rows, columns, -1]))
    _set_sizes(cut, images, rows, columns)
    return restore(cut)


# --------------------------------------------------------------------------------------------------------------- flips
_LEAST = "'image' must be at least three-dimensional."


def _flipped(image: Any, axis: int, scope: str) -> Tensor:
    with name_scope(None, scope, [image]):
        image = _checked(image, _LEAST)
        return build("ReverseV2", image, [_rank(image) + axis])


@public("image.flip_left_right")
def flip_left_right(image: Any) -> Tensor:
    """An image, or each of a batch, with left and right exchanged."""
    return _flipped(image, -2, "flip_left_right")


@public("image.flip_up_down")
def flip_up_down(image: Any) -> Tensor:
    """An image, or each of a batch, with top and bottom exchanged."""
    return _flipped(image, -3, "flip_up_down")


@public("image.transpose_image", "image.transpose")
def transpose_image(image: Any, name: str | None = None) -> Tensor:
    """An image, or each of a batch, with height and width exchanged."""
    with name_scope(name, "transpose_image", [image]):
        image = _checked(image, _LEAST)
        return transpose(image, [1, 0, 2] if _rank(image) == 3 else [0, 2, 1, 3])


@public("image.rot90")
def rot90(image: Any, k: Any = 1, name: str | None = None) -> Tensor:
    """An image, or each of a batch, turned counter-clockwise ``k`` times by 90 degrees."""
    with name_scope(name, "rot90", [image, k]):
        image = _checked(image, _LEAST)
        turns = _TURNS_COUNT - _TURNS_IN_GRAPHS * in_function()
        with counted_as(turns - isinstance(k, Tensor), captures=False):
            return _turned(image, k)


_TURNS_COUNT = 62
"""TensorFlow makes each of the four turns, as cases."""
_TURNS_IN_GRAPHS = 42
"""Of these, what is in functions of their own where a function is built."""


def _turned(image: Tensor, k: Any) -> Tensor:
    rank = _rank(image)
    swap = [*range(rank - 3), rank - 2, rank - 3, rank - 1]
    up, left = rank - 3, rank - 2

    def turned(times: int) -> Tensor:
        if times == 1:
            return transpose(build("ReverseV2", image, [left]), swap)
        if times == 2:
            return build("ReverseV2", image, [up, left])
        if times == 3:
            return build("ReverseV2", transpose(image, swap), [left])
        return build("Identity", image)

    times = k if isinstance(k, int) else partial_value(convert_to_tensor(k, dtypes.int32))
    if times is not None:
        return turned(int(times) % 4)
    quarters = build("FloorMod", k, 4)

    def halves() -> Any:
        return cond(build("Equal", quarters, 2), lambda: turned(2), lambda: turned(0))

    def odd() -> Any:
        return cond(build("Equal", quarters, 1), lambda: turned(1), lambda: turned(3))

    result: Tensor = cond(build("Equal", build("FloorMod", quarters, 2), 1), odd, halves)
    result.set_shape([None] * rank)
    return result


def _random_flip(image: Any, axis: int, seed: int | None, scope: str) -> Tensor:
    with name_scope(None, scope, [image]):
        image = _checked(image, "'image' must be three-dimensional.")
        rank = _rank(image)
        if rank == 3:
            flip = build("Less", random_uniform([], 0, 1.0, seed=seed), 0.5)
            with counted_as(2 if in_function() else 9):  # a conditional
                # Where to take each row or column from, and not which of two images: a choice for each pixel takes
                # longer than all else that is done with an image.
                size = shape(image)[rank + axis]
                places = build("Range", 0, size, 1)
                turned = build("Sub", build("Sub", size, 1), places)
                return dense_rows(image, build("SelectV2", flip, turned, places), rank + axis)
        batch = shape(image)[0]
        drawn = random_uniform([batch], 0, 1.0, seed=seed)
        with counted_as(13 + (image.dtype.base is not dtypes.float32)):  # a sum of both, of which one is times 0
            flips = reshape(build("Greater", drawn, 0.5), [-1, 1, 1, 1])
            return build("SelectV2", flips, build("ReverseV2", image, [rank + axis]), image)


@public("image.random_flip_left_right")
def random_flip_left_right(image: Any, seed: int | None = None) -> Tensor:
    """An image, or each of a batch, with left and right exchanged in half of the runs."""
    return _random_flip(image, -2, seed, "random_flip_left_right")


@public("image.random_flip_up_down")
def random_flip_up_down(image: Any, seed: int | None = None) -> Tensor:
    """An image, or each of a batch, with top and bottom exchanged in half of the runs."""
    return _random_flip(image, -3, seed, "random_flip_up_down")
