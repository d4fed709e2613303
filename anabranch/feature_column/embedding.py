"""Dense forms of categories: how often each occurs, and embeddings."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public
from anabranch.feature_column.categorical import WeightedCategoricalColumn
from anabranch.feature_column.contract import (
    DenseColumn,
    SequenceInputs,
    SparseInputs,
    Transformed,
    Variables,
    refusal,
)
from anabranch.feature_column.sequence_columns import SequenceCategoricalColumn, sequence_lengths


def _not_sequence(column: Any, category: Any) -> None:
    if isinstance(category, SequenceCategoricalColumn):
        raise refusal(
            ValueError,
            f"In {column.name}, categorical_column must not be of type SequenceCategoricalColumn. Given: {category}",
            "a column of sequences as one input",
            "a column of single examples",
            "tf.contrib.feature_column.sequence_input_layer",
        )


def _only_sequence(column: Any, category: Any) -> None:
    if not isinstance(category, SequenceCategoricalColumn):
        raise refusal(
            ValueError,
            f"In {column.name}, categorical_column must be of type SequenceCategoricalColumn to use "
            f"sequence_input_layer. Given: {category}",
            "a column of single examples as a sequence",
            "a column of sequences",
            "tf.feature_column.sequence_categorical_column_with_identity",
        )


@dataclasses.dataclass(frozen=True)
class IndicatorColumn(DenseColumn):
    """What `indicator_column` makes."""

    categorical_column: Any

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_indicator"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.categorical_column.parse_example_spec

    @property
    def variable_shape(self) -> Any:
        if isinstance(self.categorical_column, SequenceCategoricalColumn):
            return tf.TensorShape([self.categorical_column.num_buckets])
        return tf.TensorShape([1, self.categorical_column.num_buckets])

    def transform(self, features: Transformed) -> Any:
        ids, weights = self.categorical_column.ids_and_weights(features)
        depth = self.categorical_column.num_buckets
        if weights is not None:
            merged = tf.sparse_merge(sp_ids=ids, sp_values=weights, vocab_size=depth)
            merged = tf.sparse_slice(merged, [0] * merged.indices.shape[1].value, merged.dense_shape)
            return tf.scatter_nd(merged.indices, merged.values, merged.dense_shape)
        dense = tf.sparse_tensor_to_dense(ids, default_value=-1)
        return tf.reduce_sum(tf.one_hot(dense, depth, on_value=1.0, off_value=0.0), axis=-2)

    def dense_tensor(self, features: Transformed, variables: Variables) -> Any:
        _not_sequence(self, self.categorical_column)
        return features.get(self)

    def sequence_dense_tensor(self, features: Transformed, variables: Variables) -> SequenceInputs:
        """The indicators of each step."""
        _only_sequence(self, self.categorical_column)
        return SequenceInputs(
            features.get(self), sequence_lengths(self.categorical_column.ids_and_weights(features).id_tensor)
        )


@public("feature_column.indicator_column")
def indicator_column(categorical_column: Any) -> IndicatorColumn:
    """Return a dense column of how often each id of a categorical one occurs, or of the sums of its weights.

    Args:
        categorical_column: any categorical column.

    Example:
        >>> import anabranch as tf
        >>> colour = tf.feature_column.categorical_column_with_vocabulary_list("colour", ["red", "blue"])
        >>> column = tf.feature_column.indicator_column(colour)
        >>> inputs = tf.feature_column.input_layer({"colour": tf.constant([["blue"], ["green"]])}, [column])
        >>> with tf.Session() as session:
        ...     session.run(tf.tables_initializer())
        ...     session.run(inputs).tolist()
        [[0.0, 1.0], [0.0, 0.0]]
    """
    return IndicatorColumn(categorical_column)


@dataclasses.dataclass(frozen=True)
class EmbeddingColumn(DenseColumn):
    """What `embedding_column` makes."""

    categorical_column: Any
    dimension: int
    combiner: str
    initializer: Callable[..., Any]
    ckpt_to_load_from: str | None
    tensor_name_in_ckpt: str | None
    max_norm: float | None
    trainable: bool

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_embedding"

    @property
    def parse_example_spec(self) -> dict[str, Any]:
        return self.categorical_column.parse_example_spec

    @property
    def variable_shape(self) -> Any:
        return tf.TensorShape([self.dimension])

    def transform(self, features: Transformed) -> Any:
        return self.categorical_column.ids_and_weights(features)

    def table(self, variables: Variables) -> Any:
        """The variable of embeddings, ``[num_buckets, dimension]``."""
        shape = [self.categorical_column.num_buckets, self.dimension]
        table = variables(self, "embedding_weights", shape, self.initializer, self.trainable)
        if self.ckpt_to_load_from is not None:
            pieces = list(table) if hasattr(table, "_get_partitions") else table
            tf.train.init_from_checkpoint(self.ckpt_to_load_from, {self.tensor_name_in_ckpt: pieces})
        return table

    def create_variables(self, variables: Variables) -> None:
        self.table(variables)

    def _looked_up(self, inputs: SparseInputs, variables: Variables) -> Any:
        return tf.nn.safe_embedding_lookup_sparse(
            self.table(variables),
            inputs.id_tensor,
            sparse_weights=inputs.weight_tensor,
            combiner=self.combiner,
            name=f"{self.name}_weights",
            max_norm=self.max_norm,
        )

    def dense_tensor(self, features: Transformed, variables: Variables) -> Any:
        _not_sequence(self, self.categorical_column)
        return self._looked_up(features.get(self), variables)

    def sequence_dense_tensor(self, features: Transformed, variables: Variables) -> SequenceInputs:
        """The embeddings of each step."""
        _only_sequence(self, self.categorical_column)
        inputs = features.get(self)
        return SequenceInputs(self._looked_up(inputs, variables), sequence_lengths(inputs.id_tensor))


def _checked(dimension: Any, initializer: Any, ckpt: Any, tensor_name: Any, names: str) -> Callable[..., Any]:
    """The initializer to use."""
    if dimension is None or dimension < 1:
        raise refusal(ValueError, f"Invalid dimension {dimension}.", f"{dimension}", "a size above 0", "dimension=8")
    if (ckpt is None) != (tensor_name is None):
        raise refusal(
            ValueError,
            "Must specify both `ckpt_to_load_from` and `tensor_name_in_ckpt` or none of them.",
            f"ckpt_to_load_from={ckpt!r} and tensor_name_in_ckpt={tensor_name!r}",
            "both or neither",
            "pass the name of the tensor in the checkpoint",
        )
    if initializer is not None and not callable(initializer):
        raise refusal(
            ValueError,
            f"initializer must be callable if specified. {names}",
            f"{initializer!r}",
            "an initializer",
            "initializer=tf.zeros_initializer()",
        )
    return initializer or tf.truncated_normal_initializer(mean=0.0, stddev=1 / math.sqrt(dimension))


@public("feature_column.embedding_column")
def embedding_column(
    categorical_column: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> EmbeddingColumn:
    """Return a dense column of the embeddings of a categorical one's ids.

    Args:
        categorical_column: any categorical column.
        dimension: size of an embedding.
        combiner: what becomes of several ids in one example: ``"mean"``, ``"sqrtn"`` or ``"sum"``.
        initializer: of the table; a truncated normal of deviation ``1 / sqrt(dimension)`` if None.
        ckpt_to_load_from, tensor_name_in_ckpt: checkpoint, and the table's name in it, to begin with; both or neither.
        max_norm: embeddings with a larger l2 norm are scaled down to it.
        trainable: whether the table is among the variables to train.

    Raises:
        ValueError: the dimension is below 1, the initializer cannot be called, or half of a checkpoint is given.
    """
    shown = f"Embedding of column_name: {getattr(categorical_column, 'name', categorical_column)}"
    made = _checked(dimension, initializer, ckpt_to_load_from, tensor_name_in_ckpt, shown)
    return EmbeddingColumn(
        categorical_column, dimension, combiner, made, ckpt_to_load_from, tensor_name_in_ckpt, max_norm, trainable
    )


@dataclasses.dataclass(frozen=True)
class SharedEmbeddingColumn(EmbeddingColumn):
    """What `shared_embedding_columns` makes."""

    shared_embedding_collection_name: str

    @property
    def name(self) -> str:
        return f"{self.categorical_column.name}_shared_embedding"

    @property
    def scope_name(self) -> str:
        return self.shared_embedding_collection_name

    def table(self, variables: Variables) -> Any:
        found = tf.get_collection(self.shared_embedding_collection_name)
        shape = (self.categorical_column.num_buckets, self.dimension)
        if not found:
            table = super().table(variables)
            tf.add_to_collection(self.shared_embedding_collection_name, table)
            return table
        if len(found) > 1:
            raise refusal(
                ValueError,
                f"Collection {found} can only contain one variable. Suggested fix A: Choose a unique name for this "
                "collection. Suggested fix B: Do not add any variables to this collection.",
                f"{len(found)} variables",
                "the table of embeddings",
                "pass shared_embedding_collection_name=",
            )
        if found[0].get_shape() != shape:
            raise refusal(
                ValueError,
                f"Shared embedding collection {self.shared_embedding_collection_name} contains variable of unexpected "
                f"shape {found[0].get_shape()}. Expected shape is {shape}.",
                "a collection that something else uses",
                "the table of embeddings",
                "pass shared_embedding_collection_name=",
            )
        return found[0]


def _kind(column: Any) -> type:
    """The class that columns with one table have to share."""
    while isinstance(column, (WeightedCategoricalColumn, SequenceCategoricalColumn)):
        column = column.categorical_column
    return type(column)


@public("feature_column.shared_embedding_columns")
def shared_embedding_columns(
    categorical_columns: Any,
    dimension: int,
    combiner: str = "mean",
    initializer: Any = None,
    shared_embedding_collection_name: str | None = None,
    ckpt_to_load_from: str | None = None,
    tensor_name_in_ckpt: str | None = None,
    max_norm: float | None = None,
    trainable: bool = True,
) -> list[SharedEmbeddingColumn]:
    """Return a dense column for each of several categorical ones, with one table of embeddings for all.

    Args:
        categorical_columns: columns of one kind, with as many ids each.
        dimension, combiner, initializer, ckpt_to_load_from, tensor_name_in_ckpt, max_norm, trainable: as for
            `embedding_column`.
        shared_embedding_collection_name: of the graph's collection that holds the table, and of its scope; made of the
            columns' names if None.

    Raises:
        ValueError: the columns are of several kinds or sizes, or what `embedding_column` refuses.

    Example:
        >>> import anabranch as tf
        >>> seen = tf.feature_column.categorical_column_with_identity("seen", 5)
        >>> bought = tf.feature_column.categorical_column_with_identity("bought", 5)
        >>> columns = tf.feature_column.shared_embedding_columns([seen, bought], dimension=2)
        >>> features = {"seen": tf.constant([[1]]), "bought": tf.constant([[1]])}
        >>> tf.feature_column.input_layer(features, columns).shape.as_list(), len(tf.trainable_variables())
        ([1, 4], 1)
    """
    ordered = sorted(categorical_columns, key=lambda column: column.name)
    made = _checked(
        dimension,
        initializer,
        ckpt_to_load_from,
        tensor_name_in_ckpt,
        f"Embedding of columns: {[column.name for column in ordered]}",
    )
    for column in ordered[1:]:
        if _kind(column) is not _kind(ordered[0]):
            raise refusal(
                ValueError,
                "To use shared_embedding_column, all categorical_columns must have the same type, or be "
                "weighted_categorical_column or sequence column of the same type. Given column: "
                f"{ordered[0]} of type: {type(ordered[0])} does not match given column: {column} of type: "
                f"{type(column)}",
                "columns of several kinds",
                "columns of one kind",
                "an embedding_column for each",
            )
        if column.num_buckets != ordered[0].num_buckets:
            raise refusal(
                ValueError,
                "To use shared_embedding_column, all categorical_columns must have the same number of buckets. "
                f"Given column: {ordered[0]} with buckets: {ordered[0].num_buckets} does not match column: {column} "
                f"with buckets: {column.num_buckets}",
                "columns of several sizes",
                "as many ids for each",
                "an embedding_column for each",
            )
    shared = shared_embedding_collection_name
    if not shared:
        shared = "_".join(column.name for column in ordered) + "_shared_embedding"
    return [
        SharedEmbeddingColumn(
            column, dimension, combiner, made, ckpt_to_load_from, tensor_name_in_ckpt, max_norm, trainable, shared
        )
        for column in categorical_columns
    ]
