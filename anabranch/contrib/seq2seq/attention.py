"""Attention mechanisms: how much of each step of a memory a query takes.

A mechanism has ``keys`` and ``values`` made of a memory ``[batch, time, depth]`` once; called with a query
``[batch, units]`` and its state it returns alignments ``[batch, time]`` and the next state. Steps of the memory past
``memory_sequence_length`` are zeros in the values, and their scores are ``score_mask_value``.

The monotonic forms are those of Raffel et al. 2017 (arXiv:1704.00784).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.random_seed import count_more
from anabranch.core.values import nest


@public("contrib.seq2seq.hardmax")
def hardmax(logits: Any, name: str | None = None) -> Any:
    """1 at the greatest logit of the last dimension, 0 elsewhere.

    Example:
        >>> import anabranch as tf
        >>> print(tf.Session().run(tf.contrib.seq2seq.hardmax([[0.1, 3.0, 2.0]])))
        [[0. 1. 0.]]
    """
    with tf.name_scope(name, "Hardmax", [logits]):
        logits = tf.convert_to_tensor(logits, name="logits")
        depth = logits.shape[-1].value if logits.shape.ndims is not None else None
        depth = tf.shape(logits)[-1] if depth is None else depth
        return tf.one_hot(tf.argmax(logits, -1), depth, dtype=logits.dtype)


@public("contrib.seq2seq.safe_cumprod")
def safe_cumprod(x: Any, *args: Any, **kwargs: Any) -> Any:
    """Cumulative product of numbers in [0, 1] as ``exp(cumsum(log(x)))``, whose gradient is finite at 0.

    Args:
        x: numbers in [0, 1].
        args: as for `tf.cumsum`.
        kwargs: as for `tf.cumsum`.
    """
    with tf.name_scope(None, "SafeCumprod", [x]):
        x = tf.convert_to_tensor(x, name="x")
        tiny = np.finfo(x.dtype.as_numpy_dtype).tiny
        return tf.exp(tf.cumsum(tf.log(tf.clip_by_value(x, tiny, 1)), *args, **kwargs))


@public("contrib.seq2seq.monotonic_attention")
def monotonic_attention(p_choose_i: Any, previous_attention: Any, mode: str) -> Any:
    """The distribution of a place that moves forward only: it goes on until a place is chosen.

    Args:
        p_choose_i: how probable a place is to be chosen when it is reached, ``[batch, time]``.
        previous_attention: the distribution of the last place, ``[batch, time]``.
        mode: ``"recursive"`` (a loop), ``"parallel"`` (cumulative sums and products, not exact where probabilities are
            near 0 or 1), or ``"hard"`` (probabilities and the last place are 0 or 1).

    Returns:
        ``[batch, time]``.
    """
    p = tf.convert_to_tensor(p_choose_i, name="p_choose_i")
    previous = tf.convert_to_tensor(previous_attention, name="previous_attention")
    if mode == "recursive":
        stays = tf.concat([tf.ones_like(p[:, :1]), 1 - p[:, :-1]], 1)
        reached = tf.scan(
            lambda mass, step: step[0] * mass + step[1],
            (tf.transpose(stays), tf.transpose(previous)),
            initializer=tf.zeros_like(p[:, 0]),
        )
        attention = p * tf.transpose(reached)
        attention.set_shape(p.shape)
        return attention
    if mode == "parallel":
        stays = safe_cumprod(1 - p, axis=1, exclusive=True)
        return p * stays * tf.cumsum(previous / tf.clip_by_value(stays, 1e-10, 1.0), axis=1)
    if mode == "hard":
        from_here = p * tf.cumsum(previous, axis=1)
        return from_here * tf.cumprod(1 - from_here, axis=1, exclusive=True)
    raise ValueError(
        "mode must be 'recursive', 'parallel', or 'hard'.\n"
        + errors.message(f"mode={mode!r}", "one of these modes", "mode='parallel'")
    )


def _monotonic_probability(score: Any, previous: Any, sigmoid_noise: float, mode: str, seed: int | None = None) -> Any:
    """Alignments of a monotonic mechanism from scores; noise (in training) makes them near 0 or 1."""
    count_more(1)
    if sigmoid_noise > 0:
        score = score + sigmoid_noise * tf.random_normal(tf.shape(score), dtype=score.dtype, seed=seed)
    p = tf.cast(score > 0, score.dtype) if mode == "hard" else tf.sigmoid(score)
    return monotonic_attention(p, previous, mode)


@public("contrib.seq2seq.AttentionMechanism")
class AttentionMechanism:
    """Base of attention mechanisms."""

    @property
    def alignments_size(self) -> Any:
        """Number of steps of the memory."""
        raise NotImplementedError(
            errors.message(
                f"{type(self).__name__} without alignments_size",
                "a mechanism that defines alignments_size",
                "a property alignments_size in the class",
            )
        )

    @property
    def state_size(self) -> Any:
        """Size of the state."""
        raise NotImplementedError(
            errors.message(
                f"{type(self).__name__} without state_size",
                "a mechanism that defines state_size",
                "a property state_size in the class",
            )
        )


def masked(x: Any, lengths: Any, value: Any, time_axis: int = 1) -> Any:
    """``x`` with a value past each length; ``lengths`` may be None."""
    if lengths is None:
        return x
    mask = tf.sequence_mask(lengths, tf.shape(x)[time_axis])
    for _ in range((x.shape.ndims or 2) - 2):
        mask = tf.expand_dims(mask, -1)
    masked_values = tf.where_v2(mask, x, tf.cast(value, x.dtype))
    masked_values.set_shape(x.shape)
    return masked_values


def _prepared(memory: Any, lengths: Any, check_inner_dims: bool) -> Any:
    memory = nest.map_structure(lambda m: tf.convert_to_tensor(m, name="memory"), memory)

    def check(item: Any) -> None:
        if item.shape.ndims is None or (check_inner_dims and not item.shape[2:].is_fully_defined()):
            raise ValueError(
                f"Expected memory {item.name} to have fully defined inner dims, but saw shape: {item.shape}\n"
                + errors.message(
                    f"shape {item.shape}",
                    "[batch, time, depth] with a known depth",
                    "memory.set_shape([None, None, depth])",
                )
            )

    nest.map_structure(check, memory)
    return nest.map_structure(lambda item: masked(item, lengths, 0), memory)


class BaseAttentionMechanism(AttentionMechanism):
    """Keys and values of a memory, and how scores become alignments; ``_BaseAttentionMechanism`` of programs.

    Args:
        query_layer: layer for queries; they are used as they are if None.
        memory: ``[batch, time, depth]``, or a structure of such tensors for ``custom_key_value_fn``.
        probability_fn: function of scores and the last state that gives alignments.
        memory_sequence_length: int ``[batch]``.
        memory_layer: layer that makes keys of values; values are the keys if None.
        check_inner_dims_defined: whether the depth of the memory must be known.
        score_mask_value: score past the end of the memory; minus infinity if None.
        custom_key_value_fn: function from ``(keys, values)`` to those that are used.
        name: name of the scope.
    """

    def __init__(
        self,
        query_layer: Any,
        memory: Any,
        probability_fn: Callable[[Any, Any], Any],
        memory_sequence_length: Any = None,
        memory_layer: Any = None,
        check_inner_dims_defined: bool = True,
        score_mask_value: Any = None,
        custom_key_value_fn: Callable[..., Any] | None = None,
        name: str | None = None,
    ) -> None:
        for argument, layer in (("query_layer", query_layer), ("memory_layer", memory_layer)):
            if layer is not None and not isinstance(layer, tf.layers.Layer):
                raise TypeError(
                    f"{argument} is not a Layer: {type(layer).__name__}\n"
                    + errors.message(f"{layer!r}", "a layer, or None", "tf.layers.Dense(units, use_bias=False)")
                )
        if not callable(probability_fn):
            raise TypeError(
                f"probability_fn must be callable, saw type: {type(probability_fn).__name__}\n"
                + errors.message(f"{probability_fn!r}", "a function of scores", "probability_fn=tf.nn.softmax")
            )
        self._query_layer = query_layer
        self._memory_layer = memory_layer
        self.dtype = (memory_layer or query_layer).dtype if memory_layer or query_layer else None
        self._name = name
        mask_value = -np.inf if score_mask_value is None else score_mask_value
        if memory_sequence_length is not None:
            memory_sequence_length = tf.convert_to_tensor(memory_sequence_length, name="memory_sequence_length")
            there = tf.assert_positive(
                memory_sequence_length, message="All values in memory_sequence_length must greater than zero."
            )
            count_more(-8)  # TensorFlow checks at each score instead, and masks by products of more operations
            with tf.control_dependencies([there]):
                memory_sequence_length = tf.identity(memory_sequence_length)
        self._memory_sequence_length = memory_sequence_length
        self._probability_fn = lambda score, previous: probability_fn(self._past_the_end(score, mask_value), previous)
        with tf.name_scope(name, "BaseAttentionMechanismInit", nest.flatten(memory)):
            self._values = _prepared(memory, memory_sequence_length, check_inner_dims_defined)
            self._keys = self._values if memory_layer is None else memory_layer(self._values)
            if custom_key_value_fn is not None:
                self._keys, self._values = custom_key_value_fn(self._keys, self._values)
            first = nest.flatten(self._keys)[0]
            self._batch_size = first.shape[0].value or tf.shape(first)[0]
            self._alignments_size = first.shape[1].value or tf.shape(first)[1]

    @property
    def memory_layer(self) -> Any:
        """Layer that makes the keys, or None."""
        return self._memory_layer

    @property
    def query_layer(self) -> Any:
        """Layer for queries, or None."""
        return self._query_layer

    @property
    def values(self) -> Any:
        """The memory with zeros past the end, ``[batch, time, depth]``."""
        return self._values

    @property
    def keys(self) -> Any:
        """What queries are compared with, ``[batch, time, units]``."""
        return self._keys

    @property
    def batch_size(self) -> Any:
        """Number of sequences, a number or a tensor."""
        return self._batch_size

    @property
    def alignments_size(self) -> Any:
        return self._alignments_size

    @property
    def state_size(self) -> Any:
        return self._alignments_size

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """Alignments before the first step: zeros."""
        # The shape of the state, which TensorFlow computes.
        count_more(7 if isinstance(batch_size, int) else 5 if isinstance(self._alignments_size, int) else 6)
        alignments = tf.zeros([batch_size, self._alignments_size], dtype)
        return _as_alignments(alignments, batch_size, self._alignments_size)

    def initial_state(self, batch_size: Any, dtype: Any) -> Any:
        """The state before the first step."""
        return self.initial_alignments(batch_size, dtype)

    def _past_the_end(self, score: Any, mask_value: Any) -> Any:
        count_more(15 * (self._memory_sequence_length is not None))  # the check of the lengths
        return masked(score, self._memory_sequence_length, mask_value)

    def _asked(self, query: Any) -> Any:
        return query if self._query_layer is None else self._query_layer(query)


def _as_alignments(alignments: Any, batch_size: Any, size: Any) -> Any:
    alignments.set_shape([n if isinstance(n, int) else None for n in (batch_size, size)])
    return alignments


def _dense(num_units: int, name: str, dtype: Any) -> Any:
    return tf.layers.Dense(num_units, name=name, use_bias=False, dtype=dtype or tf.float32)


def _luong_score(query: Any, keys: Any, scale: bool) -> Any:
    """Products of the query with each key (Luong et al. 2015, arXiv:1508.04025)."""
    depth, units = query.shape[-1].value, keys.shape[-1].value
    if depth != units:
        raise ValueError(
            "Incompatible or unknown inner dimensions between query and keys. "
            f"Query ({query.name}) has units: {depth}. Keys ({keys.name}) have units: {units}. "
            "Perhaps you need to set num_units to the keys' dimension?\n"
            + errors.message(f"a query of {depth} for keys of {units}", "one size", f"LuongAttention({depth}, ...)")
        )
    score = tf.squeeze(tf.matmul(tf.expand_dims(query, 1), keys, transpose_b=True), [1])
    if scale:
        gain = tf.get_variable("attention_g", dtype=query.dtype, initializer=tf.ones_initializer(), shape=())
        score = gain * score
    return score


def _bahdanau_score(query: Any, keys: Any, normalize: bool) -> Any:
    """``v . tanh(key + query)`` (Bahdanau et al. 2014, arXiv:1409.0473), ``v`` normalised as Salimans and Kingma 2016
    (arXiv:1602.07868) do if asked."""
    units, dtype = keys.shape[2].value, query.dtype
    v = tf.get_variable("attention_v", [units], dtype=dtype)
    if not normalize:
        query = tf.expand_dims(query, 1)
        return tf.reduce_sum(v * tf.tanh(keys + query), [2])
    start = tf.constant_initializer(float(np.sqrt(1.0 / units)), dtype=dtype)
    gain = tf.get_variable("attention_g", dtype=dtype, initializer=start, shape=())
    bias = tf.get_variable("attention_b", [units], dtype=dtype, initializer=tf.zeros_initializer())
    query = tf.expand_dims(query, 1)
    v = gain * v * tf.rsqrt(tf.reduce_sum(tf.square(v)))
    return tf.reduce_sum(v * tf.tanh(keys + query + bias), [2])


def _plain(probability_fn: Callable[[Any], Any] | None) -> Callable[[Any, Any], Any]:
    function = probability_fn or tf.nn.softmax
    return lambda score, _: function(score)


class _Scored(BaseAttentionMechanism):
    """A mechanism whose scores are made with variables of a scope of its own."""

    _scope = ""

    def _score(self, query: Any) -> Any:
        raise NotImplementedError(
            errors.message(type(self).__name__, "a mechanism with scores", "def _score(self, query): ... in the class")
        )

    def __call__(self, query: Any, state: Any) -> tuple[Any, Any]:
        """Alignments ``[batch, time]`` for a query ``[batch, depth]``, twice: they are the next state, too."""
        with tf.variable_scope(None, self._scope, [query]):
            alignments = self._probability_fn(self._score(query), state)
        return alignments, alignments


@public("contrib.seq2seq.LuongAttention")
class LuongAttention(_Scored):
    """Attention by products (Luong et al. 2015, arXiv:1508.04025).

    Args:
        num_units: depth of the keys and of the query.
        memory: ``[batch, time, depth]``, such as the outputs of an encoder.
        memory_sequence_length: int ``[batch]``; what lies past it is not attended to.
        scale: multiply scores by a trained number.
        probability_fn: function from scores to alignments; softmax if None.
        score_mask_value: score past the end of the memory; minus infinity if None.
        dtype: dtype of the layers; float32 if None.
        custom_key_value_fn: function from ``(keys, values)`` to those that are used.
        name: name of the scope.
    """

    _scope = "luong_attention"

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        probability_fn: Callable[[Any], Any] | None = None,
        score_mask_value: Any = None,
        dtype: Any = None,
        custom_key_value_fn: Callable[..., Any] | None = None,
        name: str = "LuongAttention",
    ) -> None:
        super().__init__(
            query_layer=None,
            memory_layer=_dense(num_units, "memory_layer", dtype),
            memory=memory,
            probability_fn=_plain(probability_fn),
            memory_sequence_length=memory_sequence_length,
            score_mask_value=score_mask_value,
            custom_key_value_fn=custom_key_value_fn,
            name=name,
        )
        self._num_units = num_units
        self._scale = scale

    def _score(self, query: Any) -> Any:
        return _luong_score(query, self._keys, self._scale)


@public("contrib.seq2seq.BahdanauAttention")
class BahdanauAttention(_Scored):
    """Attention by a hidden layer (Bahdanau et al. 2014, arXiv:1409.0473).

    Args:
        num_units: size of the hidden layer.
        memory: ``[batch, time, depth]``, such as the outputs of an encoder.
        memory_sequence_length: int ``[batch]``; what lies past it is not attended to.
        normalize: normalise the layer's weights, with a trained gain and bias.
        probability_fn: function from scores to alignments; softmax if None.
        score_mask_value: score past the end of the memory; minus infinity if None.
        dtype: dtype of the layers; float32 if None.
        custom_key_value_fn: function from ``(keys, values)`` to those that are used.
        name: name of the scope.
    """

    _scope = "bahdanau_attention"

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        probability_fn: Callable[[Any], Any] | None = None,
        score_mask_value: Any = None,
        dtype: Any = None,
        custom_key_value_fn: Callable[..., Any] | None = None,
        name: str = "BahdanauAttention",
    ) -> None:
        super().__init__(
            query_layer=_dense(num_units, "query_layer", dtype),
            memory_layer=_dense(num_units, "memory_layer", dtype),
            memory=memory,
            probability_fn=_plain(probability_fn),
            memory_sequence_length=memory_sequence_length,
            score_mask_value=score_mask_value,
            custom_key_value_fn=custom_key_value_fn,
            name=name,
        )
        self._num_units = num_units
        self._normalize = normalize

    def _score(self, query: Any) -> Any:
        return _bahdanau_score(self._asked(query), self._keys, self._normalize)


class _Monotonic(_Scored):
    """A mechanism that begins at the first step of the memory and moves forward only; see its kinds."""

    def __init__(
        self,
        query_layer: Any,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any,
        score_mask_value: Any,
        noise: tuple[float, int | None],
        score_bias_init: float,
        mode: str,
        dtype: Any,
        name: str,
    ) -> None:
        super().__init__(
            query_layer=query_layer,
            memory_layer=_dense(num_units, "memory_layer", dtype),
            memory=memory,
            probability_fn=functools.partial(_monotonic_probability, sigmoid_noise=noise[0], mode=mode, seed=noise[1]),
            memory_sequence_length=memory_sequence_length,
            score_mask_value=score_mask_value,
            name=name,
        )
        self._num_units = num_units
        self._score_bias_init = score_bias_init

    def initial_alignments(self, batch_size: Any, dtype: Any) -> Any:
        """All at the first step of the memory."""
        alignments = tf.one_hot(tf.zeros([batch_size], tf.int32), self._alignments_size, dtype=dtype)
        return _as_alignments(alignments, batch_size, self._alignments_size)

    def _biased(self, score: Any) -> Any:
        start = tf.constant_initializer(self._score_bias_init)
        return score + tf.get_variable("attention_score_bias", shape=(), dtype=score.dtype, initializer=start)


@public("contrib.seq2seq.BahdanauMonotonicAttention")
class BahdanauMonotonicAttention(_Monotonic):
    """:class:`BahdanauAttention` that moves forward only (Raffel et al. 2017, arXiv:1704.00784).

    Args:
        num_units: size of the hidden layer.
        memory: ``[batch, time, depth]``.
        memory_sequence_length: int ``[batch]``.
        normalize: normalise the layer's weights.
        score_mask_value: score past the end of the memory; minus infinity if None.
        sigmoid_noise: standard deviation of noise added to scores; for training.
        sigmoid_noise_seed: seed of the noise.
        score_bias_init: first value of the trained number added to scores; below 0 for long memories.
        mode: of :func:`monotonic_attention`.
        dtype: dtype of the layers; float32 if None.
        name: name of the scope.
    """

    _scope = "bahdanau_monotonic_attention"

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        normalize: bool = False,
        score_mask_value: Any = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: int | None = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        name: str = "BahdanauMonotonicAttention",
    ) -> None:
        queries, noise = _dense(num_units, "query_layer", dtype), (sigmoid_noise, sigmoid_noise_seed)
        given = (num_units, memory, memory_sequence_length, score_mask_value, noise, score_bias_init, mode, dtype, name)
        super().__init__(queries, *given)
        self._normalize = normalize

    def _score(self, query: Any) -> Any:
        return self._biased(_bahdanau_score(self._asked(query), self._keys, self._normalize))


@public("contrib.seq2seq.LuongMonotonicAttention")
class LuongMonotonicAttention(_Monotonic):
    """:class:`LuongAttention` that moves forward only (Raffel et al. 2017, arXiv:1704.00784).

    Args:
        num_units: depth of the keys and of the query.
        memory: ``[batch, time, depth]``.
        memory_sequence_length: int ``[batch]``.
        scale: multiply scores by a trained number.
        score_mask_value: score past the end of the memory; minus infinity if None.
        sigmoid_noise: standard deviation of noise added to scores; for training.
        sigmoid_noise_seed: seed of the noise.
        score_bias_init: first value of the trained number added to scores; below 0 for long memories.
        mode: of :func:`monotonic_attention`.
        dtype: dtype of the layers; float32 if None.
        name: name of the scope.
    """

    _scope = "luong_monotonic_attention"

    def __init__(
        self,
        num_units: int,
        memory: Any,
        memory_sequence_length: Any = None,
        scale: bool = False,
        score_mask_value: Any = None,
        sigmoid_noise: float = 0.0,
        sigmoid_noise_seed: int | None = None,
        score_bias_init: float = 0.0,
        mode: str = "parallel",
        dtype: Any = None,
        name: str = "LuongMonotonicAttention",
    ) -> None:
        noise = sigmoid_noise, sigmoid_noise_seed
        given = (num_units, memory, memory_sequence_length, score_mask_value, noise, score_bias_init, mode, dtype, name)
        super().__init__(None, *given)
        self._scale = scale

    def _score(self, query: Any) -> Any:
        return self._biased(_luong_score(query, self._keys, self._scale))
