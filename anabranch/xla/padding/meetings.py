"""Rules of equations in which places of a padded dimension meet: their padding becomes what changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from anabranch.xla import engine
from anabranch.xla.padding.equations import Computation, Equation, Rules, need

rules = Rules()


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


@rules.prepares(*_NEUTRAL)
def _reduce(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    neutral = _NEUTRAL[equation.name](values[0].dtype)
    return [masked.filled(values[0], equation.ins[0], equation.params["axes"], neutral)]


@rules.prepares("dot_general")
def _product(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    contracted, _ = equation.params["dimension_numbers"]
    return [masked.filled(values[i], equation.ins[i], contracted[i], 0) for i in (0, 1)]


@rules.prepares("conv_general_dilated")
def _convolution(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    params = equation.params
    left, right, _ = params["dimension_numbers"]
    whole = params["feature_group_count"] == 1 and params["batch_group_count"] == 1
    padded = [[i for i, line in enumerate(extents) if line] for extents in equation.ins]
    need(all(i in left[:2] for i in padded[0]) and all(i in right[:2] for i in padded[1]), equation, "along the batch")
    need(whole or (padded[1] == [] and left[1] not in padded[0] and params["batch_group_count"] == 1),
          equation, "in groups along the batch")  # fmt: skip
    return [
        masked.filled(values[0], equation.ins[0], left[1:2], 0),
        masked.filled(values[1], equation.ins[1], right[1:2], 0),
    ]


@rules.prepares("anabranch_convolution", "anabranch_convolution_input_gradient")
def _library_convolution(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    images, kernel = equation.ins
    need(not any(images[1:]) and not any(kernel), equation, "along the batch")
    return values


@rules.prepares("anabranch_convolution_filter_gradient")
def _library_filter_gradient(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    need(not any(line for extents in equation.ins for line in extents[1:]), equation, "along the batch")
    return [masked.filled(values[i], equation.ins[i], (0,), 0) for i in (0, 1)]


@rules.prepares("reduce_window_sum", "reduce_window_max", "reduce_window_min", "reduce_window", "reduce_window_add")
def _window(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    params = equation.params
    for axis in {i for extents in equation.ins for i, line in enumerate(extents) if line}:
        plain = [params[name][axis] == 1 for name in params if name in _WINDOW]
        need(all(plain) and tuple(params["padding"][axis]) == (0, 0), equation, "along the batch")
    return values


_WINDOW = ("window_dimensions", "window_strides", "base_dilation", "window_dilation")


@rules.prepares("select_and_scatter_add", "select_and_gather_add")
def _window_gradient(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    return _window(masked, equation, values)


@rules.prepares("sort", "split", sized=())
def _apart(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    axis = equation.params["axis" if "axis" in equation.params else "dimension"]
    for extents in (*equation.ins, *equation.outs):
        need(not extents[axis], equation, "along the batch")
    return values


_CUMULATIVE: dict[str, Callable[[Any], Any]] = {
    "cumsum": lambda dtype: 0,
    "cumprod": lambda dtype: 1,
    "cummax": lambda dtype: _lowest(dtype),
    "cummin": lambda dtype: _highest(dtype),
    "cumlogsumexp": lambda dtype: -np.inf,
}


@rules.prepares(*_CUMULATIVE)
def _cumulative(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    if not equation.params["reverse"]:
        return values
    neutral = _CUMULATIVE[equation.name](values[0].dtype)
    return [masked.filled(values[0], equation.ins[0], [equation.params["axis"]], neutral)]


@rules.prepares("top_k", "approx_top_k")
def _top(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    axis = equation.params.get("axis", equation.params.get("reduction_dimension", -1))
    need(equation.ins[0][axis] is None, equation, "along the batch")
    return values


@rules.prepares("cholesky", "triangular_solve", "lu", "qr", "geqrf", "householder_product")
def _matrices(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    for extents in (*equation.ins, *equation.outs):
        need(not any(extents[-2:]), equation, "of matrices as large as the batch")
    return values


@rules.prepares("fft")
def _fft(masked: Computation, equation: Equation, values: list[Any]) -> list[Any]:
    need(not any(equation.ins[0][-len(equation.params["fft_lengths"]) :]), equation, "along the batch")
    return values
