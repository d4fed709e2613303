"""Convolutions that are set up before their operands are there: ``tensorflow.python.ops.nn_ops.Convolution``."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors


class Convolution:
    """``tf.nn.convolution`` of operands whose shapes are known before.

    Args:
        input_shape: the shape of the input.
        filter_shape: the shape of the filter.
        padding: ``"VALID"`` or ``"SAME"``.
        strides: a number for each spatial dimension; 1 by default.
        dilation_rate: a number for each spatial dimension; 1 by default.
        name: name of the operation.
        data_format: like ``"NHWC"``, of the operands' rank.

    Raises:
        ValueError: the rank is unknown, or shapes do not fit.
    """

    def __init__(
        self,
        input_shape: Any,
        filter_shape: Any,
        padding: str,
        strides: Any = None,
        dilation_rate: Any = None,
        name: str | None = None,
        data_format: str | None = None,
    ) -> None:
        self.input_shape, self.filter_shape = tf.TensorShape(input_shape), tf.TensorShape(filter_shape)
        rank = self.filter_shape.ndims if self.input_shape.ndims is None else self.input_shape.ndims
        if rank is None:
            raise ValueError(
                "rank of input or filter must be known\n"
                + errors.message(
                    "two shapes of unknown rank", "a shape of known rank", "tf.TensorShape([None, 28, 28, 3])"
                )
            )
        try:
            self.input_shape, self.filter_shape = self.input_shape.with_rank(rank), self.filter_shape.with_rank(rank)
        except ValueError as problem:
            raise ValueError(f"input tensor and filter tensor must have rank {rank}\n{problem}") from None
        first = data_format is not None and data_format.startswith("NC")
        channels = self.input_shape.dims[1 if first else -1]
        taken = self.filter_shape.dims[-2]
        if not channels.is_compatible_with(taken):
            raise ValueError(
                "number of input channels does not match corresponding dimension of filter\n"
                + errors.message(
                    f"{channels} channels and a filter of {taken}", "one number", f"a filter of {channels}"
                )
            )
        self.data_format, self.padding, self.name = data_format, padding, name
        self.strides, self.dilation_rate = strides, dilation_rate

    def __call__(self, inp: Any, filter: Any) -> Any:
        """The convolution of an input with a filter."""
        return tf.nn.convolution(
            inp, filter, self.padding, self.strides, self.dilation_rate, self.name, self.data_format
        )
