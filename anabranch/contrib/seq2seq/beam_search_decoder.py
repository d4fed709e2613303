"""Beam search: the most probable sequences, several per entry of a batch.

Inside, tensors with a batch are ``[batch, beam, ...]``; the cell sees ``[batch * beam, ...]``. A step scores all
continuations of all beams and keeps the best ``beam_width`` of each entry. A finished beam goes on with the end token
at no cost. Before the first step all beams of an entry are the same one: all but the first have probability 0.

Length and coverage penalties are those of Wu et al. 2016 (arXiv:1609.08144, section 7).
"""

from __future__ import annotations

import collections
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.contrib.seq2seq.attention_wrapper import AttentionWrapperState
from anabranch.contrib.seq2seq.basic_decoder import checked_layer
from anabranch.contrib.seq2seq.decoder import Decoder
from anabranch.contrib.seq2seq.helper import lookup_of
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import nest
from anabranch.rnn.cells import assert_like_rnncell

_State = collections.namedtuple(  # type: ignore[name-match]
    "BeamSearchDecoderState",
    ("cell_state", "log_probs", "finished", "lengths", "accumulated_attention_probs"),
    defaults=[()],  # which TensorFlow did not have before 1.12
)
_Output = collections.namedtuple(  # type: ignore[name-match]
    "BeamSearchDecoderOutput", ("scores", "predicted_ids", "parent_ids")
)
_Final = collections.namedtuple(  # type: ignore[name-match]
    "FinalBeamSearchDecoderOutput", ("predicted_ids", "beam_search_decoder_output")
)


@public("contrib.seq2seq.BeamSearchDecoderState")
class BeamSearchDecoderState(_State):
    """State of a beam search: the cell's, and of each beam the log-probability, whether it is finished, its length, and
    the sum of its alignments (``()`` without a coverage penalty)."""


@public("contrib.seq2seq.BeamSearchDecoderOutput")
class BeamSearchDecoderOutput(_Output):
    """What a step gives, each ``[batch, beam]``: scores, ids, and the beams that they continue."""


@public("contrib.seq2seq.FinalBeamSearchDecoderOutput")
class FinalBeamSearchDecoderOutput(_Final):
    """What a search gives: ids of whole beams ``[batch, time, beam]``, the best first, and what the steps gave."""


@public("contrib.seq2seq.tile_batch")
def tile_batch(t: Any, multiplier: int, name: str | None = None) -> Any:
    """Each entry of the batch several times, one after the other: for the memory and the state of a beam search.

    Args:
        t: ``[batch, ...]``, or a structure of such tensors.
        multiplier: how many times.
        name: name of the scope.

    Returns:
        ``[batch * multiplier, ...]``, in the structure of ``t``.

    Example:
        >>> import anabranch as tf
        >>> print(tf.Session().run(tf.contrib.seq2seq.tile_batch(tf.constant([1, 2]), 3)))
        [1 1 1 2 2 2]
    """
    with tf.name_scope(name, "tile_batch", nest.flatten(t)):
        return nest.map_structure(lambda item: _tiled(item, multiplier), t)


def _tiled(t: Any, multiplier: int) -> Any:
    t = tf.convert_to_tensor(t, name="t")
    shape = t.shape
    if shape.ndims is None:
        raise ValueError(
            "t must have statically known rank\n"
            + errors.message(f"{t.name!r} of unknown rank", "[batch, ...]", "t.set_shape([None, ...])")
        )
    if shape.ndims == 0:
        raise ValueError(
            "t must have a batch dimension\n"
            + errors.message(f"the scalar {t.name!r}", "a tensor [batch, ...]", "leave it out")
        )
    whole = tf.shape(t)
    repeated = tf.tile(tf.expand_dims(t, 1), [1, multiplier] + [1] * (shape.ndims - 1))
    tiled = tf.reshape(repeated, tf.concat([[whole[0] * multiplier], whole[1:]], 0))
    known = shape[0].value
    tiled.set_shape([None if known is None else known * multiplier, *shape[1:].as_list()])
    return tiled


