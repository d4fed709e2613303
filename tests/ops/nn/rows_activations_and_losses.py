"""Rows of activations, softmax and losses, biases, normalisation, selection of the greatest."""

from __future__ import annotations

import numpy as np

from anabranch.testing.op_cases import case, each_shape, positive, real, row, whole

FLOATS = "half bfloat16 float double"
SMALL = "half bfloat16 float double int8 int32 int64 uint8"
EDGES = [np.nan, np.inf, -np.inf, 0.0, -0.0, 20.0, -20.0]
SELU_ALPHA, SELU_SCALE = 1.6732632423543772, 1.0507009873554805


def pairs(first=real, second=real, margin=0.0):
    """A gradient beside what the op saw or gave."""
    return [
        case(first(3, 4), second(3, 4, margin=margin) if margin else second(3, 4)),
        case(first(), second(margin=margin) if margin else second()),
        case(first(0), second(0)),
    ]


def above_minus_one(*shape, **domain):
    return real(*shape, low=-0.9, **domain)


def elu(x):
    return np.where(x > 0, x, np.expm1(np.minimum(x, 0)))


def selu(x):
    return SELU_SCALE * np.where(x > 0, x, SELU_ALPHA * np.expm1(np.minimum(x, 0)))


def softplus(x):
    return np.logaddexp(x, 0)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def leaky(x, alpha=0.2):
    return np.where(x > 0, x, np.float32(alpha) * x)


def leaky_grad(dy, x, alpha=0.2):
    return np.where(x > 0, dy, np.float32(alpha) * dy)


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True, initial=-np.inf))
    return e / e.sum(-1, keepdims=True)


def log_softmax(x):
    shifted = x - x.max(-1, keepdims=True, initial=-np.inf)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def cross_entropy(features, labels):
    features, labels = np.broadcast_arrays(features, labels)
    return [-(labels * log_softmax(features)).sum(-1), softmax(features) - labels]


def sparse_cross_entropy(features, labels):
    return cross_entropy(features, np.eye(features.shape[1])[labels])


def bias_add(value, bias, data_format="NHWC"):
    return value + (bias.reshape(-1, *[1] * (value.ndim - 2)) if data_format == "NCHW" else bias)


def bias_add_grad(grad, data_format="NHWC"):
    axis = 1 if data_format == "NCHW" else grad.ndim - 1
    return grad.sum(tuple(i for i in range(grad.ndim) if i != axis), dtype=grad.dtype)


def lrn_norm(x, depth_radius=5, bias=1.0, alpha=1.0, beta=0.5):
    depth = x.shape[-1]
    near = np.abs(np.subtract.outer(np.arange(depth), np.arange(depth))) <= depth_radius
    return bias + alpha * (x * x) @ near, near


def lrn(x, beta=0.5, **attrs):
    return x * lrn_norm(x, **attrs)[0] ** -beta


def lrn_grad(grad, image, output, alpha=1.0, beta=0.5, **attrs):
    norm, near = lrn_norm(image, alpha=alpha, **attrs)
    return grad * norm**-beta - 2 * alpha * beta * image * ((grad * output / norm) @ near)


def channels_last(f):
    """The function on channels in the last place, whatever the data format."""

    def run(x, *rest, data_format="NHWC", images=1, **attrs):
        if data_format[1] != "C":
            return f(x, *rest, **attrs)
        moved = [np.moveaxis(array, 1, -1) if array.ndim > 1 else array for array in (x, *rest)]
        return [np.moveaxis(y, -1, 1) if y.ndim > 1 else y for y in f(*moved, **attrs)]

    return run


def batch_norm(version):
    def run(x, scale, offset, mean, variance, epsilon=1e-4, exponential_avg_factor=1.0, is_training=True):
        axes = tuple(range(x.ndim - 1))
        extra = [np.float64(0.0)] if version == "V3" else []
        if not is_training:
            y = (x - mean) / np.sqrt(variance + epsilon) * scale + offset
            return [y, mean, variance, mean, variance, *extra]
        size = x.size / x.shape[-1]
        batch_mean, batch_variance = x.mean(axes), x.var(axes)
        y = (x - batch_mean) / np.sqrt(batch_variance + epsilon) * scale + offset
        unbiased = batch_variance * size / max(size - 1, 1)
        f = exponential_avg_factor
        if f != 1.0:
            return [
                y,
                (1 - f) * mean + f * batch_mean,
                (1 - f) * variance + f * unbiased,
                batch_mean,
                batch_variance,
                *extra,
            ]
        return [y, batch_mean, unbiased, batch_mean, batch_variance, *extra]

    return channels_last(run)


def batch_norm_grad(dy, x, scale, mean, variance, *_, epsilon=1e-4, is_training=True):
    axes = tuple(range(x.ndim - 1))
    inverse = 1 / np.sqrt(variance + epsilon)
    normal = (x - mean) * inverse
    d_scale, d_offset = (dy * normal).sum(axes), dy.sum(axes)
    d_x = scale * inverse * dy
    if is_training:
        d_x = scale * inverse * (dy - dy.mean(axes) - normal * (dy * normal).mean(axes))
    reserved = np.zeros(0 if is_training else len(scale))
    return [d_x, d_scale, d_offset, reserved, reserved]


