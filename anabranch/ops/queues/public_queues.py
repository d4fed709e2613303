"""``tf.QueueBase``, ``tf.FIFOQueue``, ``tf.PaddingFIFOQueue``, ``tf.RandomShuffleQueue`` and ``tf.PriorityQueue``.

A queue object is the graph's side of a queue: it makes the ops; the rows are kept by the session's resource manager
(:mod:`anabranch.ops.queues.queue_objects`) under the queue's name.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.contract.inference import partial_value
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.core.graph.random_seed import get_seed
from anabranch.core.values import dtypes as types
from anabranch.core.values import shapes
from anabranch.core.values.shapes import TensorShape


def _as_list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (list, tuple)) else [value]


def type_list(dtypes: Any) -> list[types.DType]:
    """A dtype, or a list of dtypes, as a list."""
    return [types.as_dtype(item).base for item in _as_list(dtypes)]


def shape_list(raw: Any, dtypes: list[types.DType], partial: bool = False, unknown_rank: bool = False) -> Any:
    """Shapes as a list of TensorShapes, None if there are none."""
    if raw is None and not partial:
        return None
    if raw is not None and not isinstance(raw, (TensorShape, list, tuple)):
        raise TypeError(errors.message(f"shapes={raw!r}", "a TensorShape or a list of them", f"shapes=[({raw!r},)]"))
    if raw is None or isinstance(raw, TensorShape) or (not raw and len(dtypes) == 1) or (raw and not _is_shape(raw[0])):
        if partial:
            raise ValueError(
                "When providing partial shapes, a list of shapes must be provided.\n"
                + errors.message(f"shapes={raw!r}", "a list with one shape per component", f"shapes=[{raw!r}]")
            )
        raw = [raw]  # one shape for the one component; () is a scalar's
    as_shapes = [shapes.as_shape(shape) for shape in raw]
    if len(as_shapes) != len(dtypes):
        raise ValueError(
            f"Queue shapes must have the same length as dtypes, received len(shapes)={len(as_shapes)}, "
            f"len(dtypes)={len(dtypes)}"
        )
    if not partial and not all(shape.is_fully_defined() for shape in as_shapes):
        raise ValueError(f"All shapes must be fully defined: {as_shapes}")
    if not unknown_rank and any(shape.dims is None for shape in as_shapes):
        raise ValueError(f"All shapes must have a defined rank: {as_shapes}")
    return as_shapes


def _is_shape(item: Any) -> bool:
    return isinstance(item, (TensorShape, list, tuple)) or item is None


def _name_list(names: Any, dtypes: list[types.DType]) -> list[str] | None:
    if names is None:
        return None
    as_names = [names] if isinstance(names, str) else list(names)
    if len(as_names) != len(dtypes):
        raise ValueError(
            f"List of names must have the same length as the list of dtypes, received len(names)={len(as_names)},"
            f"len(dtypes)={len(dtypes)}"
        )
    return as_names


@public("QueueBase", "queue.QueueBase", "io.QueueBase")
class QueueBase:
    """A queue of rows, each a tuple of tensors; base of the kinds of queues.

    Args:
        dtypes: list of the components' dtypes.
        shapes: list of the components' shapes, or None if they vary.
        names: list of the components' names if rows are dictionaries, else None.
        queue_ref: the tensor that is the queue's handle.
    """

    def __init__(self, dtypes: Any, shapes: Any, names: Any, queue_ref: Tensor) -> None:
        self._dtypes = list(dtypes)
        if shapes is not None:
            if len(shapes) != len(dtypes):
                raise ValueError(
                    f"Queue shapes must have the same length as dtypes, received len(shapes)={len(shapes)}, "
                    f"len(dtypes)={len(dtypes)}"
                )
            self._shapes = [TensorShape(shape) for shape in shapes]
        else:
            self._shapes = [TensorShape(None) for _ in self._dtypes]
        if names is not None:
            if len(names) != len(dtypes):
                raise ValueError(
                    f"Queue names must have the same length as dtypes,received len(names)={len(names)},"
                    f"len {len(dtypes)}"
                )
            self._names = list(names)
        else:
            self._names = None
        self._queue_ref = queue_ref
        self._name = queue_ref._resource_name.split("/")[-1]

    @staticmethod
    def from_list(index: Any, queues: Sequence[QueueBase]) -> QueueBase:
        """The queue ``queues[index]``; ``index`` is an integer scalar tensor.

        Raises:
            TypeError: ``queues`` is not a list of queues, or their dtypes or names differ.
        """
        if not queues or not isinstance(queues, list) or not all(isinstance(queue, QueueBase) for queue in queues):
            raise TypeError("A list of queues expected")
        dtypes, names = queues[0].dtypes, queues[0].names
        if not all(dtypes == queue.dtypes for queue in queues[1:]):
            raise TypeError("Queues do not have matching component dtypes.")
        if not all(names == queue.names for queue in queues[1:]):
            raise TypeError("Queues do not have matching component names.")
        reduced = []
        for shapes_of_one in zip(*(queue.shapes for queue in queues), strict=True):
            merged = shapes_of_one[0]
            for other in shapes_of_one[1:]:
                merged = merged.most_specific_compatible_shape(other)
            reduced.append(merged)
        place = (
            convert_to_tensor(index, types.int32)
            if not isinstance(index, Tensor)
            else build("Cast", index, DstT="int32")
        )
        handle = build("_PickResource", place, [queue.queue_ref for queue in queues], name="PickQueue")
        return QueueBase(dtypes=dtypes, shapes=reduced, names=names, queue_ref=handle)

    @property
    def queue_ref(self) -> Tensor:
        """The handle."""
        return self._queue_ref

    @property
    def name(self) -> str:
        """Name of the queue."""
        return self._queue_ref._resource_name

    @property
    def dtypes(self) -> list[types.DType]:
        """Dtypes of the components."""
        return self._dtypes

    @property
    def shapes(self) -> list[TensorShape]:
        """Shapes of the components."""
        return self._shapes

    @property
    def names(self) -> list[str] | None:
        """Names of the components, or None."""
        return self._names

    # ------------------------------------------------------------------------------------------------------- enqueue
    def _row(self, vals: Any) -> list[Any]:
        """The components of a row in order."""
        if isinstance(vals, dict):
            if not self._names:
                raise ValueError("Queue must have names to enqueue a dictionary")
            if sorted(self._names, key=str) != sorted(vals.keys(), key=str):
                raise ValueError(
                    f"Keys in dictionary to enqueue do not match names of Queue.  Dictionary: {sorted(vals.keys())},"
                    f"Queue: {sorted(self._names)}"
                )
            return [vals[name] for name in self._names]
        if self._names:
            raise ValueError("You must enqueue a dictionary in a Queue with names")
        row = _as_list(vals)
        if len(row) != len(self._dtypes):
            raise ValueError(
                errors.message(
                    f"{len(row)} components for queue {self._name!r}",
                    f"{len(self._dtypes)} ({', '.join(dtype.name for dtype in self._dtypes)})",
                    "pass one tensor per dtype of the queue, as a tuple",
                )
            )
        return row

    def _tensors(self, vals: Any) -> list[Tensor]:
        return [
            convert_to_tensor(value, dtype, f"component_{i}")
            for i, (value, dtype) in enumerate(zip(self._row(vals), self._dtypes, strict=True))
        ]

    def _scope(self, vals: Any, name: str | None, default: str) -> Any:
        values = list(vals.values()) if isinstance(vals, dict) else _as_list(vals)
        return name_scope(name, f"{self._name}_{default}", [self._queue_ref, *values])

    def enqueue(self, vals: Any, name: str | None = None) -> Operation:
        """An operation that puts in one row, waiting while the queue is full.

        Args:
            vals: a tensor, a list or tuple of tensors, or a dictionary if the queue has names.
            name: name of the operation.

        When it runs, it raises CancelledError if the queue is closed.
        """
        with self._scope(vals, name, "enqueue") as scope:
            tensors = self._tensors(vals)
            for tensor, shape in zip(tensors, self._shapes, strict=True):
                tensor.get_shape().assert_is_compatible_with(shape)
            return build(
                "QueueEnqueueV2" if self._is_resource else "QueueEnqueue", self._queue_ref, tensors, name=scope
            )

    def enqueue_many(self, vals: Any, name: str | None = None) -> Operation:
        """An operation that puts in the rows of ``vals``, components ``[n, ...]``, waiting for room."""
        with self._scope(vals, name, "EnqueueMany") as scope:
            tensors = self._tensors(vals)
            batch = tensors[0].get_shape().with_rank_at_least(1)[0]
            for tensor, shape in zip(tensors, self._shapes, strict=True):
                batch = batch.merge_with(tensor.get_shape().with_rank_at_least(1)[0])
                tensor.get_shape()[1:].assert_is_compatible_with(shape)
            return build(
                "QueueEnqueueManyV2" if self._is_resource else "QueueEnqueueMany", self._queue_ref, tensors, name=scope
            )

    # ------------------------------------------------------------------------------------------------------- dequeue
    @property
    def _is_resource(self) -> bool:
        return self._queue_ref.dtype.base == types.resource

    def _op(self, kind: str, *inputs: Any, name: str, **attrs: Any) -> Any:
        return build(f"Queue{kind}{'V2' if self._is_resource else ''}", self._queue_ref, *inputs, name=name, **attrs)

    def _result(self, components: Any, batch: tuple[int | None, ...]) -> Any:
        tensors = list(components)
        for tensor, shape in zip(tensors, self._shapes, strict=True):
            tensor.set_shape(TensorShape(batch).concatenate(shape))
        if self._names:
            return dict(zip(self._names, tensors, strict=True))
        return tensors[0] if len(tensors) == 1 else tensors

    def dequeue(self, name: str | None = None) -> Any:
        """One row, taken out when the result is computed: a tensor, a list of tensors, or a dictionary.

        When it runs, it waits while the queue is empty; OutOfRangeError if it is also closed.
        """
        components = self._op("Dequeue", name=name or f"{self._name}_Dequeue", component_types=self._dtypes)
        return self._result(components, ())

    def dequeue_many(self, n: Any, name: str | None = None) -> Any:
        """``n`` rows as one batch ``[n, ...]`` per component; OutOfRangeError if the queue is closed and has fewer."""
        components = self._op("DequeueMany", n, name=name or f"{self._name}_DequeueMany", component_types=self._dtypes)
        maker = components[0]._maker
        known = None if maker is None else partial_value(maker._inputs[1])
        return self._result(components, (None if known is None else int(known),))

    def dequeue_up_to(self, n: Any, name: str | None = None) -> Any:
        """``n`` rows as one batch per component, or what is left, if that is not nothing, once the queue is closed."""
        components = self._op("DequeueUpTo", n, name=name or f"{self._name}_DequeueUpTo", component_types=self._dtypes)
        return self._result(components, (None,))

    # --------------------------------------------------------------------------------------------------------- others
    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """An operation that closes the queue: no rows go in any more; those inside may be taken out.

        Enqueues that wait for room are let in first, or fail with CancelledError if ``cancel_pending_enqueues``.
        """
        return self._op("Close", name=name or f"{self._name}_Close", cancel_pending_enqueues=cancel_pending_enqueues)

    def is_closed(self, name: str | None = None) -> Tensor:
        """Whether the queue is closed, a bool scalar."""
        return self._op("IsClosed", name=name or f"{self._name}_Is_Closed")

    def size(self, name: str | None = None) -> Tensor:
        """How many rows the queue holds, an int32 scalar."""
        return self._op("Size", name=name or f"{self._name}_Size")


def _raw(components: Any) -> list[Any]:
    return [] if components is None else [shape.raw for shape in components]


@public("FIFOQueue", "queue.FIFOQueue")
class FIFOQueue(QueueBase):
    """A queue that gives out rows in the order in which they came.

    Args:
        capacity: how many rows it holds at most; -1 for no bound.
        dtypes: dtype, or list of dtypes, of a row's components.
        shapes: list of fully known shapes of the components; None lets them vary and excludes ``dequeue_many``.
        names: list of names of the components: rows are then dictionaries.
        shared_name: name under which sessions share it; its own if None.
        name: name of the op.

    Example:
        >>> import anabranch as tf
        >>> queue = tf.FIFOQueue(10, tf.int32, shapes=[()])
        >>> with tf.Session() as session:
        ...     session.run(queue.enqueue_many([[1, 2, 3]]))
        ...     print(session.run(queue.dequeue()), session.run(queue.dequeue_many(2)))
        1 [2 3]
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str | None = "fifo_queue",
    ) -> None:
        dtypes = type_list(dtypes)
        shapes = shape_list(shapes, dtypes)
        names = _name_list(names, dtypes)
        handle = build(
            "FIFOQueueV2",
            component_types=dtypes,
            shapes=_raw(shapes),
            capacity=capacity,
            container=current_builder()._container,
            shared_name=shared_name or "",
            name=name,
        )
        super().__init__(dtypes, shapes, names, handle)


