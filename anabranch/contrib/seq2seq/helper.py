"""Helpers: what a decoder reads at each step, and when a sequence ends.

Policy. Where TensorFlow 1.x takes inputs through a conditional (no embedding when all are finished, sampled rows
alone), the same values are chosen element by element here: a program needs no branch for them. A function of outputs
(``next_inputs_fn``) therefore sees all rows of the batch, those that are not sampled, too.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.contrib.seq2seq.decoder import batch_major
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import nest


@public("contrib.seq2seq.Helper")
class Helper:
    """Base of helpers: samples from outputs, and gives the next inputs.

    A sample is the number of a class unless :attr:`sample_ids_shape` and :attr:`sample_ids_dtype` say otherwise (they
    are younger than helpers: TensorFlow 1.15 demands them, 1.3 does not know them).
    """

    @property
    def batch_size(self) -> Any:
        """Number of sequences, a scalar tensor."""
        raise NotImplementedError(_lacks(self, "batch_size"))

    @property
    def sample_ids_shape(self) -> Any:
        """Shape of a sample, without the batch."""
        return tf.TensorShape([])

    @property
    def sample_ids_dtype(self) -> Any:
        """Dtype of a sample."""
        return tf.int32

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        """``(finished, first_inputs)``."""
        raise NotImplementedError(_lacks(self, "initialize"))

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        """Sample from the outputs of a step."""
        raise NotImplementedError(_lacks(self, "sample"))

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        """``(finished, next_inputs, next_state)``."""
        raise NotImplementedError(_lacks(self, "next_inputs"))


def _lacks(helper: Any, what: str) -> str:
    return errors.message(f"{type(helper).__name__} without {what}", f"a helper that has {what}", f"define {what}")


def _of_rank(rank: int, form: str, **given: Any) -> Any:
    """The one argument as a tensor of that rank."""
    ((name, value),) = given.items()
    value = tf.convert_to_tensor(value, tf.int32 if name in ("start_tokens", "end_token") else None, name=name)
    if value.shape.ndims not in (None, rank):
        raise ValueError(
            f"{name} must be a {form}\n"
            + errors.message(f"{name} of shape {value.shape}", f"a {form}", f"reshape {name}")
        )
    return value


def _one_tensor(outputs: Any) -> Any:
    if not isinstance(outputs, tf.Tensor):
        raise TypeError(
            f"Expected outputs to be a single Tensor, got: {type(outputs)}\n"
            + errors.message(f"{outputs!r}", "logits [batch, classes]", "a cell (or output_layer) with one output")
        )
    return outputs


def _greatest(outputs: Any) -> Any:
    return tf.argmax(_one_tensor(outputs), axis=-1, output_type=tf.int32)


def _drawn(logits: Any, seed: int | None) -> Any:
    """A sample per row of logits."""
    count_more(24)  # a distribution, its parameters and the shape of a sample
    drawn = tf.squeeze(tf.multinomial(_one_tensor(logits), 1, seed=seed, output_dtype=tf.int32), [1])
    count_more(12)
    return drawn


def _flips(probability: Any, batch: Any, seed: int | None) -> Any:
    """A boolean per sequence, true with a probability."""
    count_more(16)  # a distribution, and the shape of a sample
    flips = tf.random_uniform([batch], dtype=probability.dtype, seed=seed) < probability
    count_more(8)
    return flips


def _rows(condition: Any, chosen: Any, otherwise: Any) -> Any:
    """Rows of ``chosen`` where the condition holds for the row."""
    selected = tf.where(condition, chosen, otherwise)
    selected.set_shape(otherwise.shape)
    return selected


def lookup_of(embedding: Any) -> Callable[[Any], Any]:
    """The function from ids to inputs: ``embedding`` itself, or the look-up in a matrix."""
    return embedding if callable(embedding) else lambda ids: tf.nn.embedding_lookup(embedding, ids)


@public("contrib.seq2seq.CustomHelper")
class CustomHelper(Helper):
    """A helper made of functions.

    Args:
        initialize_fn: gives ``(finished, first_inputs)``.
        sample_fn: function of ``time``, ``outputs`` and ``state`` that gives the samples.
        next_inputs_fn: function of ``time``, ``outputs``, ``state`` and ``sample_ids`` that gives
            ``(finished, next_inputs, next_state)``.
        sample_ids_shape: shape of a sample without the batch; a scalar if None.
        sample_ids_dtype: dtype of a sample; int32 if None.
    """

    def __init__(
        self,
        initialize_fn: Callable[..., Any],
        sample_fn: Callable[..., Any],
        next_inputs_fn: Callable[..., Any],
        sample_ids_shape: Any = None,
        sample_ids_dtype: Any = None,
    ) -> None:
        self._initialize_fn = initialize_fn
        self._sample_fn = sample_fn
        self._next_inputs_fn = next_inputs_fn
        self._batch_size: Any = None
        self._sample_ids_shape = tf.TensorShape(sample_ids_shape if sample_ids_shape is not None else [])
        self._sample_ids_dtype = sample_ids_dtype or tf.int32

    @property
    def batch_size(self) -> Any:
        if self._batch_size is None:
            raise ValueError(
                "batch_size accessed before initialize was called\n"
                + errors.message(
                    "batch_size of a new CustomHelper", "its size after initialize()", "helper.initialize() first"
                )
            )
        return self._batch_size

    @property
    def sample_ids_shape(self) -> Any:
        return self._sample_ids_shape

    @property
    def sample_ids_dtype(self) -> Any:
        return self._sample_ids_dtype

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        with tf.name_scope(name, "CustomHelperInitialize"):
            finished, inputs = self._initialize_fn()
            if self._batch_size is None:
                self._batch_size = tf.size(finished)
            return finished, inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        with tf.name_scope(name, "CustomHelperSample"):
            return self._sample_fn(time=time, outputs=outputs, state=state)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        with tf.name_scope(name, "CustomHelperNextInputs"):
            return self._next_inputs_fn(time=time, outputs=outputs, state=state, sample_ids=sample_ids)


@public("contrib.seq2seq.TrainingHelper")
class TrainingHelper(Helper):
    """Read given inputs, whatever the outputs are.

    Args:
        inputs: ``[batch, time, ...]``, or time first if ``time_major``; or a structure of such tensors.
        sequence_length: int ``[batch]``.
        time_major: whether time is the first dimension.
        name: name of the scope.
    """

    def __init__(self, inputs: Any, sequence_length: Any, time_major: bool = False, name: str | None = None) -> None:
        with tf.name_scope(name, "TrainingHelper", [*nest.flatten(inputs), sequence_length]):
            inputs = nest.map_structure(tf.convert_to_tensor, inputs)
            self._inputs = inputs
            if not time_major:
                inputs = nest.map_structure(batch_major, inputs)
            self._input_tas = nest.map_structure(_unstacked, inputs)
            self._first_inputs = nest.map_structure(_first_step, inputs)
            self._sequence_length = _of_rank(1, "vector", sequence_length=sequence_length)
            self._zero_inputs = nest.map_structure(_blank_step, inputs)
            self._batch_size = tf.size(self._sequence_length)

    @property
    def inputs(self) -> Any:
        """The inputs as they were given."""
        return self._inputs

    @property
    def sequence_length(self) -> Any:
        """The lengths."""
        return self._sequence_length

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        with tf.name_scope(name, "TrainingHelperInitialize"):
            count_more(4)  # a conditional, for sequences that are all empty
            finished = tf.equal(tf.zeros([], self._sequence_length.dtype), self._sequence_length)
            return finished, self._first_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        with tf.name_scope(name, "TrainingHelperSample", [time, outputs]):
            return _greatest(outputs)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        with tf.name_scope(name, "TrainingHelperNextInputs", [time]):
            following = time + 1
            finished = tf.cast(following, self._sequence_length.dtype) >= self._sequence_length
            over = tf.reduce_all(finished)

            def read(array: Any, zeros: Any) -> Any:
                # Past the last step there is nothing to read: some other step is, and is not taken.
                item = array.read(tf.where(over, 0, following))
                return tf.where(over, zeros, item)

            return finished, nest.map_structure(read, self._input_tas, self._zero_inputs), state


def _unstacked(x: Any) -> Any:
    array = tf.TensorArray(x.dtype, size=tf.shape(x)[0], element_shape=x.shape[1:], clear_after_read=False)
    return array.unstack(x)


def _first_step(x: Any) -> Any:
    """The first step of time-major inputs; zeros if there is none, which is so if all lengths are 0."""
    return tf.reduce_sum(x[:1], 0)


def _blank_step(x: Any) -> Any:
    zeros = tf.zeros(tf.shape(x)[1:], x.dtype)
    zeros.set_shape(x.shape[1:])
    return zeros


def _probability(value: Any) -> Any:
    value = tf.convert_to_tensor(value, name="sampling_probability")
    if value.shape.ndims not in (0, 1):
        raise ValueError(
            f"sampling_probability must be either a scalar or a vector. saw shape: {value.shape}\n"
            + errors.message(
                f"shape {value.shape}", "one probability, or one per sequence", "tf.reshape(probability, [])"
            )
        )
    return value


@public("contrib.seq2seq.ScheduledEmbeddingTrainingHelper")
class ScheduledEmbeddingTrainingHelper(TrainingHelper):
    """Read given inputs, or, at random, the embedding of a sample of the last outputs (Bengio et al. 2015,
    arXiv:1506.03099). ``sample_id`` is -1 where the given input is read.

    Args:
        inputs: ``[batch, time, depth]``, or time first.
        sequence_length: int ``[batch]``.
        embedding: function of ids, or a matrix ``[classes, depth]``.
        sampling_probability: how probable a sample is: a scalar, or one per sequence.
        time_major: whether time is the first dimension.
        seed: seed of the samples.
        scheduling_seed: seed of the choice whether to sample.
        name: name of the scope.
    """

    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        embedding: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: int | None = None,
        scheduling_seed: int | None = None,
        name: str | None = None,
    ) -> None:
        with tf.name_scope(name, "ScheduledEmbeddingSamplingWrapper"):
            self._embedding_fn = lookup_of(embedding)
            self._sampling_probability = _probability(sampling_probability)
            self._seed = seed
            self._scheduling_seed = scheduling_seed
            super().__init__(inputs=inputs, sequence_length=sequence_length, time_major=time_major, name=name)

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        with tf.name_scope(name, "ScheduledEmbeddingTrainingHelperSample", [time, outputs]):
            chosen = _flips(self._sampling_probability, self.batch_size, self._scheduling_seed)
            return _rows(chosen, _drawn(outputs, self._seed), tf.fill([self.batch_size], -1))

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        with tf.name_scope(name, "ScheduledEmbeddingTrainingHelperNextInputs", [time, sample_ids]):
            finished, given, state = super().next_inputs(time, outputs, state, sample_ids, name)
            embedded = self._embedding_fn(tf.maximum(sample_ids, 0))
            chosen = tf.logical_and(sample_ids > -1, tf.logical_not(tf.reduce_all(finished)))
            return finished, nest.map_structure(lambda own, item: _rows(chosen, own, item), embedded, given), state


@public("contrib.seq2seq.ScheduledOutputTrainingHelper")
class ScheduledOutputTrainingHelper(TrainingHelper):
    """Read given inputs, or, at random, the last outputs (Bengio et al. 2015, arXiv:1506.03099). ``sample_id`` says
    whether the outputs are read, a boolean.

    Args:
        inputs: ``[batch, time, depth]``, or time first.
        sequence_length: int ``[batch]``.
        sampling_probability: how probable it is to read outputs: a scalar, or one per sequence.
        time_major: whether time is the first dimension.
        seed: seed of the choice.
        next_inputs_fn: function (or layer) from outputs to inputs; outputs are read as they are if None.
        auxiliary_inputs: further inputs, like ``inputs``, joined to what is read along the last dimension.
        name: name of the scope.
    """

    def __init__(
        self,
        inputs: Any,
        sequence_length: Any,
        sampling_probability: Any,
        time_major: bool = False,
        seed: int | None = None,
        next_inputs_fn: Callable[..., Any] | None = None,
        auxiliary_inputs: Any = None,
        name: str | None = None,
    ) -> None:
        with tf.name_scope(name, "ScheduledOutputTrainingHelper"):
            self._sampling_probability = _probability(sampling_probability)
            if next_inputs_fn is not None and not callable(next_inputs_fn):
                raise TypeError(
                    f"next_inputs_fn must be a function of outputs: {next_inputs_fn!r}\n"
                    + errors.message(
                        f"{type(next_inputs_fn).__name__}", "a function or layer, or None", "next_inputs_fn=None"
                    )
                )
            self._next_inputs_fn = next_inputs_fn
            self._auxiliary_input_tas = None
            self._seed = seed
            if auxiliary_inputs is not None:
                inputs = nest.map_structure(lambda x, y: tf.concat([x, y], -1), inputs, auxiliary_inputs)
                auxiliary = nest.map_structure(tf.convert_to_tensor, auxiliary_inputs)
                if not time_major:
                    auxiliary = nest.map_structure(batch_major, auxiliary)
                self._auxiliary_input_tas = nest.map_structure(_unstacked, auxiliary)
            super().__init__(inputs=inputs, sequence_length=sequence_length, time_major=time_major, name=name)

    @property
    def sample_ids_dtype(self) -> Any:
        return tf.bool

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        with tf.name_scope(name, "ScheduledOutputTrainingHelperSample", [time]):
            return _flips(self._sampling_probability, self.batch_size, self._seed)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        with tf.name_scope(name, "ScheduledOutputTrainingHelperNextInputs", [time, sample_ids]):
            finished, given, state = super().next_inputs(time, outputs, state, sample_ids, name)
            over = tf.reduce_all(finished)
            own = outputs if self._next_inputs_fn is None else self._next_inputs_fn(outputs)
            if self._auxiliary_input_tas is not None:
                place = tf.where(over, 0, time + 1)
                own = nest.map_structure(
                    lambda x, array: tf.concat([x, array.read(place)], -1), own, self._auxiliary_input_tas
                )
            chosen = tf.logical_and(tf.cast(sample_ids, tf.bool), tf.logical_not(over))
            return finished, nest.map_structure(lambda x, item: _rows(chosen, x, item), own, given), state


@public("contrib.seq2seq.GreedyEmbeddingHelper")
class GreedyEmbeddingHelper(Helper):
    """Read the embedding of the class with the greatest output.

    Args:
        embedding: function of ids, or a matrix ``[classes, depth]``.
        start_tokens: int32 ``[batch]``, what is read first.
        end_token: the class that ends a sequence, a number.
    """

    def __init__(self, embedding: Any, start_tokens: Any, end_token: Any) -> None:
        self._embedding_fn = lookup_of(embedding)
        self._start_tokens = _of_rank(1, "vector", start_tokens=start_tokens)
        self._end_token = _of_rank(0, "scalar", end_token=end_token)
        self._batch_size = tf.size(self._start_tokens)
        self._start_inputs = self._embedding_fn(self._start_tokens)

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        count_more(2 * self._start_tokens.shape.is_fully_defined())  # as many copies as there are tokens
        finished = tf.zeros_like(self._start_tokens, tf.bool)
        return finished, self._start_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        return _greatest(outputs)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        finished = tf.equal(sample_ids, self._end_token)
        # Samples of finished sequences need not be classes that the embedding knows; nobody reads the last ones.
        following = tf.where(tf.reduce_all(finished), self._start_tokens, sample_ids)
        return finished, self._embedding_fn(following), state


@public("contrib.seq2seq.SampleEmbeddingHelper")
class SampleEmbeddingHelper(GreedyEmbeddingHelper):
    """Read the embedding of a class drawn from the outputs, which are logits.

    Args:
        embedding: function of ids, or a matrix ``[classes, depth]``.
        start_tokens: int32 ``[batch]``, what is read first.
        end_token: the class that ends a sequence, a number.
        softmax_temperature: what logits are divided by before; nothing if None.
        seed: seed of the samples.
    """

    def __init__(
        self,
        embedding: Any,
        start_tokens: Any,
        end_token: Any,
        softmax_temperature: Any = None,
        seed: int | None = None,
    ) -> None:
        super().__init__(embedding, start_tokens, end_token)
        self._softmax_temperature = softmax_temperature
        self._seed = seed

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        logits = _one_tensor(outputs)
        return _drawn(logits if self._softmax_temperature is None else logits / self._softmax_temperature, self._seed)


@public("contrib.seq2seq.InferenceHelper")
class InferenceHelper(Helper):
    """A helper for inference made of functions of samples.

    Args:
        sample_fn: function from outputs to samples.
        sample_shape: shape of a sample without the batch.
        sample_dtype: dtype of a sample.
        start_inputs: ``[batch, ...]``, what is read first.
        end_fn: function of samples that says which sequences end, bool ``[batch]``.
        next_inputs_fn: function from samples to inputs; samples are the inputs if None.
    """

    def __init__(
        self,
        sample_fn: Callable[[Any], Any],
        sample_shape: Any,
        sample_dtype: Any,
        start_inputs: Any,
        end_fn: Callable[[Any], Any],
        next_inputs_fn: Callable[[Any], Any] | None = None,
    ) -> None:
        self._sample_fn = sample_fn
        self._end_fn = end_fn
        self._sample_shape = tf.TensorShape(sample_shape)
        self._sample_dtype = tf.as_dtype(sample_dtype)
        self._next_inputs_fn = next_inputs_fn
        self._start_inputs = tf.convert_to_tensor(start_inputs, name="start_inputs")
        self._batch_size = tf.shape(self._start_inputs)[0]

    @property
    def batch_size(self) -> Any:
        return self._batch_size

    @property
    def sample_ids_shape(self) -> Any:
        return self._sample_shape

    @property
    def sample_ids_dtype(self) -> Any:
        return self._sample_dtype

    def initialize(self, name: str | None = None) -> tuple[Any, Any]:
        finished = tf.fill([self._batch_size], False)
        finished.set_shape(self._start_inputs.shape[:1])
        return finished, self._start_inputs

    def sample(self, time: Any, outputs: Any, state: Any, name: str | None = None) -> Any:
        return self._sample_fn(outputs)

    def next_inputs(
        self, time: Any, outputs: Any, state: Any, sample_ids: Any, name: str | None = None
    ) -> tuple[Any, Any, Any]:
        following = sample_ids if self._next_inputs_fn is None else self._next_inputs_fn(sample_ids)
        return self._end_fn(sample_ids), following, state
