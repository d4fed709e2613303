"""Queues that threads fill with the rows of a tensor, again and again: names of files, numbers, slices.

What an epoch is counted by is a local variable: ``session.run(tf.local_variables_initializer())`` comes before the
threads start. Order of an epoch: that of the tensor, or a new random one each time (``RandomShuffle``).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import require_graph
from anabranch.core.graph.collections import GraphKeys
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import control_dependencies, name_scope
from anabranch.core.values import dtypes
from anabranch.ops.array.public_indexing import gather
from anabranch.ops.array.public_shapes import range_, shape, size
from anabranch.ops.array.sources import identity
from anabranch.ops.io.files import matching_files
from anabranch.ops.math.checks import assert_
from anabranch.ops.queues.public_queues import FIFOQueue, QueueBase
from anabranch.ops.random.public import random_shuffle
from anabranch.summary.collected import scalar
from anabranch.train.coordinator import QueueRunner, add_queue_runner
from anabranch.variables.variable import Variable, make_variable


@public("train.match_filenames_once", "io.match_filenames_once")
def match_filenames_once(pattern: Any, name: str | None = None) -> Any:
    """A local variable whose initial value is the names of files that match a pattern, or one of several, sorted.

    Args:
        pattern: a pattern with ``*``, ``?`` or ``[abc]``, or a vector of them.
        name: name of the variable.
    """
    with name_scope(name, "matching_filenames", [pattern]) as scope:
        return make_variable(
            matching_files(pattern),
            trainable=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
            validate_shape=False,
            name=scope,
        )


@public("train.limit_epochs")
def limit_epochs(tensor: Any, num_epochs: int | None = None, name: str | None = None) -> Any:
    """``tensor``, which can be computed ``num_epochs`` times; OutOfRangeError after that. A local variable counts.

    Args:
        tensor: a tensor.
        num_epochs: how often; None for no limit.
        name: name of the operations.

    Raises:
        ValueError: ``num_epochs`` is not positive.
    """
    if num_epochs is None:
        return tensor
    if num_epochs <= 0:
        raise ValueError(
            f"num_epochs must be > 0 not {num_epochs}.\n"
            + errors.message(f"num_epochs={num_epochs}", "1 at least, or None for no limit", "num_epochs=1")
        )
    with name_scope(name, "limit_epochs", [tensor]) as scope:
        epochs = make_variable(
            convert.convert_to_tensor(0, dtypes.int64),
            name="epochs",
            trainable=False,
            collections=[GraphKeys.LOCAL_VARIABLES],
        )
        with control_dependencies([epochs.count_up_to(num_epochs)]):
            return identity(tensor, name=scope)


def require_no_values(given: str, kind: type[Exception]) -> None:
    """Refuse an input of queues where ops run at once: nothing would fill them."""
    require_graph(
        "Input pipelines based on Queues are not supported when eager execution is enabled. Please use tf.data to "
        "ingest data into your model instead.",
        given,
        "tf.data.Dataset.from_tensor_slices(x).batch(n)",
        kind,
    )


@public("train.input_producer")
def input_producer(
    input_tensor: Any,
    element_shape: Any = None,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    summary_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> QueueBase:
    """A queue that a thread fills with the rows of a tensor, epoch after epoch.

    Args:
        input_tensor: tensor ``[rows, ...]``.
        element_shape: shape of a row, if that of the tensor is not known.
        num_epochs: after this many the queue is closed; None for no end. A local variable counts them.
        shuffle: in a new random order each time.
        seed: seed of the order.
        capacity: how many rows the queue holds.
        shared_name: name under which sessions share the queue.
        summary_name: tag of a summary of how full the queue is; None for none.
        name: name of the operations.
        cancel_op: what cancels the queue's thread, ``queue.close(cancel_pending_enqueues=True)`` by default.

    Returns:
        The queue; its runner is in ``GraphKeys.QUEUE_RUNNERS``, where ``tf.train.start_queue_runners`` finds it.

    Raises:
        ValueError: the shape of a row is not known.
    """
    require_no_values("tf.train.input_producer", RuntimeError)
    with name_scope(name, "input_producer", [input_tensor]):
        rows = convert.convert_to_tensor(input_tensor, name="input_tensor")
        row_shape = rows.shape[1:].merge_with(element_shape)
        if not row_shape.is_fully_defined():
            raise ValueError(
                "Either `input_tensor` must have a fully defined shape or `element_shape` must be specified\n"
                + errors.message(
                    f"rows of shape {row_shape}", "rows of a known shape", "element_shape=[...], or tf.ensure_shape"
                )
            )
        if shuffle:
            rows = random_shuffle(rows, seed=seed)
        rows = limit_epochs(rows, num_epochs)
        queue = FIFOQueue(capacity, [rows.dtype.base_dtype], [row_shape], shared_name=shared_name, name=name)
        add_queue_runner(QueueRunner(queue, [queue.enqueue_many([rows])], cancel_op=cancel_op))
        if summary_name is not None:
            scalar(summary_name, build("Cast", queue.size(), DstT=dtypes.float32) * (1.0 / capacity))
        return queue


def _fullness(capacity: int) -> str:
    return f"fraction_of_{capacity}_full"


@public("train.string_input_producer")
def string_input_producer(
    string_tensor: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
    cancel_op: Any = None,
) -> QueueBase:
    """A queue that a thread fills with strings, mostly names of files; see :func:`input_producer`.

    Args:
        string_tensor: the strings, a vector.
        num_epochs: after this many the queue is closed; None for no end. A local variable counts them.
        shuffle: in a new random order each time.
        seed: seed of the order.
        capacity: how many strings the queue holds.
        shared_name: name under which sessions share the queue.
        name: name of the operations.
        cancel_op: what cancels the queue's thread.

    Raises:
        ValueError: the list is empty. (A tensor that turns out to be empty fails when the thread runs.)

    Example:
        >>> import anabranch as tf
        >>> names = tf.train.string_input_producer(["a.csv", "b.csv"], num_epochs=1, shuffle=False)
        >>> name = names.dequeue()
        >>> coordinator = tf.train.Coordinator()
        >>> with tf.Session() as session:
        ...     session.run(tf.local_variables_initializer())
        ...     threads = tf.train.start_queue_runners(session, coordinator)
        ...     print(session.run(name), session.run(name))
        ...     coordinator.request_stop()
        ...     coordinator.join(threads)
        b'a.csv' b'b.csv'
    """
    empty = "string_input_producer requires a non-null input tensor"
    if not isinstance(string_tensor, Tensor | Variable) and not len(string_tensor):
        raise ValueError(
            f"{empty}\n" + errors.message("an empty list", "one string at least", "tf.gfile.Glob to see what is there")
        )
    with name_scope(name, "input_producer", [string_tensor]) as scope:
        strings = convert.convert_to_tensor(string_tensor, dtypes.string)
        with control_dependencies([assert_(build("Greater", size(strings), 0), [empty])]):
            strings = identity(strings)
        return input_producer(
            strings,
            element_shape=[],
            num_epochs=num_epochs,
            shuffle=shuffle,
            seed=seed,
            capacity=capacity,
            shared_name=shared_name,
            summary_name=_fullness(capacity),
            name=scope,
            cancel_op=cancel_op,
        )


@public("train.range_input_producer")
def range_input_producer(
    limit: Any,
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> QueueBase:
    """A queue that a thread fills with the integers from 0 to ``limit - 1``; see :func:`input_producer`.

    Args:
        limit: int32 scalar.
        num_epochs: after this many the queue is closed; None for no end. A local variable counts them.
        shuffle: in a new random order each time.
        seed: seed of the order.
        capacity: how many integers the queue holds.
        shared_name: name under which sessions share the queue.
        name: name of the operations.
    """
    with name_scope(name, "input_producer", [limit]) as scope:
        return input_producer(
            range_(limit), [], num_epochs, shuffle, seed, capacity, shared_name, _fullness(capacity), scope
        )


@public("train.slice_input_producer")
def slice_input_producer(
    tensor_list: Sequence[Any],
    num_epochs: int | None = None,
    shuffle: bool = True,
    seed: int | None = None,
    capacity: int = 32,
    shared_name: str | None = None,
    name: str | None = None,
) -> list[Tensor]:
    """One row of each of some tensors, of a number that a queue gives; see :func:`range_input_producer`.

    Args:
        tensor_list: tensors ``[rows, ...]`` with as many rows each.
        num_epochs: after this many the queue is closed; None for no end. A local variable counts them.
        shuffle: in a new random order each time.
        seed: seed of the order.
        capacity: how many numbers the queue holds.
        shared_name: name under which sessions share the queue.
        name: name of the operations.

    Returns:
        A list of tensors: a row of each tensor, another one in each step.

    Raises:
        ValueError: the list is empty.
    """
    with name_scope(name, "input_producer", list(tensor_list)):
        tensors = [
            tensor if isinstance(tensor, IndexedSlices) else convert.convert_to_tensor(tensor) for tensor in tensor_list
        ]
        if not tensors:
            raise ValueError(
                "Expected at least one tensor in slice_input_producer().\n"
                + errors.message("an empty list", "tensors with as many rows each", "slice_input_producer([x, y])")
            )
        rows = shape(tensors[0])[0]
        queue = range_input_producer(
            rows, num_epochs=num_epochs, shuffle=shuffle, seed=seed, capacity=capacity, shared_name=shared_name
        )
        number = queue.dequeue()
        return [gather(tensor, number) for tensor in tensors]
