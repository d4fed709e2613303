"""A decoder that samples."""

from __future__ import annotations

import collections
from typing import Any

import anabranch as tf
from anabranch.contrib.seq2seq.decoder import Decoder
from anabranch.contrib.seq2seq.helper import Helper
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.values import nest
from anabranch.rnn.cells import assert_like_rnncell

_Output = collections.namedtuple("BasicDecoderOutput", ("rnn_output", "sample_id"))  # type: ignore[name-match]


@public("contrib.seq2seq.BasicDecoderOutput")
class BasicDecoderOutput(_Output):
    """What a step gives: the output of the cell (or of the output layer), and the sample."""

    __slots__ = ()


def size_after(layer: Any, sizes: Any) -> Any:
    """Shapes, without the batch, of what a layer makes of a cell's output."""
    if layer is None:
        return sizes

    def after(size: Any) -> Any:
        inner = tf.TensorShape(size if isinstance(size, (list, tuple, tf.TensorShape)) else [size])
        return layer.compute_output_shape(tf.TensorShape([None]).concatenate(inner))[1:]

    return nest.map_structure(after, sizes)


def checked_layer(layer: Any) -> Any:
    """``layer``, which must be a layer or None."""
    if layer is not None and not isinstance(layer, tf.layers.Layer):
        raise TypeError(
            f"output_layer must be a Layer, received: {type(layer)}\n"
            + errors.message(f"{layer!r}", "a layer, or None", "tf.layers.Dense(classes)")
        )
    return layer


@public("contrib.seq2seq.BasicDecoder")
class BasicDecoder(Decoder):
    """Run a cell; a helper samples from its outputs and gives the next inputs.

    Args:
        cell: an `RNNCell`.
        helper: a :class:`Helper`.
        initial_state: the state of the cell to begin with.
        output_layer: layer that makes logits (or anything else) of the cell's output; none if None.
    """

    def __init__(self, cell: Any, helper: Any, initial_state: Any, output_layer: Any = None) -> None:
        assert_like_rnncell("cell", cell)
        if not isinstance(helper, Helper):
            raise TypeError(
                f"helper must be a Helper, received: {type(helper)}\n"
                + errors.message(f"{helper!r}", "a helper", "tf.contrib.seq2seq.TrainingHelper(inputs, lengths)")
            )
        self._cell = cell
        self._helper = helper
        self._initial_state = initial_state
        self._output_layer = checked_layer(output_layer)

    @property
    def batch_size(self) -> Any:
        return self._helper.batch_size

    @property
    def output_size(self) -> Any:
        return BasicDecoderOutput(
            rnn_output=size_after(self._output_layer, self._cell.output_size), sample_id=self._helper.sample_ids_shape
        )

    @property
    def output_dtype(self) -> Any:
        kind = nest.flatten(self._initial_state)[0].dtype.base_dtype
        return BasicDecoderOutput(
            rnn_output=nest.map_structure(lambda _: kind, self._cell.output_size),
            sample_id=self._helper.sample_ids_dtype,
        )

    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        return (*self._helper.initialize(), self._initial_state)

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> tuple[Any, Any, Any, Any]:
        with tf.name_scope(name, "BasicDecoderStep", [time]):
            output, state = self._cell(inputs, state)
            if self._output_layer is not None:
                output = self._output_layer(output)
            samples = self._helper.sample(time=time, outputs=output, state=state)
            finished, inputs, state = self._helper.next_inputs(
                time=time, outputs=output, state=state, sample_ids=samples
            )
        return BasicDecoderOutput(output, samples), state, inputs, finished
