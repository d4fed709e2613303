"""``tf.feature_column.sequence_*``, and inputs of recurrent networks made of such columns."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public
from anabranch.feature_column import categorical, vocabulary
from anabranch.feature_column.contract import Transformed, refusal, scoped_variables
from anabranch.feature_column.layer_inputs import checked_columns
from anabranch.feature_column.numeric import numeric_column
from anabranch.feature_column.sequence_columns import SequenceCategoricalColumn, SequenceNumericColumn


@public(
    "feature_column.sequence_categorical_column_with_identity",
    "contrib.feature_column.sequence_categorical_column_with_identity",
)
def sequence_categorical_column_with_identity(
    key: str, num_buckets: int, default_value: int | None = None
) -> SequenceCategoricalColumn:
    """Return a column of sequences of ids; arguments as for `categorical_column_with_identity`."""
    return SequenceCategoricalColumn(categorical.categorical_column_with_identity(key, num_buckets, default_value))


@public(
    "feature_column.sequence_categorical_column_with_hash_bucket",
    "contrib.feature_column.sequence_categorical_column_with_hash_bucket",
)
def sequence_categorical_column_with_hash_bucket(
    key: str, hash_bucket_size: int, dtype: Any = tf.string
) -> SequenceCategoricalColumn:
    """Return a column of sequences of hashes; arguments as for `categorical_column_with_hash_bucket`."""
    return SequenceCategoricalColumn(categorical.categorical_column_with_hash_bucket(key, hash_bucket_size, dtype))


@public(
    "feature_column.sequence_categorical_column_with_vocabulary_list",
    "contrib.feature_column.sequence_categorical_column_with_vocabulary_list",
)
def sequence_categorical_column_with_vocabulary_list(
    key: str, vocabulary_list: Any, dtype: Any = None, default_value: int = -1, num_oov_buckets: int = 0
) -> SequenceCategoricalColumn:
    """Return a column of sequences of words; arguments as for `categorical_column_with_vocabulary_list`."""
    return SequenceCategoricalColumn(
        vocabulary.categorical_column_with_vocabulary_list(key, vocabulary_list, dtype, default_value, num_oov_buckets)
    )


@public(
    "feature_column.sequence_categorical_column_with_vocabulary_file",
    "contrib.feature_column.sequence_categorical_column_with_vocabulary_file",
)
def sequence_categorical_column_with_vocabulary_file(
    key: str,
    vocabulary_file: Any,
    vocabulary_size: int | None = None,
    num_oov_buckets: int = 0,
    default_value: int | None = None,
    dtype: Any = tf.string,
) -> SequenceCategoricalColumn:
    """Return a column of sequences of words; arguments as for `categorical_column_with_vocabulary_file`."""
    return SequenceCategoricalColumn(
        vocabulary.categorical_column_with_vocabulary_file(
            key, vocabulary_file, vocabulary_size, num_oov_buckets, default_value, dtype
        )
    )


@public("feature_column.sequence_numeric_column", "contrib.feature_column.sequence_numeric_column")
def sequence_numeric_column(
    key: str, shape: Any = (1,), default_value: float = 0.0, dtype: Any = tf.float32, normalizer_fn: Any = None
) -> SequenceNumericColumn:
    """Return a column of sequences of numbers, from a sparse feature ``[batch, steps * values]``.

    Args:
        key: name of the feature, and of the column.
        shape: of one step's values.
        default_value: of values that are not there.
        dtype: of the feature.
        normalizer_fn: applied to the sparse tensor, or None.

    Raises:
        TypeError: a dimension is not an integer, or ``normalizer_fn`` cannot be called.
        ValueError: a dimension is not positive, or ``dtype`` is not a number.
    """
    checked = numeric_column(key, shape, None, dtype, normalizer_fn)
    return SequenceNumericColumn(key, checked.shape, default_value, checked.dtype, normalizer_fn)


@public("contrib.feature_column.sequence_input_layer")
def sequence_input_layer(
    features: dict[str, Any], feature_columns: Any, weight_collections: Any = None, trainable: bool = True
) -> tuple[Any, Any]:
    """Join columns of sequences to the input of a recurrent network.

    Args:
        features: tensors by name.
        feature_columns: columns of sequences: numeric ones, and embeddings and indicators of categorical ones.
        weight_collections: names of collections that the variables join.
        trainable: whether the variables are to be trained.

    Returns:
        Inputs ``[batch, steps, values]``, the columns side by side in the order of their names, and the number of steps
        of each example ``[batch]``.

    Raises:
        ValueError: there are no columns, or one of them is not a column of sequences.
    """
    columns = checked_columns(feature_columns)
    for column in columns:
        if not hasattr(column, "sequence_dense_tensor"):
            raise refusal(
                ValueError,
                "All feature_columns must be of type SequenceDenseColumn. You can wrap a sequence_categorical_column "
                f"with an embedding_column or indicator_column. Given (type {type(column)}): {column}",
                f"{column!r}",
                "a column of sequences",
                "tf.feature_column.embedding_column(column, dimension=8)",
            )
    with tf.variable_scope(None, default_name="sequence_input_layer", values=list(features.values())):
        transformed, parts, lengths = Transformed(features), [], []
        for column in columns:
            with tf.variable_scope(None, default_name=column.scope_name):
                inputs = column.sequence_dense_tensor(transformed, scoped_variables(weight_collections, trainable))
                shape = tf.shape(inputs.dense_tensor)
                size = column.variable_shape.num_elements()
                parts.append(tf.reshape(inputs.dense_tensor, [shape[0], shape[1], size]))
                lengths.append(inputs.sequence_length)
        checks = [tf.assert_equal(lengths[0], other) for other in lengths[1:]]
        with tf.control_dependencies(checks):
            return tf.concat(parts, axis=-1), tf.identity(lengths[0])
