"""``tf.contrib.crf``: linear-chain conditional random fields (Lafferty et al., 2001).

A sequence of tags scores the sum of its tags' potentials and of the transitions between neighbours. Sequences in a
batch are padded; what lies beyond a sequence's length has no effect.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core.contract import api
from anabranch.core.contract.api import public


def _mask(sequence_lengths: Any, size: Any, dtype: Any) -> Any:
    """``[batch, size]``, ones at steps below each length."""
    return tf.cast(tf.range(size)[None, :] < tf.cast(sequence_lengths, tf.int32)[:, None], dtype)


@contextlib.contextmanager
def _conditional_names(inputs: Any) -> Iterator[Any]:
    """A scope, and a function that names results, as TensorFlow does for a number of steps that is not known.

    It computes sequences of one step and longer ones in the branches of a conditional, and programs fetch and freeze
    ``cond/Merge``. Here one computation serves all lengths.
    """
    if inputs.shape.ndims is not None and tf.dimension_value(inputs.shape[1]) is not None:
        yield lambda *values: values
        return
    with tf.name_scope("cond"):
        yield lambda *values: tuple(tf.identity(value, name="Merge") for value in values)


@public("contrib.crf.crf_unary_score")
def crf_unary_score(tag_indices: Any, sequence_lengths: Any, inputs: Any) -> Any:
    """The sum of the potentials of each sequence's tags, ``[batch]``.

    Args:
        tag_indices: ``[batch, time]`` of int32.
        sequence_lengths: ``[batch]``.
        inputs: potentials ``[batch, time, tags]``.
    """
    inputs, tags = tf.convert_to_tensor(inputs), tf.convert_to_tensor(tag_indices)
    chosen = tf.reduce_sum(inputs * tf.one_hot(tags, tf.shape(inputs)[2], dtype=inputs.dtype), 2)
    return tf.reduce_sum(chosen * _mask(sequence_lengths, tf.shape(inputs)[1], inputs.dtype), 1)


@public("contrib.crf.crf_binary_score")
def crf_binary_score(tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The sum of the transitions between each sequence's neighbouring tags, ``[batch]``.

    Args:
        tag_indices: ``[batch, time]`` of int32.
        sequence_lengths: ``[batch]``.
        transition_params: ``[tags, tags]``, from the row's tag to the column's.
    """
    params, tags = tf.convert_to_tensor(transition_params), tf.convert_to_tensor(tag_indices)
    count = tf.shape(params)[0]
    steps = tf.gather(tf.reshape(params, [-1]), tags[:, :-1] * count + tags[:, 1:])
    lengths = tf.maximum(tf.cast(sequence_lengths, tf.int32) - 1, 0)
    return tf.reduce_sum(steps * _mask(lengths, tf.shape(tags)[1] - 1, params.dtype), 1)