def _mean_alignments(state: Any) -> Any:
    """The alignments of a cell with attention, their mean if there are several mechanisms."""
    return (
        tf.add_n(list(state.alignments)) / len(state.alignments)
        if nest.is_nested(state.alignments)
        else (state.alignments)
    )


def attention_probs(cell_state: Any, coverage_penalty_weight: Any) -> Any:
    """The alignments in the state of a cell, the mean of them if several cells attend; None without a penalty.

    Raises:
        ValueError: there is a penalty and no cell attends.
    """
    if _known(coverage_penalty_weight) == 0.0:
        return None
    if isinstance(cell_state, AttentionWrapperState):
        return _mean_alignments(cell_state)
    parts = cell_state if isinstance(cell_state, tuple) else ()
    means = [_mean_alignments(part) for part in parts if isinstance(part, AttentionWrapperState)]
    if not means:
        raise ValueError(
            "coverage_penalty_weight must be 0.0 if no cell is instance of AttentionWrapper.\n"
            + errors.message(
                f"coverage_penalty_weight={coverage_penalty_weight!r} for a cell without attention",
                "0.0, or a cell with attention",
                "tf.contrib.seq2seq.AttentionWrapper(cell, mechanism)",
            )
        )
    return tf.add_n(means) / len(means)


def _known(number: Any) -> Any:
    return tf.get_static_value(number) if isinstance(number, tf.Tensor) else number


def _number(value: Any, dtype: Any) -> Any:
    return tf.cast(value, dtype) if isinstance(value, tf.Tensor) else tf.constant(value, dtype)


def _weight(name: str, value: Any) -> Any:
    if (isinstance(value, tf.Tensor) and value.shape.ndims not in (None, 0)) or np.ndim(_known(value) or 0) != 0:
        raise ValueError(f"{name} must be a scalar\n" + errors.message(f"{name}={value!r}", "a number", f"{name}=1.0"))
    return value


def scores_of(
    log_probs: Any,
    lengths: Any,
    length_penalty_weight: Any,
    coverage_penalty_weight: Any,
    finished: Any,
    accumulated: Any,
) -> Any:
    """Scores of continuations ``[batch, beam, classes]``.

    Args:
        log_probs: their log-probabilities.
        lengths: their lengths.
        length_penalty_weight: exponent of the penalty that log-probabilities are divided by.
        coverage_penalty_weight: factor of the penalty for parts of the memory that finished beams left out.
        finished: which beams are finished, ``[batch, beam]``.
        accumulated: sums of alignments ``[batch, beam, memory time]``, or None.
    """
    scores = log_probs
    if _known(length_penalty_weight) != 0.0:
        penalty = ((5.0 + tf.cast(lengths, log_probs.dtype)) / 6.0) ** _number(length_penalty_weight, log_probs.dtype)
        scores = scores / penalty
    if accumulated is None:
        return scores
    covered = tf.reduce_sum(tf.log(tf.minimum(accumulated, 1.0)), 2)
    # 0 times minus infinity is not a number: beams that go on are left out before they are weighed.
    covered = tf.where(finished, covered, tf.zeros_like(covered))
    return scores + tf.expand_dims(covered * _number(coverage_penalty_weight, covered.dtype), 2)


