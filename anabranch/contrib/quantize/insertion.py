"""Where a graph is rounded: weights of layers, what comes out of them, and sums and products behind those."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import anabranch as tf
from anabranch.contrib.quantize import ranges
from anabranch.contrib.quantize.folding import CreateOrGetQuantizationStep
from anabranch.contrib.quantize.patterns import GraphMatcher, OneofPattern, OpTypePattern
from anabranch.core import errors

SKIPPED_PREFIXES = ("gradients/", "RMSProp/", "Adagrad/", "Const_", "HistogramSummary", "ScalarSummary")
"""How names of ops begin that are passed over when consumers are looked for."""

_LAYERS = "Conv2D|MatMul|DepthwiseConv2dNative"
_SUM = "Add|AddV2"
_RECTIFIERS = frozenset(["Relu", "Relu6"])
_ACTIVATIONS = frozenset([*_RECTIFIERS, "Identity"])
_ROUNDED = frozenset(["FakeQuantWithMinMaxVars", "FakeQuantWithMinMaxArgs", "FakeQuantWithMinMaxVarsPerChannel"])
_ARITHMETIC = frozenset(["Add", "AddV2", "Mul"])
_PASSED_ON = frozenset(["Reshape", "Identity", "BatchToSpaceND", "SpaceToBatchND", "MaxPool", "Max"])
_FUSED_NORMS = frozenset(["FusedBatchNorm", "FusedBatchNormV2", "FusedBatchNormV3"])


class InputToOps:
    """The consumers of each op of a graph, those of gradients and the like left out.

    Args:
        graph: the graph, of which what is added later is not known.
    """

    def __init__(self, graph: Any) -> None:
        self.mapping: dict[Any, set[Any]] = {}
        for op in graph.get_operations():
            if not op.name.startswith(SKIPPED_PREFIXES):
                for tensor in op.inputs:
                    self.mapping.setdefault(tensor, set()).add(op)

    def ConsumerOperations(self, producer_op: Any) -> set[Any]:
        """The ops that take an output of ``producer_op``."""
        return set().union(*(self.mapping.get(tensor, set()) for tensor in producer_op.outputs))


class _Layer(NamedTuple):
    """A layer to be rounded; ops, where nothing else is said."""

    layer: Any
    weights: Any  # a tensor
    activation: Any  # what is rounded as the output
    bias: Any  # the sum before a bypass
    bypass: Any  # the sum with another tensor before the activation
    later_bypass: Any  # the sum with another tensor after the activation


class _Rounding(NamedTuple):
    """How everything in a graph is rounded."""

    graph: Any
    is_training: bool
    delay: int | None
    decay: float
    collection: str
    symmetric: bool
    scope: str | None


def Quantize(
    graph: Any,
    is_training: bool,
    weight_bits: int = 8,
    activation_bits: int = 8,
    symmetric: bool = False,
    ema_decay: float = 0.999,
    quant_delay: int | None = None,
    vars_collection: str = tf.GraphKeys.GLOBAL_VARIABLES,
    scope: str | None = None,
) -> None:
    """Put ops that round behind the weights and activations of a graph.

    Args:
        graph: the graph.
        is_training: find ranges while it runs.
        weight_bits: bits of weights.
        activation_bits: bits of activations.
        symmetric: make ranges symmetric to zero.
        ema_decay: weight of what was seen before in ranges of activations.
        quant_delay: steps before anything is rounded.
        vars_collection: collection of the ranges' variables.
        scope: name scope outside which nothing changes.
    """
    if scope and not scope.endswith("/"):
        scope += "/"
    how = _Rounding(graph, is_training, quant_delay, ema_decay, vars_collection, symmetric, scope)
    uses = InputToOps(graph)
    done = set()
    with graph.as_default():
        for found in list(_layers(graph)):
            name = found.layer.name.rpartition("/")[0]
            outer = name.rpartition("/")[0] if found.bypass is not None else name
            if found.weights is not None:
                consumers = uses.ConsumerOperations(found.weights.op)
                options = {"moving_average": False, "narrow": True, "asks_producer": False, "asks_consumers": True}
                _round(how, name, "weights_quant", found.weights.op, consumers, weight_bits, **options)
            if found.activation is not None:
                consumers = uses.ConsumerOperations(found.activation)
                _round(how, outer, "act_quant", found.activation, consumers, activation_bits, low=0.0)
                done.add(found.activation)
            if found.bypass is not None:
                for op, context, label in ((found.bias, name, "conv_quant"), (found.bypass, outer, "add_quant")):
                    consumers = uses.ConsumerOperations(op)
                    if op is found.bypass and any(use.type in _ACTIVATIONS for use in consumers):
                        continue  # what follows is rounded
                    _round(how, context, label, op, consumers, activation_bits, asks_consumers=True)
                    done.add(op)
            if found.later_bypass is not None:
                consumers = uses.ConsumerOperations(found.later_bypass)
                if not any(use.type in _RECTIFIERS for use in consumers):
                    context = found.later_bypass.name.rpartition("/")[0]
                    label = "post_activation_bypass_quant"
                    _round(how, context, label, found.later_bypass, consumers, activation_bits)
                    done.add(found.later_bypass)
        uses = InputToOps(graph)
        for op in graph.get_operations():
            if _follows_rounded(op, done):
                label = f"activation_{op.type}_quant"
                _round(how, op.name, label, op, uses.ConsumerOperations(op), activation_bits, symmetric=False)


def _layers(graph: Any) -> Iterator[_Layer]:
    """Layers with what follows them; the longest form that fits, and each layer once."""
    variable = OpTypePattern("Variable|VariableV2")
    part = OpTypePattern("Identity", inputs=[variable])
    joined = OpTypePattern("ConcatV2", inputs=[part, "*", "*"])
    read = OpTypePattern("Identity", inputs=[OneofPattern([part, joined, variable])])
    read_resource, folded = OpTypePattern("ReadVariableOp"), OpTypePattern("Mul")
    of_weights = (read, read_resource, folded)
    layer = OpTypePattern(_LAYERS, inputs=["*", OneofPattern(of_weights)], ordered_inputs=False)
    to_batch = OpTypePattern("BatchToSpaceND", inputs=[layer, "*", "*"])
    out = OneofPattern([to_batch, layer])
    separable = OpTypePattern(_LAYERS, inputs=[OneofPattern([out]), "*"], ordered_inputs=False)
    corrected = OpTypePattern("Mul", inputs=["*", out], ordered_inputs=False)
    moved = OpTypePattern(_SUM, inputs=[corrected, "*"], ordered_inputs=False)
    of_fold = OpTypePattern(_SUM, inputs=[moved, "*"], ordered_inputs=False)
    through = OpTypePattern("Identity", inputs=[of_fold])
    bias = OpTypePattern("BiasAdd|" + _SUM, inputs=[out, "*"], ordered_inputs=False)
    bypass = OpTypePattern(_SUM, inputs=[OneofPattern([bias, of_fold, through]), "*"], ordered_inputs=False)
    activation = OpTypePattern(
        "|".join(sorted(_ACTIVATIONS)), inputs=[OneofPattern([bias, of_fold, through, bypass, layer])]
    )
    later = OpTypePattern(_SUM, inputs=["*", activation], ordered_inputs=False)
    seen = set()

    def first(match: Any, patterns: Iterable[Any], get: str) -> Any:
        return next((found for each in patterns if (found := getattr(match, get)(each)) is not None), None)

    for form in (later, activation, OneofPattern([bias, of_fold]), separable):
        for match in GraphMatcher(form).match_graph(graph):
            op = match.get_op(layer)
            sum_op = first(match, (bias, of_fold), "get_op")
            output = match.get_op(activation)
            if form is activation and _feeds_norm(output):
                continue
            if output is None:  # of a last layer, and of one that another follows at once
                output, sum_op = (op if form is separable else sum_op), None
            if op not in seen:
                seen.add(op)
                weights = first(match, of_weights[:2] if form is separable else of_weights, "get_tensor")
                yield _Layer(op, weights, output, sum_op, match.get_op(bypass), match.get_op(later))


def _feeds_norm(op: Any) -> bool:
    """Whether an op passes a layer on to a batch normalization alone."""
    uses = op.outputs[0].consumers()
    return op.type == "Identity" and len(uses) == 1 and uses[0].type in _FUSED_NORMS


def _is_rounded(tensor: Any) -> bool:
    """Whether a tensor is rounded already, perhaps under another shape."""
    return any(
        use.type in _ROUNDED or (use.type in ("Reshape", "Identity") and any(map(_is_rounded, use.outputs)))
        for use in tensor.consumers()
    )


def _follows_rounded(op: Any, done: set[Any]) -> bool:
    """Whether an op is a sum or a product of what is rounded, and no layer's."""
    if op in done or op.type not in _ARITHMETIC:
        return False
    uses = op.outputs[0].consumers()
    if len(uses) == 1 and uses[0].type in _RECTIFIERS:
        return False
    for tensor in op.inputs:
        source = tensor.op
        while source.type in _PASSED_ON:
            source = source.inputs[0].op
        if source.type in _ROUNDED or "/delayed_quant" in source.name:
            return True
        if source.type in _ARITHMETIC and any(_follows_rounded(each.op, done) for each in source.inputs):
            return True
    return False