@public("PaddingFIFOQueue", "queue.PaddingFIFOQueue", "io.PaddingFIFOQueue")
class PaddingFIFOQueue(QueueBase):
    """A FIFO queue whose components may vary in size: ``dequeue_many`` pads them with zeros to the batch's largest.

    Args:
        capacity: how many rows it holds at most; -1 for no bound.
        dtypes: list of dtypes of a row's components.
        shapes: list of shapes of the components, with None for dimensions that vary; ranks must be known.
        names: list of names of the components: rows are then dictionaries.
        shared_name: name under which sessions share it; its own if None.
        name: name of the op.
    """

    def __init__(
        self,
        capacity: int,
        dtypes: Any,
        shapes: Any,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "padding_fifo_queue",
    ) -> None:
        dtypes = type_list(dtypes)
        component_shapes = shape_list(shapes, dtypes, partial=True)
        names = _name_list(names, dtypes)
        handle = build(
            "PaddingFIFOQueueV2",
            component_types=dtypes,
            shapes=_raw(component_shapes),
            capacity=capacity,
            container=current_builder()._container,
            shared_name=shared_name or "",
            name=name,
        )
        super().__init__(dtypes, component_shapes, names, handle)


@public("RandomShuffleQueue", "queue.RandomShuffleQueue", "io.RandomShuffleQueue")
class RandomShuffleQueue(QueueBase):
    """A queue that gives out rows at random.

    Args:
        capacity: how many rows it holds at most; -1 for no bound.
        min_after_dequeue: how many rows stay in it while it is open, so that there is something to choose from.
        dtypes: list of dtypes of a row's components.
        shapes: list of fully known shapes of the components, or None.
        names: list of names of the components: rows are then dictionaries.
        seed: seed of the choice; see ``tf.set_random_seed``.
        shared_name: name under which sessions share it; its own if None.
        name: name of the op.
    """

    def __init__(
        self,
        capacity: int,
        min_after_dequeue: int,
        dtypes: Any,
        shapes: Any = None,
        names: Any = None,
        seed: int | None = None,
        shared_name: str | None = None,
        name: str = "random_shuffle_queue",
    ) -> None:
        dtypes = type_list(dtypes)
        shapes = shape_list(shapes, dtypes)
        names = _name_list(names, dtypes)
        seed1, seed2 = get_seed(seed)
        if seed1 is None and seed2 is None:
            seed1, seed2 = 0, 0
        elif seed is None and shared_name is not None:
            # Graphs that share it by name must agree on the seed, which otherwise counts the graph's ops.
            digest = hashlib.md5((str(seed1) + shared_name).encode()).hexdigest()
            seed2 = int(digest[:8], 16) & 0x7FFFFFFF
        handle = build(
            "RandomShuffleQueueV2",
            component_types=dtypes,
            shapes=_raw(shapes),
            capacity=capacity,
            min_after_dequeue=min_after_dequeue,
            seed=seed1,
            seed2=seed2,
            container=current_builder()._container,
            shared_name=shared_name or "",
            name=name,
        )
        super().__init__(dtypes, shapes, names, handle)


