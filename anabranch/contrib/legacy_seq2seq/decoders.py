"""Decoders: a cell unrolled over a list of inputs, with or without attention, with or without an embedding."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.values import nest
from anabranch.rnn.wrappers import linear

Loop = Callable[[Any, int], Any]


def embedded_argmax(embedding: Any, output_projection: Any = None, update_embedding: bool = True) -> Loop:
    """A loop function: the embedding of the most likely symbol of the previous output.

    Args:
        embedding: ``[symbols, size]``.
        output_projection: ``(weights, biases)`` that make logits of outputs; outputs are logits if None.
        update_embedding: whether gradients reach the embedding through this lookup.
    """

    def loop(prev: Any, _: int) -> Any:
        if output_projection is not None:
            prev = tf.nn.xw_plus_b(prev, output_projection[0], output_projection[1])
        embedded = tf.nn.embedding_lookup(embedding, tf.argmax(prev, 1))
        return embedded if update_embedding else tf.stop_gradient(embedded)

    return loop


def checked_projection(output_projection: Any, symbols: int, dtype: Any) -> None:
    """Refuse a projection ``(weights [units, symbols], biases [symbols])`` of other shapes."""
    if output_projection is None:
        return
    weights, biases = (tf.convert_to_tensor(part, dtype=dtype) for part in output_projection)
    for tensor, wanted in ((weights, [None, symbols]), (biases, [symbols])):
        if not tensor.shape.is_compatible_with(wanted):
            raise ValueError(
                errors.message(
                    f"an output projection {tensor.name!r} of shape {tensor.shape}",
                    f"a shape that fits {wanted}",
                    "output_projection=(weights [units, symbols], biases [symbols])",
                )
            )


def _next_input(loop_function: Loop | None, prev: Any, given: Any, step: int) -> Any:
    if loop_function is None or prev is None:
        return given
    with tf.variable_scope("loop_function", reuse=True):
        return loop_function(prev, step)


@public("contrib.legacy_seq2seq.rnn_decoder")
def rnn_decoder(
    decoder_inputs: Iterable[Any], initial_state: Any, cell: Any, loop_function: Loop | None = None, scope: Any = None
) -> tuple[list[Any], Any]:
    """Run a cell over a list of inputs.

    Args:
        decoder_inputs: one tensor ``[batch, input size]`` for each step.
        initial_state: the cell's state to begin with.
        cell: an `RNNCell`.
        loop_function: makes the input of step ``i`` of the previous output, ``loop_function(prev, i)``; the inputs but
            for the first one are then not looked at.
        scope: variable scope; ``rnn_decoder`` if None.

    Returns:
        ``(outputs, state)``: a list of ``[batch, output size]``, and the last state.
    """
    with tf.variable_scope(scope or "rnn_decoder") as entered:
        state, outputs, prev = initial_state, [], None
        for step, given in enumerate(decoder_inputs):
            given = _next_input(loop_function, prev, given, step)
            if step > 0:
                entered.reuse_variables()
            output, state = cell(given, state)
            outputs.append(output)
            prev = output
        return outputs, state


class _Attention:
    """Attention of Bahdanau et al. (2014, arXiv:1409.0473): weights of encoder steps from a small network.

    Args:
        states: what is attended to, ``[batch, steps, size]``.
        heads: how often, each with weights of its own.
        dtype: dtype of the weights.
    """

    def __init__(self, states: Any, heads: int, dtype: Any) -> None:
        sizes = states.shape.as_list()
        self.size: int = sizes[2]
        self._length = sizes[1] if sizes[1] is not None else tf.shape(states)[1]
        self._dtype = dtype
        # A convolution over places of one pixel is the product of all steps with a matrix.
        self._states = tf.reshape(states, [-1, self._length, 1, self.size])
        self._keys, self._scores = [], []
        for head in range(heads):
            kernel = tf.get_variable(f"AttnW_{head}", [1, 1, self.size, self.size], dtype=dtype)
            self._keys.append(tf.nn.conv2d(self._states, kernel, [1, 1, 1, 1], "SAME"))
            self._scores.append(tf.get_variable(f"AttnV_{head}", [self.size], dtype=dtype))

    def nothing(self, batch: Any) -> list[Any]:
        """What a decoder has seen before its first step: zeros ``[batch, size]`` for each head."""
        blank = [tf.zeros(tf.stack([batch, self.size]), dtype=self._dtype) for _ in self._scores]
        for tensor in blank:
            tensor.set_shape([None, self.size])
        return blank

    def __call__(self, state: Any) -> list[Any]:
        """The mean of the states ``[batch, size]`` for each head, weighted by how well they fit a decoder's state."""
        parts = nest.flatten(state)
        for part in parts:
            if part.shape.ndims not in (None, 2):
                raise ValueError(
                    errors.message(
                        f"a state {part.name!r} of shape {part.shape}", "[batch, size]", "a cell with such a state"
                    )
                )
        query = tf.concat(parts, 1) if nest.is_nested(state) else state
        tensors = []
        for head, (keys, score) in enumerate(zip(self._keys, self._scores, strict=True)):
            with tf.variable_scope(f"Attention_{head}"):
                asked = tf.cast(tf.reshape(linear(query, self.size, True), [-1, 1, 1, self.size]), self._dtype)
                energies = tf.reduce_sum(score * tf.tanh(keys + asked), [2, 3])
                weights = tf.cast(tf.nn.softmax(tf.cast(energies, tf.float32)), self._dtype)
                mean = tf.reduce_sum(tf.reshape(weights, [-1, self._length, 1, 1]) * self._states, [1, 2])
                tensors.append(tf.reshape(mean, [-1, self.size]))
        return tensors