def batch_norm_cases(volumes=False):
    def one(*shape, **attrs):
        channels = shape[1] if attrs.get("data_format", "NHWC")[1] == "C" else shape[-1]
        return case(
            real(*shape), positive(channels), real(channels), real(channels), positive(channels), epsilon=0.01, **attrs
        )

    found = [
        one(2, 3, 2, 3),
        one(2, 3, 2, 2, data_format="NCHW"),
        one(2, 2, 2, 3, is_training=False),
        one(2, 3, 2, 2, data_format="NCHW", is_training=False),
        one(2, 2, 2, 3, exponential_avg_factor=0.25),
        one(1, 1, 1, 2),
    ]
    return found + ([one(2, 2, 2, 2, 3, data_format="NDHWC")] if volumes else [])


def batch_norm_grad_cases(version):
    def one(*shape, **attrs):
        channels = shape[1] if attrs.get("data_format", "NHWC")[1] == "C" else shape[-1]
        extra = [0.0] if version == "V3" else []
        return case(
            real(*shape),
            real(*shape),
            positive(channels),
            real(channels, low=-0.2, high=0.2),
            positive(channels),
            *extra,
            epsilon=0.01,
            **attrs,
        )

    return [
        one(2, 3, 2, 3),
        one(2, 3, 2, 2, data_format="NCHW"),
        one(2, 2, 2, 3, is_training=False),
    ]


def normalized(t, m, v, beta, gamma, variance_epsilon, scale_after_normalization):
    inverse = 1 / np.sqrt(v + variance_epsilon)
    return (t - m) * (inverse * gamma if scale_after_normalization else inverse) + beta


def normalized_grad(t, m, v, gamma, g, variance_epsilon, scale_after_normalization):
    inverse = 1 / np.sqrt(v + variance_epsilon)
    scale = inverse * gamma if scale_after_normalization else inverse
    places = (0, 1, 2)
    dv = -0.5 * np.sum(g * (t - m) * scale, places) / (v + variance_epsilon)
    dg = np.sum(g * (t - m), places) * inverse if scale_after_normalization else np.zeros(t.shape[-1])
    return g * scale, -np.sum(g * scale, places), dv, np.sum(g, places), dg


def top_k(x, k, sorted=True):
    order = np.argsort(-x.astype(np.float64), -1, kind="stable")[..., : int(k)]
    return [np.take_along_axis(x, order, -1), order.astype(np.int32)]


def in_top_k(predictions, targets, k):
    wanted = predictions[np.arange(len(targets)), targets]
    return ((predictions > wanted[:, None]).sum(1) < k) & np.isfinite(predictions).all(1)


NORMALIZED = [
    case(
        real(2, 2, 2, 3), real(3), positive(3), real(3), real(3), variance_epsilon=0.1, scale_after_normalization=after
    )
    for after in (True, False)
]
NORMALIZED_GRAD = [
    case(
        real(2, 2, 2, 3),
        real(3),
        positive(3),
        real(3),
        real(2, 2, 2, 3),
        variance_epsilon=0.1,
        scale_after_normalization=after,
    )
    for after in (True, False)
]
TOP = [
    (real(3, 5, low=-40, high=40, distinct=True), 2),
    (real(4, distinct=True), 4),
    (whole(2, 6, low=0, high=2), 3),
    (real(2, 0, 3, distinct=True), 1),
    (real(3, distinct=True), 0),
]
SOFTMAX = [case(real(3, 4)), case(real(4)), case(real(2, 3, 4)), case([[1000.0, 0.0, -1000.0]]), case(real(0, 3))]
# Rows that sum up to 1, which the gradient with respect to the logits takes for granted.
LABELS = np.array([[0.5, 0.25, 0.125, 0.125], [0.0, 1.0, 0.0, 0.0], [0.25, 0.25, 0.25, 0.25]])
IN_TOP = [[0.1, 0.9, 0.9], [0.5, np.nan, 0.2], [3.0, 2.0, np.inf], [0.0, 1.0, 2.0]]

