"""Running one op's kernel directly, in either tier, without a graph or a session."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from anabranch.core.contract import kernels, opdef
from anabranch.core.values import constants, dtypes
from anabranch.xla import single_op

TIERS = ("host", "xla")


class _OpView:
    """What a kernel's context shows of the op in messages."""

    def __init__(self, type_name: str, attrs: dict[str, Any]):
        self.name = self.type = type_name
        self.definition = opdef.lookup(type_name)
        self.role = self.definition.role
        self._attrs = attrs
        self.user_site = None


def complete_attrs(type_name: str, inputs: Sequence[np.ndarray], attrs: dict[str, Any]) -> dict[str, Any]:
    """Attributes in stored form with defaults and inferred types filled in; ``inputs`` are flat arrays.

    For list inputs pass the length or type-list attribute explicitly.
    """
    definition = opdef.lookup(type_name)
    stored = {
        key: definition.attrs[key].convert(value, key, type_name) if key in definition.attrs else value
        for key, value in attrs.items()
    }
    position = 0
    for spec in definition.inputs:
        if spec.type_list_attr is not None:
            stored.setdefault(spec.type_list_attr, tuple(dtypes.as_dtype(value.dtype) for value in inputs[position:]))
        elif spec.type_attr is not None and spec.type_attr not in stored:
            stored[spec.type_attr] = dtypes.as_dtype(inputs[position].dtype)
        position += spec.count(stored)
    for key, spec_attr in definition.attrs.items():
        if key not in stored and spec_attr.default is not opdef.REQUIRED:
            stored[key] = spec_attr.default
    return stored


def run_op(type_name: str, *inputs: Any, tier: str = "host", philox: Any = None, **attrs: Any) -> Any:
    """Run an op's kernel on values and return its output (a list if there are several).

    Args:
        type_name: the op.
        inputs: flat inputs; Python values are converted as ``tf.constant`` does. State operands are given as values.
        tier: ``"host"`` (NumPy; XLA only if the op has no host kernel) or ``"xla"``.
        philox: for random ops, ``(key uint32[2], counter uint32[4])``.
        attrs: attributes; types and defaults are filled in.

    Example:
        >>> from anabranch.testing.kernels import run_op
        >>> run_op("Identity", [1.0, 2.0], tier="xla")
        array([1., 2.], dtype=float32)
    """
    if tier not in TIERS:
        raise ValueError(f"tier {tier!r}; expected one of {TIERS}")
    definition = opdef.lookup(type_name)
    arrays = [value if isinstance(value, np.ndarray) else constants.to_array(value) for value in inputs]
    complete = complete_attrs(type_name, arrays, attrs)
    view = _OpView(type_name, complete)
    if (tier == "xla" and definition.kernel is not None) or kernels.needs_lax(definition):
        results = single_op.run_compiled(definition, arrays, complete, view, philox)
    else:
        context = kernels.HostContext(view)
        context.philox = philox
        results = kernels.run_on_host(definition, arrays, complete, context)
    return results[0] if len(results) == 1 else results
