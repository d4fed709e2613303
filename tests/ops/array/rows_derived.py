"""Row of the derived gradient: vector-Jacobian products of three ops, against their formulas."""

from __future__ import annotations

import numpy as np

from anabranch.core.contract.attrs import NamedAttrs
from anabranch.core.values import dtypes
from anabranch.testing.op_cases import case, real, row

FORMULAS = {
    "Exp": lambda inputs, static, grads: [grads[0] * np.exp(np.conj(inputs[0]))],
    "Mul": lambda inputs, static, grads: [grads[0] * np.conj(inputs[1]), grads[0] * np.conj(inputs[0])],
    "Reshape": lambda inputs, static, grads: [grads[0].reshape(inputs[0].shape)],
}


def one(name, inputs, static, grads, kind="double", **attrs):
    """A call of the derived gradient of the op ``name``."""
    types = {"Tin": f"{kind} " * len(inputs), "Tgrad": kind, "Tout": f"{kind} " * len(inputs)}
    items = {"T": dtypes.as_dtype(kind), **attrs}
    return case(
        inputs,
        static,
        grads,
        types={**types, "Tstatic": "int32" if static else ""},
        forward=NamedAttrs(name, tuple(sorted(items.items()))),
        wrt=range(len(inputs)),
        static_at=[len(inputs)] if static else [],
        outputs_at=[0],
    )


ROWS = [
    row(
        "AnabranchVjp",
        lambda inputs, static, grads, forward, **_: FORMULAS[forward.name](inputs, static, grads),
        [
            one("Exp", [real(2, 3)], [], [real(2, 3)]),
            one("Exp", [real(2, 3)], [], [real(2, 3)], "complex128"),
            one("Exp", [real()], [], [real()], "float"),
            one("Mul", [real(4), real(4)], [], [real(4)]),
            one("Reshape", [real(2, 3)], [[3, 2]], [real(3, 2)], Tshape=dtypes.int32),
            one("Exp", [real(0, 3)], [], [real(0, 3)]),
        ],
    )
]
