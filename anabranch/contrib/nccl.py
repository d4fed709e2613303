"""``tf.contrib.nccl``: sums, products and bounds over tensors on several devices, and copies of one.

A reduction is computed on the device of the first tensor, and each other device takes the result from there: with n
devices 2 (n - 1) copies from device to device. Any of the results may be used without the others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import module_attributes, public
from anabranch.core.graph.operation import Tensor

__getattr__, __dir__ = module_attributes("contrib.nccl")


def placed(tensors: Sequence[Tensor], what: str) -> list[Tensor]:
    """The tensors as a list.

    Raises:
        ValueError: there are none, or one names no device.
    """
    tensors = list(tensors)
    if not tensors:
        raise ValueError(
            f"Must pass >0 tensors to {what} operations\n"
            + errors.message("no tensors", "one tensor from each device", "all_sum([x0, x1])")
        )
    for tensor in tensors:
        if not tensor.device:
            raise ValueError(
                "Device assignment required for nccl collective ops\n"
                + errors.message(
                    f"{tensor.name!r}, which names no device", "tensors on devices", "with tf.device('/gpu:0'): x = ..."
                )
            )
    return tensors


def on_each(tensors: Sequence[Tensor], reduce: Callable[[list[Tensor]], Tensor]) -> list[Tensor]:
    """What ``reduce`` makes of tensors, on the device of each of them."""
    first, *others = tensors
    with tf.device(first.device):
        result = reduce(list(tensors))
    results = [result]
    for tensor in others:
        with tf.device(tensor.device):
            results.append(tf.identity(result))
    return results


def _folded(combine: Callable[[Tensor, Tensor], Tensor]) -> Callable[[list[Tensor]], Tensor]:
    return lambda tensors: functools.reduce(combine, tensors)


@public("contrib.nccl.all_sum")
def all_sum(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The sum of tensors of one shape, on the device of each of them.

    Args:
        tensors: one tensor from each device.

    Returns:
        A tensor for each device, in the order of ``tensors``.

    Raises:
        ValueError: there are none, or one names no device.

    Example:
        >>> import anabranch as tf
        >>> with tf.device("/cpu:0"):
        ...     x = tf.constant([1.0, 2.0])
        >>> (total,) = tf.contrib.nccl.all_sum([x])
        >>> with tf.Session() as session:
        ...     session.run(total)
        array([1., 2.], dtype=float32)
    """
    return on_each(placed(tensors, "all reduce"), tf.add_n)


@public("contrib.nccl.all_prod")
def all_prod(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The product of tensors of one shape, on the device of each of them; see :func:`all_sum`."""
    return on_each(placed(tensors, "all reduce"), _folded(tf.multiply))


@public("contrib.nccl.all_min")
def all_min(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The least of each element of tensors of one shape, on the device of each of them; see :func:`all_sum`."""
    return on_each(placed(tensors, "all reduce"), _folded(tf.minimum))


@public("contrib.nccl.all_max")
def all_max(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The greatest of each element of tensors of one shape, on the device of each of them; see :func:`all_sum`."""
    return on_each(placed(tensors, "all reduce"), _folded(tf.maximum))


@public("contrib.nccl.reduce_sum")
def reduce_sum(tensors: Sequence[Tensor]) -> Tensor:
    """The sum of tensors of one shape, on the device of the scope around the call.

    Args:
        tensors: one tensor from each device.

    Raises:
        ValueError: there are none, or one names no device.
    """
    return tf.add_n(placed(tensors, "reduce"))


@public("contrib.nccl.broadcast")
def broadcast(tensor: Tensor) -> Tensor:
    """A tensor that ops on several devices use: each device takes one copy.

    Raises:
        ValueError: the tensor names no device.
    """
    (tensor,) = placed([tensor], "broadcast")
    with tf.device(tensor.device):
        return tf.identity(tensor)
