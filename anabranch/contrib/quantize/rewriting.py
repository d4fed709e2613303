"""Graphs rewritten for training with few bits, and for what is trained."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.quantize.folding import FoldBatchNorms
from anabranch.contrib.quantize.insertion import Quantize
from anabranch.core import errors
from anabranch.core.contract.api import public

_OF_TRAINING = ("Apply", "ResourceApply", "ResourceSparseApply", "SparseApply")


def _rewrite(
    graph: Any,
    is_training: bool,
    weight_bits: int = 8,
    activation_bits: int = 8,
    symmetric: bool = False,
    quant_delay: int | None = None,
    freeze_bn_delay: int | None = None,
    scope: str | None = None,
) -> None:
    graph = graph or tf.get_default_graph()
    updates = sorted({op.type for op in graph.get_operations() if op.type.startswith(_OF_TRAINING)})
    if updates:
        raise ValueError(
            f"Training op found in graph, exiting {updates}\n"
            + errors.message(
                f"a graph with {updates[0]}",
                "a graph without an optimizer: gradients would be those of the graph before",
                "the call before optimizer.minimize(loss)",
            )
        )
    with graph.as_default():
        FoldBatchNorms(graph, is_training, freeze_bn_delay)
        Quantize(
            graph,
            is_training,
            weight_bits=weight_bits,
            activation_bits=activation_bits,
            symmetric=symmetric,
            quant_delay=quant_delay,
            scope=scope,
        )


@public("contrib.quantize.create_training_graph")
def create_training_graph(input_graph: Any = None, quant_delay: int = 0) -> None:
    """Change a graph so that it is trained as if weights and activations had 8 bits.

    Call it when the forward pass is built, before the optimizer. Convolutions and matrix products whose weights are
    variables are found with their biases, batch normalizations and activations (`Relu`, `Relu6`, identity).

    Args:
        input_graph: the graph; the default one by default.
        quant_delay: steps before anything is rounded, so that training can settle.

    Raises:
        ValueError: the graph has an optimizer already.

    >>> with tf.Graph().as_default():
    ...     x = tf.placeholder(tf.float32, [None, 4])
    ...     y = tf.layers.dense(x, 2, tf.nn.relu)
    ...     tf.contrib.quantize.create_training_graph()
    ...     print([v.op.name for v in tf.global_variables()][2:])
    ['dense/weights_quant/min', 'dense/weights_quant/max', 'dense/act_quant/min', 'dense/act_quant/max']
    """
    _rewrite(input_graph, is_training=True, quant_delay=quant_delay)


@public("contrib.quantize.create_eval_graph")
def create_eval_graph(input_graph: Any = None) -> None:
    """Change a graph so that it computes with the 8 bits that it was trained for.

    Args:
        input_graph: the graph; the default one by default.

    Raises:
        ValueError: the graph has an optimizer.
    """
    _rewrite(input_graph, is_training=False)


@public("contrib.quantize.experimental_create_training_graph")
def experimental_create_training_graph(
    input_graph: Any = None,
    weight_bits: int = 8,
    activation_bits: int = 8,
    symmetric: bool = False,
    quant_delay: int = 0,
    freeze_bn_delay: int | None = None,
    scope: str | None = None,
) -> None:
    """:func:`tf.contrib.quantize.create_training_graph` with other numbers of bits.

    Args:
        input_graph: the graph; the default one by default.
        weight_bits: bits of weights.
        activation_bits: bits of activations.
        symmetric: make ranges symmetric to zero.
        quant_delay: steps before anything is rounded.
        freeze_bn_delay: steps after which moving averages of batch normalizations count, and stay.
        scope: name scope outside which nothing is rounded.

    Raises:
        ValueError: the graph has an optimizer already.
    """
    _rewrite(input_graph, True, weight_bits, activation_bits, symmetric, quant_delay, freeze_bn_delay, scope)


@public("contrib.quantize.experimental_create_eval_graph")
def experimental_create_eval_graph(
    input_graph: Any = None,
    weight_bits: int = 8,
    activation_bits: int = 8,
    symmetric: bool = False,
    quant_delay: int | None = None,
    scope: str | None = None,
) -> None:
    """:func:`tf.contrib.quantize.create_eval_graph` with other numbers of bits.

    Args:
        input_graph: the graph; the default one by default.
        weight_bits: bits of weights.
        activation_bits: bits of activations.
        symmetric: make ranges symmetric to zero.
        quant_delay: steps before anything is rounded.
        scope: name scope outside which nothing is rounded.

    Raises:
        ValueError: the graph has an optimizer.
    """
    _rewrite(input_graph, False, weight_bits, activation_bits, symmetric, quant_delay, scope=scope)
