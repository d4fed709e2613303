"""Recurrent cells with a mask over their weights."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.model_pruning.masks import masked
from anabranch.core.contract.api import public


class _MaskedCell:
    """What masks the kernel of an LSTM: before :class:`tf.nn.rnn_cell.BasicLSTMCell` or its kin among the bases."""

    _kernel: Any

    def build(self: Any, inputs_shape: Any) -> None:
        """Make the cell's variables, ``mask`` and ``threshold``."""
        super().build(inputs_shape)  # type: ignore[misc]
        self.built = False
        self._mask = self.add_variable(
            "mask", shape=self._kernel.shape, initializer=tf.ones_initializer(), trainable=False
        )
        self._threshold = self.add_variable("threshold", shape=[], initializer=tf.zeros_initializer(), trainable=False)
        self._masked_kernel = masked(self._kernel, self._mask, self._threshold)
        self.built = True

    def call(self: Any, inputs: Any, state: Any) -> Any:
        """The step of the cell, with the masked kernel."""
        plain = self._kernel
        self._kernel = self._masked_kernel
        try:
            return super().call(inputs, state)  # type: ignore[misc]
        finally:
            self._kernel = plain


@public("contrib.model_pruning.MaskedBasicLSTMCell")
class MaskedBasicLSTMCell(_MaskedCell, tf.nn.rnn_cell.BasicLSTMCell):
    """``tf.nn.rnn_cell.BasicLSTMCell`` with a mask over its weights.

    Args:
        num_units: size of output and of each part of the state.
        forget_bias: added to the forget gate.
        state_is_tuple: the state is an `LSTMStateTuple`; else one tensor ``[c, h]`` along axis 1.
        activation: function; tanh if None.
        reuse: whether to use variables that exist.
        name: name of the layer.
    """

    def __init__(
        self,
        num_units: int,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Any = None,
        name: Any = None,
    ) -> None:
        super().__init__(num_units, forget_bias, state_is_tuple, activation, reuse, name)


@public("contrib.model_pruning.MaskedLSTMCell")
class MaskedLSTMCell(_MaskedCell, tf.nn.rnn_cell.LSTMCell):
    """``tf.nn.rnn_cell.LSTMCell`` with a mask over its weights; a projection has none.

    Args:
        num_units: size of the cell's value.
        use_peepholes: let the gates see the cell's value.
        cell_clip: clip the cell's value to ``[-cell_clip, cell_clip]``.
        initializer: how weights and projection start.
        num_proj: size of the output after a projection; none if None.
        proj_clip: clip the projected output.
        num_unit_shards: cut the weights into as many variables.
        num_proj_shards: cut the projection into as many variables.
        forget_bias: added to the forget gate.
        state_is_tuple: the state is an `LSTMStateTuple`; else one tensor ``[c, h]`` along axis 1.
        activation: function; tanh if None.
        reuse: whether to use variables that exist.
    """

    def __init__(
        self,
        num_units: int,
        use_peepholes: bool = False,
        cell_clip: float | None = None,
        initializer: Any = None,
        num_proj: int | None = None,
        proj_clip: float | None = None,
        num_unit_shards: int | None = None,
        num_proj_shards: int | None = None,
        forget_bias: float = 1.0,
        state_is_tuple: bool = True,
        activation: Any = None,
        reuse: Any = None,
    ) -> None:
        super().__init__(
            num_units,
            use_peepholes,
            cell_clip,
            initializer,
            num_proj,
            proj_clip,
            num_unit_shards,
            num_proj_shards,
            forget_bias,
            state_is_tuple,
            activation,
            reuse,
        )
