"""Formulas of elements that TensorFlow's late versions have a name for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from anabranch.core.contract.api import public
from anabranch.core.graph import convert
from anabranch.core.graph.build import build
from anabranch.core.graph.public_scopes import name_scope


@public("math.polyval")
def polyval(coeffs: Sequence[Any], x: Any, name: str | None = None) -> Any:
    """The polynomial ``coeffs[0] * x ** (n - 1) + ... + coeffs[n - 1]``, element by element (Horner).

    Args:
        coeffs: a list of tensors that broadcast against ``x``, the highest power first; zeros for an empty list.
        x: tensor.
        name: name scope.
    """
    with name_scope(name, "polyval", [*coeffs, x]) as scope:
        x = convert.convert_to_tensor(x, name="x")
        if not coeffs:
            return build("ZerosLike", x, name=scope)
        value, *others = [convert.convert_to_tensor(item, name=f"coeff_{i}") for i, item in enumerate(coeffs)]
        for item in others:
            value = build("AddV2", item, build("Mul", value, x))
        return value


@public("math.reciprocal_no_nan")
def reciprocal_no_nan(x: Any, name: str | None = None) -> Any:
    """``1 / x``, and 0 where ``x`` is 0."""
    with name_scope(name, "reciprocal_no_nan", [x]) as scope:
        x = convert.convert_to_tensor(x, name="x")
        return build("DivNoNan", convert.constant(1, x.dtype.base, name="one"), x, name=scope)
