"""Cases of networks of whole numbers. Record them with TensorFlow 1: the averages of later versions are rounded."""

import numpy as np
from raw_ops import case, quantized

RANDOM = np.random.RandomState(7)
IMAGES = quantized(RANDOM.randint(0, 256, (2, 6, 5, 3)), "quint8")
FILTERS = quantized(RANDOM.randint(0, 256, (3, 2, 3, 4)), "quint8")
LEFT = quantized(RANDOM.randint(0, 256, (4, 7)), "quint8")
RIGHT = quantized(RANDOM.randint(0, 256, (7, 3)), "quint8")
BIAS = quantized(RANDOM.randint(0, 256, (3,)), "quint8")
SUMS = quantized(RANDOM.randint(-(2**31), 2**31, (4, 3), np.int64), "qint32")
RANGE, OTHER = (np.float32(-1.3), np.float32(2.7)), (np.float32(0.0), np.float32(5.5))

CASES = {
    "relu": case("QuantizedRelu", LEFT, *RANGE, out_type="quint8"),
    "relu of 32 bits": case("QuantizedRelu", SUMS, *RANGE, out_type="qint32"),
    "relu6": case("QuantizedRelu6", LEFT, np.float32(-8), np.float32(9), out_type="quint8"),
    "matmul": case("QuantizedMatMul", LEFT, RIGHT, *RANGE, *OTHER, Toutput="qint32"),
    "matmul, transposed": case(
        "QuantizedMatMul", RIGHT, LEFT, *OTHER, *RANGE, Toutput="qint32", transpose_a=True, transpose_b=True
    ),
    "bias": case("QuantizedBiasAdd", IMAGES, BIAS, *RANGE, *OTHER, out_type="qint32"),
    "product": case("QuantizedMul", IMAGES, BIAS, *RANGE, *OTHER, Toutput="qint32"),
    "product of scalar": case(
        "QuantizedMul", LEFT, quantized(np.array(77), "quint8"), *RANGE, *OTHER, Toutput="qint32"
    ),
    "sum": case("QuantizedAdd", IMAGES, BIAS, *RANGE, *OTHER, Toutput="qint32"),
    "sum of equals": case("QuantizedAdd", LEFT, LEFT, *RANGE, *OTHER, Toutput="qint32"),
    "concatenation": case(
        "QuantizedConcat",
        np.int32(1),
        (LEFT, quantized(RANDOM.randint(0, 256, (4, 2)), "quint8")),
        (RANGE[0], OTHER[0]),
        (RANGE[1], OTHER[1]),
    ),
}
for _padding in ("SAME", "VALID"):
    CASES[f"convolution {_padding}"] = case(
        "QuantizedConv2D", IMAGES, FILTERS, *RANGE, *OTHER, strides=[1, 2, 2, 1], padding=_padding
    )
    for _pool in ("QuantizedMaxPool", "QuantizedAvgPool"):
        CASES[f"{_pool} {_padding}"] = case(
            _pool, IMAGES, *RANGE, ksize=[1, 3, 2, 1], strides=[1, 2, 1, 1], padding=_padding
        )
