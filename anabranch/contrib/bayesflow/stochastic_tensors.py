"""Tensors that are values of distributions: samples or means."""

from __future__ import annotations

import abc
import contextlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import anabranch as tf
from anabranch.contrib.bayesflow.gradient_estimators import score_function
from anabranch.core import errors
from anabranch.core.contract.api import public

COLLECTION = "_stochastic_tensor_collection_"
_HOME = "contrib.bayesflow.stochastic_tensor."


class ValueType:
    """What the value of a stochastic tensor is.

    Args:
        stop_gradient: no gradient passes through it.
    """

    def __init__(self, stop_gradient: bool = False) -> None:
        self._stop_gradient = stop_gradient

    @property
    def stop_gradient(self) -> bool:
        """Whether no gradient passes through the value."""
        return self._stop_gradient


@public(_HOME + "MeanValue")
class MeanValue(ValueType):
    """The mean of the distribution; ``stop_gradient``: no gradient passes through it."""


@public(_HOME + "SampleValue")
class SampleValue(ValueType):
    """Samples of the distribution.

    Args:
        shape: of the samples; one sample by default.
        stop_gradient: no gradient passes through them.
    """

    def __init__(self, shape: Any = (), stop_gradient: bool = False) -> None:
        super().__init__(stop_gradient)
        self._shape = shape

    @property
    def shape(self) -> Any:
        """The shape of the samples."""
        return self._shape


class _Types(threading.local):
    def __init__(self) -> None:
        self.stack: list[ValueType] = []


_types = _Types()


class NoValueTypeSetError(ValueError):
    """There is no value type around."""


@public(_HOME + "value_type")
@contextlib.contextmanager
def value_type(dist_value_type: ValueType) -> Iterator[None]:
    """What values of stochastic tensors are that are made in the block.

    Raises:
        TypeError: not a :class:`MeanValue` or :class:`SampleValue`.
    """
    if not isinstance(dist_value_type, ValueType):
        raise TypeError(
            "dist_value_type must be a Distribution Value Type\n"
            + errors.message(f"{dist_value_type!r}", "a MeanValue or a SampleValue", "value_type(MeanValue())")
        )
    _types.stack.append(dist_value_type)
    try:
        yield
    finally:
        _types.stack.pop()


@public(_HOME + "get_current_value_type")
def get_current_value_type() -> ValueType:
    """The value type of the innermost block.

    Raises:
        ValueError: there is none.
    """
    if not _types.stack:
        raise NoValueTypeSetError(
            "No value type currently set for this thread. Did you forget to wrap 'with "
            "stochastic_graph.value_type(...)'?\n"
            + errors.message("no block of value_type", "a block around the call", "with value_type(SampleValue()): ...")
        )
    return _types.stack[-1]