@public("PriorityQueue", "queue.PriorityQueue", "io.PriorityQueue")
class PriorityQueue(QueueBase):
    """A queue that gives out the row of the lowest priority number first, equal ones in order of arrival.

    A row's first component is its priority, an int64 scalar; ``types`` and ``shapes`` are those of the others.

    Args:
        capacity: how many rows it holds at most; -1 for no bound.
        types: list of dtypes of the components after the priority.
        shapes: list of fully known shapes of the same, or None.
        names: list of names of all components, the priority's first: rows are then dictionaries.
        shared_name: name under which sessions share it; its own if None.
        name: name of the op.
    """

    def __init__(
        self,
        capacity: int,
        types: Any,
        shapes: Any = None,
        names: Any = None,
        shared_name: str | None = None,
        name: str = "priority_queue",
    ) -> None:
        dtypes = type_list(types)
        component_shapes = shape_list(shapes, dtypes)
        handle = build(
            "PriorityQueueV2",
            component_types=dtypes,
            shapes=_raw(component_shapes),
            capacity=capacity,
            container=current_builder()._container,
            shared_name=shared_name or "",
            name=name,
        )
        rows = [_PRIORITY, *dtypes]
        super().__init__(
            rows,
            None if component_shapes is None else [TensorShape([]), *component_shapes],
            _name_list(names, rows),
            handle,
        )


_PRIORITY = types.int64
