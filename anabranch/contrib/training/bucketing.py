"""``tf.contrib.training.bucket``: batches of elements that belong together, such as sequences of like lengths.

Each bucket has a queue of elements. Threads put elements into the queue of their bucket; another thread for each bucket
moves whole batches of it to a queue of batches, from which a step takes the next one, whichever bucket it is of. When
the source ends, the queues of the buckets are closed, and the queue of batches when the last bucket is empty.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.train import batching

_ENDS = (tf.errors.OutOfRangeError, tf.errors.CancelledError)


@public("contrib.training.bucket")
def bucket(
    tensors: Any,
    which_bucket: Any,
    batch_size: Any,
    num_buckets: int,
    num_threads: int = 1,
    capacity: int = 32,
    bucket_capacities: Sequence[int] | None = None,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True,
    shared_name: str | None = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Batches of elements of one bucket each.

    Args:
        tensors: list or dictionary of tensors, one element; sparse ones, too.
        which_bucket: int32 scalar in ``[0, num_buckets)``, the bucket of the element.
        batch_size: elements of a batch, or a list with a number for each bucket.
        num_buckets: how many buckets there are.
        num_threads: how many threads compute elements.
        capacity: batches that wait, and elements in a bucket.
        bucket_capacities: elements in each bucket, if not ``capacity``.
        shapes: shapes of an element, inferred by default.
        dynamic_pad: elements may differ in size; a batch is padded to its largest.
        allow_smaller_final_batch: the last batch of a bucket holds what is left; otherwise it is dropped.
        keep_input: bool scalar, whether the element is put in.
        shared_name: name under which sessions share the queues.
        name: name of the operations.

    Returns:
        The bucket (int32 scalar), and a list or dictionary like ``tensors`` of batches ``[batch, ...]``.

    Raises:
        ValueError: the shape of an element is not known, or a list has not ``num_buckets`` items.
    """
    sizes = list(batch_size) if isinstance(batch_size, (list, tuple)) else [batch_size] * num_buckets
    if len(sizes) != num_buckets:
        raise ValueError(
            "If batch_size is a list it must have num_buckets elements\n"
            + errors.message(f"{len(sizes)} sizes of batches", f"{num_buckets}, one for each bucket", "batch_size=32")
        )
    capacities = [capacity] * num_buckets if bucket_capacities is None else list(bucket_capacities)
    if len(capacities) != num_buckets:
        raise ValueError(
            f"The list bucket_capacities ({capacities}) must have exactly num_buckets ({num_buckets}) elements.\n"
            + errors.message(f"{len(capacities)} capacities", f"{num_buckets}, one for each bucket", "capacity=32")
        )
    elements = batching.as_list(tensors)
    with tf.name_scope(name, "bucket", elements):
        elements = batching.converted(elements, "bucket")
        keep = batching.checked_keep_input(keep_input, False)
        stored = [batching.stored_as(tensor, False) for tensor in elements]
        elements = [
            tensor if own is None else batching.numbers_of(tensor, own, False, keep)
            for tensor, own in zip(elements, stored, strict=True)
        ]
        sizes = [_static(tf.convert_to_tensor(size, tf.int32, name="batch_size")) for size in sizes]
        types = batching.component_types([elements])
        element_shapes = batching.component_shapes([elements], shapes, False, dynamic_pad)
        number = tf.convert_to_tensor(which_bucket, tf.int32, name="which_bucket")
        kind = tf.PaddingFIFOQueue if dynamic_pad else tf.FIFOQueue
        queues = [
            kind(
                capacities[i],
                types,
                element_shapes,
                shared_name=None if shared_name is None else f"{shared_name}_{i}",
                name=f"bucket_queue_{i}",
            )
            for i in range(num_buckets)
        ]
        one_size = isinstance(sizes[0], int) and not isinstance(batch_size, (list, tuple))
        batch = sizes[0] if one_size and not allow_smaller_final_batch else None
        top = tf.PaddingFIFOQueue(
            capacity,
            [tf.int32, *types],
            [tf.TensorShape([]), *(tf.TensorShape([batch]).concatenate(shape) for shape in queues[0].shapes)],
            shared_name=shared_name,
            name="top_queue",
        )
        _add_runners(top, queues, sizes, elements, number, keep, num_threads, allow_smaller_final_batch)
        for queue in queues:
            tf.summary.scalar(f"bucket/{queue.name}/size", tf.cast(queue.size(), tf.float32))
        share = tf.cast(top.size(), tf.float32) * (1.0 / capacity)
        tf.summary.scalar(f"bucket/{top.name}/fraction_of_{capacity}_full", share)
        which, *components = top.dequeue(name="dequeue_top")
        return which, batching.as_given(tensors, batching.taken(components, stored))


def _static(size: Any) -> Any:
    known = tf.contrib.util.constant_value(size)
    return size if known is None else int(known)


