"""Layers of ``tf.layers`` with a mask over the kernel."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.model_pruning.masks import masked
from anabranch.core.graph.operation import Tensor
from anabranch.layers import arguments, base


class _Masked(base.Layer):
    """A layer whose kernel has a mask: ``masked_kernel`` is what the inputs meet."""

    kernel_initializer: Any
    kernel_regularizer: Any
    kernel: Any
    mask: Any

    def _add_kernel(self, shape: list[int]) -> None:
        self.kernel = self.add_weight(
            "kernel", shape, initializer=self.kernel_initializer, regularizer=self.kernel_regularizer
        )

    def _add_mask(self, shape: list[int]) -> None:
        self.mask = self.add_weight("mask", shape, initializer=tf.ones_initializer(), trainable=False)

    def _apply_mask(self) -> None:
        self.threshold = self.add_weight("threshold", [], initializer=tf.zeros_initializer(), trainable=False)
        self.masked_kernel = masked(self.kernel, self.mask, self.threshold)


class MaskedConv2D(tf.layers.Conv2D, _Masked):
    """``tf.layers.Conv2D`` with a mask over the kernel; arguments as there, without constraints."""

    def build(self, input_shape: Any) -> None:
        """Make ``mask``, ``kernel``, ``threshold`` and ``bias``."""
        shape = self._kernel_shape(self._channels(input_shape))
        self._add_mask(shape)
        self._add_kernel(shape)
        self._apply_mask()
        self._make_bias()

    def call(self, inputs: Tensor) -> Tensor:
        """The convolved inputs, with bias and activation."""
        form = arguments.op_format(self.data_format, self.rank)
        result = tf.nn.conv2d(
            inputs,
            self.masked_kernel,
            list(self.strides),
            self.padding.upper(),
            data_format=form,
            dilations=list(self.dilation_rate),
        )
        return self._finished(result)


class MaskedFullyConnected(tf.layers.Dense, _Masked):
    """``tf.layers.Dense`` with a mask over the kernel; arguments as there, without constraints."""

    def build(self, input_shape: Any) -> None:
        """Make ``kernel``, ``mask``, ``threshold`` and ``bias``."""
        depth = arguments.known_size(input_shape, -1, "MaskedFullyConnected")
        self.input_spec = base.InputSpec(min_ndim=2, axes={-1: depth})
        self._add_kernel([depth, self.units])
        self._add_mask([depth, self.units])
        self._apply_mask()
        self.bias = None
        if self.use_bias:
            self.bias = self.add_weight(
                "bias", [self.units], initializer=self.bias_initializer, regularizer=self.bias_regularizer
            )
        self.built = True

    def call(self, inputs: Tensor) -> Tensor:
        """``[..., in]`` to ``[..., units]``."""
        if inputs.shape.ndims == 2:
            result = tf.matmul(inputs, self.masked_kernel)
        else:
            result = tf.tensordot(inputs, self.masked_kernel, 1)
        if self.bias is not None:
            result = tf.nn.bias_add(result, self.bias)
        return result if self.activation is None else self.activation(result)
