"""The equations of a computation that is traced at some sizes of its batch, and what computes them at its capacity.

The rules that say how a primitive is computed with padding stand in modules of their own; see
:mod:`anabranch.xla.padding.masking`.
"""

from __future__ import annotations

import functools
import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np

from anabranch.xla import engine
from anabranch.xla.jaxpr_equality import equal, is_beginning, same_params
from anabranch.xla.kernel_context import DISPLAY
from anabranch.xla.padding.sizes import Line, Refused, Size, Sizes, Uneven, product

Extents = tuple[Line | None, ...]
"""Per dimension of an array its line; None where the size is always the same."""

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


class Equation(NamedTuple):
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


def need(condition: bool, equation: Equation, what: str) -> None:
    """Refuse an equation unless a condition holds."""
    if not condition:
        raise Refused(f"{equation.name} {what}")


class Rules:
    """How primitives are computed with padding: some as they stand, once their operands are prepared."""

    def __init__(self) -> None:
        self.preparing: dict[str, Callable[[Computation, Equation, list[Any]], list[Any]]] = {}
        """By primitive, what prepares its operands."""
        self.sized: dict[str, tuple[str, ...]] = {}
        """By primitive, its parameters that may depend on the size."""
        self.whole: dict[str, Callable[[Computation, Equation, list[Any]], Sequence[Any]]] = {}
        """By primitive, what computes it, where more is to be done than to prepare its operands."""

    def prepares(self, *names: str, sized: tuple[str, ...] = ()) -> Callable[[Any], Any]:
        """Register how the operands of primitives are prepared; ``sized`` are parameters that depend on the size."""

        def register(function: Any) -> Any:
            for name in names:
                self.preparing[name] = function
                self.sized[name] = sized
            return function

        return register

    def computes(self, name: str) -> Callable[[Any], Any]:
        """Register what computes a primitive."""

        def register(function: Any) -> Any:
            self.whole[name] = function
            return function

        return register

    @staticmethod
    def joined(*parts: Rules) -> Rules:
        """The rules of several modules."""
        joined = Rules()
        for part in parts:
            joined.preparing.update(part.preparing)
            joined.sized.update(part.sized)
            joined.whole.update(part.whole)
        return joined


class Computation:
    """A computation at its capacity, for sizes that it is given; ``least`` are the smallest that it is asked for."""

    rules: ClassVar[Rules]

    def __init__(self, sizes: Sizes, size: Sequence[Any], least: Size) -> None:
        self._sizes = sizes
        self._size = size
        self._least = least

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
            equation = Equation(tuple(equations), ins, outs)
            display = DISPLAY in str(first.source_info.name_stack)
            values = [self._read(atoms, env, display) for atoms in zip(*[e.invars for e in equations], strict=True)]
            if display:  # what is shown of padding is cut off when it is
                return self.bind(equation, values)
            return self._computed(equation, values)
        except Refused as refusal:
            raise refusal if refusal.place else type(refusal)(refusal.reason, _place(first)) from None

    def _computed(self, equation: Equation, values: list[Any]) -> Sequence[Any]:
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
        if name in self.rules.whole:
            return self.rules.whole[name](self, equation, values)
        rule = self.rules.preparing.get(name)
        if rule is None:
            raise Refused(f"{name} of a batch" if touched else f"{name}, otherwise for another size")
        sized = self.rules.sized[name]
        if not same_params([{key: value for key, value in e.params.items() if key not in sized} for e in equation.at]):
            raise Refused(f"{name}, otherwise for another size")
        return self.bind(equation, rule(self, equation, values))

    def bind(self, equation: Equation, values: Sequence[Any]) -> Sequence[Any]:
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
        return tuple([self._sizes.line(tuple(dims)) for dims in zip(*shapes, strict=True)])

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
                self._sizes.line(tuple(dims))
            return first
        if all(equal(array, arrays[0]) for array in arrays[1:]):
            return first
        if arrays[0].dtype.kind not in "iuf":
            raise Refused("a constant that is another for another size")
        coefficients = self._sizes.fit([array.astype(np.float64) for array in arrays])
        if coefficients is None:
            raise Uneven("a number that does not grow evenly with the size")
        jnp = engine.jax().numpy
        size = [jnp.asarray(one, jnp.float64) for one in self._size]
        terms = [
            jnp.asarray(a) * product(powers, size)
            for a, powers in zip(coefficients, self._sizes.powers, strict=True)
            if a.any()
        ]
        return functools.reduce(operator.add, terms).astype(arrays[0].dtype)

    def line(self, values: Sequence[int]) -> Line | None:
        """The line through a number at each of the traces' sizes; None if it is always the same."""
        return self._sizes.line(tuple(values))

    def lowest(self, line: Line) -> int:
        """What a line is at least, for all sizes that the computation is asked for."""
        return self._sizes.lowest(line, self._least)

    # ----------------------------------------------------------------------------------------------------------- masks
    def count(self, line: Line) -> Any:
        """How many places of a padded dimension have meaning."""
        jnp = engine.jax().numpy
        size = [jnp.asarray(one, jnp.int32) for one in self._size]
        terms = [
            product(powers, size) * np.int32(a) for a, powers in zip(line[:-1], self._sizes.powers, strict=False) if a
        ]
        return functools.reduce(operator.add, terms, np.int32(line[-1]))

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
