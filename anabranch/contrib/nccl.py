"""``tf.contrib.nccl``: sums, products and bounds over tensors on several devices, and copies of one.

Each device computes the result from the tensors of all, which is one collective to the compiled tier
(:mod:`anabranch.runtime.plans.replicas`) where all results are used. Any of them may be used without the others.
"""

from __future__ import annotations

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
    results = []
    for tensor in tensors:
        with tf.device(tensor.device):
            results.append(reduce(list(tensors)))
    return results


def stacked(reduce: Callable[..., Tensor]) -> Callable[[list[Tensor]], Tensor]:
    """What reduces tensors as an axis of one."""
    return lambda tensors: reduce(tf.stack(tensors), axis=0)


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
    return on_each(placed(tensors, "all reduce"), stacked(tf.reduce_prod))


@public("contrib.nccl.all_min")
def all_min(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The least of each element of tensors of one shape, on the device of each of them; see :func:`all_sum`."""
    return on_each(placed(tensors, "all reduce"), stacked(tf.reduce_min))


@public("contrib.nccl.all_max")
def all_max(tensors: Sequence[Tensor]) -> list[Tensor]:
    """The greatest of each element of tensors of one shape, on the device of each of them; see :func:`all_sum`."""
    return on_each(placed(tensors, "all reduce"), stacked(tf.reduce_max))


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
