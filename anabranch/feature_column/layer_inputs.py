"""What is made of columns: dense inputs, a linear model, and the spec of examples."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import anabranch as tf
from anabranch.core.contract.api import public
from anabranch.feature_column.contract import (
    CategoricalColumn,
    DenseColumn,
    FeatureColumn,
    Transformed,
    Variables,
    refusal,
    scoped_variables,
)


def checked_columns(feature_columns: Any) -> list[Any]:
    """The columns, sorted by their names.

    Raises:
        ValueError: there are none, two have one name, or a dict is given.
    """
    if isinstance(feature_columns, FeatureColumn):
        feature_columns = [feature_columns]
    if isinstance(feature_columns, dict):
        raise refusal(
            ValueError,
            "Expected feature_columns to be iterable, found dict.",
            "a dict",
            "a list of columns",
            "list(columns.values())",
        )
    columns = list(feature_columns)
    if not columns:
        raise refusal(
            ValueError, "feature_columns must not be empty.", "no column", "at least one", "[numeric_column('x')]"
        )
    names: dict[str, Any] = {}
    for column in columns:
        if not isinstance(column, FeatureColumn):
            raise refusal(
                ValueError,
                f"Items of feature_columns must be a _FeatureColumn. Given (type {type(column)}): {column}",
                f"{column!r}",
                "a column",
                'tf.feature_column.numeric_column("x")',
            )
        name = column.name
        if name in names:
            raise refusal(
                ValueError,
                f"Duplicate feature column name found for columns: {column} and {names[name]}. This usually means that "
                "these columns refer to same base feature. Either one must be discarded or a duplicated but renamed "
                "item must be inserted in features dict.",
                f"two columns called {name!r}",
                "names of their own",
                "features with another key",
            )
        names[name] = column
    return sorted(columns, key=lambda column: str(column.name))


def dense_inputs(
    columns: list[Any], features: dict[Any, Any], variables: Variables, scoped: Any
) -> Iterator[tuple[Any, Any]]:
    """Each column with its values ``[batch, n]``; ``scoped(column)`` is the scope it is made in."""
    transformed = Transformed(features)
    for column in columns:
        if not isinstance(column, DenseColumn):
            raise refusal(
                ValueError,
                "Items of feature_columns must be a _DenseColumn. You can wrap a categorical column with an "
                f"embedding_column or indicator_column. Given: {column}",
                f"{column!r}",
                "a dense column",
                "tf.feature_column.indicator_column(column)",
            )
        with scoped(column):
            values = column.dense_tensor(transformed, variables)
            yield column, tf.reshape(values, [tf.shape(values)[0], column.variable_shape.num_elements()])


def _check_batch(tensors: list[Any], columns: list[Any]) -> None:
    """Refuse columns of which it is known that they have different numbers of examples."""
    sizes = {tensor.shape[0].value: column.name for tensor, column in zip(tensors, columns, strict=True)}
    sizes.pop(None, None)
    if len(sizes) > 1:
        raise refusal(
            ValueError,
            f"Batch size (first dimension) of each feature must be same. Batch sizes of columns: "
            f"{', '.join(f'{name}: {size}' for size, name in sizes.items())}",
            f"{sorted(sizes)} examples",
            "as many values of each feature",
            "features of one batch",
        )


@public("feature_column.input_layer")
def input_layer(
    features: dict[Any, Any],
    feature_columns: Any,
    weight_collections: Any = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
    cols_to_output_tensors: dict[Any, Any] | None = None,
) -> Any:
    """Join dense columns to one input ``[batch, values]``, side by side in the order of their names.

    Args:
        features: tensors by name, of the columns' features.
        feature_columns: dense columns.
        weight_collections: names of collections that the variables join, beside those of global and model variables.
        trainable: whether the variables are to be trained.
        cols_to_vars: a dict that takes a list of variables for each column, or None.
        cols_to_output_tensors: a dict that takes the values of each column, or None.

    Raises:
        ValueError: a column is not dense, there is none, two have one name, or a feature is missing.

    Example:
        >>> import anabranch as tf
        >>> word = tf.feature_column.categorical_column_with_hash_bucket("word", 100)
        >>> columns = [tf.feature_column.numeric_column("n"), tf.feature_column.embedding_column(word, 4)]
        >>> features = {"n": tf.constant([1.0, 2.0]), "word": tf.constant([["a"], ["b"]])}
        >>> tf.feature_column.input_layer(features, columns).shape.as_list()
        [2, 5]
        >>> [variable.name for variable in tf.trainable_variables()]
        ['input_layer/word_embedding/embedding_weights:0']
    """
    columns = checked_columns(feature_columns)
    tensors = []
    with tf.variable_scope(None, default_name="input_layer", values=list(features.values())):

        def scoped(column: Any) -> Any:
            return tf.variable_scope(None, default_name=column.scope_name)

        before: set[int] = set(map(id, tf.global_variables()))
        variables = scoped_variables(weight_collections, trainable)
        for column, values in dense_inputs(columns, features, variables, scoped):
            tensors.append(values)
            if cols_to_vars is not None:
                cols_to_vars[column] = [made for made in tf.global_variables() if id(made) not in before]
                before.update(map(id, cols_to_vars[column]))
            if cols_to_output_tensors is not None:
                cols_to_output_tensors[column] = values
        _check_batch(tensors, columns)
        return tf.concat(tensors, axis=1)


@public("feature_column.linear_model")
def linear_model(
    features: dict[Any, Any],
    feature_columns: Any,
    units: int = 1,
    sparse_combiner: str = "sum",
    weight_collections: Any = None,
    trainable: bool = True,
    cols_to_vars: dict[Any, Any] | None = None,
) -> Any:
    """Return the sum of a bias and of each column's values times weights, ``[batch, units]``.

    Args:
        features: tensors by name, of the columns' features.
        feature_columns: dense or categorical columns.
        units: number of outputs.
        sparse_combiner: what becomes of several ids in one example: ``"sum"``, ``"mean"`` or ``"sqrtn"``.
        weight_collections: names of collections that the variables join.
        trainable: whether the variables, which begin with zeros, are to be trained.
        cols_to_vars: a dict that takes a list of variables for each column, and for ``"bias"``, or None.

    Raises:
        ValueError: a column is neither dense nor categorical, there is none, two have a name, or a feature is missing.

    Example:
        >>> import anabranch as tf
        >>> columns = [tf.feature_column.numeric_column("x")]
        >>> tf.feature_column.linear_model({"x": tf.constant([1.0, 2.0])}, columns).shape.as_list()
        [2, 1]
        >>> sorted(variable.name for variable in tf.trainable_variables())
        ['linear_model/bias_weights:0', 'linear_model/x/weights:0']
    """
    columns = checked_columns(feature_columns)
    for column in columns:
        if not isinstance(column, (DenseColumn, CategoricalColumn)):
            raise refusal(
                ValueError,
                f"Items of feature_columns must be either a _DenseColumn or _CategoricalColumn. Given: {column}",
                f"{column!r}",
                "a dense or categorical column",
                'tf.feature_column.numeric_column("x")',
            )
    scopes = []
    for column in columns:  # names are unique among the scopes of the caller's, as in TensorFlow's checkpoints
        with tf.variable_scope(None, default_name=column.scope_name) as scope:
            scopes.append(scope.name.rpartition("/")[2])
    with tf.variable_scope(None, default_name="linear_model", values=list(features.values())) as model:
        transformed, sums = Transformed(features), []
        variables = scoped_variables(weight_collections, trainable, use_resource=True)
        before = len(tf.global_variables())
        for column, name in zip(columns, scopes, strict=True):
            with tf.variable_scope(name):
                sums.append(_weighted_sum(column, transformed, variables, units, sparse_combiner))
                made = tf.global_variables()[before:]
                before += len(made)
                if cols_to_vars is not None:
                    cols_to_vars[column] = made
        _check_batch(sums, columns)
        total = tf.add_n(sums, name="weighted_sum_no_bias")
        bias = variables(model, "bias_weights", [units], tf.zeros_initializer(), True)
        if cols_to_vars is not None:
            cols_to_vars["bias"] = list(bias) if hasattr(bias, "_get_partitions") else [bias]
        return tf.nn.bias_add(total, bias, name="weighted_sum")


def _weighted_sum(column: Any, features: Transformed, variables: Variables, units: int, combiner: str) -> Any:
    if isinstance(column, CategoricalColumn):
        ids, weights = column.ids_and_weights(features)
        if ids.dense_shape.shape[0].value != 2:
            rows = tf.to_int64([tf.to_int32(ids.dense_shape[0]), -1])
            ids = tf.sparse_reshape(ids, rows)
            weights = None if weights is None else tf.sparse_reshape(weights, rows)
        table = variables(column, "weights", [column.num_buckets, units], tf.zeros_initializer(), True)
        return tf.nn.safe_embedding_lookup_sparse(
            table,
            ids,
            sparse_weights=weights,
            combiner=combiner,
            name="weighted_sum",
        )
    values = column.dense_tensor(features, variables)
    size = column.variable_shape.num_elements()
    flat = tf.reshape(values, [tf.shape(values)[0], size])
    return tf.matmul(flat, variables(column, "weights", [size, units], tf.zeros_initializer(), True))


@public("feature_column.make_parse_example_spec")
def make_parse_example_spec(feature_columns: Any) -> dict[str, Any]:
    """Return what `tf.parse_example` needs to read the columns' features.

    Args:
        feature_columns: columns of any kind.

    Raises:
        ValueError: something is not a column, or two columns read one feature in different ways.

    Example:
        >>> import anabranch as tf
        >>> ids = tf.feature_column.categorical_column_with_identity("i", 3)
        >>> columns = [tf.feature_column.numeric_column("x"), ids]
        >>> sorted(tf.feature_column.make_parse_example_spec(columns))
        ['i', 'x']
    """
    result: dict[str, Any] = {}
    for column in feature_columns:
        if not isinstance(column, FeatureColumn):
            raise refusal(
                ValueError,
                f"All feature_columns must be _FeatureColumn instances. Given: {column}",
                f"{column!r}",
                "a column",
                'tf.feature_column.numeric_column("x")',
            )
        for key, spec in column.parse_example_spec.items():
            if key in result and result[key] != spec:
                raise refusal(
                    ValueError,
                    f"feature_columns contain different parse_spec for key {key}. Given {spec} and {result[key]}",
                    "two ways to read one feature",
                    "one",
                    "features with another key",
                )
            result[key] = spec
    return result
