"""What tests of graphs share: the ops that loops of version 1 are made of."""

from __future__ import annotations

import pytest

from anabranch.core import inference, opdef
from anabranch.core.opdef import PURE, Bool, Int, NotDifferentiable, String, Type

_REASON = NotDifferentiable("a test op")


def _first(ctx, inputs, attrs):
    return inputs[0]


def _switch_shape(c):
    return [c.shapes[0]] * 2


def _merge_shape(c):
    first = c.shapes[0]
    return [first if all(shape == first for shape in c.shapes) else None, ()]


@pytest.fixture(scope="session")
def loop_ops() -> None:
    """Defines the ops of loops that the package does not have, for graphs with cycles."""
    frame = {"T": Type(), "frame_name": String(), "is_constant": Bool(False), "parallel_iterations": Int(10)}
    rows = {
        "Switch": (
            "data: T, pred: bool -> output_false: T, output_true: T",
            {"T": Type()},
            lambda c: [c.shapes[0]] * 2,
        ),
        "Merge": ("inputs: N * T -> output: T, value_index: int32", {"T": Type(), "N": Int(minimum=1)}, _merge_shape),
        "Enter": ("data: T -> output: T", frame, inference.unchanged),
        "Exit": ("data: T -> output: T", {"T": Type()}, inference.unchanged),
        "NextIteration": ("data: T -> output: T", {"T": Type()}, inference.unchanged),
        "LoopCond": ("input: bool -> output: bool", {}, inference.unchanged),
    }
    for name, (signature, attrs, shape) in rows.items():
        if opdef.find(name) is None:
            opdef.define(
                name,
                "A test op.",
                signature=signature,
                attrs=attrs,
                effect=PURE,
                shape=shape,
                gradient=_REASON,
                host_kernel=_first,
            )
