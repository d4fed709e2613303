"""``tf.contrib.eager.metrics``: metrics that hold their variables, in a graph and where ops run at once."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import anabranch as tf
from anabranch.core import errors
from anabranch.core.contract.api import module_attributes, public
from anabranch.core.graph.builder import current_builder
from anabranch.variables.tracking import Trackable

__getattr__, __dir__ = module_attributes("contrib.eager.metrics")


@public("contrib.eager.metrics.Metric")
class Metric(Trackable):
    """Base of metrics: make variables in :meth:`build`, update them in :meth:`call`, compute in :meth:`result`.

    Args:
        name: name of the variables' scope; the class's name if None.
        use_global_variables: whether the variables are global ones, which savers save, rather than local ones.

    In a graph, calling a metric gives what to run for an update; :meth:`call` is a function of the graph, whose updates
    all run, in their order.
    """

    def __init__(self, name: str | None = None, use_global_variables: bool = False) -> None:
        self._built = False
        self._vars: list[Any] = []
        self._initial_values: dict[Any, Any] = {}
        self._use_global_variables = use_global_variables
        name = name or type(self).__name__
        scope_name = re.sub("[^A-Za-z0-9.]", "_", name)
        with tf.variable_scope(scope_name, use_resource=True, reuse=False) as scope:
            position = scope.name.rfind(scope_name)
            self._name = name + scope.name[position + len(scope_name) :]
            self._scope = scope
        self._builder = current_builder()
        self._build_once = self.build
        self.build = self._build_and_note  # type: ignore[method-assign]
        if self._builder.defers:
            self.call = tf.contrib.eager.defun(self.call)  # type: ignore[method-assign]

    def _build_and_note(self, *args: Any, **kwargs: Any) -> None:
        self._build_once(*args, **kwargs)
        self._built = True

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Update the metric, or give what updates it where a graph is built; arguments as for :meth:`call`."""
        if not self._built:
            with tf.variable_scope(self._scope), self._builder.as_default():
                self.build(*args, **kwargs)
        return self.call(*args, **kwargs)

    @property
    def name(self) -> str:
        """The metric's name."""
        return self._name

    @property
    def variables(self) -> list[Any]:
        """The metric's variables."""
        return self._vars

    def init_variables(self) -> Any:
        """Set the variables back to their first values: now, or by the op that is returned where a graph is built."""
        if current_builder().defers:
            return tf.group(*[variable.initializer for variable in self._vars])
        for variable in self._vars:
            variable.assign(self._initial_values[variable])
        return None

    def build(self, *args: Any, **kwargs: Any) -> None:
        """Make the variables, with :meth:`add_variable`; called once, with the arguments of the first call."""
        raise NotImplementedError("Metrics must define a build() member function")

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Update the variables."""
        raise NotImplementedError("Metrics must define a call() member function")

    def result(self) -> Any:
        """The value of the metric."""
        raise NotImplementedError("Metrics must define a result() member function")

    def value(self) -> Any:
        """The value as a tensor where a graph is built; :meth:`result` itself where ops run at once."""
        return self.result() if current_builder().defers else self.result

    def aggregate(self, metrics: Sequence[Metric]) -> None:
        """Add what other metrics of the same type have seen.

        Raises:
            TypeError: a metric is of another type. ValueError: their variables differ.
        """
        for metric in metrics:
            if type(metric) is not type(self):
                raise TypeError(
                    f"All metrics must be the same type, '{type(self)}' != '{type(metric)}'.\n"
                    + errors.message(f"a {type(metric).__name__}", f"{type(self).__name__}", "metrics of one type")
                )
        for i, variable in enumerate(self._vars):
            if any(metric._vars[i].name != variable.name for metric in metrics):
                raise ValueError(
                    "All metrics must have variables in the same order.\n"
                    + errors.message(f"other names than {variable.name!r}", "the same names", "metrics of one model")
                )
            variable.assign_add(tf.add_n([metric._vars[i] for metric in metrics]))

    def add_variable(self, name: str, shape: Any = None, dtype: Any = None, initializer: Any = None) -> Any:
        """A variable of the metric, made in :meth:`build`; zeros if no initializer is given.

        Raises:
            RuntimeError: the metric is built.
        """
        if self._built:
            raise RuntimeError(
                "Can't call add_variable() except in build().\n"
                + errors.message(f"add_variable({name!r}) of a metric that is built", "a call in build", "def build")
            )
        if not self._builder.defers:
            collections = None
        elif self._use_global_variables:
            collections = [tf.GraphKeys.GLOBAL_VARIABLES]
        else:
            collections = [tf.GraphKeys.LOCAL_VARIABLES]
        collections = None if collections is None else [*collections, tf.GraphKeys.METRIC_VARIABLES]
        variable = tf.get_variable(
            name,
            shape=shape,
            dtype=dtype,
            initializer=initializer,
            trainable=False,
            collections=collections,
            use_resource=True,
        )
        self._vars.append(variable)
        self._track_trackable(variable, name, overwrite=True)
        if not self._builder.defers:
            self._initial_values[variable] = variable.value()
        return variable


@public("contrib.eager.metrics.Mean")
class Mean(Metric):
    """The mean of values, which may be weighted.

    Args:
        name: name of the metric.
        dtype: dtype of what is added up.
        use_global_variables: see :class:`Metric`.

    Example:
        >>> import anabranch as tf
        >>> from anabranch.eager import mode
        >>> with mode.eager_mode():
        ...     mean = tf.contrib.eager.metrics.Mean()
        ...     _ = mean([1.0, 2.0, 6.0])
        ...     float(mean.result())
        3.0
    """

    def __init__(self, name: str | None = None, dtype: Any = tf.float64, use_global_variables: bool = False) -> None:
        super().__init__(name=name, use_global_variables=use_global_variables)
        self.dtype = dtype

    def build(self, *args: Any, **kwargs: Any) -> None:
        """Make the sum and the count."""
        zeros = tf.zeros_initializer
        self.numer = self.add_variable(name="numer", shape=(), dtype=self.dtype, initializer=zeros)
        self.denom = self.add_variable(name="denom", shape=(), dtype=self.dtype, initializer=zeros)

    def call(self, values: Any, weights: Any = None) -> Any:
        """Add values ``[...]``, each with a weight of a shape that broadcasts; return the arguments."""
        if weights is None:
            self.denom.assign_add(tf.cast(tf.identity(tf.size(values)), self.dtype))
            values = tf.reduce_sum(values)
            self.numer.assign_add(tf.cast(values, self.dtype))
            return values
        weights = tf.cast(weights, self.dtype)
        self.denom.assign_add(tf.reduce_sum(weights))
        values = tf.cast(values, self.dtype) * weights
        self.numer.assign_add(tf.reduce_sum(values))
        return values, weights

    def result(self, write_summary: Any = True) -> Any:
        """The mean; a scalar summary of it is written to the default writer, if there is one, unless told otherwise."""
        condition = write_summary if isinstance(write_summary, tf.Tensor) else tf.convert_to_tensor(write_summary)
        mean = self.numer / self.denom

        def with_summary() -> Any:
            tf.contrib.summary.scalar(name=self.name, tensor=mean)
            return mean

        tf.contrib.framework.smart_cond(condition, with_summary, lambda: mean, name="")
        return mean


def _matches(metric: Mean, matches: Any, weights: Any, arguments: tuple[Any, ...]) -> Any:
    """Add what is right and wrong; return the arguments of the call."""
    Mean.call(metric, tf.cast(matches, metric.dtype), weights=weights)
    return arguments if weights is None else (*arguments, weights)


class _Accuracy(Mean):
    def __init__(self, name: str | None = None, dtype: Any = tf.float64) -> None:
        super().__init__(name=name, dtype=dtype)


def _assert_one_shape(labels: Any, predictions: Any) -> None:
    message = "Shapes of labels and predictions are unequal"
    tf.assert_equal(tf.shape(labels), tf.shape(predictions), message=message)


@public("contrib.eager.metrics.Accuracy")
class Accuracy(_Accuracy):
    """How often predictions equal labels."""

    def call(self, labels: Any, predictions: Any, weights: Any = None) -> Any:  # type: ignore[override]
        """Add labels and predictions of one shape; return the arguments."""
        _assert_one_shape(labels, predictions)
        return _matches(self, tf.equal(labels, predictions), weights, (labels, predictions))


@public("contrib.eager.metrics.CategoricalAccuracy")
class CategoricalAccuracy(_Accuracy):
    """How often the greatest prediction is that of the label, which is one-hot."""

    def call(self, labels: Any, predictions: Any, weights: Any = None) -> Any:  # type: ignore[override]
        """Add labels and predictions ``[..., classes]``; return the classes."""
        _assert_one_shape(labels, predictions)
        labels, predictions = tf.argmax(labels, axis=-1), tf.argmax(predictions, axis=-1)
        return _matches(self, tf.equal(labels, predictions), weights, (labels, predictions))


@public("contrib.eager.metrics.BinaryAccuracy")
class BinaryAccuracy(_Accuracy):
    """How often a prediction is on the label's side of a threshold.

    Args:
        threshold: above it a prediction is 1: 0.5 for probabilities, 0 for logits.
        name: name of the metric.
        dtype: dtype of what is added up.
    """

    def __init__(self, threshold: Any, name: str | None = None, dtype: Any = tf.float64) -> None:
        super().__init__(name=name, dtype=dtype)
        self.threshold = threshold

    def call(self, labels: Any, predictions: Any, weights: Any = None) -> Any:  # type: ignore[override]
        """Add labels and predictions of one shape; return them as bools."""
        _assert_one_shape(labels, predictions)
        predictions = tf.convert_to_tensor(predictions) > self.threshold
        labels = tf.cast(labels, tf.bool)
        return _matches(self, tf.equal(labels, predictions), weights, (labels, predictions))


@public("contrib.eager.metrics.SparseAccuracy")
class SparseAccuracy(_Accuracy):
    """How often the greatest prediction is that of the label, a number."""

    def call(self, labels: Any, predictions: Any, weights: Any = None) -> Any:  # type: ignore[override]
        """Add labels ``[batch]`` and predictions ``[batch, classes]``; return labels and classes."""
        message = "First axis of labels and predictions is unequal"
        tf.assert_equal(tf.shape(labels), tf.shape(predictions)[0], message=message)
        predictions = tf.argmax(predictions, axis=-1)
        labels = tf.cast(labels, tf.int64)
        return _matches(self, tf.equal(labels, predictions), weights, (labels, predictions))


__all__ = ["Accuracy", "BinaryAccuracy", "CategoricalAccuracy", "Mean", "Metric", "SparseAccuracy"]