@public(_HOME + "BaseStochasticTensor")
class BaseStochasticTensor(abc.ABC):
    """Base class of what has a random value; it enters the graph's collection, and converts to its value."""

    def __init__(self) -> None:
        tf.add_to_collection(COLLECTION, self)

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Its name scope."""

    @property
    @abc.abstractmethod
    def dtype(self) -> Any:
        """The dtype of the value."""

    @property
    @abc.abstractmethod
    def graph(self) -> Any:
        """The graph of the value."""

    @abc.abstractmethod
    def value(self, name: str | None = None) -> Any:
        """The value, the same each time."""

    @abc.abstractmethod
    def loss(self, sample_loss: Any) -> Any:
        """What it adds to a loss that follows from its value, or None."""


def _converted(value: BaseStochasticTensor, dtype: Any = None, name: str | None = None, as_ref: bool = False) -> Any:
    if as_ref or (dtype is not None and not tf.as_dtype(dtype).is_compatible_with(value.dtype)):
        raise ValueError(
            f"Incompatible type conversion requested to type '{dtype}' for variable of type '{value.dtype.name}'\n"
            + errors.message(f"a value of dtype {value.dtype.name}", "its own dtype", "tf.cast(tensor.value(), dtype)")
        )
    return value.value()


tf.register_tensor_conversion_function(BaseStochasticTensor, _converted)


def _checked(dist: Any) -> Any:
    if not isinstance(dist, tf.distributions.Distribution):
        raise TypeError(
            "dist must be an instance of Distribution\n"
            + errors.message(f"a {type(dist).__name__}", "a distribution", "tf.distributions.Normal(0.0, 1.0)")
        )
    return dist


@public(_HOME + "StochasticTensor")
class StochasticTensor(BaseStochasticTensor):
    """A value of a distribution.

    Args:
        dist: the distribution.
        name: of the scope.
        dist_value_type: what the value is; that of the block around, else a sample.
        loss_fn: called with this tensor, its value and the loss that follows, it gives what is added to the loss where
            no gradient passes through the value; None for nothing.

    Raises:
        TypeError: ``dist`` is not a distribution, or ``loss_fn`` not a function.

    >>> with tf.Graph().as_default(), tf.Session() as session:
    ...     flow = tf.contrib.bayesflow
    ...     p = tf.Variable(0.0)
    ...     coin = flow.stochastic_tensor.StochasticTensor(
    ...         tf.distributions.Bernoulli(logits=p, dtype=tf.float32),
    ...         dist_value_type=flow.stochastic_tensor.SampleValue(10000))
    ...     loss = tf.reduce_mean(flow.stochastic_graph.surrogate_loss([tf.square(coin.value() - 0.2)]))
    ...     (slope,) = tf.gradients(loss, p)
    ...     session.run(tf.global_variables_initializer())
    ...     bool(abs(session.run(slope) - 0.15) < 0.02)
    True
    """

    def __init__(
        self,
        dist: Any,
        name: str = "StochasticTensor",
        dist_value_type: ValueType | None = None,
        loss_fn: Callable[..., Any] | None = score_function,
    ) -> None:
        self._dist = _checked(dist)
        if loss_fn is not None and not callable(loss_fn):
            raise TypeError(
                "loss_fn must be callable\n"
                + errors.message(f"loss_fn={loss_fn!r}", "a function, or None", "loss_fn=score_function")
            )
        if dist_value_type is not None:
            with value_type(dist_value_type):
                self._value_type = get_current_value_type()
        else:
            self._value_type = _types.stack[-1] if _types.stack else SampleValue()
        self._loss_fn = loss_fn
        with tf.name_scope(name) as scope:
            self._name = scope
            self._value = self._made()
        super().__init__()

    def _made(self) -> Any:
        kind = self._value_type
        if isinstance(kind, SampleValue):
            value = self._dist.sample(kind.shape)
        elif isinstance(kind, MeanValue):
            value = self._dist.mean()
        else:
            raise TypeError(errors.message(f"a {type(kind).__name__}", "a MeanValue or a SampleValue", "SampleValue()"))
        passes = isinstance(kind, MeanValue) or self._is_function_of_parameters
        return value if passes and not kind.stop_gradient else tf.stop_gradient(value)

    @property
    def _is_function_of_parameters(self) -> bool:
        return bool(self._dist.reparameterization_type == tf.distributions.FULLY_REPARAMETERIZED)

    @property
    def value_type(self) -> ValueType:
        """What the value is."""
        return self._value_type

    @property
    def distribution(self) -> Any:
        """The distribution."""
        return self._dist

    @property
    def name(self) -> str:
        """Its name scope."""
        return self._name

    @property
    def graph(self) -> Any:
        """The graph of the value."""
        return self._value.graph

    @property
    def dtype(self) -> Any:
        """The dtype of the value."""
        return self._dist.dtype

    def entropy(self, name: str = "entropy") -> Any:
        """The entropy of the distribution."""
        return self._dist.entropy(name=name)

    def mean(self, name: str = "mean") -> Any:
        """The mean of the distribution."""
        return self._dist.mean(name=name)

    def value(self, name: str | None = "value") -> Any:
        """The value, the same each time."""
        return self._value

    def loss(self, sample_loss: Any, name: str = "Loss") -> Any:
        """What it adds to a loss that follows; None where gradients pass through the value, or without ``loss_fn``."""
        kind = self._value_type
        if self._loss_fn is None or (
            not kind.stop_gradient and (isinstance(kind, MeanValue) or self._is_function_of_parameters)
        ):
            return None
        with tf.name_scope(self._name, values=[sample_loss]), tf.name_scope(name):
            return self._loss_fn(self, self._value, sample_loss)


@public(_HOME + "ObservedStochasticTensor")
class ObservedStochasticTensor(StochasticTensor):
    """A distribution with a value that has been observed; it adds nothing to losses.

    Args:
        dist: the distribution.
        value: of its shape, or with axes of samples before it.
        name: of the scope.

    Raises:
        TypeError: ``dist`` is not a distribution. ValueError: the value has another shape or dtype.
    """

    def __init__(self, dist: Any, value: Any, name: str | None = None) -> None:
        self._dist = _checked(dist)
        self._value_type, self._loss_fn = SampleValue(), None
        with tf.name_scope(name, "ObservedStochasticTensor", [value]) as scope:
            self._name = scope
            value = tf.convert_to_tensor(value)
            wanted = self._dist.batch_shape.concatenate(self._dist.event_shape)
            if value.shape.ndims is not None and wanted.ndims is not None:
                if value.shape.ndims < wanted.ndims:
                    raise ValueError(
                        f"Rank of observed value ({value.shape.ndims}) must be >= rank of a sample from the "
                        f"distribution ({wanted.ndims}).\n"
                        + errors.message(
                            f"a value of shape {value.shape}", f"[..., *{wanted}]", "tf.expand_dims(value, 0)"
                        )
                    )
                if not value.shape[value.shape.ndims - wanted.ndims :].is_compatible_with(wanted):
                    raise ValueError(
                        f"Shape of observed value {value.shape} is incompatible with the shape of a sample from the "
                        f"distribution {wanted}.\n"
                        + errors.message(
                            f"a value of shape {value.shape}", f"[..., *{wanted}]", "tf.reshape(value, shape)"
                        )
                    )
            if value.dtype != self._dist.dtype:
                raise ValueError(
                    f"Type of observed value ({value.dtype}) does not match type of distribution "
                    f"({self._dist.dtype}).\n"
                    + errors.message(f"{value.dtype.name}", f"{self._dist.dtype.name}", "tf.cast(value, dist.dtype)")
                )
            self._value = tf.identity(value)
        BaseStochasticTensor.__init__(self)
