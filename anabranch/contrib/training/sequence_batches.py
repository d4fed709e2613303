"""``tf.contrib.training.SequenceQueueingStateSaver``: long sequences in segments, with the state between them.

A sequence is cut into segments of ``num_unroll`` steps. Each segment is a value of a barrier under a key
(``00001_of_00003:name``); one of its components is the state that it begins with, so a segment is complete, and can be
taken, once the segment before it has been computed and its state saved. A queue of tokens bounds how many sequences are
under way. Sparse tensors go through the barrier as numbers of a map (:mod:`anabranch.ops.sparse.tensor_maps`), one for
each step of a sequence, and one for each segment of what is its context.
"""

from __future__ import annotations

import numbers
from collections.abc import Mapping
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.ops.control.public_dependencies import with_dependencies
from anabranch.ops.queues.public_barriers import Barrier
from anabranch.ops.sparse.tensor_maps import add_sparse, take_sparse

_FACTS = ("__length", "__total_length", "__next_key", "__sequence", "__sequence_count")


def _is_sparse(value: Any) -> bool:
    return isinstance(value, (tf.SparseTensor, tf.SparseTensorValue))


def _checked(ok: Any, value: Any, *data: Any) -> Any:
    return with_dependencies([tf.Assert(ok, list(data))], value)


def _text(*parts: Any) -> Any:
    """Texts and numbers in a row, as a string."""
    return tf.strings.join([part if _is_text(part) else tf.as_string(part) for part in parts])


def _is_text(part: Any) -> bool:
    return isinstance(part, str) or getattr(part, "dtype", None) == tf.string


class _Map:
    """The map through which a sparse component goes: its name, and what the component is."""

    def __init__(self, tensor: Any, rank: int | None) -> None:
        graph = tf.get_default_graph()
        self.name = graph.unique_name("sparse_sequences", mark_as_used=True)
        self.dtype = tensor.dtype
        self.rank = rank


