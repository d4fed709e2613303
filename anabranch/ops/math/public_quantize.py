"""``tf.quantization``: fake quantisation, quantisation, and the older names of both."""

from __future__ import annotations

from typing import Any

from anabranch.core.contract.api import public, public_op
from anabranch.core.graph.build import build
from anabranch.core.graph.convert import convert_to_tensor
from anabranch.core.graph.operation import Tensor
from anabranch.core.values import dtypes
from anabranch.ops.math import quantize as _kernels  # noqa: F401  (its ops are looked up below)

_FAKE = (
    ("FakeQuantWithMinMaxArgs", "fake_quant_with_min_max_args", "inputs min max num_bits narrow_range"),
    (
        "FakeQuantWithMinMaxArgsGradient",
        "fake_quant_with_min_max_args_gradient",
        "gradients inputs min max num_bits narrow_range",
    ),
    ("FakeQuantWithMinMaxVars", "fake_quant_with_min_max_vars", "inputs min max num_bits narrow_range"),
    (
        "FakeQuantWithMinMaxVarsGradient",
        "fake_quant_with_min_max_vars_gradient",
        "gradients inputs min max num_bits narrow_range",
    ),
    (
        "FakeQuantWithMinMaxVarsPerChannel",
        "fake_quant_with_min_max_vars_per_channel",
        "inputs min max num_bits narrow_range",
    ),
    (
        "FakeQuantWithMinMaxVarsPerChannelGradient",
        "fake_quant_with_min_max_vars_per_channel_gradient",
        "gradients inputs min max num_bits narrow_range",
    ),
)

for _kind, _name, _arguments in _FAKE:
    public_op(_kind, _name, f"quantization.{_name}", arguments=_arguments)
public_op("Dequantize", "dequantize", "quantization.dequantize", arguments="input min_range max_range mode")


@public("quantize", "quantization.quantize")
def quantize(
    input: Any,
    min_range: Any,
    max_range: Any,
    T: Any,
    mode: str = "MIN_COMBINED",
    round_mode: str = "HALF_AWAY_FROM_ZERO",
    name: str | None = None,
) -> Any:
    """Whole numbers of the range of ``T`` that stand for ``min_range`` to ``max_range``; see the op QuantizeV2.

    Returns:
        ``output``, ``output_min`` and ``output_max``: the range that was used, which holds 0.
    """
    return build("QuantizeV2", input, min_range, max_range, T=T, mode=mode, round_mode=round_mode, name=name)


@public("quantize_v2")
def quantize_v2(
    input: Any,
    min_range: Any,
    max_range: Any,
    T: Any,
    mode: str = "MIN_COMBINED",
    name: str | None = None,
    round_mode: str = "HALF_AWAY_FROM_ZERO",
) -> Any:
    """``tf.quantize`` with another order of arguments."""
    return quantize(input, min_range, max_range, T, mode, round_mode, name)


@public("quantization.quantize_and_dequantize")
def quantize_and_dequantize(
    input: Any,
    input_min: Any,
    input_max: Any,
    signed_input: bool = True,
    num_bits: int = 8,
    range_given: bool = False,
    round_mode: str = "HALF_TO_EVEN",
    name: str | None = None,
    narrow_range: bool = False,
) -> Tensor:
    """``input`` rounded to one of ``2 ** num_bits`` numbers; gradients pass unchanged.

    Args:
        input: floats.
        input_min: the least number, used if ``range_given``.
        input_max: the greatest.
        signed_input: whether the grid reaches to both sides of 0.
        num_bits: 2 or more.
        range_given: whether to take the range of the arguments and not that of the input.
        round_mode: ``"HALF_TO_EVEN"`` or ``"HALF_UP"``.
        name: of the op.
        narrow_range: whether the grid has as many steps below 0 as above.
    """
    input = convert_to_tensor(input, preferred_dtype=dtypes.float32)
    return build(
        "QuantizeAndDequantizeV2",
        input,
        input_min,
        input_max,
        signed_input=signed_input,
        num_bits=num_bits,
        range_given=range_given,
        round_mode=round_mode,
        narrow_range=narrow_range,
        name=name,
    )
