"""Variables behind resource handles: ``VarHandleOp``, ``ReadVariableOp``, ``AssignVariableOp`` and their kin.

A handle knows dtype and shape of its variable where it was made (``handle_data``), which is what shape rules ask. In
kernels the operand is the variable's value, as for refs, and the formulas are the same ones.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.kernels import borrows
from anabranch.core.contract.opdef import (
    PURE,
    SELECT,
    AtLeast,
    Bool,
    Cost,
    Int,
    List,
    NotDifferentiable,
    Op,
    Role,
    Shape,
    String,
    Type,
    channel,
    define,
    read,
    write,
)
from anabranch.core.graph.build import build
from anabranch.core.graph.indexed_slices import IndexedSlices
from anabranch.core.values import shapes
from anabranch.ops.state import scatter_rules
from anabranch.ops.state.ref_variables import _WHAT, _WRITES, below_limit, row_fields, slice_fields
from anabranch.ops.state.scatter_rules import NUMBERS


def variable_shape(
    c: inference.ShapeContext, operand: str = "resource", dtype: Any = None, doing: str = "use"
) -> inference.RawShape:
    """Shape of the variable behind a handle; TypeError if the op's dtype is not the variable's."""
    handle = c.handle(operand)
    if handle is None:
        return None
    if dtype is not None and handle.dtype.base != dtype:
        raise ValueError(
            f"Trying to {doing} variable with wrong dtype. Expected {handle.dtype.base.name} got {dtype.name}\n"
            + errors.message(
                f"dtype {dtype.name} for a variable of {handle.dtype.base.name}",
                handle.dtype.base.name,
                "cast the value with tf.cast",
            )
        )
    return handle.shape


class VarHandleOp(Op):
    """A handle to a variable of ``dtype`` and ``shape``, uninitialised until it is assigned."""

    signature = "-> resource: resource"
    attrs = {
        "container": String(""),
        "shared_name": String(""),
        "debug_name": String(""),
        "dtype": Type(),
        "shape": Shape(),
        "allowed_devices": List("string", ()),
    }
    effect = PURE
    makes = "variable"
    gradient = NotDifferentiable("a handle has no gradient")

    def shape(c):
        c.set_handle(0, c.attrs["dtype"], c.attrs["shape"])
        return ()


class ReadVariableOp(Op):
    """The variable's value."""

    signature = "resource: resource -> value: dtype"
    attrs = {"dtype": Type()}
    effect = read("resource")
    passes = "resource"

    def shape(c):
        return variable_shape(c, dtype=c.attrs["dtype"], doing="read")

    def kernel(ctx, inputs, attrs):
        return inputs[0]

    def gradient(op, grad):
        return [grad]


class VarIsInitializedOp(Op):
    """Whether the variable has a value; a scalar bool."""

    signature = "resource: resource -> is_initialized: bool"
    effect = read("resource", presence=True)
    allows_uninitialized = True
    shape = inference.scalar
    gradient = NotDifferentiable("a bool has no gradient")

    def kernel(ctx, inputs, attrs):
        return ctx.xp.asarray(inputs[0], bool)


class VariableShape(Op):
    """Shape of the variable, a vector of ``out_type``."""

    signature = "input: resource -> output: out_type"
    attrs = {"out_type": Type("int32 int64", "int32")}
    effect = read("input")
    gradient = NotDifferentiable("a shape has no gradient")

    def shape(c):
        shape = variable_shape(c, "input")
        return (None if shape is None else len(shape),)

    def value(c):
        return variable_shape(c, "input")

    def kernel(ctx, inputs, attrs):
        return np.array(inputs[0].shape, attrs["out_type"].np)


class DisableCopyOnRead(Op):
    """Nothing: reads of a variable never copy it here."""

    signature = "resource: resource ->"
    effect = read("resource", presence=True)
    allows_uninitialized = True
    shape = inference.no_outputs
    gradient = NotDifferentiable("it has no outputs")

    def kernel(ctx, inputs, attrs):
        return ()