@public("contrib.legacy_seq2seq.attention_decoder")
def attention_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    attention_states: Any,
    cell: Any,
    output_size: int | None = None,
    num_heads: int = 1,
    loop_function: Loop | None = None,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> tuple[list[Any], Any]:
    """Run a cell over a list of inputs; each step also sees means of ``attention_states``, weighted by its state.

    Args:
        decoder_inputs: one tensor ``[batch, input size]`` for each step.
        initial_state: the cell's state to begin with.
        attention_states: what is attended to, ``[batch, steps, size]``.
        cell: an `RNNCell`.
        output_size: size of the outputs; the cell's if None.
        num_heads: number of means, each with weights of its own.
        loop_function: as for :func:`rnn_decoder`.
        dtype: dtype of the variables; the scope's if None.
        scope: variable scope; ``attention_decoder`` if None.
        initial_state_attention: begin with what the initial state attends to, not with zeros: for the going on of a
            decoder that was stopped.

    Returns:
        ``(outputs, state)``: a list of ``[batch, output size]``, and the last state.

    Raises:
        ValueError: no inputs, less than one head, or a size that must be known is not.
    """
    if not decoder_inputs:
        raise ValueError("Must provide at least 1 input to attention decoder.")
    if num_heads < 1:
        raise ValueError("With less than 1 heads, use a non-attention decoder.")
    attention_states = tf.convert_to_tensor(attention_states)
    if attention_states.shape.ndims != 3 or attention_states.shape[2].value is None:
        raise ValueError(f"Shape[2] of attention_states must be known: {attention_states.shape}")
    output_size = cell.output_size if output_size is None else output_size
    with tf.variable_scope(scope or "attention_decoder", dtype=dtype) as entered:
        dtype = entered.dtype
        attention = _Attention(attention_states, num_heads, dtype)
        seen = attention.nothing(tf.shape(decoder_inputs[0])[0])
        if initial_state_attention:
            seen = attention(initial_state)
        state, outputs, prev = initial_state, [], None
        for step, given in enumerate(decoder_inputs):
            if step > 0:
                entered.reuse_variables()
            given = _next_input(loop_function, prev, given, step)
            size = given.shape.with_rank(2)[1].value
            if size is None:
                raise ValueError(f"Could not infer input size from input: {given.name}")
            merged = linear([tf.cast(part, dtype) for part in (given, *seen)], size, True)
            output, state = cell(merged, state)
            if step == 0 and initial_state_attention:  # its weights are there: attention was asked before the loop
                with tf.variable_scope(tf.get_variable_scope(), reuse=True):
                    seen = attention(state)
            else:
                seen = attention(state)
            with tf.variable_scope("AttnOutputProjection"):
                output = linear([tf.cast(output, dtype), *seen], output_size, True)
            outputs.append(output)
            prev = output
        return outputs, state


