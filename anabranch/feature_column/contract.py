"""What a column is, and how columns that share features compute each of them once."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import anabranch as tf
from anabranch.core import errors


class SparseInputs(NamedTuple):
    """The entries of a categorical column: ids, and a weight for each of them, or None."""

    id_tensor: Any
    weight_tensor: Any


class SequenceInputs(NamedTuple):
    """A dense tensor ``[batch, steps, ...]``, and the number of steps of each example."""

    dense_tensor: Any
    sequence_length: Any


Variables = Callable[..., Any]
"""Makes a column's variable, or finds it again: ``(column, name, shape, initializer, trainable)``."""


def scoped_variables(weight_collections: Any, trainable: bool, use_resource: bool | None = None) -> Variables:
    """Variables of the scope in which they are asked for."""
    collections = list(weight_collections or [])
    for name in (tf.GraphKeys.GLOBAL_VARIABLES, tf.GraphKeys.MODEL_VARIABLES):
        if name not in collections:
            collections.append(name)

    def variable(column: Any, name: str, shape: Any, initializer: Any, may_train: bool) -> Any:
        return tf.get_variable(
            name,
            shape,
            tf.float32,
            initializer=initializer,
            trainable=trainable and may_train,
            collections=list(collections),
            use_resource=use_resource,
        )

    return variable


class FeatureColumn(abc.ABC):
    """How a feature is read and changed. Columns are hashable values, equal if their fields are."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Unique among the columns of a model; scopes of its variables are called after it."""

    @property
    @abc.abstractmethod
    def parse_example_spec(self) -> dict[str, Any]:
        """What `tf.parse_example` needs to read the features."""

    @abc.abstractmethod
    def transform(self, features: Transformed) -> Any:
        """The column's own tensor, from those of features and other columns."""

    @property
    def scope_name(self) -> str:
        """The scope of the column's variables."""
        return self.name

    @property
    def _parse_example_spec(self) -> dict[str, Any]:
        return self.parse_example_spec

    @property
    def _var_scope_name(self) -> str:
        return self.scope_name

    def _transform_feature(self, inputs: Transformed) -> Any:
        return self.transform(inputs)


class DenseColumn(FeatureColumn):
    """A column with a dense tensor of known shape for each example."""

    @property
    @abc.abstractmethod
    def variable_shape(self) -> Any:
        """`TensorShape` of one example's values."""

    @abc.abstractmethod
    def dense_tensor(self, features: Transformed, variables: Variables) -> Any:
        """The values, ``[batch, ...]``."""

    def create_variables(self, variables: Variables) -> None:
        """Make the variables that `dense_tensor` will ask for."""

    @property
    def _variable_shape(self) -> Any:
        return self.variable_shape

    def _get_dense_tensor(self, inputs: Transformed, weight_collections: Any = None, trainable: Any = None) -> Any:
        return self.dense_tensor(inputs, scoped_variables(weight_collections, trainable in (None, True)))


class CategoricalColumn(FeatureColumn):
    """A column whose values are ids below a number of buckets."""

    @property
    @abc.abstractmethod
    def num_buckets(self) -> int:
        """How many ids there are."""

    @abc.abstractmethod
    def ids_and_weights(self, features: Transformed) -> SparseInputs:
        """The ids as a `SparseTensor`, and their weights."""

    @property
    def _num_buckets(self) -> int:
        return self.num_buckets

    def _get_sparse_tensors(
        self, inputs: Transformed, weight_collections: Any = None, trainable: Any = None
    ) -> SparseInputs:
        return self.ids_and_weights(inputs)


