"""``tf.nn.experimental.stateless_dropout``: which elements go is a function of a seed."""

from __future__ import annotations

from typing import Any

from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.graph.public_scopes import name_scope
from anabranch.ops.array import public_shapes
from anabranch.ops.random.public import stateless_uniform


@public("nn.experimental.stateless_dropout")
def stateless_dropout(
    x: Any, rate: Any, seed: Any, rng_alg: Any = "auto_select", noise_shape: Any = None, name: str | None = None
) -> Tensor:
    """``x`` with elements set to 0 at random, the others scaled by ``1 / (1 - rate)``, which keeps the expected sum.

    Args:
        x: a tensor of floats.
        rate: the share of elements that become 0, in [0, 1).
        seed: two integers; the same ones give the same elements.
        rng_alg: has no effect: Philox is the algorithm on all devices.
        noise_shape: shape of what is drawn, which broadcasts to that of ``x``; 1 where elements go together.
        name: of the scope.

    Raises:
        ValueError: the rate is not a share, or ``x`` has other values than floats.
    """
    del rng_alg
    with name_scope(name, "stateless_dropout", [x]):
        x = convert_to_tensor(x, name="x")
        if not x.dtype.is_floating:
            raise ValueError(
                "`x.dtype` must be a floating point tensor as `x` will be scaled.\n"
                + errors.message(f"x of dtype {x.dtype.name}", "floats", "tf.cast(x, tf.float32)")
            )
        if isinstance(rate, (int, float)) and not 0 <= rate < 1:
            raise ValueError(
                f"`rate` must be a scalar tensor or a float in the range [0, 1). Received: rate={rate}\n"
                + errors.message(f"rate={rate}", "a share of at least 0, below 1", "rate=0.5")
            )
        rate = convert_to_tensor(rate, x.dtype, name="rate")
        one = convert_to_tensor(1, x.dtype)
        shape = public_shapes.shape(x) if noise_shape is None else noise_shape
        keeps = build("GreaterEqual", stateless_uniform(shape, seed, dtype=x.dtype), rate)
        scaled = build("RealDiv", x, build("Sub", one, rate))
        result: Tensor = build("SelectV2", keeps, scaled, build("ZerosLike", scaled))
        return result
