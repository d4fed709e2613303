"""Rules of equations in which places of a padded dimension do not meet: they stay, move, or are taken one by one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.xla import engine
from anabranch.xla.padding.equations import Computation, Equation, Extents, Rules, need
from anabranch.xla.padding.sizes import Line

rules = Rules()

_ELEMENTWISE = frozenset(
    (
        "abs", "acos", "acosh", "add", "add_any", "and", "asin", "asinh", "atan", "atan2", "atanh", "bessel_i0e",
        "bessel_i1e", "bitcast_convert_type", "cbrt", "ceil", "clamp", "clz", "complex", "conj",
        "convert_element_type", "copy", "copy_p", "cos", "cosh", "digamma", "div", "eq", "erf", "erf_inv", "erfc",
        "exp", "exp2", "expm1", "floor", "ge", "gt", "igamma", "igammac", "imag", "integer_pow", "is_finite", "le",
        "lgamma", "log", "log1p", "logistic", "lt", "max", "min", "mul", "ne", "neg", "nextafter", "not",
        "optimization_barrier", "or", "polygamma", "population_count", "pow", "real", "reduce_precision",
        "regularized_incomplete_beta", "rem", "round", "rsqrt", "select_n", "shift_left", "shift_right_arithmetic",
        "shift_right_logical", "sign", "sin", "sinh", "sqrt", "square", "stop_gradient", "sub", "tan", "tanh", "xor",
        "zeta",
    )
)  # fmt: skip


@rules.prepares(*_ELEMENTWISE)
def _elementwise(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    if equation.name == "bitcast_convert_type":
        need(equation.ins[0] == equation.outs[0], equation, "to another width")
    return values


@rules.prepares("broadcast_in_dim", sized=("shape",))
def _broadcast(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    return values


@rules.prepares("iota", sized=("shape",))
def _iota(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    return values


@rules.prepares("transpose", "stack", "squeeze", "expand_dims", "real_to_complex")
def _moved(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    return values


class _Group(NamedTuple):
    """Dimensions that a reshape makes of others: per dimension its sizes at all traces, and its line."""

    before: list[tuple[list[int], Line | None]]
    after: list[tuple[list[int], Line | None]]

    @property
    def stays(self) -> bool:
        """Whether places with meaning stay the first ones as the array lies in memory."""
        return not any(line for side in self for _, line in side[1:])


def _groups(equation: Equation) -> list[_Group]:
    """The dimensions of a reshape's operand and result in groups of equal products."""
    sides: list[list[tuple[list[int], Line | None]]] = []
    for extents, atoms in ((equation.ins[0], "invars"), (equation.outs[0], "outvars")):
        dims = zip(*[getattr(e, atoms)[0].aval.shape for e in equation.at], strict=True)
        sides.append([(list(sizes), line) for sizes, line in zip(dims, extents, strict=True) if line or sizes[0] != 1])
    groups = []
    while sides[0] or sides[1]:
        need(bool(sides[0] and sides[1]), equation, "across the batch")
        group = _Group([sides[0].pop(0)], [sides[1].pop(0)])
        products = [np.array(side[0][0], object) for side in group]
        while not np.array_equal(products[0], products[1]):
            shorter = 0 if products[0][0] < products[1][0] else 1
            need(bool(sides[shorter]), equation, "across the batch")
            group[shorter].append(sides[shorter].pop(0))
            products[shorter] = products[shorter] * np.array(group[shorter][-1][0], object)
        groups.append(group)
    return groups


@rules.computes("reshape")
def _reshape(masked: Computation, equation: Equation, values: list[Any]) -> Sequence[Any]:
    """Dimensions are merged and divided in groups. Where one that is not the first is padded, places are moved: as
    steps of sequences are, of which each sequence has the same number, when they become rows of one matrix.
    """
    groups = _groups(equation)
    if all(group.stays for group in groups):
        return masked.bind(equation, values)
    jnp = engine.jax().numpy
    value = values[0].reshape([int(np.prod([sizes[0] for sizes, _ in group.before])) for group in groups])
    for axis, group in enumerate(groups):
        if group.stays:
            continue
        places = jnp.zeros([sizes[0] for sizes, _ in group.after], jnp.int32)
        step: Any = np.int32(1)
        for i, (sizes, line) in reversed(list(enumerate(group.after))):
            places = places + jnp.expand_dims(
                jnp.arange(sizes[0], dtype=jnp.int32) * step, tuple(j for j in range(places.ndim) if j != i)
            )
            step = step * (np.int32(sizes[0]) if line is None else masked.count(line))
        places = places.reshape(-1)
        source, inside = jnp.zeros_like(places), np.int32(1)
        for sizes, line in reversed(group.before):
            length = np.int32(sizes[0]) if line is None else jnp.maximum(masked.count(line), 1)
            source = source + places % length * inside
            places, inside = places // length, inside * np.int32(sizes[0])
        value = jnp.take(value, source, axis=axis, mode="clip")
    return [value.reshape(equation.out_shape())]


