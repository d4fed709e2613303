"""Convolutions, pooling and embeddings under version 2's argument lists."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.compat.v2.namespaces import version_2 as _v2


@_v2("nn.convolution")
def convolution(
    input: Any,
    filters: Any,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Sums of products of a filter with the windows of ``input``, of one to three dimensions."""
    return tf.nn.convolution(
        input, filters, padding, strides, data_format=data_format, dilation_rate=dilations, name=name
    )


@_v2("nn.conv1d")
def conv1d(
    input: Any,
    filters: Any,
    stride: Any,
    padding: Any,
    data_format: str = "NWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Sums of products of a filter with the windows of ``input``, ``[batch, width, channels]``."""
    return tf.nn.conv1d(input, filters, stride, padding, data_format=data_format, name=name, dilations=dilations)


@_v2("nn.conv2d")
def conv2d(
    input: Any,
    filters: Any,
    strides: Any,
    padding: Any,
    data_format: str = "NHWC",
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Sums of products of a filter with the windows of ``input``, ``[batch, height, width, channels]``."""
    return tf.nn.conv2d(input, filters, strides, padding, data_format=data_format, dilations=dilations, name=name)


@_v2("nn.depthwise_conv2d")
def depthwise_conv2d(
    input: Any,
    filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """A convolution of each channel with filters of its own."""
    return tf.nn.depthwise_conv2d(
        input, filter, strides, padding, data_format=data_format, dilations=dilations, name=name
    )


@_v2("nn.separable_conv2d")
def separable_conv2d(
    input: Any,
    depthwise_filter: Any,
    pointwise_filter: Any,
    strides: Any,
    padding: Any,
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """A depthwise convolution, and one of 1 x 1 windows that mixes the channels."""
    return tf.nn.separable_conv2d(
        input,
        depthwise_filter,
        pointwise_filter,
        strides,
        padding,
        data_format=data_format,
        dilations=dilations,
        name=name,
    )


@_v2("nn.pool")
def pool(
    input: Any,
    window_shape: Any,
    pooling_type: str,
    strides: Any = None,
    padding: Any = "VALID",
    data_format: str | None = None,
    dilations: Any = None,
    name: str | None = None,
) -> Any:
    """Largest entries or means of windows."""
    return tf.nn.pool(
        input, window_shape, pooling_type, padding, dilations, strides, name=name, data_format=data_format
    )


@_v2("nn.space_to_depth")
def space_to_depth(input: Any, block_size: int, data_format: str = "NHWC", name: str | None = None) -> Any:
    """Blocks of an image as channels."""
    return tf.nn.space_to_depth(input, block_size, name, data_format)


@_v2("nn.depth_to_space")
def depth_to_space(input: Any, block_size: int, data_format: str = "NHWC", name: str | None = None) -> Any:
    """Channels as blocks of an image."""
    return tf.nn.depth_to_space(input, block_size, name, data_format)


@_v2("nn.embedding_lookup_sparse")
def embedding_lookup_sparse(
    params: Any,
    sp_ids: Any,
    sp_weights: Any,
    combiner: str | None = None,
    max_norm: Any = None,
    name: str | None = None,
    allow_fast_lookup: bool = False,
) -> Any:
    """Rows of ``params`` combined for each row of sparse ids."""
    del allow_fast_lookup
    return tf.nn.embedding_lookup_sparse(params, sp_ids, sp_weights, "div", name, combiner or "mean", max_norm)


@_v2("nn.safe_embedding_lookup_sparse")
def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: str = "mean",
    default_id: Any = None,
    max_norm: Any = None,
    name: str | None = None,
    allow_fast_lookup: bool = False,
) -> Any:
    """Rows combined for each row of sparse ids, of which rows may be empty or have ids or weights below 0."""
    del allow_fast_lookup
    return tf.nn.safe_embedding_lookup_sparse(
        embedding_weights, sparse_ids, sparse_weights, combiner, default_id, name, "div", max_norm
    )


_v2("nn.ctc_loss")(tf.nn.ctc_loss_v2)
_v2("nn.ctc_beam_search_decoder")(tf.nn.ctc_beam_search_decoder_v2)


_v2("image.resize")(tf.image.resize_v2)
