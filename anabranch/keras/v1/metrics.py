"""``tf.keras.metrics`` of version 1: values that are gathered over batches, and the functions behind them.

A metric is called with a batch: that updates its variables and gives the value so far. In a graph the call gives a
tensor that waits for the update; ``update_state`` gives the operation alone and ``result`` a tensor that does not wait.
"""

from __future__ import annotations

import types
from typing import Any

import numpy as np

import anabranch as tf
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import losses, state
from anabranch.keras.v1.layer import Layer
from anabranch.keras.v1.objects import Registry
from anabranch.variables import replica_frames

registry = Registry("metric function")


class Metric(Layer):
    """Base of metrics: variables by :meth:`add_weight`, :meth:`update_state` and :meth:`result` by a subclass."""

    _takes_history = False

    def __init__(self, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        super().__init__(name=name, dtype=dtype or state.floatx(), **kwargs)
        self.stateful = True
        self.built = True

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "update_state" in cls.__dict__:
            cls.update_state = _as_operation(cls.update_state)  # type: ignore[method-assign]

    def add_weight(self, name: Any = None, shape: Any = (), initializer: Any = "zeros", **kwargs: Any) -> Any:
        """A variable of the metric."""
        kwargs.setdefault("dtype", self._dtype)
        kwargs.update(trainable=False, collections=[])
        kwargs = {**replica_frames.statistics(tf.VariableAggregation.SUM), **kwargs}
        return super().add_weight(name, shape, initializer=initializer, **kwargs)

    def update_state(self, *args: Any, **kwargs: Any) -> Any:
        """Take a batch in."""
        raise NotImplementedError("Must be implemented in subclasses.")

    def result(self) -> Any:
        """The value so far."""
        raise NotImplementedError("Must be implemented in subclasses.")

    def reset_states(self) -> None:
        """Begin anew."""
        state.batch_set_value([(variable, np.zeros(K.dims(variable.shape))) for variable in self.weights])

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        with tf.name_scope(self.name):
            update = self.update_state(*args, **kwargs)
            if state.is_eager() or update is None:
                return self.result()
            self.add_update(update)
            with tf.control_dependencies([update]):
                return tf.identity(self.result())

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"name": self.name, "dtype": self.dtype}

    def _unfiltered_losses(self) -> list[Any]:
        return []


def _as_operation(update_state: Any) -> Any:
    """An ``update_state`` whose result is one operation, whatever it made: all that it wrote in a graph."""
    if hasattr(update_state, "_gives_operation"):
        return update_state

    def update(self: Metric, *args: Any, **kwargs: Any) -> Any:
        if state.is_eager():
            return update_state(self, *args, **kwargs)
        graph = tf.get_default_graph()
        before = graph.version
        result = update_state(self, *args, **kwargs)
        if result is not None:
            return getattr(result, "op", result)
        mine = {id(variable.handle) for variable in self.weights if hasattr(variable, "handle")}
        writes = [
            op
            for op in graph.get_operations()[before:]
            if op.definition.effect.kind == "write" and any(id(x) in mine for x in op.inputs)
        ]
        return tf.group(*writes)

    update._gives_operation = True  # type: ignore[attr-defined]
    update.__doc__ = update_state.__doc__
    return update


def _written(*ops: Any) -> Any:
    return None if state.is_eager() else tf.group(*[getattr(op, "op", op) for op in ops])


def _add(variable: Any, value: Any) -> Any:
    return tf.assign_add(variable, tf.cast(value, variable.dtype.base_dtype))


