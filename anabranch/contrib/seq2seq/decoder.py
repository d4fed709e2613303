"""Decoders and the loop that runs one.

A decoder makes a step of output from an input and a state, and says what the next input is and which sequences are
done. :func:`dynamic_decode` repeats the step until all are; what a step gives is an element of a `TensorArray`.
"""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import nest
from anabranch.rnn.cells import concat
from anabranch.rnn.dynamic import choose, flat_sizes, transposed


@public("contrib.seq2seq.Decoder")
class Decoder:
    """Base of decoders."""

    @property
    def batch_size(self) -> Any:
        """Number of sequences, a number or a scalar tensor."""
        raise NotImplementedError(_lacks(self, "batch_size"))

    @property
    def output_size(self) -> Any:
        """Shapes, without the batch, of what a step gives."""
        raise NotImplementedError(_lacks(self, "output_size"))

    @property
    def output_dtype(self) -> Any:
        """Dtypes of what a step gives."""
        raise NotImplementedError(_lacks(self, "output_dtype"))

    @property
    def tracks_own_finished(self) -> bool:
        """Whether ``finished`` of a step is all that counts: a sequence may become unfinished (a beam that moves)."""
        return False

    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        """``(finished, first_inputs, initial_state)``; called before the loop."""
        raise NotImplementedError(_lacks(self, "initialize"))

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> tuple[Any, Any, Any, Any]:
        """``(outputs, next_state, next_inputs, finished)`` of one step."""
        raise NotImplementedError(_lacks(self, "step"))

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> tuple[Any, Any]:
        """Outputs and state after the loop, from those that the loop left (outputs time-major)."""
        raise NotImplementedError(_lacks(self, "finalize"))


def _lacks(decoder: Any, what: str) -> str:
    return errors.message(f"{type(decoder).__name__} without {what}", f"a decoder that has {what}", f"define {what}")