def _round(
    how: _Rounding,
    context: str,
    label: str,
    producer: Any,
    consumers: Iterable[Any],
    bits: int,
    moving_average: bool = True,
    low: float = -6.0,
    narrow: bool = False,
    symmetric: bool | None = None,
    asks_producer: bool = True,
    asks_consumers: bool = False,
) -> None:
    """Put an op that rounds between an op and its consumers, unless one of them lies outside the scope."""
    consumers = list(consumers)
    if how.scope:
        asked = [producer] * asks_producer + consumers * asks_consumers
        outside = [op.name for op in asked if not op.name.startswith(how.scope)]
        if outside:
            tf.logging.info("%s is not in scope %s: %s/%s is left out", outside[0], how.scope, context, label)
            return
    tensor = producer.outputs[0]
    if _is_rounded(tensor):
        return
    name = f"{context}/{label}" if context else label
    here = how.graph.get_name_scope()
    if here:
        name = name.removeprefix(here + "/")
    options: dict[str, Any] = {
        "init_min": low,
        "is_training": how.is_training,
        "num_bits": bits,
        "narrow_range": narrow,
        "symmetric": how.symmetric if symmetric is None else symmetric,
        "vars_collection": how.collection,
        "name_prefix": name,
    }
    if moving_average:
        rounded = ranges.MovingAvgQuantize(tensor, ema_decay=how.decay, **options)
    else:
        rounded = ranges.LastValueQuantize(tensor, **options)
    if how.delay and how.delay > 0:
        begun = tf.greater_equal(CreateOrGetQuantizationStep(), how.delay, name=name + "/activate_quant")
        rounded = tf.cond(begun, lambda: rounded, lambda: tensor, name=name + "/delayed_quant")
    if consumers:
        changed = tf.contrib.graph_editor.reroute_ts([rounded], [tensor], can_modify=consumers)
        if changed < len(consumers):
            names = ", ".join(op.name for op in consumers)
            raise ValueError(
                f"No inputs quantized for ops: [{names}]\n"
                + errors.message(
                    f"{len(consumers)} consumers, of which {changed} took {tensor.name}",
                    "consumers of the first output",
                    "quantize before other rewrites",
                )
            )
