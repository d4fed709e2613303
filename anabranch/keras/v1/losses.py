"""``tf.keras.losses`` of version 1: losses as functions, which give a value for each sample, and as classes."""

from __future__ import annotations

from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.keras.v1 import backend as K
from anabranch.keras.v1 import backend_nn, state
from anabranch.keras.v1.objects import Registry

registry = Registry("loss function")


class Reduction:
    """How a loss joins the values of the samples."""

    AUTO = "auto"
    NONE = "none"
    SUM = "sum"
    SUM_OVER_BATCH_SIZE = "sum_over_batch_size"

    @classmethod
    def all(cls) -> tuple[str, ...]:
        """All ways."""
        return (cls.AUTO, cls.NONE, cls.SUM, cls.SUM_OVER_BATCH_SIZE)

    @classmethod
    def validate(cls, key: str) -> None:
        """Refuse what is not a way: ValueError."""
        if key not in cls.all():
            raise ValueError(
                f"Invalid Reduction Key {key}.\n" + errors.message(repr(key), f"one of {cls.all()}", "Reduction.AUTO")
            )


# -------------------------------------------------------------------------------------------------- weights of samples


def _fitted(value: Any, weight: Any) -> Any:
    """Weights that broadcast to values: an axis of size 1 taken off or put on at the end."""
    weight = tf.convert_to_tensor(weight)
    rank, wanted = K.ndim(weight), K.ndim(value)
    if rank in (None, 0) or wanted is None:
        return weight
    if rank == wanted + 1 and K.int_shape(weight)[-1] == 1:
        return tf.squeeze(weight, [-1])
    while K.ndim(weight) < wanted:
        weight = tf.expand_dims(weight, -1)
    return weight


def weighted(values: Any, sample_weight: Any = None, reduction: str = Reduction.SUM_OVER_BATCH_SIZE) -> Any:
    """Values of samples, weighted and joined."""
    if sample_weight is not None:
        weight = _fitted(values, sample_weight)
        values = tf.cast(values, tf.float32 if values.dtype.is_integer else values.dtype)
        values = values * tf.cast(weight, values.dtype)
    if reduction == Reduction.NONE:
        return values
    total = tf.reduce_sum(values)
    if reduction == Reduction.SUM:
        return total
    return tf.div_no_nan(total, tf.cast(tf.size(values), total.dtype))


# ----------------------------------------------------------------------------------------------------------- functions


def _pair(y_true: Any, y_pred: Any) -> tuple[Any, Any]:
    y_pred = tf.convert_to_tensor(y_pred)
    return tf.cast(y_true, y_pred.dtype), y_pred


@registry.add("mse", "MSE")
def mean_squared_error(y_true: Any, y_pred: Any) -> Any:
    """Mean of squared differences ``[batch]``."""
    y_true, y_pred = _pair(y_true, y_pred)
    return tf.reduce_mean(tf.squared_difference(y_pred, y_true), -1)


@registry.add("mae", "MAE")
def mean_absolute_error(y_true: Any, y_pred: Any) -> Any:
    """Mean of absolute differences ``[batch]``."""
    y_true, y_pred = _pair(y_true, y_pred)
    return tf.reduce_mean(tf.abs(y_pred - y_true), -1)


@registry.add("mape", "MAPE")
def mean_absolute_percentage_error(y_true: Any, y_pred: Any) -> Any:
    """Mean of differences in percent of the targets ``[batch]``."""
    y_true, y_pred = _pair(y_true, y_pred)
    return 100.0 * tf.reduce_mean(tf.abs((y_true - y_pred) / K.clip(tf.abs(y_true), state.epsilon(), None)), -1)


@registry.add("msle", "MSLE")
def mean_squared_logarithmic_error(y_true: Any, y_pred: Any) -> Any:
    """Mean of squared differences of logarithms ``[batch]``."""
    y_true, y_pred = _pair(y_true, y_pred)
    logs = [tf.log(K.clip(y, state.epsilon(), None) + 1.0) for y in (y_pred, y_true)]
    return tf.reduce_mean(tf.square(logs[0] - logs[1]), -1)


def _signs(y_true: Any) -> Any:
    """Targets of 0 and 1 as -1 and 1; others as they are."""
    zero, one = tf.equal(y_true, 0), tf.equal(y_true, 1)
    is_binary = tf.reduce_all(tf.logical_or(zero, one))
    return tf.cond(is_binary, lambda: 2.0 * y_true - 1.0, lambda: y_true)