@public("contrib.seq2seq.BeamSearchDecoder")
class BeamSearchDecoder(Decoder):
    """Search for the most probable sequences that a cell can give.

    Args:
        cell: an `RNNCell`; with attention, its memory tiled by :func:`tile_batch`.
        embedding: function of ids, or a matrix ``[classes, depth]``.
        start_tokens: int32 ``[batch]``, what is read first.
        end_token: the class that ends a sequence, a number.
        initial_state: the cell's state to begin with, tiled by :func:`tile_batch` (``[batch * beam_width, ...]``).
        beam_width: number of beams.
        output_layer: layer that makes logits of the cell's output; none if None.
        length_penalty_weight: how much longer sequences are preferred; 0 for probabilities as they are.
        coverage_penalty_weight: how much those are preferred that attended to all of the memory; 0 for none.
        reorder_tensor_arrays: put the elements of TensorArrays of the final state (an alignment history) in the order
            of the final beams; they come as one tensor then.

    ``dynamic_decode`` gives a :class:`FinalBeamSearchDecoderOutput`, a :class:`BeamSearchDecoderState`, and lengths
    ``[batch, beam]``.

    Raises:
        TypeError: an argument is of another kind. ValueError: shapes do not fit.
    """

    def __init__(
        self,
        cell: Any,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        initial_state: Any,
        beam_width: int,
        output_layer: Any = None,
        length_penalty_weight: Any = 0.0,
        coverage_penalty_weight: Any = 0.0,
        reorder_tensor_arrays: bool = True,
    ) -> None:
        assert_like_rnncell("cell", cell)
        self._cell = cell
        self._output_layer = checked_layer(output_layer)
        self._reorder_tensor_arrays = reorder_tensor_arrays
        self._embedding_fn = lookup_of(embedding)
        tokens = tf.convert_to_tensor(start_tokens, tf.int32, name="start_tokens")
        self._end_token = tf.convert_to_tensor(end_token, tf.int32, name="end_token")
        for argument, tensor, rank, form in (
            ("start_tokens", tokens, 1, "vector"),
            ("end_token", self._end_token, 0, "scalar"),
        ):
            if tensor.shape.ndims not in (None, rank):
                raise ValueError(
                    f"{argument} must be a {form}\n"
                    + errors.message(f"{argument} of shape {tensor.shape}", f"a {form}", f"reshape {argument}")
                )
        self._beam_width = beam_width
        self._length_penalty_weight = _weight("length_penalty_weight", length_penalty_weight)
        self._coverage_penalty_weight = _weight("coverage_penalty_weight", coverage_penalty_weight)
        self._batch_size = tf.size(tokens)
        self._static_batch = tokens.shape[0].value
        self._initial_cell_state = nest.map_structure(self._split, initial_state)
        self._start_tokens = tf.tile(tf.expand_dims(tokens, 1), [1, beam_width])
        self._start_inputs = self._embedding_fn(self._start_tokens)
        first = tf.one_hot(tf.zeros([self._batch_size], tf.int32), beam_width, False, True, dtype=tf.bool)
        first.set_shape([self._static_batch, beam_width])
        self._finished = first

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    @property
    def tracks_own_finished(self) -> bool:
        """True: beams move, and what is finished moves with them."""
        return True

    @property
    def output_size(self) -> BeamSearchDecoderOutput:
        return BeamSearchDecoderOutput(*[tf.TensorShape([self._beam_width])] * 3)

    @property
    def output_dtype(self) -> BeamSearchDecoderOutput:
        kind = nest.flatten(self._initial_cell_state)[0].dtype.base_dtype
        return BeamSearchDecoderOutput(scores=kind, predicted_ids=tf.int32, parent_ids=tf.int32)

    # ------------------------------------------------------------------------------------------------- batch and beams
    def _split(self, t: Any) -> Any:
        """``[batch * beam, ...]`` as ``[batch, beam, ...]``; what has no batch as it is."""
        if hasattr(t, "flow"):
            return t
        t = tf.convert_to_tensor(t)
        if t.shape.ndims is None:
            raise ValueError(
                f"Expected tensor ({t.name}) to have known rank, but ndims == None.\n"
                + errors.message(f"{t.name!r} of unknown rank", "[batch * beam_width, ...]", "t.set_shape([None, n])")
            )
        if t.shape.ndims == 0:
            return t
        rows, batch = t.shape[0].value, self._static_batch
        if rows is not None and batch is not None and rows != batch * self._beam_width:
            raise ValueError(
                "initial_state must be tiled to batch_size * beam_width.\n"
                + errors.message(
                    f"{t.name!r} of {rows} rows for {batch} start tokens and {self._beam_width} beams",
                    f"{batch * self._beam_width} rows",
                    f"tf.contrib.seq2seq.tile_batch(state, {self._beam_width})",
                )
            )
        by_beam = tf.reshape(t, tf.concat([[self._batch_size, self._beam_width], tf.shape(t)[1:]], 0))
        by_beam.set_shape([batch, self._beam_width, *t.shape[1:].as_list()])
        return by_beam

    def _merge(self, t: Any) -> Any:
        """``[batch, beam, ...]`` as ``[batch * beam, ...]``; what has no batch as it is."""
        if hasattr(t, "flow") or t.shape.ndims == 0:
            return t
        merged = tf.reshape(t, tf.concat([[self._batch_size * self._beam_width], tf.shape(t)[2:]], 0))
        rows = None if self._static_batch is None else self._static_batch * self._beam_width
        merged.set_shape([rows, *t.shape[2:].as_list()])
        return merged

    def _of_beams(self, t: Any, beams: Any) -> Any:
        """``t`` ``[batch, beam, ...]`` for other beams ``[batch, beam]``; what has no beams as it is."""
        if hasattr(t, "flow") or t.shape.ndims == 0:
            return t
        chosen = tf.gather(t, beams, batch_dims=1)
        chosen.set_shape(t.shape)
        return chosen

    # ----------------------------------------------------------------------------------------------------------- steps
    def initialize(self, name: str | None = None) -> tuple[Any, Any, Any]:
        kind = self.output_dtype.scores
        count_more(11)  # sizes that TensorFlow computes
        certain, impossible = tf.constant(0.0, kind), tf.constant(float("-inf"), kind)
        log_probs = tf.one_hot(tf.zeros([self._batch_size], tf.int32), self._beam_width, certain, impossible)
        log_probs.set_shape(self._finished.shape)
        probs = attention_probs(self._initial_cell_state, self._coverage_penalty_weight)
        state = BeamSearchDecoderState(
            cell_state=self._initial_cell_state,
            log_probs=log_probs,
            finished=self._finished,
            lengths=tf.zeros_like(self._finished, tf.int64),
            accumulated_attention_probs=() if probs is None else probs,
        )
        return self._finished, self._start_inputs, state

    def step(self, time: Any, inputs: Any, state: Any, name: str | None = None) -> tuple[Any, Any, Any, Any]:
        with tf.name_scope(name, "BeamSearchDecoderStep", [time]):
            outputs, cell_state = self._cell(
                nest.map_structure(self._merge, inputs), nest.map_structure(self._merge, state.cell_state)
            )
            logits = nest.map_structure(self._split, outputs)
            cell_state = nest.map_structure(self._split, cell_state)
            if self._output_layer is not None:
                logits = self._output_layer(logits)
            output, following = self._best(logits, cell_state, state)
            over = tf.reduce_all(following.finished)
            ids = tf.where(over, self._start_tokens, output.predicted_ids)
            return output, following, self._embedding_fn(ids), following.finished

    def _best(self, logits: Any, cell_state: Any, state: Any) -> tuple[Any, Any]:
        """The best continuations, and the state with them."""
        width, kind = self._beam_width, logits.dtype
        classes = logits.shape[-1].value or tf.shape(logits)[-1]
        goes_on = tf.logical_not(state.finished)
        # A finished beam continues with the end token, surely.
        at_end = tf.one_hot(self._end_token, classes, True, False, dtype=tf.bool)
        only_end = tf.where_v2(at_end, tf.zeros([], kind), tf.constant(kind.min, kind))
        step_probs = tf.where_v2(tf.expand_dims(state.finished, 2), only_end, tf.nn.log_softmax(logits))
        total = tf.expand_dims(state.log_probs, 2) + step_probs
        longer = tf.logical_and(tf.expand_dims(goes_on, 2), tf.logical_not(at_end))
        lengths = tf.expand_dims(state.lengths, 2) + tf.cast(longer, tf.int64)
        accumulated = None
        probs = attention_probs(cell_state, self._coverage_penalty_weight)
        if probs is not None:
            accumulated = state.accumulated_attention_probs + probs * tf.expand_dims(tf.cast(goes_on, probs.dtype), 2)
        scores = scores_of(
            total, lengths, self._length_penalty_weight, self._coverage_penalty_weight, state.finished, accumulated
        )
        best, places = tf.nn.top_k(tf.reshape(scores, [self._batch_size, width * classes]), k=width)
        ids, beams = tf.floormod(places, classes), tf.floordiv(places, classes)
        for arrays in (best, ids, beams):
            arrays.set_shape([self._static_batch, width])
        chosen = tf.gather(tf.reshape(total, [self._batch_size, width * classes]), places, batch_dims=1)
        was_finished = self._of_beams(state.finished, beams)
        following = BeamSearchDecoderState(
            cell_state=nest.map_structure(lambda t: self._of_beams(t, beams), cell_state),
            log_probs=chosen,
            finished=tf.logical_or(was_finished, tf.equal(ids, self._end_token)),
            lengths=self._of_beams(state.lengths, beams) + tf.cast(tf.logical_not(was_finished), tf.int64),
            accumulated_attention_probs=() if accumulated is None else self._of_beams(accumulated, beams),
        )
        return BeamSearchDecoderOutput(scores=best, predicted_ids=ids, parent_ids=beams), following

    def finalize(self, outputs: Any, final_state: Any, sequence_lengths: Any) -> tuple[Any, Any]:
        """Whole beams, and the final state with its TensorArrays in the order of the beams."""
        longest = tf.cast(tf.reduce_max(final_state.lengths, axis=1), tf.int32)
        ids = tf.contrib.seq2seq.gather_tree(outputs.predicted_ids, outputs.parent_ids, longest, self._end_token)
        if self._reorder_tensor_arrays:
            final_state = final_state._replace(
                cell_state=nest.map_structure(
                    lambda t: self._sorted(t, outputs.parent_ids, final_state.lengths), final_state.cell_state
                )
            )
        return FinalBeamSearchDecoderOutput(predicted_ids=ids, beam_search_decoder_output=outputs), final_state

    def _sorted(self, t: Any, parent_ids: Any, lengths: Any) -> Any:
        """The stack of a TensorArray of ``[batch * beam, ...]`` in the order of the final beams; else ``t``."""
        if not hasattr(t, "flow"):
            return t
        return in_order_of_beams(t.stack(), parent_ids, lengths, self._beam_width)


