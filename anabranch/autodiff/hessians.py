"""Hessians: ``tf.hessians``.

The rows of a Hessian are gradients of the gradient's elements. A few are built side by side; many, or a number that is
not known while the graph is built, in a loop.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from anabranch.autodiff.gradients import UnconnectedGradients, gradients, listed, source_tensor, tensor_of
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import constant, convert_to_tensor
from anabranch.core.graph.default_graph import graph_of
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes, shapes
from anabranch.ops.control.public_while import while_loop

MOST_UNROLLED = 16
"""Rows that are built side by side."""


@public("hessians")
def hessians(
    ys: Any,
    xs: Any,
    name: str = "hessians",
    colocate_gradients_with_ops: bool = False,
    gate_gradients: bool = False,
    aggregation_method: int | None = None,
) -> list[Tensor]:
    """Add operations that compute the Hessian of the sum of ``ys`` with respect to each of ``xs``.

    Args:
        ys: a tensor or a list of tensors.
        xs: a tensor or variable, or a list of them.
        name: name scope of the new operations.
        colocate_gradients_with_ops: see `tf.gradients`.
        gate_gradients: see `tf.gradients`.
        aggregation_method: see `tf.gradients`.

    Returns:
        For each x, a tensor of shape ``x.shape + x.shape`` (the blocks between different xs are not computed).

    Raises:
        ValueError: no gradient flows from ``ys`` to an x.
    """
    xs = listed(xs, "xs")
    options: dict[str, Any] = {
        "colocate_gradients_with_ops": colocate_gradients_with_ops,
        "gate_gradients": gate_gradients,
        "aggregation_method": aggregation_method,
    }
    graph = graph_of(tensor_of(item) for item in (*listed(ys, "ys"), *xs))
    with graph.as_default(), graph.name_scope(name or "hessians"), graph.shared_site():
        firsts = gradients(ys, xs, **options)
        return [_hessian(first, x, options) for first, x in zip(firsts, xs, strict=True)]


def _hessian(first: Any, x: Any, options: dict[str, Any]) -> Tensor:
    source = source_tensor(x, 0)
    if first is None:
        raise ValueError(
            errors.message(
                f"no gradient with respect to {source.name!r}, so no Hessian",
                "ys that depend on it through differentiable operations",
                "leave it out of xs, or use zeros of shape x.shape + x.shape",
            )
        )
    handle = source.handle_data if source.dtype.base is dtypes.resource else None
    shape = handle.shape if handle is not None else source._shape
    size = shapes.num_elements(shape)
    dense = convert_to_tensor(first)
    flat = build("Reshape", dense, [-1])

    def row(i: Any) -> Tensor:
        entry = build("Reshape", build("Slice", flat, [i], [1]), [])
        row_gradient = gradients(entry, x, unconnected_gradients=UnconnectedGradients.ZERO, **options)[0]
        return build("Reshape", convert_to_tensor(row_gradient), [-1])

    if size == 0:
        assert shape is not None
        return build("Reshape", flat, [*shape, *shape])
    if size is not None and size <= MOST_UNROLLED:
        rows = build("Pack", [row(i) for i in range(size)], axis=0)
    else:
        rows = _in_loop(row, flat, size)
    sizes = build("Shape", dense) if shape is None or size is None else constant([*shape], dtypes.int32)
    hessian = build("Reshape", rows, build("ConcatV2", [sizes, sizes], 0))
    if shape is not None:
        hessian.set_shape([*shape, *shape])
    return hessian


def _in_loop(row: Callable[[Tensor], Tensor], flat: Tensor, size: int | None) -> Tensor:
    """The rows, one after the other, as a matrix."""
    dtype = flat.dtype.base
    count = build("Size", flat) if size is None else constant(size, dtypes.int32)
    width = constant([-1 if size is None else size], dtypes.int32)
    first = build("TensorListReserve", width, count, element_dtype=dtype)
    _, filled = while_loop(
        lambda i, _: build("Less", i, count),
        lambda i, rows: (build("AddV2", i, 1), build("TensorListSetItem", rows, i, row(i), element_dtype=dtype)),
        [constant(0, dtypes.int32), first],
        maximum_iterations=count,
    )
    return build("TensorListStack", filled, width, element_dtype=dtype, num_elements=-1 if size is None else size)