@public("contrib.legacy_seq2seq.embedding_rnn_decoder")
def embedding_rnn_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    scope: Any = None,
) -> tuple[list[Any], Any]:
    """:func:`rnn_decoder` over symbols, which are embedded first.

    Args:
        decoder_inputs: int32 ``[batch]`` for each step.
        initial_state: the cell's state to begin with.
        cell: an `RNNCell`.
        num_symbols: number of symbols.
        embedding_size: size of their embeddings.
        output_projection: ``(weights, biases)`` that make logits of outputs, needed with ``feed_previous`` if the
            cell's outputs are not logits.
        feed_previous: feed the most likely symbol of each step to the next one; only the first input is used then.
        update_embedding_for_previous: whether gradients reach the embedding through symbols fed back.
        scope: variable scope; ``embedding_rnn_decoder`` if None.

    Returns:
        ``(outputs, state)``: a list of ``[batch, output size]``, and the last state.
    """
    with tf.variable_scope(scope or "embedding_rnn_decoder") as entered:
        checked_projection(output_projection, num_symbols, entered.dtype)
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size])
        loop = embedded_argmax(embedding, output_projection, update_embedding_for_previous) if feed_previous else None
        inputs = (tf.nn.embedding_lookup(embedding, ids) for ids in decoder_inputs)
        return rnn_decoder(inputs, initial_state, cell, loop_function=loop)


@public("contrib.legacy_seq2seq.embedding_attention_decoder")
def embedding_attention_decoder(
    decoder_inputs: Sequence[Any],
    initial_state: Any,
    attention_states: Any,
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_size: int | None = None,
    output_projection: Any = None,
    feed_previous: bool = False,
    update_embedding_for_previous: bool = True,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> tuple[list[Any], Any]:
    """:func:`attention_decoder` over symbols, which are embedded first.

    Args:
        decoder_inputs: int32 ``[batch]`` for each step.
        initial_state: the cell's state to begin with.
        attention_states: what is attended to, ``[batch, steps, size]``.
        cell: an `RNNCell`.
        num_symbols: number of symbols.
        embedding_size: size of their embeddings.
        num_heads: number of means that are attended to.
        output_size: size of the outputs; the cell's if None.
        output_projection: ``(weights, biases)`` that make logits of outputs.
        feed_previous: feed the most likely symbol of each step to the next one; only the first input is used then.
        update_embedding_for_previous: whether gradients reach the embedding through symbols fed back.
        dtype: dtype of the variables; the scope's if None.
        scope: variable scope; ``embedding_attention_decoder`` if None.
        initial_state_attention: as for :func:`attention_decoder`.

    Returns:
        ``(outputs, state)``: a list of ``[batch, output size]``, and the last state.
    """
    output_size = cell.output_size if output_size is None else output_size
    with tf.variable_scope(scope or "embedding_attention_decoder", dtype=dtype) as entered:
        checked_projection(output_projection, num_symbols, entered.dtype)
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size])
        loop = embedded_argmax(embedding, output_projection, update_embedding_for_previous) if feed_previous else None
        inputs = [tf.nn.embedding_lookup(embedding, ids) for ids in decoder_inputs]
        return attention_decoder(
            inputs,
            initial_state,
            attention_states,
            cell,
            output_size=output_size,
            num_heads=num_heads,
            loop_function=loop,
            initial_state_attention=initial_state_attention,
        )
