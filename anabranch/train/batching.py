"""Batches by queues: threads put single elements (or many) into a queue, a step takes batches out.

Four forms of one thing. ``batch`` takes one set of tensors that ``num_threads`` threads compute, ``batch_join`` a list
of sets with a thread each; both keep the order of arrival, and the ``shuffle_`` forms draw from a queue that holds
``min_after_dequeue`` elements back. The ``maybe_`` forms put in only what ``keep_input`` says.

A queue holds dense rows, so a SparseTensor goes as the number of an entry in a map
(:mod:`anabranch.ops.sparse.tensor_maps`) and is taken out of it when its batch is; the batch has one dimension more, in
front. Whatever part of a batch is fetched, all its sparse parts are taken out, or the map would grow.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.sparse_tensor import SparseTensor
from anabranch.core.values import dimensions, dtypes
from anabranch.core.values.shapes import TensorShape
from anabranch.ops.array.public_indexing import gather
from anabranch.ops.array.public_shapes import expand_dims, fill, squeeze
from anabranch.ops.array.sources import no_op
from anabranch.ops.control.public_cond import smart_cond
from anabranch.ops.control.public_dependencies import with_dependencies
from anabranch.ops.queues.public_queues import FIFOQueue, PaddingFIFOQueue, QueueBase, RandomShuffleQueue
from anabranch.ops.sparse.public import sparse_retain
from anabranch.ops.sparse.tensor_maps import add_sparse, take_sparse
from anabranch.summary.collected import scalar
from anabranch.train.coordinator import QueueRunner, add_queue_runner
from anabranch.train.input_producers import require_no_values


# ------------------------------------------------------------------------------------------- sets of tensors, as lists
def as_list(tensors: Any) -> list[Any]:
    """The tensors of a list, or those of a dictionary in the order of its keys."""
    return [tensors[key] for key in sorted(tensors, key=str)] if isinstance(tensors, dict) else list(tensors)


def _as_lists(tensors_list: Sequence[Any]) -> list[list[Any]]:
    if not tensors_list:
        raise ValueError(
            "Expected at least one set of tensors\n"
            + errors.message("an empty list", "one set of tensors for each thread", "batch_join([[x, y]], 32)")
        )
    first = tensors_list[0]
    if isinstance(first, dict):
        for other in tensors_list[1:]:
            if not isinstance(other, dict) or set(other) != set(first):
                raise ValueError(
                    "All dictionaries in tensors_list must have the same keys\n"
                    + errors.message(f"keys {sorted(other)}", f"keys {sorted(first)}", "the same keys for each thread")
                )
    return [as_list(tensors) for tensors in tensors_list]


def as_given(original: Any, components: Any) -> Any:
    """Components of a batch in the form in which its tensors were given."""
    if not isinstance(original, dict):
        return components[0] if len(components) == 1 else components
    return dict(zip(sorted(original, key=str), components, strict=True))


def converted(tensors: list[Any], function: str) -> list[Any]:
    """One set of tensors, converted; ``function`` is what refuses an empty one."""
    if not tensors:
        raise ValueError(
            f"Expected at least one tensor in {function}().\n"
            + errors.message("no tensors", "one tensor at least", f"tf.train.{function}([x, y], ...)")
        )
    ready = (IndexedSlices, SparseTensor)
    return [tensor if isinstance(tensor, ready) else convert.convert_to_tensor(tensor) for tensor in tensors]


def checked_keep_input(keep_input: Any, enqueue_many: bool) -> Tensor:
    """``keep_input`` as a tensor, a scalar or where many rows go in a vector."""
    keep = convert.convert_to_tensor(keep_input)
    rank = keep.shape.ndims
    if rank is None:
        problem = "`keep_input` dimensions must be known at graph construction."
    elif not enqueue_many and rank == 1:
        problem = "`keep_input` cannot be a vector when `enqueue_many=False`."
    elif rank > 1:
        problem = "`keep_input` must be 0 or 1 dimensions."
    else:
        return keep
    raise ValueError(
        f"{problem}\n"
        + errors.message(
            f"keep_input of shape {keep.shape} with enqueue_many={enqueue_many}",
            "a bool scalar, or with enqueue_many a vector with one bool for each row",
            "tf.reduce_all(keep_input)",
        )
    )


# ----------------------------------------------------------------------------------------------------- sparse tensors
class Stored(NamedTuple):
    """A component that goes through the queue as numbers of a map."""

    shared_name: str
    dtype: dtypes.DType
    rank: int | None
    """Rank of one element."""


def stored_as(tensor: Any, enqueue_many: bool) -> Stored | None:
    """How a sparse component goes through the queue; None for a dense one."""
    if not isinstance(tensor, SparseTensor):
        return None
    rank = dimensions.as_dimension(tensor.dense_shape.shape.with_rank(1)[0]).value
    name = current_builder().unique_name("sparse_tensors", mark_as_used=True)
    return Stored(name, tensor.dtype, rank - 1 if enqueue_many and rank is not None else rank)


def _join_stored(stored: list[Stored | None], tensors: list[Any], enqueue_many: bool) -> None:
    """Refuse a set of tensors whose sparse ones are others than those of the first set."""
    for own, tensor in zip(stored, tensors, strict=True):
        other = stored_as(tensor, enqueue_many)
        same = (own is None) == (other is None)
        if own is not None and other is not None:
            same = own.rank is None or other.rank is None or own.rank == other.rank
        if not same:
            raise ValueError(
                "Inconsistent SparseTensors list\n"
                + errors.message(
                    f"{tensor} in the place of {'a tensor' if own is None else f'a SparseTensor of rank {own.rank}'}",
                    "sparse tensors in the same places of each set, of the same ranks",
                    "tf.sparse_tensor_to_dense(x)",
                )
            )


def numbers_of(tensor: SparseTensor, stored: Stored, enqueue_many: bool, keep: Tensor) -> Tensor:
    """Put a sparse tensor into its map, if it is kept; the number of its entry ``[1]``, or of its rows ``[n, 1]``."""
    if keep.shape.ndims == 1:
        kept = sparse_retain(tensor, gather(keep, tensor.indices[:, 0]))
        numbers = add_sparse(kept, True, stored.shared_name)
    elif enqueue_many:
        rows = tensor.dense_shape[:1]
        numbers = smart_cond(
            keep,
            lambda: add_sparse(tensor, True, stored.shared_name),
            lambda: fill(rows, convert.convert_to_tensor(-1, dtypes.int64)),
        )
        numbers.set_shape([None])
    else:
        numbers = smart_cond(
            keep,
            lambda: add_sparse(tensor, False, stored.shared_name),
            lambda: convert.convert_to_tensor(-1, dtypes.int64),
        )
    return expand_dims(numbers, [-1])


def taken(components: list[Tensor], stored: list[Stored | None]) -> list[Any]:
    """Components of a batch; those that are numbers of a map are taken out of it."""
    if not any(stored):
        return components
    parts = [
        part
        if own is None
        else take_sparse(squeeze(part, [1]), own.dtype, own.shared_name, None if own.rank is None else own.rank + 1)
        for part, own in zip(components, stored, strict=True)
    ]
    every = [part.values if isinstance(part, SparseTensor) else part for part in parts]

    def with_all(part: Any) -> Any:
        return with_dependencies(every, part)

    return [
        SparseTensor(with_all(part.indices), with_all(part.values), with_all(part.dense_shape))
        if isinstance(part, SparseTensor)
        else with_all(part)
        for part in parts
    ]


# ---------------------------------------------------------------------------------------------------------- the queue
def component_types(sets: list[list[Any]]) -> list[dtypes.DType]:
    """Dtypes of an element's components, which must agree in all sets."""
    first = [tensor.dtype.base_dtype for tensor in sets[0]]
    for tensors in sets[1:]:
        other = [tensor.dtype.base_dtype for tensor in tensors]
        if other != first:
            listed = [", ".join(dtype.name for dtype in each) for each in (first, other)]
            raise TypeError(
                f"Expected types to be consistent: {listed[0]} vs. {listed[1]}.\n"
                + errors.message(f"dtypes {listed[1]}", f"dtypes {listed[0]}, as in the first set", "tf.cast(x, dtype)")
            )
    return first