def _add_runners(
    top: Any,
    queues: list[Any],
    sizes: list[Any],
    elements: list[Any],
    number: Any,
    keep: Any,
    threads: int,
    smaller: bool,
) -> None:
    """Threads that fill the buckets, and those that move batches to the queue of batches."""
    # One branch runs for an element; what is of no bucket is left out.
    branches = [functools.partial(queue.enqueue, elements) for queue in queues]

    def put() -> Any:
        within = tf.logical_and(number >= 0, number < len(queues))
        place = tf.where(within, number, tf.fill(tf.shape(number), len(queues)))
        return tf.switch_case(place, [*branches, tf.no_op])

    enqueue = tf.contrib.framework.smart_cond(keep, put, tf.no_op)
    moves = []
    for i, (queue, size) in enumerate(zip(queues, sizes, strict=True)):
        take = queue.dequeue_up_to if smaller else queue.dequeue_many
        batch = take(size, name=f"read_bucket_{i}")
        batch = batch if isinstance(batch, (list, tuple)) else [batch]
        moves.append(top.enqueue([tf.constant(i), *batch], name=f"enqueue_from_bucket_{i}"))
    tf.train.add_queue_runner(
        tf.train.QueueRunner(
            queues[0],
            moves,
            close_op=top.close(),
            cancel_op=top.close(cancel_pending_enqueues=True),
            queue_closed_exception_types=_ENDS,
        )
    )
    tf.train.add_queue_runner(
        tf.train.QueueRunner(
            top,
            [enqueue] * threads,
            close_op=tf.group(*[queue.close() for queue in queues]),
            cancel_op=tf.group(*[queue.close(cancel_pending_enqueues=True) for queue in queues]),
            queue_closed_exception_types=_ENDS,
        )
    )


@public("contrib.training.bucket_by_sequence_length")
def bucket_by_sequence_length(
    input_length: Any,
    tensors: Any,
    batch_size: Any,
    bucket_boundaries: Sequence[int],
    num_threads: int = 1,
    capacity: int = 32,
    bucket_capacities: Sequence[int] | None = None,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    keep_input: Any = True,
    shared_name: str | None = None,
    name: str | None = None,
) -> tuple[Any, Any]:
    """Batches of sequences of like lengths; see :func:`bucket`.

    Args:
        input_length: int32 scalar, the length of the sequence.
        tensors: list or dictionary of tensors, one element.
        batch_size: elements of a batch, or a list with a number for each bucket.
        bucket_boundaries: increasing integers; bucket 0 is for lengths below the first, the last one for the others.
        num_threads: how many threads compute elements.
        capacity: batches that wait, and elements in a bucket.
        bucket_capacities: elements in each bucket, if not ``capacity``.
        shapes: shapes of an element, inferred by default.
        dynamic_pad: elements may differ in size; a batch is padded to its largest.
        allow_smaller_final_batch: the last batch of a bucket holds what is left.
        keep_input: bool scalar, whether the element is put in.
        shared_name: name under which sessions share the queues.
        name: name of the operations.

    Returns:
        Lengths ``[batch]``, and a list or dictionary like ``tensors`` of batches ``[batch, ...]``.

    Raises:
        TypeError: the boundaries are not a list of integers. ValueError: they do not increase, or there are none.
    """
    if not isinstance(bucket_boundaries, (list, tuple)):
        raise TypeError(
            f"bucket_boundaries must be a list or tuple, but received: {bucket_boundaries}\n"
            + errors.message(f"{bucket_boundaries!r}", "a list of integers", "bucket_boundaries=[10, 20]")
        )
    if not bucket_boundaries:
        raise ValueError(
            "bucket_boundaries must not be empty\n" + errors.message("[]", "one boundary at least", "[10, 20]")
        )
    for low, high in itertools.pairwise(bucket_boundaries):
        if not isinstance(low, int) or not isinstance(high, int):
            raise TypeError(f"bucket boundaries must be integers, but saw: {low} and {high}")
        if low >= high:
            raise ValueError(f"Buckets must contain sequential increasing lengths, but saw: {low} before {high}")
    elements = batching.as_list(tensors)
    with tf.name_scope(name, "bucket_by_sequence_length", [input_length, *elements]):
        length = tf.convert_to_tensor(input_length, tf.int32, name="input_length")
        boundaries = tf.constant(np.array(bucket_boundaries, np.int32))
        _, batch = bucket(
            [length, *elements],
            tf.reduce_sum(tf.cast(boundaries <= length, tf.int32)),
            batch_size,
            len(bucket_boundaries) + 1,
            num_threads,
            capacity,
            bucket_capacities,
            None if shapes is None else [tf.TensorShape([]), *shapes],
            dynamic_pad,
            allow_smaller_final_batch,
            keep_input,
            shared_name,
        )
        # A single tensor comes back as a list of one, too.
        return batch[0], batching.as_given(tensors, batch[1:]) if isinstance(tensors, dict) else batch[1:]
