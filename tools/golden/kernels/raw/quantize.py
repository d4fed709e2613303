"""Cases of quantisation."""

import numpy as np
from raw_ops import case

RANDOM = np.random.RandomState(3)
X = (4 * RANDOM.randn(3, 5)).astype(np.float32)
GRADS = RANDOM.randn(3, 5).astype(np.float32)
LOW, HIGH = np.float32(-2.3), np.float32(3.1)
LOWS = -np.float32([0.1, 1, 2, 3, 0.7])
HIGHS = np.float32([0.3, 1, 5, 0.4, 2.9])


def fake(kind, *inputs, name="", **attrs):
    """A fake quantisation, plain and narrow."""
    return {
        f"{kind}{name}": case(kind, *inputs, **attrs),
        f"{kind}{name}, narrow": case(kind, *inputs, narrow_range=True, **attrs),
        f"{kind}{name}, 4 bits": case(kind, *inputs, num_bits=4, **attrs),
    }


CASES = {
    **fake("FakeQuantWithMinMaxArgs", X, min=-1.3, max=2.1),
    **fake("FakeQuantWithMinMaxArgs", X, name=", default"),
    **fake("FakeQuantWithMinMaxArgs", X, name=", above 0", min=0.5, max=2.1),
    **fake("FakeQuantWithMinMaxArgs", X, name=", below 0", min=-3.0, max=-1.0),
    **fake("FakeQuantWithMinMaxArgsGradient", GRADS, X, min=-1.3, max=2.1),
    **fake("FakeQuantWithMinMaxVars", X, LOW, HIGH),
    **fake("FakeQuantWithMinMaxVars", X, np.float32(0), np.float32(0), name=", empty"),
    **fake("FakeQuantWithMinMaxVarsGradient", GRADS, X, LOW, HIGH),
    **fake("FakeQuantWithMinMaxVarsGradient", GRADS, X, np.float32(0), np.float32(0), name=", empty"),
    **fake("FakeQuantWithMinMaxVarsPerChannel", X, LOWS, HIGHS),
    **fake("FakeQuantWithMinMaxVarsPerChannelGradient", GRADS, X, LOWS, HIGHS),
}
for _kind in ("qint8", "quint8", "qint16", "quint16", "qint32"):
    for _mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED"):
        if _kind == "qint32" and _mode != "MIN_FIRST":
            continue
        if _kind in ("qint16", "quint16") and _mode == "MIN_FIRST":
            continue
        CASES[f"quantize {_kind} {_mode}"] = case("QuantizeV2", X, LOW, HIGH, T=_kind, mode=_mode)
        CASES[f"quantize {_kind} {_mode}, above 0"] = case(
            "QuantizeV2", np.abs(X), np.float32(0.4), HIGH, T=_kind, mode=_mode
        )
CASES["quantize, even"] = case(
    "QuantizeV2", X, LOW, HIGH, T="qint8", mode="SCALED", round_mode="HALF_TO_EVEN", narrow_range=True
)
CASES["quantize, by axis"] = case("QuantizeV2", X, LOWS, HIGHS, T="qint8", mode="SCALED", axis=1)
CASES["quantize, small range"] = case("QuantizeV2", X / 1000, LOW / 1000, HIGH / 1000, T="quint8")
for _signed in (True, False):
    for _given in (True, False):
        _name = f"there and back, {'signed' if _signed else 'unsigned'}, {'given' if _given else 'own'} range"
        _data = X if _signed else np.abs(X)
        CASES[_name] = case(
            "QuantizeAndDequantizeV2", _data, LOW, HIGH, signed_input=_signed, range_given=_given, num_bits=5
        )
        CASES[f"{_name}, third"] = case(
            "QuantizeAndDequantizeV3", _data, LOW, HIGH, np.int32(6), signed_input=_signed, range_given=_given
        )
CASES["there and back, half up"] = case(
    "QuantizeAndDequantizeV2", X, LOW, HIGH, round_mode="HALF_UP", range_given=True, narrow_range=True
)
CASES["there and back, own range by axis"] = case("QuantizeAndDequantizeV2", X, LOWS, HIGHS, axis=1)
CASES["there and back, double"] = case(
    "QuantizeAndDequantizeV2", X.astype(np.float64), np.float64(LOW), np.float64(HIGH), range_given=True
)
