"""Variables behind reference edges: ``VariableV2``, ``Assign`` and its kin, scatters by ref.

Where and when a ref is read or written is the runtime's business; here stands what each op computes from the variable's
value. Outputs that are refs are never returned by a kernel: they are the written operand.
"""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract import inference
from anabranch.core.contract.opdef import (
    PURE,
    SELECT,
    AtLeast,
    Bool,
    Int,
    NotDifferentiable,
    Op,
    Shape,
    String,
    Type,
    define,
    read,
    rows,
    write,
)
from anabranch.core.values import shapes
from anabranch.ops.state import scatter_rules
from anabranch.ops.state.scatter_rules import NUMBERS

_WRITES = NotDifferentiable("it writes a variable; differentiate with respect to the variable")


def _variable_shape(c):
    return c.attrs["shape"]


class VariableV2(Op):
    """A variable of ``shape``, uninitialised until it is assigned; the output is its reference."""

    signature = "-> ref: Ref(dtype)"
    attrs = {"shape": Shape(), "dtype": Type(), "container": String(""), "shared_name": String("")}
    effect = PURE
    makes = "variable"
    shape = _variable_shape
    gradient = NotDifferentiable("a variable has no inputs")


class Variable(Op):
    """The old form of ``VariableV2``, in which a scalar shape means an unknown one."""

    signature = "-> ref: Ref(dtype)"
    attrs = {"shape": Shape(), "dtype": Type(), "container": String(""), "shared_name": String("")}
    effect = PURE
    makes = "variable"
    gradient = NotDifferentiable("a variable has no inputs")

    def shape(c):
        return c.attrs["shape"] or None


class IsVariableInitialized(Op):
    """Whether the variable has a value; a scalar bool."""

    signature = "ref: Ref(dtype) -> is_initialized: bool"
    attrs = {"dtype": Type()}
    effect = read("ref", presence=True)
    allows_uninitialized = True
    shape = inference.scalar
    gradient = NotDifferentiable("a bool has no gradient")

    def kernel(ctx, inputs, attrs):
        return ctx.xp.asarray(inputs[0], bool)


class Assign(Op):
    """Give the variable ``value``; with ``validate_shape`` its shape must be the variable's."""

    signature = "ref: Ref(T), value: T -> output_ref: Ref(T)"
    attrs = {"T": Type(), "validate_shape": Bool(True), "use_locking": Bool(True)}
    effect = write("ref", reads=False)
    passes = "value"
    predication = SELECT
    allows_uninitialized = True
    gradient = _WRITES

    def shape(c):
        if not c.attrs["validate_shape"]:
            return c.shape("value")
        if not shapes.is_compatible(c.shape("ref"), c.shape("value")):
            raise ValueError(
                "Assign requires shapes of both tensors to match. "
                f"lhs shape= {shapes.show(c.shape('ref'))} rhs shape= {shapes.show(c.shape('value'))}\n"
                + errors.message(
                    f"a value of shape {shapes.show(c.shape('value'))} for a variable of shape "
                    f"{shapes.show(c.shape('ref'))}",
                    "the variable's shape",
                    "reshape the value, or tf.assign(..., validate_shape=False) to change the shape",
                )
            )
        return shapes.merge(c.shape("ref"), c.shape("value"))

    def kernel(ctx, inputs, attrs):
        return inputs[1]


def same_size(ctx: Any, inputs: Any, attrs: Any) -> None:
    """Check of dense updates: variable and update have one shape."""
    ctx.check(
        inputs[0].shape == inputs[1].shape,
        errors.InvalidArgumentError,
        f"Parameters and update must be the same size: {shapes.show(inputs[0].shape)} vs. "
        f"{shapes.show(inputs[1].shape)}",
    )


class AssignAdd(Op):
    """Add ``value``, of the variable's shape, to the variable."""

    signature = "ref: Ref(T), value: T -> output_ref: Ref(T)"
    attrs = {"T": Type(NUMBERS), "use_locking": Bool(False)}
    effect = write("ref")
    predication = SELECT
    checks = same_size
    shape = inference.merged
    gradient = _WRITES

    def kernel(ctx, inputs, attrs):
        return inputs[0] + inputs[1]


class AssignSub(Op):
    """Subtract ``value``, of the variable's shape, from the variable."""

    signature = "ref: Ref(T), value: T -> output_ref: Ref(T)"
    attrs = {"T": Type(NUMBERS), "use_locking": Bool(False)}
    effect = write("ref")
    predication = SELECT
    checks = same_size
    shape = inference.merged
    gradient = _WRITES

    def kernel(ctx, inputs, attrs):
        return inputs[0] - inputs[1]


