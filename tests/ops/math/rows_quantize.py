"""Rows of quantisation; more cases against TensorFlow's kernels in test_raw_golden.py."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import case, elsewhere, real, row, whole


def grid(low, high, num_bits=8, narrow_range=False):
    """The numbers of a fake quantisation: a grid that holds 0."""
    steps = 2**num_bits - 1 - narrow_range
    step = (high - low) / steps
    zero = np.clip(np.floor(-low / step + 0.5), 0, steps)
    return (np.arange(steps + 1) - zero) * step


def nearest(x, low, high, **options):
    if low == high == 0:
        return np.zeros_like(x)
    numbers = grid(low, high, **options)
    return numbers[np.abs(x[..., None] - numbers).argmin(-1)]


def by_attributes(x, min=-6.0, max=6.0, **options):
    return nearest(x, min, max, **options)


def per_channel(x, low, high, **options):
    return np.stack([nearest(x[..., i], low[i], high[i], **options) for i in range(len(low))], -1)


def slopes(grad, x, low, high, **options):
    if low == high == 0:
        return grad, 0.0, 0.0
    numbers = grid(low, high, **options)
    below, above = x < numbers[0], x > numbers[-1]
    return grad * ~(below | above), np.sum(grad * below), np.sum(grad * above)


def slopes_per_channel(grad, x, low, high, **options):
    parts = [slopes(grad[..., i], x[..., i], low[i], high[i], **options) for i in range(len(low))]
    return np.stack([p[0] for p in parts], -1), *(np.array([p[i] for p in parts]) for i in (1, 2))


X = np.random.default_rng(5).uniform(-3, 3, (4, 5))
LOWS, HIGHS = [-0.4, -2.9, -1.0, -3.5, -0.1], [0.3, 1.0, 2.7, 0.6, 1.8]
SETTINGS = [{}, {"num_bits": 4}, {"narrow_range": True, "num_bits": 6}]


def fakes(*inputs, **options):
    return [case(*inputs, **options, **setting, grad=False) for setting in SETTINGS]


ENDS = {"qint8": (-128, 127), "quint8": (0, 255), "qint16": (-32768, 32767), "quint16": (0, 65535)}


def check_quantized(outputs, inputs, attrs):
    """Each whole number stands for a value within half a step of its input; the range holds 0 and what was asked."""
    found, low, high = (item.astype(np.float64) for item in outputs)
    x = inputs[0].astype(np.float64)
    least, most = np.iinfo(outputs[0].dtype).min, np.iinfo(outputs[0].dtype).max
    assert np.all(low <= 1e-6)
    assert np.all(high >= -1e-6)
    step = (high - low) / (float(most) - float(least))
    if attrs["mode"] == "SCALED":
        step = high / most
        value = found * step
    else:
        value = low + (found - least) * step
    clipped = np.clip(x, low, high)
    assert np.all(np.abs(value - clipped) <= step * 1.01 + 1e-5 * np.abs(high))


def stood_for(x, low, high, mode="MIN_COMBINED", narrow_range=False, axis=-1):
    info = np.iinfo(x.dtype)
    if axis >= 0:
        low, high = (np.reshape(item, [-1 if i == axis else 1 for i in range(x.ndim)]) for item in (low, high))
    if mode == "SCALED":
        ends = [high / info.max]
        if info.min < 0:
            ends.append(low / (info.min + narrow_range))
        return x * np.max(np.broadcast_arrays(*ends), axis=0)
    steps = float(info.max) - info.min
    if mode == "MIN_COMBINED":
        half = (steps + 1) / 2 if info.min < 0 else 0
        return (x + half) * (high - low) / steps + low
    step = (high - low) / steps
    return np.round(low / step) * step + (x.astype(np.float64) - info.min) * step


def there_and_back(x, low, high, num_bits=8, signed_input=True, range_given=False, narrow_range=False, axis=-1,
                   round_mode="HALF_TO_EVEN"):  # fmt: skip
    if not range_given:
        others = tuple(i for i in range(x.ndim) if i != axis) if axis >= 0 else None
        low, high = np.min(x, axis=others, keepdims=axis >= 0), np.max(x, axis=others, keepdims=axis >= 0)
    bits = int(num_bits)
    least = -(2 ** (bits - 1)) + narrow_range if signed_input else 0
    most = 2 ** (bits - 1) - 1 if signed_input else 2**bits - 1
    step = np.maximum(high / most, low / least if least else -np.inf)
    clipped = np.clip(x, least * step, most * step) if range_given else x
    return (np.floor(clipped / step + 0.5) if round_mode == "HALF_UP" else np.round(clipped / step)) * step


def older(x, input_min=0.0, input_max=0.0, **options):
    return there_and_back(x, input_min, input_max, **options)


def third(x, low, high, bits, range_given=True, **options):
    return there_and_back(x, low, high, bits, range_given=range_given, **options)


# What TensorFlow's kernels gave for these sums: as bytes of the range -3 to 5, and the range that they use.
SUMS = [
    [-90347604, 98764591, 104868288, 141365315],
    [163622907, -107228221, 117693031, 445841673],
    [230702035, 326610453, 277165042, -95840425],
]
BYTES = [[69, 125, 127, 138], [144, 64, 131, 228], [164, 193, 178, 67]]
USED = np.float32(-0.99864066), np.float32(4.152224)


def recorded(*results):
    def check(outputs, inputs, attrs):
        for found, wanted in zip(outputs, results, strict=True):
            if found.dtype.kind == "f":
                np.testing.assert_allclose(found, wanted, 1e-6)
            else:
                assert np.array_equal(found, wanted), found

    return check


def in_bytes(outputs, inputs, attrs):
    """Within one step of the numbers stood for."""
    found, low, high = outputs
    x, first, last = (item.astype(np.float64) for item in inputs[:3])
    kind = inputs[0].dtype
    value = first + (x - np.iinfo(kind).min) * (last - first) / (float(np.iinfo(kind).max) - np.iinfo(kind).min)
    step = (float(high) - float(low)) / 255
    back = float(low) + (found.astype(float) - np.iinfo(found.dtype).min) * step
    assert np.max(np.abs(back - np.clip(value, low, high))) <= 1.1 * step


ROWS = [
    row(
        "RequantizationRange",
        None,
        [case(SUMS, -20.0, 20.0, types={"Tinput": "qint32"})],
        vary="Tinput",
        types="qint32",
        check=recorded(*USED),
    ),
    row(
        "Requantize",
        None,
        [case(SUMS, -20.0, 20.0, -3.0, 5.0, types={"Tinput": "qint32", "out_type": "quint8"})],
        vary="out_type",
        types="quint8",
        check=recorded(BYTES, np.float32(-3), np.float32(5)),
    ),
    row(
        "QuantizeDownAndShrinkRange",
        None,
        [case(whole(3, 4, low=-30000, high=30000), -2.0, 2.0, types={"Tinput": "qint16", "out_type": "qint8"})],
        vary="out_type",
        types="qint8",
        check=in_bytes,
    ),
    row(
        "QuantizedReshape",
        lambda x, shape, low, high: (x.reshape([int(n) for n in shape]), low, high),
        [case(real(2, 3), [3, 2], -1.0, 1.0), case(real(2, 3), [-1], -1.0, 1.0), case(real(2, 0), [0, 5], 0.0, 1.0)],
        "float uint8 int32",
        order=0,
    ),
    row("FakeQuantWithMinMaxArgs", by_attributes, fakes(X) + fakes(X, min=-1.3, max=2.2), tolerance=40, order=0),
    row(
        "FakeQuantWithMinMaxVars", nearest, [*fakes(X, -1.3, 2.2), case(X, 0.0, 0.0, grad=False)], tolerance=40, order=0
    ),
    row("FakeQuantWithMinMaxVarsPerChannel", per_channel, fakes(X, LOWS, HIGHS), tolerance=40, order=0),
    row(
        "FakeQuantWithMinMaxArgsGradient",
        lambda g, x, min=-6.0, max=6.0, **kw: slopes(g, x, min, max, **kw)[0],
        fakes(real(4, 5), X, min=-1.3, max=2.2),
    ),
    row(
        "FakeQuantWithMinMaxVarsGradient",
        slopes,
        [*fakes(real(4, 5), X, -1.3, 2.2), case(real(4, 5), X, 0.0, 0.0)],
        tolerance=4,
    ),
    row(
        "FakeQuantWithMinMaxVarsPerChannelGradient", slopes_per_channel, fakes(real(4, 5), X, LOWS, HIGHS), tolerance=4
    ),
    row(
        "QuantizeV2",
        None,
        [case(X, -2.3, 3.1, T=kind, mode=mode) for kind in ENDS for mode in ("MIN_COMBINED", "SCALED")]
        + [
            case(X, -2.3, 3.1, T="qint8", mode="MIN_FIRST"),
            case(X, LOWS, HIGHS, T="qint8", mode="SCALED", axis=1),
            case(X, -2.3, 3.1, T="qint8", mode="SCALED", round_mode="HALF_TO_EVEN", narrow_range=True),
        ],
        check=check_quantized,
    ),
    row(
        "Dequantize",
        stood_for,
        [
            case(whole(3, 4, low=low, high=high), -1.5, 2.5, types={"T": kind}, mode=mode)
            for kind, (low, high) in ENDS.items()
            for mode in ("MIN_COMBINED", "MIN_FIRST", "SCALED")
        ]
        + [case(whole(3, 5, low=-128, high=127), LOWS, HIGHS, types={"T": "qint8"}, mode="SCALED", axis=1)],
        "float bfloat16",
        vary="dtype",
        tolerance=40,
    ),
    row(
        "QuantizeAndDequantizeV2",
        there_and_back,
        [
            case(X, -2.0, 2.5, grad=False),
            case(X, -2.0, 2.5, range_given=True, num_bits=5, grad=False),
            case(np.abs(X), 0.0, 2.5, range_given=True, signed_input=False, grad=False),
            case(X, LOWS, HIGHS, axis=1, narrow_range=True, round_mode="HALF_UP", grad=False),
        ],
        "float double",
        order=0,
        tolerance=40,
    ),
    row(
        "QuantizeAndDequantizeV3",
        third,
        [case(X, -2.0, 2.5, 6, grad=False), case(X, -2.0, 2.5, 8, range_given=False, grad=False)],
        "float double",
        order=0,
        tolerance=40,
    ),
    row(
        "QuantizeAndDequantize",
        older,
        [case(X, grad=False), case(X, input_min=-2.0, input_max=2.5, range_given=True, grad=False)],
        "float double",
        order=0,
        tolerance=40,
    ),
    *[
        elsewhere(name, "tools/golden/kernels/raw/quantized_networks.py")
        for name in (
            "QuantizedAdd",
            "QuantizedAvgPool",
            "QuantizedBiasAdd",
            "QuantizedConcat",
            "QuantizedConv2D",
            "QuantizedMatMul",
            "QuantizedMaxPool",
            "QuantizedMul",
            "QuantizedRelu",
            "QuantizedRelu6",
        )
    ],
    elsewhere("QuantizedReluX", "tests/ops/nn/test_quantized_relu.py"),
]
