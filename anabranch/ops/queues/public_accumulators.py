"""``tf.ConditionalAccumulator`` and ``tf.SparseConditionalAccumulator``: gradients of several workers as one."""

from __future__ import annotations

from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.operation import Operation, Tensor
from anabranch.core.values import dtypes
from anabranch.core.values.shapes import TensorShape


def _int64(value: Any) -> Tensor:
    tensor = convert_to_tensor(value)
    return tensor if tensor.dtype.base == dtypes.int64 else build("Cast", tensor, DstT=dtypes.int64)


@public("ConditionalAccumulatorBase")
class ConditionalAccumulatorBase:
    """Gradients that are not stale, added up until somebody takes their mean; base of both kinds.

    Args:
        dtype: dtype of a gradient.
        shape: shape of a gradient, or None.
        accumulator_ref: the tensor that is the accumulator's handle.
    """

    def __init__(self, dtype: Any, shape: Any, accumulator_ref: Tensor) -> None:
        self._dtype = dtypes.as_dtype(dtype)
        self._shape = TensorShape(shape)
        self._accumulator_ref = accumulator_ref
        self._name = accumulator_ref._resource_name.split("/")[-1]

    @property
    def accumulator_ref(self) -> Tensor:
        """The handle."""
        return self._accumulator_ref

    @property
    def name(self) -> str:
        """The name of the accumulator, without scopes."""
        return self._name

    @property
    def dtype(self) -> dtypes.DType:
        """The dtype of a gradient."""
        return self._dtype

    def num_accumulated(self, name: str | None = None) -> Tensor:
        """How many gradients it holds, an int32 scalar."""
        return build("AccumulatorNumAccumulated", self._accumulator_ref, name=name or f"{self._name}_NumAccumulated")

    def set_global_step(self, new_global_step: Any, name: str | None = None) -> Operation:
        """An operation that sets its time step: gradients of earlier steps are stale. Going back is logged."""
        return build("AccumulatorSetGlobalStep", self._accumulator_ref, _int64(new_global_step), name=name)


def _handle(kind: str, dtype: Any, shape: Any, shared_name: str | None, name: str, reduction_type: str) -> Tensor:
    return build(
        kind,
        dtype=dtype,
        shape=TensorShape(shape).raw,
        shared_name=shared_name or "",
        reduction_type=reduction_type,
        name=name,
    )


@public("ConditionalAccumulator")
class ConditionalAccumulator(ConditionalAccumulatorBase):
    """Gradients that are not stale, added up until somebody takes their mean.

    Args:
        dtype: dtype of a gradient.
        shape: shape of a gradient, known in part or not at all if need be.
        shared_name: name under which sessions share it; its own if None.
        name: name of the op.
        reduction_type: ``"MEAN"`` or ``"SUM"``, what is taken.

    Example:
        >>> import anabranch as tf
        >>> accumulator = tf.ConditionalAccumulator(tf.float32, shape=[2])
        >>> gradient = tf.placeholder(tf.float32, [2])
        >>> apply, mean = accumulator.apply_grad(gradient, local_step=0), accumulator.take_grad(2)
        >>> with tf.Session() as session:
        ...     for value in ([1.0, 2.0], [3.0, 6.0]):
        ...         session.run(apply, {gradient: value})
        ...     print(session.run(mean))
        [2. 4.]
    """

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        handle = _handle("ConditionalAccumulator", dtype, shape, shared_name, name, reduction_type)
        super().__init__(dtype, shape, handle)

    def apply_grad(self, grad: Any, local_step: Any = 0, name: str | None = None) -> Operation:
        """An operation that adds a gradient, unless ``local_step`` is below the accumulator's time step.

        Raises:
            ValueError: its shape does not fit.
        """
        gradient = convert_to_tensor(grad, self._dtype)
        gradient.get_shape().assert_is_compatible_with(self._shape)
        return build("AccumulatorApplyGradient", self._accumulator_ref, _int64(local_step), gradient, name=name)

    def take_grad(self, num_required: Any, name: str | None = None) -> Tensor:
        """The mean (or sum) of all gradients, once there are ``num_required``; its time step goes on by one."""
        taken = build("AccumulatorTakeGradient", self._accumulator_ref, num_required, dtype=self._dtype, name=name)
        taken.set_shape(self._shape)
        return taken


@public("SparseConditionalAccumulator", "sparse.SparseConditionalAccumulator")
class SparseConditionalAccumulator(ConditionalAccumulatorBase):
    """Gradients of some rows (IndexedSlices) that are not stale, added up until somebody takes their mean.

    The mean of a row is over the gradients that have it.

    Args:
        dtype: dtype of a gradient.
        shape: dense shape of a gradient, known in part or not at all if need be.
        shared_name: name under which sessions share it; its own if None.
        name: name of the op.
        reduction_type: ``"MEAN"`` or ``"SUM"``, what is taken.
    """

    def __init__(
        self,
        dtype: Any,
        shape: Any = None,
        shared_name: str | None = None,
        name: str = "sparse_conditional_accumulator",
        reduction_type: str = "MEAN",
    ) -> None:
        handle = _handle("SparseConditionalAccumulator", dtype, shape, shared_name, name, reduction_type)
        super().__init__(dtype, shape, handle)

    def apply_indexed_slices_grad(self, grad: Any, local_step: Any = 0, name: str | None = None) -> Operation:
        """An operation that adds a gradient given as IndexedSlices, unless it is stale."""
        return self.apply_grad(grad.indices, grad.values, grad.dense_shape, local_step, name)

    def apply_grad(
        self, grad_indices: Any, grad_values: Any, grad_shape: Any = None, local_step: Any = 0, name: str | None = None
    ) -> Operation:
        """An operation that adds a gradient, unless ``local_step`` is below the accumulator's time step.

        Args:
            grad_indices: rows ``[n]``, in increasing order.
            grad_values: their values ``[n, ...]``.
            grad_shape: dense shape of the gradient, or None.
            local_step: the step at which it was computed.
            name: name of the operation.
        """
        empty: list[int] = []
        return build(
            "SparseAccumulatorApplyGradient",
            self._accumulator_ref,
            _int64(local_step),
            _int64(grad_indices),
            convert_to_tensor(grad_values, self._dtype),
            convert_to_tensor(empty, dtypes.int64) if grad_shape is None else _int64(grad_shape),
            has_known_shape=grad_shape is not None,
            name=name,
        )

    def take_grad(self, num_required: Any, name: str | None = None) -> Any:
        """Indices, values and dense shape of the mean (or sum) of all gradients, once there are ``num_required``."""
        return build("SparseAccumulatorTakeGradient", self._accumulator_ref, num_required, dtype=self._dtype, name=name)

    def take_indexed_slices_grad(self, num_required: Any, name: str | None = None) -> IndexedSlices:
        """The mean (or sum) of all gradients as IndexedSlices, once there are ``num_required``."""
        indices, values, shape = self.take_grad(num_required, name)
        return IndexedSlices(values, indices, shape)