class Transformed:
    """Features by name, and the tensors of columns, each made when it is first asked for.

    Args:
        features: tensors (dense, sparse, or what can be made one) by name.
    """

    def __init__(self, features: dict[Any, Any]) -> None:
        self._features = features
        self._known: dict[Any, Any] = {}

    def get(self, key: Any) -> Any:
        """The tensor of a feature (a name) or of a column.

        Raises:
            ValueError: there is no such feature, or it is a scalar.
            TypeError: ``key`` is neither a name nor a column.
        """
        if key not in self._known:
            self._known[key] = self._feature(key) if key in self._features else self._column(key)
        return self._known[key]

    def _column(self, key: Any) -> Any:
        if isinstance(key, str):
            raise ValueError(
                f"Feature {key} is not in features dictionary.\n"
                + errors.message(f"features {sorted(map(str, self._features))}", f"one called {key!r}", "add it")
            )
        if not isinstance(key, FeatureColumn):
            raise TypeError(
                f'"key" must be either a "str" or "_FeatureColumn". Provided: {key}\n'
                + errors.message(f"{key!r}", "the name of a feature, or a column", "pass a string")
            )
        return key.transform(self)

    def _feature(self, key: Any) -> Any:
        raw = self._features[key]
        if not isinstance(raw, (tf.Tensor, tf.SparseTensor)):
            raw = (
                tf.SparseTensor.from_value(raw) if isinstance(raw, tf.SparseTensorValue) else tf.convert_to_tensor(raw)
            )
        rank = raw.get_shape().ndims
        if rank == 0:
            raise ValueError(
                f"Feature (key: {key}) cannot have rank 0. Given: {raw}\n"
                + errors.message("a scalar", "one value or more for each example", "tf.reshape(feature, [1])")
            )
        if isinstance(raw, tf.SparseTensor):
            return raw if rank is not None and rank > 1 else tf.sparse_reshape(raw, _with_last_axis(raw, rank))
        if rank is not None:
            return tf.expand_dims(raw, -1) if rank == 1 else raw
        checked = tf.assert_positive(tf.rank(raw), message=f"Feature (key: {key}) cannot have rank 0. Given: {raw}")
        with tf.control_dependencies([checked]):
            return tf.cond(tf.equal(1, tf.rank(raw)), lambda: tf.expand_dims(raw, -1), lambda: raw)


def _with_last_axis(raw: Any, rank: int | None) -> Any:
    """The shape of a sparse feature, with a second axis if it has one only."""
    shape = raw.dense_shape
    longer = tf.concat([shape, [1]], axis=0)
    return longer if rank == 1 else tf.cond(tf.equal(1, tf.size(shape)), lambda: longer, lambda: shape)


def to_sparse(values: Any, ignored: Any = None) -> Any:
    """A `SparseTensor` of the entries of a dense tensor but the ignored one (``""`` or ``-1`` by default)."""
    if isinstance(values, tf.SparseTensor):
        return values
    with tf.name_scope(None, "to_sparse_input", [values, ignored]):
        if ignored is None:
            ignored = "" if values.dtype == tf.string else -1
        where = tf.where(tf.not_equal(values, tf.cast(ignored, values.dtype) if ignored != "" else ""))
        return tf.SparseTensor(where, tf.gather_nd(values, where), tf.shape(values, out_type=tf.int64))


def check_compatible(values: Any, key: str, dtype: Any) -> None:
    """Refuse a feature of strings for a column of integers, and the other way round."""
    if dtype.is_integer != values.dtype.is_integer:
        raise ValueError(
            f"Column dtype and SparseTensors dtype must be compatible. key: {key}, column dtype: {dtype}, "
            f"tensor dtype: {values.dtype}\n"
            + errors.message(f"a feature of {values.dtype}", f"one of {dtype}", "pass dtype= to the column")
        )


def check_words(dtype: Any, shown: str, of: str = "") -> None:
    """Refuse a dtype that is neither string nor integer."""
    if not (dtype == tf.string or dtype.is_integer):
        raise ValueError(
            f"{of}dtype must be string or integer. {shown}\n"
            + errors.message(f"{dtype}", "tf.string or an integer dtype", "tf.as_string(feature)")
        )


def check_key(key: Any) -> None:
    """Refuse a key that is not the name of a feature."""
    if not isinstance(key, str):
        raise ValueError(
            f"key must be a string. Got: type {type(key)}. Given key: {key}.\n"
            + errors.message(f"{key!r}", "the name of a feature", f"{str(key)!r}")
        )


def refusal(error: type, text: str, given: str, expected: str, instead: str) -> Exception:
    """An error in three parts behind a first line with TensorFlow's words."""
    return error(f"{text}\n" + errors.message(given, expected, instead))