@public("contrib.training.NextQueuedSequenceBatch")
class NextQueuedSequenceBatch:
    """The next segments of a :class:`SequenceQueueingStateSaver`, one for each row of a batch.

    Args:
        state_saver: the state saver.
    """

    def __init__(self, state_saver: SequenceQueueingStateSaver) -> None:
        self._saver = state_saver
        index, key, values = state_saver.barrier.take_many(
            state_saver.batch_size, state_saver._allow_small_batch, name="BarrierTakeMany"
        )
        given = dict(zip(state_saver._places, values, strict=True))
        self._index, self._key = index, key
        self._facts = {name: given[name] for name in _FACTS}
        self._sequences = {name: given[f"__sequence__{name}"] for name in state_saver._sequences}
        self._context = {name: given[f"__context__{name}"] for name in state_saver._context}
        self._done = self.sequence + 1 >= self.sequence_count
        finished = tf.reduce_sum(tf.cast(self._done, tf.int32))
        with tf.control_dependencies([state_saver._tokens.dequeue_many(finished)]):
            self._states = {name: tf.identity(given[f"__state__{name}"]) for name in state_saver._states}
        for name, own in state_saver._maps.items():
            if name in self._sequences:
                self._sequences[name] = self._taken_steps(self._sequences[name], own)
            else:
                taken = take_sparse(self._context[name], own.dtype, own.name, own.rank)
                self._context[name] = taken

    def _taken_steps(self, steps: Any, own: _Map) -> Any:
        """A sparse sequence ``[batch, num_unroll, ...]`` of the numbers ``[batch, num_unroll]`` of its steps."""
        flat = take_sparse(tf.reshape(steps, [-1]), own.dtype, own.name)
        unroll = tf.constant(self._saver.num_unroll, tf.int64)
        row = tf.expand_dims(flat.indices[:, 0], 1)
        indices = tf.concat([row // unroll, row % unroll, flat.indices[:, 1:]], 1)
        lead = tf.cast(tf.shape(steps), tf.int64)
        return tf.SparseTensor(indices, flat.values, tf.concat([lead, flat.dense_shape[1:]], 0))

    total_length = property(
        lambda self: self._facts["__total_length"], doc="Lengths of the whole sequences ``[batch]``."
    )
    length = property(lambda self: self._facts["__length"], doc="Lengths of the segments ``[batch]``, 0 for padding.")
    batch_size = property(lambda self: tf.squeeze(tf.shape(self.length)), doc="How many segments there are, a scalar.")
    insertion_index = property(lambda self: self._index, doc="When the sequences came ``[batch]``, from -2**63 on.")
    key = property(lambda self: self._key, doc="Keys of the segments ``[batch]``.")
    next_key = property(lambda self: self._facts["__next_key"], doc="Keys of the next segments, or ``STOP:...``.")
    sequence = property(lambda self: self._facts["__sequence"], doc="Numbers of the segments ``[batch]``, from 0 on.")
    sequence_count = property(lambda self: self._facts["__sequence_count"], doc="Numbers of segments of the sequences.")
    context = property(lambda self: self._context, doc="Context by name ``[batch, ...]``.")
    sequences = property(lambda self: self._sequences, doc="Steps by name ``[batch, num_unroll, ...]``.")

    def state(self, state_name: str) -> Any:
        """A state that the segments begin with ``[batch, ...]``."""
        return self._states[state_name]

    def save_state(self, state_name: str, value: Any, name: str | None = None) -> Any:
        """An operation that saves a state ``[batch, ...]`` for the segments that follow.

        Raises:
            KeyError: there is no such state.
        """
        if state_name not in self._states:
            raise KeyError(f"state was not declared: {state_name}")
        with tf.name_scope(name, "InputQueueingStateSaver_SaveState", [value]):
            going = tf.reshape(tf.where(tf.logical_not(self._done)), [-1])
            state = self._states[state_name]
            value = tf.identity(tf.convert_to_tensor(value, state.dtype), name=f"convert_{state_name}")
            given, rank = value.name, tf.rank(state)
            text = _text(f"Rank of tensor {given} should be: ", rank, ", shape received:")
            value = _checked(tf.equal(tf.rank(value), rank), value, text, tf.shape(value))
            try:
                value.set_shape(value.get_shape().with_rank(state.get_shape().ndims))
            except ValueError as problem:
                raise ValueError(f"Rank check failed for {given}: {problem}") from problem
            value.get_shape().assert_is_compatible_with(state.get_shape())
            same = tf.reduce_all(tf.equal(tf.shape(value), tf.shape(state)))
            text = _text(f"Shape of tensor {given} should be that of state {state_name}. Given, expected:")
            value = _checked(same, value, text, tf.shape(value), tf.shape(state))
            value.set_shape(state.get_shape())
            return self._saver.barrier.insert_many(
                self._saver._places.index(f"__state__{state_name}"),
                tf.gather(self.next_key, going),
                tf.gather(value, going),
                name=f"BarrierInsertState_{state_name}",
            )


@public("contrib.training.SequenceQueueingStateSaver")
class SequenceQueueingStateSaver:
    """Cut sequences into segments, and hand the state from each to the next, for training through truncated time.

    ``prefetch_op`` puts in one sequence; ``next_batch`` takes the next segments that can be computed.

    Args:
        batch_size: segments of a batch.
        num_unroll: steps of a segment.
        input_length: int32 scalar, steps of the sequence, at most those of ``input_sequences``.
        input_key: string scalar, the name of the sequence, of which no other under way has the same.
        input_sequences: tensors ``[padded length, ...]`` by name; the length is a multiple of ``num_unroll``.
        input_context: tensors by name that belong to the whole sequence.
        initial_states: states that a sequence begins with, by name.
        capacity: sequences that are under way at most; None for no bound.
        allow_small_batch: be content with fewer segments once it is closed.
        name: name of the operations.

    Raises:
        TypeError: dictionaries, names or dtypes that do not fit. ValueError: shapes that are not known, no sequence or
            state, or a capacity below the size of a batch.
    """

    def __init__(
        self,
        batch_size: Any,
        num_unroll: Any,
        input_length: Any,
        input_key: Any,
        input_sequences: Mapping[str, Any],
        input_context: Mapping[str, Any],
        initial_states: Mapping[str, Any],
        capacity: int | None = None,
        allow_small_batch: bool = False,
        name: str | None = None,
    ) -> None:
        if capacity is not None and not isinstance(batch_size, tf.Tensor) and capacity < batch_size:
            raise ValueError(
                f"capacity {capacity} needs to be >= batch_size {batch_size}\n"
                + errors.message(f"capacity={capacity}", f"{batch_size} at least", f"capacity={batch_size}")
            )
        if capacity is not None and isinstance(batch_size, tf.Tensor):
            enough = tf.cast(batch_size, tf.int64) <= tf.cast(capacity, tf.int64)
            told = ("capacity needs to be >= batch_size.", capacity, batch_size)
            input_key = _checked(enough, tf.convert_to_tensor(input_key), *told)
        for what, given in (("input_sequences", input_sequences), ("input_context", input_context)):
            _check_names(what.removeprefix("input_"), given)
        _check_names("state", initial_states)
        self._tokens = tf.FIFOQueue(-1 if capacity is None else capacity, [tf.int32], [[]])
        with tf.name_scope(name, "InputQueueingStateSaver", [input_length, input_key]) as scope:
            self._name = scope
            self._maps: dict[str, _Map] = {}
            self._batch_size, self._num_unroll, self._allow_small_batch = batch_size, num_unroll, allow_small_batch
            self._length = _scalar(input_length, tf.int32, "length")
            self._input_key = _scalar(input_key, tf.string, "key")
            self._states = _tensors("state", initial_states, 0)
            self._context = {
                k: v if _is_sparse(v) else _tensors("context", {k: v}, 0)[k] for k, v in _sorted(input_context)
            }
            self._sequences = {k: self._as_steps(k, v) for k, v in _sorted(input_sequences)}
            self._check_lengths()
            self._places = [
                *_FACTS,
                *(f"__sequence__{name}" for name in self._sequences),
                *(f"__context__{name}" for name in self._context),
                *(f"__state__{name}" for name in self._states),
            ]
            self._barrier = self._made_barrier()
        self._prefetch: Any = None
        self._next: NextQueuedSequenceBatch | None = None

    def _as_steps(self, name: str, value: Any) -> Any:
        if not _is_sparse(value):
            return _tensors("sequence", {name: value}, 1)[name]
        value = tf.convert_to_tensor_or_sparse_tensor(value)
        own = self._maps[name] = _Map(value, None)
        return add_sparse(value, True, own.name)

    def _check_lengths(self) -> None:
        """Make the sequences fail when they are computed if their lengths do not fit."""
        padded = tf.shape(next(iter(self._sequences.values())))[0]
        fits = tf.logical_and(tf.equal(padded % self._num_unroll, 0), tf.not_equal(padded, 0))
        text = _text(f"Tensor {padded.name} should be a multiple of: ", self._num_unroll, ", but saw value: ", padded)
        padded = _checked(fits, padded, _text(text, ". Consider setting pad=True."))
        for name, value in self._sequences.items():
            own = tf.shape(value)[0]
            text = _text(
                f"Dimension 0 of tensor labeled sorted_sequences_{name} should be: ", padded, ", shape received: ", own
            )
            self._sequences[name] = _checked(tf.equal(own, padded), value, text)
        short = self._length <= padded
        too_long = ("Input length should be <= than length from sequences:", self._length, " vs. ", padded)
        self._length, self._padded = _checked(short, self._length, *too_long), padded
        # The key goes with each insertion, so nothing is put in of a sequence that does not fit.
        self._input_key = with_dependencies([self._length, *self._sequences.values()], self._input_key)

    def _made_barrier(self) -> Barrier:
        known = None if isinstance(self._num_unroll, tf.Tensor) else self._num_unroll
        types = [tf.int32, tf.int32, tf.string, tf.int32, tf.int32]
        shapes: list[Any] = [[] for _ in types]
        for value in self._sequences.values():
            types.append(value.dtype)
            shapes.append([known, *value.get_shape().as_list()[1:]])
        for value in self._context.values():
            types.append(tf.int64 if _is_sparse(value) else value.dtype)
            shapes.append([] if _is_sparse(value) else value.get_shape().as_list())
        for value in self._states.values():
            types.append(value.dtype)
            shapes.append(value.get_shape().as_list())
        return Barrier(types, shapes)

    name = property(lambda self: self._name, doc="The scope of its operations.")
    barrier = property(lambda self: self._barrier, doc="The barrier that holds the segments.")
    batch_size = property(lambda self: self._batch_size, doc="Segments of a batch.")
    num_unroll = property(lambda self: self._num_unroll, doc="Steps of a segment.")

    @property
    def prefetch_op(self) -> Any:
        """The operation that puts in one sequence; it waits while ``capacity`` are under way."""
        if self._prefetch is None:
            with tf.name_scope(self._name):
                self._prefetch = self._made_prefetch()
        return self._prefetch

    @property
    def next_batch(self) -> NextQueuedSequenceBatch:
        """The next segments, the same ones for all that a step computes of them."""
        _ = self.prefetch_op
        if self._next is None:
            with tf.name_scope(self._name):
                self._next = NextQueuedSequenceBatch(self)
        return self._next

    def close(self, cancel_pending_enqueues: bool = False, name: str | None = None) -> Any:
        """An operation that closes it: no sequences go in any more; those under way can be finished."""
        with tf.name_scope(name, "SQSSClose") as scope:
            barrier = self._barrier.close(cancel_pending_enqueues, "BarrierClose")
            tokens = self._tokens.close(cancel_pending_enqueues, "FIFOClose")
            return tf.group(barrier, tokens, name=scope)

    def _made_prefetch(self) -> Any:
        count = self._padded // self._num_unroll
        segments = tf.range(count)
        ones = tf.ones_like(segments)
        numbered = [tf.as_string(part, width=5, fill="0") for part in (segments, count)]
        keys = tf.string_join([numbered[0], "_of_", numbered[1], ":", self._input_key])
        stop = tf.expand_dims(tf.string_join(["STOP:", self._input_key]), 0)
        values: dict[str, Any] = {
            "__sequence": segments,
            "__sequence_count": count * ones,
            "__next_key": tf.concat([keys[1:], stop], 0),
            "__length": tf.minimum(self._num_unroll, tf.maximum(0, self._length - self._num_unroll * segments)),
            "__total_length": self._length * ones,
        }
        for name, value in self._sequences.items():
            rest = value.get_shape().as_list()[1:]
            values[f"__sequence__{name}"] = tf.reshape(
                value,
                tf.concat([[count], [self._num_unroll], rest], 0) if rest else tf.stack([count, self._num_unroll]),
            )
        for name, value in self._context.items():
            values[f"__context__{name}"] = self._for_each_segment(name, value, count)
        inserts = [self._insert(name, keys, value) for name, value in values.items()]
        token = self._tokens.enqueue((tf.constant(0),))
        with tf.control_dependencies([*inserts, token]):
            # The first segment begins with the initial states, the others when the one before has saved its own.
            first = [
                self._insert(f"__state__{name}", keys[:1], tf.expand_dims(value, 0))
                for name, value in self._states.items()
            ]
        return tf.group(*inserts, token, *first, name="StateSaverPrefetchGroup")

    def _insert(self, name: str, keys: Any, value: Any) -> Any:
        return self._barrier.insert_many(self._places.index(name), keys, value)

    def _for_each_segment(self, name: str, value: Any, count: Any) -> Any:
        """A context once for each segment; of a sparse one, the numbers of its copies in a map."""
        if not _is_sparse(value):
            return tf.tile(
                tf.expand_dims(value, 0),
                tf.concat([[count], [1] * value.get_shape().ndims], 0)
                if value.get_shape().ndims
                else tf.expand_dims(count, 0),
            )
        value = tf.convert_to_tensor_or_sparse_tensor(value)
        rank = value.dense_shape.get_shape()[0].value
        own = self._maps[name] = _Map(value, None if rank is None else rank + 1)
        entries = tf.shape(value.values)[0]
        rows = tf.reshape(tf.tile(tf.expand_dims(tf.range(count), 1), tf.stack([1, entries])), [-1, 1])
        indices = tf.concat([tf.cast(rows, tf.int64), tf.tile(value.indices, tf.stack([count, 1]))], 1)
        shape = tf.concat([tf.cast(tf.expand_dims(count, 0), tf.int64), value.dense_shape], 0)
        copies = tf.SparseTensor(indices, tf.tile(value.values, tf.expand_dims(count, 0)), shape)
        return add_sparse(copies, True, own.name)


def _sorted(tensors: Mapping[str, Any]) -> list[tuple[str, Any]]:
    return sorted(tensors.items())


def _check_names(what: str, tensors: Any) -> None:
    if not isinstance(tensors, Mapping):
        raise TypeError(
            f"{'initial_states' if what == 'state' else what} must be a dict\n"
            + errors.message(f"{type(tensors).__name__}", "a dictionary from names to tensors", f'{{"{what}": x}}')
        )
    if not tensors and what != "context":
        raise ValueError(
            ("must have at least one sequence tensor\n" if what == "sequences" else "initial_states may not be empty\n")
            + errors.message("an empty dictionary", f"one {what} at least", f'{{"{what}": x}}')
        )
    for name in tensors:
        if not isinstance(name, str):
            raise TypeError(f"{what} name must be a string: {name}")
        if ":" in name:
            raise ValueError(f"{what} name may not have a colon: '{name}'")


def _tensors(what: str, tensors: Mapping[str, Any], start: int) -> dict[str, Any]:
    """Tensors in the order of their names, whose shapes from dimension ``start`` on must be known."""
    converted = {name: tf.convert_to_tensor(value, name=f"{what}_{name}") for name, value in _sorted(tensors)}
    for name, tensor in converted.items():
        if not tensor.get_shape()[start:].is_fully_defined():
            raise ValueError(
                f"Shape for {what} {name} is not fully defined{' (ignoring first dimension)' if start else ''}: "
                f"{tensor.get_shape()}\n"
                + errors.message(f"shape {tensor.get_shape()}", "known sizes", "tf.ensure_shape(x, shape)")
            )
    return converted


def _scalar(value: Any, dtype: Any, what: str) -> Any:
    tensor = tf.convert_to_tensor(value)
    if tensor.dtype != dtype:
        raise TypeError(
            f"{what} dtype must be {dtype.name}, but received: {tensor.dtype}\n"
            + errors.message(f"{what} of dtype {tensor.dtype.name}", dtype.name, f"tf.cast(x, tf.{dtype.name})")
        )
    if tensor.get_shape().ndims not in (None, 0):
        raise ValueError(
            f"Rank check failed for {tensor.name}\n"
            + errors.message(f"{what} of shape {tensor.get_shape()}", "a scalar", "tf.reshape(x, [])")
        )
    tensor = _checked(
        tf.equal(tf.rank(tensor), 0), tensor, f"The {what} should be a scalar, shape received:", tf.shape(tensor)
    )
    tensor.set_shape([])
    return tensor


def padded(sequences: Mapping[str, Any], num_unroll: int) -> tuple[Any, dict[str, Any]]:
    """The length of sequences, and the sequences with zeros (empty strings) up to a multiple of ``num_unroll``.

    Raises:
        ValueError: ``num_unroll`` is not an integer. TypeError: not a dictionary from strings.
    """
    if not isinstance(num_unroll, numbers.Integral):
        raise ValueError(f"Unsupported num_unroll expected int, got: {num_unroll}")
    if not isinstance(sequences, Mapping):
        raise TypeError(f"Unsupported sequences expected dict, got: {sequences}")
    for name in sequences:
        if not isinstance(name, str):
            raise TypeError(f"Unsupported sequences key expected string, got: {name}")
    if not sequences:
        return 0, {}
    tensors = {k: tf.convert_to_tensor_or_sparse_tensor(v) for k, v in _sorted(sequences)}
    dense = [tf.shape(value)[0] for value in tensors.values() if not _is_sparse(value)]
    if dense:
        text = "All sequence lengths must match, but received lengths:"
        length = with_dependencies(
            [tf.Assert(tf.equal(own, dense[0]), [text, own, dense[0]]) for own in dense], dense[0]
        )
    else:
        length = tf.cast(tf.reduce_max(tf.stack([value.dense_shape[0] for value in tensors.values()])), tf.int32)
    whole = length + (num_unroll - length % num_unroll) % num_unroll
    result = {}
    for name, value in tensors.items():
        if _is_sparse(value):
            shape = tf.concat([tf.cast(tf.expand_dims(whole, 0), tf.int64), value.dense_shape[1:]], 0)
            result[name] = tf.SparseTensor(value.indices, value.values, shape)
        else:
            rest = tf.concat([tf.expand_dims(whole - tf.shape(value)[0], 0), tf.shape(value)[1:]], 0)
            nothing = tf.constant("" if value.dtype == tf.string else 0, value.dtype)
            result[name] = tf.concat([value, tf.fill(rest, nothing)], 0)
    return length, result


@public("contrib.training.batch_sequences_with_states")
def batch_sequences_with_states(
    input_key: Any,
    input_sequences: Mapping[str, Any],
    input_context: Mapping[str, Any],
    input_length: Any,
    initial_states: Mapping[str, Any],
    num_unroll: int,
    batch_size: Any,
    num_threads: int = 3,
    capacity: int | None = 1000,
    allow_small_batch: bool = True,
    pad: bool = True,
    make_keys_unique: bool = False,
    make_keys_unique_seed: int | None = None,
    name: str | None = None,
) -> NextQueuedSequenceBatch:
    """Batches of segments of sequences, which threads put in; see :class:`SequenceQueueingStateSaver`.

    Args:
        input_key: string scalar, the name of a sequence.
        input_sequences: tensors ``[length, ...]`` by name, also sparse ones.
        input_context: tensors by name that belong to the whole sequence, also sparse ones.
        input_length: int32 scalar, or None for that of the sequences.
        initial_states: states that a sequence begins with, by name.
        num_unroll: steps of a segment.
        batch_size: segments of a batch.
        num_threads: how many threads put sequences in.
        capacity: sequences that are under way at most.
        allow_small_batch: be content with fewer segments at the end.
        pad: pad sequences to a multiple of ``num_unroll``; otherwise they must have such a length.
        make_keys_unique: add a random number to keys.
        make_keys_unique_seed: seed of that number.
        name: name of the operations.
    """
    with tf.name_scope(name, "batch_sequences_with_states"):
        if pad:
            length, input_sequences = padded(input_sequences, num_unroll)
            input_length = length if input_length is None else input_length
        if make_keys_unique:
            number = tf.random_uniform([], 0, 100000000, tf.int32, seed=make_keys_unique_seed)
            input_key = tf.string_join([input_key, tf.as_string(number)])
        saver = SequenceQueueingStateSaver(
            batch_size,
            num_unroll,
            input_length,
            input_key,
            input_sequences,
            input_context,
            initial_states,
            capacity,
            allow_small_batch,
        )
        ready = tf.cast(saver.barrier.ready_size(), tf.float32)
        tf.summary.scalar(f"queue/{saver.barrier.name}/ready_segment_batches_", ready)
        ends = (tf.errors.OutOfRangeError, tf.errors.CancelledError)
        tf.train.add_queue_runner(
            tf.train.QueueRunner(saver, [saver.prefetch_op] * num_threads, queue_closed_exception_types=ends)
        )
        return saver.next_batch