class DestroyResourceOp(Op):
    """Remove the resource behind the handle; unless ``ignore_lookup_error``, NotFoundError if there is none."""

    signature = "resource: resource ->"
    attrs = {"ignore_lookup_error": Bool(True)}
    effect = channel("resource")
    shape = inference.no_outputs
    gradient = NotDifferentiable("it has no outputs")

    def host_kernel(ctx, inputs, attrs):
        ctx.release(inputs[0], ignore_missing=attrs["ignore_lookup_error"])


# ------------------------------------------------------------------------------------------------------------- writes
def _assigned_shape(c):
    known = variable_shape(c, dtype=c.attrs["dtype"], doing="assign")
    if not shapes.is_compatible(known, c.shape("value")):
        raise ValueError(
            errors.message(
                f"a value of shape {shapes.show(c.shape('value'))} for a variable of shape {shapes.show(known)}",
                "the variable's shape",
                "reshape the value, or make the variable with validate_shape=False",
            )
        )
    return []


class AssignVariableOp(Op):
    """Give the variable ``value``, whose shape must fit the one that the handle was made with."""

    signature = "resource: resource, value: dtype ->"
    attrs = {"dtype": Type(), "validate_shape": Bool(False)}
    effect = write("resource", reads=False)
    passes = "value"
    predication = SELECT
    allows_uninitialized = True
    shape = _assigned_shape
    gradient = _WRITES

    def kernel(ctx, inputs, attrs):
        return inputs[1]


def _same_shape(ctx, inputs, attrs):
    if inputs[0].shape == inputs[1].shape:
        return  # without making the text
    ctx.check(
        False,
        errors.InvalidArgumentError,
        f"Cannot update variable with shape {shapes.show(inputs[0].shape)} using a Tensor with shape "
        f"{shapes.show(inputs[1].shape)}, shapes must be equal.",
    )


class AssignAddVariableOp(Op):
    """Add ``value``, of the variable's shape, to the variable."""

    signature = "resource: resource, value: dtype ->"
    attrs = {"dtype": Type()}
    effect = write("resource")
    predication = SELECT
    checks = _same_shape
    shape = _assigned_shape
    gradient = _WRITES

    def kernel(ctx, inputs, attrs):
        return inputs[0] + inputs[1]


class AssignSubVariableOp(Op):
    """Subtract ``value``, of the variable's shape, from the variable."""

    signature = "resource: resource, value: dtype ->"
    attrs = {"dtype": Type()}
    effect = write("resource")
    predication = SELECT
    checks = _same_shape
    shape = _assigned_shape
    gradient = _WRITES

    def kernel(ctx, inputs, attrs):
        return inputs[0] - inputs[1]


class ResourceCountUpTo(Op):
    """Add 1 to the scalar variable and return its old value; OutOfRangeError once it has reached ``limit``."""

    signature = "resource: resource -> output: T"
    attrs = {"limit": Int(), "T": Type("int32 int64")}
    effect = write("resource")
    predication = SELECT
    checks = below_limit
    gradient = NotDifferentiable("it counts integers")

    def shape(c):
        shapes.with_rank(variable_shape(c, dtype=c.attrs["T"]), 0)
        return ()

    def kernel(ctx, inputs, attrs):
        return inputs[0] + 1, inputs[0]


# ------------------------------------------------------------------------------------------------------------- gathers
class ResourceGather(Op):
    """Rows ``indices`` of the variable: shape ``indices.shape + variable.shape[1:]`` (without ``batch_dims``)."""

    signature = "resource: resource, indices: Tindices -> output: dtype"
    attrs = {"batch_dims": Int(0), "validate_indices": Bool(True), "dtype": Type(), "Tindices": Type("int32 int64")}
    effect = read("resource")
    ranks = {"resource": AtLeast(1)}
    role = Role.ROWS
    cost = Cost.INDEXED

    def shape(c):
        return scatter_rules.gather_shape(
            variable_shape(c, dtype=c.attrs["dtype"], doing="read"), c.shape("indices"), c.attrs["batch_dims"]
        )

    def checks(ctx, inputs, attrs):
        # TensorFlow refuses indices out of range whatever validate_indices says.
        dims = _batch_dims(inputs[1], attrs)
        ctx.check(
            0 <= dims < inputs[0].ndim and dims <= inputs[1].ndim,
            errors.InvalidArgumentError,
            f"batch_dims {dims} must be less than rank(params) = {inputs[0].ndim}, and no more than rank(indices)",
        )
        if dims < inputs[0].ndim:
            scatter_rules.check_rows(ctx, inputs[1], inputs[0].shape[dims])

    @borrows
    def kernel(ctx, inputs, attrs):
        return scatter_rules.gather_rows(ctx, *inputs, batch_dims=_batch_dims(inputs[1], attrs))

    def gradient(op, grad):
        if op.get_attr("batch_dims"):
            raise NotImplementedError(
                errors.message(
                    "the gradient of a ResourceGather with batch_dims",
                    "batch_dims=0",
                    "read the variable and use tf.gather(v.read_value(), indices, batch_dims=...)",
                )
            )
        handle, indices = op.inputs
        shape = build("VariableShape", handle, out_type="int64")
        size = build("ExpandDims", build("Size", indices), 0)
        inner = build("StridedSlice", build("VariableShape", handle), [1], [0], [1], end_mask=1)
        values = build("Reshape", grad, build("ConcatV2", [size, inner], 0))
        return [IndexedSlices(values, build("Reshape", indices, size), shape), None]


