"""One program for all sizes of a batch up to a capacity: which rows exist is a number that the program is given.

Policy. A computation is traced at its capacity and at two smaller sizes. The three jaxprs are read side by side: where
they have the same equations, each dimension, and each number that is not the same in all three, is a line ``a * n + b``
in the size ``n``. A dimension that depends on ``n`` is *padded*: in the array of the program its first ``a * n + b``
places are what the exact computation has there, the rest has no meaning. :class:`Masked` computes the jaxpr of the
capacity so that this stays true, equation by equation:

- where places do not meet (arithmetic, products and convolutions along other dimensions, gathers of rows) the equation
  stands as it is;
- where they meet (sums and products along a padded dimension, the checks' `all`) the padding is replaced by the neutral
  element first, so that not even a NaN in it is seen;
- numbers that depend on ``n`` are computed from the size that the program is given;
- anything else raises :class:`Refused`.

So what may be padded follows from what an op's kernel does, not from its name, and holds for users' ops as well. What
the three traces cannot show, a decision that the *graph* takes by its sizes, is checked for each size that comes; see
:mod:`anabranch.xla.batches`.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from anabranch.xla import engine
from anabranch.xla.jaxpr_equality import equal, is_beginning, same_params
from anabranch.xla.kernel_context import DISPLAY

Line = tuple[int, int]
"""``a`` and ``b`` of a dimension ``a * n + b``."""
Extents = tuple[Line | None, ...]
"""Per dimension of an array its line; None where the size is always the same."""


class Refused(Exception):
    """A computation whose batch cannot be padded: ``reason`` says what it does, ``place`` in which op."""

    def __init__(self, reason: str, place: str = ""):
        super().__init__(reason, place)
        self.reason = reason
        self.place = place


class Sizes(NamedTuple):
    """The sizes at which a program is traced: its capacity, and two others that it serves."""

    capacity: int
    second: int
    third: int

    def line(self, values: Sequence[int]) -> Line | None:
        """The line through three numbers, one per size; None if they are the same."""
        if values[0] == values[1] == values[2]:
            return None
        a, rest = divmod(values[0] - values[1], self.capacity - self.second)
        b = values[0] - a * self.capacity
        if rest or values[2] != a * self.third + b:
            raise Refused(f"sizes {tuple(values)} for batches of {tuple(self)}")
        return a, b


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
_CALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "checkpoint": "jaxpr",
    "remat2": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
}


class _Equation(NamedTuple):
    """The same equation at all sizes."""

    at: tuple[Any, ...]
    """The equations, that of the capacity first."""
    ins: tuple[Extents, ...]
    outs: tuple[Extents, ...]

    @property
    def name(self) -> str:
        return str(self.at[0].primitive.name)

    @property
    def params(self) -> dict[str, Any]:
        return dict(self.at[0].params)

    def out_shape(self, place: int = 0) -> tuple[int, ...]:
        return tuple(self.at[0].outvars[place].aval.shape)


class Masked:
    """A computation at its capacity, for ``size`` rows."""

    def __init__(self, sizes: Sizes, size: Any, least: int) -> None:
        self._sizes = sizes
        self._size = size
        self.least = least
        """The smallest size that it is asked for."""

    def evaluate(self, jaxprs: Sequence[Any], consts: Sequence[Sequence[Any]], args: Sequence[Any]) -> list[Any]:
        """The results of the jaxpr of the capacity; the others say what depends on the size.

        Raises:
            Refused: some equation cannot be computed with padding.
        """
        first = jaxprs[0]
        env: dict[Any, Any] = dict(zip(first.invars, args, strict=True))
        for i, variable in enumerate(first.constvars):
            env[variable] = self._constant([values[i] for values in consts])
        for equations in itertools.zip_longest(*[jaxpr.eqns for jaxpr in jaxprs]):
            if any(e is None or e.primitive is not equations[0].primitive for e in equations):
                raise Refused("other code for another size", _place(next(e for e in equations if e is not None)))
            values = self._equation(equations, env)
            env.update(zip(equations[0].outvars, values, strict=True))
        return [self._read([jaxpr.outvars[i] for jaxpr in jaxprs], env) for i in range(len(first.outvars))]

    # ------------------------------------------------------------------------------------------------------- equations
    def _equation(self, equations: Sequence[Any], env: dict[Any, Any]) -> Sequence[Any]:
        first = equations[0]
        try:
            ins = tuple([self._extents(atoms) for atoms in zip(*[e.invars for e in equations], strict=True)])
            outs = tuple([self._extents(atoms) for atoms in zip(*[e.outvars for e in equations], strict=True)])
            equation = _Equation(tuple(equations), ins, outs)
            display = DISPLAY in str(first.source_info.name_stack)
            values = [self._read(atoms, env, display) for atoms in zip(*[e.invars for e in equations], strict=True)]
            if display:  # what is shown of padding is cut off when it is
                return self.bind(equation, values)
            return self._computed(equation, values)
        except Refused as refusal:
            raise refusal if refusal.place else Refused(refusal.reason, _place(first)) from None

    def _computed(self, equation: _Equation, values: list[Any]) -> Sequence[Any]:
        name = equation.name
        touched = any(any(extents) for extents in (*equation.ins, *equation.outs))
        if not touched and same_params([e.params for e in equation.at]):
            return self.bind(equation, values)
        if name in _CALLS:
            inner = [e.params[_CALLS[name]] for e in equation.at]
            bodies = [getattr(one, "jaxpr", one) for one in inner]
            if not bodies[0].eqns and all(e.outvars == e.invars for e in bodies):
                return self.bind(equation, values)  # a call that is there to keep a value from being computed again
            return self.evaluate(bodies, [getattr(one, "consts", ()) for one in inner], values)
        if name in _wholes:
            return _wholes[name](self, equation, values)
        rule = _rules.get(name)
        if rule is None:
            raise Refused(f"{name} of a batch" if touched else f"{name}, otherwise for another size")
        sized = _sized.get(name, ())
        if not same_params([{key: value for key, value in e.params.items() if key not in sized} for e in equation.at]):
            raise Refused(f"{name}, otherwise for another size")
        return self.bind(equation, rule(self, equation, values))

    def bind(self, equation: _Equation, values: Sequence[Any]) -> Sequence[Any]:
        """Compute an equation as it is at the capacity."""
        first = equation.at[0]
        params = first.primitive.get_bind_params(first.params)
        with first.ctx.manager:
            results = first.primitive.bind(*values, **params)
        return results if first.primitive.multiple_results else [results]

    def _extents(self, atoms: Sequence[Any]) -> Extents:
        shapes = [getattr(atom.aval, "shape", ()) for atom in atoms]
        if len({len(shape) for shape in shapes}) != 1:
            raise Refused("another rank for another size")
        return tuple([self._sizes.line(dims) for dims in zip(*shapes, strict=True)])

    def _read(self, atoms: Sequence[Any], env: dict[Any, Any], display: bool = False) -> Any:
        if any(hasattr(atom, "val") != hasattr(atoms[0], "val") for atom in atoms):
            raise Refused("a number for one size that another computes")
        if not hasattr(atoms[0], "val"):
            return env[atoms[0]]
        return atoms[0].val if display else self._constant([atom.val for atom in atoms])

    def _constant(self, values: Sequence[Any]) -> Any:
        """A constant that may depend on the size."""
        first = values[0]
        if all(value is first for value in values) or not hasattr(first, "dtype"):
            if not hasattr(first, "dtype") and not all(equal(value, first) for value in values):
                return self._constant([np.asarray(value) for value in values])
            return first
        arrays = [np.asarray(value) for value in values]
        shapes = {array.shape for array in arrays}
        if len(shapes) != 1:
            if not is_beginning(arrays):
                raise Refused("a constant that is another for another size")
            for dims in zip(*[array.shape for array in arrays], strict=True):
                self._sizes.line(dims)
            return first
        if all(equal(array, arrays[0]) for array in arrays[1:]):
            return first
        if arrays[0].dtype.kind not in "iuf":
            raise Refused("a constant that is another for another size")
        wide = [array.astype(np.float64) for array in arrays]
        a = (wide[0] - wide[1]) / (self._sizes.capacity - self._sizes.second)
        b = wide[0] - a * self._sizes.capacity
        exact = equal(a, np.round(a)) and equal(b, np.round(b)) and equal(wide[2], a * self._sizes.third + b)
        if not exact:
            raise Refused("a number that does not grow evenly with the size")
        jnp = engine.jax().numpy
        return (jnp.asarray(a) * jnp.asarray(self._size, jnp.float64) + jnp.asarray(b)).astype(arrays[0].dtype)

    def line(self, values: Sequence[int]) -> Line | None:
        """The line through a number at each of the traces' sizes; None if it is always the same."""
        return self._sizes.line(values)

    # ----------------------------------------------------------------------------------------------------------- masks
    def count(self, line: Line) -> Any:
        """How many places of a padded dimension have meaning."""
        jnp = engine.jax().numpy
        return jnp.asarray(self._size, jnp.int32) * np.int32(line[0]) + np.int32(line[1])

    def present(self, length: int, line: Line) -> Any:
        """Which places of a dimension of ``length`` have meaning."""
        jnp = engine.jax().numpy
        return jnp.arange(length, dtype=jnp.int32) < self.count(line)

    def filled(self, value: Any, extents: Extents, axes: Sequence[int], neutral: Any) -> Any:
        """An array with a number for all padding in some of its dimensions."""
        jax = engine.jax()
        for axis in axes:
            line = extents[axis]
            if line is not None:
                mask = jax.lax.broadcast_in_dim(self.present(value.shape[axis], line), value.shape, (axis,))
                value = jax.lax.select(mask, value, jax.numpy.full(value.shape, neutral, value.dtype))
        return value