@rules.computes("pad")
def _pad(masked: Computation, equation: Equation, values: list[Any]) -> Sequence[Any]:
    """What is put behind the last row lies there already, once padding has been replaced by it."""
    configs = [e.params["padding_config"] for e in equation.at]
    value, otherwise = values
    begins, moves, lax = [], False, engine.jax().lax
    for axis, line in enumerate(equation.ins[0]):
        low, _, between = zip(*[config[axis] for config in configs], strict=True)
        need(line is None or set(between) == {0}, equation, "within the batch")
        begin = masked.line(low)
        moves |= begin is not None
        begins.append(np.int32(low[0]) if begin is None else masked.count(begin))
        if line is not None and configs[0][axis] != (0, 0, 0):
            mask = lax.broadcast_in_dim(masked.present(value.shape[axis], line), value.shape, (axis,))
            value = lax.select(mask, value, lax.broadcast_in_dim(otherwise, value.shape, ()))
    if not moves:
        return masked.bind(equation, [value, otherwise])
    need(all(low >= 0 and not between for low, _, between in configs[0]), equation, "within the batch")
    room = [size + more for size, more in zip(equation.out_shape(), value.shape, strict=True)]
    whole = lax.dynamic_update_slice(lax.broadcast_in_dim(otherwise, room, ()), value, begins)
    return [lax.slice(whole, [0] * whole.ndim, equation.out_shape())]


@rules.computes("concatenate")
def _concatenate(masked: Computation, equation: Equation, values: list[Any]) -> Sequence[Any]:
    """One behind the other, each where those before it end, over what these have of padding."""
    axis = equation.params["dimension"]
    if not any(extents[axis] for extents in equation.ins[:-1]):
        return masked.bind(equation, values)
    jax = engine.jax()
    whole = jax.numpy.zeros(equation.out_shape(), values[0].dtype)
    begin: Any = np.int32(0)
    for value, extents in zip(values, equation.ins, strict=True):
        whole = jax.lax.dynamic_update_slice_in_dim(whole, value, begin, axis)
        line = extents[axis]
        begin = begin + (np.int32(value.shape[axis]) if line is None else masked.count(line))
    return [whole]


@rules.computes("rev")
def _reverse(masked: Computation, equation: Equation, values: list[Any]) -> Sequence[Any]:
    """Row ``i`` of ``n`` comes from row ``n - 1 - i``."""
    jnp = engine.jax().numpy
    value = values[0]
    for axis in equation.params["dimensions"]:
        line = equation.ins[0][axis]
        if line is None:
            value = jnp.flip(value, axis)
        else:
            rows = masked.count(line) - 1 - jnp.arange(value.shape[axis], dtype=jnp.int32)
            value = jnp.take(value, jnp.maximum(rows, 0), axis=axis, mode="clip")
    return [value]


@rules.computes("slice")
def _slice(masked: Computation, equation: Equation, values: list[Any]) -> Sequence[Any]:
    """Rows are taken from a place on, which may depend on the size, as that of the last row does."""
    starts, strides, moves = [], equation.params["strides"] or (1,) * len(equation.ins[0]), False
    for axis, (line, out) in enumerate(zip(equation.ins[0], equation.outs[0], strict=True)):
        places = [e.params["start_indices"][axis] for e in equation.at]
        begin = masked.line(places)
        if begin is not None:
            need(strides[axis] == 1 and line is not None, equation, "along the batch")
            moves = True
        limits = [e.params["limit_indices"][axis] for e in equation.at]
        same = {(e.params["strides"] or strides)[axis] for e in equation.at} == {strides[axis]}
        need(same, equation, "along the batch")
        if line is None:
            need(out is None, equation, "along the batch")
        elif out is None and begin is None:
            need(limits[0] <= masked.lowest(line), equation, "along the batch")
        elif out is None and begin is not None:
            need(masked.lowest(begin) >= 0, equation, "along the batch")
        starts.append(np.int32(places[0]) if begin is None else masked.count(begin))
    if not moves:
        return masked.bind(equation, values)
    need(all(stride == 1 for stride in strides), equation, "along the batch")
    value, out_shape = values[0], equation.out_shape()
    behind = [(0, out_shape[axis] if line else 0, 0) for axis, line in enumerate(equation.ins[0])]
    lax = engine.jax().lax
    value = lax.pad(value, np.zeros((), value.dtype), behind)  # a start is not moved back as the array ends
    return [lax.dynamic_slice(value, starts, out_shape)]


