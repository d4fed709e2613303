"""``tf.assign`` and its kin: one function for both forms of a variable.

A reference (a variable in that form, or the raw reference tensor of an imported graph) goes to the op on references;
a variable behind a handle goes to its own methods. ``use_locking`` and ``validate_shape`` are attributes of the
former; writes of a step are never seen half done, whatever they say.
"""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.variables.resource_variable import ResourceVariable


def _on_ref(ref: Any, function: str) -> bool:
    """Whether ``ref`` is a reference; False for a variable behind a handle, AttributeError for anything else."""
    if isinstance(ref, ResourceVariable):
        return False
    dtype = getattr(ref, "dtype", None)
    if getattr(dtype, "is_ref", False):
        return True
    if isinstance(ref, Tensor):
        given = f"tensor {ref.name!r}, a value"
    else:
        given = f"a {type(ref).__name__}"
    raise AttributeError(
        f"{type(ref).__name__!r} object has no attribute {function!r}\n"
        + errors.message(
            f"{given}, as the first argument of tf.{function}", "a tf.Variable", "pass the variable itself"
        )
    )


@public("assign")
def assign(
    ref: Any, value: Any, validate_shape: bool | None = None, use_locking: bool | None = None, name: str | None = None
) -> Any:
    """Give the variable ``ref`` ``value``; return it as it is afterwards.

    With ``validate_shape=False`` the value may have another shape than the variable, which takes it on.
    """
    if isinstance(ref, Tensor) and hasattr(ref, "assign"):  # part of a variable, as in tf.assign(v[1, :], x)
        return ref.assign(value, name=name)
    if _on_ref(ref, "assign"):
        return build("Assign", ref, value, validate_shape=validate_shape, use_locking=use_locking, name=name)
    if validate_shape is False and not ref.shape.is_fully_defined():
        validate_shape = None  # the handle's own shape already leaves room
    if validate_shape is False:
        raise NotImplementedError(
            errors.message(
                f"validate_shape=False for resource variable {ref.name!r} of shape {ref.shape}",
                "a variable made with room for other shapes",
                "tf.Variable(..., use_resource=True, shape=tf.TensorShape(None))",
            )
        )
    return ref.assign(value, use_locking=use_locking, name=name)


@public("assign_add")
def assign_add(ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None) -> Any:
    """Add ``value`` to the variable ``ref``; return it as it is afterwards."""
    if _on_ref(ref, "assign_add"):
        return build("AssignAdd", ref, value, use_locking=use_locking, name=name)
    return ref.assign_add(value, use_locking=use_locking, name=name)


@public("assign_sub")
def assign_sub(ref: Any, value: Any, use_locking: bool | None = None, name: str | None = None) -> Any:
    """Subtract ``value`` from the variable ``ref``; return it as it is afterwards."""
    if _on_ref(ref, "assign_sub"):
        return build("AssignSub", ref, value, use_locking=use_locking, name=name)
    return ref.assign_sub(value, use_locking=use_locking, name=name)


def _scatter(mode: str, ref: Any, indices: Any, updates: Any, use_locking: bool | None, name: str | None) -> Any:
    if _on_ref(ref, f"scatter_{mode.lower()}"):
        return build(f"Scatter{mode}", ref, indices, updates, use_locking=use_locking, name=name)
    return ref._scatter(mode, indices, updates, use_locking, name)