def component_shapes(sets: list[list[Any]], given: Any, enqueue_many: bool, varying: bool) -> Any:
    """Shapes of an element's components, which must agree; ``varying`` leaves open what one set leaves open."""
    if given is not None:
        return given
    merged_shapes = []
    for tensors in zip(*sets, strict=True):
        merged: TensorShape | None = None
        for tensor in tensors:
            if tensor.shape.ndims is None:
                raise ValueError(
                    f"Cannot infer Tensor's rank: {tensor}\n"
                    + errors.message(
                        f"{tensor}, of unknown rank", "a tensor of known rank", "tf.ensure_shape(x, shape)"
                    )
                )
            own = tensor.shape.with_rank_at_least(1)[1:] if enqueue_many else tensor.shape
            if merged is None:
                merged = own
            else:
                both = merged.merge_with(own)
                merged = merged.most_specific_compatible_shape(own) if varying else both
        merged_shapes.append(merged)
    return merged_shapes


def _kept_rows(tensors: list[Any], keep: Tensor) -> list[Tensor]:
    chosen = build("Cast", keep, DstT=dtypes.int32)
    return [build("DynamicPartition", tensor, chosen, num_partitions=2)[1] for tensor in tensors]


class _Request(NamedTuple):
    """What the four forms have in common."""

    batch_size: Any
    enqueue_many: bool
    shapes: Any
    smaller_final_batch: bool
    name: str | None


