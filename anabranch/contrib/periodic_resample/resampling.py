"""``tf.contrib.periodic_resample``: the elements of a tensor along other axes, as sub-pixel convolutions need it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public

_Tensor = Any


def _refused(text: str, given: str, expected: str) -> Exception:
    advice = "periodic_resample(values, [6, None]), with None for the axis that shrinks"
    return tf.errors.InvalidArgumentError(None, None, f"{text}\n" + errors.message(given, expected, advice))


def _checked(shape: Any, values: _Tensor) -> list[int | None]:
    """The sizes that are asked for, with None for the axis that shrinks."""
    given = shape.as_list() if isinstance(shape, tf.TensorShape) else list(shape)
    sizes = [None if size is None or int(size) < 1 else int(size) for size in given]
    known = values.shape.as_list() if values.shape.ndims is not None else None
    if known is None:
        raise ValueError(
            errors.message("values of unknown rank", "values of a known rank", "values.set_shape([None, None, 4])")
        )
    told = f"values of shape {values.shape} and shape {given}"
    if len(known) != len(sizes):
        raise _refused(
            f"periodic_resample expects the rank of the input tensor, {len(known)}, to be the same as the length of "
            f"the desired shape, {len(sizes)}.",
            told,
            "a size for each axis",
        )
    if sizes.count(None) > 1:
        raise _refused("periodic_resample expects only one index to be marked as adjustable.", told, "one None")
    for axis, (old, new) in enumerate(zip(known, sizes, strict=True)):
        if old is not None and new is not None and new < old:
            raise _refused(
                "periodic_resample expects the size of non-adjustable dimensions be at least as large as size of "
                f"input tensor. Dimension {axis} input tensor has size {old}, desired shape has size {new}.",
                told,
                "axes that do not shrink but for one",
            )
    if None not in sizes:
        raise _refused(
            "periodic_resample expects at least one index to be marked as adjustable.", told, "None for one axis"
        )
    return sizes


@public("contrib.periodic_resample.periodic_resample")
def periodic_resample(values: Any, shape: Sequence[int | None], name: str | None = None) -> _Tensor:
    """Move the elements of one axis into the others, which grow (Shi et al., 2016).

    Args:
        values: of a known rank, at least 1.
        shape: the size of each axis, at least what it is, and None (or a number below 1) for the axis that shrinks by
            as much as the others grow. Elements that find no place are left out.
        name: of the operations.

    Returns:
        A tensor of ``shape``; it is differentiable.

    Raises:
        InvalidArgumentError: sizes that are too small, or not one None; in the step where sizes are not known before.

    >>> with tf.Session() as session:
    ...     print(session.run(tf.contrib.periodic_resample.periodic_resample([[0, 1, 2, 3], [4, 5, 6, 7]], [4, None])))
    [[0 1]
     [2 3]
     [4 5]
     [6 7]]
    """
    with tf.name_scope(name, "PeriodicResample", [values]):
        values = tf.convert_to_tensor(values, name="values")
        sizes = _checked(shape, values)
        free = sizes.index(None)
        fixed = int(np.prod([size for size in sizes if size is not None]))
        known = values.shape.as_list()
        if values.shape.is_fully_defined():
            left = int(np.prod(known)) // fixed
            if left < 1:
                raise _refused(
                    f"periodic_resample found that the adjustable dimension, {free}, isn't greater than zero, {left}.",
                    f"values of shape {values.shape} and shape {sizes}",
                    f"at least {fixed} elements",
                )
            places = _places(np, known, [left if size is None else size for size in sizes], free)
            return tf.gather(tf.reshape(values, [-1]), places)
        old = tf.unstack(tf.shape(values), num=len(sizes))
        left = tf.size(values) // fixed
        checks = [tf.assert_less_equal(was, size) for was, size in zip(old, sizes, strict=True) if size is not None]
        with tf.control_dependencies([*checks, tf.assert_positive(left)]):
            places = _places(tf, old, [left if size is None else size for size in sizes], free)
        result = tf.gather(tf.reshape(values, [-1]), places)
        result.set_shape(sizes)
        return result


def _places(xp: Any, old: Sequence[Any], new: Sequence[Any], free: int) -> Any:
    """For each element of the result its place among the elements of the input; ``xp`` is ``np`` or ``tf``."""
    rank = len(new)
    factors = [-(-size // was) for was, size in zip(old, new, strict=True)]  # how often an axis grows, rounded up

    def along(axis: int) -> Any:
        return xp.reshape(xp.arange(new[axis]) if xp is np else tf.range(new[axis]), [-1] + [1] * (rank - 1 - axis))

    moved: Any = 0
    stride: Any = 1
    for axis in range(rank):
        if axis != free:
            moved = moved + stride * (along(axis) % factors[axis])
        stride = stride * factors[axis]
    place: Any = 0
    for axis in range(rank):
        own = along(axis)
        place = place * old[axis] + (moved * new[free] + own if axis == free else own // factors[axis])
    return place
