"""Vectors of numbers of words."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1.layer import registry
from anabranch.keras.v1.layers.config import Configured


@registry.add()
class Embedding(Configured):
    """Rows of a table by their numbers.

    Args:
        input_dim, output_dim: number of rows, and their size.
        embeddings_initializer, embeddings_regularizer, embeddings_constraint: of the table.
        activity_regularizer: what is added to the loss for the outputs.
        mask_zero: number 0 is masked.
        input_length: length of the sequences, if it is known.
    """

    def __init__(
        self,
        input_dim: int,
        output_dim: int,
        embeddings_initializer: Any = "uniform",
        embeddings_regularizer: Any = None,
        activity_regularizer: Any = None,
        embeddings_constraint: Any = None,
        mask_zero: bool = False,
        input_length: Any = None,
        **kwargs: Any,
    ) -> None:
        if "input_shape" not in kwargs and "batch_input_shape" not in kwargs:
            lengths = list(input_length) if isinstance(input_length, (list, tuple)) else [input_length]
            kwargs["input_shape"] = tuple(lengths)
        kwargs.setdefault("dtype", None)
        super().__init__(**kwargs)
        self._keep(
            input_dim=input_dim,
            output_dim=output_dim,
            embeddings_initializer=embeddings_initializer,
            embeddings_regularizer=embeddings_regularizer,
            activity_regularizer=activity_regularizer,
            embeddings_constraint=embeddings_constraint,
            mask_zero=mask_zero,
            input_length=input_length,
        )
        self.supports_masking = mask_zero

    def build(self, input_shape: Any) -> None:
        """Make the table."""
        self.embeddings = self.add_weight(
            "embeddings",
            (self.input_dim, self.output_dim),
            initializer=self.embeddings_initializer,
            regularizer=self.embeddings_regularizer,
            constraint=self.embeddings_constraint,
        )
        self.built = True

    def compute_mask(self, inputs: Any, mask: Any = None) -> Any:
        """Mask of the outputs."""
        return tf.not_equal(inputs, 0) if self.mask_zero else None

    def call(self, inputs: Any) -> Any:
        """Compute the outputs."""
        if inputs.dtype.base_dtype not in (tf.int32, tf.int64):
            inputs = tf.cast(inputs, tf.int32)
        return tf.nn.embedding_lookup(self.embeddings, inputs)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """Shape of the outputs."""
        sizes = list(K.dims(input_shape))
        if self.input_length is not None:
            given = self.input_length
            lengths = list(given) if isinstance(given, (list, tuple)) else [given]
            sizes[1:] = [a if a is not None else b for a, b in zip(sizes[1:], lengths, strict=True)]
        return tf.TensorShape([*sizes, self.output_dim])