@public("contrib.seq2seq.dynamic_decode")
def dynamic_decode(
    decoder: Any,
    output_time_major: bool = False,
    impute_finished: bool = False,
    maximum_iterations: Any = None,
    parallel_iterations: int = 32,
    swap_memory: bool = False,
    scope: Any = None,
    **kwargs: Any,
) -> tuple[Any, Any, Any]:
    """Run a decoder until all sequences are finished.

    Args:
        decoder: a :class:`Decoder`.
        output_time_major: outputs are ``[time, batch, ...]`` instead of ``[batch, time, ...]``.
        impute_finished: past the end of a sequence outputs are zeros and its state stays what it was.
        maximum_iterations: the most steps to do, an integer scalar.
        parallel_iterations: as for `tf.while_loop`.
        swap_memory: as for `tf.while_loop`.
        scope: variable scope; ``decoder`` if None.
        kwargs: must be empty.

    Returns:
        ``(final_outputs, final_state, final_sequence_lengths)``; lengths are int32, as ``finished`` is shaped.

    Raises:
        TypeError: ``decoder`` is not a decoder, or there are unknown arguments.
        ValueError: ``maximum_iterations`` is not a scalar.
    """
    if kwargs:
        raise TypeError(
            f"dynamic_decode() got an unexpected keyword argument {sorted(kwargs)[0]!r}\n"
            + errors.message(f"{sorted(kwargs)}", "the arguments of TensorFlow 1.15", "leave them out")
        )
    if not isinstance(decoder, Decoder):
        raise TypeError(
            f"Expected decoder to be type Decoder, but saw: {type(decoder)}\n"
            + errors.message(f"{decoder!r}", "a decoder", "tf.contrib.seq2seq.BasicDecoder(cell, helper, state)")
        )
    with tf.variable_scope(scope, "decoder"):
        limit = None
        if maximum_iterations is not None:
            limit = tf.convert_to_tensor(maximum_iterations, tf.int32, name="maximum_iterations")
            if limit.shape.ndims != 0:
                raise ValueError(
                    "maximum_iterations must be a scalar\n"
                    + errors.message(f"shape {limit.shape}", "a number", "tf.reduce_max(lengths)")
                )
        finished, inputs, state = decoder.initialize()
        finished = tf.convert_to_tensor(finished)
        inputs, state = (nest.map_structure(_tensor, item) for item in (inputs, state))
        kinds, forms = nest.flatten(decoder.output_dtype), flat_sizes(decoder.output_size)
        batch = _batch(decoder.batch_size)
        known = batch if isinstance(batch, int) else None
        arrays = [
            tf.TensorArray(kind, size=0, dynamic_size=True, element_shape=[known, *form], name="output")
            for kind, form in zip(kinds, forms, strict=True)
        ]
        count_more(10 * len(kinds))  # zeros of each output, whose sizes TensorFlow computes
        lengths = tf.zeros_like(finished, tf.int32)
        if limit is not None:
            finished = tf.logical_or(finished, limit <= 0)

        def step(
            time: Any, arrays: tuple[Any, ...], state: Any, inputs: Any, finished: Any, lengths: Any
        ) -> tuple[Any, ...]:
            outputs, new_state, new_inputs, done = decoder.step(time, inputs, state)
            nest.assert_same_structure(state, new_state)
            nest.assert_same_structure(decoder.output_dtype, outputs)
            nest.assert_same_structure(inputs, new_inputs)
            # Before `done` is looked at: the step in which a sequence ends counts.
            lengths = tf.where(finished, lengths, tf.fill(tf.shape(lengths), time + 1))
            emitted = nest.flatten(outputs)
            if impute_finished:
                blanks = [
                    _zeros(batch, form, item)
                    for form, item in zip(forms, map(tf.convert_to_tensor, emitted), strict=True)
                ]
                emitted = [choose(finished, blank, item) for blank, item in zip(blanks, emitted, strict=True)]
                new_state = nest.map_structure(lambda old, new: _kept(finished, old, new), state, new_state)
            written = tuple(array.write(time, item) for array, item in zip(arrays, emitted, strict=True))
            # A beam search moves sequences between beams, so that what has ended at one place may go on there.
            done = done if decoder.tracks_own_finished else tf.logical_or(done, finished)
            return time + 1, written, new_state, new_inputs, done, lengths

        _, arrays, state, _, _, lengths = tf.while_loop(
            lambda time, arrays, state, inputs, finished, lengths: tf.logical_not(tf.reduce_all(finished)),
            step,
            (tf.constant(0), tuple(arrays), state, inputs, finished, lengths),
            parallel_iterations=parallel_iterations,
            maximum_iterations=limit,
            swap_memory=swap_memory,
        )
        count_more(4 * len(kinds))  # sizes of the arrays
        outputs = nest.pack_sequence_as(decoder.output_dtype, [array.stack() for array in arrays])
        # The default raises: only a decoder that has something to do at the end defines it.
        if type(decoder).finalize is not Decoder.finalize:
            outputs, state = decoder.finalize(outputs, state, lengths)
        if not output_time_major:
            outputs = nest.map_structure(batch_major, outputs)
        return outputs, state, lengths


def batch_major(x: Any) -> Any:
    """``x`` with time and batch exchanged; what has fewer dimensions as it is."""
    return x if x.shape.ndims is not None and x.shape.ndims < 2 else transposed(x)


def _tensor(part: Any) -> Any:
    return part if hasattr(part, "flow") else tf.convert_to_tensor(part)


def _batch(size: Any) -> Any:
    known = tf.get_static_value(size) if isinstance(size, tf.Tensor) else size
    return size if known is None else int(known)


def _zeros(batch: Any, form: list[int | None], item: Any) -> Any:
    if None in form:
        return tf.zeros_like(item)
    blank = tf.fill(concat(batch, form), tf.zeros([], item.dtype))
    blank.set_shape(item.shape)
    return blank


def _kept(finished: Any, old: Any, new: Any) -> Any:
    """The old state of finished sequences, the new one of the others; what has no batch is new."""
    if not hasattr(old, "flow"):
        new.set_shape(old.shape)
    return choose(finished, old, new)
