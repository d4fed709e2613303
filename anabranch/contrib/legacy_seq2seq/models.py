"""Encoders with decoders: plain, tied, over embedded symbols, with attention, one encoder for many decoders.

An encoder runs a copy of the decoder's cell. The copy has no variables yet, even if the cell has: called for a second
bucket of lengths in a scope that reuses, it finds the encoder's.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any

import anabranch as tf
from anabranch.contrib.legacy_seq2seq.decoders import (
    Loop,
    checked_projection,
    embedded_argmax,
    embedding_attention_decoder,
    embedding_rnn_decoder,
    rnn_decoder,
)
from anabranch.core.contract.api import public
from anabranch.core.values import nest
from anabranch.layers.base import Layer

Outputs = tuple[list[Any], Any]


def copied_cell(cell: Any) -> Any:
    """A copy of a cell, and of those within it, that makes or finds variables where it is called first."""
    copied = copy.deepcopy(cell)
    _forget(copied, set())
    return copied


def _forget(value: Any, seen: set[int]) -> None:
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, (list, tuple)):
        for item in value:
            _forget(item, seen)
    elif isinstance(value, Layer):
        value.built, value._scope, value._builder = False, None, None
        value._trainable_weights, value._non_trainable_weights = [], []
        value._calls, value._updates, value._losses = [], [], []
        value.__dict__.pop("_cell_scope", None)
        for item in list(value.__dict__.values()):
            _forget(item, seen)


def _either(feed_previous: Any, decode: Callable[[bool], Outputs], like: Any) -> Outputs:
    """What a decoder gives if it is fed its own symbols or not, as ``feed_previous``, a bool or a scalar tensor, says.

    Args:
        feed_previous: whether to feed back.
        decode: the decoder, a function of a bool.
        like: a state of the decoder's structure.
    """
    if isinstance(feed_previous, bool):
        return decode(feed_previous)

    def branch(fed_back: bool) -> list[Any]:
        # The branch that is built first makes the variables.
        with tf.variable_scope(tf.get_variable_scope(), reuse=None if fed_back else True):
            outputs, state = decode(fed_back)
            return [*outputs, *nest.flatten(state)]

    flat = tf.cond(feed_previous, lambda: branch(True), lambda: branch(False))
    parts = len(nest.flatten(like))
    return flat[:-parts], nest.pack_sequence_as(like, flat[-parts:])


@public("contrib.legacy_seq2seq.basic_rnn_seq2seq")
def basic_rnn_seq2seq(
    encoder_inputs: Sequence[Any], decoder_inputs: Sequence[Any], cell: Any, dtype: Any = tf.float32, scope: Any = None
) -> Outputs:
    """An encoder, whose last state is the decoder's first one; both have such a cell, with weights of their own.

    Args:
        encoder_inputs: one tensor ``[batch, input size]`` for each step of the encoder.
        decoder_inputs: the same for the decoder.
        cell: an `RNNCell`.
        dtype: dtype of the encoder's first state.
        scope: variable scope; ``basic_rnn_seq2seq`` if None.

    Returns:
        ``(outputs, state)`` of the decoder: a list of ``[batch, output size]``, and the last state.
    """
    with tf.variable_scope(scope or "basic_rnn_seq2seq"):
        _, state = tf.nn.static_rnn(copied_cell(cell), encoder_inputs, dtype=dtype)
        return rnn_decoder(decoder_inputs, state, cell)


@public("contrib.legacy_seq2seq.tied_rnn_seq2seq")
def tied_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    loop_function: Loop | None = None,
    dtype: Any = tf.float32,
    scope: Any = None,
) -> Outputs:
    """Like :func:`basic_rnn_seq2seq`, with one set of weights for encoder and decoder.

    Args:
        encoder_inputs: one tensor ``[batch, input size]`` for each step of the encoder.
        decoder_inputs: the same for the decoder.
        cell: an `RNNCell`.
        loop_function: makes the decoder's next input of its previous output; see :func:`rnn_decoder`.
        dtype: dtype of the encoder's first state.
        scope: variable scope; ``tied_rnn_seq2seq`` if None.

    Returns:
        ``(outputs, state)`` of the decoder.
    """
    with tf.variable_scope("combined_tied_rnn_seq2seq"):
        scope = scope or "tied_rnn_seq2seq"
        _, state = tf.nn.static_rnn(cell, encoder_inputs, dtype=dtype, scope=scope)
        tf.get_variable_scope().reuse_variables()
        return rnn_decoder(decoder_inputs, state, cell, loop_function=loop_function, scope=scope)


@public("contrib.legacy_seq2seq.embedding_rnn_seq2seq")
def embedding_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> Outputs:
    """An encoder and a decoder over symbols, each with an embedding of its own.

    Args:
        encoder_inputs: int32 ``[batch]`` for each step of the encoder.
        decoder_inputs: int32 ``[batch]`` for each step of the decoder.
        cell: an `RNNCell`.
        num_encoder_symbols: number of symbols of the encoder.
        num_decoder_symbols: number of symbols of the decoder.
        embedding_size: size of the embeddings.
        output_projection: ``(weights, biases)`` that make logits of outputs; if None, the outputs are logits.
        feed_previous: a bool or a scalar bool tensor: feed the decoder its own symbols.
        dtype: dtype of the encoder's first state and of the variables; the scope's if None.
        scope: variable scope; ``embedding_rnn_seq2seq`` if None.

    Returns:
        ``(outputs, state)`` of the decoder: a list of logits ``[batch, num_decoder_symbols]``, or of outputs ``[batch,
        output size]`` if there is an ``output_projection``.
    """
    with tf.variable_scope(scope or "embedding_rnn_seq2seq", dtype=dtype) as entered:
        encoder = tf.contrib.rnn.EmbeddingWrapper(copied_cell(cell), num_encoder_symbols, embedding_size)
        _, encoded = tf.nn.static_rnn(encoder, encoder_inputs, dtype=entered.dtype)
        if output_projection is None:
            cell = tf.contrib.rnn.OutputProjectionWrapper(cell, num_decoder_symbols)

        def decode(fed_back: bool) -> Outputs:
            return embedding_rnn_decoder(
                decoder_inputs,
                encoded,
                cell,
                num_decoder_symbols,
                embedding_size,
                output_projection=output_projection,
                feed_previous=fed_back,
            )

        return _either(feed_previous, decode, encoded)


@public("contrib.legacy_seq2seq.embedding_tied_rnn_seq2seq")
def embedding_tied_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    num_symbols: int,
    embedding_size: int,
    num_decoder_symbols: int | None = None,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> Outputs:
    """An encoder and a decoder over the same symbols, with one embedding and one set of weights.

    Args:
        encoder_inputs: int32 ``[batch]`` for each step of the encoder.
        decoder_inputs: int32 ``[batch]`` for each step of the decoder.
        cell: an `RNNCell`.
        num_symbols: number of symbols.
        embedding_size: size of their embeddings.
        num_decoder_symbols: number of symbols that the decoder writes; all if None.
        output_projection: ``(weights, biases)`` that make logits of outputs; if None, the outputs are logits.
        feed_previous: a bool or a scalar bool tensor: feed the decoder its own symbols.
        dtype: dtype of the encoder's first state and of the variables; the scope's if None.
        scope: variable scope; ``embedding_tied_rnn_seq2seq`` if None.

    Returns:
        ``(outputs, state)`` of the decoder, as for :func:`embedding_rnn_seq2seq`.
    """
    with tf.variable_scope(scope or "embedding_tied_rnn_seq2seq", dtype=dtype) as entered:
        kind = entered.dtype
        checked_projection(output_projection, num_symbols, kind)
        embedding = tf.get_variable("embedding", [num_symbols, embedding_size], dtype=kind)
        read = [tf.nn.embedding_lookup(embedding, ids) for ids in encoder_inputs]
        embedded = [tf.nn.embedding_lookup(embedding, ids) for ids in decoder_inputs]
        if output_projection is None:
            symbols = num_symbols if num_decoder_symbols is None else num_decoder_symbols
            cell = tf.contrib.rnn.OutputProjectionWrapper(cell, symbols)
        # Where a tensor decides, gradients do not pass through symbols fed back.
        update = isinstance(feed_previous, bool)

        def decode(fed_back: bool) -> Outputs:
            loop = embedded_argmax(embedding, output_projection, update) if fed_back else None
            return tied_rnn_seq2seq(read, embedded, cell, loop_function=loop, dtype=kind)

        return _either(feed_previous, decode, cell.state_size)


@public("contrib.legacy_seq2seq.embedding_attention_seq2seq")
def embedding_attention_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs: Sequence[Any],
    cell: Any,
    num_encoder_symbols: int,
    num_decoder_symbols: int,
    embedding_size: int,
    num_heads: int = 1,
    output_projection: Any = None,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
    initial_state_attention: bool = False,
) -> Outputs:
    """An encoder and a decoder over symbols; the decoder attends to the encoder's outputs.

    Args:
        encoder_inputs: int32 ``[batch]`` for each step of the encoder.
        decoder_inputs: int32 ``[batch]`` for each step of the decoder.
        cell: an `RNNCell`.
        num_encoder_symbols: number of symbols of the encoder.
        num_decoder_symbols: number of symbols of the decoder.
        embedding_size: size of the embeddings.
        num_heads: number of means of the encoder's outputs that a step sees.
        output_projection: ``(weights, biases)`` that make logits of outputs; if None, the outputs are logits.
        feed_previous: a bool or a scalar bool tensor: feed the decoder its own symbols.
        dtype: dtype of the encoder's first state and of the variables; the scope's if None.
        scope: variable scope; ``embedding_attention_seq2seq`` if None.
        initial_state_attention: as for :func:`attention_decoder`.

    Returns:
        ``(outputs, state)`` of the decoder, as for :func:`embedding_rnn_seq2seq`.
    """
    with tf.variable_scope(scope or "embedding_attention_seq2seq", dtype=dtype) as entered:
        encoder = tf.contrib.rnn.EmbeddingWrapper(copied_cell(cell), num_encoder_symbols, embedding_size)
        outputs, encoded = tf.nn.static_rnn(encoder, encoder_inputs, dtype=entered.dtype)
        attended = tf.concat([tf.reshape(output, [-1, 1, cell.output_size]) for output in outputs], 1)
        output_size = None
        if output_projection is None:
            cell = tf.contrib.rnn.OutputProjectionWrapper(cell, num_decoder_symbols)
            output_size = num_decoder_symbols

        def decode(fed_back: bool) -> Outputs:
            return embedding_attention_decoder(
                decoder_inputs,
                encoded,
                attended,
                cell,
                num_decoder_symbols,
                embedding_size,
                num_heads=num_heads,
                output_size=output_size,
                output_projection=output_projection,
                feed_previous=fed_back,
                initial_state_attention=initial_state_attention,
            )

        return _either(feed_previous, decode, encoded)


@public("contrib.legacy_seq2seq.one2many_rnn_seq2seq")
def one2many_rnn_seq2seq(
    encoder_inputs: Sequence[Any],
    decoder_inputs_dict: dict[Any, Sequence[Any]],
    enc_cell: Any,
    dec_cells_dict: dict[Any, Any],
    num_encoder_symbols: int,
    num_decoder_symbols_dict: dict[Any, int],
    embedding_size: int,
    feed_previous: Any = False,
    dtype: Any = None,
    scope: Any = None,
) -> tuple[dict[Any, list[Any]], dict[Any, Any]]:
    """One encoder whose last state is the first one of several decoders.

    Args:
        encoder_inputs: int32 ``[batch]`` for each step of the encoder.
        decoder_inputs_dict: name of a decoder -> int32 ``[batch]`` for each of its steps.
        enc_cell: the encoder's `RNNCell`.
        dec_cells_dict: name of a decoder -> its `RNNCell`.
        num_encoder_symbols: number of symbols of the encoder.
        num_decoder_symbols_dict: name of a decoder -> number of its symbols.
        embedding_size: size of all embeddings.
        feed_previous: a bool or a scalar bool tensor: feed the decoders their own symbols.
        dtype: dtype of the encoder's first state; float32 if None.
        scope: variable scope; ``one2many_rnn_seq2seq`` if None.

    Returns:
        ``(outputs, states)``: name of a decoder -> a list of logits, and its last state.
    """
    outputs, states = {}, {}
    with tf.variable_scope(scope or "one2many_rnn_seq2seq", dtype=dtype) as entered:
        encoder = tf.contrib.rnn.EmbeddingWrapper(enc_cell, num_encoder_symbols, embedding_size)
        _, encoded = tf.nn.static_rnn(encoder, encoder_inputs, dtype=entered.dtype)
        for name, inputs in decoder_inputs_dict.items():
            symbols = num_decoder_symbols_dict[name]
            with tf.variable_scope(f"one2many_decoder_{name}"):
                cell = tf.contrib.rnn.OutputProjectionWrapper(dec_cells_dict[name], symbols)

                def decode(fed_back: bool, inputs: Any = inputs, cell: Any = cell, symbols: int = symbols) -> Outputs:
                    return embedding_rnn_decoder(inputs, encoded, cell, symbols, embedding_size, feed_previous=fed_back)

                outputs[name], states[name] = _either(feed_previous, decode, encoded)
    return outputs, states