def below_limit(ctx: Any, inputs: Any, attrs: Any) -> None:
    """Check of counters: OutOfRangeError at the limit."""
    ctx.check(inputs[0] < attrs["limit"], errors.OutOfRangeError, f"Reached limit of {attrs['limit']}")


class CountUpTo(Op):
    """Add 1 to the scalar variable and return its old value; OutOfRangeError once it has reached ``limit``."""

    signature = "ref: Ref(T) -> output: T"
    attrs = {"limit": Int(), "T": Type("int32 int64")}
    effect = write("ref")
    predication = SELECT
    checks = below_limit
    gradient = NotDifferentiable("it counts integers")

    def shape(c):
        return c.with_rank("ref", 0)

    def kernel(ctx, inputs, attrs):
        return inputs[0] + 1, inputs[0]


# ------------------------------------------------------------------------------------------------------------ scatters
def row_fields(mode: str, variable: str) -> dict[str, Any]:
    """Checks and kernel of a row scatter to ``variable``; operands are variable, indices, update."""

    def checks(ctx, inputs, attrs):
        scatter_rules.check_rows(ctx, inputs[1], inputs[0].shape[0])
        if mode == "Div":
            scatter_rules.check_divisors(ctx, inputs[2])

    def kernel(ctx, inputs, attrs):
        return scatter_rules.scatter_rows(ctx, mode, *inputs)

    ranks = {} if variable == "ref" else {variable: AtLeast(1)}  # of a reference the shape rule says it
    return {"checks": checks, "kernel": kernel, "predication": rows("indices"), "gradient": _WRITES, "ranks": ranks}


def slice_fields(mode: str) -> dict[str, Any]:
    """Checks and kernel of an n-dimensional scatter; operands are variable, indices, update."""

    def checks(ctx, inputs, attrs):
        if attrs["bad_indices_policy"] != "IGNORE":
            scatter_rules.check_slices(ctx, inputs[1], inputs[0].shape)

    def kernel(ctx, inputs, attrs):
        return scatter_rules.scatter_slices(ctx, mode, *inputs, drop=attrs["bad_indices_policy"] == "IGNORE")

    predication = rows("indices", coordinates=True)
    ranks = {"indices": AtLeast(1)}
    return {"checks": checks, "kernel": kernel, "predication": predication, "gradient": _WRITES, "ranks": ranks}


def _row_shape(c):
    return scatter_rules.row_shape(c, *c.shapes)


def _slice_shape(c):
    return scatter_rules.slice_shape(c, *c.shapes)


_WHAT = {
    "Update": "Replaces",
    "Add": "Adds to",
    "Sub": "Subtracts from",
    "Mul": "Multiplies",
    "Div": "Divides",
    "Min": "Takes the minimum with",
    "Max": "Takes the maximum with",
}

for _mode in scatter_rules.ROW_MODES:
    _allowed = (
        None if _mode == "Update" else "half bfloat16 float double int32 int64" if _mode in ("Min", "Max") else NUMBERS
    )
    define(
        f"Scatter{_mode}",
        f"{_WHAT[_mode]} rows ``indices`` of the variable; updates have shape ``indices.shape + ref.shape[1:]`` "
        "or are a scalar.",
        signature="ref: Ref(T), indices: Tindices, updates: T -> output_ref: Ref(T)",
        attrs={"T": Type(_allowed), "Tindices": Type("int32 int64"), "use_locking": Bool(_mode == "Update")},
        effect=write("ref"),
        shape=_row_shape,
        **row_fields(_mode, "ref"),
    )

for _mode in scatter_rules.SLICE_MODES:
    define(
        f"ScatterNd{_mode}",
        f"{_WHAT[_mode]} the slices ``indices`` ``[..., k]`` of the variable; updates have shape "
        "``indices.shape[:-1] + ref.shape[k:]``.",
        signature="ref: Ref(T), indices: Tindices, updates: T -> output_ref: Ref(T)",
        attrs={
            "T": Type(None if _mode == "Update" else NUMBERS),
            "Tindices": Type("int32 int64"),
            "use_locking": Bool(_mode == "Update"),
            "bad_indices_policy": String(""),
        },
        effect=write("ref"),
        shape=_slice_shape,
        **slice_fields(_mode),
    )