@public("contrib.crf.crf_sequence_score")
def crf_sequence_score(inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The score of each sequence of tags, not normalised, ``[batch]``; 0 for an empty sequence."""
    inputs = tf.convert_to_tensor(inputs)
    with _conditional_names(inputs) as named:
        unary = crf_unary_score(tag_indices, sequence_lengths, inputs)
        (score,) = named(unary + crf_binary_score(tag_indices, sequence_lengths, transition_params))
    return score


@public("contrib.crf.crf_forward")
def crf_forward(inputs: Any, state: Any, transition_params: Any, sequence_lengths: Any) -> Any:
    """Forward log-sums: what all sequences of tags score that end in a tag, ``[batch, tags]`` at each one's last step.

    Args:
        inputs: potentials of the steps after the first, ``[batch, time - 1, tags]``.
        state: potentials of the first step, ``[batch, tags]``.
        transition_params: ``[tags, tags]``.
        sequence_lengths: ``[batch]``, the first step counted.
    """
    inputs, state = tf.convert_to_tensor(inputs), tf.convert_to_tensor(state)
    params = tf.convert_to_tensor(transition_params)[None]
    lengths = tf.cast(sequence_lengths, tf.int32)

    def step(time: Any, alphas: Any) -> tuple[Any, Any]:
        grown = inputs[:, time - 1] + tf.reduce_logsumexp(alphas[:, :, None] + params, 1)
        return time + 1, tf.where(tf.less(time, lengths), grown, alphas)

    limit = tf.minimum(tf.reduce_max(lengths), tf.shape(inputs)[1] + 1)
    first = tf.identity(state)
    return tf.while_loop(lambda time, _: tf.less(time, limit), step, [1, first])[1]


@public("contrib.crf.crf_log_norm")
def crf_log_norm(inputs: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The logarithm of the sum over all sequences of tags of the exponential of their scores, ``[batch]``."""
    inputs = tf.convert_to_tensor(inputs)
    with _conditional_names(inputs) as named:
        alphas = crf_forward(inputs[:, 1:], inputs[:, 0], transition_params, sequence_lengths)
        norm = tf.reduce_logsumexp(alphas, 1)
        (norm,) = named(tf.where(tf.greater(tf.cast(sequence_lengths, tf.int32), 0), norm, tf.zeros_like(norm)))
    return norm


@public("contrib.crf.crf_log_likelihood")
def crf_log_likelihood(
    inputs: Any, tag_indices: Any, sequence_lengths: Any, transition_params: Any = None
) -> tuple[Any, Any]:
    """The log-likelihood of each sequence of tags, ``[batch]``, and the transitions ``[tags, tags]``.

    Args:
        inputs: potentials ``[batch, time, tags]``; ``tags`` known.
        tag_indices: ``[batch, time]`` of int32.
        sequence_lengths: ``[batch]``.
        transition_params: the transitions; a variable ``transitions`` by default.
    """
    inputs = tf.convert_to_tensor(inputs)
    if transition_params is None:
        count = tf.dimension_value(inputs.shape.dims[2])
        transition_params = tf.get_variable("transitions", [count, count])
    score = crf_sequence_score(inputs, tag_indices, sequence_lengths, transition_params)
    return score - crf_log_norm(inputs, sequence_lengths, transition_params), transition_params


@public("contrib.crf.crf_multitag_sequence_score")
def crf_multitag_sequence_score(inputs: Any, tag_bitmap: Any, sequence_lengths: Any, transition_params: Any) -> Any:
    """The log-sum of the scores of all sequences that take at each step one of the tags allowed there, ``[batch]``.

    Args:
        inputs: potentials ``[batch, time, tags]``.
        tag_bitmap: which tags are allowed, bools of the same shape.
        sequence_lengths: ``[batch]``.
        transition_params: ``[tags, tags]``.
    """
    inputs = tf.convert_to_tensor(inputs)
    never = tf.fill(tf.shape(inputs), tf.constant(-np.inf, inputs.dtype.base_dtype))
    allowed = tf.where(tf.convert_to_tensor(tag_bitmap), inputs, never)
    return crf_log_norm(allowed, sequence_lengths, transition_params)


@public("contrib.crf.viterbi_decode")
def viterbi_decode(score: Any, transition_params: Any) -> tuple[list[int], float]:
    """The best sequence of tags and its score, outside the graph.

    Args:
        score: potentials ``[time, tags]``, an array.
        transition_params: ``[tags, tags]``, an array.
    """
    score, params = np.asarray(score), np.asarray(transition_params)
    best, before = score[0], np.zeros(score.shape, np.int64)
    for time in range(1, len(score)):
        paths = best[:, None] + params
        before[time] = np.argmax(paths, 0)
        best = score[time] + np.max(paths, 0)
    tags = [int(np.argmax(best))]
    for time in range(len(score) - 1, 0, -1):
        tags.append(int(before[time][tags[-1]]))
    return tags[::-1], float(np.max(best))


@public("contrib.crf.crf_decode")
def crf_decode(potentials: Any, transition_params: Any, sequence_length: Any) -> tuple[Any, Any]:
    """The best sequences of tags, int32 ``[batch, time]`` with zeros beyond their lengths, and their scores.

    Args:
        potentials: ``[batch, time, tags]``.
        transition_params: ``[tags, tags]``.
        sequence_length: ``[batch]``.
    """
    potentials = tf.convert_to_tensor(potentials)
    with _conditional_names(potentials) as named:
        tags, scores = named(*_decode(potentials, tf.convert_to_tensor(transition_params), sequence_length))
    return tags, scores


def _decode(potentials: Any, params: Any, sequence_length: Any) -> tuple[Any, Any]:
    lengths = tf.maximum(tf.cast(sequence_length, tf.int32), 1)
    shape = tf.shape(potentials)
    batch, time_size, count = shape[0], shape[1], shape[2]

    def forward(time: Any, best: Any, before: Any) -> tuple[Any, Any, Any]:
        paths = best[:, :, None] + params[None]
        alive = tf.less(time, lengths)
        # Beyond the end of a sequence each tag comes from itself, so that walking back keeps the last tag.
        same = tf.tile(tf.range(count)[None], [batch, 1])
        grown = potentials[:, time] + tf.reduce_max(paths, 1)
        origin = tf.where(alive, tf.argmax(paths, 1, output_type=tf.int32), same)
        return time + 1, tf.where(alive, grown, best), before.write(time - 1, origin)

    table = tf.TensorArray(tf.int32, size=time_size - 1, element_shape=[None, None])
    _, best, table = tf.while_loop(
        lambda time, *_: tf.less(time, time_size), forward, [1, tf.identity(potentials[:, 0]), table]
    )
    last = tf.argmax(best, 1, output_type=tf.int32)

    def back(time: Any, tags: Any, best_tags: Any) -> tuple[Any, Any, Any]:
        rows = tf.stack([tf.range(batch), tags], 1)
        earlier = tf.gather_nd(table.read(time), rows)
        return time - 1, earlier, best_tags.write(time, earlier)

    best_tags = tf.TensorArray(tf.int32, size=time_size, element_shape=[None]).write(time_size - 1, last)
    _, _, best_tags = tf.while_loop(lambda time, *_: tf.greater_equal(time, 0), back, [time_size - 2, last, best_tags])
    tags = tf.transpose(best_tags.stack(), [1, 0])
    tags *= _mask(sequence_length, time_size, tf.int32)
    return tags, tf.reduce_max(best, 1)


class _Cell(tf.nn.rnn_cell.RNNCell):
    """A cell whose state is as wide as there are tags."""

    def __init__(self, tags: int) -> None:
        super().__init__()
        self._num_tags = tags

    @property
    def state_size(self) -> int:
        return self._num_tags

    @property
    def output_size(self) -> int:
        return self._num_tags


class _OfTransitions(_Cell):
    def __init__(self, transition_params: Any) -> None:
        tags = transition_params.get_shape().as_list()[0]
        super().__init__(tags)
        self._transition_params = tf.expand_dims(transition_params, 0)

    def _scores(self, state: Any) -> Any:
        """The score of each tag behind each, ``[batch, before, tag]``."""
        return tf.expand_dims(state, 2) + self._transition_params


@public("contrib.crf.CrfForwardRnnCell")
class CrfForwardRnnCell(_OfTransitions):
    """A cell that sums over all sequences: its state is the logarithm of the sum of those that end in each tag.

    Args:
        transition_params: ``[tags, tags]``.

    Example:
        >>> import anabranch as tf
        >>> with tf.Graph().as_default():
        ...     cell = tf.contrib.crf.CrfForwardRnnCell(tf.zeros([3, 3]))
        ...     _, alphas = tf.nn.dynamic_rnn(cell, tf.zeros([2, 4, 3]), initial_state=tf.zeros([2, 3]))
        >>> alphas.shape.as_list()
        [2, 3]
    """

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        alphas = inputs + tf.reduce_logsumexp(self._scores(state), [1])
        return alphas, alphas


@public("contrib.crf.CrfDecodeForwardRnnCell")
class CrfDecodeForwardRnnCell(_OfTransitions):
    """A cell that finds the best sequence: its state is the best score of those that end in each tag.

    Its output is the tag before, int32 ``[batch, tags]``.

    Args:
        transition_params: ``[tags, tags]``.
    """

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        scores = self._scores(state)
        return tf.argmax(scores, 1, output_type=tf.int32), inputs + tf.reduce_max(scores, [1])


@public("contrib.crf.CrfDecodeBackwardRnnCell")
class CrfDecodeBackwardRnnCell(_Cell):
    """A cell that goes back along the best sequence: its inputs are the tags before, its state the tag ``[batch, 1]``.

    Args:
        num_tags: number of tags.
    """

    def __init__(self, num_tags: int) -> None:
        super().__init__(num_tags)

    @property
    def state_size(self) -> int:
        return 1

    @property
    def output_size(self) -> int:
        return 1

    def __call__(self, inputs: Any, state: Any, scope: Any = None) -> tuple[Any, Any]:
        tags = tf.batch_gather(inputs, state)
        return tags, tags


__getattr__, __dir__ = api.module_attributes("contrib.crf")
