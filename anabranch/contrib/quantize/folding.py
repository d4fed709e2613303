"""Batch normalizations become factors of the weights before them, as a device computes that multiplies integers.

The layer is built once more, with weights times ``gamma / sqrt(variance + epsilon)``, and what is left of the
normalization is a bias. While training the factor is the one of the moving averages, which do not jump from batch to
batch, and the result is corrected to that of the batch; after a delay the averages alone may count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import anabranch as tf
from anabranch.contrib.quantize.patterns import GraphMatcher, OneofPattern, OpTypePattern
from anabranch.core import errors

_SUM = "Add|AddV2"
_LAYERS = "Conv2D|DepthwiseConv2dNative|MatMul"
_FUSED = "FusedBatchNorm|FusedBatchNormV2|FusedBatchNormV3"
_OF_STATISTICS = "FoldFusedBatchNormGrad"


class _Normalization(NamedTuple):
    """A layer with its normalization; tensors, where nothing else is said."""

    layer: Any  # an op
    weights: Any
    to_batch: Any  # the op BatchToSpaceND behind the layer, or None
    output: Any
    scale: Any  # gamma / sqrt(variance + epsilon), or None where it must be built
    bias: Any  # likewise: beta - mean * scale
    gamma: Any  # None if there is none
    beta: Any
    mean: Any
    variance: Any
    epsilon: Any
    moving_mean: Any  # with moving_variance None if the statistics are not those of the batch
    moving_variance: Any
    rates: tuple[Any, ...]  # factors of the averages' updates


def FoldBatchNorms(graph: Any, is_training: bool, freeze_batch_norm_delay: int | None = None) -> None:
    """Fold the batch normalizations behind convolutions and matrix products of a graph.

    Args:
        graph: the graph.
        is_training: correct the result to the statistics of the batch.
        freeze_batch_norm_delay: steps after which the moving averages count, and stay; never by default.
    """
    with graph.as_default():
        for norm in [*_fused(graph, is_training), *_plain(graph)]:
            _fold(graph, norm, is_training, freeze_batch_norm_delay)


def CreateOrGetQuantizationStep() -> Any:
    """The number of the step, which each run of what depends on it counts."""
    graph = tf.get_default_graph()
    name = "fake_quantization_step"
    try:
        return graph.get_tensor_by_name(f"{name}/Identity:0")
    except KeyError:
        pass
    with graph.name_scope(None):
        step = tf.get_variable(
            name,
            shape=[],
            dtype=tf.int64,
            initializer=tf.zeros_initializer(),
            trainable=False,
            collections=[tf.GraphKeys.GLOBAL_VARIABLES],
        )
        with graph.name_scope(step.op.name + "/"):
            return tf.identity(tf.assign_add(step, 1))


# ------------------------------------------------------------------------------------------------------------- finding
def _averages(mean: Any, variance: Any) -> dict[str, Any]:
    """The moving averages of two statistics, and the factors of their updates: ``average -= (average - x) * rate``."""
    found = []
    for statistic in (mean, variance):
        for difference in statistic.consumers():
            if difference.type != "Sub" or difference.inputs[1] is not statistic:
                continue
            products = [op for op in difference.outputs[0].consumers() if op.type == "Mul"]
            if products:
                found.append((difference.inputs[0], products[0].inputs[1]))
                break
    if len(found) < 2:
        return {"moving_mean": None, "moving_variance": None, "rates": ()}
    return {
        "moving_mean": found[0][0],
        "moving_variance": found[1][0],
        "rates": tuple({id(rate): rate for _, rate in found}.values()),
    }


def _layer_patterns() -> tuple[OpTypePattern, OpTypePattern, OpTypePattern, OneofPattern]:
    """Patterns of the weights, the layer, of BatchToSpaceND behind it, and of what comes out of them."""
    weights = OpTypePattern("*")
    layer = OpTypePattern(_LAYERS, inputs=["*", weights])
    to_batch = OpTypePattern("BatchToSpaceND", inputs=[layer, "*", "*"])
    through = OpTypePattern("Identity", inputs=[OneofPattern([to_batch, layer])])
    return weights, layer, to_batch, OneofPattern([through, layer, to_batch])


def _fused(graph: Any, is_training: bool) -> Iterator[_Normalization]:
    weights, layer, to_batch, out = _layer_patterns()
    gamma, beta, mean, variance = (OpTypePattern("*") for _ in range(4))
    reshaped = OpTypePattern("Reshape", inputs=[out, "*"])
    norm = OpTypePattern(_FUSED, inputs=[OneofPattern([reshaped, out]), gamma, beta, mean, variance])
    for match in GraphMatcher(norm).match_graph(graph):
        op, layer_op = match.get_op(norm), match.get_op(layer)
        output = op.outputs[0]
        if layer_op.type == "MatMul":  # which is normalized as a picture of one pixel
            back = [use for use in output.consumers() if use.type == "Reshape"]
            if not back:
                continue
            output = back[0].outputs[0]
        if not output.consumers():
            continue
        statistics: dict[str, Any] = {"mean": match.get_tensor(mean), "variance": match.get_tensor(variance)}
        averages: dict[str, Any] = {"moving_mean": None, "moving_variance": None, "rates": ()}
        if op.get_attr("is_training"):
            op._set_attr("_gradient_op_type", _OF_STATISTICS.encode())
            averages = _averages(op.outputs[1], op.outputs[2])
            with graph.name_scope(op.name.rpartition("/")[0] + "/"):
                count = tf.to_float(tf.size(op.inputs[0]) / tf.size(op.outputs[1]))
                # Averages of variances are of n - 1 values, the normalization is by all n.
                undone = tf.multiply(op.outputs[2], (count - 1) / count, name="Undo_Bessel_Correction")
            statistics = {"mean": op.outputs[1], "variance": undone}
        yield _Normalization(
            layer=layer_op,
            weights=match.get_tensor(weights),
            to_batch=match.get_op(to_batch),
            output=output,
            scale=None,
            bias=None,
            gamma=match.get_tensor(gamma),
            beta=match.get_tensor(beta),
            epsilon=op.get_attr("epsilon"),
            **statistics,
            **averages,
        )


@tf.RegisterGradient(_OF_STATISTICS)
def _gradient_of_statistics(op: Any, of_output: Any, of_mean: Any, of_variance: Any, *_: Any) -> Any:
    """The gradient of the mean and the variance, of which a folded layer is made, with respect to the input."""
    x, mean = op.inputs[0], op.outputs[1]
    count = tf.to_float(tf.size(x) / tf.size(mean))
    return of_mean / count + 2 * of_variance * (x - mean) / (count - 1), None, None, None, None


def _plain(graph: Any) -> Iterator[_Normalization]:
    """Normalizations of single ops: ``layer * scale + (beta - mean * scale)``."""
    weights, layer, to_batch, out = _layer_patterns()
    gamma, beta, mean, variance, epsilon = (OpTypePattern("*") for _ in range(5))
    root = OpTypePattern("Rsqrt", inputs=[OpTypePattern(_SUM, inputs=[variance, epsilon])])
    scale = OneofPattern([scaled := OpTypePattern("Mul", inputs=[root, gamma]), root])
    shift = OpTypePattern("Sub", inputs=[beta, OpTypePattern("Mul", inputs=[mean, scale])])
    norm = OpTypePattern(_SUM, inputs=[OpTypePattern("Mul", inputs=[out, scale]), shift])
    for match in GraphMatcher(norm).match_graph(graph):
        output = match.get_op(norm).outputs[0]
        if not output.consumers():
            continue
        scale_tensor = match.get_tensor(scaled)
        if scale_tensor is None:
            scale_tensor = match.get_tensor(root)
        statistics = match.get_tensor(mean), match.get_tensor(variance)
        yield _Normalization(
            layer=match.get_op(layer),
            weights=match.get_tensor(weights),
            to_batch=match.get_op(to_batch),
            output=output,
            scale=scale_tensor,
            bias=match.get_tensor(shift),
            gamma=match.get_tensor(gamma),
            beta=match.get_tensor(beta),
            mean=statistics[0],
            variance=statistics[1],
            epsilon=match.get_tensor(epsilon),
            **_averages(*statistics),
        )


# ------------------------------------------------------------------------------------------------------------- folding
def _fold(graph: Any, norm: _Normalization, is_training: bool, delay: int | None) -> None:
    layer, weights = norm.layer, norm.weights
    scope = layer.name.rpartition("/")[0]
    inner = f"{scope}/" if scope else ""
    if norm.scale is None:
        with graph.name_scope(f"{inner}BatchNorm_Fold/"):
            scale = norm.gamma * tf.rsqrt(norm.variance + norm.epsilon)
            norm = norm._replace(scale=scale, bias=tf.subtract(norm.beta, norm.mean * scale, name="bias"))
        shapes = f"{inner}BatchNorm_Fold/"
    else:
        shapes = inner
    with graph.name_scope(inner or None), tf.device(layer.device):
        correction = None
        if is_training and norm.moving_mean is not None:
            correction = _corrections(graph, norm, delay, f"{inner}batch_norm_correction/")
        scale = norm.scale
        factor = None if correction is None else correction[0]
        if layer.type == "DepthwiseConv2dNative":
            sizes = weights.shape.as_list()[2:]
            with graph.name_scope(shapes or None):
                scale = tf.reshape(scale, sizes, name="scale_reshape")
                if factor is not None:
                    factor = tf.reshape(factor, sizes, name="correction_reshape")
        if factor is not None:
            weights = tf.multiply(factor, weights, name="correction_mult")
        folded = tf.multiply(weights, scale, name="mul_fold")
        result = _again(graph, layer, [layer.inputs[0], folded])
        if norm.to_batch is not None:
            result = _again(graph, norm.to_batch, [result, *list(norm.to_batch.inputs)[1:]])
        if correction is not None:
            result = tf.multiply(correction[1], result, name="post_conv_mul")
            result = tf.add(result, correction[2], name="correction_add")
        result = tf.add(result, norm.bias, name="add_fold")
    if not tf.contrib.graph_editor.reroute_ts([result], [norm.output]):
        raise ValueError(
            f"Folding batch norms failed, {norm.output.name} had no outputs.\n"
            + errors.message(norm.output.name, "a tensor that an operation takes", "fold before the graph is cut")
        )


def _again(graph: Any, op: Any, inputs: list[Any]) -> Any:
    """The output of the same op with other inputs."""
    attrs = {key: value for key, value in op.node_def.attr.items() if not key.startswith("_")}
    name = op.name.rpartition("/")[2] + "_Fold"
    return graph.create_op(op.type, inputs, [op.outputs[0].dtype], name=name, attrs=attrs).outputs[0]


def _corrections(graph: Any, norm: _Normalization, delay: int | None, scope: str) -> tuple[Any, Any, Any]:
    """Factor of the weights, factor of the result, and what is added to it."""
    with graph.name_scope(scope):
        of_averages = tf.rsqrt(norm.moving_variance + norm.epsilon)
        of_batch = tf.rsqrt(norm.variance + norm.epsilon)
        factor = tf.identity(tf.divide(of_averages, of_batch, name="scale_compute"), name="correction_scale")
        back = tf.reciprocal(factor, name="reciprocal_compute")
        offset = norm.mean * of_batch - norm.moving_mean * of_averages
        if norm.gamma is not None:
            offset = tf.multiply(norm.gamma, offset, name="offset_compute")
        if delay is None:
            return factor, tf.identity(back, name="correction_recip"), tf.zeros_like(offset, name="correction_offset")
        frozen = tf.greater_equal(CreateOrGetQuantizationStep(), delay, name="use_moving_average")
        for rate in norm.rates:
            uses = list(rate.consumers())
            stopped = tf.cond(frozen, lambda kept=rate: tf.zeros_like(kept), lambda kept=rate: tf.identity(kept))
            tf.contrib.graph_editor.reroute_ts([stopped], [rate], can_modify=uses)
        back, offset = (
            tf.cond(frozen, lambda: tf.ones_like(factor), lambda: tf.identity(back), name="correction_recip"),
            tf.cond(frozen, lambda: tf.identity(offset), lambda: tf.zeros_like(offset), name="correction_offset"),
        )
        return factor, back, offset