ROWS = [
    row("Relu", lambda x: np.maximum(x, 0), each_shape(margin=0.1, special=EDGES)),
    row("ReluGrad", lambda dy, x: np.where(x > 0, dy, 0), pairs(margin=0.1)),
    row("Relu6", lambda x: np.clip(x, 0, 6), each_shape(low=-9, high=9, margin=0.1, special=EDGES)),
    row("Relu6Grad", lambda dy, x: np.where((x > 0) & (x < 6), dy, 0), pairs(margin=0.1)),
    row("LeakyRelu", leaky, [*each_shape(margin=0.1, special=EDGES), case(real(4, margin=0.1), alpha=0.5)]),
    row("LeakyReluGrad", leaky_grad, [*pairs(margin=0.1), case(real(4), real(4, margin=0.1), alpha=0.5)]),
    row("Elu", elu, each_shape(margin=0.1, special=EDGES)),
    row(
        "EluGrad",
        lambda dy, y: np.where(y < 0, dy * (y + 1), dy),
        pairs(second=lambda *s, **k: real(*s, low=-0.9, **k), margin=0.1),
    ),
    row("Selu", selu, each_shape(margin=0.1, special=EDGES)),
    row(
        "SeluGrad",
        lambda dy, y: np.where(y < 0, dy * (y + SELU_SCALE * SELU_ALPHA), dy * SELU_SCALE),
        pairs(second=lambda *s, **k: real(*s, low=-1.5, **k), margin=0.1),
    ),
    row("Softplus", softplus, each_shape(special=[*EDGES, 100.0, -100.0])),
    row("SoftplusGrad", lambda dy, x: dy * sigmoid(x), pairs()),
    row("Softsign", lambda x: x / (1 + np.abs(x)), each_shape(margin=0.1)),
    row("SoftsignGrad", lambda dy, x: dy / (1 + np.abs(x)) ** 2, pairs(margin=0.1)),
    row(
        "Softmax",
        softmax,
        [case(real(3, 4)), case(real(4)), case(real(2, 3, 4)), case([[1000.0, 0.0, -1000.0]]), case(real(0, 3))],
        tolerance=2,
    ),
    row("LogSoftmax", log_softmax, SOFTMAX),
    row(
        "SoftmaxCrossEntropyWithLogits",
        cross_entropy,
        [case(real(3, 4), LABELS), case(real(3, 4), LABELS[:1]), case(real(0, 4), LABELS[:0])],
        outputs=[0],
        tolerance=2,
    ),
    row(
        "SparseSoftmaxCrossEntropyWithLogits",
        sparse_cross_entropy,
        [
            case(real(3, 4), whole(3, low=0, high=3)),
            case(real(3, 4), [0, 3, 1], types={"Tlabels": "int32"}),
            case(real(0, 4), np.zeros(0)),
        ],
        outputs=[0],
        tolerance=2,
    ),
    row("L2Loss", lambda t: (t * t).sum() / 2, [case(real(3, 4)), case(real()), case(real(0))], tolerance=2),
    row(
        "BiasAdd",
        bias_add,
        [
            case(real(2, 3, 4), real(4)),
            case(real(2, 3, 2, 2), real(3), data_format="NCHW"),
            case(real(2, 3), real(3)),
            case(real(0, 3), real(3)),
        ],
        SMALL + " complex64",
    ),
    row("BiasAddV1", bias_add, [case(real(2, 3, 4), real(4)), case(real(0, 3), real(3))], SMALL),
    row(
        "BiasAddGrad",
        bias_add_grad,
        [case(real(2, 3, 4)), case(real(2, 3, 2, 2), data_format="NCHW"), case(real(0, 3))],
        SMALL,
        tolerance=2,
    ),
    row(
        "LRN", lrn, [case(real(2, 2, 2, 6), depth_radius=2, alpha=0.5, beta=0.75), case(real(1, 1, 2, 3))], tolerance=2
    ),
    row(
        "LRNGrad",
        lrn_grad,
        [case(real(2, 2, 2, 6), real(2, 2, 2, 6), real(2, 2, 2, 6), depth_radius=2, alpha=0.5, beta=0.75)],
        order=1,
        tolerance=4,
    ),
    row("FusedBatchNorm", batch_norm(""), batch_norm_cases(), tolerance=4, outputs=[0], wrt="x scale offset"),
    row("FusedBatchNormV2", batch_norm("V2"), batch_norm_cases(), tolerance=4, outputs=[0], wrt="x scale offset"),
    row("FusedBatchNormV3", batch_norm("V3"), batch_norm_cases(True), tolerance=4, outputs=[0], wrt="x scale offset"),
    row("FusedBatchNormGrad", channels_last(batch_norm_grad), batch_norm_grad_cases(""), tolerance=6, order=0),
    row("FusedBatchNormGradV2", channels_last(batch_norm_grad), batch_norm_grad_cases("V2"), tolerance=6, order=0),
    row("FusedBatchNormGradV3", channels_last(batch_norm_grad), batch_norm_grad_cases("V3"), tolerance=6, order=0),
    row("BatchNormWithGlobalNormalization", normalized, NORMALIZED, FLOATS, tolerance=2),
    row("BatchNormWithGlobalNormalizationGrad", normalized_grad, NORMALIZED_GRAD, FLOATS, tolerance=6, order=1),
    row("TopKV2", top_k, [case(x, k, grad=k > 0 and x.distinct) for x, k in TOP], outputs=[0]),
    row("TopK", top_k, [case(x, k=k, grad=k > 0 and x.distinct) for x, k in TOP], outputs=[0]),
    row("InTopK", in_top_k, [case(IN_TOP, [1, 0, 1, 0], k=k) for k in (1, 2)]),
    row("InTopKV2", in_top_k, [case(IN_TOP, [1, 0, 1, 0], k) for k in (1, 2)]),
]
