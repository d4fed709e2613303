"""``Apply*``, ``SparseApply*``, ``ResourceApply*`` and ``ResourceSparseApply*``: one table row per optimizer.

The formulas are in :mod:`anabranch.ops.state.optimizer_rules`. A dense op writes the variable and its slots whole. A
sparse op gathers the rows that ``indices`` names, applies the same formula, and scatters them back. Rows named more
than once are updated once per occurrence, in order, as TensorFlow's loop does: round r handles the r-th occurrence of
every row, so that unique indices (what optimizers pass) cost one round.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.inference import RawShape, ShapeContext
from anabranch.core.contract.opdef import SELECT_BY_ELEMENT, Bool, NotDifferentiable, Type, define, rows, write
from anabranch.core.values import shapes
from anabranch.ops.shared import row_sums
from anabranch.ops.state import optimizer_rules as rules
from anabranch.ops.state.resource_variables import variable_shape
from anabranch.ops.state.scatter_rules import NUMBERS

_WRITES = NotDifferentiable("an optimizer's update writes variables")


class Optimizer(NamedTuple):
    """A row of the table: state operands, the others in order (``grad`` is the gradient), rule, attributes, which
    forms exist.
    """

    name: str
    state: str
    rest: str
    rule: rules.Rule
    flags: str = ""
    forms: str = "dense sparse ref"
    dense_grad: str = "grad"


TABLE = (
    Optimizer("GradientDescent", "var", "alpha grad", rules.gradient_descent, forms="dense ref", dense_grad="delta"),
    Optimizer(
        "ProximalGradientDescent", "var", "alpha l1 l2 grad", rules.proximal_gradient_descent, dense_grad="delta"
    ),
    Optimizer("Momentum", "var accum", "lr grad momentum", rules.momentum, "use_nesterov=False"),
    Optimizer(
        "KerasMomentum", "var accum", "lr grad momentum", rules.keras_momentum, "use_nesterov=False", "dense sparse"
    ),
    Optimizer("Adagrad", "var accum", "lr grad", rules.adagrad, "update_slots=True"),
    Optimizer("AdagradV2", "var accum", "lr epsilon grad", rules.adagrad_v2, "update_slots=True"),
    Optimizer("ProximalAdagrad", "var accum", "lr l1 l2 grad", rules.proximal_adagrad),
    Optimizer(
        "AdagradDA",
        "var gradient_accumulator gradient_squared_accumulator",
        "grad lr l1 l2 global_step",
        rules.adagrad_da,
    ),
    Optimizer("Adadelta", "var accum accum_update", "lr rho epsilon grad", rules.adadelta),
    Optimizer("RMSProp", "var ms mom", "lr rho momentum epsilon grad", rules.rms_prop),
    Optimizer("CenteredRMSProp", "var mg ms mom", "lr rho momentum epsilon grad", rules.centered_rms_prop),
    Optimizer(
        "Adam",
        "var m v",
        "beta1_power beta2_power lr beta1 beta2 epsilon grad",
        rules.adam,
        "use_nesterov=False",
        "dense ref",
    ),
    Optimizer(
        "AdamWithAmsgrad",
        "var m v vhat",
        "beta1_power beta2_power lr beta1 beta2 epsilon grad",
        rules.adam_with_amsgrad,
        forms="dense",
    ),
    Optimizer("AdaMax", "var m v", "beta1_power lr beta1 beta2 epsilon grad", rules.ada_max, forms="dense ref"),
    Optimizer("AddSign", "var m", "lr alpha sign_decay beta grad", rules.add_sign, forms="dense ref"),
    Optimizer("PowerSign", "var m", "lr logbase sign_decay beta grad", rules.power_sign, forms="dense ref"),
    Optimizer("Ftrl", "var accum linear", "grad lr l1 l2 lr_power", rules.ftrl, "multiply_linear_by_lr=False"),
    Optimizer(
        "FtrlV2", "var accum linear", "grad lr l1 l2 l2_shrinkage lr_power", rules.ftrl, "multiply_linear_by_lr=False"
    ),
)

_SIGNS = {
    "l1": ("l1 regularization strength is not a non-negative scalar: {0}", lambda value, attrs: value >= 0),
    "l2": ("l2 regularization strength is not a non-negative scalar: {0}", lambda value, attrs: value >= 0),
    "l2_shrinkage": (
        "l2 shrinkage regularization strength is not a non-negative scalar: {0}",
        lambda value, attrs: value >= 0,
    ),
    "lr": (
        "lr is not a positive scalar (or zero if multiply_linear_by_lr is set): {0}",
        lambda value, attrs: (value > 0) | ((value == 0) & attrs["multiply_linear_by_lr"]),
    ),
    "lr_power": ("lr_power is not a non-positive scalar: {0}", lambda value, attrs: value <= 0),
}
"""What the sparse forms of FTRL and the proximal optimizers demand of their scalars; the dense forms demand nothing."""


# ---------------------------------------------------------------------------------------------------------- one form
def _shape_rule(state: list[str], rest: list[str], grad: str, sparse: bool, resource: bool) -> Any:
    def shape(c: ShapeContext) -> Any:
        var: RawShape = None
        for operand in state:
            var = shapes.merge(
                var, variable_shape(c, operand, c.attrs["T"], "update") if resource else c.shape(operand)
            )
        for operand in rest:
            if operand not in (grad, "indices"):
                c.with_rank(operand, 0)
        given = c.shape(grad)
        if sparse:
            (count,) = c.with_rank("indices", 1) or (None,)
            if var is not None:
                if not var:
                    raise ValueError(
                        errors.message(
                            "a sparse update of a scalar variable",
                            "a variable of rank 1 or more",
                            "use the dense form of the op",
                        )
                    )
                merged = shapes.merge(given, (count, *var[1:]))
                var = (var[0], *merged[1:])  # type: ignore[index]
            elif given is not None:
                shapes.merge_dim(count, given[0] if given else 0)
        else:
            var = shapes.merge(var, given)
        return [] if resource else var

    return shape


def _checks(row: Optimizer, state: list[str], rest: list[str], grad: str, sparse: bool) -> Any:
    count = len(state)
    signed = ("l1", "l2") if row.name.startswith("Proximal") else tuple(_SIGNS) if row.name.startswith("Ftrl") else ()
    signs = [(count + i, *_SIGNS[name]) for i, name in enumerate(rest) if sparse and name in signed]
    place = count + rest.index("indices") if sparse else 0
    given = count + rest.index(grad)

    def checks(ctx: Any, inputs: Any, attrs: Any) -> None:
        ctx.check(
            attrs["T"].is_floating or attrs["T"].is_complex,
            errors.UnimplementedError,
            f"no kernel for T={attrs['T'].name}: optimizers update floating-point variables; cast the variable",
        )
        first = inputs[0].shape
        for i in range(1, count):
            _require_alike(ctx, first, inputs[i].shape, inputs, (state[0], 0), (state[i], i))
        _require_alike(ctx, first[sparse:], inputs[given].shape[sparse:], inputs, (state[0], 0), (grad, given))
        for position, text, holds in signs:
            ctx.check(holds(inputs[position], attrs), errors.InvalidArgumentError, text, inputs[position])
        if sparse and inputs[place].size:
            indices, limit = inputs[place], inputs[0].shape[0]
            if ctx.host and row_sums.is_within(indices, limit):
                return
            bad = (indices < 0) | (indices >= limit)
            first = ctx.xp.argmax(bad)
            ctx.check(
                ~ctx.xp.any(bad),
                errors.InvalidArgumentError,
                "Index {0} at offset {1} in indices is out of range",
                indices[first],
                first,
            )

    return checks


def _require_alike(ctx: Any, one: Any, other: Any, inputs: Any, left: tuple[str, int], right: tuple[str, int]) -> None:
    """Two operands, given by name and place, must have the same shape (``one``, ``other``)."""
    if one != other:  # the text is made only then: a step asks this hundreds of times
        given = " ".join(shapes.show(inputs[place].shape) for _, place in (left, right))
        text = f"{left[0]} and {right[0]} do not have the same shape {given}"
        ctx.check(False, errors.InvalidArgumentError, text)


def _kernel(row: Optimizer, state: list[str], rest: list[str], grad: str, sparse: bool) -> Any:
    count = len(state)

    def kernel(ctx: Any, inputs: Any, attrs: Any) -> tuple[Any, ...]:
        operands = dict(zip(rest, inputs[count:], strict=True))
        given = operands.pop(grad)
        indices = operands.pop("indices", None)
        o = rules.Operands(ctx, operands, attrs)
        dtype = attrs["T"].np

        def step(old: Any, part: Any) -> tuple[Any, ...]:
            return tuple(new if new.dtype == dtype else new.astype(dtype) for new in row.rule(o, *old, part))

        old = tuple(inputs[:count])
        return _by_rows(ctx, step, old, given, indices) if sparse else step(old, given)

    return kernel


# ------------------------------------------------------------------------------------------------------- sparse rows
def _occurrences(xp: Any, indices: Any, host: bool) -> Any:
    """For each element, how many equal ones stand before it."""
    order = xp.argsort(indices, stable=True)
    ranked = indices[order]
    count = indices.shape[0]
    position = xp.arange(count)
    starts = xp.concatenate([xp.ones((1,), bool), ranked[1:] != ranked[:-1]])
    marks = xp.where(starts, position, 0)
    first = np.maximum.accumulate(marks) if host else _running_max(xp, marks)
    if host:
        result = np.empty(count, np.int64)
        result[order] = position - first
        return result
    return xp.zeros((count,), position.dtype).at[order].set(position - first)


def _running_max(xp: Any, values: Any) -> Any:
    """Cumulative maximum by doubling: log2(n) cheap vector operations, where a scan would be a loop over elements."""
    shift = 1
    while shift < values.shape[0]:
        values = xp.maximum(values, xp.concatenate([xp.zeros((shift,), values.dtype), values[:-shift]]))
        shift *= 2
    return values


def _by_rows(ctx: Any, step: Any, old: tuple[Any, ...], grad: Any, indices: Any) -> tuple[Any, ...]:
    xp = ctx.xp
    if indices.shape[0] == 0:
        return old
    beyond = np.iinfo(indices.dtype).max

    def write(arrays: Any, places: Any) -> tuple[Any, ...]:
        taken = tuple(xp.take(array, indices, axis=0, mode="clip") for array in arrays)
        changed = step(taken, grad)
        return tuple(array.at[places].set(new, mode="drop") for array, new in zip(arrays, changed, strict=True))

    if ctx.distinct_rows and not ctx.host:
        return write(old, indices)
    if ctx.host:
        if ctx.distinct_rows or row_sums.are_distinct(indices):
            taken = tuple([array.take(indices, axis=0) for array in old])
            changed = step(taken, grad)
            result = tuple([ctx.written(array, indices, rows) for array, rows in zip(old, taken, strict=True)])
            for array, new in zip(result, changed, strict=True):
                row_sums.write_rows(array, indices, new)
            return result
        result = tuple(ctx.written(array, indices) for array in old)
    rank = _occurrences(xp, indices, ctx.host)
    if ctx.host:
        for turn in range(int(rank.max()) + 1):
            chosen = rank == turn
            places = indices[chosen]
            for array, new in zip(result, step(tuple(array[places] for array in result), grad[chosen]), strict=True):
                array[places] = new
        return result

    def one_round(carry: Any) -> Any:
        turn, arrays = carry
        return turn + 1, write(arrays, xp.where(rank == turn, indices, beyond))

    last = xp.max(rank)
    return ctx.lax.while_loop(lambda carry: carry[0] <= last, one_round, (last * 0, old))[1]


# -------------------------------------------------------------------------------------------------------- definitions
def _define(row: Optimizer, sparse: bool, resource: bool) -> None:
    grad = "grad" if sparse else row.dense_grad
    state = row.state.split()
    rest = [grad if name == "grad" else name for name in row.rest.split()]
    if sparse:
        rest.insert(rest.index("grad") + 1, "indices")
    kinds = {"indices": "Tindices", "global_step": "int64"}
    arguments = [f"{name}: {'resource' if resource else 'Ref(T)'}" for name in state] + [
        f"{name}: {kinds.get(name, 'T')}" for name in rest
    ]
    attrs: dict[str, Any] = {"T": Type(NUMBERS)}
    if sparse:
        attrs["Tindices"] = Type("int32 int64")
    attrs["use_locking"] = Bool(False)
    if row.flags:
        name, default = row.flags.split("=")
        attrs[name] = Bool(default == "True")
    summary = (row.rule.__doc__ or "").strip()
    where = (
        "Rows ``indices`` (``[n]``, with ``grad`` ``[n, ...]``) of the variable take one step: "
        if sparse
        else "One step of all elements: "
    )
    define(
        f"{'Resource' if resource else ''}{'Sparse' if sparse else ''}Apply{row.name}",
        where + summary,
        signature=f"{', '.join(arguments)} -> {'' if resource else 'out: Ref(T)'}",
        attrs=attrs,
        effect=write(*state),
        predication=rows("indices") if sparse else SELECT_BY_ELEMENT,
        shape=_shape_rule(state, rest, grad, sparse, resource),
        checks=_checks(row, state, rest, grad, sparse),
        kernel=_kernel(row, state, rest, grad, sparse),
        gradient=_WRITES,
    )


for _row in TABLE:
    for _sparse in (False, True):
        if _sparse and "sparse" not in _row.forms:
            continue
        _define(_row, _sparse, resource=True)
        if "ref" in _row.forms:
            _define(_row, _sparse, resource=False)