def _batches(
    function: str,
    tensors_list: Sequence[Any],
    keep_input: Any,
    threads: int,
    request: _Request,
    make_queue: Callable[[list[dtypes.DType], Any], QueueBase],
    fullness: Callable[[QueueBase], tuple[str, Any]],
    varying: bool = False,
) -> Any:
    """Threads that fill a queue, and batches out of it; see the module.

    Args:
        function: the name of the public function, and of the scope.
        tensors_list: a set of tensors for each thread; one set may have several threads.
        keep_input: what is put in.
        threads: threads for each set.
        request: the batches.
        make_queue: makes the queue for components of some dtypes and shapes.
        fullness: tag and value of the summary of how full the queue is.
        varying: whether the queue takes components of shapes that vary.
    """
    require_no_values(f"tf.train.{function}", ValueError)
    sets = _as_lists(tensors_list)
    many = request.enqueue_many
    with name_scope(request.name, function, [*(tensor for tensors in sets for tensor in tensors), keep_input]) as scope:
        sets = [converted(tensors, function) for tensors in sets]
        for tensors in sets[1:]:
            if len(tensors) != len(sets[0]):
                raise ValueError(
                    errors.message(
                        f"a set of {len(tensors)} tensors", f"{len(sets[0])}, as in the first set", "batch_join([a, b])"
                    )
                )
        keep = checked_keep_input(keep_input, many)
        stored = [stored_as(tensor, many) for tensor in sets[0]]
        for tensors in sets[1:]:
            _join_stored(stored, tensors, many)
        sets = [
            [
                tensor if own is None else numbers_of(tensor, own, many, keep)
                for tensor, own in zip(tensors, stored, strict=True)
            ]
            for tensors in sets
        ]
        queue = make_queue(component_types(sets), component_shapes(sets, request.shapes, many, varying))
        put = queue.enqueue_many if many else queue.enqueue
        enqueue_ops = []
        for tensors in sets:
            if keep.shape.ndims == 1:
                enqueue_ops.append(put(_kept_rows(tensors, keep)))
            else:
                enqueue_ops.append(smart_cond(keep, functools.partial(put, tensors), no_op))
        add_queue_runner(QueueRunner(queue, [op for op in enqueue_ops for _ in range(threads)]))
        scalar(*fullness(queue))
        take = queue.dequeue_up_to if request.smaller_final_batch else queue.dequeue_many
        batch_of = take(request.batch_size, name=scope)
        components = batch_of if isinstance(batch_of, list) else [batch_of]
        return as_given(tensors_list[0], taken(components, stored))


def _in_order(
    function: str,
    tensors_list: Sequence[Any],
    keep_input: Any,
    threads: int,
    capacity: int,
    dynamic_pad: bool,
    shared_name: str | None,
    request: _Request,
) -> Any:
    kind = PaddingFIFOQueue if dynamic_pad else FIFOQueue

    def make(types: list[dtypes.DType], row_shapes: Any) -> QueueBase:
        return kind(capacity, types, row_shapes, shared_name=shared_name)

    def fullness(queue: QueueBase) -> tuple[str, Any]:
        rows = build("Cast", queue.size(), DstT=dtypes.float32)
        return f"fraction_of_{capacity}_full", rows * (1.0 / capacity)

    return _batches(function, tensors_list, keep_input, threads, request, make, fullness, dynamic_pad)


def _shuffled(
    function: str,
    tensors_list: Sequence[Any],
    keep_input: Any,
    threads: int,
    capacity: int,
    held_back: int,
    seed: int | None,
    shared_name: str | None,
    request: _Request,
) -> Any:
    if capacity <= held_back:
        raise ValueError(
            f"capacity {capacity} must be bigger than min_after_dequeue {held_back}.\n"
            + errors.message(
                f"capacity={capacity}, min_after_dequeue={held_back}",
                "room for more elements than are held back",
                f"capacity={held_back + 3 * 32}",
            )
        )

    def make(types: list[dtypes.DType], row_shapes: Any) -> QueueBase:
        return RandomShuffleQueue(capacity, held_back, types, row_shapes, seed=seed, shared_name=shared_name)

    def fullness(queue: QueueBase) -> tuple[str, Any]:
        room = capacity - held_back
        over = build(
            "Cast", build("Maximum", 0, build("Sub", queue.size(), held_back, name="sub")), DstT=dtypes.float32
        )
        return f"fraction_over_{held_back}_of_{room}_full", over * (1.0 / room)

    return _batches(function, tensors_list, keep_input, threads, request, make, fullness)