def _batch_dims(indices: Any, attrs: Any) -> int:
    return attrs["batch_dims"] + (indices.ndim if attrs["batch_dims"] < 0 else 0)


class ResourceGatherNd(Op):
    """Slices of the variable at ``indices`` ``[..., k]``: shape ``indices.shape[:-1] + variable.shape[k:]``."""

    signature = "resource: resource, indices: Tindices -> output: dtype"
    attrs = {"dtype": Type(), "Tindices": Type("int32 int64")}
    effect = read("resource")
    ranks = {"indices": AtLeast(1)}
    cost = Cost.INDEXED

    def shape(c):
        return scatter_rules.gather_slices_shape(
            variable_shape(c, dtype=c.attrs["dtype"], doing="read"), c.shape("indices")
        )

    def checks(ctx, inputs, attrs):
        scatter_rules.check_slices(ctx, inputs[1], inputs[0].shape, "param shape")

    def kernel(ctx, inputs, attrs):
        return scatter_rules.gather_slices(ctx, *inputs)

    def gradient(op, grad):
        handle, indices = op.inputs
        shape = build("VariableShape", handle, out_type=indices.dtype.base)
        if indices.shape.ndims == 2 and indices.shape.as_list()[-1] == 1:
            return [IndexedSlices(grad, build("Squeeze", indices, squeeze_dims=[-1]), shape), None]
        return [build("ScatterNd", indices, grad, shape), None]


# ------------------------------------------------------------------------------------------------------------ scatters
def _row_shape(c):
    scatter_rules.row_shape(
        c, variable_shape(c, dtype=c.attrs["dtype"], doing="update"), c.shape("indices"), c.shape("updates")
    )
    return []


def _slice_shape(c):
    scatter_rules.slice_shape(
        c, variable_shape(c, "ref", c.attrs["T"], "update"), c.shape("indices"), c.shape("updates")
    )
    return []


for _mode in scatter_rules.ROW_MODES:
    define(
        f"ResourceScatter{_mode}",
        f"{_WHAT[_mode]} rows ``indices`` of the variable; updates have shape ``indices.shape + "
        "variable.shape[1:]`` or are a scalar.",
        signature="resource: resource, indices: Tindices, updates: dtype ->",
        attrs={"dtype": Type(None if _mode == "Update" else NUMBERS), "Tindices": Type("int32 int64")},
        effect=write("resource"),
        shape=_row_shape,
        **row_fields(_mode, "resource"),
    )

for _mode in scatter_rules.SLICE_MODES:
    define(
        f"ResourceScatterNd{_mode}",
        f"{_WHAT[_mode]} the slices ``indices`` ``[..., k]`` of the variable; updates have shape "
        "``indices.shape[:-1] + variable.shape[k:]``.",
        signature="ref: resource, indices: Tindices, updates: T ->",
        attrs={
            "T": Type(),
            "Tindices": Type("int32 int64"),
            "use_locking": Bool(True),
            "bad_indices_policy": String(""),
        },
        effect=write("ref"),
        shape=_slice_shape,
        **slice_fields(_mode),
    )
