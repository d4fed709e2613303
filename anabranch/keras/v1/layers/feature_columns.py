"""A layer of the dense columns of `tf.feature_column`."""

from __future__ import annotations

import contextlib
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.feature_column.layer_inputs import checked_columns, dense_inputs
from anabranch.keras.v1.layer import Layer, registry


@registry.add()
class DenseFeatures(Layer):
    """Dense columns side by side, ``[batch, values]``, in the order of their names.

    Args:
        feature_columns: dense columns: numeric and bucketized ones, embeddings and indicators.
        trainable: whether the variables are to be trained.
        name: of the layer.

    It is called with a dict of tensors by the names of features; `cols_to_output_tensors`, a dict, takes the values of
    each column.

    Raises:
        ValueError: a column is not dense, there is none, two have one name, or what it is called with is not a dict.

    Example:
        >>> import anabranch as tf
        >>> layer = tf.keras.layers.DenseFeatures([tf.feature_column.numeric_column("x")])
        >>> outputs = layer({"x": tf.constant([1.0, 2.0])})
        >>> with tf.Session() as session:
        ...     session.run(outputs).tolist()
        [[1.0], [2.0]]
    """

    def __init__(self, feature_columns: Any, trainable: bool = True, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(name=name, trainable=trainable, **kwargs)
        self._columns = checked_columns(feature_columns)
        self._tables: dict[tuple[str, str], Any] = {}

    def _variable(self, column: Any, name: str, shape: Any, initializer: Any, may_train: bool) -> Any:
        key = (column.scope_name, name)
        if key not in self._tables:
            self._tables[key] = self.add_weight(
                f"{column.scope_name}/{name}",
                tuple(shape),
                initializer=initializer,
                trainable=bool(self.trainable and may_train),
            )
        return self._tables[key]

    def build(self, input_shape: Any) -> None:
        """Make the columns' variables."""
        for column in self._columns:
            if hasattr(column, "create_variables"):
                column.create_variables(self._variable)
        self.built = True

    def call(self, features: Any, cols_to_output_tensors: dict[Any, Any] | None = None) -> Any:
        """The columns' values."""
        if not isinstance(features, dict):
            raise ValueError(
                f"We expected a dictionary here. Instead we got: {features}\n"
                + errors.message(f"{features!r}", "a dict of tensors by name", '{"x": x}')
            )
        tensors = []
        for column, values in dense_inputs(self._columns, features, self._variable, lambda _: contextlib.nullcontext()):
            tensors.append(values)
            if cols_to_output_tensors is not None:
                cols_to_output_tensors[column] = values
        return tf.concat(tensors, axis=1)

    def compute_output_shape(self, input_shape: Any) -> Any:
        """``[batch, values]``; the number of examples is not known."""
        return tf.TensorShape([None, sum(column.variable_shape.num_elements() for column in self._columns)])