# ------------------------------------------------------------------------------------------------------------- public
@public("train.batch")
def batch(
    tensors: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Batches of tensors, which threads compute and put into a queue.

    Args:
        tensors: list or dictionary of tensors, one element ``[...]``, or with ``enqueue_many`` many ``[n, ...]``;
            sparse ones, too.
        batch_size: elements of a batch.
        num_threads: how many threads fill the queue; with more than one the order varies.
        capacity: elements that the queue holds.
        enqueue_many: whether ``tensors`` hold many elements, in dimension 0.
        shapes: shapes of an element, inferred by default.
        dynamic_pad: elements may differ in size; a batch is padded with zeros (empty strings) to its largest.
        allow_smaller_final_batch: the last batch holds what is left; otherwise an incomplete one is dropped.
        shared_name: name under which sessions share the queue.
        name: name of the operations.

    Returns:
        A list or dictionary like ``tensors`` (one tensor for a list of one) of batches ``[batch_size, ...]``, a
        new one in each step; OutOfRangeError when there are no more.

    Raises:
        ValueError: the shape of an element is not known.
    """
    request = _Request(batch_size, enqueue_many, shapes, allow_smaller_final_batch, name)
    return _in_order("batch", [tensors], True, num_threads, capacity, dynamic_pad, shared_name, request)


@public("train.maybe_batch")
def maybe_batch(
    tensors: Any,
    keep_input: Any,
    batch_size: Any,
    num_threads: int = 1,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Batches of those elements for which ``keep_input`` holds; see :func:`batch`.

    Args:
        tensors: list or dictionary of tensors.
        keep_input: bool scalar; with ``enqueue_many`` also a vector with one bool for each element.
        batch_size: elements of a batch.
        num_threads: how many threads fill the queue.
        capacity: elements that the queue holds.
        enqueue_many: whether ``tensors`` hold many elements, in dimension 0.
        shapes: shapes of an element, inferred by default.
        dynamic_pad: elements may differ in size.
        allow_smaller_final_batch: the last batch holds what is left.
        shared_name: name under which sessions share the queue.
        name: name of the operations.
    """
    request = _Request(batch_size, enqueue_many, shapes, allow_smaller_final_batch, name)
    return _in_order("batch", [tensors], keep_input, num_threads, capacity, dynamic_pad, shared_name, request)


@public("train.batch_join")
def batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Batches of elements that come from several sets of tensors, each with a thread of its own; see :func:`batch`.

    Args:
        tensors_list: list of lists, or of dictionaries with the same keys, of tensors.
        batch_size: elements of a batch.
        capacity: elements that the queue holds.
        enqueue_many: whether the tensors hold many elements, in dimension 0.
        shapes: shapes of an element, inferred by default.
        dynamic_pad: elements may differ in size.
        allow_smaller_final_batch: the last batch holds what is left.
        shared_name: name under which sessions share the queue.
        name: name of the operations.
    """
    request = _Request(batch_size, enqueue_many, shapes, allow_smaller_final_batch, name)
    return _in_order("batch_join", tensors_list, True, 1, capacity, dynamic_pad, shared_name, request)


@public("train.maybe_batch_join")
def maybe_batch_join(
    tensors_list: Sequence[Any],
    keep_input: Any,
    batch_size: Any,
    capacity: int = 32,
    enqueue_many: bool = False,
    shapes: Any = None,
    dynamic_pad: bool = False,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Batches from several sets of tensors, of those elements for which ``keep_input`` holds; see :func:`batch_join`.

    Args:
        tensors_list: list of lists, or of dictionaries with the same keys, of tensors.
        keep_input: bool scalar; with ``enqueue_many`` also a vector with one bool for each element.
        batch_size: elements of a batch.
        capacity: elements that the queue holds.
        enqueue_many: whether the tensors hold many elements, in dimension 0.
        shapes: shapes of an element, inferred by default.
        dynamic_pad: elements may differ in size.
        allow_smaller_final_batch: the last batch holds what is left.
        shared_name: name under which sessions share the queue.
        name: name of the operations.
    """
    request = _Request(batch_size, enqueue_many, shapes, allow_smaller_final_batch, name)
    return _in_order("batch_join", tensors_list, keep_input, 1, capacity, dynamic_pad, shared_name, request)


@public("train.shuffle_batch")
def shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Batches of elements drawn at random from a queue; see :func:`batch`.

    Args:
        tensors: list or dictionary of tensors.
        batch_size: elements of a batch.
        capacity: elements that the queue holds.
        min_after_dequeue: elements that stay in it while more come, so that there is something to draw from.
        num_threads: how many threads fill the queue.
        seed: seed of the drawing.
        enqueue_many: whether ``tensors`` hold many elements, in dimension 0.
        shapes: shapes of an element, inferred by default.
        allow_smaller_final_batch: the last batch holds what is left.
        shared_name: name under which sessions share the queue.
        name: name of the operations.

    Raises:
        ValueError: ``capacity`` is not above ``min_after_dequeue``, or the shape of an element is not known.
    """
    request = _Request(batch_size, enqueue_many, shapes, allow_smaller_final_batch, name)
    return _shuffled(
        "shuffle_batch", [tensors], True, num_threads, capacity, min_after_dequeue, seed, shared_name, request
    )


@public("train.maybe_shuffle_batch")
def maybe_shuffle_batch(
    tensors: Any,
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    num_threads: int = 1,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Batches drawn at random of those elements for which ``keep_input`` holds; see :func:`shuffle_batch`.

    Args:
        tensors: list or dictionary of tensors.
        batch_size: elements of a batch.
        capacity: elements that the queue holds.
        min_after_dequeue: elements that stay in it while more come.
        keep_input: bool scalar; with ``enqueue_many`` also a vector with one bool for each element.
        num_threads: how many threads fill the queue.
        seed: seed of the drawing.
        enqueue_many: whether ``tensors`` hold many elements, in dimension 0.
        shapes: shapes of an element, inferred by default.
        allow_smaller_final_batch: the last batch holds what is left.
        shared_name: name under which sessions share the queue.
        name: name of the operations.
    """
    request = _Request(batch_size, enqueue_many, shapes, allow_smaller_final_batch, name)
    return _shuffled(
        "shuffle_batch", [tensors], keep_input, num_threads, capacity, min_after_dequeue, seed, shared_name, request
    )


@public("train.shuffle_batch_join")
def shuffle_batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Batches drawn at random of elements from several sets of tensors; see :func:`batch_join`, :func:`shuffle_batch`.

    Args:
        tensors_list: list of lists, or of dictionaries with the same keys, of tensors.
        batch_size: elements of a batch.
        capacity: elements that the queue holds.
        min_after_dequeue: elements that stay in it while more come.
        seed: seed of the drawing.
        enqueue_many: whether the tensors hold many elements, in dimension 0.
        shapes: shapes of an element, inferred by default.
        allow_smaller_final_batch: the last batch holds what is left.
        shared_name: name under which sessions share the queue.
        name: name of the operations.
    """
    request = _Request(batch_size, enqueue_many, shapes, allow_smaller_final_batch, name)
    return _shuffled(
        "shuffle_batch_join", tensors_list, True, 1, capacity, min_after_dequeue, seed, shared_name, request
    )


@public("train.maybe_shuffle_batch_join")
def maybe_shuffle_batch_join(
    tensors_list: Sequence[Any],
    batch_size: Any,
    capacity: int,
    min_after_dequeue: int,
    keep_input: Any,
    seed: int | None = None,
    enqueue_many: bool = False,
    shapes: Any = None,
    allow_smaller_final_batch: bool = False,
    shared_name: str | None = None,
    name: str | None = None,
) -> Any:
    """Batches drawn at random from several sets of tensors, of those elements for which ``keep_input`` holds.

    Args:
        tensors_list: list of lists, or of dictionaries with the same keys, of tensors.
        batch_size: elements of a batch.
        capacity: elements that the queue holds.
        min_after_dequeue: elements that stay in it while more come.
        keep_input: bool scalar; with ``enqueue_many`` also a vector with one bool for each element.
        seed: seed of the drawing.
        enqueue_many: whether the tensors hold many elements, in dimension 0.
        shapes: shapes of an element, inferred by default.
        allow_smaller_final_batch: the last batch holds what is left.
        shared_name: name under which sessions share the queue.
        name: name of the operations.
    """
    request = _Request(batch_size, enqueue_many, shapes, allow_smaller_final_batch, name)
    return _shuffled(
        "shuffle_batch_join", tensors_list, keep_input, 1, capacity, min_after_dequeue, seed, shared_name, request
    )
