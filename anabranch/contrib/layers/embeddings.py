"""Embeddings of sequences of ids, and bags of words."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.contrib.framework.variables import model_variable
from anabranch.contrib.layers.shapes import dense_to_sparse_tensor
from anabranch.core import errors
from anabranch.core.contract.api import public
from anabranch.core.graph.operation import Tensor


@public("contrib.layers.embedding_lookup_unique")
def embedding_lookup_unique(params: Any, ids: Any, partition_strategy: str = "mod", name: str | None = None) -> Tensor:
    """Rows of tables by ids as ``tf.nn.embedding_lookup`` gives them, each looked up once."""
    with tf.name_scope(name, "EmbeddingLookupUnique", [params, ids]):
        ids = tf.convert_to_tensor(ids)
        unique, places = tf.unique(tf.reshape(ids, [-1]))
        embeddings = tf.gather(tf.nn.embedding_lookup(params, unique, partition_strategy), places)
        rows = tf.reshape(embeddings, tf.concat([tf.shape(ids), tf.shape(embeddings)[1:]], 0))
        rows.set_shape(ids.shape.concatenate(embeddings.shape[1:]))
        return rows


@public("contrib.layers.safe_embedding_lookup_sparse")
def safe_embedding_lookup_sparse(
    embedding_weights: Any,
    sparse_ids: Any,
    sparse_weights: Any = None,
    combiner: str | None = None,
    default_id: int | None = None,
    name: str | None = None,
    partition_strategy: str = "div",
    max_norm: float | None = None,
) -> Any:
    """Like ``tf.nn.safe_embedding_lookup_sparse``, of tables and weights of one dtype, without conversion.

    Raises:
        ValueError: the dtypes of tables and weights differ.
    """
    if embedding_weights is not None:
        several = isinstance(embedding_weights, (list, tuple)) or hasattr(embedding_weights, "_get_partitions")
        tables = list(embedding_weights) if several else [embedding_weights]
        given = [item if isinstance(item, (Tensor, tf.Variable)) else tf.convert_to_tensor(item) for item in tables]
        embedding_weights = given if several else given[0]
        tf.assert_same_float_dtype(given if sparse_weights is None else [*given, sparse_weights])
    return tf.nn.safe_embedding_lookup_sparse(
        embedding_weights,
        sparse_ids,
        sparse_weights,
        combiner or "mean",
        default_id,
        name,
        partition_strategy,
        max_norm,
    )


@public("contrib.layers.embed_sequence")
def embed_sequence(
    ids: Any,
    vocab_size: int | None = None,
    embed_dim: int | None = None,
    unique: bool = False,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> Tensor:
    """Rows of a variable ``embeddings`` ``[vocab_size, embed_dim]`` by ids: ``[batch, time]`` to ``[..., embed_dim]``.

    Args:
        ids: integers ``[batch, time]``.
        vocab_size: number of rows; may be None when variables are reused.
        embed_dim: size of a row; may be None when variables are reused.
        unique: look each id up once.
        initializer: of the variable.
        regularizer: of the variable.
        trainable: whether the variable is trained.
        scope: name of the variable scope.
        reuse: whether to use a variable that exists.
    """
    if not (reuse or (vocab_size and embed_dim)):
        raise ValueError(
            "Must specify vocab size and embedding dimension when not reusing. "
            f"Got vocab_size={vocab_size} and embed_dim={embed_dim}\n"
            + errors.message(
                "a table of unknown size",
                "the number of rows and the number of columns",
                "vocab_size=1000, embed_dim=32",
            )
        )
    with tf.variable_scope(scope, "EmbedSequence", [ids], reuse=reuse):
        shape = [vocab_size, embed_dim] if vocab_size and embed_dim else None
        table = model_variable(
            "embeddings", shape, initializer=initializer, regularizer=regularizer, trainable=trainable
        )
        embeddings: Tensor = embedding_lookup_unique(table, ids) if unique else tf.nn.embedding_lookup(table, ids)
        return embeddings


@public("contrib.layers.bow_encoder")
def bow_encoder(
    ids: Any,
    vocab_size: int,
    embed_dim: int,
    sparse_lookup: bool = True,
    initializer: Any = None,
    regularizer: Any = None,
    trainable: bool = True,
    scope: Any = None,
    reuse: Any = None,
) -> Tensor:
    """The mean of the embeddings of each row of ids: ``[batch, time]`` to ``[batch, embed_dim]``.

    With ``sparse_lookup`` ids of 0 do not count (a SparseTensor counts what it has), else all do.
    """
    with tf.variable_scope(scope, "bow_encoder", [ids], reuse=reuse):
        table = model_variable(
            "embeddings", [vocab_size, embed_dim], initializer=initializer, regularizer=regularizer, trainable=trainable
        )
        sparse = isinstance(ids, tf.SparseTensor)
        if sparse_lookup:
            rows = ids if sparse else dense_to_sparse_tensor(ids)
            mean: Tensor = tf.nn.safe_embedding_lookup_sparse(table, rows, combiner="mean", default_id=0)
            return mean
        if sparse:
            raise TypeError(
                "ids are expected to be dense Tensor, got: a SparseTensor\n"
                + errors.message("a SparseTensor without sparse_lookup", "a tensor", "sparse_lookup=True")
            )
        mean = tf.reduce_mean(tf.nn.embedding_lookup(table, ids), 1)
        return mean