# ------------------------------------------------------------------------------------------------------ sums and means
@registry.add()
class Sum(Metric):
    """Sum of values, each times its weight."""

    def __init__(self, name: str = "sum", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.total = self.add_weight("total")

    def _weighed(self, values: Any, sample_weight: Any) -> tuple[Any, Any]:
        values = tf.cast(values, self.dtype)
        if sample_weight is None:
            return values, None
        weight = tf.cast(losses._fitted(values, tf.cast(sample_weight, self.dtype)), self.dtype)
        rank, wanted = K.ndim(values), K.ndim(weight)
        if rank is not None and wanted is not None and wanted < rank:
            values = tf.reduce_mean(values, list(range(wanted, rank)))
        return values * weight, weight * tf.ones_like(values)

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:
        """Take values in."""
        return _written(_add(self.total, tf.reduce_sum(self._weighed(values, sample_weight)[0])))

    def result(self) -> Any:
        """The sum."""
        return tf.identity(self.total)


@registry.add()
class Mean(Sum):
    """Weighted mean of values."""

    def __init__(self, name: str = "mean", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.count = self.add_weight("count")

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:
        """Take values in."""
        values, weight = self._weighed(values, sample_weight)
        number = tf.size(values) if weight is None else tf.reduce_sum(weight)
        return _written(_add(self.total, tf.reduce_sum(values)), _add(self.count, number))

    def result(self) -> Any:
        """The mean."""
        return tf.div_no_nan(tf.identity(self.total), tf.identity(self.count))


@registry.add()
class MeanRelativeError(Mean):
    """Mean of differences divided by a normalizer."""

    def __init__(self, normalizer: Any, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name or "mean_relative_error", dtype=dtype)
        self.normalizer = normalizer

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Take targets and predictions in."""
        y_true, y_pred = tf.cast(y_true, self.dtype), tf.cast(y_pred, self.dtype)
        error = tf.div_no_nan(tf.abs(y_true - y_pred), tf.cast(self.normalizer, self.dtype))
        return super().update_state(error, sample_weight)


@registry.add()
class MeanTensor(Metric):
    """Mean of each element of tensors of one shape."""

    def __init__(self, name: str = "mean_tensor", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.total: Any = None
        self.count: Any = None

    def update_state(self, values: Any, sample_weight: Any = None) -> Any:
        """Take a tensor in."""
        values = tf.cast(values, self.dtype)
        if self.total is None:
            self.total = self.add_weight("total", K.int_shape(values))
            self.count = self.add_weight("count", K.int_shape(values))
            if not state.is_eager():
                state.get_session()
        weight = tf.ones_like(values)
        if sample_weight is not None:
            weight = weight * tf.cast(losses._fitted(values, sample_weight), self.dtype)
        return _written(_add(self.total, values * weight), _add(self.count, weight))

    def result(self) -> Any:
        """The mean of each element."""
        return tf.div_no_nan(tf.identity(self.total), tf.identity(self.count))


@registry.add()
class MeanMetricWrapper(Mean):
    """Mean of a function of targets and predictions."""

    def __init__(self, fn: Any, name: str | None = None, dtype: Any = None, **kwargs: Any) -> None:
        super().__init__(name=name or fn.__name__, dtype=dtype)
        self._fn, self._fn_kwargs = fn, kwargs

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Take targets and predictions in."""
        y_true, y_pred = tf.cast(y_true, self.dtype), tf.cast(y_pred, self.dtype)
        return super().update_state(self._fn(y_true, y_pred, **self._fn_kwargs), sample_weight)

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {**super().get_config(), **self._fn_kwargs}


# ----------------------------------------------------------------------------------------------------------- functions


def _one_column(y: Any) -> Any:
    return tf.squeeze(y, [-1]) if K.ndim(y) and K.ndim(y) > 1 and K.int_shape(y)[-1] == 1 else y


@registry.add()
def accuracy(y_true: Any, y_pred: Any) -> Any:
    """Whether values are equal, as numbers."""
    y_pred = tf.convert_to_tensor(y_pred)
    return tf.cast(tf.equal(tf.cast(y_true, y_pred.dtype), y_pred), state.floatx())


@registry.add()
def binary_accuracy(y_true: Any, y_pred: Any, threshold: float = 0.5) -> Any:
    """Share of elements on the right side of a threshold ``[batch]``."""
    y_pred = tf.convert_to_tensor(y_pred)
    chosen = tf.cast(y_pred > threshold, y_pred.dtype)
    return tf.reduce_mean(tf.cast(tf.equal(tf.cast(y_true, y_pred.dtype), chosen), state.floatx()), -1)


@registry.add()
def categorical_accuracy(y_true: Any, y_pred: Any) -> Any:
    """Whether the greatest prediction is the target's class."""
    return tf.cast(tf.equal(tf.argmax(y_true, -1), tf.argmax(y_pred, -1)), state.floatx())


@registry.add()
def sparse_categorical_accuracy(y_true: Any, y_pred: Any) -> Any:
    """Whether the greatest prediction is the class number."""
    y_true, y_pred = tf.convert_to_tensor(y_true), tf.convert_to_tensor(y_pred)
    if K.ndim(y_true) == K.ndim(y_pred):
        y_true = tf.squeeze(y_true, [-1])
    return tf.cast(tf.equal(tf.cast(y_true, tf.int64), tf.argmax(y_pred, -1)), state.floatx())


@registry.add()
def top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Any:
    """Whether the target's class is among the ``k`` greatest predictions."""
    return tf.cast(tf.nn.in_top_k(y_pred, tf.argmax(y_true, -1), k), state.floatx())


@registry.add()
def sparse_top_k_categorical_accuracy(y_true: Any, y_pred: Any, k: int = 5) -> Any:
    """Whether the class number is among the ``k`` greatest predictions."""
    y_true = tf.cast(tf.reshape(y_true, [-1]), tf.int32)
    return tf.cast(tf.nn.in_top_k(y_pred, y_true, k), state.floatx())


def cosine_proximity(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
    """Cosine of the angle of vectors, for each sample, under the name that TensorFlow 1.15 reports it by."""
    return losses.cosine_similarity(y_true, y_pred, axis)


mean_squared_error = mse = MSE = losses.mean_squared_error
mean_absolute_error = mae = MAE = losses.mean_absolute_error
mean_absolute_percentage_error = mape = MAPE = losses.mean_absolute_percentage_error
mean_squared_logarithmic_error = msle = MSLE = losses.mean_squared_logarithmic_error
kullback_leibler_divergence = kld = KLD = losses.kullback_leibler_divergence
hinge, squared_hinge, categorical_hinge, logcosh = (
    losses.hinge,
    losses.squared_hinge,
    losses.categorical_hinge,
    losses.logcosh,
)
binary_crossentropy, poisson = losses.binary_crossentropy, losses.poisson
categorical_crossentropy, sparse_categorical_crossentropy = (
    losses.categorical_crossentropy,
    losses.sparse_categorical_crossentropy,
)
cosine = cosine_similarity = cosine_proximity
for _name, _function in losses.registry.objects.items():
    if isinstance(_function, types.FunctionType):
        registry.objects.setdefault(_name, _function)
registry.objects.update(cosine=cosine_proximity, cosine_proximity=cosine_proximity, cosine_similarity=cosine_proximity)


def _of_function(class_name: str, fn: Any, metric_name: str, **options: Any) -> Any:
    """A metric that is the mean of a function, with these options and their defaults."""
    order = ["name", "dtype"]
    order = [*(k for k in ("threshold", "k") if k in options), *order] if options.keys() & {"threshold", "k"} else order
    if class_name == "BinaryAccuracy":
        order = ["name", "dtype", "threshold"]
    order += [name for name in options if name not in order]

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = dict(zip(order, args, strict=False)) | kwargs
        name, dtype = given.pop("name", metric_name), given.pop("dtype", None)
        MeanMetricWrapper.__init__(self, fn, name, dtype, **{**options, **given})

    doc = f"Mean of {fn.__name__}."
    body = {"__init__": __init__, "__doc__": doc, "__module__": __name__}
    return registry.add()(type(class_name, (MeanMetricWrapper,), body))


def _plain_accuracy(y_true: Any, y_pred: Any) -> Any:
    return accuracy(_one_column(y_true), _one_column(y_pred))


Accuracy = _of_function("Accuracy", _plain_accuracy, "accuracy")
BinaryAccuracy = _of_function("BinaryAccuracy", binary_accuracy, "binary_accuracy", threshold=0.5)
CategoricalAccuracy = _of_function("CategoricalAccuracy", categorical_accuracy, "categorical_accuracy")
SparseCategoricalAccuracy = _of_function(
    "SparseCategoricalAccuracy", sparse_categorical_accuracy, "sparse_categorical_accuracy"
)
TopKCategoricalAccuracy = _of_function(
    "TopKCategoricalAccuracy", top_k_categorical_accuracy, "top_k_categorical_accuracy", k=5
)
SparseTopKCategoricalAccuracy = _of_function(
    "SparseTopKCategoricalAccuracy", sparse_top_k_categorical_accuracy, "sparse_top_k_categorical_accuracy", k=5
)
MeanSquaredError = _of_function("MeanSquaredError", mse, "mean_squared_error")
MeanAbsoluteError = _of_function("MeanAbsoluteError", mae, "mean_absolute_error")
MeanAbsolutePercentageError = _of_function("MeanAbsolutePercentageError", mape, "mean_absolute_percentage_error")
MeanSquaredLogarithmicError = _of_function("MeanSquaredLogarithmicError", msle, "mean_squared_logarithmic_error")
CosineSimilarity = _of_function("CosineSimilarity", cosine_proximity, "cosine_similarity", axis=-1)
Hinge = _of_function("Hinge", hinge, "hinge")
SquaredHinge = _of_function("SquaredHinge", squared_hinge, "squared_hinge")
CategoricalHinge = _of_function("CategoricalHinge", categorical_hinge, "categorical_hinge")
Poisson = _of_function("Poisson", poisson, "poisson")
LogCoshError = _of_function("LogCoshError", logcosh, "logcosh")
KLDivergence = _of_function("KLDivergence", kld, "kullback_leibler_divergence")
BinaryCrossentropy = _of_function(
    "BinaryCrossentropy", binary_crossentropy, "binary_crossentropy", from_logits=False, label_smoothing=0
)
CategoricalCrossentropy = _of_function(
    "CategoricalCrossentropy",
    categorical_crossentropy,
    "categorical_crossentropy",
    from_logits=False,
    label_smoothing=0,
)
SparseCategoricalCrossentropy = _of_function(
    "SparseCategoricalCrossentropy",
    sparse_categorical_crossentropy,
    "sparse_categorical_crossentropy",
    from_logits=False,
    axis=-1,
)


@registry.add()
class RootMeanSquaredError(Mean):
    """Root of the mean of squared differences."""

    def __init__(self, name: str = "root_mean_squared_error", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Take targets and predictions in."""
        y_true, y_pred = tf.cast(y_true, self.dtype), tf.cast(y_pred, self.dtype)
        return super().update_state(tf.squared_difference(_one_column(y_pred), _one_column(y_true)), sample_weight)

    def result(self) -> Any:
        """The root."""
        return tf.sqrt(super().result())


@registry.add()
class MeanIoU(Metric):
    """Mean over classes of intersection over union."""

    def __init__(self, num_classes: int, name: str | None = None, dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
        self.num_classes = num_classes
        self.total_cm = self.add_weight("total_confusion_matrix", (num_classes, num_classes))

    def update_state(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        """Take class numbers in."""
        flat = [tf.reshape(tf.cast(y, tf.int64), [-1]) for y in (y_true, y_pred)]
        weight = None if sample_weight is None else tf.reshape(tf.cast(sample_weight, self.dtype), [-1])
        matrix = tf.confusion_matrix(*flat, num_classes=self.num_classes, weights=weight, dtype=self.dtype)
        return _written(_add(self.total_cm, matrix))

    def result(self) -> Any:
        """The mean over the classes that occur."""
        matrix = tf.identity(self.total_cm)
        hits = tf.diag_part(matrix)
        union = tf.reduce_sum(matrix, 0) + tf.reduce_sum(matrix, 1) - hits
        seen = tf.reduce_sum(tf.cast(tf.not_equal(union, 0), self.dtype))
        return tf.div_no_nan(tf.reduce_sum(tf.div_no_nan(hits, union)), seen)

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {**super().get_config(), "num_classes": self.num_classes}


get = registry.get
serialize, deserialize = registry.public_functions("metric")
