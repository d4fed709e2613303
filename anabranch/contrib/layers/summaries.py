"""Summaries of tensors, of activations, and of what collections hold."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public


@public("contrib.layers.summarize_tensor")
def summarize_tensor(tensor: Any, tag: str | None = None) -> Any:
    """A scalar summary of a scalar, a histogram of all else."""
    tag = tag or f"{tensor.op.name}_summary"
    return tf.summary.scalar(tag, tensor) if tensor.shape.ndims == 0 else tf.summary.histogram(tag, tensor)


@public("contrib.layers.summarize_activation")
def summarize_activation(op: Any) -> Any:
    """A histogram of an activation; of rectified ones also the share of zeros (and of sixes)."""
    kind, name = op.op.type, op.op.name
    if kind in ("Relu", "Softplus", "Relu6"):
        tf.summary.scalar(f"{name}/zeros", tf.reduce_mean(tf.cast(op < tf.cast(1e-8, op.dtype), tf.float32)))
    if kind == "Relu6":
        tf.summary.scalar(f"{name}/sixes", tf.reduce_mean(tf.cast(op > tf.cast(6.0 - 1e-8, op.dtype), tf.float32)))
    return tf.summary.histogram(f"{name}/activation", op)


@public("contrib.layers.summarize_tensors")
def summarize_tensors(tensors: Iterable[Any], summarizer: Callable[[Any], Any] = summarize_tensor) -> list[Any]:
    """A summary of each tensor."""
    return [summarizer(tensor) for tensor in tensors]


@public("contrib.layers.summarize_collection")
def summarize_collection(
    collection: str, name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_tensor
) -> list[Any]:
    """A summary of each member of a collection whose name matches a regular expression."""
    tensors = [
        tensor
        for tensor in tf.get_collection(collection)
        if name_filter is None or re.match(name_filter, tensor.op.name)
    ]
    return summarize_tensors(tensors, summarizer)


@public("contrib.layers.summarize_activations")
def summarize_activations(
    name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_activation
) -> list[Any]:
    """A summary of each activation of the collection ACTIVATIONS."""
    return summarize_collection(tf.GraphKeys.ACTIVATIONS, name_filter, summarizer)


@public("contrib.layers.summarize_variables")
def summarize_variables(name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_tensor) -> Any:
    """A summary of each variable."""
    return summarize_collection(tf.GraphKeys.GLOBAL_VARIABLES, name_filter, summarizer)


@public("contrib.layers.summarize_weights")
def summarize_weights(name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_tensor) -> Any:
    """A summary of each member of the collection WEIGHTS."""
    return summarize_collection(tf.GraphKeys.WEIGHTS, name_filter, summarizer)


@public("contrib.layers.summarize_biases")
def summarize_biases(name_filter: str | None = None, summarizer: Callable[[Any], Any] = summarize_tensor) -> Any:
    """A summary of each member of the collection BIASES."""
    return summarize_collection(tf.GraphKeys.BIASES, name_filter, summarizer)
