"""Ops that TensorFlow 2 puts into functions: which branch is for this device, values that nobody reads."""

from __future__ import annotations

import numpy as np

from anabranch.core import errors
from anabranch.core.contract.opdef import PURE, List, NotDifferentiable, Op, Shape, Type


class DeviceIndex(Op):
    """The place of this device's kind in ``device_names``, their number if it is not there.

    The answer is that of a CPU on all devices: a branch for another kind is there for kernels that only that
    kind has in TensorFlow, while all kernels here are portable.
    """

    signature = "-> index: int32"
    attrs = {"device_names": List("string")}
    effect = PURE
    gradient = NotDifferentiable("it has no inputs")

    def shape(c):
        return ()

    def value(c):
        return np.array(_index(c.attrs["device_names"]), np.int32)

    def kernel(ctx, inputs, attrs):
        return np.int32(_index(attrs["device_names"]))


def _index(names: tuple[str, ...]) -> int:
    return names.index("CPU") if "CPU" in names else len(names)


class FakeParam(Op):
    """Zeros where a branch of a conditional must give what only the other one has; sizes that are not known are 0."""

    signature = "-> output: dtype"
    attrs = {"dtype": Type(), "shape": Shape()}
    effect = PURE
    gradient = NotDifferentiable("it has no inputs")

    def shape(c):
        if c.attrs["dtype"].np is None and c.attrs["dtype"].name != "string":
            raise NotImplementedError(
                errors.message(
                    f"a FakeParam of {c.attrs['dtype'].name}",
                    "numbers, bools or strings",
                    "save the model without the gradients of its conditionals",
                )
            )
        return _sizes(c.attrs["shape"])

    def kernel(ctx, inputs, attrs):
        return ctx.xp.zeros(_sizes(attrs["shape"]), attrs["dtype"].np)

    def host_kernel(ctx, inputs, attrs):
        if attrs["dtype"].name == "string":
            return np.full(_sizes(attrs["shape"]), b"", object)
        return np.zeros(_sizes(attrs["shape"]), attrs["dtype"].np)


def _sizes(shape: tuple[int | None, ...] | None) -> tuple[int, ...]:
    return tuple(size or 0 for size in shape or ())