@registry.add()
def squared_hinge(y_true: Any, y_pred: Any) -> Any:
    """Mean of squared hinge losses ``[batch]``."""
    y_true, y_pred = _pair(y_true, y_pred)
    return tf.reduce_mean(tf.square(tf.maximum(1.0 - _signs(y_true) * y_pred, 0.0)), -1)


@registry.add()
def hinge(y_true: Any, y_pred: Any) -> Any:
    """Mean of hinge losses ``[batch]``."""
    y_true, y_pred = _pair(y_true, y_pred)
    return tf.reduce_mean(tf.maximum(1.0 - _signs(y_true) * y_pred, 0.0), -1)


@registry.add()
def categorical_hinge(y_true: Any, y_pred: Any) -> Any:
    """Hinge loss of the true class against the best other one ``[batch]``."""
    y_true, y_pred = _pair(y_true, y_pred)
    positive = tf.reduce_sum(y_true * y_pred, -1)
    return tf.maximum(0.0, tf.reduce_max((1.0 - y_true) * y_pred, -1) - positive + 1.0)


def huber_loss(y_true: Any, y_pred: Any, delta: float = 1.0) -> Any:
    """Squares of small and multiples of great differences, element by element."""
    y_true, y_pred = _pair(y_true, y_pred)
    size = tf.abs(y_pred - y_true)
    quadratic = tf.minimum(size, tf.cast(delta, size.dtype))
    return 0.5 * quadratic * quadratic + delta * (size - quadratic)


registry.objects["huber_loss"] = huber_loss


@registry.add()
def logcosh(y_true: Any, y_pred: Any) -> Any:
    """Mean logarithm of the hyperbolic cosine of differences ``[batch]``."""
    y_true, y_pred = _pair(y_true, y_pred)
    x = y_pred - y_true
    return tf.reduce_mean(x + tf.nn.softplus(-2.0 * x) - tf.cast(tf.log(2.0), x.dtype), -1)


@registry.add()
def categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0) -> Any:
    """Cross-entropy of distributions ``[batch, classes]``, for each sample."""
    y_true, y_pred = _pair(y_true, y_pred)
    if not isinstance(label_smoothing, (int, float)) or label_smoothing:
        classes = tf.cast(tf.shape(y_true)[1], y_pred.dtype)
        y_true = y_true * (1.0 - label_smoothing) + label_smoothing / classes
    return backend_nn.categorical_crossentropy(y_true, y_pred, from_logits=from_logits)


@registry.add()
def sparse_categorical_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False, axis: int = -1) -> Any:
    """Cross-entropy of class numbers ``[batch]`` and distributions ``[batch, classes]``, for each sample."""
    return backend_nn.sparse_categorical_crossentropy(y_true, y_pred, from_logits=from_logits, axis=axis)


@registry.add()
def binary_crossentropy(y_true: Any, y_pred: Any, from_logits: bool = False, label_smoothing: float = 0) -> Any:
    """Mean cross-entropy of elements ``[batch]``."""
    y_true, y_pred = _pair(y_true, y_pred)
    if not isinstance(label_smoothing, (int, float)) or label_smoothing:
        y_true = y_true * (1.0 - label_smoothing) + 0.5 * label_smoothing
    return tf.reduce_mean(backend_nn.binary_crossentropy(y_true, y_pred, from_logits=from_logits), -1)


@registry.add("kld", "KLD")
def kullback_leibler_divergence(y_true: Any, y_pred: Any) -> Any:
    """Kullback-Leibler divergence of distributions ``[batch, classes]``, for each sample."""
    y_true, y_pred = _pair(y_true, y_pred)
    y_true, y_pred = (K.clip(y, state.epsilon(), 1) for y in (y_true, y_pred))
    return tf.reduce_sum(y_true * tf.log(y_true / y_pred), -1)


@registry.add()
def poisson(y_true: Any, y_pred: Any) -> Any:
    """Mean Poisson loss ``[batch]``."""
    y_true, y_pred = _pair(y_true, y_pred)
    return tf.reduce_mean(y_pred - y_true * tf.log(y_pred + state.epsilon()), -1)


@registry.add("cosine", "cosine_proximity")
def cosine_similarity(y_true: Any, y_pred: Any, axis: int = -1) -> Any:
    """Cosine of the angle of vectors, for each sample; of this sign in TensorFlow 1.15."""
    y_true, y_pred = _pair(y_true, y_pred)
    return tf.reduce_sum(tf.nn.l2_normalize(y_true, axis=axis) * tf.nn.l2_normalize(y_pred, axis=axis), axis)


# ------------------------------------------------------------------------------------------------------------- classes


