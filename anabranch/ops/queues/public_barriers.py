"""The graph's side of barriers, as TensorFlow's ``data_flow_ops.Barrier``."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.inference import partial_value
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.values.shapes import TensorShape
from anabranch.ops.queues.public_queues import shape_list, type_list


class Barrier:
    """Values by string keys, whose components come in any order; a value is given out when it is complete.

    Args:
        types: dtype, or list of dtypes, of a value's components.
        shapes: list of shapes of the components; None lets them vary and excludes ``take_many``.
        shared_name: name under which sessions share it; its own if None.
        name: name of the op.

    Example:
        >>> import anabranch as tf
        >>> from anabranch.ops.queues.public_barriers import Barrier
        >>> barrier = Barrier((tf.float32, tf.string), shapes=((), ()))
        >>> index, key, (number, word) = barrier.take_many(1)
        >>> with tf.Session() as session:
        ...     session.run(barrier.insert_many(0, ["a", "b"], [1.0, 2.0]))
        ...     session.run(barrier.insert_many(1, ["b"], ["two"]))
        ...     session.run([key, number, word])
        [array([b'b'], dtype=object), array([2.], dtype=float32), array([b'two'], dtype=object)]
    """

    def __init__(self, types: Any, shapes: Any = None, shared_name: str | None = None, name: str = "barrier") -> None:
        self._types = type_list(types)
        given = shape_list(shapes, self._types)
        self._shapes = [TensorShape(None) for _ in self._types] if given is None else given
        for i, shape in enumerate(given or ()):
            if shape.num_elements() == 0:
                raise ValueError(
                    f"Empty tensors are not supported, but received shape '{shape}' at index {i}\n"
                    + errors.message(f"shape {shape} of component {i}", "a shape with elements", "shapes=[...]")
                )
        self._barrier_ref: Tensor = build(
            "Barrier",
            component_types=self._types,
            shapes=[shape.raw for shape in given or ()],
            shared_name=shared_name or "",
            name=name,
        )
        self._name = self._barrier_ref._resource_name.split("/")[-1]

    barrier_ref = property(lambda self: self._barrier_ref, doc="The handle.")
    name = property(lambda self: self._barrier_ref._resource_name, doc="The name of the barrier.")

    def _op(self, kind: str, *inputs: Any, name: str | None, **attrs: Any) -> Any:
        return build(kind, self._barrier_ref, *inputs, name=name or f"{self._name}_{kind}", **attrs)

    def insert_many(self, component_index: int, keys: Any, values: Any, name: str | None = None) -> Operation:
        """An operation that sets one component of the values of ``keys`` ``[n]`` to ``values`` ``[n, ...]``."""
        return self._op("BarrierInsertMany", keys, values, component_index=component_index, name=name)

    def take_many(
        self, num_elements: Any, allow_small_batch: bool = False, timeout: int | None = None, name: str | None = None
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        """Complete values, taken out; waits until there are ``num_elements``.

        Args:
            num_elements: how many.
            allow_small_batch: be content with what a closed barrier still has.
            timeout: None; deadlines are those of steps.
            name: name of the operation.

        Returns:
            Indices ``[n]`` of the insertions in which keys came first, keys ``[n]``, list of components ``[n, ...]``.
            OutOfRangeError, when it runs, if the barrier is closed and has fewer.
        """
        indices, keys, *values = self._op(
            "BarrierTakeMany",
            num_elements,
            component_types=self._types,
            allow_small_batch=allow_small_batch,
            timeout_ms=-1 if timeout is None else timeout,
            name=name,
        )
        components = list(values[0]) if isinstance(values[0], (list, tuple)) else values
        maker = indices._maker
        known = None if allow_small_batch or maker is None else partial_value(maker._inputs[1])
        batch = None if known is None else int(known)
        indices.set_shape([batch])
        keys.set_shape([batch])
        for component, shape in zip(components, self._shapes, strict=True):
            component.set_shape(TensorShape([batch]).concatenate(shape))
        return indices, keys, components

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Operation:
        """An operation that closes it: no new keys come in, and if it cancels, incomplete values are dropped."""
        return self._op("BarrierClose", cancel_pending_enqueues=cancel_pending_enqueues, name=name)

    def ready_size(self, name: str | None = None) -> Tensor:
        """How many complete values it holds, an int32 scalar."""
        return self._op("BarrierReadySize", name=name)

    def incomplete_size(self, name: str | None = None) -> Tensor:
        """How many incomplete values it holds, an int32 scalar."""
        return self._op("BarrierIncompleteSize", name=name)