@rules.prepares("dynamic_slice", sized=("slice_sizes",))
def _dynamic_slice(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    jnp = engine.jax().numpy
    starts = list(values[1:])
    for axis, (line, out) in enumerate(zip(equation.ins[0], equation.outs[0], strict=True)):
        if line is None or out == line:
            continue
        length = equation.params["slice_sizes"][axis]
        need(out is None and length <= masked.lowest(line), equation, "along the batch")
        last = (masked.count(line) - length).astype(starts[axis].dtype)  # as far as a start is moved back into range
        starts[axis] = jnp.minimum(starts[axis], last)
    return [values[0], *starts]


@rules.prepares("dynamic_update_slice")
def _dynamic_update_slice(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    jnp = engine.jax().numpy
    starts = list(values[2:])
    for axis, (line, part) in enumerate(zip(equation.ins[0], equation.ins[1], strict=True)):
        if line == part:
            continue
        length = values[1].shape[axis]
        fits = line is not None and part is None and length <= masked.lowest(line)
        need(fits, equation, "along the batch")
        assert line is not None
        last = (masked.count(line) - length).astype(starts[axis].dtype)  # as far as a start is moved back into range
        starts[axis] = jnp.minimum(starts[axis], last)
    return [values[0], values[1], *starts]


def _mode(equation: Equation) -> str:
    return str(getattr(equation.params["mode"], "name", equation.params["mode"])).upper()


def _rows_within(
    masked: Computation,
    equation: Equation,
    indices: Any,
    operand: Extents,
    index_map: Sequence[int],
    whole: Sequence[bool],
) -> Any:
    """Indices into padded dimensions of an operand, of which those past its end are treated as such."""
    jnp = engine.jax().numpy
    mode = _mode(equation)
    for place, axis in enumerate(index_map):
        line = operand[axis]
        if line is None or whole[axis]:
            continue
        column = indices[..., place]
        count = masked.count(line).astype(indices.dtype)
        if "CLIP" in mode:
            column = jnp.minimum(column, count - 1)
        elif "FILL" in mode:
            column = jnp.where(column >= count, np.iinfo(indices.dtype).max, column)
        indices = indices.at[..., place].set(column)
    return indices


@rules.prepares("gather", sized=("slice_sizes",))
def _gather(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    params = equation.params
    numbers = params["dimension_numbers"]
    operand, indices = equation.ins
    need(indices[-1] is None, equation, "by indices along the batch")
    whole = []
    for axis, line in enumerate(operand):
        taken = [e.params["slice_sizes"][axis] for e in equation.at]
        same = taken == [e.invars[0].aval.shape[axis] for e in equation.at]
        whole.append(same)
        indexed = axis in numbers.start_index_map or axis in numbers.operand_batching_dims
        need(same if line is None and len(set(taken)) > 1 else True, equation, "along the batch")
        need(line is None or same or (set(taken) == {1} and indexed), equation, "along the batch")
    return [values[0], _rows_within(masked, equation, values[1], operand, numbers.start_index_map, whole)]


@rules.prepares("scatter", "scatter-add", "scatter-mul", "scatter-min", "scatter-max", "scatter-sub")
def _scatter(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    jax = engine.jax()
    jnp = jax.numpy
    operand, indices, updates = equation.ins
    numbers = equation.params["dimension_numbers"]
    need(indices[-1] is None, equation, "by indices along the batch")
    windows = [
        axis
        for axis in range(len(operand))
        if axis not in numbers.inserted_window_dims and axis not in numbers.operand_batching_dims
    ]
    whole = [True] * len(operand)
    for axis in range(len(operand)):
        if axis in windows:
            part = updates[numbers.update_window_dims[windows.index(axis)]]
            need(part == operand[axis], equation, "along the batch")
        else:
            whole[axis] = False
    batch = [i for i in range(len(updates)) if i not in numbers.update_window_dims]
    where = values[1]
    if any(updates[i] for i in batch):
        need("CLIP" not in _mode(equation), equation, "to the nearest row")
        present = jnp.ones(where.shape[:-1], bool)
        for axis in range(len(indices) - 1):
            line = indices[axis]
            if line is not None:
                present &= jax.lax.broadcast_in_dim(masked.present(where.shape[axis], line), present.shape, (axis,))
        # Out of range, in order, and each of them another: what the equation may promise of its indices stays true.
        count = int(np.prod(where.shape[:-1]))
        beyond = np.iinfo(where.dtype).max - count + np.arange(count, dtype=where.dtype).reshape(where.shape[:-1])
        dropped = jnp.asarray(beyond)[..., None]
        where = jnp.where(present[..., None], where, jnp.broadcast_to(dropped, where.shape))
    return [values[0], _rows_within(masked, equation, where, operand, numbers.scatter_dims_to_operand_dims, whole),
            values[2]]  # fmt: skip