@public("scatter_update")
def scatter_update(ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Any:
    """Replace rows ``indices`` of the variable by ``updates`` (``indices.shape + ref.shape[1:]``, or a scalar)."""
    return _scatter("Update", ref, indices, updates, use_locking, name)


@public("scatter_add")
def scatter_add(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Add ``updates`` (``indices.shape + ref.shape[1:]``, or a scalar) to rows ``indices`` of the variable."""
    return _scatter("Add", ref, indices, updates, use_locking, name)


@public("scatter_sub")
def scatter_sub(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Subtract ``updates`` (``indices.shape + ref.shape[1:]``, or a scalar) from rows ``indices`` of the variable."""
    return _scatter("Sub", ref, indices, updates, use_locking, name)


@public("scatter_mul")
def scatter_mul(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Multiply rows ``indices`` of the variable by ``updates`` (``indices.shape + ref.shape[1:]``, or a scalar)."""
    return _scatter("Mul", ref, indices, updates, use_locking, name)


@public("scatter_div")
def scatter_div(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Divide rows ``indices`` of the variable by ``updates`` (``indices.shape + ref.shape[1:]``, or a scalar)."""
    return _scatter("Div", ref, indices, updates, use_locking, name)


@public("scatter_min")
def scatter_min(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Take the minimum of rows ``indices`` and ``updates`` (``indices.shape + ref.shape[1:]``, or a scalar)."""
    return _scatter("Min", ref, indices, updates, use_locking, name)


@public("scatter_max")
def scatter_max(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Take the maximum of rows ``indices`` and ``updates`` (``indices.shape + ref.shape[1:]``, or a scalar)."""
    return _scatter("Max", ref, indices, updates, use_locking, name)


@public("scatter_nd_update")
def scatter_nd_update(ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None) -> Any:
    """Replace the slices at ``indices`` ``[..., k]`` by ``updates`` (``indices.shape[:-1] + ref.shape[k:]``)."""
    return _scatter("NdUpdate", ref, indices, updates, use_locking, name)


@public("scatter_nd_add")
def scatter_nd_add(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Add ``updates`` (``indices.shape[:-1] + ref.shape[k:]``) to the slices at ``indices`` ``[..., k]``."""
    return _scatter("NdAdd", ref, indices, updates, use_locking, name)


@public("scatter_nd_sub")
def scatter_nd_sub(ref: Any, indices: Any, updates: Any, use_locking: bool = False, name: str | None = None) -> Any:
    """Subtract ``updates`` (``indices.shape[:-1] + ref.shape[k:]``) from the slices at ``indices`` ``[..., k]``."""
    return _scatter("NdSub", ref, indices, updates, use_locking, name)


@public("batch_scatter_update")
def batch_scatter_update(
    ref: Any, indices: Any, updates: Any, use_locking: bool = True, name: str | None = None
) -> Any:
    """Replace, in each batch, rows of the variable: ``ref[b, indices[b, i]] = updates[b, i]``.

    Args:
        ref: variable ``[batch..., n, ...]``.
        indices: integers ``[batch..., k]``.
        updates: ``[batch..., k, ...]``.
        use_locking: as in :func:`assign`.
        name: name of the scope of the ops made.
    """
    with name_scope(name):
        indices = convert.convert_to_tensor(indices, name="indices")
        rank = indices.shape.ndims
        if rank is None:
            raise ValueError(
                "batch_scatter_update does not allow indices with unknown shape.\n"
                + errors.message(
                    f"indices {indices.name!r} of unknown rank", "indices of known rank", "indices.set_shape([None, 1])"
                )
            )
        size = build("Shape", indices, out_type=indices.dtype.base)
        last = build("ExpandDims", indices, -1)
        coordinates = []
        for axis in range(rank - 1):
            count = build("StridedSlice", size, [axis], [axis + 1], [1], shrink_axis_mask=1)
            steps = build(
                "Range", convert.constant(0, indices.dtype.base), count, convert.constant(1, indices.dtype.base)
            )
            steps = build("Reshape", steps, [-1 if i == axis else 1 for i in range(rank + 1)])
            coordinates.append(build("Mul", steps, build("OnesLike", last)))
        where = build("ConcatV2", [*coordinates, last], -1)
        return scatter_nd_update(ref, where, updates, use_locking=use_locking)


@public("count_up_to")
def count_up_to(ref: Any, limit: int, name: str | None = None) -> Tensor:
    """Add 1 to the scalar variable and return its old value; OutOfRangeError once it has reached ``limit``."""
    if _on_ref(ref, "count_up_to"):
        return build("CountUpTo", ref, limit=limit, name=name)
    return build("ResourceCountUpTo", ref.handle, limit=limit, T=ref.dtype, name=name)


@public("is_variable_initialized")
def is_variable_initialized(variable: Any) -> Tensor:
    """Whether the variable has a value, a scalar bool."""
    if _on_ref(variable, "is_variable_initialized"):
        return build("IsVariableInitialized", variable)
    return variable.is_initialized()
