"""The gradients of an op's inputs from those of its outputs: one application of a rule.

Reverse walks differ in what they walk over, a graph or the tape of ops that were run at once; what they do at each op
is this. An output that no gradient reaches gets zeros, the rule is called with the op as an :class:`OpView`, and what
it returns is checked against the inputs: as many gradients, of their dtypes, of shapes that fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from anabranch.autodiff import registry
from anabranch.core import errors
from anabranch.core.graph.build import build
from anabranch.core.graph.builder import current_builder
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.graph.tensor import OpView, Tensor
from anabranch.core.values import dtypes, shapes

_DIFFERENTIABLE = frozenset(
    dtype.enum
    for dtype in dtypes.ALL_DTYPES
    if dtype.is_floating or dtype.is_complex or dtype in (dtypes.resource, dtypes.variant)
)


def is_differentiable(tensor: Tensor) -> bool:
    """Whether gradients flow through tensors of this dtype: floats and complex numbers, and handles of state."""
    return tensor.dtype.base.enum in _DIFFERENTIABLE


def input_gradients(op: OpView, grads: Sequence[Any]) -> list[Any]:
    """The gradient of each input of ``op`` (a tensor, `IndexedSlices`, or None), for one gradient or None per output.

    Raises:
        LookupError: the op has no rule. ValueError, TypeError: the rule returned something of the wrong number, shape
            or dtype.
    """
    count = len(op._inputs)
    if not count or all(grad is None for grad in grads):
        return [None] * count
    rule = registry.rule_of(op)
    if rule.function is None:
        return [None] * count
    complete = grads if op.accepts_none else with_zeros(op, grads, zeros_like)
    with current_builder().on_behalf_of(op, rule.of_user):
        return checked(op, rule, registry.call(rule, op, complete), count)


def zeros_like(x: Tensor) -> Tensor:
    """Zeros of the dtype and shape of a gradient with respect to ``x``; they read no variable."""
    if x.dtype.is_ref and shapes.is_static(x._shape):
        zero = constant(0, x.dtype.base, name="zeros/Const")
        return build("Fill", constant(list(x._shape or ()), dtypes.int32, name="zeros/shape"), zero, name="zeros")
    if x.dtype.base is not dtypes.resource:
        return build("ZerosLike", x, name="zeros_like")
    handle = x.handle_data
    if handle is None:
        raise ValueError(
            errors.message(
                f"zeros for the resource {x._label} whose dtype is not known",
                "the handle of a variable",
                "unconnected_gradients=tf.UnconnectedGradients.NONE",
            )
        )
    zero = constant(0, handle.dtype, name="zeros/Const")
    if shapes.is_static(handle.shape):
        return build("Fill", constant(list(handle.shape or ()), dtypes.int32, name="zeros/shape"), zero, name="zeros")
    return build("Fill", build("VariableShape", x), zero, name="zeros")


def with_zeros(op: OpView, grads: Sequence[Any], zeros_of: Callable[[Tensor], Any]) -> list[Any]:
    """The gradients of the outputs, with zeros for a differentiable output that none reaches."""
    return [
        zeros_of(output)
        if grad is None and is_differentiable(output) and output.dtype.base is not dtypes.resource
        else grad
        for output, grad in zip(op._outputs, grads, strict=True)
    ]


def checked(op: OpView, rule: registry.Rule, returned: Any, count: int) -> list[Any]:
    """The gradients that a rule returned, one for each of the ``count`` inputs that the op had, of the inputs' dtypes
    and shapes.
    """
    gradients = (
        list(returned)
        if isinstance(returned, (list, tuple)) and not isinstance(returned, IndexedSlices)
        else [returned]
    )
    if len(gradients) != count:
        raise ValueError(
            f"Num gradients {len(gradients)} generated for op {op.name!r} do not match num inputs {count}\n"
            + errors.message(
                f"{len(gradients)} gradients from {rule.label} for op {op.name!r} of type {op.type!r}",
                f"one for each of its {count} inputs, None where no gradient flows",
                "return [grad_of_first_input, None, ...]",
                at=op.user_site,
            )
        )
    for i, (tensor, gradient) in enumerate(zip(op._inputs[:count], gradients, strict=True)):
        if gradient is None:
            continue
        dtype = dtype_of_gradient(tensor)
        if not isinstance(gradient, (Tensor, IndexedSlices)):
            gradient = gradients[i] = convert_to_tensor(gradient, dtype)
        if dtype is not None and gradient.dtype.base != dtype:
            raise TypeError(
                errors.message(
                    f"a gradient of dtype {gradient.dtype.base.name} from {rule.label} for input {i} of op {op.name!r} "
                    f"of type {op.type!r}",
                    f"{dtype.name}, the dtype of that input ({tensor._label})",
                    f"return tf.cast(gradient, tf.{dtype.name})",
                    at=op.user_site,
                )
            )
        if isinstance(gradient, Tensor) and tensor.dtype.base is not dtypes.resource:
            _refine_shape(op, rule, i, tensor, gradient)
    return gradients


def dtype_of_gradient(tensor: Tensor) -> dtypes.DType | None:
    """The dtype of gradients with respect to a tensor; None if it is a handle to what is not known."""
    if tensor.dtype.base is dtypes.resource:
        return tensor.handle_data.dtype.base if tensor.handle_data is not None else None
    return tensor.dtype.base


def _refine_shape(op: OpView, rule: registry.Rule, index: int, tensor: Tensor, gradient: Tensor) -> None:
    try:
        gradient.set_shape(tensor._shape)
    except ValueError:
        given, wanted = shapes.show(gradient._shape), shapes.show(tensor._shape)
        raise ValueError(
            "Incompatible shapes between op input and calculated input gradient. "
            f"Forward operation: {op.name}. Input index: {index}. Original input shape: {wanted}. "
            f"Calculated input gradient shape: {given}\n"
            + errors.message(
                f"a gradient of shape {given} from {rule.label} for input {index} of op {op.name!r} "
                f"of type {op.type!r}",
                f"{wanted}, the shape of that input ({tensor._label})",
                "sum the gradient over the dimensions that were broadcast, or reshape it",
                at=op.user_site,
            )
        ) from None