@registry.add()
class Loss:
    """Base of losses as objects: :meth:`call` gives a value for each sample, the object joins them.

    Args:
        reduction: how: the mean over all elements (``AUTO``), ``SUM``, or ``NONE``.
        name: name of the loss.
    """

    def __init__(self, reduction: str = Reduction.AUTO, name: str | None = None) -> None:
        Reduction.validate(reduction)
        self.reduction, self.name = reduction, name

    def __call__(self, y_true: Any, y_pred: Any, sample_weight: Any = None) -> Any:
        with tf.name_scope(self.name or type(self).__name__):
            values = self.call(y_true, y_pred)
            return weighted(values, sample_weight, self.reduction)

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """The loss of each sample."""
        raise NotImplementedError("Must be implemented in subclasses.")

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Any:
        """The loss that a config describes."""
        return cls(**config)

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {"reduction": self.reduction, "name": self.name}


class LossFunctionWrapper(Loss):
    """A function ``(y_true, y_pred)`` as a loss."""

    def __init__(self, fn: Any, reduction: str = Reduction.AUTO, name: str | None = None, **kwargs: Any) -> None:
        super().__init__(reduction, name)
        self.fn, self._kwargs = fn, kwargs

    def call(self, y_true: Any, y_pred: Any) -> Any:
        """The loss of each sample."""
        return self.fn(y_true, y_pred, **self._kwargs)

    def get_config(self) -> dict[str, Any]:
        """The arguments."""
        return {**super().get_config(), **self._kwargs}


def _as_class(name: str, fn: Any, **options: Any) -> Any:
    """A loss as a class: of a function, with these options and their defaults."""

    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        given = dict(zip([*options, "reduction", "name"], args, strict=False)) | kwargs
        unknown = set(given) - {*options, "reduction", "name"}
        if unknown:
            raise TypeError(
                f"{name} got an unexpected keyword argument {sorted(unknown)[0]!r}\n"
                + errors.message(str(sorted(unknown)), f"arguments {[*options, 'reduction', 'name']}", f"{name}()")
            )
        LossFunctionWrapper.__init__(
            self,
            fn,
            given.pop("reduction", Reduction.AUTO),
            given.pop("name", fn.__name__),
            **{**options, **given},
        )

    doc = f"The loss {fn.__name__} as an object."
    return registry.add()(
        type(name, (LossFunctionWrapper,), {"__init__": __init__, "__doc__": doc, "__module__": __name__})
    )


MeanSquaredError = _as_class("MeanSquaredError", mean_squared_error)
MeanAbsoluteError = _as_class("MeanAbsoluteError", mean_absolute_error)
MeanAbsolutePercentageError = _as_class("MeanAbsolutePercentageError", mean_absolute_percentage_error)
MeanSquaredLogarithmicError = _as_class("MeanSquaredLogarithmicError", mean_squared_logarithmic_error)
BinaryCrossentropy = _as_class("BinaryCrossentropy", binary_crossentropy, from_logits=False, label_smoothing=0)
CategoricalCrossentropy = _as_class(
    "CategoricalCrossentropy", categorical_crossentropy, from_logits=False, label_smoothing=0
)
SparseCategoricalCrossentropy = _as_class(
    "SparseCategoricalCrossentropy", sparse_categorical_crossentropy, from_logits=False
)
Hinge = _as_class("Hinge", hinge)
SquaredHinge = _as_class("SquaredHinge", squared_hinge)
CategoricalHinge = _as_class("CategoricalHinge", categorical_hinge)
Poisson = _as_class("Poisson", poisson)
LogCosh = _as_class("LogCosh", logcosh)
KLDivergence = _as_class("KLDivergence", kullback_leibler_divergence)
Huber = _as_class("Huber", huber_loss, delta=1.0)
CosineSimilarity = _as_class("CosineSimilarity", cosine_similarity, axis=-1)

mse = MSE = mean_squared_error
mae = MAE = mean_absolute_error
mape = MAPE = mean_absolute_percentage_error
msle = MSLE = mean_squared_logarithmic_error
kld = KLD = kullback_leibler_divergence
cosine = cosine_proximity = cosine_similarity
get = registry.get
serialize, deserialize = registry.public_functions("loss", "name")


def as_loss(identifier: Any) -> Loss:
    """A loss by its name, config or function, as an object."""
    found = get(identifier)
    if isinstance(found, type) and issubclass(found, Loss):
        found = found()
    if isinstance(found, Loss):
        return found
    return LossFunctionWrapper(found, name=getattr(found, "__name__", type(found).__name__))