def _place(equation: Any) -> str:
    return str(equation.source_info.name_stack)


# --------------------------------------------------------------------------------------------------------------- rules
_Rule = Callable[[Masked, _Equation, list[Any]], list[Any]]
_rules: dict[str, _Rule] = {}
_sized: dict[str, tuple[str, ...]] = {}


def _rule(*names: str, sized: tuple[str, ...] = ()) -> Callable[[_Rule], _Rule]:
    """Register how the operands of primitives are prepared; ``sized`` are parameters that depend on the size."""

    def register(function: _Rule) -> _Rule:
        for name in names:
            _rules[name] = function
            _sized[name] = sized
        return function

    return register


def _need(condition: bool, equation: _Equation, what: str) -> None:
    if not condition:
        raise Refused(f"{equation.name} {what}")


@_rule(*_ELEMENTWISE)
def _elementwise(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    if equation.name == "bitcast_convert_type":
        _need(equation.ins[0] == equation.outs[0], equation, "to another width")
    return values


@_rule("broadcast_in_dim", sized=("shape",))
def _broadcast(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    return values


@_rule("iota", sized=("shape",))
def _iota(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    return values


@_rule("transpose", "stack", "squeeze", "expand_dims", "real_to_complex")
def _moved(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    return values


class _Group(NamedTuple):
    """Dimensions that a reshape makes of others: per dimension its sizes at all traces, and its line."""

    before: list[tuple[list[int], Line | None]]
    after: list[tuple[list[int], Line | None]]

    @property
    def stays(self) -> bool:
        """Whether places with meaning stay the first ones as the array lies in memory."""
        return not any(line for side in self for _, line in side[1:])


def _groups(equation: _Equation) -> list[_Group]:
    """The dimensions of a reshape's operand and result in groups of equal products."""
    sides: list[list[tuple[list[int], Line | None]]] = []
    for extents, atoms in ((equation.ins[0], "invars"), (equation.outs[0], "outvars")):
        dims = zip(*[getattr(e, atoms)[0].aval.shape for e in equation.at], strict=True)
        sides.append([(list(sizes), line) for sizes, line in zip(dims, extents, strict=True) if line or sizes[0] != 1])
    groups = []
    while sides[0] or sides[1]:
        _need(bool(sides[0] and sides[1]), equation, "across the batch")
        group = _Group([sides[0].pop(0)], [sides[1].pop(0)])
        products = [np.array(side[0][0], object) for side in group]
        while not np.array_equal(products[0], products[1]):
            shorter = 0 if products[0][0] < products[1][0] else 1
            _need(bool(sides[shorter]), equation, "across the batch")
            group[shorter].append(sides[shorter].pop(0))
            products[shorter] = products[shorter] * np.array(group[shorter][-1][0], object)
        groups.append(group)
    return groups


def _reshape(masked: Masked, equation: _Equation, values: list[Any]) -> Sequence[Any]:
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


_NEUTRAL: dict[str, Callable[[np.dtype], Any]] = {}


def _lowest(dtype: Any) -> Any:
    jnp = engine.jax().numpy
    if dtype == np.bool_:
        return False
    return -np.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).min


def _highest(dtype: Any) -> Any:
    jnp = engine.jax().numpy
    if dtype == np.bool_:
        return True
    return np.inf if jnp.issubdtype(dtype, jnp.floating) else jnp.iinfo(dtype).max


_NEUTRAL.update(
    reduce_sum=lambda dtype: 0,
    reduce_prod=lambda dtype: 1,
    reduce_max=_lowest,
    reduce_min=_highest,
    argmax=_lowest,
    argmin=_highest,
    reduce_and=lambda dtype: True if dtype == np.bool_ else -1 if np.dtype(dtype).kind == "i" else _highest(dtype),
    reduce_or=lambda dtype: 0,
    reduce_xor=lambda dtype: 0,
)


@_rule(*_NEUTRAL)
def _reduce(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    neutral = _NEUTRAL[equation.name](values[0].dtype)
    return [masked.filled(values[0], equation.ins[0], equation.params["axes"], neutral)]


@_rule("dot_general")
def _product(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    contracted, _ = equation.params["dimension_numbers"]
    return [masked.filled(values[i], equation.ins[i], contracted[i], 0) for i in (0, 1)]


@_rule("conv_general_dilated")
def _convolution(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    params = equation.params
    left, right, _ = params["dimension_numbers"]
    whole = params["feature_group_count"] == 1 and params["batch_group_count"] == 1
    padded = [[i for i, line in enumerate(extents) if line] for extents in equation.ins]
    _need(all(i in left[:2] for i in padded[0]) and all(i in right[:2] for i in padded[1]), equation, "along the batch")
    _need(whole or (padded[1] == [] and left[1] not in padded[0] and params["batch_group_count"] == 1),
          equation, "in groups along the batch")  # fmt: skip
    return [
        masked.filled(values[0], equation.ins[0], left[1:2], 0),
        masked.filled(values[1], equation.ins[1], right[1:2], 0),
    ]


@_rule("anabranch_convolution", "anabranch_convolution_input_gradient")
def _library_convolution(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    images, kernel = equation.ins
    _need(not any(images[1:]) and not any(kernel), equation, "along the batch")
    return values


@_rule("anabranch_convolution_filter_gradient")
def _library_filter_gradient(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    _need(not any(line for extents in equation.ins for line in extents[1:]), equation, "along the batch")
    return [masked.filled(values[i], equation.ins[i], (0,), 0) for i in (0, 1)]


@_rule("reduce_window_sum", "reduce_window_max", "reduce_window_min", "reduce_window", "reduce_window_add")
def _window(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    params = equation.params
    for axis in {i for extents in equation.ins for i, line in enumerate(extents) if line}:
        plain = [params[name][axis] == 1 for name in params if name in _WINDOW]
        _need(all(plain) and tuple(params["padding"][axis]) == (0, 0), equation, "along the batch")
    return values


_WINDOW = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")


@_rule("select_and_scatter_add", "select_and_gather_add")
def _window_gradient(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    return _window(masked, equation, values)


def _pad(masked: Masked, equation: _Equation, values: list[Any]) -> Sequence[Any]:
    """What is put behind the last row lies there already, once padding has been replaced by it."""
    configs = [e.params["padding_config"] for e in equation.at]
    value, otherwise = values
    begins, moves, lax = [], False, engine.jax().lax
    for axis, line in enumerate(equation.ins[0]):
        low, _, between = zip(*[config[axis] for config in configs], strict=True)
        _need(line is None or set(between) == {0}, equation, "within the batch")
        begin = masked.line(low)
        moves |= begin is not None
        begins.append(np.int32(low[0]) if begin is None else masked.count(begin))
        if line is not None and configs[0][axis] != (0, 0, 0):
            mask = lax.broadcast_in_dim(masked.present(value.shape[axis], line), value.shape, (axis,))
            value = lax.select(mask, value, lax.broadcast_in_dim(otherwise, value.shape, ()))
    if not moves:
        return masked.bind(equation, [value, otherwise])
    _need(all(low >= 0 and not between for low, _, between in configs[0]), equation, "within the batch")
    room = [size + more for size, more in zip(equation.out_shape(), value.shape, strict=True)]
    whole = lax.dynamic_update_slice(lax.broadcast_in_dim(otherwise, room, ()), value, begins)
    return [lax.slice(whole, [0] * whole.ndim, equation.out_shape())]


@_rule("sort", "split", sized=())
def _apart(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    axis = equation.params["axis" if "axis" in equation.params else "dimension"]
    for extents in (*equation.ins, *equation.outs):
        _need(not extents[axis], equation, "along the batch")
    return values


def _concatenate(masked: Masked, equation: _Equation, values: list[Any]) -> Sequence[Any]:
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


def _reverse(masked: Masked, equation: _Equation, values: list[Any]) -> Sequence[Any]:
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


_CUMULATIVE: dict[str, Callable[[Any], Any]] = {
    "cumsum": lambda dtype: 0,
    "cumprod": lambda dtype: 1,
    "cummax": lambda dtype: _lowest(dtype),
    "cummin": lambda dtype: _highest(dtype),
    "cumlogsumexp": lambda dtype: -np.inf,
}


@_rule(*_CUMULATIVE)
def _cumulative(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    if not equation.params["reverse"]:
        return values
    neutral = _CUMULATIVE[equation.name](values[0].dtype)
    return [masked.filled(values[0], equation.ins[0], [equation.params["axis"]], neutral)]


@_rule("top_k", "approx_top_k")
def _top(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    axis = equation.params.get("axis", equation.params.get("reduction_dimension", -1))
    _need(equation.ins[0][axis] is None, equation, "along the batch")
    return values


@_rule("cholesky", "triangular_solve", "lu", "qr", "geqrf", "householder_product")
def _matrices(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    for extents in (*equation.ins, *equation.outs):
        _need(not any(extents[-2:]), equation, "of matrices as large as the batch")
    return values


@_rule("fft")
def _fft(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    _need(not any(equation.ins[0][-len(equation.params["fft_lengths"]) :]), equation, "along the batch")
    return values


def _slice(masked: Masked, equation: _Equation, values: list[Any]) -> Sequence[Any]:
    """Rows are taken from a place on, which may depend on the size, as that of the last row does."""
    starts, strides, moves = [], equation.params["strides"] or (1,) * len(equation.ins[0]), False
    for axis, (line, out) in enumerate(zip(equation.ins[0], equation.outs[0], strict=True)):
        places = [e.params["start_indices"][axis] for e in equation.at]
        begin = masked.line(places)
        if begin is not None:
            _need(strides[axis] == 1 and line is not None, equation, "along the batch")
            moves = True
        limits = [e.params["limit_indices"][axis] for e in equation.at]
        same = {(e.params["strides"] or strides)[axis] for e in equation.at} == {strides[axis]}
        _need(same, equation, "along the batch")
        if line is None:
            _need(out is None, equation, "along the batch")
        elif out is None and begin is None:
            _need(limits[0] <= line[0] * masked.least + line[1], equation, "along the batch")
        elif out is None and begin is not None:
            _need(begin[0] * masked.least + begin[1] >= 0, equation, "along the batch")
        starts.append(np.int32(places[0]) if begin is None else masked.count(begin))
    if not moves:
        return masked.bind(equation, values)
    _need(all(stride == 1 for stride in strides), equation, "along the batch")
    value, out_shape = values[0], equation.out_shape()
    behind = [(0, out_shape[axis] if line else 0, 0) for axis, line in enumerate(equation.ins[0])]
    lax = engine.jax().lax
    value = lax.pad(value, np.zeros((), value.dtype), behind)  # a start is not moved back as the array ends
    return [lax.dynamic_slice(value, starts, out_shape)]


@_rule("dynamic_slice", sized=("slice_sizes",))
def _dynamic_slice(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    jnp = engine.jax().numpy
    starts = list(values[1:])
    for axis, (line, out) in enumerate(zip(equation.ins[0], equation.outs[0], strict=True)):
        if line is None or out == line:
            continue
        length = equation.params["slice_sizes"][axis]
        _need(out is None and length <= line[0] * masked.least + line[1], equation, "along the batch")
        last = (masked.count(line) - length).astype(starts[axis].dtype)  # as far as a start is moved back into range
        starts[axis] = jnp.minimum(starts[axis], last)
    return [values[0], *starts]


@_rule("dynamic_update_slice")
def _dynamic_update_slice(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    jnp = engine.jax().numpy
    starts = list(values[2:])
    for axis, (line, part) in enumerate(zip(equation.ins[0], equation.ins[1], strict=True)):
        if line == part:
            continue
        length = values[1].shape[axis]
        fits = line is not None and part is None and length <= line[0] * masked.least + line[1]
        _need(fits, equation, "along the batch")
        assert line is not None
        last = (masked.count(line) - length).astype(starts[axis].dtype)  # as far as a start is moved back into range
        starts[axis] = jnp.minimum(starts[axis], last)
    return [values[0], values[1], *starts]


def _mode(equation: _Equation) -> str:
    return str(getattr(equation.params["mode"], "name", equation.params["mode"])).upper()


def _rows_within(
    masked: Masked, equation: _Equation, indices: Any, operand: Extents, index_map: Sequence[int], whole: Sequence[bool]
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


@_rule("gather", sized=("slice_sizes",))
def _gather(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    params = equation.params
    numbers = params["dimension_numbers"]
    operand, indices = equation.ins
    _need(indices[-1] is None, equation, "by indices along the batch")
    whole = []
    for axis, line in enumerate(operand):
        taken = [e.params["slice_sizes"][axis] for e in equation.at]
        same = taken == [e.invars[0].aval.shape[axis] for e in equation.at]
        whole.append(same)
        indexed = axis in numbers.start_index_map or axis in numbers.operand_batching_dims
        _need(same if line is None and len(set(taken)) > 1 else True, equation, "along the batch")
        _need(line is None or same or (set(taken) == {1} and indexed), equation, "along the batch")
    return [values[0], _rows_within(masked, equation, values[1], operand, numbers.start_index_map, whole)]


@_rule("scatter", "scatter-add", "scatter-mul", "scatter-min", "scatter-max", "scatter-sub")
def _scatter(masked: Masked, equation: _Equation, values: list[Any]) -> list[Any]:
    jax = engine.jax()
    jnp = jax.numpy
    operand, indices, updates = equation.ins
    numbers = equation.params["dimension_numbers"]
    _need(indices[-1] is None, equation, "by indices along the batch")
    windows = [
        axis
        for axis in range(len(operand))
        if axis not in numbers.inserted_window_dims and axis not in numbers.operand_batching_dims
    ]
    whole = [True] * len(operand)
    for axis in range(len(operand)):
        if axis in windows:
            part = updates[numbers.update_window_dims[windows.index(axis)]]
            _need(part == operand[axis], equation, "along the batch")
        else:
            whole[axis] = False
    batch = [i for i in range(len(updates)) if i not in numbers.update_window_dims]
    where = values[1]
    if any(updates[i] for i in batch):
        _need("CLIP" not in _mode(equation), equation, "to the nearest row")
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


# --------------------------------------------------------------------------------------------------------------- loops
def _bodies(equation: _Equation, name: str) -> tuple[list[Any], list[Any]]:
    closed = [e.params[name] for e in equation.at]
    return [one.jaxpr for one in closed], [one.consts for one in closed]


def _while(masked: Masked, equation: _Equation, values: list[Any]) -> Sequence[Any]:
    params = equation.params
    condition, condition_consts = _bodies(equation, "cond_jaxpr")
    body, body_consts = _bodies(equation, "body_jaxpr")
    first, second = params["cond_nconsts"], params["cond_nconsts"] + params["body_nconsts"]

    def goes_on(carried: Any) -> Any:
        return masked.evaluate(condition, condition_consts, [*values[:first], *carried])[0]

    def run(carried: Any) -> Any:
        return tuple(masked.evaluate(body, body_consts, [*values[first:second], *carried]))

    return list(engine.jax().lax.while_loop(goes_on, run, tuple(values[second:])))


def _scan(masked: Masked, equation: _Equation, values: list[Any]) -> Sequence[Any]:
    params = equation.params
    same = {key: value for key, value in params.items() if key not in ("length", "jaxpr", "_split_transpose")}
    if any(e.params[key] != value for e in equation.at for key, value in same.items()):
        raise Refused("scan, otherwise for another size")
    line = masked.line([e.params["length"] for e in equation.at])
    body, consts = _bodies(equation, "jaxpr")
    fixed, carry = params["num_consts"], params["num_carry"]
    jax = engine.jax()

    def run(carried: Any, row: Any) -> Any:
        place, row = row
        results = masked.evaluate(body, consts, [*values[:fixed], *carried, *row])
        after = results[:carry]
        if line is not None:  # what is behind the end changes nothing
            after = [jax.lax.select(place, new, old) for new, old in zip(after, carried, strict=True)]
        return tuple(after), tuple(results[carry:])

    places = None if line is None else masked.present(params["length"], line)
    carried, rows = jax.lax.scan(
        run,
        tuple(values[fixed : fixed + carry]),
        (places, tuple(values[fixed + carry :])),
        length=params["length"],
        reverse=params["reverse"],
        unroll=params["unroll"],
    )
    return [*carried, *rows]


def _cond(masked: Masked, equation: _Equation, values: list[Any]) -> Sequence[Any]:
    branches = []
    for i in range(len(equation.params["branches"])):
        closed = [e.params["branches"][i] for e in equation.at]

        def branch(*given: Any, closed: list[Any] = closed) -> Any:
            return tuple(masked.evaluate([one.jaxpr for one in closed], [one.consts for one in closed], given))

        branches.append(branch)
    return list(engine.jax().lax.switch(values[0], branches, *values[1:]))


_wholes: dict[str, Callable[[Masked, _Equation, list[Any]], Sequence[Any]]] = {
    "while": _while,
    "scan": _scan,
    "cond": _cond,
    "reshape": _reshape,
    "concatenate": _concatenate,
    "rev": _reverse,
    "slice": _slice,
    "pad": _pad,
}
"""What computes an equation, where more is to be done than to prepare its operands."""
