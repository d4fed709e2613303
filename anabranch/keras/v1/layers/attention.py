"""Attention of queries to values."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1.layer import registry
from anabranch.keras.v1.layers.config import Configured


class _Attention(Configured):
    def __init__(self, causal: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(causal=causal)
        self.supports_masking = True

    def _scores(self, query: Any, key: Any) -> Any:
        raise NotImplementedError

    def call(self, inputs: Any, mask: Any = None) -> Any:
        """Compute the outputs.

        Args:
            inputs: query ``[batch, queries, features]``, value ``[batch, values, features]`` and, if it is not the
            value,
                key.
            mask: masks of query and value.
        """
        if not isinstance(inputs, (list, tuple)) or not 2 <= len(inputs) <= 3:
            raise ValueError(
                f"{type(self).__name__} layer must be called on a list of inputs, namely [query, "
                "value] or [query, value, "
                "key].\n" + errors.message(f"{inputs}", "a list of two or three tensors", "Attention()([query, value])")
            )
        query, value = inputs[0], inputs[1]
        key = inputs[2] if len(inputs) > 2 else value
        scores = self._scores(query, key)
        allowed: Any = None
        if mask is not None and len(mask) > 1 and mask[1] is not None:
            allowed = tf.expand_dims(mask[1], 1)
        if self.causal:
            sizes = tf.shape(scores)
            lower = tf.matrix_band_part(tf.ones(tf.stack([1, sizes[1], sizes[2]])), -1, 0) > 0
            allowed = lower if allowed is None else tf.logical_and(allowed, lower)
        if allowed is not None:
            scores -= 1e9 * tf.cast(tf.logical_not(allowed), scores.dtype)
        result = tf.matmul(tf.nn.softmax(scores), value)
        if mask is not None and mask[0] is not None:
            result = result * tf.cast(tf.expand_dims(mask[0], -1), result.dtype)
        return result

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Mask of the outputs: that of the query."""
        return None if mask is None else mask[0]

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        return tf.TensorShape([*K.dims(input_shape[0])[:-1], K.dims(input_shape[1])[-1]])


@registry.add()
class Attention(_Attention):
    """Attention by products of queries and keys (Luong et al., 2015)."""

    def __init__(self, use_scale: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(use_scale=use_scale)

    def build(self, input_shape: Any) -> None:
        """Make the scale."""
        self.scale = self.add_weight("scale", (), initializer="ones") if self.use_scale else None
        self.built = True

    def _scores(self, query: Any, key: Any) -> Any:
        scores = tf.matmul(query, key, transpose_b=True)
        return scores if self.scale is None else scores * self.scale


@registry.add()
class AdditiveAttention(_Attention):
    """Attention by sums of queries and keys (Bahdanau et al., 2015)."""

    def __init__(self, use_scale: bool = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self._keep(use_scale=use_scale)

    def build(self, input_shape: Any) -> None:
        """Make the scale."""
        size = K.dims(input_shape[1])[-1]
        self.scale = self.add_weight("scale", (size,), initializer="glorot_uniform") if self.use_scale else None
        self.built = True

    def _scores(self, query: Any, key: Any) -> Any:
        mixed = tf.tanh(tf.expand_dims(query, 2) + tf.expand_dims(key, 1))
        return tf.reduce_sum(mixed if self.scale is None else mixed * self.scale, -1)