def in_order_of_beams(whole: Any, parent_ids: Any, lengths: Any, width: int) -> Any:
    """Elements that a cell wrote at all steps, each of the beam that the final one came through.

    At a step the cell sees the beams that it continues: its rows are those of ``parent_ids``. (TensorFlow 1.15 takes
    the row of the continuation, which another beam may have had.)

    Args:
        whole: ``[time, batch * beam, ...]`` (or ``[time, batch, beam, ...]``, which has the same elements).
        parent_ids: int32 ``[time, batch, beam]``.
        lengths: ``[batch, beam]``; past the end of a beam elements are as they are.
        width: number of beams.

    Returns:
        A tensor shaped like ``whole``.
    """
    steps, batch = tf.shape(parent_ids)[0], tf.shape(parent_ids)[1]
    own = tf.tile(tf.reshape(tf.range(width), [1, 1, width]), [steps, batch, 1])
    longest = tf.cast(tf.reduce_max(lengths, axis=1), tf.int32)
    through = tf.contrib.seq2seq.gather_tree(parent_ids, parent_ids, longest, width + 1)
    inside = tf.transpose(tf.sequence_mask(lengths, steps), [2, 0, 1])
    rows = tf.reshape(whole, tf.concat([[steps, batch, width], [tf.size(whole) // tf.maximum(tf.size(own), 1)]], 0))
    ordered = tf.gather(rows, tf.where(inside, through, own), batch_dims=2)
    ordered = tf.reshape(ordered, tf.shape(whole))
    ordered.set_shape(whole.shape)
    return ordered
