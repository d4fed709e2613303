"""``tf.contrib.all_reduce``: the mean or sum of gradients on each of several devices.

TensorFlow has an algorithm for each way in which devices may be connected. Here all of them are one: each device
reduces the tensors of all, which is one collective to the compiled tier, as in :mod:`anabranch.contrib.nccl`. What says
how the work is cut into pieces and where these go has no effect.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import anabranch as tf
from anabranch.contrib import nccl
from anabranch.core import errors
from anabranch.core.contract.api import module_attributes, public
from anabranch.core.graph.operation import Tensor

__getattr__, __dir__ = module_attributes("contrib.all_reduce")


def _reduced(
    tensors: Sequence[Tensor], combine: Callable[[list[Tensor]], Tensor], un_op: Callable[[Tensor], Tensor] | None
) -> list[Tensor]:
    tensors = list(tensors)
    if not tensors:
        raise ValueError(errors.message("no tensors", "one tensor from each device", "[x0, x1]"))
    shape = tensors[0].shape
    for tensor in tensors:
        if not tensor.shape.is_compatible_with(shape) or tensor.dtype != tensors[0].dtype:
            raise ValueError(
                "input tensors must have the same shape and dtype\n"
                + errors.message(
                    f"{tensor} beside {tensors[0]}", "tensors of one shape and dtype", "reduce each group by itself"
                )
            )

    def reduce(tensors: list[Tensor]) -> Tensor:
        result = combine(tensors)
        return result if un_op is None else un_op(result)

    return nccl.on_each(tensors, reduce)


def _binary(red_op: Callable[[Tensor, Tensor], Tensor]) -> Callable[[list[Tensor]], Tensor]:
    """A reduction by an op of two tensors: for the usual ones by an op that takes all."""
    of_all = {
        tf.add: tf.add_n,
        tf.multiply: nccl.stacked(tf.reduce_prod),
        tf.minimum: nccl.stacked(tf.reduce_min),
        tf.maximum: nccl.stacked(tf.reduce_max),
    }
    return of_all.get(red_op) or (lambda tensors: functools.reduce(red_op, tensors))


def _of_any(red_op: Callable[..., Tensor]) -> Callable[[list[Tensor]], Tensor]:
    """A reduction by an op of a list, or of two tensors."""
    lists = (tf.add_n, tf.accumulate_n)
    return red_op if red_op in lists else _binary(red_op)


def _sum_only(red_op: Callable[[Tensor, Tensor], Tensor]) -> Callable[[list[Tensor]], Tensor]:
    if red_op is not tf.add:
        raise ValueError(
            f"red_op not supported by NCCL all-reduce: {red_op}\n"
            + errors.message(f"red_op={red_op}", "tf.add", "red_op=tf.add, or build_ring_all_reduce")
        )
    return tf.add_n


@public("contrib.all_reduce.build_ring_all_reduce")
def build_ring_all_reduce(
    input_tensors: Sequence[Tensor],
    num_workers: int,
    num_subchunks: int,
    gpu_perm: Sequence[int],
    red_op: Callable[[Tensor, Tensor], Tensor],
    un_op: Callable[[Tensor], Tensor] | None = None,
) -> list[Tensor]:
    """The reduction of tensors, on the device of each.

    Args:
        input_tensors: tensors of one shape and dtype.
        num_workers: has no effect.
        num_subchunks: has no effect.
        gpu_perm: has no effect.
        red_op: an element-wise op of two tensors, such as ``tf.add``.
        un_op: an element-wise op of the result, if given.

    Returns:
        A tensor for each of the inputs, on its device.

    Raises:
        ValueError: there are no tensors, or of several shapes or dtypes.
    """
    return _reduced(input_tensors, _binary(red_op), un_op)


@public("contrib.all_reduce.build_recursive_hd_all_reduce")
def build_recursive_hd_all_reduce(
    input_tensors: Sequence[Tensor],
    red_op: Callable[[Tensor, Tensor], Tensor],
    un_op: Callable[[Tensor], Tensor] | None = None,
) -> list[Tensor]:
    """The reduction of tensors by an op of two, on the device of each; see :func:`build_ring_all_reduce`."""
    return _reduced(input_tensors, _binary(red_op), un_op)


@public("contrib.all_reduce.build_shuffle_all_reduce")
def build_shuffle_all_reduce(
    input_tensors: Sequence[Tensor],
    gather_devices: Sequence[str],
    red_op: Callable[..., Tensor],
    un_op: Callable[[Tensor], Tensor] | None = None,
) -> list[Tensor]:
    """The reduction of tensors by an op of two or of a list (``tf.add_n``), on the device of each.

    ``gather_devices`` has no effect; see :func:`build_ring_all_reduce`.
    """
    return _reduced(input_tensors, _of_any(red_op), un_op)


@public("contrib.all_reduce.build_nccl_all_reduce")
def build_nccl_all_reduce(
    input_tensors: Sequence[Tensor],
    red_op: Callable[[Tensor, Tensor], Tensor],
    un_op: Callable[[Tensor], Tensor] | None = None,
) -> list[Tensor]:
    """The sum of tensors, on the device of each; see :func:`build_ring_all_reduce`.

    Raises:
        ValueError: ``red_op`` is not ``tf.add``, or the tensors do not fit together.
    """
    return _reduced(input_tensors, _sum_only(red_op), un_op)


@public("contrib.all_reduce.build_nccl_then_ring")
def build_nccl_then_ring(
    input_tensors: Sequence[Tensor],
    subdiv: int,
    red_op: Callable[[Tensor, Tensor], Tensor],
    un_op: Callable[[Tensor], Tensor] | None = None,
) -> list[Tensor]:
    """The sum of tensors, on the device of each; ``subdiv`` has no effect. See :func:`build_nccl_all_reduce`."""
    return _reduced(input_tensors, _sum_only(red_op), un_op)


@public("contrib.all_reduce.build_nccl_then_recursive_hd")
def build_nccl_then_recursive_hd(
    input_tensors: Sequence[Tensor],
    red_op: Callable[[Tensor, Tensor], Tensor],
    un_op: Callable[[Tensor], Tensor] | None = None,
) -> list[Tensor]:
    """The sum of tensors, on the device of each; see :func:`build_nccl_all_reduce`."""
    return _reduced(input_tensors, _sum_only(red_op), un_op)


@public("contrib.all_reduce.build_nccl_then_shuffle")
def build_nccl_then_shuffle(
    input_tensors: Sequence[Tensor],
    gather_devices: Sequence[str],
    nccl_red_op: Callable[[Tensor, Tensor], Tensor],
    shuffle_red_op: Callable[..., Tensor],
    un_op: Callable[[Tensor], Tensor] | None = None,
) -> list[Tensor]:
    """The sum of tensors, on the device of each; see :func:`build_nccl_all_reduce`.

    ``gather_devices`` and ``shuffle_red_op``, which must be a sum, too, have no effect.
    """
    return _reduced(input_tensors, _sum_only(nccl_red_op), un_op)


@public("contrib.all_reduce.build_shuffle_then_ring")
def build_shuffle_then_ring(
    input_tensors: Sequence[Tensor],
    gather_devices: Sequence[str],
    subdiv: int,
    red_n_op: Callable[..., Tensor],
    red_op: Callable[[Tensor, Tensor], Tensor],
    un_op: Callable[[Tensor], Tensor] | None = None,
) -> list[Tensor]:
    """The reduction of tensors by ``red_n_op``, on the device of each; see :func:`build_shuffle_all_reduce`.

    ``gather_devices``, ``subdiv`` and ``red_op``, which is to two tensors what ``red_n_op`` is to more, have no effect.
    """
    return _reduced(input_tensors, _of_any(red_n_op), un_op)


@public("contrib.all_reduce.build_shuffle_then_shuffle")
def build_shuffle_then_shuffle(
    input_tensors: Sequence[Tensor],
    first_gather_devices: Sequence[str],
    second_gather_devices: Sequence[str],
    red_op: Callable[..., Tensor],
    un_op: Callable[[Tensor], Tensor] | None = None,
) -> list[Tensor]:
    """The reduction of tensors, on the device of each; see :func:`build_shuffle_all_reduce`."""
    return _reduced(input_tensors, _of_any(red_op), un_op)
